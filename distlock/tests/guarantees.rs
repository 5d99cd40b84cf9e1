//! The document and the code promise the same.

use distlock::{Backend, Memory};

const DOCUMENT: &str = include_str!("../../docs/guarantees.md");

#[test]
fn the_table_has_the_row_of_every_store_and_no_other() {
    let written: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| **")).collect();
    let promised = [Memory::new().guarantees().to_string()];
    for row in &promised {
        assert!(written.contains(&row.as_str()), "docs/guarantees.md lacks the row\n{row}");
    }
    for row in written {
        assert!(
            promised.iter().any(|promised| promised == row),
            "docs/guarantees.md has a row of no store\n{row}"
        );
    }
}
