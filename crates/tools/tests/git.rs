//! The git tools over the machine's own git, without a room: what they say is what git does, and what a repository brings
//! along is not run even where nothing else would keep it from running.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the tests are the room")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../../../tests/src/hostile.rs"]
mod hostile;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
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
        for dir in ["workspace", "home", "tmp"] {
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
            programs: Some(Arc::new(Bare(self.root.path().to_owned()))),
            web: None,
            workspace: Some(workspace.with_access(tool.def.needs.files)),
            clock: Arc::new(Epoch),
            progress: None,
            stop: StopFlag::default(),
            timeout: tool.def.timeout,
            caps: tool.def.caps,
        });
        let result = tool.body.run(&cx, arguments);
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

    fn run_reaching(&self, job: &Job, _reach: &Reach, _stop: &StopFlag) -> Result<Ran, Fault> {
        Ok(self.start(job))
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

fn _used(_: &Path) {}
