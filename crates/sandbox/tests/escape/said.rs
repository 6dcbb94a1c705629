//! What the probe said: each try and how it ended.

use std::collections::BTreeMap;

use serde_json::Value;

/// The probe's line, read.
#[derive(Debug)]
pub(crate) struct Said(BTreeMap<String, Ended>);

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Ok(String),
    Errno(i32),
    Signal(i32),
}

/// What a wall answers: not permitted, no access, not there, read-only, no such call, or a path that leads nowhere.
pub(crate) const REFUSALS: [i32; 7] =
    [libc::EPERM, libc::EACCES, libc::ENOENT, libc::EROFS, libc::ENOSYS, libc::ENOTDIR, libc::ELOOP];

/// What the system-call filter answers.
pub(crate) const FILTERED: [i32; 2] = [libc::EPERM, libc::ENOSYS];

impl Said {
    /// The last line is the attack's own.
    pub(crate) fn read(text: &str) -> Self {
        let line = text.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("the probe said {text:?}"));
        let tries = value["tries"].as_array().expect("a list of tries");
        Self(tries.iter().map(|one| (one["what"].as_str().expect("a name").to_owned(), ended(one))).collect())
    }

    /// How this try ended.
    pub(crate) fn of(&self, what: &str) -> Ended {
        self.0.get(what).unwrap_or_else(|| panic!("`{what}` was not tried: {:?}", self.names())).clone()
    }

    /// What it answered. It must have worked.
    pub(crate) fn ok(&self, what: &str) -> String {
        match self.of(what) {
            Ended::Ok(detail) => detail,
            other => panic!("`{what}` ended as {other:?}"),
        }
    }

    /// What it answered, as a number. It must have worked.
    pub(crate) fn number(&self, what: &str) -> u64 {
        self.ok(what).parse().unwrap_or_else(|_| panic!("`{what}` is not a number: {self:?}"))
    }

    /// The tries.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Those that worked.
    pub(crate) fn worked(&self) -> Vec<&str> {
        self.0.iter().filter(|(_, ended)| matches!(ended, Ended::Ok(_))).map(|(what, _)| what.as_str()).collect()
    }

    /// Every try was refused with one of these, or killed by the filter.
    pub(crate) fn all_refused_with(&self, errnos: &[i32]) {
        self.all_refused_but(&[], errnos);
    }

    /// Every try was refused by a wall.
    pub(crate) fn all_refused(&self) {
        self.all_refused_with(&REFUSALS);
    }

    /// The same, leaving these out.
    pub(crate) fn all_refused_but(&self, known: &[&str], errnos: &[i32]) {
        assert!(!self.0.is_empty(), "nothing was tried");
        let open: Vec<_> = self
            .0
            .iter()
            .filter(|(what, _)| !known.contains(&what.as_str()))
            .filter(|(_, ended)| !is_refused(ended, errnos))
            .collect();
        assert!(open.is_empty(), "not refused: {open:?}");
    }
}

fn is_refused(ended: &Ended, errnos: &[i32]) -> bool {
    match ended {
        Ended::Ok(_) => false,
        Ended::Errno(errno) => errnos.contains(errno),
        Ended::Signal(signal) => *signal == libc::SIGSYS,
    }
}

fn ended(one: &Value) -> Ended {
    let number = |key: &str| one[key].as_i64().map(|number| number as i32);
    match (one["ok"].as_str(), number("errno"), number("signal")) {
        (Some(detail), ..) => Ended::Ok(detail.to_owned()),
        (_, Some(errno), _) => Ended::Errno(errno),
        (.., Some(signal)) => Ended::Signal(signal),
        _ => panic!("a try without an end: {one}"),
    }
}
