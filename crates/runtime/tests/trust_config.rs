//! What a config says about trust: the published blocks as rules of the gate, and what binds an agent that trust moves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{collections::BTreeMap, fs, path::Path};

use toolgate_contract::{
    ActionType, AgentName, Category, Difficulty, Evidence, Fact, Level, Score, SourceLine, TaskOutcome,
};
use toolgate_gate::{
    Agent, Constraints, FileScope, GitLevel, NetworkMode, Policy, Sourced, TerminalMode,
    trust::{Decay, Milestone, Need, Step, Strategy, Threshold, TrustRules, Weights, stand},
};
use toolgate_runtime::config::{Config, ConfigError, Sources};

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

fn policy(user: &str) -> Policy {
    load(user, None).unwrap_or_else(|errors| panic!("{}", errors[0])).policy
}

fn agent(user: &str, project: Option<&str>) -> Agent {
    let config = load(user, project).unwrap_or_else(|errors| panic!("{}", errors[0]));
    config.policy.agents[&AgentName::from("default")].clone()
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.yaml"));
    fs::read_to_string(path).unwrap()
}

fn on<T>(line: u64, value: T) -> Sourced<T> {
    Sourced { value, source: SourceLine { file: String::new(), line } }
}

/// The rules of a published block, without the name of the file.
fn rules(name: &str) -> TrustRules {
    let mut rules = policy(&fixture(name)).trust;
    let nameless = |source: &mut SourceLine| source.file.clear();
    match &mut rules.strategy {
        Strategy::Disabled => {}
        Strategy::Weighted { steps, .. } => steps.values_mut().for_each(|step| nameless(&mut step.source)),
        Strategy::PerCategory { start, steps } => {
            start.values_mut().for_each(|level| nameless(&mut level.source));
            steps.values_mut().flat_map(BTreeMap::values_mut).for_each(|step| nameless(&mut step.source));
        }
        Strategy::Milestone { steps } => steps.values_mut().for_each(|step| nameless(&mut step.source)),
    }
    rules
}

const NOTHING: Milestone = Milestone { tasks: 0, quality: None, active_days: 0, clean_days: 0, person: false };

#[test]
fn the_published_blocks_say_what_they_say() {
    assert_eq!(rules("trust_disabled"), TrustRules { decay: some_errors(), ..TrustRules::disabled() });

    let weighted = Strategy::Weighted {
        weights: Weights { task_difficulty: 3_000, completion_rate: 2_500, error_rate: 2_500, human_feedback: 2_000 },
        steps: [
            (Step::SandboxedToRestricted, on(10, Threshold { score: 4_000, person: false })),
            (Step::RestrictedToStandard, on(11, Threshold { score: 6_000, person: false })),
            (Step::StandardToElevated, on(13, Threshold { score: 8_000, person: true })),
        ]
        .into(),
    };
    assert_eq!(rules("trust_weighted"), TrustRules { strategy: weighted, decay: some_errors() });

    let files = Milestone { tasks: 10, quality: Score::parse("7"), ..NOTHING };
    let deployment = Milestone { tasks: 20, quality: Score::parse("8.5"), person: true, ..NOTHING };
    let per_category = Strategy::PerCategory {
        start: [
            (Category::FileSystem, on(4, Level::Restricted)),
            (Category::VersionControl, on(5, Level::Restricted)),
            (Category::CodeExecution, on(6, Level::Sandboxed)),
            (Category::Deployment, on(7, Level::Sandboxed)),
            (Category::Database, on(8, Level::Sandboxed)),
            (Category::Terminal, on(9, Level::Sandboxed)),
        ]
        .into(),
        steps: [
            (Category::FileSystem, [(Step::RestrictedToStandard, on(12, files))].into()),
            (Category::Deployment, [(Step::SandboxedToRestricted, on(16, deployment))].into()),
        ]
        .into(),
    };
    assert_eq!(rules("trust_per_category"), TrustRules { strategy: per_category, decay: some_errors() });

    let restricted = Milestone { tasks: 5, quality: Score::parse("7"), ..NOTHING };
    let standard = Milestone { tasks: 20, quality: Score::parse("8"), active_days: 7, ..NOTHING };
    let milestone = Strategy::Milestone {
        steps: [
            (Step::SandboxedToRestricted, on(5, restricted)),
            (Step::RestrictedToStandard, on(9, standard)),
            (Step::StandardToElevated, on(14, Milestone { clean_days: 14, person: true, ..NOTHING })),
        ]
        .into(),
    };
    let decay = Decay { error_rate: Some(1_500), idle_days: Some(30), interval_days: Some(90) };
    assert_eq!(rules("trust_milestone"), TrustRules { strategy: milestone, decay });
}

