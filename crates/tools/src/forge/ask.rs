//! What is asked of a forge, written down the way each one wants it. Pure: nothing is sent here.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use toolgate_contract::{ConnectionInfo, Fault, Method, ServiceKind};

use super::{
    fault::{BAD_REPOSITORY, NOT_A_FORGE, UNSUPPORTED},
    place::{Head, Repository},
    pull::{Filter, MergeMethod, State},
};

/// The forges whose language is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Github,
    Gitlab,
    Forgejo,
}

/// One request, without the address of the forge.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Below the root of the API.
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
}

/// A pull request that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewPull {
    pub(super) title: String,
    pub(super) body: String,
    pub(super) head: Head,
    pub(super) base: String,
    pub(super) draft: bool,
}

/// What stays as it is in a part of a path or of a query.
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same where slashes are kept.
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

impl Service {
    /// What answers at a connection, and the path from its address to the root of the API: operators give the address
    /// of the forge or that of its API.
    pub(super) fn at(connection: &ConnectionInfo) -> Result<(Self, &'static str), Fault> {
        let base = connection.base_url.trim_end_matches('/');
        let host = base.split_once("://").map_or(base, |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
        let below = |root: &'static str| if base.ends_with(root) { "" } else { root };
        match connection.kind {
            ServiceKind::Github if host == "github.com" || host == "www.github.com" => Err(NOT_A_FORGE.failed(
                format!("connection `{}` leads to the pages of GitHub and not to its API", connection.name),
                "Ask the operator for a connection to `https://api.github.com`.",
            )),
            ServiceKind::Github if host.starts_with("api.") => Ok((Self::Github, "")),
            ServiceKind::Github => Ok((Self::Github, below("/api/v3"))),
            ServiceKind::Gitlab => Ok((Self::Gitlab, below("/api/v4"))),
            ServiceKind::Forgejo => Ok((Self::Forgejo, below("/api/v1"))),
            ServiceKind::Generic => Err(NOT_A_FORGE.failed(
                format!("connection `{}` is not said to lead to a forge", connection.name),
                "Ask the operator to set its `kind` to `github`, `gitlab` or `forgejo`.",
            )),
        }
    }

    pub(super) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Github => &[("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")],
            Self::Gitlab | Self::Forgejo => &[("accept", "application/json")],
        }
    }

    /// The parts of a query that ask for one page of a list, and how long pages are at most.
    pub(super) fn page(self, number: usize, size: usize) -> [(&'static str, String); 2] {
        let (name, most) = match self {
            Self::Github | Self::Gitlab => ("per_page", 100),
            Self::Forgejo => ("limit", 50),
        };
        [(name, size.min(most).to_string()), ("page", number.to_string())]
    }

    pub(super) fn create(self, repository: &Repository, new: &NewPull) -> Result<Ask, Fault> {
        let path = self.pulls(repository)?;
        let body = match self {
            Self::Github => json!({
                "title": new.title, "body": new.body, "head": from_fork(&new.head), "base": new.base, "draft": new.draft,
            }),
            Self::Forgejo => json!({
                "title": titled(&new.title, new.draft, "WIP: ", is_wip), "body": new.body, "head": from_fork(&new.head),
                "base": new.base,
            }),
            Self::Gitlab if new.head.owner.is_some() => {
                return Err(UNSUPPORTED.failed(
                    "on GitLab a merge request from a fork is opened in the fork",
                    "Name a branch of the repository itself as `head`.",
                ));
            }
            Self::Gitlab => json!({
                "title": titled(&new.title, new.draft, "Draft: ", is_gitlab_draft), "description": new.body,
                "source_branch": new.head.branch, "target_branch": new.base,
            }),
        };
        Ok(Ask { method: Method::Post, path, query: Vec::new(), body: Some(body) })
    }

    /// Those that may be wanted: what a forge cannot sort out itself is left to [`Filter::wants`].
    pub(super) fn list(self, repository: &Repository, filter: &Filter, head: Option<&Head>) -> Result<Ask, Fault> {
        let mut query = vec![("state", self.state(filter.state).to_owned())];
        match self {
            Self::Github => {
                query.extend(filter.base.clone().map(|base| ("base", base)));
                query.extend(head.map(|head| {
                    let owner = head.owner.as_deref().unwrap_or(repository.owner());
                    ("head", format!("{owner}:{}", head.branch))
                }));
            }
            Self::Gitlab => {
                query.extend(filter.base.clone().map(|base| ("target_branch", base)));
                query.extend(head.map(|head| ("source_branch", head.branch.clone())));
            }
            Self::Forgejo => {}
        }
        Ok(Ask { query, ..get(self.pulls(repository)?) })
    }

    pub(super) fn view(self, repository: &Repository, number: u64) -> Result<Ask, Fault> {
        Ok(get(self.pull(repository, number)?))
    }

    pub(super) fn comments(self, repository: &Repository, number: u64) -> Result<Ask, Fault> {
        let query = match self {
            Self::Github | Self::Forgejo => Vec::new(),
            Self::Gitlab => vec![("sort", "asc".to_owned()), ("order_by", "created_at".to_owned())],
        };
        Ok(Ask { query, ..get(self.said(repository, number)?) })
    }

    pub(super) fn files(self, repository: &Repository, number: u64) -> Result<Ask, Fault> {
        let list = match self {
            Self::Github | Self::Forgejo => "files",
            Self::Gitlab => "diffs",
        };
        Ok(get(format!("{}/{list}", self.pull(repository, number)?)))
    }

    pub(super) fn comment(self, repository: &Repository, number: u64, text: &str) -> Result<Ask, Fault> {
        let body = Some(json!({ "body": text }));
        Ok(Ask { method: Method::Post, path: self.said(repository, number)?, query: Vec::new(), body })
    }

    /// Asks for the merge of exactly this commit. That the branch stays is said, because a repository's settings or the
    /// pull request's own may have it removed.
    pub(super) fn merge(
        self,
        repository: &Repository,
        number: u64,
        how: MergeMethod,
        head: Option<&str>,
    ) -> Result<Ask, Fault> {
        let path = format!("{}/merge", self.pull(repository, number)?);
        let (method, mut body, sha) = match self {
            Self::Github => (Method::Put, json!({ "merge_method": word(how) }), "sha"),
            Self::Forgejo => {
                (Method::Post, json!({ "Do": word(how), "delete_branch_after_merge": false }), "head_commit_id")
            }
            Self::Gitlab if how == MergeMethod::Rebase => {
                return Err(UNSUPPORTED.failed(
                    "on GitLab the project's settings say whether merging means rebasing",
                    "Use `merge` or `squash` as `method`.",
                ));
            }
            Self::Gitlab => {
                let squash = how == MergeMethod::Squash;
                (Method::Put, json!({ "squash": squash, "should_remove_source_branch": false }), "sha")
            }
        };
        if let Some(head) = head {
            body[sha] = head.into();
        }
        Ok(Ask { method, path, query: Vec::new(), body: Some(body) })
    }

    pub(super) fn delete_branch(self, repository: &Repository, branch: &str) -> Result<Ask, Fault> {
        let home = self.home(repository)?;
        let path = match self {
            Self::Github => format!("{home}/git/refs/heads/{}", utf8_percent_encode(branch, PATH)),
            Self::Forgejo => format!("{home}/branches/{}", utf8_percent_encode(branch, PATH)),
            Self::Gitlab => format!("{home}/repository/branches/{}", utf8_percent_encode(branch, SEGMENT)),
        };
        Ok(Ask { method: Method::Delete, ..get(path) })
    }

    fn home(self, repository: &Repository) -> Result<String, Fault> {
        match self {
            Self::Gitlab => Ok(format!("/projects/{}", utf8_percent_encode(repository.as_str(), SEGMENT))),
            Self::Github | Self::Forgejo if repository.is_nested() => Err(BAD_REPOSITORY.failed(
                format!("`{}` has more than an owner and a name, and only GitLab has groups", repository.as_str()),
                "Write it as `owner/name`.",
            )),
            Self::Github | Self::Forgejo => Ok(format!("/repos/{}", repository.as_str())),
        }
    }

    fn pulls(self, repository: &Repository) -> Result<String, Fault> {
        let list = match self {
            Self::Github | Self::Forgejo => "pulls",
            Self::Gitlab => "merge_requests",
        };
        Ok(format!("{}/{list}", self.home(repository)?))
    }

    fn pull(self, repository: &Repository, number: u64) -> Result<String, Fault> {
        Ok(format!("{}/{number}", self.pulls(repository)?))
    }

    /// What was said about it.
    fn said(self, repository: &Repository, number: u64) -> Result<String, Fault> {
        match self {
            Self::Github | Self::Forgejo => Ok(format!("{}/issues/{number}/comments", self.home(repository)?)),
            Self::Gitlab => Ok(format!("{}/notes", self.pull(repository, number)?)),
        }
    }

    /// To GitHub and Forgejo what was merged is closed, too.
    fn state(self, state: Option<State>) -> &'static str {
        match (self, state) {
            (_, None) => "all",
            (Self::Github | Self::Forgejo, Some(State::Open)) => "open",
            (Self::Gitlab, Some(State::Open)) => "opened",
            (Self::Gitlab, Some(State::Merged)) => "merged",
            (_, Some(State::Closed | State::Merged)) => "closed",
        }
    }
}

