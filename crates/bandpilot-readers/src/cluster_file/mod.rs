//! The cluster file: what a cluster is made of, in TOML.
//!
//! ```toml
//! name = "demo"
//!
//! [[host_type]]
//! name = "dgx-h100"
//! gpu_model = "H100"
//! gpus = 8                         # 1..=64
//! links = "nvswitch"               # or a matrix, see below
//! rails = { gbit_per_s = 400 }     # one NIC a GPU: nic0, nic1, ...
//! cores = 112                      # optional
//! memory = "2TiB"                  # optional
//!
//! [[host_type]]
//! name = "bridged"
//! gpu_model = "A6000"
//! gpus = 2
//! links = """
//! X   NV4
//! NV4 X
//! """
//! nics = [{ name = "mlx5_0", gbit_per_s = 100, gpus = "0-1" }]
//!
//! [[hosts]]
//! names = "h[01-16]"               # a hostlist
//! type = "dgx-h100"
//! leaf = "leaf1"                   # optional
//!
//! [[hosts]]
//! names = "a1"
//! type = "bridged"
//! unhealthy_gpus = "1"             # optional, never used
//! unhealthy_nics = ["mlx5_0"]      # optional, carry nothing
//! pci_bus_ids = ["0000:1b:00.0", "0000:43:00.0"]   # optional, one host only
//! uuids = ["GPU-aaaa", "GPU-bbbb"]                 # optional, one host only
//! ```
//!
//! `links` is the word `nvswitch`, a multi-line string, or an array of strings, one row a GPU, in the
//! words of `nvidia-smi topo -m`. Unknown keys are warned about. Anything wrong is an error that names
//! line, column, key and mend; the entry it is in is left out of the value.

mod host_types;
mod hosts;
mod write;

use bandpilot_core::{Cluster, LinkClass, Links};
use toml::de::DeValue;

use crate::Parsed;
use crate::toml_walk::{self, Table, Walk};

pub use write::write;

const KEYS: [&str; 3] = ["name", "host_type", "hosts"];

/// Reads a cluster file.
///
/// ```
/// let text = r#"
/// name = "demo"
/// host_type = [{ name = "dgx", gpu_model = "H100", gpus = 8, links = "nvswitch", rails = { gbit_per_s = 400 } }]
/// hosts = [{ names = "h[1-4]", type = "dgx" }]
/// "#;
/// let read = bandpilot_readers::cluster_file::read(text);
/// assert!(read.diagnostics.is_empty());
/// assert_eq!(read.value.gpu_count(), 32);
/// ```
pub fn read(text: &str) -> Parsed<Cluster> {
    let (mut walk, document) = toml_walk::parse(text);
    let root = Table::root(&document);
    walk.unknown_keys(&root, &KEYS, "");
    let name = walk.string(&root, "name").map_or("unnamed".to_owned(), |name| name.value);
    if !root.has("name") {
        let help = "add name = \"...\" as the first line";
        walk.warning(0, "name", "the cluster has no name".to_owned(), help);
    }
    let (host_types, type_ids) = host_types::read(&mut walk, &root);
    let hosts = hosts::read(&mut walk, &root, &host_types, &type_ids);
    let cluster = Cluster { name, host_types, hosts };
    remark_on_whole(&mut walk, &root, &cluster);
    Parsed { value: cluster, diagnostics: walk.finish() }
}

/// What is allowed but probably not meant.
fn remark_on_whole<'t>(walk: &mut Walk<'t>, root: &Table<'_, 't>, cluster: &Cluster) {
    if !root.has("host_type") {
        walk.missing(root, "host_type");
    }
    if !root.has("hosts") {
        walk.missing(root, "hosts");
    }
    if walk.has_errors() {
        // What is left out because of an error would only raise echoes of it here.
        return;
    }
    for (at, host_type) in cluster.host_types.iter().enumerate() {
        let place = place_of(root, &host_type.name);
        let hosts = cluster.hosts.iter().filter(|h| h.host_type.0 as usize == at).count();
        let name = &host_type.name;
        if hosts == 0 {
            walk.warning(place, "host_type", format!("no host is of type '{name}'"), "");
        } else if cluster.hosts.len() > 1 && host_type.nics.is_empty() {
            let help = "add rails = { gbit_per_s = ... } or nics = [...]";
            walk.warning(place, "host_type", format!("type '{name}' has no NIC"), help);
        }
        if let Links::Matrix(cells) = &host_type.links
            && looks_switched(cells, host_type.gpus)
        {
            let help = "if NVSwitch joins them, write links = \"nvswitch\"";
            walk.note(place, "host_type", format!("all links of type '{name}' are alike"), help);
        }
    }
}

/// Where the entry of a host type begins.
fn place_of(root: &Table<'_, '_>, name: &str) -> usize {
    let entries = root.get("host_type").and_then(|value| value.get_ref().as_array());
    let named =
        |value: &DeValue<'_>| value.get("name").and_then(|n| n.get_ref().as_str()) == Some(name);
    let found = entries.and_then(|list| list.iter().find(|entry| named(entry.get_ref())));
    found.map_or(0, |entry| entry.span().start)
}

fn looks_switched(cells: &[LinkClass], gpus: usize) -> bool {
    let mut pairs = (0..cells.len()).filter(|at| at / gpus != at % gpus).map(|at| cells.get(at));
    match pairs.next().flatten() {
        Some(first @ LinkClass::Nv(_)) => gpus > 2 && pairs.all(|cell| cell == Some(first)),
        _ => false,
    }
}

#[cfg(test)]
#[path = "../tests/cluster_file.rs"]
mod tests;
