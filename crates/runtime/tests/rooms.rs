//! Programs and terminals on the road: what they leave between calls, who sees it, and how they end.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{AgentName, End, Intent, Note, Outcome, Status};
use toolgate_runtime::{
    Runtime, Setup, Watch, built_in_tools,
    config::{Config, Sources},
    store::{Store, StoreError},
};

/// Remembers how calls ended.
#[derive(Default)]
struct Memory(Mutex<Vec<End>>);

impl Store for Memory {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, end: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(end);
            Ok(())
        })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A runtime with two agents, `ann` and `bob`, on one workspace. Its data directory lies in the workspace, behind a link.
struct House {
    runtime: Runtime,
    store: Arc<Memory>,
    dir: TempDir,
}

const AGENTS: &str = "agents: { ann: { level: elevated }, bob: { level: elevated } }\n";

/// None where this machine has no rooms, which is said.
async fn house(text: &str) -> Option<House> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("work/data")).unwrap();
    fs::write(root.join("work/data/key"), "secret").unwrap();
    symlink(root.join("work/data"), root.join("data")).unwrap();
    fs::write(root.join("config.yaml"), format!("{text}{AGENTS}")).unwrap();
    let config = Config::load(&Sources {
        admin: None,
        explicit: Some(root.join("config.yaml")),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: root.join("data"),
        cwd: root.join("work"),
        workspace: None,
    });
    let config = config.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let store = Arc::new(Memory::default());
    let (hidden, rooms) = (vec![root.join("data")], Some(root.join("data")));
    let setup =
        Setup { config, store: store.clone(), state: None, tools: built_in_tools(), hidden, rooms, secrets: None };
    let house = House { runtime: Runtime::open(setup).unwrap(), store, dir };
    let outcome = house.bash("ann", "true").await;
    if outcome.code.as_deref() == Some("wall_missing") {
        eprintln!("SKIPPED: this machine has no rooms: {}", outcome.message.unwrap_or_default());
        return None;
    }
    assert_eq!(outcome.status, Status::Done, "{}", outcome.text);
    Some(house)
}

impl House {
    async fn call(&self, agent: &str, tool: &str, arguments: Value) -> Outcome {
        let call = self.runtime.call(&AgentName::from(agent), tool, arguments);
        self.runtime.invoke(call, Watch::default()).await
    }

    /// A script, which the gate does not read: it is a file.
    async fn bash(&self, agent: &str, script: &str) -> Outcome {
        self.bash_within(agent, script, 60).await
    }

    async fn bash_within(&self, agent: &str, script: &str, seconds: u64) -> Outcome {
        fs::write(self.work("script.sh"), script).unwrap();
        self.call(agent, "bash", json!({ "argv": ["bash", "script.sh"], "timeout_seconds": seconds })).await
    }

    /// What a script says that must be done.
    async fn says(&self, agent: &str, script: &str) -> String {
        let outcome = self.bash(agent, script).await;
        assert_eq!(outcome.status, Status::Done, "{script}: {}", outcome.text);
        outcome.structured["stdout"].as_str().unwrap().to_owned()
    }

    /// What a call answers that must be done.
    async fn done(&self, agent: &str, tool: &str, arguments: Value) -> Value {
        let outcome = self.call(agent, tool, arguments).await;
        assert_eq!(outcome.status, Status::Done, "{tool}: {}", outcome.text);
        outcome.structured
    }

    fn work(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work").join(name)
    }

    /// Looks at a terminal until this is on its screen.
    async fn sees(&self, agent: &str, terminal: &str, text: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let seen = self.done(agent, "terminal_read", json!({ "terminal": terminal, "wait_ms": 500 })).await;
            if seen["screen"].as_str().unwrap().contains(text) {
                return seen;
            }
            assert!(Instant::now() < until, "`{text}` does not come: {seen:#}");
        }
    }
}

