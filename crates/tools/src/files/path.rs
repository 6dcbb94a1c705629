//! What a caller wrote as a path: what is let through to the kernel, and how names are shown.
//!
//! This is the first look, by spelling alone. Whether a path really stays inside the workspace is the kernel's word
//! (`workspace.rs`); what is refused here is what could not mean a file inside under any reading.

use std::{borrow::Cow, fmt::Write as _, path::Path};

use toolgate_contract::Fault;

use super::fault::{self, BAD_PATH};

const MAX_PATH: usize = 4096;
const MAX_COMPONENT: usize = 255;

/// The path relative to the workspace, with its dots and links still to be resolved.
///
/// An absolute path is taken when it lies under one of `roots`, the spellings of the workspace's own path. Nothing is
/// decoded: `%2e%2e` is a name like any other.
pub(crate) fn admit(path: &str, roots: &[&Path]) -> Result<String, Fault> {
    if path.is_empty() {
        return Err(BAD_PATH.refused("the path is empty", "Name a file or directory; `.` is the workspace itself."));
    }
    if path.contains('\0') {
        return Err(BAD_PATH.refused("the path has a NUL byte in it", "Write the path without it."));
    }
    if path.len() > MAX_PATH || path.split('/').any(|name| name.len() > MAX_COMPONENT) {
        return Err(BAD_PATH.refused("the path is too long", "Use a path of at most 4096 bytes, 255 for each name."));
    }
    if is_windows_absolute(path) || path.starts_with("//") {
        return Err(fault::outside(path));
    }
    let relative = if path.starts_with('/') { below(path, roots).ok_or_else(|| fault::outside(path))? } else { path };
    if climbs_out(relative) {
        return Err(fault::outside(path));
    }
    Ok(if relative.is_empty() { ".".to_owned() } else { relative.to_owned() })
}

/// Such a path is a strange but legal relative name on Linux. Whoever writes it means another place, so it is refused
/// rather than created. `C:x` alone stays a name: colons are common in them.
fn is_windows_absolute(path: &str) -> bool {
    match path.as_bytes() {
        [b'\\', ..] => true,
        [letter, b':', rest @ ..] => letter.is_ascii_alphabetic() && rest.iter().any(|b| matches!(b, b'\\' | b'/')),
        _ => false,
    }
}

fn below<'a>(path: &'a str, roots: &[&Path]) -> Option<&'a str> {
    roots.iter().find_map(|root| Path::new(path).strip_prefix(root).ok()?.to_str())
}

fn climbs_out(relative: &str) -> bool {
    let mut depth = 0usize;
    for name in relative.split('/') {
        match name {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// A path as results spell it: what is no UTF-8 is written `\xNN`, and the workspace itself is `.`.
pub(crate) fn shown(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return ".".to_owned();
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The same name where each line is one entry: a name with a line break in it must not look like two.
pub(crate) fn one_line(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits under `/ws`, whose real path is `/real/ws`.
    fn check(path: &str, expected: Result<&str, &str>) {
        let admitted = admit(path, &[Path::new("/ws"), Path::new("/real/ws")]);
        let got = admitted.as_deref().map_err(|fault| fault.code.as_ref());
        assert_eq!(got, expected, "{path:?}");
    }

    #[test]
    fn legal_names_pass_as_they_are() {
        for name in [
            "a.txt",
            "./a.txt",
            "dir//a.txt",
            "dir/",
            ".",
            "..foo",
            "foo..",
            "...",
            "-rf",
            "~",
            "~/x",
            "$HOME",
            "%2e%2e",
            "%2e%2e%2fetc",
            "a\nb",
            "name with spaces",
            "прывітанне/日本",
            "a:b",
            "C:",
            "ab:/c",
            "1:/c",
            "a\\b",
            "..\\..\\etc",
            "a/..",
            "a/b/../../c",
            &"x".repeat(255),
        ] {
            check(name, Ok(name));
        }
    }

    #[test]
    fn absolute_paths_are_taken_under_either_spelling_of_the_root() {
        check("/ws/a.txt", Ok("a.txt"));
        check("/real/ws/a.txt", Ok("a.txt"));
        check("/ws", Ok("."));
        check("/ws/", Ok("."));
        check("/ws/a/../b", Ok("a/../b"));
        check("/./ws/a", Ok("a"));
    }

    #[test]
    fn what_means_another_place_is_outside() {
        for path in [
            "/",
            "/etc/passwd",
            "/wsx/a",
            "/real",
            "/ws/../etc",
            "/ws/a/../../x",
            "/../ws/a",
            "//ws/a",
            "//server/share",
            "..",
            "../x",
            "a/../../x",
            "./..",
            "a/b/../../../x",
            "\\x",
            "\\\\server\\share\\f",
            "\\\\?\\C:\\x",
            "C:\\x",
            "c:/x",
            "c:windows/x",
        ] {
            check(path, Err("path_outside_workspace"));
        }
    }

    #[test]
    fn what_no_file_can_be_called_is_bad() {
        check("", Err("bad_path"));
        check("a\0b", Err("bad_path"));
        check(&"x".repeat(256), Err("bad_path"));
        check(&"a/".repeat(2049), Err("bad_path"));
        check(&"a/".repeat(2048), Ok(&"a/".repeat(2048)));
    }

    #[test]
    fn names_are_shown_without_loss_and_on_one_line() {
        assert_eq!(shown(b"a\xffb"), "a\\xffb");
        assert_eq!(shown("日本".as_bytes()), "日本");
        assert_eq!(shown(b""), ".");
        assert_eq!(one_line("a\nb\u{1b}[1m"), "a\\nb\\u{1b}[1m");
        assert_eq!(one_line("plain"), "plain");
    }
}
