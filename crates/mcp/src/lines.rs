//! Messages as lines over a pair of byte streams, one message a line.
//!
//! What is promised here: a line that is not one well-formed message is answered with an error and does not stop the
//! next one; no line grows beyond [`MAX_LINE`]; a client that writes without reading is not read from until it reads;
//! one that asks without end is refused, and what is no request is heard all the same; answers that are ready together are
//! written together; and nothing but messages is ever written.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    io::{self, ErrorKind},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, ProtocolVersion,
        RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::Notify,
    task::yield_now,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    message::{self, Refusal},
    relay,
    server::Server,
    visit::PlainCall,
};

/// Bytes of one line, its end included.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;
/// Requests under way at once. One more is refused: if it were left unread, so would be what cancels or answers one of them,
/// and that the client has left.
pub(crate) const MAX_CALLS: usize = 1024;
/// Bytes of answers that wait for the client; more is read when it has read them.
const MAX_UNREAD: usize = 4 * 1024 * 1024;
/// What a reader or writer keeps between messages.
const KEPT: usize = 64 * 1024;
/// How long calls under way may still be answered when the input has ended.
const GRACE: Duration = Duration::from_millis(500);

/// The transport rmcp reads from and writes to.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    /// What has been read of the current line. It outlives a `receive` that is dropped half way.
    line: Vec<u8>,
    /// The current line was too long and has been refused; the rest of it is thrown away.
    skipping: bool,
    /// The SDK has got a request. It gives up a connection that anything else opens.
    opened: bool,
    server: Arc<Server>,
    /// The input is over, and this is when calls under way are cancelled.
    deadline: Option<Instant>,
    wire: Arc<Wire<W>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Cancels `closing` when the client is gone.
    pub(crate) fn new(read: R, write: W, server: Arc<Server>, closing: CancellationToken) -> Self {
        let out = Out { write, bytes: Vec::new(), written: 0 };
        let wire = Wire {
            waiting: Mutex::default(),
            changed: Notify::new(),
            out: tokio::sync::Mutex::new(out),
            failure: Mutex::default(),
            closing,
        };
        Self {
            read: BufReader::with_capacity(KEPT, read),
            line: Vec::new(),
            skipping: false,
            opened: false,
            server,
            deadline: None,
            wire: Arc::new(wire),
        }
    }

    pub(crate) fn wire(&self) -> Arc<Wire<W>> {
        self.wire.clone()
    }

    /// Reads up to the end of a line into `self.line`. Nothing is lost when the future is dropped.
    async fn read_line(&mut self) -> io::Result<Line> {
        if self.deadline.is_some() {
            return Ok(Line::End);
        }
        loop {
            let bytes = self.read.fill_buf().await?;
            if bytes.is_empty() {
                self.deadline = Some(Instant::now() + GRACE);
                let unfinished = !self.line.is_empty();
                return Ok(if unfinished { Line::Whole } else { Line::End });
            }
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(bytes.len());
            let skipped = self.skipping;
            let too_long = !skipped && self.line.len() + taken > MAX_LINE;
            if !skipped && !too_long {
                self.line.extend_from_slice(&bytes[..taken]);
            }
            self.read.consume(taken);
            self.skipping = (skipped || too_long) && end.is_none();
            if too_long {
                return Ok(Line::TooLong);
            }
            if end.is_some() && !skipped {
                return Ok(Line::Whole);
            }
        }
    }

    /// The message in `self.line`, if there is one to pass on.
    fn take_message(&mut self) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let read = message::read(&self.line);
        self.line.clear();
        self.line.shrink_to(KEPT);
        match read? {
            Some(message) => self.admit(message),
            None => Ok(None),
        }
    }

    /// Keeps count of the calls under way.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        match &message {
            JsonRpcMessage::Request(request) => {
                let calls = &mut self.wire.waiting().calls;
                let is_full = calls.len() >= MAX_CALLS;
                match calls.entry(request.id.clone()) {
                    Entry::Occupied(_) => return Err(Refusal::id_in_use(request.id.clone())),
                    Entry::Vacant(_) if is_full => return Err(Refusal::too_many(request.id.clone(), MAX_CALLS)),
                    Entry::Vacant(call) => _ = call.insert(None),
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // Nobody is going to answer it.
                    let call = self.wire.waiting().calls.remove(id);
                    self.wire.changed.notify_waiters();
                    if let Some(Some(call)) = call {
                        call.cancel();
                        return Ok(None);
                    }
                }
                if !self.opened {
                    return Ok(None);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) if !self.opened => return Ok(None),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }

    /// Takes a call that needs nothing of the SDK, and gives back what is for the SDK.
    fn take_call(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match PlainCall::of(message, self.server.session(), || self.wire.closing.child_token()) {
            Ok(call) => {
                let cancel = call.visit.cancel.clone();
                self.wire.waiting().calls.insert(call.id.clone(), Some(cancel.clone()));
                let (server, wire) = (self.server.clone(), self.wire.clone());
                tokio::spawn(async move {
                    // What is spawned is copied from place to place; what is on the heap moves with its pointer.
                    let reply = Box::pin(server.reply(call)).await;
                    wire.send(&reply, &cancel).await;
                });
                None
            }
            Err(message) => {
                self.opened |= matches!(&message, JsonRpcMessage::Request(request) if opens(&request.request));
                Some(message)
            }
        }
    }

    fn refuse(&self, refusal: Refusal) {
        tracing::debug!(message = %refusal.error.message, "refused a line");
        let reply = ServerJsonRpcMessage::error(refusal.error, refusal.id);
        // What it refuses may carry the id of a call that is under way, so it does not count as its answer.
        let queued = self.wire.waiting().queue(&reply);
        match queued {
            Ok(()) => drop(tokio::spawn(self.wire.clone().flush())),
            Err(error) => self.wire.fail(error),
        }
    }

    /// Waits for the last answers, then says that the client is gone.
    async fn finish(&mut self) {
        let deadline = *self.deadline.get_or_insert_with(Instant::now);
        let answered = async {
            self.wire.until(|waiting| waiting.calls.is_empty()).await;
            self.wire.clone().flush().await;
        };
        if timeout_at(deadline, answered).await.is_err() {
            tracing::debug!("the client left before its calls were answered");
        }
        self.wire.closing.cancel();
    }
}

