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
