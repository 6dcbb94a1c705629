//! A call that is under way, whoever listens to it at the moment: what it reports, what it asks, how it ends.
//!
//! Other servers have questions to whoever calls their tools. In older revisions the client is asked by a request while its
//! call waits. From 2026-07-28 on the call is answered with the questions and waits by itself, and the client calls again
//! with the answers: then it is listened to from there. A call that is dropped is cancelled.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use rmcp::{
    RoleServer,
    model::{CustomRequest, InputResponses, ServerRequest},
    service::{Peer, ServiceError},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinError,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolgate_contract::{Call, Fault, Outcome};
use toolgate_runtime::{
    Runtime, Watch,
    tools::{Caller, Inquiry, Replies, Replying, Weight},
};

use crate::{
    ask::Way,
    bridge::policy,
    progress::{Hearing, Reports},
    visit::{Can, Visit},
};

/// A call that is under way.
pub(crate) struct UnderWay {
    ended: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    rounds: Rounds,
    /// The one that waits for answers.
    open: Option<Round>,
    reports: Reports,
    cancel: CancellationToken,
}

/// What the call wants to know, as it comes. Nobody is asked any more once it is dropped.
struct Rounds(Arc<Client>);

/// Questions that are asked together.
struct Round {
    inquiries: Vec<Inquiry>,
    answer: oneshot::Sender<Result<Replies, Fault>>,
}

/// Why nobody listens any more.
pub(crate) enum Paused {
    /// The call has ended.
    Ended(Box<Outcome>),
    /// It asks this, and waits.
    Asks(Map<String, Value>),
}

/// How a call stands that goes on by itself.
pub(crate) enum Standing {
    /// It is at work.
    Works,
    /// It says what it is at.
    At(String),
    /// It asks this, and waits. No name is used twice.
    Asks(Map<String, Value>),
}

impl UnderWay {
    /// Starts a call of a client that can do this, and hears remarks from this weight on.
    pub(crate) fn start(runtime: &Runtime, call: Call, can: Arc<Can>, hears: Option<Weight>, hold: Duration) -> Self {
        let client = Arc::new(Client { can, desk: Mutex::default(), asked: Notify::new() });
        let (reports, cancel) = (Reports::default(), CancellationToken::new());
        let watch = Watch {
            cancel: cancel.clone(),
            progress: Some(reports.sink()),
            remarks: hears.map(|least| reports.listener(least)),
            caller: Some(client.clone()),
            hold,
        };
        let runtime = runtime.clone();
        let ended = Box::pin(async move { runtime.invoke(call, watch).await });
        Self { ended, rounds: Rounds(client), open: None, reports, cancel }
    }

    /// Listens for a request of its client, which may have brought answers with it: they are for the first questions there
    /// are, if they fit all of them.
    pub(crate) async fn listen(&mut self, visit: &Visit, mut brought: Option<&InputResponses>) -> Paused {
        let mut hearing = Hearing::of(visit);
        loop {
            if let Some(round) = self.open.take() {
                match (round.answered(brought.take()), Way::of(visit)) {
                    (Ok(()), _) => {}
                    (Err(round), Way::Round) => {
                        let requests = round.requests();
                        self.open = Some(round);
                        return Paused::Asks(requests);
                    }
                    (Err(round), Way::Request(peer)) => {
                        if let Some(outcome) = self.request(peer, visit, &mut hearing, round).await {
                            return Paused::Ended(outcome.into());
                        }
                    }
                }
            }
            tokio::select! {
                biased;
                outcome = &mut self.ended => {
                    hearing.rest(&self.reports).await;
                    return Paused::Ended(outcome.into());
                }
                round = self.rounds.next() => self.open = Some(round),
                () = visit.cancel.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                due = hearing.due(&self.reports) => hearing.tell(due).await,
            }
        }
    }

