//! A server under test, and the load put on it: raw JSON-RPC over its pipes, every reply checked.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

/// A running server that has been greeted over its pipes.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

/// What one measurement gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_call: f64,
}

impl Load {
    pub(crate) fn of(mut latencies: Vec<Duration>, wall: Duration, cpu: Duration) -> anyhow::Result<Self> {
        ensure!(!latencies.is_empty(), "not a single call was answered");
        latencies.sort_unstable();
        let calls = latencies.len() as f64;
        let at = |part: f64| latencies[(part * (calls - 1.0)).round() as usize].as_secs_f64() * 1e6;
        Ok(Self {
            per_second: calls / wall.as_secs_f64(),
            p50_us: at(0.50),
            p99_us: at(0.99),
            cpu_us_per_call: cpu.as_secs_f64() * 1e6 / calls,
        })
    }
}

/// A process with all it started. It ends with the value.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.spawn().map(Self).with_context(|| format!("{command:?} could not be started"))
    }

    /// Resident memory of the process itself, in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Processor time of all its threads and of every process it started that is still there.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        // Ticks are hundredths of a second on every Linux there is.
        const TICK: Duration = Duration::from_millis(10);
        let mut processes: Vec<(u32, u32, u32)> = fs::read_dir("/proc")?.flatten().filter_map(times).collect();
        processes.sort_unstable();
        let (mut tree, mut size) = (HashSet::from([self.0.id()]), 0);
        while size < tree.len() {
            size = tree.len();
            tree.extend(
                processes.iter().filter(|(_, parent, _)| tree.contains(parent)).map(|(id, ..)| *id).collect::<Vec<_>>(),
            );
        }
        Ok(TICK * processes.iter().filter(|(id, ..)| tree.contains(id)).map(|(.., ticks)| ticks).sum::<u32>())
    }
}

/// A process, its parent, and the ticks it had.
fn times(entry: fs::DirEntry) -> Option<(u32, u32, u32)> {
    let id = entry.file_name().to_str()?.parse().ok()?;
    let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some((id, number(1)?, number(11)? + number(12)?))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    pub(crate) fn start(program: &Path, args: &[&str], workspace: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(args).current_dir(workspace).env("TOOLGATE_DATA_DIR", data);
        let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = process.0.stdin.take().context("no stdin")?;
        let stdout = BufReader::with_capacity(64 * 1024, process.0.stdout.take().context("no stdout")?);
        let mut server = Self { process, stdin, stdout, last_id: 0 };
        server.request("initialize", greeting())?;
        server.stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// One request, and its result. What the server says of its own accord is passed over.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n";
        self.stdin.write_all(line.as_bytes())?;
        loop {
            let mut reply = String::new();
            ensure!(self.stdout.read_line(&mut reply)? > 0, "the server is gone");
            let mut reply: Value = serde_json::from_str(&reply).with_context(|| format!("not a reply: {reply}"))?;
            if reply.get("method").is_some() {
                continue;
            }
            ensure!(reply["id"] == json!(id), "a reply to something else: {reply}");
            ensure!(reply.get("error").is_none(), "{method} failed: {reply}");
            return Ok(reply["result"].take());
        }
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Calls a tool that gives its text back for so long, with so many calls in flight.
    pub(crate) fn echo(&mut self, tool: &str, in_flight: usize, lasting: Duration) -> anyhow::Result<Load> {
        let mut sent = HashMap::with_capacity(in_flight);
        let mut latencies = Vec::new();
        let mut lines = String::new();
        let mut reply = String::new();
        let (start, cpu) = (Instant::now(), self.process.cpu()?);
        let mut room = in_flight;
        while room > 0 || !sent.is_empty() {
            lines.clear();
            for _ in 0..room {
                self.last_id += 1;
                lines.push_str(&call(self.last_id, tool, ""));
                lines.push('\n');
                sent.insert(self.last_id, Instant::now());
            }
            self.stdin.write_all(lines.as_bytes())?;
            room = 0;
            // All replies that have arrived, at least one.
            loop {
                reply.clear();
                ensure!(self.stdout.read_line(&mut reply)? > 0, "the server is gone");
                if reply.contains("\"method\":") {
                    // What the server says of its own accord is passed over.
                    continue;
                }
                let id = check(&reply)?;
                let since = sent.remove(&id).with_context(|| format!("a reply to nothing: {reply}"))?;
                latencies.push(since.elapsed());
                room += 1;
                if !self.stdout.buffer().contains(&b'\n') {
                    break;
                }
            }
            if start.elapsed() >= lasting {
                room = 0;
            }
        }
        Load::of(latencies, start.elapsed(), self.process.cpu()?.saturating_sub(cpu))
    }

    /// Closes its input and waits until it has left.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stdin);
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest)?;
        ensure!(rest.is_empty(), "it said something nobody asked for: {}", String::from_utf8_lossy(&rest));
        let status = self.process.0.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

/// What a client of the older revisions says first.
pub(crate) fn greeting() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "toolgate-bench", "version": "0" },
    })
}

/// The text is another one in every call, so that a reply cannot be mistaken for another's.
fn text(id: u64) -> String {
    format!("entry {id:016} of the log")
}

/// A call, and whatever else its era wants said among the parameters.
pub(crate) fn call(id: u64, tool: &str, also: &str) -> String {
    let text = text(id);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
         \"params\":{{\"name\":\"{tool}\",\"arguments\":{{\"text\":\"{text}\"}}{also}}}}}"
    )
}

/// The id of a reply that is what the call with that id has to get.
pub(crate) fn check(reply: &str) -> anyhow::Result<u64> {
    let reply: Value = serde_json::from_str(reply).with_context(|| format!("not a reply: {reply}"))?;
    let Some(id) = reply["id"].as_u64() else { bail!("no id: {reply}") };
    ensure!(reply["result"]["content"][0]["text"] == text(id), "the wrong text: {reply}");
    ensure!(reply["result"]["isError"] != json!(true), "an error: {reply}");
    Ok(id)
}
