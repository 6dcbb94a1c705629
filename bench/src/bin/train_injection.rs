//! Trains the tables that judge injections.
//!
//!     cargo run --release -p toolgate-bench --bin train_injection -- CORPORA OUT (all|rows|groups|fifths) [ORDINARY_DIR...]
//!
//! CORPORA holds the labelled sets as gzipped JSON lines; text files under each ORDINARY_DIR are ordinary text. With
//! `rows` or `groups`, half of the rows, or of the sources rows come from, are kept out of the training, with `fifths` each
//! fifth of the rows in turn, and what the whole judge finds is printed for what was kept out alone. The bar is found on
//! what is trained on. `crates/guard/src/injection/weights.bin` was trained with `all` on
//! `/usr/share/doc`, the sources of this workspace's dependencies, the standard library of Python, and some thousand short
//! files with what programs print: listings, paths, logs, one to three lines each.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{Read as _, Write as _, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use flate2::read::GzDecoder;
use serde::Deserialize;
use toolgate_guard::injection::{
    self, Verdict, gate,
    model::{self, Features, Model},
};

/// Times every text is looked at while the table is learned, and how often the worst window of an attack is chosen anew.
const ROUNDS: usize = 12;
const CHOICES: usize = 2;
/// How much a mistake counts against weights that are large.
const COST: f32 = 0.2;
/// What one unit of the margin is worth in odds.
const SHARPNESS: f32 = 3.0;
/// Parts of what is trained on that are kept out in turn to find the bar.
const FOLDS: u64 = 4;
/// Part of each set of ordinary text that may be above the bar.
const BARS: [(Origin, f32); 3] = [(Origin::Benign, 0.017), (Origin::Hard, 0.04), (Origin::Bulk, 0.003)];
const GATE_ROUNDS: usize = 12;
const GATE_COST: f32 = 0.02;
/// Ordinary texts taken from each directory, and their length in bytes.
const ORDINARY: usize = 2500;
const ORDINARY_LEN: usize = 900;
/// The gate may lose this part of the attacks the table sees.
const GATE_LOSS: f32 = 0.005;
/// Kinds whose rows say nothing an ordinary text could not say.
const OUT_OF_SCOPE: &[&str] = &["atr_model-abuse", "injection_string", "tool_output"];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [corpora, out, kept, dirs @ ..] = args.as_slice() else {
        bail!("want CORPORA OUT (all|rows|groups|fifths) [ORDINARY_DIR...]")
    };
    let kept = match kept.as_str() {
        "all" => Kept::Nothing,
        "rows" => Kept::Rows,
        "groups" => Kept::Groups,
        "fifths" => Kept::Fifth(0),
        other => bail!("`{other}` is none of all, rows, groups, fifths"),
    };
    let mut dice = Dice(7);
    let sets = Sets::read(Path::new(corpora))?;
    let mut ordinary = Vec::new();
    for dir in dirs {
        ordinary.extend(ordinary_texts(Path::new(dir), &mut dice));
    }
    let mut counts = Counts::default();
    let parts = if kept == Kept::Fifth(0) { (0..5).map(Kept::Fifth).collect() } else { vec![kept] };
    for kept in parts {
        let bytes = train(&training(&sets, &ordinary, kept), &mut dice);
        counts.add(&sets, &Model::new(&bytes), kept);
        fs::write(out, &bytes)?;
    }
    counts.print()
}

/// The weights that are learned from the texts.
fn train(texts: &[Text], dice: &mut Dice) -> Vec<u8> {
    let rarity = Rarity::of(texts);
    let mut table = Table::learn(&texts.iter().collect::<Vec<_>>(), &rarity, dice);
    table.bias -= bar(texts, &rarity, dice);
    pack(&table, texts, dice)
}

/// The margin above which only as many ordinary texts are as may be, when they are judged by tables that were not trained
/// on them.
fn bar(texts: &[Text], rarity: &Rarity, dice: &mut Dice) -> f32 {
    let mut margins: Vec<(Origin, f32)> = Vec::new();
    for fold in 0..FOLDS {
        let (kept, learned): (Vec<&Text>, Vec<&Text>) = texts.iter().partition(|text| text.fold == fold);
        let table = Table::learn(&learned, rarity, dice);
        margins.extend(kept.iter().filter(|text| !text.attack).map(|text| (text.origin, table.worst(&text.windows))));
    }
    let bars = BARS.iter().map(|(origin, part)| {
        let mut of_set: Vec<f32> = margins.iter().filter(|row| row.0 == *origin).map(|row| row.1).collect();
        of_set.sort_by(|a, b| b.total_cmp(a));
        of_set.get((of_set.len() as f32 * part) as usize).copied().unwrap_or(f32::NEG_INFINITY)
    });
    bars.fold(f32::NEG_INFINITY, f32::max)
}

