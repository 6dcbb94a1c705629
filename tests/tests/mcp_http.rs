//! MCP over HTTP from outside: raw requests to the port of `toolgate serve --http`, with tokens made on the command line.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use toolgate_tests::{Bench, TOOLS};

/// The revision in which every request says what it speaks.
const MODERN: &str = "2026-07-28";
/// The last one that begins with `initialize`.
const LEGACY: &str = "2025-11-25";

/// A server that was started, and what it said about itself.
struct Served {
    child: Child,
    host: String,
    code: String,
    client: Value,
}

impl Served {
    fn start(bench: &Bench) -> Self {
        let mut command = bench.command(&["serve", "--http", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = |start: &str| lines.find_map(|line| line.strip_prefix(start).map(str::to_owned)).unwrap();
        let host = said("Console: http://");
        let code = said("Log in once, within ten minutes: ").rsplit_once('=').unwrap().1.to_owned();
        let client = serde_json::from_str(&said("Client: ")).unwrap();
        thread::spawn(move || lines.for_each(drop));
        Self { child, host, code, client }
    }

    /// Sends a request as it is, and gives what came back.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
        let own = [("Host", &*self.host)];
        let hosts: &[_] = if headers.iter().any(|(name, _)| *name == "Host") { &[] } else { &own };
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in hosts.iter().chain(headers) {
            text += &format!("{name}: {value}\r\n");
        }
        let body = body.as_ref();
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        // Who refuses a body need not have read it.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Reply(String::from_utf8(answer).unwrap())
    }

    fn client<'a>(&'a self, token: &'a str) -> Client<'a> {
        Client { served: self, bearer: format!("Bearer {token}"), session: None }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer, from its first line on.
#[derive(Debug)]
struct Reply(String);

impl Reply {
    fn status(&self) -> u16 {
        self.0.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {}", self.0)).parse().unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let head = self.0.split_once("\r\n\r\n").unwrap().0;
        head.lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|it| it.1)
    }

    /// The messages in it: one as JSON, or each event of a stream.
    fn messages(&self) -> Vec<Value> {
        let body = self.0.split_once("\r\n\r\n").unwrap().1;
        match self.header("content-type") {
            Some("text/event-stream") => body
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .filter_map(|it| serde_json::from_str(it).ok())
                .collect(),
            _ => vec![serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {}", self.0))],
        }
    }

    fn json(&self) -> Value {
        let mut messages = self.messages();
        assert_eq!(messages.len(), 1, "{}", self.0);
        messages.remove(0)
    }

    /// Status and code of a problem.
    fn problem(&self) -> (u16, String) {
        (self.status(), self.json()["code"].as_str().unwrap().to_owned())
    }

    /// Status and number of an error of JSON-RPC.
    fn error(&self) -> (u16, i64) {
        (self.status(), self.json()["error"]["code"].as_i64().unwrap())
    }
}

/// Somebody with a token.
struct Client<'a> {
    served: &'a Served,
    bearer: String,
    session: Option<String>,
}

impl Client<'_> {
    fn send(&self, method: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
        let mut all = vec![
            ("Authorization", &*self.bearer),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        all.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        all.extend_from_slice(headers);
        self.served.send(method, "/mcp", &all, body)
    }

    /// One request of the revision without sessions, with the headers that repeat it.
    fn modern(&self, method: &str, params: Value) -> Reply {
        let request = modern(method, params);
        let params = &request["params"];
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let mut headers = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)];
        headers.extend((!name.is_empty()).then_some(("Mcp-Name", &*name)));
        self.send("POST", &headers, request.to_string())
    }

    /// One request within a session.
    fn legacy(&self, method: &str, params: Value) -> Reply {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.send("POST", &[("MCP-Protocol-Version", LEGACY)], request.to_string())
    }

    /// Begins a session.
    fn greet(&mut self) -> Value {
        self.greet_in(LEGACY).json()["result"].take()
    }

    fn greet_in(&mut self, version: &str) -> Reply {
        let hello =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
        let reply = self.send("POST", &[], request.to_string());
        assert_eq!(reply.status(), 200, "{reply:?}");
        self.session = Some(reply.header("mcp-session-id").unwrap().to_owned());
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send("POST", &[("MCP-Protocol-Version", version)], ready.to_string()).status(), 202);
        reply
    }
}

fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn token(bench: &Bench, args: &[&str]) -> String {
    let mut all = vec!["tokens", "add"];
    all.extend_from_slice(args);
    bench.run(&all).exits(0).stdout.trim().to_owned()
}

fn agent(bench: &Bench) -> String {
    token(bench, &["--agent", "default"])
}

fn configured(config: &str) -> Bench {
    let bench = Bench::new();
    let path = bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, config).unwrap();
    bench
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn write(path: &str) -> Value {
    json!({ "name": "write", "arguments": { "path": path, "content": "x" } })
}

#[test]
fn without_sessions_every_request_stands_alone() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let discovered = client.modern("server/discover", json!({})).json()["result"].take();
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)), "{discovered}");
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true, "{discovered}");
    let reply = client.modern("tools/list", json!({}));
    assert_eq!((reply.status(), reply.header("content-type")), (200, Some("application/json")), "{reply:?}");
    assert_eq!(names(&reply.json()), TOOLS);
    let called = client.modern("tools/call", write("a.txt")).json()["result"].take();
    assert_eq!((&called["resultType"], &called["isError"]), (&json!("complete"), &json!(false)), "{called}");
    assert_eq!(bench.text("a.txt"), "x");
    // Those who only ask get no stream, and nothing is kept that could be ended.
    let bearer = ("Authorization", &*client.bearer);
    for method in ["GET", "DELETE"] {
        for headers in [
            &[("MCP-Protocol-Version", MODERN), ("Accept", "text/event-stream")][..],
            &[("MCP-Protocol-Version", MODERN), ("Accept", "*/*")],
            &[("MCP-Protocol-Version", MODERN), ("Mcp-Session-Id", "x")],
            &[("Accept", "*/*")],
            &[],
        ] {
            let reply = served.send(method, "/mcp", &[&[bearer], headers].concat(), "");
            assert_eq!((reply.status(), reply.header("allow")), (405, Some("POST")), "{method} {headers:?}");
        }
    }
    // What is accepted may be said in several lines.
    let accepts =
        [("Accept", "text/event-stream"), ("Accept", "application/json"), ("Content-Type", "application/json")];
    let speaks = [bearer, ("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")];
    let list = modern("tools/list", json!({})).to_string();
    assert_eq!(served.send("POST", "/mcp", &[&accepts[..], &speaks].concat(), list).status(), 200);
    // What there was before is a method like any other that is not there.
    let hello = json!({ "protocolVersion": MODERN, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    for (method, params) in
        [("initialize", json!({})), ("initialize", hello), ("ping", json!({})), ("logging/setLevel", json!({}))]
    {
        let gone = client.modern(method, params);
        assert_eq!(
            (gone.status(), &gone.json()["error"]["code"], &gone.json()["id"]),
            (404, &json!(-32601), &json!(1))
        );
    }
    let tail = bench.run(&["audit", "tail", "5"]).exits(0).stdout;
    assert!(tail.contains("write") && tail.contains("default"), "{tail}");
}

#[test]
fn with_a_session_it_lasts_until_it_is_ended() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    let mut client = served.client(&token);
    assert_eq!(client.legacy("tools/list", json!({})).status(), 400, "no session was begun");
    let hello = client.greet();
    assert_eq!((&hello["protocolVersion"], &hello["serverInfo"]["name"]), (&json!(LEGACY), &json!("toolgate")));
    assert_eq!(names(&client.legacy("tools/list", json!({})).messages().pop().unwrap()), TOOLS);
    let called = client.legacy("tools/call", write("b.txt")).messages().pop().unwrap();
    assert_eq!((&called["id"], &called["result"]["isError"]), (&json!(7), &json!(false)), "{called}");
    assert_eq!(bench.text("b.txt"), "x");
    assert_eq!(client.legacy("ping", json!({})).messages().pop().unwrap()["result"], json!({}));
    assert!(client.send("DELETE", &[("MCP-Protocol-Version", LEGACY)], "").status() < 300);
    assert_eq!(client.legacy("tools/list", json!({})).status(), 404);
    assert_eq!(client.send("DELETE", &[("MCP-Protocol-Version", LEGACY)], "").status(), 404);
}

