//! The prompts of the fixture.

use rmcp::{
    ErrorData,
    model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult},
};
use serde_json::{Value, json};

use crate::{COMES_AND_GOES, IMAGE, ended, rounds};

pub(crate) fn all() -> Vec<Value> {
    let argument = |name: &str, about: &str| json!({ "name": name, "description": about, "required": true });
    vec![
        json!({ "name": "test_simple_prompt", "description": "One message." }),
        json!({
            "name": "test_prompt_with_arguments", "description": "One message with two words in it.",
            "arguments": [argument("arg1", "The first word."), argument("arg2", "The second word.")],
        }),
        json!({
            "name": "test_prompt_with_embedded_resource", "description": "A resource and a message.",
            "arguments": [argument("resourceUri", "Of the resource.")],
        }),
        json!({ "name": "test_prompt_with_image", "description": "An image and a message." }),
        json!({ "name": rounds::PROMPT, "description": "One message, once a person has said what about." }),
        json!({ "name": COMES_AND_GOES, "description": "Comes and goes." }),
    ]
}

pub(crate) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)).and_then(|value| value.as_str()).unwrap_or_default()
    };
    let contents = match request.name.as_str() {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))])
        }
        "test_prompt_with_embedded_resource" => {
            let words = "Embedded resource content for testing.";
            let resource = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain", "text": words });
            json!([{ "type": "resource", "resource": resource }, text("Please process the embedded resource above.")])
        }
        "test_prompt_with_image" => {
            let image = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
            json!([image, text("Please analyze the image above.")])
        }
        rounds::PROMPT => match rounds::of_prompt(request)? {
            Ok(context) => json!([text(&format!("Speak of {context}."))]),
            Err(asked) => return Ok(asked.into()),
        },
        _ => return Err(ErrorData::invalid_params("there is no such prompt", None)),
    };
    let messages: Vec<_> = contents
        .as_array()
        .into_iter()
        .flatten()
        .map(|content| json!({ "role": "user", "content": content }))
        .collect();
    Ok(ended::<GetPromptResult>(json!({ "messages": messages }))?.into())
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
