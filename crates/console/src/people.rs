//! People in the loop: questions and answers, standing yeses, effects nobody knows about.

use serde_json::Value;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Fault, Grant, GrantId, Once, OnceKey, OnceState, Person,
};
use toolgate_runtime::{
    approvals::Approvals,
    once::Effects,
    store::state::{ApprovalFilter, EffectFilter},
};

use crate::{Shared, problem::Problem};

/// The longest reason that is kept.
const LONGEST: usize = 2_000;
/// How many of anything are listed at most.
const MOST: u32 = 500;

fn approvals(shared: &Shared) -> Result<&Approvals, Problem> {
    shared.runtime.approvals().ok_or_else(|| Problem::broken("nobody can be asked here"))
}

/// Questions, the newest first.
pub(crate) async fn questions(
    shared: &Shared,
    states: Vec<ApprovalState>,
    agent: Option<AgentName>,
    limit: u32,
) -> Result<Vec<Approval>, Problem> {
    let filter = ApprovalFilter { states, agent, limit: limit.clamp(1, MOST) };
    Ok(approvals(shared)?.list(filter).await?)
}

/// One question, as it is now.
pub(crate) async fn question(shared: &Shared, id: &str) -> Result<Approval, Problem> {
    let found = approvals(shared)?.show(&ApprovalId(id.to_owned())).await?;
    found.ok_or_else(|| Problem::not_found("there is no such question"))
}

/// A person answers. A no is told to the model, so it has to say why.
pub(crate) async fn answer(
    shared: &Shared,
    id: &str,
    by: &Person,
    answer: Answer,
    reason: &str,
) -> Result<Approval, Problem> {
    let reason = reason.trim();
    if answer == Answer::No && reason.is_empty() {
        return Err(Problem::bad_request("a no needs a reason: the agent is told it", "Say why."));
    }
    if reason.len() > LONGEST {
        return Err(Problem::bad_request(format!("a reason has at most {LONGEST} bytes"), "Say it shorter."));
    }
    // What nobody asked is not answered, and leaves no trace in the record.
    let approval = question(shared, id).await?;
    Ok(approvals(shared)?.answer(&approval.id, by, answer, reason).await?)
}

/// Standing yeses, the newest first.
pub(crate) async fn grants(shared: &Shared, agent: Option<AgentName>) -> Result<Vec<Grant>, Problem> {
    Ok(approvals(shared)?.grants(agent).await?)
}

/// A person takes a standing yes back.
pub(crate) async fn revoke(shared: &Shared, id: &str, by: &Person) -> Result<Grant, Problem> {
    let id = GrantId(id.to_owned());
    let known = grants(shared, None).await?.into_iter().any(|grant| grant.id == id && grant.revoked.is_none());
    let revoked = if known { approvals(shared)?.revoke(&id, by).await? } else { None };
    revoked.ok_or_else(|| Problem::not_found("there is no such grant that still holds"))
}

/// Effects that happen once, those changed last first.
pub(crate) async fn effects(
    shared: &Shared,
    states: Vec<OnceState>,
    agent: Option<AgentName>,
) -> Result<Vec<Once>, Problem> {
    Ok(kept(shared)?.list(EffectFilter { states, agent, limit: MOST }).await?)
}

/// A person says what became of an effect nobody knows about. What was said is what the caller is told when it asks again.
pub(crate) async fn resolve(
    shared: &Shared,
    key: &OnceKey,
    by: &Person,
    happened: bool,
    said: &str,
) -> Result<Once, Problem> {
    let unknown = effects(shared, vec![OnceState::Unknown], Some(key.agent.clone())).await?;
    if !unknown.iter().any(|once| once.key == *key) {
        let fault = Fault::failed("not_unknown", "there is no such effect that is unknown", "Load the list again.");
        return Err(fault.into());
    }
    Ok(kept(shared)?.resolve(key, by, happened, said).await?)
}

