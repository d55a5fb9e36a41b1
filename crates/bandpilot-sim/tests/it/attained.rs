//! Orders by attained service and by age: a plain counting model, what it says of small random traces, and the figures of the
//! public Tiresias simulator.

use std::fmt::Write as _;

use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::{
    Costs, FaultRates, Hosts, Metrics, Options, Outcome, Policy, Setting, Workload, simulate,
    simulate_with,
};
use proptest::prelude::*;

use crate::reference::{digits, load};
use crate::runs::Shared;
use crate::{finishes, hosts, trace};

type Job = (u32, u32, u32);

/// A multiple of 1 to 12: such a number of GPU-seconds is a whole number of seconds for so many GPUs.
const WHOLE: i64 = 27_720;

fn run_with(hosts: &Hosts, trace: &Trace, policy: &str, options: &Options) -> (Outcome, Metrics) {
    let workload = Workload::new(trace, hosts);
    let setting = Setting::new(hosts, &workload, options, 1);
    let outcome = simulate(&setting, Policy::parse(policy).unwrap()).unwrap();
    let metrics = Metrics::new(&workload, &outcome);
    (outcome, metrics)
}

/// What a level is, and how jobs come from one to the next.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Whoever fits starts; jobs sink when they cross a threshold.
    Las,
    /// The same with the two peculiarities of the Tiresias simulator.
    Tiresias,
    /// The first waiting one blocks; thresholds are in seconds.
    TwoStage,
}

struct Model<'a> {
    rule: Rule,
    jobs: &'a [Job],
    thresholds: &'a [i64],
    lines: Vec<Vec<usize>>,
    level: Vec<usize>,
    runs: Vec<bool>,
    held: Vec<i64>,
    finish: Vec<i64>,
    preemptions: u64,
}

impl<'a> Model<'a> {
    fn new(rule: Rule, jobs: &'a [Job], thresholds: &'a [i64]) -> Self {
        Self {
            rule,
            jobs,
            thresholds,
            lines: vec![Vec::new(); thresholds.len() + 1],
            level: vec![0; jobs.len()],
            runs: vec![false; jobs.len()],
            held: vec![0; jobs.len()],
            finish: vec![-1; jobs.len()],
            preemptions: 0,
        }
    }

    fn gpus(&self, job: usize) -> i64 {
        i64::from(self.jobs[job].2)
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(|job| self.runs[*job])
    }

    /// GPUs that service is counted in.
    fn weight(&self, job: usize) -> i64 {
        if self.rule == Rule::TwoStage { 1 } else { self.gpus(job) }
    }

    /// Time until something happens to a running job: it ends, or crosses a threshold.
    fn next(&self, job: usize) -> (i64, i64) {
        let end = i64::from(self.jobs[job].1) - self.held[job];
        let cross = self.thresholds.get(self.level[job]).map_or(i64::MAX / 2, |threshold| {
            let weight = if self.rule == Rule::Tiresias { 1 } else { self.weight(job) };
            let missing = threshold - self.held[job] * weight;
            missing.div_euclid(self.weight(job)) + i64::from(missing % self.weight(job) > 0)
        });
        (end, cross)
    }

    fn move_to(&mut self, job: usize, level: usize) {
        for line in &mut self.lines {
            line.retain(|other| *other != job);
        }
        if let Some(line) = self.lines.get_mut(level) {
            line.push(job);
        }
        self.level[job] = level;
    }

    fn pass(&mut self, mut free: i64) {
        for line in self.lines.clone() {
            let mut blocked = false;
            for job in line {
                let runs = self.gpus(job) <= free && (self.runs[job] || !blocked);
                blocked |= !runs && self.rule == Rule::TwoStage;
                free -= if runs { self.gpus(job) } else { 0 };
                self.preemptions += u64::from(self.runs[job] && !runs);
                self.runs[job] = runs;
            }
        }
        for line in &mut self.lines {
            if self.rule == Rule::TwoStage {
                line.sort_unstable();
            } else {
                // Stable: those that run stand first.
                line.sort_by_key(|job| !self.runs[*job]);
            }
        }
    }

    fn play(mut self, gpus: i64) -> (Vec<i64>, u64) {
        let (mut arrived, mut now) = (0, 0);
        loop {
            let arrival = self.jobs.get(arrived).map(|job| i64::from(job.0) - now);
            let times: Vec<(i64, i64)> = self.running().map(|job| self.next(job)).collect();
            let end = times.iter().map(|(end, _)| *end).min();
            let cross = times.iter().map(|(_, cross)| *cross).min();
            let Some(step) = [arrival, end, cross].into_iter().flatten().min() else { break };
            now += step;
            for job in self.running().collect::<Vec<_>>() {
                self.held[job] += step;
                if self.held[job] == i64::from(self.jobs[job].1) {
                    self.finish[job] = now;
                    self.runs[job] = false;
                    self.move_to(job, usize::MAX);
                }
            }
            while self.jobs.get(arrived).is_some_and(|job| i64::from(job.0) == now) {
                self.move_to(arrived, 0);
                arrived += 1;
            }
            for job in self.running().collect::<Vec<_>>() {
                let (level, service) = (self.level[job], self.held[job] * self.weight(job));
                if self.thresholds.get(level).is_some_and(|threshold| service >= *threshold) {
                    self.move_to(job, level + 1);
                }
            }
            if self.rule == Rule::TwoStage {
                self.lines.iter_mut().for_each(|line| line.sort_unstable());
            }
            self.pass(gpus);
        }
        (self.finish, self.preemptions)
    }
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (0..60_000_u32, 0..30_000_u32, 1..=12_u32);
    proptest::collection::vec(job, 1..60).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.0);
        jobs
    })
}

