//! Pages: bytes that came from anywhere, read for what they say.
//!
//! [`decode`] finds out which letters the bytes stand for. [`Document::read`] makes the tree that a browser would make of
//! them, with bounded work whatever the page is. From the tree come [`Document::text`], the plain text;
//! [`Document::page`], the main part as markdown with its links; [`Document::links`], [`Document::tables`] and
//! [`Document::metadata`].
//!
//! What a reader of the page does not get to see is marked once, in `unread.rs`, and every one of these readings leaves
//! it out. Text of a page comes out as text: it cannot become a heading, a link or a code block of the markdown.

mod decode;
mod hidden;
mod links;
mod main_part;
mod metadata;
mod render;
mod tables;
mod tokens;
mod tree;
mod unread;

#[cfg(test)]
mod tests;

pub use decode::{decode, is_html, media_type};
pub use links::Link;
pub use metadata::Metadata;
pub use tables::Table;

use links::Base;
use render::{Voice, render};
use tree::{Element, Kind, NodeId, Step, Tree};

/// A page that was read.
#[derive(Debug)]
pub struct Document {
    tree: Tree,
    /// For every node: it and what it holds is not read.
    unread: Vec<bool>,
    /// What is not read because no reader of the page would see it.
    hidden: Vec<NodeId>,
}

/// What a page has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its title.
    pub title: Option<String>,
    /// The language it says it is in.
    pub language: Option<String>,
    /// What it says about itself.
    pub description: Option<String>,
    /// Its main part, as markdown.
    pub markdown: String,
    /// Where it leads, each address once: links of the main part first.
    pub links: Vec<Link>,
}

impl Document {
    /// Reads a page. There is no page that cannot be read.
    pub fn read(html: &str) -> Self {
        let tree = tokens::tree(html);
        let (unread, hidden) = unread::marks(&tree);
        Self { tree, unread, hidden }
    }

    /// Was the page so large or so tangled that its end was left out?
    pub fn is_cut(&self) -> bool {
        self.tree.cut
    }

    /// What is shown of the page, as plain text: a line for every block, lists with their marks, code as it is.
    pub fn text(&self) -> String {
        render(self, self.tree.body(), Voice::Plain, &Base::none(), &|_| false)
    }

    /// The texts that a reader of the page would not see, as far as they say anything: at most fifty, shortened.
    pub fn hidden(&self) -> Vec<String> {
        const MOST: usize = 50;
        const LONGEST: usize = 1_000;
        let text = |node: NodeId| {
            let mut said = String::new();
            for step in self.tree.walk(node) {
                if let Step::Enter(id) = step
                    && let Kind::Text(text) = self.tree.kind(id)
                {
                    said.push_str(text);
                }
                if said.len() > LONGEST {
                    break;
                }
            }
            let mut plain = said.split_whitespace().collect::<Vec<_>>().join(" ");
            plain.truncate(plain.floor_char_boundary(LONGEST));
            plain
        };
        let outermost = self.hidden.iter().filter(|node| !self.is_in_hidden(**node));
        outermost.map(|node| text(*node)).filter(|text| !text.is_empty()).take(MOST).collect()
    }

    fn is_in_hidden(&self, node: NodeId) -> bool {
        let mut above = self.tree.parent(node);
        while let Some(id) = above {
            if self.is_unread(id) {
                return true;
            }
            above = self.tree.parent(id);
        }
        false
    }

    /// The main part, and what there is to know about the page. `address` is where the page was found.
    pub fn page(&self, address: Option<&str>) -> Page {
        let base = Base::of(self, address);
        let main = main_part::find(self);
        let Metadata { title, language, description, .. } = self.metadata(address);
        Page {
            title,
            language,
            description,
            markdown: render(self, main.root, Voice::Markdown, &base, &|node| main.is_aside(node)),
            links: links::collect(self, &base, [main.root, self.tree.body()]),
        }
    }

    /// Where the page leads, each address once.
    pub fn links(&self, address: Option<&str>) -> Vec<Link> {
        links::collect(self, &Base::of(self, address), [self.tree.body()])
    }

    /// What the page says about itself.
    pub fn metadata(&self, address: Option<&str>) -> Metadata {
        metadata::read(self, &Base::of(self, address))
    }

    /// The tables, those inside others on their own.
    pub fn tables(&self) -> Vec<Table> {
        tables::all(self)
    }

    /// The elements with this class, in the order of the page.
    pub fn with_class(&self, class: &str) -> impl Iterator<Item = Part<'_>> {
        self.parts(move |element| element.has_class(class))
    }

    /// The elements with this id, in the order of the page.
    pub fn with_id(&self, id: &str) -> impl Iterator<Item = Part<'_>> {
        self.parts(move |element| element.attribute("id") == Some(id))
    }

    /// The elements with this name, in the order of the page.
    pub fn with_name(&self, name: &str) -> impl Iterator<Item = Part<'_>> {
        self.parts(move |element| element.name() == name)
    }

    fn parts(&self, wanted: impl Fn(&Element) -> bool) -> impl Iterator<Item = Part<'_>> {
        let elements = self.tree.elements(NodeId::DOCUMENT).filter(move |(_, element)| wanted(element));
        elements.map(|(node, _)| Part { document: self, node })
    }

    fn is_unread(&self, node: NodeId) -> bool {
        self.unread.get(node.index()).copied().unwrap_or(true)
    }

    /// The nodes below one that are read, in the order of the page.
    fn read_nodes(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        let mut walk = self.tree.walk(root);
        std::iter::from_fn(move || {
            loop {
                match walk.next()? {
                    Step::Enter(node) if self.is_unread(node) => walk.pass_over(),
                    Step::Enter(node) => return Some(node),
                    Step::Leave(_) => {}
                }
            }
        })
    }
}

/// An element of a page, for those who know how a page is made.
#[derive(Debug, Clone, Copy)]
pub struct Part<'d> {
    document: &'d Document,
    node: NodeId,
}

impl<'d> Part<'d> {
    /// Its text on one line, at most `most` bytes of it.
    pub fn text(self, most: usize) -> String {
        render::line(self.document, self.node, most)
    }

    /// An attribute of it.
    pub fn attribute(self, name: &str) -> Option<&'d str> {
        self.document.tree.element(self.node)?.attribute(name)
    }

    /// Does it have this class?
    pub fn has_class(self, class: &str) -> bool {
        self.document.tree.element(self.node).is_some_and(|element| element.has_class(class))
    }

    /// It and what it holds, as far as it has this class, in the order of the page.
    pub fn with_class(self, class: &str) -> impl Iterator<Item = Part<'d>> {
        let Self { document, node } = self;
        let having = document.tree.elements(node).filter(move |(_, element)| element.has_class(class));
        having.map(move |(node, _)| Part { document, node })
    }
}
