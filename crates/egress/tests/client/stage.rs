//! What the tests are made of: servers, listeners nobody may visit, and a client that knows where names lead.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use toolgate_contract::{Fault, WebRequest, WebResponse};
use toolgate_egress::{Barred, Client, ClientTerms, HostName, Internal, PaceTerms, Resolver, Within};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server that answers every request with what a function makes of it. Connections stay open.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    visits: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", answer)
    }

    pub(crate) fn at(address: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heard);
        let serve = move |mut visitor: TcpStream| {
            while let Some(request) = read_request(&mut visitor) {
                noted.lock().unwrap().push(request.clone());
                if visitor.write_all(&answer(&request)).is_err() {
                    return;
                }
            }
        };
        Self { heard, ..Self::raw_at(address, serve) }
    }

    /// A server that does with each connection what a function does.
    pub(crate) fn raw(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::raw_at("127.0.0.1:0", serve)
    }

    fn raw_at(address: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&visits);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for visitor in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (serve, visitor) = (Arc::clone(&serve), visitor.unwrap());
                visitor.set_read_timeout(Some(PATIENCE)).unwrap();
                thread::spawn(move || serve(visitor));
            }
        });
        Self { address, visits, heard: Arc::default() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A URL of this server under that name.
    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port())
    }

    pub(crate) fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }

    /// What was asked, oldest first.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// The first lines of what was asked, oldest first.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.heard().iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
    }
}

/// The head of a request and its body, as text.
fn read_request(visitor: &mut TcpStream) -> Option<String> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&said).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(str::parse);
            if body.len() >= length.map_or(0, Result::unwrap) {
                return Some(text);
            }
        }
        match visitor.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(length) => said.extend(&buffer[..length]),
        }
    }
}

/// An answer with this status, these headers and this body.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut reply = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        reply.push_str(&format!("{name}: {value}\r\n"));
    }
    reply.push_str("\r\n");
    [reply.as_bytes(), body].concat()
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    reply(200, &[], body.as_bytes())
}

pub(crate) fn redirect(status: u16, place: &str) -> Vec<u8> {
    reply(status, &[("location", place)], b"moved")
}

/// The path that is asked for.
pub(crate) fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap()
}

/// A listener that takes nobody in, and counts who comes.
pub(crate) struct Shut(TcpListener);

impl Shut {
    pub(crate) fn new() -> Self {
        Self::at((HOME, 0).into())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// A connection that was made waits here, whether or not anybody takes it in.
    #[track_caller]
    pub(crate) fn was_not_visited(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// Terms for a client to whom these hosts may be internal and to whom every name leads home.
pub(crate) fn terms(internal: &[&str]) -> ClientTerms {
    ClientTerms {
        resolver: leading(|_| vec![HOME]),
        internal: Internal::parse(&internal.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap(),
        barred: Barred::default(),
        extra_roots: Vec::new(),
        user_agent: "Toolgate/1.0".into(),
        pace: PaceTerms { per_minute: 60_000, at_once: 1_000, wait: Duration::ZERO },
    }
}

pub(crate) fn leading(to: impl Fn(&HostName) -> Vec<IpAddr> + Send + Sync + 'static) -> Resolver {
    Resolver::Given(Arc::new(move |name| Ok(to(name))))
}

pub(crate) fn client(internal: &[&str]) -> Client {
    Client::new(terms(internal)).unwrap()
}

/// A plain look at a page, by somebody who may reach everybody.
pub(crate) async fn get(client: &Client, url: &str) -> Result<WebResponse, Fault> {
    client.send(&WebRequest::get(url), &Within::Public, &[]).await
}

#[track_caller]
pub(crate) fn text(answer: Result<WebResponse, Fault>) -> String {
    String::from_utf8(answer.unwrap().body).unwrap()
}

/// The code of what went wrong.
#[track_caller]
pub(crate) fn code(answer: Result<WebResponse, Fault>) -> String {
    answer.unwrap_err().code.into_owned()
}
