//! `toolgate trust`: what agents have earned, why, and what people have to say about it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use toolgate_contract::{
    AgentName, Category, Difficulty, Evidence, Fact, Level, Part, Person, Scope, Score, TaskOutcome, nearest,
};
use toolgate_gate::trust::{Explained, Need, Next, Pending, Standing};
use toolgate_runtime::{Runtime, Trust as Earned};

use crate::{
    person,
    problem::Problem,
    setup::{Opened, Place},
    show,
};

/// See how far agents are trusted, and say how they did
///
/// Levels are computed from evidence: what people report here, and how calls ended. Nothing else is kept, and every level
/// is explained. The config's block `trust` has the rules; an agent whose level is set there is not moved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate trust
  toolgate trust show coder
  toolgate trust evaluate coder
  toolgate trust feedback coder --category web --task T-17 --outcome success --difficulty medium --quality 8.5
  toolgate trust feedback coder --category web --task T-18 --incident
  toolgate trust promote coder --category web
  toolgate trust identity coder --model big-3

Whoever reports or agrees is the user of this process, or the person whose token is in TOOLGATE_TOKEN.")]
pub(crate) struct Trust {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the levels of all agents, or of one with the steps that led there
    Show {
        /// The agent
        agent: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Say what each next step takes, and what of it is there
    Evaluate {
        /// The agent
        agent: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Report how a task ended, what you think of it, or an incident
    ///
    /// A task counts once, under its name; once it failed it stays failed. Only tasks that are hard enough speak for a
    /// level: easy ones up to `restricted`, medium ones up to `standard`, hard ones up to `elevated`.
    Feedback {
        /// The agent
        agent: String,
        /// Where the work was: `web`, `file_system`, ...
        #[arg(long)]
        category: String,
        /// The name of the task, or of the incident
        #[arg(long, value_name = "ID")]
        task: String,
        /// How it ended: `success` or `failure`
        #[arg(long, required_unless_present = "incident", requires = "difficulty")]
        outcome: Option<String>,
        /// How hard it was: `easy`, `medium` or `hard`
        #[arg(long, requires = "outcome")]
        difficulty: Option<String>,
        /// How good it was, from 0 to 10; 5 speaks neither for nor against
        #[arg(long, value_name = "MARK", requires = "outcome")]
        quality: Option<String>,
        /// Something happened that must not: costs one step, once
        #[arg(long)]
        incident: bool,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Agree to a step that waits for a person
    Promote {
        /// The agent
        agent: String,
        /// Where
        #[arg(long)]
        category: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Say what an agent is now: another model, definition or role costs one step of what it earned
    Identity {
        /// The agent
        agent: String,
        /// The model behind it
        #[arg(long)]
        model: Option<String>,
        /// The name or hash of what it is told to be
        #[arg(long)]
        definition: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
}

impl Trust {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let show = Command::Show { agent: None, json: self.json };
        place.with_house(async |opened| run(self.command.unwrap_or(show), opened).await)
    }
}

async fn run(command: Command, opened: &Opened) -> Result<(), Problem> {
    let trust = opened.runtime.trust();
    match command {
        Command::Show { agent: None, json } => show_all(&opened.runtime, json).await,
        Command::Show { agent: Some(agent), json } => {
            let row = Row::of(&opened.runtime, &AgentName::from(&*agent)).await?;
            if show::wants_json(json) { show::json(&row) } else { page(&row) }
        }
        Command::Evaluate { agent, json } => {
            let row = Row::of(&opened.runtime, &AgentName::from(&*agent)).await?;
            if show::wants_json(json) { show::json(&row.outlook()) } else { outlook_page(&row) }
        }
        Command::Feedback { agent, category, task, outcome, difficulty, quality, incident, json } => {
            let category = read_category(&category)?;
            let report = Report::read(task, outcome.as_deref(), difficulty.as_deref(), quality.as_deref(), incident)?;
            let by = person::acting(&*opened.state, Scope::Admin).await?;
            let agent = AgentName::from(&*agent);
            let before = trust.standing(&agent).await?;
            let evidence = report.send(trust, &agent, category, &by).await?;
            let after = trust.standing(&agent).await?;
            told(&agent, category, &evidence, before.as_ref(), after.as_ref(), json)
        }
        Command::Promote { agent, category, json } => {
            let category = read_category(&category)?;
            let by = person::acting(&*opened.state, Scope::Admin).await?;
            let step = trust.promote(&AgentName::from(&*agent), category, &by).await?;
            if show::wants_json(json) {
                return show::json(&step);
            }
            let Pending { category, from, to } = step;
            let place = category.map_or("all categories".to_owned(), |category| format!("`{category}`"));
            show::line(&format!("{agent} is {to} in {place} now, where it was {from}: {by} agreed"))
        }
        Command::Identity { agent, model, definition, json } => {
            let parts: Vec<(Part, String)> = [(Part::Model, model), (Part::Definition, definition)]
                .into_iter()
                .filter_map(|(part, value)| Some((part, value?)))
                .collect();
            if parts.is_empty() {
                return Err(Problem::usage("name the `--model` or the `--definition` the agent has now"));
            }
            let by = person::acting(&*opened.state, Scope::Admin).await?;
            let agent = AgentName::from(&*agent);
            let mut evidence = Vec::new();
            for (part, value) in parts {
                evidence.push(trust.report(&agent, None, Fact::Identity { part, value }, &by).await?);
            }
            if show::wants_json(json) { show::json(&evidence) } else { show::line(&format!("noted about {agent}")) }
        }
    }
}

// ---- showing ----

/// How one agent stands.
#[derive(Serialize)]
struct Row {
    agent: AgentName,
    strategy: &'static str,
    /// The level it starts from, or is set to.
    start: Level,
    /// None for an agent whose level is set by hand, or never changes.
    #[serde(flatten)]
    standing: Option<Standing>,
}

/// What each next step takes.
#[derive(Serialize)]
struct Outlook<'a> {
    agent: &'a AgentName,
    next: &'a [Next],
    pending: &'a [Pending],
}

impl Row {
    async fn of(runtime: &Runtime, name: &AgentName) -> Result<Self, Problem> {
        let standing = runtime.trust().standing(name).await?;
        let policy = &runtime.config().policy;
        let start = policy.agents.get(name).map_or(Level::Sandboxed, |agent| agent.level.value);
        Ok(Self { agent: name.clone(), strategy: policy.trust.strategy.as_str(), start, standing })
    }

    fn outlook(&self) -> Outlook<'_> {
        let (next, pending) = self.standing.as_ref().map_or((&[][..], &[][..]), |it| (&it.next, &it.pending));
        Outlook { agent: &self.agent, next, pending }
    }

    fn is_fixed(&self) -> String {
        match self.strategy {
            "disabled" => {
                format!("{} is {}: the strategy is `disabled`, and levels never change", self.agent, self.start)
            }
            _ => format!("{} is {}: the config sets its level, and trust does not move it", self.agent, self.start),
        }
    }
}

async fn show_all(runtime: &Runtime, json: bool) -> Result<(), Problem> {
    let mut rows = Vec::new();
    for agent in runtime.config().policy.agents.keys() {
        rows.push(Row::of(runtime, agent).await?);
    }
    if show::wants_json(json) {
        return show::json(&rows);
    }
    let row = |row: &Row| {
        let at = |level: Level, levels: &Standing| {
            let names = levels.levels.iter().filter(|(_, is)| **is == level).map(|(category, _)| category.as_str());
            names.collect::<Vec<_>>().join(" ")
        };
        match &row.standing {
            None => vec![[row.agent.to_string(), row.start.to_string(), "all, as set".into(), String::new()]],
            Some(standing) => Level::LADDER
                .into_iter()
                .rev()
                .map(|level| (level, at(level, standing)))
                .filter(|(_, names)| !names.is_empty())
                .map(|(level, names)| {
                    let waits = standing.pending.iter().filter(|step| step.from == level).count();
                    let waits = if waits > 0 { format!("{waits} for a person") } else { String::new() };
                    [row.agent.to_string(), level.to_string(), names, waits]
                })
                .collect(),
        }
    };
    show::table(["AGENT", "LEVEL", "CATEGORIES", "STEPS THAT WAIT"], rows.iter().flat_map(row))
}

fn page(row: &Row) -> Result<(), Problem> {
    let Some(standing) = &row.standing else { return show::line(&row.is_fixed()) };
    show::line(&format!("{}: strategy {}, start {}", row.agent, row.strategy, row.start))?;
    show::line("")?;
    let level = |category: &Category| {
        let waits = standing.pending(*category).map_or(String::new(), |step| format!("{} waits for a person", step.to));
        [category.to_string(), standing.level(*category).to_string(), waits]
    };
    show::table(["CATEGORY", "LEVEL", ""], Category::ALL.iter().map(level))?;
    if standing.because.is_empty() {
        return Ok(());
    }
    show::line("")?;
    let step = |step: &Explained| {
        let place = step.category.map_or("all".to_owned(), |category| category.to_string());
        [show::when(step.at_ms), place, format!("{} -> {}", step.from, step.to), step.why.clone()]
    };
    show::table(["WHEN", "CATEGORY", "STEP", "WHY"], standing.because.iter().map(step))
}

fn outlook_page(row: &Row) -> Result<(), Problem> {
    let Some(standing) = &row.standing else { return show::line(&row.is_fixed()) };
    let line = |next: &Next| {
        let place = next.category.map_or("all".to_owned(), |category| category.to_string());
        let is_pending = standing.pending.iter().any(|step| step.category == next.category);
        let mut missing: Vec<String> =
            next.needs.iter().filter(|need| !need.is_met()).map(|need: &Need| need.to_string()).collect();
        match (next.possible, is_pending, next.person) {
            (false, ..) => missing.push("no rule leads there".into()),
            (true, true, _) => missing.push("waits for a person: `toolgate trust promote`".into()),
            (true, false, true) => missing.push("then a person".into()),
            (true, false, false) => {}
        }
        [place, next.from.to_string(), next.to.to_string(), missing.join("; ")]
    };
    show::table(["CATEGORY", "LEVEL", "NEXT", "SO FAR"], standing.next.iter().map(line))
}

// ---- reporting ----

/// What a person says about one task.
struct Report {
    task: String,
    ended: Option<(TaskOutcome, Difficulty)>,
    quality: Option<Score>,
    incident: bool,
}

impl Report {
    fn read(
        task: String,
        outcome: Option<&str>,
        difficulty: Option<&str>,
        quality: Option<&str>,
        incident: bool,
    ) -> Result<Self, Problem> {
        let words = |all: &[&'static str]| all.join("`, `");
        let outcome = outcome
            .map(|word| {
                let all = TaskOutcome::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>();
                TaskOutcome::parse(word)
                    .ok_or_else(|| Problem::usage(format!("`{word}` is no outcome: write `{}`", words(&all))))
            })
            .transpose()?;
        let difficulty = difficulty
            .map(|word| {
                let all = Difficulty::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>();
                Difficulty::parse(word)
                    .ok_or_else(|| Problem::usage(format!("`{word}` is no difficulty: write `{}`", words(&all))))
            })
            .transpose()?;
        let mark = |text: &str| {
            Score::parse(text).ok_or_else(|| Problem::usage(format!("`{text}` is not a number from 0 to 10")))
        };
        Ok(Self { task, ended: outcome.zip(difficulty), quality: quality.map(mark).transpose()?, incident })
    }

    /// How the task ended and what the person thinks of it are two things: the first counts once, whoever says it.
    async fn send(
        self,
        trust: &Earned,
        agent: &AgentName,
        category: Category,
        by: &Person,
    ) -> Result<Vec<Evidence>, Problem> {
        let Self { task, ended, quality, incident } = self;
        let mut facts = Vec::new();
        facts.extend(ended.map(|(outcome, difficulty)| Fact::Task {
            task: task.clone(),
            outcome,
            difficulty,
            quality,
        }));
        facts.extend(quality.map(|rating| Fact::Feedback { task: Some(task.clone()), rating }));
        facts.extend(incident.then_some(Fact::Incident { incident: task }));
        let mut evidence = Vec::new();
        for fact in facts {
            evidence.push(trust.report(agent, Some(category), fact, by).await?);
        }
        Ok(evidence)
    }
}

fn told(
    agent: &AgentName,
    category: Category,
    evidence: &[Evidence],
    before: Option<&Standing>,
    after: Option<&Standing>,
    json: bool,
) -> Result<(), Problem> {
    #[derive(Serialize)]
    struct Told<'a> {
        evidence: &'a [Evidence],
        before: Option<Level>,
        level: Option<Level>,
    }
    let level = |standing: Option<&Standing>| standing.map(|standing| standing.level(category));
    let (before, level) = (level(before), level(after));
    if show::wants_json(json) {
        return show::json(&Told { evidence, before, level });
    }
    show::line(&match (before, level) {
        (Some(before), Some(level)) if before != level => {
            format!("noted: {agent} is {level} in `{category}` now, where it was {before}")
        }
        (_, Some(level)) => format!("noted: {agent} is {level} in `{category}`"),
        (_, None) => format!("noted about {agent}, whose level trust does not move"),
    })
}

fn read_category(name: &str) -> Result<Category, Problem> {
    Category::parse(name).ok_or_else(|| {
        let names = Category::ALL.map(Category::as_str);
        let hint = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        Problem::usage(format!("there is no category `{name}`; {hint}"))
    })
}
