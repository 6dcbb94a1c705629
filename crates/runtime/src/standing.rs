//! How far agents are trusted: what is known about them is gathered here, and what the gate makes of it is kept at hand
//! for the road.
//!
//! Nothing about a level is remembered: [`toolgate_gate::trust::stand`] computes it from all the evidence there is. The
//! road looks for new evidence before each call, so what a person or another program adds counts from the next call on.
//! How calls end is evidence too; they are counted here and written down a few at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use serde_json::json;
use toolgate_contract::{
    AgentName, Category, Evidence, Fact, Fault, LatchKind, Level, Note, Outcome, Part, Person, Principal, Status,
};
use toolgate_gate::{
    Agent, Policy,
    trust::{Pending, Standing, TrustRules, stand},
};
use toolgate_store::{Store, state::State};
use toolgate_tools::Clock;

/// Who says what the road saw itself.
const RUNTIME: &str = "runtime";

/// How long calls that went well are counted before they are written down, and how long those that failed.
const GOOD: Duration = Duration::from_secs(60 * 60);
const BAD: Duration = Duration::from_secs(10);

/// How long a judgement lasts where no evidence is added: time itself may cost a step.
const LASTS: Duration = Duration::from_secs(60);

/// The longest name of a task, an incident or a model.
const LONGEST: usize = 200;

/// What is known about agents, and how far they are trusted.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Trust {
    rules: TrustRules,
    state: Option<Arc<dyn State>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The agents trust moves.
    moved: BTreeMap<AgentName, Moved>,
    /// The names of all agents.
    agents: Vec<AgentName>,
}

/// An agent that trust moves.
struct Moved {
    start: Level,
    /// What it is for, as its evidence has it.
    role: String,
    /// The agent at each level.
    at: BTreeMap<Level, Agent>,
    known: Mutex<Known>,
    levels: ArcSwap<BTreeMap<Category, Level>>,
    counts: Mutex<BTreeMap<Category, Count>>,
}

/// The evidence there is about an agent.
#[derive(Default)]
struct Known {
    evidence: Vec<Evidence>,
    /// The number of the last of it.
    number: u64,
    /// What it was last said to be for.
    role: Option<String>,
    judged_ms: Option<u64>,
}

/// Calls that are not written down yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    ok: u32,
    failed: u32,
    /// When some were last written down.
    ok_ms: Option<u64>,
    failed_ms: Option<u64>,
}

impl Trust {
    pub(crate) fn new(
        policy: &Policy,
        state: Option<Arc<dyn State>>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let rules = policy.trust.clone();
        let moved = policy.agents.values().filter(|agent| !agent.ladder.is_empty());
        Self {
            moved: moved.map(|agent| (agent.name.clone(), Moved::new(agent, &rules))).collect(),
            agents: policy.agents.keys().cloned().collect(),
            rules,
            state,
            store,
            clock,
        }
    }

    /// How an agent stands now; none for one whose level is set by hand, or never changes.
    pub async fn standing(&self, agent: &AgentName) -> Result<Option<Standing>, Fault> {
        self.known(agent)?;
        self.look(agent).await?;
        let Some(moved) = self.moved.get(agent) else { return Ok(None) };
        Ok(Some(stand(&self.rules, moved.start, &moved.known().evidence, self.now())))
    }

    /// What is known about an agent, in the order it was added.
    pub async fn evidence(&self, agent: &AgentName) -> Result<Vec<Evidence>, Fault> {
        self.known(agent)?;
        Ok(self.state()?.evidence(agent.clone()).await?)
    }

    /// A person says what happened. It is in the record before it counts.
    pub async fn report(
        &self,
        agent: &AgentName,
        category: Option<Category>,
        fact: Fact,
        by: &Person,
    ) -> Result<Evidence, Fault> {
        self.known(agent)?;
        check(&fact, category)?;
        self.add(agent, category, fact, Some(by)).await
    }

    /// A person agrees to a step that waits for one. Where none does, it is refused.
    pub async fn promote(&self, agent: &AgentName, category: Category, by: &Person) -> Result<Pending, Fault> {
        let standing = self.standing(agent).await?.ok_or_else(|| level_is_set(agent))?;
        let pending = *standing.pending(category).ok_or_else(|| not_pending(agent, category, &standing))?;
        self.add(agent, Some(category), Fact::Promotion { to: pending.to }, Some(by)).await?;
        // Something may have gone wrong at this very moment.
        match self.standing(agent).await? {
            Some(standing) if standing.level(category) == pending.to => Ok(pending),
            Some(standing) => Err(not_pending(agent, category, &standing)),
            None => Err(level_is_set(agent)),
        }
    }

    /// Looks for evidence that was added since, so that the tools that are listed are those an agent may use now.
    pub async fn look(&self, agent: &AgentName) -> Result<(), Fault> {
        let (Some(moved), Some(state)) = (self.moved.get(agent), &self.state) else { return Ok(()) };
        let after = moved.known().number;
        let new = state.evidence_after(agent.clone(), after).await?;
        moved.learn(new, &self.rules, self.now());
        Ok(())
    }

