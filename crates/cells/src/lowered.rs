//! A text that edits have made of a cell's, before the rest of it is read: TypeScript still.

use oxc::{
    allocator::Allocator,
    ast::ast::Program,
    parser::{ParseOptions, Parser},
    span::SourceType,
};

use crate::{
    position::Anchor,
    splice::{self, Edit},
};

/// The text, and where each stretch of it came from.
pub(crate) struct Lowered {
    pub(crate) text: String,
    pub(crate) anchors: Vec<Anchor>,
}

impl Lowered {
    /// Of a text with these edits, which come in any order.
    pub(crate) fn by(text: &str, mut edits: Vec<Edit>) -> Self {
        edits.sort_by_key(|edit| edit.at);
        let (text, anchors) = splice::apply(text, &edits);
        Self { text, anchors }
    }
}

/// Reads a text as a module, and as a script where only that makes sense. `None` when it is neither, which whoever reads it next says.
pub(crate) fn read<'a>(allocator: &'a Allocator, text: &'a str, source_type: SourceType) -> Option<Program<'a>> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let read_as = |source_type: SourceType| {
        let parsed = Parser::new(allocator, text, source_type).with_options(options).parse();
        (!parsed.panicked && parsed.diagnostics.is_empty()).then_some(parsed.program)
    };
    read_as(source_type.with_module(true)).or_else(|| read_as(source_type.with_script(true)))
}
