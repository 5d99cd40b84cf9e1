//! `scripts/mutants`: which mutants run, and what the score is. The mutants are those of a `cargo` that only pretends to make them.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Output},
};

use crate::checkout::{Checkout, green, red, root};

/// Line n + 1 of the file `outcomes` is the outcome of the mutant with the number n, in any crate. `slow` times out once.
const CARGO: &str = r#"
root=$(dirname "$CALLS")
if [ "$1" != mutants ]; then [ ! -e "$root/red" ]; exit; fi
while [ $# -gt 0 ]; do
    case $1 in
        --list) list=yes ;;
        --package) crate=$2 ;;
        --shard) number=${2%/*} ;;
        --output) out=$2/mutants.out ;;
    esac
    shift
done
if [ -n "$list" ]; then
    awk -v crate="$crate" '{ print crate "/src/lib.rs:" NR ":1: replace + with *" }' "$root/outcomes"
    exit
fi
outcome=$(sed -n "$((number + 1))p" "$root/outcomes")
if [ "$outcome" = slow ]; then
    outcome=timeout
    [ ! -e "$root/slow-$number" ] || outcome=caught
    : >"$root/slow-$number"
fi
mkdir -p "$out/log"
: >"$out/log/mutant.log"
echo "$crate/src/lib.rs:$((number + 1)):1: replace + with *" >"$out/$outcome.txt"
case $outcome in missed) exit 2 ;; timeout) exit 3 ;; esac"#;

const GIT: &str = r"printf '%s\0' .cargo/mutants.toml lock-*/Cargo.toml lock-*/src/lib.rs";

#[test]
fn a_larger_sample_goes_on_where_the_smaller_one_ended() {
    let checkout = mutated("sample", &["caught"; 40]);
    green(&run(&checkout, &["lock-core"], "3"));
    let first = numbers(&checkout, "lock-core");
    green(&run(&checkout, &["lock-core"], "5"));
    let all = numbers(&checkout, "lock-core");
    assert_eq!((all.len(), &all[..3]), (5, first.as_slice()));
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 5, "none runs twice: {all:?}");

    let at_once = mutated("sample-at-once", &["caught"; 40]);
    green(&run(&at_once, &["lock-core"], "5"));
    assert_eq!(numbers(&at_once, "lock-core"), all);
    let of_another_seed = mutated("sample-of-another-seed", &["caught"; 40]);
    let variables = [("SAMPLE", "5"), ("SEED", "2"), ("MINUTES", "10")];
    green(&of_another_seed.run("mutants", &["lock-core"], &variables));
    assert_ne!(numbers(&of_another_seed, "lock-core"), all);
}

#[test]
fn a_sample_larger_than_all_mutants_is_all_of_them() {
    let checkout = mutated("whole", &["caught"; 7]);
    green(&run(&checkout, &["lock-core"], "20"));
    let ran: BTreeSet<usize> = numbers(&checkout, "lock-core").into_iter().collect();
    assert_eq!(ran, (0..7).collect::<BTreeSet<usize>>());
}

#[test]
fn fewer_than_nine_of_ten_killed_are_red_and_survivors_are_named() {
    let mut outcomes = vec!["caught"; 9];
    outcomes.extend(["missed", "unviable", "unviable", "unviable"]);
    let said = green(&run(&mutated("enough", &outcomes), &["lock-core"], "20"));
    assert!(said.contains("lock-core: 9 of 10 killed (90.0 %), 0 of them timed out twice; 3 more"), "{said}");
    assert!(said.contains("survived: lock-core/src/lib.rs:10:1: replace + with *"), "{said}");

    outcomes[0] = "unviable";
    let checkout = mutated("too-few", &outcomes);
    for arguments in [vec!["lock-core"], vec!["report", "lock-core"]] {
        let said = red(&run(&checkout, &arguments, "20"));
        assert!(said.contains("lock-core: 8 of 9 killed (88.8 %)"), "{said}");
        assert!(said.contains("lock-core: fewer than 90 % were killed"), "{said}");
    }
}

