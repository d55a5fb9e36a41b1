//! `gres.conf` and the `NodeName` lines of `slurm.conf`.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{LinkClass, Links, MAX_GPUS_PER_HOST, counted, switched_links};

use super::lines::Entry;
use super::{NodeFacts, SlurmFile, hosts};
use crate::Diagnostic;
use crate::hostlist;

/// Largest memory that is believed, MiB (1 PiB).
const MAX_MEMORY_MIB: u64 = 1 << 30;
/// Most CPU cores that a cluster file holds.
const MAX_CORES: u32 = (1 << 20) - 1;

/// GPUs of one host as `gres.conf` lists them.
#[derive(Default, Clone)]
struct Devices {
    line: u32,
    /// Type and number of NVLinks to each GPU, by device number.
    gpus: BTreeMap<usize, (Option<String>, Option<Vec<i64>>)>,
    /// GPUs that only a count tells of.
    counted: usize,
    counted_type: Option<String>,
}

pub(super) fn read(
    entries: &[Entry],
    file: &mut SlurmFile,
    room: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut devices: BTreeMap<String, Devices> = BTreeMap::new();
    let mut local: Option<Devices> = None;
    let mut default = Values::new();
    for entry in entries {
        if let Some(method) = entry.get("autodetect")
            && !method.eq_ignore_ascii_case("off")
        {
            let message = format!(
                "AutoDetect={method} lets each host find its GPUs: the file does not say which they are"
            );
            let help = "give the hosts' nvidia-smi topo -m output as well";
            let note = Diagnostic::note("AutoDetect", message).at(entry.line, 0);
            diagnostics.push(note.help(help));
        }
        let Some(kind) = entry.get("name") else {
            node(entry, &mut default, file, room, diagnostics);
            continue;
        };
        if !kind.eq_ignore_ascii_case("gpu") {
            let message = format!("Name={kind} is not a GPU, not used");
            diagnostics.push(Diagnostic::note("Name", message).at(entry.line, 0));
            continue;
        }
        let names = hosts(entry, "nodename", room, diagnostics);
        if entry.get("nodename").is_none() {
            add(entry, local.get_or_insert_default(), diagnostics);
        }
        for (count, name) in names.into_iter().enumerate() {
            // What is wrong with the line is said once, not for every host.
            let mut silent = Vec::new();
            let remarks = if count == 0 { &mut *diagnostics } else { &mut silent };
            add(entry, devices.entry(name).or_default(), remarks);
        }
    }
    let mut reported = BTreeSet::new();
    for (name, devices) in devices {
        let mut remarks = Vec::new();
        let found = facts(&devices, &name, &mut remarks);
        if reported.insert(devices.line) {
            diagnostics.append(&mut remarks);
        }
        let node = file.nodes.entry(name).or_default();
        if node.line == 0 {
            node.line = found.line;
        }
        node.gpus = found.gpus.or(node.gpus);
        node.gpu_type = found.gpu_type.or_else(|| node.gpu_type.take());
        node.links = found.links;
    }
    file.local = local.map(|devices| facts(&devices, "this host", diagnostics));
}

/// Values by key of the last `NodeName=DEFAULT` line: they hold for the lines below it.
type Values = BTreeMap<String, String>;

