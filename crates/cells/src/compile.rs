//! Source in, script out: parse, check, strip types, lower, print.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use oxc::{
    allocator::Allocator,
    ast::ast::{Program, Statement, VariableDeclarationKind},
    codegen::{Codegen, CodegenOptions, CodegenReturn},
    diagnostics::OxcDiagnostic,
    parser::{ParseOptions, Parser},
    semantic::{Scoping, SemanticBuilder, SymbolFlags},
    span::SourceType,
    transformer::{DecoratorOptions, HelperLoaderMode, HelperLoaderOptions, JsxOptions, JsxRuntime, TransformOptions, Transformer},
};

use crate::{
    accessors, check,
    constants::{self, Known},
    cost, decorate, deep, ends, erase, imports,
    language::Language,
    lower,
    lowered::Lowered,
    modular, namespaces,
    position::Positions,
    splice,
    syntax_error::SyntaxError,
};

/// How to read a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The language of the source.
    pub language: Language,
    /// The name that stack traces show.
    pub filename: String,
    /// Names that earlier cells have declared with `const`: to assign to one throws.
    pub constants: BTreeSet<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { language: Language::default(), filename: "cell.ts".to_owned(), constants: BTreeSet::new() }
    }
}

/// A name that a cell declares for the cells after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The name.
    pub name: String,
    /// It was declared with `const`.
    pub is_constant: bool,
}

/// A script for global scope, not strict, whose completion value is the cell's value.
#[derive(Debug, Clone)]
pub struct Script {
    /// The script.
    pub code: String,
    /// The cell awaits at its top level: the script is evaluated as an async one, still at global scope.
    pub is_async: bool,
    /// The name that stack traces show.
    pub filename: String,
    /// What it declares at its top level.
    pub declared: Vec<Declared>,
    positions: Positions,
}

impl Script {
    /// The place in the cell's source that a place in [`Script::code`] came from. All numbers count from 1; the argument's column is in
    /// UTF-8 bytes, as the engine reports it, the answer's in characters. `None` when the script has no such line or nothing of the cell
    /// is left in it.
    #[must_use]
    pub fn original_position(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        self.positions.original(&self.code, line, column)
    }
}

/// Compiles a cell.
///
/// # Errors
/// When the source is no cell: it cannot be parsed, breaks a rule that is checked before anything runs, exports what another module has, or is larger or
/// deeper than [`crate::SOURCE_BYTES_MAX`] and [`crate::NESTING_MAX`] allow.
pub fn compile(source: &str, options: &Options) -> Result<Script, SyntaxError> {
    deep::admit(source)?;
    cost::admit(source, options.language)?;
    deep::with_stack(source, || compile_on_this_stack(source, options))
}

fn compile_on_this_stack(source: &str, options: &Options) -> Result<Script, SyntaxError> {
    let lowered = modular::lowered(source, options.language.source_type());
    let text = lowered.as_deref().unwrap_or(source);
    match namespaces::lowered(text, options.language.source_type()) {
        Some(lowered) => compile_lowered(source, lowered, options, |text| compile_decorated(text, text, options)),
        None => compile_decorated(source, text, options),
    }
}

fn compile_decorated(source: &str, text: &str, options: &Options) -> Result<Script, SyntaxError> {
    match decorate::lowered(text, options.language.source_type())? {
        Some(lowered) => compile_lowered(source, lowered, options, |text| compile_text(text, text, options)),
        None => compile_text(source, text, options),
    }
}

/// Compiles what the source was made into, which is longer; its places are the source's again.
fn compile_lowered(
    source: &str,
    lowered: Lowered,
    options: &Options,
    compile: impl FnOnce(&str) -> Result<Script, SyntaxError>,
) -> Result<Script, SyntaxError> {
    let admitted = deep::admit(&lowered.text).and_then(|()| cost::admit(&lowered.text, options.language));
    match admitted.and_then(|()| compile(&lowered.text)) {
        Ok(script) => Ok(Script { positions: script.positions.over(source, lowered.anchors), ..script }),
        Err(error) => Err(error.over(source, &lowered.text, &lowered.anchors)),
    }
}

/// Compiles a text without decorators of the proposal. `source` is where errors are told, as long as `text`.
fn compile_text(source: &str, text: &str, options: &Options) -> Result<Script, SyntaxError> {
    let allocator = Allocator::default();
    if looks_like_object(source) {
        let wrapped = format!("({source}\n)");
        if let Ok(program) = parse(&allocator, &wrapped, options.language) {
            return finish(&allocator, program, source, 1, &wrapped, options);
        }
    }
    let program =
        parse(&allocator, text, options.language).map_err(|diagnostics| SyntaxError::from_diagnostics(source, 0, &diagnostics))?;
    finish(&allocator, program, source, 0, text, options)
}

