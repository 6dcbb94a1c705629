//! What a call would start, in the words it would be started with.

use std::collections::BTreeMap;

/// What a call would start. The gate reads it before anything runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The words.
    pub form: CommandForm,
    /// The directory it starts in, as the call names it; none for the workspace.
    pub cwd: Option<String>,
    /// Variables set for it.
    pub env: BTreeMap<String, String>,
}

/// In which form the words are, and so who looks at them first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandForm {
    /// A program and its arguments, which no shell looks at.
    Argv(Vec<String>),
    /// A script for a shell.
    Script(String),
    /// Text for a program that is running: a shell perhaps, perhaps not.
    Typed(String),
}

impl CommandLine {
    /// In the workspace, with nothing set.
    pub fn new(form: CommandForm) -> Self {
        Self { form, cwd: None, env: BTreeMap::new() }
    }

    /// The program it starts; none where it starts none of its own.
    pub fn program(&self) -> Option<&str> {
        match &self.form {
            CommandForm::Argv(argv) => argv.first().map(String::as_str),
            CommandForm::Script(_) => Some("bash"),
            CommandForm::Typed(_) => None,
        }
    }
}
