//! The six dimensions and the rules about files and hosts, from outside: the same call under every value.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran};

/// What no call may bring to light.
const SECRET: &str = "hunter2-of-the-production-database";

/// A project with a workspace in it, and a directory elsewhere.
struct Scene {
    bench: Bench,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { bench: Bench::new() };
        for (path, text) in [
            ("project/ws/mine.txt", "mine"),
            ("project/ws/.env", SECRET),
            ("project/ws/conf/prod/key", SECRET),
            ("project/lib/shared.txt", "shared"),
            ("project/lib/.env", SECRET),
            ("tables/table.txt", "table"),
            ("tables/.env", SECRET),
            ("private/x.txt", "private"),
        ] {
            scene.put(path, text);
        }
        fs::create_dir(scene.at("project/.git")).unwrap();
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.bench.outside().canonicalize().unwrap().join(path)
    }

    fn whole(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// The agent as these lines of YAML say, and whatever else stands beside it.
    fn configure(&self, agent: &str, rest: &str) {
        let workspace = self.at("project/ws");
        let text =
            format!("version: 1\nagents:\n  default:\n    workspace: {}\n{agent}\n{rest}\n", workspace.display());
        fs::write(self.at("toolgate.yaml"), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let config = self.whole("toolgate.yaml");
        let mut command = self.bench.command(&[args, &["--config", &config]].concat());
        command.current_dir(self.at("project/ws"));
        command
    }

    fn call(&self, tool: &str, arguments: &Value) -> Ran {
        Ran::of(&mut self.command(&["call", tool, &arguments.to_string()]))
    }

    /// What becomes of a call: what it says when it is done, else the code.
    fn told(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        let outcome = self.call(tool, arguments).json();
        match outcome["status"].as_str().unwrap() {
            "done" => Ok(outcome["text"].as_str().unwrap().to_owned()),
            _ => Err(outcome["code"].as_str().unwrap().to_owned()),
        }
    }

    fn shell(&self, script: &str) -> Result<String, String> {
        self.told("shell", &json!({ "script": script }))
    }

    /// What a program says that no reader of commands sees through.
    fn python(&self, code: &str) -> String {
        let ran = self.call("run_code", &json!({ "language": "python", "code": code })).json();
        ran["structured"]["stdout"].as_str().unwrap_or_else(|| panic!("{ran}")).trim().to_owned()
    }

    /// The verdict about a call, and the line that decided.
    fn explained(&self, tool: &str, arguments: &Value) -> (String, String, String) {
        let told =
            Ran::of(&mut self.command(&["explain", "--json", "--agent", "default", tool, &arguments.to_string()]));
        let told: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
        let reason = &told["reasons"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&told["verdict"]), text(&reason["rule"]), format!("{}", reason["source"]["line"]))
    }
}

/// A program that says what becomes of opening a file.
fn opening(path: &str, mode: &str) -> String {
    format!(
        "try:\n    with open({path:?}, {mode:?}) as f: print(f.read() if {mode:?} == 'r' else f.write('x'))\n\
         except OSError as error: print(error.strerror)\n"
    )
}

fn elevated(constraints: &str) -> String {
    format!("    level: elevated\n    constraints: {{ {constraints} }}")
}

/// An agent whose files are limited like this, with a directory open besides.
fn scoped(scope: &str, scene: &Scene) -> String {
    format!("{}\n    directories: [{}]", elevated(&format!("file_system: {scope}")), scene.whole("tables"))
}

const OUTSIDE: &str = "path_outside_workspace";

// ---- files ----

#[test]
fn a_scope_opens_what_it_says_to_every_file_tool_and_no_more() {
    let scene = Scene::new();
    let files = [
        "mine.txt".to_owned(),
        "../lib/shared.txt".to_owned(),
        scene.whole("project/lib/shared.txt"),
        scene.whole("tables/table.txt"),
        "../../tables/table.txt".to_owned(),
        scene.whole("private/x.txt"),
        "../../private/x.txt".to_owned(),
    ];
    for (scope, opened) in [("workspace_only", 1), ("project_directory", 3), ("full", 4)] {
        scene.configure(&scoped(scope, &scene), "");
        for (number, path) in files.iter().enumerate() {
            for (tool, arguments) in
                [("read", json!({ "path": path })), ("grep", json!({ "pattern": "a", "path": path }))]
            {
                let told = scene.told(tool, &arguments);
                assert_eq!(told.is_ok(), number < opened, "{scope} {tool} {path}: {told:?}");
                assert!(told.is_ok() || told == Err(OUTSIDE.into()), "{scope} {tool} {path}: {told:?}");
            }
        }
    }
}

