//! What is official of MCP beside the binary: the Inspector, and the clients of `mcp.rs` over HTTP.

#![expect(clippy::panic, reason = "a helper that breaks fails its test")]

use std::{env, ffi::OsString, process::Command};

use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, TOOLS, bin, gateway::Served, repository, skipped};

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

#[test]
fn peer_inspector_over_http() {
    let (Some(node), Some(inspector)) = (env::var_os("TOOLGATE_PEER_NODE"), env::var_os("TOOLGATE_PEER_INSPECTOR"))
    else {
        return skipped("the Inspector: TOOLGATE_PEER_INSPECTOR is not set; `cargo xtask test` installs it");
    };
    let bench = Bench::new();
    let served = Served::start(&bench);
    let mut command = Command::new(node);
    command.arg(inspector).args(["--cli", &served.url(), "--method", "tools/call", "--tool-name", "calculator"]);
    command.args(["--tool-arg", "expression=6*7", "--header", &format!("Authorization: Bearer {}", served.token())]);
    command.env("HOME", bench.home()).env("MCP_CATALOG_PATH", bench.home().join("catalog.json"));
    let called = Ran::of(&mut command).exits(0);
    assert_eq!(json_of(&called)["structuredContent"], json!({ "result": 42 }), "{called}");
}

#[test]
fn peer_python_over_http() {
    let Some(python) = env::var_os("TOOLGATE_PEER_PYTHON") else {
        return skipped("the official Python client: TOOLGATE_PEER_PYTHON is not set; `cargo xtask test` installs it");
    };
    over_http(Command::new(python).arg(repository().join("tests/peers/python/client.py")));
}

#[test]
fn peer_typescript_over_http() {
    let Some(modules) = env::var_os("TOOLGATE_PEER_NODE_DIR") else {
        return skipped(
            "the official TypeScript client: TOOLGATE_PEER_NODE_DIR is not set; `cargo xtask test` installs it",
        );
    };
    over_http(Command::new("node").arg(repository().join("tests/peers/typescript/client.mjs")).arg(modules));
}

/// Runs a client to its end, over HTTP; it takes a workspace, a URL and a token.
fn over_http(command: &mut Command) {
    let bench = Bench::new();
    let served = Served::start(&bench);
    Ran::of(command.arg("http").arg(bench.workspace()).arg(served.url()).arg(served.token())).exits(0);
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
