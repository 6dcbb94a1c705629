//! What would change in a file, for a person who is asked to allow it.
//!
//! Everything that is not shown is said not to be: a file that is too large, what is no text, and where a long difference
//! was cut. Characters nobody would see are spelt out.

use std::{io::Read as _, time::Duration};

use similar::{ChangeTag, TextDiff};
use toolgate_contract::Fault;
use toolgate_guard::shell::ir::visible;

use super::{
    fault::{self, NOT_FOUND},
    text::Encoding,
};
use crate::Cx;

/// The largest file whose difference is looked for.
const MAX_FILE: u64 = 1 << 20;
/// How much of a difference is shown.
const MAX_LINES: usize = 400;
const MAX_BYTES: usize = 64 * 1024;
/// How long it is made as short as possible; after that it is only right.
const PATIENCE: Duration = Duration::from_millis(500);
/// Lines around a change.
const AROUND: usize = 3;

/// A file as it is, as far as it can be compared.
pub(super) struct Now {
    size: u64,
    /// None when it is too large.
    bytes: Option<Vec<u8>>,
}

/// The file as it is; none where there is none.
pub(super) fn now(cx: &Cx, path: &str) -> Result<Option<Now>, Fault> {
    let opened = match cx.workspace()?.open_file(path) {
        Err(fault) if NOT_FOUND.is(&fault) => return Ok(None),
        opened => opened?,
    };
    let size = opened.size();
    if size > MAX_FILE {
        return Ok(Some(Now { size, bytes: None }));
    }
    let mut bytes = Vec::new();
    opened.file.take(MAX_FILE).read_to_end(&mut bytes).map_err(|error| fault::from_io(&error, path))?;
    Ok(Some(Now { size, bytes: Some(bytes) }))
}

impl Now {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}

/// What becomes of the file.
pub(super) fn change(path: &str, before: Option<&Now>, after: Option<&[u8]>) -> String {
    let head = match (before, after) {
        (None, None) => return format!("{}: there is no such file", visible(path)),
        (None, Some(after)) => format!("new file {} ({} bytes)", visible(path), after.len()),
        (Some(before), None) => format!("deleted file {} ({} bytes)", visible(path), before.size),
        (Some(before), Some(after)) => {
            format!("changed file {} ({} bytes before, {} after)", visible(path), before.size, after.len())
        }
    };
    let old = before.map_or(Some(&[][..]), Now::bytes);
    let new = after.unwrap_or_default();
    let Some(old) = old.filter(|_| new.len() as u64 <= MAX_FILE) else {
        return format!("{head}\n[too large to compare]");
    };
    if [old, new].iter().any(|bytes| Encoding::of(bytes) == Encoding::Binary) {
        return format!("{head}\n[not text]");
    }
    if old == new {
        return format!("{head}\n[nothing changes]");
    }
    head + "\n" + &unified(&String::from_utf8_lossy(old), &String::from_utf8_lossy(new))
}

fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        lines.push(hunk.header().to_string());
        for change in hunk.iter_changes() {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let text = change.value();
            lines.push(format!("{mark}{}", spelt(text.strip_suffix('\n').unwrap_or(text))));
            if change.missing_newline() {
                lines.push("\\ no line end".to_owned());
            }
        }
    }
    bounded(&lines)
}

/// Tabs stay what they are: people know them.
fn spelt(line: &str) -> String {
    line.split('\t').map(visible).collect::<Vec<_>>().join("\t")
}

fn bounded(lines: &[String]) -> String {
    let mut shown = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at >= MAX_LINES || shown.len() + line.len() > MAX_BYTES {
            shown.push_str(&format!("[not all is shown: {} more lines of {}]", lines.len() - at, lines.len()));
            return shown;
        }
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<&str>, after: Option<&str>, expected: &str) {
        let now = before.map(|text| Now { size: text.len() as u64, bytes: Some(text.into()) });
        assert_eq!(change("a\u{200b}", now.as_ref(), after.map(str::as_bytes)), expected, "{before:?} {after:?}");
    }

    #[test]
    fn what_goes_and_what_comes_is_shown_and_nothing_hides() {
        check(None, Some("one\n"), "new file a\\u{200b} (4 bytes)\n@@ -0,0 +1 @@\n+one\n");
        check(Some("one"), None, "deleted file a\\u{200b} (3 bytes)\n@@ -1 +0,0 @@\n-one\n\\ no line end\n");
        check(
            Some("a\n\tb\nc\n"),
            Some("a\n\tb\u{202e}\r\nc\n"),
            "changed file a\\u{200b} (7 bytes before, 11 after)\n\
             @@ -1,3 +1,3 @@\n a\n-\tb\n+\tb\\u{202e}\\u{d}\n c\n",
        );
        check(Some("x\n"), Some("x\n"), "changed file a\\u{200b} (2 bytes before, 2 after)\n[nothing changes]");
        check(None, None, "a\\u{200b}: there is no such file");
    }

    #[test]
    fn what_is_not_shown_is_said() {
        check(Some("\0\u{1}"), Some("x"), "changed file a\\u{200b} (2 bytes before, 1 after)\n[not text]");
        let large = Now { size: 5 << 20, bytes: None };
        assert!(change("a", Some(&large), None).ends_with("deleted file a (5242880 bytes)\n[too large to compare]"));
        let most = "x".repeat(MAX_FILE as usize + 1);
        assert!(change("a", None, Some(most.as_bytes())).ends_with("[too large to compare]"));
        let long = change("a", None, Some("x\n".repeat(1_000).as_bytes()));
        assert_eq!(long.lines().count(), 1 + MAX_LINES + 1);
        assert!(long.ends_with("[not all is shown: 601 more lines of 1001]"), "{long}");
        let wide = change("a", None, Some("y".repeat(100_000).as_bytes()));
        assert!(wide.ends_with("[not all is shown: 2 more lines of 3]") && wide.len() < 1_000, "{wide}");
    }
}
