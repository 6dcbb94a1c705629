//! Connections: requests to other people's APIs, with credentials no agent sees.
//!
//! A request names a connection and a path. Here the path is joined to the connection's address, which it cannot leave;
//! the references of the config become headers, which go to that one server and nowhere else; and access tokens are
//! fetched, kept and renewed.

mod address;
mod rate;
mod token;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use toolgate_contract::{ConnectionInfo, ConnectionUse, Fault, ServiceKind, WebRequest, WebResponse, nearest};
use toolgate_egress::Within;
use toolgate_gate::{ConnectionTerms, Sourced};
use toolgate_guard::url::WebUrl;
use toolgate_tools::Clock;
use zeroize::Zeroizing;

use self::{rate::Rate, token::Tokens};
use crate::{
    config::{Auth, Connection, Word},
    secrets::{Broker, Secret, SecretRef},
};

/// Whoever sends requests: the judged client.
pub trait Sender: Send + Sync {
    /// Sends a request with these headers besides its own, and waits for the whole answer.
    fn send<'a>(
        &'a self,
        request: &'a WebRequest,
        credentials: &'a [(String, Secret)],
        within: &'a Within,
    ) -> BoxFuture<'a, Result<WebResponse, Fault>>;
}

/// The connections of a config, and who looks their secrets up.
pub struct Connections {
    known: BTreeMap<String, Entry>,
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
}

struct Entry {
    name: String,
    connection: Sourced<Connection>,
    rate: Mutex<Rate>,
    tokens: Tokens,
}

impl Connections {
    /// The connections of a config. Nothing is opened yet.
    pub fn new(known: &BTreeMap<String, Sourced<Connection>>, broker: Arc<Broker>, clock: Arc<dyn Clock>) -> Self {
        let entry = |(name, connection): (&String, &Sourced<Connection>)| {
            let rate = Mutex::new(Rate::new(connection.value.rate_limit));
            let entry = Entry { name: name.clone(), connection: connection.clone(), rate, tokens: Tokens::default() };
            (name.clone(), entry)
        };
        Self { known: known.iter().map(entry).collect(), broker, clock }
    }

