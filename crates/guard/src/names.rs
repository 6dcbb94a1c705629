//! Names of tools: which are admitted, and which two would be taken for one another.
//!
//! A model picks a tool by its name and a person approves it by its name, so a second name that looks like the first
//! is an attack, not a coincidence. Our own registry admits only lower-case ASCII; the comparison takes any text,
//! because names also come from elsewhere.

use std::fmt;

use toolgate_contract::{Fault, MAX_NAME};
use unicode_normalization::UnicodeNormalization as _;

/// May a tool have this name?
pub fn admit_name(name: &str) -> Result<(), Fault> {
    let is_admitted = name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if is_admitted {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
    Err(Fault::failed(
        "bad_name",
        format!("`{shown}` is not a name for a tool"),
        format!("Use a lower-case letter, then lower-case letters, digits and `_`; at most {MAX_NAME} characters."),
    ))
}

/// Why two names would be taken for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They are the same text.
    Same,
    /// They are two encodings of the same text.
    Encoding,
    /// They differ only in case.
    Case,
    /// They differ only in characters nobody sees.
    Invisible,
    /// They look alike.
    Lookalike,
}

impl Why {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Encoding => "encoding",
            Self::Case => "case",
            Self::Invisible => "invisible",
            Self::Lookalike => "lookalike",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "they are the same",
            Self::Encoding => "they are two encodings of the same text",
            Self::Case => "they differ only in case",
            Self::Invisible => "they differ only in invisible characters",
            Self::Lookalike => "they look alike",
        })
    }
}

/// Would one name be taken for the other? The answer is the plainest reason that holds.
pub fn collide(a: &str, b: &str) -> Option<Why> {
    let same = |key: fn(&str) -> String| key(a) == key(b);
    if a == b {
        Some(Why::Same)
    } else if same(|s| s.nfkc().collect()) {
        Some(Why::Encoding)
    } else if same(fold) {
        Some(Why::Case)
    } else if same(|s| fold(&visible(s))) {
        Some(Why::Invisible)
    } else if same(skeleton) {
        Some(Why::Lookalike)
    } else {
        None
    }
}

/// Why two names that nobody would take for one another could still be mixed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// They are spelt with other separators or capitals: `read_file`, `readFile`, `read-file`.
    Separators,
    /// One letter is another, is missing, or has changed places with its neighbour.
    OneLetter,
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Separators => "they differ only in separators or capitals",
            Self::OneLetter => "they differ in one letter",
        })
    }
}

/// A name made ready to be compared with many others: what is costly about that is done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    text: String,
    skeleton: String,
    letters: Vec<char>,
}

impl Name {
    /// Makes it ready.
    pub fn of(text: &str) -> Self {
        let letters = fold(text).chars().filter(|c| c.is_alphanumeric()).collect();
        Self { text: text.to_owned(), skeleton: skeleton(text), letters }
    }

    /// As [`collide`], for names of ASCII characters; of others only those that look alike are sure to be found.
    pub fn collide(&self, other: &Self) -> Option<Why> {
        (self.skeleton == other.skeleton).then(|| collide(&self.text, &other.text)).flatten()
    }

    /// Could somebody mix these two up? Nothing is said about names that are taken for one another.
    pub fn near(&self, other: &Self) -> Option<Near> {
        let (a, b) = (&self.letters, &other.letters);
        if a.is_empty() || b.is_empty() || self.collide(other).is_some() {
            return None;
        }
        if a == b {
            return Some(Near::Separators);
        }
        is_one_edit(a, b).then_some(Near::OneLetter)
    }
}

/// One letter added, left out or exchanged, or two neighbours that changed places.
fn is_one_edit(a: &[char], b: &[char]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let head = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (&short[head..], &long[head..]);
    match long.len() - short.len() {
        0 => {
            short.get(1..) == long.get(1..)
                || matches!((short, long), ([a, b, rest @ ..], [c, d, other @ ..]) if a == d && b == c && rest == other)
        }
        1 => short == &long[1..],
        _ => false,
    }
}

/// What a name looks like: two names with the same skeleton are lookalikes.
///
/// The confusables of UTS #39, taken over either case of a letter and folded, so that a registry can keep one key
/// per name. Among admitted names, equal skeletons are the same as [`collide`].
pub fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in visible(name).nfkc().flat_map(|c| letters(c).into_iter()) {
        match c {
            // A capital i is drawn as a lower-case l, and names do not differ by case: all of these are one shape.
            'i' | 'l' | '1' | '|' => out.push('l'),
            'm' => out.push_str("rn"),
            // Spelled out rather than joined, so that `vvv` has one form.
            'w' => out.push_str("vv"),
            // A dot over a letter that has one is not seen.
            '\u{307}' if out.ends_with(['l', 'j']) => {}
            // 5 and s, 2 and z, cl and d are left apart: every font that tools are shown in tells them apart, and
            // names that end in a digit are common.
            c => out.push(c),
        }
    }
    out.nfd().collect()
}

