//! Effects that happen once.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde_json::Value;
use toolgate_contract::{CallId, Digest, InstanceId, Once, OnceKey, OnceState, Person, Resolution, Resolved};

use super::{
    Completed, EffectFilter, Reservation, Reserved, Ticket,
    instance::Instances,
    row::{Json, Trouble, maybe_json, name, word},
};

pub(super) fn reserve(
    tx: &Transaction<'_>,
    wanted: &Reservation,
    us: &InstanceId,
    instances: &Instances,
    now_ms: u64,
) -> Result<Reserved, Trouble> {
    let Some(known) = get(tx, &wanted.key)? else { return claim(tx, wanted, us, 1, now_ms) };
    if known.fingerprint != wanted.fingerprint {
        return Ok(Reserved::Conflict);
    }
    match known.state {
        OnceState::Running if instances.is_alive(&known.holder)? => Ok(Reserved::Running),
        OnceState::Running => {
            give_up(tx, &known.key, now_ms)?;
            Ok(Reserved::Unknown)
        }
        OnceState::Unknown => Ok(Reserved::Unknown),
        OnceState::Done => Ok(Reserved::Done(known.outcome.unwrap_or(Value::Null))),
        OnceState::Failed => claim(tx, wanted, us, known.attempt.saturating_add(1), now_ms),
        OnceState::Resolved => match known.resolved.map(|resolved| resolved.resolution) {
            Some(Resolution::Happened(outcome)) => Ok(Reserved::Done(outcome)),
            Some(Resolution::DidNotHappen) => claim(tx, wanted, us, known.attempt.saturating_add(1), now_ms),
            None => Ok(Reserved::Unknown),
        },
    }
}

fn claim(
    tx: &Transaction<'_>,
    wanted: &Reservation,
    us: &InstanceId,
    attempt: u32,
    now_ms: u64,
) -> Result<Reserved, Trouble> {
    let OnceKey { agent, tool, key } = &wanted.key;
    tx.execute(
        "INSERT OR REPLACE INTO once(agent, tool, key, fingerprint, call, state, holder, attempt, reserved_ms, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?7, ?8, ?8)",
        params![&*agent.0, tool, key, wanted.fingerprint.0, wanted.call.0, us.0, attempt, now_ms],
    )?;
    Ok(Reserved::Fresh(Ticket { key: wanted.key.clone(), attempt }))
}

/// True if the ticket was good.
pub(super) fn complete(
    tx: &Transaction<'_>,
    ticket: &Ticket,
    us: &InstanceId,
    ended: &Completed,
    now_ms: u64,
) -> Result<bool, Trouble> {
    let OnceKey { agent, tool, key } = &ticket.key;
    let completed = tx.execute(
        "UPDATE once SET state = ?6, outcome = ?7, changed_ms = ?8
         WHERE agent = ?1 AND tool = ?2 AND key = ?3 AND state = 'running' AND holder = ?4 AND attempt = ?5",
        params![&*agent.0, tool, key, us.0, ticket.attempt, ended.state().as_str(), Json(ended.outcome()), now_ms],
    )?;
    Ok(completed == 1)
}

pub(super) fn orphaned(tx: &Transaction<'_>, instances: &Instances, now_ms: u64) -> Result<Vec<Once>, Trouble> {
    let mut query = tx.prepare("SELECT * FROM once WHERE state = 'running' ORDER BY rowid")?;
    let running: Vec<Once> = query.query_map([], once)?.collect::<Result<_, _>>()?;
    let mut orphans = Vec::new();
    for effect in running {
        if !instances.is_alive(&effect.holder)? {
            give_up(tx, &effect.key, now_ms)?;
            orphans.push(Once { state: OnceState::Unknown, changed_ms: now_ms, ..effect });
        }
    }
    Ok(orphans)
}

/// Its holder is dead: nobody can say what became of it.
fn give_up(tx: &Transaction<'_>, key: &OnceKey, now_ms: u64) -> Result<(), Trouble> {
    let OnceKey { agent, tool, key } = key;
    tx.execute(
        "UPDATE once SET state = 'unknown', changed_ms = ?4
         WHERE agent = ?1 AND tool = ?2 AND key = ?3 AND state = 'running'",
        params![&*agent.0, tool, key, now_ms],
    )?;
    Ok(())
}

pub(super) fn list(tx: &Transaction<'_>, filter: &EffectFilter) -> Result<Vec<Once>, Trouble> {
    let mut query = tx.prepare(
        "SELECT * FROM once
         WHERE (?1 = '[]' OR state IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR agent = ?2)
         ORDER BY changed_ms DESC, rowid DESC LIMIT ?3",
    )?;
    let agent = filter.agent.as_ref().map(|agent| &*agent.0);
    let rows = query.query_map(params![Json(&filter.states), agent, filter.limit], once)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn resolve(
    tx: &Transaction<'_>,
    key: &OnceKey,
    by: Person,
    resolution: Resolution,
    now_ms: u64,
) -> Result<Option<Once>, Trouble> {
    let resolved = Resolved { by, resolution, at_ms: now_ms };
    let changed = tx.execute(
        "UPDATE once SET state = 'resolved', resolved = ?4, changed_ms = ?5
         WHERE agent = ?1 AND tool = ?2 AND key = ?3 AND state = 'unknown'",
        params![&*key.agent.0, key.tool, key.key, Json(resolved), now_ms],
    )?;
    if changed == 1 { get(tx, key) } else { Ok(None) }
}

pub(super) fn get(tx: &Transaction<'_>, key: &OnceKey) -> Result<Option<Once>, Trouble> {
    let sql = "SELECT * FROM once WHERE agent = ?1 AND tool = ?2 AND key = ?3";
    Ok(tx.query_row(sql, params![&*key.agent.0, key.tool, key.key], once).optional()?)
}

fn once(row: &Row<'_>) -> rusqlite::Result<Once> {
    Ok(Once {
        key: OnceKey { agent: name(row, "agent")?, tool: row.get("tool")?, key: row.get("key")? },
        fingerprint: Digest(row.get("fingerprint")?),
        call: CallId(row.get("call")?),
        state: word(row, "state", OnceState::parse)?,
        holder: InstanceId(row.get("holder")?),
        attempt: row.get("attempt")?,
        outcome: maybe_json(row, "outcome")?,
        resolved: maybe_json(row, "resolved")?,
        reserved_ms: row.get("reserved_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
