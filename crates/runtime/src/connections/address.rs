//! A path below a connection's address, which it cannot leave.
//!
//! Servers, and the proxies in front of them, differ in how often they decode a path and in what they take for `..`. So
//! whatever any of them could take for a step upwards is refused, however it is written.

use percent_encoding::percent_decode_str;
use toolgate_contract::Fault;
use toolgate_guard::url::{MAX_URL, WebUrl};

/// How often a path may be encoded.
const MOST_LAYERS: usize = 4;

/// Where `target` leads from `base`: a path is put behind it, a whole URL must begin with it.
pub(super) fn join(connection: &str, base: &WebUrl, target: &str) -> Result<WebUrl, Fault> {
    check_spelling(target)?;
    let is_whole = ["http://", "https://"]
        .iter()
        .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let text = match is_whole {
        true => target.to_owned(),
        false => format!("{}{}", base.as_str().trim_end_matches('/'), rooted(target)?),
    };
    let written = text.split_once("://").map_or("", |(_, rest)| rest);
    check_segments(written.split_once('/').map_or("", |(_, path)| path))?;
    let url = WebUrl::read(&text).map_err(|why| {
        let message = format!("the address of the request cannot be used: {why}");
        Fault::refused("url_refused", message, "Give a path below the connection's address.")
    })?;
    let root = base.path().trim_end_matches('/');
    let is_below = url.path().strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if !url.same_origin(base) || !is_below {
        return Err(Fault::refused(
            "connection_mismatch",
            format!("the request would leave connection `{connection}`, which is for `{base}` and what is below it"),
            "Give a path below that address, or use the connection of the other one.",
        ));
    }
    Ok(url)
}

/// A path or a query, as it is put behind an address.
fn rooted(path: &str) -> Result<String, Fault> {
    if path.starts_with("//") {
        let message = "the path begins with two slashes, which some servers take for another host";
        return Err(Fault::refused("url_refused", message, "Begin the path with one `/`."));
    }
    Ok(match path.starts_with(['/', '?']) || path.is_empty() {
        true => path.to_owned(),
        false => format!("/{path}"),
    })
}

/// What readers of URLs drop, turn round or keep to themselves.
fn check_spelling(target: &str) -> Result<(), Fault> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '#');
    if target.len() <= MAX_URL && !target.contains(odd) {
        return Ok(());
    }
    let message = "the address of the request is too long, or has a space, a control character, `\\` or `#` in it";
    Err(Fault::refused("url_refused", message, "Encode such characters with `%`, or leave them out."))
}

fn check_segments(path: &str) -> Result<(), Fault> {
    let refused = |why: &str| {
        let message = format!("the path of the request {why}");
        Err(Fault::refused("path_traversal", message, "Write the path it leads to, encoded once."))
    };
    let mut path = path.split('?').next().unwrap_or_default().to_owned();
    for _ in 0..MOST_LAYERS {
        if path.split('/').any(climbs) {
            return refused("has a segment that is nothing but dots");
        }
        let Ok(decoded) = percent_decode_str(&path).decode_utf8() else {
            return refused("is not UTF-8 once it is decoded");
        };
        if decoded.contains(|c: char| c.is_control() || c == '\\') {
            return refused("hides a control character or a `\\`");
        }
        if decoded == path {
            return Ok(());
        }
        path = decoded.into_owned();
    }
    refused("is encoded too many times")
}

