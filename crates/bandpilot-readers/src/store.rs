//! The measurement store: one append-only text file.
//!
//! The first line is [`HEADER`], every further line one JSON object:
//!
//! ```text
//! # bandpilot measurements v1
//! {"op":"all_reduce","bytes":16777216,"placement":"h1:0-3,h2:0-1","busbw_gbytes_per_s":41.62,"source":"t.csv","line":4}
//! ```
//!
//! `bytes` is `null` where the user said that the size is unknown. Lines are only ever appended. A line
//! that was not written to its end (the machine stopped) is reported and left out; the next append
//! closes it with [`TORN`], so that it stays apart from what follows. Two lines that agree in all six
//! keys are the same measurement: importing a file twice adds nothing. The source [`STDIN`] agrees with any.

use std::collections::BTreeSet;

use bandpilot_core::Measurement;
use serde_json::{Map, Value, json};

use crate::import::MAX_BUSBW_GBYTES_PER_S;
use crate::{Diagnostic, Parsed, placement};

/// The first line, without its line end.
pub const HEADER: &str = "# bandpilot measurements v1";

/// What ends a line that was torn and then closed by a later append.
pub const TORN: &str = "#torn";

/// The source of what was piped in.
pub const STDIN: &str = "stdin";

const NAME: &str = "# bandpilot measurements v";
const VERSION: &str = "1";
const KEYS: [&str; 6] = ["op", "bytes", "placement", "busbw_gbytes_per_s", "source", "line"];

/// What to append to a store, and what of it was new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// Text to append as it is; empty if there is nothing to add.
    pub text: String,
    /// Number of measurements in it.
    pub added: usize,
    /// Number of measurements that the store already had, or that were given twice.
    pub already_present: usize,
}

/// Reads a store. An empty text is an empty store.
///
/// ```
/// use bandpilot_readers::store;
/// let text = format!("{}\n{}", store::HEADER,
///     r#"{"op":"all_reduce","bytes":null,"placement":"h1:0-3","busbw_gbytes_per_s":9.5,"source":"t","line":4}"#);
/// let read = store::parse(&text);
/// assert!(read.diagnostics.is_empty());
/// assert_eq!(read.value[0].gpus(), 4);
/// ```
pub fn parse(text: &str) -> Parsed<Vec<Measurement>> {
    let mut measurements = Vec::new();
    let mut diagnostics = Vec::new();
    if is_torn_header(text) {
        return Parsed { value: measurements, diagnostics };
    }
    if let Err(reason) = check_header(text) {
        return Parsed { value: measurements, diagnostics: vec![reason] };
    }
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    let mut lines = (1_u32..).zip(text.split('\n')).skip(1).peekable();
    while let Some((number, line)) = lines.next() {
        // The piece behind the last line end is the only one that may be torn.
        let last = lines.peek().is_none();
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read_line(line, &mut unknown) {
            Ok((measurement, remark)) => {
                measurements.push(measurement);
                diagnostics.extend(remark.map(|d| d.at(number, 0)));
            }
            Err(_) if line.ends_with(TORN) => {
                let note = Diagnostic::note("", "a torn line, left out").at(number, 0);
                diagnostics.push(note);
            }
            Err(_) if last => diagnostics.push(
                Diagnostic::warning("", "the last line is torn, left out")
                    .at(number, 0)
                    .help("import its file again; the next import closes the torn line"),
            ),
            Err(reason) => diagnostics.push(reason.at(number, 0)),
        }
    }
    Parsed { value: measurements, diagnostics }
}

/// What must be appended to `existing` so that the store holds `new` too.
///
/// ```
/// use bandpilot_readers::store;
/// let m = store::parse(&format!("{}\n{}", store::HEADER,
///     r#"{"op":"all_reduce","bytes":8,"placement":"h1:0-3","busbw_gbytes_per_s":9.5,"source":"t","line":4}"#)).value;
/// let first = store::append_text("", &m).unwrap();
/// assert_eq!((first.added, first.already_present), (1, 0));
/// let again = store::append_text(&first.text, &m).unwrap();
/// assert_eq!((again.text.as_str(), again.already_present), ("", 1));
/// ```
///
/// # Errors
/// If `existing` is no store, or one of a newer version.
pub fn append_text(existing: &str, new: &[Measurement]) -> Result<Addition, Diagnostic> {
    let mut text = String::new();
    let mut known = Known::default();
    if is_torn_header(existing) {
        text.push_str(HEADER.get(existing.len()..).unwrap_or(""));
        text.push('\n');
    } else {
        check_header(existing)?;
        for measurement in &parse(existing).value {
            known.add(measurement);
        }
        if let Some(tail) = existing.rsplit('\n').next().filter(|tail| !tail.is_empty()) {
            let sound = tail.starts_with('#') || read_line(tail, &mut BTreeSet::new()).is_ok();
            text.push_str(if sound { "\n" } else { "#torn\n" });
        }
    }
    let mut added = 0;
    for measurement in new {
        if !known.has(measurement) {
            text.push_str(&to_line(measurement));
            text.push('\n');
            added += 1;
            known.add(measurement);
        }
    }
    if added == 0 && !existing.is_empty() {
        text.clear();
    }
    Ok(Addition { text, added, already_present: new.len() - added })
}

