//! From what a call asks for to what the room is given.

use std::collections::BTreeMap;

use toolgate_contract::{Fault, Job, JobLimits};

use super::fault::BAD_COMMAND;
use crate::{Cx, files::text::brief};

/// A job, if it is one that can be started. Which variables may be set is for the room to say.
pub(super) fn job(
    cx: &Cx,
    argv: Vec<String>,
    cwd: Option<&str>,
    env: BTreeMap<String, String>,
    stdin: Vec<u8>,
    limits: JobLimits,
) -> Result<Job, Fault> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(BAD_COMMAND.failed("`argv` names no program", "Give the program as the first word."));
    }
    if let Some(word) = argv.iter().find(|word| word.contains('\0')) {
        let word = word.escape_debug().to_string();
        return Err(BAD_COMMAND.failed(format!("`{}` has a NUL byte in it", brief(&word)), "Write it without."));
    }
    Ok(Job { argv, cwd: directory(cx, cwd)?, env, stdin, limits })
}

/// The directory relative to the workspace, or its whole path where it lies elsewhere, without dots; empty for the
/// workspace. Whether it is there is for the room
/// to say, which may show other files than this machine has.
fn directory(cx: &Cx, cwd: Option<&str>) -> Result<String, Fault> {
    let Some(cwd) = cwd else { return Ok(String::new()) };
    cx.workspace()?.spelling(cwd)
}
