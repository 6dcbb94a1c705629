//! Things to remember, for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::Write,
    process::Command,
};

use serde_json::{Value, json};
use toolgate_contract::{
    AgentName, Answer, CallId, Category, Covers, Difficulty, Digest, Effect, EffectKind, Evidence, Fact, GrantTerms,
    Ground, LoginCode, OnceKey, Person, Principal, Question, Risk, SafetyClass, Scope, Score, TaskOutcome, Token,
};
use toolgate_store::state::{Account, ApprovalFilter, Ballot, EffectFilter, Reservation};

/// When everything begins.
pub(crate) const NOW: u64 = 1_760_000_000_000;

pub(crate) fn coder() -> AgentName {
    AgentName::from("coder")
}

pub(crate) fn person(name: &str) -> Person {
    Person::from(name)
}

/// Whoever asks in these tests.
pub(crate) fn requester() -> Principal {
    Principal::Person(person("user:ann"))
}

/// A question that one person answers, within a minute.
pub(crate) fn question(name: &str) -> Question {
    Question {
        digest: Digest::of(name.as_bytes()),
        deed: Some(Digest::of(format!("deed of {name}").as_bytes())),
        call: CallId(format!("call of {name}")),
        agent: coder(),
        principal: requester(),
        tool: "git.push".to_owned(),
        definition: Digest::of(b"definition"),
        arguments: json!({ "remote": "origin", "weight": 0.1, "\u{20ac}": ["\u{1f600}", null, -7] }),
        reasons: vec![Ground {
            rule: "ask_class".to_owned(),
            text: "class `network` needs approval".to_owned(),
            source: "toolgate.yaml:12".to_owned(),
        }],
        people: 1,
        risk: Risk::Medium,
        class: SafetyClass::Network,
        action: "vcs:push".to_owned(),
        effects: vec![Effect::on(EffectKind::Network, "example.com:443")],
        labels: vec!["workspace".to_owned()],
        picture: json!({ "command": "git push origin main" }),
        may_approve: Vec::new(),
        expires_ms: Some(NOW + 60_000),
        once: Some("push-1".to_owned()),
    }
}

pub(crate) fn yes(name: &str) -> Ballot {
    Ballot { by: person(name), answer: Answer::Yes, reason: "looks right".to_owned() }
}

pub(crate) fn no(name: &str) -> Ballot {
    Ballot { by: person(name), answer: Answer::No, reason: "not on a Friday".to_owned() }
}

/// All rounds.
pub(crate) fn every_round() -> ApprovalFilter {
    ApprovalFilter { states: Vec::new(), agent: None, limit: 10_000 }
}

/// All effects.
pub(crate) fn every_effect() -> EffectFilter {
    EffectFilter { states: Vec::new(), agent: None, limit: 10_000 }
}

/// A grant for so many uses, within a minute.
pub(crate) fn terms(uses: u32) -> GrantTerms {
    GrantTerms {
        agent: coder(),
        tool: "git.push".to_owned(),
        definition: Some(Digest::of(b"git.push")),
        covers: Covers::Arguments(BTreeMap::from([("/remote".to_owned(), "origin".to_owned())])),
        uses,
        until_ms: Some(NOW + 60_000),
        by: person("user:bob"),
        reason: "release day".to_owned(),
    }
}

pub(crate) fn key(name: &str) -> OnceKey {
    OnceKey { agent: coder(), tool: "pay".to_owned(), key: name.to_owned() }
}

pub(crate) fn reservation(name: &str) -> Reservation {
    Reservation { key: key(name), fingerprint: Digest::of(b"12 coins to eve"), call: CallId(format!("call of {name}")) }
}

pub(crate) fn evidence(agent: &str, task: &str) -> Evidence {
    Evidence {
        at_ms: NOW,
        agent: AgentName::from(agent),
        category: Some(Category::Web),
        by: "user:bob".to_owned(),
        fact: Fact::Task {
            task: task.to_owned(),
            outcome: TaskOutcome::Success,
            difficulty: Difficulty::Hard,
            quality: Score::parse("8.5"),
        },
    }
}

pub(crate) fn account(task: Option<&str>) -> Account {
    Account { agent: coder(), task: task.map(str::to_owned) }
}

pub(crate) fn token(name: &str) -> Token {
    Token {
        id: format!("tok_{name}"),
        hash: Digest::of(name.as_bytes()),
        principal: Principal::Agent(coder()),
        scopes: BTreeSet::from([Scope::Call, Scope::Read]),
        created_ms: NOW,
        expires_ms: Some(NOW + 3_600_000),
        last_used_ms: None,
        revoked_ms: None,
    }
}

pub(crate) fn code(name: &str) -> LoginCode {
    LoginCode { hash: Digest::of(name.as_bytes()), person: person("user:bob"), expires_ms: NOW + 60_000 }
}

/// An outcome to keep.
pub(crate) fn outcome(text: &str) -> Value {
    json!({ "status": "done", "text": text, "weight": 0.1 })
}

/// This test binary again, to run one of its tests in a process of its own.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// Tells the parent, past the test harness.
pub(crate) fn say(word: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ack {word}").unwrap();
    stdout.flush().unwrap();
}

/// The next word a child said.
pub(crate) fn hear(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<String> {
    lines.find_map(|line| line.ok()?.split_once("ack ").map(|(_, word)| word.to_owned()))
}
