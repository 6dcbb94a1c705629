//! Which letters the bytes of a page stand for.
//!
//! A byte order mark rules; then what the server says, then what the page says of itself. Both are wrong often enough
//! that the bytes have a say: what is UTF-8 throughout is hardly ever anything else, and what is said to be UTF-8 and
//! mostly is not is guessed at.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use html5gum::{Token, Tokenizer};

/// How far into a page its own word is looked for.
const PRESCAN: usize = 4 * 1024;

/// How many bytes a guess is made from.
const GUESS: usize = 256 * 1024;

/// The text, and the name of the encoding it was in. What cannot be decoded becomes U+FFFD.
pub fn decode(bytes: &[u8], content_type: Option<&str>) -> (String, &'static str) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return (text(encoding, bytes.get(mark..).unwrap_or_default()), encoding.name());
    }
    let encoding = choose(bytes, content_type);
    (text(encoding, bytes), encoding.name())
}

/// Is it a page? By what the server says it is; where it says nothing, by how it begins.
pub fn is_html(content_type: Option<&str>, head: &[u8]) -> bool {
    match media_type(content_type.unwrap_or_default()).as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" | "unknown/unknown" | "application/unknown" | "*/*" => begins_like_html(head),
        _ => false,
    }
}

/// What a `Content-Type` header says before its parameters, in lower case.
pub fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The encoding that a content type names.
pub(super) fn charset(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

fn text(encoding: &'static Encoding, bytes: &[u8]) -> String {
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

fn begins_like_html(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |tag: &str| {
        head.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
            && head.get(tag.len()).is_none_or(|next| matches!(next, b'>' | b'/') || next.is_ascii_whitespace())
    };
    ["<!doctype html", "<html", "<head", "<title", "<meta", "<body", "<script", "<p", "<div", "<h1", "<table"]
        .into_iter()
        .any(begins)
}

fn choose(bytes: &[u8], content_type: Option<&str>) -> &'static Encoding {
    let by_server = content_type.and_then(charset).and_then(named);
    let said = by_server.or_else(|| by_page(bytes));
    let is_utf8 = std::str::from_utf8(bytes).is_ok();
    match said {
        None if bytes.starts_with(b"<\0") => UTF_16LE,
        None if bytes.starts_with(b"\0<") => UTF_16BE,
        Some(said) if said == UTF_16LE || said == UTF_16BE => {
            if is_utf8 && !bytes.contains(&0) {
                UTF_8
            } else {
                said
            }
        }
        // In one byte for one letter there is nothing that is not some letter, so only the bytes can tell.
        Some(said) if said != UTF_8 && !(is_utf8 && said.is_single_byte()) => said,
        Some(_) | None if is_utf8 || is_mostly_utf8(bytes) => UTF_8,
        Some(_) | None => guess(bytes),
    }
}

/// The encoding of this name, as pages use them.
fn named(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.as_bytes())
}

/// What the page says of itself at its beginning.
fn by_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..PRESCAN).unwrap_or(bytes);
    let said = by_xml(head).or_else(|| by_meta(head))?;
    // Who could read that it is UTF-16 has shown that it is not.
    let is_wide = said == UTF_16LE || said == UTF_16BE;
    Some(match said {
        _ if is_wide => UTF_8,
        said if said == X_USER_DEFINED => WINDOWS_1252,
        said => said,
    })
}

/// The encoding in an XML declaration.
fn by_xml(head: &[u8]) -> Option<&'static Encoding> {
    let head = head.strip_prefix(b"<?xml")?;
    let end = head.windows(2).position(|pair| pair == b"?>")?;
    let declaration = String::from_utf8_lossy(head.get(..end)?);
    let (_, after) = declaration.split_once("encoding")?;
    let quoted = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    named(quoted.get(1..)?.split(quote).next()?)
}

/// The encoding in a `meta` element.
fn by_meta(head: &[u8]) -> Option<&'static Encoding> {
    Tokenizer::new(head).flatten().find_map(|token| {
        let Token::StartTag(tag) = token else { return None };
        if tag.name.as_slice() != b"meta" {
            return None;
        }
        let attribute =
            |name: &str| tag.attributes.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
        if let Some(label) = attribute("charset") {
            return named(&label);
        }
        attribute("http-equiv").filter(|what| what.trim().eq_ignore_ascii_case("content-type"))?;
        named(charset(&attribute("content")?)?)
    })
}

/// Are most letters beyond ASCII well-formed UTF-8? A page with a few broken ones is still read as what it is.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut broken) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    good > broken
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes.get(..GUESS).unwrap_or(bytes), true);
    detector.guess(None, Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], content_type: Option<&str>, expected: &str, encoding: &str) {
        let (text, name) = decode(bytes, content_type);
        assert_eq!((text.as_str(), name), (expected, encoding), "{content_type:?} {}", bytes.escape_ascii());
    }

    fn wide(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to_bytes).collect()
    }

    #[test]
    fn a_byte_order_mark_rules() {
        check(b"\xef\xbb\xbf\xc3\xa9", Some("text/html; charset=windows-1252"), "\u{e9}", "UTF-8");
        check(b"\xff\xfea\0\xe9\0", Some("text/html; charset=utf-8"), "a\u{e9}", "UTF-16LE");
        check(b"\xfe\xff\0a\0\xe9", None, "a\u{e9}", "UTF-16BE");
    }

    #[test]
    fn the_server_is_heard_before_the_page() {
        let page = b"<meta charset=windows-1251>\xe4";
        check(page, Some("text/html; charset=windows-1252"), "<meta charset=windows-1251>\u{e4}", "windows-1252");
        check(page, Some("text/html; CHARSET=\"Windows-1252\""), "<meta charset=windows-1251>\u{e4}", "windows-1252");
        check(page, Some("text/html"), "<meta charset=windows-1251>\u{434}", "windows-1251");
        check(page, Some("text/html; charset=no-such"), "<meta charset=windows-1251>\u{434}", "windows-1251");
    }

    #[test]
    fn the_page_says_it_in_several_ways() {
        let shift_jis = b"\x93\xfa\x96{";
        for says in [
            "<meta charset='Shift_JIS'>",
            "<html><head><!-- <meta charset=utf-8> --><META CHARSET=sjis />",
            "<meta http-equiv='Content-Type' content='text/html; charset=Shift_JIS'>",
            "<meta content='text/html;charset=\"shift_jis\"' http-equiv=content-type>",
            "<?xml version='1.0' encoding='Shift_JIS'?>",
        ] {
            check(&[says.as_bytes(), shift_jis].concat(), None, &format!("{says}\u{65e5}\u{672c}"), "Shift_JIS");
        }
        let not_said = "<meta name=x content='text/html; charset=Shift_JIS'><p title='<meta charset=sjis>'>";
        let bytes = [not_said.as_bytes(), "é".as_bytes()].concat();
        check(&bytes, None, &format!("{not_said}é"), "UTF-8");
    }

    #[test]
    fn what_is_utf8_throughout_is_utf8_whatever_is_said() {
        let page = "<meta charset=iso-8859-1>é";
        check(page.as_bytes(), None, page, "UTF-8");
        check("né".as_bytes(), Some("text/html; charset=iso-8859-1"), "né", "UTF-8");
        check("<meta charset=utf-16>é".as_bytes(), None, "<meta charset=utf-16>é", "UTF-8");
        check("é".as_bytes(), Some("text/html; charset=utf-16"), "é", "UTF-8");
        // In these two letters may look like another one in UTF-8.
        check("é".as_bytes(), Some("text/html; charset=gbk"), "\u{8305}", "GBK");
        check(b"\x1b$BF|K\\\x1b(B", Some("text/html; charset=iso-2022-jp"), "\u{65e5}\u{672c}", "ISO-2022-JP");
    }

    #[test]
    fn what_is_said_to_be_utf8_and_is_not_is_guessed() {
        let latin = b"Un caf\xe9 cr\xe8me, s'il vous pla\xeet, \xe0 c\xf4t\xe9 de l'\xe9glise";
        let expected = "Un café crème, s'il vous plaît, à côté de l'église";
        check(latin, Some("text/html; charset=utf-8"), expected, "windows-1252");
        check(latin, None, expected, "windows-1252");
        let cyrillic = b"\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0? \xdd\xf2\xee \xf2\xe5\xea\xf1\xf2.";
        check(cyrillic, None, "Привет, как дела? Это текст.", "windows-1251");
    }

    #[test]
    fn a_few_broken_letters_do_not_change_the_encoding() {
        check("é é é\u{0}".replace('\0', "").as_bytes(), None, "é é é", "UTF-8");
        check(b"\xc3\xa9 \xc3\xa9 \xff", None, "é é \u{fffd}", "UTF-8");
        check(b"\xc3\xa9 \xc3\xa9 \xc3", Some("text/plain; charset=utf-8"), "é é \u{fffd}", "UTF-8");
    }

    #[test]
    fn wide_text_is_known_by_its_zeros() {
        check(&wide("<p>é", u16::to_le_bytes), None, "<p>é", "UTF-16LE");
        check(&wide("<p>é", u16::to_be_bytes), None, "<p>é", "UTF-16BE");
        check(&wide("é", u16::to_be_bytes), Some("text/plain; charset=utf-16be"), "é", "UTF-16BE");
        check(b"<\0\xe9", None, "<\u{fffd}", "UTF-16LE");
    }

    #[test]
    fn nothing_is_some_text() {
        check(b"", None, "", "UTF-8");
        check(b"", Some("text/html; charset=shift_jis"), "", "Shift_JIS");
        check(b"", Some(";;;charset"), "", "UTF-8");
    }

    #[test]
    fn a_page_is_known_by_its_type_or_by_its_beginning() {
        let page = b"<!doctype HTML><p>";
        for (content_type, head, expected) in [
            (Some("text/html"), &b""[..], true),
            (Some("TEXT/HTML;charset=x"), b"", true),
            (Some("application/xhtml+xml"), b"", true),
            (Some("text/plain"), page, false),
            (Some("application/json"), page, false),
            (Some(""), page, true),
            (None, page, true),
            (None, b"\xef\xbb\xbf \n<html lang=en>", true),
            (None, b"<HEAD>", true),
            (None, b"<header>", false),
            (None, b"{\"a\": \"<html>\"}", false),
            (None, b"<?xml version='1.0'?><feed>", false),
            (None, b"", false),
        ] {
            assert_eq!(is_html(content_type, head), expected, "{content_type:?} {}", head.escape_ascii());
        }
    }
}
