//! [`connections_to`]: how many connections to a server the kernel lists.

use std::{collections::BTreeSet, fs};

/// The state of a connection that both ends have open.
const ESTABLISHED: &str = "01";

/// How many connections to this port are open on this machine, by the kernel's table of TCP connections. It is meant for servers that
/// do not report how many clients they have, to fill the connections of a [`Footprint`](crate::Footprint). A
/// [`ServerControl`](crate::ServerControl) that connects to the server itself has to count before it connects.
///
/// `None` on systems other than Linux, which have no such table.
///
/// # Panics
/// If the table is not as Linux has it.
#[must_use]
pub fn connections_to(port: u16) -> Option<u64> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux has a table of connections");
    // A machine without IPv6 has no such table.
    let table6 = fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    Some((open_in(&table, port) + open_in(&table6, port)) as u64)
}

/// A connection within the machine has a row for each of its ends. It is counted in the row whose remote port this is. The
/// kernel may write a row twice while connections come and go, so rows are identified by their ends.
fn open_in(table: &str, port: u16) -> usize {
    let rows = table.lines().skip(1).filter(|row| !row.trim().is_empty());
    let ends = rows.filter_map(|row| {
        let mut cells = row.split_whitespace().skip(1);
        let (Some(local), Some(remote), Some(state)) = (cells.next(), cells.next(), cells.next()) else {
            panic!("not a row of the table of connections: {row}")
        };
        let number = remote.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
        let number = number.unwrap_or_else(|| panic!("not a row of the table of connections: {row}"));
        (number == port && state == ESTABLISHED).then_some((local, remote))
    });
    ends.collect::<BTreeSet<_>>().len()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn assert_counted(address: &str) {
        let server = TcpListener::bind((address, 0)).unwrap();
        let at = server.local_addr().unwrap();
        let count = || connections_to(at.port()).unwrap();
        assert_eq!(count(), 0, "a listener is no connection");
        let clients = [(); 3].map(|()| TcpStream::connect(at).unwrap());
        assert_eq!(count(), 3);
        let [first, second, third] = clients;
        drop(first);
        assert_eq!(count(), 2);
        drop((second, third));
        assert_eq!(count(), 0);
    }

    #[test]
    fn each_open_connection_to_a_port_is_counted_once() {
        assert_counted("127.0.0.1");
    }

    #[test]
    fn a_row_that_is_there_twice_is_one_connection() {
        let row = "   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 1";
        let table = format!("  sl  local_address rem_address st\n{row}\n{row}\n");
        assert_eq!(open_in(&table, 8080), 1);
        assert_eq!(open_in(&table, 8081), 0);
    }

    #[test]
    fn connections_over_ipv6_are_counted() {
        if TcpListener::bind(("::1", 0)).is_ok() {
            assert_counted("::1");
        }
    }
}
