//! P-20: the runtime is killed, and its rooms are gone.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    bench::{Bench, text},
    docker,
    host::{cgroups_of, eventually, processes_with},
    probe,
};

in_every_room! {
    /// P-20. Another process opens a room and is killed in the middle of a job.
    fn without_a_word(bench) {
        let state = text(&bench.workspace().with_extension("state"));
        let mut holder = Command::new(probe::hold_room())
            .args([&state, bench.kind.as_str(), &text(&bench.workspace()), &bench.probe_path()])
            .envs(bench.daemon.as_ref().map(|daemon| (docker::Engine::Docker.variable(), &daemon.socket)))
            .env(docker::WORKER, bench.daemon.as_ref().map(|_| docker::worker()).unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a holder");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("its words")).read_line(&mut line).expect("its word");
        assert_eq!(line.trim(), "running");
        let runs = || !descendants_with(bench, holder.id()).is_empty();
        assert!(eventually(Duration::from_secs(5), runs), "the job runs");
        let label = cgroups_of(&processes_with(&bench.marker));
        let namespaces = crate::host::namespaces_of(&processes_with(&bench.marker));

        holder.kill().expect("it can be killed");
        holder.wait().expect("it is dead");
        let gone = || processes_with(&bench.marker).is_empty();
        assert!(eventually(Duration::from_secs(2), gone), "still there: {:?}", processes_with(&bench.marker));
        let left = || crate::host::anyone_in(&namespaces);
        assert!(eventually(Duration::from_secs(2), || left().is_empty()), "still in its namespaces: {:?}", left());
        for group in &label {
            assert!(crate::host::is_empty_group(group), "{} still holds somebody", group.display());
        }
        if let Some(daemon) = &bench.daemon {
            // The daemon removes what has ended, and whoever starts next what it left.
            let next = bench.deployment(state.as_ref());
            let held = || daemon.containers(&format!("toolgate.owner={}", bench.marker));
            assert!(eventually(Duration::from_secs(10), || held().is_empty()), "still there: {:?}", held());
            drop(next);
        }
        // Empty directories stay for the sweep, which every start makes.
        toolgate_sandbox::registry::sweep(state.as_ref()).expect("a sweep");
        let kept: Vec<_> = label.iter().filter(|group| group.exists()).collect();
        assert!(kept.is_empty(), "after a sweep: {kept:?}");
    }
}

/// Processes of the job that the holder started.
fn descendants_with(bench: &Bench, holder: u32) -> Vec<String> {
    processes_with(&bench.marker).into_iter().filter(|pid| *pid != holder.to_string()).collect()
}
