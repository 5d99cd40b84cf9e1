//! The switches: text in the source of `lock-core`, and its replacement in the copy (see `core`).

/// Names the bug whose switch is on.
pub(crate) const VARIABLE: &str = "DISTLOCK_BUG";

/// A bug, the case that has to find it, and a part of the failure message.
pub(crate) struct InEngine {
    pub(crate) id: &'static str,
    pub(crate) case: (&'static str, &'static str),
    pub(crate) says: &'static str,
    pub(crate) switches: &'static [Switch],
}

pub(crate) struct Switch {
    /// Below `lock-core/src`.
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// The condition of all switches.
pub(crate) const LIBRARY: Switch = Switch {
    file: "lib.rs",
    from: "mod wait;\n",
    to: r#"mod wait;

/// Whether a bug is switched on.
pub(crate) fn bug(id: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("DISTLOCK_BUG").ok()).as_deref() == Some(id)
}
"#,
};

pub(crate) const BUGS: &[InEngine] = &[
    InEngine {
        id: "b02",
        case: ("expiry", "a_machine_that_slept_past_a_deadline_is_told_of_it_within_a_second"),
        says: "the signal did not look at the clock",
        switches: &[Switch {
            file: "keeper/handle.rs",
            from: "Self::on(Home::Runtime(runtime::Handle::current()), clock, None).driven()",
            to: r#"// The given clock counts the time in which the machine sleeps, and this one does not.
            let clock: Arc<dyn Clock> = if crate::bug("b02") { Arc::new(SystemClock) } else { clock };
            Self::on(Home::Runtime(runtime::Handle::current()), clock, None).driven()"#,
        }],
    },
    InEngine {
        id: "b06",
        case: ("exclusion", "a_grant_that_comes_after_its_own_lease_is_not_taken"),
        says: "a guard was given out after its deadline",
        switches: &[Switch {
            file: "pending_entry.rs",
            from: "self.token.filter(|_| self.client.keeper.now() < valid_until)",
            to: r#"self.token.filter(|_| crate::bug("b06") || self.client.keeper.now() < valid_until)"#,
        }],
    },
    InEngine {
        id: "b10",
        case: ("liveness", "a_release_is_noticed_without_hints"),
        says: "a look at the queue: not within",
        switches: &[Switch {
            file: "wait.rs",
            from: "    async fn pause(&mut self, look_at: BootTime) -> Woken {\n",
            to: r#"    async fn pause(&mut self, look_at: BootTime) -> Woken {
        let look_at = if crate::bug("b10") { BootTime::FAR_FUTURE } else { look_at };
"#,
        }],
    },
    InEngine {
        id: "b16",
        case: ("cancellation", "a_cancelled_waiter_leaves_the_queue_at_once"),
        says: "3 entries in the queue",
        switches: &[Switch {
            file: "pending_entry.rs",
            from: "    fn drop(&mut self) {\n        self.abandon();",
            to: "    fn drop(&mut self) {\n        if !crate::bug(\"b16\") { self.abandon(); }",
        }],
    },
    InEngine {
        id: "b17",
        case: ("renewal", "a_renewal_that_fails_now_and_then_costs_nothing"),
        says: "lost: Lost(Expired)",
        switches: &[
            Switch {
                file: "keeper/renewals.rs",
                from: "        let event = lease.hold.mark_suspect();\n",
                to: "        let event = lease.hold.mark_suspect();\n        if crate::bug(\"b17\") { return event; }\n",
            },
            Switch {
                file: "keeper/registry.rs",
                from: "let in_flight = if renew {",
                to: "let in_flight = if renew && !crate::bug(\"b17\") {",
            },
        ],
    },
    InEngine {
        id: "b18",
        case: ("renewal", "nothing_is_renewed_after_a_release"),
        says: "renewed after the release",
        switches: &[
            Switch {
                file: "keeper/renewals.rs",
                from: "        let tracked = registry.remove(entry.id);\n        let scheduled",
                to: r#"        let tracked = if crate::bug("b18") { None } else { registry.remove(entry.id) };
        let scheduled"#,
            },
            Switch {
                file: "keeper/registry.rs",
                from: "if lease.hold.is_over() || deadline <= now {",
                to: "if (lease.hold.is_over() && !crate::bug(\"b18\")) || deadline <= now {",
            },
            Switch {
                file: "keeper/registry.rs",
                from: "Tracked::Held(lease) => lease.hold.is_over(),",
                to: "Tracked::Held(lease) => lease.hold.is_over() && !crate::bug(\"b18\"),",
            },
        ],
    },
    InEngine {
        id: "b19",
        case: ("lost_signal", "every_listener_hears_it_also_those_who_come_late"),
        says: "a late listener",
        switches: &[Switch {
            file: "lost.rs",
            from: "        if let HoldState::Lost(reason) = self.hold.state() {\n            return Poll::Ready(reason);",
            to: r#"        if let HoldState::Lost(reason) = self.hold.state() {
            // A watcher that was not listening at the moment of the loss misses it.
            if crate::bug("b19") && self.watcher.is_none() { return Poll::Pending; }
            return Poll::Ready(reason);"#,
        }],
    },
    InEngine {
        id: "b26",
        case: ("cancellation", "a_guard_is_dropped_without_a_runtime"),
        says: "there is no reactor running",
        switches: &[Switch {
            file: "keeper/cleanup.rs",
            from: "self.keeper.spawn(async move { cleanup.work(task).await });",
            to: r#"let work = async move { cleanup.work(task).await };
        if crate::bug("b26") { drop(tokio::spawn(work)); } else { self.keeper.spawn(work); }"#,
        }],
    },
    InEngine {
        id: "b27",
        case: ("exclusion", "a_try_whose_answer_was_lost_is_not_called_busy"),
        says: "was called busy",
        switches: &[Switch {
            file: "pending_entry.rs",
            from: "        let answer = answer.and_then(|answer| answer);\n",
            to: r#"        let mut answer = answer.and_then(|answer| answer);
        // A request that was carried out but not answered is sent again, and the store takes it for that of another client.
        let mut left = if crate::bug("b27") && step == Step::Create { 16 } else { 0 };
        while left > 0 && answer.as_ref().is_err_and(|error| error.is_transient()) {
            left -= 1;
            let mut again = Entry::clone(&self.entry);
            again.id = self.client.fresh_id();
            answer = backend.enter(&again, step, mode).await;
        }
"#,
        }],
    },
    InEngine {
        id: "b30",
        case: ("process", "a_fork_holds_no_lock_of_its_parent_and_costs_it_none"),
        says: "the child found something wrong",
        switches: &[Switch {
            file: "guard.rs",
            from: "if self.client.keeper.is_forked() {",
            to: "if self.client.keeper.is_forked() && !crate::bug(\"b30\") {",
        }],
    },
    InEngine {
        id: "b34",
        case: ("resources", "a_fork_that_connects_again_has_locks_of_its_own"),
        says: "the child found something wrong",
        switches: &[Switch {
            file: "keeper/handle.rs",
            from: "while shared.keeper.has_ended() || shared.keeper.is_forked() {",
            to: "while shared.keeper.has_ended() || (shared.keeper.is_forked() && !crate::bug(\"b34\")) {",
        }],
    },
    InEngine {
        id: "b33",
        case: ("close", "waiters_are_told_of_a_close_at_once_and_never_granted"),
        says: "the word that the client is closed: not within",
        switches: &[Switch {
            file: "closing.rs",
            from: "        self.begun.notify_waiters();\n",
            to: "        if !crate::bug(\"b33\") { self.begun.notify_waiters(); }\n",
        }],
    },
    InEngine {
        id: "b35",
        case: ("resources", "an_outage_costs_a_line_a_second_and_message"),
        says: "s of ERROR distlock: lock lost",
        switches: &[
            Switch {
                file: "event_log.rs",
                from: "        self.lines.note(event.cause(), move |times| event.write(times));\n",
                to: r#"        if crate::bug("b35") { return event.write(None); }
        self.lines.note(event.cause(), move |times| event.write(times));
"#,
            },
            Switch {
                file: "event_log.rs",
                from: "            self.lines.count(event.cause(), move |times| event.write(times));\n",
                to: r#"            if crate::bug("b35") {
                writer.write(move || event.write(None));
                continue;
            }
            self.lines.count(event.cause(), move |times| event.write(times));
"#,
            },
        ],
    },
    InEngine {
        id: "b36",
        case: ("renewal", "an_extension_ends_at_the_deadline"),
        says: "the end of the extension: not within",
        switches: &[Switch {
            file: "guard.rs",
            from: "                _ = self.lost() => Ok(()),\n",
            to: "                _ = self.lost(), if !crate::bug(\"b36\") => Ok(()),\n",
        }],
    },
    InEngine {
        id: "b37",
        case: ("resources", "a_cleanup_that_fails_for_long_is_told_ever_more_rarely"),
        says: "tries to leave were told",
        switches: &[Switch {
            file: "keeper/cleanup.rs",
            from: "if task.failures.is_power_of_two() {",
            to: "if task.failures.is_power_of_two() || crate::bug(\"b37\") {",
        }],
    },
    InEngine {
        id: "b31",
        case: ("keeper", "a_waker_that_panics_costs_nobody_a_lock"),
        says: "was lost by a waker",
        switches: &[
            Switch {
                file: "panic_isolation.rs",
                from: "    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {\n",
                to: r#"    if crate::bug("b31") { return code(); }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
"#,
            },
            Switch {
                file: "keeper/restart_on_panic.rs",
                from: "    let mut last: Option<Instant> = None;\n",
                to: "    if crate::bug(\"b31\") { work(); }\n    let mut last: Option<Instant> = None;\n",
            },
        ],
    },
    InEngine {
        id: "b32",
        case: ("keeper", "a_waker_that_drops_guards_ends_and_costs_nobody_a_lock"),
        says: "the end of a waker, by a signal: not within",
        switches: &[
            Switch {
                file: "keeper/registry.rs",
                from: "        holds.filter(|hold| ",
                to: r#"        // This call reports a loss immediately.
        let holds = holds.inspect(|hold| if crate::bug("b32") { let _ = hold.is_held(); });
        holds.filter(|hold| "#,
            },
            Switch {
                file: "keeper/renewals/watchdog_check.rs",
                from: "        let now = self.keeper.now();\n",
                to: "        let now = self.keeper.now();\n        if crate::bug(\"b32\") { return BootTime::FAR_FUTURE; }\n",
            },
        ],
    },
    InEngine {
        id: "b40",
        case: ("keeper", "a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock"),
        says: "the end of a waker, by a hint: not within",
        switches: &[Switch {
            file: "notifier.rs",
            from: "        deliver(listeners, hint);\n",
            to: r#"        let _locked = crate::bug("b40").then(|| self.listeners.lock());
        deliver(listeners, hint);
"#,
        }],
    },
];
