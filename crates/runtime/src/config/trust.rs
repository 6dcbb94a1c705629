//! The block `trust`: how agents earn a higher level, and lose it again.
//!
//! It is for agents that set no level of their own: a level that is set is the operator's word, and stays. What an agent
//! has earned is computed by the gate from evidence ([`toolgate_gate::trust`]).

use std::{collections::BTreeMap, sync::Arc};

use toolgate_contract::{Category, Level, Score};
use toolgate_gate::{
    Agent, Constraints, LevelRights, NetworkMode, Sourced,
    trust::{Decay, Milestone, Step, Strategy, Threshold, TrustRules, Weights},
};

use super::{
    check::{Check, ConstraintsLayer, Dimension, entries},
    file::{CriterionFile, MilestoneFile, ReVerificationFile, ThresholdFile, TrustFile, WeightsFile},
    findings::{Findings, Said},
    load::{At, Entries, Mark, WordOr},
    merge::covers,
    sandboxing::category,
};

const STRATEGIES: [&str; 4] = ["disabled", "weighted", "per_category", "milestone"];

/// What counts where the config leaves it open. Shares are in ten-thousandths.
const WEIGHTS: Weights =
    Weights { task_difficulty: 3_000, completion_rate: 2_500, error_rate: 2_500, human_feedback: 2_000 };
const ERROR_RATE: u32 = 1_500;
const IDLE_DAYS: u32 = 30;
const INTERVAL_DAYS: u32 = 90;

/// What the block says.
#[derive(Debug, Default)]
pub(super) struct TrustLayer {
    /// The rules; none where the block has mistakes.
    pub(super) rules: Option<TrustRules>,
    /// The level of agents that set none.
    pub(super) initial_level: Option<Said<Level>>,
}

pub(super) fn check(cx: &mut Check<'_>, block: &TrustFile) -> TrustLayer {
    let strategy = strategy(cx, block);
    if let Some(strategy) = strategy {
        belongs(cx, block, strategy);
    }
    let weights = block.weights.as_ref().map_or(Some(WEIGHTS), |weights| check_weights(cx, weights));
    let thresholds = entries(&block.promotion_thresholds)
        .filter_map(|(name, threshold)| check_threshold(cx, name, threshold))
        .collect();
    let start = initial_levels(cx, &block.initial_levels);
    let criteria = check_criteria(cx, block);
    let milestones =
        entries(&block.milestones).filter_map(|(name, milestone)| check_milestone(cx, name, milestone)).collect();
    let decay = check_decay(cx, block.re_verification.as_ref());
    let given = block.initial_level.as_ref().and_then(|level| initial_level(cx, level));

    // Where a category says nothing, an agent has what every category would give it.
    let lowest = start.values().min_by_key(|level| level.value).cloned();
    let start = start.into_iter().map(|(category, level)| (category, cx.findings.sourced(level))).collect();
    let strategy = match strategy {
        None => None,
        Some("weighted") => weights.map(|weights| Strategy::Weighted { weights, steps: thresholds }),
        Some("per_category") => Some(Strategy::PerCategory { start, steps: criteria }),
        Some("milestone") => Some(Strategy::Milestone { steps: milestones }),
        Some(_) => Some(Strategy::Disabled),
    };
    TrustLayer { rules: strategy.map(|strategy| TrustRules { strategy, decay }), initial_level: given.or(lowest) }
}

/// What binds an agent at each level trust may take it to: what the level permits, and of that no more than the agent's own
/// constraints do. They are a ceiling at every level, so none is too loose for the one it starts from.
pub(super) fn ladder(
    levels: &BTreeMap<Level, LevelRights>,
    own: &ConstraintsLayer,
    findings: &Findings,
) -> BTreeMap<Level, Arc<Constraints>> {
    let capped = |level: Level| {
        let mut held = levels.get(&level)?.constraints.clone();
        // A level without a list leaves the hosts to its agents.
        let hosts = own.network_allowlist.as_deref().filter(|_| held.network_allowlist.is_empty());
        if let Some(hosts) = hosts.filter(|_| held.network.value == NetworkMode::AllowlistOnly) {
            held.network_allowlist = hosts.iter().map(|host| findings.sourced(host.clone())).collect();
        }
        cap(&mut held, own, findings);
        Some((level, Arc::new(held)))
    };
    Level::LADDER.into_iter().filter_map(capped).collect()
}

