//! `audit.head`: the signed end of the log.
//!
//! A chain shows a change in its middle, not that its last links are gone. So the end of the log is signed and kept
//! beside it, rewritten in place after every commit. It is not synced then: after a crash it may be older than the
//! log, which is fine, but it is never newer, so a log that ends before its head was cut.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use toolgate_contract::Digest;

use crate::{
    StoreError,
    draft::Tail,
    keys::{Seal, Signer, Verifier, open_private, place},
    lock::Held,
};

const NAME: &str = "audit.head";

/// It is always this long: less than a sector, so that a power cut leaves the old one or the new one, and never
/// longer than before, so that a full disk does not stop it.
const LENGTH: usize = 512;

/// What the head file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tail: Tail,
    /// The last record that says which program writes.
    pub(crate) opened: u64,
    /// What a clean close found in the free space of the database ([`crate::tree`]); none once records were added.
    pub(crate) slack: Option<Digest>,
}

impl Head {
    /// Before the first record.
    const NONE: Head = Head { tail: Tail::NONE, opened: 0, slack: None };

    fn spell(&self, signer: &Signer) -> String {
        let Head { tail, opened, slack } = *self;
        let text = json!({
            "hash": tail.hash.to_string(),
            "key": signer.id(),
            "opened": opened,
            "seal": signer.sign(Seal::Head { opened, slack }, tail.seq, &tail.hash),
            "seq": tail.seq,
            "slack": slack.map(|slack| slack.to_string()),
        });
        let text = text.to_string();
        format!("{text:<width$}\n", width = LENGTH - 1)
    }

    fn parse(text: &[u8], verifier: &Verifier) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let hash = Digest::parse(value.get("hash")?.as_str()?)?;
        let (seq, opened) = (value.get("seq")?.as_u64()?, value.get("opened")?.as_u64()?);
        let slack = match value.get("slack")? {
            Value::Null => None,
            slack => Some(Digest::parse(slack.as_str()?)?),
        };
        let seal = value.get("seal")?.as_str()?;
        verifier.accepts(Seal::Head { opened, slack }, seq, &hash, seal).then_some(Self {
            tail: Tail { seq, hash },
            opened,
            slack,
        })
    }

    /// What the head file of a directory says.
    pub(crate) fn read(_held: &Held<'_>, dir: &Path, verifier: &Verifier) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let text = std::fs::read(&path).map_err(|_| tampered(dir, "`audit.head` is missing"))?;
        Self::parse(&text, verifier).ok_or_else(|| tampered(dir, "`audit.head` is not signed by this log's key"))
    }
}

/// The head file, open for writing.
#[derive(Debug)]
pub(crate) struct HeadFile {
    dir: PathBuf,
    file: File,
    verifier: Verifier,
    /// The bytes last read or written, which need no second look.
    known: Vec<u8>,
    head: Head,
}

impl HeadFile {
    pub(crate) fn exists(dir: &Path) -> bool {
        dir.join(NAME).exists()
    }

    /// Makes the head of a log without records.
    pub(crate) fn make(held: &Held<'_>, dir: &Path, signer: &Signer) -> Result<(), StoreError> {
        place(held, dir, NAME, Head::NONE.spell(signer).as_bytes(), 0o600)
    }

    pub(crate) fn open(held: &Held<'_>, dir: &Path, verifier: Verifier) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        if !path.exists() {
            return Err(tampered(dir, "`audit.head` is missing"));
        }
        let file = open_private(&path).map_err(|error| StoreError::file(&path, error))?;
        let mut opened = Self { dir: dir.to_owned(), file, verifier, known: Vec::new(), head: Head::NONE };
        opened.read(held)?;
        Ok(opened)
    }

    /// What it says now: another process may have written it.
    pub(crate) fn read(&mut self, _held: &Held<'_>) -> Result<Head, StoreError> {
        let mut text = [0; LENGTH];
        if self.file.read_exact_at(&mut text, 0).is_err() {
            return Err(tampered(&self.dir, "`audit.head` is cut"));
        }
        if text.as_slice() != self.known {
            self.head = Head::parse(&text, &self.verifier)
                .ok_or_else(|| tampered(&self.dir, "`audit.head` is not signed by this log's key"))?;
            self.known = text.to_vec();
        }
        Ok(self.head)
    }

    /// Signs a new end.
    pub(crate) fn write(&mut self, _held: &Held<'_>, head: Head, signer: &Signer) -> std::io::Result<()> {
        let text = head.spell(signer).into_bytes();
        self.file.write_all_at(&text, 0)?;
        self.known = text;
        self.head = head;
        Ok(())
    }

    /// Waits until the disk has it.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }
}

fn tampered(dir: &Path, what: &str) -> StoreError {
    StoreError::Tampered { dir: dir.to_owned(), what: what.to_owned() }
}
