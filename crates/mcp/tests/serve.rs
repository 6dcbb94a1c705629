//! The server over streams in memory, with tools that wait, count and refuse to stop.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a helper that breaks fails its test")]

use std::{
    collections::BTreeSet,
    io,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split,
    },
    task::JoinHandle,
    time::timeout,
};
use toolgate_contract::{
    ActionType, AgentName, Answer as Vote, ApprovalState, Category, End, Fault, Idempotency, Intent, Note, OnceState,
    Permission, Person, SafetyClass, ToolDef,
};
use toolgate_mcp::{ServeError, serve};
use toolgate_runtime::{
    Runtime, Setup, built_in_tools,
    config::Config,
    store::{
        Store, StoreError,
        state::{ApprovalFilter, EffectFilter, SqliteState, State},
    },
    tools::{Answer, Cx, Tool},
};

/// Far longer than anything here takes. What does not come until then does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Remembers how calls ended.
#[derive(Default)]
struct Memory {
    ended: Mutex<Vec<End>>,
}

impl Memory {
    /// Tool and code of each end.
    fn ends(&self) -> Vec<(String, Option<String>)> {
        let ended = self.ended.lock().unwrap();
        ended.iter().map(|end| (end.outcome.tool.clone(), end.outcome.code.clone())).collect()
    }
}

impl Store for Memory {
    fn begin(&self, _intent: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, end: End) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ended.lock().unwrap().push(end);
        Box::pin(async { Ok(()) })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// Any text.
    #[serde(default)]
    text: String,
}

fn tool(name: &str, body: impl Fn(&Cx, Input) -> Result<Answer<String>, Fault> + Send + Sync + 'static) -> Tool {
    let def = ToolDef {
        name: name.to_owned().into(),
        summary: "A probe.".into(),
        category: Category::Analytics,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        timeout: PATIENCE,
        concurrency: 2_000,
        ..ToolDef::default()
    };
    Tool::pure(def, body)
}

fn echo() -> Tool {
    tool("echo", |_, input| Ok(Answer::new(input.text)))
}

/// Works until it is told to stop.
fn tireless() -> Tool {
    tool("tireless", |cx, _| {
        for done in 0.. {
            cx.check()?;
            cx.progress(f64::from(done), None, None);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Answer::new(String::new()))
    })
}

/// Waits for a word from the test.
fn gated() -> (Tool, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let tool = tool("gated", move |_, _| {
        gate.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        Ok(Answer::new("through".to_owned()))
    });
    (tool, open)
}

/// A client that has not said anything yet.
struct Client {
    write: Option<WriteHalf<DuplexStream>>,
    read: BufReader<ReadHalf<DuplexStream>>,
    served: JoinHandle<Result<(), ServeError>>,
    runtime: Runtime,
    store: Arc<Memory>,
    _workspace: tempfile::TempDir,
}

fn connect(tools: Vec<Tool>) -> Client {
    connect_to(tools, None)
}

fn connect_to(tools: Vec<Tool>, state: Option<Arc<dyn State>>) -> Client {
    connect_with(tools, state, |_| {})
}

fn connect_with(tools: Vec<Tool>, state: Option<Arc<dyn State>>, change: impl FnOnce(&mut Config)) -> Client {
    let workspace = tempfile::tempdir().unwrap();
    let store = Arc::new(Memory::default());
    let mut config = Config::built_in(workspace.path());
    change(&mut config);
    let (hidden, rooms) = (Vec::new(), None);
    let setup = Setup { config, store: store.clone(), state, tools, hidden, rooms, secrets: None };
    attach(Runtime::open(setup).unwrap(), store, workspace)
}

/// A client of a runtime that is there.
fn attach(runtime: Runtime, store: Arc<Memory>, workspace: tempfile::TempDir) -> Client {
    let (ours, theirs) = duplex(64 * 1024);
    let (their_read, their_write) = split(theirs);
    let served = tokio::spawn(serve(runtime.clone(), AgentName::from("default"), their_read, their_write));
    let (read, write) = split(ours);
    Client { write: Some(write), read: BufReader::new(read), served, runtime, store, _workspace: workspace }
}

