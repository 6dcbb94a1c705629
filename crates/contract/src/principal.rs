//! Who acts: an agent or a person, and the tokens they prove it with.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{AgentName, Digest};

/// A person's name: `user:NAME` for a user of the operating system, else the name a token was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Person(pub Arc<str>);

impl From<&str> for Person {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whoever is behind a call or a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// An agent, by itself.
    Agent(AgentName),
    /// A person.
    Person(Person),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Person(name) => name.fmt(f),
        }
    }
}

crate::scale! {
    /// What a token is good for.
    Scope {
        /// Calls in the name of its agent.
        Call = "call",
        /// Looking at approvals, effects, trust and the record.
        Read = "read",
        /// Answering questions.
        Approve = "approve",
        /// Everything a person decides besides: grants, effects, trust, tokens.
        Admin = "admin",
    }
}

/// A secret somebody proves who they are with. The secret itself is not kept: 256 random bits need no more than a plain
/// hash to be found again by, and not to be found out by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name in lists. Not secret.
    pub id: String,
    /// The SHA-256 of the secret.
    pub hash: Digest,
    /// Whom it proves.
    pub principal: Principal,
    /// What it is good for.
    pub scopes: BTreeSet<Scope>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// From when on it proves nothing; none for never.
    pub expires_ms: Option<u64>,
    /// When it was last used, give or take a minute.
    pub last_used_ms: Option<u64>,
    /// When somebody took it back.
    pub revoked_ms: Option<u64>,
}

impl Token {
    /// Does it prove anything at this moment?
    pub fn holds(&self, now_ms: u64) -> bool {
        self.revoked_ms.is_none() && self.expires_ms.is_none_or(|expires| now_ms < expires)
    }
}

/// A code that opens the console once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginCode {
    /// The SHA-256 of the code.
    pub hash: Digest,
    /// Who comes in with it.
    pub person: Person,
    /// From when on it opens nothing, in milliseconds since 1970.
    pub expires_ms: u64,
}
