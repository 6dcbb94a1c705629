//! `state.db` is private, of a format we know, whole, and never begun anew behind one's back.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use rusqlite::Connection;
use tempfile::{TempDir, tempdir};
use toolgate_contract::{Cost, LatchKind};
use toolgate_store::{
    SqliteStore, Store, StoreError,
    state::{Filed, SqliteState, State, VoteError},
};

use crate::things::{NOW, account, code, coder, every_round, evidence, question, reservation, terms, token, yes};

/// A closed state with one question in it.
async fn closed() -> TempDir {
    let dir = tempdir().unwrap();
    let state = SqliteState::open(dir.path()).unwrap();
    state.file(question("one"), NOW).await.unwrap();
    state.close().await.unwrap();
    dir
}

/// Asserts that the file is refused with this error, and left as it is.
fn refused(dir: &Path, expected: &StoreError) {
    let before = fs::read(dir.join("state.db")).ok();
    assert_eq!(&SqliteState::open(dir).unwrap_err(), expected);
    assert!(fs::read(dir.join("state.db")).ok() == before, "it was changed");
}

fn unusable(dir: &Path, why: &str) -> StoreError {
    StoreError::State { path: dir.join("state.db"), why: why.to_owned() }
}

fn change(dir: &Path, sql: &str) {
    Connection::open(dir.join("state.db")).unwrap().execute_batch(sql).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_directory_and_its_files_are_private() {
    let root = tempdir().unwrap();
    let dir = root.path().join("a/b");
    let state = SqliteState::open(&dir).unwrap();
    state.file(question("one"), NOW).await.unwrap();
    let lock = format!("instances/{}.lock", state.instance());
    let names = ["", "state.db", "state.db-wal", "state.db-shm", "instances", &lock];
    assert_eq!(names.map(|name| mode(&dir.join(name))), [0o700, 0o600, 0o600, 0o600, 0o700, 0o600]);
    state.close().await.unwrap();
    let mut left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["audit.lock", "instances", "state.db"]);
    assert_eq!(fs::read_dir(dir.join("instances")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_state_lives_beside_a_log() {
    let dir = tempdir().unwrap();
    let (log, state) = (SqliteStore::open(dir.path()).unwrap(), SqliteState::open(dir.path()).unwrap());
    state.file(question("one"), NOW).await.unwrap();
    log.close().await.unwrap();
    state.close().await.unwrap();
    assert_eq!(toolgate_store::verify(dir.path(), &mut |_, _| {}).unwrap().problems, []);
}

#[tokio::test]
async fn a_directory_others_can_write_to_is_refused() {
    let dir = closed().await;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o770)).unwrap();
    let why = "its mode is 770, so others can write to it".to_owned();
    refused(dir.path(), &StoreError::DirExposed { path: dir.path().to_owned(), why });
}

#[tokio::test]
async fn a_file_others_can_read_is_refused() {
    for mode in [0o640, 0o604, 0o660, 0o700] {
        let dir = closed().await;
        let path = dir.path().join("state.db");
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let why = format!("its mode is {mode:o}, wider than 600");
        refused(dir.path(), &StoreError::StateExposed { path, why });
    }
}

#[tokio::test]
async fn a_file_of_another_user_is_refused() {
    let dir = closed().await;
    if let Err(error) = chown(dir.path().join("state.db"), Some(12_345), None) {
        eprintln!("SKIPPED: only root can give a file away: {error}");
        return;
    }
    assert!(matches!(SqliteState::open(dir.path()), Err(StoreError::StateExposed { .. })));
}

#[tokio::test]
async fn a_state_of_a_later_format_is_left_alone() {
    let dir = closed().await;
    change(dir.path(), "PRAGMA user_version = 2");
    refused(dir.path(), &StoreError::TooNew { path: dir.path().join("state.db"), found: 2, known: 1 });
}

#[tokio::test]
async fn a_format_that_never_was_is_refused() {
    let dir = closed().await;
    change(dir.path(), "PRAGMA user_version = 0");
    refused(dir.path(), &unusable(dir.path(), "it has format 0, which never was"));
}

#[tokio::test]
async fn what_is_no_state_is_refused_and_never_begun_anew() {
    let not_ours = "it is not the state of toolgate";
    let no_database = "file is not a database";
    for (bytes, why) in [(&b""[..], not_ours), (b"garbage", no_database), (&[7; 100_000], no_database)] {
        let dir = closed().await;
        fs::write(dir.path().join("state.db"), bytes).unwrap();
        refused(dir.path(), &unusable(dir.path(), why));
    }
    let dir = closed().await;
    change(dir.path(), "PRAGMA application_id = 7");
    refused(dir.path(), &unusable(dir.path(), not_ours));
}

#[tokio::test]
async fn a_changed_schema_is_refused() {
    let changed = "its tables or their triggers were changed";
    for sql in [
        "CREATE TRIGGER mine AFTER INSERT ON votes BEGIN UPDATE approvals SET state = 'approved'; END",
        "DROP TABLE votes",
        "DROP INDEX once_by_state",
        "CREATE VIEW mine AS SELECT 1",
    ] {
        let dir = closed().await;
        change(dir.path(), sql);
        refused(dir.path(), &unusable(dir.path(), changed));
    }
}

#[tokio::test]
async fn a_damaged_page_is_an_error() {
    let dir = closed().await;
    let path = dir.path().join("state.db");
    let whole = fs::read(&path).unwrap();
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0x5a);
        fs::write(&path, damaged).unwrap();
        let Err(error) = touch_everything(dir.path()).await else { panic!("page {page} was not missed") };
        assert!(matches!(error, StoreError::State { .. }), "page {page}: {error}");
    }
    fs::write(&path, whole).unwrap();
    touch_everything(dir.path()).await.unwrap();
}

