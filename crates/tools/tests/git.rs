//! The git tools over the machine's own git, without a room: what they say is what git does, and what a repository brings
//! along is not run even where nothing else would keep it from running.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the tests are the room")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod hostile;

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use hostile::Hostile;
use jiff::Timestamp;
use jsonschema::Draft;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{Ending, Fault, Job, Ran, Reach, Receipt, Stream, TerminalSize, Usage};
use toolgate_tools::{Clock, Cx, Hands, Output, Programs, Protected, Seen, StopFlag, TOOLS, Tool, Workspace};

/// A workspace, and beside it what a room would have: a home and a place for temporary files.
struct Bench {
    root: TempDir,
}

impl Bench {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        for dir in ["workspace", "home", "tmp", "remotes"] {
            fs::create_dir(root.path().join(dir)).unwrap();
        }
        Self { root }
    }

    /// One with a repository that has a commit.
    fn with_commit() -> Self {
        let bench = Self::new();
        bench.git(&["init", "-q", "-b", "main"]);
        bench.git(&["config", "user.name", "Ada"]);
        bench.git(&["config", "user.email", "ada@example.org"]);
        bench.put("a.txt", "one\n");
        bench.git(&["add", "."]);
        bench.git(&["commit", "-q", "-m", "first"]);
        bench
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// What the machine's git says.
    fn git(&self, words: &[&str]) -> String {
        let ran = Command::new("git")
            .args(words)
            .current_dir(self.workspace())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
    }

    /// Calls a tool. What it answers fits its schema, and what goes wrong is declared.
    fn call(&self, name: &str, arguments: Value) -> Result<Output, Fault> {
        let tool = TOOLS.iter().map(|tool| tool()).find(|tool| tool.def.name == name).unwrap();
        fits(&tool.def.input_schema, &arguments);
        let workspace = Workspace::open(&self.workspace(), Protected::default()).unwrap();
        let cx = Cx::new(Hands {
            finder: None,
            own_calls: None,
            programs: Some(Arc::new(Bare(self.root.path().to_owned()))),
            web: None,
            workspace: Some(workspace.with_access(tool.def.needs.files)),
            clock: Arc::new(Epoch),
            progress: None,
            remarks: None,
            stop: StopFlag::default(),
            timeout: tool.def.timeout,
            caps: tool.def.caps,
            inquiries: toolgate_tools::Inquiries::default(),
            key: None,
        });
        let result = tool.work.here().unwrap()(&cx, arguments);
        match &result {
            Ok(output) => fits(&tool.def.output_schema, &output.structured),
            Err(fault) => assert!(is_declared(&tool, fault), "`{name}` does not declare: {fault}"),
        }
        let left: Vec<_> = fs::read_dir(self.root.path().join("tmp")).unwrap().collect();
        assert!(left.is_empty(), "`{name}` left {left:?}");
        result
    }

    /// What a call answers that must work: the text and the value.
    fn says(&self, name: &str, arguments: Value) -> (String, Value) {
        let output = self.call(name, arguments.clone()).unwrap_or_else(|fault| panic!("{name} {arguments}: {fault}"));
        (output.text, output.structured)
    }

    /// The code of a call that must not work.
    fn code(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments.clone()) {
            Err(fault) => fault.code.into_owned(),
            Ok(output) => panic!("{name} {arguments}: {}", output.text),
        }
    }
}

fn is_declared(tool: &Tool, fault: &Fault) -> bool {
    tool.def.failures.iter().any(|mode| mode.code == fault.code)
}

fn fits(schema: &Value, value: &Value) {
    let validator = jsonschema::options().with_draft(Draft::Draft202012).build(schema).unwrap();
    assert_eq!(validator.validate(value).map_err(|error| error.to_string()), Ok(()), "{value}");
}

/// Runs jobs on the machine itself, with the environment of a room.
struct Bare(PathBuf);

impl Bare {
    fn start(&self, job: &Job) -> Ran {
        let mut child = Command::new(&job.argv[0])
            .args(&job.argv[1..])
            .current_dir(self.0.join("workspace").join(&job.cwd))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.0.join("home"))
            .env("TMPDIR", self.0.join("tmp"))
            .env("LANG", "C.UTF-8")
            .envs(&job.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that does not read it is fine.
        let _ = child.stdin.take().unwrap().write_all(&job.stdin);
        let ended = child.wait_with_output().unwrap();
        Ran {
            ending: Ending::Exited { code: ended.status.code().unwrap_or(-1) },
            stdout: stream(&ended.stdout),
            stderr: stream(&ended.stderr),
            receipt: Receipt::default(),
            usage: Usage::default(),
            refused: Vec::new(),
        }
    }
}

fn stream(bytes: &[u8]) -> Stream {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (bytes, lossy) = (bytes.len() as u64, text.as_bytes() != bytes);
    Stream { lines: text.lines().count() as u64, text, bytes, shown_bytes: bytes, lossy }
}

impl Programs for Bare {
    fn run(&self, job: &Job, _stop: &StopFlag) -> Result<Ran, Fault> {
        Ok(self.start(job))
    }

    /// What is meant for `example.org` goes to a directory beside the workspace.
    fn run_reaching(&self, job: &Job, reach: &Reach, _stop: &StopFlag) -> Result<Ran, Fault> {
        assert_eq!((reach.hosts.as_slice(), &reach.credential), (["example.org:443".to_owned()].as_slice(), &None));
        let mut job = job.clone();
        let settings = job.argv.iter_mut().find(|word| word.starts_with("[advice]")).unwrap();
        let remotes = self.0.join("remotes");
        settings.push_str(&format!(
            "[url \"{}/\"]\n\tinsteadOf = https://example.org/\n[protocol \"file\"]\n\tallow = always\n",
            remotes.display()
        ));
        Ok(self.start(&job))
    }

    fn open_terminal(&self, _job: &Job, _size: TerminalSize) -> Result<String, Fault> {
        panic!("git tools open no terminal")
    }

    fn type_into(&self, _terminal: &str, _bytes: &[u8]) -> Result<(), Fault> {
        panic!("git tools open no terminal")
    }

    fn look_at(&self, _terminal: &str, _wait: Duration, _stop: &StopFlag) -> Result<Seen, Fault> {
        panic!("git tools open no terminal")
    }

    fn close_terminal(&self, _terminal: &str) -> Result<Ran, Fault> {
        panic!("git tools open no terminal")
    }
}

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

