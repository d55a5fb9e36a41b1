//! The placement notation `h1:0-3,5,h2:1`: hosts with their GPUs.
//!
//! Parts are separated by commas. A part is `HOST:GPUS`; the host may be a hostlist with brackets,
//! which gives the same GPUs to each of its hosts (`h[1-3]:0-7`). A part that is only numbers continues
//! the GPU list of the part before it. Against a cluster, a host alone means all its GPUs.

use std::collections::BTreeMap;

use bandpilot_core::{Cluster, GpuMask, HostId, Placement};

use crate::diagnostic::MAX_REMARKS;
use crate::near::nearest;
use crate::{Diagnostic, Parsed, hostlist};

/// Reads a placement on a cluster. The column of a diagnostic counts within `text`, its field is the
/// part it is about; wrong parts are left out of the value. Reading stops after a hundred remarks.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// use bandpilot_readers::placement;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
/// let read = placement::on_cluster("h1:0-3,5,h3", &cluster);
/// assert_eq!(read.value.display(&cluster), "h1:0-3,5,h3:0-7");
/// ```
pub fn on_cluster(text: &str, cluster: &Cluster) -> Parsed<Placement> {
    let (parts, mut diagnostics) = split(text);
    let hosts: BTreeMap<&str, HostId> =
        cluster.host_ids().map(|id| (cluster.host(id).name.as_str(), id)).collect();
    let mut taken: BTreeMap<HostId, GpuMask> = BTreeMap::new();
    for part in &parts {
        for name in &part.hosts {
            if diagnostics.len() >= MAX_REMARKS {
                break;
            }
            let Some(&host) = hosts.get(name.as_str()) else {
                diagnostics.push(unknown_host(part, name, cluster));
                continue;
            };
            let gpus = cluster.type_of(host).gpus;
            let there = GpuMask::first(gpus);
            let mask = part.gpus.unwrap_or(there);
            if let Some(index) = mask.without(there).iter().next() {
                diagnostics.push(no_such_gpu(part, name, index, gpus));
            }
            let before = taken.entry(host).or_default();
            if let Some(index) = mask.intersection(*before).iter().next() {
                diagnostics.push(twice(part, name, index));
            }
            *before = before.union(mask.intersection(there));
        }
    }
    crate::diagnostic::sort(&mut diagnostics);
    Parsed { value: Placement::new(taken), diagnostics }
}

/// Reads a placement without a cluster: host names and GPUs, sorted by name. A host without GPUs is an
/// error, since nobody knows how many it has; [`by_name_on`] does.
///
/// ```
/// use bandpilot_readers::placement;
/// let read = placement::by_name("h2:0-7,h1:0-3,5");
/// assert_eq!(placement::format(&read.value), "h1:0-3,5,h2:0-7");
/// ```
pub fn by_name(text: &str) -> Parsed<Vec<(String, GpuMask)>> {
    named(text, |part, _| {
        let reason = part.error(format!("'{}' has no GPUs", part.text));
        Err(reason.help(format!("write for example {}:0-7", part.text)))
    })
}

/// As [`by_name`], but a host without GPUs means its healthy GPUs in the cluster.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// use bandpilot_readers::placement;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
/// let read = placement::by_name_on("h1,x:0-3", &cluster);
/// assert_eq!(placement::format(&read.value), "h1:0-7,x:0-3");
/// ```
pub fn by_name_on(text: &str, cluster: &Cluster) -> Parsed<Vec<(String, GpuMask)>> {
    let hosts: BTreeMap<&str, HostId> =
        cluster.host_ids().map(|id| (cluster.host(id).name.as_str(), id)).collect();
    named(text, |part, name| {
        let host = hosts.get(name).ok_or_else(|| unknown_host(part, name, cluster))?;
        let healthy = cluster.healthy_gpus(*host);
        let none = || part.error(format!("host '{name}' has no healthy GPU"));
        if healthy.is_empty() { Err(none().help("name the GPUs that ran")) } else { Ok(healthy) }
    })
}

/// Reads a placement by name; `all` tells what a host means that is written without GPUs.
fn named(
    text: &str,
    all: impl Fn(&Part<'_>, &str) -> Result<GpuMask, Diagnostic>,
) -> Parsed<Vec<(String, GpuMask)>> {
    let (parts, mut diagnostics) = split(text);
    let mut taken: BTreeMap<String, GpuMask> = BTreeMap::new();
    for part in &parts {
        for name in &part.hosts {
            if diagnostics.len() >= MAX_REMARKS {
                break;
            }
            let mask = match part.gpus.map_or_else(|| all(part, name), Ok) {
                Ok(mask) => mask,
                // What is wrong with the part is said once, not for each of its hosts.
                Err(reason) if diagnostics.last() == Some(&reason) => continue,
                Err(reason) => {
                    diagnostics.push(reason);
                    continue;
                }
            };
            let before = taken.entry(name.clone()).or_default();
            if let Some(index) = mask.intersection(*before).iter().next() {
                diagnostics.push(twice(part, name, index));
            }
            *before = before.union(mask);
        }
    }
    crate::diagnostic::sort(&mut diagnostics);
    Parsed { value: taken.into_iter().collect(), diagnostics }
}

/// Writes what [`by_name`] reads.
pub fn format(placement: &[(String, GpuMask)]) -> String {
    let parts: Vec<String> =
        placement.iter().map(|(name, mask)| format!("{name}:{mask}")).collect();
    parts.join(",")
}

/// Writes a placement with hosts that have the same GPUs gathered: `h[1-3]:0-7,h4:0`.
pub fn format_short(placement: &Placement, cluster: &Cluster) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let shares = placement.shares();
    for (at, (host, mask)) in shares.iter().enumerate() {
        run.push(&cluster.host(*host).name);
        if shares.get(at + 1).is_none_or(|(_, next)| next != mask) {
            for (_, item) in hostlist::split_items(&hostlist::compress(run.drain(..))) {
                parts.push(format!("{item}:{mask}"));
            }
        }
    }
    parts.join(",")
}

