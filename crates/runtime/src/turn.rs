//! A turn: several calls an agent makes at once.
//!
//! Neighbouring calls that change nothing run together; each call with an effect runs alone, in order, so that a read
//! after a write sees the write. A failing call never stops its siblings. What takes more than one call down (a panic,
//! a lost store) is collected and raised when all of them are through.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use toolgate_contract::{Call, Outcome};

use crate::{
    house::{Fatal, House, Watch},
    invoke::{Ended, invoke, lost, meant, preview},
};

/// How a turn ended. The outcomes are in the order of the calls.
#[derive(Debug)]
pub struct Turn {
    /// One per call.
    pub outcomes: Vec<Outcome>,
    /// What took more than one call down: none, one alone, or several.
    pub fatal: Vec<Fatal>,
}

pub(crate) async fn turn(house: Arc<House>, calls: Vec<Call>, watch: Watch) -> Turn {
    let gone = watch.cancel.clone().drop_guard();
    let mut turn = Turn { outcomes: Vec::with_capacity(calls.len()), fatal: Vec::new() };
    let at_once = house.config.limits.max_concurrency.max(1);
    let calls = calls.into_iter().map(|call| meant(&house, call)).collect();
    for stage in stages(&house, calls) {
        let running = stage.into_iter().map(|call| {
            let (id, tool) = (call.id.clone(), call.tool.clone());
            let road = house.traffic.send(invoke(house.clone(), call, watch.clone()), watch.cancel.clone());
            async move { road.await.map_err(|error| (lost(id, tool, &error.to_string()), error)) }
        });
        let mut ended = stream::iter(running).buffered(at_once);
        while let Some(joined) = ended.next().await {
            match joined {
                Ok(Ended { outcome, fatal }) => {
                    turn.outcomes.push(outcome);
                    turn.fatal.extend(fatal);
                }
                // The road itself does not panic by design; if it does, the turn says so instead of losing a call.
                Err((outcome, error)) => {
                    turn.outcomes.push(outcome);
                    turn.fatal.push(Fatal::Panic { tool: "the runtime".into(), message: error.to_string() });
                }
            }
        }
    }
    gone.disarm();
    turn
}

/// Groups of calls that may run together, in order.
fn stages(house: &House, calls: Vec<Call>) -> Vec<Vec<Call>> {
    let mut stages: Vec<Vec<Call>> = Vec::new();
    let mut together = false;
    for call in calls {
        // A call that cannot even be admitted will do nothing, so it may stand beside others.
        let harmless = preview(house, &call).map_or(true, |(meaning, _)| meaning.is_read_only());
        match stages.last_mut() {
            Some(stage) if together && harmless => stage.push(call),
            _ => stages.push(vec![call]),
        }
        together = harmless;
    }
    stages
}
