//! What an agent may see of the record: its own calls, as they were recorded.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use toolgate_contract::{AgentName, CallId, Fault, MAX_NAME};
use toolgate_store::{
    Reader, Store,
    calls::{self, Filter, Summary, Whole},
};
use toolgate_tools::{InFull, OwnCalls, PastCall, PastCalls, PastEffect};

/// How many effects of a call are told, and how much of what each is done to.
const MOST_EFFECTS: usize = 8;
const LONGEST_TARGET: usize = 120;
/// How much is told of a value that is too long.
const BEGINNING: usize = 1024;

/// The calls of one agent.
pub(crate) struct AgentCalls {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) agent: AgentName,
}

impl AgentCalls {
    fn reader(&self) -> Result<Reader, Fault> {
        self.store.reader()?.ok_or_else(|| {
            Fault::refused(
                "no_record",
                "nothing is kept here that could be looked into",
                "Do without it, or ask the operator for a data directory.",
            )
        })
    }
}

impl OwnCalls for AgentCalls {
    fn recent(&self, count: usize) -> Result<PastCalls, Fault> {
        let filter = Filter { agent: Some(self.agent.to_string()), limit: Some(count), ..Filter::default() };
        let found = calls::list(&self.reader()?, &filter)?;
        Ok(PastCalls { calls: found.calls.into_iter().map(told).collect(), more: found.next.is_some() })
    }

    fn one(&self, call: &str, most: usize) -> Result<PastCalls, Fault> {
        let found = calls::own(&self.reader()?, &self.agent, &CallId(call.to_owned()))?;
        let Some(Whole { summary, record, mut outcome, .. }) = found else {
            let message = "there is no such call of yours, or it was too long ago";
            return Err(Fault::failed("not_found", message, "List your calls to see their ids."));
        };
        let in_full = InFull {
            arguments: bounded(record["arguments"].clone(), most),
            text: outcome["text"].as_str().unwrap_or_default().to_owned(),
            structured: bounded(outcome["structured"].take(), most),
        };
        Ok(PastCalls { calls: vec![PastCall { in_full: Some(in_full), ..told(summary) }], more: false })
    }
}

fn told(call: Summary) -> PastCall {
    let Summary { at_ms, call, tool, status, code, approval, elapsed_ms, findings, effects, labels, .. } = call;
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    let short = |text: &Value, most: usize| text.as_str().map(|text| text.chars().take(most).collect::<String>());
    let effect = |effect: &Value| {
        let (kind, target) = (short(&effect["kind"], MAX_NAME)?, short(&effect["target"], LONGEST_TARGET));
        Some(PastEffect { kind, target })
    };
    PastCall {
        at: at.to_string(),
        call,
        // A name that no tool has may be as long as whoever called made it.
        tool: tool.chars().take(MAX_NAME).collect(),
        status,
        code,
        elapsed_ms,
        approval,
        effects: effects.iter().take(MOST_EFFECTS).filter_map(effect).collect(),
        labels,
        findings,
        in_full: None,
    }
}

/// The value, or of a long one its length and how it begins: otherwise whoever looks at a look could go on and on.
fn bounded(value: Value, most: usize) -> Value {
    let text = value.to_string();
    if text.len() <= most {
        return value;
    }
    json!({ "left_out": { "bytes": text.len(), "begins": &text[..text.floor_char_boundary(BEGINNING)] } })
}
