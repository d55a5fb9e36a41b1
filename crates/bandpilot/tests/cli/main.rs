//! The commands as a user runs them: real data, bad input, and what scripts rely on.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cluster;
mod cluster_import;
mod dispatch;
mod evaluate;
mod explain;
mod fill;
mod fit;
mod fragmentation;
mod json_reference;
mod measure;
mod output;
mod parallel;
mod requests;
mod sbatch;
mod simulate;
mod simulate_kept;
mod slurm;
mod slurm_config;
mod slurm_doctor;
mod slurm_trace;
mod slurm_verify;
mod tradeoff;
mod transcripts;
mod windows;

use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// The program in a folder, which is also the home of its user. What a site has set does not count.
fn bandpilot(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("bandpilot").unwrap();
    for name in ["BANDPILOT_CLUSTER", "BANDPILOT_MODEL", "BANDPILOT_AUDIT", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command.current_dir(folder).env("HOME", folder);
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

/// A folder with the example files of the documentation.
fn docs_folder() -> tempfile::TempDir {
    let folder = folder_with(&[]);
    copy(&repository().join("docs/examples"), folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Exit code and the one JSON value on stdout of a run with `--json`; stderr must be empty.
fn run_json(folder: &Path, args: &[&str]) -> (i32, serde_json::Value) {
    let (code, out, err) = run(folder, &[args, &["--json"]].concat());
    assert_eq!(err, "", "{args:?}");
    let value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{out}"));
    (code, value)
}

/// Runs a command that must fail with this exit code, for people and with `--json`; gives what it says to people and
/// the error object.
fn refused(folder: &Path, args: &[&str], code: i32) -> (String, serde_json::Value) {
    let (is, out, err) = run(folder, args);
    assert_eq!((is, out.as_str()), (code, ""), "{args:?}\n{err}");
    assert!(err.contains("error: ") && !err.contains("panicked"), "{args:?}\n{err}");
    let (is, mut answer) = run_json(folder, args);
    assert_eq!(is, code, "{args:?}");
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    (err, answer["error"].take())
}

fn table(data: &Path, name: &str) -> PathBuf {
    data.join("nccl-bandpilot").join(name)
}
