//! What was found in a text.

use std::ops::Range;

use serde::Serialize;

/// How many findings of one rule are told one by one.
const EACH: usize = 8;
/// How much of what was hidden is told.
const DETAIL: usize = 400;

/// The kinds of things that are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A sequence meant for a terminal.
    Escape,
    /// Characters nobody sees.
    HiddenText,
}

/// Something in a text that a reader should know of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Of what kind.
    pub kind: Kind,
    /// The rule that found it.
    pub rule: &'static str,
    /// Where, in bytes of the text as it came.
    pub span: Range<usize>,
    /// What it hid, or what it says.
    pub detail: String,
}

/// Findings, bounded: of each rule the first few are kept, of the rest the number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    found: Vec<Finding>,
    counts: Vec<(&'static str, usize)>,
}

impl Findings {
    /// Notes one. The detail is made only if it is kept.
    pub fn note(&mut self, kind: Kind, rule: &'static str, span: Range<usize>, detail: impl FnOnce() -> String) {
        let count = match self.counts.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.counts.push((rule, 1));
                1
            }
        };
        if count <= EACH {
            let mut detail = detail();
            detail.truncate(detail.floor_char_boundary(DETAIL));
            self.found.push(Finding { kind, rule, span, detail });
        }
    }

    /// Adds what was found in another text that says the same. Of a rule that spoke already nothing is added.
    pub fn join(&mut self, other: Self) {
        let known: Vec<&str> = self.counts.iter().map(|(rule, _)| *rule).collect();
        self.found.extend(other.found.into_iter().filter(|finding| !known.contains(&finding.rule)));
        let new: Vec<_> = other.counts.into_iter().filter(|(rule, _)| !known.contains(rule)).collect();
        self.counts.extend(new);
    }

    /// Is there nothing to tell?
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Those that are told, in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.found.iter()
    }

    /// How often each rule spoke.
    pub fn counts(&self) -> &[(&'static str, usize)] {
        &self.counts
    }
}
