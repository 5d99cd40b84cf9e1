//! Labels, durations and permits.

use std::time::Duration;

use lock_core::{
    AcquireOptions, Claim, Creates, Departure, DistributedLock, Error, Holder, InputError, MAX_TTL, MIN_TTL,
    Step,
};

use crate::{
    SLACK, TestEnv, Verb,
    audit::soon,
    cases::{
        lease::{admitted, row},
        steps::{
            LONG, faulty, freed, is_busy, long, mutex, permits, queue, queue_of, refused, take_free,
            take_in_time,
        },
    },
};

/// The label is shown in the queue, for holder and waiter, and in the error of a wait that ends.
pub(in crate::cases) async fn a_label_of_any_bytes_is_shown_as_it_was_given(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let labels = [
        "web-1",
        ":",
        "::a:b",
        "\0",
        "\0\r\n\t\u{1b}[31m\u{7f}",
        " ",
        "{\"a\": 1}",
        "'; --",
        "%s %n",
        "\\\\",
        "\u{ff}\u{fe}",
        "日本語 👩‍👩‍👧",
        "0123456789abcdef0123456789abcdef",
        "1 2 3 4",
        "-1",
        &"x".repeat(AcquireOptions::MAX_LABEL),
        &"é".repeat(AcquireOptions::MAX_LABEL / 2),
    ];
    for (i, label) in labels.into_iter().enumerate() {
        for kind in ["mutex", "semaphore"] {
            let name = env.name(&format!("{kind} {i}"));
            let lock = |client| -> Box<dyn DistributedLock> {
                if kind == "mutex" {
                    Box::new(mutex(client, &name))
                } else {
                    Box::new(permits(client, &name, 2, 3))
                }
            };
            let (theirs, ours) = (lock(&holder), lock(&waiter));
            let labelled = long().label(label);
            let held = soon("the grant", theirs.acquire_with(&labelled)).await.unwrap();
            let options = labelled.clone();
            let waiting = tokio::spawn(async move { ours.acquire_with(&options).await });
            let rows = queue_of(2, &*theirs).await;
            let shown: Vec<_> = rows.iter().map(|row| row.label.as_deref()).collect();
            assert_eq!(shown, [Some(label), Some(label)], "of {kind}");

            let shown = holder_as_told(&*lock(&waiter)).await;
            assert_eq!(shown.as_deref(), Some(label), "of {kind}");
            held.release().await.unwrap();
            soon("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
        }
    }
    let lock = mutex(&holder, &env.name("long"));
    let error = refused(lock.acquire_with(&long().label("x".repeat(257))).await);
    assert!(matches!(error, Error::Input(InputError::Label { len: 257 })), "{error:?}");
    assert_eq!(queue(&lock).await, []);
}

/// No option accepts such a label, but another program can write it to the store. It is shown shortened, at a character boundary.
pub(in crate::cases) async fn a_label_that_is_too_long_is_shown_cut(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let cut = format!("x{}…", "é".repeat(AcquireOptions::MAX_LABEL / 2 - 1));
    for (tag, claim) in [("mutex", Claim::mutex()), ("semaphore", Claim::semaphore(2, 3).unwrap())] {
        let name = env.name(tag);
        let held = holder.entry(&name, claim, LONG).with_label(Some(format!("x{}", "é".repeat(5_000))));
        admitted(&holder, &held, Step::Create).await;
        let shown = row(&waiter, &held.name, held.id).await.expect("it holds the lock").label;
        assert_eq!(shown.as_deref(), Some(&*cut), "of {tag}");

        let lock = if tag == "mutex" { mutex(&waiter, &name) } else { permits(&waiter, &name, 2, 3) };
        let shown = holder_as_told(&lock).await;
        assert_eq!(shown.as_deref(), Some(&*cut), "of {tag}");
        assert_eq!(holder.backend.leave(&held, Creates::Answered).await.unwrap(), Departure::Left);
        freed(&lock).await;
    }
}

/// The label of the holder in the error of a wait that ends.
async fn holder_as_told(lock: &dyn DistributedLock) -> Option<String> {
    // A wait that ends before the store has answered does not know the holder.
    let mut wait = Duration::from_millis(20);
    loop {
        match refused(lock.acquire_with(&long().wait(wait)).await) {
            Error::WaitTimeout { holder: Some(Holder::Ours { label }), .. } => return label,
            Error::WaitTimeout { ahead: None, .. } if wait < SLACK => wait *= 2,
            error => panic!("{error:?}"),
        }
    }
}

pub(in crate::cases) async fn durations_out_of_range_are_refused_and_the_limits_work(env: TestEnv) {
    let (client, faulty) = faulty(&env).await;
    let lock = mutex(&client, &env.name("durations"));
    let (nothing, least, day) = (Duration::ZERO, Duration::from_nanos(1), MAX_TTL);
    let bad = [
        ("ttl", AcquireOptions::new().ttl(nothing)),
        ("ttl", AcquireOptions::new().ttl(least)),
        ("ttl", AcquireOptions::new().ttl(MIN_TTL.saturating_sub(least))),
        ("ttl", AcquireOptions::new().ttl(day + least)),
        ("ttl", AcquireOptions::new().ttl(Duration::MAX)),
        ("waiting_ttl", long().waiting_ttl(MIN_TTL.saturating_sub(least))),
        ("max_hold", long().max_hold(nothing)),
        ("max_hold", long().max_hold(least)),
        ("back_off.least", long().back_off(nothing, day)),
        ("back_off.most", long().back_off(MIN_TTL, least)),
        ("back_off.most", long().back_off(MIN_TTL, Duration::MAX)),
        ("look_again.least", long().look_again(nothing, day)),
        ("look_again.most", long().look_again(MIN_TTL, Duration::MAX)),
    ];
    for (wrong, options) in bad {
        for error in
            [refused(lock.acquire_with(&options).await), refused(lock.try_acquire_with(&options).await)]
        {
            let named =
                matches!(&error, Error::Input(InputError::Duration { option, .. }) if *option == wrong);
            assert!(named, "{error:?} for {options:?}");
            assert!(error.to_string().contains(wrong) && !error.is_transient(), "{error}");
        }
    }
    assert_eq!(faulty.calls(Verb::Enter), 0, "the store was asked before the options were checked");

    let hour = Duration::from_secs(3600);
    let good = [
        AcquireOptions::new().ttl(MIN_TTL).wait(Duration::MAX),
        AcquireOptions::new().ttl(day).max_hold(Duration::MAX),
        long().wait(least).max_hold(MIN_TTL),
        long().back_off(hour, hour).look_again(hour, hour).wait(Duration::MAX),
    ];
    for options in good {
        let granted = match take_in_time(&lock, &options).await {
            // A wait of a nanosecond may end before the store has answered.
            Err(Error::WaitTimeout { .. }) if options.wait == Some(least) => continue,
            granted => granted.unwrap_or_else(|error| panic!("{error} for {options:?}")),
        };
        assert!(granted.ttl() >= options.ttl, "{:?} for {options:?}", granted.ttl());
        granted.release().await.unwrap();
        queue_of(0, &lock).await;
    }
    // And for a waiter with these options.
    let held = take_free(&lock).await;
    let (theirs, patient) = (lock.clone(), AcquireOptions::new().ttl(day).wait(Duration::MAX));
    let waiting = tokio::spawn(async move { theirs.acquire_with(&patient).await });
    queue_of(2, &lock).await;
    held.release().await.unwrap();
    soon("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
}

pub(in crate::cases) async fn permits_out_of_range_are_refused_and_the_limits_work(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("numbers");
    for limit in [0, Claim::MAX + 1, u32::MAX] {
        let error = refused(client.locks.semaphore(&name, limit));
        assert!(
            matches!(error, Error::Input(InputError::Limit { limit: told }) if told == limit),
            "{error:?}"
        );
        assert!(error.to_string().contains(&limit.to_string()) && !error.is_transient(), "{error}");
    }
    for limit in [1, 4, Claim::MAX] {
        let semaphore = client.semaphore(&name, limit);
        for wrong in [0, limit + 1, u32::MAX] {
            let error = refused(semaphore.permits(wrong));
            let told = matches!(error, Error::Input(InputError::Permits { permits, limit: of }) if permits == wrong && of == limit);
            assert!(told && !error.is_transient(), "{error:?}");
        }
        assert_eq!(
            queue(&permits(&client, &name, 1, limit)).await,
            [],
            "an entry of a refused claim is in the queue"
        );

        let all = take_free(&permits(&client, &name, limit, limit)).await;
        assert!(is_busy(&permits(&client, &name, 1, limit)).await);
        all.release().await.unwrap();
        let one = take_free(&permits(&client, &name, 1, limit)).await;
        let rest = (limit > 1).then(|| permits(&client, &name, limit - 1, limit));
        if let Some(rest) = &rest {
            take_free(rest).await.release().await.unwrap();
        }
        assert!(is_busy(&permits(&client, &name, limit, limit)).await);
        one.release().await.unwrap();
        queue_of(0, &permits(&client, &name, 1, limit)).await;
    }
}
