//! The rules by which agents rise and fall, as the config states them. All numbers are whole: marks in hundredths, shares
//! in ten-thousandths, times in days.

use std::collections::BTreeMap;

use serde::Serialize;
use toolgate_contract::{Category, Difficulty, Level, Score, scale};

use crate::Sourced;

/// How trust is earned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustRules {
    /// The strategy, with its own rules.
    pub strategy: Strategy,
    /// How trust is lost again.
    pub decay: Decay,
}

impl TrustRules {
    /// Levels never change.
    pub fn disabled() -> Self {
        Self { strategy: Strategy::Disabled, decay: Decay::default() }
    }

    /// Do levels ever change?
    pub fn moves(&self) -> bool {
        self.strategy != Strategy::Disabled
    }
}

/// One of the four ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Strategy {
    /// Every agent keeps the level it is given.
    Disabled,
    /// One level for all categories, from one score.
    Weighted {
        /// What the score is made of.
        weights: Weights,
        /// The score each step takes. A step without one is never taken.
        steps: BTreeMap<Step, Sourced<Threshold>>,
    },
    /// A level per category, with criteria of its own.
    PerCategory {
        /// Where a category starts; where none is said, at the agent's level.
        start: BTreeMap<Category, Sourced<Level>>,
        /// What each step takes in each category. A step without criteria is never taken.
        steps: BTreeMap<Category, BTreeMap<Step, Sourced<Milestone>>>,
    },
    /// A level per category, with the same criteria for all.
    Milestone {
        /// What each step takes. A step without criteria is never taken.
        steps: BTreeMap<Step, Sourced<Milestone>>,
    },
}

impl Strategy {
    /// The word the config has for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Weighted { .. } => "weighted",
            Self::PerCategory { .. } => "per_category",
            Self::Milestone { .. } => "milestone",
        }
    }
}

/// How much each part of the score counts, in ten-thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Weights {
    /// Tasks done, harder ones counting more.
    pub task_difficulty: u32,
    /// Tasks done among all tasks.
    pub completion_rate: u32,
    /// What went well among everything that was tried.
    pub error_rate: u32,
    /// What people think of the work.
    pub human_feedback: u32,
}

/// What a step by score takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// The score, in ten-thousandths.
    pub score: u32,
    /// A person must agree.
    pub person: bool,
}

/// What a step by milestones takes: all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Milestone {
    /// So many tasks done.
    pub tasks: u32,
    /// Each of at least this quality.
    pub quality: Option<Score>,
    /// Work over so many days.
    pub active_days: u32,
    /// So many days of work without a failed task or an incident.
    pub clean_days: u32,
    /// A person must agree.
    pub person: bool,
}

/// How trust is lost. An incident costs a step under every rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Decay {
    /// More errors than this among the calls and tasks of a week, in ten-thousandths, cost a step.
    pub error_rate: Option<u32>,
    /// So many days in which nothing went well cost a step.
    pub idle_days: Option<u32>,
    /// Every so many days the evidence of that time must still be good enough for a level that was earned. Older
    /// evidence counts for nothing.
    pub interval_days: Option<u32>,
}

scale! {
    /// One step up the ladder.
    Step {
        /// The first.
        SandboxedToRestricted = "sandboxed_to_restricted",
        /// The second.
        RestrictedToStandard = "restricted_to_standard",
        /// The last: always a person's.
        StandardToElevated = "standard_to_elevated",
    }
}

impl Step {
    /// The step that leads up from a level.
    pub fn above(level: Level) -> Option<Self> {
        match level {
            Level::Sandboxed => Some(Self::SandboxedToRestricted),
            Level::Restricted => Some(Self::RestrictedToStandard),
            Level::Standard => Some(Self::StandardToElevated),
            Level::Elevated | Level::Custom => None,
        }
    }

    /// The step that leads down from a level, or up to it.
    pub fn below(level: Level) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.upper() == level)
    }

    /// The level below it.
    pub fn lower(self) -> Level {
        match self {
            Self::SandboxedToRestricted => Level::Sandboxed,
            Self::RestrictedToStandard => Level::Restricted,
            Self::StandardToElevated => Level::Standard,
        }
    }

    /// The level above it.
    pub fn upper(self) -> Level {
        match self {
            Self::SandboxedToRestricted => Level::Restricted,
            Self::RestrictedToStandard => Level::Standard,
            Self::StandardToElevated => Level::Elevated,
        }
    }

    /// How hard a task must be to speak for the level above: routine work proves nothing about more than routine.
    pub fn difficulty(self) -> Difficulty {
        match self {
            Self::SandboxedToRestricted => Difficulty::Easy,
            Self::RestrictedToStandard => Difficulty::Medium,
            Self::StandardToElevated => Difficulty::Hard,
        }
    }
}
