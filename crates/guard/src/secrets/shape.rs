//! What a secret looks like from outside: how random it is, and whether it only stands for one.

/// Bits per character, from how often each byte occurs.
pub(super) fn entropy(text: &str) -> f32 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len().max(1) as f32;
    counts.iter().filter(|count| **count > 0).map(|count| *count as f32 / all).map(|share| -share * share.log2()).sum()
}

/// Which kinds of characters a text has.
#[derive(Default)]
pub(super) struct Mix {
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digits: usize,
    pub(super) others: usize,
}

impl Mix {
    pub(super) fn of(text: &str) -> Self {
        let mut mix = Self::default();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                b'0'..=b'9' => mix.digits += 1,
                _ => mix.others += 1,
            }
        }
        mix
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// Pairs of letters that English words and names in code are made of, the most common first. Random letters have few of
/// them.
const COMMON_PAIRS: &str = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt oc fa ef cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go ht ru ug ds lt pi rc rr eg au ck ew mu br bi pt ak pu ui rg ib tl ny ki rk ys ob mm fu ph og ms ye ud mb ip ub oi rl gu dr hr cc tw ft wn nu af hu nn eo vo rv nf xp gn sm fl iz ok nl my gl aw ju oa eq sy sl ps jo lf nv je nk kn gs dy hy ze ks xt bs ik dd pm aj xi ax yp";

const PAIRS: [u32; 26] = pairs();

const fn pairs() -> [u32; 26] {
    let text = COMMON_PAIRS.as_bytes();
    let mut table = [0; 26];
    let mut at = 0;
    while at + 1 < text.len() {
        table[(text[at] - b'a') as usize] |= 1 << (text[at + 1] - b'a');
        at += 3;
    }
    table
}

/// The place of a pair of letters among those that are common.
pub(super) fn rank(first: u8, second: u8) -> Option<u32> {
    let at = COMMON_PAIRS.as_bytes().chunks(3).position(|pair| pair[..2] == [first, second])?;
    u32::try_from(at).ok()
}

/// How much of the letters of a text stands in words, from nothing to one. A word is three letters and more of one case,
/// the first may be a capital, and most of its pairs are common.
pub(super) fn wordiness(text: &str) -> f32 {
    let bytes = text.as_bytes();
    let (mut letters, mut in_words) = (0, 0);
    let mut at = 0;
    while at < bytes.len() {
        let end = word_end(bytes, at);
        if end == at {
            at += 1;
            continue;
        }
        letters += end - at;
        if is_word_like(&bytes[at..end]) {
            in_words += end - at;
        }
        at = end;
    }
    if letters == 0 { 0.0 } else { in_words as f32 / letters as f32 }
}

/// The end of the letters of one case that begin here, of which the first may be a capital.
fn word_end(bytes: &[u8], from: usize) -> usize {
    let run = |from: usize, of: fn(&u8) -> bool| from + bytes[from..].iter().take_while(|byte| of(byte)).count();
    match bytes.get(from) {
        Some(byte) if byte.is_ascii_lowercase() => run(from, u8::is_ascii_lowercase),
        Some(byte) if byte.is_ascii_uppercase() => match bytes.get(from + 1) {
            Some(next) if next.is_ascii_lowercase() => run(from + 1, u8::is_ascii_lowercase),
            // The last capital before small letters begins the next word.
            _ => match run(from, u8::is_ascii_uppercase) {
                end if end - from > 1 && bytes.get(end).is_some_and(u8::is_ascii_lowercase) => end - 1,
                end => end,
            },
        },
        _ => from,
    }
}

fn is_word_like(letters: &[u8]) -> bool {
    let common = |pair: &&[u8]| {
        let [a, b] = [pair[0], pair[1]].map(|letter| letter.to_ascii_lowercase() - b'a');
        (PAIRS[usize::from(a)] >> b) & 1 == 1
    };
    let pairs = letters.len().saturating_sub(1);
    letters.len() >= 3 && letters.windows(2).filter(common).count() * 10 >= pairs * 6
}

