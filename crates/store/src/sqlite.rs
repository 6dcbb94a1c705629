//! The store of a single machine: a data directory with a SQLite log.

use std::{
    fs::{DirBuilder, File},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;
use toolgate_contract::{End, Intent, Note, Status};

use crate::{
    Reader, Store, StoreError,
    draft::Draft,
    head::HeadFile,
    keys::{Keys, SealingKey, foreign},
    lock::Lock,
    log::{self, Log},
    queue::{Job, Queue, Wait, closed},
    writer::Writer,
};

/// Remembers calls in a data directory. Dropping it writes what is queued.
#[derive(Debug)]
pub struct SqliteStore {
    dir: PathBuf,
    queue: Arc<Queue>,
    sealing: SealingKey,
    closed: watch::Receiver<Option<Result<(), StoreError>>>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the log of a data directory, and makes both if they are not there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        make_private(dir)?;
        let lock = Lock::open(dir)?;
        let held = lock.hold()?;
        // The head is made before the database, so that a first start that was interrupted can be told from a
        // database that lost its head.
        let keys = if HeadFile::exists(dir) || dir.join(log::NAME).exists() {
            Keys::load(dir)?
        } else {
            let keys = Keys::make(&held, dir)?;
            HeadFile::make(&held, dir, &keys.signing)?;
            keys
        };
        let head = HeadFile::open(&held, dir, keys.signing.verifier())?;
        let log = Log::open(&held, dir, head, keys.signing)?;
        drop(held);
        Self::start(dir, Writer::new(lock, log), keys.sealing)
    }

    fn start(dir: &Path, writer: Writer, sealing: SealingKey) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new());
        let (result, closed) = watch::channel(None);
        let thread = thread::Builder::new().name("audit-writer".to_owned()).spawn({
            let queue = Arc::clone(&queue);
            move || {
                let _closing = CloseOnDrop(&queue);
                let ended = writer.run(&queue);
                if let Err(error) = &ended {
                    tracing::error!(%error, "the log was closed with entries unwritten");
                }
                result.send_replace(Some(ended));
            }
        });
        let writer = Some(thread.map_err(StoreError::unwritable)?);
        Ok(Self { dir: dir.to_owned(), queue, sealing, closed, writer })
    }

    async fn write_end(&self, end: End) -> Result<(), StoreError> {
        let sealed = match &end.raw {
            Some(raw) => Some(self.sealing.seal(&end.record.call.0, &raw.0)?),
            None => None,
        };
        let plain = end.raw.as_ref().map_or(0, |raw| raw.0.len());
        let draft = Draft::end(&end, sealed.as_deref().map(|sealed| (sealed, plain)))?;
        // A person will be asked about it, maybe after a restart.
        let pending = end.outcome.status == Status::Pending;
        let wait = if end.begun || pending { Wait::Durable } else { Wait::Queued };
        self.queue.submit(Job::new(draft, sealed, end.begun), wait).await
    }
}

/// Makes the data directory if it is not there, and refuses one that others can write to: whoever can write to a
/// directory can put other files in the place of those in it, however private they are. The directory a link leads to is
/// the one that counts.
pub(crate) fn make_private(dir: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| StoreError::file(dir, error))?;
    let about = File::open(dir).and_then(|dir| dir.metadata()).map_err(|error| StoreError::file(dir, error))?;
    let exposed = |why: String| StoreError::DirExposed { path: dir.to_owned(), why };
    if let Some(why) = foreign(&about) {
        return Err(exposed(why));
    }
    if about.mode() & 0o022 != 0 {
        return Err(exposed(format!("its mode is {:03o}, so others can write to it", about.mode() & 0o777)));
    }
    Ok(())
}

impl Store for SqliteStore {
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.queue.submit(Job::new(Draft::intent(&intent)?, None, false), Wait::Durable).await }.boxed()
    }

    fn end(&self, end: End) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write_end(end).boxed()
    }

    fn note(&self, note: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.queue.submit(Job::new(Draft::note(&note)?, None, false), Wait::Durable).await }.boxed()
    }

    fn reader(&self) -> Result<Option<Reader>, StoreError> {
        Reader::open(&self.dir).map(Some)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.close();
        let mut ended = self.closed.clone();
        async move {
            match ended.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or(Ok(())),
                Err(_) => Err(closed()),
            }
        }
        .boxed()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so already.
            let _ = writer.join();
        }
    }
}

/// Whatever ends the writer, nobody waits for it afterwards.
struct CloseOnDrop<'a>(&'a Queue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
