//! Pull requests, kept in memory and merged for real.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::repository::Repositories;
use crate::http::{Reply, Request};

/// The pull requests of all repositories, in the order they were opened.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    of: BTreeMap<String, Vec<Pull>>,
    comments: u64,
}

#[derive(Debug)]
struct Pull {
    number: usize,
    title: String,
    body: String,
    head: String,
    base: String,
    state: State,
    comments: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Open,
    Merged { head: String, commit: String },
}

/// When everything happens here.
const NOW: &str = "2026-01-02T03:04:05Z";

/// Pages are no longer than this, whatever is asked for.
const LONGEST_PAGE: usize = 50;

impl Pulls {
    /// Answers what is asked of the API, at the path below its root.
    pub(super) fn answer(&mut self, path: &str, request: &Request, repositories: &Repositories) -> Reply {
        let parts: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["version"]) => return Reply::json(200, &json!({ "version": "13.0.0" })),
            ("GET", ["user"]) => return Reply::json(200, &json!({ "login": "ada", "id": 1 })),
            _ => {}
        }
        let ["repos", owner, name, rest @ ..] = parts.as_slice() else { return not_found() };
        let name = format!("{owner}/{name}");
        if !repositories.has(&name) {
            return not_found();
        }
        let mut desk = Desk { pulls: self.of.entry(name.clone()).or_default(), name: &name, repositories };
        match (request.method.as_str(), rest) {
            ("GET", ["pulls"]) => desk.list(request),
            ("POST", ["pulls"]) => desk.create(&request.json()),
            ("GET", ["pulls", number]) => desk.with(number, |desk, pull| Reply::json(200, &desk.shown(pull))),
            ("GET", ["pulls", number, "files"]) => desk.with(number, |desk, pull| Reply::json(200, &desk.files(pull))),
            ("POST", ["pulls", number, "merge"]) => desk.merge(number, &request.json()),
            ("GET", ["issues", number, "comments"]) => {
                desk.with(number, |_, pull| Reply::json(200, &json!(pull.comments)))
            }
            ("POST", ["issues", number, "comments"]) => {
                self.comments += 1;
                desk.comment(number, self.comments, &request.json())
            }
            ("DELETE", ["branches", branch @ ..]) => desk.delete_branch(&branch.join("/")),
            _ => not_found(),
        }
    }
}

/// The pull requests of one repository.
struct Desk<'a> {
    pulls: &'a mut Vec<Pull>,
    name: &'a str,
    repositories: &'a Repositories,
}

