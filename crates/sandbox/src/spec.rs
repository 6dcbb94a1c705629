//! What a room is to be: pure data, and its hash.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use toolgate_contract::{Digest, digest};

/// What a room is to be. Two rooms with the same hash are the same room to whoever works in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSpec {
    /// The directory it is about; none for a room that has only its private ones.
    pub workspace: Option<WorkspaceSpec>,
    /// Directories of the machine that are seen in it, read-only, at the same path, besides the system's own.
    pub visible: Vec<PathBuf>,
    /// Paths of the machine that are not seen in it even where a directory above them is.
    pub hidden: Vec<PathBuf>,
    /// Files and directories of the machine that are seen in it and cannot be looked into, changed, or moved, nor can
    /// the directories of the workspace above them. They are there when the room is made, and no link leads to them.
    pub closed: Vec<PathBuf>,
    /// The directory of the workspace in which jobs start; none is its root.
    pub start: Option<PathBuf>,
    /// Directories put before the fixed ones in `PATH`.
    pub path_prefixes: Vec<PathBuf>,
    /// Whom it may talk to.
    pub egress: Egress,
    /// How much of the machine it may use.
    pub limits: RoomLimits,
    /// Which kinds of room will do.
    pub tier: TierChoice,
    /// Walls the operator can do without where the machine does not have them. Each is in the receipt.
    pub accepted_gaps: BTreeSet<Wall>,
}

impl RoomSpec {
    /// A room of its own for one program: no network, no workspace, ordinary limits.
    pub fn bare() -> Self {
        Self {
            workspace: None,
            visible: Vec::new(),
            hidden: Vec::new(),
            closed: Vec::new(),
            start: None,
            path_prefixes: Vec::new(),
            egress: Egress::Deny,
            limits: RoomLimits::default(),
            tier: TierChoice::Best,
            accepted_gaps: BTreeSet::new(),
        }
    }

    /// Does a path of the machine lie in what of the machine is seen in it?
    pub(crate) fn shows(&self, path: &Path) -> bool {
        let mut shown = self.visible.iter().chain(self.workspace.iter().map(|workspace| &workspace.path));
        shown.any(|shown| path.starts_with(shown))
    }

    /// The hash of all of it.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        digest(self)
    }
}

/// The directory a room is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSpec {
    /// Where it is on the machine, and where it is seen in the room.
    pub path: PathBuf,
    /// What may be done with it.
    pub mode: WorkspaceMode,
    /// Paths relative to it that are read-only and stay where they are.
    pub protected: Vec<String>,
}

/// What may be done with a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// Writes are the machine's.
    ReadWrite,
    /// No writes.
    ReadOnly,
    /// Writes go beside it; somebody looks at the difference and commits or discards it.
    Overlay,
}

/// Whom a room may talk to. There is no "everybody".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Egress {
    /// Nobody.
    Deny,
    /// Whom this opening leads to.
    Allow(Opening),
}

impl Egress {
    /// These, each as `host:port` or `*.host:port`, where they lead to public addresses. An empty list is nobody.
    pub fn to(hosts: Vec<String>) -> Self {
        Self::Allow(Opening { hosts, ..Opening::default() })
    }

    /// The opening that leads to somebody.
    pub fn opening(&self) -> Option<&Opening> {
        match self {
            Self::Allow(opening) if !opening.hosts.is_empty() => Some(opening),
            Self::Allow(_) | Self::Deny => None,
        }
    }
}

/// Whom a room may talk to, and how they are found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// These, each as `host:port` or `*.host:port`. An empty list is nobody.
    pub hosts: Vec<String>,
    /// Which hosts may be internal, by name and by address: `host`, `*.host`, an address or a block, with a port or
    /// without. They are reached only where `hosts` lists them too.
    pub internal: Vec<String>,
    /// Which hosts are out of reach whatever `hosts` lists, spelt like `internal` ones; also by a name that leads to one.
    pub barred: Vec<String>,
    /// Who is asked for addresses; the machine's own resolver where there is nobody.
    pub name_servers: Vec<SocketAddr>,
    /// Addresses that were found beforehand, by name. Where there are any, no other name has an address.
    pub pinned: BTreeMap<String, Vec<IpAddr>>,
}