#[test]
fn status_tells_the_branch_and_every_kind_of_difference() {
    let bench = Bench::with_commit();
    for name in ["b.txt", "c.txt", "d.txt"] {
        bench.put(name, "some\nlines\nof\ntext\n");
    }
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "more"]);
    bench.git(&["mv", "b.txt", "moved here.txt"]);
    bench.git(&["rm", "-q", "--cached", "c.txt"]);
    bench.put("a.txt", "two\n");
    fs::remove_file(bench.workspace().join("d.txt")).unwrap();
    bench.put("new/x\ny", "");
    let (text, structured) = bench.says("git_status", json!({}));
    let head = bench.git(&["rev-parse", "HEAD"]);
    let entry = |path: &str, old: Option<&str>, staged: Option<&str>, unstaged: Option<&str>, untracked: bool| {
        json!({
            "path": path, "old_path": old, "staged": staged, "unstaged": unstaged, "untracked": untracked, "conflict": false,
        })
    };
    let expected = json!({
        "branch": "main", "commit": head, "upstream": null, "ahead": null, "behind": null, "in_progress": null,
        "files": [
            entry("a.txt", None, None, Some("modified"), false),
            entry("c.txt", None, Some("deleted"), None, false),
            entry("d.txt", None, None, Some("deleted"), false),
            entry("moved here.txt", Some("b.txt"), Some("renamed"), None, false),
            entry("c.txt", None, None, None, true),
            entry("new/", None, None, None, true),
        ],
    });
    assert_eq!(structured, expected);
    let lines = format!(
        "On branch main at {}\n M a.txt\nD  c.txt\n D d.txt\nR  b.txt -> moved here.txt\n?? c.txt\n?? new/\n",
        &head[..10]
    );
    assert_eq!(text, lines);
    let (text, _) = bench.says("git_status", json!({ "path": "a.txt" }));
    assert_eq!(text, format!("On branch main at {}\n M a.txt\n", &head[..10]));
}

#[test]
fn a_repository_without_a_commit_takes_a_first_one() {
    let bench = Bench::new();
    assert_eq!(bench.code("git_status", json!({})), "not_a_repository");
    bench.git(&["init", "-q", "-b", "main"]);
    bench.put("a.txt", "one\n");
    assert_eq!(bench.says("git_status", json!({})).0, "On branch main, no commits yet\n?? a.txt\n");
    for tool in ["git_log", "git_show"] {
        assert_eq!(bench.code(tool, json!({})), "no_commits", "{tool}");
    }
    assert_eq!(bench.says("git_diff", json!({})).0, "Nothing differs.");
    assert_eq!(bench.code("git_stash", json!({ "action": "push" })), "no_commits");
    assert_eq!(bench.code("git_commit", json!({ "message": "x" })), "nothing_to_commit");
    let (text, structured) = bench.says("git_commit", json!({ "message": "first  \n\nmore\n", "paths": ["a.txt"] }));
    let head = bench.git(&["rev-parse", "HEAD"]);
    assert_eq!(text, format!("Committed {} (1 file): first", &head[..10]));
    assert_eq!((&structured["branch"], &structured["files"]), (&json!("main"), &json!(["a.txt"])));
    // Nobody said who commits.
    let people = bench.git(&["log", "-1", "--format=%an <%ae> %cn <%ce>%n%B"]);
    assert_eq!(people, "Toolgate agent <agent@localhost> Toolgate agent <agent@localhost>\nfirst\n\nmore");
}

#[test]
fn a_commit_has_what_was_named_and_nothing_else() {
    let bench = Bench::with_commit();
    for name in ["b.txt", "d/c.txt", "d/--odd=x", "ignored"] {
        bench.put(name, "new\n");
    }
    bench.put(".gitignore", "ignored\n");
    bench.put("a.txt", "two\n");
    let files = |revision: &str| bench.git(&["show", "--format=", "--name-status", "-z", revision]).replace('\0', " ");
    bench.says("git_commit", json!({ "message": "some", "paths": ["d"] }));
    assert_eq!(files("HEAD"), "A d/--odd=x A d/c.txt ");
    fs::remove_file(bench.workspace().join("d/c.txt")).unwrap();
    bench.says("git_commit", json!({ "message": "all that git knows", "all": true }));
    assert_eq!(files("HEAD"), "M a.txt D d/c.txt ");
    bench.says("git_commit", json!({ "message": "the rest", "paths": ["."], "author": "Bo <bo@example.org>" }));
    assert_eq!(files("HEAD"), "A .gitignore A b.txt ");
    assert_eq!(bench.git(&["log", "-1", "--format=%an %ae %cn"]), "Bo bo@example.org Ada");
    bench.says("git_commit", json!({ "message": "said better", "amend": true }));
    assert_eq!(bench.git(&["log", "--format=%s"]), "said better\nall that git knows\nsome\nfirst");

    assert_eq!(bench.code("git_commit", json!({ "message": "x", "paths": ["none"] })), "unknown_path");
    assert_eq!(bench.code("git_commit", json!({ "message": "x", "paths": ["*.txt"] })), "unknown_path");
    assert_eq!(bench.code("git_commit", json!({ "message": "x", "paths": ["a.txt"], "all": true })), "bad_request");
    assert_eq!(bench.code("git_commit", json!({ "message": "x", "paths": ["../x"] })), "path_outside_workspace");
    assert_eq!(bench.code("git_commit", json!({ "message": " \n" })), "bad_message");
    assert_eq!(bench.code("git_commit", json!({})), "bad_message");
    assert_eq!(bench.code("git_commit", json!({ "message": "x", "author": "Bo" })), "bad_name");
}

