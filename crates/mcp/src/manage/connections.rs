//! Other people's APIs: where they are, and what kind of proof they take. Never the proof.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::{Fault, Scope, SourceLine};
use toolgate_runtime::config::{self, Connection};

use super::{
    answer::{Answered, Data},
    args::Nothing,
    desk::{Desk, blocking, unknown},
    tool::{Tool, admin, read, write},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "connections_list",
            "The connections tools use: where they lead, and what people are asked about. Never a secret.",
            list,
        )
        .paged(),
        read("connections_show", "One connection. Its secrets are named by where they are kept, and not told.", show),
        write(
            "connections_test",
            Scope::Admin,
            "Ask a connection for its own address, with its credentials, and say what answered.",
            test,
        )
        .reaching_out(),
        admin(
            "connections_remove",
            Scope::Admin,
            "Remove a connection that was added with a command. It is gone when Toolgate is started again; its secrets stay.",
            remove,
        ),
    ]
}

/// A connection as it is told. Words that need not be secret may be so all the same, so they are not repeated either.
fn page(name: &str, known: &Connection, source: &SourceLine) -> Value {
    let Connection { base_url, kind, auth, sensitive, writes, rate_limit, description } = known;
    let secrets: Vec<String> = auth.secrets().into_iter().map(ToString::to_string).collect();
    json!({
        "name": name, "base_url": base_url, "kind": kind, "proof": auth.kind(), "secrets_from": secrets,
        "sensitive": sensitive, "writes": writes, "rate_limit": rate_limit, "description": description,
        "source": source.to_string(),
    })
}

async fn list(desk: Desk, _: Nothing) -> Answered {
    let all = desk.config().connections.iter();
    desk.page.of(all.map(|(name, known)| (name.clone(), page(name, &known.value, &known.source))).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneConnection {
    /// The connection, by its name.
    connection: String,
}

fn find<'a>(desk: &'a Desk, name: &str) -> Result<(&'a Connection, &'a SourceLine), Fault> {
    let all = &desk.config().connections;
    let known = all.keys().map(String::as_str);
    all.get(name)
        .map(|known| (&known.value, &known.source))
        .ok_or_else(|| unknown("connection", name, known, "Look at all of them with `connections_list`."))
}

async fn show(desk: Desk, OneConnection { connection }: OneConnection) -> Answered {
    let (known, source) = find(&desk, &connection)?;
    Ok(Data::one(&page(&connection, known, source)))
}

async fn test(desk: Desk, OneConnection { connection }: OneConnection) -> Answered {
    find(&desk, &connection)?;
    let answer = desk.runtime().try_connection(&connection).await?;
    let is_well = !matches!(answer.status, 401 | 403 | 407 | 500..);
    Ok(Data::one(&json!({
        "connection": connection, "status": answer.status, "ok": is_well,
        "content_type": answer.header("content-type"), "bytes": answer.body.len(),
    })))
}

async fn remove(desk: Desk, OneConnection { connection }: OneConnection) -> Answered {
    let (dir, (_, source)) = (desk.data_dir(), find(&desk, &connection)?);
    if source.file != config::connections_file(&dir).display().to_string() {
        return Err(set_up_elsewhere("connection", &connection, &source.to_string()));
    }
    let name = connection.clone();
    blocking(move || config::remove_connection(&dir, &name)).await?.map_err(|errors| not_removed(&errors))?;
    Ok(Data::one(&json!({ "connection": connection, "removed": true, "holds": "until Toolgate is started again" })))
}

pub(super) fn set_up_elsewhere(what: &str, name: &str, source: &str) -> Fault {
    let message = format!("the {what} `{name}` is set up in `{source}`, by hand");
    Fault::failed("set_up_elsewhere", message, "Ask whoever keeps that file to remove it there.")
}

pub(super) fn not_removed(errors: &[config::ConfigError]) -> Fault {
    let first = errors.first();
    let message = first.map_or("the file cannot be changed", |error| &error.message);
    Fault::failed("not_removed", message, first.map_or("Look into the data directory.", |error| &error.remedy))
}
