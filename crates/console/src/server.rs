//! The listener: connections in, with a limit on how many there are and on how long each may take to say what it wants.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Connections at once. The next one waits.
const MOST: usize = 512;
/// How long the head of a request may take, also the next one on a connection that is kept.
const HEAD: Duration = Duration::from_secs(15);
/// How many bytes of head are read.
const HEAD_BYTES: usize = 32 * 1024;
/// How long answers under way get when the console stops.
const FAREWELL: Duration = Duration::from_secs(3);

/// Serves until it is stopped; then answers under way are given, for a moment.
pub(crate) async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MOST));
    let open = TaskTracker::new();
    loop {
        let slot = tokio::select! {
            slot = slots.clone().acquire_owned() => slot,
            () = stop.cancelled() => break,
        };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match stream {
            Ok((stream, _)) => {
                let served = serve(stream, router.clone(), stop.clone());
                open.spawn(async move {
                    let _slot = slot;
                    if let Err(error) = served.await {
                        tracing::debug!("a connection ended: {error}");
                    }
                });
            }
            // Out of descriptors, most likely: what is open has to end first.
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    open.close();
    if time::timeout(FAREWELL, open.wait()).await.is_err() {
        tracing::debug!("connections were cut off");
    }
}

async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    served.map_err(io::Error::other)
}
