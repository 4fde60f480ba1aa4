//! `import` declarations become declarations: a script has no modules, but it may wait for them.
//!
//! `import d, { a as b } from "m"` is `const { default: d, a: b = … } = await import("m")` at the top of the cell, the default being an error
//! that says that the module has no `a`. Like every top-level `const` it may be declared again.

use std::collections::HashSet;

use oxc::{
    allocator::{Allocator, Vec as ArenaVec},
    ast::{
        ast::{
            Argument, BindingIdentifier, BindingPattern, BindingProperty, Expression, ImportAttributeKey, ImportDeclaration,
            ImportDeclarationSpecifier, ModuleExportName, Program, PropertyKey, Statement, StringLiteral, TSImportEqualsDeclaration,
            TSModuleReference, TSTypeName, TSTypeReference, VariableDeclaration, VariableDeclarationKind, VariableDeclarator, WithClause,
        },
        builder::AstBuilder,
    },
    ast_visit::{Visit, walk},
    span::{GetSpan, SPAN, Span},
};

/// Lowers every import that can be; what stays is of types only, or for the check to refuse. Answers whether there was one.
pub(crate) fn lower<'a>(program: &mut Program<'a>, allocator: &'a Allocator) -> bool {
    if !program.body.iter().any(Statement::is_module_declaration) && !program.body.iter().any(is_import_equals) {
        return false;
    }
    let mut types = Types::default();
    types.visit_program(program);
    let lowering = Lowering { build: AstBuilder::new(allocator), allocator, types: types.names };
    let mut first = ArenaVec::new_in(&allocator);
    let mut rest = ArenaVec::new_in(&allocator);
    for statement in std::mem::replace(&mut program.body, ArenaVec::new_in(&allocator)) {
        match lowering.statement(&statement) {
            Some(lowered) => first.push(lowered),
            None => rest.push(statement),
        }
    }
    let lowered = !first.is_empty();
    first.extend(rest);
    program.body = first;
    lowered
}

/// `with { type: "json" }`, which the name of a module says anyway.
fn is_of_json(clause: &WithClause<'_>) -> bool {
    clause
        .with_entries
        .iter()
        .all(|entry| matches!(&entry.key, ImportAttributeKey::Identifier(name) if name.name == "type") && entry.value.value == "json")
}

fn is_import_equals(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::TSImportEqualsDeclaration(_))
}

/// The names that stand where only types do: an import of one need not be a value.
#[derive(Default)]
struct Types {
    names: HashSet<String>,
}

impl<'a> Visit<'a> for Types {
    fn visit_ts_type_reference(&mut self, it: &TSTypeReference<'a>) {
        if let TSTypeName::IdentifierReference(name) = &it.type_name {
            self.names.insert(name.name.to_string());
        }
        walk::walk_ts_type_reference(self, it);
    }
}

struct Lowering<'a> {
    build: AstBuilder<'a>,
    allocator: &'a Allocator,
    types: HashSet<String>,
}