/// A client that has been greeted.
async fn greet(tools: Vec<Tool>) -> Client {
    greeted(connect(tools)).await
}

async fn greeted(mut client: Client) -> Client {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" },
    });
    client.send(json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello })).await;
    assert_eq!(client.next().await["result"]["serverInfo"]["name"], "toolgate");
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    client
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}

fn call_with_progress(id: i64, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": "how far" } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

impl Client {
    async fn send(&mut self, message: Value) {
        self.send_line(message.to_string()).await;
    }

    async fn send_line(&mut self, line: impl Into<Vec<u8>>) {
        let mut line = line.into();
        line.push(b'\n');
        timeout(PATIENCE, self.write.as_mut().unwrap().write_all(&line)).await.unwrap().unwrap();
    }

    /// The next message, or none after the last.
    async fn try_next(&mut self) -> Option<Value> {
        let mut line = String::new();
        timeout(PATIENCE, self.read.read_line(&mut line)).await.expect("an answer in time").unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    async fn next(&mut self) -> Value {
        self.try_next().await.expect("the server has left")
    }

    /// Everything that is still said after the input has ended.
    async fn rest(&mut self) -> Vec<Value> {
        self.write.take().unwrap().shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = self.try_next().await {
            rest.push(message);
        }
        rest
    }

    /// Ends the input; the server must leave without an error.
    async fn leave(mut self) -> (Vec<Value>, Arc<Memory>) {
        let rest = self.rest().await;
        timeout(PATIENCE, self.served).await.expect("the server leaves").unwrap().unwrap();
        (rest, self.store)
    }
}

fn ids(messages: &[Value]) -> BTreeSet<i64> {
    messages.iter().filter_map(|message| message["id"].as_i64()).collect()
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    // Letters no two of which look alike, so that the catalog takes every name.
    let names = || "abcdefghjk".chars().flat_map(|a| "abcdefghjknp".chars().map(move |b| format!("probe_{a}{b}")));
    let tools = names().map(|name| tool(&name, |_, _| Ok(Answer::new(String::new())))).collect();
    let mut client = greet(tools).await;
    let mut sizes = Vec::new();
    let mut seen = Vec::new();
    let mut params = json!({});
    loop {
        client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params })).await;
        let page = client.next().await["result"].take();
        let names = page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        seen.extend(names.clone());
        sizes.push(names.count());
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    assert_eq!((sizes, seen), (vec![50, 50, 20], names().collect()));

    client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": { "cursor": "x" } })).await;
    let refused = client.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32602)));
    client.leave().await;
}

fn added() -> Tool {
    tool("later", |_, _| Ok(Answer::new(String::new())))
}

#[tokio::test]
async fn a_client_of_an_older_revision_is_told_when_its_tools_change() {
    let mut client = greet(vec![echo()]).await;
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    client.runtime.register(added()).unwrap();
    assert_eq!(client.next().await, told);
    // A change in which the agent has no part is none to it: this tool is refused, and the list stays.
    client.runtime.register(added()).unwrap_err();
    assert_eq!(client.leave().await.0, Vec::<Value>::new());
}

/// A request of the revision in which each says what it speaks.
fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn whoever_subscribes_is_told_when_the_tools_change() {
    let mut client = connect(vec![echo()]);
    let filter = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    client.send(modern(5, "subscriptions/listen", filter.clone())).await;
    let agreed = client.next().await;
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged", "{agreed}");
    assert_eq!(agreed["params"]["notifications"], filter["notifications"], "{agreed}");
    client.runtime.register(added()).unwrap();
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5, "{told}");
    // Who did not subscribe hears nothing; the next word is the answer to the next question.
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } })).await;
    client.send(modern(6, "tools/list", json!({}))).await;
    assert_eq!(client.next().await["id"], 6);
    client.leave().await;
}

