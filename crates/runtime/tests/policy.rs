//! Rules about calls from outside: what loads, what their examples are worth, what they decide, and who has the last
//! word.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot be set up is a failed test")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{AgentName, Level, Verdict};
use toolgate_runtime::{
    OpenError, Runtime, Setup, Trial, built_in_tools,
    config::{Config, ConfigError, ContainerNetwork, Place, Sources, check_text, read_tests},
    store::SqliteStore,
};

/// The files config is read from.
struct House {
    dir: TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etc", "home", "project", "data"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        Self { dir }
    }

    fn file(&self, place: &str) -> PathBuf {
        self.dir.path().join(place).join("toolgate.yaml")
    }

    fn put(&self, place: &str, text: &str) -> &Self {
        fs::write(self.file(place), text).unwrap();
        self
    }

    fn load(&self) -> Result<Config, Vec<ConfigError>> {
        Config::load(&Sources {
            admin: Some(self.file("etc")),
            explicit: None,
            user: Some(self.file("home")),
            project: Some(self.file("project")),
            clients: Vec::new(),
            data_dir: self.dir.path().join("data"),
            cwd: self.dir.path().join("project"),
            workspace: None,
        })
    }

    fn setup(&self) -> Setup {
        let config = self.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
        let store = Arc::new(SqliteStore::open(&self.dir.path().join("data")).unwrap());
        Setup { config, store, state: None, tools: built_in_tools(), hidden: Vec::new(), rooms: None, secrets: None }
    }

    fn open(&self) -> Runtime {
        Runtime::open(self.setup()).unwrap()
    }

    fn errors(&self) -> Vec<ConfigError> {
        match Runtime::open(self.setup()) {
            Err(OpenError::Config(errors)) => errors,
            other => panic!("{other:?}"),
        }
    }
}

