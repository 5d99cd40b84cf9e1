//! [`all`]: the measurements that there are.

use super::{
    commands, handoff, held, kinds, measurement::Measurement, pair, row_spec::RowSpec, run_command, takeover,
    throughput, two_workers, waiters,
};
use crate::store::StoreKind;

/// All measurements, in the order of the table.
pub(crate) fn all() -> Vec<Box<dyn Measurement>> {
    vec![
        Box::new(pair::Pair::RAW),
        Box::new(pair::Pair::BUILT_IN),
        Box::new(pair::Pair::CURATOR),
        Box::new(kinds::Kinds),
        Box::new(throughput::Throughput),
        Box::new(two_workers::TwoWorkers),
        Box::new(handoff::HandOff::IN_PROCESS),
        Box::new(handoff::HandOff::BETWEEN_PROCESSES),
        Box::new(handoff::HandOff::UNDER_LOAD),
        Box::new(commands::Commands),
        Box::new(run_command::RunCommand),
        Box::new(takeover::Takeover),
        Box::new(waiters::Waiters),
        Box::new(held::Held),
    ]
}

/// The rows of these measurements on a store.
pub(crate) fn specs(measurements: &[Box<dyn Measurement>], store: StoreKind) -> Vec<RowSpec> {
    measurements.iter().flat_map(|measurement| measurement.rows(store)).collect()
}
