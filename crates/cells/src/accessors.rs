//! `accessor x = 1` becomes a private field with a getter and a setter, before the rest of a cell is read: the text that comes out is TypeScript still.

use oxc::{
    ast::ast::{AccessorProperty, AccessorPropertyType, Program, PropertyKey},
    ast_visit::{Visit, walk},
    span::GetSpan,
};

use crate::{erase, lowered::Lowered, splice::Edit};

const WORD: &str = "accessor";

/// The text of a program without accessors. `None` when it has none. One whose name is computed stays, and one that TypeScript's older decorators are
/// for.
pub(crate) fn lowered(program: &Program<'_>, text: &str) -> Option<Lowered> {
    if !text.contains(WORD) {
        return None;
    }
    let mut found = Accessors { text, edits: Vec::new() };
    found.visit_program(program);
    (!found.edits.is_empty()).then(|| Lowered::by(text, found.edits))
}

struct Accessors<'t> {
    text: &'t str,
    edits: Vec<Edit>,
}

impl Accessors<'_> {
    fn put(&mut self, at: u32, end: u32, text: String) {
        self.edits.push(Edit { at: at as usize, end: end as usize, text: Some(text), separates: false });
    }

    fn blank(&mut self, at: u32, end: u32, separates: bool) {
        self.edits.push(Edit { at: at as usize, end: end as usize, text: None, separates });
    }

    fn slice(&self, at: u32, end: u32) -> &str {
        self.text.get(at as usize..end as usize).unwrap_or("")
    }
}

impl<'a> Visit<'a> for Accessors<'_> {
    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        walk::walk_accessor_property(self, it);
        if it.computed || !it.decorators.is_empty() {
            return;
        }
        if it.r#type == AccessorPropertyType::TSAbstractAccessorProperty {
            // A field above without a semicolon must not go on below.
            self.blank(it.span.start, it.span.end, true);
            return;
        }
        let key = it.key.span();
        let before = self.slice(it.span.start, key.start);
        let Some(word) = before.rfind(WORD).and_then(|at| u32::try_from(at).ok()).map(|at| it.span.start + at) else { return };
        for (at, end) in erase::modifiers(self.slice(it.span.start, word), it.span.start) {
            self.blank(at, end, false);
        }
        let field = match &it.key {
            PropertyKey::StaticIdentifier(key) => format!("#accessor_{}", key.name),
            // No name begins with a digit, so it is nobody else's.
            _ => format!("#accessor_{}", it.span.start),
        };
        let (name, scope) = (self.slice(key.start, key.end).to_owned(), if it.r#static { "static " } else { "" });
        let end = if self.slice(it.span.start, it.span.end).ends_with(';') { "" } else { ";" };
        let pair = format!("{end} {scope}get {name}() {{ return this.{field} }} {scope}set {name}(value) {{ this.{field} = value }}");
        self.put(word, key.end, field);
        self.put(it.span.end, it.span.end, pair);
    }
}
