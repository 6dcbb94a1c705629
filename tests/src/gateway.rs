//! Toolgate with MCP over HTTP, for the official conformance suite, which can show no token and wants tools of its own choice.
//!
//! [`Gateway`] is a port of the loopback that adds the token, and the name of the server whose tools are meant. Everything
//! else is passed on as it is, above all what says where a request comes from, so that whatever looks for holes finds those
//! of Toolgate.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    Bench,
    http::Request,
    target,
    town::{Client, meta, wait_until},
};

/// The last revision with sessions.
const OLD: &str = "2025-11-25";

/// Headers that are about one connection and not about the request.
const OF_A_CONNECTION: [&str; 5] = ["connection", "keep-alive", "content-length", "transfer-encoding", "expect"];

/// What the server with the suite's tools is called, and what that makes of their names.
const SERVER: &str = "fixture";
const PREFIX: &str = "fixture__";

/// The binary with its console, and a token of the agent `default`. It ends with the value.
#[derive(Debug)]
pub struct Served {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl Served {
    /// Starts it at a free port, in the directories of this bench.
    pub fn start(bench: &Bench) -> Self {
        Self::with(bench, &[])
    }

    /// The same, told more.
    pub fn with(bench: &Bench, more: &[&str]) -> Self {
        Self::started(bench, bench.command(&[&["serve", "--http", "127.0.0.1:0"], more].concat()).stdout(Stdio::null()))
    }

    /// The same, that also speaks to a client at its standard streams, of the era without greetings.
    pub fn speaking(bench: &Bench, more: &[&str]) -> (Self, Client) {
        let mut command = bench.command(&[&["serve", "--stdio", "--http", "127.0.0.1:0"], more].concat());
        let mut served = Self::started(bench, command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let client = Client::of(&mut served.child);
        (served, client)
    }

    fn started(bench: &Bench, command: &mut Command) -> Self {
        let token = bench.run(&["tokens", "add", "--agent", "default"]).exits(0).stdout.trim().to_owned();
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let said = lines.find_map(|line| line.strip_prefix("Console: http://").map(str::to_owned));
        let address = said.expect("it says where it is").parse().expect("an address");
        thread::spawn(move || lines.for_each(drop));
        Self { child, address, token }
    }

    /// Where MCP is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What a client shows.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// One request of the new era, by whom this token is of, whose client can do this. The answer is yet to be read.
    pub fn post(&self, token: &str, can: &Value, method: &str, mut params: Value) -> TcpStream {
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
        for (key, value) in meta(can).as_object().into_iter().flatten() {
            params["_meta"][key] = value.clone();
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", &name)];
        self.send(token, &headers, &body)
    }

    /// A message with these headers.
    fn send(&self, token: &str, headers: &[(&str, &str)], message: &Value) -> TcpStream {
        let body = message.to_string();
        // What comes back for the older version comes in one piece.
        let mut head = format!(
            "POST /mcp HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.write_all((head + "\r\n" + &body).as_bytes()).expect("it reads");
        stream
    }

    /// Begins a session, of a client of the old era that can do this.
    pub fn greet(&self, can: &Value) -> Session<'_> {
        let info = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": OLD, "capabilities": can, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let mut answer = String::new();
        self.send(&self.token, &[], &hello).read_to_string(&mut answer).expect("it answers");
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
        let session = Session { served: self, id };
        session.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        session
    }

    /// The same, and the answer.
    pub fn ask(&self, token: &str, can: &Value, method: &str, params: Value) -> Value {
        let mut answer = String::new();
        self.post(token, can, method, params).read_to_string(&mut answer).expect("it answers");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let event = body.lines().find_map(|line| line.strip_prefix("data: ").filter(|data| data.starts_with('{')));
        serde_json::from_str(event.unwrap_or(body)).expect("a message")
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is there");
        wait_until("it has stopped", || self.child.try_wait().expect("it is ours").is_some());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session of a client of the old era.
#[derive(Debug)]
pub struct Session<'a> {
    served: &'a Served,
    id: String,
}

impl Session<'_> {
    /// Sends a message; what comes back is yet to be read.
    pub fn post(&self, message: &Value) -> Messages {
        let headers = [("MCP-Protocol-Version", OLD), ("Mcp-Session-Id", &self.id)];
        self.served.send(&self.served.token, &headers, message).into()
    }

    /// Sends one that is not answered, and waits until it has been taken.
    pub fn tell(&self, message: &Value) {
        let mut taken = String::new();
        self.post(message).0.read_line(&mut taken).expect("it answers");
        assert!(taken.contains(" 202 "), "{taken}");
    }
}

/// The messages of an answer, as they come.
#[derive(Debug)]
pub struct Messages(BufReader<TcpStream>);

impl From<TcpStream> for Messages {
    fn from(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }
}

impl Iterator for Messages {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        while self.0.read_line(&mut line).expect("it can be read") > 0 {
            let data = line.strip_prefix("data: ").unwrap_or(&line);
            if data.starts_with('{') {
                return Some(serde_json::from_str(data).expect("a message"));
            }
            line.clear();
        }
        None
    }
}

/// A server that was started, and the port before it.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    _served: Served,
    _bench: Bench,
}

impl Gateway {
    /// Toolgate and its own tools.
    pub fn alone() -> Self {
        let bench = Bench::new();
        let served = Served::start(&bench);
        Self::before(served, bench, Vec::new())
    }

