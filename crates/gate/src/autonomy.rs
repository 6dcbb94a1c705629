//! Autonomy: what an agent does without asking.
//!
//! It comes after everything else has said yes and can only turn that yes into a question. An action on neither list asks
//! too: a type that is added later must not slip through because no list knows it.

use std::collections::BTreeSet;

use serde::Serialize;
use toolgate_contract::{ActionRegistry, ActionType, scale};

scale! {
    /// The presets. Later is stricter: what one asks about, the next asks about as well.
    Preset {
        /// Everything that is permitted is done.
        Full = "full",
        /// Development is done; deploying, spending, hiring and speaking to the outside are asked about.
        Semi = "semi",
        /// Looking and testing are done.
        Supervised = "supervised",
        /// Nothing is done unasked.
        Locked = "locked",
    }
}

impl Preset {
    /// What it does unasked, and what it names as a person's.
    fn lists(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Full => (&["all"], &[]),
            Self::Semi => (
                &["code", "test", "docs", "vcs", "comms:internal", "db:query"],
                &["deploy", "org", "budget", "comms:external", "tool"],
            ),
            Self::Supervised => (
                &["code:read", "vcs:read", "test:run", "db:query"],
                &["deploy", "org", "budget", "comms", "tool", "db:mutate", "db:admin", "vcs:push"],
            ),
            Self::Locked => (&[], &["all"]),
        }
    }
}

/// What one agent does unasked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Autonomy {
    /// The preset, or what the operator calls it.
    pub name: String,
    /// Done.
    pub auto: BTreeSet<ActionType>,
    /// Asked about, and named as such.
    pub human: BTreeSet<ActionType>,
}

impl Autonomy {
    /// A preset, over the actions there are.
    pub fn preset(preset: Preset, actions: &ActionRegistry) -> Self {
        let (auto, human) = preset.lists();
        let expand =
            |entries: &[&str]| entries.iter().flat_map(|entry| actions.expand(entry).unwrap_or_default()).collect();
        Self { name: preset.as_str().to_owned(), auto: expand(auto), human: expand(human) }
    }

    /// Why this action is asked about; none if it is not.
    pub(crate) fn asks(&self, action: &ActionType) -> Option<String> {
        if self.auto.contains(action) {
            return None;
        }
        let why = match self.human.contains(action) {
            true => "leaves it to a person",
            false => "does not name it, so a person is asked",
        };
        Some(format!("action `{action}`: autonomy `{}` {why}", self.name))
    }

    /// Does it do nothing unasked that the other asks about?
    pub fn is_within(&self, other: &Self) -> bool {
        self.auto.is_subset(&other.auto)
    }

    /// What both do unasked.
    pub fn and(&self, other: &Self) -> Self {
        if self.is_within(other) || other.is_within(self) {
            return if self.is_within(other) { self.clone() } else { other.clone() };
        }
        Self {
            name: format!("{} and {}", self.name, other.name),
            auto: self.auto.intersection(&other.auto).cloned().collect(),
            human: self.human.union(&other.human).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(preset: Preset) -> Autonomy {
        Autonomy::preset(preset, &ActionRegistry::default())
    }

    #[test]
    fn each_preset_does_less_than_the_one_before() {
        for pair in Preset::ALL.windows(2) {
            let (looser, stricter) = (preset(pair[0]), preset(pair[1]));
            assert!(stricter.is_within(&looser) && !looser.is_within(&stricter), "{pair:?}");
        }
    }

    #[test]
    fn no_preset_names_an_action_twice_nor_one_that_does_not_exist() {
        for one in Preset::ALL {
            let (auto, human) = one.lists();
            for entry in auto.iter().chain(human) {
                assert!(ActionRegistry::default().expand(entry).is_ok(), "{entry}");
            }
            assert!(preset(*one).auto.is_disjoint(&preset(*one).human), "{one}");
        }
    }

    #[test]
    fn what_no_list_names_is_asked_about() {
        let semi = preset(Preset::Semi);
        assert_eq!(semi.asks(&ActionType::CodeWrite), None);
        assert!(semi.asks(&ActionType::DbMutate).unwrap().contains("does not name it"));
        assert!(semi.asks(&ActionType::DeployStaging).unwrap().contains("leaves it to a person"));
        let own = ActionType::Custom("payroll:run".into());
        assert!(semi.asks(&own).is_some() && preset(Preset::Full).asks(&own).is_some());
    }

    #[test]
    fn two_together_do_what_both_do() {
        let both = preset(Preset::Semi).and(&preset(Preset::Supervised));
        assert_eq!(both, preset(Preset::Supervised));
        let own = Autonomy {
            name: "own".into(),
            auto: [ActionType::CodeRead, ActionType::DeployStaging].into(),
            human: BTreeSet::new(),
        };
        assert_eq!(preset(Preset::Semi).and(&own).auto, [ActionType::CodeRead].into());
    }
}
