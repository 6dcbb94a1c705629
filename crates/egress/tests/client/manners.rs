//! Manners: what a server wants of programs, and how often it is asked.

use std::time::Duration;

use toolgate_contract::{Fault, WebRequest, WebResponse};
use toolgate_egress::{Client, ClientTerms, PaceTerms, Within};

use crate::stage::{Server, client, code, get, ok, path, redirect, reply, terms};

/// A server with this answer for its `robots.txt` and a page everywhere else.
fn with_robots(answer: Vec<u8>) -> Server {
    Server::new(move |request| match path(request) {
        "/robots.txt" => answer.clone(),
        "/moved" => redirect(302, "/private/page"),
        _ => ok("a page"),
    })
}

async fn politely(client: &Client, url: String) -> Result<WebResponse, Fault> {
    let request = WebRequest { polite: true, ..WebRequest::get(url) };
    client.send(&request, &Within::Public, &[]).await
}

#[tokio::test]
async fn a_page_a_server_does_not_want_fetched_is_not_fetched() {
    let server = with_robots(ok("User-agent: *\nDisallow: /\nUser-agent: toolgate\nDisallow: /private"));
    let client = client(&["site.test"]);
    assert_eq!(politely(&client, server.url("site.test", "/page")).await.unwrap().body, b"a page");
    for path in ["/private/page", "/moved"] {
        assert_eq!(code(politely(&client, server.url("site.test", path)).await), "robots_refused");
    }
    assert_eq!(
        server.asked(),
        ["GET /robots.txt HTTP/1.1", "GET /page HTTP/1.1", "GET /moved HTTP/1.1"],
        "what a server wants is asked once"
    );
    assert_eq!(get(&client, &server.url("site.test", "/private/page")).await.unwrap().body, b"a page");
}

#[tokio::test]
async fn a_server_that_says_nothing_allows_everything() {
    for status in [401, 403, 404, 410] {
        let server = with_robots(reply(status, &[], b"User-agent: *\nDisallow: /"));
        assert!(politely(&client(&["site.test"]), server.url("site.test", "/page")).await.is_ok(), "{status}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_say_is_left_alone() {
    for answer in [reply(500, &[], b""), reply(503, &[], b""), reply(429, &[], b""), b"nonsense\r\n\r\n".to_vec()] {
        let server = with_robots(answer);
        let fault = politely(&client(&["site.test"]), server.url("site.test", "/page")).await.unwrap_err();
        assert_eq!((fault.code.as_ref(), fault.retryable), ("robots_refused", true));
        assert_eq!(server.asked(), ["GET /robots.txt HTTP/1.1"]);
    }
}

#[tokio::test]
async fn a_long_file_is_read_as_far_as_it_goes() {
    let mut long = "User-agent: *\nDisallow: /private\n".to_owned();
    long.push_str(&"# nothing\n".repeat(100_000));
    long.push_str("Disallow: /\n");
    let server = with_robots(ok(&long));
    let client = client(&["site.test"]);
    assert!(politely(&client, server.url("site.test", "/page")).await.is_ok());
    assert_eq!(code(politely(&client, server.url("site.test", "/private")).await), "robots_refused");
}

#[tokio::test]
async fn what_a_server_wants_is_asked_on_the_judged_way() {
    let shut = crate::stage::Shut::new();
    let server = with_robots(redirect(302, &format!("http://127.0.0.1:{}/robots.txt", shut.port())));
    let client = client(&["site.test"]);
    assert_eq!(code(politely(&client, server.url("site.test", "/page")).await), "robots_refused");
    let url = format!("http://www.rebinding.org:{}/", shut.port());
    assert_eq!(code(politely(&client, url).await), "address_refused");
    shut.was_not_visited();
}

#[tokio::test]
async fn the_pause_a_server_wants_is_kept() {
    let server = with_robots(ok("User-agent: *\nCrawl-delay: 10"));
    let client = client(&["site.test"]);
    politely(&client, server.url("site.test", "/one")).await.unwrap();
    let mut request = WebRequest { polite: true, ..WebRequest::get(server.url("site.test", "/two")) };
    request.limits.wall = Duration::from_millis(200);
    assert_eq!(code(client.send(&request, &Within::Public, &[]).await), "timed_out");
    assert_eq!(server.asked(), ["GET /robots.txt HTTP/1.1", "GET /one HTTP/1.1"]);
}

#[tokio::test]
async fn a_host_is_asked_no_more_often_than_it_may_be() {
    let server = Server::new(|request| match path(request) {
        "/moved" => redirect(302, "/page"),
        _ => ok("a page"),
    });
    let pace = PaceTerms { per_minute: 1, at_once: 3, wait: Duration::ZERO };
    let client = Client::new(ClientTerms { pace, ..terms(&["site.test", "other.test"]) }).unwrap();
    assert!(get(&client, &server.url("site.test", "/moved")).await.is_ok());
    assert_eq!(code(get(&client, &server.url("site.test", "/moved")).await), "rate_limited");
    assert_eq!(server.heard().len(), 3, "a redirect is a request like any other");
    assert!(get(&client, &server.url("other.test", "/page")).await.is_ok());
}
