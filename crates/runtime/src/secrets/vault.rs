//! The vault: one file in the format of the `age` program, and the key that opens it.
//!
//! `vault.age` holds a JSON object with every secret. Whoever has the key can read it without Toolgate, with
//! `age -d -i vault-identity.txt vault.age`. Against somebody who reads the whole data directory a key beside it protects
//! nothing, so the key may be elsewhere; what it does protect from is a copy or a backup of the one file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use age::{
    DecryptError, Decryptor, Encryptor,
    secrecy::ExposeSecret as _,
    x25519::{Identity, Recipient},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use toolgate_contract::Fault;
use zeroize::Zeroizing;

use super::{
    Secret,
    private::{Exposure, Unread, lock, read_private, write_private},
    reference::is_name,
};

const FILE: &str = "vault.age";
const IDENTITY: &str = "vault-identity.txt";
const LOCK: &str = "vault.lock";

const VERSION: u32 = 1;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// An encrypted file of secrets.
#[derive(Debug)]
pub struct Vault {
    dir: PathBuf,
    identity: Option<PathBuf>,
}

/// What may be known of a secret in the vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// When it was set.
    pub set_at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    secrets: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: Zeroizing<String>,
    set_at: String,
}

impl Vault {
    /// The vault of a data directory. The key is beside it, or where it is said to be.
    pub fn new(dir: PathBuf, identity: Option<PathBuf>) -> Self {
        Self { dir, identity }
    }

    /// The value under this name.
    pub fn get(&self, name: &str) -> Result<Secret, Fault> {
        let content = self.read()?;
        let entry = content.and_then(|mut content| content.secrets.remove(name)).ok_or_else(|| missing(name))?;
        Ok(Secret(entry.value))
    }

    /// Every name, and never a value.
    pub fn list(&self) -> Result<Vec<Kept>, Fault> {
        let secrets = self.read()?.map(|content| content.secrets).unwrap_or_default();
        Ok(secrets.into_iter().map(|(name, entry)| Kept { name, set_at: entry.set_at }).collect())
    }

    /// Puts a value under this name, in the place of the one that may be there. The first value makes the vault.
    pub fn set(&self, name: &str, secret: &Secret) -> Result<(), Fault> {
        if !is_name(name) {
            let remedy = "Write at most 64 letters, digits, `_`, `-` or `.`.";
            return Err(Fault::failed("bad_secret_name", "this is not a name for a secret", remedy));
        }
        let entry = Entry { value: secret.0.clone(), set_at: Timestamp::now().strftime("%FT%TZ").to_string() };
        self.change(|secrets| {
            secrets.insert(name.to_owned(), entry);
            Ok(())
        })
    }

    /// Takes a secret out.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        self.change(|secrets| secrets.remove(name).map(drop).ok_or_else(|| missing(name)))
    }

    /// One change at a time, written as a whole or not at all.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> Result<(), Fault>) -> Result<(), Fault> {
        let _held = self.lock()?;
        let mut content = self.read()?.unwrap_or(Content { version: VERSION, secrets: BTreeMap::new() });
        change(&mut content.secrets)?;
        let recipients: Vec<Recipient> = self.identities_or_new()?.iter().map(Identity::to_public).collect();
        let sealed = seal(&content, &recipients).map_err(|error| self.unwritable(&error))?;
        write_private(&self.dir, FILE, &sealed).map_err(|error| self.unwritable(&error.to_string()))
    }

    /// What is in the vault; none where there is no vault yet.
    fn read(&self) -> Result<Option<Content>, Fault> {
        let sealed = match read_private(&self.file(), Exposure::Readers, MOST_BYTES) {
            Ok(sealed) => sealed,
            Err(Unread::Missing) => return Ok(None),
            Err(why) => return Err(unread("vault", &self.file(), why)),
        };
        let identities = self.identities()?.ok_or_else(|| {
            Fault::failed(
                "vault_identity_missing",
                format!("the key to the vault, `{}`, is not there", self.identity_file().display()),
                "Put the key back, or set TOOLGATE_VAULT_IDENTITY to the file it is in.",
            )
        })?;
        open(&sealed, &identities).map(Some).map_err(|why| match why {
            Shut::WrongKey => Fault::failed(
                "vault_locked",
                format!("the key `{}` does not open the vault", self.identity_file().display()),
                "Set TOOLGATE_VAULT_IDENTITY to the file with the key the vault was made with.",
            ),
            Shut::Broken(why) => Fault::failed(
                "vault_broken",
                format!("the vault `{}` is damaged: {why}", self.file().display()),
                "Restore it from a copy, or remove it and set every secret again.",
            ),
        })
    }

    /// The keys in the identity file; none where there is no such file.
    fn identities(&self) -> Result<Option<Vec<Identity>>, Fault> {
        let place = self.identity_file();
        let bytes = match read_private(&place, Exposure::Nobody, 64 * 1024) {
            Ok(bytes) => bytes,
            Err(Unread::Missing) => return Ok(None),
            Err(why) => return Err(unread("key to the vault", &place, why)),
        };
        let lines = str::from_utf8(&bytes).unwrap_or_default().lines().map(str::trim);
        let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::parse);
        match keys.collect::<Result<Vec<Identity>, _>>() {
            Ok(keys) if !keys.is_empty() => Ok(Some(keys)),
            _ => Err(Fault::failed(
                "vault_identity_wrong",
                format!("`{}` holds no key that `age-keygen` would make", place.display()),
                "Put the right key there; it begins with AGE-SECRET-KEY-1.",
            )),
        }
    }

    /// The keys; for the first vault of a data directory, a new one. One that was to be elsewhere is never made up.
    fn identities_or_new(&self) -> Result<Vec<Identity>, Fault> {
        if let Some(keys) = self.identities()? {
            return Ok(keys);
        }
        if let Some(place) = &self.identity {
            return Err(Fault::failed(
                "vault_identity_missing",
                format!("TOOLGATE_VAULT_IDENTITY names `{}`, which is not there", place.display()),
                format!("Make a key with `age-keygen -o '{}'`, or unset the variable.", place.display()),
            ));
        }
        let key = Identity::generate();
        let text = Zeroizing::new(format!(
            "# created: {}\n# public key: {}\n{}\n",
            Timestamp::now().strftime("%FT%TZ"),
            key.to_public(),
            key.to_string().expose_secret(),
        ));
        write_private(&self.dir, IDENTITY, text.as_bytes()).map_err(|error| self.unwritable(&error.to_string()))?;
        Ok(vec![key])
    }

    fn lock(&self) -> Result<File, Fault> {
        lock(&self.dir, LOCK).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Fault::failed("vault_busy", format!("the vault is being changed: {error}"), "Try again.").retryable()
            }
            _ => self.unwritable(&error.to_string()),
        })
    }

    fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn identity_file(&self) -> PathBuf {
        self.identity.clone().unwrap_or_else(|| self.dir.join(IDENTITY))
    }

    fn unwritable(&self, why: &str) -> Fault {
        Fault::failed(
            "vault_unwritable",
            format!("the vault in `{}` cannot be written: {why}", self.dir.display()),
            "Make the data directory writable for you, and check the disk.",
        )
    }
}

