//! What a tool has at hand: the house, the person who asks, and what stands beside their arguments.

use std::{
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tokio::{sync::Semaphore, task};
use toolgate_contract::{AgentName, Caps, Fault, Note, Person, Principal, nearest};
use toolgate_guard::{
    clean::result::{self, Answer, Cleaned},
    secrets::Redactor,
};
use toolgate_runtime::{
    Runtime,
    approvals::Approvals,
    config::Config,
    once::Effects,
    store::{Reader, Store, StoreError, state::State},
    tokens::Proven,
};

use super::{Setup, page::Paging, tool::Beside};

/// How much of one text is shown.
const CAPS: Caps = Caps { output_bytes: 16 * 1024, ..Caps::DEFAULT };

/// What is managed, and what that takes.
pub(crate) struct House {
    pub(crate) runtime: Runtime,
    pub(crate) state: Arc<dyn State>,
    store: Arc<dyn Store>,
    data_dir: Arc<Path>,
    redactor: Redactor,
    /// Reading every byte of the record is done by one at a time.
    proving: Semaphore,
}

impl House {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { runtime, state, store, data_dir } = setup;
        // The key only tells equal secrets apart in what is taken out of answers. Without chance they all look alike to
        // whoever has the answers, and are gone none the less.
        let mut key = [0; 32];
        if let Err(error) = getrandom::fill(&mut key) {
            tracing::warn!(%error, "the kernel gave no random bytes");
        }
        let redactor = Redactor { key, personal: runtime.config().redact_personal_data.value };
        Self { runtime, state, store, data_dir: data_dir.into(), redactor, proving: Semaphore::new(1) }
    }

    /// Writes down what a person does. It returns when that is durable.
    pub(crate) async fn note(
        &self,
        kind: &'static str,
        by: &Proven,
        subject: &str,
        detail: Value,
    ) -> Result<(), Fault> {
        let by = Some(Principal::Person(by.person.clone()));
        Ok(self.store.note(Note { at_ms: now_ms(), kind, by, subject: subject.to_owned(), detail }).await?)
    }

    pub(crate) fn without_secrets(&self, value: Value) -> Value {
        result::without_secrets(value, &self.redactor)
    }

    /// An answer fit for a model: most of what is in it was written by agents, and by those they talk to.
    pub(crate) fn clean(&self, tool: &str, structured: Value) -> Cleaned {
        let answer = Answer { text: String::new(), structured, truncated: None };
        result::clean(answer, &CAPS, Some(tool), &self.redactor)
    }
}

/// What a tool has at hand.
#[derive(Clone)]
pub(crate) struct Desk {
    house: Arc<House>,
    /// Who asks.
    pub(crate) who: Proven,
    /// Why; empty where nothing is changed.
    pub(crate) reason: String,
    /// Which page is wanted.
    pub(crate) page: Paging,
}

impl Desk {
    pub(crate) fn new(house: Arc<House>, who: Proven, beside: Beside) -> Self {
        let Beside { reason, page } = beside;
        Self { house, who, reason, page }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.house.runtime
    }

    pub(crate) fn config(&self) -> &Config {
        self.house.runtime.config()
    }

    pub(crate) fn state(&self) -> &dyn State {
        &*self.house.state
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.house.store
    }

    pub(crate) fn data_dir(&self) -> Arc<Path> {
        self.house.data_dir.clone()
    }

    pub(crate) fn person(&self) -> &Person {
        &self.who.person
    }

    pub(crate) fn approvals(&self) -> Result<&Approvals, Fault> {
        let none = || not_kept("nobody can be asked here");
        self.runtime().approvals().ok_or_else(none)
    }

    pub(crate) fn effects(&self) -> Result<&Effects, Fault> {
        self.runtime().effects().ok_or_else(|| not_kept("no effects are kept here"))
    }

    /// An agent of the config, by its name there.
    pub(crate) fn agent(&self, name: &str) -> Result<AgentName, Fault> {
        let agents = &self.config().policy.agents;
        agents.get_key_value(&AgentName::from(name)).map(|(agent, _)| agent.clone()).ok_or_else(|| {
            unknown("agent", name, agents.keys().map(|agent| &*agent.0), "Look at all of them with `agents_list`.")
        })
    }

    /// Looks into the record, where waiting for a disk holds nobody up.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Fault> {
        let dir = self.data_dir();
        Ok(blocking(move || look(&Reader::open(&dir)?)).await??)
    }

    /// Does what only one does at a time.
    pub(crate) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let _turn = self.house.proving.acquire().await.map_err(|_| lost("the house is closing"))?;
        let dir = self.data_dir();
        blocking(move || work(&dir)).await
    }
}

/// Runs what waits for a disk on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    task::spawn_blocking(work).await.map_err(|error| lost(&error.to_string()))
}

fn lost(why: &str) -> Fault {
    Fault::failed("manage_failed", format!("the work was lost: {why}"), "Try again.").retryable()
}

fn not_kept(message: &str) -> Fault {
    Fault::refused("not_supported", message, "Open the runtime with a state, where it is kept.")
}

/// There is nothing of this name. What was asked for is repeated escaped and in short.
pub(crate) fn unknown<'a>(
    what: &'static str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    remedy: &str,
) -> Fault {
    let shown: String = name.chars().take(80).flat_map(char::escape_default).collect();
    let remedy = match nearest(name, known) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => remedy.to_owned(),
    };
    let fault = Fault::failed("unknown", format!("there is no {what} `{shown}`"), remedy);
    Fault { code: format!("unknown_{}", what.replace(' ', "_")).into(), ..fault }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
