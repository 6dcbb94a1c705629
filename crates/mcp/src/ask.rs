//! Asking the person at the client: a question to people as a form that MCP clients can show.
//!
//! Whether what somebody says there counts is the operator's word: `approvals.at_client` names, for an agent, the person who
//! sits at its client. Without it, or where a client has no forms, the call is pending as it is everywhere else. The answer is
//! a vote like any other: it is recorded before it counts, nobody votes twice, and where two people must agree it is one.
//!
//! In older revisions the server asks while the call waits. From 2026-07-28 on the call is answered with the question, and
//! the client calls again with the answer and a ticket, which is good once, for the same call of the same agent.

use std::{
    collections::HashMap,
    fmt::Write as _,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{ElicitRequest, ErrorCode, ServerRequest},
    service::Peer,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{Answer, Approval, ApprovalId, ApprovalState, Digest, Fault, Person, Question};
use toolgate_guard::shell::ir::visible;
use toolgate_runtime::approvals::Approvals;

use crate::{
    message::told,
    underway::UnderWay,
    visit::{Era, Visit},
};

/// How long an answer may take.
const LIFE: Duration = Duration::from_secs(15 * 60);
/// Tickets of one agent; the oldest makes room.
const MOST: usize = 256;
/// Those of them that a call waits for: it holds a place among the calls of its tool. The oldest is cancelled.
const MOST_CALLS: usize = 32;
/// The longest question. What is longer is not asked here: nobody agrees to what they were not shown.
const LONGEST: usize = 8 * 1024;
/// Our question among those of a round.
pub(crate) const QUESTION: &str = "approval";

/// How the person at a client can be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    /// With a request to it, while the call waits.
    Request(&'a Peer<RoleServer>),
    /// With an answer to the call, which then comes again.
    Round,
}

impl<'a> Way<'a> {
    /// How clients of this era are asked.
    pub(crate) fn of(visit: &'a Visit) -> Self {
        match &visit.era {
            Era::Sessions(peer) => Self::Request(peer),
            Era::Stateless(_) => Self::Round,
        }
    }

    /// The same, where the client can show a form to the person.
    pub(crate) fn with_forms(visit: &'a Visit) -> Option<Self> {
        visit.can.forms.then(|| Self::of(visit))
    }
}

/// What a person said to a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Yes,
    No,
    /// They closed it, or the client did.
    Nothing,
}

impl Said {
    /// Only a yes that is spelt out is one.
    pub(crate) fn read(answer: Option<&Value>) -> Self {
        let field = |name: &str| answer.and_then(|answer| answer.get(name));
        match (field("action").and_then(Value::as_str), field("content").and_then(|content| content.get("approve"))) {
            (Some("accept"), Some(Value::Bool(true))) => Self::Yes,
            (Some("accept"), Some(Value::Bool(false))) | (Some("decline"), _) => Self::No,
            _ => Self::Nothing,
        }
    }
}

/// Puts what a person said into the box. What the box refuses is in the record, and the call tells how it stands.
pub(crate) async fn vote(approvals: &Approvals, approval: &ApprovalId, person: &Person, said: Said) {
    let (answer, reason) = match said {
        Said::Yes => (Answer::Yes, "said yes at the client"),
        Said::No => (Answer::No, "said no at the client"),
        Said::Nothing => return,
    };
    if let Err(fault) = approvals.answer(approval, person, answer, reason).await {
        tracing::debug!(%fault, "an answer at the client did not count");
    }
}

/// The form for a question this person can still answer.
pub(crate) fn form(approval: &Approval, person: &Person) -> Option<Value> {
    let may = approval.may_approve.is_empty() || approval.may_approve.contains(person);
    let open = approval.state == ApprovalState::Waiting && !approval.votes.iter().any(|vote| vote.by == *person);
    let message = text(&approval.question);
    (may && open && message.len() <= LONGEST).then(|| {
        json!({
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": { "approve": { "type": "boolean", "title": "Approve", "description": "Let this call run, once." } },
                "required": ["approve"],
            },
        })
    })
}

