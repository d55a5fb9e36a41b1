//! Each host with its GPUs, of whatever tells of them.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Cluster, GpuMask, HostId};
use bandpilot_readers::{Diagnostic, Severity, hostlist};

use super::devices::{Device, Found};
use super::nodes::{Conf, NodeLine};
use super::{Granularity, Group, Input, Options, islands};
use crate::{Remark, gres};

/// Most names that are listed in a remark.
const MAX_NAMED: usize = 20;

/// A host with GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) devices: Vec<Device>,
    /// The new type of each.
    pub(super) types: Vec<String>,
    /// GPU models: of the cluster file, else the types as they were.
    pub(super) models: Vec<String>,
}

impl Host {
    /// `gpu:g0:1,gpu:g1:1`.
    pub(super) fn gres(&self) -> String {
        let counts: Vec<String> = self
            .by_type()
            .iter()
            .map(|(kind, mask)| format!("gpu:{kind}:{}", mask.count()))
            .collect();
        counts.join(",")
    }

    pub(super) fn by_type(&self) -> Vec<(String, GpuMask)> {
        let mut types: Vec<(String, GpuMask)> = Vec::new();
        for (index, kind) in self.types.iter().enumerate() {
            let gpu = GpuMask::single(index);
            match types.iter_mut().find(|(name, _)| name == kind) {
                Some((_, mask)) => *mask = mask.union(gpu),
                None => types.push((kind.clone(), gpu)),
            }
        }
        types
    }

    /// Models as Slurm's features.
    pub(super) fn features(&self) -> Vec<String> {
        self.models.iter().map(|model| feature(model)).collect()
    }
}

