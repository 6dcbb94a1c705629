//! `toolgate mcp import`: the servers a client has in its config, taken over.
//!
//! A value that is a secret goes into the vault, and its name into the entry. What a client would look up when it starts a
//! server (`${NAME}`) is looked up here, once; what only that client knows is said, and the server stays where it is.

use std::{
    collections::BTreeMap,
    fs,
    io::{IsTerminal, Write as _, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::{Map, Value, json};
use toolgate_guard::{json as strict, secrets};
use toolgate_runtime::{
    config::{self, Config, Server, looks_secret, says_secret},
    secrets::{Secret, SecretRef, Vault},
};
use zeroize::Zeroizing;

use super::{
    call,
    mcp::{about, agrees, known, taken},
};
use crate::{
    jsonc,
    problem::Problem,
    setup::{self, Place},
    show,
};

#[derive(Debug, Args)]
pub(super) struct Import {
    /// A client's file with `mcpServers` (or `servers`) in it
    file: PathBuf,
    /// Take over without being asked
    #[arg(long)]
    yes: bool,
    /// Put one entry that points here in the place of those that were taken over; the file as it was is kept beside it
    #[arg(long)]
    write_back: bool,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

/// A client's file.
struct Theirs {
    file: PathBuf,
    page: Value,
    /// Where the servers are.
    key: &'static str,
    has_comments: bool,
}

impl Import {
    pub(super) fn run(&self, place: &Place) -> Result<ExitCode, Problem> {
        let mut theirs = Theirs::read(&self.file)?;
        let config = known(place)?;
        let found = theirs.found(&config);
        if !self.json {
            found.iter().try_for_each(|found| show::line(&found.told()))?;
        }
        let wanted: Vec<&Found> = found.iter().filter(|found| found.checked.is_ok()).collect();
        if !wanted.is_empty() && !self.yes && !agrees(&format!("Take over these {} servers?", wanted.len()))? {
            return Err(Problem::usage("nothing was taken over"));
        }
        let data_dir = place.data_dir()?;
        let vault = Vault::new(data_dir.clone(), setup::secret_places(&data_dir).identity);
        for found in &wanted {
            for (name, value) in &found.secrets {
                vault.set(name, &Secret::admit(name, &Zeroizing::new(value.clone().into_bytes()))?)?;
            }
            config::add_server(&data_dir, &found.name, &found.entry)?;
        }
        let own = own_entry(place)?;
        let backup = match !wanted.is_empty() && self.is_to_point_here(&theirs, &own)? {
            true => Some(theirs.write_back(&wanted, own.clone())?),
            false => None,
        };
        if self.json {
            let servers: Vec<Value> = found.iter().map(Found::json).collect();
            show::json(&json!({ "servers": servers, "backup": backup }))?;
        } else {
            show::line(&format!("{} servers were taken over, {} were not", wanted.len(), found.len() - wanted.len()))?;
            let file = theirs.file.display();
            match &backup {
                Some(backup) => {
                    show::line(&format!("{file} points here now; as it was it is in {}", backup.display()))?;
                }
                None if wanted.is_empty() => {}
                None => show::line(&format!(
                    "{file} is as it was: put this in the place of what was taken over, or give --write-back next time\n{}",
                    shown(&own)
                ))?,
            }
        }
        Ok(if wanted.len() == found.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Is the client's file to be changed? Where nothing was said about it the person at the terminal is asked.
    fn is_to_point_here(&self, theirs: &Theirs, own: &Value) -> Result<bool, Problem> {
        let is_seen = stdin().is_terminal() && stdout().is_terminal();
        if !self.write_back && (self.yes || self.json || !is_seen) {
            return Ok(false);
        }
        let file = theirs.file.display();
        if theirs.has_comments {
            anstream::eprintln!("note: the comments in {file} are not kept when it is written; its copy has them");
        }
        if self.write_back {
            return Ok(true);
        }
        show::line(&format!("In the place of what was taken over this would be written:\n{}", shown(own)))?;
        agrees(&format!("Point {file} here?"))
    }
}

fn shown(own: &Value) -> String {
    serde_json::to_string_pretty(&json!({ NAME: own })).unwrap_or_default()
}

/// What this program is called in a client's file.
const NAME: &str = "toolgate";

/// The entry with which a client starts this program, as it was started now: it finds the same config and the same servers.
fn own_entry(place: &Place) -> Result<Value, Problem> {
    let program = std::env::current_exe().map_or_else(|_| NAME.to_owned(), |path| path.display().to_string());
    let mut args = vec!["serve".to_owned(), "--stdio".to_owned()];
    if let Some(config) = &place.config {
        let config = std::path::absolute(config).unwrap_or_else(|_| config.clone());
        args.extend(["--config".to_owned(), config.display().to_string()]);
    }
    let mut own = json!({ "command": program, "args": args });
    let env: BTreeMap<&str, PathBuf> = place.in_force()?;
    if !env.is_empty() {
        own["env"] = json!(env);
    }
    Ok(own)
}

impl Theirs {
    fn read(given: &Path) -> Result<Self, Problem> {
        let file = given
            .canonicalize()
            .map_err(|error| Problem::usage(format!("`{}` cannot be read: {error}", given.display())))?;
        let unreadable = |why: String| Problem::usage(format!("`{}` is not plain JSON: {why}", file.display()));
        let text = String::from_utf8(call::text(&format!("@{}", file.display()))?)
            .map_err(|error| unreadable(error.to_string()))?;
        let (text, has_comments) = jsonc::plain(text.strip_prefix('\u{feff}').unwrap_or(&text));
        let page = strict::read(text.as_bytes(), &call::MOST).map_err(|fault| unreadable(fault.to_string()))?;
        // As most clients have it, VS Code and Zed.
        let key = ["mcpServers", "servers", "context_servers"].into_iter().find(|key| page[key].is_object());
        let missing = || Problem::usage(format!("`{}` has no `mcpServers` and no `servers`", file.display()));
        Ok(Self { key: key.ok_or_else(missing)?, page, has_comments, file })
    }

    fn found(&self, config: &Config) -> Vec<Found> {
        let servers = self.page[self.key].as_object().into_iter().flatten().filter(|(_, entry)| !is_ours(entry));
        servers.map(|(theirs, entry)| Found::of(theirs, entry, config)).collect()
    }

    /// Puts one entry in the place of those that were taken over. The file is replaced as a whole, and kept as it was.
    fn write_back(&mut self, taken: &[&Found], own: Value) -> Result<PathBuf, Problem> {
        if let Some(servers) = self.page[self.key].as_object_mut() {
            servers.retain(|name, _| !taken.iter().any(|found| found.theirs == *name));
            servers.insert(NAME.to_owned(), own);
        }
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = |ending: &str| self.file.with_file_name(format!("{name}.{ending}"));
        let backup = (0..).map(|number| {
            beside(&format!("before-toolgate{}", if number == 0 { String::new() } else { format!("-{number}") }))
        });
        let Some(backup) = backup.take(100).find(|path| !path.exists()) else {
            return Err(Problem::usage("there are a hundred copies of the file already: remove some"));
        };
        fs::copy(&self.file, &backup)?;
        let new = beside("toolgate-new");
        let text = serde_json::to_string_pretty(&self.page).map_err(|error| Problem::usage(error.to_string()))?;
        let mut out = fs::File::create(&new)?;
        out.set_permissions(fs::metadata(&self.file)?.permissions())?;
        writeln!(out, "{text}")?;
        out.sync_all()?;
        fs::rename(&new, &self.file)?;
        Ok(backup)
    }
}

/// An entry that points here already.
fn is_ours(entry: &Value) -> bool {
    let program = entry["command"].as_str().and_then(|command| Path::new(command).file_name()?.to_str());
    program == Some(NAME)
}

/// A server of a client, on its way here.
struct Found {
    /// As the client calls it.
    theirs: String,
    name: String,
    /// As a config has it.
    entry: Value,
    /// What goes into the vault first.
    secrets: Vec<(String, String)>,
    /// What whoever takes it over should know.
    notes: Vec<String>,
    /// What it is, or why it is left where it is.
    checked: Result<Server, String>,
}

/// What an entry may have that says nothing of what is started.
const SILENT: [&str; 11] =
    ["command", "args", "url", "env", "headers", "type", "transport", "name", "description", "disabled", "enabled"];

impl Found {
    fn of(theirs: &str, given: &Value, config: &Config) -> Self {
        let mut found = Self {
            theirs: theirs.to_owned(),
            name: own_name(theirs),
            entry: Value::Null,
            secrets: Vec::new(),
            notes: Vec::new(),
            checked: Err(String::new()),
        };
        found.checked = match taken(config, &found.name) {
            Some(why) => Err(why),
            None => found.take(given),
        };
        found
    }

    /// The entry as a config has it.
    fn take(&mut self, given: &Value) -> Result<Server, String> {
        let mut entry = Map::new();
        for key in ["command", "url"] {
            let Some(value) = given.get(key) else { continue };
            let value = match value.as_str() {
                Some(text) => json!(resolved(text)?),
                None => value.clone(),
            };
            entry.insert(key.to_owned(), value);
        }
        if let Some(args) = given["args"].as_array() {
            let args: Result<Vec<String>, String> = args.iter().map(|word| resolved(&text(word))).collect();
            entry.insert("args".to_owned(), json!(args?));
        }
        for key in ["env", "headers"] {
            let Some(values) = given[key].as_object().filter(|values| !values.is_empty()) else { continue };
            let values: Result<Map<String, Value>, String> = values
                .iter()
                .map(|(name, value)| Ok((name.clone(), json!(self.reference(key, name, text(value))?))))
                .collect();
            entry.insert(key.to_owned(), Value::Object(values?));
        }
        if given["disabled"] == true || given["enabled"] == false {
            entry.insert("disabled".to_owned(), json!(true));
            self.notes.push("it is switched off there, and so it is here".to_owned());
        }
        for key in given.as_object().into_iter().flat_map(Map::keys).filter(|key| !SILENT.contains(&key.as_str())) {
            self.notes.push(match key.as_str() {
                "cwd" => "`cwd` is not taken over: give it a directory with `workspace` in its entry".to_owned(),
                key => format!("`{}` is not taken over", key.escape_debug()),
            });
        }
        self.entry = Value::Object(entry);
        let (server, _) = config::check_server(&self.name, &self.entry).map_err(|errors| {
            errors.iter().map(|error| format!("{}; {}", error.message, error.remedy)).collect::<Vec<_>>().join("; ")
        })?;
        Ok(server)
    }

    /// A value as a config may have it: a secret becomes the name of one.
    fn reference(&mut self, key: &str, name: &str, value: String) -> Result<String, String> {
        let whole = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).filter(|name| !name.contains('}'));
        if let Some(variable) = whole {
            return Ok(format!("env:{}", variable_name(variable)?));
        }
        let known = resolved(&value)?;
        // What was looked up is somebody's environment, of which nobody knows what is in it.
        let is_looked_up = known != value;
        if SecretRef::is_meant(&value) || (key == "env" && !is_looked_up && !is_secret(name, &value)) {
            return Ok(value);
        }
        let kept = format!("{}.{name}", self.name);
        self.secrets.push((kept.clone(), known));
        Ok(format!("vault:{kept}"))
    }

    fn told(&self) -> String {
        match &self.checked {
            Ok(server) => {
                let notes: String = self.notes.iter().map(|note| format!("  note       {note}\n")).collect();
                format!("{} (theirs: {})\n{}{notes}", self.name, self.theirs, about(server))
            }
            Err(why) => format!("{} stays where it is: {why}\n", self.theirs),
        }
    }

    fn json(&self) -> Value {
        let secrets: Vec<String> = self.secrets.iter().map(|(name, _)| format!("vault:{name}")).collect();
        json!({
            "theirs": self.theirs, "name": self.name, "taken_over": self.checked.is_ok(),
            "why_not": self.checked.as_ref().err(), "secrets": secrets, "notes": self.notes,
            "what": self.checked.as_ref().ok().map(Server::identity),
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A name as ours are.
fn own_name(theirs: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let mut name: String = theirs.chars().map(plain).take(32).collect();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    name.trim_matches('_').to_owned()
}

/// Is this to be kept in the vault? One too many there does no harm, so short passwords and what is only random count too.
fn is_secret(name: &str, value: &str) -> bool {
    let is_switch = value.len() < 4
        || value.starts_with(['/', '.'])
        || ["true", "false", "none", "null"].contains(&value.to_ascii_lowercase().as_str())
        || value.bytes().all(|byte| byte.is_ascii_digit());
    looks_secret(name, value) || (says_secret(name) && !is_switch) || !secrets::find(value).is_empty()
}

/// A text with what a client looks up in its environment looked up in ours.
fn resolved(text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, variable, behind)) = next_variable(rest) {
        let name = variable_name(variable)?;
        let value = setup::variable(name)
            .ok_or_else(|| format!("variable `{name}` is not set here; set it, and import again"))?;
        out.extend([before, &value]);
        rest = behind;
    }
    Ok(out + rest)
}

/// What is before the next `${...}`, in it and behind it.
fn next_variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (variable, behind) = rest.split_once('}')?;
    Some((before, variable, behind))
}

/// The variable that is meant by what stands between `${` and `}`, or why none is. A default may be a secret, and is not
/// repeated.
fn variable_name(inside: &str) -> Result<&str, String> {
    let name = inside.strip_prefix("env:").unwrap_or(inside);
    if let Some((input, name)) = name.split_once(':').filter(|(kind, _)| *kind == "input") {
        return Err(format!(
            "the client asks for `${{{input}:{name}}}` when it starts the server; run `toolgate secrets set NAME`, and add the \
             server with `vault:NAME` in its place"
        ));
    }
    if let Some((name, _)) = name.split_once(":-") {
        return Err(format!(
            "`${{{name}:-...}}` has a default, and a reference here has none; write `${{{name}}}` or the value there"
        ));
    }
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    // As editors call their own: words of which the second has a capital.
    let is_clients =
        name == inside && name.starts_with(|c: char| c.is_ascii_lowercase()) && setup::variable(name).is_none();
    match is_name && !is_clients {
        true => Ok(name),
        false => Err(format!(
            "only the client knows what `${{{}}}` is; write what it stands for there",
            inside.escape_debug()
        )),
    }
}
