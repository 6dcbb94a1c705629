//! The block `mcp_servers`: other MCP servers whose tools agents may be given.
//!
//! A server is a program or an address. A program runs in a room that is described here and nowhere else: what it sees of
//! the machine, whom it may talk to, which variables it has. What it is started with stands in the config word by word,
//! so that whoever reads it knows what runs: no shell, and no package without its exact version.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use toolgate_contract::SafetyClass;
use toolgate_gate::Sourced;
use toolgate_guard::{names, url::WebUrl};

use super::{
    check::{Check, entries},
    connections::{self, Word},
    file::{ServerFile, ServerToolFile},
    findings::{Findings, Said},
    load::{At, Entries, Mark},
    rooms,
    tighten::refuse,
    words::Port,
};
use crate::{
    definitions::{Terms, admit_origin},
    secrets::SecretRef,
};

/// Another MCP server. It serialises as it is written in a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// How it is reached.
    #[serde(flatten)]
    pub reached: Reached,
    /// How long it may take to say who it is.
    #[serde(rename = "handshake_seconds", serialize_with = "as_seconds")]
    pub handshake: Duration,
    /// How long it may take to answer.
    #[serde(rename = "request_seconds", serialize_with = "as_seconds")]
    pub request: Duration,
    /// What calls of its tools amount to, by its own names for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Terms>,
    /// The tools that are taken from it; none takes all. A `*` at the end stands for anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expose: Option<Vec<String>>,
    /// The tools that are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// What it may ask of whoever calls its tools; nothing where there is none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub may_ask: BTreeSet<MayAsk>,
    /// What is taken from it at all; everything where nothing is said.
    #[serde(skip_serializing_if = "takes_all")]
    pub offers: BTreeSet<Offers>,
    /// It is left alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// What a server has to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offers {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// What can be read.
    Resources,
}

impl Offers {
    /// Everything there is.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// As configs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }
}

fn takes_all(offers: &BTreeSet<Offers>) -> bool {
    offers.len() == Offers::ALL.len()
}

/// What a server may ask of whoever calls its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MayAsk {
    /// The person at the client: to fill in a form, or to open an address of the server's.
    Elicitation,
    /// The client's model.
    Sampling,
    /// The directories the client works in.
    Roots,
}

impl MayAsk {
    /// Everything there is.
    pub const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    /// As configs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reached {
    /// As a program, in a room of its own.
    Program(Program),
    /// At an address.
    Address(Address),
}

/// A server that is a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Program {
    /// What is started.
    pub command: String,
    /// What it is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its variables; it has no others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Word>,
    /// Whom it may talk to, each as `host:port`; nobody where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// The directory it works in; none where it has only private ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// May it change what is there?
    pub access: Access,
    /// Further directories it sees, to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub visible: Vec<PathBuf>,
}

/// What a server may do with the directory it works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// A server that is somewhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// Where.
    pub url: String,
    /// Headers it is sent, each a secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SecretRef>,
    /// The connection whose credentials it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

impl Server {
    /// Does all a call of it does stay in its room? It may talk to nobody, and change nothing that is there afterwards.
    pub fn is_kept_in(&self) -> bool {
        is_kept_in(&self.reached)
    }

    /// Every secret it takes.
    pub fn secrets(&self) -> Vec<&SecretRef> {
        match &self.reached {
            Reached::Program(program) => {
                let secret = |word| match word {
                    &Word::Plain(_) => None,
                    Word::Secret(reference) => Some(reference),
                };
                program.env.values().filter_map(secret).collect()
            }
            Reached::Address(address) => address.headers.values().collect(),
        }
    }

    /// Who it is: what is started, or where it is. Whoever agreed to its tools agreed to them coming from there.
    pub fn identity(&self) -> String {
        match &self.reached {
            Reached::Program(Program { command, args, .. }) => {
                let words: Vec<&String> = std::iter::once(command).chain(args).collect();
                serde_json::to_string(&words).unwrap_or_default()
            }
            Reached::Address(address) => address.url.clone(),
        }
    }

    /// Is this tool taken from it, by its own name for it?
    pub fn takes(&self, tool: &str) -> bool {
        let means = |entry: &String| match entry.strip_suffix('*') {
            Some(start) => tool.starts_with(start),
            None => entry == tool,
        };
        self.expose.as_ref().is_none_or(|listed| listed.iter().any(means)) && !self.hide.iter().any(means)
    }
}

