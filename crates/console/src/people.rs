//! People in the loop: questions and answers, standing yeses, effects nobody knows about.

use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Fault, Grant, GrantId, Once, OnceKey, OnceState, Person,
};
use toolgate_runtime::{
    approvals::Approvals,
    once::Effects,
    store::state::{ApprovalFilter, EffectFilter},
};

use crate::{Shared, problem::Problem, record::items};

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

/// A person answers.
pub(crate) async fn answer(
    shared: &Shared,
    id: &str,
    by: &Person,
    answer: Answer,
    reason: &str,
) -> Result<Approval, Problem> {
    // What nobody asked is not answered, and leaves no trace in the record.
    let approval = question(shared, id).await?;
    Ok(approvals(shared)?.answer(&approval.id, by, answer, reason).await?)
}

/// A standing yes, as it is listed.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    #[serde(flatten)]
    pub(crate) grant: Grant,
    /// It was said about another definition of the tool, and covers nothing.
    pub(crate) stale: bool,
}

/// Standing yeses, the newest first.
pub(crate) async fn grants(shared: &Shared, agent: Option<AgentName>) -> Result<Vec<Standing>, Problem> {
    let grants = approvals(shared)?.grants(agent).await?;
    let listed = |grant: Grant| Standing { stale: shared.runtime.is_stale(&grant), grant };
    Ok(grants.into_iter().map(listed).collect())
}

/// A person takes a standing yes back.
pub(crate) async fn revoke(shared: &Shared, id: &str, by: &Person) -> Result<Grant, Problem> {
    let id = GrantId(id.to_owned());
    let listed = approvals(shared)?.grants(None).await?;
    let known = listed.into_iter().any(|grant| grant.id == id && grant.revoked.is_none());
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

/// What people look at before they answer: the exact command, what would be written instead of what, and what that means.
///
/// The runtime makes the picture when it asks. For a question it could not make one for, the arguments have to do.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Picture {
    pub(crate) command: Option<String>,
    /// The file it is about.
    pub(crate) path: Option<String>,
    pub(crate) lines: Vec<DiffLine>,
    /// Why there is no difference to see.
    pub(crate) no_diff: Option<String>,
    /// In words.
    pub(crate) summary: Vec<String>,
}

/// A line of a difference.
#[derive(Debug, PartialEq)]
pub(crate) enum DiffLine {
    Gone(String),
    New(String),
    /// What stays, and where it is.
    Around(String),
}

impl Picture {
    pub(crate) fn of(picture: &Value, arguments: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let words = || {
            let words: Vec<String> = items(&arguments["argv"]).filter_map(text).collect();
            (!words.is_empty()).then(|| words.join("\n"))
        };
        Self {
            command: text(&picture["command"]).or_else(|| text(&arguments["script"])).or_else(words),
            path: text(&arguments["path"]),
            lines: match picture["diff"].as_str() {
                Some(diff) => difference(diff),
                None => written(arguments),
            },
            no_diff: text(&picture["no_diff"]),
            summary: items(&picture["summary"]).filter_map(text).collect(),
        }
    }
}

/// A unified difference. Its two heads, `---` and `+++`, come before the first place and are no lines of a file.
fn difference(diff: &str) -> Vec<DiffLine> {
    let mut in_place = !diff.contains("@@");
    let mut lines = Vec::new();
    for line in diff.lines() {
        in_place |= line.starts_with("@@");
        lines.push(match line.chars().next() {
            Some('-') if in_place => DiffLine::Gone(line[1..].to_owned()),
            Some('+') if in_place => DiffLine::New(line[1..].to_owned()),
            _ => DiffLine::Around(line.to_owned()),
        });
    }
    lines
}

/// What the arguments say about what is written.
fn written(arguments: &Value) -> Vec<DiffLine> {
    let lines = |text: &Value, line: fn(String) -> DiffLine| {
        text.as_str().unwrap_or_default().lines().map(str::to_owned).map(line).collect::<Vec<_>>()
    };
    let mut all = lines(&arguments["content"], DiffLine::New);
    for (n, edit) in items(&arguments["edits"]).enumerate() {
        all.push(DiffLine::Around(format!("edit {}", n + 1)));
        all.extend(lines(&edit["old"], DiffLine::Gone));
        all.extend(lines(&edit["new"], DiffLine::New));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(picture: Value, arguments: Value, expected: Picture) {
        assert_eq!(Picture::of(&picture, &arguments), expected, "{picture} {arguments}");
    }

    #[test]
    fn the_command_is_the_one_that_would_run() {
        let command = Some("rm -r 'a b'".to_owned());
        let summary = vec!["removes a b".to_owned()];
        let picture = json!({ "command": "rm -r 'a b'", "summary": ["removes a b"] });
        check(picture, json!({ "argv": ["rm", "-r", "a b"] }), Picture { command, summary, ..Picture::default() });
        let command = Some("rm\n-r\na b".to_owned());
        check(Value::Null, json!({ "argv": ["rm", "-r", "a b"] }), Picture { command, ..Picture::default() });
        let command = Some("curl x | sh".to_owned());
        check(json!({}), json!({ "script": "curl x | sh" }), Picture { command, ..Picture::default() });
    }

    #[test]
    fn a_change_is_shown_as_what_goes_and_what_comes() {
        let path = Some("a.txt".to_owned());
        let lines = vec![
            DiffLine::Around("--- a.txt".into()),
            DiffLine::Around("+++ a.txt".into()),
            DiffLine::Around("@@ -1,2 +1,2 @@".into()),
            DiffLine::Around(" same".into()),
            DiffLine::Gone("-- é".into()),
            DiffLine::New("++ e".into()),
        ];
        let diff = "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n same\n--- é\n+++ e";
        let arguments = json!({ "path": "a.txt", "content": "ignored where there is a difference" });
        check(json!({ "diff": diff }), arguments, Picture { lines, path, ..Picture::default() });

        let path = Some("a.txt".to_owned());
        let lines = vec![
            DiffLine::Around("edit 1".into()),
            DiffLine::Gone("one".into()),
            DiffLine::Gone("two".into()),
            DiffLine::New("three".into()),
        ];
        let no_diff = Some("too large".to_owned());
        let arguments = json!({ "path": "a.txt", "edits": [{ "old": "one\ntwo", "new": "three" }] });
        check(json!({ "no_diff": "too large" }), arguments, Picture { lines, path, no_diff, ..Picture::default() });
    }
}
