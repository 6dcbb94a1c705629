//! A full disk: `fill DIR BYTES` and its relatives. What was written is noted together with what stopped it.

use std::{
    fs::{self, File},
    io::{Error, Write},
    os::fd::AsRawFd,
    thread::sleep,
    time::Duration,
};

use libc::*;

use crate::{
    count,
    sys::{call, number},
    tries::Tries,
};

const PIECE: usize = 1 << 20;

/// One file. `unseen` first closes the process to those who watch it.
pub(crate) fn fill(args: &[String], tries: &mut Tries) {
    if args.iter().any(|word| word == "unseen") {
        tries.call("unseen", call(SYS_prctl, [PR_SET_DUMPABLE as usize, 0, 0, 0, 0]));
    }
    let path = format!("{}/filled", dir(args));
    let written = File::create(path).map(|file| write(file, count(args, 1, 1 << 20)));
    note(tries, written);
}

/// Many files, each smaller than one file may be, by a process that is closed to those who watch it: `fill-many DIR FILES BYTES`.
pub(crate) fn fill_many(args: &[String], tries: &mut Tries) {
    tries.call("unseen", call(SYS_prctl, [PR_SET_DUMPABLE as usize, 0, 0, 0, 0]));
    let mut all = 0;
    for index in 0..count(args, 1, 4) {
        let Ok(file) = File::create(format!("{}/filled-{index}", dir(args))) else { break };
        all += write(file, count(args, 2, 1 << 20)).0;
    }
    tries.found("written", all);
}

/// A file nobody can see, because it is deleted while it grows.
pub(crate) fn fill_deleted(args: &[String], tries: &mut Tries) {
    let path = format!("{}/deleted", dir(args));
    let written = File::create(&path).and_then(|file| {
        fs::remove_file(&path)?;
        let written = write(file.try_clone()?, count(args, 1, 1 << 20));
        sleep(Duration::from_secs(2));
        drop(file);
        Ok(written)
    });
    note(tries, written);
}

/// Many small files of four kilobytes: `fill-files DIR N`.
pub(crate) fn fill_files(args: &[String], tries: &mut Tries) {
    let piece = [7; 4096];
    let mut made = 0u64;
    let mut stopped = None;
    for index in 0..count(args, 1, 1000) {
        match fs::write(format!("{}/small-{index}", dir(args)), piece) {
            Ok(()) => made += 1,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    sleep(Duration::from_secs(1));
    note(tries, Ok((made * 4096, stopped)));
}

/// Blocks that are taken and never written, in many files: `fill-taken DIR FILES BYTES`.
pub(crate) fn fill_taken(args: &[String], tries: &mut Tries) {
    let (files, bytes) = (count(args, 1, 4), count(args, 2, 1 << 20));
    let mut taken = 0;
    for index in 0..files {
        let file = File::create(format!("{}/taken-{index}", dir(args)));
        let done = file.and_then(|file| {
            call(SYS_fallocate, [file.as_raw_fd() as usize, 0, 0, bytes as usize]).map_err(Error::from_raw_os_error)
        });
        if let Err(error) = done {
            tries.io("the last file", Err::<u8, _>(error));
            break;
        }
        taken += bytes;
    }
    sleep(Duration::from_secs(1));
    tries.found("taken", taken);
}

/// Directories side by side: `fill-dirs DIR N`.
pub(crate) fn fill_dirs(args: &[String], tries: &mut Tries) {
    let made =
        (0..count(args, 1, 1000)).take_while(|index| fs::create_dir(format!("{}/dir-{index}", dir(args))).is_ok());
    let made = made.count();
    sleep(Duration::from_secs(1));
    tries.found("made", made);
}

/// Directories in directories: `fill-deep DIR N`. Paths grow past what one call takes, so it walks.
pub(crate) fn fill_deep(args: &[String], tries: &mut Tries) {
    let made = std::env::set_current_dir(dir(args)).map(|()| {
        for depth in 0..count(args, 1, 1000) {
            if fs::create_dir("d").and_then(|()| std::env::set_current_dir("d")).is_err() {
                return depth;
            }
        }
        count(args, 1, 1000)
    });
    tries.io("deep", made);
}

/// A file that is large and holds nothing, and one whose blocks are taken without being written.
pub(crate) fn sparse(args: &[String], tries: &mut Tries) {
    let bytes = count(args, 1, 1 << 40);
    let long = File::create(format!("{}/sparse", dir(args))).and_then(|file| file.set_len(bytes));
    tries.io("sparse", long.map(|()| bytes));
    let taken = File::create(format!("{}/taken", dir(args))).and_then(|file| {
        call(SYS_fallocate, [file.as_raw_fd() as usize, 0, 0, 1 << 30]).map_err(Error::from_raw_os_error)
    });
    tries.io("taken", taken);
    sleep(Duration::from_secs(1));
}

fn dir(args: &[String]) -> &str {
    args.first().map_or(".", String::as_str)
}

fn write(mut file: File, bytes: u64) -> (u64, Option<Error>) {
    let piece = vec![7; PIECE];
    let mut written = 0;
    while written < bytes {
        if let Err(error) = file.write_all(&piece) {
            return (written, Some(error));
        }
        written += PIECE as u64;
    }
    sleep(Duration::from_secs(1));
    (written, None)
}

fn note(tries: &mut Tries, written: std::io::Result<(u64, Option<Error>)>) {
    match written {
        Ok((bytes, stopped)) => {
            tries.found("written", bytes);
            tries.call("the last write", stopped.map_or(Ok(0), |error| Err(number(&error))));
        }
        Err(error) => tries.io("written", Err::<u8, _>(error)),
    }
}