/// Does the SDK take this for the beginning of a conversation? Until then whatever is no request would end it.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let is_known = meta.protocol_version().is_some_and(|it| ProtocolVersion::KNOWN_VERSIONS.contains(&it));
            is_known && meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        }
    }
}

/// What a look at the input gave.
enum Line {
    /// A line is in the buffer.
    Whole,
    /// Its beginning is in the buffer, the rest is thrown away.
    TooLong,
    /// There are no more.
    End,
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    /// The message is in line when this returns; the future ends when it is written.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let queued = self.wire.answer(&message, None);
        let wire = self.wire.clone();
        async move {
            queued?;
            wire.flush().await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.wire.until(|waiting| waiting.answers.len() < MAX_UNREAD).await;
            let taken = match self.read_line().await {
                Ok(Line::Whole) => self.take_message(),
                Ok(Line::TooLong) => Err(Refusal::too_long(&mem::take(&mut self.line))),
                Ok(Line::End) => {
                    self.finish().await;
                    return None;
                }
                Err(error) => {
                    self.wire.fail(error);
                    return None;
                }
            };
            match taken {
                Ok(Some(message)) => {
                    if let Some(message) = self.take_call(message) {
                        return Some(message);
                    }
                }
                Ok(None) => {}
                Err(refusal) => self.refuse(refusal),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The way out, shared by the answers under way.
pub(crate) struct Wire<W> {
    waiting: Mutex<Waiting>,
    /// Something left `waiting`.
    changed: Notify,
    out: tokio::sync::Mutex<Out<W>>,
    failure: Mutex<Option<io::Error>>,
    closing: CancellationToken,
}

/// What waits for something.
#[derive(Default)]
struct Waiting {
    /// Lines to be written.
    answers: Vec<u8>,
    /// Somebody is about to write them.
    awaited: bool,
    /// Calls to be answered, and what cancels those the SDK has no part in.
    calls: HashMap<RequestId, Option<CancellationToken>>,
}

impl Waiting {
    fn queue(&mut self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let before = self.answers.len();
        if let Err(error) = relay::write(message, &mut self.answers) {
            self.answers.truncate(before);
            return Err(error.into());
        }
        self.answers.push(b'\n');
        Ok(())
    }
}

/// What is being written. It stays here, with how far it got, when the one who writes it is dropped.
struct Out<W> {
    write: W,
    bytes: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Send + Unpin> Wire<W> {
    /// Puts a message in line, and if it is an answer, its call is over. `cancel` is that of a call the SDK has no part in:
    /// once that was cancelled it is never answered, because its id may be another call's by now.
    fn answer(&self, message: &ServerJsonRpcMessage, cancel: Option<&CancellationToken>) -> io::Result<()> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let mut waiting = self.waiting();
        // Whoever cancels a call takes it off the list first.
        let is_wanted =
            |cancel: &CancellationToken| !cancel.is_cancelled() && id.is_some_and(|id| waiting.calls.contains_key(id));
        if !cancel.is_none_or(is_wanted) {
            return Ok(());
        }
        waiting.queue(message)?;
        if id.is_some_and(|id| waiting.calls.remove(id).is_some()) {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Puts an answer to a call in line, and has it written. What is about to be answered as well is written with it: a client
    /// that is woken up once has less to do.
    async fn send(self: Arc<Self>, message: &ServerJsonRpcMessage, cancel: &CancellationToken) {
        if let Err(error) = self.answer(message, Some(cancel)) {
            return self.fail(error);
        }
        if !mem::replace(&mut self.waiting().awaited, true) {
            yield_now().await;
            self.waiting().awaited = false;
            self.flush().await;
        }
    }

    /// Writes what is in line. Whoever comes first writes for all.
    async fn flush(self: Arc<Self>) {
        let mut out = self.out.lock().await;
        while !self.is_broken() && out.load(&mut self.waiting().answers) {
            self.changed.notify_waiters();
            if let Err(error) = out.write_loaded().await {
                self.fail(error);
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn fail(&self, error: io::Error) {
        tracing::debug!(%error, "the connection broke");
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.closing.cancel();
    }

    /// What broke the connection. A client that closed its end broke nothing.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.filter(|error| !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset))
    }

    /// Returns when this is so.
    async fn until(&self, so: impl Fn(&Waiting) -> bool) {
        if so(&self.waiting()) {
            return;
        }
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if so(&self.waiting()) {
                return;
            }
            changed.await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: AsyncWrite + Unpin> Out<W> {
    /// Takes what is to be written, unless some of the last load is left. Is there anything now?
    fn load(&mut self, answers: &mut Vec<u8>) -> bool {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.written = 0;
            mem::swap(&mut self.bytes, answers);
        }
        !self.bytes.is_empty()
    }

    async fn write_loaded(&mut self) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match self.write.write(&self.bytes[self.written..]).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => self.written += written,
            }
        }
        self.write.flush().await
    }
}

impl<W> fmt::Debug for Wire<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}
