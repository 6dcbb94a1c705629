//! The rows of one SQLite table, read from its pages, with a look at every byte on the way.
//!
//! A table that only grows is laid out in one way: leaves are filled from their end without holes, what is free in
//! them is zero, and so is what is free after the last piece of a long row. Anything else was put there by somebody.
//!
//! Pages above the leaves are the exception. When they split, SQLite leaves stale cell pointers in their free space;
//! what those are depends on the history of the tree, so they cannot be recomputed. They are folded into a digest
//! instead, which a clean close signs ([`Tree::slack`]).

use std::{collections::VecDeque, iter, ops::Range};

use toolgate_contract::Digest;

use crate::{log::PAGE, pages::Pages};

/// A row: its number and its encoded columns.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) payload: Vec<u8>,
}

/// Something about a table that should not be so.
#[derive(Debug)]
pub(crate) struct Damage {
    /// The row it happened to.
    pub(crate) row: Option<u64>,
    pub(crate) what: String,
}

/// Walks a table from its first row to its last.
pub(crate) struct Tree<'a> {
    pages: &'a Pages,
    /// The pages above the one we are in.
    path: Vec<Branch>,
    leaf: Leaf,
    last: Option<u64>,
    damage: VecDeque<Damage>,
    /// Every page this table takes.
    pub(crate) seen: PageSet,
    /// What is in the free space above the leaves.
    pub(crate) slack: Slack,
}

#[derive(Debug)]
struct Branch {
    number: u32,
    /// The pages below, each but the last with the number of its last row.
    children: Vec<(u32, Option<u64>)>,
    next: usize,
}

#[derive(Default)]
struct Leaf {
    number: u32,
    page: Vec<u8>,
    cells: VecDeque<Cell>,
}

#[derive(Debug)]
struct Cell {
    row: u64,
    size: usize,
    local: Range<usize>,
    more: Option<u32>,
}

/// The free space above the leaves that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slack {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

impl Slack {
    pub(crate) const NONE: Slack = Slack { digest: Digest([0; 32]), bytes: 0 };

    fn add(&mut self, number: u32, gap: &[u8]) {
        if gap.iter().any(|byte| *byte != 0) {
            self.digest = Digest::of(&[self.digest.0.as_slice(), &number.to_be_bytes(), gap].concat());
            self.bytes += gap.len() as u64;
        }
    }

    /// This and what another table has.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self.bytes, other.bytes) {
            (_, 0) => self,
            (0, _) => other,
            (a, b) => Self { digest: Digest::of(&[self.digest.0, other.digest.0].concat()), bytes: a + b },
        }
    }
}

impl<'a> Tree<'a> {
    pub(crate) fn new(pages: &'a Pages, root: u32) -> Self {
        let mut tree = Self {
            pages,
            path: Vec::new(),
            leaf: Leaf::default(),
            last: None,
            damage: VecDeque::new(),
            seen: PageSet::new(pages.count),
            slack: Slack::NONE,
        };
        tree.enter(root);
        tree
    }

    /// What is in the free space above the leaves of a table, without reading the leaves.
    pub(crate) fn slack(pages: &'a Pages, root: u32) -> Result<Slack, String> {
        let mut tree = Self::new(pages, root);
        // All leaves are equally deep: once the first is found, everything at its depth is one.
        while tree.leaf.page.is_empty() && tree.damage.is_empty() && tree.advance() {}
        let depth = tree.path.len();
        loop {
            let level = tree.path.len();
            let Some(branch) = tree.path.last_mut() else { break };
            match branch.children.get(branch.next) {
                Some((child, _)) if level < depth => {
                    let child = *child;
                    branch.next += 1;
                    tree.enter(child);
                }
                _ => {
                    tree.path.pop();
                }
            }
        }
        match tree.damage.pop_front() {
            Some(damage) => Err(damage.what),
            None => Ok(tree.slack),
        }
    }

    /// Goes to the next page in order. False at the end.
    fn advance(&mut self) -> bool {
        while let Some(branch) = self.path.last_mut() {
            if let Some((_, Some(key))) = branch.next.checked_sub(1).and_then(|done| branch.children.get(done))
                && Some(*key) != self.last
            {
                let what = format!("page {}: it leads to row {key}, but the row there is another", branch.number);
                self.damage.push_back(Damage { row: Some(*key), what });
            }
            match branch.children.get(branch.next) {
                Some((child, _)) => {
                    let child = *child;
                    branch.next += 1;
                    self.enter(child);
                    return true;
                }
                None => {
                    self.path.pop();
                }
            }
        }
        false
    }