/// How long a server may take to say who it is, and to answer, unless the config says otherwise.
const HANDSHAKE: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(30);
const MOST_SECONDS: u64 = 3_600;
const MOST_WORDS: usize = 200;

/// What servers name that has to be there, and where it is named.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    visible: Vec<Said<PathBuf>>,
    workspaces: Vec<Said<PathBuf>>,
    connections: Vec<Said<String>>,
}

impl Named {
    fn add(&mut self, other: Self) {
        self.visible.extend(other.visible);
        self.workspaces.extend(other.workspaces);
        self.connections.extend(other.connections);
    }

    /// The connections nobody has.
    pub(super) fn unknown_connections(
        &self,
        known: &BTreeMap<String, Sourced<super::Connection>>,
        findings: &mut Findings,
    ) {
        for said in self.connections.iter().filter(|said| !known.contains_key(&said.value)) {
            findings.unknown(said, "connection", known.keys().map(String::as_str));
        }
    }
}

/// What one file says about a server.
#[derive(Debug)]
pub(super) enum ServerLayer {
    /// All of it.
    Whole(Box<Server>, Named),
    /// Less of one that is known already.
    Less { disabled: Option<Said<bool>>, hide: Vec<Said<String>> },
}

impl ServerLayer {
    pub(super) fn is_less(&self) -> bool {
        matches!(self, Self::Less { .. })
    }
}

pub(super) type ServerLayers = Vec<(Said<String>, ServerLayer)>;

/// Checks the block of one file.
pub(super) fn check(cx: &mut Check<'_>, block: &Option<Entries<At<ServerFile>>>) -> ServerLayers {
    entries(block)
        .filter_map(|(name, file)| {
            let known = server_name(cx, name);
            let layer = check_one(cx, &file.value, file.mark)?;
            Some((Said { value: known?, spot: cx.spot(name.mark) }, layer))
        })
        .collect()
}

/// The servers of a trusted file. None is ever replaced: whoever wrote the first one would go on trusting it.
pub(super) fn add(
    known: &mut BTreeMap<String, Sourced<Server>>,
    named: &mut Named,
    new: ServerLayers,
    findings: &mut Findings,
) {
    for (name, layer) in new {
        match (layer, known.get_mut(&name.value)) {
            (ServerLayer::Whole(..), Some(there)) => {
                let message = format!("there is a server `{}` already ({})", name.value, there.source);
                findings.error(name.spot, message, "Choose another name, or remove one of the two.");
            }
            (ServerLayer::Whole(server, new), None) => {
                if let Some(message) = alike(known, &name.value) {
                    findings.error(name.spot, message, "Choose another name for one of the two.");
                    continue;
                }
                let source = findings.source(name.spot);
                named.add(new);
                known.insert(name.value, Sourced { value: *server, source });
            }
            (ServerLayer::Less { disabled, hide }, Some(there)) => {
                there.value.disabled = disabled.map_or(there.value.disabled, |said| said.value);
                there.value.hide.extend(hide.into_iter().map(|name| name.value));
            }
            (ServerLayer::Less { .. }, None) => unknown(&name, findings),
        }
    }
}

/// Two servers whose names look alike have tools whose names do, and nobody could say whose one is.
fn alike(known: &BTreeMap<String, Sourced<Server>>, name: &str) -> Option<String> {
    known.iter().find_map(|(there, server)| {
        let why = names::collide(name, there)?;
        Some(format!("server `{name}` can be mistaken for `{there}` ({}): {why}", server.source))
    })
}

/// The servers of a file that nobody vouches for: it may take away, and nothing else.
pub(super) fn tighten(known: &mut BTreeMap<String, Sourced<Server>>, new: ServerLayers, findings: &mut Findings) {
    for (name, layer) in new {
        match (layer, known.get_mut(&name.value)) {
            (ServerLayer::Whole(..), _) => refuse(name.spot, &format!("the server `{}`", name.value), findings),
            (ServerLayer::Less { disabled: Some(said), .. }, _) if !said.value => {
                refuse(said.spot, "`disabled: false`", findings);
            }
            (ServerLayer::Less { disabled, hide }, Some(there)) => {
                there.value.disabled |= disabled.is_some();
                there.value.hide.extend(hide.into_iter().map(|name| name.value));
            }
            (ServerLayer::Less { .. }, None) => unknown(&name, findings),
        }
    }
}

