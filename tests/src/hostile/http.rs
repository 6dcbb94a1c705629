//! A script over HTTP: a message is the body of a POST to `/mcp`.

use std::{
    fmt,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{Era, Last, Listener, Out, Page, Script, Stage};
use crate::http::{Reply, Request};

/// Where sessions of the old era are named. A server gives one name, which no other one knows.
const SESSION: &str = "mcp-session-id";
static SERVERS: AtomicUsize = AtomicUsize::new(0);

/// A server of a script on the loopback. It takes no more visitors when the value is gone.
pub struct Hostile {
    address: SocketAddr,
    stage: Arc<Stage>,
    closing: Arc<AtomicBool>,
}

impl Hostile {
    /// Serves a script at a free port.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), script.into()).expect("a port of the loopback")
    }

    /// Serves a script at this address.
    pub fn at(address: SocketAddr, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (stage, closing) = (Arc::new(Stage::new(script)), Arc::new(AtomicBool::new(false)));
        stage.state().session = format!("easily-guessed-{}", SERVERS.fetch_add(1, Ordering::Relaxed));
        let (hall, door) = (stage.clone(), closing.clone());
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if door.load(Ordering::Relaxed) {
                    return;
                }
                let hall = hall.clone();
                // A visitor who leaves early is no failure.
                thread::spawn(move || visit(&hall, stream));
            }
        });
        Ok(Self { address, stage, closing })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its messages go.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Every visit so far, in its order: `visit` (method and target), `headers`, and `message` where there was one.
    pub fn heard(&self) -> Vec<Value> {
        self.stage.state().heard.clone()
    }

    /// Tells everybody who listens that the list of tools is another.
    pub fn changed(&self) {
        self.stage.changed();
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // Whoever waits for a visitor gets one.
        let _ = TcpStream::connect(self.address);
        let mut state = self.stage.state();
        state.listeners.clear();
        state.asked.clear();
    }
}

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hostile").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Answers one visitor.
fn visit(stage: &Stage, mut stream: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&mut stream)? else { return Ok(()) };
    let message = if request.method == "POST" { request.json() } else { Value::Null };
    let visit = format!("{} {}", request.method, request.target());
    stage.note(json!({ "visit": visit, "headers": request.headers(), "message": message }));
    if let Some(page) = stage.script.pages.get(&request.path) {
        return reply(page).write(&mut stream, false);
    }
    if request.path != "/mcp" {
        return Reply::empty(404).write(&mut stream, false);
    }
    let name = stage.state().session.clone();
    let session = request.header(SESSION) == Some(&*name);
    match request.method.as_str() {
        // A stream that ended too early is taken up again: what then comes is the answer to the last request.
        "GET" if request.header("last-event-id").is_some() && stage.script.answers.contains_key("GET") => {
            let id = stage.state().last.clone();
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": "GET", "params": {} });
            stage.take(&message, Box::new(Visit::new(stream, true)));
            Ok(())
        }
        "GET" if session && stage.script.era != Era::Modern => {
            let mut out = Visit::new(stream, true);
            out.open(200, "text/event-stream", "")?;
            stage.state().listeners.push(Listener { out: Box::new(out), subscription: None });
            Ok(())
        }
        "GET" if request.header(SESSION).is_some() && stage.script.era != Era::Modern => {
            no_session(&request, &stage.script).write(&mut stream, false)
        }
        "DELETE" if session => Reply::empty(200).write(&mut stream, false),
        "POST" if message["method"].is_null() || message["id"].is_null() => {
            Reply::empty(202).write(&mut stream, false)?;
            stage.take(&message, Box::new(Nowhere));
            Ok(())
        }
        "POST" => {
            let modern = stage.script.era != Era::Legacy && message["params"]["_meta"][super::VERSION].is_string();
            if !modern && !session && message["method"] != "initialize" {
                return no_session(&request, &stage.script).write(&mut stream, false);
            }
            stage.state().last = message["id"].clone();
            let mut out = Visit::new(stream, stage.script.events);
            out.session = Some(name).filter(|_| !modern);
            stage.take(&message, Box::new(out));
            Ok(())
        }
        _ => Reply::empty(405).write(&mut stream, false),
    }
}

/// What a server of the old era says to who has no session of it: a client of the new one must read it.
fn no_session(request: &Request, script: &Script) -> Reply {
    let status = if request.header(SESSION).is_some() { script.unknown_session } else { 400 };
    let error = json!({ "code": -32000, "message": "there is no such session" });
    Reply::json(status, &json!({ "jsonrpc": "2.0", "id": null, "error": error }))
}

fn reply(page: &Page) -> Reply {
    let headers = page.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Reply { status: page.status, headers, body: page.body.clone().into_bytes() }
}

/// The answer to one visitor. It becomes a stream of events with the first message that is not the last.
struct Visit {
    stream: TcpStream,
    events: bool,
    /// The session it names.
    session: Option<String>,
    open: bool,
}

impl Visit {
    fn new(stream: TcpStream, events: bool) -> Self {
        Self { stream, events, session: None, open: false }
    }

    /// The head of an answer that ends with the connection.
    fn open(&mut self, status: u16, kind: &str, more: &str) -> io::Result<()> {
        if self.open {
            return Ok(());
        }
        self.open = true;
        let session = self.session.iter().map(|name| format!("{SESSION}: {name}\r\n")).collect::<String>();
        write!(self.stream, "HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\n{session}{more}Connection: close\r\n\r\n")?;
        self.stream.flush()
    }

    fn send(&mut self, message: &Value, last: Last) -> io::Result<()> {
        if !self.open && !self.events && last == Last::Yes {
            let body = message.to_string();
            let status = if message["error"]["code"] == -32022 { 400 } else { 200 };
            self.open(status, "application/json", &format!("Content-Length: {}\r\n", body.len()))?;
            return self.stream.write_all(body.as_bytes());
        }
        self.open(200, "text/event-stream", "")?;
        write!(self.stream, "event: message\ndata: {message}\n\n")?;
        self.stream.flush()
    }
}

impl Out for Visit {
    // A visitor who left hears nothing more, which is no failure.
    fn message(&mut self, message: &Value, last: Last) {
        let _ = self.send(message, last);
    }

    fn raw(&mut self, bytes: &[u8]) {
        let kind = if self.events { "text/event-stream" } else { "application/json" };
        let _ = self.open(200, kind, "").and_then(|()| self.stream.write_all(bytes)).and_then(|()| self.stream.flush());
    }

    fn page(&mut self, page: &Page) {
        let _ = reply(page).write(&mut self.stream, false);
        self.open = true;
    }

    fn crash(&mut self, _status: i32) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// For what nobody waits for an answer to.
struct Nowhere;

impl Out for Nowhere {
    fn message(&mut self, _message: &Value, _last: Last) {}
    fn raw(&mut self, _bytes: &[u8]) {}
    fn page(&mut self, _page: &Page) {}
    fn crash(&mut self, _status: i32) {}
}
