//! People in the loop, from outside: what they look at, how they are told, and what they say about effects.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_tests::{Bench, Ran, skipped};

/// Far longer than anything here takes. What does not come until then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

fn bench(config: &str) -> Bench {
    let bench = Bench::new();
    let path = bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, config).unwrap();
    bench
}

/// The question a call leads to.
fn asked(bench: &Bench, tool: &str, arguments: Value) -> Value {
    let outcome = bench.call(tool, &arguments).exits(4).json();
    bench.run(&["approvals", "show", outcome["approval"].as_str().unwrap(), "--json"]).exits(0).json()
}

// ---- what people look at ----

const SUPERVISED: &str = "autonomy: { default: supervised }\n";

#[test]
fn a_change_is_shown_as_a_difference_in_which_nothing_hides() {
    let bench = bench(SUPERVISED);
    bench.put("a.txt", "one\ntwo\nthree\n");
    let picture = |tool: &str, arguments: Value| asked(&bench, tool, arguments)["question"]["picture"].clone();
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "two", "new": "t\u{200b}wo \u{202e}" }] });
    let expected = json!({
        "diff": "changed file a.txt (14 bytes before, 21 after)\n@@ -1,3 +1,3 @@\n one\n-two\n+t\\u{200b}wo \\u{202e}\n three\n",
        "summary": ["makes or changes `a.txt`"],
    });
    assert_eq!(picture("edit", edit), expected);
    let new = picture("write", json!({ "path": "b.txt", "content": "x\n" }));
    assert_eq!(new["diff"], "new file b.txt (2 bytes)\n@@ -0,0 +1 @@\n+x\n");
    let gone = picture("delete", json!({ "path": "a.txt" }));
    assert!(gone["diff"].as_str().unwrap().starts_with("deleted file a.txt (14 bytes)\n"), "{gone}");
    assert_eq!(gone["summary"], json!(["deletes, for good, `a.txt`"]));
    assert_eq!(bench.text("a.txt"), "one\ntwo\nthree\n", "a look changes nothing");
}

#[test]
fn what_cannot_be_shown_does_not_stand_in_the_way_of_the_question() {
    let bench = bench(SUPERVISED);
    bench.put("a.txt", "one\n");
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "nowhere", "new": "" }] });
    let picture = &asked(&bench, "edit", edit)["question"]["picture"];
    assert!(picture["diff"].is_null() && picture["no_diff"].as_str().unwrap().contains("nowhere"), "{picture}");
    // What lies outside is not looked at for the sake of a picture.
    fs::write(bench.outside().join("secret"), "s3cret").unwrap();
    std::os::unix::fs::symlink(bench.outside().join("secret"), bench.workspace().join("link")).unwrap();
    let picture = &asked(&bench, "write", json!({ "path": "link", "content": "" }))["question"]["picture"];
    assert!(picture["diff"].is_null() && !picture.to_string().contains("s3cret"), "{picture}");
}

#[test]
fn a_credential_in_a_file_is_not_in_the_picture() {
    let bench = bench(SUPERVISED);
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6");
    bench.put(".env", format!("TOKEN={token}\n"));
    let question = asked(&bench, "write", json!({ "path": ".env", "content": "TOKEN=\n" }));
    let diff = question["question"]["picture"]["diff"].as_str().unwrap();
    assert!(diff.contains("-TOKEN=") && !question.to_string().contains(&token), "{diff}");
}

#[test]
fn the_exact_command_is_shown() {
    let bench = bench("policy: { ask: { tools: [shell, bash] } }\n");
    let command =
        |tool: &str, arguments: Value| asked(&bench, tool, arguments)["question"]["picture"]["command"].clone();
    assert_eq!(command("bash", json!({ "argv": ["printf", "%s", "a b", "it's"] })), r"printf %s 'a b' 'it'\''s'");
    assert_eq!(command("shell", json!({ "script": "ls\nls -l" })), "ls\nls -l");
}

