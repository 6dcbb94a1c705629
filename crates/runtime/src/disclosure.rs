//! Progressive disclosure: how much of the catalog a model reads before it asks.
//!
//! A long list of tools eats what a model can keep in mind. So an agent with many tools is shown a line for each (L1), as
//! far as the budget goes, asks for the whole of those it needs (L2), which count against a second budget, and reads longer
//! texts one by one (L3). Nothing is decided here: a tool that was not loaded can be called like any other, and one the
//! agent may not use is on no list.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use toolgate_contract::{AgentName, Category, DISCOVERY, Digest, Fault, Guide, GuideKind, ToolDef, nearest};
use toolgate_guard::clean as hidden;
use toolgate_tools::{Finder, LoadedTool, ToolLine, ToolLines, ToolQuery, ToolResource, ToolResourceLine};

use crate::{
    Listed,
    catalog::{Catalog, Entry},
    config::{Disclosing, DisclosureSettings},
    house::House,
    invoke,
};

/// Below this many tools all are shown, unless the config says otherwise.
const MANY: usize = 30;
/// So many tokens the definitions of more tools than that may take before they are not shown at once. It is not the budget
/// of what is loaded: whoever gives that more room does not want a longer list.
const MOST_TOKENS: usize = 15_000;
/// Where loaded tools are put away, they are down to this share of the budget: rarely and many at once, because whatever a
/// client keeps of a list is worth nothing once it changes.
const DOWN_TO_PERCENT: usize = 50;
/// The longest one line of a tool.
const LINE_CHARS: usize = 200;
/// What every tool has to read besides its guides: the schema of what it returns.
const OUTPUT_SCHEMA: &str = "output_schema";
/// The tool whose description has the line of each tool.
const LIST_TOOLS: &str = "list_tools";

/// How many tokens a model reads, as a common tokenizer counts them. Newer ones count a little less.
pub(crate) fn tokens(text: &str) -> usize {
    // Words of others are counted here, and a long text without a space is hard work: it is counted in pieces, and a cut
    // costs a token at most.
    const PIECE: usize = 4 * 1024;
    let tokenizer = tiktoken_rs::cl100k_base_singleton();
    let (mut count, mut rest) = (0, text);
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.floor_char_boundary(PIECE));
        count += tokenizer.count_ordinary(piece);
        rest = left;
    }
    count
}

/// What a client's list of tools may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolList {
    /// The same for every connection of an agent, as revisions from 2026-07-28 on want it.
    Fixed,
    /// What the agent has loaded as well.
    Growing,
}

/// What an agent is spared by being shown its tools little by little.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spared {
    /// Whether it is.
    pub disclosed: bool,
    /// Tools the agent may use.
    pub tools: usize,
    /// Tools whose whole definition it is shown at first.
    pub shown: Vec<String>,
    /// Tokens the definitions of all of them take.
    pub tokens_of_all: usize,
    /// Tokens of what is shown at first, with the line for each tool.
    pub tokens_shown: usize,
    /// Tokens that need not be read, of a hundred.
    pub saved_percent: usize,
}

/// What each agent has loaded and is at.
#[derive(Debug, Default)]
pub(crate) struct Desks {
    kept: Mutex<BTreeMap<AgentName, Kept>>,
    /// Counts what was loaded and put away.
    pub(crate) changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    loaded: Loaded,
    /// Calls under way, by their tool.
    at_work: BTreeMap<String, usize>,
    /// A line for each tool, and the hash of what they were made from.
    index: Option<(Digest, Arc<str>)>,
}

