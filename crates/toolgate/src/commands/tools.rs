//! `toolgate tools`: the catalog as an agent sees it.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use toolgate_contract::{AgentName, DISCOVERY, Digest, ToolDef};
use toolgate_mcp::bridge::Bridge;
use toolgate_runtime::{Listed, Spared};

use super::pins::Pins;
use crate::{
    problem::Problem,
    setup::{self, Place},
    show,
};

/// List the tools an agent may use, and pin those of others
///
/// A tool of another origin is shown and called only while its definition is the one a person has pinned.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  toolgate tools
  toolgate tools --level l2 --json
  toolgate tools --shown
  toolgate tools pins
  toolgate tools diff weather__forecast"
)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pins: Option<Pins>,
    /// The agent that asks
    #[arg(long, default_value = "default")]
    agent: String,
    /// How much to tell: l1 is a line per tool, l2 the whole definition
    #[arg(long, value_enum, default_value_t = Level::L1)]
    level: Level,
    /// Tell what a client is shown at first, and how many tokens that saves
    #[arg(long, conflicts_with = "level")]
    shown: bool,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    L1,
    L2,
}

impl Tools {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        if let Some(pins) = self.pins {
            return pins.run(place);
        }
        let runtime = place.look(&self.agent)?;
        let executor = setup::executor()?;
        let bridge = Bridge::new(&runtime);
        executor.block_on(bridge.connect_all());
        let agent = AgentName::from(&*self.agent);
        if self.shown {
            let spared = runtime.spared(&agent)?;
            match show::wants_json(self.json) {
                true => show::json(&spared)?,
                false => show::line(&told(&spared))?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let tools = runtime.definitions(&agent)?;
        if show::wants_json(self.json) {
            show::json(&tools.iter().map(|tool| self.level.json(tool)).collect::<Vec<_>>())?;
        } else if self.level == Level::L1 {
            let row = |tool: &Listed| {
                let def = &tool.def;
                [def.name.to_string(), def.category.to_string(), def.safety.to_string(), def.summary.to_string()]
            };
            show::table(["TOOL", "CATEGORY", "CLASS", "WHAT IT DOES"], tools.iter().map(row))?;
        } else {
            for tool in &tools {
                show::line(&page(&tool.def, tool.digest))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Level {
    fn json(self, tool: &Listed) -> Value {
        let def = &tool.def;
        match self {
            Self::L1 => json!({
                "name": def.name,
                "summary": def.summary,
                "category": def.category,
                "action": def.action,
                "class": def.safety,
                "cost": def.cost,
                "definition": tool.digest,
            }),
            Self::L2 => {
                let mut whole = json!(def);
                whole["definition"] = json!(tool.digest);
                whole
            }
        }
    }
}

fn told(spared: &Spared) -> String {
    let Spared { disclosed, tools, shown, tokens_of_all, tokens_shown, saved_percent } = spared;
    match disclosed {
        false => format!("all of {tools} tools, {tokens_of_all} tokens"),
        true => format!(
            "{} of {tools} tools and what finds the others, {tokens_shown} of {tokens_of_all} tokens, {saved_percent} % saved:\n  {}",
            shown.len() - DISCOVERY.len().min(shown.len()),
            shown.join("\n  ")
        ),
    }
}

fn page(def: &ToolDef, digest: Digest) -> String {
    let mut page = format!("{}\n  {}\n\n", def.name, def.description.replace('\n', "\n  "));
    page += &format!("  category {}, action {}, class {}\n", def.category, def.action, def.safety);
    page += &format!("  definition {digest}\n");
    page += &format!("  input {}\n", def.input_schema);
    for example in &def.examples {
        page += &format!("  example: {}\n    {}\n", example.title, example.arguments);
    }
    for failure in &def.failures {
        page += &format!("  fails with {}: {}\n", failure.code, failure.when);
    }
    page
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{Example, FailureMode};

    use super::*;

    #[test]
    fn a_page_tells_every_example_and_every_way_to_fail() {
        let example = Example { title: "Say hello".into(), arguments: json!({ "text": "hello" }) };
        let failure = FailureMode { code: "too_loud".into(), when: "It was shouted; say it.".into() };
        let def = ToolDef { examples: vec![example], failures: vec![failure], ..ToolDef::default() };
        let page = page(&def, Digest::of(b"def"));
        let told = "  example: Say hello\n    {\"text\":\"hello\"}\n  fails with too_loud: It was shouted; say it.\n";
        assert!(page.ends_with(told), "{page}");
    }
}
