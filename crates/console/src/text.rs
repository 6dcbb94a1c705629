//! Text that somebody else wrote, fit for a page.
//!
//! What an agent, a tool or a server said is shown as it is, and all of it is shown: markup is spelled out, and so is every
//! character nobody would see, also where scripts and emoji need it. A template cannot forget that, because a [`Text`] knows only this one way onto a page.

use std::fmt::{self, Display, Write};

use askama::filters::HtmlSafe;
use serde_json::Value;
use toolgate_guard::clean::hidden::is_unseen;

/// Somebody else's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(crate) String);

impl HtmlSafe for Text {}

impl Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if is_unseen(c) => write!(f, "<span class=\"unseen\">U+{:04X}</span>", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl Text {
    /// A value inside an attribute or a title, where no markup can be: what is unseen is spelled in brackets.
    pub(crate) fn plain(&self) -> String {
        self.0.chars().fold(String::with_capacity(self.0.len()), |mut out, c| {
            match is_unseen(c) {
                true => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
                false => out.push(c),
            }
            out
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a JSON value: a string as it is, nothing for null, anything else as JSON.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self(text.clone()),
            Value::Null => Self::default(),
            other => Self(other.to_string()),
        }
    }

    /// A JSON value, spread over lines.
    pub(crate) fn json(value: &Value) -> Self {
        Self(serde_json::to_string_pretty(value).unwrap_or_default())
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Text::from(text).to_string(), expected, "{text:?}");
    }

    #[test]
    fn markup_is_spelled_out() {
        check(
            "<script>alert(\"1\" & '2')</script>",
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;",
        );
        check("</pre><img src=x onerror=y>", "&lt;/pre&gt;&lt;img src=x onerror=y&gt;");
    }

    #[test]
    fn what_nobody_sees_is_seen() {
        let seen = |code: &str| format!("a<span class=\"unseen\">U+{code}</span>b");
        for (hidden, code) in [
            ('\u{202e}', "202E"),
            ('\u{200b}', "200B"),
            ('\u{1b}', "001B"),
            ('\0', "0000"),
            ('\r', "000D"),
            ('\u{e0041}', "E0041"),
            ('\u{3164}', "3164"),
            ('\u{a0}', "00A0"),
            ('\u{3000}', "3000"),
            ('\u{fe0f}', "FE0F"),
            ('\u{2800}', "2800"),
            ('\u{13430}', "13430"),
        ] {
            check(&format!("a{hidden}b"), &seen(code));
            assert_eq!(Text(format!("a{hidden}b")).plain(), format!("a[U+{code}]b"));
        }
        check("a\tb\nc é 日本 🙂", "a\tb\nc é 日本 🙂");
    }
}
