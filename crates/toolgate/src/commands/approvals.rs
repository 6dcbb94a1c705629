//! `toolgate approvals`: people in the loop.

use std::{collections::BTreeMap, process::ExitCode};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Covers, Effect, Fault, Grant, GrantId, GrantTerms,
    Question, Scope,
};
use toolgate_guard::{clean::hidden::is_unseen, shell::ir::visible};
use toolgate_runtime::{approvals::Approvals as Questions, store::state::ApprovalFilter};

use crate::{
    person,
    problem::Problem,
    setup::{self, Opened, Place},
    show,
};

/// See what agents ask people for, and answer
///
/// An answer is for exactly one call: these arguments, this tool as it is defined now, under this policy. A yes is used
/// once. The agent gets it by making the same call again, or because its call still waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate approvals
  toolgate approvals show apr_0f3c...
  toolgate approvals approve apr_0f3c... --reason 'release day'
  toolgate approvals deny apr_0f3c... --reason 'not on a Friday'
  toolgate approvals grant --agent coder --tool write --where 'path=docs/**' --where 'content=**' --times 10 --for 2h
  toolgate approvals grants
  toolgate approvals revoke gra_51aa...

Whoever answers is the user of this process, or the person whose token is in TOOLGATE_TOKEN.")]
pub(crate) struct Approvals {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what waits for an answer
    List {
        /// Also what was answered
        #[arg(long)]
        all: bool,
        /// Of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Show one with all that is known about it
    Show {
        /// Its name
        id: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Say yes
    Approve {
        /// Their names
        #[arg(required = true)]
        ids: Vec<String>,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Say no
    Deny {
        /// Their names
        #[arg(required = true)]
        ids: Vec<String>,
        /// Why; the agent is told
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Say yes in advance
    ///
    /// Either to one call that was asked about, again and again, or to calls of a tool whose every argument matches a
    /// pattern: `*` stands for anything but `/`, and in a URL for anything but `/`, `?`, `#`, `@` and `\`; `**` stands
    /// for anything. A value with `..` in it is never matched, unless the pattern is `**` alone or spells it out. The grant
    /// covers nothing once the definition of the tool changes.
    Grant {
        /// The call that was asked about
        #[arg(conflicts_with_all = ["agent", "tool", "patterns"])]
        id: Option<String>,
        /// The agent
        #[arg(long, requires = "tool")]
        agent: Option<String>,
        /// The tool
        #[arg(long, requires = "agent")]
        tool: Option<String>,
        /// What an argument must look like
        #[arg(long = "where", value_name = "ARGUMENT=PATTERN")]
        patterns: Vec<String>,
        /// How many times
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// For how long: `90s`, `15m`, `2h`, `7d`
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        span: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// List what was said in advance
    Grants {
        /// Of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Take back what was said in advance
    Revoke {
        /// Its name
        id: String,
    },
}

impl Approvals {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let list = Command::List { all: false, agent: None, json: self.json };
        place.with_house(async |opened| run(self.command.unwrap_or(list), opened).await)
    }
}

async fn run(command: Command, opened: &Opened) -> Result<(), Problem> {
    let questions = opened.runtime.approvals().ok_or_else(|| Problem::usage("this runtime asks nobody"))?;
    match command {
        Command::List { all, agent, json } => list(questions, all, agent.as_deref(), json).await,
        Command::Show { id, json } => {
            let approval = questions.show(&ApprovalId(id.clone())).await?.ok_or_else(|| unknown(&id))?;
            if show::wants_json(json) { show::json(&approval) } else { page(&approval) }
        }
        Command::Approve { ids, reason } => answer(questions, opened, &ids, Answer::Yes, &reason).await,
        Command::Deny { ids, reason } => answer(questions, opened, &ids, Answer::No, &reason).await,
        Command::Grant { id, agent, tool, patterns, times, span, reason } => {
            let (agent, tool, definition, covers) = match (id, agent, tool) {
                (Some(id), _, _) => {
                    let asked = questions.show(&ApprovalId(id.clone())).await?.ok_or_else(|| unknown(&id))?;
                    let Question { agent, tool, definition, digest, .. } = asked.question;
                    (agent, tool, definition, Covers::Exactly(digest))
                }
                (None, Some(agent), Some(tool)) => {
                    let definition = opened.runtime.definition(&tool).ok_or_else(|| not_here(&tool))?;
                    (AgentName::from(&*agent), tool, definition, Covers::Arguments(read(&patterns)?))
                }
                _ => return Err(Problem::usage("name a call that was asked about, or `--agent` and `--tool`")),
            };
            let span = u64::try_from(setup::span(&span)?.as_millis()).unwrap_or(u64::MAX);
            let until_ms = Some(setup::now_ms().saturating_add(span));
            let by = person::acting(&*opened.state, Scope::Approve).await?;
            let definition = Some(definition);
            let terms = GrantTerms { agent, tool, definition, covers, uses: times, until_ms, by, reason };
            let grant = questions.grant(terms).await?;
            show::line(&format!(
                "{} is granted {times} times: `toolgate approvals revoke {}` takes it back",
                grant.id, grant.id
            ))
        }
        Command::Grants { agent, json } => {
            let grants = questions.grants(agent.as_deref().map(AgentName::from)).await?;
            let listed = |grant: Grant| Listed { stale: opened.runtime.is_stale(&grant), grant };
            let grants: Vec<Listed> = grants.into_iter().map(listed).collect();
            if show::wants_json(json) { show::json(&grants) } else { grants_page(&grants, setup::now_ms()) }
        }
        Command::Revoke { id } => {
            let by = person::acting(&*opened.state, Scope::Approve).await?;
            let gone = || {
                Fault::failed(
                    "unknown_grant",
                    format!("there is no grant `{id}` to take back"),
                    "List them with `toolgate approvals grants`.",
                )
            };
            questions.revoke(&GrantId(id.clone()), &by).await?.ok_or_else(gone)?;
            show::line(&format!("{id} is taken back"))
        }
    }
}

async fn list(questions: &Questions, all: bool, agent: Option<&str>, json: bool) -> Result<(), Problem> {
    questions.tend().await?;
    let states = if all { Vec::new() } else { vec![ApprovalState::Waiting, ApprovalState::Approved] };
    let filter = ApprovalFilter { states, agent: agent.map(AgentName::from), limit: 1_000 };
    let approvals = questions.list(filter).await?;
    if show::wants_json(json) {
        return show::json(&approvals);
    }
    let row = |approval: &Approval| {
        let question = &approval.question;
        let why = question.reasons.first().map_or("", |reason| &reason.text);
        [
            approval.id.to_string(),
            approval.state.to_string(),
            question.agent.to_string(),
            question.tool.clone(),
            question.risk.to_string(),
            format!("{}/{}", approval.yeses(), question.people),
            visible(why).chars().take(80).collect(),
        ]
    };
    show::table(["APPROVAL", "STATE", "AGENT", "TOOL", "RISK", "YES", "WHY"], approvals.iter().map(row))
}

async fn answer(
    questions: &Questions,
    opened: &Opened,
    ids: &[String],
    answer: Answer,
    reason: &str,
) -> Result<(), Problem> {
    let by = person::acting(&*opened.state, Scope::Approve).await?;
    for id in ids {
        let approval = questions.answer(&ApprovalId(id.clone()), &by, answer, reason).await?;
        let left = usize::from(approval.question.people).saturating_sub(approval.yeses());
        show::line(&match approval.state {
            ApprovalState::Waiting => format!("{id}: {by} agrees, and {left} more must"),
            state => format!("{id} is {state} by {by}"),
        })?;
    }
    Ok(())
}

/// One question with all that is known about it. Whatever nobody would see in it is spelt out.
fn page(approval: &Approval) -> Result<(), Problem> {
    let question = &approval.question;
    let mut lines = vec![
        format!("{}  {}", approval.id, approval.state),
        format!("agent      {} (asked by {})", question.agent, question.principal),
        format!("tool       {}", question.tool),
        format!("action     {}  class {}  risk {}", question.action, question.class, question.risk),
        format!("people     {} of {} agreed", approval.yeses(), question.people),
    ];
    lines.extend(question.reasons.iter().map(|reason| format!("why        {} ({})", reason.text, reason.source)));
    let effect = |effect: &Effect| {
        let kind = serde_json::to_value(effect.kind).unwrap_or_default();
        format!("effect     {} {}", kind.as_str().unwrap_or_default(), effect.target.as_deref().unwrap_or_default())
    };
    lines.extend(question.effects.iter().map(effect));
    let said = question.picture.get("summary").and_then(Value::as_array).into_iter().flatten();
    lines.extend(said.filter_map(Value::as_str).map(|said| format!("it         {said}")));
    lines.extend(question.labels.iter().map(|label| format!("label      {label}")));
    lines
        .extend(approval.votes.iter().map(|vote| format!("vote       {} {:?}: {}", vote.by, vote.answer, vote.reason)));
    let mut text: String = lines.iter().map(|line| exact(line) + "\n").collect();
    let arguments = serde_json::to_string_pretty(&question.arguments).unwrap_or_default();
    let seen = |field: &str| question.picture.get(field).and_then(Value::as_str);
    let parts = [
        ("arguments", Some(&*arguments)),
        ("command", seen("command")),
        ("change", seen("diff")),
        ("no diff", seen("no_diff")),
    ];
    for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
        text.push_str(&format!("{name}\n"));
        // Tabs are what they look like.
        let spelt = |line: &str| line.split('\t').map(exact).collect::<Vec<_>>().join("\t");
        text.extend(part.split('\n').map(|line| format!("  {}\n", spelt(line))));
    }
    show::line(text.trim_end())
}

/// What nobody sees is escaped, also where scripts and emoji need it: a yes is for exactly this.
fn exact(text: &str) -> String {
    visible(text).chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match is_unseen(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
        shown
    })
}

/// What was said in advance, as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    grant: Grant,
    /// It was said about another definition of the tool, and covers nothing.
    stale: bool,
}

fn grants_page(grants: &[Listed], now_ms: u64) -> Result<(), Problem> {
    let row = |Listed { grant, stale }: &Listed| {
        let terms = &grant.terms;
        let covers = match &terms.covers {
            Covers::Exactly(question) => format!("the call {}", ApprovalId::of(question, 1)),
            Covers::Arguments(patterns) => {
                patterns.iter().map(|(path, pattern)| format!("{path}={pattern}")).collect::<Vec<_>>().join(" ")
            }
        };
        let state = match grant.holds(now_ms) {
            true if *stale => "stale",
            true => "holds",
            false => "over",
        };
        let left = format!("{}/{}", grant.left, terms.uses);
        [
            grant.id.to_string(),
            state.into(),
            terms.agent.to_string(),
            terms.tool.clone(),
            left,
            terms.by.to_string(),
            visible(&covers),
        ]
    };
    show::table(["GRANT", "STATE", "AGENT", "TOOL", "LEFT", "BY", "COVERS"], grants.iter().map(row))
}

fn read(patterns: &[String]) -> Result<BTreeMap<String, String>, Problem> {
    let pair = |text: &String| {
        let (path, pattern) = text.split_once('=').filter(|(path, _)| !path.is_empty())?;
        Some((path.to_owned(), pattern.to_owned()))
    };
    let wrong = |text: &String| Problem::usage(format!("`{text}` is not ARGUMENT=PATTERN"));
    patterns.iter().map(|text| pair(text).ok_or_else(|| wrong(text))).collect()
}

fn not_here(tool: &str) -> Fault {
    let remedy = "List them with `toolgate tools`; of a tool of another program, name a call that was asked about.";
    Fault::failed("unknown_tool", format!("there is no tool `{tool}` here whose definition could be looked at"), remedy)
}

fn unknown(id: &str) -> Fault {
    Fault::failed("unknown_approval", format!("there is no approval `{id}`"), "List them with `toolgate approvals`.")
}
