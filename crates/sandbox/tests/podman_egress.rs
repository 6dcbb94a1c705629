//! The tests of `docker_egress.rs` once more, with rooms that Podman makes.
//!
//! `TOOLGATE_TEST_PODMAN` names its socket, and `TOOLGATE_TEST_DOCKER` that of whoever makes the servers. Without either the
//! tests say that they are skipped.

mod docker_egress;
