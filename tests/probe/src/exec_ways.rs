//! The same program started in other ways: `exec-ways CANARY`. A wall that knows programs by their path would miss one.

use std::{
    env, fs,
    io::Result,
    os::{fd::FromRawFd, unix::fs::PermissionsExt},
    process::{Command, Stdio},
};

use libc::*;

use crate::{
    sys::{at, call, number},
    tries::Tries,
};

/// Runs itself in every way; each prints what it could read of the canary and which filter it has.
pub(crate) fn exec_ways(args: &[String], tries: &mut Tries) {
    let canary = args.first().map_or("/etc/hostname", String::as_str);
    let Ok(own) = env::current_exe() else { return tries.call("own path", Err(ENOENT)) };
    let own = own.display().to_string();
    let ways: [(&str, Vec<String>); 6] = [
        ("by path", vec![own.clone()]),
        ("by link in proc", vec!["/proc/self/root".to_owned() + &own]),
        ("by the loader", vec!["/lib64/ld-linux-x86-64.so.2".into(), own.clone()]),
        ("by a shell", vec!["/bin/sh".into(), "-c".into(), "exec \"$0\" \"$@\"".into(), own.clone()]),
        ("a copy in /tmp", vec!["/tmp/probe-copy".into()]),
        ("a copy here", vec!["./probe-copy".into()]),
    ];
    for copy in ["/tmp/probe-copy", "./probe-copy"] {
        let _ = fs::copy(&own, copy).and_then(|_| fs::set_permissions(copy, fs::Permissions::from_mode(0o755)));
    }
    for (way, words) in ways {
        tries.io(way, said_by(&words, canary));
    }
    tries.io("from memory", from_memory(&own, canary));
    for copy in ["/tmp/probe-copy", "./probe-copy"] {
        let _ = fs::remove_file(copy);
    }
}

fn said_by(words: &[String], canary: &str) -> Result<String> {
    let run = |case: &[&str]| -> Result<String> {
        let output = Command::new(&words[0]).args(&words[1..]).args(case).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Ok(run(&["look", canary])? + " " + &run(&["status"])?)
}

/// A program without a file.
fn from_memory(own: &str, canary: &str) -> Result<String> {
    let failed = std::io::Error::from_raw_os_error;
    let memory = call(SYS_memfd_create, [at(c"probe"), 0]).map_err(failed)?;
    // SAFETY: the kernel has just made it, and nobody else owns it.
    let mut file = unsafe { fs::File::from_raw_fd(memory as i32) };
    std::io::copy(&mut fs::File::open(own)?, &mut file).map_err(|error| failed(number(&error)))?;
    said_by(&[format!("/proc/self/fd/{memory}")], canary)
}
