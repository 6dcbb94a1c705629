//! Patterns of a schema that some who check arguments would try for ever.
//!
//! Whoever goes back and tries again takes twice as long with every letter, if a loop can read the same text in two ways:
//! `(a+)+`, `(a|a)*`. So a pattern is read into its places, one for each letter or class, and into which place can follow
//! which; a loop is slow if two ways through it, that part somewhere, meet again over the same text. Nothing here is matched.

/// What is done at most to judge the patterns of one definition.
pub(super) const EFFORT: usize = 4_000_000;
/// How deep groups may nest, and how many places a pattern and a loop of it may have.
const DEEPEST: usize = 64;
const MOST_PLACES: usize = 4_096;
const MOST_IN_LOOP: usize = 512;
/// A repetition that is counted up to here is written out; what is counted further is a loop, unless it has one length.
const WRITTEN_OUT: usize = 8;
const LONGEST_WRITTEN_OUT: usize = 64;

/// Would somebody who goes back and tries again take for ever over this? A pattern that cannot be read is nobody's, and one
/// that takes too much to judge is taken for slow. What was done is taken from `effort`.
pub(super) fn is_slow(pattern: &str, effort: &mut usize) -> bool {
    let chars: Vec<char> = pattern.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, ahead: Vec::new() };
    let Some(whole) = reader.choice(0) else { return chars.iter().filter(|c| **c == '(').count() > DEEPEST };
    if reader.at < chars.len() {
        return false;
    }
    let ahead = std::mem::take(&mut reader.ahead);
    ahead.iter().chain([&whole]).any(|node| {
        let mut places = Places { letters: Vec::new(), next: Vec::new(), effort, is_slow: false };
        places.take(node);
        places.is_slow
    })
}

/// The characters a place takes: those of ASCII one by one, all others as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Letters {
    ascii: u128,
    others: bool,
}

impl Letters {
    const ALL: Self = Self { ascii: u128::MAX, others: true };
    const NONE: Self = Self { ascii: 0, others: false };

    fn of(is_in: impl Fn(char) -> bool, others: bool) -> Self {
        let ascii = (0..128_u8).filter(|byte| is_in(char::from(*byte))).fold(0, |bits, byte| bits | (1_u128 << byte));
        Self { ascii, others }
    }

    fn one(c: char) -> Self {
        Self::of(|other| other == c, !c.is_ascii())
    }

    fn range(from: char, to: char) -> Self {
        Self::of(|c| (from..=to).contains(&c), !to.is_ascii())
    }

    fn with(self, other: Self) -> Self {
        Self { ascii: self.ascii | other.ascii, others: self.others || other.others }
    }

    /// All but these. Of the others nobody knows which ones are meant.
    fn but(self) -> Self {
        Self { ascii: !self.ascii, others: true }
    }

    fn meets(self, other: Self) -> bool {
        self.ascii & other.ascii != 0 || (self.others && other.others)
    }

    /// `\d`, `\w` and their like; none for a letter that stands for no class.
    fn class(c: char) -> Option<Self> {
        let digits = Self::of(|c| c.is_ascii_digit(), false);
        let word = Self::of(|c| c.is_ascii_alphanumeric() || c == '_', false);
        let space = Self::of(|c| c.is_ascii_whitespace() || c == '\u{b}', true);
        match c {
            'd' => Some(digits),
            'w' => Some(word),
            's' => Some(space),
            'D' => Some(digits.but()),
            'W' => Some(word.but()),
            'S' => Some(space.but()),
            'p' => Some(Self::of(|c| c.is_ascii_alphabetic(), true)),
            'P' => Some(Self::ALL),
            _ => None,
        }
    }
}

/// A pattern that was read.
#[derive(Debug, Clone)]
enum Node {
    /// Nothing, or what takes no letter.
    Nothing,
    One(Letters),
    Row(Vec<Self>),
    Choice(Vec<Self>),
    Repeated {
        what: Box<Self>,
        least: usize,
        most: Option<usize>,
    },
}