/// With a hold a call is answered when a person is, also one whose caller wants to know how far it is; without one it is
/// told at once to come back.
#[tokio::test]
async fn a_call_waits_for_people_as_long_as_the_config_holds_it() {
    let check = async |hold: Duration, request: Value, expected: &str| {
        let kept = tempfile::tempdir().unwrap();
        let state: Arc<dyn State> = Arc::new(SqliteState::open(kept.path()).unwrap());
        let asks = tool("probe", |_, _| Ok(Answer::new("done".to_owned())));
        let asks = Tool { def: ToolDef { permission: Permission::Confirm, ..asks.def.clone() }, ..asks };
        let mut client = greeted(connect_with(vec![asks], Some(state), |config| config.hold = hold)).await;
        client.send(request).await;
        let waiting = || ApprovalFilter { states: vec![ApprovalState::Waiting], agent: None, limit: 1 };
        let approvals = client.runtime.clone();
        let approvals = approvals.approvals().unwrap();
        let asked = timeout(PATIENCE, async {
            loop {
                match approvals.list(waiting()).await.unwrap().pop() {
                    Some(approval) => return approval.id,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let asked = asked.await.unwrap();
        if !hold.is_zero() {
            approvals.answer(&asked, &Person::from("ann"), Vote::Yes, "").await.unwrap();
        }
        let answer = loop {
            let message = client.next().await;
            if message["id"] == 1 {
                break message;
            }
        };
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(expected), "{hold:?}: {answer}");
        client.leave().await;
    };
    check(PATIENCE, call(1, "probe", json!({})), "done").await;
    check(PATIENCE, call_with_progress(1, "probe"), "done").await;
    check(Duration::ZERO, call(1, "probe", json!({})), "[approval_required]").await;
}

/// A tool that asks each time, where ann sits at the client of the agent.
fn asked_at_the_client(seats: &[&str]) -> (Client, tempfile::TempDir) {
    asked_beside(seats, Vec::new())
}

/// The same beside other tools.
fn asked_beside(seats: &[&str], mut tools: Vec<Tool>) -> (Client, tempfile::TempDir) {
    let kept = tempfile::tempdir().unwrap();
    let state: Arc<dyn State> = Arc::new(SqliteState::open(kept.path()).unwrap());
    let asks = tool("probe", |_, input| Ok(Answer::new(format!("did {}", input.text.len()))));
    let asks = Tool { def: ToolDef { permission: Permission::Confirm, ..asks.def.clone() }, ..asks };
    tools.push(asks);
    let client = connect_with(tools, Some(state), |config| {
        config.hold = Duration::ZERO;
        config.at_client = seats.iter().map(|person| (AgentName::from("default"), Person::from(*person))).collect();
    });
    (client, kept)
}

/// Greets as a client that can show forms.
async fn with_forms(mut client: Client) -> Client {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "0" },
    });
    client.send(json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello })).await;
    client.next().await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    client
}

/// How a call ended: its text, from the code in brackets to the first space.
fn ended(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    text.split_inclusive(']').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_at_the_client_answers_while_the_call_waits() {
    for (answer, expected, votes) in [
        (json!({ "action": "accept", "content": { "approve": true } }), "did 5", 1),
        (json!({ "action": "accept", "content": { "approve": false } }), "[approval_denied]", 1),
        (json!({ "action": "decline" }), "[approval_denied]", 1),
        (json!({ "action": "cancel" }), "[approval_required]", 0),
        (json!({ "action": "accept", "content": {} }), "[approval_required]", 0),
    ] {
        let (client, _kept) = asked_at_the_client(&["ann"]);
        let mut client = with_forms(client).await;
        client.send(call(1, "probe", json!({ "text": "a\u{202e}b" }))).await;
        let asked = client.next().await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("`probe`") && message.contains(r"a\u{202e}b"), "{message}");
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["approve"]));
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
        assert_eq!(ended(&client.next().await), expected, "{answer}");
        let filter = ApprovalFilter { states: Vec::new(), agent: None, limit: 5 };
        let runtime = client.runtime.clone();
        let rounds = runtime.approvals().unwrap().list(filter).await.unwrap();
        let said: Vec<_> = rounds.iter().flat_map(|round| &round.votes).map(|vote| vote.by.clone()).collect();
        assert_eq!(said, vec![Person::from("ann"); votes]);
        client.leave().await;
    }
}

