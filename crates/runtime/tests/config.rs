//! The config from outside: what loads, what does not and why, and who may loosen what.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use toolgate_contract::{
    ActionType, AgentName, Category, Level, Risk, SafetyClass, SearchEngine, SearchProvider, SourceLine, Verdict,
};
use toolgate_gate::{
    CodeIsolation, Constraints, FileScope, FlowMode, GitLevel, NetworkMode, Policy, Request, Sourced, TerminalMode,
    decide,
};
use toolgate_guard::shell::{
    self, UserRule, UserRules,
    policy::{Answer, Rules},
    profiles::Profile,
    rules::Severity,
};
use toolgate_runtime::{
    config::{
        CheckReport, Config, ConfigError, ConfigFileInfo, ContainerNetwork, ContainerSettings, Limits, LogSettings,
        MountMode, Note, Place, RoomSettings, Sources, check_text, is_trusted, trust_file,
    },
    docker_settings, protected_in,
    sandbox::{DockerSettings, Furnisher, Lifecycle, LogShipping, RoomLimits, Strategy, Tier, TierChoice, Wall},
};

// ---- what holds ----

/// What is protected in every workspace, and these.
fn protected(more: &[&str]) -> Vec<String> {
    let always = [
        "toolgate.yaml",
        ".mcp.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".vscode/mcp.json",
        ".zed/settings.json",
    ];
    always.iter().chain(more).map(ToString::to_string).collect()
}

#[test]
fn every_published_block_loads_as_it_is_printed() {
    let inline = |line, what: &str| (line, format!("`{what}`: file tools work in this process"));
    let web = (
        6,
        "`web: docker`: tools of web start no programs and work in this process, held to the network of containers, \
         which is shut to web"
            .to_owned(),
    );
    let layered = vec![inline(4, "file_system: subprocess"), web];
    let expected: [(&str, Vec<(u64, String)>); 7] = [
        ("sandboxing_layered", layered.clone()),
        ("sandboxing_with_browser_and_desktop", layered),
        ("tool_access", vec![]),
        ("trust_disabled", vec![]),
        ("trust_weighted", vec![]),
        ("trust_per_category", vec![]),
        ("trust_milestone", vec![]),
    ];
    for (name, notes) in expected {
        let report = check_text(name, &fixture(name)).unwrap_or_else(|errors| panic!("{name}: {}", page(&errors)));
        let found: Vec<(u64, &str)> = report.notes.iter().map(|note| (note.line, note.text.as_str())).collect();
        assert_eq!(found.len(), notes.len(), "{name}: {found:?}");
        for ((line, text), (expected_line, start)) in found.iter().zip(&notes) {
            assert!(line == expected_line && text.starts_with(start.as_str()), "{name}: {line}: {text}");
        }
    }
}

#[test]
fn every_example_loads_and_names_only_tools_that_exist() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let house = House::new();
            let config = house.load_explicit(&path).unwrap_or_else(|errors| panic!("{}", page(&errors)));
            assert_eq!(config.check_tools(known_tools().iter().map(String::as_str)), [], "{}", path.display());
            names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    assert_eq!(
        names,
        [
            "commands",
            "containers",
            "flow",
            "minimal",
            "people",
            "project",
            "read-only",
            "rooms",
            "rules",
            "servers",
            "team",
            "trust",
            "web"
        ]
    );
}

#[test]
fn the_project_example_needs_nobodys_trust() {
    let house = House::new();
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/project.yaml")).unwrap();
    house.project(&text);
    let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    assert!(!config.files[0].trusted);
}

#[test]
fn nothing_written_is_the_built_in_configuration() {
    let house = House::new();
    for text in ["", "\n", "# nothing\n", "---\n", "~\n", "{}\n", "version: 1\n", "policy:\nagents:\n  default:\n"] {
        house.user(text);
        let config = house.load().unwrap_or_else(|errors| panic!("{text:?}: {}", page(&errors)));
        assert_eq!(config.policy.digest().unwrap(), Policy::built_in().digest().unwrap(), "{text:?}");
    }
}

#[test]
fn the_built_in_configuration_is_one_agent_in_the_directory_it_is_given() {
    let config = Config::built_in(Path::new("/srv/project"));
    assert_eq!(config.policy.digest().unwrap(), Policy::built_in().digest().unwrap());
    let workspaces: Vec<_> = config.agents.iter().map(|(name, agent)| (&*name.0, agent.workspace.clone())).collect();
    assert_eq!(workspaces, [("default", PathBuf::from("/srv/project"))]);
    assert_eq!(config.limits.max_input_bytes, 32 * 1024 * 1024);
    assert!((2..=16).contains(&config.limits.max_concurrency));
    assert_eq!(config.protected, protected(&[]));
}

#[test]
fn a_rule_knows_its_line() {
    let house = House::new();
    house.user("policy:\n  denied:\n    tools: [delete]\n    actions:\n      - deploy\n");
    let config = house.load().unwrap();
    let line = |line| SourceLine { file: house.user_file().display().to_string(), line };
    assert_eq!(config.policy.rules.denied.tools, [("delete".to_owned(), line(3))].into());
    let deploy = [ActionType::DeployStaging, ActionType::DeployProduction];
    assert_eq!(config.policy.rules.denied.actions, deploy.map(|action| (action, line(5))).into());
}

#[test]
fn an_action_of_the_operators_own_is_part_of_all() {
    let house = House::new();
    // The list comes before the action it must cover, and in another file.
    house.user("policy: { denied: { actions: [all] } }\n");
    house.project("actions: { payroll:run: critical }\n");
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    let config = house.load().unwrap();
    let payroll = config.policy.actions.parse("payroll:run").unwrap();
    assert!(config.policy.rules.denied.actions.contains_key(&payroll));
    assert_eq!(config.policy.actions.risk(&payroll), Risk::Critical);
}

#[test]
fn classes_are_a_list_or_a_map_and_add_to_the_built_in_ones() {
    let people = |text: &str| -> Vec<(&'static str, u8)> {
        let house = House::new();
        house.user(text);
        let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
        config.policy.rules.ask_classes.iter().map(|(class, people)| (class.as_str(), people.value)).collect()
    };
    let list = people("policy: { ask: { classes: [write, privileged] } }\n");
    assert_eq!(list, [("write", 1), ("financial", 1), ("privileged", 2)]);
    let both = {
        let house = House::new();
        house.user(
            "policy: { ask: { classes: { network: 3 } } }\nagents: { default: { ask: { classes: [privileged] } } }\n",
        );
        house.project("policy: { ask: { classes: { network: 1 } } }\n");
        house.load().unwrap().policy
    };
    assert_eq!(both.rules.ask_classes[&SafetyClass::Network].value, 3);
    let agent = &both.agents[&AgentName::from("default")];
    assert_eq!(agent.rules.ask_classes[&SafetyClass::Privileged].value, 2);
    let map = people("policy: { ask: { classes: { network: 3, financial: 2 } } }\n");
    assert_eq!(map, [("network", 3), ("financial", 2), ("privileged", 2)]);
}

#[test]
fn an_agent_starts_from_its_level_as_configured_and_tightens_it() {
    let house = House::new();
    house.user(
        "tool_access:
  levels:
    standard:
      git: read_and_branch
      requires_approval: [deployment]
      deployment: true
agents:
  ci:
    level: standard
    roles: [builder, tester]
    constraints:
      network: allowlist_only
      network_allowlist: [Docs.Example.com, 'db.internal:5432']
      requires_approval: [database_write]
",
    );
    let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    let line = |line| SourceLine { file: house.user_file().display().to_string(), line };
    let agent = &config.policy.agents[&AgentName::from("ci")];
    let expected = Constraints {
        git: Sourced { value: GitLevel::ReadAndBranch, source: line(4) },
        network: Sourced { value: NetworkMode::AllowlistOnly, source: line(12) },
        network_allowlist: vec![
            Sourced { value: "docs.example.com".into(), source: line(13) },
            Sourced { value: "db.internal:5432".into(), source: line(13) },
        ],
        requires_approval: [
            (ActionType::DeployStaging, line(5)),
            (ActionType::DeployProduction, line(5)),
            (ActionType::DbMutate, line(14)),
            (ActionType::DbAdmin, line(14)),
        ]
        .into(),
        ..Constraints::of(Level::Standard)
    };
    assert_eq!(*agent.constraints, expected);
    assert_eq!(agent.roles, ["builder".to_owned(), "tester".to_owned()].into());
    assert_eq!(config.policy.levels[&Level::Standard].categories[&Category::Deployment], line(6));
    assert!(!config.policy.levels[&Level::Restricted].categories.contains_key(&Category::Deployment));
}

/// Every dimension, none of them as a level has it.
const DIMENSIONS: &str = "{ file_system: workspace_only, code_execution: none, network: allowlist_only, network_allowlist: \
                          [a.example], git: read_and_branch, terminal: restricted_commands, requires_approval: \
                          [code:read, database_write] }";

#[test]
fn every_dimension_is_set_for_a_level_and_for_an_agent() {
    let house = House::new();
    for text in [
        format!(
            "tool_access: {{ levels: {{ elevated: {DIMENSIONS} }} }}\nagents: {{ default: {{ level: elevated }} }}\n"
        ),
        format!("agents: {{ default: {{ level: elevated, constraints: {DIMENSIONS} }} }}\n"),
        format!("agents: {{ default: {{ level: custom, constraints: {DIMENSIONS} }} }}\n"),
    ] {
        house.user(&text);
        let config = house.load().unwrap_or_else(|errors| panic!("{text}: {}", page(&errors)));
        let source = || SourceLine { file: house.user_file().display().to_string(), line: 1 };
        let expected = Constraints {
            file_system: Sourced { value: FileScope::WorkspaceOnly, source: source() },
            code_execution: Sourced { value: CodeIsolation::None, source: source() },
            network: Sourced { value: NetworkMode::AllowlistOnly, source: source() },
            network_allowlist: vec![Sourced { value: "a.example".into(), source: source() }],
            git: Sourced { value: GitLevel::ReadAndBranch, source: source() },
            terminal: Sourced { value: TerminalMode::RestrictedCommands, source: source() },
            requires_approval: [ActionType::CodeRead, ActionType::DbMutate, ActionType::DbAdmin]
                .map(|action| (action, source()))
                .into(),
            ..Constraints::of(Level::Custom)
        };
        assert_eq!(*config.policy.agents[&AgentName::from("default")].constraints, expected, "{text}");
    }
}

#[test]
fn a_level_can_lose_deployment_and_keeps_its_description() {
    let house = House::new();
    house.user(
        "tool_access: { levels: { elevated: { deployment: false, description: For few. }, restricted: { requires_approval: [] } } }\n",
    );
    let config = house.load().unwrap();
    assert_eq!(config.policy.levels[&Level::Restricted].constraints.requires_approval, [].into());
    assert!(!config.policy.levels[&Level::Elevated].categories.contains_key(&Category::Deployment));
    assert_eq!(config.level_descriptions, [(Level::Elevated, "For few.".to_owned())].into());
}

#[test]
fn a_custom_agent_is_as_loose_as_its_file_says() {
    let house = House::new();
    house.user("agents: { ops: { level: custom, constraints: { terminal: full, network: open } } }\n");
    let constraints = house.load().unwrap().policy.agents[&AgentName::from("ops")].constraints.clone();
    assert_eq!((constraints.terminal.value, constraints.network.value), (TerminalMode::Full, NetworkMode::Open));
    assert_eq!(constraints.git.value, GitLevel::LocalOnly);
}

#[test]
fn agents_without_a_level_start_where_trust_says() {
    let level = |text: &str| {
        let house = House::new();
        house.user(text);
        let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
        let level = |name: &str| config.policy.agents.get(&AgentName::from(name)).map(|agent| agent.level.value);
        (level("default").unwrap(), level("senior"))
    };
    assert_eq!(
        level("trust: { strategy: disabled, initial_level: restricted }\nagents: { senior: { level: elevated } }\n"),
        (Level::Restricted, Some(Level::Elevated))
    );
    assert_eq!(level("trust: { strategy: disabled }\n"), (Level::Standard, None));
    assert_eq!(level(&fixture("trust_milestone")), (Level::Sandboxed, None));
    assert_eq!(level(&fixture("trust_per_category")), (Level::Sandboxed, None));
}

#[test]
fn places_follow_the_sandboxing_block() {
    let house = House::new();
    assert_eq!(house.load().unwrap().backend_for(Category::FileSystem), Place::Inline);
    assert_eq!(house.load().unwrap().backend_for(Category::Database), Place::DenyAll);
    for category in [Category::Web, Category::ExternalData] {
        assert_eq!(house.load().unwrap().backend_for(category), Place::Inline);
    }
    for category in [Category::Terminal, Category::CodeExecution, Category::VersionControl] {
        assert_eq!(house.load().unwrap().backend_for(category), Place::Room);
    }
    house.user(
        "sandboxing:\n  default_backend: subprocess\n  overrides:\n    git: kubernetes\n    web: deny_all\n    mcp: process\n    terminal: remote\n",
    );
    let config = house.load().unwrap();
    let there = |backend, line| Place::Unavailable {
        backend,
        source: SourceLine { file: house.user_file().display().to_string(), line },
    };
    let expected = [
        (Category::FileSystem, Place::Inline),
        (Category::VersionControl, there("k8s", 4)),
        (Category::Web, Place::DenyAll),
        (Category::Mcp, Place::Room),
        (Category::Terminal, there("remote", 7)),
        (Category::Database, Place::Room),
    ];
    for (category, place) in expected {
        assert_eq!(config.backend_for(category), place, "{category}");
    }
    house.user("sandboxing: { overrides: { file_system: deny_all, terminal: deny_all } }\n");
    let config = house.load().unwrap();
    for category in [Category::FileSystem, Category::Terminal] {
        assert_eq!(config.backend_for(category), Place::DenyAll);
    }
    house.user("sandboxing: { default_backend: docker }\n");
    let source = SourceLine { file: house.user_file().display().to_string(), line: 1 };
    for category in Category::ALL {
        assert_eq!(house.load().unwrap().backend_for(category), Place::Docker { source: source.clone() });
    }
    house.user("sandboxing: { overrides: { web: docker } }\n");
    assert_eq!(house.load().unwrap().backend_for(Category::FileSystem), Place::Inline);
}

