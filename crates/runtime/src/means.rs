//! What an agent is given to spend, and what holds it back.
//!
//! A call is counted when it is about to run. One that would pass a limit is also `budget:exceed`, and the gate judges that
//! like any action; the first such call latches the agent to less autonomy until a person lets go. So do too many errors
//! and incidents.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::json;
use toolgate_contract::{
    AgentName, Call, Cost, CostTier, EffectKind, Exceeded, Fault, Latch, LatchKind, Limit, Note, Outcome, Person,
    Principal, Status, ToolDef,
};
use toolgate_gate::{Agent, Policy};
use toolgate_store::{
    Store, StoreError,
    state::{Account, State},
};
use toolgate_tools::Clock;

use crate::invoke::Meaning;

/// For how long it is believed that no other program latched an agent.
const FRESH: Duration = Duration::from_secs(1);
/// Ends of calls remembered per agent: the most a rule may look at.
const ENDS: usize = 1_000;

/// What agents are given, and what holds them back.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Means {
    state: Option<Arc<dyn State>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    seen: Mutex<BTreeMap<AgentName, Seen>>,
}

#[derive(Default)]
struct Seen {
    /// What it is latched for, and when that was looked up.
    latches: Option<(Instant, Vec<LatchKind>)>,
    /// How its last calls ended; `true` is one that went wrong.
    ends: VecDeque<bool>,
}

impl Means {
    pub(crate) fn new(state: Option<Arc<dyn State>>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { state, store, clock, seen: Mutex::default() }
    }

