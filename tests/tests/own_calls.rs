//! What an agent may see of the record, as a tool and as resources: its own calls, and nobody else's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;

use serde_json::{Value, json};
use toolgate_tests::{
    Bench,
    town::{self, Era, strings, wait_until},
};

const CONFIG: &str = "
policy: { ask: { tools: [delete] } }
approvals: { hold: 1s }
agents:
  default: { level: standard }
  other: { level: standard }
  blind: { level: standard, denied: { tools: [recent_calls, load_tool_resource] } }
  tight: { level: standard, denied: { tools: [edit] } }
";
/// An id as calls have them, of a call nobody made.
const NOBODYS: &str = "019a8c1e-7b1f-7d2e-9c3a-5f6e7d8c9b0a";
const TOKEN: &str = concat!("ghp_16C7e42F292c", "6912E7710c838347Ae178B4a");

/// Some agents that share a data directory.
fn bench() -> Bench {
    let bench = Bench::new();
    let path = bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, CONFIG).unwrap();
    bench
}

/// A client of the binary, which serves one agent.
struct Client(town::Client);

impl Client {
    fn start(bench: &Bench, agent: &str, era: Era) -> Self {
        Self(town::Client::start(bench.command(&["serve", "--stdio", "--agent", agent]), era, json!({})))
    }

    /// The result of a call of a tool.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.0.result(tool, arguments)
    }

    /// The id of a call of a tool.
    fn called(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        result["_meta"]["io.github.toolgate/outcome"]["call"].as_str().unwrap().to_owned()
    }

    /// The last calls, once this one is among them: what only reads is recorded a moment after its answer.
    fn calls_with(&mut self, id: &str) -> Vec<Value> {
        let mut found = Vec::new();
        wait_until("it is recorded", || {
            let calls = self.call("recent_calls", json!({}))["structuredContent"]["calls"].take();
            found = calls.as_array().unwrap().clone();
            found.iter().any(|call| call["call"] == id)
        });
        found.into_iter().filter(|call| call["tool"] != "recent_calls").collect()
    }

    fn list(&mut self, method: &str, list: &str, key: &str) -> Vec<String> {
        strings(&self.0.list(method, list), key)
    }

    fn resources(&mut self) -> Vec<String> {
        self.list("resources/list", "resources", "uri")
    }

    fn templates(&mut self) -> Vec<String> {
        self.list("resources/templates/list", "resourceTemplates", "uriTemplate")
    }

    fn read(&mut self, uri: &str) -> Value {
        self.0.ask("resources/read", json!({ "uri": uri }))
    }

    /// What is at an address.
    fn text(&mut self, uri: &str) -> String {
        let answer = self.read(uri);
        let text = answer["result"]["contents"][0]["text"].as_str();
        assert!(text.is_some(), "{uri}: {answer}");
        text.unwrap_or_default().to_owned()
    }
}

