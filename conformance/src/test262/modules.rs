//! A test together with the modules that lie beside it, which it may import.

use std::{collections::BTreeMap, fs, path::Path};

use super::{Case, Mode};

/// What one run of a test consists of.
#[derive(Debug)]
pub(super) struct Program {
    /// The script; of a module the import that evaluates it, which is awaited.
    pub(super) source: String,
    /// Whether the source is such an import.
    pub(super) is_module: bool,
    /// Texts by name, all in the folder of the test. The test is among them if one of them imports it.
    pub(super) modules: BTreeMap<String, String>,
}

impl Program {
    /// The test that lies at `path`, in this mode.
    pub(super) fn of(case: &Case, mode: Mode, path: &Path) -> anyhow::Result<Self> {
        let text = case.source(mode);
        let imports = case.is_module() || text.contains("_FIXTURE") || text.contains("import");
        let modules = if imports { modules(case.name(), &text, path.parent().unwrap_or(path))? } else { BTreeMap::new() };
        let source = if case.is_module() { format!("import({})", serde_json::to_string(&format!("./{}", case.name()))?) } else { text };
        Ok(Self { source, is_module: case.is_module(), modules })
    }
}

/// The test, and whatever of its folder its text names, or that text.
fn modules(name: &str, text: &str, folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut beside = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if file.contains("_FIXTURE") {
            let Ok(text) = fs::read_to_string(folder.join(&file)) else { continue };
            beside.insert(file, text);
        }
    }
    let mut found = BTreeMap::from([(name.to_owned(), text.to_owned())]);
    let mut texts = vec![text.to_owned()];
    while let Some(text) = texts.pop() {
        let named: Vec<String> = beside.keys().filter(|file| text.contains(file.as_str())).cloned().collect();
        for file in named {
            if let Some(text) = beside.remove(&file) {
                texts.push(text.clone());
                found.insert(file, text);
            }
        }
    }
    Ok(found)
}
