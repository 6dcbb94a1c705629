//! What changes: questions and their answers, grants, effects that happen once, evidence, spending, tokens, latches.
//!
//! [`State`] is what the rest relies on, [`SqliteState`] keeps it in `state.db` beside the log. Several programs share
//! one: whatever two of them could both want (a yes, the last use of a grant, the right to an effect) is taken by one
//! statement that changes a row only while it is still there to be taken. Everything is durable when a method returns.
//!
//! Time comes in as an argument, in milliseconds since 1970. Something that expires is gone at its very millisecond.

mod approvals;
mod db;
mod evidence;
mod grants;
mod instance;
mod known;
mod latches;
mod once;
mod row;
mod schema;
mod spend;
mod sqlite;
mod tokens;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, CallId, Cost, Digest, Evidence, Exceeded, Fault, Grant,
    GrantId, GrantTerms, InstanceId, Latch, LatchKind, Limit, LoginCode, Once, OnceKey, OnceState, Person, Principal,
    Question, Resolution, Token, Totals,
};

use crate::StoreError;

pub use sqlite::SqliteState;

/// Most questions of one agent that wait at once: nobody reads more, and whoever is asked too much says yes to be rid of
/// it.
pub const MOST_WAITING: u32 = 100;

/// A future that gives a `T`, or says why the state could not be used.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Remembers what changes.
///
/// An error means that nothing was changed, and that nothing may be done that needed the change.
pub trait State: Send + Sync {
    /// Asks people. While a round of the same question by the same principal waits, or its yes was not used, this is
    /// that round. Of one agent [`MOST_WAITING`] wait at once, and no more are asked.
    fn file(&self, question: Question, now_ms: u64) -> Answered<'_, Filed>;

    /// One round.
    fn approval(&self, id: ApprovalId) -> Answered<'_, Option<Approval>>;

    /// Rounds, the newest first.
    fn approvals(&self, filter: ApprovalFilter) -> Answered<'_, Vec<Approval>>;

    /// Rounds that wait, those whose time is over first in front, those without an end last: so many after this one.
    fn waiting(&self, after: Option<ApprovalId>, most: u32) -> Answered<'_, Vec<Approval>>;

    /// A person answers. One no denies; the last yes that is needed approves.
    fn vote(&self, id: ApprovalId, vote: Ballot, now_ms: u64) -> BoxFuture<'_, Result<Approval, VoteError>>;

    /// Uses the yes to a question of this principal, if there is one: of all who try, one gets it. What somebody else
    /// asked stays theirs, or one could approve the question of another and use the yes oneself.
    fn take(&self, question: Digest, principal: Principal, now_ms: u64) -> Answered<'_, Taken>;

    /// The last no to a deed that still stands, whatever key it was asked under and by whom.
    fn denied(&self, deed: Digest, now_ms: u64) -> Answered<'_, Option<Approval>>;

    /// Answers a round that still waits because its time is up. None if it no longer waits, or if time may not say this:
    /// it never says yes where the risk is high or two people are needed.
    fn time_out(&self, id: ApprovalId, answer: Answer, why: String, now_ms: u64) -> Answered<'_, Option<Approval>>;

    /// Ends the rounds whose time is over, and gives those that this call ended, the oldest first.
    fn expire(&self, now_ms: u64) -> Answered<'_, Vec<Approval>>;

    /// Puts a waiting round before other people. None if it no longer waits or is no longer at step `from`: somebody
    /// else escalated it.
    fn escalate(
        &self,
        id: ApprovalId,
        from: u32,
        may_approve: Vec<Person>,
        now_ms: u64,
    ) -> Answered<'_, Option<Approval>>;

    /// Keeps a standing yes.
    fn grant(&self, terms: GrantTerms, now_ms: u64) -> Answered<'_, Grant>;

    /// All grants of an agent, or of all, the newest first, also those that no longer hold.
    fn grants(&self, agent: Option<AgentName>) -> Answered<'_, Vec<Grant>>;

    /// Takes a grant back. None if there is none or it was taken back before.
    fn revoke(&self, id: GrantId, by: Person, now_ms: u64) -> Answered<'_, Option<Grant>>;

    /// Uses the first of these grants that still holds, and gives it as it is afterwards. Of all who try for the last
    /// use, one gets it.
    fn use_grant(&self, candidates: Vec<GrantId>, now_ms: u64) -> Answered<'_, Option<Grant>>;

    /// Who this is, to others who share the state.
    fn instance(&self) -> InstanceId;

