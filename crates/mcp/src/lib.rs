//! MCP over stdio and HTTP: translate only.
//!
//! [`serve_stdio`] puts a [`Runtime`] behind standard input and output, [`serve`] behind any pair of byte streams, [`http()`]
//! behind a route of a server that proves who is asking (`http.rs`, `session.rs`). A
//! line comes in (`lines.rs`), is read strictly and once (`message.rs`), becomes one `Runtime::invoke` (`server.rs`), and
//! its outcome goes out in MCP's words (`present.rs`), with progress on the way (`progress.rs`). Nothing is decided and
//! nothing runs here.
//!
//! The protocol itself (both eras: `initialize` up to 2025-11-25, stateless with `server/discover` from 2026-07-28) is
//! the official SDK's. Its transport is not: it reads a line leniently, so that of two equal keys the last one counts
//! and a broken line is dropped without a word. Here such a line is answered with an error and the next one is read.

mod ask;
pub mod bridge;
mod changes;
mod guests;
mod http;
mod lines;
pub mod manage;
mod message;
mod offers;
mod present;
mod progress;
mod prompts;
mod relay;
mod resources;
mod server;
mod session;
mod tasks;
mod underway;
mod visit;

use std::{
    io::{stdin, stdout},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use rmcp::{
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
    transport::io::stdio_pipes,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{AgentName, Fault};
use toolgate_runtime::Runtime;

pub use http::{MAX_BODY, http};

use crate::{
    guests::Guests,
    lines::{Lines, MAX_CALLS},
    server::Server,
};

/// What is served, over however many ways: clones share what is kept for an agent.
#[derive(Debug, Clone)]
pub struct Edge {
    /// Where calls go.
    runtime: Runtime,
    /// Where people answer questions with a browser, if they can: the console's own address.
    console: Option<String>,
    guests: Arc<Guests>,
}

impl Edge {
    /// What is served of a runtime, whose console is at this address if it has one.
    pub fn new(runtime: Runtime, console: Option<String>) -> Self {
        Self { runtime, console, guests: Arc::default() }
    }
}

impl From<Runtime> for Edge {
    fn from(runtime: Runtime) -> Self {
        Self::new(runtime, None)
    }
}

/// Why serving ended otherwise than by the client leaving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no such agent.
    #[error(transparent)]
    Agent(#[from] Fault),
    /// Client and server found no protocol version to speak.
    #[error("the client could not be greeted: {0}")]
    Handshake(Box<ServerInitializeError>),
    /// Messages can no longer be read or written. A client that closed its end is no error.
    #[error("messages cannot be passed on: {0}")]
    Broken(#[from] std::io::Error),
    /// The loop that passes messages on died.
    #[error("the connection was lost: {0}")]
    Lost(#[from] tokio::task::JoinError),
}

/// Serves the tools of `agent` on standard input and output until the client leaves.
///
/// # Panics
///
/// Outside of a Tokio runtime with its IO driver enabled.
pub async fn serve_stdio(edge: impl Into<Edge>, agent: AgentName) -> Result<(), ServeError> {
    if let (Some(read), Some(write)) = (socket(stdin().as_fd()), socket(stdout().as_fd())) {
        return serve(edge, agent, read, write).await;
    }
    let (read, write) = stdio_pipes();
    serve(edge, agent, read, write).await
}

/// A standard stream that is a Unix socket: what Node, and so most clients, gives its children for a pipe.
///
/// The SDK would read it on a thread that blocks, which is slower and keeps the process from leaving.
fn socket(stream: BorrowedFd<'_>) -> Option<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(stream.try_clone_to_owned().ok()?);
    socket.local_addr().ok()?;
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}

/// Serves the tools of `agent` over a pair of byte streams until the client leaves.
///
/// The end of the input is the client's way to say goodbye. Calls still under way get a moment to be answered, because
/// a script that pipes its requests in and closes wants them; then they are cancelled. It returns when the end of every
/// call is recorded.
pub async fn serve<R, W>(edge: impl Into<Edge>, agent: AgentName, read: R, write: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let edge = edge.into();
    let runtime = edge.runtime.clone();
    runtime.definitions(&agent)?;
    let closing = CancellationToken::new();
    let server = Arc::new(Server::new(edge.enter(&agent), Arc::new(Semaphore::new(MAX_CALLS))));
    let lines = Lines::new(read, write, server.clone(), closing.clone());
    let wire = lines.wire();
    let served = match serve_server_with_ct(server.clone(), lines, closing).await {
        Ok(service) => service.waiting().await.map_err(Into::into),
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(QuitReason::Closed),
        Err(error) => Err(ServeError::Handshake(Box::new(error))),
    };
    edge.leave(&agent).await;
    runtime.agent_left(&agent);
    // What broke the connection is why it was not greeted either.
    match (wire.failure(), served) {
        (Some(failure), _) => Err(failure.into()),
        (None, Err(error)) => Err(error),
        (None, Ok(QuitReason::JoinError(error))) => Err(error.into()),
        (None, Ok(_)) => Ok(()),
    }
}
