//! The pages: what they name is there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use toolgate_tests::{Bench, repository};

/// Names a page may say though no such file is in the repository: users and the program make them.
const NOT_OURS: [&str; 3] = ["toolgate.yaml", "~/.config/toolgate/toolgate.yaml", "/etc/toolgate/toolgate.yaml"];

const EXTENSIONS: [&str; 8] = ["rs", "md", "toml", "yaml", "json", "svg", "txt", "sh"];

#[test]
fn every_test_the_guarantees_name_exists() {
    let promises = rows("docs/guarantees.md", 2);
    assert!(promises.len() > 50, "{} promises", promises.len());
    assert_tests_exist(&promises);
}

/// Keys whose rows are not written yet. It may only get shorter.
const NOT_YET_IN_FIELDS: [&str; 1] = ["sandboxing.k8s"];

#[test]
fn every_field_of_a_config_and_of_a_tool_has_a_row_with_a_test() {
    let fields = rows("docs/fields.md", 3);
    assert_tests_exist(&fields);
    let source = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let (config, tool) = (source("crates/runtime/src/config/file.rs"), source("crates/contract/src/tool.rs"));
    let mut known = keys(&config, "ConfigFile", "");
    known.extend(keys(&config, "TestsFile", ""));
    known.extend(keys(&tool, "ToolDef", "tool."));
    let is_due = |key: &&str| !NOT_YET_IN_FIELDS.iter().any(|open| key.starts_with(open));
    let known: BTreeSet<&str> = known.iter().map(String::as_str).filter(is_due).collect();
    assert!(known.len() > 200, "{} keys", known.len());
    let told: BTreeSet<&str> = fields.iter().map(|row| row[0].trim_matches('`')).filter(is_due).collect();
    let (missing, gone): (Vec<_>, Vec<_>) = (known.difference(&told).collect(), told.difference(&known).collect());
    assert!(missing.is_empty() && gone.is_empty(), "without a row: {missing:#?}\nwithout a key: {gone:#?}");
}

#[test]
fn the_keys_of_a_struct_are_found_at_every_depth() {
    let source = "
#[derive(Deserialize)]
pub(super) struct Outer {
    /// A comment: it is no key.
    pub(super) plain: Option<At<u64>>,
    #[serde(rename = \"match\")]
    pub(super) must: Option<Vec<At<Inner>>>,
    pub(super) named: Option<Entries<Entries<Inner>>>,
    pub word: Option<At<WordOr<Inner>>>,
    pub list: Option<Entries<At<String>>>,
}

pub struct Inner {
    pub name: Cow<'static, str>,
}
";
    let expected = ["list.*", "match.name", "named.*.*.name", "plain", "word", "word.name"];
    assert_eq!(keys(source, "Outer", ""), expected.map(str::to_owned).into());
    assert_eq!(keys(source, "Inner", "tool."), ["tool.name".to_owned()].into());
}

#[test]
fn the_pages_name_no_file_that_does_not_exist() {
    let files = files();
    for page in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/guarantees.md", "docs/fields.md"]
    {
        let text = fs::read_to_string(repository().join(page)).unwrap();
        let here = Path::new(page).parent().unwrap();
        let named: Vec<_> = links(&text).chain(quoted(&text).filter(|word| looks_like_a_file(word))).collect();
        let missing: Vec<_> = named.iter().filter(|name| !exists(name, here, &files)).collect();
        assert!(missing.is_empty(), "{page} names what is not there: {missing:?}");
        assert!(page != "ARCHITECTURE.md" || named.len() > 10, "{page}: {named:?}");
    }
}

#[test]
fn the_readme_lists_the_tools_there_are() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let section = readme.split("## What an agent gets").nth(1).unwrap();
    let kinds = ["| files", "| programs", "| git", "| pull", "| web", "| small", "| looking"];
    let table = section.trim_start().split("\n\n").next().unwrap();
    assert!(table.contains("\n| many tools |"), "a table ends at the first empty line: {table}");
    let rows = table.lines().filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
    let named: BTreeSet<String> = rows.flat_map(|row| quoted(row).map(str::to_owned).collect::<Vec<_>>()).collect();
    let tools = Bench::new().run(&["tools"]).exits(0).json();
    let tools = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    assert_eq!(named, tools.collect());
}

#[test]
fn the_config_in_the_readme_is_right() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let blocks: Vec<_> = readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    let bench = Bench::new();
    for block in blocks {
        bench.put("readme.yaml", block);
        bench.run(&["check", "readme.yaml"]).exits(0);
    }
}

