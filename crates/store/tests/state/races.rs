//! Programs that race for one yes, and for one effect, each in a process of its own.

use std::{
    collections::BTreeSet,
    env,
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    thread,
};

use tempfile::tempdir;
use toolgate_contract::Digest;
use toolgate_store::state::{Filed, Reserved, SqliteState, State, Taken};

use crate::things::{NOW, again, every_round, hear, question, requester, reservation, say, yes};

const ROUNDS: usize = 300;

/// A process that waits for the name of what to try for, tries, and says how it went.
struct Racer {
    child: Child,
    names: ChildStdin,
    results: Lines<BufReader<ChildStdout>>,
}

impl Racer {
    fn start(dir: &Path) -> Self {
        let mut child = again("races::a_process_that_races")
            .env("TOOLGATE_TEST_RACE", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let names = child.stdin.take().unwrap();
        let mut racer = Self { names, results: BufReader::new(child.stdout.take().unwrap()).lines(), child };
        assert_eq!(racer.result(), "ready");
        racer
    }

    fn go(&mut self, name: &str) {
        writeln!(self.names, "{name}").unwrap();
    }

    fn result(&mut self) -> String {
        hear(&mut self.results).unwrap()
    }

    fn finish(mut self) {
        drop(self.names);
        assert!(self.child.wait().unwrap().success());
    }
}

#[tokio::test]
async fn of_two_processes_one_gets_the_yes_and_one_the_effect() {
    let dir = tempdir().unwrap();
    let state = SqliteState::open(dir.path()).unwrap();
    let mut racers = [Racer::start(dir.path()), Racer::start(dir.path())];
    for round in 0..ROUNDS {
        let name = format!("round {round}");
        let Filed::New(asked) = state.file(question(&name), NOW).await.unwrap() else { panic!("it was asked before") };
        state.vote(asked.id, yes("user:bob"), NOW).await.unwrap();
        racers.iter_mut().for_each(|racer| racer.go(&name));
        let results = racers.each_mut().map(Racer::result);
        let yes = results.iter().filter(|result| result.starts_with("yes")).count();
        let fresh = results.iter().filter(|result| result.ends_with("fresh")).count();
        assert_eq!((yes, fresh), (1, 1), "{name}: {results:?}");
    }
    racers.into_iter().for_each(Racer::finish);
}

#[tokio::test]
async fn of_many_that_start_first_one_makes_the_state() {
    for round in 0..10 {
        let dir = tempdir().unwrap();
        let states = thread::scope(|scope| {
            let opening: Vec<_> = (0..6).map(|_| scope.spawn(|| SqliteState::open(dir.path()).unwrap())).collect();
            opening.into_iter().map(|opening| opening.join().unwrap()).collect::<Vec<_>>()
        });
        let instances: BTreeSet<_> = states.iter().map(State::instance).collect();
        assert_eq!(instances.len(), 6, "round {round}");
        for state in &states {
            state.file(question(&state.instance().0), NOW).await.unwrap();
        }
        assert_eq!(states[0].approvals(every_round()).await.unwrap().len(), 6, "round {round}");
        assert_eq!(states[0].orphaned(NOW).await.unwrap(), []);
    }
}

/// Run by [`of_two_processes_one_gets_the_yes_and_one_the_effect`] in a process of its own.
#[tokio::test]
async fn a_process_that_races() {
    let Some(dir) = env::var_os("TOOLGATE_TEST_RACE") else { return };
    let state = SqliteState::open(dir.as_ref()).unwrap();
    say("ready");
    for name in std::io::stdin().lines() {
        let name = name.unwrap();
        let taken = match state.take(Digest::of(name.as_bytes()), requester(), NOW).await.unwrap() {
            Taken::Yes(_) => "yes",
            Taken::None => "no",
            other => panic!("it was approved: {other:?}"),
        };
        let reserved = match state.reserve(reservation(&name), NOW).await.unwrap() {
            Reserved::Fresh(_) => "fresh",
            Reserved::Running => "running",
            other => panic!("nobody completes it: {other:?}"),
        };
        say(&format!("{taken} {reserved}"));
    }
}
