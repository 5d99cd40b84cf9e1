//! [`Usage`]: the CPU time and the memory of a process, as the operating system counts them.

use std::{fs, num::ParseIntError, time::Duration};

use crate::error::Result;

/// What one process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Its time on all cores.
    pub(crate) cpu: Duration,
    /// Its resident memory, in bytes.
    pub(crate) memory: u64,
}

impl Usage {
    /// # Errors
    /// If there is no such process, or the system is not Linux.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
        };
        Ok(Self { cpu: cpu(&read("stat")?)?, memory: memory(&read("status")?)? })
    }
}

/// Fields 14 and 15, in hundredths of a second, whichever unit the kernel uses. The second field is a name that may contain
/// spaces.
fn cpu(stat: &str) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(") ").ok_or("no name in the state of a process")?;
    let ticks: Result<u64, ParseIntError> = fields.split(' ').skip(11).take(2).map(str::parse::<u64>).sum();
    Ok(Duration::from_millis(10 * ticks?))
}

fn memory(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?.parse()?;
    Ok(1024 * kib)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{hint::black_box, time::Instant};

    use super::*;

    fn own() -> Usage {
        Usage::of(std::process::id()).unwrap()
    }

    #[test]
    fn what_this_process_does_and_keeps_is_counted() {
        let (before, started) = (own(), Instant::now());
        let kept = black_box(vec![1_u8; 64 << 20]);
        while started.elapsed() < Duration::from_millis(100) {
            black_box(&kept);
        }
        let after = own();
        assert!(after.memory >= before.memory + (48 << 20), "{before:?} {after:?}");
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
    }

    #[test]
    fn the_name_of_a_process_may_look_like_anything() {
        let stat = "7 (a) b (c d) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 1 0 100 1000 10";
        assert_eq!(cpu(stat).unwrap(), Duration::from_secs(3));
    }
}
