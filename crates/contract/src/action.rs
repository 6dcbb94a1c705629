//! Action types: what a call amounts to, as `category:action`.
//!
//! Forty-one are built in; an operator registers more. Policies name them one by one, by category (`code` is every
//! `code:*`) or as `all`. A name nobody registered is an error where it is read, never a rule that matches nothing:
//! a typo in a list of things to ask about must not turn into "do not ask".

use std::{collections::BTreeMap, collections::BTreeSet, fmt, sync::Arc};

use serde::{Serialize, Serializer};

use crate::{Category, Risk, nearest};

macro_rules! actions {
    ($($variant:ident $name:literal $risk:ident $home:ident,)*) => {
        /// What a call amounts to.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ActionType {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// One an operator registered.
            Custom(Arc<str>),
        }

        impl ActionType {
            /// Every built-in action, in the order of the reference.
            pub const BUILT_IN: &'static [ActionType] = &[$(ActionType::$variant,)*];

            /// The name policies and records use.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Custom(name) => name,
                }
            }

            fn built_in_risk(&self) -> Option<Risk> {
                match self {
                    $(Self::$variant => Some(Risk::$risk),)*
                    Self::Custom(_) => None,
                }
            }

            /// The category a tool with this action usually has; none for custom ones.
            pub fn home(&self) -> Option<Category> {
                match self {
                    $(Self::$variant => Some(Category::$home),)*
                    Self::Custom(_) => None,
                }
            }
        }
    };
}

actions! {
    CodeRead "code:read" Low FileSystem,
    CodeWrite "code:write" Medium FileSystem,
    CodeCreate "code:create" Medium FileSystem,
    CodeDelete "code:delete" High FileSystem,
    CodeRefactor "code:refactor" Medium FileSystem,
    TestWrite "test:write" Low FileSystem,
    TestRun "test:run" Low CodeExecution,
    DocsWrite "docs:write" Low FileSystem,
    VcsRead "vcs:read" Low VersionControl,
    VcsCommit "vcs:commit" Medium VersionControl,
    VcsPush "vcs:push" High VersionControl,
    VcsBranch "vcs:branch" Low VersionControl,
    DeployStaging "deploy:staging" High Deployment,
    DeployProduction "deploy:production" Critical Deployment,
    CommsInternal "comms:internal" Low Communication,
    CommsExternal "comms:external" High Web,
    BudgetSpend "budget:spend" Medium Analytics,
    BudgetExceed "budget:exceed" High Analytics,
    OrgHire "org:hire" Medium Communication,
    OrgFire "org:fire" Critical Communication,
    OrgPromote "org:promote" Medium Communication,
    DbQuery "db:query" Low Database,
    DbMutate "db:mutate" High Database,
    DbAdmin "db:admin" Critical Database,
    ArchDecide "arch:decide" Medium Design,
    ToolCreate "tool:create" High Mcp,
    MemoryRead "memory:read" Low Memory,
    KnowledgeIngest "knowledge:ingest" Medium Memory,
    KnowledgeReindex "knowledge:reindex" Medium Memory,
    BrowserNavigate "browser:navigate" Medium Browser,
    BrowserScreenshot "browser:screenshot" Low Browser,
    BrowserDiff "browser:diff" Low Browser,
    BrowserAccessibilityScan "browser:accessibility_scan" Low Browser,
    BrowserSpec "browser:spec" Medium Browser,
    ExternalDataRequest "external_data:request" Medium ExternalData,
    DesktopLaunch "desktop:launch" Medium Desktop,
    DesktopClick "desktop:click" Medium Desktop,
    DesktopType "desktop:type" Medium Desktop,
    DesktopKey "desktop:key" Medium Desktop,
    DesktopScreenshot "desktop:screenshot" Low Desktop,
    DesktopScroll "desktop:scroll" Low Desktop,
}

impl ActionType {
    /// The part before the colon: what the category shortcut expands.
    pub fn group(&self) -> &str {
        self.as_str().split(':').next().unwrap_or_default()
    }
}

impl fmt::Display for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ActionType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// An action name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAction {
    /// Nobody registered it.
    #[error("unknown action type `{given}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    Unknown {
        /// As written.
        given: String,
        /// The registered name closest to it.
        nearest: Option<String>,
    },
    /// It is registered already.
    #[error("action type `{0}` is registered already")]
    Taken(String),
    /// It does not look like `category:action`.
    #[error("`{0}` is not an action type; write `category:action` in lower case, such as `payroll:run`")]
    Malformed(String),
}

/// The built-in actions and those an operator added.
#[derive(Debug, Clone, Default)]
pub struct ActionRegistry {
    custom: BTreeMap<Arc<str>, Risk>,
}

