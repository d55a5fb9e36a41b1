//! Exit codes, and the one kind of error that commands return.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use bandpilot_readers::Diagnostic;
use serde_json::{Value, json};

/// The exit codes of the program; scripts may rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// 0: done.
    Ok,
    /// 1: a mistake in the program itself.
    Internal,
    /// 2: wrong arguments.
    Usage,
    /// 3: a file or notation that was given is wrong.
    BadInput,
    /// 4: the request cannot be met.
    Impossible,
    /// 5: a file could not be read or written.
    Io,
    /// 6: done, but something that was looked at has problems.
    Problems,
    /// 130: ended by Ctrl-C.
    Interrupted,
    /// That of a program that was run for the user.
    Theirs(u8),
}

impl Code {
    const fn number(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::BadInput => 3,
            Self::Impossible => 4,
            Self::Io => 5,
            Self::Problems => 6,
            Self::Interrupted => 130,
            Self::Theirs(code) => code,
        }
    }

    /// That of a program that ended like this; 128 and the signal's number where one ended it, as shells have it.
    pub fn theirs(status: ExitStatus) -> Self {
        let code = status.code().or_else(|| Some(128 + status.signal()?));
        Self::Theirs(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }

    /// The word for it in JSON.
    const fn kind(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Internal => "internal",
            Self::Usage => "usage",
            Self::BadInput => "bad_input",
            Self::Impossible => "impossible",
            Self::Io => "io",
            Self::Problems => "problems",
            Self::Interrupted => "interrupted",
            Self::Theirs(_) => "theirs",
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Exit code.
    pub code: Code,
    /// What is wrong, each with the file or argument it is about (may be empty); the first one counts.
    pub reasons: Vec<(String, Diagnostic)>,
}

impl Failure {
    /// A failure with a single reason.
    pub fn new(code: Code, file: &str, reason: Diagnostic) -> Self {
        Self { code, reasons: vec![(file.to_owned(), reason)] }
    }

    /// A wrong argument.
    pub fn usage(argument: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Code::Usage, argument, Diagnostic::error("", message).help(help))
    }

    /// A failure with everything that was said about one file or argument, errors first.
    pub fn all(code: Code, file: &str, mut reasons: Vec<Diagnostic>) -> Self {
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.severity));
        Self { code, reasons: reasons.into_iter().map(|r| (file.to_owned(), r)).collect() }
    }

    /// The text for people.
    pub fn human(&self) -> String {
        let name = |file: &str| if file.is_empty() { "bandpilot" } else { file }.to_owned();
        let lines: Vec<String> = self
            .reasons
            .iter()
            .map(|(file, reason)| reason.display(&name(file)).to_string())
            .collect();
        lines.join("\n")
    }

    /// The object for programs: the first reason.
    pub fn json(&self) -> Value {
        let none = (String::new(), Diagnostic::error("", "unknown"));
        let (file, first) = self.reasons.first().unwrap_or(&none);
        json!({"error": {
            "kind": self.code.kind(),
            "message": first.message,
            "help": text(&first.help),
            "file": text(file),
            "line": number(first.line),
            "column": number(first.column),
            "field": text(&first.field),
        }})
    }
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::from(text) }
}

fn number(number: u32) -> Value {
    if number == 0 { Value::Null } else { Value::from(number) }
}
