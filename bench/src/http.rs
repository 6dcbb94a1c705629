//! The load over HTTP: kept connections, one call at a time on each, every reply checked.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::server::{Load, Process, call, check, greeting};

/// What every call of the stateless revision says.
const META: &str = ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                    \"io.modelcontextprotocol/clientCapabilities\":{}}";
/// How long a server may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server that has been greeted over HTTP.
#[derive(Debug)]
pub(crate) struct HttpServer {
    process: Process,
    address: SocketAddr,
    /// Headers of every call.
    head: String,
    /// What is said among the parameters of every call.
    also: &'static str,
    last_id: AtomicU64,
}

impl HttpServer {
    /// Greets the server at this address in the stateless way, and in the older one if it does not know that.
    pub(crate) fn greet(
        process: Process,
        address: SocketAddr,
        path: &str,
        token: Option<&str>,
    ) -> anyhow::Result<Self> {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let common = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{bearer}"
        );
        let server = |head, also| Self { process, address, head, also, last_id: AtomicU64::new(1) };
        let discover =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{{{}}}}}", &META[1..]);
        let modern = format!("{common}MCP-Protocol-Version: 2026-07-28\r\n");
        let head = format!("{modern}Mcp-Method: server/discover\r\n");
        let mut line = Line::open(address)?;
        let answer = line.ask(&head, &discover)?;
        let knows = serde_json::from_str::<Value>(&answer.body).is_ok_and(|reply| reply.get("result").is_some());
        if knows {
            return Ok(server(modern + "Mcp-Method: tools/call\r\n", META));
        }
        let legacy = format!("{common}MCP-Protocol-Version: 2025-11-25\r\n");
        let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting() });
        let answer = Line::open(address)?.ask(&common, &initialize.to_string())?;
        let reply: Value =
            serde_json::from_str(&answer.body).with_context(|| format!("no greeting: {}", answer.body))?;
        ensure!(reply.get("result").is_some(), "no greeting: {reply}");
        let session = answer.session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let head = legacy + &session;
        Line::open(address)?.ask(&head, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")?;
        Ok(server(head, ""))
    }

    /// Asks for the tools, so that whoever is behind the server has arrived.
    pub(crate) fn list(&self) -> anyhow::Result<()> {
        let head = self.head.replace("tools/call", "tools/list");
        let list = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{{}}}}}", &META[1..]);
        let answer = Line::open(self.address)?.ask(&head, &list)?;
        ensure!(answer.body.contains("\"tools\""), "no list of tools: {}", answer.body);
        Ok(())
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Calls a tool that gives its text back for so long, over so many connections.
    pub(crate) fn echo(&self, tool: &str, in_flight: usize, lasting: Duration) -> anyhow::Result<Load> {
        let name = if self.also.is_empty() { String::new() } else { format!("Mcp-Name: {tool}\r\n") };
        let head = format!("{}{name}", self.head);
        let (start, cpu) = (Instant::now(), self.process.cpu()?);
        let one = || -> anyhow::Result<Vec<Duration>> {
            let mut line = Line::open(self.address)?;
            let mut latencies = Vec::new();
            while start.elapsed() < lasting {
                let id = self.last_id.fetch_add(1, Ordering::Relaxed);
                let since = Instant::now();
                let answer = line.ask(&head, &call(id, tool, self.also))?;
                let answered = check(&answer.body)?;
                ensure!(answered == id, "the answer to {answered} came for {id}");
                latencies.push(since.elapsed());
            }
            Ok(latencies)
        };
        let latencies = thread::scope(|scope| {
            let lines: Vec<_> = (0..in_flight).map(|_| scope.spawn(one)).collect();
            let ended = lines.into_iter().map(|line| line.join().map_err(|_| anyhow::anyhow!("a line broke"))?);
            ended.collect::<anyhow::Result<Vec<_>>>()
        })?;
        Load::of(latencies.concat(), start.elapsed(), self.process.cpu()?.saturating_sub(cpu))
    }
}

/// One kept connection.
struct Line {
    write: TcpStream,
    read: BufReader<TcpStream>,
}

struct Answer {
    body: String,
    session: Option<String>,
}

impl Line {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let write = TcpStream::connect(address)?;
        write.set_nodelay(true)?;
        write.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { read: BufReader::new(write.try_clone()?), write })
    }

    /// Sends a message, and gives the one that comes back; of a stream its last.
    fn ask(&mut self, head: &str, body: &str) -> anyhow::Result<Answer> {
        self.write.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let (mut length, mut chunked, mut streams, mut session) = (0, false, false, None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("content-length", value) => length = value.parse()?,
                ("transfer-encoding", value) => chunked = value == "chunked",
                ("content-type", value) => streams = value.starts_with("text/event-stream"),
                ("mcp-session-id", value) => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut bytes = Vec::new();
        if chunked {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16)?;
                let start = bytes.len();
                bytes.resize(start + size, 0);
                self.read.read_exact(&mut bytes[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else {
            bytes.resize(length, 0);
            self.read.read_exact(&mut bytes)?;
        }
        let mut body = String::from_utf8(bytes)?;
        if streams {
            let messages = body.lines().filter_map(|line| line.strip_prefix("data:"));
            body = messages.map(str::trim).rfind(|message| !message.is_empty()).unwrap_or_default().to_owned();
        }
        Ok(Answer { body, session })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.read.read_line(&mut line)? > 0, "the connection ended");
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
