//! What a server that is bridged may ask of us.
//!
//! It is told when it connects that we can do nothing for it, so whatever it asks but for a sign of life is refused: it
//! gets no files by way of `roots`, no model by way of `sampling`, and no person by way of `elicitation`.

use serde_json::{Value, json};

/// The number JSON-RPC has for a method that is not there.
const METHOD_NOT_FOUND: i64 = -32601;

/// The answer to a request of a server, or the error it gets instead.
pub(crate) fn answer(method: &str) -> Result<Value, Value> {
    match method {
        "ping" => Ok(json!({ "result": {} })),
        _ => Err(json!({ "code": METHOD_NOT_FOUND, "message": "this client offers nothing to servers" })),
    }
}
