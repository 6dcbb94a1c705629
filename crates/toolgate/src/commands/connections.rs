//! `toolgate connections`: other people's APIs.

use std::{collections::BTreeMap, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use toolgate_contract::{Fault, nearest};
use toolgate_runtime::{
    config::{self, Auth, Config, Connection},
    secrets::{SecretRef, Vault},
};

use crate::{
    problem::Problem,
    setup::{Place, executor, secret_places},
    show,
};

/// Set up other people's APIs: where they are, and which secret proves who we are
///
/// Tools use a connection by its name. Its secret is put in when a request is sent, goes to that one server and nowhere
/// else, and is taken out of whatever comes back. What is added here is kept in connections.yaml in the data directory;
/// a config may have connections too, in the same format.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate secrets set forge-token
  toolgate connections add forge --base-url https://git.example.com/api/v1 --kind forgejo --bearer vault:forge-token
  toolgate connections add stats --base-url https://stats.example.com --header X-Api-Key=env:STATS_KEY --writes deny
  toolgate connections add crm --base-url https://crm.example.com/v2 --oauth2-token-url https://id.example.com/token \\
      --oauth2-client-id toolgate --oauth2-client-secret keyring:crm/toolgate --sensitive
  toolgate connections test forge

A secret is named, never written: vault:NAME, env:NAME, file:/absolute/path or keyring:SERVICE/NAME.")]
pub(crate) struct Connections {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a connection
    Add(Box<Add>),
    /// List the connections of every config, and never a secret
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Ask a connection for its own address, and say what answered
    ///
    /// Exits 0 unless there was no answer, the answer was that the credentials are wrong, or the server has a fault.
    Test {
        /// Its name
        name: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Remove a connection that was added with a command
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// What to call it
    name: String,
    /// Scheme, host, port and the path every request begins with
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// What answers there: generic, github, gitlab or forgejo
    #[arg(long)]
    kind: Option<String>,
    /// Send `Authorization: Bearer ...`
    #[arg(long, value_name = "REF", conflicts_with_all = ["basic", "header", "token_url"])]
    bearer: Option<String>,
    /// Send `Authorization: Basic ...`
    #[arg(long, value_name = "USER:REF", conflicts_with_all = ["header", "token_url"])]
    basic: Option<String>,
    /// Send a header of its own; may be given several times
    #[arg(long, value_name = "NAME=REF", conflicts_with = "token_url")]
    header: Vec<String>,
    /// Get access tokens here
    #[arg(long = "oauth2-token-url", value_name = "URL", requires = "client_id")]
    token_url: Option<String>,
    /// Whom we are registered as
    #[arg(long = "oauth2-client-id", value_name = "ID", requires = "token_url")]
    client_id: Option<String>,
    /// What that is proven with
    #[arg(long = "oauth2-client-secret", value_name = "REF", requires = "token_url")]
    client_secret: Option<String>,
    /// What a person's consent left behind
    #[arg(long = "oauth2-refresh-token", value_name = "REF", requires = "token_url")]
    refresh_token: Option<String>,
    /// What tokens are to be good for
    #[arg(long = "oauth2-scope", value_name = "WORDS", requires = "token_url")]
    scope: Option<String>,
    /// Ask a person about every use
    #[arg(long)]
    sensitive: bool,
    /// What happens about calls that change something: ask (the default), allow or deny
    #[arg(long)]
    writes: Option<String>,
    /// Requests a minute
    #[arg(long, value_name = "N")]
    rate_limit: Option<u32>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl Connections {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self.command {
            Command::Add(add) => add.run(place),
            Command::List { json } => list(&known(place)?, json),
            Command::Test { name, json } => test(place, &name, json),
            Command::Remove { name } => remove(place, &name),
        }
    }
}

fn known(place: &Place) -> Result<Config, Problem> {
    Ok(Config::load(&place.sources("default", None)?)?)
}

impl Add {
    fn run(&self, place: &Place) -> Result<ExitCode, Problem> {
        if let Some(there) = known(place)?.connections.get(&self.name) {
            let message = format!("there is a connection `{}` already ({})", self.name, there.source);
            return Err(Problem::usage(message));
        }
        let data_dir = place.data_dir()?;
        let notes = config::add_connection(&data_dir, &self.name, &self.written()?)?;
        show::line(&format!("{} is added: try it with toolgate connections test {}", self.name, self.name))?;
        for note in notes {
            anstream::eprintln!("note: {}", note.text);
        }
        let added = known(place)?.connections.remove(&self.name);
        let vault = Vault::new(data_dir.clone(), secret_places(&data_dir).identity);
        for name in added.iter().flat_map(|added| missing(&vault, &added.value.auth)) {
            anstream::eprintln!("note: the vault has no {name} yet: run toolgate secrets set {name}");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The connection as a config has it. What is wrong with it is found where configs are checked.
    fn written(&self) -> Result<Value, Problem> {
        let mut page = Map::new();
        page.insert("base_url".into(), json!(self.base_url));
        page.insert("auth".into(), self.auth()?);
        page.insert("sensitive".into(), json!(self.sensitive));
        let optional = [
            ("kind", json!(self.kind)),
            ("writes", json!(self.writes)),
            ("rate_limit", json!(self.rate_limit)),
            ("description", json!(self.description)),
        ];
        page.extend(given(optional));
        Ok(Value::Object(page))
    }

    /// What is given may be a secret by mistake, so nothing of it is repeated.
    fn auth(&self) -> Result<Value, Problem> {
        let header = |text: &String| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Problem::usage("--header takes NAME=REF, such as X-Api-Key=vault:stats-key")),
        };
        if let Some(token) = &self.bearer {
            return Ok(json!({ "bearer": token }));
        }
        if let Some(pair) = &self.basic {
            let Some((user, password)) = pair.split_once(':') else {
                return Err(Problem::usage("--basic takes USER:REF, such as me:vault:my-password"));
            };
            return Ok(json!({ "basic": { "user": user, "password": password } }));
        }
        if let Some(url) = &self.token_url {
            let optional = [
                ("client_id", json!(self.client_id)),
                ("client_secret", json!(self.client_secret)),
                ("refresh_token", json!(self.refresh_token)),
                ("scope", json!(self.scope)),
            ];
            let mut oauth = Map::from_iter([("token_url".to_owned(), json!(url))]);
            oauth.extend(given(optional));
            return Ok(json!({ "oauth2": oauth }));
        }
        let headers = self.header.iter().map(header).collect::<Result<Vec<_>, _>>()?;
        Ok(match headers.as_slice() {
            [] => json!("none"),
            [(name, value)] => json!({ "header": { "name": name, "value": value } }),
            _ => json!({ "custom": { "headers": headers.into_iter().collect::<BTreeMap<_, _>>() } }),
        })
    }
}

fn given<const N: usize>(pairs: [(&str, Value); N]) -> impl Iterator<Item = (String, Value)> {
    pairs.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value))
}

