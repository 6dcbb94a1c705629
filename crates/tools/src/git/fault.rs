//! The ways git fails its callers, each said once, and how they are told from what git says.

use toolgate_contract::{FailureMode, Fault, Ran};
use toolgate_guard::shell::ir::visible;

use crate::{
    files::fault::{
        BAD_PATH, IO_ERROR, Known, NO_ACCESS, NOT_A_DIRECTORY, NOT_A_REGULAR_FILE, NOT_FOUND, OUTSIDE, PROTECTED, said,
    },
    programs::fault::{
        CANCELLED, CPU_LIMIT, DISK_LIMIT, NO_PROGRAM, OOM_KILLED, OUTPUT_LIMIT, PIDS_EXHAUSTED, ROOM_FAILED, ROOM_LOST,
        WALL_MISSING,
    },
};

pub(super) const NO_REPOSITORY: Known =
    Known::new("not_a_repository", "The directory holds no git repository. Name one that does as `repository`.");
pub(super) const BAD_REPOSITORY: Known =
    Known::new("bad_repository", "The repository is damaged or of a kind that is not supported. The message says how.");
pub(super) const BAD_NAME: Known =
    Known::new("bad_name", "A name cannot be that of a branch, tag, remote or author. Use plain letters and digits.");
pub(super) const BAD_REVISION: Known =
    Known::new("bad_revision", "The text is no revision. Name a commit, branch or tag, such as `HEAD~2`.");
pub(super) const BAD_MESSAGE: Known = Known::new("bad_message", "The message is missing, too long or no plain text.");
pub(super) const BAD_REQUEST: Known =
    Known::new("bad_request", "The arguments do not go together. The message says which.");
pub(super) const UNKNOWN_REVISION: Known = Known::new(
    "unknown_revision",
    "The repository has no such commit, branch or tag. Look with `git_branch` or `git_log`.",
);
pub(super) const UNKNOWN_PATH: Known =
    Known::new("unknown_path", "Git knows no such file at that revision. Look with `git_status` or `ls`.");
pub(super) const NO_COMMITS: Known = Known::new("no_commits", "Nothing was committed here yet.");
pub(super) const ALREADY_EXISTS: Known =
    Known::new("already_exists", "A branch, tag or directory of that name exists. Choose another name.");
pub(super) const NOTHING_TO_COMMIT: Known =
    Known::new("nothing_to_commit", "Nothing is staged. Name what to commit in `paths`, or set `all`.");
pub(super) const UNMERGED: Known =
    Known::new("unmerged_files", "Files have conflicts. Edit them, then commit them by `paths`; or abort the merge.");
pub(super) const WOULD_OVERWRITE: Known =
    Known::new("would_overwrite", "Uncommitted changes would be lost. Commit or stash them first.");
pub(super) const NOT_MERGED: Known =
    Known::new("not_merged", "The branch has commits that are nowhere else. Merge it, or delete it with `force`.");
pub(super) const IN_USE: Known = Known::new("branch_in_use", "The branch is checked out. Switch to another one first.");
pub(super) const IN_PROGRESS: Known =
    Known::new("operation_in_progress", "A merge or rebase is not finished. Finish or abort it first.");
pub(super) const CONFLICT: Known = Known::new(
    "rebase_conflict",
    "The commits do not apply on the other branch. Nothing was changed; pull with `merge`.",
);
pub(super) const NOT_FAST_FORWARD: Known =
    Known::new("not_fast_forward", "Both sides have new commits. Pull with `merge` or `rebase`, then go on.");
pub(super) const LOCKED: Known =
    Known::new("repository_locked", "Another git works on the repository. Try again when it is done.");
pub(super) const NO_STASH: Known = Known::new("no_stash", "The stash has no such entry. Look with the action `list`.");
pub(super) const GIT_FAILED: Known = Known::new("git_failed", "Git could not do it. The message has its own words.");
pub(super) const TIMED_OUT: Known = Known::new("timed_out", "The time is up. Ask for less at once.");