#[test]
fn a_person_at_a_terminal_sees_it_all() {
    let bench = bench(SUPERVISED);
    bench.put("a.txt", "one\n");
    let question = asked(&bench, "write", json!({ "path": "a.txt", "content": "o\u{200b}n\u{fe0f}e\n" }));
    let line = format!("'{}' approvals show {}", toolgate_tests::bin().display(), question["id"].as_str().unwrap());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(bench.workspace()).env_clear().stdin(Stdio::null());
    script.env("HOME", bench.home()).env("TOOLGATE_DATA_DIR", bench.data()).env("SHELL", "/bin/sh");
    let Ok(output) = script.env("PATH", std::env::var_os("PATH").unwrap()).output() else {
        return skipped("`script` from util-linux is missing, so there is no terminal to look at");
    };
    let page = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
    let change =
        "change\n  changed file a.txt (4 bytes before, 10 after)\n  @@ -1 +1 @@\n  -one\n  +o\\u{200b}n\\u{fe0f}e\n";
    assert!(page.contains(change) && page.contains("\nit         makes or changes `a.txt`\n"), "{page}");
    assert!(!page.contains(['\u{200b}', '\u{fe0f}']), "{page}");
}

#[test]
fn a_question_about_whose_words_they_are_says_so() {
    let sink = "information_flow: { sinks: [{ tool: write, argument: path, from: user }] }\n";
    let write = || json!({ "path": "a", "content": "" });
    assert_eq!(asked(&bench(sink), "write", write())["question"]["labels"], json!(["steered"]));
    assert_eq!(asked(&bench(SUPERVISED), "write", write())["question"]["labels"], json!([]));
}

#[test]
fn a_no_says_why_and_the_agent_is_told() {
    let bench = bench(SUPERVISED);
    let write = json!({ "path": "a.txt", "content": "x" });
    let id = asked(&bench, "write", write.clone())["id"].as_str().unwrap().to_owned();
    for said in [&[][..], &["--reason", ""], &["--reason", " "]] {
        let ran = bench.run(&[&["approvals", "deny", &id], said].concat()).exits(1);
        assert!(ran.stderr.contains("error[reason_missing]") && ran.stderr.contains("help: Say why."), "{ran}");
    }
    bench.run(&["approvals", "deny", &id, "--reason", "not on a Friday"]).exits(0);
    let told = bench.call("write", &write).refused("approval_denied");
    assert!(told["message"].as_str().unwrap().contains("not on a Friday"), "{told}");
}

#[test]
fn a_grant_is_for_a_tool_there_is_and_for_its_definition() {
    let bench = bench(SUPERVISED);
    let grant = |tool: &str| {
        let everything = ["--where", "path=**", "--where", "content=**", "--times", "9"];
        bench.run(&[&["approvals", "grant", "--agent", "default", "--tool", tool], &everything[..]].concat())
    };
    let nothing = grant("no_such_tool").exits(1);
    assert!(nothing.stderr.contains("error[unknown_tool]") && nothing.stderr.contains("help: "), "{nothing}");
    grant("write").exits(0);
    let stale = || {
        let listed = bench.run(&["approvals", "grants", "--json"]).exits(0).json();
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
        listed[0]["stale"].clone()
    };
    let write = json!({ "path": "a.txt", "content": "x" });
    assert_eq!(stale(), false);
    bench.call("write", &write).done();
    // As if the tool had been another when the grant was given.
    let state = Connection::open(bench.data().join("state.db")).unwrap();
    let hash = format!("sha256:{}", "00".repeat(32));
    let changed = state.execute("UPDATE grants SET terms = json_set(terms, '$.definition', ?1)", [hash]).unwrap();
    assert_eq!((changed, stale()), (1, json!(true)));
    bench.call("write", &write).exits(4);
}

// ---- effects ----

