//! `toolgate serve`: the main job.

use std::{
    io::{IsTerminal, stdin},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use serde_json::json;
use toolgate_contract::AgentName;
use toolgate_runtime::store::Store as _;

use crate::{problem::Problem, setup, setup::Place, show};

/// Serve the tools to an MCP client
///
/// With no config it starts safe and useful: one agent, `default`, at level standard, in the current directory. When
/// standard input is a pipe it speaks MCP there; on a terminal it prints what it serves and what to paste into an MCP
/// client.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate serve                                   what is served, and what to paste into a client
  toolgate serve --stdio --workspace ~/project     what the client runs")]
pub(crate) struct Serve {
    /// Speak MCP on standard input and output, also on a terminal
    #[arg(long)]
    stdio: bool,
    /// The agent that is served
    #[arg(long, default_value = "default")]
    agent: String,
    /// The directory the agent works in, instead of the configured one
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let opened = place.open(&self.agent, self.workspace.as_deref())?;
        let agent = AgentName::from(&*self.agent);
        let tools = opened.runtime.definitions(&agent)?;
        if !self.stdio && stdin().is_terminal() {
            let names: Vec<_> = tools.iter().map(|tool| &*tool.def.name).collect();
            show::line(&self.page(place, &opened, &names)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let executor = setup::executor()?;
        let served = executor.block_on(toolgate_mcp::serve_stdio(opened.runtime.clone(), agent));
        executor.block_on(opened.store.close())?;
        executor.shutdown_timeout(setup::PATIENCE);
        served.map_err(|error| Problem::usage(format!("MCP on standard input and output failed: {error}")))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What a person at a terminal wants to know.
    fn page(&self, place: &Place, opened: &setup::Opened, tools: &[&str]) -> Result<String, Problem> {
        let agent = AgentName::from(&*self.agent);
        let config = opened.runtime.config();
        let level = config.policy.agents.get(&agent).map(|agent| agent.level.value.as_str()).unwrap_or_default();
        let workspace = config.agents.get(&agent).map(|settings| settings.workspace.clone()).unwrap_or_default();
        let workspace = workspace.canonicalize().unwrap_or(workspace);
        let files = match config.files.as_slice() {
            [] => "built-in defaults".to_owned(),
            files => files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(", "),
        };
        let mut args = vec!["serve".to_owned(), "--stdio".to_owned()];
        args.extend(["--workspace".to_owned(), workspace.display().to_string()]);
        if self.agent != "default" {
            args.extend(["--agent".to_owned(), self.agent.clone()]);
        }
        if let Some(file) = &place.config {
            let file = file.canonicalize().unwrap_or_else(|_| file.clone());
            args.extend(["--config".to_owned(), file.display().to_string()]);
        }
        let program = std::env::current_exe().map_or_else(|_| "toolgate".to_owned(), |path| path.display().to_string());
        let paste = json!({ "mcpServers": { "toolgate": { "command": program, "args": args } } });
        let data_dir = place.data_dir()?;
        Ok(format!(
            "Toolgate {version} serves {count} tools to agent `{agent}` (level {level})

  workspace  {workspace}
  record     {record}
  config     {files}
  tools      {tools}

Paste this into your MCP client's config:

{paste:#}

Then the client starts Toolgate by itself. To see what happened: toolgate audit tail",
            version = env!("CARGO_PKG_VERSION"),
            count = tools.len(),
            workspace = workspace.display(),
            record = data_dir.display(),
            tools = tools.join(", "),
        ))
    }
}
