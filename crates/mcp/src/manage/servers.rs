//! Other MCP servers: what each is, and what became of the tools it offers. Never what it is told in secret.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contract::{Fault, Scope, SourceLine};
use toolgate_runtime::{
    config::{self, Address, Program, Reached, Server, Word, looks_secret},
    definitions::{Definitions, Listed},
};

use super::{
    answer::{Answered, Data},
    args::Nothing,
    connections::{not_removed, set_up_elsewhere},
    desk::{Desk, blocking, unknown},
    tool::{Tool, admin, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "servers_list",
            "The MCP servers behind the gate: what each is, and how many of its tools are pinned or held back.",
            list,
        )
        .paged(),
        read(
            "servers_show",
            "One MCP server: how it is started or reached, what it may do to this machine, and its tools.",
            show,
        ),
        admin(
            "servers_remove",
            Scope::Admin,
            "Remove an MCP server that was added with a command. It is gone when Toolgate is started again.",
            remove,
        ),
    ]
}

/// A server as it is told. What its variables are set to may be anything, so only their names are repeated, and where
/// secrets come from.
fn page(name: &str, known: &Server, source: &SourceLine) -> Value {
    let Server { reached, tools, expose, hide, disabled, .. } = known;
    let mut page = match reached {
        Reached::Program(Program { command, args, env, allowed_hosts, workspace, access, visible }) => {
            let word = |word: &Word| match word {
                Word::Plain(_) => "a plain value".to_owned(),
                Word::Secret(reference) => reference.to_string(),
            };
            let env: BTreeMap<&String, String> = env.iter().map(|(name, value)| (name, word(value))).collect();
            json!({
                "command": command, "args": words(args), "env": env, "allowed_hosts": allowed_hosts,
                "workspace": workspace, "access": access, "visible": visible,
            })
        }
        Reached::Address(Address { url, headers, connection }) => {
            let headers: Map<String, Value> =
                headers.iter().map(|(name, value)| (name.clone(), json!(value.to_string()))).collect();
            json!({ "url": address(url), "headers": headers, "connection": connection })
        }
    };
    (page["name"], page["source"], page["disabled"]) = (json!(name), json!(source.to_string()), json!(disabled));
    (page["terms"], page["expose"], page["hide"]) = (json!(tools), json!(expose), json!(hide));
    page
}

/// What a server is, in a list.
fn is(server: &Server) -> Value {
    match &server.reached {
        Reached::Program(Program { command, args, .. }) => json!({ "command": command, "args": words(args) }),
        Reached::Address(Address { url, .. }) => json!({ "url": address(url) }),
    }
}

/// What stands for what is not told.
const NOT_TOLD: &str = "[not told]";

/// The words a program is started with, but not those that one before them says are secret.
fn words(args: &[String]) -> Vec<String> {
    let is_secret = |name: &str, value: &str| looks_secret(&name.replace('-', "_"), value);
    let word = |(at, word): (usize, &String)| {
        let before = at
            .checked_sub(1)
            .and_then(|before| args.get(before))
            .filter(|before| before.starts_with('-') && !before.contains('='));
        match word.split_once('=') {
            Some((name, value)) if is_secret(name, value) => format!("{name}={NOT_TOLD}"),
            None if before.is_some_and(|before| is_secret(before, word)) => NOT_TOLD.to_owned(),
            _ => word.clone(),
        }
    };
    args.iter().enumerate().map(word).collect()
}

/// An address without its query, in which some keep keys.
fn address(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(before, _)| format!("{before}?{NOT_TOLD}"))
}

async fn pins(desk: &Desk) -> Result<Vec<Listed>, Fault> {
    let dir = desk.data_dir();
    blocking(move || Definitions::open(&*dir).list()).await?
}

fn of_server<'a>(pins: &'a [Listed], name: &str) -> Vec<&'a Listed> {
    let start = format!("{name}__");
    pins.iter().filter(|tool| tool.tool.starts_with(&start)).collect()
}

async fn list(desk: Desk, _: Nothing) -> Answered {
    let pins = pins(&desk).await?;
    let rows = desk.config().servers.iter().map(|(name, known)| {
        let own = of_server(&pins, name);
        let held = own.iter().filter(|tool| tool.held.is_some()).count();
        let row = json!({
            "name": name, "is": is(&known.value), "disabled": known.value.disabled,
            "source": known.source.to_string(), "pinned": own.len() - held, "held_back": held,
        });
        (name.clone(), row)
    });
    desk.page.of(rows.collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneServer {
    /// The server, by its name in the config.
    server: String,
}

fn find<'a>(desk: &'a Desk, name: &str) -> Result<(&'a Server, &'a SourceLine), Fault> {
    let all = &desk.config().servers;
    let known = all.keys().map(String::as_str);
    all.get(name)
        .map(|known| (&known.value, &known.source))
        .ok_or_else(|| unknown("server", name, known, "Look at all of them with `servers_list`."))
}

async fn show(desk: Desk, OneServer { server }: OneServer) -> Answered {
    let (known, source) = find(&desk, &server)?;
    let mut page = page(&server, known, source);
    let (pins, start) = (pins(&desk).await?, format!("{server}__"));
    let catalog = desk.runtime().catalog();
    let offered: Vec<_> =
        catalog.iter().map(|listed| &*listed.def.name).filter(|name| name.starts_with(&start)).collect();
    (page["tools"], page["offered_now"]) = (json!(of_server(&pins, &server)), json!(offered));
    Ok(Data::one(&page))
}

async fn remove(desk: Desk, OneServer { server }: OneServer) -> Answered {
    let (dir, (_, source)) = (desk.data_dir(), find(&desk, &server)?);
    if source.file != config::servers_file(&dir).display().to_string() {
        return Err(set_up_elsewhere("server", &server, &source.to_string()));
    }
    let name = server.clone();
    blocking(move || config::remove_server(&dir, &name)).await?.map_err(|errors| not_removed(&errors))?;
    Ok(Data::one(&json!({ "server": server, "removed": true, "holds": "until Toolgate is started again" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_secret_are_not_told() {
        let check = |args: &[&str], expected: &[&str]| {
            let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(words(&args), expected);
        };
        check(&["--quiet", "-y", "server@1.0.0"], &["--quiet", "-y", "server@1.0.0"]);
        check(&["--api-key", "k9J2mQ8rT4vX", "--port", "8080"], &["--api-key", NOT_TOLD, "--port", "8080"]);
        check(&["--token=k9J2mQ8rT4vX", "token", "k9J2mQ8rT4vX"], &["--token=[not told]", "token", "k9J2mQ8rT4vX"]);
        assert_eq!(address("https://a.example/mcp?key=k9J2mQ8r"), "https://a.example/mcp?[not told]");
        assert_eq!(address("https://a.example/mcp"), "https://a.example/mcp");
    }
}
