//! The file tools through the command line: what they do, and every way out of the workspace that is known.
//!
//! Around the workspace lie canaries. An attack has won when a canary's text shows up in an answer, when a canary
//! changes, or when a file appears where there was none.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolgate_tests::{Bench, Ran, skipped};

const CANARY: &str = "the canary sings";

/// A bench whose surroundings hold canaries.
struct Cage {
    bench: Bench,
}

impl Cage {
    fn new() -> Self {
        let bench = Bench::new();
        fs::create_dir(bench.outside().join("beyond")).unwrap();
        fs::write(bench.outside().join("canary"), CANARY).unwrap();
        fs::write(bench.outside().join("beyond/canary"), CANARY).unwrap();
        // A sibling whose name begins like the workspace's.
        fs::create_dir(bench.outside().join("workspace-not")).unwrap();
        fs::write(bench.outside().join("workspace-not/canary"), CANARY).unwrap();
        Self { bench }
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.bench.outside().join(path)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.bench.workspace().join(name)).unwrap();
    }

    /// Everything around the workspace that is not this test's own data or home: names and contents.
    fn surroundings(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut seen = Vec::new();
        let mut open = vec![self.bench.outside().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if [self.bench.workspace(), self.bench.data()].contains(&path) {
                    continue;
                }
                if path.is_dir() {
                    open.push(path.clone());
                }
                seen.push((path.clone(), fs::read(&path).ok()));
            }
        }
        seen.sort();
        seen
    }

    /// Makes a call that must be refused with this code and must leave everything outside as it was.
    #[track_caller]
    fn refuses(&self, tool: &str, arguments: Value, code: &str) -> Value {
        let before = self.surroundings();
        let ran = self.bench.call(tool, &arguments);
        assert!(!ran.stdout.contains(CANARY), "{tool} {arguments} lets the canary out:\n{ran}");
        assert_eq!(self.surroundings(), before, "{tool} {arguments} changes what is outside");
        let outcome = ran.json();
        let said = (ran.status, &outcome["status"], &outcome["code"]);
        assert_eq!(said, (3, &json!("refused"), &json!(code)), "{tool} {arguments}: {ran}");
        outcome
    }
}

/// Every file tool with this path.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "path": path })),
        ("ls", json!({ "path": path })),
        ("find", json!({ "path": path, "pattern": "*" })),
        ("grep", json!({ "path": path, "pattern": "." })),
        ("write", json!({ "path": path, "content": "broken out" })),
        ("write", json!({ "path": path, "content": "broken out", "create_dirs": true })),
        ("edit", json!({ "path": path, "edits": [{ "old": CANARY, "new": "broken out" }] })),
        ("delete", json!({ "path": path })),
    ]
}

// ---- the ways out ----

#[test]
fn no_tool_takes_a_path_that_leads_outside() {
    let cage = Cage::new();
    fs::create_dir(cage.bench.workspace().join("sub")).unwrap();
    cage.link("../canary", "link_to_file");
    cage.link("..", "link_to_dir");
    cage.link(cage.outside("beyond"), "absolute_link");
    cage.link("link_to_dir/beyond", "link_to_link");
    cage.link("sub/../../beyond", "crooked_link");
    let absolute = cage.outside("canary");
    let absolute = absolute.to_str().unwrap();
    let paths = [
        "..",
        "../canary",
        "./../canary",
        "sub/../../canary",
        "sub/../../workspace/../canary",
        "/",
        "/etc/passwd",
        absolute,
        &format!("/{absolute}"),
        &cage.bench.workspace().join("../canary").display().to_string(),
        &cage.outside("workspace-not/canary").display().to_string(),
        "../workspace-not/canary",
        "link_to_file",
        "link_to_dir/canary",
        "link_to_dir/beyond/canary",
        "absolute_link/canary",
        "link_to_link/canary",
        "crooked_link/canary",
        &format!("/proc/self/root{absolute}"),
        "/proc/self/cwd/../canary",
        "/proc/self/fd/0",
        "/proc/self/environ",
        "/dev/stdin",
        "C:\\canary",
        "\\\\server\\share\\canary",
    ];
    // One process per path: a turn takes all the tools at once.
    for path in paths {
        let before = cage.surroundings();
        let calls = every_tool(path);
        let turn: Vec<_> = calls.iter().map(|(tool, args)| json!({ "tool": tool, "arguments": args })).collect();
        let ran = cage.bench.run_with(&["turn"], json!(turn).to_string()).exits(3);
        assert!(!ran.stdout.contains(CANARY), "{path} lets the canary out:\n{ran}");
        assert_eq!(cage.surroundings(), before, "{path} changes what is outside");
        for (outcome, (tool, arguments)) in ran.json().as_array().unwrap().iter().zip(&calls) {
            assert_eq!(outcome["code"], "path_outside_workspace", "{tool} {arguments}: {outcome:#}");
        }
    }
    cage.refuses("read", json!({ "path": "../canary" }), "path_outside_workspace");
}

