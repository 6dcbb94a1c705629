//! What was written is there afterwards.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::tempdir;
use toolgate_contract::{AgentName, CallId, Digest, End, Fault, FaultKind, Note, Outcome, Status, canonical_json};
use toolgate_store::{OpenIntent, Reader, SqliteStore, Store, StoreError, calls, verify};

use crate::calls::{AT, end, intent, note, read, read_with_raw, record};

/// What the log says, without what differs from run to run.
fn bodies(dir: &Path) -> Vec<Value> {
    let lines = Reader::open(dir).unwrap().tail(1_000_000).unwrap();
    lines
        .into_iter()
        .map(|line| {
            let mut body = line.body;
            body.as_object_mut().unwrap().remove("prev");
            body
        })
        .collect()
}

/// The same of calls alone.
fn kinds(dir: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    bodies(dir).iter().map(|body| (text(&body["kind"]), text(&body["call"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, call)| ((*kind).to_owned(), (*call).to_owned())).collect()
}

#[tokio::test]
async fn a_call_with_effects_leaves_an_intent_and_an_end_and_another_its_end_alone() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.begin(intent("one")).await.unwrap();
    store.end(end("one")).await.unwrap();
    store.end(read("two")).await.unwrap();
    store.close().await.unwrap();

    let log = bodies(dir.path());
    let outcome = |id: &str| serde_json::to_value(read(id).outcome).unwrap();
    let asked = |id: &str| serde_json::to_value(record(id)).unwrap();
    assert_eq!(
        log[1..4],
        [
            json!({ "at_ms": AT, "call": "one", "kind": "intent", "record": asked("one"), "seq": 2, "v": 1 }),
            json!({ "at_ms": AT + 3, "call": "one", "kind": "end", "outcome": outcome("one"), "raw": null, "seq": 3, "v": 1 }),
            json!({
                "at_ms": AT + 3, "call": "two", "kind": "end", "outcome": outcome("two"), "raw": null,
                "record": asked("two"), "seq": 4, "v": 1,
            }),
        ]
    );
    assert_eq!(log[0]["kind"], "opened");
    assert_eq!(log[4]["kind"], "checkpoint");
    assert_eq!(log.len(), 5);
}

#[tokio::test]
async fn each_record_names_the_hash_of_the_canonical_bytes_before_it() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..5 {
        store.end(read_with_raw(&format!("call {i}"), b"raw")).await.unwrap();
    }
    store.close().await.unwrap();
    let mut prev = Digest([0; 32]);
    let mut seqs = Vec::new();
    let count = Reader::open(dir.path())
        .unwrap()
        .export(1, |line| {
            let body: Value = serde_json::from_slice(line).unwrap();
            assert_eq!(canonical_json(&body).unwrap(), line);
            assert_eq!(body["prev"], prev.to_string());
            seqs.push(body["seq"].as_u64().unwrap());
            prev = Digest::of(line);
            Ok(())
        })
        .unwrap();
    assert_eq!((count, seqs), (7, (1..=7).collect()));
}

#[tokio::test]
async fn a_call_is_its_agents_own_and_looked_for_only_so_far_back() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let (mine, theirs) = (AgentName::from("coder"), AgentName::from("other"));
    store.begin(intent("begun")).await.unwrap();
    store.end(end("begun")).await.unwrap();
    store.begin(intent("running")).await.unwrap();
    store.end(read("other: \"one\"")).await.unwrap();
    let mut foreign = read("foreign");
    foreign.record.agent = theirs.clone();
    store.end(foreign).await.unwrap();
    store.note(note("begun")).await.unwrap();
    let found = |agent: &AgentName, id: &str| {
        let reader = store.reader().unwrap().unwrap();
        calls::own(&reader, agent, &CallId(id.to_owned())).unwrap().map(|whole| whole.summary.status)
    };
    assert_eq!(found(&mine, "begun").as_deref(), Some("done"));
    assert_eq!(found(&mine, "running").as_deref(), Some("running"));
    assert_eq!(found(&mine, "other: \"one\"").as_deref(), Some("done"));
    assert_eq!(found(&theirs, "foreign").as_deref(), Some("done"));
    for (agent, id) in [(&theirs, "begun"), (&theirs, "running"), (&mine, "foreign"), (&mine, "none"), (&mine, "")] {
        assert_eq!(found(agent, id), None, "{agent} {id}");
    }
    // The intent of the first call is further back than anybody looks, so nobody can say whose it was.
    for i in 0..19_999 {
        store.end(read(&i.to_string())).await.unwrap();
    }
    store.note(note("the last")).await.unwrap();
    assert_eq!(found(&mine, "begun"), None);
    assert_eq!(found(&mine, "1000").as_deref(), Some("done"));
}