pub(super) const UNKNOWN_REMOTE: Known =
    Known::new("unknown_remote", "The repository has no remote of that name, or it has no address.");
pub(super) const URL_REFUSED: Known =
    Known::new("url_refused", "The address is not `https://`, `ssh://` or `user@host:path`, or has a password in it.");
pub(super) const REJECTED: Known = Known::new(
    "push_rejected",
    "The other side did not take the push. Pull first when it has commits you do not have.",
);
pub(super) const NO_SUCH_REPOSITORY: Known =
    Known::new("repository_not_found", "The host has no such repository, or does not show it without a connection.");
pub(super) const AUTH_FAILED: Known =
    Known::new("authentication_failed", "The host wants credentials, or other ones. Name a `connection` for it.");
pub(super) const SUBMODULE: Known =
    Known::new("bad_submodule", "A submodule cannot be had. The rest is there; clone the submodule by itself.");
const REDIRECT: Known =
    Known::new("redirect_refused", "The host points to another address. Use that address if it is meant.");
const RESOLVE_FAILED: Known = Known::new("resolve_failed", "The host's name has no address. Check the spelling.");
const CONNECT_FAILED: Known = Known::new("connect_failed", "Nobody answers at the host and port. Try again later.");
const TLS_FAILED: Known = Known::new("tls_failed", "The host's certificate is not valid for it.");
const BAD_OBJECTS: Known =
    Known::new("bad_objects", "The other side sent objects that are broken or dangerous. Nothing was kept.");
const HOST_REFUSED: Known =
    Known::new("host_refused", "The host is not one the agent may talk to. Ask the operator to allow it.");
const ADDRESS_REFUSED: Known =
    Known::new("address_refused", "The host's address is private or belongs to this machine. Use a public host.");
const UNKNOWN_CONNECTION: Known =
    Known::new("unknown_connection", "No connection of that name is set up for the agent. Ask the operator.");
const WRONG_CONNECTION: Known =
    Known::new("connection_mismatch", "The connection is for another host. Use the one of this host, or none.");
const SECRET_UNAVAILABLE: Known =
    Known::new("secret_unavailable", "The credentials of the connection cannot be read. Ask the operator.");

const ENDS: [&Known; 12] = [
    &TIMED_OUT,
    &CPU_LIMIT,
    &OOM_KILLED,
    &PIDS_EXHAUSTED,
    &DISK_LIMIT,
    &OUTPUT_LIMIT,
    &CANCELLED,
    &ROOM_LOST,
    &ROOM_FAILED,
    &NO_PROGRAM,
    &LOCKED,
    &GIT_FAILED,
];
const PLACES: [&Known; 9] = [
    &NO_REPOSITORY,
    &BAD_REPOSITORY,
    &OUTSIDE,
    &PROTECTED,
    &BAD_PATH,
    &NO_ACCESS,
    &NOT_A_DIRECTORY,
    &WALL_MISSING,
    &IO_ERROR,
];
const REACHES: [&Known; 15] = [
    &UNKNOWN_REMOTE,
    &URL_REFUSED,
    &NO_SUCH_REPOSITORY,
    &AUTH_FAILED,
    &REDIRECT,
    &RESOLVE_FAILED,
    &CONNECT_FAILED,
    &TLS_FAILED,
    &BAD_OBJECTS,
    &HOST_REFUSED,
    &ADDRESS_REFUSED,
    &UNKNOWN_CONNECTION,
    &WRONG_CONNECTION,
    &SECRET_UNAVAILABLE,
    &UNKNOWN_REVISION,
];

/// The part of a declaration that says how a tool fails that works on a repository of the workspace.
pub(super) fn local_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&[&NOT_FOUND, &NOT_A_REGULAR_FILE]).chain(&PLACES).chain(&ENDS).copied())
}

/// The same for one that talks to a remote.
pub(super) fn remote_modes(own: &[&Known]) -> Vec<FailureMode> {
    let local = [&NOT_FOUND, &NOT_A_REGULAR_FILE];
    said(own.iter().chain(&local).chain(&PLACES).chain(&REACHES).chain(&ENDS).copied())
}

