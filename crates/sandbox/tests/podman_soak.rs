//! The test of `docker_soak.rs` once more, with containers that Podman makes.

mod docker_soak;
