//! People in the loop: what they are asked, what they say, and that it counts once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up should stop there")]

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contract::{
    ActionType, AgentName, Answer, Approval, ApprovalId, ApprovalState, Call, Category, CostTier, Covers, Digest,
    Effect, EffectKind, Fact, Fault, GrantTerms, Idempotency, LatchKind, Outcome, Person, Principal, Question,
    SafetyClass, Status, ToolDef,
};
use toolgate_runtime::{
    Runtime, Setup, Watch,
    config::{Config, Sources},
    store::{
        Reader, SqliteStore,
        state::{ApprovalFilter, Filed, SqliteState, State},
    },
    tools::{Answer as Said, Cx, Tool},
};

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    #[serde(default)]
    force: bool,
}

/// A tool that counts how often it ran.
fn counting(name: &'static str, def: ToolDef, count: &Arc<AtomicU32>) -> Tool {
    let count = count.clone();
    let def = ToolDef {
        name: name.into(),
        summary: "Count.".into(),
        description: "Counts.".into(),
        category: Category::FileSystem,
        action: ActionType::CodeWrite,
        ..def
    };
    let effects = move |input: &Input| match name {
        "tell" => vec![Effect::on(EffectKind::Network, "a.example:443")],
        _ => vec![Effect::on(EffectKind::FsWrite, input.path.clone())],
    };
    Tool::typed(def, effects, move |_: &Cx, input: Input| {
        if input.path == "broken" {
            return Err(Fault::failed("broken", "it is broken", "Mend it."));
        }
        if input.path == "slow" {
            std::thread::sleep(Duration::from_millis(1_100));
        }
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Said::with_text(input, "counted"))
    })
}

struct House {
    runtime: Runtime,
    count: Arc<AtomicU32>,
    kept: Arc<tempfile::TempDir>,
}

/// Every call of `save` is asked about; `pay` is financial, `rule` privileged, `free` asks nobody.
fn house(config: &str) -> House {
    house_in(Arc::new(tempfile::tempdir().unwrap()), config, Arc::default(), "Counts.")
}

fn house_in(kept: Arc<tempfile::TempDir>, config: &str, count: Arc<AtomicU32>, description: &'static str) -> House {
    let file = kept.path().join("config.yaml");
    let text = format!("policy: {{ ask: {{ tools: [save] }} }}\n{config}");
    fs::write(&file, text).unwrap();
    let config = Config::load(&Sources {
        admin: None,
        explicit: Some(file),
        user: None,
        project: None,
        clients: Vec::new(),
        data_dir: kept.path().join("data"),
        cwd: kept.path().to_owned(),
        workspace: None,
    });
    let config = config.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let store = Arc::new(SqliteStore::open(&kept.path().join("data")).unwrap());
    let state: Arc<dyn State> = Arc::new(SqliteState::open(&kept.path().join("data")).unwrap());
    let of = |safety: SafetyClass| ToolDef { safety, description: description.into(), ..ToolDef::default() };
    let idempotency = Idempotency::Optional;
    let save = counting("save", of(SafetyClass::Write), &count);
    let tools = vec![
        Tool { def: ToolDef { description: description.into(), idempotency, ..save.def.clone() }, ..save },
        counting("free", of(SafetyClass::Write), &count),
        counting("tell", of(SafetyClass::Network), &count),
        counting("fair", ToolDef { cost: CostTier::Medium, ..of(SafetyClass::Write) }, &count),
        counting("dear", ToolDef { cost: CostTier::Expensive, ..of(SafetyClass::Write) }, &count),
        counting("pay", of(SafetyClass::Financial), &count),
        counting("rule", of(SafetyClass::Privileged), &count),
    ];
    let setup = Setup { config, store, state: Some(state), tools, hidden: Vec::new(), rooms: None, secrets: None };
    House { runtime: Runtime::open(setup).unwrap(), count, kept }
}

