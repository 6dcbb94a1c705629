//! Trust: stories with the steps they lead to, and the laws that hold for every history.

use std::{collections::BTreeMap, slice};

use proptest::{prelude::*, strategy::Strategy as Gen};
use toolgate_contract::{AgentName, Category, Difficulty, Evidence, Fact, Level, Part, Score, TaskOutcome};
use toolgate_gate::{
    Sourced,
    trust::{Decay, Milestone, Need, Next, Pending, Standing, Step, Strategy, Threshold, TrustRules, Weights, stand},
};

const HOUR: u64 = 60 * 60 * 1_000;
const DAY: u64 = 24 * HOUR;
/// Noon of some day: what is a minute later is still that day.
const NOON: u64 = 20_000 * DAY + DAY / 2;

fn score(hundredths: u16) -> Score {
    Score::from_hundredths(hundredths).unwrap_or(Score::BEST)
}

const WEIGHTS: Weights =
    Weights { task_difficulty: 3_000, completion_rate: 2_500, error_rate: 2_500, human_feedback: 2_000 };

/// The rules of the examples in `crates/runtime/tests/fixtures`.
fn weighted() -> TrustRules {
    let step = |score, person| Sourced::built_in(Threshold { score, person });
    TrustRules {
        strategy: Strategy::Weighted {
            weights: WEIGHTS,
            steps: [
                (Step::SandboxedToRestricted, step(4_000, false)),
                (Step::RestrictedToStandard, step(6_000, false)),
                (Step::StandardToElevated, step(8_000, true)),
            ]
            .into(),
        },
        decay: Decay { error_rate: Some(1_500), ..Decay::default() },
    }
}

#[test]
fn a_strategy_has_the_word_the_config_has_for_it() {
    let words = [weighted(), per_category(), milestone(), TrustRules::disabled()]
        .map(|rules| (rules.strategy.as_str(), rules.moves()));
    let expected = [("weighted", true), ("per_category", true), ("milestone", true), ("disabled", false)];
    assert_eq!(words, expected);
}

const NOTHING: Milestone = Milestone { tasks: 0, quality: None, active_days: 0, clean_days: 0, person: false };

fn per_category() -> TrustRules {
    let (restricted, sandboxed) = (Sourced::built_in(Level::Restricted), Sourced::built_in(Level::Sandboxed));
    let files = Milestone { tasks: 10, quality: Some(score(700)), ..NOTHING };
    let deployment = Milestone { tasks: 20, quality: Some(score(850)), person: true, ..NOTHING };
    TrustRules {
        strategy: Strategy::PerCategory {
            start: [
                (Category::FileSystem, restricted.clone()),
                (Category::VersionControl, restricted),
                (Category::CodeExecution, sandboxed.clone()),
                (Category::Deployment, sandboxed.clone()),
                (Category::Database, sandboxed.clone()),
                (Category::Terminal, sandboxed),
            ]
            .into(),
            steps: [
                (Category::FileSystem, [(Step::RestrictedToStandard, Sourced::built_in(files))].into()),
                (Category::Deployment, [(Step::SandboxedToRestricted, Sourced::built_in(deployment))].into()),
            ]
            .into(),
        },
        decay: Decay { error_rate: Some(1_500), ..Decay::default() },
    }
}

fn milestone() -> TrustRules {
    let restricted = Milestone { tasks: 5, quality: Some(score(700)), ..NOTHING };
    let standard = Milestone { tasks: 20, quality: Some(score(800)), active_days: 7, ..NOTHING };
    let elevated = Milestone { clean_days: 14, person: true, ..NOTHING };
    TrustRules {
        strategy: Strategy::Milestone {
            steps: [
                (Step::SandboxedToRestricted, Sourced::built_in(restricted)),
                (Step::RestrictedToStandard, Sourced::built_in(standard)),
                (Step::StandardToElevated, Sourced::built_in(elevated)),
            ]
            .into(),
        },
        decay: Decay { error_rate: Some(1_500), idle_days: Some(30), interval_days: Some(90) },
    }
}

fn evidence(at_ms: u64, category: Option<Category>, fact: Fact) -> Evidence {
    Evidence { at_ms, agent: AgentName::from("coder"), category, by: "user:jo".into(), fact }
}

/// A history in one category, told in days after [`NOON`]; what happens on one day happens in the order it is told.
#[derive(Default)]
struct Story {
    known: Vec<Evidence>,
    tasks: usize,
}

impl Story {
    fn add(mut self, day: u64, fact: Fact) -> Self {
        let second = 1_000 * self.known.len() as u64;
        self.known.push(evidence(NOON + day * DAY + second, Some(Category::Web), fact));
        self
    }

    fn tasks(mut self, day: u64, count: usize, difficulty: Difficulty, quality: u16) -> Self {
        for _ in 0..count {
            self.tasks += 1;
            let task = format!("task-{}", self.tasks);
            self = self.add(day, task_done(&task, difficulty, Some(quality)));
        }
        self
    }

    fn failures(mut self, day: u64, count: usize) -> Self {
        for _ in 0..count {
            self.tasks += 1;
            let task = format!("task-{}", self.tasks);
            self = self.add(day, task_failed(&task));
        }
        self
    }

    fn calls(self, day: u64, ok: u32, failed: u32) -> Self {
        self.add(day, Fact::Calls { ok, failed })
    }

    fn stand(&self, rules: &TrustRules, start: Level, day: u64) -> Standing {
        stand(rules, start, &self.known, NOON + day * DAY + HOUR)
    }

