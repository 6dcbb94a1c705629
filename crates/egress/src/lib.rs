//! The one door to the network: who may be talked to, and by which address.
//!
//! [`Rules`] are an allowlist of `host:port`. A room gets a [`Door`]: a name server that knows only the names in the
//! rules and asks nobody, a listener that catches every connection of the room, and a proxy for programs that know about
//! proxies. All three are judged alike: by name and port, by what the client itself says first (TLS and HTTP name a
//! host), by the address the name has at that moment ([`judge`] knows which addresses are public), and the address that
//! was judged is the one that is dialled. Everything else is reset at once, and an [`Event`] says why.
//!
//! How connections are caught is the room's business; of that only [`original_destination`] is here.

mod connect;
mod dns;
mod door;
mod event;
mod peek;
mod probe;
mod resolve;
mod rule;
mod splice;
mod target;

pub use door::{Door, Events, Limits, Openings, Original, Terms, original_destination};
pub use event::{Event, Reason};
pub use probe::{Ways, self_probe};
pub use resolve::{Answers, Resolver};
pub use rule::{Rule, Rules};
pub use toolgate_guard::{
    address::{Special, judge},
    host_name::{BadName, HostName},
};
