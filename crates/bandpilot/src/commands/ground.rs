//! Cluster, model and state as the options of several commands name them.

use std::collections::BTreeSet;
use std::path::Path;

use bandpilot_core::{Cluster, ClusterState, Demand, GpuMask, HostId, Placement, RunningJob};
use bandpilot_model::file::{self, ModelFileError};
use bandpilot_model::model::BandwidthModel;
use bandpilot_readers::{Diagnostic, Parsed, cluster_file};

use crate::exit::{Code, Failure};
use crate::io::read_text;

/// A value with the remarks that reading it gave.
pub type Remarks = Vec<(String, Diagnostic)>;

/// Reads a cluster file.
///
/// # Errors
/// If it cannot be read or has errors.
pub fn cluster(path: &Path, remarks: &mut Remarks) -> Result<Cluster, Failure> {
    let name = path.display().to_string();
    settle(cluster_file::read(&read_text(path)?), &name, Code::BadInput, remarks)
}

/// The value of a text that has no errors.
///
/// # Errors
/// If it has errors.
pub fn settle<T>(
    read: Parsed<T>,
    name: &str,
    code: Code,
    remarks: &mut Remarks,
) -> Result<T, Failure> {
    let (value, said) = read.into_result().map_err(|all| Failure::all(code, name, all))?;
    remarks.extend(said.into_iter().map(|remark| (name.to_owned(), remark)));
    Ok(value)
}

/// Reads a model file for use with a cluster.
///
/// # Errors
/// If it cannot be read or is refused.
pub fn model(
    path: &Path,
    cluster: &Cluster,
    remarks: &mut Remarks,
) -> Result<BandwidthModel, Failure> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    let model = file::read(&text).map_err(|error| {
        let ModelFileError { line, column, field, message, help } = error;
        let field = if field.is_empty() { key_at(&text, line, &message) } else { field };
        let reason = Diagnostic::error(field, message).at(line, column).help(help);
        Failure::new(Code::BadInput, &name, reason)
    })?;
    remarks.extend(unused(&model, cluster).map(|remark| (name, remark)));
    Ok(model)
}

/// The key that a fault in JSON is about: the one that the message names, else the one on its line; empty if there is none.
fn key_at(text: &str, line: u32, message: &str) -> String {
    let named = ["missing field `", "unknown field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split_once('`'));
    let on_line = || {
        let (before, _) = text.lines().nth(line.checked_sub(1)? as usize)?.split_once("\":")?;
        before.rsplit_once('"').map(|(_, key)| key)
    };
    named.map(|(key, _)| key).or_else(on_line).unwrap_or("").to_owned()
}

/// A warning if the cluster lacks host types that the model has measurements of.
fn unused(model: &BandwidthModel, cluster: &Cluster) -> Option<Diagnostic> {
    let local = model.local.iter().map(|entry| &entry.host_type);
    let cross = model.cross.iter().flat_map(|entry| &entry.shares).map(|share| &share.host_type);
    let lacking: BTreeSet<&str> = local
        .chain(cross)
        .map(String::as_str)
        .filter(|name| cluster.host_types.iter().all(|kind| kind.name != *name))
        .collect();
    let names = lacking.into_iter().collect::<Vec<_>>().join(", ");
    let message = format!(
        "it was fitted on host types that the cluster lacks ({names}): their measurements are not used, but its constants, correction and error bands are theirs"
    );
    let help = "fit the model with the cluster file that it is used with";
    (!names.is_empty()).then(|| Diagnostic::warning("", message).help(help))
}

/// The built-in example: four hosts of eight H100, of which a background job holds eight GPUs on two hosts.
pub fn example() -> (Cluster, ClusterState) {
    let cluster = bandpilot_eval::clusters::h100_32();
    let half = GpuMask(0b1111_0000);
    let placement = Placement::new([(HostId(2), half), (HostId(3), half)]);
    let mut state = ClusterState::idle(&cluster);
    for (host, mask) in placement.shares() {
        let free = &mut state.free[host.index()];
        *free = free.without(*mask);
    }
    let job =
        RunningJob { name: "background".to_owned(), placement, demand: Demand::Fraction(0.5) };
    state.jobs.push(job);
    (cluster, state)
}