/// Adds to every table.
async fn touch_everything(dir: &Path) -> Result<(), StoreError> {
    let state = SqliteState::open(dir)?;
    let (Filed::New(asked) | Filed::Standing(asked)) = state.file(question("two"), NOW).await? else {
        panic!("too many")
    };
    match state.vote(asked.id, yes("user:bob"), NOW).await {
        Err(VoteError::Store(error)) => return Err(error),
        voted => voted.map(drop).unwrap(),
    }
    state.grant(terms(1), NOW).await?;
    state.reserve(reservation("one"), NOW).await?;
    state.add_evidence(evidence("coder", "t-1")).await?;
    state.spend(account(None), Cost::default(), NOW).await?;
    state.add_token(token("one")).await?;
    state.add_login_code(code("one"), NOW).await?;
    state.latch(coder(), LatchKind::ErrorRate, "9 of 10 failed".to_owned(), NOW).await?;
    state.close().await
}

#[tokio::test]
async fn a_state_that_was_there_is_missed() {
    let dir = closed().await;
    let path = dir.path().join("state.db");
    fs::remove_file(&path).unwrap();
    refused(dir.path(), &StoreError::StateMissing(path.clone()));
    // The remedy works.
    fs::remove_dir(dir.path().join("instances")).unwrap();
    assert_eq!(SqliteState::open(dir.path()).unwrap().approvals(every_round()).await.unwrap(), []);
}

#[tokio::test]
async fn a_file_that_was_moved_away_takes_no_changes() {
    let dir = tempdir().unwrap();
    let state = SqliteState::open(dir.path()).unwrap();
    let token = token("one");
    state.add_token(token.clone()).await.unwrap();
    assert_eq!(state.token_by_hash(token.hash, NOW).await.unwrap().unwrap().id, token.id);
    let (here, away) = (dir.path().join("state.db"), dir.path().join("moved.db"));
    fs::rename(&here, &away).unwrap();
    let gone = || unusable(dir.path(), "it is no longer the file that was opened");
    assert_eq!(state.token_by_hash(token.hash, NOW + 1).await, Err(gone()));
    assert_eq!(state.file(question("one"), NOW).await, Err(gone()));
    assert_eq!(state.approvals(every_round()).await, Err(gone()));
    fs::rename(&away, &here).unwrap();
    assert_eq!(state.approvals(every_round()).await.unwrap(), []);
}

#[tokio::test]
async fn what_a_first_start_left_behind_is_not_used() {
    let dir = tempdir().unwrap();
    for name in ["state.db.new", "state.db.new-wal", "state.db.new-shm"] {
        fs::write(dir.path().join(name), b"half").unwrap();
    }
    let state = SqliteState::open(dir.path()).unwrap();
    state.file(question("one"), NOW).await.unwrap();
    state.close().await.unwrap();
    assert!(!dir.path().join("state.db.new").exists());
}

#[tokio::test]
async fn evidence_cannot_be_changed_or_deleted_by_accident() {
    let dir = tempdir().unwrap();
    let state = SqliteState::open(dir.path()).unwrap();
    state.add_evidence(evidence("coder", "t-1")).await.unwrap();
    state.close().await.unwrap();
    let db = Connection::open(dir.path().join("state.db")).unwrap();
    let kind: String = db.query_row("SELECT kind FROM evidence", [], |row| row.get(0)).unwrap();
    assert_eq!(kind, "task");
    for sql in ["UPDATE evidence SET body = '{}'", "DELETE FROM evidence"] {
        assert!(db.execute(sql, []).is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_stranger_who_holds_the_file_is_waited_for_and_then_told() {
    let dir = closed().await;
    let state = SqliteState::open(dir.path()).unwrap();
    let mut stranger = Connection::open(dir.path().join("state.db")).unwrap();
    let held = stranger.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    assert_eq!(state.file(question("two"), NOW).await, Err(unusable(dir.path(), "database is locked")));
    drop(held);
    state.file(question("two"), NOW).await.unwrap();
}
