//! Definitions from elsewhere: pinned by a person, held back when they change.
//!
//! A model believes what a definition says, and whoever wrote it can write it anew at any time. So a tool of another
//! origin is shown and called only as long as its definition is, to the last letter, the one that a person pinned. A
//! definition that is new, changed or renamed is held back: nobody is shown it, and a call of it is refused until a
//! person has read what changed and names the hash of what they read.

mod import;
mod kept;
pub(crate) mod relay;
mod shelf;

use std::{
    collections::BTreeSet,
    fmt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::Serialize;
use toolgate_contract::{Digest, Fault, MAX_NAME, scale};
use toolgate_guard::{
    definition::{self, Found, LARGEST},
    injection::Verdict,
    names::{self, Name, Why},
};

pub use import::{Imported, Registered, Terms};
pub use shelf::{Library, Method, Prompt, Question, Wares, prompt_arguments};
pub use toolgate_guard::definition::{Definition, Origin};

pub(crate) use import::{Offer, rules};
pub(crate) use shelf::Shelf;

use kept::{Kept, KeptOrigin, KeptTool, Pin, Place, Seen, Stamp};

/// What stands between an origin and a tool in the name of an imported tool.
const BETWEEN: &str = "__";
/// The most tools one origin may offer.
pub const MOST_TOOLS: usize = 512;
/// How many bytes are kept of what an origin offers that nobody can pin. Of the rest only the hash is.
const MOST_BARRED: usize = 1024 * 1024;
/// How much a person is told about one definition: lines, and characters of each.
const MOST_TOLD: usize = 40;
const LONGEST_TOLD: usize = 600;
/// Who pins at first sight.
const FIRST_SIGHT: &str = "first sight";

scale! {
    /// What happens when an origin is seen for the first time. Later is stricter.
    FirstSight {
        /// What it offers is pinned, unless something in it is suspicious.
        Pin = "pin",
        /// What it offers is held back until a person pins it.
        Hold = "hold",
    }
}

/// Where a definition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is the one that was pinned.
    Pinned,
    /// Nothing of its origin was ever pinned.
    New,
    /// Its origin is known, and did not offer it.
    Added,
    /// It was pinned under another name.
    Renamed {
        /// The second half of that name.
        from: String,
    },
    /// It is not what was pinned.
    Changed {
        /// The parts that changed, in our words.
        parts: Vec<&'static str>,
        /// All that changed, for a person.
        diff: Vec<String>,
    },
    /// Its whole name would be taken for that of a tool of somebody else.
    Colliding {
        /// Which one.
        with: String,
        /// How.
        why: Why,
    },
    /// It is not fit to be pinned at all.
    Unfit {
        /// Stable: `bad_name`, `bad_definition`, `confusable_name`, `duplicate_name` or `bad_schema`.
        code: &'static str,
        /// One sentence.
        why: String,
    },
}

