//! The same bounds where HTTP/2 is spoken.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use h2::server::SendResponse;
use hyper::http;
use rcgen::{CertificateParams, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use toolgate_contract::{Fault, WebRequest, WebResponse};
use toolgate_egress::{Client, ClientTerms, SecretHeader, Within};

use crate::{
    stage::{code, terms},
    tls::{authority, proof},
};

/// What the server says to a request for this path.
async fn answer(path: &str, mut respond: SendResponse<Bytes>) {
    let head = |name: &str, value: &str| http_head(200, name, value);
    match path {
        "/many" => {
            let mut response = head("x-a", "b");
            for n in 0..101 {
                response.headers_mut().append("x-many", n.into());
            }
            let _ = respond.send_response(response, true);
        }
        "/long" => drop(respond.send_response(head("x-long", &"b".repeat(100_000)), true)),
        "/longer" => drop(respond.send_response(head("x-long", &"b".repeat(1 << 20)), true)),
        "/moved" => drop(respond.send_response(http_head(302, "location", "https://127.0.0.1:1/"), true)),
        "/endless" => {
            let Ok(mut body) = respond.send_response(head("x-a", "b"), false) else { return };
            loop {
                body.reserve_capacity(64 * 1024);
                let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { return };
                if body.send_data(Bytes::from(vec![b'a'; room]), false).is_err() {
                    return;
                }
            }
        }
        _ => {
            let Ok(mut body) = respond.send_response(head("x-path", path), false) else { return };
            let _ = body.send_data(Bytes::from_static(b"hello"), true);
        }
    }
}

fn http_head(status: u16, name: &str, value: &str) -> http::Response<()> {
    http::Response::builder().status(status).header(name, value).body(()).unwrap()
}

/// A server of HTTP/2 for `site.test`, and a client that trusts it.
async fn stage() -> (SocketAddr, Client) {
    let (authority, key) = (authority(), KeyPair::generate().unwrap());
    let certificate = CertificateParams::new(vec!["site.test".into()]).unwrap().signed_by(&key, &authority).unwrap();
    let mut proof = proof(&certificate, &key);
    proof.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(proof));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((visitor, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(visitor).await else { return };
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(async move { answer(request.uri().path(), respond).await });
                }
            });
        }
    });
    let extra_roots = vec![authority.pem().into_bytes()];
    (address, Client::new(ClientTerms { extra_roots, ..terms(&["site.test"]) }).unwrap())
}

async fn ask(address: SocketAddr, client: &Client, path: &str) -> Result<WebResponse, Fault> {
    let mut request = WebRequest::get(format!("https://site.test:{}{path}", address.port()));
    request.limits.body = 1 << 20;
    let secret = SecretHeader::new("authorization", "Bearer hunter2").unwrap();
    client.send(&request, &Within::Public, &[secret]).await
}

#[tokio::test]
async fn a_page_is_fetched() {
    let (address, client) = stage().await;
    let answer = ask(address, &client, "/page").await.unwrap();
    assert_eq!((answer.body.as_slice(), answer.header("x-path")), (b"hello".as_slice(), Some("/page")));
}

#[tokio::test]
async fn bounds_hold() {
    let (address, client) = stage().await;
    for (path, expected) in [
        ("/many", "headers_too_large"),
        ("/long", "headers_too_large"),
        ("/longer", "bad_response"),
        ("/endless", "response_too_large"),
        ("/moved", "redirect_refused"),
    ] {
        assert_eq!(code(ask(address, &client, path).await), expected, "{path}");
        assert_eq!(ask(address, &client, "/page").await.unwrap().body, b"hello", "after {path}");
    }
}
