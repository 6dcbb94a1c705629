//! Reading hostile text.
//!
//! What comes from a model, a file or another machine passes here before anything trusts it: [`json`] reads JSON
//! that every reader would read the same way, [`html`] reads pages for what they show, [`names`] says which names of tools are admitted and which look like
//! each other, [`shell`] says what a script would run, [`clean`] takes out what a terminal would act on and what nobody sees, [`cut`] shortens text without breaking it, [`url`] and
//! [`git_url`] read where to go and [`route`] judges the whole way there; [`secrets`] finds secrets and takes them out; [`host_name`] reads the names of hosts, [`host_entry`] a line of a list of them, [`path_pattern`] which files a rule means, and
//! [`address`] knows which addresses are public. Pure functions over text: nothing here opens
//! anything.

pub mod address;
pub mod clean;
mod cut;
pub mod definition;
pub mod flow;
pub mod git_url;
pub mod host_entry;
pub mod host_name;
pub mod html;
pub mod injection;
pub mod json;
pub mod names;
pub mod owasp;
pub mod path_pattern;
pub mod route;
pub mod secrets;
pub mod shell;
pub mod url;

pub use cut::{NOTICE, cut};
