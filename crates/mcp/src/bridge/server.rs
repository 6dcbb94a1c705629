//! One server of the config: connected, its tools taken in, called, and connected again when it is gone.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::{
    net::unix::pipe,
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use toolgate_contract::Fault;
use toolgate_runtime::{
    Arriving, Life, Runtime,
    config::{Reached, Server as Settings},
    definitions::{Definition, Imported, Origin, Registered},
    tools::{Cx, StopFlag},
};

use super::{
    handshake::Way,
    link::Link,
    listing::{Listing, list},
    peer::{Peer, Trouble},
    web::{Repeated, mirrored},
};

/// How often tools are listed though nobody says that they changed: a server need not say so.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How often they are listed at most, however often a server says so.
const AT_MOST: Duration = Duration::from_secs(1);
/// How long is waited before a server that is gone is connected again: twice as long every time, up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A server that stayed so long is well.
const WELL: Duration = Duration::from_secs(30);
/// What the road adds to the time of a call, so that it is the bridge that gives up first and tells the server.
const MARGIN: Duration = Duration::from_secs(2);
/// How often a call looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(20);
/// How long is waited to hear how a program ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server of the config, as calls of its tools see it.
pub(crate) struct Server {
    name: String,
    settings: Settings,
    /// How it is spoken to, while it is there.
    link: Mutex<Option<Link>>,
}

/// The first try to connect, and who wants to know what became of it.
pub(crate) struct FirstTry {
    pub(crate) tell: oneshot::Sender<Result<Vec<Registered>, Fault>>,
    pub(crate) _arriving: Arriving,
}

impl Server {
    pub(crate) fn new(name: &str, settings: &Settings) -> Self {
        Self { name: name.to_owned(), settings: settings.clone(), link: Mutex::default() }
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
        let listing = list(&link, self.settings.request).await.map_err(|trouble| self.fault(trouble))?;
        *self.link() = Some(link.clone());
        let registered = self.register(runtime, &link, &listing).await?;
        Ok(Connected { link, life, listing, registered })
    }

    async fn open(&self, runtime: &Runtime, way: Way) -> Result<(Link, Option<Life>), Fault> {
        if let Reached::Address(_) = &self.settings.reached {
            let line = runtime.server_line(&self.name)?;
            let link = Link::open_line(line, self.settings.handshake).await;
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
        match Link::open(Peer::over(read, write), way, self.settings.handshake).await {
            Ok(link) => Ok((link, Some(companion.life))),
            Err(Trouble::Gone) => {
                let how = last_words(Some(&mut companion.life)).await;
                let message = format!("server `{}` ended before it said who it is: {how}", self.name);
                Err(Fault::failed(GONE, message, "Look at its entry in the config."))
            }
            Err(trouble) => Err(self.fault(trouble)),
        }
    }

    /// Lists again whenever the tools may have changed, until the server is gone.
    async fn attend(self: &Arc<Self>, runtime: &Runtime, link: &Link, mut known: Listing) {
        let mut changes = link.changes();
        loop {
            tokio::select! {
                () = link.gone() => return,
                () = changed(&mut changes) => {}
                () = sleep(LOOK_AGAIN) => {}
            }
            match list(link, self.settings.request).await {
                Ok(listing) if listing == known => {}
                Ok(listing) => {
                    match self.register(runtime, link, &listing).await {
                        Ok(registered) => self.tell_held(&registered),
                        Err(fault) => tracing::warn!("the tools of `{}` are held back: {fault}", self.name),
                    }
                    known = listing;
                }
                Err(trouble) => tracing::warn!("server `{}` does not list its tools: {trouble}", self.name),
            }
            sleep(AT_MOST).await;
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
        let tools: Vec<Imported> = taken.filter_map(|definition| self.import(link, definition)).collect();
        let origin = Origin { name: self.name.clone(), identity: self.settings.identity() };
        let runtime = runtime.clone();
        let registered = spawn_blocking(move || runtime.register_imported(origin, &tools)).await;
        registered.map_err(|error| self.not_started(&error.to_string()))?
    }

    /// One of its tools, as the operator takes it; none where it wants what cannot be done.
    fn import(self: &Arc<Self>, link: &Link, definition: &Definition) -> Option<Imported> {
        let repeated = match link.mirrors() {
            true => mirrored(&definition.input_schema),
            false => Some(Vec::new()),
        };
        let Some(repeated) = repeated else {
            tracing::warn!("server `{}` has a tool whose arguments cannot be sent as it wants them", self.name);
            return None;
        };
        let (server, name) = (self.clone(), definition.name.clone());
        let call = move |cx: &Cx, input: Value| server.call(&name, &repeated, cx, input);
        let terms = self.settings.tools.get(&definition.name).cloned().unwrap_or_default();
        let tool = Imported::relayed(definition.clone(), call).under(terms).within(self.settings.request + MARGIN);
        Some(match link.target() {
            Some(target) => tool.reaching(target),
            None => tool,
        })
    }

    /// Says which tools wait for a person.
    fn tell_held(&self, registered: &[Registered]) {
        let held = registered.iter().filter(|tool| tool.standing.as_str() != "pinned").count();
        if held > 0 {
            tracing::warn!("{held} tools of server `{0}` are held back; `toolgate mcp show {0}` tells why", self.name);
        }
    }

    /// One call of one of its tools. It blocks, as bodies do.
    fn call(&self, tool: &str, repeated: &[Repeated], cx: &Cx, arguments: Value) -> Result<Value, Fault> {
        let link = self.link().clone().ok_or_else(|| self.unavailable())?;
        let params = [("name".to_owned(), json!(tool)), ("arguments".to_owned(), arguments)];
        let (steps, mut heard) = mpsc::channel(16);
        Handle::current().block_on(async {
            let asked =
                link.ask_telling("tools/call", Map::from_iter(params), repeated, self.settings.request, Some(steps));
            let mut answer = std::pin::pin!(asked);
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => return answer.map_err(|trouble| self.fault(trouble)),
                    Some(step) = heard.recv() => cx.progress(step.done, step.total, step.message),
                    () = raised(cx.stop_flag()) => cx.check()?,
                }
            }
        })
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
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

    fn fault(&self, trouble: Trouble) -> Fault {
        let name = &self.name;
        match trouble {
            Trouble::Gone => Fault::failed(
                GONE,
                format!("server `{name}` ended before it answered"),
                "Look whether the call took effect before making it again.",
            ),
            Trouble::TimedOut(time) => Fault::failed(
                "timed_out",
                format!("server `{name}` gave no answer within {} ms", time.as_millis()),
                "Ask for less at once.",
            ),
            Trouble::Unusable(why) => Fault::failed(
                "bad_answer",
                format!("what server `{name}` answered cannot be used: {why}"),
                "Report this to who runs the server.",
            ),
            Trouble::Failed(fault) => fault,
            Trouble::Refused { code, message, .. } => Fault::failed(
                "server_refused",
                format!("server `{name}` refused the call ({code}): {message}"),
                "Correct the call, or use another tool.",
            ),
        }
    }
}

/// The code of a call whose server ended.
const GONE: &str = "server_gone";

/// A server that was greeted and whose tools were taken in.
struct Connected {
    link: Link,
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

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    let heard = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    // Whoever told of changes is gone with the server, and that is heard of elsewhere.
    if !heard {
        pending().await
    }
}

async fn raised(stop: &StopFlag) {
    while !stop.is_raised() {
        sleep(GLANCE).await;
    }
}
