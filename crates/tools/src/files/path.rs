//! What a caller wrote as a path: what is let through to the kernel, and how names are shown.
//!
//! This is the first look, by spelling alone. Whether a path really stays inside the workspace is the kernel's word
//! (`workspace.rs`); what is refused here is what could not mean a file inside under any reading.

use std::{borrow::Cow, fmt::Write as _, path::Path};

use toolgate_contract::Fault;

use super::fault::{self, BAD_PATH};

const MAX_PATH: usize = 4096;
const MAX_COMPONENT: usize = 255;

/// The path relative to one of the directories that are open, with its dots and links still to be resolved, and which
/// one that is. Nothing is decoded: `%2e%2e` is a name like any other.
///
/// `roots` are the spellings of the open directories, with their number. A relative path begins at `start`, the place of
/// the workspace in one of them, and an absolute one is taken when it lies in one of them; the widest comes first.
pub(crate) fn admit(path: &str, start: (usize, &str), roots: &[(usize, &Path)]) -> Result<(usize, String), Fault> {
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
    let (root, relative) = match path.strip_prefix('/') {
        Some(_) => below(path, roots).ok_or_else(|| fault::outside(path))?,
        None if start.1.is_empty() => (start.0, path.to_owned()),
        None => (start.0, format!("{}/{path}", start.1)),
    };
    if climbs_out(&relative) {
        return Err(fault::outside(path));
    }
    Ok((root, if relative.is_empty() { ".".to_owned() } else { relative }))
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

/// The first root that holds the path also once its dots are resolved.
fn below(path: &str, roots: &[(usize, &Path)]) -> Option<(usize, String)> {
    let mut held = roots.iter().filter_map(|(number, root)| {
        let relative = Path::new(path).strip_prefix(root).ok()?.to_str()?;
        Some((*number, relative.to_owned()))
    });
    held.find(|(_, relative)| !climbs_out(relative))
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
        let admitted = admit(path, (0, ""), &[(0, Path::new("/ws")), (0, Path::new("/real/ws"))]);
        let got = admitted.as_ref().map(|(_, path)| &**path).map_err(|fault| fault.code.as_ref());
        assert_eq!(got, expected, "{path:?}");
    }

    #[test]
    fn where_more_is_open_a_path_is_held_in_the_widest_directory_that_has_it() {
        let roots = [(1, Path::new("/p")), (0, Path::new("/p/ws")), (2, Path::new("/data"))];
        let check = |path: &str, expected: Result<(usize, &str), &str>| {
            let admitted = admit(path, (1, "ws"), &roots);
            let got = admitted.as_ref().map(|(root, path)| (*root, &**path)).map_err(|fault| fault.code.as_ref());
            assert_eq!(got, expected, "{path:?}");
        };
        check("a", Ok((1, "ws/a")));
        check("../b", Ok((1, "ws/../b")));
        check("/p/ws/../b", Ok((1, "ws/../b")));
        check("/p/ws", Ok((1, "ws")));
        check("/p", Ok((1, ".")));
        check("/data/x/../y", Ok((2, "x/../y")));
        for outside in ["../..", "../../x", "/p/ws/../../x", "/data/../p", "/datax", "/"] {
            check(outside, Err("path_outside_workspace"));
        }
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
