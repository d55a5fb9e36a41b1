//! The folder of `--out`: runs that are done, and whether they are of this command.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bandpilot_readers::Diagnostic;
use bandpilot_sim::Policy;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::runs::Run;
use crate::exit::{Code, Failure};
use crate::io::{check_place, make_folder, replace, replace_with};

/// What the runs in the folder are runs of.
const ABOUT: &str = "simulate.json";
/// Folder of the runs.
const RUNS: &str = "runs";
/// How the name of a run ends.
const RUN_END: &str = ".json.gz";
/// Keys of what all runs of the folder share the lists of: they are no part of the setting of one run.
const LISTS: [&str; 2] = ["policies", "seeds"];
/// Files that are written when all is done.
pub const CSV: &str = "jobs.csv";
pub const PARQUET: &str = "jobs.parquet";
pub const SERIES: &str = "series.csv";
pub const SUMMARY: &str = "summary.json";
pub const REPORT: &str = "report.html";
/// All of them.
pub const RESULTS: [&str; 5] = [CSV, PARQUET, SERIES, SUMMARY, REPORT];
/// Longest value that is shown where two differ.
const MAX_SHOWN: usize = 60;

/// The folder, locked for as long as this lives.
pub struct Folder {
    path: PathBuf,
    /// Fingerprint of what a run depends on beside policy and seed.
    setting: String,
    _lock: File,
}

/// First line of the file of a run: what it is a run of, and what the second line has to be.
#[derive(PartialEq, Serialize, Deserialize)]
struct Label {
    policy: String,
    seed: u64,
    setting_sha256: String,
    run_sha256: String,
}

/// What is in the folder in place of a run.
pub enum Found {
    /// Nothing.
    Nothing,
    /// The run.
    Run(Box<Run>),
    /// Something that is not to be trusted: the file and why.
    Wrong(PathBuf, &'static str),
}

/// What a run depends on, by name.
pub type About = Map<String, Value>;

/// A name for a text that is too long to be compared word by word.
pub fn fingerprint(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text.as_ref()).iter().fold(String::new(), |mut name, byte| {
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
        if path.is_file() {
            let reason = Diagnostic::error("", "it is a file, not a folder");
            let reason = reason.help("name a folder, which may be new");
            return Err(Failure::new(Code::Io, &path.display().to_string(), reason));
        }
        make_folder(&path.join(RUNS))?;
        let lock = lock(path)?;
        let mut setting = about.clone();
        setting.retain(|key, _| !LISTS.contains(&&**key));
        let setting = fingerprint(Value::Object(setting).to_string());
        let folder = Self { path: path.to_owned(), setting, _lock: lock };
        if resume {
            match folder.about() {
                Some(Ok(known)) => folder.compare(&known, about)?,
                Some(Err(error)) => {
                    return Err(folder.failure(
                        Code::BadInput,
                        format!(
                            "{ABOUT}, which says what its runs are of, cannot be read: {error}"
                        ),
                        "run everything again with --force, or name another folder",
                    ));
                }
                None => folder.refuse_strangers()?,
            }
        } else if force {
            folder.clear()?;
        } else {
            folder.refuse_results()?;
        }
        // Also where it is there: now is the time to learn that nothing can be written.
        folder.write(ABOUT, &format!("{:#}\n", Value::Object(about.clone())))?;
        check_place(&path.join(RUNS).join(format!("new{RUN_END}")))?;
        folder.remove(is_leftover)?;
        Ok(folder)
    }

    /// What the runs are of; nothing if there is no such file.
    fn about(&self) -> Option<Result<About, String>> {
        let path = self.path.join(ABOUT);
        if !path.exists() {
            return None;
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        Some(text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())))
    }

    fn failure(&self, code: Code, message: impl Into<String>, help: &str) -> Failure {
        let reason = Diagnostic::error("", message).help(help);
        Failure::new(code, &self.path.display().to_string(), reason)
    }

