//! A reference: the name of a secret, which anybody may see.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};
use toolgate_contract::Fault;

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretRef {
    /// `env:NAME`: a variable of the environment Toolgate was started in.
    Env(String),
    /// `file:/absolute/path`: a file that only its owner and group may read.
    File(PathBuf),
    /// `vault:NAME`: Toolgate's own vault.
    Vault(String),
    /// `keyring:SERVICE/NAME`: the keyring of the desktop.
    Keyring {
        /// What the secret is for.
        service: String,
        /// Whose it is.
        name: String,
    },
}

const HOW: &str = "Write `vault:NAME`, `env:NAME`, `file:/absolute/path` or `keyring:SERVICE/NAME`; `toolgate secrets set NAME` \
                   puts a value into the vault.";

impl SecretRef {
    /// Reads a reference. What is none may be a secret, so no fault repeats it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| Fault::failed("bad_secret_reference", why.to_owned(), HOW);
        let Some((place, rest)) = text.split_once(':').filter(|(place, _)| Self::PLACES.contains(place)) else {
            return Err(wrong("this is not a reference to a secret"));
        };
        match place {
            "env" if is_variable(rest) => Ok(Self::Env(rest.to_owned())),
            "env" => Err(wrong("after `env:` comes the name of a variable: letters, digits and `_`")),
            "vault" if is_name(rest) => Ok(Self::Vault(rest.to_owned())),
            "vault" => Err(wrong("after `vault:` comes a name of at most 64 letters, digits, `_`, `-` or `.`")),
            "file" if rest.starts_with('/') && is_plain(rest) => Ok(Self::File(PathBuf::from(rest))),
            "file" => Err(wrong("after `file:` comes an absolute path")),
            _ => match rest.split_once('/') {
                Some((service, name)) if is_label(service) && is_label(name) => {
                    Ok(Self::Keyring { service: service.to_owned(), name: name.to_owned() })
                }
                _ => Err(wrong("after `keyring:` come a service and a name with `/` between them")),
            },
        }
    }

    /// The words a reference begins with.
    pub const PLACES: [&str; 4] = ["env", "file", "vault", "keyring"];

    /// Does this text begin like a reference?
    pub fn is_meant(text: &str) -> bool {
        text.split_once(':').is_some_and(|(place, _)| Self::PLACES.contains(&place))
    }

    /// What stands in a text in place of the value.
    pub fn label(&self) -> String {
        match self {
            Self::Env(name) | Self::Vault(name) | Self::Keyring { name, .. } => name.clone(),
            Self::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// A name in the vault. It ends up in commands, in configs and on screens.
pub(super) fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

fn is_variable(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && is_plain(text)
}

fn is_plain(text: &str) -> bool {
    text.len() <= 1024 && !text.chars().any(char::is_control)
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Vault(name) => write!(f, "vault:{name}"),
            Self::Keyring { service, name } => write!(f, "keyring:{service}/{name}"),
        }
    }
}

impl Serialize for SecretRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_written_as_it_is_read() {
        for text in [
            "env:TOKEN",
            "env:_a1",
            "file:/run/secrets/token",
            "file:/with space/ü",
            "vault:forge-token",
            "vault:a.b_c-D9",
            "keyring:git.example.com/me",
            "keyring:one/two/three",
        ] {
            assert_eq!(SecretRef::parse(text).map(|known| known.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_reference_is_not_repeated() {
        for text in [
            "",
            "canary",
            "Vault:canary",
            "ghp_canary",
            ":canary",
            "vault:",
            "vault:can ary",
            "vault:../canary",
            "env:",
            "env:1canary",
            "env:can-ary",
            "file:canary",
            "file:",
            "file:/can\nary",
            "keyring:canary",
            "keyring:/canary",
            "keyring:canary/",
            "https://canary",
        ] {
            let fault = SecretRef::parse(text).unwrap_err();
            assert_eq!(fault.code, "bad_secret_reference", "{text}");
            assert!(!fault.to_string().contains("canary"), "{fault}");
        }
        assert!(SecretRef::parse(&format!("vault:{}", "a".repeat(64))).is_ok());
        assert!(SecretRef::parse(&format!("vault:{}", "a".repeat(65))).is_err());
    }
}
