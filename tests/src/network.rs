//! An internet of a test's own, and a machine on it.
//!
//! Two network namespaces joined by a cable. The *world* answers for every address there is; the *client* reaches all of
//! them through it, and has a loopback of its own. In each an `outpost` listens, and notes every connection that
//! arrives. Nothing leaves the two.

use std::{
    io::{BufRead, BufReader, Write},
    net::{IpAddr, SocketAddr},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Ran,
    dns::{Names, Question},
    skipped,
};

/// The addresses of the client. They would be public ones, so that only a look at its own interfaces tells that they are
/// the machine itself.
pub const CLIENT: [&str; 2] = ["45.80.20.2", "2a0b:45:80::2"];
/// Who answers for names.
pub const NAME_SERVER: &str = "94.140.14.14:53";
/// Where connections are taken without and with encryption.
pub const PLAIN: [u16; 7] = [80, 22, 3000, 6379, 8080, 9200, 11211];
/// Where they are encrypted.
pub const SECURE: [u16; 2] = [443, 8443];

/// How long an outpost may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection that was opened may be on its way to the listener.
const FLIGHT: Duration = Duration::from_secs(2);

/// What an outpost is asked to do. Each order is a line, and each is answered by one.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Takes connections at these ports and questions at that address. Answered with the authority whose certificates
    /// it shows.
    Listen {
        /// Without encryption.
        plain: Vec<u16>,
        /// With it.
        secure: Vec<u16>,
        /// For names.
        name_server: Option<SocketAddr>,
    },
    /// Says this from now on and forgets what came before. Answered with null.
    Stage(Stage),
    /// Opens a connection to each, one after the other. Answered with what went wrong for each.
    Connect(Vec<SocketAddr>),
    /// Answered with a [`Report`].
    Report,
}

/// What the world says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Stage {
    /// Of names.
    pub names: Names,
    /// Status and target for the first requests, in their order. All later ones get a page.
    pub redirects: Vec<(u16, String)>,
    /// What every server wants of robots.
    pub robots: Robots,
}

/// What a `robots.txt` is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Robots {
    /// Not there.
    #[default]
    Missing,
    /// These rules.
    Rules(String),
    /// Elsewhere.
    At(String),
}

/// What an outpost has noticed since its last stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Connections that arrived.
    pub visits: Vec<Visit>,
    /// Names that were asked for.
    pub questions: Vec<Question>,
    /// Connections that somebody in this namespace tried to open, to wherever it was, by the kernel's own count.
    pub opened: usize,
}

/// A connection that arrived.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Visit {
    /// Where it arrived.
    pub to: SocketAddr,
    /// The heads of the requests that came through it.
    pub requests: Vec<String>,
}

/// What happened in both namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections that arrived anywhere in the world.
    pub world: Vec<Visit>,
    /// Connections that arrived at the client itself.
    pub client: Vec<Visit>,
    /// Names that were asked for.
    pub questions: Vec<Question>,
    /// Connections the client tried to open.
    pub opened: usize,
}

impl Seen {
    /// Where connections arrived, in no order that means anything.
    pub fn targets(&self) -> Vec<SocketAddr> {
        let mut targets: Vec<_> = self.world.iter().chain(&self.client).map(|visit| visit.to).collect();
        targets.sort_unstable();
        targets
    }

    /// The heads of the requests that arrived in the world, those for rules to robots left out.
    pub fn pages(&self) -> Vec<&str> {
        let requests = self.world.iter().flat_map(|visit| &visit.requests).map(String::as_str);
        requests.filter(|head| !head.starts_with("GET /robots.txt ")).collect()
    }
}

/// The two namespaces. They go when this goes.
#[derive(Debug)]
pub struct Network {
    // The client goes first: it lives in the world's user namespace.
    client: Outpost,
    world: Outpost,
    authority: String,
}

impl Network {
    /// Makes one, with this `outpost` in each namespace. None where the machine does not let us, which is said.
    pub fn new(outpost: &str) -> Option<Self> {
        if let Err(error) = Command::new("ip").arg("-Version").output() {
            skipped(format!("there is no `ip` to make a network with: {error}"));
            return None;
        }
        let (mut world, powers) = match make_world(outpost) {
            Ok(made) => made,
            Err(why) => {
                skipped(format!("this machine has no network namespaces for us: {why}"));
                return None;
            }
        };
        let mut make = enter(&world.child, powers);
        make.args(["--", "unshare", "--net", "--", outpost]);
        let mut client = Outpost::start(make, powers).unwrap_or_else(|why| panic!("no client: {why}"));
        let [client_v4, client_v6] = CLIENT;
        let (world_v4, world_v6) = ("45.80.20.1", "2a0b:45:80::1");
        let name_server: SocketAddr = NAME_SERVER.parse().expect("an address");
        // The catch-all routes lie in the main table, so that the client, which is a neighbour, is still found.
        world.ip(&format!(
            "link set lo up
             link add world type veth peer name client netns {}
             address add {world_v4}/30 dev world
             address add {world_v6}/64 dev world nodad
             link set world up
             route add local 0.0.0.0/0 dev lo table main
             route add local ::/0 dev lo table main
             address add {}/32 dev lo",
            client.child.id(),
            name_server.ip(),
        ));
        client.ip(&format!(
            "link set lo up
             address add {client_v4}/30 dev client
             address add {client_v6}/64 dev client nodad
             link set client up
             route add default via {world_v4}
             route add default via {world_v6}"
        ));
        let listen = |name_server| Order::Listen { plain: PLAIN.into(), secure: SECURE.into(), name_server };
        let authority = world.tell(&listen(Some(name_server)));
        let _: String = client.tell(&listen(None));
        Some(Self { client, world, authority })
    }

