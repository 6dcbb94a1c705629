//! What was tried and how each try ended: the one line an attack prints.

use std::{fmt::Display, fs, io};

use serde_json::{Value, json};

use crate::{
    child::in_child,
    sys::{Said, number},
};

/// Everything one attack tried.
#[derive(Debug, Default)]
pub(crate) struct Tries(Vec<(String, Ended)>);

/// How a try ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The kernel did it. For the suite that is mostly bad news.
    Ok(String),
    /// The kernel complained.
    Errno(i32),
    /// The one who tried was killed.
    Signal(i32),
}

impl Tries {
    /// Notes a call.
    pub(crate) fn call(&mut self, what: impl Into<String>, said: Said) {
        self.note(what, said.map_or_else(Ended::Errno, |value| Ended::Ok(value.to_string())));
    }

    /// Notes something done through the standard library.
    pub(crate) fn io<T: Display>(&mut self, what: impl Into<String>, done: io::Result<T>) {
        let ended = match done {
            Ok(value) => Ended::Ok(value.to_string()),
            Err(error) => Ended::Errno(number(&error)),
        };
        self.note(what, ended);
    }

    /// Notes something found out, which cannot fail.
    pub(crate) fn found(&mut self, what: impl Into<String>, value: impl Display) {
        self.note(what, Ended::Ok(value.to_string()));
    }

    /// Tries it in a child and notes how the child fared.
    pub(crate) fn in_child(&mut self, what: impl Into<String>, attack: impl FnOnce() -> Said) {
        self.note(what, in_child(attack));
    }

    /// Opens a file and closes it again, without reading or writing a byte.
    pub(crate) fn open(&mut self, what: &str, path: &str, options: &fs::OpenOptions) {
        self.io(format!("{what} {path}"), options.open(path).map(|_| ""));
    }

    /// Notes a try.
    pub(crate) fn note(&mut self, what: impl Into<String>, ended: Ended) {
        self.0.push((what.into(), ended));
    }

    /// The line.
    pub(crate) fn line(&self, case: &str) -> String {
        let tries: Vec<Value> = self.0.iter().map(|(what, ended)| shown(what, ended)).collect();
        json!({ "case": case, "tries": tries }).to_string()
    }
}

fn shown(what: &str, ended: &Ended) -> Value {
    match ended {
        Ended::Ok(detail) => json!({ "what": what, "ok": detail }),
        Ended::Errno(errno) => json!({ "what": what, "errno": errno }),
        Ended::Signal(signal) => json!({ "what": what, "signal": signal }),
    }
}
