//! Where a request through a connection goes, as far as the arguments tell.
//!
//! The client reads the whole address and compares it with the connection's. This is about what a reader of the
//! arguments could be misled by: a path that climbs out of where it seems to lead, and credentials in the open.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use toolgate_contract::Fault;

use super::credential;
use crate::files::{fault::Known, text::brief};

pub(super) const BAD_ADDRESS: Known = Known::new(
    "bad_address",
    "Not exactly one of `path` and `url` is given, or it is not written as a part of a URL. Encode odd characters.",
);
pub(super) const PATH_TRAVERSAL: Known =
    Known::new("path_traversal", "The path has a `.` or `..` segment, plain or encoded. Write where it leads.");
pub(super) const CREDENTIALS: Known = Known::new(
    "credentials_in_arguments",
    "A header, a part of the query or the URL carries a credential. Leave it out: the connection has its own.",
);

/// What stays as it is in a part of a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path or the URL with the query added.
pub(super) fn address(
    path: Option<&str>,
    url: Option<&str>,
    query: &BTreeMap<String, String>,
) -> Result<String, Fault> {
    let address = match (path, url) {
        (Some(path), None) => below(path)?,
        (None, Some(url)) => whole(url)?,
        (Some(_), Some(_)) | (None, None) => {
            let message = "exactly one of `path` and `url` must be given";
            return Err(BAD_ADDRESS.failed(message, "Give `path`, which is joined to the connection's address."));
        }
    };
    check_query(&address, query)?;
    Ok(with_query(address, query))
}

/// A path, with the slash it begins with.
fn below(path: &str) -> Result<String, Fault> {
    check_spelling(path)?;
    if path.starts_with("//") || path.contains("://") && !path.starts_with('/') {
        let message = format!("`{}` is not a path", brief(path));
        return Err(BAD_ADDRESS.failed(message, "Begin the path with one `/`, or give the whole address as `url`."));
    }
    check_segments(path)?;
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

/// A URL. Its host, port and scheme are compared with the connection's by whoever sends it.
fn whole(url: &str) -> Result<String, Fault> {
    check_spelling(url)?;
    let after_scheme = url
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"));
    let Some((_, rest)) = after_scheme else {
        let message = format!("`{}` is not a whole URL", brief(url));
        return Err(BAD_ADDRESS.failed(message, "Begin it with `https://`, or give the part after the host as `path`."));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.contains('@') {
        let message = "the URL has a user name or a password in it";
        return Err(CREDENTIALS.refused(message, "Leave it out: the connection has its own credentials."));
    }
    check_segments(path)?;
    Ok(url.to_owned())
}

/// Browsers' readers of URLs drop tabs and line ends and take `\` for `/`; what comes after `#` is never sent.
fn check_spelling(text: &str) -> Result<(), Fault> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '#');
    match text.chars().find(|c| odd(*c)) {
        None if text.is_empty() => Err(BAD_ADDRESS.failed("the address is empty", "Give a `path`, such as `/`.")),
        None => Ok(()),
        Some(c) => {
            let message = format!("the address has the character `{}`", c.escape_default());
            Err(BAD_ADDRESS.failed(message, "Encode it with `%`, or leave it out."))
        }
    }
}

/// Refuses segments that lead elsewhere, also where a server would decode them once or several times more.
fn check_segments(path: &str) -> Result<(), Fault> {
    const MOST_LAYERS: usize = 4;
    let shown = path;
    let mut path = path.split('?').next().unwrap_or_default().to_owned();
    for _ in 0..MOST_LAYERS {
        if path.split(['/', '\\']).any(is_dots) {
            let message = format!("`{}` has a `.` or `..` segment", brief(shown));
            return Err(PATH_TRAVERSAL.refused(message, "Write the path it leads to."));
        }
        let Ok(decoded) = percent_decode_str(&path).decode_utf8().map(String::from) else {
            let message = format!("`{}` is not UTF-8 once it is decoded", brief(shown));
            return Err(BAD_ADDRESS.failed(message, "Encode the path as UTF-8."));
        };
        if decoded.contains(char::is_control) {
            let message = format!("`{}` has an encoded control character", brief(shown));
            return Err(BAD_ADDRESS.failed(message, "Leave it out."));
        }
        if decoded == path {
            return Ok(());
        }
        path = decoded;
    }
    let message = format!("`{}` is encoded too many times", brief(shown));
    Err(BAD_ADDRESS.failed(message, "Encode the path once."))
}

/// `.` or `..`, also with parameters, which some servers cut off before they walk the path.
fn is_dots(segment: &str) -> bool {
    matches!(segment.split(';').next(), Some("." | ".."))
}

