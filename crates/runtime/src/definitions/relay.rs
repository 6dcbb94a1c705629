//! The result of another server's tool: passed on as it is, and what of it is for whom.
//!
//! A result is a list of blocks. The model of an edge that knows nothing of blocks reads the text of them; an edge that
//! does gets the whole value, with whatever this program has no word for. Pictures and sounds are data: they are not text
//! that could order or tell anything, so they go around the cleaning, in their own type and within a bound.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolgate_contract::{Caps, Fault, Truncated, Unit};

/// Bytes of everything in a result that is not data.
const MOST: usize = 4 * 1024 * 1024;
/// Bytes of all data of a result, as it is written.
const MOST_DATA: usize = 8 * 1024 * 1024;
/// Stands for data while the rest is cleaned.
const AWAY: &str = "";

/// A result as it came, bounded, with the text of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Relayed {
    pub(crate) result: Value,
    pub(crate) text: String,
    pub(crate) truncated: Option<Truncated>,
}

impl Relayed {
    /// Bounds a result, and reads its text. What is no result at all is a fault.
    pub(crate) fn of(mut result: Value, caps: &Caps) -> Result<Self, Fault> {
        let Some(blocks) = result.get_mut("content").and_then(Value::as_array_mut) else {
            return Err(bad("it has no list of content"));
        };
        if !blocks.iter().all(|block| block["type"].is_string()) {
            return Err(bad("some of its content does not say what it is"));
        }
        let truncated = shorten(blocks, caps);
        leave_out_data(blocks);
        let text = blocks.iter().map(text_of).collect::<Vec<_>>().join("\n");
        let data: usize = blocks.iter_mut().filter_map(data_of).map(|data| data.len()).sum();
        let size = result.to_string().len().saturating_sub(data);
        if size > MOST {
            return Err(Fault::failed(
                "result_too_large",
                format!("the result has {size} bytes, and {MOST} are allowed"),
                "Ask for less at once.",
            ));
        }
        Ok(Self { result, text, truncated })
    }
}

/// Does the result say that the tool failed?
pub(crate) fn is_error(result: &Value) -> bool {
    result["isError"] == true
}

/// What the result has for the schema of the output; none where the tool failed, which need not keep to it.
pub(crate) fn typed(result: &Value) -> Option<&Value> {
    if is_error(result) { None } else { Some(result.get("structuredContent").unwrap_or(&Value::Null)) }
}

/// Takes the data out, in order.
pub(crate) fn take_data(result: &mut Value) -> Vec<String> {
    let blocks = result.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    blocks.filter_map(data_of).map(|data| std::mem::replace(data, AWAY.to_owned())).collect()
}

/// Puts it back. Cleaning changes words and no blocks.
pub(crate) fn put_back(result: &mut Value, data: Vec<String>) {
    let blocks = result.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    for (place, data) in blocks.filter_map(data_of).zip(data) {
        *place = data;
    }
}

/// The data of a block, where it is what it should be: what is not written as data could say anything.
fn data_of(block: &mut Value) -> Option<&mut String> {
    let place = match block["type"].as_str()? {
        "image" | "audio" => block.get_mut("data")?,
        "resource" => block.get_mut("resource")?.get_mut("blob")?,
        _ => return None,
    };
    match place {
        Value::String(data) if is_data(data) => Some(data),
        _ => None,
    }
}

fn is_data(text: &str) -> bool {
    text == AWAY || STANDARD.decode(text).is_ok()
}

/// The text of one block, as a person would be told of it.
fn text_of(block: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&block["type"]);
    match &*kind {
        "text" => text(&block["text"]),
        "image" | "audio" => placeholder(&kind, &block["mimeType"], &block["data"]),
        "resource_link" => {
            let name = block["title"].as_str().or_else(|| block["name"].as_str()).unwrap_or_default();
            format!("[link: {name} <{}>]", text(&block["uri"]))
        }
        "resource" => {
            let resource = &block["resource"];
            match resource.get("text") {
                Some(said) => format!("[resource: <{}>]\n{}", text(&resource["uri"]), text(said)),
                None => placeholder("resource", &resource["mimeType"], &resource["blob"]),
            }
        }
        _ => format!("[{kind}: content of a kind that is passed on as it is]"),
    }
}

fn placeholder(kind: &str, mime: &Value, data: &Value) -> String {
    let written = data.as_str().unwrap_or_default();
    let bytes = written.trim_end_matches('=').len() * 3 / 4;
    format!("[{kind}: {}, {bytes} bytes]", mime.as_str().unwrap_or("of no type"))
}

/// Cuts the texts of all blocks together to what one text may have.
fn shorten(blocks: &mut [Value], caps: &Caps) -> Option<Truncated> {
    let (mut bytes, mut lines) = (caps.output_bytes, caps.output_lines);
    let (mut shown, mut total) = (0, 0);
    for block in blocks {
        let place = match block["type"].as_str() {
            Some("text") => block.get_mut("text"),
            Some("resource") => block.get_mut("resource").and_then(|resource| resource.get_mut("text")),
            _ => None,
        };
        let Some(Value::String(text)) = place else { continue };
        total += text.len();
        let mut end = text.floor_char_boundary(bytes.min(text.len()));
        if let Some((at, _)) = text[..end].match_indices('\n').nth(lines.saturating_sub(1)) {
            end = at;
        }
        lines = lines.saturating_sub(1 + text[..end].matches('\n').count());
        bytes -= end;
        if end < text.len() {
            text.truncate(end);
            text.push_str("\n[cut: the result is longer than what is passed on]");
        }
        shown += end;
    }
    (shown < total).then_some(Truncated { shown: shown as u64, total: total as u64, unit: Unit::Bytes })
}

