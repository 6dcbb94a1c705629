//! The catalog: the tools there are, each checked once when it is registered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolgate_contract::{Digest, Fault, FaultKind, Files, MAX_NAME, Network, Permission, SafetyClass, ToolDef};
use toolgate_gate::{Word, condition::Condition};
use toolgate_guard::{
    definition::{self, Definition, Found},
    injection::Verdict,
    names::{self, Why},
};
use toolgate_tools::{Tool, Work};

use crate::{definitions::rules, schema::Schema};

/// A registered tool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tool: Tool,
    /// Who offers it; none for a tool of our own.
    pub(crate) origin: Option<String>,
    /// It gives results as another server wrote them.
    pub(crate) relayed: bool,
    /// Its calls go to a program beside the runtime, whose walls are its own room's.
    pub(crate) beside: bool,
    /// As its origin wrote it; none for a tool of our own.
    pub(crate) written: Option<Arc<Definition>>,
    /// What the guard says about its definition.
    pub(crate) findings: Vec<Found>,
    pub(crate) digest: Digest,
    /// Its own word on who may call it.
    pub(crate) word: Word,
    pub(crate) input: Schema,
    pub(crate) output: Schema,
    /// Slots for calls that run at once.
    pub(crate) slots: Arc<Semaphore>,
    /// How many tokens its definition takes, once somebody wanted to know.
    pub(crate) tokens: OnceLock<usize>,
}

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tool `{tool}` cannot be registered: {why}")]
pub struct BadTool {
    /// Its name.
    pub tool: String,
    /// Stable: `bad_name`, `duplicate_name`, `confusable_name`, `bad_definition`, `bad_schema` or `bad_declaration`.
    pub code: &'static str,
    /// One sentence.
    pub why: String,
}

/// The tools there are. Cheap to clone: registering makes a new catalog, calls under way keep theirs.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    tools: BTreeMap<String, Arc<Entry>>,
    /// Tools of others that are not to be called, with what is answered instead.
    held: BTreeMap<String, Held>,
    /// What servers are asked for that is no tool. They are called, and shown in no list.
    questions: BTreeMap<String, Arc<Entry>>,
}

#[derive(Clone)]
struct Held {
    origin: String,
    refusal: Fault,
}

/// A tool of somebody else on its way into the catalog: what is called by its name, or why nothing is.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) entry: Result<Arc<Entry>, Fault>,
}

impl Catalog {
    /// Adds a tool of our own, or says why not.
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
        let mut entry = Entry::of(tool, None)?;
        // Those that ship are looked at by a test, once for everybody.
        if !is_built_in(&entry.digest) {
            entry.findings = definition::scan(&described(&entry.tool.def));
        }
        match definition::verdict(&entry.findings) {
            Verdict::Malicious => {
                let why = format!("its definition says what none has a reason to say: {}", rules(&entry.findings));
                return Err(bad("bad_definition", why));
            }
            Verdict::Suspicious => {
                tracing::warn!("the definition of tool `{name}` is suspicious: {}", rules(&entry.findings));
            }
            Verdict::Clean => {}
        }
        self.tools.insert(name, Arc::new(entry));
        Ok(())
    }

    /// The catalog with this of an origin and nothing else of it.
    pub(crate) fn with_offer(&self, origin: &str, rows: &[Row]) -> Self {
        let mut catalog = self.clone();
        catalog.tools.retain(|_, entry| entry.origin.as_deref() != Some(origin));
        catalog.held.retain(|_, held| held.origin != origin);
        for Row { name, entry } in rows {
            match entry {
                Ok(entry) => _ = catalog.tools.insert(name.clone(), entry.clone()),
                Err(refusal) => {
                    let held = Held { origin: origin.to_owned(), refusal: refusal.clone() };
                    catalog.held.insert(name.clone(), held);
                }
            }
        }
        catalog
    }

    /// The catalog with these questions to an origin and no others.
    pub(crate) fn with_questions(&self, origin: &str, entries: &[Arc<Entry>]) -> Self {
        let mut catalog = self.clone();
        catalog.questions.retain(|_, entry| entry.origin.as_deref() != Some(origin));
        catalog.questions.extend(entries.iter().map(|entry| (entry.tool.def.name.to_string(), entry.clone())));
        catalog
    }

    /// The tool of somebody else, or of our own, that this one would be taken for by its whole name.
    pub(crate) fn taken_for(&self, entry: &Entry) -> Option<(String, Why)> {
        let name = &*entry.tool.def.name;
        let others = self.tools.values().filter(|other| other.origin != entry.origin);
        others
            .map(|other| &*other.tool.def.name)
            .find_map(|other| Some((other.to_owned(), names::collide(name, other)?)))
    }

    /// The tool of this name, or the question, if there is one that can be called.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.tools.get(name).or_else(|| self.questions.get(name))
    }

    /// The same for a call: a tool that is held back is a refusal.
    pub(crate) fn find(&self, name: &str) -> Result<Option<&Arc<Entry>>, Fault> {
        match (self.get(name), self.held.get(name)) {
            (None, Some(held)) => Err(held.refusal.clone()),
            (entry, _) => Ok(entry),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tools.values()
    }
}

