//! `bandpilot cluster show` and `check`.

use std::io::{self, Write};

use bandpilot_core::{Cluster, GpuMask, Host, HostType, Links, format_bytes};
use bandpilot_eval::{ClusterName, clusters};
use bandpilot_readers::{Diagnostic, Severity, cluster_file, hostlist};
use serde_json::{Value, json};

use crate::cli::{ClusterExample, ClusterFile};
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, Output, remark_json, table, write_table};

/// Shows a cluster.
///
/// # Errors
/// If the file cannot be read or has errors.
pub fn show(args: &ClusterFile) -> Result<Done, Failure> {
    let file = args.file.display().to_string();
    let read = cluster_file::read(&read_text(&args.file)?);
    let (cluster, remarks) =
        read.into_result().map_err(|reasons| Failure::all(Code::BadInput, &file, reasons))?;
    let output = Shown { cluster, file: file.clone(), remarks: remarks.clone() };
    let remarks = remarks.into_iter().map(|remark| (file.clone(), remark)).collect();
    Ok(Done { remarks, ..Done::ok(output) })
}

/// Lists everything that is wrong with a cluster file.
///
/// # Errors
/// If the file cannot be read; what is wrong inside is the output.
pub fn check(args: &ClusterFile) -> Result<Done, Failure> {
    let file = args.file.display().to_string();
    let read = cluster_file::read(&read_text(&args.file)?);
    let code = if read.has_errors() { Code::BadInput } else { Code::Ok };
    let cluster = (!read.has_errors()).then_some(read.value);
    let output = Checked { file, cluster, remarks: read.diagnostics };
    Ok(Done { code, ..Done::ok(output) })
}

/// Gives the cluster file of a built-in cluster.
pub fn example(args: &ClusterExample) -> Done {
    let cluster = match ClusterName::parse(&args.name) {
        Some(ClusterName::Het) => clusters::het_4mix(),
        Some(ClusterName::H100) | None => clusters::h100_32(),
    };
    let shown = Shown { file: args.name.clone(), cluster, remarks: Vec::new() };
    Done::ok(Example(shown))
}

/// For people a cluster file, for programs what `cluster show` gives.
struct Example(Shown);

impl Output for Example {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        write!(w, "{}", cluster_file::write(&self.0.cluster))
    }

    fn json(&self) -> Value {
        self.0.json()
    }
}

struct Checked {
    file: String,
    cluster: Option<Cluster>,
    remarks: Vec<Diagnostic>,
}

impl Checked {
    fn count(&self, severity: Severity) -> usize {
        self.remarks.iter().filter(|remark| remark.severity == severity).count()
    }
}

impl Output for Checked {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        for remark in &self.remarks {
            writeln!(w, "{}", remark.display(&self.file))?;
        }
        if let Some(cluster) = &self.cluster {
            writeln!(w, "{}: {}", self.file, headline(cluster))?;
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        writeln!(w, "{}: {errors} errors, {warnings} warnings", self.file)
    }

    fn json(&self) -> Value {
        let remarks: Vec<Value> =
            self.remarks.iter().map(|remark| remark_json(&self.file, remark)).collect();
        json!({
            "file": self.file,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "diagnostics": remarks,
        })
    }
}

struct Shown {
    cluster: Cluster,
    file: String,
    remarks: Vec<Diagnostic>,
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(w, "{}", headline(&self.cluster))?;
        write_types(w, &self.cluster)?;
        write_hosts(w, &self.cluster)?;
        for host_type in &self.cluster.host_types {
            write_nics(w, host_type)?;
            write_links(w, host_type)?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let cluster = &self.cluster;
        let types: Vec<Value> = cluster.host_types.iter().map(type_json).collect();
        let hosts: Vec<Value> = cluster.hosts.iter().map(|host| host_json(host, cluster)).collect();
        let remarks: Vec<Value> =
            self.remarks.iter().map(|remark| remark_json(&self.file, remark)).collect();
        json!({
            "name": cluster.name,
            "gpus": cluster.gpu_count(),
            "healthy_gpus": healthy(cluster),
            "host_types": types,
            "hosts": hosts,
            "diagnostics": remarks,
        })
    }
}

fn healthy(cluster: &Cluster) -> usize {
    cluster.host_ids().map(|host| cluster.healthy_gpus(host).count()).sum()
}

fn headline(cluster: &Cluster) -> String {
    let (hosts, gpus) = (cluster.hosts.len(), cluster.gpu_count());
    format!("cluster '{}': {hosts} hosts, {gpus} GPUs, {} healthy", cluster.name, healthy(cluster))
}

fn write_types(w: &mut dyn Write, cluster: &Cluster) -> io::Result<()> {
    let mut types = table(&["TYPE", "GPU", "GPUS", "LINKS", "NICS", "CORES", "MEMORY"]);
    for host_type in &cluster.host_types {
        let links = if host_type.links == Links::NvSwitch { "nvswitch" } else { "matrix" };
        types.add_row([
            host_type.name.clone(),
            host_type.gpu_model.clone(),
            host_type.gpus.to_string(),
            links.to_owned(),
            nic_summary(host_type),
            host_type.cores.map_or("-".to_owned(), |cores| cores.to_string()),
            host_type.memory_bytes.map_or("-".to_owned(), format_bytes),
        ]);
    }
    writeln!(w)?;
    write_table(w, &types)
}