/// What git's own words mean: a part of a sentence in lower case, the failure, what to do. The first that fits counts.
const MEANINGS: &[(&str, &Known, &str)] = &[
    (".lock': file exists", &LOCKED, LOCKED_REMEDY),
    ("bad revision 'head", &NO_COMMITS, "Commit something first."),
    ("have the initial commit yet", &NO_COMMITS, "Commit something first."),
    ("is not a stash", &NO_STASH, "Look with the action `list`."),
    ("no stash entries found", &NO_STASH, "Look with the action `list`."),
    ("stash@{", &NO_STASH, "Look with the action `list`."),
    ("src refspec", &UNKNOWN_REVISION, "Name a branch that exists here; `git_branch` lists them."),
    ("bad revision", &UNKNOWN_REVISION, LOOK),
    ("unknown revision", &UNKNOWN_REVISION, LOOK),
    ("not a valid object name", &UNKNOWN_REVISION, LOOK),
    ("invalid reference", &UNKNOWN_REVISION, LOOK),
    ("not something we can merge", &UNKNOWN_REVISION, LOOK),
    ("failed to resolve", &UNKNOWN_REVISION, LOOK),
    ("no branch named", &UNKNOWN_REVISION, LOOK),
    ("not found.", &UNKNOWN_REVISION, LOOK),
    ("invalid upstream", &UNKNOWN_REVISION, LOOK),
    ("did not match any file", &UNKNOWN_PATH, "Look with `git_status` or `ls`; a path is relative to the repository."),
    ("does not exist in", &UNKNOWN_PATH, "Look at another revision; a path is relative to the repository."),
    ("no such path", &UNKNOWN_PATH, "Look with `ls`; a path is relative to the repository."),
    ("used by worktree", &IN_USE, "Switch to another branch first."),
    ("already exists", &ALREADY_EXISTS, "Choose another name."),
    ("not fully merged", &NOT_MERGED, "Merge it first, or set `force` if its commits are to be lost."),
    ("branch '", &UNKNOWN_REVISION, LOOK),
    ("would be overwritten", &WOULD_OVERWRITE, "Commit or stash the changes first; move untracked files away."),
    ("you have unstaged changes", &WOULD_OVERWRITE, "Commit or stash the changes first."),
    ("index contains uncommitted changes", &WOULD_OVERWRITE, "Commit or stash the changes first."),
    ("unmerged files", &UNMERGED, "Edit the files, commit them by `paths`; or abort the merge."),
    ("needs merge", &UNMERGED, "Edit the files, commit them by `paths`; or abort the merge."),
    ("while merging", &IN_PROGRESS, "Commit the merge, or abort it with `git_merge`."),
    ("you have not concluded your merge", &IN_PROGRESS, "Commit the merge, or abort it with `git_merge`."),
    ("while rebasing", &IN_PROGRESS, "Finish the rebase outside, or abort it."),
    ("rebase-merge", &IN_PROGRESS, "Finish the rebase outside, or abort it."),
    ("no merge to abort", &BAD_REQUEST, "Leave `abort` out; `git_status` shows where things stand."),
    ("not possible to fast-forward", &NOT_FAST_FORWARD, "Use `merge` or `rebase`."),
];

const LOCKED_REMEDY: &str = "Try again when the other git is done; if there is none, a person can remove the lock.";
const LOOK: &str = "Look with `git_branch`, `git_tag` or `git_log`.";