/// How much of the machine a room may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomLimits {
    /// Bytes of memory, of all processes of one job together.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Processor time of one job.
    pub cpu: Duration,
    /// Bytes one job may write to the workspace.
    pub disk: u64,
    /// Bytes each of the private directories (`/tmp`, home) holds.
    pub scratch: u64,
    /// Open files of one process.
    pub open_files: u64,
}

impl Default for RoomLimits {
    fn default() -> Self {
        Self {
            memory: 2 << 30,
            pids: 256,
            cpu: Duration::from_secs(600),
            disk: 4 << 30,
            scratch: 256 << 20,
            open_files: 1_024,
        }
    }
}

/// The kinds of process rooms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Landlock and seccomp, on the machine's own file tree.
    Landlock,
    /// Namespaces with a root of its own, and Landlock and seccomp inside.
    Namespaces,
}

impl Tier {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        }
    }
}

/// Which kinds of room will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TierChoice {
    /// The strongest this machine has. Walls it lacks are missing walls all the same.
    Best,
    /// This one, or none.
    Only(Tier),
}

/// One promise a room makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// Nothing of the machine's files is seen but what the spec lists.
    Files,
    /// Modes, owners and times of files elsewhere cannot be changed.
    Metadata,
    /// Protected names cannot be changed or moved.
    ProtectedNames,
    /// Other processes of the machine cannot be seen or signalled.
    Processes,
    /// Nobody can be talked to but whom the spec lists.
    Network,
    /// No System V or POSIX message, no abstract socket reaches out.
    Ipc,
    /// No way to more rights: unprivileged uid, no capabilities, no set-uid.
    Privileges,
    /// Only listed system calls.
    Syscalls,
    /// A limit on memory.
    Memory,
    /// A limit on processes.
    Pids,
    /// A limit on processor time.
    Cpu,
    /// A limit on what is written.
    Disk,
}

impl Wall {
    /// All of them, in the order they are told.
    pub const ALL: [Self; 12] = [
        Self::Files,
        Self::Metadata,
        Self::ProtectedNames,
        Self::Processes,
        Self::Network,
        Self::Ipc,
        Self::Privileges,
        Self::Syscalls,
        Self::Memory,
        Self::Pids,
        Self::Cpu,
        Self::Disk,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Metadata => "metadata",
            Self::ProtectedNames => "protected_names",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Ipc => "ipc",
            Self::Privileges => "privileges",
            Self::Syscalls => "syscalls",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
        }
    }

    /// The wall of this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wall| wall.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_opening_makes_another_room() {
        let hosts = || vec!["example.com:443".to_owned()];
        let openings = [
            Opening::default(),
            Opening { hosts: hosts(), ..Opening::default() },
            Opening { hosts: hosts(), internal: vec!["example.com".into()], ..Opening::default() },
            Opening { hosts: hosts(), barred: vec!["10.0.0.0/8".into()], ..Opening::default() },
            Opening { hosts: hosts(), name_servers: vec!["10.0.0.53:53".parse().unwrap()], ..Opening::default() },
            Opening {
                hosts: hosts(),
                pinned: BTreeMap::from([("example.com".to_owned(), vec!["1.1.1.1".parse().unwrap()])]),
                ..Opening::default()
            },
        ];
        let rooms = openings.map(|opening| RoomSpec { egress: Egress::Allow(opening), ..RoomSpec::bare() });
        let digests: BTreeSet<String> = rooms.iter().map(|spec| spec.digest().unwrap().to_string()).collect();
        assert_eq!(digests.len(), rooms.len());
        assert!(rooms[0].egress.opening().is_none(), "an empty list is nobody");
    }
}