impl Entry {
    /// Is it, to the last letter, a tool that ships?
    pub(crate) fn ships(&self) -> bool {
        is_built_in(&self.digest)
    }

    /// A tool whose declaration holds, with its schemas compiled.
    pub(crate) fn of(tool: Tool, origin: Option<String>) -> Result<Self, BadTool> {
        let bad = |code, why| BadTool { tool: tool.def.name.to_string(), code, why };
        consistent(&tool).map_err(|why| bad("bad_declaration", why))?;
        let input =
            Schema::compile(&tool.def.input_schema).map_err(|why| bad("bad_schema", format!("input: {why}")))?;
        let output =
            Schema::compile(&tool.def.output_schema).map_err(|why| bad("bad_schema", format!("output: {why}")))?;
        let digest = tool.def.digest().map_err(|error| bad("bad_declaration", error.to_string()))?;
        let slots = Arc::new(Semaphore::new(usize::try_from(tool.def.concurrency).unwrap_or(Semaphore::MAX_PERMITS)));
        let word = tool.def.permission.clone().into();
        Ok(Self {
            tool,
            origin,
            relayed: false,
            beside: false,
            written: None,
            findings: Vec::new(),
            digest,
            word,
            input,
            output,
            slots,
            tokens: OnceLock::new(),
        })
    }
}

/// The hashes of the tools that ship, once somebody has asked for those.
static BUILT_IN: OnceLock<BTreeSet<Digest>> = OnceLock::new();

/// The tools that ship.
pub(crate) fn built_in_tools() -> Vec<Tool> {
    let tools: Vec<Tool> = toolgate_tools::TOOLS.iter().map(|tool| tool()).collect();
    BUILT_IN.get_or_init(|| tools.iter().filter_map(|tool| tool.def.digest().ok()).collect());
    tools
}

/// Is this, to the last letter, the definition of a tool that ships?
fn is_built_in(digest: &Digest) -> bool {
    BUILT_IN.get().is_some_and(|known| known.contains(digest))
}

/// All of a declaration that a model may get to read.
fn described(def: &ToolDef) -> Value {
    json!({
        "name": def.name,
        "title": def.summary,
        "description": def.description,
        "inputSchema": def.input_schema,
        "outputSchema": def.output_schema,
        "examples": def.examples,
        "failures": def.failures,
        "guides": def.guides,
    })
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// A declaration that contradicts itself could be read the weaker way, so it is not taken at all.
fn consistent(tool: &Tool) -> Result<(), String> {
    let def = &tool.def;
    if matches!(tool.work, Work::Instant(_)) && !def.needs.is_nothing() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_says_nothing_that_a_definition_has_no_reason_to_say() {
        for tool in built_in_tools() {
            assert_eq!(definition::scan(&described(&tool.def)), [], "{}", tool.def.name);
        }
    }
}
