//! Bare repositories in a directory, served with git's own CGI program.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use super::text;
use crate::http::{Reply, Request};

#[derive(Debug)]
pub(super) struct Repositories {
    root: PathBuf,
}

impl Repositories {
    pub(super) fn below(root: PathBuf) -> Self {
        fs::create_dir_all(&root).expect("a directory");
        Self { root }
    }

    /// Makes a repository with one commit on `main`.
    pub(super) fn add(&self, name: &str) {
        let path = self.path(name);
        let path = text(&path);
        run(git(&self.root).args(["init", "--quiet", "--bare", "--initial-branch=main", path]), b"").expect("init");
        let git = |args: &[&str], input: &str| {
            let mut command = git(&self.root);
            let out = run(command.args(["-C", path]).args(args), input.as_bytes()).expect("a first commit");
            String::from_utf8(out).expect("git prints an id").trim().to_owned()
        };
        let readme = git(&["hash-object", "-w", "--stdin"], &format!("# {name}\n"));
        let tree = git(&["mktree"], &format!("100644 blob {readme}\tREADME.md\n"));
        let commit = git(&["commit-tree", &tree, "-m", "begin"], "");
        git(&["update-ref", "refs/heads/main", &commit], "");
    }

    pub(super) fn has(&self, name: &str) -> bool {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('%');
        name.split('/').count() == 2 && name.split('/').all(is_plain) && self.path(name).is_dir()
    }

    /// What git prints in a repository, or what it says went wrong.
    pub(super) fn git(&self, name: &str, args: &[&str]) -> Result<String, String> {
        let path = self.path(name);
        let out = run(git(&self.root).args(["-C", text(&path)]).args(args), b"")?;
        Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
    }

    /// The commit a branch is at.
    pub(super) fn tip(&self, name: &str, branch: &str) -> Option<String> {
        self.git(name, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}^{{commit}}")]).ok()
    }

    /// Fetching and pushing.
    pub(super) fn serve(&self, request: &Request) -> Reply {
        if !matches!(request.method.as_str(), "GET" | "POST") {
            return Reply::empty(405);
        }
        let mut command = git(&self.root);
        command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REMOTE_USER", "ada")
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("REQUEST_METHOD", &request.method)
            .env("PATH_INFO", &request.path)
            .env("QUERY_STRING", &request.query)
            .env("CONTENT_TYPE", request.header("content-type").unwrap_or_default())
            .env("CONTENT_LENGTH", request.body.len().to_string());
        if let Some(protocol) = request.header("git-protocol") {
            command.env("GIT_PROTOCOL", protocol);
        }
        if let Some(encoding) = request.header("content-encoding") {
            command.env("HTTP_CONTENT_ENCODING", encoding);
        }
        match run(&mut command, &request.body) {
            Ok(out) => from_cgi(&out),
            Err(said) => Reply::says(500, &said),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.git"))
    }
}

/// What a CGI program printed, as an answer.
fn from_cgi(out: &[u8]) -> Reply {
    let end = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(out.len());
    let (head, body) = (String::from_utf8_lossy(&out[..end]), out.get(end + 4..).unwrap_or_default());
    let mut reply = Reply { status: 200, headers: Vec::new(), body: body.to_vec() };
    for (name, value) in head.split("\r\n").filter_map(|line| line.split_once(": ")) {
        if name.eq_ignore_ascii_case("status") {
            reply.status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
        } else {
            reply = reply.with(name, value);
        }
    }
    reply
}

/// Git without the machine's config, with a fixed author and a fixed time.
fn git(home: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@forge.test");
        command.env(format!("GIT_{who}_DATE"), "2026-01-02T03:04:05Z");
    }
    command
}

/// Runs it to its end, and gives its output, or its words when it failed.
fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    // Written from the side: git answers before it has read everything.
    let out = thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().map_err(|error| error.to_string())
    })?;
    if out.status.success() { Ok(out.stdout) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}
