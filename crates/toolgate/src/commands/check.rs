//! `toolgate check`: is this config right?

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;
use toolgate_runtime::{
    built_in_tools,
    config::{self, CheckReport, ConfigError},
};

use crate::{problem::Problem, setup::Place, show};

/// Check a config file: file, line, column, and what to write instead
///
/// With --trust, a project's file that is right is trusted as it is now: it may then widen what the built-in defaults
/// and your own config permit, until it changes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate check ~/.config/toolgate/toolgate.yaml
  toolgate check --trust toolgate.yaml")]
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
        let report = match self.check(place, &place.data_dir()?) {
            Ok(report) => report,
            Err(errors) => {
                if show::wants_json(self.json) {
                    show::json(&json!({ "ok": false, "trusted": false, "errors": errors, "notes": [] }))?;
                }
                return Err(errors.into());
            }
        };
        if show::wants_json(self.json) {
            show::json(&json!({ "ok": true, "trusted": self.trust, "errors": [], "notes": report.notes }))?;
        } else {
            for note in &report.notes {
                show::line(&format!("{}:{}: note: {}", note.file, note.line, note.text))?;
            }
            let trusted = if self.trust { ", and trusted as it is now" } else { "" };
            show::line(&format!("{} is right{trusted}", self.file.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The examples of rules that do not hold. A file that does not stand by itself is tried when it is loaded with the
    /// others.
    fn wrong_examples(&self, place: &Place) -> Vec<ConfigError> {
        place.try_out(Some(&self.file)).map(|runtime| runtime.wrong_examples()).unwrap_or_default()
    }

    /// What is wrong is not trusted.
    fn check(&self, place: &Place, data_dir: &Path) -> Result<CheckReport, Vec<ConfigError>> {
        let report = config::check_file(&self.file)?;
        let tools = built_in_tools();
        let mut unknown = report.check_tools(tools.iter().map(|tool| &*tool.def.name));
        let schema = |name: &str| tools.iter().find(|tool| tool.def.name == name).map(|tool| &tool.def.input_schema);
        unknown.extend(report.check_arguments(schema));
        if unknown.is_empty() && report.has_examples {
            unknown.extend(self.wrong_examples(place));
        }
        if !unknown.is_empty() {
            return Err(unknown);
        }
        match self.trust {
            true => config::trust_file(data_dir, &self.file),
            false => Ok(report),
        }
    }
}
