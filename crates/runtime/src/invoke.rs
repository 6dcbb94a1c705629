//! The road: one call from arrival to answer.
//!
//! Every caller (MCP, command line, library) takes it; there is no second one. [`walk`] reads from the first step to
//! the last, each step takes what the step before returned, and every early return is a stop with a code, a sentence
//! and a remedy. Whatever happens, [`invoke`] writes the end.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::{sync::OwnedSemaphorePermit, task::JoinError};
use toolgate_contract::{
    ActionType, AgentName, ApprovalId, Asked, CALL_TOOL, Call, CallId, CostTier, Digest, Effect, EffectKind, End,
    Fault, FaultKind, Files, Finding, Ground, Intent, Network, Note, Outcome, Person, Principal, Question, Raw, Reason,
    Record, Resolution, Risk, SafetyClass, Status, digest, nearest,
};
use toolgate_gate::{
    Agent, Asking, ConnectionTerms, Decision, GitLevel, Origin, Permit, Request, Terrain, Wanted, decide, read_command,
};
use toolgate_guard::{clean as hidden, json, owasp, shell::policy::Judgement};
use toolgate_store::state::Ticket;
use toolgate_tools::{
    Cx, Finder, Hands, Inquiries, Output, OwnCalls, Progress, ProgressSink, Reconciled, Run, StopFlag, Waits, Work,
};

use crate::{
    Whereabouts,
    approvals::{self, Patience, Unsettled},
    catalog::{Catalog, Entry},
    clean::{Cleaned, clean, found, redact_value},
    config::Place,
    conversation::{Deed, Seen, sources_again},
    definitions::relay,
    disclosure::AgentFinder,
    fence::Fence,
    house::{Fatal, House, Watch},
    inquiries::{Waiting, inquiries},
    once::{self, AtWork, Claim, Kept, Known},
    own_calls::AgentCalls,
    picture,
    pulse::Pulse,
    remarks,
    rooms::{Ledger, Maker, Tenant},
    secrets::Broker,
};

/// The most tools that are named to somebody who asks for another one.
const MOST_NAMED: usize = 60;
/// The code of a call that may still take effect.
const EFFECT_UNKNOWN: &str = "effect_unknown";

/// How a call ended, and whether it took something down that others need.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) fatal: Option<Fatal>,
}

/// One call, from arrival to answer.
pub(crate) async fn invoke(house: Arc<House>, call: Call, watch: Watch) -> Ended {
    let started = Instant::now();
    let _at_work = house.desks.at_work(&call.agent, &call.tool);
    let arguments = plain_arguments(&house, call.arguments.clone());
    let mut trip = Trip::start(&call, arguments);
    let walked = walk(&house, &call, &watch, &mut trip).await.map_err(|stop| stop.without_secrets(&house));
    let untouched = matches!(&walked, Err(Stop::Fault(fault)) if fault.untouched);
    let (mut outcome, raw, mut fatal) = answer(&call, &trip, walked);
    outcome.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);

    if let (Some(ticket), Some(effects)) = (trip.ticket.take(), &house.effects) {
        let ended = once::Ended::of(&outcome, trip.ran, untouched);
        if let Err(fault) = Box::pin(effects.complete(ticket, ended, &outcome)).await {
            outcome = unrecorded(outcome, true, fault);
        }
    }
    if !trip.admitted {
        trip.record.arguments = gist(trip.record.arguments);
    }
    let shared = Arc::new(outcome);
    let end = End { at_ms: house.now_ms(), record: trip.record, outcome: shared.clone(), raw, begun: trip.begun };
    let recorded = house.store.end(end).await;
    // A store is done with it by now, and gives it back.
    let mut outcome = Arc::unwrap_or_clone(shared);
    if let Err(error) = recorded {
        fatal = fatal.or_else(|| Some(Fatal::StoreLost(error.to_string())));
        outcome = unrecorded(outcome, trip.begun, error.into());
    }
    if let Ok(agent) = house.agent(&call.agent)
        && let Err(error) = house.means.ended(house.policy(), agent, &call, &outcome).await
    {
        tracing::warn!(%error, "how a call ended could not be counted");
    }
    // Whoever looks for a tool has not worked yet.
    if let Some(entry) = house.catalog().get(&call.tool).filter(|entry| !entry.finds_tools()) {
        house.trust.saw(&call.agent, entry.tool.def.category, &outcome).await;
    }
    Ended { outcome, fatal }
}

/// The call that is meant: one of `call_tool` is one of the tool it names, from here on and in the record. Where the agent
/// may not use `call_tool`, its arguments are wrong or it names itself, it stays what it is, and goes down the road as that.
pub(crate) fn meant(house: &House, call: Call) -> Call {
    if call.tool != CALL_TOOL || !matches!(preview(house, &call), Ok((_, Decision::Allow(..)))) {
        return call;
    }
    match call.arguments.get("name").and_then(Value::as_str).filter(|name| *name != CALL_TOOL) {
        Some(tool) => {
            let arguments = call.arguments.get("arguments").cloned().unwrap_or_else(|| json!({}));
            Call { tool: tool.to_owned(), arguments, ..call }
        }
        None => call,
    }
}

/// Arguments nobody admitted are not worth the disk an agent could fill with them: of large ones the record keeps the
/// hash, the size and how they begin.
fn gist(arguments: Value) -> Value {
    const MOST: usize = 16 * 1024;
    let text = arguments.to_string();
    if text.len() <= MOST {
        return arguments;
    }
    let head = &text[..text.floor_char_boundary(1024)];
    json!({ "not_admitted": { "bytes": text.len(), "sha256": Digest::of(text.as_bytes()), "begins": head } })
}

/// What the steps leave behind for the record.
struct Trip {
    record: Record,
    /// The arguments passed the caps and the schema.
    admitted: bool,
    /// An intent is durable: from here on an effect may have happened.
    begun: bool,
    enforced: Vec<String>,
    labels: Vec<String>,
    /// Connections a room was refused, and orders in what a fault quotes.
    findings: Vec<Finding>,
    /// What its server asked of whoever called.
    asked: Vec<Asked>,
    /// The right to try an effect that happens once.
    ticket: Option<Ticket>,
    /// The body was started.
    ran: bool,
    /// It happened before.
    replayed: bool,
    /// The server whose tool it is says that the tool failed.
    tool_failed: bool,
}

