//! What a page holds and does not show: a reader would not see it, so a model must not take it for what the page says.
//!
//! By what is written at the element itself, and by the plain rules of the page's own style sheets (one class, one id, one
//! name). A style sheet that lies elsewhere is not fetched, and scripts are not run: what only those hide is read.

use std::collections::{BTreeMap, HashSet};

use super::tree::{Element, Kind, NodeId, Tree};

/// How much of the style sheets in a page is looked at.
const MOST_STYLE: usize = 256 << 10;
/// How far up a background is looked for.
const MOST_ABOVE: usize = 16;
/// Further out than this nobody scrolls.
const FAR: f64 = 400.0;

/// What the page's own style sheets hide.
#[derive(Debug, Default)]
pub(super) struct Sheets {
    hiding: HashSet<String>,
    /// There is a style sheet, here or elsewhere, so that colours may be other than they seem.
    any: bool,
}

impl Sheets {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut sheets = Self::default();
        let mut left = MOST_STYLE;
        for (node, element) in tree.elements(NodeId::DOCUMENT) {
            match element.name() {
                "style" => {
                    sheets.any = true;
                    for child in tree.children(node) {
                        let Kind::Text(text) = tree.kind(child) else { continue };
                        let text = &text[..text.floor_char_boundary(left.min(text.len()))];
                        left -= text.len();
                        sheets.read(text);
                    }
                }
                "link" => {
                    sheets.any |= element.attribute("rel").is_some_and(|rel| rel.eq_ignore_ascii_case("stylesheet"))
                }
                _ => {}
            }
        }
        sheets
    }

    /// Rules outside of any block; what holds only somewhere (`@media`) is passed over.
    fn read(&mut self, css: &str) {
        let css = without_comments(css);
        let mut rest = css.as_str();
        while let Some(open) = rest.find('{') {
            let (selectors, body) = (rest[..open].trim(), &rest[open + 1..]);
            if selectors.starts_with('@') {
                rest = behind_block(body);
                continue;
            }
            let Some(close) = body.find('}') else { return };
            if hides(&declarations(&body[..close])) {
                self.hiding.extend(
                    selectors.split(',').map(str::trim).filter(|one| is_plain(one)).map(str::to_ascii_lowercase),
                );
            }
            rest = &body[close + 1..];
        }
    }

    fn hide(&self, element: &Element) -> bool {
        if self.hiding.is_empty() {
            return false;
        }
        let has = |selector: &str| self.hiding.contains(selector);
        let classes = element.attribute("class").unwrap_or_default().to_ascii_lowercase();
        let mut classes = classes.split_ascii_whitespace();
        classes.any(|class| has(&format!(".{class}")) || has(&format!("{}.{class}", element.name())))
            || element.attribute("id").is_some_and(|id| has(&format!("#{}", id.to_ascii_lowercase())))
    }
}

/// Does a reader of the page not get to see this element?
pub(super) fn is_hidden(tree: &Tree, node: NodeId, element: &Element, sheets: &Sheets) -> bool {
    if element.attribute("hidden").is_some() || sheets.hide(element) {
        return true;
    }
    let is_field =
        element.name() == "input" && element.attribute("type").is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"));
    let style = element.attribute("style").map(declarations).unwrap_or_default();
    is_field || hides(&style) || is_painted_over(tree, node, element, &style, sheets)
}

/// Text in the colour of what is behind it.
fn is_painted_over(
    tree: &Tree,
    node: NodeId,
    element: &Element,
    style: &BTreeMap<String, String>,
    sheets: &Sheets,
) -> bool {
    let own = style.get("color").map(String::as_str).or_else(|| element.attribute("color"));
    let Some(text) = own.and_then(colour) else { return false };
    if text.3 == 0 {
        return true;
    }
    let mut at = Some(node);
    for _ in 0..MOST_ABOVE {
        let Some(node) = at else { break };
        if let Some(element) = tree.element(node) {
            let style = element.attribute("style").map(declarations).unwrap_or_default();
            let painted = style.get("background-color").or_else(|| style.get("background")).map(String::as_str);
            if let Some(painted) = painted.or_else(|| element.attribute("bgcolor")) {
                return colour(painted) == Some(text);
            }
        }
        at = tree.parent(node);
    }
    // Nothing says what is behind it. Without any style sheet that is white.
    !sheets.any && text == (255, 255, 255, 255)
}

