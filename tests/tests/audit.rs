//! The record from outside: every call is in it, nothing takes effect without it, and no byte of it changes unseen.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolgate_tests::{Bench, Ran, skipped};

// ---- reading it ----

#[test]
fn every_call_leaves_a_record() {
    let bench = Bench::new();
    bench.put("a.txt", "text\n");
    bench.put("asks.yaml", "version: 1\npolicy: {ask: {tools: [delete]}}\n");
    let calls = [
        bench.call("echo", &json!({ "text": "done" })).done(),
        bench.call("write", &json!({ "path": "b.txt", "content": "x" })).done(),
        bench.call("read", &json!({ "path": "../x" })).refused("path_outside_workspace"),
        bench.call("read", &json!({})).failed("invalid_arguments"),
        bench.call("nosuch", &json!({ "a": [1] })).refused("unknown_tool"),
        bench.run(&["call", "echo", "{}", "--agent", "nobody"]).refused("unknown_agent"),
        bench.run(&["call", "delete", r#"{"path":"a.txt"}"#, "--config", "asks.yaml"]).exits(4).json(),
    ];
    let records = export(&bench);
    for outcome in &calls {
        let of_call: Vec<_> = records.iter().filter(|record| record["call"] == outcome["call"]).collect();
        let kinds: Vec<_> = of_call.iter().map(|record| record["kind"].as_str().unwrap()).collect();
        let expected: &[&str] = if outcome["tool"] == "write" { &["intent", "end"] } else { &["end"] };
        assert_eq!(kinds, expected, "{outcome:#}");
        assert_eq!(&of_call.last().unwrap()["outcome"], outcome, "what was answered is what was recorded");
        let asked = &of_call[0]["record"];
        assert_eq!((&asked["tool"], &asked["call"]), (&outcome["tool"], &outcome["call"]));
        assert!(asked["agent"].is_string() && asked.get("arguments").is_some(), "{asked:#}");
    }
    // The decision, the definition and the policy it was made under are there for the call that ran.
    let intent = records.iter().find(|record| record["kind"] == "intent").unwrap();
    assert_eq!(intent["record"]["arguments"], json!({ "path": "b.txt", "content": "x" }));
    assert_eq!(intent["record"]["decision"]["verdict"], "allow");
    for hash in ["definition", "policy"] {
        assert!(intent["record"][hash].as_str().unwrap().starts_with("sha256:"), "{intent:#}");
    }
    verified(&bench);
}

#[test]
fn the_tail_and_a_single_call_are_shown() {
    let bench = Bench::new();
    let first = bench.call("echo", &json!({ "text": "first" })).done();
    let second = bench.call("write", &json!({ "path": "a", "content": "x" })).done();
    let tail = bench.run(&["audit", "tail", "--json"]).exits(0);
    for outcome in [&first, &second] {
        assert!(tail.stdout.contains(outcome["call"].as_str().unwrap()), "{tail}");
    }
    let shown = bench.run(&["audit", "show", second["call"].as_str().unwrap()]).exits(0);
    let text = shown.json().to_string();
    assert!(text.contains("\"intent\"") && text.contains("\"end\"") && text.contains("code:write"), "{shown}");
    assert!(!text.contains(first["call"].as_str().unwrap()), "{shown}");
    let nobody = bench.run(&["audit", "show", "01a1df0d-49ce-759f-8a86-000000000000"]);
    assert!(nobody.status == 1 || nobody.status == 2, "{nobody}");
    assert!(nobody.stdout.is_empty() && !nobody.stderr.is_empty(), "{nobody}");
}

#[test]
fn an_export_is_a_chain_anyone_can_recompute() {
    let bench = Bench::new();
    for n in 0..5 {
        bench.call("write", &json!({ "path": format!("{n}"), "content": "x" })).done();
    }
    let export = bench.run(&["audit", "export"]).exits(0).stdout;
    let mut before = format!("sha256:{}", "0".repeat(64));
    let mut count = 0;
    for (line, seq) in export.lines().zip(1..) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["prev"], &record["seq"]), (&json!(before), &json!(seq)), "record {seq}");
        before = format!("sha256:{}", hex(&Sha256::digest(line)));
        count += 1;
    }
    assert!(count > 10, "{count} records");
    // The chain ends where the signed head says it does.
    let head: Value = serde_json::from_slice(&fs::read(bench.data().join("audit.head")).unwrap()).unwrap();
    assert_eq!((&head["hash"], &head["seq"]), (&json!(before), &json!(count)));
}

