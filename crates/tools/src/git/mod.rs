//! Version control: git, in the call's room.
//!
//! A tool here says what it wants of git in typed parts (`git.rs`, `name.rs`), git runs on a repository of the workspace
//! without knowing that repository's config (`repository.rs`, `config.rs`), and what it prints for programs is read into
//! types. Other repositories are reached by an address that was read and judged before (`remote.rs`).

mod changes;
mod config;
mod fault;
mod git;
mod name;
mod remote;
mod repository;
mod submodules;

pub(crate) mod blame;
pub(crate) mod branch;
pub(crate) mod clone;
pub(crate) mod commit;
pub(crate) mod diff;
pub(crate) mod fetch;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod show;
pub(crate) mod stash;
pub(crate) mod status;
pub(crate) mod tag;

use std::time::Duration;

use toolgate_contract::{Effect, EffectKind, Files, Needs, Network};

/// What a tool needs that looks at a repository.
const LOOKS: Needs = Needs { files: Files::Read, exec: true, ..Needs::NOTHING };
/// What a tool needs that changes one.
const CHANGES: Needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
/// What a tool needs that talks to another one.
const TALKS: Needs = Needs { files: Files::Write, exec: true, network: Network::Fenced, secrets: true };

/// How long a call may take that runs a few gits here.
const TIMEOUT: Duration = Duration::from_secs(git::LOCAL_SECONDS + 60);
/// How long a call may take that talks to a remote.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(git::REMOTE_SECONDS + 120);

/// How many calls of one tool run at once.
const AT_ONCE: u32 = 16;

/// How many entries a list has at most.
const MOST: usize = 500;

/// An effect on the files of a repository.
fn on(kind: EffectKind, repository: Option<&str>) -> Effect {
    Effect::on(kind, repository.unwrap_or("."))
}

fn origin() -> String {
    "origin".to_owned()
}
