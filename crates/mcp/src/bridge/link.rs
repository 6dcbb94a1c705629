//! A server that was greeted: whatever is asked from now on is written as it wants it.

use std::{future::pending, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};
use toolgate_runtime::ServerLine;

use super::{
    ears::{Listening, listen},
    handshake::{Era, Greeting, Way, greet},
    mailbox::Mouth,
    params::Params,
    peer::{Peer, Trouble},
    reading::word,
    web::{Repeated, Web},
};

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A server, and how it is spoken to.
#[derive(Debug, Clone)]
pub struct Link {
    talk: Talk,
    greeting: Greeting,
    /// One at an address is listened to as long as this is there.
    _heard: Option<Arc<Listening>>,
}

#[derive(Debug, Clone)]
enum Talk {
    Lines(Peer),
    Web(Arc<Web>),
}

/// How a server was asked to tell of an address.
#[derive(Debug)]
pub(crate) enum Watched {
    /// By a request that goes on.
    Stream(u64),
    /// By a stream of its own.
    Listening(Listening),
    /// By the address, until it is told otherwise.
    Address(String),
}

fn at(uri: &str) -> Map<String, Value> {
    Map::from_iter([("uri".to_owned(), json!(uri))])
}

impl Link {
    /// Greets a server that is spoken to in lines, within this time.
    ///
    /// `can` is what it may ask for, in the words of an MCP client.
    pub async fn open(peer: Peer, way: Way, can: &Value, patience: Duration) -> Result<Self, Trouble> {
        let greeting = greet(&peer, way, can, patience).await?;
        if let (Era::Modern, Some(wanted)) = (greeting.era, greeting.told_changes()) {
            peer.begin("subscriptions/listen", listening(wanted));
        }
        Ok(Self { talk: Talk::Lines(peer), greeting, _heard: None })
    }

    /// Greets a server that is at an address, within this time.
    pub async fn open_line(line: ServerLine, can: Value, patience: Duration) -> Result<Self, Trouble> {
        let may_ask = can.as_object().is_some_and(|can| !can.is_empty());
        let web = Web::new(line, can, patience);
        let greeting = web.greet().await?;
        let wanted = match greeting.era {
            Era::Modern => greeting.told_changes(),
            // It tells of addresses on the same stream, and may ask there.
            Era::Legacy(_) => {
                let more = greeting.can("resources", "subscribe") || may_ask;
                greeting.told_changes().or_else(|| more.then_some(json!({})))
            }
        };
        let heard = wanted.map(|wanted| Arc::new(listen(&web, greeting.era, wanted)));
        Ok(Self { talk: Talk::Web(web), greeting, _heard: heard })
    }

    /// What it said of itself.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Asks, as [`Peer::ask`] does.
    pub async fn ask(&self, method: &str, params: Map<String, Value>, patience: Duration) -> Result<Value, Trouble> {
        let wanted = Wanted { method, params, mirrored: &[], can: &json!({}) };
        match self.ask_for(&wanted, &Map::new(), Some(patience), None).await? {
            Told::Whole(answer) => Ok(answer),
            // Nobody here can give what it still wants, because it was told so.
            Told::Asks { .. } => Err(of_type("input_required")),
        }
    }

    /// The same, for whoever wants to hear what comes before the answer, and can be asked.
    pub(crate) async fn ask_for(
        &self,
        wanted: &Wanted<'_>,
        brought: &Map<String, Value>,
        patience: Option<Duration>,
        ears: Option<Mouth>,
    ) -> Result<Told, Trouble> {
        let Wanted { method, params, mirrored, can } = wanted;
        let era = self.greeting.era;
        let mut answer = match &self.talk {
            Talk::Lines(peer) => {
                let params = Params { own: params, brought, says: Some((era, can)), progress: None };
                peer.ask_for(method, params, patience, ears).await?
            }
            Talk::Web(web) => {
                let mut whole = params.clone();
                whole.extend(brought.clone());
                let (whole, patience) = (era.params(whole, can), patience.unwrap_or(FOR_EVER));
                Box::pin(web.ask(era, method, whole, mirrored, patience, ears)).await?
            }
        };
        match (answer["resultType"].as_str(), era) {
            (None | Some("complete"), _) => Ok(Told::Whole(answer)),
            (Some("input_required"), Era::Modern) => {
                let requests = match answer["inputRequests"].take() {
                    Value::Object(requests) => requests,
                    Value::Null => Map::new(),
                    _ => return Err(Trouble::Unusable("its questions are none".to_owned())),
                };
                Ok(Told::Asks { requests, state: answer.get("requestState").cloned() })
            }
            (Some(kind), _) => Err(of_type(kind)),
        }
    }

