//! Effects that happen once, however often the call is made and whoever dies in between.
//!
//! A caller gives an effect a key. It is claimed, durably, before it is tried; how it ended is kept with the claim, and the
//! same call gets that answer from then on. A claim whose end nobody kept is *unknown*, and is never tried again by
//! itself: the tool finds out what became of it, or a person does.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contract::{
    Call, Digest, Fault, Finding, Idempotency, Note, Once, OnceKey, OnceState, Outcome, Person, Principal, Resolution,
    Status, Truncated, digest,
};
use toolgate_store::{
    Store, StoreError,
    state::{Completed, EffectFilter, Reservation, Reserved, State, Ticket},
};
use toolgate_tools::Clock;

use crate::catalog::Entry;

/// The longest key.
const LONGEST: usize = 255;

/// Effects that happen once.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Effects {
    state: Arc<dyn State>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    bodies: Bodies,
}

/// The effects that bodies of this program are at, also those whose calls were answered without them.
#[derive(Clone, Default)]
struct Bodies(Arc<Mutex<BTreeSet<OnceKey>>>);

impl Bodies {
    fn keys(&self) -> MutexGuard<'_, BTreeSet<OnceKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body is at an effect until this is dropped.
pub(crate) struct AtWork {
    bodies: Bodies,
    key: OnceKey,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.bodies.keys().remove(&self.key);
    }
}

/// An effect somebody wants, under its key.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    key: OnceKey,
    fingerprint: Digest,
}

/// What the same call gets from now on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) text: String,
    pub(crate) structured: Value,
    pub(crate) truncated: Option<Truncated>,
    pub(crate) labels: Vec<String>,
    pub(crate) findings: Vec<Finding>,
}

/// What is known about an effect somebody wants.
pub(crate) enum Known {
    /// Nothing.
    Nothing,
    /// It happened.
    Done(Box<Kept>),
    /// Nobody can say.
    Unknown,
}

impl Claim {
    /// The claim a call makes; none where it gives no key.
    pub(crate) fn of(call: &Call, entry: &Entry, input: &Value) -> Result<Option<Self>, Fault> {
        let name = &entry.tool.def.name;
        let key = match (&call.key, entry.tool.def.idempotency) {
            (None, Idempotency::Required) => {
                let message = format!("tool `{name}` wants a key, so that what it does happens once");
                let remedy = "Give the call an idempotency key: the same one when you try the same again.";
                return Err(Fault::failed("key_required", message, remedy));
            }
            (None, Idempotency::None | Idempotency::Optional) => return Ok(None),
            (Some(_), Idempotency::None) => {
                let message = format!("tool `{name}` takes no idempotency key");
                return Err(Fault::failed("key_not_taken", message, "Leave the key out."));
            }
            (Some(key), Idempotency::Optional | Idempotency::Required) => key,
        };
        let fits = |c: char| c.is_ascii_graphic();
        if key.is_empty() || key.len() > LONGEST || !key.chars().all(fits) {
            let message = format!("the key is not 1 to {LONGEST} visible ASCII characters");
            return Err(Fault::failed("bad_key", message, "Use a UUID, or another short name."));
        }
        let wanted = json!({ "tool": call.tool, "arguments": input });
        let fingerprint = digest(&wanted).map_err(|error| {
            Fault::failed("not_canonical", format!("the call has no canonical form: {error}"), "Send plain JSON.")
        })?;
        let key = OnceKey { agent: call.agent.clone(), tool: call.tool.clone(), key: key.clone() };
        Ok(Some(Self { key, fingerprint }))
    }
}

impl Effects {
    pub(crate) fn new(state: Arc<dyn State>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { state, store, clock, bodies: Bodies::default() }
    }

    /// What is known about the effect, before anybody is asked to allow it.
    pub(crate) async fn known(&self, claim: &Claim) -> Result<Known, Fault> {
        self.orphaned().await?;
        let Some(once) = self.state.effect(claim.key.clone()).await? else { return Ok(Known::Nothing) };
        if once.fingerprint != claim.fingerprint {
            return Err(conflict(claim));
        }
        self.is_left_alone(&claim.key)?;
        let happened = match (once.state, &once.resolved) {
            (OnceState::Done, _) => once.outcome,
            (OnceState::Resolved, Some(resolved)) => match &resolved.resolution {
                Resolution::Happened(outcome) => Some(outcome.clone()),
                Resolution::DidNotHappen => None,
            },
            (OnceState::Running, _) => return Err(running(&claim.key)),
            (OnceState::Unknown, _) => return Ok(Known::Unknown),
            (OnceState::Failed | OnceState::Resolved, _) => None,
        };
        Ok(match happened {
            Some(outcome) => Known::Done(Box::new(read(outcome))),
            None => Known::Nothing,
        })
    }

    /// Claims the effect. From here on it counts as unknown until its end is kept.
    pub(crate) async fn claim(&self, claim: &Claim, call: &Call) -> Result<Ticket, Fault> {
        let wanted = Reservation { key: claim.key.clone(), fingerprint: claim.fingerprint, call: call.id.clone() };
        match self.state.reserve(wanted, self.now()).await? {
            Reserved::Fresh(ticket) => Ok(ticket),
            Reserved::Done(_) | Reserved::Running => Err(running(&claim.key)),
            Reserved::Unknown => Err(unknown(&claim.key)),
            Reserved::Conflict => Err(conflict(claim)),
        }
    }

    /// Notes that a body is at the effect until it returns, to try it or to find out about it. One whose call was answered
    /// without it may still take effect, and what others find out before it has returned may turn out to be untrue.
    pub(crate) fn at_work(&self, claim: &Claim) -> Result<AtWork, Fault> {
        match self.bodies.keys().insert(claim.key.clone()) {
            true => Ok(AtWork { bodies: self.bodies.clone(), key: claim.key.clone() }),
            false => Err(running(&claim.key)),
        }
    }