impl Desk<'_> {
    fn with(&self, number: &str, then: impl FnOnce(&Self, &Pull) -> Reply) -> Reply {
        match self.pulls.iter().find(|pull| pull.number.to_string() == number) {
            Some(pull) => then(self, pull),
            None => not_found(),
        }
    }

    fn list(&self, request: &Request) -> Reply {
        let state = request.parameter("state").unwrap_or("open");
        let wanted = |pull: &&Pull| match state {
            "open" => pull.state == State::Open,
            "closed" => pull.state != State::Open,
            _ => true,
        };
        let number = |name, usual| request.parameter(name).and_then(|value| value.parse().ok()).unwrap_or(usual);
        let (page, limit) = (number("page", 1).max(1), number("limit", 30).clamp(1, LONGEST_PAGE));
        let all: Vec<Value> = self.pulls.iter().rev().filter(wanted).map(|pull| self.shown(pull)).collect();
        let shown: Vec<_> = all.iter().skip((page - 1) * limit).take(limit).cloned().collect();
        let reply = Reply::json(200, &json!(shown)).with("x-total-count", all.len().to_string());
        if page * limit >= all.len() {
            return reply;
        }
        let next = format!("https://forge.test{}?page={}&limit={limit}", request.path, page + 1);
        reply.with("link", format!("<{next}>; rel=\"next\""))
    }

    fn create(&mut self, wanted: &Value) -> Reply {
        let field = |name: &str| wanted[name].as_str().unwrap_or_default().to_owned();
        let (title, head, base) = (field("title"), field("head"), field("base"));
        if title.is_empty() {
            return Reply::says(422, "[Title]: Required");
        }
        for branch in [&head, &base] {
            if self.repositories.tip(self.name, branch).is_none() {
                return Reply::says(404, &format!("branch {branch} does not exist"));
            }
        }
        let same = |pull: &Pull| pull.state == State::Open && pull.head == head && pull.base == base;
        if self.pulls.iter().any(same) {
            return Reply::says(409, "pull request already exists for these targets");
        }
        let number = self.pulls.len() + 1;
        let pull = Pull { number, title, body: field("body"), head, base, state: State::Open, comments: Vec::new() };
        let shown = self.shown(&pull);
        self.pulls.push(pull);
        Reply::json(201, &shown)
    }

    fn comment(&mut self, number: &str, id: u64, wanted: &Value) -> Reply {
        let Some(pull) = self.pulls.iter_mut().find(|pull| pull.number.to_string() == number) else {
            return not_found();
        };
        let Some(body) = wanted["body"].as_str().filter(|body| !body.is_empty()) else {
            return Reply::says(422, "[Body]: Required");
        };
        let url = format!("https://forge.test/{}/pulls/{number}#issuecomment-{id}", self.name);
        let comment = json!({
            "id": id, "user": { "login": "ada" }, "body": body, "created_at": NOW, "updated_at": NOW, "html_url": url,
        });
        pull.comments.push(comment.clone());
        Reply::json(201, &comment)
    }

    fn merge(&mut self, number: &str, wanted: &Value) -> Reply {
        let Some(at) = self.pulls.iter().position(|pull| pull.number.to_string() == number) else { return not_found() };
        let pull = &self.pulls[at];
        let tips = self.repositories.tip(self.name, &pull.head).zip(self.repositories.tip(self.name, &pull.base));
        let Some((head, base)) = tips.filter(|_| pull.state == State::Open) else {
            return Reply::says(405, "the pull request is not open");
        };
        if wanted["head_commit_id"].as_str().is_some_and(|expected| expected != head) {
            return Reply::says(409, "head out of date");
        }
        let parents = match wanted["Do"].as_str() {
            Some("merge") => vec!["-p", &base, "-p", &head],
            Some("squash") => vec!["-p", &base],
            _ => return Reply::says(405, "this way of merging is not allowed"),
        };
        let git = |args: &[&str]| self.repositories.git(self.name, args);
        let Ok(tree) = git(&["merge-tree", "--write-tree", &base, &head]) else {
            return Reply::says(405, "there are conflicts");
        };
        let message = format!("{} (#{number})", pull.title);
        let commit = git(&[&["commit-tree", &tree, "-m", &message][..], &parents].concat());
        let branch = format!("refs/heads/{}", pull.base);
        match commit.and_then(|commit| git(&["update-ref", &branch, &commit, &base]).map(|_| commit)) {
            Ok(commit) => {
                self.pulls[at].state = State::Merged { head, commit };
                Reply::empty(200)
            }
            Err(said) => Reply::says(500, &said),
        }
    }

    fn delete_branch(&self, branch: &str) -> Reply {
        let branch = branch.replace("%23", "#");
        if branch == "main" {
            return Reply::says(403, "the default branch cannot be removed");
        }
        if self.repositories.tip(self.name, &branch).is_none() {
            return not_found();
        }
        match self.repositories.git(self.name, &["update-ref", "-d", &format!("refs/heads/{branch}")]) {
            Ok(_) => Reply::empty(204),
            Err(said) => Reply::says(500, &said),
        }
    }

    /// A pull request the way Forgejo writes it.
    fn shown(&self, pull: &Pull) -> Value {
        let tip = |branch: &str| self.repositories.tip(self.name, branch).unwrap_or_default();
        let repo = json!({ "full_name": self.name });
        let (head, commit) = match &pull.state {
            State::Open => (tip(&pull.head), None),
            State::Merged { head, commit } => (head.clone(), Some(commit)),
        };
        let (merged, base) = (commit.is_some(), tip(&pull.base));
        let mergeable =
            !merged && self.repositories.git(self.name, &["merge-tree", "--write-tree", &base, &head]).is_ok();
        json!({
            "id": pull.number, "number": pull.number, "title": pull.title, "body": pull.body, "user": { "login": "ada" },
            "state": if merged { "closed" } else { "open" }, "draft": pull.title.starts_with("WIP:"), "merged": merged,
            "merged_at": commit.map(|_| NOW), "merge_commit_sha": commit, "mergeable": mergeable,
            "comments": pull.comments.len(),
            "head": { "label": pull.head, "ref": pull.head, "sha": head, "repo": repo },
            "base": { "label": pull.base, "ref": pull.base, "sha": base, "repo": repo },
            "html_url": format!("https://forge.test/{}/pulls/{}", self.name, pull.number),
            "created_at": NOW, "updated_at": NOW,
        })
    }

    fn files(&self, pull: &Pull) -> Value {
        let range = format!("{}...{}", pull.base, pull.head);
        let numbers =
            self.repositories.git(self.name, &["diff", "--numstat", "--no-renames", &range]).unwrap_or_default();
        let file = |line: &str| {
            let mut words = line.splitn(3, '\t');
            let mut count = || words.next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            let (additions, deletions) = (count(), count());
            let path = words.next().unwrap_or_default();
            let exists = |branch: &str| {
                self.repositories.git(self.name, &["cat-file", "-e", &format!("{branch}:{path}")]).is_ok()
            };
            let status = match (exists(&pull.base), exists(&pull.head)) {
                (false, _) => "added",
                (true, false) => "deleted",
                (true, true) => "changed",
            };
            json!({ "filename": path, "status": status, "additions": additions, "deletions": deletions })
        };
        numbers.lines().map(file).collect()
    }
}

fn not_found() -> Reply {
    Reply::says(404, "The target couldn't be found.")
}
