//! `scripts/semver`: is never silently green.

use std::fs;

use crate::checkout::{Checkout, green, red};

#[test]
fn a_checkout_that_git_may_not_read_is_not_one_without_a_release() {
    let checkout = before_1_2_3("semver", "## Unreleased\n");
    checkout.pretends("bin/cargo-semver-checks", "");
    checkout.pretends("bin/git", "exit 128");
    let said = green(&checkout.run("semver", &[], &[]));
    assert!(said.contains("nothing was released before 1.2.3"), "{said}");
    fs::create_dir(checkout.0.join(".git")).unwrap();
    let said = red(&checkout.run("semver", &[], &[]));
    assert!(said.contains("git cannot read this checkout"), "{said}");
}

#[test]
fn a_release_without_its_tag_is_red_in_a_workflow_and_none_yet_is_told() {
    const WITHOUT_A_TAG: &str = "case \"$*\" in describe*) exit 128 ;; *shallow*) echo $SHALLOW ;; esac";
    let workflow = ("GITHUB_ACTIONS", "true");
    // The version that is about to be released has an entry before it has a tag.
    let checkout = before_1_2_3("no-release", "## Unreleased\n\n## 1.2.3 - 2026-12-01\n");
    checkout.pretends("bin/git", WITHOUT_A_TAG);
    let said = green(&checkout.run("semver", &[], &[workflow, ("SHALLOW", "false")]));
    assert!(said.contains("there is nothing to compare with"), "{said}");
    let said = red(&checkout.run("semver", &[], &[workflow, ("SHALLOW", "true")]));
    assert!(said.contains("no tag of a release"), "{said}");

    let checkout = before_1_2_3("no-tag", "## Unreleased\n\n## 1.2.2 - 2026-12-01\n");
    checkout.pretends("bin/git", WITHOUT_A_TAG);
    let said = green(&checkout.run("semver", &[], &[]));
    assert!(said.contains("not checked: semver: this checkout has no tag of a release"), "{said}");
    red(&checkout.run("semver", &[], &[workflow]));
}

#[test]
fn a_release_is_compared_with_where_the_tool_is_and_a_workflow_has_it() {
    let checkout = before_1_2_3("release-before", "## 1.2.2 - 2026-12-01\n");
    checkout.pretends("bin/git", "case \"$*\" in describe*) echo v1.2.2 ;; esac");
    let said = green(&checkout.run("semver", &[], &[]));
    assert!(said.contains("not checked: semver: scripts/tools semver"), "{said}");
    red(&checkout.run("semver", &[], &[("GITHUB_ACTIONS", "true")]));
    checkout.pretends("bin/cargo-semver-checks", "");
    green(&checkout.run("semver", &[], &[("GITHUB_ACTIONS", "true")]));
    let calls = checkout.calls();
    assert!(calls.contains("semver-checks --all-features --baseline-rev v1.2.2 --package"), "{calls}");

    checkout.pretends("bin/git", "case \"$*\" in describe*) echo v1.2.2 ;; cat-file*) exit 1 ;; esac");
    let said = red(&checkout.run("semver", &[], &[]));
    assert!(said.contains("v1.2.2 has none of the crates"), "{said}");
}

/// A checkout of version 1.2.3 with this list of changes.
fn before_1_2_3(name: &str, changes: &str) -> Checkout {
    let checkout = Checkout::new(name, &["semver"]);
    fs::write(checkout.0.join("Cargo.toml"), "[workspace.package]\nversion = \"1.2.3\"\n").unwrap();
    fs::write(checkout.0.join("CHANGELOG.md"), changes).unwrap();
    checkout
}