    /// Who looks secrets up, and takes them out of texts.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Every connection, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sourced<Connection>)> {
        self.known.iter().map(|(name, entry)| (&**name, &entry.connection))
    }

    /// The connection of this name.
    pub fn get(&self, name: &str) -> Result<&Connection, Fault> {
        self.entry(name).map(Entry::settings)
    }

    /// What a tool may know about a connection.
    pub fn info(&self, name: &str) -> Result<ConnectionInfo, Fault> {
        let Connection { base_url, kind, .. } = self.get(name)?;
        Ok(ConnectionInfo { name: name.to_owned(), base_url: base_url.clone(), kind: *kind })
    }

    /// What the gate goes by.
    pub fn terms(&self, wanted: &ConnectionUse) -> Result<ConnectionTerms, Fault> {
        let entry = self.entry(&wanted.connection)?;
        let Connection { sensitive, writes, .. } = entry.settings();
        Ok(ConnectionTerms {
            name: entry.name.clone(),
            writes: wanted.writes,
            sensitive: *sensitive,
            on_write: *writes,
            source: entry.connection.source.clone(),
        })
    }

    /// The one server it leads to, as `host:port`.
    pub fn target(&self, name: &str) -> Result<String, Fault> {
        let url = self.entry(name)?.url()?;
        Ok(format!("{}:{}", url.host(), url.port()))
    }

    /// The server git is talked to at, as `host:port`. GitHub has its API at a host of its own.
    pub fn git_target(&self, name: &str) -> Result<String, Fault> {
        let entry = self.entry(name)?;
        let target = self.target(name)?;
        match (entry.settings().kind, target.as_str()) {
            (ServiceKind::Github, "api.github.com:443") => Ok("github.com:443".to_owned()),
            // Of a forge it is known that its repositories are its own. Of another server only what is below its path is.
            (ServiceKind::Generic, _) if entry.url()?.path() != "/" => Err(Fault::refused(
                "connection_mismatch",
                format!("connection `{name}` is for one path of its server, and repositories may be at another"),
                "Give the connection the forge's `kind`, or an address without a path.",
            )),
            _ => Ok(target),
        }
    }

    /// Where a request would go: `target` is a path below the connection's address, or a whole URL that is.
    pub fn join(&self, name: &str, target: &str) -> Result<WebUrl, Fault> {
        let entry = self.entry(name)?;
        address::join(&entry.name, &entry.url()?, target)
    }

    /// Sends a request with the connection's credentials. The answer may be any status; a token that is no longer good is
    /// renewed once.
    pub async fn send(&self, name: &str, request: &WebRequest, client: &dyn Sender) -> Result<WebResponse, Fault> {
        let entry = self.entry(name)?;
        let url = address::join(&entry.name, &entry.url()?, &request.url)?;
        entry.check_headers(request)?;
        entry.take_turn(&*self.clock)?;
        let request = WebRequest { url: url.as_str().to_owned(), ..request.clone() };
        let within = Within::Origin(url);
        let sent = self.credentials(entry, client).await?;
        let answer = client.send(&request, &sent, &within).await?;
        if answer.status != 401 || !entry.forget_token(&sent).await {
            return Ok(self.without_secrets(answer));
        }
        let sent = self.credentials(entry, client).await?;
        client.send(&request, &sent, &within).await.map(|answer| self.without_secrets(answer))
    }

    /// Some servers repeat what they were sent. Tools cut answers where a caller says, and half a secret is not found any
    /// more: it is taken out before they see it.
    fn without_secrets(&self, mut answer: WebResponse) -> WebResponse {
        for (_, value) in &mut answer.headers {
            if let Cow::Owned(clean) = self.broker.redact(value) {
                *value = clean;
            }
        }
        if let Cow::Owned(clean) = self.broker.redact_bytes(&answer.body) {
            answer.body = clean;
        }
        answer
    }

    /// The headers a connection proves itself with.
    pub async fn headers(&self, name: &str, client: &dyn Sender) -> Result<Vec<(String, Secret)>, Fault> {
        self.credentials(self.entry(name)?, client).await
    }

    /// The same as one whole header line, as git wants it. Forges that take a token from their API in one way take it
    /// from git in another: as the password of anybody.
    pub async fn authorization_line(&self, name: &str, client: &dyn Sender) -> Result<Secret, Fault> {
        let entry = self.entry(name)?;
        let settings = entry.settings();
        let mut headers = self.credentials(entry, client).await?;
        let (Some((header, value)), true) = (headers.pop(), headers.is_empty()) else {
            return Err(Fault::failed(
                "no_credentials",
                format!("connection `{name}` does not prove itself with exactly one header"),
                "Use a connection with `bearer`, `basic`, `header` or `oauth2`, or none for what is public.",
            ));
        };
        let user = match settings.kind {
            ServiceKind::Generic => None,
            ServiceKind::Github | ServiceKind::Forgejo => Some("x-access-token"),
            ServiceKind::Gitlab => Some("oauth2"),
        };
        let token = value.expose().strip_prefix("Bearer ");
        let value = match user.zip(token) {
            Some((user, token)) => self.basic(&format!("{name}.token"), user, token),
            None => value,
        };
        Ok(Secret::new(format!("{header}: {}", value.expose())))
    }

    async fn credentials(&self, entry: &Entry, client: &dyn Sender) -> Result<Vec<(String, Secret)>, Fault> {
        let one = |name: &str, value: Secret| vec![(name.to_owned(), value)];
        Ok(match &entry.settings().auth {
            Auth::None => Vec::new(),
            Auth::Bearer(reference) => one("Authorization", bearer(&self.header_value(reference).await?)),
            Auth::Header { name, value } => one(name, self.header_value(value).await?),
            Auth::Basic { user, password } => {
                let (label, user) = (label(user, password.as_ref()), self.word(user).await?);
                let password = match password {
                    Some(reference) => self.get_secret(reference).await?,
                    None => Secret::new(String::new()),
                };
                one("Authorization", self.basic(&label, user.expose(), password.expose()))
            }
            Auth::Oauth2(oauth) => one("Authorization", bearer(&self.access_token(entry, oauth, client).await?)),
            Auth::Custom { headers } => {
                let mut all = Vec::new();
                for (name, reference) in headers {
                    all.push((name.clone(), self.header_value(reference).await?));
                }
                all
            }
        })
    }

    fn entry(&self, name: &str) -> Result<&Entry, Fault> {
        self.known.get(name).ok_or_else(|| {
            let remedy = match nearest(name, self.known.keys().map(String::as_str)) {
                Some(near) => format!("Did you mean `{near}`?"),
                None if self.known.is_empty() => {
                    "There is none yet; the operator adds them with `toolgate connections add`.".into()
                }
                None => format!("Use `{}`.", self.known.keys().cloned().collect::<Vec<_>>().join("` or `")),
            };
            let name: String = name.chars().take(80).flat_map(char::escape_default).collect();
            Fault::refused("unknown_connection", format!("there is no connection `{name}`"), remedy)
        })
    }

    /// Looked up on a thread of its own: a disk or a keyring may take its time.
    async fn get_secret(&self, reference: &SecretRef) -> Result<Secret, Fault> {
        let (broker, reference) = (self.broker.clone(), reference.clone());
        let found = tokio::task::spawn_blocking(move || broker.get(&reference)).await;
        found.unwrap_or_else(|error| {
            let message = format!("looking a secret up did not end: {error}");
            Err(Fault::failed("secret_unreadable", message, "Try again.").retryable())
        })
    }

    async fn word(&self, word: &Word) -> Result<Secret, Fault> {
        match word {
            Word::Plain(text) => Ok(Secret::new(text.clone())),
            Word::Secret(reference) => self.get_secret(reference).await,
        }
    }

    /// A secret that is sent as it is. What ends a line would begin another header.
    pub(crate) async fn header_value(&self, reference: &SecretRef) -> Result<Secret, Fault> {
        let secret = self.get_secret(reference).await?;
        if !is_header_value(secret.expose()) {
            return Err(Fault::failed(
                "secret_unusable",
                format!("the secret `{reference}` cannot be sent in a header: it is not one line of plain ASCII"),
                "Set it again, without line ends and odd characters.",
            ));
        }
        Ok(secret)
    }

    /// The value of a `Basic` header, remembered as it is sent.
    fn basic(&self, label: &str, user: &str, password: &str) -> Secret {
        let pair = Zeroizing::new(format!("{user}:{password}"));
        let encoded = Secret::new(STANDARD.encode(pair.as_bytes()));
        self.broker.remember(label, &encoded);
        Secret::new(format!("Basic {}", encoded.expose()))
    }
}