    /// The first file of results that is there.
    fn results(&self) -> Option<String> {
        let named = [ABOUT].into_iter().chain(RESULTS).find(|name| self.path.join(name).exists());
        named.map(str::to_owned).or_else(|| {
            let runs = std::fs::read_dir(self.path.join(RUNS)).ok()?.flatten();
            let names = runs.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(RUN_END)).min().map(|name| format!("{RUNS}/{name}"))
        })
    }

    fn refuse_results(&self) -> Result<(), Failure> {
        match self.results() {
            None => Ok(()),
            Some(name) => Err(self.failure(
                Code::BadInput,
                format!("it holds results already ({name})"),
                "name another folder, go on with --resume, or overwrite them with --force",
            )),
        }
    }

    /// Refuses to go on with results of which nothing says what they are of.
    fn refuse_strangers(&self) -> Result<(), Failure> {
        match self.results() {
            None => Ok(()),
            Some(name) => Err(self.failure(
                Code::BadInput,
                format!("it holds results ({name}) but no {ABOUT} that says what they are of"),
                "run everything again with --force, or name another folder",
            )),
        }
    }

    fn compare(&self, known: &About, about: &About) -> Result<(), Failure> {
        let differs = |key: &&String| known.get(*key) != about.get(*key);
        let mut keys: Vec<&String> = about.keys().chain(known.keys()).filter(differs).collect();
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
        self.remove(|name| name.ends_with(RUN_END) || RESULTS.contains(&name))
    }

    /// Removes files of ours by name.
    fn remove(&self, is_one: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            self.failure(Code::Io, format!("failed to remove old results: {error}"), "")
        };
        let runs = std::fs::read_dir(self.path.join(RUNS)).map_err(failed)?;
        let all = runs.chain(std::fs::read_dir(&self.path).map_err(failed)?).flatten();
        for entry in all.filter(|entry| is_one(&entry.file_name().to_string_lossy())) {
            std::fs::remove_file(entry.path()).map_err(failed)?;
        }
        Ok(())
    }

    fn run_path(&self, policy: Policy, seed: u64) -> PathBuf {
        let name = format!("{}-{}-{seed}{RUN_END}", policy.order.name, policy.placement.name);
        self.path.join(RUNS).join(name)
    }

    fn label(&self, policy: Policy, seed: u64, run: &[u8]) -> Label {
        let setting_sha256 = self.setting.clone();
        Label { policy: policy.to_string(), seed, setting_sha256, run_sha256: fingerprint(run) }
    }

    /// A run that is there.
    pub fn run(&self, policy: Policy, seed: u64) -> Found {
        let path = self.run_path(policy, seed);
        let Ok(file) = File::open(&path) else { return Found::Nothing };
        let mut packed = BufReader::new(GzDecoder::new(file));
        let (mut label, mut run) = (Vec::new(), Vec::new());
        let read = packed.read_until(b'\n', &mut label).and_then(|_| packed.read_to_end(&mut run));
        let label = read.ok().and_then(|_| serde_json::from_slice::<Label>(&label).ok());
        let Some(label) = label else { return Found::Wrong(path, "it is damaged") };
        let due = self.label(policy, seed, &run);
        if label.run_sha256 != due.run_sha256 {
            return Found::Wrong(path, "it is damaged");
        }
        if label != due {
            return Found::Wrong(path, "it is of another command");
        }
        match serde_json::from_slice(&run) {
            Ok(run) => Found::Run(Box::new(run)),
            Err(_) => Found::Wrong(path, "it is damaged"),
        }
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, policy: Policy, run: &Run) -> Result<(), Failure> {
        replace_with(&self.run_path(policy, run.seed), |w| {
            let text = serde_json::to_vec(run)?;
            // The packer is slow where it is given a few bytes at a time.
            let mut packed = BufWriter::new(GzEncoder::new(w, Compression::fast()));
            serde_json::to_writer(&mut packed, &self.label(policy, run.seed, &text))?;
            packed.write_all(b"\n")?;
            packed.write_all(&text)?;
            packed.into_inner()?.finish()?.flush()
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

/// True for what is left of a file of ours that was not written to its end.
fn is_leftover(name: &str) -> bool {
    let Some((name, process)) = name.strip_suffix(".tmp").and_then(|name| name.rsplit_once('.'))
    else {
        return false;
    };
    let is_ours = name.ends_with(RUN_END) || name == ABOUT || RESULTS.contains(&name);
    is_ours && !process.is_empty() && process.bytes().all(|digit| digit.is_ascii_digit())
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
