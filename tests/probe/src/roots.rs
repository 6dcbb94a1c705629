//! Leaving by way of the root directory: `roots DIR`.

use libc::*;

use crate::{
    sys::{at, call, text},
    tries::Tries,
};

/// A new root, and the old trick of leaving one through a second.
pub(crate) fn roots(args: &[String], tries: &mut Tries) {
    let dir = text(args.first().map_or(".", String::as_str));
    let dir = at(dir.to_bytes_with_nul());
    tries.in_child("chroot", || call(SYS_chroot, [dir]));
    tries.in_child("chroot and climb out", || {
        let held = call(SYS_open, [at(c"."), (O_RDONLY | O_DIRECTORY) as usize, 0])?;
        call(SYS_chroot, [dir])?;
        call(SYS_fchdir, [held])?;
        for _ in 0..64 {
            call(SYS_chdir, [at(c"..")])?;
        }
        call(SYS_chroot, [at(c".")])
    });
}
