//! `state.db`: how it is made, opened, read and changed.
//!
//! It is made under another name and put in place whole, so an empty or half-made file is never the result of a first
//! start that was interrupted: it is damage, and damage is told, not mended.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{
    instance::{INSTANCES, Instance, Instances},
    known::Known,
    row::Trouble,
    schema::{APPLICATION, FORMAT, SCHEMA},
};
use crate::{
    StoreError,
    keys::foreign,
    lock::{Held, Lock},
    sqlite::make_private,
};

/// The file's name.
const NAME: &str = "state.db";

/// Longer than others should take. A program that was stopped in the middle of a change must not hang the others for
/// good.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state, open. Whoever has one is an instance.
#[derive(Debug)]
pub(super) struct Db {
    path: PathBuf,
    /// The file that was opened. One that somebody moved away would take changes that nobody else sees.
    inode: u64,
    connection: Connection,
    pub(super) instances: Instances,
    pub(super) instance: Instance,
}

impl Db {
    /// Opens the state of a data directory, and makes both if they are not there.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        make_private(dir)?;
        let lock = Lock::open(dir)?;
        let held = lock.hold()?;
        let path = dir.join(NAME);
        let unusable = |why: &dyn ToString| StoreError::State { path: path.clone(), why: why.to_string() };
        match fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if dir.join(INSTANCES).exists() {
                    return Err(StoreError::StateMissing(path));
                }
                make(&held, dir, &path).map_err(|trouble| unusable(&trouble))?;
            }
            Err(error) => return Err(unusable(&error)),
        }
        let inode = refuse_exposed(&path)?;
        let connection = connect(&path).map_err(|error| unusable(&error))?;
        check(&connection, &path)?;
        settle(&connection).map_err(|error| unusable(&error))?;
        let instances = Instances::of(dir);
        let instance = instances.enter(&held).map_err(|error| StoreError::file(&dir.join(INSTANCES), error))?;
        Ok(Self { path, inode, connection, instances, instance })
    }

    /// What is remembered of it where it is asked for.
    pub(super) fn known(&self) -> Known {
        Known::of(&self.path, self.inode)
    }

    /// Looks at one moment of the state.
    pub(super) fn read<T>(
        &mut self,
        look: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        self.run(TransactionBehavior::Deferred, look)
    }

    /// Changes the state, while nobody else does. When it returns the change is durable, or nothing was changed.
    pub(super) fn write<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        self.run(TransactionBehavior::Immediate, change)
    }

    fn run<T>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let unusable = |why: String| StoreError::State { path: self.path.clone(), why };
        is_still(&self.path, self.inode)?;
        let attempt = || {
            let tx = self.connection.transaction_with_behavior(behavior)?;
            let result = work(&tx)?;
            tx.commit()?;
            Ok(result)
        };
        attempt().map_err(|trouble: Trouble| unusable(trouble.to_string()))
    }

    /// Closes it. This instance is gone afterwards.
    pub(super) fn close(self) -> Result<(), StoreError> {
        let Self { path, connection, .. } = self;
        connection.close().map_err(|(_, error)| StoreError::State { path, why: error.to_string() })
    }
}

/// Is the file still the one that was opened?
pub(super) fn is_still(path: &Path, inode: u64) -> Result<(), StoreError> {
    match fs::metadata(path).is_ok_and(|about| about.ino() == inode) {
        true => Ok(()),
        false => {
            let why = "it is no longer the file that was opened".to_owned();
            Err(StoreError::State { path: path.to_owned(), why })
        }
    }
}

/// Makes the database beside its place, and puts it there whole.
fn make(_held: &Held<'_>, dir: &Path, path: &Path) -> Result<(), Trouble> {
    let draft = dir.join("state.db.new");
    for leftover in ["state.db.new", "state.db.new-wal", "state.db.new-shm"] {
        match fs::remove_file(dir.join(leftover)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    // SQLite gives its other files the same mode.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let mut db = connect(&draft)?;
    settle(&db)?;
    let tx = db.transaction()?;
    for (_, _, sql) in SCHEMA {
        tx.execute_batch(sql)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", FORMAT)?;
    tx.commit()?;
    // What was written ahead moves into the file.
    db.close().map_err(|(_, error)| error)?;
    File::open(&draft)?.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

/// Opens a database, and changes nothing in it yet: it may be somebody else's.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    Ok(db)
}

/// Says how it is to be written.
fn settle(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "secure_delete", true)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "full")
}

/// Refuses a file that others can read or have put there, and says which file it is. Nothing here may open and close
/// it: that would drop the locks SQLite has on it elsewhere in this process.
fn refuse_exposed(path: &Path) -> Result<u64, StoreError> {
    let about =
        fs::metadata(path).map_err(|error| StoreError::State { path: path.to_owned(), why: error.to_string() })?;
    let exposed = |why: String| StoreError::StateExposed { path: path.to_owned(), why };
    if let Some(why) = foreign(&about) {
        return Err(exposed(why));
    }
    if about.mode() & 0o177 != 0 {
        return Err(exposed(format!("its mode is {:03o}, wider than 600", about.mode() & 0o777)));
    }
    Ok(about.ino())
}

/// Is this our database, in a format we know, with nothing added or missing?
fn check(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let unusable = |why: String| StoreError::State { path: path.to_owned(), why };
    let number = |pragma: &str| {
        db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(|error| unusable(error.to_string()))
    };
    if number("application_id")? != APPLICATION {
        return Err(unusable("it is not the state of toolgate".to_owned()));
    }
    match number("user_version")? {
        FORMAT => {}
        found if found > FORMAT => return Err(StoreError::TooNew { path: path.to_owned(), found, known: FORMAT }),
        found => return Err(unusable(format!("it has format {found}, which never was"))),
    }
    let found = schema(db).map_err(|error| unusable(error.to_string()))?;
    let expected = SCHEMA.map(|(kind, name, sql)| [kind, name, sql].map(str::to_owned));
    if found != expected {
        return Err(unusable("its tables or their triggers were changed".to_owned()));
    }
    Ok(())
}

fn schema(db: &Connection) -> rusqlite::Result<Vec<[String; 3]>> {
    let mut query = db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")?;
    let rows = query.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_synced_in_full_and_deleted_bytes_zeroed() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let says = |pragma: &str| -> String {
            let sql = format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}");
            db.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        const FULL: &str = "2";
        let pragmas = ["journal_mode", "synchronous", "secure_delete", "trusted_schema", "cell_size_check"];
        assert_eq!(pragmas.map(says), ["wal", FULL, "1", "0", "1"]);
    }
}
