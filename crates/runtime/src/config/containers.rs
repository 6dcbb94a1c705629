//! What containers are like: the block `sandboxing.docker`.
//!
//! Most of it is for the backend that makes them. Whom they may talk to and whether they write is also for the gate: it
//! binds every tool of a category that is placed in containers, wherever its body runs ([`ContainerSettings::bind`]).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use toolgate_contract::{Category, SourceLine};
use toolgate_gate::{Constraints, NetworkMode, Sourced};
use toolgate_sandbox::{Lifecycle, LogShipping};

use super::{
    check::{Check, entries},
    file::{DockerFile, LogShippingFile},
    findings::{Findings, Said},
    load::At,
    rooms::{self, LifecycleLayer, Lower, Voice},
    sandboxing::{MOST_SECONDS, category, size},
    tighten::refuse,
    words::{Port, parse_processors},
};

/// What containers are like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerSettings {
    /// The image, as the daemon knows it: `name:tag`, its id `sha256:..`, or `name@sha256:..`, which no tag can move.
    pub image: String,
    /// Whom containers may talk to.
    pub network: Sourced<ContainerNetwork>,
    /// The same for single categories.
    pub network_overrides: BTreeMap<Category, Sourced<ContainerNetwork>>,
    /// The hosts of `bridge`, each as `host:port`.
    pub allowed_hosts: Vec<Sourced<String>>,
    /// Names are looked up in a container that may talk to somebody.
    pub dns_allowed: bool,
    /// Programs of a container that may talk to somebody may talk to each other.
    pub loopback_allowed: bool,
    /// Bytes of memory of one container.
    pub memory_limit: u64,
    /// How much of the machine's processors, in billionths of one.
    pub cpu_limit: u64,
    /// The longest a program may run, whatever the call asks for.
    pub timeout: Duration,
    /// Processes and threads of one container.
    pub pids_limit: u32,
    /// Bytes of each private directory.
    pub tmpfs_size: u64,
    /// Processes and threads of what serves a container's way out.
    pub sidecar_pids_limit: u32,
    /// Bytes of its private directory.
    pub sidecar_tmpfs_size: u64,
    /// What may be done with the workspace.
    pub mount_mode: Sourced<MountMode>,
    /// The daemon removes a container as soon as it has ended.
    pub auto_remove: bool,
    /// The daemon's runtime, such as `runsc`; none is its default.
    pub runtime: Option<String>,
    /// The daemon's socket; none leaves it to whoever opens the runtime.
    pub host: Option<PathBuf>,
    /// The worker; none leaves it to whoever opens the runtime.
    pub worker: Option<PathBuf>,
    /// Containers that are made before somebody wants them. It decides nothing about what a program can do.
    #[serde(skip)]
    pub warm_rooms: usize,
    /// Who shares a container, and how long it lives. It decides nothing about what a program can do.
    #[serde(skip)]
    pub lifecycle: Lifecycle,
    /// What becomes of what containers say about themselves. It decides nothing either.
    #[serde(skip)]
    pub log_shipping: LogSettings,
}

/// What becomes of what containers say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// It is counted, and told when the container is closed.
    pub enabled: bool,
    /// How long is waited for the end of a log before its container is removed.
    pub collection_timeout: Duration,
    /// Bytes kept of one log.
    pub max_log_bytes: u64,
    /// Every line is told, and not only how many there were.
    pub ship_raw_logs: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { enabled: true, collection_timeout: Duration::from_secs(2), max_log_bytes: 1 << 20, ship_raw_logs: false }
    }
}

impl LogSettings {
    /// As the backend takes it.
    pub(crate) fn shipping(self) -> Option<LogShipping> {
        self.enabled.then(|| LogShipping {
            collection_timeout: self.collection_timeout,
            max_bytes: usize::try_from(self.max_log_bytes).unwrap_or(usize::MAX),
            raw: self.ship_raw_logs,
        })
    }
}

/// Whom a container may talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerNetwork {
    /// Nobody.
    None,
    /// The allowed hosts.
    Bridge,
}

