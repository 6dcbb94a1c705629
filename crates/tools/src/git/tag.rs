//! `git_tag`: list, create and delete tags.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated, Unit,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, CHANGES, MOST, TIMEOUT,
    command::{Git, head},
    fault::{
        ALREADY_EXISTS, BAD_MESSAGE, BAD_NAME, BAD_REQUEST, BAD_REVISION, NO_COMMITS, UNKNOWN_REVISION, local_modes,
    },
    name::{Named as _, Plain, Revision, TagName},
    on,
    repository::Repository,
    status::short,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_tag".into(),
            summary: "List, create or delete tags.".into(),
            description: "`list` shows all tags, latest first. `create` makes one at `ref`; with `message` it is annotated. \
                Nothing is signed. `delete` removes one here; a tag that was pushed stays at the remote. Deleting a tag, and \
                moving one with `force`, needs a person's consent."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsBranch,
            safety: SafetyClass::Write,
            needs: CHANGES,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "All tags".into(), arguments: json!({ "action": "list" }) },
                Example {
                    title: "An annotated tag on the last commit".into(),
                    arguments: json!({ "action": "create", "name": "v1.2.0", "message": "Version 1.2.0" }),
                },
            ],
            failures: local_modes(&[
                &BAD_REQUEST,
                &BAD_NAME,
                &BAD_REVISION,
                &BAD_MESSAGE,
                &UNKNOWN_REVISION,
                &NO_COMMITS,
                &ALREADY_EXISTS,
            ]),
            ..ToolDef::default()
        },
        effects,
        run,
    )
    .acting(|input: &Input| match input.action {
        Action::List => ActionType::VcsRead,
        Action::Create | Action::Delete => ActionType::VcsBranch,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// What to do.
    action: Action,
    /// The tag.
    #[serde(default)]
    name: Option<String>,
    /// With `create`: the commit or branch to tag; `HEAD` when it is left out.
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    /// With `create`: what the tag says. Without it the tag is a mere name.
    #[serde(default)]
    message: Option<String>,
    /// With `create`: move a tag that exists.
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Create,
    Delete,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Output {
    /// With `list` all tags, with `create` the new one.
    tags: Vec<Tag>,
}

/// A tag.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Tag {
    /// Its name.
    name: String,
    /// What it leads to.
    commit: String,
    /// It is an object of its own, with a message.
    annotated: bool,
    /// The first line of its message, or of the commit's.
    subject: String,
    /// When it, or the commit, was made.
    date: String,
}

fn effects(input: &Input) -> Vec<Effect> {
    let repository = input.repository.as_deref();
    let lost = |kind| Effect { kind, target: input.name.clone() };
    match input.action {
        Action::List => vec![on(EffectKind::FsRead, repository)],
        Action::Create if input.force => {
            vec![on(EffectKind::FsWrite, repository), lost(EffectKind::RewriteHistory)]
        }
        Action::Create => vec![on(EffectKind::FsWrite, repository)],
        Action::Delete => vec![on(EffectKind::FsWrite, repository), lost(EffectKind::DeleteBranch)],
    }
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let besides = input.revision.is_some() || input.message.is_some() || input.force;
    if besides && input.action != Action::Create {
        return Err(BAD_REQUEST.failed("`ref`, `message` and `force` are for `create`", "Leave them out."));
    }
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let name = input.name.as_deref().map(TagName::read).transpose()?;
    match (input.action, name) {
        (Action::List, None) => {
            let (tags, cut) = look(cx, &repository, &Revision::all("refs/tags"))?;
            let text = text(&tags);
            Ok(Answer::with_text(Output { tags }, text).truncated(cut))
        }
        (Action::Create, Some(name)) => create(cx, &repository, &name, &input),
        (Action::Delete, Some(name)) => {
            Git::new("tag").flags(&["--delete"]).names(&[&name]).done(cx, &repository)?;
            Ok(Answer::with_text(Output { tags: Vec::new() }, format!("Deleted `{}`.", name.as_str())))
        }
        (Action::List, Some(_)) => Err(BAD_REQUEST.failed("`list` takes no `name`", "Leave it out.")),
        (Action::Create | Action::Delete, None) => Err(BAD_REQUEST.failed("`name` is missing", "Name the tag.")),
    }
}

fn create(cx: &Cx, repository: &Repository, name: &TagName, input: &Input) -> Result<Answer<Output>, Fault> {
    let revision = input.revision.as_deref().map_or_else(|| Ok(Revision::head()), Revision::one)?;
    let message = input.message.as_deref().map(Plain::message).transpose()?;
    let mut git = Git::new("tag").flags(&["--no-sign"]).flag_if(input.force, "--force");
    if let Some(message) = &message {
        git = git.flags(&["--annotate", "--cleanup=whitespace", "--file=-"]).stdin(message);
    }
    git.names(&[name, &revision]).done(cx, repository)?;
    let (tags, _) = look(cx, repository, &name.full())?;
    let at = tags.first().map_or_else(String::new, |tag| format!(" at {}", short(&tag.commit)));
    Ok(Answer::with_text(Output { tags }, format!("Tagged `{}`{at}.", name.as_str())))
}

const FORMAT: &str =
    "--format=%(refname)%00%(objectname)%00%(*objectname)%00%(creatordate:iso-strict)%00%(contents:subject)";

fn look(cx: &Cx, repository: &Repository, refs: &Revision) -> Result<(Vec<Tag>, Option<Truncated>), Fault> {
    let git = Git::new("for-each-ref").flags(&["--sort=-creatordate", FORMAT]);
    let ran = git.paths(std::slice::from_ref(refs)).done(cx, repository)?;
    let mut tags: Vec<Tag> = head(&ran.stdout).lines().filter_map(read).collect();
    let total = tags.len();
    tags.truncate(MOST);
    let cut = (total > MOST).then_some(Truncated { shown: MOST as u64, total: total as u64, unit: Unit::Items });
    Ok((tags, cut))
}

/// A line of [`FORMAT`].
fn read(line: &str) -> Option<Tag> {
    let mut fields = line.splitn(5, '\0').map(str::to_owned);
    let name = fields.next()?.strip_prefix("refs/tags/")?.to_owned();
    let (own, peeled) = (fields.next()?, fields.next()?);
    let (date, subject) = (fields.next()?, fields.next()?);
    let annotated = !peeled.is_empty();
    Some(Tag { name, commit: if annotated { peeled } else { own }, annotated, subject, date })
}

fn text(tags: &[Tag]) -> String {
    let mut text = String::new();
    for Tag { name, commit, subject, date, .. } in tags {
        let day = date.get(..10).unwrap_or(date);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {} {day} {}", visible(name), short(commit), visible(subject));
    }
    if text.is_empty() { "No tags.".to_owned() } else { text }
}