    /// The level in the story's category after so many days, and every step there was: day, level, why.
    fn check(&self, rules: &TrustRules, start: Level, day: u64, expected: &[(u64, Level, &str)]) {
        let standing = self.stand(rules, start, day);
        let steps: Vec<_> =
            standing.because.iter().map(|step| ((step.at_ms + DAY / 2 - NOON) / DAY, step.to, &*step.why)).collect();
        assert_eq!(steps, expected);
        let level = expected.last().map_or(start, |(_, level, _)| *level);
        assert_eq!(standing.level(Category::Web), level);
    }
}

fn task_done(task: &str, difficulty: Difficulty, quality: Option<u16>) -> Fact {
    Fact::Task { task: task.into(), outcome: TaskOutcome::Success, difficulty, quality: quality.map(score) }
}

fn task_failed(task: &str) -> Fact {
    Fact::Task { task: task.into(), outcome: TaskOutcome::Failure, difficulty: Difficulty::Medium, quality: None }
}

fn incident(name: &str) -> Fact {
    Fact::Incident { incident: name.into() }
}

fn identity(part: Part, value: &str) -> Fact {
    Fact::Identity { part, value: value.into() }
}

const RESTRICTED: &str = "5 of 5 tasks done that are at least easy and of quality 7 or better";
const STANDARD: &str = "20 of 20 tasks done that are at least medium and of quality 8 or better, 7 of 7 days of work";

/// An agent on its way up by milestones: `restricted` on day 0, `standard` on day 7.
fn rising() -> Story {
    Story::default().tasks(0, 5, Difficulty::Easy, 800).tasks(0, 10, Difficulty::Medium, 900).tasks(
        7,
        10,
        Difficulty::Hard,
        800,
    )
}

// ---- the strategies ----

#[test]
fn disabled_moves_nobody() {
    let story = rising().failures(8, 20);
    for start in Level::LADDER {
        story.check(&TrustRules::disabled(), start, 400, &[]);
    }
}

#[test]
fn milestones_are_taken_one_by_one() {
    let story = rising();
    let steps = [(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD)];
    story.check(&milestone(), Level::Sandboxed, 7, &steps);
}

#[test]
fn a_task_short_of_a_milestone_is_short_of_it() {
    let easy = |count, quality| Story::default().tasks(0, count, Difficulty::Easy, quality);
    easy(4, 1_000).check(&milestone(), Level::Sandboxed, 0, &[]);
    easy(5, 699).check(&milestone(), Level::Sandboxed, 0, &[]);
    easy(5, 700).check(&milestone(), Level::Sandboxed, 0, &[(0, Level::Restricted, RESTRICTED)]);
    let unrated = (0..9)
        .fold(Story::default(), |story, n| story.add(0, task_done(&format!("unrated-{n}"), Difficulty::Hard, None)));
    unrated.check(&milestone(), Level::Sandboxed, 0, &[]);
    let once = (0..9).fold(Story::default(), |story, _| story.add(0, task_done("one", Difficulty::Hard, Some(900))));
    once.check(&milestone(), Level::Sandboxed, 0, &[]);
    Story::default().calls(0, 1_000, 0).check(&milestone(), Level::Sandboxed, 0, &[]);
}

#[test]
fn routine_work_proves_nothing_about_more_than_routine() {
    let story = Story::default().tasks(0, 50, Difficulty::Easy, 1_000).tasks(10, 50, Difficulty::Easy, 1_000);
    story.check(&milestone(), Level::Sandboxed, 20, &[(0, Level::Restricted, RESTRICTED)]);
    story.check(&milestone(), Level::Restricted, 20, &[]);
}

#[test]
fn waiting_is_not_working() {
    let story = Story::default().tasks(0, 20, Difficulty::Medium, 800);
    story.check(&milestone(), Level::Restricted, 29, &[]);
    story.calls(7, 1, 0).check(&milestone(), Level::Restricted, 29, &[(7, Level::Standard, STANDARD)]);
}

#[test]
fn an_opinion_that_says_nothing_brings_nobody_up() {
    let clean = Milestone { tasks: 1, clean_days: 3, ..NOTHING };
    let strategy = Strategy::Milestone { steps: [(Step::SandboxedToRestricted, Sourced::built_in(clean))].into() };
    let rules = TrustRules { strategy, decay: Decay::default() };
    let level = |hundredths| {
        let rated = Fact::Feedback { task: None, rating: score(hundredths) };
        let story = Story::default().tasks(0, 1, Difficulty::Easy, 1_000).add(5, rated);
        story.stand(&rules, Level::Sandboxed, 5).level(Category::Web)
    };
    assert_eq!([500, 501].map(level), [Level::Sandboxed, Level::Restricted]);
}

#[test]
fn a_score_takes_one_step_at_a_time_and_new_evidence_for_each() {
    let easy = "a score of 0.4199 of 0.4";
    let story = Story::default().tasks(0, 7, Difficulty::Easy, 1_000);
    story.check(&weighted(), Level::Sandboxed, 0, &[(0, Level::Restricted, easy)]);
    let story = story.tasks(1, 100, Difficulty::Easy, 1_000);
    story.check(&weighted(), Level::Sandboxed, 1, &[(0, Level::Restricted, easy)]);
    let story = story.tasks(2, 8, Difficulty::Medium, 1_000);
    let steps = [(0, Level::Restricted, easy), (2, Level::Standard, "a score of 0.6099 of 0.6")];
    story.check(&weighted(), Level::Sandboxed, 2, &steps);
}

#[test]
fn what_one_step_took_is_not_taken_for_the_next() {
    let level = |tasks| {
        let story = Story::default().tasks(0, tasks, Difficulty::Hard, 1_000);
        story.stand(&weighted(), Level::Sandboxed, 0).level(Category::Web)
    };
    assert_eq!([4, 5, 12, 13].map(level), [Level::Sandboxed, Level::Restricted, Level::Restricted, Level::Standard]);
}

