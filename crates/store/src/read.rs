//! Looking things up in a log, also while others write to it.

use std::{collections::BTreeMap, path::Path};

use memchr::memmem;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{CallId, Digest};

use crate::{StoreError, keys::SealingKey, log};

/// How much is read in one look back. Whoever makes calls says how long their records are, so bytes count too.
const MOST_RECORDS: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its place in the log, counting from 1.
    pub seq: u64,
    /// The SHA-256 of its canonical JSON.
    pub hash: Digest,
    /// What it says.
    pub body: Value,
}

/// A call that was begun and has no end: it is still running, or its process died and nobody knows how far it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenIntent {
    /// The record of the intent.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The call.
    pub call: String,
    /// Who asked.
    pub agent: String,
    /// For which tool.
    pub tool: String,
}

/// The log of a data directory, for reading.
#[derive(Debug)]
pub struct Reader {
    db: Connection,
    dir: std::path::PathBuf,
}

impl Reader {
    /// Opens the log of a directory. It has to be there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(log::NAME);
        if !path.exists() {
            return Err(StoreError::file(&path, "there is no log"));
        }
        let db = connect(&path).map_err(|error| StoreError::file(&path, error))?;
        let found = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(StoreError::unreadable)?;
        if found > log::FORMAT {
            return Err(StoreError::TooNew { path, found, known: log::FORMAT });
        }
        Ok(Self { db, dir: dir.to_owned() })
    }

    /// The place of the last record; 0 where there is none.
    pub fn last(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM records";
        self.db.query_row(sql, [], |row| row.get(0)).map_err(StoreError::unreadable)
    }

    /// The last records, oldest first.
    pub fn tail(&self, count: u32) -> Result<Vec<Line>, StoreError> {
        let sql = "SELECT seq, body, hash FROM (SELECT * FROM records ORDER BY seq DESC LIMIT ?1) ORDER BY seq";
        self.lines(sql, params![count])
    }

    /// The records before one, newest first.
    pub fn before(&self, seq: u64, count: u32) -> Result<Vec<Line>, StoreError> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.lines("SELECT seq, body, hash FROM records WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2", params![seq, count])
    }

    /// The records after one, oldest first.
    pub fn after(&self, seq: u64, count: u32) -> Result<Vec<Line>, StoreError> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.lines("SELECT seq, body, hash FROM records WHERE seq > ?1 ORDER BY seq LIMIT ?2", params![seq, count])
    }

    /// Everything recorded about a call, or about what notes call by this name: an approval, a grant, an agent. There is
    /// no index: this reads the whole log, and keeps of it what it was asked for.
    pub fn show(&self, call: &CallId) -> Result<Vec<Line>, StoreError> {
        let name = serde_json::to_string(&call.0).map_err(StoreError::unreadable)?;
        let is_about = |line: &Line| line.body["call"] == call.0 || line.body["note"]["subject"] == call.0;
        let sql = "SELECT seq, body, hash FROM records WHERE instr(body, CAST(?1 AS BLOB)) > 0 ORDER BY seq";
        let mut query = self.db.prepare(sql).map_err(StoreError::unreadable)?;
        let lines = query.query_map([name], line).map_err(StoreError::unreadable)?;
        lines
            .filter(|line| line.as_ref().map_or(true, is_about))
            .collect::<Result<_, _>>()
            .map_err(StoreError::unreadable)
    }

    /// The same of a call alone, among the last records.
    pub(crate) fn show_late(&self, call: &CallId) -> Result<Vec<Line>, StoreError> {
        let name = serde_json::to_string(&call.0).map_err(StoreError::unreadable)?;
        let named = memmem::Finder::new(&format!("\"call\":{name}")).into_owned();
        let mut lines = Vec::new();
        self.rows_back(u64::MAX, |row, body| {
            if named.find(body).is_some() {
                lines.extend(Some(line(row)?).filter(|line| line.body["call"] == call.0));
            }
            Ok(true)
        })?;
        lines.reverse();
        Ok(lines)
    }

    /// Gives the records before one to `see`, the newest first and one at a time, until it has seen enough or much was read:
    /// where it stopped, if the log does not begin there.
    pub fn back(&self, from: u64, mut see: impl FnMut(Line) -> bool) -> Result<Option<u64>, StoreError> {
        self.rows_back(from, |row, _| Ok(see(line(row)?)))
    }

    fn rows_back(
        &self,
        from: u64,
        mut see: impl FnMut(&Row<'_>, &[u8]) -> rusqlite::Result<bool>,
    ) -> Result<Option<u64>, StoreError> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let sql = "SELECT seq, body, hash FROM records WHERE seq < ?1 ORDER BY seq DESC";
        let mut query = self.db.prepare(sql).map_err(StoreError::unreadable)?;
        let mut rows = query.query([from]).map_err(StoreError::unreadable)?;
        let (mut records, mut bytes) = (0, 0);
        while let Some(row) = rows.next().map_err(StoreError::unreadable)? {
            let body = row.get_ref(1).map_err(StoreError::unreadable)?.as_blob().map_err(StoreError::unreadable)?;
            (records, bytes) = (records + 1, bytes + body.len());
            let goes_on = see(row, body).map_err(StoreError::unreadable)?;
            if !goes_on || records >= MOST_RECORDS || bytes >= MOST_BYTES {
                let seq: u64 = row.get(0).map_err(StoreError::unreadable)?;
                return Ok((seq > 1).then_some(seq));
            }
        }
        Ok(None)
    }

    /// Who made a call, if it is a late one.
    pub fn agent(&self, call: &CallId) -> Result<Option<String>, StoreError> {
        let lines = self.show_late(call)?;
        Ok(lines.iter().find_map(|line| line.body["record"]["agent"].as_str()).map(str::to_owned))
    }

    /// The result of a call before it was cleaned, where the record of its end has one.
    pub fn raw(&self, line: &Line) -> Result<Option<Vec<u8>>, StoreError> {
        let sealed: Option<Vec<u8>> = self
            .db
            .query_row("SELECT sealed FROM raws WHERE seq = ?1", [line.seq], |row| row.get(0))
            .optional()
            .map_err(StoreError::unreadable)?;
        let call = line.body["call"].as_str().unwrap_or_default();
        sealed.map(|sealed| SealingKey::load(&self.dir)?.open(call, &sealed)).transpose()
    }

    /// Gives the bodies from a record on to `sink`, as they were hashed: one JSON object each, without a newline. The
    /// SHA-256 of one is what the next names as `prev`, so a copy can be checked without this program.
    pub fn export(&self, from: u64, mut sink: impl FnMut(&[u8]) -> std::io::Result<()>) -> Result<u64, StoreError> {
        let mut count = 0;
        self.each(from, |_, body| {
            sink(body).map_err(|error| StoreError::unreadable(format!("the copy stopped: {error}")))?;
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// The calls that were begun and have no end.
    pub fn open_intents(&self) -> Result<Vec<OpenIntent>, StoreError> {
        let mut open = OpenIntents::default();
        self.each(1, |seq, body| {
            open.note(seq, &serde_json::from_slice(body).map_err(StoreError::unreadable)?);
            Ok(())
        })?;
        Ok(open.into_list())
    }

    pub(crate) fn lines(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Line>, StoreError> {
        let mut query = self.db.prepare(sql).map_err(StoreError::unreadable)?;
        let lines = query.query_map(params, line).map_err(StoreError::unreadable)?;
        lines.collect::<Result<_, _>>().map_err(StoreError::unreadable)
    }

    fn each(&self, from: u64, mut f: impl FnMut(u64, &[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let sql = "SELECT seq, body FROM records WHERE seq >= ?1 ORDER BY seq";
        let mut query = self.db.prepare(sql).map_err(StoreError::unreadable)?;
        let mut rows = query.query([from]).map_err(StoreError::unreadable)?;
        while let Some(row) = rows.next().map_err(StoreError::unreadable)? {
            let body = row.get_ref(1).map_err(StoreError::unreadable)?;
            f(row.get(0).map_err(StoreError::unreadable)?, body.as_blob().map_err(StoreError::unreadable)?)?;
        }
        Ok(())
    }
}

/// Opens a database only to read it.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}

fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    let body: Vec<u8> = row.get(1)?;
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
    Ok(Line { seq: row.get(0)?, hash: Digest(row.get(2)?), body })
}

/// Which intents have no end yet.
#[derive(Debug, Default)]
pub(crate) struct OpenIntents(BTreeMap<String, OpenIntent>);

impl OpenIntents {
    pub(crate) fn note(&mut self, seq: u64, body: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let call = text(&body["call"]);
        match body["kind"].as_str() {
            Some("intent") => {
                let record = &body["record"];
                let (agent, tool) = (text(&record["agent"]), text(&record["tool"]));
                let at_ms = body["at_ms"].as_u64().unwrap_or_default();
                self.0.insert(call.clone(), OpenIntent { seq, at_ms, call, agent, tool });
            }
            Some("end") => {
                self.0.remove(&call);
            }
            _ => {}
        }
    }

    /// Oldest first.
    pub(crate) fn into_list(self) -> Vec<OpenIntent> {
        let mut list: Vec<_> = self.0.into_values().collect();
        list.sort_unstable_by_key(|intent| intent.seq);
        list
    }
}
