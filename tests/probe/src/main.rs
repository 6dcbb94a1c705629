//! Attacks on a room, made from inside it: `probe CASE [ARGS]`.
//!
//! Each prints one line of JSON, `{"case", "tries": [{"what", and "ok", "errno" or "signal"}]}`, and judges nothing:
//! whether a try should have worked is for the suite to say, which looks at the host as well. All of it is harmless
//! when it works: what could break a machine is opened and never written, what is read is a canary, loops have an end,
//! and whoever stays behind leaves by itself after a while.

mod alone;
mod bombs;
mod calls;
mod change;
mod child;
mod connect;
mod daemon;
mod devices;
mod disk;
mod dump;
mod elevate;
mod env;
mod exec_ways;
mod families;
mod fds;
mod files;
mod foreign;
mod handles;
mod kernel;
mod listen;
mod many;
mod memory;
mod mounts;
mod namespaces;
mod netadmin;
mod others;
mod output;
mod own_filter;
mod own_proc;
mod peek;
mod proc_walk;
mod roots;
mod set_id;
mod setns;
mod signals;
mod spin;
mod status;
mod stubborn;
mod sys;
mod tries;
mod tty;
mod unix;

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use tries::Tries;

/// An attack: what it was told, and where it notes what it tried.
type Attack = fn(&[String], &mut Tries);

const ATTACKS: &[(&str, Attack)] = &[
    ("abstract", unix::abstract_names),
    ("alone", alone::alone),
    ("args", env::args),
    ("born-set-id", set_id::born_set_id),
    ("calls", calls::calls),
    ("change", change::change),
    ("connect", connect::tcp),
    ("create", files::create),
    ("cut-loose", dump::cut_loose),
    ("daemon", daemon::daemon),
    ("deaf", output::deaf),
    ("devices", devices::devices),
    ("dirfds", fds::dirfds),
    ("dump", dump::dump),
    ("eat", memory::eat),
    ("elevate", elevate::elevate),
    ("env", env::env),
    ("exec-ways", exec_ways::exec_ways),
    ("families", families::families),
    ("fast-open", connect::fast_open),
    ("fds", fds::fds),
    ("fill", disk::fill),
    ("fill-deep", disk::fill_deep),
    ("fill-deleted", disk::fill_deleted),
    ("fill-dirs", disk::fill_dirs),
    ("fill-files", disk::fill_files),
    ("foreign", foreign::foreign),
    ("fill-many", disk::fill_many),
    ("fill-taken", disk::fill_taken),
    ("fork-bomb", bombs::forks),
    ("handles", handles::handles),
    ("held-sockets", unix::held_sockets),
    ("hop", daemon::hop),
    ("kernel-knobs", kernel::knobs),
    ("kernel-memory", kernel::memory),
    ("kill-all", signals::kill_all),
    ("kill-init", signals::kill_init),
    ("landlock", own_filter::landlock),
    ("line", output::line),
    ("listen", listen::listen),
    ("look", files::look),
    ("many", many::many),
    ("mounts", mounts::mounts),
    ("namespaces", namespaces::namespaces),
    ("net-admin", netadmin::net_admin),
    ("open-read", files::open_read),
    ("open-write", files::open_write),
    ("others", others::others),
    ("own-filter", own_filter::own_filter),
    ("own-proc", own_proc::own_proc),
    ("peek", peek::peek),
    ("pids", others::pids),
    ("proc-walk", proc_walk::proc_walk),
    ("roots", roots::roots),
    ("run-elevated", elevate::run_elevated),
    ("setns", setns::setns),
    ("shout", output::shout),
    ("signal", signals::signal),
    ("sleep", stubborn::sleep),
    ("sparse", disk::sparse),
    ("spin", spin::spin),
    ("spin-children", spin::spin_children),
    ("status", status::status),
    ("stop-self", stubborn::stop_self),
    ("stubborn", stubborn::stubborn),
    ("thread-bomb", bombs::threads),
    ("tty", tty::tty),
    ("udp", connect::udp),
    ("unix", unix::pathnames),
    ("zombies", bombs::zombies),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(case) = words.next() else { return ExitCode::from(2) };
    let args: Vec<String> = words.collect();
    match attack(&case, &args) {
        Some(line) => said(&line),
        None => ExitCode::from(2),
    }
}

/// The line of one attack, or none when there is no such attack.
fn attack(case: &str, args: &[String]) -> Option<String> {
    let (_, attack) = ATTACKS.iter().find(|(name, _)| *name == case)?;
    let mut tries = Tries::default();
    attack(args, &mut tries);
    Some(tries.line(case))
}

fn said(line: &str) -> ExitCode {
    match writeln!(stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A number among the arguments, or what is used when it is not there.
fn count(args: &[String], index: usize, otherwise: u64) -> u64 {
    args.get(index).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
}
