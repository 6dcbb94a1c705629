//! Downgrades: an agent that goes wrong asks more, until a person lets go.

use serde::Serialize;
use toolgate_contract::{ActionRegistry, LatchKind};

use crate::{Agent, Autonomy, Preset, Sourced};

/// What holds an agent back, and how far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Downgrades {
    /// Too much of what it did last went wrong; none looks at no errors.
    pub error_rate: Option<Sourced<ErrorRate>>,
    /// It has used up what it was given.
    pub budget_exhausted: Sourced<Preset>,
    /// It did, or was made to do, what it must not.
    pub security_incident: Sourced<Preset>,
}

/// How much may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorRate {
    /// More than this share.
    pub over: f64,
    /// Of so many calls.
    pub of_last: usize,
    /// Then it is held to this.
    pub to: Preset,
}

impl Default for Downgrades {
    fn default() -> Self {
        Self {
            error_rate: None,
            budget_exhausted: Sourced::built_in(Preset::Supervised),
            security_incident: Sourced::built_in(Preset::Locked),
        }
    }
}

impl Downgrades {
    /// The agent, held back by what it is latched for.
    pub fn hold(&self, agent: &Agent, latches: &[LatchKind], actions: &ActionRegistry) -> Agent {
        let mut held = agent.clone();
        for kind in latches {
            let to = match kind {
                LatchKind::ErrorRate => {
                    let Some(rate) = &self.error_rate else { continue };
                    Sourced { value: rate.value.to, source: rate.source.clone() }
                }
                LatchKind::BudgetExhausted => self.budget_exhausted.clone(),
                LatchKind::SecurityIncident => self.security_incident.clone(),
            };
            let bound = held.autonomy.value.and(&Autonomy::preset(to.value, actions));
            if bound != held.autonomy.value {
                held.autonomy = Sourced { value: bound, source: to.source };
            }
        }
        held
    }

    /// Do these ends of calls, the last one last, hold an agent back? `true` is one that went wrong.
    pub fn too_many_errors(&self, ends: &[bool]) -> bool {
        let Some(rate) = &self.error_rate else { return false };
        let Some(last) = ends.len().checked_sub(rate.value.of_last).and_then(|from| ends.get(from..)) else {
            return false;
        };
        let wrong = last.iter().filter(|wrong| **wrong).count();
        wrong as f64 > rate.value.over * last.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{AgentName, Level};

    use super::*;

    fn agent(preset: Preset) -> Agent {
        let mut agent = Agent::at(AgentName::from("probe"), Sourced::built_in(Level::Standard));
        agent.autonomy.value = Autonomy::preset(preset, &ActionRegistry::default());
        agent
    }

    #[test]
    fn a_latch_only_tightens() {
        let check = |from: Preset, latches: &[LatchKind], expected: Preset| {
            let held = Downgrades::default().hold(&agent(from), latches, &ActionRegistry::default());
            assert_eq!(
                held.autonomy.value,
                Autonomy::preset(expected, &ActionRegistry::default()),
                "{from} {latches:?}"
            );
        };
        check(Preset::Full, &[], Preset::Full);
        check(Preset::Full, &[LatchKind::BudgetExhausted], Preset::Supervised);
        check(Preset::Locked, &[LatchKind::BudgetExhausted], Preset::Locked);
        check(Preset::Semi, &[LatchKind::SecurityIncident, LatchKind::BudgetExhausted], Preset::Locked);
        // Nothing was said about errors, so they hold nobody back.
        check(Preset::Full, &[LatchKind::ErrorRate], Preset::Full);
    }

    #[test]
    fn errors_count_once_there_are_enough_calls() {
        let rate = ErrorRate { over: 0.5, of_last: 4, to: Preset::Supervised };
        let rules = Downgrades { error_rate: Some(Sourced::built_in(rate)), ..Downgrades::default() };
        let check = |ends: &[bool], expected: bool| assert_eq!(rules.too_many_errors(ends), expected, "{ends:?}");
        check(&[true, true, true], false);
        check(&[true, true, false, false], false);
        check(&[true, true, true, false], true);
        check(&[true, true, true, false, false, false], false);
        assert!(!Downgrades::default().too_many_errors(&[true; 100]));
    }
}
