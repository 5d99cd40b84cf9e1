use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tokio::sync::Semaphore;

use super::*;
use crate::{BackendErrorKind, BootTime, EntryId, Keeper, sync::Mutex};

const CLASS: Duration = Duration::from_secs(12);

/// A backend whose sessions live until a test ends them.
struct TestOwner {
    sessions: SessionPool<Self>,
    /// A permit for each session that may be opened, or fail to.
    gate: Semaphore,
    attempts: AtomicUsize,
    opened: Mutex<Vec<Arc<TestSession>>>,
    refuses: AtomicBool,
    panics: AtomicBool,
    panics_at_once: AtomicBool,
    removals: AtomicUsize,
}

struct TestSession {
    alive: AtomicBool,
}

struct TestMember {
    id: EntryId,
    session: Arc<TestSession>,
    overdue: AtomicBool,
    /// A request in flight may still change what it has.
    in_doubt: AtomicBool,
}

impl TestOwner {
    fn new(slots: usize, sessions: usize) -> Arc<Self> {
        Self::on(Keeper::start().unwrap(), slots, sessions)
    }

    fn on(keeper: Keeper, slots: usize, sessions: usize) -> Arc<Self> {
        Arc::new(Self {
            sessions: SessionPool::new(keeper, Capacity { slots, bytes: usize::MAX }),
            gate: Semaphore::new(sessions),
            attempts: AtomicUsize::new(0),
            opened: Mutex::new(Vec::new()),
            refuses: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            panics_at_once: AtomicBool::new(false),
            removals: AtomicUsize::new(0),
        })
    }

    async fn join(self: &Arc<Self>, id: u128) -> Result<Option<Arc<TestMember>>, &'static str> {
        join(self, EntryId::new(id), CLASS, 0, |session| TestMember::new(id, session)).await
    }

    fn try_join(&self, id: u128) -> Option<Arc<TestMember>> {
        self.sessions.try_join(EntryId::new(id), CLASS, 0, |session| TestMember::new(id, session))
    }

    fn sessions_opened(&self) -> usize {
        self.opened.lock().len()
    }
}

impl TestMember {
    fn new(id: u128, session: &Arc<TestSession>) -> Self {
        Self {
            id: EntryId::new(id),
            session: Arc::clone(session),
            overdue: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
        }
    }
}

impl SessionKind for TestOwner {
    type Session = TestSession;
    type Member = TestMember;
    type Failure = &'static str;
}

impl SessionOwner for TestOwner {
    fn sessions(&self) -> &SessionPool<Self> {
        &self.sessions
    }

    fn open(
        self: &Arc<Self>,
        _: Duration,
    ) -> impl Future<Output = Result<Arc<TestSession>, &'static str>> + Send {
        assert!(!self.panics_at_once.load(Ordering::Acquire), "on purpose");
        self.attempts.fetch_add(1, Ordering::AcqRel);
        async move {
            self.gate.acquire().await.unwrap().forget();
            assert!(!self.panics.load(Ordering::Acquire), "on purpose");
            if self.refuses.load(Ordering::Acquire) {
                return Err("refused");
            }
            Ok(Arc::new(TestSession { alive: AtomicBool::new(true) }))
        }
    }

    fn opened(self: &Arc<Self>, session: Arc<TestSession>, class: Duration) {
        assert_eq!(class, CLASS);
        self.opened.lock().push(session);
    }

    async fn remove_member(&self, member: &Arc<TestMember>) -> Result<bool, &'static str> {
        self.removals.fetch_add(1, Ordering::AcqRel);
        assert!(!self.panics.load(Ordering::Acquire), "on purpose");
        if self.refuses.load(Ordering::Acquire) {
            return Err("refused");
        }
        Ok(self.sessions.forget(member))
    }

    fn failure(_: BackendErrorKind, message: &'static str) -> &'static str {
        message
    }
}