#[test]
fn a_scope_opens_the_same_to_programs() {
    let scene = Scene::new();
    let (shared, table, private) =
        (scene.whole("project/lib/shared.txt"), scene.whole("tables/table.txt"), scene.whole("private/x.txt"));
    // Read by a program that no reader of commands sees through, from where the workspace is.
    let script = format!(
        "pwd; for file in mine.txt ../lib/shared.txt {shared} {table} {private}; do cat \"$file\" 2>/dev/null || echo no; done"
    );
    for (scope, expected) in [
        ("workspace_only", ["mine", "no", "no", "no", "no"]),
        ("project_directory", ["mine", "shared", "shared", "no", "no"]),
        ("full", ["mine", "shared", "shared", "table", "no"]),
    ] {
        scene.configure(
            &format!("{}\n    profile: {{ custom: {{ default: allow, unparsable: allow }} }}", scoped(scope, &scene)),
            "",
        );
        let ran = scene.call("run_code", &json!({ "language": "bash", "code": script })).json();
        let said = ran["structured"]["stdout"].as_str().unwrap_or_else(|| panic!("{ran}"));
        let told = said.replace("mine", "mine\n").replace("shared", "shared\n").replace("table", "table\n");
        let told: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(told, [&[&*scene.whole("project/ws")], expected.as_slice()].concat(), "{scope}: {ran}");
    }
}

#[test]
fn what_is_open_for_reading_is_not_written_by_tools_or_programs() {
    let scene = Scene::new();
    let (data, lib) = (scene.whole("tables/new.txt"), scene.whole("project/lib/new.txt"));
    let write = |path: &str| scene.told("write", &json!({ "path": path, "content": "x" }));
    scene.configure(&scoped("full", &scene), "");
    assert_eq!(write(&data), Err("read_only_directory".into()));
    assert!(write(&lib).is_ok());
    assert!(scene.shell(&format!("echo x > {data}; true")).is_ok_and(|said| said.contains("Read-only")));
    assert!(!Path::new(&data).exists());
    let writable = format!(
        "{}\n    directories: [{{ path: {}, write: true }}]",
        elevated("file_system: full"),
        scene.whole("tables")
    );
    scene.configure(&writable, "");
    assert!(write(&data).is_ok());
}

#[test]
fn protected_names_hold_in_the_project_too() {
    let scene = Scene::new();
    fs::create_dir(scene.at("project/.git/hooks")).unwrap();
    fs::write(scene.at("project/.git/config"), "").unwrap();
    scene.configure(&scoped("project_directory", &scene), "");
    for path in ["../.git/hooks/pre-commit", "../toolgate.yaml", "toolgate.yaml", "../.mcp.json"] {
        let told = scene.told("write", &json!({ "path": path, "content": "x" }));
        assert_eq!(told, Err("protected_path".into()), "{path}");
        // Whatever the shell says about it, nothing comes to be there.
        let _ = scene.shell(&format!("mkdir -p $(dirname {path}); echo x > {path}; true"));
        assert!(!scene.at("project/ws").join(path).is_file(), "{path}");
    }
}

