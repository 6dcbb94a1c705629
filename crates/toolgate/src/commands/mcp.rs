//! `toolgate mcp`: other MCP servers, behind the gate.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stdin},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use toolgate_contract::{Digest, Fault, nearest};
use toolgate_gate::Sourced;
use toolgate_guard::names::{self, Why};
use toolgate_mcp::bridge::Bridge;
use toolgate_runtime::{
    config::{self, Config, Reached, Server},
    definitions::{Definitions, Listed, Shown},
};

use super::{mcp_import::Import, pins};
use crate::{
    problem::Problem,
    setup::{self, Place},
    show,
};

/// Put other MCP servers behind the gate: their tools are pinned, decided, recorded and cleaned like all others
///
/// A server that is a program runs in a room of its own: it sees what its entry names and talks to whom its entry names. What
/// is added here is kept in mcp_servers.yaml in the data directory; a config may have servers too, under `mcp_servers`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate mcp add time --allowed-host pypi.org --allowed-host files.pythonhosted.org -- uvx mcp-server-time==2026.10.19
  toolgate mcp add tickets --url https://mcp.example.com/mcp --header Authorization=vault:tickets
  toolgate mcp show time
  toolgate mcp diff time
  toolgate mcp pin time
  toolgate mcp import ~/.cursor/mcp.json --write-back

A secret is named, never written: vault:NAME, env:NAME, file:/absolute/path or keyring:SERVICE/NAME.")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a server
    Add(Box<Add>),
    /// List the servers of every config; nothing is started
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Start a server, and show what it is, what its room is and what it offers
    Show {
        /// Its name
        name: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Start a server, and show what is held back of its tools, against what is pinned
    Diff {
        /// A server, or one of its tools as agents call it
        #[arg(value_name = "SERVER[__TOOL]")]
        name: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Agree to what is held back of a server's tools, once it was shown
    Pin {
        /// A server, or one of its tools as agents call it
        #[arg(value_name = "SERVER[__TOOL]")]
        name: String,
        /// Pin one tool, if it has this hash
        #[arg(long, value_parser = pins::hash, conflicts_with = "yes")]
        hash: Option<Digest>,
        /// Agree to everything that is shown, without being asked
        #[arg(long)]
        yes: bool,
    },
    /// Remove a server that was added with a command
    Remove {
        /// Its name
        name: String,
    },
    /// Take over the servers a client has in its config
    ///
    /// What would be started is shown first. Values that look like secrets go into the vault; a server that has one among its
    /// words or in its address stays where it is.
    Import(Import),
}

#[derive(Debug, Args)]
struct Add {
    /// What to call it; its tools are called NAME__TOOL
    name: String,
    /// The program and its words, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// It is at this address
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Send it a header; may be given several times
    #[arg(long, value_name = "NAME=REF", requires = "url")]
    header: Vec<String>,
    /// Send it the credentials of a connection
    #[arg(long, value_name = "NAME", requires = "url")]
    connection: Option<String>,
    /// A variable it has; may be given several times
    #[arg(long, value_name = "NAME=VALUE|REF", conflicts_with = "url")]
    env: Vec<String>,
    /// A host it may talk to; may be given several times
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "url")]
    allowed_host: Vec<String>,
    /// The directory it works in
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    workspace: Option<PathBuf>,
    /// It may change that directory
    #[arg(long, requires = "workspace")]
    write: bool,
    /// A directory it sees, to read; may be given several times
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    visible: Vec<PathBuf>,
}

impl Mcp {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self.command {
            Command::Add(add) => add.run(place),
            Command::List { json } => list(place, json),
            Command::Show { name, json } => show_one(place, &name, json),
            Command::Diff { name, json } => diff(place, &name, json),
            Command::Pin { name, hash, yes } => pin(place, &name, hash, yes),
            Command::Remove { name } => remove(place, &name),
            Command::Import(import) => import.run(place),
        }
    }
}

pub(super) fn known(place: &Place) -> Result<Config, Problem> {
    Ok(Config::load(&place.sources("default", None)?)?)
}

