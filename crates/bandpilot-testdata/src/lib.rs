//! Finds the real measurement and field files that tests read in place.
//!
//! The files are not part of the repository. They are looked for in the folder that the environment
//! variable `BANDPILOT_DATA` names, else in `shared/data` beside the workspace. A test that does not
//! find them says so (`SKIPPED-DATA: NAME` on stderr, and a line in the file that
//! `BANDPILOT_SKIP_LOG` names) and returns, so that a run without data stays green but not silent.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folder with the data, if there is one.
pub fn data_dir() -> Option<PathBuf> {
    let beside = || {
        // That of the package under test. What was compiled in may be of another copy of the workspace, where both
        // share a target folder.
        let package = std::env::var_os("CARGO_MANIFEST_DIR");
        let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&package).join("../../../shared/data")
    };
    let folder = std::env::var_os("BANDPILOT_DATA").map_or_else(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// The folder with the data; if there is none, says that `test` is skipped.
///
/// ```no_run
/// let Some(data) = bandpilot_testdata::require_data("reads_every_table") else { return };
/// # let _ = data;
/// ```
pub fn require_data(test: &str) -> Option<PathBuf> {
    let found = data_dir();
    if found.is_none() {
        report_skip(test);
    }
    found
}

/// True if all these programs are installed; if not, says that `test` is skipped.
///
/// They are looked for where administrators' programs are, too, which is not in every user's search path.
pub fn require_programs(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&str> =
        programs.iter().copied().filter(|program| find_program(program).is_none()).collect();
    if !missing.is_empty() {
        report_skip(&format!("{test} ({} not installed)", missing.join(", ")));
    }
    missing.is_empty()
}

/// The file of a program.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The text of one data file, bytes that are not UTF-8 replaced; `None` if it cannot be read.
pub fn read(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a folder in order of name; none if it cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

fn report_skip(test: &str) {
    // One write each: tests run at the same time and must not write into each other's lines. Neither a closed
    // stderr nor a log that cannot be written may fail the test that it is about.
    let line = format!("SKIPPED-DATA: {test}\n");
    // Past the capture of test output: a skipped test has to be seen.
    let _ = std::io::stderr().write_all(line.as_bytes());
    let Some(log) = std::env::var_os("BANDPILOT_SKIP_LOG") else { return };
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(log);
    if let Ok(mut file) = opened {
        let _ = file.write_all(line.as_bytes());
    }
}
