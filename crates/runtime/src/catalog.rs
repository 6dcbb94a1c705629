//! The catalog: the tools there are, each checked once when it is registered.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::sync::Semaphore;
use toolgate_contract::{Digest, Fault, FaultKind, Files, MAX_NAME, Network, Permission, SafetyClass};
use toolgate_gate::condition::Condition;
use toolgate_guard::names;
use toolgate_tools::{Pace, Tool};

use crate::schema::Schema;

/// A registered tool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tool: Tool,
    pub(crate) digest: Digest,
    pub(crate) input: Schema,
    pub(crate) output: Schema,
    /// Slots for calls that run at once.
    pub(crate) slots: Arc<Semaphore>,
}

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tool `{tool}` cannot be registered: {why}")]
pub struct BadTool {
    /// Its name.
    pub tool: String,
    /// Stable: `bad_name`, `duplicate_name`, `confusable_name`, `bad_schema` or `bad_declaration`.
    pub code: &'static str,
    /// One sentence.
    pub why: String,
}

/// The tools there are. Cheap to clone: registering makes a new catalog, calls under way keep theirs.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    tools: BTreeMap<String, Arc<Entry>>,
}

impl Catalog {
    /// Adds a tool, or says why not.
    pub(crate) fn register(&mut self, tool: Tool) -> Result<(), BadTool> {
        let name = tool.def.name.to_string();
        let bad = |code, why: String| BadTool { tool: name.clone(), code, why };
        names::admit_name(&name).map_err(|fault| bad("bad_name", fault.message))?;
        debug_assert!(name.len() <= MAX_NAME);
        if self.tools.contains_key(&name) {
            return Err(bad("duplicate_name", "a tool with this name is registered already".into()));
        }
        if let Some((other, why)) = self.tools.keys().find_map(|other| Some((other, names::collide(&name, other)?))) {
            return Err(bad("confusable_name", format!("it can be mistaken for `{other}`: {why}")));
        }
        consistent(&tool).map_err(|why| bad("bad_declaration", why))?;
        let input =
            Schema::compile(&tool.def.input_schema).map_err(|why| bad("bad_schema", format!("input: {why}")))?;
        let output =
            Schema::compile(&tool.def.output_schema).map_err(|why| bad("bad_schema", format!("output: {why}")))?;
        let digest = tool.def.digest().map_err(|error| bad("bad_declaration", error.to_string()))?;
        let slots = Arc::new(Semaphore::new(usize::try_from(tool.def.concurrency).unwrap_or(Semaphore::MAX_PERMITS)));
        self.tools.insert(name, Arc::new(Entry { tool, digest, input, output, slots }));
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.tools.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tools.values()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// A declaration that contradicts itself could be read the weaker way, so it is not taken at all.
fn consistent(tool: &Tool) -> Result<(), String> {
    let def = &tool.def;
    if tool.pace == Pace::Instant && !def.needs.is_nothing() {
        return Err("it says that it is instant, but it needs something to wait for".into());
    }
    if def.concurrency == 0 {
        return Err("`concurrency` is 0, so it could never run".into());
    }
    if def.timeout.is_zero() {
        return Err("`timeout` is 0, so it could never finish".into());
    }
    // This holds for programs too: in the room of a tool that only reads, nobody can write the workspace.
    if def.needs.files == Files::Write && def.safety < SafetyClass::Write {
        return Err("it needs to write files, but its class is `read`".into());
    }
    if def.needs.network != Network::None && def.safety < SafetyClass::Network {
        return Err(format!("it needs the network, but its class is `{}`", def.safety));
    }
    if let Permission::Condition(text) = &def.permission {
        Condition::parse(text).map_err(|error| format!("its condition cannot be read: {error}"))?;
    }
    Ok(())
}

impl From<BadTool> for Fault {
    fn from(bad: BadTool) -> Self {
        Self { kind: FaultKind::Refused, ..Fault::refused(bad.code, bad.to_string(), "Rename or correct the tool.") }
    }
}
