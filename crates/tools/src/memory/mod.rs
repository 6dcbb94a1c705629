//! What an agent remembers.

pub(crate) mod recent_calls;
