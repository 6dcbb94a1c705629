//! Cleaning: what the model gets is what a person would see, and bounded. The work is the guard's; here a tool's output is
//! handed to it.

use toolgate_contract::Caps;
pub(crate) use toolgate_guard::clean::result::{Cleaned, found, without_secrets as redact_value};
use toolgate_guard::{
    clean::result::{self, Answer},
    secrets::Redactor,
};
use toolgate_tools::Output;

/// A result fit for the model. What `from` is given as is told where orders are found; without it the text is the caller's
/// own and is not judged.
pub(crate) fn clean(output: Output, caps: &Caps, from: Option<&str>, redactor: &Redactor) -> Cleaned {
    let Output { structured, text, truncated } = output;
    result::clean(Answer { text, structured, truncated }, caps, from, redactor)
}
