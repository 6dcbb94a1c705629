//! An MCP server that does what a script says, above all what no server should.
//!
//! A [`Script`] names the era, the tools of every list and, per request, the [`Step`]s it is answered with: results that
//! change, lines that are no messages, ids that are not ours, answers that never come. Whatever the script does not
//! speak of is answered as the protocol wants it. The binary `hostile` serves a script over standard input and output
//! or HTTP; [`Hostile`] serves one over HTTP from the test itself. Everything it is told is kept.

mod http;
mod stdio;

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    slice,
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::{http::Hostile, stdio::serve as serve_stdio};

/// The revision without sessions, and where its requests and results say things about themselves.
const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The revisions that begin with `initialize`.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The name under which a question is put into an `input_required` result.
const QUESTION: &str = "question";

/// What a server says and does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Which protocol it speaks.
    pub era: Era,
    /// Who it says it is.
    pub info: Value,
    /// What it tells the model.
    pub instructions: Option<String>,
    /// What it says it can do.
    pub capabilities: Value,
    /// What the first list of tools holds, the second one, and so on. The last stands for all later ones.
    pub tools: Vec<Vec<Value>>,
    /// Tools on one page of a list; all of them where it is 0.
    pub page: usize,
    /// By method (`GET` stands for a stream that is taken up again), or by `tools/call:` and the name of a tool: what the first such request is answered with, the second
    /// one, and so on. The last stands for all later ones. Notifications may be listed too.
    pub answers: BTreeMap<String, Vec<Vec<Step>>>,
    /// What it does before it reads anything; over stdio only.
    pub start: Vec<Step>,
    /// It does not leave when its input ends; over stdio only.
    pub stays: bool,
    /// Every answer is a stream of events; over HTTP only. Otherwise only those are that have more than one message.
    pub events: bool,
    /// What is at other paths than `/mcp`; over HTTP only.
    pub pages: BTreeMap<String, Page>,
    /// The status for a session that is not known; over HTTP only.
    pub unknown_session: u16,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            era: Era::Both,
            info: json!({ "name": "hostile", "version": "1.0.0" }),
            instructions: None,
            capabilities: json!({ "tools": { "listChanged": true } }),
            tools: Vec::new(),
            page: 0,
            answers: BTreeMap::new(),
            start: Vec::new(),
            stays: false,
            events: false,
            pages: BTreeMap::new(),
            unknown_session: 404,
        }
    }
}

impl From<Value> for Script {
    fn from(script: Value) -> Self {
        serde_json::from_value(script).expect("a script")
    }
}

/// Which protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// With `initialize`, up to 2025-11-25.
    Legacy,
    /// Without, since 2026-07-28.
    Modern,
    /// Whichever the client speaks.
    Both,
}

/// One thing done on the way to an answer, or the answer.
///
/// In every value a string that is exactly one of these is replaced: `$id` by the id of the request, `$count` by how often
/// the same was asked before, `$params` and `$answer` by what was asked and what the client answered to [`Step::Ask`];
/// `$count_text`, `$params_text`, `$arguments_text` and `$answer_text` by the same as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers, with what the era wants in every result filled in where it is missing.
    Result(Value),
    /// Answers with an error.
    Error(Value),
    /// Answers with the arguments, as text.
    Echo,
    /// Answers with everything the server was told so far, as text.
    Heard,
    /// Answers with a text of so many bytes.
    Big(usize),
    /// Sends a message exactly as it is.
    Send(Value),
    /// Writes text that need not be a message, with the id of the request for every `$id`. Over stdio a line end belongs to
    /// it.
    Text(String),
    /// Writes bytes, given in base64.
    Bytes(String),
    /// Writes so many bytes without a line end.
    Flood(usize),
    /// Asks the client something: by a request in the old era, by an `input_required` result in the new one, which is gone
    /// on from when the answer comes.
    Ask {
        /// Of the request.
        method: String,
        /// Of the request.
        params: Value,
    },
    /// Tells everybody who listens that the list of tools is another.
    Changed,
    /// Waits for so many milliseconds.
    Wait(u64),
    /// Never comes back.
    Hang,
    /// Ends the process with this status; over HTTP, the connection.
    Crash(i32),
    /// Ends it once in so many times.
    CrashOneIn(u64),
    /// Answers with this; over HTTP only.
    Page(Page),
}

