//! Host and cross tables.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Collective, GpuMask, MAX_GPUS_PER_HOST, Measurement, counted};

use super::BUSBW;
use crate::csv_lines::{Lines, Row};
use crate::import::MAX_BUSBW_GBYTES_PER_S;
use crate::{Diagnostic, Import, ImportOptions, MissingBytes, hostlist};

/// How a table tells its hosts.
enum Kind {
    /// One host a row; old and new name.
    Host(BTreeMap<String, String>),
    /// One pair of columns a host, with these names.
    Cross(Vec<String>),
}

/// What becomes of a row.
enum Outcome {
    Used(Measurement),
    SingleGpu,
    NoBytes,
}

pub(super) fn read(source: &str, lines: &Lines<'_>, options: &ImportOptions) -> Import {
    let kind = match kind_of(lines, options) {
        Ok(kind) => kind,
        Err(reason) => return Import::refuse(reason),
    };
    if let Some(op) = options.op.filter(|op| *op != Collective::AllReduce) {
        let message = format!("'{op}' was given, but this kind of table holds all_reduce");
        let help = "leave the operation out for this file";
        return Import::refuse(Diagnostic::error("op", message).help(help));
    }
    let mut import = Import::default();
    let message = "all rows are all_reduce bus bandwidths, by the definition of this kind of table";
    import.diagnostics.push(Diagnostic::note("op", message));
    let mut without_bytes: Vec<u32> = Vec::new();
    for row in lines.rows() {
        match read_row(source, lines, &row, &kind, options) {
            Ok(Outcome::Used(measurement)) => import.measurements.push(measurement),
            Ok(Outcome::SingleGpu) => import.skipped_rows += 1,
            Ok(Outcome::NoBytes) => without_bytes.push(row.line),
            Err(diagnostic) => {
                import.refused_rows += 1;
                import.diagnostics.push(diagnostic.at(row.line, 0));
            }
        }
    }
    if import.skipped_rows > 0 {
        let message = format!("skipped: {} of a single GPU", counted(import.skipped_rows, "row"));
        let help = "one GPU communicates with nobody; the 0 in the table is no bandwidth";
        import.diagnostics.push(Diagnostic::note("", message).help(help));
    }
    if let Some(first) = without_bytes.first() {
        import.refused_rows += without_bytes.len();
        let message = format!("no message size in {}", counted(without_bytes.len(), "row"));
        let help = "give it, for example --bytes 2GiB, or say --bytes unknown";
        import
            .diagnostics
            .push(Diagnostic::error("message_bytes", message).at(*first, 0).help(help));
    }
    if options.placement.is_some() {
        let message = "the given placement is not used: each row names its GPUs";
        import.diagnostics.push(Diagnostic::note("placement", message));
    }
    if matches!(kind, Kind::Host(_)) && options.hosts.len() > 1 {
        let message = "the rows name their host; the list of host names is not used";
        import.diagnostics.push(Diagnostic::note("hosts", message).help("rename with OLD=NEW"));
    }
    import.finish()
}

/// Which kind of table it is; an error if columns or host names are missing.
fn kind_of(lines: &Lines<'_>, options: &ImportOptions) -> Result<Kind, Diagnostic> {
    let need = |columns: &[String]| match columns.iter().find(|column| !lines.has(column)) {
        None => Ok(()),
        Some(column) => {
            let reason = Diagnostic::error(column.as_str(), "the table has no such column");
            Err(reason.at(lines.header_line(), 0).help("see the columns of host and cross tables"))
        }
    };
    // A table without a column of sizes is one of which no row has a size.
    need(&[BUSBW.to_owned()])?;
    let hosts = lines.numbered("n");
    if hosts == 0 {
        need(&["host".to_owned(), "gpus".to_owned()])?;
        return host_names(lines, options).map(Kind::Host);
    }
    need(&(0..hosts).map(|n| format!("gpus_h{n}")).collect::<Vec<_>>())?;
    let names = if options.hosts.is_empty() {
        (0..hosts).map(|n| format!("host{n}")).collect()
    } else {
        options.hosts.clone()
    };
    if names.len() != hosts {
        let message = format!("{} host names for {hosts} host columns", names.len());
        return Err(Diagnostic::error("hosts", message).help("give one name a column, in order"));
    }
    let names: Vec<String> = names.iter().map(|name| renamed(name, options)).collect();
    if let Some(name) = names.iter().find(|name| !hostlist::is_host_name(name)) {
        return Err(bad_host_name("hosts", name));
    }
    if names.iter().collect::<BTreeSet<_>>().len() != hosts {
        return Err(Diagnostic::error("hosts", "a host name stands twice").help("name each once"));
    }
    Ok(Kind::Cross(names))
}

