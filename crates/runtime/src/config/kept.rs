//! `connections.yaml` and `mcp_servers.yaml`: what a person added with a command.
//!
//! They are files of the data directory, which no tool and no room can write, in the format of every config; one holds
//! connections only, the other servers only. They are read beside whatever else is read.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use toolgate_contract::ActionRegistry;
use toolgate_gate::Sourced;

use super::{
    Connection, Note, Read, Server,
    check::Check,
    connections,
    error::ConfigError,
    file::{ConfigFile, ConnectionFile, ServerFile},
    findings::Findings,
    load::{self, At, Entries, MAX_BYTES},
    servers::{self, Named},
    text::Text,
};
use crate::secrets::{Exposure, Unread, lock, read_private, write_private};

/// One of the files.
struct Shelf {
    file: &'static str,
    lock: &'static str,
    head: &'static str,
    /// What is in it, for people.
    what: &'static str,
}

const CONNECTIONS: Shelf = Shelf {
    file: "connections.yaml",
    lock: "connections.lock",
    head: "# Written by `toolgate connections`, which does not keep comments.\nconnections:\n",
    what: "connections",
};

const SERVERS: Shelf = Shelf {
    file: "mcp_servers.yaml",
    lock: "mcp_servers.lock",
    head: "# Written by `toolgate mcp`, which does not keep comments.\nmcp_servers:\n",
    what: "servers",
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KeptConnections {
    connections: Option<Entries<At<ConnectionFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KeptServers {
    mcp_servers: Option<Entries<At<ServerFile>>>,
}

impl From<KeptConnections> for ConfigFile {
    fn from(kept: KeptConnections) -> Self {
        Self { connections: kept.connections, ..Self::default() }
    }
}

impl From<KeptServers> for ConfigFile {
    fn from(kept: KeptServers) -> Self {
        Self { mcp_servers: kept.mcp_servers, ..Self::default() }
    }
}

/// Where connections are kept.
pub fn connections_file(data_dir: &Path) -> PathBuf {
    data_dir.join(CONNECTIONS.file)
}

/// Where servers are kept.
pub fn servers_file(data_dir: &Path) -> PathBuf {
    data_dir.join(SERVERS.file)
}

/// Reads the files as further trusted layers, where they are there.
pub(super) fn open(data_dir: &Path, layers: &mut Vec<Read>, findings: &mut Findings) {
    open_one::<KeptConnections>(&CONNECTIONS, data_dir, layers, findings);
    open_one::<KeptServers>(&SERVERS, data_dir, layers, findings);
}

fn open_one<T>(shelf: &Shelf, data_dir: &Path, layers: &mut Vec<Read>, findings: &mut Findings)
where
    T: DeserializeOwned + Default + Into<ConfigFile>,
{
    match shelf.read(data_dir) {
        Ok(Some(text)) => parse::<T>(text, layers, findings),
        Ok(None) => {}
        Err(error) => findings.errors.push(error),
    }
}

/// Adds a connection, written as in a config. What an operator should know about it comes back.
///
/// Whether another file has one of this name is for the caller to find: this looks at this file alone.
pub fn add_connection(data_dir: &Path, name: &str, connection: &Value) -> Result<Vec<Note>, Vec<ConfigError>> {
    let (mut new, notes) = check_connections(CONNECTIONS.page(name, connection))?;
    CONNECTIONS.change(data_dir, check_connections, |known| known.append(&mut new))?;
    Ok(notes)
}

/// Takes a connection out of the file.
pub fn remove_connection(data_dir: &Path, name: &str) -> Result<(), Vec<ConfigError>> {
    CONNECTIONS.change(data_dir, check_connections, |known| drop(known.remove(name)))
}

/// A server that is written on the command line. What it names in the open goes no further: a file of ours would keep it.
fn new_server(name: &str, server: &Value) -> Checked<Server> {
    let (new, notes) = check_servers(SERVERS.page(name, server))?;
    match new.values().find_map(|server| servers::in_the_open(&server.value)) {
        Some((message, remedy)) => Err(vec![ConfigError::whole("the command line", message, remedy)]),
        None => Ok((new, notes)),
    }
}

/// Checks a server, written as in a config, and adds nothing.
pub fn check_server(name: &str, server: &Value) -> Result<(Server, Vec<Note>), Vec<ConfigError>> {
    let (mut known, notes) = new_server(name, server)?;
    let missing = || vec![ConfigError::whole("the command line", "no server is named", "Name one.")];
    Ok((known.remove(name).ok_or_else(missing)?.value, notes))
}

/// Adds a server, written as in a config, as [`add_connection`] does.
pub fn add_server(data_dir: &Path, name: &str, server: &Value) -> Result<Vec<Note>, Vec<ConfigError>> {
    let (mut new, notes) = new_server(name, server)?;
    SERVERS.change(data_dir, check_servers, |known| known.append(&mut new))?;
    Ok(notes)
}

/// Takes a server out of the file.
pub fn remove_server(data_dir: &Path, name: &str) -> Result<(), Vec<ConfigError>> {
    SERVERS.change(data_dir, check_servers, |known| drop(known.remove(name)))
}

type Kept<T> = BTreeMap<String, Sourced<T>>;
type Checked<T> = Result<(Kept<T>, Vec<Note>), Vec<ConfigError>>;

impl Shelf {
    /// A page with one entry.
    fn page(&self, name: &str, value: &Value) -> Text {
        Text::new("the command line", &format!("{}{}", self.head, entry(name, value)))
    }

    /// One change at a time, written as a whole or not at all.
    fn change<T: Serialize>(
        &self,
        data_dir: &Path,
        check: fn(Text) -> Checked<T>,
        change: impl FnOnce(&mut Kept<T>),
    ) -> Result<(), Vec<ConfigError>> {
        let place = data_dir.join(self.file).display().to_string();
        let unwritable = |error: io::Error| {
            let message = format!("the {} cannot be written: {error}", self.what);
            vec![ConfigError::whole(&*place, message, "Make the data directory writable for you, and try again.")]
        };
        let _held = lock(data_dir, self.lock).map_err(unwritable)?;
        let mut known = match self.read(data_dir).map_err(|error| vec![error])? {
            Some(text) => check(text)?.0,
            None => Kept::new(),
        };
        change(&mut known);
        let mut page = self.head.to_owned();
        for (name, kept) in &known {
            let value = serde_json::to_value(&kept.value).map_err(|error| unwritable(error.into()))?;
            page += &entry(name, &value);
        }
        write_private(data_dir, self.file, page.as_bytes()).map_err(unwritable)
    }

    fn read(&self, data_dir: &Path) -> Result<Option<Text>, ConfigError> {
        let (path, what) = (data_dir.join(self.file), self.what);
        let place = path.display().to_string();
        let bytes = match read_private(&path, Exposure::Readers, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(Unread::Missing) => return Ok(None),
            Err(Unread::Exposed(why)) => {
                let message = format!("the list of {what} may be somebody else's: {why}");
                return Err(ConfigError::whole(place, message, "Read it, then run `chmod 600` on it as its owner."));
            }
            Err(Unread::Failed(error)) => {
                let message = format!("the list of {what} cannot be read: {error}");
                let remedy = "Make it a regular file that you may read, or remove it.";
                return Err(ConfigError::whole(place, message, remedy));
            }
        };
        match str::from_utf8(&bytes) {
            Ok(text) => Ok(Some(Text::new(&place, text))),
            Err(_) => {
                Err(ConfigError::whole(place, format!("the list of {what} is not UTF-8 text"), "Save it as UTF-8."))
            }
        }
    }
}

/// One entry. JSON is YAML, so every word is quoted as JSON quotes it.
fn entry(name: &str, value: &Value) -> String {
    let mut entry = format!("  {}:\n", Value::from(name));
    for (key, value) in value.as_object().into_iter().flatten() {
        entry += &format!("    {key}: {value}\n");
    }
    entry
}

fn parse<T>(text: Text, layers: &mut Vec<Read>, findings: &mut Findings)
where
    T: DeserializeOwned + Default + Into<ConfigFile>,
{
    let parsed = load::parse::<T>(&text.text);
    let number = findings.add(text);
    match parsed {
        Ok(kept) => layers.push(Read { number, file: kept.into(), trusted: true, admin: false }),
        Err(why) => findings.unreadable(number, why),
    }
}

/// The connections of one text.
fn check_connections(text: Text) -> Checked<Connection> {
    let (mut findings, mut layers, mut known) = (Findings::default(), Vec::new(), Kept::new());
    parse::<KeptConnections>(text, &mut layers, &mut findings);
    for layer in &layers {
        let actions = ActionRegistry::default();
        let new = connections::check(&mut Check::new(layer.number, &mut findings, &actions), &layer.file.connections);
        connections::add(&mut known, new, &mut findings);
    }
    findings.into_result().map(|notes| (known, notes))
}

/// The servers of one text.
fn check_servers(text: Text) -> Checked<Server> {
    let (mut findings, mut layers, mut known) = (Findings::default(), Vec::new(), Kept::new());
    parse::<KeptServers>(text, &mut layers, &mut findings);
    for layer in &layers {
        let actions = ActionRegistry::default();
        let new = servers::check(&mut Check::new(layer.number, &mut findings, &actions), &layer.file.mcp_servers);
        servers::add(&mut known, &mut Named::default(), new, &mut findings);
    }
    findings.into_result().map(|notes| (known, notes))
}
