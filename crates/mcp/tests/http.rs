//! MCP over HTTP without a port: what the routes do with a request whose sender is proved.

#![expect(clippy::unwrap_used, reason = "a helper that breaks fails its test")]

use std::{future::pending, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, BodyDataStream, to_bytes},
    http::{Method, Request, StatusCode},
    response::Response,
};
use futures_util::{StreamExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{
    ActionType, AgentName, Category, End, Intent, Needs, Note, Person, Principal, SafetyClass, ToolDef,
};
use toolgate_mcp::http;
use toolgate_runtime::{
    Runtime, Setup, built_in_tools,
    config::Config,
    store::{Store, StoreError},
    tools::{Tool, Work},
};
use tower::ServiceExt as _;

/// Far longer than anything here takes. What does not come until then does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// As many sessions as one agent may have, and as many requests at once.
const MOST: usize = 64;
const AT_ONCE: usize = 256;

/// Remembers nothing.
struct Nowhere;

impl Store for Nowhere {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, _: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

struct Place {
    routes: Router,
    runtime: Runtime,
    stop: CancellationToken,
    _workspace: tempfile::TempDir,
}

fn place() -> Place {
    let workspace = tempfile::tempdir().unwrap();
    let config = Config::built_in(workspace.path());
    let setup = Setup {
        config,
        store: Arc::new(Nowhere),
        state: None,
        tools: built_in_tools(),
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    let stop = CancellationToken::new();
    let runtime = Runtime::open(setup).unwrap();
    let routes = http(runtime.clone(), stop.clone());
    Place { routes, runtime, stop, _workspace: workspace }
}

fn probe(name: &'static str, work: Work) -> Tool {
    let def = ToolDef {
        name: name.into(),
        summary: "A probe.".into(),
        category: Category::Analytics,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        timeout: PATIENCE,
        concurrency: 2_000,
        needs: Needs::NOTHING,
        input_schema: json!({ "type": "object" }),
        ..ToolDef::default()
    };
    Tool::doing(def, |_: &Value| Vec::new(), work)
}

/// A tool that says when it is called, and waits until it is cancelled.
fn patient() -> (Tool, mpsc::UnboundedReceiver<()>) {
    let (begin, begun) = mpsc::unbounded_channel();
    let work = Work::waiting(move |cx, _| {
        let _ = begin.send(());
        async move {
            let _cx = cx;
            pending().await
        }
    });
    (probe("patient", work), begun)
}

impl Place {
    async fn send(&self, by: Principal, method: Method, session: Option<&str>, body: Value) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri("/")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let mut request = request.body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(by);
        self.routes.clone().oneshot(request).await.unwrap()
    }

    /// The name of a new session.
    async fn greet(&self) -> Result<String, StatusCode> {
        self.greet_in("2025-11-25").await
    }

    async fn greet_in(&self, version: &str) -> Result<String, StatusCode> {
        let hello =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
        let response = self.send(agent(), Method::POST, None, body).await;
        match response.status() {
            StatusCode::OK => Ok(response.headers()["mcp-session-id"].to_str().unwrap().to_owned()),
            other => Err(other),
        }
    }

    /// A call within a session, whose answer is yet to be read.
    async fn call(&self, session: &str, id: usize, tool: &str) -> Response {
        let params = json!({ "name": tool, "arguments": {} });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let response = self.send(agent(), Method::POST, Some(session), body).await;
        assert_eq!(response.status(), StatusCode::OK);
        response
    }

    async fn notify(&self, session: &str, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let response = self.send(agent(), Method::POST, Some(session), body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }

    async fn ping(&self, session: &str) -> StatusCode {
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
        let response = self.send(agent(), Method::POST, Some(session), body).await;
        let status = response.status();
        to_bytes(response.into_body(), usize::MAX).await.unwrap();
        status
    }
}

/// The events of a stream, as they are written.
struct Events(BodyDataStream);

impl Events {
    fn of(response: Response) -> Self {
        Self(response.into_body().into_data_stream())
    }

    async fn next(&mut self) -> String {
        let event = timeout(PATIENCE, self.0.next()).await.unwrap().unwrap().unwrap();
        String::from_utf8(event.to_vec()).unwrap()
    }

    /// The next message.
    async fn message(&mut self) -> Value {
        loop {
            let event = self.next().await;
            let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
            if !data.is_empty() {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

fn agent() -> Principal {
    Principal::Agent(AgentName::from("default"))
}

#[tokio::test]
async fn the_session_that_was_idle_longest_makes_room_and_one_in_use_does_not() {
    let place = place();
    let mut sessions = Vec::new();
    for _ in 0..MOST {
        sessions.push(place.greet().await.unwrap());
    }
    assert_eq!(place.ping(&sessions[0]).await, StatusCode::OK, "so the second was idle longest");
    sessions.push(place.greet().await.unwrap());
    assert_eq!(place.ping(&sessions[1]).await, StatusCode::NOT_FOUND);
    assert_eq!(place.ping(&sessions[0]).await, StatusCode::OK);

    // Somebody reads every one of them.
    sessions.remove(1);
    let mut read = Vec::new();
    for session in &sessions {
        let response = place.send(agent(), Method::GET, Some(session), Value::Null).await;
        assert_eq!(response.status(), StatusCode::OK);
        read.push(response);
    }
    assert_eq!(place.greet().await, Err(StatusCode::TOO_MANY_REQUESTS));
    read.pop();
    place.greet().await.unwrap();
    assert_eq!(place.ping(sessions.last().unwrap()).await, StatusCode::NOT_FOUND);
    assert_eq!(place.ping(&sessions[0]).await, StatusCode::OK);
    place.stop.cancel();
}

#[tokio::test]
async fn so_many_requests_of_an_agent_are_answered_at_once() {
    let place = place();
    let modern = |method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .extension(agent())
            .body(Body::from(body.to_string()))
            .unwrap();
        place.routes.clone().oneshot(request)
    };
    let mut listening = Vec::new();
    for _ in 0..AT_ONCE {
        let response =
            modern("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        listening.push(response);
    }
    assert_eq!(modern("tools/list", json!({})).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    listening.pop();
    assert_eq!(modern("tools/list", json!({})).await.unwrap().status(), StatusCode::OK);
    place.stop.cancel();
}

#[tokio::test]
async fn a_call_whose_client_hung_up_is_counted_until_it_has_ended() {
    let place = place();
    let (patient, mut begun) = patient();
    place.runtime.register(patient).unwrap();
    let session = place.greet().await.unwrap();
    place.notify(&session, "notifications/initialized", json!({})).await;
    for id in 0..AT_ONCE {
        // In these revisions nothing is taken back by hanging up.
        drop(place.call(&session, id, "patient").await);
        timeout(PATIENCE, begun.recv()).await.unwrap().unwrap();
    }
    let refused = Events::of(place.call(&session, AT_ONCE, "patient").await).message().await;
    let error = &refused["error"];
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32600), &json!("too_many_at_once")), "{refused}");
    // What is no call is answered, and so is one when another has ended.
    assert_eq!(place.ping(&session).await, StatusCode::OK);
    place.notify(&session, "notifications/cancelled", json!({ "requestId": 0 })).await;
    let taken = async {
        loop {
            drop(place.call(&session, AT_ONCE + 1, "patient").await);
            tokio::select! {
                _ = begun.recv() => return,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    };
    timeout(PATIENCE, taken).await.expect("a call that has ended makes room");
    place.stop.cancel();
}

#[tokio::test]
async fn streams_begin_with_an_empty_event_only_where_the_revision_has_them() {
    for (version, is_primed) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let place = place();
        let session = place.greet_in(version).await.unwrap();
        place.notify(&session, "notifications/initialized", json!({})).await;
        let read = place.send(agent(), Method::GET, Some(&session), Value::Null).await;
        place.runtime.register(probe("later", Work::waiting(|_, _| pending()))).unwrap();
        let called = place.call(&session, 3, "get_time").await;
        for (mut events, expected) in
            [(Events::of(read), "notifications/tools/list_changed"), (Events::of(called), "\"id\":3")]
        {
            let mut event = events.next().await;
            if is_primed {
                let lines: Vec<_> = event.lines().map(|line| line.split_once(": ").unwrap_or((line, ""))).collect();
                assert_eq!((lines[0], lines[1].0, lines[2]), (("data", ""), "id", ("retry", "3000")), "{event}");
                event = events.next().await;
            }
            assert!(event.contains(expected), "{version}: {event}");
        }
        place.stop.cancel();
    }
}

#[tokio::test]
async fn when_it_stops_sessions_end() {
    let place = place();
    let session = place.greet().await.unwrap();
    let response = place.send(agent(), Method::GET, Some(&session), Value::Null).await;
    place.stop.cancel();
    // The stream ends; without that this waits for ever.
    to_bytes(response.into_body(), usize::MAX).await.unwrap();
}

#[tokio::test]
async fn whoever_is_no_agent_of_the_config_is_refused() {
    let place = place();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (by, code) in [
        (Principal::Person(Person::from("ann")), "not_allowed"),
        (Principal::Agent(AgentName::from("gone")), "unknown_agent"),
    ] {
        let response = place.send(by, Method::POST, None, body.clone()).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap()["code"], code);
    }
}
