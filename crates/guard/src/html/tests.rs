//! Whole pages, read in every way.

use html5ever::{ParseOpts, tendril::TendrilSink as _};
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::{tree::Kind, *};

fn check_text(html: &str, expected: &str) {
    assert_eq!(Document::read(html).text(), expected, "{html}");
}

/// The whole body as markdown.
fn markdown(html: &str) -> String {
    let document = Document::read(html);
    let base = Base::of(&document, Some("https://example.com/dir/page"));
    render(&document, document.tree.body(), Voice::Markdown, &base, &|_| false)
}

fn check_markdown(html: &str, expected: &str) {
    assert_eq!(markdown(html), expected, "{html}");
}

#[test]
fn blocks_make_lines_and_spaces_collapse() {
    check_text("a  b\n\tc&nbsp; d", "a b c d");
    check_text("<div>a<div>b</div></div><div>c</div>", "a\nb\nc");
    check_text("<p>a</p>\n\n<p> b <b> c </b>d </p>e", "a\n\nb c d\n\ne");
    check_text("a<br>b<br><br>c", "a\nb\nc");
    check_text("<h1>a</h1>b", "a\n\nb");
    check_text("<p></p><div> </div><p>a</p><p> </p>", "a");
    check_text("a<hr>b", "a\n\nb");
    check_text("<span>a</span><span>b</span>", "ab");
    check_text("<details><summary>a</summary>b</details>", "a\nb");
    check_text("<select><option>a<option>b</select>", "a\nb");
    check_text("a\u{7}b\u{1b}[31mc\u{85}d", "ab[31mc d");
}

#[test]
fn what_no_reader_sees_is_not_read() {
    check_text("a<script>b</script><style>c</style><!-- d --><noscript>e</noscript>f", "af");
    check_text("a<template>b</template><object>c</object><canvas>d</canvas><video>e</video>f", "af");
    check_text("a<svg><text>b</text><title>c</title></svg><math><mi>d</mi></math>e", "ae");
    check_text("<head><title>a</title></head><body>b", "b");
    check_text("<title>a</title>b", "b");
    // A drawing may hold HTML, which belongs to the drawing.
    check_text("a<svg><foreignObject><p>b</p></foreignObject></svg>c", "ac");
}

#[test]
fn lists_keep_their_marks_and_their_depth() {
    check_text("<ul><li>a<li>b<ul><li>c<li>d</ul><li>e</ul>f", "- a\n- b\n  - c\n  - d\n- e\n\nf");
    check_text("<ol><li>a<li>b</ol>", "1. a\n2. b");
    check_text("<ol start=9><li>a<li>b<ul><li>c</ul></ol>", "9. a\n10. b\n    - c");
    check_text("<ol start=-3><li>a</ol><ol start=x><li>b</ol>", "1. a\n\n1. b");
    check_text("<ul><li><p>a</p><p>b</p></li><li></li><li> </li><li>c</ul>", "- a\n\n  b\n\n- c");
    check_text("<ul><li><ul><li>a</ul><li>b</ul>", "- - a\n- b");
    check_text("<dl><dt>a<dd>b<dd>c<dt>d</dl>", "a\n- b\n- c\nd");
    check_text("<li>a<li>b", "- a\n- b");
    check_text("<ol start=18446744073709551615><li>a<li>b</ol>", "18446744073709551615. a\n18446744073709551615. b");
}

#[test]
fn lists_inside_lists_without_end_are_not_indented_without_end() {
    let html = format!("{}<p>a<p>b", "<ul><li>".repeat(100));
    let text = Document::read(&html).text();
    assert_eq!(text, format!("{}a\n\n{}b", "- ".repeat(100), "  ".repeat(8)));
}

#[test]
fn code_keeps_its_lines() {
    check_text("a<pre>\n\n b\n\n  c \n</pre>d", "a\n\n b\n\n  c\n\nd");
    check_text("<pre>a<br>b<div>c</div><div>d</div>e</pre>", "a\nbc\nd\ne");
    check_text("<pre> </pre>a", "a");
    check_text("<ul><li>a<pre>b\n c</pre></ul>", "- a\n\n  b\n   c");
    check_text("<pre>a\tb<script>x</script>\u{8}c</pre>", "a\tbc");
}

#[test]
fn tables_of_data_have_rows() {
    check_text("<table><tr><th>a<th>b<tr><td>c<td>d</table>", "a | b\nc | d");
    check_text("<table><caption>t</caption><tr><td>a<td><p>b</p><p>c</p><tr><td>d</table>", "t\n\na | b c\nd");
    check_text(
        "<table><tr><td>a</td></tr><tr><td><table><tr><td>b<td>c<tr><td>d<td>e</table></table>",
        "a\n\nb | c\nd | e",
    );
}