impl ActionRegistry {
    /// Adds an action of the operator's own. Its group may be a new one.
    pub fn register(&mut self, name: &str, risk: Risk) -> Result<ActionType, BadAction> {
        let part = |s: &str| {
            s.len() <= 64
                && s.starts_with(|c: char| c.is_ascii_lowercase())
                && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if !name.split_once(':').is_some_and(|(group, action)| part(group) && part(action)) {
            return Err(BadAction::Malformed(name.to_owned()));
        }
        if self.get(name).is_some() {
            return Err(BadAction::Taken(name.to_owned()));
        }
        let name: Arc<str> = name.into();
        self.custom.insert(name.clone(), risk);
        Ok(ActionType::Custom(name))
    }

    /// Every action there is, built-in ones first.
    pub fn all(&self) -> impl Iterator<Item = ActionType> + '_ {
        ActionType::BUILT_IN.iter().cloned().chain(self.custom.keys().cloned().map(ActionType::Custom))
    }

    /// One action by its full name.
    pub fn parse(&self, name: &str) -> Result<ActionType, BadAction> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    /// What one entry of a policy list stands for: an action, a group, or `all`.
    pub fn expand(&self, entry: &str) -> Result<BTreeSet<ActionType>, BadAction> {
        if entry == "all" {
            return Ok(self.all().collect());
        }
        if let Some(action) = self.get(entry) {
            return Ok([action].into());
        }
        let group: BTreeSet<_> = self.all().filter(|action| action.group() == entry).collect();
        if group.is_empty() { Err(self.unknown(entry)) } else { Ok(group) }
    }

    /// How much is at stake. A custom action says so when it is registered; one that was not is taken as high.
    pub fn risk(&self, action: &ActionType) -> Risk {
        match action {
            ActionType::Custom(name) => self.custom.get(name).copied().unwrap_or(Risk::High),
            built_in => built_in.built_in_risk().unwrap_or(Risk::High),
        }
    }

    fn get(&self, name: &str) -> Option<ActionType> {
        self.all().find(|action| action.as_str() == name)
    }

    fn unknown(&self, given: &str) -> BadAction {
        let mut known: BTreeSet<String> = self.all().map(|a| a.group().to_owned()).collect();
        known.extend(self.all().map(|a| a.as_str().to_owned()));
        known.insert("all".to_owned());
        BadAction::Unknown { given: given.to_owned(), nearest: nearest(given, known.iter().map(String::as_str)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_forty_one_built_in_actions_with_distinct_names() {
        let names: BTreeSet<_> = ActionType::BUILT_IN.iter().map(ActionType::as_str).collect();
        assert_eq!((ActionType::BUILT_IN.len(), names.len()), (41, 41));
    }

    #[test]
    fn a_group_expands_to_all_its_actions() {
        let code: Vec<_> = ActionRegistry::default().expand("code").unwrap().into_iter().collect();
        assert_eq!(
            code,
            [
                ActionType::CodeRead,
                ActionType::CodeWrite,
                ActionType::CodeCreate,
                ActionType::CodeDelete,
                ActionType::CodeRefactor
            ]
        );
    }

    #[test]
    fn all_expands_to_everything_custom_ones_included() {
        let mut registry = ActionRegistry::default();
        let payroll = registry.register("payroll:run", Risk::Critical).unwrap();
        let all = registry.expand("all").unwrap();
        assert_eq!(all.len(), 42);
        assert!(all.contains(&payroll));
        assert_eq!(registry.expand("payroll").unwrap(), [payroll.clone()].into());
        assert_eq!(registry.risk(&payroll), Risk::Critical);
    }

    #[test]
    fn a_typo_is_an_error_that_names_the_nearest() {
        let error = ActionRegistry::default().expand("code:wirte").unwrap_err();
        assert_eq!(error, BadAction::Unknown { given: "code:wirte".into(), nearest: Some("code:write".into()) });
        let error = ActionRegistry::default().expand("deply").unwrap_err();
        assert_eq!(error, BadAction::Unknown { given: "deply".into(), nearest: Some("deploy".into()) });
    }

    #[test]
    fn a_custom_action_needs_two_lower_case_parts_and_a_free_name() {
        let mut registry = ActionRegistry::default();
        for bad in ["payroll", "Payroll:run", "payroll:", ":run", "a:b:c", "pay roll:run", ""] {
            assert_eq!(registry.register(bad, Risk::Low), Err(BadAction::Malformed(bad.into())), "{bad}");
        }
        assert_eq!(registry.register("code:read", Risk::Low), Err(BadAction::Taken("code:read".into())));
    }
}
