//! The management surface: an MCP server of Toolgate itself, for people and the programs that work for them.
//!
//! [`http()`] puts it behind a route whose server proves that a **person** is asking: it has nothing in common with what
//! agents are served but the way messages take. A tool is a value in a table (`tools.rs`), made by one of three builders:
//!
//! - `read` looks, and changes nothing;
//! - `write` takes something away from agents, or adds to what speaks against them; it says why;
//! - `admin` gives agents more, or removes something for good; it says who, why, and that it is meant.
//!
//! That an argument says `confirm` is nobody's consent: a model writes arguments. What counts comes before the arguments are
//! looked at, and it is what the person's token is good for. What changes something is in the record before it happens.
//!
//! Every answer is one JSON object (`answer.rs`), as a value and as text. It is cleaned like the result of any tool, because
//! whoever reads it is probably a model too, and much of it was written by agents and by those they talk to.

mod agents;
mod answer;
mod approvals;
mod args;
mod audit;
mod budgets;
mod catalog;
mod connections;
mod desk;
mod effects;
mod meta;
mod page;
mod policy;
mod rooms;
mod server;
mod servers;
mod tasks;
mod tool;
mod tools;
mod trust;

use std::{fmt, path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::{Extension, Request, State},
    response::Response,
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::Person;
use toolgate_runtime::{
    Runtime,
    store::{Store, state},
    tokens::Proven,
};

use self::{desk::House, server::Server};
use crate::http::Doors;

/// What is managed.
pub struct Setup {
    /// Agents, tools, connections, servers, and what was decided about them.
    pub runtime: Runtime,
    /// Tokens, spending, effects.
    pub state: Arc<dyn state::State>,
    /// Where it is written down what people do here.
    pub store: Arc<dyn Store>,
    /// Where the record is read.
    pub data_dir: PathBuf,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// The management surface over HTTP, until it is told to stop.
///
/// Whoever mounts it proves who is asking: every request carries a [`Proven`] as an extension.
///
/// # Panics
///
/// Outside of a Tokio runtime.
pub fn http(setup: Setup, stop: CancellationToken) -> Router {
    let people = People { house: Arc::new(House::new(setup)), doors: Doors::open(stop) };
    Router::new().fallback(answer).with_state(people)
}

/// Where people come in. A session of one of them does not exist for another.
#[derive(Clone)]
struct People {
    house: Arc<House>,
    doors: Doors<Person, Server>,
}

async fn answer(State(people): State<People>, Extension(who): Extension<Proven>, request: Request) -> Response {
    let house = people.house.clone();
    people.doors.of(who.person, None, move || Server::new(house.clone())).answer(request).await
}
