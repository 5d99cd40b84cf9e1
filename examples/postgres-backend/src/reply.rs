//! Converts the values of an answer to types of `lock-core`.

use std::{fmt, time::Duration};

use lock_core::{BackendError, FencingToken, shown_label};
use tokio_postgres::{Row, row::RowIndex, types::FromSql};

use crate::error::unexpected;

/// A value of an answer.
///
/// # Errors
/// If the value is missing, or has another type.
pub(crate) fn field<'a, T: FromSql<'a>>(
    row: &'a Row,
    column: impl RowIndex + fmt::Display,
) -> Result<T, BackendError> {
    row.try_get(&column).map_err(|error| unexpected(&format!("the value of `{column}`")).with_source(error))
}

pub(crate) fn token(row: &Row) -> Result<FencingToken, BackendError> {
    field::<i64>(row, "token").map(|token| FencingToken::new(token.cast_unsigned()))
}

/// A label as text that can be shown, whatever its bytes are.
pub(crate) fn label_text(label: Option<&[u8]>) -> Option<String> {
    label.map(shown_label)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0).unsigned_abs())
}
