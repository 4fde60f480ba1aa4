//! The packages that every session has: one that is allowed without a range, or with one that they fit, is theirs and not the registry's.

use dormouse_crds::modules::Specifier;
use nodejs_semver::{Range, Version};

/// Names and versions, as the engine's build pins them.
const BUNDLED: [(&str, &str); 5] = [("dayjs", "1.11.23"), ("lodash", "4.18.1"), ("ramda", "0.32.0"), ("uuid", "14.0.3"), ("zod", "4.6.7")];

/// Whether the engine has what is meant.
pub(super) fn holds(specifier: Specifier<'_>) -> bool {
    let Some((_, version)) = BUNDLED.iter().find(|(name, _)| *name == specifier.name) else { return false };
    let fits = |range: &str| Some(Range::parse(range).ok()?.satisfies(&Version::parse(version).ok()?));
    specifier.range.is_none_or(|range| fits(range).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_the_engine_is_built_with() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/guest/modules/");
        let pins: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(format!("{manifest}package.json")).unwrap()).unwrap();
        for (name, version) in BUNDLED {
            assert_eq!(pins["devDependencies"][name], version, "{name}");
        }
        let files = std::fs::read_dir(format!("{manifest}npm")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = files.filter_map(|name| name.strip_suffix(".js").map(str::to_owned)).collect();
        names.sort();
        assert_eq!(names, BUNDLED.map(|(name, _)| name));
    }

    #[test]
    fn a_range_that_the_engine_does_not_fit_is_the_registrys() {
        let of = |text| holds(Specifier::parse(text).unwrap());
        assert!(of("lodash") && of("npm:zod@^4") && of("zod@4.x"));
        assert!(!of("npm:zod@^3") && !of("zod@next") && !of("left-pad"));
    }
}
