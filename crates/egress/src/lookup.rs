//! From a name to the addresses it has now.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Semaphore, time::timeout};
use toolgate_contract::Fault;
use toolgate_guard::host_name::HostName;

use crate::servers;

/// Who knows the addresses of names.
#[derive(Clone)]
pub enum Resolver {
    /// The machine, as it looks up names for every program on it.
    System,
    /// These name servers, asked in this order.
    Servers(Vec<SocketAddr>),
    /// What was found beforehand. Names that are not in it have no address.
    Pinned(Arc<BTreeMap<HostName, Vec<IpAddr>>>),
    /// This function, which must not block.
    Given(Arc<Answers>),
}

/// Answers for the addresses of a name.
pub type Answers = dyn Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl Resolver {
    /// These name servers, or the machine where there are none.
    pub fn servers_or_system(servers: &[SocketAddr]) -> Self {
        if servers.is_empty() { Self::System } else { Self::Servers(servers.to_vec()) }
    }

    /// What was found beforehand, by host; one key that is no host spoils it. A host that is an address by itself is not
    /// looked up.
    pub fn pinned(found: &BTreeMap<String, Vec<IpAddr>>) -> Result<Self, Fault> {
        let names = found.iter().filter(|(host, _)| host.parse::<IpAddr>().is_err());
        let pin = |(name, addresses): (&String, &Vec<IpAddr>)| {
            let name = HostName::parse(name).map_err(|bad| {
                Fault::failed(
                    "bad_pinned_host",
                    format!("`{}` is no host name to keep addresses for: {bad}", name.escape_debug()),
                    "Write the name of a host, without a port.",
                )
            })?;
            Ok((name, addresses.clone()))
        };
        Ok(Self::Pinned(Arc::new(names.map(pin).collect::<Result<_, Fault>>()?)))
    }

    /// The addresses of a name, now.
    pub(crate) async fn look_up(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|found| found.ip()).collect()),
            Self::Servers(servers) => servers::ask(servers, name).await,
            Self::Pinned(found) => Ok(found.get(name).cloned().unwrap_or_default()),
            Self::Given(answers) => answers(name),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Servers(servers) => f.debug_tuple("Servers").field(servers).finish(),
            Self::Pinned(found) => f.debug_tuple("Pinned").field(found).finish(),
            Self::Given(_) => f.write_str("Given"),
        }
    }
}

/// Look-ups that have an end: so many at the same time, and each so long.
#[derive(Debug, Clone)]
pub(crate) struct LookUps {
    resolver: Resolver,
    places: Arc<Semaphore>,
    each: Duration,
}

impl LookUps {
    pub(crate) fn new(resolver: Resolver, at_once: usize, each: Duration) -> Self {
        Self { resolver, places: Arc::new(Semaphore::new(at_once)), each }
    }

    /// The addresses of a name, now.
    ///
    /// A look-up that takes too long is not waited for, but keeps its place until it is over: the machine's resolver
    /// holds a thread until it gives up by itself.
    pub(crate) async fn addresses(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        let (resolver, name, places) = (self.resolver.clone(), name.clone(), Arc::clone(&self.places));
        let look_up = tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            resolver.look_up(&name).await
        });
        match timeout(self.each, look_up).await {
            Ok(Ok(found)) => found,
            Ok(Err(ended)) => Err(io::Error::other(ended)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[tokio::test]
    async fn what_is_pinned_is_all_there_is() {
        let one: IpAddr = "1.1.1.1".parse().unwrap();
        let found = ["Example.com.", "1.1.1.1"].map(|host| (host.to_owned(), vec![one]));
        let pinned = Resolver::pinned(&BTreeMap::from(found)).unwrap();
        assert_eq!(pinned.look_up(&name("example.com")).await.unwrap(), [one]);
        assert_eq!(pinned.look_up(&name("localhost")).await.unwrap(), [] as [IpAddr; 0]);
    }

    #[test]
    fn only_names_are_pinned() {
        let fault = Resolver::pinned(&BTreeMap::from([("example.com:443".to_owned(), Vec::new())])).unwrap_err();
        assert_eq!(fault.code, "bad_pinned_host");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_that_takes_too_long_is_not_waited_for() {
        // Nobody answers at this end of the machine: the socket is bound and never read.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let servers = Resolver::servers_or_system(&[silent.local_addr().unwrap()]);
        let look_ups = LookUps::new(servers, 1, Duration::from_millis(10));
        let found = look_ups.addresses(&name("example.com")).await;
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
