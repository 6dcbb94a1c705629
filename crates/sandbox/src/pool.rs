//! Rooms made ahead: whoever wants one does not wait for it to be made.
//!
//! A room that nobody has had yet is the same for everybody whose spec is the same. So after each room that is handed out,
//! others with its spec are made in the background, as many as the pool is to hold. The pool follows what is wanted: rooms
//! of the spec that was asked for last push out the oldest of others, and what nobody has wanted for a while is closed. A
//! room that died while it waited is never handed out.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use toolgate_contract::Digest;

use crate::{
    lifecycle::close_rooms,
    room::{Backend, Probed, Room, RoomError},
    spec::RoomSpec,
};

/// Whom a room that waits belongs to, for people.
pub const NOBODY_YET: &str = "(nobody yet)";

/// How far a pool goes ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Rooms that wait. None: no room is made before somebody wants it.
    pub rooms: usize,
    /// How long one waits.
    pub idle: Duration,
}

/// How a pool does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pooled {
    /// Rooms that wait.
    pub waiting: usize,
    /// Rooms that were handed out and had been made ahead.
    pub hits: u64,
    /// Rooms that had to be made.
    pub misses: u64,
}

/// A backend whose rooms are made ahead. Dropping it closes those that wait.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    size: PoolSize,
    state: Mutex<State>,
    changed: Condvar,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    waiting: VecDeque<Spare>,
    /// What was asked for last, and may lack rooms.
    wanted: Option<(Digest, RoomSpec)>,
    is_closed: bool,
}

struct Spare {
    spec: Digest,
    room: Arc<dyn Room>,
    made: Instant,
}

impl Pool {
    /// A pool before a backend, still empty. Fails where no thread can be started.
    pub fn new(backend: Arc<dyn Backend>, size: PoolSize) -> Result<Self, RoomError> {
        let shared = Arc::new(Shared {
            backend,
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        });
        if size.rooms > 0 {
            let ahead = Arc::downgrade(&shared);
            let spawned = thread::Builder::new().name("rooms ahead".into()).spawn(move || go_ahead(&ahead));
            spawned.map_err(RoomError::step("start a thread that makes rooms ahead"))?;
        }
        Ok(Self { shared })
    }

