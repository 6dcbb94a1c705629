//! Is the log as it was written?
//!
//! Everything is checked against one moment, also while others write: the rows and every other byte of the database
//! ([`crate::tree`]), the chain, the signatures, the head, and what SQLite itself thinks of its file. Memory does not
//! grow with the log, except for one bit per page and the calls that have no end.

use std::{collections::BTreeSet, path::Path};

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{Digest, canonical_json};

use crate::{
    OpenIntent, StoreError,
    draft::{Tail, VERSION},
    head::{Head, HeadFile},
    keys::{Seal, Verifier},
    lock::Lock,
    log::{APPLICATION, CHECKPOINT_EVERY, FORMAT, NAME, PAGE, RAWS, RECORDS, SCHEMA},
    pages::Pages,
    read::{OpenIntents, connect},
    tree::{PageSet, Row, Tree, blobs, u32_at},
};

/// How many problems are listed. The rest is counted.
const LISTED: usize = 100;

/// Something about a log that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The record it happened to, where there is one.
    pub seq: Option<u64>,
    /// The call that record is about.
    pub call: Option<String>,
    /// What does not fit.
    pub what: String,
}

/// What a look at every byte of a log gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The log's public key, which is its name. Compare it with the one you know.
    pub key: String,
    /// How many records there are.
    pub records: u64,
    /// How many of them are signed checkpoints.
    pub checkpoints: u64,
    /// Records after the last signature: what a process wrote just before it was killed.
    pub unsigned: u64,
    /// Bytes that prove nothing: free space inside SQLite's index pages. Always 0 for a log that was closed.
    pub unchecked_bytes: u64,
    /// Calls that were begun and have no end.
    pub open_intents: Vec<OpenIntent>,
    /// What does not fit, at most a hundred.
    pub problems: Vec<Problem>,
    /// How many problems there are in all.
    pub problem_count: u64,
}

impl Report {
    /// Nothing was changed, dropped, added or cut.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, seq: Option<u64>, call: Option<String>, what: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < LISTED {
            self.problems.push(Problem { seq, call, what: what.into() });
        }
    }

    fn about_file(&mut self, what: impl Into<String>) {
        self.problem(None, None, what);
    }
}

/// Reads every byte of a directory's log and says what does not fit. `progress` hears now and then how many records
/// were read, of how many. It fails only where there is nothing to read; a log that is damaged is a report.
pub fn verify(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Report, StoreError> {
    let path = dir.join(NAME);
    if !path.exists() && !HeadFile::exists(dir) {
        return Err(StoreError::file(dir, "there is no log in it"));
    }
    let verifier = Verifier::load(dir)?;
    let mut report = Report {
        key: verifier.id(),
        records: 0,
        checkpoints: 0,
        unsigned: 0,
        unchecked_bytes: 0,
        open_intents: Vec::new(),
        problems: Vec::new(),
        problem_count: 0,
    };

    let lock = Lock::open(dir)?;
    let held = lock.hold()?;
    let head = match Head::read(&held, dir, &verifier) {
        Ok(head) => Some(head),
        Err(error) => {
            report.about_file(error.to_string());
            None
        }
    };
    // The transaction fixes the moment; the pages are read as of it after the lock is given back.
    let sqlite = begin(&path);
    let pages = Pages::now(&held, &path);
    drop(held);

    match pages {
        Ok(pages) if pages.count == 0 && head.is_some_and(|head| head.tail.seq == 0) => return Ok(report),
        Ok(pages) => check_pages(&pages, head, verifier, &mut report, progress),
        Err(error) => report.about_file(format!("`{NAME}` cannot be read: {error}")),
    }
    match sqlite.and_then(|sqlite| ask_sqlite(&sqlite)) {
        Ok(complaints) => complaints.into_iter().for_each(|what| report.about_file(what)),
        Err(error) => report.about_file(format!("SQLite cannot read `{NAME}`: {error}")),
    }
    Ok(report)
}

/// Opens a transaction that sees the database as it is now.
fn begin(path: &Path) -> rusqlite::Result<Connection> {
    let sqlite = connect(path)?;
    sqlite.execute_batch("BEGIN")?;
    sqlite.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(sqlite)
}

fn ask_sqlite(sqlite: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = sqlite.prepare("PRAGMA integrity_check(20)")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|line| format!("SQLite: {line}")).collect())
}

