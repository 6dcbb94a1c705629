//! Results of other servers' tools leave as the JSON they are: the SDK's types would lose what they have no word for, and
//! have none for a kind of content they do not know. So such a result goes through the SDK packed into one of ours, and is
//! unpacked as the last thing before it is written.

use std::io;

use axum::body::Bytes;
use memchr::memmem;
use rmcp::model::{
    CallToolResult, InputRequiredResult, JsonObject, JsonRpcMessage, MetaObject, RequestId, ResultType,
    ServerJsonRpcMessage, ServerResult,
};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value, json};

/// Marks a result that has another one packed into it.
const RELAYED: &str = "io.github.toolgate/relayed";
/// Holds the questions that are packed into a result that asks. It begins like the other, by which both are found.
const QUESTIONS: &str = "io.github.toolgate/relayed-questions";

/// A result of another server, packed into one of ours for the way through the SDK.
pub(crate) fn packed(whole: Value, is_error: bool, mut meta: MetaObject) -> CallToolResult {
    meta.0.insert(RELAYED.to_owned(), json!(true));
    let mut result = if is_error { CallToolResult::error(Vec::new()) } else { CallToolResult::success(Vec::new()) };
    result.structured_content = Some(whole);
    result.meta = Some(meta);
    result
}

/// Questions of another server, packed the same way.
pub(crate) fn packed_questions(requests: Map<String, Value>, state: String, meta: MetaObject) -> InputRequiredResult {
    InputRequiredResult::new(None, Some(state)).with_meta(with_questions(requests, meta))
}

/// The `_meta` of a result of ours that has another server's questions in it.
pub(crate) fn with_questions(requests: Map<String, Value>, mut meta: MetaObject) -> MetaObject {
    meta.0.insert(QUESTIONS.to_owned(), Value::Object(requests));
    meta
}

/// Where the whole of another server's result is that is no result of a tool. It begins like the others.
const WHOLE: &str = "io.github.toolgate/relayed-whole";

/// The `_meta` of an empty result of ours that has another server's in it.
pub(crate) fn packed_whole(whole: Value, mut meta: MetaObject) -> MetaObject {
    meta.0.insert(WHOLE.to_owned(), whole);
    meta
}

/// What our own words in a `_meta` begin with.
const OURS: &str = "io.github.toolgate/";

/// Holds the fields of a definition that the SDK has no word for. It begins like the others.
const FIELDS: &str = "io.github.toolgate/relayed-fields";

/// The `_meta` of a tool of another server: its own, and what else its definition has, packed for the way through the SDK.
pub(crate) fn packed_fields(mut fields: JsonObject) -> Option<MetaObject> {
    let mut meta = match fields.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.retain(|key, _| !key.starts_with(OURS));
    if !fields.is_empty() {
        meta.insert(FIELDS.to_owned(), Value::Object(fields));
    }
    (!meta.is_empty()).then_some(MetaObject(meta))
}

/// Puts the fields of a tool where they were; says whether there are any.
fn unpack_fields(tool: &mut Value) -> bool {
    let Some(tool) = tool.as_object_mut() else { return false };
    let Some(Value::Object(meta)) = tool.get_mut("_meta") else { return false };
    let Some(Value::Object(fields)) = meta.remove(FIELDS) else { return false };
    if meta.is_empty() {
        tool.remove("_meta");
    }
    for (key, value) in fields {
        tool.entry(key).or_insert(value);
    }
    true
}

/// A result as the client gets it where it is no message of its own.
pub(crate) fn whole(result: &CallToolResult) -> JsonObject {
    let is_packed = result.meta.as_ref().is_some_and(|meta| meta.0.contains_key(RELAYED));
    let message = json!({ "result": result });
    let mut message = if is_packed { unpack(message).unwrap_or_default() } else { message };
    match message["result"].take() {
        Value::Object(whole) => whole,
        _ => JsonObject::new(),
    }
}

/// A message with a packed result in it, as it is to be written; none for any other.
fn unpacked(message: &ServerJsonRpcMessage) -> Option<Value> {
    let JsonRpcMessage::Response(response) = message else { return None };
    let meta = match &response.result {
        ServerResult::CallToolResult(result) => result.meta.as_ref()?,
        ServerResult::InputRequiredResult(result) => result.meta.as_ref()?,
        ServerResult::GetPromptResult(result) => result.meta.as_ref()?,
        ServerResult::ReadResourceResult(result) => result.meta.as_ref()?,
        ServerResult::CompleteResult(result) => result.meta.as_ref()?,
        ServerResult::GetTaskResult(result) => result.meta.as_ref()?,
        ServerResult::ListToolsResult(list) => {
            list.tools.iter().find(|tool| tool.meta.as_ref().is_some_and(|meta| meta.0.contains_key(FIELDS)))?;
            return unpack(serde_json::to_value(message).ok()?);
        }
        _ => return None,
    };
    [RELAYED, QUESTIONS, WHOLE].into_iter().find_map(|key| meta.0.get(key))?;
    unpack(serde_json::to_value(message).ok()?)
}