/// A server that answers the first requests as it is told, and then not at all. What it was sent.
fn serve(answers: &'static [&'static str]) -> (String, mpsc::Receiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (sender, sent) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let request = Sent::read(&stream);
            sender.send(request).unwrap();
            // An empty answer breaks the connection off.
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    (host, sent)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A request that arrived.
#[derive(Debug)]
struct Sent {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Sent {
    fn read(stream: &TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut lines = BufReader::new(stream);
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            if line.trim_end().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        lines.read_exact(&mut body).unwrap();
        Self { headers, body: String::from_utf8(body).unwrap() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no `{name}` in {self:?}"))
    }
}

#[test]
fn an_effect_nobody_knows_about_waits_for_a_person_and_its_key_goes_on() {
    let (host, sent) = serve(&["", BROKEN, OK]);
    let bench = bench(&format!("egress: {{ hostname_allowlist: ['{host}'] }}\n"));
    let arguments = json!({ "method": "POST", "url": format!("http://{host}/"), "body": "x" }).to_string();
    let call = |key: &str| bench.run(&["call", "http_request", &arguments, "--key", key]);
    let resolve =
        |key: &str, rest: &[&str]| bench.run(&[&["effects", "resolve", "default", "http_request", key], rest].concat());
    let listed = |args: &[&str]| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let effects = bench.run(&[&["effects", "list", "--json"], args].concat()).exits(0).json();
        effects.as_array().unwrap().iter().map(|it| (text(&it["key"]["key"]), text(&it["state"]))).collect()
    };
    assert_eq!(call("order-1").json()["status"], "failed");
    call("order-2").failed("answer_uncertain");
    assert_eq!(sent.recv_timeout(PATIENCE).unwrap().header("idempotency-key"), "order-1");
    let unknown = |key: &str| (key.to_owned(), "unknown".to_owned());
    assert_eq!(listed(&[]), [unknown("order-2"), unknown("order-1")]);
    call("order-1").refused("effect_unknown");

    assert!(resolve("order-1", &[]).status == 2 && resolve("order-1", &["--happened", "--did-not-happen"]).status == 2);
    assert_eq!(resolve("order-1", &["--did-not-happen", "--note", "x"]).status, 2);
    resolve("order-1", &["--happened", "--note", "seen in the shop"]).exits(0);
    resolve("order-2", &["--did-not-happen"]).exits(0);
    resolve("order-2", &["--did-not-happen"]).exits(1);
    let again = call("order-1").done();
    assert_eq!((&again["replayed"], &again["text"]), (&json!(true), &json!("seen in the shop")));
    call("order-2").done();
    assert_eq!(listed(&[]), []);
    assert_eq!(listed(&["--all"]).len(), 2);
    assert_eq!(sent.try_iter().map(|it| it.header("idempotency-key").to_owned()).collect::<Vec<_>>(), ["order-2"; 2]);

    let own = json!({ "url": format!("http://{host}/"), "headers": { "Idempotency-Key": "own" } }).to_string();
    bench.run(&["call", "http_request", &own, "--key", "order-3"]).failed("key_twice");
    assert!(!listed(&[]).iter().any(|(key, _)| key == "order-3"), "nothing was sent, so nothing is unknown");
}

// ---- autonomy ----

#[test]
fn an_agent_that_is_held_back_is_let_go_by_a_person() {
    let bench = bench("agents: { default: { budget: { day: { calls: 1 } } } }\n");
    let autonomy = || {
        let shown = bench.run(&["autonomy", "show", "default", "--json"]).exits(0).json();
        let held: Vec<_> = shown["held_back"].as_array().unwrap().iter().map(|latch| latch["kind"].clone()).collect();
        (shown["autonomy"].as_str().unwrap().to_owned(), held)
    };
    assert_eq!(autonomy(), ("full".to_owned(), vec![]));
    bench.call("write", &json!({ "path": "a", "content": "" })).exits(0);
    bench.call("write", &json!({ "path": "b", "content": "" })).exits(4);
    assert_eq!(autonomy(), ("supervised".to_owned(), vec![json!("budget_exhausted")]));
    bench.run(&["autonomy", "release", "default", "error_rate"]).exits(1);
    bench.run(&["autonomy", "release", "default", "boredom"]).exits(2);
    bench.run(&["autonomy", "release", "nobody", "budget_exhausted"]).exits(3);
    bench.run(&["autonomy", "release", "default", "budget_exhausted"]).exits(0);
    assert_eq!(autonomy(), ("full".to_owned(), vec![]));
}

// ---- channels ----

/// A server of MCP with a client that has said hello.
struct Serving {
    child: Child,
    input: ChildStdin,
}

impl Serving {
    fn start(bench: &Bench, environment: &[(&str, &str)]) -> Self {
        let mut command = bench.command(&["serve", "--stdio"]);
        command.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        } });
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(input, "{hello}\n{ready}").unwrap();
        Self { child, input }
    }

    /// Makes a call. Nobody waits for its answer.
    fn call(&mut self, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        writeln!(self.input, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }))
            .unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have left by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As whoever listens would check it, with nothing of ours.
