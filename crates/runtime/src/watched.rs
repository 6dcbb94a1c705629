//! What agents want to be told of when it changes: addresses of servers, for as long as somebody watches them.
//!
//! Watching gives nobody anything but the word that it is worth reading again, and reading is a call. So it is no call
//! itself: whoever may read an address may watch it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::sync::{broadcast, watch};

/// Addresses of one server that are watched at once.
const MOST: usize = 256;
/// News that wait for somebody who does not listen. What is lost is only how often something changed.
const UNHEARD: usize = 256;

/// An address and how many watch it, by server.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whose.
    pub server: Arc<str>,
    /// What.
    pub uri: Arc<str>,
}

/// Everything that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    counts: Arc<watch::Sender<Counts>>,
    news: broadcast::Sender<News>,
}

impl Default for Watched {
    fn default() -> Self {
        Self { counts: Arc::new(watch::Sender::default()), news: broadcast::Sender::new(UNHEARD) }
    }
}

impl Watched {
    pub(crate) fn watch(&self, server: &str, uri: &str) -> Option<Watching> {
        let mut is_taken = false;
        self.counts.send_if_modified(|counts| {
            let of_server = counts.entry(server.to_owned()).or_default();
            is_taken = of_server.len() < MOST || of_server.contains_key(uri);
            if !is_taken {
                return false;
            }
            let count = of_server.entry(uri.to_owned()).or_default();
            *count += 1;
            *count == 1
        });
        is_taken.then(|| Watching { counts: self.counts.clone(), server: server.to_owned(), uri: uri.to_owned() })
    }

    pub(crate) fn of(&self, server: &str) -> OfServer {
        OfServer { counts: self.counts.subscribe(), server: server.to_owned() }
    }

    /// Only of what is watched: a server that tells of other things is not listened to.
    pub(crate) fn tell(&self, server: &str, uri: &str) {
        let is_watched = self.counts.borrow().get(server).is_some_and(|of_server| of_server.contains_key(uri));
        if is_watched {
            // Whoever watched may have gone.
            let _ = self.news.send(News { server: server.into(), uri: uri.into() });
        }
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}

/// Somebody watches an address.
#[derive(Debug)]
pub struct Watching {
    counts: Arc<watch::Sender<Counts>>,
    server: String,
    uri: String,
}

impl Watching {
    /// Is this about what is watched?
    pub fn is(&self, news: &News) -> bool {
        *news.server == *self.server && *news.uri == *self.uri
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.counts.send_if_modified(|counts| {
            let Some(of_server) = counts.get_mut(&self.server) else { return false };
            match of_server.get_mut(&self.uri) {
                Some(count) if *count > 1 => {
                    *count -= 1;
                    false
                }
                _ => of_server.remove(&self.uri).is_some(),
            }
        });
    }
}

/// What is watched of one server.
#[derive(Debug, Clone)]
pub struct OfServer {
    counts: watch::Receiver<Counts>,
    server: String,
}

impl OfServer {
    /// The addresses.
    pub fn now(&mut self) -> BTreeSet<String> {
        let counts = self.counts.borrow_and_update();
        counts.get(&self.server).map(|of_server| of_server.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns when they may be others. Never again when nobody can watch any more.
    pub async fn changed(&mut self) {
        if self.counts.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_watched_for_as_long_as_somebody_does() {
        let watched = Watched::default();
        let mut of_server = watched.of("s");
        let (one, two) = (watched.watch("s", "a:b").unwrap(), watched.watch("s", "a:b").unwrap());
        let other = watched.watch("other", "a:b").unwrap();
        let expected = |uris: &[&str]| uris.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        assert_eq!(of_server.now(), expected(&["a:b"]));
        drop((one, other));
        assert_eq!(of_server.now(), expected(&["a:b"]));
        drop(two);
        assert_eq!(of_server.now(), expected(&[]));
        let many: Vec<_> = (0..=MOST).map(|at| watched.watch("s", &format!("a:{at}"))).collect();
        assert_eq!(many.iter().filter(|watching| watching.is_some()).count(), MOST);
    }

    #[test]
    fn nobody_hears_of_what_nobody_watches() {
        let watched = Watched::default();
        let mut news = watched.news();
        let watching = watched.watch("s", "a:b").unwrap();
        for (server, uri) in [("s", "a:c"), ("other", "a:b"), ("s", "a:b")] {
            watched.tell(server, uri);
        }
        let heard = news.try_recv().unwrap();
        assert!(watching.is(&heard));
        assert_eq!(heard, News { server: "s".into(), uri: "a:b".into() });
        assert!(news.try_recv().is_err());
    }
}
