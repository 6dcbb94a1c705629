//! Asking people: the step of the road between the decision and the deed.
//!
//! A question is filed under the hash of everything a yes would approve. Whoever asks the same again finds its answer: a
//! yes is used once, by one caller; a no stands, under whatever key, until its question would have expired, so that an
//! agent cannot ask until somebody is tired. What people do here is in the record before it counts.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Covers, Fault, Grant, GrantId, GrantTerms, Note, Person,
    Principal, Question, Reason, SourceLine,
};
use toolgate_gate::{Agreed, ApprovalRules, Asked, Asking, Due, Permit, Step, Timeout, Wanted};
use toolgate_store::{
    Store, StoreError,
    state::{ApprovalFilter, Ballot, Filed, MOST_WAITING, State, Taken},
};
use toolgate_tools::{Clock, Progress, ProgressSink};

use crate::notify::QUEUE;

/// How often somebody who waits looks whether another program took the answer.
const LOOK: Duration = Duration::from_millis(250);
/// How often somebody who waits says so.
const SAY: Duration = Duration::from_secs(5);
/// Rounds looked at in one go when time is up for some.
const PAGE: u32 = 100;
/// The longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 2_000;

/// Questions, answers and standing yeses.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Approvals {
    state: Arc<dyn State>,
    store: Arc<dyn Store>,
    rules: ApprovalRules,
    clock: Arc<dyn Clock>,
    /// Counts what changed, so that those who wait in this program need not look.
    changed: watch::Sender<u64>,
    /// Where whoever tells people listens.
    told: Mutex<Option<mpsc::Sender<Event>>>,
}

/// What happened to a question, for whoever tells people.
#[derive(Debug, Clone)]
pub enum Event {
    /// People are asked.
    Asked(Box<Approval>),
    /// It is put before these people.
    Escalated(Box<Approval>),
}

impl Event {
    /// The question as it is then.
    pub fn approval(&self) -> &Approval {
        match self {
            Self::Asked(approval) | Self::Escalated(approval) => approval,
        }
    }

    /// What happened, in one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Asked(_) => "asked",
            Self::Escalated(_) => "escalated",
        }
    }
}

/// How the road goes on without a permit.
#[derive(Debug)]
pub(crate) enum Unsettled {
    /// People are asked.
    Pending { approval: ApprovalId, message: String },
    /// They said no, or cannot be asked.
    Refused(Fault),
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// How long a caller waits for people, and how it is told.
pub(crate) struct Patience<'a> {
    pub(crate) hold: Duration,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) progress: Option<&'a ProgressSink>,
}

impl Approvals {
    pub(crate) fn new(
        state: Arc<dyn State>,
        store: Arc<dyn Store>,
        rules: ApprovalRules,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { state, store, rules, clock, changed: watch::Sender::new(0), told: Mutex::default() }
    }

    /// The permit people agreed to, with who did. Looks for an answer, then for a standing yes, then asks and waits a while.
    /// The picture is made when there is somebody to look at it.
    pub(crate) async fn settle(
        &self,
        question: Question,
        picture: impl Future<Output = Value>,
        asking: Asking,
        wanted: &Wanted<'_>,
        patience: Patience<'_>,
    ) -> Result<(Permit, Reason), Unsettled> {
        let mut changes = self.changed.subscribe();
        let standing = match self.take(&question).await? {
            Taken::Yes(approval) => return permit(asking, &approval),
            Taken::Denied(approval) if !approval.is_late(self.now()) => return Err(denied(&approval)),
            Taken::Waiting(approval) => Some(approval),
            Taken::Denied(_) | Taken::None => None,
        };
        if let (None, Some(deed)) = (&standing, question.deed)
            && let Some(approval) = self.state.denied(deed, self.now()).await?
        {
            return Err(denied(&approval));
        }
        let (asking, used) = self.use_grant(asking, wanted).await?;
        let asking = match (asking, used) {
            (Ok(permit), Some(reason)) => return Ok((permit, reason)),
            (Ok(_), None) => return Err(Unsettled::Refused(nobody_agreed())),
            (Err(asking), _) => asking,
        };
        let approval = match standing {
            Some(approval) => approval,
            None => self.file(Question { picture: picture.await, ..question.clone() }).await?,
        };
        match self.wait(&approval, patience, &mut changes).await? {
            ApprovalState::Waiting => Err(pending(&approval, &asking)),
            _ => match self.take(&question).await? {
                Taken::Yes(approval) => permit(asking, &approval),
                Taken::Denied(approval) => Err(denied(&approval)),
                // Somebody else used the yes, or it was too late.
                Taken::Waiting(_) | Taken::None => Err(pending(&approval, &asking)),
            },
        }
    }

