//! The six dimensions, over every level and category: what each value lets through, kept as a reviewed table.

use std::{path::Path, sync::Arc};

use serde_json::Value;
use toolgate_contract::{
    ActionType, AgentName, Category, Effect, EffectKind, Level, Needs, Network, SafetyClass, SourceLine, ToolDef,
    Verdict,
};
use toolgate_gate::{
    Agent, CodeIsolation, Constraints, Decision, FileScope, GitLevel, NetworkMode, Policy, Request, Sourced,
    TerminalMode, Terrain, decide,
};

/// The calls every category is asked about, by the letter that stands for them in the table.
const CALLS: [(char, fn() -> Call); 8] = [
    ('f', file),
    ('g', sibling),
    ('d', elsewhere),
    ('x', program),
    ('e', effect),
    ('l', listed),
    ('o', other),
    ('p', push),
];

/// A call, as far as a dimension looks at it.
struct Call {
    action: ActionType,
    class: SafetyClass,
    needs: Needs,
    effects: Vec<Effect>,
}

/// Reads a file of the workspace.
fn file() -> Call {
    reading("a.txt")
}

/// Reads a file of the project.
fn sibling() -> Call {
    reading("../a.txt")
}

/// Reads a file of a directory the operator opened.
fn elsewhere() -> Call {
    reading("/srv/data/a.txt")
}

fn reading(path: &str) -> Call {
    let effects = vec![Effect::on(EffectKind::FsRead, path)];
    Call { action: ActionType::CodeRead, class: SafetyClass::Read, needs: Needs::READ_FILES, effects }
}

/// Is declared to start programs.
fn program() -> Call {
    let needs = Needs { exec: true, ..Needs::WRITE_FILES };
    Call { action: ActionType::TestRun, class: SafetyClass::Write, needs, effects: Vec::new() }
}

/// Starts one with these arguments, whatever it declares.
fn effect() -> Call {
    let effects = vec![Effect::on(EffectKind::Exec, "make")];
    Call { action: ActionType::TestRun, class: SafetyClass::Write, needs: Needs::WRITE_FILES, effects }
}

/// Talks to a host on the agent's list.
fn listed() -> Call {
    reaching("listed.example.com:443")
}

/// Talks to another one.
fn other() -> Call {
    reaching("other.example.com:443")
}

fn reaching(host: &str) -> Call {
    let needs = Needs { network: Network::Fenced, ..Needs::NOTHING };
    let effects = vec![Effect::on(EffectKind::Network, host)];
    Call { action: ActionType::VcsRead, class: SafetyClass::Network, needs, effects }
}

/// Pushes, and does not say that this is network.
fn push() -> Call {
    Call { action: ActionType::VcsPush, class: SafetyClass::Write, needs: Needs::WRITE_FILES, effects: Vec::new() }
}

/// What a dimension is set to, and how that is called.
type Setting = (String, Box<dyn Fn(&mut Constraints)>);

fn settings() -> Vec<Setting> {
    let mut settings: Vec<Setting> = vec![("as the level says".into(), Box::new(|_| {}))];
    for value in FileScope::ALL {
        let set = move |held: &mut Constraints| held.file_system = Sourced::built_in(*value);
        settings.push((format!("file_system: {}", value.as_str()), Box::new(set)));
    }
    for value in CodeIsolation::ALL {
        let set = move |held: &mut Constraints| held.code_execution = Sourced::built_in(*value);
        settings.push((format!("code_execution: {}", value.as_str()), Box::new(set)));
    }
    for value in NetworkMode::ALL {
        let set = move |held: &mut Constraints| {
            held.network = Sourced::built_in(*value);
            held.network_allowlist = vec![Sourced::built_in("listed.example.com".into())];
        };
        settings.push((format!("network: {}", value.as_str()), Box::new(set)));
    }
    for value in GitLevel::ALL {
        let set = move |held: &mut Constraints| held.git = Sourced::built_in(*value);
        settings.push((format!("git: {}", value.as_str()), Box::new(set)));
    }
    for value in TerminalMode::ALL {
        let set = move |held: &mut Constraints| held.terminal = Sourced::built_in(*value);
        settings.push((format!("terminal: {}", value.as_str()), Box::new(set)));
    }
    let asks = |held: &mut Constraints| {
        held.requires_approval = [ActionType::CodeRead, ActionType::TestRun]
            .map(|action| (action, SourceLine { file: "toolgate.yaml".into(), line: 7 }))
            .into();
    };
    settings.push(("requires_approval: [code:read, test:run]".into(), Box::new(asks)));
    settings
}

