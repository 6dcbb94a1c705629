//! Globs as file tools read them.
//!
//! `*` and `?` stay within a name, `**` crosses directories, `{a,b}` and `[a-z]` choose. A pattern without a slash is
//! held against the name alone, one with a slash against the whole path.

use globset::GlobBuilder;
use regex::bytes::{Regex, RegexBuilder};
use toolgate_contract::Fault;

use super::{fault::BAD_PATTERN, text::brief};

/// The longest glob, in bytes. It also bounds how deep its braces can nest.
pub(crate) const MAX_GLOB: usize = 1024;

/// How large a glob may become once it is compiled, and how much memory matching may take.
const MAX_COMPILED: usize = 1024 * 1024;

pub(crate) struct Glob {
    regex: Regex,
    whole_path: bool,
}

impl Glob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, Fault> {
        let bad = |why: &str| {
            BAD_PATTERN.failed(
                format!("`{}` is not a glob: {why}", brief(pattern)),
                "Write one such as `*.rs`, `src/**/*.rs` or `{Cargo,package}.*`.",
            )
        };
        let relative = pattern.trim_start_matches("./").trim_start_matches('/');
        if relative.is_empty() {
            return Err(bad("it is empty"));
        }
        if relative.len() > MAX_GLOB {
            return Err(bad("it is too long"));
        }
        if relative.split('/').any(|part| part == "..") {
            return Err(bad("`..` never matches, for a search only goes down"));
        }
        let glob = GlobBuilder::new(relative)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| bad(&error.kind().to_string()))?;
        // Not the glob's own matcher: making that panics when the regular expression behind it is too deep or too large.
        let regex = RegexBuilder::new(glob.regex())
            .dot_matches_new_line(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build()
            .map_err(|_| bad("it is too deep or too large"))?;
        Ok(Self { regex, whole_path: pattern.contains('/') })
    }

    /// `path` is relative to where the search started.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        self.regex.is_match(if self.whole_path { path } else { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let glob = Glob::parse(pattern).unwrap();
        for path in yes {
            assert!(glob.matches(path.as_bytes()), "{pattern} should match {path}");
        }
        for path in no {
            assert!(!glob.matches(path.as_bytes()), "{pattern} should not match {path}");
        }
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_the_name() {
        check("*.ml", &["a.ml", "src/b.ml", ".ml", "src/.x.ml"], &["a.mli", "a.ml/x", "xml"]);
        check("main", &["main", "src/main"], &["main.rs", "domain"]);
        check("a?c", &["abc"], &["ac", "abbc"]);
        check("{a,b}.[ch]", &["x/a.c", "b.h"], &["c.c", "a.cc"]);
    }

    #[test]
    fn a_pattern_with_a_slash_is_about_the_path() {
        check("src/*.rs", &["src/a.rs"], &["a.rs", "src/x/a.rs", "x/src/a.rs"]);
        check("src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["a.rs", "x/src/a.rs"]);
        check("**/test/*", &["test/a", "x/test/a"], &["test", "x/test/y/a"]);
        check("./a.rs", &["a.rs"], &["x/a.rs"]);
        check("/a.rs", &["a.rs"], &["x/a.rs"]);
        check("src/**", &["src/a", "src/x/a"], &["src", "lib/src/a"]);
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for pattern in ["", "./", "[", "{a", "../*.rs", "a/../b", &"x".repeat(5000)] {
            assert_eq!(Glob::parse(pattern).err().map(|fault| fault.code), Some("bad_pattern".into()), "{pattern}");
        }
    }

    #[test]
    fn braces_nest_as_deep_as_can_be_meant_and_deeper_ones_are_refused() {
        let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        for depth in [1, 10, 50] {
            check(&nested(depth), &["a"], &["b"]);
        }
        for depth in [300, 400, 500, 511, 512, 600, 2000, 10_000] {
            assert_eq!(Glob::parse(&nested(depth)).err().unwrap().code, "bad_pattern", "{depth}");
        }
    }

    #[test]
    fn a_long_pattern_is_compiled_or_refused_and_never_echoed_whole() {
        for part in ["a", "?", "*", "**/", "[a-z]", "[!é]", "{a,b}", "{a,", "\\", "é", "x/"] {
            for times in [10, 100, 1000, 100_000] {
                let pattern = part.repeat(times);
                let Err(fault) = Glob::parse(&pattern) else { continue };
                assert_eq!(fault.code, "bad_pattern", "{part} x {times}");
                assert!(fault.message.len() < 1000, "{}", fault.message);
            }
        }
    }

    #[test]
    fn names_that_are_no_utf_8_or_have_line_breaks_match() {
        let any = Glob::parse("a*?").unwrap();
        assert!(any.matches(b"a\xff\xfe") && any.matches(b"a\nb\n") && !any.matches(b"a"));
    }
}
