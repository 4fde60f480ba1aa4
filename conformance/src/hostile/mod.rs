//! Hostile scripts: templates times what goes into them, one TOML file a family.

mod ends;
mod run;

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

pub use ends::Ends;
pub use run::{CPU_MAX, Verdict, WALL, run, run_all};

/// Where the families are.
const FAMILIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hostile");

/// One hostile script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `family/template.a.b`.
    pub name: String,
    /// The cell.
    pub source: String,
    /// How it may end, see [`Verdict::outcome`]; in any typed way when there are none.
    pub ends: Vec<String>,
}

/// A family: every template with every `$A` and every `$B`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    templates: Vec<String>,
    #[serde(default)]
    ends: Vec<String>,
    #[serde(default)]
    a: Vec<String>,
    #[serde(default)]
    b: Vec<String>,
}

impl Family {
    fn scripts(&self, name: &str) -> Vec<Script> {
        let nothing = [String::new()];
        let mut scripts = Vec::new();
        for (number, template) in self.templates.iter().enumerate() {
            let fillings = |mark: &str, all: &'_ [String]| if template.contains(mark) { all.to_vec() } else { nothing.to_vec() };
            for (a_number, a) in fillings("$A", &self.a).iter().enumerate() {
                for (b_number, b) in fillings("$B", &self.b).iter().enumerate() {
                    let source = template.replace("$A", a).replace("$B", b);
                    scripts.push(Script { name: format!("{name}/{number}.{a_number}.{b_number}"), source, ends: self.ends.clone() });
                }
            }
        }
        scripts
    }
}

/// Every script of every family, in order.
///
/// # Errors
/// When a family cannot be read.
pub fn scripts() -> anyhow::Result<Vec<Script>> {
    let mut files: Vec<_> = fs::read_dir(FAMILIES)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let mut scripts = Vec::new();
    for file in files {
        scripts.extend(family(&file)?);
    }
    Ok(scripts)
}

fn family(file: &Path) -> anyhow::Result<Vec<Script>> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let family: Family = toml::from_str(&fs::read_to_string(file)?).with_context(|| file.display().to_string())?;
    Ok(family.scripts(&name))
}

#[cfg(test)]
mod tests {
    use super::Family;

    #[test]
    fn a_family_is_every_template_with_every_filling() {
        let family =
            Family { templates: vec!["$A + $B".into(), "$A".into()], ends: vec![], a: vec!["1".into(), "2".into()], b: vec!["3".into()] };
        let sources: Vec<String> = family.scripts("f").into_iter().map(|script| script.source).collect();
        assert_eq!(sources, ["1 + 3", "2 + 3", "1", "2"]);
    }
}