fn page(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn decided(runtime: &Runtime, agent: &str, tool: &str, arguments: Value) -> (Verdict, Vec<String>) {
    let decided = runtime.preview(&runtime.call(&AgentName::from(agent), tool, arguments)).unwrap();
    (decided.verdict, runtime.deciders(&decided))
}

fn by(verdict: Verdict, deciders: &[&str]) -> (Verdict, Vec<String>) {
    (verdict, deciders.iter().map(ToString::to_string).collect())
}

const RULE: &str = "policy:
  rules:
    - id: no-env
      verdict: deny
      tools: [write, edit]
      when: 'ends_with(args.path, \".env\")'
      because: it holds secrets
      instead: name the variable in README.md
      match:
        - { tool: write, arguments: { path: a/.env, content: x } }
      not_match:
        - { tool: write, arguments: { path: a.md, content: x } }
";

#[test]
fn a_rule_denies_with_its_line_its_reason_and_what_to_do_instead() {
    let house = House::new();
    let runtime = house.put("home", RULE).open();
    assert_eq!(
        decided(&runtime, "default", "write", json!({ "path": ".env", "content": "" })),
        by(Verdict::Deny, &["no-env"])
    );
    assert_eq!(
        decided(&runtime, "default", "write", json!({ "path": "a", "content": "" })),
        by(Verdict::Allow, &["level"])
    );
    let call = runtime.call(&AgentName::from("default"), "write", json!({ "path": ".env", "content": "" }));
    let reasons = runtime.preview(&call).unwrap().reasons;
    let text = "rule `no-env` denies it: it holds secrets";
    assert_eq!((reasons[0].text.as_str(), reasons[0].source.line), (text, 3));
}

#[test]
fn every_part_of_a_rule_must_fit() {
    let house = House::new();
    let check = |parts: &str, expected: [Verdict; 4]| {
        let agents = "agents: { a: { roles: [dev] }, b: {} }\n";
        let text = format!("{agents}policy:\n  rules:\n    - {{ id: r, verdict: ask, because: x, {parts} }}\n");
        let runtime = house.put("home", &text).open();
        let found = [("a", "read"), ("b", "read"), ("a", "delete"), ("b", "ls")]
            .map(|(agent, tool)| decided(&runtime, agent, tool, json!({ "path": "a.txt" })).0);
        assert_eq!(found, expected, "{parts}");
    };
    use Verdict::{Allow as A, Ask};
    check("tools: [read]", [Ask, Ask, A, A]);
    check("tools: [\"re*\"]", [Ask, Ask, A, A]);
    check("tools: [\"*\"]", [Ask, Ask, Ask, Ask]);
    check("actions: [code:delete]", [A, A, Ask, A]);
    check("actions: [code]", [Ask, Ask, Ask, Ask]);
    check("agents: [b]", [A, Ask, A, Ask]);
    check("roles: [dev]", [Ask, A, Ask, A]);
    check("classes: [write]", [A, A, Ask, A]);
    check("risk_at_least: high", [A, A, Ask, A]);
    check("when: 'tool == \"ls\"'", [A, A, A, Ask]);
    check("tools: [read], agents: [b]", [A, Ask, A, A]);
    check("tools: [read], actions: [code:delete]", [A, A, A, A]);
    check("roles: [dev], when: 'tool == \"ls\"'", [A, A, A, A]);
}

/// Every list there is, once for all agents and once for one: what it says binds those it is written for, with the reason
/// that is written beside it.
#[test]
fn every_list_speaks_for_all_agents_and_for_one() {
    use Verdict::{Allow, Ask, Deny};
    let house = House::new();
    let check = |list: &str, tool: &str, arguments: Value, expected: Verdict| {
        let level = if list.starts_with("allowed") { "custom" } else { "standard" };
        let agents = |more: &str| format!("agents: {{ a: {{ level: {level}{more} }}, b: {{ level: {level} }} }}\n");
        let both = format!("{}policy: {{ {list} }}\n", agents(""));
        let one = agents(&format!(", {list}"));
        let other = if level == "custom" { Deny } else { Allow };
        for (text, expected) in [(both, [expected; 2]), (one, [expected, other])] {
            let runtime = house.put("home", &text).open();
            let found = ["a", "b"].map(|agent| decided(&runtime, agent, tool, arguments.clone()).0);
            assert_eq!(found, expected, "{text}");
            let reasons =
                runtime.preview(&runtime.call(&AgentName::from("a"), tool, arguments.clone())).unwrap().reasons;
            let is_told = reasons.iter().any(|reason| reason.text.ends_with(": it is kept"));
            assert_eq!(is_told, list.contains("because"), "{text}");
        }
    };
    for (list, expected) in [("denied", Deny), ("ask", Ask), ("allowed", Allow)] {
        check(&format!("{list}: {{ tools: [read] }}"), "read", json!({ "path": "a" }), expected);
        check(&format!("{list}: {{ actions: [code:read] }}"), "read", json!({ "path": "a" }), expected);
    }
    check("ask: { classes: [write] }", "write", json!({ "path": "a", "content": "" }), Ask);
    for (answer, expected) in [("deny", Deny), ("ask", Ask)] {
        let files = format!("files: [{{ {answer}: [read], paths: [a], because: it is kept }}]");
        check(&files, "read", json!({ "path": "a" }), expected);
        let hosts = format!("hosts: [{{ {answer}: [a.example], because: it is kept }}]");
        check(&hosts, "fetch_url", json!({ "url": "https://a.example/" }), expected);
    }
}

#[test]
fn the_strictest_rule_wins_and_allowing_overrides_no_question() {
    let house = House::new();
    let check = |rules: &[(&str, &str)], expected: (Verdict, Vec<String>)| {
        let rule = |(id, verdict): &(&str, &str)| {
            format!("    - {{ id: {id}, verdict: {verdict}, because: x, tools: [delete] }}\n")
        };
        let rules: String = rules.iter().map(rule).collect();
        let runtime = house
            .put("home", &format!("agents: {{ default: {{ level: custom }} }}\npolicy:\n  rules:\n{rules}"))
            .open();
        assert_eq!(decided(&runtime, "default", "delete", json!({ "path": "a" })), expected);
    };
    check(&[("a", "allow")], by(Verdict::Allow, &["a"]));
    check(&[("a", "allow"), ("b", "ask")], by(Verdict::Ask, &["b"]));
    check(&[("a", "allow"), ("b", "ask"), ("c", "deny"), ("d", "deny")], by(Verdict::Deny, &["c", "d"]));
}

#[test]
fn a_rule_that_cannot_be_evaluated_denies_or_does_not_allow() {
    let house = House::new();
    let check = |verdict: &str, expected: (Verdict, Vec<String>)| {
        let level = if verdict == "allow" { "custom" } else { "standard" };
        let runtime = house
            .put("home", &format!(
                "agents: {{ default: {{ level: {level} }} }}\npolicy:\n  rules:\n    - {{ id: r, verdict: {verdict}, because: x, tools: [read], when: args.limit < 10 }}\n"
            ))
            .open();
        assert_eq!(decided(&runtime, "default", "read", json!({ "path": "a" })), expected, "{verdict}");
    };
    check("deny", by(Verdict::Deny, &["r"]));
    check("ask", by(Verdict::Deny, &["r"]));
    check("allow", by(Verdict::Deny, &["no_rule", "r"]));
}

#[test]
fn every_mistake_in_a_rule_is_found_where_it_is() {
    let check = |parts: &str, column: u64, message: &str| {
        let text = format!("policy:\n  rules:\n    - {{ {parts} }}\n");
        let errors = check_text("t.yaml", &text).map(|_| ()).expect_err(parts);
        assert_eq!((errors[0].line, errors[0].column), (3, column), "{parts}: {}", page(&errors));
        assert!(errors[0].message.contains(message), "{parts}: {}", page(&errors));
    };
    check("verdict: deny, because: x, tools: [read]", 7, "has no `id`");
    check("id: a, because: x, tools: [read]", 7, "has no `verdict`");
    check("id: a, verdict: deny, tools: [read]", 7, "has no `because`");
    check("id: a, verdict: deny, because: ' ', tools: [read]", 40, "`because` says nothing");
    check("id: a, verdict: forbid, because: x, tools: [read]", 25, "unknown verdict `forbid`");
    check("id: a b, verdict: deny, because: x, tools: [read]", 13, "is not a name for a rule");
    check("id: a, verdict: deny, because: x", 7, "does not say which calls");
    check("id: a, verdict: deny, because: x, tools: []", 7, "`tools` of this rule names nothing");
    check("id: a, verdict: deny, because: x, actions: [code:raed]", 53, "unknown action `code:raed`");
    check("id: a, verdict: deny, because: x, classes: [wirte]", 53, "unknown safety class `wirte`");
    check("id: a, verdict: deny, because: x, risk_at_least: hihg", 58, "unknown risk `hihg`");
    check("id: a, verdict: deny, because: x, agents: [codr]", 52, "unknown agent `codr`");
    check("id: a, verdict: deny, because: x, roles: [codr]", 51, "no agent has role `codr`");
    check("id: a, verdict: deny, because: x, when: 'argz.x'", 50, "the condition cannot be read");
    check("id: a, verdict: deny, because: x, tools: [read], match: [{ arguments: {} }]", 66, "names no `tool`");
    check("id: a, verdict: deny, because: x, tools: [read], match: [{ tool: read, arguments: 3 }]", 91, "is a mapping");
    check("id: a, verdict: deny, because: x, tools: [read], note: y", 58, "unknown key `note`");
    let text = "policy:\n  denied: { tools: ['git_*'] }\n";
    let errors = check_text("t.yaml", text).map(|_| ()).unwrap_err();
    assert!(errors[0].message.contains("stands for tools in `policy.rules` only"), "{}", page(&errors));
}

#[test]
fn two_rules_of_one_name_are_a_mistake_also_in_two_files() {
    let house = House::new();
    let rule = "policy:\n  rules:\n    - { id: a, verdict: deny, because: x, tools: [read] }\n";
    house.put("home", rule).put("project", rule);
    let errors = house.load().map(|_| ()).unwrap_err();
    let place = format!("rule `a` is there already ({}:3)", house.file("home").display());
    assert_eq!(
        (errors[0].file.clone(), errors[0].message.clone()),
        (house.file("project").display().to_string(), place)
    );
}

#[test]
fn a_tool_no_catalog_has_is_found_when_the_catalog_is_known() {
    let house = House::new();
    let check = |tools: &str, expected: Option<(u64, &str)>| {
        house
            .put("home", &format!("policy:\n  rules:\n    - {{ id: a, verdict: deny, because: x, tools: {tools} }}\n"));
        let found = match Runtime::open(house.setup()) {
            Ok(_) => None,
            Err(OpenError::Config(errors)) => Some((errors[0].column, errors[0].message.clone())),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, expected.map(|(column, message)| (column, message.to_owned())), "{tools}");
    };
    check("[read]", None);
    check("['git_*']", None);
    check("[raed]", Some((51, "unknown tool `raed`")));
    check("['gti_*']", Some((51, "unknown tool `gti_*`")));
}

#[test]
fn an_example_that_does_not_hold_stops_everything_at_its_line() {
    let house = House::new();
    let check = |from: &str, to: &str, line: u64, message: &str| {
        let text = RULE.replace(from, to);
        assert_ne!(text, RULE, "{from}");
        let errors = house.put("home", &text).errors();
        let [error] = errors.as_slice() else { panic!("{}", page(&errors)) };
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(message), "{error}");
    };
    check("a/.env", "a.txt", 10, "is to be meant by rule `no-env`, and is not");
    check("path: a.md", "path: a.env", 12, "is not to be meant by rule `no-env`, and is");
    check("tool: write, arguments: { path: a/.env", "tool: read, arguments: { path: a/.env", 10, "content");
    check("{ path: a.md, content: x }", "{ path: a.md }", 12, "content");
    check(
        "{ tool: write, arguments: { path: a.md",
        "{ agent: nobody, tool: write, arguments: { path: a.md",
        12,
        "no agent `nobody`",
    );
    check(".env\")'", ".env\") and args.absent'", 10, "`args.absent` is not set");
}