impl Node {
    fn loops(&self) -> bool {
        match self {
            Self::Nothing | Self::One(_) => false,
            Self::Row(parts) | Self::Choice(parts) => parts.iter().any(Self::loops),
            Self::Repeated { what, most, .. } => most.is_none() || what.loops(),
        }
    }
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    /// What is only looked at ahead or behind.
    ahead: Vec<Node>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_there = text.chars().enumerate().all(|(n, c)| self.chars.get(self.at + n) == Some(&c));
        if is_there {
            self.at += text.chars().count();
        }
        is_there
    }

    fn choice(&mut self, depth: usize) -> Option<Node> {
        let mut parts = vec![self.row(depth)?];
        while self.takes("|") {
            parts.push(self.row(depth)?);
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { Node::Choice(parts) })
    }

    fn row(&mut self, depth: usize) -> Option<Node> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            self.at += 1;
            let one = self.one(c, depth)?;
            parts.push(self.repeated(one));
        }
        Some(Node::Row(parts))
    }

    fn one(&mut self, c: char, depth: usize) -> Option<Node> {
        match c {
            '(' => self.group(depth + 1),
            '[' => self.class().map(Node::One),
            '.' => Some(Node::One(Letters::one('\n').but())),
            '^' | '$' => Some(Node::Nothing),
            '\\' => self.escaped(),
            c => Some(Node::One(Letters::one(c))),
        }
    }

    fn group(&mut self, depth: usize) -> Option<Node> {
        if depth > DEEPEST {
            return None;
        }
        let looks = ["?=", "?!", "?<=", "?<!"].into_iter().any(|mark| self.takes(mark));
        if !looks && self.takes("?") {
            // `?:`, `?i:`, `?<name>`, `?P<name>`; `?i)` is a whole group.
            loop {
                match self.next()? {
                    ':' | '>' => break,
                    ')' => return Some(Node::Nothing),
                    _ => {}
                }
            }
        }
        let inside = self.choice(depth)?;
        if !self.takes(")") {
            return None;
        }
        if looks {
            self.ahead.push(inside);
            return Some(Node::Nothing);
        }
        Some(inside)
    }

    fn escaped(&mut self) -> Option<Node> {
        let c = self.next()?;
        Some(match (c, Letters::class(c)) {
            ('b' | 'B' | 'A' | 'z' | 'Z', _) => Node::Nothing,
            (_, Some(class)) => {
                self.skip_braces(c);
                Node::One(class)
            }
            // What a group has read before can be anything.
            ('1'..='9' | 'k', None) => Node::One(Letters::ALL),
            (c, None) => Node::One(self.letter(c)),
        })
    }

    /// `\p{L}` says in braces what it means.
    fn skip_braces(&mut self, c: char) {
        if matches!(c, 'p' | 'P') && self.takes("{") {
            while self.next().is_some_and(|c| c != '}') {}
        }
    }

    /// A letter that is written as an escape.
    fn letter(&mut self, c: char) -> Letters {
        let digits = match c {
            'n' => return Letters::one('\n'),
            't' => return Letters::one('\t'),
            'r' => return Letters::one('\r'),
            'x' => 2,
            'u' => 4,
            c => return Letters::one(c),
        };
        let text: String = self.chars.iter().skip(self.at).take(digits).collect();
        match u32::from_str_radix(&text, 16).ok().and_then(char::from_u32) {
            Some(c) => {
                self.at += digits;
                Letters::one(c)
            }
            None => Letters::ALL,
        }
    }

    fn class(&mut self) -> Option<Letters> {
        let is_but = self.takes("^");
        let (mut all, mut before, mut is_first) = (Letters::NONE, None, true);
        loop {
            let c = self.next()?;
            let (letters, plain) = match c {
                ']' if !is_first => return Some(if is_but { all.but() } else { all }),
                '\\' => {
                    let c = self.next()?;
                    match Letters::class(c) {
                        Some(class) => {
                            self.skip_braces(c);
                            (class, None)
                        }
                        None => (self.letter(c), None),
                    }
                }
                '-' if before.is_some() && self.peek().is_some_and(|c| c != ']' && c != '\\') => {
                    let to = self.next()?;
                    (Letters::range(before.unwrap_or(to), to), None)
                }
                c => (Letters::one(c), Some(c)),
            };
            (all, before, is_first) = (all.with(letters), plain, false);
        }
    }

    fn repeated(&mut self, mut what: Node) -> Node {
        while let Some((least, most)) = self.times() {
            // Lazy or greedy, it is the same texts.
            if !self.takes("?") {
                self.takes("+");
            }
            what = Node::Repeated { what: Box::new(what), least, most };
        }
        what
    }

    fn times(&mut self) -> Option<(usize, Option<usize>)> {
        let counted = |mark: char| match mark {
            '*' => Some((0, None)),
            '+' => Some((1, None)),
            '?' => Some((0, Some(1))),
            _ => None,
        };
        if let Some(times) = self.peek().and_then(counted) {
            self.at += 1;
            return Some(times);
        }
        let rest = &self.chars[self.at..];
        let end = rest.iter().position(|c| *c == '}').filter(|_| rest[0] == '{')?;
        let text: String = rest[1..end].iter().collect();
        let number = |text: &str| text.parse::<usize>().ok();
        let times = match text.split_once(',') {
            None => number(&text).map(|times| (times, Some(times))),
            Some((least, "")) => number(least).map(|least| (least, None)),
            Some((least, most)) => number(least).zip(number(most)).map(|(least, most)| (least, Some(most))),
        }?;
        self.at += end + 1;
        Some(times)
    }
}

