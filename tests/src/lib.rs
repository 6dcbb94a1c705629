//! Black-box tests: they spawn the binary.
//!
//! [`Bench`] is what they share: a workspace, a data directory and a home of its own for every test, and the binary
//! run in an environment built from empty, so that no test sees the machine's config or leaves a trace on it.

#![expect(clippy::expect_used, clippy::panic, reason = "only tests link this, and a broken bench fails the test")]

pub mod dns;
pub mod forge;
pub mod gateway;
pub mod hostile;
mod http;
pub mod network;
pub mod town;

use std::{
    env,
    fmt::{self, Display},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

/// The tools an agent at level standard has, by name.
pub const TOOLS: [&str; 49] = [
    "bash",
    "calculator",
    "convert_temperature",
    "delete",
    "echo",
    "edit",
    "fetch_url",
    "find",
    "generate_password",
    "generate_uuid",
    "get_time",
    "git_blame",
    "git_branch",
    "git_clone",
    "git_commit",
    "git_diff",
    "git_fetch",
    "git_log",
    "git_merge",
    "git_pull",
    "git_push",
    "git_show",
    "git_stash",
    "git_status",
    "git_tag",
    "grep",
    "hash_text",
    "html_parse",
    "http_request",
    "json_format",
    "ls",
    "pr_comment",
    "pr_create",
    "pr_list",
    "pr_merge",
    "pr_view",
    "read",
    "read_webpage",
    "recent_calls",
    "run_code",
    "shell",
    "string_stats",
    "terminal_close",
    "terminal_open",
    "terminal_read",
    "terminal_send",
    "url_encode",
    "web_search",
    "write",
];

/// The binary under test: `$TOOLGATE_BIN`, else the one `cargo build` made.
pub fn bin() -> PathBuf {
    let bin = env::var_os("TOOLGATE_BIN").map_or_else(|| target().join("debug/toolgate"), PathBuf::from);
    assert!(bin.is_file(), "there is no `{}`: run cargo build first", bin.display());
    bin
}

/// Where builds go.
pub fn target() -> PathBuf {
    repository().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The root of this repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}

/// Says that a test could not be made here. Never silent: what was not tried did not pass.
pub fn skipped(reason: impl Display) {
    eprintln!("SKIPPED: {reason}");
}

/// A workspace, a data directory and a home, gone when the test ends.
#[derive(Debug)]
pub struct Bench {
    root: TempDir,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// Empty directories; the data directory is left for the binary to make.
    pub fn new() -> Self {
        let root = TempDir::with_prefix("toolgate-test-").expect("a temporary directory");
        let bench = Self { root };
        fs::create_dir(bench.workspace()).expect("a workspace");
        fs::create_dir(bench.home()).expect("a home");
        bench
    }

    /// What lies around the workspace: nothing in here may ever be reached from inside.
    pub fn outside(&self) -> &Path {
        self.root.path()
    }

    /// The current directory of every command.
    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    /// `$TOOLGATE_DATA_DIR`.
    pub fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Puts a file into the workspace, with its directories.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("directories");
        fs::write(&path, content).expect("a file");
        path
    }

    /// The text of a file of the workspace.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The binary in the workspace, with an environment of three names.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(bin());
        command
            .args(args)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TOOLGATE_DATA_DIR", self.data())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Runs it to its end with something on standard input.
    pub fn run_with(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ran {
        Ran::fed(&mut self.command(args), input.as_ref())
    }

    /// Makes one call.
    pub fn call(&self, tool: &str, arguments: &Value) -> Ran {
        // Some arguments are longer than the system lets one argument of a program be.
        self.run_with(&["call", tool, "-"], arguments.to_string())
    }
}

/// How the binary ended and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit status; -1 for a signal.
    pub status: i32,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
}

impl Ran {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the command starts").into()
    }

    /// Runs a command to its end with something on standard input.
    pub fn fed(command: &mut Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // Written from the side, because a child that answers before it has read all would otherwise block both. One
        // that does not read to the end is no failure of the test.
        thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().expect("the command ends").into()
        })
    }

    /// Standard output as one JSON value and a line end: nothing else may be there.
    pub fn json(&self) -> Value {
        let value = self.stdout.strip_suffix('\n').filter(|line| !line.contains('\n')).map(serde_json::from_str);
        match value {
            Some(Ok(value)) => value,
            _ => panic!("one line of JSON was expected on standard output:\n{self}"),
        }
    }

    /// Asserts the exit status, and gives this back.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "the exit status:\n{self}");
        self
    }

    /// Asserts that a call was refused with this code, and gives its outcome.
    #[track_caller]
    pub fn refused(self, code: &str) -> Value {
        self.ended(3, "refused", code)
    }

    /// Asserts that a call failed with this code, and gives its outcome.
    #[track_caller]
    pub fn failed(self, code: &str) -> Value {
        self.ended(1, "failed", code)
    }

    /// Asserts that a call was done, and gives its outcome.
    #[track_caller]
    pub fn done(self) -> Value {
        let ran = self.exits(0);
        let outcome = ran.json();
        assert_eq!((&outcome["status"], &outcome["is_error"]), (&"done".into(), &false.into()), "{ran}");
        outcome
    }

    #[track_caller]
    fn ended(self, exit: i32, status: &str, code: &str) -> Value {
        let ran = self.exits(exit);
        let outcome = ran.json();
        let said = (&outcome["status"], &outcome["code"], &outcome["is_error"]);
        assert_eq!(said, (&status.into(), &code.into(), &true.into()), "{ran}");
        outcome
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the binary prints UTF-8");
        Self { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(f, "exit {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
