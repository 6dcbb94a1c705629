//! The fifteen kinds of tools. An access level permits whole categories, a backend is chosen per category.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of tool it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Read, write, edit, list and delete files.
    FileSystem,
    /// Run code.
    CodeExecution,
    /// Git and pull requests.
    VersionControl,
    /// Requests, pages, search.
    Web,
    /// Query, migrate, administer.
    Database,
    /// Shell commands and terminals.
    Terminal,
    /// Images and mock-ups.
    Design,
    /// Mail, chat, notifications.
    Communication,
    /// Numbers, text and reports about them.
    Analytics,
    /// Releases and containers.
    Deployment,
    /// What an agent remembers.
    Memory,
    /// A headless browser.
    Browser,
    /// Other people's APIs through a configured connection.
    ExternalData,
    /// A virtual desktop.
    Desktop,
    /// Tools of other MCP servers.
    Mcp,
}

impl Category {
    /// All fifteen.
    pub const ALL: [Category; 15] = [
        Self::FileSystem,
        Self::CodeExecution,
        Self::VersionControl,
        Self::Web,
        Self::Database,
        Self::Terminal,
        Self::Design,
        Self::Communication,
        Self::Analytics,
        Self::Deployment,
        Self::Memory,
        Self::Browser,
        Self::ExternalData,
        Self::Desktop,
        Self::Mcp,
    ];

    /// The name config and records use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileSystem => "file_system",
            Self::CodeExecution => "code_execution",
            Self::VersionControl => "version_control",
            Self::Web => "web",
            Self::Database => "database",
            Self::Terminal => "terminal",
            Self::Design => "design",
            Self::Communication => "communication",
            Self::Analytics => "analytics",
            Self::Deployment => "deployment",
            Self::Memory => "memory",
            Self::Browser => "browser",
            Self::ExternalData => "external_data",
            Self::Desktop => "desktop",
            Self::Mcp => "mcp",
        }
    }

    /// Reads a name as config spells it; `git` is another word for `version_control`.
    pub fn parse(name: &str) -> Option<Category> {
        if name == "git" {
            return Some(Self::VersionControl);
        }
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
