//! The terminal: words typed for its owner, and other ways to hold on to it.

use std::fs::File;

use libc::*;

use crate::{
    sys::{at, call, into},
    tries::Tries,
};

const TIOCSTI: usize = 0x5412;
const TIOCLINUX: usize = 0x541c;
const TIOCCONS: usize = 0x541d;
const TIOCSETD: usize = 0x5423;

/// Types into each of the first descriptors, also past filters that compare all 64 bits.
pub(crate) fn tty(_: &[String], tries: &mut Tries) {
    for fd in 0..3usize {
        tries.call(format!("type into {fd}"), call(SYS_ioctl, [fd, TIOCSTI, at("#")]));
        tries.call(format!("type into {fd} with a high bit"), call(SYS_ioctl, [fd, TIOCSTI | 1 << 32, at("#")]));
        // Sub-code 6 only asks for the state of the shift keys.
        tries.call(format!("console call on {fd}"), call(SYS_ioctl, [fd, TIOCLINUX, at(&[6u8, 0])]));
        tries.call(
            format!("console call on {fd} with a high bit"),
            call(SYS_ioctl, [fd, TIOCLINUX | 1 << 32, at(&[6u8, 0])]),
        );
        tries.in_child(format!("be the console on {fd}"), || call(SYS_ioctl, [fd, TIOCCONS, 0]));
        let mut discipline = 0i32;
        tries.in_child(format!("line discipline of {fd}"), || call(SYS_ioctl, [fd, TIOCSETD, into(&mut discipline)]));
    }
    for path in ["/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa", "/dev/pts/0"] {
        tries.open("open", path, File::options().read(true).write(true));
    }
    tries.in_child("foreground", || {
        let group = call(SYS_getpgid, [0])? as i32;
        call(SYS_ioctl, [0, TIOCSPGRP as usize, at(&group)])
    });
}
