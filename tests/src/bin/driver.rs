//! Has Toolgate speak to a server of the conformance suite: every tool of the server is called through the gate, and whatever
//! a tool asks back is answered.
//!
//! usage: driver URL
//!
//! The suite says in `MCP_CONFORMANCE_CONTEXT` what it wants tools to be called with; otherwise their schemas do.

#![expect(clippy::expect_used, reason = "only the suite starts this, and one that breaks fails its scenario")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Map, Value, json};
use toolgate_tests::Bench;

/// What the server is called, and what that makes of the names of its tools.
const SERVER: &str = "suite";
const PREFIX: &str = "suite__";

/// Rounds after which a tool that keeps asking is left alone.
const MOST_ROUNDS: usize = 4;

fn main() -> io::Result<()> {
    let url = env::args().next_back().expect("a URL");
    let bench = Bench::new();
    let config = bench.outside().join("config.yaml");
    // What tools there are is known once the server was asked; until then nobody may call them.
    configure(&config, &url, &[])?;
    let names: Vec<String> = Client::start(&bench, &config).tools().into_keys().collect();
    configure(&config, &url, &names)?;

    let context: Value =
        env::var("MCP_CONFORMANCE_CONTEXT").ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mut client = Client::start(&bench, &config);
    let tools = client.tools();
    for (name, schema) in &tools {
        let wanted = context["toolCalls"].as_array().into_iter().flatten().find(|call| call["name"] == *name);
        let arguments = match (wanted, &**name) {
            (Some(call), _) => given(&call["arguments"]),
            // This one wants the schema of another tool as it was seen.
            (None, "json_schema_echo") => json!({ "schema": tools.get("json_schema_2020_12_tool") }),
            (None, _) => sample(schema),
        };
        let result = client.call(name, arguments);
        writeln!(io::stdout(), "{name}: {result}")?;
    }
    Ok(())
}

/// The server as one of Toolgate's, with leave to call these tools.
fn configure(file: &Path, url: &str, tools: &[String]) -> io::Result<()> {
    let terms = json!({ "action": "external_data:request", "safety": "network" });
    // Agents see `_` where the server says `-`, and terms are by the server's own names.
    let tools: BTreeMap<_, _> =
        tools.iter().flat_map(|name| [name.clone(), name.replace('_', "-")]).map(|name| (name, &terms)).collect();
    let rule = json!({ "id": "suite", "verdict": "allow", "tools": [format!("{PREFIX}*")], "because": "it is tried" });
    let config = json!({
        "definitions": { "first_sight": "pin" },
        "egress": { "hostname_allowlist": ["localhost", "127.0.0.1"] },
        "information_flow": "off",
        "policy": { "rules": [rule] },
        "mcp_servers": { SERVER: { "url": url, "tools": tools, "may_ask": ["elicitation"] } },
    });
    fs::write(file, config.to_string())
}

/// Arguments without those that are null: none of the schemas lets them be, and Toolgate holds calls to the schemas.
fn given(arguments: &Value) -> Value {
    let fields = arguments.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    fields.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
}

/// The least that fits a schema.
fn sample(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!("word"),
    };
    required.map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>().into()
}

/// A client of Toolgate, who answers whatever is asked.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn start(bench: &Bench, config: &Path) -> Self {
        let mut command = bench.command(&["serve", "--stdio", "--config"]);
        command.arg(config).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the binary starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Self { child, stdin, stdout: BufReader::new(stdout), last: 0 }
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.last += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        });
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        writeln!(self.stdin.as_ref().expect("it is open"), "{request}").expect("it reads");
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("it answers");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == self.last {
                return message;
            }
        }
    }

    /// The tools of the server, by their own names, with the schemas of their arguments.
    fn tools(&mut self) -> BTreeMap<String, Value> {
        // A list does not wait for long for a server that is on its way, but a call does, whatever it is of.
        self.ask("tools/call", json!({ "name": format!("{PREFIX}nothing"), "arguments": {} }));
        let mut found = BTreeMap::new();
        let mut params = json!({});
        loop {
            let mut page = self.ask("tools/list", params)["result"].take();
            for tool in page["tools"].as_array_mut().into_iter().flatten() {
                if let Some(name) = tool["name"].as_str().and_then(|name| name.strip_prefix(PREFIX)) {
                    found.insert(name.to_owned(), tool["inputSchema"].clone());
                }
            }
            match page["nextCursor"].take() {
                Value::Null => return found,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({ "name": format!("{PREFIX}{tool}"), "arguments": arguments });
        for _ in 0..MOST_ROUNDS {
            let mut answer = self.ask("tools/call", params.clone());
            if answer["result"]["resultType"] != "input_required" {
                return answer;
            }
            let asked = answer["result"]["inputRequests"].as_object().into_iter().flatten();
            let accept = |schema: &Value| json!({ "action": "accept", "content": sample(schema) });
            let answers = asked.map(|(name, asked)| (name.clone(), accept(&asked["params"]["requestedSchema"])));
            params["inputResponses"] = answers.collect::<Map<_, _>>().into();
            params["requestState"] = answer["result"]["requestState"].take();
        }
        Value::Null
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
