//! The record: calls, everything about one of them, entries as they are written, whether it holds, and what is counted in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{CallId, Fault};
use toolgate_runtime::store::{
    self, Line, Reader, StoreError,
    calls::{self, Filter},
};

use super::{
    answer::{Answered, Data},
    args::{Ended, Nothing, One},
    desk::{Desk, now_ms},
    page::{Moment, Row, Window},
    tool::{Tool, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read("audit_calls", "Calls of agents, the newest first: what each was, what was decided, how it ended.", list)
            .paged(),
        read(
            "audit_show",
            "Everything recorded about one call, approval, grant, token or agent, entry by entry, the oldest first.",
            show,
        )
        .paged(),
        read("audit_entries", "The entries of the record as they are written, the newest first.", entries).paged(),
        read(
            "audit_verify",
            "Read every byte of the record, and say what was changed, dropped, added or cut. It takes as long as the disk does.",
            verify,
        ),
        read(
            "analytics_summary",
            "Calls of a window of time, counted by how they ended, with how long they took and what guards saw.",
            summary,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only of this agent.
    agent: Option<String>,
    /// Only of this tool.
    tool: Option<String>,
    /// Only those that ended like this.
    status: Option<One<Ended>>,
    /// Only with a finding of this kind, or with `any`.
    finding: Option<String>,
    /// From this moment on: ISO 8601 with a time zone.
    since: Option<Moment>,
    /// Up to this moment: ISO 8601 with a time zone.
    until: Option<Moment>,
}

async fn list(desk: Desk, Which { agent, tool, status, finding, since, until }: Which) -> Answered {
    let window = Window::of(since, until)?;
    let filter = Filter {
        agent,
        tool,
        finding,
        status: status.map(|One(ended)| ended.as_str().to_owned()),
        since_ms: window.since,
        until_ms: window.until,
        before: desk.page.number()?,
        limit: Some(desk.page.limit()),
    };
    let calls::Calls { calls, next } = desk.read(move |reader| calls::list(reader, &filter)).await?;
    let rows = calls.into_iter().map(|call| (call.seq.to_string(), json!(call))).collect();
    Ok(desk.page.of_part(rows, next))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct About {
    /// A call's id, or the name of what people decided about.
    id: String,
}

async fn show(desk: Desk, About { id }: About) -> Answered {
    let about = CallId(id);
    let lines = desk.read(move |reader| reader.show(&about)).await?;
    if lines.is_empty() {
        let message = "nothing is recorded about this";
        return Err(Fault::failed("nothing_recorded", message, "Look for its id with `audit_calls`."));
    }
    desk.page.of(lines.into_iter().map(row).collect())
}

fn row(line: Line) -> Row {
    (line.seq.to_string(), json!(line))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entries {
    /// Only calls that begin (`intent`) or end (`end`), or what people and the program did besides (`note`).
    kind: Option<One<EntryKind>>,
    /// From this moment on: ISO 8601 with a time zone.
    since: Option<Moment>,
    /// Up to this moment: ISO 8601 with a time zone.
    until: Option<Moment>,
}

/// What an entry of the record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryKind(&'static str);

impl super::args::Worded for EntryKind {
    fn words() -> Vec<&'static str> {
        vec!["intent", "end", "note"]
    }

    fn read(word: &str) -> Option<Self> {
        Self::words().into_iter().find(|known| *known == word).map(Self)
    }
}

async fn entries(desk: Desk, Entries { kind, since, until }: Entries) -> Answered {
    let window = Window::of(since, until)?;
    let (from, limit) = (desk.page.number()?.unwrap_or(u64::MAX), desk.page.limit());
    let kind = kind.map(|One(EntryKind(kind))| kind);
    let (rows, more) = desk.read(move |reader| back(reader, from, limit, kind, window)).await?;
    Ok(desk.page.of_part(rows, more))
}

/// Entries before one, the newest first, and where reading stopped if there are more.
fn back(
    reader: &Reader,
    from: u64,
    limit: usize,
    kind: Option<&str>,
    window: Window,
) -> Result<(Vec<Row>, Option<u64>), StoreError> {
    let (mut rows, mut is_over) = (Vec::new(), false);
    let stopped = reader.back(from, |line| {
        let at_ms = line.body["at_ms"].as_u64().unwrap_or_default();
        is_over = window.since.is_some_and(|since| at_ms < since);
        if !is_over && window.has(at_ms) && kind.is_none_or(|kind| line.body["kind"] == kind) {
            rows.push(row(line));
        }
        !is_over && rows.len() < limit
    })?;
    Ok((rows, stopped.filter(|_| !is_over)))
}

async fn verify(desk: Desk, _: Nothing) -> Answered {
    let report = desk.alone(|dir| store::verify(dir, &mut |_, _| {})).await??;
    let mut page = json!(report);
    page["sound"] = json!(report.is_sound());
    Ok(Data::one(&page))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Span {
    /// Where the window begins: ISO 8601 with a time zone. A day before its end where it is left out.
    since: Option<Moment>,
    /// Where it ends: ISO 8601 with a time zone. Now where it is left out.
    until: Option<Moment>,
    /// Into how many equal steps it is cut.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    steps: u32,
}

fn one() -> u32 {
    1
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// What is counted, and over what.
#[derive(Serialize)]
struct Summary {
    since: String,
    until: String,
    #[serde(flatten)]
    tally: calls::Tally,
}

async fn summary(desk: Desk, Span { since, until, steps }: Span) -> Answered {
    let until = until.unwrap_or_else(|| Moment::from_ms(now_ms()));
    let since = since.unwrap_or_else(|| Moment::from_ms(until.ms().saturating_sub(DAY_MS)));
    Window::of(Some(since), Some(until))?;
    let steps = usize::try_from(steps).unwrap_or(1).clamp(1, 100);
    let tally = desk.read(move |reader| calls::tally(reader, since.ms(), until.ms(), steps)).await?;
    Ok(Data::one(&Summary { since: since.to_string(), until: until.to_string(), tally }))
}
