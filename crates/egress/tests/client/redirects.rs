//! Redirects: walked hop by hop, each judged like the first.

use toolgate_contract::{Method, WebRequest};
use toolgate_egress::{Barred, Client, ClientTerms, Within};
use toolgate_guard::url::WebUrl;

use crate::stage::{Server, Shut, client, code, get, ok, path, redirect, reply, terms, text};

/// A server that sends `/0` to `/1`, and so on, and says where it ends.
fn chain(length: usize) -> Server {
    Server::new(move |request| match path(request)[1..].parse::<usize>().unwrap() {
        at if at < length => redirect(302, &format!("/{}", at + 1)),
        at => ok(&format!("the end at {at}")),
    })
}

#[tokio::test]
async fn redirects_are_followed_and_told() {
    let server = chain(2);
    let answer = get(&client(&["site.test"]), &server.url("site.test", "/0")).await.unwrap();
    assert_eq!(answer.body, b"the end at 2");
    assert_eq!(answer.url, server.url("site.test", "/2"));
    assert_eq!(answer.redirects, [server.url("site.test", "/0"), server.url("site.test", "/1")]);
}

#[tokio::test]
async fn there_are_so_many_redirects_and_no_more() {
    let client = client(&["site.test"]);
    assert_eq!(text(get(&client, &chain(5).url("site.test", "/0")).await), "the end at 5");
    let endless = chain(usize::MAX);
    assert_eq!(code(get(&client, &endless.url("site.test", "/0")).await), "too_many_redirects");
    assert_eq!(endless.heard().len(), 6);
}

#[tokio::test]
async fn where_none_is_to_be_followed_the_redirect_is_the_answer() {
    let server = chain(1);
    let client = client(&["site.test"]);
    let mut request = WebRequest::get(server.url("site.test", "/0"));
    let origin = Within::Origin(WebUrl::read(&server.url("site.test", "/")).unwrap());
    let at_origin = client.send(&request, &origin, &[]).await.unwrap();
    request.limits.redirects = 0;
    let at_none = client.send(&request, &Within::Public, &[]).await.unwrap();
    for answer in [at_origin, at_none] {
        assert_eq!((answer.status, answer.header("location")), (302, Some("/1")));
        assert_eq!(answer.redirects, [] as [String; 0]);
    }
    assert_eq!(server.asked(), ["GET /0 HTTP/1.1", "GET /0 HTTP/1.1"]);
}

/// What becomes of a redirect to this place, from a host that may be reached.
async fn led_to(place: &str, within: &Within) -> Result<String, String> {
    let place = place.to_owned();
    let server = Server::new(move |request| match path(request) {
        "/start" => redirect(302, &place),
        _ => ok("followed"),
    });
    let request = WebRequest::get(server.url("site.test", "/start"));
    let answer = client(&["site.test"]).send(&request, within, &[]).await;
    answer.map(|answer| answer.url).map_err(|fault| {
        assert!(fault.message.starts_with("the redirect to `") || fault.code != "redirect_refused", "{fault}");
        fault.code.into_owned()
    })
}

