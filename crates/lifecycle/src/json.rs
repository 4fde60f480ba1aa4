//! JSON that is carried and not looked at, and how long JSON is.
//!
//! A head carries much of it from one commit to the next: as text it is neither parsed nor built anew on the way, and a copy of it costs nothing.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// Bytes of a value as JSON, which is not made for that.
#[must_use]
pub fn bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).map_or(usize::MAX, |()| counted.0)
}

/// How many bytes were written to it.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The text of one value. Two are equal when their texts are.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned().into())
    }

    /// What `value` is as JSON.
    ///
    /// # Errors
    /// When it is nothing that JSON has.
    pub fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self(to_raw_value(value)?.into()))
    }

    /// The value.
    ///
    /// # Errors
    /// When it is another one than wanted.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        // A value is JSON whatever it holds.
        Self(RawValue::from_string(value.to_string()).map_or_else(|_| RawValue::NULL.to_owned().into(), Into::into))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_travels_as_it_was_written() {
        let written = r#"{"list":[{"b": 1.0, "a":"\u00e4"}, null]}"#;
        let list: std::collections::BTreeMap<String, Vec<Json>> = serde_json::from_str(written).unwrap();
        assert_eq!(list["list"][0].text(), r#"{"b": 1.0, "a":"\u00e4"}"#);
        assert_eq!(list["list"][0].read::<Value>().unwrap(), json!({"a": "ä", "b": 1.0}));
        assert_eq!(list["list"][1], Json::null());
        assert_eq!(serde_json::to_string(&list).unwrap(), r#"{"list":[{"b": 1.0, "a":"\u00e4"},null]}"#);
        assert!(serde_json::from_str::<Json>("{\"a\":").is_err());
    }

    proptest::proptest! {
        /// Without `serde_json`'s feature `float_roundtrip` one number of ten does not.
        #[test]
        fn a_number_comes_back_as_the_same_one(number in proptest::num::f64::NORMAL) {
            proptest::prop_assert_eq!(Json::of(&number).unwrap().read::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn a_value_is_its_text() {
        let value = json!({"a": [1, "x", null]});
        assert_eq!(Json::from(value.clone()), Json::of(&value).unwrap());
        assert!(Json::from(value).read::<u64>().is_err());
    }
}