/// New names for the hosts of a host table; an error if two hosts would get the same one.
fn host_names(
    lines: &Lines<'_>,
    options: &ImportOptions,
) -> Result<BTreeMap<String, String>, Diagnostic> {
    let old: BTreeSet<String> = lines.rows().map(|row| row.get("host").to_owned()).collect();
    let names: BTreeMap<String, String> = old
        .into_iter()
        .map(|name| match options.hosts.as_slice() {
            [only] => (name, only.clone()),
            _ => (name.clone(), renamed(&name, options)),
        })
        .collect();
    if names.values().collect::<BTreeSet<_>>().len() != names.len() {
        let message = "two hosts of the table would get the same name";
        return Err(Diagnostic::error("hosts", message).help("rename each host with OLD=NEW"));
    }
    Ok(names)
}

fn renamed(name: &str, options: &ImportOptions) -> String {
    let found = options.renames.iter().find(|(old, _)| old == name);
    found.map_or(name, |(_, new)| new).to_owned()
}

fn bad_host_name(field: &str, name: &str) -> Diagnostic {
    Diagnostic::error(field, format!("'{name}' is not a host name"))
        .help("names consist of letters, digits, '-', '_' and '.'")
}

fn read_row(
    source: &str,
    lines: &Lines<'_>,
    row: &Row<'_>,
    kind: &Kind,
    options: &ImportOptions,
) -> Result<Outcome, Diagnostic> {
    if row.len() != lines.width() {
        let message = format!("{} cells below {} columns", row.len(), lines.width());
        return Err(Diagnostic::error("", message).help("the row may be cut off"));
    }
    let mut placement = match kind {
        Kind::Host(names) => host_placement(lines, row, names)?,
        Kind::Cross(names) => cross_placement(lines, row, names)?,
    };
    placement.sort_by(|a, b| a.0.cmp(&b.0));
    let gpus: usize = placement.iter().map(|(_, mask)| mask.count()).sum();
    check_count(lines, row, "num_gpus", gpus)?;
    let busbw = bandwidth(row.get(BUSBW))?;
    let bytes = match (row.get("message_bytes"), options.bytes) {
        ("", MissingBytes::Refuse) if gpus > 1 => return Ok(Outcome::NoBytes),
        ("", MissingBytes::Refuse | MissingBytes::Unknown) => None,
        ("", MissingBytes::Given(bytes)) => Some(bytes),
        (cell, _) => Some(whole("message_bytes", cell)?),
    };
    if bytes == Some(0) {
        return Err(Diagnostic::error("message_bytes", "a message of 0 bytes has no bandwidth"));
    }
    if gpus == 1 {
        return Ok(Outcome::SingleGpu);
    }
    if busbw == 0.0 {
        return Err(Diagnostic::error(BUSBW, format!("0 GB/s for {gpus} GPUs")));
    }
    Ok(Outcome::Used(Measurement {
        collective: Collective::AllReduce,
        bytes,
        placement,
        busbw_gbytes_per_s: busbw,
        source: source.to_owned(),
        line: u64::from(row.line),
    }))
}