#[tokio::test]
async fn nobody_is_asked_at_a_client_unless_the_config_names_them() {
    let (client, _kept) = asked_at_the_client(&[]);
    let mut client = with_forms(client).await;
    client.send(call(1, "probe", json!({}))).await;
    assert_eq!(ended(&client.next().await), "[approval_required]");
    client.leave().await;
    // Nor where the client has no forms.
    let (client, _kept) = asked_at_the_client(&["ann"]);
    let mut client = greeted(client).await;
    client.send(call(1, "probe", json!({}))).await;
    assert_eq!(ended(&client.next().await), "[approval_required]");
    client.leave().await;
}

#[tokio::test]
async fn somebody_else_may_answer_first() {
    let (client, _kept) = asked_at_the_client(&["ann"]);
    let mut client = with_forms(client).await;
    client.send(call(1, "probe", json!({}))).await;
    assert_eq!(client.next().await["method"], "elicitation/create");
    let filter = ApprovalFilter { states: vec![ApprovalState::Waiting], agent: None, limit: 1 };
    let runtime = client.runtime.clone();
    let approvals = runtime.approvals().unwrap();
    let id = approvals.list(filter).await.unwrap().remove(0).id;
    approvals.answer(&id, &Person::from("bob"), Vote::Yes, "").await.unwrap();
    let answer = loop {
        let message = client.next().await;
        if message["id"] == 1 {
            break message;
        }
    };
    assert_eq!(ended(&answer), "did 0");
    client.leave().await;
}

#[tokio::test]
async fn in_the_newest_revision_the_answer_comes_with_another_call() {
    let (mut client, _kept) = asked_at_the_client(&["ann"]);
    let request = |id: i64, text: &str, more: Value| {
        let mut request = modern(id, "tools/call", json!({ "name": "probe", "arguments": { "text": text } }));
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": { "form": {} } });
        more.as_object().unwrap().iter().for_each(|(key, value)| request["params"][key] = value.clone());
        request
    };
    let yes = json!({ "approval": { "action": "accept", "content": { "approve": true } } });
    let ask = async |client: &mut Client, id: i64, text: &str| {
        client.send(request(id, text, json!({}))).await;
        let asked = client.next().await["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let form = &asked["inputRequests"]["approval"];
        assert_eq!(
            (&form["method"], &form["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form")),
            "{asked}"
        );
        asked["requestState"].as_str().unwrap().to_owned()
    };
    let state = ask(&mut client, 1, "one").await;
    client.send(request(2, "one", json!({ "requestState": state, "inputResponses": yes }))).await;
    assert_eq!(ended(&client.next().await), "did 3");

    // Once, for this call, and only one that was given out.
    let other = ask(&mut client, 3, "two").await;
    for (id, state) in [(4, &*state), (5, &*other), (6, &*other), (7, "made up")] {
        client.send(request(id, "three", json!({ "requestState": state, "inputResponses": yes }))).await;
        let refused = client.next().await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["data"]["code"]),
            (&json!(-32602), &json!("bad_request_state"))
        );
    }
    // An answer without a state is an answer to nothing: the person is asked.
    client.send(request(8, "two", json!({ "inputResponses": yes }))).await;
    assert_eq!(client.next().await["result"]["resultType"], "input_required");
    // Who answers nothing is told to come back.
    let state = ask(&mut client, 9, "two").await;
    client.send(request(10, "two", json!({ "requestState": state }))).await;
    assert_eq!(ended(&client.next().await), "[approval_required]");
    client.leave().await;
}