#[test]
fn a_score_may_want_a_person_for_any_step() {
    let step = Sourced::built_in(Threshold { score: 4_000, person: true });
    let steps = [(Step::SandboxedToRestricted, step)].into();
    let rules = TrustRules { strategy: Strategy::Weighted { weights: WEIGHTS, steps }, decay: Decay::default() };
    let story = Story::default().tasks(0, 5, Difficulty::Hard, 1_000);
    let standing = story.stand(&rules, Level::Sandboxed, 0);
    assert_eq!((standing.because.len(), standing.pending.len()), (0, 1));
    let agreed = story.add(0, Fact::Promotion { to: Level::Restricted }).stand(&rules, Level::Sandboxed, 0);
    assert_eq!(agreed.level(Category::Web), Level::Restricted);
}

#[test]
fn a_level_that_was_given_is_kept_by_another_agent_of_the_name() {
    let story = Story::default().add(0, identity(Part::Model, "one")).add(1, identity(Part::Model, "other"));
    story.check(&milestone(), Level::Standard, 2, &[]);
}

#[test]
fn a_score_falls_with_errors_and_with_what_people_think() {
    let have = |story: &Story| match &*story.stand(&weighted(), Level::Standard, 1).next {
        [Next { needs, .. }] => match **needs {
            [Need::Score { have, want: 8_000 }] => have,
            _ => panic!("{needs:?}"),
        },
        other => panic!("{other:?}"),
    };
    let nothing = Story::default();
    assert_eq!(have(&nothing), 0);
    let three = nothing.tasks(0, 3, Difficulty::Hard, 800);
    assert_eq!(have(&three), 900 + 750 + 750);
    let praised = three.add(0, Fact::Feedback { task: None, rating: score(900) });
    assert_eq!(have(&praised), 900 + 750 + 750 + 160);
    let blamed = praised.add(0, Fact::Feedback { task: None, rating: score(100) });
    assert_eq!(have(&blamed), 900 + 750 + 750);
    let busy = blamed.calls(0, 7, 0);
    assert_eq!(have(&busy), 900 + 750 + 2_500);
    let failing = busy.calls(0, 0, 1);
    assert_eq!(have(&failing), 900 + 750 + 2_500 * 10 / 11);
    let rules = TrustRules { decay: Decay::default(), ..weighted() };
    let failed = Story::default().tasks(0, 3, Difficulty::Hard, 800).failures(0, 9);
    let needs = &failed.stand(&rules, Level::Standard, 1).next[0].needs;
    assert_eq!(**needs, [Need::Score { have: 900 + 2_500 * 3 / 12 + 2_500 * 3 / 12, want: 8_000 }]);
}

#[test]
fn what_speaks_against_a_step_is_forgotten_after_a_quarter() {
    let rules = TrustRules { decay: Decay::default(), ..weighted() };
    let rated = |hundredths| Fact::Feedback { task: None, rating: score(hundredths) };
    let story = Story::default().failures(0, 9).add(0, rated(100)).failures(50, 12);
    let story = story.tasks(95, 3, Difficulty::Hard, 800).add(95, rated(900));
    let needs = &story.stand(&rules, Level::Standard, 96).next[0].needs;
    assert_eq!(**needs, [Need::Score { have: 900 + 2_500 * 3 / 15 + 2_500 * 3 / 15 + 160, want: 8_000 }]);
}

#[test]
fn praise_that_is_enough_is_enough_at_once() {
    let praise = || Fact::Feedback { task: None, rating: score(900) };
    let story = Story::default().tasks(0, 6, Difficulty::Easy, 1_000).add(0, praise()).add(0, praise());
    assert_eq!(story.stand(&weighted(), Level::Sandboxed, 0).level(Category::Web), Level::Sandboxed);
    let story = story.add(0, praise());
    assert_eq!(story.stand(&weighted(), Level::Sandboxed, 0).level(Category::Web), Level::Restricted);
}

#[test]
fn under_a_score_all_categories_are_one() {
    let story = Story::default().tasks(0, 7, Difficulty::Easy, 1_000);
    let levels = story.stand(&weighted(), Level::Sandboxed, 0).levels;
    assert_eq!(levels, Category::ALL.map(|category| (category, Level::Restricted)).into());
}

#[test]
fn criteria_per_category_are_met_by_work_in_that_category() {
    let mut levels: BTreeMap<_, _> = Category::ALL.map(|category| (category, Level::Sandboxed)).into();
    levels.insert(Category::FileSystem, Level::Restricted);
    levels.insert(Category::VersionControl, Level::Restricted);
    let at = |known: &[Evidence]| stand(&per_category(), Level::Sandboxed, known, NOON);
    assert_eq!(at(&[]).levels, levels);

    let work = |category, count, difficulty, quality| {
        let tasks = 0..count;
        let one = move |n| evidence(NOON, Some(category), task_done(&format!("task-{n}"), difficulty, Some(quality)));
        tasks.map(one).collect::<Vec<_>>()
    };
    let mut known = work(Category::Web, 50, Difficulty::Hard, 1_000);
    known.extend(work(Category::VersionControl, 50, Difficulty::Hard, 1_000));
    known.extend(work(Category::FileSystem, 9, Difficulty::Hard, 1_000));
    known.push(evidence(NOON, Some(Category::FileSystem), task_done("poor", Difficulty::Hard, Some(699))));
    assert_eq!(at(&known).levels, levels);

    known.extend(work(Category::FileSystem, 10, Difficulty::Medium, 700));
    levels.insert(Category::FileSystem, Level::Standard);
    assert_eq!(at(&known).levels, levels);

    known.extend(work(Category::Deployment, 20, Difficulty::Easy, 850));
    let standing = at(&known);
    assert_eq!(standing.levels, levels);
    let pending = Pending { category: Some(Category::Deployment), from: Level::Sandboxed, to: Level::Restricted };
    assert_eq!(standing.pending, [pending]);
    assert_eq!(standing.pending(Category::Deployment), Some(&pending));
    assert_eq!(standing.pending(Category::FileSystem), None);

    known.push(evidence(NOON, Some(Category::Deployment), Fact::Promotion { to: Level::Restricted }));
    levels.insert(Category::Deployment, Level::Restricted);
    assert_eq!((at(&known).levels, at(&known).pending), (levels, vec![]));
}

