//! The main part of a page: what a reader came for, without the frame around it.
//!
//! Prose is text outside of links in blocks of some length. The main part is the innermost element that holds most of
//! the page's prose, and what is plainly frame inside it is left out. Where there is hardly any prose, as on a page of
//! links, the main part is what the page says it is, or all of it. One walk up the tree counts, one walk down finds, so no page takes long.

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
    let texts = texts(document, body);
    let aside = asides(document, body, &texts);
    let prose = prose(document, body, &aside);
    let main = said_to_be_main(document, body, &aside);
    let holds = |counts: &[usize], main: &NodeId| counts[main.index()] * 100 >= counts[body.index()] * SHARE_OF_MAIN;
    if prose[body.index()] < LEAST_PAGE {
        // There is nothing to go by but the page's own word.
        let root = main.filter(|main| holds(&texts, main)).unwrap_or(body);
        return MainPart { root, aside: Vec::new() };
    }
    let root = main.filter(|main| holds(&prose, main)).unwrap_or(body);
    MainPart { root: innermost(document, root, &prose), aside }
}

/// The innermost element below this one that holds most of its prose.
fn innermost(document: &Document, outer: NodeId, prose: &[usize]) -> NodeId {
    let needed = prose[outer.index()] * SHARE / 100;
    let inner = |node| {
        let mut children = document.tree.children(node).filter(|child| is_holder(document.tree.name(*child)));
        children.find(|child| prose[child.index()] > needed)
    };
    let mut root = outer;
    while document.tree.name(root) != "article"
        && let Some(child) = inner(root)
    {
        root = child;
    }
    root
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The markdown of the main part, in which every paragraph of prose is `P`.
    fn check(html: &str, expected: &str) {
        let html = html.replace("PROSE", PROSE);
        let page = Document::read(&html).page(Some("https://example.com/"));
        assert_eq!(page.markdown.replace(PROSE, "P"), expected, "{html}");
    }

    const PROSE: &str = "This is a paragraph that somebody wrote for people to read; it goes on for a while so that it is \
        long enough to count, and it says nothing in particular about anything.";

    #[test]
    fn the_frame_is_left_out() {
        check(
            "<header><a href=/>Home</a> <nav>menu</nav></header><div class=page><h1>T</h1><p>PROSE</p><p>PROSE</p>\
             <p>short</p></div><div class=sidebar>PROSE</div><footer>PROSE</footer>",
            "# T\n\nP\n\nP\n\nshort",
        );
        check("<div id=cookie-banner>PROSE</div><div><p>PROSE<p>PROSE</div>", "P\n\nP");
        check("<div><p>PROSE<aside>PROSE</aside><p>PROSE<button>b</button><form>f</form></div>", "P\n\nP\n\nf");
        check("<div role=navigation>PROSE</div><p>PROSE<p>PROSE", "P\n\nP");
    }

    #[test]
    fn most_of_the_prose_is_never_left_out() {
        check("<div><p>PROSE<p>PROSE</div><div><p>PROSE<p>PROSE</div>", "P\n\nP\n\nP\n\nP");
        check("<div><div><p>PROSE</div><div><p>PROSE</div><div><p>PROSE</div></div>", "P\n\nP\n\nP");
        // What holds half of the page is no frame, whatever it is called.
        check("<div class='nav-open sidebar'><p>PROSE<p>PROSE</div><p>x", "P\n\nP");
        check("<body class=footer-fixed><p>PROSE<p>PROSE", "P\n\nP");
    }

    #[test]
    fn the_page_may_say_what_its_main_part_is() {
        check("<div><p>PROSE</div><main><p>PROSE</p><p>PROSE</main><div><p>PROSE</div>", "P\n\nP");
        check("<div>x</div><div role=main><ul><li>a</ul></div>", "- a");
        // Two cannot both be it, and one with little in it is not.
        check("<main><p>PROSE<p>PROSE</main><main><p>PROSE<p>PROSE</main>", "P\n\nP\n\nP\n\nP");
        check("<main>x</main><p>PROSE<p>PROSE", "x\n\nP\n\nP");
        check("<article><header><h1>T</h1></header><div><p>PROSE<p>PROSE</div></article><p>x", "# T\n\nP\n\nP");
    }

    #[test]
    fn a_page_of_links_is_read_as_a_whole() {
        check(
            "<nav><a href=/a>a</a></nav><ul><li><a href=/b>b</a></ul>",
            "[a](https://example.com/a)\n\n- [b](https://example.com/b)",
        );
        check("<div class=menu>a</div><p>b", "a\n\nb");
    }

    #[test]
    fn links_of_the_main_part_come_first() {
        let html = format!("<nav><a href=/n>n</a></nav><div><p>{PROSE}<p>{PROSE} <a href=/m>m</a></div>");
        let links = Document::read(&html).page(Some("https://example.com/")).links;
        let links: Vec<_> = links.iter().map(|link| link.text.as_str()).collect();
        assert_eq!(links, ["m", "n"]);
    }
}
