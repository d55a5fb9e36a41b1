//! What is taken down of a run agrees with what became of its jobs.

use bandpilot_sim::policy::{ORDERS, PLACEMENTS};
use bandpilot_sim::series::Recorder;
use bandpilot_sim::{
    Broken, JobId, Options, Policy, Setting, Watcher, Workload, simulate, simulate_watched,
};
use proptest::prelude::*;

use crate::{hosts, play, trace};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn areas_are_those_of_the_jobs(
        jobs in proptest::collection::vec((0_u32..400, 1_u32..300, prop_oneof![1_u32..1000, (1_u32..20).prop_map(|gpus| 1000 * gpus)]), 1..60),
        policy in prop::sample::select(vec!["fifo/counting", "srtf/best-fit", "easy/packed", "srtf/random", "las/best-fit", "fifo-skip/fgd", "easy/repack", "fifo/drain"]),
    ) {
        let hosts = hosts(&[8, 4, 2]);
        let mut jobs = jobs;
        jobs.sort_unstable_by_key(|job| job.0);
        let workload = Workload::new(&crate::shares::trace(&jobs), &hosts);
        let options = Options::default();
        let setting = Setting::new(&hosts, &workload, &options, 1);
        let mut recorder = Recorder::new(&hosts);
        let outcome = simulate_watched(&setting, Policy::parse(policy).unwrap(), &mut recorder).unwrap();
        prop_assert_eq!(&outcome, &simulate(&setting, Policy::parse(policy).unwrap()).unwrap());
        let series = recorder.finish();
        let area = |means: &[f64]| -> f64 {
            let width = |bin: usize| (series.span_s - bin as f64 * series.bin_s).min(series.bin_s);
            means.iter().enumerate().map(|(bin, mean)| mean * width(bin)).sum()
        };
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.max(1.0);
        let (mut held, mut waited, mut waited_for) = (0.0, 0.0, 0.0);
        for (job, result) in (0..).map(JobId).zip(outcome.jobs()) {
            let Some(finish_s) = result.finish_s else { continue };
            let gpus = workload.shape(job).size_gpus();
            let wait_s = finish_s - workload.submit_s(job) - result.held_s;
            held += gpus * result.held_s;
            waited += wait_s;
            waited_for += wait_s * gpus;
        }
        prop_assert!(near(area(&series.held), held), "{} {}", area(&series.held), held);
        prop_assert!(near(area(&series.waiting), waited));
        prop_assert!(near(area(&series.waited_for), waited_for));
        if policy != "fifo/counting" && held > 0.0 {
            let by_host = [8.0, 4.0, 2.0].iter().zip(&series.hosts).map(|(gpus, row)| gpus * area(row));
            prop_assert!(near(by_host.sum(), held));
            prop_assert!(series.hosts.iter().flatten().all(|share| (0.0..=1.0 + 1e-12).contains(share)));
        } else {
            prop_assert!(held == 0.0 || series.hosts.is_empty());
        }
    }
}

/// Stops when so many jobs are done.
struct Until {
    jobs: usize,
    settled: usize,
}

impl Watcher for Until {
    fn settled(&mut self) {
        self.settled += 1;
    }

    fn stop(&mut self) -> bool {
        self.settled >= self.jobs
    }
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let hosts = hosts(&[8]);
    let workload = Workload::new(&trace(&[(0, 10, 8), (0, 10, 9), (0, 10, 8), (0, 10, 8)]), &hosts);
    let options = Options::default();
    let setting = Setting::new(&hosts, &workload, &options, 1);
    // The second one does not fit and is settled when it comes.
    for (jobs, settled) in [(0, 0), (1, 1), (3, 3), (5, 4)] {
        let mut until = Until { jobs, settled: 0 };
        let run = simulate_watched(&setting, Policy::parse("fifo/best-fit").unwrap(), &mut until);
        assert_eq!(until.settled, settled);
        let ended = run.map(|outcome| outcome.jobs().len());
        assert_eq!(ended, if jobs > 4 { Ok(4) } else { Err(Broken::Stopped) });
    }
}

#[test]
fn only_policies_that_draw_depend_on_the_seed() {
    let hosts = hosts(&[8, 8, 4]);
    let jobs: Vec<(u32, u32, u32)> =
        (0..80).map(|job| (job * 3, 20 + job * 31 % 90, 1 + job * 7 % 11)).collect();
    let workload = Workload::new(&trace(&jobs), &hosts);
    for order in &ORDERS {
        for placement in &PLACEMENTS {
            let policy = Policy { order, placement };
            let run = |seed| play(&hosts, &workload, &policy.to_string(), seed);
            // Rules that look at bandwidths cannot be made here.
            let (Ok(one), Ok(two)) = (run(1), run(2)) else { continue };
            assert_eq!(one != two, policy.seeded(), "{policy}");
        }
    }
}
