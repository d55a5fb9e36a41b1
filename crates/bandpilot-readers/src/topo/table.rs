//! The matrix itself: a header with the columns, and rows of link words.

use std::collections::BTreeMap;

use bandpilot_core::{LinkClass, MAX_GPUS_PER_HOST, MOST_NVLINKS_OF_A_GPU};

use super::Command;
use super::segments::{Line, Segment, prompt_host};
use crate::Diagnostic;
use crate::hostlist::is_host_name;

/// Most NIC columns that are read.
const MAX_NICS: usize = 256;
/// Words of `nvidia-smi topo -p2p`.
const PEER_WORDS: [&str; 7] = ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"];
/// Words that only the columns behind the NICs begin with.
const AFFINITY: [&str; 4] = ["CPU", "NUMA", "GPU", "Affinity"];

/// A matrix as it was printed.
pub(super) struct Table {
    /// Line of the header.
    pub(super) line: u32,
    /// Line of the last row.
    pub(super) last_line: u32,
    pub(super) prompt_host: Option<String>,
    pub(super) command: Option<Command>,
    pub(super) gpus: usize,
    /// Names of the NIC columns.
    pub(super) nics: Vec<String>,
    /// Names from the legend by name of the column.
    pub(super) legend: BTreeMap<String, String>,
    /// Cells by row and column: GPUs first, then NICs.
    cells: BTreeMap<(usize, usize), Cell>,
    /// Rows that are there as a whole.
    whole: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Cell {
    class: LinkClass,
    line: u32,
    /// The last word of a text that ends there.
    doubtful: bool,
}

/// A cell of which the two directions differ.
pub(super) struct Contradiction;

impl Table {
    /// Name of a row or column.
    pub(super) fn label(&self, at: usize) -> String {
        if at < self.gpus {
            return format!("GPU{at}");
        }
        self.nics.get(at - self.gpus).cloned().unwrap_or_default()
    }

    /// Rows of GPUs, or of everything, that are missing or cut.
    pub(super) fn missing_rows(&self, gpus_only: bool) -> Vec<String> {
        let rows = if gpus_only { self.gpus } else { self.whole.len() };
        let missing = |at: &usize| !self.whole.get(*at).copied().unwrap_or(false);
        (0..rows).filter(missing).map(|at| self.label(at)).collect()
    }

