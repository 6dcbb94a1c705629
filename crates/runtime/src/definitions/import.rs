//! Tools of others: from a definition and a function to an entry of the catalog, or to a refusal in its place.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::IgnoredAny};
use serde_json::Value;
use toolgate_contract::{
    ActionType, Digest, Effect, EffectKind, Fault, Needs, Network, Permission, SafetyClass, ToolDef,
};
use toolgate_guard::{
    definition::{self, Found},
    injection::Verdict,
    names,
};
use toolgate_tools::{Answer, Cx, Tool, Work};

use super::{
    Candidate, Definition, Judged, MOST_TOOLS, Origin, Standing, admit_origin, local_name,
    relay::{Kind, Relayed},
    whole,
};
use crate::{
    catalog::{Catalog, Entry, Row},
    house::House,
};

/// A tool of somebody else: what it says of itself, what the operator says of it, and what runs.
#[derive(Clone)]
pub struct Imported {
    /// As its origin wrote it.
    pub definition: Definition,
    /// What a call of it amounts to. This is the operator's word; the definition has none in it.
    pub terms: Terms,
    /// How long a call may take.
    timeout: Duration,
    /// Whom a call talks to, where that is known better than by the name of the origin.
    reaches: Option<String>,
    /// What a call of it does stays in a room.
    kept_in: bool,
    /// It gives results as another server wrote them.
    relayed: bool,
    /// Why it cannot be used as it is.
    barred: Option<String>,
    work: Work,
}

/// What the operator takes a call of an imported tool for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Terms {
    /// The action.
    pub action: ActionType,
    /// The class. Talking to an origin is at least `network`, unless what it does stays in its room.
    pub safety: SafetyClass,
}

impl Default for Terms {
    /// What nobody has classified is privileged, and people are asked about it.
    fn default() -> Self {
        let ToolDef { action, safety, .. } = ToolDef::default();
        Self { action, safety }
    }
}

impl Imported {
    /// A tool that nobody has classified.
    pub fn new(
        definition: Definition,
        run: impl Fn(&Cx, Value) -> Result<Answer<Value>, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::doing(definition, Work::blocking(run))
    }

    fn doing(definition: Definition, work: Work) -> Self {
        let ToolDef { timeout, .. } = ToolDef::default();
        let (terms, reaches) = (Terms::default(), None);
        Self { definition, terms, timeout, reaches, kept_in: false, relayed: false, barred: None, work }
    }

    /// The same, of which it is known already that it cannot be used: it is only shown to people, with this reason.
    #[must_use]
    pub fn barred(self, why: impl Into<String>) -> Self {
        Self { barred: Some(why.into()), ..self }
    }

