//! The text of a git config: read as data, and written for git.
//!
//! A repository's own config is never shown to git, because it can name programs. It is read here, and what is harmless
//! of it is written into the config that git gets instead ([`super::repository`]).

use std::fmt::Write as _;

use toolgate_contract::Fault;

use super::fault::BAD_REPOSITORY;

/// One setting. Section and key are in lower case, as git compares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    pub(super) key: String,
    pub(super) value: String,
}

/// The longest name of a section. Every setting carries it along, so that a long one costs its length many times over.
const LONGEST_NAME: usize = 1024;
/// More than a config ever has.
const MOST_SETTINGS: usize = 20_000;

/// The settings of a config, in order. Files it would include are not read.
pub(super) fn read(text: &str) -> Result<Vec<Setting>, Fault> {
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    reader.settings().ok_or_else(|| {
        BAD_REPOSITORY.failed(
            format!("line {} of the repository's config cannot be read", reader.line),
            "Repair the file `.git/config`.",
        )
    })
}

/// The settings as a config that git reads back as they are. Only for subsections without line breaks.
pub(super) fn write(settings: &[Setting]) -> String {
    let mut text = String::new();
    let mut open = None;
    for setting in settings {
        let header = (&setting.section, &setting.subsection);
        if open != Some(header) {
            // Writing to a string does not fail, here and below.
            let _ = match &setting.subsection {
                None => writeln!(text, "[{}]", setting.section),
                Some(name) => {
                    writeln!(text, "[{} \"{}\"]", setting.section, name.replace('\\', "\\\\").replace('"', "\\\""))
                }
            };
            open = Some(header);
        }
        let value = setting.value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
        let _ = writeln!(text, "\t{} = \"{value}\"", setting.key);
    }
    text
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn settings(&mut self) -> Option<Vec<Setting>> {
        let mut settings = Vec::new();
        let mut header: Option<(String, Option<String>)> = None;
        while let Some(c) = self.next() {
            match c {
                c if c.is_ascii_whitespace() => {}
                '#' | ';' => self.skip_line(),
                '[' => header = Some(self.header()?),
                c if c.is_ascii_alphabetic() => {
                    let (section, subsection) = header.clone()?;
                    let key = self.key(c);
                    let value = self.value()?;
                    if settings.len() == MOST_SETTINGS {
                        return None;
                    }
                    settings.push(Setting { section, subsection, key, value });
                }
                _ => return None,
            }
        }
        Some(settings)
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let mut c = chars.next()?;
        if c == '\r' && chars.as_str().starts_with('\n') {
            c = '\n';
            chars.next();
        }
        self.rest = chars.as_str();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    /// What is between the brackets: `section`, `section "name"` or, the old way, `section.name`.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        let mut section = String::new();
        loop {
            match self.next()? {
                ']' if !section.is_empty() => {
                    return Some(match section.split_once('.') {
                        Some((section, name)) => (section.to_owned(), Some(name.to_owned())),
                        None => (section, None),
                    });
                }
                ' ' | '\t' if !section.is_empty() => break,
                _ if section.len() >= LONGEST_NAME => return None,
                c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') => section.push(c.to_ascii_lowercase()),
                _ => return None,
            }
        }
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.next();
        }
        if self.next()? != '"' {
            return None;
        }
        let mut name = String::new();
        loop {
            match self.next()? {
                '"' => break,
                '\n' => return None,
                _ if name.len() >= LONGEST_NAME => return None,
                '\\' => name.push(self.next().filter(|c| *c != '\n')?),
                c => name.push(c),
            }
        }
        (self.next()? == ']').then_some((section, Some(name)))
    }

    fn key(&mut self, first: char) -> String {
        let mut key = String::from(first.to_ascii_lowercase());
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '-') {
            key.push(c.to_ascii_lowercase());
            self.next();
        }
        key
    }

    /// What is behind the key. A key alone is switched on.
    fn value(&mut self) -> Option<String> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.next();
        }
        match self.peek() {
            None | Some('\n' | '#' | ';') => {
                self.skip_line();
                return Some("true".to_owned());
            }
            Some('\r') if self.rest.starts_with("\r\n") => {
                self.next();
                return Some("true".to_owned());
            }
            Some('=') => drop(self.next()),
            Some(_) => return None,
        }
        let (mut value, mut kept, mut quoted) = (String::new(), 0, false);
        loop {
            match self.next() {
                None if quoted => return None,
                None => break,
                Some('\n') if quoted => return None,
                Some('\n') => break,
                Some('#' | ';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => {
                    quoted = !quoted;
                    kept = kept.max(value.len());
                    continue;
                }
                Some('\\') => match self.next()? {
                    '\n' => continue,
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return None,
                },
                Some(c) if c.is_ascii_whitespace() && !quoted => {
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                Some(c) => value.push(c),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read, each as `section.subsection.key=value`; none where it cannot be.
    fn check(text: &str, expected: Option<&[&str]>) {
        let said = |s: Setting| match s.subsection {
            Some(name) => format!("{}.{name}.{}={}", s.section, s.key, s.value),
            None => format!("{}.{}={}", s.section, s.key, s.value),
        };
        let found = read(text).ok().map(|all| all.into_iter().map(said).collect::<Vec<_>>());
        assert_eq!(found, expected.map(|all| all.iter().map(|s| (*s).to_owned()).collect()), "{text:?}");
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        check("", Some(&[]));
        check("[core]\n\tbare = false\n\tFileMode=true", Some(&["core.bare=false", "core.filemode=true"]));
        check("[Remote \"Origin\"]\r\n\turl = a b \t\r\n", Some(&["remote.Origin.url=a b"]));
        check("[branch.Old]x=1", Some(&["branch.old.x=1"]));
        check("[a]b\n[a] c ; off\n[a]d=\n", Some(&["a.b=true", "a.c=true", "a.d="]));
        check("[a]b = x # c\n;d\n#e\nf=\" # \" ; g", Some(&["a.b=x", "a.f= # "]));
        check("[a]b = one\\\n two\\t\\\"\\\\\n", Some(&["a.b=one two\t\"\\"]));
        check("[a]b = \"x \"  \n c=\"\"d\"\"", Some(&["a.b=x ", "a.c=d"]));
        check("\u{feff}[a \"x\\\"y\\\\z]\"]b=1", Some(&["a.x\"y\\z].b=1"]));
        check("[a]b\r\n[c]d=1\r\n", Some(&["a.b=true", "c.d=1"]));
    }

    #[test]
    fn what_git_does_not_read_is_not_read() {
        for text in
            ["b = 1", "[a", "[]\n", "[a \"b]\n", "[a b]\n", "[a \"b\nc\"]", "[a]1=2", "[a]b=\"x", "[a]b=\\x", "[a]b c"]
        {
            check(text, None);
        }
        assert_eq!(read("[a]\nb=1\n=").unwrap_err().message, "line 3 of the repository's config cannot be read");
    }

    /// A name is carried by every setting below it: a config of a megabyte must not become gigabytes.
    #[test]
    fn no_config_takes_more_room_than_it_is_worth() {
        for header in [|name: &str| format!("[a \"{name}\"]b=1"), |name: &str| format!("[a.{name}]b=1")] {
            assert_eq!(read(&header(&"n".repeat(LONGEST_NAME - 2))).map(|all| all.len()), Ok(1));
            assert!(read(&header(&"n".repeat(LONGEST_NAME + 1))).is_err());
        }
        assert_eq!(read(&format!("[a]\n{}", "b\n".repeat(MOST_SETTINGS))).map(|all| all.len()), Ok(MOST_SETTINGS));
        assert!(read(&format!("[a]\n{}", "b\n".repeat(MOST_SETTINGS + 1))).is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let settings = |names: &[(&str, Option<&str>, &str, &str)]| -> Vec<Setting> {
            let own = |(section, name, key, value): &(&str, Option<&str>, &str, &str)| Setting {
                section: (*section).to_owned(),
                subsection: name.map(str::to_owned),
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            };
            names.iter().map(own).collect()
        };
        let all = settings(&[
            ("core", None, "a", " # x;\"\\\n\t "),
            ("core", None, "b", ""),
            ("branch", Some("we\"ird\\]"), "merge", "refs/heads/x"),
            ("branch", Some("other"), "merge", "true"),
        ]);
        assert_eq!(read(&write(&all)), Ok(all));
    }
}
