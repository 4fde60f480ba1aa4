//! Just enough of TypeScript's tokens for colours: every byte of the input is in exactly one token, and nothing is an error.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Keyword,
    Constant,
    Type,
    Name,
    Number,
    Text,
    Pattern,
    Comment,
    Sign,
    Space,
}

/// A stretch of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) class: Class,
    pub(super) text: &'a str,
}

const KEYWORDS: &[&str] = &[
    "abstract",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "declare",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "keyof",
    "let",
    "namespace",
    "new",
    "of",
    "private",
    "protected",
    "public",
    "readonly",
    "return",
    "satisfies",
    "set",
    "static",
    "super",
    "switch",
    "throw",
    "try",
    "type",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];
const CONSTANTS: &[&str] = &["false", "globalThis", "Infinity", "NaN", "null", "this", "true", "undefined"];
const TYPES: &[&str] = &["any", "bigint", "boolean", "never", "number", "object", "string", "symbol", "unknown"];

/// The words that completion offers.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().chain(CONSTANTS).copied().filter(|word| word.len() > 3)
}

/// The tokens of `source`, in order.
pub(super) fn lex(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { rest: source, tokens: Vec::new(), templates: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.next();
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    tokens: Vec<Token<'a>>,
    /// For each template that a `${` interrupts, the braces that are open in it.
    templates: Vec<usize>,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) {
        let Some(first) = self.rest.chars().next() else { return };
        match first {
            c if c.is_whitespace() => self.take(Class::Space, self.run(char::is_whitespace)),
            '/' if self.rest.starts_with("//") => self.take(Class::Comment, self.rest.find('\n').unwrap_or(self.rest.len())),
            '/' if self.rest.starts_with("/*") => {
                let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
                self.take(Class::Comment, end);
            }
            '/' if self.pattern_may_begin() => match self.pattern() {
                Some(end) => self.take(Class::Pattern, end),
                None => self.take(Class::Sign, 1),
            },
            '"' | '\'' => self.take(Class::Text, self.quoted(first)),
            '`' => self.template(1),
            '{' => {
                if let Some(open) = self.templates.last_mut() {
                    *open += 1;
                }
                self.take(Class::Sign, 1);
            }
            '}' => match self.templates.last_mut() {
                Some(0) => {
                    self.templates.pop();
                    self.template(1);
                }
                Some(open) => {
                    *open -= 1;
                    self.take(Class::Sign, 1);
                }
                None => self.take(Class::Sign, 1),
            },
            c if c.is_ascii_digit() => self.take(Class::Number, self.run(|c| c.is_alphanumeric() || c == '.' || c == '_')),
            c if is_name(c) || c == '#' => self.name(c.len_utf8()),
            c => self.take(Class::Sign, c.len_utf8()),
        }
    }

    fn take(&mut self, class: Class, length: usize) {
        let (text, rest) = self.rest.split_at_checked(length.max(1)).unwrap_or((self.rest, ""));
        self.tokens.push(Token { class, text });
        self.rest = rest;
    }

    /// Bytes from the beginning of which every character is so.
    fn run(&self, so: impl Fn(char) -> bool) -> usize {
        self.rest.find(|c| !so(c)).unwrap_or(self.rest.len())
    }

    fn name(&mut self, first: usize) {
        let length = first + self.rest.get(first..).and_then(|rest| rest.find(|c| !is_name(c))).unwrap_or(self.rest.len() - first);
        let word = self.rest.get(..length).unwrap_or("");
        let member = self.last_sign().is_some_and(|sign| sign == ".");
        let class = match word {
            _ if member => Class::Name,
            _ if KEYWORDS.contains(&word) => Class::Keyword,
            _ if CONSTANTS.contains(&word) => Class::Constant,
            _ if TYPES.contains(&word) || word.starts_with(char::is_uppercase) => Class::Type,
            _ => Class::Name,
        };
        self.take(class, length);
    }

    fn last(&self) -> Option<&Token<'a>> {
        self.tokens.iter().rev().find(|token| !matches!(token.class, Class::Space | Class::Comment))
    }

    fn last_sign(&self) -> Option<&'a str> {
        self.last().filter(|token| token.class == Class::Sign).map(|token| token.text)
    }

    /// A slash begins a pattern where no operand stands before it.
    fn pattern_may_begin(&self) -> bool {
        self.last().is_none_or(|token| match token.class {
            Class::Keyword => true,
            Class::Sign => !matches!(token.text, ")" | "]" | "}"),
            _ => false,
        })
    }

    /// The length of a regular expression with its flags, if one ends in this line.
    fn pattern(&self) -> Option<usize> {
        let (mut escaped, mut in_class) = (false, false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '\n' => return None,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => {
                    let flags = self.rest.get(at + 1..)?;
                    return Some(at + 1 + flags.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(flags.len()));
                }
                _ => {}
            }
        }
        None
    }

    /// The length of a string that ends at its quote or at the line's end.
    fn quoted(&self, quote: char) -> usize {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' => return at,
                _ if c == quote => return at + 1,
                _ => {}
            }
        }
        self.rest.len()
    }

    /// Template text up to its end or to the next `${`; the first `skip` bytes belong to it.
    fn template(&mut self, skip: usize) {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip_while(|(at, _)| *at < skip) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => return self.take(Class::Text, at + 1),
                '$' if self.rest.get(at..).is_some_and(|rest| rest.starts_with("${")) => {
                    self.templates.push(0);
                    return self.take(Class::Text, at + 2);
                }
                _ => {}
            }
        }
        self.take(Class::Text, self.rest.len());
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(source: &str) -> Vec<(Class, &str)> {
        let tokens = lex(source);
        assert_eq!(tokens.iter().map(|token| token.text).collect::<String>(), source, "nothing is lost");
        tokens.into_iter().filter(|token| token.class != Class::Space).map(|token| (token.class, token.text)).collect()
    }

    #[test]
    fn templates_nest() {
        let source = "`a${ {b: `c${d}`} }e` + 1";
        let found = classes(source);
        let text: Vec<_> = found.iter().filter(|(class, _)| *class == Class::Text).map(|(_, text)| *text).collect();
        assert_eq!(text, ["`a${", "`c${", "}`", "}e`"]);
        assert_eq!(found.last(), Some(&(Class::Number, "1")));
    }

    #[test]
    fn a_slash_divides_or_begins_a_pattern() {
        let pattern = |source| classes(source).iter().any(|(class, _)| *class == Class::Pattern);
        assert!(pattern("x = /a[/]b/g.test(y)") && pattern("return /a/") && pattern("/a/"));
        assert!(!pattern("a / b / c") && !pattern("f(x) / 2 / y") && !pattern("a[0] / 1 / b"));
    }

    #[test]
    fn words_have_their_class() {
        let found = classes("const Alpha: string = this.of ?? null // end");
        let expected = [
            (Class::Keyword, "const"),
            (Class::Type, "Alpha"),
            (Class::Sign, ":"),
            (Class::Type, "string"),
            (Class::Sign, "="),
            (Class::Constant, "this"),
            (Class::Sign, "."),
            (Class::Name, "of"),
            (Class::Sign, "?"),
            (Class::Sign, "?"),
            (Class::Constant, "null"),
            (Class::Comment, "// end"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_is_lost_of_what_is_unfinished() {
        for source in ["'abc", "`abc ${", "/* abc", "/abc", "\"a\\", "}", "`${{{`", "ö€𝒳 = '𝒳", "#a", "\\", "1e"] {
            classes(source);
        }
    }
}
