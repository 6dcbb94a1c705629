//! Ways out of the workspace, tried one by one. Everything outside is a canary made for the test.

#![expect(clippy::disallowed_methods, reason = "the tests set the scene from outside")]
#![expect(clippy::disallowed_types, reason = "a socket is one of the things that must not be read")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use jiff::Timestamp;
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{Fault, FaultKind, Files};
use toolgate_tools::{Clock, Cx, Hands, Output, Protected, StopFlag, TOOLS, Tool, Workspace};

const CANARY: &str = "the canary sings";
const ROUNDS: u32 = 2_000;

struct Cage {
    dir: TempDir,
    workspace: Workspace,
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Cage {
    fn new() -> Self {
        Self::protecting(|_| Protected::default())
    }

    /// A workspace with a canary beside it, and a directory with one more.
    fn protecting(protected: impl Fn(&Path) -> Protected) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("ws");
        fs::create_dir(&inside).unwrap();
        fs::create_dir(dir.path().join("beyond")).unwrap();
        fs::create_dir(dir.path().join("ws-not")).unwrap();
        for canary in ["canary", "beyond/canary", "ws-not/canary"] {
            fs::write(dir.path().join(canary), CANARY).unwrap();
        }
        let workspace = Workspace::open(&inside, protected(&inside)).unwrap();
        Self { dir, workspace }
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.dir.path().join("ws").join(path)
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, content: &str) {
        fs::create_dir_all(self.inside(path).parent().unwrap()).unwrap();
        fs::write(self.inside(path), content).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        symlink(target, self.inside(path)).unwrap();
    }

    fn call(&self, name: &str, arguments: Value) -> Result<Output, Fault> {
        let tool = tool(name);
        let cx = Cx::new(Hands {
            finder: None,
            own_calls: None,
            programs: None,
            web: None,
            workspace: Some(self.workspace.with_access(tool.def.needs.files)),
            clock: Arc::new(NoClock),
            progress: None,
            remarks: None,
            stop: StopFlag::default(),
            timeout: Duration::from_secs(30),
            caps: tool.def.caps,
            inquiries: toolgate_tools::Inquiries::default(),
            key: None,
        });
        tool.work.here().unwrap()(&cx, arguments)
    }

    /// Every tool must refuse this path with this code, and nothing outside may change.
    fn check(&self, path: &str, code: &str) {
        self.check_tools(path, code, |_| true);
    }

    fn check_writers(&self, path: &str, code: &str) {
        self.check_tools(path, code, |tool| tool.def.needs.files == Files::Write);
    }

    fn check_tools(&self, path: &str, code: &str, which: impl Fn(&Tool) -> bool) {
        let before = self.surroundings();
        for (name, arguments) in calls(path).into_iter().filter(|(name, _)| which(&tool(name))) {
            match self.call(name, arguments) {
                Err(fault) => assert_eq!((fault.kind, &*fault.code), (FaultKind::Refused, code), "{name} {path:?}"),
                Ok(output) => panic!("{name} {path:?} works: {}", output.text),
            }
        }
        assert_eq!(self.surroundings(), before, "{path:?} changes what is outside");
    }

    /// Everything beside the workspace: names, content and inodes.
    fn surroundings(&self) -> Vec<(PathBuf, u64, Vec<u8>)> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if path == self.inside("").components().collect::<PathBuf>() {
                    continue;
                }
                if meta.is_dir() {
                    dirs.push(path.clone());
                }
                let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                found.push((path, meta.ino(), content));
            }
        }
        found.sort();
        found
    }
}

fn tool(name: &str) -> Tool {
    TOOLS.iter().map(|tool| tool()).find(|tool| tool.def.name == name).unwrap()
}

/// A call of every file tool with this path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "path": path })),
        ("ls", json!({ "path": path })),
        ("find", json!({ "path": path, "pattern": "*" })),
        ("grep", json!({ "path": path, "pattern": "." })),
        ("write", json!({ "path": path, "content": "x" })),
        ("write", json!({ "path": path, "content": "x", "create_dirs": true })),
        ("edit", json!({ "path": path, "edits": [{ "old": "canary", "new": "x" }] })),
        ("delete", json!({ "path": path })),
    ]
}

const OUTSIDE: &str = "path_outside_workspace";

