//! [`Footprint`]: what clients use at a server. [`Usage`]: what this process uses of the machine.

/// What the clients of a case use at the server now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Keys, nodes or rows of holders and waiters, those of dead ones included until they are removed.
    pub queues: u64,
    /// What is kept on purpose when a queue is empty: token counters, at most one for each name, and tombstones for late requests.
    pub kept: u64,
    /// Sessions, or leases that entries share. Zero in a store where each entry has its own.
    pub sessions: u64,
    /// Connections.
    pub connections: u64,
    /// Subscriptions, watches, or listeners for hints.
    pub subscriptions: u64,
    /// The memory in use, in bytes, if the server reports it and has no other clients.
    pub memory: Option<u64>,
}

impl Footprint {
    /// The figures that are zero when there are no clients, with their names.
    pub(crate) fn in_use(&self) -> [(&'static str, u64); 4] {
        [
            ("queues", self.queues),
            ("sessions", self.sessions),
            ("connections", self.connections),
            ("subscriptions", self.subscriptions),
        ]
    }

    /// Whether all of these figures are zero.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.in_use().iter().all(|(_, count)| *count == 0)
    }
}

/// What this process uses now, as the operating system counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory, in bytes. It is counted in pages, of which an allocator returns few: it tells what a user pays, and not what is
    /// leaked.
    pub memory: u64,
    /// The heap of the C library, in bytes: what this program and C libraries have allocated and not freed. Rust uses it as well, unless
    /// the test sets a global allocator. `None` where the C library is not glibc.
    pub heap: Option<u64>,
    /// Open files and sockets.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// The figures that go back when clients are dropped, with their names.
    pub(crate) fn in_use(&self) -> [(&'static str, u64); 2] {
        [("files", self.files), ("threads", self.threads)]
    }

    /// The current usage. `None` on systems other than Linux, where only the server is checked.
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
        // The listing itself is one of them.
        let files = files as u64 - 1;
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        let heap = Some(heap());
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        let heap = None;
        Some(Self { memory: 1024 * field("VmRSS:"), heap, files, threads: field("Threads:") })
    }
}

/// What the heap has obtained from the system, less its free blocks.
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
