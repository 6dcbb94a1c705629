//! MCP from outside: raw lines over the pipes of `toolgate serve --stdio`, and the official clients.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a helper that breaks fails its test")]

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};
use toolgate_tests::{Bench, TOOLS, bin, repository, skipped, town};

/// Far longer than anything here takes. What does not come until then does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How client and server know what they speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    /// They agree on it once, by `initialize`.
    Session,
    /// Every request says it.
    Stateless,
}

impl Era {
    const BOTH: [Era; 2] = [Era::Session, Era::Stateless];
}

/// A server, and the lines that come out of it.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    stderr: JoinHandle<String>,
    era: Era,
    last_id: i64,
}

impl Server {
    /// Starts it and says nothing yet.
    fn start(bench: &Bench, era: Era) -> Self {
        let mut command = bench.command(&["serve", "--stdio"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stdin = child.stdin.take();
        let lines = lines(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        Self { child, stdin, lines, stderr, era, last_id: 0 }
    }

    /// Starts it and greets it, where the era knows greetings.
    fn greet(bench: &Bench, era: Era) -> Self {
        let mut server = Self::start(bench, era);
        if era == Era::Session {
            let result = server.ask("initialize", hello("2025-11-25"))["result"].take();
            assert_eq!(result["serverInfo"]["name"], "toolgate");
            server.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        }
        server
    }

    /// Writes one line.
    fn say(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(&[line.as_ref(), b"\n"].concat()).expect("the server reads");
    }

    /// The next message.
    fn hear(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// A request with the next id.
    fn request(&mut self, method: &str, mut params: Value) -> (i64, String) {
        self.last_id += 1;
        if self.era == Era::Stateless {
            params["_meta"] = stateless("2026-07-28");
        }
        let id = self.last_id;
        (id, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
    }

    /// Asks, and gives the answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let (id, line) = self.request(method, params);
        self.say(line);
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool, and gives the result.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].take()
    }

    /// Closes its input. It must leave with status 0, and say nothing more.
    fn leave(mut self) {
        drop(self.stdin.take());
        assert_eq!(self.lines.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
        self.left();
    }

    /// It has left with status 0, and had nothing to complain about.
    fn left(mut self) {
        let status = self.child.wait().unwrap();
        assert_eq!((status.code(), self.stderr.join().unwrap().as_str()), (Some(0), ""));
    }
}

/// The lines of a stream, read from the side.
fn lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            if sender.send(line.expect("UTF-8")).is_err() {
                return;
            }
        }
    });
    lines
}

fn hello(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } })
}

fn stateless(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
    })
}

#[test]
fn every_version_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let bench = Bench::new();
        let mut server = Server::start(&bench, Era::Session);
        let result = server.ask("initialize", hello(version))["result"].take();
        assert_eq!(result["protocolVersion"], version);
        let can = json!({
            "completions": {},
            "logging": {},
            "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
            "tools": { "listChanged": true },
        });
        // Tasks are an extension, and those came with the era without greetings.
        assert_eq!(result["capabilities"], can);
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].as_str().is_some_and(|text| text.len() < 1000), "{result}");
        assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
        server.leave();
    }
}

#[test]
fn what_was_written_can_be_read_by_its_link_where_links_are_known() {
    let bench = Bench::new();
    let write = json!({ "name": "write", "arguments": { "path": "a b.txt", "content": "there" } });
    for (version, links) in [("2025-03-26", 0), ("2025-06-18", 1), ("2025-11-25", 1)] {
        let mut server = Server::start(&bench, Era::Session);
        server.ask("initialize", hello(version));
        server.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        let result = server.ask("tools/call", write.clone())["result"].take();
        assert_eq!(result["content"].as_array().unwrap().len(), 1 + links, "{version}: {result}");
        server.leave();
    }
    let mut server = Server::start(&bench, Era::Stateless);
    let link = server.ask("tools/call", write.clone())["result"]["content"][1].take();
    assert_eq!(
        (&link["type"], &link["uri"], &link["name"]),
        (&json!("resource_link"), &json!("workspace:///a%20b.txt"), &json!("a b.txt"))
    );
    let read = server.ask("resources/read", json!({ "uri": link["uri"] }))["result"]["contents"][0].take();
    assert_eq!(read["text"], "there");
    let edit = json!({ "path": "a b.txt", "edits": [{ "old": "there", "new": "here" }] });
    let edited = server.ask("tools/call", json!({ "name": "edit", "arguments": edit }))["result"].take();
    assert_eq!(edited["content"][1]["uri"], link["uri"], "{edited}");
    server.leave();
    // Whoever may not read it is not led there.
    bench.put("toolgate.yaml", "agents: { default: { denied: { tools: [read] } } }\n");
    let mut server = Server::start(&bench, Era::Stateless);
    let result = server.ask("tools/call", write)["result"].take();
    assert_eq!((&result["isError"], result["content"].as_array().unwrap().len()), (&json!(false), 1), "{result}");
    server.leave();
}