/// What may be done with the workspace of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MountMode {
    /// It is read.
    ReadOnly,
    /// It is written by whoever may write.
    ReadWrite,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            image: "toolgate-base:latest".into(),
            network: Sourced::built_in(ContainerNetwork::None),
            network_overrides: BTreeMap::new(),
            allowed_hosts: Vec::new(),
            dns_allowed: true,
            loopback_allowed: true,
            memory_limit: 512 << 20,
            cpu_limit: 1_000_000_000,
            timeout: Duration::from_secs(120),
            pids_limit: 64,
            tmpfs_size: 64 << 20,
            sidecar_pids_limit: 32,
            sidecar_tmpfs_size: 8 << 20,
            mount_mode: Sourced::built_in(MountMode::ReadOnly),
            auto_remove: true,
            runtime: None,
            host: None,
            worker: None,
            warm_rooms: 0,
            lifecycle: Lifecycle::default(),
            log_shipping: LogSettings::default(),
        }
    }
}

impl ContainerSettings {
    /// Whom tools of a category may talk to at most, and who says so. A default is the word of the line that asks for
    /// containers.
    pub fn network_of(&self, category: Category, placed: &SourceLine) -> Sourced<ContainerNetwork> {
        said_by(self.network_overrides.get(&category).unwrap_or(&self.network), placed)
    }

    /// What is left of an agent's constraints for tools of a category that the line `placed` puts into containers.
    pub(crate) fn bind(&self, category: Category, placed: &SourceLine, constraints: &Constraints) -> Constraints {
        let mut bound = constraints.clone();
        let Sourced { value: network, source } = self.network_of(category, placed);
        if network == ContainerNetwork::None {
            bound.network = Sourced { value: NetworkMode::None, source };
            bound.network_allowlist.clear();
        } else if constraints.network.value != NetworkMode::None {
            let both = self.allowed_hosts.iter().filter(|host| constraints.may_reach(&host.value).is_ok());
            bound.network_allowlist = both.cloned().collect();
            if constraints.network.value == NetworkMode::Open {
                bound.network = Sourced { value: NetworkMode::AllowlistOnly, source };
            }
        }
        let mount = said_by(&self.mount_mode, placed);
        if mount.value == MountMode::ReadOnly {
            bound.read_only = Some(mount.source);
        }
        bound
    }
}

fn said_by<T: Copy>(said: &Sourced<T>, placed: &SourceLine) -> Sourced<T> {
    let source = if said.source == SourceLine::built_in() { placed } else { &said.source };
    Sourced { value: said.value, source: source.clone() }
}

/// The block of one file.
#[derive(Debug, Default)]
pub(super) struct ContainersLayer {
    image: Option<Said<String>>,
    network: Option<Said<ContainerNetwork>>,
    network_overrides: Vec<(Category, Said<ContainerNetwork>)>,
    allowed_hosts: Option<Vec<Said<String>>>,
    dns_allowed: Option<Said<bool>>,
    loopback_allowed: Option<Said<bool>>,
    memory: Option<Said<u64>>,
    cpu: Option<Said<u64>>,
    timeout: Option<Said<Duration>>,
    pids: Option<Said<u32>>,
    tmpfs: Option<Said<u64>>,
    sidecar_pids: Option<Said<u32>>,
    sidecar_tmpfs: Option<Said<u64>>,
    mount_mode: Option<Said<MountMode>>,
    auto_remove: Option<Said<bool>>,
    runtime: Option<Said<String>>,
    host: Option<Said<PathBuf>>,
    worker: Option<Said<PathBuf>>,
    warm_rooms: Option<Said<usize>>,
    lifecycle: LifecycleLayer,
    log_shipping: LogLayer,
}

#[derive(Debug, Default)]
struct LogLayer {
    enabled: Option<Said<bool>>,
    timeout: Option<Said<Duration>>,
    bytes: Option<Said<u64>>,
    raw: Option<Said<bool>>,
}

// ---- one file ----

const NETWORKS: [(&str, ContainerNetwork); 2] =
    [("none", ContainerNetwork::None), ("bridge", ContainerNetwork::Bridge)];
const MOUNT_MODES: [(&str, MountMode); 2] = [("ro", MountMode::ReadOnly), ("rw", MountMode::ReadWrite)];

/// What the daemon holds a container to at least, in billionths of a processor.
const LEAST_CPU: f64 = 0.01;
const MOST_CPU: f64 = 16.0;