impl Desks {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<AgentName, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of this tool is under way until the guard is dropped: so long it is not put away, and it is the last to be.
    pub(crate) fn at_work<'a>(&'a self, agent: &'a AgentName, tool: &'a str) -> AtWork<'a> {
        let mut kept = self.kept();
        let kept = kept.entry(agent.clone()).or_default();
        *kept.at_work.entry(tool.to_owned()).or_default() += 1;
        kept.loaded.used(tool);
        AtWork { desks: self, agent, tool }
    }

    /// The tools an agent has loaded, if they are still what they were.
    fn loaded(&self, agent: &AgentName, catalog: &Catalog) -> BTreeSet<String> {
        let mut kept = self.kept();
        let Some(kept) = kept.get_mut(agent) else { return BTreeSet::new() };
        kept.loaded.forget_changed(catalog);
        kept.loaded.0.iter().map(|one| one.tool.clone()).collect()
    }

    /// The index over these tools. It takes longer to make than to look up, and is asked for with every list.
    fn index(&self, agent: &AgentName, entries: &[&Arc<Entry>], budget: usize) -> Arc<str> {
        let names = entries.iter().map(|entry| format!("{} {}\n", entry.tool.def.name, entry.digest));
        let made_from = Digest::of(names.collect::<String>().as_bytes());
        if let Some((known, index)) = self.kept().get(agent).and_then(|kept| kept.index.as_ref())
            && *known == made_from
        {
            return index.clone();
        }
        let lines: Vec<_> = entries.iter().map(|entry| line(entry)).collect();
        let made: Arc<str> = index(&lines, budget).into();
        self.kept().entry(agent.clone()).or_default().index = Some((made_from, made.clone()));
        made
    }
}

/// A call is under way.
pub(crate) struct AtWork<'a> {
    desks: &'a Desks,
    agent: &'a AgentName,
    tool: &'a str,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut kept = self.desks.kept();
        let Some(kept) = kept.get_mut(self.agent) else { return };
        if let Some(calls) = kept.at_work.get_mut(self.tool) {
            *calls -= 1;
        }
        kept.at_work.retain(|_, calls| *calls > 0);
    }
}

/// What one agent has loaded, the least recently used first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Loaded(Vec<One>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct One {
    tool: String,
    definition: Digest,
    tokens: usize,
}

/// There is no room for another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Full {
    /// What there would be.
    tokens: usize,
}

impl Loaded {
    fn tokens(&self) -> usize {
        self.0.iter().map(|one| one.tokens).sum()
    }

    fn used(&mut self, tool: &str) {
        if let Some(at) = self.0.iter().position(|one| one.tool == tool) {
            let one = self.0.remove(at);
            self.0.push(one);
        }
    }

    /// A tool that is another one now, or none, was not loaded.
    fn forget_changed(&mut self, catalog: &Catalog) {
        self.0.retain(|one| catalog.get(&one.tool).is_some_and(|entry| entry.digest == one.definition));
    }

    /// Puts a tool on the desk and says which were put away for it. When there is no room nothing changes.
    fn load(
        &mut self,
        new: One,
        settings: &DisclosureSettings,
        is_at_work: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Full> {
        let budget = settings.l2_token_budget;
        let mut after = self.clone();
        after.0.retain(|one| one.tool != new.tool);
        let mut total = after.tokens() + new.tokens;
        let mut gone = Vec::new();
        let pressure = budget * usize::from(settings.unload_threshold_percent) / 100;
        if settings.auto_unload && total >= pressure {
            after.0.retain(|one| {
                let goes = total > budget * DOWN_TO_PERCENT / 100 && !is_at_work(&one.tool);
                if goes {
                    total -= one.tokens;
                    gone.push(one.tool.clone());
                }
                !goes
            });
        }
        if total > budget {
            return Err(Full { tokens: total });
        }
        after.0.push(new);
        *self = after;
        Ok(gone)
    }
}

/// The tools an agent may use.
struct Sorted {
    /// Those that find others.
    discovery: Vec<Arc<Entry>>,
    others: Vec<Arc<Entry>>,
}

impl House {
    fn sorted(&self, catalog: &Catalog, agent: &AgentName) -> Result<Sorted, Fault> {
        let permitted = self.permitted(catalog, self.agent(agent)?).cloned();
        let (discovery, others) = permitted.partition(|entry| entry.finds_tools());
        Ok(Sorted { discovery, others })
    }

    /// Is an agent with these tools shown them little by little? Not if it could not ask for the rest.
    fn discloses(&self, tools: &Sorted) -> bool {
        if tools.discovery.len() < DISCOVERY.len() {
            return false;
        }
        match self.config.disclosure.mode {
            Disclosing::On => true,
            Disclosing::Off => false,
            Disclosing::Auto => tools.others.len() >= MANY && !fit_whole(&tools.others),
        }
    }

