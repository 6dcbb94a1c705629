//! Events: told as they happen, to those who may hear them.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};
use toolgate_contract::{AgentName, CallId, End, Intent, Outcome, Record, Scope};
use toolgate_runtime::store::Store as _;

use crate::stage::{PATIENCE, Stage};

struct Listener(BufReader<TcpStream>);

impl Listener {
    async fn open(stage: &Stage, token: &str) -> Self {
        let mut stream = TcpStream::connect(stage.address).await.unwrap();
        let head =
            format!("GET /api/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", stage.host());
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut listener = Self(BufReader::new(stream));
        while !listener.line().await.starts_with("retry:") {}
        listener
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.0.read_line(&mut line)).await.expect("an event in time").unwrap();
        assert!(read > 0, "the stream ended");
        line.trim_end().to_owned()
    }

    /// The next event with this name.
    async fn next(&mut self, name: &str) -> Value {
        loop {
            if self.line().await == format!("event: {name}") {
                let data = self.line().await;
                return serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn calls_and_notes_are_told_as_they_happen() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    let mut listener = Listener::open(&stage, &token).await;
    stage.call("echo", json!({ "text": "at once" })).await;
    let event = listener.next("call").await;
    assert_eq!((&event["tool"], &event["agent"]), (&json!("echo"), &json!("default")));
    let written = stage.call("write", json!({ "path": "a.txt", "content": "line\nevent: forged\n" })).await;
    loop {
        let event = listener.next("call").await;
        if event["tool"] == "write" {
            let expected = (&json!(written.call), &json!("default"), &json!("done"));
            assert_eq!((&event["call"], &event["agent"], &event["status"]), expected);
            break;
        }
    }
    stage.person("eve", &[Scope::Read]).await;
    loop {
        let note = listener.next("note").await;
        if note["kind"] == "token_added" && note["by"] == json!({ "person": "user:ann" }) {
            break;
        }
    }
}

#[tokio::test]
async fn the_end_of_a_call_that_began_unheard_names_its_agent() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    let outcome = stage.call("echo", json!({ "text": "an outcome" })).await;
    let call = CallId("begun-before".to_owned());
    let record = Record::open(call, AgentName::from("early"), outcome.tool.clone(), json!({}));
    stage.store.begin(Intent { at_ms: 1, record: record.clone() }).await.unwrap();
    // Nobody listens for longer than the record is left alone.
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let mut listener = Listener::open(&stage, &token).await;
    let outcome = Outcome { call: record.call.clone(), ..outcome };
    stage.store.end(End { at_ms: 2, record, outcome: outcome.into(), raw: None, begun: true }).await.unwrap();
    // The first call may be told late.
    let event = loop {
        let event = listener.next("call").await;
        if event["call"] == "begun-before" {
            break event;
        }
    };
    assert_eq!(event["agent"], "early");
}

#[tokio::test]
async fn there_is_an_end_to_how_many_listen() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(Listener::open(&stage, &token).await);
    }
    assert_eq!(stage.get("/api/events", &token).await.problem(), (503, "too_many_listeners".to_owned()));
    open.pop();
    // The place of one who left is free again, once the server noticed.
    let again = async {
        loop {
            let mut stream = TcpStream::connect(stage.address).await.unwrap();
            let head =
                format!("GET /api/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", stage.host());
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).await.unwrap();
            if line.contains("200") {
                return;
            }
            stage.call("echo", json!({ "text": "pulse" })).await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("a place is free again");
}
