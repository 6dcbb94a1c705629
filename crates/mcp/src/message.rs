//! One line of text becomes one message, or an answer that says why not.
//!
//! The line is read once, strictly, by the guard's reader, and the message is made from that value: what was checked
//! is what runs.

use std::fmt;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomRequest,
    ErrorCode, ErrorData, JsonObject, ProtocolVersion, RequestId, RequestMetaObject,
};
use serde::{
    Deserializer as _,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, json};
use toolgate_contract::Fault;
use toolgate_guard::json::{self as strict, JsonFault, Limits};

use crate::{lines::MAX_LINE, visit::VERSION};

/// A message around arguments: the arguments may nest as deeply as the runtime allows, which judges them again.
const LIMITS: Limits = Limits { bytes: MAX_LINE, depth: 72 };

/// Methods the SDK knows, so that parameters that do not fit one are told from a method that is not there.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Those of them that there are no more in the revisions without sessions.
const GONE: &[&str] = &["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];

/// A line that is no message for us, and what its sender is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// Whose answer it is, if the line says so.
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Refusal {
    /// `beginning` is what was kept of the line.
    pub(crate) fn too_long(beginning: &[u8]) -> Self {
        let fault = JsonFault::TooLarge { bytes: MAX_LINE + 1, limit: MAX_LINE };
        Self { id: find_id(beginning), error: told(ErrorCode::INVALID_REQUEST, fault.into()) }
    }

    /// Where there should be a message there is none.
    pub(crate) fn empty() -> Self {
        Self::invalid(None, "there is no message", "Send a JSON-RPC 2.0 message.")
    }

    pub(crate) fn id_in_use(id: RequestId) -> Self {
        let fault = Fault::failed("id_in_use", "a request with this id is under way", "Give every request its own id.");
        Self { id: Some(id), error: told(ErrorCode::INVALID_REQUEST, fault) }
    }

    /// There are so many requests under way that this one is not taken.
    pub(crate) fn too_many(id: RequestId, most: usize) -> Self {
        let fault = too_many(format!("{most} requests of this client are under way"));
        Self { id: Some(id), error: told(ErrorCode::INVALID_REQUEST, fault) }
    }

    /// The request says that it is of a revision in which this is no method any more.
    fn gone(id: RequestId, method: &str) -> Self {
        let fault = Fault::failed(
            "unknown_method",
            format!("there is no `{method}` in the revision this request says it is of"),
            "Ask without it, or leave the revision out of `_meta`.",
        );
        Self { id: Some(id), error: told(ErrorCode::METHOD_NOT_FOUND, fault) }
    }

    /// Two readers could hold the request for two: each believes another of the headers.
    pub(crate) fn duplicate_header(id: Option<RequestId>, name: &str) -> Self {
        let fault = Fault::failed("duplicate_header", format!("duplicate {name} header"), "Send it once.");
        Self { id, error: told(ErrorCode::HEADER_MISMATCH, fault) }
    }

    fn invalid(id: Option<RequestId>, message: &str, remedy: &str) -> Self {
        Self { id, error: told(ErrorCode::INVALID_REQUEST, Fault::failed("invalid_request", message, remedy)) }
    }

    fn params(id: RequestId, message: String) -> Self {
        let fault = Fault::failed("invalid_params", message, "Send the parameters the protocol names.");
        Self { id: Some(id), error: told(ErrorCode::INVALID_PARAMS, fault) }
    }
}

/// A fault in the words of JSON-RPC.
pub(crate) fn told(code: ErrorCode, fault: Fault) -> ErrorData {
    let data = json!({ "code": fault.code, "message": fault.message, "remedy": fault.remedy });
    ErrorData::new(code, fault.message, Some(data))
}

/// There is no room for one more.
pub(crate) fn too_many(message: impl Into<String>) -> Fault {
    Fault::refused("too_many_at_once", message, "Wait for one of them, then try again.")
}

/// Is this the name of a revision without sessions?
pub(crate) fn is_stateless(version: &str) -> bool {
    version >= ProtocolVersion::V_2026_07_28.as_str()
}

/// The message in a line; none where the line holds nothing for us.
pub(crate) fn read(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    // Some Windows programs begin a pipe with a byte order mark.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    match strict::read(line, &LIMITS) {
        Ok(Value::Object(fields)) => from_fields(fields),
        Ok(Value::Array(_)) => Err(Refusal::invalid(None, "batches are not taken", "Send one message a line.")),
        Ok(_) => Err(Refusal::invalid(None, "a message is a JSON object", "Send a JSON-RPC 2.0 message.")),
        Err(fault) => {
            let code = match fault {
                JsonFault::NotJson { .. } => ErrorCode::PARSE_ERROR,
                _ => ErrorCode::INVALID_REQUEST,
            };
            Err(Refusal { id: find_id(line), error: told(code, fault.into()) })
        }
    }
}

