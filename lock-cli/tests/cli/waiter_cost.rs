//! What a hundred waiting processes cost.

/// Many waiters keep the machine busy while they start.
mod alone {
    use std::{
        fs, thread,
        time::{Duration, Instant},
    };

    use crate::{
        process::{Process, distlock, until_queued},
        store::Store,
    };

    const WAITERS: usize = 100;

    /// How many start at once.
    const GROUP: usize = 10;

    /// After this time, waiters far behind look as seldom as they ever do.
    const QUIET: Duration = Duration::from_secs(5);

    const COUNTED: Duration = Duration::from_secs(5);

    /// The part of a core that all of them together may take in an optimised build, where it was 0.021. The tests are not optimised: there it
    /// was 0.048, and up to twice that on cores whose caches busy loops have filled. So the time of cores is for the nightly run, and the
    /// gate counts what it comes from.
    const MOST_OF_A_CORE: f64 = if cfg!(debug_assertions) { 0.1 } else { 0.05 };

    /// For each process: the keeper looks at the clock once a second, and the thread of the file twice. Counted were 3.2, and 3.2 beside busy
    /// loops, too.
    const MOST_WAKES_A_SECOND: f64 = 4.0;

    /// The unit in which Linux reports the time of cores.
    const TICKS_A_SECOND: f64 = 100.0;

    #[test]
    fn a_process_that_waits_behind_others_wakes_a_few_times_a_second() {
        let cost = cost_of_a_crowd();
        assert!(cost.wakes > 0.0, "nobody looks");
        assert!(cost.wakes <= MOST_WAKES_A_SECOND, "each wakes {:.1} times a second", cost.wakes);
    }

    #[test]
    #[ignore = "nightly: the time of cores depends on what else fills their caches"]
    fn a_hundred_processes_that_wait_take_a_twentieth_of_a_core_at_most() {
        let cost = cost_of_a_crowd();
        assert!(cost.core <= MOST_OF_A_CORE, "{WAITERS} processes that wait take {:.3} of a core", cost.core);
    }

    /// The cost of waiting processes while nothing happens.
    struct Cost {
        /// The part of a core that all of them take.
        core: f64,
        /// How often a thread of one of them is woken in a second.
        wakes: f64,
    }

    fn cost_of_a_crowd() -> Cost {
        let store = Store::sqlite();
        let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
        until_queued(&store.url, "a", 1);
        let mut waiters: Vec<Process> = Vec::new();
        while waiters.len() < WAITERS {
            // Each of them renews its place after a third of the ttl: ten seconds after they came by default, which is another cost, and
            // would be counted for all at once. The file may be busy for a while when so many come.
            let args = ["run", "a", "--ttl", "1h", "--outage", "wait", "--", "true"];
            let run = || Process::start(&mut distlock(&store.url, &args));
            waiters.extend((0..GROUP).map(|_| run()));
            until_queued(&store.url, "a", 1 + waiters.len());
        }
        thread::sleep(QUIET);
        let (began, before) = (Instant::now(), (used(&waiters), wakes(&waiters)));
        thread::sleep(COUNTED);
        let (after, seconds) = ((used(&waiters), wakes(&waiters)), began.elapsed().as_secs_f64());
        let cost = Cost {
            core: f64::from(after.0 - before.0) / TICKS_A_SECOND / seconds,
            wakes: f64::from(after.1 - before.1)
                / seconds
                / f64::from(u32::try_from(WAITERS).expect("a few")),
        };
        println!(
            "{WAITERS} processes that wait: {:.4} of a core, {:.2} wakes a second each",
            cost.core, cost.wakes
        );
        assert!(waiters.iter_mut().all(Process::is_there), "somebody does not wait any more");
        cost
    }

    /// The ticks that these have run, all of their threads.
    fn used(processes: &[Process]) -> u32 {
        processes.iter().map(ticks).sum()
    }

    fn ticks(process: &Process) -> u32 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).expect("it is there");
        // Behind its name, which may have anything in it, are its state and ten numbers; then what it has used, for itself and for calls.
        let (_, numbers) = stat.rsplit_once(')').expect("it has a name");
        let used = numbers.split_whitespace().skip(11).take(2);
        used.map(|number| number.parse::<u32>().expect("it is a number")).sum()
    }

    /// How often the threads of these went to sleep, which is as often as one of them was woken.
    fn wakes(processes: &[Process]) -> u32 {
        let threads = |process: &Process| {
            fs::read_dir(format!("/proc/{}/task", process.pid())).expect("it is there").flatten()
        };
        // A thread may have ended since.
        let states = processes
            .iter()
            .flat_map(threads)
            .filter_map(|it| fs::read_to_string(it.path().join("status")).ok());
        let count = |state: String| -> u32 {
            let line = state.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.expect("Linux counts them").trim().parse().expect("it is a number")
        };
        states.map(count).sum()
    }
}
