//! The commands as a user runs them: real data, bad input, and what scripts rely on.

#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

mod cluster;
mod measure;
mod output;

use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// The program in a folder.
fn bandpilot(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("bandpilot").unwrap();
    command.current_dir(folder);
    command
}

/// Exit code, stdout and stderr of one run.
fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = bandpilot(folder).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn table(data: &Path, name: &str) -> PathBuf {
    data.join("nccl-bandpilot").join(name)
}
