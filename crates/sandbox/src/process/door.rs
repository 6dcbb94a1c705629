//! The one door of a room's network, served by the runtime.

use std::{
    collections::VecDeque,
    net::{TcpListener, UdpSocket},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use toolgate_egress::{Barred, Event, Internal, Limits, Openings, Resolver, Rules, Terms, original_destination};

use super::net;
use crate::{room::RoomError, spec::Opening};

/// How many refusals are remembered for one room.
const MOST: usize = 256;

/// A door that is served until it is dropped.
#[derive(Debug)]
pub(crate) struct Door {
    _served: toolgate_egress::Door,
    refused: Arc<Mutex<Refused>>,
}

#[derive(Debug, Default)]
struct Refused {
    /// How many there were, also those that are no longer remembered.
    count: usize,
    latest: VecDeque<String>,
}

impl Door {
    /// Serves the listeners of a room: caught connections, names over UDP, names over TCP, CONNECT.
    pub(crate) fn serve(opening: &Opening, listeners: Vec<OwnedFd>) -> Result<Self, RoomError> {
        let rules = Rules::parse(&opening.hosts).map_err(RoomError::BadJob)?;
        let internal = Internal::parse(&opening.internal).map_err(RoomError::BadJob)?;
        let barred = Barred::parse(&opening.barred).map_err(RoomError::BadJob)?;
        let resolver = match opening.pinned.is_empty() {
            true => Resolver::servers_or_system(&opening.name_servers),
            false => Resolver::pinned(&opening.pinned).map_err(RoomError::BadJob)?,
        };
        let Ok([tcp, dns_udp, dns_tcp, connect]) = <[OwnedFd; 4]>::try_from(listeners) else {
            return Err(RoomError::Lost("its network has no listeners".into()));
        };
        let refused = Arc::new(Mutex::new(Refused::default()));
        let told = refused.clone();
        let terms = Terms {
            rules,
            internal,
            barred,
            resolver,
            limits: Limits::default(),
            original: Arc::new(original_destination),
            events: Arc::new(move |event| told.lock().unwrap_or_else(PoisonError::into_inner).note(&event)),
        };
        let openings = Openings {
            tcp: TcpListener::from(tcp),
            dns_udp: UdpSocket::from(dns_udp),
            dns_tcp: TcpListener::from(dns_tcp),
            connect: TcpListener::from(connect),
        };
        let served = toolgate_egress::Door::open(openings, terms).map_err(RoomError::step("serve the room's door"))?;
        Ok(Self { _served: served, refused })
    }

    /// How many were refused so far.
    pub(crate) fn refusals(&self) -> usize {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// What was refused since there were this many.
    pub(crate) fn refused_since(&self, before: usize) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (refused.count - before).min(refused.latest.len());
        refused.latest.range(refused.latest.len() - new..).cloned().collect()
    }
}

/// How programs that look for a proxy find the door's. It takes CONNECT only; plain HTTP goes the way of all others.
pub(crate) fn proxy_variables() -> [(String, String); 3] {
    let proxy = format!("http://{}", net::CONNECT);
    [("https_proxy", proxy.as_str()), ("HTTPS_PROXY", &proxy), ("no_proxy", "localhost,127.0.0.1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

impl Refused {
    fn note(&mut self, event: &Event) {
        if let Event::Refused { host, port, reason, .. } = event {
            self.count += 1;
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            self.latest.push_back(format!("{host}{port}: {reason} ({})", reason.as_str()));
            if self.latest.len() > MOST {
                self.latest.pop_front();
            }
        }
    }
}