fn unknown(name: &str, config: &Config) -> Problem {
    let remedy = match nearest(name, config.servers.keys().map(String::as_str)) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => "Run `toolgate mcp list` to see what there is.".to_owned(),
    };
    Fault::refused("unknown_server", format!("there is no server `{}`", name.escape_debug()), remedy).into()
}

// ---- adding and removing ----

impl Add {
    fn run(&self, place: &Place) -> Result<ExitCode, Problem> {
        refuse_known(&known(place)?, &self.name)?;
        let notes = config::add_server(&place.data_dir()?, &self.name, &self.written()?)?;
        show::line(&format!("{0} is added: toolgate mcp show {0} starts it and tells what it offers", self.name))?;
        for note in notes {
            anstream::eprintln!("note: {}", note.text);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The server as a config has it. What is wrong with it is found where configs are checked.
    fn written(&self) -> Result<Value, Problem> {
        let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        let mut page = Map::new();
        if let Some(url) = &self.url {
            page.insert("url".into(), json!(url));
            let headers = pairs(&self.header, "--header takes NAME=REF, such as Authorization=vault:tickets")?;
            page.extend((!headers.is_empty()).then(|| ("headers".to_owned(), json!(headers))));
            page.extend(self.connection.as_ref().map(|name| ("connection".to_owned(), json!(name))));
            return Ok(Value::Object(page));
        }
        let Some((command, args)) = self.command.split_first() else {
            return Err(Problem::usage("name a program after `--`, or an address with --url"));
        };
        page.insert("command".into(), json!(command));
        page.insert("args".into(), json!(args));
        let env = pairs(&self.env, "--env takes NAME=VALUE, or NAME=REF for a secret")?;
        page.insert("env".into(), json!(env));
        page.insert("allowed_hosts".into(), json!(self.allowed_host));
        page.insert("visible".into(), json!(self.visible.iter().map(absolute).collect::<Vec<_>>()));
        if let Some(dir) = &self.workspace {
            page.insert("workspace".into(), json!(absolute(dir)));
            page.insert("access".into(), json!(if self.write { "write" } else { "read" }));
        }
        Ok(Value::Object(page))
    }
}

/// What is given may be a secret by mistake, so nothing of it is repeated.
fn pairs(given: &[String], usage: &str) -> Result<BTreeMap<String, String>, Problem> {
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    given.iter().map(|text| pair(text).ok_or_else(|| Problem::usage(usage))).collect()
}

fn refuse_known(config: &Config, name: &str) -> Result<(), Problem> {
    taken(config, name).map_or(Ok(()), |why| Err(Problem::usage(why)))
}

/// Why a server cannot have this name beside those there are.
pub(super) fn taken(config: &Config, name: &str) -> Option<String> {
    config.servers.iter().find_map(|(there, known)| match names::collide(name, there)? {
        Why::Same => Some(format!("there is a server `{name}` already ({})", known.source)),
        why => Some(format!("`{name}` can be mistaken for the server `{there}` ({}): {why}", known.source)),
    })
}

fn remove(place: &Place, name: &str) -> Result<ExitCode, Problem> {
    let (config, data_dir) = (known(place)?, place.data_dir()?);
    let Some(there) = config.servers.get(name) else { return Err(unknown(name, &config)) };
    if there.source.file != config::servers_file(&data_dir).display().to_string() {
        return Err(Problem::usage(format!("server `{name}` is set up in {}: remove it there", there.source)));
    }
    config::remove_server(&data_dir, name)?;
    show::line(&format!("{name} is removed; what was pinned of it stays pinned should it come back"))?;
    Ok(ExitCode::SUCCESS)
}

// ---- looking ----

fn list(place: &Place, json: bool) -> Result<ExitCode, Problem> {
    let config = known(place)?;
    let pins = Definitions::open(place.data_dir()?).list()?;
    let counted = |name: &str| {
        let own: Vec<&Listed> = of_server(&pins, name).collect();
        let held = own.iter().filter(|tool| tool.held.is_some()).count();
        (own.len() - held, held)
    };
    if show::wants_json(json) {
        let page: Vec<Value> = config
            .servers
            .iter()
            .map(|(name, server)| {
                let (pinned, held) = counted(name);
                let mut page = entry(name, server);
                (page["pinned"], page["held"]) = (json!(pinned), json!(held));
                page
            })
            .collect();
        show::json(&page)?;
    } else {
        let row = |(name, server): (&String, &Sourced<Server>)| {
            let (pinned, held) = counted(name);
            let state = if server.value.disabled { "off" } else { "on" };
            let tools = format!("{pinned} pinned, {held} held back");
            [name.clone(), state.to_owned(), server.value.identity(), tools, server.source.to_string()]
        };
        show::table(["NAME", "STATE", "WHAT IT IS", "TOOLS", "FROM"], config.servers.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_server<'a>(pins: &'a [Listed], name: &str) -> impl Iterator<Item = &'a Listed> {
    let start = format!("{name}__");
    pins.iter().filter(move |tool| tool.tool.starts_with(&start))
}

/// A server as a config has it, and where that is.
fn entry(name: &str, server: &Sourced<Server>) -> Value {
    let mut page = json!(server.value);
    (page["name"], page["source"]) = (json!(name), json!(server.source));
    page
}

/// Starts a server and takes its tools in, so that what is held back can be looked at.
fn connect(place: &Place, name: &str) -> Result<(), Problem> {
    let runtime = place.look("default")?;
    let executor = setup::executor()?;
    let connected = executor.block_on(async {
        let bridge = Bridge::new(&runtime);
        bridge.connect(name).await
    });
    executor.shutdown_timeout(setup::PATIENCE);
    connected.map(|_| ()).map_err(Problem::from)
}

fn show_one(place: &Place, name: &str, json: bool) -> Result<ExitCode, Problem> {
    let config = known(place)?;
    let Some(server) = config.servers.get(name) else { return Err(unknown(name, &config)) };
    let connected = connect(place, name);
    let pins = Definitions::open(place.data_dir()?).list()?;
    let tools: Vec<&Listed> = of_server(&pins, name).collect();
    if show::wants_json(json) {
        let mut page = entry(name, server);
        page["tools_offered"] = json!(tools);
        page["error"] = connected.as_ref().err().map_or(Value::Null, told);
        show::json(&page)?;
    } else {
        show::line(&format!("{name} ({})\n{}", server.source, about(&server.value)))?;
        match &connected {
            Ok(()) => {
                let row = |tool: &&Listed| {
                    [tool.tool.clone(), tool.standing.clone(), tool.barred.clone().unwrap_or_default()]
                };
                show::table(["TOOL", "STANDING", "NOBODY CAN PIN IT"], tools.iter().map(row))?;
            }
            Err(problem) => anstream::eprintln!("{problem}"),
        }
    }
    Ok(if connected.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Why a server could not be started, for programs.
fn told(problem: &Problem) -> Value {
    match problem {
        Problem::Fault(Fault { code, message, remedy, .. }) => {
            json!({ "code": code, "message": message, "remedy": remedy })
        }
        Problem::Usage(message) => json!({ "message": message }),
        Problem::Config(errors) => json!({ "message": errors.first().map(|error| &error.message) }),
    }
}

/// What a server is, and what it can do to this machine and to whoever calls.
pub(super) fn about(server: &Server) -> String {
    let asks: Vec<&str> = server.may_ask.iter().map(|ask| ask.as_str()).collect();
    let asks = if asks.is_empty() { "nothing".to_owned() } else { asks.join(", ") };
    let taken: Vec<&str> = server.offers.iter().map(|offer| offer.as_str()).collect();
    let taken = if taken.is_empty() { "nothing".to_owned() } else { taken.join(", ") };
    format!("{}  may ask    {asks}\n  is taken   {taken}\n", reached(server))
}

fn reached(server: &Server) -> String {
    let list = |words: &[String]| if words.is_empty() { "nobody".to_owned() } else { words.join(", ") };
    match &server.reached {
        Reached::Program(program) => {
            let words: Vec<String> =
                std::iter::once(&program.command).chain(&program.args).map(|word| quoted(word)).collect();
            let dir = |dir: &PathBuf| dir.display().to_string();
            let workspace = program.workspace.as_ref().map_or("none".to_owned(), |path| {
                format!("{} ({})", dir(path), json!(program.access).as_str().unwrap_or_default())
            });
            let seen: Vec<String> = program.visible.iter().map(dir).collect();
            let env: Vec<String> = program.env.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
            format!(
                "  starts     {}\n  workspace  {workspace}\n  sees       {}\n  talks to   {}\n  variables  {}\n",
                words.join(" "),
                if seen.is_empty() { "the system's own directories".to_owned() } else { seen.join(", ") },
                list(&program.allowed_hosts),
                if env.is_empty() { "none".to_owned() } else { env.join(" ") },
            )
        }
        Reached::Address(address) => {
            let proof: Vec<String> = address.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let connection = address.connection.iter().map(|name| format!("connection {name}"));
            let proof: Vec<String> = proof.into_iter().chain(connection).collect();
            format!(
                "  is at      {}\n  proof      {}\n",
                address.url,
                if proof.is_empty() { "none".into() } else { proof.join(", ") }
            )
        }
    }
}

fn shown(value: &config::Word) -> String {
    match value {
        config::Word::Plain(word) => quoted(word),
        config::Word::Secret(reference) => reference.to_string(),
    }
}

/// A word as a shell would have it, so that where one ends and the next begins is seen.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The server a name is about, and the tools of it that are held back.
fn held(place: &Place, name: &str) -> Result<Vec<Shown>, Problem> {
    let config = known(place)?;
    let server = name.split_once("__").map_or(name, |(server, _)| server);
    if !config.servers.contains_key(server) {
        return Err(unknown(server, &config));
    }
    connect(place, server)?;
    let definitions = Definitions::open(place.data_dir()?);
    if server != name {
        return Ok(vec![definitions.show(name)?]);
    }
    let pins = definitions.list()?;
    let waiting = of_server(&pins, server).filter(|tool| tool.held.is_some());
    Ok(waiting.map(|tool| definitions.show(&tool.tool)).collect::<Result<_, _>>()?)
}

fn diff(place: &Place, name: &str, json: bool) -> Result<ExitCode, Problem> {
    let held = held(place, name)?;
    if json {
        show::json(&held)?;
    } else if held.is_empty() {
        show::line(&format!("nothing of `{name}` is held back"))?;
    } else {
        held.iter().try_for_each(|shown| show::line(&pins::page(shown)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn pin(place: &Place, name: &str, hash: Option<Digest>, yes: bool) -> Result<ExitCode, Problem> {
    let definitions = Definitions::open(place.data_dir()?);
    let by = pins::whoever();
    if let Some(hash) = hash {
        definitions.pin(name, hash, &by)?;
        show::line(&format!("{name} is pinned: agents may be shown it and call it"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let held = held(place, name)?;
    if held.is_empty() {
        show::line(&format!("nothing of `{name}` is held back"))?;
        return Ok(ExitCode::SUCCESS);
    }
    held.iter().try_for_each(|shown| show::line(&pins::page(shown)))?;
    let fit: Vec<&Shown> = held.iter().filter(|shown| shown.barred.is_none()).collect();
    if fit.is_empty() {
        show::line(&format!("nothing that is held back of `{name}` can be pinned"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !yes && !agrees(&format!("Pin these {} tools?", fit.len()))? {
        return Err(Problem::usage("nothing was pinned"));
    }
    for shown in fit {
        // What was shown has this hash; whatever is there by now has to have it too.
        definitions.pin(&shown.tool, shown.hash, &by)?;
        show::line(&format!("{} is pinned: agents may be shown it and call it", shown.tool))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal. Where there is none nobody agrees.
pub(super) fn agrees(question: &str) -> Result<bool, Problem> {
    if !stdin().is_terminal() {
        return Err(Problem::usage("there is nobody to ask: give --yes to agree to what is shown"));
    }
    anstream::eprint!("{question} [y/N] ");
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
