//! Containers, chosen in the config and looked at from inside.
//!
//! `TOOLGATE_TEST_DOCKER` names the socket of a daemon and `TOOLGATE_TEST_WORKER` a static worker, which otherwise lies
//! beside the binary. Without a daemon the tests that need one say that they are skipped. `podman.rs` has the same tests
//! once more, for Podman.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{IpAddr, TcpListener, UdpSocket},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolgate_tests::{
    Bench, Ran, bin,
    dns::{self, SharedZone},
    skipped,
};

/// One static program under many names.
const SMALL: &str = "toolgate-test:busybox";
/// What `toolgate images build` makes.
const BASE: &str = "toolgate-base:latest";

// ---- what the tests share ----

/// Is this the suite of Podman?
fn is_podman() -> bool {
    env!("CARGO_CRATE_NAME") == "podman"
}

/// A daemon that has the image of the tests.
#[derive(Debug, Clone)]
struct Daemon {
    socket: PathBuf,
}

impl Daemon {
    /// None, said aloud, where there is none.
    fn find() -> Option<Self> {
        match is_podman() {
            true => Self::named("TOOLGATE_TEST_PODMAN", "Podman's service"),
            false => Self::docker(),
        }
    }

    /// Docker's, whosever suite this is: Podman makes a bridge only for somebody who is on it.
    fn docker() -> Option<Self> {
        Self::named("TOOLGATE_TEST_DOCKER", "a Docker daemon")
    }

    fn named(variable: &str, whose: &str) -> Option<Self> {
        let Some(socket) = env::var_os(variable).map(PathBuf::from) else {
            skipped(format!("set {variable} to the socket of {whose} to run this test"));
            return None;
        };
        let daemon = Self { socket };
        if !daemon.has(SMALL) {
            daemon.import();
        }
        Some(daemon)
    }

    /// Asks it, in its own words.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        let length = body.len();
        let kind = if path.starts_with("/images") { "application/x-tar" } else { "application/json" };
        let head =
            format!("{method} /v1.41{path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn ask_json(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, answer) = self.ask(method, path, body.as_bytes());
        (status, serde_json::from_str(&answer).unwrap_or_default())
    }

    fn has(&self, image: &str) -> bool {
        self.ask("GET", &format!("/images/{image}/json"), b"").0 == 200
    }

    fn import(&self) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("bin");
        fs::create_dir(&dir).unwrap();
        fs::copy("/bin/busybox", dir.join("busybox")).unwrap();
        for name in Command::new("/bin/busybox").arg("--list").output().unwrap().stdout.lines() {
            // There is one already that is no link.
            let _ = std::os::unix::fs::symlink("busybox", dir.join(name.unwrap()));
        }
        let tar = Command::new("tar").arg("-C").arg(root.path()).args(["-c", "."]).output().unwrap();
        let (status, answer) = self.ask("POST", "/images/create?fromSrc=-&repo=toolgate-test:busybox", &tar.stdout);
        assert_eq!(status, 200, "{answer}");
    }

    /// The containers of a deployment, running or not.
    fn containers(&self, deployment: &str) -> BTreeSet<String> {
        let (status, all) = self.ask("GET", "/containers/json?all=1", b"");
        assert_eq!(status, 200, "{all}");
        let all: Vec<Value> = serde_json::from_str(&all).unwrap();
        let is_own = |container: &&Value| container["Labels"]["toolgate.deployment"] == deployment;
        all.iter().filter(is_own).map(|container| container["Id"].as_str().unwrap().to_owned()).collect()
    }

    /// Whoever closed them waited until they were removed; what the daemon lists may be older by a moment.
    #[track_caller]
    fn has_none_left(&self, deployment: &str) {
        eventually("no container is left", || self.containers(deployment).is_empty());
    }
}

/// A config that runs programs in containers.
struct Docked {
    bench: Bench,
    daemon: Daemon,
}

impl Docked {
    /// With this in the block `docker`, besides where everything is.
    fn new(docker: &str) -> Option<Self> {
        Self::with("{ terminal: docker, code_execution: docker, git: docker }", docker)
    }

