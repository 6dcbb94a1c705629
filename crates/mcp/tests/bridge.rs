//! The raw client against servers that do as they are told, well or badly.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};
use toolgate_mcp::bridge::{Era, Link, MOST_LINE, Noise, Peer, Said, Step, Trouble, Way, list, mailbox};
use toolgate_runtime::config::Offers;

const SOON: Duration = Duration::from_secs(20);
/// For what is never answered.
const AT_ONCE: Duration = Duration::from_millis(30);

/// The server's end.
struct Server {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Server {
    fn new() -> (Peer, Self) {
        let (ours, theirs) = duplex(64 * 1024);
        let (read, write) = split(ours);
        let (their_read, their_write) = split(theirs);
        (Peer::over(read, write), Self { read: BufReader::new(their_read).lines(), write: their_write })
    }

    /// The next thing it is told.
    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.read.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n")).await;
    }

    async fn say_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        self.write.write_all(bytes.as_ref()).await.unwrap();
    }

    async fn answer(&mut self, id: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// Hears a request of this kind and answers it.
    async fn serve(&mut self, method: &str, result: Value) -> Value {
        let request = self.hear().await;
        assert_eq!(request["method"], method);
        self.answer(&request["id"], result).await;
        request["params"].clone()
    }
}

fn ask(peer: &Peer, method: &'static str) -> tokio::task::JoinHandle<Result<Value, Trouble>> {
    ask_for(peer, method, SOON)
}

fn ask_for(peer: &Peer, method: &'static str, patience: Duration) -> tokio::task::JoinHandle<Result<Value, Trouble>> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.ask(method, Map::new(), patience, None).await })
}

#[tokio::test]
async fn answers_go_to_their_questions_in_whatever_order_they_come() {
    let (peer, mut server) = Server::new();
    let asked: Vec<_> = (0..100)
        .map(|number| {
            let peer = peer.clone();
            let params = Map::from_iter([("number".to_owned(), json!(number))]);
            tokio::spawn(async move { peer.ask("echo", params, SOON, None).await })
        })
        .collect();
    let mut heard = Vec::new();
    for _ in 0..100 {
        heard.push(server.hear().await);
    }
    for request in heard.iter().rev() {
        server.answer(&request["id"], request["params"]["number"].clone()).await;
    }
    for (number, asked) in asked.into_iter().enumerate() {
        assert_eq!(asked.await.unwrap(), Ok(json!(number)));
    }
    assert_eq!(peer.noise(), Noise::default());
}

#[tokio::test]
async fn what_is_no_message_is_left_behind_and_counted() {
    let (peer, mut server) = Server::new();
    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.say_bytes("Listening on stdio...\n\n\r\n\u{1b}[31mwarning\u{1b}[0m\n").await;
    server.say_bytes(b"\xff\xfe\x00\n42\n\"text\"\nnull\n{}\n[]\n{\"jsonrpc\":\"2.0\"}\n{\n").await;
    server.answer(&json!(999), json!("not asked for")).await;
    server.answer(&json!(id.to_string()), json!("an id that only looks like ours")).await;
    server.answer(&Value::Null, json!("no id")).await;
    server.answer(&id, json!("right")).await;
    server.answer(&id, json!("a second answer")).await;
    assert_eq!(asked.await.unwrap(), Ok(json!("right")));
    // The next question shows that everything before it was read.
    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.answer(&id, json!(1)).await;
    assert_eq!(asked.await.unwrap(), Ok(json!(1)));
    assert_eq!(peer.noise(), Noise { lines: 9, too_long: 0, answers: 4, refused: 0 });
}

#[tokio::test]
async fn a_line_without_an_end_takes_no_more_memory_than_a_line_may_have() {
    let (peer, mut server) = Server::new();
    let (asked, other) = (ask(&peer, "echo"), ask(&peer, "echo"));
    let (first, second) = (server.hear().await["id"].clone(), server.hear().await["id"].clone());
    server.say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{first},\"result\":\"")).await;
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..=MOST_LINE / piece.len() {
        server.say_bytes(&piece).await;
    }
    server.say_bytes("\"}\n").await;
    server.answer(&second, json!("still here")).await;
    assert_eq!(other.await.unwrap(), Ok(json!("still here")));
    let too_long = Trouble::Unusable(format!("it is longer than {MOST_LINE} bytes"));
    assert_eq!(asked.await.unwrap(), Err(too_long));
    assert_eq!(peer.noise(), Noise { too_long: 1, ..Noise::default() });
}