/// The file the guard embeds.
fn pack(table: &Table, texts: &[Text], dice: &mut Dice) -> Vec<u8> {
    let (scale, weights) = quantise(&table.weights, 0.9999, dice);
    let gate = Gate::learn(texts, table, dice);
    let mut bytes = Vec::new();
    for head in [scale * SHARPNESS, table.bias * SHARPNESS, gate.least as f32] {
        bytes.extend(head.to_le_bytes());
    }
    bytes.extend(weights.iter().chain(&gate.weights).map(|weight| weight.cast_unsigned()));
    bytes
}

/// What is kept out of the training to be measured on.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Nothing,
    Rows,
    Groups,
    Fifth(u64),
}

impl Kept {
    fn holds(self, row: &Row) -> bool {
        match self {
            Kept::Nothing => false,
            Kept::Rows => coin(&row.text),
            Kept::Groups => coin(row.group()),
            Kept::Fifth(part) => hash(&row.text) / 2 % 5 == part,
        }
    }
}

#[derive(Deserialize)]
struct Row {
    text: String,
    kind: String,
    source: String,
}

impl Row {
    /// Rows of one rule of a rule set resemble each other.
    fn group(&self) -> &str {
        self.source.split('/').find(|part| part.starts_with("ATR-")).unwrap_or(&self.text)
    }
}

struct Sets {
    attacks: Vec<Row>,
    more_attacks: Vec<Row>,
    benign: Vec<Row>,
    hard: Vec<Row>,
    bulk: Vec<Row>,
}

impl Sets {
    fn read(dir: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| -> anyhow::Result<Vec<Row>> {
            let path = dir.join(format!("injection_{name}.jsonl.gz"));
            let mut text = String::new();
            GzDecoder::new(File::open(&path).with_context(|| path.display().to_string())?).read_to_string(&mut text)?;
            text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
        };
        Ok(Self {
            attacks: read("attacks")?,
            more_attacks: read("attacks_training")?,
            benign: read("benign")?,
            hard: read("hard_negatives")?,
            bulk: read("bulk")?,
        })
    }
}

/// Where a text to learn from is from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    Attack,
    Benign,
    Hard,
    Bulk,
    Ordinary,
}

/// A text to learn from.
struct Text {
    windows: Vec<Features>,
    gate: Vec<Vec<u32>>,
    origin: Origin,
    attack: bool,
    weight: f32,
    fold: u64,
}

/// What to learn from. Attacks of other kinds than those that are looked for weigh little, and so does ordinary text, of
/// which there is much; texts written to be mistaken weigh more than the attacks they resemble.
fn training(sets: &Sets, ordinary: &[String], kept: Kept) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut add = |text: &str, origin: Origin, weight: f32| {
        texts.push(Text {
            windows: model::features_of(text),
            gate: gate::features_of(text),
            origin,
            attack: origin == Origin::Attack,
            weight,
            fold: hash(text) / 7 % FOLDS,
        });
    };
    for row in sets.attacks.iter().filter(|row| !kept.holds(row) && !OUT_OF_SCOPE.contains(&row.kind.as_str())) {
        add(&row.text, Origin::Attack, 1.0);
    }
    let of_one_kind = |row: &&Row| row.source.contains("satml") || row.source.contains("llmail");
    for row in sets.more_attacks.iter().filter(|row| row.text.len() < 6000 && !of_one_kind(row)) {
        add(&row.text, Origin::Attack, 0.03);
    }
    for (rows, origin, weight) in
        [(&sets.benign, Origin::Benign, 2.0), (&sets.hard, Origin::Hard, 1.0), (&sets.bulk, Origin::Bulk, 0.2)]
    {
        for row in rows.iter().filter(|row| !kept.holds(row) && row.kind != "tool_output") {
            add(&row.text, origin, weight);
        }
    }
    for text in ordinary {
        add(text, Origin::Ordinary, 0.2);
    }
    texts
}

/// Pieces of files that do not speak of injections themselves.
fn ordinary_texts(dir: &Path, dice: &mut Dice) -> Vec<String> {
    let mut files = files_under(dir);
    let mut texts = Vec::new();
    while texts.len() < ORDINARY && !files.is_empty() {
        let path = files.swap_remove(dice.below(files.len()));
        let Some(text) = read_text(&path).filter(|text| text.len() >= 8) else { continue };
        let lower = text.to_lowercase();
        if lower.contains("ignore previous instructions") || lower.contains("prompt injection") {
            continue;
        }
        let pieces = if text.len() < ORDINARY_LEN { 1 } else { 3 };
        for _ in 0..pieces {
            let start = if pieces == 1 { 0 } else { text.floor_char_boundary(dice.below(text.len())) };
            let end = text.ceil_char_boundary((start + ORDINARY_LEN).min(text.len()));
            texts.push(text[start..end].to_owned());
        }
    }
    texts
}

