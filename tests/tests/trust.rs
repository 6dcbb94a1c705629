//! Trust from outside: work raises an agent, failure lowers it, a person is needed at the top, and a restart changes
//! nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use rusqlite::Connection;
use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran};

/// The published milestones.
const MILESTONES: &str = "
agents: { default: { constraints: { network_allowlist: [site.test] } } }
trust:
  strategy: milestone
  initial_level: sandboxed
  milestones:
    sandboxed_to_restricted: { tasks_completed: 5, quality_score_min: 7.0, auto_promote: true }
    restricted_to_standard: { tasks_completed: 20, quality_score_min: 8.0, time_active_days: 7, auto_promote: true }
    standard_to_elevated: { requires_human_approval: true, clean_history_days: 14 }
  re_verification: { enabled: true, interval_days: 90, decay_on_idle_days: 30, decay_on_error_rate: 0.15 }
";

/// Criteria short enough to be met in a test.
const CRITERIA: &str = "
trust:
  strategy: per_category
  initial_levels: { file_system: standard, terminal: restricted }
  promotion_criteria:
    file_system:
      standard_to_elevated: { tasks_completed: 2, requires_human_approval: true }
    terminal:
      sandboxed_to_restricted: { tasks_completed: 1 }
      restricted_to_standard: { tasks_completed: 1, quality_score_min: 9.0 }
";

fn bench(config: &str) -> Bench {
    let bench = Bench::new();
    let path = bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, config).unwrap();
    bench
}

fn feedback(bench: &Bench, category: &str, task: &str, rest: &[&str]) -> Value {
    let head = ["trust", "feedback", "default", "--category", category, "--task", task];
    let report = bench.run(&[&head, rest].concat()).exits(0).json();
    report["level"].clone()
}

fn success(bench: &Bench, category: &str, task: &str, difficulty: &str, quality: &str) -> Value {
    feedback(bench, category, task, &["--outcome", "success", "--difficulty", difficulty, "--quality", quality])
}

fn failure(bench: &Bench, category: &str, task: &str) -> Value {
    feedback(bench, category, task, &["--outcome", "failure", "--difficulty", "easy"])
}

fn level(bench: &Bench, category: &str) -> Value {
    bench.run(&["trust", "show", "default", "--json"]).exits(0).json()["levels"][category].clone()
}

fn promote(bench: &Bench, category: &str) -> Ran {
    bench.run(&["trust", "promote", "default", "--category", category])
}

/// What the gate says about a page at this host, and whether the tool is shown at all.
fn gate(bench: &Bench, host: &str) -> (i32, bool) {
    let arguments = json!({ "url": format!("https://{host}/") }).to_string();
    let explained = bench.run(&["explain", "fetch_url", &arguments]);
    let listed = bench.run(&["tools", "--json"]).exits(0).json();
    (explained.status, listed.as_array().unwrap().iter().any(|tool| tool["name"] == "fetch_url"))
}

const ALLOWED: i32 = 0;
const REFUSED: i32 = 3;

#[test]
fn work_in_a_category_opens_that_category_and_no_other() {
    let bench = bench(MILESTONES);
    let fetch = json!({ "url": "https://site.test/" });
    let outcome = bench.call("fetch_url", &fetch).refused("not_permitted");
    assert!(outcome["message"].as_str().unwrap().contains("no network"), "{outcome}");
    assert_eq!(gate(&bench, "site.test"), (REFUSED, false));

    for n in 1..=4 {
        assert_eq!(success(&bench, "web", &format!("t{n}"), "easy", "7"), "sandboxed");
    }
    // Neither a task again, nor one nobody is content with, nor work elsewhere.
    assert_eq!(success(&bench, "web", "t4", "hard", "10"), "sandboxed");
    assert_eq!(success(&bench, "web", "t5", "hard", "6.9"), "sandboxed");
    for n in 1..=6 {
        success(&bench, "database", &format!("d{n}"), "hard", "10");
    }
    assert_eq!(level(&bench, "web"), "sandboxed");
    bench.call("fetch_url", &fetch).refused("not_permitted");

    assert_eq!(success(&bench, "web", "t6", "easy", "7"), "restricted");
    assert_eq!(gate(&bench, "site.test"), (ALLOWED, true));
    assert_eq!(gate(&bench, "other.test"), (REFUSED, true));
    // The same call now gets as far as the network, where that name belongs to nobody.
    bench.call("fetch_url", &fetch).refused("host_refused");
    assert_eq!((level(&bench, "terminal"), level(&bench, "file_system")), (json!("sandboxed"), json!("sandboxed")));
}

