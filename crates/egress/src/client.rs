//! The runtime's own client: every request it sends, on behalf of whomever, leaves here.
//!
//! A URL is read once. Its host is judged, looked up, and every address that was found is judged; those addresses are
//! dialled and no others, and the address at the other end is judged once more when the answer comes. Redirects are
//! walked here, hop by hop, each like the first. The underlying client never follows one, knows no proxy and no cookie,
//! and has its names from the judge.

use std::{collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, LOCATION},
    redirect,
};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;
use tokio::time::{Instant, timeout, timeout_at};
use toolgate_contract::{Fault, FaultKind, Method, WebRequest, WebResponse};
use toolgate_guard::{
    host_name::HostName,
    url::{Host, WebUrl},
};

use crate::{
    failure::{self, NotDialled, bad_response, bad_url, fault_of},
    headers::{SecretHeader, Sent},
    judge::{Barred, Internal, Judge},
    lookup::{LookUps, Resolver},
    manners::Manners,
    pace::{Pace, PaceTerms},
    robots::{self, Robots},
    within::Within,
};

/// What a client goes by.
#[derive(Debug, Clone)]
pub struct ClientTerms {
    /// Who knows the addresses of names.
    pub resolver: Resolver,
    /// Which hosts may be internal.
    pub internal: Internal,
    /// Which hosts are out of reach.
    pub barred: Barred,
    /// Authorities that are trusted besides the system's, each as PEM.
    pub extra_roots: Vec<Vec<u8>>,
    /// What it calls itself, unless a request says otherwise. Its first word is whom a `robots.txt` speaks to.
    pub user_agent: String,
    /// How often one host is asked.
    pub pace: PaceTerms,
}

/// Sends requests. Cheap to clone; clones share connections, the pace and what servers want.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    judge: Judge,
    look_ups: LookUps,
    /// The clients for the ports the judge tells apart, and the one for all others.
    at_ports: BTreeMap<u16, reqwest::Client>,
    elsewhere: reqwest::Client,
    pace: Pace,
    manners: Manners,
    program: String,
}

/// How long a connection may take, look-up and handshake included.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept for the next request.
const KEPT: Duration = Duration::from_secs(30);
/// Connections to one host that are kept.
const KEPT_PER_HOST: usize = 32;
/// Look-ups at the same time, and how long each may take.
const LOOK_UPS: usize = 16;
const LOOK_UP: Duration = Duration::from_secs(10);
/// The headers of an answer.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// As much of them is taken in so that it can be told that they are too long. More is an answer that cannot be read.
const READ_HEADER_BYTES: u32 = 256 * 1024;
/// A port that is nobody's: no entry speaks of it.
const NO_PORT: u16 = 0;

impl Client {
    /// A client that goes by these terms. It has no connection yet.
    pub fn new(terms: ClientTerms) -> Result<Self, Fault> {
        let judge = Judge::new(terms.internal).barring(terms.barred);
        let look_ups = LookUps::new(terms.resolver, LOOK_UPS, LOOK_UP);
        let tls = tls(&terms.extra_roots)?;
        let client =
            |port| build(&terms.user_agent, &tls, Names { judge: judge.clone(), look_ups: look_ups.clone(), port });
        let at_ports = judge.ports().map(|port| Ok((port, client(port)?))).collect::<Result<_, Fault>>()?;
        let elsewhere = client(NO_PORT)?;
        let program = robots::program_token(&terms.user_agent).to_owned();
        let (pace, manners) = (Pace::new(terms.pace), Manners::default());
        Ok(Self(Arc::new(Inner { judge, look_ups, at_ports, elsewhere, pace, manners, program })))
    }

    /// Sends a request and waits for the whole answer. Any status is an answer. Dropping the future ends the request.
    ///
    /// `secrets` go along until the way leads to another origin. Whoever gives them says with `within` whom they are for.
    pub async fn send(
        &self,
        request: &WebRequest,
        within: &Within,
        secrets: &[SecretHeader],
    ) -> Result<WebResponse, Fault> {
        let errand = Errand::of(request, secrets)?;
        let host = errand.url.host().to_string();
        let manners = if request.polite { Polite::Yes } else { Polite::No };
        let whole = async {
            let arrived = self.0.walk(errand, within, request.limits.redirects, manners).await?;
            arrived.read_whole(request.limits.body).await
        };
        timeout(request.limits.wall, whole).await.unwrap_or_else(|_| Err(timed_out(&host, request.limits.wall)))
    }

