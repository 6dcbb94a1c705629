//! Calls that talk to other machines, over the whole road: who is reached, with whose credentials, and what is told.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::{
    ActionType, AgentName, Category, ConnectionUse, Effect, EffectKind, End, Intent, Needs, Network, Note, Outcome,
    SafetyClass, Status, ToolDef, WebRequest,
};
use toolgate_runtime::{
    Runtime, Setup, Watch,
    config::{Config, Sources},
    secrets::SecretPlaces,
    store::{
        Store, StoreError,
        state::{SqliteState, State},
    },
    tools::{Answer, Cx, Tool},
};

/// What the connection proves itself with.
const TOKEN: &str = "tok-5f0c1a9d7be2";

/// A server that answers every request with the request itself, and remembers it.
struct Echo {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let notes = heard.clone();
        thread::spawn(move || {
            for stream in listener.incoming().take(64) {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                stream.read_exact(&mut body).unwrap();
                let said = format!("{head}{}", String::from_utf8(body).unwrap());
                let answer = match head.starts_with("GET /elsewhere") {
                    true => "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
                    false => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}", said.len()),
                };
                notes.lock().unwrap().push(said);
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

#[derive(Default)]
struct Memory {
    begun: Mutex<Vec<Intent>>,
    ended: Mutex<Vec<End>>,
}

impl Store for Memory {
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.begun.lock().unwrap().push(intent);
            Ok(())
        })
    }

    fn end(&self, end: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.ended.lock().unwrap().push(end);
            Ok(())
        })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

struct House {
    runtime: Runtime,
    store: Arc<Memory>,
    _dir: tempfile::TempDir,
}

/// A runtime under this config, with these tools, and a secret in its environment.
fn house(yaml: &str, tools: Vec<Tool>) -> House {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("toolgate.yaml");
    std::fs::write(&file, yaml).unwrap();
    let sources = Sources {
        admin: None,
        explicit: Some(file),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: dir.path().join("data"),
        cwd: dir.path().to_owned(),
        workspace: None,
    };
    let config = Config::load(&sources).unwrap_or_else(|errors| panic!("{errors:?}"));
    let store = Arc::new(Memory::default());
    let secrets = SecretPlaces {
        environment: Arc::new(|name| (name == "API_TOKEN").then(|| TOKEN.into())),
        data_dir: Some("/nonexistent".into()),
        ..SecretPlaces::none()
    };
    let state: Arc<dyn State> = Arc::new(SqliteState::open(&dir.path().join("data")).unwrap());
    let setup = Setup {
        config,
        store: store.clone(),
        state: Some(state),
        tools,
        hidden: Vec::new(),
        rooms: None,
        secrets: Some(secrets),
    };
    House { runtime: Runtime::open(setup).unwrap(), store, _dir: dir }
}

impl House {
    async fn call(&self, arguments: Value) -> Outcome {
        let call = self.runtime.call(&AgentName::from("default"), "ask", arguments);
        self.runtime.invoke(call, Watch::default()).await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Where.
    url: String,
    /// With whose credentials.
    #[serde(default)]
    connection: Option<String>,
    /// It is said to change something.
    #[serde(default)]
    writes: bool,
}

fn declared() -> ToolDef {
    ToolDef {
        name: "ask".into(),
        summary: "Ask.".into(),
        description: "Ask.".into(),
        category: Category::Web,
        action: ActionType::CommsExternal,
        safety: SafetyClass::Network,
        needs: Needs { network: Network::Fenced, secrets: true, ..Needs::NOTHING },
        ..ToolDef::default()
    }
}

fn asking(def: ToolDef) -> Tool {
    let effects = |input: &Input| {
        let target = input.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).map(str::to_owned);
        vec![Effect { kind: EffectKind::Network, target }]
    };
    Tool::typed(def, effects, |cx: &Cx, input: Input| {
        let request = WebRequest { connection: input.connection, ..WebRequest::get(input.url) };
        let answer = cx.web()?.send(&request, cx.stop_flag())?;
        Ok(Answer::new(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))))
    })
    .acting(|input: &Input| if input.writes { ActionType::ExternalDataRequest } else { ActionType::CommsExternal })
    .through(|input: &Input| {
        input.connection.clone().map(|connection| ConnectionUse { connection, writes: input.writes })
    })
}

