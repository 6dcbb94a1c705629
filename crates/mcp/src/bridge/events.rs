//! A stream of events: the messages in it, as they come.

/// Reads events from pieces of a body, wherever those are cut.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    /// The last line ended in a carriage return, so a line feed ends nothing.
    returned: bool,
    data: Vec<u8>,
    has_data: bool,
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

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let is_event = std::mem::take(&mut self.has_data);
            let data = std::mem::take(&mut self.data);
            return is_event.then_some(data);
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
    fn events_are_read_however_their_lines_end() {
        check("data: {}\n\n", &["{}"]);
        check("event: message\r\nid: 7\r\ndata: a\r\ndata:b\r\n\r\ndata: c\r\n\r\n", &["a\nb", "c"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check(": a comment\n\nretry: 3000\n\nid\n\ndata\n\ndata:\n\n", &[""]);
        check("data: cut off", &[]);
        check("", &[]);
    }
}
