//! Keys and the directory they lie in are private, and never replaced behind one's back.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
};

use tempfile::{TempDir, tempdir};
use toolgate_store::{SqliteStore, Store, StoreError, verify};

use crate::calls::read;

async fn closed_log() -> TempDir {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read("one")).await.unwrap();
    store.close().await.unwrap();
    dir
}

fn refusal(dir: &Path) -> StoreError {
    SqliteStore::open(dir).unwrap_err()
}

#[tokio::test]
async fn a_log_without_its_keys_gets_no_new_ones() {
    for name in ["audit.key", "sign.key", "sign.pub"] {
        let dir = closed_log().await;
        let path = dir.path().join(name);
        fs::remove_file(&path).unwrap();
        let error = refusal(dir.path());
        assert_eq!(error, StoreError::KeyMissing(path.clone()));
        assert_eq!(error.code(), "record_key_missing");
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn a_key_others_can_read_is_refused() {
    for (name, mode) in [("audit.key", 0o640), ("sign.key", 0o604), ("sign.key", 0o700)] {
        let dir = closed_log().await;
        let path = dir.path().join(name);
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let why = format!("its mode is {mode:o}, wider than 600");
        assert_eq!(refusal(dir.path()), StoreError::KeyExposed { path, why });
    }
}

#[tokio::test]
async fn a_key_of_another_user_is_refused() {
    let dir = closed_log().await;
    let path = dir.path().join("sign.key");
    if let Err(error) = chown(&path, Some(12_345), None) {
        eprintln!("SKIPPED: only root can give a file away: {error}");
        return;
    }
    assert!(matches!(refusal(dir.path()), StoreError::KeyExposed { .. }));
}

#[test]
fn a_directory_others_can_write_to_is_refused() {
    let root = tempdir().unwrap();
    let (dir, link) = (root.path().join("data"), root.path().join("link"));
    fs::create_dir(&dir).unwrap();
    symlink(&dir, &link).unwrap();
    for mode in [0o720, 0o702, 0o775, 0o777, 0o1777] {
        fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        for path in [&dir, &link] {
            let why = format!("its mode is {:o}, so others can write to it", mode & 0o777);
            let error = refusal(path);
            assert_eq!(error, StoreError::DirExposed { path: path.clone(), why });
            assert_eq!(error.code(), "record_dir_exposed");
            assert_eq!(error.remedy(), format!("Run `chown $(id -u) {0} && chmod go-w {0}`.", path.display()));
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let root = tempdir().unwrap();
    let (dir, link) = (root.path().join("data"), root.path().join("link"));
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    symlink(&dir, &link).unwrap();
    if let Err(error) = chown(&dir, Some(12_345), None) {
        eprintln!("SKIPPED: only root can give a directory away: {error}");
        return;
    }
    for path in [dir, link] {
        let why = "user 12345 owns it, and this is user 0".to_owned();
        assert_eq!(refusal(&path), StoreError::DirExposed { path, why });
    }
}

#[tokio::test]
async fn a_key_that_is_cut_or_another_is_refused() {
    let dir = closed_log().await;
    let path = dir.path().join("audit.key");
    fs::write(&path, [7; 31]).unwrap();
    assert_eq!(refusal(dir.path()), StoreError::KeyWrong(path));

    let (dir, other) = (closed_log().await, closed_log().await);
    fs::copy(other.path().join("sign.key"), dir.path().join("sign.key")).unwrap();
    assert_eq!(refusal(dir.path()), StoreError::KeyWrong(dir.path().join("sign.pub")));

    fs::copy(other.path().join("sign.pub"), dir.path().join("sign.pub")).unwrap();
    assert!(matches!(refusal(dir.path()), StoreError::Tampered { .. }));
    let report = verify(dir.path(), &mut |_, _| {}).unwrap();
    assert!(report.problems.iter().any(|problem| problem.what.contains("another log's key")), "{report:#?}");
}

#[test]
fn keys_of_a_first_start_that_was_interrupted_are_used() {
    let dir = tempdir().unwrap();
    let key = dir.path().join("audit.key");
    fs::write(&key, [7; 32]).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    fs::write(dir.path().join("sign.key.new"), b"cut").unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    assert_eq!(fs::read(&key).unwrap(), [7; 32]);
    assert!(verify(dir.path(), &mut |_, _| {}).unwrap().is_sound());
}
