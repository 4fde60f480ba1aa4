//! Decorators of the TC39 proposal become calls of `babelHelpers.decorated` (`crates/guest/modules/web/decorators.js`), before the rest of a cell is
//! read: the text that comes out is TypeScript still, without decorators.
//!
//! `@d class C { @m f() {} }` becomes `let C = babelHelpers.decorated("C", [d])((w, C) => class { … })`, and before each decorated member stands a
//! method whose computed name tells its decorators: so decorators and names are evaluated in the order of the text. TypeScript's older decorators are
//! the printer's; a cell asks for them.

mod members;

use std::collections::HashMap;

use oxc::{
    allocator::Allocator,
    ast::ast::{
        ArrowFunctionExpression, AssignmentExpression, AssignmentPattern, AssignmentTarget, AwaitExpression, BindingPattern, Class,
        ClassType, Decorator, Expression, FormalParameter, Function, ObjectProperty, Program, PropertyKey, VariableDeclarator,
        YieldExpression,
    },
    ast_visit::{Visit, walk},
    span::{SourceType, Span},
    syntax::scope::ScopeFlags,
};

use crate::{
    lowered::{self, Lowered},
    splice::Edit,
    syntax_error::SyntaxError,
};

/// In a comment of a cell, it asks for TypeScript's older decorators.
const OLDER: &str = "@experimentalDecorators";
const WAITS: &str = "a class with decorators cannot wait inside its names, its members' decorators or what it extends: put the value into a \
                     constant before the class";

/// The text with its decorators made calls. `None` when it has none, when they are the older ones, and when it cannot be read, which whoever reads it
/// next says.
pub(crate) fn lowered(text: &str, source_type: SourceType) -> Result<Option<Lowered>, SyntaxError> {
    if !text.contains('@') {
        return Ok(None);
    }
    let allocator = Allocator::default();
    let Some(program) = lowered::read(&allocator, text, source_type) else { return Ok(None) };
    let mut seen = Seen::default();
    seen.visit_program(&program);
    if !seen.decorators || seen.parameters || asks_for_older(&program, text) {
        return Ok(None);
    }
    let mut visitor = Decorating { text, edits: Vec::new(), classes: 0, names: HashMap::new(), functions: 0, inside: None, refused: None };
    visitor.visit_program(&program);
    if let Some(span) = visitor.refused {
        return Err(SyntaxError::at(text, span.start as usize, WAITS));
    }
    Ok(Some(Lowered::by(text, visitor.edits)))
}

fn asks_for_older(program: &Program<'_>, text: &str) -> bool {
    let says = |span: Span| text.get(span.start as usize..span.end as usize).is_some_and(|comment| comment.contains(OLDER));
    program.comments.iter().any(|comment| says(comment.span))
}

/// What decorators a cell has. One of a parameter is always one of the older.
#[derive(Default)]
struct Seen {
    decorators: bool,
    parameters: bool,
}

impl<'a> Visit<'a> for Seen {
    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.decorators = true;
        walk::walk_decorator(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.parameters |= !it.decorators.is_empty();
        walk::walk_formal_parameter(self, it);
    }
}

struct Decorating<'t> {
    text: &'t str,
    edits: Vec<Edit>,
    /// Decorated classes that have been met.
    classes: usize,
    /// What classes without a name are called by what they are assigned to, by where they begin.
    names: HashMap<u32, String>,
    /// Functions that the visit is in.
    functions: usize,
    /// The number of functions that a decorated class is in, in a part of it that becomes a function's: nothing may wait there.
    inside: Option<usize>,
    refused: Option<Span>,
}

/// A class in which the visit is.
struct Around {
    number: usize,
    /// What it is called where its members are.
    work: String,
    /// Members that have told their decorators.
    members: usize,
}

impl Around {
    /// What the class is called, and the number of its next member.
    fn next(&mut self) -> (String, usize) {
        self.members += 1;
        (self.work.clone(), self.members - 1)
    }
}

impl<'t> Decorating<'t> {
    fn put(&mut self, at: u32, end: u32, text: String) {
        self.edits.push(Edit { at: at as usize, end: end as usize, text: Some(text), separates: false });
    }

    fn blank(&mut self, at: u32, end: u32) {
        self.edits.push(Edit { at: at as usize, end: end as usize, text: None, separates: false });
    }

