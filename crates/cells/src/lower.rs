//! Top-level declarations become `var`, so that they are properties of the global object and may be declared again.

use std::collections::HashSet;

use oxc::{
    allocator::{Allocator, TakeIn},
    ast::{
        ast::{
            Argument, BindingPattern, ClassType, Expression, Program, Statement, VariableDeclaration, VariableDeclarationKind,
            VariableDeclarator,
        },
        builder::AstBuilder,
    },
    span::{GetSpan, SPAN},
};

/// What of the cell's own text decides the lowering, read before types are stripped.
pub(crate) struct Outline {
    /// The last statement makes code whose value is nobody's.
    ends_without_value: bool,
    enums: HashSet<String>,
}

/// Reads the outline, and drops statements that only import types.
pub(crate) fn outline(program: &mut Program<'_>) -> Outline {
    let last = program.body.iter().rev().find(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let ends_without_value = last.is_some_and(|statement| {
        let makes_code =
            matches!(statement, Statement::TSEnumDeclaration(_) | Statement::TSNamespaceDeclaration(_) | Statement::ClassDeclaration(_));
        makes_code || statement.is_module_declaration()
    });
    let enums = program
        .body
        .iter()
        .filter_map(|statement| match statement {
            Statement::TSEnumDeclaration(it) => Some(it.id.name.to_string()),
            _ => None,
        })
        .collect();
    program.body.retain(|statement| !statement.is_module_declaration());
    Outline { ends_without_value, enums }
}

/// Lowers the top level.
pub(crate) fn lower<'a>(program: &mut Program<'a>, allocator: &'a Allocator, outline: &Outline) {
    let build = AstBuilder::new(allocator);
    for statement in &mut program.body {
        match statement {
            Statement::VariableDeclaration(declaration) => {
                lower_variables(declaration, &build);
                forget_former_enum(declaration, &outline.enums, &build);
            }
            Statement::ClassDeclaration(_) => *statement = class_to_variable(statement.take_in(&build), &build),
            _ => {}
        }
    }
    if outline.ends_without_value {
        let nothing = Expression::new_void_0(SPAN, &build);
        program.body.push(Statement::new_expression_statement(SPAN, nothing, &build));
    }
}

/// `let x` of a new cell starts as `undefined`, whatever `x` was; a plain `var x` would keep the old value.
fn lower_variables<'a>(declaration: &mut VariableDeclaration<'a>, build: &AstBuilder<'a>) {
    if declaration.kind == VariableDeclarationKind::Let {
        for declarator in &mut declaration.declarations {
            if declarator.init.is_none() {
                declarator.init = Some(Expression::new_void_0(SPAN, build));
            }
        }
    }
    declaration.kind = VariableDeclarationKind::Var;
}

/// `var E = (function (E) {…})(E || {})` of a declared enum must not go on with the `E` of an earlier cell.
fn forget_former_enum<'a>(declaration: &mut VariableDeclaration<'a>, enums: &HashSet<String>, build: &AstBuilder<'a>) {
    for declarator in &mut declaration.declarations {
        let is_enum = matches!(&declarator.id, BindingPattern::BindingIdentifier(id) if enums.contains(id.name.as_str()));
        if let (true, Some(Expression::CallExpression(call))) = (is_enum, &mut declarator.init)
            && let Some(argument @ Argument::LogicalExpression(_)) = call.arguments.first_mut()
        {
            *argument = Argument::new_object_expression(SPAN, [], build);
        }
    }
}

/// `class A {}` becomes `var A = class A {}`.
fn class_to_variable<'a>(statement: Statement<'a>, build: &AstBuilder<'a>) -> Statement<'a> {
    let span = statement.span();
    let Statement::ClassDeclaration(mut class) = statement else { return statement };
    let Some(name) = class.id.as_ref().map(|id| (id.span, id.name)) else { return Statement::ClassDeclaration(class) };
    class.r#type = ClassType::ClassExpression;
    let id = BindingPattern::new_binding_identifier(name.0, name.1, build);
    let declarator = VariableDeclarator::new(span, id, None, Some(Expression::ClassExpression(class)), false, build);
    Statement::VariableDeclaration(VariableDeclaration::boxed(span, VariableDeclarationKind::Var, [declarator], false, build))
}
