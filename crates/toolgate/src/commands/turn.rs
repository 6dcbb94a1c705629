//! `toolgate turn`: several calls at once.

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use clap::Args;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use toolgate_contract::{AgentName, Status};
use toolgate_guard::json;
use toolgate_mcp::bridge::Bridge;
use toolgate_runtime::{Watch, store::Store as _};

use crate::{commands::call, problem::Problem, setup, setup::Place, show};

/// Make the calls of one turn and print their outcomes as a JSON array
///
/// Calls that change nothing run together; each call with an effect runs alone, in order. A failing call never stops
/// the others.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  echo '[{\"tool\": \"get_time\"}, {\"tool\": \"ls\", \"arguments\": {\"path\": \".\"}}]' | toolgate turn")]
pub(crate) struct Turn {
    /// A file with a JSON array of {tool, arguments}; standard input if left out
    file: Option<PathBuf>,
    /// The agent that calls
    #[arg(long, default_value = "default")]
    agent: String,
    /// The directory the agent works in, instead of the configured one
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tool: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Turn {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let text = match &self.file {
            Some(file) => call::text(&format!("@{}", file.display()))?,
            None => call::text("-")?,
        };
        let limits = json::Limits { bytes: 64 * 1024 * 1024, ..json::Limits::default() };
        let wanted =
            json::read(&text, &limits).map_err(|fault| Problem::usage(format!("the turn cannot be read: {fault}")))?;
        let wanted: Vec<Wanted> = serde_json::from_value(wanted).map_err(|error| {
            Problem::usage(format!("the turn is not an array of {{\"tool\", \"arguments\"}}: {error}"))
        })?;

        let opened = place.open(&self.agent, self.workspace.as_deref())?;
        let agent = AgentName::from(&*self.agent);
        let bridge = Bridge::new(&opened.runtime);
        let servers: BTreeSet<String> =
            wanted.iter().flat_map(|wanted| bridge.servers_for(&wanted.tool, &wanted.arguments)).collect();
        let calls = wanted.into_iter().map(|w| opened.runtime.call(&agent, &w.tool, w.arguments)).collect();
        let executor = setup::executor()?;
        let turn = executor.block_on(async {
            // Why one is not there is in the log; its calls say that it is not.
            join_all(servers.iter().map(|server| bridge.connect(server))).await;
            opened.runtime.turn(calls, Watch::default()).await
        });
        executor.block_on(opened.store.close())?;
        executor.shutdown_timeout(setup::PATIENCE);

        show::json(&turn.outcomes)?;
        for fatal in &turn.fatal {
            anstream::eprintln!("fatal: {fatal}");
        }
        let worst = [Status::Failed, Status::Refused, Status::Pending]
            .into_iter()
            .find_map(|status| turn.outcomes.iter().find(|outcome| outcome.status == status));
        Ok(match worst {
            _ if !turn.fatal.is_empty() => ExitCode::FAILURE,
            Some(outcome) => call::exit_code(outcome),
            None => ExitCode::SUCCESS,
        })
    }
}
