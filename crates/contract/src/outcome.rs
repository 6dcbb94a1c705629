//! An outcome: the answer to one call, in the one shape every caller gets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ActionType, CallId, Effect, Risk};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what was asked.
    Done,
    /// The gate or a guard said no.
    Refused,
    /// A person is asked.
    Pending,
    /// The arguments were wrong or the tool could not do it.
    Failed,
}

/// What a cut counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of text.
    Bytes,
    /// Lines of text.
    Lines,
    /// Entries of a list.
    Items,
}

/// The answer was cut: this much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// How many are in the answer.
    pub shown: u64,
    /// How many there are.
    pub total: u64,
    /// Of what.
    pub unit: Unit,
}

/// Where in the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last.
    pub end: usize,
}

/// Something a guard saw in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What sort of thing.
    pub kind: String,
    /// Which rule saw it.
    pub rule: String,
    /// The risk it speaks of, by its number in the OWASP list for agentic applications, such as `ASI01`.
    pub owasp: Cow<'static, str>,
    /// Where.
    pub span: Span,
    /// What it says or hid, fit to be shown; none where there is no more to tell.
    pub detail: Option<String>,
}

/// Something that was asked of whoever called while the call was under way. What they answered is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The request of MCP it was, such as `elicitation/create`.
    pub method: String,
    /// What came of it: `accept`, `decline` or `cancel` to a form, `answered`, or the code of why it was not asked.
    pub how: String,
}

/// The answer to one call. Field order is the order on the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The call it answers.
    pub call: CallId,
    /// The tool asked for.
    pub tool: String,
    /// How it ended.
    pub status: Status,
    /// Anything but `done`: nothing was achieved yet.
    pub is_error: bool,
    /// What the model reads.
    pub text: String,
    /// The typed output, or null.
    pub structured: Value,
    /// Stable code of the fault.
    pub code: Option<String>,
    /// What went wrong.
    pub message: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// The approval a person was asked for.
    pub approval: Option<String>,
    /// What was cut.
    pub truncated: Option<Truncated>,
    /// Where the text came from.
    pub labels: Vec<String>,
    /// What the guards saw.
    pub findings: Vec<Finding>,
    /// What its server asked of whoever called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
    /// The walls that stood while it ran.
    pub enforced: Vec<String>,
    /// What the call does to the world.
    pub effects: Vec<Effect>,
    /// What it amounts to; none before the call could be classified.
    pub action: Option<ActionType>,
    /// How much is at stake.
    pub risk: Option<Risk>,
    /// It happened before, under the same key, and this is what it answered then.
    pub replayed: bool,
    /// How long it took.
    pub elapsed_ms: u64,
}