#[test]
fn a_session_of_one_agent_does_not_exist_for_another() {
    let bench = configured("version: 1\nagents:\n  default: { level: standard }\n  other: { level: standard }\n");
    let served = Served::start(&bench);
    let (mine, theirs) = (agent(&bench), token(&bench, &["--agent", "other"]));
    let mut client = served.client(&mine);
    client.greet();
    let mut guess = served.client(&theirs);
    guess.session.clone_from(&client.session);
    let stream = [("MCP-Protocol-Version", LEGACY), ("Accept", "text/event-stream")];
    assert_eq!(guess.legacy("tools/list", json!({})).status(), 404);
    assert_eq!(guess.send("GET", &stream, "").status(), 404);
    assert_eq!(guess.send("DELETE", &stream, "").status(), 404);
    let ended = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(guess.send("POST", &stream, ended.to_string()).status(), 404);
    assert_eq!(client.legacy("tools/list", json!({})).status(), 200, "nothing happened to it");
}

#[test]
fn only_an_agents_token_opens_it() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let list = modern("tools/list", json!({})).to_string();
    let speaks = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];
    let send = |headers: &[(&str, &str)]| served.send("POST", "/mcp", &[&speaks, headers].concat(), &list);

    let turned_away = send(&[]);
    assert_eq!(turned_away.problem(), (401, "not_logged_in".into()));
    let about = format!("http://{}/.well-known/oauth-protected-resource/mcp", served.host);
    let challenge = format!("Bearer resource_metadata=\"{about}\"");
    assert_eq!(turned_away.header("www-authenticate"), Some(&*challenge));
    let expected = json!({
        "resource": format!("http://{}/mcp", served.host), "resource_name": "Toolgate",
        "bearer_methods_supported": ["header"], "scopes_supported": ["call"],
    });
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        assert_eq!(served.send("GET", path, &[], "").json(), expected);
    }

    let person = token(&bench, &["--person", "ann", "--scope", "read", "--scope", "approve", "--scope", "admin"]);
    let refused = send(&[("Authorization", &format!("Bearer {person}"))]);
    assert_eq!(refused.problem(), (403, "not_allowed".into()));
    let with = |what: &str| format!("Bearer error=\"{what}\", resource_metadata=\"{about}\"");
    let insufficient = with("insufficient_scope\", scope=\"call");
    assert_eq!(refused.header("www-authenticate"), Some(&*insufficient));
    assert!(refused.0.contains("`ann` is a person") && refused.0.contains("tokens add --agent"), "{refused:?}");

    let origin = format!("http://{}", served.host);
    let form = [("Origin", &*origin), ("Content-Type", "application/x-www-form-urlencoded")];
    let entered = served.send("POST", "/login", &form, format!("code={}", served.code));
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(send(&[("Cookie", cookie)]).problem(), (401, "not_logged_in".into()));

    let agent = agent(&bench);
    let bearer = format!("Bearer {agent}");
    assert_eq!(send(&[("Authorization", &bearer), ("Authorization", &bearer)]).status(), 401);
    let unknown = send(&[("Authorization", &format!("Bearer {agent}0"))]);
    assert_eq!((unknown.status(), unknown.header("www-authenticate")), (401, Some(&*with("invalid_token"))));
    let other = send(&[("Authorization", &format!("Basic {agent}"))]);
    assert_eq!((other.status(), other.header("www-authenticate")), (401, Some(&*challenge)), "that is no token");
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list"), ("Authorization", &bearer)];
    assert_eq!(send(&headers).status(), 200);
    let listed = bench.run(&["tokens", "list"]).exits(0).json();
    let id =
        listed.as_array().unwrap().iter().find(|it| it["principal"].as_str().unwrap().contains("default")).unwrap();
    bench.run(&["tokens", "revoke", id["id"].as_str().unwrap()]).exits(0);
    let taken_back = send(&headers);
    assert_eq!((taken_back.status(), taken_back.header("www-authenticate")), (401, Some(&*with("invalid_token"))));
}

#[test]
fn a_page_of_another_site_reaches_nothing() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let list = modern("tools/list", json!({})).to_string();
    let speaks = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")];
    let send = |headers: &[(&str, &str)]| client.send("POST", &[&speaks, headers].concat(), &list);
    let port = served.host.rsplit_once(':').unwrap().1;
    for host in ["evil.example", &format!("evil.example:{port}"), &format!("localhost:{port}.evil.example")] {
        assert_eq!(send(&[("Host", host)]).problem(), (421, "wrong_host".into()), "{host}");
    }
    for origin in ["http://evil.example", "null", "https://localhost"] {
        assert_eq!(send(&[("Origin", origin)]).problem(), (403, "wrong_origin".into()), "{origin}");
    }
    assert_eq!(send(&[("Sec-Fetch-Site", "cross-site")]).problem(), (403, "wrong_origin".into()));
    let own = format!("http://{}", served.host);
    assert_eq!(send(&[("Origin", &own)]).status(), 200);
    let localhost = format!("localhost:{port}");
    assert_eq!(send(&[("Host", &localhost), ("Origin", &format!("http://{localhost}"))]).status(), 200);
}

