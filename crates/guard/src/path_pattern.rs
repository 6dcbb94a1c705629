//! Which files a rule means: patterns over paths, and paths by their words alone.
//!
//! `*` and `?` stay within a name, `**` crosses directories. A pattern without a slash is held against every name on the
//! way, one with a slash against the whole path. What is below something that is meant is meant too, so `conf/prod` and
//! `conf/prod/**` are the same. Upper and lower case count as the same: on some filesystems they are.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use regex::bytes::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

/// The longest pattern, in bytes.
const LONGEST: usize = 512;

/// How large a pattern may become once it is compiled.
const LARGEST: usize = 1024 * 1024;

/// A pattern over paths.
#[derive(Debug, Clone)]
pub struct PathPattern {
    text: String,
    regex: Regex,
    /// The names before the first that stands for others, where the pattern is about the whole path.
    beginning: PathBuf,
    is_literal: bool,
}

impl PathPattern {
    /// What this text spells.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| Err(why.to_owned());
        let path = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
        // The slash of `a/**` counts: it is about the `a` of the workspace, not about any.
        let (path, is_whole) = match path.strip_suffix("/**") {
            Some(path) => (path, true),
            None => (path, path.contains('/')),
        };
        if path.is_empty() || text.len() > LONGEST {
            return bad("it is empty or too long");
        }
        if path.starts_with('/') || path.starts_with('~') {
            return bad("it must be relative to the workspace, or the name of a file alone");
        }
        if path.contains(['[', ']', '{', '}', '!', '\\', '\0']) {
            return bad("only `*`, `?` and `**` stand for something else");
        }
        let parts: Vec<&str> = path.split('/').collect();
        if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
            return bad("it has an empty name, `.` or `..` in it");
        }
        if parts.iter().any(|part| part.contains("**") && *part != "**") {
            return bad("`**` stands for whole directories and is written by itself");
        }
        if parts.iter().all(|part| part.bytes().all(|b| b == b'*')) {
            return bad("it would mean every file there is");
        }
        let mut regex = String::from(if is_whole { "^" } else { "^(?:.*/)?" });
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            if *part == "**" {
                regex.push_str(if is_last { ".*" } else { "(?:.*/)?" });
                continue;
            }
            for c in part.chars() {
                match c {
                    '*' => regex.push_str("[^/]*"),
                    '?' => regex.push_str("[^/]"),
                    c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
                }
            }
            if !is_last {
                regex.push('/');
            }
        }
        regex.push_str("(?:/.*)?$");
        let regex = RegexBuilder::new(&regex)
            .unicode(false)
            .case_insensitive(true)
            .dot_matches_new_line(true)
            .size_limit(LARGEST)
            .dfa_size_limit(LARGEST)
            .build()
            .map_err(|_| "it is too large".to_owned())?;
        let is_plain = |part: &&&str| is_whole && !part.contains(['*', '?']);
        let beginning: PathBuf = parts.iter().take_while(is_plain).collect();
        let is_literal = parts.iter().all(|part| is_plain(&part));
        Ok(Self { text: text.to_owned(), regex, beginning, is_literal })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The one path it means, with what is below; none if there could be several.
    pub fn literal(&self) -> Option<&Path> {
        self.is_literal.then_some(&self.beginning)
    }

    /// The directories it names on the way to what it means, the first of them first.
    pub fn on_the_way(&self) -> Vec<&Path> {
        let steps = self.beginning.ancestors().skip(usize::from(self.is_literal));
        let mut steps: Vec<&Path> = steps.filter(|step| !step.as_os_str().is_empty()).collect();
        steps.reverse();
        steps
    }

    /// Is this path meant, or something it lies below? It is relative, and its dots are resolved.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.regex.is_match(path)
    }
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl Serialize for PathPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where a name leads from a directory, by its words alone.
pub fn whole(directory: &Path, name: &str) -> PathBuf {
    let mut path = directory.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::RootDir => path = PathBuf::from("/"),
            Component::ParentDir => _ = path.pop(),
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// How a path is spelt from each of the directories that hold it; from the top where none does.
pub fn spellings<'p>(path: &'p Path, roots: &[PathBuf]) -> Vec<&'p Path> {
    let mut spelt: Vec<&Path> = roots.iter().filter_map(|root| path.strip_prefix(root).ok()).collect();
    if spelt.is_empty() {
        spelt.push(path.strip_prefix("/").unwrap_or(path));
    }
    spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let parsed = PathPattern::parse(pattern).unwrap();
        let matches = |path: &&str| parsed.matches(path.as_bytes());
        assert_eq!(yes.iter().copied().filter(|path| !matches(path)).collect::<Vec<_>>(), [""; 0], "{pattern} misses");
        assert_eq!(no.iter().copied().filter(|path| matches(path)).collect::<Vec<_>>(), [""; 0], "{pattern} means");
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_every_name_on_the_way() {
        check(".env", &[".env", "app/.env", ".ENV", ".env/x", "a/.env/b/c"], &[".envrc", "x.env", ".env.local", "env"]);
        check("*.pem", &["a.pem", "x/y.PEM", ".pem", "k.pem/x"], &["a.pemx", "pem", "a.pem.txt"]);
        check("id_?sa", &["id_rsa", "a/id_dsa"], &["id_sa", "id_rrsa", "id_/sa"]);
        check("secrets/", &["secrets", "secrets/a", "x/secrets/a/b"], &["secrets2", "xsecrets/a"]);
        check("a+b(c).d", &["a+b(c).d"], &["aab(c).d", "a+b(c)xd"]);
        check("приказ", &["приказ", "x/приказ/y"], &["приказы"]);
    }

    #[test]
    fn a_pattern_with_a_slash_is_about_the_whole_path() {
        check("conf/prod", &["conf/prod", "conf/prod/a", "CONF/Prod"], &["x/conf/prod", "conf/production", "conf"]);
        check("./conf/prod/**", &["conf/prod", "conf/prod/a/b"], &["conf", "x/conf/prod"]);
        check("**/.env.*", &[".env.local", "app/.env.local", "a/b/.env.x/y"], &[".env", "a/.envrc"]);
        check("a/**/key", &["a/key", "a/b/c/key", "a/key/x"], &["key", "b/a/key", "a/keys"]);
        check("src/*/x", &["src/a/x", "src/a/x/y"], &["src/x", "src/a/b/x"]);
        check("a/**", &["a", "a/b"], &["b/a", "ab"]);
        check("**/a/**", &["a", "x/a", "x/a/b"], &["ab", "x/ab"]);
    }

    #[test]
    fn what_a_pattern_spells_out_is_known() {
        let check = |pattern: &str, literal: Option<&str>, on_the_way: &[&str]| {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(parsed.literal(), literal.map(Path::new), "{pattern}");
            assert_eq!(parsed.on_the_way(), on_the_way.iter().map(Path::new).collect::<Vec<_>>(), "{pattern}");
        };
        check("./a/b/**", Some("a/b"), &["a"]);
        check("a/b/c/", Some("a/b/c"), &["a", "a/b"]);
        check("a/**", Some("a"), &[]);
        check("a/b/*.yml", None, &["a", "a/b"]);
        check("a/**/b", None, &["a"]);
        check("**/a/b", None, &[]);
        check(".env", None, &[]);
    }

    #[test]
    fn names_that_are_no_utf_8_or_have_line_breaks_match() {
        let any = PathPattern::parse("a*?").unwrap();
        assert!(any.matches(b"a\xff\xfe") && any.matches(b"x/a\nb\n") && !any.matches(b"a"));
    }

    #[test]
    fn what_cannot_be_meant_is_told_why() {
        for (pattern, why) in [
            ("", "it is empty or too long"),
            ("./", "it is empty or too long"),
            ("/etc/shadow", "it must be relative to the workspace, or the name of a file alone"),
            ("~/.ssh", "it must be relative to the workspace, or the name of a file alone"),
            ("a[0-9]", "only `*`, `?` and `**` stand for something else"),
            ("!a", "only `*`, `?` and `**` stand for something else"),
            ("{a,b}", "only `*`, `?` and `**` stand for something else"),
            ("a//b", "it has an empty name, `.` or `..` in it"),
            ("../a", "it has an empty name, `.` or `..` in it"),
            ("a/./b", "it has an empty name, `.` or `..` in it"),
            ("a**", "`**` stands for whole directories and is written by itself"),
            ("*", "it would mean every file there is"),
            ("**", "it would mean every file there is"),
            ("**/*", "it would mean every file there is"),
            (&"a".repeat(600), "it is empty or too long"),
        ] {
            assert_eq!(PathPattern::parse(pattern).map(|parsed| parsed.text), Err(why.to_owned()), "{pattern}");
        }
    }

    #[test]
    fn paths_are_resolved_by_their_words_and_spelt_from_every_root() {
        let at = |name: &str| whole(Path::new("/p/ws"), name).to_string_lossy().into_owned();
        assert_eq!(
            [at("a/../.env"), at("./x//y"), at("/etc/x"), at("../b"), at("../../../..")],
            ["/p/ws/.env", "/p/ws/x/y", "/etc/x", "/p/b", "/"]
        );
        let roots = [PathBuf::from("/p/ws"), PathBuf::from("/p")];
        let spelt =
            |path: &str| spellings(Path::new(path), &roots).iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
        assert_eq!(spelt("/p/ws/a"), ["a", "ws/a"]);
        assert_eq!(spelt("/p/b"), ["b"]);
        assert_eq!(spelt("/etc/shadow"), ["etc/shadow"]);
    }
}
