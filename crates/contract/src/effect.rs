//! Effects: what one call, with these arguments, would do.

use serde::{Deserialize, Serialize};

use crate::{Risk, SafetyClass};

/// The kinds of effects there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Reads files.
    FsRead,
    /// Creates or changes files.
    FsWrite,
    /// Removes files.
    FsDelete,
    /// Starts a program.
    Exec,
    /// Talks to another machine.
    Network,
    /// Uses a credential.
    Secret,
    /// Changes history others may have: a forced push, an amended or rebased commit, a moved tag.
    RewriteHistory,
    /// Removes a branch or a tag, here or elsewhere.
    DeleteBranch,
    /// Sends a message to people.
    ExternalMessage,
    /// Spends money.
    Financial,
    /// Uses rights an agent does not have by itself.
    Privileged,
}

impl EffectKind {
    /// Does nothing that would have to be undone or that anyone else could see?
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::FsRead)
    }

    /// Is a person asked about it whatever else the policy says? What is lost by it is often lost to others.
    pub fn asks(self) -> bool {
        matches!(self, Self::RewriteHistory | Self::DeleteBranch)
    }

    /// The class a tool with this effect belongs to at least.
    pub fn class(self) -> SafetyClass {
        match self {
            Self::FsRead => SafetyClass::Read,
            Self::FsWrite | Self::FsDelete | Self::Exec | Self::RewriteHistory | Self::DeleteBranch => {
                SafetyClass::Write
            }
            Self::Network | Self::Secret | Self::ExternalMessage => SafetyClass::Network,
            Self::Financial => SafetyClass::Financial,
            Self::Privileged => SafetyClass::Privileged,
        }
    }

    /// How much is at stake at least.
    pub fn risk(self) -> Risk {
        match self {
            Self::FsRead => Risk::Low,
            Self::FsWrite | Self::Network => Risk::Medium,
            Self::FsDelete
            | Self::Exec
            | Self::Secret
            | Self::RewriteHistory
            | Self::DeleteBranch
            | Self::ExternalMessage
            | Self::Financial => Risk::High,
            Self::Privileged => Risk::Critical,
        }
    }
}

/// One thing a call would do, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Effect {
    /// What it does.
    pub kind: EffectKind,
    /// To what: a path, a host, a command; none where the call names nothing.
    pub target: Option<String>,
}

impl Effect {
    /// An effect on something the call names.
    pub fn on(kind: EffectKind, target: impl Into<String>) -> Self {
        Self { kind, target: Some(target.into()) }
    }
}
