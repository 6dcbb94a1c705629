//! A call: who asks for which tool with which arguments.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Principal;

/// The name of an agent, as the config spells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentName(pub Arc<str>);

impl From<&str> for AgentName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One call's name in every record. Sorts by time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent asks for a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its name in every record.
    pub id: CallId,
    /// Who asks.
    pub agent: AgentName,
    /// Who makes the call: the agent itself, or a person in its place. They do not answer for it.
    pub by: Principal,
    /// For which tool.
    pub tool: String,
    /// With which arguments, as they came.
    pub arguments: Value,
    /// What the caller calls the effect, so that it happens once.
    pub key: Option<String>,
    /// What the agent is at.
    pub task: Option<String>,
}
