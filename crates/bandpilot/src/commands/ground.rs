//! Cluster, model and state as the options of several commands name them.

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

/// Reads a model file.
///
/// # Errors
/// If it cannot be read or is refused.
pub fn model(path: &Path) -> Result<BandwidthModel, Failure> {
    let name = path.display().to_string();
    file::read(&read_text(path)?).map_err(|error| {
        let ModelFileError { line, column, field, message, help } = error;
        let reason = Diagnostic::error(field, message).at(line, column).help(help);
        Failure::new(Code::BadInput, &name, reason)
    })
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