/// A message as it is written, with what is packed into it.
pub(crate) fn write(message: &ServerJsonRpcMessage, to: impl io::Write) -> serde_json::Result<()> {
    if let Some(answer) = Answer::of(message) {
        return serde_json::to_writer(to, &answer);
    }
    match unpacked(message) {
        Some(whole) => serde_json::to_writer(to, &whole),
        None => serde_json::to_writer(to, message),
    }
}

/// The answer to a call, with the result of another server's tool that is packed into it: what [`unpack`] makes of it, written
/// from where it is.
#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: Whole<'a>,
}

struct Whole<'a> {
    theirs: &'a JsonObject,
    meta: Meta<'a>,
    result_type: Option<&'a ResultType>,
}

struct Meta<'a> {
    theirs: Option<&'a JsonObject>,
    ours: &'a JsonObject,
}

impl<'a> Answer<'a> {
    fn of(message: &'a ServerJsonRpcMessage) -> Option<Self> {
        let JsonRpcMessage::Response(response) = message else { return None };
        let ServerResult::CallToolResult(packed) = &response.result else { return None };
        let ours = &packed.meta.as_ref()?.0;
        ours.get(RELAYED)?;
        let theirs = packed.structured_content.as_ref()?.as_object()?;
        let meta = Meta { theirs: theirs.get("_meta").and_then(Value::as_object), ours };
        let result = Whole { theirs, meta, result_type: packed.result_type.as_ref() };
        Some(Self { jsonrpc: "2.0", id: &response.id, result })
    }
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.theirs.iter().filter(|(key, _)| *key != "_meta" && !OURS_TO_SAY.contains(&&***key)) {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("_meta", &self.meta)?;
        if let Some(result_type) = self.result_type {
            map.serialize_entry("resultType", result_type)?;
        }
        map.end()
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let theirs = self.theirs.into_iter().flatten();
        let is_mine = |key: &str| key != RELAYED && self.ours.contains_key(key);
        let theirs = theirs.filter(|(key, _)| is_theirs_to_say(key) && !is_mine(key));
        let ours = self.ours.iter().filter(|(key, _)| *key != RELAYED);
        serializer.collect_map(theirs.chain(ours))
    }
}

/// Which era the client is of, and how long it may keep a result, is our word.
const OURS_TO_SAY: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// What the protocol has another server say in its `_meta` is between us and it.
fn is_theirs_to_say(key: &str) -> bool {
    !key.starts_with("io.modelcontextprotocol/")
}

/// The same for a piece of an answer over HTTP: a message, or an event with one.
pub(crate) fn unpacked_bytes(piece: Bytes) -> Bytes {
    if memmem::find(&piece, RELAYED.as_bytes()).is_none() {
        return piece;
    }
    let line = |line: &[u8]| {
        let (head, message) = match line.strip_prefix(b"data: ") {
            Some(message) => (&b"data: "[..], message),
            None => (&b""[..], line),
        };
        let unpacked = serde_json::from_slice(message).ok().and_then(unpack);
        unpacked.map_or_else(|| line.to_vec(), |whole| [head, whole.to_string().as_bytes()].concat())
    };
    piece.split(|byte| *byte == b'\n').map(line).collect::<Vec<_>>().join(&b'\n').into()
}

