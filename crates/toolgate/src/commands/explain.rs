//! `toolgate explain`: what would be decided, and by which line.

use std::process::ExitCode;

use clap::Args;
use toolgate_contract::{AgentName, Verdict};
use toolgate_runtime::{Whereabouts, sandbox::WorkspaceMode};

use crate::{commands::call, problem::Problem, setup::Place, show};

/// Say what would be decided about a call, and which rule in which file decides
///
/// Nothing runs and nothing is recorded.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolgate explain --agent default delete '{\"path\": \"README.md\"}'")]
pub(crate) struct Explain {
    /// The agent that would call
    #[arg(long, default_value = "default")]
    agent: String,
    /// The tool
    tool: String,
    /// The arguments as a JSON object; `-` reads standard input, `@FILE` a file
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let arguments = call::arguments(&self.arguments)?;
        let runtime = place.look(&self.agent)?;
        let call = runtime.call(&AgentName::from(&*self.agent), &self.tool, arguments);
        let explanation = runtime.explain(&call)?;
        if show::wants_json(self.json) {
            show::json(&explanation)?;
        } else {
            let word = match explanation.decided.verdict {
                Verdict::Allow => "allowed",
                Verdict::Ask => "a person would be asked",
                Verdict::Deny => "refused",
            };
            let mut page = format!("{} for agent {}: {word}\n", self.tool, self.agent);
            for reason in &explanation.decided.reasons {
                page += &format!("  {} [{}] {}\n", reason.source, reason.rule, reason.text);
            }
            if !explanation.to_pass.is_empty() {
                page += "\nto make it pass:\n";
                explanation.to_pass.iter().for_each(|way| page += &format!("  - {way}\n"));
            }
            page +=
                &format!("\naction {}, class {}, risk {}\n", explanation.action, explanation.class, explanation.risk);
            for effect in &explanation.effects {
                page += &format!("effect {:?} {}\n", effect.kind, effect.target.as_deref().unwrap_or(""));
            }
            for sink in &explanation.sinks {
                page += &format!("sink {} from {} ({})\n", sink.argument, sink.from.value, sink.from.source);
            }
            page += &format!("\n{}\n", place_line(&explanation.place));
            show::line(page.trim_end())?;
        }
        Ok(ExitCode::from(match explanation.decided.verdict {
            Verdict::Allow => 0,
            Verdict::Deny => 3,
            Verdict::Ask => 4,
        }))
    }
}

fn place_line(place: &Whereabouts) -> String {
    match place {
        Whereabouts::Here => "runs in Toolgate itself".to_owned(),
        Whereabouts::Nowhere { why, remedy } => format!("would run nowhere: {why}\n{remedy}"),
        Whereabouts::Room { backend, spec } => {
            let files = match spec.workspace.as_ref().map(|workspace| workspace.mode) {
                Some(WorkspaceMode::ReadWrite) => "workspace writable",
                Some(WorkspaceMode::ReadOnly) => "workspace read-only",
                Some(WorkspaceMode::Overlay) => "workspace as an overlay",
                None => "no workspace",
            };
            let network = match spec.egress.opening() {
                Some(opening) => format!("network only to {}", opening.hosts.join(", ")),
                None => "no network".to_owned(),
            };
            let seen: Vec<String> = spec.visible.iter().map(|dir| dir.display().to_string()).collect();
            let seen = if seen.is_empty() { String::new() } else { format!(", sees {}", seen.join(", ")) };
            let room = if *backend == "docker" { "a container" } else { "a room" };
            format!("runs in {room}: {files}, {network}{seen}")
        }
    }
}