impl Standing {
    /// The stable word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::New => "new",
            Self::Added => "added",
            Self::Renamed { .. } => "renamed",
            Self::Changed { .. } => "changed",
            Self::Colliding { .. } => "colliding",
            Self::Unfit { .. } => "unfit",
        }
    }

    /// Why it is held back, in one sentence; none where it is not. The words of its author are not repeated here: the model
    /// would read them after all.
    fn why(&self, name: &str) -> Option<String> {
        let origin = origin_of(name).unwrap_or_default();
        Some(match self {
            Self::Pinned => return None,
            Self::New => "nobody has pinned its definition yet".to_owned(),
            Self::Added => format!("`{origin}` did not offer it when its tools were pinned"),
            Self::Renamed { from } => format!("it is `{origin}{BETWEEN}{from}` under another name"),
            Self::Changed { parts, .. } => {
                format!("its {} changed since a person pinned it", parts.join(" and its "))
            }
            Self::Colliding { with, why } => format!("it can be mistaken for `{with}`: {why}"),
            Self::Unfit { why, .. } => why.clone(),
        })
    }

    /// Why nobody can pin it; none where a person can, or has.
    fn barred(&self, name: &str) -> Option<String> {
        matches!(self, Self::Colliding { .. } | Self::Unfit { .. }).then(|| self.why(name)).flatten()
    }

    /// Why a call of it is refused.
    pub(crate) fn refusal(&self, name: &str) -> Option<Fault> {
        let why = self.why(name)?;
        let remedy = match self.barred(name) {
            None => format!(
                "Ask the operator to read `toolgate tools diff {name}`, and to run `toolgate tools pin {name}` with the \
                 hash shown there if it is right."
            ),
            Some(_) => format!(
                "Ask the operator to read `toolgate tools diff {name}`, and to leave this tool out or have it corrected."
            ),
        };
        Some(Fault::refused("tool_quarantined", format!("tool `{name}` is held back: {why}"), remedy))
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The list of what is pinned and what is held back. Opening it touches nothing; every question reads it anew, because
/// the person who pins sits at another process.
#[derive(Debug)]
pub struct Definitions {
    place: Place,
    known: Mutex<JudgedBy>,
}

/// By which list all that is offered was judged last.
#[derive(Debug, Default)]
struct JudgedBy {
    list: Stamp,
    /// When it is to be tried again, where something could not be judged by it.
    again: Option<Instant>,
}

/// How long what could not be judged is left alone, unless the list changes: everything that looks would try it otherwise.
const PAUSE: Duration = Duration::from_secs(1);

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The whole name of the tool.
    pub tool: String,
    /// `pinned`, or why it is held back.
    pub standing: String,
    /// The hash of what is pinned.
    pub pinned: Option<Digest>,
    /// Who pinned it.
    pub by: Option<String>,
    /// When.
    pub at: Option<String>,
    /// The hash of what is held back.
    pub held: Option<Digest>,
    /// Why nobody can pin what is held back, in one sentence; none where a person can.
    pub barred: Option<String>,
}

/// What a person reads before they pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The whole name of the tool.
    pub tool: String,
    /// Why it is held back.
    pub standing: String,
    /// The hash to pin.
    pub hash: Digest,
    /// Why nobody can pin it, in one sentence; none where a person can.
    pub barred: Option<String>,
    /// What the guard says about it, and which names are near.
    pub told: Vec<String>,
    /// What changed; of a tool that is new, all of it.
    pub diff: Vec<String>,
}

/// A definition as it is offered, looked at.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    /// The second half of its name.
    pub(crate) local: String,
    pub(crate) definition: &'a Definition,
    pub(crate) hash: Digest,
    pub(crate) found: &'a [Found],
    /// Why it is not even held against what is pinned.
    pub(crate) barred: Option<Standing>,
}

/// What was made of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) standing: Standing,
    /// Names of others that it could be mixed up with, or speaks of, one sentence each.
    pub(crate) near: Vec<String>,
}

impl Definitions {
    /// The list in this data directory.
    pub fn open(data_dir: impl Into<PathBuf>) -> Self {
        Self::at(Some(data_dir.into()))
    }

    /// Without a data directory nothing can be pinned, and so everything is held back.
    pub(crate) fn at(data_dir: Option<PathBuf>) -> Self {
        Self { place: Place(data_dir), known: Mutex::default() }
    }

