//! What was found while several files were checked together.

use std::sync::Arc;

use toolgate_contract::SourceLine;
use toolgate_gate::Sourced;

use super::{
    error::{ConfigError, Note, Snippet},
    load::{Mark, Unreadable, instead},
    text::Text,
};

/// The longest part of a line that is shown.
const SHOWN: usize = 120;

/// The longest message.
const SENTENCE: usize = 1_000;
/// The most errors that are worth a page.
const MOST_ERRORS: usize = 100;

/// A place in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) file: usize,
    pub(super) mark: Mark,
}

/// A value that was checked, and the place where it is written.
#[derive(Debug, Clone)]
pub(super) struct Said<T> {
    pub(super) value: T,
    pub(super) spot: Spot,
}

impl<T> Said<T> {
    /// The same place, another value.
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Said<U> {
        Said { value: change(self.value), spot: self.spot }
    }
}

/// The files, and all that is wrong with them or worth knowing.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) texts: Vec<Arc<Text>>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) notes: Vec<Note>,
    pub(super) not_shown: usize,
    /// Files, lines and the columns from which on they are not shown.
    pub(super) hidden: Vec<(String, u64, u64)>,
}

impl Findings {
    /// Takes one more file; the number names it from now on.
    pub(super) fn add(&mut self, text: Text) -> usize {
        self.texts.push(Arc::new(text));
        self.texts.len() - 1
    }

    pub(super) fn error(&mut self, spot: Spot, message: impl Into<String>, remedy: impl Into<String>) {
        if self.errors.len() >= MOST_ERRORS {
            self.not_shown += 1;
            return;
        }
        let mut error = self.locate(spot, message.into(), remedy.into());
        conceal(&mut error, &self.hidden);
        self.errors.push(error);
    }

    /// An error about a place where a secret may stand: nothing of the line is shown from there on, in any error.
    pub(super) fn hidden_error(&mut self, spot: Spot, message: impl Into<String>, remedy: impl Into<String>) {
        self.error(spot, message, remedy);
        self.hide(spot);
    }

    pub(super) fn unreadable(&mut self, file: usize, why: Unreadable) {
        let Unreadable { mut mark, message, remedy } = why;
        let spot = Spot { file, mark };
        if message.contains("key `") {
            // The key itself is no secret; what stands behind it may be.
            mark.column += mark.width as u64;
        }
        self.error(spot, message, remedy);
        if self.texts.get(file).is_some_and(|text| follows_connections(&text.text, mark)) {
            self.hide(Spot { file, mark });
        }
    }

    /// Takes everything from this place to the end of its line out of the errors there are, and of those to come.
    fn hide(&mut self, spot: Spot) {
        self.hidden.push((self.name(spot.file), spot.mark.line, spot.mark.column));
        for error in &mut self.errors {
            conceal(error, &self.hidden);
        }
    }

    /// A word that is none of those there are.
    pub(super) fn unknown<'w>(&mut self, said: &Said<String>, what: &str, known: impl IntoIterator<Item = &'w str>) {
        let remedy = instead(&said.value, known);
        self.error(said.spot, format!("unknown {what} `{}`", said.value), remedy);
    }

    pub(super) fn note(&mut self, spot: Spot, text: impl Into<String>) {
        self.notes.push(Note { file: self.name(spot.file), line: spot.mark.line, text: text.into() });
    }

    pub(super) fn source(&self, spot: Spot) -> SourceLine {
        SourceLine { file: self.name(spot.file), line: spot.mark.line }
    }

    pub(super) fn sourced<T>(&self, said: Said<T>) -> Sourced<T> {
        Sourced { source: self.source(said.spot), value: said.value }
    }

    /// The notes, or else the errors, in the order of the files and their lines.
    pub(super) fn into_result(mut self) -> Result<Vec<Note>, Vec<ConfigError>> {
        let file = |name: &str| self.texts.iter().position(|text| text.name == name);
        if self.errors.is_empty() {
            self.notes.sort_by_key(|note| (file(&note.file), note.line));
            return Ok(self.notes);
        }
        self.errors.sort_by_key(|error| (file(&error.file), error.line, error.column));
        if let Some(last) = self.errors.last().filter(|_| self.not_shown > 0) {
            let message = format!("{} more mistakes are not shown", self.not_shown);
            self.errors.push(ConfigError::whole(last.file.clone(), message, "Correct those above first."));
        }
        Err(self.errors)
    }

    fn locate(&self, spot: Spot, message: String, remedy: String) -> ConfigError {
        ConfigError {
            file: self.name(spot.file),
            line: spot.mark.line,
            column: spot.mark.column,
            message: shown(&cropped(message)),
            remedy: shown(&cropped(remedy)),
            snippet: self.texts.get(spot.file).and_then(|text| snippet(&text.text, spot.mark)).map(Box::new),
        }
    }

    fn name(&self, file: usize) -> String {
        self.texts.get(file).map_or_else(String::new, |text| shown(&text.name))
    }
}

