//! What was acknowledged survives a kill, and a full disk acknowledges nothing.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::tempdir;
use toolgate_store::{Reader, SqliteStore, Store, StoreError, verify};

use crate::calls::{end, intent, read, read_with_raw};

/// This test binary again, to run one of its tests in a process of its own.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// Tells the parent, past the test harness.
fn say(word: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ack {word}").unwrap();
    stdout.flush().unwrap();
}

/// The next word a child said.
fn hear(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<String> {
    lines.find_map(|line| line.ok()?.split_once("ack ").map(|(_, word)| word.to_owned()))
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The calls the log has intents of.
fn intents(dir: &Path) -> BTreeSet<String> {
    let lines = Reader::open(dir).unwrap().tail(1_000_000).unwrap();
    lines
        .into_iter()
        .filter(|line| line.body["kind"] == "intent")
        .map(|line| line.body["call"].as_str().unwrap().to_owned())
        .collect()
}

/// A cheap source of numbers that differ: nothing here depends on how random they are.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = u64::from(std::process::id());
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

#[test]
fn every_acknowledged_intent_survives_a_kill() {
    let dir = tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for (round, number) in numbers().take(60).enumerate() {
        let mut child = again("crash::a_process_to_kill")
            .env("TOOLGATE_TEST_KILL", dir.path())
            .env("TOOLGATE_TEST_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        acknowledged.extend((0..=number % 8).map(|_| hear(&mut lines).unwrap()));
        thread::sleep(Duration::from_micros(number % 3_000));
        kill(child);
        acknowledged.extend(std::iter::from_fn(|| hear(&mut lines)));

        let report = verify(dir.path(), &mut |_, _| {}).unwrap();
        assert_eq!(report.problems, [], "round {round}");
        let written = intents(dir.path());
        let lost: Vec<_> = acknowledged.difference(&written).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
    }
    // One more process opens it, finds the calls that never ended, and closes it properly.
    let open = Reader::open(dir.path()).unwrap().open_intents().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let report = verify(dir.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.problems, report.unsigned, report.open_intents), (vec![], 0, open));
}

/// Run by [`every_acknowledged_intent_survives_a_kill`] in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_to_kill() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_KILL") else { return };
    let round = env::var("TOOLGATE_TEST_ROUND").unwrap();
    let store = SqliteStore::open(dir.as_ref()).unwrap();
    for i in 0.. {
        let id = format!("{round}-{i}");
        store.begin(intent(&id)).await.unwrap();
        say(&id);
        store.end(read_with_raw(&format!("{id}-read"), b"raw")).await.unwrap();
        store.end(end(&id)).await.unwrap();
    }
}

#[test]
fn a_first_start_can_be_killed_at_any_moment() {
    for number in numbers().take(25) {
        let dir = tempdir().unwrap();
        let child = again("crash::a_process_to_kill")
            .env("TOOLGATE_TEST_KILL", dir.path())
            .env("TOOLGATE_TEST_ROUND", "0")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(number % 25_000));
        kill(child);
        drop(SqliteStore::open(dir.path()).unwrap());
        assert_eq!(verify(dir.path(), &mut |_, _| {}).unwrap().problems, []);
    }
}

/// A file that may not grow stands for a full disk: the kernel fails the write, as it does there.
#[test]
fn a_file_that_may_not_grow_acknowledges_nothing() {
    let dir = tempdir().unwrap();
    // The signal that comes with the limit is ignored from here on, also after the exec.
    let this = again("crash::a_process_without_room");
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(this.get_program())
        .args(this.get_args())
        .env("TOOLGATE_TEST_LIMIT", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged: BTreeSet<_> = std::iter::from_fn(|| hear(&mut lines)).collect();
    assert!(child.wait().unwrap().success());
    assert!(acknowledged.contains("room again"));
    assert_eq!(intents(dir.path()), acknowledged);
    assert_eq!(verify(dir.path(), &mut |_, _| {}).unwrap().problems, []);
}

/// Run by [`a_file_that_may_not_grow_acknowledges_nothing`] in a process of its own.
#[tokio::test]
async fn a_process_without_room() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_LIMIT") else { return };
    let store = SqliteStore::open(dir.as_ref()).unwrap();
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(400_000), maximum: before.maximum }).unwrap();
    fill(&store).await.iter().for_each(|id| say(id));
    setrlimit(Resource::Fsize, before).unwrap();
    store.begin(intent("room again")).await.unwrap();
    say("room again");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_acknowledges_nothing() {
    let dir = tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).output();
    if !mount.as_ref().is_ok_and(|mount| mount.status.success()) {
        eprintln!("SKIPPED: a small disk cannot be mounted here: {mount:?}");
        return;
    }
    let _mounted = Mounted(dir.path());
    let stuffing = dir.path().join("stuffing");
    fs::write(&stuffing, vec![1; 300_000]).unwrap();
    let data = dir.path().join("data");
    let store = SqliteStore::open(&data).unwrap();
    let mut acknowledged = fill(&store).await;
    fs::remove_file(&stuffing).unwrap();
    store.begin(intent("room again")).await.unwrap();
    acknowledged.insert("room again".to_owned());
    store.close().await.unwrap();
    assert_eq!(intents(&data), acknowledged);
    assert_eq!(verify(&data, &mut |_, _| {}).unwrap().problems, []);
}

/// Begins calls until there is no room, and gives those that were acknowledged.
async fn fill(store: &SqliteStore) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    let error = loop {
        let id = format!("call {}", acknowledged.len());
        match store.begin(intent(&id)).await {
            Ok(()) => acknowledged.insert(id),
            Err(error) => break error,
        };
    };
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    assert!(matches!(store.begin(intent("refused")).await, Err(StoreError::Unwritable { .. })));
    assert!(matches!(store.end(read("refused")).await, Err(StoreError::Unwritable { .. })));
    acknowledged
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0).status();
    }
}
