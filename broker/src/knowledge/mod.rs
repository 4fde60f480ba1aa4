//! Bases of documents that cells search and read: a session sees those that its ToolBroker names, and no other.
//!
//! A base is read whole, cut into passages, and kept in memory with an index of its words; it is looked for again as other sources are, and what cannot be had
//! leaves what was had in force. A document is found by its name in a list: no name that a cell writes becomes a path or a URL.

mod asked;
mod docx;
mod load;
mod parse;
mod pdf;
mod rank;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use dormouse_crds::{knowledge::Knowledge, service::Auth};
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolDescription};
use jsonschema::Validator;
use serde::Deserialize as _;
use serde_json::{Value, json};

use self::{
    asked::{List, Read, Search},
    parse::{Parsed, Section},
    rank::Index,
};
use crate::{Problem, ProblemKind, Secrets, credential::Authentication, exchange, schema};

pub(crate) use asked::{Scope, Verb};
pub(crate) use load::load;
pub use pdf::read_pdf_if_asked;

/// The call that searches.
pub(crate) const SEARCH: &str = "knowledge.search";
/// The call that reads a document or a part of one.
pub(crate) const READ: &str = "knowledge.read";
/// The call that lists documents.
pub(crate) const LIST: &str = "knowledge.list";

/// Results of a search at most, and if nothing is said.
const RESULTS_MAX: usize = 50;
const RESULTS_DEFAULT: usize = 10;
/// Bytes of a question.
const QUESTION_BYTES_MAX: usize = 4 << 10;
/// Bytes of a snippet.
const SNIPPET_BYTES: usize = 320;
/// Sections of a document that a list shows.
const LISTED_SECTIONS_MAX: usize = 200;

/// A base as it was read.
#[derive(Debug)]
pub(crate) struct Base {
    /// Tells it from another.
    digest: String,
    documents: BTreeMap<String, Parsed>,
    index: Index,
    /// What the numbers of the index are.
    passages: Vec<Passage>,
}

#[derive(Debug)]
struct Passage {
    document: String,
    /// The number of its section.
    section: usize,
    start: usize,
    end: usize,
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Base {
    /// A base of documents that were read.
    fn new(digest: String, documents: BTreeMap<String, Parsed>) -> Self {
        let (mut index, mut passages) = (Index::default(), Vec::new());
        for (name, document) in &documents {
            for (number, section) in document.sections.iter().enumerate() {
                let text = document.text.get(section.range.clone()).unwrap_or_default();
                for part in rank::passages(text) {
                    index.add(&format!("{} {}", section.path, name), text.get(part.clone()).unwrap_or_default());
                    let offset = section.range.start;
                    passages.push(Passage { document: name.clone(), section: number, start: offset + part.start, end: offset + part.end });
                }
            }
        }
        Self { digest, documents, index, passages }
    }

    /// Bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        self.documents.values().map(|document| document.text.len()).sum()
    }

    fn search(&self, base: &str, question: &[String], max: usize, scope: Scope<'_>) -> Vec<(f64, Value)> {
        let in_scope = |number: u32| self.passages.get(number as usize).is_some_and(|passage| scope.has(base, &passage.document));
        let found = self.index.find(question, max, in_scope).into_iter();
        let shown = found.filter_map(|(number, score)| {
            let passage = self.passages.get(number as usize)?;
            let document = self.documents.get(&passage.document)?;
            let text = document.text.get(passage.start..passage.end)?;
            let range = rank::snippet(text, question, SNIPPET_BYTES);
            let snippet = text.get(range.clone())?;
            let section = document.sections.get(passage.section).map(|section| section.path.as_str());
            let value = json!({
                "ref": reference(base, &passage.document, section), "base": base, "document": passage.document, "title": document.title,
                "section": section,
                "start": passage.start + range.start, "end": passage.start + range.end, "snippet": snippet,
                "score": (score * 1_000.0).round() / 1_000.0,
            });
            Some((score, value))
        });
        shown.collect()
    }
}

/// The bases of a ToolBroker, and what calls of them must look like.
#[derive(Debug)]
pub(crate) struct Bases {
    named: BTreeMap<String, Option<Arc<Base>>>,
    search: Validator,
    read: Validator,
    list: Validator,
}