/// Leaves data out that is more than anybody would look at.
fn leave_out_data(blocks: &mut [Value]) {
    let mut left = MOST_DATA;
    for block in blocks {
        let Some(length) = data_of(block).map(|data| data.len()) else { continue };
        if length <= left {
            left -= length;
            continue;
        }
        let kind = block["type"].as_str().unwrap_or_default();
        let text = format!("[{kind}: left out, its data has {length} bytes]");
        *block = json!({ "type": "text", "text": text });
    }
}

fn bad(why: &str) -> Fault {
    Fault::failed(
        "bad_answer",
        format!("the server's answer is no result: {why}"),
        "Report this to who runs the server.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { output_bytes: 40, output_lines: 4, ..Caps::DEFAULT };

    /// The text of a result with these blocks.
    #[track_caller]
    fn check(blocks: Value, expected: &str) {
        let relayed = Relayed::of(json!({ "content": blocks, "x": 1 }), &Caps::DEFAULT).unwrap();
        assert_eq!(relayed.text, expected);
        assert_eq!(relayed.result, json!({ "content": blocks, "x": 1 }), "it is passed on as it is");
    }

    #[test]
    fn every_kind_of_block_has_a_text() {
        check(json!([]), "");
        check(json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two", "y": 2 }]), "one\ntwo");
        check(json!([{ "type": "image", "mimeType": "image/png", "data": "AAECAw==" }]), "[image: image/png, 4 bytes]");
        check(json!([{ "type": "audio", "data": "AAEC" }]), "[audio: of no type, 3 bytes]");
        check(
            json!([{ "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } }]),
            "[resource: <file:///a>]\ninside",
        );
        check(
            json!([{ "type": "resource", "resource": { "uri": "u", "mimeType": "a/b", "blob": "AAEC" } }]),
            "[resource: a/b, 3 bytes]",
        );
        check(
            json!([{ "type": "resource_link", "uri": "https://e.com/", "name": "page" }]),
            "[link: page <https://e.com/>]",
        );
        check(json!([{ "type": "hologram", "z": [] }]), "[hologram: content of a kind that is passed on as it is]");
    }

    #[test]
    fn what_is_no_result_is_none() {
        for result in [json!(null), json!({}), json!({ "content": "text" }), json!({ "content": [7] }), json!([])] {
            assert_eq!(Relayed::of(result.clone(), &CAPS).unwrap_err().code, "bad_answer", "{result}");
        }
    }

    #[test]
    fn texts_are_cut_together_and_say_so() {
        let long = json!({ "content": [
            { "type": "text", "text": "a".repeat(30) },
            { "type": "resource", "resource": { "uri": "u", "text": "b".repeat(30) } },
            { "type": "text", "text": "c" },
        ] });
        let relayed = Relayed::of(long, &CAPS).unwrap();
        let cut = "\n[cut: the result is longer than what is passed on]";
        assert_eq!(relayed.result["content"][0]["text"], "a".repeat(30));
        assert_eq!(relayed.result["content"][1]["resource"]["text"], format!("{}{cut}", "b".repeat(10)));
        assert_eq!(relayed.result["content"][2]["text"], cut);
        assert_eq!(relayed.truncated, Some(Truncated { shown: 40, total: 61, unit: Unit::Bytes }));

        let lines = json!({ "content": [{ "type": "text", "text": "1\n2\n3\n4\n5\n6" }] });
        let relayed = Relayed::of(lines, &CAPS).unwrap();
        assert_eq!(relayed.result["content"][0]["text"], format!("1\n2\n3\n4{cut}"));

        let wide = json!({ "content": [], "structuredContent": "x".repeat(MOST) });
        assert_eq!(Relayed::of(wide, &CAPS).unwrap_err().code, "result_too_large");
    }

    #[test]
    fn data_goes_around_the_cleaning_and_comes_back_where_it_was() {
        let mut result = json!({ "content": [
            { "type": "image", "data": "AAEC" },
            { "type": "image", "data": "no data at all" },
            { "type": "resource", "resource": { "blob": "AwQF" } },
            { "type": "text", "data": "BgcI" },
        ] });
        let whole = result.clone();
        let data = take_data(&mut result);
        assert_eq!(data, ["AAEC", "AwQF"]);
        assert_eq!(result["content"][0]["data"], "");
        assert_eq!(result["content"][1]["data"], "no data at all");
        put_back(&mut result, data);
        assert_eq!(result, whole);
    }

    #[test]
    fn too_much_data_is_left_out() {
        let image = |length: usize| json!({ "type": "image", "data": "A".repeat(length) });
        let blocks = json!([image(MOST_DATA / 2), image(MOST_DATA), image(MOST_DATA / 2)]);
        let relayed = Relayed::of(json!({ "content": blocks }), &Caps::DEFAULT).unwrap();
        let content = &relayed.result["content"];
        assert_eq!((&content[0], &content[2]), (&blocks[0], &blocks[2]));
        let said = format!("[image: left out, its data has {MOST_DATA} bytes]");
        assert_eq!(content[1], json!({ "type": "text", "text": said }));
    }
}