fn unknown(name: &Said<String>, findings: &mut Findings) {
    let message = format!("server `{}` has neither a `command` nor a `url`", name.value);
    let remedy = "Write `command: PROGRAM` with `args`, or `url: https://...`; without them only a server of another \
                  file is made less.";
    findings.error(name.spot, message, remedy);
}

fn server_name(cx: &mut Check<'_>, name: &At<String>) -> Option<String> {
    match admit_origin(&name.value) {
        Ok(()) => Some(name.value.clone()),
        Err(fault) => {
            let message = format!("`{}` is not a name for a server: {}", name.value, fault.message);
            cx.error(
                name.mark,
                message,
                "Write at most 32 of `a` to `z`, digits and single `_`; its tools begin with it.",
            );
            None
        }
    }
}

fn check_one(cx: &mut Check<'_>, file: &ServerFile, mark: Mark) -> Option<ServerLayer> {
    let hide = patterns(cx, file.hide.as_deref());
    let disabled = file.disabled.as_ref().map(|said| cx.said(said));
    let (reached, named) = match (&file.command, &file.url) {
        (Some(_), Some(url)) => {
            cx.error(url.mark, "a server is a program or an address, not both", "Keep one of `command` and `url`.");
            return None;
        }
        (None, None) => {
            no_more_than_less(cx, file, mark)?;
            return Some(ServerLayer::Less { disabled, hide });
        }
        (Some(command), None) => {
            let (program, named) = check_program(cx, file, command)?;
            (Reached::Program(program), named)
        }
        (None, Some(url)) => {
            let connections = file.connection.iter().map(|name| cx.said(name)).collect();
            (Reached::Address(check_address(cx, file, url)?), Named { connections, ..Named::default() })
        }
    };
    let seconds = |said: Option<Said<u64>>, usual| said.map_or(usual, |said| Duration::from_secs(said.value));
    let handshake = cx.whole("handshake_seconds", file.handshake_seconds.as_ref(), 1..=MOST_SECONDS);
    let request = cx.whole("request_seconds", file.request_seconds.as_ref(), 1..=MOST_SECONDS);
    let least = if is_kept_in(&reached) { SafetyClass::Read } else { SafetyClass::Network };
    let tools = entries(&file.tools).filter_map(|(name, tool)| terms(cx, name, tool, least)).collect();
    let expose = file.expose.as_deref().map(|names| patterns(cx, Some(names)));
    let plain = |names: Vec<Said<String>>| names.into_iter().map(|name| name.value).collect();
    let server = Server {
        reached,
        handshake: seconds(handshake, HANDSHAKE),
        request: seconds(request, REQUEST),
        tools,
        expose: expose.map(plain),
        hide: plain(hide),
        may_ask: may_ask(cx, file.may_ask.as_deref()),
        offers: offers(cx, file.offers.as_deref()),
        disabled: disabled.is_some_and(|said| said.value),
    };
    Some(ServerLayer::Whole(Box::new(server), named))
}

/// An entry that names no server is about one of another file, and says less of it.
fn no_more_than_less(cx: &mut Check<'_>, file: &ServerFile, mark: Mark) -> Option<()> {
    let more = [
        file.args.is_some(),
        file.env.is_some(),
        file.headers.is_some(),
        file.connection.is_some(),
        file.allowed_hosts.is_some(),
        file.workspace.is_some(),
        file.access.is_some(),
        file.visible.is_some(),
        file.handshake_seconds.is_some(),
        file.request_seconds.is_some(),
        file.tools.is_some(),
        file.expose.is_some(),
        file.may_ask.is_some(),
        file.offers.is_some(),
    ];
    if more.into_iter().any(|there| there) {
        let remedy = "Add `command: PROGRAM` or `url: https://...`; a server of another file is only made less, with \
                      `disabled` and `hide`.";
        cx.error(mark, "this server has neither a `command` nor a `url`", remedy);
        return None;
    }
    Some(())
}