    /// Before a call: what happened since the last one is taken into account, also that the agent is for something else
    /// now.
    pub(crate) async fn meet(&self, agent: &AgentName) -> Result<(), Fault> {
        let Some(moved) = self.moved.get(agent).filter(|_| self.state.is_some()) else { return Ok(()) };
        self.write_due(agent, moved).await?;
        self.look(agent).await?;
        if moved.known().role.as_ref() != Some(&moved.role) {
            let role = Fact::Identity { part: Part::Role, value: moved.role.clone() };
            self.add(agent, None, role, None).await?;
        }
        Ok(())
    }

    /// The agent at the level it has in a category.
    pub(crate) fn at<'a>(&'a self, agent: &'a Agent, category: Category) -> &'a Agent {
        let standing = self.moved.get(&agent.name).and_then(|moved| {
            let level = moved.levels.load().get(&category).copied()?;
            moved.at.get(&level)
        });
        standing.unwrap_or(agent)
    }

    /// After a call: how it ended. What was refused or waits for a person tells nothing about the agent's work, nor does
    /// what somebody else stopped or what is told again; and to look for what is not there is no error.
    pub(crate) async fn saw(&self, agent: &AgentName, category: Category, outcome: &Outcome) {
        let Some(moved) = self.moved.get(agent).filter(|_| self.state.is_some() && !outcome.replayed) else { return };
        let stopped = matches!(outcome.code.as_deref(), Some("cancelled" | "busy" | "runtime_failed"));
        let looked = outcome.effects.iter().all(|effect| effect.kind.is_read_only());
        match outcome.status {
            Status::Done => moved.counts().entry(category).or_default().ok += 1,
            Status::Failed if !stopped && !looked => moved.counts().entry(category).or_default().failed += 1,
            Status::Failed | Status::Refused | Status::Pending => return,
        }
        if let Err(fault) = self.write_due(agent, moved).await {
            tracing::error!(%agent, "how calls ended could not be written down: {fault}");
        }
    }

    /// Writes down the calls that have been counted long enough. What cannot be written is counted on.
    async fn write_due(&self, agent: &AgentName, moved: &Moved) -> Result<(), Fault> {
        let now = self.now();
        for (category, count) in moved.take_due(now) {
            let fact = Fact::Calls { ok: count.ok, failed: count.failed };
            let evidence =
                Evidence { at_ms: now, agent: agent.clone(), category: Some(category), by: RUNTIME.into(), fact };
            if let Err(error) = self.state()?.add_evidence(evidence).await {
                moved.put_back(category, count);
                return Err(error.into());
            }
        }
        Ok(())
    }

    async fn add(
        &self,
        agent: &AgentName,
        category: Option<Category>,
        fact: Fact,
        by: Option<&Person>,
    ) -> Result<Evidence, Fault> {
        let state = self.state()?;
        let at_ms = self.now();
        let says = by.map_or(RUNTIME.to_owned(), ToString::to_string);
        let evidence = Evidence { at_ms, agent: agent.clone(), category, by: says, fact };
        let note = Note {
            at_ms,
            kind: "evidence",
            by: by.map(|by| Principal::Person(by.clone())),
            subject: agent.to_string(),
            detail: json!({ "category": category, "fact": evidence.fact }),
        };
        self.store.note(note).await?;
        if let Fact::Incident { incident } = &evidence.fact {
            state.latch(agent.clone(), LatchKind::SecurityIncident, incident.clone(), at_ms).await?;
        }
        state.add_evidence(evidence.clone()).await?;
        self.look(agent).await?;
        Ok(evidence)
    }

    fn known(&self, agent: &AgentName) -> Result<(), Fault> {
        if self.agents.contains(agent) {
            return Ok(());
        }
        let name: String = agent.0.chars().take(80).flat_map(char::escape_default).collect();
        let remedy = "Name an agent of the config.";
        Err(Fault::refused("unknown_agent", format!("there is no agent `{name}`"), remedy))
    }

    fn state(&self) -> Result<&Arc<dyn State>, Fault> {
        self.state.as_ref().ok_or_else(|| {
            let remedy = "Open the runtime with a state, where evidence is kept.";
            Fault::refused("no_evidence", "nothing is kept about agents here", remedy)
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0)
    }
}

impl Moved {
    fn new(agent: &Agent, rules: &TrustRules) -> Self {
        let start = agent.level.value;
        let roles: Vec<&str> = agent.roles.iter().map(String::as_str).collect();
        Self {
            start,
            role: roles.join(","),
            at: Level::LADDER.into_iter().map(|level| (level, agent.standing_at(level))).collect(),
            known: Mutex::default(),
            levels: ArcSwap::from_pointee(stand(rules, start, &[], 0).levels),
            counts: Mutex::default(),
        }
    }

