//! The keys of a log: one to encrypt raw results, a pair to sign with.
//!
//! Each is a file of the data directory, made once. A log whose keys are gone gets no new ones: records that can no
//! longer be checked or read must be noticed.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use toolgate_contract::Digest;
use zeroize::Zeroizing;

use crate::{StoreError, lock::Held};

/// All keys of a log.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) sealing: SealingKey,
    pub(crate) signing: Signer,
}

impl Keys {
    /// The keys of a log that is about to be made. Those a first attempt left behind are used.
    pub(crate) fn make(held: &Held<'_>, dir: &Path) -> Result<Self, StoreError> {
        for name in ["audit.key", "sign.key"] {
            let mut fresh = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *fresh).map_err(|error| StoreError::file(&dir.join(name), error))?;
            place(held, dir, name, &*fresh, 0o600)?;
        }
        let signing = Signer::load(dir)?;
        place(held, dir, "sign.pub", format!("{}\n", signing.id()).as_bytes(), 0o644)?;
        Self::load(dir)
    }

    /// The keys of a log that exists.
    pub(crate) fn load(dir: &Path) -> Result<Self, StoreError> {
        let keys = Self { sealing: SealingKey::load(dir)?, signing: Signer::load(dir)? };
        if keys.signing.id() != Verifier::load(dir)?.id() {
            return Err(StoreError::KeyWrong(dir.join("sign.pub")));
        }
        Ok(keys)
    }
}

/// Encrypts raw results (XChaCha20-Poly1305).
#[derive(Debug)]
pub(crate) struct SealingKey(XChaCha20Poly1305);

const NONCE: usize = 24;

impl SealingKey {
    pub(crate) fn load(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self(XChaCha20Poly1305::new((&*read_secret(&dir.join("audit.key"))?).into())))
    }

    /// The nonce, then the ciphertext. It opens only as the raw result of the same call.
    pub(crate) fn seal(&self, call: &str, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(StoreError::unwritable)?;
        let payload = Payload { msg: plain, aad: &label(call) };
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload).map_err(StoreError::unwritable)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub(crate) fn open(&self, call: &str, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let broken = || StoreError::unreadable(format!("the raw result of call `{call}` does not open"));
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or_else(broken)?;
        let payload = Payload { msg: sealed, aad: &label(call) };
        self.0.decrypt(&XNonce::from(*nonce), payload).map_err(|_| broken())
    }
}

fn label(call: &str) -> Vec<u8> {
    [b"toolgate raw result v1\0", call.as_bytes()].concat()
}

/// What a signature is about. Each has words of its own, so that one never passes for the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seal {
    /// A checkpoint in the log.
    Checkpoint,
    /// The head file.
    Head {
        /// The last record that says which program writes.
        opened: u64,
        /// What a clean close found in the free space of the database.
        slack: Option<Digest>,
    },
}

fn message(seal: Seal, key: &str, size: u64, head: &Digest) -> String {
    match seal {
        Seal::Checkpoint => format!("toolgate audit checkpoint v1\n{key}\n{size}\n{head}\n"),
        Seal::Head { opened, slack } => {
            let slack = slack.map_or_else(|| "-".to_owned(), |slack| slack.to_string());
            format!("toolgate audit head v1\n{key}\n{size}\n{head}\n{opened}\n{slack}\n")
        }
    }
}

/// Signs the state of a log: how many records it has, and the hash of the last (Ed25519).
#[derive(Debug)]
pub(crate) struct Signer(SigningKey);

impl Signer {
    pub(crate) fn load(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self(SigningKey::from_bytes(&*read_secret(&dir.join("sign.key"))?)))
    }

    /// The public key in hex: the log's name.
    pub(crate) fn id(&self) -> String {
        self.verifier().id()
    }

    pub(crate) fn verifier(&self) -> Verifier {
        Verifier(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, seal: Seal, size: u64, head: &Digest) -> String {
        hex(&self.0.sign(message(seal, &self.id(), size, head).as_bytes()).to_bytes())
    }
}

/// Checks what a [`Signer`] signed.
#[derive(Debug, Clone)]
pub(crate) struct Verifier(VerifyingKey);