    /// The agent as it is held back now.
    pub(crate) async fn hold<'a>(&self, policy: &Policy, agent: &'a Agent) -> Result<Cow<'a, Agent>, StoreError> {
        let Some(state) = &self.state else { return Ok(Cow::Borrowed(agent)) };
        let known = self.seen().get(&agent.name).and_then(|seen| seen.latches.clone());
        let latches = match known.filter(|(at, _)| at.elapsed() < FRESH) {
            Some((_, latches)) => latches,
            None => {
                let latches = state.latches(agent.name.clone()).await?;
                let held: Vec<_> = latches.iter().filter(|latch| latch.holds()).map(|latch| latch.kind).collect();
                self.seen().entry(agent.name.clone()).or_default().latches = Some((Instant::now(), held.clone()));
                held
            }
        };
        Ok(match latches.is_empty() {
            true => Cow::Borrowed(agent),
            false => Cow::Owned(policy.downgrades.hold(agent, &latches, &policy.actions)),
        })
    }

    /// The limit this call would pass.
    pub(crate) async fn exceeds(
        &self,
        agent: &Agent,
        call: &Call,
        def: &ToolDef,
        meaning: &Meaning,
    ) -> Result<Option<Exceeded>, Fault> {
        let limits = limits(agent);
        if limits.is_empty() {
            return Ok(None);
        }
        let state = self.state.as_ref().ok_or_else(nowhere_to_count)?;
        let totals = state.spent(account(call), self.now()).await?;
        let cost = cost(call, def, meaning);
        let over = limits.into_iter().find_map(|limit| {
            let (spent, more) = (totals.of(limit.window).on(limit.meter), cost.on(limit.meter));
            let wanted = spent.saturating_add(more);
            // A meter that moves only afterwards is full when it has reached its limit.
            let is_over = wanted > limit.most || (more == 0 && spent >= limit.most);
            is_over.then_some(Exceeded { limit, spent, wanted })
        });
        if let Some(over) = over {
            let what = format!(
                "{} of {} {} per {} are used",
                over.spent, over.limit.most, over.limit.meter, over.limit.window
            );
            self.latch(&agent.name, LatchKind::BudgetExhausted, &what).await?;
        }
        Ok(over)
    }

    /// Counts a call that is about to run. Of two that want the last of a budget one is too late.
    pub(crate) async fn spend(
        &self,
        agent: &Agent,
        call: &Call,
        def: &ToolDef,
        meaning: &Meaning,
        is_over: bool,
    ) -> Result<(), Fault> {
        let limits = limits(agent);
        let Some(state) = self.state.as_ref().filter(|_| !limits.is_empty()) else { return Ok(()) };
        let cost = cost(call, def, meaning);
        if is_over {
            state.spend(account(call), cost, self.now()).await?;
            return Ok(());
        }
        state.try_spend(account(call), cost, limits, self.now()).await?.map(drop).map_err(|over| {
            let message = format!(
                "the budget of {} {} per {} was used up meanwhile",
                over.limit.most, over.limit.meter, over.limit.window
            );
            Fault::refused("budget_exceeded", message, "Call again: a person is asked.").retryable().untouched()
        })
    }

    /// Notes how a call ended: the time it took, and whether too much goes wrong.
    pub(crate) async fn ended(
        &self,
        policy: &Policy,
        agent: &Agent,
        call: &Call,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        if let Some(state) = self.state.as_ref().filter(|_| !agent.budget.is_empty()) {
            let cost = Cost { wall_ms: outcome.elapsed_ms, ..Cost::default() };
            state.spend(account(call), cost, self.now()).await?;
        }
        if policy.downgrades.error_rate.is_none() || outcome.status == Status::Pending {
            return Ok(());
        }
        let too_many = {
            let mut seen = self.seen();
            let ends = &mut seen.entry(agent.name.clone()).or_default().ends;
            ends.push_back(outcome.status == Status::Failed);
            if ends.len() > ENDS {
                ends.pop_front();
            }
            policy.downgrades.too_many_errors(ends.make_contiguous())
        };
        if too_many {
            self.latch(&agent.name, LatchKind::ErrorRate, "too many of its last calls failed").await?;
            self.seen().entry(agent.name.clone()).or_default().ends.clear();
        }
        Ok(())
    }

    /// Holds an agent back until a person lets go.
    pub async fn latch(&self, agent: &AgentName, kind: LatchKind, why: &str) -> Result<(), StoreError> {
        let Some(state) = &self.state else { return Ok(()) };
        if state.latch(agent.clone(), kind, why.to_owned(), self.now()).await? {
            let detail = json!({ "kind": kind, "why": why });
            self.note("held_back", None, agent, detail).await?;
        }
        self.seen().entry(agent.clone()).or_default().latches = None;
        Ok(())
    }

    /// What an agent is, or was last, held back for.
    pub async fn latches(&self, agent: &AgentName) -> Result<Vec<Latch>, StoreError> {
        match &self.state {
            Some(state) => state.latches(agent.clone()).await,
            None => Ok(Vec::new()),
        }
    }

    /// A person lets go of an agent. False if it was not held back for this.
    pub async fn release(&self, agent: &AgentName, kind: LatchKind, by: &Person) -> Result<bool, StoreError> {
        let Some(state) = &self.state else { return Ok(false) };
        self.note("let_go", Some(Principal::Person(by.clone())), agent, json!({ "kind": kind })).await?;
        let released = state.clear(agent.clone(), kind, by.clone(), self.now()).await?.is_some();
        self.seen().remove(agent);
        Ok(released)
    }

    async fn note(
        &self,
        kind: &'static str,
        by: Option<Principal>,
        agent: &AgentName,
        detail: serde_json::Value,
    ) -> Result<(), StoreError> {
        self.store.note(Note { at_ms: self.now(), kind, by, subject: agent.to_string(), detail }).await
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<AgentName, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0)
    }
}

fn limits(agent: &Agent) -> Vec<Limit> {
    agent.budget.iter().map(|limit| limit.value).collect()
}

fn account(call: &Call) -> Account {
    Account { agent: call.agent.clone(), task: call.task.clone() }
}

/// What a call costs before it runs. What is sent out is the arguments of a call that talks to another machine.
fn cost(call: &Call, def: &ToolDef, meaning: &Meaning) -> Cost {
    let talks = meaning.effects.iter().any(|effect| effect.kind == EffectKind::Network);
    let bytes_out = if talks { u64::try_from(call.arguments.to_string().len()).unwrap_or(u64::MAX) } else { 0 };
    let units = match def.cost {
        CostTier::Cheap => 1,
        CostTier::Medium => 10,
        CostTier::Expensive => 100,
    };
    Cost { calls: 1, bytes_out, units, wall_ms: 0 }
}

fn nowhere_to_count() -> Fault {
    Fault::refused(
        "budget_not_kept",
        "the agent has a budget, and nothing keeps count here",
        "Open the runtime with a state, where budgets are counted.",
    )
}
