//! A conversation with another server over HTTP: every request is handed in by itself, and answered with a message or
//! with a stream of them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{sleep, timeout},
};
use toolgate_contract::Fault;
use toolgate_guard::json::Limits;
use toolgate_runtime::{ServerLine, egress::Streamed};

use super::{
    calls::Calls,
    ears::Ears,
    events::Events,
    handshake::{Era, Greeting, MODERN, PROBE, hello, legacy, modern, says_modern, speaks_modern},
    link::listening,
    mailbox::Mouth,
    peer::{MOST_LINE, Query, Said, Trouble, answer_in, remark_in, reply, step_in},
    policy, reading,
};
use crate::message::find_id;

const LIMITS: Limits = Limits { bytes: MOST_LINE, depth: 72 };
/// How often the stream of one answer is taken up again, and what pause before that is kept.
const MOST_STREAMS: usize = 20;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a server may take to be told something.
const TELL: Duration = Duration::from_secs(5);

/// A server at an address, greeted.
#[derive(Debug)]
pub(crate) struct Web {
    line: ServerLine,
    next: AtomicU64,
    /// What a server of the old era calls our conversation.
    session: Mutex<Option<String>>,
    /// How often a conversation of the old era was begun.
    begun: watch::Sender<u64>,
    patience: Duration,
    /// What a server of the old era may ask for.
    can: Value,
    ears: Ears,
    calls: Calls,
}

/// A header that repeats an argument, so that whoever stands between need not read the body: where the argument is, and the
/// name.
pub(crate) type Repeated = (Vec<String>, String);

