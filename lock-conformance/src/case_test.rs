//! [`CaseTest`]: a case and its test. A [`Case`] does not know its test, because a harness sees cases, and a test uses the harness.

use futures_util::future::BoxFuture;

use crate::{Case, TestEnv};

/// A case and its test.
pub(crate) struct CaseTest {
    pub(crate) case: Case,
    /// Panics if the promise is broken.
    pub(crate) run: fn(TestEnv) -> BoxFuture<'static, ()>,
}
