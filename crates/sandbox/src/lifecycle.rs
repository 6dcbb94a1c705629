//! When rooms are opened, shared and closed.
//!
//! Whoever wants a room takes a [`Lease`]. Which room that is depends on the strategy and on the spec:
//!
//! | strategy | one room for | closed |
//! |---|---|---|
//! | per agent | an agent and a spec | when nobody leased it for `idle`; `grace` after the agent stopped |
//! | per task | an agent, its task and a spec | when the task ended; when nobody leased it for `idle` |
//! | per call | a lease | with the lease |
//!
//! A call of no task under `per task` has a room of its own. Agents never share, and a spec that differs in anything is
//! another room.
//!
//! Nothing is closed under a lease, except by [`Rooms::close_all`]: the times run from the moment the last lease is
//! dropped. A lease taken while a time runs stops it; an agent that takes one has not stopped after all. A task that
//! ended is over: a lease in its name is a new room. A room that died is never handed out, whoever still holds it.
//!
//! ```text
//! (opening) -> Leased(n) <-> Idle(until) -> closed
//!                        <-> Grace(until) -> closed
//! ```

use std::{
    collections::HashMap,
    fmt, io,
    ops::Deref,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use toolgate_contract::{Digest, Fault};

use crate::{
    room::{Backend, Room, RoomError},
    spec::RoomSpec,
};

/// Who shares a room with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The calls of an agent.
    PerAgent,
    /// The calls of an agent for one task.
    PerTask,
    /// Nobody.
    PerCall,
}

/// How rooms live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifecycle {
    /// Who shares.
    pub strategy: Strategy,
    /// How long a room outlives its agent.
    pub grace: Duration,
    /// How long a room waits for the next lease.
    pub idle: Duration,
    /// Rooms at one time, of all owners together.
    pub max_rooms: usize,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            strategy: Strategy::PerAgent,
            grace: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            max_rooms: 64,
        }
    }
}

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The agent.
    pub agent: String,
    /// What it works on, if it said so.
    pub task: Option<String>,
}

/// Tells how much time has passed. A trait, so that tests own it.
pub trait Clock: Send + Sync {
    /// Since some moment before the first call. Never goes back.
    fn now(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The rooms of one backend. Dropping it closes them.
#[derive(Debug)]
pub struct Rooms {
    shared: Arc<Shared>,
}

impl Rooms {
    /// No rooms yet.
    pub fn new(backend: Arc<dyn Backend>, lifecycle: Lifecycle, clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { backend, lifecycle, clock, table: Mutex::default() }) }
    }

    /// A living room for this owner, made if there is none. Callers who want the same room wait for one of them to make
    /// it, and share its failure; whoever comes after a failure tries again.
    pub fn lease(&self, owner: &Owner, spec: &RoomSpec) -> Result<Lease, RoomError> {
        self.close_due(Vec::new());
        let key = Key::of(self.shared.lifecycle.strategy, owner, spec)?;
        loop {
            match self.shared.look(key.as_ref())? {
                Found::Open(lease) if lease.is_alive() => return Ok(lease),
                Found::Open(lease) => self.shared.retire(lease.id),
                Found::Opening(opening) => opening.wait()?,
                Found::Nothing(attempt) => return attempt.open(owner, spec),
            }
        }
    }

    /// The agent has stopped: its rooms are closed after the time of grace.
    pub fn agent_stopped(&self, agent: &str) {
        let until = self.shared.clock.now() + self.shared.lifecycle.grace;
        let is_of_agent = |held: &&mut Held| held.key.as_ref().is_some_and(|key| key.agent == agent);
        for held in self.shared.table().rooms.values_mut().filter(is_of_agent) {
            held.owner_stopped = true;
            if let State::Idle { until: at_last } = held.state {
                held.state = State::Grace { until: until.min(at_last) };
            }
        }
    }

    /// The task has ended: its rooms are closed as soon as nobody has them.
    pub fn task_ended(&self, agent: &str, task: &str) {
        let is_of_task = |key: &Key| key.agent == agent && key.task.as_deref() == Some(task);
        let mut table = self.shared.table();
        // A room that is being made finds that it is not awaited any more, and goes with its first lease.
        table.by_key.retain(|key, place| !(is_of_task(key) && matches!(place, Place::Opening(_))));
        let of_task = table.rooms.iter().filter(|(_, held)| held.key.as_ref().is_some_and(is_of_task));
        let over: Vec<u64> = of_task.map(|(id, _)| *id).collect();
        self.shared.close(table, over);
    }