#[test]
fn commits_are_listed_by_range_author_time_and_path() {
    let bench = Bench::with_commit();
    bench.git(&["branch", "old"]);
    bench.put("d/b.txt", "two\n");
    bench.git(&["add", "."]);
    let date = "2001-02-03T04:05:06+01:00";
    let author = format!("--date={date}");
    bench.git(&["-c", "user.name=O'Hara (x)", "commit", "-q", "-m", "second\n\nmore", &author]);
    bench.git(&["tag", "v1"]);
    let subjects = |arguments: Value| -> Vec<String> {
        let (_, structured) = bench.says("git_log", arguments);
        let commits = structured["commits"].as_array().unwrap();
        commits.iter().map(|commit| commit["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(subjects(json!({})), ["second", "first"]);
    assert_eq!(subjects(json!({ "ref": "old..main" })), ["second"]);
    assert_eq!(subjects(json!({ "ref": "main..old" })), Vec::<String>::new());
    assert_eq!(subjects(json!({ "author": "o'hara (X)" })), ["second"]);
    assert_eq!(subjects(json!({ "author": "O.Hara" })), Vec::<String>::new());
    assert_eq!(subjects(json!({ "paths": ["d"] })), ["second"]);
    assert_eq!(subjects(json!({ "paths": ["d/*"] })), Vec::<String>::new());
    assert_eq!(subjects(json!({ "until": "2000-01-01" })), Vec::<String>::new());
    assert_eq!(subjects(json!({ "since": "2000-01-01" })), ["second", "first"]);
    let (text, structured) = bench.says("git_log", json!({ "max_count": 1 }));
    let (head, parent) = (bench.git(&["rev-parse", "HEAD"]), bench.git(&["rev-parse", "HEAD^"]));
    let expected = json!({
        "commits": [{
            "id": head, "parents": [parent], "author": "O'Hara (x)", "email": "ada@example.org", "date": date,
            "refs": ["HEAD -> main", "tag: v1"], "subject": "second",
        }],
        "more": true,
    });
    assert_eq!(structured, expected);
    let line = format!("{} 2001-02-03 O'Hara (x): second (HEAD -> main, tag: v1)\nThere are more.\n", &head[..10]);
    assert_eq!(text, line);
    assert_eq!(bench.code("git_log", json!({ "ref": "nope" })), "unknown_revision");
    for revision in ["", "-1", "--all", "a\nb"] {
        assert_eq!(bench.code("git_log", json!({ "ref": revision })), "bad_revision", "{revision:?}");
    }
}

#[test]
fn a_difference_is_counted_and_shown() {
    let bench = Bench::with_commit();
    bench.put("long.txt", &"line\n".repeat(20));
    bench.put("bytes", "\0");
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "more"]);
    bench.git(&["mv", "long.txt", "longer.txt"]);
    bench.put("longer.txt", &format!("{}end\n", "line\n".repeat(20)));
    bench.put("bytes", "\0\0");
    bench.git(&["add", "."]);
    bench.put("a.txt", "two\nthree\n");
    let (text, structured) = bench.says("git_diff", json!({}));
    let patch = "diff --git a/a.txt b/a.txt\nindex 5626abf..1946f04 100644\n--- a/a.txt\n+++ b/a.txt\n\
                 @@ -1 +1,2 @@\n-one\n+two\n+three\n";
    let a_txt = json!({ "path": "a.txt", "old_path": null, "kind": "modified", "insertions": 2, "deletions": 1 });
    let expected = json!({ "files": [a_txt], "insertions": 2, "deletions": 1, "patch": patch });
    assert_eq!((structured, text), (expected, format!("M a.txt +2 -1\n1 file, +2 -1\n\n{patch}")));
    let (text, structured) = bench.says("git_diff", json!({ "staged": true, "stat": true }));
    assert_eq!(text, "M bytes (not text)\nR long.txt -> longer.txt +1 -0\n2 files, +1 -0\n");
    assert_eq!(structured["patch"], Value::Null);
    let of = |arguments| bench.says("git_diff", arguments).0;
    assert_eq!(of(json!({ "from": "HEAD", "stat": true, "paths": ["a.txt"] })), "M a.txt +2 -1\n1 file, +2 -1\n");
    assert_eq!(
        of(json!({ "from": "HEAD~1", "to": "HEAD", "stat": true, "paths": ["long.txt"] })),
        "A long.txt +20 -0\n1 file, +20 -0\n"
    );
    assert_eq!(of(json!({ "from": "HEAD", "to": "HEAD" })), "Nothing differs.");
    assert_eq!(bench.code("git_diff", json!({ "to": "HEAD" })), "bad_request");
    assert_eq!(bench.code("git_diff", json!({ "from": "HEAD", "to": "HEAD", "staged": true })), "bad_request");
    assert_eq!(bench.code("git_diff", json!({ "from": "HEAD..HEAD" })), "bad_revision");
}

#[test]
fn a_long_patch_is_cut_and_that_is_told() {
    let bench = Bench::with_commit();
    bench.put("a.txt", &"changed\n".repeat(3_000));
    let output = bench.call("git_diff", json!({})).unwrap();
    let truncated = output.truncated.unwrap();
    assert_eq!((truncated.shown, truncated.total), (1_500, 3_006));
    assert_eq!(output.structured["insertions"], 3_000);
    assert!(output.text.ends_with("[truncated: 1500 of 3006 lines]"), "{}", &output.text[output.text.len() - 80..]);
}

#[test]
fn a_commit_a_merge_and_a_file_are_shown() {
    let bench = Bench::with_commit();
    bench.git(&["switch", "-q", "-c", "dev"]);
    bench.put("b.txt", "b\n");
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "on dev\n\nwith a body"]);
    bench.git(&["tag", "-a", "v1", "-m", "tagged"]);
    bench.git(&["switch", "-q", "main"]);
    bench.put("a.txt", "two\n");
    bench.git(&["commit", "-q", "-a", "-m", "on main"]);
    bench.git(&["merge", "-q", "--no-edit", "dev"]);
    let (_, merge) = bench.says("git_show", json!({}));
    let b_txt = json!([{ "path": "b.txt", "old_path": null, "kind": "added", "insertions": 1, "deletions": 0 }]);
    assert_eq!((&merge["files"], merge["commit"]["parents"].as_array().unwrap().len()), (&b_txt, 2));
    let (text, tagged) = bench.says("git_show", json!({ "ref": "v1" }));
    assert_eq!((&tagged["message"], &tagged["files"]), (&json!("on dev\n\nwith a body"), &b_txt));
    assert!(text.contains("\nauthor Ada\n") && text.contains("\n\non dev\n\nwith a body\n\nA b.txt +1 -0\n"), "{text}");
    let (_, elsewhere) = bench.says("git_show", json!({ "ref": "v1", "paths": ["a.txt"] }));
    assert_eq!(elsewhere["files"], json!([]));
    let (text, file) = bench.says("git_show", json!({ "ref": "v1:a.txt" }));
    assert_eq!((text.as_str(), &file["content"], &file["commit"]), ("one\n", &json!("one\n"), &Value::Null));
    assert_eq!(bench.code("git_show", json!({ "ref": "v1:none" })), "unknown_path");
    assert_eq!(bench.code("git_show", json!({ "ref": "main..dev" })), "bad_revision");
}

#[test]
fn each_line_has_its_commit() {
    let bench = Bench::with_commit();
    let first = bench.git(&["rev-parse", "HEAD"]);
    bench.put("a.txt", "one\n\ttwo\n");
    bench.git(&["commit", "-q", "-a", "-m", "second"]);
    let second = bench.git(&["rev-parse", "HEAD"]);
    bench.put("a.txt", "one\n\ttwo\nthree\n");
    let (text, structured) = bench.says("git_blame", json!({ "path": "a.txt" }));
    let said: Vec<(u64, &str, &str, &str, &str)> = structured["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap();
            (line["number"].as_u64().unwrap(), text("commit"), text("author"), text("subject"), text("text"))
        })
        .collect();
    let zeros = "0".repeat(40);
    let expected = [
        (1, first.as_str(), "Ada", "first", "one"),
        (2, second.as_str(), "Ada", "second", "\ttwo"),
        (3, zeros.as_str(), "Not Committed Yet", "Version of a.txt from a.txt", "three"),
    ];
    assert_eq!(said, expected);
    assert!(text.starts_with(&first[..10]) && text.contains(" Ada 1: one\n"), "{text}");
    let lines = |arguments| bench.says("git_blame", arguments).1["lines"].as_array().unwrap().len();
    assert_eq!(lines(json!({ "path": "a.txt", "start_line": 2, "end_line": 9 })), 2);
    assert_eq!(lines(json!({ "path": "a.txt", "ref": "HEAD~1" })), 1);
    assert_eq!(bench.code("git_blame", json!({ "path": "none" })), "unknown_path");
    assert_eq!(bench.code("git_blame", json!({ "path": "a.txt", "ref": "nope" })), "unknown_revision");
    assert_eq!(bench.code("git_blame", json!({ "path": "a.txt", "start_line": 3, "end_line": 2 })), "bad_request");
}

