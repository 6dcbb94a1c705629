//! `generate_uuid`: a random identifier.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "generate_uuid".into(),
            summary: "Make a random UUID.".into(),
            description: "Returns a new version 4 UUID in lower case. It comes from the kernel's random source, so it \
                cannot be guessed."
                .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(1),
            examples: vec![Example { title: "A new one".into(), arguments: json!({}) }],
            failures: vec![FailureMode {
                code: "no_randomness".into(),
                when: "The kernel gives no random bytes. Try again.".into(),
            }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

fn run(cx: &Cx, _input: Input) -> Result<Answer<String>, Fault> {
    let mut bytes = [0; 16];
    cx.random(&mut bytes)?;
    Ok(Answer::new(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::call;

    #[test]
    fn every_one_is_a_new_version_four() {
        let new = || call(tool, json!({})).unwrap().text;
        let (one, other) = (new(), new());
        assert_ne!(one, other);
        let parsed = uuid::Uuid::try_parse(&one).unwrap();
        assert_eq!((parsed.get_version_num(), parsed.get_variant()), (4, uuid::Variant::RFC4122));
        assert_eq!(parsed.to_string(), one);
    }
}
