//! `toolgate tokens`: what agents and people prove themselves with over HTTP.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_contract::{AgentName, Person, Principal, Scope, Token};
use toolgate_runtime::{
    store::{
        SqliteStore, Store as _,
        state::{SqliteState, State as _},
    },
    tokens::{Minted, Tokens as Kept, Wanted},
};

use crate::{person, problem::Problem, setup, setup::Place, show};

/// Make, list, renew and take back the tokens of agents and people
///
/// A token is shown once, when it is made; only its hash is kept. An agent's token is for calls and for nothing else. A
/// person's is for looking (read), for answering questions (approve) and for the rest (admin).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate tokens add --agent default
  toolgate tokens add --person ann --scope read --scope approve --days 30
  toolgate tokens list
  toolgate tokens rotate tok_0123456789ab
  toolgate tokens revoke tok_0123456789ab")]
pub(crate) struct Tokens {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token
    Add {
        /// For this agent
        #[arg(long, value_name = "NAME", required_unless_present = "person", conflicts_with = "person")]
        agent: Option<String>,
        /// For this person
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// What it is good for: call (agents), read, approve, admin (people); call or read if left out
        #[arg(long, value_name = "SCOPE", value_parser = scope)]
        scope: Vec<Scope>,
        /// How many days it holds; until it is revoked if left out
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: Option<u32>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// List them, never their secrets
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Give a token another secret; the old one is good for nothing from then on
    Rotate {
        /// Its name, as the list shows it
        id: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Take a token back
    Revoke {
        /// Its name, as the list shows it
        id: String,
    },
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::parse(name).ok_or_else(|| "choose among call, read, approve and admin".to_owned())
}

impl Tokens {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let dir = place.data_dir()?;
        let (store, state) = (Arc::new(SqliteStore::open(&dir)?), SqliteState::open(&dir)?);
        let executor = setup::executor()?;
        let done = executor.block_on(self.work(place, &store, &state));
        executor.block_on(state.close())?;
        executor.block_on(store.close())?;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn work(self, place: &Place, store: &SqliteStore, state: &SqliteState) -> Result<(), Problem> {
        let (kept, now) = (Kept { state, store }, setup::now_ms());
        let by = person::acting(state, Scope::Admin).await?;
        match self.command {
            Command::Add { agent, person, scope, days, json } => {
                let principal = principal(place, agent, person)?;
                let first = if matches!(principal, Principal::Agent(_)) { Scope::Call } else { Scope::Read };
                let scopes = if scope.is_empty() { [first].into() } else { scope.into_iter().collect() };
                let life = days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
                told(&kept.add(Wanted { principal, scopes, life }, &by, now).await?, json)
            }
            Command::List { json } => {
                let tokens = state.tokens().await?;
                if show::wants_json(json) {
                    return show::json(&tokens.iter().map(|token| entry(token, now)).collect::<Vec<_>>());
                }
                let heads = ["TOKEN", "WHOSE", "SCOPES", "MADE", "LAST USED", "STATE"];
                show::table(heads, tokens.iter().map(|token| row(token, now)))
            }
            Command::Rotate { id, json } => told(&kept.rotate(&id, &by, now).await?, json),
            Command::Revoke { id } => {
                let token = kept.revoke(&id, &by, now).await?;
                show::line(&format!("{} of {} is revoked", token.id, token.principal))
            }
        }
    }
}

/// Whose token it is to be. An agent has to be one of the config: a name nobody has would call in vain.
fn principal(place: &Place, agent: Option<String>, person: Option<String>) -> Result<Principal, Problem> {
    if let Some(name) = person {
        // The operating system vouches for its users, and nobody else does.
        let is_plain = |c: char| c.is_alphanumeric() || "-_.@ ".contains(c);
        if name.trim().is_empty() || name.len() > 80 || !name.chars().all(is_plain) {
            return Err(Problem::usage("a person's name is made of letters, digits, spaces and the signs - _ . @"));
        }
        return Ok(Principal::Person(Person::from(&*name)));
    }
    let name = AgentName::from(agent.unwrap_or_default().as_str());
    let config = place.config()?;
    if !config.policy.agents.contains_key(&name) {
        let known: Vec<_> = config.policy.agents.keys().map(ToString::to_string).collect();
        return Err(Problem::usage(format!("there is no agent `{name}`; the config has {}", known.join(", "))));
    }
    Ok(Principal::Agent(name))
}

/// The one time a secret is shown. Alone on standard output, so that it can be piped to where it belongs.
fn told(Minted { token, secret }: &Minted, json: bool) -> Result<(), Problem> {
    if json {
        return show::json(&json!({ "id": token.id, "token": secret, "principal": token.principal.to_string(),
            "scopes": token.scopes, "expires_ms": token.expires_ms }));
    }
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    anstream::eprintln!("{} of {} for {}; it is not shown again:", token.id, token.principal, scopes.join(", "));
    show::line(secret)
}

fn entry(token: &Token, now: u64) -> serde_json::Value {
    json!({
        "id": token.id, "principal": token.principal.to_string(), "scopes": token.scopes, "created_ms": token.created_ms,
        "expires_ms": token.expires_ms, "last_used_ms": token.last_used_ms, "revoked_ms": token.revoked_ms,
        "state": state(token, now),
    })
}

fn row(token: &Token, now: u64) -> [String; 6] {
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    [
        token.id.clone(),
        token.principal.to_string(),
        scopes.join(", "),
        show::when(token.created_ms),
        token.last_used_ms.map(show::when).unwrap_or_default(),
        state(token, now).to_owned(),
    ]
}

fn state(token: &Token, now: u64) -> &'static str {
    match token {
        Token { revoked_ms: Some(_), .. } => "revoked",
        token if token.holds(now) => "holds",
        _ => "expired",
    }
}
