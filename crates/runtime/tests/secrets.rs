//! Secrets from outside: where they come from, who else can read them, and what is left when something goes wrong.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;
use toolgate_contract::{Fault, FaultKind};
use toolgate_runtime::secrets::{Broker, Secret, SecretPlaces, SecretRef, Vault};

/// A data directory of its own, and a value to look for.
struct House {
    root: TempDir,
}

const CANARY: &str = "canary-7f3a91c2";

impl House {
    fn new() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn vault(&self) -> Vault {
        Vault::new(self.data(), None)
    }

    fn places(&self) -> SecretPlaces {
        SecretPlaces {
            data_dir: Some(self.data()),
            session_bus: Some("unix:path=/nowhere".into()),
            ..SecretPlaces::none()
        }
    }

    fn broker(&self) -> Broker {
        Broker::open(self.places())
    }

    fn put(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

fn secret(value: &str) -> Secret {
    Secret::new(value.to_owned())
}

fn names(vault: &Vault) -> Vec<String> {
    vault.list().unwrap().into_iter().map(|kept| kept.name).collect()
}

fn code<T>(result: Result<T, Fault>) -> String {
    result.err().map(|fault| fault.code.into_owned()).unwrap_or_default()
}

/// The value, or the code of the fault.
fn got(broker: &Broker, reference: &str) -> Result<String, String> {
    let reference = SecretRef::parse(reference).map_err(|fault| fault.code.into_owned())?;
    broker.get(&reference).map(|secret| secret.expose().to_owned()).map_err(|fault| fault.code.into_owned())
}

fn skipped(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

// ---- the vault ----

#[test]
fn the_vault_keeps_what_is_put_into_it() {
    let house = House::new();
    let vault = house.vault();
    assert_eq!((names(&vault), code(vault.get("one"))), (vec![], "secret_missing".into()));
    assert!(!house.data().exists(), "looking makes nothing");
    vault.set("two", &secret("first value")).unwrap();
    vault.set("one", &secret("päß \"\\\n wörd")).unwrap();
    vault.set("two", &secret("second value")).unwrap();
    assert_eq!(names(&vault), ["one", "two"]);
    assert_eq!(vault.get("one").unwrap().expose(), "päß \"\\\n wörd");
    assert_eq!(vault.get("two").unwrap().expose(), "second value");
    vault.remove("one").unwrap();
    assert_eq!((names(&vault), code(vault.get("one"))), (vec!["two".into()], "secret_missing".into()));
    assert_eq!(code(vault.remove("one")), "secret_missing");
    for name in ["", "a b", "../x", "a/b", &"a".repeat(65)] {
        assert_eq!(code(vault.set(name, &secret(CANARY))), "bad_secret_name");
    }
}

#[test]
fn nobody_else_can_read_the_vault_and_no_value_is_in_the_open() {
    let house = House::new();
    house.vault().set("token", &secret(CANARY)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.data()), 0o700);
    let mut found = Vec::new();
    for entry in fs::read_dir(house.data()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "{}", path.display());
        found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    found.sort();
    assert_eq!(found, ["vault-identity.txt", "vault.age", "vault.lock"]);
}

#[test]
fn the_age_program_reads_the_vault_and_writes_one_we_read() {
    if !is_there("age") {
        return skipped("`age` is not installed, so nobody else reads the vault");
    }
    let house = House::new();
    house.vault().set("token", &secret(CANARY)).unwrap();
    let (sealed, key) = (house.data().join("vault.age"), house.data().join("vault-identity.txt"));
    let age = |args: &[&str]| Command::new("age").args(args).output().unwrap();
    let opened = age(&["-d", "-i", key.to_str().unwrap(), sealed.to_str().unwrap()]);
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    let mut content: serde_json::Value = serde_json::from_slice(&opened.stdout).unwrap();
    assert_eq!(content["secrets"]["token"]["value"], CANARY);

    content["secrets"]["other"] = json!({ "value": "from age itself", "set_at": "2026-01-01T00:00:00Z" });
    let plain = house.put("plain.json", content.to_string().as_bytes(), 0o600);
    let sealed_again =
        age(&["-e", "-i", key.to_str().unwrap(), "-o", sealed.to_str().unwrap(), plain.to_str().unwrap()]);
    assert!(sealed_again.status.success(), "{}", String::from_utf8_lossy(&sealed_again.stderr));
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(house.vault().get("other").unwrap().expose(), "from age itself");
    assert_eq!(house.vault().get("token").unwrap().expose(), CANARY);
}

#[test]
fn a_damaged_vault_is_said_to_be_and_left_alone() {
    let house = House::new();
    let vault = house.vault();
    vault.set("token", &secret(CANARY)).unwrap();
    let file = house.data().join("vault.age");
    let whole = fs::read(&file).unwrap();
    let spoil = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let (read, written) = (vault.get("token"), vault.set("other", &secret("another value")));
        for fault in [read.err().unwrap(), written.err().unwrap()] {
            assert!(["vault_broken", "vault_locked"].contains(&&*fault.code), "{what}: {fault}");
            assert!(!fault.to_string().contains(CANARY), "{fault}");
        }
        assert_eq!(fs::read(&file).unwrap(), bytes, "{what}: nothing is written over what cannot be read");
    };
    for length in 0..whole.len() {
        spoil(&whole[..length], &format!("cut to {length}"));
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        spoil(&changed, &format!("byte {at}"));
    }
    spoil(&[&whole[..], b"x"].concat(), "longer");
    fs::write(&file, &whole).unwrap();
    assert_eq!(vault.get("token").unwrap().expose(), CANARY);
}

#[test]
fn a_vault_without_its_key_is_not_given_another() {
    let house = House::new();
    let vault = house.vault();
    vault.set("token", &secret(CANARY)).unwrap();
    let key = house.data().join("vault-identity.txt");
    let kept = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    assert_eq!(code(vault.get("token")), "vault_identity_missing");
    assert_eq!(code(vault.set("other", &secret("another value"))), "vault_identity_missing");
    assert!(!key.exists());

    let other = House::new();
    other.vault().set("token", &secret("of another")).unwrap();
    fs::copy(other.data().join("vault-identity.txt"), &key).unwrap();
    assert_eq!(code(vault.get("token")), "vault_locked");
    fs::write(&key, "# nothing\n").unwrap();
    assert_eq!(code(vault.get("token")), "vault_identity_wrong");
    fs::write(&key, "AGE-SECRET-KEY-1CANARY\n").unwrap();
    let fault = vault.get("token").err().unwrap();
    assert!(fault.code == "vault_identity_wrong" && !fault.to_string().contains("CANARY"), "{fault}");

    // Several keys in one file: any of them opens.
    let both = [fs::read(other.data().join("vault-identity.txt")).unwrap(), kept].concat();
    fs::write(&key, both).unwrap();
    assert_eq!(vault.get("token").unwrap().expose(), CANARY);
}

#[test]
fn a_key_others_can_read_is_refused() {
    let house = House::new();
    let vault = house.vault();
    vault.set("token", &secret(CANARY)).unwrap();
    let key = house.data().join("vault-identity.txt");
    for mode in [0o644, 0o640, 0o604, 0o620, 0o602] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let fault = vault.get("token").err().unwrap();
        assert_eq!((fault.kind, &*fault.code), (FaultKind::Refused, "secret_exposed"), "{mode:o}");
        assert!(fault.remedy.contains("chmod 600"), "{fault}");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let file = house.data().join("vault.age");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o662)).unwrap();
    assert_eq!(code(vault.get("token")), "secret_exposed");
}