    fn slice(&self, at: u32, end: u32) -> &'t str {
        self.text.get(at as usize..end as usize).unwrap_or("")
    }

    /// Where a word stands alone between two places.
    fn find_word(&self, word: &str, at: u32, end: u32) -> Option<(u32, u32)> {
        let mut from = at;
        for part in self.slice(at, end).split_inclusive(|c: char| !c.is_ascii_alphabetic()) {
            let name = part.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            if name == word {
                return Some((from, from + length(name)));
            }
            from += length(part);
        }
        None
    }

    /// Visits a part that becomes the body of a function.
    fn within(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.inside.replace(self.functions);
        visit(self);
        self.inside = before;
    }

    /// Decorators as members of a list: what stands before the first, and after the last.
    fn list(&mut self, decorators: &[Decorator<'_>], first: String, last: String) {
        let mut before = first;
        for decorator in decorators {
            self.put(decorator.span.start, decorator.span.start + 1, std::mem::replace(&mut before, ",".to_owned()));
            self.visit_expression(&decorator.expression);
        }
        let end = decorators.last().map_or(0, |decorator| decorator.span.end);
        self.put(end, end, last);
    }

    fn name_of(&mut self, name: &str, value: &Expression<'_>) {
        if let Expression::ClassExpression(class) = value.without_parentheses()
            && class.id.is_none()
        {
            self.names.insert(class.span.start, name.to_owned());
        }
    }

    fn class(&mut self, it: &Class<'_>) {
        let mut around = Around { number: self.classes, work: format!("$decorated{}", self.classes), members: 0 };
        self.classes += 1;
        let name = it.id.as_ref().map(|id| id.name.to_string()).or_else(|| self.names.get(&it.span.start).cloned());
        let declared = match &it.id {
            Some(id) if it.r#type == ClassType::ClassDeclaration => format!("let {}=", id.name),
            _ => String::new(),
        };
        let call = format!("{declared}babelHelpers.decorated({},[", name.as_deref().map_or("void 0".to_owned(), quoted));
        let head = it.decorators.last().map_or(it.span.start, |last| last.span.end);
        let mut applied = format!("{}.apply(this)", around.work);
        if it.decorators.is_empty() {
            self.put(it.span.start, it.span.start, format!("{call}])({}=>", around.work));
        } else {
            let inner = it.id.as_ref().map_or_else(|| format!("$class{}", around.number), |id| id.name.to_string());
            applied = format!("{inner}={applied}");
            self.list(&it.decorators, call, format!("])(({},{inner})=>", around.work));
        }
        let body = it.body.span;
        if it.r#abstract
            && let Some((at, end)) = self.find_word("abstract", head, body.start)
        {
            self.blank(at, end);
        }
        if let (Some(id), false) = (&it.id, it.decorators.is_empty()) {
            self.blank(id.span.start, id.span.end);
        }
        if let Some(heritage) = &it.heritage {
            self.within(|visitor| visitor.visit_expression(&heritage.expression));
        }
        let starts = if members::has_instance_functions(it) {
            format!("#start{}={}.start(this);", around.number, around.work)
        } else {
            String::new()
        };
        self.put(body.start + 1, body.start + 1, format!("static{{{applied}}}{starts}"));
        self.members(it, &mut around);
        let ends = if it.decorators.is_empty() { String::new() } else { format!(";static{{{}.end(this)}}", around.work) };
        self.put(body.end - 1, body.end - 1, ends);
        self.put(it.span.end, it.span.end, if it.r#type == ClassType::ClassDeclaration { ");" } else { ")" }.to_owned());
    }
}

impl<'a> Visit<'a> for Decorating<'_> {
    fn visit_class(&mut self, it: &Class<'a>) {
        if it.declare || (it.decorators.is_empty() && it.body.body.iter().all(|member| members::decorators(member).is_empty())) {
            walk::walk_class(self, it);
        } else {
            self.class(it);
        }
    }

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
        if self.inside == Some(self.functions) {
            self.refused.get_or_insert(it.span);
        }
        walk::walk_await_expression(self, it);
    }

    fn visit_yield_expression(&mut self, it: &YieldExpression<'a>) {
        if self.inside == Some(self.functions) {
            self.refused.get_or_insert(it.span);
        }
        walk::walk_yield_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(init)) = (&it.id, &it.init) {
            self.name_of(id.name.as_str(), init);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if let AssignmentTarget::AssignmentTargetIdentifier(id) = &it.left {
            self.name_of(id.name.as_str(), &it.right);
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_assignment_pattern(&mut self, it: &AssignmentPattern<'a>) {
        if let BindingPattern::BindingIdentifier(id) = &it.left {
            self.name_of(id.name.as_str(), &it.right);
        }
        walk::walk_assignment_pattern(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let (PropertyKey::StaticIdentifier(key), false) = (&it.key, it.computed) {
            self.name_of(key.name.as_str(), &it.value);
        }
        walk::walk_object_property(self, it);
    }
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// As a string of the language.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}
