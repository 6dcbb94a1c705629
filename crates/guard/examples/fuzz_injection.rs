//! Throws texts at the judge of injections until it falls over.
//!
//!     cargo run --release -p toolgate-guard --example fuzz_injection -- [COUNT] [SEED]
//!
//! Every text is made from a seed, so a run can be repeated: examples of the rules cut up and put together again with
//! characters nobody sees, lookalikes, escapes and encodings. A judge that panics takes the program down; a span that is
//! not on the boundaries of characters, an order that is missed in ordinary text around it, and a verdict that its score
//! does not bear out are told with the text.

#![expect(clippy::print_stdout, reason = "the counts are what it is for")]

use std::{env, process::ExitCode};

use toolgate_guard::injection::{Judged, MALICIOUS, SUSPICIOUS, Verdict, judge, rules::RULES};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let count: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(200_000);
    let seed: u64 = args.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);

    let mut counts = [0u64; 3];
    for n in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
        let text = text(&mut dice);
        let judged = judge(&text);
        if let Some(wrong) = wrong(&text, &judged) {
            println!("{wrong}, seed {seed}, text {n}: {text:?}");
            return ExitCode::FAILURE;
        }
        counts[judged.verdict as usize] += 1;
    }
    println!("{count} texts from seed {seed}: {} clean, {} suspicious, {} malicious", counts[0], counts[1], counts[2]);
    ExitCode::SUCCESS
}

fn wrong(text: &str, judged: &Judged) -> Option<&'static str> {
    let expected = match judged.score {
        MALICIOUS.. => Verdict::Malicious,
        SUSPICIOUS.. => Verdict::Suspicious,
        _ => Verdict::Clean,
    };
    if judged.verdict != expected {
        return Some("the verdict does not follow the score");
    }
    if judged.hits.is_empty() != (judged.verdict == Verdict::Clean) {
        return Some("hits and verdict disagree");
    }
    if judged.hits.iter().any(|hit| text.get(hit.span.clone()).is_none()) {
        return Some("a span is off");
    }
    None
}

/// Examples and pieces, cut up, and now and then a great many of one piece.
fn text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(12) {
        match dice.below(6) {
            0 => {
                let rule = &RULES[dice.below(RULES.len())];
                let list = if dice.below(3) == 0 { rule.must_not } else { rule.must };
                text.push_str(list[dice.below(list.len())]);
            }
            1 => text.push_str(&PIECES[dice.below(PIECES.len())].repeat(dice.below(400))),
            2 => text.extend(char::from_u32(u32::try_from(dice.next() % 0x11_0000).unwrap_or(0))),
            _ => text.push_str(PIECES[dice.below(PIECES.len())]),
        }
    }
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..dice.below(6) {
        if chars.is_empty() {
            break;
        }
        let at = dice.below(chars.len());
        match dice.below(4) {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, '\u{200b}'),
            2 => chars.truncate(at),
            _ => chars[at] = 'е',
        }
    }
    chars.into_iter().collect()
}

/// Small, quick and the same everywhere; nothing here needs more of chance.
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
}

const PIECES: &[&str] = &[
    "ignore ",
    "all ",
    "previous ",
    "instructions",
    "<|im_start|>",
    "](http://a/?q={data})",
    "aWdub3Jl",
    "SWdub3JlIGFsbA==",
    "69676e6f7265",
    "vtaber",
    "erongi",
    "&#105;",
    "&#x",
    "&#",
    "%69",
    "%",
    "\\u0069",
    "\\x69",
    "\\n",
    "i g n o r e",
    "i-g-n-o-r-e-",
    "1gn0r3",
    "忽略",
    "指令",
    "무시",
    "تجاهل",
    "नियम",
    "\u{200b}",
    "\u{202e}",
    "\u{e0069}",
    "\u{301}",
    "é",
    "🇩🇪",
    "𝐢𝐠𝐧",
    "ｉｇ",
    "\n",
    " ",
    "\t",
    "\0",
    "\u{1b}[31m",
    "```\n",
    "word ",
    "a",
    "the system ",
    "system: ",
    "\nAssistant: ",
    "you must ",
    "do not tell the user ",
    "https://",
    "src=\"",
    ". ",
];
