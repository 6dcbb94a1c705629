//! People in the loop, over the port: what they are asked, what they answer, what becomes of it.

use serde_json::{Value, json};
use toolgate_contract::{
    AgentName, Call, CallId, Covers, Digest, Grant, GrantTerms, OnceKey, Person, Principal, Scope, Status,
};
use toolgate_runtime::{
    Watch,
    store::state::{Completed, Reservation, Reserved},
};

use crate::stage::{OPERATOR, Stage, now};

/// A standing yes to calls of this tool with this text.
pub(crate) async fn grant(stage: &Stage, tool: &str, text: &str) -> Grant {
    let terms = GrantTerms {
        agent: AgentName::from("default"),
        tool: tool.to_owned(),
        definition: stage.runtime.definition(tool),
        covers: Covers::Arguments([("text".to_owned(), text.to_owned())].into()),
        uses: 3,
        until_ms: None,
        by: Person::from(OPERATOR),
        reason: "often".to_owned(),
    };
    stage.runtime.approvals().unwrap().grant(terms).await.unwrap()
}

/// An effect whose holder did not know how it ended.
pub(crate) async fn unknown_effect(stage: &Stage, key: &str) -> OnceKey {
    let key = OnceKey { agent: AgentName::from("default"), tool: "echo".to_owned(), key: key.to_owned() };
    let wanted = Reservation { key: key.clone(), fingerprint: Digest::of(b"x"), call: CallId("c".to_owned()) };
    let Reserved::Fresh(ticket) = stage.state.reserve(wanted, now()).await.unwrap() else { panic!("it is new") };
    stage.state.complete(ticket, Completed::Unknown(json!({})), now()).await.unwrap();
    key
}

async fn ask(stage: &Stage, text: &str) -> String {
    let asked = stage.call("careful", json!({ "text": text })).await;
    assert_eq!(asked.status, Status::Pending, "{asked:?}");
    asked.approval.unwrap()
}

#[tokio::test]
async fn a_yes_lets_the_call_run_once() {
    let stage = Stage::new().await;
    let person = stage.person("bob", &[Scope::Read, Scope::Approve]).await;
    let id = ask(&stage, "hello").await;
    let waiting = stage.get("/api/approvals?state=waiting", &person).await.json();
    assert_eq!(waiting["approvals"][0]["id"], json!(id));
    assert_eq!(waiting["approvals"][0]["question"]["arguments"], json!({ "text": "hello" }));

    let said = stage.post(&format!("/api/approvals/{id}/approve"), &person, &json!({ "reason": "fine" })).await.json();
    assert_eq!((&said["state"], &said["votes"][0]["by"]), (&json!("approved"), &json!("bob")));
    let agent = stage.agent().await;
    let again = json!({ "tool": "careful", "arguments": { "text": "hello" } });
    let ran = stage.post("/api/calls", &agent, &again).await.json();
    assert_eq!((&ran["status"], &ran["structured"]["text"]), (&json!("done"), &json!("hello")));
    let third = stage.post("/api/calls", &agent, &again).await.json();
    assert_eq!(third["status"], "pending", "a yes is used once");
    assert_ne!(third["approval"], json!(id));
}

#[tokio::test]
async fn a_no_needs_a_reason_and_the_agent_is_told_it() {
    let stage = Stage::new().await;
    let person = stage.person("bob", &[Scope::Read, Scope::Approve]).await;
    let id = ask(&stage, "hello").await;
    let path = format!("/api/approvals/{id}/deny");
    let check = async |body: Value, code: &str| {
        assert_eq!(stage.post(&path, &person, &body).await.problem(), (400, code.to_owned()), "{body}");
    };
    for body in [json!({}), json!({ "reason": "" }), json!({ "reason": "  \n" })] {
        check(body, "reason_missing").await;
    }
    check(json!({ "reason": "x".repeat(2_001) }), "reason_too_long").await;
    let denied = stage.post(&path, &person, &json!({ "reason": "use the staging copy" })).await;
    assert_eq!(denied.json()["state"], "denied");
    let told = stage.call("careful", json!({ "text": "hello" })).await;
    assert_eq!((told.status, told.code.as_deref()), (Status::Refused, Some("approval_denied")));
    assert!(told.text.contains("use the staging copy"), "{}", told.text);
}

