//! Five hundred tools: what a client is shown at first beside all of it, in tokens and in time.
//!
//! The tools are made up, with words and schemas like those of real servers. Listing is what stands behind `tools/list`;
//! looking and loading are calls of their tools, decided and recorded like any other. The first list makes the index and
//! reads the vocabulary of the tokenizer, and is told apart from the ones that follow.

use std::{fmt, sync::Arc, time::Instant};

use anyhow::ensure;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, AgentName, Category, SafetyClass, Status, ToolDef};
use toolgate_runtime::{
    Runtime, Setup, ToolList, Watch, built_in_tools,
    config::Config,
    store::SqliteStore,
    tools::{Answer, Tool},
};

/// Milliseconds within which 99 of 100 lists are shown and tools loaded.
const TARGET_MS: f64 = 5.0;
/// How much of all tokens need not be read, of a hundred.
const TARGET_PERCENT: usize = 90;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Tools beside those that ship
    #[arg(long, default_value_t = 500)]
    tools: usize,
    /// Rounds; in each, everything is done once
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    target_ms: f64,
    target_percent: usize,
    tools: usize,
    shown: usize,
    tokens_of_all: usize,
    tokens_shown: usize,
    saved_percent: usize,
    first_list_ms: f64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    /// By the median of the whole list.
    ratio: f64,
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Report> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(options))
}

async fn run(options: &Options) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let runtime = Runtime::open(Setup {
        config: Config::built_in(&workspace),
        store: Arc::new(SqliteStore::open(&data)?),
        state: None,
        tools: built_in_tools().into_iter().chain((0..options.tools).map(tool)).collect(),
        hidden: vec![data],
        rooms: None,
        secrets: None,
    })?;
    let agent = AgentName::from("default");
    let begun = Instant::now();
    let shown = runtime.offered(&agent, ToolList::Fixed)?.len();
    let first_list_ms = ms(begun);
    let spared = runtime.spared(&agent)?;
    ensure!(spared.disclosed, "so few tools are shown whole");

    let (mut all, mut first, mut look, mut load) = (vec![], vec![], vec![], vec![]);
    for round in 0..options.rounds {
        all.push(timed(|| runtime.definitions(&agent).map(|tools| tools.len()))?);
        first.push(timed(|| runtime.offered(&agent, ToolList::Fixed).map(|tools| tools.len()))?);
        look.push(called(&runtime, &agent, "list_tools", json!({ "query": "invoice of a project" })).await?);
        let name = name(round % options.tools);
        load.push(called(&runtime, &agent, "load_tool", json!({ "name": name })).await?);
    }
    let whole = at(&mut all, 0.5);
    let row = |case, times: &mut Vec<f64>| {
        let p50_ms = at(times, 0.5);
        Row { case, p50_ms, p99_ms: at(times, 0.99), ratio: p50_ms / whole }
    };
    Ok(Report {
        target_ms: TARGET_MS,
        target_percent: TARGET_PERCENT,
        tools: spared.tools,
        shown,
        tokens_of_all: spared.tokens_of_all,
        tokens_shown: spared.tokens_shown,
        saved_percent: spared.saved_percent,
        first_list_ms,
        rows: vec![
            row("all definitions", &mut all),
            row("first list", &mut first),
            row("list_tools", &mut look),
            row("load_tool", &mut load),
        ],
    })
}

fn timed<T, E: std::error::Error + Send + Sync + 'static>(does: impl FnOnce() -> Result<T, E>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let done = does()?;
    let took = ms(begun);
    drop(done);
    Ok(took)
}

async fn called(runtime: &Runtime, agent: &AgentName, tool: &str, arguments: serde_json::Value) -> anyhow::Result<f64> {
    let call = runtime.call(agent, tool, arguments);
    let begun = Instant::now();
    let outcome = runtime.invoke(call, Watch::default()).await;
    let took = ms(begun);
    ensure!(outcome.status == Status::Done, "{tool}: {}", outcome.text);
    Ok(took)
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn at(times: &mut [f64], part: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default()
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "nobody calls these tools; their schema is what is measured")]
struct Input {
    /// The identifier of what is meant, as other tools give it.
    id: String,
    /// The project it belongs to. The one that was used last when this is left out.
    project: Option<String>,
    /// Which fields the answer has. All of them when this is left out.
    fields: Option<Vec<String>>,
    /// How many at most.
    limit: Option<u32>,
    /// Say what would happen, and do nothing.
    dry_run: Option<bool>,
}

const VERBS: [&str; 20] = [
    "archive", "assign", "close", "compare", "copy", "count", "create", "describe", "export", "get", "import", "label",
    "list", "merge", "move", "rename", "reopen", "schedule", "search", "update",
];
const NOUNS: [&str; 25] = [
    "account",
    "board",
    "campaign",
    "channel",
    "comment",
    "contact",
    "contract",
    "customer",
    "dashboard",
    "document",
    "event",
    "folder",
    "invoice",
    "issue",
    "meeting",
    "milestone",
    "order",
    "payment",
    "project",
    "release",
    "report",
    "sprint",
    "ticket",
    "user",
    "webhook",
];

fn words(number: usize) -> (&'static str, &'static str, usize) {
    let (verb, rest) = (VERBS[number % VERBS.len()], number / VERBS.len());
    (verb, NOUNS[rest % NOUNS.len()], rest / NOUNS.len())
}

fn name(number: usize) -> String {
    match words(number) {
        (verb, noun, 0) => format!("{verb}_{noun}"),
        (verb, noun, more) => format!("{verb}_{noun}_{}", "again_".repeat(more).trim_end_matches('_')),
    }
}

fn tool(number: usize) -> Tool {
    let (verb, noun, _) = words(number);
    let def = ToolDef {
        name: name(number).into(),
        summary: format!("Use this to {verb} a {noun} of the workspace.").into(),
        description: format!(
            "The {noun} is found by its identifier, or by the name it has in the project when that is unique. Fields that \
             are left out stay as they are. The answer has the {noun} as it is afterwards, with the time of the last change \
             and the person who made it."
        )
        .into(),
        category: Category::Analytics,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        ..ToolDef::default()
    };
    Tool::pure(def, |_cx, input: Input| Ok(Answer::new(input.id)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tools, shown, tokens_of_all, tokens_shown, saved_percent, first_list_ms, .. } = self;
        writeln!(f, "{tools} tools, {shown} shown: {tokens_shown} of {tokens_of_all} tokens, {saved_percent} % saved")?;
        writeln!(f, "(wanted: {TARGET_PERCENT} %), the very first list after {first_list_ms:.1} ms\n")?;
        writeln!(f, "| case | p50 ms | p99 ms | ratio |\n|---|---|---|---|")?;
        for Row { case, p50_ms, p99_ms, ratio } in &self.rows {
            writeln!(f, "| {case} | {p50_ms:.3} | {p99_ms:.3} | {ratio:.2} |")?;
        }
        writeln!(f, "\nWanted: {TARGET_MS} ms at p99")
    }
}