fn short(outcome: &Outcome) -> (Status, Option<&str>) {
    (outcome.status, outcome.code.as_deref())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_public_is_reached_only_where_the_operator_listed_it() {
    let echo = Echo::start();
    let url = format!("http://{}/", echo.address);
    let closed = house("version: 1\n", vec![asking(declared())]).call(json!({ "url": url })).await;
    assert_eq!(short(&closed), (Status::Refused, Some("address_refused")));
    assert_eq!(echo.heard().len(), 0);

    let open = house(&format!("egress: {{ hostname_allowlist: ['{}'] }}\n", echo.address), vec![asking(declared())]);
    let outcome = open.call(json!({ "url": url })).await;
    assert_eq!(short(&outcome), (Status::Done, None), "{}", outcome.text);
    assert_eq!(
        (outcome.labels.as_slice(), outcome.enforced.as_slice()),
        (&["web", "untrusted", "public"].map(str::to_owned)[..], &["judged_egress".to_owned()][..])
    );
    assert_eq!(echo.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowlist_binds_the_call_and_every_redirect() {
    let echo = Echo::start();
    let listed = format!("['{}', '127.0.0.1:9']", echo.address);
    let config = |agent: &str| {
        format!(
            "egress: {{ hostname_allowlist: {listed} }}\nagents: {{ default: {{ level: custom, allowed: {{ tools: [ask] }}, constraints: {{ {agent} }} }} }}\n"
        )
    };
    let url = format!("http://{}/elsewhere", echo.address);
    let none = house(&config("network: none"), vec![asking(declared())]).call(json!({ "url": url })).await;
    assert_eq!(short(&none), (Status::Refused, Some("not_permitted")));
    let other = config("network: allowlist_only, network_allowlist: [example.org]");
    let other = house(&other, vec![asking(declared())]).call(json!({ "url": url })).await;
    assert_eq!(short(&other), (Status::Refused, Some("not_permitted")));
    assert_eq!(echo.heard().len(), 0);
    let this = config(&format!("network: allowlist_only, network_allowlist: ['{}']", echo.address));
    let this = house(&this, vec![asking(declared())]).call(json!({ "url": url })).await;
    assert_eq!(short(&this), (Status::Refused, Some("redirect_refused")), "{}", this.text);
    assert_eq!(echo.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_gets_the_client_and_the_credentials_it_declared_and_no_others() {
    let echo = Echo::start();
    let config = format!(
        "egress: {{ hostname_allowlist: ['{0}'] }}\nconnections: {{ api: {{ base_url: 'http://{0}/v1', auth: {{ bearer: 'env:API_TOKEN' }} }} }}\n",
        echo.address
    );
    let arguments = json!({ "url": "/x", "connection": "api" });
    let silent = ToolDef { needs: Needs { network: Network::None, ..declared().needs }, ..declared() };
    let outcome = house(&config, vec![asking(silent)]).call(arguments.clone()).await;
    assert_eq!(short(&outcome), (Status::Refused, Some("needs_not_declared")));
    let nameless = ToolDef { needs: Needs { secrets: false, ..declared().needs }, ..declared() };
    let outcome = house(&config, vec![asking(nameless)]).call(arguments).await;
    assert_eq!(short(&outcome), (Status::Refused, Some("needs_not_declared")));
    assert_eq!(echo.heard().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_goes_to_its_server_and_is_never_told() {
    let echo = Echo::start();
    let config = format!(
        "egress: {{ hostname_allowlist: ['{0}'] }}\nconnections: {{ api: {{ base_url: 'http://{0}/v1', auth: {{ bearer: 'env:API_TOKEN' }} }} }}\n",
        echo.address
    );
    let house = house(&config, vec![asking(declared())]);
    let outcome = house.call(json!({ "url": "/things?q=1", "connection": "api" })).await;
    assert_eq!(short(&outcome), (Status::Done, None), "{}", outcome.text);
    let [heard] = echo.heard().try_into().unwrap();
    assert!(
        heard.starts_with("GET /v1/things?q=1 ") && heard.contains(&format!("authorization: Bearer {TOKEN}")),
        "{heard}"
    );
    // The server gave it back, and nobody was told.
    assert!(outcome.text.contains("[redacted:"), "{}", outcome.text);
    assert_eq!(outcome.labels, ["connection:api", "untrusted", "private"]);
    let effects: Vec<_> = outcome.effects.iter().map(|effect| (effect.kind, effect.target.clone().unwrap())).collect();
    assert_eq!(
        effects,
        [(EffectKind::Network, echo.address.to_string()), (EffectKind::Secret, "connection:api".to_owned())]
    );
    // Once it was handed out it is known in arguments too.
    let again = house.call(json!({ "url": format!("/{TOKEN}"), "connection": "nobody" })).await;
    assert_eq!(short(&again), (Status::Refused, Some("unknown_connection")));
    let ended = house.store.ended.lock().unwrap();
    let raw: Vec<_> = ended.iter().filter_map(|end| end.raw.as_ref()).collect();
    let record = format!("{:?} {:?} {raw:?}", house.store.begun.lock().unwrap(), ended);
    assert!(!record.contains(TOKEN) && !serde_json::to_string(&[outcome, again]).unwrap().contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_change_something_through_a_connection_is_asked_about_unless_its_operator_said_otherwise() {
    let echo = Echo::start();
    let config = |more: &str| {
        format!(
            "egress: {{ hostname_allowlist: ['{0}'] }}\nagents: {{ default: {{ level: elevated }} }}\nconnections: {{ api: {{ base_url: 'http://{0}/', auth: none{more} }} }}\n",
            echo.address
        )
    };
    for (more, writes, expected) in [
        ("", false, (Status::Done, None)),
        ("", true, (Status::Pending, Some("approval_required"))),
        (", writes: allow", true, (Status::Done, None)),
        (", writes: deny", true, (Status::Refused, Some("not_permitted"))),
        (", writes: allow, sensitive: true", false, (Status::Pending, Some("approval_required"))),
    ] {
        let house = house(&config(more), vec![asking(declared())]);
        let outcome = house.call(json!({ "url": "/x", "connection": "api", "writes": writes })).await;
        assert_eq!(short(&outcome), expected, "{more} {writes}: {}", outcome.text);
        let action = if writes { ActionType::ExternalDataRequest } else { ActionType::CommsExternal };
        assert_eq!(outcome.action, Some(action));
    }
    assert_eq!(echo.heard().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_given_up_with_its_call() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let house = house(&format!("egress: {{ hostname_allowlist: ['{address}'] }}\n"), vec![asking(declared())]);
    let watch = Watch::default();
    let call = house.runtime.call(&AgentName::from("default"), "ask", json!({ "url": format!("http://{address}/") }));
    let runtime = house.runtime.clone();
    let waiting = tokio::spawn({
        let watch = watch.clone();
        async move { runtime.invoke(call, watch).await }
    });
    let mut connection = tokio::task::spawn_blocking(move || {
        let mut connection = BufReader::new(silent.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && connection.read_line(&mut head).unwrap() > 0 {}
        assert!(head.starts_with("GET / "), "{head}");
        connection
    })
    .await
    .unwrap();
    watch.cancel.cancel();
    let outcome = waiting.await.unwrap();
    assert_eq!(short(&outcome), (Status::Failed, Some("cancelled")), "{}", outcome.text);
    // Its end of the connection is closed: behind the request there is nothing.
    assert_eq!(tokio::task::spawn_blocking(move || connection.read(&mut [0; 1]).unwrap()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_program_is_led_to_the_server_git_is_at_and_a_request_to_the_api() {
    let check = |exec: bool, base_url: &str, expected: &str| {
        let config = format!("connections: {{ hub: {{ base_url: '{base_url}', kind: github, auth: none }} }}\n");
        let def = ToolDef { needs: Needs { exec, ..declared().needs }, ..declared() };
        let house = house(&config, vec![asking(def)]);
        let call = house.runtime.call(&AgentName::from("default"), "ask", json!({ "url": "x", "connection": "hub" }));
        let effects = house.runtime.explain(&call).unwrap().effects;
        let networks = effects.into_iter().filter(|effect| effect.kind == EffectKind::Network);
        assert_eq!(networks.map(|effect| effect.target.unwrap()).collect::<Vec<_>>(), [expected]);
    };
    check(false, "https://api.github.com", "api.github.com:443");
    check(true, "https://api.github.com", "github.com:443");
    check(true, "https://git.example.org/api/v3", "git.example.org:443");
}

#[tokio::test]
async fn credentials_for_one_path_of_a_server_are_not_given_to_git() {
    let config = "connections: { crm: { base_url: 'https://shared.example.org/crm/api', auth: none } }\n";
    let def = ToolDef { needs: Needs { exec: true, ..declared().needs }, ..declared() };
    let house = house(config, vec![asking(def)]);
    let call = house.runtime.call(&AgentName::from("default"), "ask", json!({ "url": "x", "connection": "crm" }));
    assert_eq!(house.runtime.explain(&call).unwrap_err().code, "connection_mismatch");
}
