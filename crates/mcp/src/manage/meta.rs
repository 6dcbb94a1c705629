//! This surface itself: who asks, what there is, what it runs as, and the tokens that open it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{Fault, Scope, Token};
use toolgate_runtime::tokens::Tokens;

use super::{
    answer::{Answered, Data},
    args::Nothing,
    desk::{Desk, now_ms},
    tool::{Kind, Tool, read, write},
    tools::TOOLS,
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read("meta_whoami", "The person this token belongs to, and what it is good for.", whoami),
        read(
            "meta_tools",
            "Every tool of this surface, also those this token is not good for, and what each wants.",
            all,
        )
        .paged(),
        read(
            "meta_about",
            "What is running: version, config files with their hashes, and how much there is of everything.",
            about,
        ),
        read("meta_tokens", "The tokens of agents and people, the newest first, without what proves them.", tokens)
            .wants(Scope::Admin)
            .paged(),
        write("meta_revoke", Scope::Admin, "Take a token back: it proves nothing from then on.", revoke),
    ]
}

async fn whoami(desk: Desk, _: Nothing) -> Answered {
    let tools = TOOLS.iter().filter(|tool| desk.who.may(tool.scope)).count();
    Ok(Data::one(&json!({ "person": desk.person(), "scopes": desk.who.scopes, "tools": tools })))
}

/// A tool of this surface.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    domain: &'a str,
    kind: Kind,
    scope: Scope,
    about: &'a str,
    /// May this token use it?
    allowed: bool,
}

async fn all(desk: Desk, _: Nothing) -> Answered {
    let row = |tool: &Tool| {
        let (name, about) = (&*tool.def.name, &*tool.def.description);
        let (domain, allowed) = (tool.domain(), desk.who.may(tool.scope));
        (name.to_owned(), json!(Row { name, domain, kind: tool.kind, scope: tool.scope, about, allowed }))
    };
    desk.page.of(TOOLS.iter().map(row).collect())
}

async fn about(desk: Desk, _: Nothing) -> Answered {
    let config = desk.config();
    let file = |file: &toolgate_runtime::config::ConfigFileInfo| json!({ "path": file.path.display().to_string(), "trusted": file.trusted, "sha256": file.sha256 });
    let digest = config.digest().map_err(|error| {
        Fault::failed("manage_failed", format!("the policy cannot be hashed: {error}"), "Report it as a bug.")
    })?;
    Ok(Data::one(&json!({
        "version": env!("CARGO_PKG_VERSION"), "policy": digest, "files": config.files.iter().map(file).collect::<Vec<_>>(),
        "notes": config.notes.iter().map(|note| &note.text).collect::<Vec<_>>(),
        "agents": config.policy.agents.len(), "tools": desk.runtime().catalog().len(),
        "connections": config.connections.len(), "servers": config.servers.len(),
    })))
}

async fn tokens(desk: Desk, _: Nothing) -> Answered {
    let now = now_ms();
    let found = desk.state().tokens().await?;
    desk.page.of(found.iter().map(|token| (token.id.clone(), row(token, now))).collect())
}

fn row(token: &Token, now: u64) -> serde_json::Value {
    json!({
        "id": token.id, "principal": token.principal, "scopes": token.scopes, "created_ms": token.created_ms,
        "expires_ms": token.expires_ms, "last_used_ms": token.last_used_ms, "revoked_ms": token.revoked_ms,
        "holds": token.holds(now),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneToken {
    /// The token, by its name `tok_...` in the list. It is no secret.
    id: String,
}

async fn revoke(desk: Desk, OneToken { id }: OneToken) -> Answered {
    let tokens = Tokens { state: desk.state(), store: desk.store() };
    let now = now_ms();
    let token = tokens.revoke(&id, desk.person(), now).await?;
    Ok(Data::one(&row(&token, now)))
}