#[test]
fn a_body_is_read_as_strictly_as_a_line_and_answered_alike() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":{deep}}}}}}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":12345678901234567890123}}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"#.to_owned(),
        "nonsense".to_owned(),
    ];
    for body in bodies {
        let line = bench.run_with(&["serve", "--stdio"], format!("{body}\n")).exits(0);
        let reply = client.send("POST", &[], &body);
        assert_eq!((reply.status(), reply.json()), (400, line.json()), "{body}");
    }
    assert_eq!(client.send("POST", &[], "").error(), (400, -32600));
    assert_eq!(client.send("POST", &[], vec![b' '; 4 * 1024 * 1024 + 1]).problem(), (413, "too_large".into()));
    assert_eq!(client.send("PUT", &[], "{}").status(), 405);
}

#[test]
fn what_headers_say_is_what_the_body_says() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let call = modern("tools/call", write("c.txt"));
    let check = |headers: &[(&str, &str)], body: &Value, expected: (u16, i64)| {
        let reply = client.send("POST", headers, body.to_string());
        assert_eq!(reply.error(), expected, "{headers:?} {reply:?}");
    };
    let version = ("MCP-Protocol-Version", MODERN);
    check(&[version, ("Mcp-Method", "tools/list"), ("Mcp-Name", "write")], &call, (400, -32020));
    check(&[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "read")], &call, (400, -32020));
    check(&[version, ("Mcp-Name", "write")], &call, (400, -32020));
    // What is said twice is said by two, whichever comes first.
    let once = [version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")];
    for again in [("Mcp-Name", "read"), ("Mcp-Method", "tools/list"), ("MCP-Protocol-Version", LEGACY), version] {
        check(&[&once[..], &[again]].concat(), &call, (400, -32020));
        check(&[&[again], &once[..]].concat(), &call, (400, -32020));
    }
    for twice in [("Mcp-Session-Id", "x"), ("Mcp-Param-Region", "north")] {
        check(&[&once[..], &[twice, twice]].concat(), &call, (400, -32020));
        assert_eq!(client.send("GET", &[("MCP-Protocol-Version", LEGACY), twice, twice], "").error(), (400, -32020));
    }
    let refused = client.send("POST", &[&once[..], &[version]].concat(), call.to_string()).json();
    assert_eq!(
        (&refused["id"], &refused["error"]["message"]),
        (&json!(1), &json!("duplicate mcp-protocol-version header"))
    );
    let both = "application/json, text/event-stream";
    for (accept, kind, status) in [("application/json", "application/json", 406), (both, "text/plain", 415)] {
        let headers = [
            ("Authorization", &*client.bearer),
            ("Accept", accept),
            ("Content-Type", kind),
            version,
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "write"),
        ];
        let reply = served.send("POST", "/mcp", &headers, call.to_string());
        assert_eq!(reply.status(), status, "{reply:?}");
    }
    check(
        &[("MCP-Protocol-Version", LEGACY), ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")],
        &call,
        (400, -32020),
    );
    let mut unknown = call.clone();
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")];
    check(&headers, &unknown, (400, -32022));
    let mut bare = call.clone();
    bare["params"]["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": MODERN });
    check(&[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")], &bare, (400, -32602));
    // A name may be written in letters that every header can carry; `cmVhZA==` is `read`.
    for name in ["=?base64?cmVhZA==?=", "=?base64?!?=", "=?base64?d3JpdGU=", "d3JpdGU="] {
        check(&[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", name)], &call, (400, -32020));
    }
    assert!(!fs::exists(bench.workspace().join("c.txt")).unwrap(), "nothing of it ran");
    let encoded = [version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?d3JpdGU=?=")];
    let reply = client.send("POST", &encoded, call.to_string());
    assert_eq!((reply.status(), bench.text("c.txt")), (200, "x".to_owned()), "{reply:?}");
}

#[test]
fn revisions_that_know_no_empty_events_get_none() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let token = agent(&bench);
    for (version, is_primed) in [("2025-03-26", false), ("2025-06-18", false), (LEGACY, true)] {
        let mut client = served.client(&token);
        let greeted = client.greet_in(version);
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": write("f.txt") });
        let called = client.send("POST", &[("MCP-Protocol-Version", version)], request.to_string());
        let events = |reply: &Reply| -> Vec<bool> {
            let data = reply.0.lines().filter_map(|line| line.strip_prefix("data:"));
            data.map(|data| serde_json::from_str::<Value>(data).is_ok()).collect()
        };
        assert_eq!(events(&greeted), [true], "{version}: {greeted:?}");
        assert_eq!(events(&called), if is_primed { vec![false, true] } else { vec![true] }, "{version}: {called:?}");
    }
}

#[test]
fn where_two_people_must_agree_the_one_at_the_client_is_one() {
    let bench = configured(
        "version: 1\npolicy:\n  ask: { classes: { write: 2 } }\napprovals: { hold: 1s, at_client: { default: ann } }\n",
    );
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let call = |more: Value| {
        let mut params = write("d.txt");
        more.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
        let mut request = modern("tools/call", params);
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": { "form": {} } });
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "write")];
        client.send("POST", &headers, request.to_string()).json()["result"].take()
    };
    let asked = call(json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let message = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("new file d.txt") && message.contains("2 people must agree"), "{message}");
    let yes = json!({ "approval": { "action": "accept", "content": { "approve": true } } });
    let pending = call(json!({ "requestState": asked["requestState"], "inputResponses": yes }));
    assert!(pending["content"][0]["text"].as_str().unwrap().starts_with("[approval_required]"), "{pending}");
    assert!(!fs::exists(bench.workspace().join("d.txt")).unwrap(), "one is not two");
    // The person has spoken and is not asked again; the second is somebody else.
    let again = call(json!({}));
    assert_eq!(again["resultType"], "complete", "{again}");
    let id = again["_meta"]["io.github.toolgate/outcome"]["approval"].as_str().unwrap().to_owned();
    bench.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(call(json!({}))["isError"], false);
    assert_eq!(bench.text("d.txt"), "x");
}

#[test]
fn a_file_is_a_resource_by_way_of_the_tool_that_reads_it() {
    let blind = "blind: { level: standard, denied: { tools: [read] } }";
    let bench = configured(&format!("version: 1\nagents:\n  default: {{ level: standard }}\n  {blind}\n"));
    bench.put("src/a b.txt", "one\ntwo\n");
    bench.put("b.bin", [0, 159, 146, 150]);
    fs::write(bench.outside().join("secret.txt"), "no").unwrap();
    let served = Served::start(&bench);
    let (sees, blind) = (agent(&bench), token(&bench, &["--agent", "blind"]));
    let (client, blind) = (served.client(&sees), served.client(&blind));
    let offers_files = |client: &Client<'_>| {
        let listed = client.modern("resources/templates/list", json!({})).json();
        let templates = listed["result"]["resourceTemplates"].as_array().unwrap();
        templates.iter().any(|template| template["uriTemplate"] == "workspace:///{+path}")
    };
    assert!(offers_files(&client));
    assert!(!offers_files(&blind), "what is denied is not listed");
    let read = |client: &Client<'_>, uri: &str| client.modern("resources/read", json!({ "uri": uri })).json();
    let contents = |uri: &str| read(&client, uri)["result"]["contents"].take();
    let text = json!([{ "uri": "workspace:///src/a%20b.txt", "mimeType": "text/plain", "text": "one\ntwo\n" }]);
    assert_eq!(contents("workspace:///src/a%20b.txt"), text);
    let blob = json!([{ "uri": "workspace:///b.bin", "mimeType": "application/octet-stream", "blob": "AJ+Slg==" }]);
    assert_eq!(contents("workspace:///b.bin"), blob);
    assert!(contents("toolgate://guide")[0]["text"].as_str().unwrap().contains("approval_required"));
    for (uri, code) in [
        ("workspace:///../secret.txt", "path_outside_workspace"),
        ("workspace:///%2e%2e%2fsecret.txt", "path_outside_workspace"),
        ("workspace:////etc/passwd", "path_outside_workspace"),
        ("workspace:///nothing.txt", "not_found"),
        ("file:///etc/passwd", "unknown_resource"),
    ] {
        let refused = read(&client, uri);
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["data"]["code"]),
            (&json!(-32602), &json!(code)),
            "{uri}"
        );
    }
    assert_eq!(read(&blind, "workspace:///src/a%20b.txt")["error"]["data"]["code"], "not_permitted");
    let is_read = |line: &&Value| line["body"]["kind"] == "end" && line["body"]["outcome"]["tool"] == "read";
    let reads =
        || bench.run(&["audit", "tail", "50"]).exits(0).json().as_array().unwrap().iter().filter(is_read).count();
    // What only reads is recorded a moment after its answer.
    for _ in 0..100 {
        if reads() == 7 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(reads(), 7, "each of them was a call");
}

