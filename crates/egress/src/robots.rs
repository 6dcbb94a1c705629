//! What a server wants of programs that fetch pages: `robots.txt`, read as RFC 9309 says.

use std::time::Duration;

/// How much of the file is read.
pub(crate) const MAX_FILE: u64 = 500 * 1024;
/// Rules that are kept; a file with more has said enough.
const MAX_RULES: usize = 5_000;
/// The longest pattern that is kept.
const MAX_PATTERN: usize = 2_048;
/// The longest pause a server gets.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// What a server wants of one program.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Robots {
    rules: Vec<Rule>,
    /// The pause it wants between two fetches.
    pub(crate) delay: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
struct Rule {
    pattern: String,
    allows: bool,
}

impl Robots {
    /// What the file says to the program of this name: the groups for it, or else the groups for everybody.
    pub(crate) fn read(file: &[u8], program: &str) -> Self {
        let text = String::from_utf8_lossy(file);
        let groups = read_groups(text.trim_start_matches('\u{feff}'));
        let named = |group: &&Group| group.programs.iter().any(|own| own.eq_ignore_ascii_case(program));
        let everybody = |group: &&Group| group.programs.iter().any(|own| own == "*");
        let is_named = groups.iter().any(|group| named(&group));
        let mut robots = Self::default();
        for group in groups.iter().filter(|group| if is_named { named(group) } else { everybody(group) }) {
            robots.rules.extend(group.rules.iter().cloned());
            robots.delay = robots.delay.max(group.delay);
        }
        robots.rules.truncate(MAX_RULES);
        robots
    }

    /// How much room it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.rules.iter().map(|rule| size_of::<Rule>() + rule.pattern.len()).sum()
    }

    /// May this path, with its query, be fetched? The longest rule that fits says so; of two that are as long, the one
    /// that allows.
    pub(crate) fn allows(&self, path_and_query: &str) -> bool {
        let path = plain(path_and_query);
        let fitting = self.rules.iter().filter(|rule| rule.fits(&path));
        path == "/robots.txt"
            || fitting.max_by_key(|rule| (rule.pattern.len(), rule.allows)).is_none_or(|rule| rule.allows)
    }
}

impl Rule {
    /// A pattern fits the beginning of a path. `*` stands for anything, and `$` at the end for the end of the path.
    fn fits(&self, path: &str) -> bool {
        let (pattern, to_the_end) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (self.pattern.as_str(), false),
        };
        let mut pieces = pattern.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| path.strip_prefix(first)) else { return false };
        let Some(last) = pieces.next_back() else { return !to_the_end || rest.is_empty() };
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        if to_the_end { rest.ends_with(last) } else { rest.contains(last) }
    }
}

/// Lines that speak to the same programs.
#[derive(Debug, Default)]
struct Group {
    programs: Vec<String>,
    rules: Vec<Rule>,
    delay: Option<Duration>,
    /// A line about something else than programs has come.
    has_begun: bool,
}

fn read_groups(text: &str) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (key, value) in text.split(['\r', '\n']).filter_map(read_line) {
        if key == "user-agent" {
            // Several programs in a row share what follows.
            if groups.last().is_none_or(|group| group.has_begun) {
                groups.push(Group::default());
            }
            if let Some(group) = groups.last_mut() {
                group.programs.push(program_token(value).to_owned());
            }
            continue;
        }
        let Some(group) = groups.last_mut() else { continue };
        match key.as_str() {
            "allow" | "disallow" => {
                group.has_begun = true;
                let pattern = plain(value);
                if !pattern.is_empty() && pattern.len() <= MAX_PATTERN && group.rules.len() < MAX_RULES {
                    group.rules.push(Rule { pattern, allows: key == "allow" });
                }
            }
            "crawl-delay" => {
                group.has_begun = true;
                group.delay = group.delay.max(read_delay(value));
            }
            // Site maps and the like belong to no group.
            _ => {}
        }
    }
    groups
}

fn read_line(line: &str) -> Option<(String, &str)> {
    let said = line.split_once('#').map_or(line, |(said, _)| said);
    let (key, value) = said.split_once(':')?;
    Some((key.trim().to_ascii_lowercase(), value.trim()))
}

/// The name of a program is letters, `_` and `-`; what stands behind it (a version) is not part of it.
pub(crate) fn program_token(text: &str) -> &str {
    if text.starts_with('*') {
        return "*";
    }
    let end = text.find(|c: char| !(c.is_ascii_alphabetic() || c == '_' || c == '-'));
    &text[..end.unwrap_or(text.len())]
}

fn read_delay(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|delay| delay.min(MAX_DELAY))
}