    /// Closes what is due, and what has died while it waited. Call it now and then.
    pub fn tick(&self) {
        let is_waiting = |held: &&Held| !matches!(held.state, State::Leased { .. });
        let waiting: Vec<_> = {
            let table = self.shared.table();
            let waiting = table.rooms.iter().filter(|(_, held)| is_waiting(held));
            waiting.map(|(id, held)| (*id, Arc::clone(&held.room))).collect()
        };
        // Rooms are asked without the lock held: they may have to ask somebody else.
        self.close_due(waiting.iter().filter(|(_, room)| !room.is_alive()).map(|(id, _)| *id).collect());
    }

    /// Closes what is due, and these.
    fn close_due(&self, mut over: Vec<u64>) {
        let now = self.shared.clock.now();
        let table = self.shared.table();
        over.extend(table.rooms.iter().filter(|(_, held)| held.state.is_due(now)).map(|(id, _)| *id));
        self.shared.close(table, over);
    }

    /// Closes every room, leased or not. There are no rooms after this.
    pub fn close_all(&self) {
        let mut table = self.shared.table();
        table.is_closed = true;
        table.by_key.clear();
        let all: Vec<_> = table.rooms.drain().map(|(_, held)| held.room).collect();
        drop(table);
        close_rooms(&all);
        self.shared.backend.close();
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// A room, for as long as it is held.
pub struct Lease {
    shared: Arc<Shared>,
    id: u64,
    room: Arc<dyn Room>,
}

impl Deref for Lease {
    type Target = dyn Room;

    fn deref(&self) -> &Self::Target {
        &*self.room
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        let lifecycle = self.shared.lifecycle;
        let mut table = self.shared.table();
        // After the end of all rooms there is nothing to count.
        let Some(held) = table.rooms.get_mut(&self.id) else { return };
        held.state = match held.state {
            State::Leased { count } if count > 1 => State::Leased { count: count - 1 },
            _ if held.owner_stopped => State::Grace { until: now + lifecycle.grace },
            _ => State::Idle { until: now + lifecycle.idle },
        };
        if held.key.is_none() && !matches!(held.state, State::Leased { .. }) {
            self.shared.close(table, vec![self.id]);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a room is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    agent: String,
    task: Option<String>,
    spec: Digest,
}

impl Key {
    /// None: nobody shares this one.
    fn of(strategy: Strategy, owner: &Owner, spec: &RoomSpec) -> Result<Option<Self>, RoomError> {
        let task = match (strategy, &owner.task) {
            (Strategy::PerCall, _) | (Strategy::PerTask, None) => return Ok(None),
            (Strategy::PerTask, Some(task)) => Some(task.clone()),
            (Strategy::PerAgent, _) => None,
        };
        let spec = spec.digest().map_err(|error| {
            let message = format!("the room's spec cannot be hashed: {error}");
            RoomError::BadJob(Fault::failed("bad_room_spec", message, "Use paths that are UTF-8."))
        })?;
        Ok(Some(Self { agent: owner.agent.clone(), task, spec }))
    }
}

/// Where a room is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In use, by this many.
    Leased { count: usize },
    /// Waits for the next lease, until then.
    Idle { until: Duration },
    /// Waits for its owner to come back, until then.
    Grace { until: Duration },
}

impl State {
    fn is_due(self, now: Duration) -> bool {
        match self {
            Self::Leased { .. } => false,
            Self::Idle { until } | Self::Grace { until } => until <= now,
        }
    }
}

struct Held {
    room: Arc<dyn Room>,
    /// None: it is not handed out again, and goes with its last lease.
    key: Option<Key>,
    state: State,
    /// Its agent has said so, and has not taken a lease since.
    owner_stopped: bool,
}

enum Place {
    Opening(Arc<Opening>),
    Open(u64),
}

/// What is there for a key.
enum Found {
    Open(Lease),
    Opening(Arc<Opening>),
    /// The caller is the one who makes it.
    Nothing(Attempt),
}

#[derive(Default)]
struct Table {
    rooms: HashMap<u64, Held>,
    by_key: HashMap<Key, Place>,
    /// Rooms that are being made.
    opening: usize,
    next_id: u64,
    is_closed: bool,
}

impl Table {
    /// Takes a room out of the hands of those who come later. Gives it back if nobody has it now.
    fn detach(&mut self, id: u64) -> Option<Arc<dyn Room>> {
        let held = self.rooms.get_mut(&id)?;
        if let Some(key) = held.key.take()
            && matches!(self.by_key.get(&key), Some(Place::Open(open)) if *open == id)
        {
            self.by_key.remove(&key);
        }
        match held.state {
            State::Leased { .. } => None,
            State::Idle { .. } | State::Grace { .. } => self.rooms.remove(&id).map(|held| held.room),
        }
    }

    /// The room that would be closed next.
    fn least_wanted(&self) -> Option<u64> {
        let until = |held: &Held| match held.state {
            State::Leased { .. } => None,
            State::Idle { until } | State::Grace { until } => Some(until),
        };
        self.rooms.iter().filter_map(|(id, held)| Some((until(held)?, *id))).min().map(|(_, id)| id)
    }
}

struct Shared {
    backend: Arc<dyn Backend>,
    lifecycle: Lifecycle,
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there. If there is nothing, everybody who asks from now on waits for this caller.
    fn look(self: &Arc<Self>, key: Option<&Key>) -> Result<Found, RoomError> {
        let mut table = self.table();
        if table.is_closed {
            return Err(all_closed());
        }
        match key.and_then(|key| table.by_key.get(key)) {
            Some(Place::Opening(opening)) => return Ok(Found::Opening(Arc::clone(opening))),
            Some(Place::Open(id)) => {
                let id = *id;
                if let Some(held) = table.rooms.get_mut(&id) {
                    return Ok(Found::Open(self.lease_held(id, held)));
                }
            }
            None => {}
        }
        let mut evicted = None;
        if table.rooms.len() + table.opening >= self.lifecycle.max_rooms {
            let id = table.least_wanted().ok_or_else(|| too_many(self.lifecycle.max_rooms))?;
            evicted = table.detach(id);
        }
        let opening = Arc::new(Opening::default());
        if let Some(key) = key {
            table.by_key.insert(key.clone(), Place::Opening(Arc::clone(&opening)));
        }
        table.opening += 1;
        drop(table);
        if let Some(room) = evicted {
            room.close();
        }
        Ok(Found::Nothing(Attempt { shared: Arc::clone(self), key: key.cloned(), opening, is_settled: false }))
    }

    fn lease_held(self: &Arc<Self>, id: u64, held: &mut Held) -> Lease {
        let count = match held.state {
            State::Leased { count } => count + 1,
            State::Idle { .. } | State::Grace { .. } => 1,
        };
        held.state = State::Leased { count };
        held.owner_stopped = false;
        Lease { shared: Arc::clone(self), id, room: Arc::clone(&held.room) }
    }

    fn retire(&self, id: u64) {
        self.close(self.table(), vec![id]);
    }

    /// Closes those of the rooms that nobody has, and hands the others out to nobody else. Rooms take their time to
    /// close, so the lock is not held for it.
    fn close(&self, mut table: MutexGuard<'_, Table>, rooms: Vec<u64>) {
        let closing: Vec<_> = rooms.into_iter().filter_map(|id| table.detach(id)).collect();
        drop(table);
        close_rooms(&closing);
    }
}

/// Rooms that are closed at the same time.
const AT_ONCE: usize = 16;

/// Closes rooms. One that takes its time, or fails to, does not hold up the others.
pub(crate) fn close_rooms(rooms: &[Arc<dyn Room>]) {
    if let [room] = rooms {
        return room.close();
    }
    for some in rooms.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let close = |room| thread::Builder::new().spawn_scoped(scope, move || Room::close(room));
            let closing: Vec<_> = some.iter().map(|room: &Arc<dyn Room>| (room, close(&**room))).collect();
            for (room, closing) in closing {
                // Where there is no thread to be had, it is closed here.
                match closing {
                    Ok(closing) => {
                        if closing.join().is_err() {
                            tracing::error!("a room could not be closed");
                        }
                    }
                    Err(_) => room.close(),
                }
            }
        });
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        f.debug_struct("Rooms")
            .field("backend", &self.backend.name())
            .field("lifecycle", &self.lifecycle)
            .field("open", &table.rooms.len())
            .field("opening", &table.opening)
            .finish()
    }
}

