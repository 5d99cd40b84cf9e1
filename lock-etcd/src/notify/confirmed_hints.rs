//! [`ConfirmedHints`]: passes hints on to a waiter once they are certain.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::Hint;

use super::{
    subscription::{Subscription, WaitEvent},
    wait_state::GrantCondition,
};
use crate::{
    client::Client,
    queue::{self, Reads},
    session::Member,
};

/// The hints for one waiter. An `Admitted` hint from here is certain.
///
/// ### To ensure correctness
/// When the entries ahead leave room, that alone is no grant: the waiter's own entry may have been deleted too, in the same transaction or
/// before. etcd serves each watch by itself: the events of one revision come in no order, and those of a slow watch are held back while the
/// others continue. So an event of one watch shows nothing about another watch. Only an answer of the server does.
///
/// The question is whether the waiter's own entry exists at a revision that is not before the delete that made room. If it does, with the
/// create revision that is the waiter's token, then it existed all the time, also in the revision of that delete, and there it was the
/// next. Any member can answer that from its own data: what it has applied is the history of the cluster, and only its revision has to be
/// checked. Mostly the answering member is the one that sent the event of the delete, and so has reached that revision.
///
/// The session may end while the answer is in flight, and the entry with it. So the answer counts only while the member is alive.
pub(crate) struct ConfirmedHints {
    subscription: Subscription,
    client: Client,
    member: Arc<Member>,
    /// The core polls this with its own waker, so a user's waker that panics harms no connection.
    asking: Option<BoxFuture<'static, Hint>>,
}

impl ConfirmedHints {
    pub(crate) fn new(subscription: Subscription, client: &Client, member: &Arc<Member>) -> Self {
        Self { subscription, client: client.clone(), member: Arc::clone(member), asking: None }
    }
}

impl Stream for ConfirmedHints {
    type Item = Hint;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        let this = self.get_mut();
        loop {
            if let Some(asking) = &mut this.asking {
                let hint = ready!(asking.poll_unpin(cx));
                this.asking = None;
                let is_alive = this.member.is_alive(this.client.keeper().now());
                return Poll::Ready(Some(if is_alive { hint } else { Hint::Changed }));
            }
            match ready!(Pin::new(&mut this.subscription).poll_next(cx)) {
                Some(WaitEvent::Admissible(condition)) => {
                    this.asking = Some(confirm(this.client.clone(), condition).boxed());
                }
                Some(WaitEvent::Changed) => return Poll::Ready(Some(Hint::Changed)),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Checks whether the entry exists for which there is room. If that is unknown, the waiter has to look.
async fn confirm(client: Client, condition: GrantCondition) -> Hint {
    let token = condition.token;
    for reads in [Reads::WhatAMemberHas, Reads::TheLatest] {
        let Ok(answer) = client.txn(|| queue::is_there(&condition.own, reads)).await.answer else { break };
        if let Some(stands) = queue::stands_since(&answer, token, condition.revision) {
            return if stands { Hint::Admitted { token } } else { Hint::Changed };
        }
    }
    Hint::Changed
}
