//! The block `connections`: other people's APIs, and what Toolgate proves itself with there.
//!
//! Every credential is a reference. A config is copied, shown and committed, so a value in it is an error, and the error
//! does not show it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toolgate_contract::ServiceKind;
use toolgate_gate::{OnWrite, Sourced};
use toolgate_guard::url::{Scheme, WebUrl};

use super::{
    check::{Check, entries},
    file::{AuthFile, BasicFile, ConnectionFile, CustomFile, HeaderFile, OAuth2File},
    findings::{Findings, Said},
    load::{At, Entries, Mark, WordOr},
};
use crate::secrets::SecretRef;

/// An API of somebody else's. It serialises as it is written in a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Scheme, host, port and the path every request begins with. There is no slash at its end.
    pub base_url: String,
    /// What answers there.
    pub kind: ServiceKind,
    /// What Toolgate proves itself with.
    pub auth: Auth,
    /// A person is asked about every use.
    pub sensitive: bool,
    /// What happens about calls that change something.
    pub writes: OnWrite,
    /// Requests a minute.
    pub rate_limit: u32,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What Toolgate proves itself with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Nothing.
    None,
    /// `Authorization: Bearer ...`
    Bearer(SecretRef),
    /// `Authorization: Basic ...`
    Basic {
        /// Who.
        user: Word,
        /// None where the user is all there is, as some APIs have it.
        #[serde(skip_serializing_if = "Option::is_none")]
        password: Option<SecretRef>,
    },
    /// A header of its own.
    Header {
        /// Which.
        name: String,
        /// All of it.
        value: SecretRef,
    },
    /// An access token that is fetched, kept and renewed.
    Oauth2(OAuth2),
    /// Several headers.
    Custom {
        /// By name.
        headers: BTreeMap<String, SecretRef>,
    },
}

/// How an access token is got: with a refresh token where there is one, else with the client's own credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OAuth2 {
    /// Who gives it out.
    pub token_url: String,
    /// Whom Toolgate is registered as.
    pub client_id: Word,
    /// What that is proven with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretRef>,
    /// What a person's consent left behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<SecretRef>,
    /// What the token is to be good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// A word that need not be secret, such as the name of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// As it is.
    Plain(String),
    /// Looked up like a secret.
    Secret(SecretRef),
}

impl Auth {
    /// Every secret it takes.
    pub fn secrets(&self) -> Vec<&SecretRef> {
        let word = |word| match word {
            &Word::Plain(_) => None,
            Word::Secret(reference) => Some(reference),
        };
        match self {
            Self::None => Vec::new(),
            Self::Bearer(token) => vec![token],
            Self::Basic { user, password } => word(user).into_iter().chain(password).collect(),
            Self::Header { value, .. } => vec![value],
            Self::Oauth2(oauth) => {
                word(&oauth.client_id).into_iter().chain(&oauth.client_secret).chain(&oauth.refresh_token).collect()
            }
            Self::Custom { headers } => headers.values().collect(),
        }
    }

    /// The word for it in a config.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bearer(_) => "bearer",
            Self::Basic { .. } => "basic",
            Self::Header { .. } => "header",
            Self::Oauth2(_) => "oauth2",
            Self::Custom { .. } => "custom",
        }
    }
}

const RATE_LIMIT: u32 = 60;
const MOST_A_MINUTE: u64 = 100_000;
const MOST_HEADERS: usize = 16;

/// Headers that say how a message is sent, not who sends it.
const NOT_CREDENTIALS: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks the block of one file.
pub(super) fn check(
    cx: &mut Check<'_>,
    block: &Option<Entries<At<ConnectionFile>>>,
) -> Vec<(Said<String>, Connection)> {
    entries(block)
        .filter_map(|(name, file)| {
            let known = cx.name("connection", name);
            let connection = check_one(cx, &file.value, file.mark)?;
            Some((Said { value: known?, spot: cx.spot(name.mark) }, connection))
        })
        .collect()
}