/// Checks the block.
pub(super) fn check(cx: &mut Check<'_>, block: &DockerFile) -> ContainersLayer {
    ContainersLayer {
        image: block.image.as_ref().and_then(|image| named(cx, image, is_image, "the name of an image", IMAGE)),
        network: block.network.as_ref().and_then(|word| one_of(cx, "network", word, &NETWORKS)),
        network_overrides: network_overrides(cx, block),
        allowed_hosts: block.allowed_hosts.as_deref().map(|hosts| cx.hosts(hosts, Port::Required)),
        dns_allowed: block.dns_allowed.as_ref().map(|said| cx.said(said)),
        loopback_allowed: block.loopback_allowed.as_ref().map(|said| cx.said(said)),
        memory: size(cx, "memory_limit", block.memory_limit.as_ref(), 6 << 20, "`512m`"),
        cpu: block.cpu_limit.as_ref().and_then(|share| processors(cx, share)),
        timeout: cx.whole("timeout_seconds", block.timeout_seconds.as_ref(), 1..=MOST_SECONDS).map(rooms::seconds),
        // The worker and what it starts before any job need some of them.
        pids: cx.whole("pids_limit", block.pids_limit.as_ref(), 16..=1_024).map(rooms::small),
        tmpfs: size(cx, "tmpfs_size", block.tmpfs_size.as_ref(), 64 << 10, "`64m`"),
        sidecar_pids: cx.whole("sidecar_pids_limit", block.sidecar_pids_limit.as_ref(), 8..=1_024).map(rooms::small),
        sidecar_tmpfs: size(cx, "sidecar_tmpfs_size", block.sidecar_tmpfs_size.as_ref(), 64 << 10, "`8m`"),
        mount_mode: block.mount_mode.as_ref().and_then(|word| one_of(cx, "mount_mode", word, &MOUNT_MODES)),
        auto_remove: block.auto_remove.as_ref().map(|said| cx.said(said)),
        runtime: block.runtime.as_ref().and_then(|name| named(cx, name, is_word, "the name of a runtime", RUNTIME)),
        host: block.host.as_ref().and_then(|host| socket(cx, host)),
        worker: block.worker.as_ref().and_then(|path| worker(cx, path)),
        warm_rooms: cx.whole("warm_rooms", block.warm_rooms.as_ref(), 0..=16).map(rooms::whole),
        lifecycle: block.lifecycle.as_ref().map(|block| rooms::check_lifecycle(cx, block)).unwrap_or_default(),
        log_shipping: block.log_shipping.as_ref().map(|block| check_logs(cx, block)).unwrap_or_default(),
    }
}

/// Whoever closes a container waits for its log, so it is not waited for long; a log is kept in memory, so it is small.
fn check_logs(cx: &mut Check<'_>, block: &LogShippingFile) -> LogLayer {
    let timeout = cx.whole("collection_timeout_seconds", block.collection_timeout_seconds.as_ref(), 1..=30);
    LogLayer {
        enabled: block.enabled.as_ref().map(|said| cx.said(said)),
        timeout: timeout.map(rooms::seconds),
        bytes: cx.whole("max_log_bytes", block.max_log_bytes.as_ref(), 1 << 10..=16 << 20),
        raw: block.ship_raw_logs.as_ref().map(|said| cx.said(said)),
    }
}

const IMAGE: &str = "Write `name:tag` or `name@sha256:..`.";
const RUNTIME: &str = "Write a name the daemon knows, such as `runsc`.";

fn network_overrides(cx: &mut Check<'_>, block: &DockerFile) -> Vec<(Category, Said<ContainerNetwork>)> {
    let mut overrides: Vec<(Category, Said<ContainerNetwork>)> = Vec::new();
    for (name, word) in entries(&block.network_overrides) {
        let (known, network) = (category(cx, name), one_of(cx, &name.value, word, &NETWORKS));
        let (Some(known), Some(network)) = (known, network) else { continue };
        if overrides.iter().any(|(category, _)| *category == known) {
            let message = format!("category `{known}` has two networks");
            cx.error(name.mark, message, "Keep one of the two; `git` is another word for `version_control`.");
        }
        overrides.push((known, network));
    }
    overrides
}

fn one_of<T: Copy>(cx: &mut Check<'_>, key: &str, word: &At<String>, known: &[(&str, T)]) -> Option<Said<T>> {
    rooms::one_of(cx, &format!("value for `{key}`:"), word, known)
}

fn named(
    cx: &mut Check<'_>,
    name: &At<String>,
    fits: fn(&str) -> bool,
    what: &str,
    remedy: &str,
) -> Option<Said<String>> {
    if !fits(&name.value) {
        cx.error(name.mark, format!("`{}` is not {what}", name.value), remedy);
        return None;
    }
    Some(cx.said(name))
}

fn processors(cx: &mut Check<'_>, share: &At<String>) -> Option<Said<u64>> {
    let known = parse_processors(&share.value).filter(|share| (LEAST_CPU..=MOST_CPU).contains(share));
    if known.is_none() {
        let message = format!("`cpu_limit: {}` is not a number of processors", share.value);
        cx.error(share.mark, message, "Write a number up to 16, such as `1.0`.");
    }
    let billionths = (known? * 1_000_000_000.0).round() as u64;
    Some(Said { value: billionths, spot: cx.spot(share.mark) })
}

