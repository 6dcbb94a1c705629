//! placeholder
/// placeholder
#[derive(Debug, Clone)]
pub struct Workspace;
/// placeholder
#[derive(Debug, Clone)]
pub struct Protected;
