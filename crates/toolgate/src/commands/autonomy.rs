//! `toolgate autonomy`: what agents do unasked, and what holds them back.

use std::{collections::BTreeSet, process::ExitCode};

use clap::{Args, Subcommand};
use serde::Serialize;
use toolgate_contract::{ActionType, AgentName, Fault, Latch, LatchKind, Scope, nearest};
use toolgate_gate::{Agent, Autonomy as Preset, Policy};

use crate::{
    person,
    problem::Problem,
    setup::{Opened, Place},
    show,
};

/// See what agents do without asking, and let go of one that is held back
///
/// Autonomy never permits anything: it says which of the permitted actions are done unasked. An agent that goes wrong is
/// held to less until a person lets go.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate autonomy
  toolgate autonomy show coder
  toolgate autonomy release coder budget_exhausted

Whoever lets go is the user of this process, or the person whose token is in TOOLGATE_TOKEN.")]
pub(crate) struct Autonomy {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show all agents, or one with everything it does unasked
    Show {
        /// The agent
        agent: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Let go of an agent that is held back
    Release {
        /// The agent
        agent: String,
        /// For what: `error_rate`, `budget_exhausted` or `security_incident`
        kind: String,
    },
}

impl Autonomy {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let show = Command::Show { agent: None, json: self.json };
        place.with_house(async |opened| run(self.command.unwrap_or(show), opened).await)
    }
}

async fn run(command: Command, opened: &Opened) -> Result<(), Problem> {
    let policy = &opened.runtime.config().policy;
    match command {
        Command::Show { agent: None, json } => {
            let mut rows = Vec::new();
            for agent in policy.agents.values() {
                rows.push(Row::of(opened, agent).await?);
            }
            if show::wants_json(json) { show::json(&rows) } else { overview(&rows) }
        }
        Command::Show { agent: Some(agent), json } => {
            let row = Row::of(opened, find(policy, &agent)?).await?;
            if show::wants_json(json) { show::json(&row) } else { page(&row, policy) }
        }
        Command::Release { agent, kind } => {
            let agent = &find(policy, &agent)?.name;
            let kind = read(&kind)?;
            let by = person::acting(&*opened.state, Scope::Admin).await?;
            if !opened.runtime.means().release(agent, kind, &by).await? {
                let message = format!("agent `{agent}` is not held back for `{kind}`");
                return Err(Fault::failed("not_held_back", message, "See what it is held back for with `show`.").into());
            }
            show::line(&format!("{agent} is no longer held back for {kind}: {by} let go"))
        }
    }
}

/// What one agent does unasked.
#[derive(Serialize)]
struct Row {
    agent: AgentName,
    /// What the config gives it.
    given: String,
    /// What holds now.
    autonomy: String,
    /// The line that says so.
    source: String,
    unasked: BTreeSet<ActionType>,
    /// What it is held back for.
    held_back: Vec<Latch>,
}

impl Row {
    async fn of(opened: &Opened, agent: &Agent) -> Result<Self, Problem> {
        let latches = opened.runtime.means().latches(&agent.name).await?;
        let held_back: Vec<Latch> = latches.into_iter().filter(Latch::holds).collect();
        let kinds: Vec<LatchKind> = held_back.iter().map(|latch| latch.kind).collect();
        let policy = &opened.runtime.config().policy;
        let held = policy.downgrades.hold(agent, &kinds, &policy.actions).autonomy;
        let Preset { name, auto, .. } = held.value;
        Ok(Self {
            agent: agent.name.clone(),
            given: agent.autonomy.value.name.clone(),
            autonomy: name,
            source: held.source.to_string(),
            unasked: auto,
            held_back,
        })
    }

    fn why(&self) -> String {
        let latch = |latch: &Latch| format!("{}: {}", latch.kind, latch.why);
        self.held_back.iter().map(latch).collect::<Vec<_>>().join("; ")
    }
}

fn overview(rows: &[Row]) -> Result<(), Problem> {
    let row = |row: &Row| {
        let cells = [row.agent.to_string(), row.autonomy.clone(), row.given.clone(), row.source.clone(), row.why()];
        cells.map(|cell| show::plain(&cell).into_owned())
    };
    show::table(["AGENT", "AUTONOMY", "GIVEN", "BECAUSE OF", "HELD BACK FOR"], rows.iter().map(row))
}

fn page(row: &Row, policy: &Policy) -> Result<(), Problem> {
    show::line(&format!("{}: autonomy {} ({}), given {}", row.agent, row.autonomy, row.source, row.given))?;
    for latch in &row.held_back {
        let since = show::when(latch.since_ms);
        show::line(&format!("held back for {} since {since}: {}", latch.kind, show::plain(&latch.why)))?;
    }
    let names = |actions: &mut dyn Iterator<Item = ActionType>| {
        let names: Vec<String> = actions.map(|action| action.to_string()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
    };
    show::line(&format!("unasked    {}", names(&mut row.unasked.iter().cloned())))?;
    let mut asked = policy.actions.all().filter(|action| !row.unasked.contains(action));
    show::line(&format!("asked      {}", names(&mut asked)))
}

fn find<'a>(policy: &'a Policy, name: &str) -> Result<&'a Agent, Problem> {
    policy.agents.get(&AgentName::from(name)).ok_or_else(|| {
        let remedy = match nearest(name, policy.agents.keys().map(|agent| &*agent.0)) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => "Name an agent of the config.".to_owned(),
        };
        Fault::refused("unknown_agent", format!("there is no agent `{}`", show::plain(name)), remedy).into()
    })
}

fn read(kind: &str) -> Result<LatchKind, Problem> {
    LatchKind::parse(kind).ok_or_else(|| {
        let known: Vec<_> = LatchKind::ALL.iter().map(|kind| kind.as_str()).collect();
        Problem::usage(format!("`{kind}` is nothing an agent is held back for: write `{}`", known.join("`, `")))
    })
}
