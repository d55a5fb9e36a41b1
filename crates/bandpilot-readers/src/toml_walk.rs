//! Walking a TOML document key by key, so that every mistake is reported with its place.
//!
//! Deserialising into structs would stop at the first mistake and lose the keys nobody asked for.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::near::nearest;
use crate::{Diagnostic, Severity};

/// Most syntax errors that are reported for one text.
const MAX_SYNTAX_ERRORS: usize = 20;

/// A text with the remarks made about it.
pub(crate) struct Walk<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    diagnostics: Vec<Diagnostic>,
    broken: bool,
}

/// A table and where it is: `path` is empty for the root.
#[derive(Clone)]
pub(crate) struct Table<'a, 't> {
    pub(crate) entries: &'a DeTable<'t>,
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
}

/// A string and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) span: Range<usize>,
}

/// Parses the document. With syntax errors the table is what could be saved, and later remarks, which
/// would mostly be echoes of the first, are dropped.
pub(crate) fn parse(text: &str) -> (Walk<'_>, Spanned<DeTable<'_>>) {
    let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let mut walk =
        Walk { text, line_starts: line_starts.collect(), diagnostics: Vec::new(), broken: false };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().trim().replace('\n', "; ");
        walk.error(span.start, "", format!("not valid TOML: {message}"), "");
    }
    walk.broken = !errors.is_empty();
    (walk, table)
}