/// What every strategy has that says nothing about it.
fn some_errors() -> Decay {
    Decay { error_rate: Some(1_500), ..Decay::default() }
}

#[test]
fn what_is_left_open_has_a_value() {
    assert_eq!(policy("").trust, TrustRules::disabled());
    let decay = |again: &str| policy(&format!("trust: {{ strategy: milestone, {again} }}\n")).trust.decay;
    assert_eq!(decay("milestones: {}"), some_errors());
    let all = Decay { error_rate: Some(1_500), idle_days: Some(30), interval_days: Some(90) };
    assert_eq!(decay("re_verification: {}"), all);
    assert_eq!(decay("re_verification: { enabled: true, interval_days: 7 }"), Decay { interval_days: Some(7), ..all });
    assert_eq!(decay("re_verification: { decay_on_idle_days: 9 }"), Decay { idle_days: Some(9), ..all });
    assert_eq!(decay("re_verification: { decay_on_error_rate: 0.5 }"), Decay { error_rate: Some(5_000), ..all });
    assert_eq!(decay("re_verification: { enabled: false, interval_days: 7 }"), Decay::default());
    let weights = "trust: { strategy: weighted, weights: { human_feedback: 0.21 } }\n";
    let Strategy::Weighted { weights, steps } = policy(weights).trust.strategy else { panic!() };
    assert_eq!((weights.human_feedback, weights.task_difficulty, steps), (2_100, 3_000, BTreeMap::new()));
}

/// What each published strategy makes of ten medium tasks of quality 9 in each of these categories, done at once.
#[test]
fn the_published_blocks_lead_where_they_say() {
    let work = [Category::FileSystem, Category::Deployment, Category::Web];
    let task = |category: Category, n: usize| Evidence {
        at_ms: 1_700_000_000_000,
        agent: AgentName::from("default"),
        category: Some(category),
        by: "user:jo".into(),
        fact: Fact::Task {
            task: format!("{category}-{n}"),
            outcome: TaskOutcome::Success,
            difficulty: Difficulty::Medium,
            quality: Score::parse("9"),
        },
    };
    let done: Vec<_> = work.into_iter().flat_map(|category| (0..10).map(move |n| task(category, n))).collect();
    let levels = |name: &str| {
        let policy = policy(&fixture(name));
        let start = policy.agents[&AgentName::from("default")].level.value;
        let standing = stand(&policy.trust, start, &done, 1_700_000_000_000);
        [work[0], work[1], work[2], Category::Terminal].map(|category| standing.level(category))
    };
    use Level::{Restricted, Sandboxed, Standard};
    assert_eq!(levels("trust_disabled"), [Standard; 4]);
    assert_eq!(levels("trust_weighted"), [Standard; 4]);
    assert_eq!(levels("trust_per_category"), [Standard, Sandboxed, Sandboxed, Sandboxed]);
    assert_eq!(levels("trust_milestone"), [Restricted, Restricted, Restricted, Sandboxed]);
}

