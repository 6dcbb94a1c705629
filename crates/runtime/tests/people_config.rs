//! What a config says about people in the loop: autonomy, approvals, budgets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{fs, time::Duration};

use toolgate_contract::{ActionType, AgentName, Limit, Meter, Person, Risk, Window};
use toolgate_gate::{Agent, ApprovalRules, Downgrades, ErrorRate, Preset, Silence, Step, Tier, Timeout};
use toolgate_runtime::config::{Config, ConfigError, Sources, check_text};

const HOUR: Duration = Duration::from_secs(3600);

/// A user's file, which is trusted, and a project's, which is not.
fn load(user: &str, project: Option<&str>) -> Result<Config, Vec<ConfigError>> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let sources = Sources {
        admin: None,
        explicit: None,
        user: Some(path("user.yaml", user)),
        project: project.map(|text| path("toolgate.yaml", text)),
        clients: Vec::new(),
        data_dir: dir.path().join("data"),
        cwd: dir.path().to_owned(),
        workspace: None,
    };
    Config::load(&sources)
}

fn agent(user: &str, project: Option<&str>) -> Agent {
    let config = load(user, project).unwrap_or_else(|errors| panic!("{}", errors[0]));
    config.policy.agents[&AgentName::from("default")].clone()
}

#[test]
fn an_agent_has_the_autonomy_it_names_or_the_one_for_all_or_everything() {
    let check = |text: &str, name: &str, line: u64| {
        let agent = agent(text, None);
        assert_eq!((agent.autonomy.value.name.as_str(), agent.autonomy.source.line), (name, line), "{text}");
    };
    check("", "full", 0);
    check("autonomy: { default: semi }", "semi", 1);
    check("autonomy: { default: semi }\nagents: { default: { autonomy: locked } }", "locked", 2);
    let own = "autonomy:\n  presets:\n    night: { auto_approve: [code, test:run], human_approval: [deploy] }\n";
    check(&format!("{own}agents: {{ default: {{ autonomy: night }} }}"), "night", 4);
    let night = agent(&format!("{own}  default: night\n"), None).autonomy.value;
    assert!(night.auto.contains(&ActionType::CodeDelete) && !night.auto.contains(&ActionType::TestWrite));
    assert!(night.human.contains(&ActionType::DeployProduction));
}

#[test]
fn an_action_the_operator_adds_is_done_by_full_and_by_no_other() {
    let text = "actions: { payroll:run: high }\nautonomy: { default: NAME }";
    let own = ActionType::Custom("payroll:run".into());
    for preset in Preset::ALL {
        let agent = agent(&text.replace("NAME", preset.as_str()), None);
        assert_eq!(agent.autonomy.value.auto.contains(&own), *preset == Preset::Full, "{preset}");
    }
}

#[test]
fn approvals_are_as_written() {
    let check = |text: &str, expected: ApprovalRules| {
        let config = load(text, None).unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert_eq!(config.policy.approvals, expected, "{text}");
    };
    check("", ApprovalRules { expires: HOUR * 24, people: vec![], timeout: Timeout::Wait });
    check(
        "approvals: { expires: 2d, people: [ann, 'user:bob'], timeout: { deny_after: 4h } }",
        ApprovalRules {
            expires: HOUR * 48,
            people: vec!["ann".into(), "user:bob".into()],
            timeout: Timeout::Deny(HOUR * 4),
        },
    );
    let tier = |hours, then| Tier { after: HOUR * hours, then };
    let tiers = [(Risk::Low, tier(1, Silence::Approve)), (Risk::Critical, tier(4, Silence::Deny))];
    check(
        "approvals: { timeout: { tiered: { low: { after: 1h, then: approve }, critical: { after: 240m, then: deny } } } }",
        ApprovalRules { timeout: Timeout::Tiered(tiers.into()), ..ApprovalRules::default() },
    );
    let step = |name: &str, hours| Step { to: vec![name.into()], after: HOUR * hours };
    check(
        "approvals: { timeout: { escalation: [{ to: [ann], after: 2h }, { to: [bob], after: 4h }] } }",
        ApprovalRules {
            timeout: Timeout::Escalation(vec![step("ann", 2), step("bob", 4)]),
            ..ApprovalRules::default()
        },
    );
    assert_eq!(load("approvals: { hold: 5m }", None).unwrap().hold, Duration::from_secs(300));
    let seats = load("approvals: { at_client: { default: 'user:ann' } }", None).unwrap().at_client;
    assert_eq!(seats, [(AgentName::from("default"), Person::from("user:ann"))].into());
    assert!(load("", None).unwrap().at_client.is_empty(), "nobody's word counts unless somebody is named");
}

#[test]
fn what_holds_an_agent_back_is_as_written() {
    let downgrades = |text: &str| load(text, None).unwrap_or_else(|errors| panic!("{}", errors[0])).policy.downgrades;
    assert_eq!(downgrades(""), Downgrades::default());
    let held = downgrades(
        "autonomy: { downgrade: { error_rate: { over: 0.4, of_last: 7, to: semi }, budget_exhausted: locked, \
         security_incident: supervised } }",
    );
    let rate = ErrorRate { over: 0.4, of_last: 7, to: Preset::Semi };
    assert_eq!(held.error_rate.map(|rate| rate.value), Some(rate));
    assert_eq!((held.budget_exhausted.value, held.security_incident.value), (Preset::Locked, Preset::Supervised));
}

