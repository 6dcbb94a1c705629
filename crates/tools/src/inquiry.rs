//! Questions to whoever called, while their call is under way.
//!
//! A body that speaks for another server passes on what that server wants to know. What may be asked at all, and in which
//! words, is decided by whoever puts the caller here; a body only says what it wants and hears what came of it.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use toolgate_contract::{Asked, Fault};

/// So many are noted of one call; one that asks more often is not worth the room.
const MOST_NOTED: usize = 100;

/// Something a body wants to know, as the request of MCP it would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Inquiry {
    /// What its answer is found by.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Of the request.
    pub params: Value,
}

/// What came back, by the key of what was asked.
pub type Replies = BTreeMap<String, Value>;

/// Answers that are waited for. Dropping it takes the questions back.
pub type Replying = Pin<Box<dyn Future<Output = Result<Replies, Fault>> + Send>>;

/// Whoever called, as far as they can be asked.
pub trait Caller: Send + Sync {
    /// What they can be asked, as an MCP client says what it can do. Nothing else is asked.
    fn can(&self) -> Value;

    /// Asks, and has an answer to every question or none at all.
    fn ask(&self, inquiries: Vec<Inquiry>) -> Replying;

    /// The call cannot be answered because the caller cannot do this: told before it fails, for who has words for it.
    fn lacks(&self, needed: Value);
}

/// The way to whoever called, and what was asked so far.
#[derive(Clone, Default)]
pub struct Inquiries {
    caller: Option<Arc<dyn Caller>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Inquiries {
    /// For a call whose caller can be asked.
    pub fn to(caller: Arc<dyn Caller>) -> Self {
        Self { caller: Some(caller), asked: Arc::default() }
    }

    pub(crate) fn can(&self) -> Value {
        self.caller.as_ref().map_or_else(|| json!({}), |caller| caller.can())
    }

    pub(crate) fn ask(&self, inquiries: Vec<Inquiry>) -> Replying {
        match &self.caller {
            Some(caller) => caller.ask(inquiries),
            None => Box::pin(std::future::ready(Err(nobody()))),
        }
    }

    pub(crate) fn lacks(&self, needed: Value) {
        if let Some(caller) = &self.caller {
            caller.lacks(needed);
        }
    }

    pub(crate) fn note(&self, asked: Asked) {
        let mut noted = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MOST_NOTED {
            noted.push(asked);
        }
    }

    /// What was asked so far, and what came of it.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Inquiries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiries").field("asked", &self.asked()).finish_non_exhaustive()
    }
}

fn nobody() -> Fault {
    let message = "the tool has a question, and whoever called cannot be asked";
    Fault::refused("cannot_ask", message, "Call it from an MCP client that can show questions.")
}
