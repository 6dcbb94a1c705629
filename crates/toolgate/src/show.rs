//! Pages for people, JSON for programs.

use std::io::{IsTerminal, Write, stdout};

use comfy_table::{ContentArrangement, Table, presets};
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

/// Prints text and a line end. A reader who went away is no error worth a message.
pub(crate) fn line(text: &str) -> Result<(), Problem> {
    let mut out = anstream::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// A plain table.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), Problem> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    line(&table.to_string())
}
