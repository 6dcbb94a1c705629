//! Names under which credentials travel. They come from the operator's connection and never from arguments, where the
//! model, the record and everybody who approves the call would see them.

/// Does a header of this name carry a credential?
pub(super) fn is_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(['-', '_']).collect();
    words.iter().any(|word| WORDS.contains(word) || word.ends_with("token"))
        || words.windows(2).any(|pair| pair[1] == "key" && KEYS.contains(&pair[0]))
}

/// Does a part of a query with this name carry a credential? Only what is never anything else: page tokens and sort
/// keys are common there.
pub(super) fn is_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    PARAMETERS.contains(&name.as_str())
}

const WORDS: [&str; 15] = [
    "apikey",
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "cookie2",
    "credential",
    "credentials",
    "jwt",
    "passwd",
    "password",
    "secret",
    "session",
    "sessionid",
];

/// What makes a `key` a secret one; an `Idempotency-Key` is none.
const KEYS: [&str; 6] = ["access", "api", "auth", "private", "secret", "subscription"];

const PARAMETERS: [&str; 11] = [
    "access_token",
    "api_key",
    "api_token",
    "apikey",
    "auth_token",
    "authorization",
    "client_secret",
    "password",
    "private_token",
    "refresh_token",
    "secret",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_carry_credentials_are_known_however_they_are_written() {
        let carrying = [
            "Authorization",
            "PROXY-AUTHORIZATION",
            "Cookie",
            "set-cookie",
            "Set-Cookie2",
            "X-Api-Key",
            "x_api_key",
            "apikey",
            "PRIVATE-TOKEN",
            "X-Auth-Token",
            "X-CSRFToken",
            "X-Amz-Security-Token",
            "Ocp-Apim-Subscription-Key",
            "X-Auth",
            "X-Client-Secret",
            "Authentication-Info",
        ];
        let plain =
            ["Accept", "Idempotency-Key", "X-Author", "X-GitHub-Api-Version", "If-Match", "Keyword", "X-Sort-Key"];
        for name in carrying {
            assert!(is_header(name), "{name}");
        }
        for name in plain {
            assert!(!is_header(name), "{name}");
        }
    }

    #[test]
    fn parameters_that_carry_credentials_are_known_and_page_tokens_are_none() {
        for name in ["access_token", "API-Key", "apikey", "private_token", "password", "client_secret"] {
            assert!(is_parameter(name), "{name}");
        }
        for name in ["page_token", "token", "sort_key", "q", "secretary"] {
            assert!(!is_parameter(name), "{name}");
        }
    }
}
