//! Which jobs idle GPUs are of use to.

use std::collections::BTreeMap;
use std::path::Path;

use bandpilot_core::Cluster;
use bandpilot_fragmentation::Occupancy;
use bandpilot_readers::{Diagnostic, Severity};
use bandpilot_sim::fill::{PodShape, Target};
use bandpilot_sim::placements::Fgd;
use bandpilot_sim::{Hosts, ModelSet, Workload};

use crate::commands::ground::Remarks;
use crate::commands::simulate::read_trace;
use crate::exit::{Code, Failure};
use crate::io::read_text;

/// A mix of jobs, and how it sees a cluster.
pub struct Mix {
    /// The trace that it is of, or that of what runs.
    pub trace: Option<String>,
    /// Rows of the trace that are wrong.
    pub bad_rows: usize,
    target: Target,
    /// Number of each host's GPU model among those of the target.
    models: Vec<usize>,
}

/// GPUs that are idle but of no use to a mix (FGD's F), in thousandths times the jobs of the mix.
pub struct Unusable {
    pools: Vec<u64>,
    jobs: u64,
}

impl Unusable {
    /// GPUs of a pool.
    pub fn pool(&self, pool: usize) -> f64 {
        self.gpus(self.pools[pool])
    }

    /// GPUs of all pools.
    pub fn total(&self) -> f64 {
        self.gpus(self.pools.iter().sum())
    }

    fn gpus(&self, weighted: u64) -> f64 {
        weighted as f64 / self.jobs as f64 / 1000.0
    }
}

impl Mix {
    /// That of a trace, or else that of what runs.
    ///
    /// # Errors
    /// If the trace cannot be read, has no job that can be used, or the cluster has too many GPU models.
    pub fn read(
        trace: Option<&Path>,
        cluster: &Cluster,
        occupancy: &Occupancy,
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        let Some(path) = trace else { return Ok(Self::running(occupancy)) };
        let file = path.display().to_string();
        let refuse =
            |message: String| Failure::new(Code::BadInput, &file, Diagnostic::error("", message));
        let read = read_trace(&file, &read_text(path)?)?;
        let bad_rows = read.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        remarks.extend(read.diagnostics.into_iter().map(|remark| (file.clone(), remark)));
        let hosts = Hosts::new(cluster).map_err(|error| refuse(error.to_string()))?;
        let workload = Workload::new(&read.value, &hosts);
        if workload.is_empty() {
            return Err(refuse("no job of the trace asks for a GPU".to_owned()));
        }
        Ok(Self {
            trace: Some(file.clone()),
            bad_rows,
            target: Fgd::target(&workload),
            models: cluster.host_ids().map(|host| hosts.model(host)).collect(),
        })
    }

    /// That of the instances that run; any GPU model will do for each.
    fn running(occupancy: &Occupancy) -> Self {
        let mut counts: BTreeMap<PodShape, u64> = BTreeMap::new();
        for instance in occupancy.nodes.iter().flat_map(|node| &node.held) {
            let shape = PodShape {
                cpu_milli: 0,
                gpu_milli: 1000,
                gpus: instance.gpus as u32,
                models: ModelSet::ANY,
                memory_mib: 0,
            };
            *counts.entry(shape).or_default() += 1;
        }
        Self {
            trace: None,
            bad_rows: 0,
            target: Target::of_counts(counts.into_iter().collect()),
            models: vec![0; occupancy.nodes.len()],
        }
    }

    /// What is idle but of no use to it; `None` if nothing runs that it could be of.
    pub fn unusable(&self, occupancy: &Occupancy) -> Option<Unusable> {
        let mut pools = vec![0; occupancy.pools.len()];
        for (node, model) in occupancy.nodes.iter().zip(&self.models) {
            pools[node.pool] += self.target.weighted(0, *model, &vec![1000; node.free()]);
        }
        let jobs = self.target.total();
        (jobs > 0).then_some(Unusable { pools, jobs })
    }
}