/// The message with the result that is packed into its own, and with what we say about that.
fn unpack(mut message: Value) -> Option<Value> {
    let result = message.get_mut("result")?;
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        let mut is_packed = false;
        for tool in tools {
            is_packed |= unpack_fields(tool);
        }
        return is_packed.then_some(message);
    }
    let says = OURS_TO_SAY.map(|key| result.get(key).cloned().map(|value| (key.to_owned(), value)));
    let mut ours = match result.get_mut("_meta")?.take() {
        Value::Object(ours) => ours,
        _ => return None,
    };
    if let Some(questions) = ours.remove(QUESTIONS) {
        (result["inputRequests"], result["_meta"]) = (questions, Value::Object(ours));
        return Some(message);
    }
    let whole = match ours.remove(WHOLE) {
        Some(whole) => whole,
        None => {
            ours.remove(RELAYED)?;
            result.get_mut("structuredContent")?.take()
        }
    };
    let Value::Object(mut whole) = whole else { return None };
    let mut meta = match whole.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.retain(|key, _| is_theirs_to_say(key));
    meta.extend(ours);
    whole.insert("_meta".to_owned(), Value::Object(meta));
    whole.retain(|key, _| !OURS_TO_SAY.contains(&&**key));
    whole.extend(says.into_iter().flatten());
    *result = Value::Object(whole);
    Some(message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use rmcp::model::{ListToolsResult, ReadResourceResult, Tool};

    /// What becomes of a result, written as a line and as a piece of an answer.
    #[track_caller]
    fn check(whole: Value, expected: Value) {
        let mut meta = MetaObject::new();
        meta.0.insert("ours".to_owned(), json!(1));
        let result = ServerResult::CallToolResult(packed(whole, false, meta));
        let message = ServerJsonRpcMessage::response(result, RequestId::Number(7));
        let expected = json!({ "jsonrpc": "2.0", "id": 7, "result": expected });
        assert_eq!(unpacked(&message), Some(expected.clone()));
        let text = serde_json::to_string(&message).unwrap();
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let mut line = Vec::new();
        write(&message, &mut line).unwrap();
        assert_eq!(read(&line), expected);
        assert_eq!(read(&unpacked_bytes(Bytes::from(text.clone()))), expected);
        let event = unpacked_bytes(Bytes::from(format!("event: message\ndata: {text}\n\n")));
        let data = event.strip_prefix(b"event: message\ndata: ").and_then(|rest| rest.strip_suffix(b"\n\n")).unwrap();
        assert_eq!(read(data), expected);
    }

    #[test]
    fn a_result_leaves_as_it_came_with_what_we_say_about_it() {
        let blocks = json!([{ "type": "hologram", "depth": 3 }, { "type": "text", "text": "a\nb", "x": [1.0] }]);
        check(
            json!({ "content": blocks, "x-top": null, "_meta": { "ours": 0, "theirs": 2, "io.modelcontextprotocol/serverInfo": 3 }, "isError": true }),
            json!({ "content": blocks, "x-top": null, "_meta": { "ours": 1, "theirs": 2 }, "isError": true, "resultType": "complete" }),
        );
        check(
            json!({ "content": [], "resultType": "x", "structuredContent": [1] }),
            json!({ "content": [], "resultType": "complete", "structuredContent": [1], "_meta": { "ours": 1 } }),
        );
    }

    #[test]
    fn what_is_no_result_of_a_tool_leaves_as_it_came_too() {
        let whole = json!({ "contents": [{ "uri": "a:b", "text": "x", "y": 1 }], "ttlMs": 9_999_999, "cacheScope": "public", "z": [] });
        let mut result = ReadResourceResult::new(Vec::new());
        result.meta = Some(packed_whole(whole, MetaObject::new()));
        result.ttl_ms = Some(0);
        let message = ServerJsonRpcMessage::response(ServerResult::ReadResourceResult(result), RequestId::Number(7));
        let expected = json!({ "jsonrpc": "2.0", "id": 7, "result": {
            "contents": [{ "uri": "a:b", "text": "x", "y": 1 }], "z": [], "ttlMs": 0, "resultType": "complete", "_meta": {},
        } });
        assert_eq!(unpacked(&message), Some(expected.clone()));
        let bytes = unpacked_bytes(Bytes::from(serde_json::to_string(&message).unwrap()));
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }

    #[test]
    fn questions_leave_as_they_came() {
        let questions = json!({ "a": { "method": "elicitation/create", "params": { "x-vendor": [1] } } });
        let Value::Object(requests) = questions.clone() else { unreachable!() };
        let result = packed_questions(requests, "state".to_owned(), MetaObject::new());
        let message = ServerJsonRpcMessage::response(ServerResult::InputRequiredResult(result), RequestId::Number(7));
        let expected = json!({ "jsonrpc": "2.0", "id": 7, "result": {
            "resultType": "input_required", "inputRequests": questions, "requestState": "state", "_meta": {},
        } });
        assert_eq!(unpacked(&message), Some(expected.clone()));
        let bytes = unpacked_bytes(Bytes::from(serde_json::to_string(&message).unwrap()));
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }

    #[test]
    fn a_definition_leaves_with_the_fields_it_came_with() {
        let tool = |fields: Value| {
            let Value::Object(fields) = fields else { unreachable!() };
            let mut tool = Tool::new("a__b", "Does it.", Arc::new(JsonObject::new()));
            tool.meta = packed_fields(fields);
            tool
        };
        let fields = json!({ "x-vendor": [1.5], "name": "c", "_meta": { "v/k": 1, FIELDS: {}, OURS: 1 } });
        let more = json!({ "execution": { "taskSupport": "optional" }, "_meta": [] });
        let tools = vec![tool(fields), tool(more), tool(json!({ "_meta": { "v/k": 2 } })), tool(json!({}))];
        let list = ServerResult::ListToolsResult(ListToolsResult::with_all_items(tools));
        let message = ServerJsonRpcMessage::response(list, RequestId::Number(7));
        let bytes = unpacked_bytes(Bytes::from(serde_json::to_string(&message).unwrap()));
        let unpacked = unpacked(&message).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), unpacked);
        let shown = |fields: Value| {
            let mut shown = json!({ "name": "a__b", "description": "Does it.", "inputSchema": {} });
            shown.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            shown
        };
        let expected = [
            shown(json!({ "x-vendor": [1.5], "_meta": { "v/k": 1 } })),
            shown(json!({ "execution": { "taskSupport": "optional" } })),
            shown(json!({ "_meta": { "v/k": 2 } })),
            shown(json!({})),
        ];
        assert_eq!(unpacked["result"]["tools"], json!(expected));
    }

    #[test]
    fn what_is_ours_leaves_as_it_is() {
        let message = ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(7));
        assert_eq!(unpacked(&message), None);
        let piece = Bytes::from_static(b"data: {\"text\": \"io.github.toolgate/relayed\"}\n\n");
        assert_eq!(unpacked_bytes(piece.clone()), piece);
    }
}
