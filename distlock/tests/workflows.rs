//! The workflows: `scripts/lint-workflows --own` finds what is wrong with one, and nothing in ours; a red night keeps a release back.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// What the script reads.
const READ: &[&str] = &[".github", ".ci", "scripts", "compose.yml", "rust-toolchain.toml"];

const CI: &str = ".github/workflows/ci.yml";
const CONFORMANCE: &str = ".github/workflows/conformance.yml";

/// A file, the text in it that is changed at its first place, into what, and what the script has to say of that.
const FAULTS: &[[&str; 4]] = &[
    [CI, "    steps:\n", "    steps:\n      - uses: actions/checkout@v4\n", "pin it by its whole commit"],
    [CI, "    timeout-minutes: 40\n", "", "the job gate has no timeout-minutes"],
    [CI, "permissions:\n  contents: read\n", "", "no permissions are stated"],
    [CI, "-${{ github.run_id }}", "", "is never renewed"],
    [CI, "/usr/local/cargo/registry", "~/.cargo/registry", "the ~ of a container"],
    [CI, "run: .ci/run", "run: cargo test", "no script does that"],
    [CI, "run: scripts/platform", "run: scripts/nowhere", "scripts/nowhere, which is not there"],
    [CONFORMANCE, "/actions/conformance", "/actions/nowhere", "/actions/nowhere, which is not there"],
    [CONFORMANCE, "  pull_request:\n", "  pull_request:\n    paths: [\"lock-core/**\"]\n", "only some paths"],
    [CONFORMANCE, "image: ${{ matrix.image }}", "image: redis:6.2", "scripts/servers has the versions"],
    ["compose.yml", "image: redis:", "image: redis:1", "scripts/servers does not have redis:1"],
    ["rust-toolchain.toml", "channel = \"1.", "channel = \"9.", "rust-toolchain.toml has 9."],
];

#[test]
fn our_workflows_keep_every_rule() {
    let copy = copy();
    let output = lint(copy.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_fault_of_a_workflow_is_found_and_named() {
    let copy = copy();
    for [file, right, wrong, says] in FAULTS {
        let path = copy.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(right), "{file} has no `{right}` that could be made wrong");
        fs::write(&path, text.replacen(right, wrong, 1)).unwrap();
        let output = lint(copy.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "`{right}` in {file} became `{wrong}`, and nothing was said");
        assert!(said.contains(says), "`{right}` in {file} became `{wrong}`, and this was said:\n{said}");
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn a_part_of_the_night_that_is_red_keeps_a_release_from_being_made() {
    let nightly = fs::read_to_string(root().join(".github/workflows/nightly.yml")).unwrap();
    let (parts, release) = nightly.split_once("\n  release:\n").expect("there is a job for releases");
    assert!(parts.contains("\n  part:\n") && release.contains("\n    needs: [part]\n"), "{nightly}");
    assert!(release.contains("scripts/release\n") && !release.contains("always()"), "{nightly}");
    // Each part is one of the script, and none is left out.
    let script = fs::read_to_string(root().join("scripts/nightly")).unwrap();
    let between = |text: &str, begin: &str, end: &str| {
        let (_, text) = text.split_once(begin).unwrap();
        text.split_once(end).unwrap().0.replace(',', "")
    };
    assert_eq!(between(parts, "part: [", "]"), between(&script, "PARTS=(", ")"));
}

fn lint(folder: &Path) -> Output {
    let mut script = Command::new("bash");
    script.arg(folder.join("scripts/lint-workflows")).arg("--own");
    script.output().expect("there is a bash")
}

/// All that the script reads, in a folder of its own. Where files are kept in memory, nothing may be executed now and then.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in READ {
        copy_all(&root().join(name), &folder.path().join(name));
    }
    folder
}

/// With the permissions: the script asks what can be executed.
fn copy_all(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
