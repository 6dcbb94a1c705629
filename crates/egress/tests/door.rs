//! A door, tried from both sides: programs that want out, and servers that must not hear from them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::HashSet,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use toolgate_egress::{
    Barred, Door, Event, HostName, Internal, Limits, Openings, Reason, Resolver, Rules, Terms, Ways, self_probe,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A room's side of a door.
struct Room {
    door: Option<Door>,
    tcp: SocketAddr,
    dns: SocketAddr,
    dns_tcp: SocketAddr,
    connect: SocketAddr,
    meant: Arc<Mutex<SocketAddr>>,
    events: mpsc::Receiver<Event>,
}

/// Every name leads to the canaries.
fn to_canaries(_: &HostName) -> io::Result<Vec<IpAddr>> {
    Ok(vec![Ipv4Addr::LOCALHOST.into()])
}

impl Room {
    fn open(rules: &[String]) -> Self {
        Self::with(rules, Limits::default(), to_canaries)
    }

    fn with(
        rules: &[String],
        limits: Limits,
        answers: impl Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), rules, limits, answers)
    }

    fn at(
        tcp: TcpListener,
        rules: &[String],
        limits: Limits,
        answers: impl Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self::serving(tcp, rules, &[], limits, Resolver::Given(Arc::new(answers)))
    }

    /// A room to whom these hosts may be internal.
    fn to_internal(rules: &[String], internal: &[&str], resolver: Resolver) -> Self {
        Self::serving(TcpListener::bind("127.0.0.1:0").unwrap(), rules, internal, Limits::default(), resolver)
    }

    fn serving(tcp: TcpListener, rules: &[String], internal: &[&str], limits: Limits, resolver: Resolver) -> Self {
        Self::barring(tcp, rules, internal, &[], limits, resolver)
    }

    /// A room to whom these hosts are out of reach.
    fn barring(
        tcp: TcpListener,
        rules: &[String],
        internal: &[&str],
        barred: &[&str],
        limits: Limits,
        resolver: Resolver,
    ) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let dns_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let openings = Openings { tcp, dns_udp, dns_tcp: listen(), connect: listen() };
        let tcp = openings.tcp.local_addr().unwrap();
        let dns = openings.dns_udp.local_addr().unwrap();
        let dns_tcp = openings.dns_tcp.local_addr().unwrap();
        let connect = openings.connect.local_addr().unwrap();
        let meant = Arc::new(Mutex::new(tcp));
        let (tell, events) = mpsc::channel();
        let tell = Mutex::new(tell);
        let told_meant = Arc::clone(&meant);
        let terms = Terms {
            rules: Rules::parse(rules).unwrap(),
            internal: Internal::parse(&internal.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap(),
            barred: Barred::parse(&barred.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap(),
            resolver,
            limits,
            original: Arc::new(move |_| Ok(*told_meant.lock().unwrap())),
            events: Arc::new(move |event| drop(tell.lock().unwrap().send(event))),
        };
        let door = Some(Door::open(openings, terms).unwrap());
        Self { door, tcp, dns, dns_tcp, connect, meant, events }
    }

    /// Asks for the address of a name, over UDP.
    fn look_up(&self, name: &str) -> Option<Ipv4Addr> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&question(name), self.dns).unwrap();
        let mut reply = [0; 512];
        let length = socket.recv(&mut reply).unwrap();
        address_in(&reply[..length])
    }

    /// Connects as a program would that was redirected on its way to `address`.
    fn try_dial(&self, address: impl Into<IpAddr>, port: u16) -> io::Result<TcpStream> {
        *self.meant.lock().unwrap() = (address.into(), port).into();
        try_connect(self.tcp)
    }

    fn dial(&self, address: impl Into<IpAddr>, port: u16) -> TcpStream {
        self.try_dial(address, port).unwrap()
    }

    fn dial_name(&self, name: &str, port: u16) -> TcpStream {
        let address = self.look_up(name).expect("the name is allowed");
        self.dial(address, port)
    }

    /// A reset may come before this end has seen that the connection was made.
    #[track_caller]
    fn is_refused_at_once(&self, address: impl Into<IpAddr>, port: u16, host: &str, reason: Reason) {
        match self.try_dial(address, port) {
            Ok(client) => return self.is_refused(client, host, port, reason),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        self.told_refused(host, port, reason);
    }

    fn ask_connect(&self, request: &[u8]) -> TcpStream {
        let mut client = connect_to(self.connect);
        client.write_all(request).unwrap();
        client
    }

    #[track_caller]
    fn next_event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    #[track_caller]
    fn is_refused(&self, mut client: TcpStream, host: &str, port: u16, reason: Reason) {
        is_reset(&mut client);
        self.told_refused(host, port, reason);
    }

    #[track_caller]
    fn told_refused(&self, host: &str, port: u16, reason: Reason) {
        match self.next_event() {
            Event::Refused { host: told, port: at, reason: why, .. } => {
                assert_eq!((told.as_str(), at, why), (host, Some(port), reason));
            }
            event => panic!("{event:?}"),
        }
    }
}

