//! Effects that happen once: what is known about each.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AgentName, CallId, Digest, Person};

/// What an effect is known by. The same key twice is the same effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OnceKey {
    /// The agent that wants it.
    pub agent: AgentName,
    /// The tool that does it.
    pub tool: String,
    /// What the caller calls it.
    pub key: String,
}

/// A running program, as its lock file is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub String);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::scale! {
    /// What is known about an effect.
    OnceState {
        /// Its holder is at it.
        Running = "running",
        /// It happened, and its outcome is kept.
        Done = "done",
        /// For sure it did not happen: it may be tried again.
        Failed = "failed",
        /// Nobody can say. It is never tried again without a person's word.
        Unknown = "unknown",
        /// A person found out.
        Resolved = "resolved",
    }
}

/// What a person found out about an effect nobody knew about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened; this is what the caller is told when it asks again.
    Happened(Value),
    /// It did not happen: it may be tried again.
    DidNotHappen,
}

/// A person's word on an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// Who said it.
    pub by: Person,
    /// What.
    pub resolution: Resolution,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// One effect that happens once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Once {
    /// What it is known by.
    pub key: OnceKey,
    /// The hash of what was asked for under that key.
    pub fingerprint: Digest,
    /// The call that tried last.
    pub call: CallId,
    /// What is known.
    pub state: OnceState,
    /// Who tried last.
    pub holder: InstanceId,
    /// How often it was tried.
    pub attempt: u32,
    /// What the holder reported.
    pub outcome: Option<Value>,
    /// What a person found out.
    pub resolved: Option<Resolved>,
    /// When it was last tried, in milliseconds since 1970.
    pub reserved_ms: u64,
    /// When its state was last changed.
    pub changed_ms: u64,
}
