//! Telling people that they are asked.
//!
//! Whoever serves runs [`tend`]: it does what time brings about and sends word of each question this program filed or
//! escalated. That is beside the road: a channel that is slow, broken or gone never holds up a call, and what cannot be
//! told is logged. Every try is signed anew, so that whoever listens can refuse what it has heard before.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_contract::{Approval, Fault, Method, WebLimits, WebRequest};
use toolgate_egress::Within;
use toolgate_guard::shell::ir::visible;

use crate::{
    approvals::{Approvals, Event},
    config::{Channel, ChannelUrl},
    house::House,
    secrets::Secret,
};

/// How often is looked what time has brought about.
const TURN: Duration = Duration::from_secs(5);
/// Events that wait to be told. More are dropped, and that is logged.
pub(crate) const QUEUE: usize = 256;
/// How long is waited before each further try.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// How long one try may take.
const WALL: Duration = Duration::from_secs(10);
/// The longest text for a chat.
const LONGEST: usize = 3_000;

/// Looks after questions until it is told to stop.
pub(crate) async fn tend(house: &House, approvals: &Approvals, stop: CancellationToken) {
    let mut events = approvals.listen();
    let looking = async {
        let mut turn = tokio::time::interval(TURN);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turn.tick().await;
            if let Err(error) = approvals.tend().await {
                tracing::warn!(%error, "questions to people could not be looked after");
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = looking => {}
        () = tell(house, &mut events) => {}
    }
}

/// Passes events on, each channel at its own pace: one that is gone holds up no other.
async fn tell(house: &House, events: &mut mpsc::Receiver<Event>) {
    let channel = |channel| {
        let (sender, mut queue) = mpsc::channel::<Arc<Event>>(QUEUE);
        let worker = async move {
            while let Some(event) = queue.recv().await {
                send(house, channel, &event).await;
            }
        };
        (sender, worker)
    };
    let (senders, workers): (Vec<_>, Vec<_>) = house.config.channels.iter().map(channel).unzip();
    let pass_on = async move {
        while let Some(event) = events.recv().await.map(Arc::new) {
            let full = senders.iter().filter(|sender| sender.try_send(event.clone()).is_err()).count();
            if full > 0 {
                tracing::error!(id = %event.approval().id, "{full} channels are behind, and are not told of this one");
            }
        }
    };
    tokio::join!(pass_on, join_all(workers));
}

/// Tries a few times. What goes wrong is for the log alone.
async fn send(house: &House, channel: &Channel, event: &Event) {
    let (mut pauses, kind) = (PAUSES.into_iter(), channel.kind());
    let id = &event.approval().id;
    loop {
        let Err(fault) = try_once(house, channel, event).await else { return };
        let fault = house.connections.broker().redact_fault(fault);
        let Some(pause) = pauses.next() else {
            tracing::error!(%id, channel = kind, "people could not be told that they are asked: {fault}");
            return;
        };
        tracing::warn!(%id, channel = kind, "people could not be told yet that they are asked: {fault}");
        tokio::time::sleep(pause).await;
    }
}

async fn try_once(house: &House, channel: &Channel, event: &Event) -> Result<(), Fault> {
    let request = match channel {
        Channel::Webhook { url, secret } => {
            let body = webhook(event).to_string();
            let (timestamp, nonce) = (house.now_ms() / 1_000, uuid::Uuid::new_v4().simple().to_string());
            let signature = sign(&look_up(house, secret).await?, timestamp, &nonce, &body)?;
            let headers = [
                ("Toolgate-Timestamp", timestamp.to_string()),
                ("Toolgate-Nonce", nonce),
                ("Toolgate-Signature", signature),
            ];
            post(address(house, url).await?, &headers, body)
        }
        Channel::Slack { url } => post(address(house, url).await?, &[], slack(event).to_string()),
    };
    let answer = house.gateway.client(&[])?.send(&request, &Within::Public, &[]).await?;
    match answer.status {
        200..300 => Ok(()),
        status => Err(Fault::failed("not_taken", format!("the channel answers {status}"), "Check its address.")),
    }
}

fn post(url: String, headers: &[(&str, String)], body: String) -> WebRequest {
    let own = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())].into_iter().chain(own).collect();
    let limits = WebLimits { wall: WALL, redirects: 0, ..WebLimits::default() };
    WebRequest { method: Method::Post, headers, body: body.into_bytes(), limits, ..WebRequest::get(url) }
}

