//! Caps, checked before anything is parsed, and characters a command has no honest use for.
//!
//! A cap never makes a verdict weaker: what is over one is asked about at least, and what was not read in full is
//! searched for denied commands word by word.

/// Longest script that is read at all: the kernel takes no longer argument, so no shell could be given it.
pub const MAX_BYTES: usize = 128 * 1024;
/// Most places in unread text that are held against the rules.
pub(super) const MAX_LOOSE: usize = 4096;
/// Longest script the second parser is asked about: its time grows faster than the text.
pub(super) const MAX_SECOND_BYTES: usize = 64 * 1024;
/// Deepest nesting of brackets, substitutions and compound commands that is parsed.
pub const MAX_NESTING: usize = 32;
/// Most substitutions the second parser is asked about.
pub(super) const MAX_SECOND_SUBSTITUTIONS: usize = 128;
/// Most words in one command that a person could be shown.
pub(super) const MAX_WORDS: usize = 4096;
/// Most links in a chain of operators.
pub(super) const MAX_OPERATORS: usize = 900;
/// How often a command may start a command that starts a command.
pub const MAX_WRAPPERS: usize = 8;
/// Most simple commands in the list; what wrappers start counts too.
pub(super) const MAX_COMMANDS: usize = 4096;

/// How a script nests, counted before anything is parsed.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Deepest nesting of brackets, quotes with substitutions and compound commands.
    pub depth: usize,
    /// Substitutions in all. The second parser reads each again for every level it stands in.
    pub substitutions: usize,
    /// Most operators between two line ends or semicolons.
    pub operators: usize,
}

impl Shape {
    pub(super) fn is_over(&self) -> bool {
        // Each substitution holds a command, and one parser takes a time that grows with the square of their number.
        self.depth > MAX_NESTING || self.operators > MAX_OPERATORS || self.substitutions > MAX_COMMANDS
    }

    /// Follows quotes, and counts too much rather than too little: a word that could open a compound command counts
    /// wherever it stands, one that could close it only where a command starts.
    pub(super) fn of(script: &str) -> Self {
        let mut shape = Self::default();
        let mut open: Vec<char> = Vec::new();
        let mut operators = 0;
        let mut word = String::new();
        let mut word_starts_command = true;
        let mut starts_command = true;
        let mut before = '\n';
        let mut chars = script.chars().chain(['\n']).peekable();
        while let Some(c) = chars.next() {
            let in_quotes = open.last() == Some(&'"');
            if !in_quotes && c.is_ascii_alphabetic() {
                if word.is_empty() {
                    word_starts_command = starts_command;
                }
                if word.len() < 9 {
                    word.push(c);
                }
                starts_command = false;
                before = c;
                continue;
            }
            match &*word {
                "if" | "for" | "while" | "until" | "case" | "select" | "function" | "time" | "coproc" => {
                    open.push('k');
                }
                "fi" | "done" | "esac" if word_starts_command && open.last() == Some(&'k') => drop(open.pop()),
                "do" | "then" | "else" | "elif" => starts_command = true,
                _ => {}
            }
            word.clear();
            match c {
                '\\' => drop(chars.next()),
                '\'' if !in_quotes => drop(chars.by_ref().find(|c| *c == '\'')),
                '#' if !in_quotes && (before.is_whitespace() || before == ';') => {
                    chars.by_ref().take_while(|c| *c != '\n').for_each(drop);
                }
                '"' if in_quotes => drop(open.pop()),
                '"' => open.push('"'),
                '`' if open.last() == Some(&'`') => drop(open.pop()),
                '`' => {
                    shape.substitutions += 1;
                    open.push('`');
                }
                '(' if !in_quotes || before == '$' => {
                    shape.substitutions += usize::from(matches!(before, '$' | '<' | '>'));
                    open.push(')');
                }
                '{' if !in_quotes || before == '$' => open.push('}'),
                '[' if !in_quotes => open.push(']'),
                ')' | '}' | ']' if open.last() == Some(&c) => drop(open.pop()),
                '|' | '&' | '!' | '+' | '-' | '*' | '/' | '%' | '?' | ':' | ',' | '<' | '>' | '=' | '^' => {
                    operators += 1;
                }
                _ => {}
            }
            match c {
                ';' | '\n' => {
                    shape.operators = shape.operators.max(operators);
                    operators = 0;
                    starts_command = true;
                }
                '(' | '{' | '|' | '&' | '`' | '!' => starts_command = true,
                c if c.is_whitespace() => {}
                _ => starts_command = false,
            }
            shape.depth = shape.depth.max(open.len());
            before = c;
        }
        shape
    }
}

/// Is this a character that changes what a person sees, or that no keyboard types?
pub(crate) fn is_odd(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffd}' | '\u{e0000}'..='\u{e0fff}')
}
