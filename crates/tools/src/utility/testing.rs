//! How the tests of this folder call a tool.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use toolgate_contract::Fault;

use crate::{Clock, Cx, Hands, Output, StopFlag, Tool};

/// Calls a tool the way the runtime does. The clock stands at 2026-11-15 09:08:07.654 UTC.
///
/// A fault must be one that the tool declares: what the model was not told about it cannot prepare for.
pub(super) fn call(tool: fn() -> Tool, arguments: Value) -> Result<Output, Fault> {
    let tool = tool();
    let cx = Cx::new(Hands {
        finder: None,
        own_calls: None,
        programs: None,
        web: None,
        workspace: None,
        clock: Arc::new(Stopped),
        progress: None,
        remarks: None,
        stop: StopFlag::default(),
        timeout: tool.def.timeout,
        caps: tool.def.caps,
        inquiries: crate::Inquiries::default(),
        key: None,
    });
    assert_eq!(tool.reading.effects(&arguments), Ok(Vec::new()), "{arguments}");
    let result = tool.work.here().unwrap()(&cx, arguments);
    if let Err(fault) = &result {
        assert!(tool.def.failures.iter().any(|mode| mode.code == fault.code), "not declared: {fault}");
    }
    result
}

/// What a call comes to: the typed output, or code and message of the fault.
pub(super) fn outcome(tool: fn() -> Tool, arguments: Value) -> Result<Value, (String, String)> {
    call(tool, arguments).map(|output| output.structured).map_err(|fault| (fault.code.into_owned(), fault.message))
}

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(1_794_733_687_654).unwrap()
    }
}
