//! The ways programs fail their callers, each said once.

use toolgate_contract::FailureMode;

use crate::files::fault::{BAD_PATH, Known, OUTSIDE, said};

pub(crate) const TIMED_OUT: Known =
    Known::new("timed_out", "The time is up. Raise `timeout_seconds`, at most 600, or ask for less at once.");
pub(crate) const CPU_LIMIT: Known = Known::new("cpu_limit", "All processor time is used. Do less in one call.");
pub(crate) const OOM_KILLED: Known =
    Known::new("oom_killed", "More memory was used than the room has. Work on less at a time.");
pub(crate) const PIDS_EXHAUSTED: Known =
    Known::new("pids_exhausted", "More processes were started than the room holds. Start fewer at once.");
pub(crate) const DISK_LIMIT: Known = Known::new("disk_limit", "More was written than the room allows. Write less.");
pub(crate) const OUTPUT_LIMIT: Known =
    Known::new("output_limit", "More was said than anyone reads. Send the output to a file and read a part of it.");
pub(crate) const CANCELLED: Known = Known::new("cancelled", "The caller cancelled the call.");
pub(crate) const ROOM_LOST: Known = Known::new("room_lost", "The room died. Call again: a new one is made.");

pub(crate) const NO_PROGRAM: Known =
    Known::new("program_not_found", "There is no such program in the room. Use one that is installed.");
pub(crate) const NO_INTERPRETER: Known =
    Known::new("interpreter_not_found", "The room has no interpreter for the language. Use another language.");
pub(crate) const BAD_COMMAND: Known =
    Known::new("bad_command", "`argv` is empty, or a word has a NUL byte. Name a program.");
const BAD_ENV: Known =
    Known::new("bad_environment", "A variable has a name or a value no program can have. Use letters, digits and `_`.");
const ENV_REFUSED: Known = Known::new(
    "environment_refused",
    "A variable would change which programs or libraries run. Leave it out, or set it in a script.",
);
pub(crate) const CODE_TOO_LONG: Known =
    Known::new("code_too_long", "Long code leaves no way to pass `stdin`. Write the code to a file and run that.");
pub(crate) const NO_TERMINAL: Known =
    Known::new("unknown_terminal", "No terminal has that name, or it was closed. Open one with `terminal_open`.");
pub(crate) const TOO_MANY_TERMINALS: Known =
    Known::new("too_many_terminals", "Too many terminals are open. Close one with `terminal_close`.");
pub(crate) const BAD_KEY: Known = Known::new("bad_key", "There is no such key. The message names the nearest.");
pub(crate) const NOTHING_TYPED: Known =
    Known::new("nothing_typed", "Neither `text` nor `keys` holds anything. Give one of them.");

pub(crate) const WALL_MISSING: Known =
    Known::new("wall_missing", "This machine cannot put up a wall the room must have. Ask the operator.");
pub(crate) const ROOM_FAILED: Known = Known::new("room_failed", "The room could not be made. Ask the operator.");

/// The part of a declaration that says how a program that runs to its end fails.
pub(super) fn run_modes(own: &[&Known]) -> Vec<FailureMode> {
    let ends = [&TIMED_OUT, &CPU_LIMIT, &OOM_KILLED, &PIDS_EXHAUSTED, &DISK_LIMIT, &OUTPUT_LIMIT, &CANCELLED];
    said(own.iter().chain(&ends).chain(&STARTS).copied())
}

/// The same for one that is started and left running.
pub(super) fn start_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&STARTS).copied())
}

/// The same for what is done to a terminal.
pub(super) fn terminal_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&[&NO_TERMINAL, &ROOM_LOST]).copied())
}

const STARTS: [&Known; 7] = [&BAD_ENV, &ENV_REFUSED, &OUTSIDE, &BAD_PATH, &WALL_MISSING, &ROOM_FAILED, &ROOM_LOST];
