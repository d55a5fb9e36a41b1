//! The lines of Slurm's files that make GPUs nameable: a gres type for each GPU index, or for each island of GPUs.
//!
//! [`config`] takes the texts of `slurm.conf`, `gres.conf` and `topology.conf`, a cluster, or both, and gives the new
//! texts and what changes for users. Nothing else of the node lines is touched.

mod changes;
pub(crate) mod devices;
mod hosts;
mod islands;
mod nodes;
mod render;

use bandpilot_core::{Cluster, GpuMask};
use bandpilot_readers::{Diagnostic, Severity};

pub use changes::{Change, Source, changes};

use crate::Remark;

/// What one gres type stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// One GPU: jobs can name GPUs.
    #[default]
    Gpu,
    /// One island: GPUs joined by NVLink, or of one socket. Which of them, Slurm chooses.
    Island,
}

/// What the lines are to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What one type stands for.
    pub granularity: Granularity,
    /// Begins the names of types; a number follows.
    pub type_prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { granularity: Granularity::Gpu, type_prefix: "g".to_owned() }
    }
}

/// A file that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// Its name, for remarks.
    pub file: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// What is known of the site. Where `slurm.conf` is given its hosts count, else those of the cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Input<'a> {
    /// Models, links and leaves.
    pub cluster: Option<&'a Cluster>,
    /// The node lines that are there.
    pub slurm: Option<Text<'a>>,
    /// The devices that are there.
    pub gres: Option<Text<'a>>,
    /// The switches that are there; they stay as they are.
    pub topology: Option<Text<'a>>,
}

/// Hosts whose GPUs are declared alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Names in the order of the files.
    pub hosts: Vec<String>,
    /// GPU model or old type, if known.
    pub model: Option<String>,
    /// Types with the GPUs that each stands for.
    pub types: Vec<(String, GpuMask)>,
}

/// The new texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragments {
    /// Lines for `slurm.conf`, instead of those of the same keys and nodes.
    pub slurm_conf: String,
    /// `gres.conf` as a whole.
    pub gres_conf: String,
    /// `topology.conf` as a whole, if the cluster has leaves.
    pub topology_conf: Option<String>,
    /// What it makes of the hosts.
    pub groups: Vec<Group>,
    /// What changes.
    pub changes: Vec<Change>,
}

/// Makes the lines. Without fragments one of the remarks is an error.
pub fn config(input: &Input, options: &Options) -> (Option<Fragments>, Vec<Remark>) {
    let mut remarks = Vec::new();
    if !is_prefix(&options.type_prefix) {
        let reason = Diagnostic::error("", "is not a letter with letters, digits and _ behind it");
        let help = "Slurm takes a word that begins with a digit for a number: write for example g";
        return (None, vec![("--type-prefix".to_owned(), reason.help(help))]);
    }
    let conf = input.slurm.map(|text| nodes::read(text, &mut remarks));
    let found = input.gres.map(|text| devices::read(text, &mut remarks)).unwrap_or_default();
    let hosts = hosts::put_together(input, conf.as_ref(), &found, options, &mut remarks);
    let topology = render::topology(input, &hosts, &mut remarks);
    let slurm_conf =
        render::slurm_conf(conf.as_ref(), input, &hosts, topology.is_some(), &mut remarks);
    if remarks.iter().any(|(_, remark)| remark.severity == Severity::Error) {
        return (None, remarks);
    }
    let groups = hosts::groups(&hosts);
    let lines = conf.iter().flat_map(|conf| &conf.lines);
    let shared =
        lines.flat_map(|line| nodes::others(&line.gres)).any(|part| part.starts_with("shard"));
    if let Some(mps) =
        conf.iter().flat_map(|conf| &conf.lines).find(|line| line.gres.contains("mps"))
    {
        let message = "mps was not tried beside a type for each GPU: it stays as it is";
        let remark = Diagnostic::warning("Gres", message).at(mps.line, 0);
        let help = "try it on one host first, or use shard, which works";
        remarks.push((input.slurm.map_or("", |text| text.file).to_owned(), remark.help(help)));
    }
    let fragments = Fragments {
        slurm_conf,
        gres_conf: render::gres_conf(&hosts, &found),
        topology_conf: topology,
        changes: changes(&groups, &hosts::old_types(&hosts), options, shared),
        groups,
    };
    (Some(fragments), remarks)
}

fn is_prefix(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 32
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
#[path = "../tests/config.rs"]
mod tests;