impl Web {
    pub(crate) fn new(line: ServerLine, can: Value, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            line,
            next: AtomicU64::new(1),
            session: Mutex::default(),
            begun: watch::Sender::new(0),
            patience,
            can,
            ears: Ears::default(),
            calls: Calls::default(),
        })
    }

    pub(crate) fn target(&self) -> String {
        self.line.target()
    }

    /// What it tells by itself.
    pub(super) fn ears(&self) -> &Ears {
        &self.ears
    }

    /// Changes whenever the conversation is another one.
    pub(super) fn begun(&self) -> watch::Receiver<u64> {
        self.begun.subscribe()
    }

    /// A stream of what it tells by itself, of which it is said in the stateless era what is wanted.
    pub(super) async fn stream(&self, era: Era, wanted: &Value) -> Result<Streamed, Fault> {
        let mut headers = self.headers(era);
        if era != Era::Modern {
            headers.retain(|(name, _)| name != "Content-Type");
            return self.line.listen(headers, FOR_EVER).await;
        }
        let (id, method) = (self.next.fetch_add(1, Ordering::Relaxed), "subscriptions/listen");
        headers.push(("Mcp-Method".to_owned(), method.to_owned()));
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": listening(wanted.clone()) });
        self.line.post(headers, request.to_string().into_bytes(), FOR_EVER).await
    }

    /// Finds out how to speak to it. All that is asked for this is asked within the time for it.
    pub(crate) async fn greet(self: &Arc<Self>) -> Result<Greeting, Trouble> {
        let greeted = async {
            if let Ok(told) = timeout(self.patience / PROBE, self.discover()).await
                && let Some(greeting) = told?
            {
                return Ok(greeting);
            }
            match self.initialize().await {
                // One that is of the new era only, and took its time, knows what it was asked before.
                Err(refused @ Trouble::Refused { .. }) => self.discover().await?.ok_or(refused),
                greeted => greeted,
            }
        };
        timeout(self.patience, greeted).await.unwrap_or(Err(Trouble::TimedOut(self.patience)))
    }

    /// Asks what only a server of the new era can answer, again where it says that it could; none where it is not.
    async fn discover(self: &Arc<Self>) -> Result<Option<Greeting>, Trouble> {
        let ask = || {
            let params = Era::Modern.params(Map::new(), &json!({}));
            self.send(Era::Modern, "server/discover", params, &[], None)
        };
        let told = match ask().await.answer {
            Err(trouble) if says_modern(&trouble) => ask().await.answer,
            told => told,
        };
        match told {
            Ok(told) if speaks_modern(&told) => Ok(Some(modern(&told))),
            // Nobody is there, or nobody may be asked: another question is no help.
            Err(trouble @ Trouble::Failed(_)) => Err(trouble),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    async fn initialize(self: &Arc<Self>) -> Result<Greeting, Trouble> {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let asked = self.send(Era::Legacy(""), "initialize", hello(&self.can), &[], None);
        let told = match timeout(self.patience, asked).await {
            Ok(sent) => sent.answer?,
            Err(_) => return Err(Trouble::TimedOut(self.patience)),
        };
        let greeting = legacy(&told)?;
        self.tell(greeting.era, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        self.begun.send_modify(|count| *count += 1);
        Ok(greeting)
    }

    /// Asks, and waits for the answer at most this long. A server of the old era that has forgotten the conversation is
    /// greeted anew, once.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        era: Era,
        method: &str,
        params: Map<String, Value>,
        mirrored: &[Repeated],
        patience: Duration,
        steps: Option<Mouth>,
    ) -> Result<Value, Trouble> {
        let whole = async {
            let sent = self.send(era, method, params.clone(), mirrored, steps.clone()).await;
            let Some(forgotten) = sent.forgotten else { return sent.answer };
            // Somebody else's call may have found out before.
            if self.session() == Some(forgotten) {
                self.initialize().await?;
            }
            self.send(era, method, params, mirrored, steps).await.answer
        };
        timeout(patience, whole).await.unwrap_or(Err(Trouble::TimedOut(patience)))
    }

    /// What a server of the old era calls our conversation now.
    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One request, and what came of it.
    async fn send(
        self: &Arc<Self>,
        era: Era,
        method: &str,
        mut params: Map<String, Value>,
        mirrored: &[Repeated],
        steps: Option<Mouth>,
    ) -> Sent {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if steps.is_some() {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            meta["progressToken"] = json!(id);
        }
        let session = self.session().filter(|_| era != Era::Modern);
        let mut headers = headers(era, session.clone());
        if era == Era::Modern {
            headers.push(("Mcp-Method".to_owned(), method.to_owned()));
            // What is read is named by its address.
            let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
            let name = name.map(|name| ("Mcp-Name".to_owned(), plain(name)));
            headers.extend(name);
            headers.extend(repeated(mirrored, params.get("arguments").unwrap_or(&Value::Null)));
        }
        if let Some(ears) = &steps {
            self.calls.begin(id, ears.clone());
        }
        let mut asked = Asked { web: self, era, id, answered: false };
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let reply = match self.line.post(headers, request.to_string().into_bytes(), FOR_EVER).await {
            Ok(reply) => reply,
            Err(fault) => return Sent { answer: Err(Trouble::Failed(fault)), forgotten: None },
        };
        let status = reply.status();
        let read = self.read(era, reply, id, steps.as_ref()).await;
        asked.answered = true;
        // The protocol has 404 for a conversation that is not known, and many servers say 400. One of those that says whose
        // answer it is is about the request.
        let is_forgotten = status == 404 || (status == 400 && !read.is_ours);
        Sent { answer: read.answer, forgotten: session.filter(|_| is_forgotten) }
    }

    /// What every request says of itself.
    fn headers(&self, era: Era) -> Vec<(String, String)> {
        headers(era, self.session().filter(|_| era != Era::Modern))
    }

    async fn read(self: &Arc<Self>, era: Era, mut reply: Streamed, id: u64, steps: Option<&Mouth>) -> Read {
        let status = reply.status();
        if era == Era::Legacy("")
            && let Some(session) = reply.header("mcp-session-id").filter(|session| is_session(session))
        {
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.to_owned());
        }
        let kind = reply.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("text/event-stream") {
            return Read { answer: self.read_events(era, reply, id, steps).await, is_ours: true };
        }
        let mut body = Vec::new();
        loop {
            match reply.piece().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                Err(fault) => return Read { answer: Err(Trouble::Failed(fault)), is_ours: false },
            }
        }
        let message = reading::read(&body, &LIMITS);
        let is_ours = message.as_ref().is_ok_and(|message| message["id"] == json!(id));
        let answer = match message {
            Ok(Value::Object(fields)) if is_ours || fields.contains_key("error") => answer_in(fields),
            _ if !(200..300).contains(&status) => Err(Trouble::Unusable(format!("its status is {status}"))),
            Ok(_) => Err(Trouble::Unusable("it answers something else than what it was asked".to_owned())),
            Err(why) => Err(Trouble::Unusable(why)),
        };
        Read { answer, is_ours }
    }

    /// Reads messages until the answer is among them. A stream of the old era that ends before is taken up again where it
    /// ended, if its events have names.
    async fn read_events(
        self: &Arc<Self>,
        era: Era,
        mut reply: Streamed,
        id: u64,
        steps: Option<&Mouth>,
    ) -> Result<Value, Trouble> {
        let mut events = Events::default();
        for _ in 0..=MOST_STREAMS {
            while let Some(piece) = reply.piece().await.map_err(Trouble::Failed)? {
                for data in events.take(&piece) {
                    let fields = match reading::read(&data, &LIMITS) {
                        Ok(Value::Object(fields)) => fields,
                        Err(why) if answers(&data, id) => return Err(Trouble::Unusable(why)),
                        Ok(_) | Err(_) => continue,
                    };
                    match (fields.get("method").and_then(Value::as_str), fields.get("id")) {
                        (None, Some(told)) if *told == json!(id) => return answer_in(fields),
                        (Some(method), Some(asked)) => self.take_query(era, asked, method, &fields, steps).await,
                        (Some(method), None) => {
                            self.ears.hear(method, fields.get("params").unwrap_or(&Value::Null));
                            hear(id, method, &fields, steps);
                        }
                        (None, _) => {}
                    }
                }
                if events.held() > MOST_LINE {
                    return Err(Trouble::Unusable(format!("it is longer than {MOST_LINE} bytes")));
                }
            }
            let Some(last) = events.last_id().filter(|_| era != Era::Modern) else { break };
            let mut headers = self.headers(era);
            headers.push(("Last-Event-ID".to_owned(), last));
            sleep(events.pause().clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
            events = events.again();
            reply = self.line.listen(headers, FOR_EVER).await.map_err(Trouble::Failed)?;
            if reply.status() != 200 {
                break;
            }
        }
        Err(Trouble::Unusable("its stream ended before the answer".to_owned()))
    }

    /// A request of the server in the answer to one of ours: it is about that one.
    async fn take_query(
        &self,
        era: Era,
        asked: &Value,
        method: &str,
        fields: &Map<String, Value>,
        steps: Option<&Mouth>,
    ) {
        if method == "ping" {
            return self.reply(era, asked, Ok(json!({}))).await;
        }
        let params = fields.get("params").cloned().unwrap_or_else(|| json!({}));
        let query = Query { id: asked.clone(), method: method.to_owned(), params };
        let is_taken = policy::is_question(method) && steps.is_some_and(|steps| steps.say(Said::Query(query)));
        if !is_taken {
            self.reply(era, asked, Err(policy::unknown_method())).await;
        }
    }

    /// A request of the server on the stream where it tells things by itself: nothing says what it is about.
    pub(super) async fn take_stray(&self, era: Era, message: &Value) {
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default().to_owned());
        if method == "ping" {
            return self.reply(era, id, Ok(json!({}))).await;
        }
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        if let Err(error) = self.calls.pass_on(Query { id: id.clone(), method, params }) {
            self.reply(era, id, Err(error)).await;
        }
    }

    /// Answers a request of the server.
    pub(crate) async fn reply(&self, era: Era, asked: &Value, answer: Result<Value, Value>) {
        self.tell(era, reply(asked, answer)).await;
    }

    /// Tells the server something. Whether it listens is its own affair.
    async fn tell(&self, era: Era, message: Value) {
        let mut headers = self.headers(era);
        if let (Era::Modern, Some(method)) = (era, message["method"].as_str()) {
            headers.push(("Mcp-Method".to_owned(), method.to_owned()));
        }
        if let Err(fault) = self.line.post(headers, message.to_string().into_bytes(), TELL).await {
            tracing::debug!(%fault, "a server could not be told something");
        }
    }
}

