//! Toolgate with other MCP servers behind it, and a client before it.
//!
//! [`Town`] is a config under way: servers that do what a script says ([`Hostile`]), as programs or at addresses, whose tools
//! may all be called. [`Client`] speaks to the binary over its standard streams, as one of either era.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use crate::{Bench, Ran, hostile::Hostile, target};

/// A config with other servers in it. Definitions are taken as they come, unless it is said otherwise.
#[derive(Debug)]
pub struct Town {
    /// Where all this is.
    pub bench: Bench,
    /// The entries of the servers.
    pub servers: BTreeMap<String, Value>,
    /// Those of them that live and end with the town.
    pub hosted: BTreeMap<String, Hostile>,
    /// Rules of the policy before the one that allows every tool of every server.
    pub rules: Vec<Value>,
    /// Added to the config as it is.
    pub also: String,
    settings: Map<String, Value>,
    tools: Vec<String>,
}

impl Town {
    /// Without any server. The tools of this name are those that may be called.
    pub fn new(tools: &[&str]) -> Self {
        let settings = json!({ "definitions": { "first_sight": "pin" } });
        let bench = Bench::new();
        fs::create_dir(bench.outside().join("bin")).expect("a directory");
        Self {
            bench,
            servers: BTreeMap::new(),
            hosted: BTreeMap::new(),
            rules: Vec::new(),
            also: String::new(),
            settings: settings.as_object().cloned().unwrap_or_default(),
            tools: tools.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Adds a server that is a program, in a room.
    #[must_use]
    pub fn with(mut self, name: &str, script: impl Borrow<Value>) -> Self {
        let (bin, program) = (self.bin(), self.bin().join("hostile"));
        if !program.exists() {
            fs::copy(target().join("debug/hostile"), &program).expect("the hostile server is built");
        }
        let file = bin.join(format!("{name}.json"));
        fs::write(&file, script.borrow().to_string()).expect("a file");
        let args = ["stdio".to_owned(), format!("@{}", file.display())];
        let server = json!({ "command": program, "args": args, "visible": [bin] });
        self.servers.insert(name.to_owned(), server);
        self
    }

    /// Where the programs are.
    pub fn bin(&self) -> PathBuf {
        self.bench.outside().join("bin")
    }

    /// Adds a server at an address of the loopback, which is allowed.
    #[must_use]
    pub fn at(mut self, name: &str, server: &Hostile) -> Self {
        self.servers.insert(name.to_owned(), json!({ "url": server.url() }));
        self.setting("egress", json!({ "hostname_allowlist": ["127.0.0.1"] }))
    }

    /// Starts a server at an address, and adds it.
    #[must_use]
    pub fn host(self, name: &str, script: Value) -> Self {
        let server = Hostile::start(script);
        let mut town = self.at(name, &server);
        town.hosted.insert(name.to_owned(), server);
        town
    }

    /// Changes the entry of a server.
    #[must_use]
    pub fn set(mut self, name: &str, key: &str, value: Value) -> Self {
        self.servers.get_mut(name).expect("there is such a server")[key] = value;
        self
    }

    /// Changes a block of the config.
    #[must_use]
    pub fn setting(mut self, key: &str, value: Value) -> Self {
        self.settings.insert(key.to_owned(), value);
        self
    }

    /// Adds text to the config.
    #[must_use]
    pub fn also(mut self, text: &str) -> Self {
        self.also.push_str(text);
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Value) -> Self {
        self.rules.push(rule);
        self
    }

    /// Writes the config as it is now, and says where.
    pub fn config(&self) -> PathBuf {
        let terms = json!({ "action": "external_data:request", "safety": "network" });
        let tools: BTreeMap<&str, &Value> = self.tools.iter().map(|name| (&**name, &terms)).collect();
        let mut servers = self.servers.clone();
        for server in servers.values_mut().filter_map(Value::as_object_mut) {
            server.entry("tools").or_insert_with(|| json!(tools));
        }
        let families: Vec<String> = servers.keys().map(|name| format!("{name}__*")).collect();
        let mut settings = self.settings.clone();
        let mut rules = self.rules.clone();
        rules.push(json!({ "id": "servers", "verdict": "allow", "tools": families, "because": "they are tried" }));
        settings.entry("policy").or_insert_with(|| json!({}))["rules"] = rules.into();
        settings.insert("mcp_servers".to_owned(), json!(servers));
        let blocks = settings.iter().map(|(key, value)| format!("{key}: {value}\n"));
        let file = self.bench.outside().join("config.yaml");
        fs::write(&file, blocks.collect::<String>() + &self.also).expect("a file");
        file
    }

    /// The binary under this config.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command(args);
        command.arg("--config").arg(self.config());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Makes one call.
    pub fn call(&self, tool: &str, arguments: &Value) -> Ran {
        self.run(&["call", tool, &arguments.to_string()])
    }

    /// Agrees to everything that is offered, as a person would who read it.
    #[must_use]
    pub fn pin(self) -> Self {
        for name in self.servers.keys() {
            self.run(&["mcp", "pin", name, "--yes"]).exits(0);
        }
        self
    }

    /// Serves a client of this era that can do this.
    pub fn serve(&self, era: Era, can: Value) -> Client {
        Client::start(self.command(&["serve", "--stdio"]), era, can)
    }

    /// The end of the record.
    pub fn tail(&self) -> Vec<Value> {
        let tail = self.bench.run(&["audit", "tail", "100"]).exits(0).json();
        tail.as_array().expect("a list").clone()
    }

    /// How calls ended, as it is recorded there.
    pub fn outcomes(&self) -> Vec<Value> {
        let outcomes = self.tail().into_iter().map(|mut line| line["body"]["outcome"].take());
        outcomes.filter(|outcome| !outcome.is_null()).collect()
    }
}

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// It greets, as up to 2025-11-25.
    Old,
    /// Every request says what it speaks, as from 2026-07-28 on.
    New,
}

/// What a request of the new era says of its client.
pub fn meta(can: &Value) -> Value {
    json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": can })
}

/// A client of the binary. It ends with the value.
#[derive(Debug)]
pub struct Client {
    /// The binary; none where it is somebody else's.
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// Said in the `_meta` of every request.
    pub meta: Value,
    /// What was heard that nobody waited for.
    pub heard: Vec<Value>,
}

impl Client {
    /// Starts a server with this command, and greets it where that is done.
    pub fn start(mut command: Command, era: Era, can: Value) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let mut client = Self::of(&mut child);
        client.child = Some(child);
        match era {
            Era::Old => {
                let info = json!({ "name": "t", "version": "1" });
                let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": info });
                client.ask("initialize", hello);
                client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
            }
            Era::New => client.meta = meta(&can),
        }
        client
    }

