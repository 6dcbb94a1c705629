//! The block `sandboxing`: which backend tools of a category run in, and how each backend is set up.
//!
//! This build has process rooms (`rooms`) and containers (`containers`). The settings of other backends are checked all
//! the same: a mistake in them should not wait for the day the backend arrives.

use std::collections::BTreeMap;

use toolgate_contract::Category;

use super::{
    ContainerNetwork, ContainerSettings, Place,
    check::{Check, entries},
    containers::MountMode,
    file::{KubernetesFile, ResourcesFile, SandboxingFile},
    findings::{Findings, Said},
    load::At,
    tighten::refuse,
    words::{parse_millicores, parse_quantity, parse_size},
};

/// The longest a call may take in any backend, in seconds.
pub(super) const MOST_SECONDS: u64 = 600;

/// Where code runs that needs a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// In this process; only files can.
    Inline,
    Subprocess,
    Docker,
    Kubernetes,
    Remote,
    DenyAll,
}

/// The backends one file asks for.
#[derive(Debug, Default)]
pub(super) struct Sandboxing {
    default: Option<Said<Backend>>,
    overrides: BTreeMap<Category, Override>,
}

#[derive(Debug)]
struct Override {
    backend: Said<Backend>,
    /// The line, as it is written.
    written: String,
}

impl Backend {
    const WORDS: [&str; 8] = ["subprocess", "process", "docker", "k8s", "kubernetes", "remote", "deny_all", "inline"];

    fn parse(word: &str) -> Option<Self> {
        match word {
            "inline" => Some(Self::Inline),
            "subprocess" | "process" => Some(Self::Subprocess),
            "docker" => Some(Self::Docker),
            "k8s" | "kubernetes" => Some(Self::Kubernetes),
            "remote" => Some(Self::Remote),
            "deny_all" => Some(Self::DenyAll),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Subprocess => "subprocess",
            Self::Docker => "docker",
            Self::Kubernetes => "k8s",
            Self::Remote => "remote",
            Self::DenyAll => "deny_all",
        }
    }
}

impl Sandboxing {
    /// Puts the words of a later file over this one's. What it says of all is also meant for categories this one named; only
    /// what this one denied stays denied.
    pub(super) fn merge(&mut self, later: Self) {
        if later.default.is_some() {
            self.overrides.retain(|_, said| said.backend.value == Backend::DenyAll);
        }
        self.default = later.default.or(self.default.take());
        self.overrides.extend(later.overrides);
    }

    /// Where each category runs. What nobody speaks about runs nowhere, except files, programs, git and what goes through the judged client.
    pub(super) fn places(&self, containers: &ContainerSettings, findings: &mut Findings) -> BTreeMap<Category, Place> {
        let mut places = BTreeMap::from([
            (Category::FileSystem, Place::Inline),
            (Category::Terminal, Place::Room),
            (Category::CodeExecution, Place::Room),
            (Category::VersionControl, Place::Room),
            (Category::Web, Place::Inline),
            (Category::ExternalData, Place::Inline),
            // Only our end of the conversation: where the server itself runs is not for its tools to say.
            (Category::Mcp, Place::Inline),
        ]);
        let mut by_default = Vec::new();
        for category in Category::ALL {
            if let Some(said) = self.overrides.get(&category) {
                places.insert(category, place(category, &said.backend, findings));
                note(&said.written, &said.backend, &[category], containers, findings);
            } else if let Some(default) = &self.default {
                places.insert(category, place(category, default, findings));
                by_default.push(category);
            }
        }
        if let Some(default) = &self.default {
            let written = format!("default_backend: {}", default.value.word());
            note(&written, default, &by_default, containers, findings);
        }
        places
    }

    /// What an untrusted file asks for: a category may lose its place, and get no other.
    pub(super) fn tighten(self, places: &mut BTreeMap<Category, Place>, findings: &mut Findings) {
        for (category, said) in &self.overrides {
            deny_only(*category, &said.backend, places, findings);
        }
        let Some(default) = &self.default else { return };
        for category in Category::ALL.iter().filter(|category| !self.overrides.contains_key(category)) {
            if !deny_only(*category, default, places, findings) {
                return;
            }
        }
    }
}