#[test]
fn an_example_is_the_call_it_describes() {
    let house = House::new();
    let check = |must: &str, must_not: &str, wrong: &[u64]| {
        let text = format!(
            "agents: {{ a: {{}}, b: {{}} }}
policy:
  rules:
    - {{ id: r, verdict: ask, because: x, agents: [a], tools: [write], when: 'args.path == \"k\"',
        match: [{{ {must} }}],
        not_match: [{{ {must_not} }}] }}
"
        );
        let runtime = Runtime::open_untried(house.put("home", &text).setup()).unwrap();
        let errors = runtime.wrong_examples();
        let lines: Vec<u64> = errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, wrong, "{must}, {must_not}: {}", page(&errors));
    };
    let meant = "agent: a, tool: write, arguments: { path: k, content: x }";
    for other in [
        "agent: b, tool: write, arguments: { path: k, content: x }",
        "agent: a, tool: delete, arguments: { path: k }",
        "agent: a, tool: write, arguments: { path: l, content: x }",
    ] {
        check(meant, other, &[]);
        check(other, other, &[5]);
        check(meant, meant, &[6]);
    }
}

#[test]
fn examples_are_tried_one_by_one() {
    let house = House::new();
    let text = RULE.replace("path: a.md", "path: a.env");
    let runtime = Runtime::open_untried(house.put("home", &text).setup()).unwrap();
    let trials = runtime.try_examples();
    let file = house.file("home").display().to_string();
    let passed = Trial {
        file: file.clone(),
        line: 10,
        what: "rule `no-env` means `write` {\"content\":\"x\",\"path\":\"a/.env\"}".into(),
        why: None,
    };
    assert_eq!(trials[0], passed);
    assert_eq!((trials[1].line, trials[1].passed()), (12, false));
}

