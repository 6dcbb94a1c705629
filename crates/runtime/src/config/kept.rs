//! `connections.yaml`: the connections a person added with a command.
//!
//! It is a file of the data directory, which no tool and no room can write, in the format of every config, and holds
//! connections only. It is read beside whatever else is read.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use toolgate_contract::ActionRegistry;
use toolgate_gate::Sourced;

use super::{
    Connection, Note, Read,
    check::Check,
    connections,
    error::ConfigError,
    file::{ConfigFile, ConnectionFile},
    findings::Findings,
    load::{self, At, Entries, MAX_BYTES},
    text::Text,
};
use crate::secrets::{Exposure, Unread, lock, read_private, write_private};

const FILE: &str = "connections.yaml";
const LOCK: &str = "connections.lock";
const HEAD: &str = "# Written by `toolgate connections`, which does not keep comments.\nconnections:\n";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KeptFile {
    connections: Option<Entries<At<ConnectionFile>>>,
}

/// Where the file is.
pub fn connections_file(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Reads the file as one more trusted layer, where it is there.
pub(super) fn open(data_dir: &Path, layers: &mut Vec<Read>, findings: &mut Findings) {
    match read(data_dir) {
        Ok(Some(text)) => parse(text, layers, findings),
        Ok(None) => {}
        Err(error) => findings.errors.push(error),
    }
}

/// Adds a connection, written as in a config. What an operator should know about it comes back.
///
/// Whether another file has one of this name is for the caller to find: this looks at this file alone.
pub fn add_connection(data_dir: &Path, name: &str, connection: &Value) -> Result<Vec<Note>, Vec<ConfigError>> {
    let (mut new, notes) = check(Text::new("the command line", &format!("{HEAD}{}", entry(name, connection))))?;
    change(data_dir, |known| known.append(&mut new))?;
    Ok(notes)
}

/// Takes a connection out of the file.
pub fn remove_connection(data_dir: &Path, name: &str) -> Result<(), Vec<ConfigError>> {
    change(data_dir, |known| drop(known.remove(name)))
}

type Kept = BTreeMap<String, Sourced<Connection>>;

/// One change at a time, written as a whole or not at all.
fn change(data_dir: &Path, change: impl FnOnce(&mut Kept)) -> Result<(), Vec<ConfigError>> {
    let place = connections_file(data_dir).display().to_string();
    let unwritable = |error: io::Error| {
        let message = format!("the connections cannot be written: {error}");
        vec![ConfigError::whole(&*place, message, "Make the data directory writable for you, and try again.")]
    };
    let _held = lock(data_dir, LOCK).map_err(unwritable)?;
    let mut known = match read(data_dir).map_err(|error| vec![error])? {
        Some(text) => check(text)?.0,
        None => Kept::new(),
    };
    change(&mut known);
    let mut page = HEAD.to_owned();
    for (name, connection) in &known {
        let value = serde_json::to_value(&connection.value).map_err(|error| unwritable(error.into()))?;
        page += &entry(name, &value);
    }
    write_private(data_dir, FILE, page.as_bytes()).map_err(unwritable)
}

/// One connection. JSON is YAML, so every word is quoted as JSON quotes it.
fn entry(name: &str, connection: &Value) -> String {
    let mut entry = format!("  {}:\n", Value::from(name));
    for (key, value) in connection.as_object().into_iter().flatten() {
        entry += &format!("    {key}: {value}\n");
    }
    entry
}

fn read(data_dir: &Path) -> Result<Option<Text>, ConfigError> {
    let place = connections_file(data_dir).display().to_string();
    let bytes = match read_private(&connections_file(data_dir), Exposure::Readers, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(Unread::Missing) => return Ok(None),
        Err(Unread::Exposed(why)) => {
            let message = format!("the list of connections may be somebody else's: {why}");
            return Err(ConfigError::whole(place, message, "Read it, then run `chmod 600` on it as its owner."));
        }
        Err(Unread::Failed(error)) => {
            let message = format!("the list of connections cannot be read: {error}");
            return Err(ConfigError::whole(place, message, "Make it a regular file that you may read, or remove it."));
        }
    };
    match str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(Text::new(&place, text))),
        Err(_) => Err(ConfigError::whole(place, "the list of connections is not UTF-8 text", "Save it as UTF-8.")),
    }
}

fn parse(text: Text, layers: &mut Vec<Read>, findings: &mut Findings) {
    let parsed = load::parse::<KeptFile>(&text.text);
    let number = findings.add(text);
    match parsed {
        Ok(kept) => {
            let file = ConfigFile { connections: kept.connections, ..ConfigFile::default() };
            layers.push(Read { number, file, trusted: true, admin: false });
        }
        Err(why) => findings.unreadable(number, why),
    }
}

/// The connections of one text.
fn check(text: Text) -> Result<(Kept, Vec<Note>), Vec<ConfigError>> {
    let (mut findings, mut layers, mut known) = (Findings::default(), Vec::new(), Kept::new());
    parse(text, &mut layers, &mut findings);
    for layer in &layers {
        let new = connections::check(
            &mut Check::new(layer.number, &mut findings, &ActionRegistry::default()),
            &layer.file.connections,
        );
        connections::add(&mut known, new, &mut findings);
    }
    findings.into_result().map(|notes| (known, notes))
}
