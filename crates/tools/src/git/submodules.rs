//! Submodules of a fresh clone, one by one.
//!
//! Git is not asked to get them: it would follow whatever `.gitmodules` says. Each address is read and judged like the
//! one that was cloned, and each goes where the commit has a submodule and nowhere else. Theirs in turn are left alone.

use std::io::Read as _;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_contract::Fault;
use toolgate_guard::git_url::GitUrl;

use super::{
    clone::cloning,
    command::{Git, records, worked},
    config,
    fault::{self, SUBMODULE},
    name::{Named as _, Plain, RepoPath, Revision},
    remote::Remote,
    repository::Repository,
};
use crate::{
    Cx,
    files::{fault::NOT_FOUND, text::brief},
};

/// How many there may be.
const MOST: usize = 50;
/// More than a `.gitmodules` ever has.
const LONGEST_FILE: u64 = 1 << 20;

/// A submodule that came along.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Submodule {
    /// Where it is, relative to the repository.
    path: String,
    /// Where it came from.
    url: String,
    /// The commit that is checked out.
    commit: String,
}

/// Gets the submodules of a repository that was cloned from this remote.
pub(super) fn get(
    cx: &Cx,
    repository: &Repository,
    from: &Remote,
    connection: Option<&str>,
) -> Result<Vec<Submodule>, Fault> {
    let wanted = wanted(cx, repository)?;
    let mut got = Vec::new();
    for (path, commit, address) in wanted {
        cx.check()?;
        let address = resolved(from.url(), &address).ok_or_else(|| unfit(&path, "its address leads nowhere"))?;
        let remote = Remote::at(&address, None)?;
        // Credentials go to the host they are for. For another one the submodule must be public.
        let remote = match remote.target() == from.target() && remote.scheme() == from.scheme() {
            true => Remote::at(&address, connection)?,
            false => remote,
        };
        got.push(one(cx, repository, path, commit, &remote)?);
    }
    Ok(got)
}

/// Path, commit and address of each submodule that both the index and `.gitmodules` know.
fn wanted(cx: &Cx, repository: &Repository) -> Result<Vec<(String, String, String)>, Fault> {
    let mut wanted = Vec::new();
    for (path, address) in addresses(cx, repository)? {
        let at = RepoPath::read(cx, repository, &path)?;
        let ran = Git::new("ls-files").flags(&["-z", "--stage"]).paths(&[at]).done(cx, repository)?;
        let (records, _) = records(&ran.stdout);
        // `160000 <commit> 0<tab><path>`
        let commit = records.iter().find_map(|record| {
            let (about, listed) = record.split_once('\t')?;
            let commit = about.strip_prefix("160000 ")?.split(' ').next()?;
            (listed == path).then(|| commit.to_owned())
        });
        wanted.extend(commit.map(|commit| (path, commit, address)));
    }
    Ok(wanted)
}

/// Path and address of each submodule in `.gitmodules`.
fn addresses(cx: &Cx, repository: &Repository) -> Result<Vec<(String, String)>, Fault> {
    let path = format!("{}/.gitmodules", repository.place());
    let file = match cx.workspace()?.open_file(&path) {
        Ok(file) => file,
        Err(fault) if NOT_FOUND.is(&fault) => return Ok(Vec::new()),
        Err(fault) => return Err(fault),
    };
    let mut text = String::new();
    let read = file.file.take(LONGEST_FILE).read_to_string(&mut text);
    read.map_err(|_| unfit(".gitmodules", "the file is not text"))?;
    named(&text)
}

