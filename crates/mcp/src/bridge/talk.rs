//! One conversation with a server about one call: what is asked of it, and what it asks back.
//!
//! Servers of both eras have questions to whoever called. One of the old era asks while it works, and is answered; one of the
//! new era answers with its questions, and is asked again with the answers. Either way it is [`policy`] that says what may be
//! asked, and whoever called who is asked: a server of one era serves clients of the other.

use std::{
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use toolgate_contract::{Asked, Fault};
use toolgate_runtime::tools::{Cx, Inquiry, Replies};

use super::{
    handshake::Era,
    link::{Link, Told, Wanted},
    mailbox::mailbox,
    peer::{Query, Said, Trouble},
    policy::{self, Leave},
    server::Server,
};

/// How often a server may answer a call with questions, and how many it may ask in all.
const MOST_ROUNDS: usize = 8;
const MOST_QUESTIONS: usize = 32;
/// What a question is called that has no name.
const QUESTION: &str = "question";
/// Numbers of errors: a client that lacks something, a request that makes no sense, a person or model that does not answer.
const MISSING_CAPABILITY: i64 = -32021;
const INVALID_REQUEST: i64 = -32600;
const NOT_ANSWERED: i64 = -1;
/// The number by which a server of the old era says that a person has to open an address before it does what it was asked.
const OPEN_FIRST: i64 = -32042;
/// The numbers for an address at which there is nothing, in the old era and in the new, and the method that gets them.
const NO_RESOURCE: i64 = -32002;
const INVALID_PARAMS: i64 = -32602;
const READ: &str = "resources/read";

/// One conversation about one call.
pub(super) struct Talk<'a> {
    server: &'a Server,
    link: &'a Link,
    cx: &'a Cx,
    /// What whoever called can be asked by this server.
    can: &'a Value,
    /// Of the time the server has, what is left; while somebody else is asked it stands still.
    left: Duration,
    /// Questions so far.
    asked: usize,
}

/// An answer for a server of the old era that is waited for.
type Answering<'a> = Pin<Box<dyn Future<Output = (Value, Result<Value, Value>)> + Send + 'a>>;

async fn next<'a>(open: &mut Option<FuturesUnordered<Answering<'a>>>) -> Option<(Value, Result<Value, Value>)> {
    open.as_mut()?.next().await
}

impl<'a> Talk<'a> {
    pub(super) fn new(server: &'a Server, link: &'a Link, cx: &'a Cx, can: &'a Value) -> Self {
        Self { server, link, cx, can, left: server.patience(), asked: 0 }
    }

    /// Asks until there is a whole answer.
    pub(super) async fn whole_answer(mut self, wanted: Wanted<'_>) -> Result<Value, Fault> {
        let mut brought = Map::new();
        for _ in 0..MOST_ROUNDS {
            match self.one_round(&wanted, &brought).await? {
                Told::Whole(answer) => return Ok(answer),
                Told::Asks { requests, state } => {
                    let answers = self.answers(requests).await?;
                    if self.link.greeting().era != Era::Modern {
                        self.opened(answers.as_ref())?;
                        continue;
                    }
                    brought.clear();
                    brought.extend(answers.map(|answers| ("inputResponses".to_owned(), answers)));
                    // It is the server's, and means nothing here: what was not given is not given back.
                    brought.extend(state.map(|state| ("requestState".to_owned(), state)));
                }
            }
        }
        Err(self.too_much())
    }

