//! How a program ended, as an answer or as a fault.
//!
//! A program that ended by itself is an answer, whatever its status: a failing test is what was asked for. One that was
//! ended is a fault with the ending's own word, because what it was to do is not done.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_contract::{Ending, Fault, Ran, Stream, Truncated, Unit};
use toolgate_guard::shell::ir::visible;

use super::{
    MAX_SECONDS,
    fault::{CANCELLED, CPU_LIMIT, DISK_LIMIT, OOM_KILLED, OUTPUT_LIMIT, PIDS_EXHAUSTED, ROOM_LOST, TIMED_OUT},
};
use crate::{Answer, files::fault::Known};

/// What a program that ended by itself leaves.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ended {
    /// How it ended: `exited`, or `signaled` when it crashed or killed itself.
    ending: String,
    /// Its exit status; null when a signal ended it. 0 usually means that it worked.
    exit_code: Option<i32>,
    /// The number of the signal that ended it; null when it exited.
    signal: Option<i32>,
    /// What it wrote to standard output. Of very much only the head and the tail.
    stdout: String,
    /// What it wrote to standard error. Of very much only the head and the tail.
    stderr: String,
    /// How many bytes it wrote to standard output in all.
    stdout_bytes: u64,
    /// How many bytes it wrote to standard error in all.
    stderr_bytes: u64,
    /// How long it ran, in milliseconds.
    duration_ms: u64,
    /// Connections it was refused, each with the reason.
    refused_connections: Vec<String>,
}

/// The answer of a program that ended by itself, or the fault of one that was ended.
pub(super) fn answer(ran: Ran, seconds: u64) -> Result<Answer<Ended>, Fault> {
    let (exit_code, signal) = match ran.ending {
        Ending::Exited { code } => (Some(code), None),
        Ending::Signaled { signal } => (None, Some(signal)),
        Ending::TimedOut
        | Ending::CpuLimit
        | Ending::OomKilled
        | Ending::PidsExhausted
        | Ending::DiskLimit
        | Ending::OutputLimit
        | Ending::Cancelled
        | Ending::RoomLost => return Err(was_ended(&ran, seconds)),
    };
    let text = text(&ran);
    let cut = truncated(&ran);
    let ended = Ended {
        ending: ran.ending.as_str().to_owned(),
        exit_code,
        signal,
        stdout: ran.stdout.text,
        stderr: ran.stderr.text,
        stdout_bytes: ran.stdout.bytes,
        stderr_bytes: ran.stderr.bytes,
        duration_ms: ran.usage.wall_ms,
        refused_connections: ran.refused,
    };
    Ok(Answer::with_text(ended, text).truncated(cut))
}

/// Standard output, then standard error under a heading, then how it ended if that was not with status 0.
fn text(ran: &Ran) -> String {
    const MOST_REFUSED: usize = 20;
    let mut text = ran.stdout.text.clone();
    let mut line = |start: &str, rest: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(start);
        text.push_str(rest);
    };
    if !ran.stderr.text.is_empty() {
        line("[stderr]\n", &ran.stderr.text);
    }
    for refused in ran.refused.iter().take(MOST_REFUSED) {
        line("[connection refused] ", &visible(refused));
    }
    match ran.ending {
        Ending::Exited { code: 0 } => {}
        Ending::Exited { code } => line("[exit status] ", &code.to_string()),
        Ending::Signaled { signal } => line("[ended by signal] ", &signal.to_string()),
        other => line("[ended] ", other.as_str()),
    }
    if text.is_empty() { "(no output)".to_owned() } else { text }
}

/// What of both streams together was not kept.
fn truncated(ran: &Ran) -> Option<Truncated> {
    let shown = ran.stdout.shown_bytes + ran.stderr.shown_bytes;
    let total = ran.stdout.bytes + ran.stderr.bytes;
    (shown < total).then_some(Truncated { shown, total, unit: Unit::Bytes })
}

/// Says why a program was ended, and what it said last.
fn was_ended(ran: &Ran, seconds: u64) -> Fault {
    let mut last = String::new();
    for (name, stream) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        if let Some(lines) = last_lines(stream) {
            last += &format!("\nthe end of its {name}:\n{lines}");
        }
    }
    let fault = |known: &Known, what: &str, remedy: &str| known.failed(format!("{what}{last}"), remedy);
    match ran.ending {
        // It was given less time than it asked for.
        Ending::TimedOut if ran.usage.wall_ms / 1000 < seconds => {
            let what =
                format!("it was ended after {} s: the operator lets no program run longer", ran.usage.wall_ms / 1000);
            fault(&TIMED_OUT, &what, "Ask for less at once.")
        }
        Ending::TimedOut => {
            let what = format!("it was ended after {seconds} s");
            let remedy = format!("Raise `timeout_seconds`, at most {MAX_SECONDS}, or ask for less at once.");
            let longest = "Ask for less at once, or use a terminal for what goes on for long.";
            fault(&TIMED_OUT, &what, if seconds < MAX_SECONDS { &remedy } else { longest })
        }
        Ending::CpuLimit => fault(&CPU_LIMIT, "it used all of its processor time", "Do less in one call."),
        Ending::OomKilled => fault(&OOM_KILLED, "it used more memory than the room has", "Work on less at a time."),
        Ending::PidsExhausted => {
            fault(&PIDS_EXHAUSTED, "it started more processes than the room holds", "Start fewer at once.")
        }
        Ending::DiskLimit => fault(&DISK_LIMIT, "it wrote more than the room allows", "Write less."),
        Ending::OutputLimit => {
            fault(&OUTPUT_LIMIT, "it said more than anyone reads", "Send the output to a file and read a part of it.")
        }
        Ending::Cancelled => fault(&CANCELLED, "the caller cancelled the call", "Call again if it is still wanted."),
        Ending::RoomLost | Ending::Exited { .. } | Ending::Signaled { .. } => {
            fault(&ROOM_LOST, "the room died around it", "Call again: a new room is made.").retryable()
        }
    }
}

