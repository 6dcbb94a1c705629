//! The HTML page of DuckDuckGo.

use percent_encoding::percent_decode_str;
use toolgate_contract::{Fault, WebResponse};
use toolgate_guard::html::{Document, Part, decode};

use super::{Found, LONGEST_SNIPPET, LONGEST_TITLE, check_status, refused, unreadable, web_url};

/// More results than a page has are not looked for.
const MOST: usize = 100;

pub(super) fn results(response: &WebResponse) -> Result<Vec<Found>, Fault> {
    let (html, _) = decode(&response.body, response.header("content-type"));
    let page = Document::read(&html);
    let entries: Vec<_> = page.with_class("result").take(MOST).filter(|entry| !is_other(*entry)).collect();
    let found: Vec<_> = entries.iter().filter_map(|entry| read(*entry)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    // The results come first: a page with some is an answer, whatever else is on it.
    if is_challenge(&page) || response.status == 202 {
        return Err(refused(response, "it wants to know whether a person is asking"));
    }
    check_status(response)?;
    if entries.is_empty() && page.with_class("no-results").next().is_some() {
        return Ok(Vec::new());
    }
    Err(unreadable("there are neither results nor the words that there are none"))
}

/// An advertisement, or the entry that says that there is nothing.
fn is_other(entry: Part<'_>) -> bool {
    entry.has_class("result--ad") || entry.has_class("result--no-result")
}

fn read(entry: Part<'_>) -> Option<Found> {
    let title = entry.with_class("result__a").next()?;
    let url = unwrap(title.attribute("href")?)?;
    let snippet = entry.with_class("result__snippet").next();
    Some(Found {
        title: title.text(LONGEST_TITLE),
        url,
        snippet: snippet.map(|snippet| snippet.text(LONGEST_SNIPPET)).unwrap_or_default(),
    })
}

/// Where a result leads. The page counts who follows which: its links lead to itself, with the address inside.
fn unwrap(href: &str) -> Option<String> {
    let href = href.trim();
    let whole = if href.starts_with("//") { format!("https:{href}") } else { href.to_owned() };
    let after_scheme = whole.strip_prefix("https://").or_else(|| whole.strip_prefix("http://"));
    let (host, rest) = match after_scheme {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("duckduckgo.com", whole.strip_prefix('/')?),
    };
    let is_own = host == "duckduckgo.com" || host.ends_with(".duckduckgo.com");
    if !is_own {
        return web_url(&whole);
    }
    let query = rest.strip_prefix("l/?")?;
    let wrapped = query.split('&').find_map(|part| part.strip_prefix("uddg="))?;
    web_url(&percent_decode_str(wrapped).decode_utf8().ok()?)
}

fn is_challenge(page: &Document) -> bool {
    let marks = ["anomaly-modal", "anomaly-modal__title", "anomaly-modal__mask", "challenge-form"];
    let has_mark = |name: &str| page.with_class(name).next().is_some() || page.with_id(name).next().is_some();
    let leads = |form: Part<'_>| form.attribute("action").is_some_and(|action| action.contains("anomaly.js"));
    marks.into_iter().any(has_mark) || page.with_name("form").any(leads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_stage::answer;

    fn check(html: &str, expected: &[(&str, &str, &str)]) {
        let found = results(&answer(200, &[("content-type", "text/html; charset=UTF-8")], html).unwrap()).unwrap();
        let found: Vec<_> =
            found.iter().map(|found| (found.title.as_str(), found.url.as_str(), found.snippet.as_str())).collect();
        assert_eq!(found, expected, "{html}");
    }

    fn check_link(href: &str, expected: Option<&str>) {
        assert_eq!(unwrap(href).as_deref(), expected, "{href}");
    }

    #[test]
    fn entries_are_read_and_advertisements_are_not() {
        let html = "<div id='links' class='results'>\
            <div class='result results_links result--ad'><h2><a class='result__a' href='https://ad.example/'>ad</a></h2></div>\
            <div class='result results_links results_links_deep web-result'>\
              <h2 class='result__title'><a rel=nofollow class='result__a' \
                href='//duckduckgo.com/l/?uddg=https%3A%2F%2Fdocs.example%2Fa%3Fb%3Dc%26d&amp;rut=0f'>The <b>a</b> &amp; b</a></h2>\
              <a class='result__url' href='x'>docs.example</a>\
              <a class='result__snippet' href='x'>Some  <b>words</b>\nof it.</a></div>\
            <div class='result web-result'><a class='result__a' href='https://plain.example/x'>Plain</a></div>\
            <div class='result web-result'><a class='result__a' href='https://duckduckgo.com/y.js?ad_domain=x'>y</a></div>\
            <div class='result web-result'>no link</div></div>";
        check(
            html,
            &[
                ("The a & b", "https://docs.example/a?b=c&d", "Some words of it."),
                ("Plain", "https://plain.example/x", ""),
            ],
        );
    }

    #[test]
    fn results_count_even_where_a_challenge_is_shown() {
        let html =
            "<div class=anomaly-modal></div><div class=result><a class=result__a href=https://a.example/>a</a></div>";
        check(html, &[("a", "https://a.example/", "")]);
    }

    #[test]
    fn a_link_is_taken_out_of_its_wrapper() {
        check_link("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fb&rut=c", Some("https://a.example/b"));
        check_link("https://duckduckgo.com/l/?kh=-1&uddg=http%3A%2F%2Fa.example", Some("http://a.example/"));
        check_link("https://html.duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example", Some("https://a.example/"));
        check_link("/l/?uddg=https%3A%2F%2Fa.example%2F%25C3", Some("https://a.example/%C3"));
        check_link(
            "https://a.example/l/?uddg=https%3A%2F%2Fb.example",
            Some("https://a.example/l/?uddg=https%3A%2F%2Fb.example"),
        );
        check_link("//a.example/b", Some("https://a.example/b"));
        check_link("https://notduckduckgo.com/x", Some("https://notduckduckgo.com/x"));
    }

    #[test]
    fn what_does_not_lead_to_the_web_is_no_result() {
        check_link("//duckduckgo.com/l/?uddg=javascript%3Aalert(1)", None);
        check_link("//duckduckgo.com/l/?uddg=file%3A%2F%2F%2Fetc%2Fpasswd", None);
        check_link("//duckduckgo.com/l/?uddg=https%3A%2F%2Fu%3Ap%40a.example", None);
        check_link("//duckduckgo.com/l/?uddg=%FF", None);
        check_link("//duckduckgo.com/l/?rut=x", None);
        check_link("//duckduckgo.com/y.js?u3=https%3A%2F%2Fa.example", None);
        check_link("https://duckduckgo.com/", None);
        check_link("javascript:x", None);
        check_link("", None);
    }
}