#[tokio::test]
async fn who_asked_does_not_answer_and_nobody_answers_twice() {
    let stage = Stage::new().await;
    let bob = stage.person("bob", &[Scope::Read, Scope::Approve]).await;
    let call = stage.runtime.call(&AgentName::from("default"), "careful", json!({ "text": "mine" }));
    let call = Call { by: Principal::Person(Person::from("bob")), ..call };
    let own = stage.runtime.invoke(call, Watch::default()).await.approval.unwrap();
    let refused = stage.post(&format!("/api/approvals/{own}/approve"), &bob, &json!({})).await;
    assert_eq!(refused.problem(), (403, "self_approval".to_owned()));

    let id = ask(&stage, "theirs").await;
    let path = format!("/api/approvals/{id}/approve");
    assert_eq!(stage.post(&path, &bob, &json!({})).await.status, 200);
    assert_eq!(stage.post(&path, &bob, &json!({})).await.problem(), (409, "not_waiting".to_owned()));
    let missing = stage.post("/api/approvals/apr_000000000000000000000000/approve", &bob, &json!({})).await;
    assert_eq!(missing.problem(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn only_those_with_the_scope_answer() {
    let stage = Stage::new().await;
    let id = ask(&stage, "hello").await;
    let tokens = [stage.person("bob", &[Scope::Read, Scope::Admin]).await, stage.agent().await];
    for token in &tokens {
        for answer in ["approve", "deny"] {
            let path = format!("/api/approvals/{id}/{answer}");
            let reply = stage.post(&path, token, &json!({ "reason": "because" })).await;
            assert_eq!(reply.problem(), (403, "not_allowed".to_owned()));
        }
    }
    let reader = stage.enter(&format!("token={}", tokens[0])).await;
    assert_eq!(reader.form(&format!("/approvals/{id}"), "answer=yes").await.status, 403);
    let page = reader.get("/approvals").await.body;
    assert!(page.contains("takes the scope") && !page.contains(">Approve</button>"), "{page}");
    assert_eq!(stage.call("careful", json!({ "text": "hello" })).await.status, Status::Pending);
}

#[tokio::test]
async fn the_inbox_shows_all_there_is_and_takes_answers() {
    let stage = Stage::new().await;
    let evil = "</pre><script>alert(1)</script>\u{202e}gpj.exe";
    let id = ask(&stage, evil).await;
    let browser = stage.log_in().await;
    let page = browser.get("/approvals").await.body;
    for part in [&*id, "careful", "Why it asks", "U+202E", "&lt;script&gt;", ">Approve</button>", ">Deny</button>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
    // Where nothing else shows what it is about, the arguments are not folded away.
    assert!(page.contains("<details open><summary>All arguments"), "{page}");
    // Enter in the reason presses the first button.
    let buttons: Vec<_> = page.split("name=\"answer\" value=\"").skip(1).map(|rest| &rest[..2]).collect();
    assert_eq!(buttons, ["no", "ye"], "{page}");

    let path = format!("/approvals/{id}");
    assert_eq!(browser.form(&path, "answer=maybe").await.status, 400);
    assert_eq!(browser.form(&path, "answer=no&reason=").await.status, 400);
    let outside = stage.form(&path, &browser.cookie, "answer=yes").await;
    assert_eq!(outside.status, 403, "a page of another site has no word for it");
    let answered = browser.form(&path, "answer=yes&reason=looks+right").await;
    assert_eq!((answered.status, answered.header("location")), (303, Some("/approvals")), "{answered:?}");
    let page = browser.get("/approvals").await.body;
    assert!(page.contains("Nobody waits for an answer") && page.contains("looks right"), "{page}");
    assert_eq!(stage.call("careful", json!({ "text": evil })).await.status, Status::Done);
}

#[tokio::test]
async fn a_grant_is_listed_and_taken_back() {
    let stage = Stage::new().await;
    let (reader, admin) =
        (stage.person("eve", &[Scope::Read]).await, stage.person("bob", &[Scope::Read, Scope::Admin]).await);
    let grant = grant(&stage, "careful", "often").await;
    assert_eq!(stage.call("careful", json!({ "text": "often" })).await.status, Status::Done);
    let listed = stage.get("/api/grants?agent=default", &reader).await.json();
    assert_eq!((&listed["grants"][0]["id"], &listed["grants"][0]["left"]), (&json!(grant.id), &json!(2)));
    assert_eq!(listed["grants"][0]["stale"], false);
    let terms = GrantTerms { definition: Some(Digest::of(b"as it was")), ..grant.terms.clone() };
    let older = stage.runtime.approvals().unwrap().grant(terms).await.unwrap();
    let listed = stage.get("/api/grants", &reader).await.json();
    assert_eq!((&listed["grants"][0]["id"], &listed["grants"][0]["stale"]), (&json!(older.id), &json!(true)));
    let path = format!("/api/grants/{}/revoke", grant.id);
    assert_eq!(stage.post(&path, &reader, &json!({})).await.status, 403);
    let revoked = stage.post(&path, &admin, &json!({})).await.json();
    assert_eq!(revoked["revoked"]["by"], "bob");
    assert_eq!(stage.post(&path, &admin, &json!({})).await.problem(), (404, "not_found".to_owned()));
    assert_eq!(stage.call("careful", json!({ "text": "often" })).await.status, Status::Pending);
}

#[tokio::test]
async fn a_person_says_what_became_of_an_effect() {
    let stage = Stage::new().await;
    let admin = stage.person("bob", &[Scope::Read, Scope::Admin]).await;
    for key in ["one", "two", "three"] {
        unknown_effect(&stage, key).await;
    }
    let unknown = async || {
        let listed = stage.get("/api/effects?state=unknown", &admin).await.json();
        let mut keys: Vec<Value> =
            listed["effects"].as_array().unwrap().iter().map(|e| e["key"]["key"].clone()).collect();
        keys.sort_by_key(ToString::to_string);
        keys
    };
    assert_eq!(unknown().await, ["one", "three", "two"]);
    let body = json!({ "agent": "default", "tool": "echo", "key": "one", "happened": true, "said": "sent" });
    let resolved = stage.post("/api/effects/resolve", &admin, &body).await.json();
    assert_eq!(resolved["resolved"]["resolution"]["happened"]["text"], "sent", "{resolved}");
    assert_eq!(stage.post("/api/effects/resolve", &admin, &body).await.problem(), (409, "not_unknown".to_owned()));

    let browser = stage.log_in().await;
    let page = browser.get("/standing").await.body;
    let first = page.split("<button type=\"submit\"").nth(2).unwrap();
    assert!(first.starts_with(" disabled hidden>"), "Enter in the field says nothing: {page}");
    let form = "agent=default&tool=echo&key=two&found=not";
    assert_eq!(browser.form("/standing/effects", form).await.status, 303);
    assert_eq!(browser.form("/standing/effects", form).await.status, 409);
    assert_eq!(unknown().await, ["three"]);
    assert!(browser.get("/standing").await.body.contains("user:ann: it did not happen"));
    assert_eq!(stage.get("/api/effects?state=lost", &admin).await.problem(), (400, "bad_request".to_owned()));
}
