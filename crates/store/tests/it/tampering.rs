//! Whatever is changed in a log is found, and named.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use rusqlite::{Connection, params};
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use toolgate_contract::{Digest, End, Outcome, canonical_json};
use toolgate_store::{Problem, Reader, Report, SqliteStore, Store, StoreError, verify};

use crate::calls::{end, intent, read, read_with_raw};

const PAGE: usize = 16 * 1024;

/// A closed log of 24 records: 1 says who writes, 24 is a checkpoint, every even one in between has a raw result.
/// That of record 12 takes several pages.
async fn log() -> TempDir {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for seq in 2..24 {
        let raw: Vec<u8> = b"raw ".repeat(if seq == 12 { 10_000 } else { 300 });
        let id = format!("call-{seq}");
        let end = if seq % 2 == 0 { read_with_raw(&id, &raw) } else { read(&id) };
        store.end(end).await.unwrap();
    }
    store.close().await.unwrap();
    dir
}

fn report(dir: &Path) -> Report {
    verify(dir, &mut |_, _| {}).unwrap()
}

/// Asserts that a problem with this record, whose text holds `what`, is reported.
fn found(dir: &Path, seq: Option<u64>, what: &str) {
    let report = report(dir);
    let found = report.problems.iter().any(|problem| problem.seq == seq && problem.what.contains(what));
    assert!(found, "no problem with {seq:?} about `{what}` in {report:#?}");
}

/// Asserts that the log is not opened for more, and why.
fn not_opened(dir: &Path, why: &str) {
    match SqliteStore::open(dir) {
        Err(StoreError::Tampered { what, .. }) => assert!(what.contains(why), "{what}"),
        other => panic!("it should not open: {other:?}"),
    }
}

