//! What is remembered: who asked for what, what was decided, how it ended.
//!
//! [`Store`] is the promise the road relies on: a call with effects is written down, durably, before its first
//! effect, and when that cannot be done the call does not run. [`SqliteStore`] keeps it in a data directory:
//!
//! | file | what it is |
//! |---|---|
//! | `audit.db` | the log: SQLite, append-only, a chain of SHA-256 hashes with signed checkpoints |
//! | `audit.head` | the signed end of the log, so that a tail that was cut off is missed |
//! | `audit.lock` | held while the log grows; several processes may share a directory |
//! | `audit.key` | the key raw results are encrypted under |
//! | `sign.key`, `sign.pub` | the pair checkpoints and the head are signed with |
//! | `state.db`, `instances/` | what changes, and which programs share it ([`state`]) |
//!
//! One record is one canonical JSON object, its hash is the SHA-256 of those bytes, and the next record names that
//! hash as `prev`; no field is outside. [`verify`] reads every byte of `audit.db` and says what does not fit.
//!
//! What this proves: nobody without `sign.key` changed, dropped, added or cut anything. Whoever can read that key
//! (the same user, root) can write a new history, or put an old copy of the whole directory back. Against them only a
//! copy elsewhere helps: [`Reader::export`] gives one.

pub mod calls;
mod count;
mod draft;
mod error;
mod head;
mod keys;
mod lock;
mod log;
mod pages;
mod queue;
mod read;
mod sqlite;
pub mod state;
mod tree;
mod verify;
mod writer;

use futures_util::future::BoxFuture;
use toolgate_contract::{End, Intent, Note};

pub use count::{FindingCount, Span};
pub use error::StoreError;
pub use read::{Line, OpenIntent, Reader};
pub use sqlite::SqliteStore;
pub use verify::{Problem, Report, verify};

/// Remembers calls. Append-only: there is no update and no delete.
pub trait Store: Send + Sync {
    /// Writes that a call is about to take effect. It returns when the intent is durable; an error means that
    /// nothing may take effect.
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes how a call ended.
    ///
    /// It returns when the end is durable if the call was begun or waits for a person. Other ends (reads, refusals)
    /// changed nothing in the world: they are queued, and durable within 50 ms. While records cannot be written,
    /// every end waits for a new attempt and fails with it.
    fn end(&self, end: End) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes down something that is no call: what people asked, answered, gave or took back. It returns when the note
    /// is durable.
    fn note(&self, note: Note) -> BoxFuture<'_, Result<(), StoreError>>;

    /// A way to look into what was written; none where it cannot be looked into. What is queued is not in it yet.
    fn reader(&self) -> Result<Option<Reader>, StoreError> {
        Ok(None)
    }

    /// Writes what is queued and closes. Everything after it fails.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}