    /// Sends a request and gives the head of its answer as soon as it is there; the body is read as it comes. The limits of
    /// the request hold for all of it.
    pub async fn open(
        &self,
        request: &WebRequest,
        within: &Within,
        secrets: &[SecretHeader],
    ) -> Result<Streamed, Fault> {
        let errand = Errand::of(request, secrets)?;
        let (host, wall) = (errand.url.host().to_string(), request.limits.wall);
        let until = Instant::now() + wall;
        let walk = self.0.walk(errand, within, request.limits.redirects, Polite::No);
        let arrived = timeout_at(until, walk).await.unwrap_or_else(|_| Err(timed_out(&host, wall)))?;
        Ok(Streamed { arrived, until, wall, left: request.limits.body })
    }

    /// The addresses that would be dialled for a host at a port now, every one judged.
    pub async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let Inner { judge, look_ups, .. } = &*self.0;
        let refused = |refusal: crate::judge::Refusal| refusal.fault(&host.to_string());
        judge.host(host, port).map_err(refused)?;
        let found = match host.name() {
            Some(name) => look_ups.addresses(name).await.map_err(|e| NotDialled::NotFound(e).fault(name.as_str()))?,
            None => host.address().into_iter().collect(),
        };
        judge.admit(host.name(), port, &found).map_err(refused)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("judge", &self.0.judge).finish_non_exhaustive()
    }
}

/// Is the server's `robots.txt` asked first?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Polite {
    Yes,
    No,
}

/// One request on the way.
struct Errand {
    method: Method,
    url: WebUrl,
    sent: Sent,
    body: Bytes,
}

impl Inner {
    /// The whole way, hop by hop, as far as the head of the last answer.
    async fn walk(&self, mut errand: Errand, within: &Within, redirects: u8, polite: Polite) -> Result<Arrived, Fault> {
        let most = if within.follows_redirects() { usize::from(redirects) } else { 0 };
        let mut left = Vec::new();
        loop {
            let hop = self.hop(&errand, within, polite).await;
            let answer = hop.map_err(|fault| match left.is_empty() {
                true => never_sent(fault),
                false => refused_hop(&errand.url, fault),
            })?;
            let status = answer.status().as_u16();
            if most == 0 || !is_redirect(status) {
                return Ok(Arrived { answer, method: errand.method, url: errand.url, left });
            }
            if left.len() == most {
                return Err(too_many_redirects(&errand.url, most));
            }
            let next = next_hop(answer.headers(), &errand.url)?;
            left.push(errand.url.to_string());
            errand.go_on(status, next);
        }
    }

    /// One request, as far as the head of its answer.
    async fn hop(&self, errand: &Errand, within: &Within, polite: Polite) -> Result<Response, Fault> {
        self.check(&errand.url, within)?;
        if polite == Polite::Yes {
            self.ask_first(&errand.url, within).await?;
        }
        self.ask(errand).await
    }

    /// May this be asked for, as far as its host tells?
    fn check(&self, url: &WebUrl, within: &Within) -> Result<(), Fault> {
        within.check(url)?;
        self.judge.host(url.host(), url.port()).map_err(|refusal| refusal.fault(&url.host().to_string()))
    }

    async fn ask(&self, errand: &Errand) -> Result<Response, Fault> {
        let url = &errand.url;
        self.pace.wait(&url.host().to_string()).await?;
        let client = self.at_ports.get(&url.port()).unwrap_or(&self.elsewhere);
        let request = client
            .request(spoken(errand.method), url.without_fragment())
            .headers(errand.sent.headers.clone())
            .body(errand.body.clone());
        let answer = request.send().await.map_err(|error| fault_of(&error, url))?;
        self.check_peer(url, answer.remote_addr())?;
        check_head(url, answer.headers())?;
        Ok(answer)
    }

