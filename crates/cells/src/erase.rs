//! What a cell's own text must lose or gain to be a script. Most cells need so little that the rest stays where it is, letter by letter:
//! types become blanks, a top-level `let` or `const` becomes `var`. So every position of the script is one of the cell.

use oxc::{
    ast::ast::{
        ArrowFunctionExpression, Class, ClassElement, Decorator, Expression, FormalParameter, Function, IdentifierReference, JSXElement,
        JSXFragment, MethodDefinition, MethodDefinitionType, Program, PropertyDefinition, PropertyDefinitionType, PropertyKey,
        ReturnStatement, Statement, TSAsExpression, TSEnumDeclaration, TSIndexSignature, TSInterfaceDeclaration, TSNamespaceDeclaration,
        TSNonNullExpression, TSSatisfiesExpression, TSThisParameter, TSType, TSTypeAliasDeclaration, TSTypeAnnotation, TSTypeAssertion,
        TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclaration, VariableDeclarationKind, VariableDeclarator,
    },
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};

use crate::{
    check::Findings,
    constants::{Known, THROWS},
    ends::{CELL, DISPOSE, USE},
    splice::Edit,
};

/// Words before a class member that are types only.
const MODIFIERS: [&str; 7] = ["public", "private", "protected", "readonly", "override", "declare", "abstract"];

/// Edits that may follow the blank at the end of a statement.
const EDITS_AT_ONE_PLACE_MAX: usize = 4;

/// The edits that make the program a script, in order. `None` when it needs more than edits.
pub(crate) fn edits(program: &Program<'_>, text: &str, known: Known<'_>, findings: &Findings) -> Option<Vec<Edit>> {
    let mut eraser = Eraser { text, known, edits: Vec::new(), needs_printing: false, findings, functions: 0 };
    if findings.ends.is_some() {
        // A cell that returns is a block that can be left, one that uses resources lets go of them at its end.
        let start = program.body.first().map_or(0, |first| first.span().start);
        let block = if findings.returns { format!("{CELL}: {{") } else { String::new() };
        let uses = if findings.resources.is_empty() { "" } else { "try {" };
        eraser.put(start, start, format!("{block}{uses}{}", kept_functions(program)));
    }
    for statement in &program.body {
        eraser.visit_top_level(statement);
    }
    for directive in &program.directives {
        eraser.visit_directive(directive);
    }
    if eraser.needs_printing {
        return None;
    }
    eraser.edits.sort_by_key(|edit| edit.at);
    if findings.ends.is_some() {
        let end = length(text);
        let [dispose, dispose_async] = DISPOSE;
        let disposes = match (!findings.resources.is_empty(), findings.awaits) {
            (true, true) => format!("\n}} finally {{ await babelHelpers.{dispose_async}() }}"),
            (true, false) => format!("\n}} finally {{ babelHelpers.{dispose}() }}"),
            (false, _) => String::new(),
        };
        eraser.put(end, end, format!("{disposes}{}", if findings.returns { "\n}" } else { "" }));
    }
    Some(eraser.edits)
}

/// Functions of the top level that a block would keep to itself, told to later cells: of a plain one the language says so.
fn kept_functions(program: &Program<'_>) -> String {
    let functions = program.body.iter().filter_map(|statement| match statement {
        Statement::FunctionDeclaration(it) if it.body.is_some() && (it.r#async || it.generator) => it.id.as_ref(),
        _ => None,
    });
    functions.map(|id| format!("void (globalThis.{0} = {0});", id.name)).collect()
}

/// Where the words stand that are types only, in what is before a class member's name. `start` is where that begins.
pub(crate) fn modifiers(before: &str, start: u32) -> Vec<(u32, u32)> {
    let mut at = start;
    let mut found = Vec::new();
    for word in before.split_inclusive(|c: char| !c.is_ascii_alphabetic()) {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        if MODIFIERS.contains(&name) {
            found.push((at, at + length(name)));
        }
        at += length(word);
    }
    found
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// Where the mark stands in code between two tokens.
fn find_outside_comments(text: &str, mark: char) -> Option<usize> {
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        if let Some(comment) = rest.strip_prefix("/*") {
            at += 4 + comment.find("*/")?;
        } else if let Some(comment) = rest.strip_prefix("//") {
            at += 2 + comment.find('\n')?;
        } else {
            let next = rest.chars().next()?;
            if next == mark {
                return Some(at);
            }
            at += next.len_utf8();
        }
    }
    None
}

struct Eraser<'t> {
    text: &'t str,
    known: Known<'t>,
    edits: Vec<Edit>,
    needs_printing: bool,
    findings: &'t Findings,
    /// Functions that the visit is in.
    functions: usize,
}