/// Adds the connections of a trusted file. None is ever replaced: whoever wrote the first one would go on trusting it.
pub(super) fn add(
    known: &mut BTreeMap<String, Sourced<Connection>>,
    new: Vec<(Said<String>, Connection)>,
    findings: &mut Findings,
) {
    for (name, connection) in new {
        match known.get(&name.value) {
            Some(there) => {
                let message = format!("there is a connection `{}` already ({})", name.value, there.source);
                findings.error(name.spot, message, "Choose another name, or remove one of the two.");
            }
            None => {
                let source = findings.source(name.spot);
                known.insert(name.value, Sourced { value: connection, source });
            }
        }
    }
}

fn check_one(cx: &mut Check<'_>, file: &ConnectionFile, mark: Mark) -> Option<Connection> {
    let base = match &file.base_url {
        Some(text) => base_url(cx, text),
        None => {
            cx.error(mark, "a connection has no `base_url`", "Add `base_url: https://api.example.com/v1`.");
            None
        }
    };
    let kind = file.kind.as_ref().map_or(Some(ServiceKind::Generic), |word| kind(cx, word));
    let auth = file.auth.as_ref().map_or(Some(Auth::None), |auth| check_auth(cx, auth));
    let writes = file.writes.as_ref().map_or(Some(OnWrite::Ask), |word| on_write(cx, word));
    let limit = file.rate_limit.as_ref();
    let rate =
        limit.map_or(Some(RATE_LIMIT), |_| u32::try_from(cx.whole("rate_limit", limit, 1..=MOST_A_MINUTE)?.value).ok());
    let description = file.description.as_ref().and_then(|text| described(cx, text));
    let (base, auth) = (base?, auth?);
    if let Some(url) = file.base_url.as_ref().filter(|_| auth != Auth::None && is_open(&base)) {
        cx.note(url.mark, "the credentials of this connection are sent in the open: its address is not `https`");
    }
    Some(Connection {
        base_url: base.as_str().trim_end_matches('/').to_owned(),
        kind: kind?,
        auth,
        sensitive: file.sensitive.as_ref().is_some_and(|sensitive| sensitive.value),
        writes: writes?,
        rate_limit: rate?,
        description,
    })
}

fn base_url(cx: &mut Check<'_>, text: &At<String>) -> Option<WebUrl> {
    let url = address(cx, text)?;
    if url.as_str().contains(['?', '#']) {
        let message = "a `base_url` has no query and no fragment: requests begin with it";
        cx.hidden_error(text.mark, message, "Write it up to the path, such as `https://api.example.com/v1`.");
        return None;
    }
    Some(url)
}

fn address(cx: &mut Check<'_>, text: &At<String>) -> Option<WebUrl> {
    match WebUrl::read(&text.value) {
        Ok(url) => Some(url),
        Err(why) => {
            // It may have a password in front of its host.
            let remedy = "Write it as in `https://api.example.com/v1`; credentials go under `auth`.";
            cx.hidden_error(text.mark, format!("this is not an address of the web: {why}"), remedy);
            None
        }
    }
}

/// Could others read what is sent there? Not on this machine.
pub(super) fn is_open(url: &WebUrl) -> bool {
    let is_here = url.host().address().is_some_and(|address| address.is_loopback())
        || url.host().name().is_some_and(|name| name.as_str() == "localhost");
    url.scheme() == Scheme::Http && !is_here
}

fn kind(cx: &mut Check<'_>, word: &At<String>) -> Option<ServiceKind> {
    const KINDS: [(&str, ServiceKind); 4] = [
        ("generic", ServiceKind::Generic),
        ("github", ServiceKind::Github),
        ("gitlab", ServiceKind::Gitlab),
        ("forgejo", ServiceKind::Forgejo),
    ];
    let found = KINDS.iter().find(|(name, _)| *name == word.value);
    if found.is_none() {
        cx.unknown("kind of connection", word, KINDS.map(|(name, _)| name));
    }
    found.map(|(_, kind)| *kind)
}

fn on_write(cx: &mut Check<'_>, word: &At<String>) -> Option<OnWrite> {
    let found = OnWrite::parse(&word.value);
    if found.is_none() {
        cx.unknown("value for `writes`:", word, OnWrite::ALL.iter().map(|value| value.as_str()));
    }
    found
}

