//! One spelling for every JSON value, and its hash.
//!
//! RFC 8785 bytes under SHA-256. Definitions, calls and records are compared and chained by these hashes, so two
//! values with the same meaning must give the same bytes. RFC 8785 rounds integers beyond 2^53; those are kept out
//! before anything is hashed (`guard::json`).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::Digest as _;

use crate::spelling::spell;

/// A SHA-256 hash, written `sha256:<hex>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of raw bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Reads `sha256:<hex>` back.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        if hex.len() != 64 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The hex digits alone.
    pub fn hex(&self) -> String {
        self.digits().into_iter().map(char::from).collect()
    }

    fn digits(&self) -> [u8; 64] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        digits
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        f.write_str(std::str::from_utf8(&self.digits()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a hash is written `sha256:` and 64 hex digits"))
    }
}

/// The one spelling of a value. It fails only for values JSON cannot hold (a map with keys that are no strings).
pub fn canonical_json(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    spell(value)
}

/// The hash of that spelling.
pub fn digest(value: &impl Serialize) -> Result<Digest, serde_json::Error> {
    canonical_json(value).map(|bytes| Digest::of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spelling_does_not_depend_on_key_order() {
        assert_eq!(
            digest(&json!({"b": 1, "a": [1.0, "x"]})).unwrap(),
            digest(&json!({"a": [1, "x"], "b": 1})).unwrap()
        );
    }

    #[test]
    fn a_digest_survives_its_own_spelling() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse("sha256:BA"), None);
        assert_eq!(serde_json::from_value::<Digest>(json!(digest)).unwrap(), digest);
        assert!(serde_json::from_value::<Digest>(json!("sha256:BA")).is_err());
    }
}
