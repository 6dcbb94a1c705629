//! Listens in a network namespace, notes who comes and answers with what it was told to say.
//!
//! Orders come as lines on standard input, and each is answered by a line ([`toolgate_tests::network`]). It ends with
//! its orders.

#![expect(clippy::expect_used, reason = "only tests start this, and an outpost that breaks fails the test")]

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::{ServerConfig, ServerConnection, Stream, crypto::aws_lc_rs, pki_types::PrivateKeyDer, server::Acceptor};
use serde::Serialize;
use toolgate_tests::{
    dns::{self, SharedZone},
    network::{Order, Report, Robots, Stage, Visit},
};

/// How long a visitor may be silent, and a connection of our own be on its way.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest request.
const LONGEST: usize = 64 << 10;

fn main() -> io::Result<()> {
    let mut post = Post::default();
    say(&"ready")?;
    for line in io::stdin().lines() {
        match serde_json::from_str(&line?)? {
            Order::Listen { plain, secure, name_server } => say(&post.listen(&plain, &secure, name_server)?)?,
            Order::Stage(stage) => {
                post.set(stage)?;
                say(&())?;
            }
            Order::Connect(targets) => say(&targets.into_iter().map(connect).collect::<Vec<_>>())?,
            Order::Report => say(&post.report()?)?,
        }
    }
    Ok(())
}

fn say(answer: &impl Serialize) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(answer)?)
}

fn connect(target: SocketAddr) -> Option<String> {
    TcpStream::connect_timeout(&target, SILENCE).err().map(|error| error.to_string())
}

/// What this process knows.
#[derive(Default)]
struct Post {
    book: Arc<Mutex<Book>>,
    zone: SharedZone,
    /// What the kernel had counted when the stage was set.
    opened_before: usize,
}

/// Who came, and what they are told.
#[derive(Default)]
struct Book {
    stage: Stage,
    visits: Vec<Visit>,
    /// Redirects that were given out.
    redirected: usize,
    /// Grows with each stage, so that a visitor of an earlier one is not noted in this.
    act: usize,
}

impl Post {
    fn listen(&mut self, plain: &[u16], secure: &[u16], name_server: Option<SocketAddr>) -> io::Result<String> {
        let authority = Arc::new(Authority::new());
        for port in plain {
            self.take(*port, None)?;
        }
        for port in secure {
            self.take(*port, Some(authority.clone()))?;
        }
        if let Some(address) = name_server {
            let (socket, zone) = (UdpSocket::bind(address)?, self.zone.clone());
            thread::spawn(move || dns::serve(&socket, &zone));
        }
        Ok(authority.certificate.clone())
    }

    /// Takes connections at a port of every address.
    fn take(&self, port: u16, authority: Option<Arc<Authority>>) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
        let book = self.book.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(to) = stream.local_addr() else { continue };
                let to = SocketAddr::new(to.ip().to_canonical(), to.port());
                // Noted before anything is read: a visitor who says nothing has come too.
                let ticket = open(&book).enter(to);
                let (book, authority) = (book.clone(), authority.clone());
                thread::spawn(move || serve(stream, to, ticket, &book, authority.as_deref()));
            }
        });
        Ok(())
    }

    fn set(&mut self, stage: Stage) -> io::Result<()> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).set(stage.names.clone());
        let mut book = open(&self.book);
        *book = Book { stage, act: book.act + 1, ..Book::default() };
        self.opened_before = opened()?;
        Ok(())
    }

    fn report(&self) -> io::Result<Report> {
        let questions = self.zone.lock().unwrap_or_else(PoisonError::into_inner).asked().to_vec();
        Ok(Report { visits: open(&self.book).visits.clone(), questions, opened: opened()? - self.opened_before })
    }
}

/// A visitor's line in the book.
#[derive(Clone, Copy)]
struct Ticket {
    act: usize,
    line: usize,
}

impl Book {
    fn enter(&mut self, to: SocketAddr) -> Ticket {
        self.visits.push(Visit { to, requests: Vec::new() });
        Ticket { act: self.act, line: self.visits.len() - 1 }
    }