    /// Judges everything an origin offers, and keeps what is held back for a person to see. `own` are the names of tools
    /// that come from no origin.
    pub(crate) fn judge(
        &self,
        origin: &Origin,
        candidates: &[Candidate<'_>],
        own: &[&str],
        first: FirstSight,
    ) -> Result<Vec<Judged>, Fault> {
        let first = if self.place.0.is_some() { first } else { FirstSight::Hold };
        let at = Timestamp::now().to_string();
        let judged = self.place.change(|kept| {
            // Nobody else changes it now.
            let is_known = self.place.is_still(&mut self.known().list);
            Ok((judge(kept, origin, candidates, own, first, &at), is_known))
        });
        let ((judged, is_known), stamp) = judged?;
        // What somebody else changed before is about other origins too, and those have not been judged by it yet.
        if is_known {
            self.known().list = stamp;
        }
        Ok(judged)
    }

    /// The list, if it has changed since all that is offered was judged by it, or is to be tried again.
    pub(crate) fn news(&self) -> Option<Stamp> {
        let mut known = self.known();
        let is_judged = known.again.is_none_or(|again| Instant::now() < again) && self.place.is_still(&mut known.list);
        (!is_judged).then(|| self.place.stamp())
    }

    /// All that is offered was judged by this list, or by a later one, or some of it could not be.
    pub(crate) fn judged_by(&self, list: Stamp, whole: bool) {
        *self.known() = JudgedBy { list, again: (!whole).then(|| Instant::now() + PAUSE) };
    }

    fn known(&self) -> std::sync::MutexGuard<'_, JudgedBy> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is pinned or held back, by name.
    pub fn list(&self) -> Result<Vec<Listed>, Fault> {
        let kept = self.place.read()?;
        let rows = kept.origins.iter().flat_map(|(origin, known)| {
            known.tools.iter().map(move |(local, tool)| Listed {
                tool: whole(origin, local),
                standing: tool.held.as_ref().map_or("pinned", |held| &held.why).to_owned(),
                pinned: tool.pinned.as_ref().map(|pin| pin.hash),
                by: tool.pinned.as_ref().map(|pin| pin.by.clone()),
                at: tool.pinned.as_ref().map(|pin| pin.at.clone()),
                held: tool.held.as_ref().map(|held| held.hash),
                barred: tool.held.as_ref().and_then(|held| held.barred.clone()),
            })
        });
        Ok(rows.collect())
    }

    /// What is held back of this tool, against what is pinned.
    pub fn show(&self, tool: &str) -> Result<Shown, Fault> {
        let kept = self.place.read()?;
        let (origin, local) = halves(tool)?;
        let KeptTool { pinned, held } = find(&kept, origin, local).ok_or_else(|| unknown(tool, &kept))?;
        let Some(held) = held else {
            return Err(nothing_held(tool));
        };
        let mut diff = Vec::new();
        if let Some(pin) = pinned.as_ref().filter(|pin| pin.identity != held.identity) {
            diff.push(format!("- server: {:?}", pin.identity));
            diff.push(format!("+ server: {:?}", held.identity));
        }
        if let Some(new) = &held.definition {
            // A renamed tool is shown against what it was before, so that it can be seen that only the name differs.
            let before = pinned.as_ref().map(|pin| &pin.definition).or_else(|| {
                let tools = kept.origins.get(origin)?.tools.values();
                let mut pins = tools.filter_map(|tool| tool.pinned.as_ref());
                pins.find(|pin| held.why == "renamed" && pin.definition.is_renamed(new)).map(|pin| &pin.definition)
            });
            diff.extend(definition::diff(before, new));
        }
        let (standing, barred, told) = (held.why.clone(), held.barred.clone(), held.told.clone());
        Ok(Shown { tool: tool.to_owned(), standing, hash: held.hash, barred, told, diff })
    }

    /// Pins what is held back of this tool, if it has this hash: what a person did not see, they cannot agree to.
    pub fn pin(&self, tool: &str, hash: Digest, by: &str) -> Result<(), Fault> {
        let at = Timestamp::now().to_string();
        self.place.change(|kept| pin(kept, tool, hash, by, &at)).map(|((), _)| ())
    }

    /// Takes a pin away. The tool is held back from then on.
    pub fn unpin(&self, tool: &str) -> Result<(), Fault> {
        let at = Timestamp::now().to_string();
        self.place.change(|kept| unpin(kept, tool, &at)).map(|((), _)| ())
    }
}

/// The second half of the name an agent calls an imported tool or prompt by: its own name in the letters every name here has. One
/// that is too long is cut, and its hash says which one it is.
pub(crate) fn local_name(origin: &str, name: &str) -> String {
    const HASH: usize = 8;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let most = MAX_NAME.saturating_sub(origin.len() + BETWEEN.len());
    let local: String = name.chars().take(most + 1).map(plain).collect();
    if local.len() <= most {
        return local;
    }
    let hash = Digest::of(name.as_bytes());
    let hash: String = hash.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{}", &local[..most.saturating_sub(HASH + 1)], &hash[..HASH])
}

/// The origin in the name of an imported tool.
pub(crate) fn origin_of(tool: &str) -> Option<&str> {
    tool.split_once(BETWEEN).map(|(origin, _)| origin)
}

pub(crate) fn whole(origin: &str, local: &str) -> String {
    format!("{origin}{BETWEEN}{local}")
}

/// May an origin have this name? It is the first half of names, so it must be clear where it ends.
pub(crate) fn admit_origin(name: &str) -> Result<(), Fault> {
    names::admit_name(name)?;
    if name.len() <= 32 && !name.contains(BETWEEN) && !name.ends_with('_') {
        return Ok(());
    }
    Err(Fault::failed(
        "bad_name",
        format!("`{name}` is not a name for an origin"),
        "Use at most 32 characters, without `__` and without `_` at the end.",
    ))
}

fn halves(tool: &str) -> Result<(&str, &str), Fault> {
    tool.split_once(BETWEEN).ok_or_else(|| {
        let shown: String = tool.chars().take(80).flat_map(char::escape_debug).collect();
        Fault::failed("bad_name", format!("`{shown}` names no imported tool"), "Write ORIGIN__TOOL.")
    })
}

fn find<'a>(kept: &'a Kept, origin: &str, local: &str) -> Option<&'a KeptTool> {
    kept.origins.get(origin)?.tools.get(local)
}