/// The agent of a client that left is not waited for any longer than the config says.
#[tokio::test(flavor = "multi_thread")]
async fn with_its_client_an_agent_leaves_its_rooms() {
    for (grace, found) in [(0, false), (3_600, true)] {
        let (workspace, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = Arc::new(Memory::default());
        let mut config = Config::built_in(workspace.path());
        config.rooms.lifecycle.grace = Duration::from_secs(grace);
        let setup = Setup {
            config,
            store: store.clone(),
            state: None,
            tools: built_in_tools(),
            hidden: Vec::new(),
            rooms: Some(kept.path().to_owned()),
            secrets: None,
        };
        let runtime = Runtime::open(setup).unwrap();
        let mut said = Vec::new();
        for argv in [["touch", "/tmp/mine"], ["ls", "/tmp"]] {
            let place = tempfile::tempdir().unwrap();
            let mut client = greeted(attach(runtime.clone(), store.clone(), place)).await;
            client.send(call(1, "bash", json!({ "argv": argv }))).await;
            said.push(client.next().await["result"]["content"][0]["text"].as_str().unwrap().to_owned());
            client.leave().await;
        }
        if said[0].starts_with("[wall_missing]") {
            eprintln!("SKIPPED: {}", said[0]);
            return;
        }
        assert_eq!(said[1].contains("mine"), found, "{grace}: {said:?}");
    }
}

#[tokio::test]
async fn a_key_and_a_task_come_in_meta() {
    let workspace = tempfile::tempdir().unwrap();
    let state: Arc<dyn State> = Arc::new(SqliteState::open(workspace.path()).unwrap());
    let def = ToolDef {
        name: "tell".into(),
        summary: "A probe.".into(),
        category: Category::Analytics,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        idempotency: Idempotency::Optional,
        ..ToolDef::default()
    };
    let tell = Tool::pure(def, |cx: &Cx, _: Input| Ok(Answer::new(format!("{:?}", cx.key()))));
    let mut client = greeted(connect_to(vec![tell], Some(state.clone()))).await;
    let mut told = async |meta: Value| {
        let params = json!({ "name": "tell", "arguments": {}, "_meta": meta });
        client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
        let answer = client.next().await;
        match answer.get("error") {
            Some(error) => error["data"]["code"].clone(),
            None => answer["result"]["content"][0]["text"].clone(),
        }
    };
    assert_eq!(told(json!({})).await, "None");
    assert_eq!(told(json!({ "toolgate/idempotencyKey": "k-1", "toolgate/task": "T" })).await, "Some(\"k-1\")");
    assert_eq!(told(json!({ "toolgate/idempotencyKey": 7 })).await, "bad_meta");
    assert_eq!(told(json!({ "toolgate/task": null })).await, "bad_meta");
    let kept = state.effects(EffectFilter { states: Vec::new(), agent: None, limit: 9 }).await.unwrap();
    let keys: Vec<_> = kept.iter().map(|once| (&*once.key.key, once.state)).collect();
    assert_eq!(keys, [("k-1", OnceState::Done)]);
}

#[tokio::test]
async fn progress_goes_up_and_ends_before_the_answer() {
    let (heard, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let counting = tool("counting", move |cx, _| {
        let wait = || told.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        cx.progress(1.0, Some(3.0), "one".to_owned());
        wait();
        cx.progress(2.0, Some(f64::INFINITY), None);
        wait();
        // None of these may be passed on. The pauses give each its chance to be.
        for wrong in [2.0, 1.5, f64::NAN, f64::INFINITY] {
            cx.progress(wrong, None, "wrong".to_owned());
            std::thread::sleep(Duration::from_millis(150));
        }
        cx.progress(3.0, None, None);
        wait();
        Ok(Answer::new("counted".to_owned()))
    });
    let mut client = greet(vec![counting]).await;
    client.send(call_with_progress(7, "counting")).await;
    let mut reports = Vec::new();
    for _ in 0..3 {
        let mut report = client.next().await;
        assert_eq!(report["method"], "notifications/progress", "{report}");
        reports.push(report["params"].take());
        heard.send(()).unwrap();
    }
    let expected = json!([
        { "progressToken": "how far", "progress": 1.0, "total": 3.0, "message": "one" },
        { "progressToken": "how far", "progress": 2.0 },
        { "progressToken": "how far", "progress": 3.0 },
    ]);
    assert_eq!(Value::from(reports), expected);
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]), (&json!(7), &json!({ "result": "counted" })));
    assert_eq!(client.leave().await.0, [] as [Value; 0]);
}

#[tokio::test]
async fn progress_is_told_ten_times_at_once_and_then_ten_times_a_second_at_most() {
    let busy = tool("busy", |cx, _| {
        for done in 0..400 {
            cx.progress(f64::from(done), None, None);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Answer::new(String::new()))
    });
    let mut client = greet(vec![busy]).await;
    let start = Instant::now();
    client.send(call_with_progress(1, "busy")).await;
    let mut reports = 0;
    while client.next().await.get("id").is_none() {
        reports += 1;
    }
    // The first ten pass at once.
    let most = start.elapsed().as_millis() / 100 + 10;
    assert!(reports >= 1 && reports <= most, "{reports} reports, {most} at most");
}