    fn enter(&mut self, number: u32) {
        if let Err(what) = self.try_enter(number) {
            self.damage.push_back(Damage { row: None, what: format!("page {number}: {what}") });
        }
    }

    fn try_enter(&mut self, number: u32) -> Result<(), String> {
        self.seen.add(number)?;
        let page = self.pages.read(number).map_err(|error| error.to_string())?;
        let start = if number == 1 { 100 } else { 0 };
        let about = &page.get(start..start + 12).ok_or("it is too short")?;
        let leaf = match about[0] {
            13 => true,
            5 => false,
            _ => return Err("it is no page of a table".to_owned()),
        };
        let count = usize::from(u16_at(&page, start + 3));
        let content = usize::from(u16_at(&page, start + 5));
        let pointers = start + if leaf { 8 } else { 12 };
        let gap = page.get(pointers + 2 * count..content).ok_or("its free space has no room")?;

        let mut used = Vec::with_capacity(count);
        let mut cells = VecDeque::new();
        let mut children = Vec::new();
        for i in 0..count {
            let at = usize::from(u16_at(&page, pointers + 2 * i));
            let end = if leaf {
                let (cell, end) = leaf_cell(&page, at)?;
                cells.push_back(cell);
                end
            } else {
                let (key, length) = varint(&page, at + 4)?;
                children.push((u32_at(&page, at), Some(key)));
                at + 4 + length
            };
            used.push(at..end);
        }
        let holes = holes(used, content);
        if leaf {
            // Its rows may be whole all the same: they are looked at, too.
            if holes != Ok(Vec::new()) || u16_at(&page, start + 1) != 0 || page[start + 7] != 0 {
                self.damage
                    .push_back(Damage { row: None, what: format!("page {number}: its rows are not side by side") });
            }
            if gap.iter().any(|byte| *byte != 0) {
                self.damage
                    .push_back(Damage { row: None, what: format!("page {number}: its free space is not empty") });
            }
            self.leaf = Leaf { number, page, cells };
        } else {
            freed(&page, start, &holes?)?;
            self.slack.add(number, gap);
            children.push((u32_at(&page, start + 8), None));
            self.path.push(Branch { number, children, next: 0 });
        }
        Ok(())
    }

    /// The whole row a cell begins.
    fn row(&mut self, cell: &Cell) -> Result<Row, String> {
        let mut payload = self.leaf.page.get(cell.local.clone()).ok_or("it is cut")?.to_vec();
        let mut more = cell.more;
        while let Some(number) = more {
            self.seen.add(number)?;
            let page = self.pages.read(number).map_err(|error| error.to_string())?;
            let piece = (cell.size - payload.len()).min(PAGE - 4);
            payload.extend_from_slice(&page[4..4 + piece]);
            if page[4 + piece..].iter().any(|byte| *byte != 0) {
                return Err(format!("the free space of page {number} is not empty"));
            }
            more = match (u32_at(&page, 0), payload.len() == cell.size) {
                (0, true) => None,
                (0, false) => return Err(format!("it ends too early, on page {number}")),
                (_, true) => return Err(format!("it goes on after its end, on page {number}")),
                (next, false) => Some(next),
            };
        }
        Ok(Row { id: cell.row, payload })
    }
}

impl Iterator for Tree<'_> {
    type Item = Result<Row, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(damage) = self.damage.pop_front() {
                return Some(Err(damage));
            }
            if let Some(cell) = self.leaf.cells.pop_front() {
                let damage = |what| Damage { row: Some(cell.row), what };
                if self.last.is_some_and(|last| last >= cell.row) {
                    return Some(Err(damage(format!("page {}: its rows are not in order", self.leaf.number))));
                }
                self.last = Some(cell.row);
                return Some(self.row(&cell).map_err(damage));
            }
            if !self.advance() {
                return self.damage.pop_front().map(Err);
            }
        }
    }
}

/// Which pages were seen.
#[derive(Debug, Clone)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    count: u32,
}

impl PageSet {
    pub(crate) fn new(count: u32) -> Self {
        Self { words: vec![0; count as usize / 64 + 1], count }
    }

    /// Every page is used once, so a second sight of it is a fault.
    pub(crate) fn add(&mut self, number: u32) -> Result<(), String> {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        match self.words.get_mut(word) {
            Some(word) if (1..=self.count).contains(&number) && *word & bit == 0 => {
                *word |= bit;
                Ok(())
            }
            _ => Err(format!("page {number} is used twice or does not exist")),
        }
    }

