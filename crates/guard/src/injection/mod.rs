//! Orders that hide in data: does this text try to steer the model that reads it?
//!
//! A verdict is a signal, never a wall: it puts a warning before the text and raises its label. Most text is let through
//! by one quick look ([`scout`]); what is left is folded to one spelling ([`fold`]), its words become ideas
//! ([`lexicon`]), rules over ideas ([`rules`]) say what is wrong, and a small table learned from known attacks ([`model`])
//! says how it sounds. Text that quotes attacks in order to speak of them counts for less. Everything is linear in the text and holds a few pieces of it at a time.

mod encoded;
mod fold;
pub mod gate;
pub mod lexicon;
mod links;
pub mod model;
pub mod rules;
mod scout;

use std::{collections::BTreeSet, ops::Range};

use lexicon::{Idea, Seen};
use model::Model;
use scout::{Form, Part};

/// Points from which a text is suspicious.
pub const SUSPICIOUS: u32 = 60;
/// Points from which a text is malicious.
pub const MALICIOUS: u32 = 120;

/// Odds below which a piece sounds so ordinary that the rules are not believed; at nothing and above it sounds like an
/// injection, whatever the rules say.
const SOUNDS_ORDINARY: f32 = -1.0;
/// Points for each unit of the odds above nothing.
const PER_ODDS: f32 = 20.0;

/// Folded at once; parts that are longer are read in pieces that overlap.
const PIECE: usize = 4096;
const OVERLAP: usize = 512;
/// A warning is read by a model; the first hits say enough.
const MOST_HITS: usize = 32;

/// The rule that speaks of how a text sounds, and of nothing it says.
pub const TONE: &str = "sounds_like_injection";

/// What a text is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Clean,
    Suspicious,
    Malicious,
}

/// One sign of an injection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Stable name of the rule.
    pub rule: &'static str,
    /// Bytes of the text, on character boundaries.
    pub span: Range<usize>,
    /// The risk of the OWASP list for agentic applications.
    pub owasp: &'static str,
    /// What was seen, as one sentence without a full stop.
    pub detail: String,
}

/// The judgement on a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub verdict: Verdict,
    /// Points of the worst piece; see [`SUSPICIOUS`] and [`MALICIOUS`].
    pub score: u32,
    /// In the order of the text; empty for clean text.
    pub hits: Vec<Hit>,
}

/// Judges a text. Pure, and linear in its length.
pub fn judge(text: &str) -> Judged {
    judge_by(&Model::embedded(), text)
}

/// Judges a text by weights that are not the embedded ones, so that those who train them can measure them.
pub fn judge_by(model: &Model<'_>, text: &str) -> Judged {
    let mut worst = 0;
    let mut hits: Vec<Hit> = Vec::new();
    for Part { range, form } in scout::parts(text, model) {
        for piece in pieces(text, range) {
            let (points, found) = match form {
                Form::Plain => judge_piece(model, text, piece),
                Form::Link => judge_links(text, piece),
                Form::Joined => judge_joined(text, piece),
                _ => judge_encoded(model, text, piece, form),
            };
            worst = worst.max(points);
            if hits.len() < MOST_HITS {
                hits.extend(found);
            }
        }
    }
    let verdict = match worst {
        MALICIOUS.. => Verdict::Malicious,
        SUSPICIOUS.. => Verdict::Suspicious,
        _ => Verdict::Clean,
    };
    if verdict == Verdict::Clean {
        hits.clear();
    }
    hits.sort_by_key(|hit| (hit.span.start, hit.span.end, hit.rule));
    hits.dedup();
    hits.truncate(MOST_HITS);
    Judged { verdict, score: worst, hits }
}

fn pieces(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    let mut next = Some(range.start);
    std::iter::from_fn(move || {
        let start = next?;
        let stop = text.floor_char_boundary((start + PIECE).min(end));
        next = (stop < end).then(|| text.floor_char_boundary(stop - OVERLAP));
        Some(start..stop)
    })
}

