//! The way to a server of the config that is at an address: one origin, through the judged client, with the operator's
//! credentials. The caller's own are never sent there.

use std::{fmt, sync::Arc, time::Duration};

use toolgate_contract::{Fault, Method, WebLimits, WebRequest};
use toolgate_egress::{SecretHeader, Streamed, Within};
use toolgate_gate::Policy;
use toolgate_guard::url::WebUrl;

use crate::{
    config::{Address, Reached, Server},
    fence::Fence,
    web::Gateway,
};

/// Bytes of one answer.
const MOST: u64 = 16 * 1024 * 1024;

/// The way to one server. It knows nothing of the runtime, which may end before it.
#[derive(Clone)]
pub struct ServerLine {
    gateway: Arc<Gateway>,
    address: Address,
    url: WebUrl,
    barred: Vec<String>,
}

impl ServerLine {
    pub(crate) fn new(name: &str, server: &Server, gateway: Arc<Gateway>, policy: &Policy) -> Result<Self, Fault> {
        let Reached::Address(address) = &server.reached else {
            let message = format!("server `{name}` is a program and has no address");
            return Err(Fault::failed("no_address", message, "Start it."));
        };
        let url = WebUrl::read(&address.url).map_err(|why| {
            let message = format!("the address of server `{name}` cannot be read: {why}");
            Fault::failed("bad_url", message, "Correct its entry in the config.")
        })?;
        let address = address.clone();
        if let Some(connection) = &address.connection {
            // A connection's credentials go nowhere but below its own address.
            gateway.connections().join(connection, &address.url)?;
        }
        Ok(Self { gateway, address, url, barred: Fence::of_all(policy, &[]).barred })
    }

    /// Whom it leads to, as `host:port`.
    pub fn target(&self) -> String {
        format!("{}:{}", self.url.host(), self.url.port())
    }

    /// Hands a message in, with these headers besides those that prove who asks.
    pub async fn post(&self, headers: Vec<(String, String)>, body: Vec<u8>, wall: Duration) -> Result<Streamed, Fault> {
        self.send(Method::Post, headers, body, wall).await
    }

    /// Listens to what the server has to say by itself, or goes on to.
    pub async fn listen(&self, headers: Vec<(String, String)>, wall: Duration) -> Result<Streamed, Fault> {
        let headers = headers.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type")).collect();
        self.send(Method::Get, headers, Vec::new(), wall).await
    }

    async fn send(
        &self,
        method: Method,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
        wall: Duration,
    ) -> Result<Streamed, Fault> {
        let client = self.gateway.client(&self.barred)?;
        let connections = self.gateway.connections();
        let mut secrets = Vec::new();
        for (name, reference) in &self.address.headers {
            secrets.push(SecretHeader::new(name, connections.header_value(reference).await?.expose())?);
        }
        if let Some(connection) = &self.address.connection {
            for (name, value) in connections.headers(connection, &client).await? {
                secrets.push(SecretHeader::new(&name, value.expose())?);
            }
        }
        let request = WebRequest {
            method,
            headers,
            body,
            limits: WebLimits { wall, body: MOST, redirects: 0 },
            ..WebRequest::get(self.url.as_str())
        };
        client.open(&request, &Within::Origin(self.url.clone()), &secrets).await
    }
}

impl fmt::Debug for ServerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerLine").field(&self.target()).finish()
    }
}