/// `8 x 400 Gbit/s` if all NICs are equally fast.
fn nic_summary(host_type: &HostType) -> String {
    match host_type.nics.as_slice() {
        [] => "none".to_owned(),
        nics @ [first, ..] if nics.iter().all(|nic| nic.gbit_per_s == first.gbit_per_s) => {
            format!("{} x {} Gbit/s", nics.len(), first.gbit_per_s)
        }
        nics => format!("{}, see below", nics.len()),
    }
}

fn write_hosts(w: &mut dyn Write, cluster: &Cluster) -> io::Result<()> {
    let mut hosts = table(&["HOSTS", "TYPE", "LEAF", "UNHEALTHY GPUS", "UNHEALTHY NICS"]);
    let mut rest = cluster.hosts.as_slice();
    while let Some(first) = rest.first() {
        let alike = |host: &Host| Host { name: String::new(), gpu_ids: Vec::new(), ..host.clone() };
        let count = rest.iter().take_while(|host| alike(host) == alike(first)).count().max(1);
        let (group, after) = rest.split_at(count);
        let host_type = cluster.host_types.get(first.host_type.0 as usize);
        let mask = first.unhealthy_gpus;
        hosts.add_row([
            hostlist::compress(group.iter().map(|host| host.name.as_str())),
            host_type.map_or("-", |host_type| &host_type.name).to_owned(),
            first.leaf.clone().unwrap_or("-".to_owned()),
            if mask == GpuMask::EMPTY { "-".to_owned() } else { mask.to_string() },
            match sick_nics(first, cluster).join(",") {
                names if names.is_empty() => "-".to_owned(),
                names => names,
            },
        ]);
        rest = after;
    }
    writeln!(w)?;
    write_table(w, &hosts)
}

fn sick_nics(host: &Host, cluster: &Cluster) -> Vec<String> {
    let nics = cluster.host_types.get(host.host_type.0 as usize).map(|host_type| &host_type.nics);
    let name = |at: &usize| nics.and_then(|nics| nics.get(*at)).map(|nic| nic.name.clone());
    host.unhealthy_nics.iter().filter_map(name).collect()
}

fn write_nics(w: &mut dyn Write, host_type: &HostType) -> io::Result<()> {
    if host_type.nics.is_empty() {
        return Ok(());
    }
    let mut nics = table(&["NIC", "GBIT/S", "GPUS"]);
    for nic in &host_type.nics {
        nics.add_row([nic.name.clone(), nic.gbit_per_s.to_string(), nic.gpus.to_string()]);
    }
    writeln!(w, "\nNICs of type '{}'", host_type.name)?;
    write_table(w, &nics)
}

fn write_links(w: &mut dyn Write, host_type: &HostType) -> io::Result<()> {
    let Some(rows) = link_rows(host_type) else { return Ok(()) };
    let names: Vec<String> = (0..host_type.gpus).map(|gpu| format!("GPU{gpu}")).collect();
    let header: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let mut links = table(&header);
    for (name, row) in names.iter().zip(rows) {
        links.add_row(std::iter::once(name.clone()).chain(row));
    }
    writeln!(w, "\nLinks of type '{}'", host_type.name)?;
    write_table(w, &links)
}

/// The words of a link matrix; `None` for NVSwitch.
fn link_rows(host_type: &HostType) -> Option<Vec<Vec<String>>> {
    if host_type.links == Links::NvSwitch {
        return None;
    }
    let word = |a, b| match host_type.link(a, b) {
        Some(class) if a != b => class.to_string(),
        _ => "X".to_owned(),
    };
    let gpus = host_type.gpus;
    Some((0..gpus).map(|a| (0..gpus).map(|b| word(a, b)).collect()).collect())
}

fn type_json(host_type: &HostType) -> Value {
    let nics: Vec<Value> = host_type
        .nics
        .iter()
        .map(|nic| {
            json!({"name": nic.name, "gbit_per_s": nic.gbit_per_s, "gpus": nic.gpus.to_string()})
        })
        .collect();
    json!({
        "name": host_type.name,
        "gpu_model": host_type.gpu_model,
        "gpus": host_type.gpus,
        "links": link_rows(host_type).map_or(Value::from("nvswitch"), Value::from),
        "nics": nics,
        "cores": host_type.cores,
        "memory_bytes": host_type.memory_bytes,
    })
}

fn host_json(host: &Host, cluster: &Cluster) -> Value {
    let host_type = cluster.host_types.get(host.host_type.0 as usize);
    json!({
        "name": host.name,
        "type": host_type.map(|host_type| host_type.name.as_str()),
        "leaf": host.leaf,
        "unhealthy_gpus": host.unhealthy_gpus.to_string(),
        "unhealthy_nics": sick_nics(host, cluster),
        "pci_bus_ids": host.gpu_ids.iter().map(|id| id.pci_bus_id.clone()).collect::<Vec<_>>(),
        "uuids": host.gpu_ids.iter().map(|id| id.uuid.clone()).collect::<Vec<_>>(),
    })
}
