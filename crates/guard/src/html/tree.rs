//! The tree of a page, and the sink that the tree builder fills it through.

use std::{
    borrow::Cow,
    cell::{Cell, Ref, RefCell},
};

use html5ever::{
    Attribute, QualName,
    interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink},
    local_name, ns,
    tendril::StrTendril,
};

/// More nodes than this are not taken in. A long article has some ten thousand, the longest pages ten times that.
const MOST_NODES: usize = 500_000;

/// A node of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// The document itself, which holds everything else.
    pub(super) const DOCUMENT: Self = Self(0);

    /// Where a table with a row for every node keeps the one of this node.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A page as browsers read it. Comments are not kept, and what is inside a `template` hangs on no node.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The end of the page was not taken in.
    pub(super) cut: bool,
    /// The name of what is no element, for whoever asks for one.
    no_name: QualName,
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    previous: Option<NodeId>,
    next: Option<NodeId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
    /// How many nodes were above it when it was put in.
    depth: usize,
    kind: Kind,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Kind {
    /// The document or a comment.
    Other,
    /// What the template holds. It hangs on no node, so no walk comes by it.
    Inside(NodeId),
    /// An element.
    Element(Element),
    /// Text.
    Text(String),
}

/// An element.
#[derive(Debug)]
pub(super) struct Element {
    name: QualName,
    attributes: Vec<Attribute>,
    /// What it holds, if it is a template.
    inside: Option<NodeId>,
}

impl Element {
    /// Its name; an empty one if it is not one of HTML, such as a shape in a drawing.
    pub(super) fn name(&self) -> &str {
        if self.is_html() { &self.name.local } else { "" }
    }

    /// Is it one of HTML, and not of SVG or MathML?
    pub(super) fn is_html(&self) -> bool {
        self.name.ns == ns!(html)
    }

    /// An attribute, if it is there and among those that are kept.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
    }

    /// Does it have this class?
    pub(super) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").is_some_and(|classes| classes.split_ascii_whitespace().any(|own| own == class))
    }
}

/// One step of a walk through a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The node, before what it holds.
    Enter(NodeId),
    /// The same node, after that.
    Leave(NodeId),
}

/// A walk over a node and all it holds, in the order of the page. It does not recurse: pages nest as they like.
#[derive(Debug)]
pub(super) struct Walk<'t> {
    tree: &'t Tree,
    root: NodeId,
    next: Option<Step>,
}

impl Walk<'_> {
    /// Does not go into the node that was just entered. It is still left.
    pub(super) fn pass_over(&mut self) {
        let entered = match self.next {
            Some(Step::Enter(child)) => self.tree.node(child).parent,
            Some(Step::Leave(_)) | None => return,
        };
        self.next = entered.map(Step::Leave);
    }
}

impl Iterator for Walk<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let step = self.next?;
        self.next = match step {
            Step::Enter(id) => Some(self.tree.node(id).first.map_or(Step::Leave(id), Step::Enter)),
            Step::Leave(id) if id == self.root => None,
            Step::Leave(id) => {
                let node = self.tree.node(id);
                node.next.map(Step::Enter).or(node.parent.map(Step::Leave))
            }
        };
        Some(step)
    }
}

impl Tree {
    fn new() -> Self {
        let mut tree = Self { nodes: Vec::new(), cut: false, no_name: QualName::new(None, ns!(), local_name!("")) };
        tree.add(Kind::Other);
        tree
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What a node is.
    pub(super) fn kind(&self, id: NodeId) -> &Kind {
        &self.node(id).kind
    }

    /// The element, if the node is one.
    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match self.kind(id) {
            Kind::Element(element) => Some(element),
            Kind::Other | Kind::Inside(_) | Kind::Text(_) => None,
        }
    }

    /// The name of the node, empty if it is not an element of HTML.
    pub(super) fn name(&self, id: NodeId) -> &str {
        self.element(id).map_or("", Element::name)
    }

    /// The node that holds it.
    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent
    }

    /// What it holds, in order.
    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.node(id).first, |child| self.node(*child).next)
    }

    /// A walk over a node and all it holds.
    pub(super) fn walk(&self, root: NodeId) -> Walk<'_> {
        Walk { tree: self, root, next: Some(Step::Enter(root)) }
    }

    /// Every node there is, in no useful order.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// Every element below a node, in the order of the page.
    pub(super) fn elements(&self, root: NodeId) -> impl Iterator<Item = (NodeId, &Element)> {
        self.walk(root).filter_map(|step| match step {
            Step::Enter(id) => self.element(id).map(|element| (id, element)),
            Step::Leave(_) => None,
        })
    }

    /// The node that holds what is shown: the body, or all of it when there is none.
    pub(super) fn body(&self) -> NodeId {
        let named = |of, name| self.children(of).find(|child| self.name(*child) == name);
        let Some(html) = named(NodeId::DOCUMENT, "html") else { return NodeId::DOCUMENT };
        named(html, "body").unwrap_or(html)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    fn add(&mut self, kind: Kind) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { parent: None, previous: None, next: None, first: None, last: None, depth: 0, kind });
        id
    }

    /// Puts a node that hangs nowhere in front of `next`, or last.
    fn put(&mut self, parent: NodeId, child: NodeId, next: Option<NodeId>) {
        let previous = match next {
            Some(next) => self.node_mut(next).previous.replace(child),
            None => self.node_mut(parent).last.replace(child),
        };
        match previous {
            Some(previous) => self.node_mut(previous).next = Some(child),
            None => self.node_mut(parent).first = Some(child),
        }
        let depth = self.node(parent).depth + 1;
        let node = self.node_mut(child);
        (node.parent, node.previous, node.next, node.depth) = (Some(parent), previous, next, depth);
    }

    /// The same for text, which joins text that stands there already.
    fn put_text(&mut self, parent: NodeId, text: &str, next: Option<NodeId>) {
        let before = match next {
            Some(next) => self.node(next).previous,
            None => self.node(parent).last,
        };
        if let Some(before) = before
            && let Kind::Text(own) = &mut self.node_mut(before).kind
        {
            own.push_str(text);
            return;
        }
        let child = self.add(Kind::Text(text.to_owned()));
        self.put(parent, child, next);
    }

    fn take_out(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        let (parent, previous, next) = (node.parent.take(), node.previous.take(), node.next.take());
        let Some(parent) = parent else { return };
        match previous {
            Some(previous) => self.node_mut(previous).next = next,
            None => self.node_mut(parent).first = next,
        }
        match next {
            Some(next) => self.node_mut(next).previous = previous,
            None => self.node_mut(parent).last = previous,
        }
    }
}