#[test]
fn headings_lists_quotes_and_code_have_their_marks() {
    check_markdown("<h1>a</h1><h2>b <i>c</i></h2>d<h6>e</h6>", "# a\n\n## b c\n\nd\n\n###### e");
    check_markdown("<h2></h2><h3> </h3>a", "a");
    check_markdown("<h1>a<br>b<p>c</p></h1>d", "# a b c\n\nd");
    check_markdown("<ul><li>a<ol><li>b</ol></ul>", "- a\n  1. b");
    check_markdown("a<blockquote>b<p>c</p><blockquote>d</blockquote></blockquote>e", "a\n\n> b\n>\n> c\n>\n> > d\n\ne");
    check_markdown("<ul><li>a<blockquote>b</blockquote></ul>", "- a\n\n  > b");
    check_markdown("a<hr>b", "a\n\n---\n\nb");
    check_markdown("<hr>a<hr>", "a\n\n---");
    check_markdown(
        "a <code>b  c</code>d <code>`</code> <code>a``b</code><code> </code>",
        "a `b c`d `` ` `` ```a``b```",
    );
    check_markdown("<pre>a</pre>", "```\na\n```");
    check_markdown("<pre><code class='hljs language-rust x'>fn</code></pre>", "```rust\nfn\n```");
    check_markdown("<pre class='language-a`b'>a</pre>", "```\na\n```");
    check_markdown("<pre>```\na\n````</pre>", "`````\n```\na\n````\n`````");
    check_markdown("<ul><li><pre>a\nb</pre></ul>", "- ```\n  a\n  b\n  ```");
    check_markdown("<dl><dt>a<dd>b</dl>", "a\n- b");
}

#[test]
fn links_have_their_whole_address_and_lead_somewhere() {
    check_markdown("<a href=x>a</a>", "[a](https://example.com/dir/x)");
    check_markdown("a <a href=/x>  b  </a> c", "a [b](https://example.com/x) c");
    check_markdown("<a href='/a(b)<c>|\\d'>a</a>", "[a](https://example.com/a%28b%29%3Cc%3E%7C/d)");
    check_markdown("<a href=/x></a><a href=/y><img alt=z></a>b", "b");
    check_markdown(
        "<a href='#x'>a</a> <a href='page#x'>b</a> <a href='page'>c</a>",
        "a b [c](https://example.com/dir/page)",
    );
    check_markdown(
        "<a href='javascript:alert(1)'>a</a><a href='data:text/html,x'>b</a><a href='vbscript:x'>c</a>",
        "abc",
    );
    check_markdown("<a href=' java\nscript:alert(1)'>a</a><a href='file:///etc/passwd'>b</a>", "ab");
    check_markdown("<a href='https://u:p@h.example/'>a</a>", "a");
    check_markdown("<a href=mailto:a@b.example>a</a>", "[a](mailto:a@b.example)");
    check_markdown("<a href=/x><h2>a</h2><p>b</p></a>c", "[a b](https://example.com/x) c");
    check_markdown("<a href='//other.example'>a</a>", "[a](https://other.example/)");
    check_markdown(&format!("<a href='/{}'>a</a>", "x".repeat(3_000)), "a");
    check_markdown("<base href='https://b.example/c/'><a href=x>a</a>", "[a](https://b.example/c/x)");
    check_markdown("<base href='javascript:x'><a href=x>a</a>", "[a](https://example.com/dir/x)");
    check_markdown("<h2><a href=/x>a</a></h2>", "## [a](https://example.com/x)");
    check_markdown("<a href=/x><code>a</code></a>", "[`a`](https://example.com/x)");
    check_markdown("<img src=/x alt=y>a<img src=z>", "a");
}

