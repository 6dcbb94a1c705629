//! The pages: what they name is there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use toolgate_tests::{Bench, repository};

/// Names a page may say though no such file is in the repository: users and the program make them.
const NOT_OURS: [&str; 3] = ["toolgate.yaml", "~/.config/toolgate/toolgate.yaml", "/etc/toolgate/toolgate.yaml"];

const EXTENSIONS: [&str; 8] = ["rs", "md", "toml", "yaml", "json", "svg", "txt", "sh"];

#[test]
fn every_test_the_guarantees_name_exists() {
    let page = fs::read_to_string(repository().join("docs/guarantees.md")).unwrap();
    let files = files();
    let (mut promises, mut missing) = (BTreeSet::new(), Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [promise, tests] = cells[..] else { panic!("a row has a promise and its tests: {row}") };
        assert!(promises.insert(promise.to_owned()), "said twice: {promise}");
        let tests: Vec<_> = quoted(tests).collect();
        assert!(!tests.is_empty(), "no test stands behind: {promise}");
        missing.extend(tests.into_iter().filter(|test| !is_a_test(test, &files)));
    }
    assert!(promises.len() > 50, "{} promises", promises.len());
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn the_pages_name_no_file_that_does_not_exist() {
    let files = files();
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/guarantees.md"] {
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
    let kinds = ["| files", "| programs", "| git", "| pull", "| web", "| small"];
    let rows = section.lines().filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
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

/// Is `crate::file::name` a test? The file is one of that crate with this stem, or the module of a folder.
fn is_a_test(test: &str, files: &[PathBuf]) -> bool {
    let parts: Vec<_> = test.split("::").collect();
    let [package, module, name] = parts[..] else { return false };
    let folder = if package == "tests" { Path::new("tests").to_owned() } else { Path::new("crates").join(package) };
    files.iter().filter(|file| file.starts_with(&folder) && is_module(file, module)).any(|file| {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
        let attributes = before.rsplit("\n\n").next().unwrap();
        // Some suites list their cases in a macro that makes a test of each, for each tier or for each user.
        let listed = ["in_both_tiers! {", "for_each_user! {"].iter().any(|list| before.contains(list));
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
