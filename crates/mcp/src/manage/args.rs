//! Arguments that many tools take.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};
use toolgate_contract::{ApprovalState, Category, Difficulty, LatchKind, OnceState, Part, Status, TaskOutcome};

/// None.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// One agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneAgent {
    /// The agent, by its name in the config.
    pub(crate) agent: String,
}

/// One of the words something is called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct One<T>(pub(crate) T);

/// Something that is called by one of a few words.
pub(crate) trait Worded: Sized {
    fn words() -> Vec<&'static str>;
    fn read(word: &str) -> Option<Self>;
}

macro_rules! worded {
    ($($name:ty),*) => {$(
        impl Worded for $name {
            fn words() -> Vec<&'static str> {
                Self::ALL.iter().map(|value| value.as_str()).collect()
            }

            fn read(word: &str) -> Option<Self> {
                Self::parse(word)
            }
        }
    )*};
}

worded!(ApprovalState, Category, Difficulty, LatchKind, OnceState, Part, TaskOutcome);

/// How a call ended, or that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Status(Status),
    Running,
}

impl Ended {
    const ALL: [Self; 5] = [
        Self::Status(Status::Done),
        Self::Status(Status::Refused),
        Self::Status(Status::Pending),
        Self::Status(Status::Failed),
        Self::Running,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Status(Status::Done) => "done",
            Self::Status(Status::Refused) => "refused",
            Self::Status(Status::Pending) => "pending",
            Self::Status(Status::Failed) => "failed",
            Self::Running => "running",
        }
    }
}

impl Worded for Ended {
    fn words() -> Vec<&'static str> {
        Self::ALL.map(Self::as_str).to_vec()
    }

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ended| ended.as_str() == word)
    }
}

impl<'de, T: Worded> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        T::read(&word).map(Self).ok_or_else(|| D::Error::custom(format!("none of {}", T::words().join(", "))))
    }
}

impl<T: Worded> JsonSchema for One<T> {
    fn schema_name() -> Cow<'static, str> {
        "One".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::words() })
    }

    fn inline_schema() -> bool {
        true
    }
}
