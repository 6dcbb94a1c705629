//! Files that should be out of reach.

use std::{fs::File, io::Read, io::Result};

use crate::tries::Tries;

/// Reads the start of each. Only for canaries: what is read is printed.
pub(crate) fn look(paths: &[String], tries: &mut Tries) {
    for path in paths {
        tries.io(format!("read {path}"), start_of(path));
    }
}

/// Opens each for reading and reads nothing.
pub(crate) fn open_read(paths: &[String], tries: &mut Tries) {
    for path in paths {
        tries.open("open", path, File::options().read(true));
    }
}

/// Opens each for writing and writes nothing.
pub(crate) fn open_write(paths: &[String], tries: &mut Tries) {
    for path in paths {
        tries.open("open for writing", path, File::options().write(true));
    }
}

/// Makes each, empty.
pub(crate) fn create(paths: &[String], tries: &mut Tries) {
    for path in paths {
        tries.open("create", path, File::options().write(true).create_new(true));
    }
}

fn start_of(path: &str) -> Result<String> {
    let mut start = Vec::new();
    File::open(path)?.take(100).read_to_end(&mut start)?;
    Ok(String::from_utf8_lossy(&start).into_owned())
}
