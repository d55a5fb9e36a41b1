//! Per cent of the exact optimum: medians over ten training draws.

use bandpilot_eval::{ClusterName, Mode, PolicyReport, Protocol, run};
use rayon::prelude::*;

use crate::{median, truth};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// bandpilot's report for every seed, by mode in the order of `Mode::ALL`.
fn reports(test: &str, cluster: ClusterName, train: usize) -> Option<Vec<Vec<PolicyReport>>> {
    let truth = truth(test, cluster)?;
    let by_seed: Vec<Vec<PolicyReport>> = SEEDS
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|seed| {
            let protocol = Protocol { train, repeats: 50, seed, modes: Mode::ALL.to_vec() };
            let report = run(&truth, &protocol, &|| 0.0, &mut |_, _| ());
            report.modes.into_iter().map(|mode| mode.policies[0].clone()).collect()
        })
        .collect();
    Some(by_seed)
}

/// `bars`: least median of (mean, 5th percentile) by mode.
fn check(test: &str, cluster: ClusterName, train: usize, bars: [(f64, f64); 3]) {
    let Some(by_seed) = reports(test, cluster, train) else { return };
    for (at, (mode, (mean_bar, p5_bar))) in Mode::ALL.into_iter().zip(bars).enumerate() {
        let mean = median(by_seed.iter().map(|modes| modes[at].mean).collect());
        let p5 = median(by_seed.iter().map(|modes| modes[at].p5).collect());
        println!("{test} {}: mean {mean:.3}, 5th percentile {p5:.3}", mode.name());
        assert!(
            mean >= mean_bar && p5 >= p5_bar,
            "{} {}: mean {mean:.3} (bar {mean_bar}), 5th percentile {p5:.3} (bar {p5_bar})",
            cluster.name(),
            mode.name()
        );
    }
}

#[test]
fn h100_with_95_training_vectors() {
    let bars = [(99.85, 99.5), (99.5, 97.5), (99.5, 97.5)];
    check("h100_with_95_training_vectors", ClusterName::H100, 95, bars);
}

#[test]
fn h100_with_no_training() {
    let bars = [(99.5, 0.0), (98.5, 0.0), (98.5, 0.0)];
    check("h100_with_no_training", ClusterName::H100, 0, bars);
}

#[test]
fn het_with_95_training_vectors() {
    let bars = [(99.9, 99.9), (99.8, 99.0), (99.8, 99.0)];
    check("het_with_95_training_vectors", ClusterName::Het, 95, bars);
}

/// A model that has seen every count vector must find the exact optimum: the search loses nothing.
#[test]
fn with_everything_measured_the_optimum_is_found() {
    let test = "with_everything_measured_the_optimum_is_found";
    let Some(truth) = truth(test, ClusterName::H100) else { return };
    let protocol = Protocol { train: 10_000, repeats: 10, seed: 3, modes: Mode::ALL.to_vec() };
    let report = run(&truth, &protocol, &|| 0.0, &mut |_, _| ());
    for mode in report.modes {
        assert!(mode.policies[0].min >= 100.0 - 1e-9, "{}: {:?}", mode.mode, mode.policies[0]);
    }
}

#[test]
fn the_synthetic_truths_run_without_data() {
    for cluster in [ClusterName::H100, ClusterName::Het] {
        let truth = cluster.synthetic();
        assert!(truth.source.contains("synthetic"));
        let protocol = Protocol { train: 95, repeats: 3, seed: 1, modes: Mode::ALL.to_vec() };
        let report = run(&truth, &protocol, &|| 0.0, &mut |_, _| ());
        for mode in report.modes {
            let [ours, balanced, ..] = mode.policies.as_slice() else { unreachable!() };
            assert!(ours.mean > 97.0 && ours.mean >= balanced.mean, "{}: {ours:?}", mode.mode);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let truth = ClusterName::H100.synthetic();
    let protocol = Protocol { train: 40, repeats: 2, seed: 9, modes: vec![Mode::Common] };
    let once = run(&truth, &protocol, &|| 0.0, &mut |_, _| ());
    assert_eq!(once, run(&truth, &protocol, &|| 0.0, &mut |_, _| ()));
}