fn patterns(cx: &mut Check<'_>, names: Option<&[At<String>]>) -> Vec<Said<String>> {
    let fits = |name: &str| {
        let name = name.strip_suffix('*').unwrap_or(name);
        name.len() <= 128 && !name.contains('*') && !name.chars().any(char::is_control)
    };
    let names = names.unwrap_or_default().iter();
    names
        .filter_map(|name| {
            if name.value.is_empty() || !fits(&name.value) {
                let message = format!("`{}` names no tool of a server", name.value);
                cx.error(name.mark, message, "Write the server's own name for it, or a beginning of names and `*`.");
                return None;
            }
            Some(cx.said(name))
        })
        .collect()
}

fn may_ask(cx: &mut Check<'_>, words: Option<&[At<String>]>) -> BTreeSet<MayAsk> {
    let known = |word: &At<String>| {
        let found = MayAsk::ALL.into_iter().find(|ask| ask.as_str() == word.value);
        if found.is_none() {
            cx.unknown("value for `may_ask`:", word, MayAsk::ALL.map(MayAsk::as_str));
        }
        found
    };
    words.unwrap_or_default().iter().filter_map(known).collect()
}

fn offers(cx: &mut Check<'_>, words: Option<&[At<String>]>) -> BTreeSet<Offers> {
    let Some(words) = words else { return BTreeSet::from(Offers::ALL) };
    let known = |word: &At<String>| {
        let found = Offers::ALL.into_iter().find(|offer| offer.as_str() == word.value);
        if found.is_none() {
            cx.unknown("value for `offers`:", word, Offers::ALL.map(Offers::as_str));
        }
        found
    };
    words.iter().filter_map(known).collect()
}

fn is_kept_in(reached: &Reached) -> bool {
    match reached {
        Reached::Program(program) => {
            program.allowed_hosts.is_empty() && (program.workspace.is_none() || program.access == Access::Read)
        }
        Reached::Address(_) => false,
    }
}

fn terms(cx: &mut Check<'_>, name: &At<String>, tool: &ServerToolFile, least: SafetyClass) -> Option<(String, Terms)> {
    let usual = Terms::default();
    let action = match &tool.action {
        Some(word) => one_action(cx, word)?,
        None => usual.action,
    };
    let safety = match &tool.safety {
        Some(word) => cx.class(word)?,
        None => usual.safety,
    };
    if safety < least {
        let mark = tool.safety.as_ref().map_or(name.mark, |word| word.mark);
        let told = format!("talking to a server that reaches out of its room is `network`, so `{safety}` is not less");
        cx.note(mark, told);
    }
    Some((name.value.clone(), Terms { action, safety }))
}

fn one_action(cx: &mut Check<'_>, word: &At<String>) -> Option<toolgate_contract::ActionType> {
    let said = cx.expand(word)?;
    let mut actions = said.value.into_iter();
    match (actions.next(), actions.next()) {
        (Some(action), None) => Some(action),
        _ => {
            let message = format!("`{}` is several actions, and a call amounts to one", word.value);
            cx.error(word.mark, message, "Write one action, such as `external_data:request`.");
            None
        }
    }
}

// ---- programs ----

fn check_program(cx: &mut Check<'_>, file: &ServerFile, command: &At<String>) -> Option<(Program, Named)> {
    let elsewhere = [("headers", file.headers.is_some()), ("connection", file.connection.is_some())];
    if let Some((key, _)) = elsewhere.into_iter().find(|(_, there)| *there) {
        let message = format!("`{key}` is for a server with a `url`");
        cx.error(command.mark, message, "Give a program its secrets under `env`.");
        return None;
    }
    let args = file.args.as_deref().unwrap_or_default();
    let fits = is_word(cx, command) & args.iter().fold(true, |fits, word| fits & is_word(cx, word));
    if command.value.trim() != command.value || command.value.contains(char::is_whitespace) {
        cx.error(command.mark, "a command is one word", "Write the words after it as a list under `args`.");
        return None;
    }
    if args.len() > MOST_WORDS {
        cx.error(command.mark, format!("a server is told at most {MOST_WORDS} words"), "Shorten `args`.");
        return None;
    }
    let words: Vec<&str> = std::iter::once(command).chain(args).map(|word| &*word.value).collect();
    if let Err(wrong) = pinned(&words) {
        let mark = std::iter::once(command).chain(args).nth(wrong.word).map_or(command.mark, |word| word.mark);
        cx.error(mark, wrong.why, wrong.remedy);
        return None;
    }
    let env: Option<BTreeMap<_, _>> = entries(&file.env).map(|(name, value)| variable(cx, name, value)).collect();
    let hosts = file.allowed_hosts.as_deref().map(|hosts| cx.hosts(hosts, Port::Optional)).unwrap_or_default();
    let visible = file.visible.as_deref().map(|dirs| rooms::seen(cx, dirs)).unwrap_or_default();
    let access = access(cx, file);
    let workspace = match &file.workspace {
        Some(path) => Some(beside(cx, path)?),
        None => None,
    };
    let program = Program {
        command: command.value.clone(),
        args: args.iter().map(|word| word.value.clone()).collect(),
        env: env?,
        allowed_hosts: hosts.into_iter().flat_map(|host| with_ports(host.value)).collect(),
        workspace: workspace.as_ref().map(|path| path.value.clone()),
        access: access?,
        visible: visible.iter().map(|dir| dir.value.clone()).collect(),
    };
    let named = Named { visible, workspaces: workspace.into_iter().collect(), connections: Vec::new() };
    fits.then_some((program, named))
}