    /// The tools this agent may know of, by name; those that find others only where it needs them.
    pub(crate) fn definitions_for(&self, agent: &AgentName) -> Result<Vec<Listed>, Fault> {
        let tools = self.sorted(&self.catalog(), agent)?;
        let discovery = if self.discloses(&tools) { &*tools.discovery } else { &[] };
        Ok(by_name(discovery.iter().chain(&tools.others).map(Listed::of)))
    }

    /// What a client's list shows of them.
    pub(crate) fn offered(&self, agent: &AgentName, list: ToolList) -> Result<Vec<Listed>, Fault> {
        let catalog = self.catalog();
        let tools = self.sorted(&catalog, agent)?;
        if !self.discloses(&tools) {
            return Ok(by_name(tools.others.iter().map(Listed::of)));
        }
        let settings = &self.config.disclosure;
        let is_pinned = |entry: &&Arc<Entry>| settings.pinned.contains(&*entry.tool.def.name);
        let (pinned, rest): (Vec<_>, Vec<_>) = tools.others.iter().partition(is_pinned);
        let loaded = match list {
            ToolList::Fixed => BTreeSet::new(),
            ToolList::Growing => self.desks.loaded(agent, &catalog),
        };
        let index = self.desks.index(agent, &rest, settings.l1_token_budget);
        let loaded = rest.iter().copied().filter(|entry| loaded.contains(&*entry.tool.def.name));
        let shown = pinned.iter().copied().chain(loaded).map(Listed::of);
        Ok(by_name(tools.discovery.iter().map(|entry| with_index(Listed::of(entry), &index)).chain(shown)))
    }

    /// What an agent is spared by being shown its tools little by little.
    pub(crate) fn spared(&self, agent: &AgentName) -> Result<Spared, Fault> {
        let tools = self.sorted(&self.catalog(), agent)?;
        let shown = self.offered(agent, ToolList::Fixed)?;
        let tokens_of_all = tools.others.iter().map(|entry| entry.tokens()).sum();
        let tokens_shown = shown.iter().map(|listed| definition_tokens(&listed.def)).sum();
        let saved = usize::saturating_sub(tokens_of_all, tokens_shown);
        Ok(Spared {
            disclosed: self.discloses(&tools),
            tools: tools.others.len(),
            shown: shown.iter().map(|listed| listed.def.name.to_string()).collect(),
            tokens_of_all,
            tokens_shown,
            saved_percent: (saved * 100).checked_div(tokens_of_all).unwrap_or_default(),
        })
    }
}

impl Entry {
    /// Is it one of ours that find tools?
    pub(crate) fn finds_tools(&self) -> bool {
        self.origin.is_none() && self.tool.def.finds_tools()
    }

    /// Does it stand for another tool?
    pub(crate) fn stands_for_another(&self) -> bool {
        self.origin.is_none() && self.tool.def.stands_for_another()
    }