/// What came of a request.
struct Sent {
    answer: Result<Value, Trouble>,
    /// The conversation it was in, where the server seems not to know that one any more.
    forgotten: Option<String>,
}

/// What was read in reply to a request.
struct Read {
    answer: Result<Value, Trouble>,
    /// It says that it is the answer to this request.
    is_ours: bool,
}

/// What a request in this conversation says of itself.
fn headers(era: Era, session: Option<String>) -> Vec<(String, String)> {
    let version = match era {
        Era::Modern => Some(MODERN),
        // Nothing is agreed on before the server was greeted.
        Era::Legacy("") => None,
        Era::Legacy(version) => Some(version),
    };
    let said = [
        Some(("Content-Type", "application/json".to_owned())),
        Some(("Accept", "application/json, text/event-stream".to_owned())),
        version.map(|version| ("MCP-Protocol-Version", version.to_owned())),
        session.map(|session| ("Mcp-Session-Id", session)),
    ];
    said.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a server says on the way to the answer of request `id`.
fn hear(id: u64, method: &str, fields: &Map<String, Value>, steps: Option<&Mouth>) {
    let params = fields.get("params").unwrap_or(&Value::Null);
    let said = match method {
        "notifications/progress" => step_in(params).filter(|(token, _)| *token == id).map(|(_, step)| Said::Step(step)),
        // What is said in the answer to a request is about that request.
        "notifications/message" => remark_in(params).map(Said::Remark),
        _ => None,
    };
    if let (Some(steps), Some(said)) = (steps, said) {
        steps.say(said);
    }
}

/// Whoever asks gives a time of their own; this is only the longest there is.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A request that is under way. A server of the old era is told when nobody waits any more; for one of the new era it is
/// enough that the stream ends.
struct Asked<'a> {
    web: &'a Arc<Web>,
    era: Era,
    id: u64,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        match self.answered {
            true => self.web.calls.answered(self.id),
            false => self.web.calls.give_up(self.id),
        }
        let (Ok(executor), Era::Legacy(version), false) = (Handle::try_current(), self.era, self.answered) else {
            return;
        };
        if version.is_empty() {
            return;
        }
        let (web, era) = (self.web.clone(), self.era);
        let params = json!({ "requestId": self.id, "reason": "the caller no longer waits" });
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        executor.spawn(async move { web.tell(era, told).await });
    }
}