#[test]
fn what_belongs_to_no_category_counts_in_none() {
    let known: Vec<_> =
        (0..50).map(|n| evidence(NOON, None, task_done(&format!("task-{n}"), Difficulty::Hard, Some(1_000)))).collect();
    assert_eq!(stand(&milestone(), Level::Sandboxed, &known, NOON).because, []);
}

// ---- a person ----

#[test]
fn nobody_is_elevated_without_a_person() {
    let story = (8..=40).fold(rising(), |story, day| story.tasks(day, 5, Difficulty::Hard, 1_000));
    let standing = story.stand(&milestone(), Level::Sandboxed, 40);
    assert_eq!(standing.level(Category::Web), Level::Standard);
    let pending = Pending { category: Some(Category::Web), from: Level::Standard, to: Level::Elevated };
    assert_eq!(standing.pending, [pending]);

    // Not even if the rules forget to say so.
    let Strategy::Milestone { mut steps } = milestone().strategy else { panic!() };
    let last = Milestone { tasks: 1, ..NOTHING };
    steps.insert(Step::StandardToElevated, Sourced::built_in(last));
    let careless = TrustRules { strategy: Strategy::Milestone { steps }, ..milestone() };
    let standing = story.stand(&careless, Level::Sandboxed, 40);
    assert_eq!((standing.level(Category::Web), standing.pending), (Level::Standard, vec![pending]));
}

#[test]
fn a_milestone_may_want_a_person_for_any_step() {
    let step = Sourced::built_in(Milestone { tasks: 1, person: true, ..NOTHING });
    let steps = [(Step::SandboxedToRestricted, step)].into();
    let rules = TrustRules { strategy: Strategy::Milestone { steps }, ..milestone() };
    let story = Story::default().tasks(0, 5, Difficulty::Hard, 1_000);
    let standing = story.stand(&rules, Level::Sandboxed, 0);
    let pending = Pending { category: Some(Category::Web), from: Level::Sandboxed, to: Level::Restricted };
    assert_eq!((standing.because, standing.pending), (Vec::new(), vec![pending]));
}

#[test]
fn a_step_that_waits_is_taken_when_a_person_agrees() {
    let steps = [(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD)];
    let yes = Fact::Promotion { to: Level::Elevated };
    // There is nothing to agree to yet.
    let story = rising().calls(8, 1, 0).add(21, yes.clone());
    story.check(&milestone(), Level::Sandboxed, 21, &steps);
    assert_eq!(story.stand(&milestone(), Level::Sandboxed, 21).pending, []);
    assert_eq!(story.stand(&milestone(), Level::Sandboxed, 22).pending.len(), 1);

    let why = "a person agreed; 14 of 14 days of work without a failure";
    let story = story.add(22, yes.clone());
    let [first, second] = steps;
    story.check(&milestone(), Level::Sandboxed, 22, &[first, second, (22, Level::Elevated, why)]);

    // Agreeing to another step changes nothing.
    let story = rising().calls(8, 1, 0).add(22, Fact::Promotion { to: Level::Standard });
    story.check(&milestone(), Level::Sandboxed, 22, &steps);
}

#[test]
fn a_person_agrees_to_what_is_earned_and_to_nothing_else() {
    let yes = |to| Fact::Promotion { to };
    Story::default().add(0, yes(Level::Restricted)).check(&milestone(), Level::Sandboxed, 0, &[]);
    Story::default().add(0, yes(Level::Elevated)).check(&weighted(), Level::Standard, 0, &[]);
    // A history takes time, and one without work is none.
    Story::default().add(20, yes(Level::Elevated)).check(&milestone(), Level::Standard, 20, &[]);
    Story::default().calls(0, 0, 1).add(20, yes(Level::Elevated)).check(&milestone(), Level::Standard, 20, &[]);
    let story = Story::default().calls(0, 1, 0).failures(3, 1);
    story.add(16, yes(Level::Elevated)).check(&milestone(), Level::Standard, 16, &[]);
    let why = "a person agreed; 14 of 14 days of work without a failure";
    let story = Story::default().calls(0, 1, 0).failures(3, 1);
    story.add(17, yes(Level::Elevated)).check(&milestone(), Level::Standard, 17, &[(17, Level::Elevated, why)]);
}

// ---- down ----

#[test]
fn an_incident_costs_one_step_and_counts_once() {
    let story = rising().add(8, incident("leak"));
    let why = "incident `leak`";
    let steps = [(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD), (8, Level::Restricted, why)];
    story.check(&milestone(), Level::Sandboxed, 8, &steps);
    let story = story.add(9, incident("leak")).add(9, incident("leak"));
    story.check(&milestone(), Level::Sandboxed, 9, &steps);
    let [first, second, third] = steps;
    let story = story.add(10, incident("other"));
    story.check(
        &milestone(),
        Level::Sandboxed,
        10,
        &[first, second, third, (10, Level::Sandboxed, "incident `other`")],
    );
}