#[tokio::test]
async fn a_look_back_ends_where_much_was_read() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..70 {
        let mut long = read(&i.to_string());
        long.record.arguments = json!({ "text": "x".repeat(1 << 20) });
        store.end(long).await.unwrap();
    }
    store.note(note("the last")).await.unwrap();
    let reader = store.reader().unwrap().unwrap();
    let found = |id: &str| calls::own(&reader, &AgentName::from("coder"), &CallId(id.to_owned())).unwrap().is_some();
    assert_eq!((found("69"), found("10"), found("0")), (true, true, false));
    let nobodys = calls::Filter { agent: Some("nobody".to_owned()), ..calls::Filter::default() };
    let first = calls::list(&reader, &nobodys).unwrap();
    assert_eq!(first.calls, []);
    let next = first.next.expect("it says where to go on");
    assert!((2..20).contains(&next), "{next}");
    let rest = calls::list(&reader, &calls::Filter { before: Some(next), ..nobodys }).unwrap();
    assert_eq!((rest.calls.len(), rest.next), (0, None));
}

#[tokio::test]
async fn show_gives_what_is_known_about_one_call_and_export_starts_where_told() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for id in ["one", "on", "other: \"one\""] {
        store.begin(intent(id)).await.unwrap();
        store.end(end(id)).await.unwrap();
    }
    store.close().await.unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let seqs =
        |id: &str| -> Vec<u64> { reader.show(&CallId(id.to_owned())).unwrap().iter().map(|line| line.seq).collect() };
    assert_eq!(seqs("one"), [2, 3]);
    assert_eq!(seqs("on"), [4, 5]);
    assert_eq!(seqs("other: \"one\""), [6, 7]);
    assert_eq!(seqs(""), [0; 0]);
    assert_eq!(seqs("none"), [0; 0]);
    let mut seen = Vec::new();
    let count = reader.export(5, |line| {
        seen.push(serde_json::from_slice::<Value>(line).unwrap()["seq"].clone());
        Ok(())
    });
    assert_eq!((count, seen), (Ok(4), [5, 6, 7, 8].map(Value::from).to_vec()));
    let tail: Vec<u64> = reader.tail(2).unwrap().iter().map(|line| line.seq).collect();
    assert_eq!(tail, [7, 8]);
}

#[tokio::test]
async fn a_note_is_durable_when_it_returns_and_is_found_by_its_subject() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    store.note(note("apr_1")).await.unwrap();
    let [mut line] = reader.tail(1).unwrap().try_into().unwrap();
    line.body.as_object_mut().unwrap().remove("prev");
    let expected = json!({
        "at_ms": AT, "kind": "note", "seq": 2, "v": 1,
        "note": { "by": { "person": "user:jo" }, "detail": { "answer": "yes" }, "kind": "vote", "subject": "apr_1" },
    });
    assert_eq!(line.body, expected);
    store.begin(intent("one")).await.unwrap();
    store.note(Note { by: None, ..note("apr_2") }).await.unwrap();
    store.close().await.unwrap();

    let seqs =
        |id: &str| -> Vec<u64> { reader.show(&CallId(id.to_owned())).unwrap().iter().map(|line| line.seq).collect() };
    assert_eq!((seqs("apr_1"), seqs("apr_2"), seqs("one"), seqs("vote")), (vec![2], vec![4], vec![3], vec![]));
    let report = verify(dir.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.problems), (5, vec![]));
    assert_eq!(reader.export(1, |_| Ok(())), Ok(5));
}

#[tokio::test]
async fn a_raw_result_is_encrypted_and_comes_back() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let secret = b"ghp_16C7e42F292c6912E7710c838347Ae178B4a".repeat(1_000);
    store.end(read_with_raw("one", &secret)).await.unwrap();
    store.end(read("two")).await.unwrap();
    store.close().await.unwrap();

    let reader = Reader::open(dir.path()).unwrap();
    let [one] = reader.show(&CallId("one".to_owned())).unwrap().try_into().unwrap();
    let [two] = reader.show(&CallId("two".to_owned())).unwrap().try_into().unwrap();
    assert_eq!(reader.raw(&one).unwrap(), Some(secret.clone()));
    assert_eq!(reader.raw(&two).unwrap(), None);
    assert_eq!(one.body["raw"]["bytes"], secret.len());
    let database = fs::read(dir.path().join("audit.db")).unwrap();
    assert!(!database.windows(20).any(|bytes| bytes == &secret[..20]));
}

