//! Pull requests on GitHub, GitLab and Forgejo or Gitea, through a connection of the operator's.
//!
//! One road for all: a tool says what it wants in our words, `ask` writes that down the way the forge wants it, `service`
//! sends it, `read` turns the answer into our words again. Titles, bodies, comments and names were written by others;
//! they come back as values of fields and are never taken for anything else.

mod ask;
mod fault;
mod place;
mod pull;
mod read;
mod service;
#[cfg(test)]
mod stage;

pub(crate) mod pr_comment;
pub(crate) mod pr_create;
pub(crate) mod pr_list;
pub(crate) mod pr_merge;
pub(crate) mod pr_view;

use std::time::Duration;

use toolgate_contract::{Caps, ConnectionUse, Effect, EffectKind, Needs, Network};

/// What every tool here needs: the forge and what it knows the operator by.
const NEEDS: Needs = Needs { network: Network::Fenced, secrets: true, ..Needs::NOTHING };

/// How long a call may take: several requests in a row.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A pull request with its text, a hundred comments and three hundred files.
const CAPS: Caps = Caps { output_bytes: 256 * 1024, output_lines: 8_000, ..Caps::DEFAULT };

/// How many calls of one tool run at once.
const AT_ONCE: u32 = 16;

/// The forge is asked. Which machine that is, is named by whoever knows the connection.
fn asks() -> Effect {
    Effect { kind: EffectKind::Network, target: None }
}

/// Others read it.
fn tells(target: impl Into<String>) -> Effect {
    Effect::on(EffectKind::ExternalMessage, target)
}

fn reading(connection: &str) -> Option<ConnectionUse> {
    Some(ConnectionUse { connection: connection.to_owned(), writes: false })
}

fn writing(connection: &str) -> Option<ConnectionUse> {
    Some(ConnectionUse { connection: connection.to_owned(), writes: true })
}
