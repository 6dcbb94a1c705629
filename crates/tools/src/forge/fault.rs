//! The ways forges fail their callers, each said once.

use toolgate_contract::{FailureMode, Fault, WebResponse};
use toolgate_guard::shell::ir::visible;

use crate::{
    files::{fault::Known, text::prefix},
    web_fault::{RATE_LIMITED, connection_modes},
};

pub(super) const BAD_REPOSITORY: Known =
    Known::new("bad_repository", "The repository is not written as `owner/name`. On GitLab groups come before it.");
pub(super) const BAD_BRANCH: Known =
    Known::new("bad_branch", "A branch has a name that git does not take. Write it as `git branch` shows it.");
pub(super) const BAD_COMMIT: Known =
    Known::new("bad_commit", "`expected_head` is not a whole commit id. Take `head_sha` from `pr_view`.");
pub(super) const NOT_A_FORGE: Known =
    Known::new("not_a_forge", "The connection does not lead to the API of a forge. The message says what it is.");
pub(super) const UNAUTHORIZED: Known = Known::new(
    "forge_unauthorized",
    "The forge does not take the connection's credentials, or they do not permit this. Ask the operator.",
);
pub(super) const NOT_FOUND: Known = Known::new(
    "forge_not_found",
    "The forge knows no such repository, pull request or branch, or hides it from these credentials.",
);
pub(super) const CONFLICT: Known = Known::new(
    "forge_conflict",
    "It cannot be done as things stand: the head moved, there are conflicts, or it exists already. Look again.",
);
pub(super) const REFUSED: Known =
    Known::new("forge_refused", "The forge does not take the request. The message has its words.");
pub(super) const UNREADABLE: Known =
    Known::new("forge_unreadable", "The answer is not what such a forge says. Ask the operator about the connection.");
pub(super) const UNAVAILABLE: Known = Known::new(
    "forge_unavailable",
    "The forge is broken or busy. Try again later; after a change look first whether it was made.",
);
pub(super) const UNSUPPORTED: Known =
    Known::new("forge_unsupported", "This kind of forge has no such thing. The message says what to do instead.");

/// The part of a declaration that says how a tool fails that talks to a forge.
pub(super) fn forge_modes(own: &[&Known]) -> Vec<FailureMode> {
    let common = [&BAD_REPOSITORY, &NOT_A_FORGE, &UNAUTHORIZED, &NOT_FOUND, &REFUSED, &UNREADABLE, &UNAVAILABLE];
    connection_modes(&own.iter().chain(&common).copied().collect::<Vec<_>>())
}

/// The fault in an answer that is none. A forge that says it did not take a request changed nothing.
pub(super) fn in_answer(answer: &WebResponse, writes: bool) -> Fault {
    let fault = read_answer(answer, writes);
    if (400..500).contains(&answer.status) { fault.untouched() } else { fault }
}

fn read_answer(answer: &WebResponse, writes: bool) -> Fault {
    let status = answer.status;
    let said = their_words(&answer.body);
    match status {
        429 => rate_limited(answer),
        403 if is_rate_limit(answer) => rate_limited(answer),
        401 | 403 => UNAUTHORIZED.refused(
            format!("the forge answers {status} to the connection's credentials{said}"),
            "Ask the operator whether the connection's credentials are valid and permit this.",
        ),
        404 | 410 => NOT_FOUND.failed(
            format!("the forge answers {status}: it knows nothing of that name{said}"),
            "Check the repository, the number and the branches; the credentials may not see it.",
        ),
        300..=399 => NOT_FOUND.failed(
            format!("the forge answers {status}: it is somewhere else now"),
            "Use the present name of the repository.",
        ),
        405 | 406 | 409 => CONFLICT.failed(
            format!("the forge answers {status}: it cannot be done as things stand{said}"),
            "Look at the pull request with `pr_view`, then decide again.",
        ),
        500.. if writes => UNAVAILABLE.failed(
            format!("the forge answers {status}, and it is not known whether the change was made{said}"),
            "Look with `pr_list` or `pr_view` whether it was made before trying again.",
        ),
        500.. if answer.is_retryable() => {
            UNAVAILABLE.failed(format!("the forge answers {status}{said}"), "Try again later.").retryable()
        }
        _ => REFUSED
            .failed(format!("the forge answers {status}{said}"), "Change the arguments as the forge's words say."),
    }
}

/// GitHub says with 403 that there were too many requests, too.
fn is_rate_limit(answer: &WebResponse) -> bool {
    answer.header("retry-after").is_some() || answer.header("x-ratelimit-remaining") == Some("0")
}

