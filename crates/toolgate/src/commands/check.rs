//! `toolgate check`: is this config right?

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::json;
use toolgate_runtime::{built_in_tools, config};

use crate::{problem::Problem, setup::Place, show};

/// Check a config file: file, line, column, and what to write instead
///
/// With --trust, a project's file that is right is trusted as it is now: it may then widen what the built-in defaults
/// and your own config permit, until it changes.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The config file
    file: PathBuf,
    /// Trust this exact content from now on
    #[arg(long)]
    trust: bool,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let tools = built_in_tools();
        let checked = config::check_file(&self.file)
            .and_then(|report| match report.config.check_tools(tools.iter().map(|tool| &*tool.def.name)) {
                errors if errors.is_empty() => Ok(report),
                errors => Err(errors),
            });
        let report = match checked {
            Ok(report) => report,
            Err(errors) if show::wants_json(self.json) => {
                show::json(&json!({ "ok": false, "errors": errors, "notes": [] }))?;
                return Err(errors.into());
            }
            Err(errors) => return Err(errors.into()),
        };
        if self.trust {
            config::trust_file(&place.data_dir()?, &self.file)?;
        }
        let file = self.file.display();
        if show::wants_json(self.json) {
            show::json(&json!({ "ok": true, "trusted": self.trust, "errors": [], "notes": report.notes }))?;
        } else {
            for note in &report.notes {
                show::line(&format!("{}:{}: note: {}", note.file, note.line, note.text))?;
            }
            let trusted = if self.trust { ", and trusted as it is now" } else { "" };
            show::line(&format!("{file} is right{trusted}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
