//! The main part of a page: what a reader came for, without the frame around it.
//!
//! Prose is text outside of links in blocks of some length. The main part is the innermost element that holds most of
//! the page's prose, and what is plainly frame inside it is left out. Where there is hardly any prose, as on a page of
//! links, the main part is all of the page. One walk up the tree counts, one walk down finds, so no page takes long.

use super::{
    Document,
    tree::{Element, Kind, NodeId, Step},
};

/// A block with less text than this, in bytes, is no prose.
const LEAST_PROSE: usize = 40;

/// With less prose than this, in bytes, a page is read as a whole.
const LEAST_PAGE: usize = 250;

/// How much of the prose the main part has, in percent.
const SHARE: usize = 70;

/// The same for an element that says it is the main part.
const SHARE_OF_MAIN: usize = 40;

/// The main part of a page.
#[derive(Debug)]
pub(super) struct MainPart {
    /// The element it is in.
    pub(super) root: NodeId,
    /// For every node: it is frame.
    aside: Vec<bool>,
}

impl MainPart {
    /// Is the node, with all it holds, not part of the main part?
    pub(super) fn is_aside(&self, node: NodeId) -> bool {
        self.aside.get(node.index()).copied().unwrap_or(false)
    }
}

/// Finds the main part.
pub(super) fn find(document: &Document) -> MainPart {
    let body = document.tree.body();
    let everything = MainPart { root: body, aside: Vec::new() };
    let text = texts(document, body);
    let aside = asides(document, body, &text);
    let prose = prose(document, body, &aside);
    let total = prose[body.index()];
    if total < LEAST_PAGE {
        return everything;
    }
    let mut root = body;
    if let Some(main) = said_to_be_main(document, body, &aside) {
        if prose[main.index()] * 100 >= total * SHARE_OF_MAIN {
            root = main;
        }
    }
    let needed = prose[root.index()] * SHARE / 100;
    let inner = |node| {
        let mut children = document.tree.children(node).filter(|child| is_holder(document.tree.name(*child)));
        children.find(|child| prose[child.index()] > needed)
    };
    while document.tree.name(root) != "article"
        && let Some(child) = inner(root)
    {
        root = child;
    }
    MainPart { root, aside }
}

/// The element that says it is the main part, if there is exactly one.
fn said_to_be_main(document: &Document, body: NodeId, aside: &[bool]) -> Option<NodeId> {
    let is_main = |element: &Element| element.name() == "main" || element.attribute("role") == Some("main");
    let mut mains = document.tree.elements(body).filter(|(node, element)| is_main(element) && !aside[node.index()]);
    let (main, _) = mains.next()?;
    mains.next().is_none().then_some(main)
}

/// Elements that arrange other blocks. Others are blocks themselves.
fn is_holder(name: &str) -> bool {
    matches!(name, "article" | "center" | "div" | "form" | "main" | "section" | "table" | "tbody" | "td" | "tr")
}

/// For every node, how many bytes of text it holds.
fn texts(document: &Document, body: NodeId) -> Vec<usize> {
    let tree = &document.tree;
    let mut texts = vec![0; tree.len()];
    let mut walk = tree.walk(body);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if document.is_unread(node) => walk.pass_over(),
            Step::Enter(node) => {
                if let Kind::Text(text) = tree.kind(node) {
                    texts[node.index()] = length(text);
                }
            }
            Step::Leave(node) => add_up(document, &mut texts, node),
        }
    }
    texts
}

/// For every node, whether it is frame. What holds half of the page's text is not, whatever it is called.
fn asides(document: &Document, body: NodeId, texts: &[usize]) -> Vec<bool> {
    let total = texts[body.index()];
    let is_aside = |node: NodeId, element: &Element| {
        is_frame(element) || is_named_like_frame(element) && texts[node.index()] * 2 < total
    };
    let mut asides = vec![false; document.tree.len()];
    for (node, element) in document.tree.elements(body) {
        asides[node.index()] = node != body && is_aside(node, element);
    }
    asides
}

/// Elements that say they are not what the page is about.
fn is_frame(element: &Element) -> bool {
    let by_role = element.attribute("role").is_some_and(|role| {
        matches!(role, "alertdialog" | "banner" | "complementary" | "contentinfo" | "dialog" | "navigation" | "search")
    });
    by_role
        || matches!(element.name(), "aside" | "button" | "dialog" | "footer" | "input" | "nav" | "select" | "textarea")
}

/// The words that frames are named with, as the beginning of a word in a class or an id.
const FRAME_WORDS: [&str; 22] = [
    "advert",
    "banner",
    "breadcrumb",
    "consent",
    "cookie",
    "footer",
    "gdpr",
    "masthead",
    "menu",
    "modal",
    "nav",
    "newsletter",
    "pagination",
    "popup",
    "promo",
    "related",
    "share",
    "sidebar",
    "social",
    "sponsor",
    "subscribe",
    "toolbar",
];

/// Is it called like a frame?
fn is_named_like_frame(element: &Element) -> bool {
    if matches!(element.name(), "a" | "article" | "h1" | "h2" | "h3" | "h4" | "html" | "main" | "p") {
        return false;
    }
    let names = [element.attribute("class"), element.attribute("id")];
    let words = names.into_iter().flatten().flat_map(|names| names.split(|c: char| !c.is_ascii_alphanumeric()));
    // A thousand classes say no more than the first few.
    words.take(32).any(|word| {
        FRAME_WORDS.iter().any(|frame| word.get(..frame.len()).is_some_and(|start| start.eq_ignore_ascii_case(frame)))
    })
}

/// For every node, how many bytes of prose it holds, frames left out.
fn prose(document: &Document, body: NodeId, aside: &[bool]) -> Vec<usize> {
    let tree = &document.tree;
    let mut prose = vec![0; tree.len()];
    // The text of the blocks that are open, as far as it is not in blocks inside them.
    let mut blocks: Vec<usize> = vec![0];
    let mut links = 0;
    let mut walk = tree.walk(body);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if document.is_unread(node) || aside[node.index()] => walk.pass_over(),
            Step::Enter(node) => match (tree.kind(node), tree.name(node)) {
                (Kind::Text(text), _) if links == 0 => {
                    if let Some(block) = blocks.last_mut() {
                        *block += length(text);
                    }
                }
                (_, "a") => links += 1,
                (_, name) if is_block(name) => blocks.push(0),
                _ => {}
            },
            Step::Leave(node) if document.is_unread(node) || aside[node.index()] => {}
            Step::Leave(node) => {
                let name = tree.name(node);
                if name == "a" {
                    links -= 1;
                } else if is_block(name) {
                    let own = blocks.pop().unwrap_or(0);
                    prose[node.index()] += if own >= LEAST_PROSE { own } else { 0 };
                }
                add_up(document, &mut prose, node);
            }
        }
    }
    prose
}

fn is_block(name: &str) -> bool {
    is_holder(name)
        || matches!(
            name,
            "blockquote" | "body" | "dd" | "dt" | "figcaption" | "header" | "li" | "ol" | "p" | "pre" | "th" | "ul"
        )
}

/// Adds what was counted for a node to the one that holds it.
fn add_up(document: &Document, counts: &mut [usize], node: NodeId) {
    if let Some(parent) = document.tree.parent(node) {
        counts[parent.index()] += counts[node.index()];
    }
}

/// How many bytes a text has, spaces left out.
fn length(text: &str) -> usize {
    text.split_whitespace().map(str::len).sum()
}
