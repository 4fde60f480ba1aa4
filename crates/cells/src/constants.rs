//! To assign to a constant throws: a cell's own at its top level, which become `var`, and those of earlier cells.

use std::collections::{BTreeSet, HashSet};

use oxc::{
    allocator::{Allocator, TakeIn},
    ast::{
        ast::{
            AssignmentTargetMaybeDefault, AssignmentTargetProperty, Expression, IdentifierReference, Program, PropertyKey,
            SimpleAssignmentTarget, Statement,
        },
        builder::AstBuilder,
    },
    ast_visit::{Visit, VisitMut, walk_mut},
    parser::Parser,
    semantic::{Scoping, SymbolFlags},
    span::{SourceType, Span},
};

/// Throws as an assignment to a constant does, wherever an assignment's target may stand.
pub(crate) const THROWS: &str = "(() => { throw new TypeError('Assignment to constant variable.') })().x";

/// What says which names are constants.
#[derive(Clone, Copy)]
pub(crate) struct Known<'b> {
    /// The cell's own names.
    pub(crate) scoping: &'b Scoping,
    /// The constants of earlier cells.
    pub(crate) earlier: &'b BTreeSet<String>,
}

impl Known<'_> {
    /// Whether a name is a constant's, and is assigned to.
    pub(crate) fn is_assigned(&self, reference: &IdentifierReference<'_>) -> bool {
        let Some(id) = reference.reference_id.get() else { return false };
        let found = self.scoping.get_reference(id);
        if !found.is_write() {
            return false;
        }
        match found.symbol_id() {
            Some(symbol) => {
                let is_top_level = self.scoping.symbol_scope_id(symbol) == self.scoping.root_scope_id();
                is_top_level && self.scoping.symbol_flags(symbol).contains(SymbolFlags::ConstVariable)
            }
            None => self.earlier.contains(reference.name.as_str()),
        }
    }

    /// Where the program assigns to one. Its names keep their places when it is transformed.
    pub(crate) fn assigned_in(self, program: &Program<'_>) -> HashSet<Span> {
        let mut found = Assigned { known: self, places: HashSet::new() };
        found.visit_program(program);
        found.places
    }
}

struct Assigned<'b> {
    known: Known<'b>,
    places: HashSet<Span>,
}

impl<'a> Visit<'a> for Assigned<'_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.known.is_assigned(it) {
            self.places.insert(it.span);
        }
    }
}

/// Has the assignments at these places throw, in a program that is to be printed.
pub(crate) fn lower<'a>(program: &mut Program<'a>, allocator: &'a Allocator, places: &HashSet<Span>) {
    if !places.is_empty() {
        Throwing { allocator, build: AstBuilder::new(allocator), places }.visit_program(program);
    }
}

struct Throwing<'a, 'b> {
    allocator: &'a Allocator,
    build: AstBuilder<'a>,
    places: &'b HashSet<Span>,
}

impl<'a> Throwing<'a, '_> {
    /// [`THROWS`], which stands in the source where the name did.
    fn at(&self, span: Span) -> Option<SimpleAssignmentTarget<'a>> {
        let mut program = Parser::new(self.allocator, THROWS, SourceType::cjs()).parse().program;
        let Some(Statement::ExpressionStatement(statement)) = program.body.first_mut() else { return None };
        Placed(span).visit_expression(&mut statement.expression);
        match statement.expression.take_in(&self.build) {
            Expression::StaticMemberExpression(member) => Some(SimpleAssignmentTarget::StaticMemberExpression(member)),
            _ => None,
        }
    }
}

impl<'a> VisitMut<'a> for Throwing<'a, '_> {
    fn visit_simple_assignment_target(&mut self, it: &mut SimpleAssignmentTarget<'a>) {
        if let SimpleAssignmentTarget::AssignmentTargetIdentifier(name) = it
            && self.places.contains(&name.span)
            && let Some(throws) = self.at(name.span)
        {
            *it = throws;
            return;
        }
        walk_mut::walk_simple_assignment_target(self, it);
    }

    fn visit_assignment_target_property(&mut self, it: &mut AssignmentTargetProperty<'a>) {
        if let AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(short) = it
            && self.places.contains(&short.binding.span)
            && let Some(throws) = self.at(short.binding.span)
        {
            // It throws before what it would be otherwise is asked for.
            let key = PropertyKey::new_static_identifier(short.binding.span, short.binding.name, &self.build);
            let target = AssignmentTargetMaybeDefault::from(throws);
            *it = AssignmentTargetProperty::new_assignment_target_property_property(short.span, key, target, false, &self.build);
            return;
        }
        walk_mut::walk_assignment_target_property(self, it);
    }
}

/// Gives all of an expression one place.
struct Placed(Span);

impl VisitMut<'_> for Placed {
    fn visit_span(&mut self, it: &mut Span) {
        *it = self.0;
    }
}
