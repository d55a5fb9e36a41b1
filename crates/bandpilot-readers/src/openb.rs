//! Node and pod lists of the Alibaba GPU trace of 2023 (openb), as the FGD paper ("Beware of Fragmentation", ATC'23)
//! uses them: CSV, columns found by their name in the header, in any order.
//!
//! Nodes: `sn` (name), `cpu_milli`, `memory_mib`, `gpu` (number of GPUs), `model` (of the GPUs; empty if there is none).
//!
//! Pods: `name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli` (thousandths of each GPU; below 1000 the pod shares
//! one), `gpu_spec` (models that will do, `|` between them; empty for any).
//!
//! `memory_mib`, `model` and `gpu_spec` may be missing. Other columns are not used. A row with a mistake is left out, listed
//! with line and field, and counted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bandpilot_core::MAX_GPUS_PER_HOST;

use crate::csv_cells::{count, full, header, needed, shorten, wrong};
use crate::csv_lines::{Lines, Row};
use crate::{Diagnostic, Parsed};

/// Most CPU of a node or pod, thousandths of a core.
pub const MAX_CPU_MILLI: u32 = 100_000_000;

/// Most memory of a node or pod, MiB (one PiB).
pub const MAX_MEMORY_MIB: u32 = 1 << 30;

const NODE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
const POD_COLUMNS: [&str; 6] =
    ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"];

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its name, unique in the list.
    pub name: Box<str>,
    /// Line of its row.
    pub line: u32,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB; 0 where the list does not say.
    pub memory_mib: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Model of its GPUs; may be empty.
    pub model: Box<str>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRow {
    /// Its name, unique in the list.
    pub name: Box<str>,
    /// Line of its row.
    pub line: u32,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB; 0 where the list does not say.
    pub memory_mib: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Thousandths of each GPU; 1000 for whole ones, 0 for a pod without a GPU.
    pub gpu_milli: u16,
    /// Models that will do, `|` between them; empty for any.
    pub gpu_spec: Box<str>,
}

/// The rows of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// In order of the file.
    pub rows: Vec<T>,
    /// Rows that were left out for a mistake.
    pub bad_rows: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), bad_rows: 0 }
    }
}

/// Reads a list of nodes. Wrong rows are left out and counted; at most a hundred of them are listed.
///
/// ```
/// let text = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,many,262144,2,P100\n";
/// let read = bandpilot_readers::openb::read_nodes(text);
/// assert_eq!((read.value.rows[0].gpus, &*read.value.rows[0].model), (2, "P100"));
/// assert_eq!((read.diagnostics[0].line, &*read.diagnostics[0].field), (3, "cpu_milli"));
/// ```
pub fn read_nodes(text: &str) -> Parsed<Rows<NodeRow>> {
    let needed = ["sn", "cpu_milli", "gpu"];
    table(text, &NODE_COLUMNS, &needed, node, |node| (&node.name, node.line))
}

/// Reads a list of pods. Wrong rows are left out and counted; at most a hundred of them are listed.
///
/// ```
/// let text = "name,cpu_milli,num_gpu,gpu_milli,gpu_spec\na,6000,1,460,\nb,6000,2,460,\nc,1000,0,0,\n";
/// let read = bandpilot_readers::openb::read_pods(text);
/// assert_eq!(read.value.rows.len(), 2);
/// assert_eq!((read.diagnostics[0].line, &*read.diagnostics[0].field), (3, "gpu_milli"));
/// ```
pub fn read_pods(text: &str) -> Parsed<Rows<PodRow>> {
    let needed = ["name", "cpu_milli", "num_gpu", "gpu_milli"];
    table(text, &POD_COLUMNS, &needed, pod, |pod| (&pod.name, pod.line))
}

/// Reads all rows; the second of two rows of one name is wrong, since they could not be told apart.
fn table<T>(
    text: &str,
    known: &[&str],
    needed: &[&str],
    read: impl Fn(&Row<'_>) -> Result<T, Diagnostic>,
    name: impl Fn(&T) -> (&str, u32),
) -> Parsed<Rows<T>> {
    let Some(lines) = Lines::new(text) else {
        let reason = Diagnostic::error("", "the file is empty");
        return Parsed { value: Rows::default(), diagnostics: vec![reason] };
    };
    let mut diagnostics = header(text, &lines, known, needed);
    if !diagnostics.is_empty() {
        return Parsed { value: Rows::default(), diagnostics };
    }
    let mut rows = Vec::new();
    let mut seen: BTreeMap<Box<str>, u32> = BTreeMap::new();
    for row in lines.rows() {
        let value = match full(&row, lines.width()).and_then(|()| read(&row)) {
            Ok(value) => value,
            Err(diagnostic) => {
                diagnostics.push(diagnostic);
                continue;
            }
        };
        let (name, line) = name(&value);
        match seen.entry(name.into()) {
            Entry::Occupied(earlier) => {
                let message = format!("'{name}' stands in line {} already", earlier.get());
                diagnostics.push(wrong(&row, known[0], message));
            }
            Entry::Vacant(new) => {
                new.insert(line);
                rows.push(value);
            }
        }
    }
    let bad_rows = diagnostics.len();
    shorten(&mut diagnostics);
    Parsed { value: Rows { rows, bad_rows }, diagnostics }
}

fn text<'r>(row: &'r Row<'_>, column: &str) -> Result<&'r str, Diagnostic> {
    needed(row, column, Some(row.get(column)).filter(|cell| !cell.is_empty()))
}

fn node(row: &Row<'_>) -> Result<NodeRow, Diagnostic> {
    let most = MAX_GPUS_PER_HOST as u32;
    Ok(NodeRow {
        name: text(row, "sn")?.into(),
        line: row.line,
        cpu_milli: needed(row, "cpu_milli", count(row, "cpu_milli", 0, MAX_CPU_MILLI)?)?,
        memory_mib: count(row, "memory_mib", 0, MAX_MEMORY_MIB)?.unwrap_or(0),
        gpus: needed(row, "gpu", count(row, "gpu", 0, most)?)?,
        model: row.get("model").into(),
    })
}

fn pod(row: &Row<'_>) -> Result<PodRow, Diagnostic> {
    let most = MAX_GPUS_PER_HOST as u32;
    let gpus = needed(row, "num_gpu", count(row, "num_gpu", 0, most)?)?;
    let gpu_milli = needed(row, "gpu_milli", count(row, "gpu_milli", 0, 1000)?)?;
    match (gpus, gpu_milli) {
        (0, 1..) => {
            let message = format!("{gpu_milli} thousandths of no GPU");
            return Err(wrong(row, "gpu_milli", message));
        }
        (1.., 0) => return Err(wrong(row, "gpu_milli", format!("0 thousandths of {gpus} GPUs"))),
        (2.., 1..1000) => {
            let message = format!("{gpu_milli} thousandths of {gpus} GPUs");
            let help = "a pod shares one GPU or takes whole ones";
            return Err(wrong(row, "gpu_milli", message).help(help));
        }
        _ => {}
    }
    Ok(PodRow {
        name: text(row, "name")?.into(),
        line: row.line,
        cpu_milli: needed(row, "cpu_milli", count(row, "cpu_milli", 0, MAX_CPU_MILLI)?)?,
        memory_mib: count(row, "memory_mib", 0, MAX_MEMORY_MIB)?.unwrap_or(0),
        gpus,
        gpu_milli: gpu_milli as u16,
        gpu_spec: row.get("gpu_spec").into(),
    })
}

#[cfg(test)]
#[path = "tests/openb.rs"]
mod tests;
