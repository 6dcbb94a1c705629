//! What proves who asks: it goes to the one origin it is for, and nowhere else.

use toolgate_contract::{Method, WebRequest};
use toolgate_egress::{SecretHeader, Within};

use crate::stage::{Server, client, ok, path, redirect};

const SECRET: &str = "hunter2-0123456789";

fn key() -> [SecretHeader; 1] {
    [SecretHeader::new("x-api-key", SECRET).unwrap()]
}

fn request(url: String) -> WebRequest {
    let mut request = WebRequest::get(url);
    let own = [("authorization", "Bearer own"), ("cookie", "own=1"), ("x-plain", "stays")];
    request.headers = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    request
}

/// Which of these stand in a request.
fn found(request: &str) -> Vec<&'static str> {
    ["x-api-key", "authorization", "cookie", "x-plain"]
        .into_iter()
        .filter(|name| request.contains(&format!("{name}: ")))
        .collect()
}

const ALL: [&str; 4] = ["x-api-key", "authorization", "cookie", "x-plain"];

#[tokio::test]
async fn they_stay_within_an_origin() {
    let server = Server::new(|request| match path(request) {
        "/start" => redirect(302, "/end"),
        _ => ok("there"),
    });
    let request = request(server.url("site.test", "/start"));
    client(&["site.test"]).send(&request, &Within::Public, &key()).await.unwrap();
    let heard = server.heard();
    assert_eq!(heard.iter().map(|request| found(request)).collect::<Vec<_>>(), [ALL, ALL]);
    assert!(heard[1].contains(SECRET));
}

#[tokio::test]
async fn they_are_gone_at_another_origin_and_do_not_come_back() {
    let home = Server::new(|request| match path(request) {
        "/end" => ok("back"),
        away => redirect(307, &format!("http:/{away}")),
    });
    let back = home.url("site.test", "/end");
    let away = Server::new(move |_| redirect(307, &back));
    // Another port and another name are other origins.
    for other in [format!("/site.test:{}/", away.port()), format!("/other.test:{}/", away.port())] {
        let request = request(home.url("site.test", &other));
        let answer = client(&["site.test", "other.test"]).send(&request, &Within::Public, &key()).await.unwrap();
        assert_eq!(answer.body, b"back");
    }
    let names = |server: &Server| server.heard().iter().map(|request| found(request)).collect::<Vec<_>>();
    // A key has any name: only what is known to be none goes along.
    assert_eq!(names(&home), [ALL.as_slice(), &[], &ALL, &[]]);
    assert_eq!(names(&away), [[""; 0], [""; 0]]);
    assert!(!away.heard().concat().contains(SECRET));
}

#[tokio::test]
async fn a_body_that_is_no_longer_sent_takes_nothing_with_it() {
    let away = Server::new(|_| ok("there"));
    let place = away.url("other.test", "/");
    let home = Server::new(move |_| redirect(302, &place));
    let mut request = request(home.url("site.test", "/"));
    (request.method, request.body) = (Method::Post, SECRET.into());
    client(&["site.test", "other.test"]).send(&request, &Within::Public, &key()).await.unwrap();
    assert_eq!(away.asked(), ["GET / HTTP/1.1"]);
    assert!(!away.heard()[0].contains(SECRET));
}

#[tokio::test]
async fn no_fault_says_them() {
    let place = "http://127.0.0.1:1/".to_owned();
    let server = Server::new(move |request| match path(request) {
        "/redirect" => redirect(302, &place),
        "/broken" => format!("HTTP/1.1 {SECRET}\r\n\r\n").into_bytes(),
        _ => b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n".to_vec(),
    });
    let client = client(&["site.test"]);
    for path in ["/redirect", "/broken"] {
        let fault = client.send(&request(server.url("site.test", path)), &Within::Public, &key()).await.unwrap_err();
        assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
    }
    assert!(!format!("{client:?} {:?}", key()).contains("hunter2"));
}
