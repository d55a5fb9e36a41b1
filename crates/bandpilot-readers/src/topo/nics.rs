//! Which NICs carry jobs' traffic, and which GPUs each of them serves.
//!
//! A NIC is near a GPU if no more than a PCIe host bridge is between them (PHB or nearer).
//!
//! * If any NIC is near a GPU, every NIC serves the GPUs of which it is the nearest or one of the nearest, and NICs
//!   that are near none are left out. A GPU without a near NIC is served by none: it sends through another GPU's.
//! * If no NIC is near any GPU, each NIC serves the GPUs on its NUMA node (NODE); a single NIC serves all. Several
//!   NICs that are SYS to all GPUs are refused, since nothing tells which of them a GPU uses.

use bandpilot_core::{GpuMask, LinkClass, counted};

use super::table::Table;
use super::{DumpNic, TopoOptions};
use crate::Diagnostic;

/// A NIC column and its links to the GPUs.
struct Column {
    name: String,
    links: Vec<LinkClass>,
}

/// The NICs of a table; `None` if they cannot be known.
pub(super) fn read(
    table: &Table,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<DumpNic>> {
    if options.rails {
        return Some(Vec::new());
    }
    if table.nics.is_empty() {
        return Some(Vec::new());
    }
    let names = names(table, diagnostics);
    let wanted = wanted(&names, table, options, diagnostics)?;
    let mut columns = columns(table, &names, diagnostics)?;
    columns.retain(|column| wanted.contains(&column.name));
    let near = |column: &Column| column.links.iter().any(|class| *class >= LinkClass::Phb);
    if columns.iter().any(near) {
        return Some(nearest(table, columns, options, diagnostics));
    }
    far(table, columns, options, diagnostics)
}

/// The name of each NIC column: the legend's where there is one.
fn names(table: &Table, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    let named: Vec<String> = table
        .nics
        .iter()
        .map(|column| table.legend.get(column).unwrap_or(column).clone())
        .collect();
    let unique = named.iter().enumerate().all(|(at, name)| !named[..at].contains(name));
    let complete = table.legend.is_empty()
        || table.nics.iter().all(|column| table.legend.contains_key(column));
    if unique && complete {
        return named;
    }
    let message = "the NIC legend is incomplete or has a name twice: not used";
    diagnostics.push(Diagnostic::warning("NIC Legend", message).at(table.line, 0));
    table.nics.clone()
}

/// The names that are to be used; `None` if one of them is not in the dump.
fn wanted(
    names: &[String],
    table: &Table,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<String>> {
    let Some(wanted) = &options.nics else { return Some(names.to_vec()) };
    let mut found = Vec::new();
    for name in wanted {
        let by_column = table.nics.iter().position(|column| column == name);
        let at = names.iter().position(|known| known == name).or(by_column);
        let Some(known) = at.and_then(|at| names.get(at)) else {
            let message = format!("the dump has no NIC '{name}'");
            let help = format!("its NICs are {}", names.join(", "));
            diagnostics.push(Diagnostic::error("--nics", message).at(table.line, 0).help(help));
            return None;
        };
        found.push(known.clone());
    }
    Some(found)
}

/// The links of every NIC to every GPU; `None` if one is missing or contradicts itself.
fn columns(
    table: &Table,
    names: &[String],
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<Column>> {
    let mut columns = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    let mut sound = true;
    for (at, name) in names.iter().enumerate() {
        let mut links = Vec::new();
        for gpu in 0..table.gpus {
            match table.link(gpu, table.gpus + at, diagnostics) {
                Ok(Some((class, _))) => links.push(class),
                Ok(None) => unknown.push(format!("GPU{gpu}/{}", table.label(table.gpus + at))),
                Err(_) => sound = false,
            }
        }
        columns.push(Column { name: name.clone(), links });
    }
    if !sound {
        return None;
    }
    if let Some(first) = unknown.first() {
        let message = format!(
            "the dump is cut: it lacks {} between GPUs and NICs, {first} first",
            counted(unknown.len(), "link")
        );
        let help = "run nvidia-smi topo -m again and keep all of it; if every GPU has one NIC of its own, say --rails";
        diagnostics.push(Diagnostic::error("NIC", message).at(table.last_line, 0).help(help));
        return None;
    }
    let rows = table.missing_rows(false);
    if !rows.is_empty() && table.missing_rows(true).is_empty() {
        let message = format!("no whole row of {}", rows.join(", "));
        let help = "run nvidia-smi topo -m again and keep all of it";
        diagnostics.push(Diagnostic::warning("NIC", message).at(table.last_line, 0).help(help));
    }
    Some(columns)
}

/// Each NIC with the GPUs of which it is one of the nearest; at least one NIC is near a GPU.
fn nearest(
    table: &Table,
    columns: Vec<Column>,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<DumpNic> {
    let best: Vec<Option<LinkClass>> = (0..table.gpus)
        .map(|gpu| {
            let links = columns.iter().filter_map(|column| column.links.get(gpu).copied());
            links.max().filter(|class| *class >= LinkClass::Phb)
        })
        .collect();
    let (mut nics, mut left_out) = (Vec::new(), Vec::new());
    for column in columns {
        let served = column.links.iter().zip(&best).enumerate();
        let gpus = served
            .filter(|(_, (class, best))| **best == Some(**class))
            .fold(GpuMask::EMPTY, |mask, (gpu, _)| mask.union(GpuMask::single(gpu)));
        if !gpus.is_empty() || options.nics.is_some() {
            nics.push(DumpNic { name: column.name, gpus });
        } else {
            left_out.push(column.name);
        }
    }
    let alone = (0..table.gpus).filter(|gpu| best.get(*gpu) == Some(&None));
    let alone = alone.fold(GpuMask::EMPTY, |mask, gpu| mask.union(GpuMask::single(gpu)));
    remark(table, &nics, &left_out, alone, options, diagnostics);
    nics
}

/// Says what was decided: NICs left out, more NICs than GPUs, GPUs without a near NIC.
fn remark(
    table: &Table,
    nics: &[DumpNic],
    left_out: &[String],
    alone: GpuMask,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if !left_out.is_empty() {
        let message = format!(
            "{} left out: of no GPU is it the nearest NIC, as with management and storage NICs",
            left_out.join(", ")
        );
        let remark = if alone.is_empty() {
            Diagnostic::note("NIC", message)
        } else {
            Diagnostic::warning("NIC", message)
        };
        diagnostics.push(remark.at(table.line, 0).help("--nics names the NICs to keep"));
    }
    if nics.len() > table.gpus && options.nics.is_none() {
        let message = format!(
            "{} NICs for {} GPUs: storage NICs or virtual functions may be among them",
            nics.len(),
            table.gpus
        );
        let help = "name those that carry the jobs' traffic with --nics";
        diagnostics.push(Diagnostic::warning("NIC", message).at(table.line, 0).help(help));
    }
    if !alone.is_empty() {
        let message =
            format!("no NIC is near GPU {alone}: taken to send through the NIC of another GPU");
        diagnostics.push(Diagnostic::note("NIC", message).at(table.line, 0));
    }
}

/// NICs that are near no GPU, as in virtual machines and on Grace hosts.
fn far(
    table: &Table,
    columns: Vec<Column>,
    options: &TopoOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<DumpNic>> {
    let all = GpuMask::first(table.gpus);
    let told = options.nics.is_some();
    if told || columns.len() == 1 {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let message = format!("{} near no GPU: taken to serve all of them", names.join(", "));
        diagnostics.push(Diagnostic::note("NIC", message).at(table.line, 0));
        let nic = |column: Column| DumpNic { name: column.name, gpus: all };
        return Some(columns.into_iter().map(nic).collect());
    }
    let on_node = |column: &Column| {
        let gpus = column.links.iter().enumerate().filter(|(_, c)| **c == LinkClass::Node);
        gpus.fold(GpuMask::EMPTY, |mask, (gpu, _)| mask.union(GpuMask::single(gpu)))
    };
    let served = columns.iter().map(on_node).fold(GpuMask::EMPTY, GpuMask::union);
    if served != all {
        let message = format!(
            "none of the {} NICs is near a GPU: the dump does not show which of them a GPU uses",
            columns.len()
        );
        let help = "if every GPU has one NIC of its own, say --rails; else name the NICs that carry the jobs' traffic with --nics";
        diagnostics.push(Diagnostic::error("NIC", message).at(table.line, 0).help(help));
        return None;
    }
    let message = "no NIC is near a GPU: each is taken to serve the GPUs on its NUMA node";
    let help = "if some of them are for management, name the others with --nics";
    diagnostics.push(Diagnostic::warning("NIC", message).at(table.line, 0).help(help));
    let nic = |column: &Column| DumpNic { name: column.name.clone(), gpus: on_node(column) };
    Some(columns.iter().map(nic).filter(|nic| !nic.gpus.is_empty()).collect())
}
