//! The weights of the [aims](super::aim): how often each cell is drawn, relative to the others.
//!
//! Written by `cargo run --release --package lock-engine-tests --example aim_weights 1000000`, from the coverage of the seeds below 1000000 that
//! have no aim. A cell that is half as common weighs one more; one that never came up weighs as much as the most common, because it may be
//! out of reach.

use super::coverage::{Fault, State, Verb};

type Weights = [[[u16; State::ALL.len()]; Fault::ALL.len()]; Verb::ALL.len()];

/// By verb, fault and state, each in the order of its `ALL`.
#[rustfmt::skip]
pub(super) const WEIGHTS: Weights = [
    // try
    [
        [3, 1, 1, 20, 1, 1, 1, 1, 1], // nothing
        [8, 1, 1, 22, 1, 1, 1, 1, 1], // request lost
        [8, 1, 1, 1, 1, 1, 1, 1, 1], // answer lost
        [9, 1, 1, 10, 1, 1, 1, 16, 1], // repeated
        [9, 1, 1, 11, 1, 17, 11, 13, 20], // repeated late
        [9, 1, 1, 17, 1, 20, 1, 9, 1], // request late
        [8, 1, 1, 22, 1, 1, 1, 22, 1], // answer late
        [8, 1, 1, 1, 1, 1, 1, 1, 1], // refused
        [8, 1, 1, 22, 1, 1, 1, 1, 1], // not ready
        [12, 1, 1, 11, 1, 17, 1, 8, 19], // broken
        [11, 1, 1, 11, 1, 17, 1, 7, 19], // given up
        [13, 1, 1, 17, 1, 17, 17, 13, 22], // client stopped
        [14, 1, 1, 18, 1, 18, 17, 14, 1], // client crashed
        [3, 1, 1, 11, 1, 17, 13, 9, 20], // fast clock
        [3, 1, 1, 11, 1, 17, 13, 9, 20], // slow clock
    ],
    // create
    [
        [1, 11, 10, 10, 1, 10, 1, 1, 16], // nothing
        [6, 15, 14, 14, 1, 13, 1, 1, 19], // request lost
        [6, 15, 14, 14, 1, 13, 1, 21, 19], // answer lost
        [1, 9, 7, 8, 1, 1, 1, 19, 1], // repeated
        [1, 9, 8, 9, 1, 13, 8, 11, 17], // repeated late
        [7, 12, 11, 11, 1, 13, 1, 7, 19], // request late
        [6, 15, 14, 14, 1, 13, 1, 20, 20], // answer late
        [6, 15, 14, 14, 1, 13, 1, 1, 20], // refused
        [6, 15, 14, 14, 1, 13, 1, 1, 20], // not ready
        [10, 9, 8, 8, 1, 12, 1, 7, 16], // broken
        [9, 9, 8, 8, 1, 12, 1, 6, 16], // given up
        [12, 15, 14, 13, 1, 13, 13, 11, 18], // client stopped
        [13, 16, 15, 14, 1, 13, 14, 12, 19], // client crashed
        [1, 9, 7, 8, 1, 9, 9, 8, 15], // fast clock
        [1, 9, 7, 8, 1, 9, 9, 8, 15], // slow clock
    ],
    // look again
    [
        [1, 1, 1, 6, 15, 8, 6, 9, 13], // nothing
        [1, 6, 5, 9, 19, 12, 9, 13, 17], // request lost
        [1, 6, 5, 9, 19, 13, 9, 13, 17], // answer lost
        [1, 7, 6, 10, 19, 13, 10, 13, 18], // repeated
        [1, 7, 7, 8, 15, 11, 7, 10, 16], // repeated late
        [1, 7, 7, 8, 15, 11, 6, 9, 15], // request late
        [1, 6, 5, 9, 18, 13, 9, 13, 17], // answer late
        [1, 6, 5, 9, 19, 12, 9, 13, 17], // refused
        [1, 6, 5, 9, 19, 12, 9, 13, 17], // not ready
        [1, 7, 6, 8, 15, 11, 6, 10, 15], // broken
        [1, 7, 6, 7, 14, 10, 5, 9, 14], // given up
        [1, 12, 12, 12, 17, 11, 10, 13, 17], // client stopped
        [1, 14, 13, 13, 19, 12, 11, 14, 18], // client crashed
        [1, 1, 1, 5, 14, 8, 5, 8, 12], // fast clock
        [1, 1, 1, 5, 14, 8, 5, 8, 12], // slow clock
    ],
    // renew
    [
        [1, 1, 1, 1, 20, 22, 13, 19, 8], // nothing
        [1, 1, 1, 6, 1, 1, 1, 1, 13], // request lost
        [1, 1, 1, 6, 1, 1, 18, 22, 13], // answer lost
        [1, 1, 1, 6, 1, 1, 15, 19, 13], // repeated
        [1, 1, 1, 8, 16, 12, 7, 11, 16], // repeated late
        [1, 1, 1, 7, 16, 12, 7, 10, 14], // request late
        [1, 1, 1, 6, 21, 1, 19, 1, 13], // answer late
        [1, 1, 1, 6, 1, 1, 1, 1, 13], // refused
        [1, 1, 1, 6, 1, 1, 1, 1, 13], // not ready
        [1, 1, 1, 7, 16, 12, 7, 10, 14], // broken
        [1, 1, 1, 7, 15, 11, 6, 10, 14], // given up
        [1, 1, 1, 12, 19, 13, 11, 14, 18], // client stopped
        [1, 1, 1, 14, 20, 14, 12, 15, 19], // client crashed
        [1, 1, 1, 1, 16, 12, 7, 10, 8], // fast clock
        [1, 1, 1, 1, 16, 12, 7, 10, 8], // slow clock
    ],
    // leave
    [
        [1, 5, 4, 1, 1, 7, 7, 13, 8], // nothing
        [1, 9, 9, 6, 1, 11, 10, 17, 12], // request lost
        [1, 9, 9, 6, 1, 11, 10, 17, 12], // answer lost
        [1, 1, 1, 1, 1, 1, 6, 1, 1], // repeated
        [1, 17, 17, 16, 1, 15, 6, 1, 20], // repeated late
        [1, 11, 11, 8, 1, 8, 7, 17, 12], // request late
        [1, 9, 9, 6, 1, 11, 10, 17, 12], // answer late
        [1, 9, 9, 6, 1, 11, 10, 17, 12], // refused
        [1, 9, 9, 6, 1, 11, 10, 17, 12], // not ready
        [1, 14, 14, 11, 1, 12, 6, 17, 16], // broken
        [1, 14, 13, 11, 1, 10, 6, 16, 15], // given up
        [1, 17, 17, 13, 1, 13, 10, 21, 18], // client stopped
        [1, 19, 18, 15, 1, 14, 11, 21, 19], // client crashed
        [1, 5, 4, 1, 1, 6, 5, 13, 8], // fast clock
        [1, 5, 4, 1, 1, 6, 5, 13, 8], // slow clock
    ],
    // leave in doubt
    [
        [7, 9, 8, 6, 1, 9, 17, 8, 12], // nothing
        [10, 12, 12, 10, 1, 13, 21, 11, 16], // request lost
        [10, 13, 12, 10, 1, 13, 22, 11, 16], // answer lost
        [1, 1, 1, 1, 1, 1, 1, 9, 1], // repeated
        [1, 1, 1, 1, 1, 1, 1, 9, 1], // repeated late
        [11, 14, 13, 11, 1, 12, 17, 9, 16], // request late
        [10, 13, 12, 10, 1, 13, 21, 11, 16], // answer late
        [10, 13, 12, 10, 1, 13, 20, 11, 16], // refused
        [10, 13, 12, 10, 1, 13, 21, 11, 16], // not ready
        [14, 17, 17, 15, 1, 16, 21, 9, 21], // broken
        [14, 17, 17, 14, 1, 15, 21, 8, 19], // given up
        [17, 20, 21, 17, 1, 17, 1, 13, 1], // client stopped
        [18, 21, 20, 18, 1, 18, 1, 14, 20], // client crashed
        [6, 9, 8, 6, 1, 9, 17, 7, 12], // fast clock
        [6, 9, 8, 6, 1, 9, 17, 7, 12], // slow clock
    ],
    // evict
    [
        [1, 1, 1, 8, 1, 1, 1, 1, 1], // nothing
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // request lost
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // answer lost
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // repeated
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // repeated late
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // request late
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // answer late
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // refused
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // not ready
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // broken
        [1, 1, 1, 1, 1, 1, 1, 1, 1], // given up
        [1, 1, 1, 10, 1, 1, 1, 1, 1], // client stopped
        [1, 11, 11, 8, 1, 1, 1, 1, 1], // client crashed
        [1, 13, 12, 7, 1, 1, 1, 1, 1], // fast clock
        [1, 13, 12, 7, 1, 1, 1, 1, 1], // slow clock
    ],
];