    fn with(overrides: &str, docker: &str) -> Option<Self> {
        let docked = Self { bench: Bench::new(), daemon: Daemon::find()? };
        fs::set_permissions(docked.bench.workspace(), fs::Permissions::from_mode(0o777)).unwrap();
        docked.config(overrides, docker);
        Some(docked)
    }

    fn config(&self, overrides: &str, docker: &str) {
        let place = |key: &str, usual: &str| if docker.contains(key) { String::new() } else { usual.to_owned() };
        let image = place("image:", &format!("    image: {SMALL}\n"));
        let host = place("host:", &format!("    host: unix://{}\n", self.daemon.socket.display()));
        let worker = place("worker:", &format!("    worker: {}\n", worker().display()));
        let text = format!(
            "agents: {{ default: {{ level: elevated }} }}\nsandboxing:\n  overrides: {overrides}\n  \
             docker:\n{image}{host}{worker}{docker}"
        );
        let path = self.bench.home().join(".config/toolgate/toolgate.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn shell(&self, script: &str) -> Ran {
        self.bench.call("shell", &json!({ "script": script, "timeout_seconds": 60 }))
    }

    /// What a script says, in a container that runs it to a good end.
    #[track_caller]
    fn says(&self, script: &str) -> String {
        let outcome = self.shell(script).done();
        assert_eq!(outcome["structured"]["exit_code"], 0, "{outcome}");
        outcome["structured"]["stdout"].as_str().unwrap().trim_end().to_owned()
    }

    /// The label of everything this deployment makes, once it has made something.
    fn deployment(&self) -> String {
        let noted = fs::read_dir(self.bench.data().join("rooms")).unwrap();
        let notes = noted.flatten().filter_map(|entry| fs::read(entry.path().join("instance.json")).ok());
        let labels = notes.filter_map(|note| serde_json::from_slice::<Value>(&note).ok());
        labels.map(|note| note["label"].as_str().unwrap().to_owned()).next().expect("an instance")
    }
}

/// The static worker.
fn worker() -> PathBuf {
    env::var_os("TOOLGATE_TEST_WORKER").map_or_else(|| bin().with_file_name("toolgate-worker"), PathBuf::from)
}

/// How long a machine that is busy may take. Nothing here is right because it was fast.
const PATIENCE: Duration = Duration::from_secs(150);

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A server that answers calls until it is told to leave, or killed.
struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    asked: i64,
}