    /// Asks once. What a server of the old era wants to know on the way is asked while it waits.
    async fn one_round(&mut self, wanted: &Wanted<'_>, brought: &Map<String, Value>) -> Result<Told, Fault> {
        let (mouth, mut ear) = mailbox();
        let method = wanted.method;
        // How long a call may take is looked after here, where it is known who is waited for.
        let mut answer = pin!(self.link.ask_for(wanted, brought, None, Some(mouth)));
        // Most servers ask nothing.
        let mut open: Option<FuturesUnordered<Answering<'a>>> = None;
        loop {
            let (since, waits) = (Instant::now(), open.as_ref().is_some_and(|open| !open.is_empty()));
            tokio::select! {
                biased;
                answer = &mut answer => {
                    // What was said before the answer is told before it.
                    while let Some(said) = ear.heard() {
                        self.hear(said);
                    }
                    return answer.or_else(|trouble| self.to_open(trouble)).map_err(|trouble| self.fault(method, trouble));
                }
                Some((query, reply)) = next(&mut open) => self.link.reply(&query, reply).await,
                said = ear.hear() => {
                    if let Some(query) = self.hear(said) {
                        self.asked += 1;
                        open.get_or_insert_default().push(self.answer(query));
                    }
                }
                () = sleep(self.left), if !waits => {
                    return Err(self.fault(method, Trouble::TimedOut(self.server.patience())));
                }
                () = self.cx.stop_flag().raised() => self.cx.check()?,
            }
            if !waits {
                self.left = self.left.saturating_sub(since.elapsed());
            }
        }
    }

    /// Passes on what is said on the way; a question is left to be answered.
    fn hear(&self, said: Said) -> Option<Query> {
        match said {
            Said::Step(step) => self.cx.progress(step.done, step.total, step.message),
            Said::Remark(remark) => self.cx.remark(remark),
            Said::Query(query) => return Some(query),
        }
        None
    }

