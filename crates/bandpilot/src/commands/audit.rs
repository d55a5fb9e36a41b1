//! The audit file: where it is, and how it is written.

use std::path::{Path, PathBuf};

use bandpilot_manager::audit::{self, Entry};
use bandpilot_readers::Diagnostic;

use crate::exit::{Code, Failure};
use crate::io::append_locked;

/// The audit file that was named, else the user's own.
///
/// # Errors
/// If none was named and the user has no home.
pub fn path(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let home = || set("HOME").map(|home| Path::new(&home).join(".local/state"));
    let Some(folder) = state.or_else(home) else {
        let help = "name it with --audit or BANDPILOT_AUDIT";
        return Err(Failure::usage(
            "--audit",
            "there is no home folder to keep the audit in",
            help,
        ));
    };
    let folder = folder.join("bandpilot");
    std::fs::create_dir_all(&folder).map_err(|error| {
        let message = format!("failed to make the folder: {error}");
        let reason = Diagnostic::error("", message).help("name a file with --audit");
        Failure::new(Code::Io, &folder.display().to_string(), reason)
    })?;
    Ok(folder.join("audit.jsonl"))
}

/// Appends to the audit.
///
/// # Errors
/// If it cannot be written or is none.
pub fn write(path: &Path, entries: &[Entry]) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    append_locked(path, |existing| {
        let text = audit::append(existing, entries)
            .map_err(|reason| Failure::new(Code::BadInput, &path.display().to_string(), reason))?;
        Ok((text, ()))
    })
}