/// Compares an order with the model, with a count of GPUs and with concrete ones on one host.
fn compare(
    rule: Rule,
    order: &str,
    jobs: &[Job],
    gpus: u32,
    thresholds: &[i64],
    options: &Options,
) -> Result<(), TestCaseError> {
    let (hosts, trace) = (hosts(&[gpus as usize]), trace(jobs));
    let (finish, preemptions) = Model::new(rule, jobs, thresholds).play(i64::from(gpus));
    let expected: Vec<Option<f64>> = finish.iter().map(|end| Some(*end as f64)).collect();
    for placement in ["counting", "compact", "best-fit"] {
        let (outcome, metrics) = run_with(&hosts, &trace, &format!("{order}/{placement}"), options);
        prop_assert_eq!(finishes(&outcome), expected.clone(), "{}/{}", order, placement);
        let (least, exact) = (preemptions, placement == "counting");
        let preempted = metrics.preemptions + metrics.migrations;
        prop_assert!(
            preempted == least || !exact && preempted > least,
            "{}/{}: {} of {}",
            order,
            placement,
            preempted,
            least
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn las_does_what_the_model_does(
        jobs in jobs(),
        gpus in 12..40_u32,
        first in 1..6_i64,
        more in proptest::collection::vec(1..6_i64, 0..3),
    ) {
        let sum = |sum: &mut i64, more: &i64| { *sum += more; Some(*sum * WHOLE) };
        let thresholds: Vec<i64> = [first].iter().chain(&more).scan(0, sum).collect();
        let las_thresholds_gpu_s = thresholds.iter().map(|threshold| *threshold as f64).collect();
        let options = Options { las_thresholds_gpu_s, ..Options::default() };
        compare(Rule::Las, "las", &jobs, gpus, &thresholds, &options)?;
    }

    #[test]
    fn two_stage_does_what_the_model_does(jobs in jobs(), gpus in 12..40_u32, theta in 1..20_000_u32) {
        let options = Options { two_stage_theta_s: Some(f64::from(theta)), ..Options::default() };
        compare(Rule::TwoStage, "two-stage", &jobs, gpus, &[i64::from(theta)], &options)?;
        // With one stage it is first come, first served.
        let options = Options { two_stage_theta_s: Some(f64::INFINITY), ..Options::default() };
        let (hosts, trace) = (hosts(&[gpus as usize]), trace(&jobs));
        let (two_stage, _) = run_with(&hosts, &trace, "two-stage/best-fit", &options);
        prop_assert_eq!(two_stage, run_with(&hosts, &trace, "fifo/best-fit", &options).0);
    }

    /// Whole seconds, and priorities and ages that often come out level.
    #[test]
    fn priority_is_fifo_by_age_and_level(
        mut jobs in proptest::collection::vec((0..60_u32, 0..30_u32, 1..=12_u32, -3..4_i32), 1..60),
        gpus in 12..40_u32,
        aging in 0..30_u32,
    ) {
        jobs.sort_by_key(|job| job.0);
        let mut text = "submit_s,duration_s,gpus,priority\n".to_owned();
        for (submit_s, duration_s, gpus, priority) in &jobs {
            writeln!(text, "{submit_s},{duration_s},{gpus},{priority}").unwrap();
        }
        let trace = trace_file::read(&text).value;
        let hosts = hosts(&[gpus as usize]);
        // 0 stands for no aging.
        let aging_s = if aging == 0 { f64::INFINITY } else { f64::from(aging) };
        let options = Options { aging_s, ..Options::default() };
        let finish = by_priority(&jobs, gpus, aging);
        for placement in ["counting", "best-fit"] {
            let policy = format!("priority/{placement}");
            let (outcome, metrics) = run_with(&hosts, &trace, &policy, &options);
            prop_assert_eq!(finishes(&outcome), finish.clone(), "{}", placement);
            prop_assert_eq!(metrics.preemptions, 0);
        }
    }
}

/// At each instant the waiting job with the greatest priority + waiting time / aging is looked at anew.
fn by_priority(jobs: &[(u32, u32, u32, i32)], gpus: u32, aging: u32) -> Vec<Option<f64>> {
    let mut finish = vec![None; jobs.len()];
    let mut waits: Vec<usize> = Vec::new();
    let mut runs: Vec<(u32, usize)> = Vec::new();
    let (mut arrived, mut free) = (0, gpus);
    loop {
        let arrival = jobs.get(arrived).map(|job| job.0);
        let end = runs.iter().map(|(end, _)| *end).min();
        let Some(now) = [arrival, end].into_iter().flatten().min() else { return finish };
        for (end, job) in runs.extract_if(.., |(end, _)| *end == now) {
            finish[job] = Some(f64::from(end));
            free += jobs[job].2;
        }
        while jobs.get(arrived).is_some_and(|job| job.0 == now) {
            waits.push(arrived);
            arrived += 1;
        }
        let rank = |job: &usize| {
            let age = i64::from(now - jobs[*job].0);
            let priority = i64::from(jobs[*job].3);
            let rank = if aging == 0 { priority } else { priority * i64::from(aging) + age };
            (std::cmp::Reverse(rank), *job)
        };
        while let Some(first) = waits.iter().copied().min_by_key(rank)
            && jobs[first].2 <= free
        {
            free -= jobs[first].2;
            waits.retain(|job| *job != first);
            runs.push((now + jobs[first].1, first));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The world checks conservation itself, also where rates change, hosts fail and thresholds fall between whole seconds.
    #[test]
    fn concrete_gpus_changing_rates_and_faults(
        jobs in proptest::collection::vec((0..60_u32, 0..30_u32, 1..40_u32), 1..60),
        gpus in proptest::collection::vec(1..=9_usize, 1..6),
        threshold in 1.0..100.0_f64,
    ) {
        let (hosts, trace) = (hosts(&gpus), trace(&jobs));
        let workload = Workload::new(&trace, &hosts);
        let options = Options {
            las_thresholds_gpu_s: vec![threshold, 2.5 * threshold, 7.0 * threshold],
            two_stage_theta_s: Some(threshold / 8.0),
            ..Options::default()
        };
        let faulty = Options {
            costs: Costs { restart_s: 2.5, migration_s: 1.0, checkpoint_s: 4.0 },
            faults: FaultRates { host_mtbf_s: 400.0, host_mttr_s: 20.0, ..FaultRates::default() },
            ..options.clone()
        };
        let setting = Setting::new(&hosts, &workload, &options, 1);
        for policy in ["las/first-fit", "las/best-fit", "las/random", "las/compact", "two-stage/best-fit", "two-stage/packed"] {
            let policy = Policy::parse(policy).unwrap();
            let scheduler = policy.scheduler(&setting).unwrap();
            let slowed = simulate_with(&setting, scheduler, &mut Shared::default()).unwrap();
            let steady = simulate(&setting, policy).unwrap();
            let done = Metrics::new(&workload, &steady);
            prop_assert_eq!(done.jobs + done.refused, jobs.len());
            prop_assert_eq!(Metrics::new(&workload, &slowed).jobs, done.jobs);
            let faulty = simulate(&Setting { options: &faulty, ..setting }, policy).unwrap();
            prop_assert_eq!(Metrics::new(&workload, &faulty).jobs, done.jobs);
        }
    }
}

#[test]
fn the_figures_of_tiresias_are_explained() {
    let name = "attained::the_figures_of_tiresias";
    let Some(trace) = load(name, "philly-vc-ee9e8c-1511.csv.gz") else { return };
    let jobs: Vec<Job> = trace
        .jobs
        .iter()
        .map(|job| (job.submit_s as u32, job.duration_s as u32, job.gpus))
        .collect();
    let figures = |rule| {
        let (finish, preemptions) = Model::new(rule, &jobs, &[3_250, 7_200]).play(128);
        let jct = |(finish, job): (&i64, &Job)| finish - i64::from(job.0);
        let mut jcts: Vec<i64> = finish.iter().zip(&jobs).map(jct).collect();
        let (sum, count) = (jcts.iter().sum::<i64>() as f64, jcts.len() as f64);
        let work: i64 = jobs.iter().map(|job| i64::from(job.1)).sum();
        jcts.sort_unstable();
        let makespan = finish.iter().max().unwrap() - i64::from(jobs[0].0);
        let (jct, wait) = (sum / count, (sum - work as f64) / count);
        format!("{jct:.2} {} {wait:.2} {makespan} {preemptions}", jcts[jcts.len() / 2])
    };
    // As the program prints them.
    assert_eq!(figures(Rule::Tiresias), "246863.56 51654 154523.33 8254962 1695");
    // In whole seconds, but in time.
    assert_eq!(figures(Rule::Las), "247559.08 46250 155218.85 8271684 1662");
    let hosts = hosts(&[8; 16]);
    let options = Options::default();
    for (policy, expected) in [
        ("las/counting", "247558.98 46249.25 155218.75 8271681.390625 1662"),
        // Theta is chosen to be 60,485 s.
        ("two-stage/counting", "321782.98 34948 229442.75 8066794 1300"),
        // The trace has no priorities: that is the row of fifo.
        ("priority/counting", "633446.48 732911 541106.25 8187156 0"),
    ] {
        let (_, metrics) = run_with(&hosts, &trace, policy, &options);
        assert_eq!(digits(&metrics, true), expected, "{policy}");
    }
}