#[test]
fn by_its_spelling() {
    let cage = Cage::new();
    cage.file("d/x", "");
    let absolute = cage.outside("canary").display().to_string();
    for path in [
        "..",
        "../canary",
        "./../canary",
        "d/../../canary",
        "d/../../ws/../canary",
        "/",
        "/etc/hostname",
        &absolute,
        &format!("/{absolute}"),
        &cage.inside("../canary").display().to_string(),
        &cage.outside("ws-not/canary").display().to_string(),
        "../ws-not/canary",
        "/proc/self/root/etc/hostname",
        "/proc/self/cwd/x",
        "/dev/null",
        "\\canary",
        "\\\\server\\share",
        "C:\\canary",
        "c:/canary",
    ] {
        cage.check(path, OUTSIDE);
    }
}

#[test]
fn by_a_link_to_a_file() {
    let cage = Cage::new();
    cage.link("relative", "../canary");
    cage.link("absolute", cage.outside("canary"));
    cage.check("relative", OUTSIDE);
    cage.check("absolute", OUTSIDE);
}

#[test]
fn by_a_link_to_a_directory() {
    let cage = Cage::new();
    fs::create_dir(cage.inside("d")).unwrap();
    cage.link("relative", "../beyond");
    cage.link("absolute", cage.outside("beyond"));
    cage.link("crooked", "d/../../beyond");
    cage.link("up", "..");
    for link in ["relative", "absolute", "crooked", "up"] {
        for leaf in ["canary", "beyond/canary", "new", "new/deep"] {
            cage.check(&format!("{link}/{leaf}"), OUTSIDE);
        }
        cage.check(link, OUTSIDE);
    }
}

#[test]
fn by_two_dots_behind_a_link() {
    let cage = Cage::new();
    fs::create_dir_all(cage.inside("a/b")).unwrap();
    cage.link("l", "a/b");
    // By spelling this stays inside; by where the link leads it does as well, but one step further it does not.
    cage.file("a/x", "inside");
    assert_eq!(cage.call("read", json!({ "path": "l/../x" })).unwrap().structured["path"], "a/x");
    cage.link("top", ".");
    cage.check("top/../canary", OUTSIDE);
    cage.check("a/../top/../canary", OUTSIDE);
}

#[test]
fn by_a_chain_and_in_a_loop() {
    let cage = Cage::new();
    cage.link("one", "two");
    cage.link("two", "three");
    cage.link("three", "../beyond");
    cage.check("one/canary", OUTSIDE);
    cage.check("one", OUTSIDE);
    cage.link("left", "right");
    cage.link("right", "left");
    cage.check("left", OUTSIDE);
    cage.check("left/x", OUTSIDE);
}

#[test]
fn by_a_link_to_what_is_not_there() {
    let cage = Cage::new();
    cage.link("relative", "../new");
    cage.link("absolute", cage.outside("new"));
    cage.link("inner", "nothing");
    cage.check("relative", OUTSIDE);
    cage.check("absolute", OUTSIDE);
    cage.check_writers("inner", "path_is_a_link");
    assert!(!cage.inside("nothing").exists());
}

#[test]
fn by_magic_links() {
    let cage = Cage::new();
    cage.link("root", "/proc/self/root");
    cage.link("cwd", "/proc/self/cwd");
    cage.link("fd", "/proc/self/fd");
    for path in ["root", "root/etc/hostname", "cwd", "cwd/x", "fd", "fd/0"] {
        cage.check(path, OUTSIDE);
    }
    // Where the process's own directory is inside, its magic links are still not followed.
    let proc = Workspace::open(Path::new("/proc"), Protected::default()).unwrap();
    let cage = Cage { workspace: proc, ..cage };
    let inside = format!("{}/root/etc/hostname", std::process::id());
    for path in ["self/root/etc/hostname", "self/cwd", &inside] {
        assert_eq!(cage.call("read", json!({ "path": path })).unwrap_err().code, OUTSIDE, "{path}");
    }
}

