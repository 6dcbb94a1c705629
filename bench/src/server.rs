//! A server under test, and the load put on it: raw JSON-RPC lines, every reply checked.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

/// A running server that has been greeted.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
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

impl Server {
    pub(crate) fn start(program: &Path, args: &[&str], workspace: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .current_dir(workspace)
            .env("TOOLGATE_DATA_DIR", data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} could not be started", program.display()))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::with_capacity(64 * 1024, child.stdout.take().context("no stdout")?);
        let mut server = Self { child, stdin, stdout, last_id: 0 };
        server.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "toolgate-bench", "version": "0" },
            }),
        )?;
        server.stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// One request, and its result.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n";
        self.stdin.write_all(line.as_bytes())?;
        let mut reply = String::new();
        self.stdout.read_line(&mut reply)?;
        let mut reply: Value = serde_json::from_str(&reply).with_context(|| format!("not a reply: {reply}"))?;
        ensure!(reply["id"] == json!(id), "a reply to something else: {reply}");
        ensure!(reply.get("error").is_none(), "{method} failed: {reply}");
        Ok(reply["result"].take())
    }

    /// Resident memory, in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Processor time of all its threads.
    fn cpu(&self) -> anyhow::Result<Duration> {
        // Ticks are hundredths of a second on every Linux there is.
        const TICK: Duration = Duration::from_millis(10);
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(')').context("no process name")?;
        let ticks: u32 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
        Ok(TICK * ticks)
    }

    /// Calls `echo` for so long, with so many calls in flight.
    pub(crate) fn echo(&mut self, in_flight: usize, lasting: Duration) -> anyhow::Result<Load> {
        let mut sent = HashMap::with_capacity(in_flight);
        let mut latencies = Vec::new();
        let mut lines = String::new();
        let mut reply = String::new();
        let (start, cpu) = (Instant::now(), self.cpu()?);
        let mut room = in_flight;
        while room > 0 || !sent.is_empty() {
            lines.clear();
            for _ in 0..room {
                self.last_id += 1;
                lines.push_str(&call(self.last_id));
                sent.insert(self.last_id, Instant::now());
            }
            self.stdin.write_all(lines.as_bytes())?;
            room = 0;
            // All replies that have arrived, at least one.
            loop {
                reply.clear();
                self.stdout.read_line(&mut reply)?;
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
        let (wall, cpu) = (start.elapsed(), self.cpu()?.saturating_sub(cpu));
        latencies.sort_unstable();
        let calls = latencies.len() as f64;
        let at = |part: f64| latencies[(part * (calls - 1.0)).round() as usize].as_secs_f64() * 1e6;
        Ok(Load {
            per_second: calls / wall.as_secs_f64(),
            p50_us: at(0.50),
            p99_us: at(0.99),
            cpu_us_per_call: cpu.as_secs_f64() * 1e6 / calls,
        })
    }

    /// Closes its input and waits until it has left.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stdin);
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest)?;
        ensure!(rest.is_empty(), "it said something nobody asked for: {}", String::from_utf8_lossy(&rest));
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

/// The text is another one in every call, so that a reply cannot be mistaken for another's.
fn text(id: u64) -> String {
    format!("message number {id:016}")
}

fn call(id: u64) -> String {
    let text = text(id);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
         \"params\":{{\"name\":\"echo\",\"arguments\":{{\"text\":\"{text}\"}}}}}}\n"
    )
}

fn check(reply: &str) -> anyhow::Result<u64> {
    let reply: Value = serde_json::from_str(reply).with_context(|| format!("not a reply: {reply}"))?;
    let Some(id) = reply["id"].as_u64() else { bail!("no id: {reply}") };
    ensure!(reply["result"]["content"][0]["text"] == text(id), "the wrong text: {reply}");
    ensure!(reply["result"]["isError"] == json!(false), "an error: {reply}");
    Ok(id)
}
