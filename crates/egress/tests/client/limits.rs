//! Servers that send too much, too slowly, or nothing that makes sense.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use toolgate_contract::{Fault, Method, WebRequest, WebResponse};
use toolgate_egress::Within;

use crate::stage::{PATIENCE, Server, client, code, reply};

/// Asks `site.test` at this server, with little time and little room.
async fn ask(server: &Server) -> Result<WebResponse, Fault> {
    ask_with(server, Method::Get, Duration::from_secs(10)).await
}

const ROOM: u64 = 1 << 20;

async fn ask_with(server: &Server, method: Method, wall: Duration) -> Result<WebResponse, Fault> {
    let mut request = WebRequest::get(server.url("site.test", "/"));
    request.method = method;
    (request.limits.body, request.limits.wall) = (ROOM, wall);
    client(&["site.test"]).send(&request, &Within::Public, &[]).await
}

/// Reads a request head and drops it.
fn hear(visitor: &mut TcpStream) {
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"\r\n\r\n") && visitor.read(&mut byte).is_ok_and(|length| length == 1) {
        said.push(byte[0]);
    }
}

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let server = Server::raw(|mut visitor| {
        hear(&mut visitor);
        let _ = visitor.read(&mut [0]);
    });
    let fault = ask_with(&server, Method::Get, SHORT).await.unwrap_err();
    assert_eq!((fault.code.as_ref(), fault.retryable), ("timed_out", true));
    assert_eq!(fault.message, "no whole answer of `site.test` came within 0.3 s");
}

/// A server that says the beginning, and then one byte at a time, for as long as somebody listens.
fn dripping(beginning: &'static [u8], drip: &'static [u8]) -> Server {
    Server::raw(move |mut visitor| {
        hear(&mut visitor);
        let _ = visitor.write_all(beginning);
        while visitor.write_all(drip).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

#[tokio::test]
async fn a_server_that_drips_is_not_waited_for() {
    let head = dripping(b"HTTP/1.1 200 OK\r\nx-a: ", b"a");
    assert_eq!(code(ask_with(&head, Method::Get, SHORT).await), "timed_out");
    let body = dripping(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"a");
    assert_eq!(code(ask_with(&body, Method::Get, SHORT).await), "timed_out");
    let hints = dripping(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
    assert_eq!(code(ask_with(&hints, Method::Get, SHORT).await), "timed_out");
}

/// A server that sends this beginning and then these bytes until nobody takes them, and how many were taken.
fn endless(beginning: Vec<u8>, bytes: Vec<u8>) -> (Server, Arc<AtomicU64>, mpsc::Receiver<()>) {
    let taken = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&taken);
    let (tell, ended) = mpsc::channel();
    let server = Server::raw(move |mut visitor| {
        hear(&mut visitor);
        let _ = visitor.write_all(&beginning);
        visitor.set_write_timeout(Some(PATIENCE)).unwrap();
        while let Ok(length) = visitor.write(&bytes) {
            counted.fetch_add(length as u64, Ordering::SeqCst);
        }
        let _ = tell.send(());
    });
    (server, taken, ended)
}

/// What the kernel holds on both ends, generously, besides what the client reads.
const IN_FLIGHT: u64 = 16 << 20;

// The connection is let go of on another thread than the one that waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_long_is_not_read() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec();
    let (server, taken, ended) = endless(head, vec![b'a'; 64 * 1024]);
    let fault = ask(&server).await.unwrap_err();
    assert_eq!(fault.code, "response_too_large");
    assert_eq!(fault.message, format!("the answer of `site.test:{}` is longer than 1048576 bytes", server.port()));
    ended.recv_timeout(PATIENCE).unwrap();
    assert!(taken.load(Ordering::SeqCst) < IN_FLIGHT);
}

// The connection is let go of on another thread than the one that waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_end_is_read_as_far_as_there_is_room() {
    for head in ["", "connection: close\r\n", "transfer-encoding: chunked\r\n"] {
        let chunk = match head.starts_with("transfer") {
            true => [b"10000\r\n".as_slice(), &[b'a'; 0x10000], b"\r\n"].concat(),
            false => vec![b'a'; 64 * 1024],
        };
        let (server, taken, ended) = endless(format!("HTTP/1.1 200 OK\r\n{head}\r\n").into_bytes(), chunk);
        assert_eq!(code(ask(&server).await), "response_too_large");
        ended.recv_timeout(PATIENCE).unwrap();
        assert!(taken.load(Ordering::SeqCst) < ROOM + IN_FLIGHT);
    }
}

#[tokio::test]
async fn a_body_that_just_fits_is_read() {
    for (length, fits) in [(ROOM, true), (ROOM + 1, false)] {
        let server = Server::new(move |_| reply(200, &[], &vec![b'a'; length as usize]));
        assert_eq!(ask(&server).await.is_ok_and(|answer| answer.body.len() as u64 == ROOM), fits);
    }
}

/// The bits of a body that is packed as well as can be: a zero byte, and then as many zeros again as one copy can make,
/// again and again. A kilobyte of it is about 160 kilobytes.
fn packed_zeros(bytes: usize) -> Vec<u8> {
    // One block with the fixed codes, and it is not the last. Codes are written from their first bit, numbers from
    // their last, into bytes that fill up from their last bit.
    let mut bits: Vec<u8> = vec![0, 1, 0];
    bits.extend([0, 0, 1, 1, 0, 0, 0, 0]); // a zero byte
    while bits.len() < bytes * 8 {
        bits.extend([1, 1, 0, 0, 0, 1, 0, 1]); // the longest copy, 258
        bits.extend([0; 5]); // from one byte before
    }
    bits.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
}

/// 256 MiB of zeros by a Brotli encoder.
fn brotli_zeros() -> Vec<u8> {
    const FIRST: [u8; 14] = [207, 255, 255, 127, 0, 36, 0, 226, 177, 64, 114, 239, 255, 249];
    const AGAIN: [u8; 52] = [
        255, 255, 15, 128, 4, 64, 28, 22, 128, 238, 253, 63, 255, 255, 255, 1, 144, 0, 136, 195, 2, 208, 189, 255, 231,
        255, 255, 63, 0, 18, 0, 113, 88, 0, 186, 247, 255, 252, 255, 255, 7, 64, 2, 32, 14, 11, 64, 247, 254, 159, 255,
        255,
    ];
    [FIRST.as_slice(), &AGAIN].concat()
}

#[tokio::test]
async fn a_packed_body_counts_unpacked() {
    const GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    const ZLIB: [u8; 2] = [0x78, 0x9c];
    for (encoding, beginning) in [("gzip", GZIP.as_slice()), ("deflate", &ZLIB), ("br", &brotli_zeros())] {
        let body = match encoding {
            "br" => brotli_zeros(),
            _ => [beginning, &packed_zeros(100_000)].concat(),
        };
        assert!((body.len() as u64) < ROOM, "packed, it would fit");
        let server = Server::new(move |_| reply(200, &[("content-encoding", encoding)], &body));
        assert_eq!(code(ask(&server).await), "response_too_large", "{encoding}");
    }
}

#[tokio::test]
async fn a_packed_body_is_unpacked() {
    // `hello` in one block that is not packed at all.
    let stored = [&[1, 5, 0, 0xfa, 0xff], b"hello".as_slice()].concat();
    let gzip = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255], &stored[..], &[0x86, 0xa6, 0x10, 0x36, 5, 0, 0, 0]].concat();
    let server = Server::new(move |_| reply(200, &[("content-encoding", "gzip")], &gzip));
    let answer = ask(&server).await.unwrap();
    assert_eq!((answer.body.as_slice(), answer.header("content-encoding")), (b"hello".as_slice(), None));
    assert!(server.heard()[0].contains("accept-encoding: "), "{}", server.heard()[0]);
}