/// The end of a stream, fit for a message: a few lines without anything a reader does not see.
fn last_lines(stream: &Stream) -> Option<String> {
    const LINES: usize = 12;
    const BYTES: usize = 800;
    let text = stream.text.trim_end();
    if text.is_empty() {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let tail: Vec<String> = lines[lines.len().saturating_sub(LINES)..].iter().map(|line| visible(line)).collect();
    let tail = tail.join("\n");
    Some(tail[tail.ceil_char_boundary(tail.len().saturating_sub(BYTES))..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::stage::ran, *};

    /// The text for the model.
    fn check(ran: Ran, expected: &str) {
        assert_eq!(text(&ran), expected);
    }

    #[test]
    fn the_text_is_what_it_said_and_how_it_ended_if_not_well() {
        check(ran(0, "", ""), "(no output)");
        check(ran(0, "a\n", ""), "a\n");
        check(ran(0, "a", "b\n"), "a\n[stderr]\nb\n");
        check(ran(3, "a\n", ""), "a\n[exit status] 3");
        check(ran(1, "", "b"), "[stderr]\nb\n[exit status] 1");
        check(Ran { ending: Ending::Signaled { signal: 11 }, ..ran(0, "a", "") }, "a\n[ended by signal] 11");
        let refused = vec!["e.example:443: not\u{200b} on the list".to_owned()];
        check(
            Ran { refused, ..ran(6, "", "") },
            "[connection refused] e.example:443: not\\u{200b} on the list\n[exit status] 6",
        );
    }

    #[test]
    fn what_was_not_kept_is_counted_over_both_streams() {
        assert_eq!(truncated(&ran(0, "a", "b")), None);
        let cut = Stream { text: "a..z".into(), bytes: 100, lines: 1, shown_bytes: 2, lossy: false };
        let ran = Ran { stdout: cut, ..ran(0, "", "bb") };
        assert_eq!(truncated(&ran), Some(Truncated { shown: 4, total: 102, unit: Unit::Bytes }));
    }

    #[test]
    fn a_program_that_was_ended_is_a_fault_with_the_word_for_it_and_its_last_lines() {
        for (ending, code, retryable) in [
            (Ending::TimedOut, "timed_out", false),
            (Ending::CpuLimit, "cpu_limit", false),
            (Ending::OomKilled, "oom_killed", false),
            (Ending::PidsExhausted, "pids_exhausted", false),
            (Ending::DiskLimit, "disk_limit", false),
            (Ending::OutputLimit, "output_limit", false),
            (Ending::Cancelled, "cancelled", false),
            (Ending::RoomLost, "room_lost", true),
        ] {
            let out: String = (1..=40).map(|n| format!("line {n}\n")).collect();
            let fault = answer(Ran { ending, ..ran(0, &out, "\u{1b}[31moh") }, 30).unwrap_err();
            assert_eq!((fault.code.as_ref(), fault.retryable), (code, retryable));
            assert_eq!(ending.as_str(), code);
            assert!(fault.message.contains("\nline 29\n") && fault.message.contains("\nline 40\n"), "{fault}");
            assert!(!fault.message.contains("line 28\n") && !fault.message.contains('\u{1b}'), "{fault}");
            assert!(fault.message.ends_with("the end of its stderr:\n\\u{1b}[31moh"), "{fault}");
        }
        let long = answer(Ran { ending: Ending::OutputLimit, ..ran(0, &"é".repeat(50_000), "") }, 30).unwrap_err();
        assert!(long.message.len() < 1000, "{}", long.message.len());
    }

    #[test]
    fn more_time_is_only_offered_where_there_is_more() {
        let remedy = |took: u64, seconds| {
            let mut ran = Ran { ending: Ending::TimedOut, ..ran(0, "", "") };
            ran.usage.wall_ms = took * 1000 + 7;
            answer(ran, seconds).unwrap_err().remedy
        };
        assert_eq!(remedy(30, 30), "Raise `timeout_seconds`, at most 600, or ask for less at once.");
        assert_eq!(remedy(600, 600), "Ask for less at once, or use a terminal for what goes on for long.");
        assert_eq!(remedy(20, 30), "Ask for less at once.");
    }
}