    async fn take(&self, question: &Question) -> Result<Taken, StoreError> {
        let taken = self.state.take(question.digest, question.principal.clone(), self.now()).await?;
        let Taken::Waiting(approval) = taken else { return Ok(taken) };
        match self.look(approval).await? {
            waiting if waiting.state == ApprovalState::Waiting => Ok(Taken::Waiting(waiting)),
            _ => self.state.take(question.digest, question.principal.clone(), self.now()).await,
        }
    }

    /// A permit by a standing yes, if there is one that covers the call.
    async fn use_grant(
        &self,
        asking: Asking,
        wanted: &Wanted<'_>,
    ) -> Result<(Result<Permit, Asking>, Option<Reason>), StoreError> {
        // Where two people are needed no grant will do, and none is used up in trying.
        if asking.people > 1 {
            return Ok((Err(asking), None));
        }
        let grants = self.state.grants(Some(wanted.agent.clone())).await?;
        let covers = |grant: &&Grant| grant.holds(self.now()) && Agreed::by_grant(grant, wanted).is_some();
        let candidates: Vec<GrantId> = grants.iter().filter(covers).map(|grant| grant.id.clone()).collect();
        if candidates.is_empty() {
            return Ok((Err(asking), None));
        }
        let Some(grant) = self.state.use_grant(candidates, self.now()).await? else { return Ok((Err(asking), None)) };
        let Some(agreed) = Agreed::by_grant(&grant, wanted) else { return Ok((Err(asking), None)) };
        let text = format!("`{}` granted it ({} uses left)", grant.terms.by, grant.left);
        let reason = Reason { rule: "granted", text, source: SourceLine { file: grant.id.0, line: 0 } };
        Ok((asking.agreed(wanted.question, &agreed), Some(reason)))
    }

    async fn file(&self, question: Question) -> Result<Approval, Unsettled> {
        let agent = question.agent.clone();
        match self.state.file(question, self.now()).await? {
            Filed::TooMany => Err(Unsettled::Refused(too_many(&agent))),
            Filed::Standing(approval) => Ok(approval),
            Filed::New(approval) => {
                let question = &approval.question;
                let detail = json!({
                    "agent": question.agent, "tool": question.tool, "people": question.people,
                    "question": question.digest, "expires_ms": question.expires_ms,
                });
                self.note("approval_asked", Some(question.principal.clone()), &approval.id.0, detail).await?;
                self.change();
                self.tell(Event::Asked(Box::new(approval.clone())));
                Ok(approval)
            }
        }
    }

    /// Waits until the round is answered, time is up, or the caller goes away. What it is then.
    async fn wait(
        &self,
        approval: &Approval,
        patience: Patience<'_>,
        changes: &mut watch::Receiver<u64>,
    ) -> Result<ApprovalState, StoreError> {
        let started = Instant::now();
        let until = started + patience.hold;
        let mut said = None;
        let mut now = approval.clone();
        while now.state == ApprovalState::Waiting && Instant::now() < until {
            if said.is_none_or(|at: Instant| at.elapsed() >= SAY) {
                said = Some(Instant::now());
                if let Some(sink) = patience.progress {
                    let message = Some(format!("waiting for a person: {}", approval.id));
                    sink(Progress { done: started.elapsed().as_secs_f64(), total: None, message });
                }
            }
            tokio::select! {
                biased;
                () = patience.cancel.cancelled() => break,
                _ = changes.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = tokio::time::sleep_until(until) => {}
            }
            let Some(seen) = self.state.approval(approval.id.clone()).await? else { break };
            now = self.look(seen).await?;
        }
        Ok(now.state)
    }

    /// Does what is due about a round, and gives it as it is then.
    async fn look(&self, approval: Approval) -> Result<Approval, StoreError> {
        if approval.state != ApprovalState::Waiting {
            return Ok(approval);
        }
        let now = self.now();
        let (id, due) = (approval.id.clone(), self.rules.due(&asked(&approval, now)));
        let after = match due {
            Due::Waiting => None,
            Due::Expired => {
                self.state.expire(now).await?;
                self.state.approval(id.clone()).await?
            }
            Due::Denied => self.state.time_out(id.clone(), Answer::No, "nobody answered in time".into(), now).await?,
            Due::Approved => {
                self.state.time_out(id.clone(), Answer::Yes, "nobody objected in time".into(), now).await?
            }
            Due::Step(step) if step > approval.step as usize => {
                let people = self.people_at(step);
                self.state.escalate(id.clone(), approval.step, people, now).await?
            }
            Due::Step(_) => None,
        };
        let Some(after) = after else { return Ok(approval) };
        let kind = match due {
            Due::Step(_) => "approval_escalated",
            Due::Expired => "approval_expired",
            _ => "approval_timed_out",
        };
        self.note(kind, None, &id.0, json!({ "state": after.state, "step": after.step })).await?;
        self.change();
        if matches!(due, Due::Step(_)) && after.state == ApprovalState::Waiting {
            self.tell(Event::Escalated(Box::new(after.clone())));
        }
        Ok(after)
    }