#[test]
fn by_a_hard_link_to_a_file_outside() {
    let cage = Cage::new();
    fs::hard_link(cage.outside("canary"), cage.inside("hard")).unwrap();
    let before = cage.surroundings();
    let edit = json!({ "path": "hard", "edits": [{ "old": "sings", "new": "is silent" }] });
    cage.call("edit", edit).unwrap();
    assert_eq!(fs::read_to_string(cage.inside("hard")).unwrap(), "the canary is silent");
    fs::remove_file(cage.inside("hard")).unwrap();
    fs::hard_link(cage.outside("canary"), cage.inside("hard")).unwrap();
    cage.call("write", json!({ "path": "hard", "content": "x" })).unwrap();
    fs::remove_file(cage.inside("hard")).unwrap();
    fs::hard_link(cage.outside("canary"), cage.inside("hard")).unwrap();
    cage.call("delete", json!({ "path": "hard" })).unwrap();
    assert_eq!(cage.surroundings(), before);
}

#[test]
fn pipes_sockets_and_devices_are_not_files() {
    let cage = Cage::new();
    let make = |name: &str, kind, device| {
        rustix::fs::mknodat(CWD, cage.inside(name), kind, Mode::from_raw_mode(0o600), device)
    };
    make("pipe", FileType::Fifo, 0).unwrap();
    let _socket = UnixListener::bind(cage.inside("socket")).unwrap();
    let mut names = vec!["pipe", "socket"];
    match make("zero", FileType::CharacterDevice, rustix::fs::makedev(1, 5)) {
        Ok(()) => names.push("zero"),
        Err(error) => eprintln!("SKIPPED: no device node can be made here: {error}"),
    }
    for name in &names {
        cage.check(name, "not_a_regular_file");
        assert!(!fs::symlink_metadata(cage.inside(name)).unwrap().file_type().is_file());
    }
    assert!(fs::symlink_metadata(cage.inside("pipe")).unwrap().file_type().is_fifo());
    for device in ["/dev/null", "/dev/zero", "/dev/stdin"] {
        let name = device.replace('/', "_");
        cage.link(&name, device);
        cage.check(&name, OUTSIDE);
    }
    let found = cage.call("grep", json!({ "pattern": "" })).unwrap().structured;
    assert_eq!((&found["files_searched"], &found["unreadable"]), (&json!(0), &json!(0)));
    let listed = cage.call("ls", json!({ "pattern": "{pipe,socket}" })).unwrap().structured;
    assert_eq!((&listed["entries"][0]["type"], &listed["entries"][1]["type"]), (&json!("other"), &json!("other")));
}

#[test]
fn names_no_file_can_have() {
    let cage = Cage::new();
    for path in ["", "a\0b", "\0", &"x".repeat(256), &"d/".repeat(2_049)] {
        cage.check(path, "bad_path");
    }
    // The kernel counts the end of a path as well.
    let longest = "d/".repeat(2_048);
    assert_eq!(cage.call("read", json!({ "path": longest })).unwrap_err().code, "bad_path");
}

#[test]
fn names_that_are_strange_but_legal_work() {
    let cage = Cage::new();
    let long = "n".repeat(255);
    for name in [
        "..foo",
        "...",
        "-rf",
        "~",
        "$HOME",
        "%2e%2e",
        "a\nb",
        "name with spaces",
        "日本/é",
        "d//x",
        "./y",
        "a:b",
        &long,
    ] {
        let write = json!({ "path": name, "content": name, "create_dirs": true });
        cage.call("write", write).unwrap_or_else(|fault| panic!("{name:?}: {fault}"));
        let read = cage.call("read", json!({ "path": name })).unwrap().structured;
        let shown: PathBuf = Path::new(name).components().filter(|part| part.as_os_str() != ".").collect();
        assert_eq!((&read["text"], &read["path"]), (&json!(name), &json!(shown)), "{name:?}");
        cage.call("delete", json!({ "path": name })).unwrap();
    }
}

