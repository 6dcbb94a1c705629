//! The hostile server does what its script says, and otherwise what the protocol wants: a test that counts on it must not
//! pass because it did something else.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use toolgate_tests::hostile::Hostile;

/// Asks one thing after the other over stdio, and wants these lines after each, and this status at the end.
#[track_caller]
fn check(script: Value, talk: &[(Value, &[&str])], status: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hostile"));
    command.arg("stdio").arg(script.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for (message, expected) in talk {
        writeln!(child.stdin.as_ref().unwrap(), "{message}").unwrap();
        for expected in *expected {
            let mut line = Vec::new();
            lines.read_until(b'\n', &mut line).unwrap();
            assert_eq!(String::from_utf8_lossy(&line).trim_end(), *expected, "after {message}");
        }
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(status));
}

fn initialize() -> (Value, &'static [&'static str]) {
    (
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } }),
        &[
            r#"{"id":0,"jsonrpc":"2.0","result":{"capabilities":{"tools":{"listChanged":true}},"instructions":"","protocolVersion":"2025-06-18","serverInfo":{"name":"hostile","version":"1.0.0"}}}"#,
        ],
    )
}

fn legacy(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    legacy(id, method, params)
}

#[test]
fn a_list_changes_when_it_is_asked_for_again() {
    let script = json!({ "tools": [[{ "name": "a" }, { "name": "b" }], [{ "name": "c" }]], "page": 1 });
    let list = |id, params| legacy(id, "tools/list", params);
    check(
        script,
        &[
            initialize(),
            (list(1, json!({})), &[r#"{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"1","tools":[{"name":"a"}]}}"#]),
            (list(2, json!({ "cursor": "1" })), &[r#"{"id":2,"jsonrpc":"2.0","result":{"tools":[{"name":"b"}]}}"#]),
            (list(3, json!({})), &[r#"{"id":3,"jsonrpc":"2.0","result":{"tools":[{"name":"c"}]}}"#]),
            (list(4, json!({})), &[r#"{"id":4,"jsonrpc":"2.0","result":{"tools":[{"name":"c"}]}}"#]),
        ],
        0,
    );
}

#[test]
fn an_era_it_does_not_speak_is_refused() {
    let hello = initialize().0;
    let refused = r#"{"error":{"code":-32022,"data":{"requested":null,"supported":["2026-07-28"]},"message":"unsupported protocol version"},"id":0,"jsonrpc":"2.0"}"#;
    check(json!({ "era": "modern" }), &[(hello, &[refused])], 0);
    let discover = modern(1, "server/discover", json!({}));
    let unknown = r#"{"error":{"code":-32601,"message":"method not found"},"id":1,"jsonrpc":"2.0"}"#;
    check(json!({ "era": "legacy" }), &[(discover, &[unknown])], 0);
    let early = r#"{"error":{"code":-32600,"message":"nobody has said `initialize`"},"id":1,"jsonrpc":"2.0"}"#;
    check(json!({ "era": "legacy" }), &[(legacy(1, "tools/list", json!({})), &[early])], 0);
}

#[test]
fn what_no_server_should_write_is_written() {
    let steps = json!([
        { "text": "noise\n" }, { "bytes": "//4K" }, { "send": { "id": "not yours", "result": {} } },
        { "result": { "n": "$count" } }, { "result": { "n": "$params" } }, { "flood": 3 }, { "crash": 7 },
    ]);
    check(
        json!({ "answers": { "tools/call:a": [steps] } }),
        &[
            initialize(),
            (
                legacy(1, "tools/call", json!({ "name": "a" })),
                &[
                    "noise",
                    "\u{fffd}\u{fffd}",
                    r#"{"id":"not yours","result":{}}"#,
                    r#"{"id":1,"jsonrpc":"2.0","result":{"n":0}}"#,
                    r#"{"id":1,"jsonrpc":"2.0","result":{"n":{"name":"a"}}}"#,
                    "xxx",
                ],
            ),
        ],
        7,
    );
}

#[test]
fn it_asks_back_in_the_way_of_the_era() {
    let ask = json!({ "ask": { "method": "roots/list", "params": {} } });
    let steps = json!([ask, "changed", { "result": { "heard": "$answer" } }]);
    let call = |more: Value| {
        let mut params = json!({ "name": "a" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let answers = json!({ "question": { "roots": [] } });
    let back = json!({ "inputResponses": answers, "requestState": "state of tools/call" });
    let listening = json!({ "notifications": { "toolsListChanged": true } });
    check(
        json!({ "answers": { "tools/call:a": [steps] } }),
        &[
            initialize(),
            (
                legacy(1, "tools/call", call(json!({}))),
                &[r#"{"id":"question 1","jsonrpc":"2.0","method":"roots/list","params":{}}"#],
            ),
            (
                json!({ "jsonrpc": "2.0", "id": "question 1", "result": { "roots": [1] } }),
                &[r#"{"id":1,"jsonrpc":"2.0","result":{"heard":{"roots":[1]}}}"#],
            ),
            (
                modern(2, "subscriptions/listen", listening),
                &[
                    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{"toolsListChanged":true}}}"#,
                ],
            ),
            (
                modern(3, "tools/call", call(json!({}))),
                &[
                    r#"{"id":3,"jsonrpc":"2.0","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1.0.0"}},"inputRequests":{"question":{"method":"roots/list","params":{}}},"requestState":"state of tools/call","resultType":"input_required"}}"#,
                ],
            ),
            (
                modern(4, "tools/call", call(back)),
                &[
                    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#,
                    r#"{"id":4,"jsonrpc":"2.0","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1.0.0"}},"heard":{"roots":[]},"resultType":"complete"}}"#,
                ],
            ),
        ],
        0,
    );
}

#[test]
fn over_http_it_wants_sessions_and_keeps_what_it_hears() {
    let away = json!({ "page": { "status": 302, "headers": { "location": "http://127.0.0.1:1/" } } });
    let server = Hostile::start(json!({ "answers": { "tools/call:away": [[away]] }, "tools": [[{ "name": "a" }]] }));
    let post = |headers: &str, message: Value| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let body = message.to_string();
        let length = body.len();
        write!(stream, "POST /mcp HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(post("", legacy(1, "tools/list", json!({}))).starts_with("HTTP/1.1 400 "));
    assert!(post("mcp-session-id: x\r\n", legacy(1, "tools/list", json!({}))).starts_with("HTTP/1.1 404 "));
    let greeted = post("", initialize().0);
    let session = greeted.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    let listed = post(&format!("{session}\r\n"), legacy(2, "tools/list", json!({})));
    assert!(listed.starts_with("HTTP/1.1 200 ") && listed.ends_with(r#"{"tools":[{"name":"a"}]}}"#), "{listed}");
    let sent = post("authorization: Bearer x\r\n", modern(3, "tools/call", json!({ "name": "away" })));
    assert!(sent.starts_with("HTTP/1.1 302 ") && sent.contains("location: http://127.0.0.1:1/"), "{sent}");
    let heard = server.heard();
    assert_eq!((heard.len(), &heard[4]["headers"]["authorization"]), (5, &json!("Bearer x")));
}
