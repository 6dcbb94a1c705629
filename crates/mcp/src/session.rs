//! Sessions of the revisions that have them: those of one agent over HTTP, so many and for so long.
//!
//! The SDK's own list never forgets a session, and its clock ends one that waits for a long call. So the list here decides:
//! a session that nobody uses is closed after [`IDLE`], and where there are [`MOST`] the one that was idle longest makes room.
//!
//! From 2025-11-25 on a stream begins with an event without a message, by which a client can take it up again. The SDK sends
//! one to everybody; those who take every event for a message do not get it here.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::ready, stream};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult},
    transport::{
        WorkerTransport,
        streamable_http_server::session::{
            ServerSseMessage, SessionId, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig},
        },
    },
};
use tokio::time::Instant;

/// Sessions of one agent.
pub(crate) const MOST: usize = 64;
/// How long one lasts that nobody uses.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);

/// The sessions of one agent.
#[derive(Debug)]
pub(crate) struct Sessions {
    local: LocalSessionManager,
    kept: Arc<Mutex<HashMap<SessionId, Kept>>>,
}

/// What is known about a session.
#[derive(Debug)]
struct Kept {
    used: Instant,
    /// Its revision has events without a message.
    is_primed: bool,
    /// Streams that somebody reads.
    streams: usize,
    /// Requests under way.
    calls: HashSet<RequestId>,
}

impl Kept {
    fn is_idle(&self) -> bool {
        self.streams == 0 && self.calls.is_empty()
    }
}

/// Why a session does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("every session of this agent is in use")]
    Full,
    #[error("a request with this id is under way")]
    IdInUse,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = None;
        Self { local, kept: Arc::default() }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.kept().contains_key(id)
    }

    /// Is there a request under way with this id?
    pub(crate) fn is_under_way(&self, session: &str, id: &RequestId) -> bool {
        self.kept().get(session).is_some_and(|kept| kept.calls.contains(id))
    }

    /// Sees to it that there is room for one more. False where all are in use.
    pub(crate) async fn make_room(&self) -> bool {
        let longest = {
            let kept = self.kept();
            if kept.len() < MOST {
                return true;
            }
            let idle = kept.iter().filter(|(_, kept)| kept.is_idle());
            idle.min_by_key(|(_, kept)| kept.used).map(|(id, _)| id.clone())
        };
        match longest {
            Some(id) => self.close_session(&id).await.is_ok(),
            None => false,
        }
    }

    /// Closes those that nobody has used for long.
    pub(crate) async fn sweep(&self, now: Instant) {
        let old = |kept: &Kept| kept.is_idle() && now.duration_since(kept.used) >= IDLE;
        let over: Vec<_> = self.kept().iter().filter(|(_, kept)| old(kept)).map(|(id, _)| id.clone()).collect();
        self.close(over).await;
    }

    /// Closes all of them, and so cancels what is under way.
    pub(crate) async fn close_all(&self) {
        let all = self.kept().keys().cloned().collect();
        self.close(all).await;
    }

    async fn close(&self, ids: Vec<SessionId>) {
        for id in ids {
            if let Err(error) = self.close_session(&id).await {
                tracing::debug!(%error, "a session was not closed in order");
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<SessionId, Kept>> {
        lock(&self.kept)
    }

    /// Notes that somebody reads a stream of this session until the guard is dropped.
    fn reading(&self, session: &SessionId, call: Option<RequestId>) -> Result<Reading, SessionError> {
        let mut kept = self.kept();
        let mut is_primed = false;
        if let Some(kept) = kept.get_mut(session) {
            if call.as_ref().is_some_and(|id| !kept.calls.insert(id.clone())) {
                return Err(SessionError::IdInUse);
            }
            kept.used = Instant::now();
            kept.streams += 1;
            is_primed = kept.is_primed;
        }
        Ok(Reading { kept: self.kept.clone(), session: session.clone(), call, is_primed })
    }
}

/// Somebody reads a stream.
struct Reading {
    kept: Arc<Mutex<HashMap<SessionId, Kept>>>,
    session: SessionId,
    call: Option<RequestId>,
    is_primed: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(kept) = lock(&self.kept).get_mut(&self.session) {
            kept.used = Instant::now();
            kept.streams = kept.streams.saturating_sub(1);
            if let Some(call) = &self.call {
                kept.calls.remove(call);
            }
        }
    }
}

fn lock(kept: &Mutex<HashMap<SessionId, Kept>>) -> MutexGuard<'_, HashMap<SessionId, Kept>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stream, with a note of it for as long as it is read, and without events that its reader does not know.
fn noted(
    stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    reading: Reading,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream.filter(move |event| {
        // All of it, so that it is not dropped before the stream.
        let reading = &reading;
        ready(event.message.is_some() || reading.is_primed)
    })
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        let full = {
            let mut kept = self.kept();
            let full = kept.len() >= MOST;
            if !full {
                kept.insert(
                    id.clone(),
                    Kept { used: Instant::now(), is_primed: false, streams: 0, calls: HashSet::new() },
                );
            }
            full
        };
        if full {
            self.local.close_session(&id).await?;
            return Err(SessionError::Full);
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let answer = self.local.initialize_session(id, message).await?;
        if let JsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(hello) = &response.result
            && let Some(kept) = self.kept().get_mut(id)
        {
            kept.is_primed = hello.protocol_version >= ProtocolVersion::V_2025_11_25;
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.has(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.kept().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let call = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let reading = self.reading(id, call)?;
        Ok(noted(self.local.create_stream(id, message).await?, reading))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        if let Some(kept) = self.kept().get_mut(id) {
            kept.used = Instant::now();
        }
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let reading = self.reading(id, None)?;
        let first = ServerSseMessage::priming("0", SessionConfig::DEFAULT_SSE_RETRY);
        Ok(noted(stream::iter([first]).chain(self.local.create_standalone_stream(id).await?), reading))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let reading = self.reading(id, None)?;
        Ok(noted(self.local.resume(id, last_event_id).await?, reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_nobody_uses_ends_after_a_while_and_one_that_is_read_does_not() {
        let sessions = Sessions::new();
        let (used, _one) = sessions.create_session().await.unwrap();
        let (idle, _other) = sessions.create_session().await.unwrap();
        let reading = sessions.reading(&used, None).unwrap();
        let start = Instant::now();
        sessions.sweep(start).await;
        assert_eq!((sessions.has(&used), sessions.has(&idle)), (true, true));
        sessions.sweep(start + IDLE).await;
        assert_eq!((sessions.has(&used), sessions.has(&idle)), (true, false));
        drop(reading);
        sessions.sweep(Instant::now() + IDLE).await;
        assert!(!sessions.has(&used));
    }

    #[tokio::test]
    async fn an_id_is_taken_once_at_a_time() {
        let sessions = Sessions::new();
        let (session, _transport) = sessions.create_session().await.unwrap();
        let id = RequestId::Number(1);
        let first = sessions.reading(&session, Some(id.clone())).unwrap();
        assert!(sessions.is_under_way(&session, &id) && !sessions.is_under_way(&session, &RequestId::Number(2)));
        assert!(matches!(sessions.reading(&session, Some(id.clone())), Err(SessionError::IdInUse)));
        drop(first);
        assert!(!sessions.is_under_way(&session, &id));
    }
}
