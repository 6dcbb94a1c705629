//! What a forge answers, read into our own words. Pure.
//!
//! GitHub and Forgejo have the same shapes with small differences, GitLab its own. What is not needed is not read, so
//! that a forge may add to its answers.

use serde::Deserialize;

use super::{
    ask::{Service, is_wip},
    pull::{Change, ChangedFile, Comment, Pull, State, Whole},
};
use crate::files::text::prefix;

type Read<T> = serde_json::Result<T>;

/// What became of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) done: bool,
    /// The commit it made, where the forge tells.
    pub(super) commit: Option<String>,
}

impl Service {
    pub(super) fn read_pull(self, answer: &[u8]) -> Read<Whole> {
        Ok(match self {
            Self::Github | Self::Forgejo => self.whole(serde_json::from_slice(answer)?),
            Self::Gitlab => serde_json::from_slice::<MergeRequest>(answer)?.into(),
        })
    }

    pub(super) fn read_pulls(self, answer: &[u8]) -> Read<Vec<Pull>> {
        Ok(match self {
            Self::Github | Self::Forgejo => {
                let pulls: Vec<PullRequest> = serde_json::from_slice(answer)?;
                pulls.into_iter().map(|pull| self.whole(pull).pull).collect()
            }
            Self::Gitlab => {
                let pulls: Vec<MergeRequest> = serde_json::from_slice(answer)?;
                pulls.into_iter().map(|pull| Whole::from(pull).pull).collect()
            }
        })
    }

    pub(super) fn read_comment(self, answer: &[u8]) -> Read<Comment> {
        Ok(match self {
            Self::Github | Self::Forgejo => serde_json::from_slice::<IssueComment>(answer)?.into(),
            Self::Gitlab => serde_json::from_slice::<Note>(answer)?.into(),
        })
    }

    pub(super) fn read_comments(self, answer: &[u8]) -> Read<Vec<Comment>> {
        Ok(match self {
            Self::Github | Self::Forgejo => {
                let comments: Vec<IssueComment> = serde_json::from_slice(answer)?;
                comments.into_iter().map(Comment::from).collect()
            }
            // Among the notes GitLab writes down what happened by itself; nobody said that.
            Self::Gitlab => {
                let notes: Vec<Note> = serde_json::from_slice(answer)?;
                notes.into_iter().filter(|note| !note.system).map(Comment::from).collect()
            }
        })
    }

    pub(super) fn read_files(self, answer: &[u8]) -> Read<Vec<ChangedFile>> {
        Ok(match self {
            Self::Github | Self::Forgejo => {
                let files: Vec<PullFile> = serde_json::from_slice(answer)?;
                files.into_iter().map(ChangedFile::from).collect()
            }
            Self::Gitlab => {
                let diffs: Vec<Diff> = serde_json::from_slice(answer)?;
                diffs.into_iter().map(ChangedFile::from).collect()
            }
        })
    }

    pub(super) fn read_merged(self, answer: &[u8]) -> Read<Merged> {
        Ok(match self {
            Self::Github => {
                let MergeResult { merged, sha } = serde_json::from_slice(answer)?;
                Merged { done: merged, commit: sha }
            }
            // Forgejo says nothing when it has done it.
            Self::Forgejo => Merged { done: true, commit: None },
            Self::Gitlab => {
                let whole = Whole::from(serde_json::from_slice::<MergeRequest>(answer)?);
                Merged { done: whole.pull.state == State::Merged, commit: whole.merge_commit }
            }
        })
    }