impl House {
    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_as(tool, arguments, None, Duration::ZERO).await
    }

    async fn call_as(&self, tool: &str, arguments: Value, by: Option<Principal>, hold: Duration) -> Outcome {
        let call = self.runtime.call(&AgentName::from("default"), tool, arguments);
        let call = Call { by: by.unwrap_or_else(|| call.by.clone()), ..call };
        self.runtime.invoke(call, Watch { hold, ..Watch::default() }).await
    }

    async fn pending(&self, tool: &str, arguments: Value) -> ApprovalId {
        let outcome = self.call(tool, arguments).await;
        assert_eq!(outcome.status, Status::Pending, "{outcome:?}");
        ApprovalId(outcome.approval.unwrap())
    }

    async fn says(&self, person: &str, answer: Answer, id: &ApprovalId) -> Result<Approval, Fault> {
        self.runtime.approvals().unwrap().answer(id, &Person::from(person), answer, "because").await
    }

    async fn yes(&self, person: &str, id: &ApprovalId) {
        self.says(person, Answer::Yes, id).await.unwrap();
    }

    fn ran(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// The same place, opened again.
    fn again(self, config: &str, description: &'static str) -> Self {
        let Self { runtime, count, kept } = self;
        drop(runtime);
        house_in(kept, config, count, description)
    }

    async fn grant(&self, tool: &str, patterns: &[(&str, &str)], uses: u32) -> toolgate_contract::Grant {
        let patterns = patterns.iter().map(|(path, pattern)| ((*path).to_owned(), (*pattern).to_owned())).collect();
        self.granting(tool, Covers::Arguments(patterns), uses, None).await.unwrap()
    }

    async fn granting(
        &self,
        tool: &str,
        covers: Covers,
        uses: u32,
        until_ms: Option<u64>,
    ) -> Result<toolgate_contract::Grant, Fault> {
        let (agent, by) = (AgentName::from("default"), Person::from("ann"));
        let (tool, definition, reason) = (tool.to_owned(), self.runtime.definition(tool), String::new());
        let terms = GrantTerms { agent, tool, definition, covers, uses, until_ms, by, reason };
        self.runtime.approvals().unwrap().grant(terms).await
    }
}

fn at(path: &str) -> Value {
    json!({ "path": path })
}

fn short(outcome: &Outcome) -> (Status, Option<&str>) {
    (outcome.status, outcome.code.as_deref())
}

const PENDING: (Status, Option<&str>) = (Status::Pending, Some("approval_required"));
const DONE: (Status, Option<&str>) = (Status::Done, None);

#[tokio::test]
async fn a_yes_is_for_one_call_and_is_used_once() {
    let house = house("");
    let id = house.pending("save", at("a")).await;
    assert_eq!(house.pending("save", at("a")).await, id, "asking again is the same question");
    house.yes("ann", &id).await;
    assert_eq!(short(&house.call("save", at("b")).await), PENDING, "other arguments");
    assert_eq!(short(&house.call("save", json!({ "path": "a", "force": true })).await), PENDING, "more arguments");
    assert_eq!(house.ran(), 0);
    assert_eq!(short(&house.call("save", at("a")).await), DONE);
    assert_eq!(short(&house.call("save", at("a")).await), PENDING, "it is used");
    assert_eq!(house.ran(), 1);
    assert_eq!(house.says("ann", Answer::Yes, &id).await.unwrap_err().code, "not_waiting", "nobody answers twice");
}

#[tokio::test]
async fn a_yes_holds_over_a_restart_and_not_over_a_change() {
    let check = async |config: &str, description: &'static str, expected: (Status, Option<&str>)| {
        let house = house("");
        let id = house.pending("save", at("a")).await;
        house.yes("ann", &id).await;
        let house = house.again(config, description);
        assert_eq!(short(&house.call("save", at("a")).await), expected, "{config} {description}");
    };
    check("", "Counts.", DONE).await;
    check("", "Counts otherwise.", PENDING).await;
    check("protected: [other]", "Counts.", PENDING).await;
}

#[tokio::test]
async fn a_no_is_told_with_its_reason_and_stands() {
    let house = house("approvals: { expires: 2s }");
    let id = house.pending("save", at("a")).await;
    for (said, code) in [(" \n", "reason_missing"), (&*"x".repeat(2_001), "reason_too_long")] {
        let answered = house.runtime.approvals().unwrap().answer(&id, &Person::from("ann"), Answer::No, said).await;
        assert_eq!(answered.unwrap_err().code, code);
    }
    house.says("ann", Answer::No, &id).await.unwrap();
    for _ in 0..2 {
        let outcome = house.call("save", at("a")).await;
        assert_eq!(short(&outcome), (Status::Refused, Some("approval_denied")));
        assert!(outcome.text.contains("`ann` said no") && outcome.text.contains("because"), "{}", outcome.text);
    }
    let under = async |key: &str, path: &str| {
        let call = house.runtime.call(&AgentName::from("default"), "save", at(path));
        house.runtime.invoke(Call { key: Some(key.to_owned()), ..call }, Watch::default()).await
    };
    let keyed = under("k", "a").await;
    assert_eq!(short(&keyed), (Status::Refused, Some("approval_denied")), "a key makes it no other deed");
    assert!(keyed.text.contains(&id.0), "{}", keyed.text);
    assert_eq!(short(&under("k", "b").await), PENDING);
    // Until the question would have expired: then it is asked anew.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let again = house.pending("save", at("a")).await;
    assert_eq!(again.0, format!("{id}-2"));
    assert_eq!(house.ran(), 0);
}

