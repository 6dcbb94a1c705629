//! As much of HTTP/1.1 as the servers of these tests need: one request, one answer, then the connection ends.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use serde_json::{Value, json};

/// The longest head and the longest body that are read.
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_BODY: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// As it was written, still encoded.
    pub(crate) path: String,
    pub(crate) query: String,
    headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The next request; none where the visitor left without a word.
    pub(crate) fn read(stream: &mut (impl Read + Write)) -> io::Result<Option<Self>> {
        let Some(head) = read_head(stream)? else { return Ok(None) };
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let headers: BTreeMap<_, _> =
            pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Vec::new(),
        };
        if request.header("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.flush()?;
        }
        request.body = request.read_body(stream)?;
        Ok(Some(request))
    }

    /// By name in small letters.
    pub(crate) fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Path and query.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// A part of the query. Only for values that need no decoding.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|part| part.split_once('='))
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    /// The body as JSON; null where it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn read_body(&self, stream: &mut impl Read) -> io::Result<Vec<u8>> {
        if self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return read_chunks(stream);
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        read_exactly(stream, length)
    }
}

/// Everything up to the empty line.
fn read_head(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 || head.len() == LONGEST_HEAD {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).ok())
}

fn read_chunks(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        body.extend(read_exactly(stream, size)?);
        if body.len() > LONGEST_BODY {
            return Err(io::Error::other("the body is too long"));
        }
        read_line(stream)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") && line.len() < LONGEST_HEAD {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn read_exactly(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > LONGEST_BODY {
        return Err(io::Error::other("the body is too long"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".into(), "application/json;charset=utf-8".into())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    /// What went wrong, the way Forgejo says it.
    pub(crate) fn says(status: u16, message: &str) -> Self {
        Self::json(status, &json!({ "message": message, "url": "https://forge.test/api/swagger" }))
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn write(&self, stream: &mut impl Write, head_only: bool) -> io::Result<()> {
        let mut head =
            format!("HTTP/1.1 {} -\r\nContent-Length: {}\r\nConnection: close\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if !head_only {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}
