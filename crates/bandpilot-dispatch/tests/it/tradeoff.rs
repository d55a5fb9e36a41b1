//! The least fragmentation within a share of the best bandwidth, against brute force.

use std::collections::BTreeMap;

use bandpilot_core::{GpuMask, HostId, Placement};
use bandpilot_dispatch::limits::Limits;
use bandpilot_dispatch::{
    AnswerOptions, Fill, Least, Outcome, Scene, SearchOptions, dispatch, least_fragmentation,
    scope, search,
};
use bandpilot_fragmentation::{Census, Occupancy, least_partial};
use bandpilot_model::VirtualMerge;
use proptest::prelude::*;

use crate::oracle::{leaves_enough, meets, worth};
use crate::scenario::Scenario;

const SHARES: [f64; 4] = [0.0, 0.03, 0.1, 1.0];

/// (avoidable, partial, in use) by the definitions, with nothing of the code that is tested.
fn left(scenario: &Scenario, set: &Placement) -> (usize, usize, usize) {
    let Scenario { cluster, state, request, .. } = scenario;
    let (mut partial, mut in_use) = (0, 0);
    let mut pools: BTreeMap<(String, usize), (Vec<usize>, bool)> = BTreeMap::new();
    for host in cluster.host_ids() {
        let kind = cluster.type_of(host);
        let pool = (kind.gpu_model.clone(), kind.gpus);
        let (sizes, whole) = pools.entry(pool).or_insert((Vec::new(), true));
        let mine = set.on(host).count();
        let held: Vec<usize> =
            state.jobs.iter().map(|job| job.placement.on(host).count()).collect();
        let used = mine + held.iter().sum::<usize>();
        let free = state.free[host.index()].count() - mine;
        partial += usize::from(used > 0 && free > 0);
        in_use += usize::from(used > 0);
        *whole &= used + free == kind.gpus;
        sizes.extend(held.into_iter().filter(|gpus| *gpus > 0));
        sizes.extend(vec![request.multiple_of; mine / request.multiple_of]);
    }
    let least = pools.into_iter().map(|((_, host_gpus), (sizes, whole))| {
        if whole { least_partial(&Census::of(host_gpus, sizes)).partial } else { 0 }
    });
    (partial - least.sum::<usize>(), partial, in_use)
}

/// What a set is worth and leaves.
struct Valued {
    effective: f64,
    harm: f64,
    left: (usize, usize, usize),
}

/// All sets that meet the request.
fn all_sets(scenario: &Scenario, usable: &[GpuMask]) -> Vec<Valued> {
    let predictor = scenario.predictor();
    let gpus: Vec<(HostId, usize)> = scenario
        .cluster
        .host_ids()
        .flat_map(|host| usable[host.index()].iter().map(move |gpu| (host, gpu)))
        .collect();
    GpuMask::first(gpus.len())
        .subsets(scenario.request.gpus)
        .map(|all| Placement::new(all.iter().map(|i| (gpus[i].0, GpuMask::single(gpus[i].1)))))
        .filter(|set| meets(set, &scenario.request))
        .filter(|set| leaves_enough(&predictor, scenario, usable, set))
        .map(|set| {
            let (effective, harm) = worth(&predictor, &scenario.state, &set);
            Valued { effective, harm, left: left(scenario, &set) }
        })
        .collect()
}

/// Every tolerance, least first; nothing if there is no set.
fn solve(scenario: &Scenario, most_steps: u64) -> Option<(Outcome, Vec<Least>)> {
    let predictor = scenario.predictor();
    let scope = scope::check(&scenario.cluster, &scenario.state, &scenario.request).ok()?;
    let scene = Scene::new(&predictor, &VirtualMerge, &scenario.state);
    let limits = Limits::new(&scene, &scope, &scenario.request);
    let allowed = |set: &Placement| limits.allow(set);
    let options = SearchOptions { allowed: &allowed, ..SearchOptions::default() };
    let outcome = search(&scene, &scope, &scenario.request, &options).ok()?;
    let fill = Fill::new(&Occupancy::of(&scenario.cluster, &scenario.state));
    let (request, options) = (&scenario.request, SearchOptions { most_steps, ..options });
    let least = |share: &f64| {
        let floor = (1.0 - share) * outcome.best.objective;
        let known = Some(&outcome.best.placement);
        least_fragmentation(&scene, &scope, request, &fill, floor, known, &options).unwrap()
    };
    let least = SHARES.iter().map(least).collect();
    Some((outcome, least))
}

