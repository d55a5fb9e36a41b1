//! `rocm-smi --showtopo`: link types, hops and weights of AMD GPUs.
//!
//! PCIe paths are told by their hops: 2 stays below one CPU socket (NODE here), 3 crosses sockets (SYS). Direct XGMI
//! links are written as NV1. Paths over several XGMI links have no word in a cluster file and are refused. (Meaning of
//! the numbers: AMD's documentation of `rocm-smi` and `amd-smi`.)

use std::collections::BTreeMap;

use bandpilot_core::{LinkClass, Links, MAX_GPUS_PER_HOST};

use super::segments::{Line, Segment};
use super::table::gpu_index;
use super::{Command, Dump};
use crate::Diagnostic;

/// Weight of one XGMI link; paths over several weigh more.
const ONE_LINK: &str = "15";

const WEIGHT: &str = "Weight between two GPUs";
const HOPS: &str = "Hops between two GPUs";
const TYPE: &str = "Link Type between two GPUs";

/// True for the output of rocm-smi.
pub(super) fn is_rocm(segment: &Segment) -> bool {
    let title = |line: &Line| [WEIGHT, HOPS, TYPE].iter().any(|title| line.text.contains(title));
    segment.lines.iter().any(title)
}

/// Reads the three matrices; `None` if the links cannot be known.
pub(super) fn read(segment: &Segment, diagnostics: &mut Vec<Diagnostic>) -> Option<Dump> {
    let types = section(segment, TYPE, diagnostics)?;
    let hops = section(segment, HOPS, diagnostics)?;
    let weights = section(segment, WEIGHT, diagnostics)?;
    let gpus = types.gpus;
    let error = |line: u32, field: &str, message: String, help: &str| {
        Diagnostic::error(field, message).at(line, 0).help(help)
    };
    if hops.gpus != gpus || weights.gpus != gpus {
        let message = "the sections have different numbers of GPUs".to_owned();
        diagnostics.push(error(types.line, "", message, "run rocm-smi --showtopo again"));
        return None;
    }
    let mut cells = vec![LinkClass::Sys; gpus * gpus];
    for a in 0..gpus {
        for b in (0..gpus).filter(|b| *b != a) {
            let cell = |s: &Matrix| s.words.get(&(a, b)).cloned().unwrap_or_default();
            let words = (cell(&types), cell(&hops), cell(&weights));
            let class = class(&words.0, &words.1, &words.2);
            let field = format!("GPU{a}/GPU{b}");
            let Some(class) = class else {
                let message = format!(
                    "a link of type '{}' with {} hops and weight {} has no word in a cluster file",
                    words.0, words.1, words.2
                );
                let help = "write the host type by hand: docs/reference/cluster-file.md";
                diagnostics.push(error(types.line, &field, message, help));
                return None;
            };
            if b < a && cells[b * gpus + a] != class {
                let message = "the two directions of a link differ".to_owned();
                diagnostics.push(error(types.line, &field, message, "run rocm-smi again"));
                return None;
            }
            cells[a * gpus + b] = class;
        }
    }
    if cells.contains(&LinkClass::Nv(1)) {
        let message = "XGMI links are written as NV1: bandwidths count them like NVLinks until they are measured";
        diagnostics.push(Diagnostic::warning("links", message).at(types.line, 0));
    } else {
        let message = "PCIe paths are told by their hops: 2 is NODE, 3 is SYS";
        diagnostics.push(Diagnostic::note("links", message).at(types.line, 0));
    }
    Some(Dump {
        line: types.line,
        hosts: Vec::new(),
        prompt_host: None,
        command: Some(Command::Rocm),
        gpus,
        links: Links::Matrix(cells),
        nics: Vec::new(),
    })
}

fn class(kind: &str, hops: &str, weight: &str) -> Option<LinkClass> {
    match (kind, hops) {
        ("PCIE", "2") => Some(LinkClass::Node),
        ("PCIE", "3") => Some(LinkClass::Sys),
        ("XGMI", "1") if weight == ONE_LINK => Some(LinkClass::Nv(1)),
        _ => None,
    }
}

struct Matrix {
    line: u32,
    gpus: usize,
    words: BTreeMap<(usize, usize), String>,
}

/// The matrix below a title; `None` if it is missing or not whole.
fn section(segment: &Segment, title: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Matrix> {
    let mut refuse = |line: u32, message: String| {
        let help = "run rocm-smi --showtopo again and keep all of it";
        diagnostics.push(Diagnostic::error(title, message).at(line, 0).help(help));
        None
    };
    let mut lines = segment.lines.iter().skip_while(|line| !line.text.contains(title));
    let Some(heading) = lines.next() else {
        let first = segment.lines.first().map_or(0, |line| line.number);
        return refuse(first, "this section is missing".to_owned());
    };
    let line = heading.number;
    let header = lines.next().map_or("", |line| line.text.as_str());
    let indexes: Vec<Option<usize>> = header.split_whitespace().map(gpu_index).collect();
    let gpus = indexes.len();
    let in_order = indexes.iter().enumerate().all(|(at, index)| *index == Some(at));
    if gpus == 0 || gpus > MAX_GPUS_PER_HOST || !in_order {
        return refuse(line, "the columns are not GPU0, GPU1, ...".to_owned());
    }
    let mut words = BTreeMap::new();
    for at in 0..gpus {
        let row = lines.next();
        let cells: Vec<&str> = row.map_or("", |r| r.text.as_str()).split_whitespace().collect();
        let cut = row.is_some_and(|row| row.open);
        let label = cells.first().copied().and_then(gpu_index);
        if label != Some(at) || cells.len() != gpus + 1 || cut {
            let number = row.map_or(line, |row| row.number);
            return refuse(number, format!("the row of GPU{at} is missing or cut"));
        }
        for (column, word) in cells.iter().skip(1).enumerate() {
            words.insert((at, column), (*word).to_owned());
        }
    }
    Some(Matrix { line, gpus, words })
}
