//! After how long a job counts as long.

use crate::ids::JobId;
use crate::workload::Workload;

/// Greater loads count as this one: the formulas are for queues that stay finite.
const MAX_LOAD: f64 = 0.99;

/// A job as far as the choice of theta looks at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// How long it runs at rate 1, seconds.
    pub duration_s: f64,
    /// Its GPUs.
    pub gpus: usize,
}

/// Sums over jobs. Work is in seconds of the whole cluster, a share is GPUs of a job / GPUs of the cluster.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: f64,
    duration_s: f64,
    work_s: f64,
    work2_s2: f64,
    share: f64,
    share2: f64,
}

impl Sums {
    fn add(&mut self, sign: f64, duration_s: f64, share: f64) {
        let work_s = duration_s * share;
        self.jobs += sign;
        self.duration_s += sign * duration_s;
        self.work_s += sign * work_s;
        self.work2_s2 += sign * work_s * work_s;
        self.share += sign * share;
        self.share2 += sign * share * share;
    }
}

/// The sum of the response times (arrival to end) if jobs up to `theta_s` are short: see [`best_theta_s`].
fn responses_s(short: &Sums, long: &Sums, theta_s: f64, span_s: f64) -> f64 {
    // Mean wait for work that arrives at random times and is done in turn (Pollaczek and Khinchine).
    let wait_s = |work2_s2: f64, load: f64| work2_s2 / span_s / (2.0 * (1.0 - load));
    let load = (short.work_s + long.work_s) / span_s;
    let first_load = (short.work_s + theta_s * long.share) / span_s;
    let first2_s2 = short.work2_s2 + theta_s * theta_s * long.share2;
    let wait_of_short_s = wait_s(first2_s2, first_load);
    let wait_of_long_s = wait_s(short.work2_s2 + long.work2_s2, load);
    short.jobs * wait_of_short_s
        + short.duration_s
        + (long.jobs * wait_of_long_s + long.duration_s) / (1.0 - first_load)
}

/// The theta of [`TwoStage`](super::TwoStage) at which jobs that arrive evenly over `span_s` seconds respond fastest on
/// average, seconds; infinite if there is no job.
///
/// The cluster is taken for one server that all GPUs work in at once, with arrivals at random times. Then the
/// mean response is known: with work `y` = duration x GPUs / all GPUs, its part in the first stage `y1`, arrival rate `l`,
/// loads `r1 = l E[y1]` and `r = l E[y]`, a job of duration `d`
///
/// * up to theta waits for the work of the first stage: `l E[y1^2] / (2 (1 - r1)) + d`;
/// * above theta waits for all work that it finds, and for what arrives in the first stage meanwhile:
///   `(l E[y^2] / (2 (1 - r)) + d) / (1 - r1)`
///
/// (multilevel queues with two first-come levels: Kleinrock, Queueing Systems II, 1976, section 4.7). Between two durations
/// of jobs a greater theta is only worse, so the least mean is at one of the durations. Loads above 0.99 count as 0.99.
pub fn best_theta_s(jobs: &[Length], span_s: f64, gpus: usize) -> f64 {
    let fits = |job: &&Length| job.gpus <= gpus;
    let mut sorted: Vec<&Length> = jobs.iter().filter(fits).collect();
    sorted.sort_unstable_by(|a, b| a.duration_s.total_cmp(&b.duration_s));
    let share = |job: &Length| job.gpus as f64 / gpus.max(1) as f64;
    let (mut short, mut long) = (Sums::default(), Sums::default());
    for job in &sorted {
        long.add(1.0, job.duration_s, share(job));
    }
    let span_s = span_s.max(long.work_s / MAX_LOAD);
    let mut best = (f64::INFINITY, f64::INFINITY);
    for alike in sorted.chunk_by(|a, b| a.duration_s == b.duration_s) {
        for job in alike {
            short.add(1.0, job.duration_s, share(job));
            long.add(-1.0, job.duration_s, share(job));
        }
        let theta_s = alike.first().map_or(0.0, |job| job.duration_s);
        let responses_s = responses_s(&short, &long, theta_s, span_s);
        if responses_s < best.0 {
            best = (responses_s, theta_s);
        }
    }
    best.1
}

/// The theta for a workload whose durations are known.
pub fn theta_of_s(workload: &Workload, gpus: usize) -> f64 {
    let ids = (0..workload.len() as u32).map(JobId);
    let length =
        |job| Length { duration_s: workload.duration_s(job), gpus: workload.shape(job).gpus() };
    let lengths: Vec<Length> = ids.clone().map(length).collect();
    let first_s = ids.clone().map(|job| workload.submit_s(job)).fold(f64::INFINITY, f64::min);
    let last_s = ids.map(|job| workload.submit_s(job)).fold(0.0, f64::max);
    best_theta_s(&lengths, (last_s - first_s).max(0.0), gpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Straight from the formula.
    fn mean_response_s(jobs: &[Length], span_s: f64, gpus: usize, theta_s: f64) -> f64 {
        let count = jobs.len() as f64;
        let work_s =
            |job: &Length, most_s: f64| job.duration_s.min(most_s) * job.gpus as f64 / gpus as f64;
        let mean = |most_s: f64, power| {
            jobs.iter().map(|job| work_s(job, most_s).powi(power)).sum::<f64>() / count
        };
        let rate = (count / span_s).min(MAX_LOAD / mean(f64::INFINITY, 1));
        let wait_s = |most_s| rate * mean(most_s, 2) / (2.0 * (1.0 - rate * mean(most_s, 1)));
        let response_s = |job: &Length| {
            if job.duration_s <= theta_s {
                wait_s(theta_s) + job.duration_s
            } else {
                (wait_s(f64::INFINITY) + job.duration_s) / (1.0 - rate * mean(theta_s, 1))
            }
        };
        jobs.iter().map(response_s).sum::<f64>() / count
    }

    proptest! {
        #[test]
        fn no_other_theta_is_better(
            lengths in proptest::collection::vec((1..1000_u32, 1..=8_usize), 1..40),
            span_s in 1.0..20_000.0_f64,
        ) {
            let lengths: Vec<Length> = lengths
                .into_iter()
                .map(|(seconds, gpus)| Length { duration_s: f64::from(seconds), gpus })
                .collect();
            let best = best_theta_s(&lengths, span_s, 8);
            let least_s = mean_response_s(&lengths, span_s, 8, best);
            for theta_s in 0..=1000 {
                let other_s = mean_response_s(&lengths, span_s, 8, f64::from(theta_s));
                prop_assert!(least_s <= other_s * (1.0 + 1e-9), "{} is better than {}", theta_s, best);
            }
        }
    }

    #[test]
    fn few_long_jobs_are_told_from_many_short_ones() {
        let mut lengths = vec![Length { duration_s: 10.0, gpus: 8 }; 90];
        lengths.extend([Length { duration_s: 1_000.0, gpus: 8 }; 1]);
        assert_eq!(best_theta_s(&lengths, 2_500.0, 8), 10.0);
        // Jobs that are all alike are not split, nor is what fits nowhere looked at.
        lengths.truncate(90);
        lengths.push(Length { duration_s: 1.0, gpus: 9 });
        assert_eq!(best_theta_s(&lengths, 1_000.0, 8), 10.0);
        assert_eq!(best_theta_s(&[], 0.0, 0), f64::INFINITY);
    }
}
