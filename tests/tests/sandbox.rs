//! Rooms from the command line: `toolgate sandbox run`, `list` and `sweep`.
//!
//! Every case runs as whoever started the tests, and once more as an ordinary user where that is root.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, bin, skipped};

/// Nobody's on any machine we know.
const USER: u32 = 4242;
/// What must not be seen in any room.
const SECRET: &str = "canary-5c1d70 sings outside";

/// A bench and whoever works at it.
struct Desk {
    bench: Bench,
    program: PathBuf,
    user: Option<u32>,
}

impl Desk {
    /// At home in a place where rooms can be made.
    fn at(user: Option<u32>) -> Option<Self> {
        if user.is_some() && !geteuid().is_root() {
            // Whoever is not root cannot become somebody else, and is an ordinary user already.
            return None;
        }
        let bench = Bench::new();
        fs::write(bench.outside().join("canary"), SECRET).unwrap();
        let mut program = bin();
        if let Some(user) = user {
            program = bench.outside().join("toolgate");
            fs::copy(bin(), &program).unwrap();
            for path in [bench.outside().to_owned(), bench.workspace(), bench.home(), bench.outside().join("canary")] {
                chown(path, Some(user), Some(user)).unwrap();
            }
        }
        let desk = Self { bench, program, user };
        let ran = desk.run(&["--json", "--", "true"]);
        if ran.status == 125 {
            skipped(format!("this machine has no rooms: {}", ran.stderr));
            return None;
        }
        ran.exits(0);
        Some(desk)
    }

    /// The binary, as its user.
    fn toolgate(&self, args: &[&str]) -> Command {
        let usual = self.bench.command(args);
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.workspace()).env_clear().stdin(Stdio::null());
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// `toolgate sandbox run`.
    fn command(&self, args: &[&str]) -> Command {
        self.toolgate(&[&["sandbox", "run"], args].concat())
    }

    /// `toolgate sandbox run`, to its end.
    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// `toolgate sandbox run -- sh -c SCRIPT`, to its end.
    fn script(&self, script: &str) -> Ran {
        self.run(&["--", "sh", "-c", script])
    }

    /// What a listing says.
    fn listing(&self, args: &[&str]) -> Value {
        Ran::of(&mut self.toolgate(args)).exits(0).json()
    }

    fn workspace(&self) -> PathBuf {
        self.bench.workspace()
    }

    /// Puts a file into the workspace, as the user's.
    fn put(&self, path: &str, text: &str) {
        self.bench.put(path, text);
        for at in Path::new(path).ancestors().filter(|at| !at.as_os_str().is_empty()) {
            chown(self.workspace().join(at), self.user, self.user).unwrap();
        }
    }

    /// Everything in the workspace by path, with what files hold.
    fn tree(&self) -> Vec<String> {
        tree(&self.workspace())
    }

    /// A command that runs until it is ended, and a word by which its processes are found.
    fn start(&self, args: &[&str]) -> Running<'_> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let marker = format!("{}{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let sleep = format!("sleep {marker}");
        let mut child = self.command(&[args, &["--", "sh", "-c", &format!("echo up; {sleep}; {sleep}")]].concat());
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut word = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        assert_eq!(&word, b"up\n");
        Running { child, marker, desk: self }
    }
}

/// A command that is in its room.
struct Running<'a> {
    child: Child,
    marker: String,
    desk: &'a Desk,
}

impl Running<'_> {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process that made the room: the only child.
    fn zygote(&self) -> Pid {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let all: Vec<String> = tasks
            .map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap())
            .chain([children])
            .collect();
        let pid = all.iter().flat_map(|line| line.split_ascii_whitespace()).next().unwrap().parse().unwrap();
        Pid::from_raw(pid).unwrap()
    }

    /// Its processes that are there, toolgate itself not counted.
    fn processes(&self) -> Vec<String> {
        processes_with(&self.marker).into_iter().filter(|pid| *pid != self.child.id().to_string()).collect()
    }

    /// Ends toolgate without a word.
    fn kill(&mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }

    /// How toolgate ends by itself.
    fn ended(mut self) -> Ran {
        let status = wait(&mut self.child);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Ran { status, stdout, stderr }
    }

    /// Nothing of it is left: no process, no note, no directory, no control group, nothing in the workspace.
    fn assert_gone(&self) {
        let gone = || self.processes().is_empty() && self.desk.notes() == 0;
        assert!(eventually(gone), "left: {:?}, {} notes", self.processes(), self.desk.notes());
        assert_eq!(self.desk.tree(), [""; 0], "left in the workspace");
        assert_eq!(self.desk.cgroups(), [""; 0], "control groups");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let outside = self.desk.bench.outside().to_str().unwrap();
        assert!(!mounts.contains(outside), "mounts: {mounts}");
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Desk {
    /// Instances that are noted.
    fn notes(&self) -> usize {
        let entries = fs::read_dir(self.bench.data().join("rooms"));
        entries.map_or(0, |entries| entries.flatten().filter(|entry| entry.path().is_dir()).count())
    }

    /// Groups of this deployment that hold a job. The group of the deployment itself stays.
    fn cgroups(&self) -> Vec<String> {
        let Ok(id) = fs::read(self.bench.data().join("deployment")) else { return Vec::new() };
        use sha2::Digest;
        let hash = sha2::Sha256::digest(&id);
        let label: String =
            hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(12).collect();
        let mut found = Vec::new();
        let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if path.to_str().is_some_and(|text| text.contains(&label)) && has_members(&path) {
                        found.push(path.display().to_string());
                    }
                    left.push(path);
                }
            }
        }
        found
    }
}

