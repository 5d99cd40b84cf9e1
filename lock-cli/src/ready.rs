//! [`ReadyNotifier`]: tells the parent of this process that the lock is held.

#[cfg(target_os = "linux")]
use std::os::{
    linux::net::SocketAddrExt,
    unix::{ffi::OsStrExt, net::SocketAddr},
};
use std::{
    env,
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::{fs::OpenOptionsExt, net::UnixDatagram},
};

use nix::fcntl::OFlag;

use crate::{exit::Exit, failure::Failure, output::Output};

/// The message that systemd waits for with `Type=notify`.
const READY: &[u8] = b"READY=1";

/// The descriptor of `--ready-fd`; the service manager is found by `NOTIFY_SOCKET`.
#[derive(Debug)]
pub(crate) struct ReadyNotifier {
    file: Option<File>,
}

impl ReadyNotifier {
    /// # Errors
    /// If there is no such descriptor, or it cannot be written to. Call it before the lock is taken.
    pub(crate) fn new(descriptor: Option<u32>) -> Result<Self, Failure> {
        let open = |descriptor: u32| {
            // It is opened anew, at the start of a file: without `append` it would overwrite what is there. A full pipe must not block.
            let mut options = OpenOptions::new();
            let options = options.append(true).custom_flags(OFlag::O_NONBLOCK.bits());
            options.open(format!("/dev/fd/{descriptor}")).map_err(|error| {
                Failure::new(Exit::USAGE, format!("--ready-fd {descriptor} cannot be written to"))
                    .because(&error)
                    .hint("a pipe or a file that this user may open, as in --ready-fd 3 3>FILE")
            })
        };
        Ok(Self { file: descriptor.map(open).transpose()? })
    }

    /// Tells that the lock is held. A failure is reported, and changes nothing about the lock.
    pub(crate) fn tell(self, output: &Output) {
        if let Some(Err(error)) = env::var_os("NOTIFY_SOCKET").map(|address| notify(&address)) {
            output.line(format!("the service manager cannot be told that the lock is held: {error}"));
        }
        if let Some(Err(error)) = self.file.map(|mut file| file.write_all(b"\n")) {
            output.line(format!("nothing can be written to --ready-fd: {error}"));
        }
    }
}

fn notify(address: &OsStr) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = address.as_bytes().strip_prefix(b"@") {
        return socket.send_to_addr(READY, &SocketAddr::from_abstract_name(name)?);
    }
    socket.send_to(READY, address)
}
