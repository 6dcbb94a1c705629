//! What a script comes down to: a flat list of simple commands, each word either known or not.

use std::fmt;

use serde::Serialize;

/// Stands in a guess for a stretch of text nobody knows before the script runs.
pub const UNKNOWN: char = '\u{FFFD}';

/// Why the text of a word is not known before the script runs, the least worrying first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// `$'..'`: the text is known, but spelled so that a reader does not see it.
    Spelled,
    /// A variable every shell sets, such as `HOME` or `?`.
    ShellVariable,
    /// A variable the script itself set.
    ScriptVariable,
    /// `*`, `?`, `[..]`: names of files.
    Glob,
    /// `{a,b}`: several words.
    Braces,
    /// `$(..)` and its relatives: what a command prints. The command is in the list.
    Substitution,
    /// What `xargs` reads or `find` finds.
    Input,
    /// A variable from outside the script, which may hold anything, a secret too.
    Variable,
    /// `~somebody`.
    Tilde,
    /// `${!x}`, `${x@P}` and other expansions that expand twice.
    Twice,
    /// An expansion this reader does not know.
    Unread,
}

impl Why {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spelled => "it is spelled in escapes",
            Self::ShellVariable => "it holds a variable of the shell",
            Self::ScriptVariable => "it holds a variable of the script",
            Self::Glob => "it is a pattern of file names",
            Self::Braces => "it expands to several words",
            Self::Substitution => "it holds what a command prints",
            Self::Input => "it comes from input",
            Self::Variable => "it holds a variable from outside the script",
            Self::Tilde => "it names another user's home",
            Self::Twice => "it is expanded twice",
            Self::Unread => "it holds an expansion that is not understood",
        }
    }
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Exactly this text, quotes and escapes taken away.
    Literal(String),
    /// Known only when it runs.
    Dynamic {
        /// What can be said about it, with [`UNKNOWN`] for the rest.
        guess: String,
        /// The most worrying reason.
        why: Why,
    },
}

impl Word {
    pub(crate) fn new(text: &str) -> Self {
        Self::Literal(text.to_owned())
    }

    pub(crate) fn input() -> Self {
        Self::Dynamic { guess: UNKNOWN.to_string(), why: Why::Input }
    }

    /// The text, or the best guess at it.
    pub fn text(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Dynamic { guess: text, .. } => text,
        }
    }

    /// The text, if it is certain.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic { .. } => None,
        }
    }

    /// Why it is not certain.
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Literal(_) => None,
            Self::Dynamic { why, .. } => Some(*why),
        }
    }

    /// Could it start with a dash when it runs? `*` could: a file may be named `--pre=x`.
    pub fn may_be_option(&self) -> bool {
        match self {
            Self::Literal(text) => text.starts_with('-'),
            Self::Dynamic { guess, .. } => {
                guess.is_empty() || guess.starts_with(['-', UNKNOWN, '*', '?', '[', '{', '@', '+', '!'])
            }
        }
    }

    /// The same word without its first `n` bytes.
    pub(crate) fn after(&self, n: usize) -> Self {
        let rest = self.text().get(n..).unwrap_or_default().to_owned();
        match self {
            Self::Literal(_) => Self::Literal(rest),
            Self::Dynamic { why, .. } => Self::Dynamic { guess: rest, why: *why },
        }
    }
}

impl fmt::Display for Word {
    /// Every character that is not seen is shown escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(self.text()))
    }
}

/// Text as a person may be shown it: what is not seen is escaped, what is not known is a mark.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            UNKNOWN => shown.push_str("<?>"),
            c if super::limits::is_odd(c) || c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// `NAME=value` before a command, or alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its new value.
    pub value: Word,
}

/// Where a redirection leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// `<`
    Read,
    /// `>`, `>|`, `>>`, `&>`, `<>`
    Write,
    /// `<<`, `<<<`: text in the script itself.
    Text,
    /// `2>&1`: to a descriptor that is open already.
    Descriptor,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Its direction.
    pub flow: Flow,
    /// The file, the descriptor or the text.
    pub target: Word,
}

/// Where in the script a command stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The pipeline it is part of.
    pub pipeline: Option<usize>,
    /// Is its input the output of the command before it?
    pub is_fed: bool,
    /// The command in whose words it stands, or that starts it.
    pub parent: Option<usize>,
    /// Is it inside `$(..)`, `<(..)` or the like?
    pub in_substitution: bool,
    /// The function it is part of.
    pub function: Option<String>,
    /// Does it run in a loop?
    pub in_loop: bool,
    /// Does it run in the background?
    pub in_background: bool,
}

/// What a command is to the one it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It does the work itself.
    Plain,
    /// It starts the commands after it and adds nothing: `command`, `time`, `timeout`, `bash -c '..'`.
    Transparent,
    /// It starts the commands after it and is a program to judge by itself: `sudo`, `xargs`, `find -exec`.
    Wrapper,
    /// It calls a function of the script, whose body is in the list.
    Call,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The words, the name first; empty where there are only assignments or redirections.
    pub argv: Vec<Word>,
    /// The name without its directory, and for `git` the arguments without its global options.
    pub words: Vec<Word>,
    /// Variables set for it, or set in the script if it has no words.
    pub assignments: Vec<Assignment>,
    /// Where its input and output lead.
    pub redirects: Vec<Redirect>,
    /// Where it stands.
    pub context: Context,
    /// What it is to the command it starts.
    pub role: Role,
    /// The directory it runs in, if that is certain.
    pub cwd: Option<String>,
    /// Is the name looked up in `PATH`, or in a directory of the system?
    pub is_system_program: bool,
}

impl Command {
    /// The program, without its directory; empty if there is none.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", Word::text)
    }

    /// Its arguments, normalised.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Arguments that are not options.
    pub fn operands(&self) -> impl Iterator<Item = &Word> {
        let end = self.args().iter().position(|word| word.text() == "--").unwrap_or(self.args().len());
        let is_operand = move |(at, word): &(usize, &Word)| {
            *at > end || (*at < end && (!word.text().starts_with('-') || word.text() == "-"))
        };
        self.args().iter().enumerate().filter(is_operand).map(|(_, word)| word)
    }

    /// Options, up to `--`.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        let options = self.args().iter().map(Word::text).take_while(|word| *word != "--");
        options.filter(|word| word.len() > 1 && word.starts_with('-'))
    }

    /// Is a one-letter option given, alone or in a cluster?
    pub fn has_short(&self, letter: char) -> bool {
        self.options().any(|option| !option.starts_with("--") && option[1..].contains(letter))
    }

    /// Is a long option given, in full or shortened as most programs allow?
    pub fn has_long(&self, name: &str) -> bool {
        self.options().any(|option| {
            let given = option.split('=').next().unwrap_or(option);
            given == name || (given.len() >= 4 && given.starts_with("--") && name.starts_with(given))
        })
    }

    /// As a person would type it.
    pub fn shown(&self) -> String {
        self.argv.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}
