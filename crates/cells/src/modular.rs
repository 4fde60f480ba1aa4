//! What only a module may say is taken out of a cell's text before it is read as a script: blanks and a name of the same length stand there, so
//! that every position stays.

use oxc::{
    allocator::Allocator,
    ast::ast::{ExportDefaultDeclarationKind, ImportMeta, Program, Statement},
    ast_visit::Visit,
    span::{GetSpan, SourceType, Span},
};

use crate::lowered;

/// The global that stands for `import.meta`: as long as that.
const META: &str = "$importMeta";
const EXPORT: u32 = 6;
/// What stands for `export default` before a function or a class without a name, which is a value then.
const VALUE: &str = "void 0,";

/// The text without its exports: a declaration is itself, a default is a value. `None` when there are none, or when it cannot be read at all.
pub(crate) fn lowered(text: &str, source_type: SourceType) -> Option<String> {
    if !text.contains("export") && !text.contains("import.meta") {
        return None;
    }
    let allocator = Allocator::default();
    let program = lowered::read(&allocator, text, source_type)?;
    let mut spans = Spans::default();
    spans.exports(&program);
    spans.visit_program(&program);
    let mut bytes = text.as_bytes().to_vec();
    for (span, value) in &spans.found {
        let place = bytes.get_mut(span.start as usize..span.end as usize)?;
        let end = place.len().saturating_sub(value.len());
        for byte in place.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
        place.get_mut(end..)?.copy_from_slice(value.as_bytes());
    }
    // Blanks take the place of whole words and names, so what is there is text still.
    if spans.found.is_empty() { None } else { String::from_utf8(bytes).ok() }
}

#[derive(Default)]
struct Spans {
    /// What goes, and what stands at its end then.
    found: Vec<(Span, &'static str)>,
}

impl Spans {
    fn exports(&mut self, program: &Program<'_>) {
        for statement in &program.body {
            match statement {
                // Decorators may stand before the word.
                Statement::ExportDeclaration(it) if it.declaration.span().start < it.span.start => {
                    self.put(it.span.start, it.span.start + EXPORT, "")
                }
                Statement::ExportDeclaration(it) => self.put(it.span.start, it.declaration.span().start, ""),
                Statement::ExportNamedDeclaration(it) => self.put(it.span.start, it.span.end, ""),
                Statement::ExportDefaultDeclaration(it) => {
                    let is_unnamed = match &it.declaration {
                        ExportDefaultDeclarationKind::FunctionDeclaration(function) => function.id.is_none(),
                        ExportDefaultDeclarationKind::ClassDeclaration(class) => class.id.is_none(),
                        _ => false,
                    };
                    // An object would be read as a block.
                    let is_object = matches!(&it.declaration, ExportDefaultDeclarationKind::ObjectExpression(_));
                    self.put(it.span.start, it.declaration.span().start, if is_unnamed || is_object { VALUE } else { "" });
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, start: u32, end: u32, value: &'static str) {
        self.found.push((Span::new(start, end), value));
    }
}

impl Visit<'_> for Spans {
    fn visit_import_meta(&mut self, it: &ImportMeta) {
        // One that is spelled with blanks inside is longer.
        self.put(it.span.start, it.span.end, META);
    }
}