impl Eraser<'_> {
    fn visit_top_level(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::VariableDeclaration(it) if !it.declare => self.top_level_variables(it),
            Statement::ClassDeclaration(it) if !it.declare => {
                if let Some(id) = &it.id {
                    self.put(it.span.start, it.span.start, format!("var {} = ", id.name));
                }
                self.visit_class(it);
                self.put(it.span.end, it.span.end, ";".to_owned());
                return;
            }
            _ => {}
        }
        self.visit_statement(statement);
    }

    /// A new `let x` starts as `undefined`, whatever `x` was; a plain `var x` would keep the old value.
    fn top_level_variables(&mut self, it: &VariableDeclaration<'_>) {
        match self.findings.resources.get(&it.span.start) {
            Some(true) => return self.resources(it, "await using", USE[1]),
            Some(false) => return self.resources(it, "using", USE[0]),
            None => {}
        }
        let keyword = match it.kind {
            VariableDeclarationKind::Let => "let",
            VariableDeclarationKind::Const => "const",
            _ => return,
        };
        let padded = format!("{:width$}", "var", width = keyword.len());
        self.put(it.span.start, it.span.start + length(keyword), padded);
        for declarator in &it.declarations {
            if declarator.init.is_none() {
                // The last one ends the statement, whatever the next line begins with.
                let value = if declarator.span.end == it.span.end { " = void 0;" } else { " = void 0" };
                self.put(declarator.span.end, declarator.span.end, value.to_owned());
            }
        }
    }

    /// A resource of the cell: its name stays, and it is let go of at the cell's end.
    fn resources(&mut self, it: &VariableDeclaration<'_>, keyword: &str, helper: &str) {
        let first = it.declarations.first().map_or(it.span.end, |declarator| declarator.span.start);
        let padded = format!("{:width$}", "var ", width = keyword.len() + 1);
        self.put(it.span.start, first, padded);
        for declarator in &it.declarations {
            if let Some(init) = &declarator.init {
                self.put(init.span().start, init.span().start, format!("babelHelpers.{helper}("));
                self.put(init.span().end, init.span().end, ")".to_owned());
            }
        }
    }

    fn put(&mut self, at: u32, end: u32, text: String) {
        self.edits.push(Edit { at: at as usize, end: end as usize, text: Some(text), separates: false });
    }

    fn blank(&mut self, at: u32, end: u32) {
        if at < end {
            self.edits.push(Edit { at: at as usize, end: end as usize, text: None, separates: false });
        }
    }

    /// Blanks a whole statement or member; what stood before and after it stays apart.
    fn blank_whole(&mut self, span: Span) {
        self.blank(span.start, span.end);
        if let Some(edit) = self.edits.last_mut() {
            edit.separates = true;
        }
    }

    fn slice(&self, at: u32, end: u32) -> &str {
        self.text.get(at as usize..end as usize).unwrap_or("")
    }

    /// Where a blank ends a statement that has no semicolon, the next line must not go on with it.
    fn separate(&mut self, end: u32) {
        let end = end as usize;
        let recent = || self.edits.iter().rev().take(EDITS_AT_ONE_PLACE_MAX);
        if recent().any(|edit| edit.at == end) || self.text.as_bytes().get(end.wrapping_sub(1)) == Some(&b';') {
            return;
        }
        if let Some(edit) = self.edits.iter_mut().rev().take(EDITS_AT_ONE_PLACE_MAX).find(|edit| edit.end == end && edit.text.is_none()) {
            edit.separates = true;
        }
    }

    /// Blanks the first `mark` between two places.
    fn blank_mark(&mut self, mark: char, at: u32, end: u32) {
        let found = find_outside_comments(self.slice(at, end), mark).and_then(|found| u32::try_from(found).ok());
        if let Some(found) = found {
            self.blank(at + found, at + found + 1);
        }
    }

    /// Blanks `keyword` and the type behind it, as in `x as T`.
    fn blank_behind(&mut self, keyword: &str, expression: &Expression<'_>, whole: Span, type_start: u32) {
        let between = self.slice(expression.span().end, type_start);
        match between.rfind(keyword).and_then(|at| u32::try_from(at).ok()) {
            Some(at) if !between.contains("//") && !between.contains("/*") => self.blank(expression.span().end + at, whole.end),
            _ => self.needs_printing = true,
        }
    }

    /// Blanks the words before a class member's name that are types only.
    fn modifiers(&mut self, start: u32, key_start: u32) {
        for (at, end) in modifiers(self.slice(start, key_start), start) {
            self.blank(at, end);
            if let Some(edit) = self.edits.last_mut().filter(|_| at == start) {
                // A field above without a semicolon must not go on here.
                edit.separates = true;
            }
        }
    }

    /// The end of a member's name, its bracket included.
    fn key_end(&self, key: &PropertyKey<'_>, computed: bool, end: u32) -> u32 {
        let at = key.span().end;
        if !computed {
            return at;
        }
        self.slice(at, end).find(']').and_then(|found| u32::try_from(found).ok()).map_or(at, |found| at + found + 1)
    }
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        match it {
            Statement::VariableDeclaration(declaration) if declaration.declare => return self.blank_whole(declaration.span),
            Statement::ClassDeclaration(class) if class.declare => return self.blank_whole(class.span),
            Statement::FunctionDeclaration(function) if function.body.is_none() => return self.blank_whole(function.span),
            Statement::TSGlobalDeclaration(_) | Statement::TSExternalModuleDeclaration(_) | Statement::TSImportEqualsDeclaration(_) => {
                self.needs_printing = true;
            }
            _ => {}
        }
        walk::walk_statement(self, it);
        self.separate(it.span().end);
    }

    fn visit_ts_interface_declaration(&mut self, it: &TSInterfaceDeclaration<'a>) {
        self.blank_whole(it.span);
    }

    fn visit_ts_type_alias_declaration(&mut self, it: &TSTypeAliasDeclaration<'a>) {
        self.blank_whole(it.span);
    }

    fn visit_ts_type(&mut self, _: &TSType<'a>) {}

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        let start = match self.slice(it.span.start, it.span.end).starts_with(':') {
            true => it.span.start,
            false => self.slice(0, it.span.start).rfind(':').and_then(|at| u32::try_from(at).ok()).unwrap_or(it.span.start),
        };
        self.blank(start, it.span.end);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span.start, it.span.end);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank_behind("as", &it.expression, it.span, it.type_annotation.span().start);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank_behind("satisfies", &it.expression, it.span, it.type_annotation.span().start);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.span.end - 1, it.span.end);
    }

    fn visit_ts_type_assertion(&mut self, _: &TSTypeAssertion<'a>) {
        self.needs_printing = true;
    }

    fn visit_ts_enum_declaration(&mut self, _: &TSEnumDeclaration<'a>) {
        self.needs_printing = true;
    }

    fn visit_ts_namespace_declaration(&mut self, _: &TSNamespaceDeclaration<'a>) {
        self.needs_printing = true;
    }

    fn visit_decorator(&mut self, _: &Decorator<'a>) {
        self.needs_printing = true;
    }

    fn visit_jsx_element(&mut self, _: &JSXElement<'a>) {
        self.needs_printing = true;
    }

    fn visit_jsx_fragment(&mut self, _: &JSXFragment<'a>) {
        self.needs_printing = true;
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.blank_mark('!', it.id.span().end, it.span.end);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            self.needs_printing = true;
        }
        if it.optional {
            self.blank_mark('?', it.pattern.span().end, it.span.end);
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        let rest = self.text.get(it.span.end as usize..).unwrap_or("");
        let comma = rest.find([',', ')']).filter(|at| rest.as_bytes().get(*at) == Some(&b','));
        self.blank(it.span.start, it.span.end + comma.map_or(0, |at| u32::try_from(at).unwrap_or(0) + 1));
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.functions += 1;
        walk::walk_function(self, it, flags);
        self.functions -= 1;
    }

    /// Leaves the cell with a value.
    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        if self.functions > 0 {
            return walk::walk_return_statement(self, it);
        }
        const WORD: u32 = 6;
        self.put(it.span.start, it.span.start + WORD, "{ host.final(".to_owned());
        if let Some(argument) = &it.argument {
            self.visit_expression(argument);
        }
        let end = it.argument.as_ref().map_or(it.span.start + WORD, |argument| argument.span().end);
        self.put(end, it.span.end, format!("); break {CELL} }}"));
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.functions += 1;
        // Between `async`, the parameters and `=>` no line may end, and the types may span some.
        let spans = [it.type_parameters.as_ref().map(|it| it.span), it.return_type.as_ref().map(|it| it.span)];
        self.needs_printing |= spans.into_iter().flatten().any(|span| self.slice(span.start, span.end).contains(['\n', '\r']));
        walk::walk_arrow_function_expression(self, it);
        self.functions -= 1;
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.r#abstract {
            self.modifiers(it.span.start, it.id.as_ref().map_or(it.body.span.start, |id| id.span.start));
            if let Some(edit) = self.edits.last_mut() {
                edit.separates = false;
            }
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            match self.slice(it.span.start, first.span.start).rfind("implements").and_then(|at| u32::try_from(at).ok()) {
                Some(at) => self.blank(it.span.start + at, last.span.end),
                None => self.needs_printing = true,
            }
        }
        for decorator in &it.decorators {
            self.visit_decorator(decorator);
        }
        if let Some(parameters) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(parameters);
        }
        if let Some(heritage) = &it.heritage {
            self.visit_expression(&heritage.expression);
            if let Some(arguments) = &heritage.type_arguments {
                self.visit_ts_type_parameter_instantiation(arguments);
            }
        }
        for member in &it.body.body {
            self.visit_class_element(member);
            if let ClassElement::PropertyDefinition(_) = member {
                self.separate(member.span().end);
            }
        }
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.blank_whole(it.span);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.r#type == MethodDefinitionType::TSAbstractMethodDefinition || it.value.body.is_none() {
            return self.blank_whole(it.span);
        }
        self.modifiers(it.span.start, it.key.span().start);
        if it.optional {
            self.blank_mark('?', self.key_end(&it.key, it.computed, it.span.end), it.span.end);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition || it.declare {
            return self.blank_whole(it.span);
        }
        self.modifiers(it.span.start, it.key.span().start);
        let end = it.type_annotation.as_ref().map(|it| it.span.start).or_else(|| it.value.as_ref().map(|it| it.span().start));
        if it.optional || it.definite {
            let mark = if it.optional { '?' } else { '!' };
            self.blank_mark(mark, self.key_end(&it.key, it.computed, it.span.end), end.unwrap_or(it.span.end));
        }
        walk::walk_property_definition(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.known.is_assigned(it) {
            self.put(it.span.start, it.span.end, THROWS.to_owned());
        }
    }

    fn visit_assignment_target_property_identifier(&mut self, it: &oxc::ast::ast::AssignmentTargetPropertyIdentifier<'a>) {
        if self.known.is_assigned(&it.binding) {
            self.put(it.binding.span.end, it.binding.span.end, format!(": {THROWS}"));
        }
        if let Some(init) = &it.init {
            self.visit_expression(init);
        }
    }
}
