//! The one door to the network: who may be talked to, and by which address.
//!
//! [`Judge`] says by which addresses a host may be reached: public ones, and those the operator listed as [`Internal`].
//! Names are looked up by a [`Resolver`], every answer must pass, and the address that was judged is the one that is
//! dialled. Two go by that:
//!
//! - [`Client`] sends the runtime's own requests. It reads a URL once, walks redirects itself, each hop judged like the
//!   first, and bounds everything that comes back. [`Within`] says whom a request may reach.
//! - [`Door`] lets the programs of a room out. [`Rules`] are an allowlist of `host:port`; a name server knows only the
//!   names in the rules and asks nobody, a listener catches every connection of the room, and there is a proxy for
//!   programs that know about proxies. All three are judged alike: by name and port, by what the client itself says first
//!   (TLS and HTTP name a host), and by the address the name has at that moment. Everything else is reset at once, and an
//!   [`Event`] says why. How connections are caught is the room's business; of that only [`original_destination`] is here.

mod client;
mod connect;
mod dns;
mod door;
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

pub use client::{Client, ClientTerms, Streamed};
pub use door::{Door, Events, Limits, Openings, Original, Terms, original_destination};
pub use event::{Event, Reason};
pub use headers::SecretHeader;
pub use judge::{Barred, Internal, Judge, Refusal};
pub use lookup::{Answers, Resolver};
pub use pace::{Pace, PaceTerms};
pub use probe::{Ways, self_probe};
pub use rule::{Rule, Rules};
pub use toolgate_guard::{
    address::{Special, judge},
    host_name::{BadName, HostName},
};
pub use within::Within;
