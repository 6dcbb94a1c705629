//! Access tokens: fetched when they are first needed, kept, and renewed before they run out.

use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Mutex;
use toolgate_contract::{Fault, Method, WebLimits, WebRequest, WebResponse};
use toolgate_egress::Within;
use toolgate_guard::url::WebUrl;
use zeroize::Zeroizing;

use super::{Connections, Entry, Sender};
use crate::{
    config::OAuth2,
    secrets::{Secret, SecretRef},
};

/// A token is renewed so long before it runs out, so that none runs out on its way.
const MARGIN: Duration = Duration::from_secs(60);
const LIMITS: WebLimits = WebLimits { wall: Duration::from_secs(15), body: 256 << 10, redirects: 0 };

/// What a connection has got so far. Whoever fetches holds it, so that a token is fetched once for all who wait.
#[derive(Default)]
pub(super) struct Tokens(Mutex<Held>);

#[derive(Default)]
struct Held {
    access: Option<Access>,
    /// The refresh token that took the place of the first one, where that could not be written down.
    refresh: Option<Secret>,
}

struct Access {
    token: Secret,
    /// None where nobody said: it is good until a server says no.
    renew_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: Zeroizing<String>,
    token_type: String,
    expires_in: Option<f64>,
    refresh_token: Option<Zeroizing<String>>,
}

impl Entry {
    /// Forgets a token a server said no to, unless somebody has got another one meanwhile. Says whether asking once more
    /// is worth it.
    pub(super) async fn forget_token(&self, sent: &[(String, Secret)]) -> bool {
        let mut held = self.tokens.0.lock().await;
        let was_sent = |access: &Access| {
            sent.iter().any(|(_, value)| value.expose().strip_prefix("Bearer ") == Some(access.token.expose()))
        };
        match &held.access {
            None => false,
            Some(access) if was_sent(access) => {
                held.access = None;
                true
            }
            Some(_) => true,
        }
    }
}

impl Connections {
    /// A token that is good for a while yet.
    pub(super) async fn access_token(
        &self,
        entry: &Entry,
        oauth: &OAuth2,
        client: &dyn Sender,
    ) -> Result<Secret, Fault> {
        let mut held = entry.tokens.0.lock().await;
        let now = self.clock.now();
        let is_good = |access: &&Access| access.renew_at.is_none_or(|at| now < at);
        if let Some(access) = held.access.as_ref().filter(is_good) {
            return Ok(access.token.clone());
        }
        let granted = self.fetch_token(entry, oauth, held.refresh.as_ref(), client).await?;
        if let Some(refresh) = granted.refresh_token {
            let refresh = Secret::admit(&entry.token_label("refresh"), &Zeroizing::new(refresh.as_bytes().to_vec()))?;
            self.keep_refresh(entry, oauth.refresh_token.as_ref(), refresh, &mut held).await;
        }
        let token =
            Secret::admit(&entry.token_label("access"), &Zeroizing::new(granted.access_token.as_bytes().to_vec()))?;
        self.broker.remember(&entry.token_label("access"), &token);
        if !super::is_header_value(token.expose()) {
            return Err(entry.no_token("the token it sent cannot be put into a header"));
        }
        held.access = Some(Access { token: token.clone(), renew_at: renew_at(now, granted.expires_in) });
        Ok(token)
    }

