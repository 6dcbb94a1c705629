//! From what a call asks for to what the room is given.

use std::collections::BTreeMap;

use toolgate_contract::{Fault, Job, JobLimits};

use super::fault::{BAD_COMMAND, BAD_ENV};
use crate::{Cx, files::text::brief};

/// A job, if it is one that can be started.
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
        return Err(BAD_COMMAND.failed(format!("`{}` has a NUL byte in it", seen(word)), "Write it without."));
    }
    for (name, value) in &env {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_name) {
            let message = format!("`{}` is not the name of a variable", seen(name));
            return Err(BAD_ENV.failed(message, "Use letters, digits and `_`."));
        }
        if value.contains('\0') {
            return Err(BAD_ENV.failed(format!("the value of `{name}` has a NUL byte in it"), "Write it without."));
        }
    }
    Ok(Job { argv, cwd: directory(cx, cwd)?, env, stdin, limits })
}

/// The directory relative to the workspace, without dots; empty for the workspace. Whether it is there is for the room
/// to say, which may show other files than this machine has.
fn directory(cx: &Cx, cwd: Option<&str>) -> Result<String, Fault> {
    let Some(cwd) = cwd else { return Ok(String::new()) };
    let admitted = cx.workspace()?.admit(cwd)?;
    let mut names: Vec<&str> = Vec::new();
    for name in admitted.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    Ok(names.join("/"))
}

fn seen(text: &str) -> String {
    brief(&text.escape_debug().to_string()).into_owned()
}