/// A room that somebody makes and others wait for.
#[derive(Default)]
struct Opening {
    outcome: Mutex<Option<Result<(), RoomError>>>,
    is_over: Condvar,
}

impl Opening {
    fn wait(&self) -> Result<(), RoomError> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.is_over.wait_while(outcome, |outcome| outcome.is_none());
        match &*over.unwrap_or_else(PoisonError::into_inner) {
            Some(Err(error)) => Err(again(error)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    fn end(&self, outcome: Result<(), RoomError>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.is_over.notify_all();
    }
}

/// The duty to make a room, or to say that it could not be made.
struct Attempt {
    shared: Arc<Shared>,
    key: Option<Key>,
    opening: Arc<Opening>,
    is_settled: bool,
}

impl Attempt {
    fn open(mut self, owner: &Owner, spec: &RoomSpec) -> Result<Lease, RoomError> {
        let name = match &owner.task {
            Some(task) => format!("{}/{task}", owner.agent),
            None => owner.agent.clone(),
        };
        let opened = self.shared.backend.open(spec, &name);
        self.settle(opened)
    }

    fn settle(&mut self, opened: Result<Arc<dyn Room>, RoomError>) -> Result<Lease, RoomError> {
        self.is_settled = true;
        let mut table = self.shared.table();
        table.opening -= 1;
        let is_awaited =
            |key: &Key| matches!(table.by_key.get(key), Some(Place::Opening(one)) if Arc::ptr_eq(one, &self.opening));
        let key = self.key.take().filter(is_awaited);
        let room = match opened {
            Ok(room) if !table.is_closed => room,
            over => {
                if let Some(key) = key {
                    table.by_key.remove(&key);
                }
                drop(table);
                let error = match over {
                    Ok(room) => {
                        room.close();
                        all_closed()
                    }
                    Err(error) => error,
                };
                self.opening.end(Err(again(&error)));
                return Err(error);
            }
        };
        let id = table.next_id;
        table.next_id += 1;
        if let Some(key) = &key {
            table.by_key.insert(key.clone(), Place::Open(id));
        }
        let mut held = Held { room, key, state: State::Idle { until: Duration::ZERO }, owner_stopped: false };
        let lease = self.shared.lease_held(id, &mut held);
        table.rooms.insert(id, held);
        drop(table);
        self.opening.end(Ok(()));
        Ok(lease)
    }
}

impl Drop for Attempt {
    /// A backend that panics must not leave others waiting.
    fn drop(&mut self) {
        if !self.is_settled {
            let _ = self.settle(Err(RoomError::Lost("whoever made it gave up".to_owned())));
        }
    }
}

fn all_closed() -> RoomError {
    RoomError::Lost("all rooms were closed".to_owned())
}

fn too_many(max_rooms: usize) -> RoomError {
    let message = format!("all {max_rooms} rooms are in use");
    let remedy = "Wait for a call to end, or raise `max_rooms` in the config.";
    RoomError::BadJob(Fault::failed("too_many_rooms", message, remedy).retryable())
}

/// The same error for another who waited.
fn again(error: &RoomError) -> RoomError {
    match error {
        RoomError::TooWeak { backend, wall, why, remedy } => {
            RoomError::TooWeak { backend, wall: *wall, why: why.clone(), remedy: remedy.clone() }
        }
        RoomError::NotReady(fault) => RoomError::NotReady(fault.clone()),
        RoomError::BadJob(fault) => RoomError::BadJob(fault.clone()),
        RoomError::NoProgram { program } => RoomError::NoProgram { program: program.clone() },
        RoomError::Step { step, source } => {
            let source = match source.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(source.kind(), source.to_string()),
            };
            RoomError::Step { step: step.clone(), source }
        }
        RoomError::Lost(why) => RoomError::Lost(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        room::{Io, Probed, Terminal},
        spec::Wall,
    };
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Barrier,
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
    };
    use toolgate_contract::{Job, Ran, TerminalSize};
    use toolgate_gate::Permit;

    #[derive(Default)]
    struct FakeClock(Mutex<Duration>);

    impl Clock for FakeClock {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap()
        }
    }

