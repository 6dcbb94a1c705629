//! Whoever is shown what servers offer is shown what they offer now: they are asked again first, because a server need not say
//! that something changed.

use std::{collections::BTreeMap, future::pending, time::Duration};

use tokio::{sync::watch, time::timeout};

/// How long a server that is slow to list is waited for. What it listed before is shown then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who wants to be shown what servers list, and what has been listed since.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    /// How often somebody wanted it.
    wanted: watch::Sender<u64>,
    /// By server that is connected.
    listed: watch::Sender<BTreeMap<String, Listed>>,
}

/// What a server has listed.
#[derive(Debug)]
struct Listed {
    /// Up to which of those who wanted it.
    seen: u64,
    /// It kept somebody waiting in vain, and has not listed anything since: nobody else waits for it.
    is_late: bool,
}

impl Listings {
    pub(crate) fn lister(&self, server: &str) -> Lister {
        let wanted = self.wanted.subscribe();
        let known = *wanted.borrow();
        self.listed.send_modify(|listed| _ = listed.insert(server.to_owned(), Listed { seen: known, is_late: false }));
        Lister { server: server.to_owned(), wanted, listed: self.listed.clone() }
    }

    /// Has every server that is connected list what it has, and waits for those that do soon.
    pub(crate) async fn again(&self) {
        let mut listed = self.listed.subscribe();
        if listed.borrow().is_empty() {
            return;
        }
        let mut now = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            now = *wanted;
        });
        let all = listed.wait_for(|listed| listed.values().all(|it| it.is_late || it.seen >= now));
        if timeout(PATIENCE, all).await.is_err() {
            let late = |listed: &mut BTreeMap<String, Listed>| {
                listed.values_mut().filter(|it| it.seen < now).for_each(|it| it.is_late = true);
            };
            self.listed.send_modify(late);
        }
    }
}

/// A server that lists what it has whenever somebody is about to be shown it, until this is dropped.
#[derive(Debug)]
pub struct Lister {
    server: String,
    wanted: watch::Receiver<u64>,
    listed: watch::Sender<BTreeMap<String, Listed>>,
}

impl Lister {
    /// Waits until somebody is about to be shown what it lists.
    pub async fn wanted(&mut self) {
        if self.wanted.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    /// Who wants to be shown it until now: to be told to [`Lister::listed`] once it was listed after this.
    pub fn viewers(&mut self) -> u64 {
        *self.wanted.borrow_and_update()
    }

    /// What these are about to be shown is what it lists.
    pub fn listed(&self, viewers: u64) {
        let listed = Listed { seen: viewers, is_late: false };
        self.listed.send_modify(|all| _ = all.insert(self.server.clone(), listed));
    }
}

impl Drop for Lister {
    fn drop(&mut self) {
        self.listed.send_modify(|listed| _ = listed.remove(&self.server));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_list_keeps_one_waiting_and_nobody_after_that() {
        let listings = Listings::default();
        let waited = async || {
            let since = Instant::now();
            listings.again().await;
            since.elapsed()
        };
        assert_eq!(waited().await, Duration::ZERO, "there is nobody to ask");
        let mut mute = listings.lister("mute");
        assert_eq!((waited().await, waited().await), (PATIENCE, Duration::ZERO));
        // Once it has listed something it is waited for again.
        let viewers = mute.viewers();
        mute.listed(viewers);
        assert_eq!(waited().await, PATIENCE);
        drop(mute);
        assert_eq!(waited().await, Duration::ZERO);
    }
}
