//! What it costs when many wait, each in a process of its own.

/// A crowd keeps the machine busy while it comes.
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

    /// So many come at once.
    const GROUP: usize = 10;

    /// After this time those far behind look as seldom as they ever do.
    const QUIET: Duration = Duration::from_secs(5);

    const COUNTED: Duration = Duration::from_secs(5);

    /// A part of a core, for all of them together, in what is installed. Counted were 0.021 there, and 0.048 in what is not optimised, which
    /// these tests run: 0.054 beside another crowd. So twice as much is allowed there.
    const MOST_OF_A_CORE: f64 = if cfg!(debug_assertions) { 0.1 } else { 0.05 };

    /// In which Linux tells what a process has used.
    const TICKS_A_SECOND: f64 = 100.0;

    #[test]
    fn a_hundred_processes_that_wait_take_a_twentieth_of_a_core_at_most() {
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
        let (began, before) = (Instant::now(), used(&waiters));
        thread::sleep(COUNTED);
        let (ticks, seconds) = (used(&waiters) - before, began.elapsed().as_secs_f64());
        let core = f64::from(ticks) / TICKS_A_SECOND / seconds;
        println!("{WAITERS} processes that wait: {core:.4} of a core");
        assert!(waiters.iter_mut().all(Process::is_there), "somebody does not wait any more");
        assert!(core <= MOST_OF_A_CORE, "{WAITERS} processes that wait take {core:.3} of a core");
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
}