/// Takes a category its place. Says whether the word was fine.
fn deny_only(
    category: Category,
    said: &Said<Backend>,
    places: &mut BTreeMap<Category, Place>,
    findings: &mut Findings,
) -> bool {
    let wanted = place(category, said, findings);
    let held = places.get(&category).unwrap_or(&Place::DenyAll);
    // Which line asks for the same does not matter.
    let is_held = std::mem::discriminant(held) == std::mem::discriminant(&wanted);
    if !is_held && wanted != Place::DenyAll {
        refuse(said.spot, &format!("backend `{}` for category `{category}`", said.value.word()), findings);
        return false;
    }
    if !is_held {
        places.insert(category, wanted);
    }
    true
}

fn place(category: Category, said: &Said<Backend>, findings: &Findings) -> Place {
    match said.value {
        Backend::Inline => Place::Inline,
        // Bodies of file tools do not run in rooms yet: their wall is the opened directory, which they cannot leave.
        Backend::Subprocess if category == Category::FileSystem => Place::Inline,
        Backend::Subprocess => Place::Room,
        Backend::Docker => Place::Docker { source: findings.source(said.spot) },
        Backend::DenyAll => Place::DenyAll,
        missing @ (Backend::Kubernetes | Backend::Remote) => {
            Place::Unavailable { backend: missing.word(), source: findings.source(said.spot) }
        }
    }
}

/// Says what a backend does not do for these categories.
fn note(
    written: &str,
    said: &Said<Backend>,
    categories: &[Category],
    containers: &ContainerSettings,
    findings: &mut Findings,
) {
    match said.value {
        Backend::Inline | Backend::DenyAll => {}
        Backend::Subprocess if categories.contains(&Category::FileSystem) => {
            let text = format!(
                "`{written}`: file tools work in this process on the opened workspace, which they cannot leave; \
                 programs run in rooms"
            );
            findings.note(said.spot, text);
        }
        Backend::Subprocess => {}
        Backend::Docker => {
            let here: Vec<Category> = categories.iter().copied().filter(|it| NO_PROGRAMS.contains(it)).collect();
            if !here.is_empty() {
                findings.note(said.spot, held_here(written, &here, containers));
            }
        }
        missing @ (Backend::Kubernetes | Backend::Remote) => {
            findings.note(said.spot, refused(written, missing, categories));
        }
    }
}

/// The categories whose tools start no programs.
const NO_PROGRAMS: [Category; 4] = [Category::FileSystem, Category::Web, Category::ExternalData, Category::Mcp];

/// Where tools of these categories work though their place is a container, and what they are held to.
fn held_here(written: &str, categories: &[Category], containers: &ContainerSettings) -> String {
    let names: Vec<&str> = categories.iter().map(|category| category.as_str()).collect();
    let mut held = Vec::new();
    if categories.contains(&Category::FileSystem) && containers.mount_mode.value == MountMode::ReadOnly {
        held.push("`mount_mode: ro`, so that files are not written".to_owned());
    }
    let (mut nobody, mut listed) = (Vec::new(), Vec::new());
    for category in categories.iter().filter(|category| **category != Category::FileSystem) {
        let network = containers.network_overrides.get(category).unwrap_or(&containers.network).value;
        match network == ContainerNetwork::Bridge && !containers.allowed_hosts.is_empty() {
            true => listed.push(category.as_str()),
            false => nobody.push(category.as_str()),
        }
    }
    if !nobody.is_empty() {
        held.push(format!("the network of containers, which is shut to {}", nobody.join(", ")));
    }
    if !listed.is_empty() {
        held.push(format!("`allowed_hosts` and no other host for {}", listed.join(", ")));
    }
    let held = if held.is_empty() { String::new() } else { format!(", held to {}", held.join(", and to ")) };
    format!("`{written}`: tools of {} start no programs and work in this process{held}", names.join(", "))
}

fn refused(written: &str, backend: Backend, categories: &[Category]) -> String {
    let names: Vec<&str> = categories.iter().map(|category| category.as_str()).collect();
    let files = if categories.contains(&Category::FileSystem) {
        " (`file_system: inline` under `overrides` runs file tools without it)"
    } else {
        ""
    };
    format!(
        "`{written}` is switched on, but this build has no {} backend: tools of {} {} will be refused{files}",
        backend.word(),
        if names.len() == 1 { "category" } else { "categories" },
        names.join(", "),
    )
}

/// Checks the block.
pub(super) fn check(cx: &mut Check<'_>, block: &SandboxingFile) -> Sandboxing {
    if let Some(k8s) = &block.k8s {
        check_kubernetes(cx, k8s);
    }
    Sandboxing {
        default: block.default_backend.as_ref().and_then(|word| default_backend(cx, word)),
        overrides: check_overrides(cx, block),
    }
}