#[tokio::test]
async fn an_answer_that_two_readers_would_read_differently_is_none() {
    let (peer, mut server) = Server::new();
    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"a\":1,\"a\":2}}}}\n")).await;
    let twice = Trouble::Unusable("a key in it is given twice".to_owned());
    assert_eq!(asked.await.unwrap(), Err(twice));

    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": 1, "error": { "code": 1, "message": "no" } })).await;
    assert!(matches!(asked.await.unwrap(), Err(Trouble::Unusable(_))));

    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": "no", "data": 7 } })).await;
    let refused = Trouble::Refused { code: -32602, message: "no".to_owned(), data: json!(7) };
    assert_eq!(asked.await.unwrap(), Err(refused));
}

#[tokio::test]
async fn whoever_waits_when_the_server_goes_is_told() {
    let (peer, mut server) = Server::new();
    let asked = [ask(&peer, "echo"), ask(&peer, "echo")];
    server.hear().await;
    server.say_bytes("{\"jsonrpc\":\"2.0\",\"id\":1,\"resu").await;
    drop(server);
    for asked in asked {
        assert_eq!(asked.await.unwrap(), Err(Trouble::Gone));
    }
    peer.gone().await;
    assert_eq!(peer.ask("echo", Map::new(), SOON, None).await, Err(Trouble::Gone));
}

#[tokio::test]
async fn what_is_given_up_is_cancelled_at_the_server() {
    let (peer, mut server) = Server::new();
    let asked = ask_for(&peer, "slow", AT_ONCE);
    let id = server.hear().await["id"].clone();
    assert_eq!(asked.await.unwrap(), Err(Trouble::TimedOut(AT_ONCE)));
    let cancelled = |id: &Value| {
        let params = json!({ "requestId": id, "reason": "the caller no longer waits" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    assert_eq!(server.hear().await, cancelled(&id));

    let asked = ask(&peer, "slow");
    let id = server.hear().await["id"].clone();
    asked.abort();
    assert_eq!(server.hear().await, cancelled(&id));
    // Its answer comes all the same, and is nobody's.
    server.answer(&id, json!("late")).await;
    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    server.answer(&id, json!("mine")).await;
    assert_eq!(asked.await.unwrap(), Ok(json!("mine")));
    assert_eq!(peer.noise(), Noise { answers: 1, ..Noise::default() });
}

#[tokio::test]
async fn progress_reaches_whoever_asked_and_nobody_else() {
    let (peer, mut server) = Server::new();
    let (steps, mut heard) = mailbox();
    let (other_steps, mut other) = mailbox();
    let (asker, other_asker) = (peer.clone(), peer.clone());
    let asked = tokio::spawn(async move { asker.ask("slow", Map::new(), SOON, Some(steps)).await });
    let first = server.hear().await;
    let token = first["params"]["_meta"]["progressToken"].clone();
    let also = tokio::spawn(async move { other_asker.ask("slow", Map::new(), SOON, Some(other_steps)).await });
    let second = server.hear().await;
    let step = |token: &Value, done: f64| {
        let params = json!({ "progressToken": token, "progress": done, "total": 4, "message": "reading" });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    for token in [json!(99), json!("1"), token.clone()] {
        server.say(&step(&token, 1.0)).await;
    }
    for request in [&first, &second] {
        server.answer(&request["id"], json!("done")).await;
    }
    assert_eq!((asked.await.unwrap(), also.await.unwrap()), (Ok(json!("done")), Ok(json!("done"))));
    let step = Step { done: 1.0, total: Some(4.0), message: Some("reading".to_owned()) };
    assert_eq!(heard.hear().await, Said::Step(step));
    assert_eq!((heard.heard(), other.heard()), (None, None));
}

#[tokio::test]
async fn a_server_that_asks_gets_a_sign_of_life_and_nothing_else() {
    let (peer, mut server) = Server::new();
    server.say(&json!({ "jsonrpc": "2.0", "id": "a", "method": "ping" })).await;
    assert_eq!(server.hear().await, json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    // Where no call is under way there is nobody a question could be for.
    let (nobody, unknown) = (-32600, -32601);
    for (method, code) in [
        ("roots/list", nobody),
        ("sampling/createMessage", nobody),
        ("elicitation/create", nobody),
        ("tools/call", unknown),
        ("nonsense", unknown),
    ] {
        server.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} })).await;
        let answer = server.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(code)), "{method}");
    }
    assert_eq!(peer.noise(), Noise { refused: 5, ..Noise::default() });
}

#[tokio::test]
async fn a_server_that_asks_and_does_not_read_is_still_heard() {
    let (peer, mut server) = Server::new();
    let asked = ask(&peer, "echo");
    let id = server.hear().await["id"].clone();
    for _ in 0..5_000 {
        server.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" })).await;
    }
    server.answer(&id, json!("heard")).await;
    assert_eq!(asked.await.unwrap(), Ok(json!("heard")));
}

