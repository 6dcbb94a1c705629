//! What is said to whoever listens to one request. Most requests have nothing said about them, so a mailbox takes next to
//! nothing until something is.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::peer::Said;

/// What is not read yet. Who says more is not heard.
const MOST: usize = 64;

/// A mailbox: what speaks, and what hears.
pub fn mailbox() -> (Mouth, Ear) {
    let inner = Arc::new(Inner::default());
    (Mouth(inner.clone()), Ear(inner))
}

#[derive(Debug, Default)]
struct Inner {
    unread: Mutex<Unread>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Unread {
    said: VecDeque<Said>,
    /// Nobody listens any more.
    left: bool,
}

impl Inner {
    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Speaks to whoever listens.
#[derive(Debug, Clone)]
pub struct Mouth(Arc<Inner>);

impl Mouth {
    /// Says something. Is there somebody who will hear it?
    pub fn say(&self, said: Said) -> bool {
        let mut unread = self.0.unread();
        let is_heard = !unread.left && unread.said.len() < MOST;
        if is_heard {
            unread.said.push_back(said);
            drop(unread);
            self.0.more.notify_one();
        }
        is_heard
    }
}

/// Hears what is said.
#[derive(Debug)]
pub struct Ear(Arc<Inner>);

impl Ear {
    /// The next word. Nothing is lost when the future is dropped.
    pub async fn hear(&mut self) -> Said {
        loop {
            match self.heard() {
                Some(said) => return said,
                None => self.0.more.notified().await,
            }
        }
    }

    /// The next word, if there is one already.
    pub fn heard(&mut self) -> Option<Said> {
        self.0.unread().said.pop_front()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut unread = self.0.unread();
        unread.left = true;
        unread.said.clear();
    }
}