#[test]
fn a_test_names_the_verdict_and_who_decides() {
    let house = House::new();
    let runtime = house.put("home", RULE).open();
    let path = house.dir.path().join("tests.yaml");
    let check = |test: &str, expected: Option<&str>| {
        fs::write(&path, format!("tests:\n  - {{ {test} }}\n")).unwrap();
        let tests = read_tests(&path).unwrap_or_else(|errors| panic!("{}", page(&errors))).unwrap();
        let trial = runtime.try_test(&tests[0]);
        assert_eq!((trial.line, trial.passed()), (2, expected.is_none()), "{trial:?}");
        assert!(trial.why.as_deref().unwrap_or_default().contains(expected.unwrap_or_default()), "{trial:?}");
    };
    let env = "tool: write, arguments: { path: .env, content: x }";
    check(&format!("{env}, expect: deny, rule: no-env"), None);
    check(&format!("{env}, expect: deny"), None);
    check(&format!("{env}, expect: allow"), Some("deny by `no-env`"));
    check(&format!("{env}, expect: deny, rule: denied"), Some("deny by `no-env`"));
    check("tool: read, arguments: { path: a }, expect: allow, rule: level", None);
    check("tool: read, arguments: {}, expect: allow", Some("it is no call of the tool"));
    check("agent: nobody, tool: read, arguments: { path: a }, expect: allow", Some("no agent `nobody`"));
    fs::write(&path, "tests:\n  - { tool: read }\n").unwrap();
    assert_eq!(read_tests(&path).unwrap_err()[0].message, "this test expects nothing");
    fs::write(&path, "policy: {}\n").unwrap();
    assert_eq!(read_tests(&path).unwrap(), None);
}

