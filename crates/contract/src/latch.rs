//! Latches: an agent that is held back until a person lets go.

use serde::{Deserialize, Serialize};

use crate::{AgentName, Revoked};

crate::scale! {
    /// What an agent is held back for.
    LatchKind {
        /// Too much of what it did went wrong.
        ErrorRate = "error_rate",
        /// It has used up what it was given.
        BudgetExhausted = "budget_exhausted",
        /// It did, or was made to do, what it must not.
        SecurityIncident = "security_incident",
    }
}

/// Something an agent is held back for. It closes by itself, and only a person opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latch {
    /// The agent.
    pub agent: AgentName,
    /// For what.
    pub kind: LatchKind,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// What happened.
    pub why: String,
    /// Who let go, and when.
    pub cleared: Option<Revoked>,
}

impl Latch {
    /// Is the agent held back by it?
    pub fn holds(&self) -> bool {
        self.cleared.is_none()
    }
}
