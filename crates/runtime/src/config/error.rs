//! What is wrong with a config, where, and what to write instead.

use std::fmt;

/// One thing wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ConfigError {
    /// The file, as it was opened.
    pub file: String,
    /// Counting from 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// Counting characters from 1; 0 where the file as a whole is meant.
    pub column: u64,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to write instead: one sentence.
    pub remedy: String,
    /// The line it points at; none where the file as a whole is meant.
    pub snippet: Option<Box<Snippet>>,
}

/// The line an error points at, fit to be shown on a terminal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Snippet {
    /// The line, or the part of a long one that matters.
    pub text: String,
    /// How many characters come before the marked ones.
    pub before: usize,
    /// How many characters are marked.
    pub marked: usize,
}

/// Something an operator should know, though the config holds.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u64,
    /// What to know.
    pub text: String,
}

impl ConfigError {
    /// An error about a file as a whole.
    pub(super) fn whole(file: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into(), remedy: remedy.into(), snippet: None }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        let Some(snippet) = &self.snippet else {
            match self.line {
                0 => writeln!(f, " --> {}", self.file)?,
                line => writeln!(f, " --> {}:{line}", self.file)?,
            }
            return write!(f, "  = {}", self.remedy);
        };
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        writeln!(f, "{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", snippet.text)?;
        writeln!(f, "{gutter} | {}{}", " ".repeat(snippet.before), "^".repeat(snippet.marked))?;
        write!(f, "{gutter} = {}", self.remedy)
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "note: {}:{}: {}", self.file, self.line, self.text)
    }
}