/// A daemon elsewhere could mount nothing of this machine.
fn socket(cx: &mut Check<'_>, host: &At<String>) -> Option<Said<PathBuf>> {
    let path = host.value.strip_prefix("unix://").unwrap_or(&host.value);
    if !is_whole(path) {
        let message = format!("`{}` is not the socket of a daemon on this machine", host.value);
        cx.error(host.mark, message, "Write its socket, such as `unix:///var/run/docker.sock`.");
        return None;
    }
    Some(Said { value: path.into(), spot: cx.spot(host.mark) })
}

fn worker(cx: &mut Check<'_>, path: &At<String>) -> Option<Said<PathBuf>> {
    if !is_whole(&path.value) {
        let message = format!("`{}` is not where a program could be", path.value);
        cx.error(path.mark, message, "Write an absolute path, such as `/usr/lib/toolgate/toolgate-worker`.");
        return None;
    }
    Some(Said { value: PathBuf::from(&path.value), spot: cx.spot(path.mark) })
}

fn is_whole(path: &str) -> bool {
    Path::new(path).is_absolute() && !path.contains(char::is_control)
}

fn is_image(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 512 && text.chars().all(fits)
}

fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 64 && text.chars().all(fits)
}

// ---- one file on top of another ----

impl ContainersLayer {
    /// Puts this block over what holds, as far as the voice may. Of lists the later one stands.
    pub(super) fn apply(self, held: &mut ContainerSettings, voice: Voice, findings: &mut Findings) {
        self.apply_network(held, voice, findings);
        same("image", &mut held.image, self.image, voice, findings);
        same("runtime", &mut held.runtime, self.runtime, voice, findings);
        same("host", &mut held.host, self.host, voice, findings);
        same("worker", &mut held.worker, self.worker, voice, findings);
        sourced("mount_mode", &mut held.mount_mode, self.mount_mode, voice, findings);
        let mut lower = Lower { voice, findings };
        lower.set("dns_allowed", &mut held.dns_allowed, self.dns_allowed);
        lower.set("loopback_allowed", &mut held.loopback_allowed, self.loopback_allowed);
        lower.set("memory_limit", &mut held.memory_limit, self.memory);
        lower.set("cpu_limit", &mut held.cpu_limit, self.cpu);
        lower.set("timeout_seconds", &mut held.timeout, self.timeout);
        lower.set("pids_limit", &mut held.pids_limit, self.pids);
        lower.set("tmpfs_size", &mut held.tmpfs_size, self.tmpfs);
        lower.set("sidecar_pids_limit", &mut held.sidecar_pids_limit, self.sidecar_pids);
        lower.set("sidecar_tmpfs_size", &mut held.sidecar_tmpfs_size, self.sidecar_tmpfs);
        // A container that is not removed at once is the looser one.
        lower.set_by("auto_remove", |removed: bool| !removed, &mut held.auto_remove, self.auto_remove);
        lower.set("warm_rooms", &mut held.warm_rooms, self.warm_rooms);
        self.lifecycle.apply(&mut held.lifecycle, &mut lower);
        let (logs, held) = (self.log_shipping, &mut held.log_shipping);
        // What is not told is not looked at.
        lower.set_by("enabled", |told: bool| !told, &mut held.enabled, logs.enabled);
        lower.set("collection_timeout_seconds", &mut held.collection_timeout, logs.timeout);
        lower.set("max_log_bytes", &mut held.max_log_bytes, logs.bytes);
        lower.set("ship_raw_logs", &mut held.ship_raw_logs, logs.raw);
    }

    /// Of an untrusted file a category's own network is compared with what holds for the category, also where that is
    /// the network of all.
    fn apply_network(&self, held: &mut ContainerSettings, voice: Voice, findings: &mut Findings) {
        // What an operator says of all is also meant for categories an earlier file opened.
        if voice == Voice::Trusted && self.network.is_some() {
            held.network_overrides.retain(|_, own| own.value == ContainerNetwork::None);
        }
        for (category, said) in &self.network_overrides {
            let mut own = held.network_overrides.get(category).unwrap_or(&held.network).clone();
            sourced(category.as_str(), &mut own, Some(said.clone()), voice, findings);
            held.network_overrides.insert(*category, own);
        }
        sourced("network", &mut held.network, self.network.clone(), voice, findings);
        let Some(hosts) = &self.allowed_hosts else { return };
        let said = hosts.iter().cloned().map(|host| findings.sourced(host));
        if voice == Voice::Trusted {
            held.allowed_hosts = said.collect();
            return;
        }
        for new in hosts.iter().filter(|host| held.allowed_hosts.iter().all(|known| known.value != host.value)) {
            refuse(new.spot, "a new allowed host", findings);
        }
        held.allowed_hosts.retain(|known| hosts.iter().any(|host| host.value == known.value));
    }
}