impl Bases {
    /// `None` where the spec names no base; what is wrong with one goes to `problems`.
    pub(crate) fn compile(
        spec: &[Knowledge],
        found: impl Fn(&str) -> Option<Arc<Base>>,
        secrets: &Secrets,
        descriptions: &mut Vec<ToolDescription>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        if spec.is_empty() {
            return None;
        }
        let mut named = BTreeMap::new();
        for (index, base) in spec.iter().enumerate() {
            let mut problem = |field: &str, kind| problems.push(Problem { path: format!("knowledge[{index}].{field}"), kind });
            let places = [base.config_map_ref.is_some(), base.prefix.is_some(), !base.urls.is_empty()];
            if places.into_iter().filter(|place| *place).count() != 1 {
                problem("name", ProblemKind::Document("a base is in one place: write configMapRef, prefix or urls".to_owned()));
            }
            if !base.has_plain_prefix() {
                problem(
                    "prefix",
                    ProblemKind::Path("must be names of letters, digits, '-', '_' and '.' that begin with no '.', with '/' between them"),
                );
            }
            if named.insert(base.name.clone(), found(&base.name)).is_some() {
                problem("name", ProblemKind::Duplicate(base.name.clone()));
            }
            headers(base, &format!("knowledge[{index}]"), secrets, problems);
        }
        let about: Vec<String> = spec.iter().map(|base| format!("`{}`: {}", base.name, base.description)).collect();
        let names: Vec<&str> = spec.iter().map(|base| base.name.as_str()).collect();
        let base = json!({ "type": "string", "enum": names });
        let text = |max: usize| json!({ "type": "string", "minLength": 1, "maxLength": max });
        let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let offset = json!({ "type": "integer", "minimum": 0 });
        let one_of = |mut schema: Value, ways: &[&[&str]]| {
            schema["oneOf"] = ways.iter().map(|required| json!({ "required": required })).collect();
            schema
        };
        let inputs = [
            object(
                json!({
                    "query": text(QUESTION_BYTES_MAX), "base": base, "bases": { "type": "array", "items": base, "minItems": 1, "maxItems": names.len() },
                    "limit": { "type": "integer", "minimum": 1, "maximum": RESULTS_MAX },
                }),
                &["query"],
            ),
            one_of(
                object(
                    json!({
                        "ref": text(4_096), "base": base, "document": text(1_024), "section": { "type": "string", "maxLength": 2_048 }, "start": offset,
                        "end": offset,
                    }),
                    &[],
                ),
                &[&["ref"], &["base", "document"]],
            ),
            object(json!({ "base": base }), &[]),
        ];
        let said = [
            (SEARCH, "Searches documents; answers passages, best first, with where they stand. Bases: "),
            (READ, "Reads a document, a section of it, or the bytes from start to end. Bases: "),
            (LIST, "Lists documents and their sections. Bases: "),
        ];
        let mut validators = Vec::new();
        for ((name, said), input) in said.into_iter().zip(inputs) {
            match schema::compile(Some(&input)) {
                Ok(validator) => validators.push(validator),
                Err(kind) => problems.push(Problem { path: "knowledge".to_owned(), kind }),
            }
            let description = format!("{said}{}", about.join("; "));
            descriptions.push(ToolDescription { name: name.to_owned(), description, input, output: json!({}), approval: false });
        }
        let [search, read, list] = <[Validator; 3]>::try_from(validators).ok()?;
        Some(Self { named, search, read, list })
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) fn check(&self, verb: Verb, args: &Value) -> Result<Value, ApiError> {
        let input = match verb {
            Verb::Search => &self.search,
            Verb::Read => &self.read,
            Verb::List => &self.list,
        };
        exchange::arguments(input, args).map(Value::Object)
    }

    /// Answers a call whose arguments were checked.
    ///
    /// # Errors
    /// `FileNotFound`: there is no such document or section, or the base could not be had yet. `RangeNotSatisfiable`: the offsets are none.
    pub(crate) fn answer(&self, verb: Verb, args: Value, scope: Scope<'_>) -> Result<Value, ApiError> {
        let invalid = |error: serde_json::Error| ApiError::new(ErrorCode::ToolArgsInvalid, error.to_string());
        match verb {
            Verb::Search => self.search(&Search::deserialize(args).map_err(invalid)?, scope),
            Verb::Read => self.read(Read::deserialize(args).map_err(invalid)?, scope),
            Verb::List => self.list(&List::deserialize(args).map_err(invalid)?, scope),
        }
    }

    /// The bases that a call is about, those that are there.
    fn about<'a>(&'a self, named: &[&'a str], scope: Scope<'_>) -> Result<Vec<(&'a str, &'a Base)>, ApiError> {
        let there = self.named.iter().filter(|(name, _)| scope.has_base(name));
        match named {
            [_, ..] => named.iter().map(|name| Ok((*name, self.base(name, scope)?))).collect(),
            [] => Ok(there.filter_map(|(name, base)| Some((name.as_str(), &**base.as_ref()?))).collect()),
        }
    }

    fn base(&self, name: &str, scope: Scope<'_>) -> Result<&Base, ApiError> {
        if !scope.has_base(name) {
            return Err(not_found(format!("`{name}` is not among the bases that the session's spec.knowledge names")));
        }
        let base = self.named.get(name).and_then(Option::as_deref);
        base.ok_or_else(|| not_found(format!("the documents of `{name}` could not be had yet: the broker's log says why")))
    }

