//! Tokens and login codes, by their hashes.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use toolgate_contract::{Digest, LoginCode, Person, Token};

use super::row::{Json, Trouble, json, name};

/// How exactly it is known when a token was last used: writing it down each time would cost a sync per request.
const MINUTE_MS: u64 = 60 * 1000;

pub(super) fn add(tx: &Transaction<'_>, token: &Token) -> Result<(), Trouble> {
    tx.execute(
        "INSERT INTO tokens(id, hash, principal, scopes, created_ms, expires_ms, last_used_ms, revoked_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            token.id,
            token.hash.0,
            Json(&token.principal),
            Json(&token.scopes),
            token.created_ms,
            token.expires_ms,
            token.last_used_ms,
            token.revoked_ms,
        ],
    )?;
    Ok(())
}

/// The token with this hash, if it holds.
pub(super) fn by_hash(db: &Connection, hash: &Digest, now_ms: u64) -> Result<Option<Token>, Trouble> {
    let mut query = db.prepare_cached("SELECT * FROM tokens WHERE hash = ?1")?;
    let found = query.query_row([hash.0], token).optional()?;
    Ok(found.filter(|token| token.holds(now_ms)))
}

/// Is it time to write down that a token was used?
pub(super) fn is_stale(token: &Token, now_ms: u64) -> bool {
    token.last_used_ms.is_none_or(|last| last.saturating_add(MINUTE_MS) <= now_ms)
}

/// The token with this hash, if it still holds, used now.
pub(super) fn touch(tx: &Transaction<'_>, hash: &Digest, now_ms: u64) -> Result<Option<Token>, Trouble> {
    let Some(token) = by_hash(tx, hash, now_ms)? else { return Ok(None) };
    tx.execute("UPDATE tokens SET last_used_ms = ?2 WHERE hash = ?1", params![hash.0, now_ms])?;
    Ok(Some(Token { last_used_ms: Some(now_ms), ..token }))
}

pub(super) fn list(tx: &Transaction<'_>) -> Result<Vec<Token>, Trouble> {
    let mut query = tx.prepare("SELECT * FROM tokens ORDER BY seq DESC")?;
    let rows = query.query_map([], token)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn revoke(tx: &Transaction<'_>, id: &str, now_ms: u64) -> Result<Option<Token>, Trouble> {
    let sql = "UPDATE tokens SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL RETURNING *";
    Ok(tx.query_row(sql, params![id, now_ms], token).optional()?)
}

pub(super) fn rotate(
    tx: &Transaction<'_>,
    id: &str,
    hash: &Digest,
    expires_ms: Option<u64>,
    now_ms: u64,
) -> Result<Option<Token>, Trouble> {
    let sql = "UPDATE tokens SET hash = ?2, expires_ms = ?3
         WHERE id = ?1 AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > ?4) RETURNING *";
    Ok(tx.query_row(sql, params![id, hash.0, expires_ms, now_ms], token).optional()?)
}

pub(super) fn add_code(tx: &Transaction<'_>, code: &LoginCode, now_ms: u64) -> Result<(), Trouble> {
    tx.execute("DELETE FROM login_codes WHERE expires_ms <= ?1", [now_ms])?;
    tx.execute(
        "INSERT INTO login_codes(hash, person, expires_ms) VALUES (?1, ?2, ?3)",
        params![code.hash.0, &*code.person.0, code.expires_ms],
    )?;
    Ok(())
}

pub(super) fn use_code(tx: &Transaction<'_>, hash: &Digest, now_ms: u64) -> Result<Option<Person>, Trouble> {
    let sql = "UPDATE login_codes SET used_ms = ?2
         WHERE hash = ?1 AND used_ms IS NULL AND expires_ms > ?2 RETURNING person";
    Ok(tx.query_row(sql, params![hash.0, now_ms], |row| name(row, "person")).optional()?)
}

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get("id")?,
        hash: Digest(row.get("hash")?),
        principal: json(row, "principal")?,
        scopes: json(row, "scopes")?,
        created_ms: row.get("created_ms")?,
        expires_ms: row.get("expires_ms")?,
        last_used_ms: row.get("last_used_ms")?,
        revoked_ms: row.get("revoked_ms")?,
    })
}