    /// Claims an effect before it is tried.
    fn reserve(&self, wanted: Reservation, now_ms: u64) -> Answered<'_, Reserved>;

    /// Says how an effect that was claimed here ended.
    fn complete(&self, ticket: Ticket, ended: Completed, now_ms: u64) -> BoxFuture<'_, Result<(), CompleteError>>;

    /// Finds effects whose holder died while it was at them, and gives those that this call made unknown.
    fn orphaned(&self, now_ms: u64) -> Answered<'_, Vec<Once>>;

    /// One effect.
    fn effect(&self, key: OnceKey) -> Answered<'_, Option<Once>>;

    /// Effects, those changed last first.
    fn effects(&self, filter: EffectFilter) -> Answered<'_, Vec<Once>>;

    /// A person says what became of an effect nobody knows about. None if it is not (or no longer) unknown.
    fn resolve(&self, key: OnceKey, by: Person, found: Resolution, now_ms: u64) -> Answered<'_, Option<Once>>;

    /// Adds to what is known about an agent, and gives its number among all evidence. Nothing is ever taken away.
    fn add_evidence(&self, evidence: Evidence) -> Answered<'_, u64>;

    /// What is known about an agent, in the order it was added.
    fn evidence(&self, agent: AgentName) -> Answered<'_, Vec<Evidence>>;

    /// What was added about an agent after the evidence with this number, each with its own, in the order it was added.
    fn evidence_after(&self, agent: AgentName, number: u64) -> Answered<'_, Vec<(u64, Evidence)>>;

    /// The agents something is known about, by name.
    fn agents_with_evidence(&self) -> Answered<'_, Vec<AgentName>>;

    /// Counts a cost, unless a limit would be passed: then nothing is counted.
    fn try_spend(
        &self,
        account: Account,
        cost: Cost,
        limits: Vec<Limit>,
        now_ms: u64,
    ) -> Answered<'_, Result<Totals, Exceeded>>;

    /// Counts a cost that has already arisen.
    fn spend(&self, account: Account, cost: Cost, now_ms: u64) -> Answered<'_, Totals>;

    /// What was counted so far.
    fn spent(&self, account: Account, now_ms: u64) -> Answered<'_, Totals>;

    /// Keeps a token. Its name and its hash must be new.
    fn add_token(&self, token: Token) -> Answered<'_, ()>;

    /// The token with this hash, if it holds. Notes that it was used.
    fn token_by_hash(&self, hash: Digest, now_ms: u64) -> Answered<'_, Option<Token>>;

    /// All tokens, the newest first, also those that no longer hold.
    fn tokens(&self) -> Answered<'_, Vec<Token>>;

    /// Takes a token back. None if there is none or it was taken back before.
    fn revoke_token(&self, id: String, now_ms: u64) -> Answered<'_, Option<Token>>;

    /// Gives a token that holds another secret and another end. The old secret proves nothing from then on. None if
    /// there is no such token or it does not hold.
    fn rotate_token(
        &self,
        id: String,
        hash: Digest,
        expires_ms: Option<u64>,
        now_ms: u64,
    ) -> Answered<'_, Option<Token>>;

    /// Keeps a code that opens the console once, and forgets those whose time is over.
    fn add_login_code(&self, code: LoginCode, now_ms: u64) -> Answered<'_, ()>;

    /// Uses a code: of all who try, one gets in.
    fn use_login_code(&self, hash: Digest, now_ms: u64) -> Answered<'_, Option<Person>>;

    /// Holds an agent back. True if it was not held back for this before.
    fn latch(&self, agent: AgentName, kind: LatchKind, why: String, now_ms: u64) -> Answered<'_, bool>;

    /// What an agent is, or was last, held back for: one of each kind.
    fn latches(&self, agent: AgentName) -> Answered<'_, Vec<Latch>>;

    /// Lets go of an agent. None if it was not held back for this.
    fn clear(&self, agent: AgentName, kind: LatchKind, by: Person, now_ms: u64) -> Answered<'_, Option<Latch>>;

    /// Finishes what was begun and closes. Everything after it fails, and this instance counts as gone.
    fn close(&self) -> Answered<'_, ()>;
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Filed {
    /// People are asked anew.
    New(Approval),
    /// It was asked before, and that round still counts.
    Standing(Approval),
    /// Nobody is asked: too much of this agent waits already.
    TooMany,
}

/// Which rounds to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// In one of these states; empty for any.
    pub states: Vec<ApprovalState>,
    /// Of this agent; none for all.
    pub agent: Option<AgentName>,
    /// At most so many.
    pub limit: u32,
}

