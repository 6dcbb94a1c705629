//! What is turned away before anybody looks at what it asks for, and what every answer carries.

use std::fmt::Write as _;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use toolgate_contract::Scope;

use crate::stage::{PATIENCE, Stage};

#[tokio::test]
async fn only_requests_for_our_own_names_are_answered() {
    let stage = Stage::with_hosts(&["tools.example", "https://gate.example"]).await;
    let port = stage.address.port();
    let check = async |hosts: &[&str], expected: u16| {
        let headers: Vec<_> = hosts.iter().map(|host| ("Host", *host)).collect();
        let reply = stage.send_as("GET", "/login", &headers, "").await;
        assert_eq!(reply.status, expected, "{hosts:?}: {reply:?}");
    };
    for ours in ["127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT", "[::1]:PORT", "tools.example", "gate.example"] {
        check(&[&ours.replace("PORT", &port.to_string())], 200).await;
    }
    for foreign in [
        "evil.example",
        "evil.example:PORT",
        "localhost",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost:PORT.evil.example",
        "evil.example/localhost:PORT",
        "user@localhost:PORT",
        "",
    ] {
        check(&[&foreign.replace("PORT", &port.to_string())], 421).await;
    }
    check(&[], 421).await;
    let own = stage.host();
    check(&[&own, "evil.example"], 421).await;
    // The first line names a host too.
    let reply = stage.send("GET", "http://evil.example/login", &[], "").await;
    assert_eq!(reply.problem(), (421, "wrong_host".to_owned()));
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing_and_hear_nothing() {
    let stage = Stage::new().await;
    let browser = stage.log_in().await;
    let (own, cookie) = (stage.origin(), browser.cookie.clone());
    let token = stage.person("bob", &[Scope::Read]).await;
    let bearer = format!("Bearer {token}");
    let foreign = ["https://evil.example", "null", "http://localhost", "http://127.0.0.1:1", ""];
    for origin in foreign {
        for headers in [
            vec![("Origin", origin), ("Authorization", &*bearer)],
            vec![("Origin", origin), ("Cookie", &*cookie), ("X-CSRF-Token", &*browser.csrf)],
            vec![("Origin", &*own), ("Origin", origin), ("Authorization", &*bearer)],
        ] {
            for (method, path) in [("POST", "/api/audit/verify"), ("GET", "/api/events"), ("POST", "/audit")] {
                let reply = stage.send(method, path, &headers, "").await;
                assert_eq!(reply.problem(), (403, "wrong_origin".to_owned()), "{method} {path} {headers:?}");
            }
        }
    }
    for site in ["cross-site", "same-site"] {
        for (method, path) in [("POST", "/api/audit/verify"), ("GET", "/api/events")] {
            let headers = [("Sec-Fetch-Site", site), ("Cookie", &*cookie), ("X-CSRF-Token", &*browser.csrf)];
            let reply = stage.send(method, path, &headers, "").await;
            assert_eq!(reply.problem(), (403, "wrong_origin".to_owned()), "{method} {path} {site}");
        }
    }
    // A program has no origin, and our own page has ours.
    let from_program = stage.send("POST", "/api/audit/verify", &[("Authorization", &bearer)], "").await;
    let from_page = stage
        .send(
            "POST",
            "/api/audit/verify",
            &[("Origin", &own), ("Cookie", &cookie), ("X-CSRF-Token", &browser.csrf)],
            "",
        )
        .await;
    assert_eq!((from_program.status, from_page.status), (200, 200), "{from_program:?} {from_page:?}");
}

#[tokio::test]
async fn a_preflight_allows_nothing() {
    let stage = Stage::new().await;
    let headers = [("Origin", &*stage.origin()), ("Access-Control-Request-Method", "POST")];
    let reply = stage.send("OPTIONS", "/api/calls", &headers, "").await;
    let allowed: Vec<_> = reply.headers.iter().filter(|(name, _)| name.starts_with("access-control")).collect();
    assert_eq!((reply.status, allowed.len()), (405, 0), "{reply:?}");
}

#[tokio::test]
async fn every_answer_carries_what_keeps_a_browser_in_check() {
    let stage = Stage::new().await;
    let browser = stage.log_in().await;
    let mut replies = vec![
        browser.get("/").await,
        browser.get("/calls").await,
        browser.get("/nowhere").await,
        browser.get("/api/nowhere").await,
        stage.send("GET", "/login", &[], "").await,
        stage.send("GET", "/api/calls", &[], "").await,
        stage.send("GET", "/api/openapi.json", &[], "").await,
        stage.send_as("GET", "/", &[("Host", "evil.example")], "").await,
    ];
    let asset = stage.send("GET", "/assets/console.css", &[], "").await;
    assert_eq!((asset.status, asset.header("cache-control")), (200, Some("public, max-age=86400")));
    for reply in &replies {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    }
    replies.push(asset);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                  form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    for reply in &replies {
        for (name, expected) in [
            ("content-security-policy", policy),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(expected), "{name}: {reply:?}");
        }
        assert!(!reply.body.contains("<script>") && !reply.body.contains(" style="), "{reply:?}");
    }
}

#[tokio::test]
async fn assets_are_three_and_no_path_leads_elsewhere() {
    let stage = Stage::new().await;
    for path in [
        "/assets/../Cargo.toml",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e/console.css",
        "/assets//console.css",
        "/assets/console.css/",
        "/assets/",
        "/assets",
        "/assets/\\..\\x",
        "/../etc/passwd",
        "/assets/console.css%00.html",
    ] {
        let reply = stage.send("GET", path, &[], "").await;
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
}

#[tokio::test]
async fn a_head_too_large_or_never_finished_is_cut_off() {
    let stage = Stage::new().await;
    let mut large = format!("GET / HTTP/1.1\r\nHost: {}\r\n", stage.host());
    (0..2_000).for_each(|n| write!(large, "X-{n}: {}\r\n", "x".repeat(40)).unwrap());
    let reply = stage.send_bytes(format!("{large}\r\n").as_bytes()).await;
    assert!([0, 400, 431].contains(&reply.status), "{reply:?}");

    // Nothing is answered to half a head, and the connection does not stay.
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes").unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
}

#[tokio::test]
async fn a_body_too_large_is_refused() {
    let stage = Stage::new().await;
    let agent = stage.agent().await;
    let most = stage.runtime.config().limits.max_input_bytes;
    let body = serde_json::json!({ "tool": "echo", "arguments": { "text": "x".repeat(most + 70_000) } });
    assert_eq!(stage.post("/api/calls", &agent, &body).await.problem(), (413, "too_large".to_owned()));
    let form = stage.form("/login", "", &format!("code={}", "x".repeat(70_000))).await;
    assert_eq!(form.status, 413, "{form:?}");
}

#[tokio::test]
async fn it_stops_when_it_is_told_to_also_while_somebody_listens() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let head = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", stage.host());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 64];
    assert!(timeout(PATIENCE, stream.read(&mut first)).await.unwrap().unwrap() > 0);
    stage.close().await;
}
