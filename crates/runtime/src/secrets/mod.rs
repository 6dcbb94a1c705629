//! Secrets: named by reference everywhere, looked up here, and taken out of whatever goes back to an agent.
//!
//! A config, a call and a record hold a [`SecretRef`], which is text anybody may see. The [`Broker`] turns it into a
//! [`Secret`], which cannot be printed, and remembers the value, so that [`Broker::redact`] finds it in a text.

mod broker;
mod dbus;
mod keyring;
mod private;
mod reference;
mod vault;

use std::fmt;

use toolgate_contract::Fault;
use zeroize::Zeroizing;

pub use broker::{Broker, Environment, SecretPlaces};
pub use reference::SecretRef;
pub use vault::{Kept, Vault};

pub(crate) use private::{Exposure, Unread, lock, read_private, write_private};

/// Fewer characters would be found in every other word of a text.
pub const SHORTEST: usize = 4;
/// More is a file, not a secret.
pub const LONGEST: usize = 64 * 1024;

/// A value nobody may see. It is wiped from memory when it is dropped, and has no way to be printed or written down.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a value. Its copies elsewhere are the caller's business.
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value itself, for whoever sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A value as it came from a file, a pipe or a variable: text, without the line end it may have, and of a length that
    /// can be found again in other text. `what` names where it came from.
    pub fn admit(what: &str, bytes: &Zeroizing<Vec<u8>>) -> Result<Self, Fault> {
        let text = str::from_utf8(bytes).map_err(|_| {
            let remedy = "Store text; encode bytes, as base64 for instance.";
            Fault::failed("secret_unusable", format!("the secret of {what} is not UTF-8 text"), remedy)
        })?;
        let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        if text.chars().count() < SHORTEST {
            return Err(Fault::failed(
                "secret_too_short",
                format!("the secret of {what} has fewer than {SHORTEST} characters, too few to be kept out of answers"),
                "Use a longer one.",
            ));
        }
        if text.len() > LONGEST {
            let message = format!("the secret of {what} has more than {LONGEST} bytes");
            return Err(Fault::failed("secret_too_long", message, "Use a shorter one."));
        }
        Ok(Self::new(text.to_owned()))
    }
}

impl Clone for Secret {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<&str, &str>) {
        let admitted = Secret::admit("a test", &Zeroizing::new(bytes.to_vec()));
        let admitted = admitted.as_ref().map(Secret::expose).map_err(|fault| &*fault.code);
        assert_eq!(admitted, expected, "{bytes:?}");
    }

    #[test]
    fn a_value_is_text_without_its_line_end() {
        check(b"token", Ok("token"));
        check(b"token\n", Ok("token"));
        check(b"token\r\n", Ok("token"));
        check(b"token\n\n", Ok("token\n"));
        check(b" to ken ", Ok(" to ken "));
        check("päßw".as_bytes(), Ok("päßw"));
        check(b"abc\xff", Err("secret_unusable"));
    }

    #[test]
    fn what_could_not_be_found_again_is_refused() {
        check(b"", Err("secret_too_short"));
        check(b"abc\n", Err("secret_too_short"));
        check("äöü".as_bytes(), Err("secret_too_short"));
        check(&[b'a'; LONGEST], Ok(&"a".repeat(LONGEST)));
        check(&[b'a'; LONGEST + 1], Err("secret_too_long"));
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("canary".into())), "Secret");
    }
}