fn unknown(tool: &str, kept: &Kept) -> Fault {
    let known: Vec<String> = kept
        .origins
        .iter()
        .flat_map(|(origin, known)| known.tools.keys().map(move |local| whole(origin, local)))
        .collect();
    let remedy = match toolgate_contract::nearest(tool, known.iter().map(String::as_str)) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => "Look for it with `toolgate tools pins`.".to_owned(),
    };
    let shown: String = tool.chars().take(80).flat_map(char::escape_debug).collect();
    Fault::failed("unknown_definition", format!("nothing is known of a tool `{shown}`"), remedy)
}

fn nothing_held(tool: &str) -> Fault {
    let message = format!("nothing of `{tool}` is held back: it is as it was pinned");
    Fault::failed("nothing_held", message, "Look at all of them with `toolgate tools pins`.")
}

fn pin(kept: &mut Kept, tool: &str, hash: Digest, by: &str, at: &str) -> Result<(), Fault> {
    let (origin, local) = halves(tool)?;
    let Some(KeptTool { held, .. }) = find(kept, origin, local) else {
        return Err(unknown(tool, kept));
    };
    let Some(held) = held.clone() else {
        return Err(nothing_held(tool));
    };
    if held.hash != hash {
        return Err(Fault::refused(
            "stale_hash",
            format!("what is held back of `{tool}` has the hash {}, not {hash}", held.hash),
            format!("Read it again with `toolgate tools diff {tool}`."),
        ));
    }
    let Seen { hash, identity, definition: Some(definition), barred: None, .. } = held else {
        let why = held.barred.unwrap_or_else(|| "it is too large to be kept".to_owned());
        return Err(Fault::refused(
            "bad_definition",
            format!("`{tool}` cannot be pinned: {why}"),
            "Leave it out with `hide` in the entry of its server, or have it corrected there.",
        ));
    };
    let read = Origin { name: origin.to_owned(), identity };
    if definition.digest(&read).ok() != Some(hash) {
        return Err(Fault::refused(
            "pins_unusable",
            format!("the list of pinned definitions has another definition of `{tool}` under this hash"),
            "Have the tool offered again, and read it again.",
        ));
    }
    let known = kept.origins.entry(origin.to_owned()).or_default();
    known.settled = true;
    let pinned = Pin { hash, identity: read.identity, definition, by: by.to_owned(), at: at.to_owned() };
    known.tools.insert(local.to_owned(), KeptTool { pinned: Some(pinned), held: None });
    Ok(())
}

fn unpin(kept: &mut Kept, tool: &str, at: &str) -> Result<(), Fault> {
    let (origin, local) = halves(tool)?;
    let Some(Pin { hash, identity, definition, .. }) = find(kept, origin, local).and_then(|known| known.pinned.clone())
    else {
        return Err(unknown(tool, kept));
    };
    let (why, told) = (Standing::Added.as_str().to_owned(), Vec::new());
    let seen = Seen { hash, identity, definition: Some(definition), why, barred: None, told, at: at.to_owned() };
    let known = kept.origins.entry(origin.to_owned()).or_default().tools.entry(local.to_owned()).or_default();
    known.pinned = None;
    known.held.get_or_insert(seen);
    Ok(())
}

