//! What the tools that find tools are given: the tools of the agent, a line for each, all about one, and longer texts.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_contract::Fault;

/// The tools of an agent, as it finds out about them. A tool it may not use is not there.
pub trait Finder: Send + Sync {
    /// A line for each that fits.
    fn list(&self, query: &ToolQuery) -> Result<ToolLines, Fault>;

    /// All about one. It counts as loaded from now on.
    fn load(&self, tool: &str) -> Result<LoadedTool, Fault>;

    /// Something longer about one.
    fn resource(&self, tool: &str, id: &str) -> Result<ToolResource, Fault>;
}

/// Which tools are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolQuery {
    /// Words.
    pub query: Option<String>,
    /// A kind.
    pub category: Option<String>,
    /// The last tool that was seen.
    pub after: Option<String>,
}

/// Some of the tools that fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolLines {
    /// One line each.
    pub tools: Vec<ToolLine>,
    /// How many fit.
    pub total: usize,
    /// What to pass as `after` for those that follow.
    pub next: Option<String>,
}

/// A tool in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolLine {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub summary: String,
    /// Its kind.
    pub category: &'static str,
    /// What a call costs.
    pub cost: &'static str,
}

impl fmt::Display for ToolLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}): {}", self.name, self.category, self.cost, self.summary)
    }
}

/// All about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LoadedTool {
    /// Its name.
    pub name: String,
    /// All there is to know to use it well.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// Calls that work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// How it fails, and what helps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Value>,
    /// What else there is to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ToolResourceLine>,
    /// Tools that were put away to make room for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unloaded: Vec<String>,
}

/// Something to read about a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolResourceLine {
    /// Its name.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// `markdown`, `code`, `schema` or `example_trace`.
    pub kind: String,
    /// How long it is.
    pub bytes: usize,
}

/// The same with what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolResource {
    /// Its name.
    pub id: String,
    /// `markdown`, `code`, `schema` or `example_trace`.
    pub kind: String,
    /// What it says.
    pub content: String,
}
