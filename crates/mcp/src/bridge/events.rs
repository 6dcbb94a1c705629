//! A stream of events: the messages in it, as they come, and where it is taken up again when it ends too early.

use std::time::Duration;

/// How long is waited before a stream is taken up again, unless it says so.
const PAUSE: Duration = Duration::from_secs(1);
/// Letters of the name of an event.
const LONGEST_ID: usize = 1_024;

/// Reads events from pieces of a body, wherever those are cut.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    /// The last line ended in a carriage return, so a line feed ends nothing.
    returned: bool,
    data: Vec<u8>,
    has_data: bool,
    /// The name of the last event that had one.
    last_id: Option<String>,
    retry: Option<u64>,
}

impl Events {
    /// Takes one more piece, and gives the data of every event that is whole now.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for byte in piece {
            match byte {
                b'\n' if self.returned => self.returned = false,
                b'\n' | b'\r' => {
                    self.returned = *byte == b'\r';
                    whole.extend(self.end_line());
                }
                byte => {
                    self.returned = false;
                    self.line.push(*byte);
                }
            }
        }
        whole
    }

    /// Bytes that wait for the end of their event.
    pub(crate) fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// What the stream is taken up after, if its events have names.
    pub(crate) fn last_id(&self) -> Option<String> {
        self.last_id.clone()
    }

    /// How long is waited before it is taken up again.
    pub(crate) fn pause(&self) -> Duration {
        self.retry.map_or(PAUSE, Duration::from_millis)
    }

    /// For the same stream, taken up again: half an event is none.
    pub(crate) fn again(self) -> Self {
        Self { last_id: self.last_id, retry: self.retry, ..Self::default() }
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let is_event = std::mem::take(&mut self.has_data);
            let data = std::mem::take(&mut self.data);
            return is_event.then_some(data);
        }
        let field = |name: &[u8]| {
            let value = line.strip_prefix(name)?.strip_prefix(b":")?;
            std::str::from_utf8(value.strip_prefix(b" ").unwrap_or(value)).ok()
        };
        let is_plain = |id: &&str| id.len() <= LONGEST_ID && id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if let Some(id) = field(b"id").filter(is_plain) {
            self.last_id = Some(id.to_owned()).filter(|id| !id.is_empty());
        }
        if let Some(milliseconds) = field(b"retry").and_then(|text| text.parse().ok()) {
            self.retry = Some(milliseconds);
        }
        if let Some(rest) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(rest.strip_prefix(b" ").unwrap_or(rest));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        // Cut anywhere, it is the same stream.
        for size in [1, 2, 3, 7, stream.len().max(1)] {
            let mut events = Events::default();
            let read: Vec<String> = stream
                .as_bytes()
                .chunks(size)
                .flat_map(|piece| events.take(piece))
                .map(|data| String::from_utf8(data).unwrap())
                .collect();
            assert_eq!(read, expected, "{stream:?} by {size}");
        }
    }

    #[test]
    fn a_stream_says_where_it_is_taken_up_again_and_when() {
        let after = |stream: &str| {
            let mut events = Events::default();
            events.take(stream.as_bytes());
            let events = events.again();
            (events.last_id(), events.pause().as_millis(), events.held())
        };
        assert_eq!(after("data: a\n\n"), (None, 1_000, 0));
        assert_eq!(after("id: 7\nretry: 20\ndata: a\n\nid: 8\ndata: cut"), (Some("8".to_owned()), 20, 0));
        assert_eq!(after("id: 7\n\nid:\nretry: soon\n\n"), (None, 1_000, 0));
        assert_eq!(after("id: a\u{1b}b\n\n"), (None, 1_000, 0));
    }

    #[test]
    fn events_are_read_however_their_lines_end() {
        check("data: {}\n\n", &["{}"]);
        check("event: message\r\nid: 7\r\ndata: a\r\ndata:b\r\n\r\ndata: c\r\n\r\n", &["a\nb", "c"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check(": a comment\n\nretry: 3000\n\nid\n\ndata\n\ndata:\n\n", &[""]);
        check("data: cut off", &[]);
        check("", &[]);
    }
}