#[test]
fn a_note_says_what_will_be_refused() {
    let notes = check_text("t.yaml", "sandboxing:\n  overrides:\n    web: k8s\n").unwrap().notes;
    let text = "`web: k8s` is switched on, but this build has no k8s backend: tools of category web will be refused";
    assert_eq!(notes, [Note { file: "t.yaml".into(), line: 3, text: text.into() }]);
}

#[test]
fn a_note_says_what_tools_that_start_no_programs_are_held_to() {
    let check = |text: &str, expected: &[&str]| {
        let notes = check_text("t.yaml", text).unwrap_or_else(|errors| panic!("{text}: {}", page(&errors))).notes;
        let told: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(told, expected, "{text}");
    };
    check("sandboxing: { overrides: { terminal: docker, git: docker, code_execution: docker } }\n", &[]);
    check(
        "sandboxing: { overrides: { file_system: docker }, docker: { mount_mode: rw } }\n",
        &["`file_system: docker`: tools of file_system start no programs and work in this process"],
    );
    check(
        "sandboxing: { overrides: { file_system: docker } }\n",
        &["`file_system: docker`: tools of file_system start no programs and work in this process, held to \
           `mount_mode: ro`, so that files are not written"],
    );
    check(
        "sandboxing: { overrides: { web: docker }, docker: { network_overrides: { web: bridge } } }\n",
        &[
            "`web: docker`: tools of web start no programs and work in this process, held to the network of containers, \
           which is shut to web",
        ],
    );
    check(
        "sandboxing: { overrides: { web: docker }, docker: { network: bridge, allowed_hosts: ['a.example:443'] } }\n",
        &["`web: docker`: tools of web start no programs and work in this process, held to `allowed_hosts` and no \
           other host for web"],
    );
}

/// The block as it is published, and nothing of it left to a default.
const DOCKER: &str = "sandboxing:
  docker:
    image: 'ours@sha256:0123'
    network: bridge
    network_overrides: { database: none, git: bridge }
    allowed_hosts: ['DB.example:5432', 'a.example:443']
    dns_allowed: false
    loopback_allowed: false
    memory_limit: 256m
    cpu_limit: '0.5'
    timeout_seconds: 7
    pids_limit: 33
    tmpfs_size: 9m
    sidecar_pids_limit: 11
    sidecar_tmpfs_size: 3m
    mount_mode: rw
    auto_remove: false
    runtime: runsc
    host: unix:///run/other.sock
    worker: /opt/toolgate-worker
    warm_rooms: 2
    lifecycle: { strategy: per-call, grace_seconds: 1, max_idle_seconds: 2, max_rooms: 3 }
    log_shipping: { enabled: true, collection_timeout_seconds: 3, max_log_bytes: 2048, ship_raw_logs: true }
";

#[test]
fn every_key_of_the_docker_block_is_read() {
    let house = House::new();
    let defaults = ContainerSettings {
        image: "toolgate-base:latest".into(),
        network: Sourced::built_in(ContainerNetwork::None),
        network_overrides: BTreeMap::new(),
        allowed_hosts: Vec::new(),
        dns_allowed: true,
        loopback_allowed: true,
        memory_limit: 512 << 20,
        cpu_limit: 1_000_000_000,
        timeout: Duration::from_secs(120),
        pids_limit: 64,
        tmpfs_size: 64 << 20,
        sidecar_pids_limit: 32,
        sidecar_tmpfs_size: 8 << 20,
        mount_mode: Sourced::built_in(MountMode::ReadOnly),
        auto_remove: true,
        runtime: None,
        host: None,
        worker: None,
        warm_rooms: 0,
        lifecycle: Lifecycle::default(),
        log_shipping: LogSettings {
            enabled: true,
            collection_timeout: Duration::from_secs(2),
            max_log_bytes: 1 << 20,
            ship_raw_logs: false,
        },
    };
    assert_eq!(house.load().unwrap().containers, defaults);
    house.user(DOCKER);
    let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    let source = |line| SourceLine { file: house.user_file().display().to_string(), line };
    fn said<T>(value: T, source: SourceLine) -> Sourced<T> {
        Sourced { value, source }
    }
    let expected = ContainerSettings {
        image: "ours@sha256:0123".into(),
        network: said(ContainerNetwork::Bridge, source(4)),
        network_overrides: BTreeMap::from([
            (Category::Database, said(ContainerNetwork::None, source(5))),
            (Category::VersionControl, said(ContainerNetwork::Bridge, source(5))),
        ]),
        allowed_hosts: ["db.example:5432", "a.example:443"].map(|host| said(host.to_owned(), source(6))).to_vec(),
        dns_allowed: false,
        loopback_allowed: false,
        memory_limit: 256 << 20,
        cpu_limit: 500_000_000,
        timeout: Duration::from_secs(7),
        pids_limit: 33,
        tmpfs_size: 9 << 20,
        sidecar_pids_limit: 11,
        sidecar_tmpfs_size: 3 << 20,
        mount_mode: said(MountMode::ReadWrite, source(16)),
        auto_remove: false,
        runtime: Some("runsc".into()),
        host: Some("/run/other.sock".into()),
        worker: Some("/opt/toolgate-worker".into()),
        warm_rooms: 2,
        lifecycle: Lifecycle {
            strategy: Strategy::PerCall,
            grace: Duration::from_secs(1),
            idle: Duration::from_secs(2),
            max_rooms: 3,
        },
        log_shipping: LogSettings {
            enabled: true,
            collection_timeout: Duration::from_secs(3),
            max_log_bytes: 2_048,
            ship_raw_logs: true,
        },
    };
    assert_eq!(config.containers, expected);
    let made_with = DockerSettings {
        socket: "/run/other.sock".into(),
        image: "ours@sha256:0123".into(),
        worker: "/opt/toolgate-worker".into(),
        memory_limit: 256 << 20,
        cpu_limit: 500_000_000,
        pids_limit: 33,
        tmpfs_size: 9 << 20,
        auto_remove: false,
        runtime: Some("runsc".into()),
        dns_allowed: false,
        loopback_allowed: false,
        furnisher: Furnisher::ByRights,
        sidecar_memory: 64 << 20,
        sidecar_cpu: 500_000_000,
        sidecar_pids: 11,
        sidecar_tmpfs: 3 << 20,
        log_shipping: Some(LogShipping { collection_timeout: Duration::from_secs(3), max_bytes: 2_048, raw: true }),
    };
    assert_eq!(docker_settings(&config.containers), made_with, "the backend gets what was read");
    house.user("sandboxing: { docker: { log_shipping: { enabled: false } } }\n");
    let quiet = LogSettings { enabled: false, ..defaults.log_shipping };
    let containers = house.load().unwrap().containers;
    assert_eq!((containers.log_shipping, docker_settings(&containers).log_shipping), (quiet, None));
}

#[test]
fn an_untrusted_project_makes_containers_tighter_and_changes_nothing_else() {
    let house = House::new();
    house.user(DOCKER);
    house.project(
        "sandboxing:
  docker:
    image: 'ours@sha256:0123'
    network: none
    network_overrides: { git: none, web: bridge }
    allowed_hosts: ['a.example:443']
    dns_allowed: false
    memory_limit: 255m
    cpu_limit: '0.4'
    timeout_seconds: 6
    pids_limit: 32
    tmpfs_size: 8m
    sidecar_pids_limit: 10
    sidecar_tmpfs_size: 2m
    mount_mode: ro
    auto_remove: true
    runtime: runsc
    host: /run/other.sock
    worker: /opt/toolgate-worker
    lifecycle: { strategy: per-call, max_rooms: 2 }
    log_shipping: { enabled: true, collection_timeout_seconds: 2, max_log_bytes: 1024, ship_raw_logs: false }
",
    );
    let found = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).containers;
    let hosts: Vec<&str> = found.allowed_hosts.iter().map(|host| host.value.as_str()).collect();
    let network = |category| found.network_of(category, &SourceLine::built_in()).value;
    assert_eq!(hosts, ["a.example:443"]);
    assert_eq!(
        [Category::Terminal, Category::VersionControl, Category::Database, Category::Web].map(network),
        [ContainerNetwork::None, ContainerNetwork::None, ContainerNetwork::None, ContainerNetwork::Bridge]
    );
    assert_eq!(
        (found.memory_limit, found.cpu_limit, found.timeout, found.pids_limit, found.tmpfs_size),
        (255 << 20, 400_000_000, Duration::from_secs(6), 32, 8 << 20)
    );
    assert_eq!((found.sidecar_pids_limit, found.sidecar_tmpfs_size), (10, 2 << 20));
    assert_eq!((found.mount_mode.value, found.auto_remove, found.lifecycle.max_rooms), (MountMode::ReadOnly, true, 2));
    let logs = LogSettings {
        enabled: true,
        collection_timeout: Duration::from_secs(2),
        max_log_bytes: 1_024,
        ship_raw_logs: false,
    };
    assert_eq!(found.log_shipping, logs);
    for (line, what) in [
        ("image: other", "another `image`"),
        ("host: /run/docker.sock", "another `host`"),
        ("worker: /tmp/worker", "another `worker`"),
        ("runtime: runc", "another `runtime`"),
        ("allowed_hosts: ['a.example:443', 'c.example:443']", "a new allowed host"),
        ("network_overrides: { database: bridge }", "a looser `database`"),
        ("dns_allowed: true", "a looser `dns_allowed`"),
        ("loopback_allowed: true", "a looser `loopback_allowed`"),
        ("memory_limit: 257m", "a looser `memory_limit`"),
        ("cpu_limit: '0.51'", "a looser `cpu_limit`"),
        ("timeout_seconds: 8", "a looser `timeout_seconds`"),
        ("pids_limit: 34", "a looser `pids_limit`"),
        ("tmpfs_size: 10m", "a looser `tmpfs_size`"),
        ("sidecar_pids_limit: 12", "a looser `sidecar_pids_limit`"),
        ("sidecar_tmpfs_size: 4m", "a looser `sidecar_tmpfs_size`"),
        ("warm_rooms: 3", "a looser `warm_rooms`"),
        ("lifecycle: { strategy: per-agent }", "a looser `strategy`"),
        ("lifecycle: { max_rooms: 4 }", "a looser `max_rooms`"),
        ("log_shipping: { enabled: false }", "a looser `enabled`"),
        ("log_shipping: { collection_timeout_seconds: 4 }", "a looser `collection_timeout_seconds`"),
        ("log_shipping: { max_log_bytes: 2049 }", "a looser `max_log_bytes`"),
    ] {
        house.project(&format!("sandboxing: {{ docker: {{ {line} }} }}\n"));
        let errors = house.load().map(|config| config.containers).unwrap_err();
        let told: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        assert_eq!(told, [format!("{what} is not for a file that is not trusted yet: it may only tighten")], "{line}");
    }
    house.user("sandboxing: { docker: { mount_mode: ro, auto_remove: true } }\n");
    for (line, what) in [
        ("mount_mode: rw", "a looser `mount_mode`"),
        ("auto_remove: false", "a looser `auto_remove`"),
        ("network: bridge", "a looser `network`"),
        ("log_shipping: { ship_raw_logs: true }", "a looser `ship_raw_logs`"),
    ] {
        house.project(&format!("sandboxing: {{ docker: {{ {line} }} }}\n"));
        let errors = house.load().map(|config| config.containers).unwrap_err();
        assert!(errors.len() == 1 && errors[0].message.starts_with(what), "{line}: {}", page(&errors));
    }
}

#[test]
fn a_note_says_where_file_tools_work() {
    let text =
        "file tools work in this process on the opened workspace, which they cannot leave; programs run in rooms";
    for (config, written) in [
        ("sandboxing: { overrides: { file_system: process } }\n", "file_system: process"),
        ("sandboxing: { default_backend: process }\n", "default_backend: subprocess"),
    ] {
        let notes = check_text("t.yaml", config).unwrap().notes;
        assert_eq!(notes, [Note { file: "t.yaml".into(), line: 1, text: format!("`{written}`: {text}") }]);
    }
    let quiet = "sandboxing: { default_backend: subprocess, overrides: { file_system: inline } }\n";
    assert_eq!(check_text("t.yaml", quiet).unwrap().notes, []);
}

// ---- rooms and commands ----

/// Every key of the block, none of them at its default.
const ROOMS: &str = "sandboxing:
  subprocess:
    timeout_seconds: 120
    memory_limit: 512m
    pids_limit: 64
    cpu_seconds: 90
    disk_limit: 1g
    tmpfs_size: 32m
    open_files: 256
    workspace_only: true
    restricted_path: true
    visible: [DIR/seen, DIR/more/]
    extra_safe_path_prefixes: [DIR/bin, /usr/local/bin]
    tier: namespaces
    accepted_gaps: [metadata, disk]
    lifecycle: { strategy: per-task, grace_seconds: 5, max_idle_seconds: 60, max_rooms: 8 }
";

/// A house with the directories that block names, and its text.
fn house_with_dirs() -> (House, String, PathBuf) {
    let house = House::new();
    let dirs = house.dir.path().canonicalize().unwrap();
    for name in ["seen", "more", "bin"] {
        fs::create_dir(dirs.join(name)).unwrap();
    }
    let text = ROOMS.replace("DIR", dirs.to_str().unwrap());
    (house, text, dirs)
}