#[tokio::test]
async fn what_nobody_waits_for_is_written_all_the_same() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read("one")).await.unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while reader.show(&CallId("one".to_owned())).unwrap().is_empty() {
        assert!(Instant::now() < patience, "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn intents_ends_after_effects_and_pending_ends_are_there_when_the_caller_goes_on() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let last = || reader.tail(1).unwrap()[0].body["kind"].clone();
    store.begin(intent("one")).await.unwrap();
    assert_eq!(last(), "intent");
    store.end(end("one")).await.unwrap();
    assert_eq!(last(), "end");
    let pending = read("two");
    let outcome = Outcome { status: Status::Pending, is_error: true, ..(*pending.outcome).clone() };
    store.end(End { outcome: outcome.into(), ..pending }).await.unwrap();
    assert_eq!(reader.tail(1).unwrap()[0].body["call"], "two");
}

#[tokio::test]
async fn dropping_a_store_writes_what_is_queued() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..100 {
        store.end(read(&format!("call {i}"))).await.unwrap();
    }
    drop(store);
    assert_eq!(Reader::open(dir.path()).unwrap().tail(1_000).unwrap().len(), 102);
}

#[tokio::test]
async fn a_closed_store_takes_nothing_more() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.close().await.unwrap();
    let closed = Err(StoreError::Unwritable { why: "the store is closed".to_owned() });
    assert_eq!(store.begin(intent("one")).await, closed);
    assert_eq!(store.end(read("one")).await, closed);
    assert_eq!(store.note(note("one")).await, closed);
    assert_eq!(store.close().await, Ok(()));
}

#[tokio::test]
async fn a_log_goes_on_where_it_ended_and_says_once_who_writes() {
    let dir = tempdir().unwrap();
    for id in ["one", "two"] {
        let store = SqliteStore::open(dir.path()).unwrap();
        store.end(read(id)).await.unwrap();
        store.close().await.unwrap();
    }
    let expected = [("opened", "-"), ("end", "one"), ("checkpoint", "-"), ("end", "two"), ("checkpoint", "-")];
    assert_eq!(kinds(dir.path()), pairs(&expected));
}

#[tokio::test]
async fn opening_and_closing_without_news_adds_nothing() {
    let dir = tempdir().unwrap();
    for _ in 0..3 {
        SqliteStore::open(dir.path()).unwrap().close().await.unwrap();
    }
    assert_eq!(kinds(dir.path()), pairs(&[("opened", "-"), ("checkpoint", "-")]));
}

#[tokio::test]
async fn every_thousandth_record_is_a_checkpoint() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for i in 0..2_100 {
        store.end(read(&format!("call {i}"))).await.unwrap();
    }
    store.close().await.unwrap();
    let seqs: Vec<u64> = Reader::open(dir.path())
        .unwrap()
        .tail(10_000)
        .unwrap()
        .iter()
        .filter(|line| line.body["kind"] == "checkpoint")
        .map(|line| line.seq)
        .collect();
    assert_eq!(seqs, [1_000, 2_000, 2_104]);
    let report = verify(dir.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.checkpoints, report.problems), (2_104, 3, vec![]));
}

#[tokio::test]
async fn an_intent_without_an_end_is_shown() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for id in ["one", "two", "three"] {
        store.begin(intent(id)).await.unwrap();
    }
    store.end(end("two")).await.unwrap();
    store.close().await.unwrap();
    let open = |seq: u64, call: &str| OpenIntent {
        seq,
        at_ms: AT,
        call: call.to_owned(),
        agent: "coder".to_owned(),
        tool: "write_file".to_owned(),
    };
    let expected = [open(2, "one"), open(4, "three")];
    assert_eq!(Reader::open(dir.path()).unwrap().open_intents().unwrap(), expected);
    assert_eq!(verify(dir.path(), &mut |_, _| {}).unwrap().open_intents, expected);
}

/// After a crash a log may be ahead of its head; a log that was closed may not. The head has to tell the two apart.
#[tokio::test]
async fn the_head_says_whether_the_log_is_in_use() {
    let dir = tempdir().unwrap();
    let in_use = || {
        let head: Value = serde_json::from_slice(&fs::read(dir.path().join("audit.head")).unwrap()).unwrap();
        head["slack"].is_null()
    };
    SqliteStore::open(dir.path()).unwrap().close().await.unwrap();
    assert!(!in_use());
    let (one, two) = (SqliteStore::open(dir.path()).unwrap(), SqliteStore::open(dir.path()).unwrap());
    assert!(in_use());
    one.close().await.unwrap();
    assert!(in_use());
    two.close().await.unwrap();
    assert!(!in_use());
}

#[tokio::test]
async fn rows_cannot_be_changed_or_deleted_by_accident() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read_with_raw("one", b"raw")).await.unwrap();
    store.close().await.unwrap();
    let db = rusqlite::Connection::open(dir.path().join("audit.db")).unwrap();
    for sql in
        ["UPDATE records SET body = x'00'", "DELETE FROM records", "UPDATE raws SET sealed = x'00'", "DELETE FROM raws"]
    {
        assert!(db.execute(sql, []).is_err(), "{sql}");
    }
}