fn missing(name: &str) -> Fault {
    // A name may be what somebody took for the secret itself, so only a proper one is repeated.
    let name = if is_name(name) { name } else { "NAME" };
    Fault::failed(
        "secret_missing",
        format!("there is no secret `{name}` in the vault"),
        format!("Run `toolgate secrets set {name}`, or `toolgate secrets list` to see what there is."),
    )
}

fn unread(what: &str, place: &Path, why: Unread) -> Fault {
    let place = place.display();
    match why {
        Unread::Missing => Fault::failed("secret_missing", format!("there is no {what} at `{place}`"), "Put it there."),
        Unread::Exposed(why) => Fault::refused(
            "secret_exposed",
            format!("others can get at the {what}, `{place}`: {why}"),
            format!("Run `chmod 600 '{place}'` as its owner, and replace the secrets if somebody may have read them."),
        ),
        Unread::Failed(error) => Fault::failed(
            "vault_unreadable",
            format!("the {what}, `{place}`, cannot be read: {error}"),
            "Make it a regular file that the user Toolgate runs as may read.",
        ),
    }
}

fn seal(content: &Content, recipients: &[Recipient]) -> Result<Vec<u8>, String> {
    let plain = Zeroizing::new(serde_json::to_vec(content).map_err(|error| error.to_string())?);
    let said = |error: &dyn ToString| error.to_string();
    let keys = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
    let mut sealed = Vec::new();
    let encryptor = Encryptor::with_recipients(keys).map_err(|error| said(&error))?;
    let mut writer = encryptor.wrap_output(&mut sealed).map_err(|error| said(&error))?;
    writer.write_all(&plain).and_then(|()| writer.finish()).map_err(|error| said(&error))?;
    Ok(sealed)
}

/// Why a vault did not open.
enum Shut {
    WrongKey,
    Broken(String),
}

fn open(sealed: &[u8], identities: &[Identity]) -> Result<Content, Shut> {
    let broken = |why: &dyn ToString| Shut::Broken(why.to_string());
    let keys = identities.iter().map(|identity| identity as &dyn age::Identity);
    let decryptor = Decryptor::new_buffered(sealed).map_err(|error| broken(&error))?;
    let mut reader = decryptor.decrypt(keys).map_err(|error| match error {
        DecryptError::NoMatchingKeys => Shut::WrongKey,
        other => broken(&other),
    })?;
    let mut plain = Zeroizing::new(Vec::with_capacity(sealed.len()));
    reader.read_to_end(&mut plain).map_err(|error| broken(&error))?;
    let content: Content =
        serde_json::from_slice(&plain).map_err(|_| broken(&"what is in it was not written by Toolgate"))?;
    match content.version {
        VERSION => Ok(content),
        other => Err(Shut::Broken(format!("it has version {other}, and this program knows {VERSION}"))),
    }
}
