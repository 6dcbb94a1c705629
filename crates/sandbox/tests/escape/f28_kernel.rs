//! F-28, F-30, F-31: the kernel's memory and its knobs.

use crate::said::REFUSALS;

in_every_room! {
    /// F-28.
    fn memory(bench) {
        bench.probe(&["kernel-memory"]).all_refused();
    }

    /// F-30, F-31. What tells about the machine and not about processes is not even read.
    fn nor_are_they_seen(bench) {
        let files = [
            "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/random/boot_id", "/proc/sys/fs/file-nr", "/proc/irq/default_smp_affinity",
            "/proc/bus/input/devices", "/proc/scsi/scsi", "/proc/timer_list", "/proc/key-users",
        ];
        let args: Vec<&str> = ["look"].into_iter().chain(files).collect();
        let said = bench.probe(&args);
        let seen: Vec<_> = said.worked().into_iter().filter(|what| !said.ok(what).is_empty()).collect();
        assert!(seen.is_empty(), "{seen:?}");
        assert!(!bench.control(&["look", files[0]]).ok(&format!("read {}", files[0])).is_empty(), "the host sees it");
    }

    /// F-30, F-31. Opened for writing, never written; as the machine's root it is the one hole that needs no bug.
    fn knobs(bench) {
        let mut refusals = REFUSALS.to_vec();
        refusals.push(libc::EIO);
        // What a daemon covers is the null device, whatever it is called.
        let covered: &[&str] = if bench.is_container() { &["open for writing /proc/timer_list"] } else { &[] };
        bench.probe(&["kernel-knobs"]).all_refused_but(covered, &refusals);
        if rustix::process::geteuid().is_root() {
            let control = bench.control(&["kernel-knobs"]);
            assert!(control.worked().contains(&"open for writing /proc/sys/kernel/core_pattern"), "{control:?}");
        }
    }
}
