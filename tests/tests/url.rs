//! `toolgate url`: would a URL be let through, seen from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use serde_json::{Value, json};
use toolgate_tests::Bench;

fn answers(args: &[&str], lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = Bench::new().run_with(&[&["url", "--jsonl"], args].concat(), input).exits(0);
    assert_eq!(ran.stderr, "");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answer to one line: its reason, nothing when it is let through.
#[track_caller]
fn check(line: Value, reason: Value, addresses: &[&str]) {
    let verdict = if reason.is_null() { "allow" } else { "block" };
    let expected = json!({ "verdict": verdict, "reason": reason, "addresses": addresses });
    assert_eq!(answers(&[], std::slice::from_ref(&line)), [expected], "{line}");
}

#[test]
fn every_line_is_answered_in_order_and_none_that_cannot_be_read_with_a_yes() {
    let input = "{\"url\": \"https://1.1.1.1/\"}\n\nnot json\n{\"url\": 1}\n{\"url\": \"https://1.1.1.1/\", \"resolves\": [\"x\"]}\n\
        {\"url\": \"https://docs.rs/\", \"resolves\": [\"1.1.1.1\"], \"redirects\": null}\n{\"url\": \"x\"}";
    let ran = Bench::new().run_with(&["url", "--jsonl"], input).exits(0);
    let reasons: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["reason"].take()).collect();
    assert_eq!(
        reasons,
        [json!(null), json!("bad_line"), json!("bad_line"), json!("bad_line"), json!(null), json!("no_scheme")]
    );
}

#[test]
fn answers_are_judged_whether_there_was_one_look_up_or_several() {
    let url = "http://a.docs.rs/";
    check(json!({ "url": url, "resolves": ["1.1.1.1"] }), json!(null), &["1.1.1.1"]);
    check(json!({ "url": url, "resolves": ["1.1.1.1", "::1"] }), json!("loopback"), &["1.1.1.1", "::1"]);
    check(
        json!({ "url": url, "resolves": [["1.1.1.1"], ["127.0.0.1"]] }),
        json!("loopback"),
        &["1.1.1.1", "127.0.0.1"],
    );
    check(json!({ "url": url, "resolves": [["1.1.1.1"], ["1.0.0.1"]] }), json!(null), &["1.1.1.1", "1.0.0.1"]);
    check(json!({ "url": url, "resolves": [] }), json!("no_answer"), &[]);
    check(json!({ "url": url, "resolves": null }), json!("not_looked_up"), &[]);
}

#[test]
fn redirects_are_followed_and_judged() {
    let way = |to: &[&str]| json!({ "url": "https://a.docs.rs/", "resolves": ["1.1.1.1"], "redirects": to });
    check(way(&["/b", "https://b.docs.rs/"]), json!(null), &["1.1.1.1"]);
    check(way(&["https://b.docs.rs/", "https://[fd00::1]/"]), json!("private"), &["1.1.1.1", "fd00::1"]);
    check(way(&["http://b.docs.rs/"]), json!("downgrade"), &["1.1.1.1"]);
    check(way(&["1", "2", "3", "4", "5", "6"]), json!("too_many_redirects"), &["1.1.1.1"]);
}

#[test]
fn spellings_and_names_are_refused_before_anything_is_looked_up() {
    for (url, reason) in [
        ("http://0x7f.1/", "odd_address"),
        ("http://2130706433/", "odd_address"),
        ("http://127。0。0。1/", "odd_address"),
        ("http://[::ffff:a9fe:a9fe]/", "metadata"),
        ("http://user@docs.rs/", "userinfo"),
        ("http://docs.rs\\@10.0.0.1/", "bad_character"),
        ("file:///etc/passwd", "scheme_refused"),
        ("http://metadata.google.internal/", "metadata_name"),
        ("http://printer/", "single_label_name"),
    ] {
        assert_eq!(
            answers(&[], &[json!({ "url": url, "resolves": ["1.1.1.1"] })])[0]["reason"],
            json!(reason),
            "{url}"
        );
    }
}