#[test]
fn what_was_earned_before_an_incident_counts_for_nothing_after_it() {
    let start = Level::Restricted;
    let fell = (0, Level::Sandboxed, "incident `leak`");
    let story = Story::default().tasks(0, 4, Difficulty::Easy, 900).add(0, incident("leak"));
    let story = story.tasks(1, 4, Difficulty::Easy, 900);
    story.check(&milestone(), start, 1, &[fell]);
    // A report of what is known is no new work.
    let story =
        (1..=4).fold(story, |story, n| story.add(2, task_done(&format!("task-{n}"), Difficulty::Easy, Some(900))));
    story.check(&milestone(), start, 2, &[fell]);
    let story = story.tasks(3, 1, Difficulty::Easy, 900);
    story.check(&milestone(), start, 3, &[fell, (3, Level::Restricted, RESTRICTED)]);
}

#[test]
fn an_incident_of_the_agent_as_a_whole_costs_a_step_everywhere() {
    let known = [evidence(NOON, None, incident("leak"))];
    let levels = |rules: &TrustRules| stand(rules, Level::Standard, &known, NOON).levels;
    assert_eq!(levels(&milestone()), Category::ALL.map(|category| (category, Level::Restricted)).into());
    assert_eq!(levels(&weighted()), Category::ALL.map(|category| (category, Level::Restricted)).into());
}

#[test]
fn too_many_errors_cost_one_step_a_day() {
    for rules in [weighted(), per_category(), milestone()] {
        let rules = TrustRules { decay: Decay { idle_days: None, ..rules.decay }, ..rules };
        let start = Level::Standard;
        let week = |bad, all| format!("{bad} errors among the {all} calls and tasks of a week are more than 15 %");
        let at = |story: &Story, day| {
            let steps = story.stand(&rules, start, day).because;
            steps.into_iter().map(|step| ((step.at_ms - NOON) / DAY, step.to, step.why)).collect::<Vec<_>>()
        };
        // One error is no rate.
        let story = Story::default().failures(0, 1);
        assert_eq!(at(&story, 0), []);
        let story = story.failures(0, 1);
        let first = (0, Level::Restricted, week(2, 2));
        assert_eq!(at(&story, 0), slice::from_ref(&first));
        let story = story.failures(0, 5).calls(0, 0, 9);
        assert_eq!(at(&story, 0), slice::from_ref(&first));
        // Nothing new happens: the same errors do not count again.
        assert_eq!(at(&story, 20), slice::from_ref(&first));
        let story = story.failures(1, 1);
        let second = (1, Level::Sandboxed, week(17, 17));
        assert_eq!(at(&story, 1), [first.clone(), second.clone()]);
        // There is no step below the lowest.
        let story = story.failures(2, 9);
        assert_eq!(at(&story, 2), [first, second]);
    }
}

#[test]
fn a_rate_is_of_a_week() {
    let rules = milestone();
    // 15 of 100 are not above 15 %.
    Story::default().calls(0, 85, 15).check(&rules, Level::Standard, 0, &[]);
    let why = "16 errors among the 100 calls and tasks of a week are more than 15 %";
    Story::default().calls(0, 84, 16).check(&rules, Level::Standard, 0, &[(0, Level::Restricted, why)]);
    // What went well a week ago does not excuse what goes wrong now, nor the other way round.
    let why = "2 errors among the 2 calls and tasks of a week are more than 15 %";
    Story::default().calls(0, 85, 15).calls(7, 0, 2).check(&rules, Level::Standard, 7, &[(7, Level::Restricted, why)]);
    Story::default().calls(0, 85, 15).calls(6, 0, 1).calls(6, 20, 0).check(
        &rules,
        Level::Standard,
        6,
        &[(6, Level::Restricted, "16 errors among the 101 calls and tasks of a week are more than 15 %")],
    );
}

#[test]
fn what_follows_an_error_does_not_undo_its_step() {
    let fell = (0, Level::Restricted, "2 errors among the 2 calls and tasks of a week are more than 15 %");
    let story = Story::default().calls(0, 0, 2).calls(0, 1_000, 0).tasks(0, 4, Difficulty::Hard, 900);
    story.check(&milestone(), Level::Standard, 20, &[fell]);
}

#[test]
fn errors_cost_nothing_more_when_things_go_well() {
    let story = Story::default().calls(0, 0, 10);
    let standing = story.stand(&weighted(), Level::Standard, 0);
    assert_eq!((standing.because.len(), standing.level(Category::Web)), (1, Level::Restricted));
    let standing = story.calls(1, 1, 0).stand(&weighted(), Level::Standard, 1);
    assert_eq!((standing.because.len(), standing.level(Category::Web)), (1, Level::Restricted));
}

#[test]
fn nothing_is_earned_on_a_day_that_cost_a_step() {
    let fell = (0, Level::Sandboxed, "2 errors among the 2 calls and tasks of a week are more than 15 %");
    let story = Story::default().failures(0, 2).tasks(0, 9, Difficulty::Hard, 900);
    story.check(&milestone(), Level::Restricted, 0, &[fell]);
    let story = story.tasks(1, 1, Difficulty::Hard, 900);
    let why = "10 of 5 tasks done that are at least easy and of quality 7 or better";
    story.check(&milestone(), Level::Restricted, 1, &[fell, (1, Level::Restricted, why)]);
}

#[test]
fn an_error_on_such_a_day_costs_what_was_gathered_since() {
    let fell = (0, Level::Sandboxed, "2 errors among the 2 calls and tasks of a week are more than 15 %");
    let story = || Story::default().failures(0, 2).tasks(0, 4, Difficulty::Easy, 900);
    let rose = (1, Level::Restricted, RESTRICTED);
    story().tasks(1, 1, Difficulty::Easy, 900).check(&milestone(), Level::Restricted, 1, &[fell, rose]);
    let story = story().calls(0, 0, 1).tasks(1, 4, Difficulty::Easy, 900);
    story.check(&milestone(), Level::Restricted, 1, &[fell]);
    story.tasks(1, 1, Difficulty::Easy, 900).check(&milestone(), Level::Restricted, 1, &[fell, rose]);
}