/// The points of one piece and what gave them.
fn judge_piece(model: &Model<'_>, text: &str, piece: Range<usize>) -> (u32, Vec<Hit>) {
    let folded = fold::fold(&text[piece.clone()]);
    let seen = lexicon::find(&folded.text);
    let (mut ruled, mut sure) = (0, 0);
    let mut hits = Vec::new();
    let hit = |rule, owasp, span: Range<usize>, detail: String| {
        let span = piece.start + span.start..piece.start + span.end;
        Hit { rule, span, owasp, detail }
    };
    let matched = rules::matches(&folded.text, &seen);
    for found in &matched {
        ruled += found.rule.weight;
        hits.push(hit(found.rule.id, found.rule.owasp, folded.origin(found.range.clone()), found.rule.says.to_owned()));
    }
    for word in folded.spelled.iter().filter(|word| encoded::holds_order(&folded.text[(*word).clone()])) {
        sure += encoded::WEIGHT;
        let detail = "spells its words out letter by letter".to_owned();
        hits.push(hit("spelled_out", "ASI01", folded.origin(word.clone()), detail));
    }
    let heard = model.worst(&folded.text, &seen);
    let mut ruled = in_voice(ruled, &seen);
    // The table has hardly been trained on scripts other than Latin, so there it is not asked for doubts. Nor is it where
    // rules agree and nothing speaks of security: what stands around an order can be made to sound as ordinary as
    // one likes.
    let talks = seen.iter().any(|word| word.idea == Idea::SecurityTalk);
    let agree = !talks && rules::agree(&matched);
    if heard.odds < SOUNDS_ORDINARY && !agree && is_latin(&folded.text) {
        ruled = ruled.min(SUSPICIOUS - 1);
    }
    let mut score = ruled + sure;
    if heard.odds >= 0.0 {
        score += SUSPICIOUS + (heard.odds * PER_ODDS) as u32;
        let detail = format!("sounds like known injections, {:.1} above the bar", heard.odds);
        hits.push(hit(TONE, "ASI01", folded.origin(heard.window), detail));
    }
    (score, hits)
}

/// Links that carry data away, or lead to where secrets lie.
fn judge_links(text: &str, piece: Range<usize>) -> (u32, Vec<Hit>) {
    let part = &text[piece.clone()];
    let hit = |rule, detail: &str, span: Range<usize>| {
        let span = piece.start + span.start..piece.start + span.end;
        Hit { rule, span, owasp: "ASI02", detail: detail.to_owned() }
    };
    let carries = |span| hit("link_carries_data", "holds a link whose address is to be filled with data", span);
    let leads = |span| hit("link_to_secrets", "holds a link to a file with secrets", span);
    let mut hits: Vec<Hit> = links::leaks(part).into_iter().map(carries).collect();
    hits.extend(links::to_secrets(part).into_iter().map(leads));
    (if hits.is_empty() { 0 } else { links::WEIGHT }, hits)
}

/// Could this be words that are run together, or parted by other signs than blanks? An address is none.
pub fn runs_words_together(text: &str) -> bool {
    !text.contains("://") && encoded::has_words(text)
}

/// What words say that are run together. How they sound is not asked: names of things in programs sound like orders.
fn judge_joined(text: &str, piece: Range<usize>) -> (u32, Vec<Hit>) {
    let before = &text[text.floor_char_boundary(piece.start.saturating_sub(encoded::ADDRESS))..piece.start];
    let token = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    if token.contains("://") || !encoded::has_words(&text[piece.clone()]) {
        return (0, Vec::new());
    }
    let folded = fold::fold_words(&encoded::apart(&text[piece.clone()]));
    let matched = rules::matches(&folded, &lexicon::find(&folded));
    let points = matched.iter().map(|found| found.rule.weight).sum();
    let hit = |found: &rules::Match| {
        let detail = format!("runs its words together, and {}", found.rule.says);
        Hit { rule: "joined_words", span: piece.clone(), owasp: found.rule.owasp, detail }
    };
    (points, matched.iter().map(hit).collect())
}

fn is_latin(folded: &str) -> bool {
    let (latin, all) = folded
        .chars()
        .filter(|c| c.is_alphabetic())
        .fold((0, 0), |(latin, all), c| (latin + usize::from(c.is_ascii()), all + 1));
    latin * 5 >= all * 3
}

/// What an encoded piece says, judged; that it was encoded counts too.
fn judge_encoded(model: &Model<'_>, text: &str, piece: Range<usize>, form: Form) -> (u32, Vec<Hit>) {
    let Some(inner) = encoded::open(&text[piece.clone()], form) else { return (0, Vec::new()) };
    let (points, found) = judge_piece(model, &inner, 0..inner.len());
    if points < SUSPICIOUS / 2 {
        return (0, Vec::new());
    }
    let name = match form {
        Form::Plain | Form::Link | Form::Joined | Form::Base64 => "base64",
        Form::Hex => "hex",
        Form::Rot13 => "rot13",
        Form::Reversed => "reversed text",
    };
    let says: BTreeSet<String> = found.into_iter().map(|hit| hit.detail).collect();
    let says = says.into_iter().collect::<Vec<_>>().join(", ");
    let hit = Hit { rule: "encoded_order", span: piece, owasp: "ASI01", detail: format!("{name} that {says}") };
    (points + encoded::WEIGHT, vec![hit])
}

/// Text about attacks quotes them: the more it talks of security and gives examples, the less its quotes count.
fn in_voice(points: u32, seen: &[Seen]) -> u32 {
    let talk = seen.iter().filter(|word| word.idea == Idea::SecurityTalk).count();
    let examples = seen.iter().filter(|word| word.idea == Idea::Example).count();
    match (talk, examples) {
        (0..=1, _) => points,
        (2, 0) => points * 2 / 3,
        (2..=3, _) => points / 2,
        _ => points / 3,
    }
}

#[cfg(test)]
mod tests;
