//! The words every stage of the road shares.
//!
//! A [`ToolDef`] says what a tool is, a [`Call`] asks for it, an [`Effect`] says what the call would do to the
//! world, an [`Outcome`] is the answer and a [`Record`] is what is written down. Only data and the small pure
//! functions that keep it honest (parsing, hashing, ordering) live here: nothing in this crate decides, runs or
//! opens anything, so every other crate can depend on it.

mod action;
mod approval;
mod call;
mod canonical;
mod category;
mod class;
mod command;
mod effect;
mod evidence;
mod fault;
mod job;
mod latch;
mod nearest;
mod once;
mod outcome;
mod principal;
mod record;
mod spelling;
mod spend;
mod tool;
mod web;

pub use action::{ActionRegistry, ActionType, BadAction};
pub use approval::{
    Answer, Approval, ApprovalId, ApprovalState, Covers, Grant, GrantId, GrantTerms, Ground, Question, Revoked,
    TimedOut, Vote,
};
pub use call::{AgentName, Call, CallId};
pub use canonical::{Digest, canonical_json, digest};
pub use category::Category;
pub use class::{Level, Risk, SafetyClass};
pub use command::{CommandForm, CommandLine};
pub use effect::{Effect, EffectKind};
pub use evidence::{Difficulty, Evidence, Fact, Part, Score, TaskOutcome};
pub use fault::{Fault, FaultKind};
pub use job::{Ending, Job, JobLimits, Ran, Receipt, Stream, TerminalSize, Usage};
pub use latch::{Latch, LatchKind};
pub use nearest::nearest;
pub use once::{InstanceId, Once, OnceKey, OnceState, Resolution, Resolved};
pub use outcome::{Asked, Finding, Outcome, Span, Status, Truncated, Unit};
pub use principal::{LoginCode, Person, Principal, Scope, Token};
pub use record::{Decided, End, Intent, Note, Raw, Reason, Record, SourceLine, Verdict};
pub use spend::{Cost, Exceeded, Limit, Meter, Totals, Window};
pub use tool::{
    CALL_TOOL, Caps, CostTier, DISCOVERY, Example, FailureMode, Files, Guide, GuideKind, Idempotency, MAX_NAME, Needs,
    Network, Permission, ToolDef,
};
pub use web::{
    ConnectionInfo, ConnectionUse, CredentialVariable, Method, Reach, SearchEngine, SearchProvider, ServiceKind,
    WebLimits, WebRequest, WebResponse,
};
