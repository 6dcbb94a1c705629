//! What people are asked, what they answer, and what they said yes to in advance.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Covers, Digest, Fault, Grant, GrantId, GrantTerms, Scope,
};
use toolgate_guard::clean::hidden::is_unseen;
use toolgate_runtime::store::state::ApprovalFilter;

use super::{
    answer::{Answered, Data},
    args::One,
    desk::{Desk, now_ms, unknown},
    page::Moment,
    tool::{Tool, admin, read, write},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "approvals_list",
            "Questions to people, the newest first: which agent wants to do what, why a person is asked, who said what.",
            list,
        )
        .paged(),
        read(
            "approvals_show",
            "One question with everything a person needs to answer it: the exact command or change, effects and risk. \
             Characters nobody would see are spelt out.",
            show,
        ),
        admin(
            "approvals_approve",
            Scope::Approve,
            "Say yes to exactly one call, in the person's name. It counts once, and only with the digest that \
             `approvals_show` showed them.",
            approve,
        ),
        write(
            "approvals_deny",
            Scope::Approve,
            "Say no to a question, in the person's name. The agent is told the reason.",
            deny,
        ),
        read("approvals_grants", "What people said yes to in advance, the newest first, also what no longer holds.", grants)
            .paged(),
        admin(
            "approvals_grant",
            Scope::Approve,
            "Say yes in advance to calls of one tool by one agent whose every argument matches a pattern. `*` stands for \
             anything but `/`, `**` for anything. It covers nothing once the definition of the tool changes.",
            grant,
        ),
        write("approvals_revoke", Scope::Admin, "Take back what was said in advance.", revoke),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only in this state.
    state: Option<One<ApprovalState>>,
    /// Only of this agent.
    agent: Option<String>,
}

async fn list(desk: Desk, Which { state, agent }: Which) -> Answered {
    let states = state.map(|One(state)| state).into_iter().collect();
    let agent = agent.as_deref().map(AgentName::from);
    let filter = ApprovalFilter { states, agent, limit: desk.page.depth() };
    let found = desk.approvals()?.list(filter).await?;
    desk.page.of(found.iter().map(|approval| (approval.id.to_string(), summary(approval))).collect())
}

/// A question in a list.
fn summary(approval: &Approval) -> Value {
    let question = &approval.question;
    spelt_out(json!({
        "id": approval.id, "state": approval.state, "agent": question.agent, "tool": question.tool,
        "action": question.action, "class": question.class, "risk": question.risk, "reasons": question.reasons,
        "people": question.people, "votes": approval.votes, "may_approve": approval.may_approve,
        "created_ms": approval.created_ms, "expires_ms": question.expires_ms,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneQuestion {
    /// The question, by its name `apr_...`.
    approval: String,
}

async fn find(desk: &Desk, id: &str) -> Result<Approval, Fault> {
    let found = desk.approvals()?.show(&ApprovalId(id.to_owned())).await?;
    found.ok_or_else(|| unknown("approval", id, [], "List those that wait with `approvals_list`."))
}

async fn show(desk: Desk, OneQuestion { approval }: OneQuestion) -> Answered {
    Ok(Data::one(&spelt_out(json!(find(&desk, &approval).await?))))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Approve {
    /// The question, by its name `apr_...`.
    approval: String,
    /// The `question.digest` of what the person was shown.
    digest: String,
}

async fn approve(desk: Desk, Approve { approval, digest }: Approve) -> Answered {
    let digest = hash(&digest)?;
    let asked = find(&desk, &approval).await?;
    if asked.question.digest != digest {
        let message = format!("the question `{}` is about something else than what has this digest", asked.id);
        return Err(Fault::failed("stale_hash", message, "Show the person what `approvals_show` shows now."));
    }
    vote(&desk, &asked, Answer::Yes).await
}

async fn deny(desk: Desk, OneQuestion { approval }: OneQuestion) -> Answered {
    let asked = find(&desk, &approval).await?;
    vote(&desk, &asked, Answer::No).await
}

/// Whether the person may answer this question is decided where every answer is counted.
async fn vote(desk: &Desk, asked: &Approval, answer: Answer) -> Answered {
    let after = desk.approvals()?.answer(&asked.id, desk.person(), answer, &desk.reason).await?;
    Ok(Data::one(&summary(&after)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfAgent {
    /// Only of this agent.
    agent: Option<String>,
}

async fn grants(desk: Desk, OfAgent { agent }: OfAgent) -> Answered {
    let found = desk.approvals()?.grants(agent.as_deref().map(AgentName::from)).await?;
    let row = |grant: &Grant| {
        let mut row = json!(grant);
        (row["stale"], row["holds"]) = (json!(desk.runtime().is_stale(grant)), json!(grant.holds(now_ms())));
        (grant.id.to_string(), spelt_out(row))
    };
    desk.page.of(found.iter().map(row).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Give {
    /// The agent that may use it.
    agent: String,
    /// The tool it is for.
    tool: String,
    /// What each argument of a call must look like, by its name. A call with an argument that is not named is not covered.
    patterns: BTreeMap<String, String>,
    /// How many calls it is good for.
    #[schemars(range(min = 1, max = 1000))]
    uses: u32,
    /// Until when it holds: ISO 8601 with a time zone.
    until: Moment,
}

async fn grant(desk: Desk, Give { agent, tool, patterns, uses, until }: Give) -> Answered {
    let agent = desk.agent(&agent)?;
    let Some(definition) = desk.runtime().definition(&tool) else {
        return Err(unknown("tool", &tool, [], "Look at all of them with `catalog_list`."));
    };
    let terms = GrantTerms {
        agent,
        tool,
        definition: Some(definition),
        covers: Covers::Arguments(patterns),
        uses,
        until_ms: Some(until.ms()),
        by: desk.person().clone(),
        reason: desk.reason.clone(),
    };
    Ok(Data::one(&desk.approvals()?.grant(terms).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneGrant {
    /// The grant, by its name `gra_...`.
    grant: String,
}

async fn revoke(desk: Desk, OneGrant { grant }: OneGrant) -> Answered {
    let id = GrantId(grant);
    let gone = || unknown("grant", &id.0, [], "List those that hold with `approvals_grants`.");
    let listed = desk.approvals()?.grants(None).await?;
    if !listed.iter().any(|grant| grant.id == id && grant.revoked.is_none()) {
        return Err(gone());
    }
    Ok(Data::one(&desk.approvals()?.revoke(&id, desk.person()).await?.ok_or_else(gone)?))
}

/// A hash as it is written.
pub(super) fn hash(text: &str) -> Result<Digest, Fault> {
    Digest::parse(text).ok_or_else(|| {
        Fault::failed("bad_hash", "this is no hash", "Write `sha256:` and 64 hex digits, as they were shown.")
    })
}

/// A yes is for exactly what is shown, so what nobody would see is spelt out where other answers leave it out.
fn spelt_out(value: Value) -> Value {
    let text = |text: String| match text.contains(is_unseen) {
        true => text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
            match is_unseen(c) {
                true => shown.extend(c.escape_unicode()),
                false => shown.push(c),
            }
            shown
        }),
        false => text,
    };
    match value {
        Value::String(said) => Value::String(text(said)),
        Value::Array(items) => items.into_iter().map(spelt_out).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (text(key), spelt_out(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_spelt_out() {
        let shown = spelt_out(json!({ "a\u{200b}": ["rm \u{202e}x", "plain\n\ttext", 7] }));
        assert_eq!(shown, json!({ "a\\u{200b}": ["rm \\u{202e}x", "plain\n\ttext", 7] }));
    }
}