    /// The answer to a question of a server of the old era.
    fn answer(&self, query: Query) -> Answering<'a> {
        let Query { id, method, params } = query;
        let cx = self.cx;
        let admitted = match (self.link.greeting().era, self.asked > MOST_QUESTIONS) {
            // One of the new era asks with its answer.
            (Era::Modern, _) => Err(policy::unknown_method()),
            (Era::Legacy(_), true) => {
                Err(json!({ "code": INVALID_REQUEST, "message": "there were too many questions" }))
            }
            (Era::Legacy(_), false) => {
                let admitted = self.server.leave().admit(self.can, QUESTION, &method, &params);
                admitted.map_err(|refusal| {
                    cx.note_asked(noted(&method, refusal.code));
                    refusal.error()
                })
            }
        };
        Box::pin(async move {
            let inquiry = match admitted {
                Ok(inquiry) => inquiry,
                Err(error) => return (id, Err(error)),
            };
            let mut noting = Noting::of(cx, &inquiry);
            let answer = cx.ask(vec![inquiry]).await.and_then(|replies| noting.checked(&replies));
            (id, answer.map_err(|fault| noting.not_answered(&fault)))
        })
    }

    /// The answers to questions of a server of the new era; none where it has none and only wants to be asked again.
    async fn answers(&mut self, requests: Map<String, Value>) -> Result<Option<Value>, Fault> {
        if requests.is_empty() {
            return Ok(None);
        }
        self.asked += requests.len();
        if self.asked > MOST_QUESTIONS {
            return Err(self.too_much());
        }
        let mut inquiries = Vec::new();
        for (key, request) in &requests {
            let method = request["method"].as_str().unwrap_or_default();
            let admitted = self.server.leave().admit(self.can, key, method, &request["params"]);
            inquiries.push(admitted.map_err(|refusal| {
                self.cx.note_asked(noted(method, refusal.code));
                Fault::from(refusal)
            })?);
        }
        let mut noting: Vec<_> = inquiries.iter().map(|inquiry| Noting::of(self.cx, inquiry)).collect();
        let mut asked = self.cx.ask(inquiries);
        let replied = loop {
            tokio::select! {
                biased;
                replied = &mut asked => break replied,
                () = self.cx.stop_flag().raised() => self.cx.check()?,
            }
        };
        let replies =
            replied.inspect_err(|fault| noting.iter_mut().for_each(|noting| drop(noting.not_answered(fault))))?;
        let mut answers = Map::new();
        for noting in &mut noting {
            answers.insert(noting.inquiry.key.clone(), noting.checked(&replies)?);
        }
        Ok(Some(answers.into()))
    }

    /// What a server of the old era says a person has to open first, as questions; asked once, since a person who was there
    /// need not have come to an end there.
    fn to_open(&self, trouble: Trouble) -> Result<Told, Trouble> {
        match &trouble {
            Trouble::Refused { code: OPEN_FIRST, data, .. }
                if self.asked == 0 && self.link.greeting().era != Era::Modern =>
            {
                let addresses = data["elicitations"].as_array().map_or(&[][..], Vec::as_slice);
                let named = addresses.iter().take(MOST_QUESTIONS + 1).enumerate().map(|(at, params)| {
                    (format!("{QUESTION}{at}"), json!({ "method": "elicitation/create", "params": params }))
                });
                let requests: Map<String, Value> = named.collect();
                if requests.is_empty() { Err(trouble) } else { Ok(Told::Asks { requests, state: None }) }
            }
            _ => Err(trouble),
        }
    }

    /// Did the person go wherever the server wants them to? Only then is it asked again.
    fn opened(&self, answers: Option<&Value>) -> Result<(), Fault> {
        let mut answers = answers.and_then(Value::as_object).into_iter().flat_map(Map::values);
        if answers.all(|answer| answer["action"] == "accept") {
            return Ok(());
        }
        let message =
            format!("server `{}` needs somebody to open an address first, and nobody did", self.server.name());
        Err(Fault::refused("not_opened", message, "Make the call again when somebody is there to open it."))
    }

    fn fault(&self, method: &str, trouble: Trouble) -> Fault {
        match &trouble {
            Trouble::Refused { code: OPEN_FIRST, message, .. } => {
                let message =
                    format!("server `{}` waits for what is to be done at an address: {message}", self.server.name());
                Fault::failed("not_opened", message, "Make the call again when the person has done it there.")
            }
            Trouble::Refused { code: MISSING_CAPABILITY, data, .. } => self.lacks(data),
            Trouble::Refused { code: NO_RESOURCE | INVALID_PARAMS, message, .. } if method == READ => {
                let message = format!("server `{}` has nothing at this address: {message}", self.server.name());
                Fault::failed("not_found", message, "Read an address that is listed.")
            }
            _ => self.server.fault(trouble),
        }
    }

    /// A server that wants what the client has not, or what it may not ask.
    fn lacks(&self, data: &Value) -> Fault {
        let (name, needed, can) = (self.server.name(), Leave::needed(data), self.cx.caller_can());
        let lacking = needed.iter().filter(|(kind, _)| can.get(kind.as_str()).is_none());
        let lacking: Map<String, Value> = lacking.map(|(kind, value)| (kind.clone(), value.clone())).collect();
        let names = |map: &Map<String, Value>| map.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        if lacking.is_empty() || self.server.leave().is_none() {
            let message = format!("server `{name}` has to ask for {}, which it may not", names(&needed));
            return Fault::refused("may_not_ask", message, "Ask the operator to list it under `may_ask`.");
        }
        let message = format!("server `{name}` has to ask for {}, which this client has not", names(&lacking));
        self.cx.caller_lacks(lacking.into());
        Fault::refused("client_cannot", message, "Use a client that can, or another tool.")
    }

    fn too_much(&self) -> Fault {
        let message = format!("server `{}` asks on and on and gives no answer", self.server.name());
        Fault::failed("asks_without_end", message, "Report this to who runs the server.")
    }
}

/// A question that was asked. What came of it is noted when it is over, however that comes.
struct Noting<'a> {
    cx: &'a Cx,
    inquiry: Inquiry,
    how: String,
}

impl<'a> Noting<'a> {
    fn of(cx: &'a Cx, inquiry: &Inquiry) -> Self {
        Self { cx, inquiry: inquiry.clone(), how: "cancelled".to_owned() }
    }

    /// The reply, if it is an answer.
    fn checked(&mut self, replies: &Replies) -> Result<Value, Fault> {
        let answer = policy::answer(&self.inquiry, replies.get(&self.inquiry.key).unwrap_or(&Value::Null))?;
        self.how = policy::how(&answer);
        Ok(answer)
    }

    /// What a server of the old era is told where nobody answered.
    fn not_answered(&mut self, fault: &Fault) -> Value {
        self.how = fault.code.to_string();
        json!({ "code": NOT_ANSWERED, "message": fault.message, "data": { "code": fault.code } })
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.cx.note_asked(noted(&self.inquiry.method, &self.how));
    }
}

fn noted(method: &str, how: &str) -> Asked {
    let method = if policy::is_question(method) { method } else { "unknown" };
    Asked { method: method.to_owned(), how: how.to_owned() }
}