fn described(cx: &mut Check<'_>, text: &At<String>) -> Option<String> {
    if text.value.chars().count() > 200 || text.value.chars().any(char::is_control) {
        let remedy = "Say in one line of at most 200 characters what it is for.";
        cx.error(text.mark, "this description is too long, or has more than one line", remedy);
        return None;
    }
    Some(text.value.clone())
}

// ---- credentials ----

fn check_auth(cx: &mut Check<'_>, written: &At<WordOr<AuthFile>>) -> Option<Auth> {
    let file = match &written.value {
        WordOr::Word(word) if word == "none" => return Some(Auth::None),
        WordOr::Word(_) => {
            let remedy =
                "Write `none`, or `{ bearer: vault:NAME }` or another of `basic`, `header`, `oauth2`, `custom`.";
            cx.hidden_error(written.mark, "this does not say how credentials are sent", remedy);
            return None;
        }
        WordOr::Mapping(file) => file,
    };
    let given = [
        file.bearer.is_some(),
        file.basic.is_some(),
        file.header.is_some(),
        file.oauth2.is_some(),
        file.custom.is_some(),
    ];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let remedy = "Keep one of `bearer`, `basic`, `header`, `oauth2` and `custom`, or write `auth: none`.";
        cx.hidden_error(written.mark, "credentials are sent in one way", remedy);
        return None;
    }
    if let Some(token) = &file.bearer {
        return reference(cx, "bearer", token).map(Auth::Bearer);
    }
    if let Some(basic) = &file.basic {
        return check_basic(cx, &basic.value, basic.mark);
    }
    if let Some(header) = &file.header {
        return check_header(cx, &header.value, header.mark);
    }
    if let Some(oauth) = &file.oauth2 {
        return check_oauth(cx, &oauth.value, oauth.mark).map(Auth::Oauth2);
    }
    file.custom.as_ref().and_then(|custom| check_custom(cx, &custom.value, custom.mark))
}

fn check_basic(cx: &mut Check<'_>, file: &BasicFile, mark: Mark) -> Option<Auth> {
    let Some(user) = &file.user else {
        cx.hidden_error(mark, "`basic` has no `user`", "Add `user: NAME`, or a reference to it.");
        return None;
    };
    let user = word(cx, "user", user);
    if file.user.as_ref().is_some_and(|user| user.value.contains(':') && !SecretRef::is_meant(&user.value)) {
        cx.hidden_error(mark, "a user's name has no `:` in it", "Write the name alone.");
        return None;
    }
    let password = match &file.password {
        Some(password) => Some(reference(cx, "password", password)?),
        None => None,
    };
    let user = user?;
    if password.is_none() && matches!(user, Word::Plain(_)) {
        let remedy = "Add `password: vault:NAME`; where the user is the secret, write `user: vault:NAME`.";
        cx.hidden_error(mark, "`basic` has no `password`", remedy);
        return None;
    }
    Some(Auth::Basic { user, password })
}

fn check_header(cx: &mut Check<'_>, file: &HeaderFile, mark: Mark) -> Option<Auth> {
    let (Some(name), Some(value)) = (&file.name, &file.value) else {
        cx.hidden_error(mark, "`header` has a `name` and a `value`", "Write `{ name: X-Api-Key, value: vault:NAME }`.");
        return None;
    };
    let (name, value) = (header_name(cx, name), reference(cx, "value", value));
    Some(Auth::Header { name: name?, value: value? })
}

