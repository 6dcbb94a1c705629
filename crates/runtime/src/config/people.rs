//! People in the loop: the blocks `autonomy` and `approvals`, and what an agent is given to spend.

use std::{collections::BTreeMap, time::Duration};

use toolgate_contract::{ActionRegistry, AgentName, Limit, Meter, Person, Risk, Window};
use toolgate_gate::{
    Agent, ApprovalRules, Autonomy, Downgrades, ErrorRate, Preset, Silence, Sourced, Step, Tier, Timeout,
};
use toolgate_guard::url::WebUrl;

use super::{
    check::{Check, entries},
    connections::reference,
    file::{
        ApprovalsFile, AutonomyFile, BudgetFile, ChannelFile, DowngradeFile, HookFile, PresetFile, SilenceFile,
        SpendFile, StepFile, TimeoutFile,
    },
    findings::{Findings, Said},
    load::{At, Entries, WordOr},
    tighten::refuse,
    words::{parse_duration, parse_size},
};
use crate::secrets::SecretRef;

/// What one file says about autonomy.
#[derive(Debug, Default)]
pub(super) struct AutonomyLayer {
    default: Option<Said<String>>,
    presets: Vec<(Said<String>, Autonomy)>,
    error_rate: Option<Said<ErrorRate>>,
    budget_exhausted: Option<Said<Preset>>,
    security_incident: Option<Said<Preset>>,
}

/// What one file says about approvals.
#[derive(Debug, Default)]
pub(super) struct ApprovalsLayer {
    expires: Option<Duration>,
    hold: Option<Duration>,
    people: Option<Vec<String>>,
    timeout: Option<Timeout>,
    channels: Option<Vec<Channel>>,
    at_client: Option<Vec<(Said<String>, Person)>>,
}

/// How people are told that they are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// A signed request to a program of the operator's.
    Webhook {
        /// Where it listens.
        url: ChannelUrl,
        /// What requests are signed with.
        secret: SecretRef,
    },
    /// A message to a channel of Slack.
    Slack {
        /// The incoming webhook. Whoever knows it can write there.
        url: ChannelUrl,
    },
}

/// An address that may itself be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelUrl {
    /// As it is written.
    Plain(String),
    /// Kept elsewhere.
    Secret(SecretRef),
}

impl Channel {
    /// What it is called in the config.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
        }
    }

    /// The secrets it needs.
    pub fn secrets(&self) -> Vec<&SecretRef> {
        let (url, secret) = match self {
            Self::Webhook { url, secret } => (url, Some(secret)),
            Self::Slack { url } => (url, None),
        };
        let url = match url {
            ChannelUrl::Plain(_) => None,
            ChannelUrl::Secret(reference) => Some(reference),
        };
        url.into_iter().chain(secret).collect()
    }
}

/// The presets of all files, and the one for agents that name none.
#[derive(Debug, Default)]
pub(super) struct Presets {
    default: Option<Said<String>>,
    own: BTreeMap<String, Autonomy>,
}

pub(super) fn check_autonomy(cx: &mut Check<'_>, block: &AutonomyFile) -> AutonomyLayer {
    let downgrade = block.downgrade.as_ref();
    AutonomyLayer {
        default: block.default.as_ref().map(|name| cx.said(name)),
        presets: entries(&block.presets).filter_map(|(name, preset)| own_preset(cx, name, preset)).collect(),
        error_rate: downgrade.and_then(|block| error_rate(cx, block)),
        budget_exhausted: downgrade.and_then(|block| preset_word(cx, block.budget_exhausted.as_ref())),
        security_incident: downgrade.and_then(|block| preset_word(cx, block.security_incident.as_ref())),
    }
}

/// The operator's own preset. An action on both lists would be done and asked about.
fn own_preset(cx: &mut Check<'_>, name: &At<String>, preset: &PresetFile) -> Option<(Said<String>, Autonomy)> {
    let known = cx.name("preset", name)?;
    if Preset::parse(&known).is_some() {
        cx.error(name.mark, format!("`{known}` is built in"), "Choose another name.");
        return None;
    }
    let auto = preset.auto_approve.as_deref().unwrap_or_default().iter().filter_map(|entry| cx.expand(entry));
    let auto = auto.flat_map(|said| said.value).collect();
    let mut own = Autonomy { name: known, auto, human: Default::default() };
    for entry in preset.human_approval.as_deref().unwrap_or_default() {
        let Some(said) = cx.expand(entry) else { continue };
        if let Some(both) = said.value.intersection(&own.auto).next() {
            let message = format!("action `{both}` is on both lists of preset `{}`", own.name);
            cx.error(entry.mark, message, "Take it off `auto_approve` or `human_approval`.");
        }
        own.human.extend(said.value);
    }
    Some((cx.said(name), own))
}

