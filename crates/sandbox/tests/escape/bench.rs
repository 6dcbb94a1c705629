//! What every case stands on: a backend, a workspace, and a canary outside that must stay as it is.
//!
//! Everything outside is open to all users of the machine, so that nothing but the room stands between it and the
//! probe.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use toolgate_contract::{Ending, Job, JobLimits, Needs, Ran};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, Io, ProcessBackend, Room, RoomError, RoomSpec, Tier, TierChoice, Wall, WorkspaceMode, WorkspaceSpec,
    registry::Registry,
};

use crate::{
    container,
    docker::{Daemon, Engine},
    host::eventually,
    probe,
    said::{Ended, Said},
    skipped,
};

/// What the canary holds. If a room shows it, something is open.
pub(crate) const SECRET: &str = "canary-7f3a91 sings outside";

/// The kinds of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespaces,
    Landlock,
    /// Docker makes it.
    Container,
    Podman,
}

impl Kind {
    /// As receipts and tests call it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => Tier::Namespaces.as_str(),
            Self::Landlock => Tier::Landlock.as_str(),
            Self::Container | Self::Podman => "container",
        }
    }
}

/// Runs a case in a room of one kind, then looks at the canary.
pub(crate) fn in_room(kind: Kind, case: fn(&Bench)) {
    let Some(bench) = Bench::ready(kind) else { return };
    let before = tree(&bench.outside());
    case(&bench);
    assert_eq!(tree(&bench.outside()), before, "something outside was changed");
    if let Some(daemon) = &bench.daemon {
        let registry = Registry::open(&bench.scene.path().join("state")).expect("the notes of the backend");
        let left = || daemon.containers(&format!("toolgate.deployment={}", registry.label()));
        // The daemon was told; it may still be at it.
        assert!(eventually(Duration::from_secs(20), || left().is_empty()), "containers stay: {:?}", left());
    }
}

/// Runs a case with a process room and a container to compare.
pub(crate) fn in_two_rooms(case: fn([&Bench; 2])) {
    if let (Some(process), Some(container)) = (Bench::ready(Kind::Namespaces), Bench::ready(Kind::Container)) {
        case([&process, &container]);
    }
}

/// A backend of one kind of rooms and its scene.
pub(crate) struct Bench {
    pub(crate) kind: Kind,
    pub(crate) backend: Arc<dyn Backend>,
    /// Who makes the containers.
    pub(crate) daemon: Option<Daemon>,
    /// A word nobody else has, to find the case's processes by.
    pub(crate) marker: String,
    scene: TempDir,
}

impl Bench {
    /// A scene in which rooms of this kind can be made. None, said aloud, where there are none.
    fn ready(kind: Kind) -> Option<Self> {
        let daemon = match kind {
            Kind::Namespaces | Kind::Landlock => None,
            Kind::Container => Some(container::daemon(Engine::Docker)?),
            Kind::Podman => Some(container::daemon(Engine::Podman)?),
        };
        let bench = Self::new(kind, daemon);
        match bench.backend.open(&RoomSpec { workspace: None, ..bench.spec() }, "escape") {
            Ok(room) => {
                room.close();
                Some(bench)
            }
            Err(RoomError::TooWeak { wall, why, .. }) => {
                assert!(!bench.machine_has_it(), "this machine has what a room of kind {} takes: {why}", kind.as_str());
                skipped(format!("no room of kind {} here: {} ({why})", kind.as_str(), wall.as_str()));
                None
            }
            Err(error) => panic!("a bare room cannot be opened: {error:?}"),
        }
    }

