//! The one door to the network: who may be talked to, and by which address.
//!
//! [`Rules`] are an allowlist of `host:port`. A room gets a [`Door`]: a name server that knows only the names in the
//! rules and asks nobody, a listener that catches every connection of the room, and a proxy for programs that know about
//! proxies. All three are judged alike: by name and port, by what the client itself says first (TLS and HTTP name a
//! host), by the address the name has at that moment ([`judge`] knows which addresses are public), and the address that
//! was judged is the one that is dialled. Everything else is reset at once, and an [`Event`] says why.
//!
//! How connections are caught is the room's business; of that only [`original_destination`] is here.

mod client;
mod connect;
mod dns;
mod door;
mod entry;
mod event;
mod failure;
mod headers;
mod judge;
mod lookup;
mod manners;
mod pace;
mod peek;
mod probe;
mod robots;
mod rule;
mod servers;
mod splice;
mod target;
mod within;

pub use client::{Client, ClientTerms};
pub use door::{Door, Events, Limits, Openings, Original, Terms, original_destination};
pub use event::{Event, Reason};
pub use headers::SecretHeader;
pub use judge::{Internal, Judge, Refusal};
pub use lookup::{Answers, Resolver};
pub use pace::{Pace, PaceTerms};
pub use probe::{Ways, self_probe};
pub use rule::{Rule, Rules};
pub use toolgate_guard::{
    address::{Special, judge},
    host_name::{BadName, HostName},
};
pub use within::Within;
