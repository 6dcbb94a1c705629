//! Configuration: one YAML file format, read in layers, checked before anything runs.

mod error;

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use toolgate_contract::{AgentName, Caps, Category, Digest, SourceLine};
use toolgate_gate::Policy;

pub use error::{ConfigError, Note, Snippet};

/// A checked configuration: the policy, and the settings that are not policy.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the gate goes by.
    pub policy: Policy,
    /// What else is set for each agent of the policy.
    pub agents: BTreeMap<AgentName, AgentSettings>,
    /// How much at once.
    pub limits: Limits,
    /// Names no tool may write in any workspace, besides the built-in ones.
    pub protected: Vec<String>,
    /// What an operator should know though the config holds.
    pub notes: Vec<Note>,
    /// The files it was read from, in the order they were applied.
    pub files: Vec<ConfigFileInfo>,
    places: BTreeMap<Category, Place>,
}

/// What is set for one agent besides its part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The directory its file tools work in: absolute, and there when the config was loaded.
    pub workspace: PathBuf,
}

/// How much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls of one turn that run at the same time.
    pub max_concurrency: usize,
    /// Bytes of one call's arguments. A tool's own cap may be lower.
    pub max_input_bytes: usize,
}

/// Where tools of one category run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this process, on the opened workspace.
    Inline,
    /// In a backend this build does not have: they are refused.
    Unavailable {
        /// The backend, as config spells it.
        backend: &'static str,
        /// The line that asks for it.
        source: SourceLine,
    },
    /// Nowhere: they are refused.
    DenyAll,
}

/// A file the config was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFileInfo {
    /// As it was opened.
    pub path: PathBuf,
    /// An untrusted file may only tighten.
    pub trusted: bool,
    /// The hash of its bytes.
    pub sha256: Digest,
}

/// Where configuration may come from. The caller reads the environment; nothing here does.
#[derive(Debug, Clone)]
pub struct Sources {
    /// `--config FILE`: trusted, and then the only file.
    pub explicit: Option<PathBuf>,
    /// The user's own file: trusted. It need not exist.
    pub user: Option<PathBuf>,
    /// The project's file: may only tighten until a person trusts its hash. It need not exist.
    pub project: Option<PathBuf>,
    /// Where the trusted hashes are kept.
    pub data_dir: PathBuf,
    /// The workspace of an agent that sets none.
    pub cwd: PathBuf,
}

impl Config {
    /// The configuration of a fresh machine: one agent, `default`, at level standard, working in `cwd`.
    pub fn built_in(cwd: &Path) -> Self {
        let policy = Policy::built_in();
        let settings = AgentSettings { workspace: cwd.to_owned() };
        Self {
            agents: policy.agents.keys().map(|name| (name.clone(), settings.clone())).collect(),
            policy,
            limits: Limits::built_in(),
            protected: Vec::new(),
            notes: Vec::new(),
            files: Vec::new(),
            places: [(Category::FileSystem, Place::Inline)].into(),
        }
    }

    /// Reads and checks the files there are.
    pub fn load(sources: &Sources) -> Result<Self, Vec<ConfigError>> {
        if let Some(path) = &sources.explicit {
            return Err(vec![ConfigError {
                file: path.display().to_string(),
                line: 0,
                column: 0,
                message: "config files cannot be read yet".into(),
                remedy: "Leave `--config` out.".into(),
                snippet: None,
            }]);
        }
        Ok(Self::built_in(&sources.cwd))
    }

    /// Where tools of this category run. Tools that need nothing at all run inline whatever this says.
    pub fn backend_for(&self, category: Category) -> &Place {
        self.places.get(&category).unwrap_or(&Place::DenyAll)
    }

    /// The tool names in the config that no tool has. The catalog is known later than the config.
    pub fn check_tools<'a>(&self, _known: impl IntoIterator<Item = &'a str>) -> Vec<ConfigError> {
        Vec::new()
    }
}

impl Limits {
    fn built_in() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self { max_concurrency: cores.clamp(2, 16), max_input_bytes: Caps::DEFAULT.input_bytes }
    }
}