#[test]
fn calls_are_resources_of_whoever_made_them() {
    let bench = configured("version: 1\nagents:\n  default: { level: standard }\n  other: { level: standard }\n");
    let served = Served::start(&bench);
    let (mine, theirs) = (agent(&bench), token(&bench, &["--agent", "other"]));
    let (mine, mut theirs) = (served.client(&mine), served.client(&theirs));
    theirs.greet();
    let written = mine.modern("tools/call", write("a.txt")).json()["result"].take();
    let address =
        format!("toolgate://calls/{}", written["_meta"]["io.github.toolgate/outcome"]["call"].as_str().unwrap());
    let text = |answer: Value| answer["result"]["contents"][0]["text"].as_str().map(str::to_owned);
    let read = |uri: &str| text(mine.modern("resources/read", json!({ "uri": uri })).json());
    assert!(read(&address).unwrap().contains("fs_write a.txt"));
    assert!(read("toolgate://calls/recent").unwrap().contains("fs_write a.txt"));
    let recent = theirs.legacy("resources/read", json!({ "uri": "toolgate://calls/recent" })).json();
    assert_eq!(text(recent).unwrap(), "No call of yours was found.\n");
    let refused = theirs.legacy("resources/read", json!({ "uri": address })).json();
    assert_eq!(refused["error"]["data"]["code"], "not_found", "{refused}");
}