/// Changes the database the way somebody with a SQL prompt would.
fn change(dir: &Path, change: impl FnOnce(&Connection)) {
    let db = Connection::open(dir.join("audit.db")).unwrap();
    let triggers: Vec<(String, String)> = db
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    triggers.iter().for_each(|(name, _)| db.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
    change(&db);
    triggers.iter().for_each(|(_, sql)| db.execute_batch(sql).unwrap());
}

/// Puts another body in the place of a record, with the hash that fits.
fn forge(db: &Connection, seq: u64, edit: impl FnOnce(&mut Value)) {
    let body: Vec<u8> = db.query_row("SELECT body FROM records WHERE seq = ?1", [seq], |row| row.get(0)).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    edit(&mut body);
    let body = canonical_json(&body).unwrap();
    db.execute("UPDATE records SET body = ?2, hash = ?3 WHERE seq = ?1", params![seq, body, Digest::of(&body).0])
        .unwrap();
}

#[tokio::test]
async fn a_log_nobody_touched_is_sound() {
    let dir = log().await;
    let report = report(dir.path());
    let key = fs::read_to_string(dir.path().join("sign.pub")).unwrap().trim_end().to_owned();
    let expected = Report {
        key,
        records: 24,
        checkpoints: 1,
        unsigned: 0,
        unchecked_bytes: 0,
        open_intents: vec![],
        problems: vec![],
        problem_count: 0,
    };
    assert_eq!(report, expected);
}

#[tokio::test]
async fn verifying_changes_nothing_and_reports_how_far_it_is() {
    let dir = log().await;
    let before = fs::read(dir.path().join("audit.db")).unwrap();
    let mut heard = Vec::new();
    verify(dir.path(), &mut |done, total| heard.push((done, total))).unwrap();
    assert_eq!(heard, [(24, 24)]);
    assert_eq!(fs::read(dir.path().join("audit.db")).unwrap(), before);
}

/// Bits all over the file, one at a time: the header, the schema, page headers, pointers, rows, free space.
#[tokio::test]
async fn a_flip_of_any_bit_is_found() {
    let dir = log().await;
    let path = dir.path().join("audit.db");
    let bytes = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let everywhere = (0..bytes.len()).step_by(131);
    let header = 0..100;
    let page_headers = (0..bytes.len()).step_by(PAGE).flat_map(|page| page..page + 16);
    for (turn, at) in everywhere.chain(header).chain(page_headers).enumerate() {
        file.write_all_at(&[bytes[at] ^ 1 << (turn % 8)], at as u64).unwrap();
        assert!(!report(dir.path()).is_sound(), "bit {} of byte {at} was flipped and nobody saw it", turn % 8);
        file.write_all_at(&[bytes[at]], at as u64).unwrap();
    }
    assert!(report(dir.path()).is_sound());
}

#[tokio::test]
async fn a_flip_in_a_record_names_the_record() {
    let dir = log().await;
    let path = dir.path().join("audit.db");
    let bytes = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut bodies = Vec::new();
    let copied = Reader::open(dir.path()).unwrap().export(1, |body| {
        bodies.push(body.to_vec());
        Ok(())
    });
    assert_eq!(copied, Ok(24));
    for (seq, body) in (1..).zip(&bodies) {
        let start = bytes.windows(body.len()).position(|window| window == body).unwrap();
        for at in [start, start + body.len() / 2, start + body.len() - 1] {
            file.write_all_at(&[bytes[at] ^ 2], at as u64).unwrap();
            let seqs: Vec<_> = report(dir.path()).problems.into_iter().filter_map(|problem| problem.seq).collect();
            assert_eq!(seqs, [seq], "byte {at}");
            file.write_all_at(&[bytes[at]], at as u64).unwrap();
        }
    }
}

#[tokio::test]
async fn a_record_that_was_changed_along_with_its_hash_no_longer_fits_its_neighbours() {
    let dir = log().await;
    change(dir.path(), |db| forge(db, 5, |body| body["record"]["agent"] = "somebody else".into()));
    found(dir.path(), Some(6), "it does not name the record before it");
}

#[tokio::test]
async fn a_new_history_is_not_the_one_that_was_signed() {
    let dir = log().await;
    change(dir.path(), |db| {
        forge(db, 5, |body| body["record"]["agent"] = "somebody else".into());
        for seq in 6..=24 {
            let sql = "SELECT hash FROM records WHERE seq = ?1";
            let prev = db.query_row(sql, [seq - 1], |row| row.get(0).map(Digest)).unwrap();
            forge(db, seq, |body| body["prev"] = prev.to_string().into());
        }
    });
    found(dir.path(), Some(24), "its signature does not hold");
    found(dir.path(), Some(24), "it is not the record the head was signed for");
    not_opened(dir.path(), "record 24 is not the one that was written");
}

#[tokio::test]
async fn a_dropped_record_is_missed() {
    let dir = log().await;
    change(dir.path(), |db| {
        db.execute("DELETE FROM records WHERE seq = 7", []).unwrap();
    });
    found(dir.path(), Some(8), "it follows record 6; those in between are missing");
}

#[tokio::test]
async fn swapped_records_are_out_of_place() {
    let dir = log().await;
    change(dir.path(), |db| {
        for (from, to) in [(7, 100), (9, 7), (100, 9)] {
            db.execute("UPDATE records SET seq = ?2 WHERE seq = ?1", [from, to]).unwrap();
        }
    });
    found(dir.path(), Some(7), "it was written for another place in the log");
    found(dir.path(), Some(9), "it was written for another place in the log");
}

#[tokio::test]
async fn a_cut_tail_is_missed_and_the_log_does_not_go_on() {
    let dir = log().await;
    change(dir.path(), |db| {
        db.execute("DELETE FROM records WHERE seq > 20", []).unwrap();
        db.execute("DELETE FROM raws WHERE seq > 20", []).unwrap();
    });
    found(dir.path(), Some(21), "the log ends with record 20, but record 24 was written");
    not_opened(dir.path(), "it ends with record 20, but record 24 was written");
}

#[tokio::test]
async fn a_record_somebody_added_is_not_signed() {
    let dir = log().await;
    change(dir.path(), |db| {
        db.execute("INSERT INTO records SELECT 25, body, hash FROM records WHERE seq = 23", []).unwrap();
        let prev = db.query_row("SELECT hash FROM records WHERE seq = 24", [], |row| row.get(0).map(Digest)).unwrap();
        forge(db, 25, |body| (body["seq"], body["prev"]) = (25.into(), prev.to_string().into()));
    });
    found(dir.path(), Some(25), "it was added after the log was closed");
    not_opened(dir.path(), "record 25 was added after it was closed");
}

#[tokio::test]
async fn another_spelling_of_a_record_is_not_canonical() {
    let dir = log().await;
    change(dir.path(), |db| {
        let sql = "SELECT body FROM records WHERE seq = 24";
        let body: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).unwrap();
        let body = String::from_utf8(body).unwrap().replace("\"v\":1", "\"v\": 1").into_bytes();
        db.execute("UPDATE records SET body = ?1, hash = ?2 WHERE seq = 24", params![body, Digest::of(&body).0])
            .unwrap();
    });
    found(dir.path(), Some(24), "it is not in canonical form");
}