    /// Tokens of its definition, counted once.
    fn tokens(&self) -> usize {
        *self.tokens.get_or_init(|| definition_tokens(&self.tool.def))
    }
}

fn by_name(tools: impl Iterator<Item = Listed>) -> Vec<Listed> {
    let mut tools: Vec<_> = tools.collect();
    tools.sort_by(|one, other| one.def.name.cmp(&other.def.name));
    tools
}

/// The tool that lists tools tells of them before it is called.
fn with_index(listed: Listed, index: &str) -> Listed {
    if listed.def.name != LIST_TOOLS {
        return listed;
    }
    let Listed { mut def, digest, .. } = listed;
    def.description = format!("{}\n\n{index}", def.description).into();
    Listed { digest: def.digest().unwrap_or(digest), def, ..listed }
}

/// May the definitions of all of these be shown at once?
fn fit_whole(tools: &[Arc<Entry>]) -> bool {
    // What ships does, a test counts it: where there is nothing else, nobody waits for the vocabulary of a tokenizer to be
    // read.
    if tools.iter().all(|entry| entry.ships()) {
        return true;
    }
    let mut total = 0;
    tools.iter().all(|entry| {
        total += entry.tokens();
        total <= MOST_TOKENS
    })
}

/// Tokens of what a client hands to its model of a tool. What it returns has a schema too, but no model is told that.
fn definition_tokens(def: &ToolDef) -> usize {
    let description = format!("{}\n\n{}", def.summary, def.description);
    let told = json!({ "name": def.name, "description": description, "input_schema": def.input_schema });
    tokens(&told.to_string())
}

/// A tool in one line. The words of somebody else are cleaned, and left out where the guard has found something in them:
/// whoever pinned that did so for the whole definition, which `load_tool` tells.
fn line(entry: &Entry) -> ToolLine {
    let def = &entry.tool.def;
    let summary = match entry.findings.is_empty() {
        true => hidden::clean(def.summary.lines().next().unwrap_or_default()).0.chars().take(LINE_CHARS).collect(),
        false => String::new(),
    };
    ToolLine { name: def.name.to_string(), summary, category: def.category.as_str(), cost: def.cost.as_str() }
}

/// A line for each tool; where those are too long, the names; where these are too, as many as there is room for, and how
/// many of which kind there are besides. What to do comes first: there are clients that cut a description after two thousand
/// characters.
fn index(lines: &[ToolLine], budget: usize) -> String {
    const HEAD: &str = "More tools that are not in your list: `load_tool` tells how one is used, `call_tool` calls it. Your \
                        client may cut this list short; `list_tools` finds every tool by words.\n";
    const LINES: &str = "Name, category, cost, what it is for:\n";
    const NAMES: &str = "By category; after `x__:` come the names that begin with `x__`:\n";
    let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let whole = format!("{HEAD}{LINES}{whole}");
    if tokens(&whole) <= budget {
        return whole;
    }
    let named = |shown: usize| {
        let mut text = format!("{HEAD}{NAMES}");
        for ((category, origin), names) in by_kind(&lines[..shown]) {
            text.push_str(&format!("{category}{origin}: {}\n", names.join(", ")));
        }
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &lines[shown..] {
            *left.entry(line.category).or_default() += 1;
        }
        if !left.is_empty() {
            let counts: Vec<_> = left.iter().map(|(category, count)| format!("{count} of {category}")).collect();
            text.push_str(&format!("Besides: {}. Find them with `list_tools`.\n", counts.join(", ")));
        }
        text
    };
    // The more names, the longer: the most that fit are found by halving.
    let (mut fitting, mut too_many) = (0, lines.len() + 1);
    while too_many - fitting > 1 {
        let tried = usize::midpoint(fitting, too_many);
        match tokens(&named(tried)) <= budget {
            true => fitting = tried,
            false => too_many = tried,
        }
    }
    named(fitting)
}

/// The names of each category and, where they begin with one, each origin; then without it.
fn by_kind(lines: &[ToolLine]) -> BTreeMap<(&str, String), Vec<&str>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines {
        let (origin, name) = match line.name.split_once("__") {
            Some((origin, name)) => (format!(" {origin}__"), name),
            None => (String::new(), &*line.name),
        };
        found.entry((line.category, origin)).or_default().push(name);
    }
    found
}

/// The tools of one agent, for the tools that find tools.
pub(crate) struct AgentFinder {
    pub(crate) house: Arc<House>,
    pub(crate) agent: AgentName,
}