    fn is_left_alone(&self, key: &OnceKey) -> Result<(), Fault> {
        if self.bodies.keys().contains(key) { Err(running(key)) } else { Ok(()) }
    }

    /// Keeps how the effect ended. Whoever cannot be told how stays unknown.
    pub(crate) async fn complete(&self, ticket: Ticket, ended: Ended, outcome: &Outcome) -> Result<(), Fault> {
        let kept = Kept {
            text: outcome.text.clone(),
            structured: outcome.structured.clone(),
            truncated: outcome.truncated,
            labels: outcome.labels.clone(),
            findings: outcome.findings.clone(),
        };
        let kept = serde_json::to_value(kept).unwrap_or_default();
        let completed = match ended {
            Ended::Happened => Completed::Done(kept),
            Ended::DidNotHappen => Completed::Failed(kept),
            Ended::Unsure => Completed::Unknown(kept),
        };
        self.state.complete(ticket, completed, self.now()).await.map_err(|error| {
            let message = format!("how the effect ended could not be kept: {error}");
            Fault::failed("effect_unknown", message, "Look with `toolgate effects list` before trying again.")
        })
    }

    /// Effects whose program died are unknown from now on.
    pub async fn orphaned(&self) -> Result<Vec<Once>, StoreError> {
        let orphans = self.state.orphaned(self.now()).await?;
        for orphan in &orphans {
            self.note("effect_unknown", None, orphan, json!({ "call": orphan.call })).await?;
        }
        Ok(orphans)
    }

    /// Effects, those changed last first.
    pub async fn list(&self, filter: EffectFilter) -> Result<Vec<Once>, StoreError> {
        self.orphaned().await?;
        self.state.effects(filter).await
    }

    /// A person says what became of an effect nobody knows about.
    pub async fn resolve(&self, key: &OnceKey, by: &Person, happened: bool, said: &str) -> Result<Once, Fault> {
        self.is_left_alone(key)?;
        let found = match happened {
            true => Resolution::Happened(json!({
                "text": said, "structured": null, "truncated": null, "labels": [], "findings": [],
            })),
            false => Resolution::DidNotHappen,
        };
        self.found_out(key, by, found).await?.ok_or_else(|| {
            let message = format!("effect `{}` of `{}` is not unknown", key.key, key.tool);
            Fault::failed("not_unknown", message, "List them with `toolgate effects list`.")
        })
    }

    /// The tool found out what became of an effect.
    pub(crate) async fn reconciled(&self, claim: &Claim, found: Resolution) -> Result<(), Fault> {
        let by = Person::from(&*format!("tool:{}", claim.key.tool));
        self.found_out(&claim.key, &by, found).await?;
        Ok(())
    }

    async fn found_out(&self, key: &OnceKey, by: &Person, found: Resolution) -> Result<Option<Once>, StoreError> {
        let Some(once) = self.state.effect(key.clone()).await? else { return Ok(None) };
        let happened = matches!(found, Resolution::Happened(_));
        let detail = json!({ "by": by, "happened": happened, "call": once.call });
        self.note("effect_resolved", Some(Principal::Person(by.clone())), &once, detail).await?;
        self.state.resolve(key.clone(), by.clone(), found, self.now()).await
    }

    async fn note(
        &self,
        kind: &'static str,
        by: Option<Principal>,
        once: &Once,
        detail: Value,
    ) -> Result<(), StoreError> {
        let subject = format!("{}:{}:{}", once.key.agent, once.key.tool, once.key.key);
        self.store.note(Note { at_ms: self.now(), kind, by, subject, detail }).await
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0)
    }
}

/// How an effect ended, as far as anybody can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Happened,
    DidNotHappen,
    Unsure,
}

impl Ended {
    /// From an outcome: what was done happened; what never got to run, or says that nothing was touched, did not; of
    /// everything else nobody can say.
    pub(crate) fn of(outcome: &Outcome, ran: bool, untouched: bool) -> Self {
        match outcome.status {
            Status::Done => Self::Happened,
            _ if !ran || untouched => Self::DidNotHappen,
            _ => Self::Unsure,
        }
    }
}

/// What was kept. Something else in its place is told as it is.
fn read(outcome: Value) -> Kept {
    serde_json::from_value(outcome.clone()).unwrap_or_else(|_| Kept {
        text: outcome.to_string(),
        structured: Value::Null,
        truncated: None,
        labels: Vec::new(),
        findings: Vec::new(),
    })
}

fn conflict(claim: &Claim) -> Fault {
    let message = format!("key `{}` stands for another call of `{}`", claim.key.key, claim.key.tool);
    Fault::refused("key_conflict", message, "Use a new key for a new effect.")
}

fn running(key: &OnceKey) -> Fault {
    let message = format!("the effect under key `{}` is being tried at this moment", key.key);
    Fault::failed("effect_running", message, "Make the same call again a little later.").retryable().untouched()
}

/// Nobody can say whether it happened.
pub(crate) fn unknown(key: &OnceKey) -> Fault {
    let message =
        format!("nobody can say whether the effect under key `{}` happened, so it is not tried again", key.key);
    let remedy = format!(
        "Find out, then run `toolgate effects resolve {} {} {} --happened` or `--did-not-happen`.",
        key.agent, key.tool, key.key
    );
    Fault::refused("effect_unknown", message, remedy)
}

impl Claim {
    pub(crate) fn key(&self) -> &OnceKey {
        &self.key
    }
}
