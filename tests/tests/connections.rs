//! Connections and their secrets: what a person sets up, what is sent where, and that no value is ever seen again.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, skipped};

const CANARY: &str = "canary-5e0b/77+cd=";

// ---- the vault ----

#[test]
fn a_secret_is_set_from_a_pipe_a_variable_or_a_file_and_never_shown() {
    let bench = Bench::new();
    bench.run_with(&["secrets", "set", "piped"], format!("{CANARY}\n")).exits(0);
    let mut command = bench.command(&["secrets", "set", "from-env", "--from-env", "FORGE_TOKEN"]);
    let from_env = Ran::of(command.env("FORGE_TOKEN", CANARY)).exits(0);
    assert_eq!(from_env.stdout, "from-env is set: write vault:from-env in a connection\n");
    let file = bench.put("token.txt", CANARY);
    let file = file.to_str().unwrap();
    bench.run(&["secrets", "set", "from-file", "--from-file", file]).exits(0);
    fs::remove_file(file).unwrap();

    let list = bench.run(&["secrets", "list", "--json"]).exits(0);
    let names: Vec<_> = list.json().as_array().unwrap().iter().map(|kept| kept["name"].clone()).collect();
    assert_eq!(names, ["from-env", "from-file", "piped"]);
    assert!(list.json()[0]["set_at"].as_str().unwrap().starts_with("20"), "{list}");
    bench.run(&["secrets", "remove", "piped"]).exits(0);
    assert!(bench.run(&["secrets", "remove", "piped"]).exits(1).stderr.contains("secret_missing"));
    assert_eq!(bench.run(&["secrets", "list"]).exits(0).json().as_array().unwrap().len(), 2);
    nowhere_in(&bench.data());
}

#[test]
fn a_secret_on_the_command_line_is_not_taken_and_not_repeated() {
    let bench = Bench::new();
    for args in [&["secrets", "set", "token", CANARY][..], &["secrets", "set", "token", "--", CANARY, "more"]] {
        unseen(bench.run(args).exits(2));
    }
    unseen(bench.run_with(&["secrets", "set", CANARY], "some value").exits(1));
    for value in ["", "abc\n", "\n"] {
        let ran = bench.run_with(&["secrets", "set", "token"], value).exits(1);
        assert!(ran.stderr.contains("secret_too_short") && ran.stdout.is_empty(), "{ran}");
    }
    let long = bench.run_with(&["secrets", "set", "token"], "x".repeat(1_000_000)).exits(1);
    assert!(long.stderr.contains("secret_too_long"), "{}", long.stderr);
    bench.run(&["secrets", "set", "token", "--from-env", "NOT_SET"]).exits(2);
    bench.run(&["secrets", "set", "token", "--from-file", "nowhere"]).exits(2);
    bench.run(&["secrets", "set", "token", "--from-file", "a", "--from-env", "B"]).exits(2);
    assert!(!bench.data().join("vault.age").exists());
}

