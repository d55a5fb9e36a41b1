//! What the driver on a job's host shows.
//!
//! `nvidia-smi -q -x` lists the GPUs that the process may open, by PCI bus id: all of the host, or with `ConstrainDevices`
//! those of the job. `CUDA_VISIBLE_DEVICES` picks from this list, by place or by UUID, so one rule serves both. The minor
//! number of a GPU is the number of its device file `/dev/nvidiaN`, which is its index in gres.conf; it is the same inside
//! and outside of a job, and need not follow the PCI bus.

use std::collections::BTreeMap;

use bandpilot_core::{GpuMask, MAX_GPUS_PER_HOST};
use bandpilot_manager::audit::{HostGpus, Seen, Source};
use bandpilot_readers::{Diagnostic, Parsed};
use roxmltree::{Document, Node, ParsingOptions};

/// How the driver is asked.
pub const COMMAND: [&str; 3] = ["nvidia-smi", "-q", "-x"];

/// A GPU as the driver shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Number of its device file, where the driver tells it.
    pub minor: Option<usize>,
    /// UUID, `GPU-...`.
    pub uuid: String,
    /// PCI bus id, `00000000:1B:00.0`.
    pub pci_bus_id: String,
    /// What it is called.
    pub model: String,
    /// It is cut into parts.
    pub mig: bool,
}

/// What CUDA reads of the environment of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// `CUDA_VISIBLE_DEVICES`; `None` if it is not set.
    pub visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`; may be empty.
    pub order: String,
}

/// The GPUs of `nvidia-smi -q -x`, in its order.
///
/// ```
/// let xml = "<nvidia_smi_log><gpu id=\"00000000:1B:00.0\"><uuid>GPU-a</uuid><minor_number>3</minor_number></gpu></nvidia_smi_log>";
/// assert_eq!(bandpilot_slurm::host::devices(xml).value[0].minor, Some(3));
/// ```
pub fn devices(xml: &str) -> Parsed<Vec<Device>> {
    let refuse = |reason: Diagnostic| Parsed { value: Vec::new(), diagnostics: vec![reason] };
    // The output names a document type.
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(xml, options) {
        Ok(document) => document,
        Err(error) => {
            let place = error.pos();
            let message = format!("is not the XML of nvidia-smi: {error}");
            return refuse(Diagnostic::error("", message).at(place.row, place.col));
        }
    };
    if document.root_element().tag_name().name() != "nvidia_smi_log" {
        return refuse(Diagnostic::error("", "is not the XML of nvidia-smi").at(1, 1));
    }
    let mut value = Vec::new();
    let mut diagnostics = Vec::new();
    for node in document.root_element().children().filter(|node| node.has_tag_name("gpu")) {
        let place = document.text_pos_at(node.range().start);
        let device = device(node);
        if device.uuid.is_empty() {
            let reason = Diagnostic::error("uuid", "a GPU has none: it is not used");
            diagnostics.push(reason.at(place.row, place.col));
            continue;
        }
        if value.len() == MAX_GPUS_PER_HOST {
            let message = format!("more than {MAX_GPUS_PER_HOST} GPUs: the rest is not used");
            diagnostics.push(Diagnostic::error("gpu", message).at(place.row, place.col));
            break;
        }
        value.push(device);
    }
    Parsed { value, diagnostics }
}

fn device(gpu: Node) -> Device {
    let text = |path: &[&str]| {
        let found = path
            .iter()
            .try_fold(gpu, |node, name| node.children().find(|child| child.has_tag_name(*name)));
        found.and_then(|node| node.text()).unwrap_or("").trim().to_owned()
    };
    let minor = text(&["minor_number"]).parse().ok();
    Device {
        minor: minor.filter(|minor: &usize| *minor < MAX_GPUS_PER_HOST),
        uuid: text(&["uuid"]),
        pci_bus_id: gpu.attribute("id").unwrap_or("").to_owned(),
        model: text(&["product_name"]),
        mig: text(&["mig_mode", "current_mig"]) == "Enabled",
    }
}