/// Cuts the line an error points at where the first hidden place in it begins.
fn conceal(error: &mut ConfigError, hidden: &[(String, u64, u64)]) {
    let here = hidden.iter().filter(|(file, line, _)| (file, line) == (&error.file, &error.line));
    let (Some(first), Some(snippet)) = (here.map(|(_, _, column)| *column).min(), error.snippet.as_mut()) else {
        return;
    };
    let start = error.column.saturating_sub(snippet.before as u64);
    let kept = usize::try_from(first.saturating_sub(start)).unwrap_or(usize::MAX);
    if snippet.text.chars().count() <= kept {
        return;
    }
    snippet.text = snippet.text.chars().take(kept).chain("***".chars()).collect();
    if snippet.before + snippet.marked > kept {
        (snippet.before, snippet.marked) = (snippet.before.min(kept), 3);
    }
}

/// Does this place come after a block where credentials are named? Its shape is wrong, so where the block ends is not
/// known.
fn follows_connections(text: &str, mark: Mark) -> bool {
    let line = usize::try_from(mark.line).unwrap_or(usize::MAX);
    text.lines()
        .take(line)
        .map(|line| line.trim_start_matches(['{', ' ', '"', '\'', '\u{feff}']))
        .any(|line| line.starts_with("connections") || line.starts_with("mcp_servers"))
}

/// The marked line; of a long one, the part around the mark.
fn snippet(text: &str, mark: Mark) -> Option<Snippet> {
    let number = usize::try_from(mark.line.checked_sub(1)?).ok()?;
    let column = usize::try_from(mark.column.checked_sub(1)?).ok()?;
    let line: Vec<char> = text.trim_start_matches('\u{feff}').lines().nth(number).unwrap_or_default().chars().collect();
    let from = if line.len() > SHOWN { column.saturating_sub(SHOWN / 3).min(line.len()) } else { 0 };
    let part: String = line.iter().skip(from).take(SHOWN).collect();
    let before = column - from;
    let left = line.len().min(from + SHOWN).saturating_sub(column);
    Some(Snippet { text: shown(&part), before, marked: mark.width.clamp(1, left.max(1)) })
}

/// A sentence of a length people read: the words in it come from the file.
fn cropped(text: String) -> String {
    match text.char_indices().nth(SENTENCE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A text from a file nobody vouches for, without what a terminal would act on. The number of characters stays.
fn shown(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, mark: (u64, u64, usize), expected: Option<(&str, usize, usize)>) {
        let mark = Mark { line: mark.0, column: mark.1, width: mark.2 };
        let expected = expected.map(|(text, before, marked)| Snippet { text: text.to_owned(), before, marked });
        assert_eq!(snippet(text, mark), expected);
    }

    #[test]
    fn shows_the_line_and_marks_the_word() {
        check("a: b\nlevel: high\n", (2, 8, 4), Some(("level: high", 7, 4)));
    }

    #[test]
    fn a_mark_ends_with_its_line() {
        check("a: [\n  b ]\n", (1, 4, 9), Some(("a: [", 3, 1)));
        check("a:\n", (2, 1, 0), Some(("", 0, 1)));
    }

    #[test]
    fn a_file_as_a_whole_has_no_line() {
        check("a: b\n", (0, 0, 0), None);
    }

    #[test]
    fn of_a_long_line_the_part_around_the_mark_is_shown() {
        let line = format!("{}X{}", "a".repeat(1_000), "b".repeat(1_000));
        let expected = format!("{}X{}", "a".repeat(40), "b".repeat(79));
        check(&line, (1, 1_001, 1), Some((&expected, 40, 1)));
    }

    #[test]
    fn nothing_a_terminal_acts_on_is_shown() {
        check("a: \u{1b}[2J\t\u{202e}x\n", (1, 4, 2), Some(("a: \u{fffd}[2J \u{fffd}x", 3, 2)));
    }
}
