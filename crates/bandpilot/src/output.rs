//! Printing: every command gives one [`Output`], for people or as JSON.

pub use bandpilot_core::counted;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use bandpilot_readers::Diagnostic;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::exit::{Code, Failure};

/// What a command has to show.
pub trait Output {
    /// Writes it for people.
    ///
    /// # Errors
    /// If writing fails.
    fn human(&self, w: &mut dyn Write) -> io::Result<()>;

    /// The same for programs.
    fn json(&self) -> Value;
}

/// What a command did.
pub struct Done {
    /// What it has to show.
    pub output: Box<dyn Output>,
    /// Remarks for people, with the file they are about; they go to stderr.
    pub remarks: Vec<(String, Diagnostic)>,
    /// Exit code.
    pub code: Code,
}

impl Done {
    /// Done without a remark.
    pub fn ok(output: impl Output + 'static) -> Self {
        Self { output: Box::new(output), remarks: Vec::new(), code: Code::Ok }
    }
}

/// Prints what a command did or why it did not, and gives the exit code.
pub fn emit(result: Result<Done, Failure>, json: bool) -> Code {
    let (printed, code) = match result {
        Ok(done) if json => (print_json(&done.output.json()), done.code),
        Ok(done) => {
            let lines: Vec<String> = done
                .remarks
                .iter()
                .map(|(file, remark)| remark.display(file).to_string())
                .collect();
            say(&lines.join("\n"));
            (print_human(&*done.output), done.code)
        }
        Err(failure) if json => (print_json(&failure.json()), failure.code),
        Err(failure) => {
            say(&failure.human());
            (Ok(()), failure.code)
        }
    };
    match printed {
        Ok(()) => code,
        // The reader has seen enough, for example `| head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Code::Ok,
        Err(error) => {
            say(&format!("bandpilot: error: failed to write the output: {error}"));
            Code::Io
        }
    }
}

fn print_human(output: &dyn Output) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    output.human(&mut out)?;
    out.flush()
}

fn print_json(value: &Value) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    writeln!(out, "{value:#}")?;
    out.flush()
}

/// Writes lines to stderr; if even that fails there is nobody to tell.
pub fn say(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// A time in UTC, of seconds since 1970.
pub fn time(s: i64) -> String {
    let since = Duration::from_secs(u64::try_from(s).unwrap_or(0).min(1 << 37));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// A remark as JSON.
pub fn remark_json(file: &str, remark: &Diagnostic) -> Value {
    json!({
        "severity": remark.severity.to_string(),
        "file": file,
        "line": remark.line,
        "column": remark.column,
        "field": remark.field,
        "message": remark.message,
        "help": remark.help,
    })
}

/// All remarks as JSON.
pub fn remarks_json(remarks: &[(String, Diagnostic)]) -> Vec<Value> {
    remarks.iter().map(|(file, remark)| remark_json(file, remark)).collect()
}

/// An empty table of the one look that all tables have.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    // Independent of the width of the terminal, so that output can be compared.
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Writes a table without blanks at line ends.
///
/// # Errors
/// If writing fails.
pub fn write_table(w: &mut dyn Write, table: &Table) -> io::Result<()> {
    for line in table.to_string().lines() {
        writeln!(w, "{}", line.trim_end())?;
    }
    Ok(())
}