    /// Is it one of those who may be dialled that answers? The names come from the judge, so that nobody else can be
    /// reached; this is where it shows if that is ever wrong.
    fn check_peer(&self, url: &WebUrl, peer: Option<SocketAddr>) -> Result<(), Fault> {
        let is_right = peer.is_some_and(|peer| {
            let is_literal = url.host().address().is_none_or(|ip| ip.to_canonical() == peer.ip().to_canonical());
            let is_admitted = self.judge.admit(url.host().name(), url.port(), &[peer.ip()]).is_ok();
            is_literal && is_admitted && peer.port() == url.port()
        });
        if is_right {
            return Ok(());
        }
        let shown = peer.map_or_else(|| "somebody unknown".to_owned(), |peer| format!("`{peer}`"));
        Err(Fault::refused(
            "address_refused",
            format!("{shown} answers for `{}`, and may not be reached for it", url.host()),
            "Use a host of the public internet.",
        ))
    }

    /// Asks the server's `robots.txt` whether this may be fetched, and keeps the pause it wants.
    async fn ask_first(&self, url: &WebUrl, within: &Within) -> Result<(), Fault> {
        let origin = format!("{}://{}:{}", url.scheme(), url.host(), url.port());
        let robots = match self.manners.robots(&origin) {
            Some(known) => known,
            None => {
                let robots = Arc::new(self.fetch_robots(url, &origin, within).await?);
                self.manners.remember(&origin, &robots);
                robots
            }
        };
        if !robots.allows(url.path_and_query()) {
            return Err(Fault::refused(
                "robots_refused",
                format!(
                    "the `robots.txt` of `{}` asks programs not to fetch `{}`",
                    url.host(),
                    failure::shown(url.path())
                ),
                "Fetch another page, or use an interface the server offers to programs.",
            ));
        }
        self.manners.pause(&origin).await
    }

    /// A server that has no such file allows everything; one that cannot say what it wants is left alone.
    async fn fetch_robots(&self, url: &WebUrl, origin: &str, within: &Within) -> Result<Robots, Fault> {
        const REDIRECTS: u8 = 5;
        let text = format!("{origin}/robots.txt");
        let errand = Errand {
            method: Method::Get,
            url: WebUrl::read(&text).map_err(|bad| bad_url(&text, bad))?,
            sent: Sent::read(&[], &[])?,
            body: Bytes::new(),
        };
        // Boxed, because a walk to a page leads here. This one is not polite and leads nowhere else.
        let walk = Box::pin(self.walk(errand, within, REDIRECTS, Polite::No)).await;
        let read = match walk {
            Ok(arrived) => match arrived.answer.status().as_u16() {
                200..=299 => arrived.read_beginning(robots::MAX_FILE).await,
                status @ (429 | 500..=599) => Err(bad_response(&arrived.at(), &format!("its status is {status}"))),
                _ => return Ok(Robots::default()),
            },
            Err(fault) if fault.code == "too_many_redirects" => return Ok(Robots::default()),
            Err(fault) => Err(fault),
        };
        match read {
            Ok(file) => Ok(Robots::read(&file, &self.program)),
            Err(fault) if matches!(&*fault.code, "bad_response" | "headers_too_large" | "redirect_refused") => {
                Err(Fault::refused(
                    "robots_refused",
                    format!("`{}` cannot say what programs may fetch: {}", url.host(), fault.message),
                    "Try again later, or use another server.",
                )
                .retryable())
            }
            // Whoever cannot be reached for this cannot be reached for the page either.
            Err(fault) => Err(fault),
        }
    }
}

impl Errand {
    fn of(request: &WebRequest, secrets: &[SecretHeader]) -> Result<Self, Fault> {
        let url = WebUrl::read(&request.url).map_err(|bad| bad_url(&request.url, bad).untouched())?;
        Ok(Self {
            method: request.method,
            url,
            sent: Sent::read(&request.headers, secrets).map_err(Fault::untouched)?,
            body: Bytes::copy_from_slice(&request.body),
        })
    }

