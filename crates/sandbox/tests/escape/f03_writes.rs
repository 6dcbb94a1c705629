//! F-03: what lies outside is not written.

use std::{fs, path::Path};

use crate::bench::text;

in_every_room! {
    /// F-03. Files with a name nobody uses, made empty; the host looks for each afterwards.
    fn a_new_file_in_the_system(bench) {
        let name = format!("{}.planted", bench.marker);
        let scene = bench.workspace().parent().map(text).expect("the scene");
        let dirs = ["/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/bin", "/lib", "/var", "/run", "/opt", "/root"];
        let mut paths: Vec<String> = dirs.iter().map(|dir| format!("{dir}/{name}")).collect();
        paths.extend(["", "outside/", "bin/"].map(|dir| format!("{scene}/{dir}{name}")));
        let mut args = vec!["create"];
        args.extend(paths.iter().map(String::as_str));
        let said = bench.probe(&args);
        let planted: Vec<_> = paths.iter().filter(|path| Path::new(path).exists()).collect();
        planted.iter().for_each(|path| fs::remove_file(path).expect("it can be taken away again"));
        assert!(planted.is_empty(), "on the host: {planted:?}");
        said.all_refused();
        let outside = format!("{scene}/outside/{name}");
        assert_eq!(bench.control(&["create", &outside]).worked().len(), 1, "the host's own user can");
        fs::remove_file(outside).expect("it was there");
    }

    /// F-03. Opened for writing, never written.
    fn a_file_of_the_system(bench) {
        let (probe, canary) = (bench.probe_path(), bench.canary());
        let files = ["/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/usr/bin/env", "/bin/sh", "/etc/ld.so.cache"];
        let mut args = vec!["open-write", &probe, &canary];
        args.extend(files);
        // A program that runs is not opened for writing by anybody.
        let mut refusals = crate::said::REFUSALS.to_vec();
        refusals.push(libc::ETXTBSY);
        bench.probe(&args).all_refused_with(&refusals);
        assert_eq!(bench.control(&["open-write", &canary]).worked().len(), 1);
    }

    /// F-03. The rest of what can be done to a file that is seen or known: all of it on copies in the scene.
    fn everything_else_that_changes_a_file(bench) {
        let (probe, canary) = (bench.probe_path(), bench.canary());
        let mut args = vec!["change"];
        for path in [&probe, &canary] {
            // What the tier `landlock` does not hold is the gap that was accepted for it.
            let of_modes = if bench.has_namespaces() { &["touch", "mark"][..] } else { &[] };
            for op in ["write", "append", "truncate", "unlink", "file-caps", "chown"].iter().chain(of_modes) {
                args.extend([*op, path, "-"]);
            }
            if bench.has_namespaces() {
                args.extend(["chmod", path, "777"]);
            }
            args.extend(["rename", path, "taken", "link", path, "linked", "exchange", path, "mine"]);
        }
        fs::write(bench.workspace().join("mine"), "of the workspace").expect("a file to exchange");
        let before = fs::read(&probe).expect("the probe");
        let mode = fs::metadata(&probe).expect("the probe").permissions();
        let said = bench.probe(&args);
        assert_eq!(fs::read(&probe).expect("the probe is still there"), before);
        assert_eq!(fs::metadata(&probe).expect("the probe").permissions(), mode);
        let mut refusals = crate::said::REFUSALS.to_vec();
        refusals.extend([libc::EXDEV, libc::ETXTBSY]);
        said.all_refused_with(&refusals);
    }
}
