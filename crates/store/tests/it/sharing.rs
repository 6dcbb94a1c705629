//! Several writers on one directory make one chain.

use std::{collections::BTreeSet, env, fs, path::Path, process::Stdio, sync::Arc};

use rustix::fs::{FlockOperation, fcntl_lock};
use tempfile::tempdir;
use toolgate_store::{Reader, SqliteStore, Store, verify};

use crate::{
    calls::{end, intent, read},
    crash::again,
};

const CALLS: usize = 40;

/// Writes [`CALLS`] calls of every sort.
async fn write(store: &SqliteStore, name: &str) {
    for i in 0..CALLS {
        store.begin(intent(&format!("{name} {i}"))).await.unwrap();
        store.end(read(&format!("{name} read {i}"))).await.unwrap();
        store.end(end(&format!("{name} {i}"))).await.unwrap();
    }
}

/// What `name` should have written, in the order of the kinds.
fn expected(name: &str) -> BTreeSet<(String, String)> {
    (0..CALLS)
        .flat_map(|i| {
            [
                ("intent".to_owned(), format!("{name} {i}")),
                ("end".to_owned(), format!("{name} read {i}")),
                ("end".to_owned(), format!("{name} {i}")),
            ]
        })
        .collect()
}

fn check(dir: &Path, names: &[&str]) {
    let report = verify(dir, &mut |_, _| {}).unwrap();
    assert_eq!((report.problems, report.open_intents, report.unsigned), (vec![], vec![], 0));
    let lines = Reader::open(dir).unwrap().tail(100_000).unwrap();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let calls: BTreeSet<_> =
        lines.iter().filter_map(|line| Some((text(&line.body["kind"])?, text(&line.body["call"])?))).collect();
    assert_eq!(calls, names.iter().flat_map(|name| expected(name)).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_of_one_process_share_a_directory() {
    let dir = tempdir().unwrap();
    let tasks: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let store = SqliteStore::open(dir.path()).unwrap();
            let dir = dir.path().to_owned();
            tokio::spawn(async move {
                write(&store, name).await;
                // Looking at the file while it is written finds nothing, and takes no locks away.
                assert_eq!(verify(&dir, &mut |_, _| {}).unwrap().problems, []);
                store.close().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    check(dir.path(), &["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_store_takes_calls_from_many_tasks() {
    let dir = tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let tasks = ["a", "b", "c", "d"].map(|name| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { write(&store, name).await })
    });
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await.unwrap();
    check(dir.path(), &["a", "b", "c", "d"]);
}

#[test]
fn processes_share_a_directory() {
    let dir = tempdir().unwrap();
    let children: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            again("sharing::a_process_that_shares")
                .env("TOOLGATE_TEST_SHARE", dir.path())
                .env("TOOLGATE_TEST_NAME", name)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check(dir.path(), &["a", "b", "c"]);
}

/// Whoever gets the whole database for itself takes the write-ahead file away. Nobody may while a store is open.
#[tokio::test]
async fn looking_at_the_file_takes_no_locks_from_a_store_in_the_same_process() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.begin(intent("one")).await.unwrap();
    let is_locked = || {
        let asked = again("sharing::a_process_that_wants_the_file").env("TOOLGATE_TEST_WANT", dir.path()).output();
        String::from_utf8(asked.unwrap().stdout).unwrap().contains("it is locked")
    };
    assert!(is_locked());
    assert_eq!(verify(dir.path(), &mut |_, _| {}).unwrap().problems, []);
    assert!(is_locked());
    store.close().await.unwrap();
    assert!(!is_locked());
}

/// Run by [`looking_at_the_file_takes_no_locks_from_a_store_in_the_same_process`] in a process of its own.
#[test]
fn a_process_that_wants_the_file() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_WANT") else { return };
    let file = fs::File::options().write(true).open(Path::new(&dir).join("audit.db")).unwrap();
    if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        println!("it is locked");
    }
}

/// Run by [`processes_share_a_directory`] in processes of its own.
#[tokio::test]
async fn a_process_that_shares() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_SHARE") else { return };
    let store = SqliteStore::open(dir.as_ref()).unwrap();
    write(&store, &env::var("TOOLGATE_TEST_NAME").unwrap()).await;
    store.close().await.unwrap();
}
