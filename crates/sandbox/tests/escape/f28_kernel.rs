//! F-28, F-30, F-31: the kernel's memory and its knobs.

use crate::said::REFUSALS;

in_both_tiers! {
    /// F-28.
    fn memory(bench) {
        bench.probe(&["kernel-memory"]).all_refused();
    }

    /// F-30, F-31. Opened for writing, never written; as the machine's root it is the one hole that needs no bug.
    fn knobs(bench) {
        let mut refusals = REFUSALS.to_vec();
        refusals.push(libc::EIO);
        bench.probe(&["kernel-knobs"]).all_refused_with(&refusals);
        if rustix::process::geteuid().is_root() {
            let control = bench.control(&["kernel-knobs"]);
            assert!(control.worked().contains(&"open for writing /proc/sys/kernel/core_pattern"), "{control:?}");
        }
    }
}
