//! Calls to remember, for tests.

use serde_json::json;
use toolgate_contract::{
    ActionType, AgentName, CallId, Decided, Digest, Effect, EffectKind, End, Intent, Note, Outcome, Person, Principal,
    Raw, Reason, Record, Risk, SafetyClass, SourceLine, Status, Verdict,
};

pub(crate) const AT: u64 = 1_760_000_000_000;

pub(crate) fn record(id: &str) -> Record {
    Record {
        call: CallId(id.to_owned()),
        agent: AgentName::from("coder"),
        tool: "write_file".to_owned(),
        definition: Some(Digest::of(b"definition")),
        arguments: json!({ "path": "src/main.rs", "text": "fn main() {}\n", "weight": 0.1, "\u{20ac}": "\u{1f600}" }),
        action: Some(ActionType::CodeWrite),
        class: Some(SafetyClass::Write),
        effects: vec![Effect::on(EffectKind::FsWrite, "src/main.rs")],
        risk: Some(Risk::Medium),
        decision: Some(Decided {
            verdict: Verdict::Allow,
            reasons: vec![Reason {
                rule: "allowed_action",
                text: "the action is on the allowed list".to_owned(),
                source: SourceLine { file: "toolgate.yaml".to_owned(), line: 12 },
            }],
        }),
        policy: Some(Digest::of(b"policy")),
    }
}

pub(crate) fn intent(id: &str) -> Intent {
    Intent { at_ms: AT, record: record(id) }
}

/// The end of a call that was begun.
pub(crate) fn end(id: &str) -> End {
    End { begun: true, ..read(id) }
}

/// The end of a call that was not.
pub(crate) fn read(id: &str) -> End {
    let record = record(id);
    let outcome = Outcome {
        call: record.call.clone(),
        tool: record.tool.clone(),
        status: Status::Done,
        is_error: false,
        text: "13 bytes written".to_owned(),
        structured: json!({ "bytes": 13, "created": true }),
        code: None,
        message: None,
        remedy: None,
        approval: None,
        truncated: None,
        labels: vec!["workspace".to_owned()],
        findings: Vec::new(),
        enforced: vec!["landlock".to_owned()],
        effects: record.effects.clone(),
        action: record.action.clone(),
        risk: record.risk,
        asked: Vec::new(),
        replayed: false,
        elapsed_ms: 3,
    };
    End { at_ms: AT + 3, record, outcome: outcome.into(), raw: None, begun: false }
}

/// The end of a call whose raw result differs from the cleaned one.
pub(crate) fn read_with_raw(id: &str, raw: &[u8]) -> End {
    End { raw: Some(Raw(raw.to_vec())), ..read(id) }
}

/// Something that is no call.
pub(crate) fn note(subject: &str) -> Note {
    Note {
        at_ms: AT,
        kind: "vote",
        by: Some(Principal::Person(Person::from("user:jo"))),
        subject: subject.to_owned(),
        detail: json!({ "answer": "yes" }),
    }
}
