//! `toolgate serve`: the main job.

use std::{
    io::{IsTerminal, stdin},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use toolgate_console::Console;
use toolgate_contract::AgentName;
use toolgate_mcp::bridge::Bridge;
use toolgate_runtime::store::Store as _;

use crate::{problem::Problem, setup, setup::Place, show};

/// Where the console is unless somebody says otherwise.
const CONSOLE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7433);

/// Where MCP is on the console's port, for agents and for people.
const MCP: &str = "/mcp";
const MANAGE: &str = "/manage/mcp";

/// Serve the tools to an MCP client, and the console to people
///
/// With no config it starts safe and useful: one agent, `default`, at level standard, in the current directory. When
/// standard input is a pipe it speaks MCP there; on a terminal it prints what to paste into an MCP client and serves the
/// console: an HTTP API, a page on which people watch calls and answer questions, MCP over HTTP at `/mcp`, for agents
/// with a token, and at `/manage/mcp` what people manage all this with, for people with a token. The link to log in is
/// printed once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate serve                                   the console, and what to paste into a client
  toolgate serve --stdio --workspace ~/project     what the client runs
  toolgate serve --stdio --http 127.0.0.1:7433     the same, with the console
  toolgate serve --http 0.0.0.0:7433 --http-host https://tools.example.org    behind a proxy that does TLS")]
pub(crate) struct Serve {
    /// Speak MCP on standard input and output, also on a terminal
    #[arg(long)]
    stdio: bool,
    /// Serve the console at this address; on a terminal 127.0.0.1:7433 if left out
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Another name the console is reached under: a host name, or an origin such as https://tools.example.org
    #[arg(long, value_name = "HOST", requires = "http")]
    http_host: Vec<String>,
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
        let (watched, asked) = (stdin().is_terminal(), self.http.is_some());
        let speaks_mcp = self.stdio || (!watched && !asked);
        let http = self.http.or((!speaks_mcp).then_some(CONSOLE));
        let executor = setup::executor()?;
        let bridge = Bridge::new(&opened.runtime);
        let shows_page = watched && !self.stdio;
        match shows_page {
            true => drop(executor.block_on(bridge.connect_all())),
            // A client is answered at once, and waits for tools only when it asks for them.
            false => executor.block_on(async { bridge.begin_all() }),
        }
        let tools = opened.runtime.definitions(&agent)?;
        if shows_page {
            let names: Vec<_> = tools.iter().map(|tool| &*tool.def.name).collect();
            show::line(&self.page(place, &opened, &names)?)?;
        }
        let served = executor.block_on(async {
            let stop = CancellationToken::new();
            let (runtime, ended) = (opened.runtime.clone(), stop.clone());
            let tending = tokio::spawn(async move { runtime.tend(ended).await });
            let console = match http {
                Some(address) => Some(self.console(place, &opened, address, stop.clone()).await?),
                None => None,
            };
            let served = if speaks_mcp {
                let edge = match &console {
                    Some(console) => console.edge.clone(),
                    None => toolgate_mcp::Edge::from(opened.runtime.clone()),
                };
                let served = toolgate_mcp::serve_stdio(edge, agent).await;
                served.map_err(|error| Problem::usage(format!("MCP on standard input and output failed: {error}")))
            } else {
                told_to_stop().await
            };
            stop.cancel();
            // It stops at once; whether it broke down before is in the log.
            let _ = tending.await;
            let console = match console {
                Some(console) => console.served.await,
                None => Ok(()),
            };
            // Also calls that no connection waits for: tasks, and those that wait for answers.
            opened.runtime.close().await;
            console.map_err(|error| Problem::usage(format!("the console failed: {error}")))?;
            served
        });
        drop(bridge);
        executor.block_on(opened.store.close())?;
        executor.shutdown_timeout(setup::PATIENCE);
        served.map(|()| ExitCode::SUCCESS)
    }

    /// Opens the console, prints how to get in, and serves it until it is told to stop.
    async fn console(
        &self,
        place: &Place,
        opened: &setup::Opened,
        address: SocketAddr,
        stop: CancellationToken,
    ) -> Result<Open, Problem> {
        let setup = toolgate_console::Setup {
            runtime: opened.runtime.clone(),
            state: opened.state.clone(),
            store: opened.store.clone(),
            data_dir: place.data_dir()?,
            hosts: self.http_host.clone(),
        };
        let console = Console::bind(setup, address).await.map_err(|error| {
            Problem::usage(format!(
                "the console cannot be served at {address}: {error}; choose another with --http ADDR"
            ))
        })?;
        let url = console.url().to_owned();
        let edge = toolgate_mcp::Edge::new(opened.runtime.clone(), Some(url.clone()));
        let mcp = toolgate_mcp::http(edge.clone(), stop.clone());
        let managed = toolgate_mcp::manage::Setup {
            runtime: opened.runtime.clone(),
            state: opened.state.clone(),
            store: opened.store.clone(),
            data_dir: place.data_dir()?,
        };
        let manage = toolgate_mcp::manage::http(managed, stop.clone());
        let console = console.mount(MCP, toolgate_mcp::MAX_BODY, mcp);
        let console = console.mount_for_people(MANAGE, toolgate_mcp::MAX_BODY, manage);
        if !console.address().ip().is_loopback() {
            tracing::warn!(
                "the console is reached from other machines, without TLS: put a proxy before it that does it"
            );
        }
        // Not on standard output: that belongs to MCP.
        let link = console.login_link(&setup::person()).await?;
        anstream::eprintln!("Console: {url}\nLog in once, within ten minutes: {link}\n{}", self.paste(&url));
        Ok(Open { served: tokio::spawn(console.serve(stop)), edge })
    }

    /// What to paste into a client that speaks MCP over HTTP.
    fn paste(&self, url: &str) -> String {
        let headers = json!({ "Authorization": "Bearer TOKEN" });
        let server = json!({ "type": "http", "url": format!("{url}{MCP}"), "headers": headers });
        let paste = json!({ "mcpServers": { "toolgate": server } });
        format!(
            "MCP: {url}{MCP}\nToken: toolgate tokens add --agent {}\nClient: {paste}\nManage: {url}{MANAGE} with a token \
             of a person: toolgate tokens add --person NAME",
            self.agent
        )
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

Then the client starts Toolgate by itself. To see what happened: toolgate audit tail, or the console.",
            version = env!("CARGO_PKG_VERSION"),
            count = tools.len(),
            workspace = workspace.display(),
            record = data_dir.display(),
            tools = tools.join(", "),
        ))
    }
}

/// A console that is served.
struct Open {
    served: tokio::task::JoinHandle<()>,
    edge: toolgate_mcp::Edge,
}

/// Waits for the signals that end a server.
async fn told_to_stop() -> Result<(), Problem> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminated.recv() => {}
    }
    Ok(())
}
