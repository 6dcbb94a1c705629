//! The tables of a page, as rows of cells.

use std::collections::BTreeMap;

use super::{
    Document,
    links::Base,
    render::{Voice, cell, line},
    tree::{NodeId, Step},
};

/// A longer cell is cut, in bytes.
pub(super) const LONGEST_CELL: usize = 2_000;

/// So many columns, rows and bytes are read of one table.
const MOST_COLUMNS: usize = 100;
const MOST_ROWS: usize = 5_000;
const MOST_BYTES: usize = 1 << 20;

/// So many tables are read of one page.
const MOST_TABLES: usize = 100;

/// A table with longer cells than this arranges a page, or holds prose.
const LONGEST_DATA: usize = 400;

/// A table. A cell that spans several rows or columns stands in every one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it is called.
    pub caption: Option<String>,
    /// Is the first row one of headings?
    pub has_header: bool,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
    /// The table goes on.
    pub cut: bool,
}

/// The tables of a page.
pub(super) fn all(document: &Document) -> Vec<Table> {
    let mut read = |node| cell(document, node, Voice::Plain, &Base::none(), LONGEST_CELL);
    let tables = document.read_nodes(document.tree.body()).filter(|node| document.tree.name(*node) == "table");
    let tables = tables.take(MOST_TABLES).map(|node| table(document, node, &mut read));
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// The table, if it is one of data: rows and columns of short cells, and no table inside.
pub(super) fn data(document: &Document, node: NodeId, read: &mut dyn FnMut(NodeId) -> String) -> Option<Table> {
    if !looks_like_data(document, node) {
        return None;
    }
    let table = table(document, node, read);
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_short = table.rows.iter().flatten().all(|cell| cell.len() <= LONGEST_DATA);
    (table.rows.len() > 1 && columns > 1 && is_short && !table.cut).then_some(table)
}

/// Is there nothing in it that does not fit into a row? The walk ends at the first thing that does not, so that tables
/// inside each other are not walked through again and again.
fn looks_like_data(document: &Document, table: NodeId) -> bool {
    let tree = &document.tree;
    let inside = document.read_nodes(table).skip(1);
    !inside.map(|node| tree.name(node)).any(|name| {
        matches!(
            name,
            "table" | "blockquote" | "pre" | "form" | "h1" | "h2" | "h3" | "article" | "section" | "ul" | "ol"
        )
    })
}

fn table(document: &Document, table: NodeId, read: &mut dyn FnMut(NodeId) -> String) -> Table {
    let tree = &document.tree;
    let mut grid = Grid::default();
    let mut walk = tree.walk(table);
    while let Some(step) = walk.next() {
        let Step::Enter(node) = step else { continue };
        if node == table {
            continue;
        }
        match tree.name(node) {
            _ if document.is_unread(node) => walk.pass_over(),
            "caption" => {
                grid.table.caption = Some(line(document, node, LONGEST_CELL)).filter(|caption| !caption.is_empty());
                walk.pass_over();
            }
            "tr" => {
                if !grid.row(document, node, read) {
                    break;
                }
                walk.pass_over();
            }
            "table" => walk.pass_over(),
            _ => {}
        }
    }
    grid.table
}

/// A table that is being read.
#[derive(Debug, Default)]
struct Grid {
    table: Table,
    bytes: usize,
    /// By column, the cells that reach down into the next rows, and how many.
    reaching: BTreeMap<usize, (usize, String)>,
}

impl Grid {
    /// Reads a row; false when there is no room for more.
    fn row(&mut self, document: &Document, row: NodeId, read: &mut dyn FnMut(NodeId) -> String) -> bool {
        let tree = &document.tree;
        if self.table.rows.len() == MOST_ROWS || self.bytes > MOST_BYTES {
            self.table.cut = true;
            return false;
        }
        let mut cells: Vec<String> = Vec::new();
        let mut are_headings = true;
        for node in tree.children(row).filter(|node| !document.is_unread(*node)) {
            let Some(element) = tree.element(node).filter(|element| matches!(element.name(), "td" | "th")) else {
                continue;
            };
            are_headings &= element.name() == "th";
            let span = |name| element.attribute(name).and_then(|text| text.trim().parse().ok()).unwrap_or(1usize);
            let text = read(node);
            self.reach(&mut cells);
            // A span of 0 rows reaches to the end.
            let rows = Some(span("rowspan")).filter(|rows| *rows > 0).unwrap_or(MOST_ROWS);
            for _ in 0..span("colspan").clamp(1, MOST_COLUMNS) {
                if cells.len() == MOST_COLUMNS || self.bytes > MOST_BYTES {
                    self.table.cut = true;
                    break;
                }
                if rows > 1 {
                    self.reaching.insert(cells.len(), (rows, text.clone()));
                }
                self.bytes += text.len() + 1;
                cells.push(text.clone());
            }
        }
        self.end(cells, are_headings);
        true
    }

    /// Puts in the cells that reach down from rows above, as far as they stand next.
    fn reach(&mut self, cells: &mut Vec<String>) {
        while let Some((_, text)) = self.reaching.get(&cells.len()) {
            self.bytes += text.len() + 1;
            cells.push(text.clone());
        }
    }

    fn end(&mut self, mut cells: Vec<String>, are_headings: bool) {
        self.reach(&mut cells);
        // What reaches down further right has nothing on its left.
        let last = self.reaching.keys().next_back().map_or(0, |last| last + 1);
        while cells.len() < last {
            cells.push(String::new());
            self.reach(&mut cells);
        }
        self.reaching.retain(|_, (rows, _)| {
            *rows -= 1;
            *rows > 0
        });
        if cells.iter().all(String::is_empty) {
            return;
        }
        if self.table.rows.is_empty() {
            self.table.has_header = are_headings;
        }
        self.table.rows.push(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Vec<Table> {
        Document::read(html).tables()
    }

    /// The rows of the only table, cells joined by `|`.
    fn check(html: &str, expected: &[&str]) {
        let tables = read(html);
        let rows: Vec<_> = tables.iter().flat_map(|table| &table.rows).map(|row| row.join("|")).collect();
        assert_eq!(rows, expected, "{html}");
    }

    #[test]
    fn cells_are_where_they_are_seen() {
        check("<table><tr><td>a<td>b<tr><td>c<td>d</table>", &["a|b", "c|d"]);
        check("<table><tr><td colspan=2>a<tr><td>b<td>c</table>", &["a|a", "b|c"]);
        check("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", &["a|b", "a|c"]);
        check("<table><tr><td>a<td rowspan=3>b<tr><td>c<tr><td>d<tr><td>e<td>f</table>", &["a|b", "c|b", "d|b", "e|f"]);
        check("<table><tr><td rowspan=2 colspan=2>a<td>b<tr><td>c</table>", &["a|a|b", "a|a|c"]);
        check("<table><tr><td>a<td>b<td rowspan=2>c<tr><td>d</table>", &["a|b|c", "d||c"]);
        check("<table><tr><td rowspan=0>a<td>b<tr><td>c<tr><td>d</table>", &["a|b", "a|c", "a|d"]);
        check("<table><tr><td colspan=0>a<td colspan=-2>b<td colspan=x>c</table>", &["a|b|c"]);
    }

    #[test]
    fn cells_hold_one_line_and_no_other_table() {
        check("<table><tr><td> a <br> b<p>c</p><script>x</script><td>d</table>", &["a b c|d"]);
        let html = "<table><tr><td>a<table><tr><td>b</table>c<td>d</table>";
        let rows: Vec<_> = read(html).into_iter().map(|table| table.rows).collect();
        assert_eq!(rows, [vec![vec!["a c".to_owned(), "d".to_owned()]], vec![vec!["b".to_owned()]]]);
    }

    #[test]
    fn a_table_has_a_name_and_a_head() {
        let html = "<table><caption>t <b>u</b></caption><thead><tr><th>a<th>b</thead><tbody><tr><th>c<td>d</table>";
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned(), "d".to_owned()]];
        assert_eq!(read(html), [Table { caption: Some("t u".into()), has_header: true, rows, cut: false }]);
        let headless = read("<table><tr><th>a<td>b<tr><td>c<td>d</table>");
        assert_eq!(headless.iter().map(|table| table.has_header).collect::<Vec<_>>(), [false]);
        assert_eq!(read("<table><tr><td></table><table></table>a"), []);
    }

    #[test]
    fn spans_are_bounded() {
        let wide = read("<table><tr><td colspan=999999999>a<td>b<tr><td>c</table>");
        assert_eq!(
            wide.iter().map(|t| (t.rows.iter().map(Vec::len).collect::<Vec<_>>(), t.cut)).collect::<Vec<_>>(),
            [(vec![100, 1], true)]
        );
        let tall = read(&format!("<table><tr><td rowspan=99999>a<td>b{}</table>", "<tr><td>c".repeat(6_000)));
        assert_eq!(tall.iter().map(|table| (table.rows.len(), table.cut)).collect::<Vec<_>>(), [(5_000, true)]);
        let row = format!("<tr>{}", "<td colspan=100 rowspan=100>".to_owned() + &"x".repeat(5_000));
        let heavy = read(&format!("<table>{}</table>", row.repeat(50)));
        let bytes = |table: &Table| table.rows.iter().flatten().map(String::len).sum::<usize>();
        assert!(heavy.iter().all(|table| table.cut && bytes(table) < 2 * MOST_BYTES), "{:?}", heavy.first().map(bytes));
        assert_eq!(read(&"<table><tr><td>a</table>".repeat(500)).len(), 100);
    }
}
