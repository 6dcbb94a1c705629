//! Version control: git, in the call's room.
//!
//! A tool here says what it wants of git in typed parts (`command.rs`, `name.rs`), git runs on a repository of the workspace
//! without knowing that repository's config (`repository.rs`, `config.rs`), and what it prints for programs is read into
//! types. Other repositories are reached by an address that was read and judged before (`remote.rs`).

mod changes;
mod command;
mod config;
mod fault;
mod name;
mod remote;
mod repository;
#[cfg(test)]
mod scene;
mod submodules;

pub(crate) mod blame;
pub(crate) mod branch;
pub(crate) mod clone;
pub(crate) mod commit;
pub(crate) mod diff;
pub(crate) mod fetch;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod show;
pub(crate) mod stash;
pub(crate) mod status;
pub(crate) mod tag;

use std::time::Duration;

use toolgate_contract::{Effect, EffectKind, Files, Needs, Network};

/// What a tool needs that looks at a repository.
const LOOKS: Needs = Needs { files: Files::Read, exec: true, ..Needs::NOTHING };
/// What a tool needs that changes one.
const CHANGES: Needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
/// What a tool needs that talks to another one.
const TALKS: Needs = Needs { exec: true, network: Network::Fenced, secrets: true, ..Needs::WRITE_FILES };

/// How long a call may take that runs a few gits here.
const TIMEOUT: Duration = Duration::from_secs(command::LOCAL_SECONDS + 60);
/// How long a call may take that talks to a remote.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(command::REMOTE_SECONDS + 120);

/// How many calls of one tool run at once.
const AT_ONCE: u32 = 16;

/// How many entries a list has at most.
const MOST: usize = 500;

/// An effect on the files of a repository.
fn on(kind: EffectKind, repository: Option<&str>) -> Effect {
    Effect::on(kind, repository.unwrap_or("."))
}

fn origin() -> String {
    "origin".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_contract::{ActionType, Category};

    use super::*;
    use crate::Tool;

    /// What a call amounts to, and what it does.
    fn check(tool: fn() -> Tool, arguments: Value, action: ActionType, expected: &[(EffectKind, Option<&str>)]) {
        let tool = tool();
        assert_eq!(tool.def.category, Category::VersionControl);
        let acts = tool.reading.action(&arguments).unwrap().unwrap_or_else(|| tool.def.action.clone());
        let effects = tool.reading.effects(&arguments).unwrap();
        let effects: Vec<_> = effects.iter().map(|effect| (effect.kind, effect.target.as_deref())).collect();
        assert_eq!((acts, effects.as_slice()), (action, expected), "{} {arguments}", tool.def.name);
    }

    #[test]
    fn looking_changes_nothing() {
        let read = (EffectKind::FsRead, Some("."));
        for (tool, arguments) in [
            (status::tool as fn() -> Tool, json!({})),
            (log::tool, json!({})),
            (diff::tool, json!({})),
            (show::tool, json!({})),
            (blame::tool, json!({ "path": "a" })),
        ] {
            assert_eq!(tool().def.needs, LOOKS);
            check(tool, arguments, ActionType::VcsRead, &[read]);
        }
        for tool in [branch::tool, tag::tool, stash::tool] {
            check(tool, json!({ "action": "list" }), ActionType::VcsRead, &[read]);
        }
        check(status::tool, json!({ "repository": "x" }), ActionType::VcsRead, &[(EffectKind::FsRead, Some("x"))]);
    }

    #[test]
    fn changing_is_told_and_what_is_lost_by_it_is_told_apart() {
        let write = (EffectKind::FsWrite, Some("."));
        let (moved, gone) = ((EffectKind::RewriteHistory, Some("x")), (EffectKind::DeleteBranch, Some("x")));
        for tool in [branch::tool as fn() -> Tool, tag::tool] {
            let call = |action: &str, force: bool| json!({ "action": action, "name": "x", "force": force });
            check(tool, call("create", false), ActionType::VcsBranch, &[write]);
            check(tool, call("create", true), ActionType::VcsBranch, &[write, moved]);
            check(tool, call("delete", false), ActionType::VcsBranch, &[write, gone]);
        }
        check(branch::tool, json!({ "action": "switch", "name": "x" }), ActionType::VcsBranch, &[write]);
        for action in ["push", "pop", "apply", "drop"] {
            check(stash::tool, json!({ "action": action }), ActionType::VcsBranch, &[write]);
        }
        check(commit::tool, json!({ "message": "x" }), ActionType::VcsCommit, &[write]);
        let rewritten = (EffectKind::RewriteHistory, None);
        check(commit::tool, json!({ "amend": true }), ActionType::VcsCommit, &[write, rewritten]);
        check(merge::tool, json!({ "ref": "x" }), ActionType::VcsCommit, &[write]);
    }

    #[test]
    fn talking_to_others_is_told_with_whom_where_the_call_says_so() {
        let (write, talk) = ((EffectKind::FsWrite, Some(".")), (EffectKind::Network, None));
        check(fetch::tool, json!({}), ActionType::VcsRead, &[write, talk]);
        check(pull::tool, json!({}), ActionType::VcsCommit, &[write, talk]);
        let rewritten = (EffectKind::RewriteHistory, None);
        check(pull::tool, json!({ "mode": "rebase" }), ActionType::VcsCommit, &[write, talk, rewritten]);
        check(push::tool, json!({}), ActionType::VcsPush, &[write, talk]);
        let (moved, gone) = ((EffectKind::RewriteHistory, Some("x")), (EffectKind::DeleteBranch, Some("x")));
        let forced = json!({ "branch": "x", "force": "with_lease" });
        check(push::tool, forced, ActionType::VcsPush, &[write, talk, moved]);
        check(push::tool, json!({ "branch": "x", "delete": true }), ActionType::VcsPush, &[write, talk, gone]);
        for (url, directory, target) in [
            ("https://example.org/team/x.git", "x", Some("example.org:443")),
            ("ssh://git@example.org:2222/x", "x", Some("example.org:2222")),
            ("ext::x", ".", None),
        ] {
            let effects = [(EffectKind::FsWrite, Some(directory)), (EffectKind::Network, target)];
            check(clone::tool, json!({ "url": url }), ActionType::VcsRead, &effects);
        }
    }
}