#[test]
fn a_task_that_failed_stays_failed() {
    let story = Story::default().tasks(0, 4, Difficulty::Easy, 900);
    let done = |task: &str| task_done(task, Difficulty::Easy, Some(900));
    story.add(1, done("late")).check(&milestone(), Level::Sandboxed, 1, &[(1, Level::Restricted, RESTRICTED)]);
    let story = Story::default().tasks(0, 4, Difficulty::Easy, 900).add(0, task_failed("late"));
    story.add(1, done("late")).check(&milestone(), Level::Sandboxed, 1, &[]);
    let story = Story::default().tasks(0, 4, Difficulty::Easy, 900).add(0, task_failed("task-4"));
    story.add(1, done("late")).check(&milestone(), Level::Sandboxed, 1, &[]);
}

#[test]
fn idleness_is_measured_from_what_last_went_well() {
    let why = "nothing went well for 30 days";
    let story = Story::default().calls(0, 1, 0);
    story.check(&milestone(), Level::Standard, 29, &[]);
    story.check(&milestone(), Level::Standard, 30, &[(30, Level::Restricted, why)]);
    // One stretch of idleness costs one step.
    story.check(&milestone(), Level::Standard, 400, &[(30, Level::Restricted, why)]);
    // Work, however it is known, ends it.
    let story = Story::default().calls(0, 1, 0).tasks(20, 1, Difficulty::Easy, 100).calls(45, 1, 0);
    story.check(&milestone(), Level::Standard, 74, &[]);
    // Failing does not.
    let story = Story::default().calls(0, 1, 0).calls(20, 0, 1);
    story.check(&milestone(), Level::Standard, 30, &[(30, Level::Restricted, why)]);
    let story = Story::default().calls(0, 1, 0).calls(40, 1, 0);
    let steps = [(30, Level::Restricted, why), (70, Level::Sandboxed, why)];
    story.check(&milestone(), Level::Standard, 100, &steps);
    // An agent nobody has seen yet is not idle.
    Story::default().check(&milestone(), Level::Standard, 1_000, &[]);
}

#[test]
fn a_level_that_was_earned_is_earned_again_every_interval() {
    let mut steps = vec![(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD)];
    let busy = |story: Story, days: std::ops::Range<u64>| days.fold(story, |story, day| story.calls(day, 1, 0));
    // What earned it is still good for the first interval.
    let story = busy(rising(), 8..200);
    story.check(&milestone(), Level::Sandboxed, 89, &steps);
    story.check(&milestone(), Level::Sandboxed, 90, &steps);
    let why =
        "re-verification after 90 days found 0 of 20 tasks done that are at least medium and of quality 8 or better";
    steps.push((180, Level::Restricted, why));
    story.check(&milestone(), Level::Sandboxed, 180, &steps);
    // It comes first on its day, before whatever goes wrong then.
    let fell = story.stand(&milestone(), Level::Sandboxed, 180).because.last().map(|step| step.at_ms);
    assert_eq!(fell, Some(NOON - DAY / 2 + 180 * DAY));
    // What there was stays, and what was missing can be made good.
    let half = |story: Story, day| story.tasks(day, 10, Difficulty::Medium, 800);
    let why = why.replace("0 of 20", "10 of 20");
    let again = STANDARD.replace("7 of 7", "190 of 7");
    let told = [steps[0], steps[1], (180, Level::Restricted, &*why), (190, Level::Standard, &*again)];
    half(half(busy(rising(), 8..190), 150), 190).check(&milestone(), Level::Sandboxed, 190, &told);
    // Work of that time keeps it.
    let story = busy(rising().tasks(100, 20, Difficulty::Medium, 800), 8..200);
    story.check(&milestone(), Level::Sandboxed, 199, &steps[..2]);
    // In no days nothing is earned, and nothing is looked at for ever.
    let rules = TrustRules { decay: Decay { interval_days: Some(0), ..Decay::default() }, ..milestone() };
    rising().check(&rules, Level::Sandboxed, 400, &[]);
    // Days without a stain are counted from the beginning.
    let clean = Milestone { tasks: 1, clean_days: 3, ..NOTHING };
    let strategy = Strategy::Milestone { steps: [(Step::SandboxedToRestricted, Sourced::built_in(clean))].into() };
    let rules = TrustRules { strategy, decay: Decay { interval_days: Some(5), ..Decay::default() } };
    let story = (0..=10).fold(Story::default(), |story, day| story.tasks(day, 1, Difficulty::Easy, 1_000));
    assert_eq!(story.stand(&rules, Level::Sandboxed, 10).because.len(), 1);
    // A level that was given is not asked about.
    busy(Story::default(), 0..200).check(&milestone(), Level::Standard, 199, &[]);
}

#[test]
fn another_agent_under_the_same_name_keeps_a_part() {
    let mut steps = vec![(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD)];
    let story = rising().add(1, identity(Part::Model, "small")).add(8, identity(Part::Model, "small"));
    let story = story.add(8, identity(Part::Role, "coder"));
    story.check(&milestone(), Level::Sandboxed, 8, &steps);
    let story = story.tasks(8, 19, Difficulty::Hard, 900).add(9, identity(Part::Model, "large"));
    steps.push((9, Level::Restricted, "its model is another one"));
    story.check(&milestone(), Level::Sandboxed, 9, &steps);
    // What was gathered is gone.
    let story = story.tasks(20, 19, Difficulty::Hard, 900);
    story.check(&milestone(), Level::Sandboxed, 20, &steps);
    // It falls no deeper than where it started.
    let story = story.add(21, identity(Part::Role, "clerk")).add(22, identity(Part::Definition, "a"));
    steps.push((21, Level::Sandboxed, "its role is another one"));
    story.add(23, identity(Part::Definition, "b")).check(&milestone(), Level::Sandboxed, 23, &steps);
}

