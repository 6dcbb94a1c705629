//! Trains the tables that judge injections.
//!
//!     cargo run --release -p toolgate-bench --bin train_injection -- CORPORA OUT (all|rows|groups) [ORDINARY_DIR...]
//!
//! CORPORA holds the labelled sets as gzipped JSON lines; text files under each ORDINARY_DIR are ordinary text. With
//! `rows` or `groups`, half of the rows, or of the sources rows come from, are kept out of the training, and what is
//! printed is measured on them alone. `crates/guard/src/injection/weights.bin` was trained with `all` on
//! `/usr/share/doc`, the sources of this workspace's dependencies and the standard library of Python.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{Read as _, Write as _, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use flate2::read::GzDecoder;
use serde::Deserialize;
use toolgate_guard::injection::{
    gate,
    model::{self, Features},
};

/// Times every text is learned from.
const EPOCHS: usize = 40;
const GATE_EPOCHS: usize = 8;
/// How far a step goes at first, and how much of every weight is forgotten in one.
const RATE: f32 = 0.05;
const FORGET: f32 = 1e-6;
/// Ordinary texts taken from each directory, and their length in bytes.
const ORDINARY: usize = 5000;
const ORDINARY_LEN: usize = 900;
/// The gate may lose this part of the attacks the table sees.
const GATE_LOSS: f32 = 0.005;
/// Kinds whose rows say nothing an ordinary text could not say.
const OUT_OF_SCOPE: &[&str] = &["atr_model-abuse", "injection_string", "tool_output"];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [corpora, out, kept, dirs @ ..] = args.as_slice() else {
        bail!("want CORPORA OUT (all|rows|groups) [ORDINARY_DIR...]")
    };
    let kept = match kept.as_str() {
        "all" => Kept::Nothing,
        "rows" => Kept::Rows,
        "groups" => Kept::Groups,
        other => bail!("`{other}` is none of all, rows, groups"),
    };
    let mut dice = Dice(7);
    let sets = Sets::read(Path::new(corpora))?;
    let mut ordinary = Vec::new();
    for dir in dirs {
        ordinary.extend(ordinary_texts(Path::new(dir), &mut dice));
    }
    let texts = training(&sets, &ordinary, kept);
    let mut table = Table::learn(&texts, &mut dice);
    let (scale, quantised) = table.quantise();
    let gate = Gate::learn(&texts, &table, &mut dice);
    let mut bytes = Vec::new();
    for head in [scale, table.bias, gate.least as f32] {
        bytes.extend(head.to_le_bytes());
    }
    bytes.extend(quantised.iter().chain(&gate.weights).map(|weight| weight.cast_unsigned()));
    fs::write(out, bytes)?;
    report(&sets, &table, kept)
}

/// What is kept out of the training to be measured on.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Nothing,
    Rows,
    Groups,
}

