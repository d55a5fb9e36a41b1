//! What running jobs take away.
//!
//! [`VirtualMerge`] is BandPilot's predictor (arXiv 2506.15595): the capacity of what two jobs share is estimated as the bandwidth of
//! their merger on either's hosts. Only cross-host jobs that share a host meet.

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

#[cfg(test)]
mod tests {
    use super::*;

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
