//! The one layer of an image: the tree that was installed, without what differs between two builds.
//!
//! Nothing is deleted on disk to leave it out: the tree comes as a stream and goes on as a stream. A pattern that is
//! wrong, or a link that leads out of the tree, costs a file of the image at most.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter, Read, Write},
};

use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, Entry, EntryType, Header};
use toolgate_contract::Digest;

/// What belongs to the machine that made an image, or to the moment, and to no image.
const NEVER: [&str; 17] = [
    "dev/*",
    "etc/.pwd.lock",
    "etc/apt",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "etc/*-",
    "etc/hostname",
    "etc/machine-id",
    "etc/mtab",
    "etc/resolv.conf",
    "proc/*",
    "run/*",
    "sys/*",
    "tmp/*",
    "var/cache/*",
    "var/lib/apt",
    "var/lib/dpkg/*-old",
    "var/log/*",
];

/// A layer that was written.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) file: File,
    pub(super) digest: Digest,
    pub(super) bytes: u64,
}

/// What becomes of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    /// Paths that are left out.
    pub(super) remove: &'a [String],
    /// Nothing is newer, in seconds since 1970.
    pub(super) newest: u64,
    /// More than this many bytes are counted and not kept.
    pub(super) max_bytes: u64,
}

/// Reads a tree to its end, and writes what belongs into a layer.
pub(super) fn write(tree: impl Read, rules: Rules<'_>, file: File) -> io::Result<Layer> {
    let (digest, bytes, file) = rewrite(tree, rules, file)?;
    Ok(Layer { file: file.into_inner().map_err(io::IntoInnerError::into_error)?, digest, bytes })
}

fn rewrite<W: Write>(mut tree: impl Read, rules: Rules<'_>, out: W) -> io::Result<(Digest, u64, BufWriter<W>)> {
    let out = Counted { out: BufWriter::new(out), hash: Sha256::new(), bytes: 0, most: rules.max_bytes };
    let (mut layer, mut left_out) = (Builder::new(out), BTreeSet::new());
    for entry in Archive::new(&mut tree).entries()? {
        let mut entry = entry?;
        let path = path_of(&entry.path_bytes())?;
        if path.is_empty() {
            continue;
        }
        if is_left_out(&path, rules.remove) || is_device(entry.header().entry_type()) {
            left_out.insert(path);
            continue;
        }
        copy(&mut entry, &path, rules.newest, &left_out, &mut layer)?;
    }
    // Whoever writes the stream fills its last block, and is to be heard out.
    io::copy(&mut tree, &mut io::sink())?;
    let mut counted = layer.into_inner()?;
    counted.out.flush()?;
    Ok((Digest(counted.hash.finalize().into()), counted.bytes, counted.out))
}

/// One entry, with what two builds have in common. Names of owners are the machine's, numbers are Debian's. Attributes,
/// which hold capabilities, and the bits that make a program somebody else's are not taken over: nothing in a container
/// may gain rights by being started.
fn copy(
    entry: &mut Entry<'_, impl Read>,
    path: &str,
    newest: u64,
    left_out: &BTreeSet<String>,
    layer: &mut Builder<impl Write>,
) -> io::Result<()> {
    let from = entry.header();
    let kind = from.entry_type();
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(from.mode()? & if kind == EntryType::Regular { 0o777 } else { 0o7777 });
    header.set_uid(from.uid()?);
    header.set_gid(from.gid()?);
    header.set_mtime(from.mtime()?.min(newest));
    header.set_size(0);
    match kind {
        EntryType::Symlink => layer.append_link(&mut header, path, link_of(entry)?),
        EntryType::Link => {
            let target = path_of(link_of(entry)?.as_bytes())?;
            if left_out.contains(&target) {
                return Err(io::Error::other(format!("`{path}` is another name of `{target}`, which is removed")));
            }
            layer.append_link(&mut header, path, target)
        }
        EntryType::Directory => layer.append_data(&mut header, format!("{path}/"), io::empty()),
        EntryType::Regular => {
            header.set_size(entry.size());
            layer.append_data(&mut header, path, entry)
        }
        other => Err(io::Error::other(format!("`{path}` is of a kind no image has: {other:?}"))),
    }
}

fn link_of(entry: &Entry<'_, impl Read>) -> io::Result<String> {
    let target = entry.link_name_bytes().ok_or_else(|| io::Error::other("a link without a target"))?;
    String::from_utf8(target.into_owned()).map_err(io::Error::other)
}