#[tokio::test]
async fn nobody_answers_for_themselves_nor_twice() {
    let house = house("");
    let ann = Some(Principal::Person(Person::from("ann")));
    let asked = house.call_as("rule", at("a"), ann.clone(), Duration::ZERO).await;
    let id = ApprovalId(asked.approval.unwrap());
    let code = async |person: &str| house.says(person, Answer::Yes, &id).await.map_err(|fault| fault.code);
    assert_eq!(code("ann").await.unwrap_err(), "self_approval");
    assert_eq!(code("bob").await.unwrap().state, ApprovalState::Waiting);
    assert_eq!(code("bob").await.unwrap_err(), "already_voted");
    assert_eq!(short(&house.call_as("rule", at("a"), ann.clone(), Duration::ZERO).await), PENDING);
    assert_eq!(code("cat").await.unwrap().state, ApprovalState::Approved);
    // What Ann asked and others approved is hers: the agent itself asks anew.
    assert_eq!(short(&house.call("rule", at("a")).await), PENDING);
    assert_eq!(short(&house.call_as("rule", at("a"), ann, Duration::ZERO).await), DONE);
    assert_eq!(house.ran(), 1);
}

#[tokio::test]
async fn only_those_who_may_answer_do() {
    let house = house("approvals: { people: [ann] }");
    let id = house.pending("save", at("a")).await;
    assert_eq!(house.says("eve", Answer::Yes, &id).await.unwrap_err().code, "wrong_person");
    assert_eq!(house.says("eve", Answer::No, &id).await.unwrap_err().code, "wrong_person");
    house.yes("ann", &id).await;
    assert_eq!(short(&house.call("save", at("a")).await), DONE);
}

/// Who could not say yes to a call does not say it in advance either.
#[tokio::test]
async fn only_those_who_may_answer_grant_and_not_to_themselves() {
    let check = async |people: &str, may: bool| {
        let house = house(&format!("approvals: {people}"));
        let granted = house.granting("save", Covers::Arguments([("path".into(), "**".into())].into()), 2, None).await;
        assert_eq!(granted.map_err(|fault| fault.code).err().as_deref(), (!may).then_some("wrong_person"), "{people}");
        assert_eq!(short(&house.call("save", at("a")).await), if may { DONE } else { PENDING });
        let own = house.call_as("save", at("a"), Some(Principal::Person(Person::from("ann"))), Duration::ZERO).await;
        assert_eq!(short(&own), PENDING);
    };
    check("{}", true).await;
    check("{ people: [ann, bob] }", true).await;
    check("{ people: [bob] }", false).await;
    check("{ timeout: { escalation: [{ to: [ann], after: 1h }] } }", true).await;
    check("{ timeout: { escalation: [{ to: [bob], after: 1h }, { to: [ann], after: 1h }] } }", false).await;
}

