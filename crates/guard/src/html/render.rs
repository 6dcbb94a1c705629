//! A part of a page as text, plain or as markdown.
//!
//! The walk asks for gaps (a space, a new line, a blank line) and writes words; a gap is only written when more words
//! come, so there are never two and none at the ends. What begins a line (marks of quotes and list items, of a heading)
//! waits in the same way: an empty item leaves nothing behind.
//!
//! In markdown every character of the page that could be read as a mark is escaped, and pictures are left out: a reader
//! that draws the markdown would fetch them.

use super::{
    Document,
    links::{self, Base},
    tables,
    tree::{Element, Kind, NodeId, Step},
};

/// How a part is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// As it is.
    Plain,
    /// With marks for headings, lists, links, code, tables and quotes.
    Markdown,
}

/// Lists and quotes inside each other that are shown as such.
const MOST_LEVELS: usize = 8;

/// So many bytes of addresses are written at most. Links after that are plain text.
const MOST_ADDRESSES: usize = 2 << 20;

/// Longer addresses are not written into the text.
const LONGEST_ADDRESS: usize = 2_000;

/// Writes down what is below a node, but for what is left out.
pub(super) fn render(
    document: &Document,
    root: NodeId,
    voice: Voice,
    base: &Base,
    left_out: &dyn Fn(NodeId) -> bool,
) -> String {
    let mut writer = Writer::new(document, voice, base, left_out);
    writer.walk(root, usize::MAX);
    writer.out
}

/// The text below a node on one line, at most so many bytes of it.
pub(super) fn line(document: &Document, root: NodeId, most: usize) -> String {
    cell(document, root, Voice::Plain, &Base::none(), most)
}

/// The same for a cell of a table: other tables in it are left out.
pub(super) fn cell(document: &Document, root: NodeId, voice: Voice, base: &Base, most: usize) -> String {
    let left_out = |node| node != root && document.tree.name(node) == "table";
    let mut writer = Writer::new(document, voice, base, &left_out);
    writer.inline = 1;
    writer.in_cell = true;
    writer.walk(root, most);
    match voice {
        Voice::Plain => cut_line(&writer.out, most),
        // Half a link is none.
        Voice::Markdown => writer.out,
    }
}

/// A text on one line without control characters, at most so many bytes of it.
pub(super) fn cut_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
        if line.len() > most {
            line.truncate(line.floor_char_boundary(most.saturating_sub("...".len())));
            line.push_str("...");
            break;
        }
    }
    line
}

/// What stands between two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    Space,
    Line,
    Blank,
}

/// What the lines of a quote or an item begin with.
#[derive(Debug)]
enum Level {
    Quote,
    Item { mark: String, is_fresh: bool },
}

/// What has been written on this line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Start,
    Digits,
    Words,
}

/// What is to be done when an element ends.
#[derive(Debug)]
enum Close {
    Gap(Gap),
    Level(Gap),
    List(Gap),
    Heading,
    Link,
}

#[derive(Debug)]
enum Link {
    None,
    Waiting(String),
    Open(String),
}

struct Writer<'d> {
    document: &'d Document,
    voice: Voice,
    base: &'d Base,
    left_out: &'d dyn Fn(NodeId) -> bool,
    out: String,
    gap: Gap,
    /// How many levels the last words and the next have in common.
    common: usize,
    levels: Vec<Level>,
    /// The number of the next item, of ordered lists.
    lists: Vec<Option<u64>>,
    line: Line,
    /// The mark of a heading that has no words yet.
    heading: Option<&'static str>,
    link: Link,
    addresses: usize,
    /// Above zero, everything comes on one line.
    inline: usize,
    in_cell: bool,
    open: Vec<(NodeId, Close)>,
}

impl<'d> Writer<'d> {
    fn new(document: &'d Document, voice: Voice, base: &'d Base, left_out: &'d dyn Fn(NodeId) -> bool) -> Self {
        Self {
            document,
            voice,
            base,
            left_out,
            out: String::new(),
            gap: Gap::None,
            common: 0,
            levels: Vec::new(),
            lists: Vec::new(),
            line: Line::Start,
            heading: None,
            link: Link::None,
            addresses: 0,
            inline: 0,
            in_cell: false,
            open: Vec::new(),
        }
    }

    /// Writes until there are enough bytes.
    fn walk(&mut self, root: NodeId, enough: usize) {
        let document = self.document;
        let mut walk = document.tree.walk(root);
        while let Some(step) = walk.next() {
            match step {
                Step::Enter(node) if node != root && (document.is_unread(node) || (self.left_out)(node)) => {
                    self.want(gap_around(document.tree.name(node)));
                    walk.pass_over();
                }
                Step::Enter(node) => match document.tree.kind(node) {
                    Kind::Text(text) => self.words(text),
                    Kind::Element(element) => {
                        if self.enter(node, element) == Inside::Done {
                            walk.pass_over();
                        }
                    }
                    Kind::Other | Kind::Inside(_) => {}
                },
                Step::Leave(node) => self.leave(node),
            }
            if self.out.len() > enough {
                break;
            }
        }
    }