fn check_pages(
    pages: &Pages,
    head: Option<Head>,
    verifier: Verifier,
    report: &mut Report,
    progress: &mut dyn FnMut(u64, u64),
) {
    let mut seen = check_schema(pages, report);
    let mut records = Tree::new(pages, RECORDS);
    let mut raws = Raws { rows: Tree::new(pages, RAWS), next: None };
    let mut chain = Chain::new(head, verifier);
    let total = head.map_or(0, |head| head.tail.seq);
    for row in records.by_ref() {
        match row {
            Ok(row) => {
                let sealed = raws.of(row.id, report);
                chain.record(&row, sealed.as_ref(), report);
                if chain.last.seq.is_multiple_of(1_000) {
                    progress(chain.last.seq, total.max(chain.last.seq));
                }
            }
            Err(damage) => report.problem(damage.row, None, damage.what),
        }
    }
    raws.skip_to(u64::MAX, report);
    chain.finish(report);
    check_header(pages, &chain.engines, report);

    for tree in [&records, &raws.rows] {
        if let Err(what) = seen.join(&tree.seen) {
            report.about_file(what);
        }
    }
    check_unused(pages, &seen, report);
    let slack = records.slack.and(raws.rows.slack);
    match head {
        Some(Head { slack: Some(signed), tail, .. }) if tail.seq == chain.last.seq => {
            if signed != slack.digest {
                report.about_file("the free space of an index page was changed");
            }
        }
        _ => report.unchecked_bytes = slack.bytes,
    }
    progress(chain.last.seq, total.max(chain.last.seq));
}

/// The encrypted results, read along with the records they belong to.
struct Raws<'a> {
    rows: Tree<'a>,
    next: Option<Row>,
}

impl Raws<'_> {
    /// The raw result of a record. Those before it belong to none.
    fn of(&mut self, seq: u64, report: &mut Report) -> Option<Row> {
        self.skip_to(seq, report);
        self.next.take_if(|row| row.id == seq)
    }

    fn skip_to(&mut self, seq: u64, report: &mut Report) {
        loop {
            if self.next.as_ref().is_some_and(|row| row.id >= seq) {
                return;
            }
            if let Some(orphan) = self.next.take() {
                report.problem(Some(orphan.id), None, "a raw result belongs to no record");
            }
            match self.rows.next() {
                Some(Ok(row)) => self.next = Some(row),
                Some(Err(damage)) => {
                    report.problem(damage.row, None, format!("the raw results are damaged: {}", damage.what));
                }
                None => return,
            }
        }
    }
}

/// The chain so far.
struct Chain {
    head: Option<Head>,
    verifier: Verifier,
    /// The last record, with the hash its bytes have.
    last: Tail,
    /// The hash that is stored beside it. Where the two differ, one of them is what the next record names.
    stored: Digest,
    /// The versions of SQLite that wrote to the file.
    engines: BTreeSet<u64>,
    open: OpenIntents,
}

impl Chain {
    fn new(head: Option<Head>, verifier: Verifier) -> Self {
        let (last, stored) = (Tail::NONE, Tail::NONE.hash);
        Self { head, verifier, last, stored, engines: BTreeSet::new(), open: OpenIntents::default() }
    }

