//! The console as it is started: where it listens, what it prints where, who gets in, and tokens from the command line.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::{Value, json};
use toolgate_tests::Bench;

/// A console that was started.
struct Served {
    child: Child,
    host: String,
    code: String,
    stdin: Option<std::process::ChildStdin>,
}

impl Served {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let mut all = vec!["serve", "--http", "127.0.0.1:0"];
        all.extend_from_slice(args);
        let mut command = bench.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = |start: &str| lines.find_map(|line| line.strip_prefix(start).map(str::to_owned)).unwrap();
        let host = said("Console: http://");
        let code = said("Log in once, within ten minutes: ").rsplit_once('=').unwrap().1.to_owned();
        thread::spawn(move || lines.for_each(drop));
        let stdin = child.stdin.take();
        Self { child, host, code, stdin }
    }

    /// Sends a request and gives the status and the whole answer.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host);
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn json(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let bearer = format!("Bearer {token}");
        let (status, answer) = self.send(method, path, &[("Authorization", &bearer)], &body.to_string());
        (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
    }

    /// Asks it to end, and gives how it did.
    fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token(bench: &Bench, args: &[&str]) -> String {
    let mut all = vec!["tokens", "add"];
    all.extend_from_slice(args);
    let made = bench.run(&all).exits(0);
    assert!(made.stderr.contains("it is not shown again"), "{made}");
    made.stdout.trim().to_owned()
}

#[test]
fn it_serves_until_it_is_told_to_stop_and_leaves_a_sound_record() {
    let bench = Bench::new();
    let served = Served::start(&bench, &[]);
    let agent = token(&bench, &["--agent", "default"]);
    let call = json!({ "tool": "write", "arguments": { "path": "a.txt", "content": "x" } });
    let (status, outcome) = served.json("POST", "/api/calls", &agent, &call);
    assert_eq!((status, &outcome["status"]), (200, &json!("done")), "{outcome}");
    assert_eq!(bench.text("a.txt"), "x");
    // The same order of fields as everywhere.
    let (_, answer) =
        served.send("POST", "/api/calls", &[("Authorization", &format!("Bearer {agent}"))], &call.to_string());
    assert!(answer.split_once("\r\n\r\n").unwrap().1.starts_with("{\"call\":"), "{answer}");
    assert_eq!(served.stop(), Some(0));
    assert_eq!(bench.run(&["audit", "verify"]).exits(0).json()["open_intents"], json!([]));
}

#[test]
fn without_a_token_or_with_another_hosts_name_nothing_is_told() {
    let bench = Bench::new();
    let served = Served::start(&bench, &[]);
    for path in ["/api/calls", "/api/catalog", "/api/approvals", "/api/events"] {
        assert_eq!(served.send("GET", path, &[], "").0, 401, "{path}");
    }
    assert_eq!(served.send("GET", "/", &[], "").0, 303);
    let mut stream = TcpStream::connect(&served.host).unwrap();
    stream.write_all(b"GET /login HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
}

#[test]
fn the_link_lets_the_operator_in_once() {
    let bench = Bench::new();
    let served = Served::start(&bench, &[]);
    let origin = format!("http://{}", served.host);
    let headers = [("Origin", &*origin), ("Content-Type", "application/x-www-form-urlencoded")];
    let form = format!("code={}", served.code);
    let (status, answer) = served.send("POST", "/login", &headers, &form);
    assert_eq!(status, 303, "{answer}");
    let cookie = answer.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(served.send("POST", "/login", &headers, &form).0, 403);
    let (status, page) = served.send("GET", "/approvals", &[("Cookie", cookie)], "");
    assert!(status == 200 && page.contains("Nobody waits for an answer"), "{page}");
    // No secret is left on the disk: neither the code nor the session.
    let session = cookie.split_once('=').unwrap().1;
    for file in fs::read_dir(bench.data()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = fs::read(&file).unwrap();
        for secret in [&*served.code, session] {
            let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "{} holds a secret", file.display());
        }
    }
}

#[test]
fn with_stdio_it_speaks_mcp_there_and_ends_with_the_client() {
    let bench = Bench::new();
    let mut served = Served::start(&bench, &["--stdio"]);
    let mut stdin = served.stdin.take().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    writeln!(stdin, "{hello}").unwrap();
    let mut answer = String::new();
    BufReader::new(served.child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["id"], 1, "only MCP is on standard output");
    assert_eq!(served.send("GET", "/login", &[], "").0, 200);
    drop(stdin);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_so() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = bench.run(&["serve", "--http", &address]).exits(2);
    assert!(ran.stderr.contains(&address) && ran.stderr.contains("--http"), "{ran}");
    let ran = bench.run(&["serve", "--http", "127.0.0.1:0", "--http-host", "a b"]).exits(2);
    assert!(ran.stderr.contains("neither a host name nor an origin"), "{ran}");
}

#[test]
fn tokens_are_made_listed_rotated_and_revoked() {
    let bench = Bench::new();
    let served = Served::start(&bench, &[]);
    let first = token(&bench, &["--person", "ann", "--scope", "read", "--scope", "approve", "--days", "30"]);
    assert!(first.starts_with("tgt_") && first.len() == 68, "{first}");
    assert_eq!(served.json("GET", "/api/rooms", &first, &json!({})).0, 200);

    let listed = bench.run(&["tokens", "list"]).exits(0);
    assert!(!listed.stdout.contains(&first[4..]), "{listed}");
    let listed = listed.json();
    let id = listed[0]["id"].as_str().unwrap();
    let expected = (&json!("ann"), &json!(["read", "approve"]), &json!("holds"));
    assert_eq!((&listed[0]["principal"], &listed[0]["scopes"], &listed[0]["state"]), expected);

    let second = bench.run(&["tokens", "rotate", id]).exits(0).stdout.trim().to_owned();
    assert_eq!(served.json("GET", "/api/rooms", &first, &json!({})).0, 401);
    assert_eq!(served.json("GET", "/api/rooms", &second, &json!({})).0, 200);
    bench.run(&["tokens", "revoke", id]).exits(0);
    assert_eq!(served.json("GET", "/api/rooms", &second, &json!({})).0, 401);
    bench.run(&["tokens", "revoke", id]).exits(1);
    let state = bench.data().join("state.db");
    assert_eq!(fs::metadata(state).unwrap().permissions().mode() & 0o777, 0o600);
    // Each of it is in the record.
    let tail = bench.run(&["audit", "tail", "50"]).exits(0).stdout;
    for kind in ["token_added", "token_rotated", "token_revoked"] {
        assert!(tail.contains(kind), "{kind} in {tail}");
    }
    assert!(!tail.contains(&first[4..]) && !tail.contains(&second[4..]), "a secret is in the record");
}

#[test]
fn nobody_is_two_people_by_two_spellings_of_a_name() {
    let bench = Bench::new();
    bench.run(&["tokens", "add", "--person", "ann"]).exits(0);
    for name in ["Ann", "ann ", "\u{430}nn", "a\u{ff4e}n"] {
        let ran = bench.run(&["tokens", "add", "--person", name]).exits(3);
        assert!(ran.stderr.contains("name_taken") && ran.stdout.is_empty(), "{name}: {ran}");
    }
    bench.run(&["tokens", "add", "--person", "ann"]).exits(0);
    bench.run(&["tokens", "add", "--person", "anna"]).exits(0);
    assert_eq!(bench.run(&["tokens", "list"]).exits(0).json().as_array().unwrap().len(), 3);
}

#[test]
fn no_token_lets_an_agent_decide_or_a_person_pose_as_a_user() {
    let bench = Bench::new();
    for scope in ["read", "approve", "admin"] {
        let ran = bench.run(&["tokens", "add", "--agent", "default", "--scope", scope]).exits(3);
        assert!(ran.stderr.contains("scope_not_theirs") && ran.stdout.is_empty(), "{ran}");
    }
    bench.run(&["tokens", "add", "--person", "ann", "--scope", "call"]).exits(3);
    for name in ["user:root", "", " ", "a\nb", "\u{202e}nna", &"x".repeat(81)] {
        bench.run(&["tokens", "add", "--person", name]).exits(2);
    }
    bench.run(&["tokens", "add", "--agent", "nobody"]).exits(2);
    bench.run(&["tokens", "add"]).exits(2);
    bench.run(&["tokens", "add", "--agent", "default", "--person", "ann"]).exits(2);
    assert_eq!(bench.run(&["tokens", "list"]).exits(0).json(), json!([]));
}