/// The names the vault does not have. A vault that cannot be read is another matter, and told when it is used.
fn missing(vault: &Vault, auth: &Auth) -> Vec<String> {
    let kept = vault.list().unwrap_or_default();
    let name = |reference: &SecretRef| match reference {
        SecretRef::Vault(name) => Some(name.clone()),
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Keyring { .. } => None,
    };
    let named = auth.secrets().into_iter().filter_map(name);
    named.filter(|name| !kept.iter().any(|kept| kept.name == *name)).collect()
}

fn list(config: &Config, json: bool) -> Result<ExitCode, Problem> {
    if show::wants_json(json) {
        let page: Vec<Value> = config
            .connections
            .iter()
            .map(|(name, known)| {
                let mut page = json!(known.value);
                page["name"] = json!(name);
                page["source"] = json!(known.source);
                page
            })
            .collect();
        show::json(&page)?;
    } else {
        let row = |(name, known): (&String, &toolgate_gate::Sourced<Connection>)| {
            let Connection { base_url, auth, sensitive, writes, rate_limit, .. } = &known.value;
            let asks = if *sensitive { "every use" } else { writes_words(writes.as_str()) };
            let secrets: Vec<String> = auth.secrets().into_iter().map(ToString::to_string).collect();
            let proof = [auth.kind().to_owned(), secrets.join(", ")].join(" ").trim_end().to_owned();
            [name.clone(), base_url.clone(), proof, asks.to_owned(), rate_limit.to_string(), known.source.to_string()]
        };
        show::table(
            ["NAME", "ADDRESS", "PROOF", "ASKS ABOUT", "A MINUTE", "FROM"],
            config.connections.iter().map(row),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn writes_words(writes: &str) -> &'static str {
    match writes {
        "allow" => "nothing",
        "deny" => "nothing; writes are refused",
        _ => "writes",
    }
}

fn test(place: &Place, name: &str, json: bool) -> Result<ExitCode, Problem> {
    let runtime = place.look("default")?;
    let answer = executor()?.block_on(runtime.try_connection(name))?;
    let is_well = !matches!(answer.status, 401 | 403 | 407 | 500..);
    let kind = answer.header("content-type").unwrap_or("no type");
    if show::wants_json(json) {
        show::json(&json!({
            "connection": name, "url": answer.url, "status": answer.status, "ok": is_well,
            "content_type": answer.header("content-type"), "bytes": answer.body.len(),
        }))?;
    } else {
        let verdict = match answer.status {
            401 | 403 | 407 => ": the credentials are not accepted there",
            500.. => ": the server has a fault",
            _ => "",
        };
        let (url, status, bytes) = (&answer.url, answer.status, answer.body.len());
        show::line(&format!("{url} answered {status} ({kind}, {bytes} bytes){verdict}"))?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn remove(place: &Place, name: &str) -> Result<ExitCode, Problem> {
    let (config, data_dir) = (known(place)?, place.data_dir()?);
    let Some(there) = config.connections.get(name) else {
        let remedy = match nearest(name, config.connections.keys().map(String::as_str)) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => "Run `toolgate connections list` to see what there is.".to_owned(),
        };
        let message = format!("there is no connection `{}`", name.escape_debug());
        return Err(Fault::refused("unknown_connection", message, remedy).into());
    };
    if there.source.file != config::connections_file(&data_dir).display().to_string() {
        return Err(Problem::usage(format!("connection `{name}` is set up in {}: remove it there", there.source)));
    }
    config::remove_connection(&data_dir, name)?;
    show::line(&format!("{name} is removed; its secrets stay where they are"))?;
    Ok(ExitCode::SUCCESS)
}