#[test]
fn an_untrusted_project_opens_nothing_and_adds_rules() {
    let scene = Scene::new();
    let user = scene.bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(user, "version: 1\nagents: { default: { level: elevated } }\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = scene.bench.command(args);
        Ran::of(command.current_dir(scene.at("project/ws")))
    };
    let project = scene.at("project/ws/toolgate.yaml");
    fs::write(&project, format!("agents: {{ default: {{ directories: [{}] }} }}\n", scene.whole("tables"))).unwrap();
    let refused = run(&["call", "read", r#"{"path": "mine.txt"}"#]).exits(2);
    assert!(refused.stderr.contains("an opened directory is not for a file that is not trusted yet"), "{refused}");
    fs::write(&project, "policy: { files: [{ deny: [read], paths: [mine.txt], because: theirs }] }\n").unwrap();
    run(&["call", "read", r#"{"path": "mine.txt"}"#]).refused("file_denied");
}

// ---- code, git, terminal, approvals ----

#[test]
fn an_agent_without_code_starts_no_program_by_any_tool() {
    let scene = Scene::new();
    let calls = [
        ("shell", json!({ "script": "true" })),
        ("bash", json!({ "argv": ["true"] })),
        ("run_code", json!({ "language": "bash", "code": "true" })),
        ("git_status", json!({})),
        ("terminal_open", json!({ "argv": ["sh"] })),
    ];
    scene.configure(&elevated("code_execution: none"), "");
    for (tool, arguments) in &calls {
        let outcome = scene.call(tool, arguments).refused("not_permitted");
        assert!(outcome["message"].as_str().unwrap().contains("starts no programs"), "{outcome}");
    }
    assert!(scene.told("read", &json!({ "path": "mine.txt" })).is_ok());
    scene.configure(&elevated("code_execution: containerized"), "");
    assert!(scene.shell("true").is_ok());
}

#[test]
fn git_goes_as_far_as_it_may_by_its_tools_and_by_commands() {
    let scene = Scene::new();
    let fetch = json!({ "script": "git fetch origin" });
    let push = json!({ "script": "cd . && git -C . push origin main" });
    for (level, fetches, pushes) in
        [("local_only", false, false), ("read_and_branch", true, false), ("full", true, true)]
    {
        scene.configure(&elevated(&format!("git: {level}")), "");
        for (tool, arguments, allowed) in [
            ("shell", &fetch, fetches),
            ("shell", &push, pushes),
            ("git_fetch", &json!({}), fetches),
            ("git_push", &json!({}), pushes),
        ] {
            let (verdict, rule, line) = scene.explained(tool, arguments);
            assert_eq!(rule == "git_constraint", !allowed, "{level} {tool}: {verdict} {rule}");
            assert!(allowed || (verdict == "deny" && line == "6"), "{level} {tool}: {verdict} {line}");
        }
    }
}

#[test]
fn a_terminal_is_none_or_for_known_commands_or_for_all() {
    let scene = Scene::new();
    let unknown = json!({ "script": "terraform plan" });
    for (mode, expected) in
        [("none", ["deny", "ask"]), ("restricted_commands", ["allow", "ask"]), ("full", ["allow", "allow"])]
    {
        scene.configure(&elevated(&format!("terminal: {mode}")), "");
        let known = scene.explained("terminal_open", &json!({ "argv": ["ls"] })).0;
        let other = scene.explained("shell", &unknown).0;
        assert_eq!(known == "deny", expected[0] == "deny", "{mode}: {known}");
        if mode != "none" {
            assert_eq!(other, expected[1], "{mode}");
        }
    }
}

#[test]
fn what_requires_approval_is_asked_about_and_says_by_which_line() {
    let scene = Scene::new();
    scene.configure(&elevated("requires_approval: [code:read]"), "");
    assert_eq!(scene.told("read", &json!({ "path": "mine.txt" })), Err("approval_required".into()));
    assert_eq!(
        scene.explained("read", &json!({ "path": "mine.txt" })),
        ("ask".into(), "requires_approval".into(), "6".into())
    );
    scene.configure(&elevated(""), "");
    assert!(scene.told("read", &json!({ "path": "mine.txt" })).is_ok());
}

// ---- rules about files ----

const RULES: &str = "policy:
  files:
    - deny: [read, write]
      paths: [\".env\", \"conf/prod/**\"]
      because: credentials
      match: [\".env\", \"app/.env\"]
      not_match: [\".envrc\"]";

#[test]
fn a_denied_file_is_denied_to_every_tool_however_it_is_reached() {
    let scene = Scene::new();
    symlink(".env", scene.at("project/ws/innocent")).unwrap();
    symlink("conf/prod", scene.at("project/ws/dir")).unwrap();
    scene.configure(&scoped("full", &scene), RULES);
    for path in
        [".env", "./conf/../.env", "innocent", "dir/key", "conf/prod/key", "../lib/.env", &scene.whole("tables/.env")]
    {
        let outcome = scene.call("read", &json!({ "path": path })).refused("file_denied");
        let message = outcome["message"].as_str().unwrap();
        assert!(message.contains("credentials") && message.contains("toolgate.yaml:"), "{path}: {message}");
        let writing = scene.told("write", &json!({ "path": path, "content": "x" }));
        let code = writing.unwrap_err();
        assert!(["file_denied", "path_is_a_link"].contains(&&*code), "{path}: {code}");
    }
    for (tool, arguments) in [
        ("grep", json!({ "pattern": "hunter2", "path": ".." })),
        ("grep", json!({ "pattern": "hunter2", "path": scene.whole("tables") })),
        ("find", json!({ "pattern": "key" })),
        ("ls", json!({ "path": "conf/prod" })),
        ("delete", json!({ "path": ".env" })),
    ] {
        let told = format!("{:?}", scene.told(tool, &arguments));
        assert!(!told.contains(SECRET) && !told.contains("prod/key"), "{tool}: {told}");
    }
    assert_eq!(fs::read_to_string(scene.at("project/ws/.env")).unwrap(), SECRET);
    let (verdict, rule, line) = scene.explained("read", &json!({ "path": ".env" }));
    assert_eq!((&*verdict, &*rule, &*line), ("deny", "file_denied", "10"));
}

#[test]
fn a_denied_file_is_denied_to_the_shell_by_name_and_to_programs_that_do_not_say_so() {
    let scene = Scene::new();
    scene.configure(&scoped("full", &scene), RULES);
    for script in
        ["cat .env", "cat ./conf/../.env", "cd conf && cat prod/key", "echo x > .env", "cp ../lib/.env x", "rm .env"]
    {
        assert_eq!(scene.shell(script), Err("file_denied".into()), "{script}");
    }
    // A program whose command names none of them.
    let hunt = format!(
        "import os\nfor top in ['..', {:?}]:\n    for dir, _, names in os.walk(top):\n        for name in names:\n            \
         try:\n                if 'hunter2' in open(os.path.join(dir, name)).read(): print('FOUND', dir, name)\n            \
         except OSError: pass\nprint('done')\n",
        scene.whole("tables")
    );
    assert_eq!(scene.python(&hunt), "done");
    // What cannot be opened says so; it does not look empty.
    for path in [".env", "conf/prod", "../lib/.env", &scene.whole("tables/.env")] {
        assert_eq!(scene.python(&opening(path, "r")), "Permission denied", "{path}");
    }
    let moved = "import os\nfor name in ['conf', '.env']:\n    try: os.rename(name, name + '2')\n    \
                 except OSError as error: print(error.strerror)\n";
    assert_eq!(scene.python(moved), "Device or resource busy\nDevice or resource busy");
    assert!(scene.at("project/ws/conf/prod/key").exists());
}

#[test]
fn a_file_that_comes_later_is_closed_in_the_next_job_of_a_kept_room() {
    let scene = Scene::new();
    scene.configure(&elevated(""), RULES);
    let run = |code: String| json!({ "tool": "run_code", "arguments": { "language": "python", "code": code } });
    let look = || run(opening("sub/.env", "r"));
    let make = format!("import os\nos.mkdir('sub')\nopen('sub/.env', 'w').write('{SECRET}')\n");
    let turn = json!([look(), run(make), look()]);
    let ran = Ran::fed(&mut scene.command(&["turn"]), turn.to_string().as_bytes());
    let outcomes: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let said: Vec<&str> =
        outcomes.iter().map(|outcome| outcome["structured"]["stdout"].as_str().unwrap().trim()).collect();
    assert_eq!((said[0], said[2]), ("No such file or directory", "Permission denied"), "{ran}");
    assert_eq!(fs::read_to_string(scene.at("project/ws/sub/.env")).unwrap(), SECRET);
}

#[test]
fn a_file_that_may_not_be_written_is_read_by_programs_and_not_changed() {
    let scene = Scene::new();
    scene.configure(&elevated(""), "policy: { files: [{ deny: [write], paths: [mine.txt], because: reviewed }] }");
    assert!(scene.told("read", &json!({ "path": "mine.txt" })).is_ok());
    assert_eq!(scene.told("write", &json!({ "path": "mine.txt", "content": "x" })), Err("file_denied".into()));
    assert_eq!(scene.shell("echo x > mine.txt"), Err("file_denied".into()));
    assert_eq!(scene.python(&opening("mine.txt", "r")), "mine");
    assert_eq!(scene.python(&opening("mine.txt", "a")), "Read-only file system");
    assert_eq!(fs::read_to_string(scene.at("project/ws/mine.txt")).unwrap(), "mine");
}

#[test]
fn a_file_to_be_asked_about_is_asked_about_by_name_and_closed_to_whoever_does_not_name_it() {
    let scene = Scene::new();
    symlink(".env", scene.at("project/ws/innocent")).unwrap();
    scene.configure(&elevated(""), "policy: { files: [{ ask: [read], paths: [.env], because: ours }] }");
    assert_eq!(scene.told("read", &json!({ "path": ".env" })), Err("approval_required".into()));
    assert_eq!(scene.shell("cat .env"), Err("approval_required".into()));
    assert_eq!(scene.told("read", &json!({ "path": "innocent" })), Err("file_denied".into()));
    for path in [".env", "innocent"] {
        assert_eq!(scene.python(&opening(path, "r")), "Permission denied", "{path}");
    }
}

/// A name that is free is kept as well as one that is taken.
#[test]
fn a_file_that_may_not_be_written_is_not_made_by_programs() {
    let make = |path: &str| {
        format!(
            "import os\ntry:\n    os.makedirs(os.path.dirname({path:?}), exist_ok=True)\n    open({path:?}, 'w').write('x')\n    \
             print('made')\nexcept OSError as error: print('refused')\n"
        )
    };
    for access in ["[write]", "[read, write]"] {
        let scene = Scene::new();
        let rule = format!("{{ deny: {access}, paths: [.github/workflows/**, conf/new], because: they run }}");
        scene.configure(&elevated(""), &format!("policy: {{ files: [{rule}] }}"));
        for _ in 0..2 {
            assert_eq!(scene.python(&make(".github/workflows/a.yml")), "refused", "{access}");
            assert_eq!(scene.python(&make("conf/new")), "refused", "{access}");
            assert_eq!(scene.python(&make("conf/other/a")), "made", "{access}");
        }
        assert!(!scene.at("project/ws/.github").exists() && !scene.at("project/ws/conf/new").exists(), "{access}");
    }
}

/// Whoever removes a link takes the rule away from what it leads to.
#[test]
fn a_link_whose_target_no_rule_names_starts_nothing() {
    let scene = Scene::new();
    scene.put("project/ws/real/token", SECRET);
    symlink("real/token", scene.at("project/ws/.token")).unwrap();
    let rule = |paths: &str| format!("policy: {{ files: [{{ deny: [read], paths: [{paths}], because: keys }}] }}");
    scene.configure(&elevated(""), &rule(".token"));
    let refused = scene.call("shell", &json!({ "script": "true" })).refused("files_not_closed");
    assert!(refused["message"].as_str().unwrap().contains("real/token"), "{refused}");
    scene.configure(&elevated(""), &rule(".token, real/token"));
    assert_eq!(scene.python(&opening("real/token", "r")), "Permission denied");
}

#[test]
fn a_rule_whose_path_leads_through_a_link_is_no_rule() {
    let scene = Scene::new();
    scene.put("project/ws/releases/42/secret.yaml", SECRET);
    symlink("releases/42", scene.at("project/ws/current")).unwrap();
    for (path, is_wrong) in [
        ("current/secret.yaml", true),
        ("current/*.yaml", true),
        ("releases/42/secret.yaml", false),
        ("current", false),
    ] {
        scene.configure(
            &elevated(""),
            &format!("policy:\n  files: [{{ deny: [read], paths: ['{path}'], because: keys }}]"),
        );
        let ran = scene.call("shell", &json!({ "script": "true" }));
        let told = ran.to_string();
        assert_eq!(told.contains("leads through the link `current`"), is_wrong, "{path}: {told}");
        assert_eq!(told.contains("toolgate.yaml:8"), is_wrong, "{path}: {told}");
        assert_eq!(told.contains("`current` leads to `releases/42`"), is_wrong, "{path}: {told}");
    }
}

#[test]
fn rules_that_cannot_be_kept_start_nothing() {
    let scene = Scene::new();
    for number in 0..300 {
        scene.put(&format!("project/ws/keys/{number}.pem"), SECRET);
    }
    scene.configure(&elevated(""), "policy: { files: [{ deny: [read], paths: ['*.pem'], because: keys }] }");
    assert_eq!(scene.shell("true"), Err("files_not_closed".into()));
    scene.configure(&elevated(""), "policy: { files: [{ deny: [read], paths: [keys/**], because: keys }] }");
    assert!(scene.shell("true").is_ok());
}

/// What is kept from being written is kept by its name, and a room takes names that are text.
#[test]
fn a_name_to_be_kept_that_is_no_text_starts_nothing() {
    let scene = Scene::new();
    let odd = OsStr::from_bytes(b"odd-\xff.lock");
    fs::write(scene.at("project/ws").join(odd), "x").unwrap();
    scene.configure(&elevated(""), "policy: { files: [{ deny: [write], paths: ['*.lock'], because: pinned }] }");
    let refused = scene.call("shell", &json!({ "script": "true" })).refused("files_not_closed");
    assert!(refused["message"].as_str().unwrap().contains("is no text, so it cannot be kept"), "{refused}");
    fs::rename(scene.at("project/ws").join(odd), scene.at("project/ws/even.lock")).unwrap();
    assert!(scene.shell("true").is_ok());
}

// ---- hosts ----

/// A server that answers every request alike, and counts them.
struct Server {
    address: SocketAddr,
    visits: Arc<AtomicUsize>,
}

impl Server {
    fn at(ip: &str, answer: String) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = visits.clone();
        thread::spawn(move || {
            for visitor in listener.incoming() {
                let mut visitor = visitor.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut asked = [0; 4096];
                let length = visitor.read(&mut asked).unwrap_or(0);
                let nothing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let for_robots = asked[..length].starts_with(b"GET /robots.txt");
                let _ = visitor.write_all(if for_robots { nothing } else { &answer }.as_bytes());
            }
        });
        Self { address, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

#[test]
fn a_denied_host_is_reached_by_nobody_and_by_no_redirect() {
    let scene = Scene::new();
    let end = Server::at("127.0.0.2", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi".into());
    let there = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://{}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        end.address
    );
    let start = Server::at("127.0.0.1", there);
    let egress = "egress: { hostname_allowlist: [127.0.0.1, 127.0.0.2] }";
    let get = |server: &Server| scene.told("fetch_url", &json!({ "url": format!("http://{}/", server.address) }));
    let rule = |answer: &str| {
        format!("{egress}\npolicy:\n  hosts:\n    - {{ {answer}: [127.0.0.2, paste.example.org], because: not ours }}")
    };

    scene.configure(&elevated(""), egress);
    assert!(get(&end).is_ok() && get(&start).is_ok());
    let before = end.visits();

    scene.configure(&elevated(""), &rule("deny"));
    assert_eq!(get(&end), Err("host_denied".into()));
    assert_eq!(get(&start), Err("redirect_refused".into()));
    let url = format!("http://{}/", end.address);
    // To a program loopback is its room, so that it is a name that tells.
    assert_eq!(scene.shell("curl https://paste.example.org/x"), Err("host_denied".into()));
    let (verdict, rule_name, line) = scene.explained("fetch_url", &json!({ "url": url }));
    assert_eq!((&*verdict, &*rule_name, &*line), ("deny", "host_denied", "10"));

    scene.configure(&elevated(""), &rule("ask"));
    assert_eq!(get(&end), Err("approval_required".into()));
    assert_eq!(get(&start), Err("redirect_refused".into()));
    assert_eq!(end.visits(), before);

    let own = format!("{}\n    hosts: [{{ deny: [127.0.0.0/8], because: mine }}]", elevated(""));
    scene.configure(&own, egress);
    assert_eq!(get(&start), Err("host_denied".into()));
}