    /// A tool of another MCP server: what it gives is that server's result, whole. It is passed on as it is, cleaned and
    /// bounded; what it says that it failed is a failure, and what it says of its types is held against its schema. It is
    /// waited for, so it must not block.
    pub fn relayed<F>(definition: Definition, run: impl Fn(Arc<Cx>, Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, Fault>> + Send + 'static,
    {
        Self::giving(Kind::Tool, definition, run)
    }

    /// The same for whatever else a server gives.
    pub(super) fn giving<F>(
        kind: Kind,
        definition: Definition,
        run: impl Fn(Arc<Cx>, Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Value, Fault>> + Send + 'static,
    {
        let relay = move |cx: Arc<Cx>, input: Value| {
            let (caps, result) = (*cx.caps(), run(cx, input));
            async move {
                let Relayed { result, text, truncated } = Relayed::of(kind, result.await?, &caps)?;
                Ok(Answer::with_text(result, text).truncated(truncated))
            }
        };
        Self { relayed: true, ..Self::doing(definition, Work::waiting(relay)) }
    }

    /// The same with so much time for a call.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same, where a call talks to this `host:port`.
    #[must_use]
    pub fn reaching(self, target: impl Into<String>) -> Self {
        Self { reaches: Some(target.into()), ..self }
    }

    /// The same, where what a call does stays in the room of its server: it talks to nobody and changes nothing that is
    /// there afterwards. Then a call is a look, if the operator says so.
    #[must_use]
    pub fn kept_in(self) -> Self {
        Self { kept_in: true, ..self }
    }

    /// The same under these terms.
    #[must_use]
    pub fn under(self, terms: Terms) -> Self {
        Self { terms, ..self }
    }

    /// Its calls go to a program beside the runtime.
    pub(super) fn is_beside(&self) -> bool {
        self.relayed && self.reaches.is_none()
    }

    pub(super) fn tool(&self, origin: &str, name: &str) -> Tool {
        let Definition { title, description, input_schema, output_schema, annotations, .. } = &self.definition;
        let description = description.clone().unwrap_or_default();
        let summary = title.clone().unwrap_or_else(|| description.lines().next().unwrap_or_default().to_owned());
        // Claims can make a tool stricter and never milder.
        let claims = |hint: &str| annotations.as_ref().and_then(|claims| claims.get(hint)) == Some(&Value::Bool(true));
        let permission = if claims("destructiveHint") { Permission::Confirm } else { Permission::Allow };
        let only_looks = self.kept_in && self.terms.safety == SafetyClass::Read;
        let safety = if only_looks { SafetyClass::Read } else { self.terms.safety.max(SafetyClass::Network) };
        let def = ToolDef {
            name: Cow::Owned(name.to_owned()),
            summary: Cow::Owned(summary),
            description: Cow::Owned(description),
            action: self.terms.action.clone(),
            safety,
            needs: Needs { network: if only_looks { Network::None } else { Network::Fenced }, ..Needs::NOTHING },
            permission,
            timeout: self.timeout,
            input_schema: input_schema.clone(),
            output_schema: output_schema.clone().unwrap_or(Value::Bool(true)),
            ..ToolDef::default()
        };
        let to = (!only_looks).then(|| self.reaches.clone().unwrap_or_else(|| origin.to_owned()));
        let effects = move |_: &IgnoredAny| to.iter().map(|to| Effect::on(EffectKind::Network, to.clone())).collect();
        Tool::doing(def, effects, self.work.clone())
    }
}

impl fmt::Debug for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Imported").field(&self.definition.name).finish()
    }
}

/// What became of an imported tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// What agents call it by.
    pub name: String,
    /// The hash of its definition.
    pub hash: Digest,
    /// Whether it can be called.
    pub standing: Standing,
    /// What the guard says about the definition.
    pub findings: Vec<Found>,
    /// Other names it could be mixed up with, or speaks of, one sentence each.
    pub near: Vec<String>,
}

/// All an origin offers, looked at once. Only what a person pins can change later.
#[derive(Debug)]
pub(crate) struct Offer {
    origin: Origin,
    looks: Vec<Look>,
}

#[derive(Debug)]
struct Look {
    name: String,
    local: String,
    definition: Definition,
    hash: Digest,
    found: Vec<Found>,
    /// What would be called, or why it never can be.
    entry: Result<Arc<Entry>, Standing>,
}

impl Offer {
    pub(crate) fn of(origin: Origin, tools: &[Imported]) -> Result<Self, Fault> {
        admit_origin(&origin.name)?;
        if tools.len() > MOST_TOOLS {
            return Err(Fault::refused(
                "too_many_tools",
                format!("`{}` offers {} tools, and {MOST_TOOLS} are allowed", origin.name, tools.len()),
                "Have it offer fewer tools.",
            ));
        }
        let mut looks = tools.iter().map(|tool| Look::at(&origin, tool)).collect::<Result<Vec<_>, _>>()?;
        part_the_confusable(&mut looks);
        Ok(Self { origin, looks })
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin.name
    }
}

impl Look {
    fn at(origin: &Origin, imported: &Imported) -> Result<Self, Fault> {
        let definition = imported.definition.clone();
        let hash = definition.digest(origin).map_err(|error| {
            Fault::refused("bad_definition", format!("a definition has no hash: {error}"), "Have it corrected.")
        })?;
        let found = definition::scan(&definition.to_json());
        let local = local_name(&origin.name, &definition.name);
        let name = whole(&origin.name, &local);
        let unfit = |code, why| Err(Standing::Unfit { code, why });
        let entry = if let Err(fault) = names::admit_name(&name) {
            unfit("bad_name", fault.message)
        } else if definition::verdict(&found) == Verdict::Malicious {
            unfit("bad_definition", format!("its definition is refused ({})", rules(&found)))
        } else if let Some(why) = &imported.barred {
            unfit("bad_definition", why.clone())
        } else {
            match Entry::of(imported.tool(&origin.name, &name), Some(origin.name.clone())) {
                Ok(entry) => {
                    let (findings, relayed) = (found.clone(), imported.relayed);
                    let (beside, written) = (imported.is_beside(), Some(Arc::new(definition.clone())));
                    // Fields that we have no word for are shown as well, so a yes is for them too.
                    let digest = match definition.more.is_empty() {
                        true => entry.digest,
                        false => Digest::of(&[entry.digest.0, hash.0].concat()),
                    };
                    Ok(Arc::new(Entry { findings, relayed, beside, written, digest, ..entry }))
                }
                Err(bad) => unfit(bad.code, bad.to_string()),
            }
        };
        Ok(Self { name, local, definition, hash, found, entry })
    }
}

/// The rules that spoke, each once. What they found is the author's word and stays out of it.
pub(crate) fn rules(found: &[Found]) -> String {
    let rules: BTreeSet<&str> = found.iter().map(|found| found.rule).collect();
    rules.into_iter().collect::<Vec<_>>().join(", ")
}

/// Two tools of one origin that would be taken for one another: nobody could say which one was meant, so neither is taken.
fn part_the_confusable(looks: &mut [Look]) {
    let names: Vec<&str> = looks.iter().map(|look| &*look.definition.name).collect();
    let mut clashes: Vec<(usize, usize, String)> =
        definition::collisions(&names).into_iter().map(|(a, b, why)| (a, b, why.to_string())).collect();
    let pairs = (0..looks.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let same = pairs.filter(|(a, b)| looks[*a].local == looks[*b].local);
    clashes.extend(same.map(|(a, b)| (a, b, "both would be called the same here".to_owned())));
    for (a, b, why) in clashes {
        for (one, other) in [(a, b), (b, a)] {
            let with: String = looks[other].definition.name.chars().take(64).flat_map(char::escape_debug).collect();
            let why = format!("it can be mistaken for `{with}` of the same origin: {why}");
            looks[one].entry = Err(Standing::Unfit { code: "confusable_name", why });
        }
    }
}

impl House {
    /// Puts everything an origin offers into the catalog, or what is to be answered in its place. What it offered before
    /// goes. When the list of pins cannot be used, nothing of it can be called.
    pub(crate) fn import(&self, offer: &Offer) -> Result<Vec<Registered>, Fault> {
        let judged = self.judge(offer);
        let rows: Vec<Row> = match &judged {
            Ok(judged) => offer.looks.iter().zip(judged).map(|(look, judged)| look.row(judged)).collect(),
            Err(fault) => {
                offer.looks.iter().map(|look| Row { name: look.name.clone(), entry: Err(fault.clone()) }).collect()
            }
        };
        self.catalog.rcu(|catalog| catalog.with_offer(offer.origin(), &rows));
        self.changed();
        let registered = |(look, judged): (&Look, Judged)| Registered {
            name: look.name.clone(),
            hash: look.hash,
            standing: judged.standing,
            findings: look.found.clone(),
            near: judged.near,
        };
        Ok(offer.looks.iter().zip(judged?).map(registered).collect())
    }

    fn judge(&self, offer: &Offer) -> Result<Vec<Judged>, Fault> {
        let catalog = self.catalog();
        let own: Vec<&str> =
            catalog.iter().filter(|entry| entry.origin.is_none()).map(|entry| &*entry.tool.def.name).collect();
        let candidates: Vec<Candidate<'_>> = offer.looks.iter().map(|look| look.candidate(&catalog)).collect();
        self.definitions.judge(&offer.origin, &candidates, &own, self.config.first_sight.value)
    }

    /// Looks at the list of pins again if it has changed: the person who pins sits at another process.
    pub(crate) fn refresh(&self) {
        let offers = self.offers();
        if offers.is_empty() {
            return;
        }
        let Some(list) = self.definitions.news() else { return };
        let mut whole = true;
        for offer in offers.values() {
            if let Err(fault) = self.import(offer) {
                tracing::warn!("the tools of `{}` are held back: {fault}", offer.origin());
                whole = false;
            }
        }
        self.definitions.judged_by(list, whole);
    }
}

impl Look {
    fn candidate(&self, catalog: &Catalog) -> Candidate<'_> {
        let barred = match &self.entry {
            Ok(entry) => catalog.taken_for(entry).map(|(with, why)| Standing::Colliding { with, why }),
            Err(standing) => Some(standing.clone()),
        };
        let Self { local, definition, hash, found, .. } = self;
        Candidate { local: local.clone(), definition, hash: *hash, found, barred }
    }

    fn row(&self, judged: &Judged) -> Row {
        let entry = match (&self.entry, judged.standing.refusal(&self.name)) {
            (Ok(entry), None) => Ok(entry.clone()),
            (_, Some(refusal)) => Err(refusal),
            (Err(standing), None) => {
                Err(Fault::refused("tool_quarantined", standing.to_string(), "Have it corrected."))
            }
        };
        Row { name: self.name.clone(), entry }
    }
}
