//! Which names are allowed, and that no two names share a lock.

use std::collections::BTreeSet;

use lock_core::{DistributedLock, Error, InputError, LockName, NameError};

use crate::{
    Client, TestEnv,
    audit::soon,
    cases::steps::{freed, is_busy, mutex, permits, queue, queue_of, reader, refused, take_free, writer},
};

/// Every kind of lock refuses it.
pub(in crate::cases) async fn an_empty_name_is_refused(env: TestEnv) {
    let locks = env.client().await.locks;
    let errors = [refused(locks.mutex("")), refused(locks.rwlock("")), refused(locks.semaphore("", 1))];
    for error in errors {
        assert!(matches!(error, Error::Input(InputError::Name(NameError::Empty))), "{error:?}");
        assert!(!error.is_transient() && error.to_string().contains("empty"), "{error}");
    }
    assert_eq!(locks.operator().list("").await.unwrap(), []);
}

/// Names with characters that are special in keys, paths, patterns, shells and terminals.
const SEPARATORS: &[&str] = &[
    "/",
    "//",
    ":",
    "::",
    "{",
    "}",
    "{}",
    "}{",
    "{}{a}",
    "{a}",
    "a{b}c",
    "a}b{c",
    "*",
    "a*",
    "?",
    "a?",
    "[a]",
    "[^a]",
    "\\",
    "\\*",
    "\0",
    "a\0",
    "\0a",
    ".",
    "..",
    "~",
    "./a",
    "../a",
    "-",
    "_",
    " ",
    "\t",
    "\n",
    "\r\n",
    "'",
    "\"",
    "`",
    "$",
    "%",
    "%2F",
    "#",
    "!",
    "@",
    "(",
    "|",
    ";",
    ",",
    "<",
    "=",
    "+",
    "&",
    "\u{7f}",
    "\u{80}",
    "\u{1b}[31m",
    "h-",
    "lock",
    "queue",
    "null",
    "-1",
    "0",
];

pub(in crate::cases) async fn separators_and_wildcards_mean_nothing_in_a_name(env: TestEnv) {
    all_work_and_none_meets_another(&env, SEPARATORS).await;
}

/// Names from each plane, at the limits of the valid code points, with combining and invisible characters, and in both writing directions.
pub(in crate::cases) async fn names_of_every_unicode_plane_work(env: TestEnv) {
    let mut names: Vec<String> = Vec::new();
    for low in [0x0021, 0x4e2d, 0xd7ff, 0xe000, 0xfffd, 0xfffe, 0xffff] {
        names.extend(char::from_u32(low).map(String::from));
    }
    for plane in 1..=16_u32 {
        for low in [0x0021, 0xffff] {
            names.extend(char::from_u32(plane << 16 | low).map(String::from));
        }
    }
    let others = [
        "\u{301}",
        "e\u{301}\u{327}",
        "\u{200b}",
        "\u{200d}",
        "\u{200e}",
        "\u{202e}abc",
        "\u{feff}",
        "\u{ff}",
        "\u{100}",
        "שלום",
        "سلام",
        "日本語",
        "👩‍👩‍👧‍👦",
        "🇩🇪",
        "Ωmega",
    ];
    names.extend(others.map(String::from));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    all_work_and_none_meets_another(&env, &names).await;
}