#[test]
fn rooms_are_as_the_block_says() {
    let (house, text, dirs) = house_with_dirs();
    assert_eq!(house.load().unwrap().rooms, RoomSettings::default());
    house.user(&text);
    let expected = RoomSettings {
        lifecycle: Lifecycle {
            strategy: Strategy::PerTask,
            grace: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            max_rooms: 8,
        },
        limits: RoomLimits {
            memory: 512 << 20,
            pids: 64,
            cpu: Duration::from_secs(90),
            disk: 1 << 30,
            scratch: 32 << 20,
            open_files: 256,
        },
        tier: TierChoice::Only(Tier::Namespaces),
        accepted_gaps: [Wall::Metadata, Wall::Disk].into(),
        path_prefixes: vec![dirs.join("bin"), "/usr/local/bin".into()],
        visible: vec![dirs.join("seen"), dirs.join("more")],
        timeout: Some(Duration::from_secs(120)),
    };
    let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    assert_eq!((config.rooms, config.notes), (expected, vec![]));
    for (word, strategy) in [("per-agent", Strategy::PerAgent), ("per-call", Strategy::PerCall)] {
        house.user(&format!("sandboxing: {{ subprocess: {{ lifecycle: {{ strategy: {word} }} }} }}\n"));
        assert_eq!(house.load().unwrap().rooms.lifecycle.strategy, strategy);
    }
    for (word, tier) in [("best", TierChoice::Best), ("landlock", TierChoice::Only(Tier::Landlock))] {
        house.user(&format!("sandboxing: {{ subprocess: {{ tier: {word} }} }}\n"));
        assert_eq!(house.load().unwrap().rooms.tier, tier);
    }
}

#[test]
fn a_later_trusted_file_sets_what_it_names_of_a_room_and_keeps_the_rest() {
    let (house, text, dirs) = house_with_dirs();
    house.user(&text);
    house.project(&format!(
        "sandboxing: {{ subprocess: {{ pids_limit: 128, visible: [{}], accepted_gaps: [], lifecycle: {{ max_rooms: 9 }} }} }}\n",
        dirs.join("bin").display()
    ));
    let before = house.load_explicit(&house.user_file()).unwrap().rooms;
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    let rooms = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).rooms;
    let mut expected = before;
    expected.limits.pids = 128;
    expected.visible = vec![dirs.join("bin")];
    expected.accepted_gaps.clear();
    expected.lifecycle.max_rooms = 9;
    assert_eq!(rooms, expected);
}

/// What an untrusted file may not say about rooms on top of `ROOMS`, and what it may say instead.
const ROOM_KEYS: &[(&str, &str, &str)] = &[
    ("timeout_seconds", "121", "60"),
    ("memory_limit", "513m", "256m"),
    ("pids_limit", "65", "32"),
    ("cpu_seconds", "91", "10"),
    ("disk_limit", "2g", "1m"),
    ("tmpfs_size", "33m", "16m"),
    ("open_files", "257", "64"),
    ("tier", "best", "namespaces"),
    ("tier", "landlock", "namespaces"),
    ("accepted_gaps", "[metadata, files]", "[metadata]"),
    ("visible", "[DIR/seen, DIR/bin]", "[DIR/more]"),
    ("visible", "[DIR/more/inside]", "[]"),
    ("extra_safe_path_prefixes", "[DIR/more]", "[/usr/local/bin]"),
    ("lifecycle", "{ strategy: per-agent }", "{ strategy: per-call }"),
    ("lifecycle", "{ grace_seconds: 6 }", "{ grace_seconds: 0 }"),
    ("lifecycle", "{ max_idle_seconds: 61 }", "{ max_idle_seconds: 1 }"),
    ("lifecycle", "{ max_rooms: 9 }", "{ max_rooms: 1 }"),
];

#[test]
fn an_untrusted_project_makes_rooms_tighter_and_never_looser() {
    let (house, text, dirs) = house_with_dirs();
    house.user(&text);
    let before = house.load().unwrap().rooms;
    for (key, looser, tighter) in ROOM_KEYS {
        let said = |value: &str| {
            let value = value.replace("DIR", dirs.to_str().unwrap());
            house.project(&format!("sandboxing:\n  subprocess:\n    {key}: {value}\n"));
            house.load()
        };
        let errors = said(looser).expect_err(looser);
        let [error] = errors.as_slice() else { panic!("{key}: {}", page(&errors)) };
        assert!(error.line == 3 && error.message.contains("it may only tighten"), "{key}: {error}");
        let rooms = said(tighter).unwrap_or_else(|errors| panic!("{key}: {}", page(&errors))).rooms;
        let changes = rooms != before;
        assert_eq!(changes, *key != "tier", "{key}: {tighter}");
    }
    house.project("sandboxing:\n  subprocess:\n    extra_safe_path_prefixes: [/usr/local/bin, DIR/bin]\n");
    let turned = fs::read_to_string(house.project_file()).unwrap().replace("DIR", dirs.to_str().unwrap());
    house.project(&turned);
    assert_eq!(house.load().unwrap().rooms, before, "the order of the directories for programs stays");

    // From what is built in, only the stronger kind of room is tighter, and any time is less than none.
    house.user("");
    house.project("sandboxing: { subprocess: { tier: namespaces, timeout_seconds: 600 } }\n");
    let rooms = house.load().unwrap().rooms;
    assert_eq!((rooms.tier, rooms.timeout), (TierChoice::Only(Tier::Namespaces), Some(Duration::from_secs(600))));
}

#[test]
fn an_untrusted_project_takes_places_away_and_gives_none() {
    let house = House::new();
    house.user("sandboxing: { overrides: { git: subprocess, web: docker } }\n");
    house.project("sandboxing: { overrides: { git: deny_all, terminal: subprocess, file_system: inline } }\n");
    let place = |category| house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).backend_for(category);
    assert_eq!(place(Category::VersionControl), Place::DenyAll);
    assert_eq!(place(Category::Terminal), Place::Room);
    assert_eq!(place(Category::FileSystem), Place::Inline);
    house.project("sandboxing: { default_backend: deny_all, overrides: { terminal: subprocess } }\n");
    assert_eq!(place(Category::Terminal), Place::Room);
    for category in [Category::FileSystem, Category::VersionControl, Category::Web, Category::Mcp] {
        assert_eq!(place(category), Place::DenyAll, "{category}");
    }
}

#[test]
fn directories_that_would_show_secrets_are_refused() {
    let (house, _, dirs) = house_with_dirs();
    for (path, text) in [("file", "x"), ("me/.ssh/id", "key"), ("me/src/x", "")] {
        fs::create_dir_all(dirs.join(path).parent().unwrap()).unwrap();
        fs::write(dirs.join(path), text).unwrap();
    }
    std::os::unix::fs::symlink("seen", dirs.join("link")).unwrap();
    std::os::unix::fs::symlink(&dirs, dirs.join("up")).unwrap();
    fs::create_dir_all(house.data_dir().join("inside")).unwrap();
    let load = |key: &str, dir: &Path| {
        house.user(&format!("sandboxing:\n  subprocess:\n    {key}: [{}]\n", dir.display()));
        house.load()
    };
    let cases = [
        ("file", "is not a directory"),
        ("link", "leads over a link to"),
        ("up/seen", "leads over a link to"),
        ("me", "would show the keys in `.ssh`"),
        ("data", "would show the data directory"),
        ("data/inside", "would show the data directory"),
        ("", "would show the data directory"),
    ];
    for (name, message) in cases {
        for key in ["visible", "extra_safe_path_prefixes"] {
            let errors = load(key, &dirs.join(name)).expect_err(name);
            assert!(errors[0].line == 3 && errors[0].message.contains(message), "{key} {name}: {}", page(&errors));
        }
    }
    assert_eq!(load("visible", &dirs.join("me/src")).unwrap().rooms.visible, [dirs.join("me/src")]);

    // What agents write is not where programs are looked for by name.
    let bin = dirs.join("project/bin");
    fs::create_dir(&bin).unwrap();
    let errors = load("extra_safe_path_prefixes", &bin).unwrap_err();
    assert!(errors[0].message.contains("where agents write"), "{}", page(&errors));
    assert_eq!(load("visible", &bin).unwrap().rooms.visible, [bin]);
}

#[test]
fn a_directory_that_is_not_there_is_left_out_with_a_note() {
    let (house, _, dirs) = house_with_dirs();
    let (gone, bin) = (dirs.join("gone"), dirs.join("bin"));
    house.user(&format!(
        "sandboxing:\n  subprocess:\n    visible: [{}]\n    extra_safe_path_prefixes: [{}, {}]\n",
        gone.display(),
        bin.display(),
        gone.join("bin").display(),
    ));
    let config = house.load().unwrap();
    assert_eq!((config.rooms.visible, config.rooms.path_prefixes), (vec![], vec![bin]));
    let notes: Vec<_> =
        config.notes.iter().map(|note| (note.line, note.text.contains("rooms do without it"))).collect();
    assert_eq!(notes, [(3, true), (4, true)]);
}

const RULES: &str = "commands:
  - id: no_deploy
    pattern: ./deploy.sh|deploy **
    severity: deny
    reason: a person deploys
    match: [deploy now]
    not_match: [cat deploy.sh]
  - { id: ask_infra, pattern: terraform apply, severity: ask, reason: it costs, match: [terraform apply -auto-approve] }
";

#[test]
fn rules_about_commands_are_the_operators_with_their_lines() {
    let house = House::new();
    house.user(RULES);
    house.project(
        "commands:\n  - id: no_curl\n    pattern: curl\n    severity: deny\n    reason: never\n    match: [curl x]\n",
    );
    let commands = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).policy.commands;
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let rule = |id: &str, pattern: &str, severity, reason: &str, must: &[&str], must_not: &[&str]| UserRule {
        id: id.into(),
        pattern: pattern.into(),
        severity,
        reason: reason.into(),
        must: texts(must),
        must_not: texts(must_not),
    };
    let expected = [
        rule(
            "no_deploy",
            "./deploy.sh|deploy **",
            Severity::Deny,
            "a person deploys",
            &["deploy now"],
            &["cat deploy.sh"],
        ),
        rule("ask_infra", "terraform apply", Severity::Ask, "it costs", &["terraform apply -auto-approve"], &[]),
        rule("no_curl", "curl", Severity::Deny, "never", &["curl x"], &[]),
    ];
    assert_eq!(commands.rules.iter().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    let line = |file: PathBuf, line| SourceLine { file: file.display().to_string(), line };
    let sources = [
        ("ask_infra".to_owned(), line(house.user_file(), 8)),
        ("no_curl".to_owned(), line(house.project_file(), 2)),
        ("no_deploy".to_owned(), line(house.user_file(), 2)),
    ];
    assert_eq!(commands.sources, sources.into());

    // A second rule of a name is told in the file that came later.
    house.project(RULES);
    let errors = house.load().unwrap_err();
    let told: Vec<_> = errors.iter().map(|error| (error.line, error.message.as_str())).collect();
    let taken = |id| format!("rule `{id}`: another rule has this name, or there are more than 256");
    assert_eq!(told, [(2, &*taken("no_deploy")), (8, &*taken("ask_infra"))]);
    assert!(errors.iter().all(|error| error.file == house.project_file().display().to_string()));
}

#[test]
fn an_agent_has_the_profile_its_file_names() {
    let house = House::new();
    house.user(
        "agents:
  a: { profile: coder }
  b: { profile: read_only }
  c: { profile: read_only_no_net }
  d:
    profile:
      custom:
        allow: [git, cargo test]
        ask: [git push]
        deny: [cargo publish]
        default: deny
        write_redirect: allow
        unparsable: deny
        own_programs: allow
        not_plain: deny
        waive: [inline_code, function]
  e: { profile: { custom: { allow: [ls] } } }
  f: {}
",
    );
    let policy = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).policy;
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let custom = Rules {
        allow: texts(&["git", "cargo test"]),
        ask: texts(&["git push"]),
        deny: texts(&["cargo publish"]),
        default: Answer::Deny,
        write_redirect: Answer::Allow,
        unparsable: Answer::Deny,
        own_programs: Answer::Allow,
        not_plain: Answer::Deny,
        waive: texts(&["inline_code", "function"]),
    };
    let expected = [
        ("a", Some((Profile::Coder, 2))),
        ("b", Some((Profile::ReadOnly, 3))),
        ("c", Some((Profile::ReadOnlyNoNet, 4))),
        ("d", Some((Profile::Custom(custom), 7))),
        ("e", Some((Profile::Custom(Rules { allow: texts(&["ls"]), ..Rules::default() }), 17))),
        ("f", None),
    ];
    for (name, profile) in expected {
        let found = policy.agents[&AgentName::from(name)].profile.clone();
        assert_eq!(found.map(|found| (found.value, found.source.line)), profile, "{name}");
    }
}

#[test]
fn a_later_trusted_file_changes_a_profile_and_an_untrusted_one_narrows_it() {
    let profile = |user: &str, project: &str, trust: bool| {
        let house = House::new();
        let agent = |said: &str| format!("agents: {{ default: {{ {said} }} }}\n");
        house.user(&agent(user));
        house.project(&agent(project));
        if trust {
            trust_file(&house.data_dir(), &house.project_file()).unwrap();
        }
        let config = house.load().map_err(|errors| {
            let [error] = errors.as_slice() else { panic!("{}", page(&errors)) };
            assert!(error.message.contains("it may only tighten"), "{error}");
            error.message.clone()
        })?;
        let profile = config.policy.agents[&AgentName::from("default")].profile.clone();
        Ok::<_, String>(profile.map_or("none", |profile| profile.value.name()))
    };
    assert_eq!(profile("profile: read_only", "profile: coder", true), Ok("coder"));
    assert_eq!(profile("profile: read_only", "level: standard", true), Ok("read_only"));
    let full = "level: elevated";
    for (user, project) in [
        ("profile: coder", "read_only"),
        ("profile: coder", "read_only_no_net"),
        ("profile: read_only", "read_only_no_net"),
        ("profile: read_only", "read_only"),
        ("profile: { custom: { allow: [ls] } }", "{ custom: { allow: [ls] } }"),
        // At level standard the terminal constraint is the profile for programming.
        ("level: standard", "coder"),
        ("level: standard", "read_only"),
        (full, "read_only"),
    ] {
        let found = profile(user, &format!("profile: {project}"), false);
        assert_eq!(found, Ok(if project.contains("custom") { "custom" } else { project }), "{user}, then {project}");
    }
    for (user, project) in [
        ("profile: read_only", "coder"),
        ("profile: read_only_no_net", "read_only"),
        ("profile: coder", "{ custom: { default: deny } }"),
        ("profile: { custom: { allow: [ls] } }", "read_only"),
        ("profile: { custom: { allow: [ls] } }", "{ custom: { allow: [ls, cat] } }"),
        (full, "coder"),
    ] {
        let found = profile(user, &format!("profile: {project}"), false);
        assert!(found.is_err(), "{user}, then {project}: {found:?}");
    }
}

