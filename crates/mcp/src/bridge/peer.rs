//! A conversation with another server over a pair of byte streams: requests, and whose answer is whose.
//!
//! Whoever is at the other end may write anything. A line that is no message is counted and left behind, a line that is
//! too long is thrown away as it comes, and an answer goes to the request with its id and to nobody else: one that
//! nobody waits for is counted. Whose a question of the server is, [`super::calls`] says.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{broadcast, mpsc, oneshot, watch},
    task::yield_now,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_contract::Fault;
use toolgate_guard::json::Limits;
use toolgate_runtime::tools::{Remark, Weight};

use super::{calls::Calls, ears::Ears, mailbox::Mouth, params::Params, reading};
use crate::message::find_id;

/// Bytes of one line, its end included.
pub const MOST_LINE: usize = 16 * 1024 * 1024;
/// A message around a result, which may nest as deeply as any value.
const LIMITS: Limits = Limits { bytes: MOST_LINE, depth: 72 };
/// Lines that wait for a server that does not read. Whoever asks then waits too.
const UNREAD: usize = 64;
/// What a reader keeps between lines.
const KEPT: usize = 64 * 1024;
/// How much of what a server says about its own failure is passed on.
const SHOWN: usize = 1_000;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// The connection ended.
    #[error("the server is gone")]
    Gone,
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// There was an answer that cannot be read, or that is none.
    #[error("its answer cannot be used: {0}")]
    Unusable(String),
    /// It cannot be reached.
    #[error("{}", .0.message)]
    Failed(Fault),
    /// The server answered with an error.
    #[error("it answered with error {code}: {message}")]
    Refused {
        /// The number of the error.
        code: i64,
        /// What it says.
        message: String,
        /// What comes with it.
        data: Value,
    },
}

/// How far the server has come with a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Done so far.
    pub done: f64,
    /// Of how much, where it says so.
    pub total: Option<f64>,
    /// What it is at.
    pub message: Option<String>,
}

/// What is heard while a request is under way.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// How far it is.
    Step(Step),
    /// Something else that was worth a word.
    Remark(Remark),
    /// A question, which wants an answer.
    Query(Query),
}

/// What a server has to know before it can answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Of the server's request; the answer has it too.
    pub id: Value,
    /// Of the request.
    pub method: String,
    /// Of the request.
    pub params: Value,
}

/// What was left behind because it was no message for us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noise {
    /// Lines that are no message.
    pub lines: u64,
    /// Lines that were too long.
    pub too_long: u64,
    /// Answers nobody waits for: to no request, to one that was given up, or a second one.
    pub answers: u64,
    /// Requests that were answered by saying no.
    pub refused: u64,
}

/// A server, as whoever asks it sees it. Cheap to clone; when the last clone is dropped the conversation is over.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    _end: Arc<DropGuard>,
}

struct Shared {
    /// Who waits for which answer; none once the server is gone.
    waiting: Mutex<Option<HashMap<u64, Waiter>>>,
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    noise: Mutex<Noise>,
    calls: Calls,
    ears: Ears,
    ended: CancellationToken,
}

struct Waiter {
    answer: oneshot::Sender<Result<Value, Trouble>>,
    steps: Option<Mouth>,
}

impl Peer {
    /// Speaks over these streams until one of them ends or the last clone is dropped.
    pub fn over<R, W>(read: R, write: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, lines) = mpsc::channel(UNREAD);
        let ended = CancellationToken::new();
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Some(HashMap::new())),
            out,
            next: AtomicU64::new(1),
            noise: Mutex::default(),
            calls: Calls::default(),
            ears: Ears::default(),
            ended: ended.clone(),
        });
        tokio::spawn(write_lines(write, lines, ended.clone()));
        tokio::spawn(read_lines(read, shared.clone()));
        Self { shared, _end: Arc::new(ended.drop_guard()) }
    }

    /// Asks, and waits for the answer at most this long. What is given up, also by dropping the future, is cancelled.
    ///
    /// `steps` hears how far the server has come; a listener that does not keep up misses some.
    pub async fn ask(
        &self,
        method: &str,
        params: Map<String, Value>,
        patience: Duration,
        steps: Option<Mouth>,
    ) -> Result<Value, Trouble> {
        let params = Params { own: &params, brought: &Map::new(), says: None, progress: None };
        self.ask_for(method, params, Some(patience), steps).await
    }

    /// The same, with parameters that are somewhere else; without a bound on the time for who has one of their own.
    pub(crate) async fn ask_for(
        &self,
        method: &str,
        params: Params<'_>,
        patience: Option<Duration>,
        steps: Option<Mouth>,
    ) -> Result<Value, Trouble> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let params = Params { progress: steps.is_some().then_some(id), ..params };
        let (answer, answered) = oneshot::channel();
        if let Some(ears) = &steps {
            self.shared.calls.begin(id, ears.clone());
        }
        let asked = Asked { shared: &self.shared, id };
        self.shared.wait_for(id, Waiter { answer, steps })?;
        let request = line(&Request { jsonrpc: "2.0", id, method, params });
        let whole = async {
            self.shared.out.send(request).await.map_err(|_| Trouble::Gone)?;
            answered.await.unwrap_or(Err(Trouble::Gone))
        };
        let answer = match patience {
            Some(patience) => timeout(patience, whole).await.unwrap_or(Err(Trouble::TimedOut(patience))),
            None => whole.await,
        };
        drop(asked);
        answer
    }

    /// Asks for what goes on without an end: nobody waits for the answer. What is given ends it; none where the server is
    /// gone.
    pub fn begin(&self, method: &str, params: Map<String, Value>) -> Option<u64> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, _) = oneshot::channel();
        self.shared.wait_for(id, Waiter { answer, steps: None }).ok()?;
        self.shared.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        Some(id)
    }

    /// Takes back what was begun.
    pub fn end(&self, id: u64) {
        drop(Asked { shared: &self.shared, id });
    }

    /// The addresses the server says have changed.
    pub fn news(&self) -> broadcast::Receiver<String> {
        self.shared.ears.news.subscribe()
    }

    /// Answers a question of the server, with a result or an error.
    pub async fn reply(&self, query: &Value, answer: Result<Value, Value>) {
        // A server that is gone needs no answer.
        let _ = self.shared.out.send(line(&reply(query, answer))).await;
    }

    /// Tells the server something, if it reads.
    pub fn tell(&self, method: &str, params: Value) {
        self.shared.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Changes whenever the server says that one of its lists did.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.ears.changes.subscribe()
    }

    /// What was left behind so far.
    pub fn noise(&self) -> Noise {
        *self.shared.noise()
    }

    /// Returns when the server is gone.
    pub async fn gone(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Is there nobody any more?
    pub fn is_gone(&self) -> bool {
        self.shared.ended.is_cancelled()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("gone", &self.is_gone()).finish_non_exhaustive()
    }
}

