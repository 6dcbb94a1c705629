//! `toolgate`, the command line: one file per command under `commands/`.
//!
//! It translates: arguments in, an outcome or a page out. What a call may do is decided by the runtime, on the one
//! road every caller takes.

mod commands;
mod images;
mod jsonc;
mod person;
mod problem;
mod setup;
mod show;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use tracing_subscriber::EnvFilter;

use crate::{commands::Command, setup::Place};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The tool runtime for AI agents.
///
/// An agent asks for a tool. Toolgate decides whether it may, runs it where it cannot leave, cleans what comes back,
/// and writes down what happened.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 done, 1 failed, 2 usage or config, 3 refused, 4 a person is asked.

Files:
  ~/.config/toolgate/toolgate.yaml   your config (trusted)
  /etc/toolgate/toolgate.yaml        the administrator's config; nobody loosens what it says
  ./toolgate.yaml                    the project's config; it may only tighten until you trust it
  $TOOLGATE_DATA_DIR                 the record and its keys; else $XDG_DATA_HOME/toolgate,
                                     else ~/.local/share/toolgate

Try:
  toolgate call calculator '{\"expression\": \"2 * (3 + 4)\"}'
  toolgate tools
  toolgate audit tail";

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The SDK logs whole requests, and arguments belong into the record alone.
    let filter = std::env::var("TOOLGATE_LOG").unwrap_or_else(|_| "warn".to_owned());
    // Standard output belongs to answers and to MCP messages; logs go to stderr.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("{filter},rmcp=off")))
        .with_writer(std::io::stderr)
        .init();
    match cli.command.run(&cli.place) {
        Ok(code) => code,
        Err(problem) => {
            anstream::eprintln!("{problem}");
            problem.exit_code()
        }
    }
}