#[test]
fn the_key_may_be_elsewhere_and_is_never_made_up_there() {
    let house = House::new();
    let elsewhere = house.path("key.txt");
    let vault = Vault::new(house.data(), Some(elsewhere.clone()));
    let fault = vault.set("token", &secret(CANARY)).err().unwrap();
    assert!(fault.code == "vault_identity_missing" && fault.remedy.contains("age-keygen -o"), "{fault}");
    assert!(!elsewhere.exists() && !house.data().join("vault.age").exists());

    let donor = House::new();
    donor.vault().set("token", &secret("of another")).unwrap();
    fs::copy(donor.data().join("vault-identity.txt"), &elsewhere).unwrap();
    vault.set("token", &secret(CANARY)).unwrap();
    assert_eq!(vault.get("token").unwrap().expose(), CANARY);
    assert!(!house.data().join("vault-identity.txt").exists());
    assert_eq!(code(house.vault().get("token")), "vault_identity_missing");
}

#[test]
fn writers_wait_for_one_another() {
    let house = House::new();
    thread::scope(|scope| {
        for writer in 0..4 {
            let vault = house.vault();
            scope.spawn(move || {
                for number in 0..5 {
                    vault.set(&format!("w{writer}-{number}"), &secret(&format!("value {writer} {number}"))).unwrap();
                }
            });
        }
    });
    let vault = house.vault();
    assert_eq!(names(&vault).len(), 20);
    assert_eq!(vault.get("w3-4").unwrap().expose(), "value 3 4");
}