impl Verifier {
    pub(crate) fn load(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("sign.pub");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::KeyMissing(path)),
            Err(error) => return Err(StoreError::file(&path, error)),
        };
        unhex(text.trim_end())
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
            .map(Self)
            .ok_or(StoreError::KeyWrong(path))
    }

    pub(crate) fn id(&self) -> String {
        hex(self.0.as_bytes())
    }

    pub(crate) fn accepts(&self, seal: Seal, size: u64, head: &Digest, signature: &str) -> bool {
        unhex(signature).is_some_and(|bytes| {
            self.0
                .verify_strict(message(seal, &self.id(), size, head).as_bytes(), &Signature::from_bytes(&bytes))
                .is_ok()
        })
    }
}

/// Opens a file only this user can read, and makes it if it is not there.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Puts a file in place, whole or not at all, and never over another one.
pub(crate) fn place(_held: &Held<'_>, dir: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
    let path = dir.join(name);
    if path.exists() {
        return Ok(());
    }
    let draft = dir.join(format!("{name}.new"));
    let write = || {
        // What a crash left behind is not trusted to be whole.
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| StoreError::file(&path, error))
}

/// Reads 32 secret bytes from a file nobody else can read or replace.
fn read_secret(path: &Path) -> Result<Zeroizing<[u8; 32]>, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::KeyMissing(path.to_owned())),
        Err(error) => return Err(StoreError::file(path, error)),
    };
    let about = file.metadata().map_err(|error| StoreError::file(path, error))?;
    let exposed = |why: String| StoreError::KeyExposed { path: path.to_owned(), why };
    if let Some(why) = foreign(&about) {
        return Err(exposed(why));
    }
    if about.mode() & 0o177 != 0 {
        return Err(exposed(format!("its mode is {:03o}, wider than 600", about.mode() & 0o777)));
    }
    let mut key = Zeroizing::new([0; 32]);
    if about.len() != 32 || file.read_exact(&mut *key).is_err() {
        return Err(StoreError::KeyWrong(path.to_owned()));
    }
    Ok(key)
}

/// Says who owns a file, if it is not this user. Root gets no exception: what a user owns, that user can replace.
pub(crate) fn foreign(about: &Metadata) -> Option<String> {
    let (owner, us) = (about.uid(), rustix::process::geteuid().as_raw());
    (owner != us).then(|| format!("user {owner} owns it, and this is user {us}"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// Only the spelling [`hex`] gives: two spellings of one signature would be one too many.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_result_opens_only_as_that_of_its_call_and_only_unchanged() {
        let key = SealingKey(XChaCha20Poly1305::new(&[7; 32].into()));
        let sealed = key.seal("one", b"plain").unwrap();
        assert_eq!(key.open("one", &sealed), Ok(b"plain".to_vec()));
        let broken = |call: &str| Err(StoreError::unreadable(format!("the raw result of call `{call}` does not open")));
        assert_eq!(key.open("two", &sealed), broken("two"));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key.open("one", &changed), broken("one"));
        }
        assert_eq!(key.open("one", &sealed[..10]), broken("one"));
        assert_ne!(key.seal("one", b"plain").unwrap(), sealed, "a nonce is never used twice");
    }

    #[test]
    fn a_signature_is_about_one_thing() {
        let signer = Signer(SigningKey::from_bytes(&[7; 32]));
        let (verifier, head) = (signer.verifier(), Digest::of(b"head"));
        let seal = signer.sign(Seal::Checkpoint, 5, &head);
        let upper = seal.to_uppercase();
        let accepts =
            |seal, size, head: &[u8], signature: &str| verifier.accepts(seal, size, &Digest::of(head), signature);
        assert!(accepts(Seal::Checkpoint, 5, b"head", &seal));
        assert!(!accepts(Seal::Checkpoint, 6, b"head", &seal));
        assert!(!accepts(Seal::Checkpoint, 5, b"other", &seal));
        assert!(!accepts(Seal::Head { opened: 1, slack: None }, 5, b"head", &seal));
        assert!(!accepts(Seal::Checkpoint, 5, b"head", &upper));
        assert!(!accepts(Seal::Checkpoint, 5, b"head", ""));

        let seal = signer.sign(Seal::Head { opened: 1, slack: None }, 5, &head);
        assert!(accepts(Seal::Head { opened: 1, slack: None }, 5, b"head", &seal));
        assert!(!accepts(Seal::Head { opened: 2, slack: None }, 5, b"head", &seal));
        assert!(!accepts(Seal::Head { opened: 1, slack: Some(head) }, 5, b"head", &seal));
    }
}