fn hides(style: &BTreeMap<String, String>) -> bool {
    let is = |name: &str, value: &str| style.get(name).is_some_and(|own| own == value);
    let number = |name: &str| style.get(name).and_then(|value| length(value));
    let far = |name: &str| number(name).is_some_and(|value| value <= -FAR);
    let tiny = |name: &str| number(name).is_some_and(|value| value.abs() <= 1.0);
    let moved = |name: &str| style.get(name).is_some_and(|value| is_moved_away(value));
    is("display", "none")
        || is("visibility", "hidden")
        || is("visibility", "collapse")
        || number("opacity").is_some_and(|value| value <= 0.05)
        || tiny("font-size")
        || tiny("line-height") && is("overflow", "hidden")
        || ["left", "top", "right", "bottom", "margin-left", "margin-top", "text-indent"].into_iter().any(far)
        || (tiny("width") || tiny("height") || tiny("max-height") || tiny("max-width")) && is("overflow", "hidden")
        || style
            .get("clip")
            .is_some_and(|value| value.replace([' ', ','], "").contains("rect(0") && !value.contains("auto"))
        || style.get("clip-path").is_some_and(|value| {
            value.contains("inset(50%") || value.contains("inset(100%") || value.contains("circle(0")
        })
        || moved("transform")
}

fn is_moved_away(transform: &str) -> bool {
    let plain = transform.replace(' ', "");
    let inside = |name: &str| plain.split(name).nth(1).and_then(|rest| rest.split(')').next()).map(str::to_owned);
    let away = ["translate(", "translatex(", "translatey(", "translate3d("].into_iter().filter_map(inside);
    let mut away = away.flat_map(|numbers| numbers.split(',').filter_map(length).collect::<Vec<_>>());
    away.any(|value| value.abs() >= FAR) || inside("scale(").is_some_and(|value| length(&value) == Some(0.0))
}

/// The declarations of a style, names and values in lower case; the last one of a name counts.
fn declarations(style: &str) -> BTreeMap<String, String> {
    let one = |declaration: &str| {
        let (name, value) = declaration.split_once(':')?;
        let value = value.trim().to_ascii_lowercase();
        let value = value.strip_suffix("!important").unwrap_or(&value).trim().to_owned();
        Some((name.trim().to_ascii_lowercase(), value))
    };
    style.split(';').take(64).filter_map(one).collect()
}

