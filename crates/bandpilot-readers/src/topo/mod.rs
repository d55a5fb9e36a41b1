//! What hosts say of themselves: `nvidia-smi topo -m`, `nvidia-smi -L`, `ibstat` and their like.
//!
//! A text may hold the output of one host or of many: after each other, or as pdsh, clush and ansible mark it.
//! Terminal colours, shell prompts and other text around it do not matter.
//!
//! * Link cells must be words that nvidia-smi prints, and say the same in both directions.
//! * A dump that was cut is completed by symmetry, and where an NVSwitch must join all GPUs; that is a warning.
//!   Anything else that is missing is refused.
//! * `topo -p2p`, and tables of other tools, are told apart and refused by name. `rocm-smi --showtopo` is read where
//!   the words of the cluster file can say what it shows.

mod complete;
mod identity;
mod nics;
mod rocm;
mod segments;
mod table;

use std::collections::BTreeMap;

use bandpilot_core::{GpuIdentity, GpuMask, Links};

use crate::{Diagnostic, Parsed};
use segments::Segment;

/// What the user says about the hosts of a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopoOptions {
    /// The NICs that carry the jobs' traffic, by name; the others are left out.
    pub nics: Option<Vec<String>>,
    /// Every GPU has one NIC of its own, whatever the dump shows.
    pub rails: bool,
}

/// The command that a dump is said to be the output of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `nvidia-smi topo -m`.
    Matrix,
    /// `nvidia-smi topo -mp`, which shows PCIe paths even where there is NVLink: refused.
    PcieOnly,
    /// `rocm-smi --showtopo`.
    Rocm,
}

/// A NIC of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpNic {
    /// Its name: from the legend where there is one.
    pub name: String,
    /// The GPUs that it serves.
    pub gpus: GpuMask,
}

/// The links and NICs of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// The line of its header, from 1.
    pub line: u32,
    /// Names of the hosts that it stands for, as the text gives them; may be empty.
    pub hosts: Vec<String>,
    /// The host in the shell prompt above it.
    pub prompt_host: Option<String>,
    /// The command in the prompt above it.
    pub command: Option<Command>,
    /// Number of GPUs.
    pub gpus: usize,
    /// Their links.
    pub links: Links,
    /// The NICs that carry jobs' traffic.
    pub nics: Vec<DumpNic>,
}

/// What a text says of a host's GPUs and NICs besides the matrix.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The line of the first fact, from 1.
    pub line: u32,
    /// Names of the hosts that it is about; may be empty.
    pub hosts: Vec<String>,
    /// GPU model by GPU index.
    pub models: BTreeMap<usize, String>,
    /// Lasting names by GPU index.
    pub ids: BTreeMap<usize, GpuIdentity>,
    /// Line rate in Gbit/s by NIC name.
    pub rates: BTreeMap<String, f64>,
}

impl Facts {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty() && self.ids.is_empty() && self.rates.is_empty()
    }
}

/// One host, or several that are alike, of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Links and NICs, if a matrix could be read.
    pub dump: Option<Dump>,
    /// GPU names and NIC rates, if any are given.
    pub facts: Facts,
}

/// True if the text looks like something that this module reads, or refuses by name.
pub fn is_topo(text: &str) -> bool {
    segments::split(text).iter().any(|segment| {
        table::has_header(segment)
            || rocm::is_rocm(segment)
            || foreign(segment).is_some()
            || failures(segment).next().is_some()
            || !identity::read(segment, &mut Vec::new()).is_empty()
    })
}

