//! Commands: what the guard reads in them, and what binds the agent that would run them.
//!
//! Three things speak: the table of the guard, the operator's own rules, and the agent's profile. An agent that has none
//! of its own gets one from its terminal constraint: `restricted_commands` is the profile for programming, and with
//! `full` the table and the operator's rules are all that speaks. They decide who is asked; what a command can do is
//! decided by the room.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::Serialize;
use toolgate_contract::{ActionType, CommandForm, CommandLine, Effect, EffectKind, Reason, Risk, SourceLine, Verdict};
use toolgate_guard::shell::{
    self, Place, Reading, UserRules,
    ir::{Command, Word, visible},
    policy::{Bounds, Judgement, Origin, Spoke},
    profiles::Profile,
};

use crate::{Agent, GitLevel, Policy, TerminalMode};

/// Most reasons that are told for one command; a person reads no more.
const MAX_REASONS: usize = 8;

/// Most effects of one kind that are told one by one.
const MAX_EFFECTS: usize = 64;

/// The operator's own rules about commands, each with the line it is written on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OwnRules {
    /// The rules.
    pub rules: Arc<UserRules>,
    /// Their lines, by name.
    pub sources: BTreeMap<String, SourceLine>,
}

/// What a command amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// What it would do, besides starting a program.
    pub effects: Vec<Effect>,
    /// What else it amounts to: a push is a push, whoever starts git.
    pub also: Vec<ActionType>,
    /// How far it takes git.
    pub git: GitLevel,
    /// How much is at stake.
    pub risk: Risk,
    /// What was made of it.
    pub judgement: Judgement,
}

/// Reads a command that would run for `agent` in `place`.
pub fn read_command(policy: &Policy, agent: &Agent, line: &CommandLine, place: &Place) -> Meant {
    let place = line.cwd.as_deref().map_or_else(|| place.clone(), |cwd| place.starting_in(cwd));
    let profile = profile(agent).map(|(profile, _)| profile);
    let prefixes = profile.as_ref().map(|profile| profile.rules());
    let bounds = Bounds { prefixes: prefixes.as_deref(), own: &policy.commands.rules };
    let (reading, judgement) = match &line.form {
        CommandForm::Argv(argv) => {
            let reading = shell::read_argv(argv, &line.env, &place);
            let judgement = bounds.judge(&reading);
            (reading, judgement)
        }
        CommandForm::Script(script) => {
            let reading = shell::read_with(script, &line.env, &place);
            let judgement = bounds.judge(&reading);
            (reading, judgement)
        }
        CommandForm::Typed(text) => {
            let reading = shell::read(text, &place);
            let judgement = bounds.judge_typed(text, &reading);
            (reading, judgement)
        }
    };
    let risk = reading.risk.max(judgement.own_risk());
    let git = reading.commands.iter().map(git_level).max().unwrap_or(GitLevel::LocalOnly);
    let also = if git == GitLevel::Full { vec![ActionType::VcsPush] } else { Vec::new() };
    Meant { effects: effects(&reading), also, git, risk, judgement }
}

/// How far one command takes git. What a git does whose first word is not known could be a push.
fn git_level(command: &Command) -> GitLevel {
    if command.program() != "git" {
        return GitLevel::LocalOnly;
    }
    let mut operands = command.operands().map(Word::literal);
    let (verb, next) = (operands.next().unwrap_or(Some("")), operands.next().unwrap_or(Some("")));
    match verb {
        None | Some("push" | "send-pack" | "send-email" | "http-push") => GitLevel::Full,
        Some("clone" | "fetch" | "fetch-pack" | "pull" | "ls-remote" | "submodule") => GitLevel::ReadAndBranch,
        Some("remote") if matches!(next, None | Some("update" | "show" | "prune" | "set-head")) => {
            GitLevel::ReadAndBranch
        }
        Some("archive") if command.has_long("--remote") => GitLevel::ReadAndBranch,
        Some(_) => GitLevel::LocalOnly,
    }
}