/// A length in pixels, as far as that matters: a unit that depends on the font is some pixels.
fn length(value: &str) -> Option<f64> {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let scale = match unit.trim() {
        "" | "px" | "%" => 1.0,
        "em" | "rem" | "ch" | "vw" | "vh" => 16.0,
        "pt" => 1.3,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

/// Red, green, blue, and how much of it.
fn colour(value: &str) -> Option<(u8, u8, u8, u8)> {
    let value = value.trim().to_ascii_lowercase();
    let named = match value.as_str() {
        "white" => Some((255, 255, 255, 255)),
        "black" => Some((0, 0, 0, 255)),
        "transparent" => Some((0, 0, 0, 0)),
        _ => None,
    };
    if named.is_some() {
        return named;
    }
    if let Some(digits) = value.strip_prefix('#') {
        let digit = |at: usize| u8::from_str_radix(digits.get(at..=at)?, 16).ok().map(|digit| digit * 17);
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        return match digits.len() {
            3 => Some((digit(0)?, digit(1)?, digit(2)?, 255)),
            6 => Some((pair(0)?, pair(2)?, pair(4)?, 255)),
            8 => Some((pair(0)?, pair(2)?, pair(4)?, pair(6)?)),
            _ => None,
        };
    }
    let numbers = value.strip_prefix("rgba(").or_else(|| value.strip_prefix("rgb("))?.strip_suffix(')')?;
    let parts: Vec<f64> = numbers
        .split([',', ' ', '/'])
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let byte = |value: f64| value.clamp(0.0, 255.0) as u8;
    match parts[..] {
        [red, green, blue] => Some((byte(red), byte(green), byte(blue), 255)),
        [red, green, blue, alpha] => Some((byte(red), byte(green), byte(blue), byte(alpha * 255.0))),
        _ => None,
    }
}

fn is_plain(selector: &str) -> bool {
    let name =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    match selector.split_once(['.', '#']) {
        Some((before, after)) => (before.is_empty() || name(before)) && name(after),
        None => false,
    }
}

fn without_comments(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    out + rest
}

/// What is behind a block whose opening brace was just passed.
fn behind_block(text: &str) -> &str {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    /// What is shown, and what is not.
    #[track_caller]
    fn check(html: &str, shown: &str, hidden: &[&str]) {
        let page = Document::read(html);
        assert_eq!(
            (page.text().trim(), page.hidden()),
            (shown, hidden.iter().map(ToString::to_string).collect()),
            "{html}"
        );
    }

    #[test]
    fn what_an_element_says_about_itself_is_believed() {
        for style in [
            "display:none",
            "DISPLAY : None !important",
            "visibility:hidden",
            "opacity:0",
            "font-size:0",
            "font-size:1px",
            "font-size: 0em",
            "position:absolute;left:-9999px",
            "text-indent:-9999px",
            "height:0;overflow:hidden",
            "width:1px;height:1px;overflow:hidden",
            "clip:rect(0,0,0,0)",
            "clip-path:inset(100%)",
            "transform:translateX(-5000px)",
            "transform: scale(0)",
            "color:#fff;background:#ffffff",
            "color:transparent",
            "color:rgba(0,0,0,0)",
            "color:white",
        ] {
            check(&format!("<p>seen<p style='{style}'>orders"), "seen", &["orders"]);
        }
        check("<p>seen<p hidden>orders", "seen", &["orders"]);
        check("<body bgcolor=black><p>seen<p style='color:#000'>orders", "seen", &["orders"]);
        check(
            "<div style='background:#123456'><span>seen</span><b style='color:#123456'>orders</b></div>",
            "seen",
            &["orders"],
        );
    }

    #[test]
    fn what_is_shown_stays() {
        for style in [
            "display:block",
            "opacity:0.9",
            "font-size:12px",
            "left:-4px",
            "height:0",
            "color:#fff;background:#000",
            "text-indent:-20px",
            "transform:translateX(-50%)",
            "width:100%;overflow:hidden",
            "color:red",
        ] {
            check(&format!("<p style='{style}'>shown"), "shown", &[]);
        }
        // White on what a style sheet may have painted.
        check("<style>.dark{background:#000}</style><div class=dark style='color:white'>shown</div>", "shown", &[]);
    }

    #[test]
    fn the_pages_own_sheets_are_read_as_far_as_they_are_plain() {
        let sheet = "<style>/* x */ .a, #b { display : none } p.c{opacity:0} @media print { .d { display:none } } .e .f{display:none}</style>";
        check(
            &format!("{sheet}<p class='x a'>1<p id=b>2<p class=c>3<p class=d>4<p class=f>5<div class=c>6</div>"),
            "4\n\n5\n\n6",
            &["1", "2", "3"],
        );
        check("<style>.a{display:none", "", &[]);
        check("<style>@media x {{{{</style><p>ok", "ok", &[]);
    }
}
