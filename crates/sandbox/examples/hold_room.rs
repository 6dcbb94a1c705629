//! Opens a room and keeps a job running in it until somebody kills this program: `hold_room STATE TIER WORKSPACE PROBE`.
//!
//! The escape suite kills it in the middle and looks for what stayed.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::Write,
    path::PathBuf,
    thread,
    time::Duration,
};

use toolgate_contract::{Files, Job, JobLimits, Needs, Network};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, Egress, Io, ProcessBackend, RoomSpec, Tier, TierChoice, Wall, WorkspaceMode, WorkspaceSpec,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [state, tier, workspace, probe] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "four words")?;
    let tier = if tier == "namespaces" { Tier::Namespaces } else { Tier::Landlock };
    let probe = PathBuf::from(probe);
    let bin = probe.parent().ok_or("the probe lies in a directory")?.to_owned();
    let spec = RoomSpec {
        workspace: Some(WorkspaceSpec {
            path: workspace.into(),
            mode: WorkspaceMode::ReadWrite,
            protected: Vec::new(),
        }),
        visible: vec![bin],
        egress: Egress::Deny,
        tier: TierChoice::Only(tier),
        accepted_gaps: BTreeSet::from([Wall::Metadata]),
        ..RoomSpec::bare()
    };
    let backend = ProcessBackend::open(state.as_ref())?;
    let room = backend.open(&spec, "holder")?;
    let needs = Needs { files: Files::Write, network: Network::None, exec: true, secrets: false };
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
                room.run(&Permit::of_operator(needs), &job, Io { stop: &|| false, heard: None, stdin: None })
            });
        }
        writeln!(std::io::stdout(), "running")
    })?;
    Ok(())
}
