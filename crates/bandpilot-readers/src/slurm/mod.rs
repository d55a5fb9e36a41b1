//! Slurm's `topology.conf`, `gres.conf` and the `NodeName` lines of `slurm.conf`.
//!
//! Keys are read in any case; `#` starts a comment, a backslash at its end continues a line. What a line is follows
//! from its keys, so several files in one are read as well.
//!
//! * `SwitchName=... Nodes=...`: the leaf of each host. Switches above leaves are not used.
//! * `BlockName=... Nodes=...`: the block takes the place of the leaf.
//! * `NodeName=... Name=gpu ...`: GPUs of each host with their model and NVLinks.
//! * `NodeName=... Gres=gpu:h100:8 ...`: the same counts, with cores and memory.

pub mod lines;
mod nodes;
mod topology;

use std::collections::BTreeMap;

use bandpilot_core::Links;

use crate::{Diagnostic, Parsed, hostlist};
use lines::Entry;

/// Where a host hangs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Name of the leaf switch or block.
    pub name: String,
    /// Line that says so, from 1.
    pub line: u32,
}

/// What Slurm is told about a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeFacts {
    /// Line of the first fact, from 1.
    pub line: u32,
    /// Number of GPUs.
    pub gpus: Option<usize>,
    /// Their type as Slurm names it, if all have the same.
    pub gpu_type: Option<String>,
    /// Their links, if `Links=` gives them.
    pub links: Option<Links>,
    /// CPU cores.
    pub cores: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
}

/// What the files say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlurmFile {
    /// Leaf by host.
    pub leaves: BTreeMap<String, Leaf>,
    /// Facts by host.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Facts of `gres.conf` lines without `NodeName`: they hold for the host that the file is on.
    pub local: Option<NodeFacts>,
}

/// True if the text has a line that this module reads.
pub fn is_slurm(text: &str) -> bool {
    let first_keys = ["switchname", "blockname", "nodename", "autodetect"];
    lines::entries(text).iter().any(|entry| {
        entry.first().is_some_and(|key| first_keys.contains(&key.as_str()))
            || entry.get("name").is_some()
    })
}

/// The line where the topologies of a `topology.yaml` begin, from 1; `None` for another text.
pub fn topology_yaml(text: &str) -> Option<u32> {
    let starts = |line: &str, keys: &[&str]| {
        let bare = line.trim().trim_start_matches("- ").trim_start();
        keys.iter().any(|key| bare.starts_with(key))
    };
    let of_tree = ["switch:", "switches:", "block:", "blocks:", "flat:", "torus3d:"];
    text.lines().find(|line| starts(line, &of_tree))?;
    let begins = (1_u32..).zip(text.lines()).find(|(_, line)| starts(line, &["topology:"]));
    begins.map(|(line, _)| line)
}

/// Reads all lines that are about hosts, leaves and GPUs.
///
/// ```
/// let text = "SwitchName=leaf1 Nodes=h[1-2]\nSwitchName=spine Switches=leaf1\n";
/// let read = bandpilot_readers::slurm::read(text);
/// assert_eq!(read.value.leaves["h2"].name, "leaf1");
/// ```
pub fn read(text: &str) -> Parsed<SlurmFile> {
    let mut diagnostics = Vec::new();
    let mut file = SlurmFile::default();
    let entries = lines::entries(text);
    let mut room = MAX_NAMES;
    topology::read(&entries, &mut file, &mut room, &mut diagnostics);
    nodes::read(&entries, &mut file, &mut room, &mut diagnostics);
    crate::diagnostic::sort(&mut diagnostics);
    Parsed { value: file, diagnostics }
}

/// Most host names that the lines of one file may list, repeats counted: a hostile file is short but may list many.
const MAX_NAMES: usize = 1_000_000;

/// The hosts of a key; reports what is wrong with the list. `room` is what is left of [`MAX_NAMES`].
fn hosts(
    entry: &Entry,
    key: &str,
    room: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let Some(value) = entry.get(key) else { return Vec::new() };
    match hostlist::expand_up_to(value, hostlist::MAX_HOSTS.min(*room)) {
        Ok(names) => {
            *room -= names.len();
            names
        }
        Err(reason) => {
            diagnostics.push(reason.moved_to(entry.line, 0, key));
            Vec::new()
        }
    }
}

#[cfg(test)]
#[path = "../tests/slurm.rs"]
mod tests;