    /// Notes what a visitor asks for and says what is answered.
    fn ask(&mut self, ticket: Ticket, head: &str) -> String {
        if ticket.act == self.act
            && let Some(visit) = self.visits.get_mut(ticket.line)
        {
            visit.requests.push(head.to_owned());
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path == "/robots.txt" {
            return match &self.stage.robots {
                Robots::Missing => page("404 Not Found", "", "there are no rules here"),
                Robots::Rules(rules) => page("200 OK", "", rules),
                Robots::At(place) => elsewhere(302, place),
            };
        }
        let Some((status, target)) = self.stage.redirects.get(self.redirected) else {
            return page("200 OK", "", "the page");
        };
        self.redirected += 1;
        elsewhere(*status, target)
    }
}

fn elsewhere(status: u16, place: &str) -> String {
    page(&format!("{status} Elsewhere"), &format!("Location: {place}\r\n"), "elsewhere")
}

fn page(status: &str, headers: &str, text: &str) -> String {
    let length = text.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{headers}\r\n{text}")
}

fn open(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one visitor. One who goes away in the middle is no failure.
fn serve(mut stream: TcpStream, to: SocketAddr, ticket: Ticket, book: &Mutex<Book>, authority: Option<&Authority>) {
    let _ = stream.set_read_timeout(Some(SILENCE));
    let _ = stream.set_write_timeout(Some(SILENCE));
    let _ = match authority {
        None => talk(&mut stream, ticket, book),
        Some(authority) => authority.greet(&mut stream, to.ip()).and_then(|mut session| {
            talk(&mut Stream::new(&mut session, &mut stream), ticket, book)?;
            session.send_close_notify();
            session.complete_io(&mut stream).map(drop)
        }),
    };
}

/// Answers one request after the other until no more come.
fn talk(stream: &mut (impl Read + Write), ticket: Ticket, book: &Mutex<Book>) -> io::Result<()> {
    let mut unread = Vec::new();
    while let Some(head) = read_request(stream, &mut unread)? {
        let answer = open(book).ask(ticket, &head);
        stream.write_all(answer.as_bytes())?;
        stream.flush()?;
    }
    Ok(())
}

/// The head of the next request. Its body is read and dropped.
fn read_request(stream: &mut impl Read, unread: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = unread.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).into_owned();
            let whole = end + 4 + body_length(&head);
            if unread.len() >= whole {
                unread.drain(..whole);
                return Ok(Some(head));
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            _ if unread.len() > LONGEST => return Err(io::ErrorKind::FileTooLarge.into()),
            length => unread.extend(&piece[..length]),
        }
    }
}

fn body_length(head: &str) -> usize {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = headers.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, length)| length.trim().parse().ok()).unwrap_or(0)
}

/// Connections this namespace tried to open, by the kernel's count.
fn opened() -> io::Result<usize> {
    let table = std::fs::read_to_string("/proc/self/net/snmp")?;
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut counts = names.split(' ').zip(values.split(' '));
    let count = counts.find(|(name, _)| *name == "ActiveOpens").and_then(|(_, count)| count.parse().ok());
    count.ok_or_else(|| io::Error::other("the kernel counts no connections"))
}

/// Who vouches for everybody in the world, unless the first label of a name asks for something wrong: `expired`,
/// `misnamed` or `stranger`.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Greets a visitor with a certificate for the name it asks for and the address it called.
    fn greet(&self, stream: &mut TcpStream, called: IpAddr) -> io::Result<ServerConnection> {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if acceptor.read_tls(stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, _)) => return Err(io::Error::other(error)),
            }
        };
        let config = self.identity(accepted.client_hello().server_name(), called);
        accepted.into_connection(Arc::new(config)).map_err(|(error, _)| io::Error::other(error))
    }

    fn identity(&self, name: Option<&str>, called: IpAddr) -> ServerConfig {
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::IpAddress(called));
        params.subject_alt_names.extend(name.and_then(|name| Some(SanType::DnsName(name.try_into().ok()?))));
        let key = KeyPair::generate().expect("a key");
        let certificate = match name.unwrap_or_default().split('.').next() {
            Some("stranger") => params.self_signed(&key),
            Some("misnamed") => {
                params.subject_alt_names = vec![SanType::DnsName("somebody-else.example".try_into().expect("a name"))];
                params.signed_by(&key, &self.issuer)
            }
            Some("expired") => {
                params.not_after = date_time_ymd(2001, 1, 1);
                params.signed_by(&key, &self.issuer)
            }
            _ => params.signed_by(&key, &self.issuer),
        };
        let chain = vec![certificate.expect("a certificate").der().clone()];
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
            .expect("an identity")
    }
}