/// Three tasks and one that failed, calls that went well, and praise: each weight alone makes another score of it.
#[test]
fn each_weight_weighs_what_it_is_named_after() {
    let at = |n: u64, fact: Fact| Evidence {
        at_ms: 1_700_000_000_000 + n,
        agent: AgentName::from("default"),
        category: Some(Category::Web),
        by: "user:jo".into(),
        fact,
    };
    let task = |n: u64, outcome: TaskOutcome| {
        at(n, Fact::Task { task: n.to_string(), outcome, difficulty: Difficulty::Medium, quality: None })
    };
    let known = [
        task(1, TaskOutcome::Success),
        task(2, TaskOutcome::Success),
        task(3, TaskOutcome::Success),
        task(4, TaskOutcome::Failure),
        at(5, Fact::Calls { ok: 5, failed: 0 }),
        at(6, Fact::Feedback { task: None, rating: Score::parse("8").unwrap() }),
    ];
    const WEIGHTS: [&str; 4] = ["task_difficulty", "completion_rate", "error_rate", "human_feedback"];
    let score = |weight: &str| {
        let weights = WEIGHTS.map(|name| format!("{name}: {}", u8::from(name == weight))).join(", ");
        let step = "promotion_thresholds: { sandboxed_to_restricted: 1 }";
        let text = format!("trust: {{ strategy: weighted, weights: {{ {weights} }}, {step} }}\n");
        let standing = stand(&policy(&text).trust, Level::Sandboxed, &known, 1_700_000_000_010);
        let [Need::Score { have, want: 10_000 }] = standing.next[0].needs[..] else { panic!("{standing:?}") };
        have
    };
    assert_eq!(WEIGHTS.map(score), [2_000, 3_000, 8_000, 600]);
}

// ---- what binds an agent that trust moves ----

const MOVED: &str = "trust: { strategy: milestone, initial_level: sandboxed }\n";

fn bounds(agent: &Agent, level: Level) -> Constraints {
    Constraints::clone(&agent.standing_at(level).constraints)
}

#[test]
fn a_level_that_is_set_is_the_operators_word() {
    for text in ["agents: { default: { level: restricted } }\n", ""] {
        assert_eq!(agent(text, None).ladder, BTreeMap::new());
    }
    let text = format!("{MOVED}agents: {{ default: {{ level: restricted }} }}\n");
    let pinned = agent(&text, None);
    assert_eq!(pinned.ladder, BTreeMap::new());
    assert_eq!(pinned.standing_at(Level::Elevated), pinned);
    let moved = agent(MOVED, None);
    assert_eq!(moved.ladder.keys().copied().collect::<Vec<_>>(), Level::LADDER);
}

#[test]
fn an_agent_has_the_bounds_of_the_level_it_stands_at() {
    let moved = agent(MOVED, None);
    for level in Level::LADDER {
        let standing = moved.standing_at(level);
        assert_eq!((standing.level.value, bounds(&moved, level)), (level, Constraints::of(level)));
    }
    let levels = "tool_access: { levels: { restricted: { git: local_only } } }\n";
    let moved = agent(&format!("{MOVED}{levels}"), None);
    assert_eq!(bounds(&moved, Level::Restricted).git.value, GitLevel::LocalOnly);
}

#[test]
fn its_own_constraints_are_a_ceiling_at_every_level() {
    let own = "agents:\n  default:\n    constraints:\n      network: allowlist_only\n      \
               network_allowlist: [api.example.com]\n      terminal: restricted_commands\n      \
               file_system: workspace_only\n      requires_approval: [vcs:push]\n";
    let moved = agent(&format!("{MOVED}{own}"), None);
    let shown = |level| {
        let held = bounds(&moved, level);
        let hosts: Vec<_> = held.network_allowlist.into_iter().map(|host| host.value).collect();
        assert!(held.requires_approval.contains_key(&ActionType::VcsPush));
        (held.file_system.value, held.network.value, hosts, held.terminal.value)
    };
    let files = FileScope::WorkspaceOnly;
    let hosts = vec!["api.example.com".to_owned()];
    let none = (files, NetworkMode::None, vec![], TerminalMode::None);
    assert_eq!(shown(Level::Sandboxed), none);
    assert_eq!(shown(Level::Restricted), (files, NetworkMode::AllowlistOnly, hosts.clone(), TerminalMode::None));
    let standard = (files, NetworkMode::AllowlistOnly, hosts, TerminalMode::RestrictedCommands);
    assert_eq!(shown(Level::Standard), standard);
    assert_eq!(shown(Level::Elevated), standard);
    assert_eq!(moved.constraints, moved.standing_at(Level::Sandboxed).constraints);
}