fn rate_limited(answer: &WebResponse) -> Fault {
    let wait = answer.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
    let remedy = wait
        .map_or_else(|| "Try again in a few minutes.".to_owned(), |seconds| format!("Try again in {seconds} seconds."));
    RATE_LIMITED.failed("the forge had too many requests", remedy).retryable()
}

/// What the forge says about it, made fit for a message: short, on one line, nothing hidden.
fn their_words(body: &[u8]) -> String {
    const MOST: usize = 300;
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return String::new() };
    let mut words = Vec::new();
    ["message", "error", "errors"].iter().for_each(|field| collect_words(&answer[field], &mut words));
    if words.is_empty() {
        return String::new();
    }
    format!(", and says `{}`", prefix(&visible(&words.join("; ")).replace('`', "'"), MOST))
}

fn collect_words(value: &serde_json::Value, words: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => words.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_words(item, words)),
        // GitHub: what is wrong with a field. GitLab: a list of sentences under the name of each field.
        serde_json::Value::Object(fields) => match fields.get("message") {
            Some(message) => collect_words(message, words),
            None => fields.iter().for_each(|(field, said)| {
                let mut inner = Vec::new();
                collect_words(said, &mut inner);
                words.extend(inner.into_iter().map(|said| format!("{field} {said}")));
            }),
        },
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_stage::answer;

    fn check(status: u16, headers: &[(&str, &str)], body: &str, writes: bool, expected: (&str, &str, bool)) {
        let fault = in_answer(&answer(status, headers, body).unwrap(), writes);
        assert_eq!((fault.code.as_ref(), fault.message.as_str(), fault.retryable), expected);
    }

    #[test]
    fn every_status_has_its_code() {
        let codes: Vec<_> = [301, 400, 401, 403, 404, 405, 406, 409, 410, 422, 429, 500, 501, 502, 503]
            .into_iter()
            .map(|status| {
                let answer = answer(status, &[], "").unwrap();
                let (read, written) = (in_answer(&answer, false), in_answer(&answer, true));
                assert_eq!(read.code == written.code, status != 501, "{status}");
                (status, read.code.into_owned(), read.retryable, written.retryable)
            })
            .collect();
        let expected = [
            (301, "forge_not_found", false, false),
            (400, "forge_refused", false, false),
            (401, "forge_unauthorized", false, false),
            (403, "forge_unauthorized", false, false),
            (404, "forge_not_found", false, false),
            (405, "forge_conflict", false, false),
            (406, "forge_conflict", false, false),
            (409, "forge_conflict", false, false),
            (410, "forge_not_found", false, false),
            (422, "forge_refused", false, false),
            (429, "rate_limited", true, true),
            (500, "forge_unavailable", true, false),
            (501, "forge_refused", false, false),
            (502, "forge_unavailable", true, false),
            (503, "forge_unavailable", true, false),
        ];
        assert_eq!(codes, expected.map(|(status, code, read, written)| (status, code.to_owned(), read, written)));
    }

    #[test]
    fn a_forge_that_had_too_many_requests_says_so_with_403_too() {
        let busy = "the forge had too many requests";
        check(403, &[("x-ratelimit-remaining", "0")], "{}", false, ("rate_limited", busy, true));
        check(403, &[("retry-after", "60")], "{}", true, ("rate_limited", busy, true));
        let fault = in_answer(&answer(429, &[("retry-after", "60")], "").unwrap(), false);
        assert_eq!(fault.remedy, "Try again in 60 seconds.");
    }

    #[test]
    fn the_words_of_each_forge_are_repeated() {
        let refused = |body: &str, said: &str| {
            let message = format!("the forge answers 422{said}");
            check(422, &[], body, true, ("forge_refused", &message, false));
        };
        refused(
            r#"{"message": "Validation Failed", "errors": [{"resource": "PullRequest", "message": "No commits"}]}"#,
            ", and says `Validation Failed; No commits`",
        );
        refused(
            r#"{"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]}"#,
            ", and says `Validation Failed; code invalid; field head`",
        );
        refused(r#"{"message": {"title": ["can't be blank"]}}"#, ", and says `title can't be blank`");
        refused(r#"{"message": ["Another one exists"]}"#, ", and says `Another one exists`");
        refused(r#"{"error": "bad"}"#, ", and says `bad`");
        refused("<html>", "");
        refused("{}", "");
    }

    #[test]
    fn what_they_say_stays_within_its_quotes() {
        let said = serde_json::json!({ "message": format!("a`b\n[\u{202e}x]{}", "y".repeat(1_000)) });
        let fault = in_answer(&answer(422, &[], said.to_string()).unwrap(), false);
        assert!(fault.message.starts_with("the forge answers 422, and says `a'b\\u{a}[\\u{202e}x]yyy"), "{fault}");
        assert!(fault.message.len() < 350 && fault.message.ends_with("y`"), "{fault}");
    }
}