#[test]
fn a_streak_of_failures_lowers_and_what_was_earned_before_is_gone() {
    let bench = bench(MILESTONES);
    for n in 1..=5 {
        success(&bench, "web", &format!("t{n}"), "easy", "9");
    }
    assert_eq!(failure(&bench, "web", "f1"), "restricted");
    assert_eq!(failure(&bench, "web", "f2"), "sandboxed");
    assert_eq!(gate(&bench, "site.test"), (REFUSED, false));
    for n in 6..=9 {
        assert_eq!(success(&bench, "web", &format!("t{n}"), "hard", "10"), "sandboxed");
    }
    let shown = bench.run(&["trust", "show", "default", "--json"]).exits(0).json();
    let steps: Vec<_> = shown["because"].as_array().unwrap().iter().map(|step| (&step["from"], &step["to"])).collect();
    let (low, high) = (&json!("sandboxed"), &json!("restricted"));
    assert_eq!(steps, [(low, high), (high, low)]);
    assert_eq!(shown["because"][1]["why"], "2 errors among the 7 calls and tasks of a week are more than 15 %");
}

#[test]
fn an_incident_costs_one_step_however_often_it_is_told() {
    let bench = bench(CRITERIA);
    assert_eq!(level(&bench, "file_system"), "standard");
    for _ in 0..3 {
        assert_eq!(feedback(&bench, "file_system", "leak", &["--incident"]), "restricted");
    }
    assert_eq!(feedback(&bench, "file_system", "other", &["--incident"]), "sandboxed");
    assert_eq!(level(&bench, "terminal"), "restricted");
}

#[test]
fn a_step_waits_for_the_person_the_rules_want() {
    let bench = bench(CRITERIA);
    let refused = promote(&bench, "file_system").exits(3);
    assert!(refused.stderr.contains("error[not_pending]"), "{refused}");
    success(&bench, "file_system", "t1", "hard", "8");
    success(&bench, "file_system", "t2", "medium", "8");
    promote(&bench, "file_system").exits(3);

    // Enough is there; and still nothing happens by itself.
    assert_eq!(success(&bench, "file_system", "t3", "hard", "8"), "standard");
    for n in 4..9 {
        assert_eq!(success(&bench, "file_system", &format!("t{n}"), "hard", "10"), "standard");
    }
    let evaluated = bench.run(&["trust", "evaluate", "default", "--json"]).exits(0).json();
    let step = json!({ "category": "file_system", "from": "standard", "to": "elevated" });
    assert_eq!(evaluated["pending"], json!([step]));
    promote(&bench, "terminal").exits(3);
    assert_eq!(promote(&bench, "file_system").exits(0).json(), step);
    assert_eq!(level(&bench, "file_system"), "elevated");
    promote(&bench, "file_system").exits(3);

    // The person is in the record.
    let record = bench.run(&["audit", "export"]).exits(0).stdout;
    let notes: Vec<Value> = record
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line.to_string().contains("\"promotion\""))
        .collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].to_string().contains("user:"), "{}", notes[0]);
}

#[test]
fn an_unanswered_question_about_the_next_step_is_answered_by_evaluate() {
    let bench = bench(CRITERIA);
    success(&bench, "file_system", "t1", "hard", "8");
    let evaluated = bench.run(&["trust", "evaluate", "default", "--json"]).exits(0).json();
    let next = |category: &str| {
        let all = evaluated["next"].as_array().unwrap();
        all.iter().find(|next| next["category"] == category).unwrap().clone()
    };
    assert_eq!(
        next("file_system"),
        json!({
            "category": "file_system", "from": "standard", "to": "elevated", "person": true, "possible": true,
            "needs": [{ "need": "tasks", "have": 1, "want": 2, "difficulty": "hard", "quality": null }],
        })
    );
    assert_eq!(
        next("terminal")["needs"],
        json!([{ "need": "tasks", "have": 0, "want": 1, "difficulty": "medium", "quality": 9.0 }])
    );
    assert_eq!(next("web")["possible"], false);
}

