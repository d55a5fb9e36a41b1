//! Writing a cluster file.

use std::fmt::Write as _;

use bandpilot_core::{Cluster, GpuIdentity, Host, HostType, Links, Nic, format_bytes};

use super::host_types::rail;
use crate::hostlist;
use crate::toml_walk::quoted;

/// The cluster as a cluster file. [`read`](super::read) gives back an equal cluster if its names are
/// valid and its link matrices have SYS on the diagonal, as everything read or built here has.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// use bandpilot_readers::cluster_file;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).nvswitch().rails(400.0).hosts("h", 1, 4).build();
/// let text = cluster_file::write(&cluster);
/// assert!(text.contains("names = \"h[1-4]\""));
/// assert_eq!(cluster_file::read(&text).value, cluster);
/// ```
pub fn write(cluster: &Cluster) -> String {
    let mut out = format!("name = {}\n", quoted(&cluster.name));
    for host_type in &cluster.host_types {
        write_type(&mut out, host_type);
    }
    let mut rest = cluster.hosts.as_slice();
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|host| same_entry(first, host)).count().max(1);
        let (group, after) = rest.split_at(alike);
        if let Some(host_type) = cluster.host_types.get(first.host_type.0 as usize) {
            write_hosts(&mut out, group, host_type);
        }
        rest = after;
    }
    out
}

/// Appends one line; writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{ let _ = writeln!($out, $($arg)*); }};
}

fn write_type(out: &mut String, host_type: &HostType) {
    line!(out, "\n[[host_type]]");
    line!(out, "name = {}", quoted(&host_type.name));
    line!(out, "gpu_model = {}", quoted(&host_type.gpu_model));
    line!(out, "gpus = {}", host_type.gpus);
    match &host_type.links {
        Links::NvSwitch => line!(out, "links = \"nvswitch\""),
        Links::Matrix(_) => write_matrix(out, host_type),
    }
    write_nics(out, &host_type.nics, host_type.gpus);
    if let Some(cores) = host_type.cores {
        line!(out, "cores = {cores}");
    }
    if let Some(bytes) = host_type.memory_bytes {
        line!(out, "memory = {}", quoted(&format_bytes(bytes)));
    }
}

fn write_matrix(out: &mut String, host_type: &HostType) {
    line!(out, "links = \"\"\"");
    for a in 0..host_type.gpus {
        let words: Vec<String> = (0..host_type.gpus)
            .map(|b| match host_type.link(a, b) {
                Some(class) if a != b => format!("{:<4}", class.to_string()),
                _ => "X   ".to_owned(),
            })
            .collect();
        line!(out, "{}", words.join(" ").trim_end());
    }
    line!(out, "\"\"\"");
}

fn write_nics(out: &mut String, nics: &[Nic], gpus: usize) {
    let Some(first) = nics.first() else { return };
    let rails = (0..gpus).map(|gpu| rail(gpu, first.gbit_per_s));
    if rails.eq(nics.iter().cloned()) {
        line!(out, "rails = {{ gbit_per_s = {:?} }}", first.gbit_per_s);
        return;
    }
    line!(out, "nics = [");
    for nic in nics {
        let (name, gpus) = (quoted(&nic.name), quoted(&nic.gpus.to_string()));
        line!(out, "  {{ name = {name}, gbit_per_s = {:?}, gpus = {gpus} }},", nic.gbit_per_s);
    }
    line!(out, "]");
}

fn same_entry(a: &Host, b: &Host) -> bool {
    a.host_type == b.host_type
        && a.leaf == b.leaf
        && a.unhealthy_gpus == b.unhealthy_gpus
        && a.unhealthy_nics == b.unhealthy_nics
        && a.gpu_ids.is_empty()
        && b.gpu_ids.is_empty()
}

fn write_hosts(out: &mut String, hosts: &[Host], host_type: &HostType) {
    let Some(first) = hosts.first() else { return };
    let names = hostlist::compress(hosts.iter().map(|host| host.name.as_str()));
    line!(out, "\n[[hosts]]");
    line!(out, "names = {}", quoted(&names));
    line!(out, "type = {}", quoted(&host_type.name));
    if let Some(leaf) = &first.leaf {
        line!(out, "leaf = {}", quoted(leaf));
    }
    if !first.unhealthy_gpus.is_empty() {
        line!(out, "unhealthy_gpus = {}", quoted(&first.unhealthy_gpus.to_string()));
    }
    if !first.unhealthy_nics.is_empty() {
        let names = first.unhealthy_nics.iter().filter_map(|at| host_type.nics.get(*at));
        line!(out, "unhealthy_nics = [{}]", list(names.map(|nic| nic.name.as_str())));
    }
    if !first.gpu_ids.is_empty() {
        write_ids(out, &first.gpu_ids);
    }
}

fn write_ids(out: &mut String, ids: &[GpuIdentity]) {
    let has_uuid = ids.iter().any(|id| id.uuid.is_some());
    if !has_uuid || ids.iter().any(|id| id.pci_bus_id.is_some()) {
        let values = ids.iter().map(|id| id.pci_bus_id.as_deref().unwrap_or(""));
        line!(out, "pci_bus_ids = [{}]", list(values));
    }
    if has_uuid {
        let values = ids.iter().map(|id| id.uuid.as_deref().unwrap_or(""));
        line!(out, "uuids = [{}]", list(values));
    }
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(quoted).collect::<Vec<_>>().join(", ")
}
