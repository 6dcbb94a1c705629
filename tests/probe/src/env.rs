//! What the room gave the probe.

use crate::tries::Tries;

/// Every variable.
pub(crate) fn env(_: &[String], tries: &mut Tries) {
    for (name, value) in std::env::vars_os() {
        tries.found(name.to_string_lossy(), value.to_string_lossy());
    }
}

/// Every argument, as it came.
pub(crate) fn args(args: &[String], tries: &mut Tries) {
    for (index, word) in args.iter().enumerate() {
        tries.found(index.to_string(), word);
    }
    let directory = std::env::current_dir().map(|path| path.display().to_string());
    tries.io("directory", directory);
}
