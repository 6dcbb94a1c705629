//! A zygote that somebody ends. Alone in its process, so that there is one.

use std::{collections::BTreeMap, fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use toolgate_contract::{Ending, Files, Job, JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{Backend, Io, ProcessBackend, Room, RoomSpec};

fn says(room: &dyn Room) -> Result<Ending, String> {
    let needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
    let job = Job {
        argv: vec!["true".into()],
        cwd: String::new(),
        env: BTreeMap::new(),
        stdin: Vec::new(),
        limits: JobLimits::default(),
    };
    let ran =
        room.run(&Permit::of_operator(needs), &job, Io { stop: &|| false, heard: None, stdin: None, stdout: None });
    ran.map(|ran| ran.ending).map_err(|error| error.to_string())
}

/// The children of this process that are zygotes.
fn zygotes() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let pids: Vec<i32> =
        children.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
    let is_zygote = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|name| name.starts_with("toolgate-zygote"))
    };
    pids.into_iter().filter(is_zygote).filter_map(Pid::from_raw).collect()
}

#[test]
fn one_that_is_killed_takes_its_rooms_along_and_is_replaced() {
    let data = tempfile::tempdir().unwrap();
    let backend = ProcessBackend::open(data.path()).unwrap();
    let room = match backend.open(&RoomSpec::bare(), "anyone") {
        Ok(room) => room,
        Err(error) => return eprintln!("SKIPPED: no room can be made here: {error}"),
    };
    assert_eq!(says(&*room), Ok(Ending::Exited { code: 0 }));
    let zygotes_before = zygotes();
    assert_eq!(zygotes_before.len(), 1, "one zygote");
    kill_process(zygotes_before[0], Signal::KILL).unwrap();
    for _ in 0..500 {
        if !room.is_alive() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!room.is_alive(), "a room ends with its zygote");
    assert!(says(&*room).is_err());
    let another = backend.open(&RoomSpec::bare(), "anyone").unwrap();
    assert_eq!(says(&*another), Ok(Ending::Exited { code: 0 }));
}
