//! The console from outside, over its port.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up should stop there"
)]

mod api;
mod door;
mod events;
mod fence;
mod pages;
mod people;
mod stage;