impl<'a> Lowering<'a> {
    fn statement(&self, statement: &Statement<'a>) -> Option<Statement<'a>> {
        match statement {
            Statement::ImportDeclaration(import)
                if !import.import_kind.is_type() && import.phase.is_none() && import.with_clause.as_deref().is_none_or(is_of_json) =>
            {
                Some(self.import(import))
            }
            Statement::TSImportEqualsDeclaration(import) if !import.import_kind.is_type() => self.import_equals(import),
            _ => None,
        }
    }

    fn import(&self, import: &ImportDeclaration<'a>) -> Statement<'a> {
        let build = &self.build;
        let mut properties = ArenaVec::new_in(&self.allocator);
        let mut namespace = None;
        for specifier in import.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(it) if it.import_kind.is_type() => {}
                ImportDeclarationSpecifier::ImportSpecifier(it) => {
                    properties.push(self.property(
                        it.span,
                        self.key(&it.imported),
                        &it.local,
                        self.missing(&it.imported, &it.local, &import.source),
                    ));
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => {
                    properties.push(self.property(it.span, PropertyKey::new_static_identifier(SPAN, "default", build), &it.local, None));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => namespace = Some(&it.local),
            }
        }
        let mut declarators = ArenaVec::new_in(&self.allocator);
        if let Some(local) = namespace {
            declarators.push(self.declarator(import.span, binding(local, build), self.load(&import.source)));
        }
        // An import of nothing still loads the module.
        if !properties.is_empty() || namespace.is_none() {
            let pattern = BindingPattern::new_object_pattern(SPAN, properties, None, build);
            declarators.push(self.declarator(import.span, pattern, self.load(&import.source)));
        }
        self.declaration(import.span, declarators)
    }

    /// `import x = require("m")`.
    fn import_equals(&self, import: &TSImportEqualsDeclaration<'a>) -> Option<Statement<'a>> {
        let TSModuleReference::ExternalModuleReference(reference) = &import.module_reference else { return None };
        let build = &self.build;
        let source = Expression::new_string_literal(reference.expression.span, reference.expression.value, None, build);
        let callee = Expression::new_identifier(reference.span, "require", build);
        let call = Expression::new_call_expression(reference.span, callee, None, [Argument::from(source)], false, build);
        let mut declarators = ArenaVec::new_in(&self.allocator);
        declarators.push(self.declarator(import.span, binding(&import.id, build), call));
        Some(self.declaration(import.span, declarators))
    }

    fn declaration(&self, span: Span, declarators: ArenaVec<'a, VariableDeclarator<'a>>) -> Statement<'a> {
        let kind = VariableDeclarationKind::Const;
        Statement::VariableDeclaration(VariableDeclaration::boxed(span, kind, declarators, false, &self.build))
    }

    fn declarator(&self, span: Span, id: BindingPattern<'a>, init: Expression<'a>) -> VariableDeclarator<'a> {
        VariableDeclarator::new(span, id, None, Some(init), false, &self.build)
    }

    /// `await import("m")`.
    fn load(&self, source: &StringLiteral<'a>) -> Expression<'a> {
        let name = Expression::new_string_literal(source.span, source.value, None, &self.build);
        let import = Expression::new_import_expression(source.span, name, None, None, &self.build);
        Expression::new_await_expression(source.span, import, &self.build)
    }

    fn property(
        &self,
        span: Span,
        key: PropertyKey<'a>,
        local: &BindingIdentifier<'a>,
        otherwise: Option<Expression<'a>>,
    ) -> BindingProperty<'a> {
        let mut value = binding(local, &self.build);
        if let Some(otherwise) = otherwise {
            value = BindingPattern::new_assignment_pattern(span, value, otherwise, &self.build);
        }
        BindingProperty::new(span, key, value, false, false, &self.build)
    }

    fn key(&self, name: &ModuleExportName<'a>) -> PropertyKey<'a> {
        match name {
            ModuleExportName::StringLiteral(literal) => {
                PropertyKey::from(Expression::new_string_literal(literal.span, literal.value, None, &self.build))
            }
            name => PropertyKey::new_static_identifier(name.span(), name.name().as_str(), &self.build),
        }
    }

    /// What a named import is when the module has none of that name: `await Promise.reject(new SyntaxError("…"))`, which is the shortest
    /// expression that throws. Nothing for a name that this cell uses as a type.
    fn missing(
        &self,
        imported: &ModuleExportName<'a>,
        local: &BindingIdentifier<'a>,
        source: &StringLiteral<'a>,
    ) -> Option<Expression<'a>> {
        if self.types.contains(local.name.as_str()) {
            return None;
        }
        let build = &self.build;
        let span = local.span;
        let text = format!("The requested module '{}' does not provide an export named '{}'", source.value, imported.name());
        let message = Expression::new_string_literal(SPAN, self.allocator.alloc_str(&text) as &str, None, build);
        let constructor = Expression::new_identifier(span, "SyntaxError", build);
        let error = Expression::new_new_expression(span, constructor, None, [Argument::from(message)], build);
        let promise = Expression::new_identifier(span, "Promise", build);
        let reject = Expression::new_static_member_expression(
            span,
            promise,
            oxc::ast::ast::IdentifierName::new(SPAN, "reject", build),
            false,
            build,
        );
        let rejected = Expression::new_call_expression(span, reject, None, [Argument::from(error)], false, build);
        Some(Expression::new_await_expression(span, rejected, build))
    }
}

fn binding<'a>(local: &BindingIdentifier<'a>, build: &AstBuilder<'a>) -> BindingPattern<'a> {
    BindingPattern::new_binding_identifier(local.span, local.name, build)
}