/// What an untrusted file may repeat and not change.
fn same<T: PartialEq>(
    key: &str,
    held: &mut T,
    said: Option<Said<impl Into<T>>>,
    voice: Voice,
    findings: &mut Findings,
) {
    let Some(Said { value, spot }) = said else { return };
    let value = value.into();
    match voice == Voice::Untrusted && *held != value {
        true => refuse(spot, &format!("another `{key}`"), findings),
        false => *held = value,
    }
}

/// Sets a value that knows its line; that of an untrusted file only where it is lower.
fn sourced<T: Copy + Ord>(
    key: &str,
    held: &mut Sourced<T>,
    said: Option<Said<T>>,
    voice: Voice,
    findings: &mut Findings,
) {
    let Some(said) = said else { return };
    match voice == Voice::Untrusted && said.value > held.value {
        true => refuse(said.spot, &format!("a looser `{key}`"), findings),
        false => *held = findings.sourced(said),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::Level;

    use super::*;

    fn line(number: u64) -> SourceLine {
        SourceLine { file: "t.yaml".into(), line: number }
    }

    fn said<T>(value: T, number: u64) -> Sourced<T> {
        Sourced { value, source: line(number) }
    }

    /// What is left of `network` with the hosts an agent lists, in containers that may talk to `allowed`.
    fn check(agent: (NetworkMode, &[&str]), network: ContainerNetwork, expected: (NetworkMode, &[&str])) {
        let hosts = ["a.example:443", "b.example:5432"];
        let settings = ContainerSettings {
            network_overrides: BTreeMap::from([(Category::Web, said(network, 7))]),
            allowed_hosts: hosts.map(|host| said(host.to_owned(), 8)).to_vec(),
            mount_mode: said(MountMode::ReadWrite, 9),
            ..ContainerSettings::default()
        };
        let mut constraints = Constraints::of(Level::Standard);
        constraints.network = Sourced::built_in(agent.0);
        constraints.network_allowlist = agent.1.iter().map(|host| Sourced::built_in((*host).to_owned())).collect();
        let bound = settings.bind(Category::Web, &line(3), &constraints);
        let list: Vec<&str> = bound.network_allowlist.iter().map(|host| host.value.as_str()).collect();
        assert_eq!((bound.network.value, list.as_slice()), expected, "{agent:?} {network:?}");
        let same = Constraints { network: bound.network.clone(), network_allowlist: Vec::new(), ..constraints.clone() };
        assert_eq!(Constraints { network_allowlist: Vec::new(), ..bound }, same, "nothing else is touched");
    }

    #[test]
    fn only_whom_both_allow_is_reached() {
        use ContainerNetwork::{Bridge, None};
        let both: &[&str] = &["a.example:443", "b.example:5432"];
        check((NetworkMode::Open, &[]), Bridge, (NetworkMode::AllowlistOnly, both));
        check((NetworkMode::Open, &[]), None, (NetworkMode::None, &[]));
        check((NetworkMode::None, &[]), Bridge, (NetworkMode::None, &[]));
        check((NetworkMode::AllowlistOnly, &["a.example"]), Bridge, (NetworkMode::AllowlistOnly, &["a.example:443"]));
        check((NetworkMode::AllowlistOnly, &["b.example"]), Bridge, (NetworkMode::AllowlistOnly, &[]));
        check((NetworkMode::AllowlistOnly, &["c.example"]), Bridge, (NetworkMode::AllowlistOnly, &[]));
        check((NetworkMode::AllowlistOnly, &["a.example"]), None, (NetworkMode::None, &[]));
    }

    #[test]
    fn a_default_is_the_word_of_the_line_that_asks_for_containers() {
        let settings = ContainerSettings { mount_mode: said(MountMode::ReadOnly, 9), ..ContainerSettings::default() };
        let bound = settings.bind(Category::Web, &line(3), &Constraints::of(Level::Standard));
        assert_eq!((bound.network.source, bound.read_only), (line(3), Some(line(9))));
    }
}