    fn enter(&mut self, node: NodeId, element: &Element) -> Inside {
        match element.name() {
            "br" => self.want(Gap::Line),
            "hr" => self.rule(),
            "pre" | "listing" | "xmp" if self.inline == 0 => return self.code_block(node, element),
            "code" | "kbd" | "samp" | "tt" if self.voice == Voice::Markdown => return self.code(node),
            "table" if self.inline == 0 => return self.table(node),
            "a" => self.link(node, element),
            "h1" => self.heading(node, "# "),
            "h2" => self.heading(node, "## "),
            "h3" => self.heading(node, "### "),
            "h4" => self.heading(node, "#### "),
            "h5" => self.heading(node, "##### "),
            "h6" => self.heading(node, "###### "),
            "ul" | "menu" | "dir" => self.list(node, None),
            "ol" => {
                let first = element.attribute("start").and_then(|start| start.trim().parse().ok()).unwrap_or(1);
                self.list(node, Some(first));
            }
            "li" => self.item(node),
            "dd" => self.level(node, Gap::Line, Level::Item { mark: "- ".into(), is_fresh: true }),
            "blockquote" if self.voice == Voice::Markdown => self.level(node, Gap::Blank, Level::Quote),
            name => {
                let gap = gap_around(name);
                if gap > Gap::None {
                    self.want(gap);
                    self.open.push((node, Close::Gap(gap)));
                }
            }
        }
        Inside::Comes
    }

    fn leave(&mut self, node: NodeId) {
        if self.open.last().is_none_or(|(open, _)| *open != node) {
            return;
        }
        match self.open.pop().map(|(_, close)| close) {
            None => {}
            Some(Close::Gap(gap)) => self.want(gap),
            Some(Close::Level(gap)) => {
                self.levels.pop();
                self.common = self.common.min(self.levels.len());
                self.want(gap);
            }
            Some(Close::List(gap)) => {
                self.lists.pop();
                self.want(gap);
            }
            Some(Close::Heading) => {
                self.heading = None;
                self.inline -= 1;
                self.want(Gap::Blank);
            }
            Some(Close::Link) => {
                self.inline -= 1;
                if let Link::Open(url) = std::mem::replace(&mut self.link, Link::None) {
                    self.out.push_str("](");
                    self.out.push_str(&url);
                    self.out.push(')');
                }
            }
        }
    }

    /// Asks for a gap before the next words.
    fn want(&mut self, gap: Gap) {
        let gap = if self.inline > 0 { gap.min(Gap::Space) } else { gap };
        // Nothing comes between the mark of an item and its first words.
        if !matches!(self.levels.last(), Some(Level::Item { is_fresh: true, .. })) {
            self.gap = self.gap.max(gap);
        }
    }

    fn level(&mut self, node: NodeId, gap: Gap, level: Level) {
        if self.inline > 0 {
            self.want(gap);
            self.open.push((node, Close::Gap(gap)));
            return;
        }
        self.want(gap);
        self.levels.push(level);
        self.open.push((node, Close::Level(gap)));
    }

    fn list(&mut self, node: NodeId, first: Option<u64>) {
        let gap = if self.lists.is_empty() { Gap::Blank } else { Gap::Line };
        self.want(gap);
        self.lists.push(first);
        self.open.push((node, Close::List(gap)));
    }