#[test]
fn mutants_that_do_not_compile_are_no_failure() {
    let said = green(&run(&mutated("unviable", &["unviable"; 3]), &["lock-core"], "20"));
    assert!(said.contains("lock-core: 0 of 0 killed (100.0 %), 0 of them timed out twice; 3 more"), "{said}");
}

#[test]
fn what_the_time_limit_kills_runs_once_more_with_twice_the_limit() {
    let checkout = mutated("limits", &["slow", "timeout"]);
    let said = green(&run(&checkout, &["lock-core"], "20"));
    assert!(said.contains("lock-core: 2 of 2 killed (100.0 %), 1 of them timed out twice"), "{said}");
    assert!(said.contains("timed out twice: lock-core/src/lib.rs:2:1"), "{said}");
    let calls = checkout.calls();
    for number in ["0", "1"] {
        let limits = following_in_each(&calls, number, "--timeout");
        let limits: Vec<u64> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        assert_eq!(limits.len(), 2, "{calls}");
        assert_eq!(limits[1], 2 * limits[0], "{calls}");
    }
}

#[test]
fn what_survives_the_first_step_is_tested_in_the_second() {
    let checkout = mutated("steps", &["missed", "caught"]);
    red(&run(&checkout, &["lock-core"], "20"));
    let calls = checkout.calls();
    let both = ["lock-core", "lock-core,lock-conformance"];
    assert_eq!(following_in_each(&calls, "0", "--test-package"), both);
    assert_eq!(following_in_each(&calls, "1", "--test-package"), ["lock-core"]);
    assert!(calls.contains(" --cargo-arg=--lib ") && calls.contains(" -- -- --skip "), "{calls}");
}

#[test]
fn survivors_run_once_more_for_new_tests() {
    let checkout = mutated("again", &["missed", "missed", "caught"]);
    red(&run(&checkout, &["lock-core"], "20"));
    let before = numbers(&checkout, "lock-core").len();
    fs::write(checkout.0.join("outcomes"), "caught\nmissed\ncaught\n").unwrap();
    red(&run(&checkout, &["lock-core"], "20"));
    assert_eq!(numbers(&checkout, "lock-core").len(), before, "all have run");
    let said = red(&run(&checkout, &["again", "lock-core"], "20"));
    assert!(said.contains("lock-core: 2 of 3 killed"), "{said}");
    // One step of the mutant that is caught now, and both of the other.
    assert_eq!(numbers(&checkout, "lock-core").len(), before + 3);
}

#[test]
fn a_changed_crate_begins_anew_and_the_others_keep_their_results() {
    let checkout = mutated("change", &["caught"; 9]);
    green(&run(&checkout, &["lock-core", "lock-zk"], "4"));
    fs::write(checkout.0.join("lock-zk/src/lib.rs"), "pub fn other() {}\n").unwrap();
    assert!(red(&run(&checkout, &["report", "lock-zk"], "4")).contains("lock-zk: nothing was run"));
    green(&run(&checkout, &["lock-core", "lock-zk"], "4"));
    assert_eq!(numbers(&checkout, "lock-core").len(), 4);
    assert_eq!(numbers(&checkout, "lock-zk").len(), 8);
}

#[test]
fn tests_that_fail_without_a_change_are_red_and_nothing_is_mutated() {
    let checkout = mutated("unsound", &["caught"; 9]);
    fs::write(checkout.0.join("red"), "").unwrap();
    let said = red(&run(&checkout, &["lock-core"], "4"));
    assert!(said.contains("unchanged, lock-core does not compile"), "{said}");
    assert!(said.contains("lock-core: nothing was run"), "{said}");
    assert!(numbers(&checkout, "lock-core").is_empty());
}

