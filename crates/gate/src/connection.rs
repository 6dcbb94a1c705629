//! Calls through a connection: what the operator said about it.

use serde::Serialize;
use toolgate_contract::{SourceLine, scale};

scale! {
    /// What is to happen when a call would change something on the other side of a connection.
    OnWrite {
        /// It is refused.
        Deny = "deny",
        /// A person is asked.
        Ask = "ask",
        /// The rest of the policy decides.
        Allow = "allow",
    }
}

/// The connection a call would use, as the operator set it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionTerms {
    /// Its name.
    pub name: String,
    /// The call may change something there.
    pub writes: bool,
    /// A person is asked about every use.
    pub sensitive: bool,
    /// What is to happen about changes.
    pub on_write: OnWrite,
    /// Where it is set up.
    pub source: SourceLine,
}

impl ConnectionTerms {
    /// Why the call is refused, if it is.
    pub(crate) fn refuses(&self) -> Option<String> {
        (self.writes && self.on_write == OnWrite::Deny)
            .then(|| format!("nothing may be changed through connection `{}`", self.name))
    }

    /// Why a person is asked, if one is.
    pub(crate) fn asks(&self) -> Option<String> {
        if self.sensitive {
            return Some(format!("connection `{}` is sensitive", self.name));
        }
        (self.writes && self.on_write == OnWrite::Ask)
            .then(|| format!("the call may change something through connection `{}`", self.name))
    }
}