/// A `NodeName` line of `slurm.conf`.
fn node(
    entry: &Entry,
    default: &mut Values,
    file: &mut SlurmFile,
    room: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(list) = entry.get("nodename").filter(|_| entry.first().as_deref() == Some("nodename"))
    else {
        return;
    };
    if list.eq_ignore_ascii_case("default") {
        for key in entry.keys() {
            let value = entry.get(&key).unwrap_or("");
            default.insert(key, value.to_owned());
        }
        return;
    }
    let get = |key: &str| entry.get(key).or_else(|| default.get(key).map(String::as_str));
    let mut facts = NodeFacts { line: entry.line, ..NodeFacts::default() };
    if let Some(gres) = get("gres") {
        gres_list(gres, entry.line, &mut facts, diagnostics);
    }
    let mut number = |key: &str| {
        let value = get(key)?;
        let number = value.parse::<u64>().ok().filter(|n| *n > 0);
        if number.is_none() {
            let message = format!("'{value}' is not a number above 0, not used");
            diagnostics.push(Diagnostic::warning(key, message).at(entry.line, 0));
        }
        number
    };
    let sockets = number("sockets").or_else(|| number("socketsperboard"));
    let per_socket = number("corespersocket");
    let threads = number("threadspercore").unwrap_or(1);
    let cores = match (sockets, per_socket, number("cpus")) {
        (Some(sockets), Some(cores), _) => sockets.checked_mul(cores),
        (_, _, Some(cpus)) => cpus.checked_div(threads),
        _ => None,
    };
    let cores = cores.and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=MAX_CORES).contains(n));
    facts.cores = cores;
    let memory = number("realmemory").filter(|mib| *mib <= MAX_MEMORY_MIB);
    facts.memory_bytes = memory.map(|mib| mib << 20);
    for name in hosts(entry, "nodename", room, diagnostics) {
        file.nodes.insert(name, facts.clone());
    }
}

/// `gpu:h100:8(S:0-1),gpu:a100:2,shard:16`.
fn gres_list(text: &str, line: u32, facts: &mut NodeFacts, diagnostics: &mut Vec<Diagnostic>) {
    let (mut total, mut types): (usize, Vec<&str>) = (0, Vec::new());
    for item in text.split(',').filter(|item| item.starts_with("gpu")) {
        let body = item.split('(').next().unwrap_or(item);
        let parts: Vec<&str> = body.split(':').collect();
        let (kind, count) = match parts[..] {
            ["gpu"] => (None, Some(1)),
            ["gpu", count] if count.parse::<usize>().is_ok() => (None, count.parse().ok()),
            ["gpu", kind] => (Some(kind), Some(1)),
            ["gpu", kind, count] => (Some(kind), count.parse::<usize>().ok()),
            _ => continue,
        };
        let Some(count) = count.filter(|n| *n <= MAX_GPUS_PER_HOST) else {
            let message = format!("'{item}' is not a number of GPUs up to {MAX_GPUS_PER_HOST}");
            diagnostics.push(Diagnostic::error("Gres", message).at(line, 0));
            return;
        };
        total += count;
        types.extend(kind.filter(|kind| !kind.is_empty()));
    }
    if total == 0 || total > MAX_GPUS_PER_HOST {
        return;
    }
    facts.gpus = Some(total);
    types.sort_unstable();
    types.dedup();
    facts.gpu_type = match types[..] {
        [one] => Some(one.to_owned()),
        _ => None,
    };
}

/// Adds the GPUs of one line of `gres.conf`.
fn add(entry: &Entry, devices: &mut Devices, diagnostics: &mut Vec<Diagnostic>) {
    if devices.line == 0 {
        devices.line = entry.line;
    }
    let kind = entry.get("type").filter(|kind| !kind.is_empty()).map(ToOwned::to_owned);
    let error = |key: &str, message: String| Diagnostic::error(key, message).at(entry.line, 0);
    let links = entry.get("links").map(|text| {
        text.split(',').map(|n| n.trim().parse::<i64>().ok()).collect::<Option<Vec<i64>>>()
    });
    if links == Some(None) {
        diagnostics.push(
            error("Links", "is not a list of numbers".to_owned())
                .help("write the NVLinks to each GPU, -1 for itself: Links=-1,18,18"),
        );
    }
    let Some(file) = entry.get("file") else {
        let count = entry.get("count").map_or(Some(1), |count| count.parse::<usize>().ok());
        let room = MAX_GPUS_PER_HOST.saturating_sub(devices.counted);
        if let Some(count) = count.filter(|n| *n <= room) {
            devices.counted += count;
            devices.counted_type = kind;
        } else {
            let message = format!("is not a number of GPUs up to {MAX_GPUS_PER_HOST}");
            diagnostics.push(error("Count", message));
        }
        return;
    };
    let numbers = match device_numbers(file) {
        Ok(numbers) => numbers,
        Err(message) => {
            let help = "write for example File=/dev/nvidia[0-7]";
            diagnostics.push(error("File", message).help(help));
            return;
        }
    };
    let links = links.flatten();
    if links.is_some() && numbers.len() > 1 {
        let message = "Links on a line of several GPUs does not say whose they are, not used";
        diagnostics.push(Diagnostic::warning("Links", message).at(entry.line, 0));
    }
    let links = links.filter(|_| numbers.len() == 1);
    for number in numbers {
        if devices.gpus.insert(number, (kind.clone(), links.clone())).is_some() {
            diagnostics.push(error("File", format!("/dev/nvidia{number} stands twice")));
        }
    }
}

