//! Standing yeses.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use toolgate_contract::{AgentName, Grant, GrantId, GrantTerms, Person, Revoked};

use super::row::{Json, Trouble, fresh_id, json, maybe_json};

pub(super) fn add(tx: &Transaction<'_>, terms: &GrantTerms, now_ms: u64) -> Result<Grant, Trouble> {
    let id = GrantId(fresh_id("grt_")?);
    tx.execute(
        "INSERT INTO grants(id, agent, terms, remaining, until_ms, created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id.0, &*terms.agent.0, Json(terms), terms.uses, terms.until_ms, now_ms],
    )?;
    get(tx, &id)
}

pub(super) fn list(tx: &Transaction<'_>, agent: Option<&AgentName>) -> Result<Vec<Grant>, Trouble> {
    let mut query = tx.prepare("SELECT * FROM grants WHERE ?1 IS NULL OR agent = ?1 ORDER BY seq DESC")?;
    let rows = query.query_map([agent.map(|agent| &*agent.0)], grant)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn revoke(tx: &Transaction<'_>, id: &GrantId, by: Person, now_ms: u64) -> Result<Option<Grant>, Trouble> {
    let revoked = tx.execute(
        "UPDATE grants SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL",
        params![id.0, Json(Revoked { by, at_ms: now_ms })],
    )?;
    if revoked == 1 { get(tx, id).map(Some) } else { Ok(None) }
}

pub(super) fn take(tx: &Transaction<'_>, candidates: &[GrantId], now_ms: u64) -> Result<Option<Grant>, Trouble> {
    let mut query = tx.prepare(
        "UPDATE grants SET remaining = remaining - 1
         WHERE id = ?1 AND remaining > 0 AND revoked IS NULL AND (until_ms IS NULL OR until_ms > ?2) RETURNING *",
    )?;
    for id in candidates {
        let used = query.query_row(params![id.0, now_ms], grant).optional()?;
        if used.is_some() {
            return Ok(used);
        }
    }
    Ok(None)
}

fn get(tx: &Transaction<'_>, id: &GrantId) -> Result<Grant, Trouble> {
    Ok(tx.query_row("SELECT * FROM grants WHERE id = ?1", [&id.0], grant)?)
}

fn grant(row: &Row<'_>) -> rusqlite::Result<Grant> {
    Ok(Grant {
        id: GrantId(row.get("id")?),
        terms: json(row, "terms")?,
        left: row.get("remaining")?,
        created_ms: row.get("created_ms")?,
        revoked: maybe_json(row, "revoked")?,
    })
}