async fn walk(house: &Arc<House>, call: &Call, watch: &Watch, trip: &mut Trip) -> Result<Cleaned, Stop> {
    house.trust.meet(&call.agent).await?;
    let catalog = house.catalog();
    let (agent, entry) = find(house, &catalog, call)?;
    let held = house.means.hold(house.policy(), agent).await.map_err(Fault::from)?;
    let agent = &*held;
    may_know(house, agent, entry)?;
    trip.record.definition = Some(entry.digest);

    let input = admit_input(house, entry, &call.arguments)?;
    trip.admitted = true;
    let claim = Claim::of(call, entry, &input)?;
    let mut meaning = classify(house, agent, entry, &input)?;
    let over = house.means.exceeds(agent, call, &entry.tool.def, &meaning).await?;
    meaning.also.extend(over.map(|_| ActionType::BudgetExceed));
    trip.note_meaning(&meaning);

    let deed = meaning.deed(house, agent, entry);
    let origin = whence(house, &deed, entry, &input);
    let decision = decide(house.policy(), agent, &meaning.request(entry, origin.as_ref(), Some(&input)));
    trip.record.decision = Some(decision.decided());
    trip.record.policy = Some(house.policy_digest());
    if let Decision::Deny(reasons) = &decision {
        return Err(not_permitted(house, entry, reasons).into());
    }
    // What happened already needs nobody's permission to be told again.
    let known = known(house, claim.as_ref()).await?;
    if let Known::Done(kept) = known {
        return Ok(replay(house, &deed, *kept, trip));
    }
    let permit = match decision {
        Decision::Allow(permit, _) => permit,
        Decision::Ask(asking) => {
            // What happens seldom does not make every call larger.
            Box::pin(ask(house, call, entry, &input, &meaning, origin.as_ref(), asking, watch, trip)).await?
        }
        Decision::Deny(reasons) => return Err(not_permitted(house, entry, &reasons).into()),
    };

    let walls = if entry.beside { Vec::new() } else { house.walls(&permit) };
    let fence = Fence::of(house.policy(), agent, &meaning.effects, &meaning.terrain);
    let waiting = Arc::default();
    let inquiries = inquiries(house, watch, &waiting);
    let (mut hands, ledger) = place(house, agent, entry, permit, fence, call, watch)?;
    hands.inquiries = inquiries.clone();
    let slot = take_slot(entry, watch).await?;
    let held = Held { _slot: slot, _effect: at_work(house, claim.as_ref())? };
    if let (Known::Unknown, Some(claim)) = (known, &claim) {
        let output = Box::pin(reconcile(house, entry, claim, hands, held, input)).await?;
        trip.replayed = true;
        trip.labels = meaning.labels();
        let cleaned = admit_and_clean(house, entry, &deed, output, trip)?;
        Box::pin(happened(house, claim, &cleaned, trip)).await?;
        return Ok(cleaned);
    }
    let work = house.conversations.writes(&deed, house.quarters.has_terminals())?;
    house.means.spend(agent, call, &entry.tool.def, &meaning, over.is_some()).await?;
    trip.ticket = reserve(house, claim.as_ref(), call).await?;
    begin(house, &meaning, trip).await?;

    trip.ran = true;
    let ran = run(entry, hands, held, input, watch, &waiting, trip.begun).await;
    trip.asked = inquiries.asked();
    trip.note_walls(walls, ledger.as_ref());
    // Of programs that have not stopped nobody knows what they will still write.
    let stopped = !matches!(&ran, Err(stop) if stop.is_unsure()) && !house.quarters.has_terminals();
    if let Some(work) = work.filter(|_| stopped) {
        house.conversations.wrote(work).await;
    }
    trip.labels = meaning.labels();
    match ran {
        Ok(output) => admit_and_clean(house, entry, &deed, output, trip),
        Err(stop) => Err(hear(house, entry, &deed, stop, trip)),
    }
}

/// A fault may quote what a server or a file says, and that is somebody else's word like any answer: it is heard, and
/// fenced where it gives orders. What we say in our own words is nobody else's.
fn hear(house: &House, entry: &Entry, deed: &Deed<'_>, stop: Stop, trip: &mut Trip) -> Stop {
    if matches!(&stop, Stop::Fault(fault) if fault.in_own_words) {
        return stop;
    }
    let source = trip.labels.first().map_or(&*entry.tool.def.name, String::as_str);
    let said = Output { text: stop.message().to_owned(), structured: Value::Null, truncated: None };
    let cleaned = clean(said, &entry.tool.def.caps, Some(source), &house.redactor);
    let seen = Seen { orders: cleaned.ordered, credentials: false };
    house.conversations.heard(deed, source, &Value::from(stop.message()), seen);
    if !cleaned.ordered {
        return stop;
    }
    trip.findings.extend(cleaned.findings);
    stop.saying(cleaned.text)
}

/// What the body gave back, fit for the model, and heard.
fn admit_and_clean(
    house: &House,
    entry: &Entry,
    deed: &Deed<'_>,
    mut output: Output,
    trip: &mut Trip,
) -> Result<Cleaned, Stop> {
    if deed.recalls {
        trip.labels.extend(sources_again(&output.structured));
    }
    // Before anything is looked for: data that is text may say anything.
    let data = if entry.relayed { relay::take_data(&mut output.structured) } else { Vec::new() };
    let (output, told_secrets) = without_secrets(output, house.connections.broker());
    // Why it does not fit quotes it.
    admit_output(entry, &output).map_err(|fault| hear(house, entry, deed, fault.into(), trip))?;
    let source = trip.labels.first().map_or(&*entry.tool.def.name, String::as_str);
    // What a tool makes of the caller's own words alone is the caller's; whatever somebody else gives is theirs.
    let from = (!entry.tool.def.needs.is_nothing() || entry.origin.is_some()).then_some(source);
    trip.tool_failed = entry.relayed && relay::is_error(&output.structured);
    let mut cleaned = clean(output, &entry.tool.def.caps, from, &house.redactor);
    let credentials = told_secrets || cleaned.findings.iter().any(|it| it.kind == owasp::Kind::Secret.as_str());
    let seen = Seen { orders: cleaned.ordered, credentials };
    let label = house.conversations.heard(deed, source, &cleaned.structured, seen);
    trip.labels.extend(label.words().map(str::to_owned));
    relay::put_back(&mut cleaned.structured, data);
    if let Some(fence) = cleaned.fence.as_ref().filter(|_| entry.relayed) {
        relay::fence(&mut cleaned.structured, fence);
    }
    Ok(cleaned)
}

