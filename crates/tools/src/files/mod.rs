//! Files of the workspace.

mod workspace;

pub use workspace::{Protected, Workspace};
