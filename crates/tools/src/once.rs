//! The key of an effect on its way to whoever does it.
//!
//! A server that knows keys does the same request twice only once; one that does not takes it as a header it ignores.
//! Either way the runtime tries once, and an answer that leaves open what happened is not taken for one.

use toolgate_contract::{Fault, WebResponse};

use crate::{Cx, files::fault::Known};

/// Where servers look for a key.
const HEADER: &str = "Idempotency-Key";

pub(crate) const KEY_TWICE: Known =
    Known::new("key_twice", "The call has an idempotency key, and its headers name one as well. Leave the header out.");
pub(crate) const ANSWER_UNCERTAIN: Known = Known::new(
    "answer_uncertain",
    "The call has an idempotency key, and the server's answer leaves open whether it was done. Look before trying again.",
);

/// Adds the key of the call, if it has one.
pub(crate) fn pass_on(cx: &Cx, headers: &mut Vec<(String, String)>) -> Result<(), Fault> {
    let Some(key) = cx.key() else { return Ok(()) };
    if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(HEADER)) {
        let message = format!("the call has a key, and its headers have another `{HEADER}`");
        return Err(KEY_TWICE.failed(message, "Leave the header out: the call's key is sent in it."));
    }
    headers.push((HEADER.to_owned(), key.to_owned()));
    Ok(())
}

/// Under a key, an answer is kept for good. One that says that the server was busy or broke down is none.
pub(crate) fn certain(cx: &Cx, answer: WebResponse) -> Result<WebResponse, Fault> {
    let status = answer.status;
    match (cx.key(), status) {
        (None, _) => Ok(answer),
        (Some(_), 429) => {
            let fault = ANSWER_UNCERTAIN.failed("the server answers 429: too many requests", "Try again later.");
            Err(fault.retryable().untouched())
        }
        (Some(_), _) if answer.is_retryable() => Err(ANSWER_UNCERTAIN.failed(
            format!("the server answers {status}, which leaves open whether it was done"),
            "Find out at the server whether it was done.",
        )),
        (Some(_), _) => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        Tool,
        external::external_data,
        web::http_request,
        web_stage::{WebStage, answer},
    };

    const CALLS: [fn() -> (Tool, serde_json::Value); 2] = [
        || (http_request::tool(), json!({ "method": "POST", "url": "https://example.com/", "body": "x" })),
        || (external_data::tool(), json!({ "connection": "crm", "method": "POST", "path": "/", "body": "x" })),
    ];

    #[test]
    fn the_key_is_sent_and_named_once() {
        for call in CALLS {
            let (tool, mut arguments) = call();
            let stage = WebStage::answering([answer(200, &[], ""), answer(200, &[], "")]);
            stage.call_as(&tool, arguments.clone(), Some("k-1")).unwrap();
            stage.call_as(&tool, arguments.clone(), None).unwrap();
            let keyed = ("Idempotency-Key".to_owned(), "k-1".to_owned());
            let sent: Vec<_> = stage.sent().into_iter().map(|request| request.headers).collect();
            assert_eq!((sent[0].contains(&keyed), sent[1].contains(&keyed)), (true, false));

            arguments["headers"] = json!({ "idempotency-KEY": "own" });
            let stage = WebStage::answering([answer(200, &[], "")]);
            let fault = stage.call_as(&tool, arguments.clone(), Some("k-1")).unwrap_err();
            assert_eq!((&*fault.code, fault.untouched), ("key_twice", true));
            // Without a key of the call the header is the caller's.
            stage.call_as(&tool, arguments, None).unwrap();
        }
    }

    #[test]
    fn under_a_key_only_an_answer_that_settles_it_counts() {
        for call in CALLS {
            let (tool, arguments) = call();
            let ends = |status, key| {
                let stage = WebStage::answering([answer(status, &[], "")]);
                stage.call_as(&tool, arguments.clone(), key).map(drop).map_err(|fault| fault.untouched)
            };
            for settled in [200, 302, 400, 404, 409, 501] {
                assert_eq!(ends(settled, Some("k")), Ok(()), "{settled}");
            }
            for unsettled in [500, 502, 503, 504] {
                assert_eq!(ends(unsettled, Some("k")), Err(false), "{unsettled}");
                assert_eq!(ends(unsettled, None), Ok(()), "{unsettled}");
            }
            assert_eq!(ends(429, Some("k")), Err(true), "a server that counts requests did nothing");
        }
    }
}