    /// Takes in evidence, and judges anew if there is any, or if the last judgement is old.
    fn learn(&self, new: Vec<(u64, Evidence)>, rules: &TrustRules, now_ms: u64) {
        let mut known = self.known();
        let mut is_new = false;
        for (number, evidence) in new {
            // Another call may have looked at the same time.
            if number <= known.number {
                continue;
            }
            if let Fact::Identity { part: Part::Role, value } = &evidence.fact {
                known.role = Some(value.clone());
            }
            known.number = number;
            known.evidence.push(evidence);
            is_new = true;
        }
        if is_new || known.judged_ms.is_none_or(|judged| is_over(judged, LASTS, now_ms)) {
            known.judged_ms = Some(now_ms);
            self.levels.store(Arc::new(stand(rules, self.start, &known.evidence, now_ms).levels));
        }
    }

    /// Takes the counts that are to be written down now. A failure is, unless there was one a moment ago.
    fn take_due(&self, now_ms: u64) -> Vec<(Category, Count)> {
        let mut counts = self.counts();
        let due = counts.iter_mut().filter_map(|(category, count)| Some((*category, count.take_due(now_ms)?)));
        due.collect()
    }

    fn put_back(&self, category: Category, count: Count) {
        let mut counts = self.counts();
        let held = counts.entry(category).or_default();
        *held = Count { ok: held.ok + count.ok, failed: held.failed + count.failed, ok_ms: None, failed_ms: None };
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Category, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Count {
    fn take_due(&mut self, now_ms: u64) -> Option<Count> {
        let is_due =
            |count: u32, last: Option<u64>, span| count > 0 && last.is_none_or(|last| is_over(last, span, now_ms));
        let failed = is_due(self.failed, self.failed_ms, BAD);
        if !failed && !is_due(self.ok, self.ok_ms, GOOD) {
            return None;
        }
        let taken = *self;
        *self = Count {
            ok_ms: Some(now_ms),
            failed_ms: if self.failed > 0 { Some(now_ms) } else { self.failed_ms },
            ..Count::default()
        };
        Some(taken)
    }
}

fn is_over(since_ms: u64, span: Duration, now_ms: u64) -> bool {
    u128::from(now_ms.abs_diff(since_ms)) >= span.as_millis()
}

/// Is this something a person can say?
fn check(fact: &Fact, category: Option<Category>) -> Result<(), Fault> {
    let names: Vec<&str> = match fact {
        Fact::Task { task, .. } => vec![task],
        Fact::Feedback { task, .. } => task.iter().map(String::as_str).collect(),
        Fact::Incident { incident } => vec![incident],
        Fact::Identity { value, .. } => vec![value],
        Fact::Calls { .. } | Fact::Promotion { .. } => {
            let message = "calls are counted by the road, and promotions are agreed to";
            return Err(Fault::failed(
                "not_reportable",
                message,
                "Report a task, feedback, an incident or an identity.",
            ));
        }
    };
    let is_name = |name: &&str| !name.trim().is_empty() && name.len() <= LONGEST && !name.contains(char::is_control);
    if !names.iter().all(is_name) {
        let remedy = format!("Write at most {LONGEST} bytes of plain text, and at least one letter.");
        return Err(Fault::failed("bad_name", "a name is empty, too long or not plain text", remedy));
    }
    if category.is_none() && matches!(fact, Fact::Task { .. } | Fact::Feedback { .. }) {
        let message = "a task and what people think of it belong to a category";
        return Err(Fault::failed("category_missing", message, "Name the category the work was in."));
    }
    Ok(())
}

fn level_is_set(agent: &AgentName) -> Fault {
    Fault::refused(
        "level_is_set",
        format!("the level of agent `{agent}` is set in the config, and trust does not move it"),
        "Change the level in the config, or remove it there and choose a trust strategy.",
    )
}

fn not_pending(agent: &AgentName, category: Category, standing: &Standing) -> Fault {
    let level = standing.level(category);
    Fault::refused(
        "not_pending",
        format!("agent `{agent}` is at `{level}` in `{category}`, and no step waits there for a person"),
        format!("Run `toolgate trust evaluate {agent}` to see what is missing."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60 * 1_000;

    #[test]
    fn good_calls_are_written_hourly_and_bad_ones_at_once() {
        let mut count = Count::default();
        assert_eq!(count.take_due(0), None);
        let mut written = Vec::new();
        for (at_ms, ok, failed) in [
            (0, 1, 0),
            (1, 5, 0),
            (HOUR - 1, 5, 0),
            (HOUR, 1, 0),
            (HOUR + 1, 3, 1),
            (HOUR + 2, 1, 1),
            (HOUR + 10_000, 0, 2),
            (HOUR + 10_001, 0, 0),
            (HOUR + 10_002, 2, 1),
        ] {
            count.ok += ok;
            count.failed += failed;
            written.extend(count.take_due(at_ms).map(|taken| (at_ms, taken.ok, taken.failed)));
        }
        assert_eq!(written, [(0, 1, 0), (HOUR, 11, 0), (HOUR + 1, 3, 1), (HOUR + 10_001, 1, 3)]);
        assert_eq!((count.ok, count.failed), (2, 1));
    }
}