    /// Lives until it is closed or told to die.
    struct FakeRoom {
        name: String,
        is_alive: AtomicBool,
        closed: Arc<Mutex<Vec<String>>>,
        /// Whoever else closes, and is waited for.
        together: Option<Arc<Barrier>>,
    }

    impl Room for FakeRoom {
        fn run(&self, _: &Permit, _: &Job, _: Io<'_>) -> Result<Ran, RoomError> {
            Err(RoomError::Lost("nothing runs in a fake".into()))
        }

        fn open_terminal(&self, _: &Permit, _: &Job, _: TerminalSize) -> Result<Box<dyn Terminal>, RoomError> {
            Err(RoomError::Lost("nothing runs in a fake".into()))
        }

        fn changes(&self) -> std::io::Result<Option<crate::overlay::Changes>> {
            Ok(None)
        }

        fn is_alive(&self) -> bool {
            self.is_alive.load(Ordering::SeqCst)
        }

        fn close(&self) {
            self.is_alive.store(false, Ordering::SeqCst);
            self.together.iter().for_each(|others| _ = others.wait());
            self.closed.lock().unwrap().push(self.name.clone());
        }
    }

    type Opener = dyn Fn(usize) -> Result<(), RoomError> + Send + Sync;

    struct FakeBackend {
        /// What opening the n-th room does, counting from 0.
        opener: Box<Opener>,
        opened: Mutex<Vec<Arc<FakeRoom>>>,
        tries: Mutex<usize>,
        closed: Arc<Mutex<Vec<String>>>,
    }