async fn address(house: &House, url: &ChannelUrl) -> Result<String, Fault> {
    match url {
        ChannelUrl::Plain(url) => Ok(url.clone()),
        ChannelUrl::Secret(reference) => Ok(look_up(house, reference).await?.expose().to_owned()),
    }
}

/// Off the executor's threads: a keyring may take its time.
async fn look_up(house: &House, reference: &crate::secrets::SecretRef) -> Result<Secret, Fault> {
    let (broker, reference) = (house.connections.broker().clone(), reference.clone());
    let found = tokio::task::spawn_blocking(move || broker.get(&reference)).await;
    found.unwrap_or_else(|_| Err(Fault::failed("secret_missing", "the secret could not be looked up", "Try again.")))
}

/// `v1=` and, in hex, the HMAC-SHA256 of `timestamp.nonce.body` under the secret.
fn sign(secret: &Secret, timestamp: u64, nonce: &str, body: &str) -> Result<String, Fault> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .map_err(|_| Fault::failed("secret_missing", "the secret cannot sign", "Use another one."))?;
    mac.update(format!("{timestamp}.{nonce}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("v1={hex}"))
}

/// Without the arguments: those who may read them look where they prove who they are.
fn webhook(event: &Event) -> Value {
    let Approval { id, question, .. } = event.approval();
    json!({
        "event": event.name(), "id": id, "agent": question.agent, "tool": question.tool, "action": question.action,
        "risk": question.risk, "class": question.class, "people": question.people, "reasons": question.reasons,
        "summary": question.picture["summary"], "expires": question.expires_ms,
    })
}

fn slack(event: &Event) -> Value {
    let Approval { id, question, .. } = event.approval();
    let mut lines = vec![
        match event {
            Event::Asked(_) => format!("Toolgate asks: {id}"),
            Event::Escalated(_) => format!("Toolgate asks, and nobody has answered yet: {id}"),
        },
        format!("agent {}, tool {}, action {}, risk {}", question.agent, question.tool, question.action, question.risk),
    ];
    lines.extend(question.reasons.iter().map(|reason| format!("why: {}", reason.text)));
    let said = question.picture["summary"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(said.map(|said| format!("it {said}")));
    let text = lines.iter().map(|line| escaped(&visible(line))).collect::<Vec<_>>().join("\n");
    let cut = text.floor_char_boundary(LONGEST);
    let answers = ["show", "approve", "deny"].map(|answer| format!("toolgate approvals {answer} {id}")).join("\n");
    // No markup: what an agent wrote must not look like something else. No previews: whoever makes one asks the addresses
    // an agent wrote, and what they hold has left before anybody agreed.
    let text = format!("{}\n{answers}", &text[..cut]);
    json!({ "text": text, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false })
}

/// The three characters that begin links, mentions and entities.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_others_compute() {
        let secret = Secret::new("hook".to_owned());
        // printf '%s' '1700000000.abc.{"id":"apr_1"}' | openssl dgst -sha256 -hmac hook
        let expected = "v1=bec0bf1157d46e50b1c13e089548d4c7143702335a36ea9cdbef9ef2e3b37e75";
        assert_eq!(sign(&secret, 1_700_000_000, "abc", r#"{"id":"apr_1"}"#).unwrap(), expected);
    }

    #[test]
    fn nothing_is_markup_to_slack() {
        assert_eq!(escaped("<!channel> a&b"), "&lt;!channel&gt; a&amp;b");
    }
}
