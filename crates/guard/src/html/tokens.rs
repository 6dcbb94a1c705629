//! From the text of a page to its tree, with bounded work.
//!
//! The tokenizer and the tree builder follow the rules of browsers, which repair anything. They also let a page make
//! them work without end: elements nested a hundred thousand deep, tags with a million attributes, open formatting that
//! is repeated in every paragraph. So what is passed from one to the other is counted here: attributes nobody reads are
//! dropped, depth ends where it ends in browsers, and when a page is too much work its rest is left out and the tree says so.

use std::{borrow::Cow, convert::Infallible};

use html5ever::{
    Attribute, LocalName, QualName,
    interface::TreeSink as _,
    ns,
    tendril::StrTendril,
    tokenizer::{Doctype, Tag, TagKind, Token, TokenSink as _, TokenSinkResult, states::RawKind},
    tree_builder::{TreeBuilder, TreeBuilderOpts},
};
use html5gum::{Emitter, Error, State, Tokenizer};

use super::tree::{NodeId, Sink, Tree};

/// Elements inside each other. Deeper ones are put beside each other, as browsers do.
const MOST_DEPTH: usize = 512;

/// How much work a page may make. One unit is one step through the open elements; an ordinary page takes some millions.
const MOST_WORK: u64 = 200_000_000;

/// What a formatting element costs for every open element: it is compared with those that may be its equals.
const FORMATTING_WORK: u64 = 64;

/// Longer names of tags are cut.
const LONGEST_NAME: usize = 64;

/// Longer values of attributes are dropped: nobody reads them, and half an address is a wrong one.
const LONGEST_VALUE: usize = 64 * 1024;

/// The attributes that say something about what is shown, in order. No other is kept.
const KEPT: [&str; 42] = [
    "alt",
    "aria-hidden",
    "aria-label",
    "bgcolor",
    "charset",
    "cite",
    "class",
    "color",
    "colspan",
    "content",
    "datetime",
    "dir",
    "encoding",
    "face",
    "height",
    "hidden",
    "href",
    "http-equiv",
    "id",
    "inert",
    "itemprop",
    "label",
    "lang",
    "media",
    "name",
    "open",
    "popover",
    "property",
    "rel",
    "reversed",
    "role",
    "rowspan",
    "size",
    "src",
    "start",
    "style",
    "text",
    "title",
    "type",
    "value",
    "width",
    "xml:lang",
];

/// The tree of a page.
pub(super) fn tree(html: &str) -> Tree {
    tree_within(html, MOST_WORK)
}

fn tree_within(html: &str, most_work: u64) -> Tree {
    // As with scripts: what a `noscript` holds is not shown then, and comes as text of an element that no one reads.
    let builder = TreeBuilder::new(Sink::new(), TreeBuilderOpts::default());
    let mut cut = false;
    let Ok(()) = Tokenizer::new_with_emitter(html, Feed::new(&builder, most_work, &mut cut)).finish();
    let mut tree = builder.sink.finish();
    tree.cut = cut;
    tree
}

/// Takes the pieces of tokens and passes on whole ones.
struct Feed<'b> {
    builder: &'b TreeBuilder<NodeId, Sink>,
    work_left: u64,
    /// The page was too much work; nothing more is passed on.
    cut: &'b mut bool,
    text: Vec<u8>,
    tag: Piece,
    last_start: Vec<u8>,
    doctype: Doctype,
}

/// The tag that is being read.
#[derive(Default)]
struct Piece {
    is_end: bool,
    self_closing: bool,
    name: Vec<u8>,
    attributes: Vec<Attribute>,
    attribute_name: Vec<u8>,
    attribute_value: Vec<u8>,
}

impl Piece {
    fn close_attribute(&mut self) {
        let name = std::mem::take(&mut self.attribute_name);
        let value = std::mem::take(&mut self.attribute_value);
        let Some(name) = kept(&name) else { return };
        if value.len() > LONGEST_VALUE || self.attributes.iter().any(|own| &*own.name.local == name) {
            return;
        }
        let name = QualName::new(None, ns!(), LocalName::from(name));
        self.attributes.push(Attribute { name, value: tendril(&value) });
    }
}

