//! What was acknowledged survives a kill, the dead are told from the living, and a full disk changes nothing.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::tempdir;
use toolgate_contract::OnceState;
use toolgate_store::{
    StoreError,
    state::{CompleteError, Completed, EffectFilter, Reserved, SqliteState, State},
};

use crate::things::{NOW, again, every_effect, every_round, hear, outcome, question, reservation, say};

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The keys of effects, in one of these states or in any.
async fn keys(state: &SqliteState, states: &[OnceState]) -> BTreeSet<String> {
    let effects = state.effects(EffectFilter { states: states.to_vec(), ..every_effect() }).await.unwrap();
    effects.into_iter().map(|once| once.key.key).collect()
}

fn files(dir: &Path) -> usize {
    fs::read_dir(dir.join("instances")).unwrap().count()
}

#[tokio::test]
async fn what_a_killed_program_was_at_is_unknown_and_what_a_living_one_is_at_is_not() {
    let dir = tempdir().unwrap();
    let state = SqliteState::open(dir.path()).unwrap();
    let start = || {
        let mut child = again("crash::a_process_that_holds")
            .env("TOOLGATE_TEST_HOLD", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, hear(&mut lines).unwrap(), hear(&mut lines).unwrap())
    };
    let ((killed, lost, _), (living, kept, _)) = (start(), start());
    let Reserved::Fresh(ticket) = state.reserve(reservation("ours"), NOW).await.unwrap() else { panic!("it is new") };
    assert_eq!(state.orphaned(NOW).await.unwrap(), []);
    assert_eq!(files(dir.path()), 3);

    kill(killed);
    let orphans = state.orphaned(NOW + 1).await.unwrap();
    let keys: Vec<_> = orphans.iter().map(|once| (once.key.key.as_str(), once.state)).collect();
    assert_eq!(keys, [(&*lost, OnceState::Unknown), (&*format!("{lost} too"), OnceState::Unknown)]);
    assert_eq!(state.orphaned(NOW + 2).await.unwrap(), []);
    assert_eq!(state.reserve(reservation(&lost), NOW + 2).await.unwrap(), Reserved::Unknown);
    assert_eq!(state.reserve(reservation(&kept), NOW + 2).await.unwrap(), Reserved::Running);
    state.complete(ticket, Completed::Done(outcome("paid")), NOW + 2).await.unwrap();

    // Whoever comes next sweeps up; the living keep their files.
    let next = SqliteState::open(dir.path()).unwrap();
    assert_eq!(files(dir.path()), 3);
    assert_eq!(next.reserve(reservation(&kept), NOW + 3).await.unwrap(), Reserved::Running);
    kill(living);
    // Nobody looked for orphans: whoever wants the effect finds out by itself.
    assert_eq!(next.reserve(reservation(&kept), NOW + 4).await.unwrap(), Reserved::Unknown);
    drop((next, state));
    assert_eq!(files(dir.path()), 1);
}

/// Run by others in a process of its own: holds two effects until it is killed.
#[tokio::test]
async fn a_process_that_holds() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_HOLD") else { return };
    let state = SqliteState::open(dir.as_ref()).unwrap();
    let name = format!("held by {}", std::process::id());
    for name in [name.clone(), format!("{name} too")] {
        assert!(matches!(state.reserve(reservation(&name), NOW).await.unwrap(), Reserved::Fresh(_)));
        say(&name);
    }
    loop {
        thread::park();
    }
}

