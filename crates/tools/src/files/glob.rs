//! Globs as file tools read them.
//!
//! `*` and `?` stay within a name, `**` crosses directories, `{a,b}` and `[a-z]` choose. A pattern without a slash is
//! held against the name alone, one with a slash against the whole path.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobMatcher};
use toolgate_contract::Fault;

use super::fault::BAD_PATTERN;

pub(crate) struct Glob {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl Glob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, Fault> {
        let bad = |why: &str| {
            BAD_PATTERN.failed(
                format!("`{pattern}` is not a glob: {why}"),
                "Write one such as `*.rs`, `src/**/*.rs` or `{Cargo,package}.*`.",
            )
        };
        let relative = pattern.trim_start_matches("./").trim_start_matches('/');
        if relative.is_empty() {
            return Err(bad("it is empty"));
        }
        if relative.len() > 4096 {
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
        Ok(Self { matcher: glob.compile_matcher(), whole_path: pattern.contains('/') })
    }

    /// `path` is relative to where the search started.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        self.matcher.is_match(Path::new(OsStr::from_bytes(if self.whole_path { path } else { name })))
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
}