#[tokio::test]
async fn a_signature_over_something_else_does_not_hold() {
    let dir = log().await;
    change(dir.path(), |db| {
        forge(db, 24, |body| {
            let seal = body["seal"].as_str().unwrap().replace('0', "1");
            body["seal"] = seal.into();
        });
    });
    found(dir.path(), Some(24), "its signature does not hold");
}

#[tokio::test]
async fn raw_results_belong_to_their_records() {
    for (sql, seq, what) in [
        ("DELETE FROM raws WHERE seq = 4", 4, "its raw result is missing"),
        ("UPDATE raws SET sealed = zeroblob(1000) WHERE seq = 4", 4, "its raw result was changed"),
        (
            "UPDATE raws SET sealed = (SELECT sealed FROM raws WHERE seq = 4) WHERE seq = 6",
            6,
            "its raw result was changed",
        ),
        ("INSERT INTO raws VALUES (5, x'00')", 5, "it has a raw result it does not speak of"),
        ("INSERT INTO raws VALUES (99, x'00')", 99, "a raw result belongs to no record"),
    ] {
        let dir = log().await;
        change(dir.path(), |db| {
            db.execute(sql, []).unwrap();
        });
        found(dir.path(), Some(seq), what);
    }
}

#[tokio::test]
async fn other_tables_and_lost_triggers_are_found() {
    for (sql, what) in [
        ("DROP TRIGGER records_keep", "the tables or their triggers were changed"),
        ("CREATE TABLE more(x)", "the tables or their triggers were changed"),
        ("CREATE INDEX i ON records(hash)", "the tables or their triggers were changed"),
        ("PRAGMA user_version = 7", "the file's header was changed near byte 60"),
    ] {
        let dir = log().await;
        Connection::open(dir.path().join("audit.db")).unwrap().execute_batch(sql).unwrap();
        found(dir.path(), None, what);
    }
}

#[tokio::test]
async fn bytes_after_the_last_page_belong_to_nothing() {
    for extra in [10, PAGE] {
        let dir = log().await;
        let path = dir.path().join("audit.db");
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(vec![0; extra]);
        fs::write(&path, bytes).unwrap();
        assert!(!report(dir.path()).is_sound());
    }
}

#[tokio::test]
async fn a_log_cut_to_any_length_is_found() {
    let dir = log().await;
    let path = dir.path().join("audit.db");
    let bytes = fs::read(&path).unwrap();
    for length in [0, 1, 50, 100, 5_000, 16_384, 40_000, bytes.len() - 16_384, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(!report(dir.path()).is_sound(), "{length} bytes left");
    }
    fs::write(&path, b"").unwrap();
    not_opened(dir.path(), "`audit.db` is empty; it had 24 records");
    fs::remove_file(&path).unwrap();
    assert!(!report(dir.path()).is_sound());
    not_opened(dir.path(), "`audit.db` is missing; it had 24 records");
}

#[tokio::test]
async fn a_head_that_is_missing_forged_or_old_is_found() {
    let dir = log().await;
    let path = dir.path().join("audit.head");
    let old = fs::read_to_string(&path).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read("one more")).await.unwrap();
    store.close().await.unwrap();

    fs::write(&path, &old).unwrap();
    found(dir.path(), Some(25), "it was added after the log was closed");
    not_opened(dir.path(), "record 25 was added after it was closed");

    fs::write(&path, old.replace("\"seq\":24", "\"seq\":23")).unwrap();
    found(dir.path(), None, "`audit.head` is not signed by this log's key");
    not_opened(dir.path(), "`audit.head` is not signed by this log's key");

    fs::write(&path, "{").unwrap();
    found(dir.path(), None, "`audit.head` is not signed by this log's key");
    not_opened(dir.path(), "`audit.head` is cut");

    fs::remove_file(&path).unwrap();
    found(dir.path(), None, "`audit.head` is missing");
    not_opened(dir.path(), "`audit.head` is missing");
}

