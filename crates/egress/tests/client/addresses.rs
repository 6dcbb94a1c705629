//! Whom the client dials: what was judged, and nobody else.

use std::net::{IpAddr, Ipv4Addr};

use toolgate_contract::{Method, WebRequest};
use toolgate_egress::{Client, ClientTerms, Within};
use toolgate_guard::url::Host;

use crate::{
    names::{NameServer, Said},
    stage::{HOME, Server, Shut, client, code, get, leading, ok, terms, text},
};

/// A name of the internet.
const PUBLIC: &str = "www.rebinding.org";
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
/// Listed as internal by its address, where a test wants an address that may be dialled.
const LISTED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

#[tokio::test]
async fn an_internal_host_is_asked_and_answers() {
    let server = Server::new(|_| ok("hello"));
    let answer = get(&client(&["site.test"]), &server.url("site.test", "/a?b#c")).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"hello".as_slice()));
    assert_eq!(answer.url, server.url("site.test", "/a?b#c"));
    let request = &server.heard()[0];
    assert!(request.starts_with("GET /a?b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: site.test:{}\r\n", server.port())), "{request}");
    assert!(request.contains("user-agent: Toolgate/1.0\r\n"), "{request}");
}

#[tokio::test]
async fn every_method_is_spoken_as_it_is() {
    let server = Server::new(|request| match request.starts_with("HEAD") {
        true => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        false => ok("done"),
    });
    let client = client(&["site.test"]);
    for method in Method::ALL {
        let request = WebRequest { method, body: b"x".to_vec(), ..WebRequest::get(server.url("site.test", "/")) };
        client.send(&request, &Within::Public, &[]).await.unwrap();
    }
    assert_eq!(server.asked(), Method::ALL.map(|method| format!("{method} / HTTP/1.1")));
}

#[tokio::test]
async fn nobody_at_home_is_asked_however_they_are_spelled() {
    let shut = Shut::new();
    let client = client(&[]);
    for (host, expected) in [
        ("127.0.0.1", "address_refused"),
        ("127.0.0.2", "address_refused"),
        ("0.0.0.0", "address_refused"),
        ("[::1]", "address_refused"),
        ("[::ffff:127.0.0.1]", "address_refused"),
        ("[::ffff:7f00:1]", "address_refused"),
        ("[64:ff9b::127.0.0.1]", "address_refused"),
        ("localhost", "host_refused"),
        ("LOCALHOST.", "host_refused"),
        ("a.localhost", "host_refused"),
        ("intranet", "host_refused"),
        ("site.test", "host_refused"),
        ("2130706433", "url_refused"),
        ("0x7f000001", "url_refused"),
        ("0x7f.1", "url_refused"),
        ("127.1", "url_refused"),
        ("0177.0.0.1", "url_refused"),
        ("\u{ff11}27.0.0.1", "url_refused"),
        ("127\u{3002}0.0.1", "url_refused"),
        ("user@127.0.0.1", "url_refused"),
        ("www.rebinding.org@127.0.0.1", "url_refused"),
        ("127.0.0.1\\@www.rebinding.org", "url_refused"),
        ("%31%32%37.0.0.1", "url_refused"),
        ("www.rebinding.org", "address_refused"),
    ] {
        let url = format!("http://{host}:{}/", shut.port());
        assert_eq!(code(get(&client, &url).await), expected, "{url}");
    }
    shut.was_not_visited();
}

#[tokio::test]
async fn a_name_whose_second_answer_is_private_is_not_reached_by_it() {
    let server = Server::at("127.0.0.2:0", |_| [ok("first").as_slice()].concat());
    let shut = Shut::at((HOME, server.port()).into());
    let names = NameServer::new(|_, nth| match nth {
        0 => Said::Addresses(vec![LISTED]),
        _ => Said::Addresses(vec![HOME]),
    });
    let client = Client::new(ClientTerms { resolver: names.resolver(), ..terms(&["127.0.0.2"]) }).unwrap();
    let url = server.url(PUBLIC, "/");
    assert_eq!(text(get(&client, &url).await), "first");
    assert_eq!(names.questions(), 1, "what was judged is what was dialled: there is no second look-up");
    // The connection that was judged may be used again. Another one is looked up and judged again.
    assert_eq!(text(get(&client, &url).await), "first");
    assert_eq!((names.questions(), server.visits()), (1, 1));
    let other = Client::new(ClientTerms { resolver: names.resolver(), ..terms(&["127.0.0.2"]) }).unwrap();
    assert_eq!(code(get(&other, &url).await), "address_refused");
    shut.was_not_visited();
}

