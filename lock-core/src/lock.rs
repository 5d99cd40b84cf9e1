//! [`DistributedLock`]: a lock of any kind, as users take it; and [`Lock`], the type that implements it.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use async_trait::async_trait;

use crate::{
    AcquireOptions, AcquireProgress, Claim, Error, Guard, Hold, LockName, Operator, QueueRow, client::Client,
    panic_isolation::shielded, wait,
};

/// A lock that can be taken: a mutex, one side of a read-write lock, or some permits of a semaphore.
///
/// The trait is object-safe: keep an `Arc<dyn DistributedLock>` where the kind does not matter. References, boxes and `Arc`s of locks are
/// locks too, so generic code such as [`run`](Self::run) takes any of them.
///
/// | to | call |
/// |---|---|
/// | wait for the lock | [`acquire`](Self::acquire) |
/// | do something else if it is taken | [`try_acquire`](Self::try_acquire) |
/// | run work under it, and stop the work when the lock is lost | [`run`](Self::run) |
/// | wait, or hold it, in another way this time | [`acquire_with`](Self::acquire_with) |
/// | show people their place while they wait | [`acquire_observed`](Self::acquire_observed) |
/// | see who has it | [`holder`](Self::holder), [`queue`](Self::queue) |
///
/// Making a lock asks the store nothing, and one lock may be used by many tasks at the same time: each call of `acquire` is a place of
/// its own in the queue.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::{DistributedLock, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// let locks = Locks::new(Memory::new());
/// let lock: Arc<dyn DistributedLock> = Arc::new(locks.mutex("invoices/42")?);
/// let guard = lock.acquire().await?;
/// println!("write with token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync {
    /// The name of what is protected.
    fn name(&self) -> &LockName;

    /// The options that [`acquire`](Self::acquire) and [`try_acquire`](Self::try_acquire) use.
    fn options(&self) -> &AcquireOptions;

    /// Takes the lock, waiting for it as `options` say. First come, first served.
    ///
    /// The guard is returned once the store has granted the lock, and while its lease still has time left. Its deadline counts from before
    /// the request was sent, so that a slow answer makes it shorter, and never too long.
    ///
    /// A waiter that could not refresh its place in time, because the store was away or its runtime was blocked, goes to the end of the
    /// queue, and goes on waiting.
    ///
    /// # Errors
    /// [`Error::WaitTimeout`] when `wait` has passed; [`Error::Backend`] when the store is away and the options do not say
    /// to wait for it; [`Error::ClaimMismatch`] when the name is in use as another kind of lock; [`Error::Input`] for an
    /// option out of range; [`Error::TooSlow`] when answers take longer than the ttl; [`Error::Closed`], [`Error::Forked`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up its place in the queue; another call begins at the end. A request that is under way may still be
    /// carried out, even after the drop: the keeper leaves for it until the store confirms that nothing is left, or nothing can be left.
    async fn acquire_with(&self, options: &AcquireOptions) -> Result<Guard, Error>;

    /// [`acquire_with`](Self::acquire_with) these options, and reports to `progress` what it sees of the queue.
    ///
    /// A lock of another library that implements this trait may leave `progress` as it is.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there. `progress` keeps what was seen last.
    async fn acquire_observed(
        &self,
        options: &AcquireOptions,
        progress: &AcquireProgress,
    ) -> Result<Guard, Error> {
        let _ = progress;
        self.acquire_with(options).await
    }

    /// Takes the lock if it is free now, and returns `None` if it is not, or if others wait for it.
    ///
    /// A try never overtakes a waiter. So `None` does not always mean that the lock is held at this moment.
    ///
    /// # Errors
    /// Like [`acquire_with`](Self::acquire_with), without the timeout. A try whose outcome is not known is repeated or
    /// reported as an error, never as `None`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the try. If the store grants the lock nevertheless, the keeper releases it.
    async fn try_acquire_with(&self, options: &AcquireOptions) -> Result<Option<Guard>, Error>;

    /// The queue as it is now: holders first, then the waiters in order.
    ///
    /// It may have changed before the answer arrives: show it to people, and do not base decisions on it. To find out whether the lock is free,
    /// [try](Self::try_acquire) to take it.
    ///
    /// # Errors
    /// [`Error::Backend`] if the store cannot be asked.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the request, which changes nothing in the store.
    async fn queue(&self) -> Result<Vec<QueueRow>, Error>;

    /// [`acquire_with`](Self::acquire_with) the options of this lock.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(self.options()).await
    }

    /// [`try_acquire_with`](Self::try_acquire_with) the options of this lock.
    ///
    /// The guard is in the `Option`. `if lock.try_acquire().await?.is_some()`, `let Some(_) = …` and an answer that is not kept drop it
    /// at once, without a warning of the compiler. `let Some(guard) = lock.try_acquire().await? else { … }` keeps it.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        self.try_acquire_with(self.options()).await
    }

    /// The holder of the lock now: the first one, if there are several. `None` if the lock is free.
    ///
    /// # Errors
    /// [`Error::Backend`] if the store cannot be asked.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the request, which changes nothing in the store.
    async fn holder(&self) -> Result<Option<QueueRow>, Error> {
        Ok(self.queue().await?.into_iter().find(|row| row.admitted))
    }

    /// Takes the lock, runs `body` under it, and releases it.
    ///
    /// Use it where the work is one future: it stops the work when the lock is lost, which a guard leaves to its owner.
    ///
    /// If the lock is lost, the body is dropped where it awaits next, and the result is [`Error::Lost`]; the same if the lock turns out to
    /// be lost when the body ends. A body that does not await is not stopped. If it panics, unwinding releases the lock, and the panic goes
    /// on; with `panic = "abort"` the lock stays taken until its ttl ends.
    ///
    /// ```
    /// use lock_core::{DistributedLock, Locks, Memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// let locks = Locks::new(Memory::new());
    /// let lock = locks.mutex("job")?;
    /// let token = lock.run(|hold| async move { hold.token() }).await?;
    ///
    /// // A trait object has no `run`, but a reference to one has, as has a box or an `Arc` of it.
    /// let lock: &dyn DistributedLock = &lock;
    /// let later = (&lock).run(|hold| async move { hold.token() }).await?;
    /// assert!(later > token);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`acquire`](Self::acquire), and [`Error::Lost`], which [says](Error::is_transient) whether the body was stopped. A
    /// release that is not confirmed is left to the keeper, and no error.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body where it awaits, and releases the lock as the drop of a [`Guard`] does.
    async fn run<T, F, B>(&self, body: B) -> Result<T, Error>
    where
        Self: Sized,
        T: Send,
        F: Future<Output = T> + Send,
        B: FnOnce(Hold) -> F + Send,
    {
        let guard = self.acquire().await?;
        let mut lost = pin!(guard.lost());
        let mut work = pin!(body(guard.hold()));
        // Loss is looked at first: a body that is ready all the time must not outrun it.
        let done = poll_fn(|cx| match lost.as_mut().poll(cx) {
            Poll::Ready(reason) => Poll::Ready(Err(guard.lost_error(reason, true))),
            Poll::Pending => work.as_mut().poll(cx).map(Ok),
        })
        .await?;
        // It fails if the lock was lost. If the release is pending, the work was still done under the lock, and the keeper continues.
        guard.release().await?;
        Ok(done)
    }
}

