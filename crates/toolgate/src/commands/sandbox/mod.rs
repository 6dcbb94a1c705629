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
use toolgate_contract::Fault;
use toolgate_runtime::{
    docker_settings,
    sandbox::{
        DockerBackend,
        registry::{self, Listed, Swept},
    },
};

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
    /// Every start of a room does the same. Rooms of living processes and of other deployments are never touched. Containers
    /// are looked for where the config has tools in them.
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
            Command::Sweep { json } => sweep(place, json),
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

fn sweep(place: &Place, json: bool) -> Result<ExitCode, Problem> {
    let data = place.data_dir()?;
    let mut swept = registry::sweep(&data)?;
    let containers = remove_containers(place, &data).unwrap_or_else(|fault| {
        swept.problems.push(format!("containers: {}", fault.message));
        0
    });
    if show::wants_json(json) {
        let mut told = json!(swept);
        told["containers"] = json!(containers);
        show::json(&told)?;
    } else {
        let Swept { rooms, processes, cgroups, dirs, problems } = &swept;
        let line = match rooms + processes + cgroups + dirs + containers {
            0 => "nothing was left over".to_owned(),
            _ => format!(
                "removed: rooms {rooms}, processes {processes}, control groups {cgroups}, directories {dirs}, containers \
                 {containers}"
            ),
        };
        show::line(&line)?;
        problems.iter().try_for_each(|problem| show::line(&format!("stays: {problem}")))?;
    }
    Ok(if swept.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the containers of processes that died, and says how many. A config that cannot be read has no tools in any.
fn remove_containers(place: &Place, data: &Path) -> Result<usize, Fault> {
    match place.config() {
        Ok(config) if config.in_containers().next().is_some() => {
            Ok(DockerBackend::sweep(data, docker_settings(&config.containers))?)
        }
        Ok(_) | Err(_) => Ok(0),
    }
}