/// The agent, as it stands in the category of the tool, and the tool, if there are such.
pub(crate) fn find<'a>(
    house: &'a House,
    catalog: &'a Catalog,
    call: &Call,
) -> Result<(&'a Agent, &'a Arc<Entry>), Fault> {
    let agent = house.agent(&call.agent)?;
    let Some(entry) = catalog.find(&call.tool)? else {
        house.is_offered(&call.tool)?;
        return Err(unknown_tool(house, catalog, agent, &call.tool));
    };
    Ok((house.standing(agent, entry.tool.def.category), entry))
}

/// There is no such tool; the nearest that the agent may use is named.
fn unknown_tool(house: &House, catalog: &Catalog, agent: &Agent, tool: &str) -> Fault {
    let permitted: Vec<_> = house.permitted(catalog, agent).map(|entry| &*entry.tool.def.name).collect();
    let remedy = match nearest(tool, permitted.iter().copied()) {
        Some(name) => format!("Did you mean `{name}`?"),
        None if permitted.len() > MOST_NAMED => "Find one with `list_tools`.".to_owned(),
        None => format!("Available: {}.", permitted.join(", ")),
    };
    Fault::refused("unknown_tool", format!("there is no tool `{}`", shown(tool)), remedy)
}

/// The tool of this name, if the agent may use it. One it may not use, or that is held back, is as unknown as one that
/// does not exist.
pub(crate) fn known_to(house: &House, agent: &AgentName, tool: &str) -> Result<Arc<Entry>, Fault> {
    let (catalog, agent) = (house.catalog(), house.agent(agent)?);
    match house.permitted(&catalog, agent).find(|entry| entry.tool.def.name == tool) {
        Some(entry) => Ok(entry.clone()),
        None => {
            house.is_offered(tool)?;
            Err(unknown_tool(house, &catalog, agent, tool))
        }
    }
}

/// Decided before the arguments are looked at: what an agent may not use does not explain itself to it.
fn may_know(house: &House, agent: &Agent, entry: &Entry) -> Result<(), Fault> {
    match house.shown_to(agent, entry) {
        Decision::Deny(reasons) => Err(not_permitted(house, entry, &reasons)),
        Decision::Allow(..) | Decision::Ask(..) => Ok(()),
    }
}

/// The arguments, within the caps, valid, with defaults filled in.
pub(crate) fn admit_input(house: &House, entry: &Entry, arguments: &Value) -> Result<Value, Fault> {
    let bytes = entry.tool.def.caps.input_bytes.min(house.config.limits.max_input_bytes);
    json::check(arguments, &json::Limits { bytes, ..json::Limits::default() })?;
    entry.input.admit_input(&entry.tool.def, arguments)
}

/// What a call amounts to, from the tool and the validated arguments.
pub(crate) struct Meaning {
    pub(crate) action: ActionType,
    pub(crate) effects: Vec<Effect>,
    /// What else it amounts to.
    also: Vec<ActionType>,
    pub(crate) risk: Risk,
    pub(crate) class: SafetyClass,
    /// What was made of the command it would start.
    command: Option<Judgement>,
    /// How far that takes git.
    git: GitLevel,
    /// Where its paths lead.
    terrain: Arc<Terrain>,
    /// The connection it would use.
    connection: Option<ConnectionTerms>,
    /// Who offers the tool; none for one of our own.
    offered_by: Option<String>,
}

impl Meaning {
    /// What the tool says of itself, before there are arguments.
    fn declared(house: &House, entry: &Entry) -> Self {
        let def = &entry.tool.def;
        let risk = house.policy().actions.risk(&def.action);
        let (action, class) = (def.action.clone(), def.safety);
        Self {
            action,
            effects: Vec::new(),
            also: Vec::new(),
            risk,
            class,
            command: None,
            git: GitLevel::LocalOnly,
            terrain: Arc::default(),
            connection: None,
            offered_by: entry.origin.clone(),
        }
    }

    pub(crate) fn request<'a>(
        &'a self,
        entry: &'a Entry,
        origin: Option<&'a Origin>,
        arguments: Option<&'a Value>,
    ) -> Request<'a> {
        Request {
            def: &entry.tool.def,
            foreign: entry.origin.is_some(),
            word: Some(&entry.word),
            action: &self.action,
            effects: &self.effects,
            also: &self.also,
            risk: self.risk,
            command: self.command.as_ref(),
            git: self.git,
            terrain: &self.terrain,
            connection: self.connection.as_ref(),
            origin,
            arguments,
        }
    }

    pub(crate) fn deed<'a>(&'a self, house: &'a House, agent: &'a Agent, entry: &Entry) -> Deed<'a> {
        let needs = &entry.tool.def.needs;
        Deed {
            agent: &agent.name,
            workspace: house.workspace_path(&agent.name),
            category: entry.tool.def.category,
            action: &self.action,
            effects: &self.effects,
            connection: self.connection.as_ref(),
            protected: &house.config.protected,
            programs_write: needs.exec && needs.files == Files::Write,
            open: self.terrain.roots(),
            recalls: needs.record,
        }
    }

    /// Changes nothing, so it may run beside others and needs no intent.
    pub(crate) fn is_read_only(&self) -> bool {
        self.class == SafetyClass::Read && self.effects.iter().all(|effect| effect.kind.is_read_only())
    }

    /// Where the result comes from.
    fn labels(&self) -> Vec<String> {
        let does = |kind: EffectKind| self.effects.iter().any(|effect| effect.kind == kind);
        let through = self.connection.as_ref().map(|connection| format!("connection:{}", connection.name));
        let workspace = does(EffectKind::FsRead).then(|| "workspace".to_owned());
        let web = (does(EffectKind::Network) || self.offered_by.is_some()) && through.is_none();
        let web = web.then(|| match &self.offered_by {
            Some(origin) => format!("mcp:{origin}"),
            None => "web".to_owned(),
        });
        workspace.into_iter().chain(web).chain(through).collect()
    }
}

