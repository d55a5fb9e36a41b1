//! The questions, and their answers as values.

use std::collections::BTreeMap;

use bandpilot_manager::exchange::{Reply, Runner};

use crate::{Host, text};

/// Programs that bandpilot calls.
const COMMANDS: [&str; 7] = ["sbatch", "srun", "scontrol", "squeue", "sinfo", "sacct", "scancel"];

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// Its settings as `scontrol show partition` names them.
    pub settings: BTreeMap<String, String>,
}

impl Partition {
    /// A setting; empty if it is not there.
    pub fn get(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }
}

/// What Slurm said. Each part is what went wrong, in words, if there is no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// `22.05.8`.
    pub version: Result<String, String>,
    /// What `scontrol ping` said, a line for each controller.
    pub ping: Result<Vec<String>, String>,
    /// Settings by key in small letters; those that are not set are empty.
    pub config: Result<BTreeMap<String, String>, String>,
    /// Seconds that the controller's clock is ahead of this one's.
    pub ahead_s: Option<i64>,
    /// Hosts with their GPUs.
    pub hosts: Result<Vec<Host>, String>,
    /// What each host calls itself, by its name in Slurm.
    pub host_names: BTreeMap<String, String>,
    /// Partitions.
    pub partitions: Result<Vec<Partition>, String>,
    /// Programs that do not start, with the reason.
    pub missing: Vec<(&'static str, String)>,
    /// What this host calls itself.
    pub this_host: Option<String>,
    /// GPUs that the driver lists.
    pub driver: Result<usize, String>,
}

impl Facts {
    /// The folder of Slurm's files.
    pub fn folder(&self) -> Option<&str> {
        let file = self.setting("slurm_conf")?;
        file.rsplit_once('/').map(|(folder, _)| folder)
    }

    /// A setting, empty if it is not set; `None` if there are no settings.
    pub fn setting(&self, key: &str) -> Option<&str> {
        let config = self.config.as_ref().ok()?;
        Some(config.get(key).map_or("", String::as_str))
    }
}

/// Puts all questions. Nothing is changed by them.
pub fn ask(runner: &mut dyn Runner) -> Facts {
    let mut missing = Vec::new();
    for command in COMMANDS {
        // One that ends with an error is there all the same: without a slurm.conf all of them do.
        if let Err(reason) = runner.run(&[command, "--version"]) {
            missing.push((command, reason.to_string()));
        }
    }
    let version = answer(runner, &["scontrol", "-V"]).1;
    let version = version.map(|said| said.split_whitespace().last().unwrap_or("").to_owned());
    let (_, ping) = answer(runner, &["scontrol", "ping"]);
    let (at_s, config) = answer(runner, &["scontrol", "show", "config"]);
    let ahead_s = config.as_ref().ok().and_then(|said| Some(clock(said)? - at_s?));
    let (_, nodes) = answer(runner, &["scontrol", "show", "node", "-d"]);
    let (_, partitions) = answer(runner, &["scontrol", "show", "partition"]);
    let this_host = answer(runner, &["hostname", "-s"]).1.ok();
    let driver = answer(runner, &["nvidia-smi", "-L"]).1;
    Facts {
        version,
        ping: ping.map(|said| said.lines().map(ToOwned::to_owned).collect()),
        config: config.map(|said| settings(&said)),
        ahead_s,
        host_names: nodes.as_ref().map(|said| host_names(said)).unwrap_or_default(),
        hosts: nodes.map(|said| text::hosts(&said).value),
        partitions: partitions.map(|said| self::partitions(&said)),
        missing,
        this_host: this_host.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
        driver: driver.map(|said| said.lines().filter(|line| line.starts_with("GPU ")).count()),
    }
}

/// When it was asked, and what was said by a command that worked.
fn answer(runner: &mut dyn Runner, argv: &[&str]) -> (Option<i64>, Result<String, String>) {
    match runner.run(argv) {
        Ok(Reply { stdout, at_s, code: Some(0), .. }) => (Some(at_s), Ok(stdout)),
        Ok(reply) => {
            let said = reply.stderr.lines().chain(reply.stdout.lines());
            let said = said.map(str::trim).find(|line| !line.is_empty());
            (None, Err(said.unwrap_or("it failed without a word").to_owned()))
        }
        Err(error) => (None, Err(error.to_string())),
    }
}

/// The time of the controller when it gave its settings.
fn clock(said: &str) -> Option<i64> {
    let line = said.lines().find_map(|line| line.strip_prefix("Configuration data as of "))?;
    crate::time::stamp(line.trim())
}

fn settings(said: &str) -> BTreeMap<String, String> {
    let pairs = said.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| {
            let value = match value.trim() {
                "(null)" | "(null type)" | "N/A" => "",
                value => value,
            };
            (key.trim().to_ascii_lowercase(), value.to_owned())
        })
        .collect()
}

fn host_names(said: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut node = String::new();
    for word in said.split_whitespace() {
        if let Some(name) = word.strip_prefix("NodeName=") {
            name.clone_into(&mut node);
        } else if let Some(name) = word.strip_prefix("NodeHostName=") {
            names.insert(node.clone(), name.to_owned());
        }
    }
    names
}

fn partitions(said: &str) -> Vec<Partition> {
    let mut all: Vec<Partition> = Vec::new();
    for word in said.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else { continue };
        if key == "PartitionName" {
            all.push(Partition::default());
        }
        if let Some(partition) = all.last_mut() {
            partition.settings.insert(key.to_owned(), value.to_owned());
        }
    }
    all
}