/// The question, with everything spelt out that nobody would see.
fn text(question: &Question) -> String {
    let Question { agent, tool, risk, picture, arguments, reasons, people, .. } = question;
    let mut text = format!("Agent `{}` asks to call `{}` ({risk} risk).\n", visible(&agent.0), visible(tool));
    let parts: Vec<_> = ["command", "diff"].iter().filter_map(|part| picture.get(part)?.as_str()).collect();
    for part in &parts {
        let _ = write!(text, "\n{part}\n");
    }
    if parts.is_empty() {
        let _ = write!(text, "\n{}\n", visible(&arguments.to_string()));
    }
    for line in picture.get("summary").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let _ = write!(text, "\n- it {line}");
    }
    for reason in reasons {
        let _ = write!(text, "\n- asked because {} ({})", visible(&reason.text), visible(&reason.source));
    }
    if *people > 1 {
        let _ = write!(text, "\n- {people} people must agree");
    }
    text
}

/// Asks while the call waits. Somebody else may answer first, and the call may end: then there is nothing to say.
pub(crate) async fn ask(
    peer: &Peer<RoleServer>,
    cancel: &CancellationToken,
    approvals: &Approvals,
    approval: &ApprovalId,
    form: Value,
) -> Said {
    let Ok(params) = serde_json::from_value(form) else { return Said::Nothing };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let mut changes = approvals.changes();
    let mut asked = pin!(peer.send_request(request));
    let mut late = pin!(sleep(LIFE));
    loop {
        tokio::select! {
            answer = &mut asked => return match answer {
                Ok(result) => Said::read(serde_json::to_value(result).ok().as_ref()),
                Err(_) => Said::Nothing,
            },
            () = cancel.cancelled() => return Said::Nothing,
            () = &mut late => return Said::Nothing,
            _ = changes.changed() => {
                let is_open = |now: &Approval| now.state == ApprovalState::Waiting;
                if !approvals.show(approval).await.is_ok_and(|now| now.as_ref().is_some_and(is_open)) {
                    return Said::Nothing;
                }
            }
        }
    }
}

/// What makes an answer that comes with another call belong to a question: a name nobody guesses.
///
/// Nothing is in the name, so there is nothing to seal; what it stands for stays here, bound to the agent whose list this
/// is, to the call by its hash, and to a time.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, Ticket>>);

#[derive(Debug)]
struct Ticket {
    call: Digest,
    kept: Kept,
    until: Instant,
}

/// What a ticket stands for.
#[derive(Debug)]
pub(crate) enum Kept {
    /// A question to people that was filed.
    Approval(ApprovalId),
    /// A call that waits for answers. It is cancelled when the ticket is gone.
    Call(Box<UnderWay>),
}

impl Tickets {
    pub(crate) fn issue(&self, call: Digest, kept: Kept, now: Instant) -> Result<String, ErrorData> {
        let name = chance()?;
        let mut tickets = self.lock();
        tickets.retain(|_, ticket| ticket.until > now);
        make_room(&mut tickets, MOST, |_| true);
        make_room(&mut tickets, MOST_CALLS, |kept| matches!(kept, Kept::Call(_)));
        tickets.insert(name.clone(), Ticket { call, kept, until: now + LIFE });
        Ok(name)
    }

    /// What the ticket stands for, if it is for this call. It is used up either way.
    pub(crate) fn redeem(&self, name: &str, call: &Digest, now: Instant) -> Result<Kept, ErrorData> {
        let ticket = self.lock().remove(name);
        match ticket.filter(|ticket| ticket.call == *call && ticket.until > now) {
            Some(ticket) => Ok(ticket.kept),
            None => {
                let message = "the `requestState` is not one for this call, or it was used or is too old";
                let fault = Fault::refused("bad_request_state", message, "Make the call again without it.");
                Err(told(ErrorCode::INVALID_PARAMS, fault))
            }
        }
    }

