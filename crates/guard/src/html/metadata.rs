//! What a page says about itself.

use std::collections::BTreeMap;

use super::{
    Document,
    links::Base,
    render::{cut_line, line},
    tree::{Element, NodeId},
};

/// Longer words about a page are cut, in bytes.
const LONGEST: usize = 1_000;

/// So many properties are given at most.
const MOST_PROPERTIES: usize = 64;

/// What a page says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Its title.
    pub title: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// The address it would like to be known by.
    pub canonical: Option<String>,
    /// The language it is in.
    pub language: Option<String>,
    /// The encoding it says it has, which need not be the one it has.
    pub charset: Option<String>,
    /// What it says for those who link to it: `og:title`, `og:image` and the like, as they are written.
    pub open_graph: BTreeMap<String, String>,
}

pub(super) fn read(document: &Document, base: &Base) -> Metadata {
    let mut found = Metadata::default();
    let mut heading = None;
    for (node, element) in document.tree.elements(NodeId::DOCUMENT) {
        match element.name() {
            "html" => set(&mut found.language, element.attribute("lang").or_else(|| element.attribute("xml:lang"))),
            "title" => set(&mut found.title, Some(&line(document, node, LONGEST))),
            "link" if is(element, "rel", "canonical") => {
                let url = element.attribute("href").and_then(|href| base.resolve(href));
                set(&mut found.canonical, url.as_deref());
            }
            "meta" => meta(&mut found, element),
            "h1" if !document.is_unread(node) => set(&mut heading, Some(&line(document, node, LONGEST))),
            _ => {}
        }
    }
    let said = |name: &str| found.open_graph.get(name).cloned();
    found.title = found.title.or_else(|| said("og:title")).or(heading);
    found.description = found.description.or_else(|| said("og:description"));
    found
}

fn meta(found: &mut Metadata, element: &Element) {
    let content = element.attribute("content");
    if let Some(charset) = element.attribute("charset") {
        set(&mut found.charset, Some(charset));
    }
    if is(element, "http-equiv", "content-type") {
        set(&mut found.charset, content.and_then(super::decode::charset));
    }
    if is(element, "http-equiv", "content-language") {
        set(&mut found.language, content);
    }
    if is(element, "name", "description") {
        set(&mut found.description, content);
    }
    let Some(property) = element.attribute("property").or_else(|| element.attribute("name")) else { return };
    let property = property.trim().to_ascii_lowercase();
    if property.starts_with("og:") && property.len() <= 64 && found.open_graph.len() < MOST_PROPERTIES {
        let mut value = found.open_graph.get(&property).cloned();
        set(&mut value, content);
        found.open_graph.extend(value.map(|value| (property, value)));
    }
}

/// Does the attribute say this, in whatever letters?
fn is(element: &Element, attribute: &str, value: &str) -> bool {
    element.attribute(attribute).is_some_and(|own| own.trim().eq_ignore_ascii_case(value))
}

/// The first word counts, if it says anything.
fn set(own: &mut Option<String>, said: Option<&str>) {
    let said = cut_line(said.unwrap_or_default(), LONGEST);
    if own.is_none() && !said.is_empty() {
        *own = Some(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: Metadata) {
        assert_eq!(Document::read(html).metadata(Some("https://example.com/a/b")), expected, "{html}");
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_page_says_all_of_it() {
        let html = "<html lang=de-CH><head><meta charset=utf-8><title> A\n page </title>\
            <meta name=Description content='about  it'><link rel=CANONICAL href=/c>\
            <meta property=og:title content=T><meta property=og:Image content=/i.png><meta name=og:type content=x>\
            <meta property=og:title content=second><meta name=keywords content=k>";
        let open_graph = [("og:image", "/i.png"), ("og:title", "T"), ("og:type", "x")];
        check(
            html,
            Metadata {
                title: some("A page"),
                description: some("about it"),
                canonical: some("https://example.com/c"),
                language: some("de-CH"),
                charset: some("utf-8"),
                open_graph: open_graph.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            },
        );
    }

    #[test]
    fn what_is_missing_is_taken_from_elsewhere() {
        let open_graph = [("og:description", "D"), ("og:title", "T")];
        let open_graph = open_graph.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let html = "<meta property=og:title content=T><meta property=og:description content=D><h1>H</h1>";
        check(
            html,
            Metadata { title: some("T"), description: some("D"), open_graph: open_graph.into(), ..Metadata::default() },
        );
        check("<title> </title><h1>H <i>i</i></h1><h1>J</h1>", Metadata { title: some("H i"), ..Metadata::default() });
        check("<template><h1>H</h1></template><svg><title>S</title></svg>", Metadata::default());
        let html = "<meta http-equiv=content-type content='text/html; charset=Big5'><meta http-equiv=Content-Language content=fr>";
        check(html, Metadata { charset: some("Big5"), language: some("fr"), ..Metadata::default() });
        check("<link rel=canonical href='javascript:x'><html lang=''>", Metadata::default());
        check("", Metadata::default());
    }

    #[test]
    fn nobody_says_more_than_is_read() {
        let html: String = (0..200).map(|i| format!("<meta property='og:{i}' content=x>")).collect();
        let found = Document::read(&format!("<title>{}</title>{html}", "x".repeat(5_000))).metadata(None);
        assert_eq!((found.title.map(|title| title.len()), found.open_graph.len()), (Some(LONGEST), MOST_PROPERTIES));
    }
}