#[test]
fn a_list_of_its_own_is_its_whole_network() {
    let own = "agents: { default: { constraints: { network_allowlist: [api.example.com, other.example.com] } } }\n";
    let levels =
        "tool_access: { levels: { restricted: { network: allowlist_only, network_allowlist: [api.example.com] } } }\n";
    let moved = agent(&format!("{MOVED}{own}{levels}"), None);
    let shown = |level| {
        let held = bounds(&moved, level);
        (held.network.value, held.network_allowlist.into_iter().map(|host| host.value).collect::<Vec<_>>())
    };
    let both = vec!["api.example.com".to_owned(), "other.example.com".to_owned()];
    assert_eq!(shown(Level::Sandboxed), (NetworkMode::None, vec![]));
    assert_eq!(shown(Level::Restricted), (NetworkMode::AllowlistOnly, both[..1].to_vec()));
    assert_eq!(shown(Level::Standard), (NetworkMode::AllowlistOnly, both));
}

#[test]
fn a_project_nobody_vouches_for_tightens_every_level() {
    let project =
        "agents: { default: { constraints: { network: none, git: local_only, requires_approval: [code:write] } } }\n";
    let moved = agent(MOVED, Some(project));
    for level in Level::LADDER {
        let held = bounds(&moved, level);
        assert_eq!((held.network.value, held.git.value), (NetworkMode::None, GitLevel::LocalOnly));
        assert!(held.requires_approval.contains_key(&ActionType::CodeWrite));
    }
    // It opens nothing: not a host where a level has none, nor a dimension.
    let project = "agents: { default: { constraints: { network: open, network_allowlist: [evil.example.com], terminal: full } } }\n";
    let moved = agent(MOVED, Some(project));
    for level in [Level::Sandboxed, Level::Restricted] {
        let (held, of) = (bounds(&moved, level), Constraints::of(level));
        assert_eq!((held.network.value, held.network_allowlist), (of.network.value, vec![]));
        assert_eq!(held.terminal.value, of.terminal.value);
    }
    assert_eq!(bounds(&moved, Level::Standard).network.value, NetworkMode::AllowlistOnly);
}

#[test]
fn a_project_nobody_vouches_for_limits_how_far_trust_goes() {
    let project = "agents: { default: { level: restricted } }\n";
    let moved = agent(MOVED, Some(project));
    assert_eq!(moved.level.value, Level::Sandboxed);
    let at = |level| moved.standing_at(level).level.value;
    assert_eq!(Level::LADDER.map(at), [Level::Sandboxed, Level::Restricted, Level::Restricted, Level::Restricted]);

    let from_standard = MOVED.replace("sandboxed", "standard");
    let moved = agent(&from_standard, Some(project));
    assert_eq!(
        (moved.level.value, bounds(&moved, Level::Elevated)),
        (Level::Restricted, Constraints::of(Level::Restricted))
    );

    // What a lower level has and the higher one has not is nothing a project may choose.
    let odd = "tool_access: { levels: { restricted: { git: full }, standard: { git: local_only } } }\n";
    let moved = agent(&format!("{MOVED}{odd}"), Some(project));
    assert_eq!(bounds(&moved, Level::Elevated).git.value, GitLevel::LocalOnly);
    let odd = format!("{MOVED}tool_access: {{ levels: {{ restricted: {{ deployment: true }} }} }}\n");
    for (user, project) in [(MOVED, "custom"), (&*odd, "restricted")] {
        let errors = load(user, Some(&format!("agents: {{ default: {{ level: {project} }} }}\n"))).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].message.contains(&format!("level `{project}` where `sandboxed`")), "{}", errors[0]);
    }
}
