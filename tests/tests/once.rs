//! Effects that happen once, though whoever does them is killed again and again.
//!
//! A payer pays at a remote that counts and knows no keys: whatever arrives is paid. It is killed at any moment, started
//! again with what it left open, and in the end every payment was made exactly once.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use toolgate_runtime::{
    contract::{OnceState, Resolution},
    store::state::{EffectFilter, SqliteState, State as _},
};

/// Kills with one record and one ledger. After that both are checked and begun anew, so that neither grows without end.
const PER_LEDGER: usize = 250;
/// Keys of one life, at most.
const KEYS: usize = 60;
/// What does not come until then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn no_payment_is_lost_or_made_twice_whenever_the_payer_dies() {
    let wanted = env::var("TOOLGATE_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    let mut dice = Dice::new();
    let mut all = Counted::default();
    while all.kills < wanted {
        let ledger = one_ledger((wanted - all.kills).min(PER_LEDGER), &mut dice);
        all = all.and(&ledger);
        eprintln!("{all:?}");
    }
    assert!(all.found_out > 0 && all.kills_while_paying > 0, "nothing was in the air when it died: {all:?}");
}

/// What happened, for whoever reads the log.
#[derive(Debug, Default)]
struct Counted {
    kills: usize,
    /// Payments the remote had begun or made, and nobody had been told about, when the payer died.
    kills_while_paying: usize,
    payments: usize,
    /// Payments of which the payer learned from the remote's ledger alone.
    found_out: usize,
    did_not_happen: usize,
    /// Ledger against state.
    twice: usize,
    lost: usize,
}

impl Counted {
    fn and(&self, other: &Self) -> Self {
        Self {
            kills: self.kills + other.kills,
            kills_while_paying: self.kills_while_paying + other.kills_while_paying,
            payments: self.payments + other.payments,
            found_out: self.found_out + other.found_out,
            did_not_happen: self.did_not_happen + other.did_not_happen,
            twice: self.twice + other.twice,
            lost: self.lost + other.lost,
        }
    }
}

fn one_ledger(kills: usize, dice: &mut Dice) -> Counted {
    let place = tempfile::tempdir().unwrap();
    let remote = Remote::open();
    let mut counted = Counted { kills, ..Counted::default() };
    let mut open: Vec<String> = Vec::new();
    let mut fresh = 0;
    for _ in 0..kills {
        while open.len() < KEYS {
            open.push(format!("k{fresh}"));
            fresh += 1;
        }
        let begun = remote.begun();
        let told = live_and_die(place.path(), &remote, &open, dice);
        remote.settle();
        let made = remote.begun() - begun;
        counted.kills_while_paying += usize::from(made > told.iter().filter(|key| remote.is_new(key, begun)).count());
        open.retain(|key| !told.contains(key));
    }
    // One life to its natural end: what was left open is found out.
    let told = live(place.path(), &remote, &open);
    assert_eq!(told.len(), open.len(), "keys that are neither paid nor known: {told:?} of {open:?}");
    remote.settle();
    check(place.path(), &remote, fresh, &mut counted);
    counted
}

/// Every key was paid once, and the state says so of every key.
fn check(place: &Path, remote: &Remote, keys: usize, counted: &mut Counted) {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = SqliteState::open(&place.join("data")).unwrap();
    let most = u32::try_from(keys).unwrap() + 1;
    let effects = state.effects(EffectFilter { states: Vec::new(), agent: None, limit: most });
    let effects = executor.block_on(effects).unwrap();
    let ledger = remote.ledger();
    let mut known = BTreeMap::new();
    for once in &effects {
        let happened = once.resolved.as_ref().map(|found| matches!(found.resolution, Resolution::Happened(_)));
        counted.found_out += usize::from(happened == Some(true));
        counted.did_not_happen += usize::from(happened == Some(false) || once.attempt > 1);
        let is_done = once.state == OnceState::Done || (once.state == OnceState::Resolved && happened == Some(true));
        known.insert(once.key.key.clone(), is_done);
    }
    counted.payments += ledger.values().sum::<usize>();
    counted.twice += ledger.values().filter(|times| **times > 1).count();
    counted.lost += (0..keys).filter(|n| ledger.get(&format!("k{n}")) != Some(&1)).count();
    assert_eq!((counted.twice, counted.lost), (0, 0), "paid twice, not paid: {ledger:?}");
    for n in 0..keys {
        assert_eq!(known.get(&format!("k{n}")), Some(&true), "k{n} was paid, and the state does not say so");
    }
    assert_eq!(ledger.len(), keys, "the remote was paid under keys nobody gave");
}

