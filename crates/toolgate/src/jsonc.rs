//! JSON as people write it into the files of editors: with comments, and commas before an end.

/// Plain JSON, and whether there were comments. What is taken out leaves spaces, so that a place in one is a place in the
/// other.
pub(crate) fn plain(text: &str) -> (String, bool) {
    let (mut out, mut has_comments) = (String::with_capacity(text.len()), false);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => next.len_utf8(),
        };
        let (piece, behind) = rest.split_at(length);
        match next == '/' && length > 1 {
            true => {
                has_comments = true;
                out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
            false => out.push_str(piece),
        }
        rest = behind;
    }
    (without_last_commas(&out), has_comments)
}

/// The length of the string a text begins with.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

fn without_last_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if next == '"' { string(rest) } else { next.len_utf8() };
        let (piece, behind) = rest.split_at(length);
        let is_last = next == ',' && behind.trim_start().starts_with(['}', ']']);
        out.push_str(if is_last { " " } else { piece });
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, comments: bool) {
        assert_eq!(plain(text), (expected.to_owned(), comments), "{text}");
    }

    #[test]
    fn comments_and_last_commas_are_left_out_and_strings_are_left_alone() {
        check(r#"{"a": [1, 2]}"#, r#"{"a": [1, 2]}"#, false);
        check("{\"a\": 1, // one\n\"b\": 2}", "{\"a\": 1,       \n\"b\": 2}", true);
        check("{/* \n */\"a\": 1}", "{   \n   \"a\": 1}", true);
        check("{\"a\": [1, 2,],\n}", "{\"a\": [1, 2 ] \n}", false);
        check("[1, /* last */ ]", "[1             ]", true);
        check(
            r#"{"a": "// no /* comment */ ,]", "b\"": ",}"}"#,
            r#"{"a": "// no /* comment */ ,]", "b\"": ",}"}"#,
            false,
        );
        check("{\"url\": \"https://a.example/\"}", "{\"url\": \"https://a.example/\"}", false);
        // What is broken stays broken.
        check("{\"a\": \"// no end", "{\"a\": \"// no end", false);
        check("[1,,]", "[1, ]", false);
    }
}
