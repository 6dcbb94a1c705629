//! What a config says about rooms and commands, seen by programs that really run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{AgentName, Call, End, Intent, Note, Outcome, Status};
use toolgate_runtime::{
    Runtime, Setup, Watch, Whereabouts, built_in_tools,
    config::{Config, Sources},
    sandbox::{Egress, Opening, RoomSpec, WorkspaceMode},
    store::{
        Store, StoreError,
        state::{SqliteState, State},
    },
};

/// Takes every record and keeps none.
struct Forgetful;

impl Store for Forgetful {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, _: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A runtime under a config, with a workspace and directories beside it.
struct House {
    runtime: Runtime,
    dir: TempDir,
}

/// Beside the workspace lie `seen`, `unseen` and `bin`, which config text calls `DIR/seen` and so on. The agent is at a
/// level that permits every program, unless the text says otherwise.
fn house(text: &str) -> House {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["work", "seen", "unseen", "bin", "data"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["seen", "unseen"] {
        fs::write(root.join(name).join("note"), name).unwrap();
    }
    let tool = root.join("bin/own-tool");
    fs::write(&tool, "#!/bin/sh\necho \"found it in $(dirname \"$0\")\"\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let text = text.replace("DIR", root.to_str().unwrap());
    let agents = if text.contains("agents:") { "" } else { "agents: { default: { level: elevated } }\n" };
    let file = root.join("config.yaml");
    fs::write(&file, format!("{text}{agents}")).unwrap();
    let config = Config::load(&Sources {
        admin: None,
        explicit: Some(file),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: root.join("data"),
        cwd: root.join("work"),
        workspace: None,
    });
    let config = config.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let hidden = vec![root.join("data")];
    let rooms = Some(root.join("data"));
    let state: Arc<dyn State> = Arc::new(SqliteState::open(&root.join("data")).unwrap());
    let (store, state) = (Arc::new(Forgetful), Some(state));
    let setup = Setup { config, store, state, tools: built_in_tools(), hidden, rooms, secrets: None };
    House { runtime: Runtime::open(setup).unwrap(), dir }
}

/// Does this machine have rooms? A test that cannot run says so.
async fn has_rooms() -> bool {
    let outcome = house("").shell("true").await;
    if outcome.code.as_deref() == Some("wall_missing") {
        eprintln!("SKIPPED: {}", outcome.message.unwrap_or_default());
        return false;
    }
    true
}

/// A house whose rooms have one line of their own.
fn house_where(line: &str) -> House {
    house(&format!("sandboxing:\n  subprocess:\n    {line}\n"))
}

impl House {
    async fn call(&self, agent: &str, tool: &str, arguments: Value) -> Outcome {
        let call = self.runtime.call(&AgentName::from(agent), tool, arguments);
        self.runtime.invoke(call, Watch::default()).await
    }

    async fn shell(&self, script: &str) -> Outcome {
        self.call("default", "shell", json!({ "script": script, "timeout_seconds": 60 })).await
    }

    /// What a script says that must be done.
    async fn says(&self, script: &str) -> String {
        let outcome = self.shell(script).await;
        assert_eq!(outcome.status, Status::Done, "{script}: {:?}", outcome.message);
        outcome.text
    }

    /// The code of a script that must not be done.
    async fn ends(&self, script: &str) -> String {
        let outcome = self.shell(script).await;
        outcome.code.unwrap_or_else(|| panic!("{script}: {}", outcome.text))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn place(&self, agent: &str, tool: &str, arguments: Value) -> Whereabouts {
        let call = self.runtime.call(&AgentName::from(agent), tool, arguments);
        self.runtime.explain(&call).unwrap().place
    }

    fn room(&self, agent: &str) -> RoomSpec {
        match self.place(agent, "bash", json!({ "argv": ["ls"] })) {
            Whereabouts::Room { spec, .. } => *spec,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_more_than_the_config_gives_is_ended() {
    if !has_rooms().await {
        return;
    }
    for (line, script, code) in [
        ("timeout_seconds: 1", "sleep 20", "timed_out"),
        ("cpu_seconds: 1", "while :; do :; done", "cpu_limit"),
        ("memory_limit: 32m", "head -c 200000000 /dev/zero | tail -n 1 | wc -c", "oom_killed"),
        ("pids_limit: 8", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 5 & done; wait", "pids_exhausted"),
        ("disk_limit: 1m", "for i in 1 2 3 4; do head -c 700000 /dev/zero > big$i; done; sleep 20", "disk_limit"),
    ] {
        assert_eq!(house_where(line).ends(script).await, code, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_the_limits_runs_under_them() {
    if !has_rooms().await {
        return;
    }
    let house = house_where(
        "timeout_seconds: 60\n    memory_limit: 64m\n    pids_limit: 16\n    cpu_seconds: 10\n    disk_limit: 4m\n    tmpfs_size: 2m\n    open_files: 64",
    );
    assert_eq!(house.says("ulimit -n; head -c 1000000 /dev/zero | tail -c 3 | wc -c").await, "64\n3\n");
    for place in ["/tmp", "~"] {
        let said = house.says(&format!("head -c 3000000 /dev/zero > {place}/x; wc -c < {place}/x")).await;
        assert!(said.contains("No space left on device") && said.starts_with("2097152\n"), "{place}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_a_program_that_hit_the_operators_time_says_so() {
    if !has_rooms().await {
        return;
    }
    let outcome = house_where("timeout_seconds: 1").shell("sleep 20").await;
    let (message, remedy) = (outcome.message.unwrap(), outcome.remedy.unwrap());
    assert!(message.contains("after 1 s") && !remedy.contains("Raise"), "{message}: {remedy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_stays_no_longer_than_the_config_gives_a_program() {
    if !has_rooms().await {
        return;
    }
    let house = house_where("timeout_seconds: 2");
    let opened = house.call("default", "terminal_open", json!({})).await;
    let terminal = opened.structured["terminal"].clone();
    let mut reads = 0;
    let code = loop {
        let outcome = house.call("default", "terminal_read", json!({ "terminal": terminal })).await;
        reads += 1;
        if let Some(code) = outcome.code {
            break code;
        }
        assert!(reads < 200, "it is still there");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!((code.as_str(), reads > 1), ("unknown_terminal", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_sees_what_is_listed_and_nothing_beside_it() {
    if !has_rooms().await {
        return;
    }
    let house = house_where("visible: [DIR/seen]");
    let [seen, unseen, config] = ["seen/note", "unseen/note", "config.yaml"].map(|name| house.path(name));
    assert_eq!(house.says(&format!("cat {}", seen.display())).await, "seen");
    for hidden in [&unseen, &config] {
        let said = house.says(&format!("cat {}", hidden.display())).await;
        assert!(said.contains("No such file"), "{said}");
    }
    let said = house.says(&format!("echo x > {}", seen.display())).await;
    assert!(said.contains("Read-only file system") || said.contains("Permission denied"), "{said}");
    assert_eq!(fs::read_to_string(&seen).unwrap(), "seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_found_in_the_directories_the_config_adds() {
    if !has_rooms().await {
        return;
    }
    let house = house_where("extra_safe_path_prefixes: [DIR/bin, /usr/local/games]");
    let bin = house.path("bin");
    let found = house.call("default", "bash", json!({ "argv": ["own-tool"] })).await;
    assert_eq!(found.text, format!("found it in {}\n", bin.display()));
    let path = house.says("echo $PATH").await;
    // A directory that is not there is left out.
    let there = if Path::new("/usr/local/games").exists() { ":/usr/local/games:" } else { ":/" };
    assert!(path.starts_with(&format!("{}{there}", bin.display())), "{path}");
    let without = house_where("pids_limit: 64").call("default", "bash", json!({ "argv": ["own-tool"] })).await;
    assert_eq!(without.code.as_deref(), Some("program_not_found"));
    assert_eq!(house.room("default").visible, [bin], "what the system has is not shown twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_directory_of_the_system_that_is_not_listed_is_in_the_room_already() {
    if !has_rooms().await {
        return;
    }
    let prefixes = ["/usr/bin", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    let house = house_where(&format!("extra_safe_path_prefixes: [{}]", prefixes.join(", ")));
    assert_eq!(house.room("default").visible, [] as [PathBuf; 0]);
    for dir in prefixes.iter().filter(|dir| Path::new(dir).exists()) {
        assert_eq!(house.says(&format!("test -d {dir}/. && echo there")).await, "there\n", "{dir}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weaker_kind_of_room_wants_its_gaps_accepted_and_says_which() {
    if !has_rooms().await {
        return;
    }
    let refused = house_where("tier: landlock").shell("true").await;
    assert_eq!(refused.code.as_deref(), Some("wall_missing"), "{:?}", refused.message);
    let house = house_where("tier: landlock\n    accepted_gaps: [protected_names, metadata]");
    let outcome = house.shell("echo hello").await;
    assert_eq!(outcome.text, "hello\n", "{:?}", outcome.message);
    assert!(outcome.enforced.contains(&"gap:protected_names".to_owned()), "{:?}", outcome.enforced);
    let strong = house_where("tier: namespaces").shell("true").await;
    assert!(!strong.enforced.iter().any(|wall| wall.starts_with("gap:")), "{:?}", strong.enforced);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_shares_a_room_is_as_the_config_says() {
    if !has_rooms().await {
        return;
    }
    for (strategy, kept) in [("per-agent", "mine\n"), ("per-call", "gone\n"), ("per-task", "gone\n")] {
        let house = house_where(&format!("lifecycle: {{ strategy: {strategy} }}"));
        house.says("echo mine > /tmp/x").await;
        assert_eq!(house.says("cat /tmp/x 2>/dev/null || echo gone").await, kept, "{strategy}");
    }
    let house = house_where("lifecycle: { strategy: per-task }");
    let at_task = async |task: &str, script: &str| {
        let call = house.runtime.call(&AgentName::from("default"), "shell", json!({ "script": script }));
        house.runtime.invoke(Call { task: Some(task.to_owned()), ..call }, Watch::default()).await.text
    };
    at_task("one", "echo mine > /tmp/x").await;
    assert_eq!(at_task("one", "cat /tmp/x").await, "mine\n");
    assert_eq!(at_task("two", "cat /tmp/x 2>/dev/null || echo gone").await, "gone\n");
    at_task("two", "echo other > /tmp/x").await;
    house.runtime.task_ended(&AgentName::from("default"), "one");
    assert_eq!(at_task("one", "cat /tmp/x 2>/dev/null || echo gone").await, "gone\n");
    assert_eq!(at_task("two", "cat /tmp/x").await, "other\n");
}

/// A room is looked at when the next one is wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_outlives_its_agent_for_the_time_of_grace() {
    if !has_rooms().await {
        return;
    }
    for (seconds, kept) in [(0, "gone\n"), (3_600, "mine\n")] {
        let house = house_where(&format!("lifecycle: {{ grace_seconds: {seconds}, max_idle_seconds: 3600 }}"));
        house.says("echo mine > /tmp/x").await;
        house.runtime.agent_left(&AgentName::from("default"));
        assert_eq!(house.says("cat /tmp/x 2>/dev/null || echo gone").await, kept, "{seconds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_rooms_are_open_than_the_config_gives() {
    if !has_rooms().await {
        return;
    }
    let text = "agents: { one: { level: elevated }, two: { level: elevated } }\nsandboxing: { subprocess: { lifecycle: { max_rooms: 1 } } }\n";
    let house = house(text);
    let held = house.call("one", "terminal_open", json!({})).await;
    assert_eq!(held.status, Status::Done, "{:?}", held.message);
    let outcome = house.call("two", "bash", json!({ "argv": ["true"] })).await;
    assert_eq!(outcome.code.as_deref(), Some("too_many_rooms"));
    house.call("one", "terminal_close", json!({ "terminal": held.structured["terminal"] })).await;
    let outcome = house.call("two", "bash", json!({ "argv": ["true"] })).await;
    assert_eq!(outcome.status, Status::Done, "{:?}", outcome.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_decides_which_commands_run_and_what_their_room_lets_them() {
    if !has_rooms().await {
        return;
    }
    let text = "agents:
  coder: { profile: coder, constraints: { network: allowlist_only, network_allowlist: [a.example] } }
  reader: { profile: read_only, constraints: { network: allowlist_only, network_allowlist: [a.example] } }
  offline: { profile: read_only_no_net, constraints: { network: allowlist_only, network_allowlist: [a.example] } }
  own: { profile: { custom: { allow: [touch], default: deny } } }
";
    let house = house(text);
    let code = async |agent: &str, argv: &[&str]| house.call(agent, "bash", json!({ "argv": argv })).await.code;
    let refused = || Some("command_refused".to_owned());
    assert_eq!(code("own", &["touch", "by_own"]).await, None);
    assert_eq!(code("own", &["ls"]).await, refused());
    for agent in ["reader", "offline"] {
        assert_eq!(code(agent, &["ls"]).await, None, "{agent}");
        assert_eq!(code(agent, &["touch", "by_reader"]).await, refused(), "{agent}");
    }
    assert_eq!(code("coder", &["touch", "by_coder"]).await, None);
    let made = ["by_own", "by_reader", "by_coder"].map(|name| house.path("work").join(name).exists());
    assert_eq!(made, [true, false, true]);

    let open = Egress::to(vec!["a.example:443".into(), "a.example:80".into()]);
    for (agent, mode, egress) in [
        ("coder", WorkspaceMode::ReadWrite, open.clone()),
        ("reader", WorkspaceMode::ReadOnly, open),
        ("offline", WorkspaceMode::ReadOnly, Egress::Deny),
        ("own", WorkspaceMode::ReadWrite, Egress::Deny),
    ] {
        let room = house.room(agent);
        assert_eq!((room.workspace.unwrap().mode, room.egress), (mode, egress), "{agent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_find_other_machines_as_the_config_says() {
    let house = house(
        "egress: { hostname_allowlist: [db.internal], name_servers: [10.0.0.53] }
policy: { hosts: [{ deny: [b.example], because: it is theirs }] }
agents: { default: { constraints: { network: allowlist_only, network_allowlist: [db.internal] } } }
",
    );
    let opening = Opening {
        hosts: vec!["db.internal:443".into(), "db.internal:80".into()],
        internal: vec!["db.internal".into()],
        barred: vec!["b.example".into()],
        name_servers: vec!["10.0.0.53:53".parse().unwrap()],
        ..Opening::default()
    };
    assert_eq!(house.room("default").egress, Egress::Allow(opening));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_the_operators_own_speaks_with_its_line() {
    if !has_rooms().await {
        return;
    }
    let house = house(
        "commands:
  - id: no_notes
    pattern: cat ** *.note
    severity: deny
    reason: notes are private
    match: [cat a.note]
  - { id: ask_touch, pattern: touch, severity: ask, reason: it leaves traces, match: [touch x] }
",
    );
    fs::write(house.path("work/a.note"), "secret").unwrap();
    let line = |number| format!("({}:{number})", house.path("config.yaml").display());
    let denied = house.shell("X=cat; $X -n a.note").await;
    assert_eq!(denied.code.as_deref(), Some("command_refused"));
    let message = denied.message.unwrap();
    assert!(message.contains("rule `no_notes`: notes are private") && message.contains(&line(2)), "{message}");
    let asked = house.shell("touch by_agent").await;
    assert_eq!((asked.status, asked.code.as_deref()), (Status::Pending, Some("approval_required")));
    let message = asked.message.unwrap();
    assert!(message.contains("rule `ask_touch`: it leaves traces") && message.contains(&line(7)), "{message}");
    assert!(!house.path("work/by_agent").exists());
    assert_eq!(house.says("head -c 3 a.note").await, "sec");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_where_a_call_would_run_and_when_nowhere() {
    let house = house("sandboxing: { overrides: { terminal: deny_all, file_system: process } }\n");
    let runs = |tool: &str, arguments: Value| serde_json::to_value(house.place("default", tool, arguments)).unwrap();
    let nowhere = runs("bash", json!({ "argv": ["ls"] }));
    assert_eq!(
        nowhere,
        json!({
            "runs": "nowhere", "why": "tool `bash` needs a room, and category `terminal` has none",
            "remedy": "Give the category a backend under `sandboxing` in the config.",
        })
    );
    let outcome = house.call("default", "bash", json!({ "argv": ["ls"] })).await;
    assert_eq!(outcome.code.as_deref(), Some("no_room"));
    assert_eq!(runs("ls", json!({}))["runs"], "here");
    assert_eq!(runs("echo", json!({ "text": "x" }))["runs"], "here");
    let room = runs("run_code", json!({ "language": "bash", "code": "ls" }));
    assert_eq!((&room["runs"], &room["spec"]["workspace"]["mode"]), (&json!("room"), &json!("read_write")));
    assert_eq!(house.call("default", "ls", json!({})).await.status, Status::Done);
}