    /// What this program asks and escalates from now on. There is one listener; a later one takes its place.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Event> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// Tells whoever listens. Nobody waits for them.
    fn tell(&self, event: Event) {
        let listener = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(mpsc::error::TrySendError::Full(event))) = listener.as_ref().map(|to| to.try_send(event)) {
            tracing::error!(id = %event.approval().id, "too many questions wait to be told, so nobody is told of this one");
        }
    }

    /// Does what is due about every question that waits. Whoever serves calls this now and then.
    pub async fn tend(&self) -> Result<Vec<Event>, StoreError> {
        let (mut events, mut seen) = (Vec::new(), None);
        loop {
            let page = self.state.waiting(seen, PAGE).await?;
            let Some(last) = page.last() else { return Ok(events) };
            seen = Some(last.id.clone());
            for approval in page {
                let step = approval.step;
                let after = self.look(approval).await?;
                if after.state == ApprovalState::Waiting && after.step > step {
                    events.push(Event::Escalated(Box::new(after)));
                }
            }
        }
    }

    /// Changes whenever a question is filed or answered by this program.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Rounds, the newest first.
    pub async fn list(&self, filter: ApprovalFilter) -> Result<Vec<Approval>, StoreError> {
        self.state.approvals(filter).await
    }

    /// One round, as it is now.
    pub async fn show(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        match self.state.approval(id.clone()).await? {
            Some(approval) => self.look(approval).await.map(Some),
            None => Ok(None),
        }
    }

    /// A person answers. It is in the record before it counts. A no is told to the agent, so it says why.
    pub async fn answer(&self, id: &ApprovalId, by: &Person, answer: Answer, reason: &str) -> Result<Approval, Fault> {
        let reason = reason.trim();
        if answer == Answer::No && reason.is_empty() {
            let message = "a no needs a reason: the agent is told it";
            return Err(Fault::failed("reason_missing", message, "Say why."));
        }
        if reason.len() > LONGEST_REASON {
            let message = format!("a reason has at most {LONGEST_REASON} bytes");
            return Err(Fault::failed("reason_too_long", message, "Say it shorter."));
        }
        // What is due happens first: nobody answers a question whose time is over.
        self.show(id).await?;
        let by_person = Some(Principal::Person(by.clone()));
        let detail = json!({ "answer": answer, "reason": reason });
        self.note("approval_answered", by_person.clone(), &id.0, detail).await?;
        let ballot = Ballot { by: by.clone(), answer, reason: reason.to_owned() };
        match self.state.vote(id.clone(), ballot, self.now()).await {
            Ok(approval) => {
                self.change();
                Ok(approval)
            }
            Err(error) => {
                self.note("approval_answer_refused", by_person, &id.0, json!({ "code": error.code() })).await?;
                Err(error.into())
            }
        }
    }

    /// A person says yes in advance.
    pub async fn grant(&self, terms: GrantTerms) -> Result<Grant, Fault> {
        let people = self.people();
        if !people.is_empty() && !people.contains(&terms.by) {
            let message = format!("`{}` is not among those who may answer, so they grant nothing", terms.by);
            return Err(Fault::refused("wrong_person", message, "Ask one of those the config names."));
        }
        if terms.uses == 0 {
            return Err(Fault::failed(
                "no_uses",
                "a grant that is good for no call is none",
                "Grant at least one use.",
            ));
        }
        if terms.until_ms.is_some_and(|until| until <= self.now()) {
            return Err(Fault::failed("in_the_past", "the grant would be over already", "Choose a later time."));
        }
        if matches!(&terms.covers, Covers::Arguments(patterns) if patterns.keys().any(|path| path.is_empty())) {
            return Err(Fault::failed("no_argument", "a pattern names no argument", "Write `path=src/**`."));
        }
        if terms.definition.is_none() {
            let message = format!("nobody says which definition of tool `{}` is meant", terms.tool);
            return Err(Fault::failed("no_definition", message, "Grant it with the hash of the tool's definition."));
        }
        let (by, subject) = (Principal::Person(terms.by.clone()), format!("{}:{}", terms.agent, terms.tool));
        self.note("granted", Some(by), &subject, json!({ "terms": terms })).await?;
        let grant = self.state.grant(terms, self.now()).await?;
        self.change();
        Ok(grant)
    }

    /// Standing yeses, the newest first.
    pub async fn grants(&self, agent: Option<AgentName>) -> Result<Vec<Grant>, StoreError> {
        self.state.grants(agent).await
    }

    /// A person takes a standing yes back. None if there is none.
    pub async fn revoke(&self, id: &GrantId, by: &Person) -> Result<Option<Grant>, Fault> {
        self.note("grant_revoked", Some(Principal::Person(by.clone())), &id.0, Value::Null).await?;
        Ok(self.state.revoke(id.clone(), by.clone(), self.now()).await?)
    }

    /// Who may answer a question that was just filed; empty for everybody.
    pub(crate) fn people(&self) -> Vec<Person> {
        self.people_at(0)
    }

    /// From when on a question that is filed now counts for nothing.
    pub(crate) fn expires_ms(&self) -> u64 {
        self.now().saturating_add(millis(self.rules.expires))
    }

    fn people_at(&self, step: usize) -> Vec<Person> {
        let steps: &[Step] = match &self.rules.timeout {
            Timeout::Escalation(steps) => steps,
            Timeout::Wait | Timeout::Deny(_) | Timeout::Tiered(_) => &[],
        };
        let escalated = steps.iter().take(step + 1).flat_map(|step| &step.to);
        self.rules.people.iter().chain(escalated).map(|name| Person::from(&**name)).collect()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0)
    }

    fn change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    async fn note(
        &self,
        kind: &'static str,
        by: Option<Principal>,
        subject: &str,
        detail: Value,
    ) -> Result<(), StoreError> {
        self.store.note(Note { at_ms: self.now(), kind, by, subject: subject.to_owned(), detail }).await
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What the rules about time look at.
fn asked(approval: &Approval, now_ms: u64) -> Asked {
    let question = &approval.question;
    Asked {
        age: Duration::from_millis(now_ms.saturating_sub(approval.created_ms)),
        risk: question.risk,
        class: question.class,
        people: question.people,
        steered: question.labels.iter().any(|label| label == STEERED),
    }
}

/// The label of a question whose call was steered by words nobody vouches for.
pub(crate) const STEERED: &str = "steered";

/// The rule of a reason that says who agreed to this very call.
pub(crate) const APPROVED: &str = "approved";

fn permit(asking: Asking, approval: &Approval) -> Result<(Permit, Reason), Unsettled> {
    let agreed = Agreed::by_approval(approval);
    let question = approval.question.digest;
    let permit = agreed.and_then(|agreed| asking.agreed(&question, &agreed).ok());
    let permit = permit.ok_or_else(|| Unsettled::Refused(nobody_agreed()))?;
    let yes = |vote: &&toolgate_contract::Vote| vote.answer == Answer::Yes;
    let people: Vec<_> = approval.votes.iter().filter(yes).map(|vote| format!("`{}`", vote.by)).collect();
    let (rule, text) = match people.is_empty() {
        true => ("not_objected", "nobody objected in time".to_owned()),
        false => (APPROVED, format!("{} agreed", people.join(" and "))),
    };
    Ok((permit, Reason { rule, text, source: SourceLine { file: approval.id.0.clone(), line: 0 } }))
}

fn nobody_agreed() -> Fault {
    Fault::refused(
        "approval_insufficient",
        "what was agreed to is not what is asked now",
        "Ask again: the policy asks more people than before.",
    )
}

fn too_many(agent: &AgentName) -> Fault {
    let message =
        format!("{MOST_WAITING} questions of agent `{agent}` wait for people already, so nobody is asked this");
    Fault::refused("too_many_questions", message, "Try again when people have answered some of them.").retryable()
}

fn denied(approval: &Approval) -> Unsettled {
    let who = approval.votes.iter().find(|vote| vote.answer == Answer::No).map(|vote| vote.by.to_string());
    let who = who.unwrap_or_else(|| "time".to_owned());
    let why = approval.denial().map(str::trim).filter(|why| !why.is_empty()).unwrap_or("no reason was given");
    Unsettled::Refused(Fault::refused(
        "approval_denied",
        format!("`{who}` said no to this call (`{}`): {why}", approval.id),
        "Do not try the same by other means; do it another way, or ask the user.",
    ))
}

fn pending(approval: &Approval, asking: &Asking) -> Unsettled {
    let people = match asking.people {
        1 => "a person".to_owned(),
        people => format!("{people} people"),
    };
    let why = asking.reasons.iter().map(|reason| format!("{} ({})", reason.text, reason.source));
    let message = format!("{people} must agree: {}", why.collect::<Vec<_>>().join("; "));
    Unsettled::Pending { approval: approval.id.clone(), message }
}
