//! Recipes of images: which Debian packages an image is made of, and what is left out of it.
//!
//! A recipe is read like a config: unknown keys are errors, and every error points at its line. What it names ends up as
//! arguments of a program that runs as root, so names are held to their narrowest spelling.

use std::path::Path;

use jiff::civil::Date;
use serde::Deserialize;
use toolgate_contract::Digest;

use super::{
    error::ConfigError,
    findings::{Findings, Spot},
    load::{self, At, Mark, Outline, instead},
    text::{Links, Text},
    words::parse_size,
};

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// What the recipe is called.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// What the daemon knows the image by: `name:tag`.
    pub tag: String,
    /// The Debian release, by its code name.
    pub suite: String,
    /// The time of the image, and of every file in it that is newer.
    pub date: Date,
    /// How packages get into it.
    pub install: Install,
    /// Debian packages; what they depend on comes with them.
    pub packages: Vec<String>,
    /// Paths that are left out, without the leading slash; `*` is any part of one name.
    pub remove: Vec<String>,
    /// The largest image, in bytes.
    pub max_bytes: u64,
    /// The hash of the recipe's text.
    pub sha256: Digest,
}

/// How packages get into an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// As on any machine: unpacked, and set up by their own scripts.
    Configured,
    /// Unpacked only, for programs that need nothing else.
    Unpacked,
}

impl Recipe {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, Vec<ConfigError>> {
        let name = path.display().to_string();
        let missing = || vec![ConfigError::whole(&*name, "there is no such file", "Name a recipe that exists.")];
        Self::read(Text::open(path, Links::Follow).map_err(|error| vec![error])?.ok_or_else(missing)?)
    }

    /// Reads a text.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Vec<ConfigError>> {
        Self::read(Text::new(file_name, text))
    }

    fn read(text: Text) -> Result<Self, Vec<ConfigError>> {
        let (sha256, outline, parsed) = (text.sha256, Outline::of(&text.text), load::parse::<RecipeFile>(&text.text));
        let mut findings = Findings::default();
        let file = findings.add(text);
        let mut check = Check { findings, file, outline };
        let recipe = match parsed {
            Ok(written) => check.recipe(written, sha256),
            Err(why) => {
                check.findings.unreadable(file, why);
                None
            }
        };
        check.findings.into_result()?;
        let nothing = || vec![ConfigError::whole("recipe", "the recipe is not complete", "Write every key.")];
        recipe.ok_or_else(nothing)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RecipeFile {
    name: Option<At<String>>,
    about: Option<At<String>>,
    tag: Option<At<String>>,
    suite: Option<At<String>>,
    date: Option<At<String>>,
    install: Option<At<String>>,
    packages: Option<Vec<At<String>>>,
    remove: Option<Vec<At<String>>>,
    max_size: Option<At<String>>,
}

struct Check {
    findings: Findings,
    file: usize,
    outline: Outline,
}

impl Check {
    /// Every key is looked at, so that all mistakes are told at once.
    fn recipe(&mut self, written: RecipeFile, sha256: Digest) -> Option<Recipe> {
        let name = self.word(written.name, "name", "base", is_name);
        let about = self.word(written.about, "about", "one line about it", is_line);
        let tag = self.word(written.tag, "tag", "toolgate-base:latest", is_tag);
        let suite = self.word(written.suite, "suite", "trixie", is_name);
        let date = self.word(written.date, "date", "2026-01-01", |text| date(text).is_some());
        let max_size = self.word(written.max_size, "max_size", "500m", |text| size(text).is_some());
        let install = self.install(written.install);
        let packages = self.packages(written.packages);
        let remove = self.remove(written.remove.unwrap_or_default());
        Some(Recipe {
            name: name?,
            about: about?,
            tag: tag?,
            suite: suite?,
            date: date.as_deref().and_then(self::date)?,
            install: install?,
            packages: packages?,
            remove,
            max_bytes: max_size.as_deref().and_then(size)?,
            sha256,
        })
    }

    /// A key that must be there, with a value such as `example`.
    fn word(
        &mut self,
        written: Option<At<String>>,
        key: &str,
        example: &str,
        is_good: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let Some(At { value, mark }) = written else {
            self.missing(key, &format!("Write `{key}: {example}`."));
            return None;
        };
        if is_good(&value) {
            return Some(value);
        }
        self.error(mark, format!("`{value}` cannot be the `{key}` of a recipe"), format!("Write `{key}: {example}`."));
        None
    }

    fn install(&mut self, written: Option<At<String>>) -> Option<Install> {
        let Some(At { value, mark }) = written else { return Some(Install::Configured) };
        match value.as_str() {
            "configured" => Some(Install::Configured),
            "unpacked" => Some(Install::Unpacked),
            other => {
                let remedy = instead(other, ["configured", "unpacked"]);
                self.error(mark, format!("`{other}` is no way to install packages"), remedy);
                None
            }
        }
    }

    fn packages(&mut self, written: Option<Vec<At<String>>>) -> Option<Vec<String>> {
        let written = written.unwrap_or_default();
        if written.is_empty() {
            self.missing("packages", "Write `packages: [busybox-static]`, with the packages you need.");
            return None;
        }
        let mut packages: Vec<String> = Vec::new();
        for At { value, mark } in written {
            if !is_package(&value) {
                let remedy = "Write the bare name of a Debian package, such as `python3`.";
                self.error(mark, format!("`{value}` is no name of a package"), remedy);
            } else if packages.contains(&value) {
                self.error(mark, format!("package `{value}` is written twice"), "Keep one of the two.");
            } else {
                packages.push(value);
            }
        }
        Some(packages)
    }

    fn remove(&mut self, written: Vec<At<String>>) -> Vec<String> {
        let mut remove = Vec::new();
        for At { value, mark } in written {
            if is_pattern(&value) {
                remove.push(value);
            } else {
                let remedy = "Write a path without the leading slash, such as `usr/share/doc/*/changelog*`.";
                self.error(mark, format!("`{value}` is no path in an image"), remedy);
            }
        }
        remove
    }

    /// A key that is not there, or that holds nothing.
    fn missing(&mut self, key: &str, remedy: &str) {
        let mark = self.outline.key(&[key]);
        self.error(mark, format!("the recipe has no `{key}`"), remedy);
    }

    fn error(&mut self, mark: Mark, message: String, remedy: impl Into<String>) {
        self.findings.error(Spot { file: self.file, mark }, message, remedy);
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= 200 && !text.contains(char::is_control)
}

/// Is this `name:tag`, as daemons spell it? A digest is not a tag, and neither is a registry.
fn is_tag(text: &str) -> bool {
    let Some((name, tag)) = text.split_once(':') else { return false };
    let part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= 128
        && name.split('/').all(part)
        && (1..=128).contains(&tag.len())
        && tag.chars().all(word)
        && !tag.starts_with(['.', '-'])
}

/// Debian's own rule. A last `-` would tell apt to remove the package.
fn is_package(text: &str) -> bool {
    (2..=100).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '.' | '-'))
        && !text.ends_with('-')
}