/// The measurements that a store has. A text that was piped in has no name of its own, so it may be any file's.
#[derive(Default)]
struct Known {
    lines: BTreeSet<String>,
    /// All of them as if they had been piped in.
    unnamed: BTreeSet<String>,
    /// Those that were piped in.
    piped: BTreeSet<String>,
}

impl Known {
    fn add(&mut self, measurement: &Measurement) {
        let unnamed = unnamed(measurement);
        if measurement.source == STDIN {
            self.piped.insert(unnamed.clone());
        }
        self.unnamed.insert(unnamed);
        self.lines.insert(to_line(measurement));
    }

    fn has(&self, measurement: &Measurement) -> bool {
        let alike = if measurement.source == STDIN { &self.unnamed } else { &self.piped };
        self.lines.contains(&to_line(measurement)) || alike.contains(&unnamed(measurement))
    }
}

/// The line of a measurement as if it had been piped in.
fn unnamed(measurement: &Measurement) -> String {
    to_line(&Measurement { source: STDIN.to_owned(), ..measurement.clone() })
}

/// True for an empty text and for a header that was not written to its end.
fn is_torn_header(text: &str) -> bool {
    HEADER.starts_with(text)
}

fn check_header(text: &str) -> Result<(), Diagnostic> {
    let first = text.split('\n').next().unwrap_or("").trim_end();
    match first.strip_prefix(NAME) {
        Some(VERSION) => Ok(()),
        Some(version) => {
            let message =
                format!("the store is of version '{version}', this program reads {VERSION}");
            let help = "use the program that wrote it, or import the files into a new store";
            Err(Diagnostic::error("", message).at(1, 1).help(help))
        }
        None => {
            let message = "the file is not a measurement store";
            let help = format!("a store begins with the line '{HEADER}'");
            Err(Diagnostic::error("", message).at(1, 1).help(help))
        }
    }
}

/// One line without its end; equal measurements give equal lines.
fn to_line(measurement: &Measurement) -> String {
    let Measurement { collective, bytes, placement, busbw_gbytes_per_s, source, line } =
        measurement;
    let text = |text: &str| Value::from(text).to_string();
    let bytes = bytes.map_or("null".to_owned(), |bytes| bytes.to_string());
    // Written by hand to keep the keys in the documented order.
    format!(
        r#"{{"op":{},"bytes":{bytes},"placement":{},"busbw_gbytes_per_s":{},"source":{},"line":{line}}}"#,
        text(collective.name()),
        text(&placement::format(placement)),
        json!(busbw_gbytes_per_s),
        text(source),
    )
}

/// One line and at most one remark; keys in `unknown` have been warned about.
fn read_line(
    line: &str,
    unknown: &mut BTreeSet<String>,
) -> Result<(Measurement, Option<Diagnostic>), Diagnostic> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| Diagnostic::error("", format!("not a line of JSON: {error}")))?;
    let Value::Object(object) = value else {
        return Err(Diagnostic::error("", "not a JSON object"));
    };
    let measurement = Measurement {
        collective: string(&object, "op")?
            .parse()
            .map_err(|error| Diagnostic::error("op", format!("{error}")))?,
        bytes: match object.get("bytes") {
            Some(Value::Null) => None,
            _ => Some(whole(&object, "bytes")?),
        },
        placement: read_placement(string(&object, "placement")?)?,
        busbw_gbytes_per_s: bandwidth(&object)?,
        source: string(&object, "source")?.to_owned(),
        line: whole(&object, "line")?,
    };
    let new = object.keys().find(|key| !KEYS.contains(&key.as_str()) && !unknown.contains(*key));
    let remark = new.map(|key| {
        unknown.insert(key.clone());
        Diagnostic::warning(key.as_str(), "unknown key, not used")
    });
    Ok((measurement, remark))
}

fn missing(key: &str, want: &str) -> Diagnostic {
    Diagnostic::error(key, format!("is missing or not {want}"))
}

fn string<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, Diagnostic> {
    object.get(key).and_then(Value::as_str).ok_or_else(|| missing(key, "a string"))
}

fn whole(object: &Map<String, Value>, key: &str) -> Result<u64, Diagnostic> {
    object.get(key).and_then(Value::as_u64).ok_or_else(|| missing(key, "a whole number"))
}

fn bandwidth(object: &Map<String, Value>) -> Result<f64, Diagnostic> {
    let key = "busbw_gbytes_per_s";
    let number = object.get(key).and_then(Value::as_f64);
    number
        .filter(|number| (0.0..=MAX_BUSBW_GBYTES_PER_S).contains(number))
        .ok_or_else(|| missing(key, "a bandwidth"))
}

fn read_placement(text: &str) -> Result<Vec<(String, bandpilot_core::GpuMask)>, Diagnostic> {
    match placement::by_name(text).into_result() {
        Ok((placement, _)) => Ok(placement),
        Err(remarks) => {
            let first = remarks.into_iter().next().map_or(String::new(), |d| d.message);
            Err(Diagnostic::error("placement", first))
        }
    }
}

#[cfg(test)]
#[path = "tests/store.rs"]
mod tests;