fn files_under(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

fn read_text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    if path.extension().is_none_or(|extension| extension != "gz") {
        return String::from_utf8(bytes).ok();
    }
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice()).take(1 << 20).read_to_string(&mut text).ok()?;
    Some(text)
}

/// How much a feature says because few texts have it.
struct Rarity(Vec<f32>);

impl Rarity {
    /// Counted over the texts that are close to each other; ordinary ones would make all they talk of common.
    fn of(texts: &[Text]) -> Self {
        let mut having = vec![0u32; 1 << model::BITS];
        let mut rows = 0u32;
        for text in texts.iter().filter(|text| text.weight >= 1.0) {
            for window in &text.windows {
                rows += 1;
                let all: BTreeSet<u32> = window.0.iter().flatten().copied().collect();
                for index in all {
                    having[index as usize] += 1;
                }
            }
        }
        let rarity = |having: u32| (((1 + rows) as f32 / (1 + having) as f32).ln() + 1.0) / 6.0;
        Self(having.into_iter().map(rarity).collect())
    }

    /// A window as the table learns it: every feature once, with its value.
    fn row(&self, window: &Features) -> Vec<(u32, f32)> {
        let mut row: Vec<(u32, f32)> = Vec::new();
        for (group, scale) in window.0.iter().zip(model::SCALES) {
            let share = scale / (group.len().max(1) as f32).sqrt();
            row.extend(group.iter().map(|index| (*index, share * self.0[*index as usize])));
        }
        row.sort_unstable_by_key(|feature| feature.0);
        row.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        row
    }
}

/// A plane between attacks and the rest, with as much room to either side as the squared cost of mistakes allows.
struct Table {
    /// What a feature weighs, with its rarity.
    weights: Vec<f32>,
    bias: f32,
}

/// One window while it is learned.
struct Lesson {
    row: Vec<(u32, f32)>,
    sign: f32,
    /// How hard it pulls at the plane, and how little it is made to.
    pull: f32,
    slack: f32,
    size: f32,
}

impl Table {
    /// Every window of an ordinary text is ordinary. Of an attack only one need be: at first all are taken, then the one
    /// that sounds worst.
    fn learn(texts: &[&Text], rarity: &Rarity, dice: &mut Dice) -> Self {
        let mut table = Self { weights: Vec::new(), bias: 0.0 };
        for choice in 0..CHOICES {
            let mut lessons: Vec<Lesson> = Vec::new();
            for text in texts {
                let worst = match text.attack && choice > 0 && text.windows.len() > 1 {
                    true => text.windows.iter().max_by(|a, b| table.margin(a).total_cmp(&table.margin(b))),
                    false => None,
                };
                let windows = worst.map_or(text.windows.as_slice(), std::slice::from_ref);
                let share = if text.attack { text.weight / windows.len() as f32 } else { text.weight };
                lessons.extend(windows.iter().map(|window| Lesson::new(rarity.row(window), text.attack, COST * share)));
            }
            table = Self::fit(lessons, 1 << model::BITS, ROUNDS, dice);
            for (weight, rarity) in table.weights.iter_mut().zip(&rarity.0) {
                *weight *= rarity;
            }
        }
        table
    }

    /// Moves one pull at a time to where it is best while the others stay, until all have been moved often enough.
    fn fit(mut lessons: Vec<Lesson>, features: usize, rounds: usize, dice: &mut Dice) -> Self {
        let mut table = Self { weights: vec![0.0; features], bias: 0.0 };
        for _ in 0..rounds {
            dice.shuffle(&mut lessons);
            for lesson in &mut lessons {
                let sum =
                    lesson.row.iter().map(|(i, value)| table.weights[*i as usize] * value).sum::<f32>() + table.bias;
                let slope = lesson.sign * sum - 1.0 + lesson.slack * lesson.pull;
                let pull = (lesson.pull - slope / (lesson.size + lesson.slack)).max(0.0);
                let step = (pull - lesson.pull) * lesson.sign;
                if step == 0.0 {
                    continue;
                }
                lesson.pull = pull;
                table.bias += step;
                for (i, value) in &lesson.row {
                    table.weights[*i as usize] += step * value;
                }
            }
        }
        table
    }

    fn margin(&self, features: &Features) -> f32 {
        let groups = features.0.iter().zip(model::SCALES).filter(|(group, _)| !group.is_empty());
        let sums = groups.map(|(group, scale)| {
            scale * group.iter().map(|i| self.weights[*i as usize]).sum::<f32>() / (group.len() as f32).sqrt()
        });
        self.bias + sums.sum::<f32>()
    }

    fn worst(&self, windows: &[Features]) -> f32 {
        windows.iter().map(|window| self.margin(window)).fold(f32::NEG_INFINITY, f32::max)
    }
}

