//! Effects that happen once, against a remote that counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should stop there")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, AgentName, Call, Category, Effect, EffectKind, Fault, Idempotency, Outcome, Person, SafetyClass,
    Status, ToolDef,
};
use toolgate_runtime::{
    Runtime, Setup, Watch,
    config::Config,
    store::{
        SqliteStore,
        state::{EffectFilter, SqliteState, State},
    },
    tools::{Answer, Cx, Reconciled, Tool},
};

/// A character nobody sees.
const HIDDEN: char = '\u{e0041}';

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    amount: u32,
}

/// What somebody else keeps: orders by their key.
#[derive(Clone, Default)]
struct Remote {
    orders: Arc<Mutex<BTreeMap<String, Vec<u32>>>>,
    how: Arc<Mutex<How>>,
    /// Whoever has its other end has not let go of an order yet.
    gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum How {
    #[default]
    Answers,
    /// The order is taken and the answer is lost.
    LosesTheAnswer,
    /// The order never arrives, and nobody knows.
    LosesTheOrder,
    /// Nobody is there.
    IsGone,
    /// The order is taken when somebody lets go of it.
    Lingers,
}

impl Remote {
    fn orders(&self) -> Vec<(String, Vec<u32>)> {
        self.orders.lock().unwrap().clone().into_iter().collect()
    }

    fn take(&self, cx: &Cx, order: &Order) -> Result<Answer<Order>, Fault> {
        let how = *self.how.lock().unwrap();
        if how == How::IsGone {
            return Err(Fault::failed("connect_failed", "nobody answers", "Try again.").untouched());
        }
        if let Some(gate) = self.gate.lock().unwrap().take_if(|_| how == How::Lingers) {
            gate.recv().unwrap_err();
        }
        if how != How::LosesTheOrder {
            let key = cx.key().unwrap_or("none").to_owned();
            self.orders.lock().unwrap().entry(key).or_default().push(order.amount);
        }
        match how {
            How::Answers => Ok(Answer::with_text(Order { amount: order.amount }, format!("ordered {}", order.amount))),
            _ => Err(Fault::failed("timed_out", "no answer came", "Look.")),
        }
    }

    fn tool(&self, name: &'static str, idempotency: Idempotency) -> Tool {
        let remote = self.clone();
        let def = ToolDef {
            name: name.into(),
            summary: "Order something.".into(),
            description: "Orders something.".into(),
            category: Category::FileSystem,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            idempotency,
            ..ToolDef::default()
        };
        let effects = |_: &Order| vec![Effect { kind: EffectKind::FsWrite, target: None }];
        Tool::typed(def, effects, move |cx: &Cx, order: Order| remote.take(cx, &order))
    }

