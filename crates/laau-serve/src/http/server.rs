//! The loop that accepts connections, and its orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use super::access::Access;
use super::connection::Timed;
use super::routes::router;
use super::service::{HttpOptions, Service};
use super::tls::Tls;
use crate::authority::Authority;
use crate::metrics::Metrics;

/// How long to wait after the system had no descriptor left for a connection.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How often measurements are sorted into their histograms.
const UPKEEP: Duration = Duration::from_secs(5);

/// Requests of one HTTP/2 connection at a time.
const STREAMS: u32 = 256;

/// Bytes of the head of a request.
const LARGEST_HEAD: usize = 32 * 1024;

/// A service that has its address and waits to be run.
pub struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    service: Arc<Service>,
    ending: watch::Sender<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Takes an address.
    ///
    /// # Errors
    /// What the system says, or that a service without keys was asked for on an address that others can reach.
    pub async fn bind(
        address: SocketAddr,
        authority: Authority,
        options: HttpOptions,
        tls: Option<Tls>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        if options.access == Access::InsecureLoopback && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "expected a loopback address for a service without API keys",
            ));
        }
        let listener = TcpListener::bind(address).await?;
        let (ending, ends) = watch::channel(false);
        Ok(Self {
            listener,
            tls,
            service: Arc::new(Service::new(authority, options, metrics, ends)),
            ending,
        })
    }

    /// The address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end`, then finishes the requests under way.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let Self {
            listener,
            tls,
            service,
            ending,
        } = self;
        let options = service.options.clone();
        let server = Arc::new(Connections {
            router: router(Arc::clone(&service)),
            builder: builder(&options),
            tls,
            header_time: options.header_time,
            write_time: options.write_time,
        });
        let places = Arc::new(Semaphore::new(options.connections));
        let graceful = GracefulShutdown::new();
        let mut upkeep = tokio::time::interval(UPKEEP);
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                _ = upkeep.tick() => {
                    service.metrics.upkeep();
                    continue;
                }
                accepted = accept(&listener, &places) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let (server, watcher) = (Arc::clone(&server), graceful.watcher());
                    tokio::spawn(async move {
                        server.serve(stream, watcher).await;
                        drop(place);
                    });
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
        // Whoever connects now is told by the system that nobody is there.
        drop(listener);
        ending.send_replace(true);
        if tokio::time::timeout(options.grace, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("requests under way did not end in time");
        }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Answers are small and somebody waits for them. It fails for a client that has gone already, which shows by itself.
    let _ = stream.set_nodelay(true);
    Ok((stream, place))
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

fn builder(options: &HttpOptions) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_time)
        .max_buf_size(LARGEST_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
        .keep_alive_interval(options.header_time)
        .keep_alive_timeout(options.write_time);
    builder
}

/// What every connection needs.
struct Connections {
    router: Router,
    builder: auto::Builder<TokioExecutor>,
    tls: Option<Tls>,
    header_time: Duration,
    write_time: Duration,
}

impl Connections {
    async fn serve(&self, stream: TcpStream, watcher: Watcher) {
        let stream = Timed::new(stream, self.header_time, self.write_time);
        match &self.tls {
            None => self.speak(stream, watcher).await,
            Some(tls) => match tokio::time::timeout(self.header_time, tls.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // The clock of the first bytes begins again after the handshake.
                    let stream = Timed::new(stream, self.header_time, self.write_time);
                    self.speak(stream, watcher).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
                Err(_) => tracing::debug!("no TLS in time"),
            },
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, watcher: Watcher) {
        let service = self
            .router
            .clone()
            .map_request(|request: Request<Incoming>| request.map(Body::new));
        let connection = self
            .builder
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}
