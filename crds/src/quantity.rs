//! Quantities as Kubernetes takes them: `500m`, `1Gi`, and numbers without quotes.

use serde::{Deserialize, Deserializer, Serialize, de};

/// An amount of a resource. Whether it is one, the API server says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a quantity such as 500m, 1Gi or 1")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(text.into())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "kubernetes")]
impl schemars::JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": r"^[+]?([0-9]+|[0-9]+[.][0-9]*|[.][0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][-+]?[0-9]+))?$",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_number_is_a_quantity_too() {
        for (json, text) in [("\"500m\"", "500m"), ("1", "1"), ("0.5", "0.5"), ("\"1Gi\"", "1Gi")] {
            assert_eq!(serde_json::from_str::<Quantity>(json).unwrap(), text.into());
        }
        assert_eq!(serde_json::to_string(&Quantity::from("1")).unwrap(), "\"1\"");
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }
}
