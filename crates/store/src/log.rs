//! `audit.db`: how the log grows.
//!
//! Rows are only ever added, in the order of their numbers, under the lock and inside one transaction that reads the
//! last row first: two processes cannot both follow the same record. The journal is written ahead and synced in full
//! at every commit; deleted bytes are zeroed, so that nothing but records is ever found in the file.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Statement, TransactionBehavior, params};
use toolgate_contract::Digest;

use crate::{
    StoreError,
    draft::{self, Draft, Tail},
    head::{Head, HeadFile},
    keys::Signer,
    lock::Held,
    pages::{Pages, ahead_of},
    queue::Job,
    tree::Tree,
};

/// The file's name.
pub(crate) const NAME: &str = "audit.db";

/// The format of the database.
pub(crate) const FORMAT: i64 = 1;

/// Says in the file's header whose file it is: "TgAu".
pub(crate) const APPLICATION: i64 = 0x5467_4175;

/// Every record whose number is a multiple of this is a checkpoint.
pub(crate) const CHECKPOINT_EVERY: u64 = 1_000;

/// Large pages hold a dozen records each, and cost less time per record than the usual 4 KiB.
pub(crate) const PAGE: usize = 16 * 1024;

/// The root pages of the two tables.
pub(crate) const RECORDS: u32 = 2;
pub(crate) const RAWS: u32 = 3;

/// The whole schema, in the order it is made: what `sqlite_schema` must hold.
pub(crate) const SCHEMA: [(&str, &str, &str, &str); 6] = [
    (
        "table",
        "records",
        "records",
        "CREATE TABLE records(seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL) STRICT",
    ),
    ("table", "raws", "raws", "CREATE TABLE raws(seq INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT"),
    (
        "trigger",
        "records_stay",
        "records",
        "CREATE TRIGGER records_stay BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END",
    ),
    (
        "trigger",
        "records_keep",
        "records",
        "CREATE TRIGGER records_keep BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'records are never changed'); END",
    ),
    (
        "trigger",
        "raws_stay",
        "raws",
        "CREATE TRIGGER raws_stay BEFORE DELETE ON raws BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END",
    ),
    (
        "trigger",
        "raws_keep",
        "raws",
        "CREATE TRIGGER raws_keep BEFORE UPDATE ON raws BEGIN SELECT RAISE(ABORT, 'records are never changed'); END",
    ),
];

/// The log, open for writing.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// The file that was opened. A database somebody moved away would take records that nobody finds.
    inode: u64,
    db: Connection,
    head: HeadFile,
    signer: Signer,
}

impl Log {
    /// Opens the log of a directory whose keys and head are there, and makes it if it has no records yet.
    pub(crate) fn open(held: &Held<'_>, dir: &Path, mut head: HeadFile, signer: Signer) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let known = head.read(held)?;
        let tampered = |what: String| StoreError::Tampered { dir: dir.to_owned(), what };
        if !path.exists() {
            if known.tail.seq > 0 {
                return Err(tampered(format!("`{NAME}` is missing; it had {} records", known.tail.seq)));
            }
            // SQLite gives its other files the same mode.
            let private = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            private.map_err(|error| StoreError::file(&path, error))?;
        }
        let failed = |error: rusqlite::Error| StoreError::file(&path, error);
        let db = connect(&path).map_err(failed)?;
        match db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)? {
            FORMAT => {}
            0 if known.tail.seq == 0 => make(&db).map_err(failed)?,
            0 => return Err(tampered(format!("`{NAME}` is empty; it had {} records", known.tail.seq))),
            found => return Err(StoreError::TooNew { path, found, known: FORMAT }),
        }
        let tail = tail(&db).map_err(failed)?;
        follows(&db, known, tail).map_err(failed)?.map_err(tampered)?;
        if known.slack.is_some() {
            // On the disk before any record is: after a power cut, records behind the head of a log that was closed
            // would look like somebody else's.
            let in_use = Head { slack: None, ..known };
            let written = head.write(held, in_use, &signer).and_then(|()| head.sync());
            written.map_err(|error| StoreError::file(&path, error))?;
        }
        let said = body(&db, known.opened).map_err(failed)?;
        let inode = fs::metadata(&path).map_err(|error| StoreError::file(&path, error))?.ino();
        let mut log = Self { path, inode, db, head, signer };
        if !said.is_some_and(|said| draft::is_opened_by_us(&said)) {
            let opened = Draft::opened(now_ms(), &log.signer.id());
            log.write(held, &[Job::new(opened, None, false)], Role::Opening)?;
        }
        Ok(log)
    }

    /// Adds records. When it returns they are all durable, or none of them is there.
    pub(crate) fn append(&mut self, held: &Held<'_>, jobs: &[Job]) -> Result<(), StoreError> {
        self.write(held, jobs, Role::Entries)
    }

    /// Adds a checkpoint, unless the log ends with one.
    pub(crate) fn seal(&mut self, held: &Held<'_>) -> Result<(), StoreError> {
        let last = tail(&self.db).and_then(|last| body(&self.db, last.seq)).map_err(StoreError::unwritable)?;
        if last.is_some_and(|last| draft::is_checkpoint(&last)) { Ok(()) } else { self.write(held, &[], Role::Sealing) }
    }

    fn write(&mut self, held: &Held<'_>, jobs: &[Job], role: Role) -> Result<(), StoreError> {
        if !fs::metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            return Err(StoreError::unwritable(format!(
                "`{}` is no longer the file that was opened",
                self.path.display()
            )));
        }
        let mut head = self.head.read(held)?;
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::unwritable)?;
        let last = tail(&tx).map_err(StoreError::unwritable)?;
        follows(&tx, head, last).map_err(StoreError::unwritable)?.map_err(StoreError::unwritable)?;

        let mut chain = Chain { tx: &tx, tail: last, body: Vec::new() };
        chain.extend(jobs, &self.signer, role).map_err(StoreError::unwritable)?;
        if role == Role::Opening {
            head.opened = chain.tail.seq;
        }
        head.tail = chain.tail;
        head.slack = None;
        tx.commit().map_err(StoreError::unwritable)?;

        // The records are safe. A head that stays behind is found as such, and the next commit brings it up.
        if let Err(error) = self.head.write(held, head, &self.signer) {
            tracing::warn!(%error, "the head of the log could not be updated");
        }
        Ok(())
    }

    /// Closes the database. If nobody else has it open, what was written ahead moves into it, and what is in its free
    /// space is signed.
    pub(crate) fn close(mut self, held: &Held<'_>) -> Result<(), StoreError> {
        self.db.close().map_err(|(_, error)| StoreError::unwritable(error))?;
        if ahead_of(&self.path).exists() {
            return Ok(());
        }
        let pages = Pages::now(held, &self.path).map_err(StoreError::unwritable)?;
        let slack = |root| Tree::slack(&pages, root).map_err(StoreError::unwritable);
        let slack = slack(RECORDS)?.and(slack(RAWS)?).digest;
        let head = Head { slack: Some(slack), ..self.head.read(held)? };
        self.head.write(held, head, &self.signer).map_err(StoreError::unwritable)
    }
}

