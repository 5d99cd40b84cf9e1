//! [`ByName`]: reads settings from a map of names only, and shows nothing of any other value.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, MapAccess, Visitor},
    forward_to_deserialize_any,
};

/// A deserializer that accepts only a map of names and values. Any other value is an error that does not quote the value: a text is most
/// likely a URL with a password.
#[derive(Debug)]
pub struct ByName<D>(pub D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ByName<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        // If the format knew that a map is expected, its own error would quote the value that it found instead.
        self.0.deserialize_any(OnlyMap(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct OnlyMap<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OnlyMap<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, settings: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(settings)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<V::Value, E> {
        Err(E::custom("a text stands where settings should be, by their names"))
    }
}