/// `A100-SXM4-80GB` as `a100_sxm4_80gb`: a dash or blank has a meaning in `--constraint`.
fn feature(model: &str) -> String {
    let plain = model.trim().to_ascii_lowercase();
    plain.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// All hosts with GPUs in the order of the files.
pub(super) fn put_together(
    input: &Input,
    conf: Option<&Conf>,
    found: &Found,
    options: &Options,
    remarks: &mut Vec<Remark>,
) -> Vec<Host> {
    let by_name: BTreeMap<&str, HostId> = input.cluster.map_or_else(BTreeMap::new, |cluster| {
        cluster.host_ids().map(|id| (cluster.host(id).name.as_str(), id)).collect()
    });
    let mut gathering = Gathering { input, found, options, by_name, remarks, single: None };
    let mut hosts = Vec::new();
    match conf {
        Some(conf) => {
            for line in &conf.lines {
                hosts.extend(gathering.of_line(line));
            }
            gathering.missing(conf);
        }
        None => {
            for host in input.cluster.iter().flat_map(|cluster| &cluster.hosts) {
                hosts.extend(gathering.host(&host.name, None));
            }
        }
    }
    let single = gathering.single.take();
    if let Some(name) = single {
        let message =
            format!("{name} and hosts like it are one island: no GPU of theirs can be named");
        let note = Diagnostic::warning("--granularity", message);
        remarks.push((String::new(), note.help("--granularity gpu makes every GPU nameable")));
    }
    if hosts.is_empty() {
        let reason = Diagnostic::error("", "no host with GPUs is in the files");
        let help = "give a cluster file, or a slurm.conf whose NodeName lines have Gres=gpu:...";
        remarks.push((String::new(), reason.help(help)));
    }
    hosts
}

struct Gathering<'a, 'i> {
    input: &'i Input<'i>,
    found: &'i Found,
    options: &'i Options,
    by_name: BTreeMap<&'i str, HostId>,
    remarks: &'a mut Vec<Remark>,
    /// A host whose GPUs are all one island.
    single: Option<String>,
}

impl Gathering<'_, '_> {
    fn slurm_file(&self) -> String {
        self.input.slurm.map_or(String::new(), |text| text.file.to_owned())
    }

    fn of_line(&mut self, line: &NodeLine) -> Vec<Host> {
        let file = self.slurm_file();
        let entries = match gres::gpus(&line.gres) {
            Ok(entries) => entries,
            Err(message) => {
                let reason = Diagnostic::error("Gres", message).at(line.line, 0);
                self.remarks.push((file, reason.help("write for example Gres=gpu:h100:8")));
                return Vec::new();
            }
        };
        let mut kinds = Vec::new();
        for entry in entries {
            kinds.extend(std::iter::repeat_n(entry.kind, entry.count));
        }
        let before = self.remarks.len();
        let mut hosts = Vec::new();
        for name in &line.hosts {
            if kinds.is_empty() && !self.knows(name) {
                continue;
            }
            let at_host = self.remarks.len();
            let declared = (kinds.as_slice(), line.line);
            hosts.extend(self.host(name, (!kinds.is_empty()).then_some(declared)));
            // What is wrong with a line is said once, but no error is lost behind a warning.
            let is_error = |(_, remark): &Remark| remark.severity == Severity::Error;
            let (said, new) = self.remarks[before..].split_at(at_host - before);
            if !said.is_empty() && (said.iter().any(is_error) || !new.iter().any(is_error)) {
                self.remarks.truncate(at_host);
            }
        }
        hosts
    }

    /// True if another source than the node line has GPUs for the host.
    fn knows(&self, name: &str) -> bool {
        self.found.by_host.get(name).is_some_and(|gpus| !gpus.is_empty())
            || self.by_name.contains_key(name)
    }

    /// A host of all that is said of it; `declared` is the type of each GPU by `slurm.conf`, and where.
    fn host(&mut self, name: &str, declared: Option<(&[Option<String>], u32)>) -> Option<Host> {
        let cluster: Option<(&Cluster, HostId)> =
            self.input.cluster.and_then(|cluster| Some((cluster, *self.by_name.get(name)?)));
        let kind = cluster.map(|(cluster, id)| cluster.type_of(id));
        let own = self.found.by_host.get(name).filter(|gpus| !gpus.is_empty());
        let everywhere = Some(&self.found.everywhere).filter(|gpus| !gpus.is_empty());
        let gpus = declared.map(|(kinds, _)| kinds.len()).or(kind.map(|kind| kind.gpus));
        let mut devices = match own.or(everywhere) {
            Some(devices) => devices.clone(),
            None => plain(gpus.unwrap_or(0)),
        };
        let count = devices.len();
        let line = declared.map_or(0, |(_, line)| line);
        let mut differ = |what: String, help: &str| {
            let reason = Diagnostic::error("Gres", format!("{name}: {what}")).at(line, 0);
            let file = self.input.slurm.map_or("", |text| text.file).to_owned();
            self.remarks.push((file, reason.help(help)));
        };
        if let Some(declared) = gpus.filter(|gpus| *gpus != count) {
            let what = format!("{declared} GPUs are declared, and gres.conf has {count}");
            differ(what, "make both files say the same");
            return None;
        }
        if let Some(kind) = kind.filter(|kind| kind.gpus != count) {
            let what = format!("it has {count} GPUs, and {} in the cluster file", kind.gpus);
            differ(what, "mend the file that is wrong");
            return None;
        }
        if let Some((kinds, _)) = declared {
            for (device, kind) in devices.iter_mut().zip(kinds) {
                device.kind = device.kind.take().or_else(|| kind.clone());
            }
        }
        self.check_numbers(name, &devices);
        let models = models(kind.map(|kind| kind.gpu_model.as_str()), &devices);
        let types = self.types(name, kind.map(islands::of_type), &devices);
        Some(Host { name: name.to_owned(), devices, types, models })
    }

    /// Says it where Slurm's index is not the number of the device: it counts the GPUs that it knows.
    fn check_numbers(&mut self, name: &str, devices: &[Device]) {
        let shifted = devices.iter().enumerate().find(|(index, device)| *index != device.number);
        if let Some((index, device)) = shifted {
            let message = format!("{name}: {} is GPU {index} for Slurm", device.file);
            let remark = Diagnostic::warning("File", message);
            let help = "right if the driver does not show the missing GPU either; else name all devices, and drain what is broken";
            let file = self.input.gres.map_or("", |text| text.file).to_owned();
            self.remarks.push((file, remark.help(help)));
        }
    }

    fn types(&mut self, name: &str, known: Option<Vec<usize>>, devices: &[Device]) -> Vec<String> {
        let numbers: Vec<usize> = match self.options.granularity {
            Granularity::Gpu => (0..devices.len()).collect(),
            Granularity::Island => {
                let islands = known.or_else(|| islands::of_devices(devices));
                let islands = islands.unwrap_or_else(|| vec![0; devices.len()]);
                if islands.len() > 1 && islands.iter().all(|island| *island == 0) {
                    self.single.get_or_insert_with(|| name.to_owned());
                }
                islands
            }
        };
        // Slurm numbers GPUs type by type, so the indexes would be those of other GPUs (seen with 22.05).
        if !numbers.is_sorted() {
            let message = format!("{name}: the GPUs of an island do not follow each other");
            let reason = Diagnostic::error("--granularity", message);
            let help = "Slurm numbers GPUs type by type and would show jobs other GPUs: use --granularity gpu";
            self.remarks.push((String::new(), reason.help(help)));
        }
        let prefix = &self.options.type_prefix;
        numbers.iter().map(|number| format!("{prefix}{number}")).collect()
    }

    /// Hosts that stand in one of the files only.
    fn missing(&mut self, conf: &Conf) {
        let known: BTreeSet<&str> =
            conf.lines.iter().flat_map(|line| &line.hosts).map(String::as_str).collect();
        let of_cluster = self.input.cluster.iter().flat_map(|cluster| &cluster.hosts);
        let of_cluster: Vec<&str> = of_cluster
            .map(|host| host.name.as_str())
            .filter(|name| !known.contains(name))
            .collect();
        let of_gres = self.found.by_host.keys().map(String::as_str);
        let of_gres: Vec<&str> = of_gres.filter(|name| !known.contains(name)).collect();
        let file = self.slurm_file();
        for (names, source) in [(of_cluster, "the cluster file"), (of_gres, "gres.conf")] {
            if names.is_empty() {
                continue;
            }
            let named = hostlist::compress(names.into_iter().take(MAX_NAMED));
            let message = format!("{named} stand in {source}, but on no node line: left out");
            let help = "give the file that has their NodeName lines; Include files are not read";
            self.remarks.push((file.clone(), Diagnostic::warning("NodeName", message).help(help)));
        }
    }
}

fn plain(gpus: usize) -> Vec<Device> {
    let device = |number| Device {
        number,
        file: format!("/dev/nvidia{number}"),
        kind: None,
        kept: Vec::new(),
    };
    (0..gpus).map(device).collect()
}

fn models(known: Option<&str>, devices: &[Device]) -> Vec<String> {
    if let Some(model) = known {
        return vec![model.to_owned()];
    }
    let kinds: BTreeSet<&String> =
        devices.iter().filter_map(|device| device.kind.as_ref()).collect();
    // A type for each GPU names no model.
    if kinds.len() > 1 && kinds.len() == devices.len() {
        return Vec::new();
    }
    kinds.into_iter().cloned().collect()
}

/// The types that GPUs had so far and have no more.
pub(super) fn old_types(hosts: &[Host]) -> Vec<String> {
    let new: BTreeSet<&String> = hosts.iter().flat_map(|host| &host.types).collect();
    let old = hosts.iter().flat_map(|host| &host.devices).filter_map(|device| device.kind.as_ref());
    let old: BTreeSet<&String> = old.filter(|kind| !new.contains(kind)).collect();
    old.into_iter().cloned().collect()
}

/// Hosts that come out alike.
pub(super) fn groups(hosts: &[Host]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for host in hosts {
        let (types, model) = (host.by_type(), host.models.join("+"));
        let model = (!model.is_empty()).then_some(model);
        match groups.iter_mut().find(|group| group.types == types && group.model == model) {
            Some(group) => group.hosts.push(host.name.clone()),
            None => groups.push(Group { hosts: vec![host.name.clone()], model, types }),
        }
    }
    groups
}