/// A request as it is written.
#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: Params<'a>,
}

/// A request that is under way. Dropped before its answer came, it is taken back.
struct Asked<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let given_up = self.shared.waiting().as_mut().and_then(|waiting| waiting.remove(&self.id));
        self.shared.calls.give_up(self.id);
        if given_up.is_some() {
            let params = json!({ "requestId": self.id, "reason": "the caller no longer waits" });
            self.shared.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, Waiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noise(&self) -> MutexGuard<'_, Noise> {
        self.noise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, id: u64, waiter: Waiter) -> Result<(), Trouble> {
        self.waiting().as_mut().ok_or(Trouble::Gone)?.insert(id, waiter);
        Ok(())
    }

    /// Puts a message in line. A server that does not read is not told: whoever reads must not wait for whoever writes.
    fn say(&self, message: &Value) {
        let _ = self.out.try_send(line(message));
    }

    /// Everybody who still waits is told that nobody will answer.
    fn end(&self) {
        let waiting = self.waiting().take().unwrap_or_default();
        self.ended.cancel();
        for waiter in waiting.into_values() {
            // Whoever asked may have left.
            let _ = waiter.answer.send(Err(Trouble::Gone));
        }
    }

    fn take(&self, line: &[u8]) {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return;
        }
        match reading::read(line, &LIMITS) {
            // The revision of March 2025 has batches.
            Ok(Value::Array(messages)) => messages.into_iter().for_each(|message| self.take_message(message)),
            Ok(message) => self.take_message(message),
            Err(why) => {
                self.noise().lines += 1;
                self.fail(line, &why);
            }
        }
    }

    fn take_message(&self, message: Value) {
        let Value::Object(mut fields) = message else {
            self.noise().lines += 1;
            return;
        };
        let id = fields.remove("id");
        match (fields.get("method").and_then(Value::as_str), id) {
            (Some(method), None) => self.hear(method, fields.get("params").unwrap_or(&Value::Null)),
            (Some("ping"), Some(id)) => self.say(&reply(&id, Ok(json!({})))),
            (Some(method), Some(id)) => {
                let (method, params) = (method.to_owned(), fields.get("params").cloned());
                let query = Query { id: id.clone(), method, params: params.unwrap_or_else(|| json!({})) };
                if let Err(error) = self.calls.pass_on(query) {
                    self.noise().refused += 1;
                    self.say(&reply(&id, Err(error)));
                }
            }
            (None, Some(id)) => self.settle(&id, answer_in(fields)),
            (None, None) => self.noise().lines += 1,
        }
    }

    /// Gives an answer to whoever waits for it.
    fn settle(&self, id: &Value, answer: Result<Value, Trouble>) {
        let waiter = id.as_u64().and_then(|id| self.waiting().as_mut()?.remove(&id));
        if let Some(id) = id.as_u64() {
            self.calls.answered(id);
        }
        match waiter {
            Some(waiter) => drop(waiter.answer.send(answer)),
            None => self.noise().answers += 1,
        }
    }

    /// A line that cannot be read may have been an answer: whoever waits for it need not wait any longer.
    fn fail(&self, beginning: &[u8], why: &str) {
        let Some(id) = find_id(beginning).and_then(|id| serde_json::to_value(id).ok()) else { return };
        let is_awaited = |id: u64| self.waiting().as_ref().is_some_and(|waiting| waiting.contains_key(&id));
        if id.as_u64().is_some_and(is_awaited) {
            self.settle(&id, Err(Trouble::Unusable(why.to_owned())));
        }
    }

    fn hear(&self, method: &str, params: &Value) {
        match method {
            "notifications/progress" => self.hear_step(params),
            "notifications/message" => self.hear_remark(params),
            _ => self.ears.hear(method, params),
        }
    }

    fn hear_step(&self, params: &Value) {
        let Some((id, step)) = step_in(params) else { return };
        if let Some(steps) =
            self.waiting().as_ref().and_then(|waiting| waiting.get(&id)).and_then(|waiter| waiter.steps.as_ref())
        {
            steps.say(Said::Step(step));
        }
    }

    /// Nothing says which call a remark is about. Where one is under way it is that one's; where several are it is
    /// nobody's, because it may tell one caller what another one does.
    fn hear_remark(&self, params: &Value) {
        let Some(remark) = remark_in(params) else { return };
        let waiting = self.waiting();
        let mut calls = waiting.iter().flat_map(|waiting| waiting.values()).filter_map(|waiter| waiter.steps.as_ref());
        if let (Some(steps), None) = (calls.next(), calls.next()) {
            steps.say(Said::Remark(remark));
        }
    }
}

