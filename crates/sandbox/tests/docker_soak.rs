//! Many calls of many owners in containers, with people who change their minds: afterwards nothing is left.
//!
//! Two sets of rooms share one backend, so that rooms of a call and rooms of an agent come and go beside each other, and
//! both hold fewer rooms than there are owners. What a call does is drawn from a fixed seed.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use toolgate_contract::{Ending, Files, Job, JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, DockerBackend, Io, Lifecycle, Monotonic, Owner, Probed, Room, RoomError, RoomSpec, Rooms, Strategy,
    registry::{self, Registry},
};

#[path = "common/docker.rs"]
mod common;

use common::{Daemon, Engine};

/// Whose containers this suite is about.
fn engine() -> Engine {
    if env!("CARGO_CRATE_NAME") == "podman_soak" { Engine::Podman } else { Engine::Docker }
}

const CALLS: usize = 500;
const OWNERS: usize = 50;
/// Calls at one time.
const CALLERS: usize = 4;
/// Rooms at one time, of each of the two sets.
const MOST_ROOMS: usize = 6;
const SEED: u64 = 0x005e_ed0f_50ac_0001;

#[test]
fn five_hundred_calls_leave_nothing() {
    let daemon = match Daemon::find(engine()) {
        Ok(daemon) => daemon,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = dir.path().join("data");
    let marker = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
    let label = format!("toolgate.deployment={}", Registry::open(&data).unwrap().label());
    let volumes = names(&daemon, "/volumes");

    let backend = DockerBackend::open(&data, daemon.settings()).unwrap();
    let counting = Arc::new(Counting { backend, opened: AtomicUsize::new(0) });
    let rooms = |strategy| {
        let lifecycle = Lifecycle { strategy, max_rooms: MOST_ROOMS, ..Lifecycle::default() };
        Rooms::new(counting.clone(), lifecycle, Arc::new(Monotonic::default()))
    };
    let house = House { per_agent: rooms(Strategy::PerAgent), per_call: rooms(Strategy::PerCall), marker };
    let seen = Mutex::new(BTreeMap::<&str, usize>::new());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while let number @ 0..CALLS = next.fetch_add(1, Ordering::Relaxed) {
                    let what = house.call(number);
                    *seen.lock().unwrap().entry(what).or_default() += 1;
                }
            });
        }
    });
    let (seen, opened) = (seen.into_inner().unwrap(), counting.opened.load(Ordering::Relaxed));
    eprintln!("{seen:?} in {opened} containers");
    assert_eq!(seen.values().sum::<usize>(), CALLS);
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), ["cancelled", "done", "failed", "timed out"]);
    assert!(opened > OWNERS + MOST_ROOMS, "nobody was put out");
    // The daemon was told of those that were put out; it may still be at it.
    let waiting = eventually(|| daemon.containers(&label).len() == MOST_ROOMS);
    assert!(waiting, "rooms of agents wait for the next call: {:?}", daemon.containers(&label));
    assert_eq!(registry::list(&data).unwrap().len(), MOST_ROOMS, "and are written down");
    assert_eq!(processes_with(&house.marker), [""; 0], "a call is over when it is over");

    let House { per_agent, per_call, marker } = house;
    drop((per_agent, per_call));
    assert_eq!(registry::list(&data).unwrap(), [], "rooms that are written down");
    let gone = eventually(|| daemon.containers(&label).is_empty());
    assert!(gone, "containers stay: {:?}", daemon.containers(&label));
    let networks = format!("/networks?filters=%7B%22label%22%3A%5B%22{}%22%5D%7D", label.replace('=', "%3D"));
    assert_eq!(names(&daemon, &networks), BTreeSet::new(), "networks stay");
    assert_eq!(names(&daemon, "/volumes").difference(&volumes).collect::<Vec<_>>(), [""; 0], "volumes stay");
    assert_eq!(processes_with(&marker), [""; 0], "somebody stays");
}

struct House {
    per_agent: Rooms,
    per_call: Rooms,
    /// A word in the environment of every job, and nowhere else.
    marker: String,
}

impl House {
    /// One call, as its number has it. Tells how it ended.
    fn call(&self, number: usize) -> &'static str {
        let mut dice = Dice(SEED ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rooms = if dice.below(8) == 0 { &self.per_call } else { &self.per_agent };
        // Agents come one after the other, and now and then one comes back.
        let agent = if dice.below(16) == 0 { dice.below(OWNERS as u64) as usize } else { number * OWNERS / CALLS };
        let owner = Owner { agent: format!("owner-{agent}"), task: None };
        let room = rooms.lease(&owner, &RoomSpec::bare()).unwrap();
        match dice.below(6) {
            0 => {
                let at = Instant::now() + Duration::from_millis(dice.below(200));
                let ran = self.run(&*room, STUBBORN, Duration::from_secs(60), &|| Instant::now() > at);
                assert_eq!(ran.0, Ending::Cancelled);
                "cancelled"
            }
            1 => {
                let ran = self.run(&*room, STUBBORN, Duration::from_millis(dice.below(200)), &|| false);
                assert_eq!(ran.0, Ending::TimedOut);
                "timed out"
            }
            2 => {
                let code = 1 + dice.below(100) as i32;
                let ran = self.run(&*room, &format!("exit {code}"), Duration::from_secs(60), &|| false);
                assert_eq!(ran.0, Ending::Exited { code });
                "failed"
            }
            _ => {
                let ran = self.run(&*room, &format!("echo {number}"), Duration::from_secs(60), &|| false);
                assert_eq!(ran, (Ending::Exited { code: 0 }, format!("{number}\n")));
                "done"
            }
        }
    }

    fn run(&self, room: &dyn Room, script: &str, wall: Duration, stop: &(dyn Fn() -> bool + Sync)) -> (Ending, String) {
        let job = Job {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: String::new(),
            env: BTreeMap::from([("MARKER".to_owned(), self.marker.clone())]),
            stdin: Vec::new(),
            limits: JobLimits { wall, grace: Duration::from_millis(20), ..JobLimits::default() },
        };
        let needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
        let ran =
            room.run(&Permit::of_operator(needs), &job, Io { stop, heard: None, stdin: None, stdout: None }).unwrap();
        (ran.ending, ran.stdout.text)
    }
}

/// Does not listen, and leaves somebody behind who does not listen either.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'sleep 600' & sleep 600";

/// Numbers that look like chance and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Counts the rooms that are made.
struct Counting {
    backend: DockerBackend,
    opened: AtomicUsize,
}

impl Backend for Counting {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn probe(&self) -> Vec<Probed> {
        self.backend.probe()
    }

    fn open(&self, spec: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.backend.open(spec, owner)
    }
}

/// The names in a list of the daemon's.
fn names(daemon: &Daemon, list: &str) -> BTreeSet<String> {
    let (status, answer) = daemon.ask("GET", list, b"");
    assert_eq!(status, 200, "{answer}");
    answer.split("\"Name\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Processes of the machine whose environment holds this.
fn processes_with(word: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let holds = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(word.len()).any(|window| window == word.as_bytes())
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).filter(holds).collect()
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