/// `{a: 1}` alone is an object for a person at a prompt, though a script would read a block.
fn looks_like_object(source: &str) -> bool {
    let mut rest = source.trim_start();
    loop {
        rest = if let Some(line) = rest.strip_prefix("//") {
            line.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(block) = rest.strip_prefix("/*") {
            block.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest.starts_with('{');
        };
        rest = rest.trim_start();
    }
}

/// Parses with `await` as an operator at the top level, and without where only that makes sense.
fn parse<'a>(allocator: &'a Allocator, text: &'a str, language: Language) -> Result<Program<'a>, Vec<OxcDiagnostic>> {
    let base = language.source_type();
    let parse_as = |source_type: SourceType| {
        let options = ParseOptions {
            parse_regular_expression: true,
            preserve_parens: false,
            allow_return_outside_function: true,
            ..ParseOptions::default()
        };
        let parsed = Parser::new(allocator, text, source_type).with_options(options).parse();
        if parsed.panicked || !parsed.diagnostics.is_empty() { Err(parsed.diagnostics.into_vec()) } else { Ok(parsed.program) }
    };
    let mut program = match parse_as(base.with_module(true)) {
        Ok(program) => program,
        Err(diagnostics) => parse_as(base.with_script(true)).map_err(|_| diagnostics)?,
    };
    // What follows judges the cell by the rules of a script: not strict, `var` and functions may repeat.
    program.source_type = base.with_script(true);
    Ok(program)
}

fn finish<'a>(
    allocator: &'a Allocator,
    mut program: Program<'a>,
    source: &str,
    prefix: usize,
    parsed: &str,
    options: &Options,
) -> Result<Script, SyntaxError> {
    if let Some(mut lowered) = accessors::lowered(&program, parsed) {
        for anchor in &mut lowered.anchors {
            *anchor = anchor.behind(prefix, source);
        }
        return compile_lowered(source, lowered, options, |text| compile_text(text, text, options));
    }
    let imports = imports::lower(&mut program, allocator);
    let findings = check::check(&program);
    if let Some((span, message)) = findings.refused {
        return Err(SyntaxError::at(source, (span.start as usize).saturating_sub(prefix), message));
    }
    declare_resources(&mut program);
    let failed =
        |diagnostics: &[OxcDiagnostic]| SyntaxError { at_end: false, ..SyntaxError::from_diagnostics(source, prefix, diagnostics) };
    let has_modules = imports || program.body.iter().any(Statement::is_module_declaration);
    let outline = lower::outline(&mut program);
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    if semantic.diagnostics.has_errors() {
        return Err(failed(&semantic.diagnostics));
    }
    let scoping = semantic.semantic.into_scoping();
    let declared = declared(&scoping);
    let script = |code, positions| Script { code, is_async: findings.awaits, filename: options.filename.clone(), declared, positions };
    let known = Known { scoping: &scoping, earlier: &options.constants };
    let edits = if has_modules { None } else { erase::edits(&program, parsed, known, &findings) };
    if let Some(edits) = edits {
        let (code, anchors) = splice::apply(parsed, &edits);
        let positions = Positions::of_edits(source, prefix, anchors, &code);
        return Ok(script(code, positions));
    }
    let assigned = known.assigned_in(&program);
    let transform = transform_options(options.language);
    let done = Transformer::new(allocator, Path::new(&options.filename), &transform).build_with_scoping(scoping, &mut program);
    if done.diagnostics.has_errors() {
        return Err(failed(&done.diagnostics));
    }
    constants::lower(&mut program, allocator, &assigned);
    lower::lower(&mut program, allocator, &outline);
    ends::lower(&mut program, allocator, &findings);
    let generated = print(&program);
    let positions = Positions::of_print(source, prefix, parsed, &generated);
    Ok(script(generated.code, positions))
}

/// A `using` at the top level declares a constant: a script may not have one, and what it lets go of the edits say.
fn declare_resources(program: &mut Program<'_>) {
    for statement in &mut program.body {
        if let Statement::VariableDeclaration(it) = statement
            && it.kind.is_using()
        {
            it.kind = VariableDeclarationKind::Const;
        }
    }
}

/// The top-level names, without those of types.
fn declared(scoping: &Scoping) -> Vec<Declared> {
    let symbols = scoping.iter_bindings_in(scoping.root_scope_id());
    let values = symbols.filter(|symbol| scoping.symbol_flags(*symbol).intersects(SymbolFlags::Value));
    let declared = values.map(|symbol| Declared {
        name: scoping.symbol_name(symbol).to_owned(),
        is_constant: scoping.symbol_flags(symbol).contains(SymbolFlags::ConstVariable),
    });
    declared.collect()
}

/// Decorators that are left are those of TypeScript's `experimentalDecorators`; JSX calls `React.createElement` unless a comment names another function.
fn transform_options(language: Language) -> TransformOptions {
    let jsx = match language {
        Language::Tsx | Language::Jsx => JsxOptions { runtime: JsxRuntime::Classic, pure: false, ..JsxOptions::enable() },
        Language::Typescript | Language::Javascript => JsxOptions::disable(),
    };
    TransformOptions {
        decorator: DecoratorOptions { legacy: true, ..DecoratorOptions::default() },
        helper_loader: HelperLoaderOptions { mode: HelperLoaderMode::External, ..HelperLoaderOptions::default() },
        jsx,
        ..TransformOptions::default()
    }
}

fn print<'a>(program: &Program<'a>) -> CodegenReturn<'a> {
    // Indentation would make the script's size the square of the source's depth.
    let options = CodegenOptions { indent_width: 0, source_map_path: Some(PathBuf::from("cell")), ..CodegenOptions::default() };
    Codegen::new().with_options(options).build(program)
}