impl Finder for AgentFinder {
    fn list(&self, query: &ToolQuery) -> Result<ToolLines, Fault> {
        let category = query.category.as_deref().map(category).transpose()?;
        let Sorted { others, .. } = self.house.sorted(&self.house.catalog(), &self.agent)?;
        let of_kind = others.iter().filter(|entry| category.is_none_or(|it| entry.tool.def.category == it));
        let words = words(query.query.as_deref().unwrap_or_default());
        let mut found: Vec<_> = of_kind.filter_map(|entry| Some((fit(&entry.tool.def, &words)?, entry))).collect();
        found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.tool.def.name.cmp(&other.tool.def.name)));
        let total = found.len();
        let seen = match &query.after {
            None => 0,
            Some(after) => {
                let at = found.iter().position(|(_, entry)| entry.tool.def.name == **after);
                1 + at.ok_or_else(|| {
                    Fault::failed("bad_cursor", "`after` is not a tool of this list", "Start again without `after`.")
                })?
            }
        };
        let mut left = self.house.config.disclosure.l1_token_budget;
        let mut tools = Vec::new();
        for (_, entry) in &found[seen..] {
            let line = line(entry);
            let rest = left.checked_sub(tokens(&json!(line).to_string()));
            // A line that is longer than a whole part is one by itself: a list that stops at it would never end.
            if rest.is_none() && !tools.is_empty() {
                break;
            }
            left = rest.unwrap_or_default();
            tools.push(line);
        }
        let more = seen + tools.len() < total;
        let next = tools.last().filter(|_| more).map(|line| line.name.clone());
        Ok(ToolLines { tools, total, next })
    }

    fn load(&self, tool: &str) -> Result<LoadedTool, Fault> {
        let entry = invoke::known_to(&self.house, &self.agent, tool)?;
        let (settings, desks) = (&self.house.config.disclosure, &self.house.desks);
        let body = body(&entry.tool.def);
        // What is always shown whole takes no room on the desk.
        if entry.finds_tools() || settings.pinned.contains(&body.name) {
            return Ok(body);
        }
        let one = One { tool: body.name.clone(), definition: entry.digest, tokens: tokens(&json!(body).to_string()) };
        let catalog = self.house.catalog();
        let mut kept = desks.kept();
        let Kept { loaded, at_work, .. } = kept.entry(self.agent.clone()).or_default();
        loaded.forget_changed(&catalog);
        let unloaded = loaded.load(one, settings, |tool| at_work.contains_key(tool)).map_err(|full| {
            let message = format!(
                "with `{}` {} tokens would be loaded, and {} are allowed",
                body.name, full.tokens, settings.l2_token_budget
            );
            let remedy = "Call it without loading it: what is wrong with its arguments is said then.";
            Fault::refused("too_much_loaded", message, remedy)
        })?;
        desks.changes.send_modify(|count| *count += 1);
        Ok(LoadedTool { unloaded, ..body })
    }

    fn resource(&self, tool: &str, id: &str) -> Result<ToolResource, Fault> {
        let entry = invoke::known_to(&self.house, &self.agent, tool)?;
        let guides: Vec<Guide> = resources(&entry.tool.def).collect();
        let found = guides.iter().find(|guide| guide.id == id).ok_or_else(|| {
            let known: Vec<&str> = guides.iter().map(|guide| &*guide.id).collect();
            let message = format!("tool `{}` has no such resource", entry.tool.def.name);
            Fault::failed("unknown_resource", message, format!("It has: {}.", known.join(", ")))
        })?;
        let Guide { id, kind, content, .. } = found;
        Ok(ToolResource { id: id.to_string(), kind: kind.as_str().to_owned(), content: content.to_string() })
    }
}

/// All about a tool but what is read on request.
fn body(def: &ToolDef) -> LoadedTool {
    LoadedTool {
        name: def.name.to_string(),
        description: def.description.to_string(),
        input_schema: def.input_schema.clone(),
        examples: def.examples.iter().map(|example| json!(example)).collect(),
        failures: def.failures.iter().map(|failure| json!(failure)).collect(),
        resources: resources(def).map(|guide| about(&guide)).collect(),
        unloaded: Vec::new(),
    }
}

fn category(word: &str) -> Result<Category, Fault> {
    Category::ALL.into_iter().find(|category| category.as_str() == word).ok_or_else(|| {
        let known = Category::ALL.map(Category::as_str);
        let remedy = match nearest(word, known.iter().copied()) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("There are: {}.", known.join(", ")),
        };
        Fault::failed("unknown_category", "there is no such category", remedy)
    })
}

/// Everything there is to read about a tool.
fn resources(def: &ToolDef) -> impl Iterator<Item = Guide> + '_ {
    let schema = (def.output_schema != Value::Bool(true)).then(|| Guide {
        id: OUTPUT_SCHEMA.into(),
        title: "What it returns".into(),
        kind: GuideKind::Schema,
        content: def.output_schema.to_string().into(),
    });
    def.guides.iter().cloned().chain(schema)
}

fn about(guide: &Guide) -> ToolResourceLine {
    ToolResourceLine {
        id: guide.id.to_string(),
        title: guide.title.to_string(),
        kind: guide.kind.as_str().to_owned(),
        bytes: guide.content.len(),
    }
}

