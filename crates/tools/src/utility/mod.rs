//! Small functions of their input. They need nothing, so every named access level has them.

pub(crate) mod calculator;
pub(crate) mod convert_temperature;
pub(crate) mod echo;
pub(crate) mod generate_password;
pub(crate) mod generate_uuid;
pub(crate) mod get_time;
pub(crate) mod hash_text;
pub(crate) mod json_format;
mod number;
pub(crate) mod string_stats;
pub(crate) mod url_encode;

#[cfg(test)]
mod testing;
