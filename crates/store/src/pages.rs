//! The bytes of a SQLite file, page by page, as they are at one moment.
//!
//! SQLite shows rows, not bytes; who wants to know that nothing else is in the file has to read it as it lies on the
//! disk. The latest version of a page may still be in the write-ahead file: its committed frames are read into
//! memory, everything else is read from the database when it is asked for.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{lock::Held, log::PAGE};

/// The pages of a database.
#[derive(Debug)]
pub(crate) struct Pages {
    file: Arc<File>,
    /// Newer versions, from the write-ahead file.
    ahead: BTreeMap<u32, Vec<u8>>,
    /// How many there are.
    pub(crate) count: u32,
    /// Bytes of the file that belong to no page.
    pub(crate) left_over: u64,
}

impl Pages {
    /// The pages as they are now. They stay so while the caller keeps a read transaction open that it began under
    /// the same hold: SQLite then moves into the database only pages that are in the write-ahead file by now.
    pub(crate) fn now(_held: &Held<'_>, database: &Path) -> io::Result<Self> {
        let file = open_for_good(database)?;
        let length = file.metadata()?.len();
        let mut pages = Self { file, ahead: BTreeMap::new(), count: to_count(length / PAGE as u64)?, left_over: 0 };
        if let Some(ahead) = Ahead::read(&ahead_of(database))? {
            pages.ahead = ahead.pages;
            pages.count = ahead.count;
        }
        // A database that is about to grow is shorter than its pages; it is never longer.
        pages.left_over = length.saturating_sub(u64::from(pages.count) * PAGE as u64) + length % PAGE as u64;
        Ok(pages)
    }

    /// One page, counting from 1.
    pub(crate) fn read(&self, number: u32) -> io::Result<Vec<u8>> {
        if let Some(page) = self.ahead.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE];
        self.file.read_exact_at(&mut page, (u64::from(number).saturating_sub(1)) * PAGE as u64)?;
        Ok(page)
    }
}

/// Where SQLite writes ahead.
pub(crate) fn ahead_of(database: &Path) -> std::path::PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn to_count(pages: u64) -> io::Result<u32> {
    u32::try_from(pages).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the database has too many pages"))
}

/// Opens a file of a database past SQLite, and never closes it again.
///
/// POSIX drops all locks a process has on a file when the process closes any descriptor of it. A store in the same
/// process would go on without its locks, and whoever opens the database next (the `sqlite3` command, say) could take
/// the write-ahead file from under it.
pub(crate) fn open_for_good(path: &Path) -> io::Result<Arc<File>> {
    static OPEN: Mutex<BTreeMap<(u64, u64), Arc<File>>> = Mutex::new(BTreeMap::new());
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = open.get(&identity(fs::metadata(path)?)) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    open.insert(identity(file.metadata()?), Arc::clone(&file));
    Ok(file)
}

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// What a write-ahead file has committed.
struct Ahead {
    pages: BTreeMap<u32, Vec<u8>>,
    /// How many pages the database has with them.
    count: u32,
}

impl Ahead {
    /// None if it holds no commit. Frames count from the first on as long as their salts and running checksums fit,
    /// as when SQLite recovers.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((header, frames)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let word = |bytes: &[u8], index: usize| -> u32 {
            bytes.get(4 * index..4 * index + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
        };
        let big_endian = match word(header, 0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return Ok(None),
        };
        let mut sum = checksum(big_endian, (0, 0), &header[..24]);
        if word(header, 2) != PAGE as u32 || sum != (word(header, 6), word(header, 7)) {
            return Ok(None);
        }
        let (mut pages, mut uncommitted, mut count) = (BTreeMap::new(), Vec::new(), None);
        for frame in frames.chunks_exact(FRAME_HEADER + PAGE) {
            let (about, page) = frame.split_at(FRAME_HEADER);
            sum = checksum(big_endian, checksum(big_endian, sum, &about[..8]), page);
            let salted = word(about, 2) == word(header, 4) && word(about, 3) == word(header, 5);
            if !salted || sum != (word(about, 4), word(about, 5)) {
                break;
            }
            uncommitted.push((word(about, 0), page.to_vec()));
            if word(about, 1) != 0 {
                pages.extend(uncommitted.drain(..));
                count = Some(word(about, 1));
            }
        }
        Ok(count.map(|count| Self { pages, count }))
    }
}

fn checksum(big_endian: bool, start: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let (pairs, _) = bytes.as_chunks::<8>();
    pairs.iter().fold(start, |(a, b), [p, q, r, s, t, u, v, w]| {
        let read = |word: [u8; 4]| if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
        let a = a.wrapping_add(read([*p, *q, *r, *s])).wrapping_add(b);
        (a, b.wrapping_add(read([*t, *u, *v, *w])).wrapping_add(a))
    })
}