#[test]
fn a_program_that_takes_its_time_is_said_to_be_at_work() {
    let bench = Bench::new();
    for era in [town::Era::Old, town::Era::New] {
        let mut client = town::Client::start(bench.command(&["serve", "--stdio"]), era, json!({}));
        client.meta["progressToken"] = json!("far");
        let result = client.result("bash", json!({ "argv": ["sleep", "2.5"] }));
        let steps: Vec<_> = client.heard.iter().filter(|it| it["method"] == "notifications/progress").collect();
        assert!(!steps.is_empty(), "{era:?}: {result}");
        assert!(steps.iter().all(|step| step["params"]["progressToken"] == "far"), "{steps:?}");
        assert_eq!(steps[0]["params"]["message"], "at work for 1 s");
        assert_eq!(result["isError"], false, "{result}");
    }
}

#[test]
fn a_version_nobody_knows_is_answered_with_one_we_speak() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, Era::Session);
    let result = server.ask("initialize", hello("1999-01-01"))["result"].take();
    assert_eq!(result["protocolVersion"], "2025-11-25");
    server.leave();

    let mut server = Server::start(&bench, Era::Session);
    let answer = server.ask("tools/list", json!({ "_meta": stateless("2099-01-01") }));
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{answer}");
    server.leave();
}

#[test]
fn it_can_be_discovered_without_a_handshake() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, Era::Stateless);
    let result = server.ask("server/discover", json!({}))["result"].take();
    let expected = json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
    let mut versions = result["supportedVersions"].clone();
    versions.as_array_mut().unwrap().sort_by_key(ToString::to_string);
    assert_eq!(versions, expected);
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"], &result["resultType"]),
        (&json!(0), &json!("private"), &json!("complete"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolgate");
    server.leave();
}

#[test]
fn a_stateless_request_without_its_metadata_is_refused() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, Era::Session);
    assert_eq!(server.ask("tools/list", json!({}))["error"]["code"], -32602);
    server.leave();
}

#[test]
fn what_the_newest_revision_has_no_more_is_not_there() {
    let bench = Bench::new();
    for (method, params) in [
        ("ping", json!({})),
        ("initialize", json!({})),
        ("initialize", hello("2026-07-28")),
        ("logging/setLevel", json!({})),
        ("resources/subscribe", json!({ "uri": "toolgate://guide" })),
    ] {
        // Also as the first that is asked, when nothing else says which era it is.
        let mut server = Server::start(&bench, Era::Stateless);
        for _ in 0..2 {
            let answer = server.ask(method, params.clone());
            let error = &answer["error"];
            assert_eq!(
                (&error["code"], &error["data"]["code"]),
                (&json!(-32601), &json!("unknown_method")),
                "{answer}"
            );
            assert_eq!(server.call("echo", json!({ "text": "on" }))["resultType"], "complete");
        }
        server.leave();
    }
    // To ask for it has not made this connection one of the newest revision.
    let mut server = Server::start(&bench, Era::Stateless);
    assert_eq!(server.ask("ping", json!({}))["error"]["code"], -32601);
    server.era = Era::Session;
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(server.ask("initialize", hello("2025-11-25"))["result"]["protocolVersion"], "2025-11-25");
    server.leave();
}