/// If something was found: whether it is proven for all tolerances, and whether 10 % leave less than the best set.
fn check(seed: u64, scenario: &Scenario) -> Option<(bool, bool)> {
    let (outcome, all) = solve(scenario, SearchOptions::default().most_steps)?;
    let scope = scope::check(&scenario.cluster, &scenario.state, &scenario.request).unwrap();
    let sets = all_sets(scenario, &scope.usable);
    let best = sets.iter().map(|set| set.effective).fold(0.0, f64::max);
    let about = |a: f64, b: f64| (a - b).abs() <= 1e-9 * f64::max(b.abs(), 1.0);
    assert!(about(outcome.best.effective, best), "seed {seed}");
    let limited = scenario.request.protect.is_some() || scenario.request.spare_hosts > 0;
    let mut proven = true;
    for (share, least) in SHARES.into_iter().zip(&all) {
        let what = format!("seed {seed}, {share}: {least:?}");
        let floor = (1.0 - share) * best * (1.0 - 1e-11);
        let enough = || sets.iter().filter(|set| set.effective >= floor);
        let expected = enough().map(|set| set.left).min().unwrap();
        let found = (least.left.avoidable, least.left.partial, least.left.in_use);
        assert_eq!(left(scenario, &least.found.placement), found, "{what}");
        assert!(least.found.effective >= floor, "{what}");
        assert!(meets(&least.found.placement, &scenario.request), "{what}");
        assert!(least.avoidable_bound.is_none_or(|bound| bound <= expected.0), "{what}");
        let (value, harm) = worth(&scenario.predictor(), &scenario.state, &least.found.placement);
        assert!(about(least.found.effective, value), "{what}");
        proven &= least.proven;
        if !least.proven {
            assert!(limited, "{what}");
            continue;
        }
        assert_eq!(found, expected, "{what}");
        let equal = || enough().filter(|set| set.left == expected);
        let most = equal().map(|set| set.effective).fold(0.0, f64::max);
        if !limited {
            let harms = equal().filter(|set| about(set.effective, most)).map(|set| set.harm);
            assert!(about(value, most), "{what}: {most}");
            assert!(harm <= harms.fold(f64::INFINITY, f64::min) + 1e-9, "{what}");
        }
    }
    for [less, more] in all.array_windows() {
        if less.proven && more.proven {
            let left =
                |least: &Least| (least.left.avoidable, least.left.partial, least.left.in_use);
            assert!(left(more) <= left(less), "seed {seed}: {less:?} {more:?}");
        }
    }
    let tenth = &all[2].left;
    let less =
        (tenth.avoidable, tenth.partial, tenth.in_use) < left(scenario, &outcome.best.placement);
    Some((proven, less))
}

#[test]
fn least_fragmentation_equals_brute_force_on_fixed_seeds() {
    let (mut found, mut proven, mut traded) = (0, 0, 0);
    for seed in 0..3_000 {
        let scenarios = [Scenario::new(seed), Scenario::varied(seed), Scenario::crowded(seed)];
        for scenario in scenarios {
            let outcome = check(seed, &scenario.restricted(seed));
            found += usize::from(outcome.is_some());
            proven += usize::from(outcome.is_some_and(|(proven, _)| proven));
            traded += usize::from(outcome.is_some_and(|(_, less)| less));
        }
    }
    assert!(found > 4_000 && proven * 100 > found * 99, "{proven} of {found}");
    assert!(traded > 150, "{traded}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn least_fragmentation_equals_brute_force(seed in any::<u64>()) {
        check(seed, &Scenario::new(seed).restricted(seed));
        check(seed, &Scenario::varied(seed));
        check(seed, &Scenario::crowded(seed));
    }

    /// With a floor of the bandwidth's low end besides.
    #[test]
    fn the_certificate_is_that_of_the_plain_answer(seed in any::<u64>(), x in 0..=20_u32, low in 0.0..1.0) {
        let mut scenario = Scenario::crowded(seed);
        let plain = |scenario: &Scenario, tradeoff| {
            let options = AnswerOptions { tradeoff, ..AnswerOptions::default() };
            dispatch(&scenario.predictor(), &scenario.state, &scenario.request, options).ok()
        };
        let Some(first) = plain(&scenario, None) else { return Ok(()) };
        scenario.request.min_busbw_gbytes_per_s = Some(low * first.grounds.low);
        let share = f64::from(x) / 100.0;
        let (best, traded) = (plain(&scenario, None).unwrap(), plain(&scenario, Some(share)).unwrap());
        let tradeoff = traded.tradeoff.unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
        prop_assert!(traded.grounds.low >= low * first.grounds.low - 1e-9);
        prop_assert!(near(traded.upper_bound.unwrap(), best.upper_bound.unwrap()));
        prop_assert!(traded.chosen.effective >= (1.0 - share) * best.chosen.effective - 1e-9);
        prop_assert!(near(tradeoff.best.effective, best.chosen.effective));
        prop_assert!(near(tradeoff.price, (best.chosen.effective - traded.chosen.effective).max(0.0)));
        let told = |told: bandpilot_dispatch::Fragmentation| (told.avoidable, told.partial, told.in_use);
        prop_assert_eq!(told(tradeoff.leaves), left(&scenario, &traded.chosen.placement));
        prop_assert_eq!(told(tradeoff.best_leaves), left(&scenario, &best.chosen.placement));
        prop_assert!(told(tradeoff.leaves) <= told(tradeoff.best_leaves));
    }

    #[test]
    fn stopped_early_it_is_no_worse_than_the_best_set_and_the_bound_holds(seed in any::<u64>(), steps in 0..60_u64) {
        let scenario = Scenario::crowded(seed);
        let Some((outcome, hurried)) = solve(&scenario, steps) else { return Ok(()) };
        let (_, all) = solve(&scenario, SearchOptions::default().most_steps).unwrap();
        for (hurried, least) in hurried.iter().zip(&all) {
            let best = left(&scenario, &outcome.best.placement);
            let found = (hurried.left.avoidable, hurried.left.partial, hurried.left.in_use);
            prop_assert!(found <= best);
            if let Some(bound) = hurried.avoidable_bound {
                prop_assert!(bound <= least.left.avoidable);
            }
            if hurried.proven {
                let least = (least.left.avoidable, least.left.partial, least.left.in_use);
                prop_assert_eq!(found, least);
            }
        }
    }
}
