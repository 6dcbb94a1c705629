//! Calls that take longer than a moment, for clients that know tasks: looked at, answered, taken back, and nobody else's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    io::Read,
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolgate_tests::{
    gateway::Served,
    town::{Town, meta, wait_until},
};

/// The tools of the server. A tool has sixteen calls under way at most, so what is tried with more takes several.
const TOOLS: [&str; 9] = ["slow", "ask", "quick", "hang", "hang2", "hang3", "wonder", "wonder2", "wonder3"];

/// Toolgate over HTTP with one slow server, called `far`, and a token for each of two agents.
struct Place {
    served: Served,
    town: Town,
    tokens: [String; 2],
}

impl Place {
    fn new() -> Self {
        let town = Self::town();
        let second = town.run(&["tokens", "add", "--agent", "second"]).exits(0).stdout.trim().to_owned();
        let served = Served::with(&town.bench, &["--config", &town.config().to_string_lossy()]);
        let tokens = [served.token().to_owned(), second];
        Self { served, town, tokens }
    }

    fn town() -> Town {
        let tool =
            |name: &str| json!({ "name": name, "description": "Takes its time.", "inputSchema": { "type": "object" } });
        let told = |text: &str| json!({ "result": { "content": [{ "type": "text", "text": text }, { "type": "hologram", "depth": 3 }] } });
        let question = json!({ "message": "Go on?", "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
        let ask = json!({ "ask": { "method": "elicitation/create", "params": question } });
        let wonder = json!([ask, told("$answer_text")]);
        let script = json!({
            "era": "legacy", "tools": [TOOLS.map(tool)],
            "answers": {
                "tools/call:slow": [[{ "wait": 7_000 }, told("at last")]],
                "tools/call:ask": [[{ "wait": 6_000 }, ask, told("$answer_text")]],
                "tools/call:quick": [[told("at once")]],
                "tools/call:hang": [["hang"]], "tools/call:hang2": [["hang"]], "tools/call:hang3": [["hang"]],
                "tools/call:wonder": [wonder], "tools/call:wonder2": [wonder], "tools/call:wonder3": [wonder],
            },
        });
        Town::new(&TOOLS)
            .setting("information_flow", json!("off"))
            .setting("agents", json!({ "default": { "level": "standard" }, "second": { "level": "standard" } }))
            .host("far", script)
            .set("far", "may_ask", json!(["elicitation"]))
            .set("far", "request_seconds", json!(60))
    }

    /// One request of an agent whose client can do this, and what is answered.
    fn ask(&self, agent: usize, can: &Value, method: &str, params: Value) -> Value {
        self.served.ask(&self.tokens[agent], can, method, params)
    }

    /// The same, where nobody has read the answer yet.
    fn post(&self, agent: usize, can: &Value, method: &str, params: Value) -> TcpStream {
        self.served.post(&self.tokens[agent], can, method, params)
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

    /// Outcomes in the record, as `tool code`.
    fn recorded(&self) -> Vec<String> {
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let outcomes = self.town.outcomes();
        outcomes.iter().map(|outcome| format!("{} {}", word(&outcome["tool"]), word(&outcome["code"]))).collect()
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
    let (place, can) = (Place::new(), knows());
    let found = place.ask(0, &can, "server/discover", json!({}));
    assert!(found["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{found}");
    let quick = place.ask(0, &can, "tools/call", json!({ "name": "far__quick", "arguments": {} }));
    assert_eq!(quick["result"]["content"][0]["text"], "at once", "{quick}");

    let task = place.task(&can, "far__slow");
    let done = place.after(&can, &task, "working");
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
    assert_eq!(place.after(&can, &task, "working"), done);
    assert_eq!(place.recorded().iter().filter(|ended| *ended == "far__slow -").count(), 1);
}

#[test]
fn a_client_that_knows_no_tasks_gets_none() {
    let (place, can) = (Place::new(), json!({}));
    let done = place.ask(0, &can, "tools/call", json!({ "name": "far__slow", "arguments": {} }));
    assert_eq!(done["result"]["content"][0]["text"], "at last", "{done}");
    let refused = place.ask(0, &can, "tasks/get", json!({ "taskId": "x" }));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[test]
fn a_task_asks_and_goes_on_with_the_answer() {
    let (place, can) = (Place::new(), knows());
    let task = place.task(&can, "far__ask");
    let asks = place.after(&can, &task, "working");
    assert_eq!(asks["status"], "input_required", "{asks}");
    let (key, request) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["message"], "Server `far` asks: Go on?", "{asks}");
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    // An answer to something else, or that fits no question, changes nothing.
    for (name, other) in [("question", &answer), (&**key, &json!({ "action": "perhaps" }))] {
        let taken = place.ask(0, &can, "tasks/update", json!({ "taskId": task, "inputResponses": { name: other } }));
        assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(place.after(&can, &task, "working")["status"], "input_required");
    place.ask(0, &can, "tasks/update", json!({ "taskId": task, "inputResponses": { key: answer } }));
    let mut done = place.after(&can, &task, "input_required");
    if done["status"] == "working" {
        done = place.after(&can, &task, "working");
    }
    let said: Value = serde_json::from_str(done["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(said, answer, "{done}");
}

#[test]
fn a_task_is_taken_back_by_whoever_made_it_and_by_nobody_else() {
    let (place, can) = (Place::new(), knows());
    let task = place.task(&can, "far__hang");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({ "taskId": task, "inputResponses": {} });
        let params = if method == "tasks/update" { params } else { json!({ "taskId": task }) };
        let refused = place.ask(1, &can, method, params);
        let error = &refused["error"];
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(-32602), &json!("unknown_task")),
            "{method} {refused}"
        );
    }
    assert_eq!(place.ask(0, &can, "tasks/get", json!({ "taskId": task }))["result"]["status"], "working");
    let taken = place.ask(0, &can, "tasks/cancel", json!({ "taskId": task }));
    assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    let ended = place.after(&can, &task, "working");
    assert_eq!((&ended["status"], ended.get("result")), (&json!("cancelled"), None), "{ended}");
    assert_eq!(place.recorded().iter().filter(|ended| *ended == "far__hang cancelled").count(), 1);
    let heard = place.town.hosted["far"].heard();
    assert!(heard.iter().any(|heard| heard["message"]["method"] == "notifications/cancelled"), "{heard:?}");
    // What has ended stays as it ended.
    place.ask(0, &can, "tasks/cancel", json!({ "taskId": task }));
    assert_eq!(place.ask(0, &can, "tasks/get", json!({ "taskId": task }))["result"]["status"], "cancelled");
}

#[test]
fn a_server_that_is_told_to_stop_leaves_no_call_without_an_end() {
    let (mut place, can) = (Place::new(), knows());
    place.task(&can, "far__hang");
    // Two that are no tasks: one waits for an answer, and one for nothing but its end.
    let asks = place.ask(0, &forms(), "tools/call", json!({ "name": "far__wonder", "arguments": {} }));
    assert!(asks["result"]["requestState"].is_string(), "{asks}");
    let waiting = place.post(0, &json!({}), "tools/call", json!({ "name": "far__hang", "arguments": {} }));
    let called = |heard: &Value| heard["message"]["params"]["name"] == "hang";
    wait_until("both have reached their server", || {
        place.town.hosted["far"].heard().iter().filter(|heard| called(heard)).count() == 2
    });
    place.served.stop();
    drop(waiting);
    let mut ended: Vec<_> = place.recorded().into_iter().filter(|ended| ended.starts_with("far__")).collect();
    ended.sort();
    assert_eq!(ended, ["far__hang cancelled", "far__hang cancelled", "far__wonder cancelled"]);
}

#[test]
fn a_task_that_was_begun_over_a_pipe_is_there_over_http() {
    let (town, can) = (Place::town(), knows());
    let (served, mut pipe) = Served::speaking(&town.bench, &["--config", &town.config().to_string_lossy()]);
    pipe.meta = meta(&can);
    let begun = pipe.ask("tools/call", json!({ "name": "far__hang", "arguments": {} }))["result"].take();
    let task = json!({ "taskId": begun["taskId"].as_str().unwrap() });
    let shown = served.ask(served.token(), &can, "tasks/get", task.clone());
    assert_eq!(shown["result"]["status"], "working", "{shown}");
    served.ask(served.token(), &can, "tasks/cancel", task);
    wait_until("it is taken back", || town.outcomes().iter().any(|outcome| outcome["code"] == "cancelled"));
}

#[test]
fn an_agent_has_so_many_tasks_and_more_calls_wait() {
    let (mut place, can) = (Place::new(), knows());
    let tools = ["far__hang", "far__hang2", "far__hang3"];
    let (sender, answers) = mpsc::channel();
    for tool in tools.iter().cycle().take(36) {
        let (mut call, sender) =
            (place.post(0, &can, "tools/call", json!({ "name": tool, "arguments": {} })), sender.clone());
        thread::spawn(move || {
            let mut answer = String::new();
            // Who is cut off when it stops hears nothing.
            let _ = call.read_to_string(&mut answer).map(|_| sender.send(answer));
        });
    }
    // After five seconds a call is a task, or waits until it ends.
    for _ in 0..32 {
        let answer = answers.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(answer.contains(r#""resultType":"task""#), "{answer}");
    }
    answers.recv_timeout(Duration::from_secs(3)).unwrap_err();
    // Another agent has its own.
    let other = place.ask(1, &can, "tools/call", json!({ "name": "far__hang", "arguments": {} }));
    assert_eq!(other["result"]["resultType"], "task", "{other}");
    place.served.stop();
    assert_eq!(place.recorded().iter().filter(|ended| ended.ends_with(" cancelled")).count(), 37);
}

#[test]
fn so_many_calls_of_an_agent_wait_for_answers_and_the_oldest_is_cancelled() {
    let (place, can) = (Place::new(), forms());
    let tools = ["far__wonder", "far__wonder2", "far__wonder3"];
    let call = |at: usize, params: Value| {
        let mut params = params;
        (params["name"], params["arguments"]) = (json!(tools[at % tools.len()]), json!({}));
        place.ask(0, &can, "tools/call", params)
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
    wait_until("the oldest has ended", || place.recorded().iter().any(|ended| ended == "far__wonder cancelled"));
    for at in [1, 32] {
        let done = again(at);
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("Ann"), "{done}");
    }
}