#[test]
fn tables_of_data_have_a_head() {
    check_markdown("<table><tr><th>a<th>b<tr><td>c<td>d|e</table>", "| a | b |\n| --- | --- |\n| c | d\\|e |");
    check_markdown("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "|  |  |\n| --- | --- |\n| a | b |\n| c | d |");
    check_markdown(
        "<table><tr><th>a<th>b<tr><td><a href=/x>c</a><td><code>d|e</code></table>f",
        "| a | b |\n| --- | --- |\n| [c](https://example.com/x) | `d\\|e` |\n\nf",
    );
    check_markdown("<table><tr><td><h2>a</h2><td>b<tr><td>c<td>d</table>", "## a\n\nb\nc d");
}

#[test]
fn text_of_a_page_cannot_become_a_mark() {
    check_markdown("# a", "\\# a");
    check_markdown(
        "<p>- a</p><p>+ b</p><p>1. c</p><p>2) d</p><p>3.5 e</p>",
        "\\- a\n\n\\+ b\n\n1\\. c\n\n2\\) d\n\n3.5 e",
    );
    check_markdown("<p>&gt; a</p><p>=== b</p><p>~~~ c</p><p>| d |</p>", "\\> a\n\n\\=== b\n\n\\~\\~\\~ c\n\n\\| d |");
    check_markdown("[a](https://evil.example/) ![b](c)", "\\[a\\](https://evil.example/) !\\[b\\](c)");
    check_markdown("```a``` *b* _c_ d_e \\ &lt;f&gt;", "\\`\\`\\`a\\`\\`\\` \\*b\\* \\_c\\_ d_e \\\\ \\<f>");
    check_markdown("&amp;lt;b&amp;gt; a &amp; b &amp;#60;", "\\&lt;b\\&gt; a & b \\&#60;");
    check_markdown("<a href=/x>a](/y) [b</a>", "[a\\](/y) \\[b](https://example.com/x)");
    check_markdown("<ul><li># a<li>- b</ul>", "- \\# a\n- \\- b");
    check_markdown("<p>1<b>.</b> a</p>", "1\\. a");
    check_markdown("<pre>```\n# a</pre>", "````\n```\n# a\n````");
}

proptest! {
    /// What a reader of markdown makes of any text: a paragraph with this text and nothing else.
    #[test]
    fn any_text_is_only_text(words in prop::collection::vec("[-#>*_`~|=+.)(\\[\\]!<&;:\\\\a1 \u{e9}]{1,8}", 1..8)) {
        let written: String = words.iter().map(|word| format!("<span>{}</span>", word.replace('&', "&amp;").replace('<', "&lt;"))).collect();
        let found = markdown(&format!("<p>{written}</p>"));
        let mut text = String::new();
        let read_as = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES;
        for event in Parser::new_ext(&found, read_as) {
            match event {
                Event::Text(piece) => text.push_str(&piece),
                Event::Start(Tag::Paragraph) | Event::End(_) => {}
                other => prop_assert!(false, "{other:?} in {found:?}"),
            }
        }
        let expected: Vec<_> = words.concat().split_whitespace().map(str::to_owned).collect();
        prop_assert_eq!(text, expected.join(" "));
    }

    /// The tree is the one that the tree builder makes with its own tokenizer, which takes the same and has no bounds.
    #[test]
    fn the_tree_is_that_of_browsers(pieces in prop::collection::vec(piece(), 0..60)) {
        let html = pieces.concat();
        let other = html5ever::parse_document(tree::Sink::new(), ParseOpts::default()).one(html.as_str());
        prop_assert_eq!(outline(&tokens::tree(&html)), outline(&other), "{}", html);
    }

    /// Whatever the page is, all of this ends and does not panic, and what is not read is not in it.
    #[test]
    fn any_page_is_read(pieces in prop::collection::vec(piece(), 0..60)) {
        let html = pieces.concat();
        let document = Document::read(&html);
        let page = document.page(Some("https://example.com/"));
        let tables = document.tables();
        let all = format!("{} {page:?} {tables:?} {:?}", document.text(), document.metadata(None));
        prop_assert!(!all.contains("secret"), "{html}\n{all}");
        prop_assert!(!all.contains("javascript:"), "{html}\n{all}");
        if !html.contains("<pre") {
            prop_assert!(!document.text().contains("\n\n\n"), "{html}");
            prop_assert_eq!(document.text().trim().to_owned(), document.text(), "{}", html);
        }
    }
}

/// The elements and the words of a tree. Comments part spaces from spaces in one of the two, so these are left out.
fn outline(tree: &Tree) -> String {
    let mut outline = String::new();
    for step in tree.walk(NodeId::DOCUMENT) {
        match step {
            Step::Enter(node) => match tree.kind(node) {
                Kind::Text(text) => outline.extend(text.split_whitespace()),
                Kind::Element(element) => outline.push_str(&format!("<{}>", element.name())),
                Kind::Other | Kind::Inside(_) => {}
            },
            Step::Leave(node) if tree.element(node).is_some() => outline.push_str("</>"),
            Step::Leave(_) => {}
        }
    }
    outline
}

/// Something that stands in pages.
fn piece() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "p",
        "div",
        "b",
        "a",
        "i",
        "table",
        "tr",
        "td",
        "th",
        "caption",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "h1",
        "h2",
        "select",
        "option",
        "form",
        "button",
        "svg",
        "math",
        "mi",
        "template",
        "main",
        "article",
        "nav",
        "body",
        "html",
        "head",
        "frameset",
        "dd",
        "dt",
        "br",
        "hr",
        "font",
        "nobr",
        "marquee",
    ]);
    prop_oneof![
        3 => names.clone().prop_map(|name| format!("<{name}>")),
        1 => (names.clone(), "[a-c]{0,2}").prop_map(|(name, id)| format!("<{name} id='{id}' colspan=3 rowspan=2 href='{id}'>")),
        3 => names.prop_map(|name| format!("</{name}>")),
        2 => "[ a-z\n|#*`]{0,12}".prop_map(|text| text),
        1 => Just("<script>secret</script>".to_owned()),
        1 => Just("<style>secret</style>".to_owned()),
        1 => Just("<!-- secret -->".to_owned()),
        1 => Just("<a href='javascript:secret'>x</a>".to_owned()),
    ]
}
