//! [`Footprint`]: what clients have at a server; [`Usage`]: what they have of the machine.

/// What the clients of a case have at the server now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Keys, nodes or rows in which somebody holds or waits, those of the dead included until they are removed. None if nobody does.
    pub queues: u64,
    /// What is kept on purpose when a queue is empty: token counters, one for each name at the most, and marks by which a
    /// late request is known.
    pub kept: u64,
    /// Sessions, or leases that entries share. None in a store where each entry has its own.
    pub sessions: u64,
    /// Connections.
    pub connections: u64,
    /// Subscriptions, watches, or listeners for hints.
    pub subscriptions: u64,
    /// The memory in use, in bytes, if the server tells and serves nobody else.
    pub memory: Option<u64>,
}

impl Footprint {
    /// What is there only while somebody uses it, each figure by its name.
    pub(crate) fn in_use(&self) -> [(&'static str, u64); 4] {
        [
            ("queues", self.queues),
            ("sessions", self.sessions),
            ("connections", self.connections),
            ("subscriptions", self.subscriptions),
        ]
    }

    /// Whether nobody uses anything.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.in_use().iter().all(|(_, count)| *count == 0)
    }
}

/// What this process uses now, as the operating system counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Of the machine's memory, in bytes. It is counted in pages, and an allocator gives few of them back: a measure of what
    /// a user pays, and none of what is left behind.
    pub memory: u64,
    /// Of the heap of the C library, in bytes: what was allocated and not freed, by this program and by libraries written in
    /// C. It is also the heap of Rust, unless a test names a global allocator. `None` where the C library is not glibc.
    pub heap: Option<u64>,
    /// Open files and sockets.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// What is given back when nobody uses it any more, each figure by its name.
    pub(crate) fn in_use(&self) -> [(&'static str, u64); 2] {
        [("files", self.files), ("threads", self.threads)]
    }

    /// None on systems other than Linux: there, only the server is looked at.
    ///
    /// # Panics
    /// If `/proc` is not as Linux has it, or the heap not as glibc has it.
    #[must_use]
    pub fn now() -> Option<Self> {
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        let status = std::fs::read_to_string("/proc/self/status").expect("a process can read its own state");
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("no {name} in {status}"))
        };
        let files = std::fs::read_dir("/proc/self/fd").expect("a process can list its own files").count();
        // One of them is the list itself.
        let files = files as u64 - 1;
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        let heap = Some(heap());
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        let heap = None;
        Some(Self { memory: 1024 * field("VmRSS:"), heap, files, threads: field("Threads:") })
    }
}

/// What the heap has of the system, without the pieces of it that are free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn heap() -> u64 {
    use malloc_info::info::{SystemType, TotalType};

    let info = malloc_info::malloc_info().expect("glibc tells what its heap has");
    let total = |of: TotalType| -> usize {
        info.total.iter().filter(|total| total.r#type == of).map(|total| total.size).sum()
    };
    let current = info.system.iter().filter(|system| system.r#type == SystemType::Current);
    let arenas: usize = current.map(|system| system.size).sum();
    (arenas + total(TotalType::Mmap) - total(TotalType::Fast) - total(TotalType::Rest)) as u64
}
