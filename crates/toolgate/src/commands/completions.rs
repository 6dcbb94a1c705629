//! `toolgate completions`: for the shell.

use std::{io::Write, process::ExitCode};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, problem::Problem, show};

/// Print a completion script
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate")]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, Problem> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "toolgate", &mut script);
        match std::io::stdout().write_all(&script) {
            Err(error) if !show::reader_left(&error) => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}