    /// The scene, without a room.
    fn new(kind: Kind, daemon: Option<Daemon>) -> Self {
        let scene = TempDir::with_prefix_in("toolgate-escape-", base()).expect("a place for the scene");
        let marker = scene.path().file_name().expect("it has a name").to_string_lossy().into_owned();
        open_to_all(scene.path(), 0o755);
        for (dir, mode) in [("workspace", 0o777), ("outside", 0o777), ("bin", 0o755)] {
            fs::create_dir(scene.path().join(dir)).expect("a directory");
            open_to_all(&scene.path().join(dir), mode);
        }
        fs::write(scene.path().join("outside/canary"), SECRET).expect("a canary");
        open_to_all(&scene.path().join("outside/canary"), 0o666);
        // An image has no libraries for a program of this machine.
        let built = if daemon.is_some() { probe::built_for_images() } else { probe::built() };
        fs::copy(built, scene.path().join("bin/probe")).expect("a probe");
        let backend = deployment(daemon.as_ref(), &scene.path().join("state"));
        Self { kind, backend, daemon, marker, scene }
    }

    /// Another deployment of the same kind.
    pub(crate) fn deployment(&self, state: &Path) -> Arc<dyn Backend> {
        deployment(self.daemon.as_ref(), state)
    }

    /// Could there be rooms of this kind here? Found by trying, without the backend: where it could and does not, the
    /// cases have failed and are not skipped.
    fn machine_has_it(&self) -> bool {
        match self.kind {
            Kind::Namespaces => !self.control(&["alone", "status"]).names().contains(&"own namespaces"),
            // From this version on signals and sockets can be kept in a room.
            Kind::Landlock => self.has_landlock(6),
            // The daemon answers. A job in a container has Landlock's walls as well.
            Kind::Container | Kind::Podman => self.has_landlock(6),
        }
    }

    fn has_landlock(&self, least: u32) -> bool {
        match self.control(&["landlock"]).of("version") {
            Ended::Ok(version) => version.parse::<u32>().is_ok_and(|version| version >= least),
            Ended::Errno(_) | Ended::Signal(_) => false,
        }
    }

    /// What the room is about.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.scene.path().join("workspace")
    }

    /// Next to it.
    pub(crate) fn outside(&self) -> PathBuf {
        self.scene.path().join("outside")
    }

    /// A file there.
    pub(crate) fn canary(&self) -> String {
        text(&self.outside().join("canary"))
    }

    /// Where the probe is, in the room and outside.
    pub(crate) fn probe_path(&self) -> String {
        text(&self.scene.path().join("bin/probe"))
    }

    /// Has a room of this kind a file tree, processes and a network of its own?
    pub(crate) fn has_namespaces(&self) -> bool {
        self.kind != Kind::Landlock
    }

    /// Is it a container, whose file tree is not the machine's?
    pub(crate) fn is_container(&self) -> bool {
        matches!(self.kind, Kind::Container | Kind::Podman)
    }

    /// A room with the workspace to write to, the probe to run, and no network.
    pub(crate) fn spec(&self) -> RoomSpec {
        RoomSpec {
            workspace: Some(WorkspaceSpec {
                path: self.workspace(),
                mode: WorkspaceMode::ReadWrite,
                protected: Vec::new(),
            }),
            visible: vec![self.scene.path().join("bin")],
            tier: match self.kind {
                Kind::Namespaces => TierChoice::Only(Tier::Namespaces),
                Kind::Landlock => TierChoice::Only(Tier::Landlock),
                Kind::Container | Kind::Podman => TierChoice::Best,
            },
            // Without namespaces there is no room that holds modes and times; `e08_too_weak` has the refusal.
            accepted_gaps: if self.has_namespaces() { BTreeSet::new() } else { BTreeSet::from([Wall::Metadata]) },
            ..RoomSpec::bare()
        }
    }

    /// The same with another workspace mode and names that are protected in it.
    pub(crate) fn spec_with(&self, mode: WorkspaceMode, protected: &[&str]) -> RoomSpec {
        let protected = protected.iter().map(|name| (*name).to_owned()).collect();
        RoomSpec { workspace: Some(WorkspaceSpec { path: self.workspace(), mode, protected }), ..self.spec() }
    }

    /// A room of the usual spec.
    pub(crate) fn room(&self) -> Arc<dyn Room> {
        self.open(&self.spec())
    }

    /// A room.
    pub(crate) fn open(&self, spec: &RoomSpec) -> Arc<dyn Room> {
        self.backend.open(spec, "escape").expect("a room")
    }

    /// The probe in a room of its own, which must let it finish.
    pub(crate) fn probe(&self, args: &[&str]) -> Said {
        self.probe_in(&*self.room(), args)
    }

    /// The probe in this room, which must let it finish.
    pub(crate) fn probe_in(&self, room: &dyn Room, args: &[&str]) -> Said {
        let ran = self.run(room, args, JobLimits::default());
        assert_eq!(ran.ending, Ending::Exited { code: 0 }, "probe {args:?}: {} {}", ran.stdout.text, ran.stderr.text);
        Said::read(&ran.stdout.text)
    }

    /// The probe in this room, however it ends.
    pub(crate) fn run(&self, room: &dyn Room, args: &[&str], limits: JobLimits) -> Ran {
        run(room, &self.job(args, limits)).expect("the probe starts")
    }

    /// The probe as a job. Its own path and one variable hold the marker.
    pub(crate) fn job(&self, args: &[&str], limits: JobLimits) -> Job {
        let mut argv = vec![self.probe_path()];
        argv.extend(args.iter().map(|word| (*word).to_owned()));
        Job {
            argv,
            cwd: String::new(),
            env: BTreeMap::from([("MARKER".into(), self.marker.clone())]),
            stdin: Vec::new(),
            limits,
        }
    }

    /// The probe on the host, with no wall around it: what a room refuses must work here, or the refusal says nothing.
    pub(crate) fn control(&self, args: &[&str]) -> Said {
        probe::on_the_host(&self.probe_path(), &self.outside(), args)
    }

    /// Makes something of the workspace the room's own, so that whose it is is no wall. A process room sees what is root's
    /// as its own; a container has the machine's users, and is nobody.
    pub(crate) fn give(&self, path: &Path) {
        if self.is_container() && rustix::process::geteuid().is_root() {
            chown(path, Some(container::NOBODY), Some(container::NOBODY)).expect("a new owner");
        }
    }

    /// Processes of this case that are still there.
    pub(crate) fn survivors(&self) -> Vec<String> {
        crate::host::processes_with(&self.marker)
    }
}

