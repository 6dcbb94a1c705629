//! Changes to a tree: `change OP A B OP A B ...`, with `-` where an operation has no second word.

use libc::*;

use crate::{
    sys::{Said, at, call, minus, text},
    tries::Tries,
};

/// Makes each change, in order.
pub(crate) fn change(args: &[String], tries: &mut Tries) {
    for step in args.chunks_exact(3) {
        tries.call(format!("{} {} {}", step[0], step[1], step[2]), change_one(&step[0], &step[1], &step[2]));
    }
}

fn change_one(op: &str, a: &str, b: &str) -> Said {
    let (here, first, second) = (minus(100), text(a), text(b));
    let (p, q) = (at(first.to_bytes_with_nul()), at(second.to_bytes_with_nul()));
    let mode = usize::from_str_radix(b, 8).unwrap_or(0);
    match op {
        "mkdir" => call(SYS_mkdirat, [here, p, 0o777]),
        "rmdir" => call(SYS_unlinkat, [here, p, AT_REMOVEDIR as usize]),
        "unlink" => call(SYS_unlinkat, [here, p, 0]),
        "rename" => call(SYS_renameat2, [here, p, here, q, 0]),
        "exchange" => call(SYS_renameat2, [here, p, here, q, RENAME_EXCHANGE as usize]),
        "whiteout" => call(SYS_renameat2, [here, p, here, q, RENAME_WHITEOUT as usize]),
        "link" => call(SYS_linkat, [here, p, here, q, 0]),
        "link-through" => call(SYS_linkat, [here, p, here, q, AT_SYMLINK_FOLLOW as usize]),
        "symlink" => call(SYS_symlinkat, [p, here, q]),
        "truncate" => call(SYS_truncate, [p, 0]),
        "chmod" => call(SYS_fchmodat, [here, p, mode]),
        "chown" => call(SYS_fchownat, [here, p, 0, 0, AT_SYMLINK_NOFOLLOW as usize]),
        "fifo" => call(SYS_mknodat, [here, p, S_IFIFO as usize | 0o666, 0]),
        "socket" => call(SYS_mknodat, [here, p, S_IFSOCK as usize | 0o666, 0]),
        "touch" => call(SYS_utimensat, [here, p, 0, 0]),
        "mark" => call(SYS_setxattr, [p, at(c"user.toolgate"), at("x"), 1, 0]),
        "file-caps" => file_capability(p),
        "write" => write_to(p, O_WRONLY | O_CREAT | O_TRUNC),
        "append" => write_to(p, O_WRONLY | O_APPEND),
        _ => Err(ENOSYS),
    }
}

/// Gives a file every capability, as `setcap` would.
fn file_capability(path: usize) -> Said {
    // Revision 2 with the effective bit, then permitted and inheritable, low and high halves.
    let all: [u32; 5] = [0x0200_0001, u32::MAX, 0, u32::MAX, 0];
    call(SYS_setxattr, [path, at(c"security.capability"), at(&all), size_of_val(&all), 0])
}

fn write_to(path: usize, flags: i32) -> Said {
    let file = call(SYS_openat, [minus(100), path, (flags | O_CLOEXEC) as usize, 0o666])?;
    let written = call(SYS_write, [file, at("changed by the probe\n"), 21]);
    call(SYS_close, [file])?;
    written
}