impl Drop for Client {
    /// It leaves in its own time: what it has not recorded yet it does.
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn code(answer: &Value) -> &str {
    answer["error"]["data"]["code"].as_str().unwrap_or_default()
}

/// The ends of calls of this tool that are recorded, by how they ended.
fn recorded(bench: &Bench, tool: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    wait_until("all of them are recorded", || {
        let tail = bench.run(&["audit", "tail", "100"]).exits(0).json();
        let ends = tail.as_array().unwrap().iter().map(|line| &line["body"]["outcome"]);
        let of_tool = ends.filter(|it| it["tool"] == tool).filter_map(|it| it["status"].as_str());
        found = of_tool.map(str::to_owned).collect();
        found.len() >= count
    });
    found
}

#[test]
fn an_agent_sees_its_own_calls_and_nobody_elses() {
    for era in [Era::Old, Era::New] {
        let bench = bench();
        let (mut mine, mut theirs) = (Client::start(&bench, "default", era), Client::start(&bench, "other", era));
        let written = mine.called("write", json!({ "path": "a.txt", "content": format!("token = {TOKEN}\n") }));
        let refused = mine.called("read", json!({ "path": "../secret" }));
        let pending = mine.call("delete", json!({ "path": "a.txt" }));
        let pending = &pending["_meta"]["io.github.toolgate/outcome"];
        let foreign = theirs.called("write", json!({ "path": "b.txt", "content": "only for the other" }));
        let foreign_read = theirs.called("echo", json!({ "text": "only for the other" }));

        let calls = mine.calls_with(&refused);
        let told: Vec<_> = calls.iter().map(|it| (&it["call"], &it["tool"], &it["status"], &it["code"])).collect();
        let expected = [
            (&pending["call"], &json!("delete"), &json!("pending"), &json!("approval_required")),
            (&json!(refused), &json!("read"), &json!("refused"), &json!("path_outside_workspace")),
            (&json!(written), &json!("write"), &json!("done"), &Value::Null),
        ];
        assert_eq!(told, expected, "{era:?}");
        assert_eq!((&calls[0]["approval"], calls[0]["approval"].is_string()), (&pending["approval"], true));
        assert_eq!(calls[2]["effects"], json!([{ "kind": "fs_write", "target": "a.txt" }]));
        assert!(calls[2]["elapsed_ms"].is_u64() && calls[2]["at"].as_str().unwrap().ends_with('Z'), "{}", calls[2]);
        theirs.calls_with(&foreign_read);

        // In full it is what was recorded, and what was recorded has no credentials in it.
        let one = mine.call("recent_calls", json!({ "call": written }));
        assert_eq!(one["structuredContent"]["calls"][0]["in_full"]["arguments"]["path"], "a.txt", "{one}");
        let text = one["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("[redacted") && text.contains("Answer:"), "{text}");
        assert!(!one.to_string().contains(TOKEN), "{one}");

        // What others called is not there, as what nobody called.
        let answer = |client: &mut Client, id: &str| {
            let answer = client.call("recent_calls", json!({ "call": id }));
            (answer["isError"].clone(), answer["content"].clone())
        };
        let unknown = answer(&mut mine, NOBODYS);
        assert_eq!(unknown.0, true);
        assert!(unknown.1[0]["text"].as_str().unwrap().starts_with("[not_found]"), "{unknown:?}");
        for id in [&foreign, &foreign_read] {
            assert_eq!(answer(&mut mine, id), unknown, "{era:?}");
            assert_eq!(answer(&mut theirs, id).0, false, "it is there for whoever made it");
            assert_eq!(code(&mine.read(&format!("toolgate://calls/{id}"))), "not_found");
        }
        assert_eq!(answer(&mut theirs, &written), unknown);
        assert_eq!(code(&mine.read(&format!("toolgate://calls/{NOBODYS}"))), "not_found");

        // The same as resources.
        assert!(mine.resources().contains(&"toolgate://calls/recent".to_owned()), "{era:?}");
        assert!(mine.templates().contains(&"toolgate://calls/{call}".to_owned()), "{era:?}");
        let recent = mine.text("toolgate://calls/recent");
        assert!([&written, &refused].iter().all(|id| recent.contains(*id)), "{recent}");
        assert!(![&foreign, &foreign_read].iter().any(|id| recent.contains(*id)), "{recent}");
        let one = mine.text(&format!("toolgate://calls/{written}"));
        assert!(one.contains("fs_write a.txt") && !one.contains(TOKEN), "{one}");
    }
}

#[test]
fn as_many_as_are_asked_for_and_no_more_than_a_hundred() {
    let bench = bench();
    let mut client = Client::start(&bench, "default", Era::New);
    let ids: Vec<_> = (0..25).map(|n| client.called("echo", json!({ "text": n.to_string() }))).collect();
    // Not by looking: every look is a call too.
    wait_until("they are recorded", || bench.run(&["audit", "show", &ids[24]]).stdout.contains(&ids[24]));
    let mut listed = |arguments: Value| {
        let found = client.call("recent_calls", arguments)["structuredContent"].take();
        (found["calls"].as_array().map(Vec::len), found["more"].clone())
    };
    assert_eq!(listed(json!({})), (Some(20), json!(true)));
    assert_eq!(listed(json!({ "count": 3 })), (Some(3), json!(true)));
    let (all, more) = listed(json!({ "count": 100 }));
    assert!(all.unwrap() >= 25 && more == false, "{all:?} {more}");
    for wrong in [json!({ "count": 101 }), json!({ "count": 0 }), json!({ "agent": "other" })] {
        let refused = client.call("recent_calls", wrong);
        assert!(refused["content"][0]["text"].as_str().unwrap().starts_with("[invalid_arguments]"), "{refused}");
    }
}

/// However often one looks at a look, there is an end to what comes back.
#[test]
fn a_look_at_a_look_does_not_grow() {
    let bench = bench();
    let mut client = Client::start(&bench, "default", Era::New);
    let long = "0123456789abcdef ".repeat(2_000);
    let mut id = client.called("echo", json!({ "text": long }));
    let mut longest = 0;
    for _ in 0..6 {
        client.calls_with(&id);
        let looked = client.call("recent_calls", json!({ "call": id }));
        assert_eq!(looked["isError"], false, "{looked}");
        longest = looked.to_string().len();
        id = looked["_meta"]["io.github.toolgate/outcome"]["call"].as_str().unwrap().to_owned();
    }
    assert!(longest < 300_000, "{longest} bytes");
}

#[test]
fn whoever_may_not_look_back_is_not_told_that_one_can() {
    let bench = bench();
    for era in [Era::Old, Era::New] {
        let mut blind = Client::start(&bench, "blind", era);
        let tools = blind.list("tools/list", "tools", "name");
        assert!(tools.contains(&"read".to_owned()) && !tools.contains(&"recent_calls".to_owned()), "{tools:?}");
        assert_eq!(blind.resources(), ["toolgate://guide"], "{era:?}");
        assert_eq!(blind.templates(), ["workspace:///{+path}"], "{era:?}");
        let written = blind.called("write", json!({ "path": "c.txt", "content": "x" }));
        for uri in ["toolgate://calls/recent", &format!("toolgate://calls/{written}")] {
            assert_eq!(code(&blind.read(uri)), "not_permitted", "{uri}");
        }
        assert_eq!(code(&blind.read("toolgate://tools/grep/output_schema")), "not_permitted");
    }
    assert_eq!(recorded(&bench, "recent_calls", 4), ["refused"; 4], "each of them was a call");
}

#[test]
fn what_there_is_to_read_about_a_tool_is_a_resource() {
    const GUIDE: &str = "toolgate://tools/edit/read_then_edit";
    let bench = bench();
    for era in [Era::Old, Era::New] {
        let mut client = Client::start(&bench, "default", era);
        assert!(client.resources().contains(&GUIDE.to_owned()), "{era:?}");
        assert!(client.templates().contains(&"toolgate://tools/{tool}/{resource}".to_owned()), "{era:?}");
        assert!(client.text(GUIDE).contains("edit"));
        let schema: Value = serde_json::from_str(&client.text("toolgate://tools/grep/output_schema")).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(code(&client.read("toolgate://tools/grep/nothing")), "unknown_resource");

        // A tool the agent may not use is as unknown as one that does not exist.
        let mut tight = Client::start(&bench, "tight", era);
        assert!(!tight.resources().contains(&GUIDE.to_owned()), "{era:?}");
        assert_eq!(code(&tight.read(GUIDE)), "unknown_tool");
        assert_eq!(code(&tight.read("toolgate://tools/nothing/read_then_edit")), "unknown_tool");
    }
    assert_eq!(recorded(&bench, "load_tool_resource", 10).len(), 10, "each of them was a call");
}
