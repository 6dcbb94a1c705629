//! `html_parse`: one reading of a piece of HTML.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, Fault, SafetyClass, ToolDef, Truncated};
use toolgate_guard::{
    html::{self, Document},
    url::WebUrl,
};

use super::fault::BAD_BASE;
use crate::{
    Answer, Cx, Tool,
    files::{
        fault::said,
        text::{byte_budget, cut_items, prefix, remark, tell_cut},
    },
};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "html_parse".into(),
            summary: "Take the text, the links, the metadata or the tables out of a piece of HTML.".into(),
            description: "Reads `html` the way browsers do, whatever is wrong with it, and gives one of: `text`, what a \
                reader sees; `links`, each address once, relative ones completed with `base_url`; `metadata`, such as title, \
                description and Open Graph properties; `tables`, as rows of cells, where a cell that spans several rows or \
                columns stands in every one of them. It fetches nothing: for a page on the web use `fetch_url` or \
                `read_webpage`."
                .into(),
            category: Category::Web,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(10),
            examples: vec![
                Example {
                    title: "The text".into(),
                    arguments: json!({ "html": "<h1>Hello</h1><p>a <b>b</b><script>c()</script>" }),
                },
                Example {
                    title: "The links".into(),
                    arguments: json!({
                        "html": "<a href='/next'>on</a>", "mode": "links", "base_url": "https://example.com/a",
                    }),
                },
                Example {
                    title: "The metadata".into(),
                    arguments: json!({ "html": "<title>T</title><meta name=description content=D>", "mode": "metadata" }),
                },
                Example {
                    title: "The tables".into(),
                    arguments: json!({
                        "html": "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "mode": "tables",
                    }),
                },
            ],
            failures: said([&BAD_BASE].into_iter()),
            ..ToolDef::default()
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The HTML: a whole page or a piece of one.
    html: String,
    /// What to take out of it.
    #[serde(default)]
    mode: Mode,
    /// Where the HTML is from, to complete relative addresses.
    #[serde(default)]
    base_url: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Text,
    Links,
    Metadata,
    Tables,
}

/// What was asked for; the others are null.
#[derive(Default, Serialize, JsonSchema)]
struct Output {
    /// What a reader sees.
    text: Option<String>,
    /// Where it leads.
    links: Option<Vec<Link>>,
    /// What it says about itself.
    metadata: Option<Metadata>,
    /// Its tables.
    tables: Option<Vec<Table>>,
    /// The HTML is too large to be read to its end.
    cut: bool,
}

#[derive(Serialize, JsonSchema)]
struct Link {
    /// What it says.
    text: String,
    /// Where it leads.
    url: String,
}

#[derive(Serialize, JsonSchema)]
struct Metadata {
    /// The title.
    title: Option<String>,
    /// What it is about.
    description: Option<String>,
    /// The address it would like to be known by.
    canonical: Option<String>,
    /// The language it is in.
    language: Option<String>,
    /// The encoding it says it has.
    charset: Option<String>,
    /// The Open Graph properties, such as `og:image`.
    open_graph: BTreeMap<String, String>,
}

#[derive(Serialize, JsonSchema)]
struct Table {
    /// What it is called.
    caption: Option<String>,
    /// The first row is one of headings.
    has_header: bool,
    /// The cells of each row.
    rows: Vec<Vec<String>>,
    /// The table goes on.
    truncated: bool,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let base = input.base_url.as_deref();
    if let Some(base) = base
        && let Err(problem) = WebUrl::read(base)
    {
        let message = format!("`base_url` cannot be used: {problem}");
        return Err(BAD_BASE.failed(message, "Write it whole, with `https://`, or leave it out."));
    }
    let document = Document::read(&input.html);
    cx.check()?;
    let (output, mut text, cut) = match input.mode {
        Mode::Text => text(cx, &document),
        Mode::Links => links(cx, document.links(base)),
        Mode::Metadata => metadata(document.metadata(base)),
        Mode::Tables => tables(cx, document.tables()),
    };
    if document.is_cut() {
        remark(&mut text, "the HTML is too large to be read to its end");
    }
    Ok(Answer::with_text(Output { cut: document.is_cut(), ..output }, text).truncated(cut))
}

/// The output, what the model reads of it, and what is missing.
type Reading = (Output, String, Option<Truncated>);

fn text(cx: &Cx, document: &Document) -> Reading {
    let whole = document.text();
    let shown = prefix(&whole, byte_budget(cx));
    let (shown_bytes, total) = (shown.len() as u64, whole.len() as u64);
    let unit = toolgate_contract::Unit::Bytes;
    let cut = (shown_bytes < total).then_some(Truncated { shown: shown_bytes, total, unit });
    let mut said = shown.to_owned();
    if said.is_empty() {
        remark(&mut said, "there is no text");
    }
    tell_cut(&mut said, cut, "", "");
    (Output { text: Some(shown.to_owned()), ..Output::default() }, said, cut)
}

fn links(cx: &Cx, found: Vec<html::Link>) -> Reading {
    let total = found.len() as u64;
    let (mut said, mut links) = (String::new(), Vec::new());
    for html::Link { text, url } in found {
        let line = if text.is_empty() { format!("- {url}\n") } else { format!("- {text}: {url}\n") };
        if links.len() == cx.caps().items || said.len() + line.len() > byte_budget(cx) {
            break;
        }
        said.push_str(&line);
        links.push(Link { text, url });
    }
    if total == 0 {
        remark(&mut said, "there are no links");
    }
    let cut = cut_items(links.len(), total);
    tell_cut(&mut said, cut, "links", "");
    (Output { links: Some(links), ..Output::default() }, said.trim_end().to_owned(), cut)
}