/// Which places there are, and which follow which.
struct Places<'a> {
    letters: Vec<Letters>,
    next: Vec<Vec<usize>>,
    effort: &'a mut usize,
    is_slow: bool,
}

/// Where a part of a pattern begins and ends, and whether it can be nothing.
struct Ends {
    first: Vec<usize>,
    last: Vec<usize>,
    is_optional: bool,
}

impl Ends {
    const NOTHING: Self = Self { first: Vec::new(), last: Vec::new(), is_optional: true };
}

impl Places<'_> {
    fn spend(&mut self, steps: usize) {
        *self.effort = self.effort.saturating_sub(steps);
        self.is_slow |= *self.effort == 0;
    }

    fn take(&mut self, node: &Node) -> Ends {
        if self.is_slow || self.letters.len() > MOST_PLACES {
            self.is_slow = true;
            return Ends::NOTHING;
        }
        match node {
            Node::Nothing => Ends::NOTHING,
            Node::One(letters) => {
                let place = self.letters.len();
                self.letters.push(*letters);
                self.next.push(Vec::new());
                Ends { first: vec![place], last: vec![place], is_optional: false }
            }
            Node::Row(parts) => parts.iter().fold(Ends::NOTHING, |before, part| {
                let after = self.take(part);
                self.join(before, after)
            }),
            Node::Choice(parts) => {
                let none = Ends { is_optional: false, ..Ends::NOTHING };
                parts.iter().fold(none, |mut all, part| {
                    let one = self.take(part);
                    all.first.extend(one.first);
                    all.last.extend(one.last);
                    Ends { is_optional: all.is_optional || one.is_optional, ..all }
                })
            }
            Node::Repeated { what, least, most } => self.repeat(what, *least, *most),
        }
    }

    fn join(&mut self, before: Ends, after: Ends) -> Ends {
        self.spend(before.last.len() * after.first.len());
        for place in &before.last {
            self.next[*place].extend(&after.first);
        }
        let mut ends = Ends { is_optional: before.is_optional && after.is_optional, ..Ends::NOTHING };
        ends.first.extend(&before.first);
        if before.is_optional {
            ends.first.extend(&after.first);
        }
        ends.last.extend(&after.last);
        if after.is_optional {
            ends.last.extend(&before.last);
        }
        ends
    }

    fn repeat(&mut self, what: &Node, least: usize, most: Option<usize>) -> Ends {
        let written_out = match most {
            // Counted ten times, a loop takes the tenth power.
            Some(most) if most > WRITTEN_OUT && what.loops() => None,
            Some(most) if most <= WRITTEN_OUT || (least == most && most <= LONGEST_WRITTEN_OUT) => Some(most),
            // So often is once, for who looks for two ways to read it.
            Some(most) if least == most => return self.take(what),
            _ => None,
        };
        let Some(times) = written_out else { return self.round(what, least == 0) };
        // From behind: one more is possible only where there was one before it.
        (0..times).rev().fold(Ends::NOTHING, |after, time| {
            let one = self.take(what);
            let all = self.join(one, after);
            Ends { is_optional: all.is_optional || time >= least, ..all }
        })
    }

    /// A loop: what ends it can be followed by what begins it.
    fn round(&mut self, what: &Node, is_optional: bool) -> Ends {
        let from = self.letters.len();
        let ends = self.take(what);
        for place in &ends.last {
            self.spend((self.next[*place].len() + ends.first.len()) * ends.first.len());
            if self.is_slow {
                return ends;
            }
            for first in &ends.first {
                // There is a way from one to the other already: two ways to read the same.
                self.is_slow |= self.next[*place].contains(first);
                self.next[*place].push(*first);
            }
        }
        self.is_slow |= self.parts_and_meets(from);
        Ends { is_optional: is_optional || ends.is_optional, ..ends }
    }

    /// Do two ways through the loop of these places part, and meet again over the same text?
    fn parts_and_meets(&mut self, from: usize) -> bool {
        let many = self.letters.len() - from;
        if many > MOST_IN_LOOP {
            return true;
        }
        let mut seen = vec![false; many * many];
        let mut left: Vec<(usize, usize)> = (from..self.letters.len()).map(|place| (place, place)).collect();
        while let Some((one, other)) = left.pop() {
            self.spend(self.next[one].len() * self.next[other].len() + 1);
            if self.is_slow {
                return true;
            }
            for a in &self.next[one] {
                for b in &self.next[other] {
                    if !self.letters[*a].meets(self.letters[*b]) || (a == b && one == other) {
                        continue;
                    }
                    if a == b {
                        return true;
                    }
                    let pair = (*a.min(b) - from) * many + (*a.max(b) - from);
                    if !std::mem::replace(&mut seen[pair], true) {
                        left.push((*a.min(b), *a.max(b)));
                    }
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(pattern: &str) -> bool {
        let mut effort = EFFORT;
        is_slow(pattern, &mut effort)
    }

    #[track_caller]
    fn check(patterns: &[&str], expected: bool) {
        for pattern in patterns {
            assert_eq!(judge(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_loop_that_reads_the_same_in_two_ways_is_slow() {
        check(&["^(a+)+$", "(a|a)*b", "(.*a){20}", "(a*)*", "(a?b?)*c", "^(\\w+\\s?)+$", "([a-z]{1,4})*!"], true);
        check(
            &["(?:x+y?)+$", "(?=(b+)+c)a", "((ab)*|(a|b)*)*x", "^(?i:(z+))+$", "(\\d+|[0-9a-f]+)*;", "(\\u0061+)+"],
            true,
        );
        check(&["([a-z]{2,40}){2,}", "(a+?)+b", "(\\s*,?\\s*)*"], true);
    }

    #[test]
    fn what_people_write_is_not() {
        check(
            &["", "^[a-z0-9]+(-[a-z0-9]+)*$", "^([a-z0-9-]+\\.)+[a-z]{2,}$", "^([0-9a-f]{2})+$", "^.{1,5000}$"],
            false,
        );
        check(
            &["^[^\\s@]+@[^\\s@]+\\.[^\\s@]+$", "^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?Z?)?$"],
            false,
        );
        check(
            &["^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", "^(([01]?\\d\\d?|2[0-4]\\d|25[0-5])\\.){3}\\d+$"],
            false,
        );
        check(
            &["^([0-9a-zA-Z+/]{4})*(([0-9a-zA-Z+/]{2}==)|([0-9a-zA-Z+/]{3}=))?$", "^(/[^/]+)+/?$", "^#[0-9a-f]{3,8}$"],
            false,
        );
        check(
            &[
                "^(0|[1-9]\\d*)(\\.(0|[1-9]\\d*|\\d*[a-z-][0-9a-z-]*))*$",
                "^(?!\\.)(?!.*\\.\\.)[\\w.]*@(\\w[\\w-]*\\.)+[a-z]+$",
            ],
            false,
        );
        check(
            &[
                "^([a-z]+=[^&]*&?)$",
                "\"([^\"\\\\]|\\\\.)*\"",
                "^(\\p{L}|\\d|_)+$",
                "^(red|green|blue)(,(red|green|blue))*$",
            ],
            false,
        );
        // What is no pattern at all.
        check(&["(a", "[a", "a)", "a{", "\\", "(?<"], false);
    }

    #[test]
    fn what_takes_too_much_to_judge_is_taken_for_slow() {
        let wide = format!("({})*", (100..200).map(|n| format!("{n}x")).collect::<Vec<_>>().join("|"));
        assert!(is_slow(&wide, &mut 1_000));
        assert!(!judge(&wide));
        assert!(judge(&format!("{}a{}", "(".repeat(100), ")".repeat(100))));
        assert!(judge(&"[a-z]{1,8}".repeat(800)));
    }
}