/// A name that another one is held against.
struct Other {
    /// As agents call it.
    whole: String,
    name: Name,
    /// It is called by it: a tool of our own, or a pinned one.
    is_taken: bool,
}

/// The names of our own tools and of everything that other origins have.
fn others(kept: &Kept, origin: &str, own: &[&str]) -> Vec<Other> {
    let own = own.iter().map(|name| Other { whole: (*name).to_owned(), name: Name::of(name), is_taken: true });
    let elsewhere = kept.origins.iter().filter(|(name, _)| *name != origin);
    let tools =
        elsewhere.flat_map(|(name, known)| known.tools.iter().map(move |(local, tool)| (whole(name, local), tool)));
    let named = tools.filter_map(|(whole, KeptTool { pinned, held })| {
        // What nobody can pin never has its name.
        let held = held.as_ref().filter(|held| held.barred.is_none()).and_then(|held| held.definition.as_ref());
        let held = held.map(|definition| &definition.name);
        let name = pinned.as_ref().map(|pin| &pin.definition.name).or(held)?;
        Some(Other { whole, name: Name::of(name), is_taken: pinned.is_some() })
    });
    own.chain(named).collect()
}

/// Does it look like one of another origin, or like one of ours? The same name twice is no mistake, and neither are two that
/// are spelt differently: the origin stands before both, and who comes first is chance. But a name that only looks like
/// another is made to, more often than not, and so a person reads it first. What nobody has pinned yet takes no name away.
fn looks_like_another(name: &Name, others: &[Other]) -> bool {
    let mut taken = others.iter().filter(|other| other.is_taken);
    taken.any(|other| !matches!(name.collide(&other.name), None | Some(Why::Same)))
}

/// The names this one could be mixed up with, one sentence each.
fn near_names(whole: &str, name: &Name, others: &[Other]) -> Vec<String> {
    let near = others.iter().filter_map(|other| {
        let why = match (name.collide(&other.name), name.near(&other.name)) {
            (Some(why), _) => why.to_string(),
            (None, Some(near)) => near.to_string(),
            (None, None) => return None,
        };
        Some(format!("`{whole}` could be mixed up with `{}`: {why}", other.whole))
    });
    near.collect()
}

/// The tools of others that a definition speaks of by their names, one sentence each: a tool has no reason to say how
/// somebody else's is used.
fn spoken_of(called: &str, definition: &Definition, offered: &BTreeSet<&str>, others: &[Other]) -> Vec<String> {
    let text = definition.to_json().to_string();
    let is_named = |name: &str| {
        let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let stands_alone = |(at, _): (usize, &str)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
            // A plain word such as `write` means the tool only where it is marked as a name.
            let is_marked = before == Some('`') && after == Some('`');
            let is_whole = !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name);
            is_marked || (is_whole && name.contains('_'))
        };
        text.match_indices(name).any(stands_alone)
    };
    let named = others.iter().filter(|other| !offered.contains(other.whole.as_str()) && is_named(&other.whole));
    named.map(|other| format!("`{called}` speaks of `{}`, a tool of somebody else", other.whole)).collect()
}

