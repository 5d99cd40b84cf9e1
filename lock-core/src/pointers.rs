//! References, boxes and `Arc`s of locks are locks.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{AcquireOptions, AcquireProgress, DistributedLock, Error, Guard, LockName, QueueRow};

// A function cannot write an `impl`, and a blanket one for all types that deref would forbid those of other crates.
macro_rules! forward {
    ($($pointer:ty),+) => {$(
        #[async_trait]
        impl<T: DistributedLock + ?Sized> DistributedLock for $pointer {
            fn name(&self) -> &LockName {
                (**self).name()
            }

            fn options(&self) -> &AcquireOptions {
                (**self).options()
            }

            async fn acquire(&self) -> Result<Guard, Error> {
                (**self).acquire().await
            }

            async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
                (**self).try_acquire().await
            }

            async fn acquire_with(&self, options: &AcquireOptions) -> Result<Guard, Error> {
                (**self).acquire_with(options).await
            }

            async fn acquire_observed(
                &self,
                options: &AcquireOptions,
                progress: &AcquireProgress,
            ) -> Result<Guard, Error> {
                (**self).acquire_observed(options, progress).await
            }

            async fn try_acquire_with(&self, options: &AcquireOptions) -> Result<Option<Guard>, Error> {
                (**self).try_acquire_with(options).await
            }

            async fn holder(&self) -> Result<Option<QueueRow>, Error> {
                (**self).holder().await
            }

            async fn queue(&self) -> Result<Vec<QueueRow>, Error> {
                (**self).queue().await
            }
        }
    )+};
}

forward!(&T, Box<T>, Arc<T>);
