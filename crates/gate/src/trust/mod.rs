//! Trust: from what is known about an agent to the level it has in each category.
//!
//! [`stand`] is a pure function of the rules, the level an agent starts from, the evidence and the moment; no level is
//! kept anywhere, so a restart changes nothing and every level can be explained by what led to it. It walks the evidence
//! in order of time; what happened in the same millisecond is put in an order of its own, so how it was written down
//! does not matter.
//!
//! A track is what moves on its own: one per category, or one for all under the strategy `weighted`. Tracks move by
//! these rules:
//!
//! - **Up** one step at a time, when something goes well and what was gathered *since the last step* is enough for the
//!   next. Tasks speak for a level only if they are hard enough for it: easy ones up to `restricted`, medium ones up to
//!   `standard`, hard ones up to `elevated`. What is not known counts for nothing. Where a person must agree (always
//!   for `elevated`), the step waits and is taken at the moment they do.
//! - **Down** at once. Each incident costs one step, and counts once, however often it is reported. Too many errors in a
//!   week cost one step a day, and nothing is earned on such a day. Idleness costs one step for each stretch of it, and is
//!   measured from what last went well: failing is no activity. A level that was earned must be earned again in each
//!   interval, or it costs a step. After each of these what was gathered is gone, and so is everything reported
//!   before; only a failed re-verification leaves it, because there it was too little anyway.
//! - **Another agent** under the same name (another definition, model or role) loses one step of what it had earned
//!   above its start, and what it had gathered.
//!
//! Whatever goes wrong can only lower a level, now and later: that is why errors are counted over fixed windows of time
//! and not since the last step, and why a task that failed once stays failed.

mod rules;
mod track;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use toolgate_contract::{Category, Difficulty, Evidence, Level, Score};

pub use rules::{Decay, Milestone, Step, Strategy, Threshold, TrustRules, Weights};
use track::Track;

/// How an agent stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its level in every category.
    pub levels: BTreeMap<Category, Level>,
    /// Steps a person may agree to.
    pub pending: Vec<Pending>,
    /// What the next step takes, for each track that has one; with no category it is the one track for all.
    pub next: Vec<Next>,
    /// Every step there was, in order of time.
    pub because: Vec<Explained>,
}

impl Standing {
    /// The level in a category.
    pub fn level(&self, category: Category) -> Level {
        self.levels.get(&category).copied().unwrap_or(Level::Sandboxed)
    }

    /// The step a person may agree to in a category.
    pub fn pending(&self, category: Category) -> Option<&Pending> {
        self.pending.iter().find(|pending| pending.category.is_none_or(|own| own == category))
    }
}

/// A step that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// Where; none for all categories at once.
    pub category: Option<Category>,
    /// From this level.
    pub from: Level,
    /// To this one.
    pub to: Level,
}

/// What a step takes, and how much of it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// Where; none for all categories at once.
    pub category: Option<Category>,
    /// From this level.
    pub from: Level,
    /// To this one.
    pub to: Level,
    /// What it takes. Empty where no rule leads there.
    pub needs: Vec<Need>,
    /// A person must agree as well.
    pub person: bool,
    /// The rules say how to get there at all.
    pub possible: bool,
}

/// One thing a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "need", rename_all = "snake_case")]
pub enum Need {
    /// Tasks done.
    Tasks {
        /// There are.
        have: u32,
        /// It takes.
        want: u32,
        /// At least so hard.
        difficulty: Difficulty,
        /// At least so good.
        quality: Option<Score>,
    },
    /// Days over which things went well.
    ActiveDays {
        /// There are.
        have: u32,
        /// It takes.
        want: u32,
    },
    /// Days of work without a failed task or an incident.
    CleanDays {
        /// There are.
        have: u32,
        /// It takes.
        want: u32,
    },
    /// The score, in ten-thousandths.
    Score {
        /// It is.
        have: u32,
        /// It takes.
        want: u32,
    },
}

impl Need {
    /// Is there enough?
    pub fn is_met(&self) -> bool {
        match self {
            Self::Tasks { have, want, .. }
            | Self::ActiveDays { have, want }
            | Self::CleanDays { have, want }
            | Self::Score { have, want } => have >= want,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks { have, want, difficulty, quality } => {
                write!(f, "{have} of {want} tasks done that are at least {difficulty}")?;
                quality.map_or(Ok(()), |quality| write!(f, " and of quality {quality} or better"))
            }
            Self::ActiveDays { have, want } => write!(f, "{have} of {want} days of work"),
            Self::CleanDays { have, want } => write!(f, "{have} of {want} days of work without a failure"),
            Self::Score { have, want } => {
                let share = |share: &u32| f64::from(*share) / 10_000.0;
                write!(f, "a score of {} of {}", share(have), share(want))
            }
        }
    }
}

/// A step, and what led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Where; none for all categories at once.
    pub category: Option<Category>,
    /// From this level.
    pub from: Level,
    /// To this one.
    pub to: Level,
    /// What led to it, as a sentence.
    pub why: String,
}

/// How an agent that starts at `initial` stands at `now`.
///
/// Evidence that is dated later happens now: a clock that was put back must not undo what is known.
pub fn stand(rules: &TrustRules, initial: Level, evidence: &[Evidence], now_ms: u64) -> Standing {
    let mut known: Vec<&Evidence> = evidence.iter().collect();
    known.sort_by_key(|one| (one.at_ms, &one.fact, one.category));
    let tracks = tracks(rules, initial, &known, now_ms);

    let mut because: Vec<Explained> = tracks.iter().flat_map(|track| track.because.iter().cloned()).collect();
    because.sort_by_key(|step| step.at_ms);
    let level_in = |category: Category| {
        let track = tracks.iter().find(|track| track.category.is_none_or(|own| own == category));
        (category, track.map_or(initial, |track| track.level))
    };
    Standing {
        levels: Category::ALL.into_iter().map(level_in).collect(),
        pending: tracks.iter().filter_map(Track::pending).collect(),
        next: tracks.iter().filter_map(Track::next).collect(),
        because,
    }
}

/// What moves on its own, walked to the end.
fn tracks<'a>(rules: &'a TrustRules, initial: Level, known: &[&'a Evidence], now_ms: u64) -> Vec<Track<'a>> {
    let per_category = |start: &dyn Fn(Category) -> Level| {
        let track = |category| Track::new(rules, Some(category), start(category)).walk(known, now_ms);
        Category::ALL.into_iter().map(track).collect()
    };
    match &rules.strategy {
        Strategy::Disabled => Vec::new(),
        Strategy::Weighted { .. } => vec![Track::new(rules, None, initial).walk(known, now_ms)],
        Strategy::PerCategory { start, .. } => {
            per_category(&|category| start.get(&category).map_or(initial, |level| level.value))
        }
        Strategy::Milestone { .. } => per_category(&|_| initial),
    }
}