    fn item(&mut self, node: NodeId) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => "- ".to_owned(),
        };
        self.level(node, Gap::Line, Level::Item { mark, is_fresh: true });
    }

    fn heading(&mut self, node: NodeId, mark: &'static str) {
        self.want(Gap::Blank);
        if self.voice == Voice::Plain || self.inline > 0 {
            self.open.push((node, Close::Gap(Gap::Blank)));
            return;
        }
        self.heading = Some(mark);
        self.inline += 1;
        self.open.push((node, Close::Heading));
    }

    fn link(&mut self, node: NodeId, element: &Element) {
        if self.voice == Voice::Plain || !matches!(self.link, Link::None) || self.addresses > MOST_ADDRESSES {
            return;
        }
        let Some(url) = links::target(element, self.base).filter(|url| url.len() <= LONGEST_ADDRESS) else { return };
        self.addresses += url.len();
        self.link = Link::Waiting(in_brackets(&url));
        self.inline += 1;
        self.open.push((node, Close::Link));
    }

    fn rule(&mut self) {
        self.want(Gap::Blank);
        if self.voice == Voice::Markdown && self.inline == 0 && !self.out.is_empty() {
            self.begin();
            self.out.push_str("---");
            self.line = Line::Words;
            self.want(Gap::Blank);
        }
    }

    /// A piece of code in a line of text.
    fn code(&mut self, node: NodeId) -> Inside {
        let code = self.verbatim(node);
        let code: Vec<_> = code.split_whitespace().collect();
        let code = code.join(" ");
        if code.is_empty() {
            return Inside::Done;
        }
        let fence = "`".repeat(longest_run(&code) + 1);
        let pad = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
        let code = if self.in_cell { code.replace('|', "\\|") } else { code };
        self.begin();
        for piece in [&fence, pad, &code, pad, &fence] {
            self.out.push_str(piece);
        }
        self.line = Line::Words;
        Inside::Done
    }

    /// A block of code, with its lines as they are.
    fn code_block(&mut self, node: NodeId, element: &Element) -> Inside {
        let code = self.verbatim(node);
        let lines: Vec<_> = code.lines().map(str::trim_end).collect();
        let first = lines.iter().position(|line| !line.is_empty());
        let Some(first) = first else { return Inside::Done };
        let last = lines.iter().rposition(|line| !line.is_empty()).unwrap_or(first);
        self.want(Gap::Blank);
        let fence = "`".repeat((longest_run(&code) + 1).max(3));
        if self.voice == Voice::Markdown {
            self.whole_line(&format!("{fence}{}", self.language(node, element)));
        }
        for line in lines.iter().take(last + 1).skip(first) {
            self.whole_line(line);
        }
        if self.voice == Voice::Markdown {
            self.whole_line(&fence);
        }
        self.want(Gap::Blank);
        Inside::Done
    }

    /// The language code is written in, as far as its classes say so.
    fn language(&self, node: NodeId, element: &Element) -> String {
        let tree = &self.document.tree;
        let inner = tree.children(node).filter_map(|child| tree.element(child));
        let mut classes = std::iter::once(element).chain(inner).filter_map(|element| element.attribute("class"));
        let said = classes.find_map(|classes| {
            let mut classes = classes.split_ascii_whitespace();
            classes.find_map(|class| class.strip_prefix("language-").or(class.strip_prefix("lang-")))
        });
        let is_name = |name: &&str| {
            name.len() <= 20 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'#' | b'-'))
        };
        said.filter(is_name).unwrap_or_default().to_owned()
    }

    /// A table of data in rows. One that only arranges the page, or holds another, is read like any other block.
    fn table(&mut self, node: NodeId) -> Inside {
        let (document, voice, base) = (self.document, self.voice, self.base);
        let mut read = |cell_node| cell(document, cell_node, voice, base, tables::LONGEST_CELL);
        let Some(table) = tables::data(document, node, &mut read) else {
            self.want(Gap::Blank);
            self.open.push((node, Close::Gap(Gap::Blank)));
            return Inside::Comes;
        };
        self.want(Gap::Blank);
        if let Some(caption) = &table.caption {
            self.words(caption);
            self.want(Gap::Blank);
        }
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        if voice == Voice::Markdown && !table.has_header {
            self.row(&vec![String::new(); columns]);
            self.row(&vec!["---".to_owned(); columns]);
        }
        for (at, row) in table.rows.iter().enumerate() {
            self.row(row);
            if voice == Voice::Markdown && table.has_header && at == 0 {
                self.row(&vec!["---".to_owned(); columns]);
            }
        }
        self.want(Gap::Blank);
        Inside::Done
    }

    fn row(&mut self, cells: &[String]) {
        let row = cells.join(" | ");
        match self.voice {
            Voice::Plain => self.whole_line(row.trim_end()),
            Voice::Markdown => self.whole_line(&format!("| {row} |")),
        }
    }

    /// A line that is there already.
    fn whole_line(&mut self, line: &str) {
        self.want(Gap::Line);
        self.begin();
        self.out.push_str(line);
        self.line = Line::Words;
        self.gap = Gap::Line;
    }

    /// All text below a node with its line breaks, without control characters.
    fn verbatim(&self, root: NodeId) -> String {
        let document = self.document;
        let mut text = String::new();
        let mut walk = document.tree.walk(root);
        while let Some(step) = walk.next() {
            match step {
                Step::Enter(node) if document.is_unread(node) => walk.pass_over(),
                Step::Enter(node) => match document.tree.kind(node) {
                    Kind::Text(own) => text.extend(own.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control())),
                    Kind::Element(element) if element.name() == "br" => text.push('\n'),
                    Kind::Element(_) | Kind::Other | Kind::Inside(_) => {}
                },
                Step::Leave(node) => {
                    if gap_around(document.tree.name(node)) >= Gap::Line && !text.ends_with('\n') {
                        text.push('\n');
                    }
                }
            }
        }
        text
    }

    /// Writes words of the page.
    fn words(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c.is_whitespace() {
                self.want(Gap::Space);
            } else if !c.is_control() {
                self.begin();
                self.character(c, rest.as_str());
            }
        }
    }

    /// Writes what is waiting before the next words.
    fn begin(&mut self) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        if !self.out.is_empty() && gap >= Gap::Line {
            if gap == Gap::Blank {
                self.out.push('\n');
                self.begin_line(self.common);
                let end = self.out.trim_end_matches(' ').len();
                self.out.truncate(end);
            }
            self.out.push('\n');
            self.line = Line::Start;
        }
        if self.line == Line::Start {
            self.begin_line(self.levels.len());
            if let Some(mark) = self.heading.take() {
                self.out.push_str(mark);
                self.line = Line::Words;
            }
        } else if gap == Gap::Space {
            self.out.push(' ');
        }
        self.common = self.levels.len();
        if let Link::Waiting(_) = self.link
            && let Link::Waiting(url) = std::mem::replace(&mut self.link, Link::None)
        {
            self.out.push('[');
            self.line = Line::Words;
            self.link = Link::Open(url);
        }
    }

    /// What a line begins with inside these levels.
    fn begin_line(&mut self, levels: usize) {
        for (at, level) in self.levels.iter_mut().enumerate().take(levels) {
            match level {
                Level::Quote if at < MOST_LEVELS => self.out.push_str("> "),
                Level::Item { mark, is_fresh: is_fresh @ true } => {
                    self.out.push_str(mark);
                    *is_fresh = false;
                }
                Level::Item { mark, is_fresh: false } if at < MOST_LEVELS => {
                    self.out.extend(std::iter::repeat_n(' ', mark.len()));
                }
                Level::Quote | Level::Item { .. } => {}
            }
        }
    }

    /// Writes one character, so that it means itself.
    fn character(&mut self, c: char, rest: &str) {
        if self.voice == Voice::Markdown && self.is_mark(c, rest) {
            self.out.push('\\');
        }
        self.out.push(c);
        self.line = match self.line {
            Line::Start | Line::Digits if c.is_ascii_digit() => Line::Digits,
            Line::Start | Line::Digits | Line::Words => Line::Words,
        };
    }

    /// Could it be read as a mark where it stands?
    fn is_mark(&self, c: char, rest: &str) -> bool {
        match c {
            '\\' | '`' | '*' | '~' | '[' | ']' | '<' => true,
            '#' | '-' | '+' | '>' | '=' => self.line == Line::Start,
            // A number is the mark of an item only in front of a gap.
            '.' | ')' => self.line == Line::Digits && rest.chars().next().is_none_or(char::is_whitespace),
            '|' => self.in_cell || self.line == Line::Start,
            // Inside a word it marks nothing.
            '_' => {
                let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !(is_word(self.out.chars().next_back()) && is_word(rest.chars().next()))
            }
            '&' => rest.chars().next().is_none_or(|next| next == '#' || next.is_ascii_alphanumeric()),
            _ => false,
        }
    }
}