fn error_rate(cx: &mut Check<'_>, block: &DowngradeFile) -> Option<Said<ErrorRate>> {
    let written = block.error_rate.as_ref()?;
    let over = cx.number("over", written.value.over.as_ref(), 0.0..=1.0);
    let of_last = cx.whole("of_last", written.value.of_last.as_ref(), 2..=1_000);
    let to = preset_word(cx, written.value.to.as_ref());
    let (Some(over), Some(of_last), Some(to)) = (over, of_last, to) else {
        let remedy = "Write `{over: 0.5, of_last: 20, to: supervised}`.";
        cx.error(written.mark, "`error_rate` says what share of how many calls leads where", remedy);
        return None;
    };
    let value = ErrorRate { over, of_last: usize::try_from(of_last.value).ok()?, to: to.value };
    Some(Said { value, spot: cx.spot(written.mark) })
}

fn preset_word(cx: &mut Check<'_>, word: Option<&At<String>>) -> Option<Said<Preset>> {
    let word = word?;
    let known = Preset::parse(&word.value);
    if known.is_none() {
        cx.unknown("preset", word, Preset::ALL.iter().map(|preset| preset.as_str()));
    }
    known.map(|value| Said { value, spot: cx.spot(word.mark) })
}

pub(super) fn check_approvals(cx: &mut Check<'_>, block: &ApprovalsFile) -> ApprovalsLayer {
    ApprovalsLayer {
        expires: duration(cx, "expires", block.expires.as_ref()),
        hold: duration(cx, "hold", block.hold.as_ref()),
        people: block.people.as_deref().map(|people| names(cx, people)),
        timeout: block.timeout.as_ref().and_then(|timeout| check_timeout(cx, timeout)),
        channels: block
            .channels
            .as_deref()
            .map(|channels| channels.iter().filter_map(|channel| check_channel(cx, channel)).collect()),
        at_client: block.at_client.is_some().then(|| {
            let named = entries(&block.at_client);
            named.filter_map(|(agent, person)| Some((cx.said(agent), Person::from(&*cx.person(person)?)))).collect()
        }),
    }
}

fn check_channel(cx: &mut Check<'_>, written: &At<ChannelFile>) -> Option<Channel> {
    let remedy = "Write `webhook: {url: \"https://..\", secret: \"env:NAME\"}` or `slack: {url: \"vault:NAME\"}`.";
    match &written.value {
        ChannelFile { webhook: Some(HookFile { url: Some(url), secret: Some(secret) }), slack: None } => {
            let (url, secret) = (channel_url(cx, url), reference(cx, "secret", secret));
            Some(Channel::Webhook { url: url?, secret: secret? })
        }
        ChannelFile { webhook: None, slack: Some(HookFile { url: Some(url), secret: None }) } => {
            Some(Channel::Slack { url: channel_url(cx, url)? })
        }
        _ => {
            cx.hidden_error(
                written.mark,
                "a channel is a `webhook` with `url` and `secret`, or a `slack` with `url`",
                remedy,
            );
            None
        }
    }
}

fn channel_url(cx: &mut Check<'_>, text: &At<String>) -> Option<ChannelUrl> {
    if SecretRef::is_meant(&text.value) {
        return reference(cx, "url", text).map(ChannelUrl::Secret);
    }
    match WebUrl::read(&text.value) {
        Ok(_) => Some(ChannelUrl::Plain(text.value.clone())),
        // What is wrong with it is not repeated: such addresses are often secrets.
        Err(_) => {
            cx.hidden_error(text.mark, "this is no plain `https` or `http` URL", "Write it whole, or a reference.");
            None
        }
    }
}

fn check_timeout(cx: &mut Check<'_>, written: &At<WordOr<TimeoutFile>>) -> Option<Timeout> {
    let remedy = "Write `wait`, `{deny_after: 4h}`, `{tiered: ..}` or `{escalation: [..]}`.";
    match &written.value {
        WordOr::Word(word) if word == "wait" => Some(Timeout::Wait),
        WordOr::Word(word) => {
            cx.error(written.mark, format!("unknown timeout `{word}`"), remedy);
            None
        }
        WordOr::Mapping(TimeoutFile { deny_after: Some(after), tiered: None, escalation: None }) => {
            duration(cx, "deny_after", Some(after)).map(Timeout::Deny)
        }
        WordOr::Mapping(TimeoutFile { deny_after: None, tiered: Some(tiers), escalation: None }) => {
            Some(Timeout::Tiered(check_tiers(cx, tiers)))
        }
        WordOr::Mapping(TimeoutFile { deny_after: None, tiered: None, escalation: Some(steps) })
            if !steps.is_empty() =>
        {
            Some(Timeout::Escalation(steps.iter().filter_map(|step| check_step(cx, step)).collect()))
        }
        WordOr::Mapping(_) => {
            cx.error(written.mark, "a timeout is one thing", remedy);
            None
        }
    }
}

