//! `toolgate effects`: what was to happen once, and what became of it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use toolgate_contract::{AgentName, Once, OnceKey, OnceState, Resolution, Scope};
use toolgate_guard::shell::ir::visible;
use toolgate_runtime::{once::Effects as Kept, store::state::EffectFilter};

use crate::{
    person,
    problem::Problem,
    setup::{Opened, Place},
    show,
};

/// At most so many are listed.
const MOST: u32 = 1_000;

/// See effects that happen once, and say what became of those nobody knows about
///
/// A call with a key takes effect once. When a program dies in the middle of it, or no certain answer comes, the effect is
/// `unknown`: it is not tried again until its tool finds out what became of it, or a person does and says so here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate effects
  toolgate effects list --all
  toolgate effects resolve coder http_request order-17 --happened --note 'seen in the shop'
  toolgate effects resolve coder http_request order-18 --did-not-happen

Whoever resolves one is the user of this process, or the person whose token is in TOOLGATE_TOKEN.")]
pub(crate) struct Effects {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List those that are being tried, and those nobody knows about
    List {
        /// Also those whose end is known
        #[arg(long)]
        all: bool,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Say what became of one nobody knows about
    ///
    /// One that happened is never tried again, and the same call is answered with the note. One that did not happen is
    /// tried when the call is made again.
    Resolve {
        /// The agent
        agent: String,
        /// The tool
        tool: String,
        /// What the caller called it
        key: String,
        #[command(flatten)]
        found: Found,
        /// What the caller is told
        #[arg(
            long,
            value_name = "TEXT",
            conflicts_with = "did_not_happen",
            default_value = "a person found that it happened"
        )]
        note: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Found {
    /// It happened
    #[arg(long)]
    happened: bool,
    /// It did not happen
    #[arg(long)]
    did_not_happen: bool,
}

impl Effects {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let list = Command::List { all: false, json: self.json };
        place.with_house(async |opened| run(self.command.unwrap_or(list), opened).await)
    }
}

async fn run(command: Command, opened: &Opened) -> Result<(), Problem> {
    let effects = opened.runtime.effects().ok_or_else(|| Problem::usage("this runtime keeps no keys"))?;
    match command {
        Command::List { all, json } => list(effects, all, json).await,
        Command::Resolve { agent, tool, key, found, note } => {
            let by = person::acting(&*opened.state, Scope::Admin).await?;
            let key = OnceKey { agent: AgentName::from(&*agent), tool, key };
            effects.resolve(&key, &by, found.happened, &note).await?;
            let outlook = match found.happened {
                true => "happened: it is not tried again",
                false => "did not happen: the same call tries it",
            };
            show::line(&format!("{} {} {} {outlook}", key.agent, visible(&key.tool), visible(&key.key)))
        }
    }
}

async fn list(effects: &Kept, all: bool, json: bool) -> Result<(), Problem> {
    let states = if all { Vec::new() } else { vec![OnceState::Running, OnceState::Unknown] };
    let found = effects.list(EffectFilter { states, agent: None, limit: MOST }).await?;
    if show::wants_json(json) {
        return show::json(&found);
    }
    let row = |once: &Once| {
        let said = once.resolved.as_ref().map(|resolved| match &resolved.resolution {
            Resolution::Happened(_) => format!("{}: it happened", resolved.by),
            Resolution::DidNotHappen => format!("{}: it did not happen", resolved.by),
        });
        [
            once.key.agent.to_string(),
            visible(&once.key.tool),
            visible(&once.key.key),
            once.state.to_string(),
            once.attempt.to_string(),
            show::when(once.changed_ms),
            said.unwrap_or_default(),
        ]
    };
    show::table(["AGENT", "TOOL", "KEY", "STATE", "TRIES", "CHANGED", "FOUND OUT"], found.iter().map(row))
}
