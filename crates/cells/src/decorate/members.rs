//! Members of a class that has decorators.

use oxc::{
    ast::ast::{
        AccessorProperty, Class, ClassElement, Decorator, Expression, MethodDefinition, MethodDefinitionKind, MethodDefinitionType,
        PropertyDefinition, PropertyDefinitionType, PropertyKey,
    },
    ast_visit::Visit,
    span::GetSpan,
};

use super::{Around, Decorating, quoted};

/// The decorators of a member.
pub(super) fn decorators<'b>(member: &'b ClassElement<'_>) -> &'b [Decorator<'b>] {
    match member {
        ClassElement::MethodDefinition(it) => &it.decorators,
        ClassElement::PropertyDefinition(it) => &it.decorators,
        ClassElement::AccessorProperty(it) => &it.decorators,
        ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => &[],
    }
}

/// Whether decorators of the class can ask for something at the beginning of an instance.
pub(super) fn has_instance_functions(it: &Class<'_>) -> bool {
    it.body
        .body
        .iter()
        .any(|member| matches!(member, ClassElement::MethodDefinition(method) if !method.r#static && !method.decorators.is_empty()))
}

/// What a member tells of itself.
struct Told<'b> {
    kind: &'static str,
    is_static: bool,
    key: &'b PropertyKey<'b>,
    computed: bool,
    decorators: &'b [Decorator<'b>],
}

impl Told<'_> {
    fn scope(&self) -> &'static str {
        if self.is_static { "static " } else { "" }
    }

    /// The name as written, of one that is private.
    fn private(&self) -> Option<String> {
        if let PropertyKey::PrivateIdentifier(name) = self.key { Some(format!("#{}", name.name)) } else { None }
    }
}