    /// Toolgate with the fixture of the suite behind it, in a room, and leave to call all of its tools.
    pub fn bridged() -> Self {
        let bench = Bench::new();
        let bin = bench.outside().join("bin");
        fs::create_dir(&bin).expect("a directory");
        let fixture = bin.join("fixture");
        fs::copy(target().join("debug/fixture"), &fixture).expect("the fixture is built");
        let (tools, prompts) = (names(&fixture, "tools"), names(&fixture, "prompts"));
        let config = bench.outside().join("config.yaml");
        fs::write(&config, bridged(&fixture, &tools).to_string()).expect("a file");
        let served = Served::with(&bench, &["--config", &config.to_string_lossy()]);
        // The suite asks for a list once, and a list does not wait for long.
        wait_until("the fixture is there", || {
            served.ask(served.token(), &json!({}), "tools/list", json!({})).to_string().contains(PREFIX)
        });
        Self::before(served, bench, [tools, prompts].concat())
    }

    fn before(served: Served, bench: Bench, names: Vec<String>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback");
        let address = listener.local_addr().expect("an address");
        let bearer = format!("Bearer {}", served.token);
        let way = Arc::new(Way { own: address, server: served.address, bearer, names });
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let way = way.clone();
                // How a client leaves is its own affair.
                thread::spawn(move || way.pass(client));
            }
        });
        Self { address, _served: served, _bench: bench }
    }

    /// Where MCP is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

/// A config with the fixture as a server.
fn bridged(fixture: &Path, tools: &[String]) -> Value {
    let terms = json!({ "action": "external_data:request", "safety": "network" });
    let tools: BTreeMap<_, _> = tools.iter().map(|name| (name, &terms)).collect();
    let server = json!({ "command": fixture, "args": ["stdio"], "visible": [fixture.parent()], "tools": tools,
        "may_ask": ["elicitation", "sampling", "roots"] });
    let rule = json!({ "id": "suite", "verdict": "allow", "tools": [format!("{PREFIX}*")], "because": "it is tried" });
    json!({
        "definitions": { "first_sight": "pin" },
        // The suite looks for its tools in the list.
        "disclosure": { "mode": "off" },
        "policy": { "rules": [rule] },
        "mcp_servers": { SERVER: server },
    })
}

/// The names of what the fixture has, asked for by what every request of the stateless era says.
fn names(fixture: &Path, list: &str) -> Vec<String> {
    let mut command = Command::new(fixture);
    let mut child =
        command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the fixture starts");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": format!("{list}/list"), "params": { "_meta": meta } });
    writeln!(child.stdin.as_ref().expect("a pipe"), "{request}").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it answers");
    drop(child.stdin.take());
    child.wait().expect("it leaves");
    let listed: Value = serde_json::from_str(&line).expect("a message");
    let entries = listed["result"][list].as_array().expect("a list");
    entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect()
}

/// From the port to the server.
struct Way {
    own: SocketAddr,
    server: SocketAddr,
    bearer: String,
    /// The suite's tools and prompts, which Toolgate has under longer names.
    names: Vec<String>,
}

impl Way {
    /// What Toolgate calls a tool or a prompt of the suite.
    fn theirs(&self, name: &str) -> String {
        if self.names.iter().any(|known| known == name) { format!("{PREFIX}{name}") } else { name.to_owned() }
    }

    /// Passes one request on, and its answer back.
    fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(request) = Request::read(&mut client)? else { return Ok(()) };
        let mut message = request.json();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let lists = matches!(&*method, "tools/list" | "prompts/list") && !self.names.is_empty();
        let named = match &*method {
            "tools/call" | "prompts/get" => message.pointer_mut("/params/name"),
            "completion/complete" => message.pointer_mut("/params/ref/name"),
            _ => None,
        };
        let is_named = named.map(|name| *name = self.theirs(name.as_str().unwrap_or_default()).into()).is_some();
        let body = if is_named { message.to_string().into_bytes() } else { request.body.clone() };
        // What comes back for the older version comes in one piece, and its names can be changed.
        let version = if lists { "1.0" } else { "1.1" };
        let mut head = format!("{} {} HTTP/{version}\r\n", request.method, request.target());
        for (name, value) in request.headers() {
            let value = value.replace(&self.own.to_string(), &self.server.to_string());
            match name.as_str() {
                name if OF_A_CONNECTION.contains(&name) => {}
                "mcp-name" => head += &format!("{name}: {}\r\n", self.theirs(&value)),
                _ => head += &format!("{name}: {value}\r\n"),
            }
        }
        head +=
            &format!("authorization: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", self.bearer, body.len());
        let mut upstream = TcpStream::connect(self.server)?;
        upstream.write_all(head.as_bytes())?;
        upstream.write_all(&body)?;

        // A client that hangs up cancels, so the server has to see it. It is the client who ends the connection: the one of
        // the suite breaks when that happens before it has read an answer.
        let (mut waiting, ending) = (client.try_clone()?, upstream.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut waiting, &mut io::sink());
            let _ = ending.shutdown(Shutdown::Both);
        });
        if lists {
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer)?;
            return client.write_all(renamed(&String::from_utf8_lossy(&answer)).as_bytes());
        }
        io::copy(&mut upstream, &mut client).map(|_| ())
    }
}

/// A list with the names the suite knows.
fn renamed(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let body = body.replace(&format!("\"{PREFIX}"), "\"");
    let head: Vec<_> =
        head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("content-length:")).collect();
    format!("{}\r\ncontent-length: {}\r\n\r\n{body}", head.join("\r\n"), body.len())
}