/// An answer of HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The status.
    pub status: u16,
    /// Beside the length.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: String,
}

/// Where the messages about one request go, or those for somebody who listens.
trait Out: Send {
    /// Sends a message. `last` is the answer to the request.
    fn message(&mut self, message: &Value, last: Last);
    /// Writes bytes.
    fn raw(&mut self, bytes: &[u8]);
    /// Answers with something that is no message.
    fn page(&mut self, page: &Page);
    /// Ends without an answer.
    fn crash(&mut self, status: i32);
}

/// Do more messages follow?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

/// A server of a script, whatever carries its messages.
struct Stage {
    script: Script,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often what was asked.
    counts: HashMap<String, usize>,
    heard: Vec<Value>,
    /// Questions that wait for the client, by their id.
    asked: HashMap<String, mpsc::Sender<Value>>,
    questions: usize,
    /// The id of the last request; over HTTP only.
    last: Value,
    listeners: Vec<Listener>,
    greeted: bool,
    /// What it calls its one session; over HTTP only.
    session: String,
}

/// Somebody who wants to know of changes.
struct Listener {
    out: Box<dyn Out>,
    /// The request that opened a subscription.
    subscription: Option<Value>,
}

/// A request, and how often the same came before.
struct Asked<'a> {
    id: &'a Value,
    method: &'a str,
    params: &'a Value,
    modern: bool,
    count: usize,
}