#[tokio::test]
async fn a_name_that_was_public_when_somebody_looked_is_judged_again_when_it_is_dialled() {
    let shut = Shut::new();
    let names = NameServer::new(|_, nth| match nth {
        0 => Said::Addresses(vec![SOMEWHERE]),
        _ => Said::Addresses(vec![HOME]),
    });
    let client = Client::new(ClientTerms { resolver: names.resolver(), ..terms(&[]) }).unwrap();
    let host = Host::read(PUBLIC).unwrap();
    let found = client.addresses(&host, shut.port()).await.unwrap();
    assert_eq!(found, [(SOMEWHERE, shut.port()).into()]);
    let fault = get(&client, &format!("http://{PUBLIC}:{}/", shut.port())).await.unwrap_err();
    assert_eq!(fault.code, "address_refused");
    assert_eq!(
        fault.message,
        format!("`{PUBLIC}` is not reached: it leads to `127.0.0.1`, which is the machine itself")
    );
    shut.was_not_visited();
}

#[tokio::test]
async fn an_answer_that_is_public_and_private_at_once_is_refused_whole() {
    let server = Server::at("127.0.0.2:0", |_| ok("half"));
    let shut = Shut::at((HOME, server.port()).into());
    for both in [[LISTED, HOME], [HOME, LISTED]] {
        let names = NameServer::new(move |_, _| Said::Addresses(both.to_vec()));
        let client = Client::new(ClientTerms { resolver: names.resolver(), ..terms(&["127.0.0.2"]) }).unwrap();
        assert_eq!(code(get(&client, &server.url(PUBLIC, "/")).await), "address_refused");
    }
    assert_eq!(server.visits(), 0);
    shut.was_not_visited();
}

#[tokio::test]
async fn a_host_is_internal_at_its_port_and_connections_are_not_shared_between_ports() {
    let server = Server::new(|_| ok("inside"));
    let shut = Shut::new();
    let client = client(&[&format!("{PUBLIC}:{}", server.port())]);
    assert_eq!(text(get(&client, &server.url(PUBLIC, "/")).await), "inside");
    assert_eq!(code(get(&client, &format!("http://{PUBLIC}:{}/", shut.port())).await), "address_refused");
    assert_eq!(text(get(&client, &server.url(PUBLIC, "/")).await), "inside");
    shut.was_not_visited();
}

#[tokio::test]
async fn an_address_is_internal_at_its_port() {
    let server = Server::new(|_| ok("inside"));
    let shut = Shut::new();
    let client = client(&[&format!("127.0.0.1:{}", server.port())]);
    for host in [PUBLIC, "127.0.0.1"] {
        assert_eq!(text(get(&client, &server.url(host, "/")).await), "inside");
        assert_eq!(code(get(&client, &format!("http://{host}:{}/", shut.port())).await), "address_refused");
    }
    shut.was_not_visited();
}

#[tokio::test]
async fn an_internal_host_does_not_lead_to_a_machines_credentials() {
    let metadata: IpAddr = "169.254.169.254".parse().unwrap();
    let to_metadata = ClientTerms { resolver: leading(move |_| vec![metadata]), ..terms(&["site.test"]) };
    assert_eq!(code(get(&Client::new(to_metadata).unwrap(), "http://site.test/").await), "address_refused");
}

#[tokio::test]
async fn who_has_no_address_is_not_found() {
    let nowhere = ClientTerms { resolver: leading(|_| Vec::new()), ..terms(&[]) };
    assert_eq!(code(get(&Client::new(nowhere).unwrap(), "http://www.rebinding.org/").await), "resolve_failed");
}

#[tokio::test]
async fn where_nobody_listens_no_connection_comes_about() {
    let port = Shut::new().port();
    let fault = get(&client(&["site.test"]), &format!("http://site.test:{port}/")).await.unwrap_err();
    assert_eq!((fault.code.as_ref(), fault.retryable), ("connect_failed", true));
}

#[tokio::test]
async fn whoever_the_agent_may_not_reach_is_not_looked_up() {
    let names = NameServer::new(|_, _| Said::Addresses(vec![HOME]));
    let shut = Shut::new();
    let terms = ClientTerms { resolver: names.resolver(), ..terms(&["site.test", "other.test"]) };
    let client = Client::new(terms).unwrap();
    let request = WebRequest::get(format!("http://site.test:{}/", shut.port()));
    for within in [
        Within::Listed(vec![format!("other.test:{}", shut.port())]),
        Within::Listed(vec!["site.test".into()]),
        Within::Listed(Vec::new()),
        Within::Origin(toolgate_guard::url::WebUrl::read(&format!("http://other.test:{}/", shut.port())).unwrap()),
    ] {
        assert_eq!(code(client.send(&request, &within, &[]).await), "host_refused");
    }
    assert_eq!(names.questions(), 0);
    shut.was_not_visited();
    let within = Within::Listed(vec![format!("*.test:{}", shut.port())]);
    assert_eq!(code(client.send(&request_with_little_time(&request), &within, &[]).await), "timed_out");
}

/// The listener takes nobody in, so that a request that may be sent is never answered.
fn request_with_little_time(request: &WebRequest) -> WebRequest {
    let mut request = request.clone();
    request.limits.wall = std::time::Duration::from_millis(50);
    request
}
