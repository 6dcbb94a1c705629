//! The reference servers of MCP behind the binary, each in a room: all of their tools are called through the gate.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, repository, skipped, town::wait_until};

/// A server, and calls of its tools in an order in which each can do something.
#[derive(Deserialize)]
struct Server {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    calls: Vec<Call>,
}

/// A call, and words of its answer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Call {
    Works(String, Value, String),
    Fails(String, Value, String, Fails),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fails {
    Fails,
}

impl Call {
    /// What the server calls the tool.
    fn tool(&self) -> &str {
        match self {
            Self::Works(tool, ..) | Self::Fails(tool, ..) => tool,
        }
    }

    /// What agents call it, behind the name of the server.
    fn listed(&self) -> String {
        self.tool().replace('-', "_")
    }
}

#[test]
fn peer_servers() {
    let (Some(node), Some(peers)) = (env::var_os("TOOLGATE_PEER_NODE"), env::var_os("TOOLGATE_PEER_SERVERS")) else {
        return skipped("the reference servers: TOOLGATE_PEER_SERVERS is not set; `cargo xtask test` installs them");
    };
    let (node, peers) = (PathBuf::from(node), PathBuf::from(peers));
    let calls = fs::read_to_string(repository().join("tests/peers/servers/calls.json")).unwrap();
    let names: Vec<String> = serde_json::from_str::<BTreeMap<String, Value>>(&calls).unwrap().into_keys().collect();
    for name in names {
        let bench = Bench::new();
        make_repository(&bench);
        let mut text = calls.clone();
        for (word, place) in [
            ("$NODE", &node),
            ("$SERVERS", &peers.join("servers/node_modules/@modelcontextprotocol")),
            ("$PEERS", &peers),
            ("$WORKSPACE", &bench.workspace()),
        ] {
            text = text.replace(word, place.to_str().unwrap());
        }
        let server = serde_json::from_str::<BTreeMap<String, Server>>(&text).unwrap().remove(&name).unwrap();
        try_all(&bench, &peers, &name, &server);
    }
}

/// Something for the server of git to look at.
fn make_repository(bench: &Bench) {
    bench.put("repository/new.txt", "new\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(words);
        Ran::of(git.current_dir(bench.workspace().join("repository"))).exits(0);
    };
    git(&["init", "--quiet"]);
    git(&["config", "user.name", "a"]);
    git(&["config", "user.email", "a@example.com"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
}

fn try_all(bench: &Bench, peers: &Path, name: &str, server: &Server) {
    let config = bench.outside().join("config.yaml");
    fs::write(&config, configured(bench, peers, name, server).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let prefix = format!("{name}__");
    let called: BTreeSet<String> = server.calls.iter().map(Call::listed).collect();

    // What is harmless is not held back, also where it has the name of a tool of ours.
    let shown = bench.run(&["mcp", "show", name, "--json", "--config", config]).exits(0).json();
    let offered = shown["tools_offered"].as_array().unwrap().iter();
    let held: Vec<&Value> = offered.filter(|tool| tool["standing"] != "pinned").collect();
    assert!(held.is_empty(), "{name}: {held:#?}");

    let mut client = Client::start(bench, config);
    // A list does not wait for long for a server that is on its way.
    wait_until("the server is there", || client.tools().iter().any(|tool| tool.starts_with(&prefix)));
    let listed: BTreeSet<String> =
        client.tools().iter().filter_map(|tool| tool.strip_prefix(&prefix)).map(str::to_owned).collect();
    assert_eq!(listed, called, "{name}");
    for call in &server.calls {
        let (tool, arguments, words, fails) = match call {
            Call::Works(tool, arguments, words) => (tool, arguments, words, false),
            Call::Fails(tool, arguments, words, Fails::Fails) => (tool, arguments, words, true),
        };
        let listed = format!("{prefix}{}", call.listed());
        let mut result = client.call(&listed, arguments);
        // What its server calls destructive asks each time, whatever the terms say.
        let asked = result["_meta"]["io.github.toolgate/outcome"]["approval"].as_str().map(str::to_owned);
        if let Some(asked) = asked {
            bench.run(&["approvals", "approve", &asked, "--config", config]).exits(0);
            result = client.call(&listed, arguments);
        }
        let right =
            result["isError"].as_bool().unwrap_or(false) == fails && result.to_string().contains(words.as_str());
        assert!(right, "{name} {tool}: {result:#}");
    }
}

/// The server in a room that sees it and the workspace, and leave to call all of its tools.
fn configured(bench: &Bench, peers: &Path, name: &str, server: &Server) -> Value {
    // A virtual environment is only links to the Python it was made with.
    let python = peers.join("server-git/bin/python").canonicalize().unwrap();
    let python = python.ancestors().nth(2).unwrap();
    let terms = json!({ "action": "external_data:request", "safety": "network" });
    let tools: BTreeMap<_, _> = server.calls.iter().map(|call| (call.tool(), &terms)).collect();
    let entry = json!({
        "command": server.command[0],
        "args": server.command[1..],
        "env": server.env,
        "workspace": bench.workspace(),
        "access": "write",
        "visible": [peers, python],
        // Some take seconds until they read their first line.
        "handshake_seconds": 60,
        "tools": tools,
    });
    let rule = json!({ "id": "peer", "verdict": "allow", "tools": [format!("{name}__*")], "because": "it is tried" });
    json!({
        // Who is asked answers between two calls.
        "approvals": { "hold": "1s" },
        "definitions": { "first_sight": "pin" },
        // Its tools are looked for in the list.
        "disclosure": { "mode": "off" },
        "information_flow": "off",
        "policy": { "rules": [rule] },
        "mcp_servers": { name: entry },
    })
}

/// A client of the binary, in the stateless era.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn start(bench: &Bench, config: &str) -> Self {
        let mut command = bench.command(&["serve", "--stdio", "--config", config]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, last: 0 }
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.last += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        writeln!(self.stdin.as_ref().unwrap(), "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server left");
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.last {
                assert!(message["result"].is_object(), "{message}");
                return message["result"].take();
            }
        }
    }

    fn tools(&mut self) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.ask("tools/list", params);
            let tools = page["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match page["nextCursor"].take() {
                Value::Null => return names,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