pub(crate) fn classify(house: &House, agent: &Agent, entry: &Entry, input: &Value) -> Result<Meaning, Fault> {
    let (def, reading) = (&entry.tool.def, &entry.tool.reading);
    let action = reading.action(input)?.unwrap_or_else(|| def.action.clone());
    let mut effects = reading.effects(input)?;
    let connection = reading.connection(input)?.map(|used| house.connections.terms(&used)).transpose()?;
    if let Some(connection) = &connection {
        let target = match def.needs.exec {
            true => house.connections.git_target(&connection.name)?,
            false => house.connections.target(&connection.name)?,
        };
        lead_to(&target, &connection.name, &mut effects);
    }
    let line = reading.command(input)?;
    let meant = line.map(|line| read_command(house.policy(), agent, &line, &house.ground(agent)));
    // How much is at stake in a command is read from it: starting `ls` is not starting `dd`.
    let risk = match &meant {
        Some(meant) => meant.risk,
        None => {
            let least = house.policy().actions.risk(&action);
            effects.iter().map(|effect| effect.kind.risk()).fold(least, Risk::max)
        }
    };
    // What costs minutes or money is spending, whatever else it is.
    let mut also = if def.cost == CostTier::Expensive { vec![ActionType::BudgetSpend] } else { Vec::new() };
    let mut git = GitLevel::LocalOnly;
    let command = meant.map(|meant| {
        effects.extend(meant.effects);
        also.extend(meant.also);
        git = meant.git;
        meant.judgement
    });
    let mut known = BTreeSet::new();
    effects.retain(|effect| known.insert(effect.clone()));
    for target in effects.iter_mut().filter_map(|effect| effect.target.as_mut()) {
        *target = shortened(std::mem::take(target));
    }
    let class = effects.iter().map(|effect| effect.kind.class()).fold(def.safety, SafetyClass::max);
    let terrain = house.open_to(agent);
    let offered_by = entry.origin.clone();
    Ok(Meaning { action, effects, also, risk, class, command, git, terrain, connection, offered_by })
}

/// Where the words of a call come from, and what it would tell.
pub(crate) fn whence(house: &House, deed: &Deed<'_>, entry: &Entry, input: &Value) -> Option<Origin> {
    let def = &entry.tool.def;
    house.conversations.origin(deed, &def.name, input, &def.input_schema, house.policy())
}

/// A tool names a connection, and not the machine behind it nor what it proves itself with.
fn lead_to(target: &str, connection: &str, effects: &mut Vec<Effect>) {
    let unnamed = |effect: &&mut Effect| effect.kind == EffectKind::Network && effect.target.is_none();
    effects.iter_mut().filter(unnamed).for_each(|effect| effect.target = Some(target.to_owned()));
    effects.push(Effect::on(EffectKind::Secret, format!("connection:{connection}")));
}

/// Asks people, who may have answered already. The name of the question is the hash of everything a yes would approve.
#[expect(clippy::too_many_arguments, reason = "a question is about everything the road knows by then")]
async fn ask(
    house: &House,
    call: &Call,
    entry: &Entry,
    input: &Value,
    meaning: &Meaning,
    origin: Option<&Origin>,
    asking: Asking,
    watch: &Watch,
    trip: &mut Trip,
) -> Result<Permit, Stop> {
    let Some(people) = &house.approvals else { return Err(nobody_to_ask(entry, &asking.reasons).into()) };
    let mut bound = json!({
        "agent": call.agent,
        "tool": call.tool,
        "definition": entry.digest,
        "arguments": input,
        "workspace": house.workspace_path(&call.agent),
        "policy": house.policy_digest(),
    });
    let named = |bound: &Value| {
        digest(bound).map_err(|error| {
            let message = format!("the call has no canonical form: {error}");
            Fault::failed("not_canonical", message, "Send plain JSON arguments.")
        })
    };
    let deed = named(&bound)?;
    bound["key"] = json!(call.key);
    let digest = named(&bound)?;
    let question = Question {
        digest,
        deed: Some(deed),
        call: call.id.clone(),
        agent: call.agent.clone(),
        principal: call.by.clone(),
        tool: call.tool.clone(),
        definition: entry.digest,
        arguments: plain_arguments(house, input.clone()),
        reasons: asking.reasons.iter().map(Ground::from).collect(),
        people: asking.people,
        risk: meaning.risk,
        class: meaning.class,
        action: meaning.action.to_string(),
        effects: meaning.effects.clone(),
        labels: picture::labels(house.policy(), &call.tool, origin),
        picture: Value::Null,
        may_approve: people.people(),
        expires_ms: Some(people.expires_ms()),
        once: call.key.clone(),
    };
    let wanted = Wanted {
        question: &digest,
        agent: &call.agent,
        by: &call.by,
        tool: &call.tool,
        definition: &entry.digest,
        class: meaning.class,
        arguments: &call.arguments,
    };
    let patience = Patience { hold: watch.hold, cancel: &watch.cancel, progress: watch.progress.as_ref() };
    let picture = async { plain_arguments(house, picture::picture(house, &call.agent, entry, input, meaning).await) };
    let (permit, agreed) = people.settle(question, picture, asking, &wanted, patience).await?;
    // Whoever agreed to this very call has seen its words: they are no longer only somebody else's.
    if agreed.rule == approvals::APPROVED {
        house.conversations.vouch(&call.agent, input);
    }
    if let Some(decided) = &mut trip.record.decision {
        decided.reasons.insert(0, agreed);
    }
    Ok(permit)
}

/// Arguments without credentials, as they are recorded and shown to people.
fn plain_arguments(house: &House, arguments: Value) -> Value {
    redact_value(house.connections.broker().redact_value(arguments), &house.redactor)
}

fn nobody_to_ask(entry: &Entry, reasons: &[Reason]) -> Fault {
    let message = format!("tool `{}` may only be used if people agree: {}", entry.tool.def.name, sentence(reasons));
    Fault::refused("nobody_to_ask", message, "Open the runtime with a state, where questions are kept.")
}