impl Stage {
    fn new(script: Script) -> Self {
        Self { script, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was heard.
    fn note(&self, heard: Value) {
        self.state().heard.push(heard);
    }

    /// Takes a message that was noted, and sends what it is answered with.
    fn take(&self, message: &Value, mut out: Box<dyn Out>) {
        let (method, id) = (message["method"].as_str(), &message["id"]);
        let Some(method) = method else { return self.answered(message) };
        let params = &message["params"];
        if method == "initialize" {
            self.state().greeted = true;
        }
        let modern = self.script.era != Era::Legacy && params["_meta"][VERSION].is_string();
        let key = match params["name"].as_str() {
            Some(name) if method == "tools/call" => format!("tools/call:{name}"),
            _ => method.to_owned(),
        };
        // The pages of one list are one list.
        let more = method == "tools/list" && params["cursor"].is_string() && !self.script.answers.contains_key(method);
        let count = self.count(&key, more);
        let asked = Asked { id, method, params, modern, count };
        let scripted = self.script.answers.get(&key).or_else(|| self.script.answers.get(method));
        if id.is_null() {
            return self.walk(scripted.map_or(&[], |answers| nth(answers, count)), &asked, &mut *out);
        }
        if let Some(error) = self.wrong_era(&asked) {
            return out.message(&json!({ "jsonrpc": "2.0", "id": id, "error": error }), Last::Yes);
        }
        match scripted {
            Some(answers) => self.walk(nth(answers, count), &asked, &mut *out),
            None if method == "subscriptions/listen" && modern => self.listen(&asked, out),
            None => self.walk(slice::from_ref(&self.proper(&asked)), &asked, &mut *out),
        }
    }

    /// How often this was asked before.
    fn count(&self, key: &str, more: bool) -> usize {
        let mut state = self.state();
        let count = state.counts.entry(key.to_owned()).or_default();
        if more {
            return count.saturating_sub(1);
        }
        *count += 1;
        *count - 1
    }

    /// Why this cannot be asked in the era of this server.
    fn wrong_era(&self, asked: &Asked<'_>) -> Option<Value> {
        let supported = || json!({ "supported": [MODERN], "requested": asked.params["_meta"][VERSION] });
        if asked.modern {
            return (asked.params["_meta"][VERSION] != MODERN)
                .then(|| json!({ "code": -32022, "message": "unsupported protocol version", "data": supported() }));
        }
        match asked.method {
            _ if self.script.era == Era::Modern => {
                Some(json!({ "code": -32022, "message": "unsupported protocol version", "data": supported() }))
            }
            "initialize" | "ping" => None,
            "server/discover" => Some(json!({ "code": -32601, "message": "method not found" })),
            _ if self.state().greeted => None,
            _ => Some(json!({ "code": -32600, "message": "nobody has said `initialize`" })),
        }
    }

    /// What the protocol wants as an answer.
    fn proper(&self, asked: &Asked<'_>) -> Step {
        let Script { info, instructions, capabilities, tools, .. } = &self.script;
        match asked.method {
            "ping" => Step::Result(json!({})),
            "initialize" => {
                let wanted = asked.params["protocolVersion"].as_str().filter(|version| LEGACY.contains(version));
                Step::Result(json!({
                    "protocolVersion": wanted.unwrap_or(LEGACY[0]),
                    "capabilities": capabilities,
                    "serverInfo": info,
                    "instructions": instructions.as_deref().unwrap_or_default(),
                }))
            }
            "server/discover" => {
                let mut versions = vec![MODERN];
                if self.script.era == Era::Both {
                    versions.extend(LEGACY);
                }
                Step::Result(json!({
                    "supportedVersions": versions,
                    "capabilities": capabilities,
                    "instructions": instructions.as_deref().unwrap_or_default(),
                }))
            }
            "tools/list" => self.list(nth(tools, asked.count), &asked.params["cursor"]),
            "tools/call" if tools.iter().flatten().any(|tool| tool["name"] == asked.params["name"]) => Step::Echo,
            "tools/call" => Step::Error(json!({ "code": -32602, "message": "unknown tool" })),
            _ => Step::Error(json!({ "code": -32601, "message": "method not found" })),
        }
    }

    /// The page of a list after this cursor, which counts the tools before it.
    fn list(&self, tools: &[Value], cursor: &Value) -> Step {
        let from = cursor.as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0).min(tools.len());
        let size = if self.script.page == 0 { tools.len() } else { self.script.page };
        let to = (from + size).min(tools.len());
        let mut page = json!({ "tools": tools[from..to] });
        if to < tools.len() {
            page["nextCursor"] = json!(to.to_string());
        }
        Step::Result(page)
    }

    /// Takes the steps of an answer.
    fn walk(&self, steps: &[Step], asked: &Asked<'_>, out: &mut dyn Out) {
        let mut answer = Value::Null;
        for step in steps {
            match step {
                Step::Result(result) => self.done(fill(result, asked, &answer), asked, out),
                Step::Error(error) => {
                    let error = fill(error, asked, &answer);
                    out.message(&json!({ "jsonrpc": "2.0", "id": asked.id, "error": error }), Last::Yes);
                }
                Step::Echo => self.done(text(&asked.params["arguments"].to_string()), asked, out),
                Step::Heard => {
                    let heard = Value::from(self.state().heard.clone()).to_string();
                    self.done(text(&heard), asked, out);
                }
                Step::Big(size) => self.done(text(&"x".repeat(*size)), asked, out),
                Step::Send(message) => {
                    let message = fill(message, asked, &answer);
                    let answers = message["method"].is_null() && message["id"] == *asked.id;
                    out.message(&message, if answers { Last::Yes } else { Last::No });
                }
                Step::Text(text) => out.raw(text.replace("$id", &asked.id.to_string()).as_bytes()),
                Step::Bytes(bytes) => out.raw(&BASE64_STANDARD.decode(bytes).expect("base64 in the script")),
                Step::Flood(size) => out.raw(&vec![b'x'; *size]),
                Step::Ask { method, params } => match self.ask(method, &fill(params, asked, &answer), asked, out) {
                    Some(said) => answer = said,
                    None => return,
                },
                Step::Changed => self.changed(),
                Step::Wait(milliseconds) => thread::sleep(Duration::from_millis(*milliseconds)),
                Step::Hang => loop {
                    thread::park();
                },
                Step::Crash(status) => return out.crash(*status),
                Step::CrashOneIn(times) => {
                    if RandomState::new().hash_one(()).is_multiple_of(*times) {
                        return out.crash(101);
                    }
                }
                Step::Page(page) => out.page(page),
            }
        }
    }

    /// Answers, with what the era wants in every result.
    fn done(&self, mut result: Value, asked: &Asked<'_>, out: &mut dyn Out) {
        if let (true, Value::Object(result)) = (asked.modern, &mut result) {
            result.entry("resultType").or_insert_with(|| "complete".into());
            if matches!(asked.method, "tools/list" | "server/discover") {
                result.entry("ttlMs").or_insert_with(|| 0.into());
                result.entry("cacheScope").or_insert_with(|| "private".into());
            }
            let meta = result.entry("_meta").or_insert_with(|| Map::new().into());
            if let Value::Object(meta) = meta {
                meta.entry(SERVER_INFO).or_insert_with(|| self.script.info.clone());
            }
        }
        out.message(&json!({ "jsonrpc": "2.0", "id": asked.id, "result": result }), Last::Yes);
    }

    /// What the client answers; none where it is to come back with that.
    fn ask(&self, method: &str, params: &Value, asked: &Asked<'_>, out: &mut dyn Out) -> Option<Value> {
        if asked.modern {
            let state = format!("state of {}", asked.method);
            let said = &asked.params["inputResponses"][QUESTION];
            if !said.is_null() && asked.params["requestState"] == state {
                return Some(said.clone());
            }
            let question = json!({ QUESTION: { "method": method, "params": params } });
            let round = json!({ "resultType": "input_required", "inputRequests": question, "requestState": state });
            self.done(round, asked, out);
            return None;
        }
        let (tell, told) = mpsc::channel();
        let id = {
            let mut state = self.state();
            state.questions += 1;
            let id = format!("question {}", state.questions);
            state.asked.insert(id.clone(), tell);
            id
        };
        out.message(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }), Last::No);
        told.recv().ok()
    }

    /// The client has answered a question: its result, or the whole message where it is an error.
    fn answered(&self, message: &Value) {
        let waiting = message["id"].as_str().and_then(|id| self.state().asked.remove(id));
        if let Some(waiting) = waiting {
            let result = message.get("result").unwrap_or(message);
            // Who asked may be gone.
            let _ = waiting.send(result.clone());
        }
    }

    fn listen(&self, asked: &Asked<'_>, mut out: Box<dyn Out>) {
        let params = json!({
            "_meta": { SUBSCRIPTION: asked.id }, "notifications": asked.params["notifications"],
        });
        let method = "notifications/subscriptions/acknowledged";
        out.message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }), Last::No);
        self.state().listeners.push(Listener { out, subscription: Some(asked.id.clone()) });
    }

    fn changed(&self) {
        for listener in &mut self.state().listeners {
            let mut message = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            if let Some(subscription) = &listener.subscription {
                message["params"] = json!({ "_meta": { SUBSCRIPTION: subscription } });
            }
            listener.out.message(&message, Last::No);
        }
    }
}

/// The one for this time, or the last.
fn nth<T>(all: &[Vec<T>], time: usize) -> &[T] {
    all.get(time).or(all.last()).map_or(&[], Vec::as_slice)
}

/// A result of one text.
fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A value of the script with what only the request knows.
fn fill(value: &Value, asked: &Asked<'_>, answer: &Value) -> Value {
    match value {
        Value::String(text) => match text.as_str() {
            "$id" => asked.id.clone(),
            "$count" => asked.count.into(),
            "$count_text" => asked.count.to_string().into(),
            "$params" => asked.params.clone(),
            "$params_text" => asked.params.to_string().into(),
            "$arguments_text" => asked.params["arguments"].to_string().into(),
            "$answer" => answer.clone(),
            "$answer_text" => answer.to_string().into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| fill(item, asked, answer)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), fill(field, asked, answer))).collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}
