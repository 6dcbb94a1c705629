//! The tests of `docker.rs` once more, with containers that Podman makes.
//!
//! `TOOLGATE_TEST_PODMAN` names its socket. Without it the tests that need it say that they are skipped.

mod docker;