#[test]
fn how_calls_end_is_evidence() {
    let bench = bench(CRITERIA);
    bench.put("a.txt", "here\n");
    // To look for what is not there is no error, however often.
    for _ in 0..4 {
        bench.call("read", &json!({ "path": "b.txt" })).exits(1);
    }
    assert_eq!(level(&bench, "file_system"), "standard");
    bench.call("read", &json!({ "path": "a.txt" })).done();
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "missing", "new": "x" }] });
    bench.call("edit", &edit).exits(1);
    assert_eq!(level(&bench, "file_system"), "standard");
    bench.call("edit", &edit).exits(1);
    assert_eq!(level(&bench, "file_system"), "restricted");
    assert_eq!(level(&bench, "terminal"), "restricted");
}

#[test]
fn a_call_through_another_tool_counts_once_and_where_it_worked() {
    let bench = bench(CRITERIA);
    bench.put("a.txt", "here\n");
    let through = |tool: &str, arguments: &Value| json!({ "name": tool, "arguments": arguments });
    // To look for a tool, or to ask for one in a way nobody understands, is no work.
    bench.call("list_tools", &json!({})).done();
    bench.call("load_tool", &json!({ "name": "edit" })).done();
    bench.call("call_tool", &json!({})).failed("invalid_arguments");
    assert_eq!(counted(&bench), [""; 0]);

    let edit = json!({ "path": "a.txt", "edits": [{ "old": "missing", "new": "x" }] });
    bench.call("call_tool", &through("edit", &edit)).exits(1);
    assert_eq!(counted(&bench), ["file_system 0 1"]);
    assert_eq!(level(&bench, "file_system"), "standard", "two failures in a row would lower it");
    // What is counted of the first is written at once, and with the second whatever else was counted of it.
    let calls = [("read", json!({ "path": "a.txt" })), ("edit", edit)];
    let calls = calls.map(|(tool, arguments)| json!({ "tool": "call_tool", "arguments": through(tool, &arguments) }));
    bench.run_with(&["turn"], json!(calls).to_string()).exits(1);
    assert_eq!(counted(&bench), ["file_system 0 1", "file_system 1 0", "file_system 0 1"]);
}

/// The calls that were counted, as `category ok failed`, in the order they were written down.
fn counted(bench: &Bench) -> Vec<String> {
    let state = Connection::open(bench.data().join("state.db")).unwrap();
    let mut query = state.prepare("SELECT body FROM evidence WHERE kind = 'calls' ORDER BY seq").unwrap();
    let bodies = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let line = |body: String| {
        let body: Value = serde_json::from_str(&body).unwrap();
        format!("{} {} {}", body["category"].as_str().unwrap(), body["ok"], body["failed"])
    };
    bodies.map(|body| line(body.unwrap())).collect()
}

#[test]
fn a_level_that_is_set_is_not_moved() {
    let config = format!("{MILESTONES}\n").replace(
        "agents: { default: { constraints: { network_allowlist: [site.test] } } }",
        "agents: { default: { level: restricted, constraints: { network_allowlist: [site.test] } } }",
    );
    let bench = bench(&config);
    for n in 0..3 {
        assert_eq!(failure(&bench, "web", &format!("f{n}")), Value::Null);
    }
    assert_eq!(gate(&bench, "site.test"), (ALLOWED, true));
    let shown = bench.run(&["trust", "show", "default", "--json"]).exits(0).json();
    assert_eq!(shown, json!({ "agent": "default", "strategy": "milestone", "start": "restricted" }));
    let refused = promote(&bench, "web").exits(3);
    assert!(refused.stderr.contains("error[level_is_set]"), "{refused}");
}

#[test]
fn trust_is_never_more_than_the_policy_permits() {
    let denied = format!("{MILESTONES}policy: {{ denied: {{ tools: [fetch_url] }} }}\n");
    let bench = bench(&denied);
    for n in 1..=5 {
        success(&bench, "web", &format!("t{n}"), "easy", "9");
    }
    assert_eq!(level(&bench, "web"), "restricted");
    assert_eq!(gate(&bench, "site.test"), (REFUSED, false));
    let asked = MILESTONES.replace(
        "agents: { default: { constraints: {",
        "agents: { default: { ask: { tools: [fetch_url] }, constraints: {",
    );
    fs::write(bench.home().join(".config/toolgate/toolgate.yaml"), asked).unwrap();
    assert_eq!(gate(&bench, "site.test"), (4, true));
}

