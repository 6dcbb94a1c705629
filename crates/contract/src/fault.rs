//! Faults: why a call did not do what was asked, in words that help.

use std::{borrow::Cow, fmt};

/// Who is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The gate or a guard said no. Trying the same again is pointless.
    Refused,
    /// The arguments were wrong or the tool could not do it.
    Failed,
}

/// A stable code, one sentence, one remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Refused or failed.
    pub kind: FaultKind,
    /// Stable: programs match on it.
    pub code: Cow<'static, str>,
    /// What happened, to what.
    pub message: String,
    /// What to do instead.
    pub remedy: String,
    /// The same call may succeed later, unchanged.
    pub retryable: bool,
    /// For sure nothing was sent and nothing was changed.
    pub untouched: bool,
    /// Nothing in the message was said by somebody else.
    pub in_own_words: bool,
}

impl Fault {
    /// The gate or a guard said no.
    pub fn refused(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: FaultKind::Refused, ..Self::failed(code, message, remedy) }
    }

    /// The arguments were wrong or the tool could not do it.
    pub fn failed(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            kind: FaultKind::Failed,
            code: Cow::Borrowed(code),
            message: message.into(),
            remedy: remedy.into(),
            retryable: false,
            untouched: false,
            in_own_words: false,
        }
    }

    /// Marks that nothing was sent and nothing was changed.
    #[must_use]
    pub fn untouched(self) -> Self {
        Self { untouched: true, ..self }
    }

    /// Marks that the message quotes nobody, so that nobody has to look for orders in it.
    #[must_use]
    pub fn in_own_words(self) -> Self {
        Self { in_own_words: true, ..self }
    }

    /// Marks that the same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}. {}", self.code, self.message, self.remedy)
    }
}

impl std::error::Error for Fault {}