/// A program started by a holder does not keep it alive.
#[tokio::test]
async fn a_child_that_outlives_its_parent_does_not_hold_for_it() {
    let dir = tempdir().unwrap();
    let mut parent = again("crash::a_process_with_a_child")
        .env("TOOLGATE_TEST_PARENT", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let orphan: i32 = hear(&mut lines).unwrap().parse().unwrap();
    kill(parent);
    let state = SqliteState::open(dir.path()).unwrap();
    let mut reserved = Reserved::Running;
    // The kernel lets a parent go on before it has closed what a child does not keep, so that takes a moment.
    for _ in 0..500 {
        reserved = state.reserve(reservation("one"), NOW).await.unwrap();
        if reserved != Reserved::Running {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let orphan = rustix::process::Pid::from_raw(orphan).unwrap();
    rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
    assert_eq!(reserved, Reserved::Unknown);
}

/// Run by [`a_child_that_outlives_its_parent_does_not_hold_for_it`] in a process of its own.
#[tokio::test]
async fn a_process_with_a_child() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_PARENT") else { return };
    let state = SqliteState::open(dir.as_ref()).unwrap();
    assert!(matches!(state.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Fresh(_)));
    let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    say(&child.id().to_string());
    child.wait().unwrap();
}

/// A cheap source of numbers that differ: nothing here depends on how random they are.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = u64::from(std::process::id());
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

#[tokio::test]
async fn every_acknowledged_claim_survives_a_kill() {
    let dir = tempdir().unwrap();
    let (mut claimed, mut completed) = (BTreeSet::new(), BTreeSet::new());
    for (round, number) in numbers().take(40).enumerate() {
        let mut child = again("crash::a_process_to_kill")
            .env("TOOLGATE_TEST_KILL", dir.path())
            .env("TOOLGATE_TEST_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut words: Vec<_> = (0..=number % 8).map(|_| hear(&mut lines).unwrap()).collect();
        thread::sleep(Duration::from_micros(number % 3_000));
        kill(child);
        words.extend(std::iter::from_fn(|| hear(&mut lines)));
        for word in words {
            let (what, key) = word.split_once(' ').unwrap();
            if what == "claimed" { &mut claimed } else { &mut completed }.insert(key.to_owned());
        }
    }
    let state = SqliteState::open(dir.path()).unwrap();
    state.orphaned(NOW).await.unwrap();
    assert_eq!(keys(&state, &[OnceState::Running]).await, BTreeSet::new());
    let lost: Vec<_> = claimed.difference(&keys(&state, &[]).await).cloned().collect();
    assert!(lost.is_empty(), "claims are lost: {lost:?}");
    let lost: Vec<_> = completed.difference(&keys(&state, &[OnceState::Done]).await).cloned().collect();
    assert!(lost.is_empty(), "ends are lost: {lost:?}");
}

/// Run by others in a process of its own.
#[tokio::test]
async fn a_process_to_kill() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_KILL") else { return };
    let round = env::var("TOOLGATE_TEST_ROUND").unwrap();
    let state = SqliteState::open(dir.as_ref()).unwrap();
    for i in 0.. {
        let key = format!("{round}-{i}");
        let Reserved::Fresh(ticket) = state.reserve(reservation(&key), NOW).await.unwrap() else { panic!("it is new") };
        say(&format!("claimed {key}"));
        state.complete(ticket, Completed::Done(outcome("paid")), NOW).await.unwrap();
        say(&format!("completed {key}"));
    }
}

#[tokio::test]
async fn a_first_start_can_be_killed_at_any_moment() {
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
        let state = SqliteState::open(dir.path()).unwrap();
        state.file(question("one"), NOW).await.unwrap();
        state.close().await.unwrap();
    }
}

/// A file that may not grow stands for a full disk: the kernel fails the write, as it does there.
#[tokio::test]
async fn a_file_that_may_not_grow_changes_nothing() {
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
    assert_eq!(keys(&SqliteState::open(dir.path()).unwrap(), &[]).await, acknowledged);
}

/// Run by [`a_file_that_may_not_grow_changes_nothing`] in a process of its own.
#[tokio::test]
async fn a_process_without_room() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_LIMIT") else { return };
    let state = SqliteState::open(dir.as_ref()).unwrap();
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(400_000), maximum: before.maximum }).unwrap();
    fill(&state).await.iter().for_each(|key| say(key));
    setrlimit(Resource::Fsize, before).unwrap();
    assert!(matches!(state.reserve(reservation("room again"), NOW).await.unwrap(), Reserved::Fresh(_)));
    say("room again");
}

