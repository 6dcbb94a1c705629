//! When the tools of an agent change, those who listen are told: in the older revisions everybody, from 2026-07-28 on those
//! who subscribed.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use rmcp::{
    RoleServer,
    service::{Peer, SubscriptionContext},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_contract::{AgentName, Digest, Fault};
use toolgate_runtime::Runtime;

/// How often somebody looks for what nothing signals: another process pins a tool, an agent is trusted more or less.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is looked whether the other side is still there.
const THERE: Duration = Duration::from_secs(60);

/// The hash of the list of one agent, as it was last seen.
#[derive(Debug)]
pub(crate) struct Changes {
    seen: watch::Sender<Digest>,
    /// Ends the looking with this.
    _gone: DropGuard,
}

impl Changes {
    /// Follows the list for as long as somebody has what is returned. It looks only while somebody listens, so the first of
    /// them may be told of what changed before; nobody misses what changes after they were shown the list.
    pub(crate) fn follow(runtime: Runtime, agent: AgentName) -> Arc<Self> {
        let seen = list(&runtime, &agent).unwrap_or_else(|_| Digest::of(b""));
        let gone = CancellationToken::new();
        let changes = Arc::new(Self { seen: watch::Sender::new(seen), _gone: gone.clone().drop_guard() });
        let follow = follow(Arc::downgrade(&changes), runtime, agent);
        tokio::spawn(async move { gone.run_until_cancelled(follow).await });
        changes
    }

    pub(crate) fn listen(&self) -> watch::Receiver<Digest> {
        self.seen.subscribe()
    }
}

async fn follow(changes: Weak<Changes>, runtime: Runtime, agent: AgentName) {
    let mut signals = runtime.catalog_changes();
    loop {
        let Some(held) = changes.upgrade() else { return };
        if held.seen.receiver_count() > 0 {
            let looked = runtime.trust().look(&agent).await.and_then(|()| list(&runtime, &agent));
            match looked {
                Ok(list) => _ = held.seen.send_if_modified(|seen| std::mem::replace(seen, list) != list),
                Err(fault) => tracing::debug!(%fault, "the tools of an agent cannot be looked at"),
            }
        }
        drop(held);
        tokio::select! {
            _ = signals.changed() => {}
            () = sleep(LOOK) => {}
        }
    }
}

/// What the list amounts to: every tool by the hash of its definition.
fn list(runtime: &Runtime, agent: &AgentName) -> Result<Digest, Fault> {
    let tools = runtime.definitions(agent)?;
    let lines: Vec<_> = tools.iter().map(|tool| format!("{} {}\n", tool.def.name, tool.digest)).collect();
    Ok(Digest::of(lines.concat().as_bytes()))
}

/// Tells a client of an older revision until it is gone.
pub(crate) async fn tell(mut changes: watch::Receiver<Digest>, peer: Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() || peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
            () = sleep(THERE) => {}
        }
    }
}

/// Tells somebody who subscribed until they have heard enough.
pub(crate) async fn serve(mut changes: watch::Receiver<Digest>, subscription: &SubscriptionContext) {
    let wanted = subscription.accepted().tools_list_changed == Some(true);
    loop {
        tokio::select! {
            () = subscription.cancelled() => return,
            changed = changes.changed(), if wanted => {
                if changed.is_err() || subscription.sink().notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