    /// Every call that waits for answers: nobody will bring them any more.
    pub(crate) fn calls(&self) -> Vec<UnderWay> {
        let all = std::mem::take(&mut *self.lock());
        let call = |ticket: Ticket| match ticket.kept {
            Kept::Call(call) => Some(*call),
            Kept::Approval(_) => None,
        };
        all.into_values().filter_map(call).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Ticket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name nobody guesses.
pub(crate) fn chance() -> Result<String, ErrorData> {
    let mut name = [0; 32];
    getrandom::fill(&mut name).map_err(|error| {
        let message = format!("the kernel gave no random bytes: {error}");
        told(ErrorCode::INTERNAL_ERROR, Fault::failed("no_chance", message, "Look at the machine."))
    })?;
    Ok(name.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Sees to it that there are fewer than so many of a kind.
fn make_room(tickets: &mut HashMap<String, Ticket>, most: usize, is_one: impl Fn(&Kept) -> bool) {
    let ones = tickets.iter().filter(|(_, ticket)| is_one(&ticket.kept));
    if ones.clone().count() >= most
        && let Some(oldest) = ones.min_by_key(|(_, ticket)| ticket.until).map(|(name, _)| name.clone())
    {
        tickets.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use super::*;

    #[test]
    fn only_a_yes_that_is_spelt_out_is_one() {
        let check = |answer: Value, expected: Said| assert_eq!(Said::read(Some(&answer)), expected, "{answer}");
        check(json!({ "action": "accept", "content": { "approve": true } }), Said::Yes);
        check(json!({ "action": "accept", "content": { "approve": false } }), Said::No);
        check(json!({ "action": "decline" }), Said::No);
        check(json!({ "action": "decline", "content": { "approve": true } }), Said::No);
        for nothing in [
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": { "approve": "true" } }),
            json!({ "action": "accept", "content": { "approve": 1 } }),
            json!({ "action": "cancel", "content": { "approve": true } }),
            json!({ "content": { "approve": true } }),
            json!({ "action": "Accept", "content": { "approve": true } }),
            json!([]),
        ] {
            check(nothing, Said::Nothing);
        }
        assert_eq!(Said::read(None), Said::Nothing);
    }

    #[test]
    fn a_ticket_is_good_once_for_one_call_for_a_while() {
        let (tickets, start) = (Tickets::default(), Instant::now());
        let (call, other) = (Digest::of(b"call"), Digest::of(b"other"));
        let approval = ApprovalId("apr_1".into());
        let issue = || tickets.issue(call, Kept::Approval(approval.clone()), start).unwrap();
        let ticket = issue();
        let kept = tickets.redeem(&ticket, &call, start).unwrap();
        assert!(matches!(kept, Kept::Approval(id) if id == approval));
        let refused = |name: &str, call: &Digest, at| {
            let error = tickets.redeem(name, call, at).unwrap_err();
            assert_eq!(
                (error.code, error.data.unwrap()["code"].clone()),
                (ErrorCode::INVALID_PARAMS, "bad_request_state".into())
            );
        };
        refused(&ticket, &call, start);
        let ticket = issue();
        refused(&ticket, &other, start);
        refused(&ticket, &call, start);
        refused(&issue(), &call, start + LIFE);
        refused("", &call, start);
        let first = issue();
        let later = |at: usize| start + Duration::from_secs(1 + at as u64);
        (0..MOST).for_each(|at| _ = tickets.issue(call, Kept::Approval(approval.clone()), later(at)));
        refused(&first, &call, start);
    }

    #[test]
    fn so_many_calls_wait_for_answers_and_the_oldest_is_cancelled() {
        let (tickets, start, name) = (Tickets::default(), Instant::now(), Digest::of(b"call"));
        let issue = |at: usize, kept| tickets.issue(name, kept, start + Duration::from_secs(at as u64)).unwrap();
        // Older than all calls, and not counted among them.
        let approval = issue(0, Kept::Approval(ApprovalId("apr_1".into())));
        let calls: Vec<_> = (1..=MOST_CALLS + 1)
            .map(|at| {
                let gone = Arc::new(());
                let (held, cancel) = (gone.clone(), CancellationToken::new());
                let ended = async move {
                    drop(held);
                    pending().await
                };
                let call = Kept::Call(Box::new(UnderWay::staged(ended, cancel)));
                (issue(at, call), gone)
            })
            .collect();
        let is_kept = |call: &(String, Arc<()>)| Arc::strong_count(&call.1) == 2;
        assert_eq!(calls.iter().filter(|call| is_kept(call)).count(), MOST_CALLS);
        assert!(!is_kept(&calls[0]), "the oldest made room");
        tickets.redeem(&calls[0].0, &name, start).unwrap_err();
        for ticket in [&approval, &calls[1].0, &calls[MOST_CALLS].0] {
            tickets.redeem(ticket, &name, start).unwrap();
        }
    }
}
