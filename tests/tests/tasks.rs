//! Calls that take longer than a moment, for clients that know tasks: looked at, answered, taken back, and nobody else's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolgate_tests::{Bench, hostile::Hostile};

/// The tools of the server. A tool has sixteen calls under way at most, so what is tried with more takes several.
const TOOLS: [&str; 9] = ["slow", "ask", "quick", "hang", "hang2", "hang3", "wonder", "wonder2", "wonder3"];

/// Toolgate over HTTP with one slow server, called `far`, and a token for each of two agents.
struct Town {
    bench: Bench,
    child: Child,
    host: String,
    tokens: [String; 2],
    server: Hostile,
}

impl Town {
    fn new() -> Self {
        let bench = Bench::new();
        let tool =
            |name: &str| json!({ "name": name, "description": "Takes its time.", "inputSchema": { "type": "object" } });
        let told = |text: &str| json!({ "result": { "content": [{ "type": "text", "text": text }, { "type": "hologram", "depth": 3 }] } });
        let question = json!({ "message": "Go on?", "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
        let ask = json!({ "ask": { "method": "elicitation/create", "params": question } });
        let wonder = json!([ask, told("$answer_text")]);
        let server = Hostile::start(json!({
            "era": "legacy", "tools": [TOOLS.map(tool)],
            "answers": {
                "tools/call:slow": [[{ "wait": 7_000 }, told("at last")]],
                "tools/call:ask": [[{ "wait": 6_000 }, ask, told("$answer_text")]],
                "tools/call:quick": [[told("at once")]],
                "tools/call:hang": [["hang"]], "tools/call:hang2": [["hang"]], "tools/call:hang3": [["hang"]],
                "tools/call:wonder": [wonder], "tools/call:wonder2": [wonder], "tools/call:wonder3": [wonder],
            },
        }));
        let terms = json!({ "action": "external_data:request", "safety": "network" });
        let terms: Value = TOOLS.iter().map(|name| (name.to_string(), terms.clone())).collect();
        let config = json!({
            "definitions": { "first_sight": "pin" },
            "egress": { "hostname_allowlist": ["127.0.0.1"] },
            "information_flow": "off",
            "agents": { "default": { "level": "standard" }, "second": { "level": "standard" } },
            "policy": { "rules": [{ "id": "far", "verdict": "allow", "tools": ["far__*"], "because": "it is tried" }] },
            "mcp_servers": { "far": { "url": server.url(), "may_ask": ["elicitation"], "request_seconds": 60, "tools": terms } },
        });
        let file = bench.outside().join("config.yaml").display().to_string();
        fs::write(&file, config.to_string()).unwrap();
        let token = |agent: &str| {
            let ran = bench.run(&["tokens", "add", "--agent", agent, "--config", &file]).exits(0);
            ran.stdout.trim().to_owned()
        };
        let tokens = [token("default"), token("second")];
        let mut command = bench.command(&["serve", "--http", "127.0.0.1:0", "--config", &file]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let host = lines.find_map(|line| line.strip_prefix("Console: http://").map(str::to_owned)).unwrap();
        thread::spawn(move || lines.for_each(drop));
        Self { bench, child, host, tokens, server }
    }

    /// One request of an agent whose client can do this, and what is answered.
    fn ask(&self, agent: usize, can: &Value, method: &str, params: Value) -> Value {
        let mut answer = String::new();
        self.post(agent, can, method, params).read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap()
    }

    /// The same, where nobody has read the answer yet.
    fn post(&self, agent: usize, can: &Value, method: &str, mut params: Value) -> TcpStream {
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": can,
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\nContent-Length: {}\r\n\r\n",
            self.host,
            self.tokens[agent],
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    }

    /// The name of the task a call became.
    #[track_caller]
    fn task(&self, can: &Value, tool: &str) -> String {
        let begun = self.ask(0, can, "tools/call", json!({ "name": tool, "arguments": {} }));
        let task = &begun["result"];
        assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{begun}");
        assert!(task["ttlMs"].as_u64().is_some() && task["pollIntervalMs"].as_u64().is_some(), "{begun}");
        task["taskId"].as_str().unwrap().to_owned()
    }

    /// How a task stands once it is no longer at this.
    #[track_caller]
    fn after(&self, can: &Value, task: &str, status: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let shown = self.ask(0, can, "tasks/get", json!({ "taskId": task }))["result"].take();
            assert_eq!(shown["resultType"], "complete", "{shown}");
            if shown["status"] != status {
                return shown;
            }
            assert!(Instant::now() < until, "a minute later it is still {status}: {shown}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Tells it to stop, and waits until it has.
    fn stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it was told to stop and did not");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Outcomes in the record, as `tool code`.
    fn recorded(&self) -> Vec<String> {
        let tail = self.bench.run(&["audit", "tail", "50"]).exits(0).json();
        let outcomes =
            tail.as_array().unwrap().iter().map(|line| &line["body"]["outcome"]).filter(|outcome| !outcome.is_null());
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        outcomes.map(|outcome| format!("{} {}", word(&outcome["tool"]), word(&outcome["code"]))).collect()
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that can show forms, and knows no tasks.
fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// A client that knows tasks and can show forms.
fn knows() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "form": {} } })
}

#[test]
fn a_long_call_becomes_a_task_and_its_result_is_the_whole_result() {
    let (town, can) = (Town::new(), knows());
    let found = town.ask(0, &can, "server/discover", json!({}));
    assert!(found["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{found}");
    let quick = town.ask(0, &can, "tools/call", json!({ "name": "far__quick", "arguments": {} }));
    assert_eq!(quick["result"]["content"][0]["text"], "at once", "{quick}");

    let task = town.task(&can, "far__slow");
    let done = town.after(&can, &task, "working");
    assert_eq!(done["status"], "completed", "{done}");
    // What nobody here has a word for is in it too.
    let hologram = json!({ "type": "hologram", "depth": 3 });
    assert_eq!(
        (&done["result"]["content"][0]["text"], &done["result"]["content"][1]),
        (&json!("at last"), &hologram),
        "{done}"
    );
    assert_eq!(done["result"]["_meta"]["io.github.toolgate/outcome"]["status"], "done", "{done}");
    assert!(!done.to_string().contains("relayed"), "{done}");
    assert_eq!(town.after(&can, &task, "working"), done);
    assert_eq!(town.recorded().iter().filter(|ended| *ended == "far__slow -").count(), 1);
}

#[test]
fn a_client_that_knows_no_tasks_gets_none() {
    let (town, can) = (Town::new(), json!({}));
    let done = town.ask(0, &can, "tools/call", json!({ "name": "far__slow", "arguments": {} }));
    assert_eq!(done["result"]["content"][0]["text"], "at last", "{done}");
    let refused = town.ask(0, &can, "tasks/get", json!({ "taskId": "x" }));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[test]
fn a_task_asks_and_goes_on_with_the_answer() {
    let (town, can) = (Town::new(), knows());
    let task = town.task(&can, "far__ask");
    let asks = town.after(&can, &task, "working");
    assert_eq!(asks["status"], "input_required", "{asks}");
    let (key, request) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["message"], "Server `far` asks: Go on?", "{asks}");
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    // An answer to something else, or that fits no question, changes nothing.
    for (name, other) in [("question", &answer), (&**key, &json!({ "action": "perhaps" }))] {
        let taken = town.ask(0, &can, "tasks/update", json!({ "taskId": task, "inputResponses": { name: other } }));
        assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(town.after(&can, &task, "working")["status"], "input_required");
    town.ask(0, &can, "tasks/update", json!({ "taskId": task, "inputResponses": { key: answer } }));
    let mut done = town.after(&can, &task, "input_required");
    if done["status"] == "working" {
        done = town.after(&can, &task, "working");
    }
    let said: Value = serde_json::from_str(done["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(said, answer, "{done}");
}

#[test]
fn a_task_is_taken_back_by_whoever_made_it_and_by_nobody_else() {
    let (town, can) = (Town::new(), knows());
    let task = town.task(&can, "far__hang");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({ "taskId": task, "inputResponses": {} });
        let params = if method == "tasks/update" { params } else { json!({ "taskId": task }) };
        let refused = town.ask(1, &can, method, params);
        let error = &refused["error"];
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(-32602), &json!("unknown_task")),
            "{method} {refused}"
        );
    }
    assert_eq!(town.ask(0, &can, "tasks/get", json!({ "taskId": task }))["result"]["status"], "working");
    let taken = town.ask(0, &can, "tasks/cancel", json!({ "taskId": task }));
    assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    let ended = town.after(&can, &task, "working");
    assert_eq!((&ended["status"], ended.get("result")), (&json!("cancelled"), None), "{ended}");
    assert_eq!(town.recorded().iter().filter(|ended| *ended == "far__hang cancelled").count(), 1);
    let heard = town.server.heard();
    assert!(heard.iter().any(|heard| heard["message"]["method"] == "notifications/cancelled"), "{heard:?}");
    // What has ended stays as it ended.
    town.ask(0, &can, "tasks/cancel", json!({ "taskId": task }));
    assert_eq!(town.ask(0, &can, "tasks/get", json!({ "taskId": task }))["result"]["status"], "cancelled");
}

#[test]
fn a_server_that_is_told_to_stop_leaves_no_call_without_an_end() {
    let (mut town, can) = (Town::new(), knows());
    town.task(&can, "far__hang");
    // Two that are no tasks: one waits for an answer, and one for nothing but its end.
    let asks = town.ask(0, &forms(), "tools/call", json!({ "name": "far__wonder", "arguments": {} }));
    assert!(asks["result"]["requestState"].is_string(), "{asks}");
    let waiting = town.post(0, &json!({}), "tools/call", json!({ "name": "far__hang", "arguments": {} }));
    let until = Instant::now() + Duration::from_secs(20);
    let called = || town.server.heard().iter().filter(|heard| heard["message"]["params"]["name"] == "hang").count();
    while called() < 2 {
        assert!(Instant::now() < until, "the second call did not reach its server");
        thread::sleep(Duration::from_millis(20));
    }
    town.stop();
    drop(waiting);
    let mut ended: Vec<_> = town.recorded().into_iter().filter(|ended| ended.starts_with("far__")).collect();
    ended.sort();
    assert_eq!(ended, ["far__hang cancelled", "far__hang cancelled", "far__wonder cancelled"]);
}

#[test]
fn an_agent_has_so_many_tasks_and_more_calls_wait() {
    let (mut town, can) = (Town::new(), knows());
    let tools = ["far__hang", "far__hang2", "far__hang3"];
    let calls = tools.iter().cycle().take(36);
    let calls: Vec<_> =
        calls.map(|tool| town.post(0, &can, "tools/call", json!({ "name": tool, "arguments": {} }))).collect();
    // After five seconds a call is a task, or waits until it ends.
    let until = Instant::now() + Duration::from_secs(10);
    let is_task = |mut call: &TcpStream| {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        call.set_read_timeout(Some(left)).unwrap();
        let mut answer = String::new();
        call.read_to_string(&mut answer).is_ok_and(|_| answer.contains(r#""resultType":"task""#))
    };
    assert_eq!(calls.iter().filter(|call| is_task(call)).count(), 32);
    // Another agent has its own.
    let other = town.ask(1, &can, "tools/call", json!({ "name": "far__slow", "arguments": {} }));
    assert_eq!(other["result"]["resultType"], "task", "{other}");
    town.stop();
    assert_eq!(town.recorded().iter().filter(|ended| ended.ends_with(" cancelled")).count(), 37);
}

#[test]
fn so_many_calls_of_an_agent_wait_for_answers_and_the_oldest_is_cancelled() {
    let (town, can) = (Town::new(), forms());
    let tools = ["far__wonder", "far__wonder2", "far__wonder3"];
    let call = |at: usize, params: Value| {
        let mut params = params;
        (params["name"], params["arguments"]) = (json!(tools[at % tools.len()]), json!({}));
        town.ask(0, &can, "tools/call", params)
    };
    let asks: Vec<_> = (0..33).map(|at| call(at, json!({}))).collect();
    let answer = json!({ "question": { "action": "accept", "content": { "name": "Ann" } } });
    let again = |at: usize| {
        let state = &asks[at]["result"]["requestState"];
        assert!(state.is_string(), "{}", asks[at]);
        call(at, json!({ "requestState": state, "inputResponses": answer }))
    };
    let refused = again(0);
    assert_eq!(refused["error"]["data"]["code"], "bad_request_state", "{refused}");
    let until = Instant::now() + Duration::from_secs(20);
    while town.recorded().iter().filter(|ended| ended.ends_with(" cancelled")).count() == 0 {
        assert!(Instant::now() < until, "the oldest was not cancelled");
        thread::sleep(Duration::from_millis(50));
    }
    for at in [1, 32] {
        let done = again(at);
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("Ann"), "{done}");
    }
}