/// What a server says about its work.
pub(crate) fn remark_in(params: &Value) -> Option<Remark> {
    let weight = Weight::parse(params["level"].as_str()?)?;
    let logger = params["logger"].as_str().map(|name| name.chars().take(SHOWN).collect());
    Some(Remark { weight, logger, data: params["data"].clone() })
}

/// How far a request has come, and which one.
pub(crate) fn step_in(params: &Value) -> Option<(u64, Step)> {
    let (id, done) = (params["progressToken"].as_u64()?, params["progress"].as_f64()?);
    let message = params["message"].as_str().map(|text| text.chars().take(SHOWN).collect());
    Some((id, Step { done, total: params["total"].as_f64(), message }))
}

/// What an answer says.
pub(crate) fn answer_in(mut fields: Map<String, Value>) -> Result<Value, Trouble> {
    match (fields.remove("result"), fields.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(Trouble::Refused {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().chars().take(SHOWN).collect(),
            data: error["data"].clone(),
        }),
        _ => Err(Trouble::Unusable("it has neither a result nor an error, or both".to_owned())),
    }
}

/// The answer to a request of the server.
pub(crate) fn reply(id: &Value, answer: Result<Value, Value>) -> Value {
    match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    // What is written here is made of values and words, and those have a spelling.
    let _ = serde_json::to_writer(&mut line, message);
    line.push(b'\n');
    line
}

async fn write_lines<W>(mut write: W, mut lines: mpsc::Receiver<Vec<u8>>, ended: CancellationToken)
where
    W: AsyncWrite + Send + Unpin,
{
    let work = async {
        while let Some(mut together) = lines.recv().await {
            // Whoever is about to ask as well is written with it: a server that is woken up once has less to do.
            yield_now().await;
            while together.len() < KEPT
                && let Ok(mut line) = lines.try_recv()
            {
                together.append(&mut line);
            }
            write.write_all(&together).await?;
            write.flush().await?;
        }
        io::Result::Ok(())
    };
    // A server that no longer reads may still have something to say: it is gone when it says nothing any more.
    tokio::select! {
        _ = work => {}
        () = ended.cancelled() => {}
    }
}

async fn read_lines<R: AsyncRead + Send + Unpin>(read: R, shared: Arc<Shared>) {
    let mut read = BufReader::with_capacity(KEPT, read);
    let ended = shared.ended.clone();
    let work = async {
        let mut line = Vec::new();
        while let Ok(Some(length)) = read_line(&mut read, &mut line).await {
            match length {
                Length::Whole => shared.take(&line),
                Length::TooLong => {
                    shared.noise().too_long += 1;
                    shared.fail(&line, &format!("it is longer than {MOST_LINE} bytes"));
                }
            }
            line.clear();
            line.shrink_to(KEPT);
        }
    };
    tokio::select! {
        () = work => {}
        () = ended.cancelled() => {}
    }
    shared.end();
}

/// What a look at the input gave.
enum Length {
    /// A line is in the buffer.
    Whole,
    /// The beginning of one that is too long is in the buffer; the rest was thrown away.
    TooLong,
}

/// Reads one line, and no more of it into memory than a line may have. None at the end; what has no end of line is lost.
async fn read_line<R: AsyncRead + Unpin>(read: &mut BufReader<R>, line: &mut Vec<u8>) -> io::Result<Option<Length>> {
    let mut length = Length::Whole;
    loop {
        let bytes = read.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |at| at + 1);
        if line.len() + taken > MOST_LINE {
            length = Length::TooLong;
        }
        if matches!(length, Length::Whole) {
            line.extend_from_slice(&bytes[..taken]);
        }
        read.consume(taken);
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}
