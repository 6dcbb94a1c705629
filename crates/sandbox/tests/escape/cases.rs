//! The list of cases is whole, and what it points to is there.

use std::{collections::BTreeSet, fs, path::Path};

const LIST: &str = include_str!("CASES.md");
/// How many there are of each kind.
const NUMBERS: [(&str, usize); 6] = [("F", 39), ("N", 34), ("P", 24), ("R", 13), ("E", 12), ("S", 6)];

#[test]
fn every_case_is_listed_once() {
    let rows = LIST.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let listed: Vec<&str> = rows.filter(|word| word.contains('-') && word.len() == 4).collect();
    let wanted: Vec<String> =
        NUMBERS.iter().flat_map(|(kind, most)| (1..=*most).map(move |number| format!("{kind}-{number:02}"))).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn what_containers_leave_out_is_listed() {
    let listed = LIST.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let listed: Vec<(&str, &str)> = listed.map(|(case, why)| (case, why.trim_end_matches(" |"))).collect();
    assert_eq!(listed, crate::container::OF_OTHERS);
}

#[test]
fn every_case_points_to_something() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape");
    if std::env::var_os(crate::user::BINARIES).is_some() {
        // The source may not be theirs to read, and was read in the first run.
        return;
    }
    let files = fs::read_dir(&dir).expect("the source of the suite");
    let modules: BTreeSet<String> =
        files.flatten().filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned())).collect();
    let is_case = |word: &&str| word.len() > 3 && word.as_bytes()[3] == b'_' && word.as_bytes()[1].is_ascii_digit();
    let named: BTreeSet<String> = LIST
        .split('`')
        .map(|word| word.split("::").next().unwrap_or_default())
        .filter(is_case)
        .map(str::to_owned)
        .collect();
    let cases: BTreeSet<String> = modules.iter().filter(|name| is_case(&name.as_str())).cloned().collect();
    assert_eq!(named, cases, "every file of cases is in the list, and the other way round");
    for (module, test) in LIST.split('`').filter_map(|word| word.split_once("::")).filter(|(module, _)| is_case(module))
    {
        let source = fs::read_to_string(dir.join(format!("{module}.rs"))).expect("a file of cases");
        let there = source.contains(&format!("fn {test}(")) || source.contains(&format!("mod {test} "));
        assert!(there, "{module} has no {test}");
    }
}
