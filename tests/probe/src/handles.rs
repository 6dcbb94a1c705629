//! File handles: a file opened by its number on the disk, past every path.

use libc::*;

use crate::{
    sys::{at, call, into, minus},
    tries::Tries,
};

#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    value: [u8; 128],
}

/// Asks for a handle, and opens the handle of the root of a disk as everyone can guess it.
pub(crate) fn handles(_: &[String], tries: &mut Tries) {
    let here = minus(100);
    tries.in_child("name_to_handle_at", || {
        let (mut handle, mut mount) = (Handle { bytes: 128, kind: 0, value: [0; 128] }, 0i32);
        call(SYS_name_to_handle_at, [here, at(c"/"), into(&mut handle), into(&mut mount), 0])
    });
    for root in [c"/", c"/etc/hostname", c"/etc/passwd", c"/tmp"] {
        tries.in_child(format!("open_by_handle_at inode 2 of {}", root.to_string_lossy()), || {
            let held = call(SYS_openat, [here, at(root), O_RDONLY as usize, 0])?;
            // Inode 2, generation 0: where ext4 keeps its root.
            let mut guessed = Handle { bytes: 8, kind: 1, value: [0; 128] };
            guessed.value[0] = 2;
            call(SYS_open_by_handle_at, [held, at(&guessed), O_RDONLY as usize])
        });
    }
}