impl Lesson {
    fn new(row: Vec<(u32, f32)>, attack: bool, cost: f32) -> Self {
        let size = row.iter().map(|(_, value)| value * value).sum::<f32>() + 1.0;
        Self { row, sign: if attack { 1.0 } else { -1.0 }, pull: 0.0, slack: 0.5 / cost, size }
    }
}

/// One weight per word, summed over raw text.
struct Gate {
    weights: Vec<i8>,
    least: i32,
}

impl Gate {
    /// Learns which texts the table takes for attacks from their words alone.
    fn learn(texts: &[Text], table: &Table, dice: &mut Dice) -> Self {
        let seen: Vec<&Text> = texts.iter().filter(|text| !text.attack || table.worst(&text.windows) >= 0.0).collect();
        let mut lessons = Vec::new();
        for text in &seen {
            let share = if text.attack { text.weight.min(0.3) } else { 0.3 } * GATE_COST;
            for words in &text.gate {
                let mut row: Vec<(u32, f32)> = words.iter().map(|index| (*index, 1.0)).collect();
                row.sort_unstable_by_key(|word| word.0);
                row.dedup_by(|next, kept| {
                    let same = next.0 == kept.0;
                    kept.1 += if same { next.1 } else { 0.0 };
                    same
                });
                lessons.push(Lesson::new(row, text.attack, share));
            }
        }
        let plane = Table::fit(lessons, 1 << gate::BITS, GATE_ROUNDS, dice);
        let (_, weights) = quantise(&plane.weights, 0.998, dice);
        let sum = |words: &Vec<u32>| words.iter().map(|i| i32::from(weights[*i as usize])).sum::<i32>();
        let attacks = seen.iter().filter(|text| text.attack && text.weight >= 0.5);
        let mut sums: Vec<i32> = attacks.map(|text| text.gate.iter().map(sum).max().unwrap_or(0)).collect();
        sums.sort_unstable();
        let least = sums.get((sums.len() as f32 * GATE_LOSS) as usize).copied().unwrap_or(0);
        // Words nobody has seen sum to nothing, and text in a language that is not in the sets is let through.
        Self { weights, least: least.max(1) }
    }
}

/// Bytes for all but the few largest weights, which are cut off, and what one unit of them is worth. What is between two
/// units becomes one or the other at random, so that sums of many small weights stay what they are.
fn quantise(weights: &[f32], keep: f64, dice: &mut Dice) -> (f32, Vec<i8>) {
    let mut sizes: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let scale = sizes[(sizes.len() as f64 * keep) as usize].max(f32::MIN_POSITIVE) / 127.0;
    let mut byte = |weight: &f32| (weight / scale + dice.part()).floor().clamp(-127.0, 127.0) as i8;
    (scale, weights.iter().map(&mut byte).collect())
}

/// What the whole judge found, by set and kind: hits and rows.
#[derive(Default)]
struct Counts([BTreeMap<String, (usize, usize)>; 4]);

impl Counts {
    /// Judges what was kept out, or everything when nothing was.
    fn add(&mut self, sets: &Sets, model: &Model<'_>, kept: Kept) {
        for (kinds, rows) in self.0.iter_mut().zip([&sets.attacks, &sets.benign, &sets.hard, &sets.bulk]) {
            for row in rows.iter().filter(|row| kept == Kept::Nothing || kept.holds(row)) {
                let (hits, all) = kinds.entry(row.kind.clone()).or_default();
                *hits += usize::from(injection::judge_by(model, &row.text).verdict > Verdict::Clean);
                *all += 1;
            }
        }
    }

    fn print(&self) -> anyhow::Result<()> {
        let mut out = stdout().lock();
        let mut line = |name: &str, kinds: &mut dyn Iterator<Item = &(usize, usize)>| {
            let (hits, all) = kinds.fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
            writeln!(out, "{name:<28} {all:>6} {:>7.2} %", 100.0 * hits as f32 / all.max(1) as f32)
        };
        let [attacks, benign, hard, bulk] = &self.0;
        for (kind, count) in attacks {
            line(kind, &mut [*count].iter())?;
        }
        let in_scope = attacks.iter().filter(|(kind, _)| !OUT_OF_SCOPE.contains(&kind.as_str()));
        line("attacks in scope", &mut in_scope.map(|(_, count)| count))?;
        line("benign", &mut benign.values())?;
        line("hard negatives", &mut hard.values())?;
        line("bulk", &mut bulk.values())?;
        Ok(())
    }
}

/// The same half every time.
fn coin(text: &str) -> bool {
    hash(text) & 1 == 1
}

fn hash(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash ^ hash >> 29 ^ hash >> 41
}

/// Small, quick and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound.max(1)
    }

    /// From nothing to just below one.
    fn part(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}
