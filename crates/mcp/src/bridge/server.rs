//! One server of the config: connected, its tools taken in, called, and connected again when it is gone.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::{
    net::unix::pipe,
    sync::{broadcast, oneshot, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use toolgate_contract::Fault;
use toolgate_runtime::{
    Arriving, Life, Runtime,
    config::{Offers, Reached, Server as Settings},
    definitions::{Definition, Imported, Method, Origin, Question, Registered},
    tools::{Cx, Weight},
};

use super::{
    handshake::{Era, Way},
    link::{Link, Wanted, Watched},
    listing::{Listing, list},
    peer::{Peer, Trouble},
    policy::Leave,
    talk::Talk,
    web::{Repeated, mirrored},
};

/// How often tools are listed though nobody says that they changed: a server need not say so.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How often they are listed at most, however often a server says so.
const AT_MOST: Duration = Duration::from_millis(500);
/// What was listed so shortly ago is shown as it is.
const FRESH: Duration = Duration::from_secs(1);
/// How long is waited before a server that is gone is connected again: twice as long every time, up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A server that stayed so long is well.
const WELL: Duration = Duration::from_secs(30);
/// What the road adds to the time of a call, so that it is the bridge that gives up first and tells the server.
const MARGIN: Duration = Duration::from_secs(2);
/// How long is waited to hear how a program ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server of the config, as calls of its tools see it.
pub(crate) struct Server {
    name: String,
    settings: Settings,
    /// What it may ask of whoever calls.
    leave: Leave,
    /// How it is spoken to, while it is there.
    link: Mutex<Option<Arc<Link>>>,
    /// From which weight on it was asked to make remarks, in the era where that is said once for everybody.
    remarks_from: Mutex<Option<Weight>>,
}

/// The first try to connect, and who wants to know what became of it.
pub(crate) struct FirstTry {
    pub(crate) tell: oneshot::Sender<Result<Vec<Registered>, Fault>>,
    pub(crate) _arriving: Arriving,
}

impl Server {
    pub(crate) fn new(name: &str, settings: &Settings) -> Self {
        Self {
            name: name.to_owned(),
            settings: settings.clone(),
            leave: Leave::of(name, settings),
            link: Mutex::default(),
            remarks_from: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn leave(&self) -> &Leave {
        &self.leave
    }

    /// How long it may take to answer.
    pub(super) fn patience(&self) -> Duration {
        self.settings.request
    }

    pub(crate) fn handshake(&self) -> Duration {
        self.settings.handshake
    }

    /// Connects, and connects again, for as long as it is let to.
    pub(crate) async fn keep(self: Arc<Self>, runtime: Runtime, first: FirstTry) {
        let (mut first, mut pause, mut way) = (Some(first), SHORTEST, Way::Both);
        loop {
            let since = Instant::now();
            match self.connect(&runtime, &mut way).await {
                Ok(Connected { link, mut life, listing, registered }) => {
                    self.tell_held(&registered);
                    if let Some(first) = first.take() {
                        let _ = first.tell.send(Ok(registered));
                    }
                    self.attend(&runtime, &link, listing).await;
                    *self.link() = None;
                    drop(link);
                    let how = last_words(life.as_mut()).await;
                    tracing::warn!("server `{}` is gone: {how}", self.name);
                }
                Err(fault) => {
                    tracing::warn!("server `{}` cannot be used: {}", self.name, fault.message);
                    if let Some(first) = first.take() {
                        let _ = first.tell.send(Err(fault));
                    }
                }
            }
            if since.elapsed() >= WELL {
                pause = SHORTEST;
            }
            sleep(pause).await;
            pause = LONGEST.min(pause * 2);
        }
    }

    /// Starts it, greets it and takes its tools in.
    async fn connect(self: &Arc<Self>, runtime: &Runtime, way: &mut Way) -> Result<Connected, Fault> {
        let (link, life) = match self.open(runtime, *way).await {
            Err(fault) if fault.code == GONE && *way == Way::Both => {
                // Some servers of the old era end when they are asked what they do not know.
                *way = Way::Old;
                self.open(runtime, *way).await?
            }
            opened => opened?,
        };
        let link = Arc::new(link);
        let listing = self.list(&link).await.map_err(|trouble| self.fault(trouble))?;
        *self.link() = Some(link.clone());
        *self.remarks_from.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let registered = self.register(runtime, &link, &listing).await?;
        Ok(Connected { link, life, listing, registered })
    }

    async fn open(&self, runtime: &Runtime, way: Way) -> Result<(Link, Option<Life>), Fault> {
        if let Reached::Address(_) = &self.settings.reached {
            let line = runtime.server_line(&self.name)?;
            let link = Link::open_line(line, self.leave.capabilities(), self.settings.handshake).await;
            return Ok((link.map_err(|trouble| self.fault(trouble))?, None));
        }
        let (runtime, name) = (runtime.clone(), self.name.clone());
        let started = spawn_blocking(move || runtime.start_server(&name)).await;
        let mut companion = started.map_err(|error| self.not_started(&error.to_string()))??;
        let write = pipe::Sender::from_owned_fd(companion.input.into());
        let read = pipe::Receiver::from_owned_fd(companion.output.into());
        let (read, write) = match (read, write) {
            (Ok(read), Ok(write)) => (read, write),
            (Err(error), _) | (_, Err(error)) => return Err(self.not_started(&error.to_string())),
        };
        let can = self.leave.capabilities();
        match Link::open(Peer::over(read, write), way, &can, self.settings.handshake).await {
            Ok(link) => Ok((link, Some(companion.life))),
            Err(Trouble::Gone) => {
                let how = last_words(Some(&mut companion.life)).await;
                let message = format!("server `{}` ended before it said who it is: {how}", self.name);
                Err(Fault::failed(GONE, message, "Look at its entry in the config."))
            }
            Err(trouble) => Err(self.fault(trouble)),
        }
    }

    async fn list(&self, link: &Link) -> Result<Listing, Trouble> {
        list(link, &self.settings.offers, self.settings.request).await
    }

    /// Looks after it until it is gone: what it offers, and what agents want it to tell of.
    async fn attend(self: &Arc<Self>, runtime: &Runtime, link: &Link, known: Listing) {
        tokio::select! {
            () = self.follow_lists(runtime, link, known) => {}
            () = self.follow_watched(runtime, link) => {}
            () = link.gone() => {}
        }
    }

    /// Has the server tell of the addresses that are watched, and passes on what it tells. It never ends.
    async fn follow_watched(&self, runtime: &Runtime, link: &Link) {
        let (mut wanted, mut news) = (runtime.watched_of(&self.name), link.news());
        let mut watched: BTreeMap<String, Option<Watched>> = BTreeMap::new();
        loop {
            let now = wanted.now();
            let gone: Vec<String> = watched.keys().filter(|uri| !now.contains(*uri)).cloned().collect();
            for uri in gone {
                if let Some(Some(told)) = watched.remove(&uri) {
                    link.unwatch(told, self.settings.request).await;
                }
            }
            let new: Vec<String> = now.into_iter().filter(|uri| !watched.contains_key(uri)).collect();
            for uri in new {
                let told = link.watch(&uri, self.settings.request).await.unwrap_or_else(|trouble| {
                    tracing::warn!("server `{}` does not tell of changes: {trouble}", self.name);
                    None
                });
                watched.insert(uri, told);
            }
            tokio::select! {
                () = wanted.changed() => {}
                uri = next(&mut news) => runtime.resource_changed(&self.name, &uri),
            }
        }
    }

    /// Lists again whenever the lists may have changed. It never ends.
    async fn follow_lists(self: &Arc<Self>, runtime: &Runtime, link: &Link, mut known: Listing) {
        let (mut changes, mut lister, mut listed) = (link.changes(), runtime.lister(&self.name), Instant::now());
        loop {
            let is_fresh = tokio::select! {
                () = changed(&mut changes) => {
                    sleep(AT_MOST.saturating_sub(listed.elapsed())).await;
                    false
                }
                () = lister.wanted() => listed.elapsed() < FRESH,
                () = sleep(LOOK_AGAIN) => false,
            };
            let viewers = lister.viewers();
            if is_fresh {
                lister.listed(viewers);
                continue;
            }
            match self.list(link).await {
                Ok(listing) if listing == known => {}
                Ok(listing) => {
                    match self.register(runtime, link, &listing).await {
                        Ok(registered) => self.tell_held(&registered),
                        Err(fault) => tracing::warn!("the tools of `{}` are held back: {fault}", self.name),
                    }
                    known = listing;
                }
                Err(trouble) => tracing::warn!("server `{}` does not list what it has: {trouble}", self.name),
            }
            listed = Instant::now();
            lister.listed(viewers);
        }
    }

    /// Hands everything it offers to the runtime, which judges all of it anew.
    async fn register(
        self: &Arc<Self>,
        runtime: &Runtime,
        link: &Link,
        listing: &Listing,
    ) -> Result<Vec<Registered>, Fault> {
        if listing.unreadable > 0 {
            tracing::warn!("server `{}` lists {} things that are no tools", self.name, listing.unreadable);
        }
        let taken = listing.tools.iter().filter(|definition| self.settings.takes(&definition.name));
        let tools: Vec<Imported> = taken.map(|definition| self.import(link, definition)).collect();
        for (what, why) in &listing.missing {
            tracing::warn!("the {what} of server `{}` are not there: {why}", self.name);
        }
        let origin = Origin { name: self.name.clone(), identity: self.settings.identity() };
        let (questions, wares) = (self.questions(link), listing.wares.clone());
        let (runtime, name) = (runtime.clone(), self.name.clone());
        let registered = spawn_blocking(move || {
            for left_out in runtime.register_wares(&name, &wares, &questions)? {
                tracing::warn!("of server `{name}` is left out: {left_out}");
            }
            runtime.register_imported(origin, &tools)
        });
        registered.await.map_err(|error| self.not_started(&error.to_string()))?
    }

    /// What it can be asked that is no tool.
    fn questions(self: &Arc<Self>, link: &Link) -> Vec<Question> {
        let capabilities = &link.greeting().capabilities;
        let takes = |offer: Offers| self.settings.offers.contains(&offer) && capabilities[offer.as_str()].is_object();
        let (prompts, resources) = (takes(Offers::Prompts), takes(Offers::Resources));
        let has = [
            (Method::GetPrompt, prompts),
            (Method::ReadResource, resources),
            (Method::Complete, (prompts || resources) && capabilities["completions"].is_object()),
        ];
        let question = |method: Method| {
            let server = self.clone();
            let ask = move |cx: Arc<Cx>, input: Value| {
                let server = server.clone();
                async move {
                    match input {
                        Value::Object(params) => server.call(method.as_str(), params, &[], &cx).await,
                        _ => Err(server.fault(Trouble::Unusable("it was asked nothing".to_owned()))),
                    }
                }
            };
            let question = Question::new(method, self.settings.request + MARGIN, ask);
            match link.target() {
                Some(target) => question.reaching(target),
                None => question,
            }
        };
        has.into_iter().filter(|(_, there)| *there).map(|(method, _)| question(method)).collect()
    }

    /// One of its tools, as the operator takes it.
    fn import(self: &Arc<Self>, link: &Link, definition: &Definition) -> Imported {
        let repeated = match link.mirrors() {
            true => mirrored(&definition.input_schema),
            false => Some(Vec::new()),
        };
        let is_sendable = repeated.is_some();
        let repeated = Arc::<[Repeated]>::from(repeated.unwrap_or_default());
        let (server, name) = (self.clone(), definition.name.clone());
        let call = move |cx: Arc<Cx>, input: Value| {
            let params = Map::from_iter([("name".to_owned(), json!(name)), ("arguments".to_owned(), input)]);
            let (server, repeated) = (server.clone(), repeated.clone());
            // It is passed on through hands that would each copy it.
            Box::pin(async move { server.call("tools/call", params, &repeated, &cx).await })
        };
        let terms = self.settings.tools.get(&definition.name).cloned().unwrap_or_default();
        let tool = Imported::relayed(definition.clone(), call).under(terms).within(self.settings.request + MARGIN);
        let tool = if self.settings.is_kept_in() { tool.kept_in() } else { tool };
        let tool =
            if is_sendable { tool } else { tool.barred("its arguments cannot be sent in headers as it wants them") };
        match link.target() {
            Some(target) => tool.reaching(target),
            None => tool,
        }
    }

    /// Says which tools wait for a person.
    fn tell_held(&self, registered: &[Registered]) {
        let held = registered.iter().filter(|tool| tool.standing.as_str() != "pinned").count();
        if held > 0 {
            tracing::warn!("{held} tools of server `{0}` are held back; `toolgate mcp show {0}` tells why", self.name);
        }
    }

    /// One call of one of its tools, or another question.
    async fn call(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        repeated: &[Repeated],
        cx: &Cx,
    ) -> Result<Value, Fault> {
        let link = self.link().clone().ok_or_else(|| self.unavailable())?;
        let can = self.leave.of_call(&cx.caller_can());
        if let Some(from) = cx.hears() {
            Box::pin(self.want_remarks(&link, from, &mut params)).await;
        }
        let wanted = Wanted { method, params, mirrored: repeated, can: &can };
        Talk::new(self, &link, cx, &can).whole_answer(wanted).await
    }

    /// Says that remarks are wanted: with the request, or in the old era beforehand and for everybody, so that it is said
    /// again only where somebody wants more of them. Who wants less is told less by us.
    async fn want_remarks(&self, link: &Link, from: Weight, params: &mut Map<String, Value>) {
        if !link.greeting().capabilities["logging"].is_object() {
            return;
        }
        if link.greeting().era == Era::Modern {
            params.entry("_meta").or_insert_with(|| json!({}))[LOG_LEVEL] = json!(from);
            return;
        }
        let is_more = {
            let mut known = self.remarks_from.lock().unwrap_or_else(PoisonError::into_inner);
            let is_more = known.is_none_or(|known| from < known);
            if is_more {
                *known = Some(from);
            }
            is_more
        };
        if is_more {
            let level = Map::from_iter([("level".to_owned(), json!(from))]);
            if let Err(trouble) = link.ask("logging/setLevel", level, self.settings.request).await {
                tracing::debug!(%trouble, "a server was not told which remarks are wanted");
            }
        }
    }

    fn link(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self) -> Fault {
        let message = format!("server `{}` is not there", self.name);
        Fault::refused("server_unavailable", message, "Try again later, or ask the operator.").retryable().untouched()
    }

    fn not_started(&self, why: &str) -> Fault {
        let message = format!("server `{}` cannot be started: {why}", self.name);
        Fault::failed("not_started", message, "Try again.").retryable()
    }

    pub(super) fn fault(&self, trouble: Trouble) -> Fault {
        let name = &self.name;
        match trouble {
            Trouble::Gone => Fault::failed(
                GONE,
                format!("server `{name}` ended before it answered"),
                "Look whether the call took effect before making it again.",
            )
            .in_own_words(),
            Trouble::TimedOut(time) => Fault::failed(
                "timed_out",
                format!("server `{name}` gave no answer within {} ms", time.as_millis()),
                "Ask for less at once.",
            )
            .in_own_words(),
            Trouble::Unusable(why) => Fault::failed(
                "bad_answer",
                format!("what server `{name}` answered cannot be used: {why}"),
                "Report this to who runs the server.",
            )
            .in_own_words(),
            Trouble::Failed(fault) => fault,
            Trouble::Refused { code, message, .. } => Fault::failed(
                "server_refused",
                format!("server `{name}` refused the call ({code}): {message}"),
                "Correct the call, or use another tool.",
            ),
        }
    }
}

/// Where a request of the stateless era says from which weight on remarks are wanted.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The code of a call whose server ended.
const GONE: &str = "server_gone";

/// A server that was greeted and whose tools were taken in.
struct Connected {
    link: Arc<Link>,
    /// Dropping it ends the program.
    life: Option<Life>,
    listing: Listing,
    registered: Vec<Registered>,
}

async fn last_words(life: Option<&mut Life>) -> String {
    match life {
        Some(life) => timeout(LAST_WORDS, life.ended()).await.unwrap_or_else(|_| "it says nothing any more".to_owned()),
        None => "it does not answer any more".to_owned(),
    }
}

/// Returns when the server says that its lists changed.
async fn changed(changes: &mut watch::Receiver<u64>) {
    // Whoever told of changes is gone with the server, and that is heard of elsewhere.
    if changes.changed().await.is_err() {
        pending().await
    }
}

/// The next address that changed. Some may be missed by who does not keep up; they are read anew anyway.
async fn next(news: &mut broadcast::Receiver<String>) -> String {
    loop {
        match news.recv().await {
            Ok(uri) => return uri,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => pending().await,
        }
    }
}
