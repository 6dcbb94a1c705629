//! The calls under way at one server, and whose a question is that does not say it.
//!
//! A server of the old era may have a question to whoever makes a call, and on a pipe, or on the stream where a server at an
//! address tells things by itself, nothing has to say which call it is about. A server may name the request. Where it does not,
//! the question is that of the one call under way; with several of them, or right after one was given up, it is refused. To
//! make calls of such a server one at a time instead would let one person who does not answer hold up all others for minutes.
//! And to remember for long what was given up would let one caller keep all others from being asked: a server does not answer
//! what was cancelled, so nobody knows when it has stopped.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    mailbox::Mouth,
    peer::{Query, Said},
    policy,
};

/// How long a server that was told to stop may still ask about what it was told to stop.
const MEMORY: Duration = Duration::from_secs(3);
/// Where a question may name the request it is about. A token for progress is no such name: it is the server's own, for what it
/// wants to hear of its question.
const RELATED: &str = "relatedRequestId";
/// The number JSON-RPC has for a request that makes no sense.
const INVALID_REQUEST: i64 = -32600;

/// The calls of one server whose callers can be asked.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    under_way: HashMap<u64, Mouth>,
    /// Those that were given up and that the server has not answered, and since when.
    given_up: HashMap<u64, Instant>,
}

impl Calls {
    pub(super) fn begin(&self, id: u64, ears: Mouth) {
        self.known().under_way.insert(id, ears);
    }

    /// The server has answered: it is not at it any more.
    pub(super) fn answered(&self, id: u64) {
        let mut known = self.known();
        known.under_way.remove(&id);
        known.given_up.remove(&id);
    }

    /// Nobody waits any more, and the server may not know yet.
    pub(super) fn give_up(&self, id: u64) {
        let mut known = self.known();
        if known.under_way.remove(&id).is_some() {
            known.given_up.insert(id, Instant::now());
        }
    }

    /// Gives a question to the call it is about, or says why it is about none.
    pub(super) fn pass_on(&self, query: Query) -> Result<(), Value> {
        if !policy::is_question(&query.method) {
            return Err(policy::unknown_method());
        }
        let refused = |message: &str| Err(json!({ "code": INVALID_REQUEST, "message": message }));
        let mut known = self.known();
        known.given_up.retain(|_, since| since.elapsed() < MEMORY);
        let related = query.params["_meta"].get(RELATED).cloned();
        let mut calls = known.under_way.values();
        let call = match (related, calls.next(), calls.next(), known.given_up.is_empty()) {
            (Some(id), ..) => match id.as_u64().and_then(|id| known.under_way.get(&id)) {
                Some(call) => call,
                None => return refused("the call it is about is not under way"),
            },
            (None, Some(call), None, true) => call,
            (None, Some(_), ..) => {
                return refused("several calls are under way, and nothing says which one it is about");
            }
            (None, None, ..) => return refused("no call is under way that it could be about"),
        };
        match call.say(Said::Query(query)) {
            true => Ok(()),
            false => refused("the call it is about does not listen"),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::mailbox::mailbox;

    #[test]
    fn a_question_is_that_of_the_one_call_it_can_be_about() {
        let calls = Calls::default();
        let ((first, mut hears), (second, mut other)) = (mailbox(), mailbox());
        let query = || Query { id: json!(1), method: "roots/list".to_owned(), params: json!({}) };
        let refused = || calls.pass_on(query()).unwrap_err()["message"].as_str().unwrap().to_owned();
        assert!(refused().starts_with("no call"));
        calls.begin(1, first);
        assert_eq!(calls.pass_on(Query { method: "tools/call".to_owned(), ..query() }), Err(policy::unknown_method()));
        assert_eq!(calls.pass_on(query()), Ok(()));
        let unheard = (0..100).find_map(|_| calls.pass_on(query()).err()).unwrap_or_default();
        let why = unheard["message"].as_str().unwrap_or_default();
        assert!(why.contains("does not listen"), "what is not read is not waited for: {unheard}");
        assert_eq!(hears.heard(), Some(Said::Query(query())));
        calls.begin(2, second);
        assert!(refused().starts_with("several calls"));
        // Unless the server says which.
        let about = |id: Value| Query { params: json!({ "_meta": { "relatedRequestId": id } }), ..query() };
        assert_eq!(calls.pass_on(about(json!(2))), Ok(()));
        assert_eq!(other.heard(), Some(Said::Query(about(json!(2)))));
        for nobody in [json!(3), json!("2"), json!(null)] {
            let refused = calls.pass_on(about(nobody)).unwrap_err();
            assert!(refused["message"].as_str().unwrap().contains("not under way"), "{refused}");
        }
        // One that was given up may still be at work, until the server has answered it.
        calls.give_up(2);
        assert!(refused().starts_with("several calls"));
        calls.answered(2);
        assert_eq!(calls.pass_on(query()), Ok(()));
        calls.answered(1);
        assert!(refused().starts_with("no call"));
    }
}
