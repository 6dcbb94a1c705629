//! Rooms: where programs run that nobody has to trust.
//!
//! A [`Backend`] opens rooms, a [`Room`] runs jobs, a [`RoomSpec`] says what a room is to be. Every job comes back with
//! a receipt: the walls that stood around it, as its own process found them. A wall that cannot be put up is a refusal
//! that names it, never a weaker room.
//!
//! `process/` is the backend for Linux, `docker/` the one for containers, in which a `worker/` does what `process/` does;
//! all unsafe code of the project is in `process/sys.rs`.

mod deny_all;
mod docker;
mod env;
pub mod ids;
mod lifecycle;
mod output;
mod overlay;
mod pool;
mod process;
pub mod registry;
mod room;
mod spec;
pub mod worker;

pub use deny_all::DenyAll;
pub use docker::{DockerBackend, DockerSettings, Furnisher, LogShipping, Readiness, find_daemon, load_image};
pub use env::admit_variable;
pub use lifecycle::{Clock, Lease, Lifecycle, Monotonic, Owner, Rooms, Strategy};
pub use overlay::{Change, Changes, How, Refused, What};
pub use pool::{NOBODY_YET, Pool, PoolSize, Pooled};
pub use process::ProcessBackend;
pub use room::{Backend, Heard, Io, Missing, Probed, Room, RoomError, Source, Terminal};
pub use spec::{Egress, Opening, RoomLimits, RoomSpec, Tier, TierChoice, Wall, WorkspaceMode, WorkspaceSpec};
