//! When what an agent is shown changes, those who listen are told: in the older revisions everybody, from 2026-07-28 on those
//! who subscribed.

use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::ResourceUpdatedNotificationParam,
    service::{Peer, SubscriptionContext},
};
use tokio::{
    sync::{broadcast, watch},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_contract::{AgentName, Digest, Fault};
use toolgate_runtime::{Listed, News, Runtime, ToolList};

use crate::{offers::Watchings, prompts, resources, server::names};

/// How often somebody looks for what nothing signals: another process pins a tool, an agent is trusted more or less.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is looked whether the other side is still there.
const THERE: Duration = Duration::from_secs(60);

/// The hashes of the lists of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lists {
    tools: Digest,
    /// With those the agent has loaded, as the older revisions show them.
    grown: Digest,
    prompts: Digest,
    resources: Digest,
}

/// The lists of one agent, as they were last seen.
#[derive(Debug)]
pub(crate) struct Changes {
    seen: watch::Sender<Lists>,
    /// Ends the looking with this.
    _gone: DropGuard,
}

impl Changes {
    /// Follows the lists for as long as somebody has what is returned. What nothing signals it looks for only while somebody
    /// listens, so the first of them may be told of what changed before.
    pub(crate) fn follow(runtime: Runtime, agent: AgentName) -> Arc<Self> {
        let nothing = Digest::of(b"");
        let seen = Lists::now(&runtime, &agent);
        let seen = seen.unwrap_or(Lists { tools: nothing, grown: nothing, prompts: nothing, resources: nothing });
        let gone = CancellationToken::new();
        let changes = Arc::new(Self { seen: watch::Sender::new(seen), _gone: gone.clone().drop_guard() });
        let follow = follow(Arc::downgrade(&changes), runtime, agent);
        tokio::spawn(async move { gone.run_until_cancelled(follow).await });
        changes
    }

    /// The lists as they were last seen.
    pub(crate) fn now(&self) -> Lists {
        *self.seen.borrow()
    }

    pub(crate) fn listen(&self) -> watch::Receiver<Lists> {
        self.seen.subscribe()
    }
}

async fn follow(changes: Weak<Changes>, runtime: Runtime, agent: AgentName) {
    let (mut signals, mut loaded) = (runtime.catalog_changes(), runtime.loaded_changes());
    let mut is_signalled = false;
    loop {
        let Some(held) = changes.upgrade() else { return };
        // Also while nobody listens: whoever comes next was shown the list as it is now, and not as it was before.
        if is_signalled || held.seen.receiver_count() > 0 {
            let looked = runtime.trust().look(&agent).await.and_then(|()| Lists::now(&runtime, &agent));
            match looked {
                Ok(lists) => _ = held.seen.send_if_modified(|seen| std::mem::replace(seen, lists) != lists),
                Err(fault) => tracing::debug!(%fault, "the lists of an agent cannot be looked at"),
            }
        }
        drop(held);
        is_signalled = tokio::select! {
            _ = signals.changed() => true,
            _ = loaded.changed() => true,
            () = sleep(LOOK) => false,
        };
    }
}

impl Lists {
    /// What the lists amount to: every tool by the hash of its definition, everything else by what is said of it. Our own
    /// prompts are those whose tools are there.
    fn now(runtime: &Runtime, agent: &AgentName) -> Result<Self, Fault> {
        let told = |tools: Vec<Listed>| -> Vec<String> {
            tools.iter().map(|tool| format!("{} {}\n", tool.def.name, tool.digest)).collect()
        };
        let tools = told(runtime.offered(agent, ToolList::Fixed)?);
        let grown = told(runtime.offered(agent, ToolList::Growing)?);
        let all = runtime.definitions(agent)?;
        let own: Vec<String> = prompts::list(&names(&all)).into_iter().map(|prompt| prompt.name).collect();
        let library = runtime.library(agent)?;
        let prompts: Vec<String> = library.prompts().map(|prompt| format!("{}\n", prompt.entry)).collect();
        let may = |tool: &str| runtime.knows(agent, tool);
        let ours = resources::list(&all, may).into_iter().map(|resource| resource.uri.clone());
        let ours = ours.chain(resources::templates(may).into_iter().map(|template| template.uri_template.clone()));
        let theirs = library.resources().chain(library.templates());
        let readable: Vec<String> =
            ours.chain(theirs.map(ToString::to_string)).map(|entry| format!("{entry}\n")).collect();
        let hash = |lines: &[&[String]]| Digest::of(lines.concat().concat().as_bytes());
        let (tools, grown) = (hash(&[&tools]), hash(&[&grown]));
        Ok(Self { tools, grown, prompts: hash(&[&own, &prompts]), resources: hash(&[&readable]) })
    }
}