/// A directory, relative to the file that names it.
fn beside(cx: &mut Check<'_>, path: &At<String>) -> Option<Said<PathBuf>> {
    let said = cx.workspace(path)?;
    let from = cx.findings.texts.get(cx.file).map(|text| text.dir().to_owned()).unwrap_or_default();
    Some(said.map(|path| std::path::absolute(from.join(path)).unwrap_or_default()))
}

/// A host without a port is meant for the web.
fn with_ports(host: String) -> Vec<String> {
    match host.contains(':') {
        true => vec![host],
        false => vec![format!("{host}:443"), format!("{host}:80")],
    }
}

fn is_word(cx: &mut Check<'_>, word: &At<String>) -> bool {
    let fits = word.value.len() <= 4_096 && !word.value.contains('\0');
    if !fits {
        cx.error(word.mark, "this is no word for a program", "Write at most 4096 bytes without a zero byte.");
    }
    fits
}

fn access(cx: &mut Check<'_>, file: &ServerFile) -> Option<Access> {
    let Some(word) = &file.access else { return Some(Access::Read) };
    match &*word.value {
        "read" => Some(Access::Read),
        "write" if file.workspace.is_some() => Some(Access::Write),
        "write" => {
            cx.error(word.mark, "there is no `workspace` that could be written", "Add `workspace: DIR`, or remove it.");
            None
        }
        _ => {
            cx.unknown("value for `access`:", word, ["read", "write"]);
            None
        }
    }
}

/// A variable: a word, or a reference to a secret.
fn variable(cx: &mut Check<'_>, name: &At<String>, value: &At<String>) -> Option<(String, Word)> {
    let fits = |text: &str| {
        !text.is_empty()
            && text.len() <= 128
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !text.starts_with(|c: char| c.is_ascii_digit())
    };
    if !fits(&name.value) {
        cx.hidden_error(
            name.mark,
            format!("`{}` is not the name of a variable", name.value),
            "Use letters, digits and `_`.",
        );
        return None;
    }
    if let Err(fault) = toolgate_sandbox::admit_variable(&name.value) {
        cx.error(name.mark, fault.message, fault.remedy);
        return None;
    }
    if SecretRef::is_meant(&value.value) {
        return Some((name.value.clone(), Word::Secret(connections::reference(cx, &name.value, value)?)));
    }
    if value.value.len() > 4_096 || value.value.chars().any(char::is_control) {
        cx.hidden_error(
            value.mark,
            format!("this is no value for `{}`", name.value),
            "Write one line, or a reference.",
        );
        return None;
    }
    if looks_secret(&name.value, &value.value) {
        let message = format!("the value of `{}` stands in the config, where everybody reads it", name.value);
        let remedy = "Run `toolgate secrets set NAME` and write `vault:NAME` here; or `env:`, `file:` or `keyring:`. \
                      Replace the secret if the file was ever shared.";
        cx.hidden_error(value.mark, message, remedy);
        return None;
    }
    Some((name.value.clone(), Word::Plain(value.value.clone())))
}

/// Is a variable of this name with this value most likely a credential? Short words such as `true` or a path are none.
pub fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let speaks = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY"];
    let is_plain = value.len() < 8 || value.starts_with(['/', '.']) || value.contains(' ');
    speaks.iter().any(|word| name.contains(word)) && !is_plain
}

// ---- addresses ----