#[test]
fn a_new_file_behind_a_link_is_not_made_outside() {
    let cage = Cage::new();
    cage.link("../beyond", "door");
    cage.link("../not_there_yet", "dangling");
    cage.link("../not_there_either", "dangling_dir");
    for path in ["door/new", "door/deep/er/new", "dangling", "dangling_dir/new"] {
        let before = cage.surroundings();
        for create_dirs in [false, true] {
            let ran = cage.bench.call("write", &json!({ "path": path, "content": "x", "create_dirs": create_dirs }));
            assert!(ran.status == 3 || ran.status == 1, "{path}: {ran}");
            assert_eq!(cage.surroundings(), before, "{path} made something outside");
        }
    }
}

#[test]
fn nothing_is_decoded_so_an_encoded_way_out_is_only_a_name() {
    let cage = Cage::new();
    for path in ["%2e%2e/canary", "..%2fcanary", "..\\canary", "~/canary", "$HOME/../canary", "\u{ff0e}\u{ff0e}/canary"]
    {
        cage.bench.call("read", &json!({ "path": path })).failed("not_found");
    }
    cage.bench.put("..canary", "a legal name");
    assert_eq!(cage.bench.call("read", &json!({ "path": "..canary" })).done()["structured"]["text"], "a legal name");
}

#[test]
fn a_directory_swapped_for_a_link_at_any_moment_opens_no_door() {
    let cage = Cage::new();
    cage.bench.put("door/canary", "a decoy");
    cage.link("../beyond", "other");
    let (door, other) = (cage.bench.workspace().join("door"), cage.bench.workspace().join("other"));
    let before = cage.surroundings();

    let calls: Vec<_> = (0..40)
        .flat_map(|round| {
            [
                json!({ "tool": "read", "arguments": { "path": "door/canary" } }),
                json!({ "tool": "grep", "arguments": { "path": ".", "pattern": "." } }),
                json!({ "tool": "ls", "arguments": { "path": "door" } }),
                json!({ "tool": "write", "arguments": { "path": format!("door/new{round}"), "content": "x" } }),
                json!({ "tool": "edit", "arguments": {
                    "path": "door/canary", "edits": [{ "old": "a", "new": "a", "replace_all": true }]
                } }),
                json!({ "tool": "delete", "arguments": { "path": format!("door/new{round}") } }),
            ]
        })
        .collect();
    let over = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &door, rustix::fs::CWD, &other, exchange).unwrap();
            }
        });
        let ran = cage.bench.run_with(&["turn"], json!(calls).to_string());
        over.store(true, Ordering::Relaxed);
        ran
    });
    assert!(!ran.stdout.contains(CANARY), "the canary got out:\n{ran}");
    assert_eq!(cage.surroundings(), before, "something outside changed");
    // The race was on: some calls found the directory, some the link.
    let outcomes = ran.json();
    let count = |status: &str| outcomes.as_array().unwrap().iter().filter(|o| o["status"] == status).count();
    assert!(count("done") > 0 && count("refused") > 0, "{} done, {} refused", count("done"), count("refused"));
}

#[test]
fn a_hard_link_to_a_file_outside_is_never_written_through() {
    let cage = Cage::new();
    let inside = cage.bench.workspace().join("hard");
    let check = |tool: &str, arguments: Value| {
        let _ = fs::remove_file(&inside);
        fs::hard_link(cage.outside("canary"), &inside).unwrap();
        let before = cage.surroundings();
        cage.bench.call(tool, &arguments).done();
        assert_eq!(cage.surroundings(), before, "{tool} wrote through the link");
    };
    check("write", json!({ "path": "hard", "content": "new" }));
    assert_eq!(cage.bench.text("hard"), "new");
    check("edit", json!({ "path": "hard", "edits": [{ "old": "sings", "new": "is silent" }] }));
    assert_eq!(cage.bench.text("hard"), "the canary is silent");
    check("delete", json!({ "path": "hard" }));
    assert!(!inside.exists());
}

