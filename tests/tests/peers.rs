//! What is official of MCP and not a client library, beside the binary: the Inspector.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that breaks fails its test")]

use std::{env, ffi::OsString, process::Command};

use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, TOOLS, bin, skipped};

#[test]
fn peer_inspector() {
    let (Some(node), Some(inspector)) = (env::var_os("TOOLGATE_PEER_NODE"), env::var_os("TOOLGATE_PEER_INSPECTOR"))
    else {
        return skipped("the Inspector: TOOLGATE_PEER_INSPECTOR is not set; `cargo xtask test` installs it");
    };
    let bench = Bench::new();
    let ask = |words: &[&str]| inspect(&bench, &node, &inspector, words);

    // Strict, it ends with another status if a schema is one that clients cannot use.
    let listed = ask(&["--method", "tools/list", "--strict"]);
    let tools = json_of(&listed)["tools"].take();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, TOOLS);
    assert!(listed.stderr.lines().any(|line| line.starts_with("0 errors,")), "{listed}");

    let called = ask(&["--method", "tools/call", "--tool-name", "calculator", "--tool-arg", "expression=6*7"]);
    let result = json_of(&called);
    assert_eq!(result["structuredContent"], json!({ "result": 42 }), "{called}");
    assert_eq!(result["isError"], false, "{called}");
}

/// Runs the Inspector on the binary to its end.
fn inspect(bench: &Bench, node: &OsString, inspector: &OsString, words: &[&str]) -> Ran {
    let mut command = Command::new(node);
    command.arg(inspector).arg("--cli").arg(bin()).args(["serve", "--stdio"]);
    // It gives a server only the environment it is told to.
    command.arg("-e").arg(format!("TOOLGATE_DATA_DIR={}", bench.data().display())).args(words);
    command.current_dir(bench.workspace()).env("HOME", bench.home());
    command.env("MCP_CATALOG_PATH", bench.home().join("catalog.json"));
    Ran::of(&mut command).exits(0)
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}