/// Starts a payer, and kills it after a while. The keys it said were done.
fn live_and_die(place: &Path, remote: &Remote, keys: &[String], dice: &mut Dice) -> Vec<String> {
    let mut payer = start(place, remote, keys);
    let mut lines = BufReader::new(payer.stdout.take().unwrap());
    // Most die while they pay, some while they start.
    if dice.below(8) > 0 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
    }
    thread::sleep(Duration::from_micros(dice.below(80_000)));
    payer.kill().unwrap();
    payer.wait().unwrap();
    done(lines)
}

/// Starts a payer, and lets it live.
fn live(place: &Path, remote: &Remote, keys: &[String]) -> Vec<String> {
    let mut payer = start(place, remote, keys);
    let lines = BufReader::new(payer.stdout.take().unwrap());
    let told = done(lines);
    assert!(payer.wait().unwrap().success());
    told
}

fn start(place: &Path, remote: &Remote, keys: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payer"));
    command.arg(place).arg(remote.address.to_string()).args(keys);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The keys that are said to be done. A line that was cut by the end is none.
fn done(lines: BufReader<impl std::io::Read>) -> Vec<String> {
    let whole = lines.lines().map_while(Result::ok);
    whole.filter_map(|line| Some(line.strip_suffix(" done")?.to_owned())).collect()
}

/// A remote that pays whatever arrives, and tells from its ledger what it paid.
struct Remote {
    address: SocketAddr,
    paid: Arc<Mutex<Vec<String>>>,
    /// Visitors that were let in and have not left.
    inside: Arc<AtomicUsize>,
}

impl Remote {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Self { address: listener.local_addr().unwrap(), paid: Arc::default(), inside: Arc::default() };
        let (paid, inside) = (remote.paid.clone(), remote.inside.clone());
        thread::spawn(move || {
            let mut pauses = Dice::new();
            for visitor in listener.incoming().map_while(Result::ok) {
                inside.fetch_add(1, Ordering::SeqCst);
                let (paid, inside) = (paid.clone(), inside.clone());
                let pause = [pauses.below(3_000), pauses.below(3_000)];
                thread::spawn(move || {
                    // A visitor that was killed is no failure of the remote.
                    let _ = serve(&visitor, &paid, pause);
                    drop(visitor);
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        remote
    }

    /// Waits until everybody who came before has left: those who still stand in the queue are let in before us.
    fn settle(&self) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(b"GET /nobody HTTP/1.1\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        let until = Instant::now() + PATIENCE;
        while self.inside.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < until, "visitors do not leave");
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn begun(&self) -> usize {
        self.paid.lock().unwrap().len()
    }

    /// Was it paid after so many others?
    fn is_new(&self, key: &str, after: usize) -> bool {
        self.paid.lock().unwrap()[after..].iter().any(|paid| paid == key)
    }

    fn ledger(&self) -> BTreeMap<String, usize> {
        let mut ledger = BTreeMap::new();
        self.paid.lock().unwrap().iter().for_each(|key| *ledger.entry(key.clone()).or_default() += 1);
        ledger
    }
}

/// One request, one answer. A payment counts as soon as it has arrived whole, whether or not anybody waits for the answer.
fn serve(mut stream: &TcpStream, paid: &Mutex<Vec<String>>, pause: [u64; 2]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let key = path.trim_start_matches('/').to_owned();
    let length = |line: &String| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    let mut body = vec![0; head.iter().find_map(length).unwrap_or(0)];
    lines.read_exact(&mut body)?;

    thread::sleep(Duration::from_micros(pause[0]));
    let status = match method {
        "POST" => {
            paid.lock().unwrap().push(key);
            "200 OK"
        }
        _ if paid.lock().unwrap().contains(&key) => "200 OK",
        _ => "404 Not Found",
    };
    thread::sleep(Duration::from_micros(pause[1]));
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// Chance that is different every time, and told when a test fails.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0);
        eprintln!("seed {seed}");
        Self(seed | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