#[test]
fn a_clock_that_is_put_back_undoes_nothing() {
    let story = rising().add(8, incident("leak"));
    let why = "incident `leak`";
    let steps = [(0, Level::Restricted, RESTRICTED), (7, Level::Standard, STANDARD), (8, Level::Restricted, why)];
    story.check(&milestone(), Level::Sandboxed, 8, &steps);
    let earlier = [steps[0], (7, Level::Standard, STANDARD), (7, Level::Restricted, why)];
    story.check(&milestone(), Level::Sandboxed, 7, &earlier);
}

#[test]
fn what_the_next_step_takes_is_told() {
    let standing = Story::default().tasks(0, 3, Difficulty::Medium, 850).stand(&milestone(), Level::Restricted, 2);
    let next = standing.next.into_iter().find(|next| next.category == Some(Category::Web));
    let tasks = Need::Tasks { have: 3, want: 20, difficulty: Difficulty::Medium, quality: Some(score(800)) };
    assert_eq!(
        next,
        Some(Next {
            category: Some(Category::Web),
            from: Level::Restricted,
            to: Level::Standard,
            needs: vec![tasks, Need::ActiveDays { have: 0, want: 7 }],
            person: false,
            possible: true,
        })
    );
    let next = stand(&per_category(), Level::Sandboxed, &[], NOON).next;
    let terminal = next.into_iter().find(|next| next.category == Some(Category::Terminal)).unwrap();
    assert_eq!((terminal.possible, terminal.needs), (false, vec![]));
}

// ---- the laws ----

/// The strategies with numbers small enough for short histories to move through all levels.
fn quick(strategy: usize) -> TrustRules {
    let step = |tasks, clean_days, person| {
        Sourced::built_in(Milestone { tasks, quality: Some(score(600)), active_days: tasks / 2, clean_days, person })
    };
    let steps: BTreeMap<_, _> = [
        (Step::SandboxedToRestricted, step(1, 0, false)),
        (Step::RestrictedToStandard, step(2, 0, false)),
        (Step::StandardToElevated, step(2, 1, true)),
    ]
    .into();
    let decay = Decay { error_rate: Some(1_500), idle_days: Some(3), interval_days: Some(5) };
    match strategy {
        0 => {
            let weights = WEIGHTS;
            let step = |score, person| Sourced::built_in(Threshold { score, person });
            let steps = [
                (Step::SandboxedToRestricted, step(500, false)),
                (Step::RestrictedToStandard, step(700, false)),
                (Step::StandardToElevated, step(900, true)),
            ];
            let decay = Decay { error_rate: Some(1_500), ..Decay::default() };
            TrustRules { strategy: Strategy::Weighted { weights, steps: steps.into() }, decay }
        }
        1 => {
            let start = [(Category::Web, Sourced::built_in(Level::Restricted))].into();
            let steps = [Category::Web, Category::Terminal].map(|category| (category, steps.clone())).into();
            TrustRules { strategy: Strategy::PerCategory { start, steps }, decay: Decay { idle_days: None, ..decay } }
        }
        2 => TrustRules { strategy: Strategy::Milestone { steps }, decay },
        _ => TrustRules { strategy: Strategy::Milestone { steps }, decay: Decay { error_rate: None, ..decay } },
    }
}

fn moments() -> impl Gen<Value = u64> {
    // Twelve days in steps of three hours: many things happen at once, and many a day apart.
    (0..12 * 8_u64).prop_map(|step| NOON + step * 3 * HOUR)
}

fn categories() -> impl Gen<Value = Option<Category>> {
    prop_oneof![
        4 => Just(Some(Category::Web)),
        2 => Just(Some(Category::Terminal)),
        1 => Just(None),
    ]
}

fn good() -> impl Gen<Value = Fact> {
    prop_oneof![
        6 => (0..30_u32, 0..3_usize, 0..=10_u16).prop_map(|(n, difficulty, quality)| {
            task_done(&format!("t{n}"), Difficulty::ALL[difficulty], (quality > 0).then_some(quality * 100))
        }),
        2 => (1..9_u32).prop_map(|ok| Fact::Calls { ok, failed: 0 }),
        1 => (5..=10_u16).prop_map(|rating| Fact::Feedback { task: None, rating: score(rating * 100) }),
        2 => Just(Fact::Promotion { to: Level::Elevated }),
    ]
}

/// What goes wrong; `own` makes the names of incidents and tasks new ones.
fn bad(own: &'static str) -> impl Gen<Value = Fact> {
    prop_oneof![
        (0..30_u32).prop_map(move |n| task_failed(&format!("{own}t{n}"))),
        (1..4_u32).prop_map(|failed| Fact::Calls { ok: 0, failed }),
        (0..5_u16).prop_map(|rating| Fact::Feedback { task: None, rating: score(rating * 100) }),
        (0..3_u32).prop_map(move |n| incident(&format!("{own}i{n}"))),
    ]
}

fn anything() -> impl Gen<Value = Fact> {
    prop_oneof![
        8 => good(),
        1 => bad(""),
        1 => (0..2_usize, 0..2_u32).prop_map(|(part, value)| identity(Part::ALL[part], &value.to_string())),
    ]
}

