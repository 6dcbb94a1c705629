//! The forge of the other tests, tried with git and by hand: what it promises them must hold.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    env, fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_tests::forge::ForgeServer;

const TOKEN: &str = "t0ken-of-a-test";

fn forge() -> ForgeServer {
    let forge = ForgeServer::start(TempDir::new().unwrap(), TOKEN);
    forge.add_repository("ada/engine");
    forge
}

/// Git as an ordinary user has it, who trusts the forge's authority.
fn git(forge: &ForgeServer, dir: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .arg("-c")
        .arg(format!("http.sslCAInfo={}", forge.ca_pem_path().display()))
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@forge.test"])
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap())
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .unwrap()
}

fn done(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The address of the repository, with the token in it.
fn remote(forge: &ForgeServer, token: &str) -> String {
    format!("{}/ada/engine.git", forge.url().replace("https://", &format!("https://ada:{token}@")))
}

/// Clones, and pushes a branch that adds a file with this text.
fn push_branch(forge: &ForgeServer, branch: &str, path: &str, text: &str) {
    let dir = TempDir::new().unwrap();
    done(git(forge, dir.path(), &["clone", "--quiet", &remote(forge, TOKEN), "."]));
    done(git(forge, dir.path(), &["switch", "--quiet", "-c", branch]));
    fs::write(dir.path().join(path), text).unwrap();
    done(git(forge, dir.path(), &["add", path]));
    done(git(forge, dir.path(), &["commit", "--quiet", "-m", "work"]));
    done(git(forge, dir.path(), &["push", "--quiet", "origin", branch]));
}

/// Status and body of one request.
fn ask(forge: &ForgeServer, method: &str, path: &str, authorization: &str, body: &Value) -> (u16, Value) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(forge.ca_pem_path()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", forge.port())).unwrap());
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// The same with the token, below the repository.
fn api(forge: &ForgeServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/v1/repos/ada/engine/{path}");
    ask(forge, method, &path, &format!("Bearer {TOKEN}"), body)
}

fn open_pull(forge: &ForgeServer, head: &str) -> (u16, Value) {
    api(forge, "POST", "pulls", &json!({ "title": "Turn faster", "body": "why", "head": head, "base": "main" }))
}

#[test]
fn git_clones_and_pushes_with_the_token_and_not_without() {
    let forge = forge();
    push_branch(&forge, "fix/7", "wheel.txt", "round\n");
    assert_eq!(forge.git("ada/engine", &["show", "fix/7:wheel.txt"]), "round");
    // More than git sends at once, so that it comes in chunks.
    push_branch(&forge, "large", "large.bin", &hard_to_pack(3 << 20));
    assert_eq!(forge.git("ada/engine", &["cat-file", "-s", "large:large.bin"]), (3 << 20).to_string());
    let dir = TempDir::new().unwrap();
    let wrong = git(&forge, dir.path(), &["clone", &remote(&forge, "wrong"), "x"]);
    assert!(!wrong.status.success());
    assert!(forge.requests().last().unwrap().ends_with(" 401"), "{:?}", forge.requests());
}

/// Text of this length that is as good as random.
fn hard_to_pack(length: usize) -> String {
    let mut state = 7_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + u8::try_from((state >> 33) % 94).unwrap())
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_pull_request_lives_from_its_opening_to_its_merge() {
    let forge = forge();
    push_branch(&forge, "fix/7", "wheel.txt", "round\n");
    let (status, pull) = open_pull(&forge, "fix/7");
    let tip = forge.git("ada/engine", &["rev-parse", "fix/7"]);
    assert_eq!((status, &pull["number"], &pull["head"]["sha"]), (201, &json!(1), &json!(tip)));
    assert_eq!((&pull["state"], &pull["mergeable"], &pull["merged"]), (&json!("open"), &json!(true), &json!(false)));
    assert_eq!(open_pull(&forge, "fix/7").0, 409);
    assert_eq!(open_pull(&forge, "nowhere").0, 404);

    let (_, files) = api(&forge, "GET", "pulls/1/files", &Value::Null);
    let file = json!({ "filename": "wheel.txt", "status": "added", "additions": 1, "deletions": 0 });
    assert_eq!(files, json!([file]));
    assert_eq!(api(&forge, "POST", "issues/1/comments", &json!({ "body": "Good." })).0, 201);
    let (_, comments) = api(&forge, "GET", "issues/1/comments", &Value::Null);
    assert_eq!(comments[0]["body"], "Good.");

    let merge = |head: &str| api(&forge, "POST", "pulls/1/merge", &json!({ "Do": "merge", "head_commit_id": head })).0;
    assert_eq!(merge(&"0".repeat(40)), 409);
    assert_eq!(forge.git("ada/engine", &["ls-tree", "--name-only", "main"]), "README.md");
    assert_eq!(merge(&tip), 200);
    assert_eq!(forge.git("ada/engine", &["ls-tree", "--name-only", "main"]), "README.md\nwheel.txt");
    assert_eq!(merge(&tip), 405);
    let (_, pull) = api(&forge, "GET", "pulls/1", &Value::Null);
    let main = forge.git("ada/engine", &["rev-parse", "main"]);
    assert_eq!((&pull["merged"], &pull["merge_commit_sha"]), (&json!(true), &json!(main)));
    assert_eq!(api(&forge, "GET", "pulls?state=open", &Value::Null).1, json!([]));
    assert_eq!(api(&forge, "GET", "pulls?state=closed", &Value::Null).1, json!([pull]));

    assert_eq!(api(&forge, "DELETE", "branches/fix/7", &Value::Null).0, 204);
    assert_eq!(api(&forge, "DELETE", "branches/fix/7", &Value::Null).0, 404);
    assert_eq!(forge.git("ada/engine", &["branch", "--list", "fix/*"]), "");
}

#[test]
fn what_conflicts_is_not_merged() {
    let forge = forge();
    push_branch(&forge, "one", "wheel.txt", "round\n");
    push_branch(&forge, "two", "wheel.txt", "square\n");
    assert_eq!((open_pull(&forge, "one").0, open_pull(&forge, "two").0), (201, 201));
    let merge = |number| api(&forge, "POST", &format!("pulls/{number}/merge"), &json!({ "Do": "squash" })).0;
    assert_eq!((merge(1), merge(2)), (200, 405));
    assert_eq!(forge.git("ada/engine", &["show", "main:wheel.txt"]), "round");
    assert_eq!(forge.git("ada/engine", &["rev-list", "--count", "main"]), "2");
    assert_eq!(api(&forge, "GET", "pulls/2", &Value::Null).1["mergeable"], false);
}

#[test]
fn everything_wants_the_token_and_everything_is_noted() {
    let forge = forge();
    let user = |authorization: &str| ask(&forge, "GET", "/api/v1/user", authorization, &Value::Null).0;
    assert_eq!(user(&format!("token {TOKEN}")), 200);
    assert_eq!(user(&format!("Bearer {TOKEN}")), 200);
    // `ada:t0ken-of-a-test`
    assert_eq!(user("Basic YWRhOnQwa2VuLW9mLWEtdGVzdA=="), 200);
    for wrong in ["Bearer wrong", "Basic YWRhOndyb25n", "Digest x", "", TOKEN] {
        assert_eq!(user(wrong), 401, "{wrong}");
    }
    let line = |status| format!("GET /api/v1/user {status}");
    assert_eq!(forge.requests(), [200, 200, 200, 401, 401, 401, 401, 401].map(line));
}