/// The GPUs that a CUDA program with this environment has.
///
/// # Errors
/// Why that cannot be said.
pub fn usable<'d>(
    devices: &'d [Device],
    environment: &Environment,
) -> Result<Vec<&'d Device>, String> {
    if devices.iter().any(|device| device.mig) {
        return Err("a GPU is cut into parts (MIG), and these have no index".to_owned());
    }
    let Some(visible) = &environment.visible else { return Ok(devices.iter().collect()) };
    let alike = devices.iter().all(|device| device.model == devices[0].model);
    let by_place = visible.split(',').any(|word| word.trim().parse::<usize>().is_ok());
    if by_place && environment.order != "PCI_BUS_ID" && !alike {
        let why = "GPUs of several models are numbered by speed; set CUDA_DEVICE_ORDER=PCI_BUS_ID";
        return Err(why.to_owned());
    }
    let mut chosen: Vec<&Device> = Vec::new();
    for word in visible.split(',').map(str::trim) {
        if word.starts_with("MIG-") {
            return Err("CUDA_VISIBLE_DEVICES names a part of a GPU (MIG)".to_owned());
        }
        let device = if word.starts_with("GPU-") {
            let mut fits = devices.iter().filter(|device| device.uuid.starts_with(word));
            fits.next().filter(|_| fits.next().is_none())
        } else {
            word.parse().ok().and_then(|at: usize| devices.get(at))
        };
        // CUDA takes what stands before the first word that names nothing.
        let Some(device) = device else { break };
        if chosen.contains(&device) {
            return Err(format!("CUDA_VISIBLE_DEVICES names {word} twice: CUDA gives no GPU"));
        }
        chosen.push(device);
    }
    Ok(chosen)
}

/// What the driver shows of a job on one host, against what was planned there.
///
/// A task may have been given a part of the job's GPUs: that alone is no difference, and nothing is said then.
pub fn judge(
    job: &str,
    planned: &HostGpus,
    whole_host: bool,
    has: &Result<Vec<&Device>, String>,
) -> Seen {
    let seen = |gpus, agrees, differs| Seen {
        job: job.to_owned(),
        source: Source::Host,
        gpus,
        agrees,
        differs,
    };
    let has = match has {
        Ok(has) => has,
        Err(why) => return seen(None, None, why.clone()),
    };
    let strangers: Vec<&str> = {
        let all_known = planned.gpus.iter().all(|at| planned.uuids.contains_key(&at));
        let known = |uuid: &str| planned.uuids.values().any(|one| same_uuid(one, uuid));
        let uuids = has.iter().map(|device| device.uuid.as_str());
        uuids.filter(|uuid| all_known && !whole_host && !known(uuid)).collect()
    };
    let by_minor: Option<BTreeMap<usize, String>> =
        has.iter().map(|device| Some((device.minor?, device.uuid.clone()))).collect();
    let host = &planned.host;
    if !strangers.is_empty() {
        let differs = format!("{host}: not planned: {}", strangers.join(", "));
        let gpus = by_minor.map(|uuids| vec![host_gpus(host, uuids)]);
        return seen(gpus, Some(false), differs);
    }
    let Some(uuids) = by_minor else {
        // By UUID it is as planned, if all of them are known and here.
        let all = !planned.uuids.is_empty() && has.len() == planned.gpus.count();
        let why = "the driver does not tell the numbers of its device files".to_owned();
        return if all { seen(None, Some(true), String::new()) } else { seen(None, None, why) };
    };
    let held = host_gpus(host, uuids);
    let moved = planned.uuids.iter().find_map(|(at, uuid)| {
        let here = held.uuids.get(at).filter(|here| !same_uuid(here, uuid))?;
        Some(format!("{host}: GPU {at} is {uuid} in the plan and {here} on the host"))
    });
    let (mask, plan) = (held.gpus, planned.gpus);
    let or_none = |mask: GpuMask| {
        if mask.is_empty() { "none".to_owned() } else { mask.to_string() }
    };
    let (agrees, differs) = if let Some(moved) = moved {
        (Some(false), moved)
    } else if mask == plan || whole_host && plan.is_subset_of(mask) {
        (Some(true), String::new())
    } else if mask.is_subset_of(plan) && !mask.is_empty() {
        (None, format!("{host}: this task sees {mask} of {plan}"))
    } else {
        (Some(false), format!("{host}: planned {}, has {}", or_none(plan), or_none(mask)))
    };
    seen(Some(vec![held]), agrees, differs)
}

fn same_uuid(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn host_gpus(host: &str, uuids: BTreeMap<usize, String>) -> HostGpus {
    let gpus = uuids.keys().map(|at| GpuMask::single(*at)).fold(GpuMask::EMPTY, GpuMask::union);
    HostGpus { host: host.to_owned(), gpus, uuids }
}

#[cfg(test)]
#[path = "tests/host.rs"]
mod tests;