/// Lowers what holds to what is said, and never raises it. A list of hosts is the whole network wherever there is one.
fn cap(held: &mut Constraints, said: &ConstraintsLayer, findings: &Findings) {
    let was_open = held.network.value == NetworkMode::Open;
    lower(&mut held.file_system, said.file_system.as_ref(), findings);
    lower(&mut held.code_execution, said.code_execution.as_ref(), findings);
    lower(&mut held.network, said.network.as_ref(), findings);
    lower(&mut held.git, said.git.as_ref(), findings);
    lower(&mut held.terminal, said.terminal.as_ref(), findings);
    if let Some(hosts) = &said.network_allowlist {
        if held.network.value == NetworkMode::Open {
            held.network.value = NetworkMode::AllowlistOnly;
            held.network.source = hosts.first().map_or(held.network.source.clone(), |host| findings.source(host.spot));
        }
        let is_free = |host: &&Said<String>| was_open || covers(&held.network_allowlist, &host.value);
        held.network_allowlist = hosts.iter().filter(is_free).map(|host| findings.sourced(host.clone())).collect();
    }
    for actions in said.requires_approval.iter().flatten() {
        for action in &actions.value {
            held.requires_approval.entry(action.clone()).or_insert_with(|| findings.source(actions.spot));
        }
    }
}

fn lower<T: Dimension>(held: &mut Sourced<T>, said: Option<&Said<T>>, findings: &Findings) {
    if let Some(said) = said.filter(|said| said.value < held.value) {
        *held = findings.sourced(said.clone());
    }
}

/// A file nobody vouches for tightens an agent that trust moves: at every level it may get to.
pub(super) fn tighten(agent: &mut Agent, said: &ConstraintsLayer, findings: &Findings) {
    for held in agent.ladder.values_mut().chain([&mut agent.constraints]) {
        cap(Arc::make_mut(held), said, findings);
    }
}

fn sourced<T>(cx: &Check<'_>, value: T, mark: Mark) -> Sourced<T> {
    cx.findings.sourced(Said { value, spot: cx.spot(mark) })
}

