//! What a container says about itself on its standard error: kept within bounds while it lives, shipped when it goes.
//!
//! Its worker writes lines of JSON there, each about something that happened and none about what a job said. They are not
//! trusted for all that: whatever comes is counted, and leaves the runtime only where the operator has asked for it.
//! Nothing here holds up a job, and a container that keeps its log open is not waited for longer than the bound.

use std::{
    fmt::Write as _,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use crate::ids::Ids;

/// How logs of containers are shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogShipping {
    /// How long is waited for the end of a log before its container is removed.
    pub collection_timeout: Duration,
    /// Bytes kept of one log. What comes after them is only counted.
    pub max_bytes: usize,
    /// Every line is shipped, and not only how many there were.
    pub raw: bool,
}

impl Default for LogShipping {
    fn default() -> Self {
        Self { collection_timeout: Duration::from_secs(2), max_bytes: 1 << 20, raw: false }
    }
}

/// The log of one container.
#[derive(Debug)]
pub(super) struct Log {
    shipping: LogShipping,
    begun: Instant,
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    dropped: u64,
    has_ended: bool,
    is_shipped: bool,
}

/// Whoever hears the container. The log has ended when it is dropped.
#[derive(Debug)]
pub(super) struct Ear(Arc<Log>);

/// What the log is about.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// `room` or `sidecar`.
    pub(super) role: &'static str,
    pub(super) container: &'a str,
    pub(super) sidecar: Option<&'a str>,
    pub(super) ids: &'a Ids,
    pub(super) jobs: u64,
}

impl Log {
    /// An empty log, and who fills it.
    pub(super) fn new(shipping: LogShipping) -> (Arc<Self>, Ear) {
        let log = Arc::new(Self { shipping, begun: Instant::now(), kept: Mutex::default(), changed: Condvar::new() });
        (log.clone(), Ear(log))
    }

    /// How long is waited for its end.
    pub(super) fn patience(&self) -> Duration {
        self.shipping.collection_timeout
    }

    /// Waits for its end, until then.
    pub(super) fn await_end(&self, until: Instant) {
        let patience = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.kept(), patience, |kept| !kept.has_ended);
        if !waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
            tracing::debug!("a container that is closed keeps its log open; what it has said so far is shipped");
        }
    }

    /// Tells what it holds, once.
    pub(super) fn ship(&self, about: &About<'_>) {
        let mut kept = self.kept();
        if std::mem::replace(&mut kept.is_shipped, true) {
            return;
        }
        let (bytes, dropped) = (std::mem::take(&mut kept.bytes), kept.dropped);
        drop(kept);
        let Read { lines, malformed } = read(&bytes);
        let About { role, container, sidecar, ids, jobs } = about;
        let Ids { agent, session, task, request } = ids;
        let (agent, task, request) = (agent.as_deref(), task.as_deref(), request.as_deref());
        if self.shipping.raw {
            for line in &lines {
                tracing::info!(
                    target: "toolgate::containers",
                    role, container_id = container, sidecar_id = sidecar, agent, session, task, request,
                    line = %in_ascii(line),
                    "a container said",
                );
            }
        }
        tracing::info!(
            target: "toolgate::containers",
            role, container_id = container, sidecar_id = sidecar, agent, session, task, request,
            lines = lines.len(), malformed, bytes = bytes.len(), dropped_bytes = dropped, jobs,
            lived_ms = self.begun.elapsed().as_millis() as u64,
            "a container is closed",
        );
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ear {
    /// Keeps what still fits, and counts the rest.
    pub(super) fn hear(&self, said: &[u8]) {
        let mut kept = self.0.kept();
        let fits = said.len().min(self.0.shipping.max_bytes.saturating_sub(kept.bytes.len()));
        // Once it is shipped nobody reads what still comes.
        let fits = if kept.is_shipped { 0 } else { fits };
        kept.bytes.extend_from_slice(&said[..fits]);
        kept.dropped += (said.len() - fits) as u64;
    }

    /// How long the container is listened to once its stream is shut.
    pub(super) fn patience(&self) -> Duration {
        self.0.patience()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.kept().has_ended = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug, PartialEq)]
struct Read {
    lines: Vec<Map<String, Value>>,
    malformed: usize,
}

/// Every line that is an object, and how many are not. An empty line is none.
fn read(bytes: &[u8]) -> Read {
    let mut found = Read { lines: Vec::new(), malformed: 0 };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        match serde_json::from_slice(line) {
            Ok(line) => found.lines.push(line),
            Err(_) => found.malformed += 1,
        }
    }
    found
}