/// One part as written, with the numbers that continue it.
struct Part<'a> {
    /// Where its host stands, 1-based, in characters.
    column: u32,
    text: &'a str,
    hosts: Vec<String>,
    /// `None` if no colon was given.
    gpus: Option<GpuMask>,
}

impl Part<'_> {
    fn error(&self, message: String) -> Diagnostic {
        Diagnostic::error(self.text, message).at(1, self.column)
    }
}

/// Splits the notation; whatever is wrong with a part is reported and the part left out.
fn split(text: &str) -> (Vec<Part<'_>>, Vec<Diagnostic>) {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut diagnostics = Vec::new();
    let mut room = hostlist::MAX_HOSTS;
    // Whether numbers may follow, and whether the part they would continue was understood.
    let mut open: Option<bool> = None;
    let mut at = Columns { text, byte: 0, column: 1 };
    for (start, item) in hostlist::split_items(text) {
        let column = at.of(start + (item.len() - item.trim_start().len()));
        let item = item.trim();
        if let (Some(understood), true) = (open, is_numbers(item)) {
            if let (true, Some(part)) = (understood, parts.last_mut()) {
                let before = part.gpus.unwrap_or_default();
                match more_gpus(before, item) {
                    Ok(mask) => part.gpus = Some(mask),
                    Err(message) => diagnostics.push(gpus_error(item, column, message)),
                }
            }
            continue;
        }
        match read_part(item, column, room) {
            Ok(part) => {
                room -= part.hosts.len().min(room);
                open = part.gpus.map(|_| true);
                parts.push(part);
            }
            Err(diagnostic) => {
                diagnostics.push(diagnostic);
                open = Some(false);
            }
        }
    }
    (parts, diagnostics)
}

fn read_part(item: &str, column: u32, room: usize) -> Result<Part<'_>, Diagnostic> {
    let (host, gpus) = match item.split_once(':') {
        Some((host, gpus)) => (host, Some(gpus)),
        None => (item, None),
    };
    let hosts = hostlist::expand_up_to(host, room).map_err(|mut d| {
        item.clone_into(&mut d.field);
        d.column += column - 1;
        d
    })?;
    let gpus = match gpus {
        None => None,
        Some(list) => Some(
            more_gpus(GpuMask::EMPTY, list).map_err(|message| gpus_error(item, column, message))?,
        ),
    };
    Ok(Part { column, text: item, hosts, gpus })
}

fn more_gpus(before: GpuMask, list: &str) -> Result<GpuMask, String> {
    let more = GpuMask::parse(list).map_err(|error| error.to_string())?;
    match more.intersection(before).iter().next() {
        Some(index) => Err(format!("GPU index {index} stands twice")),
        None => Ok(before.union(more)),
    }
}

fn gpus_error(item: &str, column: u32, message: String) -> Diagnostic {
    Diagnostic::error(item, message).at(1, column).help("write GPUs as in h1:0-3,5,h2:0")
}

fn is_numbers(item: &str) -> bool {
    item.starts_with(|c: char| c.is_ascii_digit())
        && item.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b' ')
}

fn unknown_host(part: &Part<'_>, name: &str, cluster: &Cluster) -> Diagnostic {
    let names = || cluster.hosts.iter().map(|host| host.name.as_str());
    let near = nearest(name, names(), 3);
    let help = if near.is_empty() {
        let few: Vec<&str> = names().take(200).collect();
        let more = if cluster.hosts.len() > few.len() { ", ..." } else { "" };
        format!("the hosts are {}{more}", hostlist::compress(few))
    } else {
        format!("near names: {}", near.join(", "))
    };
    part.error(format!("host '{name}' is not in cluster '{}'", cluster.name)).help(help)
}

fn no_such_gpu(part: &Part<'_>, name: &str, index: usize, gpus: usize) -> Diagnostic {
    part.error(format!("host '{name}' has no GPU {index}"))
        .help(format!("its GPUs are {}", GpuMask::first(gpus)))
}

fn twice(part: &Part<'_>, name: &str, index: usize) -> Diagnostic {
    part.error(format!("GPU {index} of host '{name}' stands twice")).help("name each GPU once")
}

/// Character columns of ascending byte offsets, in one pass over the text.
struct Columns<'a> {
    text: &'a str,
    byte: usize,
    column: u32,
}

impl Columns<'_> {
    fn of(&mut self, byte: usize) -> u32 {
        let between = self.text.get(self.byte..byte).map_or(0, |t| t.chars().count());
        self.column += between as u32;
        self.byte = byte;
        self.column
    }
}

#[cfg(test)]
#[path = "tests/placement.rs"]
mod tests;