impl<'t> Walk<'t> {
    /// Line and column of a byte, both from 1.
    pub(crate) fn position(&self, byte: usize) -> (u32, u32) {
        let line = self.line_starts.partition_point(|start| *start <= byte).max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..byte).map_or(0, |t| t.chars().count());
        (line as u32, before as u32 + 1)
    }

    pub(crate) fn error(&mut self, byte: usize, field: &str, message: String, help: &str) {
        let (line, column) = self.position(byte);
        self.push(Diagnostic::error(field, message).at(line, column).help(help));
    }

    pub(crate) fn warning(&mut self, byte: usize, field: &str, message: String, help: &str) {
        let (line, column) = self.position(byte);
        self.push(Diagnostic::warning(field, message).at(line, column).help(help));
    }

    pub(crate) fn note(&mut self, byte: usize, field: &str, message: String, help: &str) {
        let (line, column) = self.position(byte);
        self.push(Diagnostic::note(field, message).at(line, column).help(help));
    }

    /// Adds remarks about a notation inside a string, moved to where the string stands.
    pub(crate) fn inside(&mut self, text: &Text, field: &str, remarks: Vec<Diagnostic>) {
        let (line, column) = self.position(self.inner_start(text));
        for remark in remarks {
            self.push(remark.moved_to(line, column, field));
        }
    }

    /// The byte where the content of a string begins; its opening quote if it has escapes.
    pub(crate) fn inner_start(&self, text: &Text) -> usize {
        let raw = self.text.get(text.span.clone()).unwrap_or("");
        let inside = if text.value.is_empty() { None } else { raw.find(&text.value) };
        text.span.start + inside.unwrap_or(0)
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        if !self.broken {
            self.diagnostics.push(diagnostic);
        }
    }

    /// True if an error was reported.
    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// All remarks in the order of the text.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        crate::diagnostic::sort(&mut self.diagnostics);
        self.diagnostics
    }

    /// Warns about keys that nobody knows.
    pub(crate) fn unknown_keys(&mut self, table: &Table<'_, 't>, known: &[&str], help: &str) {
        for (key, _) in table.entries {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let near = nearest(name, known.iter().copied(), 1);
            let mend = match near.first() {
                Some(near) => format!("did you mean '{near}'?"),
                None if help.is_empty() => format!("known keys: {}", known.join(", ")),
                None => help.to_owned(),
            };
            let field = table.field(name);
            self.warning(key.span().start, &field, "unknown key, not used".to_owned(), &mend);
        }
    }

    /// A string, if the key is there and is one.
    pub(crate) fn string(&mut self, table: &Table<'_, 't>, key: &str) -> Option<Text> {
        let value = table.get(key)?;
        let found = text_of(value);
        if found.is_none() {
            self.wrong_type(table, key, value, "a string");
        }
        found
    }

    /// A string that must be there and not be empty.
    pub(crate) fn required_string(&mut self, table: &Table<'_, 't>, key: &str) -> Option<Text> {
        if !table.has(key) {
            self.missing(table, key);
            return None;
        }
        let text = self.string(table, key)?;
        if text.value.trim().is_empty() {
            let help = format!("give {key} a value");
            self.error(text.span.start, &table.field(key), "is empty".to_owned(), &help);
            return None;
        }
        Some(text)
    }

    /// A whole number within `range`, if the key is there.
    pub(crate) fn integer(
        &mut self,
        table: &Table<'_, 't>,
        key: &str,
        range: Range<u64>,
    ) -> Option<u64> {
        let value = table.get(key)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(table, key, value, "a whole number");
            return None;
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let found = number.and_then(|n| u64::try_from(n).ok()).filter(|n| range.contains(n));
        if found.is_none() {
            let message = format!("{integer} is out of range");
            let help = format!("it must be {}..={}", range.start, range.end - 1);
            self.error(value.span().start, &table.field(key), message, &help);
        }
        found
    }

    /// True or false, if the key is there.
    pub(crate) fn boolean(&mut self, table: &Table<'_, 't>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let DeValue::Boolean(found) = value.get_ref() else {
            self.wrong_type(table, key, value, "true or false");
            return None;
        };
        Some(*found)
    }

    /// A finite number, if the key is there; 0 and less only if `positive` is false and then not below 0.
    pub(crate) fn number(
        &mut self,
        table: &Table<'_, 't>,
        key: &str,
        positive: bool,
    ) -> Option<f64> {
        let value = table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            DeValue::Integer(integer) => {
                i128::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64)
            }
            _ => {
                self.wrong_type(table, key, value, "a number");
                return None;
            }
        };
        let low = if positive { "above 0" } else { "0 or more" };
        let found = number.filter(|n| n.is_finite() && (*n > 0.0 || (!positive && *n == 0.0)));
        if found.is_none() {
            let raw = self.text.get(value.span()).unwrap_or("").to_owned();
            let help = format!("it must be a finite number {low}");
            self.error(
                value.span().start,
                &table.field(key),
                format!("{raw} is out of range"),
                &help,
            );
        }
        found
    }

    /// A list of strings, if the key is there; entries of other types are reported and left out.
    pub(crate) fn strings(&mut self, table: &Table<'_, 't>, key: &str) -> Option<Vec<Text>> {
        let value = table.get(key)?;
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(table, key, value, "a list of strings");
            return None;
        };
        let mut texts = Vec::new();
        for entry in array {
            match text_of(entry) {
                Some(text) => texts.push(text),
                None => self.wrong_type(table, key, entry, "a string"),
            }
        }
        Some(texts)
    }

    /// One table, if the key is there.
    pub(crate) fn table<'a>(&mut self, table: &Table<'a, 't>, key: &str) -> Option<Table<'a, 't>> {
        let value = table.get(key)?;
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong_type(table, key, value, "a table");
            return None;
        };
        Some(Table { entries, path: table.field(key), span: value.span() })
    }

    /// A list of tables; none if the key is missing.
    pub(crate) fn tables<'a>(&mut self, table: &Table<'a, 't>, key: &str) -> Vec<Table<'a, 't>> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            let want = format!("a list of tables ([[{key}]])");
            self.wrong_type(table, key, value, &want);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for entry in array {
            if let DeValue::Table(entries) = entry.get_ref() {
                tables.push(Table { entries, path: table.field(key), span: entry.span() });
            } else {
                self.wrong_type(table, key, entry, "a table");
            }
        }
        tables
    }

    pub(crate) fn missing(&mut self, table: &Table<'_, 't>, key: &str) {
        let help = format!("add '{key} = ...' to this entry");
        self.error(table.span.start, &table.field(key), "is missing".to_owned(), &help);
    }

    fn wrong_type(
        &mut self,
        table: &Table<'_, 't>,
        key: &str,
        value: &Spanned<DeValue<'t>>,
        want: &str,
    ) {
        let message = format!("is {}, not {want}", named(value.get_ref().type_str()));
        let help = format!("write {want}");
        self.error(value.span().start, &table.field(key), message, &help);
    }
}

impl<'a, 't> Table<'a, 't> {
    pub(crate) fn root(table: &'a Spanned<DeTable<'t>>) -> Self {
        Self { entries: table.get_ref(), path: String::new(), span: 0..0 }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'t>>> {
        self.entries.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Where the value of a key stands; the table itself if the key is missing.
    pub(crate) fn at(&self, key: &str) -> usize {
        self.get(key).map_or(self.span.start, |value| value.span().start)
    }

    /// Name of a key for a remark.
    pub(crate) fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn text_of(value: &Spanned<DeValue<'_>>) -> Option<Text> {
    let value_text = value.get_ref().as_str()?;
    Some(Text { value: value_text.to_owned(), span: value.span() })
}

fn named(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// A TOML string literal with this content.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
