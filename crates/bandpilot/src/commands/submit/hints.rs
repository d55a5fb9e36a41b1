//! What a job is told beside its GPUs.

use std::collections::BTreeSet;

use bandpilot_core::Cluster;
use bandpilot_slurm::submit::layout::Layout;

/// Variables for the job. `NCCL_IB_HCA` leaves out NICs of its hosts that carry no traffic
/// (<https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>: `^` excludes, `=` compares whole names).
pub fn of<'l>(
    cluster: &Cluster,
    layouts: impl Iterator<Item = &'l Layout>,
) -> Vec<(String, String)> {
    let mut unhealthy = BTreeSet::new();
    for (name, _) in layouts.flat_map(|layout| &layout.plan.gpus) {
        let Some(id) = cluster.find_host(name) else { continue };
        let nics = &cluster.type_of(id).nics;
        let bad = cluster.host(id).unhealthy_nics.iter().filter_map(|at| nics.get(*at));
        unhealthy.extend(bad.map(|nic| nic.name.as_str()));
    }
    if unhealthy.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = unhealthy.into_iter().collect();
    vec![("NCCL_IB_HCA".to_owned(), format!("^={}", names.join(",")))]
}