/// Would this be the answer to request `id`, if it could be read?
fn answers(text: &[u8], id: u64) -> bool {
    find_id(text).and_then(|told| serde_json::to_value(told).ok()) == Some(json!(id))
}

fn is_session(session: &str) -> bool {
    session.len() <= 1_024 && session.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The headers that repeat these arguments.
fn repeated(mirrored: &[Repeated], arguments: &Value) -> Vec<(String, String)> {
    let value = |path: &Vec<String>| path.iter().try_fold(arguments, |value, key| value.get(key));
    let text = |value: &Value| match value {
        Value::String(text) => Some(plain(text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let repeated = mirrored.iter().filter_map(|(path, name)| Some((format!("Mcp-Param-{name}"), text(value(path)?)?)));
    repeated.collect()
}

/// A text as a header has it: what would not survive there is encoded.
fn plain(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let is_trimmed = text.trim_matches([' ', '\t']) == text;
    let is_sentinel = text.starts_with("=?base64?") && text.ends_with("?=");
    if is_plain && is_trimmed && !is_sentinel {
        return text.to_owned();
    }
    format!("=?base64?{}?=", STANDARD.encode(text))
}

/// The arguments a definition wants repeated, or none where it asks for what cannot be: such a tool is not taken.
pub(crate) fn mirrored(schema: &Value) -> Option<Vec<Repeated>> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    let names: BTreeSet<String> = found.iter().map(|(_, name)| name.to_ascii_lowercase()).collect();
    let all = count(schema);
    (names.len() == found.len() && all == found.len()).then_some(found)
}

const MARK: &str = "x-mcp-header";

/// Those on the way of `properties` from the root.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Repeated>) -> Option<()> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(MARK) {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let header = header.as_str().filter(|text| !text.is_empty() && text.bytes().all(token))?;
            property["type"].as_str().filter(|kind| matches!(*kind, "string" | "integer" | "boolean"))?;
            found.push((path.clone(), header.to_owned()));
        }
        collect(property, path, found)?;
        path.pop();
    }
    Some(())
}

