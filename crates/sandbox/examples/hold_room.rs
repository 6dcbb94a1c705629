//! Opens a room and keeps a job running in it until somebody kills this program: `hold_room STATE KIND WORKSPACE PROBE`.
//!
//! The escape suite kills it in the middle and looks for what stayed. A container's owner is the name of the directory the
//! workspace is in; its daemon and worker are named in the environment.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use toolgate_contract::{Job, JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, DockerBackend, Egress, Io, ProcessBackend, RoomError, RoomSpec, Tier, TierChoice, Wall, WorkspaceMode,
    WorkspaceSpec,
};

#[path = "../tests/common/docker.rs"]
#[expect(dead_code, reason = "the tests ask a daemon more")]
mod docker;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [state, kind, workspace, probe] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "four words")?;
    let (backend, tier) = match kind.as_str() {
        "container" => (container(state.as_ref())?, TierChoice::Best),
        "namespaces" => (process(state.as_ref())?, TierChoice::Only(Tier::Namespaces)),
        _ => (process(state.as_ref())?, TierChoice::Only(Tier::Landlock)),
    };
    let probe = PathBuf::from(probe);
    let bin = probe.parent().ok_or("the probe lies in a directory")?.to_owned();
    let workspace = PathBuf::from(workspace);
    let scene = workspace.parent().and_then(Path::file_name).ok_or("the workspace lies in a directory")?;
    let owner = scene.to_string_lossy().into_owned();
    let spec = RoomSpec {
        workspace: Some(WorkspaceSpec { path: workspace, mode: WorkspaceMode::ReadWrite, protected: Vec::new() }),
        visible: vec![bin],
        egress: Egress::Deny,
        tier,
        accepted_gaps: BTreeSet::from([Wall::Metadata]),
        ..RoomSpec::bare()
    };
    let room = backend.open(&spec, &owner)?;
    let needs = Needs { exec: true, ..Needs::WRITE_FILES };
    // One job that stays, and one that leaves a daemon behind and stays as well.
    let jobs: [&[&str]; 2] = [&["sleep", "60"], &["stubborn", "60"]];
    thread::scope(|scope| {
        for words in jobs {
            let argv =
                [probe.to_string_lossy().into_owned()].into_iter().chain(words.iter().map(|word| (*word).to_owned()));
            let job = Job {
                argv: argv.collect(),
                cwd: String::new(),
                env: BTreeMap::new(),
                stdin: Vec::new(),
                limits: JobLimits { wall: Duration::from_secs(60), ..JobLimits::default() },
            };
            let (room, needs) = (&room, needs);
            scope.spawn(move || {
                room.run(
                    &Permit::of_operator(needs),
                    &job,
                    Io { stop: &|| false, heard: None, stdin: None, stdout: None },
                )
            });
        }
        writeln!(std::io::stdout(), "running")
    })?;
    Ok(())
}

fn process(state: &Path) -> Result<Arc<dyn Backend>, RoomError> {
    Ok(Arc::new(ProcessBackend::open(state)?))
}

fn container(state: &Path) -> Result<Arc<dyn Backend>, Box<dyn std::error::Error>> {
    Ok(Arc::new(DockerBackend::open(state, docker::Daemon::find(docker::Engine::Docker)?.settings())?))
}
