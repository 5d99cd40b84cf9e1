//! [`TimeLimit`]: interrupts SQLite when the time for an operation is over: another program may have written more than locks into the file.

use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use rusqlite::Connection;

use crate::{clock::nanos, error::Failure};

/// SQLite executes this many steps between two looks at the clock: some ten microseconds.
const STEPS: c_int = 1000;

/// The time at which statements of a connection are interrupted.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    start: Instant,
    /// In nanoseconds from the start.
    end: Arc<AtomicI64>,
}

impl TimeLimit {
    /// Installs a limit that does not interrupt anything yet.
    ///
    /// # Errors
    /// If the connection is not owned by rusqlite.
    pub(crate) fn on(connection: &Connection) -> Result<Self, Failure> {
        let (start, end) = (Instant::now(), Arc::new(AtomicI64::new(i64::MAX)));
        let watched = Arc::clone(&end);
        let is_over = move || nanos(start.elapsed()) > watched.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(Self { start, end })
    }

    pub(crate) fn set(&self, end: Instant) {
        let after = end.saturating_duration_since(self.start);
        self.end.store(nanos(after), Ordering::Relaxed);
    }

    /// Removes the limit. Called before a commit: SQLite could report an interruption although it has committed.
    pub(crate) fn lift(&self) {
        self.end.store(i64::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::ErrorCode;

    use super::*;

    #[test]
    fn what_never_ends_is_interrupted_and_what_comes_after_it_is_not() {
        const COUNT: &str = "WITH RECURSIVE numbers(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM numbers) SELECT max(x) FROM numbers";
        let connection = Connection::open_in_memory().unwrap();
        let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
        let limit = TimeLimit::on(&connection).unwrap();
        limit.set(Instant::now() + Duration::from_millis(20));
        let error = count(COUNT).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted), "{error}");
        limit.lift();
        assert_eq!(count("SELECT max(x) FROM (SELECT 7 AS x)").unwrap(), 7);
        assert_eq!(count(&COUNT.replace("FROM numbers)", "FROM numbers LIMIT 100000)")).unwrap(), 100_000);
    }
}