/// Pure: the list as it is, and as it is to be.
fn judge(
    kept: &mut Kept,
    origin: &Origin,
    candidates: &[Candidate<'_>],
    own: &[&str],
    first: FirstSight,
    at: &str,
) -> Vec<Judged> {
    let offered: BTreeSet<&str> = candidates.iter().map(|candidate| &*candidate.local).collect();
    let (mut room, mut seen) = (MOST_BARRED, BTreeSet::new());
    let others = others(kept, &origin.name, own);
    let known = kept.origins.entry(origin.name.clone()).or_default();
    let is_first = !known.settled;
    let gone: Vec<(String, Definition)> = known
        .tools
        .iter()
        .filter(|(local, _)| !offered.contains(local.as_str()))
        .filter_map(|(local, tool)| Some((local.clone(), tool.pinned.as_ref()?.definition.clone())))
        .collect();
    let mut judged = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let name = Name::of(&candidate.definition.name);
        let called = whole(&origin.name, &candidate.local);
        let mut near = near_names(&called, &name, &others);
        let spoken_of = spoken_of(&called, candidate.definition, &offered, &others);
        let is_clean = definition::verdict(candidate.found) == Verdict::Clean
            && spoken_of.is_empty()
            && !looks_like_another(&name, &others);
        near.extend(spoken_of);
        let standing = candidate.barred.clone().unwrap_or_else(|| standing(known, candidate, &gone, is_first));
        let told = candidate.found.iter().map(told).chain(near.iter().cloned()).take(MOST_TOLD).collect();
        let standing = match standing {
            Standing::New if first == FirstSight::Pin && is_clean => {
                known.settled = true;
                let pin = candidate.pin(origin, at);
                known.tools.insert(candidate.local.clone(), KeptTool { pinned: Some(pin), held: None });
                Standing::Pinned
            }
            // Of two under one name the first is shown; neither can be pinned.
            standing if !seen.insert(&*candidate.local) => standing,
            standing => {
                known.hold(candidate, origin, &standing, told, at, &mut room);
                standing
            }
        };
        judged.push(Judged { standing, near });
    }
    // What is offered no more is not waiting for anybody; a pin stays, because the tool may come back.
    for (local, tool) in &mut known.tools {
        if !offered.contains(local.as_str()) {
            tool.held = None;
        }
    }
    known.tools.retain(|_, tool| tool.pinned.is_some() || tool.held.is_some());
    judged
}

fn standing(known: &KeptOrigin, candidate: &Candidate<'_>, gone: &[(String, Definition)], is_first: bool) -> Standing {
    let new = candidate.definition;
    match known.tools.get(&candidate.local).and_then(|tool| tool.pinned.as_ref()) {
        Some(pin) if pin.hash == candidate.hash => Standing::Pinned,
        Some(pin) => {
            let mut parts = definition::parts(&pin.definition, new);
            if parts.is_empty() {
                parts.push("server");
            }
            Standing::Changed { parts, diff: definition::diff(Some(&pin.definition), new) }
        }
        None if is_first => Standing::New,
        None => match gone.iter().find(|(_, old)| new.is_renamed(old)) {
            Some((from, _)) => Standing::Renamed { from: from.clone() },
            None => Standing::Added,
        },
    }
}

impl KeptOrigin {
    /// Notes what is held back, and why: it waits for a person, or nobody can pin it. Of that no more is kept than there is
    /// room for. What was seen before keeps its time.
    fn hold(
        &mut self,
        candidate: &Candidate<'_>,
        origin: &Origin,
        standing: &Standing,
        mut told: Vec<String>,
        at: &str,
        room: &mut usize,
    ) {
        let tool = self.tools.entry(candidate.local.clone()).or_default();
        if *standing == Standing::Pinned {
            tool.held = None;
            return;
        }
        let barred = standing.barred(&whole(&origin.name, &candidate.local));
        let mut definition = Some(candidate.definition.clone());
        if barred.is_some() {
            let bytes = candidate.definition.to_json().to_string().len();
            match room.checked_sub(bytes).filter(|_| bytes <= LARGEST) {
                Some(left) => *room = left,
                None => {
                    told.push(format!("it has {bytes} bytes, and only its hash is kept"));
                    definition = None;
                }
            }
        }
        let since = tool.held.as_ref().filter(|held| held.hash == candidate.hash).map(|held| held.at.clone());
        tool.held = Some(Seen {
            hash: candidate.hash,
            identity: origin.identity.clone(),
            definition,
            why: standing.as_str().to_owned(),
            barred,
            told,
            at: since.unwrap_or_else(|| at.to_owned()),
        });
    }
}

impl Candidate<'_> {
    fn pin(&self, origin: &Origin, at: &str) -> Pin {
        Pin {
            hash: self.hash,
            identity: origin.identity.clone(),
            definition: self.definition.clone(),
            by: FIRST_SIGHT.to_owned(),
            at: at.to_owned(),
        }
    }
}

fn told(found: &Found) -> String {
    let at: String = found.at.chars().flat_map(char::escape_debug).collect();
    format!("{} at `{at}`: {}", found.rule, found.detail).chars().take(LONGEST_TOLD).collect()
}
