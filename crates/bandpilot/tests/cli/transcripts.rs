//! Every console block of the documentation is run, and what it prints is compared.
//!
//! A block is a list of `$ command` lines, each followed by what the command prints: stderr, then
//! stdout. `[..]` stands for anything in a line, a line `...` for any lines. Commands are `bandpilot`,
//! `cat`, `export` and `echo $?`; `> FILE` writes stdout into a file; a command that fails must be followed by `echo $?`. Each page has a folder of
//! its own with the files of `docs/examples`, so that a later block finds what an earlier one wrote.
//! From the first block with `$BANDPILOT_DATA` in it on, a page is skipped where the data is missing.
//!
//! A page with the line `<!-- run on a Slurm cluster of 4 hosts -->` has such a cluster of its own, with 8 GPUs on each host;
//! Slurm's commands may stand in it, too. Before each command the jobs that are about to start or to end have done so, so that
//! job ids and plans are the same on every run. Without Slurm it is skipped.
//!
//! `BANDPILOT_UPDATE_DOCS=1 cargo test -p bandpilot transcripts` writes what the commands print now
//! into the pages. (`trycmd` was looked at: it neither shares one folder of files between pages nor
//! skips the rest of a page, and its pages cannot name a folder that differs from machine to machine.)

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bandpilot_testcluster::SlurmCluster;

use crate::{bandpilot, docs_folder, repository};

/// Commands of Slurm that a page may show.
const SLURM: [&str; 6] = ["sbatch", "srun", "squeue", "sinfo", "scontrol", "scancel"];

/// One command of a page; line numbers from 0.
struct Step {
    line: usize,
    command: String,
    /// Lines of the page that hold what it prints.
    printed: std::ops::Range<usize>,
}

/// The console blocks of a page, each a list of steps.
fn blocks(page: &[&str]) -> Vec<Vec<Step>> {
    let mut blocks: Vec<Vec<Step>> = Vec::new();
    let mut inside = false;
    let mut at = 0;
    while at < page.len() {
        let line = page[at];
        if line.starts_with("```") {
            inside = line == "```console";
            if inside {
                blocks.push(Vec::new());
            }
        } else if inside && let Some(first) = line.strip_prefix("$ ") {
            let start = at;
            let mut command = first.to_owned();
            while let Some(open) = command.strip_suffix('\\') {
                at += 1;
                command = format!("{open}{}", page[at].trim_start());
            }
            let end = (at + 1..page.len())
                .find(|&i| page[i].starts_with("$ ") || page[i].starts_with("```"))
                .unwrap_or(page.len());
            blocks.last_mut().unwrap().push(Step { line: start, command, printed: at + 1..end });
            at = end - 1;
        }
        at += 1;
    }
    blocks
}

/// Splits a command at blanks; single quotes keep a word together.
fn words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    for c in command.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                if !open {
                    words.push(String::new());
                }
                open = true;
            }
            ' ' if !quoted => open = false,
            _ => {
                if !open {
                    words.push(String::new());
                }
                open = true;
                words.last_mut().unwrap().push(c);
            }
        }
    }
    words
}

/// What the commands of a page see.
struct Stage {
    folder: tempfile::TempDir,
    /// Exit code of the last command.
    code: i32,
    /// Folder of the real measurements; empty until it is needed.
    data: String,
    /// What was exported.
    env: Vec<(String, String)>,
    slurm: Option<SlurmCluster>,
}

impl Stage {
    /// Waits until no job is about to start or on its way out.
    fn settle(&self) {
        let Some(slurm) = &self.slurm else { return };
        slurm.eventually("no job is in between", || {
            let jobs = slurm.must(&["squeue", "-h", "-o", "%T %r"]);
            let still = |line: &str| {
                let (state, reason) = line.split_once(' ').unwrap_or((line, ""));
                state == "RUNNING" || state == "PENDING" && !["None", "BeginTime"].contains(&reason)
            };
            jobs.lines().all(still)
        });
    }

    /// Runs a command; what it prints. The exit code is kept.
    fn execute(&mut self, command: &str) -> String {
        let words: Vec<String> =
            words(command).iter().map(|word| word.replace("$BANDPILOT_DATA", &self.data)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (words, file) = match words[..] {
            [ref words @ .., ">", file] => (words, Some(file)),
            _ => (&words[..], None),
        };
        let folder = self.folder.path();
        let slurm = self.slurm.as_ref();
        let output = match words {
            ["bandpilot", args @ ..] => {
                let env = slurm.map(SlurmCluster::env).unwrap_or_default();
                let set = env.iter().chain(&self.env).map(|(key, value)| (key, value));
                bandpilot(folder).args(args).envs(set).output().unwrap()
            }
            [program, args @ ..] if slurm.is_some() && SLURM.contains(program) => {
                let mut command = std::process::Command::new(program);
                let set = slurm.map(SlurmCluster::env).unwrap_or_default();
                let set = set.iter().chain(&self.env).map(|(key, value)| (key, value));
                command.args(args).current_dir(folder).envs(set).output().unwrap()
            }
            ["cat", file] => return fs::read_to_string(folder.join(file)).unwrap(),
            ["echo", "$?"] => return format!("{}\n", std::mem::take(&mut self.code)),
            ["export", settings @ ..] => {
                let setting = |word: &&str| word.split_once('=').map(|(k, v)| (k.into(), v.into()));
                self.env.extend(settings.iter().filter_map(setting));
                return String::new();
            }
            _ => panic!("the documentation has a command that is not run: {command}"),
        };
        self.code = output.status.code().unwrap_or(-1);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut printed = text(&output.stderr);
        match file {
            Some(file) => fs::write(folder.join(file), &output.stdout).unwrap(),
            None => printed += &text(&output.stdout),
        }
        if self.data.is_empty() { printed } else { printed.replace(&self.data, "$BANDPILOT_DATA") }
    }
}

/// True if the line fits a pattern with `[..]` in it.
fn line_fits(pattern: &str, line: &str) -> bool {
    let Some((head, rest)) = pattern.split_once("[..]") else { return pattern == line };
    let Some(mut line) = line.strip_prefix(head) else { return false };
    loop {
        if line_fits(rest, line) {
            return true;
        }
        let mut chars = line.chars();
        if chars.next().is_none() {
            return false;
        }
        line = chars.as_str();
    }
}

/// True if the lines fit the patterns; `...` stands for any lines.
fn fits(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skip| fits(rest, &lines[skip..])),
        [first, rest @ ..] => {
            lines.first().is_some_and(|line| line_fits(first, line)) && fits(rest, &lines[1..])
        }
    }
}

