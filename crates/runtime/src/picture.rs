//! What a person looks at before answering: the exact command, what would change in which file, what is at stake in words.
//!
//! A picture never stands in the way of its question: what cannot be shown is said, with the reason. It shows things as
//! they are when the question is filed.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use toolgate_contract::{AgentName, CommandForm, CommandLine, CostTier, Effect, EffectKind, Fault, Files};
use toolgate_gate::{Origin, Policy, flow_asks};
use toolgate_guard::{flow::Speaker, shell::ir::visible};
use toolgate_tools::{Cx, Hands, StopFlag};

use crate::{approvals::STEERED, catalog::Entry, fence::Fence, house::House, invoke::Meaning};

/// How long a tool may look at what it would change.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest command line that is shown whole.
const LONGEST: usize = 16 * 1024;
/// At most so many sources are named.
const SOURCES: usize = 20;

/// What there is to see of a call. Credentials are still in it.
pub(crate) async fn picture(
    house: &House,
    agent: &AgentName,
    entry: &Entry,
    input: &Value,
    meaning: &Meaning,
) -> Value {
    let mut picture = Map::new();
    if let Ok(Some(line)) = entry.tool.reading.command(input) {
        picture.insert("command".to_owned(), command(&line).into());
    }
    match difference(house, agent, entry, input).await {
        None => {}
        Some(Ok(diff)) => _ = picture.insert("diff".to_owned(), diff.into()),
        Some(Err(fault)) => _ = picture.insert("no_diff".to_owned(), visible(&fault.message).into()),
    }
    picture.insert("summary".to_owned(), json!(summary(&meaning.effects, entry.tool.def.cost)));
    Value::Object(picture)
}

/// Who said the words of a call, and whether that is why people are asked.
pub(crate) fn labels(policy: &Policy, tool: &str, origin: Option<&Origin>) -> Vec<String> {
    let Some(origin) = origin else { return Vec::new() };
    let said = origin.trace.words.iter().filter_map(|word| match &word.speaker {
        Speaker::User => Some("user".to_owned()),
        Speaker::Person => Some("person".to_owned()),
        Speaker::Field { source } | Speaker::Prose { source } => Some(source.clone()),
        Speaker::Nobody => None,
    });
    let sources: BTreeSet<String> = said.collect();
    let steered = !flow_asks(policy, tool, origin).is_empty();
    let steered = steered.then(|| STEERED.to_owned());
    // Words of a source are somebody else's; none of them may pass for the label.
    steered.into_iter().chain(sources.into_iter().filter(|source| source != STEERED).take(SOURCES)).collect()
}

/// The words that would be started, each as it is: what a shell would read otherwise is quoted, what nobody sees is spelt
/// out.
fn command(line: &CommandLine) -> String {
    let words = match &line.form {
        CommandForm::Argv(argv) => argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        CommandForm::Script(text) | CommandForm::Typed(text) => lines(text),
    };
    let env = line.env.iter().map(|(name, value)| format!("{}={} ", visible(name), quoted(value)));
    let cwd = line.cwd.as_ref().map(|cwd| format!("cd {} && ", quoted(cwd)));
    let whole: String = cwd.into_iter().chain(env).chain([words]).collect();
    if whole.len() <= LONGEST {
        return whole;
    }
    let shown = whole.floor_char_boundary(LONGEST);
    format!("{}\n[not all is shown: {} more bytes]", &whole[..shown], whole.len() - shown)
}

/// A script keeps its lines.
fn lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", visible(word).replace('\'', r"'\''")),
    }
}

