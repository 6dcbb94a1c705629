//! What holds agents back.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use toolgate_contract::{AgentName, Latch, LatchKind, Person, Revoked};

use super::row::{Json, Trouble, maybe_json, name, word};

/// A latch that already holds keeps its own beginning and reason.
pub(super) fn close(
    tx: &Transaction<'_>,
    agent: &AgentName,
    kind: LatchKind,
    why: &str,
    now_ms: u64,
) -> Result<bool, Trouble> {
    let closed = tx.execute(
        "INSERT INTO latches(agent, kind, since_ms, why) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (agent, kind) DO UPDATE SET since_ms = excluded.since_ms, why = excluded.why, cleared = NULL
         WHERE cleared IS NOT NULL",
        params![&*agent.0, kind.as_str(), now_ms, why],
    )?;
    Ok(closed == 1)
}

pub(super) fn of(tx: &Transaction<'_>, agent: &AgentName) -> Result<Vec<Latch>, Trouble> {
    let mut query = tx.prepare_cached("SELECT * FROM latches WHERE agent = ?1 ORDER BY kind")?;
    let rows = query.query_map([&*agent.0], latch)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn clear(
    tx: &Transaction<'_>,
    agent: &AgentName,
    kind: LatchKind,
    by: Person,
    now_ms: u64,
) -> Result<Option<Latch>, Trouble> {
    let sql = "UPDATE latches SET cleared = ?3 WHERE agent = ?1 AND kind = ?2 AND cleared IS NULL RETURNING *";
    let cleared = Json(Revoked { by, at_ms: now_ms });
    Ok(tx.query_row(sql, params![&*agent.0, kind.as_str(), cleared], latch).optional()?)
}

fn latch(row: &Row<'_>) -> rusqlite::Result<Latch> {
    Ok(Latch {
        agent: name(row, "agent")?,
        kind: word(row, "kind", LatchKind::parse)?,
        since_ms: row.get("since_ms")?,
        why: row.get("why")?,
        cleared: maybe_json(row, "cleared")?,
    })
}
