//! HTTP API and web page: translate only.
//!
//! [`Console`] puts a [`Runtime`] behind a port: an API for programs (`api/`), a page for people (`pages/`), and events as
//! they happen (`events.rs`). Nothing is decided and nothing runs here: a call takes `Runtime::invoke`, a person's answer
//! goes where every answer goes, and what is shown is read from the record.
//!
//! A request passes, in this order:
//!
//! 1. `server.rs`: how many connections, how long a head may take, how large it may be;
//! 2. `fence.rs`: sent to one of our names, and not by a page of another site; on the way out, the headers that keep a
//!    browser from doing anything with an answer but show it;
//! 3. `caller.rs`: who is asking, by token or by session, how often, with how large a body, and may they;
//! 4. its handler.
//!
//! What others wrote reaches a page only as a `Text` (`text.rs`), which knows no way to be markup and hides nothing.

mod api;
mod assets;
mod caller;
mod chart;
mod door;
mod events;
mod fence;
mod house;
mod mounted;
mod pace;
mod pages;
mod people;
mod problem;
mod server;
mod site;
mod text;

use std::{
    fmt, io,
    net::SocketAddr,
    ops::Deref,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{Router, middleware};
use tokio::{net::TcpListener, sync::Semaphore, task};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{Fault, Person};
/// Calls, as the record tells of them.
pub(crate) use toolgate_runtime::store::calls as record;
use toolgate_runtime::{
    Runtime,
    store::{Reader, Store, StoreError, state::State},
    tokens::Tokens,
};

use crate::{
    caller::Holder,
    door::Door,
    events::Events,
    mounted::{ForWhom, Mounted},
    pace::{Pace, Rate},
    problem::Problem,
    site::Sites,
};

/// Requests of one token, or of all sessions of one person.
const REQUESTS: Rate = Rate { burst: 240, every: Duration::from_millis(50) };
/// Codes and tokens that were wrong, of everybody together: nobody guesses 256 bits, but nobody is to try.
const GUESSES: Rate = Rate { burst: 20, every: Duration::from_secs(3) };
/// Those who listen to events at once.
const LISTENERS: usize = 64;

/// What a console is made of.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Setup {
    /// What it shows, and where calls go.
    pub runtime: Runtime,
    /// Questions and answers, tokens, effects.
    pub state: Arc<dyn State>,
    /// Where it is written down what people do here.
    pub store: Arc<dyn Store>,
    /// Where the record is read.
    pub data_dir: PathBuf,
    /// More names it is reached under: a host name, or an origin such as `https://tools.example.org`.
    pub hosts: Vec<String>,
}

/// The console, bound to its port.
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    shared: Shared,
    mounted: Vec<Mounted>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Console {
    /// Takes the port. Nothing is answered yet.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime with its IO driver enabled.
    pub async fn bind(setup: Setup, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Shared::new(setup, address).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Self { listener, address, shared, mounted: Vec::new() })
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts routes for agents on the same port, at a path such as `/mcp`. They are behind the same fence, get whole bodies
    /// of at most `body` bytes, and are told who is asking: each request carries its [`Principal`](toolgate_contract::Principal),
    /// proved by a token, and it is an agent.
    #[must_use]
    pub fn mount(mut self, path: &'static str, body: usize, routes: Router) -> Self {
        self.mounted.push(Mounted { path, for_whom: ForWhom::Agents, body, routes });
        self
    }

    /// The same for people: each request carries who proved themselves, and what their token is good for, as
    /// [`Proven`](toolgate_runtime::tokens::Proven). A log-in with a browser opens nothing there.
    #[must_use]
    pub fn mount_for_people(mut self, path: &'static str, body: usize, routes: Router) -> Self {
        self.mounted.push(Mounted { path, for_whom: ForWhom::People, body, routes });
        self
    }

    /// How people reach it: under the name the operator gave it, else at its address.
    pub fn url(&self) -> &str {
        self.shared.sites.home()
    }

    /// A link that lets a person in, once, within ten minutes.
    pub async fn login_link(&self, person: &Person) -> Result<String, Fault> {
        let code = self.shared.tokens().login_code(person, now_ms()).await?;
        Ok(format!("{}/login?code={code}", self.url()))
    }

    /// Serves until it is stopped.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, shared, mounted, .. } = self;
        let listening = shared.stop.clone();
        // Those who listen to events would otherwise be waited for.
        let told = stop.clone();
        tokio::spawn(async move {
            told.cancelled().await;
            listening.cancel();
        });
        server::run(listener, router(&shared, mounted), stop).await;
    }
}

fn router(shared: &Shared, mounted: Vec<Mounted>) -> Router {
    let mut router = Router::new().merge(pages::router(shared)).merge(api::router(shared)).merge(assets::router());
    for mounted in mounted {
        router = router.merge(mounted::router(shared, mounted));
    }
    router
        .fallback(pages::nothing_here)
        .layer(middleware::from_fn_with_state(shared.clone(), fence::fence))
        .with_state(shared.clone())
}

/// What every handler has at hand.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) state: Arc<dyn State>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data_dir: PathBuf,
    pub(crate) sites: Sites,
    pub(crate) door: Door<Holder>,
    pub(crate) requests: Pace<String>,
    pub(crate) guesses: Pace<()>,
    pub(crate) events: Events,
    pub(crate) listeners: Arc<Semaphore>,
    /// Reading every byte of the record is done by one at a time.
    pub(crate) proving: Semaphore,
    pub(crate) stop: CancellationToken,
}

impl Deref for Shared {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn new(setup: Setup, address: SocketAddr) -> Result<Self, String> {
        let Setup { runtime, state, store, data_dir, hosts } = setup;
        let stop = CancellationToken::new();
        Ok(Self(Arc::new(Inner {
            sites: Sites::new(address, &hosts)?,
            events: Events::follow(data_dir.clone(), stop.clone()),
            runtime,
            state,
            store,
            data_dir,
            door: Door::new(),
            requests: Pace::new(REQUESTS),
            guesses: Pace::new(GUESSES),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            proving: Semaphore::new(1),
            stop,
        })))
    }

    pub(crate) fn tokens(&self) -> Tokens<'_> {
        Tokens { state: &*self.state, store: &*self.store }
    }

    /// Looks into the record, where waiting for a disk holds nobody up.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let dir = self.data_dir.clone();
        blocking(move || look(&Reader::open(&dir)?)).await?.map_err(Problem::from)
    }
}

/// Runs what waits for a disk on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    task::spawn_blocking(work).await.map_err(|error| Problem::broken(format!("the work was lost: {error}")))
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