#[tokio::test]
async fn the_conversation_ends_with_the_last_who_holds_it() {
    let (peer, mut server) = Server::new();
    drop(peer.clone());
    peer.tell("still/here", json!({}));
    server.hear().await;
    drop(peer);
    assert_eq!(server.read.next_line().await.unwrap(), None);
}

// ---- eras ----

fn open(peer: Peer, patience: Duration) -> tokio::task::JoinHandle<Result<Link, Trouble>> {
    tokio::spawn(async move { Link::open(peer, Way::Both, &json!({}), patience).await })
}

fn initialized(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": { "name": "old" } })
}

async fn accept_legacy(server: &mut Server, version: &str) {
    let told = server.serve("initialize", initialized(version)).await;
    assert_eq!((&told["protocolVersion"], &told["capabilities"]), (&json!("2025-11-25"), &json!({})));
    assert_eq!(server.hear().await["method"], "notifications/initialized");
}

#[tokio::test]
async fn a_server_of_the_new_era_is_spoken_to_in_its_way() {
    let (peer, mut server) = Server::new();
    let opened = open(peer, SOON);
    let told = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": { "listChanged": true } },
    });
    let asked = server.serve("server/discover", told).await;
    let about = |params: &Value| {
        let meta = &params["_meta"];
        let of = |key: &str| meta[format!("io.modelcontextprotocol/{key}")].clone();
        json!([of("protocolVersion"), of("clientCapabilities"), of("clientInfo")["name"]])
    };
    let expected = json!(["2026-07-28", {}, "toolgate"]);
    assert_eq!(about(&asked), expected);
    let link = opened.await.unwrap().unwrap();
    assert_eq!(link.greeting().era, Era::Modern);
    let listen = server.hear().await;
    assert_eq!(listen["method"], "subscriptions/listen");
    assert_eq!(
        (about(&listen["params"]), &listen["params"]["notifications"]),
        (expected.clone(), &json!({ "toolsListChanged": true }))
    );
    let mut changes = link.changes();
    server.say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })).await;
    changes.changed().await.unwrap();

    let params = Map::from_iter([("name".to_owned(), json!("t"))]);
    let asker = link.clone();
    let asked = tokio::spawn(async move { asker.ask("tools/call", params, SOON).await });
    let request = server.hear().await;
    assert_eq!((about(&request["params"]), &request["params"]["name"]), (expected, &json!("t")));
    // What is no result yet is none: nobody here can give what is still wanted.
    server.answer(&request["id"], json!({ "resultType": "input_required", "requestState": "x" })).await;
    assert!(matches!(asked.await.unwrap(), Err(Trouble::Unusable(why)) if why.contains("input_required")));
}

#[tokio::test]
async fn whatever_a_server_of_the_old_era_says_first_it_is_greeted_in_the_old_way() {
    let errors = [-32601, -32602, -32600, -32603, -32000, -32022, 0];
    for code in errors {
        let (peer, mut server) = Server::new();
        let opened = open(peer, SOON);
        let id = server.hear().await["id"].clone();
        server.say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "what?" } })).await;
        accept_legacy(&mut server, "2025-06-18").await;
        assert_eq!(opened.await.unwrap().unwrap().greeting().era, Era::Legacy("2025-06-18"), "{code}");
    }
    // One that answers what it was not asked, and one that knows only another new era.
    for told in [json!({}), json!({ "supportedVersions": ["2031-01-01"] }), json!(null), json!([1])] {
        let (peer, mut server) = Server::new();
        let opened = open(peer, SOON);
        server.serve("server/discover", told.clone()).await;
        accept_legacy(&mut server, "2024-11-05").await;
        assert_eq!(opened.await.unwrap().unwrap().greeting().era, Era::Legacy("2024-11-05"), "{told}");
    }
    // One that says nothing to what it does not know.
    let (peer, mut server) = Server::new();
    let opened = open(peer, Duration::from_millis(600));
    assert_eq!(server.hear().await["method"], "server/discover");
    assert_eq!(server.hear().await["method"], "notifications/cancelled");
    accept_legacy(&mut server, "2025-11-25").await;
    assert_eq!(opened.await.unwrap().unwrap().greeting().era, Era::Legacy("2025-11-25"));
}

