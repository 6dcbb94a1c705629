//! Calls that want nothing but their answer take a shorter way than the SDK's: what they are answered is the same.

use std::io::Read as _;

use serde_json::{Value, json};
use toolgate_tests::{
    gateway::{Messages, Served},
    town::{Client, Era, Town, wait_until},
};

/// Toolgate with a server whose answers have everything in them that could be taken for ours.
fn town() -> Town {
    let lookalikes = json!({
        "io.github.toolgate/relayed": true,
        "io.github.toolgate/relayed-whole": { "content": [{ "type": "text", "text": "false" }] },
        "io.github.toolgate/relayed-questions": {},
        "vendor": 1,
    });
    let whole = json!({ "content": [{ "type": "hologram", "depth": 3 }], "x-top": [1], "_meta": lookalikes });
    let needs =
        json!({ "error": { "code": -32021, "message": "no", "data": { "requiredCapabilities": { "sampling": {} } } } });
    let report = json!({ "send": { "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "$id", "progress": 1 } } });
    let names = ["whole", "needs", "fails", "hangs", "reports", "mirrored"];
    let schema =
        json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let tools = names.map(|name| match name {
        "mirrored" => json!({ "name": name, "inputSchema": schema }),
        _ => json!({ "name": name, "inputSchema": { "type": "object" } }),
    });
    let answers = json!({
        "tools/call:whole": [[{ "result": whole }]],
        "tools/call:needs": [[needs]],
        "tools/call:fails": [[{ "result": { "content": [{ "type": "text", "text": "no" }], "isError": true } }]],
        "tools/call:hangs": [["hang"]],
        "tools/call:reports": [[report, "hang"]],
    });
    let script = json!({ "era": "modern", "tools": [tools], "answers": answers });
    Town::new(&names).with("far", script).set("far", "may_ask", json!(["sampling"]))
}

/// Calls that end in every way there is.
fn calls() -> Vec<Value> {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    vec![
        call("echo", json!({ "text": "a\u{1b}[31mb" })),
        call("echo", json!({ "text": 7 })),
        call("read", json!({ "path": "nothing.txt" })),
        call("read", json!({ "path": "/etc/shadow" })),
        call("delete", json!({ "path": "a" })),
        call("no_such_tool", json!({})),
        call("call_tool", json!({ "name": "echo", "arguments": { "text": "inner" } })),
        call("load_tool", json!({ "name": "no_such_tool" })),
        call("far__whole", json!({})),
        call("far__needs", json!({})),
        call("far__fails", json!({})),
        // Over HTTP a header that should repeat it is missing.
        call("far__mirrored", json!({ "region": "north" })),
        call("far__no_such_tool", json!({})),
        json!({ "name": "echo", "arguments": { "text": "x" }, "_meta": { "toolgate/task": 7 } }),
        json!({ "name": "echo", "arguments": { "text": "x" }, "requestState": "guessed" }),
    ]
}

/// The answer without what is another one in every call.
fn lasting(mut answer: Value) -> Value {
    answer["id"].take();
    let about = "/result/_meta/io.github.toolgate~1outcome";
    for varies in ["call", "approval", "remedy", "message"] {
        if let Some(value) = answer.pointer_mut(&format!("{about}/{varies}")) {
            value.take();
        }
    }
    answer
}

fn with_meta(mut call: Value, key: &str, value: Value) -> Value {
    call["_meta"][key] = value;
    call
}

#[test]
fn over_pipes_a_call_is_answered_alike_whichever_way_it_takes() {
    let town = town();
    // What makes the SDK answer, and changes nothing else.
    for (era, key, value) in [
        (Era::New, "progressToken", json!("p")),
        (Era::Old, "io.modelcontextprotocol/protocolVersion", json!("2025-11-25")),
    ] {
        let mut client = town.serve(era, json!({}));
        client.tools();
        for call in calls() {
            let plain = client.ask("tools/call", call.clone());
            let passed_on = client.ask("tools/call", with_meta(call.clone(), key, value.clone()));
            assert_eq!(lasting(plain), lasting(passed_on), "{era:?} {call}");
        }
    }
}

#[test]
fn over_http_a_call_is_answered_alike_whichever_way_it_takes() {
    let town = town();
    let served = Served::with(&town.bench, &["--config", town.config().to_str().unwrap()]);
    served.ask(served.token(), &json!({}), "tools/list", json!({}));
    let answer = |params: Value| {
        let mut answer = String::new();
        served.post(served.token(), &json!({}), "tools/call", params).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut head: Vec<_> =
            head.lines().filter(|line| !line.starts_with("date") && !line.starts_with("content-length")).collect();
        head.sort_unstable();
        (head.join("\n"), lasting(serde_json::from_str(body).unwrap()))
    };
    for call in calls() {
        let passed_on = answer(with_meta(call.clone(), "progressToken", json!("p")));
        assert_eq!(answer(call.clone()), passed_on, "{call}");
    }
}

/// How calls of `far__hangs` ended, as it is recorded.
fn ended(town: &Town) -> Vec<Value> {
    ended_of(town, "far__hangs")
}

fn ended_of(town: &Town, tool: &str) -> Vec<Value> {
    let outcomes = town.outcomes().into_iter().filter(|outcome| outcome["tool"] == tool);
    outcomes.map(|mut outcome| outcome["code"].take()).collect()
}

#[test]
fn a_call_whose_client_cancels_or_leaves_ends() {
    let town = town();
    for era in [Era::New, Era::Old] {
        let mut client = town.serve(era, json!({}));
        client.tools();
        let before = ended(&town).len();
        let begin = |client: &mut Client| client.send("tools/call", json!({ "name": "far__hangs", "arguments": {} }));
        let id = begin(&mut client);
        client.ask("tools/list", json!({}));
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        client.say(&cancel);
        wait_until("it has ended", || ended(&town).len() == before + 1);
        // It is not answered, and its name is free again.
        client.ask("tools/list", json!({}));
        assert!(!client.heard.iter().any(|message| message["id"] == id), "{:?}", client.heard);
        begin(&mut client);
        client.leave();
        assert_eq!(ended(&town)[before..], [json!("cancelled"), json!("cancelled")]);
    }
    let served = Served::with(&town.bench, &["--config", town.config().to_str().unwrap()]);
    served.ask(served.token(), &json!({}), "tools/list", json!({}));
    let intents = || {
        let of_it = |line: &&Value| line["body"]["kind"] == "intent" && line["body"]["record"]["tool"] == "far__hangs";
        town.tail().iter().filter(of_it).count()
    };
    let (before, begun) = (ended(&town).len(), intents());
    let call = served.post(served.token(), &json!({}), "tools/call", json!({ "name": "far__hangs", "arguments": {} }));
    wait_until("it has begun", || intents() == begun + 1);
    drop(call);
    wait_until("it has ended", || ended(&town).len() == before + 1);
    assert_eq!(ended(&town)[before..], [json!("cancelled")]);
}

#[test]
fn over_http_a_call_that_reports_is_taken_back_with_its_stream_and_by_another_request() {
    let town = town();
    let served = Served::with(&town.bench, &["--config", town.config().to_str().unwrap()]);
    let call = json!({ "name": "far__reports", "arguments": {}, "_meta": { "progressToken": "p" } });
    served.ask(served.token(), &json!({}), "tools/list", json!({}));
    let mut stream = Messages::from(served.post(served.token(), &json!({}), "tools/call", call.clone()));
    assert_eq!(stream.next().unwrap()["method"], "notifications/progress");
    drop(stream);
    wait_until("it has ended", || ended_of(&town, "far__reports") == ["cancelled"]);

    // In the old era who hangs up takes nothing back, and says so with another request.
    let session = served.greet(&json!({}));
    let begin = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call });
    let mut stream = session.post(&begin);
    assert_eq!(stream.next().unwrap()["method"], "notifications/progress");
    session.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }));
    assert_eq!(stream.next(), None, "it is not answered");
    wait_until("it has ended", || ended_of(&town, "far__reports") == ["cancelled", "cancelled"]);
}

#[test]
fn a_late_word_about_a_plain_call_ends_nothing() {
    let town = town();
    let mut client = town.serve(Era::New, json!({}));
    client.ask("server/discover", json!({}));
    let id = client.send("tools/call", json!({ "name": "echo", "arguments": { "text": "a" } }));
    assert_eq!(client.hear()["id"], id);
    // The call is answered, and nothing but it has begun the conversation.
    let late = json!({ "method": "notifications/cancelled", "params": { "requestId": id } });
    let words = [late, json!({ "id": 99, "result": {} }), json!({ "method": "notifications/initialized" })];
    for mut word in words {
        word["jsonrpc"] = json!("2.0");
        client.say(&word);
        assert_eq!(client.result("echo", json!({ "text": "b" }))["content"][0]["text"], "b", "{word}");
    }
    assert!(client.leave().success());
}