    fn record(&mut self, row: &Row, sealed: Option<&Row>, report: &mut Report) {
        let seq = row.id;
        report.records += 1;
        let Some([body, stored]) = blobs::<2>(&row.payload) else {
            report.problem(Some(seq), None, "it is not stored as a record");
            (self.last, self.stored) = (Tail { seq, hash: Tail::NONE.hash }, Tail::NONE.hash);
            return;
        };
        let before = (self.last, self.stored);
        let hash = Digest::of(body);
        self.last = Tail { seq, hash };
        self.stored = stored.try_into().map_or(Tail::NONE.hash, Digest);

        let said: Option<Value> = serde_json::from_slice(body).ok();
        let call = said.as_ref().and_then(|said| said["call"].as_str()).map(str::to_owned);
        let mut problem = |what: &str| report.problem(Some(seq), call.clone(), what);
        if self.stored != hash {
            problem("its bytes do not have the hash that was stored with it");
            return;
        }
        let Some(said) = said else { return problem("it is not JSON") };
        if canonical_json(&said).ok().as_deref() != Some(body) {
            problem("it is not in canonical form");
        }
        if said["v"] != VERSION || said["seq"] != seq {
            problem("it was written for another place in the log");
        }
        self.follow(before, seq, &said, &mut problem);
        if self.head.is_some_and(|head| head.tail.seq == seq && head.tail.hash != hash) {
            problem("it is not the record the head was signed for");
        }
        check_raw(&said, sealed, &mut problem);
        match said["kind"].as_str() {
            Some("intent" | "end") => self.open.note(seq, &said),
            Some("note") => {}
            Some("opened") if said["key"] == self.verifier.id() => self.engines.extend(said["engine"].as_u64()),
            Some("opened") => problem("it names another log's key"),
            Some("checkpoint") => {
                // It is about the record it names; whether that is the one before it was just looked at.
                let seal = said["seal"].as_str().unwrap_or_default();
                let prev = said["prev"].as_str().and_then(Digest::parse).unwrap_or(Tail::NONE.hash);
                if said["key"] != self.verifier.id()
                    || !self.verifier.accepts(Seal::Checkpoint, seq.wrapping_sub(1), &prev, seal)
                {
                    problem("its signature does not hold");
                }
                report.checkpoints += 1;
            }
            _ => problem("it is of no known kind"),
        }
    }

    /// Is this the record that comes next?
    fn follow(&self, (last, stored): (Tail, Digest), seq: u64, said: &Value, problem: &mut impl FnMut(&str)) {
        if last.seq.checked_add(1) != Some(seq) {
            return problem(&format!("it follows record {}; those in between are missing", last.seq));
        }
        let prev = said["prev"].as_str().and_then(Digest::parse);
        if prev != Some(last.hash) && prev != Some(stored) {
            problem("it does not name the record before it");
        }
        let kind = said["kind"].as_str();
        if seq == 1 && kind != Some("opened") {
            problem("it is not how a log begins");
        }
        if seq.is_multiple_of(CHECKPOINT_EVERY) && kind != Some("checkpoint") {
            problem("there should be a checkpoint in its place");
        }
    }

    fn finish(&mut self, report: &mut Report) {
        report.open_intents = std::mem::take(&mut self.open).into_list();
        let Some(head) = self.head else { return };
        report.unsigned = self.last.seq.saturating_sub(head.tail.seq);
        // Whoever opens a log signs that first, so a log that is closed ends where its head says.
        if head.slack.is_some() && report.unsigned > 0 {
            report.problem(Some(head.tail.seq + 1), None, "it was added after the log was closed, without a signature");
        }
        if self.last.seq < head.tail.seq {
            let what = format!("the log ends with record {}, but record {} was written", self.last.seq, head.tail.seq);
            report.problem(Some(self.last.seq + 1), None, what);
        }
    }
}

/// Does a record have the raw result it says it has?
fn check_raw(said: &Value, sealed: Option<&Row>, problem: &mut impl FnMut(&str)) {
    let raw = &said["raw"];
    match (sealed, raw.is_null()) {
        (None, true) => {}
        (None, false) => problem("its raw result is missing"),
        (Some(_), true) => problem("it has a raw result it does not speak of"),
        (Some(row), false) => {
            let sealed = blobs::<1>(&row.payload).map(|[sealed]| Digest::of(sealed).to_string());
            if sealed.is_none() || raw["sha256"].as_str() != sealed.as_deref() {
                problem("its raw result was changed");
            }
        }
    }
}

