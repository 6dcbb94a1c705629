//! Ways out of a room, tried one by one from inside, with a look at the host after each.
//!
//! Every case runs in a real room of each kind: process rooms of both tiers, and containers of Docker and of Podman. Where a
//! kind cannot put up a wall, the case is that the room is refused with the name of the wall. Where a machine has no such
//! rooms, the case says SKIPPED and why; what can mean nothing in a container is listed with the reason in `container.rs`.
//! `CASES.md` lists the cases by number; what is a refusal inside must have worked on the host (`Bench::control`), or it
//! would mean nothing.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper that breaks fails its test")]

/// Makes four tests of a case, one in each kind of room.
macro_rules! in_every_room {
    ($($(#[$about:meta])* fn $name:ident($bench:ident) $body:block)*) => {$(
        $(#[$about])*
        fn $name($bench: &$crate::bench::Bench) $body

        mod $name {
            #[test]
            fn namespaces() {
                $crate::bench::in_room($crate::bench::Kind::Namespaces, super::$name);
            }

            #[test]
            fn landlock() {
                $crate::bench::in_room($crate::bench::Kind::Landlock, super::$name);
            }

            #[test]
            fn container() {
                if $crate::container::applies(module_path!()) {
                    $crate::bench::in_room($crate::bench::Kind::Container, super::$name);
                }
            }

            #[test]
            fn podman() {
                if $crate::container::applies(module_path!()) {
                    $crate::bench::in_room($crate::bench::Kind::Podman, super::$name);
                }
            }
        }
    )*};
}

mod bench;
mod cases;
mod container;
#[path = "../common/docker.rs"]
mod docker;
mod host;
mod probe;
mod said;
mod user;

mod e01_environment;
mod e03_bad_jobs;
mod e08_too_weak;
mod e10_reuse;
mod f01_outside;
mod f03_writes;
mod f14_cwd;
mod f15_moved_workspace;
mod f16_protected;
mod f17_replaced;
mod f19_set_id;
mod f20_devices;
mod f21_mounts;
mod f24_proc;
mod f26_fds;
mod f28_kernel;
mod f34_overlay;
mod f36_hidden;
mod f38_read_only;
mod f39_closed;
mod n01_nobody;
mod n04_door;
mod n19_families;
mod n22_listening;
mod n23_local_sockets;
mod n26_net_admin;
mod n34_no_rules;
mod p01_privileges;
mod p03_namespaces;
mod p05_peeking;
mod p06_signals;
mod p07_stubborn;
mod p08_daemons;
mod p09_bombs;
mod p13_exec_ways;
mod p15_calls;
mod p18_terminal;
mod p20_killed;
mod p22_ties;
mod r01_memory;
mod r03_processor;
mod r04_output;
mod r06_input;
mod r08_disk;
mod r09_many;
mod r10_leaks;
mod r12_cancelled;
mod s01_same;

/// Set where every case must be made, as on a machine that is known to have all walls: then a skip is a failure.
const STRICT: &str = "TOOLGATE_ESCAPE_STRICT";

/// Says that a case could not be made here. Never silent: what was not tried did not pass.
fn skipped(reason: impl std::fmt::Display) {
    assert!(std::env::var_os(STRICT).is_none(), "not tried: {reason}");
    eprintln!("SKIPPED: {reason}");
}