    /// Goes on to where a redirect leads, as browsers do.
    fn go_on(&mut self, status: u16, next: WebUrl) {
        let becomes_get = match status {
            303 => !matches!(self.method, Method::Get | Method::Head),
            301 | 302 => self.method == Method::Post,
            _ => false,
        };
        if becomes_get {
            self.method = Method::Get;
            self.body = Bytes::new();
            self.sent.forget_body();
        }
        if !self.url.same_origin(&next) {
            self.sent.forget_who_asks();
        }
        self.url = next;
    }
}

/// The head of an answer, and its body as it comes. Dropping it ends the request.
pub struct Streamed {
    arrived: Arrived,
    until: Instant,
    wall: Duration,
    left: u64,
}

impl Streamed {
    /// The status.
    pub fn status(&self) -> u16 {
        self.arrived.answer.status().as_u16()
    }

    /// The value of a header, if it has one that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.arrived.answer.headers().get(name)?.to_str().ok()
    }

    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        let url = &self.arrived.url;
        let next = timeout_at(self.until, self.arrived.answer.chunk()).await;
        let piece =
            next.map_err(|_| timed_out(&url.host().to_string(), self.wall))?.map_err(|error| fault_of(&error, url))?;
        let Some(piece) = piece else { return Ok(None) };
        self.left = self
            .left
            .checked_sub(piece.len() as u64)
            .ok_or_else(|| failure::response_too_large(&format!("{}:{}", url.host(), url.port()), self.left))?;
        Ok(Some(piece))
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// The head of the last answer, and the way there.
struct Arrived {
    answer: Response,
    method: Method,
    url: WebUrl,
    left: Vec<String>,
}

impl Arrived {
    fn at(&self) -> String {
        format!("{}:{}", self.url.host(), self.url.port())
    }

    /// The whole answer. One that is longer than this many bytes, unpacked, is a fault and not read to its end.
    async fn read_whole(mut self, most: u64) -> Result<WebResponse, Fault> {
        let (status, headers) = (self.answer.status().as_u16(), readable(self.answer.headers()));
        let mut body = Vec::new();
        let has_body = self.method != Method::Head && !matches!(status, 204 | 304);
        let is_too_long = self.answer.content_length().is_some_and(|length| length > most);
        if has_body && (is_too_long || !self.read_into(&mut body, most).await?) {
            return Err(failure::response_too_large(&self.at(), most));
        }
        Ok(WebResponse { url: self.url.to_string(), redirects: self.left, status, headers, body })
    }