fn get(path: String) -> Ask {
    Ask { method: Method::Get, path, query: Vec::new(), body: None }
}

fn from_fork(head: &Head) -> String {
    match &head.owner {
        None => head.branch.clone(),
        Some(owner) => format!("{owner}:{}", head.branch),
    }
}

/// Where a draft is one by its title.
fn titled(title: &str, draft: bool, mark: &str, is_marked: fn(&str) -> bool) -> String {
    if draft && !is_marked(title) { format!("{mark}{title}") } else { title.to_owned() }
}

/// Does the title say to Forgejo that it is a draft?
pub(super) fn is_wip(title: &str) -> bool {
    let title = title.to_ascii_lowercase();
    title.starts_with("wip:") || title.starts_with("[wip]")
}

fn is_gitlab_draft(title: &str) -> bool {
    let title = title.to_ascii_lowercase();
    ["draft:", "[draft]", "(draft)"].iter().any(|mark| title.starts_with(mark))
}

fn word(how: MergeMethod) -> &'static str {
    match how {
        MergeMethod::Merge => "merge",
        MergeMethod::Squash => "squash",
        MergeMethod::Rebase => "rebase",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Service; 3] = [Service::Github, Service::Gitlab, Service::Forgejo];

    fn repository() -> Repository {
        Repository::parse("ada/engine").unwrap()
    }

    /// What is asked of each forge, as one line and a body.
    fn check(ask: impl Fn(Service) -> Result<Ask, Fault>, expected: [(&str, Value); 3]) {
        for (service, expected) in ALL.into_iter().zip(expected) {
            let found = ask(service).unwrap();
            let query: Vec<_> = found.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let line = format!("{} {} {}", found.method, found.path, query.join("&"));
            assert_eq!((line.trim_end(), found.body.unwrap_or_default()), (expected.0, expected.1), "{service:?}");
        }
    }

    #[test]
    fn a_pull_request_is_opened() {
        let new = |draft| NewPull {
            title: "Turn faster".into(),
            body: "why".into(),
            head: Head::parse("fix/7").unwrap(),
            base: "main".into(),
            draft,
        };
        check(
            |service| service.create(&repository(), &new(false)),
            [
                (
                    "POST /repos/ada/engine/pulls",
                    json!({ "title": "Turn faster", "body": "why", "head": "fix/7", "base": "main", "draft": false }),
                ),
                (
                    "POST /projects/ada%2Fengine/merge_requests",
                    json!({
                        "title": "Turn faster", "description": "why", "source_branch": "fix/7", "target_branch": "main",
                    }),
                ),
                (
                    "POST /repos/ada/engine/pulls",
                    json!({ "title": "Turn faster", "body": "why", "head": "fix/7", "base": "main" }),
                ),
            ],
        );
        let title = |service: Service, title: &str| {
            let new = NewPull { title: title.into(), ..new(true) };
            let body = service.create(&repository(), &new).unwrap().body.unwrap();
            (body["title"].as_str().unwrap().to_owned(), body["draft"].clone())
        };
        assert_eq!(title(Service::Github, "x"), ("x".into(), true.into()));
        assert_eq!(title(Service::Gitlab, "x"), ("Draft: x".into(), Value::Null));
        assert_eq!(title(Service::Gitlab, "[Draft] x"), ("[Draft] x".into(), Value::Null));
        assert_eq!(title(Service::Forgejo, "x"), ("WIP: x".into(), Value::Null));
        assert_eq!(title(Service::Forgejo, "wip: x"), ("wip: x".into(), Value::Null));
    }

    #[test]
    fn a_head_in_a_fork_is_named_with_its_owner_or_refused() {
        let new = NewPull {
            title: "t".into(),
            body: String::new(),
            head: Head::parse("eve:fix").unwrap(),
            base: "main".into(),
            draft: false,
        };
        for service in [Service::Github, Service::Forgejo] {
            assert_eq!(service.create(&repository(), &new).unwrap().body.unwrap()["head"], "eve:fix");
        }
        assert_eq!(Service::Gitlab.create(&repository(), &new).unwrap_err().code, "forge_unsupported");
    }

    #[test]
    fn a_list_is_sorted_out_by_the_forge_as_far_as_it_can() {
        let head = Head::parse("fix/7").unwrap();
        let filter = |state| Filter { state, base: Some("main".into()), head: Some("fix/7".into()) };
        let ask = |state| {
            let head = head.clone();
            move |service: Service| service.list(&repository(), &filter(state), Some(&head))
        };
        let expected = |github: &str, gitlab: &str, forgejo: &str| {
            [
                format!("GET /repos/ada/engine/pulls state={github}&base=main&head=ada:fix/7"),
                format!(
                    "GET /projects/ada%2Fengine/merge_requests state={gitlab}&target_branch=main&source_branch=fix/7"
                ),
                format!("GET /repos/ada/engine/pulls state={forgejo}"),
            ]
        };
        for (state, words) in [
            (None, ["all", "all", "all"]),
            (Some(State::Open), ["open", "opened", "open"]),
            (Some(State::Closed), ["closed", "closed", "closed"]),
            (Some(State::Merged), ["closed", "merged", "closed"]),
        ] {
            let lines = expected(words[0], words[1], words[2]);
            check(ask(state), lines.each_ref().map(|line| (line.as_str(), Value::Null)));
        }
        let fork = Head::parse("eve:fix").unwrap();
        let found = Service::Github.list(&repository(), &filter(None), Some(&fork)).unwrap();
        assert_eq!(found.query.last(), Some(&("head", "eve:fix".to_owned())));
    }

    #[test]
    fn pages_are_no_longer_than_the_forge_makes_them() {
        let pages = ALL.map(|service| service.page(2, 1_000));
        let page = |name, size: &str| [(name, size.to_owned()), ("page", "2".to_owned())];
        assert_eq!(pages, [page("per_page", "100"), page("per_page", "100"), page("limit", "50")]);
        assert_eq!(Service::Github.page(1, 7)[0], ("per_page", "7".to_owned()));
    }

    #[test]
    fn one_is_looked_at() {
        check(
            |service| service.view(&repository(), 7),
            [
                ("GET /repos/ada/engine/pulls/7", Value::Null),
                ("GET /projects/ada%2Fengine/merge_requests/7", Value::Null),
                ("GET /repos/ada/engine/pulls/7", Value::Null),
            ],
        );
        check(
            |service| service.comments(&repository(), 7),
            [
                ("GET /repos/ada/engine/issues/7/comments", Value::Null),
                ("GET /projects/ada%2Fengine/merge_requests/7/notes sort=asc&order_by=created_at", Value::Null),
                ("GET /repos/ada/engine/issues/7/comments", Value::Null),
            ],
        );
        check(
            |service| service.files(&repository(), 7),
            [
                ("GET /repos/ada/engine/pulls/7/files", Value::Null),
                ("GET /projects/ada%2Fengine/merge_requests/7/diffs", Value::Null),
                ("GET /repos/ada/engine/pulls/7/files", Value::Null),
            ],
        );
    }

    #[test]
    fn something_is_said() {
        let body = json!({ "body": "Good." });
        check(
            |service| service.comment(&repository(), 7, "Good."),
            [
                ("POST /repos/ada/engine/issues/7/comments", body.clone()),
                ("POST /projects/ada%2Fengine/merge_requests/7/notes", body.clone()),
                ("POST /repos/ada/engine/issues/7/comments", body.clone()),
            ],
        );
    }

    #[test]
    fn exactly_one_commit_is_merged_and_the_branch_stays() {
        check(
            |service| service.merge(&repository(), 7, MergeMethod::Squash, Some("abc")),
            [
                ("PUT /repos/ada/engine/pulls/7/merge", json!({ "merge_method": "squash", "sha": "abc" })),
                (
                    "PUT /projects/ada%2Fengine/merge_requests/7/merge",
                    json!({ "squash": true, "should_remove_source_branch": false, "sha": "abc" }),
                ),
                (
                    "POST /repos/ada/engine/pulls/7/merge",
                    json!({ "Do": "squash", "delete_branch_after_merge": false, "head_commit_id": "abc" }),
                ),
            ],
        );
        let how = |service: Service, how| service.merge(&repository(), 7, how, None).map(|ask| ask.body.unwrap());
        assert_eq!(how(Service::Github, MergeMethod::Rebase), Ok(json!({ "merge_method": "rebase" })));
        let merge = json!({ "squash": false, "should_remove_source_branch": false });
        assert_eq!(how(Service::Gitlab, MergeMethod::Merge), Ok(merge));
        assert_eq!(how(Service::Gitlab, MergeMethod::Rebase).unwrap_err().code, "forge_unsupported");
        let merge = json!({ "Do": "merge", "delete_branch_after_merge": false });
        assert_eq!(how(Service::Forgejo, MergeMethod::Merge), Ok(merge));
    }

    #[test]
    fn a_branch_is_removed_by_its_whole_name() {
        check(
            |service| service.delete_branch(&repository(), "fix/#7?"),
            [
                ("DELETE /repos/ada/engine/git/refs/heads/fix/%237%3F", Value::Null),
                ("DELETE /projects/ada%2Fengine/repository/branches/fix%2F%237%3F", Value::Null),
                ("DELETE /repos/ada/engine/branches/fix/%237%3F", Value::Null),
            ],
        );
    }

    #[test]
    fn groups_within_groups_are_for_gitlab() {
        let nested = Repository::parse("a/b/c").unwrap();
        assert_eq!(Service::Gitlab.view(&nested, 1).unwrap().path, "/projects/a%2Fb%2Fc/merge_requests/1");
        for service in [Service::Github, Service::Forgejo] {
            assert_eq!(service.view(&nested, 1).unwrap_err().code, "bad_repository");
        }
    }

    #[test]
    fn the_root_of_the_api_is_found_from_either_address() {
        let at = |kind, base_url: &str| {
            let connection = ConnectionInfo { name: "forge".into(), base_url: base_url.into(), kind };
            Service::at(&connection).map_err(|fault| fault.code.into_owned())
        };
        for (kind, base_url, expected) in [
            (ServiceKind::Github, "https://api.github.com", (Service::Github, "")),
            (ServiceKind::Github, "https://api.github.com:443/", (Service::Github, "")),
            (ServiceKind::Github, "https://git.example/api/v3/", (Service::Github, "")),
            (ServiceKind::Github, "https://git.example", (Service::Github, "/api/v3")),
            (ServiceKind::Gitlab, "https://gitlab.com", (Service::Gitlab, "/api/v4")),
            (ServiceKind::Gitlab, "https://git.example/gitlab/api/v4", (Service::Gitlab, "")),
            (ServiceKind::Forgejo, "https://codeberg.org/", (Service::Forgejo, "/api/v1")),
            (ServiceKind::Forgejo, "https://127.0.0.1:3000/api/v1/", (Service::Forgejo, "")),
        ] {
            assert_eq!(at(kind, base_url), Ok(expected), "{base_url}");
        }
        for (kind, base_url) in [
            (ServiceKind::Generic, "https://codeberg.org"),
            (ServiceKind::Github, "https://GitHub.com"),
            (ServiceKind::Github, "https://www.github.com/"),
        ] {
            assert_eq!(at(kind, base_url), Err("not_a_forge".into()), "{base_url}");
        }
    }
}