fn kept(shared: &Shared) -> Result<&Effects, Problem> {
    shared.runtime.effects().ok_or_else(|| Problem::broken("no effects are kept here"))
}

/// What people look at before they answer: the exact command, what would be written instead of what.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Picture {
    /// A program and its arguments, one by one.
    pub(crate) argv: Vec<String>,
    /// A script.
    pub(crate) script: Option<String>,
    /// The file it is about.
    pub(crate) path: Option<String>,
    pub(crate) lines: Vec<DiffLine>,
    /// What the runtime has to say about it besides.
    pub(crate) more: Option<Value>,
}

/// A line of a difference.
#[derive(Debug, PartialEq)]
pub(crate) enum DiffLine {
    Gone(String),
    New(String),
    Where(String),
}

impl Picture {
    pub(crate) fn of(picture: &Value, arguments: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let lines =
            |text: &str, line: fn(String) -> DiffLine| text.lines().map(str::to_owned).map(line).collect::<Vec<_>>();
        let mut shown = Self {
            argv: crate::record::items(&arguments["argv"]).filter_map(text).collect(),
            script: text(&arguments["script"]).or_else(|| text(&arguments["command"])),
            path: text(&arguments["path"]),
            ..Self::default()
        };
        if let Some(content) = arguments["content"].as_str() {
            shown.lines = lines(content, DiffLine::New);
        }
        for (n, edit) in crate::record::items(&arguments["edits"]).enumerate() {
            shown.lines.push(DiffLine::Where(format!("edit {}", n + 1)));
            shown.lines.extend(lines(edit["old"].as_str().unwrap_or_default(), DiffLine::Gone));
            shown.lines.extend(lines(edit["new"].as_str().unwrap_or_default(), DiffLine::New));
        }
        if let Some(diff) = picture["diff"].as_str() {
            shown.lines = diff.lines().map(diff_line).collect();
        }
        shown.more = match picture {
            Value::Null => None,
            Value::Object(fields) => {
                let rest: serde_json::Map<_, _> = fields
                    .iter()
                    .filter(|(key, _)| *key != "diff")
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                (!rest.is_empty()).then_some(Value::Object(rest))
            }
            other => Some(other.clone()),
        };
        shown
    }
}

fn diff_line(line: &str) -> DiffLine {
    match line.chars().next() {
        Some('-') => DiffLine::Gone(line[1..].to_owned()),
        Some('+') => DiffLine::New(line[1..].to_owned()),
        _ => DiffLine::Where(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(picture: Value, arguments: Value, expected: Picture) {
        assert_eq!(Picture::of(&picture, &arguments), expected, "{picture} {arguments}");
    }

    #[test]
    fn a_command_is_shown_word_by_word() {
        let argv = vec!["rm".to_owned(), "-r".to_owned(), "a b".to_owned()];
        check(Value::Null, json!({ "argv": argv }), Picture { argv, ..Picture::default() });
        let script = Some("curl x | sh".to_owned());
        check(json!({}), json!({ "script": "curl x | sh" }), Picture { script, ..Picture::default() });
    }

    #[test]
    fn an_edit_is_shown_as_what_goes_and_what_comes() {
        let lines = vec![
            DiffLine::Where("edit 1".into()),
            DiffLine::Gone("one".into()),
            DiffLine::Gone("two".into()),
            DiffLine::New("three".into()),
        ];
        let path = Some("a.txt".to_owned());
        let arguments = json!({ "path": "a.txt", "edits": [{ "old": "one\ntwo", "new": "three" }] });
        check(Value::Null, arguments, Picture { lines, path, ..Picture::default() });

        let lines = vec![DiffLine::Where("@@ 1 @@".into()), DiffLine::Gone("é".into()), DiffLine::New("e".into())];
        let more = Some(json!({ "note": "n" }));
        check(
            json!({ "diff": "@@ 1 @@\n-é\n+e", "note": "n" }),
            json!({}),
            Picture { lines, more, ..Picture::default() },
        );
    }
}
