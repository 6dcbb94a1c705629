//! The judged client beside plain reqwest: the same pages from the same server on loopback, over connections that stay.
//!
//! Both hand the body over as a vector of its own. Both take turns within one process, a batch each, so that whatever the machine does besides hits both alike.

use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use tokio::{runtime::Runtime, task::JoinSet};
use toolgate_contract::WebRequest;
use toolgate_egress::{Barred, Client, ClientTerms, Internal, PaceTerms, Resolver, Within};

/// Of the medians, the judged client by plain reqwest.
const TARGET: f64 = 1.2;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rounds; in each, both sides send a batch of every case
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Requests in a batch
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    batch: usize,
    target: f64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    judged_us: f64,
    plain_us: f64,
    /// The median of the rounds' ratios, time by time.
    ratio: f64,
    /// Half of them lie between these two.
    ratios: [f64; 2],
}

struct Case {
    name: &'static str,
    bytes: usize,
    in_flight: usize,
}

const CASES: [Case; 3] = [
    Case { name: "1 KiB, one at a time", bytes: 1 << 10, in_flight: 1 },
    Case { name: "1 KiB, sixteen in flight", bytes: 1 << 10, in_flight: 16 },
    Case { name: "256 KiB, one at a time", bytes: 256 << 10, in_flight: 1 },
];

pub(crate) fn measure(options: &Options) -> anyhow::Result<Report> {
    let runtime = Runtime::new()?;
    let rows = CASES.iter().map(|case| runtime.block_on(row(case, options))).collect::<anyhow::Result<_>>()?;
    Ok(Report { rounds: options.rounds, batch: options.batch, target: TARGET, rows })
}

async fn row(case: &Case, options: &Options) -> anyhow::Result<Row> {
    let address = serve(case.bytes)?;
    let url = format!("http://{address}/page");
    let judged = Client::new(ClientTerms {
        resolver: Resolver::System,
        internal: Internal::parse(&[address.to_string()])?,
        barred: Barred::default(),
        extra_roots: Vec::new(),
        user_agent: "toolgate-bench".into(),
        pace: PaceTerms { per_minute: u32::MAX, at_once: u32::MAX, wait: Duration::ZERO },
    })?;
    let plain = reqwest::Client::builder().no_proxy().user_agent("toolgate-bench").build()?;

    let mut rounds = Vec::new();
    for round in 0..=options.rounds {
        let judged = batch(options.batch, case, || get_judged(judged.clone(), url.clone())).await?;
        let plain = batch(options.batch, case, || get_plain(plain.clone(), url.clone())).await?;
        // The first round is for the caches.
        if round > 0 {
            rounds.push((judged, plain));
        }
    }
    let ratios = sorted(rounds.iter().map(|(judged, plain)| judged / plain));
    Ok(Row {
        case: case.name,
        judged_us: middle(&sorted(rounds.iter().map(|(judged, _)| *judged))),
        plain_us: middle(&sorted(rounds.iter().map(|(_, plain)| *plain))),
        ratio: middle(&ratios),
        ratios: [ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]],
    })
}

async fn get_judged(client: Client, url: String) -> anyhow::Result<usize> {
    Ok(client.send(&WebRequest::get(url), &Within::Public, &[]).await?.body.len())
}

async fn get_plain(client: reqwest::Client, url: String) -> anyhow::Result<usize> {
    Ok(Vec::from(client.get(url).send().await?.bytes().await?).len())
}

/// Microseconds a request took, of so many.
async fn batch<F>(requests: usize, case: &Case, get: impl Fn() -> F) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<usize>> + Send + 'static,
{
    let start = Instant::now();
    let mut flying = JoinSet::new();
    for _ in 0..requests {
        if flying.len() == case.in_flight {
            land(&mut flying, case.bytes).await?;
        }
        flying.spawn(get());
    }
    while !flying.is_empty() {
        land(&mut flying, case.bytes).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / requests as f64)
}

async fn land(flying: &mut JoinSet<anyhow::Result<usize>>, bytes: usize) -> anyhow::Result<()> {
    if let Some(landed) = flying.join_next().await {
        ensure!(landed?? == bytes, "the page came with another length");
    }
    Ok(())
}

/// A server of one page, a thread for each connection, that answers as fast as it can.
fn serve(bytes: usize) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {bytes}\r\n\r\n");
    let answer = [head.as_bytes(), &vec![b'a'; bytes]].concat();
    thread::spawn(move || {
        for visitor in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer_all(visitor, &answer));
        }
    });
    Ok(address)
}

fn answer_all(mut visitor: TcpStream, answer: &[u8]) {
    let _ = visitor.set_nodelay(true);
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = visitor.read(&mut buffer) {
        said.extend(&buffer[..length]);
        if said.ends_with(b"\r\n\r\n") {
            said.clear();
            if visitor.write_all(answer).is_err() {
                return;
            }
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "egress: {} rounds of {} requests; medians", self.rounds, self.batch)?;
        writeln!(f, "{:<26} {:>10} {:>10} {:>7} {:>15}", "", "judged", "reqwest", "ratio", "half within")?;
        for row in &self.rows {
            let [lowest, highest] = row.ratios;
            let (judged, plain) = (format!("{:.1} us", row.judged_us), format!("{:.1} us", row.plain_us));
            let span = format!("{lowest:.2} - {highest:.2}");
            writeln!(f, "{:<26} {judged:>10} {plain:>10} {:>7.2} {span:>15}", row.case, row.ratio)?;
        }
        write!(f, "target: a ratio of {:.1} at most", self.target)
    }
}