#[test]
fn a_person_types_a_secret_and_nothing_of_it_is_shown() {
    let bench = Bench::new();
    // The second word takes back the first, and the last two letters of the third.
    let typed = format!("wrong\u{15}{CANARY}xé\u{7f}\u{7f}\r");
    let Some(shown) = type_at(&bench, &["secrets", "set", "token"], &typed) else {
        return skipped("`script` from util-linux is missing, so there is no terminal to type at");
    };
    assert!(shown.contains("Value of token: ") && shown.contains("token is set"), "{shown}");
    assert!(!shown.contains("canary") && !shown.contains("wrong"), "{shown}");
    assert_eq!(seen_by_a_server(&bench, "vault:token"), format!("Bearer {CANARY}"));
    let shown = type_at(&bench, &["secrets", "set", "other"], &format!("{CANARY}\u{3}")).unwrap();
    assert!(shown.contains("nothing was set") && !shown.contains("canary"), "{shown}");
    assert_eq!(bench.run(&["secrets", "list"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn the_key_to_the_vault_may_be_kept_elsewhere() {
    let bench = Bench::new();
    let key = bench.outside().join("key.txt");
    let with_key = |args: &[&str], input: &str| {
        let mut command = bench.command(args);
        Ran::fed(command.env("TOOLGATE_VAULT_IDENTITY", &key), input.as_bytes())
    };
    let missing = with_key(&["secrets", "set", "token"], CANARY).exits(1);
    assert!(missing.stderr.contains("vault_identity_missing") && !key.exists(), "{missing}");
    let donor = Bench::new();
    donor.run_with(&["secrets", "set", "x"], "a value").exits(0);
    fs::copy(donor.data().join("vault-identity.txt"), &key).unwrap();
    with_key(&["secrets", "set", "token"], CANARY).exits(0);
    assert!(!bench.data().join("vault-identity.txt").exists());
    bench.run(&["secrets", "list"]).exits(1);
    assert_eq!(with_key(&["secrets", "list"], "").exits(0).json().as_array().unwrap().len(), 1);
    // No tool reads it, wherever it is.
    let inside = bench.put("key.txt", fs::read(&key).unwrap());
    let mut command = bench.command(&["call", "read", r#"{"path":"key.txt"}"#]);
    let ran = Ran::of(command.env("TOOLGATE_VAULT_IDENTITY", &inside));
    assert!(ran.status != 0 && !ran.stdout.contains("AGE-SECRET-KEY"), "{ran}");
}

#[test]
fn a_damaged_vault_says_so_and_stays_as_it_is() {
    let bench = Bench::new();
    bench.run_with(&["secrets", "set", "token"], CANARY).exits(0);
    let file = bench.data().join("vault.age");
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 5);
    fs::write(&file, &bytes).unwrap();
    for args in [&["secrets", "list"][..], &["secrets", "remove", "token"], &["secrets", "set", "token"]] {
        let ran = unseen(bench.run_with(args, "another value").exits(1));
        assert!(ran.stderr.contains("vault_broken"), "{ran}");
    }
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

// ---- connections ----

#[test]
fn a_connection_is_added_listed_tried_and_removed() {
    let bench = Bench::new();
    let server = Server::start();
    let config = reachable(&bench);
    let run = |args: &[&str]| bench.run(&[&["--config", &config], args].concat());
    bench.run_with(&["secrets", "set", "token"], CANARY).exits(0);
    let url = server.url("/api/v1");
    let added = run(&[
        "connections",
        "add",
        "forge",
        "--base-url",
        &format!("{url}/"),
        "--kind",
        "forgejo",
        "--bearer",
        "vault:token",
        "--writes",
        "allow",
        "--rate-limit",
        "7",
        "--description",
        "a \"forge\": {x}",
    ])
    .exits(0);
    assert_eq!(added.stdout, "forge is added: try it with toolgate connections test forge\n");
    let mut list = run(&["connections", "list", "--json"]).exits(0).json();
    list[0]["source"].take();
    let expected = json!([{
        "name": "forge", "base_url": url, "kind": "forgejo", "auth": { "bearer": "vault:token" }, "sensitive": false,
        "writes": "allow", "rate_limit": 7, "description": "a \"forge\": {x}", "source": null,
    }]);
    assert_eq!(list, expected);

    let tried = unseen(run(&["connections", "test", "forge"]).exits(0)).json();
    let bytes = tried["bytes"].clone();
    assert_eq!(
        tried,
        json!({ "connection": "forge", "url": url, "status": 200, "ok": true, "content_type": "text/plain", "bytes": bytes })
    );
    let request = server.request();
    assert!(request.starts_with("GET /api/v1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("authorization: Bearer {CANARY}\r\n")), "{request}");

    let again = run(&["connections", "add", "forge", "--base-url", &url]).exits(2);
    assert!(again.stderr.contains("connections.yaml:3") && again.stderr.contains("already"), "{again}");
    let near = run(&["connections", "test", "forg"]).exits(3);
    assert!(near.stderr.contains("unknown_connection") && near.stderr.contains("`forge`"), "{near}");
    run(&["connections", "remove", "forg"]).exits(3);
    run(&["connections", "remove", "forge"]).exits(0);
    assert_eq!(run(&["connections", "list"]).exits(0).json(), json!([]));
    nowhere_in(&bench.data());
}

#[test]
fn a_connection_that_is_not_let_in_fails_its_test() {
    let bench = Bench::new();
    let config = reachable(&bench);
    for (status, exit) in [(401, 1), (403, 1), (404, 0), (302, 0), (500, 1)] {
        let server = Server::answering(status);
        let name = format!("c{status}");
        bench.run(&["connections", "add", &name, "--base-url", &server.url("")]).exits(0);
        let ran = bench.run(&["--config", &config, "connections", "test", &name]).exits(exit);
        assert_eq!((&ran.json()["status"], &ran.json()["ok"]), (&json!(status), &json!(exit == 0)), "{ran}");
    }
    // A server of this machine is not reached unless the operator says so, and a connection says nothing about that.
    let refused = bench.run(&["connections", "test", "c404"]).exits(3);
    assert!(refused.stderr.contains("address_refused"), "{refused}");
}

#[test]
fn every_way_to_prove_oneself_can_be_added_and_is_sent() {
    let bench = Bench::new();
    let server = Server::start();
    let config = reachable(&bench);
    let (base, token_url) = (server.url("/v1"), server.url("/token"));
    bench.run_with(&["secrets", "set", "token"], CANARY).exits(0);
    let sent = |name: &str, flags: &[&str]| {
        bench.run(&[&["connections", "add", name, "--base-url", &base], flags].concat()).exits(0);
        unseen(bench.run(&["--config", &config, "connections", "test", name]).exits(0));
        server.request()
    };
    let basic = STANDARD.encode(format!("me:{CANARY}"));
    assert!(sent("basic", &["--basic", "me:vault:token"]).contains(&format!("authorization: Basic {basic}\r\n")));
    assert!(sent("header", &["--header", "X-Key=vault:token"]).contains(&format!("x-key: {CANARY}\r\n")));
    let two = sent("two", &["--header", "X-Key=vault:token", "--header", "X-Id=vault:token"]);
    assert!(two.contains(&format!("x-key: {CANARY}\r\n")) && two.contains(&format!("x-id: {CANARY}\r\n")), "{two}");
    assert!(!sent("none", &[]).contains("authorization"));
    let oauth = [
        "--oauth2-token-url",
        &token_url,
        "--oauth2-client-id",
        "toolgate",
        "--oauth2-client-secret",
        "vault:token",
        "--oauth2-scope",
        "read",
    ];
    let asked = sent("oauth", &oauth);
    let client = STANDARD.encode(format!("toolgate:{}", "canary-5e0b%2F77%2Bcd%3D"));
    assert!(asked.starts_with("POST /token HTTP/1.1\r\n") && asked.contains(&format!("Basic {client}\r\n")), "{asked}");
    assert!(asked.ends_with("\r\n\r\ngrant_type=client_credentials&scope=read"), "{asked}");
    assert!(server.request().contains("authorization: Bearer fresh-access-token\r\n"));
    for flags in [
        &["--bearer", "vault:a", "--basic", "me:vault:a"][..],
        &["--bearer", "vault:a", "--header", "A=vault:a"],
        &["--oauth2-client-id", "a"],
        &["--oauth2-token-url", "https://a.example.com"],
        &["--header", "X-Key"],
        &["--basic", "me"],
    ] {
        bench.run(&[&["connections", "add", "bad", "--base-url", &base], flags].concat()).exits(2);
    }
}

#[test]
fn what_is_taken_for_a_reference_and_is_a_secret_is_not_repeated() {
    let bench = Bench::new();
    for flags in [
        &["--bearer", CANARY][..],
        &["--basic", &format!("me:{CANARY}")],
        &["--basic", CANARY],
        &["--header", &format!("X-Key={CANARY}")],
        &["--header", CANARY],
        &["--oauth2-token-url", "https://a.example.com", "--oauth2-client-id", "x", "--oauth2-client-secret", CANARY],
    ] {
        let args = [&["connections", "add", "api", "--base-url", "https://api.example.com"], flags].concat();
        let ran = unseen(bench.run(&args).exits(2));
        assert!(!ran.stderr.contains("canary"), "{ran}");
    }
    let url = format!("https://me:{CANARY}@api.example.com");
    let ran = unseen(bench.run(&["connections", "add", "api", "--base-url", &url]).exits(2));
    assert!(!ran.stderr.contains("canary"), "{ran}");
    let config = bench.put(
        "config.yaml",
        format!("connections: {{ a: {{ base_url: 'https://a.example.com', auth: {{ bearer: '{CANARY}' }} }} }}\n"),
    );
    let ran = unseen(bench.run(&["check", config.to_str().unwrap()]).exits(2));
    assert!(ran.stderr.contains("toolgate secrets set") && !ran.stderr.contains("canary"), "{ran}");
    assert!(!bench.data().join("connections.yaml").exists());
}

#[test]
fn connections_of_a_config_are_seen_and_removed_where_they_stand() {
    let bench = Bench::new();
    let config = bench.put("own.yaml", "connections: { mine: { base_url: 'https://api.example.com' } }\n");
    let config = config.to_str().unwrap();
    let list = bench.run(&["--config", config, "connections", "list"]).exits(0).json();
    assert_eq!((&list[0]["name"], &list[0]["source"]["line"]), (&json!("mine"), &json!(1)));
    let ran = bench.run(&["--config", config, "connections", "remove", "mine"]).exits(2);
    assert!(ran.stderr.contains("own.yaml:1"), "{ran}");
    // Added where nobody knew of the other, they clash where both are read.
    bench.run(&["connections", "add", "mine", "--base-url", "https://b.example.com"]).exits(0);
    let clash = bench.run(&["--config", config, "tools"]).exits(2);
    assert!(clash.stderr.contains("there is a connection `mine` already"), "{clash}");
    // A project's own file does not get to add any.
    bench.put("toolgate.yaml", "connections: { evil: { base_url: 'https://evil.example.com' } }\n");
    let refused = bench.run(&["connections", "list"]).exits(2);
    assert!(refused.stderr.contains("not trusted yet"), "{refused}");
}

// ---- what comes back ----

#[test]
fn a_server_that_repeats_the_secret_tells_the_agent_nothing() {
    let bench = Bench::new();
    let server = Server::start();
    let config = reachable(&bench);
    let file = bench.put("token.txt", CANARY);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    bench.run_with(&["secrets", "set", "token"], CANARY).exits(0);
    let reference = format!("file:{}", file.display());
    for (name, flags) in [("bearer", ["--bearer", "vault:token"]), ("basic", ["--basic", &format!("me:{reference}")])] {
        bench.run(&[&["connections", "add", name, "--base-url", &server.url("/v1")], &flags[..]].concat()).exits(0);
        let arguments = json!({ "connection": name, "method": "GET", "path": "/echo" });
        let ran = unseen(bench.run(&["--config", &config, "call", "external_data", &arguments.to_string()]));
        let outcome = ran.done();
        assert!(outcome["text"].as_str().unwrap().contains("[redacted:token"), "{outcome}");
        assert!(server.request().contains("authorization: "));
    }
    // Nor does a tool that reads files, a program, or the record.
    for (tool, arguments) in [
        ("read", json!({ "path": "token.txt" })),
        ("bash", json!({ "command": "cat token.txt || true" })),
        ("grep", json!({ "pattern": "canary" })),
    ] {
        unseen(bench.run(&["--config", &config, "call", tool, &arguments.to_string()]));
    }
    unseen(bench.run(&["--config", &config, "audit", "export"]).exits(0));
    nowhere_in(&bench.data());
}

#[test]
fn a_secret_file_others_can_read_is_not_sent() {
    let bench = Bench::new();
    let server = Server::start();
    let config = reachable(&bench);
    let file = bench.outside().join("token");
    fs::write(&file, CANARY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let reference = format!("file:{}", file.display());
    bench.run(&["connections", "add", "api", "--base-url", &server.url(""), "--bearer", &reference]).exits(0);
    let ran = unseen(bench.run(&["--config", &config, "connections", "test", "api"]).exits(3));
    assert!(ran.stderr.contains("secret_exposed") && ran.stderr.contains("chmod 600"), "{ran}");
    assert!(server.requests.try_recv().is_err());
}

// ---- helpers ----

/// A config with which this machine's own servers are reached, and an agent that may use connections.
fn reachable(bench: &Bench) -> String {
    let text = "egress: { hostname_allowlist: ['127.0.0.1'] }\npolicy: { allowed: { actions: [external_data] } }\n";
    let file = bench.outside().join("config.yaml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What a server gets as `authorization` from a connection with this secret.
fn seen_by_a_server(bench: &Bench, reference: &str) -> String {
    let server = Server::start();
    let config = reachable(bench);
    bench.run(&["connections", "add", "seen", "--base-url", &server.url(""), "--bearer", reference]).exits(0);
    bench.run(&["--config", &config, "connections", "test", "seen"]).exits(0);
    let request = server.request();
    let line = request.lines().find_map(|line| line.strip_prefix("authorization: "));
    line.unwrap_or_else(|| panic!("{request}")).to_owned()
}

/// A server that gives back what it was sent in every spelling a server could, and notes it.
struct Server {
    port: u16,
    requests: Receiver<String>,
}

impl Server {
    fn start() -> Self {
        Self::answering(200)
    }

    fn answering(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (noted, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read_request(&stream) else { continue };
                answer(stream, status, &request);
                if noted.send(request).is_err() {
                    return;
                }
            }
        });
        Self { port, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The next request, with its body.
    fn request(&self) -> String {
        self.requests.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn read_request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
    }
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(request + &String::from_utf8(body).ok()?)
}

fn answer(mut stream: TcpStream, status: u16, request: &str) {
    let line = request.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    let value = line.split_once(' ').map_or("", |(_, value)| value);
    let escaped: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (kind, body) = if request.starts_with("POST /token ") {
        (
            "application/json",
            json!({ "access_token": "fresh-access-token", "token_type": "Bearer", "expires_in": 600 }).to_string(),
        )
    } else {
        let page = format!(
            "{request}\n{value}\n{line}\n{}\n{}\n{}",
            STANDARD.encode(line),
            STANDARD.encode(value),
            escaped.len()
        );
        ("text/plain", page)
    };
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\nx-echo: {line}\r\nlocation: /{}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        value.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D"),
        body.len()
    );
    // A client that has seen enough is no failure of the server.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Every spelling of the canary that is looked for.
fn spellings() -> Vec<String> {
    let hex = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut spellings = vec![CANARY.to_owned(), hex.to_uppercase(), hex, "canary-5e0b%2F77%2Bcd%3D".to_owned()];
    for before in ["", "x", "xx"] {
        // The digits that are the same whatever stands around it.
        let whole = STANDARD.encode(format!("{before}{CANARY}"));
        spellings.push(whole[4..whole.len() - 4].to_owned());
    }
    spellings
}

/// Asserts that neither output shows the canary, and gives the run back.
#[track_caller]
fn unseen(ran: Ran) -> Ran {
    for spelling in spellings() {
        assert!(!ran.stdout.contains(&spelling) && !ran.stderr.contains(&spelling), "{spelling} in {ran}");
    }
    ran
}

/// Asserts that no file below this directory holds the canary.
#[track_caller]
fn nowhere_in(dir: &Path) {
    let mut read = 0;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.is_file() {
                let bytes = fs::read(&path).unwrap();
                for spelling in spellings() {
                    let found = bytes.windows(spelling.len()).any(|part| part == spelling.as_bytes());
                    assert!(!found, "{spelling} in {}", path.display());
                }
                read += 1;
            }
        }
    }
    assert!(read > 0, "nothing was read");
}

/// What a terminal shows while this is typed at it, once the program asks; none where there is no `script`.
fn type_at(bench: &Bench, args: &[&str], typed: &str) -> Option<String> {
    let line = bench.command(args);
    let words = [line.get_program()].into_iter().chain(line.get_args());
    let quoted: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &quoted.join(" "), "/dev/null"]).current_dir(bench.workspace()).env_clear();
    script.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SHELL", "/bin/sh");
    script.env("NO_COLOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().ok()?;
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut byte = [0];
    while !shown.ends_with(b": ") && screen.read(&mut byte).unwrap() == 1 {
        shown.extend(byte);
    }
    keys.write_all(typed.as_bytes()).unwrap();
    screen.read_to_end(&mut shown).unwrap();
    drop(keys);
    child.wait().unwrap();
    Some(String::from_utf8(shown).unwrap().replace("\r\n", "\n"))
}

/// A value of JSON is looked at as the text it is.
#[test]
fn the_canary_would_be_found() {
    let page = |text: String| Ran { status: 0, stdout: text, stderr: String::new() };
    let shown = [
        format!("x{CANARY}x"),
        STANDARD.encode(format!("Bearer {CANARY}")),
        STANDARD.encode(format!("me:{CANARY}:")),
        CANARY.bytes().map(|byte| format!("{byte:02X}")).collect(),
        Value::from(CANARY).to_string(),
    ];
    for text in shown {
        assert!(spellings().iter().any(|spelling| page(text.clone()).stdout.contains(spelling)), "{text}");
    }
}