impl Server {
    fn start(bench: &Bench) -> Self {
        let mut command = bench.command(&["serve", "--stdio"]);
        command.stderr(Stdio::null());
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut server = Self { child, lines, asked: 0 };
        let client = json!({ "name": "test", "version": "0" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.ask("initialize", &hello);
        server.hear();
        server.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn say(&mut self, message: &Value) {
        self.child.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Asks, and waits for nothing.
    fn ask(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        self.say(&request);
    }

    fn hear(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        serde_json::from_str(&line).unwrap()
    }

    fn begin(&mut self, script: &str) {
        let arguments = json!({ "script": script, "timeout_seconds": 120 });
        self.ask("tools/call", &json!({ "name": "shell", "arguments": arguments }));
    }

    /// What a script says.
    fn says(&mut self, script: &str) -> String {
        self.begin(script);
        let answer = self.hear();
        let said = answer["result"]["structuredContent"]["stdout"].as_str();
        said.unwrap_or_else(|| panic!("{answer}")).trim_end().to_owned()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn leave(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

// ---- the keys ----

/// What a control group of either version says, by its names in both.
fn group(new: &str, old: &str) -> String {
    format!("cat /sys/fs/cgroup/{new} 2>/dev/null || cat /sys/fs/cgroup/{old}")
}

/// The keys that are found inside, and what they are found as.
fn check_inside(docker: &str, memory: &str, pids: &str, cpu: [&str; 2], tmpfs: &str) {
    let Some(docked) = Docked::new(docker) else { return };
    let (memory_file, pids_file) =
        (group("memory.max", "memory/memory.limit_in_bytes"), group("pids.max", "pids/pids.max"));
    let cpu_file = group("cpu.max", "cpu/cpu.cfs_quota_us");
    let found = docked.says(&format!(
        "{memory_file}; {pids_file}; {cpu_file}; df -k /tmp | awk 'NR>1 {{print $2}}'; ls /sys/class/net; id -u; \
         touch mark 2>/dev/null; true"
    ));
    let lines: Vec<&str> = found.lines().collect();
    assert!(cpu.contains(&lines[2]), "{found}");
    assert_eq!((lines[0], lines[1], lines[3], lines[4]), (memory, pids, tmpfs, "lo"), "{found}");
    assert_ne!(lines[5], "0", "nobody is root in a container");
    assert_eq!(docked.bench.workspace().join("mark").exists(), docker.contains("rw"), "{found}");
}

#[test]
fn the_published_values_are_the_defaults() {
    check_inside("", "536870912", "64", ["100000 100000", "100000"], "65536");
}

#[test]
fn what_is_written_is_found_inside() {
    let docker =
        "    memory_limit: 100m\n    cpu_limit: '0.5'\n    pids_limit: 40\n    tmpfs_size: 9m\n    mount_mode: rw\n";
    check_inside(docker, "104857600", "40", ["50000 100000", "50000"], "9216");
}

#[test]
fn a_program_gets_no_more_time_than_the_config_gives() {
    let Some(docked) = Docked::new("    timeout_seconds: 1\n") else { return };
    docked.shell("sleep 50").failed("timed_out");
}

#[test]
fn a_runtime_the_daemon_does_not_know_is_no_other_runtime() {
    let Some(docked) = Docked::new("    runtime: no-such-runtime\n") else { return };
    let outcome = docked.shell("true").failed("room_failed");
    assert!(outcome["message"].as_str().unwrap().contains("no-such-runtime"), "{outcome}");
}

#[test]
fn bridge_with_nobody_on_the_list_leads_nowhere() {
    let Some(docked) = Docked::new("    network: bridge\n") else { return };
    assert_eq!(docked.says("ls /sys/class/net; nc -w 2 1.1.1.1 80 </dev/null 2>/dev/null || echo shut"), "lo\nshut");
}

/// A network of the daemon, gone when the test ends. The machine has an address on it.
struct Bridge {
    daemon: Daemon,
    id: String,
    address: IpAddr,
}

impl Bridge {
    fn new(daemon: &Daemon, name: &str) -> Self {
        let body = json!({ "Name": format!("toolgate-test-{name}") }).to_string();
        let (status, made) = daemon.ask_json("POST", "/networks/create", &body);
        assert_eq!(status, 201, "{made}");
        let id = made["Id"].as_str().unwrap().to_owned();
        let (_, found) = daemon.ask_json("GET", &format!("/networks/{id}"), "");
        let address = found["IPAM"]["Config"][0]["Gateway"].as_str().unwrap().parse().unwrap();
        Self { daemon: daemon.clone(), id, address }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.daemon.ask("DELETE", &format!("/networks/{}", self.id), b"");
    }
}

#[test]
fn a_container_reaches_whom_the_config_lists_and_nobody_else() {
    let (Some(docked), Some(docker)) = (Docked::new(""), Daemon::docker()) else { return };
    let bridge = Bridge::new(&docker, docked.bench.outside().file_name().unwrap().to_str().unwrap());
    let listener = TcpListener::bind((bridge.address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&greeted);
    thread::spawn(move || {
        for mut visitor in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            // Whoever has left already was counted.
            let _ = visitor.write_all(b"from the listener\n");
        }
    });
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name_server = names.local_addr().unwrap();
    let zone = SharedZone::default();
    let leads_there = |name: &str| (name.to_owned(), vec![vec![bridge.address.to_string()]]);
    zone.lock().unwrap().set(["a.example.com", "b.example.com"].map(leads_there).into());
    thread::spawn(move || dns::serve(&names, &zone));
    docked
        .config("{ terminal: docker }", &format!("    network: bridge\n    allowed_hosts: ['a.example.com:{port}']\n"));
    let file = docked.bench.home().join(".config/toolgate/toolgate.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let egress = format!(
        "egress: {{ name_servers: ['{name_server}'], hostname_allowlist: [a.example.com, b.example.com, '{}'] }}\n",
        bridge.address
    );
    fs::write(&file, format!("{text}{egress}")).unwrap();
    let talk = |host: &str| docked.says(&format!("nc -w 10 {host} {port} </dev/null 2>/dev/null || echo shut"));
    assert_eq!((talk("a.example.com"), greeted.load(Ordering::SeqCst)), ("from the listener".into(), 1));
    for other in ["b.example.com", &bridge.address.to_string(), "a.example.org"] {
        assert_ne!(talk(other), "from the listener", "{other}");
    }
    assert_eq!(greeted.load(Ordering::SeqCst), 1, "somebody else was reached");
    docked.config("{ terminal: docker }", "    network: none\n");
    docked.shell(&format!("nc -w 10 a.example.com {port} </dev/null")).refused("not_permitted");
    assert_eq!(greeted.load(Ordering::SeqCst), 1, "somebody was reached");
}

#[test]
fn explain_tells_the_container_and_whom_it_talks_to() {
    let Some(docked) = Docked::new("    network: bridge\n    allowed_hosts: ['a.example:443']\n    mount_mode: rw\n")
    else {
        return;
    };
    let place = |script: &str| {
        let arguments = json!({ "script": script }).to_string();
        docked.bench.run(&["explain", "--json", "shell", &arguments]).json()["place"].take()
    };
    let place = place("true");
    assert_eq!((&place["runs"], &place["backend"]), (&json!("room"), &json!("docker")), "{place}");
    assert_eq!(place["spec"]["egress"]["allow"]["hosts"], json!(["a.example:443"]), "{place}");
    assert_eq!(place["spec"]["workspace"]["mode"], "read_write", "{place}");
}

// ---- what is missing ----

#[test]
fn what_containers_need_and_is_not_there_is_named_and_the_rest_goes_on() {
    let Some(docked) = Docked::new("") else { return };
    docked.bench.put("a.txt", "text\n");
    let check = |docker: &str, code: &str, said: &str| {
        docked.config("{ terminal: docker, git: docker }", docker);
        let outcome = docked.shell("true").refused(code);
        assert!(outcome["message"].as_str().unwrap().contains(said), "{outcome}");
        assert!(!outcome["remedy"].as_str().unwrap().is_empty());
        docked.bench.call("read", &json!({ "path": "a.txt" })).done();
        let report = docked.bench.run(&["doctor", "--json"]).exits(1).json();
        let broken = report["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == "broken");
        let broken: Vec<&Value> = broken.collect();
        assert!(broken.len() == 1 && broken[0]["seen"].as_str().unwrap().contains(said), "{broken:?}");
    };
    check("    host: unix:///nowhere/docker.sock\n", "docker_unavailable", "does not answer on `/nowhere/docker.sock`");
    check("    image: no-such-image:1\n", "image_missing", "no image `no-such-image:1`");
    check("    worker: /nowhere/worker\n", "worker_missing", "there is no worker at `/nowhere/worker`");
    check("    worker: /bin/sh\n", "worker_not_static", "wants libraries");
    let anybodys = docked.bench.outside().join("worker");
    fs::copy(worker(), &anybodys).unwrap();
    fs::set_permissions(&anybodys, fs::Permissions::from_mode(0o777)).unwrap();
    let named = format!("    worker: {}\n", anybodys.display());
    check(&named, "worker_not_safe", "everybody may write it");
}

#[test]
fn a_daemon_is_where_the_environment_says() {
    let Some(docked) = Docked::new("") else { return };
    let with = |daemon: &str| {
        // The key is there and says nothing.
        docked.config("{ terminal: docker }", "    host: ~\n");
        let mut command = docked.bench.command(&["call", "shell", r#"{"script":"echo here"}"#]);
        Ran::of(command.env("DOCKER_HOST", daemon))
    };
    with(&format!("unix://{}", docked.daemon.socket.display())).done();
    with("unix:///nowhere/docker.sock").refused("docker_unavailable");
    // Not the one of this machine either.
    with("tcp://127.0.0.1:1").refused("docker_unavailable");
}

#[test]
fn the_doctor_tells_what_containers_are_made_with() {
    let Some(docked) = Docked::new("") else { return };
    let report = docked.bench.run(&["doctor", "--json"]).exits(0).json();
    let findings = report["findings"].as_array().unwrap();
    let seen = |what: &str| {
        let finding = findings.iter().find(|finding| finding["what"] == what);
        let finding = finding.unwrap_or_else(|| panic!("{what}: {report:#}"));
        assert_eq!(finding["state"], "ok", "{finding}");
        finding["seen"].as_str().unwrap().to_owned()
    };
    assert!(seen("docker daemon").contains("API"));
    assert_eq!(seen("docker daemon").starts_with("Podman "), is_podman());
    assert!(seen("docker image").contains(SMALL));
    assert!(seen("docker worker").contains("static"));
    for wall in ["files", "network", "privileges", "syscalls", "memory", "pids"] {
        assert!(seen(&format!("container {wall}")).starts_with("by "));
    }
}

// ---- categories ----

#[test]
fn each_category_runs_where_the_config_says() {
    let Some(docked) = Docked::with("{ terminal: docker }", "") else { return };
    assert_eq!(docked.says("test -e /toolgate-worker && echo container"), "container");
    let code = json!({ "language": "bash", "code": "test -e /toolgate-worker || echo room" });
    let outcome = docked.bench.call("run_code", &code).done();
    assert_eq!(outcome["structured"]["stdout"], "room\n", "{outcome}");
}

#[test]
fn tools_that_start_no_programs_are_held_to_the_terms_of_containers() {
    let Some(docked) = Docked::with("{ file_system: docker, web: docker }", "") else { return };
    docked.bench.put("a.txt", "text\n");
    docked.bench.call("read", &json!({ "path": "a.txt" })).done();
    let outcome = docked.bench.call("write", &json!({ "path": "b.txt", "content": "x" })).refused("not_permitted");
    assert!(outcome["message"].as_str().unwrap().contains("toolgate.yaml:3"), "{outcome}");
    docked.bench.call("fetch_url", &json!({ "url": "https://a.example/" })).refused("not_permitted");
    let listed = docked.bench.run(&["tools", "--json"]).exits(0).json();
    let has = |name: &str| listed.as_array().unwrap().iter().any(|tool| tool["name"] == name);
    assert_eq!(["read", "write", "edit", "delete", "fetch_url"].map(has), [true, false, false, false, false]);
    docked.config(
        "{ file_system: docker, web: docker }",
        "    mount_mode: rw\n    network: bridge\n    allowed_hosts: ['a.example:443']\n",
    );
    docked.bench.call("write", &json!({ "path": "b.txt", "content": "x" })).done();
    let decide = |url: &str| {
        let arguments = json!({ "url": url }).to_string();
        docked.bench.run(&["explain", "--json", "fetch_url", &arguments]).json()["verdict"].clone()
    };
    assert_eq!((decide("https://a.example/"), decide("https://b.example/")), (json!("allow"), json!("deny")));
    assert_eq!(decide("http://a.example/"), "deny", "another port is another host");
}

/// Whoever may talk to the daemon has the machine, so its socket is hidden also where it lies in the workspace.
#[test]
fn programs_do_not_see_the_daemons_socket() {
    let Some(docked) = Docked::new("") else { return };
    let socket = docked.bench.workspace().join("docker.sock");
    let _daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    docked.config("{ terminal: subprocess }", &format!("    host: unix://{}\n", socket.display()));
    assert_eq!(docked.says("test -S docker.sock && echo seen || echo hidden"), "hidden");
}

// ---- the life of containers ----

#[test]
fn an_agent_keeps_its_container_and_a_call_does_not() {
    for (strategy, second) in [("per-agent", "kept"), ("per-call", "new")] {
        let Some(docked) = Docked::new(&format!("    lifecycle: {{ strategy: {strategy} }}\n")) else { return };
        let mut server = Server::start(&docked.bench);
        server.says("echo first > /tmp/mark");
        assert_eq!(server.says("test -e /tmp/mark && echo kept || echo new"), second, "{strategy}");
        let deployment = docked.deployment();
        let open = if strategy == "per-agent" { 1 } else { 0 };
        eventually("containers of calls are removed", || docked.daemon.containers(&deployment).len() == open);
        server.leave();
        docked.daemon.has_none_left(&deployment);
    }
}

#[test]
fn a_container_made_ahead_is_the_next_one_and_none_is_left() {
    let lines = "    warm_rooms: 1\n    lifecycle: { strategy: per-call }\n";
    let Some(docked) = Docked::new(lines) else { return };
    let mut server = Server::start(&docked.bench);
    server.says("true");
    let deployment = docked.deployment();
    let containers = || docked.daemon.containers(&deployment);
    let owners = || {
        let listed = docked.bench.run(&["sandbox", "list", "--json"]).exits(0).json();
        listed.as_array().unwrap().iter().map(|room| room["owner"].clone()).collect::<Vec<_>>()
    };
    eventually("one waits, and is nobody's", || containers().len() == 1 && owners() == ["(nobody yet)"]);
    let waited = containers();
    server.begin("sleep 100");
    eventually("it is used, and another one waits", || {
        let now = containers();
        now.len() == 2
            && now.is_superset(&waited)
            && owners().iter().filter(|owner| *owner == "(nobody yet)").count() == 1
    });
    server.leave();
    docked.daemon.has_none_left(&deployment);
}

#[test]
fn a_container_that_hangs_is_replaced() {
    let Some(docked) = Docked::new("") else { return };
    let mut server = Server::start(&docked.bench);
    server.says("echo first > /tmp/mark");
    let deployment = docked.deployment();
    let hung = docked.daemon.containers(&deployment);
    let only = hung.first().unwrap();
    assert_eq!(docked.daemon.ask("POST", &format!("/containers/{only}/pause"), b"").0, 204);
    // Whoever was heard a moment ago is not asked.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(server.says("test -e /tmp/mark && echo kept || echo new"), "new");
    eventually("the one that hung is gone", || !docked.daemon.containers(&deployment).contains(only));
    server.leave();
    docked.daemon.has_none_left(&deployment);
}

/// The daemon is not told to remove them: only the next runtime does.
#[test]
fn containers_of_a_killed_runtime_are_removed_by_the_next_and_those_of_others_stay() {
    const MANY: usize = 20;
    let lines = "    auto_remove: false\n    lifecycle: { strategy: per-call }\n";
    let (Some(docked), Some(other)) = (Docked::new(lines), Docked::new(lines)) else { return };
    let (mut server, mut stays) = (Server::start(&docked.bench), Server::start(&other.bench));
    (0..MANY).for_each(|_| server.begin("sleep 100"));
    stays.begin("sleep 100");
    eventually("a runtime notes that it is there", || docked.bench.data().join("rooms").is_dir());
    eventually("the other does too", || other.bench.data().join("rooms").is_dir());
    eventually("everybody has a label", || docked.labelled() && other.labelled());
    let (deployment, others) = (docked.deployment(), other.deployment());
    assert_ne!(deployment, others);
    eventually("all containers are there", || docked.daemon.containers(&deployment).len() == MANY);
    eventually("that of the other too", || docked.daemon.containers(&others).len() == 1);
    let one = docked.daemon.containers(&deployment).into_iter().next().unwrap();
    let (_, one) = docked.daemon.ask("GET", &format!("/containers/{one}/json"), b"");
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["HostConfig"]["AutoRemove"], false, "it is left to the next runtime");
    server.kill();
    let left = docked.daemon.containers(&deployment);
    assert_eq!(left.len(), MANY, "nobody has removed any yet");
    assert_eq!(docked.says("echo back"), "back");
    eventually("all are gone", || docked.daemon.containers(&deployment).is_empty());
    assert_eq!(docked.daemon.containers(&others).len(), 1, "the other's is untouched");
    stays.kill();
    let swept = other.bench.run(&["sandbox", "sweep", "--json"]).exits(0).json();
    assert_eq!(swept["containers"], 1, "{swept}");
    docked.daemon.has_none_left(&others);
}

impl Docked {
    fn labelled(&self) -> bool {
        let noted = fs::read_dir(self.bench.data().join("rooms")).unwrap();
        noted.flatten().any(|entry| entry.path().join("instance.json").is_file())
    }
}

// ---- programs ----

#[test]
fn git_and_python_work_in_a_container() {
    let Some(docked) = Docked::new(&format!("    image: {BASE}\n    mount_mode: rw\n")) else { return };
    if !docked.daemon.has(BASE) {
        skipped("build the image with `toolgate images build` to run this test");
        return;
    }
    let code =
        json!({ "language": "python", "code": "import sys, json\nprint(json.dumps(6 * 7), sys.version_info[0])" });
    let outcome = docked.bench.call("run_code", &code).done();
    assert_eq!(outcome["structured"]["stdout"], "42 3\n", "{outcome}");
    let workspace = docked.bench.workspace();
    let made = Command::new("git").args(["init", "-q", "-b", "main"]).arg(&workspace).status();
    assert!(made.unwrap().success());
    assert!(Command::new("chmod").args(["-R", "a+rwX"]).arg(&workspace).status().unwrap().success());
    assert_eq!(docked.says("echo text > a.txt; cat a.txt"), "text");
    docked.bench.call("git_commit", &json!({ "message": "first", "paths": ["a.txt"] })).done();
    let log = docked.bench.call("git_log", &json!({})).done();
    assert!(log["text"].as_str().unwrap().contains("first"), "{log}");
    let walls = log["enforced"].as_array().unwrap();
    assert!(walls.iter().any(|wall| wall == "metadata:own_root"), "{log}");
}

#[test]
fn a_command_runs_in_a_container_of_its_own() {
    let Some(docked) = Docked::new("") else { return };
    let ran =
        docked.bench.run(&["sandbox", "run", "--backend", "docker", "--", "sh", "-c", "pwd; ls /toolgate-worker"]);
    let expected = format!("{}\n/toolgate-worker\n", docked.bench.workspace().canonicalize().unwrap().display());
    assert_eq!(ran.exits(0).stdout, expected);
}

/// A call at the task `fix`, with the log of containers on standard error.
fn call_with_log(docked: &Docked, script: &str) -> Ran {
    let mut command = docked.bench.command(&["call", "shell", "-", "--task", "fix"]);
    command.env("TOOLGATE_LOG", "toolgate::containers=info").env("NO_COLOR", "1");
    Ran::fed(&mut command, json!({ "script": script, "timeout_seconds": 60 }).to_string().as_bytes())
}

/// The container a call ran in, as its record names it.
fn container_of(outcome: &Value) -> String {
    let walls = outcome["enforced"].as_array().unwrap().iter();
    walls.filter_map(|wall| wall.as_str()?.strip_prefix("container:")).next().expect("a container").to_owned()
}

const TALKATIVE: &str = "echo $TOOLGATE_AGENT_ID $TOOLGATE_TASK_ID $TOOLGATE_REQUEST_ID $TOOLGATE_SESSION_ID; \
                         echo out-of-the-job; echo err-of-the-job >&2";

#[test]
fn a_container_tells_whose_it_was_and_how_much_it_said_and_no_more() {
    let Some(docked) = Docked::new("") else { return };
    let ran = call_with_log(&docked, TALKATIVE);
    let outcome = ran.clone().done();
    let (call, container) = (outcome["call"].as_str().unwrap(), container_of(&outcome));
    let said = outcome["structured"]["stdout"].as_str().unwrap();
    let session = said.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a session");
    assert_eq!(said, format!("default fix {call} {session}\nout-of-the-job\n"));
    assert_eq!(session.len(), 16, "{said}");
    let (head, counts) = ran.stderr.split_once("lines=").expect("a count");
    let whose = format!(
        "a container is closed role=\"room\" container_id=\"{container}\" agent=\"default\" session=\"{session}\" \
         task=\"fix\" request=\"{call}\" "
    );
    assert!(head.ends_with(&whose), "{ran}");
    assert!(
        counts.starts_with("6 malformed=0 bytes=") && counts.contains(" dropped_bytes=0 jobs=1 lived_ms="),
        "{ran}"
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    let record = docked.bench.run(&["audit", "show", call]).exits(0).stdout;
    assert!(record.contains(&format!("container:{container}")), "{record}");
}

#[test]
fn what_containers_say_about_themselves_is_shipped_where_it_is_asked_for() {
    let Some(docked) = Docked::new("    log_shipping: { ship_raw_logs: true }\n") else { return };
    let ran = call_with_log(&docked, TALKATIVE);
    let outcome = ran.clone().done();
    let (call, container) = (outcome["call"].as_str().unwrap(), container_of(&outcome));
    let told: Vec<(&str, &str)> = ran.stderr.lines().filter_map(|line| line.split_once(" line=")).collect();
    let whose = [format!("container_id=\"{container}\""), format!("request=\"{call}\"")];
    assert!(told.iter().all(|(head, _)| whose.iter().all(|id| head.contains(id))), "{ran}");
    let mut lines: Vec<Value> = told.iter().map(|(_, line)| serde_json::from_str(line).unwrap()).collect();
    for time in ["wall_ms", "cpu_ms"] {
        assert!(lines[4].as_object_mut().unwrap().remove(time).is_some_and(|time| time.is_u64()), "{ran}");
    }
    // The image has no `bash`, which is asked for first.
    let expected = [
        json!({ "event": "room_made" }),
        json!({ "event": "job_began", "job": 1, "request": call }),
        json!({ "event": "job_failed", "job": 1 }),
        json!({ "event": "job_began", "job": 2, "request": call }),
        json!({ "event": "job_ended", "job": 2, "code": 0, "signal": null, "limit": null }),
        json!({ "event": "ended", "well": true }),
    ];
    assert_eq!(lines, expected);
    assert!(!ran.stderr.contains("of-the-job"), "{ran}");
}

#[test]
fn logs_of_containers_stay_where_they_are_where_nobody_wants_them() {
    let Some(docked) = Docked::new("    log_shipping: { enabled: false }\n") else { return };
    let ran = call_with_log(&docked, "true");
    assert_eq!(ran.clone().done()["structured"]["exit_code"], 0, "{ran}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_log_is_kept_up_to_its_bound_and_the_rest_is_counted() {
    let lines = "    log_shipping: { max_log_bytes: 1024 }\n    lifecycle: { strategy: per-agent }\n";
    let Some(docked) = Docked::new(lines) else { return };
    let mut command = docked.bench.command(&["serve", "--stdio"]);
    command.env("TOOLGATE_LOG", "toolgate::containers=info").env("NO_COLOR", "1").stderr(Stdio::piped());
    let mut server = Server::of(command);
    for _ in 0..20 {
        assert_eq!(server.says("echo still here"), "still here");
    }
    let mut said = server.child.stderr.take().unwrap();
    server.leave();
    let mut log = String::new();
    said.read_to_string(&mut log).unwrap();
    assert!(log.contains(" bytes=1024 dropped_bytes=") && log.contains(" jobs=20 "), "{log}");
    assert!(!log.contains("dropped_bytes=0"), "{log}");
}
