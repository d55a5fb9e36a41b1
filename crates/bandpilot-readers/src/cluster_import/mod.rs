//! A cluster made of what its hosts and its cluster manager say: dumps of `nvidia-smi topo -m`, Slurm's files and
//! tables of leaves, in any combination.
//!
//! What a text is follows from its content. Every host needs its links; they come from a dump, or from `Links=` in
//! `gres.conf`. Hosts that are alike become one type. Where one kind of host is the most frequent among hosts of a GPU
//! model, those that differ are named with what differs; a host that only lacks a NIC stays of the type, and the NIC is
//! marked unhealthy. Nothing is guessed in silence: every inference is a remark with file and line.

mod gather;
mod resolve;
mod types;

use bandpilot_core::{Cluster, counted};

use crate::{Diagnostic, Severity};

/// A text to import from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name for remarks.
    pub file: String,
    /// The text.
    pub text: String,
    /// The host that the text is about, if it gives no name itself.
    pub host: HostName,
}

/// What is known of a source's host besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostName {
    /// Nothing.
    Unknown,
    /// The name of a file that was given by itself; it may be just the name of a file.
    File(String),
    /// The name of a file in a folder of one file for each host.
    Folder(String),
}

/// What the user says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterOptions {
    /// Name of the cluster.
    pub name: String,
    /// Names of the hosts that the dumps stand for.
    pub hosts: Option<Vec<String>>,
    /// GPU model of all hosts.
    pub gpu_model: Option<String>,
    /// Line rate of all NICs.
    pub nic_gbit_per_s: Option<f64>,
    /// NICs that carry jobs' traffic, by name.
    pub nics: Option<Vec<String>>,
    /// Every GPU has one NIC of its own, whatever the dumps show.
    pub rails: bool,
}

/// What a source turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSummary {
    /// Its name.
    pub file: String,
    /// `topology dump`, `slurm` or `leaf map`; `None` if it is none of these.
    pub kind: Option<&'static str>,
    /// Hosts that it says something about.
    pub hosts: usize,
}

/// What was made of all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The cluster of all hosts that could be understood; `None` if there are none.
    pub cluster: Option<Cluster>,
    /// The sources in order.
    pub sources: Vec<SourceSummary>,
    /// Remarks, each with the source it is about; empty for those about all.
    pub remarks: Vec<(String, Diagnostic)>,
}

impl Imported {
    /// True if something was refused.
    pub fn has_errors(&self) -> bool {
        self.remarks.iter().any(|(_, remark)| remark.severity == Severity::Error)
    }
}

/// Makes a cluster of sources.
///
/// ```
/// use bandpilot_readers::cluster_import::{self, ClusterOptions, HostName, Source};
/// let text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-31\nGPU1\tNV4\t X \t0-31\n";
/// let source = Source { file: "a1.txt".into(), text: text.into(), host: HostName::Folder("a1".into()) };
/// let options = ClusterOptions { name: "demo".into(), gpu_model: Some("A6000".into()), ..ClusterOptions::default() };
/// let imported = cluster_import::import(&[source], &options);
/// assert_eq!(imported.cluster.unwrap().hosts[0].name, "a1");
/// ```
pub fn import(sources: &[Source], options: &ClusterOptions) -> Imported {
    let mut remarks = Vec::new();
    let gathered = gather::gather(sources, options, &mut remarks);
    let hosts = resolve::resolve(&gathered, options, &mut remarks);
    let cluster = types::cluster(hosts, &gathered, options, &mut remarks);
    if cluster.is_none() && !remarks.iter().any(|(_, r)| r.severity == Severity::Error) {
        let help = "give the output of nvidia-smi topo -m of at least one host of each kind";
        let reason = Diagnostic::error("", "no source describes the links of a host");
        remarks.push((String::new(), reason.help(help)));
    }
    Imported { cluster, sources: gathered.summaries, remarks: merged(remarks) }
}

/// Remarks that many files share are given once, at the first.
fn merged(remarks: Vec<(String, Diagnostic)>) -> Vec<(String, Diagnostic)> {
    let mut kept: Vec<(String, Diagnostic)> = Vec::new();
    let mut more: Vec<usize> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for (file, remark) in remarks {
        let key = (remark.severity, remark.field.clone(), remark.message.clone());
        match known.get(&key) {
            Some(&at) if kept[at] == (file.clone(), remark.clone()) => {}
            Some(&at) => more[at] += 1,
            None => {
                known.insert(key, kept.len());
                kept.push((file, remark));
                more.push(0);
            }
        }
    }
    for ((_, remark), more) in kept.iter_mut().zip(more).filter(|(_, more)| *more > 0) {
        remark.message = format!("{} (and {} more)", remark.message, counted(more, "time"));
    }
    kept
}

#[cfg(test)]
#[path = "../tests/cluster_import.rs"]
mod tests;