// ---- layers ----

#[test]
fn a_projects_rules_tighten_and_neither_allow_nor_tell_models_what_to_do() {
    let house = House::new();
    let rule = |parts: &str| format!("policy:\n  rules:\n    - {{ id: p, because: x, tools: [read], {parts} }}\n");
    let runtime = house.put("project", &rule("verdict: ask")).open();
    assert_eq!(decided(&runtime, "default", "read", json!({ "path": "a" })), by(Verdict::Ask, &["p"]));
    for (parts, message) in [("verdict: allow", "rule `p`, which allows,"), ("verdict: deny, instead: y", "`instead`")]
    {
        house.put("project", &rule(parts));
        let errors = house.load().map(|_| ()).unwrap_err();
        assert!(errors[0].message.contains(message), "{}", page(&errors));
    }
}

/// The administrator's file, the user's, and what each of these says about a call: the last word is the first's, and the
/// other may only be tighter.
#[test]
fn nobody_loosens_what_the_administrator_says_and_anybody_tightens_it() {
    let decide = |admin: &str, user: &str, tool: &str| {
        let house = House::new();
        let runtime = house.put("etc", admin).put("home", user).open();
        decided(&runtime, "default", tool, json!({ "path": "a" })).0
    };
    let check = |strict: &str, loose: &str, tool: &str, expected: Verdict| {
        assert_eq!(decide(strict, loose, tool), expected, "admin: {strict}, user: {loose}");
        assert_eq!(decide(loose, strict, tool), expected, "admin: {loose}, user: {strict}");
    };
    let word = |word: &str| format!("tools: {{ read: {{ permission: {word} }} }}\n");
    check(&word("deny"), &word("allow"), "read", Verdict::Deny);
    check(&word("confirm"), &word("allow"), "read", Verdict::Ask);
    check(&word("{ roles: [x] }"), &word("{ condition: 'true' }"), "read", Verdict::Deny);
    check("policy: { denied: { tools: [read] } }\n", "policy: { allowed: { tools: [read] } }\n", "read", Verdict::Deny);
    check("policy: { ask: { tools: [read] } }\n", "policy: { allowed: { tools: [read] } }\n", "read", Verdict::Ask);
    let rule = |id: &str, verdict: &str| {
        format!("policy:\n  rules:\n    - {{ id: {id}, verdict: {verdict}, because: x, tools: [read] }}\n")
    };
    check(&rule("a", "deny"), &rule("b", "allow"), "read", Verdict::Deny);
    let autonomy = |preset: &str| format!("agents: {{ default: {{ autonomy: {preset} }} }}\n");
    check(&autonomy("locked"), &autonomy("full"), "read", Verdict::Ask);
    let files = |files: &str| format!("sandboxing: {{ overrides: {{ file_system: {files} }} }}\n");
    let house = House::new();
    let place = |admin: &str, user: &str| {
        let config = house.put("etc", &files(admin)).put("home", &files(user)).load().unwrap();
        config.backend_for(toolgate_contract::Category::FileSystem)
    };
    assert_eq!(place("deny_all", "subprocess"), place("subprocess", "deny_all"));
}

/// What the administrator says of all backends or networks is not taken back for one category.
#[test]
fn what_the_administrator_says_of_all_is_meant_for_each() {
    use toolgate_contract::Category;
    let terminal = |admin: &str, user: &str| {
        let house = House::new();
        let file = |block: &str| format!("sandboxing: {{ {block} }}\n");
        let config = house.put("etc", &file(admin)).put("home", &file(user)).load();
        let config = config.unwrap_or_else(|errors| panic!("{}", page(&errors)));
        let network = config.containers.network_of(Category::Terminal, &toolgate_contract::SourceLine::built_in());
        (config.backend_for(Category::Terminal), network.value)
    };
    let place = |admin: &str, user: &str| terminal(admin, user).0;
    assert_eq!(place("default_backend: deny_all", "overrides: { terminal: subprocess }"), Place::DenyAll);
    assert!(matches!(place("default_backend: docker", "overrides: { terminal: subprocess }"), Place::Docker { .. }));
    assert_eq!(place("default_backend: subprocess", "overrides: { terminal: deny_all }"), Place::DenyAll);
    assert!(matches!(place("", "overrides: { terminal: docker }"), Place::Docker { .. }));
    let network =
        |admin: &str, user: &str| terminal(&format!("docker: {{ {admin} }}"), &format!("docker: {{ {user} }}")).1;
    let open = "network_overrides: { terminal: bridge }";
    assert_eq!(network("network: none", open), ContainerNetwork::None);
    assert_eq!(network("network: bridge", "network_overrides: { terminal: none }"), ContainerNetwork::None);
    assert_eq!(network("", open), ContainerNetwork::Bridge);
}