impl Decorating<'_> {
    pub(super) fn members(&mut self, it: &Class<'_>, around: &mut Around) {
        for member in &it.body.body {
            match member {
                ClassElement::MethodDefinition(method) => self.method(method, around),
                ClassElement::PropertyDefinition(field) => self.field(field, around),
                ClassElement::AccessorProperty(accessor) if !accessor.decorators.is_empty() => self.accessor(accessor, around),
                ClassElement::AccessorProperty(accessor) => {
                    self.key(&accessor.key, accessor.computed);
                    self.value(accessor.value.as_ref());
                }
                ClassElement::StaticBlock(block) => self.visit_static_block(block),
                ClassElement::TSIndexSignature(_) => {}
            }
        }
    }

    /// A name that is computed is computed inside a function now.
    fn key(&mut self, key: &PropertyKey<'_>, computed: bool) {
        if computed {
            self.within(|visitor| visitor.visit_property_key(key));
        }
    }

    fn value(&mut self, value: Option<&Expression<'_>>) {
        if let Some(value) = value {
            self.visit_expression(value);
        }
    }

    /// The method that stands before the member and tells its decorators. `own` is what a private one does; a method's follows in the text.
    fn tell(&mut self, told: &Told<'_>, around: &Around, own: &str) {
        let name = match told.key {
            PropertyKey::StaticIdentifier(key) => quoted(key.name.as_str()),
            _ if told.computed => "void 0".to_owned(),
            _ => told
                .private()
                .map_or_else(|| format!("{}+\"\"", self.slice(told.key.span().start, told.key.span().end)), |name| quoted(&name)),
        };
        let access = told.private().map_or("null".to_owned(), |name| {
            let get = if told.kind == "setter" { String::new() } else { format!(",get:object=>object.{name}") };
            let set = if matches!(told.kind, "method" | "getter") {
                String::new()
            } else {
                format!(",set:(object,value)=>{{object.{name}=value}}")
            };
            format!("{{has:object=>{name} in object{get}{set}}}")
        });
        let call = format!(";static[{}.add({:?},{},{name},{access},[", around.work, told.kind, told.is_static);
        self.within(|visitor| visitor.list(told.decorators, call, format!("],{own}")));
    }

    /// A computed name is kept where it is computed.
    fn keep_key(&mut self, told: &Told<'_>, work: &str, at: usize) {
        if told.computed {
            let span = told.key.span();
            self.put(span.start, span.start, format!("{work}.key({at},"));
            self.key(told.key, true);
            self.put(span.end, span.end, ")".to_owned());
        }
    }

    fn method(&mut self, it: &MethodDefinition<'_>, around: &mut Around) {
        if it.r#type == MethodDefinitionType::TSAbstractMethodDefinition {
            // What is made of the class is not abstract.
            return self.blank(it.span.start, it.span.end);
        }
        let Some(last) = it.decorators.last().map(|last| last.span.end) else {
            self.key(&it.key, it.computed);
            return self.visit_function(&it.value, oxc::syntax::scope::ScopeFlags::Function);
        };
        let (kind, part) = match it.kind {
            MethodDefinitionKind::Get => ("getter", "get"),
            MethodDefinitionKind::Set => ("setter", "set"),
            MethodDefinitionKind::Method | MethodDefinitionKind::Constructor => ("method", "value"),
        };
        let told = Told { kind, is_static: it.r#static, key: &it.key, computed: it.computed, decorators: &it.decorators };
        let (work, at) = around.next();
        let private = told.private();
        self.tell(&told, around, if private.is_some() { "{" } else { "null)](){}" });
        match &private {
            None => self.keep_key(&told, &work, at),
            Some(name) => {
                if let (true, Some((from, to))) = (it.r#static, self.find_word("static", last, it.key.span().start)) {
                    self.blank(from, to);
                }
                self.put(it.key.span().start, it.key.span().end, quoted(name));
            }
        }
        self.visit_function(&it.value, oxc::syntax::scope::ScopeFlags::Function);
        if let Some(name) = private {
            let does = match kind {
                "method" => format!("get {name}(){{return {work}.part({at},\"{part}\")}}"),
                "getter" => format!("get {name}(){{return {work}.part({at},\"{part}\").call(this)}}"),
                _ => format!("set {name}(value){{{work}.part({at},\"{part}\").call(this,value)}}"),
            };
            self.put(it.span.end, it.span.end, format!("}})](){{}}{}{does}", told.scope()));
        }
    }

    fn field(&mut self, it: &PropertyDefinition<'_>, around: &mut Around) {
        if it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition || it.declare {
            return self.blank(it.span.start, it.span.end);
        }
        if let (PropertyKey::StaticIdentifier(key), Some(value)) = (&it.key, &it.value) {
            self.name_of(key.name.as_str(), value);
        }
        if it.decorators.is_empty() {
            self.key(&it.key, it.computed);
            return self.value(it.value.as_ref());
        }
        let told = Told { kind: "field", is_static: it.r#static, key: &it.key, computed: it.computed, decorators: &it.decorators };
        let (work, at) = around.next();
        self.tell(&told, around, "null)](){}");
        self.keep_key(&told, &work, at);
        let types = it.type_annotation.as_ref().map(|types| types.span.start);
        self.definite(it.definite, &it.key, types.unwrap_or(it.span.end));
        self.initial(it.value.as_ref(), it.span.end, it.span.start, &work, at);
        self.after(&told, around.number, it.span.end, &work, at);
    }

    /// `!` behind a name cannot stand before a value.
    fn definite(&mut self, is_definite: bool, key: &PropertyKey<'_>, end: u32) {
        let from = key.span().end;
        let found = if is_definite { self.slice(from, end).find('!').and_then(|found| u32::try_from(found).ok()) } else { None };
        if let Some(found) = found {
            self.blank(from + found, from + found + 1);
        }
    }

    /// The value that a field begins with goes through what its decorators made of it.
    fn initial(&mut self, value: Option<&Expression<'_>>, end: u32, start: u32, work: &str, at: usize) {
        match value {
            Some(value) => {
                let span = value.span();
                self.put(span.start, span.start, format!("{work}.init({at},this,"));
                self.visit_expression(value);
                self.put(span.end, span.end, if is_anonymous(value) { ",true)" } else { ")" }.to_owned());
            }
            None => {
                let end = end - u32::from(self.slice(start, end).ends_with(';'));
                self.put(end, end, format!("={work}.init({at},this)"));
            }
        }
    }

    /// What its decorators wanted done once the field is there.
    fn after(&mut self, told: &Told<'_>, number: usize, end: u32, work: &str, at: usize) {
        let call = format!("{work}.after({at},this)");
        self.put(end, end, if told.is_static { format!(";static{{{call}}}") } else { format!(";#after{number}_{at}={call};") });
    }

    fn accessor(&mut self, it: &AccessorProperty<'_>, around: &mut Around) {
        let Some(last) = it.decorators.last().map(|last| last.span.end) else { return };
        let told = Told { kind: "accessor", is_static: it.r#static, key: &it.key, computed: it.computed, decorators: &it.decorators };
        let key = it.key.span();
        let Some((word, _)) = self.find_word("accessor", last, key.start) else { return };
        let (work, at) = around.next();
        let (scope, field) = (told.scope(), format!("#stored{}_{at}", around.number));
        let pair =
            |name: &str, setter: &str| format!("get {name}(){{return this.{field}}}{scope}set {setter}(value){{this.{field}=value}}");
        if let Some(name) = told.private() {
            let own = pair(&quoted(&name), &quoted(&name)).replacen(&format!("}}{scope}set"), "},set", 1);
            self.tell(&told, around, &format!("{{{own}}})](){{}}"));
            let pair = format!(
                "get {name}(){{return {work}.part({at},\"get\").call(this)}}{scope}set {name}(value){{{work}.part({at},\"set\").call(this,value)}}"
            );
            self.put(word, key.end, format!("{pair}{scope}{field}"));
        } else if told.computed {
            self.tell(&told, around, "null)](){}");
            self.put(word, key.start, format!("get [{work}.key({at},"));
            self.key(&it.key, true);
            let bracket = self.slice(key.end, it.span.end).find(']').and_then(|found| u32::try_from(found).ok()).unwrap_or(0);
            let rest = pair("", &format!("[{work}.key({at})]"));
            self.put(key.end, key.end + bracket + 1, format!(")]{}{scope}{field}", rest.trim_start_matches("get ")));
        } else {
            self.tell(&told, around, "null)](){}");
            let name = self.slice(key.start, key.end);
            self.put(word, key.end, format!("{}{scope}{field}", pair(name, name)));
        }
        let types = it.type_annotation.as_ref().map(|types| types.span.start);
        self.definite(it.definite, &it.key, types.unwrap_or(it.span.end));
        self.initial(it.value.as_ref(), it.span.end, it.span.start, &work, at);
        self.after(&told, around.number, it.span.end, &work, at);
    }
}

/// A function or a class without a name of its own, which takes that of its field.
fn is_anonymous(value: &Expression<'_>) -> bool {
    match value.without_parentheses() {
        Expression::ArrowFunctionExpression(_) => true,
        Expression::FunctionExpression(it) => it.id.is_none(),
        Expression::ClassExpression(it) => it.id.is_none(),
        _ => false,
    }
}
