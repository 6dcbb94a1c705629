//! A console on a port of its own, with a runtime, a record and a state of its own, and a client that sends exactly what a
//! test says.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use toolgate_console::{Console, Setup};
use toolgate_contract::{
    ActionType, AgentName, Category, Level, Needs, Outcome, Permission, Person, Principal, SafetyClass, Scope, ToolDef,
};
use toolgate_runtime::{
    Runtime, Watch, built_in_tools,
    config::Config,
    store::{
        SqliteStore, Store,
        state::{SqliteState, State},
    },
    tokens::{Tokens, Wanted},
    tools::{Answer, Cx, Tool},
};

/// Long enough for a slow machine; no test waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const OPERATOR: &str = "user:ann";

pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Runtime,
    pub(crate) state: Arc<dyn State>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) dir: TempDir,
    pub(crate) stop: CancellationToken,
    pub(crate) link: String,
    served: JoinHandle<()>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// What to say.
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Said {
    /// What was said.
    text: String,
}

/// Says what it is told to, as a tool that reads the world would.
fn hostile() -> Tool {
    let def = ToolDef {
        name: "hostile".into(),
        summary: "Says what it is told to.".into(),
        description: "Says what it is told to, as if it had read it somewhere.".into(),
        category: Category::FileSystem,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        needs: Needs { files: toolgate_contract::Files::Read, ..Needs::NOTHING },
        ..ToolDef::default()
    };
    let run = |_: &Cx, words: Words| Ok(Answer::with_text(Said { text: words.text.clone() }, words.text));
    Tool::typed(def, |_: &Words| Vec::new(), run)
}

/// Asks a person every time.
fn careful() -> Tool {
    let def = ToolDef {
        name: "careful".into(),
        summary: "Asks first.".into(),
        description: "Says something after a person agreed.".into(),
        category: Category::FileSystem,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        permission: Permission::Confirm,
        ..ToolDef::default()
    };
    Tool::pure(def, |_: &Cx, words: Words| Ok(Answer::new(Said { text: words.text })))
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with_hosts(&[]).await
    }

    pub(crate) async fn with_hosts(hosts: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (data, workspace) = (dir.path().join("data"), dir.path().join("workspace"));
        std::fs::create_dir(&workspace).unwrap();
        let store = Arc::new(SqliteStore::open(&data).unwrap());
        let state: Arc<dyn State> = Arc::new(SqliteState::open(&data).unwrap());
        let mut tools = built_in_tools();
        tools.extend([hostile(), careful()]);
        let mut config = Config::built_in(&workspace);
        config.level_descriptions.insert(Level::Standard, "Everyday <work>.".to_owned());
        let runtime = Runtime::open(toolgate_runtime::Setup {
            config,
            store: store.clone(),
            state: Some(state.clone()),
            tools,
            hidden: vec![data.clone()],
            rooms: None,
            secrets: None,
        })
        .unwrap();
        let setup = Setup {
            runtime: runtime.clone(),
            state: state.clone(),
            store: store.clone(),
            data_dir: data,
            hosts: hosts.iter().map(ToString::to_string).collect(),
        };
        let console = Console::bind(setup, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = console.address();
        let link = console.login_link(&Person::from(OPERATOR)).await.unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(console.serve(stop.clone()));
        Self { address, runtime, state, store, dir, stop, link, served }
    }

    /// Makes a call as the agent would.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let call = self.runtime.call(&AgentName::from("default"), tool, arguments);
        self.runtime.invoke(call, Watch::default()).await
    }

    /// Makes sure that everything that ended is in the record: a durable note comes after what was queued before it.
    pub(crate) async fn settle(&self) {
        let note =
            toolgate_contract::Note { at_ms: 0, kind: "settled", by: None, subject: String::new(), detail: json!({}) };
        self.store.note(note).await.unwrap();
    }

    pub(crate) async fn token(&self, principal: Principal, scopes: &[Scope]) -> String {
        let tokens = Tokens { state: &*self.state, store: &*self.store };
        let wanted = Wanted { principal, scopes: scopes.iter().copied().collect(), life: None };
        tokens.add(wanted, &Person::from(OPERATOR), now()).await.unwrap().secret
    }

    pub(crate) async fn person(&self, name: &str, scopes: &[Scope]) -> String {
        self.token(Principal::Person(Person::from(name)), scopes).await
    }

    pub(crate) async fn agent(&self) -> String {
        self.token(Principal::Agent(AgentName::from("default")), &[Scope::Call]).await
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The code of the link that was printed.
    pub(crate) fn code(&self) -> &str {
        self.link.rsplit_once('=').unwrap().1
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Reply {
        self.send("GET", path, &[("Authorization", &format!("Bearer {token}"))], "").await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("Authorization", &format!("Bearer {token}"))], &body.to_string()).await
    }

    /// Sends one request to the right host.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let host = self.host();
        let mut all = vec![("Host", host.as_str())];
        all.extend_from_slice(headers);
        self.send_as(method, path, &all, body).await
    }

    /// Sends one request with these headers and no others.
    pub(crate) async fn send_as(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        self.send_bytes(format!("{text}\r\n{body}").as_bytes()).await
    }

    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that has heard enough may close before it read all.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
        Reply::parse(&String::from_utf8_lossy(&answer))
    }

    /// Logs in with the printed link, as a browser does.
    pub(crate) async fn log_in(&self) -> Browser<'_> {
        self.enter(&format!("code={}", self.code())).await
    }

    pub(crate) async fn enter(&self, form: &str) -> Browser<'_> {
        let entered = self.form("/login", "", form).await;
        assert_eq!(entered.status, 303, "{entered:?}");
        let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let mut browser = Browser { stage: self, cookie, csrf: String::new() };
        let page = browser.get("/audit").await;
        assert_eq!(page.status, 200, "{page:?}");
        browser.csrf = page.body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        browser
    }

    /// Sends a form as our own page would.
    pub(crate) async fn form(&self, path: &str, cookie: &str, form: &str) -> Reply {
        let origin = self.origin();
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        self.send("POST", path, &[("Origin", &origin), ("Cookie", cookie), kind], form).await
    }

    /// Stops it and waits until it has.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.served).await.unwrap().unwrap();
    }
}

/// Somebody who is logged in.
pub(crate) struct Browser<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl Browser<'_> {
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.stage.send("GET", path, &[("Cookie", &self.cookie)], "").await
    }

    pub(crate) async fn form(&self, path: &str, form: &str) -> Reply {
        self.stage.form(path, &self.cookie, &format!("csrf={}&{form}", self.csrf)).await
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Self { status: status.unwrap_or(0), headers, body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        let said = self.json();
        let fields: Vec<&String> = said.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["code", "message", "remedy"], "{said}");
        (self.status, said["code"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