#[tokio::test]
async fn headers_have_an_end() {
    let many = "x-a: b\r\n".repeat(101);
    let long = format!("x-a: {}\r\n", "b".repeat(64 * 1024));
    let endless = format!("x-a: {}\r\n", "b".repeat(1 << 20));
    let several = format!("x-a: {}\r\n", "b".repeat(8 * 1024)).repeat(9);
    for head in [many, long, endless, several] {
        let server = Server::new(move |_| format!("HTTP/1.1 200 OK\r\n{head}content-length: 0\r\n\r\n").into_bytes());
        assert_eq!(code(ask(&server).await), "headers_too_large");
    }
    let just = "x-a: b\r\n".repeat(99);
    let server = Server::new(move |_| format!("HTTP/1.1 200 OK\r\n{just}content-length: 0\r\n\r\n").into_bytes());
    assert_eq!(ask(&server).await.unwrap().headers.len(), 100);
}

#[tokio::test]
async fn a_head_without_a_body_is_not_waited_for() {
    for (method, head) in [
        (Method::Head, "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n"),
        (Method::Get, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::Get, "HTTP/1.1 304 Not Modified\r\ncontent-length: 10737418240\r\n\r\n"),
    ] {
        let server = Server::new(move |_| head.as_bytes().to_vec());
        assert_eq!(ask_with(&server, method, PATIENCE).await.unwrap().body, b"");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_so() {
    for nonsense in [
        b"".as_slice(),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\nnot packed",
    ] {
        let server = Server::raw(move |mut visitor| {
            hear(&mut visitor);
            let _ = visitor.write_all(nonsense);
        });
        assert_eq!(code(ask(&server).await), "bad_response", "{:?}", String::from_utf8_lossy(nonsense));
    }
}

#[tokio::test]
async fn values_of_headers_that_are_no_text_are_read_byte_by_byte() {
    let server = Server::new(|_| b"HTTP/1.1 200 OK\r\nX-Own: a\xe4b\r\ncontent-length: 0\r\n\r\n".to_vec());
    assert_eq!(ask(&server).await.unwrap().header("x-own"), Some("a\u{e4}b"));
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_not_sent() {
    let server = Server::new(|_| reply(200, &[], b""));
    for (name, value) in [("host", "evil.test"), ("content-length", "5"), ("x-a", "b\r\nx-c: d"), ("bad name", "x")] {
        let mut request = WebRequest::get(server.url("site.test", "/"));
        request.headers = vec![(name.into(), value.into())];
        assert_eq!(code(client(&["site.test"]).send(&request, &Within::Public, &[]).await), "bad_header");
    }
    assert_eq!(server.visits(), 0);
}