/// The number in `<!-- run on a Slurm cluster of 4 hosts -->`.
fn slurm_hosts(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("<!-- run on a Slurm cluster of ")?;
    rest.strip_suffix(" hosts -->")?.parse().ok()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Runs a page; gives what differs and the number of commands run.
fn check(path: &Path, update: bool) -> (String, usize) {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let name = path.strip_prefix(repository()).unwrap().display().to_string();
    let (mut differences, mut run) = (String::new(), 0);
    let mut stage =
        Stage { folder: docs_folder(), code: 0, data: String::new(), env: Vec::new(), slurm: None };
    if let Some(hosts) = lines.iter().find_map(|line| slurm_hosts(line)) {
        stage.slurm = SlurmCluster::start(&format!("cli::{name}"), hosts, 8);
        if stage.slurm.is_none() {
            return (differences, run);
        }
    }
    let mut replaced: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for block in blocks(&lines) {
        if block.iter().any(|step| step.command.contains("$BANDPILOT_DATA")) {
            let Some(found) = bandpilot_testdata::require_data(&format!("cli::{name}")) else {
                break;
            };
            stage.data = found.canonicalize().unwrap().display().to_string();
        }
        for (at, step) in block.iter().enumerate() {
            stage.settle();
            let printed = stage.execute(&step.command);
            run += 1;
            let actual: Vec<&str> = printed.lines().map(str::trim_end).collect();
            let expected = &lines[step.printed.clone()];
            if !fits(expected, &actual) {
                replaced.push((step.printed.clone(), actual.join("\n")));
                let (line, shown) = (step.line + 1, actual.join("\n"));
                writeln!(differences, "{name}:{line}: $ {}\n{shown}\n", step.command).unwrap();
            }
            let told = block.get(at + 1).is_some_and(|next| next.command == "echo $?");
            if stage.code != 0 && !told {
                let (line, code) = (step.line + 1, stage.code);
                writeln!(differences, "{name}:{line}: it exits with {code}").unwrap();
            }
        }
    }
    if update && !replaced.is_empty() {
        let mut new: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for (range, printed) in replaced.into_iter().rev() {
            let printed: Vec<String> = printed.lines().map(ToOwned::to_owned).collect();
            new.splice(range, printed);
        }
        fs::write(path, new.join("\n") + "\n").unwrap();
    }
    (differences, run)
}

#[test]
fn every_console_block_prints_what_the_page_says() {
    check_pages(false);
}

#[test]
fn every_console_block_on_slurm_prints_what_the_page_says() {
    check_pages(true);
}

fn check_pages(on_slurm: bool) {
    let update = std::env::var_os("BANDPILOT_UPDATE_DOCS").is_some();
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(|name| repository().join(name))
        .to_vec();
    pages(&repository().join("docs"), &mut found);
    found.sort();
    let mut differences = String::new();
    found.retain(|page| {
        let text = fs::read_to_string(page).unwrap();
        text.lines().any(|line| slurm_hosts(line).is_some()) == on_slurm
    });
    for page in &found {
        let (differs, run) = check(page, update);
        differences.push_str(&differs);
        assert!(run > 0 || !page.ends_with("README.md"), "the README shows no command");
    }
    assert!(
        update || differences.is_empty(),
        "the documentation does not show what is printed now; BANDPILOT_UPDATE_DOCS=1 mends it\n\n{differences}"
    );
}

#[test]
fn patterns_fit_what_they_should() {
    assert!(fits(&["a", "...", "z"], &["a", "b", "c", "z"]));
    assert!(fits(&["...", "z"], &["z"]));
    assert!(!fits(&["a", "z"], &["a", "b", "z"]));
    assert!(!fits(&["a"], &["a", "b"]));
    assert!(line_fits("p50 [..] us, [..]", "p50 12 us, x"));
    assert!(!line_fits("p50 [..] us", "p50 12 ms"));
    assert_eq!(words("a 'b c'd  e"), ["a", "b cd", "e"]);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(|name| repository().join(name))
        .to_vec();
    pages(&repository().join("docs"), &mut found);
    let mut broken = Vec::new();
    for page in found {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = link.0.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !page.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
