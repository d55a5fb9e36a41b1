//! What running jobs take away.
//!
//! [`VirtualMerge`] is BandPilot's predictor (arXiv 2506.15595): the capacity of what two jobs share is estimated as the bandwidth of
//! their merger on either's hosts. Only cross-host jobs that share a host meet.

use bandpilot_core::{GpuMask, HostId, Placement};

use crate::predictor::Predictor;
use crate::share::Aggregate;

/// One running job that shares a host with the job in question.
#[derive(Debug, Clone, PartialEq)]
pub struct Meeting {
    /// The job's own demand, GB/s.
    pub demand: f64,
    /// The job in question plus this job's GPUs on its hosts.
    pub merged_own: Aggregate,
    /// This job plus the GPUs of the job in question on its hosts.
    pub merged_other: Aggregate,
}

/// What is known of a meeting before the set is complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeetingBound {
    /// The running job's demand, GB/s.
    pub demand: f64,
    /// Upper bound of the capacity of what is shared, GB/s.
    pub capacity: f64,
}

/// A model of contention: isolated to effective bandwidth.
pub trait ContentionModel {
    /// Effective busbw of a set beside the jobs that it meets, GB/s, and the index of the meeting that decides (`None` if none
    /// does). With no meeting it is the isolated value; it never exceeds it; one meeting fewer never lowers it.
    fn effective(
        &self,
        predictor: &Predictor<'_>,
        isolated: f64,
        meetings: &[Meeting],
    ) -> (f64, Option<usize>);

    /// Upper bound of the capacity of what is shared in a meeting, over all sets that differ only in which GPUs of PCIe and
    /// mesh hosts they take (see [`Predictor::cross_relaxed`]).
    fn capacity_bound(&self, predictor: &Predictor<'_>, meeting: &Meeting) -> f64;

    /// Upper bound of [`ContentionModel::effective`] for any set with at most this isolated value and at least these
    /// meetings.
    fn bound(&self, isolated: f64, meetings: &[MeetingBound]) -> f64;
}

/// Virtual merge: capacity = min over meetings of the lesser of both mergers; demand = own isolated value plus the demands of all;
/// if the demand exceeds the capacity, each gets its share of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtualMerge;

impl VirtualMerge {
    fn share(isolated: f64, demand: f64, capacity: f64) -> f64 {
        let total = isolated + demand;
        if total <= capacity { isolated } else { isolated.min(capacity * isolated / total) }
    }
}

impl ContentionModel for VirtualMerge {
    fn effective(
        &self,
        predictor: &Predictor<'_>,
        isolated: f64,
        meetings: &[Meeting],
    ) -> (f64, Option<usize>) {
        let mut capacity = f64::INFINITY;
        let mut deciding = None;
        let mut demand = 0.0;
        for (index, meeting) in meetings.iter().enumerate() {
            let pair =
                predictor.cross(&meeting.merged_own).min(predictor.cross(&meeting.merged_other));
            if pair < capacity {
                capacity = pair;
                deciding = Some(index);
            }
            demand += meeting.demand;
        }
        let value = Self::share(isolated, demand, capacity);
        (value, deciding.filter(|_| value < isolated))
    }

    fn capacity_bound(&self, predictor: &Predictor<'_>, meeting: &Meeting) -> f64 {
        predictor
            .cross_relaxed(&meeting.merged_own)
            .min(predictor.cross_relaxed(&meeting.merged_other))
    }