#[tokio::test]
async fn a_call_that_waits_goes_on_when_somebody_answers() {
    let check = async |answer: Answer, expected: (Status, Option<&'static str>)| {
        let house = Arc::new(house(""));
        let waiting = tokio::spawn({
            let house = house.clone();
            async move { house.call_as("save", at("a"), None, Duration::from_secs(30)).await }
        });
        let id = loop {
            let filter = ApprovalFilter { states: vec![ApprovalState::Waiting], agent: None, limit: 9 };
            let waits = house.runtime.approvals().unwrap().list(filter).await.unwrap();
            if let Some(approval) = waits.first() {
                break approval.id.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        house.says("ann", answer, &id).await.unwrap();
        assert_eq!(short(&waiting.await.unwrap()), expected);
    };
    check(Answer::Yes, DONE).await;
    check(Answer::No, (Status::Refused, Some("approval_denied"))).await;
}

#[tokio::test]
async fn of_two_who_race_for_one_yes_one_gets_it() {
    const ROUNDS: u32 = 1_000;
    let one = house("");
    let other = house_in(one.kept.clone(), "", one.count.clone(), "Counts.");
    for round in 1..=ROUNDS {
        let id = one.pending("save", at("a")).await;
        one.yes("ann", &id).await;
        let (first, second) = tokio::join!(one.call("save", at("a")), other.call("save", at("a")));
        let mut both = [first.status, second.status];
        both.sort_by_key(|status| *status == Status::Pending);
        assert_eq!((both, one.ran()), ([Status::Done, Status::Pending], round), "round {round}");
    }
}

#[tokio::test]
async fn silence_means_what_the_config_says() {
    let check = async |timeout: &str, tool: &str, expected: (Status, Option<&str>)| {
        let house = house(&format!("approvals: {{ timeout: {timeout} }}"));
        house.pending(tool, at("a")).await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        house.runtime.approvals().unwrap().tend().await.unwrap();
        assert_eq!(short(&house.call(tool, at("a")).await), expected, "{timeout} {tool}");
    };
    let approve = "{ tiered: { medium: { after: 1s, then: approve }, low: { after: 1s, then: approve } } }";
    let denied = (Status::Refused, Some("approval_denied"));
    check("wait", "save", PENDING).await;
    check("{ deny_after: 1s }", "save", denied).await;
    check(approve, "save", DONE).await;
    check(approve, "pay", PENDING).await;
    check(approve, "rule", PENDING).await;
    check("{ escalation: [{ to: [ann], after: 1s }] }", "save", denied).await;
}

/// Whoever agrees to a call has seen its words and stands for them; silence has seen nothing.
#[tokio::test]
async fn silence_stands_for_no_words() {
    let house = house(
        "approvals: { timeout: { tiered: { medium: { after: 1s, then: approve } } } }\n\
         information_flow: { mode: off, sinks: [{ tool: free, argument: path, from: user }] }",
    );
    let id = house.pending("save", at("agreed.txt")).await;
    house.yes("ann", &id).await;
    house.pending("save", at("silent.txt")).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for (path, after) in [("agreed.txt", DONE), ("silent.txt", PENDING)] {
        assert_eq!(short(&house.call("save", at(path)).await), DONE, "{path}");
        assert_eq!(short(&house.call("free", at(path)).await), after, "{path}");
    }
}

/// Nobody reads a flood of questions, and what waits behind it does not wait for ever.
#[tokio::test]
async fn a_flood_of_questions_is_refused_and_time_is_up_for_all_of_them() {
    let house = house("approvals: { timeout: { deny_after: 1s } }");
    let id = house.pending("save", at("0")).await;
    let asked = house.runtime.approvals().unwrap().show(&id).await.unwrap().unwrap();
    let state = SqliteState::open(&house.kept.path().join("data")).unwrap();
    for n in 1..=250_u8 {
        let agent = AgentName::from(if n < 100 { "default" } else { ["b", "c", "d"][usize::from(n % 3)] });
        let question = Question { agent, digest: Digest::of(&[n]), ..asked.question.clone() };
        assert!(matches!(state.file(question, asked.created_ms).await.unwrap(), Filed::New(_)), "{n}");
    }
    let waiting = ApprovalFilter { states: vec![ApprovalState::Waiting], agent: None, limit: 999 };
    assert_eq!(state.approvals(waiting.clone()).await.unwrap().len(), 251);
    assert_eq!(short(&house.call("save", at("more")).await), (Status::Refused, Some("too_many_questions")));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    house.runtime.approvals().unwrap().tend().await.unwrap();
    assert_eq!(state.approvals(waiting).await.unwrap(), []);
    assert_eq!(short(&house.call("save", at("more")).await), PENDING);
}

#[tokio::test]
async fn an_escalation_asks_others_too() {
    let house = house("approvals: { timeout: { escalation: [{ to: [ann], after: 1s }, { to: [bob], after: 1h }] } }");
    let id = house.pending("save", at("a")).await;
    assert_eq!(house.says("bob", Answer::Yes, &id).await.unwrap_err().code, "wrong_person");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let events = house.runtime.approvals().unwrap().tend().await.unwrap();
    assert_eq!(events.len(), 1);
    house.yes("bob", &id).await;
    assert_eq!(short(&house.call("save", at("a")).await), DONE);
}

#[tokio::test]
async fn a_grant_is_for_what_it_names_as_often_as_it_says() {
    let house = house("");
    let grant = house.grant("save", &[("path", "src/*")], 2).await;
    assert_eq!(short(&house.call("save", at("doc/a")).await), PENDING);
    assert_eq!(short(&house.call("save", json!({ "path": "src/a", "force": true })).await), PENDING);
    assert_eq!(short(&house.call("save", at("src/../a")).await), PENDING);
    assert_eq!(short(&house.call("save", at("src/a")).await), DONE);
    assert_eq!(short(&house.call("save", at("src/b")).await), DONE);
    assert_eq!(short(&house.call("save", at("src/c")).await), PENDING, "it is used up");
    assert_eq!(house.ran(), 2);
    let revoked = house.grant("save", &[("path", "lib/*")], 9).await;
    let approvals = house.runtime.approvals().unwrap();
    assert!(approvals.revoke(&revoked.id, &Person::from("ann")).await.unwrap().is_some());
    assert!(approvals.revoke(&revoked.id, &Person::from("ann")).await.unwrap().is_none());
    assert_eq!(short(&house.call("save", at("lib/a")).await), PENDING);
    let left: Vec<_> = approvals.grants(None).await.unwrap().into_iter().map(|grant| (grant.id, grant.left)).collect();
    assert_eq!(left, [(revoked.id, 9), (grant.id, 0)]);
}

/// Whoever granted something has seen what it was then.
#[tokio::test]
async fn a_grant_is_for_the_tool_as_it_was_defined() {
    let house = house("");
    let grant = house.grant("save", &[("path", "**")], 9).await;
    assert!(!house.runtime.is_stale(&grant));
    let house = house.again("", "Counts otherwise.");
    assert_eq!(short(&house.call("save", at("a")).await), PENDING);
    assert!(house.runtime.is_stale(&grant));
    let house = house.again("", "Counts.");
    assert_eq!(short(&house.call("save", at("a")).await), DONE);
    let nothing = house.granting("no_such_tool", Covers::Arguments(Default::default()), 1, None).await;
    assert_eq!(nothing.unwrap_err().code, "no_definition");
}

#[tokio::test]
async fn no_grant_stands_for_a_second_person_nor_for_money_at_large() {
    let house = house("");
    house.grant("pay", &[("path", "**")], 9).await;
    house.grant("rule", &[("path", "**")], 9).await;
    let pay = house.pending("pay", at("a")).await;
    let rule = house.pending("rule", at("a")).await;
    let digest = async |id: &ApprovalId| -> Digest {
        house.runtime.approvals().unwrap().show(id).await.unwrap().unwrap().question.digest
    };
    house.granting("pay", Covers::Exactly(digest(&pay).await), 1, None).await.unwrap();
    house.granting("rule", Covers::Exactly(digest(&rule).await), 1, None).await.unwrap();
    assert_eq!(short(&house.call("pay", at("a")).await), DONE, "this exact payment was granted");
    assert_eq!(short(&house.call("pay", at("a")).await), PENDING);
    assert_eq!(short(&house.call("rule", at("a")).await), PENDING, "a grant is one person's");
    let past = house.granting("save", Covers::Arguments(Default::default()), 1, Some(1)).await;
    assert_eq!(past.unwrap_err().code, "in_the_past");
}

#[tokio::test]
async fn a_call_beyond_the_budget_is_asked_about_and_holds_the_agent_back() {
    let house = house("agents: { default: { budget: { day: { calls: 2 } } } }");
    assert_eq!(short(&house.call("free", at("a")).await), DONE);
    assert_eq!(short(&house.call("free", at("b")).await), DONE);
    let outcome = house.call("free", at("c")).await;
    assert_eq!(short(&outcome), PENDING);
    assert!(outcome.text.contains("the call would pass the agent's budget"), "{}", outcome.text);
    house.yes("ann", &ApprovalId(outcome.approval.unwrap())).await;
    assert_eq!(short(&house.call("free", at("c")).await), DONE);
    // It is held to `supervised` until somebody lets go.
    let latches = house.runtime.means().latches(&AgentName::from("default")).await.unwrap();
    assert!(latches.iter().any(|latch| latch.kind == LatchKind::BudgetExhausted && latch.holds()), "{latches:?}");
    let text = house.call("free", at("d")).await.text;
    assert!(text.contains("autonomy `supervised`"), "{text}");
    let agent = AgentName::from("default");
    assert!(house.runtime.means().release(&agent, LatchKind::BudgetExhausted, &Person::from("ann")).await.unwrap());
    assert!(!house.runtime.means().release(&agent, LatchKind::BudgetExhausted, &Person::from("ann")).await.unwrap());
    assert_eq!(house.ran(), 3);
}

#[tokio::test]
async fn a_budget_is_counted_per_task_and_in_units_of_cost() {
    let house = house("agents: { default: { budget: { task: { cost: 100 } } } }");
    let call = async |tool: &str, task: Option<&str>| {
        let call = house.runtime.call(&AgentName::from("default"), tool, at("a"));
        let call = Call { task: task.map(str::to_owned), ..call };
        house.runtime.invoke(call, Watch::default()).await.status
    };
    assert_eq!(call("dear", Some("one")).await, Status::Done);
    assert_eq!(call("dear", Some("one")).await, Status::Pending);
    house
        .runtime
        .means()
        .release(&AgentName::from("default"), LatchKind::BudgetExhausted, &Person::from("ann"))
        .await
        .unwrap();
    assert_eq!(call("dear", Some("two")).await, Status::Done);
    assert_eq!(call("free", Some("two")).await, Status::Pending);
}

#[tokio::test]
async fn the_dearest_calls_are_spending_whatever_else_they_are() {
    let house = house("agents: { default: { ask: { actions: [budget:spend] } } }");
    for (tool, expected) in [("free", Status::Done), ("fair", Status::Done), ("dear", Status::Pending)] {
        assert_eq!(house.call(tool, at("a")).await.status, expected, "{tool}");
    }
}

/// Two calls of a task, and of each meter there is only enough for the first.
#[tokio::test]
async fn every_meter_binds_in_every_window() {
    // The arguments are 12 bytes; what takes a moment takes 1.1 s.
    let check = async |window: &str, meter: &str, tool: &str, path: &str| {
        let house = house(&format!("agents: {{ default: {{ budget: {{ {window}: {{ {meter} }} }} }} }}"));
        let call = async || {
            let call = house.runtime.call(&AgentName::from("default"), tool, at(path));
            house.runtime.invoke(Call { task: Some("one".to_owned()), ..call }, Watch::default()).await
        };
        assert_eq!(short(&call().await), DONE, "{window} {meter}");
        let second = call().await;
        assert_eq!(short(&second), PENDING, "{window} {meter}");
        assert!(second.text.contains("the call would pass the agent's budget"), "{window} {meter}: {}", second.text);
    };
    for window in ["task", "day", "ever"] {
        check(window, "calls: 1", "free", "a").await;
        check(window, "cost: 19", "fair", "a").await;
        check(window, "bytes_out: 13b", "tell", "a").await;
        check(window, "wall_time: 1s", "free", "slow").await;
    }
}

#[tokio::test]
async fn too_many_errors_hold_an_agent_back() {
    let house = house("autonomy: { downgrade: { error_rate: { over: 0.5, of_last: 4, to: locked } } }");
    for _ in 0..3 {
        assert_eq!(short(&house.call("free", at("broken")).await), (Status::Failed, Some("broken")));
    }
    assert_eq!(short(&house.call("free", at("a")).await), DONE);
    assert_eq!(short(&house.call("free", at("a")).await), PENDING);
}

#[tokio::test]
async fn an_incident_holds_an_agent_back() {
    let house = house("");
    assert_eq!(short(&house.call("free", at("a")).await), DONE);
    let agent = AgentName::from("default");
    let incident = Fact::Incident { incident: "leak-1".into() };
    house.runtime.trust().report(&agent, Some(Category::FileSystem), incident, &Person::from("ann")).await.unwrap();
    // Another program may have reported it, so it is believed for a moment that nobody did.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let outcome = house.call("free", at("a")).await;
    assert_eq!(short(&outcome), PENDING);
    assert!(outcome.text.contains("autonomy `locked`"), "{}", outcome.text);
}

#[tokio::test]
async fn everything_people_do_is_in_the_record() {
    let house = house("");
    let id = house.pending("save", at("a")).await;
    house.yes("ann", &id).await;
    assert!(house.says("ann", Answer::Yes, &id).await.is_err());
    house.grant("save", &[("path", "x")], 1).await;
    house.call("save", at("a")).await;
    let data = house.kept.path().join("data");
    drop(house.runtime);
    let kinds = notes(&data);
    let expected = ["approval_asked", "approval_answered", "approval_answered", "approval_answer_refused", "granted"];
    assert_eq!(kinds, expected);
}

/// The kinds of notes in a record.
fn notes(data: &Path) -> Vec<String> {
    let lines = Reader::open(data).unwrap().after(0, 1_000).unwrap();
    let kind = |body: &Value| Some(body.pointer("/note/kind")?.as_str()?.to_owned());
    lines.iter().filter_map(|line| kind(&line.body)).collect()
}