#[test]
fn a_profile_that_narrows_answers_no_more_yes() {
    let scripts = [
        "ls -la",
        "cat .env",
        "curl https://example.com",
        "curl -o x https://example.com",
        "git log",
        "git push",
        "rm -rf build",
        "rm -rf /",
        "python3 -c 'print(1)'",
        "f() { ls; }; f",
        "PATH=x ls",
        "ls > x",
        "ls $X",
        "pkill node",
        "./run.sh",
        "sed -i s/a/b/ x",
        "find . -delete",
        "echo 'x",
        "terraform plan",
    ];
    let place = shell::Place::at("/srv/space", "/home/agent");
    let verdict = |profile: Option<&Profile>, script: &str| {
        let rules = profile.map(Profile::rules);
        let bounds = shell::policy::Bounds { prefixes: rules.as_deref(), own: &UserRules::default() };
        bounds.judge(&shell::read(script, &place)).verdict
    };
    let narrower = [
        (None, Profile::ReadOnly),
        (None, Profile::ReadOnlyNoNet),
        (Some(Profile::Coder), Profile::ReadOnly),
        (Some(Profile::Coder), Profile::ReadOnlyNoNet),
        (Some(Profile::ReadOnly), Profile::ReadOnlyNoNet),
    ];
    for (held, new) in narrower {
        for script in scripts {
            assert!(verdict(Some(&new), script) <= verdict(held.as_ref(), script), "{held:?}, {new:?}: {script}");
        }
    }
}

#[test]
fn an_approval_is_bound_to_everything_that_decides() {
    let (house, text, _) = house_with_dirs();
    let digest = |text: &str| {
        house.user(text);
        house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).digest().unwrap()
    };
    let before = digest(&text);
    assert_eq!(digest(&text), before);
    for (from, to) in [
        ("/more/]", "/bin]"),
        ("tier: namespaces", "tier: best"),
        ("[metadata, disk]", "[disk]"),
        ("pids_limit: 64", "pids_limit: 65"),
        ("timeout_seconds: 120", "timeout_seconds: 121"),
        ("/bin, /usr/local/bin]", "/bin]"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_ne!(digest(&text.replace(from, to)), before, "{from}");
    }
    for more in [
        "protected: [secrets/]\n",
        "agents: { default: { profile: read_only } }\n",
        "actions: { payroll:run: low }\n",
        RULES,
    ] {
        assert_ne!(digest(&format!("{text}{more}")), before, "{more}");
    }
    assert_ne!(digest("actions: { payroll:run: low }\n"), digest("actions: { payroll:run: high }\n"));
    assert_ne!(digest("sandboxing: { overrides: { database: subprocess } }\n"), digest(""));
    assert_ne!(digest("egress: { hostname_allowlist: [a.internal] }\n"), digest(""));
    assert_ne!(digest("egress: { dns_rebinding_mitigation: false }\n"), digest(""));
    assert_eq!(digest(&text.replace("max_rooms: 8", "max_rooms: 9")), before, "how long a room lives decides nothing");
}

#[test]
fn where_words_come_from_is_one_word_or_stands_beside_sinks() {
    let house = House::new();
    let mode = || house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).policy.flow.value;
    assert_eq!(mode(), FlowMode::Origin);
    for (text, expected) in [
        ("information_flow: session\n", FlowMode::Session),
        ("information_flow: 'off'\n", FlowMode::Off),
        ("information_flow: { mode: session }\n", FlowMode::Session),
        ("information_flow: { sinks: [{ tool: read, argument: path, from: user }] }\n", FlowMode::Origin),
    ] {
        house.user(text);
        assert_eq!(mode(), expected, "{text}");
    }
}

#[test]
fn the_way_to_other_machines_is_checked() {
    let house = House::new();
    for (text, column, message) in [
        ("egress: { hostname_allowlist: ['a b'] }\n", 32, "does not say which host may be internal"),
        ("egress: { hostname_allowlist: ['*'] }\n", 32, "does not say which host may be internal"),
        ("egress: { name_servers: [ns.example.org] }\n", 26, "is not the address of a name server"),
        ("egress: { ca_file: missing.pem }\n", 20, "cannot be opened"),
        ("egress: { ca_file: . }\n", 20, "is not a file"),
        ("search: { endpoint: 'https://a.org/' }\n", 1, "`search` names no provider"),
        ("search: { provider: askme }\n", 21, "unknown search provider `askme`"),
        ("search: { provider: searxng }\n", 21, "a SearXNG instance has no address of its own"),
        ("search: { provider: brave, endpoint: 'ftp://a.org/' }\n", 38, "is not the address of a search engine"),
    ] {
        house.user(text);
        let errors = house.load().map(|_| ()).expect_err(text);
        let [error] = errors.as_slice() else { panic!("{text}: {}", page(&errors)) };
        assert_eq!((error.line, error.column), (1, column), "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
    fs::write(house.dir.path().join("ca.pem"), "").unwrap();
    let text = "egress: { hostname_allowlist: ['*.corp.internal', '10.0.0.0/8:443'], name_servers: [10.0.0.53, '10.0.0.54:5353'], ca_file: ../ca.pem, dns_rebinding_mitigation: false }\nsearch: { provider: brave, connection: brave }\n";
    house.user(text);
    let egress = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors))).egress;
    assert_eq!(egress.hostname_allowlist, ["*.corp.internal", "10.0.0.0/8:443"]);
    assert_eq!(
        egress.name_servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.53:53", "10.0.0.54:5353"]
    );
    assert_eq!(egress.ca_file, Some(house.dir.path().join("ca.pem").canonicalize().unwrap()));
    assert!(!egress.dns_rebinding_mitigation);
    let search = SearchEngine {
        provider: SearchProvider::Brave,
        endpoint: "https://api.search.brave.com/res/v1/web/search".into(),
        connection: Some("brave".into()),
    };
    assert_eq!(egress.search, search);
}

#[test]
fn a_workspace_is_relative_to_its_file_and_must_be_a_directory() {
    let house = House::new();
    house.user("agents: { default: { workspace: ../work } }\n");
    let errors = house.load().unwrap_err();
    assert_eq!((errors[0].line, errors[0].column), (1, 33));
    assert!(errors[0].message.contains("cannot be opened"), "{}", errors[0]);

    fs::write(house.dir.path().join("work"), "a file").unwrap();
    let errors = house.load().unwrap_err();
    assert!(errors[0].message.contains("is not a directory"), "{}", errors[0]);

    fs::remove_file(house.dir.path().join("work")).unwrap();
    fs::create_dir(house.dir.path().join("work")).unwrap();
    let expected = house.dir.path().join("work").canonicalize().unwrap();
    assert_eq!(house.load().unwrap().agents[&AgentName::from("default")].workspace, expected);
}

