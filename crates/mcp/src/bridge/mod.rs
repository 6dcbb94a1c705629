//! The way to other MCP servers, whose tools take the same road as our own.
//!
//! [`Bridge`] connects the servers of the config. Each runs in a room or is reached through the judged client
//! (`server.rs`); its messages are read (`peer.rs`, `web.rs`, `reading.rs`), it is found out how it is spoken to (`handshake.rs`, `link.rs`), and
//! all of its tools are asked for (`listing.rs`) and handed to the runtime, which pins, holds back and names them. Results are
//! passed on as the JSON they are: what this program has no word for is neither lost nor a reason to fail.

mod calls;
mod ears;
mod events;
mod handshake;
mod link;
mod listing;
mod mailbox;
mod params;
mod peer;
pub(crate) mod policy;
mod reading;
mod server;
mod talk;
mod web;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_contract::{CALL_TOOL, DISCOVERY, Fault};
use toolgate_runtime::{Runtime, definitions::Registered};

pub use handshake::{Era, Greeting, LEGACY, MODERN, Way};
pub use link::Link;
pub use listing::{Listing, list};
pub use mailbox::{Ear, Mouth, mailbox};
pub use peer::{MOST_LINE, Noise, Peer, Query, Said, Step, Trouble};

use server::{FirstTry, Server};

/// The servers of a runtime's config. Dropping it ends them all.
pub struct Bridge {
    runtime: Runtime,
    servers: BTreeMap<String, Arc<Server>>,
    stop: CancellationToken,
    _end: DropGuard,
}

/// What became of the first try to connect a server.
pub type Connected = Result<Vec<Registered>, Fault>;

impl Bridge {
    /// The servers that are not switched off. Nothing is started yet.
    pub fn new(runtime: &Runtime) -> Self {
        let configured = runtime.config().servers.iter().filter(|(_, server)| !server.value.disabled);
        let servers = configured.map(|(name, server)| (name.clone(), Arc::new(Server::new(name, &server.value))));
        let stop = CancellationToken::new();
        Self { runtime: runtime.clone(), servers: servers.collect(), _end: stop.clone().drop_guard(), stop }
    }

    /// The servers a call needs: the one its tool would be of, or the tool it stands for; all where it looks for tools.
    pub fn servers_for(&self, tool: &str, arguments: &Value) -> Vec<String> {
        let tool = match tool {
            CALL_TOOL => arguments.get("name").and_then(Value::as_str).unwrap_or_default(),
            tool => tool,
        };
        match tool.split_once("__") {
            _ if DISCOVERY.contains(&tool) => self.servers.keys().cloned().collect(),
            Some((server, _)) if self.servers.contains_key(server) => vec![server.to_owned()],
            Some(_) | None => Vec::new(),
        }
    }

    /// Connects one server, and keeps it from then on.
    pub async fn connect(&self, name: &str) -> Connected {
        match self.begin(name) {
            Some(first) => first.await.unwrap_or_else(|_| Err(gave_up(name))),
            None => {
                let message = format!("there is no server `{name}`, or it is switched off");
                Err(Fault::refused("unknown_server", message, "Name one that `toolgate mcp list` shows."))
            }
        }
    }

    /// Begins to connect all servers, and keeps them from then on. Nobody waits for them here.
    pub fn begin_all(&self) {
        self.servers.keys().for_each(|name| drop(self.begin(name)));
    }

    /// Connects all servers, and keeps them from then on. Whatever takes longer than a handshake may goes on behind it: one
    /// that is slow or broken holds up nobody else.
    pub async fn connect_all(&self) -> BTreeMap<String, Connected> {
        let longest = self.servers.values().map(|server| server.handshake()).max().unwrap_or(Duration::ZERO);
        let connecting = self.servers.keys().filter_map(|name| {
            let first = self.begin(name)?;
            Some(async move { (name.clone(), timeout(longest, first).await) })
        });
        let connected = join_all(connecting).await.into_iter().map(|(name, first)| match first {
            Ok(Ok(first)) => (name, first),
            Ok(Err(_)) | Err(_) => {
                let late = gave_up(&name);
                (name, Err(late))
            }
        });
        connected.collect()
    }

    fn begin(&self, name: &str) -> Option<oneshot::Receiver<Connected>> {
        let server = self.servers.get(name)?;
        let (tell, first) = oneshot::channel();
        let first_try = FirstTry { tell, _arriving: self.runtime.server_arriving(name) };
        let (keeping, stop) = (server.clone().keep(self.runtime.clone(), first_try), self.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = keeping => {}
                () = stop.cancelled() => {}
            }
        });
        Some(first)
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}

fn gave_up(name: &str) -> Fault {
    let message = format!("server `{name}` is not connected yet");
    Fault::failed("server_unavailable", message, "Try again later.").retryable()
}