fn check_address(cx: &mut Check<'_>, file: &ServerFile, url: &At<String>) -> Option<Address> {
    let programs = [
        ("args", file.args.is_some()),
        ("env", file.env.is_some()),
        ("allowed_hosts", file.allowed_hosts.is_some()),
        ("workspace", file.workspace.is_some()),
        ("access", file.access.is_some()),
        ("visible", file.visible.is_some()),
    ];
    if let Some((key, _)) = programs.into_iter().find(|(_, there)| *there) {
        cx.hidden_error(url.mark, format!("`{key}` is for a server that is a program"), "Remove it.");
        return None;
    }
    let address = match WebUrl::read(&url.value) {
        Ok(address) if !url.value.contains('#') => address,
        Ok(_) => {
            cx.hidden_error(url.mark, "the `url` of a server has no fragment", "Write it up to the path or the query.");
            return None;
        }
        Err(why) => {
            // It may have a password in front of its host.
            let remedy =
                "Write it as in `https://mcp.example.com/mcp`; credentials go under `headers` or `connection`.";
            cx.hidden_error(url.mark, format!("this is not an address of the web: {why}"), remedy);
            return None;
        }
    };
    let headers: Option<BTreeMap<_, _>> = entries(&file.headers)
        .map(|(name, value)| {
            Some((connections::header_name(cx, name)?, connections::reference(cx, &name.value, value)?))
        })
        .collect();
    let headers = headers?;
    if let Some(connection) = file.connection.as_ref().filter(|_| !headers.is_empty()) {
        cx.error(connection.mark, "credentials come from a `connection` or from `headers`", "Keep one of the two.");
        return None;
    }
    if connections::is_open(&address) && !(headers.is_empty() && file.connection.is_none()) {
        cx.note(url.mark, "the credentials of this server are sent in the open: its address is not `https`");
    }
    let connection = file.connection.as_ref().map(|name| name.value.clone());
    Some(Address { url: address.as_str().to_owned(), headers, connection })
}