#[test]
fn the_tools_are_the_same_in_both_eras() {
    let bench = Bench::new();
    let lists = Era::BOTH.map(|era| {
        let mut server = Server::greet(&bench, era);
        let mut result = server.ask("tools/list", json!({}))["result"].take();
        let hints = json!([result["resultType"], result["ttlMs"], result["cacheScope"]]);
        match era {
            Era::Session => assert_eq!(hints, json!([null, null, null])),
            Era::Stateless => assert_eq!(hints, json!(["complete", 0, "private"])),
        }
        assert_eq!(result.get("nextCursor"), None);
        server.leave();
        result["tools"].take()
    });
    assert_eq!(lists[0], lists[1]);
    let tools = lists[0].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, TOOLS);
    for tool in tools {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
        }
        assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
    }
    let writes: Vec<_> = tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == false).collect();
    let writes: Vec<_> = writes.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    // Whoever talks to another machine changes something there, for all a client knows.
    let looks = [
        "calculator",
        "convert_temperature",
        "echo",
        "find",
        "generate_password",
        "generate_uuid",
        "get_time",
        "git_blame",
        "git_diff",
        "git_log",
        "git_show",
        "git_status",
        "grep",
        "hash_text",
        "html_parse",
        "json_format",
        "ls",
        "read",
        "recent_calls",
        "string_stats",
        "url_encode",
    ];
    let expected: Vec<_> = TOOLS.into_iter().filter(|name| !looks.contains(name)).collect();
    assert_eq!(writes, expected);
}

#[test]
fn a_call_is_answered_whole() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        let mut result = server.call("echo", json!({ "text": "grüß\ndich" }));
        let id = result["_meta"]["io.github.toolgate/outcome"]["call"].take();
        assert!(id.as_str().is_some_and(|id| id.len() == 36), "{id}");
        let mut expected = json!({
            "content": [{ "type": "text", "text": "grüß\ndich" }],
            "structuredContent": { "result": "grüß\ndich" },
            "isError": false,
            "_meta": { "io.github.toolgate/outcome": {
                "call": null, "status": "done", "code": null, "message": null, "remedy": null, "approval": null,
                "truncated": null, "labels": ["trusted", "public"], "findings": [],
            } },
        });
        if era == Era::Stateless {
            expected["resultType"] = json!("complete");
            expected["_meta"]["io.modelcontextprotocol/serverInfo"] =
                json!({ "name": "toolgate", "title": "Toolgate", "version": env!("CARGO_PKG_VERSION") });
        }
        assert_eq!(result, expected);
        server.leave();
    }
}

#[test]
fn files_of_the_workspace_are_written_and_read() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        let path = format!("{era:?}.txt");
        let written = server.call("write", json!({ "path": path, "content": "one\ntwo\n" }));
        assert_eq!(written["isError"], false, "{written}");
        assert_eq!(bench.text(&path), "one\ntwo\n");
        let read = server.call("read", json!({ "path": path }));
        assert_eq!((&read["structuredContent"]["path"], &read["isError"]), (&json!(path), &json!(false)), "{read}");
        server.leave();
    }
}

#[test]
fn whatever_goes_wrong_with_a_call_is_a_result_the_model_can_read() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        for (tool, arguments, code, status) in [
            ("calculator", json!({}), "invalid_arguments", "failed"),
            ("calculator", json!({ "expression": 1 }), "invalid_arguments", "failed"),
            ("calculator", json!({ "expression": "1", "more": 2 }), "invalid_arguments", "failed"),
            ("read", json!({ "path": "/etc/hostname" }), "path_outside_workspace", "refused"),
            ("read", json!({ "path": "../data/audit.db" }), "path_outside_workspace", "refused"),
        ] {
            let result = server.call(tool, arguments.clone());
            let outcome = &result["_meta"]["io.github.toolgate/outcome"];
            assert_eq!(result["isError"], true, "{arguments}: {result}");
            assert_eq!((&outcome["code"], &outcome["status"]), (&json!(code), &json!(status)), "{arguments}: {result}");
            assert_eq!(result.get("structuredContent"), None, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            for part in ["code", "message", "remedy"] {
                assert!(text.contains(outcome[part].as_str().unwrap()), "{part} is not in {text}");
            }
        }
        server.leave();
    }
}

#[test]
fn what_is_not_there_is_told_from_what_went_wrong() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        let answer = server.ask("tools/call", json!({ "name": "ech", "arguments": {} }));
        let expected = json!({
            "code": -32602,
            "message": "there is no tool `ech`",
            "data": {
                "code": "unknown_tool", "message": "there is no tool `ech`", "remedy": "Did you mean `echo`?",
            },
        });
        assert_eq!(answer["error"], expected);
        assert_eq!(server.ask("tools/call", json!({ "name": "echo", "arguments": [] }))["error"]["code"], -32602);
        assert_eq!(server.ask("tools/call", json!({ "arguments": {} }))["error"]["code"], -32602);
        assert_eq!(server.ask("tools/list", json!({ "cursor": "beyond" }))["error"]["code"], -32602);
        assert_eq!(server.ask("tools/burn", json!({}))["error"]["code"], -32601);
        server.leave();
    }
}