/// The profile that binds an agent, and the line that says so.
fn profile(agent: &Agent) -> Option<(Cow<'_, Profile>, &SourceLine)> {
    if let Some(profile) = &agent.profile {
        return Some((Cow::Borrowed(&profile.value), &profile.source));
    }
    match agent.constraints.terminal.value {
        TerminalMode::RestrictedCommands => Some((Cow::Owned(Profile::Coder), &agent.constraints.terminal.source)),
        TerminalMode::None | TerminalMode::Full => None,
    }
}

/// The effects in the words of the contract. Reading a secret is reading, and where a path lies is said by the path.
fn effects(reading: &Reading) -> Vec<Effect> {
    let known = |effect: &shell::Effect| {
        let kind = match effect.kind {
            shell::EffectKind::FsRead | shell::EffectKind::ReadsSecret => EffectKind::FsRead,
            shell::EffectKind::FsWrite => EffectKind::FsWrite,
            shell::EffectKind::FsDelete => EffectKind::FsDelete,
            shell::EffectKind::Exec => EffectKind::Exec,
            shell::EffectKind::Network => EffectKind::Network,
            shell::EffectKind::Privileged => EffectKind::Privileged,
            shell::EffectKind::OutsideWorkspace => return None,
        };
        let target = effect.target.as_deref().map(|target| visible(reading.place.shown(target)));
        Some(Effect { kind, target })
    };
    let mut effects: Vec<Effect> = reading.effects.iter().filter_map(known).collect();
    effects.sort();
    effects.dedup();
    effects.chunk_by(|a, b| a.kind == b.kind).flat_map(summed_up).collect()
}

/// Effects of one kind. Of very many only the kind is told: nobody reads the list, and it is as long as a script.
fn summed_up(effects: &[Effect]) -> Vec<Effect> {
    match effects {
        [first, ..] if effects.len() > MAX_EFFECTS => vec![Effect { kind: first.kind, target: None }],
        few => few.to_vec(),
    }
}

/// What spoke for this verdict, in sentences.
pub(crate) fn reasons(policy: &Policy, agent: &Agent, judgement: Option<&Judgement>, verdict: Verdict) -> Vec<Reason> {
    let spoke = judgement.into_iter().flat_map(|judgement| &judgement.spoke);
    spoke.filter(|spoke| spoke.verdict == verdict).take(MAX_REASONS).map(|spoke| reason(policy, agent, spoke)).collect()
}

