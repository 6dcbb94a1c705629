//! A repository for tests, as far as a room that only notes what it is asked for needs one.

#![expect(clippy::disallowed_methods, reason = "tests set the scene from outside")]

use std::{fs, path::Path};

use toolgate_contract::{Fault, Job, Ran, Reach};

use crate::programs::stage::{Asked, Stage};

/// A room with a repository whose config is this.
pub(super) fn scene(config: &str, answers: impl IntoIterator<Item = Result<Ran, Fault>>) -> Stage {
    let stage = Stage::answering(answers);
    let git = Path::new(&stage.path()).join(".git");
    for dir in ["objects", "refs"] {
        fs::create_dir_all(git.join(dir)).unwrap();
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("config"), config).unwrap();
    stage
}

/// The words behind `git` of every job that was asked for.
pub(super) fn words(stage: &Stage) -> Vec<Vec<String>> {
    jobs(stage).iter().map(|(job, _)| job.argv[11..].to_vec()).collect()
}

/// Every job that was asked for, with whom it may reach.
pub(super) fn jobs(stage: &Stage) -> Vec<(Job, Option<Reach>)> {
    let job = |asked| match asked {
        Asked::Run(job) => (job, None),
        Asked::Reaching(job, reach) => (job, Some(reach)),
        other => panic!("a job was expected: {other:?}"),
    };
    stage.asked().into_iter().map(job).collect()
}
