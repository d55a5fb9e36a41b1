//! GPU models, UUIDs and PCI bus ids (`nvidia-smi -L`, `--query-gpu`), and line rates of NICs (`ibstat`).

use bandpilot_core::{GpuMask, MAX_GPUS_PER_HOST};

use super::Facts;
use super::segments::{Line, Segment};
use crate::Diagnostic;

/// Fastest NIC that is believed, Gbit/s.
const MAX_GBIT_PER_S: f64 = 10_000.0;

/// What a segment says besides its matrix.
pub(super) fn read(segment: &Segment, diagnostics: &mut Vec<Diagnostic>) -> Facts {
    let mut facts = Facts::default();
    let mut query: Option<Vec<String>> = None;
    let mut adapter = Adapter::default();
    let mut split = false;
    for line in &segment.lines {
        if let Some(header) = query_header(&line.text) {
            query = Some(header);
            continue;
        }
        if let Some(header) = &query {
            if query_row(header, line, &mut facts, diagnostics) {
                continue;
            }
            query = None;
        }
        if line.text.trim_start().starts_with("MIG ") && !split {
            split = true;
            let message = "GPUs are split by MIG: they are taken as whole GPUs";
            let remark = Diagnostic::warning("MIG", message).at(line.number, 0);
            diagnostics.push(remark.help("bandpilot dispatches whole GPUs; leave such hosts out"));
        }
        listed(line, &mut facts, diagnostics);
        adapter.read(line, &mut facts, diagnostics);
    }
    unique_ids(&mut facts, diagnostics);
    facts
}

/// `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)` or `GPU 0,1: NVIDIA H20-3e`.
fn listed(line: &Line, facts: &mut Facts, diagnostics: &mut Vec<Diagnostic>) {
    let Some((indexes, rest)) =
        line.text.trim().strip_prefix("GPU ").and_then(|rest| rest.split_once(':'))
    else {
        return;
    };
    let Ok(gpus) = GpuMask::parse(indexes) else { return };
    let rest = rest.trim();
    let (name, uuid) = match rest.split_once("(UUID:") {
        Some((name, uuid)) => (name.trim(), uuid.trim().strip_suffix(')').map(str::trim)),
        None => (rest, None),
    };
    for gpu in gpus.iter() {
        model(gpu, name, line, facts, diagnostics);
    }
    if let (Some(uuid), 1) = (uuid, gpus.count())
        && let Some(gpu) = gpus.iter().next()
        && !uuid.is_empty()
    {
        facts.ids.entry(gpu).or_default().uuid = Some(uuid.to_owned());
    }
}

fn model(
    gpu: usize,
    name: &str,
    line: &Line,
    facts: &mut Facts,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = short_model(name);
    if name.is_empty() {
        return;
    }
    started(facts, line);
    let before = facts.models.insert(gpu, name.to_owned());
    if let Some(before) = before.filter(|before| before != name) {
        let message = format!("GPU {gpu} is '{name}' here and '{before}' above");
        let help = "keep the output of one host in one file, or mark the hosts";
        diagnostics.push(Diagnostic::error("GPU", message).at(line.number, 0).help(help));
    }
}

/// The model without the maker's name: what people type for `--gpu-model`.
pub(crate) fn short_model(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    name.strip_prefix("Tesla ").unwrap_or(name).trim()
}

fn started(facts: &mut Facts, line: &Line) {
    if facts.line == 0 {
        facts.line = line.number;
    }
}

/// The columns of `nvidia-smi --query-gpu=index,name,... --format=csv`.
fn query_header(line: &str) -> Option<Vec<String>> {
    let names: Vec<String> = line.split(',').map(|name| name.trim().to_owned()).collect();
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let useful = ["name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"];
    (has("index") && useful.iter().any(|name| has(name))).then_some(names)
}

/// Reads a row below such a header; false if it is none.
fn query_row(
    header: &[String],
    line: &Line,
    facts: &mut Facts,
    diagnostics: &mut Vec<Diagnostic>,
) -> bool {
    let cells: Vec<&str> = line.text.split(',').map(str::trim).collect();
    if cells.len() != header.len() {
        return false;
    }
    let get = |names: [&str; 2]| {
        let at = header.iter().position(|name| names.contains(&name.as_str()));
        at.and_then(|at| cells.get(at)).copied().filter(|cell| !cell.is_empty())
    };
    let index = get(["index", "index"]).and_then(|cell| cell.parse::<usize>().ok());
    let Some(gpu) = index.filter(|index| *index < MAX_GPUS_PER_HOST) else { return false };
    if let Some(name) = get(["name", "gpu_name"]) {
        model(gpu, name, line, facts, diagnostics);
    }
    started(facts, line);
    let ids = facts.ids.entry(gpu).or_default();
    if let Some(uuid) = get(["uuid", "gpu_uuid"]) {
        ids.uuid = Some(uuid.to_owned());
    }
    if let Some(bus) = get(["pci.bus_id", "gpu_bus_id"]) {
        ids.pci_bus_id = Some(short_bus_id(bus));
    }
    true
}

/// `00000000:1B:00.0` as the kernel writes it: `0000:1b:00.0`.
fn short_bus_id(id: &str) -> String {
    let id = id.to_ascii_lowercase();
    match id.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", domain.get(4..).unwrap_or(domain))
        }
        _ => id,
    }
}

/// Ids that stand twice are those of another host or a typing mistake.
fn unique_ids(facts: &mut Facts, diagnostics: &mut Vec<Diagnostic>) {
    let mut seen = std::collections::BTreeSet::new();
    let ids = facts.ids.values().flat_map(|id| [id.uuid.clone(), id.pci_bus_id.clone()]);
    let twice = ids.flatten().find(|id| !seen.insert(id.clone()));
    if let Some(id) = twice {
        let message = format!("'{id}' is the id of two GPUs: no ids are taken over");
        diagnostics.push(Diagnostic::warning("GPU", message).at(facts.line, 0));
        facts.ids.clear();
    }
}

/// The adapter whose lines of `ibstat` are being read.
#[derive(Default)]
struct Adapter {
    name: Option<String>,
    active: bool,
}

impl Adapter {
    fn read(&mut self, line: &Line, facts: &mut Facts, diagnostics: &mut Vec<Diagnostic>) {
        let text = line.text.trim();
        if let Some(name) = text.strip_prefix("CA '").and_then(|rest| rest.strip_suffix('\'')) {
            *self = Self { name: Some(name.to_owned()), active: false };
            return;
        }
        let Some(name) = &self.name else { return };
        let Some((key, value)) = text.split_once(':').map(|(k, v)| (k.trim(), v.trim())) else {
            return;
        };
        match key {
            "State" => self.active = value == "Active",
            "Rate" if self.active => {
                let rate: Option<f64> = value.parse().ok();
                if let Some(rate) = rate.filter(|r| *r > 0.0 && *r <= MAX_GBIT_PER_S) {
                    started(facts, line);
                    facts.rates.insert(name.clone(), rate);
                } else {
                    let message = format!("'{value}' is not the rate of a NIC in Gbit/s");
                    let reason = Diagnostic::warning("Rate", message).at(line.number, 0);
                    diagnostics.push(reason);
                }
            }
            "Rate" => {
                let message = format!("the port of {name} is not active: its rate is not used");
                diagnostics.push(Diagnostic::warning("Rate", message).at(line.number, 0));
            }
            _ => {}
        }
    }
}
