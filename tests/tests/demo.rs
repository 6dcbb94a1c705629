//! `toolgate demo`: the story is told on the real runtime, so it can go wrong.

use toolgate_tests::Bench;

#[test]
fn the_story_ends_as_it_should() {
    let bench = Bench::new();
    let told = bench.run(&["demo", "--pause", "0"]).exits(0).stdout;
    let has = |line: &str| assert!(told.contains(line), "`{line}` is missing in\n{told}");
    has("found      injection (override_instructions, ASI01)");
    has("http_request           pending (approval_required)");
    has("http_request again     refused (approval_denied)");
    has("the thief's server got 0 requests");
    has("delete old.txt         done");
    has("delete old.txt again   pending (approval_required)");
    has("the newcomer's level for the web is sandboxed");
    has("the newcomer's level for the web is restricted");
    has("newcomer: fetch_url    done");
    has("nothing was changed");
    has("in a copy one word was changed: found:");
    assert!(!told.contains("ghp_"), "the credential is told nowhere:\n{told}");
    assert!(!bench.data().exists(), "it leaves no trace");
}
