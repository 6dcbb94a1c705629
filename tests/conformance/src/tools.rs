//! The tools of the fixture that end in one round.

use std::{sync::atomic::Ordering, time::Duration};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, InputRequiredResult, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, ServerRequest,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{AUDIO, COMES_AND_GOES, Fixture, IMAGE, ended, wire};

/// Between two notifications, so that a client that reads only the end is found out.
const MOMENT: Duration = Duration::from_millis(50);

/// All tools, those of the rounds too.
pub(crate) fn all() -> Vec<Value> {
    let mut tools: Vec<_> = [
        ("test_simple_text", "A text."),
        ("test_image_content", "An image."),
        ("test_audio_content", "A sound."),
        ("test_embedded_resource", "A resource."),
        ("test_multiple_content_types", "A text, an image and a resource."),
        ("test_error_handling", "Fails."),
        ("test_tool_with_logging", "Logs three lines on the way."),
        ("test_tool_with_progress", "Reports progress on the way."),
        ("test_logging_tool", "Logs a line if the request asks for it."),
        ("test_missing_capability", "Needs a client that has a model."),
        ("test_trigger_tool_change", "Changes the tools and says so."),
        ("test_trigger_prompt_change", "Changes the prompts and says so."),
        (COMES_AND_GOES, "Comes and goes."),
        ("test_elicitation_sep1034_defaults", "Asks the user, with a default for every field."),
        ("test_elicitation_sep1330_enums", "Asks the user to choose, in every way there is."),
        ("test_streaming_elicitation", "Asks the user in a round of its own."),
        ("test_input_required_result_elicitation", "Asks the user in a round of its own."),
        ("test_input_required_result_sampling", "Asks the model in a round of its own."),
        ("test_input_required_result_list_roots", "Asks for roots in a round of its own."),
        ("test_input_required_result_request_state", "Asks the user and wants its state back."),
        ("test_input_required_result_tampered_state", "Asks the user and looks at its state."),
        ("test_input_required_result_multiple_inputs", "Asks user, model and client at once."),
        ("test_input_required_result_multi_round", "Asks the user twice."),
        ("test_input_required_result_capabilities", "Asks what the client says it can answer."),
    ]
    .into_iter()
    .map(|(name, about)| tool(name, about, json!({ "type": "object", "properties": {} })))
    .collect();
    tools.extend([
        tool("test_sampling", "Asks the model.", words("prompt", "What to ask.")),
        tool("test_elicitation", "Asks the user.", words("message", "What to ask.")),
        tool("test_custom_header", "Takes a word that is in a header too.", {
            let word = json!({ "type": "string", "description": "The word.", "x-mcp-header": "Word" });
            json!({ "type": "object", "properties": { "word": word } })
        }),
        tool("json_schema_2020_12_tool", "Has a schema with many of the words there are.", wide_schema()),
    ]);
    tools
}

fn tool(name: &str, about: &str, schema: Value) -> Value {
    json!({ "name": name, "description": about, "inputSchema": schema })
}

fn words(field: &str, about: &str) -> Value {
    let word = json!({ "type": "string", "description": about });
    json!({ "type": "object", "properties": { field: word }, "required": [field] })
}

/// Uses every keyword the suite looks for.
fn wide_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef", "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

