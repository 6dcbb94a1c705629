//! Embeds the runtime with one tool, `pay`, and pays under the keys it is given until it is done or killed.
//!
//! Its arguments: a directory of its own, the address of the remote, then the keys. It says `ready` before the first
//! payment, and a line for each key with how it ended.

#![expect(clippy::expect_used, reason = "only tests start this, and a payer that breaks fails the test")]

use std::{
    env, fs,
    io::{Write as _, stdout},
    path::Path,
    sync::{Arc, Mutex},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_runtime::{
    Runtime, Setup, Watch,
    config::{Config, Sources},
    contract::{
        ActionType, AgentName, Call, Category, Effect, EffectKind, Fault, Idempotency, Method, Needs, Network,
        SafetyClass, ToolDef, WebRequest,
    },
    store::{
        SqliteStore,
        state::{SqliteState, State},
    },
    tools::{Answer, Cx, Reconciled, Tool},
};

/// Payments at the same time.
const WORKERS: usize = 3;
/// How often a key is tried in one life: once to find out what became of it, once to pay, and some for bad luck.
const TRIES: usize = 6;

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Payment {
    amount: u32,
}

#[tokio::main]
async fn main() {
    let mut arguments = env::args().skip(1);
    let place = arguments.next().expect("a directory");
    let remote = arguments.next().expect("an address");
    let keys = Arc::new(Mutex::new(arguments.collect::<Vec<_>>().into_iter()));
    let runtime = open(Path::new(&place), &remote);
    say("ready");
    let workers = (0..WORKERS).map(|_| {
        let (runtime, keys) = (runtime.clone(), keys.clone());
        tokio::spawn(async move {
            while let Some(key) = next(&keys) {
                let end = pay(&runtime, &key).await;
                say(&format!("{key} {end}"));
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("a worker that does not panic");
    }
}

fn next(keys: &Mutex<std::vec::IntoIter<String>>) -> Option<String> {
    keys.lock().expect("nobody panics with the keys in hand").next()
}

/// Pays under a key until it is known how it ended, or it was tried often enough.
async fn pay(runtime: &Runtime, key: &str) -> String {
    let mut code = String::new();
    for _ in 0..TRIES {
        let call = runtime.call(&AgentName::from("default"), "pay", json!({ "amount": 7 }));
        let outcome = runtime.invoke(Call { key: Some(key.to_owned()), ..call }, Watch::default()).await;
        match outcome.code {
            None => return "done".to_owned(),
            Some(why) => code = why,
        }
    }
    code
}

fn open(place: &Path, remote: &str) -> Runtime {
    let data = place.join("data");
    let file = place.join("config.yaml");
    let text = format!("egress: {{ hostname_allowlist: ['{remote}'] }}\ninformation_flow: {{ mode: off }}\n");
    if !file.exists() {
        fs::write(&file, text).expect("a config");
    }
    let config = Config::load(&Sources {
        admin: None,
        explicit: Some(file),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: data.clone(),
        cwd: place.to_owned(),
        workspace: None,
    });
    let state: Arc<dyn State> = Arc::new(SqliteState::open(&data).expect("a state"));
    let setup = Setup {
        config: config.expect("a config that holds"),
        store: Arc::new(SqliteStore::open(&data).expect("a record")),
        state: Some(state),
        tools: vec![tool(remote)],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    Runtime::open(setup).expect("a runtime")
}

fn tool(remote: &str) -> Tool {
    let def = ToolDef {
        name: "pay".into(),
        summary: "Pay.".into(),
        description: "Pays.".into(),
        category: Category::Web,
        action: ActionType::ExternalDataRequest,
        safety: SafetyClass::Network,
        needs: Needs { network: Network::Fenced, ..Needs::NOTHING },
        idempotency: Idempotency::Required,
        ..ToolDef::default()
    };
    let target = remote.to_owned();
    let (to, at) = (remote.to_owned(), remote.to_owned());
    let effects = move |_: &Payment| vec![Effect::on(EffectKind::Network, &target)];
    Tool::typed(def, effects, move |cx: &Cx, payment: Payment| send(cx, &to, payment))
        .reconciling(move |cx: &Cx, payment: Payment| look(cx, &at, payment))
}

fn send(cx: &Cx, remote: &str, payment: Payment) -> Result<Answer<Payment>, Fault> {
    let key = cx.key().expect("a key, because it is required");
    let request = WebRequest {
        method: Method::Post,
        headers: vec![("Idempotency-Key".to_owned(), key.to_owned())],
        body: payment.amount.to_string().into_bytes(),
        ..WebRequest::get(format!("http://{remote}/{key}"))
    };
    match cx.web()?.send(&request, cx.stop_flag())?.status {
        200 => Ok(Answer::new(payment)),
        status => Err(Fault::failed("not_taken", format!("the remote answers {status}"), "Look.")),
    }
}

/// Asks the remote's ledger.
fn look(cx: &Cx, remote: &str, payment: Payment) -> Result<Reconciled<Answer<Payment>>, Fault> {
    let key = cx.key().expect("a key, because it is required");
    let answer = cx.web()?.send(&WebRequest::get(format!("http://{remote}/{key}")), cx.stop_flag())?;
    Ok(match answer.status {
        200 => Reconciled::Happened(Answer::new(payment)),
        404 => Reconciled::DidNotHappen,
        _ => Reconciled::CannotSay,
    })
}

fn say(line: &str) {
    // Whoever listened may be gone; that is the test's business.
    let _ = writeln!(stdout().lock(), "{line}");
}