impl Entry {
    fn settings(&self) -> &Connection {
        &self.connection.value
    }

    fn url(&self) -> Result<WebUrl, Fault> {
        WebUrl::read(&self.settings().base_url).map_err(|why| {
            let message = format!("the address of connection `{}` cannot be used: {why}", self.name);
            Fault::refused("url_refused", message, "Correct its `base_url` in the config.")
        })
    }

    /// Counts a request, or refuses it.
    fn take_turn(&self, clock: &dyn Clock) -> Result<(), Fault> {
        let taken = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(clock.now());
        taken.map_err(|wait| {
            let (name, most) = (&self.name, self.settings().rate_limit);
            let message = format!("connection `{name}` takes {most} requests a minute, and they are used up");
            Fault::failed("rate_limited", message, format!("Try again in {} s.", wait.as_secs() + 1)).retryable()
        })
    }

    /// A header of the request may not stand in for one of the connection's.
    fn check_headers(&self, request: &WebRequest) -> Result<(), Fault> {
        let own: Vec<&str> = match &self.settings().auth {
            Auth::Header { name, .. } => vec![name],
            Auth::Custom { headers } => headers.keys().map(String::as_str).collect(),
            Auth::None | Auth::Bearer(_) | Auth::Basic { .. } | Auth::Oauth2(_) => Vec::new(),
        };
        let always = ["authorization", "proxy-authorization", "cookie"];
        let taken = |name: &str| always.iter().chain(&own).any(|known| known.eq_ignore_ascii_case(name));
        if !request.headers.iter().any(|(name, _)| taken(name)) {
            return Ok(());
        }
        Err(Fault::refused(
            "credentials_in_arguments",
            format!(
                "a header of the request would take the place of what connection `{}` proves itself with",
                self.name
            ),
            "Leave it out: the connection has its own credentials.",
        ))
    }
}

fn bearer(token: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", token.expose()))
}

fn label(user: &Word, password: Option<&SecretRef>) -> String {
    match (password, user) {
        (Some(reference), _) | (None, Word::Secret(reference)) => reference.label(),
        (None, Word::Plain(name)) => name.clone(),
    }
}

fn is_header_value(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b)) && text.trim() == text
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known.keys()).finish()
    }
}