    /// Adds the pages of another table.
    pub(crate) fn join(&mut self, other: &Self) -> Result<(), String> {
        other.members().try_for_each(|number| self.add(number))
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.count).filter(|number| self.has(*number))
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.count).filter(|number| !self.has(*number))
    }

    fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

/// The columns of a row of a table whose first column is its number: all of them blobs.
pub(crate) fn blobs<const N: usize>(payload: &[u8]) -> Option<[&[u8]; N]> {
    let (header, mut at) = varint(payload, 0).ok()?;
    let mut rest = payload.get(usize::try_from(header).ok()?..)?;
    let mut kinds = [0; N];
    // The number is not stored twice: its place holds a null.
    if *payload.get(at)? != 0 {
        return None;
    }
    at += 1;
    for kind in &mut kinds {
        let (value, length) = varint(payload, at).ok()?;
        *kind = value;
        at += length;
    }
    let mut columns = [[].as_slice(); N];
    for (column, kind) in columns.iter_mut().zip(kinds) {
        let blob = kind >= 12 && kind % 2 == 0;
        let length = usize::try_from(kind.checked_sub(12)? / 2).ok()?;
        (*column, rest) = rest.split_at_checked(length).filter(|_| blob)?;
    }
    (at as u64 == header && rest.is_empty()).then_some(columns)
}

fn leaf_cell(page: &[u8], at: usize) -> Result<(Cell, usize), String> {
    let (size, first) = varint(page, at)?;
    let (row, second) = varint(page, at + first)?;
    let size = usize::try_from(size).map_err(|_| "a row is too long")?;
    let start = at + first + second;
    let local = local_bytes(size);
    let more = (local < size).then(|| u32_at(page, start + local));
    let end = start + local + if more.is_some() { 4 } else { 0 };
    if end > PAGE {
        return Err("a row is cut".to_owned());
    }
    Ok((Cell { row, size, local: start..start + local, more }, end))
}

/// How many bytes of a row stay in its leaf.
fn local_bytes(size: usize) -> usize {
    const MOST: usize = PAGE - 35;
    const LEAST: usize = (PAGE - 12) * 32 / 255 - 23;
    if size <= MOST {
        return size;
    }
    let even = LEAST + (size - LEAST) % (PAGE - 4);
    if even <= MOST { even } else { LEAST }
}

/// What lies between the used parts of a page, from `content` to its end.
fn holes(mut used: Vec<Range<usize>>, content: usize) -> Result<Vec<Range<usize>>, String> {
    used.sort_unstable_by_key(|range| range.start);
    let mut holes = Vec::new();
    let mut at = content;
    for range in used.into_iter().chain(iter::once(PAGE..PAGE)) {
        if range.start < at || range.end > PAGE {
            return Err("its parts overlap".to_owned());
        }
        if range.start > at {
            holes.push(at..range.start);
        }
        at = range.end;
    }
    Ok(holes)
}

/// Are the holes of a page those its list of free blocks names, and zero?
fn freed(page: &[u8], start: usize, holes: &[Range<usize>]) -> Result<(), String> {
    let wrong = || "its free blocks do not fit".to_owned();
    let mut page = page.to_vec();
    let mut free = usize::from(page[start + 7]);
    let mut block = usize::from(u16_at(&page, start + 1));
    let mut last = 0;
    while block != 0 {
        let (next, size) = (usize::from(u16_at(&page, block)), usize::from(u16_at(&page, block + 2)));
        let inside = holes.iter().any(|hole| hole.start <= block && block + size <= hole.end);
        if block <= last || size < 4 || !inside {
            return Err(wrong());
        }
        page[block..block + 4].fill(0);
        free += size;
        last = block;
        block = next;
    }
    let empty = holes.iter().all(|hole| page[hole.clone()].iter().all(|byte| *byte == 0));
    let total: usize = holes.iter().map(|hole| hole.len()).sum();
    if total == free && empty { Ok(()) } else { Err(wrong()) }
}

/// SQLite's variable-length integer at a place, and how many bytes it takes.
fn varint(bytes: &[u8], at: usize) -> Result<(u64, usize), String> {
    let mut value = 0;
    for length in 0..9 {
        let byte = *bytes.get(at + length).ok_or("it is cut")?;
        if length == 8 {
            return Ok((value << 8 | u64::from(byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Ok((value, length + 1));
        }
    }
    Err("it is cut".to_owned())
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|word| word.try_into().ok()).map_or(0, u16::from_be_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}