/// One spelling for paths and patterns: what needs no escape has none, everything else has one, in capitals.
fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = String::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        let decoded = escaped
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (byte, is_escape) = decoded.map_or((*byte, false), |byte| (byte, true));
        at += if is_escape { 3 } else { 1 };
        let needs_none = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if needs_none || !is_escape && byte.is_ascii() {
            plain.push(char::from(byte));
        } else {
            plain.push_str(&format!("%{byte:02X}"));
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(file: &str, allowed: &[&str], refused: &[&str]) {
        let robots = Robots::read(file.as_bytes(), "Toolgate");
        for path in allowed {
            assert!(robots.allows(path), "{file:?} {path}");
        }
        for path in refused {
            assert!(!robots.allows(path), "{file:?} {path}");
        }
    }

    #[test]
    fn nothing_said_is_everything_allowed() {
        check("", &["/", "/a?b"], &[]);
        check("User-agent: *\nDisallow:", &["/", "/a"], &[]);
        check("Disallow: /", &["/"], &[]);
        check("this is no file\n\0\0: x\n:::", &["/"], &[]);
    }

    #[test]
    fn the_longest_rule_that_fits_counts() {
        check("User-agent: *\nDisallow: /", &["/robots.txt"], &["/", "/a"]);
        check("User-agent: *\nDisallow: /a\nAllow: /a/b", &["/", "/b", "/a/b", "/a/bc"], &["/a", "/ab", "/a/c"]);
        check("User-agent: *\nAllow: /a\nDisallow: /a", &["/a"], &[]);
        check("User-agent: *\nDisallow: /a?x", &["/a", "/a?y"], &["/a?x", "/a?xy"]);
    }

    #[test]
    fn stars_and_ends() {
        check("User-agent: *\nDisallow: /*.php", &["/", "/php"], &["/a.php", "/a.php?x", "/b/c.phpx"]);
        check("User-agent: *\nDisallow: /*.php$", &["/a.phpx", "/a.php?x"], &["/a.php", "/.php"]);
        check("User-agent: *\nDisallow: /a$", &["/ab", "/a/"], &["/a"]);
        check("User-agent: *\nDisallow: /a*b*c", &["/ab", "/acb"], &["/abc", "/axxbyycd"]);
        check("User-agent: *\nDisallow: *", &[], &["/", "/a"]);
        check("User-agent: *\nDisallow: /a*a$", &["/a"], &["/aa"]);
        check("User-agent: *\nDisallow: /*/", &["/a"], &["/a/", "//"]);
    }

    #[test]
    fn the_group_for_this_program_comes_before_the_one_for_everybody() {
        let file = "User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /all\n\n\
                    user-AGENT: x\nUser-Agent: TOOLGATE/2.0 (nice)\nDisallow: /one\nSitemap: /map\nDisallow: /two\n\n\
                    User-agent: toolgate\nDisallow: /three";
        check(file, &["/", "/all"], &["/one", "/two", "/three"]);
        assert!(Robots::read(file.as_bytes(), "somebody").allows("/one"));
        assert!(!Robots::read(file.as_bytes(), "somebody").allows("/all"));
        check("User-agent: toolgat\nDisallow: /\nUser-agent: toolgates\nDisallow: /", &["/"], &[]);
    }

    #[test]
    fn comments_ends_of_lines_and_marks_do_not_matter() {
        check(
            "\u{feff}User-agent: * # all\r\n# Disallow: /x\r\nDisallow : /a # not this\rDisallow: /b",
            &["/x"],
            &["/a", "/b"],
        );
    }

    #[test]
    fn escapes_have_one_spelling() {
        check("User-agent: *\nDisallow: /%7efoo/b%61r", &["/"], &["/~foo/bar", "/%7Efoo/bar"]);
        check("User-agent: *\nDisallow: /a%2fb", &["/a/b"], &["/a%2Fb", "/a%2fb"]);
        check("User-agent: *\nDisallow: /\u{e4}", &["/a"], &["/%C3%A4", "/%c3%a4x"]);
        check("User-agent: *\nDisallow: /%zz%", &["/"], &["/%zz%"]);
    }

    #[test]
    fn pauses_are_read_and_bounded() {
        let delay = |value: &str| Robots::read(format!("User-agent: *\nCrawl-delay: {value}").as_bytes(), "x").delay;
        assert_eq!(delay("2"), Some(Duration::from_secs(2)));
        assert_eq!(delay("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(delay("3600"), Some(MAX_DELAY));
        for bad in ["", "-1", "NaN", "inf", "soon", "1e400"] {
            assert_eq!(delay(bad), None, "{bad}");
        }
    }

    #[test]
    fn rules_have_an_end() {
        let file = format!("User-agent: *\n{}", "Disallow: /a\n".repeat(2 * MAX_RULES));
        assert_eq!(Robots::read(file.as_bytes(), "x").rules.len(), MAX_RULES);
        check(&format!("User-agent: *\nDisallow: /{}", "a".repeat(MAX_PATTERN)), &["/"], &[]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(file in proptest::collection::vec(any::<u8>(), 0..400), path in "\\PC{0,60}") {
            let _ = Robots::read(&file, "toolgate").allows(&path);
        }

        #[test]
        fn a_pattern_without_signs_fits_what_begins_with_it(pattern in "/[a-z%*]{0,8}", path in "/[a-z%]{0,12}") {
            let robots = Robots::read(format!("User-agent: *\nDisallow: {pattern}").as_bytes(), "x");
            if !pattern.contains('*') {
                prop_assert_eq!(robots.allows(&path), !plain(&path).starts_with(&plain(&pattern)));
            }
        }
    }
}
