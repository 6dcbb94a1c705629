//! What happens, as it happens.
//!
//! The record is followed, not this process: calls that another program makes on the same data directory are told too.
//! Everybody who listens has a queue of a fixed length; whoever does not keep up is told how much was missed.

use std::{collections::HashMap, convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast, broadcast::error::RecvError},
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::CallId;
use toolgate_runtime::store::{Line, Reader, StoreError};

/// How many events wait for one listener.
const QUEUE: usize = 256;
/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How often a connection gets a sign of life. The same moment is used to look whether whoever listens still may, so that
/// no event puts it off.
const PULSE: Duration = Duration::from_secs(15);
/// Calls under way whose agent is remembered until their end is told.
const MOST_OPEN: usize = 4_096;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its place in the record.
    pub(crate) seq: u64,
    /// `call` or `note`.
    pub(crate) name: &'static str,
    pub(crate) data: Value,
}

impl Event {
    fn frame(&self) -> Bytes {
        // JSON text has no line ends, so one line of data is all of it.
        format!("id: {}\nevent: {}\ndata: {}\n\n", self.seq, self.name, self.data).into()
    }
}

/// Where events are heard.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
}

impl Events {
    /// Follows the record of a directory until it is stopped.
    pub(crate) fn follow(dir: PathBuf, stop: CancellationToken) -> Self {
        let (sender, _) = broadcast::channel(QUEUE);
        let events = Self { sender };
        tokio::spawn(events.clone().run(dir, stop));
        events
    }

    async fn run(self, dir: PathBuf, stop: CancellationToken) {
        let mut follower = None;
        loop {
            let (dir, current, sender) = (dir.clone(), follower.take(), self.sender.clone());
            let looked = tokio::task::spawn_blocking(move || {
                let mut current = current.map_or_else(|| Follower::open(&dir), Ok)?;
                let seen = current.look(|| sender.receiver_count() > 0)?;
                Ok::<_, StoreError>((current, seen))
            });
            match looked.await {
                Ok(Ok((current, Seen { events, is_all }))) => {
                    follower = Some(current);
                    for event in events {
                        // Where nobody listens there is nobody to tell.
                        let _ = self.sender.send(Arc::new(event));
                    }
                    if !is_all {
                        continue;
                    }
                }
                // A record that does not exist yet, most often.
                Ok(Err(error)) => tracing::debug!("the record cannot be followed: {error}"),
                Err(error) => tracing::warn!("following the record failed: {error}"),
            }
            tokio::select! {
                () = time::sleep(LOOK) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// An answer that tells events as long as `still_may` says yes.
    pub(crate) fn answer<F>(
        &self,
        slot: OwnedSemaphorePermit,
        stop: CancellationToken,
        still_may: impl Fn() -> F + Send + Sync + 'static,
    ) -> Response
    where
        F: Future<Output = bool> + Send,
    {
        let heard = Listener { events: self.sender.subscribe(), pulse: Instant::now() + PULSE, stop, _slot: slot };
        let start = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"retry: 2000\n\n")) });
        let frames = stream::unfold((heard, still_may), |(mut heard, still_may)| async move {
            let frame = heard.next(&still_may).await?;
            Some((Ok(frame), (heard, still_may)))
        });
        let mut response = Response::new(Body::from_stream(stream::StreamExt::chain(start, frames)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }
}

struct Listener {
    events: broadcast::Receiver<Arc<Event>>,
    /// When the next sign of life is due.
    pulse: Instant,
    stop: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl Listener {
    async fn next<F: Future<Output = bool>>(&mut self, still_may: &impl Fn() -> F) -> Option<Bytes> {
        // Looked at first: where something always happens, the pulse below would never have its turn.
        if Instant::now() >= self.pulse {
            return self.beat(still_may).await;
        }
        tokio::select! {
            heard = self.events.recv() => match heard {
                Ok(event) => Some(event.frame()),
                Err(RecvError::Lagged(missed)) => {
                    Some(format!("event: missed\ndata: {}\n\n", json!({ "events": missed })).into())
                }
                Err(RecvError::Closed) => None,
            },
            () = time::sleep_until(self.pulse) => self.beat(still_may).await,
            () = self.stop.cancelled() => None,
        }
    }

    /// A sign of life, for those who still may hear it.
    async fn beat<F: Future<Output = bool>>(&mut self, still_may: &impl Fn() -> F) -> Option<Bytes> {
        self.pulse = Instant::now() + PULSE;
        still_may().await.then(|| Bytes::from_static(b": still here\n\n"))
    }
}

/// What a look at the record gave.
struct Seen {
    events: Vec<Event>,
    /// There was no more.
    is_all: bool,
}

/// How far the record was followed.
struct Follower {
    reader: Reader,
    seq: u64,
    /// The agents of calls that have begun.
    open: HashMap<String, Value>,
}

impl Follower {
    fn open(dir: &std::path::Path) -> Result<Self, StoreError> {
        let reader = Reader::open(dir)?;
        let seq = reader.last()?;
        Ok(Self { reader, seq, open: HashMap::new() })
    }

