//! From what was gathered to one description a host: model, links, NICs with rates, ids.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{GpuIdentity, GpuMask, HostType, LinkClass, Links, Nic};

use super::ClusterOptions;
use super::gather::{Gathered, HostDump, Remarks};
use crate::slurm::NodeFacts;
use crate::topo::{Command, Dump, Facts};
use crate::{Diagnostic, hostlist};

/// A host with all that is known of it.
pub(super) struct Resolved {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    /// Its type, without a name.
    pub(super) kind: HostType,
    pub(super) gpu_ids: Vec<GpuIdentity>,
}

/// Remarks of one host.
struct Say<'a> {
    file: &'a str,
    line: u32,
    remarks: &'a mut Remarks,
}

impl Say<'_> {
    fn push(&mut self, diagnostic: Diagnostic, help: &str) {
        self.remarks.push((self.file.to_owned(), diagnostic.at(self.line, 0).help(help)));
    }
}

pub(super) fn resolve(
    gathered: &Gathered,
    options: &ClusterOptions,
    remarks: &mut Remarks,
) -> Vec<Resolved> {
    let mut hosts: Vec<Resolved> = Vec::new();
    for dump in &gathered.dumps {
        hosts.extend(from_dump(dump, gathered, options, remarks));
    }
    let mut unknown = Vec::new();
    let dumped: BTreeSet<&str> = gathered.dumps.iter().map(|dump| dump.name.as_str()).collect();
    for (name, (file, facts)) in &gathered.nodes {
        if dumped.contains(name.as_str()) || facts.gpus.is_none() {
            continue;
        }
        match from_node(name, file, facts, options, remarks) {
            Some(host) => hosts.extend(host),
            None => unknown.push((name.as_str(), file, facts.line)),
        }
    }
    report_unknown(&mut unknown, remarks);
    shared_ids(&hosts, remarks);
    hosts
}

/// Hosts of which only the number of GPUs is known.
fn report_unknown(unknown: &mut [(&str, &String, u32)], remarks: &mut Remarks) {
    unknown.sort_by_cached_key(|(name, _, _)| super::types::natural(name));
    let Some((_, file, line)) = unknown.first().copied() else { return };
    let names = hostlist::compress(unknown.iter().map(|(name, _, _)| *name));
    let message = format!("no dump describes {names}: links are not known");
    let help = "add their nvidia-smi topo -m output, or give --hosts if one dump stands for all";
    let reason = Diagnostic::error("host", message).at(line, 0).help(help);
    remarks.push((file.clone(), reason));
}

fn from_dump(
    host: &HostDump,
    gathered: &Gathered,
    options: &ClusterOptions,
    remarks: &mut Remarks,
) -> Option<Resolved> {
    let HostDump { name, file, dump, facts, own } = host;
    let mut say = Say { file, line: dump.line, remarks };
    let elsewhere = gathered.facts.get(name).map(|(_, facts)| facts);
    let node = gathered.nodes.get(name).map(|(file, facts)| (file.as_str(), facts));
    let named = model_of(dump, facts, elsewhere, &mut say)?;
    let model = choose_model(named.as_deref(), node.map(|(_, node)| node), options, &mut say)?;
    check_nvlink(dump, named.as_deref().unwrap_or(&model), &mut say)?;
    let nics = nics(dump, facts, elsewhere, options, &mut say)?;
    if let Some((file, node)) = node
        && node.gpus.is_some_and(|gpus| gpus != dump.gpus)
    {
        let message = format!(
            "{name} has {} GPUs in its dump, but {} in {file}:{}: the dump counts",
            dump.gpus,
            node.gpus.unwrap_or(0),
            node.line
        );
        say.push(Diagnostic::warning("GPU", message), "check the host and the file");
    }
    let kind = HostType {
        name: String::new(),
        gpu_model: model,
        gpus: dump.gpus,
        links: dump.links.clone(),
        nics,
        cores: node.and_then(|(_, node)| node.cores),
        memory_bytes: node.and_then(|(_, node)| node.memory_bytes),
    };
    let gpu_ids = ids(dump.gpus, facts, elsewhere, *own, &mut say);
    Some(Resolved { name: name.clone(), file: file.clone(), line: dump.line, kind, gpu_ids })
}