fn strategy(cx: &mut Check<'_>, block: &TrustFile) -> Option<&'static str> {
    let Some(word) = &block.strategy else {
        let remedy = "Add `strategy: disabled`, `weighted`, `per_category` or `milestone`.";
        cx.error(cx.key(&["trust"]), "`trust` has no strategy", remedy);
        return None;
    };
    let known = STRATEGIES.into_iter().find(|strategy| *strategy == word.value);
    if known.is_none() {
        cx.unknown("trust strategy", word, STRATEGIES);
    }
    known
}

/// A rule of another strategy would look as if it held.
fn belongs(cx: &mut Check<'_>, block: &TrustFile, strategy: &str) {
    let keys = [
        ("weights", block.weights.is_some(), "weighted"),
        ("promotion_thresholds", block.promotion_thresholds.is_some(), "weighted"),
        ("initial_levels", block.initial_levels.is_some(), "per_category"),
        ("promotion_criteria", block.promotion_criteria.is_some(), "per_category"),
        ("milestones", block.milestones.is_some(), "milestone"),
        ("re_verification", block.re_verification.is_some(), "milestone"),
    ];
    for (key, there, owner) in keys {
        if there && owner != strategy {
            let message = format!("`{key}` is a rule of strategy `{owner}`, and the strategy is `{strategy}`");
            let remedy = format!("Remove `{key}`, or write `strategy: {owner}`.");
            cx.error(cx.key(&["trust", key]), message, remedy);
        }
    }
}

/// A level everybody may start from: on the ladder, and below the one that always takes a person.
fn initial_level(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<Level>> {
    let level = cx.level(word)?;
    match level.value {
        Level::Sandboxed | Level::Restricted | Level::Standard => Some(level),
        Level::Elevated => {
            let remedy = "Set `level: elevated` on each agent that needs it.";
            cx.error(word.mark, "no agent starts at `elevated` by default", remedy);
            None
        }
        Level::Custom => {
            let remedy = "Write `sandboxed`, `restricted` or `standard`; set `level: custom` on single agents.";
            cx.error(word.mark, "`custom` is not a step of the ladder", remedy);
            None
        }
    }
}

fn initial_levels(cx: &mut Check<'_>, levels: &Option<Entries<At<String>>>) -> BTreeMap<Category, Said<Level>> {
    entries(levels).filter_map(|(name, level)| Some((category(cx, name)?, initial_level(cx, level)?))).collect()
}

fn check_weights(cx: &mut Check<'_>, weights: &WeightsFile) -> Option<Weights> {
    let mut weigh = |key: &str, weight: &Option<At<f64>>, default: u32| match weight {
        Some(weight) => cx.number(key, Some(weight), 0.0..=1.0).map(share),
        None => Some(default),
    };
    let weights = Weights {
        task_difficulty: weigh("task_difficulty", &weights.task_difficulty, WEIGHTS.task_difficulty)?,
        completion_rate: weigh("completion_rate", &weights.completion_rate, WEIGHTS.completion_rate)?,
        error_rate: weigh("error_rate", &weights.error_rate, WEIGHTS.error_rate)?,
        human_feedback: weigh("human_feedback", &weights.human_feedback, WEIGHTS.human_feedback)?,
    };
    let Weights { task_difficulty, completion_rate, error_rate, human_feedback } = weights;
    let sum = task_difficulty + completion_rate + error_rate + human_feedback;
    if sum.abs_diff(share(1.0)) > share(0.01) {
        let sum = f64::from(sum) / f64::from(share(1.0));
        let message = format!("the four weights add up to {}, not to 1", (sum * 1_000.0).round() / 1_000.0);
        let remedy = "Change them so that they add up to 1; one that is left out counts 0.3, 0.25, 0.25 or 0.2.";
        cx.error(cx.key(&["trust", "weights"]), message, remedy);
        return None;
    }
    Some(weights)
}

/// A number from 0 to 1 in ten-thousandths.
fn share(number: f64) -> u32 {
    (number * 10_000.0).round() as u32
}

fn transition(cx: &mut Check<'_>, name: &At<String>) -> Option<Step> {
    let step = Step::parse(&name.value);
    if step.is_none() {
        cx.unknown("promotion", name, Step::ALL.iter().map(|step| step.as_str()));
    }
    step
}

fn check_threshold(
    cx: &mut Check<'_>,
    name: &At<String>,
    threshold: &At<WordOr<ThresholdFile>>,
) -> Option<(Step, Sourced<Threshold>)> {
    let step = transition(cx, name)?;
    let (score, person) = match &threshold.value {
        WordOr::Word(word) => (bare_score(cx, &name.value, word, threshold.mark), false),
        WordOr::Mapping(mapping) => {
            if mapping.score.is_none() {
                cx.error(
                    threshold.mark,
                    format!("`{}` has no score", name.value),
                    "Add `score: 0.8` or another from 0 to 1.",
                );
            }
            let score = cx.number("score", mapping.score.as_ref(), 0.0..=1.0);
            (score, mapping.requires_human_approval.as_ref().is_some_and(|human| human.value))
        }
    };
    if lacks_person(cx, step, name, person) {
        return None;
    }
    Some((step, sourced(cx, Threshold { score: share(score?), person }, threshold.mark)))
}

fn bare_score(cx: &mut Check<'_>, key: &str, word: &str, mark: Mark) -> Option<f64> {
    match word.parse().map(|value| At { value, mark }) {
        Ok(score) => cx.number(key, Some(&score), 0.0..=1.0),
        Err(_) => {
            cx.error(mark, format!("`{key}: {word}` is not a score"), "Write a number from 0 to 1.");
            None
        }
    }
}

fn lacks_person(cx: &mut Check<'_>, step: Step, name: &At<String>, person: bool) -> bool {
    let lacks = step == Step::StandardToElevated && !person;
    if lacks {
        let message = "nobody becomes `elevated` without a person: `standard_to_elevated` must require approval";
        cx.error(name.mark, message, "Add `requires_human_approval: true` to it.");
    }
    lacks
}

fn check_criteria(cx: &mut Check<'_>, block: &TrustFile) -> BTreeMap<Category, BTreeMap<Step, Sourced<Milestone>>> {
    let started: Vec<Category> =
        entries(&block.initial_levels).filter_map(|(name, _)| Category::parse(&name.value)).collect();
    let mut criteria = BTreeMap::new();
    for (name, Entries(promotions)) in entries(&block.promotion_criteria) {
        let known = category(cx, name);
        if known.is_some_and(|category| !started.contains(&category)) {
            let message = format!("category `{}` has criteria but no level to start from", name.value);
            cx.error(name.mark, message, format!("Add `{}: sandboxed` under `initial_levels`.", name.value));
        }
        let steps = promotions.iter().filter_map(|(step, criterion)| check_criterion(cx, step, criterion)).collect();
        criteria.extend(known.map(|category| (category, steps)));
    }
    criteria
}

fn check_criterion(
    cx: &mut Check<'_>,
    name: &At<String>,
    criterion: &CriterionFile,
) -> Option<(Step, Sourced<Milestone>)> {
    let step = transition(cx, name)?;
    let person = criterion.requires_human_approval.as_ref().is_some_and(|human| human.value);
    if lacks_person(cx, step, name, person) {
        return None;
    }
    let tasks = tasks(cx, name, criterion.tasks_completed.as_ref(), person);
    let quality = quality(cx, criterion.quality_score_min.as_ref());
    Some((step, sourced(cx, Milestone { tasks, quality, active_days: 0, clean_days: 0, person }, name.mark)))
}

fn check_milestone(
    cx: &mut Check<'_>,
    name: &At<String>,
    milestone: &MilestoneFile,
) -> Option<(Step, Sourced<Milestone>)> {
    let step = transition(cx, name)?;
    let person = milestone.requires_human_approval.as_ref().is_some_and(|human| human.value);
    if lacks_person(cx, step, name, person) {
        return None;
    }
    // Left out, a promotion is automatic unless a person is required.
    let auto = milestone.auto_promote.as_ref().map_or(!person, |auto| auto.value);
    if let Some(mark) = milestone.auto_promote.as_ref().map(|auto| auto.mark).filter(|_| auto == person) {
        let (message, remedy) = match auto {
            true => (
                "a promotion is automatic or takes a person, not both",
                "Remove `auto_promote`, or `requires_human_approval`.",
            ),
            false => (
                "this promotion is neither automatic nor a person's, so it could never happen",
                "Add `requires_human_approval: true`, or remove the milestone.",
            ),
        };
        cx.error(mark, message, remedy);
        return None;
    }
    let tasks = tasks(cx, name, milestone.tasks_completed.as_ref(), person);
    let quality = quality(cx, milestone.quality_score_min.as_ref());
    let active_days = days(cx, "time_active_days", milestone.time_active_days.as_ref(), 0).unwrap_or(0);
    let clean_days = days(cx, "clean_history_days", milestone.clean_history_days.as_ref(), 0).unwrap_or(0);
    Some((step, sourced(cx, Milestone { tasks, quality, active_days, clean_days, person }, name.mark)))
}

/// How many tasks a step takes. Where a person agrees they may be satisfied with other things; else it must be earned.
fn tasks(cx: &mut Check<'_>, name: &At<String>, tasks: Option<&At<u64>>, person: bool) -> u32 {
    let wrong = tasks.is_some() && cx.whole("tasks_completed", tasks, 0..=1_000_000).is_none();
    let tasks = tasks.map_or(0, |tasks| u32::try_from(tasks.value).unwrap_or(u32::MAX));
    if !wrong && tasks == 0 && !person {
        let message = format!("`{}` would be earned by doing nothing", name.value);
        cx.error(
            name.mark,
            message,
            "Add `tasks_completed: 10` or another number to it, or `requires_human_approval: true`.",
        );
    }
    tasks
}

/// A quality of 0 asks for nothing, and what nobody rated has it.
fn quality(cx: &mut Check<'_>, quality: Option<&At<f64>>) -> Option<Score> {
    let least = cx.number("quality_score_min", quality, 0.0..=10.0)?;
    Score::from_number(least).filter(|least| least.hundredths() > 0)
}

fn days(cx: &mut Check<'_>, key: &str, days: Option<&At<u64>>, least: u64) -> Option<u32> {
    u32::try_from(cx.whole(key, days, least..=3_650)?.value).ok()
}

/// How trust is lost. Errors cost a step under every strategy; the rest is what re-verification adds, or switches off.
fn check_decay(cx: &mut Check<'_>, again: Option<&ReVerificationFile>) -> Decay {
    let Some(again) = again else {
        return Decay { error_rate: Some(ERROR_RATE), ..Decay::default() };
    };
    let interval_days = days(cx, "interval_days", again.interval_days.as_ref(), 1);
    let idle_days = days(cx, "decay_on_idle_days", again.decay_on_idle_days.as_ref(), 1);
    let error_rate = cx.number("decay_on_error_rate", again.decay_on_error_rate.as_ref(), 0.0..=1.0).map(share);
    if again.enabled == Some(false) {
        return Decay::default();
    }
    Decay {
        error_rate: error_rate.or(Some(ERROR_RATE)),
        idle_days: idle_days.or(Some(IDLE_DAYS)),
        interval_days: interval_days.or(Some(INTERVAL_DAYS)),
    }
}
