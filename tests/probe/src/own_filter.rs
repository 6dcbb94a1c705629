//! A filter of the probe's own: one that hears other people's calls, and one that lets everything through.

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

const ALLOW: u32 = 0x7fff_0000;
const RETURN: u16 = 6;

/// The version of Landlock this kernel has.
pub(crate) fn landlock(_: &[String], tries: &mut Tries) {
    tries.call("version", call(SYS_landlock_create_ruleset, [0, 0, 1]));
}

/// Installs each kind, then looks whether a call that was closed is open now.
pub(crate) fn own_filter(_: &[String], tries: &mut Tries) {
    let allow_all = [sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW }];
    let program = sock_fprog { len: 1, filter: allow_all.as_ptr().cast_mut() };
    for (name, flags) in [("plain", 0), ("every thread", 1), ("listener", 8), ("listener that waits", 8 | 32)] {
        tries.in_child(format!("filter {name}"), || call(SYS_seccomp, [1, flags, at(&program)]));
        tries.in_child(format!("keyctl after filter {name}"), || {
            let _ = call(SYS_seccomp, [1, flags, at(&program)]);
            call(SYS_keyctl, [0, -3isize as usize, 0])
        });
    }
    tries.in_child("filter by prctl", || call(SYS_prctl, [PR_SET_SECCOMP as usize, 2, at(&program), 0, 0]));
}
