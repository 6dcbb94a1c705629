//! Files born with a bit that changes who runs them, and then filled: `born-set-id DIR`. Writing takes the bit away; is
//! there a way to fill a file that does not?

use std::{
    fs::File,
    io::Write,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
};

use libc::*;

use crate::{
    sys::{Said, at, call, minus, text},
    tries::Tries,
};

/// A way to fill a file.
type Fill = fn(&File) -> Said;

const LENGTH: usize = 4096;

/// Tries each way, and notes whether the bit was kept on a file that is not empty.
pub(crate) fn born_set_id(args: &[String], tries: &mut Tries) {
    let dir = args.first().map_or(".", String::as_str);
    let ways: [(&str, Fill); 6] = [
        ("write", |file| said((&*file).write(b"#!/bin/sh\n"))),
        ("grow and map", |file| said(file.set_len(LENGTH as u64).map(|()| 0)).and_then(|_| mapped(file))),
        ("allocate and map", |file| call(SYS_fallocate, [fd(file), 0, 0, LENGTH]).and_then(|_| mapped(file))),
        ("copy into", |file| {
            let source = File::open("/proc/self/exe").map_err(|error| crate::sys::number(&error))?;
            call(SYS_copy_file_range, [fd(&source), 0, fd(file), 0, LENGTH])
        }),
        ("send into", |file| {
            let source = File::open("/proc/self/exe").map_err(|error| crate::sys::number(&error))?;
            call(SYS_sendfile, [fd(file), fd(&source), 0, LENGTH])
        }),
        ("allocate zeros", |file| call(SYS_fallocate, [fd(file), FALLOC_FL_ZERO_RANGE as usize, 0, LENGTH])),
    ];
    for mode in [0o4755u32, 0o2755, 0o6777] {
        for (way, fill) in ways {
            let name = format!("{way} {mode:o}");
            let path = format!("{dir}/{}", name.replace(' ', "-"));
            let file = File::options().read(true).write(true).create_new(true).mode(mode).open(&path);
            tries.io(name, file.map(|file| kept(&file, fill)));
        }
        let path = text(&format!("{dir}/node-{mode:o}"));
        let node = call(SYS_mknodat, [minus(100), at(path.to_bytes_with_nul()), (S_IFREG | mode) as usize, 0]);
        tries.io(format!("node {mode:o}"), node.map(|_| "made, empty").map_err(std::io::Error::from_raw_os_error));
    }
}

/// Fills the file and looks at what is left of its mode.
fn kept(file: &File, fill: Fill) -> String {
    use std::os::unix::fs::MetadataExt;
    let filled = fill(file);
    match (filled, file.metadata()) {
        (Err(errno), _) => format!("not filled: {errno}"),
        (Ok(_), Ok(meta)) if meta.mode() & 0o6000 != 0 && meta.len() > 0 => "kept".into(),
        (Ok(_), Ok(meta)) => format!("lost: {:o}", meta.mode()),
        (Ok(_), Err(error)) => error.to_string(),
    }
}

/// Writes through memory, which is not a write to the kernel.
fn mapped(file: &File) -> Said {
    let how = (PROT_READ | PROT_WRITE) as usize;
    let start = call(SYS_mmap, [0, LENGTH, how, MAP_SHARED as usize, fd(file), 0])?;
    // SAFETY: the mapping is `LENGTH` bytes of the file, which is that long.
    unsafe { (start as *mut u8).write_volatile(b'#') };
    call(SYS_msync, [start, LENGTH, MS_SYNC as usize])
}

fn fd(file: &File) -> usize {
    file.as_raw_fd() as usize
}

fn said(done: std::io::Result<usize>) -> Said {
    done.map_err(|error| crate::sys::number(&error))
}