    /// How it does.
    pub fn pooled(&self) -> Pooled {
        Pooled {
            waiting: self.shared.state().waiting.len(),
            hits: self.shared.hits.load(Ordering::Relaxed),
            misses: self.shared.misses.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Backend for Pool {
    fn name(&self) -> &'static str {
        self.shared.backend.name()
    }

    fn probe(&self) -> Vec<Probed> {
        self.shared.backend.probe()
    }

    fn open(&self, spec: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
        let shared = &self.shared;
        // A spec that has no hash is refused by whoever makes the room.
        let Ok(digest) = spec.digest() else { return shared.backend.open(spec, owner) };
        let room = match shared.take(&digest) {
            Some(room) => {
                room.given_to(owner);
                shared.hits.fetch_add(1, Ordering::Relaxed);
                room
            }
            None => {
                let room = shared.backend.open(spec, owner)?;
                shared.misses.fetch_add(1, Ordering::Relaxed);
                room
            }
        };
        shared.state().wanted = Some((digest, spec.clone()));
        shared.changed.notify_all();
        Ok(room)
    }

    /// Closes what waits and makes nothing more ahead.
    fn close(&self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.changed.notify_all();
        let rooms: Vec<_> = waiting.into_iter().map(|spare| spare.room).collect();
        close_rooms(&rooms);
        self.shared.backend.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A living room with this spec, if one waits.
    fn take(&self, spec: &Digest) -> Option<Arc<dyn Room>> {
        loop {
            let mut state = self.state();
            let at = state.waiting.iter().position(|spare| spare.spec == *spec)?;
            let spare = state.waiting.remove(at)?;
            // Whether it lives is asked without the lock held: it may have to ask somebody else.
            drop(state);
            if spare.room.is_alive() {
                return Some(spare.room);
            }
            spare.room.close();
        }
    }

    /// Closes what has waited too long, and what has died meanwhile.
    fn tidy(&self) {
        let looked_at: Vec<(Instant, Arc<dyn Room>)> =
            self.state().waiting.iter().map(|spare| (spare.made, spare.room.clone())).collect();
        let is_over = |(made, room): &(Instant, Arc<dyn Room>)| made.elapsed() >= self.size.idle || !room.is_alive();
        for (_, room) in looked_at.into_iter().filter(is_over) {
            let mut state = self.state();
            let Some(at) = state.waiting.iter().position(|spare| Arc::ptr_eq(&spare.room, &room)) else { continue };
            state.waiting.remove(at);
            drop(state);
            room.close();
        }
    }

    /// Puts a room among those that wait. What is too much is closed: the oldest of another spec before any of this one.
    fn keep(&self, spare: Spare) {
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            return spare.room.close();
        }
        let spec = spare.spec;
        state.waiting.push_back(spare);
        let mut over = Vec::new();
        while state.waiting.len() > self.size.rooms {
            let at = state.waiting.iter().position(|waiting| waiting.spec != spec).unwrap_or(0);
            over.extend(state.waiting.remove(at));
        }
        drop(state);
        over.iter().for_each(|spare| spare.room.close());
    }

    /// The spec that lacks a room, if one does.
    fn lacking(&self) -> Option<(Digest, RoomSpec)> {
        let mut state = self.state();
        let (digest, _) = state.wanted.as_ref()?;
        let there = state.waiting.iter().filter(|spare| spare.spec == *digest).count();
        if there < self.size.rooms && !state.is_closed {
            return state.wanted.clone();
        }
        state.wanted = None;
        None
    }
}

/// Makes rooms ahead until the pool is gone.
fn go_ahead(pool: &Weak<Shared>) {
    /// How long it may take until a room that waits for too long is noticed.
    const TICK: Duration = Duration::from_secs(5);
    while let Some(shared) = pool.upgrade() {
        shared.tidy();
        while let Some((spec, wanted)) = shared.lacking() {
            match shared.backend.open(&wanted, NOBODY_YET) {
                Ok(room) => shared.keep(Spare { spec, room, made: Instant::now() }),
                Err(error) => {
                    // The next who wants one makes it and is told why that fails.
                    tracing::warn!(%error, "no room is made ahead");
                    shared.state().wanted = None;
                }
            }
        }
        let state = shared.state();
        if state.is_closed {
            return;
        }
        if state.wanted.is_none() {
            drop(shared.changed.wait_timeout(state, TICK));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("backend", &self.backend.name()).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use toolgate_contract::{Job, Ran, TerminalSize};
    use toolgate_gate::Permit;

    use super::*;
    use crate::{
        overlay::Changes,
        room::{Io, Terminal},
    };

    /// Rooms that are only counted.
    #[derive(Default)]
    struct Counting {
        opened: AtomicU64,
        closed: Arc<AtomicU64>,
        fails: AtomicBool,
        made: Mutex<Vec<Arc<Counted>>>,
    }

    struct Counted {
        owner: Mutex<String>,
        is_dead: AtomicBool,
        closed: Arc<AtomicU64>,
    }

    impl Backend for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn probe(&self) -> Vec<Probed> {
            Vec::new()
        }

        fn open(&self, _: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
            if self.fails.load(Ordering::SeqCst) {
                return Err(RoomError::Lost("it fails".into()));
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let room = Arc::new(Counted {
                owner: Mutex::new(owner.to_owned()),
                is_dead: AtomicBool::new(false),
                closed: self.closed.clone(),
            });
            self.made.lock().unwrap().push(room.clone());
            Ok(room)
        }
    }

    impl Room for Counted {
        fn run(&self, _: &Permit, _: &Job, _: Io<'_>) -> Result<Ran, RoomError> {
            Err(RoomError::Lost("nothing runs here".into()))
        }

        fn open_terminal(&self, _: &Permit, _: &Job, _: TerminalSize) -> Result<Box<dyn Terminal>, RoomError> {
            Err(RoomError::Lost("nothing runs here".into()))
        }

        fn changes(&self) -> std::io::Result<Option<Changes>> {
            Ok(None)
        }

        fn given_to(&self, owner: &str) {
            owner.clone_into(&mut self.owner.lock().unwrap());
        }

        fn is_alive(&self) -> bool {
            !self.is_dead.load(Ordering::SeqCst)
        }

        fn close(&self) {
            self.closed.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn pool(rooms: usize, idle: Duration) -> (Arc<Counting>, Pool) {
        let backend = Arc::new(Counting::default());
        let pool = Pool::new(backend.clone(), PoolSize { rooms, idle }).unwrap();
        (backend, pool)
    }

    /// Waits until the pool is as it should be, for at most some seconds.
    fn await_until(pool: &Pool, what: &str, is_so: impl Fn(&Pooled) -> bool) -> Pooled {
        for _ in 0..2_000 {
            let pooled = pool.pooled();
            if is_so(&pooled) {
                return pooled;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("never: {what}; {:?}", pool.pooled());
    }

    fn spec(memory: u64) -> RoomSpec {
        let mut spec = RoomSpec::bare();
        spec.limits.memory = memory;
        spec
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn the_second_room_was_made_ahead_and_is_whoevers_takes_it() {
        let (backend, pool) = pool(2, LONG);
        pool.open(&spec(1), "first").unwrap();
        await_until(&pool, "two wait", |pooled| pooled.waiting == 2);
        pool.open(&spec(1), "second").unwrap();
        let pooled = await_until(&pool, "it is filled again", |pooled| pooled.waiting == 2);
        assert_eq!(pooled, Pooled { waiting: 2, hits: 1, misses: 1 });
        let owners: Vec<String> =
            backend.made.lock().unwrap().iter().map(|room| room.owner.lock().unwrap().clone()).collect();
        assert_eq!(owners, ["first", "second", NOBODY_YET, NOBODY_YET]);
    }

    #[test]
    fn a_room_of_another_spec_is_not_handed_out_and_makes_way() {
        let (backend, pool) = pool(1, LONG);
        pool.open(&spec(1), "a").unwrap();
        await_until(&pool, "one waits", |pooled| pooled.waiting == 1);
        pool.open(&spec(2), "a").unwrap();
        // One of either spec for the caller, one of either that waited, and the first of those was closed.
        for _ in 0..2_000 {
            if backend.opened.load(Ordering::SeqCst) == 4 && backend.closed.load(Ordering::SeqCst) == 1 {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((backend.opened.load(Ordering::SeqCst), backend.closed.load(Ordering::SeqCst)), (4, 1));
        pool.open(&spec(2), "a").unwrap();
        assert_eq!((pool.pooled().hits, pool.pooled().misses), (1, 2));
    }

    #[test]
    fn the_dead_are_not_handed_out() {
        let (backend, pool) = pool(1, LONG);
        pool.open(&spec(1), "a").unwrap();
        await_until(&pool, "one waits", |pooled| pooled.waiting == 1);
        backend.made.lock().unwrap().iter().for_each(|room| room.is_dead.store(true, Ordering::SeqCst));
        assert!(pool.open(&spec(1), "a").unwrap().is_alive());
        assert_eq!((pool.pooled().hits, pool.pooled().misses), (0, 2));
    }

    #[test]
    fn what_nobody_wants_is_closed() {
        let (backend, pool) = pool(1, Duration::ZERO);
        pool.open(&spec(1), "a").unwrap();
        await_until(&pool, "one was made and closed", |pooled| {
            pooled.waiting == 0 && backend.closed.load(Ordering::SeqCst) == 1
        });
    }

    #[test]
    fn a_pool_that_ends_closes_what_waits() {
        let (backend, pool) = pool(2, LONG);
        pool.open(&spec(1), "a").unwrap();
        await_until(&pool, "two wait", |pooled| pooled.waiting == 2);
        drop(pool);
        assert_eq!(backend.closed.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn where_none_can_be_made_ahead_the_next_is_told_why() {
        let (backend, pool) = pool(1, LONG);
        pool.open(&spec(1), "a").unwrap();
        await_until(&pool, "one waits", |pooled| pooled.waiting == 1);
        backend.fails.store(true, Ordering::SeqCst);
        pool.open(&spec(1), "a").unwrap();
        assert!(matches!(pool.open(&spec(1), "a"), Err(RoomError::Lost(_))));
        assert_eq!(pool.pooled(), Pooled { waiting: 0, hits: 1, misses: 1 });
    }

    #[test]
    fn a_pool_of_none_makes_nothing_ahead() {
        let (backend, pool) = pool(0, LONG);
        pool.open(&spec(1), "a").unwrap();
        pool.open(&spec(1), "a").unwrap();
        assert_eq!((backend.opened.load(Ordering::SeqCst), pool.pooled().misses), (2, 2));
    }
}
