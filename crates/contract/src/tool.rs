//! A tool's declaration. Every field here is enforced by some stage of the road.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;
use serde_json::Value;

use crate::{ActionType, Category, Digest, SafetyClass, digest};

/// The longest name a tool may have.
pub const MAX_NAME: usize = 64;

/// The tool that stands for another one.
pub const CALL_TOOL: &str = "call_tool";
/// The tools that find tools. They tell an agent what it may use and nothing else, so no level is too low for them.
pub const DISCOVERY: [&str; 4] = [CALL_TOOL, "list_tools", "load_tool", "load_tool_resource"];

/// What a tool may do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// It gets no directory.
    None,
    /// It gets the workspace, read-only.
    Read,
    /// It gets the workspace.
    Write,
}

/// What a tool may do with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// It gets no client.
    None,
    /// It gets the fenced client.
    Fenced,
}

/// The hands a tool asks for. It gets these and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Needs {
    /// Files of the workspace.
    pub files: Files,
    /// Other machines.
    pub network: Network,
    /// Starts programs, so it needs a room.
    pub exec: bool,
    /// Uses credentials by reference.
    pub secrets: bool,
    /// What is recorded of the agent's own calls.
    #[serde(skip_serializing_if = "is_false")]
    pub record: bool,
}

impl Needs {
    /// Nothing: a function of its input.
    pub const NOTHING: Needs =
        Needs { files: Files::None, network: Network::None, exec: false, secrets: false, record: false };
    /// Reads the workspace.
    pub const READ_FILES: Needs = Needs { files: Files::Read, ..Needs::NOTHING };
    /// Reads and writes the workspace.
    pub const WRITE_FILES: Needs = Needs { files: Files::Write, ..Needs::NOTHING };

    /// Does it touch nothing at all?
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Does it touch nothing but what this program itself keeps?
    pub fn stays_here(&self) -> bool {
        *self == Self { record: self.record, ..Self::NOTHING }
    }

    /// Can it only run where there is a room? What talks to other machines without a program does so through the
    /// judged client.
    pub fn room(&self) -> bool {
        self.exec
    }
}

/// May the same call be made twice?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Calling again does no harm, or the caller knows.
    None,
    /// A key may be given.
    Optional,
    /// A key must be given.
    Required,
}

/// The tool's own word on who may call it. It can only narrow what the policy permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The policy decides.
    Allow,
    /// A person is asked each time.
    Confirm,
    /// Nobody.
    Deny,
    /// Agents with one of these roles.
    Roles(Vec<Cow<'static, str>>),
    /// When the expression holds (`gate::condition` has the language).
    Condition(Cow<'static, str>),
}

/// What a call costs, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostTier {
    /// Milliseconds of one core.
    Cheap,
    /// Seconds, or a request to somebody.
    Medium,
    /// Minutes, or money.
    Expensive,
}

impl CostTier {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Medium => "medium",
            Self::Expensive => "expensive",
        }
    }
}

/// How much goes in and comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Caps {
    /// Bytes of the arguments as JSON.
    pub input_bytes: usize,
    /// Bytes of text for the model.
    pub output_bytes: usize,
    /// Lines of text for the model.
    pub output_lines: usize,
    /// Entries of a list.
    pub items: usize,
}

impl Caps {
    /// What a tool gets that asks for nothing special.
    pub const DEFAULT: Caps =
        Caps { input_bytes: 1024 * 1024, output_bytes: 50 * 1024, output_lines: 2_000, items: 1_000 };
}

/// A call that works, for the model to learn from. A test runs every one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// What it shows.
    pub title: Cow<'static, str>,
    /// The arguments.
    pub arguments: Value,
}

/// A way it can fail, and what to do then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureMode {
    /// The stable code.
    pub code: Cow<'static, str>,
    /// When it happens and what helps.
    pub when: Cow<'static, str>,
}

/// Something longer to read about a tool, on request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guide {
    /// Its name, unique in the tool.
    pub id: Cow<'static, str>,
    /// What it is about.
    pub title: Cow<'static, str>,
    /// What kind of text it is.
    pub kind: GuideKind,
    /// What it says.
    pub content: Cow<'static, str>,
}

/// What kind of text a guide is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuideKind {
    /// Prose.
    Markdown,
    /// Code.
    Code,
    /// A JSON Schema.
    Schema,
    /// Calls and what came of them.
    ExampleTrace,
}

impl GuideKind {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Code => "code",
            Self::Schema => "schema",
            Self::ExampleTrace => "example_trace",
        }
    }
}

/// What a tool is.
#[derive(Debug, Clone, Serialize)]
pub struct ToolDef {
    /// `[a-z0-9_]`, at most [`MAX_NAME`].
    pub name: Cow<'static, str>,
    /// One line.
    pub summary: Cow<'static, str>,
    /// All the model needs to use it well.
    pub description: Cow<'static, str>,
    /// JSON Schema 2020-12 of the arguments. From the input type; set by `Tool::typed`.
    pub input_schema: Value,
    /// JSON Schema 2020-12 of the typed output. From the output type; set by `Tool::typed`.
    pub output_schema: Value,
    /// Its kind.
    pub category: Category,
    /// What a call amounts to unless its arguments say otherwise.
    pub action: ActionType,
    /// What it can do at its worst.
    pub safety: SafetyClass,
    /// The hands it gets.
    pub needs: Needs,
    /// May a call be made twice.
    pub idempotency: Idempotency,
    /// Its own word on who may call it.
    pub permission: Permission,
    /// How long a call may take.
    #[serde(serialize_with = "as_millis")]
    pub timeout: Duration,
    /// How many calls may run at once.
    pub concurrency: u32,
    /// How much goes in and comes out.
    pub caps: Caps,
    /// What a call costs.
    pub cost: CostTier,
    /// Calls that work.
    pub examples: Vec<Example>,
    /// Ways it fails.
    pub failures: Vec<FailureMode>,
    /// More to read, on request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guides: Vec<Guide>,
}

impl Default for ToolDef {
    /// A declaration that says nothing gets the strictest reading: privileged, so two people are asked.
    fn default() -> Self {
        Self {
            name: Cow::Borrowed(""),
            summary: Cow::Borrowed(""),
            description: Cow::Borrowed(""),
            input_schema: Value::Bool(false),
            output_schema: Value::Bool(true),
            category: Category::Mcp,
            action: ActionType::ToolCreate,
            safety: SafetyClass::Privileged,
            needs: Needs::NOTHING,
            idempotency: Idempotency::None,
            permission: Permission::Allow,
            timeout: Duration::from_secs(30),
            concurrency: 16,
            caps: Caps::DEFAULT,
            cost: CostTier::Cheap,
            examples: Vec::new(),
            failures: Vec::new(),
            guides: Vec::new(),
        }
    }
}

impl ToolDef {
    /// Does it find tools, and nothing else? A name alone is no claim to that.
    pub fn finds_tools(&self) -> bool {
        DISCOVERY.contains(&&*self.name) && self.needs.is_nothing() && self.safety == SafetyClass::Read
    }

    /// Is a call of it a call of another tool?
    pub fn stands_for_another(&self) -> bool {
        self.name == CALL_TOOL && self.finds_tools()
    }

    /// The hash of the whole definition: change any field, and it is another tool.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        digest(self)
    }
}

/// A hand that came later is told only where it is wanted: a definition without it has the hash it always had.
fn is_false(wanted: &bool) -> bool {
    !wanted
}

fn as_millis<S: serde::Serializer>(timeout: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
}
