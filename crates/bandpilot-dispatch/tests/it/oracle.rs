//! The search against brute force: every subset of the usable GPUs, valued by the formulas written out once more.

use bandpilot_core::{ClusterState, Demand, GpuMask, HostId, Placement, Request};
use bandpilot_dispatch::limits::Limits;
use bandpilot_dispatch::{Scene, SearchOptions, scope, search};
use bandpilot_model::{Predictor, VirtualMerge};
use proptest::prelude::*;

use crate::scenario::Scenario;

/// Effective bandwidth by the definition of virtual merge; `own` is what the set itself would use alone.
fn effective(
    predictor: &Predictor<'_>,
    set: &Placement,
    own: f64,
    others: &[(Placement, f64)],
) -> f64 {
    let mut capacity = f64::INFINITY;
    let mut demand = own;
    for (other, wants) in others {
        if set.is_cross_host() && other.is_cross_host() && set.shares_host_with(other) {
            let here = predictor.isolated(&set.merged_on_own_hosts(other));
            let there = predictor.isolated(&other.merged_on_own_hosts(set));
            capacity = capacity.min(here).min(there);
            demand += wants;
        }
    }
    if demand <= capacity { own } else { own.min(capacity * own / demand) }
}

fn running(predictor: &Predictor<'_>, state: &ClusterState) -> Vec<(Placement, f64)> {
    let demand = |job: &bandpilot_core::RunningJob| match job.demand {
        Demand::Fraction(share) => share * predictor.isolated(&job.placement),
        Demand::GBytesPerS(value) => value.min(predictor.isolated(&job.placement)),
    };
    state.jobs.iter().map(|job| (job.placement.clone(), demand(job))).collect()
}

/// (effective, harm) of a set.
pub fn worth(predictor: &Predictor<'_>, state: &ClusterState, set: &Placement) -> (f64, f64) {
    let jobs = running(predictor, state);
    let own = predictor.isolated(set);
    let value = effective(predictor, set, own, &jobs);
    let mut harm = 0.0;
    for (index, (job, wants)) in jobs.iter().enumerate() {
        let mut others = jobs.clone();
        others.remove(index);
        let before = effective(predictor, job, *wants, &others);
        others.push((set.clone(), own));
        let after = effective(predictor, job, *wants, &others);
        harm += (before - after).max(0.0);
    }
    (value, harm)
}

pub fn meets(set: &Placement, request: &Request) -> bool {
    let counts: Vec<usize> = set.shares().iter().map(|(_, mask)| mask.count()).collect();
    request.hosts.is_none_or(|k| k == counts.len())
        && request.max_hosts.is_none_or(|k| counts.len() <= k)
        && (!request.uniform || counts.iter().all(|c| *c == counts[0]))
        && counts.iter().all(|c| c % request.multiple_of == 0)
        && request.most_on_host.iter().all(|(host, most)| set.on(*host).count() <= *most)
}

/// The limits by their definition; the request may use these GPUs.
pub fn leaves_enough(
    predictor: &Predictor<'_>,
    scenario: &Scenario,
    usable: &[GpuMask],
    set: &Placement,
) -> bool {
    let Scenario { cluster, state, request, .. } = scenario;
    let jobs = running(predictor, state);
    let own = predictor.isolated(set);
    let protected = request.protect.is_none_or(|most| {
        jobs.iter().enumerate().all(|(index, (job, wants))| {
            let mut others = jobs.clone();
            others.remove(index);
            let before = effective(predictor, job, *wants, &others);
            others.push((set.clone(), own));
            let after = effective(predictor, job, *wants, &others);
            before <= 0.0 || 1.0 - after / before <= most + 1e-9
        })
    });
    let largest = set.shares().iter().map(|(_, mask)| mask.count()).max().unwrap();
    let used: Vec<_> = set.shares().iter().map(|(host, _)| cluster.host(*host).host_type).collect();
    let spares = cluster
        .host_ids()
        .filter(|host| set.on(*host).is_empty() && used.contains(&cluster.host(*host).host_type))
        .filter(|host| usable[host.index()].count() >= largest)
        .filter(|host| request.most_on_host.iter().all(|(h, most)| h != host || *most >= largest))
        .count();
    protected && spares >= request.spare_hosts
}

