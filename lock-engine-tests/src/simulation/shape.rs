//! [`shape`]: makes the cell that a seed aims at likelier in its plan.

use super::{
    aim::on_the_wire,
    coverage::{Cell, Fault, State, Verb},
    plan::{Attempt, Disturbance, Plan, ms},
};
use crate::history::AcquireMode;

/// How many of 1000 requests go wrong at least where the aim needs faults.
const SOME_FAULTS: u32 = 50;

/// The rates of clocks that are fast or slow, in millionths.
const FAST: i32 = 10_000;

/// Changes what the seed has drawn, and draws nothing more.
pub(super) fn shape(plan: &mut Plan, aim: Cell) {
    let Cell { verb, fault, state } = aim;
    let in_doubt = verb == Verb::LeaveInDoubt || state == State::Tombstone;
    if on_the_wire(fault).is_some() {
        // A run whose wires may lose messages is judged as one with faults.
        plan.faults.per_mille = plan.faults.per_mille.max(SOME_FAULTS);
        plan.faults.latency = plan.faults.latency.max(ms(2));
    }
    let repeated = matches!(fault, Fault::Repeated | Fault::RepeatedLate);
    if repeated || matches!(state, State::Expired | State::OtherLife) {
        plan.sessions = false;
        plan.faults.repeats = true;
    }
    if in_doubt {
        plan.faults.latency = plan.faults.latency.max(ms(2));
        every_second(plan, |attempt| attempt.cancel_after = Some(ms(1)));
    }
    if verb == Verb::Try {
        every_second(plan, |attempt| attempt.mode = AcquireMode::Try);
    }
    match fault {
        Fault::FastClock => plan.clients.iter_mut().for_each(|client| client.fast_by = FAST),
        Fault::SlowClock => plan.clients.iter_mut().for_each(|client| client.fast_by = -FAST),
        Fault::Stopped => stop(plan),
        Fault::Crashed => crash(plan),
        _ => {}
    }
    if verb == Verb::Evict || state == State::Evicted {
        evict(plan);
    }
    plan.disturbances.sort_by_key(|(at, _)| *at);
}

/// Changes every second attempt of each worker.
fn every_second(plan: &mut Plan, change: impl Fn(&mut Attempt)) {
    let workers = plan.clients.iter_mut().flat_map(|client| client.workers.iter_mut());
    workers.flat_map(|attempts| attempts.iter_mut().step_by(2)).for_each(change);
}

/// The first client, which never crashes, stands still for a while, if no other one does.
fn stop(plan: &mut Plan) {
    if !plan.disturbances.iter().any(|(_, what)| matches!(what, Disturbance::Block(_))) {
        let block = [(ms(2_000), Disturbance::Block(0)), (ms(4_000), Disturbance::Unblock(0))];
        plan.disturbances.extend(block);
    }
}

/// The second client crashes, if no other one does; then nothing else happens to it.
fn crash(plan: &mut Plan) {
    if plan.crashed().is_empty() {
        let of_others = |what: &Disturbance| !matches!(what, Disturbance::Block(1) | Disturbance::Unblock(1));
        plan.disturbances.retain(|(_, what)| of_others(what));
        plan.disturbances.push((ms(3_000), Disturbance::Crash(1)));
    }
}

/// An operator evicts holders from time to time, and from each lock soon after a client has stopped or crashed.
fn evict(plan: &mut Plan) {
    let locks = plan.locks.len();
    let stops = plan.disturbances.iter().filter(|(_, what)| !matches!(what, Disturbance::Evict(_)));
    let times: Vec<_> = stops.map(|(at, _)| *at + ms(50)).chain((1..=4_u32).map(|n| n * ms(1_500))).collect();
    let evictions =
        times.into_iter().flat_map(|at| (0..locks).map(move |lock| (at, Disturbance::Evict(lock))));
    plan.disturbances.extend(evictions);
}
