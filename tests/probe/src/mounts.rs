//! Every way to change what is mounted where: `mounts DIR`, a directory the probe may do with as it likes.

use libc::*;

use crate::{
    sys::{at, call, minus, text},
    tries::Tries,
};

const MOUNT_ATTR_RDONLY: u64 = 1;

/// Tries each, in a child of its own.
pub(crate) fn mounts(args: &[String], tries: &mut Tries) {
    let dir = text(args.first().map_or(".", String::as_str));
    let dir = at(dir.to_bytes_with_nul());
    let here = minus(100);
    let old = |source: usize, target: usize, kind: usize, flags: u64| {
        call(SYS_mount, [source, target, kind, flags as usize, 0])
    };
    tries.in_child("mount tmpfs", || old(at(c"none"), dir, at(c"tmpfs"), 0));
    tries.in_child("mount proc", || old(at(c"none"), dir, at(c"proc"), 0));
    tries.in_child("mount sysfs", || old(at(c"none"), dir, at(c"sysfs"), 0));
    tries.in_child("mount overlay", || old(at(c"none"), dir, at(c"overlay"), 0));
    tries.in_child("mount fuse", || old(at(c"none"), dir, at(c"fuse"), 0));
    tries.in_child("bind / over it", || old(at(c"/"), dir, 0, MS_BIND | MS_REC));
    tries.in_child("remount / writable", || old(0, at(c"/"), 0, MS_REMOUNT | MS_BIND));
    tries.in_child("remount /usr writable", || old(0, at(c"/usr"), 0, MS_REMOUNT | MS_BIND));
    tries.in_child("make / shared", || old(0, at(c"/"), 0, MS_SHARED | MS_REC));
    tries.in_child("move /proc", || old(at(c"/proc"), dir, 0, MS_MOVE));
    tries.in_child("umount /proc", || call(SYS_umount2, [at(c"/proc"), MNT_DETACH as usize]));
    tries.in_child("umount /tmp", || call(SYS_umount2, [at(c"/tmp"), MNT_DETACH as usize]));
    tries.in_child("umount /proc/sys", || call(SYS_umount2, [at(c"/proc/sys"), MNT_DETACH as usize]));
    tries.in_child("pivot_root", || call(SYS_pivot_root, [dir, dir]));
    tries.in_child("fsopen", || call(SYS_fsopen, [at(c"tmpfs"), 0]));
    tries.in_child("fspick", || call(SYS_fspick, [here, at(c"/"), 0]));
    tries.in_child("fsconfig", || call(SYS_fsconfig, [minus(1), 0, 0, 0, 0]));
    tries.in_child("fsmount", || call(SYS_fsmount, [minus(1), 0, 0]));
    tries.in_child("open_tree clone", || call(SYS_open_tree, [here, at(c"/"), 1]));
    tries.in_child("move_mount", || call(SYS_move_mount, [here, at(c"/proc"), here, dir, 0]));
    tries.in_child("mount_setattr", || {
        let attributes: [u64; 4] = [0, MOUNT_ATTR_RDONLY, 0, 0];
        call(SYS_mount_setattr, [here, at(c"/"), 0, at(&attributes), size_of_val(&attributes)])
    });
}
