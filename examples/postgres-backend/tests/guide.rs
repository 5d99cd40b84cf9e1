//! The code in `docs/writing-a-backend.md` is taken from this crate.

use std::{fs, path::Path};

/// The words of each block of Rust and SQL in the guide.
fn shown() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/writing-a-backend.md");
    let guide = fs::read_to_string(guide).expect("the guide is in the repository");
    let parts: Vec<&str> = guide.split("```").collect();
    let code = |block: &&&str| block.starts_with("rust\n") || block.starts_with("sql\n");
    parts
        .iter()
        .skip(1)
        .step_by(2)
        .filter(code)
        .map(|block| words(block.split_once('\n').unwrap().1))
        .collect()
}

/// The text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn all_code_in_the_guide_stands_in_the_crate() {
    let crate_files = [
        include_str!("../src/schema.sql"),
        include_str!("../src/backend/mod.rs"),
        include_str!("../src/session.rs"),
        include_str!("conformance.rs"),
        include_str!("declared/mod.rs"),
        include_str!("framing/mod.rs"),
    ]
    .map(words);
    let shown = shown();
    assert!(shown.len() >= 8, "the guide shows no code: {shown:?}");
    for block in shown {
        assert!(
            crate_files.iter().any(|file| file.contains(&block)),
            "the guide shows code that is not in the crate: {block}"
        );
    }
}