    fn search(&self, asked: &Search, scope: Scope<'_>) -> Result<Value, ApiError> {
        let limit = asked.limit.unwrap_or(RESULTS_DEFAULT).min(RESULTS_MAX);
        let question = rank::question(&asked.query);
        let mut found: Vec<(f64, Value)> = Vec::new();
        let named: BTreeSet<&str> = asked.base.iter().chain(&asked.bases).map(String::as_str).collect();
        for (name, base) in self.about(&named.into_iter().collect::<Vec<_>>(), scope)? {
            found.extend(base.search(name, &question, limit, scope));
        }
        found.sort_by(|one, other| other.0.total_cmp(&one.0));
        found.truncate(limit);
        Ok(found.into_iter().map(|(_, value)| value).collect())
    }

    /// What a reference stands for. The name of a document may hold what else begins a section, so the longest one that is there counts.
    fn named(&self, asked: Read, scope: Scope<'_>) -> Result<Read, ApiError> {
        let Some(reference) = &asked.r#ref else { return Ok(asked) };
        let missing = || not_found(format!("there is no `{reference}`: a search answers what there is"));
        let (name, rest) = reference.split_once('/').ok_or_else(missing)?;
        let base = self.named.get(name).ok_or_else(missing).and_then(|_| self.base(name, scope))?;
        let cuts = rest.rmatch_indices('#').map(|(at, _)| (rest.get(..at), rest.get(at + 1..)));
        let found = std::iter::once((Some(rest), None))
            .chain(cuts)
            .find(|(document, _)| document.is_some_and(|it| base.documents.contains_key(it)));
        let (document, section) = found.ok_or_else(missing)?;
        let [document, section] = [document, section].map(|part| part.map(str::to_owned));
        Ok(Read { base: name.to_owned(), document: document.unwrap_or_default(), section, ..asked })
    }

    fn read(&self, asked: Read, scope: Scope<'_>) -> Result<Value, ApiError> {
        let asked = self.named(asked, scope)?;
        let base = self.base(&asked.base, scope)?;
        let missing = || not_found(format!("`{}` has no such document: callTool(\"{LIST}\") lists them", asked.base));
        let document = base.documents.get(&asked.document).filter(|_| scope.has(&asked.base, &asked.document)).ok_or_else(missing)?;
        let whole = 0..document.text.len();
        let within = match &asked.section {
            None => whole,
            Some(path) => {
                let found = document.section(path);
                found.ok_or_else(|| not_found(format!("the document has no such section: callTool(\"{LIST}\") lists them")))?
            }
        };
        let (start, end) = (asked.start.unwrap_or(within.start), asked.end.unwrap_or(within.end));
        if start > end || start < within.start || end > within.end {
            let message = format!("the offsets must be within {} and {}, in bytes", within.start, within.end);
            return Err(ApiError::new(ErrorCode::RangeNotSatisfiable, message));
        }
        let (start, end) = (rank::boundary(&document.text, start), rank::boundary(&document.text, end));
        Ok(json!({
            "base": asked.base, "document": asked.document, "title": document.title, "section": asked.section, "start": start, "end": end,
            "bytes": document.text.len(), "text": document.text.get(start..end),
        }))
    }

    fn list(&self, asked: &List, scope: Scope<'_>) -> Result<Value, ApiError> {
        let mut all = Vec::new();
        for (name, base) in self.about(&asked.base.iter().map(String::as_str).collect::<Vec<_>>(), scope)? {
            for (document, parsed) in base.documents.iter().filter(|(document, _)| scope.has(name, document)) {
                let sections: Vec<&str> = parsed
                    .sections
                    .iter()
                    .map(|section| section.path.as_str())
                    .filter(|path| !path.is_empty())
                    .take(LISTED_SECTIONS_MAX)
                    .collect();
                all.push(json!({
                    "base": name, "document": document, "title": parsed.title, "bytes": parsed.text.len(), "sections": sections,
                }));
            }
        }
        Ok(Value::Array(all))
    }
}

impl Parsed {
    /// Where a section is, with those below it.
    fn section(&self, path: &str) -> Option<std::ops::Range<usize>> {
        let at = self.sections.iter().position(|section| section.path == path)?;
        let below = format!("{path} > ");
        let is_below = |section: &&Section| !path.is_empty() && section.path.starts_with(&below);
        let first = self.sections.get(at)?;
        let end = self.sections.iter().skip(at + 1).take_while(is_below).last().map_or(first.range.end, |last| last.range.end);
        Some(first.range.start..end)
    }
}

/// What a base's URLs are asked for with. What is wrong with it goes to `problems`.
fn headers(base: &Knowledge, path: &str, secrets: &Secrets, problems: &mut Vec<Problem>) -> Option<Authentication> {
    Authentication::check(&base.name, &Auth::default(), &base.secret_headers, path, secrets, problems)
}

/// What a part of a document is called outside of its base.
fn reference(base: &str, document: &str, section: Option<&str>) -> String {
    match section.filter(|section| !section.is_empty()) {
        Some(section) => format!("{base}/{document}#{section}"),
        None => format!("{base}/{document}"),
    }
}

fn not_found(message: String) -> ApiError {
    ApiError::new(ErrorCode::FileNotFound, message)
}