/// The letters that a character is drawn like, in lower case. The table of UTS #39 knows some letters only in one
/// case (`ƅ` is not in it, `Ƅ` is a b), so a character that is drawn like ASCII in either case counts as that.
fn letters(c: char) -> Vec<char> {
    if let Some((_, plain)) = SMALL_CAPITALS.iter().find(|(small, _)| *small == c) {
        return vec![*plain];
    }
    let drawn_like = |text: String| -> Vec<char> { unicode_security::skeleton(&text).flat_map(fold_char).collect() };
    let as_is = drawn_like(c.to_string());
    if as_is.iter().all(char::is_ascii) {
        return as_is;
    }
    let upper = drawn_like(c.to_uppercase().collect());
    if upper.iter().all(char::is_ascii) {
        return upper;
    }
    drawn_like(c.to_lowercase().collect())
}

/// Capitals drawn small are letters of their own, and UTS #39 keeps most of them apart from the plain ones.
const SMALL_CAPITALS: [(char, char); 24] = [
    ('ᴀ', 'a'),
    ('ʙ', 'b'),
    ('ᴄ', 'c'),
    ('ᴅ', 'd'),
    ('ᴇ', 'e'),
    ('ꜰ', 'f'),
    ('ɢ', 'g'),
    ('ʜ', 'h'),
    ('ɪ', 'i'),
    ('ᴊ', 'j'),
    ('ᴋ', 'k'),
    ('ʟ', 'l'),
    ('ᴍ', 'm'),
    ('ɴ', 'n'),
    ('ᴏ', 'o'),
    ('ᴘ', 'p'),
    ('ʀ', 'r'),
    ('ꜱ', 's'),
    ('ᴛ', 't'),
    ('ᴜ', 'u'),
    ('ᴠ', 'v'),
    ('ᴡ', 'w'),
    ('ʏ', 'y'),
    ('ᴢ', 'z'),
];

/// The text in one case and one encoding. Through upper case first, because that is how `ß` meets `ss`.
fn fold(text: &str) -> String {
    text.nfkc().flat_map(fold_char).nfkc().collect()
}

fn fold_char(c: char) -> impl Iterator<Item = char> {
    c.to_uppercase().flat_map(char::to_lowercase)
}

/// The text without what nobody sees: ignorable code points, controls, annotation marks and the blank Braille cell.
fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_invisible(*c)).collect()
}

