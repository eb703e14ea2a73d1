//! JSON, read as JSON Schema reads it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// An object. Serde alone would also take an array of the fields' values.
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// A whole number, however it is written: `5` and `5.0` are the same in JSON.
#[derive(Clone, Copy, Default)]
pub(super) struct Whole<T>(pub T);

/// Whole numbers up to here are exact when written as fractions.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = i128;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<i128, E> {
                Ok(number.into())
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<i128, E> {
                Ok(number.into())
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<i128, E> {
                if number.fract() == 0.0 && number.abs() <= EXACT {
                    Ok(number as i128)
                } else {
                    Err(E::custom(format!("{number} is not an exact whole number")))
                }
            }
        }
        let number = deserializer.deserialize_any(Number)?;
        T::try_from(number).map(Self).map_err(|_| D::Error::custom(format!("{number} is out of range")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_taken_in_both_spellings() {
        let read = |text| serde_json::from_str::<Whole<u32>>(text).ok().map(|number| number.0);
        assert_eq!(read("5"), Some(5));
        assert_eq!(read("5.0"), Some(5));
        for wrong in ["5.5", "-1", "4294967296", "1e300", "\"5\"", "null", "true"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(serde_json::from_str::<Whole<i64>>("-9223372036854775808").unwrap().0, i64::MIN);
    }

    #[test]
    fn an_array_is_not_an_object() {
        #[derive(serde::Deserialize)]
        struct Body {
            a: u8,
        }
        assert_eq!(serde_json::from_str::<Object<Body>>(r#"{"a":1}"#).unwrap().0.a, 1);
        assert!(serde_json::from_str::<Object<Body>>("[1]").is_err());
    }
}