fn host_placement(
    lines: &Lines<'_>,
    row: &Row<'_>,
    names: &BTreeMap<String, String>,
) -> Result<Vec<(String, GpuMask)>, Diagnostic> {
    let old = row.get("host");
    let name = names.get(old).map_or(old, String::as_str).to_owned();
    if !hostlist::is_host_name(&name) {
        return Err(bad_host_name("host", &name));
    }
    let mask = gpu_indexes("gpus", row.get("gpus"))?;
    if mask.is_empty() {
        return Err(Diagnostic::error("gpus", "the row has no GPU at all"));
    }
    if lines.has("bitmask") {
        let bits = whole("bitmask", row.get("bitmask"))?;
        if bits != mask.0 {
            let message = format!("{bits} is GPUs '{}', but gpus says '{mask}'", GpuMask(bits));
            return Err(Diagnostic::error("bitmask", message).help("mend one of the two"));
        }
    }
    Ok(vec![(name, mask)])
}

fn cross_placement(
    lines: &Lines<'_>,
    row: &Row<'_>,
    names: &[String],
) -> Result<Vec<(String, GpuMask)>, Diagnostic> {
    let mut placement = Vec::new();
    for (host, name) in names.iter().enumerate() {
        let column = format!("gpus_h{host}");
        let mask = gpu_indexes(&column, row.get(&column))?;
        check_count(lines, row, &format!("n{host}"), mask.count())?;
        if !mask.is_empty() {
            placement.push((name.clone(), mask));
        }
    }
    if placement.is_empty() {
        return Err(Diagnostic::error("gpus_h0", "the row has no GPU at all"));
    }
    check_count(lines, row, "num_hosts", placement.len())?;
    if lines.has("sorted_counts") {
        let mut counts: Vec<usize> = placement.iter().map(|(_, mask)| mask.count()).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let found = counts.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        let said = row.get("sorted_counts");
        if said != found {
            let message = format!("'{said}', but the GPU lists give '{found}'");
            return Err(Diagnostic::error("sorted_counts", message).help("mend one of the two"));
        }
    }
    Ok(placement)
}

/// A count that the row states must be the one its GPU lists give.
fn check_count(
    lines: &Lines<'_>,
    row: &Row<'_>,
    column: &str,
    found: usize,
) -> Result<(), Diagnostic> {
    if !lines.has(column) {
        return Ok(());
    }
    let said = whole(column, row.get(column))?;
    if said == found as u64 {
        return Ok(());
    }
    let message = format!("{said}, but the GPU lists give {found}");
    Err(Diagnostic::error(column, message).help("mend one of the two"))
}

fn gpu_indexes(column: &str, cell: &str) -> Result<GpuMask, Diagnostic> {
    let mut mask = GpuMask::EMPTY;
    for word in cell.split_whitespace() {
        let index: usize = word.parse().unwrap_or(usize::MAX);
        if index >= MAX_GPUS_PER_HOST {
            let message = format!("'{word}' is not a GPU index");
            return Err(Diagnostic::error(column, message).help("write indexes from 0 to 63"));
        }
        if mask.contains(index) {
            return Err(Diagnostic::error(column, format!("GPU {index} stands twice")));
        }
        mask = mask.union(GpuMask::single(index));
    }
    Ok(mask)
}

fn whole(column: &str, cell: &str) -> Result<u64, Diagnostic> {
    cell.parse().map_err(|_| Diagnostic::error(column, format!("'{cell}' is not a whole number")))
}

fn bandwidth(cell: &str) -> Result<f64, Diagnostic> {
    let number: Option<f64> = cell.parse().ok();
    number.filter(|n| (0.0..=MAX_BUSBW_GBYTES_PER_S).contains(n)).ok_or_else(|| {
        Diagnostic::error(BUSBW, format!("'{cell}' is not a bandwidth"))
            .help("write GB/s as a plain number")
    })
}
