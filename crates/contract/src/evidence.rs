//! What trust is judged by: things that happened, each with its moment and whoever says so.
//!
//! Evidence is only ever added. Which level an agent has earned in which category is computed from all of it, each
//! time anew, by a pure function of the gate; no level is kept anywhere.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{AgentName, Category, Level, scale};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Of whom it speaks.
    pub agent: AgentName,
    /// In which category; none where it concerns the agent as a whole.
    pub category: Option<Category>,
    /// Who says so: a person such as `user:NAME`, or `runtime` for what the road saw itself.
    pub by: String,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// The road took calls: first those that went well, then those that failed.
    Calls {
        /// How many went well.
        ok: u32,
        /// How many failed.
        failed: u32,
    },
    /// A task came to its end.
    Task {
        /// Its name. A task counts once, however often it is reported; once it failed it stays failed.
        task: String,
        /// How it ended.
        outcome: TaskOutcome,
        /// How hard it was.
        difficulty: Difficulty,
        /// How good the work was; none where nobody said, which is not the same as good.
        quality: Option<Score>,
    },
    /// A person says what they think of the work.
    Feedback {
        /// About which task, if about one.
        task: Option<String>,
        /// What they think.
        rating: Score,
    },
    /// The agent did, or was made to do, what it must not.
    Incident {
        /// Its name. An incident counts once, however often it is reported.
        incident: String,
    },
    /// A person agreed to a step up that was waiting for one.
    Promotion {
        /// The step's upper end.
        to: Level,
    },
    /// The agent is known to be this. The first time is how it is got to know; another value later is a change.
    Identity {
        /// What of it.
        part: Part,
        /// The name or the hash of it.
        value: String,
    },
}

scale! {
    /// How a task ended. Later is better.
    TaskOutcome {
        /// It was not done.
        Failure = "failure",
        /// It was done.
        Success = "success",
    }
}

scale! {
    /// How hard a task was.
    Difficulty {
        /// Routine.
        Easy = "easy",
        /// Ordinary work.
        Medium = "medium",
        /// Work that most would get wrong.
        Hard = "hard",
    }
}

scale! {
    /// What makes an agent the one that earned its trust.
    Part {
        /// What it is told to be, and what it may use.
        Definition = "definition",
        /// The model behind it.
        Model = "model",
        /// What it is for.
        Role = "role",
    }
}

/// A mark from 0 to 10, kept in hundredths so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Score(u16);

impl Score {
    /// The best there is.
    pub const BEST: Score = Score(1_000);

    /// A mark in hundredths; none above 10.
    pub fn from_hundredths(hundredths: u16) -> Option<Self> {
        (hundredths <= Self::BEST.0).then_some(Self(hundredths))
    }

    /// Reads a number from 0 to 10.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_number(text.parse().ok()?)
    }

    /// The mark in hundredths.
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// The mark nearest to a number from 0 to 10.
    pub fn from_number(number: f64) -> Option<Self> {
        (0.0..=10.0).contains(&number).then(|| Self((number * 100.0).round() as u16))
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 100.0)
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 100.0)
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Self::from_number(number).ok_or_else(|| D::Error::custom(format!("{number} is not a mark from 0 to 10")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_is_a_number_from_0_to_10() {
        for (text, hundredths) in [
            ("0", Some(0)),
            ("10", Some(1_000)),
            ("8.5", Some(850)),
            ("7.005", Some(701)),
            ("10.01", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("good", None),
            ("", None),
        ] {
            assert_eq!(Score::parse(text).map(Score::hundredths), hundredths, "{text}");
        }
    }

    #[test]
    fn every_mark_is_read_as_it_is_written() {
        for hundredths in 0..=1_000 {
            let score = Score::from_hundredths(hundredths).unwrap();
            assert_eq!(Score::parse(&score.to_string()), Some(score));
            let text = serde_json::to_string(&score).unwrap();
            assert_eq!(serde_json::from_str::<Score>(&text).unwrap(), score);
        }
        assert!(serde_json::from_str::<Score>("10.5").is_err());
    }

    #[test]
    fn evidence_is_one_flat_object() {
        let evidence = Evidence {
            at_ms: 7,
            agent: AgentName::from("coder"),
            category: Some(Category::Web),
            by: "user:jo".into(),
            fact: Fact::Task {
                task: "t-1".into(),
                outcome: TaskOutcome::Success,
                difficulty: Difficulty::Hard,
                quality: Score::parse("8.5"),
            },
        };
        let value = json!({
            "at_ms": 7, "agent": "coder", "category": "web", "by": "user:jo",
            "kind": "task", "task": "t-1", "outcome": "success", "difficulty": "hard", "quality": 8.5,
        });
        assert_eq!(serde_json::to_value(&evidence).unwrap(), value);
        assert_eq!(serde_json::from_value::<Evidence>(value).unwrap(), evidence);
    }
}