#[test]
fn of_two_limits_and_two_levels_the_tighter_holds_whoever_set_it() {
    let both = |admin: &str, user: &str| {
        let house = House::new();
        let config =
            house.put("etc", admin).put("home", user).load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
        let agent = config.policy.agents[&AgentName::from("default")].clone();
        let hosts: Vec<String> = agent.constraints.network_allowlist.iter().map(|host| host.value.clone()).collect();
        (config.limits.max_input_bytes, agent.level.value, agent.budget.len(), hosts)
    };
    let file = |bytes: u64, level: &str, hosts: &str| {
        format!(
            "limits: {{ max_input_bytes: {bytes} }}\nagents: {{ default: {{ level: {level}, budget: {{ day: {{ calls: {bytes} }} }}, constraints: {{ network_allowlist: [{hosts}] }} }} }}\n"
        )
    };
    let (strict, loose) = (file(2048, "sandboxed", ""), file(4096, "restricted", "a.com"));
    let strict_alone = (2048, Level::Sandboxed, 2, Vec::<String>::new());
    assert_eq!(both(&strict, &loose), strict_alone);
    assert_eq!(both(&loose, &strict), strict_alone);
    let hosts = |hosts: &str| file(2048, "restricted", hosts);
    assert_eq!(both(&hosts("a.com, b.com"), &hosts("a.com")).3, ["a.com"]);
    assert_eq!(both(&hosts("a.com"), &hosts("a.com, b.com")).3, ["a.com"]);
}

#[test]
fn the_administrator_sets_what_nobody_else_does_and_binds_a_file_that_was_named() {
    let house = House::new();
    house.put("etc", "agents: { coder: { level: restricted } }\npolicy: { denied: { tools: [delete] } }\n");
    let runtime = house.open();
    assert_eq!(decided(&runtime, "coder", "delete", json!({ "path": "a" })).0, Verdict::Deny);
    let named = house.dir.path().join("named.yaml");
    fs::write(&named, "policy: { allowed: { tools: [delete] } }\n").unwrap();
    let config = Config::load(&Sources {
        admin: Some(house.file("etc")),
        explicit: Some(named),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: house.dir.path().join("data"),
        cwd: house.dir.path().to_owned(),
        workspace: None,
    });
    assert!(config.unwrap().policy.rules.denied.tools.contains_key("delete"));
}

#[test]
fn the_administrators_rule_may_be_about_agents_of_other_machines() {
    let house = House::new();
    house.put("etc", "policy:\n  rules:\n    - { id: a, verdict: deny, because: x, agents: [intern], roles: [r] }\n");
    house.open();
}

#[test]
fn an_administrators_file_that_others_could_have_written_is_an_error() {
    let house = House::new();
    house.put("etc", "policy: {}\n");
    let message = || house.load().map(|_| ()).unwrap_err()[0].message.clone();
    for mode in [0o664, 0o646] {
        fs::set_permissions(house.file("etc"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            message(),
            format!("the administrator's config cannot be used: its mode is {mode:o}, so others can write to it")
        );
    }
    fs::set_permissions(house.file("etc"), fs::Permissions::from_mode(0o644)).unwrap();
    let dir = house.dir.path().join("etc");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(message().contains("of its directory, its mode is 777"), "{}", message());
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    if let Err(error) = chown(house.file("etc"), Some(12_345), None) {
        eprintln!("SKIPPED: only root can give a file away: {error}");
        return;
    }
    assert_eq!(message(), "the administrator's config cannot be used: user 12345 owns it, and not root");
    chown(house.file("etc"), Some(0), None).unwrap();
    assert!(house.load().is_ok());
}
