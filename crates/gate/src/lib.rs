//! May it run?
//!
//! [`decide`] is a pure function from plain data (a [`Policy`], an [`Agent`], a [`Request`]) to a [`Decision`] with its
//! reasons: no files, no clock, no chance, nothing remembered between calls (`clippy.toml` bars the std ways). The
//! first rule that speaks wins, none means no:
//!
//! 1. **denied**: denied lists, a tool's own permission (deny, roles, condition), what an operator said about a
//!    connection, the agent's constraints, rules about calls that deny, rules about files and hosts, commands;
//! 2. **must ask**: classes and lists a person is asked about, tools that want confirmation, history that
//!    would be lost, connections, files and hosts, commands, rules about calls that ask;
//! 3. **allowed**: allowed lists, and rules about calls that allow;
//! 4. **level**: the categories the agent's access level permits;
//! 5. no.
//!
//! What was allowed may still be asked about: by the level's approval constraint, and by the agent's [`Autonomy`].
//!
//! A [`Permit`] has private fields and is made in one place, so "run without asking" does not compile.

mod agreed;
mod approval;
mod autonomy;
mod command;
pub mod condition;
mod connection;
mod constraint;
mod decide;
mod downgrade;
mod flow;
mod policy;
mod resource;
mod rule;
pub mod trust;

pub use agreed::{Agreed, Asking, Wanted};
pub use approval::{ApprovalRules, Asked, Due, Silence, Step, Tier, Timeout, covers};
pub use autonomy::{Autonomy, Preset};
pub use command::{Meant, OwnRules, read_command};
pub use connection::{ConnectionTerms, OnWrite};
pub use constraint::{CodeIsolation, Constraints, FileScope, GitLevel, NetworkMode, TerminalMode};
pub use decide::{Decision, Permit, Request, decide};
pub use downgrade::{Downgrades, ErrorRate};
pub use flow::{Accepted, FlowAsk, Origin, OriginWanted, Pattern, Sink, asks as flow_asks};
pub use policy::{Agent, FlowMode, LevelRights, Listed, Policy, Rules, Sourced, Word};
pub use resource::{Answer, FileAccess, FileRule, HostRule, Resources, Terrain};
pub use rule::{Rule, RuleBook, ToolName, When};
