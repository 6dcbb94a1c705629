//! `echo` over MCP, one call at a time and sixteen in flight: over pipes and over HTTP, of Toolgate itself and of a server
//! behind it, beside servers and gateways that do nothing else.

use std::{
    fmt, fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    Options, Programs,
    http::HttpServer,
    server::{Load, Process, Server},
};

/// How many calls are in flight.
const IN_FLIGHT: [usize; 2] = [1, 16];
/// What a server behind Toolgate is called there.
const BEHIND: &str = "bare";
/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    groups: Vec<Measured>,
    /// Who was left out, and why.
    left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Measured {
    title: &'static str,
    rows: Vec<Row>,
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
struct Row {
    who: &'static str,
    in_flight: usize,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_call: f64,
    idle_mib: f64,
    /// Throughput and processor time by those of the bare one; the medians of the rounds' ratios.
    throughput: f64,
    cpu: f64,
    /// The lowest and the highest ratio of throughput.
    throughputs: [f64; 2],
}

/// Those that are measured beside each other, the bare one first.
struct Group {
    title: &'static str,
    contenders: Vec<Contender>,
}

struct Contender {
    who: &'static str,
    tool: &'static str,
    server: Running,
    idle_mib: f64,
}

enum Running {
    Pipes(Server),
    Http(HttpServer),
}

impl Contender {
    fn pipes(who: &'static str, tool: &'static str, server: Server) -> anyhow::Result<Self> {
        let idle_mib = server.process().resident_mib()?;
        Ok(Self { who, tool, server: Running::Pipes(server), idle_mib })
    }

    fn http(who: &'static str, tool: &'static str, server: HttpServer) -> anyhow::Result<Self> {
        let idle_mib = server.process().resident_mib()?;
        Ok(Self { who, tool, server: Running::Http(server), idle_mib })
    }

    fn echo(&mut self, in_flight: usize, lasting: Duration) -> anyhow::Result<Load> {
        match &mut self.server {
            Running::Pipes(server) => server.echo(self.tool, in_flight, lasting),
            Running::Http(server) => server.echo(self.tool, in_flight, lasting),
        }
        .with_context(|| self.who)
    }
}

pub(crate) fn measure(programs: &Programs, options: &Options) -> anyhow::Result<Report> {
    let house = House::new(programs)?;
    let mut left_out = Vec::new();
    let mut groups = Vec::new();
    for open in [House::direct_pipes, House::direct_http, House::bridged_pipes, House::bridged_http] {
        groups.push(open(&house, &mut left_out)?.measure(options)?);
    }
    left_out.dedup();
    Ok(Report { groups, left_out })
}

impl Group {
    fn measure(mut self, options: &Options) -> anyhow::Result<Measured> {
        let lasting = Duration::from_secs_f64(options.seconds);
        for contender in &mut self.contenders {
            contender.echo(16, lasting / 4)?;
        }
        let mut rows = Vec::new();
        for in_flight in IN_FLIGHT {
            let mut rounds: Vec<Vec<Load>> = Vec::new();
            for _ in 0..options.rounds.max(1) {
                let round = self.contenders.iter_mut().map(|contender| contender.echo(in_flight, lasting));
                rounds.push(round.collect::<anyhow::Result<_>>()?);
            }
            rows.extend(self.contenders.iter().enumerate().map(|(at, it)| row(it, in_flight, at, &rounds)));
        }
        Ok(Measured { title: self.title, rows })
    }
}

fn row(contender: &Contender, in_flight: usize, at: usize, rounds: &[Vec<Load>]) -> Row {
    let of = |field: fn(&Load) -> f64| median(rounds.iter().map(|round| field(&round[at])));
    let by = |field: fn(&Load) -> f64| rounds.iter().map(move |round| field(&round[at]) / field(&round[0]));
    let throughputs = by(|load| load.per_second);
    Row {
        who: contender.who,
        in_flight,
        per_second: of(|load| load.per_second),
        p50_us: of(|load| load.p50_us),
        p99_us: of(|load| load.p99_us),
        cpu_us_per_call: of(|load| load.cpu_us_per_call),
        idle_mib: contender.idle_mib,
        throughput: median(throughputs.clone()),
        cpu: median(by(|load| load.cpu_us_per_call)),
        throughputs: [throughputs.clone().fold(f64::INFINITY, f64::min), throughputs.fold(0.0, f64::max)],
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Programs, and directories for them.
struct House<'a> {
    programs: &'a Programs,
    dir: TempDir,
}

impl<'a> House<'a> {
    fn new(programs: &'a Programs) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        for name in ["workspace", "data", "bin"] {
            fs::create_dir(dir.path().join(name))?;
        }
        // A room shows a server the directory its program is in, and not one with everything that was ever built.
        fs::copy(&programs.bare, dir.path().join("bin/bare"))?;
        let behind = dir.path().join("bin/bare");
        // It gives back what it is given, and its room has no way out: it is a look.
        let terms = json!({ "action": "external_data:request", "safety": "read" });
        let rule = json!({ "id": "bench", "verdict": "allow", "tools": [format!("{BEHIND}__*")], "because": "it is measured" });
        let config = json!({
            "definitions": { "first_sight": "pin" },
            "policy": { "rules": [rule] },
            "mcp_servers": { BEHIND: {
                "command": behind, "args": ["echo", "stdio"], "visible": [behind.parent()], "tools": { "repeat": terms },
            } },
        });
        fs::write(dir.path().join("config.yaml"), config.to_string())?;
        Ok(Self { programs, dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pipes(&self, program: &Path, words: &[&str]) -> anyhow::Result<Server> {
        Server::start(program, words, &self.path("workspace"), &self.path("data"))
    }

    fn direct_pipes(&self, left_out: &mut Vec<String>) -> anyhow::Result<Group> {
        let mut contenders = vec![
            Contender::pipes("bare rmcp", "repeat", self.pipes(&self.programs.bare, &["echo", "stdio"])?)?,
            Contender::pipes(
                "toolgate, recording",
                "echo",
                self.pipes(&self.programs.toolgate, &["serve", "--stdio"])?,
            )?,
        ];
        if let Some((python, script)) = self.python(left_out) {
            contenders.push(Contender::pipes("Python SDK", "echo", self.pipes(&python, &[&script, "stdio"])?)?);
        }
        Ok(Group { title: "over pipes", contenders })
    }

    fn direct_http(&self, left_out: &mut Vec<String>) -> anyhow::Result<Group> {
        let mut contenders = vec![
            Contender::http("bare rmcp", "repeat", self.bare_http(&["echo", "http"])?)?,
            Contender::http("toolgate, recording", "echo", self.toolgate_http(&[])?)?,
        ];
        if let Some((python, script)) = self.python(left_out) {
            let port = free_port()?;
            let mut command = Command::new(python);
            command.args([&script, "http", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
            contenders.push(Contender::http("Python SDK", "echo", at_port(&mut command, port, "/mcp")?)?);
        }
        Ok(Group { title: "over HTTP", contenders })
    }

    fn bridged_pipes(&self, _left_out: &mut Vec<String>) -> anyhow::Result<Group> {
        let behind = self.path("bin/bare").to_string_lossy().into_owned();
        let config = self.path("config.yaml").to_string_lossy().into_owned();
        let mut toolgate = self.pipes(&self.programs.toolgate, &["serve", "--stdio", "--config", &config])?;
        // The list is given once the servers behind it have arrived, if that is soon.
        toolgate.request("tools/list", json!({}))?;
        let proxy = self.pipes(&self.programs.bare, &["proxy", "stdio", &behind, "echo", "stdio"])?;
        let contenders = vec![
            Contender::pipes("bare rmcp proxy", "repeat", proxy)?,
            Contender::pipes("toolgate, recording", "bare__repeat", toolgate)?,
        ];
        Ok(Group { title: "over pipes, of a server behind it", contenders })
    }

    fn bridged_http(&self, left_out: &mut Vec<String>) -> anyhow::Result<Group> {
        let behind = self.path("bin/bare").to_string_lossy().into_owned();
        let config = self.path("config.yaml").to_string_lossy().into_owned();
        let mut contenders = vec![
            Contender::http(
                "bare rmcp proxy",
                "repeat",
                self.bare_http(&["proxy", "http", &behind, "echo", "stdio"])?,
            )?,
            Contender::http("toolgate, recording", "bare__repeat", self.toolgate_http(&["--config", &config])?)?,
        ];
        let peer = self.programs.peers.join("mcp-proxy/bin/mcp-proxy");
        if peer.exists() {
            let port = free_port()?;
            let config = format!(
                "[proxy]\nname = \"bench\"\nseparator = \"_\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
                 [[backends]]\nname = \"bare\"\ntransport = \"stdio\"\ncommand = {behind:?}\nargs = [\"echo\", \"stdio\"]\n"
            );
            let file = self.path("proxy.toml");
            fs::write(&file, config)?;
            let mut command = Command::new(peer);
            command.arg("--config").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
            contenders.push(Contender::http("mcp-proxy 0.6", "bare_repeat", at_port(&mut command, port, "/")?)?);
        } else {
            left_out.push("mcp-proxy: `bench/peers.sh` has not fetched it".to_owned());
        }
        Ok(Group { title: "over HTTP, of a server behind it", contenders })
    }

    /// The Python of the tests' peers with the SDK in it, and the server for it.
    fn python(&self, left_out: &mut Vec<String>) -> Option<(PathBuf, String)> {
        let python = self.programs.peers.join("python/bin/python");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/echo.py").to_owned();
        if python.exists() {
            return Some((python, script));
        }
        left_out.push("Python SDK: `cargo xtask test` has not installed it".to_owned());
        None
    }

    fn bare_http(&self, words: &[&str]) -> anyhow::Result<HttpServer> {
        let mut command = Command::new(&self.programs.bare);
        let mut process = Process::start(command.args(words).stdout(Stdio::piped()))?;
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let address =
            line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).context("no address")?;
        HttpServer::greet(process, address.parse()?, "/mcp", None)
    }

    fn toolgate_http(&self, more: &[&str]) -> anyhow::Result<HttpServer> {
        let toolgate = |words: &[&str]| {
            let mut command = Command::new(&self.programs.toolgate);
            command.args(words).args(more).current_dir(self.path("workspace"));
            command.env("TOOLGATE_DATA_DIR", self.path("data"));
            command
        };
        let made = toolgate(&["tokens", "add", "--agent", "default"]).output()?;
        ensure!(made.status.success(), "no token: {}", String::from_utf8_lossy(&made.stderr));
        let token = String::from_utf8(made.stdout)?;
        let mut command = toolgate(&["serve", "--http", "127.0.0.1:0"]);
        let mut process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let mut lines = BufReader::new(process.0.stderr.take().context("no stderr")?).lines().map_while(Result::ok);
        let said = lines.find_map(|line| line.strip_prefix("Console: http://").map(str::to_owned));
        let address = said.context("it does not say where it is")?.parse()?;
        thread::spawn(move || lines.for_each(drop));
        let server = HttpServer::greet(process, address, "/mcp", Some(token.trim()))?;
        server.list()?;
        Ok(server)
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A server that was told its port, once it is there.
fn at_port(command: &mut Command, port: u16, path: &str) -> anyhow::Result<HttpServer> {
    let process = Process::start(command)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > until {
            bail!("{command:?} is not there after {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
    HttpServer::greet(process, address, path, None)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Measured { title, rows } in &self.groups {
            writeln!(
                f,
                "| `echo` {title} | in flight | calls/s | p50 us | p99 us | cpu us/call | idle MiB | throughput | cpu |"
            )?;
            writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
            for row in rows {
                let Row { who, in_flight, per_second, p50_us, p99_us, cpu_us_per_call, idle_mib, .. } = row;
                let Row { throughput, cpu, throughputs: [low, high], .. } = row;
                writeln!(
                    f,
                    "| {who} | {in_flight} | {per_second:.0} | {p50_us:.0} | {p99_us:.0} | {cpu_us_per_call:.1} \
                     | {idle_mib:.1} | {throughput:.2} ({low:.2}-{high:.2}) | {cpu:.2} |"
                )?;
            }
            writeln!(f)?;
        }
        self.left_out.iter().try_for_each(|who| writeln!(f, "LEFT OUT: {who}"))
    }
}
