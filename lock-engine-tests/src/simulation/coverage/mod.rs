//! [`Coverage`]: how often each verb met each fault in each state of its entry.

mod cell;

use std::fmt;

pub use self::cell::{Cell, Fault, State, Verb};

/// A counter for each [`Cell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    counts: Vec<u64>,
}

impl Coverage {
    /// One more request in this cell.
    pub(super) fn count(&mut self, cell: Cell) {
        self.counts[cell.at()] += 1;
    }

    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// How many requests there were in this cell.
    #[must_use]
    pub fn of(&self, cell: Cell) -> u64 {
        self.counts[cell.at()]
    }

    /// Whether a verb has met a fault, in any state.
    #[must_use]
    pub fn has_pair(&self, verb: Verb, fault: Fault) -> bool {
        self.of_pair(verb, fault).0 > 0
    }

    /// The pairs of a verb and a fault that can meet and have not.
    #[must_use]
    pub fn missing_pairs(&self) -> Vec<(Verb, Fault)> {
        Cell::pairs().filter(|(verb, fault)| !self.has_pair(*verb, *fault)).collect()
    }

    /// How often a verb met a fault, and in how many states.
    fn of_pair(&self, verb: Verb, fault: Fault) -> (u64, usize) {
        let counts = State::ALL.map(|state| self.of(Cell { verb, fault, state }));
        (counts.iter().sum(), counts.iter().filter(|count| **count > 0).count())
    }

    /// The states in which a verb has not met a fault.
    fn empty_states(&self, verb: Verb, fault: Fault) -> Vec<&'static str> {
        let states = State::ALL.into_iter().filter(|state| self.of(Cell { verb, fault, state: *state }) == 0);
        states.map(State::name).collect()
    }

    /// All counts, in the order of [`from_counts`](Self::from_counts).
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The coverage with these counts; `None` if their number is not that of the cells.
    #[must_use]
    pub fn from_counts(counts: Vec<u64>) -> Option<Self> {
        (counts.len() == Cell::COUNT).then_some(Self { counts })
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: vec![0; Cell::COUNT] }
    }
}

/// A table in Markdown: how often each verb met each fault, and in how many states. Below it the cells that are empty.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| |")?;
        Verb::ALL.iter().try_for_each(|verb| write!(f, " {} |", verb.name()))?;
        write!(f, "\n|---|{}", "--:|".repeat(Verb::ALL.len()))?;
        for fault in Fault::ALL {
            write!(f, "\n| {} |", fault.name())?;
            for verb in Verb::ALL {
                let (count, states) = self.of_pair(verb, fault);
                if verb.never_meets(fault).is_some() {
                    write!(f, " – |")?;
                } else {
                    write!(f, " {count} ({states}) |")?;
                }
            }
        }
        writeln!(f, "\n\nIn parentheses: in how many of {} states.", State::ALL.len())?;
        for verb in Verb::ALL {
            if let Some(why) = Fault::ALL.iter().find_map(|fault| verb.never_meets(*fault)) {
                writeln!(f, "–: {why}.")?;
            }
        }
        writeln!(f, "Empty cells:\n")?;
        for (verb, fault) in Cell::pairs() {
            let empty = self.empty_states(verb, fault);
            if !empty.is_empty() {
                writeln!(f, "* {}, {}: {}", verb.name(), fault.name(), empty.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_a_counter_of_its_own() {
        let mut coverage = Coverage::default();
        for cell in Cell::all() {
            assert_eq!(coverage.of(cell), 0, "{cell:?}");
            coverage.count(cell);
        }
        assert!(Cell::all().all(|cell| coverage.of(cell) == 1));
        assert!(coverage.missing_pairs().is_empty());
    }

    #[test]
    fn a_table_has_the_counts_and_names_the_empty_cells() {
        let mut coverage = Coverage::default();
        for state in [State::Held, State::Held, State::Expired] {
            coverage.count(Cell { verb: Verb::Renew, fault: Fault::Broken, state });
        }
        let table = coverage.to_string();
        let row = "| broken | 0 (0) | 0 (0) | 0 (0) | 3 (2) | 0 (0) | 0 (0) | – |\n";
        assert!(table.contains(row), "{table}");
        let empty =
            "* renew, broken: absent, waiting first, waiting behind, other life, left, tombstone, evicted\n";
        assert!(table.contains(empty), "{table}");
        assert_eq!(coverage.missing_pairs().len(), Cell::pairs().count() - 1);
    }
}
