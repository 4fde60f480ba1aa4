//! What a cell asks for that a script cannot give, and whether it awaits at its top level.

use std::collections::BTreeMap;

use oxc::{
    ast::ast::{
        AccessorProperty, ArrowFunctionExpression, AwaitExpression, Decorator, ForOfStatement, Function, MethodDefinition, Program,
        PropertyDefinition, PropertyKey, ReturnStatement, Statement, VariableDeclaration, VariableDeclarationKind,
    },
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};

/// What the visit found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// `await` or `for await` outside of every function.
    pub(crate) awaits: bool,
    /// A `return` outside of every function, or a `using` outside of every block: what ends with the cell.
    pub(crate) ends: Option<Span>,
    /// There is such a `return`.
    pub(crate) returns: bool,
    /// Where such a `using` begins, and whether it awaits.
    pub(crate) resources: BTreeMap<u32, bool>,
    /// The first thing that is not supported, and what to write instead.
    pub(crate) refused: Option<(Span, &'static str)>,
}

/// Looks through a whole program.
pub(crate) fn check(program: &Program<'_>) -> Findings {
    let mut visitor = Visitor::default();
    for statement in &program.body {
        if let Some(message) = refusal(statement) {
            visitor.refuse(statement.span(), message);
        }
        if let Statement::VariableDeclaration(it) = statement
            && it.kind.is_using()
        {
            visitor.findings.resources.insert(it.span.start, it.kind == VariableDeclarationKind::AwaitUsing);
            visitor.findings.ends.get_or_insert(it.span);
        }
    }
    visitor.visit_program(program);
    visitor.findings
}

/// A cell is a script. Its imports have been lowered before, but for those that ask for more than a module.
fn refusal(statement: &Statement<'_>) -> Option<&'static str> {
    const IMPORT: &str = "import attributes and phases are not supported: write `import x from \"name\"`";
    const EXPORT: &str = "a cell cannot export what another module has: import it; later cells see every top-level name anyway";
    match statement {
        Statement::ImportDeclaration(import) if !import.import_kind.is_type() => Some(IMPORT),
        Statement::ExportAllDeclaration(_)
        | Statement::ExportDefaultDeclaration(_)
        | Statement::ExportDeclaration(_)
        | Statement::ExportNamedDeclaration(_)
        | Statement::ExportFromDeclaration(_)
        | Statement::TSExportAssignment(_)
        | Statement::TSNamespaceExportDeclaration(_) => Some(EXPORT),
        _ => None,
    }
}

/// Those of the TC39 proposal are gone by now (`decorate`): these are TypeScript's older ones.
const DECORATOR: &str = "TypeScript's experimentalDecorators, which this cell asks for by a comment or has on a parameter, are for members that \
                         are neither private nor an accessor: write the decorator as (value, context), without that comment";

const ACCESSOR: &str = "an accessor without decorators cannot have a computed name: write a field with get and set";

#[derive(Default)]
struct Visitor {
    functions: usize,
    findings: Findings,
}

impl Visitor {
    fn refuse(&mut self, span: Span, message: &'static str) {
        self.findings.refused.get_or_insert((span, message));
    }

    /// Of a member that is private or an accessor.
    fn refuse_decorators(&mut self, decorators: &[Decorator<'_>]) {
        if let Some(first) = decorators.first() {
            self.refuse(first.span, DECORATOR);
        }
    }
}

impl<'a> Visit<'a> for Visitor {
    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.functions += 1;
        walk::walk_function(self, it, flags);
        self.functions -= 1;
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.functions += 1;
        walk::walk_arrow_function_expression(self, it);
        self.functions -= 1;
    }

    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        self.findings.awaits |= self.functions == 0;
        walk::walk_await_expression(self, it);
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        if self.functions == 0 {
            self.findings.returns = true;
            self.findings.ends.get_or_insert(it.span);
        }
        walk::walk_return_statement(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.findings.awaits |= it.r#await && self.functions == 0;
        walk::walk_for_of_statement(self, it);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        self.findings.awaits |= it.kind == VariableDeclarationKind::AwaitUsing && self.functions == 0;
        walk::walk_variable_declaration(self, it);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.refuse_decorators(&it.decorators);
        // All others are gone by now (`accessors`).
        self.refuse(it.span, ACCESSOR);
        walk::walk_accessor_property(self, it);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if matches!(it.key, PropertyKey::PrivateIdentifier(_)) {
            self.refuse_decorators(&it.decorators);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if matches!(it.key, PropertyKey::PrivateIdentifier(_)) {
            self.refuse_decorators(&it.decorators);
        }
        walk::walk_property_definition(self, it);
    }
}
