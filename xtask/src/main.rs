//! The project's chores. `cargo xtask test` is what a developer and the CI run: it installs what the tests need,
//! runs every suite, and says loudly which could not run and why.

mod conformance;
mod docker;
mod peers;
mod suite;

use std::{
    collections::BTreeMap,
    env,
    num::NonZero,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
};

use crate::suite::{Ended, Suite, cargo, report};

const HELP: &str = "\
cargo xtask test         install what the tests need, run every suite
cargo xtask conformance  run the official MCP suite, and write docs/conformance/results.md
cargo xtask worker       build the worker containers need, and say where it is; --release for one to install
cargo xtask golden       rewrite the golden files after a change you have reviewed
";

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("test") => {
            peers::fetch_ahead();
            report(&SUITES.iter().map(Suite::run).collect::<Vec<_>>())
        }
        Some("conformance") => report(&[Suite { name: "conformance", run: conformance::write }.run()]),
        Some("worker") => match docker::worker(env::args().any(|word| word == "--release")) {
            Ok(worker) => {
                println!("{}", worker.display());
                ExitCode::SUCCESS
            }
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        },
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
    Suite { name: "python peer", run: || peer(peers::python(), "peer_python") },
    Suite { name: "typescript peer", run: || peer(peers::typescript(), "peer_typescript") },
    Suite { name: "inspector", run: || peer(peers::inspector(), "peer_inspector") },
    Suite { name: "reference servers", run: || peer(peers::servers(), "peer_servers") },
    Suite { name: "conformance", run: conformance::check },
    Suite { name: "console in a browser", run: browser },
];

/// Everything that needs this repository, `ip` for the networks some tests make, and for rooms that are containers a
/// Docker daemon, Podman, and what makes images.
fn tests() -> Ended {
    peers::await_fetched();
    let worker = match docker::worker(false) {
        Ok(worker) => worker,
        Err(why) => return Ended::Failed(why),
    };
    // Without these the tests that need them say that they were skipped.
    if let Err(why) = peers::for_tests() {
        eprintln!("{why}");
    }
    let daemon = docker::daemon().inspect_err(|why| eprintln!("{why}")).ok();
    let podman = docker::podman().inspect_err(|why| eprintln!("{why}")).ok();
    let with_daemon = |mut tests: Command| {
        tests.env("TOOLGATE_TEST_WORKER", &worker);
        tests.envs(daemon.as_ref().map(|daemon| ("TOOLGATE_TEST_DOCKER", &daemon.socket)));
        tests.envs(podman.as_ref().map(|podman| ("TOOLGATE_TEST_PODMAN", &podman.socket)));
        suite::passes(&mut tests)
    };
    if cargo(&["nextest", "--version"]).output().is_ok_and(|out| out.status.success()) {
        // Most of them wait for programs most of the time.
        let at_once = thread::available_parallelism().map_or(2, NonZero::get) + 2;
        let mut tests = cargo(&["nextest", "run", "--workspace", "--exclude", "toolgate-browser", "--no-fail-fast"]);
        tests.arg(format!("--test-threads={at_once}")).args(["-E", "not test(/^peer_/)"]);
        let ran = with_daemon(tests);
        match (ran, remarks()) {
            (Ended::Passed, remarks) if !remarks.is_empty() => Ended::PassedBut(remarks),
            (ran, _) => ran,
        }
    } else {
        with_daemon(cargo(&[
            "test",
            "--workspace",
            "--exclude",
            "toolgate-browser",
            "--no-fail-fast",
            "--quiet",
            "--",
            "--skip",
            "peer_",
        ]))
    }
}

/// The reasons tests gave for what they could not try on this machine, each with how often it was given, and the tests that
/// passed only when they were tried again. Nextest keeps what passing tests say (`.config/nextest.toml`).
fn remarks() -> Vec<String> {
    let report = std::fs::read_to_string(suite::root().join("target/nextest/default/junit.xml")).unwrap_or_default();
    let mut reasons = BTreeMap::new();
    let mut test = "";
    for line in report.lines() {
        if let Some((_, named)) = line.split_once("<testcase name=\"") {
            test = named.split('"').next().unwrap_or_default();
        }
        if let Some((_, reason)) = line.split_once("SKIPPED: ") {
            let reason: String = reason.split("&#10;").next().unwrap_or_default().chars().take(300).collect();
            *reasons.entry(format!("SKIPPED    {reason}")).or_insert(0) += 1;
        }
        if line.contains("<flakyFailure") {
            *reasons.entry(format!("TWICE      `{test}` passed only when it was tried again")).or_insert(0) += 1;
        }
    }
    reasons.into_iter().map(|(reason, times)| format!("{reason} ({times} x)")).collect()
}

/// Tests with something official of MCP beside the built binary.
fn peer(installed: Result<peers::Places, String>, test: &str) -> Ended {
    let with = |places: peers::Places| {
        // The same packages as above, so that nothing is built again with other features.
        let mut tests = cargo(&["test", "--workspace", "--exclude", "toolgate-browser", "--test", "mcp"]);
        tests.args(["--test", "peers", "--test", "reference", test]);
        suite::passes(tests.envs(places))
    };
    installed.map_or_else(Ended::Skipped, with)
}

/// Walks through the console in a real browser.
fn browser() -> Ended {
    let walk = |(driver, axe): (PathBuf, PathBuf)| {
        // Of the whole workspace, so that nothing is built again with other features.
        let mut walk = cargo(&["test", "--workspace", "--test", "walk"]);
        suite::passes(walk.env("TOOLGATE_CHROMEDRIVER", driver).env("TOOLGATE_AXE", axe))
    };
    peers::browser().map_or_else(Ended::Skipped, walk)
}

/// Licences, banned crates and sources, by `cargo deny`, installed once under `target/`.
fn deny() -> Ended {
    const VERSION: &str = "0.20.2";
    let root = suite::target().join("tools");
    let program = root.join("bin/cargo-deny");
    if !program.exists() {
        eprintln!("installing cargo-deny {VERSION} under target/tools (some minutes, once)");
        // It is built sooner than it would earn being fast.
        let mut install =
            cargo(&["install", "--debug", "--locked", "--quiet", "--version", VERSION, "cargo-deny", "--root"]);
        if !install.arg(&root).env("CARGO_PROFILE_DEV_DEBUG", "false").status().is_ok_and(|status| status.success()) {
            return Ended::Skipped("cargo-deny could not be installed from the registry".into());
        }
    }
    // It reads the manifests of crates for other systems too, which no build here has fetched.
    if let Err(why) = suite::run(&mut cargo(&["fetch", "--locked", "--quiet"])) {
        return Ended::Skipped(why);
    }
    let mut check = Command::new(program);
    check.args(["--offline", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    suite::passes(&mut check)
}