/// What is being added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Entries,
    Opening,
    Sealing,
}

/// The end of the log inside a transaction.
struct Chain<'a> {
    tx: &'a Connection,
    tail: Tail,
    body: Vec<u8>,
}

impl Chain<'_> {
    fn extend(&mut self, jobs: &[Job], signer: &Signer, role: Role) -> rusqlite::Result<()> {
        let mut records = self.tx.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3)")?;
        let mut raws = self.tx.prepare_cached("INSERT INTO raws VALUES (?1, ?2)")?;
        for job in jobs {
            if (self.tail.seq + 1).is_multiple_of(CHECKPOINT_EVERY) {
                self.add(&mut records, &Draft::checkpoint(now_ms(), signer, self.tail))?;
            }
            self.add(&mut records, &job.draft)?;
            if let Some(sealed) = &job.sealed {
                raws.execute(params![self.tail.seq, sealed])?;
            }
        }
        if role == Role::Sealing {
            self.add(&mut records, &Draft::checkpoint(now_ms(), signer, self.tail))?;
        }
        Ok(())
    }

    fn add(&mut self, records: &mut Statement<'_>, draft: &Draft) -> rusqlite::Result<()> {
        draft.body(self.tail, &mut self.body);
        self.tail = Tail { seq: self.tail.seq + 1, hash: Digest::of(&self.body) };
        records.execute(params![self.tail.seq, self.body, self.tail.hash.0]).map(drop)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    // The lock keeps our own processes apart; this is for somebody who looks at the file with other tools.
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "page_size", PAGE)?;
    db.pragma_update(None, "secure_delete", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "full")?;
    Ok(db)
}

fn make(db: &Connection) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    for (_, _, _, sql) in SCHEMA {
        tx.execute_batch(sql)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", FORMAT)?;
    tx.commit()
}

fn tail(db: &Connection) -> rusqlite::Result<Tail> {
    db.prepare_cached("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok(Tail { seq: row.get(0)?, hash: Digest(row.get(1)?) }))
        .optional()
        .map(|tail| tail.unwrap_or(Tail::NONE))
}

/// Does a log that ends with `tail` hold what its head knows?
fn follows(db: &Connection, head: Head, tail: Tail) -> rusqlite::Result<Result<(), String>> {
    let Tail { seq, hash } = head.tail;
    if tail.seq < seq {
        return Ok(Err(format!("it ends with record {}, but record {seq} was written", tail.seq)));
    }
    if tail.seq > seq && head.slack.is_some() {
        return Ok(Err(format!("record {} was added after it was closed", seq + 1)));
    }
    let found = match seq {
        0 => Some(Tail::NONE.hash),
        seq if seq == tail.seq => Some(tail.hash),
        seq => {
            db.query_row("SELECT hash FROM records WHERE seq = ?1", [seq], |row| row.get(0).map(Digest)).optional()?
        }
    };
    Ok(if found == Some(hash) { Ok(()) } else { Err(format!("record {seq} is not the one that was written")) })
}

fn body(db: &Connection, seq: u64) -> rusqlite::Result<Option<Vec<u8>>> {
    db.query_row("SELECT body FROM records WHERE seq = ?1", [seq], |row| row.get(0)).optional()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_synced_in_full_and_deleted_bytes_zeroed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, b"").unwrap();
        let db = connect(&path).unwrap();
        let says = |pragma: &str| -> String {
            db.query_row(&format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), [], |row| row.get(0)).unwrap()
        };
        const FULL: &str = "2";
        let pragmas = ["journal_mode", "synchronous", "secure_delete", "page_size", "trusted_schema"];
        assert_eq!(pragmas.map(says), ["wal", FULL, "1", "16384", "0"]);
    }
}