/// The name, if the attribute is one that is kept.
fn kept(name: &[u8]) -> Option<&'static str> {
    let at = KEPT.binary_search_by(|kept| kept.as_bytes().cmp(name)).ok()?;
    KEPT.get(at).copied()
}

impl<'b> Feed<'b> {
    fn new(builder: &'b TreeBuilder<NodeId, Sink>, work_left: u64, cut: &'b mut bool) -> Self {
        Self {
            builder,
            work_left,
            cut,
            text: Vec::new(),
            tag: Piece::default(),
            last_start: Vec::new(),
            doctype: Doctype::default(),
        }
    }

    /// Passes a token on, if there is any work left for it.
    fn pass(&mut self, token: Token, work: u64) -> Option<State> {
        *self.cut |= self.work_left < work || self.builder.sink.is_full();
        if *self.cut {
            return None;
        }
        self.work_left -= work;
        match self.builder.process_token(token, 1) {
            TokenSinkResult::RawData(RawKind::Rcdata) => Some(State::RcData),
            TokenSinkResult::RawData(RawKind::Rawtext) => Some(State::RawText),
            TokenSinkResult::RawData(RawKind::ScriptData | RawKind::ScriptDataEscaped(_)) => Some(State::ScriptData),
            TokenSinkResult::Plaintext => Some(State::PlainText),
            TokenSinkResult::Continue | TokenSinkResult::Script(_) | TokenSinkResult::EncodingIndicator(_) => None,
        }
    }

    fn depth(&self) -> u64 {
        self.builder.sink.depth() as u64 + 1
    }

    fn pass_text(&mut self) {
        if !self.text.is_empty() {
            let text = tendril(&self.text);
            self.text.clear();
            self.pass(Token::CharacterTokens(text), self.depth());
        }
    }

    fn pass_start(&mut self, tag: Tag) -> Option<State> {
        if self.builder.sink.depth() >= MOST_DEPTH
            && let Some(open) = self.builder.sink.current_name()
        {
            self.pass(Token::TagToken(end_tag(open.local)), self.depth());
        }
        let each = if is_formatting(&tag.name) { FORMATTING_WORK } else { 1 };
        self.pass(Token::TagToken(tag), each * self.depth())
    }
}