fn metadata(found: html::Metadata) -> Reading {
    let html::Metadata { title, description, canonical, language, charset, open_graph } = found;
    let mut said = String::new();
    let named = [
        ("title", &title),
        ("description", &description),
        ("canonical", &canonical),
        ("language", &language),
        ("charset", &charset),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    for (name, value) in named.chain(open_graph.iter().map(|(name, value)| (name.as_str(), value))) {
        // Writing to a string does not fail.
        let _ = writeln!(said, "{name}: {value}");
    }
    if said.is_empty() {
        remark(&mut said, "it says nothing about itself");
    }
    let metadata = Metadata { title, description, canonical, language, charset, open_graph };
    (Output { metadata: Some(metadata), ..Output::default() }, said.trim_end().to_owned(), None)
}

fn tables(cx: &Cx, found: Vec<html::Table>) -> Reading {
    let total = found.len() as u64;
    let (mut said, mut tables) = (String::new(), Vec::new());
    for html::Table { caption, has_header, rows, cut } in found {
        let mut lines = caption.iter().map(|caption| format!("{caption}\n")).collect::<String>();
        for row in &rows {
            let _ = writeln!(lines, "{}", row.join(" | "));
        }
        if said.len() + lines.len() > byte_budget(cx) {
            break;
        }
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&lines);
        tables.push(Table { caption, has_header, rows, truncated: cut });
    }
    if total == 0 {
        remark(&mut said, "there are no tables");
    }
    let cut = cut_items(tables.len(), total);
    tell_cut(&mut said, cut, "tables", "; give a smaller piece of the HTML");
    (Output { tables: Some(tables), ..Output::default() }, said.trim_end().to_owned(), cut)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::web_stage::WebStage;

    /// The field that was asked for, and what the model reads. The others are null.
    fn check(arguments: Value, field: &str, expected: Value, text: &str) {
        let output = WebStage::answering([]).call(tool, arguments.clone()).unwrap();
        let mut all = json!({ "text": null, "links": null, "metadata": null, "tables": null, "cut": false });
        all[field] = expected;
        assert_eq!((output.structured, output.text.as_str()), (all, text), "{arguments}");
    }

    #[test]
    fn the_text_is_what_a_reader_sees() {
        check(json!({ "html": "<h1>a</h1><p>b<script>c</script>" }), "text", json!("a\n\nb"), "a\n\nb");
        check(json!({ "html": "", "mode": "text" }), "text", json!(""), "[there is no text]");
    }

    #[test]
    fn links_are_completed() {
        let html = "<a href=b>c</a><a href='javascript:x'>d</a><a href=https://h.example/><img></a>";
        let links =
            json!([{ "text": "c", "url": "https://example.com/b" }, { "text": "", "url": "https://h.example/" }]);
        let arguments = json!({ "html": html, "mode": "links", "base_url": "https://example.com/a" });
        check(arguments, "links", links, "- c: https://example.com/b\n- https://h.example/");
        let links = json!([{ "text": "c", "url": "b" }]);
        check(json!({ "html": "<a href=b>c</a>", "mode": "links" }), "links", links, "- c: b");
        check(json!({ "html": "a", "mode": "links" }), "links", json!([]), "[there are no links]");
    }

    #[test]
    fn metadata_is_what_it_says_about_itself() {
        let html = "<html lang=en><title>t</title><meta property=og:image content=i>";
        let metadata = json!({
            "title": "t", "description": null, "canonical": null, "language": "en", "charset": null,
            "open_graph": { "og:image": "i" },
        });
        check(json!({ "html": html, "mode": "metadata" }), "metadata", metadata, "title: t\nlanguage: en\nog:image: i");
    }

    #[test]
    fn tables_are_rows_of_cells() {
        let html = "<table><caption>n</caption><tr><th colspan=2>a<tr><td>b<td>c</table>";
        let tables =
            json!([{ "caption": "n", "has_header": true, "rows": [["a", "a"], ["b", "c"]], "truncated": false }]);
        check(json!({ "html": html, "mode": "tables" }), "tables", tables, "n\na | a\nb | c");
        check(json!({ "html": "a", "mode": "tables" }), "tables", json!([]), "[there are no tables]");
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_told() {
        let call = |html: String, mode: &str| {
            WebStage::answering([]).call(tool, json!({ "html": html, "mode": mode })).unwrap()
        };
        let output = call("word ".repeat(20_000), "text");
        assert!(output.text.len() <= tool().def.caps.output_bytes);
        assert!(output.text.ends_with(" of 99999 bytes]"), "{}", &output.text[output.text.len() - 60..]);
        let output = call((0..1_500).map(|i| format!("<a href=/{i}>x</a>")).collect(), "links");
        assert_eq!(output.truncated.map(|cut| (cut.shown, cut.total)), Some((1_000, 1_500)));
        let output = call(format!("<table><tr><td>{}</table>", "x".repeat(1_999)).repeat(60), "tables");
        assert_eq!(output.truncated.map(|cut| (cut.shown, cut.total)), Some((25, 60)));
        let output = call("<br>".repeat(600_000), "text");
        assert_eq!(output.structured["cut"], json!(true));
        assert_eq!(output.text, "[there is no text]\n[the HTML is too large to be read to its end]");
    }

    #[test]
    fn a_base_that_is_none_is_refused() {
        for base in ["", "example.com", "javascript:x", "file:///x", "https://u:p@h.example/"] {
            let fault = WebStage::answering([]).call(tool, json!({ "html": "", "base_url": base })).unwrap_err();
            assert_eq!(fault.code, "bad_base_url", "{base}");
        }
    }

    #[test]
    fn it_touches_nothing() {
        assert!(tool().def.needs.is_nothing());
        assert_eq!(tool().reading.effects(&json!({ "html": "<a href=https://example.com>" })), Ok(Vec::new()));
    }
}
