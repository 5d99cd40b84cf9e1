//! [`Workers`]: all workers of one measurement.

use std::sync::Arc;

use futures_util::future::try_join_all;

use crate::{
    counting_backend::CountingBackend,
    error::Result,
    store::Store,
    worker::{Command, Reply, Worker},
    worker_process::WorkerProcess,
};

/// One worker in this process, or several in processes of their own.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Handle>);

#[derive(Debug)]
enum Handle {
    InProcess(Box<Worker>),
    Process(Box<WorkerProcess>),
}

impl Workers {
    /// One worker, in this process.
    pub(crate) fn in_process(store: Arc<dyn Store>, backend: CountingBackend) -> Self {
        Self(vec![Handle::InProcess(Box::new(Worker::new(store, backend)))])
    }

    /// So many workers, each in a process of its own.
    ///
    /// # Errors
    /// If processes cannot be started, or cannot reach the store.
    pub(crate) fn start(store: &dyn Store, size: usize) -> Result<Self> {
        let workers =
            (0..size).map(|_| WorkerProcess::start(store).map(|worker| Handle::Process(Box::new(worker))));
        workers.collect::<Result<_>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sends a command to one of them.
    pub(crate) async fn tell(&mut self, number: usize, command: Command) -> Result<Reply> {
        let size = self.0.len();
        self.0[number % size].tell(command).await
    }

    /// Sends each a command of its own, all at once.
    pub(crate) async fn tell_all(&mut self, command: impl Fn(usize) -> Command) -> Result<Vec<Reply>> {
        try_join_all(self.0.iter_mut().enumerate().map(|(i, worker)| worker.tell(command(i)))).await
    }
}

impl Handle {
    async fn tell(&mut self, command: Command) -> Result<Reply> {
        match self {
            Self::InProcess(worker) => worker.handle(command).await.into_result(),
            Self::Process(worker) => worker.ask(&command).await,
        }
    }
}