#[test]
fn a_budget_binds_meter_by_meter_and_a_later_file_only_adds_to_it() {
    let limits = |agent: Agent| agent.budget.into_iter().map(|limit| limit.value).collect::<Vec<_>>();
    let limit = |window, meter, most| Limit { window, meter, most };
    let user =
        "agents: { default: { budget: { day: { calls: 500, bytes_out: 50m }, task: { cost: 20, wall_time: 2h } } } }";
    let expected = vec![
        limit(Window::Task, Meter::Units, 20),
        limit(Window::Task, Meter::WallMs, 7_200_000),
        limit(Window::Day, Meter::Calls, 500),
        limit(Window::Day, Meter::BytesOut, 50 << 20),
    ];
    assert_eq!(limits(agent(user, None)), expected);
    // What a project adds binds as well; what it writes higher takes nothing away.
    let project = "agents: { default: { budget: { day: { calls: 900 }, ever: { calls: 7 } } } }";
    let more = [limit(Window::Day, Meter::Calls, 900), limit(Window::Ever, Meter::Calls, 7)];
    assert_eq!(limits(agent(user, Some(project))), [expected, more.to_vec()].concat());
}

#[test]
fn a_project_may_only_lessen_what_is_done_unasked() {
    let user = "autonomy: { default: semi }";
    let check = |project: &str, expected: Result<&str, &str>| match (load(user, Some(project)), expected) {
        (Ok(config), Ok(name)) => {
            assert_eq!(config.policy.agents[&AgentName::from("default")].autonomy.value.name, name, "{project}");
        }
        (Err(errors), Err(message)) => assert!(errors[0].message.contains(message), "{project}: {}", errors[0]),
        (given, _) => panic!("{project}: {:?}", given.map(|_| ())),
    };
    check("agents: { default: { autonomy: supervised } }", Ok("supervised"));
    check("agents: { default: { autonomy: semi } }", Ok("semi"));
    check("agents: { default: { autonomy: full } }", Err("autonomy `full` where `semi` holds"));
    check("autonomy: { default: locked }", Err("`autonomy` is not for a file that is not trusted yet"));
    check("approvals: { people: [eve] }", Err("`approvals` is not for a file that is not trusted yet"));
    check("approvals: { at_client: { default: eve } }", Err("`approvals` is not for a file that is not trusted yet"));
}

#[test]
fn a_wrong_word_is_told_with_its_line() {
    let check = |text: &str, line: u64, message: &str| {
        let errors = check_text("t.yaml", text).map(|_| ()).unwrap_err();
        let found: Vec<_> = errors.iter().map(|error| (error.line, error.message.as_str())).collect();
        assert!(found.contains(&(line, message)), "{text}: {found:?}");
    };
    check("autonomy:\n  default: semmi", 2, "unknown preset `semmi`");
    check("agents: { default: { autonomy: nite } }", 1, "unknown preset `nite`");
    check("autonomy: { presets: { semi: {} } }", 1, "`semi` is built in");
    let both = "autonomy:\n  presets:\n    night:\n      auto_approve: [code]\n      human_approval: [code:delete]";
    check(both, 5, "action `code:delete` is on both lists of preset `night`");
    check("autonomy: { presets: { n: { auto_approve: [coed] } } }", 1, "unknown action `coed`");
    check("autonomy: { downgrade: { budget_exhausted: none } }", 1, "unknown preset `none`");
    let rate = "`error_rate` says what share of how many calls leads where";
    check("autonomy: { downgrade: { error_rate: { over: 0.5 } } }", 1, rate);
    check(
        "autonomy: { downgrade: { error_rate: { over: 1.5, of_last: 9, to: semi } } }",
        1,
        "`over: 1.5` is out of range",
    );
    check("approvals: { expires: soon }", 1, "`expires: soon` is not a duration");
    check("approvals: { expires: 0s }", 1, "`expires: 0s` is not a duration");
    check("approvals: { timeout: approve }", 1, "unknown timeout `approve`");
    check("approvals:\n  at_client: { defualt: ann }", 2, "unknown agent `defualt`");
    check("approvals: { at_client: { default: 'a b' } }", 1, "`a b` is not a name for a person");
    check("approvals: { timeout: { deny_after: 1h, escalation: [] } }", 1, "a timeout is one thing");
    check("approvals: { timeout: { escalation: [] } }", 1, "a timeout is one thing");
    check(
        "approvals: { timeout: { escalation: [{ to: [], after: 1h }] } }",
        1,
        "a step says who is asked and for how long",
    );
    let silent = "silence never approves what is at `high` risk";
    check("approvals:\n  timeout:\n    tiered:\n      high: { after: 1h, then: approve }", 4, silent);
    check("approvals: { timeout: { tiered: { low: { after: 1h, then: maybe } } } }", 1, "unknown answer `maybe`");
    check("approvals: { people: ['a b'] }", 1, "`a b` is not a name for a person");
    check("agents: { default: { budget: { day: { bytes_out: lots } } } }", 1, "`bytes_out: lots` is not a size");
}