pub(crate) fn is_invisible(c: char) -> bool {
    // The skeleton of an ignorable code point is empty; the crate offers its table no other way.
    c.is_control()
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{2800}')
        || unicode_security::skeleton(c.encode_utf8(&mut [0; 4])).next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(a: &str, b: &str, expected: Option<Why>) {
        assert_eq!(collide(a, b), expected, "{a:?} and {b:?}");
        assert_eq!(collide(b, a), expected, "{b:?} and {a:?}");
    }

    #[test]
    fn the_same_text() {
        check("read", "read", Some(Why::Same));
        check("naïve", "nai\u{308}ve", Some(Why::Encoding));
        check("ｌｓ", "ls", Some(Why::Encoding));
        check("ﬂow", "flow", Some(Why::Encoding));
        check("𝗀𝗋𝖾𝗉", "grep", Some(Why::Encoding));
        check("Write", "wRITE", Some(Why::Case));
        check("größe", "GRÖSSE", Some(Why::Case));
    }

    #[test]
    fn what_nobody_sees_does_not_make_another_name() {
        for hidden in ["\u{200b}", "\u{200d}", "\u{ad}", "\u{2060}", "\u{feff}", "\u{202e}", "\u{fe0f}", "\u{e0041}"] {
            check("edit", &format!("ed{hidden}it"), Some(Why::Invisible));
        }
        check("edit", "edit\u{8}", Some(Why::Invisible));
        check("edit", "e\u{2800}dit", Some(Why::Invisible));
        check("edit", "e\u{fff9}dit", Some(Why::Invisible));
        check("edit", "E\u{200b}DIT", Some(Why::Invisible));
    }

    #[test]
    fn lookalikes_from_other_scripts() {
        check("grep", "grер", Some(Why::Lookalike));
        check("echo", "есhо", Some(Why::Lookalike));
        check("find", "fіnd", Some(Why::Lookalike));
        check("delete", "dеlеtе", Some(Why::Lookalike));
        check("copy", "сору", Some(Why::Lookalike));
        check("ΗΕΑLΤΗ", "health", Some(Why::Lookalike));
        check("Ваѕh", "bash", Some(Why::Lookalike));
        check("ваsh", "bash", Some(Why::Lookalike));
        check("ƅash", "bash", Some(Why::Lookalike));
        check("ᴡʀɪᴛᴇ", "write", Some(Why::Lookalike));
        check("ɡit", "git", Some(Why::Lookalike));
        check("l\u{131}st", "list", Some(Why::Case));
        check("li\u{307}st", "list", Some(Why::Lookalike));
    }

    #[test]
    fn lookalikes_within_ascii() {
        check("ls", "1s", Some(Why::Lookalike));
        check("Iist", "list", Some(Why::Lookalike));
        check("wr1te", "write", Some(Why::Lookalike));
        check("ech0", "echo", Some(Why::Lookalike));
        check("vvrite", "write", Some(Why::Lookalike));
        check("vvv", "wv", Some(Why::Lookalike));
        check("wv", "vw", Some(Why::Lookalike));
        check("rnove", "move", Some(Why::Lookalike));
        check("MOVE", "RNOVE", Some(Why::Lookalike));
    }

    #[test]
    fn other_names_are_other_names() {
        check("read", "reed", None);
        check("write_file", "writefile", None);
        check("write_file", "write-file", None);
        check("grep", "egrep", None);
        check("resume", "résumé", None);
        check("step_2", "step_z", None);
        check("md5", "mds", None);
        check("clone", "done", None);
        check("大", "犬", None);
        check("読む", "書く", None);
        check("", "a", None);
    }

    #[test]
    fn names_that_could_be_mixed_up() {
        let check = |a: &str, b: &str, expected: Option<Near>| {
            assert_eq!(Name::of(a).near(&Name::of(b)), expected, "{a:?} and {b:?}");
            assert_eq!(Name::of(b).near(&Name::of(a)), expected, "{b:?} and {a:?}");
        };
        check("read_file", "readFile", Some(Near::Separators));
        check("read_file", "read-file", Some(Near::Separators));
        check("read.file", "readfile", Some(Near::Separators));
        check("forecast", "forecasts", Some(Near::OneLetter));
        check("forecast", "forcast", Some(Near::OneLetter));
        check("forecast", "forexast", Some(Near::OneLetter));
        check("forecast", "foercast", Some(Near::OneLetter));
        check("get_weather", "getwether", Some(Near::OneLetter));
        check("forecast", "foercats", None);
        check("forecast", "forecaster", None);
        check("read", "write", None);
        // These are taken for one another, which is worse.
        check("list", "1ist", None);
        check("read", "READ", None);
        check("read", "read", None);
        check("_", "__", None);
    }

    #[test]
    fn ordinary_names_of_tools_do_not_collide() {
        let names = [
            "bash",
            "calculator",
            "convert_temperature",
            "delete",
            "echo",
            "edit",
            "fetch_url",
            "find",
            "generate_password",
            "generate_uuid",
            "get_time",
            "git_clone",
            "git_diff",
            "git_log",
            "git_status",
            "grep",
            "hash_text",
            "json_format",
            "ls",
            "move",
            "read",
            "read_webpage",
            "recall_memory",
            "remember_memory",
            "search_history",
            "shell",
            "string_stats",
            "url_encode",
            "web_search",
            "write",
        ];
        for (i, a) in names.iter().enumerate() {
            assert_eq!(admit_name(a), Ok(()), "{a}");
            for b in &names[i + 1..] {
                check(a, b, None);
            }
        }
    }

    #[test]
    fn names_have_one_alphabet() {
        for good in ["a", "ls", "get_time", "sha256", &"a".repeat(64)] {
            assert_eq!(admit_name(good), Ok(()), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "_a", "1a", "Read", "read-file", "fs.read", "read file", "reаd", "é", "a\n", "a\0", &long] {
            assert_eq!(admit_name(bad).map_err(|fault| fault.code), Err("bad_name".into()), "{bad:?}");
        }
    }

    #[test]
    fn a_refused_name_is_shown_without_its_tricks() {
        assert_eq!(
            admit_name("ls\u{202e}\u{1b}[2J").unwrap_err().message,
            "`ls\\u{202e}\\u{1b}[2J` is not a name for a tool"
        );
    }

    proptest! {
        /// A registry may keep one key per name instead of comparing all pairs.
        #[test]
        fn among_admitted_names_the_skeleton_says_it_all(a in "[a-z][a-z0-9_]{0,5}", b in "[ilmnrvw1o0]{1,4}", c in "[ilmnrvw1o0]{1,4}") {
            let (b, c) = (format!("{a}{b}"), format!("{a}{c}"));
            prop_assert_eq!(collide(&b, &c).is_some(), skeleton(&b) == skeleton(&c));
        }

        #[test]
        fn a_name_that_is_ready_collides_like_any_other(a in "[A-Za-c01lI_.-]{1,4}", b in "[A-Za-c01lI_.-]{1,4}") {
            prop_assert_eq!(Name::of(&a).collide(&Name::of(&b)), collide(&a, &b));
        }

        #[test]
        fn no_text_makes_it_panic(a in any::<String>(), b in any::<String>()) {
            prop_assert_eq!(collide(&a, &b), collide(&b, &a));
            prop_assert_eq!(collide(&a, &a), Some(Why::Same));
        }
    }
}
