//! What a reader has to say about a text.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something the reader did that the user may want to know.
    Note,
    /// Probably a mistake; the value is used all the same.
    Warning,
    /// The part that it points at is not used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One remark about one place of a text, with the mend where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// 1-based line; 0 if it is about the text as a whole.
    pub line: u32,
    /// 1-based column, counted in characters; 0 if unknown.
    pub column: u32,
    /// The key, column or part of the notation it is about; may be empty.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub help: String,
}

impl Diagnostic {
    /// An error about the text as a whole; [`at`](Self::at) and [`help`](Self::help) say more.
    pub fn error(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, field, message)
    }

    /// A warning; see [`error`](Self::error).
    pub fn warning(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, field, message)
    }

    /// A note; see [`error`](Self::error).
    pub fn note(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, field, message)
    }

    fn new(severity: Severity, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
            line: 0,
            column: 0,
            field: field.into(),
            message: message.into(),
            help: String::new(),
        }
    }

    /// Points at a line and column, both from 1; 0 for unknown.
    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> Self {
        self.line = line;
        self.column = column;
        self
    }

    /// Adds the mend.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Moves a remark about a one-line notation to where that notation stands in a file.
    #[must_use]
    pub(crate) fn moved_to(mut self, line: u32, column: u32, field: &str) -> Self {
        self.column = if column == 0 { 0 } else { column + self.column.saturating_sub(1) };
        self.line = line;
        self.field = if self.field.is_empty() || self.field == field {
            field.to_owned()
        } else {
            format!("{field}: {}", self.field)
        };
        self
    }

    /// `FILE:LINE:COL: error: FIELD: MESSAGE`, the help on a second line.
    ///
    /// ```
    /// use bandpilot_readers::Diagnostic;
    /// let remark = Diagnostic::error("type", "'dgx' is not a host type").at(7, 8).help("write 'dgx-h100'");
    /// assert_eq!(
    ///     remark.display("c.toml").to_string(),
    ///     "c.toml:7:8: error: type: 'dgx' is not a host type\n  help: write 'dgx-h100'"
    /// );
    /// ```
    pub fn display<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        Located { file, diagnostic: self }
    }
}

struct Located<'a> {
    file: &'a str,
    diagnostic: &'a Diagnostic,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, line, column, field, message, help } = self.diagnostic;
        f.write_str(self.file)?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        if *line > 0 && *column > 0 {
            write!(f, ":{column}")?;
        }
        write!(f, ": {severity}: ")?;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)?;
        if !help.is_empty() {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// What could be read of a text, and what was wrong with the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed<T> {
    /// The value; complete only if there are no errors.
    pub value: T,
    /// Remarks in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Parsed<T> {
    /// True if any part could not be used.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// The value and the milder remarks, or all remarks if one of them is an error.
    ///
    /// # Errors
    /// The remarks, if one of them is an error.
    pub fn into_result(self) -> Result<(T, Vec<Diagnostic>), Vec<Diagnostic>> {
        if self.has_errors() { Err(self.diagnostics) } else { Ok((self.value, self.diagnostics)) }
    }
}

/// Most remarks about one placement: a hostlist could stand for a hundred thousand wrong names.
pub(crate) const MAX_REMARKS: usize = 100;

/// Orders remarks by where they point; those about the whole text come first.
pub(crate) fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|d| (d.line, d.column));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_what_is_unknown() {
        let whole = Diagnostic::note("", "nothing here");
        assert_eq!(whole.display("a").to_string(), "a: note: nothing here");
        let row = Diagnostic::warning("size", "is odd").at(3, 0);
        assert_eq!(row.display("a").to_string(), "a:3: warning: size: is odd");
    }

    #[test]
    fn errors_win_over_the_value() {
        let mild = Parsed { value: 1, diagnostics: vec![Diagnostic::warning("", "w")] };
        assert_eq!(mild.into_result().unwrap().0, 1);
        let bad = Parsed { value: 1, diagnostics: vec![Diagnostic::error("", "e")] };
        assert_eq!(bad.into_result().unwrap_err().len(), 1);
    }
}