    /// Answers a question a server of the old era has asked, with a result or an error.
    pub(crate) async fn reply(&self, query: &Value, answer: Result<Value, Value>) {
        match &self.talk {
            Talk::Lines(peer) => peer.reply(query, answer).await,
            // What happens seldom does not make every call larger.
            Talk::Web(web) => Box::pin(web.reply(self.greeting.era, query, answer)).await,
        }
    }

    /// Has the server tell of changes of what is at this address, if it can. What is given ends that again.
    pub(crate) async fn watch(&self, uri: &str, patience: Duration) -> Result<Option<Watched>, Trouble> {
        if !self.greeting.can("resources", "subscribe") {
            return Ok(None);
        }
        match (&self.talk, self.greeting.era) {
            (Talk::Lines(peer), Era::Modern) => Ok(peer
                .begin("subscriptions/listen", listening(json!({ "resourceSubscriptions": [uri] })))
                .map(Watched::Stream)),
            (Talk::Web(web), Era::Modern) => {
                let wanted = json!({ "resourceSubscriptions": [uri] });
                Ok(Some(Watched::Listening(listen(web, Era::Modern, wanted))))
            }
            (_, Era::Legacy(_)) => {
                self.ask("resources/subscribe", at(uri), patience).await?;
                Ok(Some(Watched::Address(uri.to_owned())))
            }
        }
    }

    /// Ends it.
    pub(crate) async fn unwatch(&self, watched: Watched, patience: Duration) {
        match watched {
            Watched::Stream(id) => {
                if let Talk::Lines(peer) = &self.talk {
                    peer.end(id);
                }
            }
            Watched::Listening(stream) => drop(stream),
            Watched::Address(uri) => {
                if let Err(trouble) = self.ask("resources/unsubscribe", at(&uri), patience).await {
                    tracing::debug!(%trouble, "a server goes on telling of changes");
                }
            }
        }
    }

    /// The addresses the server says have changed.
    pub(crate) fn news(&self) -> broadcast::Receiver<String> {
        match &self.talk {
            Talk::Lines(peer) => peer.news(),
            Talk::Web(web) => web.ears().news.subscribe(),
        }
    }

    /// Changes whenever the server says that its lists did.
    pub fn changes(&self) -> watch::Receiver<u64> {
        match &self.talk {
            Talk::Lines(peer) => peer.changes(),
            Talk::Web(web) => web.ears().changes.subscribe(),
        }
    }

    /// Returns when the server is gone. One at an address never is: every request finds out anew.
    pub(crate) async fn gone(&self) {
        match &self.talk {
            Talk::Lines(peer) => peer.gone().await,
            Talk::Web(_) => pending().await,
        }
    }

    /// Does it want arguments repeated in headers?
    pub(crate) fn mirrors(&self) -> bool {
        matches!(self.talk, Talk::Web(_)) && self.greeting.era == Era::Modern
    }

    /// Whom calls talk to, where that is another machine.
    pub(crate) fn target(&self) -> Option<String> {
        match &self.talk {
            Talk::Lines(_) => None,
            Talk::Web(web) => Some(web.target()),
        }
    }

    /// What was left behind because it was no message; nothing at an address, where nobody else writes.
    pub fn noise(&self) -> super::Noise {
        match &self.talk {
            Talk::Lines(peer) => peer.noise(),
            Talk::Web(_) => super::Noise::default(),
        }
    }
}

/// Something that is asked of a server.
pub(crate) struct Wanted<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Map<String, Value>,
    /// The arguments that are repeated in headers.
    pub(crate) mirrored: &'a [Repeated],
    /// What whoever asks can do for the server.
    pub(crate) can: &'a Value,
}

/// What a server said to it.
pub(crate) enum Told {
    /// All there is to say.
    Whole(Value),
    /// What it has to know first, and what is to come back with the answers, if anything.
    Asks { requests: Map<String, Value>, state: Option<Value> },
}

fn of_type(kind: &str) -> Trouble {
    Trouble::Unusable(format!("it is of type `{}`, and only a complete one was asked for", word(kind)))
}

/// What is asked of a server of the stateless era so that it tells of changes. One of the old era tells by itself.
pub(crate) fn listening(wanted: Value) -> Map<String, Value> {
    Era::Modern.params(Map::from_iter([("notifications".to_owned(), wanted)]), &json!({}))
}
