//! What came back: a page, other text, or neither.

use toolgate_contract::WebResponse;
use toolgate_guard::html::{Document, decode, is_html, media_type};

/// The body of an answer, read by what the server says it is and by what it is.
pub(super) struct Body {
    /// What the server says it is.
    pub(super) content_type: Option<String>,
    /// What the text was encoded in; none if it is no text.
    pub(super) encoding: Option<&'static str>,
    /// What it is.
    pub(super) content: Content,
}

/// What a body is.
pub(super) enum Content {
    /// HTML.
    Page(Box<Document>),
    /// Other text.
    Text(String),
    /// No text.
    Binary,
}

/// Reads the body.
pub(super) fn read(response: &WebResponse) -> Body {
    let body = source(response);
    let content = match body.content {
        Content::Text(text) if is_html(body.content_type.as_deref(), &response.body) => {
            Content::Page(Box::new(Document::read(&text)))
        }
        other => other,
    };
    Body { content, ..body }
}

/// The same, but a page comes as it was sent.
pub(super) fn source(response: &WebResponse) -> Body {
    let content_type = response.header("content-type").map(str::to_owned);
    if !is_text(content_type.as_deref(), &response.body) {
        return Body { content_type, encoding: None, content: Content::Binary };
    }
    let (text, encoding) = decode(&response.body, content_type.as_deref());
    Body { content_type, encoding: Some(encoding), content: Content::Text(text) }
}

fn is_text(content_type: Option<&str>, body: &[u8]) -> bool {
    let kind = media_type(content_type.unwrap_or_default());
    let said_to_be_text = kind.ends_with("+xml") || kind.ends_with("+json") || kind.starts_with("text/");
    let said_to_be_none = ["image/", "audio/", "video/", "font/", "model/"].iter().any(|start| kind.starts_with(start))
        || matches!(kind.as_str(), "application/pdf" | "application/zip" | "application/gzip" | "application/wasm");
    if said_to_be_none && !said_to_be_text {
        return false;
    }
    let is_wide = content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("utf-16"))
        || matches!(body, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'<', 0, ..] | [0, b'<', ..]);
    is_wide || !body.iter().take(1024).any(|byte| is_never_text(*byte))
}

/// Bytes that stand in no text, whatever it is encoded in.
fn is_never_text(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0e..=0x1a | 0x1c..=0x1f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_stage::answer;

    /// What a body of this type comes to, and its encoding.
    fn check(content_type: Option<&str>, bytes: &[u8], expected: (&str, Option<&str>)) {
        let headers: Vec<_> = content_type.map(|kind| ("content-type", kind)).into_iter().collect();
        let body = read(&answer(200, &headers, bytes).unwrap());
        let found = match &body.content {
            Content::Page(page) => format!("page {}", page.text()),
            Content::Text(text) => format!("text {text}"),
            Content::Binary => "binary".to_owned(),
        };
        assert_eq!((found.as_str(), body.encoding), expected, "{content_type:?} {bytes:?}");
    }

    #[test]
    fn pages_are_read_and_other_text_is_left_as_it_is() {
        check(Some("text/html"), b"<p>a</p>", ("page a", Some("UTF-8")));
        check(Some("Text/HTML; charset=ISO-8859-1"), b"<p>\xe9</p>", ("page \u{e9}", Some("windows-1252")));
        check(Some("application/xhtml+xml"), b"<p>a</p>", ("page a", Some("UTF-8")));
        check(Some("application/json"), b"{\"a\": \"<p>\"}", ("text {\"a\": \"<p>\"}", Some("UTF-8")));
        check(Some("application/xml"), b"<a>b</a>", ("text <a>b</a>", Some("UTF-8")));
        check(Some("image/svg+xml"), b"<svg/>", ("text <svg/>", Some("UTF-8")));
        check(Some("text/plain"), b"<html>", ("text <html>", Some("UTF-8")));
        check(Some("application/octet-stream"), b"plain", ("text plain", Some("UTF-8")));
        check(None, b"", ("text ", Some("UTF-8")));
    }

    #[test]
    fn what_nobody_named_is_judged_by_how_it_begins() {
        check(None, b" \n<!DOCTYPE html><p>a", ("page a", Some("UTF-8")));
        check(None, b"<html><p>a", ("page a", Some("UTF-8")));
        check(None, b"a < b", ("text a < b", Some("UTF-8")));
        check(None, b"<htmlx>", ("text <htmlx>", Some("UTF-8")));
    }

    #[test]
    fn what_is_no_text_is_not_shown() {
        check(Some("image/png"), b"\x89PNG\r\n\x1a\n", ("binary", None));
        check(Some("application/pdf"), b"%PDF-1.7 and text", ("binary", None));
        check(Some("application/octet-stream"), b"\x7fELF\x02\x01", ("binary", None));
        check(Some("text/plain"), b"a\0b", ("binary", None));
        check(Some("text/html"), b"<p>\x01\x02", ("binary", None));
        check(None, b"GIF89a\x01\0", ("binary", None));
    }

    #[test]
    fn wide_text_has_zeros_and_is_text() {
        check(Some("text/plain; charset=UTF-16LE"), b"a\0b\0", ("text ab", Some("UTF-16LE")));
        check(Some("text/html"), b"\xff\xfe<\0p\0>\0a\0", ("page a", Some("UTF-16LE")));
        check(Some("text/html"), b"\0<\0p\0>\0a", ("page a", Some("UTF-16BE")));
    }
}