impl Kept {
    fn holds(self, row: &Row) -> bool {
        match self {
            Kept::Nothing => false,
            Kept::Rows => coin(&row.text),
            Kept::Groups => coin(row.group()),
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

/// A text to learn from.
struct Text {
    windows: Vec<Features>,
    gate: Vec<Vec<u32>>,
    attack: bool,
    weight: f32,
}

/// What to learn from. Two large sets are of one kind each and weigh little; texts written to be mistaken weigh much.
fn training(sets: &Sets, ordinary: &[String], kept: Kept) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut add = |text: &str, attack: bool, weight: f32| {
        texts.push(Text { windows: model::features_of(text), gate: gate::features_of(text), attack, weight });
    };
    for row in sets.attacks.iter().filter(|row| !kept.holds(row) && !OUT_OF_SCOPE.contains(&row.kind.as_str())) {
        add(&row.text, true, 2.0);
    }
    for row in sets.more_attacks.iter().filter(|row| row.text.len() < 6000) {
        let of_one_kind = row.source.contains("satml") || row.source.contains("llmail");
        add(&row.text, true, if of_one_kind { 0.05 } else { 0.5 });
    }
    for (rows, weight) in [(&sets.benign, 4.0), (&sets.hard, 10.0), (&sets.bulk, 1.0)] {
        for row in rows.iter().filter(|row| !kept.holds(row) && row.kind != "tool_output") {
            add(&row.text, false, weight);
        }
    }
    for text in ordinary {
        add(text, false, 1.0);
    }
    texts
}

/// Pieces of files that do not speak of injections themselves.
fn ordinary_texts(dir: &Path, dice: &mut Dice) -> Vec<String> {
    let mut files = files_under(dir);
    let mut texts = Vec::new();
    while texts.len() < ORDINARY && !files.is_empty() {
        let path = files.swap_remove(dice.below(files.len()));
        let Some(text) = read_text(&path).filter(|text| text.len() >= 40) else { continue };
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

/// Logistic regression with a step of its own for every weight, which shrinks as the weight moves.
struct Table {
    weights: Vec<f32>,
    moved: Vec<f32>,
    bias: f32,
    bias_moved: f32,
}

impl Table {
    fn learn(texts: &[Text], dice: &mut Dice) -> Self {
        let mut table = Self {
            weights: vec![0.0; 1 << model::BITS],
            moved: vec![1e-8; 1 << model::BITS],
            bias: -1.0,
            bias_moved: 1.0,
        };
        let mut order: Vec<&Text> = texts.iter().collect();
        for epoch in 0..EPOCHS {
            dice.shuffle(&mut order);
            let rate = RATE * (1.0 - 0.9 * epoch as f32 / EPOCHS as f32);
            for text in &order {
                table.learn_text(text, epoch, rate);
            }
        }
        table
    }

    /// Every window of an ordinary text is ordinary. Of an attack only some are one: at first all are tried, then the one
    /// that sounds worst.
    fn learn_text(&mut self, text: &Text, epoch: usize, rate: f32) {
        if !text.attack {
            for window in &text.windows {
                self.step(window, 0.0, text.weight, rate);
            }
        } else if epoch < 2 {
            for window in &text.windows {
                self.step(window, 1.0, text.weight / text.windows.len() as f32, rate);
            }
        } else if let Some(worst) = text.windows.iter().max_by(|a, b| self.odds(a).total_cmp(&self.odds(b))) {
            self.step(worst, 1.0, text.weight, rate);
        }
    }

    fn odds(&self, features: &Features) -> f32 {
        let groups = features.0.iter().filter(|group| !group.is_empty());
        self.bias
            + groups
                .map(|group| group.iter().map(|i| self.weights[*i as usize]).sum::<f32>() / (group.len() as f32).sqrt())
                .sum::<f32>()
    }

    fn worst(&self, text: &str) -> f32 {
        worst(&model::features_of(text), |window| self.odds(window))
    }

    fn step(&mut self, features: &Features, label: f32, weight: f32, rate: f32) {
        let error = (chance(self.odds(features)) - label) * weight;
        if error.abs() < 1e-4 {
            return;
        }
        self.bias_moved += error * error;
        self.bias -= rate * error / self.bias_moved.sqrt();
        for group in &features.0 {
            let share = error / (group.len() as f32).sqrt();
            for i in group {
                let i = *i as usize;
                let slope = share + FORGET * self.weights[i];
                self.moved[i] += slope * slope;
                self.weights[i] -= rate * slope / self.moved[i].sqrt();
            }
        }
    }

    /// One signed byte per weight and what one of it is worth; the table keeps what is left, so that it is what is measured.
    fn quantise(&mut self) -> (f32, Vec<i8>) {
        let (scale, bytes) = quantise(&self.weights, 0.9999);
        self.weights = bytes.iter().map(|byte| f32::from(*byte) * scale).collect();
        (scale, bytes)
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
        let seen = |text: &&Text| !text.attack || worst(&text.windows, |window| table.odds(window)) >= 0.0;
        let mut order: Vec<&Text> = texts.iter().filter(seen).collect();
        let (mut weights, mut moved, mut bias) =
            (vec![0.0f32; 1 << gate::BITS], vec![1e-6f32; 1 << gate::BITS], -1.0f32);
        for _ in 0..GATE_EPOCHS {
            dice.shuffle(&mut order);
            for text in &order {
                let sum = |words: &[u32]| words.iter().map(|i| weights[*i as usize]).sum::<f32>();
                let windows: Vec<&Vec<u32>> = match text.attack {
                    true => text.gate.iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).into_iter().collect(),
                    false => text.gate.iter().collect(),
                };
                for words in windows {
                    let sum = words.iter().map(|i| weights[*i as usize]).sum::<f32>();
                    let weight = if text.attack { (text.weight * 2.0).min(2.0) } else { 1.0 };
                    let error = (chance(bias + sum) - f32::from(u8::from(text.attack))) * weight;
                    if error.abs() < 1e-3 {
                        continue;
                    }
                    bias -= 0.002 * error;
                    for i in words {
                        let i = *i as usize;
                        let slope = error + 1e-4 * weights[i];
                        moved[i] += slope * slope;
                        weights[i] -= 0.1 * slope / moved[i].sqrt();
                    }
                }
            }
        }
        let (_, weights) = quantise(&weights, 0.998);
        let sum = |words: &Vec<u32>| words.iter().map(|i| i32::from(weights[*i as usize])).sum::<i32>();
        let attacks = order.iter().filter(|text| text.attack && text.weight >= 0.5);
        let mut sums: Vec<i32> = attacks.map(|text| text.gate.iter().map(sum).max().unwrap_or(0)).collect();
        sums.sort_unstable();
        let least = sums.get((sums.len() as f32 * GATE_LOSS) as usize).copied().unwrap_or(0);
        // Words nobody has seen sum to nothing, and text in a language that is not in the sets is let through.
        Self { weights, least: least.max(1) }
    }
}

/// Bytes for all but the few largest weights, which are cut off, and what one unit of them is worth.
fn quantise(weights: &[f32], keep: f64) -> (f32, Vec<i8>) {
    let mut sizes: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let scale = sizes[(sizes.len() as f64 * keep) as usize].max(f32::MIN_POSITIVE) / 127.0;
    (scale, weights.iter().map(|weight| (weight / scale).round().clamp(-127.0, 127.0) as i8).collect())
}

fn worst(windows: &[Features], odds: impl Fn(&Features) -> f32) -> f32 {
    windows.iter().map(odds).fold(f32::NEG_INFINITY, f32::max)
}

fn chance(odds: f32) -> f32 {
    1.0 / (1.0 + (-odds).exp())
}

/// The part of the attacks that is seen at the odds at which so many texts written to be mistaken are.
fn report(sets: &Sets, table: &Table, kept: Kept) -> anyhow::Result<()> {
    let odds = |rows: &[Row]| -> Vec<(String, f32)> {
        rows.iter()
            .filter(|row| kept == Kept::Nothing || kept.holds(row))
            .map(|row| (row.kind.clone(), table.worst(&row.text)))
            .collect()
    };
    let (attacks, benign, hard, bulk) = (odds(&sets.attacks), odds(&sets.benign), odds(&sets.hard), odds(&sets.bulk));
    let above = |rows: &[(String, f32)], least: f32| {
        100.0 * rows.iter().filter(|row| row.1 >= least).count() as f32 / rows.len().max(1) as f32
    };
    let mut out = stdout().lock();
    for least in [0.5, 0.8, 1.1, 1.4, 2.0] {
        let in_scope: Vec<_> = attacks.iter().filter(|row| !OUT_OF_SCOPE.contains(&row.0.as_str())).cloned().collect();
        writeln!(
            out,
            "odds {least:.1}: attacks {:.1} %, benign {:.2} %, hard {:.2} %, bulk {:.2} %",
            above(&in_scope, least),
            above(&benign, least),
            above(&hard, least),
            above(&bulk, least)
        )?;
    }
    let mut kinds: BTreeMap<&str, Vec<(String, f32)>> = BTreeMap::new();
    for row in &attacks {
        kinds.entry(&row.0).or_default().push(row.clone());
    }
    for (kind, rows) in kinds {
        writeln!(out, "  {kind}: {:.1} % of {} at 1.1", above(&rows, 1.1), rows.len())?;
    }
    Ok(())
}

/// The same half every time.
fn coin(text: &str) -> bool {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 29 ^ hash >> 41) & 1 == 1
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

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}