    /// As much of the body as there is, up to this many bytes.
    async fn read_beginning(mut self, most: u64) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        if !self.read_into(&mut body, most).await? {
            body.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        }
        Ok(body)
    }

    /// Reads until there is no more, or more than this. Was that all?
    async fn read_into(&mut self, body: &mut Vec<u8>, most: u64) -> Result<bool, Fault> {
        let told = self.answer.content_length().unwrap_or_default().min(most);
        body.reserve(usize::try_from(told).unwrap_or_default());
        while let Some(chunk) = self.answer.chunk().await.map_err(|error| fault_of(&error, &self.url))? {
            body.extend_from_slice(&chunk);
            if body.len() as u64 > most {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn spoken(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Options => reqwest::Method::OPTIONS,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads, if it may lead there.
fn next_hop(headers: &HeaderMap, url: &WebUrl) -> Result<WebUrl, Fault> {
    let at = || format!("{}:{}", url.host(), url.port());
    let mut places = headers.get_all(LOCATION).iter();
    let (Some(place), None) = (places.next(), places.next()) else {
        return Err(bad_response(&at(), "it redirects without saying to which one place"));
    };
    let place = place.to_str().map_err(|_| bad_response(&at(), "it redirects to what cannot be read"))?;
    let next = url.join(place).map_err(|bad| refused_redirect(place, &bad.to_string()))?;
    if url.downgrades_to(&next) {
        return Err(refused_redirect(next.as_str(), "it gives up encryption"));
    }
    Ok(next)
}

/// The first request of a walk never left, if this is why it failed.
fn never_sent(fault: Fault) -> Fault {
    let before = [
        "host_refused",
        "address_refused",
        "resolve_failed",
        "connect_failed",
        "tls_failed",
        "rate_limited",
        "robots_refused",
    ];
    if before.contains(&&*fault.code) { fault.untouched() } else { fault }
}

/// A hop that is refused is told as what it is: a redirect to somebody who may not be reached.
fn refused_hop(url: &WebUrl, fault: Fault) -> Fault {
    let is_guard =
        fault.kind == FaultKind::Refused && matches!(&*fault.code, "host_refused" | "host_denied" | "address_refused");
    if is_guard { refused_redirect(url.as_str(), &fault.message) } else { fault }
}

fn refused_redirect(place: &str, why: &str) -> Fault {
    Fault::refused(
        "redirect_refused",
        format!("the redirect to `{}` is not followed: {why}", failure::shown(place)),
        "Use another page, or ask for the place it leads to if that is one this agent may reach.",
    )
}

fn too_many_redirects(url: &WebUrl, most: usize) -> Fault {
    Fault::failed(
        "too_many_redirects",
        format!("there are more than {most} redirects, the last of them at `{}`", failure::shown(url.as_str())),
        "Ask for the page it should lead to.",
    )
}

fn timed_out(host: &str, wall: Duration) -> Fault {
    Fault::failed(
        "timed_out",
        format!("no whole answer of `{host}` came within {:.1} s", wall.as_secs_f64()),
        "Try again later, ask for less, or allow more time.",
    )
    .retryable()
}

fn check_head(url: &WebUrl, headers: &HeaderMap) -> Result<(), Fault> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        return Err(failure::headers_too_large(&format!("{}:{}", url.host(), url.port())));
    }
    Ok(())
}

/// Values are bytes; those that are no text are read one by one, which loses nothing.
fn readable(headers: &HeaderMap) -> Vec<(String, String)> {
    let value = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    headers.iter().map(|(name, own)| (name.as_str().to_owned(), value(own.as_bytes()))).collect()
}

/// The names of a client, from the judge. A client knows only the name of whom it dials, so that there is one for every
/// port the judge tells apart; their connections are not shared.
struct Names {
    judge: Judge,
    look_ups: LookUps,
    port: u16,
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let (judge, look_ups, port) = (self.judge.clone(), self.look_ups.clone(), self.port);
        Box::pin(async move {
            let name = HostName::parse(name.as_str())?;
            let found = look_ups.addresses(&name).await.map_err(NotDialled::NotFound)?;
            let admitted = judge.admit(Some(&name), port, &found).map_err(NotDialled::Refused)?;
            // Port 0 stands for the one that was asked for.
            let dialled: Addrs = Box::new(admitted.into_iter().map(|address| SocketAddr::new(address.ip(), 0)));
            Ok(dialled)
        })
    }
}

fn build(user_agent: &str, tls: &ClientConfig, names: Names) -> Result<reqwest::Client, Fault> {
    let client = reqwest::Client::builder()
        .user_agent(user_agent)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .dns_resolver(names)
        .tls_backend_preconfigured(tls.clone())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(KEPT)
        .pool_max_idle_per_host(KEPT_PER_HOST)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(READ_HEADER_BYTES)
        .build();
    client.map_err(|error| {
        Fault::failed(
            "client_unavailable",
            format!("the client for other machines cannot be made: {error}"),
            "Check `egress.user_agent`: it is sent as a header.",
        )
    })
}

/// The system's authorities and these.
fn tls(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, Fault> {
    let bad_root = |why: String| {
        Fault::failed(
            "bad_ca_certificate",
            format!("a certificate authority that is to be trusted cannot be read: {why}"),
            "Give certificates as PEM in `egress.ca_file`.",
        )
    };
    let mut roots = Vec::new();
    for pem in extra_roots {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.push(certificate.map_err(|error| bad_root(error.to_string()))?);
        }
        if roots.len() == before {
            return Err(bad_root("there is no certificate in the file".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let has_own = !roots.is_empty();
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).map_err(|error| match has_own {
        true => bad_root(error.to_string()),
        false => Fault::failed(
            "no_ca_certificates",
            format!("this machine has no certificate authorities to trust: {error}"),
            "Install the system's CA certificates, or give some with `egress.ca_file`.",
        ),
    })?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad_root(error.to_string()))?;
    let mut config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::Ipv4Addr,
    };

    use super::*;

    fn client(internal: &[&str]) -> Client {
        let internal: Vec<String> = internal.iter().map(ToString::to_string).collect();
        Client::new(ClientTerms {
            resolver: Resolver::Given(Arc::new(|_| Ok(Vec::new()))),
            internal: Internal::parse(&internal).unwrap(),
            barred: Barred::default(),
            extra_roots: Vec::new(),
            user_agent: "toolgate".into(),
            pace: PaceTerms::default(),
        })
        .unwrap()
    }

    #[track_caller]
    fn check(internal: &[&str], url: &str, peer: Option<&str>, expected: Result<(), &str>) {
        let url = WebUrl::read(url).unwrap();
        let answered = client(internal).0.check_peer(&url, peer.map(|peer| peer.parse().unwrap()));
        let message =
            expected.map_err(|who| format!("{who} answers for `{}`, and may not be reached for it", url.host()));
        assert_eq!(
            answered.map_err(|fault| (fault.code.into_owned(), fault.message)),
            message.map_err(|m| ("address_refused".to_owned(), m))
        );
    }

    /// If the underlying client ever dials somebody whom the judge did not admit, the answer is not read.
    #[tokio::test]
    async fn whoever_was_dialled_by_mistake_is_not_heard() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut visitor, _) = listener.accept().unwrap();
            let _ = visitor.read(&mut [0; 1024]);
            visitor.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").unwrap();
        });
        let lenient = Names {
            judge: Judge::new(Internal::parse(&["127.0.0.1".into()]).unwrap()),
            look_ups: LookUps::new(
                Resolver::Given(Arc::new(|_| Ok(vec![Ipv4Addr::LOCALHOST.into()]))),
                1,
                Duration::from_secs(1),
            ),
            port: NO_PORT,
        };
        let mut inner = Arc::into_inner(client(&[]).0).unwrap();
        inner.elsewhere = build("toolgate", &tls(&[]).unwrap(), lenient).unwrap();
        let client = Client(Arc::new(inner));
        let request = WebRequest::get(format!("http://www.rebinding.org:{port}/"));
        let fault = client.send(&request, &Within::Public, &[]).await.unwrap_err();
        assert_eq!(fault.code, "address_refused");
        let message = format!("`127.0.0.1:{port}` answers for `www.rebinding.org`, and may not be reached for it");
        assert_eq!(fault.message, message);
    }

    #[test]
    fn whoever_answers_is_judged_again() {
        check(&[], "https://a.org/", Some("93.184.216.34:443"), Ok(()));
        check(&[], "https://a.org/", Some("[::ffff:93.184.216.34]:443"), Ok(()));
        check(&[], "https://a.org/", Some("93.184.216.34:8443"), Err("`93.184.216.34:8443`"));
        check(&[], "https://a.org/", Some("10.0.0.1:443"), Err("`10.0.0.1:443`"));
        check(&[], "https://a.org/", Some("127.0.0.1:443"), Err("`127.0.0.1:443`"));
        check(&[], "https://a.org/", None, Err("somebody unknown"));
        check(&["a.org"], "https://a.org/", Some("10.0.0.1:443"), Ok(()));
        check(&["a.org"], "https://a.org/", Some("169.254.169.254:443"), Err("`169.254.169.254:443`"));
        check(&["b.org"], "https://a.org/", Some("10.0.0.1:443"), Err("`10.0.0.1:443`"));
        check(&[], "https://93.184.216.34/", Some("93.184.216.34:443"), Ok(()));
        check(&[], "https://93.184.216.34/", Some("93.184.216.35:443"), Err("`93.184.216.35:443`"));
    }
}
