//! `echo` over MCP stdio, one call at a time and sixteen in flight.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{
    Options, Programs,
    server::{Load, Server},
};

/// What is measured, and by how many calls in flight.
const IN_FLIGHT: [usize; 2] = [1, 16];

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// Of Toolgate, greeted and idle.
    toolgate_idle_mib: f64,
    /// Of the bare server, greeted and idle.
    bare_idle_mib: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    in_flight: usize,
    toolgate: Side,
    bare: Side,
    /// Throughput, Toolgate's by the bare server's; the median of the rounds' ratios.
    ratio: f64,
    /// The lowest and the highest of them.
    ratios: [f64; 2],
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
struct Side {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_call: f64,
}

pub(crate) fn measure(programs: &Programs, options: &Options) -> anyhow::Result<Report> {
    let workspace = tempfile::tempdir()?;
    let data = tempfile::tempdir()?;
    let mut toolgate = Server::start(&programs.toolgate, &["serve", "--stdio"], workspace.path(), data.path())?;
    let mut bare = Server::start(&programs.bare_echo, &[], workspace.path(), data.path())?;
    let toolgate_idle_mib = toolgate.resident_mib()?;
    let bare_idle_mib = bare.resident_mib()?;

    let lasting = Duration::from_secs_f64(options.seconds);
    for server in [&mut toolgate, &mut bare] {
        server.echo(16, lasting / 4)?;
    }
    let mut rounds: [Vec<(Load, Load)>; IN_FLIGHT.len()] = Default::default();
    for _ in 0..options.rounds {
        for (in_flight, rounds) in IN_FLIGHT.into_iter().zip(&mut rounds) {
            rounds.push((toolgate.echo(in_flight, lasting)?, bare.echo(in_flight, lasting)?));
        }
    }
    toolgate.stop()?;
    bare.stop()?;
    let rows = IN_FLIGHT.into_iter().zip(&rounds).map(|(in_flight, rounds)| row(in_flight, rounds)).collect();
    Ok(Report { rows, toolgate_idle_mib, bare_idle_mib })
}

fn row(in_flight: usize, rounds: &[(Load, Load)]) -> Row {
    let side = |which: fn(&(Load, Load)) -> Load| {
        let of = |field: fn(Load) -> f64| median(rounds.iter().map(|round| field(which(round))));
        Side {
            per_second: of(|load| load.per_second),
            p50_us: of(|load| load.p50_us),
            p99_us: of(|load| load.p99_us),
            cpu_us_per_call: of(|load| load.cpu_us_per_call),
        }
    };
    let ratios = rounds.iter().map(|(toolgate, bare)| toolgate.per_second / bare.per_second);
    Row {
        in_flight,
        toolgate: side(|round| round.0),
        bare: side(|round| round.1),
        ratio: median(ratios.clone()),
        ratios: [ratios.clone().fold(f64::INFINITY, f64::min), ratios.fold(0.0, f64::max)],
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| `echo` over stdio | in flight | calls/s | p50 us | p99 us | cpu us/call | idle MiB | ratio |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let Row { in_flight, toolgate, bare, ratio, ratios: [low, high] } = row;
            let idle = format!("{:.1}", self.toolgate_idle_mib);
            line(f, "toolgate, recording", *in_flight, toolgate, &idle, &format!("{ratio:.2} ({low:.2}-{high:.2})"))?;
            line(f, "bare rmcp", *in_flight, bare, &format!("{:.1}", self.bare_idle_mib), "1")?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, who: &str, calls: usize, side: &Side, idle: &str, ratio: &str) -> fmt::Result {
    let Side { per_second, p50_us, p99_us, cpu_us_per_call } = side;
    writeln!(
        f,
        "| {who} | {calls} | {per_second:.0} | {p50_us:.0} | {p99_us:.0} | {cpu_us_per_call:.1} | {idle} | {ratio} |"
    )
}