/// Is what an element holds still to be written?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Comes,
    Done,
}

/// What stands around an element of this name.
fn gap_around(name: &str) -> Gap {
    match name {
        "address" | "article" | "aside" | "blockquote" | "details" | "dl" | "fieldset" | "figure" | "footer"
        | "form" | "header" | "main" | "nav" | "p" | "pre" | "search" | "section" | "table" => Gap::Blank,
        "body" | "button" | "caption" | "center" | "dd" | "dialog" | "div" | "dt" | "figcaption" | "h1" | "h2"
        | "h3" | "h4" | "h5" | "h6" | "hgroup" | "html" | "legend" | "li" | "ol" | "optgroup" | "option" | "select"
        | "summary" | "tbody" | "textarea" | "tfoot" | "thead" | "tr" | "ul" => Gap::Line,
        "td" | "th" => Gap::Space,
        _ => Gap::None,
    }
}

/// The address as it may stand between the brackets of a link.
fn in_brackets(url: &str) -> String {
    let mut written = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '(' => written.push_str("%28"),
            ')' => written.push_str("%29"),
            '<' => written.push_str("%3C"),
            '>' => written.push_str("%3E"),
            '\\' => written.push_str("%5C"),
            '|' => written.push_str("%7C"),
            c => written.push(c),
        }
    }
    written
}

/// How many backticks stand in a row at most.
fn longest_run(code: &str) -> usize {
    code.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