/// Path and address of each submodule in a text of that kind. The whole text is looked through for each, so that they are
/// counted first.
fn named(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let settings = config::read(text)?;
    let paths: Vec<_> = settings.iter().filter(|s| s.section == "submodule" && s.key == "path").collect();
    if paths.len() > MOST {
        return Err(SUBMODULE.failed(format!("there are more than {MOST} submodules"), "Clone them one by one."));
    }
    let url = |name: &Option<String>| {
        let is_it = |s: &&config::Setting| s.section == "submodule" && s.subsection == *name && s.key == "url";
        settings.iter().rev().find(is_it).map(|setting| setting.value.clone())
    };
    Ok(paths.into_iter().filter_map(|path| Some((path.value.clone(), url(&path.subsection)?))).collect())
}

/// The address of a submodule, which may be relative to the repository's own.
fn resolved(base: &GitUrl, address: &str) -> Option<String> {
    if !address.starts_with("./") && !address.starts_with("../") {
        return Some(address.to_owned());
    }
    let (mut path, mut rest) = (base.path.trim_end_matches('/'), address);
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            (path, rest) = (path.rsplit_once('/')?.0, after);
        } else {
            break;
        }
    }
    let whole = base.to_string();
    let before = whole.strip_suffix(base.path.as_str())?;
    Some(format!("{before}{path}/{rest}"))
}

fn one(cx: &Cx, repository: &Repository, path: String, commit: String, remote: &Remote) -> Result<Submodule, Fault> {
    let place = format!("{}/{path}", repository.place());
    // The checkout made an empty directory for it. A link in its way would put it elsewhere.
    let made = cx.workspace()?.open_listed(place.as_bytes());
    made.map_err(|_| unfit(&path, "its directory was not made by the checkout"))?;

    let names = (Plain::address(remote.url()), Plain::directory(&place));
    let ran = cloning().flags(&["--no-checkout"]).names(&[&names.0, &names.1]).reach(cx, None, remote)?;
    if !worked(&ran) {
        return Err(fault::of_remote(&ran));
    }
    let submodule = Repository::open(cx, Some(&place))?;
    let revision = Revision::one(&commit)?;
    let checkout =
        || Git::new("checkout").flags(&["--quiet", "--detach", "--no-recurse-submodules"]).names(&[&revision]);
    if !worked(&checkout().run(cx, &submodule)?) {
        return Err(unfit(&path, &format!("its repository does not have the commit `{}`", revision.as_str())));
    }
    Ok(Submodule { path, url: remote.url().to_string(), commit })
}

fn unfit(path: &str, why: &str) -> Fault {
    SUBMODULE.failed(
        format!("the submodule in `{}` cannot be had: {why}", brief(path)),
        "Clone without `submodules`, then clone it by itself.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submodule_has_a_path_and_an_address_and_there_are_not_too_many() {
        let both = "[submodule \"a\"]\npath=a\nurl=../old\nurl=../a\n[submodule \"b\"]\npath=b\n[other]\npath=c\nurl=c";
        assert_eq!(named(both), Ok(vec![("a".to_owned(), "../a".to_owned())]));
        // Also those without an address are looked for.
        let many = |count| format!("[submodule \"a\"]\n{}", "path=a\n".repeat(count));
        assert_eq!(named(&many(MOST)), Ok(Vec::new()));
        assert_eq!(named(&many(MOST + 1)).unwrap_err().code, "bad_submodule");
    }

    #[test]
    fn an_address_may_be_relative_to_the_repository_s() {
        let check = |base: &str, address: &str, expected: Option<&str>| {
            let base = GitUrl::read_also_http(base).unwrap();
            assert_eq!(resolved(&base, address).as_deref(), expected, "{base} {address}");
        };
        check("https://x.example/a/b.git", "../c.git", Some("https://x.example/a/c.git"));
        check("https://x.example/a/b.git/", "./c", Some("https://x.example/a/b.git/c"));
        check("https://x.example:8443/a/b", "../../c/d", Some("https://x.example:8443/c/d"));
        check("https://x.example/a", "../../c", None);
        check("https://x.example/a", "https://y.example/c", Some("https://y.example/c"));
        check("git@x.example:a/b", "../c", Some("git@x.example:a/c"));
        check("git@x.example:a", "../c", None);
    }
}