#[test]
fn what_a_name_leads_to_can_be_said() {
    let bench = Bench::new();
    let known = ["--resolve", "a.docs.rs=1.1.1.1,2606:4700::1111"];
    let ran = bench.run(&[&["url", "https://A.docs.rs./x", "--json"], &known[..]].concat()).exits(0);
    assert_eq!(ran.json(), json!({ "verdict": "allow", "reason": null, "addresses": ["1.1.1.1", "2606:4700::1111"] }));
    let rebinding = ["--resolve", "a.docs.rs=1.1.1.1", "--resolve", "a.docs.rs=10.0.0.1"];
    let ran = bench.run(&[&["url", "https://a.docs.rs/", "--json"], &rebinding[..]].concat()).exits(3);
    assert_eq!(ran.json(), json!({ "verdict": "block", "reason": "private", "addresses": ["1.1.1.1", "10.0.0.1"] }));

    let lines = [json!({ "url": "https://a.docs.rs/" }), json!({ "url": "https://b.docs.rs/" })];
    let reasons = answers(&known, &lines).iter().map(|answer| answer["reason"].clone()).collect::<Vec<_>>();
    assert_eq!(reasons, [json!(null), json!("not_looked_up")]);
}

#[test]
fn a_page_says_why_and_the_status_says_whether() {
    let bench = Bench::new();
    let page = bench.run(&["url", "https://Docs.rs:8443/x", "--resolve", "docs.rs=1.1.1.1,1.0.0.1"]).exits(0).stdout;
    assert_eq!(
        page,
        "let through\n\nurl        https://docs.rs:8443/x\nhost       docs.rs, port 8443\n\
         addresses  1.1.1.1\n           1.0.0.1\n"
    );
    let page = bench.run(&["url", "http://169.254.169.254/latest"]).exits(3).stdout;
    assert_eq!(
        page,
        "refused: `169.254.169.254` is where a cloud hands out a machine's credentials (metadata)\n\n\
         url        http://169.254.169.254/latest\nhost       169.254.169.254, port 80\naddresses  169.254.169.254\n"
    );
    let page = bench.run(&["url", "http://docs\u{202e}.rs/\u{1b}[2J"]).exits(3).stdout;
    assert!(page.contains("(bad_character)") && !page.contains(['\u{202e}', '\u{1b}']), "{page:?}");
}

#[test]
fn an_internal_host_that_the_operator_listed_is_let_through_and_its_neighbours_are_not() {
    let bench = Bench::new();
    bench.put("own.yaml", "egress: { hostname_allowlist: [git.corp.internal, '10.1.2.3:8443'] }\n");
    for (url, resolve, status) in [
        ("https://git.corp.internal/", "git.corp.internal=10.0.0.7", 0),
        ("https://git.corp.internal/", "git.corp.internal=169.254.169.254", 3),
        ("https://wiki.corp.internal/", "wiki.corp.internal=10.0.0.7", 3),
        ("https://10.1.2.3:8443/", "a.com=1.1.1.1", 0),
        ("https://10.1.2.3/", "a.com=1.1.1.1", 3),
    ] {
        bench.run(&["--config", "own.yaml", "url", url, "--resolve", resolve]).exits(status);
    }
}

#[test]
fn a_wrong_command_line_says_what_is_wrong() {
    let bench = Bench::new();
    for (args, wrong) in [
        (&["url"][..], "URL"),
        (&["url", "https://docs.rs/", "--jsonl"], "--jsonl"),
        (&["url", "https://docs.rs/", "--resolve", "docs.rs"], "HOST=IP,IP"),
        (&["url", "https://docs.rs/", "--resolve", "docs.rs="], "is not an address"),
        (&["url", "https://docs.rs/", "--resolve", "docs.rs=1.1.1"], "`1.1.1` is not an address"),
        (&["url", "https://docs.rs/", "--resolve", "127.1=1.1.1.1"], "`127.1` is not a host"),
    ] {
        let ran = bench.run(args).exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(wrong), "{args:?} {ran}");
    }
}
