//! `terminal_read`: what a terminal shows.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, Fault, SafetyClass, ToolDef};

use super::{AT_ONCE, CAPS, NEEDS, fault::terminal_modes};
use crate::{Answer, Cx, Tool};

const MAX_WAIT_MS: u64 = 30_000;

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "terminal_read".into(),
            summary: "Look at the screen of a terminal.".into(),
            description:
                "Returns what the terminal shows as plain text, what scrolled off it since the last look, where \
                the cursor is and whether the program still runs. It waits until the terminal has been quiet for a \
                moment, at most `wait_ms`; give more for a slow command."
                    .into(),
            category: Category::Terminal,
            action: ActionType::CodeRead,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: Duration::from_millis(MAX_WAIT_MS) + Duration::from_secs(30),
            concurrency: AT_ONCE,
            caps: CAPS,
            examples: vec![
                Example { title: "Now".into(), arguments: json!({ "terminal": "t1" }) },
                Example {
                    title: "After a slow command".into(),
                    arguments: json!({ "terminal": "t1", "wait_ms": 10_000 }),
                },
            ],
            failures: terminal_modes(&[]),
            ..ToolDef::default()
        },
        |_: &Input| Vec::new(),
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The terminal's name.
    terminal: String,
    /// Milliseconds to wait at most until it is quiet.
    #[serde(default = "default_wait")]
    #[schemars(range(max = MAX_WAIT_MS))]
    wait_ms: u64,
}

fn default_wait() -> u64 {
    1_000
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The screen, line by line, without trailing blanks.
    screen: String,
    /// What scrolled off since the last look, oldest first.
    scrolled: String,
    /// Where the cursor is.
    cursor: Cursor,
    /// True while the program is there.
    running: bool,
}

#[derive(Serialize, JsonSchema)]
struct Cursor {
    /// The line, counting from 0.
    row: u16,
    /// The character in it, counting from 0.
    column: u16,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let wait = Duration::from_millis(input.wait_ms.min(MAX_WAIT_MS));
    let seen = cx.programs()?.look_at(&input.terminal, wait, cx.stop_flag())?;
    cx.check()?;
    let mut lines: Vec<&str> = [seen.scrolled.trim_end_matches('\n'), &seen.screen].to_vec();
    lines.retain(|part| !part.is_empty());
    if !seen.running {
        lines.push("[the program has ended]");
    }
    let text = if lines.is_empty() { "(an empty screen)".to_owned() } else { lines.join("\n") };
    let cursor = Cursor { row: seen.cursor.0, column: seen.cursor.1 };
    let output = Output { screen: seen.screen, scrolled: seen.scrolled, cursor, running: seen.running };
    Ok(Answer::with_text(output, text))
}

#[cfg(test)]
mod tests {
    use super::{
        super::stage::{Asked, Stage, ran},
        *,
    };

    /// The screen is what the room's answer has on standard output, what scrolled off is on standard error, and the
    /// program runs while the status is 0.
    fn check(screen: &str, scrolled: &str, status: i32, expected: &str) {
        let stage = Stage::answering([Ok(ran(status, screen, scrolled))]);
        let output = stage.call(tool, json!({ "terminal": "t1" })).unwrap();
        assert_eq!(output.text, expected);
        let structured = json!({
            "screen": screen, "scrolled": scrolled, "cursor": { "row": 1, "column": 2 }, "running": status == 0,
        });
        assert_eq!(output.structured, structured);
        assert_eq!(stage.asked(), [Asked::Look("t1".into(), Duration::from_secs(1))]);
    }

    #[test]
    fn the_text_is_what_scrolled_off_the_screen_and_whether_it_ended() {
        check("$ ls\na", "", 0, "$ ls\na");
        check("b", "a\n", 0, "a\nb");
        check("b", "a\n", 1, "a\nb\n[the program has ended]");
        check("", "", 0, "(an empty screen)");
        check("", "", 1, "[the program has ended]");
    }

    #[test]
    fn nobody_waits_for_more_than_half_a_minute() {
        let stage = Stage::quiet();
        stage.call(tool, json!({ "terminal": "t1", "wait_ms": 1_000_000 })).unwrap();
        assert_eq!(stage.asked(), [Asked::Look("t1".into(), Duration::from_secs(30))]);
        assert!(tool().def.timeout > Duration::from_secs(30));
    }

    #[test]
    fn looking_starts_nothing() {
        let arguments = json!({ "terminal": "t1" });
        assert_eq!(tool().reading.command(&arguments), Ok(None));
        assert_eq!(tool().reading.effects(&arguments), Ok(Vec::new()));
    }
}
