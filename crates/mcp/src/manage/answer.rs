//! What comes back: one shape for everything that goes well, one for everything that does not.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{Fault, FaultKind};

/// What a tool gives, or why it does not.
pub(crate) type Answered = Result<Data, Fault>;

/// What a tool gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Data {
    pub(crate) data: Value,
    /// Where the next page begins, for lists.
    pub(crate) pagination: Option<Value>,
}

impl Data {
    /// One thing.
    pub(crate) fn one(data: &impl Serialize) -> Self {
        Self { data: json!(data), pagination: None }
    }
}

/// What kind of error a fault is. Programs that want to know more look at its code.
pub(crate) fn error_type(fault: &Fault) -> &'static str {
    match &*fault.code {
        "not_supported" => "not_supported",
        code if code.starts_with("unknown_") || code.starts_with("no_such_") => "not_found",
        "nothing_recorded" => "not_found",
        "invalid_arguments" | "bad_cursor" | "bad_window" | "bad_name" | "bad_hash" | "reason_missing"
        | "reason_too_long" | "category_missing" | "not_reportable" | "no_uses" | "in_the_past" | "no_argument"
        | "no_definition" | "input_too_large" => "invalid_argument",
        // These are refusals where they come from; for whoever manages, things are not as they thought.
        "not_waiting" | "expired" | "already_voted" | "not_pending" | "level_is_set" | "stale_hash"
        | "nothing_held" | "not_unknown" | "not_held_back" => "conflict",
        _ => match fault.kind {
            FaultKind::Refused => "guardrail_violated",
            FaultKind::Failed if fault.code.starts_with("record_") => "guardrail_violated",
            FaultKind::Failed => "conflict",
        },
    }
}

/// A fault as it is told.
pub(crate) fn error(fault: &Fault) -> Value {
    json!({
        "status": "error", "error_type": error_type(fault), "message": fault.message, "domain_code": fault.code,
        "remedy": fault.remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_one_of_five_kinds() {
        let failed = |code| Fault::failed(code, "", "");
        let refused = |code| Fault::refused(code, "", "");
        for (fault, expected) in [
            (failed("invalid_arguments"), "invalid_argument"),
            (failed("bad_cursor"), "invalid_argument"),
            (refused("missing_confirm"), "guardrail_violated"),
            (refused("self_approval"), "guardrail_violated"),
            (refused("wrong_person"), "guardrail_violated"),
            (failed("record_unwritable"), "guardrail_violated"),
            (refused("not_supported"), "not_supported"),
            (refused("unknown_agent"), "not_found"),
            (failed("unknown_approval"), "not_found"),
            (refused("not_waiting"), "conflict"),
            (failed("effect_running"), "conflict"),
        ] {
            assert_eq!(error_type(&fault), expected, "{fault}");
        }
    }
}
