//! Who is inside: the sessions of people who logged in with a browser.
//!
//! Only their hashes are kept, and only in memory: whoever reads it all later has nothing to come in with, and a console
//! that starts again asks for a new log-in.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use toolgate_contract::Digest;

/// How long a session lasts, whatever is done with it.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// How long it lasts when nothing is done with it.
const SESSION_IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// More sessions than this are not open at once: the one that was idle for the longest goes.
const MOST_SESSIONS: usize = 100;
/// More than this nobody has: whoever logs in again and again pushes out themselves, and nobody else.
const MOST_EACH: usize = 10;

/// 256 bits of chance as hex digits.
pub(crate) fn chance() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(Digest(bytes).hex())
}

/// What a person who is logged in may do, and how they came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pass<T> {
    /// Who, and what for.
    pub(crate) holder: T,
    /// What every form of the session carries.
    pub(crate) csrf: String,
}

/// The sessions. `T` is what is known about whoever holds one.
#[derive(Debug)]
pub(crate) struct Door<T> {
    sessions: Mutex<HashMap<Digest, Session<T>>>,
}

#[derive(Debug)]
struct Session<T> {
    pass: Pass<T>,
    since: Instant,
    used: Instant,
}

impl<T: Clone + PartialEq> Door<T> {
    pub(crate) fn new() -> Self {
        Self { sessions: Mutex::new(HashMap::new()) }
    }

    /// Opens a session and gives its name, which is what the cookie holds.
    pub(crate) fn open(&self, holder: T, now: Instant) -> Result<String, getrandom::Error> {
        let (name, csrf) = (chance()?, chance()?);
        let mut sessions = self.sessions();
        let has_most = sessions.values().filter(|session| session.pass.holder == holder).count() >= MOST_EACH;
        if has_most || sessions.len() >= MOST_SESSIONS {
            let may_go = sessions.iter().filter(|(_, session)| !has_most || session.pass.holder == holder);
            if let Some(idle) = may_go.min_by_key(|(_, session)| session.used).map(|(key, _)| *key) {
                sessions.remove(&idle);
            }
        }
        let session = Session { pass: Pass { holder, csrf }, since: now, used: now };
        sessions.insert(Digest::of(name.as_bytes()), session);
        Ok(name)
    }

    /// Who holds this session.
    pub(crate) fn pass(&self, name: &str, now: Instant) -> Option<Pass<T>> {
        let mut sessions = self.sessions();
        sessions.retain(|_, session| {
            now.duration_since(session.since) < SESSION_LIFE && now.duration_since(session.used) < SESSION_IDLE
        });
        let session = sessions.get_mut(&Digest::of(name.as_bytes()))?;
        session.used = now;
        Some(session.pass.clone())
    }

    /// Ends a session.
    pub(crate) fn leave(&self, name: &str) {
        self.sessions().remove(&Digest::of(name.as_bytes()));
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Digest, Session<T>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_itself_and_by_leaving() {
        let (door, start) = (Door::new(), Instant::now());
        let open = || door.open("ann", start).unwrap();
        let holder = |name: &str, now| door.pass(name, now).map(|pass| pass.holder);

        let idle = open();
        assert_eq!(holder(&idle, start + SESSION_IDLE), None);

        let busy = open();
        let mut now = start;
        while now.duration_since(start) < SESSION_LIFE - SESSION_IDLE / 2 {
            assert_eq!(holder(&busy, now), Some("ann"));
            now += SESSION_IDLE / 2;
        }
        assert_eq!(holder(&busy, start + SESSION_LIFE), None);

        let left = open();
        door.leave(&left);
        assert_eq!(holder(&left, start), None);
        assert_ne!(door.open("ann", start).unwrap(), door.open("ann", start).unwrap());
    }

    #[test]
    fn who_logs_in_again_and_again_pushes_out_nobody_else() {
        let (door, start) = (Door::new(), Instant::now());
        let (admin, first) = (door.open("admin", start).unwrap(), door.open("eve", start).unwrap());
        let again: Vec<_> = (1..=MOST_SESSIONS).map(|_| door.open("eve", start + SESSION_IDLE / 2).unwrap()).collect();
        let now = start + SESSION_IDLE / 2;
        assert_eq!((door.pass(&admin, now).is_some(), door.pass(&first, now)), (true, None));
        assert_eq!(again.iter().filter(|name| door.pass(name, now).is_some()).count(), MOST_EACH);
    }

    #[test]
    fn the_longest_idle_makes_room() {
        let (door, start) = (Door::new(), Instant::now());
        let first = door.open(0, start).unwrap();
        let second = door.open(1, start + Duration::from_secs(1)).unwrap();
        for n in 2..=MOST_SESSIONS {
            door.open(n, start + Duration::from_secs(2)).unwrap();
        }
        let now = start + Duration::from_secs(3);
        assert_eq!((door.pass(&first, now), door.pass(&second, now).map(|pass| pass.holder)), (None, Some(1)));
    }
}
