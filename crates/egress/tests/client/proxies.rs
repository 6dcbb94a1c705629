//! Proxies in the environment are not used.

use std::process::Command;

use crate::stage::{Server, Shut, client, get, ok};

const INSIDE: &str = "TOOLGATE_TEST_INSIDE";

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_asked() {
    if std::env::var_os(INSIDE).is_some() {
        let server = Server::new(|_| ok("direct"));
        let answer = get(&client(&["site.test"]), &server.url("site.test", "/")).await.unwrap();
        assert_eq!(answer.body, b"direct");
        return;
    }
    let shut = Shut::new();
    let proxy = format!("http://127.0.0.1:{}", shut.port());
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "proxies::a_proxy_in_the_environment_is_not_asked"]).env(INSIDE, "1");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, &proxy);
    }
    let ran = again.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    shut.was_not_visited();
}