/// What the body gets, if there is a place where it can run at all.
fn place(
    house: &Arc<House>,
    agent: &Agent,
    entry: &Entry,
    permit: Permit,
    fence: Fence,
    call: &Call,
    watch: &Watch,
) -> Result<(Hands, Option<Ledger>), Fault> {
    let def = &entry.tool.def;
    let maker = Maker::of(&house.place_of(def)?);
    let workspace = house.workspace(agent, &permit, &fence)?;
    let web = (permit.needs().network == Network::Fenced).then(|| house.gateway.web(&permit, &fence));
    let own_calls =
        || -> Arc<dyn OwnCalls> { Arc::new(AgentCalls { store: house.store.clone(), agent: agent.name.clone() }) };
    let own_calls = permit.needs().record.then(own_calls);
    let (programs, ledger) = match house.directories.get(&agent.name) {
        Some(directories) if workspace.is_some() && permit.needs().exec => {
            let protected = &house.config.protected;
            let tenant = Tenant { agent, task: call.task.as_deref(), call: &call.id };
            let (programs, ledger) = house.quarters.programs(maker, tenant, directories, protected, permit, fence);
            (Some(programs), Some(ledger))
        }
        _ => (None, None),
    };
    let finder = || -> Arc<dyn Finder> { Arc::new(AgentFinder { house: house.clone(), agent: agent.name.clone() }) };
    let hands = Hands {
        finder: entry.finds_tools().then(finder),
        own_calls,
        programs,
        web,
        workspace,
        clock: house.clock.clone(),
        progress: watch.progress.clone().map(|sink| bounded(sink, house.connections.broker().clone())),
        remarks: watch.remarks.clone().map(|listener| remarks::heard(house, entry, listener)),
        stop: StopFlag::default(),
        timeout: def.timeout,
        caps: def.caps,
        inquiries: Inquiries::default(),
        key: call.key.clone(),
    };
    Ok((hands, ledger))
}

/// Progress goes to the model's side as it is, so a message is short and has nothing in it that nobody sees, and no
/// secret.
fn bounded(sink: ProgressSink, broker: Arc<Broker>) -> ProgressSink {
    const MOST: usize = 200;
    Arc::new(move |progress| {
        let plain = |text: String| text.chars().filter(|c| !c.is_control()).take(MOST).collect();
        let message = progress.message.map(|text| plain(broker.redact(&text).into_owned()));
        sink(Progress { message, ..progress });
    })
}

/// A slot among the calls of this tool that may run at once. Waiting for one is bounded by the tool's own timeout.
async fn take_slot(entry: &Entry, watch: &Watch) -> Result<OwnedSemaphorePermit, Fault> {
    let def = &entry.tool.def;
    if let Ok(slot) = entry.slots.clone().try_acquire_owned() {
        return Ok(slot);
    }
    tokio::select! {
        biased;
        () = watch.cancel.cancelled() => Err(cancelled()),
        slot = tokio::time::timeout(def.timeout, entry.slots.clone().acquire_owned()) => match slot {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Fault::failed(
                "busy",
                format!("{} calls of `{}` are running and none ended within {} ms", def.concurrency, def.name, def.timeout.as_millis()),
                "Try again when one has ended.",
            )
            .retryable()),
        },
    }
}

/// What is known about the effect a call claims.
async fn known(house: &House, claim: Option<&Claim>) -> Result<Known, Fault> {
    let Some(claim) = claim else { return Ok(Known::Nothing) };
    match &house.effects {
        Some(effects) => Box::pin(effects.known(claim)).await,
        None => Err(Fault::refused(
            "keys_not_kept",
            "the call has a key, and nothing keeps keys here",
            "Open the runtime with a state, where keys are kept.",
        )),
    }
}

/// What an effect answered when it happened. It is heard once more.
fn replay(house: &House, deed: &Deed<'_>, kept: Kept, trip: &mut Trip) -> Cleaned {
    let Kept { text, structured, truncated, labels, findings } = kept;
    let has = |kind: owasp::Kind| findings.iter().any(|finding| finding.kind == kind.as_str());
    let (orders, credentials) = (has(owasp::Kind::Injection), has(owasp::Kind::Secret));
    let source = labels.first().cloned().unwrap_or_else(|| trip.record.tool.clone());
    house.conversations.heard(deed, &source, &structured, Seen { orders, credentials });
    trip.replayed = true;
    trip.labels = labels;
    Cleaned { text, structured, truncated, ordered: orders, fence: None, findings, raw: None }
}

/// The tool finds out what became of an effect nobody knows about. It is not tried again in the same breath.
async fn reconcile(
    house: &House,
    entry: &Entry,
    claim: &Claim,
    hands: Hands,
    held: Held,
    input: Value,
) -> Result<Output, Stop> {
    let (Some(effects), Some(look)) = (&house.effects, entry.tool.reconcile.clone()) else {
        return Err(once::unknown(claim.key()).into());
    };
    let (stop, timeout) = (hands.stop.clone(), hands.timeout);
    let _told = StopOnDrop(stop);
    let cx = Cx::new(hands);
    let job = tokio::task::spawn_blocking(move || {
        let _held = held;
        look(&cx, input)
    });
    match tokio::time::timeout(timeout, job).await {
        Ok(Ok(Ok(Reconciled::Happened(output)))) => Ok(output),
        Ok(Ok(Ok(Reconciled::DidNotHappen))) => {
            effects.reconciled(claim, Resolution::DidNotHappen).await?;
            let message = format!("the effect under key `{}` did not happen", claim.key().key);
            let remedy = "Make the same call again, with the same key, to try it.";
            Err(Fault::failed("effect_did_not_happen", message, remedy).retryable().into())
        }
        Ok(Ok(Ok(Reconciled::CannotSay)) | Err(_)) | Err(_) => Err(once::unknown(claim.key()).into()),
        Ok(Ok(Err(fault))) => Err(fault.into()),
    }
}

/// Keeps what a tool found out as it is told now: the same call gets it from now on.
async fn happened(house: &House, claim: &Claim, told: &Cleaned, trip: &Trip) -> Result<(), Fault> {
    let Some(effects) = &house.effects else { return Ok(()) };
    let Cleaned { text, structured, truncated, findings, .. } = told;
    let kept = json!({
        "text": text, "structured": structured, "truncated": truncated, "labels": trip.labels, "findings": findings,
    });
    effects.reconciled(claim, Resolution::Happened(kept)).await
}