fn words(query: &str) -> Vec<String> {
    let lower = query.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// How well a tool fits the words: how many of them it has, then where. None where it has none of them.
fn fit(def: &ToolDef, words: &[String]) -> Option<(usize, usize)> {
    if words.is_empty() {
        return Some((0, 0));
    }
    let (name, summary, description) =
        (def.name.to_lowercase(), def.summary.to_lowercase(), def.description.to_lowercase());
    let worth = |word: &String| match () {
        () if name.split('_').any(|part| part == word) => 8,
        () if name.contains(&**word) => 4,
        () if summary.contains(&**word) => 2,
        () if description.contains(&**word) => 1,
        () => 0,
    };
    let worths: Vec<usize> = words.iter().map(worth).filter(|worth| *worth > 0).collect();
    (!worths.is_empty()).then(|| (worths.len(), worths.iter().sum()))
}
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(l2_token_budget: usize, auto_unload: bool) -> DisclosureSettings {
        DisclosureSettings { l2_token_budget, auto_unload, ..DisclosureSettings::default() }
    }

    #[test]
    fn what_ships_is_shown_whole() {
        let pinned = DisclosureSettings::default().pinned;
        let tools = crate::built_in_tools();
        let counted = |tool: &&toolgate_tools::Tool| !tool.def.finds_tools();
        let total: usize = tools.iter().filter(counted).map(|tool| definition_tokens(&tool.def)).sum();
        assert!((10_000..=MOST_TOKENS).contains(&total), "{total} tokens");
        assert!(pinned.iter().all(|name| tools.iter().any(|tool| tool.def.name == **name)), "{pinned:?}");
    }

    #[test]
    fn tokens_are_counted_as_a_tokenizer_counts_them() {
        let check = |text: &str, expected: usize| assert_eq!(tokens(text), expected, "{text:.40}");
        check("", 0);
        check("hello world", 2);
        check("antidisestablishmentarianism", 6);
        // However long it is and whatever it is made of, it is counted, and soon.
        check(&" ".repeat(8 * 1024), tokens(&" ".repeat(4 * 1024)) * 2);
        assert!(tokens(&"\u{1f980}".repeat(100_000)) >= 100_000);
    }

    fn one(tool: &str, tokens: usize) -> One {
        One { tool: tool.to_owned(), definition: Digest([0; 32]), tokens }
    }

    /// Loads these one after the other, and gives what is loaded then and what was put away.
    fn loading(tools: &[(&str, usize)], busy: &str) -> (Vec<String>, Vec<String>) {
        let mut loaded = Loaded::default();
        let mut gone = Vec::new();
        for (tool, tokens) in tools {
            gone.extend(loaded.load(one(tool, *tokens), &settings(100, true), |tool| tool == busy).unwrap());
        }
        (loaded.0.into_iter().map(|one| one.tool).collect(), gone)
    }

    #[test]
    fn at_four_fifths_the_longest_unused_go_together() {
        assert_eq!(loading(&[("a", 30), ("b", 30), ("c", 19)], ""), (vec!["a".into(), "b".into(), "c".into()], vec![]));
        assert_eq!(
            loading(&[("a", 20), ("b", 20), ("c", 20), ("d", 20)], ""),
            (vec!["c".into(), "d".into()], vec!["a".into(), "b".into()])
        );
        assert_eq!(loading(&[("a", 30), ("b", 30), ("a", 30)], ""), (vec!["b".into(), "a".into()], vec![]));
    }

    #[test]
    fn what_is_at_work_stays() {
        let (loaded, gone) = loading(&[("a", 20), ("b", 20), ("c", 20), ("d", 20)], "a");
        assert_eq!((loaded, gone), (vec!["a".into(), "d".into()], vec!["b".into(), "c".into()]));
    }

    #[test]
    fn what_was_used_goes_last() {
        let mut loaded = Loaded(vec![one("a", 30), one("b", 30)]);
        loaded.used("a");
        assert_eq!(loaded.load(one("c", 30), &settings(100, true), |_| false), Ok(vec!["b".into(), "a".into()]));
    }

    #[test]
    fn without_room_nothing_changes() {
        let mut loaded = Loaded(vec![one("a", 60)]);
        let before = loaded.clone();
        assert_eq!(loaded.load(one("b", 50), &settings(100, true), |_| true), Err(Full { tokens: 110 }));
        assert_eq!(loaded.load(one("b", 50), &settings(100, false), |_| false), Err(Full { tokens: 110 }));
        assert_eq!(loaded.load(one("b", 101), &settings(100, true), |_| false), Err(Full { tokens: 101 }));
        assert_eq!(loaded, before);
    }

    fn some_lines(count: usize) -> Vec<ToolLine> {
        let line = |n| ToolLine {
            name: format!("server_{}__tool_{n}", n % 7),
            summary: format!("Does the thing number {n} to whatever it is given, and says so."),
            category: "mcp",
            cost: "cheap",
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn a_short_list_has_a_line_for_each_and_a_long_one_says_what_it_leaves_out() {
        let short = index(&some_lines(3), 3_000);
        assert!(some_lines(3).iter().all(|line| short.contains(&line.to_string())), "{short}");
        let named = index(&some_lines(120), 3_000);
        assert!(named.contains("mcp server_0__: tool_0, tool_7, tool_14,") && !named.contains("number"), "{named}");
        assert_eq!((named.matches("tool_").count(), named.contains("Besides")), (120, false), "{named}");
        let long = index(&some_lines(500), 500);
        assert!(long.contains(" of mcp. Find them with `list_tools`."), "{long}");
        // A client may cut what follows.
        let first = "More tools that are not in your list: `load_tool` tells how one is used, `call_tool` calls it. ";
        assert!([&short, &named, &long].iter().all(|text| text.starts_with(first)), "{short}\n{named}\n{long}");
    }

    #[test]
    fn words_are_found_in_names_first() {
        let def = |name: &str, summary: &str, description: &str| ToolDef {
            name: name.to_owned().into(),
            summary: summary.to_owned().into(),
            description: description.to_owned().into(),
            ..ToolDef::default()
        };
        let fits = |def: &ToolDef, query: &str| fit(def, &words(query));
        let commit = def("git_commit", "Record changes.", "Writes a commit of what is staged.");
        assert_eq!(fits(&commit, "Commit"), Some((1, 8)));
        assert_eq!(fits(&commit, "git commit!"), Some((2, 16)));
        assert_eq!(fits(&commit, "staged changes"), Some((2, 3)));
        assert_eq!(fits(&commit, "mail"), None);
        assert_eq!(fits(&commit, ""), Some((0, 0)));
    }

    proptest! {
        /// Whatever is loaded, used and at work: what is loaded never exceeds the budget, and nothing at work is put away.
        #[test]
        fn the_budget_holds(
            steps in prop::collection::vec((0_u8..20, 1_usize..8_000, prop::bool::ANY), 1..60),
            budget in 1_000_usize..20_000,
            auto in prop::bool::ANY,
            busy in 0_u8..20,
        ) {
            let busy = busy.to_string();
            let settings = settings(budget, auto);
            let mut loaded = Loaded::default();
            for (tool, tokens, uses) in steps {
                let tool = tool.to_string();
                let held = loaded.0.iter().any(|one| one.tool == busy);
                match uses {
                    true => loaded.used(&tool),
                    false => {
                        if let Ok(gone) = loaded.load(one(&tool, tokens), &settings, |tool| tool == busy) {
                            prop_assert!(!gone.contains(&busy));
                            prop_assert_eq!(loaded.0.last().map(|one| &*one.tool), Some(&*tool));
                        }
                    }
                }
                prop_assert!(loaded.tokens() <= budget);
                prop_assert!(!held || loaded.0.iter().any(|one| one.tool == busy));
            }
        }

        /// However many tools there are and whatever they are called, the first list keeps to its budget.
        #[test]
        fn the_index_keeps_to_its_budget(
            names in prop::collection::vec("[a-z0-9_]{1,64}", 0..400),
            budget in 500_usize..4_000,
        ) {
            let line = |(n, name): (usize, String)| ToolLine {
                name,
                summary: "Somewhat long: says what it does and to what, in one line.".repeat(n % 4),
                category: Category::ALL[n % Category::ALL.len()].as_str(),
                cost: "medium",
            };
            let lines: Vec<_> = names.into_iter().enumerate().map(line).collect();
            prop_assert!(tokens(&index(&lines, budget)) <= budget);
        }
    }
}
