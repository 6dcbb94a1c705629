//! Pages: whole, escaped, and only for those who are logged in.

use serde_json::json;
use toolgate_contract::Scope;

use crate::stage::Stage;

const PAGES: [&str; 8] = ["/", "/approvals", "/standing", "/calls", "/agents", "/catalog", "/rooms", "/audit"];

#[tokio::test]
async fn a_page_without_a_session_leads_to_the_log_in() {
    let stage = Stage::new().await;
    for path in PAGES {
        let reply = stage.send("GET", path, &[], "").await;
        assert_eq!((reply.status, reply.header("location")), (303, Some("/login")), "{path}");
        let stale = stage.send("GET", path, &[("Cookie", &format!("toolgate-{}=00", stage.address.port()))], "").await;
        assert_eq!(stale.status, 303, "{path}");
    }
}

#[tokio::test]
async fn every_page_is_whole() {
    let stage = Stage::new().await;
    let called = stage.call("write", json!({ "path": "a.txt", "content": "x" })).await;
    stage.settle().await;
    let browser = stage.log_in().await;
    let call = format!("/calls/{}", called.call);
    for path in PAGES.iter().copied().chain([&*call, "/catalog/echo", "/calls?tool=write&status=done"]) {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert!(reply.body.trim_end().ends_with("</html>") && reply.body.matches("<h1>").count() == 1, "{path}");
        assert!(reply.header("content-type").unwrap().starts_with("text/html"), "{path}");
    }
    let page = browser.get(&call).await.body;
    for part in ["file_write", "allow", "default", "a.txt", &called.call.0] {
        let part = if part == "file_write" { "fs_write" } else { part };
        assert!(page.contains(part), "{part}: {page}");
    }
    let missing = browser.get("/calls/nothing").await;
    assert!(missing.status == 404 && missing.body.contains("nothing is recorded"), "{missing:?}");
}

#[tokio::test]
async fn what_tools_and_agents_say_is_never_markup_and_never_hidden() {
    let stage = Stage::new().await;
    let evil = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"' \u{202e}txet\u{200b}\u{e0041}";
    let outcomes = [
        stage.call("hostile", json!({ "text": evil })).await,
        stage.call(evil, json!({ "text": evil })).await,
        stage.call("write", json!({ "path": evil, "content": evil })).await,
    ];
    stage.settle().await;
    let browser = stage.log_in().await;
    let mut pages = vec![browser.get("/").await, browser.get("/calls").await];
    for outcome in &outcomes {
        pages.push(browser.get(&format!("/calls/{}", outcome.call)).await);
    }
    let odd = "/calls?tool=%3Cscript%3Ealert(1)%3C/script%3E%22%E2%80%AE&finding=%22%3E%3Cimg%20src=x%3E";
    pages.push(browser.get(odd).await);
    pages.push(stage.send("GET", "/login?code=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", &[], "").await);
    for page in &pages {
        assert_eq!(page.status, 200, "{page:?}");
        for sign in ["<script>", "<img src=x", "\u{202e}", "\u{200b}", "\u{e0041}"] {
            assert!(!page.body.contains(sign), "{sign:?} in {}", page.body);
        }
    }
    let first = &pages[2].body;
    for shown in ["U+202E", "U+200B", "U+E0041", "&lt;script&gt;"] {
        assert!(first.contains(shown), "{shown} in {first}");
    }
}

#[tokio::test]
async fn a_name_does_not_push_the_rest_of_a_table_away() {
    let stage = Stage::new().await;
    let called = stage.call(&"x".repeat(500), json!({})).await;
    stage.settle().await;
    let browser = stage.log_in().await;
    let short = format!("<td>{}...</td>", "x".repeat(64));
    assert!(browser.get("/calls").await.body.contains(&short), "a table shows the beginning");
    assert!(browser.get(&format!("/calls/{}", called.call)).await.body.contains(&"x".repeat(100)), "a page shows more");
}

#[tokio::test]
async fn the_raw_result_is_shown_to_those_who_may_see_it() {
    let stage = Stage::new().await;
    let called = stage.call("hostile", json!({ "text": "visible\u{200b}hidden" })).await;
    stage.settle().await;
    let path = format!("/calls/{}", called.call);
    let admin = stage.log_in().await;
    assert!(admin.get(&path).await.body.contains("\">visible<span class=\"unseen\">U+200B</span>hidden</pre>"));
    let token = stage.person("bob", &[Scope::Read]).await;
    let reader = stage.enter(&format!("token={token}")).await;
    let page = reader.get(&path).await.body;
    assert!(!page.contains("\">visible<span") && page.contains("takes the scope"), "{page}");
}

#[tokio::test]
async fn the_record_is_verified_by_a_button() {
    let stage = Stage::new().await;
    stage.call("write", json!({ "path": "a.txt", "content": "x" })).await;
    let browser = stage.log_in().await;
    assert!(!browser.get("/audit").await.body.contains("Nothing is missing"));
    let proved = browser.form("/audit", "").await;
    assert!(proved.body.contains("Nothing is missing and nothing was changed"), "{proved:?}");
}