    /// Asks whoever gives out tokens.
    async fn fetch_token(
        &self,
        entry: &Entry,
        oauth: &OAuth2,
        newer: Option<&Secret>,
        client: &dyn Sender,
    ) -> Result<Granted, Fault> {
        let id = self.word(&oauth.client_id).await?;
        let mut form = Form::default();
        match (&oauth.refresh_token, newer) {
            (None, _) => form.add("grant_type", "client_credentials"),
            (Some(_), Some(newer)) => {
                form.add("grant_type", "refresh_token");
                form.add("refresh_token", newer.expose());
            }
            (Some(reference), None) => {
                form.add("grant_type", "refresh_token");
                form.add("refresh_token", self.get_secret(reference).await?.expose());
            }
        }
        if let Some(scope) = &oauth.scope {
            form.add("scope", scope);
        }
        let credentials = match &oauth.client_secret {
            Some(reference) => {
                let secret = self.get_secret(reference).await?;
                let (id, secret) = (encoded(id.expose()), encoded(secret.expose()));
                vec![("Authorization".to_owned(), self.basic(&reference.label(), &id, &secret))]
            }
            None => {
                form.add("client_id", id.expose());
                Vec::new()
            }
        };
        let url = WebUrl::read(&oauth.token_url)
            .map_err(|why| entry.no_token(&format!("its `token_url` cannot be used: {why}")))?;
        let request = WebRequest {
            method: Method::Post,
            url: oauth.token_url.clone(),
            headers: vec![
                ("Accept".into(), "application/json".into()),
                ("Content-Type".into(), "application/x-www-form-urlencoded".into()),
            ],
            body: form.0.as_bytes().to_vec(),
            connection: None,
            polite: false,
            limits: LIMITS,
        };
        let answer = client.send(&request, &credentials, &Within::Origin(url)).await?;
        let body = Zeroizing::new(answer.body);
        read_answer(entry, &WebResponse { body: Vec::new(), ..answer }, &body)
    }

    /// Some services take a refresh token once and give another: that one is written down where we may, and else kept
    /// as long as this process lives.
    async fn keep_refresh(&self, entry: &Entry, reference: Option<&SecretRef>, refresh: Secret, held: &mut Held) {
        let Some(reference) = reference.cloned() else { return };
        let (broker, new) = (self.broker.clone(), refresh.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let is_same = broker.get(&reference).is_ok_and(|known| known.expose() == new.expose());
            if is_same { Ok(true) } else { broker.replace(&reference, &new) }
        });
        match kept.await {
            Ok(Ok(true)) => held.refresh = None,
            Ok(Ok(false)) => {
                tracing::warn!(
                    "connection `{}` has another refresh token, which is only kept until Toolgate ends",
                    entry.name
                );
                held.refresh = Some(refresh);
            }
            Ok(Err(fault)) => {
                tracing::warn!("the refresh token of connection `{}` could not be kept: {fault}", entry.name);
                held.refresh = Some(refresh);
            }
            Err(error) => {
                tracing::warn!("the refresh token of connection `{}` could not be kept: {error}", entry.name);
                held.refresh = Some(refresh);
            }
        }
    }
}

impl Entry {
    fn token_label(&self, which: &str) -> String {
        format!("{}.{which}_token", self.name)
    }

    fn no_token(&self, why: &str) -> Fault {
        let message = format!("connection `{}` got no access token: {why}", self.name);
        Fault::failed("token_refused", message, "Ask the operator to check its `oauth2` settings and secrets.")
    }
}

fn read_answer(entry: &Entry, answer: &WebResponse, body: &[u8]) -> Result<Granted, Fault> {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }

    if answer.status != 200 {
        let said = serde_json::from_slice::<Refused>(body).ok().map(|refused| refused.error);
        // The word comes from another machine, so it is one of the short ones there are, or not told.
        let is_word = |word: &String| word.len() <= 40 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let word = said.filter(is_word).map(|word| format!(" {word}")).unwrap_or_default();
        let fault = entry.no_token(&format!("the answer was {}{word}", answer.status));
        return Err(if answer.is_retryable() { fault.retryable() } else { fault });
    }
    let granted: Granted = serde_json::from_slice(body)
        .map_err(|_| entry.no_token("the answer is not JSON with an `access_token` and a `token_type`"))?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err(entry.no_token("the token it sent is not a bearer token"));
    }
    Ok(granted)
}

/// A while before it runs out; half of its life before, where that is short.
fn renew_at(now: Timestamp, expires_in: Option<f64>) -> Option<Timestamp> {
    let life = Duration::try_from_secs_f64(expires_in?.clamp(0.0, 1e9)).ok()?;
    now.checked_add(life - MARGIN.min(life / 2)).ok()
}

/// A form that is wiped.
#[derive(Default)]
struct Form(Zeroizing<String>);

impl Form {
    fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encoded(value));
    }
}

/// What a form leaves as it is. Services that forget to decode credentials then still know most of them.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encoded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(utf8_percent_encode(text, PLAIN).to_string())
}
