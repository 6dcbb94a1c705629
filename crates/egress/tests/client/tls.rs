//! Who a server says it is, and who says so.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use toolgate_contract::{Fault, WebResponse};
use toolgate_egress::{Client, ClientTerms};

use crate::stage::{Server, Shut, get, ok, redirect, terms};

/// An authority nobody knows but who is told.
pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// How a server proves who it is.
pub(crate) fn proof(certificate: &rcgen::Certificate, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

/// A server that speaks TLS with this certificate and gives the same answer to everybody.
fn serve(certificate: &rcgen::Certificate, key: &KeyPair, answer: Vec<u8>) -> Server {
    let config = Arc::new(proof(certificate, key));
    Server::raw(move |visitor: TcpStream| {
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), visitor);
        let mut said = [0; 4096];
        if stream.read(&mut said).is_ok_and(|length| length > 0) {
            let _ = stream.write_all(&answer);
        }
    })
}

fn issued(by: &CertifiedIssuer<'static, KeyPair>, change: impl FnOnce(&mut CertificateParams)) -> Server {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["site.test".into()]).unwrap();
    change(&mut params);
    serve(&params.signed_by(&key, by).unwrap(), &key, ok("hello over there"))
}

async fn ask(server: &Server, roots: &[&CertifiedIssuer<'static, KeyPair>]) -> Result<WebResponse, Fault> {
    let extra_roots = roots.iter().map(|root| root.pem().into_bytes()).collect();
    let client = Client::new(ClientTerms { extra_roots, ..terms(&["site.test"]) }).unwrap();
    get(&client, &format!("https://site.test:{}/", server.port())).await
}

#[track_caller]
fn failed(answer: Result<WebResponse, Fault>, server: &Server, why: &str) {
    let fault = answer.unwrap_err();
    assert_eq!(fault.code, "tls_failed");
    assert_eq!(fault.message, format!("`site.test:{}` cannot prove who it is: {why}", server.port()));
}

#[tokio::test]
async fn an_authority_that_was_added_is_trusted() {
    let authority = authority();
    let server = issued(&authority, |_| {});
    assert_eq!(ask(&server, &[&authority]).await.unwrap().body, b"hello over there");
}

#[tokio::test]
async fn an_authority_that_was_not_added_is_not_trusted() {
    let server = issued(&authority(), |_| {});
    let why = "nobody this machine trusts has issued its certificate";
    failed(ask(&server, &[]).await, &server, why);
    failed(ask(&server, &[&authority()]).await, &server, why);
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_not_trusted() {
    let authority = authority();
    let server = issued(&authority, |params| params.not_after = date_time_ymd(2020, 1, 1));
    failed(ask(&server, &[&authority]).await, &server, "its certificate has expired");
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_not_trusted() {
    let authority = authority();
    let server = issued(&authority, |params| params.not_before = date_time_ymd(4000, 1, 1));
    failed(ask(&server, &[&authority]).await, &server, "its certificate is not valid yet");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let authority = authority();
    for other in ["other.test", "sub.site.test", "*.site.test"] {
        let name = vec![rcgen::SanType::DnsName(other.try_into().unwrap())];
        let server = issued(&authority, |params| params.subject_alt_names = name);
        failed(ask(&server, &[&authority]).await, &server, "its certificate is for another name");
    }
}

#[tokio::test]
async fn a_server_does_not_prove_who_it_is_by_itself() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["site.test".into()]).unwrap().self_signed(&key).unwrap();
    let server = serve(&certificate, &key, ok(""));
    failed(ask(&server, &[]).await, &server, "nobody this machine trusts has issued its certificate");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_told_so() {
    let server = Server::raw(|mut visitor| {
        let _ = visitor.read(&mut [0; 1024]);
        let _ = visitor.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    failed(ask(&server, &[]).await, &server, "it does not speak TLS");
}

#[tokio::test]
async fn a_redirect_does_not_give_up_encryption() {
    let authority = authority();
    let (shut, key) = (Shut::new(), KeyPair::generate().unwrap());
    let certificate = CertificateParams::new(vec!["site.test".into()]).unwrap().signed_by(&key, &authority).unwrap();
    let place = format!("http://site.test:{}/", shut.port());
    let server = serve(&certificate, &key, redirect(302, &place));
    let fault = ask(&server, &[&authority]).await.unwrap_err();
    assert_eq!(fault.code, "redirect_refused");
    assert_eq!(fault.message, format!("the redirect to `{place}` is not followed: it gives up encryption"));
    shut.was_not_visited();
}

#[test]
fn what_is_no_certificate_is_not_taken_for_one() {
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for bad in ["", "hello", nonsense, "-----BEGIN CERTIFICATE-----\n"] {
        let bad = ClientTerms { extra_roots: vec![bad.into()], ..terms(&[]) };
        assert_eq!(Client::new(bad).unwrap_err().code, "bad_ca_certificate");
    }
}