fn check_oauth(cx: &mut Check<'_>, file: &OAuth2File, mark: Mark) -> Option<OAuth2> {
    let (Some(token_url), Some(client_id)) = (&file.token_url, &file.client_id) else {
        let remedy = "Write both; the service that gives out tokens says what they are.";
        cx.hidden_error(mark, "`oauth2` has a `token_url` and a `client_id`", remedy);
        return None;
    };
    let url = address(cx, token_url);
    let client_id = word(cx, "client_id", client_id);
    let mut optional = |key, text: &Option<At<String>>| match text {
        Some(text) => reference(cx, key, text).map(Some),
        None => Some(None),
    };
    let secret = optional("client_secret", &file.client_secret);
    let refresh = optional("refresh_token", &file.refresh_token);
    if file.client_secret.is_none() && file.refresh_token.is_none() {
        let remedy = "Add `client_secret: vault:NAME`, `refresh_token: vault:NAME` or both.";
        cx.hidden_error(mark, "`oauth2` has nothing to get a token with", remedy);
        return None;
    }
    let scope = match &file.scope {
        Some(scope) => Some(scope_of(cx, scope)?),
        None => None,
    };
    let url = url?;
    if is_open(&url) {
        cx.note(token_url.mark, "the credentials of this connection are sent in the open: `token_url` is not `https`");
    }
    Some(OAuth2 {
        token_url: url.without_fragment().to_owned(),
        client_id: client_id?,
        client_secret: secret?,
        refresh_token: refresh?,
        scope,
    })
}

fn scope_of(cx: &mut Check<'_>, scope: &At<String>) -> Option<String> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\') || c == ' ';
    if scope.value.is_empty() || scope.value.len() > 1024 || !scope.value.chars().all(fits) {
        cx.error(scope.mark, "this is not a scope", "Write words with single spaces between them, in quotes.");
        return None;
    }
    Some(scope.value.clone())
}

fn check_custom(cx: &mut Check<'_>, file: &CustomFile, mark: Mark) -> Option<Auth> {
    let written: Vec<_> = entries(&file.headers).collect();
    if written.is_empty() || written.len() > MOST_HEADERS {
        let message = format!("`custom` has from 1 to {MOST_HEADERS} `headers`");
        cx.hidden_error(mark, message, "Write `{ headers: { X-Api-Key: vault:NAME } }`.");
        return None;
    }
    let (mut headers, mut names, mut whole) = (BTreeMap::new(), BTreeSet::new(), true);
    for (key, value) in written {
        let (Some(name), Some(value)) = (header_name(cx, key), reference(cx, &key.value, value)) else {
            whole = false;
            continue;
        };
        if !names.insert(name.to_ascii_lowercase()) {
            cx.hidden_error(key.mark, format!("header `{name}` is written twice"), "Keep one of the two.");
            whole = false;
        }
        headers.insert(name, value);
    }
    whole.then_some(Auth::Custom { headers })
}

pub(super) fn header_name(cx: &mut Check<'_>, name: &At<String>) -> Option<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let lower = name.value.to_ascii_lowercase();
    let is_ours = NOT_CREDENTIALS.contains(&&*lower) || lower.starts_with("proxy-");
    if name.value.is_empty() || name.value.len() > 100 || !name.value.bytes().all(fits) || is_ours {
        cx.hidden_error(name.mark, "this is not a header for credentials", "Write a name such as `X-Api-Key`.");
        return None;
    }
    Some(name.value.clone())
}

/// A word that may be plain: whatever does not begin like a reference is.
fn word(cx: &mut Check<'_>, key: &str, text: &At<String>) -> Option<Word> {
    if SecretRef::is_meant(&text.value) {
        return reference(cx, key, text).map(Word::Secret);
    }
    if text.value.is_empty() || text.value.len() > 200 || text.value.chars().any(char::is_control) {
        cx.hidden_error(text.mark, format!("this is no `{key}`"), "Write at most 200 characters, or a reference.");
        return None;
    }
    Some(Word::Plain(text.value.clone()))
}

/// A reference. What is none is most likely the secret itself.
pub(super) fn reference(cx: &mut Check<'_>, key: &str, text: &At<String>) -> Option<SecretRef> {
    match SecretRef::parse(&text.value) {
        Ok(reference) => Some(reference),
        Err(_) if !SecretRef::is_meant(&text.value) => {
            let message = format!("the value of `{key}` stands in the config, where everybody reads it");
            let remedy = "Run `toolgate secrets set NAME` and write `vault:NAME` here; or `env:`, `file:` or `keyring:`. \
                          Replace the secret if the file was ever shared.";
            cx.hidden_error(text.mark, message, remedy);
            None
        }
        Err(fault) => {
            cx.hidden_error(text.mark, fault.message, fault.remedy);
            None
        }
    }
}