fn try_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn connect_to(address: SocketAddr) -> TcpStream {
    try_connect(address).unwrap()
}

#[track_caller]
fn is_reset(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

fn question(name: &str) -> Vec<u8> {
    let mut message = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

fn address_in(reply: &[u8]) -> Option<Ipv4Addr> {
    assert_eq!(reply[..2], [1, 2]);
    (reply[7] == 1).then(|| Ipv4Addr::from(*reply.last_chunk::<4>().unwrap()))
}

/// A server outside that says back what it hears.
struct Canary {
    port: u16,
    visits: Arc<AtomicUsize>,
    heard: Arc<AtomicUsize>,
}

impl Canary {
    fn new() -> Self {
        Self::greeting(b"")
    }

    /// One that speaks first.
    fn greeting(greeting: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (visits, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let canary = Self { port, visits: Arc::clone(&visits), heard: Arc::clone(&heard) };
        thread::spawn(move || {
            for visitor in listener.incoming() {
                visits.fetch_add(1, Ordering::SeqCst);
                let heard = Arc::clone(&heard);
                thread::spawn(move || serve(visitor.unwrap(), greeting, &heard));
            }
        });
        canary
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    /// A rule for `name` at this server, and the one that lets it be at an address that is not public.
    fn rules(&self, name: &str) -> Vec<String> {
        vec![format!("{name}:{}", self.port), format!("127.0.0.1:{}", self.port)]
    }
}

fn serve(mut visitor: TcpStream, greeting: &[u8], heard: &AtomicUsize) {
    let _ = visitor.write_all(greeting);
    let mut buffer = [0; 16 * 1024];
    while let Ok(length) = visitor.read(&mut buffer) {
        heard.fetch_add(length, Ordering::SeqCst);
        if length == 0 || visitor.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

#[track_caller]
fn echoes(client: &mut TcpStream, words: &[u8]) {
    client.write_all(words).unwrap();
    let mut heard = vec![0; words.len()];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(heard, words);
}

/// The least of a TLS client hello, written down by hand.
fn client_hello(server: &str) -> Vec<u8> {
    let name = server.len() as u16;
    let mut hello = vec![0x16, 3, 1];
    hello.extend((4 + 43 + 9 + name).to_be_bytes());
    hello.extend([1, 0]);
    hello.extend((43 + 9 + name).to_be_bytes());
    hello.extend([3, 3]);
    hello.extend([9; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend((9 + name).to_be_bytes());
    hello.extend([0, 0]);
    hello.extend((5 + name).to_be_bytes());
    hello.extend((3 + name).to_be_bytes());
    hello.push(0);
    hello.extend(name.to_be_bytes());
    hello.extend(server.as_bytes());
    hello
}

#[test]
fn an_allowed_name_is_dialled_and_the_bytes_are_counted() {
    let canary = Canary::new();
    let room = Room::open(&canary.rules("allowed.test"));
    let mut client = room.dial_name("Allowed.TEST", canary.port);
    echoes(&mut client, b"hello out there\n");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let (host, port, address) = ("allowed.test".to_owned(), canary.port, (Ipv4Addr::LOCALHOST, canary.port).into());
    assert_eq!(room.next_event(), Event::Opened { host: host.clone(), port, address });
    assert_eq!(room.next_event(), Event::Closed { host, port, address, sent: 16, received: 16 });
}

#[test]
fn many_bytes_pass_unchanged_in_both_directions() {
    let canary = Canary::new();
    let room = Room::open(&canary.rules("allowed.test"));
    let client = room.dial_name("allowed.test", canary.port);
    let many: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut writes = client.try_clone().unwrap();
    let sent = many.clone();
    let writer = thread::spawn(move || {
        writes.write_all(&sent).unwrap();
        writes.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    (&client).read_to_end(&mut heard).unwrap();
    writer.join().unwrap();
    assert!(heard == many);
}

#[test]
fn a_client_that_has_said_all_still_hears_the_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let room = Room::open(&[format!("allowed.test:{port}"), format!("127.0.0.1:{port}")]);
    let mut client = room.dial_name("allowed.test", port);
    client.write_all(b"all\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    server.write_all(b"late answer").unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!((heard.as_str(), answer.as_str()), ("all\n", "late answer"));
}

#[test]
fn what_no_rule_names_is_reset_and_nobody_is_dialled() {
    let (canary, other) = (Canary::new(), Canary::new());
    let room = Room::open(&canary.rules("allowed.test"));
    let allowed = room.look_up("allowed.test").unwrap();
    room.is_refused_at_once(allowed, other.port, "allowed.test", Reason::NotAllowed);
    for address in ["93.184.216.34", "169.254.169.254", "198.18.77.7", "127.0.0.2", "2606:4700:4700::1111"] {
        let address: IpAddr = address.parse().unwrap();
        room.is_refused_at_once(address, canary.port, &address.to_string(), Reason::NotAllowed);
    }
    assert_eq!((canary.visits(), other.visits()), (0, 0));
}

#[test]
fn an_address_is_reached_by_itself_only_where_it_is_listed() {
    let (listed, named) = (Canary::new(), Canary::new());
    let mut rules = vec![format!("127.0.0.1:{}", listed.port), format!("allowed.test:{}", named.port)];
    let room = Room::open(&rules);
    echoes(&mut room.dial(Ipv4Addr::LOCALHOST, listed.port), b"by address");
    // Whoever lists an address says nothing about names.
    echoes(&mut room.dial(Ipv4Addr::LOCALHOST, listed.port), &client_hello("any.test"));
    drop(room);
    rules.remove(0);
    let room = Room::open(&rules);
    room.is_refused_at_once(Ipv4Addr::LOCALHOST, named.port, "127.0.0.1", Reason::NotAllowed);
    assert_eq!(named.visits(), 0);
}

#[test]
fn who_dials_the_listener_itself_means_nobody_also_where_its_address_is_listed() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = tcp.local_addr().unwrap();
    let room = Room::at(tcp, &[own.to_string()], Limits::default(), to_canaries);
    room.is_refused_at_once(own.ip(), own.port(), "127.0.0.1", Reason::NotAllowed);
}

#[test]
fn a_tls_client_asks_for_the_host_it_connected_to_or_is_reset() {
    let canary = Canary::new();
    let room = Room::open(&canary.rules("allowed.test"));
    let mut client = room.dial_name("allowed.test", canary.port);
    echoes(&mut client, &client_hello("allowed.test"));
    let visits = canary.visits();
    drop(client);
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert!(matches!(room.next_event(), Event::Closed { .. }));

    for server in ["evil.test", "allowed.test.evil.test", "allowed.test\0.evil.test", "127.0.0.1", ""] {
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(&client_hello(server)).unwrap();
        room.is_refused(client, "allowed.test", canary.port, Reason::SniMismatch);
    }
    let mut client = room.dial_name("allowed.test", canary.port);
    client.write_all(&[0x16, 3, 1, 0, 5, 2, 0, 0, 1, 0]).unwrap();
    room.is_refused(client, "allowed.test", canary.port, Reason::Unreadable);
    assert_eq!(canary.visits(), visits, "nobody was dialled for them");
}

#[test]
fn a_hello_that_comes_late_or_in_pieces_is_read_all_the_same() {
    let canary = Canary::greeting(b"you first\n");
    let room = Room::open(&canary.rules("allowed.test"));
    let mut client = room.dial_name("allowed.test", canary.port);
    // Once the greeting is here, the server was dialled for a client that was silent.
    client.read_exact(&mut [0; 10]).unwrap();
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    let hello = client_hello("evil.test");
    let (first, rest) = hello.split_at(7);
    client.write_all(first).unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(rest).unwrap();
    is_reset(&mut client);
    assert!(matches!(room.next_event(), Event::Closed { sent: 0, received: 10, .. }));
    assert!(matches!(room.next_event(), Event::Refused { reason: Reason::SniMismatch, .. }));
    assert_eq!(canary.heard(), 0, "not one byte of it was passed on");
}

#[test]
fn an_http_client_names_the_host_it_connected_to_or_is_reset() {
    let canary = Canary::new();
    let room = Room::open(&canary.rules("allowed.test"));
    let mut client = room.dial_name("allowed.test", canary.port);
    echoes(&mut client, format!("GET / HTTP/1.1\r\nHost: allowed.test:{}\r\n\r\n", canary.port).as_bytes());
    let visits = canary.visits();
    drop(client);
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert!(matches!(room.next_event(), Event::Closed { .. }));

    for (request, reason) in [
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", Reason::HostMismatch),
        ("GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", Reason::HostMismatch),
        ("CONNECT evil.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\n\r\n", Reason::Unreadable),
        ("GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n", Reason::Unreadable),
    ] {
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(request.as_bytes()).unwrap();
        room.is_refused(client, "allowed.test", canary.port, reason);
    }
    assert_eq!(canary.visits(), visits);
}

#[test]
fn first_words_that_do_not_end_are_not_waited_for() {
    let canary = Canary::new();
    let limits = Limits { first_words: Duration::from_millis(50), ..Limits::default() };
    let room = Room::with(&canary.rules("allowed.test"), limits, to_canaries);
    for words in [&client_hello("evil.test")[..20], b"GET / HTTP/1.1\r\nHost: evil"] {
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(words).unwrap();
        room.is_refused(client, "allowed.test", canary.port, Reason::TooSlow);
    }
    let mut client = room.dial_name("allowed.test", canary.port);
    // Reset while it still talks, so that writing may fail too.
    let _ = client.write_all(format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000)).as_bytes());
    room.is_refused(client, "allowed.test", canary.port, Reason::Unreadable);
    assert_eq!(canary.visits(), 0);
}

#[test]
fn a_server_that_speaks_first_is_heard_by_a_silent_client() {
    let canary = Canary::greeting(b"220 ready\r\n");
    let room = Room::open(&canary.rules("allowed.test"));
    let mut client = room.dial_name("allowed.test", canary.port);
    let mut greeting = [0; 11];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    echoes(&mut client, b"EHLO room\r\n");
}

#[test]
fn a_name_that_leads_where_it_must_not_is_refused_with_the_address() {
    let canary = Canary::new();
    let rule = [format!("allowed.test:{}", canary.port)];
    for (found, reason) in [
        (vec!["127.0.0.1"], Reason::PrivateAddress),
        (vec!["93.184.216.34", "127.0.0.1"], Reason::PrivateAddress),
        (vec!["::ffff:127.0.0.1"], Reason::PrivateAddress),
        (vec!["64:ff9b::7f00:1"], Reason::PrivateAddress),
        (vec!["169.254.169.254"], Reason::PrivateAddress),
    ] {
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
        let bad = found.last().unwrap().to_canonical();
        let room = Room::with(&rule, Limits::default(), move |_| Ok(found.clone()));
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(b"hello\n").unwrap();
        is_reset(&mut client);
        let (host, port) = ("allowed.test".to_owned(), Some(canary.port));
        assert_eq!(room.next_event(), Event::Refused { host, port, reason, address: Some(bad) });
    }
    assert_eq!(canary.visits(), 0);
}

#[test]
fn an_internal_host_is_reached_where_the_rules_name_it() {
    let canary = Canary::new();
    let rules = [format!("allowed.test:{}", canary.port)];
    let home = || Resolver::Given(Arc::new(to_canaries));
    let room = Room::to_internal(&rules, &["allowed.test"], home());
    echoes(&mut room.dial_name("allowed.test", canary.port), b"inside\n");
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert_eq!(room.look_up("other.test"), None, "whom no rule names is not reached by being internal");
    for other in ["other.test", "allowed.test:1", "*.allowed.test", "10.0.0.0/8"] {
        let room = Room::to_internal(&rules, &[other], home());
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(b"hello\n").unwrap();
        room.is_refused(client, "allowed.test", canary.port, Reason::PrivateAddress);
    }
    let metadata = Resolver::Given(Arc::new(|_| Ok(vec!["169.254.169.254".parse().unwrap()])));
    let room = Room::to_internal(&rules, &["allowed.test"], metadata);
    let mut client = room.dial_name("allowed.test", canary.port);
    client.write_all(b"hello\n").unwrap();
    room.is_refused(client, "allowed.test", canary.port, Reason::PrivateAddress);
}

#[test]
fn whom_a_rule_bars_is_not_reached_by_name_or_by_the_address_a_name_leads_to() {
    let canary = Canary::new();
    let rules = [format!("allowed.test:{}", canary.port)];
    for barred in ["allowed.test", "127.0.0.0/8", &format!("127.0.0.1:{}", canary.port)] {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = Resolver::Given(Arc::new(to_canaries));
        let room = Room::barring(tcp, &rules, &["allowed.test"], &[barred], Limits::default(), home);
        let mut client = room.dial_name("allowed.test", canary.port);
        client.write_all(b"hello\n").unwrap();
        room.is_refused(client, "allowed.test", canary.port, Reason::Barred);
    }
    assert_eq!(canary.visits(), 0);
}

#[test]
fn where_addresses_are_pinned_nobody_is_looked_up() {
    let canary = Canary::new();
    let rules = [format!("allowed.test:{}", canary.port), format!("localhost:{}", canary.port)];
    let found = [("allowed.test".to_owned(), vec![Ipv4Addr::LOCALHOST.into()])].into();
    let room = Room::to_internal(&rules, &["allowed.test", "localhost"], Resolver::pinned(&found).unwrap());
    let mut pinned = room.dial_name("allowed.test", canary.port);
    echoes(&mut pinned, b"pinned\n");
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    // The machine knows who that is. The room is not told.
    let mut client = room.dial_name("localhost", canary.port);
    client.write_all(b"hello\n").unwrap();
    room.is_refused(client, "localhost", canary.port, Reason::ResolveFailed);
    assert_eq!(canary.visits(), 1);
}

#[test]
fn a_name_is_looked_up_for_every_connection_and_judged_every_time() {
    let canary = Canary::new();
    let asked = AtomicUsize::new(0);
    let room = Room::with(&canary.rules("allowed.test"), Limits::default(), move |_| {
        let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![if is_first { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(127, 0, 0, 2) }.into()])
    });
    let mut client = room.dial_name("allowed.test", canary.port);
    echoes(&mut client, b"first\n");
    drop(client);
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert!(matches!(room.next_event(), Event::Closed { .. }));
    let mut client = room.dial_name("allowed.test", canary.port);
    client.write_all(b"second\n").unwrap();
    room.is_refused(client, "allowed.test", canary.port, Reason::PrivateAddress);
    assert_eq!(canary.visits(), 1);
}

#[test]
fn asking_for_a_name_asks_nobody() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let room = Room::with(&["*.wild.test:443".into()], Limits::default(), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    });
    assert_eq!(room.look_up("c2VjcmV0.evil.test"), None);
    assert_eq!(room.look_up("wild.test"), None);
    assert_eq!(room.look_up("c2VjcmV0.wild.test"), Some(Ipv4Addr::new(198, 18, 0, 1)));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let told: HashSet<String> = [room.next_event(), room.next_event()]
        .into_iter()
        .map(|event| match event {
            Event::Refused { host, port: None, reason: Reason::NotAllowed, address: None } => host,
            event => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(told, HashSet::from(["c2vjcmv0.evil.test".to_owned(), "wild.test".to_owned()]));
    let client = room.dial_name("c2VjcmV0.wild.test", 443);
    client.shutdown(Shutdown::Write).unwrap();
    room.is_refused(client, "c2vjcmv0.wild.test", 443, Reason::ResolveFailed);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn names_are_answered_over_tcp_too_and_a_bad_question_hurts_nobody() {
    let room = Room::open(&["allowed.test:443".into()]);
    let framed = |message: &[u8]| {
        let mut framed = (message.len() as u16).to_be_bytes().to_vec();
        framed.extend(message);
        framed
    };
    let mut client = connect_to(room.dns_tcp);
    for bad in [&b""[..], b"x", &[0xff; 40]] {
        client.write_all(&framed(bad)).unwrap();
    }
    client.write_all(&framed(&question("allowed.test"))).unwrap();
    let mut length = [0; 2];
    client.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(address_in(&reply), Some(Ipv4Addr::new(198, 18, 0, 1)));

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bad in [&b""[..], b"x", &[0; 12], &[0xff; 1400]] {
        socket.send_to(bad, room.dns).unwrap();
    }
    assert_eq!(room.look_up("allowed.test"), Some(Ipv4Addr::new(198, 18, 0, 1)));
}

#[test]
fn names_are_looked_up_a_few_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let limits = Limits { look_ups: 1, ..Limits::default() };
    let room = Room::with(&["allowed.test:443".into()], limits, move |_| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(Vec::new())
    });
    let mut clients: Vec<TcpStream> = (0..20).map(|_| room.dial_name("allowed.test", 443)).collect();
    for client in &mut clients {
        client.write_all(b"hello\n").unwrap();
    }
    for client in &mut clients {
        is_reset(client);
    }
    assert_eq!(highest.load(Ordering::SeqCst), 1);
}

#[test]
fn a_few_may_ask_for_names_over_tcp_at_the_same_time() {
    let room = Room::open(&["allowed.test:443".into()]);
    let ask = || -> io::Result<TcpStream> {
        let mut client = try_connect(room.dns_tcp)?;
        let message = question("allowed.test");
        client.write_all(&(message.len() as u16).to_be_bytes())?;
        client.write_all(&message)?;
        client.read_exact(&mut [0; 48])?;
        Ok(client)
    };
    let mut asking: Vec<TcpStream> = (0..8).map(|_| ask().unwrap()).collect();
    assert!(ask().is_err());
    assert_eq!(room.look_up("allowed.test"), Some(Ipv4Addr::new(198, 18, 0, 1)));
    asking.pop();
    while ask().is_err() {}
}

#[test]
fn where_nobody_answers_the_client_is_told_at_once() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let room = Room::open(&[format!("allowed.test:{port}"), format!("127.0.0.1:{port}")]);
    let mut client = room.dial_name("allowed.test", port);
    client.write_all(b"hello\n").unwrap();
    room.is_refused(client, "allowed.test", port, Reason::DialFailed);
}

#[test]
fn the_next_address_is_dialled_where_the_first_does_not_answer() {
    let canary = Canary::new();
    let mut rules = canary.rules("allowed.test");
    rules.push(format!("127.0.0.3:{}", canary.port));
    let room = Room::with(&rules, Limits::default(), |_| {
        Ok(vec![Ipv4Addr::new(127, 0, 0, 3).into(), Ipv4Addr::LOCALHOST.into()])
    });
    echoes(&mut room.dial_name("allowed.test", canary.port), b"second\n");
}

#[test]
fn a_room_has_so_many_connections_and_no_more() {
    let canary = Canary::new();
    let limits = Limits { connections: 2, ..Limits::default() };
    let room = Room::with(&canary.rules("allowed.test"), limits, to_canaries);
    let mut open: Vec<TcpStream> = (0..2).map(|_| room.dial_name("allowed.test", canary.port)).collect();
    for client in &mut open {
        echoes(client, b"in\n");
        assert!(matches!(room.next_event(), Event::Opened { .. }));
    }
    let allowed = room.look_up("allowed.test").unwrap();
    room.is_refused_at_once(allowed, canary.port, "allowed.test", Reason::TooMany);
    let mut proxied = room.ask_connect(format!("CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", canary.port).as_bytes());
    let mut said = String::new();
    proxied.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    assert!(matches!(room.next_event(), Event::Refused { reason: Reason::TooMany, .. }));
    drop(open.pop());
    assert!(matches!(room.next_event(), Event::Closed { .. }));
    echoes(&mut room.dial_name("allowed.test", canary.port), b"in again\n");
}

#[test]
fn two_hundred_at_once_are_served_or_told_and_the_door_stays_open() {
    let canary = Canary::new();
    let limits = Limits { connects_per_second: 10_000, ..Limits::default() };
    let room = Room::with(&canary.rules("allowed.test"), limits, to_canaries);
    let address = room.look_up("allowed.test").unwrap();
    *room.meant.lock().unwrap() = (address, canary.port).into();
    let clients: Vec<_> = (0..200)
        .map(|_| {
            let door = room.tcp;
            thread::spawn(move || {
                let mut heard = [0; 3];
                let said = try_connect(door).and_then(|mut client| {
                    client.write_all(b"hi\n")?;
                    client.read_exact(&mut heard)
                });
                assert!(said.is_err() || &heard == b"hi\n");
                said.is_ok()
            })
        })
        .collect();
    let served = clients.into_iter().map(|client| client.join().unwrap()).filter(|served| *served).count();
    assert!(served >= 64, "{served}");
    let opened = room.events.try_iter().filter(|event| matches!(event, Event::Opened { .. })).count();
    assert!(opened >= served);
    echoes(&mut room.dial_name("allowed.test", canary.port), b"still here\n");
}

#[test]
fn a_connection_nobody_uses_ends() {
    let canary = Canary::new();
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let room = Room::with(&canary.rules("allowed.test"), limits, to_canaries);
    let mut client = room.dial_name("allowed.test", canary.port);
    echoes(&mut client, b"used\n");
    is_reset(&mut client);
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert!(matches!(room.next_event(), Event::Closed { sent: 5, received: 5, .. }));
}

#[test]
fn a_door_that_is_dropped_takes_its_connections_with_it_and_nobody_in() {
    let canary = Canary::new();
    for _ in 0..50 {
        let mut room = Room::open(&canary.rules("allowed.test"));
        let mut client = room.dial_name("allowed.test", canary.port);
        echoes(&mut client, b"open\n");
        room.door = None;
        for closed in [room.tcp, room.dns_tcp, room.connect] {
            let refused = TcpStream::connect(closed).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
        }
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
}

#[test]
fn a_proxy_client_is_let_through_like_any_other() {
    let canary = Canary::new();
    let room = Room::open(&canary.rules("allowed.test"));
    let head = format!("CONNECT ALLOWED.test.:{} HTTP/1.1\r\nHost: whatever\r\n\r\n", canary.port);
    let mut client = room.ask_connect(format!("{head}early\n").as_bytes());
    let mut said = [0; 45];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 200 Connection established\r\n\r\nearly\n");
    echoes(&mut client, b"later\n");
    drop(client);
    assert!(matches!(room.next_event(), Event::Opened { host, .. } if host == "allowed.test"));
    assert!(matches!(room.next_event(), Event::Closed { sent: 12, received: 12, .. }));

    // The name in the request is not the last word.
    let mut client = room.ask_connect(head.as_bytes());
    client.read_exact(&mut [0; 39]).unwrap();
    client.write_all(&client_hello("evil.test")).unwrap();
    is_reset(&mut client);
    assert!(matches!(room.next_event(), Event::Opened { .. }));
    assert!(matches!(room.next_event(), Event::Closed { sent: 0, .. }));
    assert!(matches!(room.next_event(), Event::Refused { reason: Reason::SniMismatch, .. }));
}

#[test]
fn a_proxy_client_is_refused_with_a_reason_and_nobody_is_dialled() {
    let canary = Canary::new();
    let port = canary.port;
    let room = Room::open(&[format!("allowed.test:{port}"), "*.wild.test:443".into()]);
    for (authority, status, code) in [
        (format!("evil.test:{port}"), "403", "not_allowed"),
        (format!("evilallowed.test:{port}"), "403", "not_allowed"),
        (format!("allowed.test.evil.test:{port}"), "403", "not_allowed"),
        ("allowed.test:1".into(), "403", "not_allowed"),
        ("wild.test:443".into(), "403", "not_allowed"),
        (format!("127.0.0.1:{port}"), "403", "not_allowed"),
        (format!("allowed.test:{port}"), "403", "private_address"),
        ("allowed.test".into(), "400", "bad_request"),
        (format!("[::1]:{port}"), "400", "bad_request"),
        (format!("0x7f000001:{port}"), "400", "bad_request"),
        (format!("2130706433:{port}"), "400", "bad_request"),
        (format!("127.1:{port}"), "400", "bad_request"),
        (format!("evil.test\0.allowed.test:{port}"), "400", "bad_request"),
        (format!("evil.test\r\nX: allowed.test:{port}"), "400", "bad_request"),
        (format!("allowed.test%00.evil.test:{port}"), "400", "bad_request"),
        (format!("evil.test@allowed.test:{port}"), "400", "bad_request"),
        (format!("{}.allowed.test:{port}", "a".repeat(300)), "400", "bad_request"),
    ] {
        let mut client = room.ask_connect(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes());
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{authority:?}: {said}");
        assert!(said.contains(&format!("\r\n\r\n{code}: ")), "{authority:?}: {said}");
        match room.next_event() {
            Event::Refused { reason, .. } => assert_eq!(reason.as_str(), code),
            event => panic!("{event:?}"),
        }
    }
    let mut client = room.ask_connect(b"GET http://allowed.test/ HTTP/1.1\r\n\r\n");
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
    assert_eq!(canary.visits(), 0);
}

#[test]
fn a_proxy_client_that_takes_forever_is_not_waited_for() {
    let limits = Limits { request: Duration::from_millis(50), ..Limits::default() };
    let room = Room::with(&["allowed.test:443".into()], limits, to_canaries);
    let mut client = room.ask_connect(b"CONNECT allowed.test:443 HTTP/1.1\r\nX: ");
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(matches!(room.next_event(), Event::Refused { reason: Reason::TooSlow, .. }));
}

#[test]
fn a_proxy_client_that_leaves_in_the_middle_is_let_go() {
    let room = Room::open(&["allowed.test:443".into()]);
    let mut client = room.ask_connect(b"CONNECT allowed.test:443 HTTP/1.1\r\nX: ");
    client.shutdown(Shutdown::Write).unwrap();
    is_reset(&mut client);
}

fn ways(room: &Room) -> Ways {
    Ways { tcp: room.tcp, dns: Some(room.dns), connect: room.connect }
}

#[test]
fn the_probe_that_must_fail_fails_and_is_not_told() {
    let room = Room::open(&["allowed.test:443".into()]);
    *room.meant.lock().unwrap() = Ways::caught(room.connect).tcp;
    self_probe(ways(&room), PATIENCE).unwrap();
    room.look_up("evil.test");
    assert!(matches!(room.next_event(), Event::Refused { host, .. } if host == "evil.test"));
}

#[test]
fn the_probe_finds_a_door_that_lets_everybody_through() {
    let room = Room::open(&["allowed.test:443".into(), "toolgate-probe.invalid:443".into()]);
    *room.meant.lock().unwrap() = Ways::caught(room.connect).tcp;
    let canary = Canary::greeting(b"HTTP/1.1 200 come in\r\n");
    let everybody = SocketAddr::from((Ipv4Addr::LOCALHOST, canary.port));
    let error = self_probe(Ways { tcp: everybody, ..ways(&room) }, PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "a connection that is not allowed was not reset");
    let error = self_probe(ways(&room), PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "a name that is not allowed was not denied");
    drop(room);
    let room = Room::open(&["allowed.test:443".into()]);
    *room.meant.lock().unwrap() = Ways::caught(room.connect).tcp;
    let error = self_probe(Ways { connect: everybody, ..ways(&room) }, PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "a host that is not allowed was not refused");
}

#[test]
fn the_probe_finds_a_door_that_nobody_serves() {
    let room = Room::open(&["allowed.test:443".into()]);
    *room.meant.lock().unwrap() = Ways::caught(room.connect).tcp;
    let soon = Duration::from_millis(50);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = deaf.local_addr().unwrap();
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mute = mute.local_addr().unwrap();
    for ways in [
        Ways { tcp: silent, ..ways(&room) },
        Ways { tcp: deaf, ..ways(&room) },
        Ways { dns: Some(mute), ..ways(&room) },
        Ways { connect: deaf, ..ways(&room) },
    ] {
        assert!(self_probe(ways, soon).is_err());
    }
}
