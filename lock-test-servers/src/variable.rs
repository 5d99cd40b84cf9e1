//! [`variable`]: reads an environment variable.

use std::env;

/// The value of a variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The `host:port` in the URL that a variable has, which names one server and nothing else.
///
/// # Panics
/// If it names something else.
pub(crate) fn host_and_port(name: &str, scheme: &str) -> Option<String> {
    let address = address_in(&variable(name)?, scheme);
    Some(address.unwrap_or_else(|| panic!("{name} has to be {scheme}host:port")))
}

fn address_in(url: &str, scheme: &str) -> Option<String> {
    let address = url.strip_prefix(scheme)?.trim_end_matches('/');
    (!address.contains(['/', '@', '?', ','])).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_url_of_one_server_and_nothing_else_is_an_address() {
        let address = |url| address_in(url, "zk://");
        assert_eq!(address("zk://127.0.0.1:2181/").as_deref(), Some("127.0.0.1:2181"));
        let others =
            ["etcd://h:1", "zk://h:1/chroot", "zk://user:word@h:1", "zk://h:1?tick=200ms", "zk://h:1,h:2"];
        for other in others {
            assert_eq!(address(other), None, "{other}");
        }
    }
}
