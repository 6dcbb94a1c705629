//! Pages for people, JSON for programs.

use std::{
    borrow::Cow,
    io::{IsTerminal, Write, stdout},
};

use serde::Serialize;

use crate::problem::Problem;

/// Should this listing be JSON? Asked for, or nobody is looking.
pub(crate) fn wants_json(asked: bool) -> bool {
    asked || !stdout().is_terminal()
}

/// Prints one JSON value: on one line for programs, indented on a terminal.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    let text = if stdout().is_terminal() { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    let text = text.map_err(|error| Problem::usage(format!("the answer is not JSON: {error}")))?;
    line(&text)
}

/// What others wrote, fit for a terminal: everything that steers one, or that nobody sees, is spelt out.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    // The second half: signs that reorder or hide text, and tags.
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let spell = |c: char| match steers(c) {
        // As JSON spells it, so that a JSON page stays one.
        true => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(spell).collect())
}

/// Prints text and a line end. On a terminal nothing in the text can steer it.
pub(crate) fn line(text: &str) -> Result<(), Problem> {
    let text = if stdout().is_terminal() { plain(text) } else { Cow::Borrowed(text) };
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if reader_left(&error) => Ok(()),
        other => Ok(other?),
    }
}

/// Did whoever read the output go away? `head` does, and that is no error worth a message.
pub(crate) fn reader_left(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// A moment, in UTC.
pub(crate) fn when(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map_or_else(|| at_ms.to_string(), |at| at.strftime("%F %T").to_string())
}

/// Columns under their heads, each as wide as its widest cell.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), Problem> {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_that_steers_a_terminal_or_hides_is_left() {
        assert_eq!(plain("a\tb\nc é 日"), "a\tb\nc é 日");
        assert_eq!(plain("\u{1b}[2J\u{9b}31m\u{7f}\r"), "\\u001b[2J\\u009b31m\\u007f\\u000d");
        assert_eq!(plain("safe\u{202e}txt\u{e0041}"), "safe\\u202etxt\\udb40\\udc41");
    }
}