#[tokio::test]
async fn a_call_without_a_token_is_not_reported_on() {
    let reporting = tool("reporting", |cx, _| {
        cx.progress(1.0, None, None);
        Ok(Answer::new(String::new()))
    });
    let mut client = greet(vec![reporting]).await;
    client.send(call(1, "reporting", json!({}))).await;
    assert_eq!(client.next().await["id"], 1);
    assert_eq!(client.leave().await.0, [] as [Value; 0]);
}

#[tokio::test]
async fn a_cancelled_call_stops_is_recorded_and_never_answered() {
    let mut client = greet(vec![tireless(), echo()]).await;
    client.send(call_with_progress(1, "tireless")).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel).await;
    let mut last = Value::Null;
    for id in 2..100 {
        client.send(call(id, "echo", json!({ "text": "on" }))).await;
        last = client.next().await;
        while last.get("id").is_none() {
            last = client.next().await;
        }
        if client.store.ends().contains(&("tireless".into(), Some("cancelled".into()))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(last["result"]["isError"], false, "the connection goes on");
    let (rest, store) = client.leave().await;
    assert_eq!(rest, [] as [Value; 0]);
    assert!(store.ends().contains(&("tireless".into(), Some("cancelled".into()))), "{:?}", store.ends());
}

#[tokio::test]
async fn nothing_is_heard_of_a_cancelled_call_that_does_not_stop() {
    let deaf = tool("deaf", |cx, _| {
        for done in 0..1_000 {
            cx.progress(f64::from(done), None, None);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Answer::new(String::new()))
    });
    let mut client = greet(vec![deaf, echo()]).await;
    client.send(call_with_progress(1, "deaf")).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel).await;
    // A report that was on its way when the call was cancelled has come by then.
    for id in 2..4 {
        client.send(call(id, "echo", json!({ "text": "on" }))).await;
        while client.next().await["id"] != id {}
    }
    while client.store.ends().len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.leave().await.0, [] as [Value; 0]);
}

