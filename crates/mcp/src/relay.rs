//! Results of other servers' tools leave as the JSON they are: the SDK's types would lose what they have no word for, and
//! have none for a kind of content they do not know. So such a result goes through the SDK packed into one of ours, and is
//! unpacked as the last thing before it is written.

use axum::body::Bytes;
use rmcp::model::{
    CallToolResult, InputRequiredResult, JsonRpcMessage, MetaObject, ServerJsonRpcMessage, ServerResult,
};
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
pub(crate) fn packed_questions(
    requests: Map<String, Value>,
    state: String,
    mut meta: MetaObject,
) -> InputRequiredResult {
    meta.0.insert(QUESTIONS.to_owned(), Value::Object(requests));
    InputRequiredResult::new(None, Some(state)).with_meta(meta)
}

/// A message with a packed result in it, as it is to be written; none for any other.
pub(crate) fn unpacked(message: &ServerJsonRpcMessage) -> Option<Value> {
    let JsonRpcMessage::Response(response) = message else { return None };
    let meta = match &response.result {
        ServerResult::CallToolResult(result) => result.meta.as_ref()?,
        ServerResult::InputRequiredResult(result) => result.meta.as_ref()?,
        _ => return None,
    };
    meta.0.get(RELAYED).or_else(|| meta.0.get(QUESTIONS))?;
    unpack(serde_json::to_value(message).ok()?)
}

/// The same for a piece of an answer over HTTP: a message, or an event with one.
pub(crate) fn unpacked_bytes(piece: Bytes) -> Bytes {
    let marks = |piece: &[u8]| piece.windows(RELAYED.len()).any(|part| part == RELAYED.as_bytes());
    if !marks(&piece) {
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
    let says_type = result.get("resultType").cloned();
    let mut ours = match result.get_mut("_meta")?.take() {
        Value::Object(ours) => ours,
        _ => return None,
    };
    if let Some(questions) = ours.remove(QUESTIONS) {
        (result["inputRequests"], result["_meta"]) = (questions, Value::Object(ours));
        return Some(message);
    }
    ours.remove(RELAYED)?;
    let Value::Object(mut whole) = result.get_mut("structuredContent")?.take() else { return None };
    let mut meta = match whole.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    // What the protocol has them say there is between us and them.
    meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
    meta.extend(ours);
    whole.insert("_meta".to_owned(), Value::Object(meta));
    // Which era the client is of is the SDK's word.
    whole.remove("resultType");
    whole.extend(says_type.map(|kind| ("resultType".to_owned(), kind)));
    *result = Value::Object(whole);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::RequestId;

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
    fn what_is_ours_leaves_as_it_is() {
        let message = ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(7));
        assert_eq!(unpacked(&message), None);
        let piece = Bytes::from_static(b"data: {\"text\": \"io.github.toolgate/relayed\"}\n\n");
        assert_eq!(unpacked_bytes(piece.clone()), piece);
    }
}