/// All there are, wherever they stand.
fn count(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => {
            let data = ["default", "const", "enum", "examples"];
            let below = fields.iter().filter(|(key, _)| !data.contains(&key.as_str())).map(|(_, value)| count(value));
            usize::from(fields.contains_key(MARK)) + below.sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Option<&[(&[&str], &str)]>) {
        let owned = |(path, name): &(&[&str], &str)| {
            (path.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), (*name).to_owned())
        };
        assert_eq!(mirrored(&schema), expected.map(|list| list.iter().map(owned).collect()), "{schema}");
    }

    #[test]
    fn arguments_are_repeated_where_a_definition_asks_for_it() {
        let text = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        check(json!({ "type": "object" }), Some(&[]));
        check(json!({ "properties": { "region": text("Region") } }), Some(&[(&["region"], "Region")]));
        check(json!({ "properties": { "a": { "properties": { "b": text("B") } } } }), Some(&[(&["a", "b"], "B")]));
        // What cannot be repeated is no tool.
        check(json!({ "properties": { "a": text("") } }), None);
        check(json!({ "properties": { "a": text("X\r\nEvil: 1") } }), None);
        check(json!({ "properties": { "a": { "type": "object", "x-mcp-header": "A" } } }), None);
        check(json!({ "properties": { "a": { "type": "string", "x-mcp-header": 7 } } }), None);
        check(json!({ "properties": { "a": text("Same"), "b": text("same") } }), None);
        check(json!({ "properties": { "a": { "type": "array", "items": text("Item") } } }), None);
        check(json!({ "x-mcp-header": "Root", "properties": {} }), None);
    }

    #[test]
    fn a_value_survives_in_a_header() {
        let said = |value: Value| repeated(&[(vec!["a".to_owned()], "A".to_owned())], &json!({ "a": value }));
        let one = |text: &str| vec![("Mcp-Param-A".to_owned(), text.to_owned())];
        assert_eq!(said(json!("plain text")), one("plain text"));
        assert_eq!(said(json!(7)), one("7"));
        assert_eq!(said(json!(true)), one("true"));
        assert_eq!(said(json!("ü")), one("=?base64?w7w=?="));
        assert_eq!(said(json!("a\r\nEvil: 1")), one("=?base64?YQ0KRXZpbDogMQ==?="));
        assert_eq!(said(json!(" a")), one("=?base64?IGE=?="));
        assert_eq!(said(json!("=?base64?x?=")), one("=?base64?PT9iYXNlNjQ/eD89?="));
        assert_eq!(said(json!(["no"])), []);
        assert_eq!(said(json!(null)), []);
    }
}