#[test]
fn a_crash_leaves_the_old_vault_and_no_trap_is_written_through() {
    let house = House::new();
    let vault = house.vault();
    vault.set("token", &secret(CANARY)).unwrap();
    let draft = house.data().join(format!("vault.age.{}.new", std::process::id()));
    fs::write(&draft, "half a vault").unwrap();
    assert_eq!(vault.get("token").unwrap().expose(), CANARY);
    fs::remove_file(&draft).unwrap();
    let trap = house.put("trap", b"mine", 0o600);
    symlink(&trap, &draft).unwrap();
    vault.set("token", &secret("another value")).unwrap();
    assert_eq!(fs::read(&trap).unwrap(), b"mine");
    assert_eq!(vault.get("token").unwrap().expose(), "another value");
    assert!(!draft.exists());
}

// ---- the broker ----

#[test]
fn a_variable_is_looked_up_where_the_caller_says() {
    let house = House::new();
    let environment = |name: &str| match name {
        "TOKEN" => Some(OsString::from("from the environment\n")),
        "EMPTY" => Some(OsString::new()),
        _ => None,
    };
    let broker = Broker::open(SecretPlaces { environment: Arc::new(environment), ..house.places() });
    assert_eq!(got(&broker, "env:TOKEN"), Ok("from the environment".into()));
    assert_eq!(got(&broker, "env:OTHER"), Err("secret_missing".into()));
    assert_eq!(got(&broker, "env:EMPTY"), Err("secret_too_short".into()));
    assert_eq!(got(&broker, "env:PATH"), Err("secret_missing".into()), "the process's own environment is not read");
}

