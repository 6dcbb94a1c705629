//! The words every stage of the road shares.
//!
//! A [`ToolDef`] says what a tool is, a [`Call`] asks for it, an [`Effect`] says what the call would do to the
//! world, an [`Outcome`] is the answer and a [`Record`] is what is written down. Only data and the small pure
//! functions that keep it honest (parsing, hashing, ordering) live here: nothing in this crate decides, runs or
//! opens anything, so every other crate can depend on it.

mod action;
mod call;
mod canonical;
mod category;
mod class;
mod command;
mod effect;
mod fault;
mod job;
mod nearest;
mod outcome;
mod record;
mod spelling;
mod tool;
mod web;

pub use action::{ActionRegistry, ActionType, BadAction};
pub use call::{AgentName, Call, CallId};
pub use canonical::{Digest, canonical_json, digest};
pub use category::Category;
pub use class::{Level, Risk, SafetyClass};
pub use command::{CommandForm, CommandLine};
pub use effect::{Effect, EffectKind};
pub use fault::{Fault, FaultKind};
pub use job::{Ending, Job, JobLimits, Ran, Receipt, Stream, TerminalSize, Usage};
pub use nearest::nearest;
pub use outcome::{Finding, Outcome, Span, Status, Truncated, Unit};
pub use record::{Decided, End, Intent, Raw, Reason, Record, SourceLine, Verdict};
pub use tool::{
    Caps, CostTier, Example, FailureMode, Files, Guide, Idempotency, MAX_NAME, Needs, Network, Permission, ToolDef,
};
pub use web::{
    ConnectionInfo, ConnectionUse, CredentialVariable, Method, Reach, SearchEngine, SearchProvider, ServiceKind,
    WebLimits, WebRequest, WebResponse,
};
