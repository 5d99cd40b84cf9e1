//! [`ConfirmedHints`]: what a waiter is told, once it is certain.

use std::{
    pin::Pin,
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
};

/// Hints for one waiter, of which `Admitted` is certain.
///
/// ### To ensure correctness
/// That those ahead leave room is no grant: the waiter's own entry may have been deleted with them, in one transaction or before. etcd
/// serves each watch by itself, those of one revision in no order, and holds back the events of a slow watch while it goes on with the
/// others. So an event of one watch shows nothing about another watch, and only an answer of the server does.
///
/// What is asked is whether the own entry stands at a revision that is not before the delete by which there is room. If it does, with the
/// create revision that is the waiter's token, it stood there all the time, and so in the revision of that delete: there it was the next.
/// Any member can answer that by itself: what it has applied is the history of the cluster, and only how far it has come is to be looked
/// at. Mostly it is the one that told of the delete, and has come that far.
pub(crate) struct ConfirmedHints {
    subscription: Subscription,
    client: Client,
    /// The waker that it is polled with is the core's own: one of a user that panics harms no connection.
    asking: Option<BoxFuture<'static, Hint>>,
}

impl ConfirmedHints {
    pub(crate) fn new(subscription: Subscription, client: &Client) -> Self {
        Self { subscription, client: client.clone(), asking: None }
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
                return Poll::Ready(Some(hint));
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

/// Whether there is room for an entry that stands. Where that is not known, the waiter has to look.
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
