//! Where a page leads.

use std::collections::BTreeMap;

use url::{ParseError, Url};

use super::{
    Document,
    render::{cut_line, line},
    tree::{Element, NodeId},
};

/// So many links are given at most.
const MOST_LINKS: usize = 2_000;

/// Longer addresses lead nowhere.
pub(super) const LONGEST_URL: usize = 4 * 1024;

/// A longer text of a link is cut, in bytes.
const LONGEST_TEXT: usize = 300;

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What it says: its text, or what stands for it.
    pub text: String,
    /// Where it leads: `http`, `https`, `mailto` or `tel`. Relative only when nobody said where the page is from.
    pub url: String,
}

/// What the addresses of a page are relative to.
#[derive(Debug)]
pub(super) struct Base {
    /// Where the page is from.
    page: Option<Url>,
    /// What it says its addresses are relative to, or where it is from.
    base: Option<Url>,
}

impl Base {
    /// Nothing is known.
    pub(super) fn none() -> Self {
        Self { page: None, base: None }
    }

    /// Where the page is from, and its own word on it in a `base` element.
    pub(super) fn of(document: &Document, address: Option<&str>) -> Self {
        let page = address.and_then(|address| Url::parse(address).ok());
        let page = page.filter(|url| url.as_str().len() <= LONGEST_URL && is_web(url));
        let elements = document.tree.elements(NodeId::DOCUMENT);
        let mut said =
            elements.filter(|(_, element)| element.name() == "base").filter_map(|(_, e)| e.attribute("href"));
        let own = said.next().and_then(|href| match &page {
            Some(page) => page.join(href.trim()).ok(),
            None => Url::parse(href.trim()).ok(),
        });
        // A long base would be repeated in every address.
        let own = own.filter(|url| url.as_str().len() <= LONGEST_URL && is_web(url));
        Self { base: own.or_else(|| page.clone()), page }
    }