fn deployment(daemon: Option<&Daemon>, state: &Path) -> Arc<dyn Backend> {
    match daemon {
        Some(daemon) => Arc::new(container::backend(daemon, state)),
        None => Arc::new(ProcessBackend::open(state).expect("a backend")),
    }
}

/// Where scenes are put: not beneath a directory that a room has of its own, or everything would be hidden by it.
fn base() -> PathBuf {
    match std::env::var_os(crate::user::BINARIES) {
        Some(dir) => dir.into(),
        None if rustix::process::geteuid().is_root() => "/var".into(),
        None => env!("CARGO_TARGET_TMPDIR").into(),
    }
}

/// Runs a job to its end with nobody listening.
pub(crate) fn run(room: &dyn Room, job: &Job) -> Result<Ran, RoomError> {
    room.run(&permit(), job, Io { stop: &|| false, heard: None, stdin: None, stdout: None })
}

/// The right to run programs that write files.
pub(crate) fn permit() -> Permit {
    Permit::of_operator(Needs { exec: true, ..Needs::WRITE_FILES })
}

/// The usual limits with another time on the wall.
pub(crate) fn within(wall: Duration) -> JobLimits {
    JobLimits { wall, grace: Duration::from_millis(300), ..JobLimits::default() }
}

/// A path as the probe takes it.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("the scene's paths are text").to_owned()
}

/// Gives a path this mode, whatever the umask says.
pub(crate) fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Everything beneath a directory: path, kind, mode, and contents.
pub(crate) fn tree(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).expect("a directory").flatten() {
            let meta = fs::symlink_metadata(entry.path()).expect("an entry");
            let contents = if meta.is_file() { fs::read(entry.path()).expect("a file") } else { Vec::new() };
            all.push((entry.path(), meta.permissions().mode(), contents));
            if meta.is_dir() {
                left.push(entry.path());
            }
        }
    }
    all.sort();
    all
}