/// One way of holding a name: a mutex, a side of a read-write lock, or some permits of a semaphore. Made by
/// [`Locks`](crate::Locks). Its methods are those of [`DistributedLock`]: import the trait to call them.
#[derive(Clone, Debug)]
pub struct Lock {
    client: Arc<Client>,
    name: LockName,
    claim: Claim,
    options: AcquireOptions,
}

impl Lock {
    pub(crate) fn new(client: Arc<Client>, name: LockName, claim: Claim, options: AcquireOptions) -> Self {
        Self { client, name, claim, options }
    }

    /// The same lock with options of its own.
    #[must_use]
    pub fn with_options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// What it asks the store for: the kind of lock, and how many permits.
    #[must_use]
    pub fn claim(&self) -> Claim {
        self.claim
    }
}

#[async_trait]
impl DistributedLock for Lock {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn options(&self) -> &AcquireOptions {
        &self.options
    }

    async fn acquire_with(&self, options: &AcquireOptions) -> Result<Guard, Error> {
        shielded(pin!(wait::acquire(&self.client, &self.name, self.claim, options, None))).await
    }

    async fn acquire_observed(
        &self,
        options: &AcquireOptions,
        progress: &AcquireProgress,
    ) -> Result<Guard, Error> {
        shielded(pin!(wait::acquire(&self.client, &self.name, self.claim, options, Some(progress)))).await
    }

    async fn try_acquire_with(&self, options: &AcquireOptions) -> Result<Option<Guard>, Error> {
        shielded(pin!(wait::try_acquire(&self.client, &self.name, self.claim, options))).await
    }

    async fn queue(&self) -> Result<Vec<QueueRow>, Error> {
        let rows = Operator::queue(&*self.client, &self.name).await;
        rows.map_err(|source| Error::from_backend(&self.name, self.claim, source))
    }
}
