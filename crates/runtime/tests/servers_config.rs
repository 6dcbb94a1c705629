//! What a config says about other MCP servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use toolgate_contract::{ActionType, SafetyClass};
use toolgate_runtime::{
    config::{
        Access, Address, Config, ConfigError, MayAsk, Offers, Program, Reached, Server, Sources, Word, check_text,
    },
    definitions::Terms,
    secrets::SecretRef,
};

/// A user's file, which is trusted, and a project's, which is not.
fn load_in(dir: &Path, user: &str, project: Option<&str>) -> Result<Config, Vec<ConfigError>> {
    let path = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let sources = Sources {
        admin: None,
        explicit: None,
        user: Some(path("user.yaml", user)),
        project: project.map(|text| path("toolgate.yaml", text)),
        clients: Vec::new(),
        data_dir: dir.join("data"),
        cwd: dir.to_owned(),
        workspace: None,
    };
    Config::load(&sources)
}

fn load(user: &str, project: Option<&str>) -> Result<Config, Vec<ConfigError>> {
    load_in(tempfile::tempdir().unwrap().path(), user, project)
}

fn server(text: &str) -> Server {
    let config = load(text, None).unwrap_or_else(|errors| panic!("{}", errors[0]));
    config.servers["one"].value.clone()
}

#[test]
fn a_server_is_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    fs::create_dir(real.join("work")).unwrap();
    fs::create_dir(real.join("seen")).unwrap();
    let text = format!(
        "mcp_servers:
  one:
    command: uvx
    args: [mcp-server-git==2026.10.19, --verbose]
    env: {{ LOG: info, TOKEN: 'vault:git' }}
    allowed_hosts: [pypi.org, 'files.example.com:8443']
    workspace: work
    access: write
    visible: [{}/seen]
    handshake_seconds: 3
    request_seconds: 90
    tools: {{ git_log: {{ action: 'vcs:read', safety: network }}, git_push: {{ action: 'vcs:push' }} }}
    expose: ['git_*']
    hide: [git_reset]
    may_ask: [roots, elicitation]
    offers: [tools, resources]
    disabled: true
",
        real.display()
    );
    let config = load_in(&real, &text, None).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let program = Program {
        command: "uvx".into(),
        args: words(&["mcp-server-git==2026.10.19", "--verbose"]),
        env: BTreeMap::from([
            ("LOG".into(), Word::Plain("info".into())),
            ("TOKEN".into(), Word::Secret(SecretRef::Vault("git".into()))),
        ]),
        allowed_hosts: words(&["pypi.org:443", "pypi.org:80", "files.example.com:8443"]),
        workspace: Some(real.join("work")),
        access: Access::Write,
        visible: vec![real.join("seen")],
    };
    let terms = |action, safety| Terms { action, safety };
    let expected = Server {
        reached: Reached::Program(program),
        handshake: Duration::from_secs(3),
        request: Duration::from_secs(90),
        tools: BTreeMap::from([
            ("git_log".into(), terms(ActionType::VcsRead, SafetyClass::Network)),
            ("git_push".into(), terms(ActionType::VcsPush, SafetyClass::Privileged)),
        ]),
        expose: Some(words(&["git_*"])),
        hide: words(&["git_reset"]),
        may_ask: BTreeSet::from([MayAsk::Elicitation, MayAsk::Roots]),
        offers: BTreeSet::from([Offers::Tools, Offers::Resources]),
        disabled: true,
    };
    assert_eq!(config.servers["one"].value, expected);
    assert_eq!(config.servers["one"].source.line, 2);
    assert_eq!(expected.identity(), r#"["uvx","mcp-server-git==2026.10.19","--verbose"]"#);
}

#[test]
fn a_server_that_says_little_has_little() {
    let usual = server("mcp_servers: { one: { command: my-server } }");
    let Reached::Program(program) = &usual.reached else { panic!("{usual:?}") };
    let bare = Program {
        command: "my-server".into(),
        args: Vec::new(),
        env: BTreeMap::new(),
        allowed_hosts: Vec::new(),
        workspace: None,
        access: Access::Read,
        visible: Vec::new(),
    };
    assert_eq!(*program, bare);
    assert_eq!((usual.handshake, usual.request), (Duration::from_secs(10), Duration::from_secs(30)));
    assert_eq!((usual.expose, usual.hide, usual.disabled), (None, Vec::new(), false));
}

#[test]
fn a_server_at_an_address_is_as_written() {
    let address = |text: &str| match server(text).reached {
        Reached::Address(address) => address,
        Reached::Program(program) => panic!("{program:?}"),
    };
    let at = "mcp_servers: { one: { url: 'https://mcp.example.com/mcp?team=a'";
    let plain = address(&format!("{at} }} }}"));
    let url = "https://mcp.example.com/mcp?team=a".to_owned();
    assert_eq!(plain, Address { url: url.clone(), headers: BTreeMap::new(), connection: None });
    let with = address(&format!("{at}, headers: {{ X-Key: 'env:KEY' }} }} }}"));
    assert_eq!(with.headers, BTreeMap::from([("X-Key".to_owned(), SecretRef::Env("KEY".into()))]));
    let with = address(&format!(
        "connections: {{ team: {{ base_url: 'https://mcp.example.com', auth: {{ bearer: 'vault:t' }} }} }}\n{at}, connection: team }} }}"
    ));
    assert_eq!(with.connection.as_deref(), Some("team"));
}

