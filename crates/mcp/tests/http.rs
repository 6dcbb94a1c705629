//! MCP over HTTP without a port: what the routes do with a request whose sender is proved.

#![expect(clippy::unwrap_used, reason = "a helper that breaks fails its test")]

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode},
    response::Response,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{AgentName, End, Intent, Note, Person, Principal};
use toolgate_mcp::http;
use toolgate_runtime::{
    Runtime, Setup, built_in_tools,
    config::Config,
    store::{Store, StoreError},
};
use tower::ServiceExt as _;

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
    let routes = http(Runtime::open(setup).unwrap(), stop.clone());
    Place { routes, stop, _workspace: workspace }
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
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
        let response = self.send(agent(), Method::POST, None, body).await;
        match response.status() {
            StatusCode::OK => Ok(response.headers()["mcp-session-id"].to_str().unwrap().to_owned()),
            other => Err(other),
        }
    }

    async fn ping(&self, session: &str) -> StatusCode {
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
        let response = self.send(agent(), Method::POST, Some(session), body).await;
        let status = response.status();
        to_bytes(response.into_body(), usize::MAX).await.unwrap();
        status
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