    fn looking(&self, name: &'static str) -> Tool {
        let remote = self.clone();
        let mut tool = self.tool(name, Idempotency::Required).reconciling(move |cx: &Cx, order: Order| {
            Ok(match remote.orders.lock().unwrap().get(cx.key().unwrap()) {
                Some(_) => Reconciled::Happened(Answer::with_text(order, format!("it was ordered{HIDDEN}"))),
                None => Reconciled::DidNotHappen,
            })
        });
        tool.def.timeout = Duration::from_millis(200);
        tool
    }
}

struct House {
    runtime: Runtime,
    remote: Remote,
    kept: tempfile::TempDir,
}

fn house() -> House {
    let kept = tempfile::tempdir().unwrap();
    let remote = Remote::default();
    House { runtime: open(&kept, &remote), remote, kept }
}

fn open(kept: &tempfile::TempDir, remote: &Remote) -> Runtime {
    let state: Arc<dyn State> = Arc::new(SqliteState::open(kept.path()).unwrap());
    let setup = Setup {
        config: Config::built_in(kept.path()),
        store: Arc::new(SqliteStore::open(kept.path()).unwrap()),
        state: Some(state),
        tools: vec![
            remote.tool("order", Idempotency::Required),
            remote.tool("wish", Idempotency::Optional),
            remote.tool("plain", Idempotency::None),
            remote.looking("find"),
        ],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    Runtime::open(setup).unwrap()
}

impl House {
    async fn call(&self, tool: &str, amount: u32, key: Option<&str>) -> Outcome {
        let call = self.runtime.call(&AgentName::from("default"), tool, json!({ "amount": amount }));
        let call = Call { key: key.map(str::to_owned), ..call };
        self.runtime.invoke(call, Watch::default()).await
    }

    fn is(&self, how: How) {
        *self.remote.how.lock().unwrap() = how;
    }

    async fn states(&self) -> Vec<(String, String)> {
        let filter = EffectFilter { states: Vec::new(), agent: None, limit: 100 };
        let effects = self.runtime.effects().unwrap().list(filter).await.unwrap();
        effects.into_iter().map(|once| (once.key.key, once.state.to_string())).collect()
    }
}

fn short(outcome: &Outcome) -> (Status, Option<&str>, bool) {
    (outcome.status, outcome.code.as_deref(), outcome.replayed)
}

#[tokio::test]
async fn a_key_is_given_where_it_is_wanted_and_nowhere_else() {
    let house = house();
    let check = async |tool: &str, key: Option<&str>, code: Option<&str>| {
        assert_eq!(house.call(tool, 1, key).await.code.as_deref(), code, "{tool} {key:?}");
    };
    check("order", None, Some("key_required")).await;
    check("order", Some("k1"), None).await;
    check("wish", None, None).await;
    check("wish", Some("k1"), None).await;
    check("plain", None, None).await;
    check("plain", Some("k1"), Some("key_not_taken")).await;
    for bad in ["", "a b", "k\n", "k\u{e9}", &"k".repeat(256)] {
        check("order", Some(bad), Some("bad_key")).await;
    }
}

#[tokio::test]
async fn the_same_call_gets_the_same_answer_and_the_remote_is_asked_once() {
    let house = house();
    let first = house.call("order", 7, Some("k")).await;
    assert_eq!(short(&first), (Status::Done, None, false));
    let again = house.call("order", 7, Some("k")).await;
    assert_eq!(short(&again), (Status::Done, None, true));
    assert_eq!((&again.text, &again.structured, &again.labels), (&first.text, &first.structured, &first.labels));
    // A restart forgets nothing.
    let House { runtime, remote, kept } = house;
    drop(runtime);
    let house = House { runtime: open(&kept, &remote), remote, kept };
    assert_eq!(short(&house.call("order", 7, Some("k")).await), (Status::Done, None, true));
    assert_eq!(house.remote.orders(), [("k".to_owned(), vec![7])]);
}

#[tokio::test]
async fn another_call_under_the_same_key_is_a_conflict() {
    let house = house();
    house.call("order", 7, Some("k")).await;
    assert_eq!(short(&house.call("order", 8, Some("k")).await), (Status::Refused, Some("key_conflict"), false));
    assert_eq!(house.remote.orders(), [("k".to_owned(), vec![7])]);
}

#[tokio::test]
async fn what_nobody_can_say_is_not_tried_again_until_a_person_says() {
    let house = house();
    let effects = house.runtime.effects().unwrap();
    let person = Person::from("ann");
    for (key, happened) in [("yes", true), ("no", false)] {
        house.is(How::LosesTheAnswer);
        assert_eq!(house.call("order", 1, Some(key)).await.code.as_deref(), Some("timed_out"));
        house.is(How::Answers);
        assert_eq!(short(&house.call("order", 1, Some(key)).await), (Status::Refused, Some("effect_unknown"), false));
        let once =
            toolgate_contract::OnceKey { agent: AgentName::from("default"), tool: "order".into(), key: key.into() };
        effects.resolve(&once, &person, happened, "seen in the shop").await.unwrap();
        assert_eq!(effects.resolve(&once, &person, happened, "").await.unwrap_err().code, "not_unknown");
        let after = house.call("order", 1, Some(key)).await;
        assert_eq!((after.status, after.replayed), (Status::Done, happened), "{key}");
    }
    // The first order under `no` had arrived after all: the person was wrong, and that is theirs.
    assert_eq!(house.remote.orders(), [("no".to_owned(), vec![1, 1]), ("yes".to_owned(), vec![1])]);
}

#[tokio::test]
async fn what_for_sure_did_not_happen_may_be_tried_again() {
    let house = house();
    house.is(How::IsGone);
    assert_eq!(house.call("order", 1, Some("k")).await.code.as_deref(), Some("connect_failed"));
    assert_eq!(house.states().await, [("k".to_owned(), "failed".to_owned())]);
    house.is(How::Answers);
    assert_eq!(short(&house.call("order", 1, Some("k")).await), (Status::Done, None, false));
    assert_eq!(house.remote.orders(), [("k".to_owned(), vec![1])]);
}

#[tokio::test]
async fn a_tool_that_can_look_finds_out_what_became_of_it() {
    let house = house();
    let check = async |key: &str, lost: How, expected: [(Status, Option<&'static str>, bool); 2]| {
        house.is(lost);
        assert_eq!(house.call("find", 1, Some(key)).await.code.as_deref(), Some("timed_out"));
        house.is(How::Answers);
        for expected in expected {
            let outcome = house.call("find", 1, Some(key)).await;
            assert_eq!(short(&outcome), expected, "{key}");
        }
    };
    let done = (Status::Done, None, true);
    check("answer", How::LosesTheAnswer, [done, done]).await;
    let did_not = (Status::Failed, Some("effect_did_not_happen"), false);
    check("order", How::LosesTheOrder, [did_not, (Status::Done, None, false)]).await;
    assert_eq!(house.remote.orders(), [("answer".to_owned(), vec![1]), ("order".to_owned(), vec![1])]);
}

#[tokio::test]
async fn what_a_tool_found_out_is_kept_as_it_was_told() {
    let house = house();
    house.is(How::LosesTheAnswer);
    house.call("find", 1, Some("k")).await;
    let found = house.call("find", 1, Some("k")).await;
    let again = house.call("find", 1, Some("k")).await;
    assert_eq!([&*found.text, &*again.text], ["it was ordered"; 2]);
    assert_eq!((&again.labels, &again.findings), (&found.labels, &found.findings));
}

/// Its call is answered, and it may still take effect: nobody finds out that it did not, and nobody tries it again.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_a_body_is_still_at_is_neither_looked_for_nor_tried_again() {
    let house = house();
    let (let_go, gate) = mpsc::channel();
    *house.remote.gate.lock().unwrap() = Some(gate);
    house.is(How::Lingers);
    assert_eq!(house.call("find", 1, Some("k")).await.code.as_deref(), Some("effect_unknown"));
    house.is(How::Answers);
    for _ in 0..2 {
        assert_eq!(house.call("find", 1, Some("k")).await.code.as_deref(), Some("effect_running"));
    }
    let once = toolgate_contract::OnceKey { agent: AgentName::from("default"), tool: "find".into(), key: "k".into() };
    let said = house.runtime.effects().unwrap().resolve(&once, &Person::from("ann"), false, "").await;
    assert_eq!(said.unwrap_err().code, "effect_running");
    drop(let_go);
    let until = Instant::now() + Duration::from_secs(20);
    while house.call("find", 1, Some("k")).await.code.as_deref() == Some("effect_running") {
        assert!(Instant::now() < until, "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(short(&house.call("find", 1, Some("k")).await), (Status::Done, None, true));
    assert_eq!(house.remote.orders(), [("k".to_owned(), vec![1])]);
}

#[tokio::test]
async fn without_a_place_for_keys_nothing_is_done_under_one() {
    let kept = tempfile::tempdir().unwrap();
    let remote = Remote::default();
    let setup = Setup {
        config: Config::built_in(kept.path()),
        store: Arc::new(SqliteStore::open(kept.path()).unwrap()),
        state: None,
        tools: vec![remote.tool("order", Idempotency::Required)],
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    let house = House { runtime: Runtime::open(setup).unwrap(), remote, kept };
    assert_eq!(short(&house.call("order", 1, Some("k")).await), (Status::Refused, Some("keys_not_kept"), false));
    assert_eq!(house.remote.orders(), []);
}