#[test]
fn tasks_are_offered_as_prompts_and_names_of_tools_completed() {
    let bench = configured("version: 1\nagents:\n  default: { level: standard, denied: { tools: [git_diff] } }\n");
    let served = Served::start(&bench);
    let token = agent(&bench);
    let client = served.client(&token);
    let list = client.modern("prompts/list", json!({})).json()["result"]["prompts"].take();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["survey_workspace", "use_tool"], "one that needs a tool the agent has not is not offered");
    let said =
        client.modern("prompts/get", json!({ "name": "use_tool", "arguments": { "tool": "ls", "goal": "look" } }));
    let said = said.json()["result"]["messages"][0].take();
    assert!(said["role"] == "user" && said["content"]["text"].as_str().unwrap().contains("`ls`"), "{said}");
    assert_eq!(client.modern("prompts/get", json!({ "name": "review_changes" })).json()["error"]["code"], -32602);
    let begun = json!({ "ref": { "type": "ref/prompt", "name": "use_tool" }, "argument": { "name": "tool", "value": "git_di" } });
    let completed = client.modern("completion/complete", begun).json()["result"]["completion"].take();
    assert_eq!(completed, json!({ "values": [], "total": 0, "hasMore": false }), "nor is its name told");
    let begun =
        json!({ "ref": { "type": "ref/prompt", "name": "use_tool" }, "argument": { "name": "tool", "value": "html" } });
    let completed = client.modern("completion/complete", begun).json()["result"]["completion"].take();
    assert_eq!(completed["values"], json!(["html_parse"]));
    let begun =
        json!({ "ref": { "type": "ref/prompt", "name": "nothing" }, "argument": { "name": "tool", "value": "" } });
    assert_eq!(client.modern("completion/complete", begun).json()["error"]["data"]["code"], "unknown_prompt");
}