/// A text, the place of its mistake, and words of the message and of the remedy.
#[rustfmt::skip]
const BROKEN: &[(&str, u64, u64, &str, &str)] = &[
    ("mcp_servers: { Up: { command: a } }", 1, 16, "is not a name for a server", "its tools begin with it"),
    ("mcp_servers: { a__b: { command: a } }", 1, 16, "is not a name for a server", "single `_`"),
    ("mcp_servers: { one: {} }", 1, 16, "neither a `command` nor a `url`", "url: https"),
    ("mcp_servers: { one: { args: [a] } }", 1, 21, "neither a `command` nor a `url`", "only made less"),
    ("mcp_servers: { one: { command: a, url: 'https://e.com/' } }", 1, 40, "not both", "Keep one"),
    ("mcp_servers: { one: { command: 'npx server' } }", 1, 32, "one word", "`args`"),
    ("mcp_servers: { one: { command: npx, args: [-y, '@scope/server'] } }", 1, 48, "whatever bears that name", "exact version"),
    ("mcp_servers: { one: { command: npx, args: [server@latest] } }", 1, 44, "whatever bears that name", "exact version"),
    ("mcp_servers: { one: { command: uvx, args: [mcp-server-git] } }", 1, 44, "whatever bears that name", "=="),
    ("mcp_servers: { one: { command: docker, args: [run, -i, image] } }", 1, 56, "whatever bears that name", "digest"),
    ("mcp_servers: { one: { command: bash, args: [-c, 'npx server'] } }", 1, 45, "hides what is started", "themselves"),
    ("mcp_servers: { one: { command: env, args: [A=b, server] } }", 1, 32, "hides what is started", "`env`"),
    ("mcp_servers: { one: { command: a, env: { '1A': b } } }", 1, 42, "not the name of a variable", "letters"),
    ("mcp_servers: { one: { command: a, env: { PATH: /opt/bin } } }", 1, 42, "is set by the room", "extra_safe_path_prefixes"),
    ("mcp_servers: { one: { command: a, env: { LD_PRELOAD: 'vault:x' } } }", 1, 42, "changes what is loaded", ""),
    ("mcp_servers: { one: { command: a, offers: [tools, sampling] } }", 1, 51, "unknown value for `offers`: `sampling`", "tools"),
    ("mcp_servers: { one: { command: a, env: { API_KEY: 'sk-0123456789' } } }", 1, 51, "stands in the config", "vault:NAME"),
    ("mcp_servers: { one: { command: a, env: { A: 'vault:' } } }", 1, 45, "after `vault:`", "toolgate secrets set"),
    ("mcp_servers: { one: { command: a, allowed_hosts: ['https://e.com'] } }", 1, 51, "is a URL", "Write a host"),
    ("mcp_servers: { one: { command: a, access: write } }", 1, 43, "no `workspace`", "workspace: DIR"),
    ("mcp_servers: { one: { command: a, workspace: '~/x' } }", 1, 46, "`~` does not stand", "whole path"),
    ("mcp_servers: { one: { command: a, visible: [lib] } }", 1, 45, "not a directory a room could see", "absolute"),
    ("mcp_servers: { one: { command: a, visible: [/etc/ssh] } }", 1, 45, "not for a room to see", "nothing but"),
    ("mcp_servers: { one: { command: a, handshake_seconds: 0 } }", 1, 54, "out of range", "from 1 to 3600"),
    ("mcp_servers: { one: { command: a, request_seconds: 9999 } }", 1, 52, "out of range", "from 1 to 3600"),
    ("mcp_servers: { one: { command: a, tools: { t: { action: code } } } }", 1, 57, "several actions", "one action"),
    ("mcp_servers: { one: { command: a, tools: { t: { action: 'code:reed' } } } }", 1, 57, "unknown action", "code:read"),
    ("mcp_servers: { one: { command: a, tools: { t: { safety: netwrk } } } }", 1, 57, "unknown safety class", "network"),
    ("mcp_servers: { one: { command: a, expose: ['a*b'] } }", 1, 44, "names no tool", "and `*`"),
    ("mcp_servers: { one: { command: a, may_ask: [roots, people] } }", 1, 52, "unknown value for `may_ask`: `people`", "elicitation"),
    ("mcp_servers: { one: { command: a, hide: [''] } }", 1, 42, "names no tool", "and `*`"),
    ("mcp_servers: { one: { command: a, headers: { A: 'env:B' } } }", 1, 32, "for a server with a `url`", "`env`"),
    ("mcp_servers: { one: { url: 'ftp://e.com' } }", 1, 28, "not an address of the web", "https"),
    ("mcp_servers: { one: { url: 'https://e.com/', env: { A: b } } }", 1, 28, "for a server that is a program", "Remove"),
    ("mcp_servers: { one: { url: 'https://e.com/', headers: { Host: 'env:B' } } }", 1, 57, "not a header for credentials", "X-Api-Key"),
    ("mcp_servers: { one: { url: 'https://e.com/', headers: { X-Key: secret } } }", 1, 64, "stands in the config", "vault:NAME"),
    ("mcp_servers: { one: { url: 'https://e.com/', connection: team } }", 1, 58, "unknown connection `team`", ""),
];