/// This includes the lengths at which a store begins to shorten names, and names that differ only in their last byte.
pub(in crate::cases) async fn a_name_of_four_kib_works_and_a_longer_one_is_refused(env: TestEnv) {
    let mut names = Vec::new();
    for len in [1, 2, 100, 199, 200, 201, 202, 255, 256, 257, 511, 512, 1024, 4094, 4095, LockName::MAX_LEN] {
        names.push("x".repeat(len));
        if len > 2 {
            names.push("x".repeat(len - 1) + "y");
            names.push("é".repeat(len / 2) + &"x".repeat(len % 2));
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    all_work_and_none_meets_another(&env, &names).await;

    let locks = env.client().await.locks;
    for len in [LockName::MAX_LEN + 1, 1 << 20] {
        let long = "x".repeat(len);
        for error in
            [refused(locks.mutex(&long)), refused(locks.rwlock(&long)), refused(locks.semaphore(&long, 1))]
        {
            let right = matches!(error, Error::Input(InputError::Name(NameError::TooLong { len: told })) if told == len);
            assert!(right && error.to_string().contains("4096"), "{error}");
        }
    }
}

pub(in crate::cases) async fn names_that_contain_each_other_never_meet(env: TestEnv) {
    let names = [
        "a",
        "a/",
        "a/b",
        "a/b/",
        "a//b",
        "/a",
        "b/a",
        "a:",
        "a:b",
        ":a",
        "a.b",
        "a.",
        "a-b",
        "a_b",
        "a b",
        "a ",
        " a",
        "{a}",
        "{a}:b",
        "{a}b",
        "a{b}",
        "a{b}c",
        "a{b",
        "a}b",
        "a,b",
        "a\0b",
        "a\0",
        "aa",
        "ab",
        "b",
        "a:1",
        "a:10",
        "a/1",
        "a:queue",
        "a:q",
        "a:token",
        "a:h",
        "q",
        "queue:a",
        "a\u{ff}",
        "\u{ff}a",
        "\u{ff}1q{a}",
        "1q{a}",
        "a/0000000000",
    ];
    all_work_and_none_meets_another(&env, &names).await;
}

/// Two names are the same only if their bytes are.
pub(in crate::cases) async fn names_are_never_folded_or_normalised(env: TestEnv) {
    let names = [
        "a",
        "A",
        "é",
        "e\u{301}",
        "É",
        "k",
        "K",
        "\u{212a}",
        "ß",
        "ss",
        "SS",
        "\u{1e9e}",
        "fi",
        "\u{fb01}",
        "i",
        "I",
        "İ",
        "ı",
        "i\u{307}",
        "å",
        "\u{212b}",
        "Å",
        "1",
        "１",
        "²",
        "2",
        "x",
        "x ",
        " x",
        "x\n",
        "\u{3a3}",
        "\u{3c3}",
        "\u{3c2}",
        "가",
        "\u{1100}\u{1161}",
        "\u{1f600}",
        "\u{1f600}\u{fe0f}",
    ];
    all_work_and_none_meets_another(&env, &names).await;
}

/// Takes all names at the same time, with a waiter behind each, so that the store has all data that it keeps for a name. Lists exactly these
/// names, and releases each without touching another.
async fn all_work_and_none_meets_another(env: &TestEnv, names: &[&str]) {
    let (client, other) = (env.client().await, env.client().await);
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(unique.len(), names.len(), "the case names something twice");
    let mut holding = Vec::new();
    for name in names {
        holding.push(take(&client, name).await);
    }
    let mut waiting = Vec::new();
    for name in names {
        let lock = mutex(&other, name);
        assert!(is_busy(&lock).await, "{name:?} was given out twice");
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
    }
    for name in names {
        queue_of(2, &mutex(&client, name)).await;
    }
    lists_exactly(&client, &unique).await;

    for (i, (held, waiter)) in holding.into_iter().zip(waiting).enumerate() {
        assert!(held.is_held(), "{:?} was lost to another name", names[i]);
        held.release().await.unwrap();
        let granted = soon("the hand-off", waiter).await.unwrap().unwrap();
        assert_eq!(queue(&mutex(&client, names[i])).await.len(), 1);
        if let Some(next) = names.get(i + 1) {
            assert_eq!(
                queue(&mutex(&client, next)).await.len(),
                2,
                "{next:?} lost an entry to {:?}",
                names[i]
            );
        }
        granted.release().await.unwrap();
    }
    for name in names {
        freed(&mutex(&client, name)).await;
    }
    lists_exactly(&client, &BTreeSet::new()).await;
    every_kind_takes(&client, names).await;
}

async fn take(client: &Client, name: &str) -> lock_core::Guard {
    let guard = mutex(client, name).try_acquire().await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    guard.unwrap_or_else(|| panic!("{name:?} meets another name"))
}

/// The list has all names, and with each name as a prefix exactly the names that start with it.
async fn lists_exactly(client: &Client, names: &BTreeSet<&str>) {
    let operator = client.locks.operator();
    for prefix in std::iter::once("").chain(names.iter().copied()) {
        let listed = operator.list(prefix).await.unwrap();
        let expected: Vec<&str> = names.iter().copied().filter(|name| name.starts_with(prefix)).collect();
        let listed: Vec<&str> = listed.iter().map(LockName::as_str).collect();
        assert_eq!(listed, expected, "under {prefix:?}");
    }
}

/// Data that a store keeps for a queue with many holders does not collide either.
async fn every_kind_takes(client: &Client, names: &[&str]) {
    let mut guards = Vec::new();
    for (i, name) in names.iter().enumerate() {
        match i % 3 {
            0 => guards.push(take_free(&writer(client, name)).await),
            1 => guards
                .extend([take_free(&reader(client, name)).await, take_free(&reader(client, name)).await]),
            _ => guards.push(take_free(&permits(client, name, 2, 2)).await),
        }
    }
    assert!(guards.iter().all(lock_core::Guard::is_held));
    for guard in guards {
        guard.release().await.unwrap();
    }
    lists_exactly(client, &BTreeSet::new()).await;
}
