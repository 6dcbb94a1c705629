//! The headers of a request: checked before anything is sent.

use std::fmt;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolgate_contract::Fault;
use zeroize::Zeroizing;

/// The most headers a request may have.
const MAX_HEADERS: usize = 100;
/// The most bytes its headers may have, names and values.
const MAX_BYTES: usize = 32 * 1024;

/// A header whose value is nobody's business: it is not shown, not put into faults, and not sent to another origin.
#[derive(Clone)]
pub struct SecretHeader {
    name: HeaderName,
    value: Zeroizing<String>,
}

impl SecretHeader {
    /// A header that proves who asks. The fault about a bad one does not say its value.
    pub fn new(name: &str, value: impl Into<String>) -> Result<Self, Fault> {
        let value = Zeroizing::new(value.into());
        let name = read_name(name)?;
        secret_value(&name, &value)?;
        Ok(Self { name, value })
    }
}

impl fmt::Debug for SecretHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHeader({})", self.name)
    }
}

/// The headers of one request, as far as its caller says them.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) headers: HeaderMap,
    secret: Vec<HeaderName>,
}

impl Sent {
    /// A secret takes the place of what the caller says under the same name.
    pub(crate) fn read(said: &[(String, String)], secrets: &[SecretHeader]) -> Result<Self, Fault> {
        let bytes: usize = said.iter().map(|(name, value)| name.len() + value.len()).sum();
        if said.len() > MAX_HEADERS || bytes > MAX_BYTES {
            return Err(bad_header(
                format!("the request has {} headers of {bytes} bytes", said.len()),
                "Send at most 100 headers of 32 KiB together.",
            ));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in said {
            let name = read_name(name)?;
            let value = read_value(&name, value)?;
            headers.append(name, value);
        }
        for secret in secrets {
            headers.insert(secret.name.clone(), secret_value(&secret.name, &secret.value)?);
        }
        Ok(Self { headers, secret: secrets.iter().map(|secret| secret.name.clone()).collect() })
    }

    /// Takes away what may say who asks: the next one to be asked is somebody else. A key is sent under any name, so
    /// that only what is known to be none stays.
    pub(crate) fn forget_who_asks(&mut self) {
        const STAYS: [&str; 10] = [
            "accept",
            "accept-charset",
            "accept-language",
            "content-type",
            "content-encoding",
            "content-language",
            "content-location",
            "content-disposition",
            "range",
            "user-agent",
        ];
        let secret = std::mem::take(&mut self.secret);
        let gone: Vec<HeaderName> = self
            .headers
            .keys()
            .filter(|name| secret.contains(name) || !STAYS.contains(&name.as_str()))
            .cloned()
            .collect();
        for name in gone {
            self.headers.remove(name);
        }
    }

    /// Takes away what speaks of a body.
    pub(crate) fn forget_body(&mut self) {
        for name in ["content-type", "content-encoding", "content-language", "content-location", "content-disposition"]
        {
            self.headers.remove(name);
        }
    }
}

/// Headers that say where a message ends, or that are meant for the next machine only, are the client's own; those of a
/// browser (`sec-`) say who asks for a page, and nobody here is one.
fn read_name(text: &str) -> Result<HeaderName, Fault> {
    const OWN: [&str; 10] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "http2-settings",
    ];
    let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| bad_header(format!("`{shown}` is no name of a header"), "Write letters, digits and hyphens."))?;
    let is_own = OWN.contains(&name.as_str()) || ["proxy-", "sec-"].iter().any(|own| name.as_str().starts_with(own));
    if is_own {
        return Err(bad_header(format!("the header `{name}` is set by the client itself"), "Leave this header out."));
    }
    Ok(name)
}