/// Looks at the directories servers see: they are there, and show nothing they should not.
pub(super) fn open(
    servers: &mut BTreeMap<String, Sourced<Server>>,
    named: &Named,
    data_dir: &Path,
    findings: &mut Findings,
) {
    let unopened = |dir: &Path, error: std::io::Error| format!("`{}` cannot be opened: {error}", dir.display());
    for Said { value: dir, spot } in &named.visible {
        match dir.canonicalize() {
            Ok(real) => rooms::look_at(dir, &real, *spot, data_dir, findings),
            Err(error) => {
                findings.error(*spot, unopened(dir, error), "Create the directory, or write one that exists.");
            }
        }
    }
    for Said { value: dir, spot } in &named.workspaces {
        match dir.canonicalize() {
            Ok(real) => rooms::look_at(&real, &real, *spot, data_dir, findings),
            Err(error) => {
                findings.error(*spot, unopened(dir, error), "Create the directory, or write one that exists.");
            }
        }
    }
    for server in servers.values_mut() {
        if let Reached::Program(Program { workspace: Some(dir), .. }) = &mut server.value.reached
            && let Ok(real) = dir.canonicalize()
        {
            *dir = real;
        }
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}

// ---- packages ----

/// A word of a command that leaves open what runs.
#[derive(Debug, PartialEq, Eq)]
struct Unpinned {
    word: usize,
    why: String,
    remedy: &'static str,
}

const NPM: &str = "Write the package with its exact version, such as `@scope/server@1.2.3`.";
const PYPI: &str = "Write the package with its exact version, such as `mcp-server-git==1.2.3`.";
const IMAGE: &str = "Write the image with its digest, as `name@sha256:...`, or with the tag of one version.";

/// Does this command say what runs, to the version? What fetches a package by name runs whatever bears that name today.
fn pinned(words: &[&str]) -> Result<(), Unpinned> {
    let program = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let second = words.get(1).copied().unwrap_or_default();
    match (program, second) {
        ("env" | "sudo" | "nohup" | "xargs", _) => Err(Unpinned {
            word: 0,
            why: format!("`{program}` hides what is started"),
            remedy: "Write the program itself; variables go under `env`.",
        }),
        ("sh" | "bash" | "dash" | "zsh" | "fish" | "ksh", _) => match words.iter().position(|word| is_script(word)) {
            Some(word) => Err(Unpinned {
                word,
                why: format!("a script for `{program}` hides what is started"),
                remedy: "Write the program and its words themselves, or a script that is a file.",
            }),
            None => Ok(()),
        },
        ("npx" | "bunx" | "pnpx", _) => package(words, 1, &["-p", "--package"], is_exact_npm, NPM),
        ("npm", "exec" | "x") | ("pnpm" | "yarn", "dlx") | ("bun", "x") => {
            package(words, 2, &["-p", "--package"], is_exact_npm, NPM)
        }
        ("uvx", _) => package(words, 1, &["--from", "--with"], is_exact_pypi, PYPI),
        ("uv", "tool") => package(words, 3, &["--from", "--with"], is_exact_pypi, PYPI),
        ("pipx", "run") => package(words, 2, &["--spec"], is_exact_pypi, PYPI),
        ("docker" | "podman" | "nerdctl", "run") => package(words, 2, &[], is_exact_image, IMAGE),
        ("deno", _) => match words.iter().position(is_open_specifier) {
            Some(word) => Err(open_package(words, word, NPM)),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A word of options that has a `c` in it: the next one is a script.
fn is_script(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains('c')) || word == "--command"
}

/// Every package that is named must be exact: those after one of the `named` options, and where there is no such option
/// the first word that is none. A word of an option nobody knows could be taken for it, and then it is refused.
fn package(
    words: &[&str],
    from: usize,
    named: &[&str],
    is_exact: fn(&str) -> bool,
    remedy: &'static str,
) -> Result<(), Unpinned> {
    let (mut at, mut is_named) = (from, false);
    while let Some(word) = words.get(at) {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with('-') => (option, Some(value)),
            _ => (*word, None),
        };
        if matches!(option, "-c" | "--call") {
            return Err(Unpinned { word: at, why: "a script hides what is started".into(), remedy });
        }
        if named.contains(&option) {
            is_named |= !matches!(option, "--with");
            let value = value.or_else(|| words.get(at + 1).copied()).unwrap_or_default();
            if !is_exact(value) {
                return Err(open_package(words, at, remedy));
            }
            at += if word.contains('=') { 1 } else { 2 };
            continue;
        }
        if word.starts_with('-') && *word != "--" {
            at += 1 + usize::from(has_value(option, value));
            continue;
        }
        if *word == "--" {
            at += 1;
            continue;
        }
        return if is_named || is_exact(word) { Ok(()) } else { Err(open_package(words, at, remedy)) };
    }
    Err(Unpinned { word: 0, why: "no package is named".into(), remedy })
}

/// Options of those programs whose value is the next word.
fn has_value(option: &str, value: Option<&str>) -> bool {
    const VALUED: [&str; 14] = [
        "-e",
        "--env",
        "-v",
        "--volume",
        "--mount",
        "--name",
        "--network",
        "-w",
        "--workdir",
        "-u",
        "--user",
        "--python",
        "--registry",
        "--index-url",
    ];
    value.is_none() && VALUED.contains(&option)
}

fn open_package(words: &[&str], word: usize, remedy: &'static str) -> Unpinned {
    let shown = words.get(word).copied().unwrap_or_default();
    Unpinned { word, why: format!("`{shown}` is whatever bears that name when it starts"), remedy }
}

fn is_file(name: &str) -> bool {
    name.starts_with('/') || name.starts_with("./") || name.starts_with("../")
}

/// `name@1.2.3`, `@scope/name@1.2.3`, or a file of this machine.
fn is_exact_npm(name: &str) -> bool {
    let version = name.rsplit_once('@').filter(|(name, _)| !name.is_empty()).map(|(_, version)| version);
    is_file(name) || version.is_some_and(is_exact_version)
}

/// `name==1.2.3`, `name[extra]==1.2.3`, `name@1.2.3`, or a file of this machine.
fn is_exact_pypi(name: &str) -> bool {
    let version = name.split_once("==").or_else(|| name.rsplit_once('@')).filter(|(name, _)| !name.is_empty());
    is_file(name) || version.is_some_and(|(_, version)| is_exact_version(version))
}

/// `name@sha256:...`, or `name:1.2.3`.
fn is_exact_image(name: &str) -> bool {
    if let Some((_, digest)) = name.split_once('@') {
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        return digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_some_and(|(name, tag)| !name.is_empty() && is_exact_version(tag.trim_start_matches('v')))
}

fn is_open_specifier(word: &&str) -> bool {
    let name = word.strip_prefix("npm:").or_else(|| word.strip_prefix("jsr:"));
    name.is_some_and(|name| !is_exact_npm(name.trim_start_matches('/')))
}

/// Numbers with dots, at least two of them, and perhaps what comes before or after a release. No range and no tag.
fn is_exact_version(version: &str) -> bool {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.len() <= 12;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    let is_rest =
        rest.is_empty() || (rest.len() <= 64 && rest.chars().all(fits) && !rest.split('.').any(|part| part == "x"));
    (2..=5).contains(&parts.len()) && parts.iter().all(is_number) && is_rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word that leaves open what runs; none where nothing does.
    #[track_caller]
    fn check(command: &str, expected: Option<usize>) {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(pinned(&words).err().map(|wrong| wrong.word), expected, "{command}");
    }

    #[test]
    fn what_fetches_a_package_names_its_exact_version() {
        for exact in [
            "npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio",
            "/usr/bin/npx --yes some-server@1.2.3-beta.1",
            "npx -p some-server@1.2.3 some-server",
            "npx --package=some-server@1.2.3 -- some-server",
            "npm exec some-server@1.2.3",
            "pnpm dlx some-server@1.2.3",
            "bun x some-server@1.2.3",
            "npx ./server",
            "uvx mcp-server-git==2026.10.19 --repository .",
            "uvx --from mcp-server-git==1.2.3 --with extra==1.0 mcp-server-git",
            "uvx mcp-server-git@1.2.3",
            "uv tool run mcp-server-git==1.2.3",
            "pipx run --spec mcp-server-time==1.2 mcp-server-time",
            "docker run -i --rm -e TOKEN ghcr.io/x/server:1.2.3",
            "docker run --rm -i x/server@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "deno run -A npm:some-server@1.2.3",
            "node server.js",
            "python3 -m server",
            "bash server.sh",
            "my-server",
        ] {
            check(exact, None);
        }
        for (open, word) in [
            ("npx -y some-server", 2),
            ("npx some-server@latest", 1),
            ("npx some-server@^1.2.3", 1),
            ("npx some-server@1", 1),
            ("npx some-server@1.x.x", 1),
            ("npx @scope/server", 1),
            ("npx -p some-server some-server@1.2.3", 1),
            ("npx -y", 0),
            ("npx -c some-server", 1),
            ("npm exec -- some-server", 3),
            ("npm x some-server@next", 2),
            ("yarn dlx some-server", 2),
            ("/opt/node/bin/npx some-server", 1),
            ("uvx mcp-server-git", 1),
            ("uvx mcp-server-git>=1.2.3", 1),
            ("uvx --from git+https://example.com/x mcp-server-git==1.2.3", 1),
            ("uvx --with extra mcp-server-git==1.2.3", 1),
            ("pipx run mcp-server-time", 2),
            ("docker run -i --rm x/server", 4),
            ("docker run x/server:latest", 2),
            ("podman run x/server:stable", 2),
            ("deno run -A npm:some-server", 3),
            ("deno run jsr:@scope/server", 2),
            ("sh -c npx", 1),
            ("bash -lc npx", 1),
            ("env A=b npx some-server@1.2.3", 0),
            ("sudo server", 0),
        ] {
            check(open, Some(word));
        }
    }

    #[test]
    fn a_tool_is_taken_unless_it_is_left_out() {
        let takes = |expose: Option<&[&str]>, hide: &[&str], tool: &str| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let address = Address { url: "https://example.com/".into(), headers: BTreeMap::new(), connection: None };
            let server = Server {
                reached: Reached::Address(address),
                handshake: HANDSHAKE,
                request: REQUEST,
                tools: BTreeMap::new(),
                expose: expose.map(names),
                hide: names(hide),
                may_ask: BTreeSet::new(),
                offers: BTreeSet::from(Offers::ALL),
                disabled: false,
            };
            server.takes(tool)
        };
        assert!(takes(None, &[], "read"));
        assert!(takes(Some(&["read", "list_*"]), &[], "list_all"));
        assert!(!takes(Some(&["read", "list_*"]), &[], "write"));
        assert!(!takes(Some(&["read"]), &[], "reader"));
        assert!(!takes(None, &["write*"], "write_file"));
        assert!(!takes(Some(&["*"]), &["write"], "write"));
        assert!(!takes(Some(&[]), &[], "read"));
    }
}