fn hmac(secret: &str, message: &str) -> String {
    let pad = |with: u8| -> Vec<u8> {
        let mut key = secret.as_bytes().to_vec();
        key.resize(64, 0);
        key.iter().map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn people_are_told_over_channels_that_try_again() {
    let (hook, hooked) = serve(&[BROKEN, OK]);
    let (slack, slacked) = serve(&[OK]);
    let bench = bench(&format!(
        "{SUPERVISED}egress: {{ hostname_allowlist: ['{hook}', '{slack}'] }}\n\
         approvals:\n  channels:\n    - webhook: {{ url: 'http://{hook}/hook', secret: 'env:HOOK_SECRET' }}\n    \
         - slack: {{ url: 'env:SLACK_URL' }}\n"
    ));
    let url = format!("http://{slack}/T0/B0");
    let mut serving = Serving::start(&bench, &[("HOOK_SECRET", "tell-nobody"), ("SLACK_URL", &url)]);
    serving.call("write", json!({ "path": "<!channel>", "content": "x" }));

    let mut nonces = BTreeSet::new();
    for _ in 0..2 {
        let sent = hooked.recv_timeout(PATIENCE).unwrap();
        let (timestamp, nonce) = (sent.header("toolgate-timestamp"), sent.header("toolgate-nonce"));
        let expected = format!("v1={}", hmac("tell-nobody", &format!("{timestamp}.{nonce}.{}", sent.body)));
        assert_eq!(sent.header("toolgate-signature"), expected);
        assert!(nonces.insert(nonce.to_owned()), "a second try is no replay of the first");
        let told: Value = serde_json::from_str(&sent.body).unwrap();
        let names: BTreeSet<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "action agent class event expires id people reasons risk summary tool";
        assert_eq!(names, expected.split(' ').collect::<BTreeSet<_>>());
        assert_eq!((&told["event"], &told["tool"], &told["people"]), (&json!("asked"), &json!("write"), &json!(1)));
    }
    let sent = slacked.recv_timeout(PATIENCE).unwrap();
    let told: Value = serde_json::from_str(&sent.body).unwrap();
    let quiet = json!({ "mrkdwn": false, "unfurl_links": false, "unfurl_media": false });
    for (name, value) in quiet.as_object().unwrap() {
        assert_eq!(&told[name], value, "{name}");
    }
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("`&lt;!channel&gt;`") && !text.contains('<'), "{text}");
    assert!(text.contains("\ntoolgate approvals approve apr_"), "{text}");
}

#[test]
fn whoever_serves_escalates_what_nobody_answers_and_tells() {
    let (hook, hooked) = serve(&[OK, OK]);
    let bench = bench(&format!(
        "{SUPERVISED}egress: {{ hostname_allowlist: ['{hook}'] }}\n\
         approvals:\n  channels: [{{ webhook: {{ url: 'http://{hook}/', secret: 'env:HOOK_SECRET' }} }}]\n  \
         hold: 1s\n  timeout: {{ escalation: [{{ to: [ann], after: 2s }}, {{ to: [bob], after: 1h }}] }}\n"
    ));
    // The call has gone by then: it is the server who looks.
    let mut serving = Serving::start(&bench, &[("HOOK_SECRET", "tell-nobody")]);
    serving.call("write", json!({ "path": "a", "content": "x" }));
    let told = || serde_json::from_str::<Value>(&hooked.recv_timeout(PATIENCE).unwrap().body).unwrap();
    let (first, second) = (told(), told());
    assert_eq!((&first["event"], &second["event"]), (&json!("asked"), &json!("escalated")));
    assert_eq!(first["id"], second["id"]);
}

#[test]
fn a_channel_is_written_one_way_and_its_secret_elsewhere() {
    let check = |channels: &str, said: &str| {
        let bench = Bench::new();
        let file = bench.put("own.yaml", format!("approvals: {{ channels: [{channels}] }}\n"));
        let ran: Ran = bench.run(&["check", file.to_str().unwrap()]);
        assert_eq!(ran.status, if said.is_empty() { 0 } else { 2 }, "{channels}\n{ran}");
        assert!(ran.to_string().contains(said) && !ran.to_string().contains("hunter2"), "{channels}\n{ran}");
    };
    check("{webhook: {url: 'https://ops.example.com/hook', secret: 'env:HOOK'}}, {slack: {url: 'vault:s'}}", "");
    check("{webhook: {url: 'https://ops.example.com/hook', secret: 'hunter2'}}", "stands in the config");
    check("{webhook: {url: 'https://ops.example.com/hook'}}", "a channel is");
    check("{slack: {url: 'ftp://hunter2'}}", "no plain");
    check("{slack: {url: 'vault:s', secret: 'env:S'}}", "a channel is");
    check("{pager: {url: 'vault:s'}}", "pager");
}