#[test]
fn no_tool_may_write_a_config_also_one_that_is_not_there_yet() {
    let house = House::new();
    let sources = Sources { cwd: house.dir.path().to_owned(), ..house.sources() };
    let mut names = Config::load(&sources).unwrap().protected;
    names.sort();
    let mut expected = protected(&["home/toolgate.yaml", "project/toolgate.yaml"]);
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_link_to_a_config_is_protected_like_the_config() {
    let house = House::new();
    fs::write(house.dir.path().join("kept.yaml"), "").unwrap();
    let link = house.dir.path().join("project/link.yaml");
    std::os::unix::fs::symlink("../kept.yaml", &link).unwrap();
    assert_eq!(house.load_explicit(&link).unwrap().protected, protected(&["link.yaml"]));
    // A home that is reached by a link, and directories nobody made yet.
    std::os::unix::fs::symlink("project", house.dir.path().join("door")).unwrap();
    let user = Some(house.dir.path().join("door/.config/toolgate/toolgate.yaml"));
    let config = Config::load(&Sources { user, ..house.sources() }).unwrap();
    assert_eq!(config.protected, protected(&[".config/toolgate/toolgate.yaml"]));
}

#[test]
fn what_clients_keep_for_a_user_is_protected_where_it_lies() {
    let house = House::new();
    let dir = house.dir.path().canonicalize().unwrap();
    // One that is not there yet, in a home that is reached by a link; and one that is itself a link.
    std::os::unix::fs::symlink("home", dir.join("door")).unwrap();
    fs::write(dir.join("kept.json"), "").unwrap();
    std::os::unix::fs::symlink("../kept.json", dir.join("home/mine.json")).unwrap();
    let clients = vec![dir.join("door/.new/client.json"), dir.join("home/mine.json")];
    let config = Config::load(&Sources { clients, ..house.sources() }).unwrap();
    let names = ["home/.new/client.json", "home/mine.json", "kept.json"];
    let whole: Vec<String> = names.iter().map(|name| dir.join(name).display().to_string()).collect();
    assert_eq!(config.protected, protected(&whole.iter().map(String::as_str).collect::<Vec<_>>()));
    let in_rooms = |at: &Path| protected_in(at, &config.protected).into_iter().filter(|name| !always(name));
    assert_eq!(in_rooms(&dir).collect::<Vec<_>>(), names);
    assert_eq!(in_rooms(&dir.join("home")).collect::<Vec<_>>(), [".new/client.json", "mine.json"]);
    assert_eq!(in_rooms(&dir.join("project")).collect::<Vec<_>>(), [""; 0]);
}

/// Is it protected in every workspace?
fn always(name: &str) -> bool {
    name.starts_with(".git/") || protected(&[]).iter().any(|known| known == name)
}

#[test]
fn weights_may_miss_one_by_a_hundredth() {
    let check = |feedback: &str| {
        check_text("t.yaml", &format!("trust: {{ strategy: weighted, weights: {{ human_feedback: {feedback} }} }}\n"))
            .is_ok()
    };
    assert_eq!(["0.18", "0.19", "0.2", "0.21", "0.22"].map(check), [false, true, true, true, false]);
}

#[test]
fn unknown_tools_are_found_when_the_catalog_is_known() {
    let text = "policy:\n  denied: { tools: [delete, reed] }\ntools:\n  wrote: { permission: deny }\n";
    let report: CheckReport = check_text("t.yaml", text).unwrap();
    let found: Vec<_> = report
        .check_tools(known_tools().iter().map(String::as_str))
        .into_iter()
        .map(|error| (error.line, error.column, error.message, error.remedy))
        .collect();
    let expected = |line, column, message: &str, remedy: &str| (line, column, message.to_owned(), remedy.to_owned());
    assert_eq!(
        found,
        [
            expected(2, 29, "unknown tool `reed`", "Write `read`."),
            expected(4, 3, "unknown tool `wrote`", "Write `write`.")
        ]
    );
}

// ---- what does not hold ----

/// A text with one mistake: line, column, a part of the message, a part of the remedy.
struct Broken(&'static str, u64, u64, &'static str, &'static str);

const BROKEN: &[Broken] = &[
    // Keys, at every depth.
    Broken("polciy: {}\n", 1, 1, "unknown key `polciy`", "Write `policy`."),
    Broken("xyzzy: {}\n", 1, 1, "unknown key `xyzzy`", "Write `version`, `actions`"),
    Broken("policy:\n  deny: {}\n", 2, 3, "unknown key `deny`", "Write `denied`."),
    Broken("policy: { denied: { tool: [a] } }\n", 1, 21, "unknown key `tool`", "Write `tools` or `actions`."),
    Broken("policy: { allowed: { classes: [read] } }\n", 1, 22, "unknown key `classes`", "Write `tools` or `actions`."),
    Broken("tools:\n  read:\n    permissions: deny\n", 3, 5, "unknown key `permissions`", "Write `permission`."),
    Broken(
        "tools: { read: { permission: { role: [a] } } }\n",
        1,
        32,
        "unknown key `role`",
        "Write `roles` or `condition`.",
    ),
    Broken("agents:\n  default:\n    levl: standard\n", 3, 5, "unknown key `levl`", "Write `level`."),
    Broken("agents: { a: { constraints: { netwrk: none } } }\n", 1, 31, "unknown key `netwrk`", "Write `network`."),
    Broken("limits: { max_concurency: 3 }\n", 1, 11, "unknown key `max_concurency`", "Write `max_concurrency` or"),
    Broken("sandboxing:\n  dockr: {}\n", 2, 3, "unknown key `dockr`", "Write `docker`."),
    Broken("sandboxing: { docker: { memory: 512m } }\n", 1, 25, "unknown key `memory`", "Write `memory_limit`."),
    Broken("sandboxing: { docker: { lifecycle: { idle: 3 } } }\n", 1, 38, "unknown key `idle`", "Write "),
    Broken(
        "sandboxing: { k8s: { resource_limits: { cpus: 1 } } }\n",
        1,
        41,
        "unknown key `cpus`",
        "Write `cpu` or `memory`.",
    ),
    Broken("tool_access: { level: {} }\n", 1, 16, "unknown key `level`", "Write `levels`."),
    Broken("tool_access: { levels: { standard: { web: true } } }\n", 1, 38, "unknown key `web`", "Write "),
    Broken("trust: { strategy: weighted, weight: {} }\n", 1, 30, "unknown key `weight`", "Write `weights`."),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { restricted_to_standard: { scor: 1 } } }\n",
        1,
        80,
        "unknown key `scor`",
        "Write `score` or",
    ),
    Broken(
        "trust: { strategy: milestone, re_verification: { interval: 3 } }\n",
        1,
        50,
        "unknown key `interval`",
        "Write `interval_days`.",
    ),
    Broken("version: 1\nversion: 1\n", 2, 1, "key `version` is written twice", "Keep one"),
    Broken("agents:\n  a: {}\n  a: {}\n", 3, 3, "key `a` is written twice", "Keep one"),
    // Types.
    Broken("version: one\n", 1, 10, "a whole number is expected here, not `one`", "Write a number"),
    Broken("version: 1.5\n", 1, 10, "a whole number is expected here, not `1.5`", "Write a number"),
    Broken("limits: { max_concurrency: -1 }\n", 1, 28, "a whole number is expected here, not `-1`", "of 0 or more"),
    Broken("# two\r\nversion: 2\r\n", 2, 10, "config version 2 is not known", "Write `version: 1`."),
    Broken("policy: [a]\n", 1, 9, "a mapping is expected here", "Write `key: value`"),
    Broken("policy: { denied: { tools: read } }\n", 1, 28, "a list is expected here", "Write `[one, two]`"),
    Broken("policy: { denied: { tools: [[read]] } }\n", 1, 29, "one word is expected here", "Write a single value."),
    Broken("policy: { denied: { tools: [~] } }\n", 1, 29, "a value is missing here", "Write a value"),
    Broken(
        "policy: { ask: { classes: read } }\n",
        1,
        18,
        "a list or a mapping is expected here",
        "Write a list or a mapping.",
    ),
    Broken(
        "sandboxing: { docker: { dns_allowed: yes } }\n",
        1,
        38,
        "neither `true` nor `false`",
        "Write `true` or `false`.",
    ),
    Broken(
        "trust: { strategy: weighted, weights: { error_rate: much } }\n",
        1,
        53,
        "a number is expected here, not `much`",
        "Write a number",
    ),
    Broken("- version: 1\n", 1, 1, "a mapping is expected here", "Write `key: value`"),
    Broken("just words\n", 1, 1, "a mapping is expected here", "Write `key: value`"),
    // YAML itself.
    Broken("agents:\n\tdefault: {}\n", 2, 2, "this is not YAML", "Indent with spaces"),
    Broken("agents:\n  a: {}\n b: {}\n", 3, 2, "this is not YAML", "Check indentation"),
    Broken("protected: [a, b\nversion: 1\n", 2, 8, "this is not YAML", "brackets"),
    Broken("protected: [\"a]\n", 1, 13, "this is not YAML", "quotes"),
    Broken("version: 1\n---\nversion: 1\n", 3, 1, "a second YAML document", "remove the line `---`"),
    Broken("protected: &a [x]\n", 1, 15, "anchors, aliases and merge keys are not read", "Write the value out"),
    Broken("protected: *a\n", 1, 12, "anchors, aliases and merge keys are not read", "Write the value out"),
    Broken("agents: { a: { <<: {} } }\n", 1, 16, "anchors, aliases and merge keys are not read", "Write the value out"),
    Broken("protected: !secret [a]\n", 1, 20, "tag `!secret` means nothing", "Remove the tag."),
    // Words.
    Broken("version: 2\n", 1, 10, "config version 2 is not known", "Write `version: 1`."),
    Broken("actions: { payroll: high }\n", 1, 12, "`payroll` is not the name of an action type", "group:action"),
    Broken("actions: { code:read: high }\n", 1, 12, "`code:read` is there already", "Remove the line"),
    Broken("actions: { payroll:run: hi }\n", 1, 25, "unknown risk `hi`", "Write `high`."),
    Broken("policy: { ask: { actions: [code:wirte] } }\n", 1, 28, "unknown action `code:wirte`", "Write `code:write`."),
    Broken("policy: { denied: { actions: [deply] } }\n", 1, 31, "unknown action `deply`", "Write `deploy`."),
    Broken("policy: { ask: { classes: [finance] } }\n", 1, 28, "unknown safety class `finance`", "Write `financial`."),
    Broken("policy: { ask: { classes: { write: 0 } } }\n", 1, 36, "`write: 0` is out of range", "from 1 to 10"),
    Broken(
        "policy: { ask: { classes: { privileged: 1 } } }\n",
        1,
        41,
        "always asks 2 people",
        "Write `privileged: 2` or more",
    ),
    Broken(
        "agents: { a: { ask: { classes: { privileged: 1 } } } }\n",
        1,
        46,
        "always asks 2 people",
        "Write `privileged: 2` or more",
    ),
    Broken(
        "policy: { ask: { tools: [call_tool] } }\n",
        1,
        26,
        "nobody can be asked about `call_tool`",
        "the tools it calls",
    ),
    Broken("agents: { a: { ask: { tools: [call_tool] } } }\n", 1, 31, "can be asked about", "a `denied` list"),
    Broken("tools: { call_tool: { permission: confirm } }\n", 1, 10, "one of the tool it names", "Ask about the tools"),
    Broken(
        "policy: { rules: [{ id: r, verdict: ask, tools: [write, call_tool], because: x }] }\n",
        1,
        57,
        "nobody can be asked about `call_tool`",
        "the tools it calls",
    ),
    Broken("tools: { read: { permission: denied } }\n", 1, 30, "unknown permission `denied`", "Write `deny`."),
    Broken(
        "tools: { read: { permission: 3 } }\n",
        1,
        30,
        "unknown permission `3`",
        "Write `allow`, `confirm` or `deny`. Or ",
    ),
    Broken("tools: { read: { permission: {} } }\n", 1, 30, "this permission says nothing", "Write `allow`"),
    Broken(
        "tools: { read: { permission: { roles: [] } } }\n",
        1,
        30,
        "no agent has one of no roles",
        "permission: deny",
    ),
    Broken(
        "tools: { read: { permission: { roles: [a], condition: 'true' } } }\n",
        1,
        30,
        "roles or a condition, not both",
        "Keep one of them",
    ),
    Broken(
        "tools:\n  read:\n    permission: { condition: 'agent.level = \"x\"' }\n",
        3,
        43,
        "the condition cannot be read",
        "agent.level ==",
    ),
    Broken(
        "tools:\n  read:\n    permission:\n      condition: risk == \"low\" and usr == \"x\"\n",
        4,
        36,
        "there is no variable `usr`",
        "what is known of a call",
    ),
    Broken("agents: { \"a b\": {} }\n", 1, 11, "`a b` is not a name for an agent", "letters, digits"),
    Broken("agents: { a: { roles: [\"\"] } }\n", 1, 24, "is not a name for a role", "letters, digits"),
    Broken("agents: { a: { level: standart } }\n", 1, 23, "unknown level `standart`", "Write `standard`."),
    Broken("agents: { a: { workspace: \"\" } }\n", 1, 27, "the workspace is empty", "Write a directory"),
    Broken("agents: { a: { workspace: ~/src } }\n", 1, 27, "`~` does not stand for a home", "Write the whole path"),
    Broken(
        "agents: { a: { constraints: { network: opne } } }\n",
        1,
        40,
        "unknown value for `network`: `opne`",
        "Write `open`.",
    ),
    Broken(
        "agents: { a: { constraints: { code_execution: native } } }\n",
        1,
        47,
        "unknown value for `code_execution`: `native`",
        "Write `none` or `containerized`.",
    ),
    Broken(
        "policy: { files: [{ deny: [raed], paths: [a], because: x }] }\n",
        1,
        28,
        "unknown use of a file `raed`",
        "Write `read` or `write`.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], paths: [/etc/shadow], because: x }] }\n",
        1,
        43,
        "`/etc/shadow` does not say which files are meant: it must be relative to the workspace, or the name of a file alone",
        "Write a name such as `.env`, or a path such as `secrets/**` or `**/*.pem`.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], paths: [.env], because: x, match: [.envrc] }] }\n",
        1,
        70,
        "`.envrc` is to be meant by this rule, and is not",
        "Change the rule or the example until they agree.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], paths: ['.env*'], because: x, not_match: [.envrc] }] }\n",
        1,
        77,
        "`.envrc` is not to be meant by this rule, and is",
        "Change the rule or the example until they agree.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], ask: [write], paths: [a], because: x }] }\n",
        1,
        19,
        "a rule denies or asks, not both",
        "Write two rules.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], paths: [a] }] }\n",
        1,
        19,
        "this rule has no `because`",
        "Write `deny: [read, write]` or `ask: [write]`, and `paths` and `because` beside it.",
    ),
    Broken(
        "agents: { a: { hosts: [{ deny: ['*'], because: x }] } }\n",
        1,
        33,
        "`*` does not say which host is meant: host names have only letters, digits, hyphens and underscores between \
         their dots",
        "Write `host`, `*.host`, an address or a block of addresses, each with `:port` or without.",
    ),
    Broken(
        "agents: { a: { hosts: [{ deny: [a.example], because: x, match: [b.example] }] } }\n",
        1,
        65,
        "`b.example` is to be meant by this rule, and is not",
        "Change the rule or the example until they agree.",
    ),
    Broken(
        "policy: { hosts: [{ deny: ['*.example'], because: x, not_match: [b.example] }] }\n",
        1,
        66,
        "`b.example` is not to be meant by this rule, and is",
        "Change the rule or the example until they agree.",
    ),
    Broken(
        "policy: { files: [{ deny: [read], because: x }] }\n",
        1,
        19,
        "a rule about files names no `paths`",
        "Write `deny: [read, write]` or `ask: [write]`, and `paths` and `because` beside it.",
    ),
    Broken(
        "agents: { a: { directories: [~/data] } }\n",
        1,
        30,
        "this does not name a directory",
        "Write a whole path or one relative to this file, or `{path: .., write: true}`.",
    ),
    Broken(
        "agents: { a: { directories: [{ write: true }] } }\n",
        1,
        30,
        "this does not name a directory",
        "Write a whole path or one relative to this file, or `{path: .., write: true}`.",
    ),
    Broken(
        "agents: { a: { constraints: { requires_approval: [deployments] } } }\n",
        1,
        51,
        "unknown action `deployments`",
        "Write `deploy`.",
    ),
    Broken(
        "agents: { a: { constraints: { network: allowlist_only, network_allowlist: ['*.a.com'] } } }\n",
        1,
        76,
        "has a wildcard",
        "Write a host such as",
    ),
    Broken(
        "agents: { a: { constraints: { network_allowlist: [a.com] } } }\n",
        1,
        51,
        "an allowlist limits nothing while `network` is `open` (built-in)",
        "Write `network: allowlist_only` beside it.",
    ),
    Broken(
        "agents:\n  a:\n    level: sandboxed\n    constraints:\n      network: open\n",
        5,
        16,
        "`network: open` of agent `a` is looser than its level: `sandboxed` permits `none` (built-in)",
        "Write `none` or something tighter, or give the agent `level: custom`.",
    ),
    Broken(
        "tool_access:\n  levels:\n    standard:\n      git: local_only\nagents:\n  a:\n    constraints: { git: full }\n",
        7,
        25,
        "`git: full` of agent `a` is looser than its level: `standard` permits `local_only` (t.yaml:4)",
        "Write `local_only`",
    ),
    Broken(
        "tool_access: { levels: { restricted: { network_allowlist: [a.com] } } }\nagents: { a: { level: restricted, constraints: { network_allowlist: [b.com] } } }\n",
        2,
        70,
        "`b.com` of agent `a` is looser than its level",
        "level: custom",
    ),
    Broken("limits: { max_concurrency: 0 }\n", 1, 28, "`max_concurrency: 0` is out of range", "from 1 to 64"),
    Broken("limits: { max_input_bytes: 99999999 }\n", 1, 28, "is out of range", "to 67108864"),
    Broken("protected: [/etc]\n", 1, 13, "`/etc` is not a name inside a workspace", "Write a relative path"),
    Broken("protected: [a/../b]\n", 1, 13, "is not a name inside a workspace", "without `.` and `..`"),
    // Rooms.
    Broken("sandboxing: { default_backend: dcoker }\n", 1, 32, "unknown backend `dcoker`", "Write `docker`."),
    Broken("sandboxing: { default_backend: inline }\n", 1, 32, "only file tools can run inline", "file_system: inline"),
    Broken("sandboxing: { overrides: { web: inline } }\n", 1, 33, "category `web` need a room", "deny_all"),
    Broken(
        "sandboxing: { overrides: { filesystem: docker } }\n",
        1,
        28,
        "unknown category `filesystem`",
        "Write `file_system`.",
    ),
    Broken(
        "sandboxing: { overrides: { git: docker, version_control: docker } }\n",
        1,
        41,
        "category `version_control` has two backends",
        "Keep one",
    ),
    Broken(
        "sandboxing: { subprocess: { timeout_seconds: 601 } }\n",
        1,
        46,
        "`timeout_seconds: 601` is out of range",
        "from 1 to 600",
    ),
    Broken(
        "sandboxing: { subprocess: { extra_safe_path_prefixes: [/] } }\n",
        1,
        56,
        "is not a directory programs",
        "/opt/tools/bin",
    ),
    Broken(
        "sandboxing: { subprocess: { extra_safe_path_prefixes: ['/a:/b'] } }\n",
        1,
        56,
        "`/a:/b` is not a directory programs could be in",
        "/opt/tools/bin",
    ),
    Broken(
        "sandboxing: { subprocess: { extra_safe_path_prefixes: [/home/me/.ssh/bin] } }\n",
        1,
        56,
        "keys are kept in `.ssh`",
        "nothing but what programs need",
    ),
    Broken(
        "sandboxing: { subprocess: { workspace_only: false } }\n",
        1,
        45,
        "`workspace_only: false` cannot be had",
        "listed under `visible`",
    ),
    Broken(
        "sandboxing: { subprocess: { restricted_path: false } }\n",
        1,
        46,
        "`restricted_path: false` cannot be had",
        "extra_safe_path_prefixes",
    ),
    Broken("sandboxing: { subprocess: { memory_limit: 1m } }\n", 1, 43, "is not a usable amount", "such as `512m`"),
    Broken("sandboxing: { subprocess: { memory_limit: 2000g } }\n", 1, 43, "is not a usable amount", "such as `512m`"),
    Broken("sandboxing: { subprocess: { disk_limit: 4 GB } }\n", 1, 41, "is not a usable amount", "such as `1g`"),
    Broken("sandboxing: { subprocess: { tmpfs_size: 1k } }\n", 1, 41, "is not a usable amount", "such as `64m`"),
    Broken("sandboxing: { subprocess: { pids_limit: 7 } }\n", 1, 41, "is out of range", "from 8 to 32768"),
    Broken("sandboxing: { subprocess: { cpu_seconds: 0 } }\n", 1, 42, "is out of range", "from 1 to 86400"),
    Broken("sandboxing: { subprocess: { open_files: 31 } }\n", 1, 41, "is out of range", "from 32 to 1048576"),
    Broken(
        "sandboxing: { subprocess: { tier: namespace } }\n",
        1,
        35,
        "unknown value for `tier`: `namespace`",
        "Write `namespaces`.",
    ),
    Broken(
        "sandboxing: { subprocess: { accepted_gaps: [disk, memroy] } }\n",
        1,
        51,
        "unknown wall `memroy`",
        "Write `memory`.",
    ),
    Broken(
        "sandboxing: { subprocess: { lifecycle: { strategy: per-agnet } } }\n",
        1,
        52,
        "unknown value for `strategy`: `per-agnet`",
        "Write `per-agent`.",
    ),
    Broken(
        "sandboxing: { subprocess: { lifecycle: { max_rooms: 0 } } }\n",
        1,
        53,
        "`max_rooms: 0` is out of range",
        "from 1 to 1000",
    ),
    Broken(
        "sandboxing: { subprocess: { lifecycle: { grace_seconds: 3601 } } }\n",
        1,
        57,
        "is out of range",
        "from 0 to 3600",
    ),
    Broken(
        "sandboxing: { subprocess: { lifecycle: { max_idle_seconds: 0 } } }\n",
        1,
        60,
        "is out of range",
        "from 1 to 86400",
    ),
    Broken(
        "sandboxing: { subprocess: { visible: [opt/x] } }\n",
        1,
        39,
        "is not a directory a room could see",
        "/opt/tools",
    ),
    Broken(
        "sandboxing: { subprocess: { visible: [/opt/../etc] } }\n",
        1,
        39,
        "is not a directory a room",
        "/opt/tools",
    ),
    Broken(
        "sandboxing: { subprocess: { visible: [~/x] } }\n",
        1,
        39,
        "is not a directory a room could see",
        "absolute",
    ),
    Broken("sandboxing: { subprocess: { visible: [//] } }\n", 1, 39, "is not a directory a room could see", "absolute"),
    Broken("sandboxing: { subprocess: { visible: [/] } }\n", 1, 39, "it holds everything", "Name a directory"),
    Broken("sandboxing: { subprocess: { visible: [/etc/] } }\n", 1, 39, "it holds everything", "Name a directory"),
    Broken("sandboxing: { subprocess: { visible: [/root] } }\n", 1, 39, "it holds everything", "Name a directory"),
    Broken("sandboxing: { subprocess: { visible: [/home] } }\n", 1, 39, "it holds everything", "Name a directory"),
    Broken("sandboxing: { subprocess: { visible: [/home/me] } }\n", 1, 39, "it holds everything", "Name a directory"),
    Broken(
        "sandboxing: { subprocess: { visible: [/proc/1] } }\n",
        1,
        39,
        "a room has its own `/proc`",
        "Name a directory",
    ),
    Broken("sandboxing: { subprocess: { visible: [/run] } }\n", 1, 39, "a room has its own `/run`", "Name a directory"),
    Broken(
        "sandboxing: { subprocess: { visible: [/root/.aws] } }\n",
        1,
        39,
        "keys are kept in `.aws`",
        "Name a directory",
    ),
    Broken("sandboxing: { subprocess: { visble: [] } }\n", 1, 29, "unknown key `visble`", "Write `visible`."),
    // Commands.
    Broken("agents: { a: { profile: codr } }\n", 1, 25, "unknown profile `codr`", "Write `coder`."),
    Broken("agents: { a: { profile: custom } }\n", 1, 25, "profile `custom` needs lists", "custom: { allow:"),
    Broken("agents: { a: { profile: {} } }\n", 1, 25, "this profile says nothing", "under `custom`"),
    Broken("agents: { a: { profile: { coder: {} } } }\n", 1, 27, "unknown key `coder`", "Write `custom`."),
    Broken("agents: { a: { profile: { custom: { alow: [ls] } } } }\n", 1, 37, "unknown key `alow`", "Write `allow`."),
    Broken(
        "agents: { a: { profile: { custom: { default: allowed } } } }\n",
        1,
        46,
        "unknown answer `allowed`",
        "Write `allow`.",
    ),
    Broken(
        "agents: { a: { profile: { custom: { allow: [ls, ' '] } } } }\n",
        1,
        49,
        "` ` is no prefix",
        "such as `git push`",
    ),
    Broken(
        "agents: { a: { profile: { custom: { waive: [delete_system] } } } }\n",
        1,
        45,
        "rule `delete_system` denies, and cannot be waived",
        "Write the name of a rule that asks",
    ),
    Broken(
        "agents: { a: { profile: { custom: { waive: [function, nothing] } } } }\n",
        1,
        55,
        "there is no rule `nothing`",
        "Write the name of a rule that asks",
    ),
    Broken("commands: {}\n", 1, 11, "a list is expected here", "Write `[one, two]`"),
    Broken("commands:\n  - { id: a, patern: b }\n", 2, 14, "unknown key `patern`", "Write `pattern`."),
    Broken(
        "commands:\n  - { id: a, severity: deny, reason: r, match: [x] }\n",
        2,
        5,
        "a rule about commands has no `pattern`",
        "for every rule",
    ),
    Broken(
        "commands:\n  - { id: a, pattern: x, severity: forbid, reason: r, match: [x] }\n",
        2,
        36,
        "unknown severity `forbid`",
        "Write `ask` or `deny`.",
    ),
    Broken(
        "commands:\n  - id: git push\n    pattern: x\n    severity: ask\n    reason: r\n    match: [x]\n",
        2,
        9,
        "a name is made of",
        "no_deploy_on_friday",
    ),
    Broken(
        "commands:\n  - id: a\n    pattern: '* x'\n    severity: ask\n    reason: r\n    match: [x]\n",
        3,
        14,
        "rule `a`: a pattern names a program",
        "terraform apply|destroy",
    ),
    Broken(
        "commands:\n  - id: a\n    pattern: x\n    severity: ask\n    reason: ''\n    match: [x]\n",
        5,
        13,
        "rule `a`: say why",
        "Say in one sentence",
    ),
    Broken(
        "commands:\n  - id: a\n    pattern: x\n    severity: ask\n    reason: r\n",
        2,
        5,
        "rule `a`: give at least one script that must hit it",
        "Change the pattern or the example",
    ),
    Broken(
        "commands:\n  - id: a\n    pattern: git push\n    severity: ask\n    reason: r\n    match:\n      - git push\n      - git pull\n",
        8,
        9,
        "rule `a`: it must hit `git pull` and does not",
        "Change the pattern or the example",
    ),
    Broken(
        "commands:\n  - id: a\n    pattern: git push\n    severity: ask\n    reason: r\n    match: [git push]\n    not_match: [git log, git push -n]\n",
        7,
        26,
        "rule `a`: it must not hit `git push -n` and does",
        "Change the pattern or the example",
    ),
    Broken(
        "sandboxing: { docker: { memory_limit: 512mb } }\n",
        1,
        39,
        "`memory_limit: 512mb` is not a usable amount",
        "such as `512m`",
    ),
    Broken("sandboxing: { docker: { memory_limit: 512 } }\n", 1, 39, "is not a usable amount", "such as `512m`"),
    Broken(
        "sandboxing: { docker: { cpu_limit: \"17\" } }\n",
        1,
        36,
        "`cpu_limit: 17` is not a number of processors",
        "up to 16",
    ),
    Broken("sandboxing: { docker: { pids_limit: 15 } }\n", 1, 37, "is out of range", "from 16 to 1024"),
    Broken("sandboxing: { docker: { cpu_limit: '0.009' } }\n", 1, 36, "is not a number of processors", "such as `1.0`"),
    Broken("sandboxing: { docker: { runtime: 'a b' } }\n", 1, 34, "is not the name of a runtime", "runsc"),
    Broken("sandboxing: { docker: { worker: worker } }\n", 1, 33, "is not where a program could be", "absolute"),
    Broken(
        "sandboxing: { docker: { host: 'tcp://10.0.0.1:2375' } }\n",
        1,
        31,
        "is not the socket of a daemon on this machine",
        "unix:///var/run/docker.sock",
    ),
    Broken(
        "sandboxing: { docker: { network_overrides: { git: none, version_control: bridge } } }\n",
        1,
        57,
        "category `version_control` has two networks",
        "`git` is another word",
    ),
    Broken(
        "sandboxing: { docker: { network: host } }\n",
        1,
        34,
        "unknown value for `network`: `host`",
        "Write `none` or `bridge`.",
    ),
    Broken(
        "sandboxing: { docker: { network_overrides: { web: open } } }\n",
        1,
        51,
        "unknown value for `web`: `open`",
        "`bridge`",
    ),
    Broken(
        "sandboxing: { docker: { allowed_hosts: [example.com] } }\n",
        1,
        41,
        "`example.com` names no port",
        "api.example.com:443",
    ),
    Broken(
        "sandboxing: { docker: { allowed_hosts: ['a.com:https'] } }\n",
        1,
        41,
        "has no port from 1 to 65535",
        "host and port",
    ),
    Broken(
        "sandboxing: { docker: { mount_mode: readonly } }\n",
        1,
        37,
        "unknown value for `mount_mode`",
        "Write `ro` or `rw`.",
    ),
    Broken("sandboxing: { docker: { image: '-v /:/x' } }\n", 1, 32, "is not the name of an image", "name:tag"),
    Broken(
        "sandboxing: { docker: { lifecycle: { strategy: per-agnet } } }\n",
        1,
        48,
        "unknown value for `strategy`: `per-agnet`",
        "Write `per-agent`.",
    ),
    Broken(
        "sandboxing: { k8s: { namespace: My_Space } }\n",
        1,
        33,
        "`My_Space` is not a namespace",
        "lower-case letters",
    ),
    Broken(
        "sandboxing: { k8s: { resource_limits: { memory: 1GiB } } }\n",
        1,
        49,
        "`memory: 1GiB` is not an amount",
        "`256Mi`",
    ),
    Broken(
        "sandboxing: { k8s: { resource_requests: { cpu: 2 }, resource_limits: { cpu: 500m } } }\n",
        1,
        48,
        "a request for `cpu: 2` is above the limit `500m`",
        "Write `500m` or less.",
    ),
    Broken("tool_access: { levels: { standrd: {} } }\n", 1, 26, "unknown level `standrd`", "Write `standard`."),
    // Trust.
    Broken("trust: { initial_level: standard }\n", 1, 1, "`trust` has no strategy", "strategy: disabled"),
    Broken("trust: { strategy: weigthed }\n", 1, 20, "unknown trust strategy `weigthed`", "Write `weighted`."),
    Broken(
        "trust: { strategy: disabled, initial_level: elevated }\n",
        1,
        45,
        "no agent starts at `elevated`",
        "level: elevated",
    ),
    Broken(
        "trust: { strategy: disabled, initial_level: custom }\n",
        1,
        45,
        "not a step of the ladder",
        "Write `sandboxed`",
    ),
    Broken(
        "trust:\n  strategy: disabled\n  weights: {}\n",
        3,
        3,
        "`weights` is a rule of strategy `weighted`, and the strategy is `disabled`",
        "Remove `weights`, or write `strategy: weighted`.",
    ),
    Broken(
        "trust:\n  strategy: weighted\n  weights:\n    task_difficulty: 0.5\n    completion_rate: 0.25\n    error_rate: 0.25\n    human_feedback: 0.2\n",
        3,
        3,
        "the four weights add up to 1.2, not to 1",
        "add up to 1",
    ),
    Broken(
        "trust: { strategy: weighted, weights: { error_rate: 1.5 } }\n",
        1,
        53,
        "`error_rate: 1.5` is out of range",
        "from 0 to 1",
    ),
    Broken("trust: { strategy: weighted, weights: { error_rate: .nan } }\n", 1, 53, "is out of range", "from 0 to 1"),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { standard_to_root: 0.4 } }\n",
        1,
        54,
        "unknown promotion `standard_to_root`",
        "Write `standard_to_elevated`.",
    ),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { restricted_to_standard: high } }\n",
        1,
        78,
        "is not a score",
        "from 0 to 1",
    ),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { restricted_to_standard: 6 } }\n",
        1,
        78,
        "is out of range",
        "from 0 to 1",
    ),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { restricted_to_standard: {} } }\n",
        1,
        78,
        "has no score",
        "score: 0.8",
    ),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { standard_to_elevated: 0.8 } }\n",
        1,
        54,
        "without a person",
        "requires_human_approval: true",
    ),
    Broken(
        "trust: { strategy: weighted, promotion_thresholds: { standard_to_elevated: { score: 0.8, requires_human_approval: false } } }\n",
        1,
        54,
        "without a person",
        "requires_human_approval: true",
    ),
    Broken(
        "trust: { strategy: milestone, milestones: { standard_to_elevated: { tasks_completed: 3 } } }\n",
        1,
        45,
        "without a person",
        "requires_human_approval: true",
    ),
    Broken(
        "trust:\n  strategy: per_category\n  initial_levels: { web: sandboxed }\n  promotion_criteria: { web: { standard_to_elevated: {} } }\n",
        4,
        32,
        "without a person",
        "requires_human_approval: true",
    ),
    Broken(
        "trust: { strategy: milestone, milestones: { restricted_to_standard: { requires_human_approval: true, auto_promote: true } } }\n",
        1,
        116,
        "automatic or takes a person, not both",
        "Remove `auto_promote`",
    ),
    Broken(
        "trust: { strategy: milestone, milestones: { restricted_to_standard: { auto_promote: false } } }\n",
        1,
        85,
        "could never happen",
        "requires_human_approval: true",
    ),
    Broken(
        "trust: { strategy: milestone, milestones: { restricted_to_standard: { time_active_days: 7 } } }\n",
        1,
        45,
        "`restricted_to_standard` would be earned by doing nothing",
        "Add `tasks_completed: 10`",
    ),
    Broken(
        "trust:\n  strategy: per_category\n  initial_levels: { web: sandboxed }\n  promotion_criteria: { web: { sandboxed_to_restricted: { tasks_completed: 0 } } }\n",
        4,
        32,
        "would be earned by doing nothing",
        "requires_human_approval: true",
    ),
    Broken(
        "trust: { strategy: per_category, initial_levels: { web: elevated } }\n",
        1,
        57,
        "no agent starts at `elevated`",
        "level: elevated",
    ),
    Broken(
        "trust: { strategy: per_category, promotion_criteria: { web: {} } }\n",
        1,
        56,
        "has criteria but no level to start from",
        "Add `web: sandboxed` under `initial_levels`.",
    ),
    Broken(
        "trust: { strategy: milestone, re_verification: { decay_on_error_rate: 15 } }\n",
        1,
        71,
        "is out of range",
        "from 0 to 1",
    ),
];