#[test]
fn what_is_to_be_pasted_into_a_client_can_be_read() {
    let clients = rows("docs/clients.md", 4);
    assert_eq!(clients.len(), 6);
    for row in clients {
        for fragment in row[2..].iter().flat_map(|cell| quoted(cell)) {
            let text = fragment.replace("[..]", "[]");
            let is_right = match &*row[0] {
                "Claude Code" => text.starts_with("claude mcp add "),
                // Values of TOML that are as simple as these are JSON too.
                "Codex" => match text.split_once(" = ") {
                    Some((_, value)) => serde_json::from_str::<Value>(value).is_ok(),
                    None => text == "[mcp_servers.toolgate]",
                },
                // It drops an entry without a name, and one at an address without a description.
                "Goose" => serde_saphyr::from_str::<Value>(&text).is_ok_and(|entry| {
                    let entry = &entry["toolgate"];
                    entry["name"] == "toolgate" && entry["description"].is_string() && entry["enabled"] == true
                }),
                "Zed" => serde_json::from_str::<Value>(&format!("{{{text}}}")).is_ok(),
                _ => serde_json::from_str::<Value>(&text).is_ok(),
            };
            assert!(is_right, "{}: {fragment}", row[0]);
        }
    }
}

/// The rows of all tables of a page that have so many cells, without their heads. What the first cell says is said once.
fn rows(page: &str, cells: usize) -> Vec<Vec<String>> {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (line, next) in lines.iter().zip(lines.iter().skip(1).chain([&""])) {
        if !line.starts_with("| ") || next.starts_with("|---") {
            continue;
        }
        let row: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        assert_eq!(row.len(), cells, "{page}: {line}");
        assert!(!rows.iter().any(|known| known[0] == row[0]), "{page} says twice: {}", row[0]);
        rows.push(row);
    }
    rows
}

/// Every row names tests in its last cell, and there are such.
fn assert_tests_exist(rows: &[Vec<String>]) {
    let files = files();
    let mut missing = BTreeSet::new();
    for row in rows {
        let tests: Vec<_> = quoted(row.last().unwrap()).collect();
        assert!(!tests.is_empty(), "no test stands behind: {}", row[0]);
        missing.extend(tests.into_iter().filter(|test| !is_a_test(test, &files)));
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

/// The keys of a struct by the source it is written in, each with a dot between its parts and a `*` for a name the writer
/// chooses. What may be one word or a mapping is a key itself, and so are those of the mapping.
fn keys(source: &str, name: &str, before: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let body = body_of(source, name).unwrap();
    let mut renamed = None;
    for line in body.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
            renamed = rest.split('"').next();
        }
        let Some((field, kind)) = line.strip_prefix("pub").and_then(|rest| rest.split_once(": ")) else { continue };
        let field = renamed.take().unwrap_or_else(|| field.rsplit(' ').next().unwrap());
        let key = format!("{before}{field}{}", ".*".repeat(kind.matches("Entries<").count()));
        let mut words = kind.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        match words.next_back().filter(|word| body_of(source, word).is_some()) {
            Some(inner) => {
                found.extend(keys(source, inner, &format!("{key}.")));
                found.extend(kind.contains("WordOr<").then_some(key));
            }
            None => {
                found.insert(key);
            }
        }
    }
    found
}

/// What stands between the braces of a struct.
fn body_of<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    source.split_once(&format!("struct {name} {{\n"))?.1.split_once("\n}").map(|(body, _)| body)
}

/// Is `crate::file::name` a test? The file is one of that crate with this stem, or the module of a folder.
fn is_a_test(test: &str, files: &[PathBuf]) -> bool {
    let parts: Vec<_> = test.split("::").collect();
    let [package, module, name] = parts[..] else { return false };
    let folder = if package == "tests" { Path::new("tests").to_owned() } else { Path::new("crates").join(package) };
    files.iter().filter(|file| file.starts_with(&folder) && is_module(file, module)).any(|file| {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
        let attributes = before.rsplit("\n\n").next().unwrap();
        // Some suites list their cases in a macro that makes a test of each, for each kind of room or for each user.
        let listed = ["in_every_room! {", "for_each_user! {"].iter().any(|list| before.contains(list));
        attributes.contains("#[test]") || attributes.contains("::test") || listed
    })
}

fn is_module(file: &Path, module: &str) -> bool {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let stem = file.file_stem().unwrap();
    let folder = file.parent().and_then(Path::file_name).is_some_and(|folder| folder == module);
    is_rust && (stem == module || (stem == "mod" && folder))
}

/// Every file of the repository, relative to it.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(repository().join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let path = dir.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if path != Path::new("target") && path != Path::new(".git") {
                    open.push(path);
                }
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// Where links lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).filter(|link| !link.starts_with("http"))
}

/// What stands between backticks, outside of blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.lines()).flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn looks_like_a_file(word: &str) -> bool {
    let a_name = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/~".contains(c));
    let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
    a_name && (extension.is_some_and(|known| EXTENSIONS.contains(&known)) || (word.len() > 1 && word.ends_with('/')))
}

/// As it is, from the page, or inside a crate, whose `crates/` and `src/` a page may leave out.
fn exists(name: &str, here: &Path, files: &[PathBuf]) -> bool {
    if NOT_OURS.contains(&name) || repository().join(here).join(name).exists() || repository().join(name).exists() {
        return true;
    }
    let name = Path::new(name);
    if repository().join("crates").join(name).exists() {
        return true;
    }
    files.iter().any(|file| {
        let short: PathBuf = file.iter().filter(|part| *part != "crates" && *part != "src").collect();
        short == name || (name.components().count() == 1 && file.file_name() == Some(name.as_os_str()))
    })
}
