//! Questions of a running tool to whoever called: what they are shown is cleaned and bounded, and the time they take is not
//! the tool's.
//!
//! A question is somebody else's word that a person or a model is shown, so it goes through the same cleaning as a result:
//! nothing in it that nobody sees, nothing a terminal would act on, no credential. A model's answer goes back to that
//! somebody, so no credential is in it either. What a person writes into a form is theirs to give.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};
use toolgate_contract::Fault;
use toolgate_guard::{clean as hidden, secrets::Redactor};
use toolgate_tools::{Caller, Inquiries, Inquiry, Replies, Replying};

use crate::{
    house::{House, Watch},
    secrets::Broker,
};

/// How long all answers of one call may take together.
const LIFE: Duration = Duration::from_secs(10 * 60);
/// Bytes of everything that is asked at once: a picture for a model has room, a book has not.
const MOST: usize = 1024 * 1024;
/// How often somebody looks whether a call that waits works again.
const GLANCE: Duration = Duration::from_millis(100);

/// The way to whoever made this call; to nobody where they cannot be asked.
pub(crate) fn inquiries(house: &Arc<House>, watch: &Watch, waiting: &Arc<Waiting>) -> Inquiries {
    let Some(caller) = &watch.caller else { return Inquiries::default() };
    Inquiries::to(Arc::new(Desk { caller: caller.clone(), house: house.clone(), waiting: waiting.clone() }))
}

/// Between a tool and whoever called.
struct Desk {
    caller: Arc<dyn Caller>,
    house: Arc<House>,
    waiting: Arc<Waiting>,
}

impl Caller for Desk {
    fn can(&self) -> Value {
        self.caller.can()
    }

    fn ask(&self, inquiries: Vec<Inquiry>) -> Replying {
        let methods: Vec<_> = inquiries.iter().map(|inquiry| (inquiry.key.clone(), inquiry.method.clone())).collect();
        let words = Words { broker: self.house.connections.broker().clone(), redactor: self.house.redactor.clone() };
        let clean = |inquiry: Inquiry| Inquiry { params: words.plain(inquiry.params), ..inquiry };
        let inquiries: Vec<_> = inquiries.into_iter().map(clean).collect();
        let bytes: usize = inquiries.iter().map(|inquiry| inquiry.params.to_string().len()).sum();
        if bytes > MOST {
            let message = format!("the tool's question has {bytes} bytes, and {MOST} are allowed");
            let fault = Fault::refused("question_too_large", message, "Report this to who runs the server.");
            return Box::pin(std::future::ready(Err(fault)));
        }
        let (asked, waiting) = (self.caller.ask(inquiries), self.waiting.clone());
        Box::pin(async move {
            let left = LIFE.saturating_sub(waiting.lock().waited(Instant::now()));
            let _waits = waiting.begin();
            let mut replies = timeout(left, asked).await.unwrap_or_else(|_| Err(late()))?;
            for (key, method) in methods {
                if let (true, Some(reply)) = (method == "sampling/createMessage", replies.get_mut(&key)) {
                    *reply = words.plain(reply.take());
                }
            }
            Ok::<Replies, Fault>(replies)
        })
    }

    fn lacks(&self, needed: Value) {
        self.caller.lacks(needed);
    }
}

fn late() -> Fault {
    let message = format!("the tool's question had no answer within {} minutes", LIFE.as_secs() / 60);
    Fault::failed("not_answered", message, "Call again when somebody is there to answer.")
}

/// What is taken out of words.
struct Words {
    broker: Arc<Broker>,
    redactor: Redactor,
}

impl Words {
    /// The value without credentials and without what nobody sees. Pictures and sounds stay as they are.
    fn plain(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.plain_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.plain(item)).collect(),
            Value::Object(fields) => {
                let has_data = matches!(fields.get("type").and_then(Value::as_str), Some("image" | "audio"));
                let plain = |(name, value): (String, Value)| match &value {
                    Value::String(data) if has_data && name == "data" && STANDARD.decode(data).is_ok() => (name, value),
                    _ => (self.plain_text(&name), self.plain(value)),
                };
                fields.into_iter().map(plain).collect::<Map<_, _>>().into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn plain_text(&self, text: &str) -> String {
        let told = self.redactor.redact(&self.broker.redact(text)).0.into_owned();
        hidden::clean(&told).0.into_owned()
    }
}

/// How long a call has waited for whoever made it.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Waits>);

impl Waiting {
    /// Returns when a call has worked for so long.
    pub(crate) async fn worked(&self, time: Duration) {
        let started = Instant::now();
        loop {
            let now = Instant::now();
            let (left, waits) = {
                let waits = self.lock();
                (waits.left(time, started, now), waits.open > 0)
            };
            match (left.is_zero(), waits) {
                (true, false) => return,
                (_, true) => sleep(left.max(GLANCE)).await,
                (false, false) => sleep(left).await,
            }
        }
    }

    fn begin(self: Arc<Self>) -> Open {
        self.lock().begin(Instant::now());
        Open(self)
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open, until it is dropped.
struct Open(Arc<Waiting>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().end(Instant::now());
    }
}

#[derive(Debug, Default)]
struct Waits {
    /// Questions that are open, and since when one is.
    open: usize,
    since: Option<Instant>,
    over: Duration,
}

impl Waits {
    fn begin(&mut self, now: Instant) {
        self.open += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.open -= 1;
        if self.open == 0 {
            self.over = self.waited(now);
            self.since = None;
        }
    }

    fn waited(&self, now: Instant) -> Duration {
        self.over + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Of the time a call may work, what it has not.
    fn left(&self, time: Duration, started: Instant, now: Instant) -> Duration {
        let worked = now.saturating_duration_since(started).saturating_sub(self.waited(now));
        time.saturating_sub(worked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spent_waiting_is_not_time_spent_working() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut waits = Waits::default();
        let left = |waits: &Waits, second: u64| waits.left(Duration::from_secs(10), start, at(second)).as_secs();
        assert_eq!(left(&waits, 3), 7);
        waits.begin(at(3));
        waits.begin(at(50));
        assert_eq!(left(&waits, 100), 7);
        waits.end(at(100));
        assert_eq!(left(&waits, 200), 7);
        waits.end(at(200));
        assert_eq!((left(&waits, 204), left(&waits, 207), left(&waits, 300)), (3, 0, 0));
        assert_eq!(waits.waited(at(300)), Duration::from_secs(197));
    }
}