#[test]
fn branches_are_made_switched_renamed_and_deleted() {
    let bench = Bench::with_commit();
    let head = bench.git(&["rev-parse", "HEAD"]);
    let (text, structured) = bench.says("git_branch", json!({ "action": "create", "name": "dev/x" }));
    assert_eq!(text, format!("Created `dev/x` at {}.", &head[..10]));
    let date = bench.git(&["log", "-1", "--format=%cI"]).replace("+00:00", "Z");
    let dev = json!({
        "name": "dev/x", "remote": false, "commit": head, "subject": "first", "date": date, "upstream": null, "track": null,
    });
    assert_eq!(structured, json!({ "current": "main", "branches": [dev] }));
    assert_eq!(bench.code("git_branch", json!({ "action": "create", "name": "dev/x" })), "already_exists");
    bench.says("git_branch", json!({ "action": "switch", "name": "dev/x" }));
    assert_eq!(bench.git(&["branch", "--show-current"]), "dev/x");
    assert_eq!(bench.says("git_branch", json!({ "action": "list" })).1["current"], "dev/x");

    let (_, renamed) = bench.says("git_branch", json!({ "action": "rename", "new_name": "dev/y" }));
    assert_eq!((&renamed["current"], bench.git(&["branch", "--show-current"])), (&json!("dev/y"), "dev/y".into()));
    bench.says("git_branch", json!({ "action": "rename", "name": "main", "new_name": "trunk" }));
    assert_eq!(bench.git(&["branch", "--format=%(refname)"]), "refs/heads/dev/y\nrefs/heads/trunk");

    bench.put("b.txt", "b\n");
    bench.says("git_commit", json!({ "message": "only here", "paths": ["b.txt"] }));
    assert_eq!(bench.code("git_branch", json!({ "action": "delete", "name": "dev/y" })), "branch_in_use");
    assert_eq!(
        bench.code("git_branch", json!({ "action": "create", "name": "dev/y", "force": true })),
        "branch_in_use"
    );
    bench.put("b.txt", "changed\n");
    assert_eq!(bench.code("git_branch", json!({ "action": "switch", "name": "trunk" })), "would_overwrite");
    bench.git(&["checkout", "-q", "b.txt"]);
    bench.says("git_branch", json!({ "action": "switch", "name": "trunk" }));
    assert_eq!(bench.code("git_branch", json!({ "action": "delete", "name": "dev/y" })), "not_merged");
    bench.says("git_branch", json!({ "action": "delete", "name": "dev/y", "force": true }));
    assert_eq!(bench.git(&["branch", "--format=%(refname)"]), "refs/heads/trunk");
    for (arguments, code) in [
        (json!({ "action": "switch", "name": "none" }), "unknown_revision"),
        (json!({ "action": "delete", "name": "none" }), "unknown_revision"),
        (json!({ "action": "rename", "name": "none", "new_name": "x" }), "unknown_revision"),
        (json!({ "action": "create", "name": "x", "start_point": "none" }), "unknown_revision"),
        (json!({ "action": "create", "name": "a..b" }), "bad_name"),
        (json!({ "action": "create" }), "bad_request"),
        (json!({ "action": "list", "name": "x" }), "bad_request"),
        (json!({ "action": "switch", "name": "x", "force": true }), "bad_request"),
        (json!({ "action": "switch", "name": "x", "start_point": "x" }), "bad_request"),
        (json!({ "action": "delete", "name": "x", "new_name": "y" }), "bad_request"),
    ] {
        assert_eq!(bench.code("git_branch", arguments.clone()), code, "{arguments}");
    }
}

#[test]
fn a_merge_goes_forward_makes_a_commit_or_leaves_conflicts() {
    let bench = Bench::with_commit();
    for branch in ["ahead", "aside", "against"] {
        bench.git(&["switch", "-q", "-c", branch, "main"]);
        bench.put(if branch == "against" { "a.txt" } else { branch }, branch);
        bench.git(&["add", "."]);
        bench.git(&["commit", "-q", "-m", branch]);
    }
    bench.git(&["switch", "-q", "main"]);
    let result = |arguments| bench.says("git_merge", arguments).1["result"].as_str().unwrap().to_owned();
    assert_eq!(result(json!({ "ref": "ahead" })), "merged");
    assert_eq!(bench.git(&["rev-parse", "main"]), bench.git(&["rev-parse", "ahead"]));
    assert_eq!(result(json!({ "ref": "ahead" })), "up_to_date");
    assert_eq!(result(json!({ "ref": "aside" })), "merged");
    assert_eq!(bench.git(&["log", "-1", "--format=%s|%an"]), "Merge branch 'aside'|Ada");

    bench.put("a.txt", "ours");
    bench.git(&["commit", "-q", "-a", "-m", "ours"]);
    let (text, structured) = bench.says("git_merge", json!({ "ref": "against" }));
    assert_eq!((&structured["result"], &structured["conflicts"]), (&json!("conflicts"), &json!(["a.txt"])));
    assert_eq!(text, "Conflicts in `a.txt`. Edit them and commit them by `paths`, or abort.");
    assert!(bench.text("a.txt").contains("<<<<<<<"));
    let (text, status) = bench.says("git_status", json!({}));
    assert_eq!((&status["in_progress"], &status["files"][0]["conflict"]), (&json!("merge"), &json!(true)));
    assert!(text.contains("A merge is not finished.\nUU a.txt\n"), "{text}");
    assert_eq!(bench.code("git_merge", json!({ "ref": "aside" })), "operation_in_progress");
    assert_eq!(bench.code("git_commit", json!({ "message": "no" })), "unmerged_files");
    assert_eq!(bench.code("git_branch", json!({ "action": "switch", "name": "aside" })), "operation_in_progress");
    assert_eq!(result(json!({ "abort": true })), "aborted");
    assert_eq!(bench.text("a.txt"), "ours");
    assert_eq!(bench.code("git_merge", json!({ "abort": true })), "bad_request");

    bench.says("git_merge", json!({ "ref": "against" }));
    bench.put("a.txt", "both");
    bench.says("git_commit", json!({ "message": "settled", "paths": ["a.txt"] }));
    assert_eq!(bench.git(&["log", "-1", "--format=%s %P"]).split(' ').count(), 3);
    assert_eq!(bench.says("git_status", json!({})).1["in_progress"], Value::Null);

    bench.git(&["switch", "-q", "-c", "forward"]);
    bench.put("c.txt", "c");
    bench.says("git_commit", json!({ "message": "c", "paths": ["c.txt"] }));
    bench.git(&["switch", "-q", "main"]);
    assert_eq!(result(json!({ "ref": "forward", "no_ff": true })), "merged");
    assert_eq!(bench.git(&["log", "-1", "--format=%s"]), "Merge branch 'forward'");
    assert_eq!(bench.code("git_merge", json!({ "ref": "none" })), "unknown_revision");
    assert_eq!(bench.code("git_merge", json!({})), "bad_request");
    assert_eq!(bench.code("git_merge", json!({ "ref": "main", "abort": true })), "bad_request");
}

