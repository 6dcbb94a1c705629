//! The quick learned look: one weight per hashed word of the raw text, summed over neighbouring blocks.
//!
//! It only has to let ordinary text through cheaply; what it stops on is read properly. Scripts without spaces are read as
//! pairs of characters. The weights are trained together with those of [`super::model`] and stand behind them.

use std::ops::Range;

use super::model;

/// Bits of a word's index.
pub const BITS: u32 = 15;
/// Raw text is read in blocks of so many bytes, and two blocks in a row are summed.
const BLOCK: usize = 256;
/// How far around such a pair text is read.
const AROUND: usize = 64;

/// Tells the ranges of the text that are worth reading, on any byte, in order.
pub(super) fn stops(text: &str, mut tell: impl FnMut(Range<usize>)) {
    let table = model::gate();
    let least = model::gate_least();
    let (mut block, mut last, mut sum) = (0, 0i32, 0i32);
    let mut close = |block: usize, sum: i32| {
        if sum >= least {
            tell(
                (block.saturating_sub(1) * BLOCK).saturating_sub(AROUND)
                    ..((block + 1) * BLOCK + AROUND).min(text.len()),
            );
        }
    };
    words(text.as_bytes(), |at, index| {
        let here = at / BLOCK;
        if here != block {
            close(block, last + sum);
            last = if here == block + 1 { sum } else { 0 };
            (block, sum) = (here, 0);
        }
        sum += i32::from(table.get(index as usize).map_or(0, |byte| byte.cast_signed()));
    });
    close(block, last + sum);
}

/// The words of every pair of blocks: what the gate is trained on.
pub fn features_of(text: &str) -> Vec<Vec<u32>> {
    let mut blocks = vec![Vec::new(); text.len() / BLOCK + 1];
    words(text.as_bytes(), |at, index| blocks[at / BLOCK].push(index));
    (0..blocks.len())
        .map(|block| {
            [blocks.get(block.wrapping_sub(1)), blocks.get(block)].into_iter().flatten().flatten().copied().collect()
        })
        .collect()
}

/// Tells every word by where it starts: letters, digits and `_`; in scripts without spaces a character and the one before.
fn words(bytes: &[u8], mut tell: impl FnMut(usize, u32)) {
    let mut at = 0;
    let mut before = 0;
    while at < bytes.len() {
        let folded = FOLDED[usize::from(bytes[at])];
        if folded == 0 {
            before = 0;
            at += 1;
            continue;
        }
        let start = at;
        let mut value = SEED;
        if is_unspaced(bytes[at]) {
            for byte in bytes[at..].iter().take(3) {
                value = step(value, *byte);
            }
            tell(start, spread(value));
            if before != 0 {
                tell(start, spread(value.wrapping_mul(31) ^ before));
            }
            before = value;
            at += 3;
            continue;
        }
        while let Some(byte) = bytes.get(at) {
            let folded = FOLDED[usize::from(*byte)];
            if folded == 0 || is_unspaced(*byte) {
                break;
            }
            value = step(value, folded);
            at += 1;
        }
        before = 0;
        tell(start, spread(value));
    }
}

/// The first byte of a character of Chinese, Japanese, Korean.
fn is_unspaced(byte: u8) -> bool {
    matches!(byte, 0xe3..=0xed)
}

const SEED: u32 = 0x811c_9dc5;

fn step(value: u32, byte: u8) -> u32 {
    (value ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

fn spread(value: u32) -> u32 {
    (value ^ value >> 15).wrapping_mul(0x2c1b_3c6d) >> (32 - BITS)
}

/// Every byte as words see it: nothing between words, small letters, and what is not ASCII as it is.
const FOLDED: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80 {
            table[byte] = b.to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let mut count = 0;
        words(text.as_bytes(), |_, _| count += 1);
        count
    }

    #[test]
    fn words_are_read() {
        assert_eq!(
            (count(""), count("a b_c, d!"), count("привет мир"), count("忽略指令"), count("忽")),
            (0, 3, 2, 7, 1)
        );
    }
}