/// What was written ahead and not moved into the database yet is part of the log.
#[tokio::test]
async fn damage_to_what_was_written_ahead_is_found() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..10 {
        store.begin(intent(&format!("call {i}"))).await.unwrap();
        store.end(end(&format!("call {i}"))).await.unwrap();
    }
    let copy = |damage: &dyn Fn(&mut Vec<u8>)| {
        let copy = tempdir().unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            // The shared memory is made anew, as after a crash.
            if name != "audit.db-shm" {
                fs::copy(dir.path().join(&name), copy.path().join(&name)).unwrap();
            }
        }
        let ahead = copy.path().join("audit.db-wal");
        let mut bytes = fs::read(&ahead).unwrap();
        damage(&mut bytes);
        fs::write(&ahead, bytes).unwrap();
        copy
    };
    let whole = copy(&|_| {});
    assert_eq!((report(whole.path()).problems, report(whole.path()).records), (vec![], 21));

    let cut = copy(&|bytes| bytes.truncate(bytes.len() - 100));
    found(cut.path(), Some(21), "the log ends with record 20, but record 21 was written");
    not_opened(cut.path(), "it ends with record 20, but record 21 was written");

    let flipped = copy(&|bytes| bytes[100_000] ^= 1);
    assert!(!report(flipped.path()).is_sound());
    let gone = copy(&|bytes| bytes.clear());
    assert!(!report(gone.path()).is_sound());
}

#[tokio::test]
async fn a_log_that_is_cut_while_it_is_open_takes_no_more() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..5 {
        store.begin(intent(&format!("call {i}"))).await.unwrap();
    }
    change(dir.path(), |db| {
        db.execute("DELETE FROM records WHERE seq > 3", []).unwrap();
    });
    let why = "it ends with record 3, but record 6 was written".to_owned();
    assert_eq!(store.begin(intent("next")).await, Err(StoreError::Unwritable { why }));
}

/// The pages above the leaves split only in a log of some size. What SQLite leaves in them is covered once it is closed.
#[tokio::test]
async fn the_free_space_of_index_pages_is_signed_when_a_log_is_closed() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    // Two records of this size fill a page, and an index page leads to two thousand pages.
    let text = "x".repeat(7_000);
    for i in 0..4_400 {
        let read = read(&format!("call {i}"));
        let outcome = Outcome { text: text.clone(), ..(*read.outcome).clone() };
        store.end(End { outcome: outcome.into(), ..read }).await.unwrap();
    }
    store.begin(intent("last")).await.unwrap();
    let open = report(dir.path());
    assert_eq!((open.problems, open.unchecked_bytes > 0), (vec![], true));
    store.close().await.unwrap();
    let closed = report(dir.path());
    assert_eq!((closed.problems, closed.unchecked_bytes), (vec![], 0));

    let path = dir.path().join("audit.db");
    let bytes = fs::read(&path).unwrap();
    let index = (1..).map(|number| number * PAGE).find(|page| bytes[*page] == 5 && *page > 2 * PAGE).unwrap();
    let count = usize::from(u16::from_be_bytes([bytes[index + 3], bytes[index + 4]]));
    let free = index + 12 + 2 * count;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[bytes[free] ^ 1], free as u64).unwrap();
    found(dir.path(), None, "the free space of an index page was changed");
}

#[tokio::test]
async fn many_problems_are_counted_and_a_hundred_listed() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..150 {
        store.end(read(&format!("call {i}"))).await.unwrap();
    }
    store.close().await.unwrap();
    change(dir.path(), |db| {
        db.execute("UPDATE records SET hash = zeroblob(32) WHERE seq BETWEEN 2 AND 151", []).unwrap();
    });
    let report = report(dir.path());
    assert_eq!(report.problems.len(), 100);
    assert!(report.problem_count >= 150);
    let expected = Problem {
        seq: Some(2),
        call: Some("call 0".to_owned()),
        what: "its bytes do not have the hash that was stored with it".to_owned(),
    };
    assert!(report.problems.contains(&expected), "{report:#?}");
}

#[test]
fn where_there_is_no_log_there_is_nothing_to_verify() {
    let dir = tempdir().unwrap();
    assert!(matches!(verify(dir.path(), &mut |_, _| {}), Err(StoreError::File { .. })));
    assert!(matches!(Reader::open(dir.path()), Err(StoreError::File { .. })));
}