#[test]
fn addresses_are_completed_as_far_as_the_agent_may_look() {
    let bench = configured("version: 1\nagents:\n  default: {}\n  asked: { ask: { tools: [ls] } }\n");
    for file in ["src/main.rs", "src/more/a.rs", "readme.md"] {
        bench.put(file, "x");
    }
    let served = Served::start(&bench);
    let complete = |agent: &str, uri: &str, part: &str, begins: &str, known: Value| {
        let token = token(&bench, &["--agent", agent]);
        let params = json!({
            "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": part, "value": begins },
            "context": { "arguments": known },
        });
        let mut answer = served.client(&token).modern("completion/complete", params).json();
        match answer["error"].take() {
            Value::Null => answer["result"]["completion"]["values"].take(),
            error => error["data"]["code"].clone(),
        }
    };
    let check = |uri: &str, part: &str, begins: &str, expected: Value| {
        let known = json!({ "tool": "bash" });
        assert_eq!(complete("default", uri, part, begins, known), expected, "{uri} {part} {begins}");
    };
    let (files, texts) = ("workspace:///{+path}", "toolgate://tools/{tool}/{resource}");
    check(files, "path", "", json!(["readme.md", "src/"]));
    check(files, "path", "src/m", json!(["src/main.rs", "src/more/"]));
    check(files, "path", "../", json!([]));
    check(texts, "tool", "html", json!(["html_parse"]));
    check(texts, "resource", "", json!(["room"]));
    check("toolgate://calls/{call}", "call", "", json!([]));
    check("nowhere:///{path}", "path", "", json!("unknown_resource"));
    // Nobody is asked about what somebody types.
    assert_eq!(complete("asked", files, "path", "", json!({})), json!([]));
    assert_eq!(bench.run(&["approvals", "--json"]).exits(0).json(), json!([]));
}

#[test]
fn a_call_that_waits_for_people_says_where_they_answer() {
    let bench = configured("version: 1\npolicy:\n  ask: { tools: [write] }\napprovals: { hold: 1s }\n");
    let served = Served::start(&bench);
    let token = agent(&bench);
    let pending = served.client(&token).modern("tools/call", write("e.txt")).json()["result"].take();
    let id = pending["_meta"]["io.github.toolgate/outcome"]["approval"].as_str().unwrap();
    let link = format!("http://{}/approvals/{id}", served.host);
    assert!(pending["content"][0]["text"].as_str().unwrap().ends_with(&link), "{pending}");
}

#[test]
fn a_resource_that_waits_for_people_says_where_they_answer() {
    let bench = configured("version: 1\npolicy:\n  ask: { tools: [read] }\napprovals: { hold: 1s }\n");
    bench.put("a.txt", "x");
    let served = Served::start(&bench);
    let token = agent(&bench);
    let pending = served.client(&token).modern("resources/read", json!({ "uri": "workspace:///a.txt" })).json();
    let remedy = pending["error"]["data"]["remedy"].as_str().unwrap();
    assert!(remedy.contains(&format!("http://{}/approvals/apr_", served.host)), "{pending}");
}

#[test]
fn it_says_what_to_paste() {
    let bench = Bench::new();
    let served = Served::start(&bench);
    let server = json!({
        "type": "http", "url": format!("http://{}/mcp", served.host), "headers": { "Authorization": "Bearer TOKEN" },
    });
    assert_eq!(served.client, json!({ "mcpServers": { "toolgate": server } }));
}

#[test]
fn what_is_loaded_is_the_agents_on_every_connection() {
    let bench = configured(
        "disclosure: { mode: on, pinned: [read] }\nagents: { default: { workspace: . }, other: { workspace: . } }\n",
    );
    let (mine, others) = (agent(&bench), token(&bench, &["--agent", "other"]));
    let served = Served::start(&bench);
    let listed = |client: &Client<'_>| {
        let list = client.legacy("tools/list", json!({})).messages().pop().unwrap();
        names(&list).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut clients = [served.client(&mine), served.client(&mine), served.client(&others)];
    clients.iter_mut().for_each(|client| _ = client.greet());
    let loaded =
        clients[0].modern("tools/call", json!({ "name": "load_tool", "arguments": { "name": "grep" } })).json();
    assert_eq!(loaded["result"]["structuredContent"]["name"], "grep", "{loaded}");
    let at_first = ["call_tool", "list_tools", "load_tool", "load_tool_resource", "read"];
    let grown = ["call_tool", "grep", "list_tools", "load_tool", "load_tool_resource", "read"];
    assert_eq!(listed(&clients[0]), grown);
    assert_eq!(listed(&clients[1]), grown);
    assert_eq!(listed(&clients[2]), at_first);
    assert_eq!(names(&clients[0].modern("tools/list", json!({})).json()), at_first);
}