#[test]
fn pipes_sockets_and_devices_are_refused_and_hang_nobody() {
    let cage = Cage::new();
    let workspace = cage.bench.workspace();
    assert!(Command::new("mkfifo").arg(workspace.join("pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(workspace.join("socket")).unwrap();
    let mut names = vec!["pipe", "socket"];
    match Command::new("mknod").arg(workspace.join("zero")).args(["c", "1", "5"]).output() {
        Ok(made) if made.status.success() => names.push("zero"),
        made => skipped(format!("a device cannot be made here: {made:?}")),
    }
    for name in names {
        for (tool, arguments) in every_tool(name) {
            // The tools for directories are told what it is not; what matters is that they come back.
            let ran = cage.bench.call(tool, &arguments);
            assert!(ran.status == 3 || ran.status == 1, "{tool} {arguments}: {ran}");
            if matches!(tool, "read" | "write" | "edit" | "delete") {
                assert_eq!(ran.json()["code"], "not_a_regular_file", "{tool} {arguments}: {ran}");
            }
        }
        assert!(workspace.join(name).exists(), "{name} is still there");
    }
    let found = cage.bench.call("grep", &json!({ "pattern": "." })).done();
    assert_eq!(found["structured"]["files_searched"], 0, "a search passes them by");
}

#[test]
fn a_bind_mount_is_part_of_the_workspace_and_no_way_further() {
    let cage = Cage::new();
    fs::create_dir(cage.bench.workspace().join("mounted")).unwrap();
    fs::write(cage.outside("beyond/shared"), "put there by the operator").unwrap();
    // In a mount namespace of its own, so that nothing is left mounted whatever happens.
    let turn = json!([
        { "tool": "read", "arguments": { "path": "mounted/shared" } },
        { "tool": "read", "arguments": { "path": "mounted/../../canary" } },
        { "tool": "read", "arguments": { "path": "mounted/up/canary" } },
    ]);
    symlink("..", cage.outside("beyond/up")).unwrap();
    let line = cage.bench.command(&["turn"]);
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "mount --bind \"$1\" mounted && exec \"$2\" turn",
        "sh",
    ]);
    command.arg(cage.outside("beyond")).arg(line.get_program());
    command.current_dir(cage.bench.workspace()).env_clear();
    command.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::fed(&mut command, turn.to_string().as_bytes());
    if ran.stdout.is_empty() {
        return skipped(format!("this machine does not let us mount: {}", ran.stderr.trim()));
    }
    let outcomes = ran.json();
    assert_eq!(outcomes[0]["structured"]["text"], "put there by the operator", "{ran}");
    assert_eq!(outcomes[1]["code"], "path_outside_workspace", "{ran}");
    assert!(!ran.stdout.contains(CANARY), "{ran}");
}

// ---- strange names ----

#[test]
fn names_no_file_can_have_are_refused() {
    let cage = Cage::new();
    let long = "x".repeat(256);
    let deep = "d/".repeat(2_500);
    for path in ["", "a\0b", "\0", &long, &format!("{long}/a"), &deep] {
        for (tool, arguments) in every_tool(path) {
            cage.refuses(tool, arguments, "bad_path");
        }
    }
    let longest = "y".repeat(255);
    cage.bench.call("write", &json!({ "path": longest, "content": "fits" })).done();
    assert_eq!(cage.bench.text(&longest), "fits");
}

#[test]
fn a_trailing_slash_and_another_case_are_other_names() {
    let cage = Cage::new();
    cage.bench.put("a.txt", "one\n");
    cage.bench.put("dir/b.txt", "two\n");
    cage.bench.call("read", &json!({ "path": "a.txt/" })).failed("not_a_directory");
    cage.bench.call("read", &json!({ "path": "A.TXT" })).failed("not_found");
    cage.bench.call("read", &json!({ "path": "dir/" })).failed("is_a_directory");
    cage.bench.call("write", &json!({ "path": "dir/", "content": "x" })).failed("is_a_directory");
    cage.bench.call("write", &json!({ "path": "new/", "content": "x" })).failed("is_a_directory");
    cage.bench.call("delete", &json!({ "path": "dir" })).failed("is_a_directory");
    assert_eq!(cage.bench.call("ls", &json!({ "path": "dir/" })).done()["structured"]["path"], "dir");
    assert!(cage.bench.workspace().join("dir/b.txt").exists());
}

#[test]
fn names_that_are_no_text_are_shown_and_harm_nobody() {
    let cage = Cage::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff\nname");
    fs::write(cage.bench.workspace().join(name), "needle\n").unwrap();
    let listed = cage.bench.call("ls", &json!({})).done();
    assert_eq!(listed["structured"]["entries"][0]["name"], "bad\\xff\nname");
    assert_eq!(listed["text"].as_str().unwrap().lines().count(), 1, "one entry, one line: {}", listed["text"]);
    assert_eq!(cage.bench.call("grep", &json!({ "pattern": "needle" })).done()["structured"]["total"], 1);
    assert_eq!(cage.bench.call("find", &json!({ "pattern": "*" })).done()["structured"]["total"], 1);
}

// ---- what is not the agent's ----

#[test]
fn git_s_own_files_are_read_and_never_written() {
    let cage = Cage::new();
    let workspace = cage.bench.workspace();
    cage.bench.put(".git/config", "[core]\n");
    cage.bench.put("vendored/.git/config", "[core]\n");
    fs::create_dir(workspace.join(".git/hooks")).unwrap();
    cage.link(".git", "innocent");
    for path in [
        ".git/config",
        ".git/hooks/post-commit",
        ".GIT/config",
        ".Git/hooks/post-commit",
        "./.git/config",
        "vendored/.git/config",
        "vendored/../.git/config",
        "innocent/config",
        "innocent/hooks/post-commit",
        "fresh/.git/hooks/post-commit",
    ] {
        cage.refuses("write", json!({ "path": path, "content": "x", "create_dirs": true }), "protected_path");
        cage.refuses("edit", json!({ "path": path, "edits": [{ "old": "core", "new": "x" }] }), "protected_path");
        cage.refuses("delete", json!({ "path": path }), "protected_path");
    }
    assert!(!workspace.join("fresh").exists(), "a refused call has not made half of its directories");
    assert_eq!(cage.bench.call("read", &json!({ "path": ".git/config" })).done()["structured"]["text"], "[core]\n");
    // Names that only look like it are ordinary.
    for path in [".gitignore", ".github/workflow.yaml", "git/config", ".gitx"] {
        cage.bench.call("write", &json!({ "path": path, "content": "x", "create_dirs": true })).done();
    }
}

#[test]
fn the_config_is_read_and_never_written() {
    let cage = Cage::new();
    let absent = cage.refuses("write", json!({ "path": "toolgate.yaml", "content": "version: 1" }), "protected_path");
    assert!(absent["effects"].as_array().is_some_and(|effects| !effects.is_empty()), "{absent}");
    assert!(!cage.bench.workspace().join("toolgate.yaml").exists(), "one that is not there yet is protected as well");
    cage.bench.put("toolgate.yaml", "version: 1\n");
    cage.link("toolgate.yaml", "innocent.yaml");
    fs::create_dir(cage.bench.workspace().join("sub")).unwrap();
    for path in ["toolgate.yaml", "./toolgate.yaml", "sub/../toolgate.yaml", "Toolgate.YAML"] {
        cage.refuses("write", json!({ "path": path, "content": "version: 1" }), "protected_path");
        cage.refuses("edit", json!({ "path": path, "edits": [{ "old": "1", "new": "2" }] }), "protected_path");
        cage.refuses("delete", json!({ "path": path }), "protected_path");
    }
    cage.refuses("write", json!({ "path": "innocent.yaml", "content": "x" }), "path_is_a_link");
    assert_eq!(cage.bench.text("toolgate.yaml"), "version: 1\n");
    cage.bench.call("read", &json!({ "path": "toolgate.yaml" })).done();
}

#[test]
fn the_config_is_not_written_from_a_wider_workspace_either() {
    let cage = Cage::new();
    cage.bench.put("toolgate.yaml", "version: 1\n");
    let above = cage.bench.outside().to_str().unwrap().to_owned();
    let write = json!({ "path": "workspace/toolgate.yaml", "content": "broken out" }).to_string();
    cage.bench.run(&["call", "write", &write, "--workspace", &above]).refused("protected_path");
    assert_eq!(cage.bench.text("toolgate.yaml"), "version: 1\n");
}

#[test]
fn a_user_s_config_is_not_written_however_home_is_spelled() {
    let cage = Cage::new();
    let home = cage.outside("home-by-another-name");
    symlink(cage.bench.home(), &home).unwrap();
    let write = json!({ "path": ".config/toolgate/toolgate.yaml", "content": "version: 1", "create_dirs": true });
    let try_in = |cwd: &Path, flags: &[&str]| {
        let write = write.to_string();
        let mut command = cage.bench.command(&[&["call", "write", &write][..], flags].concat());
        Ran::of(command.current_dir(cwd).env("HOME", &home)).refused("protected_path");
        assert!(!cage.bench.home().join(".config").exists());
    };
    try_in(&cage.bench.home(), &[]);
    try_in(&home, &[]);
    try_in(&cage.bench.workspace(), &["--workspace", cage.bench.home().to_str().unwrap()]);
    try_in(&cage.bench.workspace(), &["--workspace", home.to_str().unwrap()]);
}

#[test]
fn a_config_named_by_flag_is_neither_read_nor_written() {
    let cage = Cage::new();
    let config = cage.bench.put("mine.yaml", "version: 1 # needle\n");
    for spelt in [config.to_str().unwrap(), "mine.yaml", "./mine.yaml"] {
        let call =
            |tool: &str, arguments: Value| cage.bench.run(&["call", tool, &arguments.to_string(), "--config", spelt]);
        call("read", json!({ "path": "mine.yaml" })).refused("protected_path");
        call("write", json!({ "path": "mine.yaml", "content": "x" })).refused("protected_path");
        call("delete", json!({ "path": "mine.yaml" })).refused("protected_path");
        let found = call("grep", json!({ "pattern": "needle" })).done();
        assert_eq!(found["structured"]["matches"], json!([]), "{spelt}");
        assert_eq!(cage.bench.text("mine.yaml"), "version: 1 # needle\n");
    }
}

#[test]
fn the_files_that_start_a_server_are_never_written() {
    let cage = Cage::new();
    for name in [
        ".mcp.json",
        ".MCP.JSON",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".vscode/mcp.json",
        ".zed/settings.json",
    ] {
        let write = json!({ "path": name, "content": "{}", "create_dirs": true });
        cage.bench.run(&["call", "write", &write.to_string()]).refused("protected_path");
        assert!(!cage.bench.workspace().join(name).exists(), "{name}");
    }
}

#[test]
fn the_files_that_start_a_server_for_a_user_are_never_written() {
    let cage = Cage::new();
    let (home, configs) = (cage.outside("home-by-another-name"), cage.outside("configs"));
    symlink(cage.bench.home(), &home).unwrap();
    let refused = |workspace: &Path, path: &str, configs: Option<&Path>| {
        let write = json!({ "path": path, "content": "{}", "create_dirs": true }).to_string();
        let mut command = cage.bench.command(&["call", "write", &write, "--workspace", workspace.to_str().unwrap()]);
        command.env("HOME", &home).envs(configs.map(|configs| ("XDG_CONFIG_HOME", configs)));
        Ran::of(&mut command).refused("protected_path");
        assert!(!workspace.join(path).exists(), "{path}");
    };
    let above = cage.bench.outside();
    for name in [
        ".claude.json",
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".config/Code/User/mcp.json",
        ".config/goose/config.yaml",
        ".config/zed/settings.json",
    ] {
        refused(&home, name, None);
        refused(above, &format!("home/{name}"), None);
    }
    for name in ["Code/User/mcp.json", "goose/config.yaml", "zed/settings.json"] {
        refused(above, &format!("configs/{name}"), Some(&configs));
    }
    // In another workspace they are names like any other.
    let write = json!({ "path": ".claude.json", "content": "{}" });
    cage.bench.run(&["call", "write", &write.to_string()]).done();
}

#[test]
fn a_data_directory_inside_the_workspace_does_not_exist_for_tools() {
    let cage = Cage::new();
    let data = cage.bench.workspace().join(".toolgate/data");
    cage.bench.put("seen.txt", "SQLite sha256\n");
    cage.link(".toolgate/data", "door");
    let run = |args: &[&str], input: &str| {
        Ran::fed(cage.bench.command(args).env("TOOLGATE_DATA_DIR", &data), input.as_bytes())
    };
    run(&["call", "get_time"], "").done();
    assert!(data.join("sign.key").is_file());

    for name in ["sign.key", "audit.key", "audit.db", "audit.head", "trusted.json"] {
        for place in [".toolgate/data", "door", "./.toolgate/../.toolgate/data"] {
            for (tool, arguments) in every_tool(&format!("{place}/{name}")) {
                let ran = run(&["call", tool, "-"], &arguments.to_string());
                // What is not there yet cannot be read; it still cannot be written.
                let missing = name == "trusted.json" && !matches!(tool, "write");
                let code = ran.json()["code"].clone();
                assert!(code == "protected_path" || (missing && code == "not_found"), "{tool} {arguments}: {ran}");
            }
        }
    }
    run(&["call", "ls", "-"], r#"{"path":".toolgate/data"}"#).refused("protected_path");
    let listed = run(&["call", "ls", "-"], r#"{"path":".toolgate"}"#).done();
    assert_eq!(listed["structured"]["entries"], json!([]));
    let found = run(&["call", "find", "-"], r#"{"pattern":"*","include_ignored":true}"#).done();
    assert_eq!(found["structured"]["paths"], json!(["door", "seen.txt"]));
    let matched = run(&["call", "grep", "-"], r#"{"pattern":"SQLite|sha256"}"#).done();
    assert_eq!(matched["structured"]["total"], 1, "{matched:#}");
    run(&["audit", "verify"], "").exits(0);
}

#[test]
fn a_workspace_inside_the_data_directory_is_not_opened() {
    let bench = Bench::new();
    let ran = Ran::of(bench.command(&["call", "get_time"]).env("TOOLGATE_DATA_DIR", bench.outside())).exits(2);
    assert!(ran.stderr.contains("hidden") && ran.stdout.is_empty(), "{ran}");
}

#[test]
fn a_workspace_named_through_a_link_is_the_directory_it_leads_to() {
    let cage = Cage::new();
    cage.bench.put("a.txt", "text\n");
    symlink(cage.bench.workspace(), cage.outside("alias")).unwrap();
    let alias = cage.outside("alias");
    let read = |path: &str| {
        let arguments = json!({ "path": path }).to_string();
        cage.bench.run(&["call", "read", &arguments, "--workspace", alias.to_str().unwrap()])
    };
    for path in ["a.txt", alias.join("a.txt").to_str().unwrap(), cage.bench.workspace().join("a.txt").to_str().unwrap()]
    {
        assert_eq!(read(path).done()["structured"]["path"], "a.txt");
    }
    read("../canary").refused("path_outside_workspace");
}

#[test]
fn a_link_inside_is_read_and_written_by_its_own_name_only() {
    let cage = Cage::new();
    cage.bench.put("real.txt", "text\n");
    cage.link("real.txt", "alias");
    assert_eq!(cage.bench.call("read", &json!({ "path": "alias" })).done()["structured"]["path"], "real.txt");
    for (tool, arguments) in [
        ("write", json!({ "path": "alias", "content": "x" })),
        ("edit", json!({ "path": "alias", "edits": [{ "old": "text", "new": "x" }] })),
        ("delete", json!({ "path": "alias" })),
    ] {
        let outcome = cage.refuses(tool, arguments, "path_is_a_link");
        assert!(outcome["remedy"].as_str().unwrap().contains("`real.txt`"), "{outcome}");
    }
    assert_eq!(cage.bench.text("real.txt"), "text\n");
}

// ---- the work itself ----

#[test]
fn a_file_is_written_read_edited_found_and_deleted() {
    let bench = Bench::new();
    let path = "src/deep/main.rs";
    let missing = bench.call("write", &json!({ "path": path, "content": "x" })).failed("no_directory");
    assert!(missing["remedy"].as_str().unwrap().contains("create_dirs"));

    let text = "fn main() {\n    println!(\"old\");\n}\n";
    let written = bench.call("write", &json!({ "path": path, "content": text, "create_dirs": true })).done();
    let expected = json!({ "path": path, "bytes_written": text.len(), "created": true });
    assert_eq!(written["structured"], expected);
    assert_eq!(written["effects"], json!([{ "kind": "fs_write", "target": path }]));
    assert_eq!((&written["action"], &written["risk"]), (&json!("code:write"), &json!("medium")));
    assert!(written["enforced"].as_array().unwrap().contains(&json!("openat2_beneath")));

    let read = bench.call("read", &json!({ "path": path, "offset": 1, "limit": 1 })).done();
    assert_eq!(read["text"].as_str().unwrap().lines().next(), Some("     2\t    println!(\"old\");"));
    assert_eq!(read["labels"], json!(["workspace", "trusted", "private"]));
    let hash = sha256(text.as_bytes());
    assert_eq!(read["structured"]["sha256"], hash);

    let edits = json!([{ "old": "\"old\"", "new": "\"new\"" }]);
    let stale = json!({ "path": path, "edits": edits, "expected_sha256": sha256(b"something else") });
    bench.call("edit", &stale).failed("hash_mismatch");
    assert_eq!(bench.text(path), text, "an edit that fails changes nothing");
    let edited = bench.call("edit", &json!({ "path": path, "edits": edits, "expected_sha256": hash })).done();
    assert_eq!(bench.text(path), text.replace("old", "new"));
    assert_eq!(edited["structured"]["sha256"], sha256(bench.text(path).as_bytes()));
    let both = json!([{ "old": "main", "new": "start" }, { "old": "nowhere", "new": "x" }]);
    bench.call("edit", &json!({ "path": path, "edits": both })).failed("edit_old_not_found");
    assert_eq!(bench.text(path), text.replace("old", "new"), "all edits or none");

    let listed = bench.call("ls", &json!({ "path": "src/deep" })).done();
    assert_eq!(listed["structured"]["entries"][0]["name"], "main.rs");
    let found = bench.call("find", &json!({ "pattern": "*.rs" })).done();
    assert_eq!(found["structured"]["paths"], json!([path]));
    let matched = bench.call("grep", &json!({ "pattern": "println!\\(\"(new|old)\"" })).done();
    assert_eq!(matched["text"], format!("{path}:2:    println!(\"new\");"));

    let deleted = bench.call("delete", &json!({ "path": path })).done();
    assert_eq!((&deleted["action"], &deleted["risk"]), (&json!("code:delete"), &json!("high")));
    assert!(!bench.workspace().join(path).exists());
    bench.call("delete", &json!({ "path": path })).failed("not_found");
    assert_eq!(leftovers(&bench.workspace()), Vec::<PathBuf>::new());
}

#[test]
fn an_absolute_path_inside_is_taken_and_named_relative() {
    let bench = Bench::new();
    let path = bench.put("dir/a.txt", "x");
    let read = bench.call("read", &json!({ "path": path })).done();
    assert_eq!(read["structured"]["path"], "dir/a.txt");
}

#[test]
fn permissions_survive_a_write_and_an_edit() {
    let bench = Bench::new();
    let script = bench.put("run.sh", "#!/bin/sh\necho old\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o754)).unwrap();
    bench.call("edit", &json!({ "path": "run.sh", "edits": [{ "old": "old", "new": "new" }] })).done();
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o7777, 0o754);
    bench.call("write", &json!({ "path": "run.sh", "content": "#!/bin/sh\n" })).done();
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o7777, 0o754);
    // Rights that were given to the old content are not given to the new one.
    fs::set_permissions(&script, fs::Permissions::from_mode(0o4755)).unwrap();
    bench.call("write", &json!({ "path": "run.sh", "content": "#!/bin/sh\n:\n" })).done();
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_long_answer_is_cut_and_says_by_how_much() {
    let bench = Bench::new();
    let lines: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    bench.put("long.txt", &lines);
    let read = bench.call("read", &json!({ "path": "long.txt" })).done();
    assert_eq!(read["truncated"], json!({ "shown": 2_000, "total": 5_000, "unit": "lines" }));
    let next = bench.call("read", &json!({ "path": "long.txt", "offset": 2_000, "limit": 3 })).done();
    assert_eq!(next["structured"]["text"], "line 2001\nline 2002\nline 2003\n");
    assert_eq!(next["truncated"], Value::Null);

    bench.put("wide.txt", "é".repeat(100_000));
    let read = bench.call("read", &json!({ "path": "wide.txt" })).done();
    assert_eq!((&read["truncated"]["total"], &read["truncated"]["unit"]), (&json!(200_000), &json!("bytes")));
    assert!(read["text"].as_str().unwrap().len() <= 51_200 + 512, "{}", read["text"].as_str().unwrap().len());

    for n in 0..1_200 {
        bench.put(&format!("many/{n:04}"), "needle\n");
    }
    for (tool, arguments) in [
        ("ls", json!({ "path": "many" })),
        ("find", json!({ "path": "many", "pattern": "*" })),
        ("grep", json!({ "path": "many", "pattern": "needle" })),
    ] {
        let cut = bench.call(tool, &arguments).done();
        assert_eq!(cut["truncated"], json!({ "shown": 1_000, "total": 1_200, "unit": "items" }), "{tool}");
        assert!(cut["text"].as_str().unwrap().contains("1200"), "{tool} tells the model");
    }
}

// ---- several at once, and sudden ends ----

#[test]
fn two_processes_that_edit_one_file_lose_no_update() {
    const ROUNDS: usize = 40;
    let bench = Bench::new();
    bench.put("shared.txt", "left 0.\nright 0.\n");
    let turn = |side: &str| {
        let edit = |n: usize| {
            let edits = json!([{ "old": format!("{side} {n}."), "new": format!("{side} {}.", n + 1) }]);
            json!({ "tool": "edit", "arguments": { "path": "shared.txt", "edits": edits } })
        };
        json!((0..ROUNDS).map(edit).collect::<Vec<_>>()).to_string()
    };
    thread::scope(|scope| {
        for side in ["left", "right"] {
            let (bench, turn) = (&bench, turn(side));
            scope.spawn(move || {
                let ran = bench.run_with(&["turn"], turn);
                assert_eq!(ran.status, 0, "{side}: {ran}");
            });
        }
    });
    assert_eq!(bench.text("shared.txt"), format!("left {ROUNDS}.\nright {ROUNDS}.\n"));
}

#[test]
fn two_processes_that_count_with_a_hash_lose_no_update() {
    const EACH: usize = 8;
    let bench = Bench::new();
    bench.put("count.txt", "0\n");
    let step = || {
        let read = bench.call("read", &json!({ "path": "count.txt" })).done();
        let text = read["structured"]["text"].as_str().unwrap().to_owned();
        let next = format!("{}\n", text.trim_end().parse::<usize>().unwrap() + 1);
        let edit = json!({
            "path": "count.txt",
            "edits": [{ "old": text, "new": next }],
            "expected_sha256": read["structured"]["sha256"],
        });
        let ran = bench.call("edit", &edit);
        let code = ran.json()["code"].clone();
        match code.as_str() {
            None => true,
            Some("hash_mismatch" | "changed_meanwhile") => false,
            Some(_) => panic!("{ran}"),
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut made = 0;
                while made < EACH {
                    made += usize::from(step());
                }
            });
        }
    });
    assert_eq!(bench.text("count.txt"), format!("{}\n", 2 * EACH));
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_file_or_the_new_one() {
    const ROUNDS: u32 = 15;
    let bench = Bench::new();
    let content = |letter: &str| letter.repeat(4 * 1024 * 1024);
    let arguments = |letter: &str| json!({ "path": "big.txt", "content": content(letter) }).to_string();
    let started = Instant::now();
    bench.run_with(&["call", "write", "-"], arguments("a")).done();
    let whole = started.elapsed() + Duration::from_millis(20);

    let (mut kept, mut replaced) = (0, 0);
    for round in 0..ROUNDS {
        let (old, new) = if bench.text("big.txt").starts_with('a') { ("a", "b") } else { ("b", "a") };
        let input = arguments(new);
        let mut child = bench
            .command(&["call", "write", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
            // Where in the call this lands is not asserted; over the rounds it is everywhere.
            thread::sleep(whole * round / ROUNDS);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        match bench.text("big.txt") {
            text if text == content(old) => kept += 1,
            text if text == content(new) => replaced += 1,
            text => panic!("round {round}: half a file of {} bytes", text.len()),
        }
    }
    eprintln!("killed {ROUNDS} writers: {kept} times the old file, {replaced} times the new one");
    bench.run(&["audit", "verify"]);

    // What a killed writer left beside the file is not taken for a file by anybody, and the file still works.
    let text = bench.text("big.txt");
    let other = if text.starts_with('a') { "b" } else { "a" };
    bench.run_with(&["call", "write", "-"], arguments(other)).done();
    assert_eq!(bench.text("big.txt"), content(other));
    let left = leftovers(&bench.workspace());
    assert_eq!(left, Vec::<PathBuf>::new(), "the next write in a directory clears what a killed one left");
}

// ---- helpers ----

/// What a writer puts beside a file before it renames it.
fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(leftovers(&path));
        } else if path.file_name().unwrap().to_string_lossy().starts_with(".toolgate-") {
            found.push(path);
        }
    }
    found
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
