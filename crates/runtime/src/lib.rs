//! skeleton

pub mod config;
