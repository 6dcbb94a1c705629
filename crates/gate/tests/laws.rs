//! The laws of the gate, over the whole space: every level, action and class.

use std::{path::Path, sync::Arc};

use proptest::{prelude::*, sample::subsequence};
use toolgate_contract::{
    ActionRegistry, ActionType, AgentName, CALL_TOOL, Category, CommandForm, CommandLine, Decided, Effect, EffectKind,
    Level, Needs, Network, Permission, SafetyClass, SourceLine, ToolDef, Verdict,
};
use toolgate_gate::{
    Agent, Answer, Autonomy, ConnectionTerms, Constraints, Decision, FileScope, HostRule, Listed, NetworkMode, OnWrite,
    Policy, Preset, Request, Resources, Rules, Sourced, Terrain, Word, decide, read_command,
};
use toolgate_guard::shell::Place;

/// A tool that does `action` at its worst as `class`, in the category such a tool usually has.
fn tool(action: &ActionType, class: SafetyClass) -> ToolDef {
    ToolDef {
        name: "probe".into(),
        category: action.home().unwrap_or(Category::Mcp),
        action: action.clone(),
        safety: class,
        needs: Needs::READ_FILES,
        ..ToolDef::default()
    }
}

fn judge(policy: &Policy, agent: &Agent, def: &ToolDef, effects: &[Effect]) -> Decided {
    let request = Request { effects, arguments: Some(&serde_json::Value::Null), ..Request::of(def) };
    decide(policy, agent, &request).decided()
}

fn agent(level: Level) -> Agent {
    Agent::at(AgentName::from("probe"), Sourced::built_in(level))
}

fn listing(actions: &[ActionType]) -> Listed {
    Listed { actions: actions.iter().map(|a| (a.clone(), SourceLine::built_in())).collect(), ..Listed::default() }
}

fn everything() -> impl Iterator<Item = (Level, &'static ActionType, SafetyClass)> {
    Level::ALL.iter().flat_map(|level| {
        ActionType::BUILT_IN
            .iter()
            .flat_map(move |action| SafetyClass::ALL.iter().map(move |class| (*level, action, *class)))
    })
}

