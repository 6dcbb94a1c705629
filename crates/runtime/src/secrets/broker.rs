//! The broker: from a reference to a value.

use std::{
    borrow::Cow,
    ffi::OsString,
    fmt, mem,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::Value;
use toolgate_contract::Fault;
use toolgate_guard::secrets::Known;
use zeroize::Zeroizing;

use super::{
    LONGEST, Secret, SecretRef, Vault, keyring,
    private::{Exposure, Unread, read_private},
};

/// Looks a variable up.
pub type Environment = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Where secrets come from. The caller reads the environment; nothing here does.
#[derive(Clone)]
pub struct SecretPlaces {
    /// The data directory, where the vault is. Without one nothing is looked up at all.
    pub data_dir: Option<PathBuf>,
    /// The key to the vault, where it is not in the data directory.
    pub identity: Option<PathBuf>,
    /// The address of the session bus, where the keyring is.
    pub session_bus: Option<String>,
    /// Looks a variable up.
    pub environment: Environment,
}

impl SecretPlaces {
    /// No places: every secret is missing.
    pub fn none() -> Self {
        Self { data_dir: None, identity: None, session_bus: None, environment: Arc::new(|_| None) }
    }
}

/// Hands secrets out and knows them again.
pub struct Broker {
    places: SecretPlaces,
    vault: Option<Vault>,
    /// What was handed out. Values stay until the broker goes: one that was replaced can still turn up in an answer.
    known: RwLock<Known>,
}

impl Broker {
    /// A broker for these places. Nothing is opened yet.
    pub fn open(places: SecretPlaces) -> Self {
        let vault = places.data_dir.clone().map(|dir| Vault::new(dir, places.identity.clone()));
        Self { places, vault, known: RwLock::default() }
    }

    /// The value a reference names, as it is now. It blocks: a keyring may take its time.
    pub fn get(&self, reference: &SecretRef) -> Result<Secret, Fault> {
        let vault = self.vault()?;
        let secret = match reference {
            SecretRef::Env(name) => self.variable(name),
            SecretRef::File(path) => file(path),
            SecretRef::Vault(name) => vault.get(name),
            SecretRef::Keyring { service, name } => keyring::get(self.places.session_bus.as_deref(), service, name),
        }?;
        self.remember(&reference.label(), &secret);
        Ok(secret)
    }

    /// Puts another value in the place of one that was handed out, where that place is ours to write.
    pub(crate) fn replace(&self, reference: &SecretRef, secret: &Secret) -> Result<bool, Fault> {
        self.remember(&reference.label(), secret);
        match reference {
            SecretRef::Vault(name) => self.vault()?.set(name, secret).map(|()| true),
            SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Keyring { .. } => Ok(false),
        }
    }

    /// A value made from secrets, or got with their help: it is taken out of texts like one of them.
    pub fn remember(&self, label: &str, secret: &Secret) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remember(label, secret.expose());
    }

    /// The text with every secret that was handed out replaced by `[redacted:NAME]`. A text is redacted before it is cut:
    /// half a secret is not found.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).redact(text)
    }

    /// The same for bytes that may be text.
    pub fn redact_bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).redact_bytes(bytes)
    }

    /// The same for every text in a value, keys included.
    pub fn redact_value(&self, mut value: Value) -> Value {
        self.redact_in(&mut value);
        value
    }

    fn redact_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.owned(mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_in(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.redact_in(value));
                if fields.keys().any(|key| matches!(self.redact(key), Cow::Owned(_))) {
                    *fields = mem::take(fields).into_iter().map(|(key, value)| (self.owned(key), value)).collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The same for the words of a fault.
    pub fn redact_fault(&self, fault: Fault) -> Fault {
        Fault { message: self.owned(fault.message), remedy: self.owned(fault.remedy), ..fault }
    }

    fn vault(&self) -> Result<&Vault, Fault> {
        self.vault.as_ref().ok_or_else(|| {
            let message = "this runtime was given no place to look for secrets";
            Fault::failed("secret_missing", message, "Open it with the places of secrets.")
        })
    }

    fn owned(&self, text: String) -> String {
        match self.redact(&text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => text,
        }
    }

    fn variable(&self, name: &str) -> Result<Secret, Fault> {
        let value = (self.places.environment)(name).ok_or_else(|| {
            Fault::failed(
                "secret_missing",
                format!("the variable `{name}` is not set where Toolgate was started"),
                format!("Set `{name}` before Toolgate starts, or use `toolgate secrets set` and `vault:NAME`."),
            )
        })?;
        Secret::admit(&format!("`env:{name}`"), &Zeroizing::new(value.into_vec()))
    }
}

fn file(path: &Path) -> Result<Secret, Fault> {
    let place = path.display();
    let bytes = read_private(path, Exposure::Group, LONGEST + 2).map_err(|why| match why {
        Unread::Missing => Fault::failed(
            "secret_missing",
            format!("there is no file `{place}` with a secret"),
            "Write the secret into it, or correct the reference.",
        ),
        Unread::Exposed(why) => Fault::refused(
            "secret_exposed",
            format!("others can get at the secret in `{place}`: {why}"),
            format!("Run `chmod 600 '{place}'`, and replace the secret if somebody may have read it."),
        ),
        Unread::Failed(error) => Fault::failed(
            "secret_unreadable",
            format!("the secret in `{place}` cannot be read: {error}"),
            "Make it a regular file that the user Toolgate runs as may read.",
        ),
    })?;
    Secret::admit(&format!("`file:{place}`"), &bytes)
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("places", &self.places).finish_non_exhaustive()
    }
}

impl fmt::Debug for SecretPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretPlaces").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}