/// One person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// Who.
    pub by: Person,
    /// Yes or no.
    pub answer: Answer,
    /// Why.
    pub reason: String,
}

/// Why a vote does not count. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VoteError {
    /// There is no such round.
    #[error("there is no approval `{0}`")]
    Unknown(ApprovalId),
    /// It was decided before.
    #[error("approval `{id}` is {state}: it no longer takes answers")]
    NotWaiting {
        /// The round.
        id: ApprovalId,
        /// How far it has come.
        state: ApprovalState,
    },
    /// Its time is over.
    #[error("approval `{0}` is past its time")]
    Expired(ApprovalId),
    /// Nobody approves what they asked for.
    #[error("`{0}` made this call, and cannot answer for it")]
    SelfApproval(Person),
    /// One person is one voice.
    #[error("`{0}` has answered already")]
    AlreadyVoted(Person),
    /// It is for others to answer.
    #[error("`{0}` is not among those who may answer")]
    WrongPerson(Person),
    /// The vote could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VoteError {
    /// Stable: programs match on it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown_approval",
            Self::NotWaiting { .. } => "not_waiting",
            Self::Expired(_) => "expired",
            Self::SelfApproval(_) => "self_approval",
            Self::AlreadyVoted(_) => "already_voted",
            Self::WrongPerson(_) => "wrong_person",
            Self::Store(error) => error.code(),
        }
    }
}

impl From<VoteError> for Fault {
    fn from(error: VoteError) -> Self {
        let remedy = match &error {
            VoteError::Unknown(_) => "List those that wait with `toolgate approvals`.",
            VoteError::NotWaiting { .. } | VoteError::Expired(_) => "Let the agent ask again.",
            VoteError::SelfApproval(_) | VoteError::AlreadyVoted(_) => "Ask another person to answer.",
            VoteError::WrongPerson(_) => "Ask one of those the approval names.",
            VoteError::Store(error) => return error.clone().into(),
        };
        Fault::refused(error.code(), error.to_string(), remedy)
    }
}

/// What became of the yes to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// It is used now, by this caller and by no other.
    Yes(Approval),
    /// People are still asked.
    Waiting(Approval),
    /// The last answer was no.
    Denied(Approval),
    /// It was never asked, or it expired or was used.
    None,
}

/// An effect somebody wants to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// What it is known by.
    pub key: OnceKey,
    /// The hash of what is asked for.
    pub fingerprint: Digest,
    /// The call that wants it.
    pub call: CallId,
}

/// What is known about an effect somebody wants to try.
#[derive(Debug, Clone, PartialEq)]
pub enum Reserved {
    /// Nothing, or that it did not happen: whoever holds the ticket tries it, and says how it ended.
    Fresh(Ticket),
    /// It happened; this was its outcome.
    Done(Value),
    /// Somebody is at it.
    Running,
    /// Nobody can say whether it happened.
    Unknown,
    /// The key stands for something else.
    Conflict,
}

/// The right to try an effect once. The state gives it out and takes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    key: OnceKey,
    attempt: u32,
}

impl Ticket {
    /// What the effect is known by.
    pub fn key(&self) -> &OnceKey {
        &self.key
    }
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Completed {
    /// It happened; the same call gets this outcome from now on.
    Done(Value),
    /// For sure it did not happen.
    Failed(Value),
    /// There was no certain answer.
    Unknown(Value),
}

impl Completed {
    /// What is known from now on.
    pub fn state(&self) -> OnceState {
        match self {
            Self::Done(_) => OnceState::Done,
            Self::Failed(_) => OnceState::Failed,
            Self::Unknown(_) => OnceState::Unknown,
        }
    }

    /// What the caller was told.
    pub fn outcome(&self) -> &Value {
        match self {
            Self::Done(outcome) | Self::Failed(outcome) | Self::Unknown(outcome) => outcome,
        }
    }
}

/// Why the end of an effect was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompleteError {
    /// Its ticket is not, or no longer, good. Nothing was changed.
    #[error("effect `{}` of `{}` is not held by this ticket", key.key, key.tool)]
    NotHeld {
        /// The effect.
        key: OnceKey,
    },
    /// It could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which effects to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectFilter {
    /// In one of these states; empty for any.
    pub states: Vec<OnceState>,
    /// Of this agent; none for all.
    pub agent: Option<AgentName>,
    /// At most so many.
    pub limit: u32,
}

/// Whose spending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The agent.
    pub agent: AgentName,
    /// The task it is at; none where that is not known.
    pub task: Option<String>,
}
