//! What a server tells by itself. One at an address does so on a stream that is kept open beside the requests, for as long
//! as somebody listens; one that has none is asked now and then.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    sync::{broadcast, watch},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_guard::json::Limits;

use super::{events::Events, handshake::Era, peer::MOST_LINE, reading, web::Web};

/// A notice or a question is short: what is longer is not listened to.
const LIMITS: Limits = Limits { bytes: 64 * 1024, depth: 32 };
/// How long is waited before a stream that ended is opened again: twice as long every time, up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A stream that lasted so long was one.
const WELL: Duration = Duration::from_secs(30);
/// Addresses that wait for somebody who does not listen.
const UNHEARD: usize = 64;

/// What was heard.
#[derive(Debug)]
pub(crate) struct Ears {
    /// How often the server has said that its lists changed.
    pub(crate) changes: watch::Sender<u64>,
    /// Addresses whose content changed.
    pub(crate) news: broadcast::Sender<String>,
}

impl Default for Ears {
    fn default() -> Self {
        Self { changes: watch::Sender::new(0), news: broadcast::Sender::new(UNHEARD) }
    }
}

impl Ears {
    /// Hears a notice that is about no request.
    pub(crate) fn hear(&self, method: &str, params: &Value) {
        match method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => self.changes.send_modify(|count| *count += 1),
            "notifications/resources/updated" => {
                // Nobody may be there who wants to know.
                let _ = params["uri"].as_str().map(|uri| self.news.send(uri.to_owned()));
            }
            _ => {}
        }
    }
}

/// Somebody listens; dropped, nobody does.
pub(crate) struct Listening {
    _until: DropGuard,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}

/// Listens to a server, for what a subscription of the stateless era names; one of the old era tells everything.
pub(crate) fn listen(web: &Arc<Web>, era: Era, wanted: Value) -> Listening {
    let stop = CancellationToken::new();
    let (web, guard) = (Arc::downgrade(web), stop.clone().drop_guard());
    tokio::spawn(async move { stop.run_until_cancelled(keep(web, era, wanted)).await });
    Listening { _until: guard }
}

/// Why a stream is not read any more.
enum End {
    /// The server has none, in this conversation.
    None,
    /// It ended, or broke.
    Over,
    /// There is another conversation, with a stream of its own.
    Elsewhere,
}

async fn keep(web: Weak<Web>, era: Era, wanted: Value) {
    let mut pause = SHORTEST;
    let Some(mut begun) = web.upgrade().map(|web| web.begun()) else { return };
    loop {
        let Some(held) = web.upgrade() else { return };
        let since = Instant::now();
        let end = tokio::select! {
            end = read(&held, era, &wanted) => end,
            Ok(()) = begun.changed() => End::Elsewhere,
        };
        drop(held);
        match end {
            End::None if begun.changed().await.is_err() => return,
            End::None | End::Elsewhere => {
                pause = SHORTEST;
                continue;
            }
            End::Over if since.elapsed() >= WELL => pause = SHORTEST,
            End::Over => {}
        }
        sleep(pause).await;
        pause = LONGEST.min(pause * 2);
    }
}

async fn read(web: &Web, era: Era, wanted: &Value) -> End {
    let mut stream = match web.stream(era, wanted).await {
        Ok(stream) => stream,
        Err(fault) => {
            tracing::debug!(%fault, "a server cannot be listened to");
            return End::Over;
        }
    };
    let is_stream = stream.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    if stream.status() != 200 || !is_stream {
        // A server that is only out of breath has a stream.
        return if stream.status() >= 500 { End::Over } else { End::None };
    }
    let mut events = Events::default();
    // Whatever is wrong with the stream, it is opened again.
    while let Ok(Some(piece)) = stream.piece().await {
        for data in events.take(&piece) {
            match reading::read(&data, &LIMITS) {
                Ok(message) if message.get("id").is_some() && message["method"].is_string() => {
                    web.take_stray(era, &message).await;
                }
                Ok(message) => web.ears().hear(message["method"].as_str().unwrap_or_default(), &message["params"]),
                Err(_) => {}
            }
        }
        if events.held() > MOST_LINE {
            break;
        }
    }
    End::Over
}
