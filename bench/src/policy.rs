//! A decision under many rules, beside Cedar with policies that say the same.
//!
//! A tenth of the rules names the tool that is called; all of them are about another path. The last one means the call,
//! and both sides must say no because of it. Sides take turns, a batch each, so that whatever the machine does besides
//! hits both alike. Cedar is there when the benchmark is built with `--features cedar`.

use std::{fmt, hint::black_box, time::Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{ActionType, AgentName, Category, Level, Needs, SafetyClass, SourceLine, ToolDef, Verdict};
use toolgate_gate::{Agent, Policy, Request, Rule, Sourced, ToolName, When, decide};

/// Microseconds within which 99 of 100 decisions under a thousand rules are made.
const TARGET_US: f64 = 50.0;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rounds; in each, both sides decide a batch under every number of rules
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Decisions in a batch
    #[arg(long, default_value_t = 50)]
    batch: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    target_us: f64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    rules: usize,
    about: &'static str,
    toolgate: Times,
    cedar: Option<Times>,
    /// Cedar's median by Toolgate's.
    ratio: Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    p50_us: f64,
    p99_us: f64,
}

/// How many of the rules name the tool that is called.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    ManyTools,
    OneTool,
}

impl About {
    fn tool(self, number: usize) -> String {
        match self {
            Self::ManyTools if !number.is_multiple_of(10) => format!("tool_{}", number % 50),
            Self::ManyTools | Self::OneTool => "write".to_owned(),
        }
    }
}

fn path(number: usize) -> String {
    format!("secrets/{number}.key")
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Report> {
    let mut rows = Vec::new();
    for (about, name) in [(About::ManyTools, "fifty tools"), (About::OneTool, "one tool")] {
        for rules in [10, 100, 1_000] {
            rows.push(row(options, rules, about, name)?);
        }
    }
    Ok(Report { target_us: TARGET_US, rows })
}

fn row(options: &Options, rules: usize, about: About, name: &'static str) -> anyhow::Result<Row> {
    // The last rule that names the tool is the one that speaks.
    let last = (0..rules).rev().find(|number| about.tool(*number) == "write").context("a rule names the tool")?;
    let ours = Ours::new(rules, about, last)?;
    let cedar = Theirs::new(rules, about, last)?;
    ensure!(ours.decide() == Verdict::Deny, "the rule did not speak");
    let (mut ours_us, mut cedar_us) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        time(options.batch, &mut ours_us, || _ = black_box(ours.decide()));
        if let Some(cedar) = &cedar {
            // Cedar takes its time: fewer decisions make a round of the same length.
            time(options.batch.div_ceil(10), &mut cedar_us, || _ = black_box(cedar.denies()));
        }
    }
    let toolgate = Times::of(ours_us);
    let cedar = cedar.map(|_| Times::of(cedar_us));
    Ok(Row { rules, about: name, toolgate, cedar, ratio: cedar.map(|cedar| cedar.p50_us / toolgate.p50_us) })
}

fn time(batch: usize, into: &mut Vec<f64>, mut decide: impl FnMut()) {
    for _ in 0..batch {
        let started = Instant::now();
        decide();
        into.push(started.elapsed().as_secs_f64() * 1e6);
    }
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
        Self { p50_us: at(0.5), p99_us: at(0.99) }
    }
}

struct Ours {
    policy: Policy,
    agent: Agent,
    def: ToolDef,
    arguments: Value,
}

impl Ours {
    fn new(rules: usize, about: About, last: usize) -> anyhow::Result<Self> {
        let mut policy = Policy::built_in();
        for number in 0..rules {
            policy.book.add(Rule {
                id: format!("rule-{number}"),
                verdict: Verdict::Deny,
                tools: vec![ToolName::Exactly(about.tool(number))],
                actions: [].into(),
                agents: [].into(),
                roles: [].into(),
                classes: [].into(),
                risk_at_least: None,
                when: Some(When::parse(&format!("args.path == '{}'", path(number)))?),
                because: "it is secret".into(),
                instead: None,
                source: SourceLine { file: "bench.yaml".into(), line: number as u64 + 1 },
            });
        }
        let agent = Agent::at(AgentName::from("coder"), Sourced::built_in(Level::Standard));
        let def = ToolDef {
            name: "write".into(),
            category: Category::FileSystem,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: Needs::WRITE_FILES,
            ..ToolDef::default()
        };
        Ok(Self { policy, agent, def, arguments: json!({ "path": path(last), "content": "x" }) })
    }

    fn decide(&self) -> Verdict {
        let request = Request { arguments: Some(&self.arguments), ..Request::of(&self.def) };
        decide(&self.policy, &self.agent, &request).decided().verdict
    }
}

#[cfg(not(feature = "cedar"))]
struct Theirs;

#[cfg(not(feature = "cedar"))]
impl Theirs {
    fn new(_: usize, _: About, _: usize) -> anyhow::Result<Option<Self>> {
        Ok(None)
    }

    fn denies(&self) -> bool {
        false
    }
}

#[cfg(feature = "cedar")]
struct Theirs {
    policies: cedar_policy::PolicySet,
    request: cedar_policy::Request,
    entities: cedar_policy::Entities,
}

#[cfg(feature = "cedar")]
impl Theirs {
    /// One `permit` for everything, and one `forbid` for each rule.
    fn new(rules: usize, about: About, last: usize) -> anyhow::Result<Option<Self>> {
        use cedar_policy::{Context, Entities, EntityUid, PolicySet, Request};
        let forbid = |number: usize| {
            let (tool, path) = (about.tool(number), path(number));
            format!(
                "forbid(principal, action == Action::\"{tool}\", resource) when {{ context.path == \"{path}\" }};\n"
            )
        };
        let text: String = (0..rules).map(forbid).collect();
        let policies: PolicySet = format!("permit(principal, action, resource);\n{text}").parse()?;
        let name = |text: &str| text.parse::<EntityUid>();
        let context = Context::from_json_value(json!({ "path": path(last), "content": "x" }), None)?;
        let (agent, action, workspace) =
            (name("Agent::\"coder\"")?, name("Action::\"write\"")?, name("Workspace::\"w\"")?);
        let request = Request::new(agent, action, workspace, context, None)?;
        let theirs = Self { policies, request, entities: Entities::empty() };
        ensure!(theirs.denies(), "Cedar's policy did not speak");
        Ok(Some(theirs))
    }

    fn denies(&self) -> bool {
        let authorizer = cedar_policy::Authorizer::new();
        let answer = authorizer.is_authorized(&self.request, &self.policies, &self.entities);
        answer.decision() == cedar_policy::Decision::Deny
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| rules | about | toolgate p50 us | p99 us | cedar p50 us | p99 us | ratio |")?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for Row { rules, about, toolgate, cedar, ratio } in &self.rows {
            write!(f, "| {rules} | {about} | {:.1} | {:.1} ", toolgate.p50_us, toolgate.p99_us)?;
            match (cedar, ratio) {
                (Some(cedar), Some(ratio)) => {
                    writeln!(f, "| {:.1} | {:.1} | {ratio:.0} |", cedar.p50_us, cedar.p99_us)?;
                }
                _ => writeln!(f, "| | | |")?,
            }
        }
        write!(f, "wanted: p99 under {} us with 1000 rules", self.target_us)
    }
}
