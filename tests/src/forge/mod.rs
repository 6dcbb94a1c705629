//! A forge for tests: bare repositories over https, and the part of Forgejo's API that is about pull requests.
//!
//! Everything wants the token: as `Authorization: Bearer`, as `Authorization: token`, or as the password of `Basic`. What
//! was asked is kept, so that a test can say that nobody came.

mod pulls;
mod repository;

use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs, pki_types::PrivateKeyDer};
use tempfile::TempDir;

use self::{pulls::Pulls, repository::Repositories};
use crate::http::{Reply, Request};

/// The names its certificate is for, beside 127.0.0.1.
pub const NAMES: [&str; 2] = ["localhost", "forge.test"];

/// How long a visitor may be silent.
const SILENCE: Duration = Duration::from_secs(20);

/// A forge on the loopback. It ends with the value.
#[derive(Debug)]
pub struct ForgeServer {
    address: SocketAddr,
    hall: Arc<Hall>,
    accepting: Option<JoinHandle<()>>,
}

/// What all visitors share.
#[derive(Debug)]
struct Hall {
    dir: TempDir,
    token: String,
    repositories: Repositories,
    pulls: Mutex<Pulls>,
    requests: Mutex<Vec<String>>,
    identity: Arc<ServerConfig>,
    closing: AtomicBool,
}

impl ForgeServer {
    /// Opens a forge that keeps its repositories in this directory and knows everybody by this token.
    pub fn start(dir: TempDir, token: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (authority, identity) = identity();
        fs::write(dir.path().join("ca.pem"), authority).expect("a file");
        let hall = Arc::new(Hall {
            repositories: Repositories::below(dir.path().join("repositories")),
            pulls: Mutex::default(),
            requests: Mutex::default(),
            token: token.to_owned(),
            identity: Arc::new(identity),
            closing: AtomicBool::new(false),
            dir,
        });
        let door = hall.clone();
        let accepting = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if door.closing.load(Ordering::Relaxed) {
                    return;
                }
                let hall = door.clone();
                // A visitor who leaves early is no failure of the forge.
                thread::spawn(move || hall.receive(stream).unwrap_or_default());
            }
        });
        Self { address, hall, accepting: Some(accepting) }
    }

    /// Where git finds repositories: `{url}/owner/name.git`.
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// The same by another of its names.
    pub fn url_at(&self, host: &str) -> String {
        format!("https://{host}:{}", self.port())
    }

    /// Where the API is.
    pub fn api_url(&self) -> String {
        format!("{}/api/v1", self.url())
    }

    /// The port it listens at.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The certificate of the authority that vouches for it.
    pub fn ca_pem_path(&self) -> PathBuf {
        self.hall.dir.path().join("ca.pem")
    }

    /// Makes a repository with one commit on `main`.
    pub fn add_repository(&self, name: &str) {
        self.hall.repositories.add(name);
    }

    /// Runs git in a repository, and gives what it prints.
    pub fn git(&self, name: &str, args: &[&str]) -> String {
        self.hall.repositories.git(name, args).unwrap_or_else(|said| panic!("git {args:?}: {said}"))
    }

    /// What was asked so far, each as `GET /path?query 200`.
    pub fn requests(&self) -> Vec<String> {
        held(&self.hall.requests).clone()
    }
}

impl Drop for ForgeServer {
    fn drop(&mut self) {
        self.hall.closing.store(true, Ordering::Relaxed);
        // Whoever accepts is woken by one more visitor.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl Hall {
    fn receive(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let connection = ServerConnection::new(self.identity.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        let Some(request) = Request::read(&mut stream)? else { return Ok(()) };
        let reply = self.answer(&request);
        held(&self.requests).push(format!("{} {} {}", request.method, request.target(), reply.status));
        reply.write(&mut stream, request.method == "HEAD")?;
        stream.conn.send_close_notify();
        stream.flush()
    }

    fn answer(&self, request: &Request) -> Reply {
        if !self.knows(request.header("authorization")) {
            return Reply::says(401, "token is required").with("www-authenticate", "Basic realm=\"forge\"");
        }
        match request.path.strip_prefix("/api/v1/") {
            Some(path) => held(&self.pulls).answer(path, request, &self.repositories),
            None => self.repositories.serve(request),
        }
    }

    fn knows(&self, authorization: Option<&str>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|value| value.split_once(' ')) else { return false };
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" => given == self.token,
            "basic" => {
                let pair = BASE64_STANDARD.decode(given).ok().and_then(|pair| String::from_utf8(pair).ok());
                pair.is_some_and(|pair| pair.split_once(':').is_some_and(|(_, password)| password == self.token))
            }
            _ => false,
        }
    }
}

/// An authority, and a server it vouches for.
fn identity() -> (String, ServerConfig) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "the authority of a test");
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::new(params, key);

    let mut params = CertificateParams::new(NAMES.map(str::to_owned)).expect("names");
    params.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
    let key = KeyPair::generate().expect("a key");
    let chain = vec![params.signed_by(&key, &issuer).expect("a certificate").der().clone()];
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
        .expect("an identity");
    (authority, config)
}

/// A visitor that panicked leaves what it held as it was.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of a file, as an argument.
fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
