//! `slurm.conf`: the node lines with all that is on them, and the settings that concern GPUs.

use std::collections::BTreeMap;

use bandpilot_readers::slurm::lines::{Entry, Pair, entries};
use bandpilot_readers::{Diagnostic, hostlist};

use super::Text;
use crate::Remark;

/// Most host names of one file, repeats counted.
pub(super) const MAX_NAMES: usize = 100_000;

/// A `NodeName` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeLine {
    /// Where it begins, from 1.
    pub(super) line: u32,
    /// Its hosts; empty for `NodeName=DEFAULT`.
    pub(super) hosts: Vec<String>,
    /// All settings but name, gres and features.
    pub(super) kept: Vec<Pair>,
    /// Features, those of the default line where it has none.
    pub(super) features: Vec<String>,
    /// Generic resources, those of the default line where it has none.
    pub(super) gres: String,
}

/// What is taken of a `slurm.conf`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Conf {
    /// Node lines in order.
    pub(super) lines: Vec<NodeLine>,
    /// Settings by their key in small letters; the last one counts.
    pub(super) settings: BTreeMap<String, String>,
}

pub(super) fn read(text: Text, remarks: &mut Vec<Remark>) -> Conf {
    let mut conf = Conf::default();
    let (mut features, mut gres) = (Vec::new(), String::new());
    let mut room = MAX_NAMES;
    for entry in entries(text.text) {
        let mut say = |remark: Diagnostic| {
            remarks.push((text.file.to_owned(), remark.at(entry.line, 0)));
        };
        if let Some(file) = &entry.include {
            let remark = Diagnostic::warning("Include", format!("{file} is not read"));
            say(remark.help("put the node lines that it holds into the file that is given"));
            continue;
        }
        let Some(name) =
            entry.get("nodename").filter(|_| entry.first().as_deref() == Some("nodename"))
        else {
            if entry.pairs.len() == 1 {
                let pair = &entry.pairs[0];
                conf.settings.insert(pair.key.to_ascii_lowercase(), pair.value.clone());
            }
            continue;
        };
        if let Some(stray) = &entry.stray {
            say(Diagnostic::error("NodeName", format!("'{stray}' is not a setting"))
                .help("write Key=Value; put values with blanks in double quotes"));
            continue;
        }
        let default = name.eq_ignore_ascii_case("default");
        let hosts = if default {
            Vec::new()
        } else {
            match hostlist::expand(name) {
                Ok(hosts) if hosts.len() <= room => hosts,
                Ok(_) => {
                    say(Diagnostic::error("NodeName", format!("more than {MAX_NAMES} hosts")));
                    continue;
                }
                Err(reason) => {
                    say(Diagnostic { field: "NodeName".to_owned(), ..reason });
                    continue;
                }
            }
        };
        room -= hosts.len();
        let line = node_line(&entry, hosts, &features, &gres);
        if default {
            (features, gres) = (line.features.clone(), line.gres.clone());
        }
        conf.lines.push(line);
    }
    twice(&conf, text.file, remarks);
    conf
}

fn node_line(entry: &Entry, hosts: Vec<String>, features: &[String], gres: &str) -> NodeLine {
    let own = entry.get("features").or_else(|| entry.get("feature"));
    let own = own.map(|list| list.split(',').filter(|f| !f.is_empty()).map(ToOwned::to_owned));
    let taken = ["nodename", "gres", "feature", "features"];
    let kept = entry.pairs.iter().filter(|pair| !taken.iter().any(|key| pair.is(key)));
    NodeLine {
        line: entry.line,
        hosts,
        kept: kept.cloned().collect(),
        features: own.map_or_else(|| features.to_vec(), Iterator::collect),
        gres: entry.get("gres").unwrap_or(gres).to_owned(),
    }
}

fn twice(conf: &Conf, file: &str, remarks: &mut Vec<Remark>) {
    let mut seen = BTreeMap::new();
    for line in &conf.lines {
        for host in &line.hosts {
            if let Some(before) = seen.insert(host, line.line) {
                let message = format!("{host} stands on line {before} already");
                let reason = Diagnostic::error("NodeName", message).at(line.line, 0);
                remarks.push((file.to_owned(), reason.help("keep one line for each host")));
                break;
            }
        }
    }
}

/// The parts of a list of generic resources that are no GPUs: `shard:16`, `nic:2`.
pub(super) fn others(gres: &str) -> Vec<&str> {
    let parts = gres.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.filter(|part| part.split([':', '(']).next() != Some("gpu")).collect()
}