#[test]
fn the_whole_table_is_as_reviewed() {
    let policy = Policy::built_in();
    let mut table =
        format!("{:<28} {}\n", "action", SafetyClass::ALL.iter().map(|c| format!("{c:<11}")).collect::<String>());
    for level in Level::ALL {
        table += &format!("\n{level}\n");
        for action in ActionType::BUILT_IN {
            table += &format!("  {:<26} ", action.as_str());
            for class in SafetyClass::ALL {
                let decided = judge(&policy, &agent(*level), &tool(action, *class), &[]);
                let word = match decided.verdict {
                    Verdict::Allow => "yes",
                    Verdict::Ask => "ask",
                    Verdict::Deny => "no",
                };
                table += &format!("{:<11}", format!("{word}:{}", decided.reasons[0].rule.split('_').next().unwrap()));
            }
            table = table.trim_end().to_owned() + "\n";
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_is_denied_stays_denied() {
    for (level, action, class) in everything() {
        let mut agent = agent(level);
        agent.rules.allowed = listing(ActionType::BUILT_IN);
        agent.rules.ask = listing(ActionType::BUILT_IN);
        let mut policy = Policy::built_in();
        policy.rules.allowed = listing(ActionType::BUILT_IN);
        policy.rules.denied = listing(std::slice::from_ref(action));
        let by_policy = judge(&policy, &agent, &tool(action, class), &[]);
        assert_eq!(
            (by_policy.verdict, by_policy.reasons[0].rule),
            (Verdict::Deny, "denied"),
            "{level} {action} {class}"
        );

        policy.rules.denied = Listed::default();
        agent.rules.denied.tools.insert("probe".into(), SourceLine::built_in());
        let by_agent = judge(&policy, &agent, &tool(action, class), &[]);
        assert_eq!((by_agent.verdict, by_agent.reasons[0].rule), (Verdict::Deny, "denied"), "{level} {action} {class}");
    }
}

#[test]
fn allowed_never_overrides_must_ask() {
    for (level, action, class) in everything() {
        let mut agent = agent(level);
        agent.rules.allowed = listing(ActionType::BUILT_IN);
        agent.rules.ask = listing(std::slice::from_ref(action));
        // An elevated agent oversteps no constraint, so there the list alone decides.
        let decided = judge(&Policy::built_in(), &agent, &tool(action, class), &[]);
        assert_ne!(decided.verdict, Verdict::Allow, "{level} {action} {class}");
        assert!(level != Level::Elevated || decided.verdict == Verdict::Ask, "{level} {action} {class}");
    }
}

#[test]
fn allowed_overrides_the_level_but_not_its_constraints() {
    let mut agent = agent(Level::Sandboxed);
    agent.rules.allowed = listing(&[ActionType::DbQuery, ActionType::VcsPush, ActionType::CommsExternal]);
    let policy = Policy::built_in();
    assert_eq!(judge(&policy, &agent, &tool(&ActionType::DbQuery, SafetyClass::Read), &[]).verdict, Verdict::Allow);
    let push = judge(&policy, &agent, &tool(&ActionType::VcsPush, SafetyClass::Network), &[]);
    assert_eq!((push.verdict, push.reasons[0].rule), (Verdict::Deny, "git_constraint"));
    let fetch = [Effect::on(EffectKind::Network, "example.com:443")];
    let web = judge(&policy, &agent, &tool(&ActionType::CommsExternal, SafetyClass::Network), &fetch);
    assert_eq!((web.verdict, web.reasons[0].rule), (Verdict::Deny, "network_constraint"));
}

#[test]
fn where_nothing_speaks_the_answer_is_no() {
    let mut policy = Policy::built_in();
    policy.rules = Rules::default();
    for (_, action, class) in everything() {
        let mut silent = agent(Level::Custom);
        silent.constraints = Constraints::of(Level::Elevated).into();
        let decided = judge(&policy, &silent, &tool(action, class), &[]);
        assert_eq!((decided.verdict, decided.reasons[0].rule), (Verdict::Deny, "no_rule"), "{action} {class}");
    }
    policy.levels.clear();
    for (level, action, class) in everything() {
        assert_eq!(judge(&policy, &agent(level), &tool(action, class), &[]).verdict, Verdict::Deny);
    }
}

/// What somebody else's program makes of an input is not known to be a function of it.
#[test]
fn a_tool_of_others_that_touches_nothing_wants_a_right_like_any_other() {
    let policy = Policy::built_in();
    for level in Level::ALL {
        let def = ToolDef {
            category: Category::Mcp,
            needs: Needs::NOTHING,
            ..tool(&ActionType::CodeRead, SafetyClass::Read)
        };
        let verdict = |foreign: bool| {
            let request = Request { foreign, arguments: Some(&serde_json::Value::Null), ..Request::of(&def) };
            decide(&policy, &agent(*level), &request).decided().verdict
        };
        let by_category = policy.levels.get(level).is_some_and(|rights| rights.categories.contains_key(&Category::Mcp));
        assert_eq!(verdict(true) == Verdict::Deny, !by_category, "{level}");
        assert_eq!(verdict(false) == Verdict::Deny, *level == Level::Custom, "{level}");
    }
}

#[test]
fn a_tool_that_touches_nothing_is_for_every_level_but_custom() {
    let def = ToolDef {
        category: Category::Analytics,
        needs: Needs::NOTHING,
        ..tool(&ActionType::CodeRead, SafetyClass::Read)
    };
    for level in Level::LADDER {
        assert_eq!(judge(&Policy::built_in(), &agent(level), &def, &[]).verdict, Verdict::Allow, "{level}");
    }
    assert_eq!(judge(&Policy::built_in(), &agent(Level::Custom), &def, &[]).verdict, Verdict::Deny);
    let writes = ToolDef { safety: SafetyClass::Write, ..def };
    assert_eq!(judge(&Policy::built_in(), &agent(Level::Sandboxed), &writes, &[]).verdict, Verdict::Deny);
}

#[test]
fn an_effect_stricter_than_the_declared_class_rules() {
    let def = tool(&ActionType::CodeRead, SafetyClass::Read);
    let pays = [Effect::on(EffectKind::Financial, "invoice 7")];
    let decided = judge(&Policy::built_in(), &agent(Level::Elevated), &def, &pays);
    assert_eq!((decided.verdict, decided.reasons[0].rule), (Verdict::Ask, "ask_class"));
}

#[test]
fn lost_history_is_asked_about_whatever_is_allowed() {
    for (level, kind) in
        Level::ALL.iter().flat_map(|level| [(level, EffectKind::RewriteHistory), (level, EffectKind::DeleteBranch)])
    {
        let mut agent = agent(*level);
        agent.rules.allowed = listing(&[ActionType::VcsBranch]);
        let def = tool(&ActionType::VcsBranch, SafetyClass::Write);
        assert_eq!(judge(&Policy::built_in(), &agent, &def, &[]).verdict, Verdict::Allow, "{level}");
        let decided = judge(&Policy::built_in(), &agent, &def, &[Effect::on(kind, "main")]);
        assert_eq!((decided.verdict, decided.reasons[0].rule), (Verdict::Ask, "effect_asks"), "{level} {kind:?}");
        let told = match kind {
            EffectKind::DeleteBranch => "a branch or tag would be removed (`main`)",
            _ => "history would be rewritten (`main`)",
        };
        assert_eq!(decided.reasons[0].text, told);
    }
}

#[test]
fn rules_about_files_and_hosts_bind_whoever_they_stand_with() {
    let rule = |answer| HostRule {
        answer,
        hosts: vec!["paste.example".into()],
        because: "not ours".into(),
        source: SourceLine::built_in(),
    };
    let def = tool(&ActionType::VcsRead, SafetyClass::Network);
    let check = |resources: Resources, target: &str, expected: Verdict| {
        let effects = [Effect::on(EffectKind::Network, target)];
        let of_all = Policy { resources: resources.clone(), ..Policy::built_in() };
        assert_eq!(judge(&of_all, &agent(Level::Elevated), &def, &effects).verdict, expected, "{target}");
        let of_one = Agent { resources, ..agent(Level::Elevated) };
        assert_eq!(judge(&Policy::built_in(), &of_one, &def, &effects).verdict, expected, "{target}");
    };
    let with = |answer| Resources { files: Vec::new(), hosts: vec![rule(answer)] };
    check(with(Answer::Deny), "paste.example:443", Verdict::Deny);
    check(with(Answer::Ask), "paste.example:443", Verdict::Ask);
    check(with(Answer::Deny), "docs.example:443", Verdict::Allow);
}

#[test]
fn a_tool_that_talks_is_shown_to_whom_a_list_binds() {
    let mut agent = agent(Level::Restricted);
    Arc::make_mut(&mut agent.constraints).network_allowlist = vec![Sourced::built_in("docs.example".into())];
    let def = ToolDef {
        needs: Needs { network: Network::Fenced, ..Needs::NOTHING },
        ..tool(&ActionType::VcsRead, SafetyClass::Network)
    };
    assert_eq!(decide(&Policy::built_in(), &agent, &Request::of(&def)).decided().verdict, Verdict::Allow);
    assert_eq!(judge(&Policy::built_in(), &agent, &def, &[]).verdict, Verdict::Deny);
}

#[test]
fn paths_that_are_not_open_are_refused_to_tools_and_left_to_rooms() {
    let terrain = Terrain::within(FileScope::WorkspaceOnly, &[Path::new("/ws")], Path::new("/ws"), &[]);
    let effects = [Effect::on(EffectKind::FsRead, "/elsewhere/a")];
    let (policy, agent) = (Policy::built_in(), agent(Level::Elevated));
    let command = read_command(
        &policy,
        &agent,
        &CommandLine::new(CommandForm::Script("cat /elsewhere/a".into())),
        &Place::at("/ws", "/home/agent"),
    );
    let check = |exec: bool, with_command: bool, expected: bool| {
        let def =
            ToolDef { needs: Needs { exec, ..Needs::READ_FILES }, ..tool(&ActionType::CodeRead, SafetyClass::Read) };
        let request = Request {
            effects: &effects,
            terrain: &terrain,
            command: with_command.then_some(&command.judgement),
            arguments: Some(&serde_json::Value::Null),
            ..Request::of(&def)
        };
        let decided = decide(&policy, &agent, &request).decided();
        let refused = decided.reasons.iter().any(|reason| reason.rule == "file_system_constraint");
        assert_eq!(refused, expected, "exec {exec}, command {with_command}: {decided:?}");
    };
    check(false, false, true);
    check(true, false, false);
    check(false, true, false);
}

#[test]
fn a_word_on_who_may_call_is_what_it_says() {
    assert_eq!(Word::from(Permission::Allow), Word::from(Permission::Allow));
    assert_ne!(Word::from(Permission::Allow), Word::from(Permission::Deny));
}

#[test]
fn an_agent_stands_no_higher_than_its_ladder() {
    let mut agent = agent(Level::Sandboxed);
    agent.ladder = [Level::Sandboxed, Level::Standard].map(|level| (level, Arc::new(Constraints::of(level)))).into();
    let at = |level| {
        let standing = agent.standing_at(level);
        (standing.level.value, standing.constraints.network.value)
    };
    let network = |level| Constraints::of(level).network.value;
    assert_eq!(at(Level::Sandboxed), (Level::Sandboxed, network(Level::Sandboxed)));
    assert_eq!(at(Level::Restricted), (Level::Sandboxed, network(Level::Sandboxed)));
    assert_eq!(at(Level::Elevated), (Level::Standard, network(Level::Standard)));
    assert_ne!(network(Level::Sandboxed), network(Level::Standard));
}

#[test]
fn a_connection_binds_as_its_operator_said() {
    let check = |writes: bool, sensitive: bool, on_write: OnWrite, expected: (Verdict, &str)| {
        let connection =
            ConnectionTerms { name: "crm".into(), writes, sensitive, on_write, source: SourceLine::built_in() };
        let def = tool(&ActionType::ExternalDataRequest, SafetyClass::Network);
        let effects = [Effect::on(EffectKind::Network, "crm.example.com:443")];
        let request = Request {
            effects: &effects,
            connection: Some(&connection),
            arguments: Some(&serde_json::Value::Null),
            ..Request::of(&def)
        };
        let mut agent = agent(Level::Elevated);
        agent.rules.allowed = listing(&[ActionType::ExternalDataRequest]);
        let decided = decide(&Policy::built_in(), &agent, &request).decided();
        assert_eq!((decided.verdict, decided.reasons[0].rule), expected, "{connection:?}");
    };
    for on_write in [OnWrite::Deny, OnWrite::Ask, OnWrite::Allow] {
        check(false, false, on_write, (Verdict::Allow, "allowed"));
        check(false, true, on_write, (Verdict::Ask, "connection_asks"));
    }
    check(true, false, OnWrite::Allow, (Verdict::Allow, "allowed"));
    check(true, false, OnWrite::Ask, (Verdict::Ask, "connection_asks"));
    check(true, true, OnWrite::Allow, (Verdict::Ask, "connection_asks"));
    check(true, false, OnWrite::Deny, (Verdict::Deny, "connection_write"));
    check(true, true, OnWrite::Deny, (Verdict::Deny, "connection_write"));
}

#[test]
fn a_program_that_names_no_host_is_left_to_its_room_and_a_request_is_not() {
    let mut agent = agent(Level::Restricted);
    Arc::make_mut(&mut agent.constraints).network_allowlist = vec![Sourced::built_in("git.example.com".into())];
    let fetch = ToolDef {
        needs: Needs { exec: true, network: Network::Fenced, ..Needs::WRITE_FILES },
        ..tool(&ActionType::VcsRead, SafetyClass::Network)
    };
    let somebody = [Effect { kind: EffectKind::Network, target: None }];
    let check = |def: &ToolDef, effects: &[Effect], expected| {
        assert_eq!(judge(&Policy::built_in(), &agent, def, effects).verdict, expected, "{effects:?}");
    };
    check(&fetch, &somebody, Verdict::Allow);
    check(&fetch, &[Effect::on(EffectKind::Network, "git.example.com:443")], Verdict::Allow);
    check(&fetch, &[Effect::on(EffectKind::Network, "evil.example.com:443")], Verdict::Deny);
    let request = ToolDef { needs: Needs { exec: false, ..fetch.needs }, ..fetch };
    check(&request, &somebody, Verdict::Deny);
    check(&request, &[], Verdict::Deny);
}

#[test]
fn privileged_wants_two_people_and_financial_one() {
    for (class, people) in [(SafetyClass::Financial, 1), (SafetyClass::Privileged, 2)] {
        let def = tool(&ActionType::CodeRead, class);
        let request = Request::of(&def);
        match decide(&Policy::built_in(), &agent(Level::Elevated), &request) {
            Decision::Ask(asking) => assert_eq!(asking.people, people),
            other => panic!("{class}: {other:?}"),
        }
    }
}

#[test]
fn each_permission_is_enforced_whoever_states_it() {
    let cases: [(Permission, Verdict, &str); 8] = [
        (Permission::Allow, Verdict::Allow, "level"),
        (Permission::Confirm, Verdict::Ask, "permission_confirm"),
        (Permission::Deny, Verdict::Deny, "permission_deny"),
        (Permission::Roles(vec!["reviewer".into(), "lead".into()]), Verdict::Allow, "level"),
        (Permission::Roles(vec!["reviewer".into()]), Verdict::Deny, "permission_roles"),
        (Permission::Condition("agent.level == \"standard\"".into()), Verdict::Allow, "level"),
        (Permission::Condition("starts_with(args.path, \"docs/\")".into()), Verdict::Deny, "permission_condition"),
        (Permission::Condition("this is no condition".into()), Verdict::Deny, "permission_condition"),
    ];
    let mut agent = agent(Level::Standard);
    agent.roles.insert("lead".into());
    for (permission, verdict, rule) in cases {
        let plain = tool(&ActionType::CodeRead, SafetyClass::Read);
        let declared = ToolDef { permission: permission.clone(), ..plain.clone() };
        let by_tool = judge(&Policy::built_in(), &agent, &declared, &[]);
        assert_eq!((by_tool.verdict, by_tool.reasons[0].rule), (verdict, rule), "declared {permission:?}");

        let mut policy = Policy::built_in();
        let source = SourceLine { file: "toolgate.yaml".into(), line: 7 };
        policy.tools.insert("probe".into(), vec![Sourced { value: permission.clone().into(), source: source.clone() }]);
        let by_operator = judge(&policy, &agent, &plain, &[]);
        assert_eq!((by_operator.verdict, by_operator.reasons[0].rule), (verdict, rule), "configured {permission:?}");
        if verdict != Verdict::Allow {
            assert_eq!(by_operator.reasons[0].source, source);
        }
    }
}

#[test]
fn a_condition_about_arguments_neither_hides_a_tool_nor_runs_it() {
    let def = ToolDef {
        permission: Permission::Condition("starts_with(args.path, \"docs/\")".into()),
        ..tool(&ActionType::CodeRead, SafetyClass::Read)
    };
    let asked = |arguments: Option<&serde_json::Value>| {
        let request = Request { arguments, ..Request::of(&def) };
        decide(&Policy::built_in(), &agent(Level::Standard), &request).decided().verdict
    };
    assert_eq!(asked(None), Verdict::Allow);
    assert_eq!(asked(Some(&serde_json::json!({ "path": "docs/a.md" }))), Verdict::Allow);
    assert_eq!(asked(Some(&serde_json::json!({ "path": "src/a.rs" }))), Verdict::Deny);
    assert_eq!(asked(Some(&serde_json::json!({}))), Verdict::Deny);
}

#[test]
fn approval_required_by_a_level_tightens_a_grant_and_grants_nothing() {
    let def = tool(&ActionType::DeployStaging, SafetyClass::Write);
    let bare = judge(&Policy::built_in(), &agent(Level::Restricted), &def, &[]);
    assert_eq!((bare.verdict, bare.reasons[0].rule), (Verdict::Deny, "no_rule"));
    let mut granted = agent(Level::Restricted);
    granted.rules.allowed = listing(&[ActionType::DeployStaging]);
    let asked = judge(&Policy::built_in(), &granted, &def, &[]);
    assert_eq!((asked.verdict, asked.reasons[0].rule), (Verdict::Ask, "requires_approval"));
}

#[test]
fn nobody_is_asked_about_a_call_that_stands_for_another() {
    type Asks = fn(&mut Policy, &mut Agent, &mut ToolDef);
    let ways: [(&str, Asks); 5] = [
        ("ask", |policy, _, def| {
            policy.rules.ask.tools.insert(def.name.to_string(), SourceLine::built_in());
        }),
        ("ask", |_, agent, def| agent.rules.ask = listing(std::slice::from_ref(&def.action))),
        ("ask_class", |policy, _, def| {
            policy.rules.ask_classes.insert(def.safety, Sourced::built_in(1));
        }),
        ("permission_confirm", |_, _, def| def.permission = Permission::Confirm),
        ("requires_approval", |_, agent, def| {
            let constraints = Arc::make_mut(&mut agent.constraints);
            constraints.requires_approval.insert(def.action.clone(), SourceLine::built_in());
        }),
    ];
    for (rule, asks) in ways {
        for (name, expected) in [(CALL_TOOL, Verdict::Deny), ("list_tools", Verdict::Ask)] {
            let (mut policy, mut agent) = (Policy::built_in(), agent(Level::Standard));
            let mut def = ToolDef {
                name: name.into(),
                needs: Needs::NOTHING,
                ..tool(&ActionType::MemoryRead, SafetyClass::Read)
            };
            assert_eq!(judge(&policy, &agent, &def, &[]).verdict, Verdict::Allow);
            asks(&mut policy, &mut agent, &mut def);
            let decided = judge(&policy, &agent, &def, &[]);
            let first = if expected == Verdict::Deny { "stands_for_another" } else { rule };
            assert_eq!((decided.verdict, decided.reasons[0].rule), (expected, first), "{name} {rule}");
            assert!(decided.reasons.iter().any(|reason| reason.rule == rule), "{name}: {decided:?}");
        }
    }
}

fn some_actions() -> impl Strategy<Value = Vec<ActionType>> {
    subsequence(ActionType::BUILT_IN.to_vec(), 0..12)
}

proptest! {
    #[test]
    fn a_higher_level_never_loses_a_right(
        denied in some_actions(),
        ask in some_actions(),
        allowed in some_actions(),
        kinds in subsequence(vec![EffectKind::FsRead, EffectKind::FsWrite, EffectKind::Network, EffectKind::Financial], 0..3),
    ) {
        let mut policy = Policy::built_in();
        policy.rules.denied = listing(&denied);
        policy.rules.ask = listing(&ask);
        policy.rules.allowed = listing(&allowed);
        let effects: Vec<_> = kinds.into_iter().map(|kind| Effect::on(kind, "somewhere")).collect();
        for action in ActionType::BUILT_IN {
            for class in SafetyClass::ALL {
                let verdicts = Level::LADDER.map(|level| judge(&policy, &agent(level), &tool(action, *class), &effects).verdict);
                prop_assert!(verdicts.is_sorted(), "{action} {class}: {verdicts:?}");
            }
        }
    }

    #[test]
    fn adding_to_a_denied_or_ask_list_never_widens(first in some_actions(), more in some_actions(), level in 0..5_usize) {
        let agent = agent(Level::ALL[level]);
        let mut before = Policy::built_in();
        before.rules.denied = listing(&first);
        let mut after = before.clone();
        after.rules.denied.actions.extend(listing(&more).actions);
        after.rules.ask = listing(&more);
        for action in ActionType::BUILT_IN {
            let def = tool(action, SafetyClass::Write);
            let (old, new) = (judge(&before, &agent, &def, &[]).verdict, judge(&after, &agent, &def, &[]).verdict);
            // Asking is a right only where something was denied for want of a rule; a list of denials never gives one.
            if more.contains(action) {
                prop_assert_eq!(new, Verdict::Deny);
            } else {
                prop_assert_eq!(new, old);
            }
        }
    }
}

#[test]
fn what_a_command_is_refused_or_asked_for_is_so_whatever_is_allowed() {
    let def = ToolDef { category: Category::Terminal, ..tool(&ActionType::CodeWrite, SafetyClass::Write) };
    let place = Place::at("/srv/space", "/home/agent");
    let decided = |policy: &Policy, agent: &Agent, script: &str| {
        let line = CommandLine::new(CommandForm::Script(script.into()));
        let meant = read_command(policy, agent, &line, &place);
        let request = Request {
            effects: &meant.effects,
            risk: meant.risk,
            command: Some(&meant.judgement),
            arguments: Some(&serde_json::Value::Null),
            ..Request::of(&def)
        };
        let decided = decide(policy, agent, &request).decided();
        (decided.verdict, decided.reasons[0].rule)
    };
    let mut agent = agent(Level::Standard);
    let mut policy = Policy::built_in();
    policy.rules.allowed = listing(ActionType::BUILT_IN);
    assert_eq!(decided(&policy, &agent, "cargo test"), (Verdict::Allow, "allowed"));
    assert_eq!(decided(&policy, &agent, "helm install x"), (Verdict::Ask, "command_profile"));
    assert_eq!(decided(&policy, &agent, "rm -rf ~/docs"), (Verdict::Ask, "command_rule"));
    assert_eq!(decided(&policy, &agent, "rm -rf /; helm x"), (Verdict::Deny, "command_rule"));
    // Other rules are heard first, and rights an agent does not have want two people.
    assert_eq!(decided(&policy, &agent, "sudo ls"), (Verdict::Ask, "ask_class"));
    agent.rules.denied = listing(&[ActionType::CodeWrite]);
    assert_eq!(decided(&policy, &agent, "cargo test"), (Verdict::Deny, "denied"));
}

#[test]
fn a_command_that_names_a_host_is_held_against_the_allowlist() {
    let def = ToolDef { category: Category::CodeExecution, ..tool(&ActionType::CodeWrite, SafetyClass::Write) };
    let verdict = |network: NetworkMode, script: &str| {
        let mut agent = agent(Level::Elevated);
        let constraints = Arc::make_mut(&mut agent.constraints);
        constraints.network = Sourced::built_in(network);
        constraints.network_allowlist = vec![Sourced::built_in("api.example.com:443".into())];
        let line = CommandLine::new(CommandForm::Script(script.into()));
        let policy = Policy::built_in();
        let meant = read_command(&policy, &agent, &line, &Place::at("/srv/space", "/home/agent"));
        let request = Request {
            effects: &meant.effects,
            risk: meant.risk,
            command: Some(&meant.judgement),
            arguments: Some(&serde_json::Value::Null),
            ..Request::of(&def)
        };
        decide(&policy, &agent, &request).decided().verdict
    };
    for (script, listed, none) in [
        ("curl https://api.example.com/x", Verdict::Allow, Verdict::Deny),
        ("curl https://other.example.com/x", Verdict::Deny, Verdict::Deny),
        ("curl http://api.example.com/x", Verdict::Deny, Verdict::Deny),
        ("npm ci", Verdict::Allow, Verdict::Deny),
        ("curl http://localhost:3000", Verdict::Allow, Verdict::Allow),
        ("ls", Verdict::Allow, Verdict::Allow),
    ] {
        assert_eq!((script, verdict(NetworkMode::AllowlistOnly, script)), (script, listed));
        assert_eq!((script, verdict(NetworkMode::None, script)), (script, none));
    }
}

#[test]
fn autonomy_turns_a_yes_into_a_question_and_never_a_no_into_one() {
    let policy = Policy::built_in();
    for preset in Preset::ALL {
        for (level, action, class) in everything() {
            let def = tool(action, class);
            let free = judge(&policy, &agent(level), &def, &[]);
            let autonomy = Sourced::built_in(Autonomy::preset(*preset, &policy.actions));
            let held = judge(&policy, &Agent { autonomy: autonomy.clone(), ..agent(level) }, &def, &[]);
            let expected = match free.verdict {
                Verdict::Allow if !autonomy.value.auto.contains(action) => Verdict::Ask,
                other => other,
            };
            assert_eq!(held.verdict, expected, "{preset} {level} {action} {class}");
        }
    }
}

#[test]
fn what_a_call_also_amounts_to_is_judged_like_what_it_does() {
    let def = tool(&ActionType::CodeRead, SafetyClass::Read);
    let check = |change: &dyn Fn(&mut Policy, &mut Agent), expected: (Verdict, &str)| {
        let (mut policy, mut agent) = (Policy::built_in(), agent(Level::Elevated));
        change(&mut policy, &mut agent);
        let request = Request {
            also: &[ActionType::BudgetExceed],
            arguments: Some(&serde_json::Value::Null),
            ..Request::of(&def)
        };
        let decided = decide(&policy, &agent, &request).decided();
        assert_eq!((decided.verdict, decided.reasons[0].rule), expected);
    };
    check(&|_, _| {}, (Verdict::Ask, "budget"));
    check(&|_, agent| agent.rules.allowed = listing(&[ActionType::BudgetExceed]), (Verdict::Allow, "level"));
    check(&|policy, _| policy.rules.denied = listing(&[ActionType::BudgetExceed]), (Verdict::Deny, "denied"));
    check(&|_, agent| agent.rules.ask = listing(&[ActionType::BudgetExceed]), (Verdict::Ask, "ask"));
    check(
        &|_, agent| {
            let semi = Autonomy::preset(Preset::Semi, &ActionRegistry::default());
            agent.autonomy = Sourced::built_in(semi);
            agent.rules.allowed = listing(&[ActionType::BudgetExceed]);
        },
        (Verdict::Ask, "autonomy"),
    );
}

/// What an agent at the highest level does by itself, by autonomy: the presets turn answers into questions and never the
/// other way.
#[test]
fn every_autonomy_is_as_reviewed() {
    let policy = Policy::built_in();
    let classes: String = SafetyClass::ALL.iter().map(|class| format!("{class:<14}")).collect();
    let mut table = format!("{:<28} {classes}\n", "action");
    for preset in Preset::ALL {
        let mut agent = agent(Level::Elevated);
        agent.autonomy = Sourced::built_in(Autonomy::preset(*preset, &ActionRegistry::default()));
        table += &format!("\n{preset}\n");
        for action in ActionType::BUILT_IN {
            table += &format!("  {:<26} ", action.as_str());
            for class in SafetyClass::ALL {
                let decided = judge(&policy, &agent, &tool(action, *class), &[]);
                let word = match decided.verdict {
                    Verdict::Allow => "yes",
                    Verdict::Ask => "ask",
                    Verdict::Deny => "no",
                };
                table += &format!("{:<14}", format!("{word}:{}", decided.reasons[0].rule.split('_').next().unwrap()));
            }
            table = table.trim_end().to_owned() + "\n";
        }
    }
    insta::assert_snapshot!(table);
}
