//! Trust on the road: what is written down, and what happens where nothing can be read.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_contract::{
    ActionType, AgentName, Call, Category, Difficulty, Effect, EffectKind, End, Fact, Idempotency, Intent, Level, Note,
    Outcome, Person, Principal, SafetyClass, Score, Status, TaskOutcome, ToolDef,
};
use toolgate_runtime::{
    Runtime, Setup, Watch, built_in_tools,
    config::{Config, Sources},
    store::{
        Store, StoreError,
        state::{SqliteState, State},
    },
    tools::{Answer, Cx, Tool},
};

/// Keeps notes, or refuses to.
#[derive(Default)]
struct Notes {
    notes: Mutex<Vec<Note>>,
    broken: AtomicBool,
}

impl Store for Notes {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, _: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn note(&self, note: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.broken.load(Ordering::SeqCst) {
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

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wish {}

/// A tool that does what is asked once.
fn wish() -> Tool {
    let def = ToolDef {
        name: "wish".into(),
        summary: "Wish.".into(),
        description: "Wishes.".into(),
        category: Category::FileSystem,
        action: ActionType::CodeWrite,
        safety: SafetyClass::Write,
        idempotency: Idempotency::Optional,
        ..ToolDef::default()
    };
    let effects = |_: &Wish| vec![Effect { kind: EffectKind::FsWrite, target: None }];
    Tool::typed(def, effects, |_: &Cx, wish: Wish| Ok(Answer::with_text(wish, "granted")))
}

struct House {
    runtime: Runtime,
    store: Arc<Notes>,
    state: Arc<SqliteState>,
    dir: TempDir,
}

const QUICK: &str = "
trust:
  strategy: milestone
  initial_level: restricted
  milestones: { restricted_to_standard: { tasks_completed: 1 } }
agents: { default: {}, pinned: { level: standard } }
";

fn house(config: &str) -> House {
    let dir = tempfile::tempdir().unwrap();
    for name in ["data", "work"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("work/a.txt"), "here\n").unwrap();
    let user = dir.path().join("user.yaml");
    fs::write(&user, config).unwrap();
    let data_dir = dir.path().join("data");
    let cwd = dir.path().join("work");
    let sources = Sources {
        admin: None,
        explicit: Some(user),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir,
        cwd,
        workspace: None,
    };
    let config = Config::load(&sources).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let store = Arc::new(Notes::default());
    let state = Arc::new(SqliteState::open(&dir.path().join("data")).unwrap());
    let setup = Setup {
        config,
        store: store.clone(),
        state: Some(state.clone()),
        tools: built_in_tools().into_iter().chain([wish()]).collect(),
        hidden: Vec::new(),
        rooms: None,
        secrets: None,
    };
    House { runtime: Runtime::open(setup).unwrap(), store, state, dir }
}

impl House {
    async fn call_as(&self, agent: &str, tool: &str, arguments: Value) -> Outcome {
        let call = self.runtime.call(&AgentName::from(agent), tool, arguments);
        self.runtime.invoke(call, Watch::default()).await
    }

    async fn read(&self, agent: &str) -> Outcome {
        self.call_as(agent, "read", json!({ "path": "a.txt" })).await
    }

    /// What is known about the agent, by category.
    async fn known(&self) -> Vec<(Option<Category>, Fact)> {
        let evidence = self.state.evidence(agent()).await.unwrap();
        evidence.into_iter().map(|one| (one.category, one.fact)).collect()
    }

    async fn level(&self, category: Category) -> Level {
        self.runtime.trust().standing(&agent()).await.unwrap().unwrap().level(category)
    }
}

fn agent() -> AgentName {
    AgentName::from("default")
}

fn jo() -> Person {
    Person::from("user:jo")
}

fn task(name: &str, outcome: TaskOutcome) -> Fact {
    Fact::Task { task: name.into(), outcome, difficulty: Difficulty::Medium, quality: Score::parse("9") }
}

fn role() -> (Option<Category>, Fact) {
    (None, Fact::Identity { part: toolgate_contract::Part::Role, value: String::new() })
}

#[tokio::test]
async fn many_calls_that_went_well_are_one_entry() {
    let house = house(QUICK);
    for _ in 0..30 {
        assert_eq!(house.read("default").await.status, Status::Done);
    }
    let files = Some(Category::FileSystem);
    assert_eq!(house.known().await, [role(), (files, Fact::Calls { ok: 1, failed: 0 })]);

    // A failure is written down at once, with what went well before it; one right after it is counted.
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "missing", "new": "x" }] });
    for _ in 0..3 {
        assert_eq!(house.call_as("default", "edit", edit.clone()).await.status, Status::Failed);
    }
    let known = house.known().await;
    assert_eq!(known[2..], [(files, Fact::Calls { ok: 29, failed: 1 })]);
}

#[tokio::test]
async fn a_call_counts_in_the_category_of_its_tool() {
    let house = house(QUICK);
    assert_eq!(house.read("default").await.status, Status::Done);
    assert_eq!(house.call_as("default", "echo", json!({ "text": "x" })).await.status, Status::Done);
    let once = |category| (Some(category), Fact::Calls { ok: 1, failed: 0 });
    assert_eq!(house.known().await, [role(), once(Category::FileSystem), once(Category::Analytics)]);
}