#[test]
fn lines_that_are_no_messages_are_answered_and_survived() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        let meta = stateless("2026-07-28");
        let echo = |arguments: &str| {
            let params = format!(r#"{{"name":"echo","arguments":{arguments},"_meta":{meta}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{params}}}"#).into_bytes()
        };
        let deep = format!("{{\"text\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        for (line, id, code) in [
            (b"hello".to_vec(), Value::Null, -32700),
            (b"\xff\xfe\x00".to_vec(), Value::Null, -32700),
            (b"\0\0\0\0".to_vec(), Value::Null, -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7".to_vec(), json!(7), -32700),
            (b"[]".to_vec(), Value::Null, -32600),
            (b"null".to_vec(), Value::Null, -32600),
            (b"{}".to_vec(), Value::Null, -32600),
            (echo(r#"{"text":"a","text":"b"}"#), json!(77), -32600),
            (echo(&deep), json!(77), -32600),
            (echo(r#"{"text":1e999}"#), json!(77), -32600),
        ] {
            server.say(&line);
            let answer = server.hear();
            let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{shown}: {answer}");
            assert_eq!(server.call("echo", json!({ "text": "alive" }))["isError"], false, "after {shown}");
        }
        server.say("");
        server.say("\r");
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#);
        server.say(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
        assert_eq!(server.call("echo", json!({ "text": "alive" }))["isError"], false);
        server.leave();
    }
}

#[test]
fn a_hundred_calls_at_once_are_answered_each_to_its_own() {
    let bench = Bench::new();
    for era in Era::BOTH {
        let mut server = Server::greet(&bench, era);
        let requests: Vec<_> = (0..100)
            .map(|n| {
                server.request("tools/call", json!({ "name": "echo", "arguments": { "text": format!("no {n}") } }))
            })
            .collect();
        let lines: Vec<_> = requests.iter().map(|(_, line)| line.as_str()).collect();
        server.say(lines.join("\n"));
        let mut answers: BTreeMap<_, _> = (0..100)
            .map(|_| server.hear())
            .map(|mut answer| (answer["id"].as_i64().unwrap(), answer["result"]["content"][0]["text"].take()))
            .collect();
        for (n, (id, _)) in requests.iter().enumerate() {
            assert_eq!(answers.remove(id), Some(json!(format!("no {n}"))));
        }
        server.leave();
    }
}

#[test]
fn every_call_is_recorded_before_it_leaves() {
    let bench = Bench::new();
    let mut server = Server::greet(&bench, Era::Session);
    let calls: Vec<Value> = (0..30)
        .map(|n| server.call("echo", json!({ "text": format!("no {n}") })))
        .map(|mut result| result["_meta"]["io.github.toolgate/outcome"]["call"].take())
        .collect();
    server.leave();
    let recorded = bench.run(&["audit", "tail", "100", "--json"]).exits(0).json();
    let ends = recorded.as_array().unwrap().iter().filter(|record| record["body"]["kind"] == "end");
    assert_eq!(ends.map(|record| record["body"]["call"].clone()).collect::<Vec<_>>(), calls);
}

#[test]
fn a_script_that_pipes_its_requests_in_gets_its_answers() {
    let bench = Bench::new();
    let call = |id: i64| {
        let params = json!({ "name": "echo", "arguments": { "text": "piped" }, "_meta": stateless("2026-07-28") });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let ran = bench.run_with(&["serve", "--stdio"], (1..=10).map(call).collect::<Vec<_>>().join("\n")).exits(0);
    let mut ids: Vec<_> = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    ids.sort_by_key(|answer| answer["id"].as_i64());
    let texts: Vec<_> = ids.iter().map(|answer| (&answer["id"], &answer["result"]["content"][0]["text"])).collect();
    let expected: Vec<_> = (1..=10).map(|id| (json!(id), json!("piped"))).collect();
    assert_eq!(texts, expected.iter().map(|(id, text)| (id, text)).collect::<Vec<_>>());
    assert_eq!(ran.stderr, "");
}

#[test]
fn it_leaves_when_nobody_says_anything() {
    let ran = Bench::new().run_with(&["serve", "--stdio"], "").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn it_leaves_when_nobody_listens() {
    let bench = Bench::new();
    let mut child = bench
        .command(&["serve", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    stdin.write_all(b"hello\n").unwrap();
    // Its input stays open: what tells it to leave is that its answer cannot be written.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stdin);
}

#[test]
fn it_speaks_over_sockets_as_well() {
    let bench = Bench::new();
    // Programs of Node give their children sockets for pipes.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = bench
        .command(&["serve", "--stdio"])
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    let answers = lines(ours.try_clone().unwrap());
    for id in 1..=20 {
        let params = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": stateless("2026-07-28") });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        writeln!(&ours, "{call}").unwrap();
        let answer: Value = serde_json::from_str(&answers.recv_timeout(PATIENCE).unwrap()).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(false)), "{answer}");
    }
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_leaves_when_nobody_listens_to_a_socket() {
    let bench = Bench::new();
    let (ours, stdin) = UnixStream::pair().unwrap();
    let (_, stdout) = UnixStream::pair().unwrap();
    let mut child =
        bench.command(&["serve", "--stdio"]).stdin(OwnedFd::from(stdin)).stdout(OwnedFd::from(stdout)).spawn().unwrap();
    writeln!(&ours, "hello").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn peer_python() {
    let Some(python) = env::var_os("TOOLGATE_PEER_PYTHON") else {
        return skipped("the official Python client: TOOLGATE_PEER_PYTHON is not set; `cargo xtask test` installs it");
    };
    let script = repository().join("tests/peers/python/client.py");
    peer(Command::new(python).arg(script));
}

#[test]
fn peer_typescript() {
    let Some(modules) = env::var_os("TOOLGATE_PEER_NODE_DIR") else {
        return skipped(
            "the official TypeScript client: TOOLGATE_PEER_NODE_DIR is not set; `cargo xtask test` installs it",
        );
    };
    let script = repository().join("tests/peers/typescript/client.mjs");
    peer(Command::new("node").arg(script).arg(PathBuf::from(modules)));
}

/// Runs a client to its end, over stdio; it takes a workspace, the binary and a data directory.
#[track_caller]
fn peer(command: &mut Command) {
    let bench = Bench::new();
    let output =
        command.arg("stdio").arg(bench.workspace()).arg(bin()).arg(bench.data()).output().expect("the client starts");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, said(&output.stdout), said(&output.stderr));
}

#[test]
fn a_terminal_stays_between_calls_and_shows_what_a_person_would_see() {
    let bench = Bench::new();
    let mut server = Server::greet(&bench, Era::Session);
    let opened = server.call("terminal_open", json!({ "columns": 60 }));
    let text = opened["content"][0]["text"].as_str().unwrap();
    if text.contains("wall_missing") {
        return skipped(format!("this machine has no rooms: {text}"));
    }
    let terminal = opened["structuredContent"]["terminal"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    let sent = server
        .call("terminal_send", json!({ "terminal": terminal, "text": "X=4; echo \"a$((X+1))b\"", "keys": ["enter"] }));
    assert_eq!(sent["isError"], false, "{sent}");
    let screen = wait_for(&mut server, &terminal, "a5b");
    assert_eq!(screen["running"], true, "{screen}");
    // A key stops what runs, and what was set is still there.
    let sleeps = "sh -c 'echo \"s$((3+4))t\"; exec sleep 600'";
    server.call("terminal_send", json!({ "terminal": terminal, "text": sleeps, "keys": ["enter"] }));
    wait_for(&mut server, &terminal, "s7t");
    server.call("terminal_send", json!({ "terminal": terminal, "keys": ["ctrl-c"] }));
    server.call("terminal_send", json!({ "terminal": terminal, "text": "echo \"c$((X+2))d\"", "keys": ["enter"] }));
    wait_for(&mut server, &terminal, "c6d");
    let closed = server.call("terminal_close", json!({ "terminal": terminal }));
    assert_eq!(closed["isError"], false, "{closed}");
    let gone = server.call("terminal_read", json!({ "terminal": terminal }));
    assert!(gone["content"][0]["text"].as_str().unwrap().contains("unknown_terminal"), "{gone}");
    server.leave();
}

/// Looks until the screen holds this text.
fn wait_for(server: &mut Server, terminal: &str, text: &str) -> Value {
    for _ in 0..30 {
        let mut seen = server.call("terminal_read", json!({ "terminal": terminal, "wait_ms": 1000 }));
        let screen = seen["structuredContent"].take();
        if screen["screen"].as_str().unwrap_or_else(|| panic!("{seen}")).contains(text) {
            return screen;
        }
    }
    panic!("`{text}` never came");
}
