//! What is written down about a call.
//!
//! A call with effects leaves two entries: an intent, durable before the first effect, and an end. A call without
//! effects, or one that never got to run, leaves its end alone. An intent without an end is a finding: the runtime
//! died in between, and nobody can say how far the effect got.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{ActionType, AgentName, CallId, Digest, Effect, Outcome, Principal, Risk, SafetyClass};

/// What the gate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No.
    Deny,
    /// If a person agrees.
    Ask,
    /// Yes.
    Allow,
}

/// The line of a policy file that spoke.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SourceLine {
    /// The file, as it was opened; `built-in` for the defaults.
    pub file: String,
    /// Counting from 1; 0 for the defaults, which have no lines.
    pub line: u64,
}

impl SourceLine {
    /// The defaults.
    pub fn built_in() -> Self {
        Self { file: "built-in".into(), line: 0 }
    }

    /// A tool's own declaration.
    pub fn declaration(tool: &str) -> Self {
        Self { file: format!("declaration of {tool}"), line: 0 }
    }
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// One reason for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The rule's stable name, such as `denied_action`.
    pub rule: &'static str,
    /// One sentence.
    pub text: String,
    /// Where it is written.
    pub source: SourceLine,
}

/// A verdict and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// What the gate said.
    pub verdict: Verdict,
    /// Why, the deciding reason first.
    pub reasons: Vec<Reason>,
}

/// Everything known about a call when it is decided.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The call.
    pub call: CallId,
    /// Who asked.
    pub agent: AgentName,
    /// For which tool.
    pub tool: String,
    /// The hash of the definition the call was checked against.
    pub definition: Option<Digest>,
    /// The arguments as they came.
    pub arguments: Value,
    /// What the call amounts to.
    pub action: Option<ActionType>,
    /// Its class, from the declaration and the effects.
    pub class: Option<SafetyClass>,
    /// What it would do.
    pub effects: Vec<Effect>,
    /// How much is at stake.
    pub risk: Option<Risk>,
    /// What the gate said.
    pub decision: Option<Decided>,
    /// The hash of the policy it was decided under.
    pub policy: Option<Digest>,
}

impl Record {
    /// What is known when a call comes.
    pub fn open(call: CallId, agent: AgentName, tool: String, arguments: Value) -> Self {
        Self {
            call,
            agent,
            tool,
            definition: None,
            arguments,
            action: None,
            class: None,
            effects: Vec::new(),
            risk: None,
            decision: None,
            policy: None,
        }
    }
}

/// A call is about to take effect.
#[derive(Debug, Clone, Serialize)]
pub struct Intent {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The call.
    #[serde(flatten)]
    pub record: Record,
}

/// A result before cleaning, where it differs from what the model got.
#[derive(Debug, Clone)]
pub struct Raw(pub Vec<u8>);

/// A call is over.
#[derive(Debug, Clone)]
pub struct End {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The call.
    pub record: Record,
    /// The answer, cleaned.
    pub outcome: Arc<Outcome>,
    /// The raw result; none where the answer shows all of it.
    pub raw: Option<Raw>,
    /// An intent was written for this call.
    pub begun: bool,
}

/// Something that is no call: a question was filed or answered, a grant given, an effect resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// Milliseconds since 1970.
    #[serde(skip)]
    pub at_ms: u64,
    /// Its stable name, such as `vote`.
    pub kind: &'static str,
    /// Who did it; none where time or the program itself did.
    pub by: Option<Principal>,
    /// What it happened to: an approval, a grant, an effect, an agent.
    pub subject: String,
    /// The rest.
    pub detail: Value,
}
