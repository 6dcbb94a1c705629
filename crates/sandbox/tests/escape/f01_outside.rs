//! F-01, F-02, F-04, F-05: what lies outside is not read.

use std::os::unix::fs::symlink;

use crate::bench::{SECRET, text};

in_every_room! {
    /// F-01.
    fn a_file_next_to_the_workspace(bench) {
        let canary = bench.canary();
        let refusal = if bench.has_namespaces() { libc::ENOENT } else { libc::EACCES };
        bench.probe(&["look", &canary]).all_refused_with(&[refusal]);
        assert_eq!(bench.control(&["look", &canary]).ok(&format!("read {canary}")), SECRET);
    }

    /// F-02. They are opened and not read, so that a room that is open tells nothing.
    fn where_secrets_are_kept(bench) {
        let kept = [
            "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/root/.ssh", "/root/.aws",
            "/root/.bash_history", "/root/.config/gh", "/root/.docker/config.json", "/root", "/home", "/var/log",
            "/var/lib", "/var/spool", "/run/secrets", "/boot",
        ];
        let mut args = vec!["open-read"];
        args.extend(kept);
        let said = bench.probe(&args);
        // A directory of this name may be part of the room's own tree, with nothing of the machine's in it.
        let empty: &[&str] = if bench.has_namespaces() { &["open /home", "open /root", "open /var/lib"] } else { &[] };
        said.all_refused_but(empty, &crate::said::REFUSALS);
    }

    /// F-04.
    fn up_from_where_it_starts(bench) {
        let up = ["../outside/canary", "../../../../../../..", "./../outside/canary"];
        let said = bench.probe(&["look", up[0], up[2]]);
        said.all_refused();
        let climbed = bench.canary().trim_start_matches('/').to_owned();
        bench.probe(&["look", &format!("{}/{climbed}", up[1])]).all_refused();
        assert_eq!(bench.control(&["look", "../outside/canary"]).ok("read ../outside/canary"), SECRET);
    }

    /// F-05. The links are the host's, and the probe's own.
    fn through_a_link_in_the_workspace(bench) {
        let workspace = bench.workspace();
        symlink(bench.canary(), workspace.join("to-file")).expect("a link");
        symlink(bench.outside(), workspace.join("to-dir")).expect("a link");
        symlink("../outside", workspace.join("to-sibling")).expect("a link");
        let tries = ["to-file", "to-dir/canary", "to-sibling/canary", "/proc/self/cwd/../outside/canary"];
        let mut args = vec!["look"];
        args.extend(tries);
        let room = bench.room();
        bench.probe_in(&*room, &args).all_refused();
        let canary = bench.canary();
        let made = bench.probe_in(&*room, &["change", "symlink", &canary, "own-link"]);
        assert_eq!(made.worked().len(), 1, "a link into nowhere is nobody's harm: {made:?}");
        bench.probe_in(&*room, &["look", "own-link"]).all_refused();
        let through = text(&workspace.join("to-file"));
        assert_eq!(bench.control(&["look", &through]).ok(&format!("read {through}")), SECRET);
    }
}