fn has_members(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|procs| !procs.trim().is_empty())
}

/// Runs each case twice.
macro_rules! for_each_user {
    ($($(#[$meta:meta])* fn $name:ident($desk:ident) $body:block)*) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;

            fn case($desk: &Desk) $body

            #[test]
            fn as_started() {
                if let Some(desk) = Desk::at(None) {
                    case(&desk);
                }
            }

            #[test]
            fn as_an_ordinary_user() {
                if let Some(desk) = Desk::at(Some(USER)) {
                    case(&desk);
                }
            }
        }
    )*};
}

for_each_user! {
    fn streams_are_passed_through(desk) {
        let ran = Ran::fed(&mut desk.command(&["--", "sh", "-c", "cat; echo to err >&2"]), b"from stdin\n");
        assert_eq!(ran, Ran { status: 0, stdout: "from stdin\n".into(), stderr: "to err\n".into() });
        // Every byte, and more of them than any pipe holds.
        let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        let mut child =
            desk.command(&["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = thread::scope(|scope| {
            scope.spawn(|| std::io::Write::write_all(&mut stdin, &bytes).map(|()| drop(stdin)));
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success() && output.stdout == bytes, "{} bytes came back", output.stdout.len());
    }

    fn output_comes_while_the_command_runs(desk) {
        // `start` reads the first line of a command that does not end.
        let running = desk.start(&[]);
        assert!(!running.processes().is_empty());
    }

    fn the_status_is_the_commands(desk) {
        for (script, status) in [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
            assert_eq!(desk.script(script), Ran { status, stdout: String::new(), stderr: String::new() }, "{script}");
        }
        let missing = desk.run(&["--", "no-such-program"]).exits(127);
        assert!(missing.stderr.contains("no-such-program") && missing.stderr.contains("help: "), "{missing}");
        desk.put("script", "echo no interpreter is named");
        let shut = desk.run(&["--", "./script"]).exits(126);
        assert!(shut.stderr.contains("chmod +x"), "{shut}");
        fs::set_permissions(desk.workspace().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
        desk.run(&["--", "./script"]).exits(126);
        desk.put("script", "#!/no/such/interpreter\n");
        desk.run(&["--", "./script"]).exits(126);
        desk.put("script", "#!/bin/sh\necho $1\n");
        assert_eq!(desk.run(&["--", "./script", "--json"]).exits(0).stdout, "--json\n");
    }

    fn words_reach_the_command_as_they_are(desk) {
        let words = ["a b", "$HOME", "*", "", "--net", "'\"", "é\n"];
        let ran = desk.run(&[&["printf", "<%s>"], &words[..]].concat()).exits(0);
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(ran.stdout, expected);
    }

    fn time_that_is_up_ends_it(desk) {
        let ran = desk.run(&["--timeout", "1", "--", "sh", "-c", "trap '' TERM; echo up; sleep 60 & wait; sleep 60"]).exits(124);
        assert_eq!(ran.stdout, "up\n");
        assert!(ran.stderr.contains("its time was up after 1 s"), "{ran}");
    }

    fn limits_end_it_and_say_what_gives_more(desk) {
        let cases: [(&[&str], &str, i32, &str); 4] = [
            (&["--memory", "64m"], "tail /dev/zero", 137, "`--memory`"),
            (&["--pids", "24"], "for i in $(seq 200); do sleep 30 & done; wait", 137, "`--pids`"),
            (&["--cpu", "1"], "while :; do :; done", 152, "`--cpu`"),
            (&["--disk", "1m"], "i=0; while :; do i=$((i+1)); printf %0900000d 0 > f$i; done", 153, "`--disk`"),
        ];
        for (flags, script, status, told) in cases {
            let ran = desk.run(&[flags, &["--timeout", "60", "--", "bash", "-c", script]].concat());
            if flags[0] == "--pids" && ran.stderr.contains("fork") {
                // Where no control group counts them, the kernel refuses the next one, and the shell says so.
                continue;
            }
            let ran = ran.exits(status);
            assert!(ran.stderr.lines().last().unwrap().contains(told), "{ran}");
        }
    }

    fn a_signal_ends_it(desk) {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let running = desk.start(&[]);
            kill_process(running.pid(), signal).unwrap();
            let marker = running.marker.clone();
            running.ended().exits(status);
            assert_eq!(processes_with(&marker), [""; 0]);
        }
        assert!(eventually(|| desk.notes() == 0));
    }

    fn a_reader_that_leaves_ends_it(desk) {
        let mut child = desk.command(&["--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        assert_eq!(wait(&mut child), 141);
    }

    fn a_reader_that_does_not_read_does_not_stop_the_clock(desk) {
        let mut child = desk.command(&["--timeout", "1", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
        let _unread = child.stdout.take();
        assert_eq!(wait(&mut child), 124);
    }

    fn the_environment_is_built_from_empty(desk) {
        let mut command = desk.command(&["--env", "MINE=a=b", "--env", "EMPTY=", "--", "env"]);
        for name in ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD", "LD_LIBRARY_PATH", "FOO"] {
            command.env(name, if name == "LD_LIBRARY_PATH" { "/nowhere" } else { SECRET });
        }
        command.env_remove("LD_PRELOAD");
        let ran = Ran::of(&mut command).exits(0);
        let names: BTreeSet<&str> = ran.stdout.lines().map(|line| line.split('=').next().unwrap()).collect();
        let expected =
            ["EMPTY", "HOME", "LANG", "LOGNAME", "MINE", "PATH", "SHELL", "TERM", "TMPDIR", "USER"].into_iter().collect();
        assert_eq!(names, expected, "{ran}");
        assert!(ran.stdout.contains("MINE=a=b\n") && ran.stdout.contains("HOME=/home/agent\n"), "{ran}");
    }

    fn nothing_outside_is_seen(desk) {
        let outside = desk.bench.outside().display();
        fs::create_dir(desk.bench.home().join(".ssh")).unwrap();
        fs::write(desk.bench.home().join(".ssh/id"), SECRET).unwrap();
        symlink(desk.bench.outside().join("canary"), desk.workspace().join("door")).unwrap();
        let script = format!(
            "cat {outside}/canary ../canary door {outside}/home/.ssh/id {outside}/data/deployment /etc/shadow /root/.bashrc \
             /proc/1/environ; ls -A {outside} /home; id -u; ls /proc | grep -c '^[0-9]'; echo x > {outside}/written; echo x > ../written; true"
        );
        let ran = desk.script(&script).exits(0);
        assert!(!ran.stdout.contains(SECRET) && !ran.stdout.contains("root:"), "{ran}");
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert!(lines.contains(&"workspace") && !lines.contains(&"data") && !lines.contains(&"canary"), "{ran}");
        assert!(!lines.contains(&"0"), "a room's user is never root: {ran}");
        assert!(!desk.bench.outside().join("written").exists());
        // The record stays hidden where it lies inside the workspace, also behind a link.
        let inside = desk.workspace().join("data");
        fs::rename(desk.bench.data(), &inside).unwrap();
        symlink(&inside, desk.bench.data()).unwrap();
        let mut command = desk.command(&["--", "sh", "-c", "ls -A data; echo x > data/deployment"]);
        let ran = Ran::of(&mut command);
        assert!(ran.status != 0 && ran.stdout.is_empty(), "{ran}");
        assert_eq!(fs::read(inside.join("deployment")).unwrap().len(), 32);
    }

    fn no_descriptor_of_the_machine_goes_in(desk) {
        // A directory on standard input would be a door.
        let mut command = desk.command(&["--", "sh", "-c", "readlink /proc/self/fd/0; ls -A /proc/self/fd/0/; ls /proc/self/fd | wc -l"]);
        command.stdin(fs::File::open("/").unwrap());
        let ran = Ran::of(&mut command);
        assert!(ran.stdout.starts_with("pipe:"), "{ran}");
        assert!(!ran.stdout.contains("etc"), "{ran}");
    }

    fn the_workspace_is_the_current_directory_or_the_one_that_is_named(desk) {
        desk.put("sub/a", "hello\n");
        let ran = desk.script("cat sub/a; echo new > sub/b").exits(0);
        assert_eq!(ran.stdout, "hello\n");
        let made = fs::metadata(desk.workspace().join("sub/b")).unwrap();
        assert_eq!(made.uid(), desk.user.unwrap_or(geteuid().as_raw()), "what is made belongs to whom the workspace belongs to");
        // Read-only, by any spelling, from a directory inside it.
        let dir = format!("{}:ro", desk.workspace().display());
        for (given, at) in [(".:ro", "."), (dir.as_str(), "sub"), ("sub:ro", ".")] {
            let mut command = desk.command(&["--workspace", given, "--", "sh", "-c", "pwd; echo x > made"]);
            let ran = Ran::of(command.current_dir(desk.workspace().join(at)));
            assert!(ran.status != 0 && ran.stdout.contains(desk.workspace().to_str().unwrap()), "{ran}");
            assert!(given == ".:ro" || ran.stdout.ends_with("/sub\n"), "{ran}");
        }
        assert_eq!(desk.tree(), ["sub/", "sub/a=hello\n", "sub/b=new\n"]);
        // Others are seen only if they are named.
        let tools = desk.bench.outside().join("tools");
        fs::create_dir(&tools).unwrap();
        fs::write(tools.join("x"), "seen").unwrap();
        let file = tools.join("x").display().to_string();
        assert_ne!(desk.run(&["--", "cat", &file]).status, 0);
        let ran = desk.run(&["--visible", tools.to_str().unwrap(), "--", "sh", "-c", &format!("cat {file}; echo x >> {file}")]);
        assert!(ran.stdout == "seen" && ran.status != 0 && fs::read(&file).unwrap() == b"seen", "{ran}");
    }

    fn a_home_is_no_workspace_unless_it_is_named(desk) {
        fs::write(desk.bench.home().join("key"), SECRET).unwrap();
        for dir in [desk.bench.home(), desk.bench.outside().to_owned(), "/".into()] {
            let mut command = desk.command(&["--", "sh", "-c", "pwd; ls -A"]);
            let ran = Ran::of(command.current_dir(&dir)).exits(0);
            assert_eq!(ran.stdout, "/home/agent\n");
            assert!(ran.stderr.contains("home directory") && ran.stderr.contains("--workspace"), "{ran}");
        }
        // A directory of the system's is none either, and says so.
        let ran = Ran::of(desk.command(&["--", "pwd"]).current_dir("/usr")).exits(0);
        assert!(ran.stdout == "/home/agent\n" && ran.stderr.contains("cannot be a workspace"), "{ran}");
        let ran = Ran::of(desk.command(&["--workspace", ".", "--", "cat", "key"]).current_dir(desk.bench.home())).exits(0);
        assert_eq!(ran.stdout, SECRET);
        // There what is the user's config cannot be written.
        let write = "mkdir -p .config/toolgate; echo x > .config/toolgate/toolgate.yaml";
        let mut command = desk.command(&["--workspace", ".", "--", "sh", "-c", write]);
        assert_ne!(Ran::of(command.current_dir(desk.bench.home())).status, 0);
        assert_eq!(tree(&desk.bench.home()), [format!("key={SECRET}")]);
    }

    /// F-16, F-18.
    fn what_others_would_execute_is_read_only(desk) {
        desk.put(".git/config", "[core]\n");
        desk.put(".git/HEAD", "ref: refs/heads/main\n");
        let before = desk.tree();
        let attempts = [
            "echo x >> .git/config",
            "rm .git/config",
            "mv .git/config .git/other",
            "mv .git .tig",
            "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
            "echo x > toolgate.yaml",
            "echo x > .mcp.json",
            "mkdir -p .claude && echo x > .claude/settings.json",
            "mkdir -p .claude && echo x > .claude/settings.local.json",
            "mkdir -p .codex && echo x > .codex/config.toml",
            "mkdir -p .cursor && echo x > .cursor/mcp.json",
            "mkdir -p .zed && echo x > .zed/settings.json",
            "mkdir -p .vscode && echo x > .vscode/mcp.json",
            "rm -rf .vscode && ln -s /tmp .vscode",
        ];
        for attempt in attempts {
            let ran = desk.script(attempt);
            assert_ne!(ran.status, 0, "{attempt}: {ran}");
            assert_eq!(desk.tree(), before, "{attempt}");
        }
        // The rest of it is free.
        desk.script("echo ref: refs/heads/other > .git/HEAD").exits(0);
        assert_eq!(desk.bench.text(".git/HEAD"), "ref: refs/heads/other\n");
    }

    fn what_clients_of_a_user_would_start_is_read_only_in_their_home(desk) {
        let home = desk.bench.home();
        let run = |script: &str| desk.run(&["--workspace", home.to_str().unwrap(), "--", "sh", "-c", script]);
        fs::create_dir_all(home.join(".config/toolgate")).unwrap();
        fs::create_dir(home.join(".codex")).unwrap();
        fs::write(home.join(".codex/config.toml"), "ours").unwrap();
        for name in [".config", ".config/toolgate", ".codex", ".codex/config.toml"] {
            chown(home.join(name), desk.user, desk.user).unwrap();
        }
        let before = tree(&home);
        for attempt in [
            "echo x > .claude.json",
            "echo x > .codex/config.toml",
            "mv .codex .was",
            "mkdir -p .config/goose && echo x > .config/goose/config.yaml",
            "mkdir -p .config/zed && echo x > .config/zed/settings.json",
            "mkdir -p .config/Code/User && echo x > .config/Code/User/mcp.json",
        ] {
            assert_ne!(run(attempt).status, 0, "{attempt}");
            assert_eq!(tree(&home), before, "{attempt}");
        }
        run("echo x > notes").exits(0);
        // Elsewhere they are names like any other, and nothing stands in for them.
        let ran = desk.script("ls -A; echo x > .claude.json").exits(0);
        assert!(!ran.stdout.contains(".config"), "{ran}");
    }

    /// A room that ends takes nothing away that protects another.
    fn a_room_that_ends_leaves_the_others_protected(desk) {
        let mut first = desk.start(&[]);
        let mut second = desk.command(&["--", "sh", "-c", "echo up; read go; mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"]);
        let mut second = second.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        second.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        kill_process(first.pid(), Signal::TERM).unwrap();
        wait(&mut first.child);
        drop(second.stdin.take());
        assert_ne!(wait(&mut second), 0);
        assert_eq!(desk.tree(), [""; 0]);
    }

    /// F-34.
    fn an_overlay_shows_what_was_changed_and_discards_it(desk) {
        desk.put("kept", "k");
        desk.put("old", "o");
        desk.put("dir/a", "a");
        let before = desk.tree();
        let script = "echo n > new; echo o2 > old; rm -r dir; mkdir -p deep/er; echo d > deep/er/f; ln -s /etc/passwd way; cat new";
        let ran = desk.run(&["--workspace", ".:overlay", "--", "sh", "-c", script]).exits(0);
        assert_eq!(ran.stdout, "n\n");
        let expected = "toolgate: + deep/\ntoolgate: + deep/er/\ntoolgate: + deep/er/f\ntoolgate: - dir/\ntoolgate: + new\n\
            toolgate: ~ old\ntoolgate: + way\ntoolgate: discarded; `--commit` keeps such changes\n";
        assert_eq!(ran.stderr, expected);
        assert_eq!(desk.tree(), before);
        assert!(eventually(|| desk.notes() == 0));
        // What is in it does not come back.
        let ran = desk.run(&["--workspace", ".:overlay", "--", "ls"]).exits(0);
        assert_eq!(ran.stdout, "dir\nkept\nold\n");
        assert_eq!(ran.stderr, "toolgate: nothing was changed in the workspace\n");
    }

    /// F-35.
    fn an_overlay_is_committed_when_that_was_asked_for_and_it_went_well(desk) {
        desk.put("old", "o");
        desk.put("run.sh", "#!/bin/sh\n");
        desk.put("dir/a", "a");
        desk.put("hidden/x/y", "y");
        let before = desk.tree();
        let overlay = |script: &str| desk.run(&["--workspace", ".:overlay", "--commit", "--", "sh", "-c", script]);
        let failed = overlay("echo n > new; exit 3").exits(3);
        assert!(failed.stderr.ends_with("discarded: the command did not end with status 0\n"), "{failed}");
        assert_eq!(desk.tree(), before);
        let script = "echo n > new; echo o2 > old; rm dir/a; echo b > dir/b; rm -rf hidden; mkdir hidden; echo z > hidden/z; \
            ln -s ../canary way; chmod 700 run.sh; ln old twin; mkdir shut; echo s > shut/s; chmod 555 shut";
        let done = overlay(script).exits(0);
        assert!(done.stderr.contains("toolgate: committed: 11 of 11 changes\n"), "{done}");
        let expected = [
            "dir/",
            "dir/b=b\n",
            "hidden/",
            "hidden/z=z\n",
            "new=n\n",
            "old=o2\n",
            "run.sh=#!/bin/sh\n",
            "shut/",
            "shut/s=s\n",
            "twin=o2\n",
            "way -> ../canary",
        ];
        assert_eq!(desk.tree(), expected);
        let meta = |path: &str| fs::symlink_metadata(desk.workspace().join(path)).unwrap();
        assert_eq!((meta("run.sh").mode() & 0o7777, meta("shut").mode() & 0o7777, meta("twin").nlink()), (0o700, 0o555, 1));
        let owner = desk.user.unwrap_or(geteuid().as_raw());
        assert_eq!([meta("new").uid(), meta("way").uid(), meta("shut").uid(), meta("dir").uid()], [owner; 4]);
        fs::set_permissions(desk.workspace().join("shut"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read_to_string(desk.bench.outside().join("canary")).unwrap(), SECRET);
    }

    fn a_commit_leaves_what_is_protected_and_says_so(desk) {
        desk.put(".git/config", "ours");
        let script = "echo theirs > .git/config; mkdir .git/hooks; echo x > .git/hooks/pre-commit; echo x > toolgate.yaml; \
            ln -s trap .vscode; mkdir trap; echo x > trap/mcp.json; mkfifo pipe; echo fine > fine; chmod u+s fine; true";
        let ran = desk.run(&["--workspace", ".:overlay", "--commit", "--", "sh", "-c", script]).exits(125);
        for name in [".git/config", ".git/hooks", ".git/hooks/pre-commit", "toolgate.yaml", ".vscode", "pipe"] {
            assert!(ran.stderr.contains(&format!("left as it was: {name}: ")), "{name}: {ran}");
        }
        assert_eq!(desk.tree(), [".git/", ".git/config=ours", "fine=fine\n", "trap/", "trap/mcp.json=x\n"]);
        assert_eq!(fs::metadata(desk.workspace().join("fine")).unwrap().mode() & 0o6000, 0);
    }

    /// F-34. The process that holds the overlay is killed.
    fn an_overlay_that_was_left_is_gone(desk) {
        let mut running = desk.start(&["--workspace", ".:overlay"]);
        running.kill();
        running.assert_gone();
    }

    fn json_ends_standard_error_with_one_line(desk) {
        let ran = desk.run(&["--json", "--workspace", ".:overlay", "--", "sh", "-c", "echo said >&2; echo x > made; exit 3"]).exits(3);
        let (said, line) = ran.stderr.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(said, "said");
        let mut told: Value = serde_json::from_str(line).unwrap();
        let (receipt, usage) = (told["receipt"].take(), told["usage"].take());
        let changes = json!({ "list": [{ "path": "made", "change": "added" }], "committed": false, "not_committed": [] });
        let expected = json!({
            "ending": "exited", "exit_code": 3, "error": null, "receipt": null, "usage": null, "refused": [],
            "changes": changes, "notes": [],
        });
        assert_eq!(told, expected);
        assert!(receipt["walls"].as_array().unwrap().iter().any(|wall| wall.as_str().unwrap().starts_with("files:")), "{receipt}");
        assert!(usage["wall_ms"].is_u64(), "{usage}");
        let ran = desk.run(&["--json", "--backend", "deny_all", "--", "true"]).exits(125);
        let told: Value = serde_json::from_str(ran.stderr.trim_end()).unwrap();
        assert_eq!((&told["ending"], &told["exit_code"], &told["error"]["code"]), (&Value::Null, &json!(125), &json!("wall_missing")));
    }

    fn nobody_is_talked_to_but_whom_was_named(desk) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        // Whoever is turned away at a door may see it open first; nothing ever comes through it.
        let connect = |host: &str, port: u16| {
            format!("(exec 3<>/dev/tcp/{host}/{port} && echo hello >&3 && read -n1 -u3) 2>/dev/null && echo reached {host}")
        };
        let script = [
            connect("127.0.0.1", port),
            connect("10.1.2.3", 80),
            connect("169.254.169.254", 80),
            connect("other.invalid", 443),
            "true".into(),
        ]
        .join("; ");
        let closed = desk.run(&["--timeout", "20", "--", "bash", "-c", &script]).exits(0);
        assert_eq!((closed.stdout.as_str(), closed.stderr.as_str()), ("", ""));
        let open = desk.run(&["--timeout", "20", "--net", "example.com:443", "--", "bash", "-c", &script]).exits(0);
        assert_eq!(open.stdout, "");
        for refused in ["refused 10.1.2.3:80: ", "refused 169.254.169.254:80: ", "refused other.invalid"] {
            let line = open.stderr.lines().find(|line| line.contains(refused));
            assert!(line.is_some_and(|line| line.starts_with("toolgate: ") && line.ends_with(')')), "{refused}: {open}");
        }
        // A name that leads to this machine is none that was meant.
        let ran = desk.run(&["--timeout", "20", "--net", &format!("localhost:{port}"), "--", "bash", "-c", &connect("localhost", port)]);
        assert!(ran.status != 0 && ran.stdout.is_empty(), "{ran}");
        assert!(listener.accept().is_err(), "somebody came through");
    }

    fn the_smaller_room_is_used_only_if_its_gaps_are_accepted(desk) {
        let ran = desk.run(&["--tier", "landlock", "--", "true"]).exits(125);
        assert!(ran.stderr.contains("error[wall_missing]") && ran.stderr.contains("help: "), "{ran}");
        let gaps = ["--accept-gap", "protected_names", "--accept-gap", "metadata"];
        let ran = desk.run(&[&["--json", "--tier", "landlock"], &gaps[..], &["--", "true"]].concat());
        if ran.status == 125 {
            return skipped(format!("no room of Landlock alone here: {}", ran.stderr));
        }
        let told: Value = serde_json::from_str(ran.exits(0).stderr.trim_end()).unwrap();
        assert_eq!(told["receipt"]["tier"], "landlock");
        assert!(told["receipt"]["gaps"].as_array().unwrap().contains(&json!("protected_names")), "{told}");
        let outside = desk.bench.outside().join("canary").display().to_string();
        let ran = desk.run(&[&["--tier", "landlock"], &gaps[..], &["--", "cat", &outside]].concat());
        assert!(ran.status != 0 && !ran.stdout.contains(SECRET), "{ran}");
    }

    fn rooms_are_listed_while_they_are_open(desk) {
        assert_eq!(desk.listing(&["sandbox", "list"]), json!([]));
        let running = desk.start(&[]);
        let mut listed = desk.listing(&["sandbox", "list", "--json"]);
        let keeper = listed[0]["keeper_pid"].take();
        assert!(keeper.as_u64().is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists()), "{keeper}");
        for key in ["age_ms", "spec", "id"] {
            assert!(!listed[0][key].take().is_null(), "{key}");
        }
        let expected = json!([{
            "id": null, "owner": "sandbox run sh", "backend": "process", "tier": "namespaces", "age_ms": null,
            "pid": running.child.id(), "keeper_pid": null, "spec": null, "state": "alive",
        }]);
        assert_eq!(listed, expected);
        // A living room is nobody's leftover.
        assert_eq!(desk.listing(&["sandbox", "sweep"])["rooms"], 0);
        assert!(!running.processes().is_empty());
        drop(running);
        assert!(eventually(|| desk.listing(&["sandbox", "list"]) == json!([])));
    }

    /// P-20.
    fn a_kill_leaves_nothing(desk) {
        let mut running = desk.start(&[]);
        assert!(!running.processes().is_empty());
        running.kill();
        running.assert_gone();
        desk.run(&["--", "true"]).exits(0);
    }

    /// E-12. Also whoever would have cleaned up is killed, so that something is left.
    fn a_sweep_removes_what_was_left_by_this_deployment_only(desk) {
        let mut running = desk.start(&["--workspace", ".:rw"]);
        let zygote = running.zygote();
        kill_process(running.pid(), Signal::STOP).unwrap();
        kill_process(zygote, Signal::KILL).unwrap();
        running.kill();
        assert!(eventually(|| running.processes().is_empty()), "whoever is in a room goes with it");
        let listed = desk.listing(&["sandbox", "list"]);
        assert_eq!((&listed[0]["state"], listed.as_array().unwrap().len()), (&json!("left_over"), 1), "{listed}");
        assert!(desk.workspace().join("toolgate.yaml").exists(), "there is something to be swept");

        let mut other = desk.toolgate(&["sandbox", "sweep"]);
        let swept = Ran::of(other.env("TOOLGATE_DATA_DIR", desk.bench.outside().join("other"))).exits(0).json();
        let nothing =
            json!({ "rooms": 0, "processes": 0, "cgroups": 0, "dirs": 0, "problems": [], "containers": 0 });
        assert_eq!(swept, nothing);
        assert_eq!(desk.listing(&["sandbox", "list"]).as_array().unwrap().len(), 1);

        let swept = desk.listing(&["sandbox", "sweep"]);
        assert_eq!((&swept["rooms"], &swept["problems"]), (&json!(1), &json!([])), "{swept}");
        running.assert_gone();
    }

    fn what_is_wrong_on_the_command_line_is_said_and_exits_2(desk) {
        desk.put("file", "");
        let cases: [(&[&str], &str); 22] = [
            (&[], "<ARGV>"),
            (&["--"], "<ARGV>"),
            (&["--net", "example.com", "--", "true"], "host:port"),
            (&["--net", "*:443", "--", "true"], "host:port"),
            (&["--net", "example.com:0", "--", "true"], "host:port"),
            (&["--workspace", "nowhere", "--", "true"], "name a directory that is there"),
            (&["--workspace", "file", "--", "true"], "not a directory"),
            (&["--workspace", ".:rx", "--", "true"], "write `ro`, `rw` or `overlay`"),
            (&["--workspace", "/", "--", "true"], "whole machine"),
            (&["--workspace", "/usr", "--", "true"], "Use a directory of a project"),
            (&["--visible", "nowhere", "--", "true"], "name a directory that is there"),
            (&["--env", "A", "--", "true"], "NAME=VALUE"),
            (&["--env", "LD_PRELOAD=/x", "--", "true"], "LD_PRELOAD"),
            (&["--env", "A B=1", "--", "true"], "letters, digits"),
            (&["--timeout", "0", "--", "true"], "timeout"),
            (&["--memory", "lots", "--", "true"], "a number of megabytes"),
            (&["--pids", "0", "--", "true"], "pids"),
            (&["--tier", "vm", "--", "true"], "namespaces or landlock"),
            (&["--accept-gap", "moat", "--", "true"], "protected_names"),
            (&["--backend", "k8s", "--", "true"], "not in this build"),
            (&["--backend", "cloud", "--", "true"], "process, docker or deny_all"),
            (&["--commit", "--", "true"], ":overlay"),
        ];
        for (args, told) in cases {
            let ran = desk.run(args).exits(2);
            assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error") && ran.stderr.contains(told), "{args:?}: {ran}");
        }
        let ran = desk.run(&["--backend", "deny_all", "--", "true"]).exits(125);
        assert!(ran.stderr.contains("error[wall_missing]") && ran.stderr.contains("help: "), "{ran}");
        desk.put("toolgate.yaml", "polcy: {}\n");
        let ran = desk.run(&["--", "true"]).exits(2);
        assert!(ran.stderr.contains("toolgate.yaml:1:1"), "{ran}");
    }

    fn on_a_terminal_the_command_gets_one_of_its_own(desk) {
        let Some(page) = desk.on_a_terminal(&["--", "bash", "--norc"], "tty; stty size; echo $((6*7)) $TERM; exit 7\n", 7) else {
            return skipped("`script` from util-linux is missing, so there is no terminal to run on");
        };
        assert!(page.contains("/dev/pts/0\n") && page.contains("\n24 80\n") && page.contains("42 xterm-256color\n"), "{page}");
        desk.on_a_terminal(&["--timeout", "1", "--", "sleep", "60"], "", 124);
        // Keys are passed on as they are: an interrupt is the command's.
        let page = desk.on_a_terminal(&["--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo up; while :; do sleep 0.1; done"], "\x03", 3);
        assert!(page.unwrap().contains("caught"));
    }

    fn the_terminal_is_as_it_was_afterwards(desk) {
        for end in ["true", "kill -9 $$", "stty raw -echo"] {
            let run = quoted(&desk.command(&["--", "sh", "-c", end]));
            let Some(page) = desk.script_on_a_terminal(&format!("stty -g; {run}; stty -g"), "", 0) else {
                return skipped("`script` from util-linux is missing, so there is no terminal to run on");
            };
            let modes: Vec<&str> = page.lines().filter(|line| line.matches(':').count() > 20).collect();
            assert!(modes.len() == 2 && modes[0] == modes[1], "{end}: {page}");
        }
    }

    fn what_is_pasted_into_a_terminal_arrives(desk) {
        // More than a terminal holds, into a command that answers while it reads.
        let lines: String = (0..4_000).map(|n| format!("line {n} of what is pasted\n")).collect();
        let Some(page) = desk.on_a_terminal(&["--", "sh", "-c", "stty -echo; echo ready; n=0; while read -r l; do n=$((n+1)); echo $l; [ $n = 4000 ] && break; done; echo got $n"], &lines, 0) else {
            return skipped("`script` from util-linux is missing, so there is no terminal to run on");
        };
        assert!(page.contains("got 4000"), "{}", &page[page.len().saturating_sub(300)..]);
    }
}

impl Desk {
    /// What `sandbox run` shows on a terminal on which this is typed; none where there is no `script`.
    fn on_a_terminal(&self, args: &[&str], typed: &str, status: i32) -> Option<String> {
        self.script_on_a_terminal(&quoted(&self.command(args)), typed, status)
    }

    fn script_on_a_terminal(&self, line: &str, typed: &str, status: i32) -> Option<String> {
        let usual = self.command(&[]);
        let mut script = Command::new("script");
        script.args(["-qec", line, "/dev/null"]).current_dir(self.workspace()).env_clear();
        script.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(user) = self.user {
            script.uid(user).gid(user);
        }
        let mut child = script.spawn().ok()?;
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut page = Vec::new();
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut page = Vec::new();
                stdout.read_to_end(&mut page).unwrap();
                page
            });
            // Typed when the room is up; before, the terminal is not yet the room's, and `script` echoes it only.
            assert!(eventually(|| self.notes() > 0) || typed.is_empty());
            thread::sleep(Duration::from_millis(300));
            // A command that ends before it has read all is no failure of the test.
            let _ = std::io::Write::write_all(&mut stdin, typed.as_bytes());
            assert_eq!(wait(&mut child), status);
            drop(stdin);
            page = reader.join().unwrap();
        });
        Some(String::from_utf8_lossy(&page).replace("\r\n", "\n"))
    }
}

/// A command as a shell takes it.
fn quoted(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    words.map(|word| quote(word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
}

/// The status of a child that must end by itself.
fn wait(child: &mut Child) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| -status.signal().unwrap());
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("it does not end");
}

/// Is it so before long?
fn eventually(is: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if is() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    is()
}

/// Processes of the machine with this word among their arguments.
fn processes_with(word: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let has = |pid: &String| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(word)
    };
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(has).collect()
}

/// Everything beneath a directory: a path, and what a file holds or where a link leads.
fn tree(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_symlink() {
                all.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                all.push(format!("{name}/"));
                left.push(path);
            } else {
                all.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}