#[tokio::test]
async fn what_is_told_again_is_not_done_again() {
    let house = house(QUICK);
    for replayed in [false, true, true] {
        let call = house.runtime.call(&agent(), "wish", json!({}));
        let outcome = house.runtime.invoke(Call { key: Some("k".into()), ..call }, Watch::default()).await;
        assert_eq!((outcome.status, outcome.replayed), (Status::Done, replayed), "{}", outcome.text);
    }
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "missing", "new": "x" }] });
    house.call_as("default", "edit", edit).await;
    let calls = |ok, failed| (Some(Category::FileSystem), Fact::Calls { ok, failed });
    assert_eq!(house.known().await, [role(), calls(1, 0), calls(0, 1)]);
}

#[tokio::test]
async fn what_tells_nothing_about_the_work_is_not_counted() {
    let house = house(QUICK);
    let refused = house.call_as("default", "shell", json!({ "command": "ls" })).await;
    assert_eq!(refused.status, Status::Refused);
    let looked = house.call_as("default", "read", json!({ "path": "missing.txt" })).await;
    assert_eq!(looked.status, Status::Failed);
    let wrong = house.call_as("default", "write", json!({ "paht": "a.txt" })).await;
    assert_eq!(wrong.status, Status::Failed);
    let watch = Watch::default();
    watch.cancel.cancel();
    let call = house.runtime.call(&agent(), "write", json!({ "path": "b.txt", "content": "x" }));
    assert_eq!(house.runtime.invoke(call, watch).await.code.as_deref(), Some("cancelled"));
    assert_eq!(house.known().await, [role()]);
}

#[tokio::test]
async fn nothing_is_known_about_agents_that_trust_does_not_move() {
    let house = house(QUICK);
    assert_eq!(house.read("pinned").await.status, Status::Done);
    assert_eq!(house.state.evidence(AgentName::from("pinned")).await.unwrap(), []);
    let fixed = self::house("agents: { default: { level: restricted } }\n");
    assert_eq!(fixed.read("default").await.status, Status::Done);
    assert_eq!(fixed.known().await, []);
    assert_eq!(fixed.runtime.trust().standing(&agent()).await.unwrap(), None);
}

#[tokio::test]
async fn what_people_say_is_in_the_record_before_it_counts() {
    let house = house(QUICK);
    let trust = house.runtime.trust();
    let web = Some(Category::Web);
    let done = task("t1", TaskOutcome::Success);
    house.store.broken.store(true, Ordering::SeqCst);
    trust.report(&agent(), web, done.clone(), &jo()).await.unwrap_err();
    assert_eq!((house.known().await, house.level(Category::Web).await), (vec![], Level::Restricted));

    house.store.broken.store(false, Ordering::SeqCst);
    trust.report(&agent(), web, done.clone(), &jo()).await.unwrap();
    assert_eq!((house.known().await, house.level(Category::Web).await), (vec![(web, done)], Level::Standard));
    let notes = house.store.notes.lock().unwrap();
    let said = notes.iter().map(|note| (note.kind, note.by.clone(), &*note.subject, note.detail.clone()));
    let detail = json!({
        "category": "web",
        "fact": { "kind": "task", "task": "t1", "outcome": "success", "difficulty": "medium", "quality": 9.0 },
    });
    assert_eq!(said.collect::<Vec<_>>(), [("evidence", Some(Principal::Person(jo())), "default", detail)]);
}

#[tokio::test]
async fn nobody_reports_what_is_not_theirs_to_say() {
    let house = house(QUICK);
    let trust = house.runtime.trust();
    let code = async |agent: &str, category, fact| {
        trust.report(&AgentName::from(agent), category, fact, &jo()).await.unwrap_err().code.into_owned()
    };
    let web = Some(Category::Web);
    assert_eq!(code("default", web, Fact::Promotion { to: Level::Elevated }).await, "not_reportable");
    assert_eq!(code("default", web, Fact::Calls { ok: 1_000, failed: 0 }).await, "not_reportable");
    assert_eq!(code("default", None, task("t", TaskOutcome::Success)).await, "category_missing");
    assert_eq!(code("default", web, task("", TaskOutcome::Success)).await, "bad_name");
    assert_eq!(code("default", web, task(&"t".repeat(201), TaskOutcome::Success)).await, "bad_name");
    assert_eq!(code("default", web, task("t\u{1b}[2J", TaskOutcome::Success)).await, "bad_name");
    assert_eq!(code("nobody", web, task("t", TaskOutcome::Success)).await, "unknown_agent");
    assert_eq!(house.known().await, []);
}

#[tokio::test]
async fn another_runtime_on_the_same_state_stands_where_this_one_does() {
    let house = house(QUICK);
    house
        .runtime
        .trust()
        .report(&agent(), Some(Category::Terminal), task("t", TaskOutcome::Success), &jo())
        .await
        .unwrap();
    let other = SqliteState::open(&house.dir.path().join("data")).unwrap();
    let evidence = other.evidence(agent()).await.unwrap();
    let policy = &house.runtime.config().policy;
    let standing = toolgate_gate::trust::stand(&policy.trust, Level::Restricted, &evidence, u64::MAX);
    assert_eq!(standing.level(Category::Terminal), Level::Standard);
    assert_eq!(house.level(Category::Terminal).await, Level::Standard);
}
