//! What is known about agents.

use rusqlite::{Row, Transaction, params};
use serde_json::Value;
use toolgate_contract::AgentName;

use super::{
    EvidenceRow,
    row::{Json, Trouble, json, name},
};

pub(super) fn add(
    tx: &Transaction<'_>,
    agent: &AgentName,
    at_ms: u64,
    kind: &str,
    body: &Value,
) -> Result<u64, Trouble> {
    let sql = "INSERT INTO evidence(agent, at_ms, kind, body) VALUES (?1, ?2, ?3, ?4) RETURNING seq";
    Ok(tx.query_row(sql, params![&*agent.0, at_ms, kind, Json(body)], |row| row.get(0))?)
}

pub(super) fn of(tx: &Transaction<'_>, agent: &AgentName) -> Result<Vec<EvidenceRow>, Trouble> {
    let mut query = tx.prepare_cached("SELECT * FROM evidence WHERE agent = ?1 ORDER BY seq")?;
    let rows = query.query_map([&*agent.0], evidence)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn agents(tx: &Transaction<'_>) -> Result<Vec<AgentName>, Trouble> {
    let mut query = tx.prepare("SELECT DISTINCT agent FROM evidence ORDER BY agent")?;
    let rows = query.query_map([], |row| name(row, "agent"))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn evidence(row: &Row<'_>) -> rusqlite::Result<EvidenceRow> {
    Ok(EvidenceRow {
        seq: row.get("seq")?,
        agent: name(row, "agent")?,
        at_ms: row.get("at_ms")?,
        kind: row.get("kind")?,
        body: json(row, "body")?,
    })
}