    /// What is new. Where nobody hears it nothing is read, and whoever begins to is told of all that happens from then on.
    fn look(&mut self, is_heard: impl Fn() -> bool) -> Result<Seen, StoreError> {
        if !is_heard() {
            let last = self.reader.last()?;
            // Somebody may have begun before the last of these.
            if !is_heard() {
                self.seq = last;
                return Ok(Seen { events: Vec::new(), is_all: true });
            }
        }
        let lines = self.reader.after(self.seq, QUEUE as u32)?;
        self.seq = lines.last().map_or(self.seq, |line| line.seq);
        let is_all = lines.len() < QUEUE;
        Ok(Seen { events: lines.iter().filter_map(|line| self.event(line)).collect(), is_all })
    }

    fn event(&mut self, line: &Line) -> Option<Event> {
        let body = &line.body;
        let call = || body["call"].as_str().unwrap_or_default().to_owned();
        match body["kind"].as_str()? {
            "intent" => {
                if self.open.len() >= MOST_OPEN {
                    self.open.clear();
                }
                self.open.insert(call(), body["record"]["agent"].clone());
                None
            }
            "end" => {
                let outcome = &body["outcome"];
                let agent = match (self.open.remove(&call()), &body["record"]["agent"]) {
                    (Some(agent), _) => agent,
                    // It began when nobody was listening.
                    (None, Value::Null) => self.reader.agent(&CallId(call())).ok().flatten().into(),
                    (None, agent) => agent.clone(),
                };
                let data = json!({
                    "call": body["call"], "at_ms": body["at_ms"], "agent": agent, "tool": outcome["tool"],
                    "status": outcome["status"], "code": outcome["code"], "approval": outcome["approval"],
                    "elapsed_ms": outcome["elapsed_ms"],
                    "findings": outcome["findings"].as_array().map_or(0, Vec::len),
                });
                Some(Event { seq: line.seq, name: "call", data })
            }
            "note" => {
                let note = &body["note"];
                let data = json!({
                    "at_ms": body["at_ms"], "kind": note["kind"], "by": note["by"], "subject": note["subject"],
                });
                Some(Event { seq: line.seq, name: "note", data })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Semaphore;
    use toolgate_contract::Note;
    use toolgate_runtime::store::{SqliteStore, Store as _};

    use super::*;

    fn listener(events: broadcast::Receiver<Arc<Event>>, pulse: Instant) -> Listener {
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Listener { events, pulse, stop: CancellationToken::new(), _slot: slot }
    }

    #[tokio::test]
    async fn who_may_no_longer_listen_hears_nothing_more_however_much_happens() {
        let (sender, events) = broadcast::channel(QUEUE);
        let mut listener = listener(events, Instant::now());
        let tell = || sender.send(Arc::new(Event { seq: 7, name: "call", data: json!({}) })).unwrap();
        tell();
        assert_eq!(listener.next(&async || true).await.unwrap(), ": still here\n\n");
        assert_eq!(listener.next(&async || false).await.unwrap(), "id: 7\nevent: call\ndata: {}\n\n");
        tell();
        listener.pulse = Instant::now();
        assert_eq!(listener.next(&async || false).await, None);
    }

    #[tokio::test]
    async fn who_begins_to_listen_in_the_middle_of_a_look_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = SqliteStore::open(&data).unwrap();
        let note = || Note { at_ms: 1, kind: "vote", by: None, subject: "x".to_owned(), detail: json!({}) };
        store.note(note()).await.unwrap();
        let mut follower = Follower::open(&data).unwrap();
        let count = |seen: Seen| (seen.events.len(), seen.is_all);

        store.note(note()).await.unwrap();
        let asked = Cell::new(false);
        let begins = || asked.replace(true);
        assert_eq!(count(follower.look(begins).unwrap()), (1, true));

        store.note(note()).await.unwrap();
        assert_eq!(count(follower.look(|| false).unwrap()), (0, true));
        store.note(note()).await.unwrap();
        assert_eq!(count(follower.look(|| true).unwrap()), (1, true), "only what came after");
    }

    #[tokio::test]
    async fn who_does_not_keep_up_is_told_how_much_was_missed() {
        let (sender, events) = broadcast::channel(QUEUE);
        let mut listener = listener(events, Instant::now() + PULSE);
        for seq in 1..=QUEUE as u64 + 44 {
            sender.send(Arc::new(Event { seq, name: "call", data: json!({ "text": "one\nline" }) })).unwrap();
        }
        let mut heard = Vec::new();
        while heard.len() < 2 {
            let frame = listener.next(&async || true).await.unwrap();
            heard.push(String::from_utf8(frame.to_vec()).unwrap());
        }
        let first_kept = "id: 45\nevent: call\ndata: {\"text\":\"one\\nline\"}\n\n";
        assert_eq!(heard, ["event: missed\ndata: {\"events\":44}\n\n", first_kept]);
    }
}