#[test]
fn a_file_is_read_as_a_whole_and_only_if_others_cannot() {
    let house = House::new();
    let broker = house.broker();
    let check = |content: &[u8], mode: u32, expected: Result<&str, &str>| {
        let path = house.put("token", content, mode);
        let found = got(&broker, &format!("file:{}", path.display()));
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{mode:o}");
        fs::remove_file(path).unwrap();
    };
    check(b"token value\n", 0o600, Ok("token value"));
    check(b"token value", 0o400, Ok("token value"));
    check(b"token value", 0o440, Ok("token value"));
    check(b"two\nlines\n", 0o600, Ok("two\nlines"));
    for mode in [0o644, 0o604, 0o602, 0o660, 0o601, 0o444] {
        check(b"token value", mode, Err("secret_exposed"));
    }
    check(b"abc\n", 0o600, Err("secret_too_short"));
    check(&[b'x'; 100_000], 0o600, Err("secret_unreadable"));
    let directory = format!("file:{}", house.root.path().display());
    assert_eq!(got(&broker, &directory), Err("secret_unreadable".into()));
    assert_eq!(got(&broker, "file:/nowhere/at/all"), Err("secret_missing".into()));
    // A named pipe nobody writes to holds nobody up.
    let pipe = house.path("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    assert_eq!(got(&broker, &format!("file:{}", pipe.display())), Err("secret_unreadable".into()));
    // A link to a secret is what orchestrators make.
    let real = house.put("real", b"linked value", 0o600);
    symlink(real, house.path("link")).unwrap();
    assert_eq!(got(&broker, &format!("file:{}", house.path("link").display())), Ok("linked value".into()));
}

#[test]
fn what_was_handed_out_is_taken_out_of_texts_values_and_faults() {
    let house = House::new();
    house.vault().set("forge-token", &secret(CANARY)).unwrap();
    let broker = house.broker();
    assert_eq!(broker.redact(CANARY), CANARY, "nothing is known before it is handed out");
    broker.get(&SecretRef::Vault("forge-token".into())).unwrap();
    assert_eq!(broker.redact(&format!("a {CANARY} b")), "a [redacted:forge-token] b");
    let value = json!({ CANARY: [CANARY, 1, { "a": format!("x{CANARY}") }], "b": null });
    let clean = json!({ "[redacted:forge-token]": ["[redacted:forge-token]", 1, { "a": "x[redacted:forge-token]" }], "b": null });
    assert_eq!(broker.redact_value(value), clean);
    let fault = Fault::failed("x", format!("m {CANARY}"), format!("r {CANARY}")).retryable();
    let clean = Fault::failed("x", "m [redacted:forge-token]", "r [redacted:forge-token]").retryable();
    assert_eq!(broker.redact_fault(fault), clean);
    // The old value is still one after it was replaced.
    house.vault().set("forge-token", &secret("another value")).unwrap();
    broker.get(&SecretRef::Vault("forge-token".into())).unwrap();
    assert_eq!(broker.redact(&format!("{CANARY} another value")), "[redacted:forge-token] [redacted:forge-token]");
    assert!(!format!("{broker:?}").contains("value"));
}

#[test]
fn without_places_there_are_no_secrets() {
    let house = House::new();
    let file = house.put("token", b"token value", 0o600);
    let broker = Broker::open(SecretPlaces::none());
    for reference in ["env:PATH", "vault:a", "keyring:a/b", &format!("file:{}", file.display())] {
        assert_eq!(got(&broker, reference), Err("secret_missing".into()), "{reference}");
    }
}

// ---- the keyring ----

/// A session bus with a keyring on it, both ended with the test.
struct Desktop {
    address: String,
    home: TempDir,
    bus: Child,
    keyring: Option<Child>,
}

impl Desktop {
    /// None where the programs are missing.
    fn start() -> Option<Self> {
        if !["dbus-daemon", "dbus-send", "gnome-keyring-daemon", "secret-tool"].into_iter().all(is_there) {
            return None;
        }
        let home = TempDir::new().unwrap();
        // No service files: the bus would start a keyring of its own, which nobody unlocked.
        let config = format!(
            "<busconfig><type>session</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\
             <policy context='default'><allow send_destination='*' eavesdrop='true'/>\
             <allow eavesdrop='true'/><allow own='*'/></policy></busconfig>",
            home.path().join("bus").display()
        );
        fs::write(home.path().join("bus.conf"), config).unwrap();
        let mut bus = Command::new("dbus-daemon")
            .args(["--nofork", "--print-address", "--config-file"])
            .arg(home.path().join("bus.conf"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let mut desktop = Self { address: address.trim().to_owned(), home, bus, keyring: None };
        let mut daemon = desktop.command("gnome-keyring-daemon");
        daemon.args(["--unlock", "--foreground", "--components=secrets"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut keyring = daemon.spawn().unwrap();
        keyring.stdin.take().unwrap().write_all(b"a login password").unwrap();
        desktop.keyring = Some(keyring);
        let until = Instant::now() + Duration::from_secs(20);
        while !desktop.stores("is it there", &["service", "test", "username", "test"]) {
            assert!(Instant::now() < until, "the keyring does not start");
            thread::sleep(Duration::from_millis(50));
        }
        Some(desktop)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stderr(Stdio::null());
        command
    }

    fn store(&self, value: &str, attributes: &[&str]) {
        assert!(self.stores(value, attributes), "secret-tool could not store");
    }

    fn stores(&self, value: &str, attributes: &[&str]) -> bool {
        let mut command = self.command("secret-tool");
        command.args(["store", "--label=test"]).args(attributes).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may have ended already, where there is no keyring.
        let _ = child.stdin.take().unwrap().write_all(value.as_bytes());
        child.wait().unwrap().success()
    }

    fn lock(&self) {
        let mut command = self.command("dbus-send");
        command.args(["--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets"]);
        command
            .args(["org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/collection/login"]);
        assert!(command.stdout(Stdio::null()).status().unwrap().success(), "the keyring does not lock");
    }

    fn broker(&self, house: &House) -> Broker {
        Broker::open(SecretPlaces { session_bus: Some(self.address.clone()), ..house.places() })
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in self.keyring.iter_mut().chain([&mut self.bus]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn the_keyring_is_asked_over_the_session_bus() {
    let Some(desktop) = Desktop::start() else {
        return skipped("dbus-daemon, gnome-keyring-daemon or secret-tool is missing, so there is no keyring to ask");
    };
    let house = House::new();
    let broker = desktop.broker(&house);
    assert_eq!(got(&broker, "keyring:git.example.com/me"), Err("secret_missing".into()));
    desktop.store("first wörd", &["service", "git.example.com", "username", "me"]);
    desktop.store("other", &["service", "git.example.com", "username", "you"]);
    assert_eq!(got(&broker, "keyring:git.example.com/me"), Ok("first wörd".into()));
    assert_eq!(broker.redact("x first wörd"), "x [redacted:me]");
    assert_eq!(got(&broker, "keyring:git.example.com/nobody"), Err("secret_missing".into()));
    // As much as `secret-tool` takes.
    let long = "x".repeat(8_000);
    desktop.store(&long, &["service", "long", "username", "me"]);
    assert_eq!(got(&broker, "keyring:long/me"), Ok(long));
    desktop.store("twice", &["service", "git.example.com", "username", "me", "application", "another"]);
    assert_eq!(got(&broker, "keyring:git.example.com/me"), Err("secret_ambiguous".into()));
    desktop.lock();
    assert_eq!(got(&broker, "keyring:git.example.com/you"), Err("keyring_locked".into()));
}

#[test]
fn without_a_keyring_the_fault_says_what_helps() {
    let house = House::new();
    for address in ["unix:path=/nowhere/at/all", "", "tcp:host=localhost,port=1", "nonsense"] {
        let broker = Broker::open(SecretPlaces { session_bus: Some(address.into()), ..house.places() });
        let reference = SecretRef::parse("keyring:a/b").unwrap();
        let fault = broker.get(&reference).err().unwrap();
        assert_eq!(fault.code, "keyring_unavailable", "{address}");
        assert!(fault.remedy.contains("vault"), "{fault}");
    }
}
