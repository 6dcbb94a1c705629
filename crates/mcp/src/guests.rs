//! What is kept for each agent, however many ways it is connected by.
//!
//! Tasks, calls that wait for answers and the tickets for them are the agent's: what it began over a pipe it comes back for
//! over HTTP. They are there until the last of its connections has left.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use toolgate_contract::AgentName;

use crate::{Edge, server::Shared};

/// The agents that are connected, and by how many ways.
#[derive(Default)]
pub(crate) struct Guests(Mutex<HashMap<AgentName, (usize, Arc<Shared>)>>);

impl fmt::Debug for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guests").finish_non_exhaustive()
    }
}

impl Edge {
    /// What is kept for an agent that connects. Outside of a Tokio runtime this panics.
    pub(crate) fn enter(&self, agent: &AgentName) -> Arc<Shared> {
        let mut guests = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ways, shared) = guests.entry(agent.clone()).or_insert_with(|| (0, Shared::new(self, agent.clone())));
        *ways += 1;
        shared.clone()
    }

    /// A connection has left. With the last one go what waits for its answers and what it would have come back for.
    pub(crate) async fn leave(&self, agent: &AgentName) {
        let last = {
            let mut guests = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left = guests.get_mut(agent).map(|(ways, _)| {
                *ways -= 1;
                *ways
            });
            if left == Some(0) { guests.remove(agent) } else { None }
        };
        if let Some((_, shared)) = last {
            shared.leave().await;
        }
    }
}