    /// The whole address, unless it leads nowhere or only to another place of the same page.
    pub(super) fn resolve(&self, href: &str) -> Option<String> {
        let href = href.trim_matches(|c: char| c.is_ascii_whitespace() || c.is_control());
        if href.is_empty() || href.starts_with('#') || href.len() > LONGEST_URL {
            return None;
        }
        let parsed = match &self.base {
            Some(base) => base.join(href),
            None => Url::parse(href),
        };
        match parsed {
            Ok(url) if leads_somewhere(&url) && !self.is_same_page(&url) => {
                Some(String::from(url)).filter(|url| url.len() <= LONGEST_URL)
            }
            Err(ParseError::RelativeUrlWithoutBase) => {
                (!href.contains(|c: char| c.is_control() || c.is_whitespace())).then(|| href.to_owned())
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn is_same_page(&self, url: &Url) -> bool {
        let without_fragment = |url: &Url| {
            let mut url = url.clone();
            url.set_fragment(None);
            url
        };
        url.fragment().is_some()
            && self.page.as_ref().is_some_and(|page| without_fragment(page) == without_fragment(url))
    }
}

/// Can a reader follow it? Addresses that run a script or carry their own page cannot be, and one with a user in front
/// of its host pretends to be another.
fn leads_somewhere(url: &Url) -> bool {
    is_web(url) || matches!(url.scheme(), "mailto" | "tel")
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
}

/// The links below these nodes, each address once.
pub(super) fn collect<const N: usize>(document: &Document, base: &Base, roots: [NodeId; N]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut known = BTreeMap::new();
    for root in roots {
        for node in document.read_nodes(root) {
            let Some(element) = document.tree.element(node) else { continue };
            let Some(url) = target(element, base) else { continue };
            if let Some(at) = known.get(&url) {
                if let Some(link) = links.get_mut(*at).filter(|link: &&mut Link| link.text.is_empty()) {
                    link.text = text(document, node);
                }
                continue;
            }
            if links.len() == MOST_LINKS {
                return links;
            }
            known.insert(url.clone(), links.len());
            links.push(Link { text: text(document, node), url });
        }
    }
    links
}

/// Where the element leads, if it is a link.
pub(super) fn target(element: &Element, base: &Base) -> Option<String> {
    if !matches!(element.name(), "a" | "area") {
        return None;
    }
    base.resolve(element.attribute("href")?)
}

/// What a link says: its text, or else what stands for it or for a picture in it.
fn text(document: &Document, node: NodeId) -> String {
    let text = line(document, node, LONGEST_TEXT);
    if !text.is_empty() {
        return text;
    }
    let elements = document.tree.elements(node).take(10);
    let mut said = elements.flat_map(|(_, e)| ["aria-label", "title", "alt"].map(|name| e.attribute(name)));
    cut_line(said.find_map(|text| text.filter(|text| !text.trim().is_empty())).unwrap_or_default(), LONGEST_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, address: Option<&str>, expected: &[(&str, &str)]) {
        let links = Document::read(html).links(address);
        let links: Vec<_> = links.iter().map(|link| (link.text.as_str(), link.url.as_str())).collect();
        assert_eq!(links, expected, "{html}");
    }

    const PAGE: Option<&str> = Some("https://example.com/a/b?c#d");

    #[test]
    fn each_address_comes_once_with_the_first_text() {
        let html = "<a href=x> a <b>b</b></a><a href=/a/x>c</a><a href=y><img alt='d'></a><a href=y>e</a>";
        check(html, PAGE, &[("a b", "https://example.com/a/x"), ("d", "https://example.com/a/y")]);
        check("<a href=x></a><a href=x>a</a>", PAGE, &[("a", "https://example.com/a/x")]);
        check("<a href=x aria-label='a'><i></i></a>", PAGE, &[("a", "https://example.com/a/x")]);
        check("<map><area href=x alt=a></map>", PAGE, &[("a", "https://example.com/a/x")]);
    }

    #[test]
    fn only_what_can_be_followed_is_a_link() {
        check("<a href='javascript:x'>a</a><a href='JAVA&#10;SCRIPT:x'>b</a><a href='data:,x'>c</a>", PAGE, &[]);
        check(
            "<a href='blob:x'>a</a><a href='file:///x'>b</a><a href='ftp://h/'>c</a><a href='\u{1}javascript:x'>d</a>",
            PAGE,
            &[],
        );
        check("<a>a</a><a href=''>b</a><a href=' '>c</a><a href='#x'>d</a><a href='?c#y'>e</a>", PAGE, &[]);
        check("<a href='https://u@h.example/'>a</a><a href='http://[x'>b</a>", PAGE, &[]);
        check("<a href='tel:+1'>a</a>", PAGE, &[("a", "tel:+1")]);
        check("<template><a href=x>a</a></template><noscript><a href=y>b</a></noscript>", PAGE, &[]);
    }

    #[test]
    fn a_page_may_say_what_its_addresses_are_relative_to() {
        let html = "<base href='/z/'><base href='/y/'><a href=x>a</a><a href='#k'>b</a>";
        check(html, PAGE, &[("a", "https://example.com/z/x")]);
        check("<base href='https://o.example/'><a href='x'>a</a>", None, &[("a", "https://o.example/x")]);
        check("<base href='data:text/html,x'><a href=x>a</a>", PAGE, &[("a", "https://example.com/a/x")]);
        let long = format!("<base href='/{}/'><a href=x>a</a>", "y".repeat(5_000));
        check(&long, PAGE, &[("a", "https://example.com/a/x")]);
    }

    #[test]
    fn without_an_address_relative_ones_stay_as_they_are() {
        check(
            "<a href=' /x y'>a</a><a href='/z'>b</a><a href=https://h.example>c</a>",
            None,
            &[("b", "/z"), ("c", "https://h.example/")],
        );
        check("<a href='/x'>a</a>", Some("not a url"), &[("a", "/x")]);
    }

    #[test]
    fn links_and_their_texts_are_bounded() {
        let html: String = (0..3_000).map(|i| format!("<a href={i}>{i}</a>")).collect();
        assert_eq!(Document::read(&html).links(PAGE).len(), MOST_LINKS);
        let long = format!("<a href=x>{}</a><a href='/{}'>b</a>", "word ".repeat(100_000), "y".repeat(5_000));
        let links = Document::read(&long).links(PAGE);
        assert_eq!(links.iter().map(|link| link.text.len()).collect::<Vec<_>>(), [LONGEST_TEXT]);
    }
}