#[test]
fn a_log_that_is_whole_verifies() {
    let bench = Bench::new();
    bench.call("write", &json!({ "path": "a", "content": "x" })).done();
    let report = verified(&bench);
    assert_eq!(report["records"], export(&bench).len());
    assert!(report["checkpoints"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!((&report["open_intents"], &report["problems"]), (&json!([]), &json!([])), "{report:#}");
    // Looking changes nothing.
    let before = fs::read(bench.data().join("audit.db")).unwrap();
    bench.run(&["audit", "verify"]).exits(0);
    assert_eq!(fs::read(bench.data().join("audit.db")).unwrap(), before);
}

#[test]
fn where_there_is_no_log_there_is_nothing_to_verify() {
    let bench = Bench::new();
    for command in [&["audit", "verify"][..], &["audit", "tail"], &["audit", "export"], &["audit", "show", "x"]] {
        let ran = bench.run(command);
        assert!(ran.status != 0 && ran.stdout.is_empty() && !ran.stderr.is_empty(), "{command:?}: {ran}");
    }
}

#[test]
fn many_processes_write_one_chain() {
    let bench = Bench::new();
    bench.call("get_time", &json!({})).done();
    thread::scope(|scope| {
        for worker in 0..4 {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..5 {
                    bench.call("write", &json!({ "path": format!("{worker}-{n}"), "content": "x" })).done();
                }
            });
        }
    });
    verified(&bench);
    let records = export(&bench);
    let ends = records.iter().filter(|record| record["kind"] == "end").count();
    assert_eq!(ends, 21);
}

// ---- raw results ----

#[test]
fn a_raw_result_is_sealed_and_given_back_to_its_owner() {
    let bench = Bench::new();
    // Encoded, the text is longer than what the model gets, and its end is in no argument.
    let long = format!("{} the é end", " ".repeat(30_000));
    let outcome = bench.call("url_encode", &json!({ "text": long })).done();
    let (whole, end) = ("%20".repeat(30_000) + "%20the%20%C3%A9%20end", "the%20%C3%A9%20end");
    assert!(!outcome["truncated"].is_null() && !outcome.to_string().contains(end), "{}", outcome["truncated"]);
    for entry in fs::read_dir(bench.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        assert!(!contains(&bytes, end.as_bytes()), "{} holds the raw result in the clear", path.display());
    }
    let call = outcome["call"].as_str().unwrap();
    let shown = bench.run(&["audit", "show", call, "--raw"]).exits(0);
    assert!(shown.stdout.contains(&whole), "{}", &shown.stdout[..shown.stdout.len().min(500)]);

    // With another key it does not open, and nothing else is shown in its place.
    fs::write(bench.data().join("audit.key"), [7; 32]).unwrap();
    let ran = bench.run(&["audit", "show", call, "--raw"]);
    assert!(ran.status != 0 && !ran.stdout.contains(end), "{}", ran.stderr);
}

#[test]
fn what_a_tool_did_not_show_is_not_in_the_record() {
    let bench = Bench::new();
    let lines: String = (1..=5_000).map(|n| format!("line {n} of the file\n")).collect();
    bench.put("long.txt", &lines);
    bench.call("read", &json!({ "path": "long.txt" })).done();
    let database = fs::read(bench.data().join("audit.db")).unwrap();
    assert!(contains(&database, b"line 10 of the file") && !contains(&database, b"line 4999 of the file"));
}

// ---- tampering ----

