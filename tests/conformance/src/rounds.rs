//! Rounds of the stateless era: what tools and a prompt want to know before they can end, and the sealed state that says how
//! far they came.

use hmac::{Hmac, KeyInit, Mac};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, GetPromptRequestParams,
        InputRequiredResult, InputResponses,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::{ended, wire};

/// The prompt that asks back.
pub(crate) const PROMPT: &str = "test_input_required_result_prompt";

/// Seals states. A fixture has no secrets: what counts is that the suite does not know it.
const KEY: &[u8] = b"known to whoever reads this";

/// What a tool asks, round by round. It ends when all questions of its last round are answered.
struct Rounds {
    questions: Vec<Value>,
    state: State,
}

/// Does a tool give the client a state to bring back?
#[derive(PartialEq)]
enum State {
    Sealed,
    None,
}

/// The answer of a tool that asks back; none for every other tool.
pub(crate) fn of_tool(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let rounds = rounds(&request.name, &context.client_capabilities().unwrap_or_default())?;
    Some(walk(&rounds, &request.name, request.input_responses.as_ref(), request.request_state.as_deref()))
}

/// What a person said the prompt is about, or the question.
pub(crate) fn of_prompt(request: &GetPromptRequestParams) -> Result<Result<String, InputRequiredResult>, ErrorData> {
    let answer = request.input_responses.as_ref().and_then(|answers| answers.get("user_context"));
    match answer.and_then(|answer| answer["content"]["context"].as_str()) {
        Some(context) => Ok(Ok(context.to_owned())),
        None => {
            let question = json!({ "user_context": form("What context should the prompt use?", "context", "string") });
            wire(json!({ "resultType": "input_required", "inputRequests": question })).map(Err)
        }
    }
}

fn rounds(tool: &str, client: &ClientCapabilities) -> Option<Rounds> {
    let name = || form("What is your name?", "name", "string");
    let (questions, state) = match tool.strip_prefix("test_input_required_result_") {
        Some("elicitation") => (vec![json!({ "user_name": name() })], State::None),
        Some("sampling") => {
            (vec![json!({ "capital_question": sampling("What is the capital of France?") })], State::None)
        }
        Some("list_roots") => (vec![json!({ "client_roots": roots() })], State::None),
        Some("request_state" | "tampered_state") => {
            (vec![json!({ "confirm": form("Please confirm", "ok", "boolean") })], State::Sealed)
        }
        Some("multiple_inputs") => {
            let greeting = sampling("Generate a greeting");
            (vec![json!({ "user_name": name(), "greeting": greeting, "client_roots": roots() })], State::Sealed)
        }
        Some("multi_round") => {
            let first = form("Step 1: What is your name?", "name", "string");
            let second = form("Step 2: What is your favorite color?", "color", "string");
            (vec![json!({ "step1": first }), json!({ "step2": second })], State::Sealed)
        }
        Some("capabilities") => (vec![declared(client)], State::None),
        _ if tool == "test_streaming_elicitation" => {
            (vec![json!({ "value": form("Give a value.", "value", "string") })], State::None)
        }
        _ => return None,
    };
    Some(Rounds { questions, state })
}

/// A question of every kind the client has declared.
fn declared(client: &ClientCapabilities) -> Value {
    let mut questions = Map::new();
    if client.elicitation.is_some() {
        questions.insert("user_name".to_owned(), form("What is your name?", "name", "string"));
    }
    if client.sampling.is_some() {
        questions.insert("greeting".to_owned(), sampling("Generate a greeting"));
    }
    if client.roots.is_some() {
        questions.insert("client_roots".to_owned(), roots());
    }
    questions.into()
}

/// Ends, or asks what is still to be known in the round the state names.
fn walk(
    rounds: &Rounds,
    tool: &str,
    answers: Option<&InputResponses>,
    state: Option<&str>,
) -> Result<CallToolResponse, ErrorData> {
    let mut round = 0;
    if let (State::Sealed, Some(state)) = (&rounds.state, state) {
        let opened = (0..rounds.questions.len()).find(|round| seal(tool, *round) == state);
        round = opened.ok_or_else(|| ErrorData::invalid_params("the state is not one of this server", None))?;
    }
    let answered = |round: usize| {
        let mut names = rounds.questions[round].as_object().into_iter().flat_map(Map::keys);
        names.all(|name| answers.and_then(|answers| answers.get(name)).is_some_and(Value::is_object))
    };
    if answers.is_some() && answered(round) {
        round += 1;
    }
    let Some(questions) = rounds.questions.get(round) else {
        let said = json!(answers.map(|answers| answers.values().collect::<Vec<_>>()));
        let text = format!("state-ok: {said}");
        return Ok(ended::<CallToolResult>(json!({ "content": [{ "type": "text", "text": text }] }))?.into());
    };
    let mut asked = json!({ "resultType": "input_required", "inputRequests": questions });
    if rounds.state == State::Sealed {
        asked["requestState"] = seal(tool, round).into();
    }
    Ok(wire::<InputRequiredResult>(asked)?.into())
}

/// That a tool has come to this round, in a form only this server can make.
fn seal(tool: &str, round: usize) -> String {
    // A key of any length is one for HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(KEY) else { return String::new() };
    mac.update(format!("{tool} {round}").as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

fn sampling(words: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": words } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}
