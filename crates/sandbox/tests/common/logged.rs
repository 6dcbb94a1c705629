//! What the tests of one process log, all of it in one place: a subscriber of one thread misses what another thread was
//! the first to log.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    io,
    sync::{Mutex, Once},
};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The lines that speak of this container, of those that are logged while this is done.
pub(crate) fn logged(container: &str, work: impl FnOnce()) -> Vec<String> {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Writer).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    work();
    let text = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    text.lines().filter(|line| line.contains(container)).map(str::to_owned).collect()
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
