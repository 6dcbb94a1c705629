//! What the tool that looks back is given: the calls of the agent, as they were recorded.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_contract::Fault;

/// The record, as one agent may look into it: its own calls and nobody else's.
pub trait OwnCalls: Send + Sync {
    /// The last of them, the newest first.
    fn recent(&self, count: usize) -> Result<PastCalls, Fault>;

    /// One in full, with no part longer than so many bytes. One of another agent is as unknown as one that never was.
    fn one(&self, call: &str, most: usize) -> Result<PastCalls, Fault>;
}

/// Calls of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PastCalls {
    /// The newest first.
    pub calls: Vec<PastCall>,
    /// The record goes back further than was looked.
    pub more: bool,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PastCall {
    /// When it ended, or began if it has not ended.
    pub at: String,
    /// Its id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// `done`, `refused`, `pending`, `failed` or `running`.
    pub status: String,
    /// Why it did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// What people were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// What it does to the world, or the first of many.
    pub effects: Vec<PastEffect>,
    /// Where its answer came from, whose words it is and for whom.
    pub labels: Vec<String>,
    /// The kinds of what guards saw.
    pub findings: Vec<String>,
    /// What was asked and answered, where one call was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_full: Option<InFull>,
}

/// One thing a call does, and to what. Two fields, so that a path the agent has named is not taken for words in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PastEffect {
    /// What it does.
    pub kind: String,
    /// A path, a host, a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl fmt::Display for PastEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(f, "{} {target}", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// What was asked and answered, as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InFull {
    /// The arguments.
    pub arguments: Value,
    /// What the model was told; empty while it runs.
    pub text: String,
    /// The typed output, or null.
    pub structured: Value,
}
