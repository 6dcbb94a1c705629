//! What a server says it has: all pages of every list, and no more than anybody would want.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Map, Value, json};
use toolgate_runtime::{
    config::Offers,
    definitions::{Definition, MOST_TOOLS, Wares},
};

use super::{link::Link, peer::Trouble};

/// Pages of one list. A server that needs more has them wrong.
const MOST_PAGES: usize = 100;
/// Entries of a list that is no list of tools.
const MOST_ENTRIES: usize = 2_000;

/// What a server lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The definitions, as the server wrote them.
    pub tools: Vec<Definition>,
    /// Entries that are no definitions.
    pub unreadable: usize,
    /// What it has beside tools.
    pub wares: Wares,
    /// Lists that could not be had, and why. A server that lists no tools is of no use; one whose other lists are broken is.
    pub missing: BTreeMap<&'static str, String>,
}

/// Asks for everything a server offers and is to be taken from it. A list that goes in circles, or on and on, is no list at
/// all.
pub async fn list(link: &Link, offers: &BTreeSet<Offers>, patience: Duration) -> Result<Listing, Trouble> {
    let mut listing = Listing::default();
    let has = |kind: Offers| link.greeting().capabilities[kind.as_str()].is_object();
    // Servers that say nothing of tools have them all the same, unless they say what they have instead.
    let has_tools = has(Offers::Tools) || !(has(Offers::Prompts) || has(Offers::Resources));
    if offers.contains(&Offers::Tools) && has_tools {
        for tool in pages(link, &TOOLS, patience).await? {
            match Definition::read(&tool) {
                Some(definition) => listing.tools.push(definition),
                None => listing.unreadable += 1,
            }
        }
    }
    let Listing { wares: Wares { prompts, resources, templates }, missing, .. } = &mut listing;
    let others = [
        (Offers::Prompts, &PROMPTS, prompts),
        (Offers::Resources, &RESOURCES, resources),
        (Offers::Resources, &TEMPLATES, templates),
    ];
    for (kind, list, entries) in others {
        if !offers.contains(&kind) || !has(kind) {
            continue;
        }
        match pages(link, list, patience).await {
            Ok(all) => *entries = all,
            Err(Trouble::Gone) => return Err(Trouble::Gone),
            // Not every server that has resources knows of templates.
            Err(Trouble::Refused { code: METHOD_NOT_FOUND, .. }) => {}
            Err(trouble) => _ = missing.insert(list.what, trouble.to_string()),
        }
    }
    Ok(listing)
}

/// The number JSON-RPC has for a method that is not there.
const METHOD_NOT_FOUND: i64 = -32601;

/// A list that servers have.
struct List {
    method: &'static str,
    /// Where a page has its entries.
    key: &'static str,
    what: &'static str,
    most: usize,
}

const TOOLS: List = List { method: "tools/list", key: "tools", what: "tools", most: MOST_TOOLS };
const PROMPTS: List = List { method: "prompts/list", key: "prompts", what: "prompts", most: MOST_ENTRIES };
const RESOURCES: List = List { method: "resources/list", key: "resources", what: "resources", most: MOST_ENTRIES };
const TEMPLATES: List =
    List { method: "resources/templates/list", key: "resourceTemplates", what: "templates", most: MOST_ENTRIES };

async fn pages(link: &Link, list: &List, patience: Duration) -> Result<Vec<Value>, Trouble> {
    let List { method, key, what, most } = *list;
    let unusable = |why: String| Trouble::Unusable(format!("its list of {what} {why}"));
    let mut entries = Vec::new();
    let (mut cursor, mut seen): (Option<String>, BTreeSet<String>) = (None, BTreeSet::new());
    for _ in 0..MOST_PAGES {
        let params: Map<String, Value> = cursor.iter().map(|cursor| ("cursor".to_owned(), json!(cursor))).collect();
        let mut page = link.ask(method, params, patience).await?;
        let Some(Value::Array(more)) = page.get_mut(key).map(Value::take) else {
            return Err(unusable("is none".to_owned()));
        };
        if entries.len() + more.len() > most {
            return Err(unusable(format!("has more than {most}")));
        }
        entries.extend(more);
        // Servers that have no more to give say so by an empty cursor too.
        let Some(next) = page["nextCursor"].as_str().filter(|next| !next.is_empty()) else { return Ok(entries) };
        if !seen.insert(next.to_owned()) {
            return Err(unusable("goes in circles".to_owned()));
        }
        cursor = Some(next.to_owned());
    }
    Err(unusable(format!("has more than {MOST_PAGES} pages")))
}
