//! The last door before the first byte.
//!
//! The gate wraps the connector of the client for mutating calls. When it opens, the connection
//! (TLS included) stands and no byte of the request has left; so a call that never passed the
//! gate provably did not happen, however it ended. The lease is checked here too, because name
//! resolution and the handshake may have taken longer than it lasts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use tower::{BoxError, Layer, Service};

tokio::task_local! {
    /// The call that the current task is making. The client connects inside that task, because
    /// without a pool it has no reason to hand the connecting to another one.
    pub static CALL: Arc<Passage>;
}

/// What the gate knows about one call.
#[derive(Debug)]
pub struct Passage {
    pub send_before: Option<Instant>,
    /// The operator's allow-list names this host and port.
    pub host_allowed: bool,
    pub port: Option<u16>,
    passed: AtomicBool,
}

impl Passage {
    pub fn new(send_before: Option<Instant>, host_allowed: bool, port: Option<u16>) -> Passage {
        Passage { send_before, host_allowed, port, passed: AtomicBool::new(false) }
    }

    pub fn lapsed(&self) -> bool {
        self.send_before.is_some_and(|limit| Instant::now() >= limit)
    }

    /// True once a byte of the request may have left.
    pub fn passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }

    /// Opens the gate once. A second connection within one call would be a hidden resend.
    fn pass(&self) -> Result<(), Shut> {
        if self.lapsed() {
            return Err(Shut::LeaseLapsed);
        }
        match self.passed.swap(true, Ordering::SeqCst) {
            false => Ok(()),
            true => Err(Shut::SecondSend),
        }
    }
}

/// Why the gate stayed shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shut {
    #[error("the lease ended before the request could be sent")]
    LeaseLapsed,
    #[error("the client tried to send the request a second time")]
    SecondSend,
    #[error("the client connected outside the call that asked for it")]
    Stray,
}

#[derive(Clone, Copy)]
pub struct GateLayer;

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { inner }
    }
}

#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
}

impl<S, R> Service<R> for Gate<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let passage = CALL.try_with(Arc::clone);
        let connecting = self.inner.call(target);
        Box::pin(async move {
            let connection = connecting.await?;
            passage.map_err(|_| Shut::Stray)?.pass()?;
            Ok(connection)
        })
    }
}
