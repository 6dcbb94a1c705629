//! Whose words steer a call, for a program that embeds the runtime: it tells what the user said, and a person may stand
//! for a value.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should stop there")]

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contract::{AgentName, End, Intent, Note, Person, Principal, Status, Verdict};
use toolgate_gate::{FlowMode, OriginWanted, Sink, Sourced};
use toolgate_runtime::{
    Runtime, Setup, Watch, built_in_tools,
    config::Config,
    store::{Store, StoreError},
};

/// Remembers notes, or refuses to.
#[derive(Default)]
struct Memory {
    notes: Mutex<Vec<Note>>,
    broken: bool,
}

impl Store for Memory {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, _: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn note(&self, note: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.broken {
                return Err(StoreError::Unwritable { why: "the disk is full".into() });
            }
            self.notes.lock().unwrap().push(note);
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

struct House {
    runtime: Runtime,
    store: Arc<Memory>,
    _workspace: tempfile::TempDir,
}

/// A runtime whose operator wants the paths of what is removed to come from the user.
fn house(broken: bool) -> House {
    let workspace = tempfile::tempdir().unwrap();
    for name in ["one.txt", "two.txt"] {
        std::fs::write(workspace.path().join(name), "x").unwrap();
    }
    let store = Arc::new(Memory { broken, ..Memory::default() });
    let mut config = Config::built_in(workspace.path());
    config.policy.sinks.push(Sink {
        tool: "delete".into(),
        argument: "path".into(),
        from: Sourced::built_in(OriginWanted::User),
        accepts: Vec::new(),
        because: None,
    });
    // A rule for an argument holds whatever the mode is.
    config.policy.flow = Sourced::built_in(FlowMode::Off);
    let setup = Setup {
        config,
        store: store.clone(),
        state: None,
        tools: built_in_tools(),
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    House { runtime: Runtime::open(setup).unwrap(), store, _workspace: workspace }
}

fn agent() -> AgentName {
    AgentName::from("default")
}

/// Asks for a file to be removed: none if it was, else the rule that stood in the way.
async fn delete(house: &House, path: &str) -> Option<&'static str> {
    let call = house.runtime.call(&agent(), "delete", json!({ "path": path }));
    let decided = house.runtime.explain(&call).unwrap().decided;
    let outcome = house.runtime.invoke(call, Watch::default()).await;
    assert_eq!(outcome.status == Status::Done, decided.verdict == Verdict::Allow, "{outcome:?}");
    decided.reasons.first().filter(|_| decided.verdict != Verdict::Allow).map(|reason| reason.rule)
}

#[tokio::test]
async fn what_the_user_said_may_steer_a_call_and_nothing_else() {
    let house = house(false);
    assert_eq!(delete(&house, "one.txt").await, Some("sink_user"));
    house.runtime.user_said(&agent(), "Please remove ONE.txt for me").unwrap();
    assert_eq!(delete(&house, "two.txt").await, Some("sink_user"));
    assert_eq!(delete(&house, "one.txt").await, None);
    assert_eq!(house.runtime.user_said(&AgentName::from("nobody"), "x").unwrap_err().code, "unknown_agent");
}

#[tokio::test]
async fn a_person_who_stands_for_a_value_is_recorded_and_then_believed() {
    let house = house(false);
    let ann = Person::from("ann");
    let values = json!({ "path": "one.txt" });
    house.runtime.declassify(&agent(), values.clone(), &ann).await.unwrap();
    assert_eq!(delete(&house, "two.txt").await, Some("sink_user"));
    assert_eq!(delete(&house, "one.txt").await, None);
    let notes = house.store.notes.lock().unwrap();
    let told: Vec<(&str, Option<&Principal>, &str, &Value)> =
        notes.iter().map(|note| (note.kind, note.by.as_ref(), &*note.subject, &note.detail)).collect();
    let detail = json!({ "values": values });
    assert_eq!(told, [("declassified", Some(&Principal::Person(ann)), "default", &detail)]);
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_believed() {
    let house = house(true);
    let refused = house.runtime.declassify(&agent(), json!("one.txt"), &Person::from("ann")).await;
    assert!(refused.is_err());
    assert_eq!(delete(&house, "one.txt").await, Some("sink_user"));
}
