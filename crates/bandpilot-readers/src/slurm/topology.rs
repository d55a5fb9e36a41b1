//! `topology.conf`, and what `scontrol show topology` prints: the same with levels.

use super::lines::Entry;
use super::{Leaf, SlurmFile, hosts};
use crate::Diagnostic;
use crate::near::nearest;

const SWITCH_KEYS: [&str; 5] = ["switchname", "nodes", "switches", "linkspeed", "level"];
const BLOCK_KEYS: [&str; 4] = ["blockname", "nodes", "blockindex", "blocksize"];
/// Most hosts that are named as standing under two leaves.
const MAX_NAMED: usize = 20;

pub(super) fn read(
    entries: &[Entry],
    file: &mut SlurmFile,
    room: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut upper: Option<u32> = None;
    let mut block: Option<u32> = None;
    for entry in entries {
        match entry.first().as_deref() {
            Some("switchname") => {
                unknown_keys(entry, &SWITCH_KEYS, diagnostics);
                if entry.get("switches").is_some() {
                    upper = upper.or(Some(entry.line));
                }
                // scontrol lists the hosts of upper switches as well.
                if entry.get("level").is_some_and(|level| level != "0") {
                    upper = upper.or(Some(entry.line));
                } else if entry.get("nodes").is_some() {
                    leaf(entry, "switchname", file, room, diagnostics);
                } else if entry.get("switches").is_none() {
                    missing(entry, "the switch has neither Nodes nor Switches", diagnostics);
                }
            }
            Some("blockname") => {
                unknown_keys(entry, &BLOCK_KEYS, diagnostics);
                block = block.or(Some(entry.line));
                if entry.get("nodes").is_some() {
                    leaf(entry, "blockname", file, room, diagnostics);
                } else {
                    missing(entry, "the block has no Nodes", diagnostics);
                }
            }
            _ => {}
        }
    }
    if let Some(line) = upper {
        let message = "a cluster file knows leaves only: switches above them are not used";
        diagnostics.push(Diagnostic::note("SwitchName", message).at(line, 0));
    }
    if let Some(line) = block {
        let message = "blocks take the place of leaf switches";
        diagnostics.push(Diagnostic::note("BlockName", message).at(line, 0));
    }
}

fn missing(entry: &Entry, message: &str, diagnostics: &mut Vec<Diagnostic>) {
    let reason = Diagnostic::error("Nodes", message).at(entry.line, 0);
    diagnostics.push(reason.help("write for example SwitchName=leaf1 Nodes=h[1-16]"));
}

fn leaf(
    entry: &Entry,
    key: &str,
    file: &mut SlurmFile,
    room: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = entry.get(key).unwrap_or("").to_owned();
    if name.is_empty() || name.contains(['[', ',']) {
        let message = format!("'{name}' is not the name of one switch or block");
        let reason = Diagnostic::error(key, message).at(entry.line, 0);
        diagnostics.push(reason.help("give each its own line"));
        return;
    }
    let mut twice = Vec::new();
    for host in hosts(entry, "nodes", room, diagnostics) {
        let leaf = Leaf { name: name.clone(), line: entry.line };
        let before = file.leaves.insert(host.clone(), leaf);
        if before.is_some_and(|before| before.name != name) {
            twice.push(host);
        }
    }
    if !twice.is_empty() {
        let shown = crate::hostlist::compress(twice.iter().take(MAX_NAMED).map(String::as_str));
        let message = format!("{shown} stand under another leaf above");
        let reason = Diagnostic::error("Nodes", message).at(entry.line, 0);
        diagnostics
            .push(reason.help("a host has one leaf in a cluster file: keep one of the lines"));
    }
}

fn unknown_keys(entry: &Entry, known: &[&str], diagnostics: &mut Vec<Diagnostic>) {
    if let Some(stray) = &entry.stray {
        let message = format!("'{stray}' is not a Key=Value pair, not used");
        diagnostics.push(Diagnostic::warning("", message).at(entry.line, 0));
    }
    for key in entry.keys().filter(|key| !known.contains(&key.as_str())) {
        let near = nearest(&key, known.iter().copied(), 1);
        let help = match near.first() {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("known keys: {}", known.join(", ")),
        };
        let reason = Diagnostic::warning(&key, "unknown key, not used").at(entry.line, 0);
        diagnostics.push(reason.help(help));
    }
}
