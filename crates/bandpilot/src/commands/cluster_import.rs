//! `bandpilot cluster import`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bandpilot_core::{Cluster, Links};
use bandpilot_readers::cluster_import::{
    ClusterOptions, HostName, Imported, Source, SourceSummary, import,
};
use bandpilot_readers::{Diagnostic, Severity, cluster_file, hostlist};
use serde_json::{Value, json};

use crate::cli::ClusterImport;
use crate::exit::{Code, Failure};
use crate::io::{files_of, read_text, replace, write_new};
use crate::output::{Done, Output, counted, remark_json};

/// Endings that are no part of a host's name.
const ENDINGS: [&str; 6] = [".gz", ".txt", ".log", ".out", ".topo", ".dump"];

/// Makes a cluster file of what hosts and cluster manager say.
///
/// # Errors
/// If a source cannot be read or is refused, or the file is there already.
pub fn cluster_import(args: &ClusterImport) -> Result<Done, Failure> {
    let options = options(args)?;
    if let Some(out) = &args.out
        && !args.force
        && out.exists()
    {
        return Err(exists(out));
    }
    let sources = sources(&args.files)?;
    let imported = import(&sources, &options);
    let refused = imported.has_errors();
    let Imported { cluster, sources, remarks } = imported;
    let mut remarks: Vec<(String, Diagnostic)> = remarks
        .into_iter()
        .map(|(file, remark)| (if file.is_empty() { "bandpilot".to_owned() } else { file }, remark))
        .collect();
    let Some(cluster) = cluster.filter(|_| !refused || args.keep_going) else {
        remarks.sort_by_key(|(_, remark)| std::cmp::Reverse(remark.severity));
        let message = "nothing was written; --keep-going leaves out what is refused";
        remarks.push(("bandpilot".to_owned(), Diagnostic::note("", message)));
        return Err(Failure { code: Code::BadInput, reasons: remarks });
    };
    let toml = checked(&cluster, args, &mut remarks)?;
    if let Some(out) = &args.out {
        write(out, &toml, args.force)?;
    }
    let out = args.out.as_ref().map(|out| out.display().to_string());
    let output = Made { cluster, out, toml, sources, remarks: remarks.clone() };
    let code = if refused { Code::Problems } else { Code::Ok };
    Ok(Done { remarks, code, ..Done::ok(output) })
}

fn options(args: &ClusterImport) -> Result<ClusterOptions, Failure> {
    let usage = |field: &str, reason: Diagnostic| {
        let reason = Diagnostic { field: field.to_owned(), ..reason };
        Failure::new(Code::BadInput, "", reason)
    };
    let hosts = match &args.hosts {
        Some(list) => {
            let names = hostlist::expand(list).map_err(|reason| usage("--hosts", reason))?;
            let unique: BTreeSet<&String> = names.iter().collect();
            if unique.len() != names.len() {
                let reason = Diagnostic::error("", "a host stands twice in it");
                return Err(usage("--hosts", reason.help("name each host once")));
            }
            Some(names)
        }
        None => None,
    };
    let rate = args.nic_gbit_per_s;
    if rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        let reason = Diagnostic::error("", "is not a rate above 0");
        return Err(usage("--nic-gbit-per-s", reason.help("give it in Gbit/s, for example 400")));
    }
    let model = args.gpu_model.as_ref().map(|model| model.trim().to_owned());
    if model.as_ref().is_some_and(String::is_empty) {
        let reason = Diagnostic::error("", "is empty").help("give it for example as H100");
        return Err(usage("--gpu-model", reason));
    }
    let nics = args.nics.as_ref().map(|list| {
        list.split(',').map(|nic| nic.trim().to_owned()).filter(|nic| !nic.is_empty()).collect()
    });
    Ok(ClusterOptions {
        name: args.name.clone(),
        hosts,
        gpu_model: model,
        nic_gbit_per_s: rate,
        nics,
        rails: args.rails,
    })
}

/// The texts of all files; a folder stands for the files in it, one for each host.
fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in files_of(path)? {
                let host = host_of(&file).map_or(HostName::Unknown, HostName::Folder);
                sources.push(source(&file, host)?);
            }
        } else {
            let host = host_of(path).filter(|_| path.as_os_str() != "-");
            sources.push(source(path, host.map_or(HostName::Unknown, HostName::File))?);
        }
    }
    Ok(sources)
}