#[test]
fn another_role_under_the_same_name_is_another_agent() {
    let roles = |role: &str| CRITERIA.to_owned() + &format!("agents: {{ default: {{ roles: [{role}] }} }}\n");
    let bench = bench(&roles("writer"));
    bench.put("a.txt", "here\n");
    let read = json!({ "path": "a.txt" });
    bench.call("read", &read).done();
    assert_eq!(success(&bench, "terminal", "t1", "medium", "9"), "standard");
    bench.call("read", &read).done();
    assert_eq!(level(&bench, "terminal"), "standard");
    fs::write(bench.home().join(".config/toolgate/toolgate.yaml"), roles("operator")).unwrap();
    bench.call("read", &read).done();
    assert_eq!(level(&bench, "terminal"), "restricted");

    // The same for what only people know.
    assert_eq!(success(&bench, "terminal", "t2", "medium", "9"), "standard");
    for model in ["small", "small"] {
        bench.run(&["trust", "identity", "default", "--model", model]).exits(0);
        assert_eq!(level(&bench, "terminal"), "standard");
    }
    bench.run(&["trust", "identity", "default", "--model", "large"]).exits(0);
    assert_eq!(level(&bench, "terminal"), "restricted");
}

#[test]
fn evidence_that_cannot_be_read_trusts_nobody() {
    let config = format!("{CRITERIA}agents: {{ default: {{}}, pinned: {{ level: standard }} }}\n");
    let bench = bench(&config);
    bench.put("a.txt", "here\n");
    let read = |agent: &str| bench.run(&["call", "read", r#"{"path":"a.txt"}"#, "--agent", agent]);
    read("default").done();
    let state = Connection::open(bench.data().join("state.db")).unwrap();
    state.execute("INSERT INTO evidence(agent, at_ms, kind, body) VALUES ('default', 1, 'task', '{}')", []).unwrap();
    read("default").refused("state_unusable");
    read("pinned").done();
}

#[test]
fn a_server_hears_of_it_while_it_runs() {
    let bench = bench(MILESTONES);
    let mut server = bench.command(&["serve", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
        loop {
            let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    };
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    ask(1, "initialize", hello);
    let mut shown = |id: u64| {
        let tools = ask(id, "tools/list", json!({}))["tools"].clone();
        let call = json!({ "name": "fetch_url", "arguments": { "url": "https://site.test/" } });
        let text = ask(id + 1, "tools/call", call)["content"][0]["text"].as_str().unwrap().to_owned();
        let listed = tools.as_array().unwrap().iter().any(|tool| tool["name"] == "fetch_url");
        (listed, text.contains("not permitted"))
    };
    assert_eq!(shown(2), (false, true));
    for n in 1..=5 {
        success(&bench, "web", &format!("t{n}"), "easy", "9");
    }
    assert_eq!(shown(4), (true, false));
    feedback(&bench, "web", "leak", &["--incident"]);
    assert_eq!(shown(6), (false, true));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_report_that_says_nothing_is_a_wrong_command_line() {
    let bench = bench(CRITERIA);
    let head = ["trust", "feedback", "default", "--category", "web", "--task", "t"];
    for rest in [
        &[][..],
        &["--outcome", "success"],
        &["--outcome", "triumph", "--difficulty", "easy"],
        &["--outcome", "success", "--difficulty", "heroic"],
        &["--outcome", "success", "--difficulty", "easy", "--quality", "11"],
        &["--quality", "9"],
    ] {
        bench.run(&[&head, rest].concat()).exits(2);
    }
    bench.run(&["trust", "feedback", "default", "--category", "wbe", "--task", "t", "--incident"]).exits(2);
    bench.run(&["trust", "identity", "default"]).exits(2);
    bench.run(&["trust", "show", "nobody"]).exits(3);
    bench.run(&["trust", "feedback", "default", "--category", "web", "--task", " ", "--incident"]).exits(1);
    assert_eq!(level(&bench, "web"), "restricted");
}