    /// The certificate, in PEM form, that everybody in the world can show to be known by.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sets the stage and forgets what was seen.
    pub fn stage(&mut self, stage: Stage) {
        let () = self.client.tell(&Order::Stage(Stage::default()));
        let () = self.world.tell(&Order::Stage(stage));
    }

    /// Opens a connection from the client to each of these, with nobody in between, and says what went wrong.
    pub fn connect(&mut self, targets: &[SocketAddr]) -> Vec<Option<String>> {
        self.client.tell(&Order::Connect(targets.into()))
    }

    /// The same command, on the client.
    pub fn on_client(&self, command: &Command) -> Command {
        let mut entered = enter(&self.client.child, self.client.powers);
        entered.args(["--net", "--"]).arg(command.get_program()).args(command.get_args()).env_clear();
        entered.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        if let Some(dir) = command.get_current_dir() {
            entered.current_dir(dir);
        }
        entered
    }

    /// What happened since the stage was set.
    pub fn seen(&mut self) -> Seen {
        let deadline = Instant::now() + FLIGHT;
        loop {
            let world: Report = self.world.tell(&Order::Report);
            let client: Report = self.client.tell(&Order::Report);
            // What was opened may not have been taken yet; what was opened towards nobody never will be.
            let arrived = world.visits.len() + client.visits.len();
            if arrived >= client.opened || Instant::now() > deadline {
                let (world, questions) = (world.visits, world.questions);
                return Seen { world, client: client.visits, questions, opened: client.opened };
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An address and a port, from what both are written as.
pub fn at(address: &str, port: u16) -> SocketAddr {
    let address: IpAddr = address.parse().unwrap_or_else(|error| panic!("{address}: {error}"));
    SocketAddr::new(address, port)
}

/// What makes us the master of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Powers {
    /// A user namespace of our own.
    UserNamespace,
    /// We are root.
    Root,
}

fn make_world(outpost: &str) -> Result<(Outpost, Powers), String> {
    let with = |powers, flags: &[&str]| {
        let mut make = Command::new("unshare");
        make.args(flags).args(["--net", "--", outpost]);
        Outpost::start(make, powers).map(|world| (world, powers))
    };
    // Without a user namespace first: in one with a single id, no room can be made.
    with(Powers::Root, &[]).or_else(|why| {
        with(Powers::UserNamespace, &["--user", "--map-root-user"]).map_err(|and| format!("{why}; {and}"))
    })
}

/// A command that goes where a process is: into its user namespace only, unless more is asked for.
fn enter(process: &Child, powers: Powers) -> Command {
    let mut enter = Command::new("nsenter");
    enter.args(["--target", &process.id().to_string()]);
    if powers == Powers::UserNamespace {
        enter.args(["--user", "--preserve-credentials"]);
    }
    enter
}

/// The process that listens in one namespace. It ends when its orders end.
#[derive(Debug)]
struct Outpost {
    child: Child,
    powers: Powers,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Outpost {
    fn start(mut make: Command, powers: Powers) -> Result<Self, String> {
        make.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = make.spawn().map_err(|error| error.to_string())?;
        let orders = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, answers) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut outpost = Self { child, powers, orders, answers };
        // The first word says that the namespaces are there.
        match outpost.answers.recv_timeout(PATIENCE) {
            Ok(_) => Ok(outpost),
            Err(_) => Err(outpost.last_words()),
        }
    }

    /// Gives an order and waits for the answer.
    fn tell<T: DeserializeOwned>(&mut self, order: &Order) -> T {
        let order = serde_json::to_string(order).expect("an order is JSON");
        let given = writeln!(self.orders, "{order}");
        let answer = given.ok().and_then(|()| self.answers.recv_timeout(PATIENCE).ok());
        let Some(answer) = answer else { panic!("no answer to {order}: {}", self.last_words()) };
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{order}: {error}: {answer}"))
    }

    /// Makes interfaces and routes.
    fn ip(&self, commands: &str) {
        let mut ip = enter(&self.child, self.powers);
        ip.args(["--net", "--", "ip", "-batch", "-"]);
        Ran::fed(&mut ip, commands.as_bytes()).exits(0);
    }

    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut words = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut words);
        }
        words.trim().to_owned()
    }
}

impl Drop for Outpost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