    /// Asks the client by requests, while the call goes on; how it ended, if it did not wait for the answers.
    async fn request(
        &mut self,
        peer: &Peer<RoleServer>,
        visit: &Visit,
        hearing: &mut Hearing<'_>,
        round: Round,
    ) -> Option<Outcome> {
        let Round { inquiries, mut answer } = round;
        let mut asked = std::pin::pin!(ask(peer, inquiries));
        loop {
            tokio::select! {
                biased;
                outcome = &mut self.ended => {
                    hearing.rest(&self.reports).await;
                    return Some(outcome);
                }
                replies = &mut asked => {
                    // Whoever asked may have ended.
                    let _ = answer.send(replies);
                    return None;
                }
                () = answer.closed() => return None,
                () = visit.cancel.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                due = hearing.due(&self.reports) => hearing.tell(due).await,
            }
        }
    }

    /// The same, going on where nobody listens for now.
    pub(crate) fn alone_for_now(self) -> Self {
        let going = AbortOnDropHandle::new(tokio::spawn(self.ended));
        let ended = Box::pin(async move {
            match going.await.map_err(JoinError::try_into_panic) {
                Ok(outcome) => outcome,
                Err(Ok(panic)) => resume_unwind(panic),
                // Only who drops it ends it.
                Err(Err(_)) => pending().await,
            }
        });
        Self { ended, ..self }
    }

    /// Goes on without anybody who listens until it has ended: how, and what its client would have to be able to do, where
    /// it failed for that. Answers come by `brought`, in as many pieces as they like.
    pub(crate) async fn alone(
        mut self,
        mut brought: mpsc::Receiver<InputResponses>,
        cancel: CancellationToken,
        mut tell: impl FnMut(Standing),
    ) -> (Outcome, Option<Value>) {
        let (mut number, mut answers) = (0, InputResponses::default());
        if let Some(round) = &self.open {
            tell(Standing::Asks(round.numbered(number)));
        }
        loop {
            tokio::select! {
                biased;
                outcome = &mut self.ended => {
                    let lacks = self.lacks();
                    return (outcome, lacks);
                }
                round = self.rounds.next() => {
                    number += 1;
                    answers.clear();
                    tell(Standing::Asks(round.numbered(number)));
                    self.open = Some(round);
                }
                Some(more) = brought.recv() => {
                    let own = format!("{number}.");
                    answers.extend(more.into_iter().filter_map(|(key, answer)| Some((key.strip_prefix(&own)?.to_owned(), answer))));
                    match self.open.take().map(|round| round.answered(Some(&answers))) {
                        Some(Ok(())) => tell(Standing::Works),
                        Some(Err(round)) => self.open = Some(round),
                        None => {}
                    }
                }
                () = cancel.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                message = self.reports.message() => tell(Standing::At(message)),
            }
        }
    }

    /// What the client would have to be able to do, where the call failed for that.
    pub(crate) fn lacks(&self) -> Option<Value> {
        self.rounds.0.desk().lacks.clone()
    }

    /// Cancels it, and waits until its end is recorded.
    pub(crate) async fn end(self) {
        self.cancel.cancel();
        drop((self.rounds, self.open));
        self.ended.await;
    }
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnderWay").field("asks", &self.open.is_some()).finish_non_exhaustive()
    }
}

impl Round {
    /// Passes the answers on, if there is one that fits for every question.
    fn answered(self, brought: Option<&InputResponses>) -> Result<(), Self> {
        let fitting = |inquiry: &Inquiry| {
            let answer = brought?.get(&inquiry.key)?;
            Some((inquiry.key.clone(), policy::answer(inquiry, answer).ok()?))
        };
        match self.inquiries.iter().map(fitting).collect::<Option<BTreeMap<_, _>>>() {
            Some(replies) => {
                // Whoever asked may have ended.
                let _ = self.answer.send(Ok(replies));
                Ok(())
            }
            None => Err(self),
        }
    }

    fn requests(&self) -> Map<String, Value> {
        let request = |inquiry: &Inquiry| json!({ "method": inquiry.method, "params": inquiry.params });
        self.inquiries.iter().map(|inquiry| (inquiry.key.clone(), request(inquiry))).collect()
    }

