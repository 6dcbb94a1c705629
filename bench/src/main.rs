//! Side-by-side benchmarks: Toolgate and the bare thing it could be replaced with, in the same run, as ratios.
//!
//! Absolute numbers belong to one machine on one day; a ratio of neighbours measured in turns is what a change can be
//! judged by. Run it on release builds: `cargo run --release -p toolgate-bench -- all`.

mod clean;
mod containers;
mod disclosure;
mod echo;
mod egress;
mod grep;
mod guard;
mod http;
mod lines;
mod policy;
mod rooms;
mod secrets;
mod server;

use std::{
    io::{Write as _, stdout},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, ensure};
use clap::{Args, Parser, Subcommand};
use serde_json::json;

#[derive(Debug, Parser)]
#[command(about = "Toolgate beside the bare thing, as ratios")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// `echo` over MCP, by pipes and HTTP, also of a server behind it: Toolgate, with the record on, beside the bare SDK and others
    Echo(Options),
    /// A search of a large tree: the `grep` tool beside ripgrep
    Grep(Options),
    /// Both of these
    All(Options),
    /// A program in a room, cold and warm, beside a bare `posix_spawn` of it
    Rooms(rooms::Options),
    /// A call in a container, warm and cold, beside `docker exec` and `docker run`
    Containers(containers::Options),
    /// The judged client beside plain reqwest, on loopback
    Egress(egress::Options),
    /// What the guard sees and what it mistakes, on labelled sets
    Guard(guard::Options),
    /// A decision under many rules, beside Cedar where that is built in
    Policy(policy::Options),
    /// What a client is shown of many tools, beside all of them
    Disclosure(disclosure::Options),
}

#[derive(Debug, Clone, Args)]
struct Options {
    /// Rounds; in each, both sides are measured one after the other
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds each measurement of `echo` lasts
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Search this directory instead of a generated one
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Search for this instead of a word that is in every hundredth file
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().what {
        What::Echo(options) => measure_servers(&options, true, false),
        What::Grep(options) => measure_servers(&options, false, true),
        What::All(options) => measure_servers(&options, true, true),
        What::Rooms(options) => measure_rooms(&options),
        What::Containers(options) => measure_containers(&options),
        What::Egress(options) => measure_egress(&options),
        What::Guard(options) => measure_guard(&options),
        What::Policy(options) => measure_policy(&options),
        What::Disclosure(options) => measure_disclosure(&options),
    }
}

fn measure_rooms(options: &rooms::Options) -> anyhow::Result<()> {
    let report = rooms::measure(options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "rooms": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_containers(options: &containers::Options) -> anyhow::Result<()> {
    let report = containers::measure(options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "containers": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_egress(options: &egress::Options) -> anyhow::Result<()> {
    let report = egress::measure(options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "egress": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_guard(options: &guard::Options) -> anyhow::Result<()> {
    let report = guard::measure(&build()?, options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "guard": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_policy(options: &policy::Options) -> anyhow::Result<()> {
    let report = policy::measure(options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "policy": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_disclosure(options: &disclosure::Options) -> anyhow::Result<()> {
    let report = disclosure::measure(options)?;
    let mut out = stdout().lock();
    match options.json {
        true => writeln!(out, "{:#}", json!({ "disclosure": report }))?,
        false => writeln!(out, "{report}")?,
    }
    Ok(())
}

fn measure_servers(options: &Options, echo: bool, grep: bool) -> anyhow::Result<()> {
    let programs = build()?;
    let echo = echo.then(|| echo::measure(&programs, options)).transpose()?;
    let grep = grep.then(|| grep::measure(&programs, options)).transpose()?;
    let mut out = stdout().lock();
    if options.json {
        writeln!(out, "{:#}", json!({ "echo": echo, "grep": grep }))?;
        return Ok(());
    }
    if let Some(report) = echo {
        writeln!(out, "{report}")?;
    }
    if let Some(report) = grep {
        writeln!(out, "{report}")?;
    }
    Ok(())
}

/// What is measured.
#[derive(Debug)]
pub(crate) struct Programs {
    toolgate: PathBuf,
    /// The bare SDK, as a server and as a proxy.
    bare: PathBuf,
    /// Where `peers.sh` and the tests put what others wrote.
    peers: PathBuf,
}

/// Builds both sides the same way, so that neither is measured as a debug build.
fn build() -> anyhow::Result<Programs> {
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).context("the benchmark does not run from a target directory")?;
    let bare = target.join("bare");
    let workspace = ["-p", "toolgate"].map(PathBuf::from);
    let own = ["--manifest-path".into(), concat!(env!("CARGO_MANIFEST_DIR"), "/bare/Cargo.toml").into()];
    for (what, into) in [(workspace, target), (own, &bare)] {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(cargo);
        cargo.args(["build", "--release", "--quiet", "--bins", "--target-dir"]).arg(into).args(what);
        ensure!(cargo.status().context("cargo could not be started")?.success(), "the release build failed");
    }
    let toolgate = target.join("release/toolgate");
    Ok(Programs { toolgate, bare: bare.join("release/bare"), peers: target.join("peers") })
}