pub(crate) async fn call(
    fixture: &Fixture,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    match &*request.name {
        "test_simple_text" => says("This is a simple text response for testing."),
        "test_image_content" => holds(json!([image()])),
        "test_audio_content" => holds(json!([{ "type": "audio", "data": AUDIO, "mimeType": "audio/wav" }])),
        "test_embedded_resource" => {
            let words = "This is an embedded resource content.";
            holds(json!([resource("test://embedded-resource", "text/plain", words)]))
        }
        "test_multiple_content_types" => {
            let data = resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
            holds(json!([text("Multiple content types test:"), image(), data]))
        }
        "test_error_handling" => {
            let content = [text("This tool intentionally returns an error for testing")];
            Ok(ended::<CallToolResult>(json!({ "content": content, "isError": true }))?.into())
        }
        "test_tool_with_logging" => {
            for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(context, LoggingLevel::Info, line).await;
                sleep(MOMENT).await;
            }
            says("Three lines were logged.")
        }
        "test_logging_tool" => {
            if let Some(level) = context.meta.log_level() {
                log(context, level, "This was asked for.").await;
            }
            says("Done.")
        }
        "test_tool_with_progress" => {
            progress(context).await;
            says("Done.")
        }
        "test_missing_capability" => {
            if context.client_capabilities().is_none_or(|client| client.sampling.is_none()) {
                let needed = wire::<ClientCapabilities>(json!({ "sampling": {} }))?;
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            says("The client has a model.")
        }
        "test_trigger_tool_change" => {
            fixture.fewer_tools.fetch_xor(true, Ordering::Relaxed);
            for listener in fixture.listeners() {
                // Who listens to something else, or no longer, is not told.
                let _ = listener.notify_tool_list_changed().await;
            }
            says("Done.")
        }
        "test_trigger_prompt_change" => {
            fixture.fewer_prompts.fetch_xor(true, Ordering::Relaxed);
            for listener in fixture.listeners() {
                let _ = listener.notify_prompt_list_changed().await;
            }
            says("Done.")
        }
        "test_sampling" => {
            let message = json!({ "role": "user", "content": text(argument("prompt")) });
            let params = json!({ "messages": [message], "maxTokens": 100 });
            match ask(request, context, "sampling/createMessage", params).await? {
                Asked::Answered(answer) => {
                    says(&format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
                }
                Asked::InARound(asked) => Ok(asked),
            }
        }
        "test_elicitation" => {
            let field = |about: &str| json!({ "type": "string", "description": about });
            let properties = json!({ "username": field("A name."), "email": field("An address.") });
            elicit(request, context, argument("message"), properties, &["username", "email"]).await
        }
        "test_elicitation_sep1034_defaults" => elicit(request, context, "Who are you?", defaults(), &[]).await,
        "test_elicitation_sep1330_enums" => elicit(request, context, "What do you choose?", choices(), &[]).await,
        "test_custom_header" => says(argument("word")),
        "json_schema_2020_12_tool" => says("Done."),
        _ => Err(ErrorData::invalid_params("there is no such tool", None)),
    }
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let titled = |value: &str, title: &str| json!({ "const": value, "title": title });
    let all = || [titled("value1", "First"), titled("value2", "Second"), titled("value3", "Third")];
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": all() },
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option 1", "Option 2", "Option 3"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": all() } },
    })
}

/// Asks the user.
async fn elicit(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    message: &str,
    properties: Value,
    required: &[&str],
) -> Result<CallToolResponse, ErrorData> {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    let answer = match ask(request, context, "elicitation/create", params).await? {
        Asked::Answered(answer) => answer,
        Asked::InARound(asked) => return Ok(asked),
    };
    let (action, content) = (answer["action"].as_str().unwrap_or_default(), &answer["content"]);
    says(&format!("Elicitation completed: action={action}, content={content}"))
}

/// What became of a question.
enum Asked {
    Answered(Value),
    InARound(CallToolResponse),
}

/// Asks by a request in the old era, and in a round of its own in the new.
async fn ask(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    method: &str,
    params: Value,
) -> Result<Asked, ErrorData> {
    let question = json!({ "method": method, "params": params });
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let answer = request.input_responses.as_ref().and_then(|answers| answers.get("answer"));
        return match answer {
            Some(answer) => Ok(Asked::Answered(answer.clone())),
            None => {
                let asked = json!({ "resultType": "input_required", "inputRequests": { "answer": question } });
                Ok(Asked::InARound(wire::<InputRequiredResult>(asked)?.into()))
            }
        };
    }
    let request = wire::<ServerRequest>(question)?;
    let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let answer = context.peer.send_request(request).await.map_err(|error| failed(&error))?;
    serde_json::to_value(answer).map(Asked::Answered).map_err(|error| failed(&error))
}

/// A client that does not listen is no failure.
async fn log(context: &RequestContext<RoleServer>, level: LoggingLevel, line: &str) {
    let message = LoggingMessageNotificationParam::new(level, line.into());
    let _ = context.peer.notify_logging_message(message).await;
}

async fn progress(context: &RequestContext<RoleServer>) {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let step = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _ = context.peer.notify_progress(step).await;
        }
        sleep(MOMENT).await;
    }
}

fn says(words: &str) -> Result<CallToolResponse, ErrorData> {
    holds(json!([text(words)]))
}

fn holds(content: Value) -> Result<CallToolResponse, ErrorData> {
    Ok(ended::<CallToolResult>(json!({ "content": content }))?.into())
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image() -> Value {
    json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" })
}

fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}