    /// Speaks to a server whose standard streams are pipes. It says nothing yet, and does not end it.
    pub fn of(child: &mut Child) -> Self {
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("a pipe")));
        Self { child: None, stdin, stdout, next: 1, meta: json!({}), heard: Vec::new() }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("the server is its own")
    }

    /// Writes a message.
    pub fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("the input is open"), "{message}").expect("the server reads");
    }

    /// Sends a request, and gives its id.
    pub fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        for (key, value) in self.meta.as_object().into_iter().flatten() {
            params["_meta"][key] = value.clone();
        }
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).expect("it can be read") > 0, "the server left");
        serde_json::from_str(&line).expect("a message")
    }

    /// The next answer or question. Notices on the way are kept.
    pub fn hear(&mut self) -> Value {
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Asks, and gives the answer. What came before it is kept.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.read();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Hears until there is a notice of this method, and gives its parameters.
    pub fn notice(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(|message| message["method"] == method) {
                return self.heard.remove(at)["params"].clone();
            }
            let message = self.read();
            self.heard.push(message);
        }
    }

    /// Calls a tool, and gives the whole answer.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The same, and gives its result.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)["result"].take()
    }

    /// What became of a call without arguments.
    pub fn code(&mut self, tool: &str) -> Value {
        self.result(tool, json!({}))["_meta"]["io.github.toolgate/outcome"]["code"].take()
    }

    /// Everything on a list, such as `tools`, from all of its pages.
    pub fn list(&mut self, method: &str, list: &str) -> Vec<Value> {
        let (mut found, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.ask(method, params)["result"].take();
            found.append(page[list].as_array_mut().expect("a list"));
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return found,
            }
        }
    }

    /// The names of its tools.
    pub fn tools(&mut self) -> Vec<String> {
        strings(&self.list("tools/list", "tools"), "name")
    }

    /// Closes its end, and waits for the server to leave.
    pub fn leave(&mut self) -> ExitStatus {
        self.stdin = None;
        self.child().wait().expect("the server leaves")
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child().kill().expect("the server is there");
        self.child().wait().expect("the server leaves");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What each entry has under a key.
pub fn strings(entries: &[Value], key: &str) -> Vec<String> {
    entries.iter().map(|entry| entry[key].as_str().expect("a string").to_owned()).collect()
}

/// Looks until it is so, or fails the test.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
