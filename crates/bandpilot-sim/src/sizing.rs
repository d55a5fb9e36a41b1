//! How many hosts a workload needs: the size of cluster that COMPASS-ABS (arXiv 2609.18519) is evaluated on.

use std::collections::BTreeMap;

use crate::ids::JobId;
use crate::shape::Shape;
use crate::workload::Workload;

/// The GPUs that jobs would hold if each started when it is submitted, and for how long: thousandths of a GPU with seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    seconds: BTreeMap<usize, f64>,
}

impl Demand {
    /// From the first submission to `until_s`; what is later is left out.
    pub fn new(workload: &Workload, until_s: f64) -> Self {
        let mut changes: Vec<(f64, bool, usize)> = Vec::with_capacity(2 * workload.len());
        for job in (0..workload.len() as u32).map(JobId) {
            let (submit_s, milli) = (workload.submit_s(job), workload.shape(job).total_milli());
            let end_s = submit_s + workload.duration_s(job);
            if end_s > submit_s {
                changes.extend([(submit_s, true, milli), (end_s, false, milli)]);
            }
        }
        // At one instant jobs end first: those that do not overlap do not add up.
        changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut demand = Self::default();
        let (mut now_s, mut milli) = (f64::INFINITY, 0_usize);
        for (at_s, begins, change) in changes {
            demand.add(milli, at_s.min(until_s) - now_s);
            now_s = at_s;
            milli = if begins { milli + change } else { milli - change };
        }
        demand.add(milli, until_s - now_s);
        demand
    }

    fn add(&mut self, milli: usize, seconds: f64) {
        if seconds > 0.0 {
            *self.seconds.entry(milli).or_default() += seconds;
        }
    }

    /// The least number of GPUs that is not exceeded for this share (0 to 1) of the time; 0 if there is no time.
    pub fn percentile(&self, share: f64) -> f64 {
        let all_s: f64 = self.seconds.values().sum();
        // Sums are rounded: a share that is reached but for that is reached.
        let due_s = share * all_s * (1.0 - 1e-12);
        let mut passed_s = 0.0;
        let reached = self.seconds.iter().find(|(_, seconds)| {
            passed_s += **seconds;
            passed_s >= due_s
        });
        reached.map_or(0.0, |(milli, _)| *milli as f64 / 1000.0)
    }
}

/// The fewest empty hosts of so many GPUs that take a job; `None` if no host takes an instance.
///
/// ```
/// use bandpilot_sim::{Shape, sizing::hosts_of};
///
/// assert_eq!(hosts_of(&Shape::of_total(20, 8), 8), Some(3));
/// assert_eq!(hosts_of(&Shape::of_instances(15, 3), 8), Some(3));
/// assert_eq!(hosts_of(&Shape::of_instances(9, 9), 8), None);
/// ```
pub fn hosts_of(shape: &Shape, host_gpus: usize) -> Option<usize> {
    let size = shape.instance_gpus as usize;
    let rest = shape.rest_gpus as usize;
    let (full, each) = (shape.instances as usize, host_gpus / size.max(1));
    if size > host_gpus && full > 0 || rest > host_gpus {
        return None;
    }
    let hosts = if full == 0 { 0 } else { full.div_ceil(each) };
    // What is left goes beside the others: where one fewer is, or into what they all leave.
    let beside = full > 0 && (hosts * each > full || host_gpus - each * size >= rest);
    Some(if rest == 0 || beside { hosts } else { hosts + 1 })
}

/// N(eta): so many hosts that the demand is met for a share `eta` of the time, and that every job of the workload fits.
pub fn hosts(workload: &Workload, demand: &Demand, host_gpus: usize, eta: f64) -> usize {
    let gpus = demand.percentile(eta);
    let jobs = (0..workload.len() as u32).map(JobId);
    let largest = jobs.filter_map(|job| hosts_of(workload.shape(job), host_gpus)).max();
    let by_demand = (gpus / host_gpus.max(1) as f64).ceil() as usize;
    by_demand.max(largest.unwrap_or(0)).max(1)
}

#[cfg(test)]
mod tests {
    use bandpilot_core::ClusterBuilder;
    use bandpilot_readers::trace_file;

    use super::*;
    use crate::shape::Hosts;

    fn workload(rows: &str) -> Workload {
        let builder = ClusterBuilder::new("c").host_type("h", "", 8).nvswitch();
        let hosts = Hosts::new(&builder.hosts("h", 1, 1).build()).unwrap();
        let read = trace_file::read(&format!("submit_s,duration_s,gpus\n{rows}"));
        Workload::new(&read.value, &hosts)
    }

    #[test]
    fn demand_is_weighted_with_time() {
        // 8 GPUs for 10 s, 24 for 50 s, 16 for 20 s, then none for 20 s.
        let jobs = workload("100,60,8\n105,0,8\n110,70,16\n");
        let demand = Demand::new(&jobs, 200.0);
        let seconds = [(0, 20.0), (8_000, 10.0), (16_000, 20.0), (24_000, 50.0)];
        assert_eq!(demand.seconds, seconds.into_iter().collect());
        for (share, gpus) in [
            (0.0, 0.0),
            (0.2, 0.0),
            (0.21, 8.0),
            (0.3, 8.0),
            (0.5, 16.0),
            (0.51, 24.0),
            (1.0, 24.0),
        ] {
            assert_eq!(demand.percentile(share), gpus, "{share}");
        }
        assert_eq!(Demand::new(&jobs, 130.0).percentile(1.0), 24.0);
        assert_eq!(Demand::new(&jobs, 105.0).percentile(1.0), 8.0);
        assert_eq!(Demand::new(&workload(""), 105.0).percentile(1.0), 0.0);
        // One ends when the next begins.
        assert_eq!(Demand::new(&workload("0,10,8\n10,10,8\n"), 20.0).percentile(1.0), 8.0);
    }

    #[test]
    fn the_largest_job_fits_in_any_case() {
        let jobs = workload("0,90,1\n0,10,20\n");
        let demand = Demand::new(&jobs, 100.0);
        assert_eq!((demand.percentile(0.85), demand.percentile(0.95)), (1.0, 21.0));
        assert_eq!((hosts(&jobs, &demand, 8, 0.85), hosts(&jobs, &demand, 8, 0.95)), (3, 3));
        assert_eq!(hosts(&workload(""), &Demand::default(), 8, 0.9), 1);
    }

    #[test]
    fn instances_share_hosts() {
        let hosts = |gpus, size| hosts_of(&Shape::of_instances(gpus, size), 8);
        // 3 + 3 + 2 fill a host; 3 + 3 leave room for the 2; 5 + 3 of 8 is full.
        assert_eq!((hosts(8, 3), hosts(6, 3), hosts(7, 3)), (Some(1), Some(1), Some(1)));
        assert_eq!((hosts(8, 5), hosts(9, 5), hosts(10, 5)), (Some(1), Some(2), Some(2)));
        assert_eq!((hosts(12, 8), hosts(16, 8), hosts(9, 2)), (Some(2), Some(2), Some(2)));
        assert_eq!(hosts_of(&Shape::of_share(300), 8), Some(1));
    }
}
