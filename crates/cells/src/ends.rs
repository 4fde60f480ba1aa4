//! What ends with the cell, in one that is printed anew: a `return` at its top level leaves a labelled block, resources of its `using` are let go of
//! in a `finally`. The edits of a cell that keeps its text (`erase`) say the same.

use oxc::{
    allocator::{Allocator, TakeIn, Vec as ArenaVec},
    ast::{
        ast::{
            Argument, ArrowFunctionExpression, BlockStatement, Expression, Function, IdentifierName, LabelIdentifier, Program, Statement,
        },
        builder::AstBuilder,
    },
    ast_visit::{VisitMut, walk_mut},
    span::{SPAN, Span},
    syntax::scope::ScopeFlags,
};

use crate::check::Findings;

/// The block that a `return` leaves.
pub(crate) const CELL: &str = "$cell";
/// Of the helpers that take a resource and let go of all, those that wait and those that do not.
pub(crate) const USE: [&str; 2] = ["using", "usingAsync"];
pub(crate) const DISPOSE: [&str; 2] = ["dispose", "disposeAsync"];

/// Lowers both in a program whose top level is a script's already.
pub(crate) fn lower<'a>(program: &mut Program<'a>, allocator: &'a Allocator, findings: &Findings) {
    if findings.ends.is_none() {
        return;
    }
    let build = AstBuilder::new(allocator);
    let mut leaving = Leaving { build: AstBuilder::new(allocator), functions: 0 };
    leaving.visit_program(program);
    for statement in &mut program.body {
        if let Statement::VariableDeclaration(it) = statement
            && let Some(waits) = findings.resources.get(&it.span.start)
        {
            for declarator in &mut it.declarations {
                declarator.init = declarator.init.take().map(|init| helper(USE, *waits, Some(init), &build));
            }
        }
    }
    // Functions stay where later cells see them, and are there before anything runs.
    let (mut functions, mut rest) = (ArenaVec::new_in(&allocator), ArenaVec::new_in(&allocator));
    for statement in std::mem::replace(&mut program.body, ArenaVec::new_in(&allocator)) {
        if matches!(statement, Statement::FunctionDeclaration(_)) { functions.push(statement) } else { rest.push(statement) }
    }
    if !findings.resources.is_empty() {
        let dispose = helper(DISPOSE, findings.awaits, None, &build);
        let dispose = if findings.awaits { Expression::new_await_expression(SPAN, dispose, &build) } else { dispose };
        let finalizer = BlockStatement::boxed(SPAN, [Statement::new_expression_statement(SPAN, dispose, &build)], &build);
        let block = BlockStatement::boxed(SPAN, std::mem::replace(&mut rest, ArenaVec::new_in(&allocator)), &build);
        rest.push(Statement::new_try_statement(SPAN, block, None, Some(finalizer), &build));
    }
    if findings.returns {
        let block = Statement::new_block_statement(SPAN, std::mem::replace(&mut rest, ArenaVec::new_in(&allocator)), &build);
        rest.push(Statement::new_labeled_statement(SPAN, LabelIdentifier::new(SPAN, CELL, &build), block, &build));
    }
    functions.extend(rest);
    program.body = functions;
}

/// A call of one of the engine's helpers.
fn helper<'a>(names: [&'static str; 2], waits: bool, argument: Option<Expression<'a>>, build: &AstBuilder<'a>) -> Expression<'a> {
    call(SPAN, "babelHelpers", names[usize::from(waits)], argument, build)
}

fn call<'a>(
    span: Span,
    object: &'static str,
    name: &'static str,
    argument: Option<Expression<'a>>,
    build: &AstBuilder<'a>,
) -> Expression<'a> {
    let object = Expression::new_identifier(span, object, build);
    let callee = Expression::new_static_member_expression(span, object, IdentifierName::new(SPAN, name, build), false, build);
    match argument {
        Some(argument) => Expression::new_call_expression(span, callee, None, [Argument::from(argument)], false, build),
        None => Expression::new_call_expression(span, callee, None, [], false, build),
    }
}

struct Leaving<'a> {
    build: AstBuilder<'a>,
    /// Functions that the visit is in.
    functions: usize,
}

impl<'a> VisitMut<'a> for Leaving<'a> {
    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        let Statement::ReturnStatement(leaves) = it else { return walk_mut::walk_statement(self, it) };
        if self.functions > 0 {
            return walk_mut::walk_statement(self, it);
        }
        let (build, span) = (&self.build, leaves.span);
        let value = leaves.argument.as_mut().map(|argument| argument.take_in(build));
        let told = Statement::new_expression_statement(span, call(span, "host", "final", value, build), build);
        let left = Statement::new_break_statement(span, Some(LabelIdentifier::new(SPAN, CELL, build)), build);
        *it = Statement::new_block_statement(span, [told, left], build);
    }

    fn visit_function(&mut self, it: &mut Function<'a>, flags: ScopeFlags) {
        self.functions += 1;
        walk_mut::walk_function(self, it, flags);
        self.functions -= 1;
    }

    fn visit_arrow_function_expression(&mut self, it: &mut ArrowFunctionExpression<'a>) {
        self.functions += 1;
        walk_mut::walk_arrow_function_expression(self, it);
        self.functions -= 1;
    }
}