/// The same for what goes wrong on the way to a remote.
const FAR_MEANINGS: &[(&str, &Known, &str)] = &[
    ("permission denied (publickey", &AUTH_FAILED, NO_KEYS),
    ("host key verification failed", &AUTH_FAILED, NO_KEYS),
    ("authentication failed", &AUTH_FAILED, CONNECT),
    ("could not read username", &AUTH_FAILED, CONNECT),
    ("could not read password", &AUTH_FAILED, CONNECT),
    ("returned error: 403", &AUTH_FAILED, "Use a connection that may do this."),
    ("couldn't find remote ref", &UNKNOWN_REVISION, "Name a branch that the remote has."),
    ("remote branch", &UNKNOWN_REVISION, "Name a branch that the remote has."),
    ("not found", &NO_SUCH_REPOSITORY, CHECK_ADDRESS),
    ("could not read from remote repository", &NO_SUCH_REPOSITORY, CHECK_ADDRESS),
    ("returned error: 404", &NO_SUCH_REPOSITORY, CHECK_ADDRESS),
    ("returned error: 30", &REDIRECT, "Use the address the host points to, if that is meant."),
    ("could not resolve host", &RESOLVE_FAILED, "Check the spelling of the host."),
    ("could not resolve hostname", &RESOLVE_FAILED, "Check the spelling of the host."),
    ("failed to connect", &CONNECT_FAILED, "Try again later."),
    ("connection refused", &CONNECT_FAILED, "Try again later."),
    ("connection timed out", &CONNECT_FAILED, "Try again later."),
    ("operation too slow", &CONNECT_FAILED, "Try again later."),
    ("certificate", &TLS_FAILED, "Ask whoever runs the host."),
    ("fsck error", &BAD_OBJECTS, "Ask whoever runs the repository to repair it."),
];

const NO_KEYS: &str = "Use the `https` address and a `connection`: rooms have no SSH keys.";
const CONNECT: &str = "Name a `connection` of the operator's for this host.";
const CHECK_ADDRESS: &str = "Check the address, or name a `connection` that may see it.";

/// The fault of a git that ended with a status other than 0.
pub(super) fn of_git(ran: &Ran) -> Fault {
    told(ran, MEANINGS.iter())
}

/// The same for a git that talked to a remote.
pub(super) fn of_remote(ran: &Ran) -> Fault {
    told(ran, FAR_MEANINGS.iter().chain(MEANINGS))
}

fn told<'a>(ran: &Ran, mut meanings: impl Iterator<Item = &'a (&'static str, &'static Known, &'static str)>) -> Fault {
    let said = words(ran);
    let lower = said.to_lowercase();
    match meanings.find(|(part, ..)| lower.contains(part)) {
        Some((_, known, remedy)) => {
            let fault = known.failed(said, *remedy);
            if LOCKED.is(&fault) || CONNECT_FAILED.is(&fault) { fault.retryable() } else { fault }
        }
        None => GIT_FAILED.failed(said, "Read what git says; `git_status` shows where things stand."),
    }
}

