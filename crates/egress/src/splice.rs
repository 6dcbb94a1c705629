//! Two ends of a connection made one.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, sleep_until},
};

const BUFFER: usize = 16 * 1024;

/// What has passed in both directions, and when something last did.
#[derive(Debug)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
    last: Mutex<Instant>,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        Self { sent: AtomicU64::new(0), received: AtomicU64::new(0), last: Mutex::new(Instant::now()) }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Carries bytes out of the room until their end, and passes the end on.
    pub(crate) async fn carry_out(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.carry(from, to, &self.sent).await
    }

    /// Carries bytes into the room until their end, and passes the end on.
    pub(crate) async fn carry_in(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.carry(from, to, &self.received).await
    }

    /// Passes on what was already read from the room.
    pub(crate) async fn pass_on(&self, said: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        to.write_all(said).await?;
        self.count(&self.sent, said.len());
        Ok(())
    }

    /// Returns when nothing has passed for `limit`, in either direction: an end that no longer reads is as idle as one
    /// that no longer writes.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let until = *self.last.lock().unwrap_or_else(PoisonError::into_inner) + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    async fn carry(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        moved: &AtomicU64,
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return to.shutdown().await;
            }
            to.write_all(&buffer[..length]).await?;
            self.count(moved, length);
        }
    }

    fn count(&self, moved: &AtomicU64, length: usize) {
        moved.fetch_add(length as u64, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}