#[tokio::test]
async fn cancelled_calls_make_room_for_others() {
    let mut client = greet(vec![tireless(), echo()]).await;
    for id in 0..1_500 {
        client.send(call(id, "tireless", json!({}))).await;
        let params = json!({ "requestId": id });
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
    // Those that have not stopped yet are under way, and may be too many for a moment.
    let answered = async {
        loop {
            client.send(call(-1, "echo", json!({ "text": "room" }))).await;
            let mut answer = client.next().await;
            while answer["id"] != -1 {
                answer = client.next().await;
            }
            if answer["error"]["data"]["code"] != "too_many_at_once" {
                return answer;
            }
        }
    };
    let answer = timeout(PATIENCE, answered).await.expect("there is room");
    assert_eq!(answer["result"]["content"][0]["text"], "room");
    client.leave().await;
}

#[tokio::test]
async fn cancelling_what_is_not_under_way_does_nothing() {
    let mut client = greet(vec![echo()]).await;
    for params in [json!({ "requestId": 99 }), json!({ "requestId": "hello" }), json!({}), json!([1])] {
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" })).await;
    client.send(call(1, "echo", json!({ "text": "still here" }))).await;
    assert_eq!(client.next().await["result"]["content"][0]["text"], "still here");
    client.leave().await;
}

#[tokio::test]
async fn calls_under_way_at_the_end_of_the_input_are_answered_if_they_are_quick() {
    let brief = tool("brief", |cx, input| {
        std::thread::sleep(Duration::from_millis(50));
        cx.check()?;
        Ok(Answer::new(input.text))
    });
    let mut client = greet(vec![brief]).await;
    for id in 0..5 {
        client.send(call(id, "brief", json!({ "text": "done" }))).await;
    }
    let (rest, store) = client.leave().await;
    assert_eq!(ids(&rest), (0..5).collect());
    assert_eq!(store.ends(), vec![("brief".to_owned(), None); 5]);
}

#[tokio::test]
async fn the_end_of_the_input_cancels_what_goes_on() {
    let mut client = greet(vec![tireless()]).await;
    for id in 1..=3 {
        client.send(call(id, "tireless", json!({}))).await;
    }
    let (rest, store) = client.leave().await;
    assert!(rest.iter().all(|answer| answer["result"]["isError"] == true), "{rest:?}");
    assert_eq!(store.ends(), vec![("tireless".to_owned(), Some("cancelled".to_owned())); 3]);
}

#[tokio::test]
async fn a_last_line_without_an_end_counts() {
    let mut client = greet(vec![echo()]).await;
    let last = call(5, "echo", json!({ "text": "bye" })).to_string();
    client.write.as_mut().unwrap().write_all(last.as_bytes()).await.unwrap();
    assert_eq!(ids(&client.leave().await.0), [5].into());
}

#[tokio::test]
async fn a_client_that_says_nothing_or_nothing_right_may_leave() {
    connect(vec![echo()]).leave().await;
    let mut client = connect(vec![echo()]);
    client.send_line("nonsense").await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    client.send(json!({ "jsonrpc": "2.0", "id": 3, "result": {} })).await;
    client.send(call(1, "echo", json!({ "text": "too early" }))).await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    assert_eq!(client.next().await["error"]["code"], -32602);
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_closes_its_ears_is_gone() {
    let workspace = tempfile::tempdir().unwrap();
    let setup = Setup {
        config: Config::built_in(workspace.path()),
        store: Arc::new(Memory::default()),
        state: None,
        tools: vec![echo()],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    let (mut write, their_read) = duplex(1024);
    let (their_write, read) = duplex(1024);
    let agent = AgentName::from("default");
    let served = tokio::spawn(serve(Runtime::open(setup).unwrap(), agent, their_read, their_write));
    drop(read);
    write.write_all(b"nonsense\n").await.unwrap();
    // The input stays open: only the broken output can tell the server to leave.
    timeout(PATIENCE, served).await.expect("the server leaves").unwrap().unwrap();
    drop(write);
}

/// A stream that cannot be read.
struct Torn;

impl AsyncRead for Torn {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other("torn")))
    }
}

#[tokio::test]
async fn what_broke_the_connection_is_told() {
    let workspace = tempfile::tempdir().unwrap();
    let setup = Setup {
        config: Config::built_in(workspace.path()),
        store: Arc::new(Memory::default()),
        state: None,
        tools: vec![echo()],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    let served = serve(Runtime::open(setup).unwrap(), AgentName::from("default"), Torn, duplex(1024).0);
    let served = timeout(PATIENCE, served).await.expect("the server leaves");
    assert!(matches!(&served, Err(ServeError::Broken(error)) if error.to_string() == "torn"), "{served:?}");
}

#[tokio::test]
async fn an_agent_nobody_knows_is_not_served() {
    let workspace = tempfile::tempdir().unwrap();
    let config = Config::built_in(workspace.path());
    let setup = Setup {
        config,
        store: Arc::new(Memory::default()),
        state: None,
        tools: vec![echo()],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    let (read, write) = split(duplex(1024).0);
    let served = serve(Runtime::open(setup).unwrap(), AgentName::from("nobody"), read, write).await;
    assert!(matches!(&served, Err(ServeError::Agent(fault)) if fault.code == "unknown_agent"), "{served:?}");
}

#[tokio::test]
async fn an_id_that_is_under_way_is_not_taken_twice() {
    let (gated, open) = gated();
    let mut client = greet(vec![gated]).await;
    client.send(call(1, "gated", json!({}))).await;
    for _ in 0..2 {
        client.send(call(1, "gated", json!({}))).await;
        let refused = client.next().await;
        assert_eq!(
            (&refused["id"], &refused["error"]["code"], &refused["error"]["data"]["code"]),
            (&json!(1), &json!(-32600), &json!("id_in_use"))
        );
    }
    open.send(()).unwrap();
    assert_eq!(client.next().await["result"]["content"][0]["text"], "through");
    assert_eq!(client.store.ends().len(), 1);

    // An id that has been answered may come again: clients that start over do that.
    open.send(()).unwrap();
    client.send(call(1, "gated", json!({}))).await;
    assert_eq!(client.next().await["result"]["content"][0]["text"], "through");
    client.leave().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_the_next_one_read() {
    let mut client = greet(vec![echo()]).await;
    let long = call(1, "echo", json!({ "text": "x".repeat(17 * 1024 * 1024) })).to_string();
    client.send_line(long).await;
    client.send(call(2, "echo", json!({ "text": "short" }))).await;
    let refused = client.next().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"], &refused["error"]["data"]["code"]),
        (&json!(1), &json!(-32600), &json!("too_large"))
    );
    assert_eq!(client.next().await["result"]["content"][0]["text"], "short");
    client.leave().await;
}

/// Sends requests until the server takes no more: how many, and what is left of the last of them.
async fn overload(write: &mut WriteHalf<DuplexStream>, request: impl Fn(i64) -> Value) -> (i64, Vec<u8>) {
    for sent in 1..10_000 {
        let line = request(sent).to_string() + "\n";
        let mut left = line.as_bytes();
        let writing = async {
            while !left.is_empty() {
                let written = write.write(left).await.unwrap();
                left = &left[written..];
            }
        };
        if timeout(Duration::from_secs(2), writing).await.is_err() {
            return (sent, left.to_vec());
        }
    }
    panic!("the server takes requests without end");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from() {
    let large = tool("large", |_, _| Ok(Answer::new("x".repeat(40 * 1024))));
    let mut client = greet(vec![large]).await;
    let mut write = client.write.take().unwrap();
    let (sent, left) = overload(&mut write, |id| call(id, "large", json!({}))).await;
    let reading = async {
        let mut seen = BTreeSet::new();
        while seen.len() < usize::try_from(sent).unwrap() {
            seen.insert(client.next().await["id"].as_i64().unwrap());
        }
        seen
    };
    let (seen, written) = tokio::join!(reading, write.write_all(&left));
    written.unwrap();
    assert_eq!(seen, (1..=sent).collect());
    client.write = Some(write);
    client.leave().await;
}

/// As many requests as one client may have under way.
const MOST: i64 = 1_024;

/// Works until it is told to stop, one call after the other.
fn tireless_alone() -> Tool {
    let tireless = tireless();
    Tool { def: ToolDef { concurrency: 1, ..tireless.def.clone() }, ..tireless }
}

#[tokio::test]
async fn a_client_that_is_refused_and_does_not_read_is_not_read_from() {
    let mut client = greet(vec![tireless_alone()]).await;
    for id in 0..MOST {
        client.send(call(id, "tireless", json!({}))).await;
    }
    let mut write = client.write.take().unwrap();
    // An answer repeats the id, and so it is long.
    overload(&mut write, |id| call(format!("{id:0>4000}"), "tireless", json!({}))).await;
    assert_eq!(client.next().await["error"]["data"]["code"], "too_many_at_once");
}

#[tokio::test]
async fn beyond_so_many_requests_one_more_is_refused_and_all_else_is_heard() {
    let (client, _kept) = asked_beside(&["ann"], vec![tireless_alone()]);
    let mut client = with_forms(client).await;
    client.send(call(1, "probe", json!({}))).await;
    let asked = client.next().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    for id in 2..=MOST {
        client.send(call(id, "tireless", json!({}))).await;
    }
    let is_refused = async |client: &mut Client, id: i64| {
        client.send(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        let answer = client.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer["error"]["data"]["code"] == "too_many_at_once"
    };
    assert!(is_refused(&mut client, -1).await);
    // An answer to a question of ours is heard,
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes })).await;
    let done = client.next().await;
    assert_eq!((&done["id"], ended(&done)), (&json!(1), "did 0".to_owned()));
    client.send(call(1, "tireless", json!({}))).await;
    assert!(is_refused(&mut client, -2).await);
    // and what takes one of them back,
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } })).await;
    assert!(!is_refused(&mut client, -3).await);
    // and that it leaves.
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_listens_without_end_may_leave() {
    let mut client = connect(vec![echo()]);
    for id in 0..MOST {
        client.send(modern(id, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))).await;
        assert_eq!(client.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    client.send(modern(MOST, "tools/list", json!({}))).await;
    assert_eq!(client.next().await["error"]["data"]["code"], "too_many_at_once");
    client.leave().await;
}
