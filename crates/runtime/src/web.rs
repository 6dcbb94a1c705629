//! The way to other machines: one judged client for the whole runtime, and what of it a call may use.

use std::{
    collections::BTreeMap,
    fmt, fs,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use toolgate_contract::{ConnectionInfo, Fault, SearchEngine, WebRequest, WebResponse};
use toolgate_egress::{Barred, Client, ClientTerms, Internal, PaceTerms, Resolver, SecretHeader, Within};
use toolgate_gate::{Constraints, NetworkMode, Permit};
use toolgate_guard::url::WebUrl;
use toolgate_tools::{StopFlag, Web};

use crate::{
    config::EgressSettings,
    connections::{Connections, Sender},
    fence::Fence,
    secrets::Secret,
};

/// How often a waiting request looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(20);

/// What goes out says who it is.
const USER_AGENT: &str = concat!("toolgate/", env!("CARGO_PKG_VERSION"));

/// The way out of one runtime. Nothing is opened before the first request.
pub(crate) struct Gateway {
    settings: EgressSettings,
    connections: Arc<Connections>,
    /// By the hosts that are out of their reach: connections that one may use are not for another.
    clients: Mutex<BTreeMap<Vec<String>, Client>>,
}

impl Gateway {
    pub(crate) fn new(settings: EgressSettings, connections: Arc<Connections>) -> Self {
        Self { settings, connections, clients: Mutex::default() }
    }

    /// The fenced client of one call.
    pub(crate) fn web(self: &Arc<Self>, permit: &Permit, fence: &Fence) -> Arc<dyn Web> {
        Arc::new(CallWeb {
            gateway: self.clone(),
            barred: fence.barred.clone(),
            constraints: permit.constraints().clone(),
            may_use_secrets: permit.needs().secrets,
            executor: Handle::current(),
        })
    }

    pub(crate) fn settings(&self) -> &EgressSettings {
        &self.settings
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The client to whom these hosts are out of reach.
    pub(crate) fn client(&self, barred: &[String]) -> Result<Client, Fault> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(barred) {
            return Ok(client.clone());
        }
        let client = self.open(barred)?;
        clients.insert(barred.to_vec(), client.clone());
        Ok(client)
    }

    /// The addresses that would be dialled for a `host:port`, every one judged.
    pub(crate) async fn addresses(&self, target: &str, barred: &[String]) -> Result<Vec<SocketAddr>, Fault> {
        // The one reader for hosts reads URLs.
        let url = WebUrl::read(&format!("http://{target}/")).map_err(|why| {
            let message = format!("`{target}` is not a host and a port: {why}");
            Fault::refused("host_refused", message, "Use a host as URLs have it.")
        })?;
        self.client(barred)?.addresses(url.host(), url.port()).await
    }

    fn open(&self, barred: &[String]) -> Result<Client, Fault> {
        let resolver = match self.settings.name_servers.as_slice() {
            [] => Resolver::System,
            servers => Resolver::Servers(servers.to_vec()),
        };
        let extra_roots = match &self.settings.ca_file {
            None => Vec::new(),
            Some(file) => vec![fs::read(file).map_err(|error| {
                let message = format!("the certificates in `{}` cannot be read: {error}", file.display());
                Fault::refused("ca_unreadable", message, "Correct `egress.ca_file` in the config.")
            })?],
        };
        Client::new(ClientTerms {
            resolver,
            internal: Internal::parse(&self.settings.hostname_allowlist)?,
            barred: Barred::parse(barred)?,
            extra_roots,
            user_agent: USER_AGENT.to_owned(),
            pace: PaceTerms::default(),
        })
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("settings", &self.settings).finish_non_exhaustive()
    }
}

struct CallWeb {
    gateway: Arc<Gateway>,
    barred: Vec<String>,
    constraints: Constraints,
    may_use_secrets: bool,
    executor: Handle,
}

impl CallWeb {
    async fn send_now(&self, request: &WebRequest) -> Result<WebResponse, Fault> {
        let client = &self.gateway.client(&self.barred)?;
        match &request.connection {
            None => client.send(request, &self.within()?, &[]).await,
            Some(name) if self.may_use_secrets => {
                let target = self.gateway.connections.target(name)?;
                self.constraints.may_reach(&target).map_err(|why| host_refused(&why))?;
                self.gateway.connections.send(name, request, client).await
            }
            Some(_) => Err(Fault::refused(
                "needs_not_declared",
                "the tool reached for credentials it did not declare",
                "Declare `needs.secrets` in the tool's definition.",
            )),
        }
    }

    /// Whom the agent may talk to, every redirect included.
    fn within(&self) -> Result<Within, Fault> {
        match self.constraints.network.value {
            NetworkMode::Open => Ok(Within::Public),
            NetworkMode::AllowlistOnly => {
                Ok(Within::Listed(self.constraints.network_allowlist.iter().map(|host| host.value.clone()).collect()))
            }
            NetworkMode::None => Err(host_refused("the agent has no network")),
        }
    }
}

impl Web for CallWeb {
    fn send(&self, request: &WebRequest, stop: &StopFlag) -> Result<WebResponse, Fault> {
        self.executor.block_on(async {
            tokio::select! {
                biased;
                () = raised(stop) => {
                    Err(Fault::failed("cancelled", "the caller cancelled the call", "Call again if it is still wanted."))
                }
                answer = self.send_now(request) => answer,
            }
        })
    }

    fn connection(&self, name: &str) -> Result<ConnectionInfo, Fault> {
        self.gateway.connections.info(name)
    }

    fn search_engine(&self) -> Result<SearchEngine, Fault> {
        Ok(self.gateway.settings.search.clone())
    }
}

impl Sender for Client {
    fn send<'a>(
        &'a self,
        request: &'a WebRequest,
        credentials: &'a [(String, Secret)],
        within: &'a Within,
    ) -> BoxFuture<'a, Result<WebResponse, Fault>> {
        Box::pin(async move {
            let secrets = credentials.iter().map(|(name, value)| SecretHeader::new(name, value.expose()));
            let secrets = secrets.collect::<Result<Vec<_>, _>>()?;
            Client::send(self, request, within, &secrets).await
        })
    }
}

async fn raised(stop: &StopFlag) {
    while !stop.is_raised() {
        tokio::time::sleep(GLANCE).await;
    }
}

pub(crate) fn host_refused(why: &str) -> Fault {
    Fault::refused("host_refused", why, "Use another host, or ask the operator to list this one.")
}
