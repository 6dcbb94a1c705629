//! What another server writes, as JSON. Its numbers and words are kept as far as a value can hold them, because they are
//! passed on; what it says twice it does not say.

use serde_json::Value;
use toolgate_guard::json::{self as guard, JsonFault, Limits, ToRelay};

/// Lists, entry by entry. One that cannot be used is none, and says nothing about the others.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// A message of another server, or why it is none, in words that hold none of its own.
pub(super) fn read(text: &[u8], limits: &Limits) -> Result<Value, String> {
    let ToRelay { mut value, twice } = guard::read_to_relay(text, limits).map_err(why)?;
    for pointer in twice {
        *entry(&mut value, &pointer).ok_or(TWICE)? = Value::Null;
    }
    Ok(value)
}

/// A word of a server that may be told among ours: so plain and short that it says nothing else.
pub(super) fn word(said: &str) -> &str {
    let is_plain = said.len() <= 20 && said.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain { said } else { "?" }
}

const TWICE: &str = "a key in it is given twice";

fn why(fault: JsonFault) -> String {
    match fault {
        JsonFault::DuplicateKey { .. } => TWICE.to_owned(),
        other => other.to_string(),
    }
}

/// The entry of a list in which this is.
fn entry<'v>(message: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    let mut steps = pointer.split('/').skip(1);
    let (result, list, index) = (steps.next()?, steps.next()?, steps.next()?);
    let is_within = result == "result" && LISTS.contains(&list) && steps.next().is_some();
    let list = message.get_mut("result")?.get_mut(list).filter(|_| is_within)?;
    list.get_mut(index.parse::<usize>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIMITS: Limits = Limits { bytes: 1_000, depth: 10 };

    #[test]
    fn what_is_said_twice_in_an_entry_of_a_list_is_no_entry_and_anywhere_else_no_message() {
        let list = br#"{"result":{"tools":[{"name":"a"},{"name":"b","inputSchema":{"x":1,"x":2}}]}}"#;
        assert_eq!(read(list, &LIMITS), Ok(json!({ "result": { "tools": [{ "name": "a" }, null] } })));
        for text in [
            r#"{"result":{"a":1,"a":2}}"#,
            r#"{"result":{"tools":[1],"tools":[2]}}"#,
            r#"{"result":{"other":[{"a":1,"a":2}]}}"#,
            r#"{"id":1,"id":2,"result":{"tools":[]}}"#,
            r#"{"result":{"tools":{"0":{"a":1,"a":1}}}}"#,
            r#"[{"result":{"tools":[{"a":1,"a":1}]}}]"#,
        ] {
            assert_eq!(read(text.as_bytes(), &LIMITS), Err(TWICE.to_owned()), "{text}");
        }
    }
}
