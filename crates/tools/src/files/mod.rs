//! Files of the workspace.

mod fault;
mod glob;
mod kept;
mod path;
mod slot;
mod text;
mod walk;
mod workspace;

pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod find;
pub(crate) mod grep;
pub(crate) mod ls;
pub(crate) mod read;
pub(crate) mod write;

pub use workspace::{Protected, Workspace};
