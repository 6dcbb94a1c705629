//! MCP over HTTP: one service for each agent, behind whoever proves that it is one.
//!
//! A body is read as strictly as a line on a pipe, by the same reader (`message.rs`), and what was read is what the SDK
//! gets. What the SDK adds is the protocol over HTTP: headers held against the body, streams, and sessions for the
//! revisions that have them (`session.rs`). A session of one agent does not exist for another.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody as _, to_bytes},
    extract::{Extension, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt as _;
use rmcp::{
    ServerHandler,
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId,
        ServerJsonRpcMessage,
    },
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{AgentName, Fault, Principal};

use crate::{
    Edge,
    message::{self, Refusal},
    relay,
    server::Server,
    session::Sessions,
    visit::PlainCall,
};

/// Bytes of one request.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
/// Requests of one caller that are answered at once, its streams among them; and its calls, those among them that nobody
/// waits for any more.
const MOST_AT_ONCE: usize = 256;
/// How often somebody looks for sessions that are over.
const SWEEP: Duration = Duration::from_secs(60);

/// Where a session of an older revision is named, and a revision.
const SESSION: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// What bodies are of.
const JSON: &str = "application/json";

/// MCP over HTTP, until it is told to stop.
///
/// Whoever mounts it proves who is asking: every request carries its [`Principal`] as an extension, and one that is no
/// agent is refused.
///
/// # Panics
///
/// Outside of a Tokio runtime.
pub fn http(edge: impl Into<Edge>, stop: CancellationToken) -> Router {
    let agents = Agents { edge: edge.into(), doors: Doors::open(stop) };
    Router::new().fallback(answer).with_state(agents)
}

async fn answer(State(agents): State<Agents>, Extension(by): Extension<Principal>, request: Request) -> Response {
    let Principal::Agent(agent) = by else {
        let fault = Fault::refused("not_allowed", "MCP is for agents", "Use an agent's token.");
        return told(StatusCode::FORBIDDEN, &fault);
    };
    match agents.door(agent) {
        Ok(door) => door.answer(request).await,
        Err(fault) => told(StatusCode::FORBIDDEN, &fault),
    }
}

/// Where agents come in.
#[derive(Clone)]
struct Agents {
    edge: Edge,
    doors: Doors<AgentName, Server>,
}

impl Agents {
    fn door(&self, agent: AgentName) -> Result<Arc<Door<Server>>, Fault> {
        if let Some(door) = self.doors.find(&agent) {
            return Ok(door);
        }
        // A token outlives the agent it was made for; only those the config names get a door.
        self.edge.runtime.definitions(&agent)?;
        let (shared, calls) = (self.edge.enter(&agent), Arc::new(Semaphore::new(MOST_AT_ONCE)));
        let plain = Arc::new(Server::new(shared.clone(), calls.clone()));
        Ok(self.doors.of(agent, Some(plain), move || Server::new(shared.clone(), calls.clone())))
    }
}

/// Closes sessions that are over, and in the end all of them.
async fn tend<K, S>(doors: Doors<K, S>, stop: CancellationToken)
where
    K: Hash + Eq + Send + 'static,
    S: ServerHandler,
{
    loop {
        let over = tokio::select! {
            () = stop.cancelled() => true,
            () = sleep(SWEEP) => false,
        };
        for door in doors.all() {
            match over {
                true => door.sessions.close_all().await,
                false => door.sessions.sweep(Instant::now()).await,
            }
        }
        if over {
            return;
        }
    }
}

/// A door for each who came.
pub(crate) struct Doors<K, S>(Arc<Inner<K, S>>);

struct Inner<K, S> {
    stop: CancellationToken,
    doors: Mutex<HashMap<K, Arc<Door<S>>>>,
}

impl<K, S> Clone for Doors<K, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, S> Doors<K, S>
where
    K: Hash + Eq + Send + 'static,
    S: ServerHandler,
{
    /// No doors yet. Outside of a Tokio runtime this panics.
    pub(crate) fn open(stop: CancellationToken) -> Self {
        let doors = Self(Arc::new(Inner { stop: stop.clone(), doors: Mutex::default() }));
        tokio::spawn(tend(doors.clone(), stop));
        doors
    }

    pub(crate) fn find(&self, who: &K) -> Option<Arc<Door<S>>> {
        self.doors().get(who).cloned()
    }

    /// Their door; `make` makes what they speak to there, once for each session or request, and `plain` takes the calls that
    /// need nothing of the SDK.
    pub(crate) fn of(
        &self,
        who: K,
        plain: Option<Arc<Server>>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Arc<Door<S>> {
        self.doors().entry(who).or_insert_with(|| Arc::new(Door::new(&self.0.stop, plain, make))).clone()
    }

    fn all(&self) -> Vec<Arc<Door<S>>> {
        self.doors().values().cloned().collect()
    }

    fn doors(&self) -> MutexGuard<'_, HashMap<K, Arc<Door<S>>>> {
        self.0.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one of them comes in.
pub(crate) struct Door<S> {
    service: StreamableHttpService<S, Sessions>,
    sessions: Arc<Sessions>,
    plain: Option<Arc<Server>>,
    slots: Arc<Semaphore>,
    /// Calls end with the server.
    stop: CancellationToken,
}

impl<S: ServerHandler> Door<S> {
    fn new(stop: &CancellationToken, plain: Option<Arc<Server>>, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let sessions = Arc::new(Sessions::new());
        // Who may ask, and under which name, was settled by whoever mounted this.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            // Streams begin with an empty event where the revision of their session has such (`session.rs`).
            .with_sse_retry(None)
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(stop.child_token());
        let service = StreamableHttpService::new(move || Ok(make()), sessions.clone(), config);
        Self { service, sessions, plain, slots: Arc::new(Semaphore::new(MOST_AT_ONCE)), stop: stop.clone() }
    }

    pub(crate) async fn answer(&self, mut request: Request) -> Response {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            let fault = message::too_many(format!("{MOST_AT_ONCE} requests of this caller are being answered"));
            return told(StatusCode::TOO_MANY_REQUESTS, &fault);
        };
        join_accept(request.headers_mut());
        if *request.method() == Method::POST {
            return self.post(request, slot).await;
        }
        if let Some(name) = given_twice(request.headers()) {
            return refused(Refusal::duplicate_header(None, name.as_str()));
        }
        // What happens seldom does not make every call larger.
        match *request.method() {
            Method::GET | Method::DELETE if !is_of_a_session(request.headers()) => only_posts(),
            Method::DELETE => Box::pin(self.delete(request)).await,
            _ => Box::pin(self.pass_on(request, slot)).await,
        }
    }

    /// Has the SDK answer it.
    async fn pass_on(&self, request: Request, slot: OwnedSemaphorePermit) -> Response {
        let (parts, body) = self.service.handle(request).await.map(Body::new).into_parts();
        let body = match body.size_hint().exact() {
            // It is all there, and nobody is waited for.
            Some(_) => Body::from(relay::unpacked_bytes(to_bytes(body, usize::MAX).await.unwrap_or_default())),
            // The slot is taken for as long as the answer is read.
            None => Body::new(body.map_frame(move |frame| {
                let _slot = &slot;
                frame.map_data(relay::unpacked_bytes)
            })),
        };
        Response::from_parts(parts, body)
    }

    async fn post(&self, request: Request, slot: OwnedSemaphorePermit) -> Response {
        let (parts, body) = request.into_parts();
        let Ok(bytes) = to_bytes(body, MAX_BODY).await else {
            let fault = Fault::failed("too_large", format!("the body has more than {MAX_BODY} bytes"), "Send less.");
            return told(StatusCode::PAYLOAD_TOO_LARGE, &fault);
        };
        let mut message = match message::read(&bytes) {
            Ok(Some(message)) => message,
            Ok(None) if bytes.trim_ascii().is_empty() => return refused(Refusal::empty()),
            Ok(None) => return StatusCode::ACCEPTED.into_response(),
            Err(refusal) => return refused(refusal),
        };
        if let Some(name) = given_twice(&parts.headers) {
            return refused(Refusal::duplicate_header(id(&message), name.as_str()));
        }
        if let Some(server) = self.plain.as_ref().filter(|server| is_plain(&parts.headers, &message, server)) {
            match PlainCall::of(message, None, || self.stop.child_token()) {
                Ok(call) => return reply(server, call).await,
                Err(other) => message = other,
            }
        }
        if let JsonRpcMessage::Request(request) = &message {
            if session(&parts.headers).is_some_and(|session| self.sessions.is_under_way(session, &request.id)) {
                return refused(Refusal::id_in_use(request.id.clone()));
            }
            let begins = matches!(request.request, ClientRequest::InitializeRequest(_));
            if begins && !Box::pin(self.sessions.make_room()).await {
                let fault = Fault::refused(
                    "too_many_sessions",
                    "every session this caller may have is in use",
                    "Close one of them, then try again.",
                );
                return told(StatusCode::TOO_MANY_REQUESTS, &fault);
            }
        }
        match serde_json::to_vec(&message) {
            Ok(read) => Box::pin(self.pass_on(Request::from_parts(parts, Body::from(read)), slot)).await,
            Err(error) => failed(&error),
        }
    }

    /// Ends a session. To end one that is not there is no success: whoever guesses learns nothing else.
    async fn delete(&self, request: Request) -> Response {
        let unknown = session(request.headers()).is_some_and(|session| !self.sessions.has(session));
        let response = self.service.handle(request).await;
        if unknown && response.status().is_success() {
            let fault = Fault::failed("unknown_session", "there is no such session", "Begin one with `initialize`.");
            return told(StatusCode::NOT_FOUND, &fault);
        }
        response.map(Body::new)
    }
}

/// Are these the headers of a call of the stateless era, as it comes from every client, and do they say what it says? Whatever
/// else they are, the SDK knows whether they will do.
fn is_plain(headers: &HeaderMap, message: &ClientJsonRpcMessage, server: &Server) -> bool {
    let JsonRpcMessage::Request(JsonRpcRequest { request: ClientRequest::CallToolRequest(call), .. }) = message else {
        return false;
    };
    let name = &*call.params.name;
    let says = |header: &str, value: &str| {
        let mut values = headers.get_all(header).iter();
        values.next().is_some_and(|said| said == value) && values.next().is_none()
    };
    let has = |header: HeaderName, word: &str| {
        headers.get(header).and_then(|said| said.to_str().ok()).is_some_and(|said| said.contains(word))
    };
    says(PROTOCOL_VERSION, ProtocolVersion::V_2026_07_28.as_str())
        && says("mcp-method", "tools/call")
        && says("mcp-name", name)
        && headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == JSON)
        && has(header::ACCEPT, JSON)
        && has(header::ACCEPT, "text/event-stream")
        && session(headers).is_none()
        && !server.is_mirrored(name)
}

/// Answers a call that needs nothing of the SDK. One that is dropped because its client has left is cancelled, as anywhere.
async fn reply(server: &Server, call: PlainCall) -> Response {
    let reply = Box::pin(server.reply(call)).await;
    let lacks = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
    let status = match &reply {
        JsonRpcMessage::Error(error) if error.error.code == lacks => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut written = Vec::with_capacity(1024);
    match relay::write(&reply, &mut written) {
        Ok(()) => (status, [(header::CONTENT_TYPE, JSON)], written).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &serde_json::Error) -> Response {
    let fault = Fault::failed("mcp_failed", error.to_string(), "Report it as a bug.");
    told(StatusCode::INTERNAL_SERVER_ERROR, &fault)
}

/// The id of a request.
fn id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// A header of the protocol that is given more than once. Whoever is between client and server may look at another one of them
/// than the SDK, which looks at the first.
fn given_twice(headers: &HeaderMap) -> Option<&HeaderName> {
    if headers.len() == headers.keys_len() {
        return None;
    }
    headers.keys().find(|name| name.as_str().starts_with("mcp-") && headers.get_all(*name).iter().nth(1).is_some())
}

/// Several lines of what is accepted are one list, and the SDK looks at the first line.
fn join_accept(headers: &mut HeaderMap) {
    if headers.len() == headers.keys_len() {
        return;
    }
    let lines: Vec<_> = headers.get_all(header::ACCEPT).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(list) = HeaderValue::from_bytes(&lines.join(&b", "[..]))
    {
        headers.insert(header::ACCEPT, list);
    }
}

/// May a request that is no message be about a session? It names one, or at least a revision that has them.
fn is_of_a_session(headers: &HeaderMap) -> bool {
    match headers.get(PROTOCOL_VERSION) {
        Some(version) => version.to_str().is_ok_and(|version| !message::is_stateless(version)),
        None => session(headers).is_some(),
    }
}

/// Without a session there is neither a stream to read nor anything to end.
fn only_posts() -> Response {
    let fault = Fault::failed("no_session", "only sessions are read from and ended", "Send requests with POST.");
    ([(header::ALLOW, "POST")], told(StatusCode::METHOD_NOT_ALLOWED, &fault)).into_response()
}

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}

/// What is no message is answered as on a pipe.
fn refused(refusal: Refusal) -> Response {
    tracing::debug!(message = %refusal.error.message, "refused a body");
    let status = match refusal.error.code {
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    let reply = ServerJsonRpcMessage::error(refusal.error, refusal.id);
    json_answer(status, &json!(reply))
}

pub(crate) fn told(status: StatusCode, fault: &Fault) -> Response {
    json_answer(status, &json!({ "code": fault.code, "message": fault.message, "remedy": fault.remedy }))
}

fn json_answer(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], value.to_string()).into_response()
}
