//! Inside a namespace its exported variables are members of it: `n++` in `namespace C { export let n = 0 }` is `C.n++`, and a second block of `C` finds
//! what the first one exports. The printer copies values instead, so the text says it before: what comes out is TypeScript still.

use std::collections::{HashMap, HashSet};

use oxc::{
    allocator::Allocator,
    ast::ast::{
        AssignmentTargetPropertyIdentifier, BindingIdentifier, Declaration, IdentifierReference, ObjectProperty, Program, Statement,
        TSModuleBlock, TSNamespaceDeclaration, VariableDeclaration, VariableDeclarationKind,
    },
    ast_visit::{Visit, walk},
    semantic::{Scoping, SemanticBuilder},
    span::{SourceType, Span},
    syntax::{scope::ScopeId, symbol::SymbolId},
};

use crate::{
    lowered::{self, Lowered},
    splice::Edit,
};

/// The text whose namespaces share what they export. `None` when nothing has to be said, and when it cannot be read, which whoever reads it next says.
pub(crate) fn lowered(text: &str, source_type: SourceType) -> Option<Lowered> {
    if !text.contains("namespace") && !text.contains("module") {
        return None;
    }
    let allocator = Allocator::default();
    let program = lowered::read(&allocator, text, source_type)?;
    let mut blocks = Blocks::default();
    blocks.visit_program(&program);
    if blocks.exports.is_empty() {
        return None;
    }
    let scoping = SemanticBuilder::new().build(&program).semantic.into_scoping();
    let edits = edits(&program, &scoping, &blocks.exports);
    (!edits.is_empty()).then(|| Lowered::by(text, edits))
}

fn edits(program: &Program<'_>, scoping: &Scoping, exports: &HashMap<String, Vec<Exported>>) -> Vec<Edit> {
    let mut naming = Naming { scoping, exports, path: Vec::new(), inside: Vec::new(), edits: Vec::new() };
    naming.visit_program(program);
    naming.edits
}

/// What one block of a namespace exports.
#[derive(Default)]
struct Exported {
    /// Where the block begins, which tells it from others.
    at: u32,
    names: HashSet<String>,
}

/// What each block exports, by the path of its namespace.
#[derive(Default)]
struct Blocks {
    path: Vec<String>,
    exports: HashMap<String, Vec<Exported>>,
}

impl<'a> Visit<'a> for Blocks {
    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.path.push(it.id.name.to_string());
        walk::walk_ts_namespace_declaration(self, it);
        self.path.pop();
    }

    fn visit_ts_module_block(&mut self, it: &TSModuleBlock<'a>) {
        let mut names = HashSet::new();
        for declaration in exported(it) {
            each_name(declaration, &mut |id| {
                names.insert(id.name.to_string());
            });
        }
        self.exports.entry(self.path.join(".")).or_default().push(Exported { at: it.span.start, names });
        walk::walk_ts_module_block(self, it);
    }
}

fn exported<'b, 'a>(block: &'b TSModuleBlock<'a>) -> impl Iterator<Item = &'b Declaration<'a>> {
    block.body.iter().filter_map(|statement| match statement {
        Statement::ExportDeclaration(it) => Some(&it.declaration),
        _ => None,
    })
}

/// The names of values that are members of the namespace.
fn each_name<'a>(declaration: &Declaration<'a>, tell: &mut impl FnMut(&BindingIdentifier<'a>)) {
    match declaration {
        Declaration::VariableDeclaration(it) => variables(it).for_each(tell),
        Declaration::FunctionDeclaration(it) => it.id.iter().for_each(tell),
        Declaration::ClassDeclaration(it) => it.id.iter().for_each(tell),
        Declaration::TSEnumDeclaration(it) => tell(&it.id),
        Declaration::TSNamespaceDeclaration(it) => tell(&it.id),
        _ => {}
    }
}

fn variables<'b, 'a>(declaration: &'b VariableDeclaration<'a>) -> impl Iterator<Item = &'b BindingIdentifier<'a>> {
    declaration.declarations.iter().flat_map(|declarator| declarator.id.get_binding_identifiers())
}

/// A block that is being read.
struct Inside {
    /// What its namespace is called where the block stands.
    name: String,
    scope: Option<ScopeId>,
    /// Its own variables that are exported and may change.
    own: HashSet<SymbolId>,
    /// What other blocks of the namespace export.
    others: HashSet<String>,
}

struct Naming<'s> {
    scoping: &'s Scoping,
    exports: &'s HashMap<String, Vec<Exported>>,
    path: Vec<(String, Option<ScopeId>)>,
    inside: Vec<Inside>,
    edits: Vec<Edit>,
}

impl Naming<'_> {
    /// The namespace whose member the name is, if it is one that its place does not say.
    fn member_of(&self, it: &IdentifierReference<'_>) -> Option<&str> {
        let symbol = it.reference_id.get().and_then(|id| self.scoping.get_reference(id).symbol_id());
        for block in self.inside.iter().rev() {
            if symbol.is_some_and(|symbol| block.own.contains(&symbol)) {
                return Some(&block.name);
            }
            let is_within =
                |symbol| self.scoping.scope_ancestors(self.scoping.symbol_scope_id(symbol)).any(|scope| Some(scope) == block.scope);
            if symbol.is_some_and(is_within) {
                return None;
            }
            if block.others.contains(it.name.as_str()) {
                return Some(&block.name);
            }
        }
        None
    }

    fn name(&mut self, it: &IdentifierReference<'_>, is_short: bool) {
        if let Some(namespace) = self.member_of(it) {
            let text = format!("{}{namespace}.{}", if is_short { format!("{}: ", it.name) } else { String::new() }, it.name);
            let Span { start, end, .. } = it.span;
            self.edits.push(Edit { at: start as usize, end: end as usize, text: Some(text), separates: false });
        }
    }
}

impl<'a> Visit<'a> for Naming<'_> {
    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.path.push((it.id.name.to_string(), it.scope_id.get()));
        walk::walk_ts_namespace_declaration(self, it);
        self.path.pop();
    }

    fn visit_ts_module_block(&mut self, it: &TSModuleBlock<'a>) {
        let path: Vec<&str> = self.path.iter().map(|(name, _)| name.as_str()).collect();
        let blocks = self.exports.get(&path.join(".")).map(Vec::as_slice).unwrap_or_default();
        let others = blocks.iter().filter(|block| block.at != it.span.start).flat_map(|block| block.names.iter().cloned()).collect();
        let changing = exported(it).filter_map(|declaration| match declaration {
            Declaration::VariableDeclaration(it) if it.kind != VariableDeclarationKind::Const => Some(it),
            _ => None,
        });
        let own = changing.flat_map(|it| variables(it)).filter_map(|id| id.symbol_id.get()).collect();
        if let Some((name, scope)) = self.path.last().cloned() {
            self.inside.push(Inside { name, scope, own, others });
            walk::walk_ts_module_block(self, it);
            self.inside.pop();
        }
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        match it.value.get_identifier_reference() {
            Some(name) if it.shorthand => self.name(name, true),
            _ => walk::walk_object_property(self, it),
        }
    }

    fn visit_assignment_target_property_identifier(&mut self, it: &AssignmentTargetPropertyIdentifier<'a>) {
        self.name(&it.binding, true);
        if let Some(init) = &it.init {
            self.visit_expression(init);
        }
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.name(it, false);
    }
}
