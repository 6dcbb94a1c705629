//! `toolgate call`: one call.

use std::{
    fs::File,
    io::{Read, stdin},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use futures_util::future::join_all;
use serde_json::Value;
use toolgate_contract::{AgentName, Outcome, Status};
use toolgate_guard::json;
use toolgate_mcp::bridge::Bridge;
use toolgate_runtime::{Watch, store::Store as _};

use crate::{problem::Problem, setup, setup::Place, show};

/// Make one call and print its outcome as JSON
///
/// The call takes the same road as one that arrives over MCP: checked, decided, recorded.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate call calculator '{\"expression\": \"-(2+3)*4/8\"}'
  toolgate call read '{\"path\": \"README.md\", \"limit\": 20}'
  echo '{\"pattern\": \"fn main\"}' | toolgate call grep -
  toolgate call write @arguments.json")]
pub(crate) struct Call {
    /// The tool's name; `toolgate tools` lists them
    tool: String,
    /// The arguments as a JSON object; `-` reads standard input, `@FILE` a file
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// The agent that calls
    #[arg(long, default_value = "default")]
    agent: String,
    /// The directory the agent works in, instead of the configured one
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Wait so long for people to answer, such as `10m`, before the call is pending
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    /// What to call the effect, so that it happens once however often the call is made
    #[arg(long)]
    key: Option<String>,
    /// What the agent is at; budgets count by it
    #[arg(long)]
    task: Option<String>,
}

impl Call {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let arguments = arguments(&self.arguments)?;
        let opened = place.open(&self.agent, self.workspace.as_deref())?;
        let executor = setup::executor()?;
        let made = opened.runtime.call(&AgentName::from(&*self.agent), &self.tool, arguments);
        let call = toolgate_contract::Call { key: self.key, task: self.task, ..made };
        let hold = self.wait.as_deref().map(setup::span).transpose()?.unwrap_or_default();
        let watch = Watch { hold, ..Watch::default() };
        let stop = watch.cancel.clone();
        let outcome = executor.block_on(async {
            // The first Ctrl-C cancels the call, so that its end is recorded.
            tokio::spawn(async move {
                if tokio::signal::ctrl_c().await.is_ok() {
                    stop.cancel();
                }
            });
            // Only the server whose tool it is. Why it is not there is in the log; the call says that it is not.
            let bridge = Bridge::new(&opened.runtime);
            let servers = bridge.servers_for(&call.tool, &call.arguments);
            join_all(servers.iter().map(|server| bridge.connect(server))).await;
            opened.runtime.invoke(call, watch).await
        });
        executor.block_on(opened.store.close())?;
        executor.shutdown_timeout(setup::PATIENCE);
        show::json(&outcome)?;
        Ok(exit_code(&outcome))
    }
}

/// What the exit status says about an outcome.
pub(crate) fn exit_code(outcome: &Outcome) -> ExitCode {
    ExitCode::from(match outcome.status {
        Status::Done => 0,
        Status::Failed => 1,
        Status::Refused => 3,
        Status::Pending => 4,
    })
}

/// What is read from a command line, a file or a pipe.
pub(crate) const MOST: json::Limits = json::Limits { bytes: 64 * 1024 * 1024, depth: 64 };

/// Arguments as given on the command line.
pub(crate) fn arguments(given: &str) -> Result<Value, Problem> {
    let text = text(given)?;
    json::read(&text, &MOST).map_err(|fault| Problem::usage(format!("the arguments cannot be read: {fault}")))
}

/// A text given directly, as `@FILE`, or as `-` for standard input. No more is read than may be used.
pub(crate) fn text(given: &str) -> Result<Vec<u8>, Problem> {
    let source: Box<dyn Read> = match given.strip_prefix('@') {
        Some(file) => {
            Box::new(File::open(file).map_err(|error| Problem::usage(format!("`{file}` cannot be read: {error}")))?)
        }
        None if given == "-" => Box::new(stdin().lock()),
        None => return Ok(given.as_bytes().to_vec()),
    };
    let mut text = Vec::new();
    let most = u64::try_from(MOST.bytes).unwrap_or(u64::MAX);
    source.take(most + 1).read_to_end(&mut text)?;
    Ok(text)
}
