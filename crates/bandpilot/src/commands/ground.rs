//! Cluster, model and state as the options of several commands name them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bandpilot_core::{
    Cluster, ClusterState, Collective, Demand, GpuMask, HostId, Links, Placement, RunningJob,
};
use bandpilot_model::file::{self, ModelFileError};
use bandpilot_model::local;
use bandpilot_model::model::BandwidthModel;
use bandpilot_readers::{Diagnostic, Parsed, cluster_file, state_file};

use crate::cli::Files;
use crate::exit::{Code, Failure};
use crate::io::read_text;

/// A value with the remarks that reading it gave.
pub type Remarks = Vec<(String, Diagnostic)>;

/// What is decided on.
pub struct Ground {
    /// The cluster.
    pub cluster: Cluster,
    /// What is free and what runs.
    pub state: ClusterState,
    /// Where the cluster comes from, for people.
    pub source: String,
}

impl Ground {
    /// Reads the cluster and the state that are named, or takes the example.
    ///
    /// # Errors
    /// If a file cannot be read, or it or the notation has errors.
    pub fn read(files: &Files, remarks: &mut Remarks) -> Result<Self, Failure> {
        let (cluster, default_state, source) = if let Some(path) = &files.cluster {
            let cluster = cluster(path, remarks)?;
            let idle = ClusterState::idle(&cluster);
            (cluster, idle, path.display().to_string())
        } else {
            let (cluster, state) = example();
            (cluster, state, "built-in example".to_owned())
        };
        let state = match (&files.state, &files.free) {
            (Some(path), _) => {
                let read = state_file::read(&read_text(path)?, &cluster);
                settle(read, &path.display().to_string(), Code::BadInput, remarks)?
            }
            (None, Some(text)) => {
                let read = state_file::free_form(text, &cluster);
                settle(read, "--free", Code::BadInput, remarks)?
            }
            (None, None) => default_state,
        };
        Ok(Self { cluster, state, source })
    }
}

/// The models that were given, at most one for each collective.
pub struct Models {
    read: Vec<(String, BandwidthModel)>,
    /// Host types whose NVSwitch the physics does not know, with their GPU models.
    unknown: Vec<(String, String)>,
}

impl Models {
    /// Reads the model files.
    ///
    /// # Errors
    /// If one cannot be read or is refused, or two are of the same collective.
    pub fn read(
        paths: &[PathBuf],
        cluster: &Cluster,
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        let mut read: Vec<(String, BandwidthModel)> = Vec::new();
        for path in paths {
            let new = model(path, cluster, remarks)?;
            let name = path.display().to_string();
            if let Some((other, _)) = read.iter().find(|(_, m)| m.collective == new.collective) {
                let message = format!("{other} and {name} are both models of {}", new.collective);
                return Err(Failure::usage("--model", message, "give one for each collective"));
            }
            read.push((name, new));
        }
        let unknown = cluster
            .host_types
            .iter()
            .filter(|kind| kind.gpus > 1 && kind.links == Links::NvSwitch)
            .filter(|kind| !local::knows_switch_of(&kind.gpu_model))
            .map(|kind| (kind.name.clone(), kind.gpu_model.clone()))
            .collect();
        Ok(Self { read, unknown })
    }

    /// The model of a collective. If none was given: the physics of the collective with the constants of another model,
    /// and a remark about `asked_by`.
    pub fn of(
        &self,
        collective: Collective,
        asked_by: &str,
        remarks: &mut Remarks,
    ) -> BandwidthModel {
        let model = self.choose(collective, asked_by, remarks);
        for (kind, gpu_model) in &self.unknown {
            if model.local.iter().any(|entry| entry.host_type == *kind) {
                continue;
            }
            let message = format!(
                "host type '{kind}': nothing is known of NVSwitch with '{gpu_model}': that of an A100 is assumed"
            );
            let help = "measure a full host ('all_reduce_perf'), import it and fit a model";
            let remark =
                ("--cluster".to_owned(), Diagnostic::warning("gpu_model", message).help(help));
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        model
    }

    fn choose(
        &self,
        collective: Collective,
        asked_by: &str,
        remarks: &mut Remarks,
    ) -> BandwidthModel {
        let of = |op: Collective| self.read.iter().find(|(_, model)| model.collective == op);
        if let Some((_, model)) = of(collective) {
            return model.clone();
        }
        let basis = of(Collective::AllReduce).or(self.read.first());
        if basis.is_none() && collective == Collective::AllReduce {
            return built_in();
        }
        let mut model = basis.map_or_else(built_in, |(_, model)| model.clone());
        model = model.for_collective(collective);
        if basis.is_none() {
            model.description = format!(
                "physics of {collective}, not measured; its constants were fitted on all_reduce of 493 H100 sets at 2 GiB"
            );
        }
        let message = format!("{collective} was not measured: its bandwidths are a rough figure");
        let help = format!(
            "fit a model to readings of it with 'bandpilot fit --op {collective}' and give it with --model"
        );
        remarks.push((asked_by.to_owned(), Diagnostic::note("", message).help(help)));
        model
    }
}

fn built_in() -> BandwidthModel {
    BandwidthModel {
        description: "closed form; its constants were fitted on 493 measured H100 sets at 2 GiB"
            .to_owned(),
        ..BandwidthModel::closed_form()
    }
}

/// When a search has to stop.
pub struct Deadline {
    end: Option<Instant>,
    given: bool,
}

impl Deadline {
    /// So many milliseconds from now, if any were given.
    pub fn from_now(milliseconds: Option<u64>) -> Self {
        // A deadline beyond what a clock can hold is none.
        let end = milliseconds.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Self { end, given: milliseconds.is_some() }
    }

    /// True if one was given.
    pub fn is_given(&self) -> bool {
        self.given
    }

    /// True if it is over.
    pub fn has_passed(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

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
    let job = RunningJob::new("background".to_owned(), placement, Demand::Fraction(0.5));
    state.jobs.push(job);
    (cluster, state)
}
