//! The tools a server says it has: all pages of them, and no more than anybody would want.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use toolgate_runtime::definitions::{Definition, MOST_TOOLS};

use super::{link::Link, peer::Trouble};

/// Pages of one list. A server that needs more has them wrong.
const MOST_PAGES: usize = 100;

/// What a server lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The definitions, as the server wrote them.
    pub tools: Vec<Definition>,
    /// Entries that are no definitions.
    pub unreadable: usize,
}

/// Asks for all of a server's tools. A list that goes in circles, or on and on, is no list at all.
pub async fn list(link: &Link, patience: Duration) -> Result<Listing, Trouble> {
    let mut listing = Listing::default();
    let (mut cursor, mut seen): (Option<String>, BTreeSet<String>) = (None, BTreeSet::new());
    for _ in 0..MOST_PAGES {
        let params: Map<String, Value> = cursor.iter().map(|cursor| ("cursor".to_owned(), json!(cursor))).collect();
        let page = link.ask("tools/list", params, patience).await?;
        listing.add(&page)?;
        let Some(next) = page["nextCursor"].as_str() else { return Ok(listing) };
        if !seen.insert(next.to_owned()) {
            return Err(Trouble::Unusable("its list of tools goes in circles".to_owned()));
        }
        cursor = Some(next.to_owned());
    }
    Err(Trouble::Unusable(format!("its list of tools has more than {MOST_PAGES} pages")))
}

impl Listing {
    fn add(&mut self, page: &Value) -> Result<(), Trouble> {
        let Some(tools) = page["tools"].as_array() else {
            return Err(Trouble::Unusable("its list of tools is none".to_owned()));
        };
        if self.tools.len() + self.unreadable + tools.len() > MOST_TOOLS {
            return Err(Trouble::Unusable(format!("it lists more than {MOST_TOOLS} tools")));
        }
        for tool in tools {
            match definition(tool) {
                Some(definition) => self.tools.push(definition),
                None => self.unreadable += 1,
            }
        }
        Ok(())
    }
}

/// A definition, if it has the parts of one. What else is in it nobody here is shown, so nobody has to agree to it.
fn definition(tool: &Value) -> Option<Definition> {
    let text = |key: &str| match &tool[key] {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone())),
        _ => None,
    };
    let value = |key: &str| tool.get(key).filter(|value| !value.is_null()).cloned();
    Some(Definition {
        name: tool["name"].as_str().filter(|name| !name.is_empty())?.to_owned(),
        title: text("title")?,
        description: text("description")?,
        input_schema: value("inputSchema").filter(Value::is_object)?,
        output_schema: value("outputSchema"),
        annotations: value("annotations"),
    })
}
