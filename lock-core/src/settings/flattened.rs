//! [`Flattened`]: the settings of a server among those of its backend, as a file has them.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor},
    forward_to_deserialize_any,
};

use super::{ByName, ServerConfig, server_config::NAMES};

/// A format that is asked for the settings of a backend by their names, as [`ByName`] is, and in which those of its server stand
/// beside them.
///
/// What serde derives reads the backend's own; there is an [example](super). `#[serde(flatten)]` would do for both, but it keeps values
/// until all are there: its errors do not say where in a file they are, nor which settings there are.
#[derive(Debug)]
pub struct Flattened<'a, D> {
    /// The format.
    pub format: D,
    /// Where the settings of the server go.
    pub server: &'a mut ServerConfig,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Flattened<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        own: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        ByName(self.format).deserialize_any(Settings { own, server: self.server, visitor })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_struct("", &[], visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// What the visitor of the backend's own settings is given: only those.
struct Settings<'a, V> {
    /// The names of the backend's own.
    own: &'static [&'static str],
    server: &'a mut ServerConfig,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Settings<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, all: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Own { names: self.own, server: self.server, read: Vec::new(), all })
    }
}

/// The backend's own settings. Those of the server that stand between them are read on the way.
struct Own<'a, A> {
    names: &'static [&'static str],
    server: &'a mut ServerConfig,
    /// Those of the server that were there.
    read: Vec<&'static str>,
    all: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Own<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.all.next_key_seed(Name { own: self.names })? {
            if self.names.contains(&name) {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            if self.read.contains(&name) {
                return Err(A::Error::duplicate_field(name));
            }
            self.read.push(name);
            self.server.read(name, &mut self.all)?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.all.next_value_seed(seed)
    }
}

/// Reads the name of a setting that there is.
struct Name {
    own: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<&'static str, D::Error> {
        name.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: Error>(self, given: &str) -> Result<&'static str, E> {
        let mut known = self.own.iter().copied().chain(NAMES);
        known.find(|name| *name == given).ok_or_else(|| {
            let known: Vec<_> = self.own.iter().copied().chain(NAMES).collect();
            E::custom(format_args!("unknown field `{given}`, expected one of `{}`", known.join("`, `")))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(remote = "Self", default, deny_unknown_fields)]
    struct Config {
        #[serde(skip)]
        server: ServerConfig,
        prefix: String,
        limit: u8,
    }

    impl<'de> Deserialize<'de> for Config {
        fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
            let mut server = ServerConfig::default();
            let own = Self::deserialize(Flattened { format, server: &mut server })?;
            Ok(Self { server, ..own })
        }
    }

    fn refused(file: &str) -> String {
        serde_json::from_str::<Config>(file).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_of_the_server_stands_beside_those_of_the_backend() {
        let file = r#"{ "tls": true, "prefix": "x", "ca": "a", "cert": "c", "key": "k", "user": "u", "password": "p",
                        "password_file": "f", "command_timeout": "1s", "limit": 7, "connect_timeout": "3s" }"#;
        assert!(NAMES.iter().all(|name| file.contains(&format!("\"{name}\": "))));
        let Config { server, prefix, limit } = serde_json::from_str(file).unwrap();
        assert_eq!((prefix.as_str(), limit), ("x", 7));
        let expected = ServerConfig {
            tls: true,
            ca: Some("a".into()),
            cert: Some("c".into()),
            key: Some("k".into()),
            user: Some("u".to_owned()),
            password: Some("p".into()),
            password_file: Some("f".into()),
            command_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(3),
        };
        assert_eq!(server, expected);
        let nothing: Config = serde_json::from_str("{}").unwrap();
        assert_eq!((nothing.server, nothing.limit), (ServerConfig::default(), 0));
    }

    #[test]
    fn an_error_says_where_it_is_and_which_settings_there_are() {
        let error = refused("{ \"tls\": true,\n \"hots\": 1,\n \"limit\": 1 }");
        let says = "unknown field `hots`, expected one of `prefix`, `limit`, `tls`, ";
        assert!(error.starts_with(says), "{error}");
        assert!(error.contains(", `connect_timeout` at line 2 "), "{error}");
        for (wrong, says) in [
            ("{ \"prefix\": \"x\",\n \"tls\": 1,\n \"limit\": 1 }", "expected a boolean at line 2 "),
            ("{ \"command_timeout\": 2,\n \"limit\": 1 }", "such as 500ms or 1m 30s at line 1 "),
            ("{ \"password\": 1234,\n \"limit\": 1 }", "no text; put it in quotes at line 1 "),
            ("{ \"tls\": true,\n \"tls\": true,\n \"limit\": 1 }", "duplicate field `tls` at line 2 "),
            ("{ \"limit\": 1,\n \"limit\": 1 }", "duplicate field `limit` at line 2 "),
            ("\"store://user:1234@host\"", "a text stands where settings should be"),
        ] {
            let error = refused(wrong);
            assert!(error.contains(says) && !error.contains("1234"), "{wrong}: {error}");
        }
    }
}