/// Nothing but dots, or what some servers fold into dots, also in front of parameters, which others cut off.
fn climbs(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| matches!(c, '.' | '\u{2024}'..='\u{2026}' | '\u{fe52}' | '\u{ff0e}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, target: &str, expected: Result<&str, &str>) {
        let url = join("forge", &WebUrl::read(base).unwrap(), target);
        let url = url.as_ref().map(WebUrl::as_str).map_err(|fault| &*fault.code);
        assert_eq!(url, expected, "{target}");
    }

    const BASE: &str = "https://git.example.com/api/v1";

    #[test]
    fn a_path_is_put_behind_the_address() {
        let below = |target: &str, rest: &str| check(BASE, target, Ok(&format!("{BASE}{rest}")));
        below("/user", "/user");
        below("user", "/user");
        below("", "");
        below("/", "/");
        below("?page=2", "?page=2");
        below("/repos/a%2Fb/issues?q=../x&r=%2e%2e", "/repos/a%2Fb/issues?q=../x&r=%2e%2e");
        below("/a..b/.git/...x/c.", "/a..b/.git/...x/c.");
        below("/x;v=1", "/x;v=1");
        below("/ü", "/%C3%BC");
        below("/http://other.example.com/", "/http://other.example.com/");
        check("https://git.example.com", "/user", Ok("https://git.example.com/user"));
        check("https://git.example.com:8443/", "user", Ok("https://git.example.com:8443/user"));
    }

    #[test]
    fn a_whole_url_must_be_below_the_address() {
        check(BASE, "https://git.example.com/api/v1/user", Ok("https://git.example.com/api/v1/user"));
        check(BASE, "HTTPS://GIT.example.com:443/api/v1", Ok("https://git.example.com/api/v1"));
        for other in [
            "http://git.example.com/api/v1/user",
            "https://git.example.com:8443/api/v1/user",
            "https://evil.example.com/api/v1/user",
            "https://git.example.com.evil.com/api/v1/user",
            "https://xgit.example.com/api/v1/user",
            "https://git.example.com/api/v10",
            "https://git.example.com/api/v1x/user",
            "https://git.example.com/API/v1/user",
            "https://git.example.com/",
            "https://git.example.com",
            "https://git.example.com/api",
            "https://git.example.com?/api/v1/",
        ] {
            check(BASE, other, Err("connection_mismatch"));
        }
        check(BASE, "https://git.example.com@evil.example.com/api/v1/", Err("url_refused"));
        check(BASE, "https://evil@git.example.com/api/v1/", Err("url_refused"));
        check(BASE, "https:///git.example.com/api/v1/", Err("url_refused"));
    }

    #[test]
    fn nothing_leads_upwards_however_it_is_written() {
        for path in [
            "/..",
            "/.",
            "..",
            "/../admin",
            "/a/../../admin",
            "/a/./b",
            "/%2e%2e/admin",
            "/.%2E/admin",
            "/%2e/admin",
            "/%252e%252e/admin",
            "/%25252e%25252e/admin",
            "/a%2F..%2F..%2Fadmin",
            "/a%2f%2e%2e%2fadmin",
            "/a%252F..%252Fadmin",
            "/..;/admin",
            "/..%3B/admin",
            "/%2e%2e;x=y/admin",
            "/%5c..%5cadmin",
            "/a%5Cb",
            "/%c0%ae%c0%ae/admin",
            "/\u{ff0e}\u{ff0e}/admin",
            "/%EF%BC%8E%EF%BC%8E/admin",
            "/\u{2025}/admin",
            "/%00/admin",
            "/x%0d%0aX-Other:1",
            "/%2525252525252e/admin",
            "https://git.example.com/api/v1/../../admin",
            "https://git.example.com/api/v1/%2e%2e/admin",
            "https://git.example.com/%2e%2e/api/v1/admin",
        ] {
            check(BASE, path, Err("path_traversal"));
        }
    }

    #[test]
    fn what_readers_of_urls_read_differently_is_refused() {
        let long = format!("/{}", "a".repeat(MAX_URL));
        for path in [
            "//evil.example.com/",
            "/\\evil.example.com/",
            "\\\\evil",
            "/a b",
            "/a\tb",
            "/a\r\nb",
            "/a#b",
            "/\u{a0}",
            &long,
        ] {
            check(BASE, path, Err("url_refused"));
        }
        // Without a scheme of the web it is a path, whatever it looks like.
        check(BASE, "ftp://evil.example.com/", Ok("https://git.example.com/api/v1/ftp://evil.example.com/"));
        check(BASE, "javascript:alert(1)", Ok("https://git.example.com/api/v1/javascript:alert(1)"));
    }
}