/// A path from the root of the image, without the leading `./` or a slash at its end. The root's own is empty.
fn path_of(bytes: &[u8]) -> io::Result<String> {
    let path = str::from_utf8(bytes).map_err(io::Error::other)?;
    Ok(path.trim_start_matches("./").trim_matches('/').trim_end_matches("/.").replace("/./", "/"))
}

fn is_device(kind: EntryType) -> bool {
    matches!(kind, EntryType::Char | EntryType::Block | EntryType::Fifo)
}

/// Does a pattern name this path, or a directory it is in?
fn is_left_out(path: &str, remove: &[String]) -> bool {
    NEVER.iter().copied().chain(remove.iter().map(String::as_str)).any(|pattern| names(pattern, path))
}

fn names(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| fits(wanted, part)))
}

/// One name against one part of a pattern, where `*` is anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| fits(after, &rest[at..]))
}

/// Hashes and counts what passes, and keeps it while it is not too much.
struct Counted<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
    most: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.bytes += buffer.len() as u64;
        // A size that is refused is told, so the rest is still counted.
        if self.bytes <= self.most {
            self.hash.update(buffer);
            self.out.write_all(buffer)?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tar::{Archive, Builder, EntryType, Header};
    use toolgate_contract::Digest;

    use super::{Rules, fits, names, rewrite};

    /// A small tree: path, kind, content or target, and when.
    type Tree<'a> = [(&'a str, EntryType, &'a str, u64)];

    fn tree(entries: &Tree<'_>, owner: &str) -> Vec<u8> {
        let mut made = Builder::new(Vec::new());
        for (path, kind, content, when) in entries {
            let mut header = Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_uid(33);
            header.set_gid(42);
            header.set_username(owner).unwrap();
            header.set_mtime(*when);
            header.set_size(0);
            match kind {
                EntryType::Symlink | EntryType::Link => made.append_link(&mut header, path, content).unwrap(),
                _ => {
                    header.set_size(content.len() as u64);
                    made.append_data(&mut header, path, content.as_bytes()).unwrap();
                }
            }
        }
        made.into_inner().unwrap()
    }

    fn rules(remove: &[String]) -> Rules<'_> {
        Rules { remove, newest: 1000, max_bytes: 1 << 20 }
    }

    /// What a layer made of this tree holds: path, kind, content or target, and when.
    fn check(entries: &Tree<'_>, remove: &[&str], expected: &Tree<'_>) {
        let remove: Vec<String> = remove.iter().map(ToString::to_string).collect();
        let (digest, bytes, out) = rewrite(&*tree(entries, "ann"), rules(&remove), Vec::new()).unwrap();
        let layer = out.into_inner().unwrap();
        assert_eq!((digest, bytes), (Digest::of(&layer), layer.len() as u64));
        let mut found = Vec::new();
        for entry in Archive::new(&*layer).entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.username().unwrap()), (33, 42, Some("")));
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let content = match entry.link_name_bytes() {
                Some(target) => String::from_utf8(target.into_owned()).unwrap(),
                None => io::read_to_string(&mut entry).unwrap(),
            };
            found.push((path, header.entry_type(), content, header.mtime().unwrap()));
        }
        let found: Vec<_> =
            found.iter().map(|(path, kind, content, when)| (&**path, *kind, &**content, *when)).collect();
        assert_eq!(found, expected);
    }

    const FILE: EntryType = EntryType::Regular;
    const DIR: EntryType = EntryType::Directory;

    #[test]
    fn nothing_is_newer_than_the_recipe() {
        check(
            &[("./etc/", DIR, "", 2000), ("./etc/old", FILE, "1", 7), ("./etc/new", FILE, "2", 2000)],
            &[],
            &[("etc/", DIR, "", 1000), ("etc/old", FILE, "1", 7), ("etc/new", FILE, "2", 1000)],
        );
    }

    #[test]
    fn what_is_the_machines_own_is_left_out() {
        check(
            &[
                ("./dev/null", EntryType::Char, "", 1),
                ("./etc/hostname", FILE, "host", 1),
                ("./etc/machine-id", FILE, "id", 1),
                ("./etc/resolv.conf", FILE, "here", 1),
                ("./etc/passwd", FILE, "p", 1),
                ("./etc/passwd-", FILE, "p", 1),
                ("./etc/apt/sources.list", FILE, "mirror", 1),
                ("./tmp/", DIR, "", 1),
                ("./tmp/x", FILE, "", 1),
                ("./var/cache/ldconfig/aux-cache", FILE, "", 1),
                ("./var/lib/apt/lists/x", FILE, "", 1),
                ("./var/lib/dpkg/status", FILE, "s", 1),
                ("./var/lib/dpkg/status-old", FILE, "s", 1),
                ("./var/log/dpkg.log", FILE, "", 1),
            ],
            &[],
            &[("etc/passwd", FILE, "p", 1), ("tmp/", DIR, "", 1), ("var/lib/dpkg/status", FILE, "s", 1)],
        );
    }

    #[test]
    fn what_a_recipe_removes_is_left_out_with_all_below() {
        check(
            &[
                ("usr/share/doc/a/", DIR, "", 1),
                ("usr/share/doc/a/changelog.gz", FILE, "c", 1),
                ("usr/share/doc/a/copyright", FILE, "l", 1),
                ("usr/share/man/man1/a.1", FILE, "m", 1),
                ("usr/share/manual", FILE, "m", 1),
            ],
            &["usr/share/doc/*/changelog*", "usr/share/man"],
            &[
                ("usr/share/doc/a/", DIR, "", 1),
                ("usr/share/doc/a/copyright", FILE, "l", 1),
                ("usr/share/manual", FILE, "m", 1),
            ],
        );
    }

    #[test]
    fn links_lead_where_they_led() {
        let long = format!("usr/{}/x", "d".repeat(150));
        check(
            &[
                (&long, FILE, "1", 1),
                ("usr/y", EntryType::Link, &long, 1),
                ("bin", EntryType::Symlink, "usr/bin", 1),
                ("var/run", EntryType::Symlink, "/run", 1),
                ("a/b", EntryType::Symlink, "../c", 1),
            ],
            &[],
            &[
                (&long, FILE, "1", 1),
                ("usr/y", EntryType::Link, &long, 1),
                ("bin", EntryType::Symlink, "usr/bin", 1),
                ("var/run", EntryType::Symlink, "/run", 1),
                ("a/b", EntryType::Symlink, "../c", 1),
            ],
        );
    }

    #[test]
    fn a_second_name_of_what_is_removed_is_an_error() {
        let entries = [("usr/a", FILE, "1", 1), ("usr/b", EntryType::Link, "./usr/a", 1)];
        let remove = ["usr/a".to_owned()];
        let error = rewrite(&*tree(&entries, "ann"), rules(&remove), Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "`usr/b` is another name of `usr/a`, which is removed");
    }

    #[test]
    fn who_owns_the_files_by_name_makes_no_difference() {
        let entries = [("a", FILE, "1", 1)];
        let digest = |owner: &str| rewrite(&*tree(&entries, owner), rules(&[]), Vec::new()).unwrap().0;
        assert_eq!(digest("ann"), digest("bob"));
    }

    #[test]
    fn no_program_gains_rights_by_being_started() {
        let layer = |mode: u32, attributes: &[(&str, &[u8])], kind: EntryType| {
            let mut made = Builder::new(Vec::new());
            made.append_pax_extensions(attributes.iter().copied()).unwrap();
            let mut header = Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_mtime(1);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            made.append_data(&mut header, "ping", io::empty()).unwrap();
            rewrite(&*made.into_inner().unwrap(), rules(&[]), Vec::new()).unwrap().0
        };
        let plain = layer(0o755, &[], FILE);
        assert_eq!(layer(0o755, &[("SCHILY.xattr.security.capability", b"\x01\0\n="), ("atime", b"5.5")], FILE), plain);
        assert_eq!([0o4755, 0o2755, 0o6755].map(|mode| layer(mode, &[], FILE)), [plain; 3]);
        assert_ne!(layer(0o1777, &[], DIR), layer(0o777, &[], DIR));
    }

    #[test]
    fn more_than_is_allowed_is_counted_and_not_kept() {
        let entries = [("a", FILE, "1", 1)];
        let few = Rules { remove: &[], newest: 1, max_bytes: 600 };
        let (_, bytes, out) = rewrite(&*tree(&entries, "ann"), few, Vec::new()).unwrap();
        assert_eq!((bytes, out.into_inner().unwrap().len() <= 600), (2048, true));
    }

    #[test]
    fn a_star_is_any_part_of_one_name() {
        for (pattern, name, expected) in
            [("a*", "abc", true), ("*c", "abc", true), ("a*c", "ac", true), ("*", "é", true), ("a*d", "abc", false)]
        {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        for (pattern, path, expected) in
            [("a/*", "a", false), ("a/*", "a/b/c", true), ("a/*/c", "a/b/c", true), ("a*", "b/a", false)]
        {
            assert_eq!(names(pattern, path), expected, "{pattern} {path}");
        }
    }
}