    /// The link between two columns, from whichever side has it; `None` if neither does. True if only one has it.
    pub(super) fn link(
        &self,
        a: usize,
        b: usize,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Option<(LinkClass, bool)>, Contradiction> {
        let there = self.cells.get(&(a, b));
        let back = self.cells.get(&(b, a));
        match (there, back) {
            (Some(x), Some(y)) if x.class == y.class => Ok(Some((x.class, false))),
            (Some(x), Some(y)) if x.doubtful || y.doubtful => {
                let sure = if x.doubtful { y } else { x };
                Ok(Some((sure.class, true)))
            }
            (Some(x), Some(y)) => {
                let (row, column) = (self.label(b), self.label(a));
                let message = format!(
                    "{row} to {column} is {}, but {column} to {row} is {} (line {})",
                    y.class, x.class, x.line
                );
                let help = "the dump was changed or garbled: run nvidia-smi topo -m again";
                let field = format!("{row}/{column}");
                diagnostics.push(Diagnostic::error(field, message).at(y.line, 0).help(help));
                Err(Contradiction)
            }
            (Some(x), None) | (None, Some(x)) if !x.doubtful => Ok(Some((x.class, true))),
            _ => Ok(None),
        }
    }
}

/// The index of `GPU12`.
pub(super) fn gpu_index(word: &str) -> Option<usize> {
    let digits = word.strip_prefix("GPU")?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// A word of a cell; SOC is what old drivers call SYS.
fn link_word(word: &str) -> Option<LinkClass> {
    LinkClass::parse(if word == "SOC" { "SYS" } else { word })
}

/// True if a header of a matrix is in the segment.
pub(super) fn has_header(segment: &Segment) -> bool {
    segment.lines.iter().any(|line| columns(&line.text).is_some())
}

/// The columns of a header line.
fn columns(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    gpu_index(words.first()?)?;
    let of_row = |word: &&str| {
        *word == "X"
            || PEER_WORDS.contains(word)
            || link_word(word).is_some()
            || word.bytes().all(|b| b.is_ascii_digit())
    };
    if words.iter().any(of_row) {
        return None;
    }
    let end = words.iter().position(|word| AFFINITY.contains(word)).unwrap_or(words.len());
    Some(words.into_iter().take(end).collect())
}

/// The tables of a segment in order; `None` for one that is refused.
pub(super) fn read(segment: &Segment, diagnostics: &mut Vec<Diagnostic>) -> Vec<Option<Table>> {
    let lines = &segment.lines;
    let headers: Vec<usize> =
        (0..lines.len()).filter(|at| columns(&lines[*at].text).is_some()).collect();
    if headers.is_empty() {
        orphans(lines, diagnostics);
    }
    let mut tables = Vec::new();
    for (count, &at) in headers.iter().enumerate() {
        let before = if count == 0 { 0 } else { headers[count - 1] + 1 };
        let end = headers.get(count + 1).copied().unwrap_or(lines.len());
        tables.push(one(&lines[before..at], &lines[at..end], diagnostics));
    }
    tables
}

/// Rows without a header cannot be read.
fn orphans(lines: &[Line], diagnostics: &mut Vec<Diagnostic>) {
    let row = lines.iter().find(|line| {
        let mut words = line.text.split_whitespace();
        words.next().and_then(gpu_index).is_some() && words.any(|word| link_word(word).is_some())
    });
    if let Some(row) = row {
        let help = "give the whole output of nvidia-smi topo -m";
        let message = "rows of a link matrix without the header above them";
        diagnostics.push(Diagnostic::error("", message).at(row.number, 0).help(help));
    }
}

/// Reads one table: the lines above its header, and those from the header on.
fn one(above: &[Line], lines: &[Line], diagnostics: &mut Vec<Diagnostic>) -> Option<Table> {
    let (header, body) = lines.split_first()?;
    let columns = columns(&header.text)?;
    let (command, prompt_host) = prompt(above);
    let refuse = |message: String, help: &str| {
        Diagnostic::error("", message).at(header.number, 0).help(help)
    };
    if let Some(reason) = other_matrix(command, header, body) {
        diagnostics.push(reason);
        return None;
    }
    let gpus = columns.iter().take_while(|word| gpu_index(word).is_some()).count();
    let in_order = columns.iter().take(gpus).enumerate().all(|(at, w)| gpu_index(w) == Some(at));
    let late = columns.iter().skip(gpus).any(|word| gpu_index(word).is_some());
    if !in_order || late || gpus > MAX_GPUS_PER_HOST {
        let message = "the columns are not GPU0, GPU1, ... up to at most GPU63".to_owned();
        diagnostics.push(refuse(message, "run nvidia-smi topo -m again and keep all of it"));
        return None;
    }
    let odd = columns.iter().skip(gpus).find(|w| w.starts_with("GPU") || !is_host_name(w));
    if let Some(odd) = odd {
        let message = format!("column '{odd}' is neither a GPU nor a NIC");
        diagnostics.push(refuse(message, "run nvidia-smi topo -m again and keep all of it"));
        return None;
    }
    let nics: Vec<String> = columns.iter().skip(gpus).map(|word| (*word).to_owned()).collect();
    let twice = nics.iter().enumerate().find(|(at, nic)| nics[..*at].contains(nic));
    if nics.len() > MAX_NICS || twice.is_some() {
        let message = "the NIC columns are too many, or a name stands twice".to_owned();
        diagnostics.push(refuse(message, "run nvidia-smi topo -m again and keep all of it"));
        return None;
    }
    let gap = nics.iter().enumerate().find(|(at, nic)| {
        let number = nic.strip_prefix("NIC").and_then(|n| n.parse::<usize>().ok());
        number.is_some_and(|number| number != *at)
    });
    if let Some((at, nic)) = gap {
        let message = format!("{nic} stands where NIC{at} belongs");
        diagnostics.push(refuse(message, "run nvidia-smi topo -m again and keep all of it"));
        return None;
    }
    let width = gpus + nics.len();
    let mut table = Table {
        line: header.number,
        last_line: header.number,
        prompt_host,
        command,
        gpus,
        nics,
        legend: legend(body),
        cells: BTreeMap::new(),
        whole: vec![false; width],
    };
    rows(&mut table, body, diagnostics).then_some(table)
}

/// The reason against a matrix of another question: peer access, or PCIe paths only.
fn other_matrix(command: Option<Command>, header: &Line, body: &[Line]) -> Option<Diagnostic> {
    let help = "run nvidia-smi topo -m";
    if command == Some(Command::PcieOnly) {
        let message = "nvidia-smi topo -mp shows PCIe paths even where there is NVLink";
        return Some(Diagnostic::error("", message).at(header.number, 0).help(help));
    }
    body.iter().find_map(|line| {
        let mut words = line.text.split_whitespace();
        words.next().and_then(gpu_index)?;
        let word = words.find(|word| PEER_WORDS.contains(word))?;
        let message = format!(
            "'{word}' is a word of nvidia-smi topo -p2p, which shows who may reach whom, not the links"
        );
        Some(Diagnostic::error("", message).at(line.number, 0).help(help))
    })
}

/// The command and the host of the nearest prompt above a table.
fn prompt(above: &[Line]) -> (Option<Command>, Option<String>) {
    let Some(line) = above.iter().rev().find(|line| line.text.contains("nvidia-smi topo")) else {
        return (None, None);
    };
    let (_, after) = line.text.split_once("nvidia-smi topo").unwrap_or(("", ""));
    let command = match after.split_whitespace().next() {
        Some("-m" | "--matrix") => Some(Command::Matrix),
        Some("-mp" | "--matrix_pci") => Some(Command::PcieOnly),
        _ => None,
    };
    (command, prompt_host(&line.text).map(ToOwned::to_owned))
}

/// Names of the NICs: `NIC0: mlx5_0`.
fn legend(body: &[Line]) -> BTreeMap<String, String> {
    let named = body.iter().filter_map(|line| {
        let (column, name) = line.text.trim().split_once(':')?;
        let name = name.trim();
        let sound = !name.is_empty() && !name.contains(char::is_whitespace);
        (column.starts_with("NIC") && sound).then(|| (column.to_owned(), name.to_owned()))
    });
    named.collect()
}

/// Reads the rows; false if one of them refuses the table.
fn rows(table: &mut Table, body: &[Line], diagnostics: &mut Vec<Diagnostic>) -> bool {
    let width = table.whole.len();
    let labels: Vec<String> = (0..width).map(|at| table.label(at)).collect();
    let mut seen = vec![false; width];
    let mut found: Vec<(usize, &Line)> = Vec::new();
    let mut sound = true;
    for line in body {
        let mut words = line.text.split_whitespace();
        let Some(label) = words.next() else { continue };
        let at = labels.iter().position(|known| known == label);
        if at.is_none() && gpu_index(label).is_none() {
            continue;
        }
        let message = match at {
            None => format!("row {label} has no column in the header (line {})", table.line),
            Some(at) if seen[at] => format!("row {label} stands twice"),
            Some(at) => {
                seen[at] = true;
                found.push((at, line));
                continue;
            }
        };
        let help = "run nvidia-smi topo -m again and keep all of it";
        diagnostics.push(Diagnostic::error(label, message).at(line.number, 0).help(help));
        sound = false;
    }
    for (count, (at, line)) in found.iter().enumerate() {
        let last = count + 1 == found.len();
        sound &= row(table, *at, line, last, diagnostics);
        table.last_line = line.number;
    }
    if found.is_empty() && sound {
        let help = "run nvidia-smi topo -m again and keep all of it";
        let message = "the header has no row below it";
        diagnostics.push(Diagnostic::error("", message).at(table.line, 0).help(help));
        sound = false;
    }
    sound
}

/// Reads one row; false if it refuses the table.
fn row(
    table: &mut Table,
    at: usize,
    line: &Line,
    last: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> bool {
    let width = table.whole.len();
    let words: Vec<&str> = line.text.split_whitespace().skip(1).take(width).collect();
    let label = table.label(at);
    let short = words.len() < width;
    let error = |field: &str, message: String, help: &str| {
        Diagnostic::error(field, message).at(line.number, 0).help(help)
    };
    if short && !last {
        let message = format!("{} cells for {width} columns", words.len());
        let help = "lines were cut, or cells are empty: run nvidia-smi topo -m again";
        diagnostics.push(error(&label, message, help));
        return false;
    }
    let beyond = line.text.split_whitespace().skip(1 + width);
    if let Some(word) = beyond.into_iter().find(|w| *w == "X" || link_word(w).is_some()) {
        let message = format!("'{word}' stands behind the {width} columns of the header");
        let help = "the header is cut: run nvidia-smi topo -m again";
        diagnostics.push(error(&label, message, help));
        return false;
    }
    // The last word of a row that is cut may itself be cut: NV1 of NV18.
    let cut = short || (line.open && line.text.split_whitespace().count() == width + 1);
    for (column, word) in words.iter().enumerate() {
        let doubtful = cut && column + 1 == words.len();
        let class = link_word(word);
        let fits = if column == at { *word == "X" } else { class.is_some() };
        if !fits && doubtful {
            continue;
        }
        let field = format!("{label}/{}", table.label(column));
        if !fits {
            diagnostics.push(wrong_word(&error, &field, word, column == at));
            return false;
        }
        let Some(class) = class else { continue };
        if let LinkClass::Nv(links) = class
            && usize::from(links) > MOST_NVLINKS_OF_A_GPU
        {
            let message = format!("{links} NVLinks are more than any GPU has that is known here");
            let help = "check the dump";
            let reason = Diagnostic::warning(field, message).at(line.number, 0).help(help);
            diagnostics.push(reason);
        }
        table.cells.insert((at, column), Cell { class, line: line.number, doubtful });
    }
    table.whole[at] = !short;
    true
}

fn wrong_word(
    error: &impl Fn(&str, String, &str) -> Diagnostic,
    field: &str,
    word: &str,
    diagonal: bool,
) -> Diagnostic {
    if diagonal {
        let message = format!("'{word}' stands where the row's own X belongs");
        return error(field, message, "cells are missing: run nvidia-smi topo -m again");
    }
    let message = format!("'{word}' is not a link word");
    error(field, message, "the words are X, NV1, NV2, ..., PIX, PXB, PHB, NODE and SYS")
}