fn code(outcome: &Outcome) -> &str {
    outcome.code.as_deref().unwrap_or_else(|| panic!("it was done: {}", outcome.text))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_its_own_files_again_and_no_other_agent_does() {
    let Some(house) = house("").await else { return };
    house.says("ann", "echo mine > /tmp/note; echo mine > ~/note; echo ours > note").await;
    assert_eq!(house.says("ann", "cat /tmp/note ~/note note").await, "mine\nmine\nours\n");
    assert_eq!(house.says("bob", "ls /tmp ~; cat note").await, "/home/agent:\n\n/tmp:\nours\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_started_ends_with_it() {
    let Some(house) = house("").await else { return };
    house.says("ann", "setsid sleep 86399 > /dev/null 2>&1 & disown").await;
    let left = house.says("ann", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(!left.contains("86399"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_end_has_its_own_word() {
    let limits = "sandboxing: { subprocess: { memory_limit: 64m, pids_limit: 32, cpu_seconds: 2, disk_limit: 4m } }\n";
    let Some(house) = house(limits).await else { return };
    for (script, seconds, word) in [
        ("sleep 60", 1, "timed_out"),
        ("tail /dev/zero", 30, "oom_killed"),
        ("for i in $(seq 200); do sleep 30 & done; wait", 30, "pids_exhausted"),
        ("while :; do :; done", 30, "cpu_limit"),
        ("i=0; while :; do i=$((i+1)); printf %0900000d 0 > f$i; done", 30, "disk_limit"),
        ("cat /dev/zero", 60, "output_limit"),
    ] {
        let outcome = house.bash_within("ann", script, seconds).await;
        assert_eq!((outcome.status, code(&outcome)), (Status::Failed, word), "{script}: {}", outcome.text);
        // The room is as good as before.
        assert_eq!(house.says("ann", "echo fine").await, "fine\n", "after {word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_ends_its_program() {
    let Some(house) = house("").await else { return };
    fs::write(house.work("script.sh"), "echo up > up; sleep 86398; echo never > never").unwrap();
    let arguments = json!({ "argv": ["bash", "script.sh"], "timeout_seconds": 60 });
    let call = house.runtime.call(&AgentName::from("ann"), "bash", arguments);
    let watch = Watch::default();
    let cancel = watch.cancel.clone();
    let up = house.work("up");
    let canceller = tokio::spawn(async move {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    });
    let outcome = house.runtime.invoke(call, watch).await;
    canceller.await.unwrap();
    assert_eq!(code(&outcome), "cancelled");
    let left = house.says("ann", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls never").await;
    assert!(!left.contains("86398") && !left.contains("never"), "{left}");
    let ends = house.store.0.lock().unwrap();
    assert!(ends.iter().any(|end| end.outcome.code.as_deref() == Some("cancelled")), "its end is recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stood_is_in_the_answer_and_in_the_record() {
    let Some(house) = house("").await else { return };
    let outcome = house.bash("ann", "true").await;
    let walls: Vec<&str> = outcome.enforced.iter().map(|wall| wall.split(':').next().unwrap()).collect();
    let expected = [
        "files",
        "metadata",
        "protected_names",
        "processes",
        "network",
        "ipc",
        "privileges",
        "syscalls",
        "memory",
        "pids",
        "cpu",
        "disk",
    ];
    assert_eq!(walls, expected);
    assert_eq!(house.store.0.lock().unwrap().last().unwrap().outcome.enforced, outcome.enforced);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_protected_or_hidden_is_so_for_programs() {
    let Some(house) = house("").await else { return };
    let script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo x > toolgate.yaml; echo x > .mcp.json; \
        cat data/key; echo x > data/key; ls -A data; true";
    assert_eq!(house.says("ann", script).await, "");
    assert_eq!(fs::read_to_string(house.work("data/key")).unwrap(), "secret");
    for name in [".git/hooks/pre-commit", "toolgate.yaml/x"] {
        assert!(!house.work(name).exists(), "{name}");
    }
    assert!(!house.work("toolgate.yaml").is_file() && !house.work(".mcp.json").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_stays_between_calls() {
    let Some(house) = house("").await else { return };
    let opened =
        house.call("ann", "terminal_open", json!({ "argv": ["bash", "--norc"], "rows": 10, "columns": 60 })).await;
    assert_eq!(opened.status, Status::Done, "{}", opened.text);
    assert!(opened.enforced.iter().any(|wall| wall.starts_with("files:")), "{:?}", opened.enforced);
    let terminal = opened.structured["terminal"].as_str().unwrap().to_owned();
    house.done("ann", "terminal_send", json!({ "terminal": terminal, "text": "name=world; stty size\n" })).await;
    house.sees("ann", &terminal, "10 60").await;
    house
        .done("ann", "terminal_send", json!({ "terminal": terminal, "text": "echo hello-$name", "keys": ["enter"] }))
        .await;
    let seen = house.sees("ann", &terminal, "hello-world").await;
    assert_eq!(seen["running"], true);
    // What scrolls off is told once.
    house.done("ann", "terminal_send", json!({ "terminal": terminal, "text": "seq 101 140; echo last\n" })).await;
    let seen = house.sees("ann", &terminal, "last").await;
    assert!(seen["scrolled"].as_str().unwrap().contains("101\n102\n"), "{seen:#}");
    // The agent's other programs share its files, and not its terminal.
    house.says("ann", "echo shared > /tmp/from-a-call").await;
    house.done("ann", "terminal_send", json!({ "terminal": terminal, "text": "clear; cat /tmp/from-a-call\n" })).await;
    house.sees("ann", &terminal, "shared").await;
    let ended = house.done("ann", "terminal_close", json!({ "terminal": terminal })).await;
    assert_eq!(ended["exit_code"], Value::Null, "it was ended: {ended}");
    let gone = house.call("ann", "terminal_read", json!({ "terminal": terminal })).await;
    assert_eq!(code(&gone), "unknown_terminal");
}

/// A room is made with what is closed at that moment; a terminal is not used beyond it.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_ends_when_something_is_closed_that_was_open_to_it() {
    let rules = "policy: { files: [{ deny: [read, write], paths: [.env], because: secrets }] }\n";
    let Some(house) = house(rules).await else { return };
    let opened = house.done("ann", "terminal_open", json!({ "argv": ["bash", "--norc"] })).await;
    let terminal = opened["terminal"].as_str().unwrap();
    let typed = json!({ "terminal": terminal, "text": "echo ready\n" });
    house.done("ann", "terminal_send", typed.clone()).await;
    house.sees("ann", terminal, "ready").await;
    fs::write(house.work(".env"), "KEY=1").unwrap();
    for (tool, arguments) in [("terminal_send", typed), ("terminal_read", json!({ "terminal": terminal }))] {
        assert_eq!(code(&house.call("ann", tool, arguments).await), "unknown_terminal", "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_whose_program_ended_says_so_and_how() {
    let Some(house) = house("").await else { return };
    let opened = house.done("ann", "terminal_open", json!({ "argv": ["bash", "--norc"] })).await;
    let terminal = opened["terminal"].as_str().unwrap();
    house.done("ann", "terminal_send", json!({ "terminal": terminal, "text": "exit 7\n" })).await;
    let until = Instant::now() + Duration::from_secs(20);
    while house.done("ann", "terminal_read", json!({ "terminal": terminal })).await["running"] == true {
        assert!(Instant::now() < until, "it does not end");
    }
    let ended = house.done("ann", "terminal_close", json!({ "terminal": terminal })).await;
    assert_eq!(ended, json!({ "ending": "exited", "exit_code": 7 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_does_not_exist_for_another_agent() {
    let Some(house) = house("").await else { return };
    let opened = house.done("ann", "terminal_open", json!({ "argv": ["bash", "--norc"] })).await;
    let terminal = opened["terminal"].as_str().unwrap();
    for (tool, arguments) in [
        ("terminal_read", json!({ "terminal": terminal })),
        ("terminal_send", json!({ "terminal": terminal, "text": "echo intruder > intruder\n" })),
        ("terminal_close", json!({ "terminal": terminal })),
    ] {
        let theirs = house.call("bob", tool, arguments).await;
        let nobodys = json!({ "terminal": "no-such-terminal", "text": "x" });
        let nobodys = if tool == "terminal_send" { nobodys } else { json!({ "terminal": "no-such-terminal" }) };
        let nobodys = house.call("bob", tool, nobodys).await;
        assert_eq!((code(&theirs), theirs.status), (code(&nobodys), nobodys.status), "{tool}");
        assert_eq!(code(&theirs), "unknown_terminal", "{tool}");
    }
    let seen = house.done("ann", "terminal_read", json!({ "terminal": terminal })).await;
    assert_eq!(seen["running"], true);
    assert!(!house.work("intruder").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_do_not_mix() {
    let Some(house) = house("").await else { return };
    let house = Arc::new(house);
    let calls = (0..16).map(|n| {
        let house = house.clone();
        tokio::spawn(async move {
            let agent = if n % 2 == 0 { "ann" } else { "bob" };
            let arguments = json!({ "argv": ["seq", "-s", ",", n.to_string(), (n + 2000).to_string()] });
            let answer = house.done(agent, "bash", arguments).await;
            let expected: Vec<String> = (n..=n + 2000).map(|n: u32| n.to_string()).collect();
            assert_eq!(answer["stdout"], format!("{}\n", expected.join(",")));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}