    impl Backend for FakeBackend {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn probe(&self) -> Vec<Probed> {
            Vec::new()
        }

        fn open(&self, _: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
            let n = {
                let mut tries = self.tries.lock().unwrap();
                *tries += 1;
                *tries - 1
            };
            (self.opener)(n)?;
            let room = Arc::new(FakeRoom {
                name: format!("{n}:{owner}"),
                is_alive: AtomicBool::new(true),
                closed: Arc::clone(&self.closed),
                together: None,
            });
            self.opened.lock().unwrap().push(Arc::clone(&room));
            Ok(room)
        }
    }

    struct World {
        rooms: Rooms,
        backend: Arc<FakeBackend>,
        clock: Arc<FakeClock>,
    }

    impl World {
        fn new(strategy: Strategy) -> Self {
            Self::with(strategy, 8, |_| Ok(()))
        }

        fn with(
            strategy: Strategy,
            max_rooms: usize,
            opener: impl Fn(usize) -> Result<(), RoomError> + Send + Sync + 'static,
        ) -> Self {
            let backend = Arc::new(FakeBackend {
                opener: Box::new(opener),
                opened: Mutex::default(),
                tries: Mutex::default(),
                closed: Arc::default(),
            });
            let clock = Arc::new(FakeClock::default());
            let lifecycle = Lifecycle { strategy, max_rooms, ..Lifecycle::default() };
            Self { rooms: Rooms::new(backend.clone(), lifecycle, clock.clone()), backend, clock }
        }

        fn lease(&self, agent: &str, task: Option<&str>) -> Lease {
            self.try_lease(agent, task).unwrap()
        }

        fn try_lease(&self, agent: &str, task: Option<&str>) -> Result<Lease, RoomError> {
            self.rooms.lease(&owner(agent, task), &RoomSpec::bare())
        }

        /// Time passes, and the timer of the runtime goes off.
        fn pass(&self, seconds: u64) {
            *self.clock.0.lock().unwrap() += Duration::from_secs(seconds);
            self.rooms.tick();
        }

        fn opened(&self) -> Vec<String> {
            self.backend.opened.lock().unwrap().iter().map(|room| room.name.clone()).collect()
        }

        fn closed(&self) -> Vec<String> {
            self.backend.closed.lock().unwrap().clone()
        }

        fn kill(&self, n: usize) {
            self.backend.opened.lock().unwrap()[n].is_alive.store(false, Ordering::SeqCst);
        }
    }