/// A host that only Slurm's files describe: `None` if its links are not known, an empty list if it is refused.
fn from_node(
    name: &str,
    file: &str,
    facts: &NodeFacts,
    options: &ClusterOptions,
    remarks: &mut Remarks,
) -> Option<Vec<Resolved>> {
    let gpus = facts.gpus?;
    let links = match &facts.links {
        Some(links) => links.clone(),
        None if gpus == 1 => Links::Matrix(vec![LinkClass::Sys]),
        None => return None,
    };
    let mut say = Say { file, line: facts.line, remarks };
    let Some(gpu_model) = choose_model(None, Some(facts), options, &mut say) else {
        return Some(Vec::new());
    };
    let Some(nics) = rails(gpus, options, &mut say) else { return Some(Vec::new()) };
    let kind = HostType {
        name: String::new(),
        gpu_model,
        gpus,
        links,
        nics,
        cores: facts.cores,
        memory_bytes: facts.memory_bytes,
    };
    let host = Resolved {
        name: name.to_owned(),
        file: file.to_owned(),
        line: facts.line,
        kind,
        gpu_ids: Vec::new(),
    };
    Some(vec![host])
}

/// The model that the texts give; `None` if they contradict themselves.
#[expect(clippy::option_option, reason = "refused, unknown and known are three things")]
fn model_of(
    dump: &Dump,
    facts: &Facts,
    elsewhere: Option<&Facts>,
    say: &mut Say<'_>,
) -> Option<Option<String>> {
    let models = match elsewhere {
        Some(other) if facts.models.is_empty() => &other.models,
        _ => &facts.models,
    };
    let Some((_, first)) = models.first_key_value() else { return Some(None) };
    if let Some((gpu, other)) = models.iter().find(|(_, model)| *model != first) {
        let message = format!("GPU {gpu} is '{other}', others are '{first}'");
        let help = "a host type has one GPU model: write this host by hand";
        say.push(Diagnostic::error("GPU", message), help);
        return None;
    }
    if let Some((gpu, _)) = models.iter().find(|(gpu, _)| **gpu >= dump.gpus) {
        let message = format!("GPU {gpu} is listed, but the matrix has {} GPUs", dump.gpus);
        let help = "run both commands again on the same host";
        say.push(Diagnostic::error("GPU", message), help);
        return None;
    }
    if models.len() < dump.gpus {
        let named = models.keys().fold(GpuMask::EMPTY, |m, gpu| m.union(GpuMask::single(*gpu)));
        let message = format!(
            "only GPUs {named} of {} are named: the others are taken to be '{first}' as well",
            dump.gpus
        );
        say.push(Diagnostic::warning("GPU", message), "run nvidia-smi -L with all GPUs visible");
    }
    Some(Some(first.clone()))
}

/// The user's word, else the host's, else Slurm's; `None` if nobody says it.
fn choose_model(
    named: Option<&str>,
    node: Option<&NodeFacts>,
    options: &ClusterOptions,
    say: &mut Say<'_>,
) -> Option<String> {
    if let Some(told) = &options.gpu_model {
        let same = |named: &str| named.to_ascii_lowercase().contains(&told.to_ascii_lowercase());
        if let Some(named) = named.filter(|named| !same(named)) {
            let message = format!("the GPUs are '{named}', but '{told}' was given");
            say.push(Diagnostic::warning("--gpu-model", message), "leave --gpu-model out");
        }
        return Some(told.clone());
    }
    if let Some(named) = named {
        return Some(named.to_owned());
    }
    if let Some(kind) = node.and_then(|node| node.gpu_type.as_ref()) {
        let message = format!("the GPU model is '{kind}', as Slurm calls it");
        say.push(Diagnostic::note("GPU", message), "--gpu-model gives another name");
        return Some(kind.clone());
    }
    let help = "give it with --gpu-model, or add the output of nvidia-smi -L to the file";
    say.push(Diagnostic::error("gpu_model", "nothing tells the GPU model"), help);
    None
}

/// A dump of PCIe paths where NVLink must be is not the host's links; `None` refuses it.
fn check_nvlink(dump: &Dump, model: &str, say: &mut Say<'_>) -> Option<()> {
    let nvlink = match &dump.links {
        Links::NvSwitch => true,
        Links::Matrix(cells) => cells.iter().any(|cell| matches!(cell, LinkClass::Nv(_))),
    };
    if nvlink || dump.gpus < 2 || !always_has_nvlink(model) {
        return Some(());
    }
    let message = format!("no NVLink in the matrix, but '{model}' has NVLink");
    if dump.command == Some(Command::Matrix) {
        let help = "check it with nvidia-smi nvlink -s";
        say.push(Diagnostic::warning("links", format!("{message}: all are down")), help);
        return Some(());
    }
    let help = "run nvidia-smi topo -m (not -mp); if the links are really down, keep the line '$ nvidia-smi topo -m' above the matrix";
    say.push(Diagnostic::error("links", message), help);
    None
}

