//! What ran and where: what the file says, what the caller says, and what the rows themselves prove.

use bandpilot_core::{Cluster, Collective, GpuMask};

use super::devices::{self, Unusable, find_host};
use super::infer::{self, Ranks};
use super::rows::Row;
use super::scan::Table;
use crate::{Diagnostic, ImportOptions, placement};

type Placement = Vec<(String, GpuMask)>;

/// Where a table's run may have been.
struct Where {
    placement: Option<Placement>,
    /// Line and reason why there is none.
    reason: (u32, String, String),
}

/// The collective and the placement of a table, or why they are not known.
pub(super) fn settle(
    table: &Table,
    rows: &[Row],
    options: &ImportOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(Collective, Placement), Diagnostic> {
    let place = find_placement(table, options, remarks)?;
    let ranks = match (&place.placement, table.gpus) {
        (Some(placement), _) => Some(gpus(placement)),
        (None, Some((_, gpus))) => Some(gpus),
        (None, None) => None,
    };
    if let (Some(placement), Some((line, counted))) = (&place.placement, table.gpus)
        && gpus(placement) != counted
    {
        let message =
            format!("the file is of {counted} GPUs, but the placement has {}", gpus(placement));
        return Err(Diagnostic::error("placement", message).at(line, 0));
    }
    let op = find_op(table, rows, options, ranks, remarks)?;
    let placement = match place.placement {
        Some(placement) => placement,
        None => whole_cluster(table, op, rows, options, &place, remarks)?,
    };
    enough(table, &placement)?;
    if let Some(cluster) = options.cluster.as_deref() {
        check_hosts(&placement, table.line, cluster, options)?;
    }
    Ok((op, placement))
}

fn gpus(placement: &[(String, GpuMask)]) -> usize {
    placement.iter().map(|(_, mask)| mask.count()).sum()
}

/// A device list that is not complete still tells how many GPUs there must be at least.
fn enough(table: &Table, placement: &Placement) -> Result<(), Diagnostic> {
    let Some((rank, least)) = table.devices.at_least() else { return Ok(()) };
    if gpus(placement) as u64 >= least {
        return Ok(());
    }
    let message = format!(
        "the device list names rank {}, so {least} or more GPUs ran, but the placement has {}",
        rank.number,
        gpus(placement)
    );
    let help = "give all GPUs that ran with --placement";
    Err(Diagnostic::error("placement", message).at(rank.line, 0).help(help))
}

/// The collective that file, caller or rows tell.
fn find_op(
    table: &Table,
    rows: &[Row],
    options: &ImportOptions,
    ranks: Option<usize>,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Collective, Diagnostic> {
    if let Some(stated) = &table.stated {
        let op = stated.name.parse::<Collective>().map_err(|error| {
            let reason = Diagnostic::error("op", error.to_string());
            reason.at(stated.line, 0).help("such a run cannot be used")
        })?;
        if let Some(given) = options.op.filter(|given| *given != op) {
            let message = format!("the file is of {op}, but {given} was given");
            let reason = Diagnostic::error("op", message).at(stated.line, 0);
            return Err(reason.help("leave the operation out for this file"));
        }
        if stated.by_command && options.op.is_none() {
            let message = format!("{op}, from the command");
            remarks.push(Diagnostic::note("op", message).at(stated.line, 0));
        }
        return Ok(op);
    }
    if let Some(given) = options.op {
        return Ok(given);
    }
    let candidates = match ranks.or_else(|| infer::by_parts(rows)) {
        Some(ranks) if ranks > 1 => infer::collectives(rows, ranks),
        _ if infer::is_surely_all_reduce(rows) => vec![Collective::AllReduce],
        _ => Vec::new(),
    };
    if let ([op], false) = (candidates.as_slice(), rows.is_empty()) {
        let message = format!("{op}, the only collective with these numbers");
        remarks.push(Diagnostic::note("op", message).at(table.line, 0));
        return Ok(*op);
    }
    let message = "the file does not say which collective was run";
    let reason = Diagnostic::error("op", message).at(table.line, 0);
    let may_be: Vec<&str> = candidates.iter().map(|op| op.name()).collect();
    Err(reason.help(match may_be.as_slice() {
        [first, _, ..] if may_be.len() < Collective::ALL.len() => {
            format!("its numbers fit {}; give the one, for example --op {first}", may_be.join(", "))
        }
        _ => "give it, for example --op all_reduce".to_owned(),
    }))
}

/// Where the run was, from the device list or the caller.
fn find_placement(
    table: &Table,
    options: &ImportOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Where, Diagnostic> {
    let list = &table.devices;
    let given = options.placement.as_ref().filter(|given| !given.is_empty());
    let nothing = |line: u32, reason: String, help: String| {
        let line = if line == 0 { table.line } else { line };
        Where { placement: None, reason: (line, reason, help) }
    };
    let found =
        |placement| Where { placement: Some(placement), reason: (0, String::new(), String::new()) };
    let numbers = match devices::check_numbers(list) {
        Ok(()) => Ok(()),
        Err(Unusable::Fatal(reason)) => return Err(reason),
        Err(Unusable::Incomplete(line, reason)) => Err((line, reason)),
    };
    let Some(given) = given else {
        let (line, reason) = match numbers {
            Ok(()) => {
                return match devices::placement(list, options, remarks) {
                    Ok(placement) => Ok(found(placement)),
                    Err(reason) if options.cluster.is_some() => Err(reason),
                    Err(reason) => Ok(nothing(reason.line, reason.message, reason.help)),
                };
            }
            Err(found) => found,
        };
        if let Some(cluster) = options.cluster.as_deref() {
            for rank in &list.ranks {
                find_host(&rank.host, rank.line, cluster, options)?;
            }
        }
        return Ok(nothing(line, reason, String::new()));
    };
    match numbers {
        Ok(()) => agree(table, given)?,
        Err((0, _)) => {}
        Err((line, reason)) => {
            let message = format!("{reason}; the given placement is used");
            remarks.push(Diagnostic::note("placement", message).at(line, 0));
        }
    }
    Ok(found(given.clone()))
}

/// A complete device list and a given placement must have the same numbers of GPUs a host.
fn agree(table: &Table, given: &Placement) -> Result<(), Diagnostic> {
    let mut listed: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for rank in &table.devices.ranks {
        *listed.entry(rank.host.as_str()).or_default() += 1;
    }
    let mut in_list: Vec<usize> = listed.values().copied().collect();
    let mut in_given: Vec<usize> = given.iter().map(|(_, mask)| mask.count()).collect();
    in_list.sort_unstable();
    in_given.sort_unstable();
    if in_list == in_given {
        return Ok(());
    }
    let shape: Vec<String> =
        listed.iter().take(8).map(|(host, gpus)| format!("{gpus} of {host}")).collect();
    let line = table.devices.ranks.first().map_or(table.line, |rank| rank.line);
    let message = format!(
        "the device list has {} GPUs ({}{}), but {} was given",
        table.devices.ranks.len(),
        shape.join(", "),
        if listed.len() > 8 { ", ..." } else { "" },
        placement::format(given)
    );
    let help = "both must have the same numbers of GPUs a host";
    Err(Diagnostic::error("placement", message).at(line, 0).help(help))
}

/// The whole cluster, if the rows prove that it ran on as many GPUs as the cluster has in health.
fn whole_cluster(
    table: &Table,
    op: Collective,
    rows: &[Row],
    options: &ImportOptions,
    place: &Where,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Placement, Diagnostic> {
    let ranks = match table.gpus {
        Some((_, gpus)) => Ranks::Between(gpus, gpus),
        None => infer::ranks(op, rows),
    };
    let (line, reason, help) = &place.reason;
    let mut message = format!("{reason}; {ranks}");
    if let Some(cluster) = options.cluster.as_deref() {
        let all: Placement = cluster
            .host_ids()
            .map(|id| (cluster.host(id).name.clone(), cluster.healthy_gpus(id)))
            .filter(|(_, mask)| !mask.is_empty())
            .collect();
        if ranks.exactly() == Some(gpus(&all)) {
            let message = format!("{reason}; {ranks}, which are all of the cluster");
            remarks.push(Diagnostic::note("placement", message).at(*line, 0));
            let mut all = all;
            all.sort_by(|a, b| a.0.cmp(&b.0));
            return Ok(all);
        }
        message = format!("{message}, and the cluster has {} in health", gpus(&all));
    }
    let help = if help.is_empty() {
        "give where it ran, for example --placement h1:0-7,h2:0-7"
    } else {
        help.as_str()
    };
    Err(Diagnostic::error("placement", message).at(*line, 0).help(help))
}

/// Every host and GPU of a placement must be in the cluster.
fn check_hosts(
    placement: &Placement,
    line: u32,
    cluster: &Cluster,
    options: &ImportOptions,
) -> Result<(), Diagnostic> {
    for (host, mask) in placement {
        let id = find_host(host, line, cluster, options)?;
        let there = GpuMask::first(cluster.type_of(id).gpus);
        let missing = mask.without(there);
        if !missing.is_empty() {
            let message = format!("{host} has no GPUs {missing} in the cluster file");
            return Err(Diagnostic::error("placement", message).at(line, 0));
        }
    }
    Ok(())
}