/// Which lists changed, whoever follows them.
struct Follower {
    lists: watch::Receiver<Lists>,
    told: Lists,
}

/// A list that changed.
#[derive(Clone, Copy)]
enum Changed {
    Tools,
    Grown,
    Prompts,
    Resources,
}

impl Follower {
    /// For somebody who came when the lists were these.
    fn since(mut lists: watch::Receiver<Lists>, told: Lists) -> Self {
        lists.mark_changed();
        Self { lists, told }
    }

    fn of(mut lists: watch::Receiver<Lists>) -> Self {
        let told = *lists.borrow_and_update();
        Self { lists, told }
    }

    /// The lists that are others than they were; none when nobody looks any more.
    async fn next(&mut self) -> Option<Vec<Changed>> {
        self.lists.changed().await.ok()?;
        let (before, now) = (self.told, *self.lists.borrow_and_update());
        self.told = now;
        let all = [
            (Changed::Tools, before.tools != now.tools),
            (Changed::Grown, before.grown != now.grown),
            (Changed::Prompts, before.prompts != now.prompts),
            (Changed::Resources, before.resources != now.resources),
        ];
        Some(all.into_iter().filter(|(_, changed)| *changed).map(|(list, _)| list).collect())
    }
}

/// The next thing that changed and is watched by somebody. Who does not keep up may miss how often.
async fn next(news: &mut broadcast::Receiver<News>) -> News {
    loop {
        match news.recv().await {
            Ok(news) => return news,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => pending::<()>().await,
        }
    }
}

/// Tells a client of an older revision until it is gone.
pub(crate) async fn tell(
    lists: watch::Receiver<Lists>,
    known: Lists,
    mut news: broadcast::Receiver<News>,
    watched: Weak<Mutex<Watchings>>,
    peer: Peer<RoleServer>,
) {
    let mut lists = Follower::since(lists, known);
    while !peer.is_transport_closed() {
        tokio::select! {
            changed = lists.next() => {
                let Some(changed) = changed else { return };
                for list in changed {
                    let told = match list {
                        Changed::Tools => Ok(()),
                        Changed::Grown => peer.notify_tool_list_changed().await,
                        Changed::Prompts => peer.notify_prompt_list_changed().await,
                        Changed::Resources => peer.notify_resource_list_changed().await,
                    };
                    if told.is_err() {
                        return;
                    }
                }
            }
            news = next(&mut news) => {
                let Some(watched) = watched.upgrade() else { return };
                let is_watched = watched.lock().unwrap_or_else(PoisonError::into_inner).values().any(|it| it.is(&news));
                let param = ResourceUpdatedNotificationParam::new(news.uri.to_string());
                if is_watched && peer.notify_resource_updated(param).await.is_err() {
                    return;
                }
            }
            () = sleep(THERE) => {}
        }
    }
}

/// Tells somebody who subscribed until they have heard enough.
pub(crate) async fn serve(
    lists: watch::Receiver<Lists>,
    mut news: broadcast::Receiver<News>,
    watched: Watchings,
    subscription: &SubscriptionContext,
) {
    let (accepted, sink) = (subscription.accepted(), subscription.sink());
    let mut lists = Follower::of(lists);
    loop {
        tokio::select! {
            () = subscription.cancelled() => return,
            changed = lists.next() => {
                let Some(changed) = changed else { return };
                for list in changed {
                    let told = match list {
                        Changed::Tools if accepted.tools_list_changed == Some(true) => sink.notify_tool_list_changed().await,
                        Changed::Prompts if accepted.prompts_list_changed == Some(true) => sink.notify_prompt_list_changed().await,
                        Changed::Resources if accepted.resources_list_changed == Some(true) => sink.notify_resource_list_changed().await,
                        Changed::Tools | Changed::Grown | Changed::Prompts | Changed::Resources => Ok(()),
                    };
                    if told.is_err() {
                        return;
                    }
                }
            }
            news = next(&mut news) => {
                if watched.values().any(|it| it.is(&news)) && sink.notify_resource_updated(&*news.uri).await.is_err() {
                    return;
                }
            }
        }
    }
}