    /// The same under names of this round.
    fn numbered(&self, number: usize) -> Map<String, Value> {
        self.requests().into_iter().map(|(key, request)| (format!("{number}.{key}"), request)).collect()
    }
}

/// One request for each question.
async fn ask(peer: &Peer<RoleServer>, inquiries: Vec<Inquiry>) -> Result<Replies, Fault> {
    let one = async |Inquiry { key, method, params }: Inquiry| {
        let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        match peer.send_request(request).await {
            Ok(answer) => Ok((key, serde_json::to_value(answer).unwrap_or_default())),
            Err(error) => Err(not_answered(&error)),
        }
    };
    Ok(try_join_all(inquiries.into_iter().map(one)).await?.into_iter().collect())
}

fn not_answered(error: &ServiceError) -> Fault {
    let said = match error {
        ServiceError::McpError(error) => error.message.chars().take(200).collect(),
        _ => "it is gone".to_owned(),
    };
    let message = format!("the client has no answer to the tool's question: {said}");
    Fault::failed("not_answered", message, "Answer the question, or do without this tool.")
}

/// The client of a call, as the call sees it.
struct Client {
    can: Arc<Can>,
    desk: Mutex<Desk>,
    asked: Notify,
}

#[derive(Default)]
struct Desk {
    /// What is to be asked.
    rounds: VecDeque<Round>,
    /// Nobody asks it any more.
    closed: bool,
    /// What the client would have to be able to do.
    lacks: Option<Value>,
}

impl Client {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rounds {
    /// The next round. Nothing is lost when the future is dropped.
    async fn next(&self) -> Round {
        loop {
            let round = self.0.desk().rounds.pop_front();
            match round {
                Some(round) => return round,
                None => self.0.asked.notified().await,
            }
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        let mut desk = self.0.desk();
        desk.closed = true;
        desk.rounds.clear();
    }
}

impl Caller for Client {
    fn can(&self) -> Value {
        self.can.all.clone()
    }

    fn ask(&self, inquiries: Vec<Inquiry>) -> Replying {
        let (answer, answered) = oneshot::channel();
        {
            let mut desk = self.desk();
            // Where nobody asks any more the call is cancelled, and that is how it ends: it is given no answer first.
            if !desk.closed {
                desk.rounds.push_back(Round { inquiries, answer });
            }
        }
        self.asked.notify_one();
        Box::pin(async move {
            match answered.await {
                Ok(replies) => replies,
                Err(_) => pending().await,
            }
        })
    }

    fn lacks(&self, needed: Value) {
        self.desk().lacks = Some(needed);
    }
}

#[cfg(test)]
impl UnderWay {
    /// A call that ends as it is told here, or as cancelled once it is.
    pub(crate) fn staged(ended: impl Future<Output = Outcome> + Send + 'static, cancel: CancellationToken) -> Self {
        let cancelled = cancel.clone();
        let ended = Box::pin(async move {
            tokio::select! {
                outcome = ended => outcome,
                () = cancelled.cancelled() => {
                    Outcome { is_error: true, code: Some("cancelled".into()), ..crate::present::tests::outcome() }
                }
            }
        });
        let client = Client { can: Arc::default(), desk: Mutex::default(), asked: Notify::new() };
        Self { ended, rounds: Rounds(Arc::new(client)), open: None, reports: Reports::default(), cancel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::outcome;

    #[tokio::test]
    async fn a_call_that_waits_goes_on_where_nobody_listens_and_ends_with_whoever_could() {
        let (tell, told) = oneshot::channel();
        let works = async move {
            let _ = tell.send(());
            outcome()
        };
        let call = UnderWay::staged(works, CancellationToken::new()).alone_for_now();
        told.await.unwrap();
        drop(call);

        let (held, dropped) = oneshot::channel::<()>();
        let hangs = async move {
            let _held = held;
            pending().await
        };
        drop(UnderWay::staged(hangs, CancellationToken::new()).alone_for_now());
        assert!(dropped.await.is_err());
    }
}