impl PooledSession for TestSession {
    fn is_alive(&self, _: BootTime) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

impl PooledMember for TestMember {
    type Session = TestSession;

    fn id(&self) -> EntryId {
        self.id
    }

    fn session(&self) -> &Arc<TestSession> {
        &self.session
    }

    fn is_overdue(&self, _: BootTime) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    fn give_back(&self) -> bool {
        !self.in_doubt.load(Ordering::Acquire)
    }
}

/// Waits for something that the keeper does.
async fn until(done: impl Fn() -> bool + Send + Sync) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the keeper does it");
}

#[tokio::test]
async fn a_session_is_opened_once_for_all_that_wait_for_it() {
    let owner = TestOwner::new(100, 0);
    let joins = join_all((0..50).map(|id| owner.join(id)));
    let (joined, ()) = tokio::join!(joins, async { owner.gate.add_permits(100) });
    assert!(joined.iter().all(|member| matches!(member, Ok(Some(_)))));
    assert_eq!(owner.sessions_opened(), 1);
    assert_eq!(owner.sessions.members_of(&owner.opened.lock()[0]).len(), 50);
}

#[tokio::test]
async fn all_that_wait_for_a_session_share_the_failure_to_open_it() {
    let owner = TestOwner::new(100, 0);
    owner.refuses.store(true, Ordering::Release);
    let joins = join_all((0..50).map(|id| owner.join(id)));
    let (joined, ()) = tokio::join!(joins, async { owner.gate.add_permits(1) });
    assert!(joined.iter().all(|member| matches!(member, Err("refused"))));
    owner.refuses.store(false, Ordering::Release);
    owner.gate.add_permits(1);
    assert!(owner.join(1).await.unwrap().is_some(), "the next one opens another");
}

/// The second one hears of the panic only when another session is being opened.
#[tokio::test]
async fn a_panic_while_a_session_is_opened_is_told_and_stops_no_other_opening() {
    let owner = TestOwner::new(100, 0);
    owner.panics.store(true, Ordering::Release);
    let (mut first, mut second) = (Box::pin(owner.join(1)), Box::pin(owner.join(2)));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    owner.gate.add_permits(1);
    let failed = first.await.map(|member| member.is_some());
    assert_eq!(failed, Err("opening a session panicked"));

    owner.panics.store(false, Ordering::Release);
    let mut third = Box::pin(owner.join(3));
    assert!((&mut third).now_or_never().is_none());
    let failed = second.await.map(|member| member.is_some());
    assert_eq!(failed, Err("opening a session panicked"));
    let mut fourth = Box::pin(owner.join(4));
    assert!((&mut fourth).now_or_never().is_none());
    owner.gate.add_permits(2);
    assert!(third.await.unwrap().is_some() && fourth.await.unwrap().is_some());
    assert_eq!(owner.attempts.load(Ordering::Acquire), 2, "the third and the fourth share a session");
    assert_eq!(owner.sessions_opened(), 1);
}