fn default_backend(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<Backend>> {
    let said = backend(cx, word)?;
    if said.value == Backend::Inline {
        let remedy = "Write `file_system: inline` under `overrides`, and a backend for the rest.";
        cx.error(word.mark, "only file tools can run inline", remedy);
        return None;
    }
    Some(said)
}

fn backend(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<Backend>> {
    let known = Backend::parse(&word.value);
    if known.is_none() {
        cx.unknown("backend", word, Backend::WORDS);
    }
    known.map(|value| Said { value, spot: cx.spot(word.mark) })
}

fn check_overrides(cx: &mut Check<'_>, block: &SandboxingFile) -> BTreeMap<Category, Override> {
    let mut overrides = BTreeMap::new();
    for (name, word) in entries(&block.overrides) {
        let (Some(category), Some(backend)) = (category(cx, name), backend(cx, word)) else {
            continue;
        };
        if backend.value == Backend::Inline && category != Category::FileSystem {
            let message = format!("tools of category `{category}` need a room and cannot run inline");
            cx.error(word.mark, message, "Write `deny_all`, or a backend.");
            continue;
        }
        let written = format!("{}: {}", name.value, word.value);
        if overrides.insert(category, Override { backend, written }).is_some() {
            let message = format!("category `{category}` has two backends");
            cx.error(name.mark, message, "Keep one of the two; `git` is another word for `version_control`.");
        }
    }
    overrides
}

pub(super) fn category(cx: &mut Check<'_>, name: &At<String>) -> Option<Category> {
    let known = Category::parse(&name.value);
    if known.is_none() {
        cx.unknown("category", name, Category::ALL.iter().map(|category| category.as_str()).chain(["git"]));
    }
    known
}

fn check_kubernetes(cx: &mut Check<'_>, block: &KubernetesFile) {
    if let Some(namespace) = block.namespace.as_ref().filter(|namespace| !is_label(&namespace.value)) {
        let message = format!("`{}` is not a namespace", namespace.value);
        cx.error(namespace.mark, message, "Write at most 63 lower-case letters, digits and `-`.");
    }
    one_of(cx, "network_policy", block.network_policy.as_ref(), &["deny-all"]);
    let requests = block.resource_requests.as_ref().map(|resources| check_resources(cx, resources)).unwrap_or_default();
    let limits = block.resource_limits.as_ref().map(|resources| check_resources(cx, resources)).unwrap_or_default();
    for (what, request, limit) in [("cpu", requests.0, limits.0), ("memory", requests.1, limits.1)] {
        if let (Some((request, written)), Some((limit, most))) = (request, limit)
            && request > limit
        {
            let message = format!("a request for `{what}: {}` is above the limit `{}`", written.value, most.value);
            cx.error(written.mark, message, format!("Write `{}` or less.", most.value));
        }
    }
}

/// An amount, and how it is written.
type Amount<'a> = Option<(u64, &'a At<String>)>;

fn check_resources<'a>(cx: &mut Check<'_>, block: &'a ResourcesFile) -> (Amount<'a>, Amount<'a>) {
    let mut read = |key: &str, text: &'a Option<At<String>>, parse: fn(&str) -> Option<u64>, example: &str| {
        let text = text.as_ref()?;
        let amount = parse(&text.value);
        if amount.is_none() {
            let message = format!("`{key}: {}` is not an amount", text.value);
            cx.error(text.mark, message, format!("Write an amount such as {example}."));
        }
        Some((amount?, text))
    };
    (
        read("cpu", &block.cpu, parse_millicores, "`250m` or `1`"),
        read("memory", &block.memory, parse_quantity, "`256Mi`"),
    )
}

fn one_of(cx: &mut Check<'_>, key: &str, word: Option<&At<String>>, known: &[&str]) {
    if let Some(word) = word.filter(|word| !known.contains(&&*word.value)) {
        cx.unknown(&format!("value for `{key}`:"), word, known.iter().copied());
    }
}

/// An amount of bytes, at least so much and at most a tebibyte.
pub(super) fn size(
    cx: &mut Check<'_>,
    key: &str,
    text: Option<&At<String>>,
    least: u64,
    example: &str,
) -> Option<Said<u64>> {
    let text = text?;
    let bytes = parse_size(&text.value).filter(|bytes| (least..=1 << 40).contains(bytes));
    if bytes.is_none() {
        let message = format!("`{key}: {}` is not a usable amount", text.value);
        cx.error(text.mark, message, format!("Write a number and `k`, `m` or `g`, such as {example}."));
    }
    bytes.map(|value| Said { value, spot: cx.spot(text.mark) })
}

fn is_label(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}