#[tokio::test]
async fn a_server_of_the_new_era_that_was_slow_to_start_is_asked_again() {
    let (peer, mut server) = Server::new();
    let opened = open(peer, Duration::from_secs(3));
    let late = server.hear().await;
    assert_eq!(late["method"], "server/discover");
    assert_eq!(server.hear().await["method"], "notifications/cancelled");
    let initialize = server.hear().await;
    let modern = json!({ "supportedVersions": ["2026-07-28"] });
    server.answer(&late["id"], modern.clone()).await;
    let refused = json!({ "code": -32022, "message": "only the new way", "data": { "supported": ["2026-07-28"] } });
    server.say(&json!({ "jsonrpc": "2.0", "id": initialize["id"], "error": refused })).await;
    server.serve("server/discover", modern).await;
    assert_eq!(opened.await.unwrap().unwrap().greeting().era, Era::Modern);
}

#[tokio::test]
async fn a_server_that_speaks_nothing_known_is_not_spoken_to() {
    let (peer, mut server) = Server::new();
    let opened = open(peer, SOON);
    server.serve("server/discover", json!({})).await;
    server.serve("initialize", initialized("1999-\u{1b}[2J")).await;
    let refused = opened.await.unwrap().map(|_| ()).unwrap_err();
    let why = "it speaks revision `1999-\\u{1b}[2J`, which is not known here".to_owned();
    assert_eq!(refused, Trouble::Unusable(why));

    let (peer, mut server) = Server::new();
    let opened = open(peer, Duration::from_millis(60));
    server.hear().await;
    assert!(matches!(opened.await.unwrap().map(|_| ()), Err(Trouble::TimedOut(_))));
}

// ---- lists ----

async fn linked() -> (Link, Server) {
    let (peer, mut server) = Server::new();
    let opened = open(peer, SOON);
    server.serve("server/discover", json!({ "supportedVersions": ["2026-07-28"] })).await;
    (opened.await.unwrap().unwrap(), server)
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" }, "x-vendor": 1 })
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let (link, mut server) = linked().await;
    let listed = tokio::spawn(async move { list(&link, &BTreeSet::from(Offers::ALL), SOON).await });
    let first = server.serve("tools/list", json!({ "tools": [tool("a"), tool("b")], "nextCursor": "p2" })).await;
    assert_eq!(first.get("cursor"), None);
    let odd = json!([tool("c"), 7, { "name": "d" }, { "name": "", "inputSchema": {} }, { "name": "e", "inputSchema": [] },
        { "name": "f", "inputSchema": {}, "description": ["not", "text"] }]);
    let second = server.serve("tools/list", json!({ "tools": odd })).await;
    assert_eq!(second["cursor"], "p2");
    let listing = listed.await.unwrap().unwrap();
    let names: Vec<_> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    // What has a name and no schema is found to have none by whoever takes it in.
    assert_eq!((names, listing.unreadable), (vec!["a", "b", "c", "d", "e"], 3));
    assert_eq!(listing.tools[0].to_json(), tool("a"));
}

#[tokio::test]
async fn a_list_that_goes_in_circles_or_on_and_on_is_none() {
    let (link, mut server) = linked().await;
    let listed = tokio::spawn(async move { list(&link, &BTreeSet::from(Offers::ALL), SOON).await });
    for cursor in ["x", "y", "x"] {
        server.serve("tools/list", json!({ "tools": [tool("a")], "nextCursor": cursor })).await;
    }
    let circles = Trouble::Unusable("its list of tools goes in circles".to_owned());
    assert_eq!(listed.await.unwrap(), Err(circles));

    let (link, mut server) = linked().await;
    let listed = tokio::spawn(async move { list(&link, &BTreeSet::from(Offers::ALL), SOON).await });
    for page in 0..100 {
        server.serve("tools/list", json!({ "tools": [], "nextCursor": page.to_string() })).await;
    }
    assert!(matches!(listed.await.unwrap(), Err(Trouble::Unusable(why)) if why.contains("100 pages")));

    let (link, mut server) = linked().await;
    let listed = tokio::spawn(async move { list(&link, &BTreeSet::from(Offers::ALL), SOON).await });
    let many: Vec<_> = (0..513).map(|number| tool(&format!("t{number}"))).collect();
    server.serve("tools/list", json!({ "tools": many })).await;
    assert!(matches!(listed.await.unwrap(), Err(Trouble::Unusable(why)) if why.contains("more than 512")));

    let (link, mut server) = linked().await;
    let listed = tokio::spawn(async move { list(&link, &BTreeSet::from(Offers::ALL), SOON).await });
    server.serve("tools/list", json!({ "tools": {} })).await;
    assert_eq!(listed.await.unwrap(), Err(Trouble::Unusable("its list of tools is none".to_owned())));
}
