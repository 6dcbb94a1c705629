//! `toolgate sandbox`: rooms for any command, and the rooms there are.

mod run;
mod signals;
mod streams;
mod terminal;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolgate_runtime::sandbox::registry::{self, Listed, Swept};

use crate::{problem::Problem, setup::Place, show};

/// Run a command in a room of its own; list the rooms there are; clean up after those who died
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate sandbox run -- npm test
  toolgate sandbox run --net crates.io:443 --net static.crates.io:443 -- cargo fetch
  toolgate sandbox list")]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    /// The rooms of this deployment that are open, or were left over by a process that died
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Remove what processes of this deployment left behind when they died
    ///
    /// Every start of a room does the same. Rooms of living processes and of other deployments are never touched.
    Sweep {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
}

impl Sandbox {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self.command {
            Command::Run(run) => run.run(place),
            Command::List { json } => list(&place.data_dir()?, json),
            Command::Sweep { json } => sweep(&place.data_dir()?, json),
        }
    }
}

fn list(data: &Path, json: bool) -> Result<ExitCode, Problem> {
    let rooms = registry::list(data)?;
    if show::wants_json(json) {
        show::json(&rooms.iter().map(entry).collect::<Vec<_>>())?;
    } else {
        show::table(["ROOM", "OWNER", "TIER", "AGE", "PID", "STATE"], rooms.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(listed: &Listed) -> Value {
    let Listed { pid, is_alive, room } = listed;
    json!({
        "id": room.id, "owner": room.owner, "backend": room.backend, "tier": room.tier,
        "age_ms": age(listed).as_millis(), "pid": pid, "keeper_pid": room.keeper_pid, "spec": room.spec_hash,
        "state": state(*is_alive),
    })
}

fn row(listed: &Listed) -> [String; 6] {
    let Listed { pid, is_alive, room } = listed;
    [
        room.id.clone(),
        show::plain(&room.owner).into_owned(),
        room.tier.clone(),
        format!("{} s", age(listed).as_secs()),
        pid.to_string(),
        state(*is_alive).replace('_', " "),
    ]
}

fn age(listed: &Listed) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(listed.room.opened_at_ms))
}

fn state(is_alive: bool) -> &'static str {
    if is_alive { "alive" } else { "left_over" }
}

fn sweep(data: &Path, json: bool) -> Result<ExitCode, Problem> {
    let swept = registry::sweep(data)?;
    if show::wants_json(json) {
        show::json(&swept)?;
    } else {
        let Swept { rooms, processes, cgroups, dirs, problems } = &swept;
        let line = match rooms + processes + cgroups + dirs {
            0 => "nothing was left over".to_owned(),
            _ => format!("removed: rooms {rooms}, processes {processes}, control groups {cgroups}, directories {dirs}"),
        };
        show::line(&line)?;
        problems.iter().try_for_each(|problem| show::line(&format!("stays: {problem}")))?;
    }
    Ok(if swept.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
