//! `convert_temperature`: between Celsius, Fahrenheit and Kelvin.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, json};
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};

use super::number::number;
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "convert_temperature".into(),
            summary: "Convert a temperature between Celsius, Fahrenheit and Kelvin.".into(),
            description:
                "Converts `value` from one unit to another: C, F or K, or celsius, fahrenheit, kelvin, in any \
                case. The result is rounded to ten decimals."
                    .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(1),
            examples: vec![
                Example { title: "Celsius to Fahrenheit".into(), arguments: json!({ "value": 37 }) },
                Example {
                    title: "Fahrenheit to Kelvin".into(),
                    arguments: json!({ "value": 98.6, "from": "F", "to": "K" }),
                },
            ],
            failures: vec![
                FailureMode { code: UNKNOWN_UNIT.into(), when: "A unit is none of C, F and K.".into() },
                FailureMode { code: BELOW_ABSOLUTE_ZERO.into(), when: "Nothing is as cold as `value`.".into() },
                FailureMode { code: NOT_FINITE.into(), when: "The result is too large for a double.".into() },
            ],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

const UNKNOWN_UNIT: &str = "unknown_unit";
const BELOW_ABSOLUTE_ZERO: &str = "below_absolute_zero";
const NOT_FINITE: &str = "not_finite";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The temperature.
    value: f64,
    /// Its unit: C, F or K.
    #[serde(default = "celsius")]
    from: String,
    /// The unit wanted: C, F or K.
    #[serde(default = "fahrenheit")]
    to: String,
}

fn celsius() -> String {
    "C".into()
}

fn fahrenheit() -> String {
    "F".into()
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The temperature in the unit wanted.
    value: Number,
    /// That unit.
    unit: Unit,
    /// The temperature as given.
    original_value: Number,
    /// Its unit.
    original_unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum Unit {
    C,
    F,
    K,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let (from, to) = (Unit::parse(&input.from)?, Unit::parse(&input.to)?);
    if input.value < from.absolute_zero() {
        return Err(Fault::failed(
            BELOW_ABSOLUTE_ZERO,
            format!("`{} {from:?}` is below absolute zero, which is `{} {from:?}`", input.value, from.absolute_zero()),
            "Check the value and its unit.",
        ));
    }
    let converted = if from == to { input.value } else { round(to.of_celsius(from.to_celsius(input.value))) };
    let too_large = || Fault::failed(NOT_FINITE, "the result is too large", "Use a smaller value.");
    Ok(Answer::new(Output {
        value: number(converted).ok_or_else(too_large)?,
        unit: to,
        original_value: number(input.value).ok_or_else(too_large)?,
        original_unit: from,
    }))
}

impl Unit {
    fn parse(name: &str) -> Result<Self, Fault> {
        match name.to_lowercase().as_str() {
            "c" | "celsius" => Ok(Self::C),
            "f" | "fahrenheit" => Ok(Self::F),
            // The Kelvin sign becomes a k in lower case, as it should.
            "k" | "kelvin" => Ok(Self::K),
            _ => {
                let shown: String = name.chars().take(40).collect();
                Err(Fault::failed(UNKNOWN_UNIT, format!("there is no unit `{shown}`"), "Use C, F or K."))
            }
        }
    }

    fn absolute_zero(self) -> f64 {
        match self {
            Self::C => -273.15,
            Self::F => -459.67,
            Self::K => 0.0,
        }
    }

    fn to_celsius(self, value: f64) -> f64 {
        match self {
            Self::C => value,
            Self::F => (value - 32.0) * 5.0 / 9.0,
            Self::K => value - 273.15,
        }
    }

    fn of_celsius(self, value: f64) -> f64 {
        match self {
            Self::C => value,
            Self::F => value * 9.0 / 5.0 + 32.0,
            Self::K => value + 273.15,
        }
    }
}

/// To ten decimals, through the decimal spelling: multiplying by a power of ten would bring its own dust.
fn round(value: f64) -> f64 {
    format!("{value:.10}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::outcome;
    use serde_json::Value;

    fn check(value: Value, from: &str, to: &str, expected: Value) {
        let canonical = |unit: &str| unit[..1].to_uppercase();
        let output = json!({
            "value": expected, "unit": canonical(to), "original_value": value, "original_unit": canonical(from),
        });
        assert_eq!(outcome(tool, json!({ "value": value, "from": from, "to": to })), Ok(output), "{value} {from} {to}");
    }

    fn check_fault(arguments: Value, code: &str, message: &str) {
        assert_eq!(outcome(tool, arguments.clone()), Err((code.to_owned(), message.to_owned())), "{arguments}");
    }

    #[test]
    fn fixed_points_are_exact() {
        check(json!(212), "F", "C", json!(100));
        check(json!(32), "F", "C", json!(0));
        check(json!(100), "C", "F", json!(212));
        check(json!(-40), "C", "F", json!(-40));
        check(json!(-40), "F", "C", json!(-40));
        check(json!(0), "C", "K", json!(273.15));
        check(json!(273.15), "K", "C", json!(0));
        check(json!(-459.67), "F", "K", json!(0));
        check(json!(0), "K", "F", json!(-459.67));
        check(json!(-273.15), "C", "K", json!(0));
    }

    #[test]
    fn no_dust_is_left() {
        check(json!(98.6), "F", "C", json!(37));
        check(json!(37.1), "C", "F", json!(98.78));
        check(json!(1), "F", "C", json!(-17.2222222222));
        check(json!(0.1), "C", "C", json!(0.1));
        check(json!(1e300), "C", "K", json!(1e300));
    }

    #[test]
    fn units_have_names_in_any_case() {
        check(json!(0), "celsius", "FAHRENHEIT", json!(32));
        check(json!(0), "c", "Kelvin", json!(273.15));
        assert_eq!(
            outcome(tool, json!({ "value": 10 })),
            Ok(json!({ "value": 50, "unit": "F", "original_value": 10, "original_unit": "C" }))
        );
    }

    #[test]
    fn an_unknown_unit_is_not_celsius() {
        for unknown in ["R", "", "degrees", "CF", " C"] {
            let message = format!("there is no unit `{unknown}`");
            check_fault(json!({ "value": 1, "from": unknown }), "unknown_unit", &message);
            check_fault(json!({ "value": 1, "to": unknown }), "unknown_unit", &message);
        }
    }

    #[test]
    fn nothing_is_colder_than_absolute_zero() {
        check_fault(
            json!({ "value": -273.16 }),
            "below_absolute_zero",
            "`-273.16 C` is below absolute zero, which is `-273.15 C`",
        );
        check_fault(
            json!({ "value": -460, "from": "F" }),
            "below_absolute_zero",
            "`-460 F` is below absolute zero, which is `-459.67 F`",
        );
        check_fault(
            json!({ "value": -1, "from": "K", "to": "K" }),
            "below_absolute_zero",
            "`-1 K` is below absolute zero, which is `0 K`",
        );
        check_fault(json!({ "value": 1.7e308 }), "not_finite", "the result is too large");
    }
}