/// Where the tree builder puts what it makes of a page.
#[derive(Debug)]
pub(super) struct Sink {
    tree: RefCell<Tree>,
    /// The element that was opened last and is still open, as far as can be told from outside the builder.
    current: Cell<NodeId>,
}

impl Sink {
    pub(super) fn new() -> Self {
        Self { tree: RefCell::new(Tree::new()), current: Cell::new(NodeId::DOCUMENT) }
    }

    /// How many elements are open.
    pub(super) fn depth(&self) -> usize {
        self.tree.borrow().node(self.current.get()).depth
    }

    /// The name of the element that was opened last.
    pub(super) fn current_name(&self) -> Option<QualName> {
        self.tree.borrow().element(self.current.get()).map(|element| element.name.clone())
    }

    /// Are there as many nodes as are taken in?
    pub(super) fn is_full(&self) -> bool {
        self.tree.borrow().len() >= MOST_NODES
    }

    fn insert(&self, parent: NodeId, child: NodeOrText<NodeId>, next: Option<NodeId>) {
        let mut tree = self.tree.borrow_mut();
        match child {
            NodeOrText::AppendText(text) => tree.put_text(parent, &text, next),
            NodeOrText::AppendNode(child) => {
                tree.take_out(child);
                tree.put(parent, child, next);
                if tree.element(child).is_some() {
                    self.current.set(child);
                }
            }
        }
    }
}

impl TreeSink for Sink {
    type Handle = NodeId;
    type Output = Tree;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Tree {
        self.tree.into_inner()
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        NodeId::DOCUMENT
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Ref<'a, QualName> {
        Ref::map(self.tree.borrow(), |tree| match tree.kind(*target) {
            Kind::Element(element) => &element.name,
            Kind::Other | Kind::Inside(_) | Kind::Text(_) => &tree.no_name,
        })
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        let mut tree = self.tree.borrow_mut();
        let id = tree.add(Kind::Element(Element { name, attributes, inside: None }));
        if flags.template {
            let inside = tree.add(Kind::Inside(id));
            if let Kind::Element(element) = &mut tree.node_mut(id).kind {
                element.inside = Some(inside);
            }
        }
        id
    }

    fn create_comment(&self, _text: StrTendril) -> NodeId {
        self.tree.borrow_mut().add(Kind::Other)
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> NodeId {
        self.tree.borrow_mut().add(Kind::Other)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.insert(*parent, child, None);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, previous: &NodeId, child: NodeOrText<NodeId>) {
        let has_parent = self.tree.borrow().parent(*element).is_some();
        if has_parent { self.append_before_sibling(element, child) } else { self.append(previous, child) }
    }

    fn append_doctype_to_document(&self, _name: StrTendril, _public_id: StrTendril, _system_id: StrTendril) {}

    fn pop(&self, node: &NodeId) {
        let tree = self.tree.borrow();
        let holder = tree.parent(*node).unwrap_or(NodeId::DOCUMENT);
        self.current.set(match tree.kind(holder) {
            Kind::Inside(template) => *template,
            Kind::Other | Kind::Element(_) | Kind::Text(_) => holder,
        });
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        let mut tree = self.tree.borrow_mut();
        let Some(inside) = tree.element(*target).and_then(|element| element.inside) else { return *target };
        tree.node_mut(inside).depth = tree.node(*target).depth;
        inside
    }

    fn same_node(&self, x: &NodeId, y: &NodeId) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        let parent = self.tree.borrow().parent(*sibling);
        if let Some(parent) = parent {
            self.insert(parent, child, Some(*sibling));
        }
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attributes: Vec<Attribute>) {
        let mut tree = self.tree.borrow_mut();
        let Kind::Element(element) = &mut tree.node_mut(*target).kind else { return };
        for attribute in attributes {
            if element.attribute(&attribute.name.local).is_none() {
                element.attributes.push(attribute);
            }
        }
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.tree.borrow_mut().take_out(*target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        let mut tree = self.tree.borrow_mut();
        while let Some(child) = tree.node(*node).first {
            tree.take_out(child);
            tree.put(*new_parent, child, None);
        }
    }
}
