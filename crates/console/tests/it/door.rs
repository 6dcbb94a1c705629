//! Logging in, tokens, sessions, and what each may do.

use toolgate_contract::{AgentName, Person, Principal, Scope};
use toolgate_runtime::tokens::{CODE_LIFE, Tokens};

use crate::stage::{OPERATOR, Stage, now};

#[tokio::test]
async fn the_printed_link_lets_one_person_in_once() {
    let stage = Stage::new().await;
    // Looking at the link does not use it.
    for _ in 0..3 {
        let page = stage.send("GET", &format!("/login?code={}", stage.code()), &[], "").await;
        assert!(page.status == 200 && page.body.contains("This link opens the console once"), "{page:?}");
    }
    let form = format!("code={}", stage.code());
    let tries = futures_util::future::join_all((0..8).map(|_| stage.form("/login", "", &form))).await;
    let mut statuses: Vec<_> = tries.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 403, 403, 403, 403, 403, 403, 403]);
    let cookie = tries.iter().find_map(|reply| reply.header("set-cookie")).unwrap();
    let (name, rest) = cookie.split_once('=').unwrap();
    assert_eq!(name, format!("toolgate-{}", stage.address.port()));
    assert!(rest.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
}

#[tokio::test]
async fn behind_tls_the_cookie_says_so() {
    let stage = Stage::with_hosts(&["https://gate.example"]).await;
    assert!(stage.link.starts_with("https://gate.example/login?code="), "{}", stage.link);
    let headers = [
        ("Host", "gate.example"),
        ("Origin", "https://gate.example"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let entered = stage.send_as("POST", "/login", &headers, &format!("code={}", stage.code())).await;
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-toolgate=") && cookie.ends_with("; Secure"), "{cookie}");
    // The same page over plain HTTP is another site.
    let plain = [("Host", "gate.example"), ("Origin", "http://gate.example"), headers[2]];
    assert_eq!(stage.send_as("POST", "/login", &plain, "code=x").await.status, 403);
}

#[tokio::test]
async fn a_code_is_good_for_ten_minutes() {
    let stage = Stage::new().await;
    let tokens = Tokens { state: &*stage.state, store: &*stage.store };
    let life = u64::try_from(CODE_LIFE.as_millis()).unwrap();
    let old = tokens.login_code(&Person::from(OPERATOR), now() - life).await.unwrap();
    assert_eq!(stage.form("/login", "", &format!("code={old}")).await.status, 403);
    let fresh = tokens.login_code(&Person::from(OPERATOR), now() - life + 60_000).await.unwrap();
    assert_eq!(stage.form("/login", "", &format!("code={fresh}")).await.status, 303);
}

#[tokio::test]
async fn nobody_guesses_for_long() {
    let stage = Stage::new().await;
    let mut statuses = Vec::new();
    for n in 0..40 {
        let wrong = format!("tgt_{n:064x}");
        statuses.push(match n % 2 {
            0 => stage.form("/login", "", &format!("token={wrong}")).await.status,
            _ => stage.get("/api/calls", &wrong).await.status,
        });
    }
    assert!(statuses[..16].iter().all(|status| [401, 403].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    let late = stage.get("/api/calls", "tgt_wrong").await;
    assert!(late.status == 429 && late.header("retry-after").is_some(), "{late:?}");
    // Those who know are not held up by those who guess.
    let token = stage.person("bob", &[Scope::Read]).await;
    assert_eq!(stage.get("/api/calls", &token).await.status, 200);
}

#[tokio::test]
async fn a_token_has_a_pace() {
    let stage = Stage::new().await;
    let (token, other) = (stage.person("bob", &[Scope::Read]).await, stage.person("eve", &[Scope::Read]).await);
    let replies = futures_util::future::join_all((0..400).map(|_| stage.get("/api/rooms", &token))).await;
    let count = |status| replies.iter().filter(|reply| reply.status == status).count();
    assert!(count(429) > 0 && count(200) >= 240 && count(200) + count(429) == 400, "{} {}", count(200), count(429));
    assert_eq!(stage.get("/api/rooms", &other).await.status, 200);
}

#[tokio::test]
async fn logging_in_again_is_no_new_pace() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    let form = format!("token={token}");
    let (one, two) = (stage.enter(&form).await, stage.enter(&form).await);
    let looks = (0..400).map(|n| if n % 2 == 0 { one.get("/rooms") } else { two.get("/rooms") });
    let replies = futures_util::future::join_all(looks).await;
    assert!(
        replies.iter().any(|reply| reply.status == 429),
        "400 requests at once are too many for one person, however they came in"
    );
}

#[tokio::test]
async fn without_a_form_of_ours_a_session_changes_nothing() {
    let stage = Stage::new().await;
    let browser = stage.log_in().await;
    let another = {
        let tokens = Tokens { state: &*stage.state, store: &*stage.store };
        let code = tokens.login_code(&Person::from("user:bob"), now()).await.unwrap();
        stage.enter(&format!("code={code}")).await
    };
    for csrf in ["", "csrf=", "csrf=wrong", &format!("csrf={}", another.csrf), &format!("other={}", browser.csrf)] {
        for path in ["/audit", "/api/audit/verify", "/logout"] {
            let reply = stage.form(path, &browser.cookie, csrf).await;
            assert_eq!(reply.status, 403, "{path} {csrf}: {reply:?}");
        }
    }
    // Nor without an origin, which no browser leaves out.
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let form = format!("csrf={}", browser.csrf);
    let silent = stage.send("POST", "/audit", &[("Cookie", &browser.cookie), kind], &form).await;
    assert_eq!(silent.status, 403);
    assert_eq!(browser.form("/audit", "").await.status, 200);
}

#[tokio::test]
async fn leaving_ends_the_session_and_a_revoked_token_does_too() {
    let stage = Stage::new().await;
    let browser = stage.log_in().await;
    assert_eq!(browser.form("/logout", "").await.status, 303);
    let after = browser.get("/calls").await;
    assert_eq!((after.status, after.header("location")), (303, Some("/login")));

    let token = stage.person("bob", &[Scope::Read]).await;
    let browser = stage.enter(&format!("token={token}")).await;
    assert_eq!(browser.get("/calls").await.status, 200);
    let id = stage.state.tokens().await.unwrap().into_iter().next().unwrap().id;
    let tokens = Tokens { state: &*stage.state, store: &*stage.store };
    tokens.revoke(&id, &Person::from(OPERATOR), now()).await.unwrap();
    assert_eq!(browser.get("/calls").await.status, 303);
    assert_eq!(stage.get("/api/calls", &token).await.problem(), (401, "not_logged_in".to_owned()));
}

#[tokio::test]
async fn a_rotated_token_is_another() {
    let stage = Stage::new().await;
    let old = stage.person("bob", &[Scope::Read]).await;
    let id = stage.state.tokens().await.unwrap().into_iter().next().unwrap().id;
    let tokens = Tokens { state: &*stage.state, store: &*stage.store };
    let new = tokens.rotate(&id, &Person::from(OPERATOR), now()).await.unwrap().secret;
    assert_eq!((stage.get("/api/rooms", &old).await.status, stage.get("/api/rooms", &new).await.status), (401, 200));
    let kept = serde_json::to_string(&stage.state.tokens().await.unwrap()).unwrap();
    assert!(!kept.contains(&new[4..]) && !kept.contains(&old[4..]), "a secret is kept");
}

#[tokio::test]
async fn each_scope_opens_its_own_doors() {
    let stage = Stage::new().await;
    let agent = stage.agent().await;
    let reader = stage.person("reader", &[Scope::Read]).await;
    let approver = stage.person("approver", &[Scope::Approve]).await;
    let check = async |token: &str, method: &str, path: &str, expected: u16| {
        let bearer = format!("Bearer {token}");
        let reply = stage.send(method, path, &[("Authorization", &bearer)], "{\"tool\": \"echo\"}").await;
        assert_eq!(reply.status, expected, "{method} {path}: {reply:?}");
    };
    for path in [
        "/api/calls",
        "/api/approvals",
        "/api/grants",
        "/api/effects",
        "/api/agents",
        "/api/catalog",
        "/api/rooms",
        "/api/findings",
        "/calls",
        "/",
    ] {
        check(&reader, "GET", path, 200).await;
        check(&agent, "GET", path, 403).await;
        check(&approver, "GET", path, 403).await;
    }
    check(&agent, "POST", "/api/calls", 200).await;
    check(&reader, "POST", "/api/calls", 403).await;
    check(&reader, "GET", "/api/calls/x/raw", 403).await;
    // An agent cannot log in to the page.
    assert_eq!(stage.form("/login", "", &format!("token={agent}")).await.status, 403);
}

#[tokio::test]
async fn no_token_is_made_that_lets_an_agent_decide() {
    let stage = Stage::new().await;
    let tokens = Tokens { state: &*stage.state, store: &*stage.store };
    for scope in [Scope::Read, Scope::Approve, Scope::Admin] {
        let wanted = toolgate_runtime::tokens::Wanted {
            principal: Principal::Agent(AgentName::from("default")),
            scopes: [Scope::Call, scope].into(),
            life: None,
        };
        let refused = tokens.add(wanted, &Person::from(OPERATOR), now()).await.unwrap_err();
        assert_eq!(refused.code, "scope_not_theirs");
    }
    // Nor would one help that got there some other way.
    let secret = format!("tgt_{:064x}", 7);
    let token = toolgate_contract::Token {
        id: "tok_smuggled".into(),
        hash: toolgate_contract::Digest::of(secret.as_bytes()),
        principal: Principal::Agent(AgentName::from("default")),
        scopes: Scope::ALL.iter().copied().collect(),
        created_ms: now(),
        expires_ms: None,
        last_used_ms: None,
        revoked_ms: None,
    };
    stage.state.add_token(token).await.unwrap();
    for path in ["/api/calls", "/api/agents", "/calls"] {
        assert_eq!(stage.get(path, &secret).await.status, 403, "{path}");
    }
    let asked = stage.call("careful", serde_json::json!({ "text": "x" })).await.approval.unwrap();
    for answer in ["approve", "deny"] {
        let path = format!("/api/approvals/{asked}/{answer}");
        let reply = stage.post(&path, &secret, &serde_json::json!({ "reason": "I may" })).await;
        assert_eq!(reply.problem(), (403, "not_allowed".to_owned()), "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_token_is_nobody() {
    let stage = Stage::new().await;
    let token = stage.person("bob", &[Scope::Read]).await;
    for given in
        ["", "Bearer", "Bearer ", &token, &format!("Basic {token}"), "Bearer tgt_", &format!("Bearer {token}0")]
    {
        let reply = stage.send("GET", "/api/calls", &[("Authorization", given)], "").await;
        assert_eq!(reply.problem(), (401, "not_logged_in".to_owned()), "{given}");
    }
    let good = format!("Bearer {token}");
    let twice = stage.send("GET", "/api/calls", &[("Authorization", &good), ("Authorization", &good)], "").await;
    assert_eq!(twice.status, 401);
    let browser = stage.log_in().await;
    let cookies = format!("{}; {}", browser.cookie, browser.cookie);
    assert_eq!(stage.send("GET", "/calls", &[("Cookie", &cookies)], "").await.status, 303);
}