#[test]
fn changes_go_aside_and_come_back() {
    let bench = Bench::with_commit();
    let stash = |arguments| bench.says("git_stash", arguments);
    assert_eq!(stash(json!({ "action": "list" })).0, "Nothing is aside.");
    assert_eq!(stash(json!({ "action": "push" })).0, "There was nothing to put aside.\n");
    bench.put("a.txt", "two\n");
    bench.put("new.txt", "new\n");
    let (text, structured) = stash(json!({ "action": "push", "message": "half done", "untracked": true }));
    assert_eq!(text, "The changes are aside.\n0: On main: half done\n");
    assert_eq!(structured["entries"][0]["message"], "On main: half done");
    assert_eq!(bench.says("git_status", json!({})).1["files"], json!([]));
    assert!(stash(json!({ "action": "show" })).0.starts_with("M a.txt +1 -1\n1 file, +1 -1\n"));
    stash(json!({ "action": "apply" }));
    assert_eq!((bench.text("a.txt"), bench.text("new.txt")), ("two\n".into(), "new\n".into()));
    bench.git(&["checkout", "-q", "a.txt"]);
    fs::remove_file(bench.workspace().join("new.txt")).unwrap();
    assert_eq!(stash(json!({ "action": "pop" })).0, "The changes are back.\n");

    bench.put("b.txt", "b\n");
    bench.says("git_commit", json!({ "message": "b", "paths": ["b.txt"] }));
    bench.put("b.txt", "bb\n");
    stash(json!({ "action": "push", "paths": ["b.txt"] }));
    assert_eq!((bench.text("a.txt"), bench.text("b.txt")), ("two\n".into(), "b\n".into()));
    bench.put("b.txt", "other\n");
    bench.says("git_commit", json!({ "message": "other", "paths": ["b.txt"] }));
    let (text, structured) = stash(json!({ "action": "pop" }));
    assert_eq!(structured["conflicts"], json!(["b.txt"]));
    assert!(text.starts_with("Conflicts in `b.txt`. The entry is still aside.\n0: "), "{text}");
    assert_eq!(bench.code("git_stash", json!({ "action": "pop" })), "unmerged_files");
    bench.put("b.txt", "settled\n");
    bench.says("git_commit", json!({ "message": "settled", "paths": ["b.txt"] }));
    assert_eq!(stash(json!({ "action": "drop", "index": 0 })).0, "Removed.\n");
    for action in ["pop", "apply", "drop", "show"] {
        assert_eq!(bench.code("git_stash", json!({ "action": action, "index": 3 })), "no_stash", "{action}");
    }
    assert_eq!(bench.code("git_stash", json!({ "action": "pop", "message": "x" })), "bad_request");
    assert_eq!(bench.code("git_stash", json!({ "action": "list", "index": 0 })), "bad_request");
}

#[test]
fn tags_are_made_listed_and_deleted() {
    let bench = Bench::with_commit();
    let head = bench.git(&["rev-parse", "HEAD"]);
    bench.says("git_tag", json!({ "action": "create", "name": "light" }));
    let (text, structured) = bench
        .says("git_tag", json!({ "action": "create", "name": "v1", "ref": "main", "message": "Version 1\n\nmore" }));
    assert_eq!(text, format!("Tagged `v1` at {}.", &head[..10]));
    let tag = &structured["tags"][0];
    assert_eq!((&tag["commit"], &tag["annotated"], &tag["subject"]), (&json!(head), &json!(true), &json!("Version 1")));
    assert_eq!(bench.git(&["cat-file", "-t", "v1"]), "tag");
    let (_, listed) = bench.says("git_tag", json!({ "action": "list" }));
    assert_eq!(listed["tags"].as_array().unwrap().len(), 2);
    assert_eq!(bench.code("git_tag", json!({ "action": "create", "name": "v1" })), "already_exists");
    bench.says("git_tag", json!({ "action": "create", "name": "v1", "force": true }));
    assert_eq!(bench.git(&["cat-file", "-t", "v1"]), "commit");
    bench.says("git_tag", json!({ "action": "delete", "name": "v1" }));
    assert_eq!(bench.git(&["tag"]), "light");
    for (arguments, code) in [
        (json!({ "action": "delete", "name": "v1" }), "unknown_revision"),
        (json!({ "action": "create", "name": "v2", "ref": "none" }), "unknown_revision"),
        (json!({ "action": "create", "name": "v2", "message": "" }), "bad_message"),
        (json!({ "action": "delete", "name": "light", "message": "x" }), "bad_request"),
        (json!({ "action": "create" }), "bad_request"),
        (json!({ "action": "list", "name": "v2" }), "bad_request"),
    ] {
        assert_eq!(bench.code("git_tag", arguments.clone()), code, "{arguments}");
    }
}

