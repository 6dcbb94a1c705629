//! Small functions of their input. They need nothing, so every named access level has them.

pub(crate) mod echo;
