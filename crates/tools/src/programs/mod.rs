//! Programs: commands, code and terminals. All of them run in the call's room.
//!
//! Nothing here looks at what a command means. A tool says which words it would start (`Tool::starting`), the gate reads
//! and judges them, the room decides what they can do.

mod ended;
pub(crate) mod fault;
mod job;
#[cfg(test)]
pub(crate) mod stage;

pub(crate) mod bash;
pub(crate) mod run_code;
pub(crate) mod shell;
pub(crate) mod terminal_close;
pub(crate) mod terminal_open;
pub(crate) mod terminal_read;
pub(crate) mod terminal_send;

use std::time::Duration;

use toolgate_contract::{Caps, Files, Guide, GuideKind, Needs};

/// What every tool here needs: a room on the workspace.
const NEEDS: Needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };

/// Seconds a program gets unless the call says otherwise.
const DEFAULT_SECONDS: u64 = 30;
/// Seconds a program gets at most.
const MAX_SECONDS: u64 = 600;

/// How long a call may take: the longest program, and time to end it and to make a room.
const TIMEOUT: Duration = Duration::from_secs(MAX_SECONDS + 30);

/// Both streams as much as is kept of them, and what is said about them.
const CAPS: Caps = Caps { output_bytes: 2 * 51_200 + 8_192, output_lines: 2 * 2_000 + 100, ..Caps::DEFAULT };

/// How many calls of one tool run at once.
const AT_ONCE: u32 = 64;

/// What a program finds where it runs.
fn room_guide() -> Vec<Guide> {
    vec![Guide {
        id: "room".into(),
        title: "What a program finds in its room".into(),
        kind: GuideKind::Markdown,
        content: ROOM.into(),
    }]
}

const ROOM: &str = "\
# What a program finds in its room

- The workspace, to read and, where the operator lets you, to write. Names the operator protects are not there or cannot be
  written.
- The programs of the system, read-only. What is not installed cannot be installed system-wide; put it into the workspace.
- A `HOME` and a `/tmp` of its own. What is left there is not for the next call to count on.
- An environment made from nothing. Variables come from `env` of the call; those that load code into other programs, and
  `PATH`, are refused.
- No network, unless the operator lists hosts. Then names on the list resolve and everything else does not.
- Limits on time, memory, processes and file sizes. A program that passes one is ended, and the answer says which.
- When the call ends, everything it started is ended. For something that stays, use a terminal: `terminal_open`.
- Output is kept from both streams up to a bound; write much of it to a file and read that in parts.
";

fn default_seconds() -> u64 {
    DEFAULT_SECONDS
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{ActionType, Category, SafetyClass};

    use super::*;
    use crate::Tool;

    const ALL: [fn() -> Tool; 7] = [
        bash::tool,
        run_code::tool,
        shell::tool,
        terminal_close::tool,
        terminal_open::tool,
        terminal_read::tool,
        terminal_send::tool,
    ];

    #[test]
    fn declarations_say_what_the_tools_do() {
        for tool in ALL {
            let def = tool().def;
            let category = if def.name == "run_code" { Category::CodeExecution } else { Category::Terminal };
            let action = if def.name == "terminal_read" { ActionType::CodeRead } else { ActionType::CodeWrite };
            assert_eq!((def.category, def.action, def.safety), (category, action, SafetyClass::Write), "{}", def.name);
            assert_eq!(def.needs, NEEDS, "{}", def.name);
        }
    }
}
