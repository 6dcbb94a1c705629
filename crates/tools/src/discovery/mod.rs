//! Finding out what there is: where a catalog is too long to be read before the work begins, an agent sees a line for each
//! tool and asks for the rest.

pub(crate) mod call_tool;
pub(crate) mod list_tools;
pub(crate) mod load_tool;
pub(crate) mod load_tool_resource;

use std::{borrow::Cow, time::Duration};

use toolgate_contract::{ActionType, Caps, Category, SafetyClass, ToolDef};

/// What the four have in common: they touch nothing but the list of tools, so whoever may use any tool may use them.
fn def(name: &'static str, summary: &'static str, description: &'static str) -> ToolDef {
    ToolDef {
        name: Cow::Borrowed(name),
        summary: Cow::Borrowed(summary),
        description: Cow::Borrowed(description),
        category: Category::Memory,
        action: ActionType::MemoryRead,
        safety: SafetyClass::Read,
        timeout: Duration::from_secs(5),
        // A definition is told whole: what bounds it is the budget, in tokens.
        caps: Caps { output_bytes: 1024 * 1024, output_lines: 20_000, ..Caps::DEFAULT },
        ..ToolDef::default()
    }
}
