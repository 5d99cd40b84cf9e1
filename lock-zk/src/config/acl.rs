//! The access rights to the nodes that this backend creates.

use lock_core::settings::ConfigError;
use zookeeper_client::{Acl, AuthId, Permission};

/// The creator of a node has all rights to it, and others have none.
const CREATOR: &str = "creator";

/// All clients have all rights.
const WORLD: &str = "world";

/// Reads the rules. Without rules, the default depends on whether the client authenticates itself.
pub(crate) fn read(rules: &[String], is_somebody: bool) -> Result<Vec<Acl>, ConfigError> {
    let all = |who| Ok(vec![Acl::new(Permission::ALL, who)]);
    match rules {
        [] if is_somebody => all(AuthId::authed()),
        [] => all(AuthId::anyone()),
        [rule] if rule == CREATOR && is_somebody => all(AuthId::authed()),
        [rule] if rule == CREATOR => Err(ConfigError::Setting {
            option: "acl",
            given: rule.clone(),
            hint: "give a user and a password, or a certificate: without them there is no creator that a server knows",
        }),
        [rule] if rule == WORLD => all(AuthId::anyone()),
        rules => rules.iter().map(|rule| read_one(rule)).collect(),
    }
}

fn read_one(rule: &str) -> Result<Acl, ConfigError> {
    let wrong = || ConfigError::Setting {
        option: "acl",
        given: rule.to_owned(),
        hint: "write creator, world, or rules such as digest:app:qO…=:cdrwa with the permissions c, d, r, w and a",
    };
    let (scheme, rest) = rule.split_once(':').ok_or_else(wrong)?;
    let (id, letters) = rest.rsplit_once(':').ok_or_else(wrong)?;
    if scheme.is_empty() || letters.is_empty() {
        return Err(wrong());
    }
    let mut permissions = Permission::NONE;
    for letter in letters.chars() {
        permissions = permissions
            | match letter {
                'c' => Permission::CREATE,
                'd' => Permission::DELETE,
                'r' => Permission::READ,
                'w' => Permission::WRITE,
                'a' => Permission::ADMIN,
                _ => return Err(wrong()),
            };
    }
    Ok(Acl::new(permissions, AuthId::new(scheme, id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_a_known_client_shares_with_none_and_others_with_all() {
        assert_eq!(read(&[], true).unwrap()[0].auth_id(), &AuthId::authed());
        assert_eq!(read(&[], false).unwrap()[0].auth_id(), &AuthId::anyone());
    }

    #[test]
    fn the_creator_and_the_world_can_be_named() {
        let one = |rule: &str, is_somebody| read(&[rule.to_owned()], is_somebody);
        assert_eq!(one("creator", true).unwrap()[0].auth_id(), &AuthId::authed());
        assert_eq!(one("world", true).unwrap()[0].auth_id(), &AuthId::anyone());
        assert!(one("creator", false).unwrap_err().to_string().contains("a user and a password"));
        assert!(read(&["creator".to_owned(), "world:anyone:r".to_owned()], true).is_err(), "it stands alone");
    }

    #[test]
    fn a_rule_is_read_as_zookeeper_writes_it() {
        let rules = ["digest:app:mWP/Wjk=:cdrwa".to_owned(), "world:anyone:r".to_owned()];
        let acl = read(&rules, false).unwrap();
        assert_eq!((acl[0].scheme(), acl[0].id()), ("digest", "app:mWP/Wjk="));
        assert!(acl[0].permission().has(Permission::ALL));
        assert!(acl[1].permission().has(Permission::READ) && !acl[1].permission().has(Permission::WRITE));
        for wrong in ["", "world", "world:anyone", "world:anyone:", ":x:r", "world:anyone:x"] {
            assert!(read(&[wrong.to_owned(), "world:anyone:r".to_owned()], false).is_err(), "{wrong}");
        }
    }
}
