//! Who may do what with the nodes that we make.

use lock_core::settings::ConfigError;
use zookeeper_client::{Acl, AuthId, Permission};

/// Reads the rules, or takes those for a client with or without a user.
pub(crate) fn read(rules: &[String], with_user: bool) -> Result<Vec<Acl>, ConfigError> {
    if rules.is_empty() {
        let everybody = if with_user { AuthId::authed() } else { AuthId::anyone() };
        return Ok(vec![Acl::new(Permission::ALL, everybody)]);
    }
    rules.iter().map(|rule| read_one(rule)).collect()
}

fn read_one(rule: &str) -> Result<Acl, ConfigError> {
    let wrong = || ConfigError::Setting {
        option: "acl",
        given: rule.to_owned(),
        hint: "write scheme:id:permissions, the permissions of the letters c, d, r, w and a",
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
    fn without_rules_a_user_has_all_to_itself_and_nobody_shares_with_everybody() {
        assert_eq!(read(&[], true).unwrap()[0].auth_id(), &AuthId::authed());
        assert_eq!(read(&[], false).unwrap()[0].auth_id(), &AuthId::anyone());
    }

    #[test]
    fn a_rule_is_read_as_zookeeper_writes_it() {
        let rules = ["digest:app:mWP/Wjk=:cdrwa".to_owned(), "world:anyone:r".to_owned()];
        let acl = read(&rules, false).unwrap();
        assert_eq!((acl[0].scheme(), acl[0].id()), ("digest", "app:mWP/Wjk="));
        assert!(acl[0].permission().has(Permission::ALL));
        assert!(acl[1].permission().has(Permission::READ) && !acl[1].permission().has(Permission::WRITE));
        for wrong in ["", "world", "world:anyone", "world:anyone:", ":x:r", "world:anyone:x"] {
            assert!(read(&[wrong.to_owned()], false).is_err(), "{wrong}");
        }
    }
}