/// What the tool says it would change; none for a tool that cannot say.
async fn difference(house: &House, agent: &AgentName, entry: &Entry, input: &Value) -> Option<Result<String, Fault>> {
    let show = entry.tool.preview.clone()?;
    let none = |why: &str| Some(Err(Fault::failed("no_preview", why, "Look at the arguments.")));
    let Ok(slot) = entry.slots.clone().try_acquire_owned() else {
        return none("too many calls of the tool are running");
    };
    // What a person has not agreed to yet is not looked into for them either, so that no file is excepted.
    let workspace = match (house.directories.get(agent), house.agent(agent)) {
        (Some(directories), Ok(agent)) if entry.tool.def.needs.files != Files::None => {
            let fence = Fence::of(house.policy(), agent, &[], &house.open_to(agent));
            Some(fence.handle(directories, agent.constraints.file_system.value))
        }
        _ => None,
    };
    let stop = StopFlag::default();
    let cx = Cx::new(Hands {
        finder: None,
        own_calls: None,
        programs: None,
        web: None,
        workspace: workspace.map(|workspace| workspace.with_access(Files::Read)),
        clock: house.clock.clone(),
        progress: None,
        remarks: None,
        stop: stop.clone(),
        timeout: PATIENCE,
        caps: entry.tool.def.caps,
        inquiries: toolgate_tools::Inquiries::default(),
        key: None,
    });
    let input = input.clone();
    let job = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        show(&cx, input)
    });
    match tokio::time::timeout(PATIENCE, job).await {
        Ok(Ok(shown)) => Some(shown),
        Ok(Err(_)) => none("the tool broke down when it was asked"),
        Err(_) => {
            stop.time_out();
            none("the tool took too long to say")
        }
    }
}

/// Effects in words, and what it costs.
fn summary(effects: &[Effect], cost: CostTier) -> Vec<String> {
    let effect = |effect: &Effect| {
        let (does, unnamed) = words(effect.kind);
        match &effect.target {
            Some(target) => format!("{does} `{}`", visible(target)),
            None => format!("{does} {unnamed}"),
        }
    };
    let costs = match cost {
        CostTier::Cheap => None,
        CostTier::Medium => Some("costs time, or a request to others".to_owned()),
        CostTier::Expensive => Some("costs minutes or money".to_owned()),
    };
    effects.iter().map(effect).chain(costs).collect()
}

/// What it does, and to what where the call names nothing.
fn words(kind: EffectKind) -> (&'static str, &'static str) {
    match kind {
        EffectKind::FsRead => ("reads", "files"),
        EffectKind::FsWrite => ("makes or changes", "files"),
        EffectKind::FsDelete => ("deletes, for good,", "files"),
        EffectKind::Exec => ("starts", "a program"),
        EffectKind::Network => ("talks to", "another machine"),
        EffectKind::Secret => ("uses the credentials of", "somebody"),
        EffectKind::RewriteHistory => ("rewrites history others may have, of", "a repository"),
        EffectKind::DeleteBranch => ("removes the branch or tag", "that it names"),
        EffectKind::ExternalMessage => ("tells others at", "another place"),
        EffectKind::Financial => ("spends money at", "some place"),
        EffectKind::Privileged => ("uses rights the agent does not have by itself, on", "this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_to_the_letter() {
        let check = |form: CommandForm, expected: &str| assert_eq!(command(&CommandLine::new(form)), expected);
        let argv = |words: &[&str]| CommandForm::Argv(words.iter().map(|word| (*word).to_owned()).collect());
        check(argv(&["rm", "-r", "a b"]), "rm -r 'a b'");
        check(argv(&["echo", "", "it's", "$HOME"]), r"echo '' 'it'\''s' '$HOME'");
        check(argv(&["cat", "a\u{202e}txt.sh", "b\n"]), r"cat 'a\u{202e}txt.sh' 'b\u{a}'");
        check(CommandForm::Script("a\u{200b}\nb\u{1b}[8m".into()), "a\\u{200b}\nb\\u{1b}[8m");
        let env = [("A".to_owned(), "1 2".to_owned())].into();
        let line = CommandLine { form: argv(&["ls"]), cwd: Some("x/y".into()), env };
        assert_eq!(command(&line), "cd x/y && A='1 2' ls");
        let long = command(&CommandLine::new(CommandForm::Script("x".repeat(LONGEST + 5))));
        assert!(long.ends_with("\n[not all is shown: 5 more bytes]"));
    }

    #[test]
    fn effects_are_told_in_words() {
        let effects =
            [Effect::on(EffectKind::FsDelete, "a\u{200b}"), Effect { kind: EffectKind::Network, target: None }];
        let expected =
            ["deletes, for good, `a\\u{200b}`", "talks to another machine", "costs time, or a request to others"];
        assert_eq!(summary(&effects, CostTier::Medium), expected);
    }
}