/// The numbers of `/dev/nvidia[0-3,5]`.
fn device_numbers(file: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for (_, item) in hostlist::split_items(file) {
        let name = item.rsplit('/').next().unwrap_or(item);
        let names = hostlist::expand_up_to(name, MAX_GPUS_PER_HOST).map_err(|d| d.message)?;
        for name in names {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let number = digits.parse().ok().filter(|n: &usize| *n < MAX_GPUS_PER_HOST);
            numbers.push(number.ok_or_else(|| format!("'{name}' has no number below 64"))?);
        }
    }
    Ok(numbers)
}

/// What all lines about a host say together.
fn facts(devices: &Devices, name: &str, diagnostics: &mut Vec<Diagnostic>) -> NodeFacts {
    let gpus = devices.gpus.len() + devices.counted;
    let mut types: Vec<&String> =
        devices.gpus.values().filter_map(|(kind, _)| kind.as_ref()).collect();
    types.extend(&devices.counted_type);
    types.sort_unstable();
    types.dedup();
    let gpu_type = match types[..] {
        [one] => Some(one.clone()),
        _ => None,
    };
    let known = (1..=MAX_GPUS_PER_HOST).contains(&gpus);
    NodeFacts {
        line: devices.line,
        gpus: known.then_some(gpus),
        gpu_type,
        links: links(devices, name, diagnostics),
        ..NodeFacts::default()
    }
}

/// The links of `Links=` lists: NVLinks by GPU. PCIe paths are not in them.
fn links(devices: &Devices, name: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Links> {
    let gpus = devices.gpus.len();
    let rows: Option<Vec<&Vec<i64>>> =
        devices.gpus.values().map(|(_, links)| links.as_ref()).collect();
    let rows = rows.filter(|rows| !rows.is_empty() && devices.counted == 0)?;
    let mut refuse = |message: String| {
        let reason = Diagnostic::error("Links", format!("{name}: {message}"));
        let help = "write the NVLinks to each GPU, -1 for itself: Links=-1,18,18";
        diagnostics.push(reason.at(devices.line, 0).help(help));
        None
    };
    let mut cells = vec![LinkClass::Sys; gpus * gpus];
    let mut without = 0;
    for (a, row) in rows.iter().enumerate() {
        if row.len() != gpus || row.get(a) != Some(&-1) {
            return refuse(format!(
                "the list of GPU {a} has not one number a GPU with -1 at its own place"
            ));
        }
        for (b, count) in row.iter().enumerate().filter(|(b, _)| *b != a) {
            if rows[b].get(a) != Some(count) {
                return refuse(format!("GPU {a} to {b} and GPU {b} to {a} differ"));
            }
            cells[a * gpus + b] = match u8::try_from(*count) {
                Ok(0) => {
                    without += 1;
                    LinkClass::Sys
                }
                Ok(links) => LinkClass::Nv(links),
                Err(_) => return refuse(format!("{count} is not a number of NVLinks")),
            };
        }
    }
    if let Some(links) = switched_links(&cells, gpus) {
        let message = format!("NVSwitch: every pair has NV{links}, which only a switch explains");
        diagnostics.push(Diagnostic::note("Links", message).at(devices.line, 0));
        return Some(Links::NvSwitch);
    }
    if without > 0 {
        let message = format!(
            "{name}: no NVLink between {} of GPUs, and gres.conf does not show PCIe paths: taken as SYS, the farthest",
            counted(without / 2, "pair")
        );
        let help = "give the host's nvidia-smi topo -m output";
        diagnostics.push(Diagnostic::warning("Links", message).at(devices.line, 0).help(help));
    }
    Some(Links::Matrix(cells))
}