    fn whole(self, pull: PullRequest) -> Whole {
        let merged = pull.merged.unwrap_or(false) || pull.merged_at.is_some();
        let state = match pull.state.as_str() {
            _ if merged => State::Merged,
            "open" => State::Open,
            _ => State::Closed,
        };
        // Older ones of Forgejo tell a draft by its title only.
        let draft = pull.draft.unwrap_or_else(|| self == Self::Forgejo && is_wip(&pull.title));
        let from_fork = match (&pull.head.repo, &pull.base.repo) {
            (Some(head), Some(base)) => !head.full_name.eq_ignore_ascii_case(&base.full_name),
            _ => true,
        };
        Whole {
            pull: Pull {
                number: pull.number,
                title: short(pull.title),
                state,
                draft,
                author: author(pull.user.map(|user| user.login)),
                head: short(pull.head.branch),
                head_sha: pull.head.sha.filter(|sha| !sha.is_empty()).map(short),
                from_fork,
                base: short(pull.base.branch),
                url: short(pull.html_url),
                created_at: short(pull.created_at),
                updated_at: short(pull.updated_at),
            },
            body: pull.body.unwrap_or_default(),
            mergeable: pull.mergeable.filter(|_| state == State::Open),
            // Before it is merged, GitHub has a commit here that tries the merge out.
            merge_commit: pull.merge_commit_sha.filter(|_| merged).map(short),
        }
    }
}

#[derive(Deserialize)]
struct PullRequest {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    draft: Option<bool>,
    merged: Option<bool>,
    merged_at: Option<String>,
    mergeable: Option<bool>,
    merge_commit_sha: Option<String>,
    user: Option<User>,
    head: Side,
    base: Side,
    html_url: String,
    created_at: String,
    updated_at: String,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Side {
    #[serde(rename = "ref")]
    branch: String,
    sha: Option<String>,
    repo: Option<Repo>,
}

#[derive(Deserialize)]
struct Repo {
    full_name: String,
}

#[derive(Deserialize)]
struct IssueComment {
    id: u64,
    user: Option<User>,
    body: Option<String>,
    created_at: String,
    html_url: Option<String>,
}

impl From<IssueComment> for Comment {
    fn from(comment: IssueComment) -> Self {
        Self {
            id: comment.id,
            author: author(comment.user.map(|user| user.login)),
            body: comment.body.unwrap_or_default(),
            created_at: short(comment.created_at),
            url: comment.html_url.map(short),
        }
    }
}

#[derive(Deserialize)]
struct PullFile {
    filename: String,
    previous_filename: Option<String>,
    status: String,
    additions: Option<u64>,
    deletions: Option<u64>,
}

impl From<PullFile> for ChangedFile {
    fn from(file: PullFile) -> Self {
        let change = match file.status.as_str() {
            "added" | "copied" => Change::Added,
            "removed" | "deleted" => Change::Removed,
            "renamed" => Change::Renamed,
            _ => Change::Changed,
        };
        Self {
            path: short(file.filename),
            previous_path: file.previous_filename.filter(|path| !path.is_empty()).map(short),
            change,
            additions: file.additions,
            deletions: file.deletions,
        }
    }
}

#[derive(Deserialize)]
struct MergeResult {
    merged: bool,
    sha: Option<String>,
}

#[derive(Deserialize)]
struct MergeRequest {
    iid: u64,
    title: String,
    description: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    author: Option<Author>,
    source_branch: String,
    target_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    sha: Option<String>,
    detailed_merge_status: Option<String>,
    merge_commit_sha: Option<String>,
    squash_commit_sha: Option<String>,
    web_url: String,
    created_at: String,
    updated_at: String,
}

#[derive(Deserialize)]
struct Author {
    username: String,
}

impl From<MergeRequest> for Whole {
    fn from(request: MergeRequest) -> Self {
        let state = match request.state.as_str() {
            "opened" => State::Open,
            "merged" => State::Merged,
            _ => State::Closed,
        };
        let mergeable = match request.detailed_merge_status.as_deref() {
            // GitLab has not looked yet.
            None | Some("unchecked" | "checking" | "preparing" | "approvals_syncing") => None,
            Some(status) => Some(status == "mergeable"),
        };
        let merge_commit = request.merge_commit_sha.or(request.squash_commit_sha);
        Self {
            pull: Pull {
                number: request.iid,
                title: short(request.title),
                state,
                draft: request.draft,
                author: author(request.author.map(|author| author.username)),
                head: short(request.source_branch),
                head_sha: request.sha.map(short),
                from_fork: request.source_project_id != Some(request.target_project_id),
                base: short(request.target_branch),
                url: short(request.web_url),
                created_at: short(request.created_at),
                updated_at: short(request.updated_at),
            },
            body: request.description.unwrap_or_default(),
            mergeable: mergeable.filter(|_| state == State::Open),
            merge_commit: merge_commit.filter(|_| state == State::Merged).map(short),
        }
    }
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    author: Option<Author>,
    body: String,
    created_at: String,
    #[serde(default)]
    system: bool,
}

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        Self {
            id: note.id,
            author: author(note.author.map(|author| author.username)),
            body: note.body,
            created_at: short(note.created_at),
            url: None,
        }
    }
}