/// Keeps others in this program from the effect for as long as a body is at it.
fn at_work(house: &House, claim: Option<&Claim>) -> Result<Option<AtWork>, Fault> {
    house.effects.as_ref().zip(claim).map(|(effects, claim)| effects.at_work(claim)).transpose()
}

/// Claims the effect, durably, before it is tried.
async fn reserve(house: &House, claim: Option<&Claim>, call: &Call) -> Result<Option<Ticket>, Fault> {
    match (claim, &house.effects) {
        (Some(claim), Some(effects)) => Box::pin(effects.claim(claim, call)).await.map(Some),
        (Some(_), None) | (None, _) => Ok(None),
    }
}

/// Makes the intent durable. No record, no effect.
async fn begin(house: &House, meaning: &Meaning, trip: &mut Trip) -> Result<(), Stop> {
    if meaning.is_read_only() {
        return Ok(());
    }
    let intent = Intent { at_ms: house.now_ms(), record: trip.record.clone() };
    match house.store.begin(intent).await {
        Ok(()) => {
            trip.begun = true;
            Ok(())
        }
        Err(error) => Err(Stop::Fatal(Fatal::StoreLost(error.to_string()).into(), error.into())),
    }
}

/// What a body has until it returns, also where its call was answered without it.
struct Held {
    _slot: OwnedSemaphorePermit,
    _effect: Option<AtWork>,
}

/// Runs the body under the permit until it ends, is cancelled, or its time is up.
///
/// A body that was told to stop gets a moment to do so, because what it then says is the truth about its effect. One
/// that has a thread and does not listen keeps it and its slot until it returns; the call is answered without it.
async fn run(
    entry: &Entry,
    mut hands: Hands,
    held: Held,
    input: Value,
    watch: &Watch,
    waiting: &Waiting,
    begun: bool,
) -> Result<Output, Stop> {
    // An effect is worth waiting for: what is answered before it ended may turn out to be untrue.
    let grace = if begun { Duration::from_secs(5) } else { Duration::from_millis(200) };
    if watch.cancel.is_cancelled() {
        return Err(cancelled().into());
    }
    let (stop, timeout) = (hands.stop.clone(), hands.timeout);
    let pulse = Pulse::take(entry, &mut hands);
    // Raised also when this future is dropped, so that no body works on for a caller who is gone.
    let _told = StopOnDrop(stop.clone());
    let mut job = match &entry.tool.work {
        Work::Instant(body) if is_small(&input) => return run_here(entry, body, hands, input),
        Work::Instant(body) | Work::Blocking(body) => on_a_thread(body.clone(), hands, held, input),
        Work::Waiting(body) => awaited(body.clone(), hands, held, input),
    };
    let overdue = tokio::select! {
        biased;
        done = &mut job => return ended(entry, done),
        () = watch.cancel.cancelled() => {
            stop.cancel();
            cancelled()
        }
        () = waiting.worked(timeout) => {
            stop.time_out();
            timed_out(timeout)
        }
        never = pulse.beat() => match never {},
    };
    match tokio::time::timeout(grace, job).await {
        Ok(done) => ended(entry, done),
        Err(_) if begun => Err(effect_unknown(entry, &overdue).into()),
        Err(_) => Err(overdue.into()),
    }
}

/// How a body ended, or what it said when it panicked.
type Done = Result<Result<Output, Fault>, String>;

/// Starts a body that may block.
fn on_a_thread(body: Run, hands: Hands, held: Held, input: Value) -> BoxFuture<'static, Done> {
    let job = tokio::task::spawn_blocking(move || {
        let _held = held;
        body(&Cx::new(hands), input)
    });
    let said = |error: JoinError| match error.try_into_panic() {
        Ok(panic) => panic_message(&*panic),
        Err(error) => error.to_string(),
    };
    Box::pin(async move { job.await.map_err(said) })
}

/// A body that waits, where its call does. What it does before it first waits may panic too.
fn awaited(body: Waits, hands: Hands, held: Held, input: Value) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        let _held = held;
        let body = async move { body(Arc::new(Cx::new(hands)), input).await };
        AssertUnwindSafe(body).catch_unwind().await.map_err(|panic| panic_message(&*panic))
    })
}

/// Runs a body that takes microseconds where it is called: a thread of its own would cost more than the work.
fn run_here(entry: &Entry, body: &Run, hands: Hands, input: Value) -> Result<Output, Stop> {
    let (started, timeout) = (Instant::now(), hands.timeout);
    let cx = Cx::new(hands);
    let ran = panic::catch_unwind(AssertUnwindSafe(|| body(&cx, input)));
    match ran {
        Ok(_) if started.elapsed() > timeout => Err(timed_out(timeout).into()),
        done => ended(entry, done.map_err(|panic| panic_message(&*panic))),
    }
}

