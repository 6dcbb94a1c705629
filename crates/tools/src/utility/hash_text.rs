//! `hash_text`: the digest of a text.

use std::{fmt::Write as _, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Digest;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "hash_text".into(),
            summary: "Hash a text with SHA-256 or another algorithm.".into(),
            description:
                "Returns the digest of the UTF-8 bytes of `text` as lower-case hex. Algorithms: sha256 (default), \
                sha512, sha1, md5, in any case. MD5 and SHA-1 can be forged: use them to compare with an existing \
                checksum, never to protect anything."
                    .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(2),
            examples: vec![
                Example { title: "SHA-256".into(), arguments: json!({ "text": "hello" }) },
                Example { title: "MD5".into(), arguments: json!({ "text": "hello", "algorithm": "md5" }) },
            ],
            failures: vec![FailureMode {
                code: UNKNOWN_ALGORITHM.into(),
                when: "`algorithm` is none of those that there are. The message lists them.".into(),
            }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

const UNKNOWN_ALGORITHM: &str = "unknown_algorithm";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text to hash.
    text: String,
    /// One of md5, sha1, sha256, sha512.
    #[serde(default = "sha256")]
    algorithm: String,
}

fn sha256() -> String {
    "sha256".into()
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The digest in lower-case hex.
    hash: String,
    /// The algorithm that was used.
    algorithm: &'static str,
}

type Hash = fn(&[u8]) -> String;

const ALGORITHMS: [(&str, Hash); 4] = [
    ("md5", hex_digest::<md5::Md5>),
    ("sha1", hex_digest::<sha1::Sha1>),
    ("sha256", hex_digest::<sha2::Sha256>),
    ("sha512", hex_digest::<sha2::Sha512>),
];

fn run(_cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let found = ALGORITHMS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(&input.algorithm));
    let Some((algorithm, hash)) = found else {
        let shown: String = input.algorithm.chars().take(40).collect();
        return Err(Fault::failed(
            UNKNOWN_ALGORITHM,
            format!("there is no algorithm `{shown}`"),
            format!("Use one of {}.", ALGORITHMS.map(|(name, _)| name).join(", ")),
        ));
    };
    Ok(Answer::new(Output { hash: hash(input.text.as_bytes()), algorithm }))
}

fn hex_digest<D: Digest>(bytes: &[u8]) -> String {
    D::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::{call, outcome};

    fn check(algorithm: &str, text: &str, hash: &str) {
        let expected = json!({ "hash": hash, "algorithm": algorithm.to_lowercase() });
        assert_eq!(outcome(tool, json!({ "text": text, "algorithm": algorithm })), Ok(expected), "{algorithm}");
    }

    #[test]
    fn known_digests() {
        check("md5", "", "d41d8cd98f00b204e9800998ecf8427e");
        check("sha1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check("SHA256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(
            "Sha512",
            "abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        );
        check("md5", "héllo", "be50e8478cf24ff3595bc7307fb91b50");
    }

    #[test]
    fn the_default_is_sha256() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(outcome(tool, json!({ "text": "abc" })), Ok(json!({ "hash": hash, "algorithm": "sha256" })));
    }

    #[test]
    fn an_unknown_algorithm_is_not_another_one() {
        for unknown in ["crc32", "", "sha", "sha2567", "ſha1"] {
            let fault = call(tool, json!({ "text": "abc", "algorithm": unknown })).unwrap_err();
            assert_eq!(
                fault,
                Fault::failed(
                    UNKNOWN_ALGORITHM,
                    format!("there is no algorithm `{unknown}`"),
                    "Use one of md5, sha1, sha256, sha512."
                )
            );
        }
    }
}
