//! The aim of a seed: the cell of the coverage that it tries to reach.
//!
//! Most combinations of a verb, a fault and a state are rare where every fault is drawn alike: a leave in doubt that arrives when its client
//! has crashed, for example. So two of three seeds draw a cell. Their [plan](super::shape) makes it likelier, and the
//! [probe](super::probe) gives the fault to some of the requests that it fits. Every third seed has no aim, so that runs which no cell describes
//! remain.
//!
//! The weights of the cells are a [table in the source](super::aim_weights), and not what earlier seeds have covered: a seed gives the same
//! run whichever seeds ran before.

use lock_core::testing::RequestFault;

use super::{
    aim_weights::WEIGHTS,
    coverage::{Cell, Fault},
};

/// The golden ratio as a part of 2^64: its multiples are spread evenly, however many they are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The cell that a seed aims at; `None` if it has no aim. The aims of successive seeds are spread over the cells by their weights, so that
/// a few thousand seeds aim at every pair of a verb and a fault. A pair that the first seeds do not aim at is one that runs without an aim meet.
pub(super) fn aim_of(seed: u64) -> Option<Cell> {
    if seed.is_multiple_of(3) {
        return None;
    }
    // Which one it is of the seeds with an aim.
    let number = seed - seed / 3 - 1;
    let total: u64 = Cell::all().map(weight).sum();
    // The high half of the product is below the total.
    let mut place = ((u128::from(number.wrapping_mul(GOLDEN)) * u128::from(total)) >> 64) as u64;
    Cell::all().find(|cell| {
        let weight = weight(*cell);
        let here = place < weight;
        place = place.saturating_sub(weight);
        here
    })
}

fn weight(cell: Cell) -> u64 {
    WEIGHTS[cell.verb as usize][cell.fault as usize][cell.state as usize].into()
}

/// The fault that a wire gives to a request so that it meets the fault of a cell. `None` if it is none of the wire.
pub(super) const fn on_the_wire(fault: Fault) -> Option<RequestFault> {
    match fault {
        Fault::RequestLost => Some(RequestFault::RequestLost),
        Fault::AnswerLost => Some(RequestFault::AnswerLost),
        Fault::Repeated => Some(RequestFault::Repeated),
        Fault::RepeatedLate => Some(RequestFault::RepeatedLate),
        // What is under way for long arrives when its client stands still or is gone.
        Fault::RequestLate | Fault::Stopped | Fault::Crashed => Some(RequestFault::RequestLate),
        Fault::AnswerLate => Some(RequestFault::AnswerLate),
        Fault::Refused => Some(RequestFault::Refused),
        Fault::NotReady => Some(RequestFault::NotReady),
        // A client gives up a request when its connection breaks.
        Fault::Broken | Fault::GivenUp => Some(RequestFault::Broken),
        Fault::Nothing | Fault::FastClock | Fault::SlowClock => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_aimed_at_and_every_third_seed_has_no_aim() {
        // The most common pair has the least weight, about a thousandth of all. That the seeds of the gate meet it is asserted in their run.
        let aims: Vec<_> = (0..6_000).map(aim_of).collect();
        assert!(aims.iter().step_by(3).all(Option::is_none));
        assert_eq!(aims.iter().flatten().count(), 4_000);
        for (verb, fault) in Cell::pairs() {
            let aimed = aims.iter().flatten().any(|cell| (cell.verb, cell.fault) == (verb, fault));
            assert!(aimed, "{} with {} is an aim of no seed", verb.name(), fault.name());
        }
    }
}
