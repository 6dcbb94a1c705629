//! The block `trust`: how agents earn a higher level.
//!
//! This build never changes a level. The rules are checked all the same, and agents stay at the level they would
//! start from: starting them higher because nobody promotes yet would be the wrong way round.

use toolgate_contract::{Category, Level};

use super::{
    check::{Check, entries},
    file::{CriterionFile, MilestoneFile, ReVerificationFile, ThresholdFile, TrustFile, WeightsFile},
    findings::Said,
    load::{At, Entries, Mark, WordOr},
    sandboxing::category,
};

const STRATEGIES: [&str; 4] = ["disabled", "weighted", "per_category", "milestone"];
const TRANSITIONS: [&str; 3] = ["sandboxed_to_restricted", "restricted_to_standard", "standard_to_elevated"];
const TO_ELEVATED: &str = "standard_to_elevated";

/// Checks the block; what comes back is the level of agents that set none.
pub(super) fn check(cx: &mut Check<'_>, block: &TrustFile) -> Option<Said<Level>> {
    let strategy = strategy(cx, block);
    if let Some(strategy) = strategy {
        belongs(cx, block, strategy);
    }
    if let Some(weights) = &block.weights {
        check_weights(cx, weights);
    }
    for (name, threshold) in entries(&block.promotion_thresholds) {
        check_threshold(cx, name, threshold);
    }
    let lowest = initial_levels(cx, &block.initial_levels);
    check_criteria(cx, block);
    for (name, milestone) in entries(&block.milestones) {
        check_milestone(cx, name, milestone);
    }
    if let Some(again) = &block.re_verification {
        check_re_verification(cx, again);
    }
    let initial = block.initial_level.as_ref().and_then(|level| initial_level(cx, level)).or(lowest);
    if let Some(strategy) = strategy.filter(|strategy| *strategy != "disabled") {
        note(cx, block, strategy, initial.as_ref());
    }
    initial
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

/// The lowest of the levels per category: without tracks per category, an agent gets what every track would give it.
fn initial_levels(cx: &mut Check<'_>, levels: &Option<Entries<At<String>>>) -> Option<Said<Level>> {
    entries(levels)
        .filter_map(|(name, level)| {
            category(cx, name);
            initial_level(cx, level)
        })
        .min_by_key(|level| level.value)
}

fn check_weights(cx: &mut Check<'_>, weights: &WeightsFile) {
    let given = [
        ("task_difficulty", &weights.task_difficulty, 0.3),
        ("completion_rate", &weights.completion_rate, 0.25),
        ("error_rate", &weights.error_rate, 0.25),
        ("human_feedback", &weights.human_feedback, 0.2),
    ];
    let mut sum = 0.0;
    for (key, weight, default) in given {
        let value = cx.number(key, weight.as_ref(), 0.0..=1.0);
        if weight.is_some() && value.is_none() {
            return;
        }
        sum += value.unwrap_or(default);
    }
    // A hair above 0.01, because 0.3 + 0.25 + 0.25 + 0.21 does not add up to 1.01 in binary.
    if (sum - 1.0_f64).abs() > 0.010_000_1 {
        let message = format!("the four weights add up to {}, not to 1", (sum * 1_000.0).round() / 1_000.0);
        let remedy = "Change them so that they add up to 1; one that is left out counts 0.3, 0.25, 0.25 or 0.2.";
        cx.error(cx.key(&["trust", "weights"]), message, remedy);
    }
}

fn transition(cx: &mut Check<'_>, name: &At<String>) -> bool {
    let known = TRANSITIONS.contains(&&*name.value);
    if !known {
        cx.unknown("promotion", name, TRANSITIONS);
    }
    known
}

fn check_threshold(cx: &mut Check<'_>, name: &At<String>, threshold: &At<WordOr<ThresholdFile>>) {
    if !transition(cx, name) {
        return;
    }
    let human = match &threshold.value {
        WordOr::Word(word) => {
            bare_score(cx, &name.value, word, threshold.mark);
            false
        }
        WordOr::Mapping(mapping) => {
            if mapping.score.is_none() {
                cx.error(
                    threshold.mark,
                    format!("`{}` has no score", name.value),
                    "Add `score: 0.8` or another from 0 to 1.",
                );
            }
            cx.number("score", mapping.score.as_ref(), 0.0..=1.0);
            mapping.requires_human_approval.as_ref().is_some_and(|human| human.value)
        }
    };
    needs_human(cx, name, human);
}

fn bare_score(cx: &mut Check<'_>, key: &str, word: &str, mark: Mark) {
    let score = word.parse().map(|value| At { value, mark });
    match score {
        Ok(score) => _ = cx.number(key, Some(&score), 0.0..=1.0),
        Err(_) => cx.error(mark, format!("`{key}: {word}` is not a score"), "Write a number from 0 to 1."),
    }
}

fn needs_human(cx: &mut Check<'_>, name: &At<String>, human: bool) {
    if name.value == TO_ELEVATED && !human {
        let message = "nobody becomes `elevated` without a person: `standard_to_elevated` must require approval";
        cx.error(name.mark, message, "Add `requires_human_approval: true` to it.");
    }
}

fn check_criteria(cx: &mut Check<'_>, block: &TrustFile) {
    let started: Vec<Category> =
        entries(&block.initial_levels).filter_map(|(name, _)| Category::parse(&name.value)).collect();
    for (name, Entries(promotions)) in entries(&block.promotion_criteria) {
        if category(cx, name).is_some_and(|category| !started.contains(&category)) {
            let message = format!("category `{}` has criteria but no level to start from", name.value);
            cx.error(name.mark, message, format!("Add `{}: sandboxed` under `initial_levels`.", name.value));
        }
        for (step, criterion) in promotions {
            check_criterion(cx, step, criterion);
        }
    }
}

fn check_criterion(cx: &mut Check<'_>, name: &At<String>, criterion: &CriterionFile) {
    if !transition(cx, name) {
        return;
    }
    cx.whole("tasks_completed", criterion.tasks_completed.as_ref(), 0..=1_000_000);
    cx.number("quality_score_min", criterion.quality_score_min.as_ref(), 0.0..=10.0);
    needs_human(cx, name, criterion.requires_human_approval.as_ref().is_some_and(|human| human.value));
}

fn check_milestone(cx: &mut Check<'_>, name: &At<String>, milestone: &MilestoneFile) {
    if !transition(cx, name) {
        return;
    }
    cx.whole("tasks_completed", milestone.tasks_completed.as_ref(), 0..=1_000_000);
    cx.number("quality_score_min", milestone.quality_score_min.as_ref(), 0.0..=10.0);
    cx.whole("time_active_days", milestone.time_active_days.as_ref(), 0..=3_650);
    cx.whole("clean_history_days", milestone.clean_history_days.as_ref(), 0..=3_650);
    let human = milestone.requires_human_approval.as_ref().is_some_and(|human| human.value);
    needs_human(cx, name, human);
    // Left out, a promotion is automatic unless a person is required.
    let Some(auto) = &milestone.auto_promote else {
        return;
    };
    if auto.value && human {
        let message = "a promotion is automatic or takes a person, not both";
        cx.error(auto.mark, message, "Remove `auto_promote`, or `requires_human_approval`.");
    }
    if !auto.value && !human {
        let message = "this promotion is neither automatic nor a person's, so it could never happen";
        cx.error(auto.mark, message, "Add `requires_human_approval: true`, or remove the milestone.");
    }
}

fn check_re_verification(cx: &mut Check<'_>, again: &ReVerificationFile) {
    cx.whole("interval_days", again.interval_days.as_ref(), 1..=3_650);
    cx.whole("decay_on_idle_days", again.decay_on_idle_days.as_ref(), 1..=3_650);
    cx.number("decay_on_error_rate", again.decay_on_error_rate.as_ref(), 0.0..=1.0);
}

fn note(cx: &mut Check<'_>, block: &TrustFile, strategy: &str, initial: Option<&Said<Level>>) {
    let mark = block.strategy.as_ref().map_or_else(Mark::default, |word| word.mark);
    let stay = initial.map_or("keep their level".to_owned(), |level| {
        format!("keep their level, those that set none `{}`", level.value)
    });
    cx.note(mark, format!("`strategy: {strategy}` is checked, but this build promotes nobody: agents {stay}"));
}