    fn owner(agent: &str, task: Option<&str>) -> Owner {
        Owner { agent: agent.into(), task: task.map(str::to_owned) }
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn rooms_that_take_their_time_close_beside_each_other() {
        let closed = Arc::new(Mutex::new(Vec::new()));
        let together = Some(Arc::new(Barrier::new(2)));
        let room = |name: &str| FakeRoom {
            name: name.to_owned(),
            is_alive: AtomicBool::new(true),
            closed: Arc::clone(&closed),
            together: together.clone(),
        };
        let rooms = ["a", "b"].map(|name| Arc::new(room(name)) as Arc<dyn Room>);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            close_rooms(&rooms);
            tell.send(())
        });
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(closed.lock().unwrap().len(), 2);
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let Lifecycle { strategy, grace, idle, .. } = Lifecycle::default();
        assert_eq!((strategy, grace.as_secs(), idle.as_secs()), (Strategy::PerAgent, 30, 300));
    }

    #[test]
    fn an_agent_keeps_its_room_between_calls() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", Some("t1")));
        world.pass(299);
        drop(world.lease("a", Some("t2")));
        world.pass(299);
        drop(world.lease("a", None));
        assert_eq!((world.opened(), world.closed()), (vec!["0:a/t1".to_owned()], vec![]));
        world.pass(299);
        assert_eq!(world.closed(), NONE);
        world.pass(1);
        assert_eq!(world.closed(), ["0:a/t1"]);
        drop(world.lease("a", None));
        assert_eq!(world.opened(), ["0:a/t1", "1:a"]);
    }

    #[test]
    fn agents_never_share() {
        for strategy in [Strategy::PerAgent, Strategy::PerTask, Strategy::PerCall] {
            let world = World::new(strategy);
            drop(world.lease("a", Some("t")));
            drop(world.lease("b", Some("t")));
            assert_eq!(world.opened(), ["0:a/t", "1:b/t"], "{strategy:?}");
        }
    }

    #[test]
    fn another_spec_is_another_room() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        let looser = RoomSpec { egress: crate::Egress::to(vec!["example.com:443".into()]), ..RoomSpec::bare() };
        drop(world.rooms.lease(&owner("a", None), &looser).unwrap());
        drop(world.lease("a", None));
        assert_eq!(world.opened(), ["0:a", "1:a"]);
    }

    #[test]
    fn every_call_has_its_own_room() {
        let world = World::new(Strategy::PerCall);
        let first = world.lease("a", Some("t"));
        let second = world.lease("a", Some("t"));
        drop(first);
        assert_eq!(world.closed(), ["0:a/t"]);
        drop(second);
        assert_eq!(world.closed(), ["0:a/t", "1:a/t"]);
        drop(world.lease("a", Some("t")));
        assert_eq!(world.opened(), ["0:a/t", "1:a/t", "2:a/t"]);
    }

    #[test]
    fn a_call_of_no_task_has_its_own_room() {
        let world = World::new(Strategy::PerTask);
        drop(world.lease("a", None));
        drop(world.lease("a", None));
        assert_eq!((world.opened(), world.closed()), (vec!["0:a".to_owned(), "1:a".to_owned()], world.opened()));
    }

    #[test]
    fn a_room_survives_until_the_last_lease() {
        let world = World::new(Strategy::PerAgent);
        let first = world.lease("a", None);
        let second = world.lease("a", None);
        drop(first);
        world.pass(1_000);
        assert!(second.is_alive());
        assert_eq!(world.closed(), NONE);
        drop(second);
        world.pass(300);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn a_stopped_agent_has_a_time_of_grace() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        drop(world.lease("b", None));
        world.rooms.agent_stopped("a");
        world.pass(29);
        assert_eq!(world.closed(), NONE);
        world.pass(1);
        assert_eq!(world.closed(), ["0:a"], "and b's is left alone");
    }

    #[test]
    fn grace_is_never_longer_than_idle() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        world.pass(290);
        world.rooms.agent_stopped("a");
        world.pass(10);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn grace_starts_when_the_last_lease_ends() {
        let world = World::new(Strategy::PerAgent);
        let lease = world.lease("a", None);
        world.rooms.agent_stopped("a");
        world.pass(1_000);
        assert_eq!(world.closed(), NONE);
        drop(lease);
        world.pass(29);
        assert_eq!(world.closed(), NONE);
        world.pass(1);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn a_lease_in_the_time_of_grace_revives() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        world.rooms.agent_stopped("a");
        world.pass(29);
        drop(world.lease("a", None));
        world.pass(299);
        assert_eq!((world.opened(), world.closed()), (vec!["0:a".to_owned()], vec![]));
        world.pass(1);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn a_task_takes_its_room_along() {
        let world = World::new(Strategy::PerTask);
        drop(world.lease("a", Some("t")));
        drop(world.lease("a", Some("u")));
        drop(world.lease("a", Some("t")));
        assert_eq!(world.opened(), ["0:a/t", "1:a/u"]);
        world.rooms.task_ended("b", "t");
        assert_eq!(world.closed(), NONE);
        world.rooms.task_ended("a", "t");
        assert_eq!(world.closed(), ["0:a/t"]);
        world.pass(300);
        assert_eq!(world.closed(), ["0:a/t", "1:a/u"], "one that nobody ended goes when it is idle");
    }

    #[test]
    fn a_task_that_ended_is_over_but_not_under_a_lease() {
        let world = World::new(Strategy::PerTask);
        let running = world.lease("a", Some("t"));
        world.rooms.task_ended("a", "t");
        assert!(running.is_alive());
        let again = world.lease("a", Some("t"));
        assert_eq!(world.opened(), ["0:a/t", "1:a/t"]);
        drop(running);
        assert_eq!(world.closed(), ["0:a/t"]);
        drop(again);
        assert_eq!(world.closed(), ["0:a/t"], "the new one waits for more");
    }

    #[test]
    fn a_task_that_ends_while_its_room_is_made_does_not_keep_it() {
        let (arrived, at_door) = mpsc::channel();
        let (open_door, door) = mpsc::channel::<()>();
        let door = Mutex::new(door);
        let world = World::with(Strategy::PerTask, 8, move |_| {
            arrived.send(()).unwrap();
            door.lock().unwrap().recv().unwrap();
            Ok(())
        });
        thread::scope(|scope| {
            let lease = scope.spawn(|| world.lease("a", Some("t")));
            at_door.recv().unwrap();
            world.rooms.task_ended("a", "t");
            open_door.send(()).unwrap();
            assert!(lease.join().unwrap().is_alive());
        });
        assert_eq!(world.closed(), ["0:a/t"]);
    }

    #[test]
    fn a_dead_room_is_replaced() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        world.kill(0);
        let lease = world.lease("a", None);
        assert!(lease.is_alive());
        assert_eq!(
            (world.opened(), world.closed()),
            (vec!["0:a".to_owned(), "1:a".to_owned()], vec!["0:a".to_owned()])
        );
    }

    #[test]
    fn a_room_that_dies_under_a_lease_is_not_handed_out() {
        let world = World::new(Strategy::PerAgent);
        let unlucky = world.lease("a", None);
        world.kill(0);
        let lucky = world.lease("a", None);
        assert!(!unlucky.is_alive() && lucky.is_alive());
        assert_eq!(world.closed(), NONE, "whoever has it may still ask how it ended");
        drop(unlucky);
        assert_eq!(world.closed(), ["0:a"]);
        drop(lucky);
        drop(world.lease("a", None));
        assert_eq!(world.opened(), ["0:a", "1:a"], "the second room is the one that is shared from then on");
    }

    #[test]
    fn a_room_that_dies_in_waiting_is_closed_by_the_timer() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        world.kill(0);
        world.pass(1);
        assert_eq!(world.closed(), ["0:a"]);
        world.pass(1_000);
        assert_eq!(world.closed(), ["0:a"], "once");
    }

    #[test]
    fn the_least_wanted_room_makes_place() {
        let world = World::with(Strategy::PerAgent, 2, |_| Ok(()));
        drop(world.lease("a", None));
        world.pass(1);
        drop(world.lease("b", None));
        world.pass(1);
        drop(world.lease("a", None));
        let c = world.lease("c", None);
        assert_eq!(world.closed(), ["1:b"]);
        let a = world.lease("a", None);
        let Err(RoomError::BadJob(fault)) = world.try_lease("d", None) else { panic!("there are two") };
        assert_eq!((&*fault.code, fault.retryable), ("too_many_rooms", true));
        drop(a);
        drop(world.lease("d", None));
        assert_eq!(world.closed(), ["1:b", "0:a"]);
        assert!(c.is_alive());
    }

    #[test]
    fn rooms_of_single_calls_count_as_well() {
        let world = World::with(Strategy::PerCall, 1, |_| Ok(()));
        let lease = world.lease("a", None);
        assert!(world.try_lease("a", None).is_err());
        drop(lease);
        drop(world.lease("a", None));
        assert_eq!(world.opened().len(), 2);
    }

    #[test]
    fn a_lease_closes_what_is_due() {
        let world = World::new(Strategy::PerAgent);
        drop(world.lease("a", None));
        *world.clock.0.lock().unwrap() += Duration::from_secs(300);
        let _b = world.lease("b", None);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn the_end_closes_everything_and_opens_nothing() {
        let world = World::new(Strategy::PerAgent);
        let held = world.lease("a", None);
        drop(world.lease("b", None));
        world.rooms.close_all();
        let mut closed = world.closed();
        closed.sort();
        assert_eq!(closed, ["0:a", "1:b"]);
        assert!(matches!(world.try_lease("a", None), Err(RoomError::Lost(_))));
        drop(held);
        world.rooms.close_all();
        assert_eq!(world.closed().len(), 2, "once each");
    }

    #[test]
    fn a_room_that_is_made_while_everything_ends_ends_too() {
        let (arrived, at_door) = mpsc::channel();
        let (open_door, door) = mpsc::channel::<()>();
        let door = Mutex::new(door);
        let world = World::with(Strategy::PerAgent, 8, move |_| {
            arrived.send(()).unwrap();
            door.lock().unwrap().recv().unwrap();
            Ok(())
        });
        thread::scope(|scope| {
            let lease = scope.spawn(|| world.try_lease("a", None));
            at_door.recv().unwrap();
            world.rooms.close_all();
            open_door.send(()).unwrap();
            assert!(matches!(lease.join().unwrap(), Err(RoomError::Lost(_))));
        });
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn dropping_the_rooms_closes_them() {
        let World { rooms, backend, clock: _ } = World::new(Strategy::PerAgent);
        let lease = rooms.lease(&owner("a", None), &RoomSpec::bare()).unwrap();
        drop(rooms);
        assert_eq!(*backend.closed.lock().unwrap(), ["0:a"]);
        assert!(!lease.is_alive());
    }

    #[test]
    fn many_callers_wait_for_one_room() {
        // Slow enough for all of them to come while it is made.
        let world = World::with(Strategy::PerAgent, 8, |_| {
            thread::sleep(Duration::from_millis(50));
            Ok(())
        });
        let at_once = Barrier::new(32);
        let leases: Vec<Lease> = thread::scope(|scope| {
            let callers: Vec<_> = (0..32)
                .map(|_| {
                    scope.spawn(|| {
                        at_once.wait();
                        world.lease("a", None)
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(world.opened(), ["0:a"]);
        assert_eq!(world.rooms.shared.table().rooms[&0].state, State::Leased { count: 32 });
        drop(leases);
        world.pass(300);
        assert_eq!(world.closed(), ["0:a"]);
    }

    #[test]
    fn who_waits_shares_the_failure_and_who_comes_later_tries_again() {
        let (arrived, at_door) = mpsc::channel();
        let (open_door, door) = mpsc::channel::<()>();
        let door = Mutex::new(door);
        let world = World::with(Strategy::PerAgent, 8, move |n| match n {
            0 => {
                arrived.send(()).unwrap();
                door.lock().unwrap().recv().unwrap();
                Err(RoomError::TooWeak { backend: "fake", wall: Wall::Memory, why: "w".into(), remedy: "r".into() })
            }
            _ => Ok(()),
        });
        let spelled = |result: Result<Lease, RoomError>| format!("{:?}", result.unwrap_err());
        thread::scope(|scope| {
            let first = scope.spawn(|| world.try_lease("a", None));
            at_door.recv().unwrap();
            let waiting = scope.spawn(|| world.try_lease("a", None));
            let opening = match world.rooms.shared.table().by_key.values().next() {
                Some(Place::Opening(opening)) => Arc::clone(opening),
                _ => panic!("somebody is making it"),
            };
            // Held by the table, the one who makes it, this test, and then by the one who waits.
            while Arc::strong_count(&opening) < 4 {
                thread::yield_now();
            }
            open_door.send(()).unwrap();
            assert_eq!(spelled(first.join().unwrap()), spelled(waiting.join().unwrap()));
        });
        assert_eq!(world.opened(), NONE);
        drop(world.lease("a", None));
        assert_eq!(world.opened(), ["1:a"]);
    }

    #[test]
    fn a_backend_that_panics_leaves_nobody_waiting() {
        let world = World::with(Strategy::PerAgent, 1, |n| match n {
            0 => panic!("as asked"),
            _ => Ok(()),
        });
        assert!(catch_unwind(AssertUnwindSafe(|| world.try_lease("a", None))).is_err());
        drop(world.lease("a", None));
        assert_eq!(world.opened(), ["1:a"], "and its place is free again");
    }

    #[test]
    fn an_error_reads_the_same_for_everybody() {
        let check = |error: RoomError| assert_eq!(format!("{:?}", again(&error)), format!("{error:?}"));
        check(RoomError::TooWeak { backend: "x", wall: Wall::Cpu, why: "y".into(), remedy: "z".into() });
        check(too_many(3));
        check(RoomError::NoProgram { program: "p".into() });
        check(RoomError::Step { step: "s".into(), source: io::Error::from_raw_os_error(13) });
        check(all_closed());
    }
}