#[test]
fn every_mistake_is_found_where_it_is() {
    let mut wrong = Vec::new();
    for Broken(text, line, column, message, remedy) in BROKEN {
        let found = match check_text("t.yaml", text) {
            Ok(_) => "no error at all".to_owned(),
            Err(errors) => match errors.as_slice() {
                [one]
                    if (one.line, one.column) == (*line, *column)
                        && one.message.contains(message)
                        && one.remedy.contains(remedy) =>
                {
                    continue;
                }
                _ => page(&errors),
            },
        };
        wrong.push(format!("{text}expected {line}:{column} {message:?} {remedy:?}, found\n{found}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn messages_and_remedies_read_alike() {
    for Broken(text, ..) in BROKEN {
        for error in check_text("t.yaml", text).unwrap_err() {
            let first = error.message.chars().next().unwrap();
            assert!(!first.is_uppercase() && !error.message.ends_with('.'), "{error}");
            let first = error.remedy.chars().next().unwrap();
            assert!(first.is_uppercase() && error.remedy.ends_with('.'), "{error}");
        }
    }
}

#[test]
fn wrong_words_are_reported_all_at_once_and_in_order() {
    let text = "limits: { max_concurrency: 900 }\nagents:\n  a: { level: low }\n  b: { level: standrd, roles: ['x y'] }\npolicy: { denied: { actions: [code:wirte, all, deply] } }\n";
    let places: Vec<_> =
        check_text("t.yaml", text).unwrap_err().iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(1, 28), (3, 15), (4, 15), (4, 32), (5, 31), (5, 48)]);
}

#[test]
fn nothing_a_terminal_acts_on_gets_into_a_page() {
    let texts = ["agents: { a: { level: \"\\e[2J\\u202E\\a\" } }\n", "\u{202e}x: 1\n"];
    let page: String = texts.iter().map(|text| page(&check_text("t.yaml", text).unwrap_err())).collect();
    assert!(page.contains("unknown level"), "{page}");
    assert!(!page.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{page:?}");
    let long = format!("agents: {{ a: {{ level: {} }} }}\n", "x".repeat(500_000));
    assert!(check_text("t.yaml", &long).unwrap_err()[0].to_string().len() < 2_000);
}

#[test]
fn a_file_full_of_mistakes_gets_one_page() {
    let text = format!("protected: [a]\npolicy: {{ denied: {{ actions: [{}] }} }}\n", "code:wirte, ".repeat(3_000));
    let errors = check_text("t.yaml", &text).unwrap_err();
    assert_eq!((errors.len(), &*errors[100].message), (101, "2900 more mistakes are not shown"));
    let tools = check_text("t.yaml", &format!("policy: {{ denied: {{ tools: [{}] }} }}\n", "wirte, ".repeat(3_000)));
    assert_eq!(tools.unwrap().check_tools(["write"]).len(), 101);
    let long = format!("policy: {{ denied: {{ actions: [{}] }} }}\n", "x".repeat(900_000));
    assert_eq!(check_text("t.yaml", &long).unwrap_err().len(), 1);
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    let first = |text: &str| check_text("t.yaml", text).unwrap_err().remove(0).message;
    let mut aliases = String::from("protected: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(9);
        aliases.push_str(&format!("k{level}: &a{level} [{below}]\n"));
    }
    assert!(first(&aliases).contains("anchors, aliases"), "{}", first(&aliases));
    for deep in ["[".repeat(100_000), "{a: ".repeat(100_000), format!("\n{}x", "- ".repeat(100_000))] {
        let message = first(&format!("protected: {deep}"));
        assert!(message.contains("nested too deeply") || message.contains("is expected here"), "{message}");
    }
    let many = format!("protected: [{}]\n", "a,".repeat(100_000));
    assert!(first(&many).contains("more values"), "{}", first(&many));
    let long = format!("# {}\n", "x".repeat(10_000_000));
    assert!(first(&long).contains("more than 1048576"), "{}", first(&long));
}

#[test]
fn a_file_that_is_no_config_is_refused() {
    let house = House::new();
    let message = || house.load().unwrap_err().remove(0).message;
    fs::create_dir_all(house.user_file().join("x")).unwrap();
    assert!(message().contains("not a regular file"), "{}", message());
    fs::remove_dir_all(house.user_file()).unwrap();

    house.user(&format!("#{}\n", "x".repeat(2_000_000)));
    assert!(message().contains("more than 1048576 bytes"), "{}", message());

    fs::write(house.user_file(), b"version: \xff\n").unwrap();
    assert!(message().contains("not UTF-8"), "{}", message());
    fs::remove_file(house.user_file()).unwrap();

    let status = std::process::Command::new("mkfifo").arg(house.project_file()).status().unwrap();
    assert!(status.success());
    assert!(message().contains("not a regular file"), "{}", message());
    fs::remove_file(house.project_file()).unwrap();

    fs::write(house.dir.path().join("secret"), "password: hunter2\n").unwrap();
    std::os::unix::fs::symlink("../secret", house.project_file()).unwrap();
    assert!(message().contains("symbolic link"), "{}", message());
    assert!(!page(&house.load().unwrap_err()).contains("hunter2"));

    // The user's own file may be a link: many keep theirs somewhere else.
    fs::remove_file(house.project_file()).unwrap();
    fs::write(house.dir.path().join("kept.yaml"), "limits: { max_concurrency: 3 }\n").unwrap();
    std::os::unix::fs::symlink("../kept.yaml", house.user_file()).unwrap();
    assert_eq!(house.load().unwrap().limits.max_concurrency, 3);
}

#[test]
fn a_page_about_a_typo() {
    insta::assert_snapshot!(page(
        &check_text("toolgate.yaml", "version: 1\npolicy:\n  deny:\n    tools: [delete]\n").unwrap_err()
    ));
}

#[test]
fn a_page_about_several_wrong_words() {
    let text = "# What builds.
agents:
  builder:
    level: restricted
    constraints:
      network: open
      requires_approval: [deploy:prodution]
tools:
  delete: { permission: { condition: 'args.path starts_with \"build/\"' } }
sandboxing:
  docker:
    memory_limit: 512 MB
";
    insta::assert_snapshot!(page(&check_text("conf/team.yaml", text).unwrap_err()));
}

#[test]
fn a_page_about_a_project_that_wants_more() {
    let house = House::new();
    house.project("policy:\n  allowed:\n    actions: [all]\nagents:\n  default:\n    level: elevated\n");
    let dir = house.dir.path().display().to_string();
    insta::assert_snapshot!(page(&house.load().unwrap_err()).replace(&dir, "/home/me"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".*", at in 0_usize..3_000, fixture in 0..FIXTURES.len()) {
        let _ = check_text("t.yaml", &text);
        let mut whole = self::fixture(FIXTURES[fixture]);
        let at = at % whole.len();
        whole.insert_str(at, &text);
        if let Err(errors) = check_text("t.yaml", &whole) {
            proptest::prop_assert!(!page(&errors).is_empty());
        }
    }
}

// ---- layers ----

#[test]
fn a_later_trusted_file_goes_on_top() {
    let house = House::new();
    house.user(
        "agents: { default: { level: restricted, roles: [a] }, other: {} }\nlimits: { max_concurrency: 3 }\nprotected: [x]\npolicy: { denied: { tools: [write] } }\ntools: { read: { permission: deny } }\nsandboxing: { default_backend: docker, overrides: { web: deny_all } }\n",
    );
    house.project(
        "agents: { default: { level: elevated } }\nprotected: [y]\npolicy: { denied: { tools: [edit] } }\ntools: { read: { permission: allow } }\nsandboxing: { overrides: { file_system: inline } }\n",
    );
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    let config = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    let default = &config.policy.agents[&AgentName::from("default")];
    assert_eq!((default.level.value, default.roles.clone()), (Level::Elevated, ["a".to_owned()].into()));
    assert_eq!(config.policy.agents.len(), 2);
    assert_eq!(config.limits.max_concurrency, 3);
    assert_eq!(config.protected, protected(&["x", "y"]));
    assert_eq!(config.policy.rules.denied.tools.keys().collect::<Vec<_>>(), ["edit", "write"]);
    assert_eq!(verdict(&config, "read"), Verdict::Allow);
    let places = [Category::FileSystem, Category::Web].map(|category| config.backend_for(category));
    assert_eq!(places, [Place::Inline, Place::DenyAll]);
    assert!(matches!(config.backend_for(Category::Mcp), Place::Docker { .. }));
    let trusted: Vec<_> = config.files.iter().map(|file| (file.path.clone(), file.trusted)).collect();
    assert_eq!(trusted, [(house.user_file(), true), (house.project_file(), true)]);
}

/// What an untrusted project file may not say, on top of a user's file: text, line, column, a part of the message.
const LOOSER: &[(&str, u64, u64, &str)] = &[
    ("actions:\n  payroll:run: low\n", 1, 1, "`actions`"),
    ("version: 1\nsandboxing:\n  overrides: { web: docker }\n", 3, 21, "backend `docker` for category `web`"),
    ("sandboxing: { overrides: { mcp: subprocess } }\n", 1, 33, "backend `subprocess` for category `mcp`"),
    ("sandboxing: { default_backend: subprocess }\n", 1, 32, "backend `subprocess` for category"),
    ("sandboxing:\n  docker: { image: other }\n", 2, 20, "another `image`"),
    ("sandboxing:\n  k8s: {}\n", 2, 3, "`k8s`"),
    ("sandboxing: { subprocess: { pids_limit: 1000 } }\n", 1, 41, "a looser `pids_limit`"),
    ("agents: { default: { profile: { custom: { allow: [ls] } } } }\n", 1, 31, "profile `custom` where `coder` holds"),
    ("tool_access:\n  levels: {}\n", 1, 1, "`tool_access`"),
    ("trust: { strategy: disabled, initial_level: sandboxed }\n", 1, 1, "`trust`"),
    ("policy:\n  allowed:\n    tools:\n      - delete\n", 4, 9, "`allowed` tool `delete`"),
    ("policy: { allowed: { actions: [code:read] } }\n", 1, 32, "`allowed` action"),
    ("agents:\n  mine: {}\n", 2, 3, "a new agent, `mine`,"),
    ("agents: { default: { allowed: { tools: [delete] } } }\n", 1, 41, "`allowed` tool `delete`"),
    ("agents: { default: { allowed: { actions: [db] } } }\n", 1, 43, "`allowed` action"),
    ("agents: { default: { level: elevated } }\n", 1, 29, "level `elevated` where `standard`"),
    ("agents: { default: { level: custom } }\n", 1, 29, "level `custom` where `standard`"),
    ("agents: { tight: { level: standard } }\n", 1, 27, "level `standard` where `restricted`"),
    ("agents: { own: { level: sandboxed } }\n", 1, 25, "level `sandboxed` where `custom`"),
    ("agents: { default: { roles: [admin] } }\n", 1, 30, "`roles`"),
    ("agents: { default: { workspace: / } }\n", 1, 33, "another workspace, `/`,"),
    ("agents: { default: { workspace: .. } }\n", 1, 33, "another workspace, `..`,"),
    ("agents: { tight: { constraints: { file_system: full } } }\n", 1, 48, "`file_system: full` would loosen"),
    (
        "agents: { tight: { constraints: { network: open } } }\n",
        1,
        44,
        "`network: open` would loosen what holds now: `allowlist_only`",
    ),
    (
        "agents: { tight: { constraints: { git: full } } }\n",
        1,
        40,
        "`git: full` would loosen what holds now: `local_only`",
    ),
    ("agents: { tight: { constraints: { terminal: full } } }\n", 1, 45, "`terminal: full` would loosen"),
    ("agents: { own: { constraints: { terminal: full } } }\n", 1, 43, "`terminal: full` would loosen"),
    (
        "agents: { tight: { constraints: { network_allowlist: [a.com, 'b.com:22'] } } }\n",
        1,
        62,
        "`b.com:22` would loosen",
    ),
    ("agents: { own: { constraints: { network_allowlist: [a.com] } } }\n", 1, 53, "`a.com` would loosen"),
    ("egress: { hostname_allowlist: [a.internal] }\n", 1, 1, "`egress` is not for a file that is not trusted yet"),
    ("search: { provider: duckduckgo }\n", 1, 1, "`search` is not for a file that is not trusted yet"),
    ("limits: { max_concurrency: 5 }\n", 1, 28, "`max_concurrency: 5`, above 4,"),
    ("limits: { max_input_bytes: 4096 }\n", 1, 28, "`max_input_bytes: 4096`, above 2048,"),
    ("tools: { delete: { permission: allow } }\n", 1, 32, "another permission for tool `delete`"),
    ("tools: { write: { permission: allow } }\n", 1, 31, "another permission for tool `write`"),
];

const TRUSTED: &str = "
agents:
  tight:
    level: restricted
    constraints: { git: local_only, network_allowlist: [a.com, 'b.com:443'] }
  own: { level: custom }
limits: { max_concurrency: 4, max_input_bytes: 2048 }
tools:
  delete: { permission: confirm }
  write: { permission: deny }
  edit: { permission: { roles: [a] } }
";

#[test]
fn an_untrusted_project_loosens_nothing() {
    let house = House::new();
    house.user(TRUSTED);
    for (text, line, column, message) in LOOSER {
        house.project(text);
        let errors = house.load().map(|_| ()).expect_err(text);
        let [error] = errors.as_slice() else { panic!("{text}: {}", page(&errors)) };
        assert_eq!((error.line, error.column), (*line, *column), "{text}: {error}");
        assert_eq!(error.file, house.project_file().display().to_string());
        assert!(error.message.contains(message), "{text}: {error}");
        let trust = format!("`toolgate check --trust {}`", house.project_file().display());
        assert!(error.remedy.contains(&trust), "{text}: {error}");
    }
}

#[test]
fn the_same_texts_hold_once_a_person_trusts_them() {
    for (text, ..) in LOOSER {
        // Some stay wrong: an agent with a level on the ladder does not loosen it, whoever says so.
        if text.contains("tight: {") {
            continue;
        }
        let house = House::new();
        house.user(TRUSTED);
        house.project(text);
        trust_file(&house.data_dir(), &house.project_file())
            .unwrap_or_else(|errors| panic!("{text}: {}", page(&errors)));
        let config = house.load().unwrap_or_else(|errors| panic!("{text}: {}", page(&errors)));
        assert!(config.files.iter().all(|file| file.trusted));
    }
}

#[test]
fn an_untrusted_project_tightens_and_the_decisions_change() {
    let house = House::new();
    let before = house.load().unwrap();
    let verdicts = |config: &Config| ["read", "write", "edit", "delete", "grep"].map(|tool| verdict(config, tool));
    assert_eq!(verdicts(&before), [Verdict::Allow; 5]);
    house.project(
        "policy:\n  denied: { tools: [delete] }\n  ask: { tools: [write], classes: { network: 2 } }\ntools:\n  edit: { permission: deny }\nagents:\n  default:\n    level: sandboxed\n    workspace: .\n    ask: { tools: [grep] }\n    constraints: { requires_approval: [database_write] }\nlimits: { max_concurrency: 1, max_input_bytes: 1024 }\nprotected: [secrets/]\n",
    );
    let after = house.load().unwrap_or_else(|errors| panic!("{}", page(&errors)));
    assert_eq!(verdicts(&after), [Verdict::Allow, Verdict::Ask, Verdict::Deny, Verdict::Deny, Verdict::Ask]);
    assert_eq!(after.limits, Limits { max_concurrency: 1, max_input_bytes: 1024 });
    assert_eq!(after.protected, protected(&["secrets/"]));
    let agent = &after.policy.agents[&AgentName::from("default")];
    assert_eq!((agent.level.value, agent.level.source.line), (Level::Sandboxed, 8));
    assert_eq!(agent.constraints.network.value, NetworkMode::None);
    assert!(agent.constraints.requires_approval.contains_key(&ActionType::DbAdmin));
    let people: Vec<_> = after.policy.rules.ask_classes.iter().map(|(class, n)| (class.as_str(), n.value)).collect();
    assert_eq!(people, [("network", 2), ("financial", 1), ("privileged", 2)]);
    assert_eq!(after.files.iter().map(|file: &ConfigFileInfo| file.trusted).collect::<Vec<_>>(), [false]);
}

#[test]
fn going_down_a_level_keeps_what_bound_the_agent_before() {
    let house = House::new();
    // The level below knows nothing of what this agent must ask about, so taking it as it is would loosen.
    house.user("agents: { default: { level: restricted, constraints: { requires_approval: [code:delete] } } }\n");
    house.project("agents: { default: { level: sandboxed } }\n");
    let agent = house.load().unwrap().policy.agents[&AgentName::from("default")].clone();
    assert_eq!(agent.level.value, Level::Sandboxed);
    assert!(agent.constraints.requires_approval.contains_key(&ActionType::CodeDelete));
    assert_eq!(
        (agent.constraints.network.value, agent.constraints.git.value),
        (NetworkMode::None, GitLevel::LocalOnly)
    );

    let hosts = |user: &str| {
        house.user(&format!("tool_access: {{ levels: {{ restricted: {{ network_allowlist: [a.com] }} }} }}\n{user}"));
        house.project("agents: { default: { level: restricted } }\n");
        let constraints = house.load().unwrap().policy.agents[&AgentName::from("default")].constraints.clone();
        constraints.network_allowlist.iter().map(|host| host.value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(""), ["a.com"]);
    let own =
        "agents: { default: { constraints: { network: allowlist_only, network_allowlist: ['a.com:443', b.com] } } }\n";
    assert_eq!(hosts(own), ["a.com:443"]);

    house.project("agents: { default: { level: sandboxed } }\n");
    house.user("tool_access: { levels: { sandboxed: { network: open, terminal: full } } }\n");
    let agent = house.load().unwrap().policy.agents[&AgentName::from("default")].clone();
    assert_eq!(agent.constraints.terminal.value, TerminalMode::RestrictedCommands);

    house.user("tool_access: { levels: { sandboxed: { deployment: true } } }\n");
    let errors = house.load().unwrap_err();
    assert!(errors[0].message.contains("level `sandboxed` where `standard`"), "{}", page(&errors));
}

#[test]
fn an_untrusted_word_on_a_tool_adds_to_the_one_that_stands() {
    let cases = [
        // user, project, tool, verdict for an agent with role `a`, and for one without
        ("confirm", "confirm", Verdict::Ask, Verdict::Ask),
        ("confirm", "deny", Verdict::Deny, Verdict::Deny),
        ("confirm", "{ roles: [a] }", Verdict::Ask, Verdict::Deny),
        ("{ roles: [a] }", "confirm", Verdict::Ask, Verdict::Deny),
        ("{ roles: [a] }", "{ roles: [a] }", Verdict::Allow, Verdict::Deny),
        ("{ roles: [a] }", "deny", Verdict::Deny, Verdict::Deny),
        ("{ roles: [a] }", "{ roles: [b] }", Verdict::Deny, Verdict::Deny),
        ("{ roles: [a] }", "{ condition: 'true' }", Verdict::Allow, Verdict::Deny),
        ("{ condition: 'true' }", "{ roles: [a] }", Verdict::Allow, Verdict::Deny),
        ("{ condition: 'agent.name == \"other\"' }", "{ roles: [a] }", Verdict::Deny, Verdict::Deny),
        ("deny", "confirm", Verdict::Deny, Verdict::Deny),
        ("deny", "{ roles: [a] }", Verdict::Deny, Verdict::Deny),
        ("allow", "confirm", Verdict::Ask, Verdict::Ask),
        ("allow", "allow", Verdict::Allow, Verdict::Allow),
    ];
    for (user, project, with, without) in cases {
        let house = House::new();
        house.user(&format!(
            "tools: {{ read: {{ permission: {user} }} }}\nagents: {{ default: {{ roles: [a] }}, other: {{}} }}\n"
        ));
        house.project(&format!("tools: {{ read: {{ permission: {project} }} }}\n"));
        let config = house.load().unwrap_or_else(|errors| panic!("{user} {project}: {}", page(&errors)));
        let found = (verdict_for(&config, "default", "read"), verdict_for(&config, "other", "read"));
        assert_eq!(found, (with, without), "{user}, then {project}");
    }
}

#[test]
fn one_changed_byte_takes_the_trust_away() {
    let house = House::new();
    let text = "policy: { allowed: { tools: [delete] } }\n";
    house.project(text);
    assert!(house.load().is_err());
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    assert!(is_trusted(&house.data_dir(), &house.project_file()).unwrap());
    assert!(house.load().unwrap().files[0].trusted);

    house.project(&format!("{text} "));
    assert!(!is_trusted(&house.data_dir(), &house.project_file()).unwrap());
    assert!(house.load().is_err());

    // The old text is trusted again only because nothing newer was trusted in its place.
    house.project(text);
    assert!(house.load().is_ok());
    house.project("limits: { max_concurrency: 2 }\n");
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    house.project(text);
    assert!(house.load().is_err());
}

#[test]
fn trust_is_for_one_file_in_one_place() {
    let (house, other) = (House::new(), House::new());
    let text = "policy: { allowed: { tools: [delete] } }\n";
    house.project(text);
    other.project(text);
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    assert!(!is_trusted(&house.data_dir(), &other.project_file()).unwrap());
    assert!(!is_trusted(&house.data_dir(), &house.dir.path().join("none.yaml")).unwrap());
}

#[test]
fn a_file_that_does_not_hold_is_not_trusted() {
    let house = House::new();
    house.project("polcy: {}\n");
    assert_eq!(trust_file(&house.data_dir(), &house.project_file()).unwrap_err()[0].line, 1);
    assert!(!house.data_dir().exists());
    let errors = trust_file(&house.data_dir(), &house.dir.path().join("none.yaml")).unwrap_err();
    assert_eq!(errors[0].message, "there is no such file");
}

#[test]
fn the_list_of_trusted_files_is_private_and_never_half_written() {
    let house = House::new();
    house.project("version: 1\n");
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.data_dir()), 0o700);
    assert_eq!(mode(&house.data_dir().join("trusted.json")), 0o600);
    let names: Vec<_> = fs::read_dir(house.data_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trusted.json"]);
}

#[test]
fn a_broken_list_of_trusted_files_trusts_nobody() {
    let house = House::new();
    house.project("version: 1\n");
    fs::create_dir(house.data_dir()).unwrap();
    let list = house.data_dir().join("trusted.json");
    fs::write(&list, "{\"files\": ").unwrap();
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
    let errors = house.load().unwrap_err();
    assert!(errors[0].message.contains("the list of trusted files cannot be read"), "{}", page(&errors));
    assert!(trust_file(&house.data_dir(), &house.project_file()).is_err());
}

#[test]
fn a_list_of_trusted_files_others_can_write_trusts_nobody() {
    let house = House::new();
    house.project("policy: { allowed: { tools: [delete] } }\n");
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    let list = house.data_dir().join("trusted.json");
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&list, fs::Permissions::from_mode(mode)).unwrap();
        assert_list_is_refused(&house, &format!("its mode is {mode:o}, so others can write to it"));
    }
    fs::set_permissions(&list, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(house.load().unwrap().files[0].trusted);
}

#[test]
fn a_list_of_trusted_files_of_another_user_trusts_nobody() {
    let house = House::new();
    house.project("policy: { allowed: { tools: [delete] } }\n");
    trust_file(&house.data_dir(), &house.project_file()).unwrap();
    if let Err(error) = chown(house.data_dir().join("trusted.json"), Some(12_345), None) {
        eprintln!("SKIPPED: only root can give a file away: {error}");
        return;
    }
    assert_list_is_refused(&house, "user 12345 owns it, and this is user 0");
}

/// Nothing is read from the list, and nothing is added to it.
fn assert_list_is_refused(house: &House, why: &str) {
    let list = house.data_dir().join("trusted.json");
    let before = fs::read(&list).unwrap();
    let expected = ConfigError {
        file: list.display().to_string(),
        line: 0,
        column: 0,
        message: format!("the list of trusted files may be somebody else's: {why}"),
        remedy: "Remove it, and trust your project files again.".to_owned(),
        snippet: None,
    };
    assert_eq!(is_trusted(&house.data_dir(), &house.project_file()).unwrap_err(), expected);
    assert!(house.load().unwrap_err().contains(&expected));
    assert_eq!(trust_file(&house.data_dir(), &house.project_file()).unwrap_err(), [expected]);
    assert_eq!(fs::read(&list).unwrap(), before);
}

#[test]
fn a_named_config_is_the_only_one() {
    let house = House::new();
    house.user("limits: { max_concurrency: 3 }\n");
    house.project("this: is: not: a config\n");
    let named = house.dir.path().join("named.yaml");
    fs::write(&named, "agents: { default: { level: elevated } }\n").unwrap();
    let config = house.load_explicit(&named).unwrap();
    assert_eq!(config.policy.agents[&AgentName::from("default")].level.value, Level::Elevated);
    assert_eq!(config.limits, Config::built_in(Path::new("/")).limits);
    assert_eq!(config.files.iter().map(|file| (&file.path, file.trusted)).collect::<Vec<_>>(), [(&named, true)]);
    let errors = house.load_explicit(&house.dir.path().join("none.yaml")).unwrap_err();
    assert_eq!(errors[0].message, "there is no such file");
}

#[test]
fn mistakes_in_both_files_come_together() {
    let house = House::new();
    house.user("limits: { max_concurrency: 900 }\n");
    house.project("agents: { default: { level: low } }\n");
    let files: Vec<_> = house.load().unwrap_err().into_iter().map(|error| error.file).collect();
    assert_eq!(files, [house.user_file().display().to_string(), house.project_file().display().to_string()]);
}

// ---- the bench ----

/// A home, a project and a data directory of their own.
struct House {
    dir: TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        Self { dir }
    }

    fn user_file(&self) -> PathBuf {
        self.dir.path().join("home/toolgate.yaml")
    }

    fn project_file(&self) -> PathBuf {
        self.dir.path().join("project/toolgate.yaml")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn user(&self, text: &str) {
        fs::write(self.user_file(), text).unwrap();
    }

    fn project(&self, text: &str) {
        fs::write(self.project_file(), text).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources {
            admin: None,
            explicit: None,
            user: Some(self.user_file()),
            project: Some(self.project_file()),
            clients: Vec::new(),
            data_dir: self.data_dir(),
            cwd: self.dir.path().join("project"),
            workspace: None,
        }
    }

    fn load(&self) -> Result<Config, Vec<ConfigError>> {
        Config::load(&self.sources())
    }

    fn load_explicit(&self, path: &Path) -> Result<Config, Vec<ConfigError>> {
        Config::load(&Sources { explicit: Some(path.to_owned()), ..self.sources() })
    }
}

const FIXTURES: [&str; 7] = [
    "sandboxing_layered",
    "sandboxing_with_browser_and_desktop",
    "tool_access",
    "trust_disabled",
    "trust_weighted",
    "trust_per_category",
    "trust_milestone",
];

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.yaml"));
    fs::read_to_string(path).unwrap()
}

fn page(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

fn known_tools() -> Vec<String> {
    toolgate_tools::TOOLS.iter().map(|tool| tool().def.name.to_string()).collect()
}

fn verdict(config: &Config, tool: &str) -> Verdict {
    verdict_for(config, "default", tool)
}

fn verdict_for(config: &Config, agent: &str, tool: &str) -> Verdict {
    let tool = toolgate_tools::TOOLS.iter().map(|tool| tool()).find(|known| known.def.name == tool).unwrap();
    let request = Request { risk: config.policy.actions.risk(&tool.def.action), ..Request::of(&tool.def) };
    decide(&config.policy, &config.policy.agents[&AgentName::from(agent)], &request).decided().verdict
}