#[derive(Deserialize)]
struct Diff {
    old_path: String,
    new_path: String,
    #[serde(default)]
    new_file: bool,
    #[serde(default)]
    renamed_file: bool,
    #[serde(default)]
    deleted_file: bool,
    #[serde(default)]
    diff: String,
}

impl From<Diff> for ChangedFile {
    fn from(diff: Diff) -> Self {
        let change = match () {
            () if diff.new_file => Change::Added,
            () if diff.deleted_file => Change::Removed,
            () if diff.renamed_file => Change::Renamed,
            () => Change::Changed,
        };
        // GitLab has the changes and does not count them. Of large ones it shows nothing.
        let count = |mark| {
            let lines = diff.diff.lines().filter(|line| line.starts_with(mark)).count();
            (!diff.diff.is_empty()).then_some(lines as u64)
        };
        Self {
            additions: count('+'),
            deletions: count('-'),
            previous_path: diff.renamed_file.then(|| short(diff.old_path)),
            path: short(diff.new_path),
            change,
        }
    }
}

/// Whoever is gone has no name.
fn author(name: Option<String>) -> String {
    short(name.unwrap_or_default())
}

/// A name, a title or an address: longer ones than this are none.
fn short(text: String) -> String {
    const LONGEST: usize = 1_024;
    prefix(&text, LONGEST).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::stage::{changed, merge_request, pull_request},
        *,
    };

    fn pull(state: State) -> Pull {
        Pull {
            number: 7,
            title: "Turn faster".into(),
            state,
            draft: false,
            author: "ada".into(),
            head: "fix/7".into(),
            head_sha: Some("c0ffee".into()),
            from_fork: false,
            base: "main".into(),
            url: "https://forge.example/ada/engine/pulls/7".into(),
            created_at: "2026-01-02T03:04:05Z".into(),
            updated_at: "2026-02-02T03:04:05Z".into(),
        }
    }

    fn read(service: Service, answer: &Value) -> Whole {
        service.read_pull(answer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn all_forges_say_the_same() {
        let expected = Whole { pull: pull(State::Open), body: "why".into(), mergeable: Some(true), merge_commit: None };
        for (service, answer) in
            [(Service::Github, pull_request()), (Service::Forgejo, pull_request()), (Service::Gitlab, merge_request())]
        {
            assert_eq!(read(service, &answer), expected, "{service:?}");
            let list = json!([answer]).to_string();
            assert_eq!(service.read_pulls(list.as_bytes()).unwrap(), [pull(State::Open)], "{service:?}");
        }
    }

    #[test]
    fn merged_and_closed_are_told_apart() {
        let merged =
            Whole { pull: pull(State::Merged), body: "why".into(), mergeable: None, merge_commit: Some("beef".into()) };
        let closed = Whole { pull: pull(State::Closed), merge_commit: None, ..merged.clone() };
        // In lists GitHub has only the time.
        let answer = changed(pull_request(), json!({ "state": "closed", "merged": null, "merged_at": "2026-02-03" }));
        assert_eq!(read(Service::Github, &answer), merged);
        let answer = changed(pull_request(), json!({ "state": "closed", "merged": true }));
        assert_eq!(read(Service::Forgejo, &answer), merged);
        let answer = changed(merge_request(), json!({ "state": "merged", "squash_commit_sha": "beef" }));
        assert_eq!(read(Service::Gitlab, &answer), merged);
        assert_eq!(read(Service::Github, &changed(pull_request(), json!({ "state": "closed" }))), closed);
        for state in ["closed", "locked"] {
            assert_eq!(read(Service::Gitlab, &changed(merge_request(), json!({ "state": state }))), closed);
        }
    }

    #[test]
    fn what_is_gone_is_empty_and_never_taken_for_the_repository_itself() {
        let gone = json!({
            "user": null, "body": null, "head": { "ref": "fix/7", "sha": "", "repo": null }, "mergeable": null,
        });
        let found = read(Service::Github, &changed(pull_request(), gone));
        let expected = Pull { author: String::new(), head_sha: None, from_fork: true, ..pull(State::Open) };
        assert_eq!((found.pull, found.body, found.mergeable), (expected, String::new(), None));
        let fork = json!({ "head": { "ref": "fix/7", "sha": "c0ffee", "repo": { "full_name": "eve/engine" } } });
        assert!(read(Service::Forgejo, &changed(pull_request(), fork)).pull.from_fork);
        for source in [json!(4), Value::Null] {
            let answer = changed(merge_request(), json!({ "source_project_id": source }));
            assert!(read(Service::Gitlab, &answer).pull.from_fork);
        }
    }

    #[test]
    fn drafts_are_known_by_field_or_title() {
        let draft = |service, answer: Value| read(service, &answer).pull.draft;
        assert!(draft(Service::Github, changed(pull_request(), json!({ "draft": true }))));
        assert!(draft(Service::Gitlab, changed(merge_request(), json!({ "draft": true }))));
        let titled = json!({ "draft": null, "title": "WIP: x" });
        assert!(draft(Service::Forgejo, changed(pull_request(), titled.clone())));
        assert!(!draft(Service::Github, changed(pull_request(), titled)));
    }

    #[test]
    fn whether_it_can_be_merged_is_unknown_until_gitlab_has_looked() {
        let mergeable = |status: Value| {
            read(Service::Gitlab, &changed(merge_request(), json!({ "detailed_merge_status": status }))).mergeable
        };
        assert_eq!(mergeable(json!("checking")), None);
        assert_eq!(mergeable(Value::Null), None);
        assert_eq!(mergeable(json!("conflict")), Some(false));
        assert_eq!(mergeable(json!("not_approved")), Some(false));
    }

    #[test]
    fn comments_are_what_people_said() {
        let expected = |url: Option<&str>| Comment {
            id: 5,
            author: "eve".into(),
            body: "Good.".into(),
            created_at: "2026-01-02T03:04:05Z".into(),
            url: url.map(str::to_owned),
        };
        let comment = json!({
            "id": 5, "user": { "login": "eve" }, "body": "Good.", "created_at": "2026-01-02T03:04:05Z",
            "html_url": "https://forge.example/c/5",
        });
        for service in [Service::Github, Service::Forgejo] {
            let one = service.read_comment(comment.to_string().as_bytes()).unwrap();
            let all = service.read_comments(json!([comment]).to_string().as_bytes()).unwrap();
            assert_eq!((one, all.as_slice()), (all[0].clone(), &[expected(Some("https://forge.example/c/5"))][..]));
        }
        let note = json!({
            "id": 5, "author": { "username": "eve" }, "body": "Good.", "created_at": "2026-01-02T03:04:05Z",
            "system": false,
        });
        let event = changed(note.clone(), json!({ "system": true, "body": "added 1 commit" }));
        let all = Service::Gitlab.read_comments(json!([event, note]).to_string().as_bytes()).unwrap();
        assert_eq!(all, [expected(None)]);
    }

    #[test]
    fn files_are_named_with_what_happens_to_them() {
        let file = |path: &str, previous: Option<&str>, change, lines: Option<(u64, u64)>| ChangedFile {
            path: path.into(),
            previous_path: previous.map(str::to_owned),
            change,
            additions: lines.map(|(added, _)| added),
            deletions: lines.map(|(_, removed)| removed),
        };
        let answer = json!([
            { "filename": "a", "status": "added", "additions": 2, "deletions": 0 },
            { "filename": "b", "status": "modified", "additions": 1, "deletions": 1, "previous_filename": "" },
            { "filename": "c", "status": "deleted", "additions": 0, "deletions": 4 },
            { "filename": "d", "status": "renamed", "previous_filename": "e", "additions": 0, "deletions": 0 },
        ]);
        let expected = [
            file("a", None, Change::Added, Some((2, 0))),
            file("b", None, Change::Changed, Some((1, 1))),
            file("c", None, Change::Removed, Some((0, 4))),
            file("d", Some("e"), Change::Renamed, Some((0, 0))),
        ];
        for service in [Service::Github, Service::Forgejo] {
            assert_eq!(service.read_files(answer.to_string().as_bytes()).unwrap(), expected);
        }
        let answer = json!([
            { "old_path": "a", "new_path": "a", "new_file": true, "diff": "@@ -0,0 +1,2 @@\n+x\n+y\n" },
            { "old_path": "b", "new_path": "b", "diff": "@@ -1 +1 @@\n-x\n+y\n z\n" },
            { "old_path": "c", "new_path": "c", "deleted_file": true, "diff": "", "too_large": true },
            { "old_path": "e", "new_path": "d", "renamed_file": true, "diff": "" },
        ]);
        let expected = [
            file("a", None, Change::Added, Some((2, 0))),
            file("b", None, Change::Changed, Some((1, 1))),
            file("c", None, Change::Removed, None),
            file("d", Some("e"), Change::Renamed, None),
        ];
        assert_eq!(Service::Gitlab.read_files(answer.to_string().as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_merge_is_done_when_the_forge_says_so() {
        let merged = |service: Service, answer: &str| service.read_merged(answer.as_bytes()).unwrap();
        let done = Merged { done: true, commit: Some("beef".into()) };
        assert_eq!(merged(Service::Github, r#"{"merged": true, "sha": "beef", "message": "ok"}"#), done);
        assert!(!merged(Service::Github, r#"{"merged": false, "message": "no"}"#).done);
        let answer = changed(merge_request(), json!({ "state": "merged", "merge_commit_sha": "beef" }));
        assert_eq!(merged(Service::Gitlab, &answer.to_string()), done);
        assert!(!merged(Service::Gitlab, &merge_request().to_string()).done);
        assert_eq!(merged(Service::Forgejo, ""), Merged { done: true, commit: None });
    }

    #[test]
    fn what_is_none_is_not_read() {
        for service in [Service::Github, Service::Gitlab, Service::Forgejo] {
            for answer in ["", "<html>", "[]", "{}", r#"{"message": "hello"}"#] {
                assert!(service.read_pull(answer.as_bytes()).is_err(), "{service:?} {answer}");
                assert!(service.read_comment(answer.as_bytes()).is_err(), "{service:?} {answer}");
            }
            assert!(service.read_pulls(b"{}").is_err() && service.read_files(b"{}").is_err());
        }
    }

    #[test]
    fn a_title_without_end_has_one() {
        let found = read(Service::Github, &changed(pull_request(), json!({ "title": "ä".repeat(100_000) })));
        assert_eq!(found.pull.title, "ä".repeat(512));
    }
}