/// Is there so little in it that no function of it takes long?
fn is_small(value: &Value) -> bool {
    const MOST: usize = 4 * 1024;
    let mut left = vec![value];
    let mut size = 0;
    while let Some(value) = left.pop() {
        size += match value {
            Value::String(text) => 1 + text.len(),
            Value::Array(items) => {
                left.extend(items);
                1
            }
            Value::Object(fields) => {
                left.extend(fields.values());
                1
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        };
        if size + left.len() > MOST {
            return false;
        }
    }
    true
}

struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn ended(entry: &Entry, done: Done) -> Result<Output, Stop> {
    match done {
        Ok(result) => result.map_err(Stop::Fault),
        Err(said) => Err(panicked(entry, said)),
    }
}

fn panicked(entry: &Entry, said: String) -> Stop {
    let tool = entry.tool.def.name.to_string();
    let fault =
        Fault::failed("tool_panicked", format!("tool `{tool}` panicked: {said}"), "Report this as a bug in the tool.");
    Stop::Fatal(Fatal::Panic { tool, message: said }.into(), fault)
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it gave no message").to_owned()
}

fn admit_output(entry: &Entry, output: &Output) -> Result<(), Fault> {
    match (entry.relayed, relay::typed(&output.structured)) {
        (false, _) => entry.output.admit_output(&output.structured),
        (true, Some(typed)) => entry.output.admit_output(typed),
        (true, None) => Ok(()),
    }
}

/// Why the road ended before its end.
enum Stop {
    Fault(Fault),
    Pending { approval: ApprovalId, message: String },
    Fatal(Box<Fatal>, Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Unsettled> for Stop {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Pending { approval, message } => Self::Pending { approval, message },
            Unsettled::Refused(fault) => Self::Fault(fault),
        }
    }
}

impl Stop {
    /// Something was told to stop and has not.
    fn is_unsure(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.code == EFFECT_UNKNOWN)
    }

    fn message(&self) -> &str {
        match self {
            Self::Fault(fault) | Self::Fatal(_, fault) => &fault.message,
            Self::Pending { message, .. } => message,
        }
    }

    fn saying(self, message: String) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(Fault { message, ..fault }),
            Self::Fatal(fatal, fault) => Self::Fatal(fatal, Fault { message, ..fault }),
            Self::Pending { approval, .. } => Self::Pending { approval, message },
        }
    }

    /// Neither what a connection was given nor what looks like a credential is told in a fault, nor anything nobody sees.
    fn without_secrets(self, house: &House) -> Self {
        let plain = |text: String| {
            let told = house.redactor.redact(&house.connections.broker().redact(&text)).0.into_owned();
            hidden::clean(&told).0.into_owned()
        };
        let fault = |fault: Fault| Fault { message: plain(fault.message), remedy: plain(fault.remedy), ..fault };
        match self {
            Self::Fault(why) => Self::Fault(fault(why)),
            Self::Pending { approval, message } => Self::Pending { approval, message: plain(message) },
            Self::Fatal(fatal, why) => Self::Fatal(fatal, fault(why)),
        }
    }
}

/// A result in which no secret is left that a connection was given. Before anything is cut: half a secret is not found.
/// Says whether there was one.
fn without_secrets(output: Output, broker: &Broker) -> (Output, bool) {
    let Output { structured, text, truncated } = output;
    let told = broker.redact(&text);
    let had_one = matches!(told, Cow::Owned(_));
    (Output { structured: broker.redact_value(structured), text: told.into_owned(), truncated }, had_one)
}

impl Trip {
    fn start(call: &Call, arguments: Value) -> Self {
        Self {
            record: Record::open(call.id.clone(), call.agent.clone(), shortened(call.tool.clone()), arguments),
            admitted: false,
            begun: false,
            enforced: Vec::new(),
            labels: Vec::new(),
            findings: Vec::new(),
            asked: Vec::new(),
            ticket: None,
            ran: false,
            replayed: false,
            tool_failed: false,
        }
    }

    fn note_meaning(&mut self, meaning: &Meaning) {
        self.record.action = Some(meaning.action.clone());
        self.record.class = Some(meaning.class);
        self.record.effects.clone_from(&meaning.effects);
        self.record.risk = Some(meaning.risk);
    }

    /// What stood: of a room what its programs found, of a body that ran here what it was held to.
    fn note_walls(&mut self, walls: Vec<String>, ledger: Option<&Ledger>) {
        let Some(ledger) = ledger else {
            self.enforced = walls;
            return;
        };
        self.enforced = ledger.enforced().unwrap_or_default();
        let refused = |text: String| found(owasp::Kind::EgressRefused, "connection", &(0..0), text);
        self.findings = ledger.refused().into_iter().map(refused).collect();
    }
}

/// The one place where what happened becomes an answer fit for the agent.
fn answer(call: &Call, trip: &Trip, walked: Result<Cleaned, Stop>) -> (Outcome, Option<Raw>, Option<Fatal>) {
    let blank = Outcome {
        enforced: trip.enforced.clone(),
        findings: trip.findings.clone(),
        asked: trip.asked.clone(),
        effects: trip.record.effects.clone(),
        action: trip.record.action.clone(),
        risk: trip.record.risk,
        replayed: trip.replayed,
        ..blank(call.id.clone(), trip.record.tool.clone())
    };
    match walked {
        Ok(Cleaned { text, structured, truncated, findings, raw, .. }) => {
            let findings = trip.findings.iter().cloned().chain(findings).collect();
            let done = Outcome { text, structured, truncated, findings, labels: trip.labels.clone(), ..blank };
            (if trip.tool_failed { tool_failed(done) } else { done }, raw, None)
        }
        Err(Stop::Pending { approval, message }) => {
            let remedy = format!(
                "Call again once somebody has answered: `toolgate approvals show {approval}` tells what is asked."
            );
            let fault = Fault::refused("approval_required", message, remedy);
            let approval = approval.0;
            (Outcome { status: Status::Pending, approval: Some(approval), ..faulted(blank, fault) }, None, None)
        }
        Err(Stop::Fault(fault)) => (faulted(blank, fault), None, None),
        Err(Stop::Fatal(fatal, fault)) => (faulted(blank, fault), None, Some(*fatal)),
    }
}

/// The tool of another server answered that it failed: what it says about that is its answer.
fn tool_failed(done: Outcome) -> Outcome {
    Outcome {
        status: Status::Failed,
        is_error: true,
        code: Some("tool_failed".to_owned()),
        message: Some("the server says that its tool failed".to_owned()),
        remedy: Some("Read what it says about it, and correct the call.".to_owned()),
        ..done
    }
}

fn blank(call: CallId, tool: String) -> Outcome {
    Outcome {
        call,
        tool,
        status: Status::Done,
        is_error: false,
        text: String::new(),
        structured: Value::Null,
        code: None,
        message: None,
        remedy: None,
        approval: None,
        truncated: None,
        labels: Vec::new(),
        findings: Vec::new(),
        asked: Vec::new(),
        enforced: Vec::new(),
        effects: Vec::new(),
        action: None,
        risk: None,
        replayed: false,
        elapsed_ms: 0,
    }
}

/// The answer to a call whose road broke down. Nothing is known about it but that.
pub(crate) fn lost(call: CallId, tool: String, why: &str) -> Outcome {
    let fault = Fault::failed("runtime_failed", format!("the call was lost: {why}"), "Report this as a bug.");
    faulted(blank(call, tool), fault)
}