#[tokio::test]
async fn without_a_record_nothing_begins_until_records_can_be_written_again() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.begin(intent("before")).await.unwrap();
    let (here, away) = (dir.path().join("audit.db"), dir.path().join("moved.db"));
    fs::rename(&here, &away).unwrap();

    let why = format!("`{}` is no longer the file that was opened", here.display());
    let unwritable = Err(StoreError::Unwritable { why });
    assert_eq!(store.begin(intent("refused")).await, unwritable);
    // The effect has happened: its end is kept. A read that is answered with an error is not.
    assert_eq!(store.end(end("before")).await, unwritable);
    assert_eq!(store.end(read("read")).await, unwritable);
    assert_eq!(store.begin(intent("refused again")).await, unwritable);
    assert_eq!(store.note(note("refused")).await, unwritable);

    fs::rename(&away, &here).unwrap();
    store.begin(intent("after")).await.unwrap();
    store.close().await.unwrap();
    let expected = [("opened", "-"), ("intent", "before"), ("end", "before"), ("intent", "after"), ("checkpoint", "-")];
    assert_eq!(kinds(dir.path()), pairs(&expected));
}

/// What was promised is kept through a failure, although nobody waits for it any more.
#[tokio::test]
async fn a_read_that_was_queued_before_writing_failed_is_written_afterwards() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let (here, away) = (dir.path().join("audit.db"), dir.path().join("moved.db"));
    // While somebody else holds the lock, nothing is written.
    let lock = fs::File::open(dir.path().join("audit.lock")).unwrap();
    lock.lock().unwrap();
    store.end(read("read")).await.unwrap();
    fs::rename(&here, &away).unwrap();
    lock.unlock().unwrap();
    assert!(store.begin(intent("refused")).await.is_err());
    fs::rename(&away, &here).unwrap();
    store.close().await.unwrap();
    assert_eq!(kinds(dir.path()), pairs(&[("opened", "-"), ("end", "read"), ("checkpoint", "-")]));
}

#[tokio::test]
async fn closing_says_when_something_could_not_be_written() {
    let dir = tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read("read")).await.unwrap();
    fs::rename(dir.path().join("audit.db"), dir.path().join("moved.db")).unwrap();
    assert!(matches!(store.close().await, Err(StoreError::Unwritable { .. })));
}

#[test]
fn an_agent_is_told_that_the_call_is_refused_and_may_pass_later() {
    let fault = Fault::from(StoreError::Unwritable { why: "disk full".to_owned() });
    assert_eq!(
        fault,
        Fault {
            kind: FaultKind::Refused,
            code: "record_unwritable".into(),
            message: "the record cannot be written: disk full".to_owned(),
            remedy:
                "Free disk space or mend the data directory; calls with effects stay refused until a record can be \
                     written."
                    .to_owned(),
            retryable: true,
            untouched: false,
            in_own_words: false,
        }
    );
}

#[tokio::test]
async fn the_directory_and_its_files_are_private() {
    let root = tempdir().unwrap();
    let dir = root.path().join("a/b");
    let store = SqliteStore::open(&dir).unwrap();
    store.end(read("one")).await.unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_files_are_private(&dir);
}

#[tokio::test]
async fn files_in_a_directory_others_can_read_are_private() {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.end(read("one")).await.unwrap();
    assert_files_are_private(dir.path());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn assert_files_are_private(dir: &Path) {
    let mut modes: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), format!("{:o}", mode(&entry.path()))))
        .collect();
    modes.sort();
    let expected = [
        ("audit.db", "600"),
        ("audit.db-shm", "600"),
        ("audit.db-wal", "600"),
        ("audit.head", "600"),
        ("audit.key", "600"),
        ("audit.lock", "600"),
        ("sign.key", "600"),
        ("sign.pub", "644"),
    ];
    assert_eq!(modes, expected.map(|(name, mode)| (name.to_owned(), mode.to_owned())));
}

#[tokio::test]
async fn a_log_of_a_later_format_is_left_alone() {
    let dir = tempdir().unwrap();
    SqliteStore::open(dir.path()).unwrap().close().await.unwrap();
    let path = dir.path().join("audit.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let before = fs::read(&path).unwrap();
    let too_new = StoreError::TooNew { path: path.clone(), found: 2, known: 1 };
    assert_eq!(SqliteStore::open(dir.path()).unwrap_err(), too_new);
    assert_eq!(Reader::open(dir.path()).unwrap_err(), too_new);
    assert_eq!(fs::read(&path).unwrap(), before);
}