#[test]
fn a_flipped_byte_anywhere_is_found() {
    let bench = logged();
    let path = bench.data().join("audit.db");
    let whole = fs::read(&path).unwrap();
    let check = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x01;
        fs::write(&path, &bytes).unwrap();
        let ran = bench.run(&["audit", "verify", "--json"]);
        assert!(ran.status > 0, "byte {at} of {} was flipped, and verify says: {ran}", whole.len());
        ran
    };
    // In every field of the header, and all over the file.
    for at in (0..100).step_by(7).chain((100..whole.len()).step_by(whole.len() / 97)) {
        check(at);
    }
    // In a record: named by its number and its call.
    let record = export_of(&bench, &whole).into_iter().find(|record| record["kind"] == "intent").unwrap();
    let call = record["call"].as_str().unwrap();
    let spelled = format!("\"call\":\"{call}\",\"kind\":\"intent\"");
    let ran = check(find(&whole, spelled.as_bytes()) + 10);
    assert_names(&ran, record["seq"].as_u64().unwrap());
    // In a sealed result.
    let sealed: (u64, Vec<u8>) = Connection::open(&path)
        .unwrap()
        .query_row("SELECT seq, sealed FROM raws", [], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))
        .unwrap();
    let ran = check(find(&whole, &sealed.1[..64]) + 30);
    assert_names(&ran, sealed.0);

    fs::write(&path, &whole).unwrap();
    verified(&bench);
}