fn faulted(blank: Outcome, fault: Fault) -> Outcome {
    // A message may quote what was sent, and that may be a megabyte.
    let fault = Fault { message: shortened(fault.message), remedy: shortened(fault.remedy), ..fault };
    Outcome {
        status: match fault.kind {
            FaultKind::Refused => Status::Refused,
            FaultKind::Failed => Status::Failed,
        },
        is_error: true,
        text: fault.to_string(),
        code: Some(fault.code.into_owned()),
        message: Some(fault.message),
        remedy: Some(fault.remedy),
        ..blank
    }
}

/// At most two kibibytes, the head and the tail of it.
fn shortened(text: String) -> String {
    const MOST: usize = 2 * 1024;
    if text.len() <= MOST {
        return text;
    }
    let head = text.floor_char_boundary(MOST / 2);
    let tail = text.ceil_char_boundary(text.len() - MOST / 2);
    format!("{} ... {}", &text[..head], &text[tail..])
}

/// The end could not be written. A result nobody recorded is not handed out; an effect that happened is said to be unsure.
fn unrecorded(outcome: Outcome, begun: bool, fault: Fault) -> Outcome {
    let message = match begun {
        true => format!("the call may have taken effect, but its end could not be recorded: {}", fault.message),
        false => fault.message,
    };
    let blank = Outcome { structured: Value::Null, truncated: None, approval: None, ..outcome };
    faulted(blank, Fault { message, ..fault })
}

fn not_permitted(house: &House, entry: &Entry, reasons: &[Reason]) -> Fault {
    // Another command may do where this one is refused; the tool itself is permitted.
    if reasons.first().is_some_and(|first| first.rule.starts_with("command_")) {
        let message = format!("the command is refused: {}", sentence(reasons));
        return Fault::refused("command_refused", message, "Do it another way, or ask the operator.");
    }
    // Another path, file or host may do as well.
    match reasons.first().map(|first| first.rule) {
        Some("file_system_constraint") => {
            let remedy = "Use a path inside the workspace, or ask the operator to open more.";
            return Fault::refused("path_outside_workspace", sentence(reasons), remedy);
        }
        Some("file_denied") => {
            return Fault::refused("file_denied", sentence(reasons), "Do without that file, or ask the operator.");
        }
        Some("host_denied") => {
            return Fault::refused("host_denied", sentence(reasons), "Do without that host, or ask the operator.");
        }
        _ => {}
    }
    let message = format!("tool `{}` is not permitted: {}", entry.tool.def.name, sentence(reasons));
    let instead = reasons.iter().filter_map(|reason| house.policy().book.behind(reason)?.instead.as_deref()).next();
    let remedy = instead.unwrap_or(match reasons.first().map(|first| first.rule) {
        Some("stands_for_another") => "Call the tool by its own name.",
        _ => "Use another tool, or ask the operator to change the policy.",
    });
    Fault::refused("not_permitted", message, remedy)
}

/// Nobody can say yet whether the effect happened; nobody will say that it did not.
fn effect_unknown(entry: &Entry, why: &Fault) -> Fault {
    Fault::failed(
        EFFECT_UNKNOWN,
        format!("{}, but `{}` has not stopped and may still take effect", why.message, entry.tool.def.name),
        "Look at what it was to change before trying again.",
    )
}

fn timed_out(timeout: Duration) -> Fault {
    Fault::failed("timed_out", format!("no answer within {} ms", timeout.as_millis()), "Ask for less at once.")
}

fn cancelled() -> Fault {
    Fault::failed("cancelled", "the caller cancelled the call", "Call again if it is still wanted.")
}

fn sentence(reasons: &[Reason]) -> String {
    reasons.iter().map(|reason| format!("{} ({})", reason.text, reason.source)).collect::<Vec<_>>().join("; ")
}

/// A name as it came may be anything; an error message is no place for a megabyte or an escape sequence.
fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_default).collect()
}

/// What would be decided, without doing it.
pub(crate) fn preview(house: &House, call: &Call) -> Result<(Meaning, Decision), Fault> {
    let catalog = house.catalog();
    let (agent, entry) = find(house, &catalog, call)?;
    let shown = house.shown_to(agent, entry);
    if matches!(shown, Decision::Deny(_)) {
        return Ok((Meaning::declared(house, entry), shown));
    }
    let input = admit_input(house, entry, &call.arguments)?;
    let meaning = classify(house, agent, entry, &input)?;
    let origin = whence(house, &meaning.deed(house, agent, entry), entry, &input);
    let decision = decide(house.policy(), agent, &meaning.request(entry, origin.as_ref(), Some(&input)));
    Ok((meaning, decision))
}

/// A person stands for these values in the conversation of an agent. No record, no effect.
pub(crate) async fn declassify(house: &House, agent: &AgentName, values: Value, by: &Person) -> Result<(), Fault> {
    let agent = &house.agent(agent)?.name;
    let told = redact_value(house.connections.broker().redact_value(values.clone()), &house.redactor);
    let note = Note {
        at_ms: house.now_ms(),
        kind: "declassified",
        by: Some(Principal::Person(by.clone())),
        subject: agent.to_string(),
        detail: json!({ "values": told }),
    };
    house.store.note(note).await?;
    house.conversations.vouch(agent, &values);
    Ok(())
}

/// Where it would run, without running it.
pub(crate) fn whereabouts(house: &House, call: &Call) -> Result<Whereabouts, Fault> {
    let catalog = house.catalog();
    let (agent, entry) = find(house, &catalog, call)?;
    let def = &entry.tool.def;
    Ok(match (house.place_of(def), house.directories.get(&agent.name)) {
        (Err(fault), _) => Whereabouts::Nowhere { why: fault.message, remedy: fault.remedy },
        (Ok(place @ (Place::Room | Place::Docker { .. })), Some(directories)) if def.needs.exec => {
            let (maker, protected) = (Maker::of(&place), &house.config.protected);
            let fence = Fence::of(house.policy(), agent, &[], &house.open_to(agent));
            let spec = house.quarters.spec(maker, agent, directories, protected, &def.needs, &fence);
            Whereabouts::Room { backend: maker.word(), spec: Box::new(spec) }
        }
        (Ok(_), _) => Whereabouts::Here,
    })
}
