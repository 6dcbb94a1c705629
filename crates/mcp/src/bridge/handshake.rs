//! Which protocol a server speaks: the stateless one of 2026, or one of those that begin with `initialize`.
//!
//! The question that only a server of the new era can answer is asked first. Whatever else comes back, or nothing in time,
//! means the old way: servers of the old era answer an unknown method with various errors, or not at all.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::peer::{Peer, Trouble};

/// The revision of the stateless era.
pub const MODERN: &str = "2026-07-28";
/// The revisions that begin with `initialize`, the one that is asked for first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Where a request of the stateless era says which revision it is of, what its client can do, and who that is.
pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const INFO: &str = "io.modelcontextprotocol/clientInfo";

/// The number of the error for a revision a server does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;
/// Of the time for a handshake, so much is for the question of the new era: one part of three.
pub(super) const PROBE: u32 = 3;

/// How requests are written for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Every request says by itself who asks.
    Modern,
    /// It was said once, at the beginning, in this revision.
    Legacy(&'static str),
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Greeting {
    /// How it is spoken to.
    pub era: Era,
    /// What it says it can do.
    pub capabilities: Value,
    /// What it is called, by its own word.
    pub server: Value,
}

/// Which questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// That of the new era, then that of the old.
    Both,
    /// That of the old era: it broke when it was asked the other.
    Old,
}

/// Finds out how to speak to a server, within this time.
///
/// It is told that we can do this.
pub(super) async fn greet(peer: &Peer, way: Way, can: &Value, patience: Duration) -> Result<Greeting, Trouble> {
    let until = Instant::now() + patience;
    let left = || until.saturating_duration_since(Instant::now());
    if way == Way::Both
        && let Some(greeting) = discover(peer, patience / PROBE).await?
    {
        return Ok(greeting);
    }
    match peer.ask("initialize", hello(can), left(), None).await {
        Ok(told) => {
            let greeting = legacy(&told)?;
            peer.tell("notifications/initialized", json!({}));
            Ok(greeting)
        }
        // One that is of the new era only, and took its time to start, knows what it was asked before.
        Err(refused @ Trouble::Refused { .. }) if way == Way::Both => discover(peer, left()).await?.ok_or(refused),
        Err(trouble) => Err(trouble),
    }
}

/// Asks what only a server of the new era can answer; none where it is not.
async fn discover(peer: &Peer, patience: Duration) -> Result<Option<Greeting>, Trouble> {
    match peer.ask("server/discover", Era::Modern.params(Map::new(), &json!({})), patience, None).await {
        Ok(told) if speaks_modern(&told) => Ok(Some(modern(&told))),
        Err(Trouble::Gone) => Err(Trouble::Gone),
        Ok(_) | Err(_) => Ok(None),
    }
}

impl Era {
    /// The parameters of a request, as this era wants them, of a client that can do this.
    pub fn params(self, mut params: Map<String, Value>, can: &Value) -> Map<String, Value> {
        if self == Self::Modern {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            meta[VERSION] = json!(MODERN);
            meta[CAPABILITIES] = can.clone();
            meta[INFO] = json!(Who::US);
        }
        params
    }
}

/// Somebody who introduces themselves.
#[derive(Debug, Serialize)]
pub(super) struct Who {
    name: &'static str,
    version: &'static str,
}

impl Who {
    pub(super) const US: Self = Self { name: "toolgate", version: env!("CARGO_PKG_VERSION") };
}

pub(crate) fn hello(can: &Value) -> Map<String, Value> {
    let hello = [("protocolVersion", json!(LEGACY[0])), ("capabilities", can.clone()), ("clientInfo", json!(Who::US))];
    hello.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

pub(crate) fn speaks_modern(told: &Value) -> bool {
    lists_modern(&told["supportedVersions"])
}

/// Does a server that does not take a request name the very revision it was in as one it speaks?
pub(crate) fn says_modern(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Refused { code: UNSUPPORTED_VERSION, data, .. } if lists_modern(&data["supported"]))
}

fn lists_modern(versions: &Value) -> bool {
    versions.as_array().is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

pub(crate) fn modern(told: &Value) -> Greeting {
    let server = &told["_meta"]["io.modelcontextprotocol/serverInfo"];
    Greeting { era: Era::Modern, capabilities: told["capabilities"].clone(), server: server.clone() }
}

pub(crate) fn legacy(told: &Value) -> Result<Greeting, Trouble> {
    let version = told["protocolVersion"].as_str().unwrap_or_default();
    let Some(version) = LEGACY.into_iter().find(|known| *known == version) else {
        let version: String = version.chars().take(40).flat_map(char::escape_default).collect();
        return Err(Trouble::Unusable(format!("it speaks revision `{version}`, which is not known here")));
    };
    let (capabilities, server) = (told["capabilities"].clone(), told["serverInfo"].clone());
    Ok(Greeting { era: Era::Legacy(version), capabilities, server })
}

impl Greeting {
    /// Does it say that it can do this?
    pub fn can(&self, what: &str, how: &str) -> bool {
        self.capabilities[what][how] == true
    }

    /// What of its lists it tells the changes of, in the words of a subscription; none where it tells nothing.
    pub(crate) fn told_changes(&self) -> Option<Value> {
        let lists =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        let told = lists.into_iter().filter(|(what, _)| self.can(what, "listChanged"));
        let wanted: Map<String, Value> = told.map(|(_, word)| (word.to_owned(), json!(true))).collect();
        (!wanted.is_empty()).then_some(Value::Object(wanted))
    }
}