/// Words that stand where a secret should be put.
const STAND_INS: &[&str] = &[
    "example",
    "sample",
    "changeme",
    "change_me",
    "change-me",
    "placeholder",
    "redacted",
    "your_",
    "your-",
    "yourapi",
    "yourtoken",
    "yoursecret",
    "yourpass",
    "my_secret",
    "my-secret",
    "mysecret",
    "dummy",
    "replace",
    "insert",
    "todo",
    "xxxx",
    "****",
    "....",
    "####",
    "____",
    "----",
    "00000000",
    "put_your",
    "enter_your",
    "not-set",
    "not_set",
    "undefined",
    "foobar",
    "notreal",
    "not_real",
    "fixme",
    "lorem",
    "goes_here",
    "goes-here",
    "_here",
    "-here",
    "deadbeefdeadbeef",
];

/// Does the text only say that a secret belongs here?
pub(super) fn is_stand_in(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    STAND_INS.iter().any(|word| lower.contains(word))
        || is_repeated(&lower)
        || is_alphabet(&lower)
        || is_reference(text)
}

/// Every letter in order, once in small ones and once in capitals at most, and perhaps the digits.
fn is_alphabet(lower: &str) -> bool {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let rest = lower.replacen(letters, "", 2);
    rest.len() < lower.len()
        && ["", "0123456789", "1234567890"].contains(&rest.trim_end_matches(['+', '/', '=', '-', '_']))
}

/// One character or a few, again and again.
fn is_repeated(lower: &str) -> bool {
    let mut run = 1;
    let bytes = lower.as_bytes();
    for pair in bytes.windows(2) {
        run = if pair[0] == pair[1] { run + 1 } else { 1 };
        if run >= 7 && run * 5 >= bytes.len() {
            return true;
        }
    }
    bytes.len() >= 8 && entropy(lower) < 1.6
}

/// A variable, a template or a call, whose value stands elsewhere.
pub(super) fn is_reference(text: &str) -> bool {
    let opens = [
        "$",
        "{{",
        "${",
        "#{",
        "%{",
        "%(",
        "<",
        "@{",
        "{",
        "[",
        "(",
        "&",
        "*",
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "self.",
        "this.",
        "config.",
        "settings.",
        "secrets.",
        "vars.",
        "var.",
        "data.",
        "local.",
        "System.",
        "args.",
        "request.",
        "req.",
        "options.",
    ];
    opens.iter().any(|open| text.starts_with(open))
        || ["${", "{{", "$(", "}}", "()"].iter().any(|part| text.contains(part))
        || (text.starts_with('%') && text.ends_with('%'))
        || (text.starts_with("__") && text.ends_with("__"))
}

/// Is it a UUID?
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_like_words_and_chance_does_not() {
        for words in
            ["internationalization", "getUserByIdentifier", "authentication_provider", "customerAccountService"]
        {
            assert!(wordiness(words) > 0.7, "{words} {}", wordiness(words));
        }
        for chance in
            ["zqxjkvbwpfgm", "HJqxZwKvTbRdGmXf", "kd8j2h4jf9s8mf6l4k9j", "XqJzWvKbPx", "agQUGr18qeeOupZv1gDSRStK"]
        {
            assert!(wordiness(chance) < 0.5, "{chance} {}", wordiness(chance));
        }
    }

    #[test]
    fn stand_ins_are_known() {
        for stand_in in [
            "changeme",
            "YOUR_API_KEY",
            "xxxxxxxx",
            "<token>",
            "${TOKEN}",
            "$TOKEN",
            "{{ token }}",
            "****",
            "aaaaaaaaaa",
            "%TOKEN%",
            "my-secret-value",
            "ababababab",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        ] {
            assert!(is_stand_in(stand_in), "{stand_in}");
        }
        for value in ["hunter2!", "k9J2mQ8rT4", "s3cr3t/pa55"] {
            assert!(!is_stand_in(value), "{value}");
        }
    }

    #[test]
    fn chance_has_more_bits_than_repetition() {
        assert!(entropy("aaaaaaaa") < 0.01 && entropy("abababab") < 1.01 && entropy("0123456789abcdef") > 3.99);
        assert!(entropy("") < 0.01);
    }
}