/// Checks what makes the file this database, and gives the pages that takes.
fn check_schema(pages: &Pages, report: &mut Report) -> PageSet {
    let mut tree = Tree::new(pages, 1);
    let mut rows = Vec::new();
    for row in tree.by_ref() {
        match row {
            Ok(row) => rows.push((row.id, row.payload)),
            Err(damage) => report.about_file(damage.what),
        }
    }
    let roots = [RECORDS, RAWS, 0, 0, 0, 0];
    let expected = SCHEMA.iter().zip(roots).map(|(entry, root)| schema_row(entry, root));
    if rows != (1..).zip(expected).collect::<Vec<_>>() {
        report.about_file("the tables or their triggers were changed");
    }
    tree.seen
}

/// A row of `sqlite_schema` as SQLite encodes it.
fn schema_row(&(kind, name, table, sql): &(&str, &str, &str, &str), root: u32) -> Vec<u8> {
    let text = |text: &str| varint(13 + 2 * text.len());
    // Zero has a type of its own; small numbers take a byte.
    let (root_type, root) = if root == 0 { (8, vec![]) } else { (1, vec![root as u8]) };
    let types = [text(kind), text(name), text(table), vec![root_type], text(sql)].concat();
    let header = varint(types.len() + 1);
    [header, types, kind.into(), name.into(), table.into(), root, sql.into()].concat()
}

fn varint(value: usize) -> Vec<u8> {
    match value {
        0..0x80 => vec![value as u8],
        _ => vec![(value >> 7) as u8 | 0x80, value as u8 & 0x7f],
    }
}

/// The first hundred bytes of the file.
fn check_header(pages: &Pages, engines: &BTreeSet<u64>, report: &mut Report) {
    let Ok(page) = pages.read(1) else { return report.about_file("the first page cannot be read") };
    let word = |at| u32_at(&page, at);
    let fixed = [
        (0, b"SQLite format 3\0".to_vec()),
        // Page size; written ahead, read ahead; nothing reserved at the end of pages; three constants.
        (16, [(PAGE as u16).to_be_bytes().as_slice(), &[2, 2, 0, 64, 32, 32]].concat()),
        (28, pages.count.to_be_bytes().to_vec()),
        // No free pages; the schema was made once; format 4; no cache size, no vacuum; UTF-8.
        (32, [0, 0, SCHEMA.len() as u32, 4, 0, 0, 1].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()),
        (60, [FORMAT as u32, 0, APPLICATION as u32].iter().flat_map(|word| word.to_be_bytes()).collect()),
        (72, vec![0; 20]),
        // The counter of changes is written twice.
        (92, word(24).to_be_bytes().to_vec()),
    ];
    for (at, bytes) in fixed {
        if page.get(at..at + bytes.len()) != Some(&bytes) {
            report.about_file(format!("the file's header was changed near byte {at}"));
        }
    }
    if !engines.contains(&u64::from(word(96))) {
        report.about_file("the file's header names a version of SQLite that did not write it");
    }
    if pages.left_over > 0 {
        report.about_file(format!("{} bytes at the end of the file belong to nothing", pages.left_over));
    }
}

/// Every page belongs to a table, but for the one SQLite keeps empty because its locks are there.
fn check_unused(pages: &Pages, seen: &PageSet, report: &mut Report) {
    const LOCKS: u32 = 0x4000_0000 / PAGE as u32 + 1;
    for number in seen.missing() {
        let empty = || pages.read(number).is_ok_and(|page| page.iter().all(|byte| *byte == 0));
        if number != LOCKS || !empty() {
            report.about_file(format!("page {number} belongs to nothing"));
        }
    }
}