#[tokio::test]
async fn a_full_disk_changes_nothing() {
    let dir = tempdir().unwrap();
    let Some(mounted) = Mounted::on(dir.path(), "size=1m") else { return };
    let stuffing = dir.path().join("stuffing");
    fs::write(&stuffing, vec![1; 300_000]).unwrap();
    let data = dir.path().join("data");
    let state = SqliteState::open(&data).unwrap();
    let mut acknowledged = fill(&state).await;
    fs::remove_file(&stuffing).unwrap();
    assert!(matches!(state.reserve(reservation("room again"), NOW).await.unwrap(), Reserved::Fresh(_)));
    acknowledged.insert("room again".to_owned());
    assert_eq!(keys(&state, &[OnceState::Running]).await, acknowledged);
    state.close().await.unwrap();
    assert_eq!(keys(&SqliteState::open(&data).unwrap(), &[]).await, acknowledged);
    drop(mounted);
}

#[tokio::test]
async fn a_first_start_on_a_full_disk_leaves_nothing_half_made() {
    let dir = tempdir().unwrap();
    let Some(mounted) = Mounted::on(dir.path(), "size=64k") else { return };
    let (data, stuffing) = (dir.path().join("data"), dir.path().join("stuffing"));
    fs::write(&stuffing, vec![1; 50_000]).unwrap();
    assert!(SqliteState::open(&data).is_err());
    assert!(!data.join("state.db").exists());
    fs::remove_file(&stuffing).unwrap();
    fs::remove_dir_all(&data).unwrap();
    drop(mounted);
    SqliteState::open(&data).unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_an_error_and_changes_nothing() {
    let dir = tempdir().unwrap();
    let Some(mounted) = Mounted::on(dir.path(), "size=4m") else { return };
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let state = SqliteState::open(&old).unwrap();
    state.file(question("one"), NOW).await.unwrap();
    state.close().await.unwrap();
    fs::create_dir(&new).unwrap();
    fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    mounted.read_only();
    for data in [&old, &new] {
        assert!(matches!(SqliteState::open(data), Err(StoreError::File { .. } | StoreError::State { .. })));
    }
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
    mounted.writable();
    assert_eq!(SqliteState::open(&old).unwrap().approvals(every_round()).await.unwrap().len(), 1);
}

/// Claims effects until there is no room, and gives those that were acknowledged.
async fn fill(state: &SqliteState) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    let mut last = None;
    let error = loop {
        let name = format!("effect {}", acknowledged.len());
        match state.reserve(reservation(&name), NOW).await {
            Ok(Reserved::Fresh(ticket)) => last = Some(ticket),
            Ok(other) => panic!("it is new: {other:?}"),
            Err(error) => break error,
        };
        acknowledged.insert(name);
    };
    assert!(matches!(error, StoreError::State { .. }), "{error:?}");
    assert!(matches!(state.reserve(reservation("refused"), NOW).await, Err(StoreError::State { .. })));
    assert!(matches!(state.file(question("refused"), NOW).await, Err(StoreError::State { .. })));
    let large = Completed::Done(outcome(&"much ".repeat(200_000)));
    let refused = state.complete(last.unwrap(), large, NOW).await;
    assert!(matches!(refused, Err(CompleteError::Store(StoreError::State { .. }))), "{refused:?}");
    assert_eq!(keys(state, &[OnceState::Running]).await, acknowledged);
    assert_eq!(state.approvals(every_round()).await.unwrap(), []);
    acknowledged
}

/// A small disk.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn on(dir: &'a Path, options: &str) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).output();
        if !mount.as_ref().is_ok_and(|mount| mount.status.success()) {
            eprintln!("SKIPPED: a small disk cannot be mounted here: {mount:?}");
            return None;
        }
        Some(Self(dir))
    }

    fn read_only(&self) {
        self.again("remount,ro");
    }

    fn writable(&self) {
        self.again("remount,rw");
    }

    fn again(&self, options: &str) {
        assert!(Command::new("mount").args(["-o", options]).arg(self.0).status().unwrap().success());
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}
