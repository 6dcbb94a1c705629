//! The resources of the fixture.

use rmcp::{
    ErrorData,
    model::{ReadResourceResponse, ReadResourceResult},
};
use serde_json::{Value, json};

use crate::{IMAGE, ended};

pub(crate) fn all() -> Value {
    json!({ "resources": [
        { "uri": "test://static-text", "name": "text", "description": "A text.", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "image", "description": "An image.", "mimeType": "image/png" },
        {
            "uri": "test://watched-resource", "name": "watched", "description": "A text to listen to.",
            "mimeType": "text/plain",
        },
    ] })
}

pub(crate) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data", "name": "template", "description": "Data of an id.",
        "mimeType": "application/json",
    }] })
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let mut contents = match uri {
        "test://static-text" => {
            json!({ "mimeType": "text/plain", "text": "This is the content of the static text resource." })
        }
        "test://watched-resource" => json!({ "mimeType": "text/plain", "text": "It has not changed." }),
        "test://static-binary" => json!({ "mimeType": "image/png", "blob": IMAGE }),
        _ => match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
            Some(id) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "mimeType": "application/json", "text": data.to_string() })
            }
            None => return Err(ErrorData::invalid_params("there is no such resource", Some(json!({ "uri": uri })))),
        },
    };
    contents["uri"] = uri.into();
    Ok(ended::<ReadResourceResult>(json!({ "contents": [contents] }))?.into())
}