fn reason(policy: &Policy, agent: &Agent, spoke: &Spoke) -> Reason {
    let meaning = visible(&spoke.meaning);
    let about = match spoke.about.as_str() {
        "" => "the command".to_owned(),
        about => format!("`{}`", visible(about)),
    };
    let built_in = SourceLine::built_in();
    let (rule, text, source) = match spoke.origin {
        Origin::Table => ("command_rule", format!("{about} hits rule `{}`: {meaning}", spoke.rule), built_in),
        Origin::Doubt => {
            ("command_unclear", format!("the command is not certain (`{}`): {meaning}", spoke.rule), built_in)
        }
        Origin::Own => {
            let source = policy.commands.sources.get(&spoke.rule).cloned().unwrap_or(built_in);
            ("command_own_rule", format!("{about} hits rule `{}`: {meaning}", spoke.rule), source)
        }
        Origin::Prefixes => {
            let (name, source) =
                profile(agent).map_or(("none", built_in), |(profile, source)| (profile.name(), source.clone()));
            ("command_profile", format!("profile `{name}`, rule `{}`: {about}: {meaning}", spoke.rule), source)
        }
    };
    Reason { rule, text, source }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{AgentName, Level};
    use toolgate_guard::shell::{UserRule, rules::Severity};

    use super::*;
    use crate::Sourced;

    fn agent(level: Level) -> Agent {
        Agent::at(AgentName::from("a"), Sourced::built_in(level))
    }

    fn script(text: &str) -> CommandLine {
        CommandLine::new(CommandForm::Script(text.into()))
    }

    fn meant(agent: &Agent, line: &CommandLine) -> Meant {
        read_command(&Policy::built_in(), agent, line, &Place::at("/srv/space", "/home/agent"))
    }

    fn verdict(agent: &Agent, line: &CommandLine) -> Verdict {
        meant(agent, line).judgement.verdict
    }

    #[test]
    fn the_terminal_constraint_chooses_a_profile_where_the_agent_has_none() {
        for (level, unknown, hit) in [
            (Level::Standard, Verdict::Ask, Verdict::Deny),
            (Level::Elevated, Verdict::Allow, Verdict::Deny),
            (Level::Sandboxed, Verdict::Allow, Verdict::Deny),
        ] {
            let agent = agent(level);
            assert_eq!(verdict(&agent, &script("terraform plan")), unknown, "{level}");
            assert_eq!(verdict(&agent, &script("rm -rf /")), hit, "{level}");
            assert_eq!(verdict(&agent, &script("cargo test")), Verdict::Allow, "{level}");
        }
    }

    #[test]
    fn a_profile_of_its_own_binds_an_agent_at_every_level() {
        for level in [Level::Sandboxed, Level::Standard, Level::Elevated] {
            let agent = Agent { profile: Some(Sourced::built_in(Profile::ReadOnly)), ..agent(level) };
            assert_eq!(verdict(&agent, &script("cargo test")), Verdict::Deny, "{level}");
            assert_eq!(verdict(&agent, &script("git log")), Verdict::Allow, "{level}");
        }
    }

    #[test]
    fn each_form_is_read_as_what_it_is() {
        let agent = agent(Level::Standard);
        let argv =
            |words: &[&str]| CommandLine::new(CommandForm::Argv(words.iter().map(|word| (*word).to_owned()).collect()));
        let typed = |text: &str| CommandLine::new(CommandForm::Typed(text.into()));
        assert_eq!(verdict(&agent, &argv(&["echo", "$(terraform apply)"])), Verdict::Allow);
        assert_eq!(verdict(&agent, &script("echo $(terraform apply)")), Verdict::Ask);
        assert_eq!(verdict(&agent, &script("ls")), Verdict::Allow);
        assert_eq!(verdict(&agent, &typed("ls")), Verdict::Ask);
        assert_eq!(verdict(&agent, &typed("ls\n")), Verdict::Allow);
        let set = CommandLine { env: [("GIT_PAGER".to_owned(), "x".to_owned())].into(), ..argv(&["git", "log"]) };
        let free = self::agent(Level::Elevated);
        assert_eq!(verdict(&free, &set), Verdict::Ask);
        assert_eq!(verdict(&free, &CommandLine { form: script("git log").form, ..set.clone() }), Verdict::Ask);
        let named = CommandLine { env: [("X".to_owned(), "/".to_owned())].into(), ..script("rm -rf $X") };
        assert_eq!(verdict(&free, &named), Verdict::Deny);
    }

    #[test]
    fn effects_are_told_from_the_workspace_and_very_many_are_summed_up() {
        let agent = agent(Level::Elevated);
        let line = CommandLine { cwd: Some("sub".into()), ..script("rm -r build ../x; cat .env /etc/hosts; sudo -v") };
        let Meant { effects, risk, .. } = meant(&agent, &line);
        let expected = [
            Effect::on(EffectKind::FsRead, "/etc/hosts"),
            Effect::on(EffectKind::FsRead, "sub/.env"),
            Effect::on(EffectKind::FsDelete, "sub/build"),
            Effect::on(EffectKind::FsDelete, "x"),
            Effect::on(EffectKind::Exec, "sudo"),
            Effect::on(EffectKind::Privileged, "sudo"),
        ];
        assert_eq!((effects.as_slice(), risk), (expected.as_slice(), Risk::Critical));
        let most: String = (0..MAX_EFFECTS).map(|n| format!(" f{n}")).collect();
        assert_eq!(meant(&agent, &script(&format!("rm{most}"))).effects.len(), MAX_EFFECTS);
        let many: String = (0..=MAX_EFFECTS).map(|n| format!(" f{n}")).collect();
        let effects = meant(&agent, &script(&format!("rm{many}; touch a"))).effects;
        assert_eq!(
            effects,
            [Effect::on(EffectKind::FsWrite, "a"), Effect { kind: EffectKind::FsDelete, target: None },]
        );
    }

    #[test]
    fn a_push_is_a_push_whoever_starts_git() {
        let agent = agent(Level::Elevated);
        let told = |text: &str| {
            let meant = meant(&agent, &script(text));
            (meant.git, meant.also)
        };
        for push in ["git push", "cd x && git -C y push origin main", "bash -c 'git push'", "git $verb", "env git push"]
        {
            assert_eq!(told(push), (GitLevel::Full, vec![ActionType::VcsPush]), "{push}");
        }
        for fetch in [
            "git fetch",
            "git clone https://e.org/x",
            "git log; git pull",
            "git remote update",
            "git archive --remote=e.org HEAD",
        ] {
            assert_eq!(told(fetch), (GitLevel::ReadAndBranch, Vec::new()), "{fetch}");
        }
        for local in
            ["git log", "git archive HEAD", "git commit -m push", "git remote -v", "git", "echo git push", "ls"]
        {
            assert_eq!(told(local), (GitLevel::LocalOnly, Vec::new()), "{local}");
        }
    }

    #[test]
    fn a_reason_names_the_rule_and_the_line() {
        let line = SourceLine { file: "toolgate.yaml".into(), line: 7 };
        let own = UserRule {
            id: "no_deploy".into(),
            pattern: "deploy*".into(),
            severity: Severity::Deny,
            reason: "a person deploys".into(),
            must: vec!["deploy".into()],
            must_not: Vec::new(),
        };
        let commands = OwnRules {
            rules: Arc::new(UserRules::load(vec![own]).unwrap()),
            sources: [("no_deploy".to_owned(), line.clone())].into(),
        };
        let policy = Policy { commands, ..Policy::built_in() };
        let agent = agent(Level::Standard);
        let place = Place::at("/srv/space", "/home/agent");
        let told = |script_text: &str, verdict| {
            let meant = read_command(&policy, &agent, &script(script_text), &place);
            let reasons = reasons(&policy, &agent, Some(&meant.judgement), verdict);
            reasons.into_iter().map(|r| (r.rule, r.text, r.source)).collect::<Vec<_>>()
        };
        let risk = |text: &str| read_command(&policy, &agent, &script(text), &place).risk;
        assert_eq!((risk("deploy now"), risk("ls")), (Risk::Critical, Risk::Low));
        let built_in = SourceLine::built_in();
        assert_eq!(
            told("deploy now", Verdict::Deny),
            [("command_own_rule", "`deploy now` hits rule `no_deploy`: a person deploys".to_owned(), line)]
        );
        assert_eq!(
            told("rm -rf /", Verdict::Deny),
            [(
                "command_rule",
                "`rm -rf /` hits rule `delete_system`: removes the root, a home or a directory of the system"
                    .to_owned(),
                built_in.clone()
            )]
        );
        assert_eq!(
            told("helm \u{200b}x", Verdict::Ask),
            [
                (
                    "command_unclear",
                    "the command is not certain (`odd_character`): it holds \\u{200b}, which is not seen".to_owned(),
                    built_in.clone()
                ),
                (
                    "command_profile",
                    "profile `coder`, rule `unparsable`: the command: it cannot be read for certain".to_owned(),
                    built_in.clone()
                ),
                (
                    "command_profile",
                    "profile `coder`, rule `default`: `helm \\u{200b}x`: is not among the commands that may run"
                        .to_owned(),
                    built_in
                ),
            ]
        );
        let long = told(&format!("rm -rf / {}", "x".repeat(10_000)), Verdict::Deny);
        assert!(long[0].1.len() < 600, "{long:?}");
    }
}