#[test]
fn every_mistake_is_found_where_it_is() {
    let mut wrong = Vec::new();
    for (text, line, column, message, remedy) in BROKEN {
        let errors = check_text("t.yaml", text).err().unwrap_or_default();
        let is_right = matches!(errors.as_slice(), [one] if (one.line, one.column) == (*line, *column)
            && one.message.contains(message) && one.remedy.contains(remedy));
        if !is_right {
            let found: Vec<_> =
                errors.iter().map(|e| format!("{}:{} {} / {}", e.line, e.column, e.message, e.remedy)).collect();
            wrong.push(format!("{text}\nexpected {line}:{column} {message:?} {remedy:?}, found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn an_error_shows_no_secret() {
    for text in [
        "mcp_servers: { one: { command: a, env: { API_KEY: 'sk-0123456789' } } }",
        "mcp_servers: { one: { url: 'https://me:sk-0123456789@e.com/' } }",
        "mcp_servers: { one: { url: 'https://e.com/', headers: { X-Key: sk-0123456789 } } }",
        "mcp_servers:\n  one:\n    command: a\n    env: [sk-0123456789]\n",
    ] {
        for error in check_text("t.yaml", text).unwrap_err() {
            assert!(!error.to_string().contains("sk-0123456789"), "{error}");
        }
    }
}

#[test]
fn a_file_nobody_trusts_takes_servers_away_and_adds_none() {
    let user = "mcp_servers: { one: { command: a } }";
    let with = |project: &str| load(user, Some(project));
    let less = with("mcp_servers: { one: { disabled: true, hide: [write] } }").unwrap();
    assert!(less.servers["one"].value.disabled);
    assert_eq!(less.servers["one"].value.hide, ["write"]);
    for more in [
        "mcp_servers: { two: { command: b } }",
        "mcp_servers: { one: { command: b } }",
        "mcp_servers: { one: { disabled: false } }",
        "mcp_servers: { one: { command: a, may_ask: [sampling] } }",
    ] {
        let errors = with(more).unwrap_err();
        assert!(errors[0].message.contains("it may only tighten"), "{more}: {}", errors[0]);
    }
    assert!(with("mcp_servers: { two: { disabled: true } }").is_err());
    assert!(with("mcp_servers: { one: { may_ask: [sampling] } }").is_err());
    assert!(with("mcp_servers: { one: { offers: [tools, prompts] } }").is_err());
}

#[test]
fn a_server_is_never_replaced_and_what_it_lacks_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let missing = "mcp_servers: { one: { command: a, workspace: nowhere } }";
    let errors = load_in(dir.path(), missing, None).unwrap_err();
    assert!(errors[0].message.contains("cannot be opened") && errors[0].column == 46, "{}", errors[0]);
    fs::create_dir_all(dir.path().join("data")).unwrap();
    let keys = dir.path().join("home");
    fs::create_dir_all(keys.join(".ssh")).unwrap();
    let errors = load_in(dir.path(), "mcp_servers: { one: { command: a, workspace: home } }", None).unwrap_err();
    assert!(errors[0].message.contains("would show the keys"), "{}", errors[0]);
    let errors = load_in(dir.path(), "mcp_servers: { one: { command: a, workspace: data } }", None).unwrap_err();
    assert!(errors[0].message.contains("would show the data directory"), "{}", errors[0]);
    let twice = "mcp_servers: { one: { command: a }, one: { command: b } }";
    assert!(load_in(dir.path(), twice, None).is_err());
}

#[test]
fn what_servers_are_is_part_of_what_every_approval_rests_on() {
    let digest = |text: &str| load(text, None).unwrap().digest().unwrap();
    let one = digest("mcp_servers: { one: { command: a } }");
    for other in [
        "",
        "mcp_servers: { one: { command: b } }",
        "mcp_servers: { one: { command: a, args: [x] } }",
        "mcp_servers: { one: { command: a, allowed_hosts: [e.com] } }",
        "mcp_servers: { one: { command: a, env: { A: b } } }",
        "mcp_servers: { one: { command: a, tools: { t: { safety: network } } } }",
    ] {
        assert_ne!(digest(other), one, "{other}");
    }
}

#[test]
fn tools_of_a_server_may_be_named_before_it_is_connected() {
    let text = "mcp_servers: { one: { command: a } }\npolicy: { allowed: { tools: [one__anything] } }\n";
    let config = load(text, None).unwrap();
    assert!(config.check_tools(["read"]).is_empty());
    let text = "mcp_servers: { one: { command: a } }\npolicy: { allowed: { tools: [two__anything] } }\n";
    assert_eq!(load(text, None).unwrap().check_tools(["read"]).len(), 1);
}