fn is_pattern(text: &str) -> bool {
    text.len() <= 500
        && !text.contains(char::is_control)
        && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
        // It would leave nothing.
        && !text.starts_with('*')
}

fn date(text: &str) -> Option<Date> {
    // The library reads other spellings too, and times.
    text.parse::<Date>().ok().filter(|date| date.to_string() == text && date.year() >= 1980)
}

fn size(text: &str) -> Option<u64> {
    parse_size(text).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use toolgate_contract::Digest;

    use super::{Install, Recipe};

    const GOOD: &str = "\
name: small
about: One program
tag: toolgate-small:1.0
suite: trixie
date: 2026-01-01
install: unpacked
packages: [busybox-static, g++]
remove: [usr/share/doc/*, usr/share/man]
max_size: 8m
";

    /// Puts `with` where `line` begins, and compares the errors: place and message.
    fn check(line: &str, with: &str, expected: &[(u64, &str)]) {
        let mut lines: Vec<&str> = GOOD.lines().collect();
        let at = lines.iter().position(|known| known.starts_with(line)).unwrap();
        lines[at] = with;
        let text = lines.join("\n");
        let errors = Recipe::parse("r.yaml", &text).map(|_| ()).err().unwrap_or_default();
        let found: Vec<(u64, &str)> = errors.iter().map(|error| (error.line, error.message.as_str())).collect();
        assert_eq!(found, expected, "{with}");
        for error in &errors {
            assert!(error.remedy.ends_with('.') && error.remedy.len() > 5, "{error}");
        }
    }

    #[test]
    fn a_recipe_is_what_it_says() {
        let expected = Recipe {
            name: "small".into(),
            about: "One program".into(),
            tag: "toolgate-small:1.0".into(),
            suite: "trixie".into(),
            date: date(2026, 1, 1),
            install: Install::Unpacked,
            packages: vec!["busybox-static".into(), "g++".into()],
            remove: vec!["usr/share/doc/*".into(), "usr/share/man".into()],
            max_bytes: 8 << 20,
            sha256: Digest::of(GOOD.as_bytes()),
        };
        assert_eq!(Recipe::parse("r.yaml", GOOD), Ok(expected));
    }

    #[test]
    fn what_may_be_left_out_has_a_default() {
        check("install", "", &[]);
        check("install", "install: configured", &[]);
        check("remove", "", &[]);
        check("remove", "remove: []", &[]);
    }

    #[test]
    fn what_may_not_be_left_out_is_named() {
        check("name", "", &[(0, "the recipe has no `name`")]);
        check("about", "", &[(0, "the recipe has no `about`")]);
        check("tag", "", &[(0, "the recipe has no `tag`")]);
        check("suite", "", &[(0, "the recipe has no `suite`")]);
        check("date", "", &[(0, "the recipe has no `date`")]);
        check("packages", "", &[(0, "the recipe has no `packages`")]);
        check("packages", "packages: []", &[(7, "the recipe has no `packages`")]);
        check("max_size", "", &[(0, "the recipe has no `max_size`")]);
    }

    #[test]
    fn an_empty_file_is_told_every_key() {
        assert_eq!(Recipe::parse("r.yaml", "# nothing\n").map(|_| ()).unwrap_err().len(), 7);
    }

    #[test]
    fn unknown_keys_and_what_is_no_yaml_are_errors() {
        check("about", "abuot: One program", &[(2, "unknown key `abuot`")]);
        check("about", "name: again", &[(2, "key `name` is written twice")]);
        check("packages", "packages: busybox-static", &[(7, "a list is expected here")]);
        check("name", "name: [small]", &[(1, "one word is expected here, not a list or a mapping")]);
    }

    #[test]
    fn names_are_narrow() {
        for name in ["Base", "-base", "1base", "base image", "../base", "base/x", "''"] {
            let shown = name.trim_matches('\'');
            check("name", &format!("name: {name}"), &[(1, &format!("`{shown}` cannot be the `name` of a recipe"))]);
            check("suite", &format!("suite: {name}"), &[(4, &format!("`{shown}` cannot be the `suite` of a recipe"))]);
        }
        check("about", "about: \"two\\nlines\"", &[(2, "`two\u{fffd}lines` cannot be the `about` of a recipe")]);
        check("about", "about: \"  \"", &[(2, "`  ` cannot be the `about` of a recipe")]);
    }

    #[test]
    fn a_tag_is_a_name_and_a_version() {
        for tag in ["toolgate-base", "Toolgate:1", "a:", "a:.b", "a//b:1", "-a:1", "a:b:c", "a@sha256:ab", "a:b c"] {
            let message = format!("`{tag}` cannot be the `tag` of a recipe");
            check("tag", &format!("tag: {tag:?}"), &[(3, &message)]);
        }
        check("tag", "tag: team/toolgate_base.small:v1.2-rc_3", &[]);
    }

    #[test]
    fn a_date_is_a_day() {
        for date in ["2026-02-30", "2026", "01.02.2026", "2026-01-01T00:00:00", "1969-01-01", "20260101"] {
            let message = format!("`{date}` cannot be the `date` of a recipe");
            check("date", &format!("date: '{date}'"), &[(5, &message)]);
        }
    }

    #[test]
    fn a_package_is_a_bare_name() {
        for name in ["--simulate", "bash-", "bash=5", "bash/sid", "Bash", "./x.deb", "?all", "a,b", "a b", "x", "-y"] {
            let message = format!("`{name}` is no name of a package");
            check("packages", &format!("packages: [git, '{name}']"), &[(7, &message)]);
        }
        check("packages", "packages: [git, git]", &[(7, "package `git` is written twice")]);
    }

    #[test]
    fn what_is_removed_is_inside() {
        for path in ["/usr/share/doc", "usr/../etc", "./usr", "usr//doc", "usr/", "*", "*/doc"] {
            let message = format!("`{path}` is no path in an image");
            check("remove", &format!("remove: ['{path}']"), &[(8, &message)]);
        }
    }

    #[test]
    fn sizes_and_ways_are_known_words() {
        check("install", "install: unpack", &[(6, "`unpack` is no way to install packages")]);
        for size in ["8", "8MB", "0m", "-1m", "many"] {
            let message = format!("`{size}` cannot be the `max_size` of a recipe");
            check("max_size", &format!("max_size: '{size}'"), &[(9, &message)]);
        }
    }
}
