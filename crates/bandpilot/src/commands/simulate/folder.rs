//! The folder of `--out`: runs that are done, and whether they are of this command.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bandpilot_readers::Diagnostic;
use bandpilot_sim::Policy;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::runs::Run;
use crate::exit::{Code, Failure};
use crate::io::{make_folder, replace, replace_with};

/// What the runs in the folder are runs of.
const ABOUT: &str = "simulate.json";
/// Folder of the runs.
const RUNS: &str = "runs";
/// Files that are written when all is done.
pub const CSV: &str = "jobs.csv";
pub const PARQUET: &str = "jobs.parquet";
pub const SUMMARY: &str = "summary.json";
pub const REPORT: &str = "report.html";
/// Longest value that is shown where two differ.
const MAX_SHOWN: usize = 60;

/// The folder, locked for as long as this lives.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

/// What a run depends on, by name.
pub type About = Map<String, Value>;

/// A name for a text that is too long to be compared word by word.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut name, byte| {
        // A String takes every text.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

impl Folder {
    /// Takes a folder for these runs: a new one, one without results, or with `resume` one with results of the same command.
    /// With `force` results that are there are given up.
    ///
    /// # Errors
    /// If it holds other results, somebody else writes there, or it cannot be used.
    pub fn take(path: &Path, about: &About, resume: bool, force: bool) -> Result<Self, Failure> {
        make_folder(&path.join(RUNS))?;
        let lock = lock(path)?;
        let folder = Self { path: path.to_owned(), _lock: lock };
        let known = folder.about();
        if resume {
            if let Some(known) = &known {
                folder.compare(known, about)?;
            } else {
                folder.refuse_results()?;
            }
        } else if force {
            folder.clear()?;
        } else {
            folder.refuse_results()?;
        }
        if known.is_none() || !resume {
            folder.write(ABOUT, &format!("{:#}\n", Value::Object(about.clone())))?;
        }
        Ok(folder)
    }

    fn about(&self) -> Option<About> {
        let text = std::fs::read_to_string(self.path.join(ABOUT)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn failure(&self, code: Code, message: impl Into<String>, help: &str) -> Failure {
        let reason = Diagnostic::error("", message).help(help);
        Failure::new(code, &self.path.display().to_string(), reason)
    }

    fn refuse_results(&self) -> Result<(), Failure> {
        let ours = [ABOUT, CSV, PARQUET, SUMMARY, REPORT];
        match ours.into_iter().find(|name| self.path.join(name).exists()) {
            None => Ok(()),
            Some(name) => Err(self.failure(
                Code::BadInput,
                format!("it holds results already ({name})"),
                "name another folder, go on with --resume, or overwrite them with --force",
            )),
        }
    }

    fn compare(&self, known: &About, about: &About) -> Result<(), Failure> {
        let name = |key: &&String| known.get(*key) != about.get(*key);
        let mut keys: Vec<&String> = about.keys().chain(known.keys()).filter(name).collect();
        keys.dedup();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        let value = |of: &About, key: &String| {
            let text = match of.get(key) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => "nothing".to_owned(),
            };
            let short: String = text.chars().take(MAX_SHOWN).collect();
            if short.len() < text.len() { short + "..." } else { short }
        };
        let told = |key: &String| {
            format!("{key} ({} there, {} now)", value(known, key), value(about, key))
        };
        let differ: Vec<String> = keys.into_iter().map(told).collect();
        Err(self.failure(
            Code::BadInput,
            format!("its runs are of another command: {}", differ.join(", ")),
            "resume with the same arguments, or name another folder",
        ))
    }

    /// Removes the runs and results, nothing else.
    fn clear(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            self.failure(Code::Io, format!("failed to remove old results: {error}"), "")
        };
        let runs = std::fs::read_dir(self.path.join(RUNS)).map_err(failed)?;
        let runs = runs.flatten().map(|entry| entry.path());
        let is_run = |path: &PathBuf| path.to_string_lossy().ends_with(".json.gz");
        let results = [CSV, PARQUET, SUMMARY, REPORT].map(|name| self.path.join(name));
        for path in runs.filter(is_run).chain(results.into_iter().filter(|path| path.exists())) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(())
    }

    fn run_path(&self, policy: Policy, seed: u64) -> PathBuf {
        let name = format!("{}-{}-{seed}.json.gz", policy.order.name, policy.placement.name);
        self.path.join(RUNS).join(name)
    }

    /// A run that is there. One that cannot be read is run again.
    pub fn run(&self, policy: Policy, seed: u64) -> Option<Run> {
        let file = File::open(self.run_path(policy, seed)).ok()?;
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok().filter(|run: &Run| run.seed == seed)
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, policy: Policy, run: &Run) -> Result<(), Failure> {
        replace_with(&self.run_path(policy, run.seed), |w| {
            let mut packed = GzEncoder::new(w, Compression::fast());
            serde_json::to_writer(&mut packed, run)?;
            packed.finish()?.flush()
        })
    }

    /// Writes a file of results.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        replace(&self.path.join(name), text)
    }

    /// The path of a file of results.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Two programs that write into one folder would mix their runs.
fn lock(path: &Path) -> Result<File, Failure> {
    let failure = |message: String, help: &str| {
        let reason = Diagnostic::error("", message).help(help);
        Failure::new(Code::Io, &path.display().to_string(), reason)
    };
    let opened = File::open(path.join(RUNS));
    let file = opened.map_err(|error| failure(format!("failed to open it: {error}"), ""))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(failure("another bandpilot writes there".to_owned(), "wait until it is done"))
        }
        Err(TryLockError::Error(error)) => Err(failure(format!("failed to lock it: {error}"), "")),
    }
}