/// What silence means at each risk. It approves nothing that is at high risk, and a file that says so is told.
fn check_tiers(cx: &mut Check<'_>, Entries(tiers): &Entries<At<SilenceFile>>) -> BTreeMap<Risk, Tier> {
    let mut checked = BTreeMap::new();
    for (name, tier) in tiers {
        let Some(risk) = Risk::parse(&name.value) else {
            cx.unknown("risk", name, Risk::ALL.iter().map(|risk| risk.as_str()));
            continue;
        };
        let then = tier.value.then.as_ref().and_then(|word| {
            let known = Silence::parse(&word.value);
            if known.is_none() {
                cx.unknown("answer", word, Silence::ALL.iter().map(|silence| silence.as_str()));
            }
            known
        });
        let after = duration(cx, "after", tier.value.after.as_ref());
        match (after, then) {
            (Some(_), Some(Silence::Approve)) if risk >= Risk::High => {
                let message = format!("silence never approves what is at `{risk}` risk");
                cx.error(name.mark, message, "Write `then: deny`, or leave the tier out to wait.");
            }
            (Some(after), Some(then)) => _ = checked.insert(risk, Tier { after, then }),
            _ => cx.error(tier.mark, "a tier says after how long and what then", "Write `{after: 4h, then: deny}`."),
        }
    }
    checked
}

fn check_step(cx: &mut Check<'_>, step: &At<StepFile>) -> Option<Step> {
    let to = names(cx, step.value.to.as_deref().unwrap_or_default());
    let after = duration(cx, "after", step.value.after.as_ref());
    match after {
        Some(after) if !to.is_empty() => Some(Step { to, after }),
        _ => {
            let remedy = "Write `{to: [ann], after: 2h}`.";
            cx.error(step.mark, "a step says who is asked and for how long", remedy);
            None
        }
    }
}

fn names(cx: &mut Check<'_>, people: &[At<String>]) -> Vec<String> {
    people.iter().filter_map(|person| cx.person(person)).collect()
}

fn duration(cx: &mut Check<'_>, key: &str, text: Option<&At<String>>) -> Option<Duration> {
    let text = text?;
    let known = parse_duration(&text.value);
    if known.is_none() {
        let message = format!("`{key}: {}` is not a duration", text.value);
        cx.error(text.mark, message, "Write a whole number with `s`, `m`, `h` or `d`, such as `4h`.");
    }
    known
}

/// What an agent is given to spend, per window.
pub(super) fn check_budget(cx: &mut Check<'_>, block: &BudgetFile) -> Vec<Said<Limit>> {
    let windows = [(Window::Task, &block.task), (Window::Day, &block.day), (Window::Ever, &block.ever)];
    let given = windows.into_iter().filter_map(|(window, given)| Some((window, given.as_ref()?)));
    given.flat_map(|(window, given)| check_spend(cx, window, given)).collect()
}

fn check_spend(cx: &mut Check<'_>, window: Window, given: &SpendFile) -> Vec<Said<Limit>> {
    let most = 0..=u64::MAX / 2;
    let calls = cx.whole("calls", given.calls.as_ref(), most.clone());
    let units = cx.whole("cost", given.cost.as_ref(), most);
    let bytes = given.bytes_out.as_ref().and_then(|text| {
        let known = parse_size(&text.value);
        if known.is_none() {
            let message = format!("`bytes_out: {}` is not a size", text.value);
            cx.error(text.mark, message, "Write a whole number with `b`, `k`, `m` or `g`, such as `50m`.");
        }
        known.map(|value| Said { value, spot: cx.spot(text.mark) })
    });
    let wall = given.wall_time.as_ref().and_then(|text| {
        let known = duration(cx, "wall_time", Some(text))?;
        Some(Said { value: u64::try_from(known.as_millis()).ok()?, spot: cx.spot(text.mark) })
    });
    let meters =
        [(Meter::Calls, calls), (Meter::Units, units), (Meter::BytesOut, bytes), (Meter::WallMs, wall)].into_iter();
    meters.filter_map(|(meter, said)| Some(said?.map(|most| Limit { window, meter, most }))).collect()
}