fn from_fields(mut fields: JsonObject) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    let has_id = fields.contains_key("id");
    let id = fields.remove("id").and_then(|id| serde_json::from_value(id).ok());
    if fields.remove("jsonrpc") != Some(json!("2.0")) {
        return Err(Refusal::invalid(id, "`jsonrpc` is not \"2.0\"", "Send a JSON-RPC 2.0 message."));
    }
    let answers = fields.contains_key("result") || fields.contains_key("error");
    match (fields.get("method"), answers) {
        (None, true) => Ok(id.and_then(|id| from_answer(id, fields))),
        (Some(Value::String(_)), false) => match (has_id, id) {
            (true, Some(id)) => from_request(id, fields).map(Some),
            (true, None) => Err(Refusal::invalid(None, "the `id` is neither an integer nor a string", "Send one.")),
            (false, _) => Ok(from_notification(fields)),
        },
        _ => Err(Refusal::invalid(
            id,
            "this is neither a request nor a notification nor an answer",
            "Send a JSON-RPC 2.0 message.",
        )),
    }
}

fn from_request(id: RequestId, mut fields: JsonObject) -> Result<ClientJsonRpcMessage, Refusal> {
    // The SDK tries its nineteen kinds of requests one after the other; the one that counts is not made to wait.
    if fields.get("method") == Some(&json!("tools/call")) {
        let request = call(fields.remove("params")).map_err(|message| Refusal::params(id.clone(), message))?;
        return Ok(ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), id));
    }
    let params = fields.get("params");
    // The SDK greets whoever asks for it, also those who say that they know no greetings, and answers `ping` on a connection
    // whose era it does not know yet.
    let version = params.and_then(|params| params.get("_meta")?.get(VERSION)?.as_str());
    let gone = |method: &&str| fields.get("method").is_some_and(|said| said == *method);
    if let Some(method) = GONE.iter().copied().find(gone).filter(|_| version.is_some_and(is_stateless)) {
        return Err(Refusal::gone(id, method));
    }
    // The SDK takes a cursor that is no text for none at all, and a client would get the first page for ever.
    let cursor = params.and_then(|params| params.get("cursor"));
    if cursor.is_some_and(|cursor| !cursor.is_string() && !cursor.is_null()) {
        return Err(Refusal::params(id, "`cursor` is not a string".into()));
    }
    match serde_json::from_value(Value::Object(fields)) {
        Ok(ClientRequest::CustomRequest(CustomRequest { method, .. })) if METHODS.contains(&&*method) => {
            Err(Refusal::params(id, format!("the parameters do not fit `{method}`")))
        }
        Ok(request) => Ok(ClientJsonRpcMessage::request(request, id)),
        Err(error) => Err(Refusal::params(id, error.to_string())),
    }
}

fn call(params: Option<Value>) -> Result<CallToolRequest, String> {
    let Some(Value::Object(mut params)) = params else {
        return Err("`params` is not an object".into());
    };
    let Some(Value::String(name)) = params.remove("name") else {
        return Err("`name` is not a string".into());
    };
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err("`arguments` is not an object".into()),
    };
    let mut call = CallToolRequestParams::new(name).with_arguments(arguments);
    match params.remove("requestState") {
        None | Some(Value::Null) => {}
        Some(Value::String(state)) => call.request_state = Some(state),
        Some(_) => return Err("`requestState` is not a string".into()),
    }
    match params.remove("inputResponses") {
        None | Some(Value::Null) => {}
        Some(Value::Object(responses)) => call.input_responses = Some(responses.into_iter().collect()),
        Some(_) => return Err("`inputResponses` is not an object".into()),
    }
    let mut request = CallToolRequest::new(call);
    match params.remove("_meta") {
        None | Some(Value::Null) => {}
        Some(Value::Object(meta)) => {
            request.extensions.insert(RequestMetaObject::from(meta));
        }
        Some(_) => return Err("`_meta` is not an object".into()),
    }
    Ok(request)
}

