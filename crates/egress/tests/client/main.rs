//! The client, tried against servers that mean it ill and names that lie.
//!
//! Everything happens on loopback. A listener that must not be visited counts who comes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod addresses;
mod http2;
mod limits;
mod manners;
mod names;
mod proxies;
mod redirects;
mod secrets;
mod stage;
mod tls;
