//! A server with everything the official conformance suite of MCP calls, asks for and reads.
//!
//! usage: fixture stdio
//!        fixture http
//!
//! It speaks all revisions the SDK knows. Over HTTP it listens at a free port of the loopback, says the URL as its first
//! line and ends with its input. What tools, prompts and resources there are is the suite's choice, and so are the words
//! it looks for in their results.

use std::{
    io::{self, Write},
    net::Ipv4Addr,
    sync::Arc,
};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ServiceExt,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, io::stdio_pipes,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use tokio::{io::AsyncReadExt, net::TcpListener};
use toolgate_conformance::Fixture;

#[tokio::main]
async fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("stdio") => {
            let served = Fixture::default().serve(stdio_pipes()).await.map_err(io::Error::other)?;
            served.waiting().await.map_err(io::Error::other)?;
            Ok(())
        }
        Some("http") => tokio::select! {
            ended = serve_http() => ended,
            ended = input_ended() => ended,
        },
        _ => Err(io::Error::other("usage: fixture stdio|http")),
    }
}

async fn serve_http() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let fixture = Fixture::default();
    let config = StreamableHttpServerConfig::default().with_allowed_origins([
        "http://localhost:*",
        "http://127.0.0.1:*",
        "http://[::1]:*",
    ]);
    let service =
        StreamableHttpService::new(move || Ok(fixture.clone()), Arc::new(LocalSessionManager::default()), config);
    loop {
        let (stream, _) = listener.accept().await?;
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(service.clone()));
        // How a client leaves is its own affair.
        tokio::spawn(async move { connection.await.ok() });
    }
}

async fn input_ended() -> io::Result<()> {
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}