/// Otherwise only the night would notice that a test program has another name now.
#[test]
fn every_test_program_that_runs_on_mutants_is_there() {
    let list = |arguments: &[&str]| {
        let script = root().join("scripts/mutant-tests");
        green(&Command::new(script).args(arguments).output().unwrap())
    };
    let crates = list(&[]);
    assert_eq!(crates.lines().count(), 5, "{crates}");
    for name in crates.lines() {
        for step in ["first", "second"] {
            let line = list(&[name, step]);
            let (selected, told) = line.split_once(" -- ").expect("the test programs are told something");
            let words: Vec<_> = selected.split(' ').collect();
            assert!(words[..2].iter().all(|number| number.parse::<u32>().is_ok()), "{line}");
            assert!(words[2].split(',').any(|package| package == name), "{line}");
            assert!(told.starts_with("--skip ") && told.lines().count() == 1, "{line}");
            for pair in words.windows(2).filter(|pair| pair[0] == "--test") {
                let is_there = words[2].split(',').any(|package| has_program(package, pair[1]));
                assert!(is_there, "{line}: {}", pair[1]);
            }
        }
    }
}

#[test]
fn every_night_draws_other_mutants() {
    let checkout = Checkout::new("mutants-at-night", &["nightly"]);
    checkout.pretends("scripts/mutants", "echo \"seed $SEED\" >>\"$CALLS\"");
    green(&checkout.run("nightly", &["mutants"], &[]));
    let calls = checkout.calls();
    let (_, seed) = calls.trim_end().rsplit_once("seed ").expect("it has a seed");
    assert!(seed.len() == 8 && seed.parse::<u32>().is_ok(), "the day: {calls}");
    green(&checkout.run("nightly", &["mutants"], &[("SEED", "7")]));
    assert!(checkout.calls().ends_with("seed 7\n"), "a night can be repeated: {}", checkout.calls());
}

/// A checkout of two crates whose mutants have these outcomes.
fn mutated(name: &str, outcomes: &[&str]) -> Checkout {
    let checkout = Checkout::new(&format!("mutants-{name}"), &["mutants", "mutant-tests"]);
    checkout.pretends("scripts/tools", "");
    checkout.pretends("bin/cargo", CARGO);
    checkout.pretends("bin/git", GIT);
    fs::create_dir(checkout.0.join(".cargo")).unwrap();
    fs::write(checkout.0.join(".cargo/mutants.toml"), "").unwrap();
    for package in ["lock-core", "lock-zk"] {
        fs::create_dir(checkout.0.join(package).join("src")).unwrap();
        fs::write(checkout.0.join(package).join("src/lib.rs"), "").unwrap();
    }
    fs::write(checkout.0.join("outcomes"), outcomes.join("\n") + "\n").unwrap();
    checkout
}

fn run(checkout: &Checkout, arguments: &[&str], sample: &str) -> Output {
    checkout.run("mutants", arguments, &[("SAMPLE", sample), ("SEED", "1"), ("MINUTES", "10")])
}

/// The numbers of the mutants of a crate that ran, in their order, once for each step.
fn numbers(checkout: &Checkout, package: &str) -> Vec<usize> {
    let package = format!(" --package {package} ");
    let calls = checkout.calls();
    let runs = calls.lines().filter(|call| call.contains(&package) && call.contains(" --shard "));
    runs.map(|call| {
        let (number, _) = following(call, "--shard").split_once('/').expect("a shard is one of several");
        number.parse().expect("a shard has a number")
    })
    .collect()
}

/// The word after an option in each call that runs one of two mutants.
fn following_in_each<'a>(calls: &'a str, number: &str, option: &str) -> Vec<&'a str> {
    let shard = format!(" --shard {number}/2 ");
    calls.lines().filter(|call| call.contains(&shard)).map(|call| following(call, option)).collect()
}

/// The word after an option.
fn following<'a>(call: &'a str, option: &str) -> &'a str {
    let mut words = call.split(' ').skip_while(|word| *word != option);
    words.nth(1).unwrap_or_else(|| panic!("no {option} in {call}"))
}

fn has_program(package: &str, name: &str) -> bool {
    let tests = root().join(package).join("tests");
    tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists()
}