fn histories() -> impl Gen<Value = Vec<Evidence>> {
    let one = (moments(), categories(), anything()).prop_map(|(at, category, fact)| evidence(at, category, fact));
    prop::collection::vec(one, 0..60)
}

fn starts() -> impl Gen<Value = Level> {
    (0..Level::LADDER.len()).prop_map(|step| Level::LADDER[step])
}

/// What moved where, up to a moment.
fn steps(standing: &Standing, until_ms: u64) -> Vec<(u64, Option<Category>, Level, Level)> {
    let steps = standing.because.iter().filter(|step| step.at_ms <= until_ms);
    steps.map(|step| (step.at_ms, step.category, step.from, step.to)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn more_failures_never_raise(
        strategy in 0..4_usize,
        start in starts(),
        known in histories(),
        failures in prop::collection::vec((moments(), categories(), prop_oneof![bad("new-"), bad("")]), 1..6),
        days in 0..30_u64,
    ) {
        let rules = quick(strategy);
        let now = NOON + days * DAY;
        // Reporting again what is known to have failed only dates it anew.
        let is_known = |fact: &Fact| known.iter().any(|one| match (&one.fact, fact) {
            (Fact::Incident { incident: a }, Fact::Incident { incident: b }) => a == b,
            (Fact::Task { task: a, outcome: TaskOutcome::Failure, .. }, Fact::Task { task: b, .. }) => a == b,
            _ => false,
        });
        let new = failures.into_iter().filter(|(.., fact)| !is_known(fact));
        let more: Vec<_> = new.map(|(at, category, fact)| evidence(at, category, fact)).chain(known.clone()).collect();
        let (before, after) = (stand(&rules, start, &known, now), stand(&rules, start, &more, now));
        for category in Category::ALL {
            prop_assert!(after.level(category) <= before.level(category), "{category}: {before:#?} {after:#?}");
        }
    }

    #[test]
    fn evidence_in_one_category_moves_no_other(
        strategy in 1..4_usize,
        start in starts(),
        known in histories(),
        more in prop::collection::vec((moments(), anything()), 1..20),
        days in 0..30_u64,
    ) {
        let (rules, now) = (quick(strategy), NOON + days * DAY);
        let elsewhere = more.into_iter().map(|(at, fact)| evidence(at, Some(Category::Terminal), fact));
        let all: Vec<_> = known.iter().cloned().chain(elsewhere).collect();
        let (before, after) = (stand(&rules, start, &known, now), stand(&rules, start, &all, now));
        let others = |standing: &Standing| {
            let mut steps = steps(standing, now);
            steps.retain(|(_, category, ..)| *category != Some(Category::Terminal));
            let mut levels = standing.levels.clone();
            levels.remove(&Category::Terminal);
            (steps, levels)
        };
        prop_assert_eq!(others(&before), others(&after));
    }

    #[test]
    fn the_order_it_was_written_down_in_does_not_matter(
        strategy in 0..4_usize,
        start in starts(),
        (known, shuffled) in histories().prop_flat_map(|known| (Just(known.clone()), Just(known).prop_shuffle())),
        days in 0..30_u64,
    ) {
        let (rules, now) = (quick(strategy), NOON + days * DAY);
        prop_assert_eq!(stand(&rules, start, &known, now), stand(&rules, start, &shuffled, now));
    }

    #[test]
    fn what_happened_is_not_rewritten(
        strategy in 0..4_usize,
        start in starts(),
        known in histories(),
        days in 0..30_u64,
        later in 0..30_u64,
    ) {
        let (rules, now) = (quick(strategy), NOON + days * DAY);
        let by_now: Vec<_> = known.iter().filter(|one| one.at_ms <= now).cloned().collect();
        let standing = stand(&rules, start, &by_now, now);
        let then = stand(&rules, start, &known, now.max(NOON + 12 * DAY) + later * DAY);
        prop_assert_eq!(steps(&standing, now), steps(&then, now));
    }

    #[test]
    fn steps_are_single_and_lead_to_the_level(
        strategy in 0..4_usize,
        start in starts(),
        known in histories(),
        days in 0..30_u64,
    ) {
        let (rules, now) = (quick(strategy), NOON + days * DAY);
        let standing = stand(&rules, start, &known, now);
        let rung = |level: Level| Level::LADDER.iter().position(|known| *known == level).unwrap();
        for category in Category::ALL {
            let mut level = match (&rules.strategy, category) {
                (Strategy::PerCategory { .. }, Category::Web) => Level::Restricted,
                _ => start,
            };
            for (at, _, from, to) in steps(&standing, now).iter().filter(|step| step.1.is_none_or(|own| own == category)) {
                prop_assert_eq!(*from, level);
                prop_assert_eq!(rung(*from).abs_diff(rung(*to)), 1);
                let agreed = |one: &Evidence| one.at_ms.min(now) == *at && matches!(one.fact, Fact::Promotion { .. });
                prop_assert!(*to != Level::Elevated || known.iter().any(agreed));
                level = *to;
            }
            prop_assert_eq!(standing.level(category), level);
        }
    }

    #[test]
    fn what_has_a_name_counts_once(
        strategy in 0..4_usize,
        start in starts(),
        known in histories(),
        days in 0..30_u64,
    ) {
        let (rules, now) = (quick(strategy), NOON + days * DAY);
        let is_named = |one: &&Evidence| !matches!(one.fact, Fact::Calls { .. } | Fact::Feedback { .. });
        let twice: Vec<_> = known.iter().chain(known.iter().filter(is_named)).cloned().collect();
        prop_assert_eq!(stand(&rules, start, &known, now), stand(&rules, start, &twice, now));
    }
}