#[tokio::test]
async fn a_panic_before_there_is_a_future_is_told_and_stops_no_other_opening() {
    let owner = TestOwner::new(100, 1);
    owner.panics_at_once.store(true, Ordering::Release);
    assert_eq!(owner.join(1).await.err(), Some("opening a session panicked"));
    owner.panics_at_once.store(false, Ordering::Release);
    assert!(owner.join(1).await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_that_is_full_gets_another_one_beside_it() {
    let owner = TestOwner::new(2, 3);
    for id in 0..5 {
        assert!(owner.join(id).await.unwrap().is_some());
    }
    assert_eq!(owner.sessions_opened(), 3);
    let first = owner.sessions.find(EntryId::new(0)).unwrap();
    assert!(owner.sessions.forget(&first));
    assert!(Arc::ptr_eq(&owner.try_join(6).unwrap().session, &first.session), "the slot is free again");
}

#[tokio::test]
async fn a_join_fails_when_the_keeper_ends() {
    let keeper = Keeper::start().unwrap();
    let owner = TestOwner::on(keeper.clone(), 1, 0);
    let (joined, ()) = tokio::join!(owner.join(1), async { keeper.stop() });
    assert_eq!(joined.map(|member| member.is_some()), Err("the keeper has ended"));
}

#[tokio::test]
async fn a_session_that_is_closed_or_over_gives_no_slot() {
    let owner = TestOwner::new(2, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    assert!(!owner.sessions.close_if_idle(&member.session, Duration::ZERO), "a slot is in use");
    assert!(owner.sessions.forget(&member));
    assert!(!owner.sessions.close_if_idle(&member.session, CLASS), "one was in use a moment ago");
    let other = owner.try_join(2).unwrap();
    other.session.alive.store(false, Ordering::Release);
    assert!(owner.try_join(3).is_none(), "it is over");
    other.session.alive.store(true, Ordering::Release);
    assert!(owner.sessions.forget(&other));
    assert!(owner.sessions.close_if_idle(&member.session, Duration::ZERO));
    assert!(owner.try_join(4).is_none(), "it was closed");
    assert!(owner.sessions.any_session().is_none());
}

#[tokio::test]
async fn what_needs_no_entry_finds_any_session_or_opens_one() {
    let owner = TestOwner::new(1, 1);
    assert!(owner.sessions.any_session().is_none());
    let opened = session(&owner, CLASS).await.unwrap();
    assert!(Arc::ptr_eq(&opened, &session(&owner, CLASS).await.unwrap()));
    assert!(Arc::ptr_eq(&opened, &owner.sessions.any_session().unwrap()));
    let closed = owner.sessions.close_idle();
    assert!(matches!(&closed[..], [(session, CLASS)] if Arc::ptr_eq(session, &opened)));
}

#[tokio::test]
async fn an_entry_that_is_a_member_or_has_a_tombstone_does_not_join() {
    let owner = TestOwner::new(10, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    assert!(owner.join(1).await.unwrap().is_none() && owner.try_join(1).is_none());
    owner.sessions.add_tombstone(EntryId::new(1), CLASS);
    assert!(owner.sessions.forget(&member));
    assert!(owner.join(1).await.unwrap().is_none(), "it left in doubt");
    assert!(owner.sessions.has_tombstone(EntryId::new(1)) && !owner.sessions.has_tombstone(EntryId::new(2)));
}

#[tokio::test]
async fn a_member_that_was_forgotten_takes_nothing_from_the_next_one_for_its_entry() {
    let owner = TestOwner::new(1, 1);
    let former = owner.join(1).await.unwrap().unwrap();
    assert!(owner.sessions.forget(&former) && !owner.sessions.forget(&former));
    let next = owner.try_join(1).unwrap();
    assert!(!owner.sessions.forget(&former));
    assert!(Arc::ptr_eq(&owner.sessions.find(EntryId::new(1)).unwrap(), &next));
    assert!(owner.sessions.is_member_of(EntryId::new(1), &next.session));
    assert!(owner.try_join(2).is_none(), "its slot is in use");
}

/// A session does not grow forever, however often answers to deletes are lost.
#[tokio::test]
async fn what_cannot_be_given_back_costs_a_slot() {
    let owner = TestOwner::new(2, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    member.in_doubt.store(true, Ordering::Release);
    assert!(owner.sessions.forget(&member));
    let next = owner.try_join(2).unwrap();
    assert!(owner.try_join(3).is_none());
    assert!(owner.sessions.forget(&next));
    assert!(owner.sessions.close_if_idle(&member.session, Duration::ZERO), "nobody has a slot in it");
}

#[tokio::test]
async fn a_session_that_was_removed_keeps_its_members_until_they_are_forgotten() {
    let owner = TestOwner::new(2, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    assert!(owner.sessions.remove(&member.session, CLASS) && !owner.sessions.remove(&member.session, CLASS));
    assert!(owner.try_join(2).is_none());
    assert_eq!(owner.sessions.members_of(&member.session).len(), 1);
    assert!(owner.sessions.forget(&member));
    assert!(owner.sessions.members_of(&member.session).is_empty());
    let shown = format!("{:?}", owner.sessions);
    assert!(shown.contains("sessions: 0, members: 0"), "{shown}");
}

#[tokio::test]
async fn a_member_with_a_session_of_its_own_is_in_no_class() {
    let owner = TestOwner::new(2, 0);
    let alone = Arc::new(TestSession { alive: AtomicBool::new(true) });
    let member = owner.sessions.add_private(TestMember::new(1, &alone)).unwrap();
    assert!(owner.try_join(2).is_none() && owner.sessions.any_session().is_none());
    assert_eq!(owner.sessions.members_of(&alone).len(), 1);
    assert!(owner.sessions.forget(&member));
    assert!(owner.sessions.members_of(&alone).is_empty());
}

/// The entry left while its session was being opened.
#[tokio::test]
async fn an_entry_that_has_left_is_no_member_of_a_session_of_its_own() {
    let owner = TestOwner::new(2, 0);
    let alone = Arc::new(TestSession { alive: AtomicBool::new(true) });
    owner.sessions.add_tombstone(EntryId::new(1), CLASS);
    assert!(owner.sessions.add_private(TestMember::new(1, &alone)).is_none());
    assert!(owner.sessions.find(EntryId::new(1)).is_none() && owner.sessions.members_of(&alone).is_empty());
}

#[tokio::test]
async fn members_whose_time_is_over_are_removed_and_no_others() {
    let owner = TestOwner::new(200, 1);
    let mut members = Vec::new();
    for id in 0..200 {
        members.push(owner.join(id).await.unwrap().unwrap());
    }
    members[1..].iter().for_each(|member| member.overdue.store(true, Ordering::Release));
    sweep(&owner, &members[0].session);
    until(|| owner.sessions.members_of(&members[0].session).len() == 1).await;
    assert!(owner.sessions.find(EntryId::new(0)).is_some());
    assert_eq!(owner.removals.load(Ordering::Acquire), 199);
}

#[tokio::test]
async fn a_removal_that_failed_is_tried_again_at_the_next_sweep() {
    let owner = TestOwner::new(1, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    member.overdue.store(true, Ordering::Release);
    owner.refuses.store(true, Ordering::Release);
    sweep(&owner, &member.session);
    until(|| owner.removals.load(Ordering::Acquire) == 1).await;
    owner.refuses.store(false, Ordering::Release);
    until(|| {
        // The first one may not be over yet: then this one does nothing.
        sweep(&owner, &member.session);
        owner.sessions.find(EntryId::new(1)).is_none()
    })
    .await;
}

/// Else what a shared session keeps alive would stay for as long as the session does.
#[tokio::test]
async fn a_removal_that_panicked_is_tried_again_at_the_next_sweep() {
    let owner = TestOwner::new(1, 1);
    let member = owner.join(1).await.unwrap().unwrap();
    member.overdue.store(true, Ordering::Release);
    owner.panics.store(true, Ordering::Release);
    sweep(&owner, &member.session);
    until(|| owner.removals.load(Ordering::Acquire) == 1).await;
    owner.panics.store(false, Ordering::Release);
    until(|| {
        sweep(&owner, &member.session);
        owner.sessions.find(EntryId::new(1)).is_none()
    })
    .await;
}

#[tokio::test]
async fn an_owner_that_is_dropped_takes_its_sessions() {
    let owner = TestOwner::new(1, 2);
    for id in 0..2 {
        owner.join(id).await.unwrap();
    }
    owner.sessions.until_opened().await;
    let keeper_task_is_over = || Arc::strong_count(&owner) == 1;
    until(keeper_task_is_over).await;
    let mut owner = Arc::into_inner(owner).unwrap();
    assert_eq!(owner.sessions.take_sessions().len(), 2);
}