#[tokio::test]
async fn a_redirect_leads_nobody_to_where_they_could_not_go_by_themselves() {
    let shut = Shut::new();
    let port = shut.port();
    for place in [
        format!("http://127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://www.rebinding.org:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.0.0.1:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://user:secret@127.0.0.1:{port}/"),
        format!("http://site.test@127.0.0.1:{port}/"),
        format!("http:\\\\127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://metadata.google.internal/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1:6379/_FLUSHALL".to_owned(),
        "javascript:alert(1)".to_owned(),
        "data:text/plain,hello".to_owned(),
    ] {
        assert_eq!(led_to(&place, &Within::Public).await, Err("redirect_refused".into()), "{place}");
    }
    shut.was_not_visited();
}

#[tokio::test]
async fn a_redirect_in_the_middle_of_a_chain_is_judged_like_the_first() {
    let shut = Shut::new();
    let bad = format!("http://127.0.0.1:{}/", shut.port());
    let server = Server::new(move |request| match path(request) {
        "/1" => redirect(301, "/2"),
        "/2" => redirect(307, "/3"),
        _ => redirect(308, &bad),
    });
    let fault = get(&client(&["site.test"]), &server.url("site.test", "/1")).await.unwrap_err();
    assert_eq!(fault.code, "redirect_refused");
    assert_eq!(
        fault.message,
        format!(
            "the redirect to `http://127.0.0.1:{}/` is not followed: `127.0.0.1` is not reached: it leads to \
             `127.0.0.1`, which is the machine itself",
            shut.port()
        )
    );
    shut.was_not_visited();
}

#[tokio::test]
async fn a_redirect_stays_within_what_the_agent_may_reach() {
    let shut = Shut::new();
    let listed = |hosts: &[String]| Within::Listed(hosts.to_vec());
    let server = Server::new({
        let place = format!("http://other.test:{}/", shut.port());
        move |_| redirect(302, &place)
    });
    let client = client(&["site.test", "other.test"]);
    let request = WebRequest::get(server.url("site.test", "/"));
    let within = listed(&[format!("site.test:{}", server.port())]);
    assert_eq!(code(client.send(&request, &within, &[]).await), "redirect_refused");
    shut.was_not_visited();
}

#[tokio::test]
async fn a_redirect_that_says_no_place_or_two_is_no_answer() {
    for answer in [
        reply(302, &[], b""),
        reply(302, &[("location", "/a"), ("location", "/b")], b""),
        b"HTTP/1.1 302 Found\r\nlocation: /\xe4\r\ncontent-length: 0\r\n\r\n".to_vec(),
    ] {
        let server = Server::new(move |_| answer.clone());
        assert_eq!(code(get(&client(&["site.test"]), &server.url("site.test", "/")).await), "bad_response");
        assert_eq!(server.heard().len(), 1);
    }
}

/// The second request of one that is redirected: its first line, whether it speaks of a body, and its body.
async fn second(method: Method, status: u16) -> (String, bool, String) {
    let server = Server::new(move |request| match path(request) {
        "/start" => redirect(status, "/end"),
        _ if request.starts_with("HEAD") => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        _ => ok(""),
    });
    let mut request = WebRequest::get(server.url("site.test", "/start"));
    request.method = method;
    request.headers = vec![("content-type".into(), "text/plain".into()), ("x-own".into(), "kept".into())];
    if method.writes() {
        request.body = b"body".to_vec();
    }
    client(&["site.test"]).send(&request, &Within::Public, &[]).await.unwrap();
    let heard = server.heard()[1].clone();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("x-own: kept"), "{head}");
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    (line, head.contains("content-type") || head.contains("content-length: 4"), body.to_owned())
}

#[tokio::test]
async fn what_is_asked_of_the_next_is_what_browsers_ask() {
    let got = || ("GET /end".to_owned(), false, String::new());
    let kept = |method: &str| (format!("{method} /end"), true, "body".to_owned());
    for (method, status, expected) in [
        (Method::Post, 301, got()),
        (Method::Post, 302, got()),
        (Method::Post, 303, got()),
        (Method::Put, 303, got()),
        (Method::Delete, 303, got()),
        (Method::Post, 307, kept("POST")),
        (Method::Post, 308, kept("POST")),
        (Method::Put, 301, kept("PUT")),
        (Method::Patch, 302, kept("PATCH")),
        (Method::Head, 303, ("HEAD /end".to_owned(), true, String::new())),
        (Method::Get, 303, ("GET /end".to_owned(), true, String::new())),
    ] {
        assert_eq!(second(method, status).await, expected, "{method} {status}");
    }
}

#[tokio::test]
async fn a_host_a_rule_bars_is_not_reached_by_a_redirect_either() {
    let end = Server::new(|_| ok("followed"));
    let next = end.url("other.test", "/");
    let start = Server::new(move |_| redirect(302, &next));
    for (barred, expected) in [
        ("nobody.test", Ok("followed")),
        ("other.test", Err("redirect_refused")),
        (&*format!("127.0.0.1:{}", end.port()), Err("redirect_refused")),
        ("127.0.0.0/8", Err("host_denied")),
        ("*.test", Err("host_denied")),
    ] {
        let barred = Barred::parse(&[barred.to_owned()]).unwrap();
        let client = Client::new(ClientTerms { barred, ..terms(&["site.test", "other.test"]) }).unwrap();
        let got = get(&client, &start.url("site.test", "/")).await.map(|answer| answer.body);
        let expected = expected.map(|body| body.as_bytes().to_vec()).map_err(str::to_owned);
        assert_eq!(got.map_err(|fault| fault.code.into_owned()), expected);
    }
    assert_eq!((start.heard().len(), end.visits()), (3, 1));
}