/// What a client answers to what it was asked. An answer is never answered, so one that does not fit is dropped.
fn from_answer(id: RequestId, mut fields: JsonObject) -> Option<ClientJsonRpcMessage> {
    match (fields.remove("result"), fields.remove("error")) {
        (Some(result), None) => Some(ClientJsonRpcMessage::response(serde_json::from_value(result).ok()?, id)),
        (None, Some(error)) => Some(ClientJsonRpcMessage::error(serde_json::from_value(error).ok()?, Some(id))),
        _ => None,
    }
}

/// A notification is never answered, so one that does not fit is dropped.
fn from_notification(fields: JsonObject) -> Option<ClientJsonRpcMessage> {
    let notification: ClientNotification = serde_json::from_value(Value::Object(fields)).ok()?;
    Some(ClientJsonRpcMessage::notification(notification))
}

/// The id of a message that could not be read, so that its sender does not wait for ever.
///
/// It is taken only where one reader could not see another: the text up to the fault holds it once.
pub(crate) fn find_id(line: &[u8]) -> Option<RequestId> {
    struct Ids(Vec<Value>);

    impl<'de> Visitor<'de> for &mut Ids {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
            while let Some(key) = fields.next_key::<String>()? {
                if key == "id" {
                    self.0.push(fields.next_value()?);
                } else {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
            Ok(())
        }
    }

    let mut ids = Ids(Vec::new());
    // It fails where the text is broken; what stands before that has been seen.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(&mut ids);
    match <[Value; 1]>::try_from(ids.0) {
        Ok([id]) => serde_json::from_value(id).ok(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde::{Deserialize as _, de::value::MapDeserializer};

    use super::*;

    /// What a line becomes: the message as the SDK holds it, null for nothing, or the answer to its sender.
    #[track_caller]
    fn check(line: impl AsRef<[u8]>, expected: Value) {
        let became = match read(line.as_ref()) {
            Ok(None) => Value::Null,
            Ok(Some(message)) => serde_json::to_value(message).unwrap(),
            Err(Refusal { id, error }) => {
                json!({ "id": id, "refused": error.code.0, "because": error.data.unwrap()["code"] })
            }
        };
        assert_eq!(became, expected, "{}", String::from_utf8_lossy(line.as_ref()));
    }

    /// A message that passes as it is.
    #[track_caller]
    fn check_passes(message: Value) {
        check(message.to_string(), message);
    }

    fn refused(id: impl Into<Value>, code: i32, because: &str) -> Value {
        json!({ "id": id.into(), "refused": code, "because": because })
    }

    #[test]
    fn a_call_keeps_its_name_arguments_and_meta() {
        check_passes(json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "text": ["ü", 1, null] }, "_meta": { "progressToken": "p" } },
        }));
        check_passes(json!({
            "jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": { "name": "now", "arguments": {} },
        }));
    }

    #[test]
    fn a_call_without_arguments_has_none() {
        let empty = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "now", "arguments": {} },
        });
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"now"}}"#, empty.clone());
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"now","arguments":null}}"#, empty);
    }

    #[test]
    fn other_messages_pass() {
        check_passes(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "cursor": "abc" } }));
        let first_page = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#, first_page);
        check_passes(json!({ "jsonrpc": "2.0", "id": 1, "method": "vendor/thing", "params": { "a": [] } }));
        check_passes(json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3, "reason": "why not" },
        }));
    }

    #[test]
    fn a_line_may_be_empty_or_end_in_any_way() {
        for line in ["", " ", "\n", "\r\n", "\t\r\n"] {
            check(line, Value::Null);
        }
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        check(format!("{ping}\r\n"), ping.clone());
        check(format!("\u{feff}{ping}\n"), ping);
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        check("hello", refused(Value::Null, -32700, "not_json"));
        check("{}{}", refused(Value::Null, -32700, "not_json"));
        check(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", refused(1, -32700, "not_json"));
        check(r#"{"jsonrpc":"2.0","id":5,"method":"ping""#, refused(5, -32700, "not_json"));
        check(r#"{"jsonrpc":"2.0","method":"ping","id":"#, refused(Value::Null, -32700, "not_json"));
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let call = |arguments: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
            )
        };
        check(call(r#"{"text":"a","text":"b"}"#), refused(4, -32600, "duplicate_key"));
        check(call(r#"{"a":{"text":"a","\u0074ext":"b"}}"#), refused(4, -32600, "duplicate_key"));
        check(call(r#"{"n":9007199254740993}"#), refused(4, -32600, "number_not_exact"));
        check(call(&format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100))), refused(4, -32600, "too_deep"));
        check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, refused(Value::Null, -32600, "duplicate_key"));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#, refused(1, -32600, "duplicate_key"));
    }

    #[test]
    fn arguments_may_nest_as_deeply_as_the_runtime_allows() {
        let deep = (1..Limits::default().depth).fold(json!({}), |inner, _| json!({ "in": inner }));
        check_passes(json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo", "arguments": deep },
        }));
    }

    #[test]
    fn what_is_no_message_is_an_invalid_request() {
        let invalid = |id: Value| refused(id, -32600, "invalid_request");
        check("[]", invalid(Value::Null));
        check(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, invalid(Value::Null));
        check("1", invalid(Value::Null));
        check(r#"{"id":1,"method":"ping"}"#, invalid(json!(1)));
        check(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, invalid(json!("a")));
        check(r#"{"jsonrpc":"2.0","id":1}"#, invalid(json!(1)));
        check(r#"{"jsonrpc":"2.0","id":1,"method":2}"#, invalid(json!(1)));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, invalid(json!(1)));
        for id in ["null", "1.5", "true", "[1]", "{}"] {
            check(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#), invalid(Value::Null));
        }
    }

    #[test]
    fn parameters_that_do_not_fit_are_told_from_a_method_that_is_not_there() {
        let call = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let params = refused(1, -32602, "invalid_params");
        for bad in [
            "{}",
            "[]",
            "null",
            r#"{"name":1}"#,
            r#"{"name":"echo","arguments":[]}"#,
            r#"{"name":"echo","arguments":"x"}"#,
            r#"{"name":"echo","_meta":1}"#,
        ] {
            check(call(bad), params.clone());
        }
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, params.clone());
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}"#, params.clone());
        check(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, params.clone());
        // Methods that only one of the eras has, or that come with an extension, are known as well.
        check(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#, params.clone());
        for method in ["resources/subscribe", "resources/unsubscribe", "tasks/get", "tasks/update", "tasks/cancel"] {
            let bad = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "uri": 1, "taskId": 1 } });
            check(bad.to_string(), params.clone());
        }
    }

    /// What the SDK says of every kind of request that a message is not of: which method those of that kind have.
    #[derive(Debug)]
    struct Said;

    thread_local! {
        static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    impl serde::de::Error for Said {
        fn custom<T: fmt::Display>(said: T) -> Self {
            SAID.with_borrow_mut(|all| all.push(said.to_string()));
            Self
        }
    }

    impl std::error::Error for Said {}

    impl fmt::Display for Said {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no")
        }
    }

    #[test]
    fn every_method_the_sdk_knows_is_known_here() {
        let fields = MapDeserializer::<_, Said>::new([("method", "nobody/knows")].into_iter());
        ClientRequest::deserialize(fields).unwrap();
        let mut known: Vec<_> = SAID
            .take()
            .iter()
            .filter_map(|said| Some(said.strip_prefix("expect const string value \"")?.strip_suffix('"')?.to_owned()))
            .collect();
        known.sort();
        assert_eq!(known, METHODS);
    }

    #[test]
    fn whoever_says_that_it_knows_no_greetings_is_not_greeted() {
        let request = |method: &str, version: &str| {
            let info = json!({ "name": "t", "version": "1" });
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {
                "_meta": { VERSION: version }, "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info,
            } })
        };
        check_passes(request("initialize", "2025-11-25"));
        // Nor is anything else there that went with the greeting, whether or not its parameters fit.
        for method in GONE {
            check(request(method, "2026-07-28").to_string(), refused(1, -32601, "unknown_method"));
        }
        check(request("tasks/get", "2026-07-28").to_string(), refused(1, -32602, "invalid_params"));
    }

    #[test]
    fn answers_pass_and_what_is_none_is_ignored() {
        check_passes(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
        check_passes(json!({ "jsonrpc": "2.0", "id": 1, "result": { "action": "decline" } }));
        check_passes(json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }));
        check(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, Value::Null);
        check(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"no"}}"#, Value::Null);
        check(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Value::Null);
    }

    #[test]
    fn a_line_that_is_too_long_is_answered_to_whom_its_beginning_names() {
        let refusal = Refusal::too_long(br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"na"#);
        assert_eq!((refusal.id, refusal.error.code.0), (Some(RequestId::Number(8)), -32600));
        let refusal = Refusal::too_long(br#"{"jsonrpc":"2.0","method":"tools/call","params":{"id":8,"#);
        assert_eq!(refusal.id, None);
    }
}
