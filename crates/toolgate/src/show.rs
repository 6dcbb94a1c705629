//! Pages for people, JSON for programs.

use std::io::{IsTerminal, Write, stdout};

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

/// Prints text and a line end.
pub(crate) fn line(text: &str) -> Result<(), Problem> {
    let mut out = anstream::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if reader_left(&error) => Ok(()),
        other => Ok(other?),
    }
}

/// Did whoever read the output go away? `head` does, and that is no error worth a message.
pub(crate) fn reader_left(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
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
