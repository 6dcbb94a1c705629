//! The project's chores. `cargo xtask test` is what a developer and the CI run: it installs what the tests need,
//! runs every suite, and says loudly which could not run and why.

mod peers;
mod suite;

use std::{env, path::PathBuf, process::ExitCode};

use crate::suite::{Ended, Suite, cargo, report};

const HELP: &str = "\
cargo xtask test      install what the tests need, run every suite
cargo xtask golden    rewrite the golden files after a change you have reviewed
";

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("test") => report(&SUITES.iter().map(Suite::run).collect::<Vec<_>>()),
        Some("golden") => {
            let done = cargo(&["test", "--workspace", "--quiet"]).env("INSTA_UPDATE", "always").status();
            if done.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

/// In the order that fails soonest.
const SUITES: &[Suite] = &[
    Suite { name: "format", run: || suite::passes(&mut cargo(&["fmt", "--all", "--check"])) },
    Suite {
        name: "lints",
        run: || {
            suite::passes(&mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))
        },
    },
    Suite {
        name: "binary",
        run: || suite::passes(&mut cargo(&["build", "--workspace", "--bins", "--examples", "--quiet"])),
    },
    Suite { name: "tests", run: tests },
    Suite { name: "doc tests", run: || suite::passes(&mut cargo(&["test", "--workspace", "--doc", "--quiet"])) },
    Suite { name: "licences and bans", run: deny },
    Suite { name: "python peer", run: || peer(peers::python(), "python") },
    Suite { name: "typescript peer", run: || peer(peers::typescript(), "typescript") },
];

/// Everything that needs nothing but this repository.
fn tests() -> Ended {
    if cargo(&["nextest", "--version"]).output().is_ok_and(|out| out.status.success()) {
        suite::passes(&mut cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "-E", "not test(/^peer_/)"]))
    } else {
        suite::passes(&mut cargo(&["test", "--workspace", "--no-fail-fast", "--quiet", "--", "--skip", "peer_"]))
    }
}

/// The official MCP client of one language against the built binary.
fn peer(installed: Result<(&'static str, PathBuf), String>, language: &str) -> Ended {
    match installed {
        Ok((variable, place)) => {
            let name = format!("peer_{language}");
            suite::passes(cargo(&["test", "--package", "toolgate-tests", "--test", "mcp", &name]).env(variable, place))
        }
        Err(why) => Ended::Skipped(why),
    }
}

/// Licences, banned crates and sources, by `cargo deny`, installed once under `target/`.
fn deny() -> Ended {
    const VERSION: &str = "0.20.2";
    let root = suite::target().join("tools");
    let program = root.join("bin/cargo-deny");
    if !program.exists() {
        eprintln!("installing cargo-deny {VERSION} under target/tools (some minutes, once)");
        let mut install = cargo(&["install", "--locked", "--quiet", "--version", VERSION, "cargo-deny", "--root"]);
        if !install.arg(&root).status().is_ok_and(|status| status.success()) {
            return Ended::Skipped("cargo-deny could not be installed from the registry".into());
        }
    }
    let mut check = std::process::Command::new(program);
    check.args(["--offline", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    suite::passes(&mut check)
}