#[test]
fn names_that_are_no_text_are_listed_searched_and_harm_nobody() {
    let cage = Cage::new();
    fs::create_dir(cage.inside("d")).unwrap();
    for name in [b"d/\xff\xfe".as_slice(), b"d/\n\x1b[2J"] {
        fs::write(cage.dir.path().join("ws").join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let listed = cage.call("ls", json!({ "path": "d" })).unwrap();
    assert_eq!(listed.structured["entries"][1]["name"], "\\xff\\xfe");
    assert_eq!(listed.text.lines().count(), 2);
    assert!(!listed.text.contains('\u{1b}'));
    for (tool, arguments) in [("find", json!({ "pattern": "*" })), ("grep", json!({ "pattern": "x" }))] {
        let output = cage.call(tool, arguments).unwrap();
        assert_eq!((&output.structured["total"], output.text.lines().count()), (&json!(2), 2), "{tool}");
    }
}

#[test]
fn the_files_of_git_are_read_and_never_written() {
    let cage = Cage::new();
    cage.file(".git/config", "[core] canary");
    cage.file("sub/.GIT/config", "[core] canary");
    cage.file("tree/.git", "gitdir: canary");
    fs::create_dir(cage.inside(".git/hooks")).unwrap();
    cage.link("innocent", ".git");
    cage.link("hooks", ".git/hooks");
    cage.link("config", ".git/config");
    for path in [
        ".git",
        ".git/config",
        ".git/new",
        ".Git/config",
        ".gIT/hooks/post-commit",
        "./.git//config",
        "sub/.GIT/config",
        "sub/../.git/config",
        "tree/.git",
        "innocent/config",
        "innocent/new",
        "hooks/post-commit",
        "new/.git/config",
        "new/.git",
        &cage.inside(".git/config").display().to_string(),
    ] {
        cage.check_writers(path, "protected_path");
    }
    cage.check_writers("config", "path_is_a_link");
    let deep = json!({ "path": "hooks/deep/new", "content": "", "create_dirs": true });
    assert_eq!(cage.call("write", deep).unwrap_err().code, "protected_path");
    assert!(!cage.inside("new").exists() && !cage.inside(".git/hooks/deep").exists());
    assert_eq!(cage.call("read", json!({ "path": "innocent/config" })).unwrap().structured["text"], "[core] canary");
    for path in [".gitignore", ".github/x", "git/x", "x.git"] {
        cage.call("write", json!({ "path": path, "content": "", "create_dirs": true })).unwrap();
    }
}

#[test]
fn protected_names_are_read_and_never_written() {
    let cage = Cage::protecting(|inside| Protected {
        names: vec!["toolgate.yaml".into(), "conf/own".into(), inside.join("abs/x").display().to_string()],
        hidden: Vec::new(),
    });
    for path in ["toolgate.yaml", "conf/own/x", "abs/x"] {
        cage.file(path, "canary");
    }
    fs::create_dir(cage.inside("d")).unwrap();
    cage.link("door", "conf/own");
    for path in [
        "toolgate.yaml",
        "./toolgate.yaml",
        "ToolGate.YAML",
        "d/../toolgate.yaml",
        "conf/own/x",
        "conf/OWN/x",
        "conf/own/new/x",
        "door/x",
        "door/new",
        "abs/x",
        "toolgate.yaml/x",
    ] {
        cage.check_writers(path, "protected_path");
    }
    let deep = json!({ "path": "door/deep/new", "content": "", "create_dirs": true });
    assert_eq!(cage.call("write", deep).unwrap_err().code, "protected_path");
    assert!(!cage.inside("conf/own/deep").exists());
    assert_eq!(cage.call("read", json!({ "path": "toolgate.yaml" })).unwrap().structured["text"], "canary");
    // Elsewhere it is a name like any other.
    cage.call("write", json!({ "path": "d/toolgate.yaml", "content": "" })).unwrap();
    cage.call("write", json!({ "path": "conf/owner", "content": "" })).unwrap();
}

#[test]
fn a_hidden_directory_does_not_exist_for_tools() {
    let cage = Cage::protecting(|inside| {
        fs::create_dir_all(inside.join(".data/deep")).unwrap();
        fs::write(inside.join(".data/deep/key"), CANARY).unwrap();
        fs::write(inside.join("one.key"), CANARY).unwrap();
        symlink(".data", inside.join("spelling")).unwrap();
        Protected { names: Vec::new(), hidden: vec![inside.join("spelling"), inside.join("one.key")] }
    });
    cage.link("door", ".data/deep");
    cage.link("keyhole", "one.key");
    cage.file("seen", "x");
    for path in [".data/deep/key", ".data/deep", ".data", "spelling/deep/key", "door/key", "./seen/../.data", "one.key"]
    {
        for (name, arguments) in calls(path) {
            let Err(fault) = cage.call(name, arguments) else { panic!("{name} {path}") };
            let known = ["protected_path", "not_a_directory", "path_is_a_link", "is_a_directory"];
            assert!(known.contains(&&*fault.code) && !fault.message.contains(CANARY), "{name} {path}: {fault}");
        }
    }
    for path in [".data/deep/key", "spelling/deep/key", "door/key", "one.key", "keyhole"] {
        assert_eq!(cage.call("read", json!({ "path": path })).unwrap_err().code, "protected_path", "{path}");
    }
    cage.check_writers(".data/new", "protected_path");
    cage.check_writers("door/new", "protected_path");
    assert_eq!(cage.call("ls", json!({ "pattern": "{.data,one.key,seen}" })).unwrap().structured["total"], 1);
    let found = cage.call("find", json!({ "pattern": "*", "include_ignored": true })).unwrap().structured;
    assert_eq!(found["paths"], json!(["door", "keyhole", "seen"]));
    assert_eq!(cage.call("grep", json!({ "pattern": "." })).unwrap().structured["files_searched"], 1);
    assert_eq!(fs::read_to_string(cage.inside(".data/deep/key")).unwrap(), CANARY);
    assert_eq!(fs::read_to_string(cage.inside("one.key")).unwrap(), CANARY);
}

#[test]
fn a_workspace_in_a_hidden_directory_is_not_opened() {
    let cage = Cage::new();
    let protected = Protected { names: Vec::new(), hidden: vec![cage.dir.path().to_owned()] };
    let fault = Workspace::open(&cage.inside(""), protected).unwrap_err();
    assert_eq!((fault.kind, &*fault.code), (FaultKind::Refused, "protected_path"));
    let fault = Workspace::open(&cage.outside("none"), Protected::default()).unwrap_err();
    assert_eq!((fault.kind, &*fault.code), (FaultKind::Failed, "not_found"));
}

#[test]
fn what_the_system_denies_is_told_as_such() {
    let cage = Cage::new();
    cage.file("d/x", "canary");
    cage.file("f", "canary");
    for path in ["d", "f"] {
        fs::set_permissions(cage.inside(path), fs::Permissions::from_mode(0o000)).unwrap();
    }
    if fs::read(cage.inside("f")).is_ok() {
        eprintln!("SKIPPED: permissions mean nothing to root");
        return;
    }
    for path in ["d/x", "f"] {
        assert_eq!(cage.call("read", json!({ "path": path })).unwrap_err().code, "no_access", "{path}");
    }
    let found = cage.call("grep", json!({ "pattern": "canary" })).unwrap().structured;
    assert_eq!((&found["total"], &found["unreadable"]), (&json!(0), &json!(2)));
    fs::set_permissions(cage.inside("d"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_workspace_that_is_named_through_a_link_takes_both_spellings() {
    let cage = Cage::new();
    cage.file("x", "inside");
    symlink(cage.inside(""), cage.outside("alias")).unwrap();
    let workspace = Workspace::open(&cage.outside("alias"), Protected::default()).unwrap();
    assert_eq!(workspace.root(), cage.inside("").canonicalize().unwrap());
    let cage = Cage { workspace, ..cage };
    for path in [cage.outside("alias/x"), cage.inside("x")] {
        assert_eq!(cage.call("read", json!({ "path": path })).unwrap().structured["path"], "x");
    }
}

/// Lets `disturb` happen all the time on one thread while `act` is done on another.
fn race(disturb: impl Fn() + Sync, mut act: impl FnMut(u32)) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                disturb();
            }
        });
        // However a round fails, the other thread must come to its end.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (0..ROUNDS).for_each(&mut act)));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn exchange(a: &Path, b: &Path) {
    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

/// A directory and a link to the outside that change places all the time.
fn revolving_door() -> Cage {
    let cage = Cage::new();
    cage.file("door/canary", "a decoy");
    cage.link("other", "../beyond");
    cage
}

#[test]
fn through_a_directory_that_is_swapped_for_a_link_while_it_is_read() {
    let cage = revolving_door();
    let (door, other) = (cage.inside("door"), cage.inside("other"));
    let before = cage.surroundings();
    let (decoys, refusals) = (AtomicU32::new(0), AtomicU32::new(0));
    let reads = [
        ("read", json!({ "path": "door/canary" })),
        ("grep", json!({ "pattern": ".", "path": "door" })),
        ("grep", json!({ "pattern": "." })),
        ("find", json!({ "pattern": "*", "path": "door" })),
    ];
    race(
        || exchange(&door, &other),
        |round| {
            let (tool, arguments) = &reads[round as usize % reads.len()];
            match cage.call(tool, arguments.clone()) {
                Ok(output) => {
                    let seen = format!("{}{}", output.text, output.structured);
                    assert!(!seen.contains(CANARY), "{tool} got out: {seen}");
                    decoys.fetch_add(u32::from(seen.contains("decoy")), Ordering::Relaxed);
                }
                Err(fault) => {
                    assert_eq!(&*fault.code, OUTSIDE, "{tool}");
                    refusals.fetch_add(1, Ordering::Relaxed);
                }
            }
        },
    );
    assert!(decoys.into_inner() > 0 && refusals.into_inner() > 0, "the race was never on");
    assert_eq!(cage.surroundings(), before);
}

#[test]
fn through_a_directory_that_is_swapped_for_a_link_while_it_is_written() {
    let cage = revolving_door();
    let (door, other) = (cage.inside("door"), cage.inside("other"));
    let before = cage.surroundings();
    let (written, refusals) = (AtomicU32::new(0), AtomicU32::new(0));
    let writes = [
        ("write", json!({ "path": "door/new", "content": "x" })),
        ("write", json!({ "path": "door/deep/new", "content": "x", "create_dirs": true })),
        ("edit", json!({ "path": "door/canary", "edits": [{ "old": "a", "new": "a", "replace_all": true }] })),
        ("delete", json!({ "path": "door/new" })),
    ];
    race(
        || exchange(&door, &other),
        |round| {
            let (tool, arguments) = &writes[round as usize % writes.len()];
            match cage.call(tool, arguments.clone()) {
                Ok(_) => written.fetch_add(1, Ordering::Relaxed),
                Err(fault) => {
                    assert!([OUTSIDE, "not_found"].contains(&&*fault.code), "{tool}: {fault}");
                    refusals.fetch_add(1, Ordering::Relaxed)
                }
            };
        },
    );
    assert!(written.into_inner() > 0 && refusals.into_inner() > 0, "the race was never on");
    assert_eq!(cage.surroundings(), before);
}

#[test]
fn through_a_file_that_is_swapped_for_a_link() {
    let cage = Cage::new();
    cage.file("file", "a decoy");
    cage.link("other", "../canary");
    let (file, other) = (cage.inside("file"), cage.inside("other"));
    let before = cage.surroundings();
    race(
        || exchange(&file, &other),
        |round| {
            let output = match round % 4 {
                0 => cage.call("read", json!({ "path": "file" })),
                1 => cage.call("grep", json!({ "pattern": "." })),
                2 => cage.call("edit", json!({ "path": "file", "edits": [{ "old": "a decoy", "new": "a decoy" }] })),
                _ => cage.call("read", json!({ "path": "other" })),
            };
            if let Ok(output) = output {
                let seen = format!("{}{}", output.text, output.structured);
                assert!(!seen.contains(CANARY), "{seen}");
            }
        },
    );
    assert_eq!(cage.surroundings(), before);
}

#[test]
fn through_a_directory_that_is_moved_out_while_a_path_goes_back_through_it() {
    let cage = Cage::new();
    cage.file("a/b/x", "a decoy");
    cage.file("x", "a decoy");
    let (inside, outside) = (cage.inside("a/b"), cage.outside("beyond/b"));
    fs::write(cage.outside("x"), CANARY).unwrap();
    let out = AtomicBool::new(false);
    let swap = || {
        let (from, to) = if out.fetch_xor(true, Ordering::Relaxed) { (&outside, &inside) } else { (&inside, &outside) };
        fs::rename(from, to).unwrap();
    };
    let decoys = AtomicU32::new(0);
    race(swap, |_| {
        if let Ok(output) = cage.call("read", json!({ "path": "a/b/../../x" })) {
            assert!(!output.text.contains(CANARY), "{}", output.text);
            decoys.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(decoys.into_inner() > 0, "the race was never on");
}