impl Emitter for Feed<'_> {
    type Token = Infallible;

    fn set_last_start_tag(&mut self, last_start_tag: Option<&[u8]>) {
        self.last_start = last_start_tag.unwrap_or_default().to_vec();
    }

    fn emit_eof(&mut self) {
        self.pass_text();
        // What was cut ends here, too.
        let _ = self.builder.process_token(Token::EOFToken, 1);
        self.builder.end();
    }

    fn emit_error(&mut self, _error: Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<Infallible> {
        None
    }

    fn emit_string(&mut self, text: &[u8]) {
        if !*self.cut {
            self.text.extend(text.iter().filter(|byte| **byte != 0));
        }
    }

    fn init_start_tag(&mut self) {
        self.tag = Piece::default();
    }

    fn init_end_tag(&mut self) {
        self.tag = Piece { is_end: true, ..Piece::default() };
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.pass_text();
        self.tag.close_attribute();
        let piece = std::mem::take(&mut self.tag);
        let name = LocalName::from(&*text(&piece.name));
        if piece.is_end {
            return self.pass(Token::TagToken(end_tag(name)), self.depth());
        }
        self.last_start = piece.name;
        self.pass_start(Tag {
            kind: TagKind::StartTag,
            name,
            self_closing: piece.self_closing,
            attrs: piece.attributes,
            had_duplicate_attributes: false,
        })
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {
        self.pass_text();
        let doctype = std::mem::take(&mut self.doctype);
        self.pass(Token::DoctypeToken(doctype), 1);
    }

    fn set_self_closing(&mut self) {
        self.tag.self_closing = true;
    }

    fn set_force_quirks(&mut self) {
        self.doctype.force_quirks = true;
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        extend(&mut self.tag.name, name, LONGEST_NAME);
    }

    fn push_comment(&mut self, _text: &[u8]) {}

    fn init_doctype(&mut self) {
        self.doctype = Doctype::default();
    }

    fn push_doctype_name(&mut self, name: &[u8]) {
        extend_tendril(&mut self.doctype.name, name);
    }

    fn set_doctype_public_identifier(&mut self, value: &[u8]) {
        self.doctype.public_id = Some(tendril(value));
    }

    fn set_doctype_system_identifier(&mut self, value: &[u8]) {
        self.doctype.system_id = Some(tendril(value));
    }

    fn push_doctype_public_identifier(&mut self, value: &[u8]) {
        extend_tendril(&mut self.doctype.public_id, value);
    }

    fn push_doctype_system_identifier(&mut self, value: &[u8]) {
        extend_tendril(&mut self.doctype.system_id, value);
    }

    fn init_attribute(&mut self) {
        self.tag.close_attribute();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        extend(&mut self.tag.attribute_name, name, LONGEST_NAME);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        if kept(&self.tag.attribute_name).is_some() {
            extend(&mut self.tag.attribute_value, value, LONGEST_VALUE + 1);
        }
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.tag.is_end && !self.tag.name.is_empty() && self.tag.name == self.last_start
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

fn end_tag(name: LocalName) -> Tag {
    Tag { kind: TagKind::EndTag, name, self_closing: false, attrs: Vec::new(), had_duplicate_attributes: false }
}

/// Is it one of those that are opened again in the next paragraph when nobody closed them?
fn is_formatting(name: &str) -> bool {
    matches!(
        name,
        "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small" | "strike" | "strong" | "tt" | "u"
    )
}

/// Adds to what is there, up to `most` bytes. What is cut in the middle of a character is repaired when it is read.
fn extend(bytes: &mut Vec<u8>, more: &[u8], most: usize) {
    let room = most.saturating_sub(bytes.len());
    bytes.extend(more.iter().take(room));
}

fn extend_tendril(own: &mut Option<StrTendril>, more: &[u8]) {
    own.get_or_insert_default().push_slice(&text(more));
}

fn tendril(bytes: &[u8]) -> StrTendril {
    StrTendril::from_slice(&text(bytes))
}

/// What the page was read from is text, so this only repairs what was cut.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Document, tree::Step},
        *,
    };

    /// How deep the tree of a page is.
    fn depth(tree: &Tree) -> usize {
        let mut deepest = 0;
        let mut depth = 0usize;
        for step in tree.walk(NodeId::DOCUMENT) {
            match step {
                Step::Enter(_) => depth += 1,
                Step::Leave(_) => depth -= 1,
            }
            deepest = deepest.max(depth);
        }
        deepest
    }

    #[test]
    fn the_list_of_attributes_can_be_searched() {
        assert!(KEPT.is_sorted());
    }

    #[test]
    fn a_hundred_thousand_elements_inside_each_other_are_not_that_deep() {
        for name in ["div", "template", "svg"] {
            let html = format!("{}end", format!("<{name}>").repeat(100_000));
            let tree = tree(&html);
            assert!(depth(&tree) <= MOST_DEPTH + 2, "{name}: {}", depth(&tree));
        }
    }

    #[test]
    fn what_is_too_deep_is_beside_each_other_and_still_inside_its_own_element() {
        let html = format!("{}<p id=a>one<p id=b>two", "<div>".repeat(600));
        let document = Document::read(&html);
        let texts: Vec<_> = ["a", "b"].iter().flat_map(|id| document.with_id(id)).map(|part| part.text(100)).collect();
        assert_eq!(texts, ["one", "two"]);
        assert!(!document.is_cut());
    }

    #[test]
    fn open_formatting_is_not_repeated_without_end() {
        let open: String = (0..400).map(|i| format!("<p><b id={i}></p>")).collect();
        let document = Document::read(&(open + &"<p>x".repeat(20_000)));
        assert!(document.is_cut() && document.tree.len() < 510_000, "{}", document.tree.len());
        assert!(document.text().starts_with("x\n\nx\n\nx"));
    }

    #[test]
    fn a_cut_page_is_read_as_far_as_it_was() {
        let long = format!("<p>first</p>{}<p>last</p>", "<br>".repeat(600_000));
        let document = Document::read(&long);
        assert_eq!((document.is_cut(), document.text().as_str()), (true, "first"));
    }

    #[test]
    fn work_is_counted_by_depth_and_ends() {
        let is_cut = |html: &str| tree_within(html, 20_000).cut;
        assert!(!is_cut(&"<p>a".repeat(1_000)));
        assert!(is_cut(&"<p>a".repeat(10_000)));
        assert!(is_cut(&("<div>".repeat(100) + &"<p>a".repeat(1_000))));
        assert!(is_cut(&("<div>".repeat(100) + &"</x>".repeat(1_000))));
        assert!(is_cut(&"<b>a</b>".repeat(1_000)));
        let cut = tree_within(&("a".to_owned() + &"<div>".repeat(1_000)), 20_000);
        assert!(cut.cut && depth(&cut) < 300, "{}", depth(&cut));
    }

    #[test]
    fn a_tag_has_the_attributes_that_are_read_and_no_others() {
        let many: String = (0..100_000).map(|i| format!("data-{i}=x ")).collect();
        let document =
            Document::read(&format!("<p onclick=x {many} ID=a class=b id=c title='{}'>t", "x".repeat(70_000)));
        let part = document.with_name("p").next().unwrap();
        let found = ["id", "class", "onclick", "data-1", "title"].map(|name| part.attribute(name));
        assert_eq!(found, [Some("a"), Some("b"), None, None, None]);
    }

    #[test]
    fn long_names_are_cut_and_anything_is_a_name() {
        let document = Document::read(&format!("<{}>a</p><xé\0<b y=\u{fffd}>c<é>", "x".repeat(100_000)));
        assert_eq!(document.text(), "a\n\nc<é>");
    }

    #[test]
    fn elements_that_hold_text_end_where_they_end_in_browsers() {
        let check = |html: &str, expected: &str| assert_eq!(Document::read(html).text(), expected, "{html}");
        check("<textarea><p>a</textarea>b", "<p>a\nb");
        check("<title>a<b></title>c", "c");
        check("<script>if (a<b) '</p>' </script >c", "c");
        check("<script><!-- <script> </script> x --></script>c", "c");
        check("<style></styl></style>c", "c");
        check("<noscript><p>a</p></noscript>c", "c");
        check("<iframe><p>a</iframe>c", "c");
        check("<!-- > <p>a -->c", "c");
        check("<!--> c", "c");
        check("<plaintext>a</plaintext><b>", "a</plaintext><b>");
        check("<svg><![CDATA[a</svg>]]></svg>c", "c");
        check("<![CDATA[a]]>c", "c");
        check("<template><p>a</template>c", "c");
        check("a&amp;b&notin;&lt;p>&#x41;&#0;", "a&b\u{2209}<p>A\u{fffd}");
    }

    #[test]
    fn broken_html_is_repaired() {
        let check = |html: &str, expected: &str| assert_eq!(Document::read(html).text(), expected, "{html}");
        check("<b><p>a</b>b</p>c", "ab\n\nc");
        check("<p>a<div>b</p>c", "a\n\nb\n\nc");
        check("<table><p>a<tr><td>b</table>c", "a\n\nb\n\nc");
        check("<ul><li>a<li>b</ul>", "- a\n- b");
        check("a</div></p></x>b", "a\n\nb");
        check("<p>a<", "a<");
        check("<p>a</", "a</");
        check("<a href='x>b", "");
        check("", "");
    }
}
