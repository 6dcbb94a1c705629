//! Tokens that were looked up, for as long as nobody changes anything.
//!
//! Every request over HTTP names a token, and the way to the thread that asks SQLite and back costs more than the rest of a
//! small call. What has been found once holds until the next commit, whoever makes it: SQLite keeps a head of what is written ahead in memory all programs share, and each
//! commit counts it up before it returns.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use toolgate_contract::{Digest, Token};

use super::db::is_still;
use crate::{StoreError, pages::open_for_good};

/// So many are remembered. With more, all are looked up anew.
const MOST: usize = 256;
/// So long none is believed without asking. Everything above says that nobody can take back a token unseen; this says what
/// is left if that is wrong on some file system.
const MOST_MS: u64 = 250;

/// The head is there twice, and written in two steps: while the two differ somebody is committing.
const HEAD: usize = 48;
/// The format of the head, and where it says that somebody has filled it in.
const FORMAT: u32 = 3_007_000;
const IS_FILLED: usize = 12;

/// What the database was, from one commit to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment([u8; HEAD]);

/// The tokens of a moment.
#[derive(Debug)]
pub(super) struct Known {
    database: PathBuf,
    inode: u64,
    /// When the database was last seen in its place.
    seen_ms: u64,
    index: Option<Arc<File>>,
    moment: Option<Moment>,
    /// When the first of them was looked up.
    since_ms: u64,
    tokens: HashMap<Digest, Token>,
}

impl Known {
    pub(super) fn of(database: &Path, inode: u64) -> Self {
        let database = database.to_owned();
        Self { database, inode, seen_ms: 0, index: None, moment: None, since_ms: 0, tokens: HashMap::new() }
    }

    /// The token with this hash, if it is remembered.
    pub(super) fn token(&mut self, hash: &Digest, now_ms: u64) -> Result<Option<Token>, StoreError> {
        // A token is taken back by a commit, and that is seen at once. That somebody has exchanged the file is seen within a
        // millisecond.
        if self.seen_ms != now_ms {
            is_still(&self.database, self.inode)?;
            self.seen_ms = now_ms;
        }
        let moment = self.moment();
        Ok(self.get(hash, moment, now_ms).cloned())
    }

    /// None while somebody commits, and where it cannot be told: then nothing is known, and SQLite is asked.
    pub(super) fn moment(&mut self) -> Option<Moment> {
        if self.index.is_none() {
            let mut path = self.database.as_os_str().to_owned();
            path.push("-shm");
            // SQLite has locks on it.
            self.index = open_for_good(path.as_ref()).ok();
        }
        let mut heads = [0; 2 * HEAD];
        self.index.as_ref()?.read_exact_at(&mut heads, 0).ok()?;
        moment_in(&heads)
    }

    /// A token that was found in this moment.
    fn get(&self, hash: &Digest, moment: Option<Moment>, now_ms: u64) -> Option<&Token> {
        self.tokens.get(hash).filter(|_| moment.is_some_and(|moment| self.is_of(moment, now_ms)))
    }

    fn is_of(&self, moment: Moment, now_ms: u64) -> bool {
        // A clock that was set back says nothing.
        self.moment == Some(moment) && now_ms.checked_sub(self.since_ms).is_some_and(|ms| ms < MOST_MS)
    }

    /// Remembers a token that was looked up in this moment, and forgets those of every other. One that was looked up while
    /// somebody committed may be of before or of after.
    pub(super) fn learn(&mut self, token: &Token, moment: Option<Moment>, now_ms: u64) {
        if let Some(moment) = moment.filter(|moment| self.moment() == Some(*moment)) {
            self.keep(token.clone(), moment, now_ms);
        }
    }

    fn keep(&mut self, token: Token, moment: Moment, now_ms: u64) {
        if !self.is_of(moment, now_ms) || self.tokens.len() == MOST {
            self.tokens.clear();
            (self.moment, self.since_ms) = (Some(moment), now_ms);
        }
        self.tokens.insert(token.hash, token);
    }
}

fn moment_in(heads: &[u8; 2 * HEAD]) -> Option<Moment> {
    let (first, second) = heads.split_first_chunk::<HEAD>()?;
    let is_known = first.starts_with(&FORMAT.to_ne_bytes()) && first[IS_FILLED] == 1;
    (is_known && first == second).then_some(Moment(*first))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolgate_contract::{AgentName, Principal};

    use super::*;

    #[test]
    fn a_token_is_believed_in_its_moment_and_not_for_long() {
        let (now, other) = (Moment([1; HEAD]), Moment([2; HEAD]));
        let token = Token {
            id: "tok".to_owned(),
            hash: Digest::of(b"secret"),
            principal: Principal::Agent(AgentName::from("coder")),
            scopes: BTreeSet::new(),
            created_ms: 0,
            expires_ms: None,
            last_used_ms: None,
            revoked_ms: None,
        };
        let mut known = Known::of(Path::new("state.db"), 0);
        known.keep(token.clone(), now, 1_000);
        let check = |moment, at_ms, expected| {
            assert_eq!(known.get(&token.hash, moment, at_ms).is_some(), expected, "{moment:?} at {at_ms}");
        };
        check(Some(now), 1_000, true);
        check(Some(now), 1_000 + MOST_MS - 1, true);
        check(Some(now), 1_000 + MOST_MS, false);
        check(Some(now), 999, false);
        check(Some(other), 1_000, false);
        check(None, 1_000, false);
        // Another one that is looked up meanwhile does not make it younger.
        known.keep(Token { hash: Digest::of(b"another"), ..token.clone() }, now, 1_200);
        assert!(known.get(&token.hash, Some(now), 1_000 + MOST_MS).is_none());
    }

    #[test]
    fn a_head_that_is_being_written_or_was_never_filled_in_is_no_moment() {
        let mut heads = [7; 2 * HEAD];
        for head in [0, HEAD] {
            heads[head..head + 4].copy_from_slice(&FORMAT.to_ne_bytes());
            heads[head + IS_FILLED] = 1;
        }
        assert!(moment_in(&heads).is_some());
        for (at, byte) in [(0, 1), (IS_FILLED, 0), (HEAD - 1, 8), (HEAD, 1), (2 * HEAD - 1, 8)] {
            let mut other = heads;
            other[at] = byte;
            assert_eq!(moment_in(&other), None, "at {at}");
        }
        let mut unfilled = heads;
        (unfilled[IS_FILLED], unfilled[HEAD + IS_FILLED]) = (0, 0);
        assert_eq!(moment_in(&unfilled), None);
        assert_eq!(moment_in(&[0; 2 * HEAD]), None);
    }
}