    fn bound(&self, isolated: f64, meetings: &[MeetingBound]) -> f64 {
        let capacity = meetings.iter().map(|m| m.capacity).fold(f64::INFINITY, f64::min);
        let demand = meetings.iter().map(|m| m.demand).sum();
        Self::share(isolated, demand, capacity)
    }
}

/// Virtual merge host by host: the share (0..=1) of their demands that cross-host jobs on one host get there. `jobs` are all
/// of them with their demands, GB/s; each then has its demand times the least such share over its hosts.
///
/// What is shared on a host is the way out of it. Its capacity is taken to be what all the jobs' GPUs on it, merged, reach in
/// a set that has as many on each of its hosts, and as many hosts as the job with most of them. For two jobs of even
/// shares on the same hosts this is [`VirtualMerge`]. That one also counts what the jobs have elsewhere: a job with one GPU on
/// each of ten hosts would hold a neighbour that it meets on one of them down to its own bandwidth, and a job with a neighbour
/// on each of ten hosts would fall to an eleventh, although no link carries more than two.
pub fn host_share(predictor: &Predictor<'_>, host: HostId, jobs: &[(&Placement, f64)]) -> f64 {
    let demand: f64 = jobs.iter().map(|(_, demand)| demand).sum();
    if jobs.len() < 2 || demand <= 0.0 {
        return 1.0;
    }
    let merged = jobs.iter().fold(GpuMask::EMPTY, |all, (job, _)| all.union(job.on(host)));
    let hosts = jobs.iter().map(|(job, _)| job.hosts()).max().unwrap_or(2);
    let set = Aggregate::EMPTY.with(&predictor.share(host, merged), hosts);
    (predictor.cross(&set) / demand).min(1.0)
}

#[cfg(test)]
mod tests {
    use bandpilot_core::ClusterBuilder;

    use super::*;
    use crate::model::BandwidthModel;

    #[test]
    fn a_host_is_shared_by_those_that_are_on_it() {
        let builder = ClusterBuilder::new("c").host_type("h", "H100", 8).nvswitch().rails(400.0);
        let cluster = builder.hosts("h", 1, 12).build();
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, &cluster, 2 << 30);
        let on = |hosts: std::ops::Range<u32>, mask| {
            Placement::new(hosts.map(|host| (HostId(host), GpuMask(mask))))
        };
        let share = |jobs: &[&Placement]| {
            let jobs: Vec<(&Placement, f64)> =
                jobs.iter().map(|set| (*set, predictor.isolated(set))).collect();
            host_share(&predictor, HostId(0), &jobs)
        };
        // Two GPUs beside two others get on without each other; two halves ask for more than whole hosts reach.
        let (first, second) = (on(0..2, 1), on(0..2, 2));
        assert_eq!((share(&[&first]), share(&[&first, &second])), (1.0, 1.0));
        let (low, high) = (on(0..3, 15), on(0..3, 240));
        let whole = predictor.isolated(&on(0..3, 255));
        let expected = whole / (2.0 * predictor.isolated(&low));
        assert!((share(&[&low, &high]) - expected).abs() < 1e-12 && expected < 1.0);
        // As the paper's predictor says of this pair.
        let scene = |own: &Placement, other: &Placement| {
            let merged = Aggregate::EMPTY
                .with(&predictor.share(HostId(0), own.on(HostId(0)).union(other.on(HostId(0)))), 3);
            let demand = predictor.isolated(other);
            let meeting = Meeting { demand, merged_own: merged, merged_other: merged };
            VirtualMerge.effective(&predictor, predictor.isolated(own), &[meeting]).0
        };
        let together = share(&[&low, &high]) * predictor.isolated(&low);
        assert!((scene(&low, &high) - together).abs() < 1e-9);
        // One GPU on each of twelve hosts takes little from a neighbour, and keeps most of what it has.
        let (thin, wide) = (on(0..12, 1), on(0..3, 254));
        assert!((0.8..1.0).contains(&share(&[&thin, &wide])), "{}", share(&[&thin, &wide]));
    }

    #[test]
    fn bound_falls_with_every_meeting() {
        let one = [MeetingBound { demand: 50.0, capacity: 100.0 }];
        let two = [one[0], MeetingBound { demand: 10.0, capacity: 300.0 }];
        assert_eq!(VirtualMerge.bound(80.0, &[]), 80.0);
        assert_eq!(VirtualMerge.bound(50.0, &one), 50.0);
        assert!((VirtualMerge.bound(150.0, &one) - 75.0).abs() < 1e-12);
        assert!(VirtualMerge.bound(150.0, &two) < 75.0);
    }
}