fn check_query(address: &str, query: &BTreeMap<String, String>) -> Result<(), Fault> {
    let own = address.split_once('?').map_or("", |(_, own)| own);
    let own = own.split(['&', ';']).map(|part| part.split('=').next().unwrap_or_default());
    let own = own.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
    match own.chain(query.keys().cloned()).find(|name| credential::is_parameter(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the query has `{}`", brief(&name));
            Err(CREDENTIALS.refused(message, "Leave it out: the connection has its own credentials."))
        }
    }
}

fn with_query(mut address: String, query: &BTreeMap<String, String>) -> String {
    for (name, value) in query {
        address.push(if address.contains('?') { '&' } else { '?' });
        address.extend(utf8_percent_encode(name, QUERY));
        address.push('=');
        address.extend(utf8_percent_encode(value, QUERY));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path alone, with the code of what is refused.
    fn check(path: &str, expected: Result<&str, &str>) {
        let found = address(Some(path), None, &BTreeMap::new()).map_err(|fault| fault.code.into_owned());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
    }

    fn check_url(url: &str, expected: Result<&str, &str>) {
        let found = address(None, Some(url), &BTreeMap::new()).map_err(|fault| fault.code.into_owned());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{url}");
    }

    #[test]
    fn a_path_begins_with_a_slash_and_is_otherwise_as_it_was() {
        check("/v1/items", Ok("/v1/items"));
        check("v1/items", Ok("/v1/items"));
        check("/", Ok("/"));
        check("/projects/group%2Fname/a..b/...", Ok("/projects/group%2Fname/a..b/..."));
        check("/search?q=a/../b", Ok("/search?q=a/../b"));
        check("/at/2026-01-01T10:00:00Z", Ok("/at/2026-01-01T10:00:00Z"));
        check("/go?to=https://example.com/", Ok("/go?to=https://example.com/"));
        check("/100%", Ok("/100%"));
    }

    #[test]
    fn a_path_that_climbs_is_refused_however_it_is_written() {
        for path in [
            "..",
            "/.",
            "/a/../b",
            "/a/./b",
            "/a/..",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/%2e/b",
            "/a/..%2fb",
            "/a%2f..%2fb",
            "/a/..%5cb",
            "/a/%252e%252e/b",
            "/a/%25252e%25252e%25252fb",
            "/a/..;x=1/b",
            "/a/%2e%2e%3bx/b",
            "/a/..?q=1",
        ] {
            check(path, Err("path_traversal"));
        }
    }

    #[test]
    fn a_path_that_two_readers_would_read_differently_is_refused() {
        for path in [
            "",
            "//evil.example/x",
            "https://evil.example/x",
            "/a\\..\\b",
            "/a/.\t./b",
            "/a\r\nHost: evil",
            "/a b",
            "/a#b",
            "/a%00b",
            "/a%0d%0ab",
            "/a/%c0%ae%c0%ae/b",
            "/a%25252525252525b",
        ] {
            check(path, Err("bad_address"));
        }
    }

    #[test]
    fn a_url_is_whole_and_its_path_does_not_climb_either() {
        check_url("https://api.example.com/v1?x=1", Ok("https://api.example.com/v1?x=1"));
        check_url("HTTP://api.example.com", Ok("HTTP://api.example.com"));
        check_url("https://api.example.com?a=../..", Ok("https://api.example.com?a=../.."));
        check_url("https://api.example.com/a/%2e%2e/b", Err("path_traversal"));
        check_url("https://user:pw@api.example.com/", Err("credentials_in_arguments"));
        for url in ["api.example.com/v1", "/v1", "ftp://x/", "https:/x", "https:\\\\x", "file:///etc/passwd", ""] {
            check_url(url, Err("bad_address"));
        }
    }

    #[test]
    fn a_query_is_added_encoded_and_carries_no_credential() {
        let query = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found = address(Some("/s"), None, &query(&[("a&b", "1 2"), ("q", "ä/?#=+")]));
        assert_eq!(found, Ok("/s?a%26b=1%202&q=%C3%A4%2F%3F%23%3D%2B".to_owned()));
        let found = address(None, Some("https://h/s?x=1"), &query(&[("page", "2")]));
        assert_eq!(found, Ok("https://h/s?x=1&page=2".to_owned()));
        let code = |path, pairs| address(Some(path), None, &query(pairs)).map_err(|fault| fault.code.into_owned());
        for (path, pairs) in [
            ("/s", &[("Api_Key", "k")][..]),
            ("/s?a=1&access_token=x", &[]),
            ("/s?access%5Ftoken=x", &[]),
            ("/s?a=1;api-key=x", &[]),
        ] {
            assert_eq!(code(path, pairs), Err("credentials_in_arguments".into()), "{path}");
        }
    }

    #[test]
    fn both_and_neither_are_refused() {
        for (path, url) in [(None, None), (Some("/a"), Some("https://h/a"))] {
            let code = address(path, url, &BTreeMap::new()).map_err(|fault| fault.code.into_owned());
            assert_eq!(code, Err("bad_address".into()));
        }
    }
}