fn secret_value(name: &HeaderName, value: &str) -> Result<HeaderValue, Fault> {
    let mut value = read_value(name, value)?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_value(name: &HeaderName, text: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(text).ok().filter(|_| text.is_ascii()).ok_or_else(|| bad_value(name))
}

fn bad_value(name: &HeaderName) -> Fault {
    bad_header(
        format!("the value of the header `{name}` has characters that cannot be sent"),
        "Write visible ASCII characters in one line.",
    )
}

fn bad_header(message: String, remedy: &str) -> Fault {
    Fault::failed("bad_header", message, remedy)
}

#[cfg(test)]
mod tests {
    use reqwest::header::AUTHORIZATION;
    use std::collections::BTreeSet;

    use super::*;

    fn read(name: &str, value: &str) -> Result<HeaderMap, String> {
        Sent::read(&[(name.to_owned(), value.to_owned())], &[]).map(|sent| sent.headers).map_err(|fault| {
            assert_eq!(fault.code, "bad_header");
            fault.message
        })
    }

    #[track_caller]
    fn refused(name: &str, value: &str, message: &str) {
        assert_eq!(read(name, value), Err(message.to_owned()));
    }

    #[test]
    fn ordinary_headers_are_sent() {
        for (name, value) in
            [("Accept", "text/html"), ("X-Api-Version", "1\t2"), ("authorization", "Bearer x"), ("cookie", "")]
        {
            assert_eq!(read(name, value).unwrap()[name.to_ascii_lowercase()], value);
        }
    }

    #[test]
    fn what_frames_a_message_is_not_the_callers() {
        for name in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "CONNECTION",
            "keep-alive",
            "upgrade",
            "te",
            "trailer",
            "expect",
            "proxy-authorization",
            "Proxy-Connection",
            "sec-fetch-site",
            "http2-settings",
        ] {
            refused(name, "x", &format!("the header `{}` is set by the client itself", name.to_ascii_lowercase()));
        }
    }

    #[test]
    fn names_and_values_cannot_smuggle() {
        for name in ["", "a b", "a:b", "a\r\nb", "a\0", "\u{e4}", "(a)"] {
            refused(name, "x", &format!("`{}` is no name of a header", name.escape_debug()));
        }
        for value in ["a\r\nHost: evil", "a\n", "a\0b", "\u{7f}", "\u{e4}", "\u{1b}[0m"] {
            refused("x-a", value, "the value of the header `x-a` has characters that cannot be sent");
        }
    }

    #[test]
    fn headers_have_an_end() {
        refused("x-a", &"a".repeat(MAX_BYTES), "the request has 1 headers of 32771 bytes");
        let many = vec![("x-a".to_owned(), "b".to_owned()); 101];
        assert_eq!(Sent::read(&many, &[]).unwrap_err().code, "bad_header");
        assert_eq!(Sent::read(&many[1..], &[]).unwrap().headers.len(), 100);
    }

    #[test]
    fn a_secret_is_not_shown_and_takes_its_place() {
        let secret = SecretHeader::new("Authorization", "Bearer hunter2").unwrap();
        let said = [("authorization".to_owned(), "Bearer own".to_owned())];
        let sent = Sent::read(&said, std::slice::from_ref(&secret)).unwrap();
        let values: Vec<_> = sent.headers.get_all(AUTHORIZATION).iter().collect();
        assert_eq!(values, ["Bearer hunter2"]);
        assert!(!format!("{secret:?} {sent:?}").contains("hunter2"));
        for (name, value) in [("x-key", "hunter2\r\nx: y"), ("host", "hunter2"), ("x y", "hunter2")] {
            let fault = SecretHeader::new(name, value).unwrap_err();
            assert_eq!(fault.code, "bad_header");
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
    }

    #[test]
    fn who_asks_is_forgotten_and_the_rest_stays() {
        let secret = SecretHeader::new("x-api-key", "hunter2").unwrap();
        let said = ["authorization", "cookie", "x-auth-token", "accept", "content-type"]
            .map(|name| (name.to_owned(), "x".to_owned()));
        let names = |sent: &Sent| sent.headers.keys().map(ToString::to_string).collect::<BTreeSet<_>>();
        let mut sent = Sent::read(&said, &[secret]).unwrap();
        sent.forget_who_asks();
        assert_eq!(names(&sent), BTreeSet::from(["accept", "content-type"].map(String::from)));
        sent.forget_body();
        assert_eq!(names(&sent), BTreeSet::from(["accept".to_owned()]));
    }
}