/// Models that are only sold with NVLink.
fn always_has_nvlink(model: &str) -> bool {
    let model = model.to_ascii_uppercase();
    let word = |wanted: &str| model.split([' ', '-', '_']).any(|word| word == wanted);
    if model.contains("PCIE") || word("NVL") {
        return false;
    }
    let always = ["H200", "H20", "H800", "B200", "B300", "GB200", "GB300"];
    model.contains("SXM") || word("HBM3") || word("HBM3E") || always.iter().any(|name| word(name))
}

/// The NICs with their rates; `None` if a rate is missing.
fn nics(
    dump: &Dump,
    facts: &Facts,
    elsewhere: Option<&Facts>,
    options: &ClusterOptions,
    say: &mut Say<'_>,
) -> Option<Vec<Nic>> {
    if options.rails {
        return rails(dump.gpus, options, say);
    }
    let rates: [Option<&BTreeMap<String, f64>>; 2] =
        [Some(&facts.rates), elsewhere.map(|facts| &facts.rates)];
    let mut nics = Vec::new();
    for nic in &dump.nics {
        let said = rates.iter().flatten().find_map(|rates| rates.get(&nic.name)).copied();
        let Some(gbit_per_s) = options.nic_gbit_per_s.or(said) else {
            let message = format!("nothing tells the line rate of NIC {}", nic.name);
            let help = "give that of all NICs with --nic-gbit-per-s, or add the output of ibstat";
            say.push(Diagnostic::error("gbit_per_s", message), help);
            return None;
        };
        if let Some(said) = said.filter(|said| *said != gbit_per_s) {
            let message = format!("{gbit_per_s} was given, but {} runs at {said} Gbit/s", nic.name);
            say.push(Diagnostic::warning("--nic-gbit-per-s", message), "check the NIC");
        }
        nics.push(Nic { name: nic.name.clone(), gbit_per_s, gpus: nic.gpus });
    }
    Some(nics)
}

/// One NIC for each GPU if the user says so; `None` without a rate.
fn rails(gpus: usize, options: &ClusterOptions, say: &mut Say<'_>) -> Option<Vec<Nic>> {
    if !options.rails {
        return Some(Vec::new());
    }
    let Some(gbit_per_s) = options.nic_gbit_per_s else {
        let message = "the line rate of the NICs is not given";
        say.push(Diagnostic::error("--rails", message), "add --nic-gbit-per-s");
        return None;
    };
    let nic = |gpu| Nic { name: format!("nic{gpu}"), gbit_per_s, gpus: GpuMask::single(gpu) };
    Some((0..gpus).map(nic).collect())
}

/// The lasting names of the GPUs, if the dump is of this host alone.
fn ids(
    gpus: usize,
    facts: &Facts,
    elsewhere: Option<&Facts>,
    own: bool,
    say: &mut Say<'_>,
) -> Vec<GpuIdentity> {
    let mut ids = vec![GpuIdentity::default(); gpus];
    for facts in [Some(facts), elsewhere].into_iter().flatten() {
        for (gpu, id) in facts.ids.iter().filter(|(gpu, _)| **gpu < gpus) {
            let known = &mut ids[*gpu];
            known.uuid = known.uuid.take().or_else(|| id.uuid.clone());
            known.pci_bus_id = known.pci_bus_id.take().or_else(|| id.pci_bus_id.clone());
        }
    }
    if ids.iter().all(|id| *id == GpuIdentity::default()) {
        return Vec::new();
    }
    let all = || ids.iter().flat_map(|id| [id.uuid.as_ref(), id.pci_bus_id.as_ref()]).flatten();
    if all().collect::<BTreeSet<_>>().len() != all().count() {
        let message = "two GPUs of the host have the same id: no ids are taken over";
        say.push(Diagnostic::warning("GPU", message), "run nvidia-smi -L again");
        return Vec::new();
    }
    if !own {
        let message = "UUIDs and PCI bus ids are not taken over: they are those of one host";
        say.push(Diagnostic::note("GPU", message), "");
        return Vec::new();
    }
    ids
}

/// Two hosts with the same UUID: one file is a copy of the other.
fn shared_ids(hosts: &[Resolved], remarks: &mut Remarks) {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for host in hosts {
        let uuids = host.gpu_ids.iter().filter_map(|id| id.uuid.as_deref());
        for uuid in uuids {
            let Some(other) = known.insert(uuid, &host.name) else { continue };
            let message =
                format!("{} has the GPU {uuid} of {other}: is the file a copy?", host.name);
            let reason = Diagnostic::warning("GPU", message).at(host.line, 0);
            remarks.push((host.file.clone(), reason));
            break;
        }
    }
}