impl AutonomyLayer {
    pub(super) fn apply(self, presets: &mut Presets, downgrades: &mut Downgrades, findings: &Findings) {
        presets.default = self.default.or(presets.default.take());
        presets.own.extend(self.presets.into_iter().map(|(name, own)| (name.value, own)));
        if let Some(rate) = self.error_rate {
            downgrades.error_rate = Some(findings.sourced(rate));
        }
        if let Some(to) = self.budget_exhausted {
            downgrades.budget_exhausted = findings.sourced(to);
        }
        if let Some(to) = self.security_incident {
            downgrades.security_incident = findings.sourced(to);
        }
    }
}

impl ApprovalsLayer {
    pub(super) fn apply(
        self,
        rules: &mut ApprovalRules,
        hold: &mut Duration,
        channels: &mut Vec<Channel>,
        at_client: &mut Vec<(Said<String>, Person)>,
    ) {
        rules.expires = self.expires.unwrap_or(rules.expires);
        rules.timeout = self.timeout.unwrap_or_else(|| rules.timeout.clone());
        rules.people = self.people.unwrap_or_else(|| rules.people.clone());
        *hold = self.hold.unwrap_or(*hold);
        if let Some(later) = self.channels {
            *channels = later;
        }
        if let Some(later) = self.at_client {
            *at_client = later;
        }
    }
}

/// Who sits at the client of which agent, of those there are.
pub(super) fn seats(
    named: Vec<(Said<String>, Person)>,
    agents: &BTreeMap<AgentName, Agent>,
    findings: &mut Findings,
) -> BTreeMap<AgentName, Person> {
    let mut seats = BTreeMap::new();
    for (said, person) in named {
        let agent = AgentName::from(&*said.value);
        match agents.contains_key(&agent) {
            true => _ = seats.insert(agent, person),
            false => findings.unknown(&said, "agent", agents.keys().map(|agent| &*agent.0)),
        }
    }
    seats
}

impl Presets {
    /// The autonomy an agent has: the one it names, else the one for all, else everything it may do.
    pub(super) fn of(
        &self,
        named: Option<Said<String>>,
        actions: &ActionRegistry,
        findings: &mut Findings,
    ) -> Sourced<Autonomy> {
        let full = || Autonomy::preset(Preset::Full, actions);
        let Some(said) = named.or_else(|| self.default.clone()) else { return Sourced::built_in(full()) };
        let Some(value) = self.find(&said.value, actions) else {
            findings.unknown(&said, "preset", self.known());
            return Sourced::built_in(full());
        };
        Sourced { value, source: findings.source(said.spot) }
    }

    fn find(&self, name: &str, actions: &ActionRegistry) -> Option<Autonomy> {
        let built_in = Preset::parse(name).map(|preset| Autonomy::preset(preset, actions));
        built_in.or_else(|| self.own.get(name).cloned())
    }

    fn known(&self) -> impl Iterator<Item = &str> {
        Preset::ALL.iter().map(|preset| preset.as_str()).chain(self.own.keys().map(String::as_str))
    }
}

/// An untrusted file may give an agent less to do unasked: a built-in preset within what it has.
pub(super) fn tighten_autonomy(
    agent: &mut Agent,
    said: Said<String>,
    actions: &ActionRegistry,
    findings: &mut Findings,
) {
    let Some(preset) = Preset::parse(&said.value) else {
        return findings.unknown(&said, "preset", Preset::ALL.iter().map(|preset| preset.as_str()));
    };
    let wanted = Autonomy::preset(preset, actions);
    if !wanted.is_within(&agent.autonomy.value) {
        return refuse(
            said.spot,
            &format!("autonomy `{preset}` where `{}` holds", agent.autonomy.value.name),
            findings,
        );
    }
    agent.autonomy = Sourced { value: wanted, source: findings.source(said.spot) };
}

/// An untrusted file may give an agent less to spend.
pub(super) fn tighten_budget(agent: &mut Agent, limits: Vec<Said<Limit>>, findings: &Findings) {
    agent.budget.extend(limits.into_iter().map(|limit| findings.sourced(limit)));
}

/// Replaces what was given before, meter by meter.
pub(super) fn add_budget(held: &mut Vec<Said<Limit>>, later: Vec<Said<Limit>>) {
    let same = |a: &Limit, b: &Limit| (a.window, a.meter) == (b.window, b.meter);
    held.retain(|old| !later.iter().any(|new| same(&old.value, &new.value)));
    held.extend(later);
}
