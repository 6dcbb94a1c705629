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
use toolgate_guard::{names, secrets, url::WebUrl};

use super::{
    check::{Check, entries},
    connections::{self, Word},
    file::{ServerFile, ServerToolFile},
    findings::{Findings, Said},
    launch::pinned,
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
    let plain: Vec<&str> = args.iter().map(|word| &*word.value).collect();
    if let Some(word) = secret_word(&plain).and_then(|at| args.get(at)) {
        cx.note(word.mark, WORD_IN_THE_OPEN);
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
    let is_plain = value.len() < 8 || value.starts_with(['/', '.']) || value.contains(' ');
    // A key may be one of a table, and then its value is a word.
    let is_named = tells_secret(name) || (says_secret(name) && value.contains(|c: char| c.is_ascii_digit()));
    (is_named && !is_plain) || holds_secret(&format!("{name}={value}"))
}

/// May what has this name be a credential?
pub fn says_secret(name: &str) -> bool {
    tells_secret(name) || (says(name, &["KEY", "PAT"]) && !says(name, &["PUBLIC"]))
}

/// Is what has this name a credential?
fn tells_secret(name: &str) -> bool {
    const ANYWHERE: &str = "TOKEN SECRET PASSWORD PASSWD PASSPHRASE CREDENTIAL API_KEY APIKEY PRIVATE_KEY ACCESS_KEY";
    let plain = name.to_ascii_uppercase().replace(['-', '.'], "_");
    ANYWHERE.split(' ').any(|word| plain.contains(word)) || says(name, &["PASS", "PWD", "DSN"])
}

/// Is one of these among the words of a name?
fn says(name: &str, words: &[&str]) -> bool {
    name.to_ascii_uppercase().split(['_', '-', '.']).any(|part| words.contains(&part))
}

/// Is there a credential in it that is one by its form, or an address with a password?
fn holds_secret(text: &str) -> bool {
    let has_password = text.split_once("://").is_some_and(|(_, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let password = host.rsplit_once('@').and_then(|(who, _)| who.split_once(':'));
        password.is_some_and(|(_, password)| !password.is_empty())
    });
    // What is only random may be the name of something.
    has_password || secrets::find(text).iter().any(|found| found.rule != "random_token")
}

/// The first of a program's words that is most likely a credential.
fn secret_word(args: &[impl AsRef<str>]) -> Option<usize> {
    let is_secret = |at: &usize| {
        let word = args.get(*at).map(AsRef::as_ref).unwrap_or_default();
        let before = at.checked_sub(1).and_then(|before| args.get(before)).map(AsRef::as_ref);
        let option = before.filter(|before| before.starts_with('-') && !before.contains('=') && !word.starts_with('-'));
        let named = [option.map(|option| (option, word)), word.split_once('=')];
        named.into_iter().flatten().any(|(name, value)| looks_secret(name.trim_start_matches('-'), value))
            || holds_secret(word)
            || has_secret_query(word)
    };
    (0..args.len()).find(is_secret)
}

fn has_secret_query(url: &str) -> bool {
    let query = url.split_once("://").and_then(|(_, rest)| rest.split_once('?'));
    let mut pairs = query.into_iter().flat_map(|(_, query)| query.split('&')).filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| looks_secret(name, value))
}

/// What stands in a server's entry where everybody reads it and is most likely a credential, and what to do.
pub(super) fn in_the_open(server: &Server) -> Option<(&'static str, &'static str)> {
    match &server.reached {
        Reached::Program(program) => secret_word(&program.args).map(|_| (WORD_IN_THE_OPEN, AS_VARIABLE)),
        Reached::Address(Address { url, .. }) => {
            (has_secret_query(url) || holds_secret(url)).then_some((ADDRESS_IN_THE_OPEN, AS_HEADER))
        }
    }
}

const WORD_IN_THE_OPEN: &str =
    "one of its words is a credential, and whoever reads the config or the list of processes has it";
const AS_VARIABLE: &str = "Run `toolgate secrets set NAME`, and give it to the program as a variable, with `vault:NAME` under \
                           `env`, in the place of the word.";
const ADDRESS_IN_THE_OPEN: &str = "there is a credential in its address, and whoever reads the config or a log has it";
const AS_HEADER: &str = "Run `toolgate secrets set NAME`, and send it as a header, with `vault:NAME` under `headers`, in the \
                         place of what the address has.";

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
    if has_secret_query(&url.value) || holds_secret(&url.value) {
        cx.note(url.mark, ADDRESS_IN_THE_OPEN);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_known_by_its_name_or_by_its_form() {
        let pat = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        for (name, value) in [
            ("GITHUB_PAT", pat),
            ("REMARK", pat),
            ("API_KEY", "abcdefghijkl"),
            ("OPENAI_KEY", "sk-9fK2LmX7vT4bZrQ1"),
            ("MAIL_PASS", "correct-horse"),
            ("api-key", "k9J2mQ8rT4vX"),
            ("SENTRY_DSN", "https://k9J2mQ8r@errors.example/1"),
            ("DATABASE_URL", "postgres://me:pa55-word@db.example/x"),
        ] {
            assert!(looks_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("ALLOW_TOKEN", "true"),
            ("TOKEN_FILE", "/run/token-of-the-day"),
            ("SORT_KEY", "created_at"),
            ("PUBLIC_KEY", "k9J2mQ8rT4vX"),
            ("PATTERN", "path/to/k9J2mQ8r"),
            ("PAGE", "https://me@a.example/b?c=d"),
            ("LOG", "info,toolgate=debug"),
        ] {
            assert!(!looks_secret(name, value), "{name}={value}");
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
