//! What the worker says about itself: lines of JSON on its standard error, for whoever keeps the log of the container.
//!
//! They tell what happened and never what a job says. Nobody here waits for a reader: what there is no room for is left
//! out.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

/// What a pipe that has room at all takes at once.
const MOST: usize = 4096;

/// Says one line.
pub(super) fn say(line: &Value) {
    let text = format!("{line}\n");
    let stderr = rustix::stdio::stderr();
    let mut fds = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
    let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    if text.len() <= MOST && polled.is_ok() && fds[0].revents().contains(PollFlags::OUT) {
        // A log that cannot be written is not worth a job.
        let _ = rustix::io::write(stderr, text.as_bytes());
    }
}