#[test]
fn what_is_done_to_rows_is_found_and_named() {
    // Where a row is missing, the one after it says so.
    let attacks: [(&str, &str, &[u64]); 19] = [
        ("a row is deleted", "DELETE FROM records WHERE seq = 5", &[6]),
        ("and the file tidied up", "DELETE FROM records WHERE seq = 5; VACUUM", &[6]),
        (
            "a row is changed",
            "UPDATE records SET body = CAST(replace(body, 'write', 'wrote') AS BLOB) WHERE seq = 5",
            &[5],
        ),
        ("and made longer", "UPDATE records SET body = CAST(body || ' ' AS BLOB) WHERE seq = 5", &[5]),
        ("and made no JSON", "UPDATE records SET body = zeroblob(length(body)) WHERE seq = 5", &[5]),
        ("a hash is changed", "UPDATE records SET hash = randomblob(32) WHERE seq = 5", &[5]),
        (
            "two rows change places",
            "UPDATE records SET seq = -5 WHERE seq = 5; UPDATE records SET seq = 5 WHERE seq = 6;
             UPDATE records SET seq = 6 WHERE seq = -5",
            &[5, 6],
        ),
        ("a row is repeated", "INSERT INTO records SELECT max(seq) + 1, body, hash FROM records", &[]),
        ("a row is put in front", "INSERT INTO records SELECT 0, body, hash FROM records WHERE seq = 1", &[]),
        ("the first row is gone", "DELETE FROM records WHERE seq = 1", &[2]),
        ("the last row is gone", "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)", &[]),
        ("the tail is gone", "DELETE FROM records WHERE seq > 4", &[5]),
        ("and the file tidied up", "DELETE FROM records WHERE seq > 4; VACUUM", &[5]),
        ("all rows are gone", "DELETE FROM records", &[]),
        ("a sealed result is gone", "DELETE FROM raws", &[SEALED]),
        ("a sealed result is changed", "UPDATE raws SET sealed = zeroblob(length(sealed))", &[SEALED]),
        ("a sealed result is moved", "UPDATE raws SET seq = 2", &[SEALED]),
        ("a table is added", "CREATE TABLE notes(x)", &[]),
        ("an index is added", "CREATE INDEX i ON records(hash)", &[]),
    ];
    let mut unseen = Vec::new();
    for (what, sql, named) in attacks {
        let bench = logged();
        attack(&bench, sql);
        let ran = bench.run(&["audit", "verify", "--json"]);
        let problems = ran.json()["problems"].clone();
        let names = |seq: &u64| problems.as_array().unwrap().iter().any(|problem| problem["seq"] == *seq);
        if ran.status != 1 {
            unseen.push(format!("{what} ({sql}): not found"));
        } else if !named.iter().all(names) {
            unseen.push(format!("{what} ({sql}): {named:?} not named in {problems}"));
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}

#[test]
fn the_guard_against_changes_by_mistake_is_part_of_the_log() {
    let bench = logged();
    let database = Connection::open(bench.data().join("audit.db")).unwrap();
    for sql in
        ["DELETE FROM records", "UPDATE records SET seq = seq + 100", "DELETE FROM raws", "UPDATE raws SET seq = 9"]
    {
        assert!(database.execute_batch(sql).is_err(), "{sql}");
    }
    database.execute_batch("DROP TRIGGER records_stay").unwrap();
    drop(database);
    let ran = bench.run(&["audit", "verify"]);
    assert!(ran.status > 0, "{ran}");
}

#[test]
fn a_chain_that_was_forged_to_its_end_fails_its_seals() {
    let bench = logged();
    let path = bench.data().join("audit.db");
    let triggers = drop_triggers(&bench);
    let database = Connection::open(&path).unwrap();
    let rows: Vec<(i64, Vec<u8>)> = database
        .prepare("SELECT seq, body FROM records ORDER BY seq")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    // Whoever changes one record can make every later one follow it; what they cannot make are signatures.
    let mut forged = None::<(String, String)>;
    for (seq, body) in rows {
        let mut body = String::from_utf8(body).unwrap();
        if let Some((old, new)) = &forged {
            body = body.replace(old.as_str(), new);
        } else if body.contains("\"kind\":\"intent\"") {
            body = body.replace("\"agent\":\"default\"", "\"agent\":\"nobody0\"");
        } else {
            continue;
        }
        let old: Vec<u8> =
            database.query_row("SELECT hash FROM records WHERE seq = ?1", [seq], |row| row.get(0)).unwrap();
        let new = Sha256::digest(&body);
        database
            .execute("UPDATE records SET body = ?2, hash = ?3 WHERE seq = ?1", (seq, body.as_bytes(), new.as_slice()))
            .unwrap();
        forged = Some((hex(&old), hex(&new)));
    }
    assert!(forged.is_some());
    database.execute_batch(&triggers).unwrap();
    drop(database);
    let ran = bench.run(&["audit", "verify"]);
    assert!(ran.status > 0, "{ran}");
}

#[test]
fn an_older_copy_or_a_missing_file_is_found_and_nothing_runs_on_it() {
    let check = |what: &str, change: &dyn Fn(&Path)| {
        let bench = logged();
        let data = bench.data();
        fs::copy(data.join("audit.db"), bench.outside().join("older.db")).unwrap();
        bench.call("write", &json!({ "path": "later", "content": "x" })).done();
        change(&data);
        let verify = bench.run(&["audit", "verify"]);
        assert!(verify.status > 0, "{what}: {verify}");
        let ran = bench.run(&["call", "write", r#"{"path":"unrecorded","content":"x"}"#]);
        assert!(ran.status > 0, "{what}: {ran}");
        assert!(!bench.workspace().join("unrecorded").exists(), "{what}: an effect without a record");
    };
    check("an older database is put back", &|data| {
        fs::copy(data.parent().unwrap().join("older.db"), data.join("audit.db")).unwrap();
    });
    check("the database is removed", &|data| fs::remove_file(data.join("audit.db")).unwrap());
    check("the database is emptied", &|data| fs::write(data.join("audit.db"), "").unwrap());
    check("the head is removed", &|data| fs::remove_file(data.join("audit.head")).unwrap());
    check("the head is changed", &|data| {
        let head = fs::read_to_string(data.join("audit.head")).unwrap();
        fs::write(
            data.join("audit.head"),
            head.replacen("\"seq\":1", "\"seq\":2", 1).replacen("\"hash\":\"sha256:", "\"hash\":\"sha256:0", 1),
        )
        .unwrap();
    });
    check("the signing key is removed", &|data| {
        fs::remove_file(data.join("sign.key")).unwrap();
        fs::remove_file(data.join("sign.pub")).unwrap();
    });
    check("the keys are replaced by others", &|data| {
        for name in ["sign.key", "sign.pub"] {
            fs::remove_file(data.join(name)).unwrap();
        }
        fs::write(data.join("sign.key"), [9; 32]).unwrap();
        fs::write(data.join("sign.pub"), "0".repeat(64)).unwrap();
    });
}

// ---- sudden ends ----

#[test]
fn a_server_killed_in_a_burst_of_writes_leaves_a_whole_record_of_every_effect() {
    const ROUNDS: u64 = 15;
    const BURST: u64 = 40;
    let bench = Bench::new();
    let content = "whole ".repeat(2_000);
    let (mut effects, mut answered_in_all, mut unfinished) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut server = Server::start(bench.command(&["serve", "--stdio"]));
        let burst: String = (0..BURST)
            .map(|n| {
                let arguments = json!({ "path": format!("{round}-{n}"), "content": content });
                format!("{}\n", tools_call(n + 10, "write", arguments))
            })
            .collect();
        // Killed while it is busy with the rest: each round a little later.
        let enough = usize::try_from(round * 2).unwrap();
        let answers = thread::scope(|scope| {
            let Server { child, stdin, stdout } = &mut server;
            scope.spawn(move || stdin.write_all(burst.as_bytes()));
            let mut answers: Vec<String> = stdout.lines().map_while(Result::ok).take(enough).collect();
            child.kill().unwrap();
            child.wait().unwrap();
            answers.extend(stdout.lines().map_while(Result::ok));
            answers
        });

        let report = verified(&bench);
        let records = export(&bench);
        let of_kind = |kind: &str| -> BTreeMap<&str, &Value> {
            let records = records.iter().filter(|record| record["kind"] == kind);
            records.map(|record| (record["call"].as_str().unwrap(), record)).collect()
        };
        let (intents, ends) = (of_kind("intent"), of_kind("end"));
        let intended: BTreeSet<&str> =
            intents.values().map(|record| record["record"]["arguments"]["path"].as_str().unwrap()).collect();
        for entry in fs::read_dir(bench.workspace()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with(".toolgate-") {
                continue;
            }
            assert!(intended.contains(&*name), "round {round}: `{name}` was written without an intent");
            assert_eq!(bench.text(&name), content, "round {round}: `{name}` is half written");
            effects += u64::from(name.starts_with(&format!("{round}-")));
        }
        for answer in &answers {
            let Ok(answer) = serde_json::from_str::<Value>(answer) else { continue };
            let said = answer["result"].to_string();
            let recorded = ends.keys().any(|call| said.contains(call));
            assert!(recorded || answer["id"] == 1, "round {round}: an answer nobody recorded: {answer}");
            answered_in_all += 1;
        }
        // What was begun and not ended is said, by name.
        let open: BTreeSet<&str> = intents.keys().copied().filter(|call| !ends.contains_key(call)).collect();
        let told = report["open_intents"].as_array().unwrap();
        assert_eq!(told.iter().map(|intent| intent["call"].as_str().unwrap()).collect::<BTreeSet<_>>(), open);
        unfinished = open.len();
    }
    eprintln!(
        "{ROUNDS} servers killed: {effects} effects seen, {answered_in_all} answers, {unfinished} calls unfinished"
    );
    assert!(effects > 0, "no round got as far as an effect");
    bench.call("write", &json!({ "path": "after", "content": "x" })).done();
    let tail = bench.run(&["audit", "tail", "--json"]).exits(0);
    assert!(tail.stdout.contains("after"), "{tail}");
    verified(&bench);
}

#[test]
fn while_no_record_can_be_written_nothing_takes_effect() {
    let bench = Bench::new();
    let line = bench.command(&["serve", "--stdio"]);
    // The signal of the limit is ignored, so that a write past it fails as on a full disk.
    let mut wrapped = Command::new("sh");
    wrapped.args(["-c", "trap '' XFSZ; exec \"$0\" serve --stdio"]).arg(line.get_program());
    wrapped.current_dir(bench.workspace()).env_clear();
    wrapped.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut server = Server::start(wrapped);
    let pid = server.child.id().to_string();
    let limit = |bytes: &str| {
        let prlimit = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status();
        prlimit.is_ok_and(|status| status.success())
    };
    if !limit("unlimited") {
        return skipped("`prlimit` from util-linux is missing or not permitted, so no disk can be made to look full");
    }
    assert_eq!(server.call("write", json!({ "path": "before", "content": "x" })), "done");

    assert!(limit("4096"));
    for n in 0..3 {
        let code = server.call("write", json!({ "path": format!("during-{n}"), "content": "x" }));
        assert_eq!(code, "record_unwritable");
        assert!(!bench.workspace().join(format!("during-{n}")).exists(), "an effect without a record");
    }
    assert_eq!(server.call("delete", json!({ "path": "before" })), "record_unwritable");
    assert_eq!(bench.text("before"), "x");

    assert!(limit("unlimited"));
    assert_eq!(server.call("write", json!({ "path": "after", "content": "x" })), "done");
    server.stop();
    verified(&bench);
}

#[test]
fn a_full_disk_refuses_a_call_before_it_takes_effect() {
    let bench = Bench::new();
    fs::create_dir(bench.data()).unwrap();
    let line = bench.command(&[]);
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=400k,mode=700 toolgate-test \"$2\" || exit 90
        \"$1\" call write '{\"path\":\"before\",\"content\":\"x\"}' || exit 91
        dd if=/dev/zero of=\"$2/ballast\" bs=1k count=1000 2>/dev/null
        \"$1\" call write '{\"path\":\"during\",\"content\":\"x\"}'
        echo \"exit $?\"
        rm \"$2/ballast\"
        \"$1\" call write '{\"path\":\"after\",\"content\":\"x\"}' || exit 92
        \"$1\" audit verify || exit 93";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).arg(line.get_program());
    command.arg(bench.data()).current_dir(bench.workspace()).env_clear();
    command.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::of(&mut command);
    if ran.stdout.is_empty() {
        return skipped(format!("this machine does not let us mount a small disk: {}", ran.stderr.trim()));
    }
    assert_eq!(ran.status, 0, "{ran}");
    assert!(ran.stdout.contains("exit 3"), "{ran}");
    assert!(bench.workspace().join("before").exists() && bench.workspace().join("after").exists(), "{ran}");
    assert!(!bench.workspace().join("during").exists(), "an effect without a record: {ran}");
}

// ---- helpers ----

/// The record in [`logged`] that has a sealed result.
const SEALED: u64 = 14;

/// A log with a few calls, one of them with a raw result, closed.
fn logged() -> Bench {
    let bench = Bench::new();
    for n in 0..4 {
        bench.call("write", &json!({ "path": format!("{n}"), "content": "written" })).done();
    }
    bench.call("url_encode", &json!({ "text": " ".repeat(30_000) })).done();
    bench.call("echo", &json!({ "text": "last" })).done();
    verified(&bench);
    bench
}

/// The bodies of all records.
fn export(bench: &Bench) -> Vec<Value> {
    let ran = bench.run(&["audit", "export"]).exits(0);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bodies of a database that was set aside.
fn export_of(bench: &Bench, database: &[u8]) -> Vec<Value> {
    fs::write(bench.data().join("audit.db"), database).unwrap();
    export(bench)
}

/// Asserts that the log is whole, and gives the report.
#[track_caller]
fn verified(bench: &Bench) -> Value {
    bench.run(&["audit", "verify", "--json"]).exits(0).json()
}

/// Asserts that a report of `verify` says what happened to this record.
#[track_caller]
fn assert_names(ran: &Ran, seq: u64) {
    let report = ran.json();
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["seq"] == seq), "record {seq} is not named: {report:#}");
}

/// Does something to the database as one who knows it: the triggers are gone meanwhile and back afterwards.
fn attack(bench: &Bench, sql: &str) {
    let triggers = drop_triggers(bench);
    let database = Connection::open(bench.data().join("audit.db")).unwrap();
    database.execute_batch(sql).unwrap();
    database.execute_batch(&triggers).unwrap();
}

/// Drops the triggers and gives the text that makes them again.
fn drop_triggers(bench: &Bench) -> String {
    let database = Connection::open(bench.data().join("audit.db")).unwrap();
    let triggers: Vec<(String, String)> = database
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(!triggers.is_empty());
    let drops: String = triggers.iter().map(|(name, _)| format!("DROP TRIGGER {name};")).collect();
    database.execute_batch(&drops).unwrap();
    triggers.into_iter().map(|(_, sql)| sql + ";").collect()
}

fn tools_call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

/// A server on pipes, past its first handshake.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, stdin, stdout };
        server.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        } }));
        server.hear();
        server.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Makes a call and says how it ended: `done`, or the code in brackets its text begins with.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.say(&tools_call(2, tool, arguments));
        let answer = self.hear();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((code, _)) if answer["result"]["isError"] == true => code.to_owned(),
            _ => "done".to_owned(),
        }
    }

    fn stop(mut self) {
        drop(self.stdin);
        self.child.wait().unwrap();
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
