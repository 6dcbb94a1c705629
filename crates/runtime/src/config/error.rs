//! What is wrong with a config, where, and what to write instead.

use std::fmt;

/// One thing wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The line it happened on, to show with a caret; none where the file as a whole is meant.
    pub snippet: Option<Snippet>,
}

/// The line an error points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The whole line.
    pub text: String,
    /// How many characters from the column on are meant.
    pub width: usize,
}

/// Something an operator should know, though the config holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u64,
    /// What to know.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "note: {}:{}: {}", self.file, self.line, self.text)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        let gutter = " ".repeat(self.line.to_string().len());
        match &self.snippet {
            None => writeln!(f, "{gutter}--> {}", self.file)?,
            Some(snippet) => {
                let before = usize::try_from(self.column.saturating_sub(1)).unwrap_or(0);
                writeln!(f, "{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
                writeln!(f, "{gutter} |")?;
                writeln!(f, "{} | {}", self.line, snippet.text)?;
                writeln!(f, "{gutter} | {}{}", " ".repeat(before), "^".repeat(snippet.width.max(1)))?;
            }
        }
        write!(f, "{gutter} = {}", self.remedy)
    }
}

impl std::error::Error for ConfigError {}