/// Reads all hosts of a text.
///
/// ```
/// use bandpilot_core::Links;
/// use bandpilot_readers::topo;
/// let text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-31\nGPU1\tNV4\t X \t0-31\n";
/// let read = topo::read(text, &topo::TopoOptions::default());
/// assert!(read.diagnostics.is_empty());
/// let dump = read.value[0].dump.as_ref().unwrap();
/// assert!(matches!(&dump.links, Links::Matrix(cells) if cells.len() == 4));
/// ```
pub fn read(text: &str, options: &TopoOptions) -> Parsed<Vec<Section>> {
    let mut diagnostics = Vec::new();
    let mut sections = Vec::new();
    let mut found = false;
    for segment in segments::split(text) {
        diagnostics.extend(failures(&segment));
        if let Some(reason) = foreign(&segment) {
            found = true;
            diagnostics.push(reason);
            continue;
        }
        let facts = identity::read(&segment, &mut diagnostics);
        let dumps = if rocm::is_rocm(&segment) {
            vec![rocm::read(&segment, &mut diagnostics)]
        } else {
            let tables = table::read(&segment, &mut diagnostics);
            tables
                .into_iter()
                .map(|table| table.and_then(|table| host(&table, options, &mut diagnostics)))
                .collect()
        };
        found |= !dumps.is_empty() || !facts.is_empty();
        push(&mut sections, &segment, dumps, facts);
    }
    if !found {
        let help = "give the whole output of nvidia-smi topo -m";
        diagnostics.push(Diagnostic::error("", "there is no link matrix in it").help(help));
    }
    crate::diagnostic::sort(&mut diagnostics);
    Parsed { value: sections, diagnostics }
}

/// Facts go with the only dump of their segment; with several dumps it is not known to which.
fn push(sections: &mut Vec<Section>, segment: &Segment, dumps: Vec<Option<Dump>>, facts: Facts) {
    let facts = Facts { hosts: segment.hosts.clone(), ..facts };
    let single = dumps.len() == 1;
    let mut dumps = dumps.into_iter().flatten().map(|mut dump| {
        dump.hosts.clone_from(&segment.hosts);
        dump
    });
    if single {
        // A refused matrix takes its facts along.
        sections.extend(dumps.next().map(|dump| Section { dump: Some(dump), facts }));
        return;
    }
    sections.extend(dumps.map(|dump| Section { dump: Some(dump), ..Section::default() }));
    if !facts.is_empty() {
        sections.push(Section { dump: None, facts });
    }
}

fn host(
    table: &table::Table,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Dump> {
    let links = complete::links(table, diagnostics);
    let nics = nics::read(table, options, diagnostics);
    Some(Dump {
        line: table.line,
        hosts: Vec::new(),
        prompt_host: table.prompt_host.clone(),
        command: table.command,
        gpus: table.gpus,
        links: links?,
        nics: nics?,
    })
}

/// Lines by which nvidia-smi says that it could not look: a host that would else go missing in silence.
fn failures(segment: &Segment) -> impl Iterator<Item = Diagnostic> {
    const FAILED: [&str; 3] = ["NVIDIA-SMI has failed", "nvidia-smi: ", "No devices were found"];
    let failed = segment.lines.iter().filter(|line| {
        // A shell says `bash: nvidia-smi: command not found`.
        FAILED.iter().any(|text| line.text.contains(text))
    });
    failed.map(|line| {
        let message = format!("a host could not be looked at: '{}'", line.text.trim());
        let help = "run nvidia-smi on that host and mend what it says";
        Diagnostic::warning("", message).at(line.number, 0).help(help)
    })
}

/// The reason against a table of another tool.
fn foreign(segment: &Segment) -> Option<Diagnostic> {
    let boxed = segment.lines.iter().find(|line| {
        let mut cells = line.text.split('|').map(str::trim).filter(|cell| !cell.is_empty());
        line.text.trim_start().starts_with('|') && cells.any(|cell| cell == "Device 0")
    })?;
    let vendor = boxed.text.split('|').map(str::trim).find(|cell| !cell.is_empty());
    let message = format!(
        "this is a table of gpustack for '{}' devices, not the output of nvidia-smi",
        vendor.unwrap_or("")
    );
    let help = "write the host type by hand: docs/reference/cluster-file.md";
    Some(Diagnostic::error("", message).at(boxed.number, 0).help(help))
}

#[cfg(test)]
#[path = "../tests/topo.rs"]
mod tests;