fn source(path: &Path, host: HostName) -> Result<Source, Failure> {
    Ok(Source { file: path.display().to_string(), text: read_text(path)?, host })
}

/// The name of a file without its endings.
fn host_of(path: &Path) -> Option<String> {
    let mut name = path.file_name()?.to_str()?;
    for ending in ENDINGS {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    (!name.is_empty()).then(|| name.to_owned())
}

/// The cluster as a file that reads back to it; remarks of the reader are added.
fn checked(
    cluster: &Cluster,
    args: &ClusterImport,
    remarks: &mut Vec<(String, Diagnostic)>,
) -> Result<String, Failure> {
    let toml = cluster_file::write(cluster);
    let read = cluster_file::read(&toml);
    if read.has_errors() || read.value != *cluster {
        let message = "the cluster file that was made does not read back: please report this";
        let reason = Diagnostic::error("", message).help("with the files that were given");
        return Err(Failure::new(Code::Internal, "", reason));
    }
    let name = args.out.as_ref().map_or("bandpilot".to_owned(), |out| out.display().to_string());
    // Line numbers help only where there is a file.
    let place = |remark: Diagnostic| if args.out.is_some() { remark } else { remark.at(0, 0) };
    let said = read.diagnostics.into_iter().filter(|remark| remark.severity > Severity::Note);
    remarks.extend(said.map(|remark| (name.clone(), place(remark))));
    Ok(toml)
}

fn write(out: &Path, toml: &str, force: bool) -> Result<(), Failure> {
    if force {
        return replace(out, toml);
    }
    // Between the first look and now somebody may have made it.
    if write_new(out, toml)? { Ok(()) } else { Err(exists(out)) }
}

fn exists(out: &Path) -> Failure {
    let reason = Diagnostic::error("--out", "the file is there already");
    let reason = reason.help("--force overwrites it");
    Failure::new(Code::BadInput, &out.display().to_string(), reason)
}

struct Made {
    cluster: Cluster,
    out: Option<String>,
    toml: String,
    sources: Vec<SourceSummary>,
    remarks: Vec<(String, Diagnostic)>,
}

impl Made {
    fn leaves(&self) -> usize {
        let leaves: BTreeSet<&str> =
            self.cluster.hosts.iter().filter_map(|host| host.leaf.as_deref()).collect();
        leaves.len()
    }

    fn types(&self) -> Vec<Value> {
        let names = |at: usize| {
            let of_type = |host: &&bandpilot_core::Host| host.host_type.0 as usize == at;
            let hosts = self.cluster.hosts.iter().filter(of_type);
            hostlist::compress(hosts.map(|host| host.name.as_str()))
        };
        let types = self.cluster.host_types.iter().enumerate();
        types
            .map(|(at, kind)| {
                let links = if kind.links == Links::NvSwitch { "nvswitch" } else { "matrix" };
                json!({
                    "name": kind.name,
                    "gpu_model": kind.gpu_model,
                    "gpus": kind.gpus,
                    "links": links,
                    "nics": kind.nics.len(),
                    "hosts": names(at),
                })
            })
            .collect()
    }
}

impl Output for Made {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let Some(out) = &self.out else {
            return write!(w, "{}", self.toml);
        };
        let cluster = &self.cluster;
        let parts = [
            counted(cluster.hosts.len(), "host"),
            counted(cluster.host_types.len(), "host type"),
            counted(cluster.gpu_count(), "GPU"),
            counted(self.leaves(), "leaf switch").replace("switchs", "switches"),
        ];
        writeln!(w, "{out}: cluster '{}': {}", cluster.name, parts.join(", "))
    }

    fn json(&self) -> Value {
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|source| json!({"file": source.file, "kind": source.kind, "hosts": source.hosts}))
            .collect();
        let remarks: Vec<Value> =
            self.remarks.iter().map(|(file, remark)| remark_json(file, remark)).collect();
        json!({
            "name": self.cluster.name,
            "out": self.out,
            "cluster_file": if self.out.is_some() { Value::Null } else { Value::from(self.toml.as_str()) },
            "hosts": self.cluster.hosts.len(),
            "gpus": self.cluster.gpu_count(),
            "leaves": self.leaves(),
            "host_types": self.types(),
            "files": sources,
            "diagnostics": remarks,
        })
    }
}
