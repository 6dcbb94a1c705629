//! Devices: made, and found: `devices DIR`.

use std::fs::File;

use libc::*;

use crate::{
    sys::{at, call, minus, text},
    tries::Tries,
};

const DISK: (u32, u32) = (8, 0);
const VIRTUAL_DISK: (u32, u32) = (254, 0);
const MEMORY: (u32, u32) = (1, 1);
const NULL: (u32, u32) = (1, 3);

const DANGEROUS: [&str; 16] = [
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/vda",
    "/dev/nvme0n1",
    "/dev/loop0",
    "/dev/loop-control",
    "/dev/fuse",
    "/dev/kvm",
    "/dev/net/tun",
    "/dev/uinput",
    "/dev/mapper/control",
    "/dev/vhost-net",
    "/dev/vsock",
];

/// Makes device nodes in a directory, and opens those a room must not have.
pub(crate) fn devices(args: &[String], tries: &mut Tries) {
    let dir = args.first().map_or(".", String::as_str);
    let made = [
        ("disk", S_IFBLK, DISK),
        ("virtual-disk", S_IFBLK, VIRTUAL_DISK),
        ("memory", S_IFCHR, MEMORY),
        ("null", S_IFCHR, NULL),
    ];
    for (name, kind, (major, minor)) in made {
        let path = text(&format!("{dir}/{name}"));
        let path = at(path.to_bytes_with_nul());
        let device = makedev(major, minor) as usize;
        tries.call(format!("mknod {name}"), call(SYS_mknodat, [minus(100), path, kind as usize | 0o666, device]));
    }
    for device in DANGEROUS {
        tries.open("open", device, File::options().read(true));
    }
}