/// Best (effective, least harm among equals) over every subset.
fn brute_force(scenario: &Scenario) -> Option<(f64, f64)> {
    let predictor = scenario.predictor();
    let gpus: Vec<(HostId, usize)> = scenario
        .cluster
        .host_ids()
        .flat_map(|host| scenario.state.free[host.index()].iter().map(move |gpu| (host, gpu)))
        .collect();
    let mut best: Option<(f64, f64)> = None;
    for subset in GpuMask::first(gpus.len()).subsets(scenario.request.gpus) {
        let set = Placement::new(subset.iter().map(|i| (gpus[i].0, GpuMask::single(gpus[i].1))));
        if !meets(&set, &scenario.request)
            || !leaves_enough(&predictor, scenario, &scenario.state.free, &set)
        {
            continue;
        }
        let (value, harm) = worth(&predictor, &scenario.state, &set);
        let better = best.is_none_or(|(most, least)| {
            let tie = 1e-9 * f64::max(most, 1.0);
            value > most + tie || (value > most - tie && harm < least - 1e-9)
        });
        if better {
            best = Some((value, harm));
        }
    }
    best
}

fn check(seed: u64, scenario: &Scenario) {
    let predictor = scenario.predictor();
    let expected = brute_force(scenario);
    let scope = scope::check(&scenario.cluster, &scenario.state, &scenario.request);
    let Ok(scope) = scope else {
        assert_eq!(expected, None, "seed {seed}: refused although possible");
        return;
    };
    let contention = VirtualMerge;
    let scene = Scene::new(&predictor, &contention, &scenario.state);
    let limits = Limits::new(&scene, &scope, &scenario.request);
    let options = SearchOptions {
        runner_up: seed.is_multiple_of(2),
        allowed: &|set| limits.allow(set),
        ..SearchOptions::default()
    };
    let outcome = match search(&scene, &scope, &scenario.request, &options) {
        Ok(outcome) => outcome,
        Err(not_found) => {
            assert_eq!(expected, None, "seed {seed}: not found although there is one");
            assert!(limits.refusal(not_found.proven).is_some(), "seed {seed}");
            return;
        }
    };
    let (value, harm) = expected.unwrap();
    let best = &outcome.best;
    let about = |a: f64, b: f64| (a - b).abs() <= 1e-9 * f64::max(a.abs(), 1.0);
    assert!(
        about(best.effective, value),
        "seed {seed}: {} instead of {value}: {}",
        best.effective,
        best.placement.display(&scenario.cluster)
    );
    assert!(about(best.harm, harm) || best.harm < harm, "seed {seed}: harm {} {harm}", best.harm);
    // With limits a bound may count sets that are not allowed.
    assert!(outcome.upper_bound.unwrap() >= value - 1e-9, "seed {seed}");
    if limits.is_none() {
        assert!(outcome.proven && about(outcome.upper_bound.unwrap(), value), "seed {seed}");
    }
    assert!(meets(&best.placement, &scenario.request), "seed {seed}");
    assert_eq!(best.placement.gpus(), scenario.request.gpus);
    for (host, mask) in best.placement.shares() {
        assert!(mask.is_subset_of(scope.usable[host.index()]), "seed {seed}");
    }
    // What the search reports is what the definition says of the very set.
    let (again, harm_again) = worth(&predictor, &scenario.state, &best.placement);
    assert!(about(again, best.effective) && about(harm_again, best.harm), "seed {seed}");
    if let Some(second) = &outcome.runner_up {
        assert!(second.effective <= best.effective + 1e-9, "seed {seed}");
        assert!(about(worth(&predictor, &scenario.state, &second.placement).0, second.effective));
    }
}

#[test]
fn search_equals_brute_force_on_fixed_seeds() {
    for seed in 0..5_000 {
        check(seed, &Scenario::new(seed));
        check(seed, &Scenario::varied(seed));
    }
}

/// Seeds that once found a fault: unlike hosts of one type with tables of their own; a measured subset worth less than an
/// unmeasured one of equal local bandwidth; hosts of unlike sizes.
#[test]
fn search_equals_brute_force_where_it_once_did_not() {
    for seed in [312, 6_521, 3_301_476_010_503_169_522] {
        check(seed, &Scenario::new(seed));
        check(seed, &Scenario::varied(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn search_equals_brute_force(seed in any::<u64>()) {
        check(seed, &Scenario::new(seed));
        check(seed, &Scenario::varied(seed));
    }
}