fn judged(agent: &Agent, category: Category, call: &Call) -> Decision {
    let def = ToolDef {
        name: "probe".into(),
        category,
        action: call.action.clone(),
        safety: call.class,
        needs: call.needs,
        ..ToolDef::default()
    };
    let scope = agent.constraints.file_system.value;
    let (workspace, project, opened) = (Path::new("/srv/p/ws"), Path::new("/srv/p"), Path::new("/srv/data"));
    let request = Request {
        action: &call.action,
        effects: &call.effects,
        terrain: &Terrain::within(scope, &[workspace], project, &[opened]),
        arguments: Some(&Value::Null),
        ..Request::of(&def)
    };
    decide(&Policy::built_in(), agent, &request)
}

fn agent(level: Level, set: &dyn Fn(&mut Constraints)) -> Agent {
    let mut agent = Agent::at(AgentName::from("probe"), Sourced::built_in(level));
    if level == Level::Custom {
        // Such an agent has what its lists name: all of it here, so that its constraints are what is seen.
        agent.rules.allowed.actions =
            ActionType::BUILT_IN.iter().map(|action| (action.clone(), SourceLine::built_in())).collect();
    }
    set(Arc::make_mut(&mut agent.constraints));
    agent
}

/// One letter for every call that passes, a question mark behind those a person is asked about.
fn cell(agent: &Agent, category: Category) -> String {
    let word = |(letter, call): &(char, fn() -> Call)| match judged(agent, category, &call()).decided().verdict {
        Verdict::Allow => letter.to_string(),
        Verdict::Ask => format!("{letter}?"),
        Verdict::Deny => String::new(),
    };
    let passed: String = CALLS.iter().map(word).collect();
    if passed.is_empty() { "-".into() } else { passed }
}

#[test]
fn the_whole_matrix_is_as_reviewed() {
    let mut table = String::from(
        "f: reads a file of the workspace, g: of the project, d: of an opened directory, x: is declared to start programs,\n\
         e: starts one with these arguments, l: talks to a listed host, o: to another one, p: pushes. What is missing is\n\
         refused, `?` asks a person, `-` is nothing at all.\n",
    );
    for (name, set) in settings() {
        table += &format!("\n{name}\n  {:<16}", "");
        table += &Level::ALL.iter().map(|level| format!("{level:<14}")).collect::<String>();
        for category in Category::ALL {
            table = table.trim_end().to_owned() + &format!("\n  {category:<16}");
            let cells = Level::ALL.iter().map(|level| format!("{:<14}", cell(&agent(*level, &*set), category)));
            table += &cells.collect::<String>();
        }
        table = table.trim_end().to_owned() + "\n";
    }
    insta::assert_snapshot!(table);
}

/// The rule that refuses a call of an elevated agent whose constraints were set.
#[track_caller]
fn check(set: impl Fn(&mut Constraints), category: Category, call: &Call, expected: Option<&str>) {
    let decided = judged(&agent(Level::Elevated, &set), category, call).decided();
    let refused = (decided.verdict == Verdict::Deny).then(|| decided.reasons[0].rule);
    assert_eq!(refused, expected);
}

#[test]
fn an_agent_without_code_starts_no_program_whichever_tool_would() {
    let none = |held: &mut Constraints| held.code_execution = Sourced::built_in(CodeIsolation::None);
    for category in Category::ALL {
        check(none, category, &program(), Some("code_execution_constraint"));
        check(none, category, &effect(), Some("code_execution_constraint"));
        check(none, category, &file(), None);
        check(|_| {}, category, &program(), None);
    }
}

#[test]
fn a_push_is_one_in_every_category() {
    let local = |held: &mut Constraints| held.git = Sourced::built_in(GitLevel::ReadAndBranch);
    for category in Category::ALL {
        check(local, category, &push(), Some("git_constraint"));
    }
}

#[test]
fn files_are_judged_by_their_words_however_those_are_put() {
    let only = |held: &mut Constraints| held.file_system = Sourced::built_in(FileScope::WorkspaceOnly);
    for path in ["..", "../a", "a/../../b", "/srv/p", "/srv/p/wsx/a", "/", "/etc/passwd", "/srv/data/a"] {
        check(only, Category::FileSystem, &reading(path), Some("file_system_constraint"));
    }
    for path in [".", "a", "a/../b", "/srv/p/ws", "/srv/p/ws/a", "../ws/a"] {
        check(only, Category::FileSystem, &reading(path), None);
    }
}
