//! Approvals: what people are asked, what they say, and what they said in advance.
//!
//! A question is named by the hash of everything it would approve. It is answered in rounds: as long as a round waits or
//! its yes was not used, asking the same again is the same round; after that it is a new one.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AgentName, CallId, Digest, Effect, Person, Principal, Reason, Risk, SafetyClass};

/// The name of one round of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(pub String);

impl ApprovalId {
    /// The name of a round, counting from 1, of the question with this hash.
    pub fn of(question: &Digest, round: u32) -> Self {
        let hex = question.hex();
        let start = &hex[..24];
        Self(if round == 1 { format!("apr_{start}") } else { format!("apr_{start}-{round}") })
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::scale! {
    /// How far a round has come.
    ApprovalState {
        /// People are asked.
        Waiting = "waiting",
        /// Enough of them said yes, and the call did not run yet.
        Approved = "approved",
        /// Somebody said no, or time did.
        Denied = "denied",
        /// Nobody said enough in time, or the yes was not used in time.
        Expired = "expired",
        /// The yes was used.
        Used = "used",
    }
}

/// Why a person is asked, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The rule's stable name.
    pub rule: String,
    /// One sentence.
    pub text: String,
    /// Where it is written.
    pub source: String,
}

impl From<&Reason> for Ground {
    fn from(reason: &Reason) -> Self {
        Self { rule: reason.rule.to_owned(), text: reason.text.clone(), source: reason.source.to_string() }
    }
}

/// What people are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The hash of everything a yes would approve.
    pub digest: Digest,
    /// The same but for the key: a no to it is a no under every key. None was kept once.
    #[serde(default)]
    pub deed: Option<Digest>,
    /// The call that asked first.
    pub call: CallId,
    /// The agent that wants it.
    pub agent: AgentName,
    /// Who made the call. They have no vote.
    pub principal: Principal,
    /// The tool.
    pub tool: String,
    /// The hash of its definition.
    pub definition: Digest,
    /// The validated arguments, without credentials.
    pub arguments: Value,
    /// Why a person is asked, the deciding reason first.
    pub reasons: Vec<Ground>,
    /// How many different people have to say yes.
    pub people: u8,
    /// How much is at stake.
    pub risk: Risk,
    /// The class of the call.
    pub class: SafetyClass,
    /// What the call amounts to.
    pub action: String,
    /// What it would do.
    pub effects: Vec<Effect>,
    /// Where its words come from.
    pub labels: Vec<String>,
    /// What people look at: the exact command, a diff, a summary of the effects.
    pub picture: Value,
    /// Who may answer; empty for everybody but the requester.
    pub may_approve: Vec<Person>,
    /// From when on it is no longer asked and its yes no longer counts, in milliseconds since 1970; none for never.
    pub expires_ms: Option<u64>,
    /// The key under which the call would take effect once.
    pub once: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Do it.
    Yes,
    /// Do not.
    No,
}

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who.
    pub by: Person,
    /// Yes or no.
    pub answer: Answer,
    /// Why. The reason of a no is told to the model.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What time said, because no person did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedOut {
    /// Yes or no.
    pub answer: Answer,
    /// By which rule.
    pub why: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// One round of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// Which round it is, counting from 1.
    pub round: u32,
    /// What is asked.
    pub question: Question,
    /// How far it has come.
    pub state: ApprovalState,
    /// What people said, in order.
    pub votes: Vec<Vote>,
    /// What time said.
    pub timed_out: Option<TimedOut>,
    /// Who may answer now: those the question names, or those it was escalated to.
    pub may_approve: Vec<Person>,
    /// How often it was escalated.
    pub step: u32,
    /// When it was last.
    pub escalated_ms: Option<u64>,
    /// When it was asked, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was approved, denied or found expired.
    pub decided_ms: Option<u64>,
    /// When the yes was used.
    pub used_ms: Option<u64>,
}

impl Approval {
    /// Is it past its time?
    pub fn is_late(&self, now_ms: u64) -> bool {
        self.question.expires_ms.is_some_and(|expires| now_ms >= expires)
    }

    /// The different people who said yes.
    pub fn yeses(&self) -> usize {
        self.votes.iter().filter(|vote| vote.answer == Answer::Yes).count()
    }

    /// Why it was denied.
    pub fn denial(&self) -> Option<&str> {
        let vote = self.votes.iter().find(|vote| vote.answer == Answer::No).map(|vote| &*vote.reason);
        vote.or_else(|| self.timed_out.as_ref().filter(|out| out.answer == Answer::No).map(|out| &*out.why))
    }
}

/// The name of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub String);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which calls a grant covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Covers {
    /// The one call with this hash.
    Exactly(Digest),
    /// Calls whose arguments, named by JSON pointer, match these patterns.
    Arguments(BTreeMap<String, String>),
}

/// A person's standing yes, as it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    /// The agent that may use it.
    pub agent: AgentName,
    /// For which tool.
    pub tool: String,
    /// The hash of the definition it was given for: what is defined otherwise by now is not covered. None was kept once,
    /// and such a grant covers nothing.
    #[serde(default)]
    pub definition: Option<Digest>,
    /// For which calls.
    pub covers: Covers,
    /// How many times.
    pub uses: u32,
    /// From when on no more, in milliseconds since 1970; none for never.
    pub until_ms: Option<u64>,
    /// Who gave it.
    pub by: Person,
    /// Why.
    pub reason: String,
}

/// A person's standing yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub id: GrantId,
    /// What was given.
    pub terms: GrantTerms,
    /// How many uses are left.
    pub left: u32,
    /// When it was given, in milliseconds since 1970.
    pub created_ms: u64,
    /// Who took it back, and when.
    pub revoked: Option<Revoked>,
}

impl Grant {
    /// Is it good for another use at this moment?
    pub fn holds(&self, now_ms: u64) -> bool {
        self.left > 0 && self.revoked.is_none() && self.terms.until_ms.is_none_or(|until| now_ms < until)
    }
}

/// Something was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// By whom.
    pub by: Person,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_named_by_its_question() {
        let check = |round, expected: &str| assert_eq!(ApprovalId::of(&Digest::of(b"abc"), round).0, expected);
        check(1, "apr_ba7816bf8f01cfea414140de");
        check(2, "apr_ba7816bf8f01cfea414140de-2");
    }
}