/// A bench whose repository is a clone of `https://example.org/x.git`, and a second one that pushes to the same.
fn with_remote() -> (Bench, impl Fn(&str, &str)) {
    let bench = Bench::new();
    let remote = bench.root.path().join("remotes/x.git");
    let other = bench.root.path().join("other");
    let git = |at: PathBuf, words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let ran = command.env("GIT_AUTHOR_NAME", "Bo").env("GIT_AUTHOR_EMAIL", "bo@example.org").output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    let root = bench.root.path().to_owned();
    git(root.clone(), &["init", "-q", "--bare", "-b", "main", remote.to_str().unwrap()]);
    git(root.clone(), &["clone", "-q", remote.to_str().unwrap(), other.to_str().unwrap()]);
    git(other.clone(), &["config", "user.name", "Bo"]);
    git(other.clone(), &["config", "user.email", "bo@example.org"]);
    let push = move |branch: &str, file: &str| {
        let base = if branch == "main" { "main" } else { "origin/main" };
        if other.join(".git/refs/remotes/origin/main").exists() {
            git(other.clone(), &["fetch", "-q"]);
            git(other.clone(), &["switch", "-q", "-C", branch, "origin/main"]);
        } else {
            git(other.clone(), &["switch", "-q", "-C", base]);
        }
        fs::write(other.join(file), format!("{file} of Bo\n")).unwrap();
        git(other.clone(), &["add", "."]);
        git(other.clone(), &["commit", "-q", "-m", file]);
        git(other.clone(), &["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
    };
    push("main", "a.txt");
    (bench, push)
}

const URL: &str = "https://example.org/x.git";

#[test]
fn a_clone_is_fetched_pulled_and_pushed() {
    let (bench, push) = with_remote();
    let (text, cloned) = bench.says("git_clone", json!({ "url": URL }));
    let head = bench.git(&["-C", "x", "rev-parse", "HEAD"]);
    assert_eq!(text, format!("Cloned into `x` at {}.", &head[..10]));
    assert_eq!(
        (&cloned["directory"], &cloned["branch"], &cloned["commit"]["id"]),
        (&json!("x"), &json!("main"), &json!(head))
    );
    assert_eq!(bench.git(&["-C", "x", "config", "remote.origin.url"]), URL);
    assert_eq!(bench.code("git_clone", json!({ "url": URL })), "already_exists");
    let config = bench.text("x/.git/config");

    push("main", "b.txt");
    push("topic", "t.txt");
    let (text, fetched) = bench.says("git_fetch", json!({ "repository": "x" }));
    let (main, topic) =
        (bench.git(&["-C", "x", "rev-parse", "origin/main"]), bench.git(&["-C", "x", "rev-parse", "origin/topic"]));
    let updates = json!([
        { "name": "origin/main", "old": head, "new": main }, { "name": "origin/topic", "old": null, "new": topic },
    ]);
    assert_eq!(fetched, json!({ "url": URL, "updates": updates }));
    assert_eq!(text, format!("origin/main {} -> {}\norigin/topic new at {}\n", &head[..10], &main[..10], &topic[..10]));
    assert_eq!(bench.says("git_fetch", json!({ "repository": "x", "branch": "main" })).0, "Nothing new.");
    let (text, _) = bench.says("git_status", json!({ "repository": "x" }));
    assert_eq!(
        text,
        format!("On branch main at {}, upstream origin/main (0 ahead, 1 behind)\nNothing differs.\n", &head[..10])
    );
    assert_eq!(bench.says("git_pull", json!({ "repository": "x" })).1["result"], "merged");
    assert_eq!(bench.text("x/b.txt"), "b.txt of Bo\n");
    assert_eq!(bench.says("git_pull", json!({ "repository": "x" })).1["result"], "up_to_date");

    bench.says("git_branch", json!({ "repository": "x", "action": "create", "name": "mine" }));
    bench.says("git_branch", json!({ "repository": "x", "action": "switch", "name": "mine" }));
    bench.put("x/m.txt", "mine\n");
    bench.says("git_commit", json!({ "repository": "x", "message": "mine", "paths": ["m.txt"] }));
    bench.says("git_tag", json!({ "repository": "x", "action": "create", "name": "v1" }));
    let (_, pushed) = bench.says("git_push", json!({ "repository": "x", "tags": true }));
    assert_eq!(
        pushed["refs"],
        json!([
            { "name": "refs/heads/mine", "result": "created", "summary": "[new branch]" },
            { "name": "refs/tags/v1", "result": "created", "summary": "[new tag]" },
        ])
    );
    let mine = bench.git(&["-C", "x", "rev-parse", "mine"]);
    assert_eq!(bench.git(&["-C", "../remotes/x.git", "rev-parse", "mine"]), mine);
    assert_eq!(bench.git(&["-C", "x", "rev-parse", "origin/mine"]), mine);
    let (text, _) = bench.says("git_status", json!({ "repository": "x" }));
    assert!(text.contains("upstream origin/mine (0 ahead, 0 behind)"), "{text}");
    let (_, pushed) = bench.says("git_push", json!({ "repository": "x" }));
    assert_eq!(pushed["refs"][0]["result"], "up_to_date");

    bench.says("git_push", json!({ "repository": "x", "branch": "mine", "delete": true }));
    assert_eq!(bench.git(&["-C", "../remotes/x.git", "branch", "--list", "mine"]), "");
    bench.git(&["-C", "../remotes/x.git", "branch", "-D", "topic"]);
    assert_eq!(bench.says("git_fetch", json!({ "repository": "x", "prune": true })).0, "origin/topic gone\n");
    assert_eq!(bench.text("x/.git/config"), config);
}

#[test]
fn when_both_sides_have_commits_the_caller_says_how() {
    let (bench, push) = with_remote();
    bench.says("git_clone", json!({ "url": URL, "directory": "d/x", "branch": "main" }));
    let x = |more: Value| {
        let mut arguments = json!({ "repository": "d/x" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let commit = |file: &str, text: &str| {
        bench.put(&format!("d/x/{file}"), text);
        bench.says("git_commit", x(json!({ "message": file, "paths": [file] })));
    };
    commit("m.txt", "mine\n");
    push("main", "b.txt");
    let fault = bench.call("git_push", x(json!({}))).unwrap_err();
    assert_eq!((&*fault.code, fault.message.contains("[rejected] (fetch first)")), ("push_rejected", true), "{fault}");
    assert_eq!(bench.code("git_pull", x(json!({}))), "not_fast_forward");
    assert_eq!(bench.says("git_pull", x(json!({ "mode": "rebase" }))).1["result"], "merged");
    assert_eq!(bench.git(&["-C", "d/x", "log", "--format=%s"]), "m.txt\nb.txt\na.txt");
    bench.says("git_push", x(json!({})));

    push("main", "c.txt");
    commit("n.txt", "mine\n");
    assert_eq!(bench.says("git_pull", x(json!({ "mode": "merge" }))).1["result"], "merged");
    assert_eq!(bench.git(&["-C", "d/x", "rev-list", "--count", "--merges", "HEAD"]), "1");
    bench.says("git_push", x(json!({})));

    // The same file on both sides.
    push("main", "e.txt");
    commit("e.txt", "mine\n");
    let before = bench.git(&["-C", "d/x", "rev-parse", "HEAD"]);
    let fault = bench.call("git_pull", x(json!({ "mode": "rebase" }))).unwrap_err();
    assert_eq!((&*fault.code, fault.message.contains("`e.txt`")), ("rebase_conflict", true), "{fault}");
    assert_eq!((bench.git(&["-C", "d/x", "rev-parse", "HEAD"]), bench.text("d/x/e.txt")), (before, "mine\n".into()));
    assert_eq!(bench.says("git_status", x(json!({}))).1["in_progress"], Value::Null);
    let (_, pulled) = bench.says("git_pull", x(json!({ "mode": "merge" })));
    assert_eq!((&pulled["result"], &pulled["conflicts"]), (&json!("conflicts"), &json!(["e.txt"])));
    assert_eq!(bench.code("git_pull", x(json!({}))), "operation_in_progress");
    bench.says("git_merge", x(json!({ "abort": true })));

    // What was fetched is replaced, what came since is not.
    let (_, pushed) = bench.says("git_push", x(json!({ "force": "with_lease" })));
    assert_eq!(pushed["refs"][0]["result"], "forced");
    push("main", "f.txt");
    commit("g.txt", "mine\n");
    assert_eq!(bench.code("git_push", x(json!({ "force": "with_lease" }))), "push_rejected");
    for (arguments, code) in [
        (json!({ "delete": true }), "bad_request"),
        (json!({ "branch": "main", "delete": true, "tags": true }), "bad_request"),
        (json!({ "branch": "none" }), "unknown_revision"),
        (json!({ "remote": "none" }), "unknown_remote"),
        (json!({ "remote": "a/b" }), "bad_name"),
        (json!({ "branch": "-D" }), "bad_name"),
    ] {
        assert_eq!(bench.code("git_push", x(arguments.clone())), code, "{arguments}");
    }
    assert_eq!(bench.code("git_fetch", x(json!({ "branch": "none" }))), "unknown_revision");
    assert_eq!(bench.code("git_pull", x(json!({ "branch": "none" }))), "unknown_revision");
}

#[test]
fn a_clone_can_be_shallow_and_goes_only_where_it_may() {
    let (bench, push) = with_remote();
    push("main", "b.txt");
    push("topic", "t.txt");
    let (_, cloned) = bench.says("git_clone", json!({ "url": URL, "directory": "s", "depth": 1, "branch": "topic" }));
    assert_eq!(
        (&cloned["branch"], bench.git(&["-C", "s", "rev-list", "--count", "HEAD"])),
        (&json!("topic"), "1".into())
    );
    for (arguments, code) in [
        (json!({ "url": URL, "branch": "none", "directory": "y" }), "unknown_revision"),
        (json!({ "url": "https://example.org/none.git" }), "repository_not_found"),
        (json!({ "url": URL, "directory": "../x" }), "path_outside_workspace"),
        (json!({ "url": URL, "directory": "/tmp/x" }), "path_outside_workspace"),
        (json!({ "url": URL, "directory": ".git/x" }), "protected_path"),
        (json!({ "url": URL, "directory": "." }), "bad_request"),
        (json!({ "url": "https://example.org/..", "directory": "y" }), "url_refused"),
        (json!({ "url": "https://a:b@example.org/x" }), "url_refused"),
        (json!({ "url": "file:///etc" }), "url_refused"),
        (json!({ "url": "http://example.org/x", "connection": "c" }), "url_refused"),
        (json!({ "url": "git@example.org:x", "connection": "c" }), "url_refused"),
    ] {
        assert_eq!(bench.code("git_clone", arguments.clone()), code, "{arguments}");
    }
}

#[test]
fn submodules_come_one_by_one_from_where_they_may() {
    let (bench, push) = with_remote();
    push("main", "b.txt");
    let root = bench.root.path().to_owned();
    bench.git(&["clone", "-q", "--bare", "../remotes/x.git", root.join("remotes/sub.git").to_str().unwrap()]);
    bench.git(&["clone", "-q", "../remotes/x.git", "../whole"]);
    let commit = bench.git(&["-C", "../whole", "rev-parse", "HEAD~1"]);
    let publish = |modules: &str, path: &str| {
        fs::write(root.join("whole/.gitmodules"), modules).unwrap();
        bench.git(&["-C", "../whole", "add", "."]);
        bench.git(&["-C", "../whole", "update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        let identity = ["-c", "user.name=Bo", "-c", "user.email=bo@example.org"];
        bench.git(&[&["-C", "../whole"], identity.as_slice(), &["commit", "-q", "-m", path]].concat());
        bench.git(&["-C", "../whole", "push", "-q", "origin", "HEAD:refs/heads/main"]);
    };
    publish("[submodule \"s\"]\n\tpath = lib/sub\n\turl = ../sub.git\n", "lib/sub");
    bench.says("git_clone", json!({ "url": URL, "directory": "without" }));
    assert!(!bench.workspace().join("without/lib/sub/a.txt").exists());
    let (text, cloned) = bench.says("git_clone", json!({ "url": URL, "directory": "with", "submodules": true }));
    let url = "https://example.org/sub.git";
    assert_eq!(cloned["submodules"], json!([{ "path": "lib/sub", "url": url, "commit": commit }]));
    assert!(text.ends_with("A submodule came along."), "{text}");
    assert_eq!(bench.text("with/lib/sub/a.txt"), "a.txt of Bo\n");
    assert!(!bench.workspace().join("with/lib/sub/b.txt").exists());
    assert_eq!(bench.says("git_status", json!({ "repository": "with" })).1["files"], json!([]));

    // What `.gitmodules` says of a place where the commit has no submodule is nobody's business.
    publish("[submodule \"s\"]\n\tpath = a.txt\n\turl = ../sub.git\n", "lib/sub");
    let (_, cloned) = bench.says("git_clone", json!({ "url": URL, "directory": "elsewhere", "submodules": true }));
    assert_eq!(cloned["submodules"], json!([]));
    for (number, (path, address, code)) in [
        ("lib/sub", "ext::sh -c touch% x", "url_refused"),
        ("lib/sub", "/etc", "url_refused"),
        ("lib/sub", "../../../..", "bad_submodule"),
        ("lib/sub", "../none.git", "repository_not_found"),
        ("../sub", "../sub.git", "path_outside_workspace"),
    ]
    .into_iter()
    .enumerate()
    {
        publish(&format!("[submodule \"s\"]\n\tpath = {path}\n\turl = {address}\n"), "lib/sub");
        let arguments = json!({ "url": URL, "directory": format!("n{number}"), "submodules": true });
        assert_eq!(bench.code("git_clone", arguments), code, "{path} {address}");
    }
}

#[test]
fn a_repository_leads_nowhere_outside_the_workspace() {
    let bench = Bench::with_commit();
    let outside = bench.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    bench.git(&["clone", "-q", "--no-local", ".", outside.to_str().unwrap()]);
    let at = |path: &str| bench.workspace().join(path);
    let code = |directory: &str| bench.code("git_status", json!({ "repository": directory }));

    // A `.git` file, a link, a part of it, and objects of others.
    bench.put("file/.git", &format!("gitdir: {}/.git\n", outside.display()));
    bench.put("up/.git", "gitdir: ../../outside/.git\n");
    fs::create_dir_all(at("link")).unwrap();
    std::os::unix::fs::symlink(outside.join(".git"), at("link/.git")).unwrap();
    for directory in ["file", "up", "link"] {
        assert_eq!(code(directory), "path_outside_workspace", "{directory}");
    }
    bench.git(&["clone", "-q", "--no-local", ".", "part"]);
    fs::rename(at("part/.git/objects"), at("kept")).unwrap();
    std::os::unix::fs::symlink(outside.join(".git/objects"), at("part/.git/objects")).unwrap();
    assert_eq!(code("part"), "path_outside_workspace");
    fs::remove_file(at("part/.git/objects")).unwrap();
    fs::rename(at("kept"), at("part/.git/objects")).unwrap();
    assert_eq!(bench.says("git_status", json!({ "repository": "part" })).1["files"], json!([]));
    bench.put("part/.git/objects/info/alternates", &format!("{}/.git/objects\n", outside.display()));
    assert_eq!(code("part"), "path_outside_workspace");
    bench.put("part/.git/objects/info/alternates", "../../../.git/objects\n");
    bench.says("git_log", json!({ "repository": "part" }));
    bench.put(".git/objects/info/alternates", &format!("{}/.git/objects\n", outside.display()));
    assert_eq!(code("part"), "path_outside_workspace");
    fs::remove_file(at(".git/objects/info/alternates")).unwrap();

    for (directory, expected) in [
        ("..", "path_outside_workspace"),
        ("none", "not_found"),
        ("a.txt", "not_a_directory"),
        (".git", "not_a_repository"),
    ] {
        assert_eq!(code(directory), expected, "{directory}");
    }
    bench.put("part/.git/config", "[core\n");
    assert_eq!(code("part"), "bad_repository");
    bench.put("part/.git/config", "[extensions]\n\trefStorage = reftable\n");
    assert_eq!(code("part"), "bad_repository");
}

#[test]
fn work_trees_and_submodules_inside_are_repositories_too() {
    let bench = Bench::with_commit();
    bench.git(&["worktree", "add", "-q", "-b", "side", "tree"]);
    bench.put("tree/b.txt", "b\n");
    bench.says("git_commit", json!({ "repository": "tree", "message": "beside", "paths": ["b.txt"] }));
    assert_eq!(bench.git(&["log", "-1", "--format=%s", "side"]), "beside");
    let (_, renamed) =
        bench.says("git_branch", json!({ "repository": "tree", "action": "rename", "new_name": "other" }));
    assert_eq!(
        (&renamed["current"], bench.git(&["-C", "tree", "branch", "--show-current"])),
        (&json!("other"), "other".into())
    );
    assert_eq!(
        bench.code("git_branch", json!({ "action": "delete", "name": "other", "force": true })),
        "branch_in_use"
    );
    assert_eq!(bench.code("git_branch", json!({ "action": "switch", "name": "other" })), "branch_in_use");

    bench.git(&["init", "-q", "--object-format=sha256", "-b", "main", "long"]);
    bench.put("long/a.txt", "a\n");
    let (_, commit) = bench.says("git_commit", json!({ "repository": "long", "message": "first", "paths": ["."] }));
    assert_eq!(commit["commit"]["id"].as_str().unwrap().len(), 64);
}

#[test]
fn a_hostile_repository_runs_nothing() {
    let bench = Bench::new();
    let traces = bench.root.path().join("traces");
    let hostile = Hostile::new(&bench.workspace(), &traces);
    // Whoever does not know what it is runs into it.
    let _ = hostile.git(&["-c", "core.bare=false", "-c", "core.worktree=.", "--work-tree=.", "status"]);
    assert!(!hostile.left().is_empty());
    hostile.wipe();

    for (name, arguments) in every_call() {
        let outcome = match bench.call(name, arguments.clone()) {
            Ok(output) => output.text,
            Err(fault) => fault.to_string(),
        };
        println!("{name} {arguments}\n    {}", outcome.replace('\n', "\n    "));
        assert_eq!(hostile.left(), Vec::<String>::new(), "{name} {arguments}");
    }
}

/// Every tool with every kind of arguments.
fn every_call() -> Vec<(&'static str, Value)> {
    vec![
        ("git_status", json!({})),
        ("git_log", json!({})),
        ("git_log", json!({ "paths": ["--output=option"], "author": "--exec=x" })),
        ("git_diff", json!({})),
        ("git_diff", json!({ "from": "main", "to": "dev" })),
        ("git_diff", json!({ "paths": [":(exclude)a.txt", "-rf"] })),
        ("git_show", json!({})),
        ("git_show", json!({ "ref": "dev:a.txt" })),
        ("git_show", json!({ "ref": "--output=option" })),
        ("git_blame", json!({ "path": "a.txt" })),
        ("git_blame", json!({ "path": "--output=option" })),
        ("git_branch", json!({ "action": "list" })),
        ("git_tag", json!({ "action": "list" })),
        ("git_stash", json!({ "action": "list" })),
        ("git_branch", json!({ "action": "create", "name": "work", "start_point": "dev" })),
        ("git_branch", json!({ "action": "create", "name": "--exec=x" })),
        ("git_branch", json!({ "action": "delete", "name": "-D" })),
        ("git_tag", json!({ "action": "create", "name": "v2", "message": "two" })),
        ("git_tag", json!({ "action": "delete", "name": "v2" })),
        ("git_stash", json!({ "action": "push", "untracked": true, "paths": ["b.txt", "note", "-rf"] })),
        ("git_stash", json!({ "action": "show" })),
        ("git_stash", json!({ "action": "pop" })),
        ("git_commit", json!({ "message": "three", "paths": ["."] })),
        ("git_stash", json!({ "action": "push" })),
        ("git_commit", json!({ "message": "nothing" })),
        ("git_commit", json!({ "message": "nothing", "all": true })),
        ("git_commit", json!({ "message": "again", "amend": true })),
        ("git_merge", json!({ "ref": "dev" })),
        ("git_branch", json!({ "action": "switch", "name": "work" })),
        ("git_branch", json!({ "action": "rename", "name": "work", "new_name": "works" })),
        ("git_branch", json!({ "action": "switch", "name": "main" })),
        ("git_branch", json!({ "action": "delete", "name": "works", "force": true })),
        ("git_fetch", json!({})),
        ("git_fetch", json!({ "remote": "web" })),
        ("git_pull", json!({})),
        ("git_push", json!({})),
        ("git_push", json!({ "remote": "--exec=x" })),
        ("git_clone", json!({ "url": "ext::sh -c touch% x", "directory": "clone" })),
        ("git_clone", json!({ "url": "--upload-pack=x", "directory": "clone" })),
        ("git_clone", json!({ "url": ".", "directory": "clone" })),
        ("git_status", json!({ "repository": "sub" })),
        ("git_commit", json!({ "repository": "sub", "message": "x", "paths": ["."] })),
    ]
}
