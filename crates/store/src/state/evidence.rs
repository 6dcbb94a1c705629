//! What is known about agents.

use rusqlite::{Transaction, params};
use toolgate_contract::{AgentName, Evidence};

use super::row::{Json, Trouble, json, name};

pub(super) fn add(tx: &Transaction<'_>, evidence: &Evidence) -> Result<u64, Trouble> {
    let sql = "INSERT INTO evidence(agent, at_ms, kind, body) VALUES (?1, ?2, ?3 ->> 'kind', ?3) RETURNING seq";
    Ok(tx.query_row(sql, params![&*evidence.agent.0, evidence.at_ms, Json(evidence)], |row| row.get(0))?)
}

pub(super) fn of(tx: &Transaction<'_>, agent: &AgentName) -> Result<Vec<Evidence>, Trouble> {
    Ok(after(tx, agent, 0)?.into_iter().map(|(_, evidence)| evidence).collect())
}

pub(super) fn after(tx: &Transaction<'_>, agent: &AgentName, number: u64) -> Result<Vec<(u64, Evidence)>, Trouble> {
    let mut query = tx.prepare_cached("SELECT seq, body FROM evidence WHERE agent = ?1 AND seq > ?2 ORDER BY seq")?;
    let rows = query.query_map(params![&*agent.0, number], |row| Ok((row.get("seq")?, json(row, "body")?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn agents(tx: &Transaction<'_>) -> Result<Vec<AgentName>, Trouble> {
    let mut query = tx.prepare("SELECT DISTINCT agent FROM evidence ORDER BY agent")?;
    let rows = query.query_map([], |row| name(row, "agent"))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