/// A line in signs that no terminal and no reader of logs takes for anything else.
fn in_ascii(line: &Map<String, Value>) -> String {
    let mut text = String::new();
    for sign in serde_json::to_string(line).unwrap_or_default().chars() {
        match sign.is_ascii() && !sign.is_ascii_control() {
            true => text.push(sign),
            false => sign.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(text, "\\u{unit:04x}");
            }),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(max_bytes: usize) -> (Arc<Log>, Ear) {
        Log::new(LogShipping { collection_timeout: Duration::from_secs(60), max_bytes, raw: false })
    }

    /// The lines that are read of these bytes, and how many are not.
    fn check(bytes: &[u8], lines: &[Value], malformed: usize) {
        let lines = lines.iter().map(|line| line.as_object().unwrap().clone()).collect();
        assert_eq!(read(bytes), Read { lines, malformed }, "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn lines_are_objects_and_everything_else_is_counted() {
        let (a, b) = (json!({ "event": "a" }), json!({ "job": 3, "code": null }));
        check(b"", &[], 0);
        check(b"\n \n\r\n", &[], 0);
        check(b"{\"event\":\"a\"}\n{\"job\":3,\"code\":null}\n", &[a.clone(), b.clone()], 0);
        check(b"{\"event\":\"a\"}\r\nno\n{\"job\":3,\"code\":null}", &[a.clone(), b], 1);
        check(b"{\"event\":\"a\"}\n{\"event\":\"a", std::slice::from_ref(&a), 1);
        check(b"[1]\n1\nnull\n\"text\"\n{} {}\n\xff\xfe\n\0\n", &[], 7);
        check(&[b"{\"a\":".repeat(10_000), b"\n{\"event\":\"a\"}".to_vec()].concat(), &[a], 1);
    }

    #[test]
    fn a_flood_is_counted_and_not_kept() {
        let (log, ear) = log(10);
        ear.hear(b"{\"a\":1}\n");
        ear.hear(&[b'x'; 100_000]);
        ear.hear(b"y");
        let kept = log.kept();
        assert_eq!((kept.bytes.as_slice(), kept.dropped), (&b"{\"a\":1}\nxx"[..], 99_999));
        check(&kept.bytes, &[json!({ "a": 1 })], 1);
    }

    #[test]
    fn whoever_waits_is_told_of_the_end_and_does_not_wait_for_ever() {
        let (log, ear) = log(10);
        assert_eq!([log.patience(), ear.patience()], [Duration::from_secs(60); 2], "no longer than the settings say");
        log.await_end(Instant::now());
        assert!(!log.kept().has_ended);
        let waits = std::thread::spawn({
            let log = log.clone();
            move || log.await_end(Instant::now() + Duration::from_secs(60))
        });
        drop(ear);
        waits.join().unwrap();
        assert!(log.kept().has_ended);
    }

    #[test]
    fn what_was_shipped_is_gone() {
        let (log, ear) = log(100);
        ear.hear(b"{}\n");
        let ids = Ids::default();
        let about = About { role: "room", container: "c", sidecar: None, ids: &ids, jobs: 0 };
        log.ship(&about);
        ear.hear(b"{}\n");
        let kept = log.kept();
        assert_eq!((kept.bytes.len(), kept.dropped, kept.is_shipped), (0, 3, true));
    }

    #[test]
    fn no_sign_of_a_line_means_anything_to_a_terminal() {
        let line = json!({ "a\u{1b}[2J": "\u{9b}31m\u{202e}\u{1f600}\n" });
        let text = in_ascii(line.as_object().unwrap());
        assert_eq!(text, r#"{"a\u001b[2J":"\u009b31m\u202e\ud83d\ude00\n"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), line);
    }
}