/// What git said, fit for a message: its last lines, without anything a reader does not see, and who was refused.
fn words(ran: &Ran) -> String {
    const LINES: usize = 8;
    const BYTES: usize = 1000;
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with("hint:");
    let lines: Vec<&str> = ran.stderr.text.lines().filter(is_said).collect();
    let mut said: Vec<String> = lines[lines.len().saturating_sub(LINES)..].iter().map(|line| visible(line)).collect();
    said.extend(ran.refused.iter().take(LINES).map(|refused| format!("connection refused: {}", visible(refused))));
    let said = said.join("\n");
    match said[said.ceil_char_boundary(said.len().saturating_sub(BYTES))..].trim() {
        "" => "git ended without a word".to_owned(),
        said => format!("git says: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::stage::ran;

    /// What is made of git's words.
    fn check(stderr: &str, local: &str, far: &str) {
        let ran = ran(128, "", stderr);
        assert_eq!((&*of_git(&ran).code, &*of_remote(&ran).code), (local, far), "{stderr}");
    }

    #[test]
    fn git_s_words_become_faults_that_help() {
        for (stderr, code) in [
            ("fatal: Unable to create '/w/.git/index.lock': File exists.\n\nAnother git process", "repository_locked"),
            ("fatal: bad revision 'HEAD'", "no_commits"),
            ("fatal: bad revision 'nope'", "unknown_revision"),
            ("fatal: invalid reference: nope", "unknown_revision"),
            ("fatal: not a valid object name: 'nope'", "unknown_revision"),
            ("merge: nope - not something we can merge", "unknown_revision"),
            ("fatal: Failed to resolve 'nope' as a valid ref.", "unknown_revision"),
            ("fatal: no branch named 'nope'", "unknown_revision"),
            ("fatal: a branch named 'main' already exists", "already_exists"),
            ("fatal: tag 'v1' already exists", "already_exists"),
            ("error: the branch 'dev' is not fully merged\nhint: If you are sure", "not_merged"),
            ("error: cannot delete branch 'main' used by worktree at '/w'", "branch_in_use"),
            ("fatal: no such path 'x' in HEAD", "unknown_path"),
            ("fatal: pathspec 'x' did not match any files", "unknown_path"),
            ("error: Your local changes to the following files would be overwritten by merge:\n\ta", "would_overwrite"),
            ("error: cannot rebase: You have unstaged changes.", "would_overwrite"),
            ("error: Committing is not possible because you have unmerged files.", "unmerged_files"),
            ("fatal: cannot switch branch while merging", "operation_in_progress"),
            ("fatal: There is no merge to abort (MERGE_HEAD missing).", "bad_request"),
            ("fatal: Not possible to fast-forward, aborting.", "not_fast_forward"),
            ("No stash entries found.", "no_stash"),
            ("error: stash@{3} is not a valid reference", "no_stash"),
            ("fatal: something nobody has thought of", "git_failed"),
        ] {
            check(stderr, code, code);
        }
        for (stderr, code) in [
            ("fatal: could not read Username for 'https://x': terminal prompts disabled", "authentication_failed"),
            ("fatal: Authentication failed for 'https://x/'", "authentication_failed"),
            ("fatal: unable to access 'https://x/': The requested URL returned error: 403", "authentication_failed"),
            (
                "git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                "authentication_failed",
            ),
            ("Host key verification failed.\nfatal: Could not read from remote repository.", "authentication_failed"),
            ("fatal: repository 'https://x/' not found", "repository_not_found"),
            ("fatal: unable to access 'https://x/': The requested URL returned error: 301", "redirect_refused"),
            ("fatal: unable to access 'https://x/': Could not resolve host: x", "resolve_failed"),
            ("fatal: unable to access 'https://x/': Failed to connect to x port 443", "connect_failed"),
            ("fatal: unable to access 'https://x/': SSL certificate problem: self-signed", "tls_failed"),
            ("fatal: couldn't find remote ref refs/heads/x", "unknown_revision"),
            ("fatal: Remote branch x not found in upstream origin", "unknown_revision"),
            ("error: object 1: missingSpaceBeforeDate\nfatal: fsck error in packed object", "bad_objects"),
        ] {
            assert_eq!(of_remote(&ran(128, "", stderr)).code, code, "{stderr}");
        }
    }

    #[test]
    fn what_may_pass_by_itself_is_worth_another_try() {
        assert!(of_git(&ran(128, "", "fatal: Unable to create '/w/.git/HEAD.lock': File exists.")).retryable);
        assert!(of_remote(&ran(128, "", "Failed to connect")).retryable);
        assert!(!of_remote(&ran(128, "", "Authentication failed")).retryable);
    }

    #[test]
    fn a_message_is_short_and_has_nothing_in_it_that_nobody_sees() {
        let long: String = (0..100).map(|n| format!("line {n}\u{1b}[1m {}\nhint: x\n\n", "x".repeat(200))).collect();
        let fault = of_git(&ran(1, "", &long));
        assert!(fault.message.len() < 1_100 && fault.message.contains("line 99") && !fault.message.contains("hint"));
        assert!(!fault.message.contains('\u{1b}'));
        assert_eq!(of_git(&ran(1, "", "")).message, "git ended without a word");
        let refused = Ran { refused: vec!["x:443: not on the list".into()], ..ran(128, "", "fatal: no") };
        assert_eq!(of_git(&refused).message, "git says: fatal: no\nconnection refused: x:443: not on the list");
    }
}
