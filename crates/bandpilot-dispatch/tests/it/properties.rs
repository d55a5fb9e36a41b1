//! What must hold between related scenarios.

use bandpilot_core::{ClusterState, GpuMask, HostId, Placement, RunningJob};
use bandpilot_dispatch::scene::CrossHostJob;
use bandpilot_dispatch::{Outcome, Scene, SearchOptions, scope, search};
use bandpilot_model::VirtualMerge;
use proptest::prelude::*;

use crate::scenario::Scenario;

fn optimum(scenario: &Scenario) -> Option<Outcome> {
    let predictor = scenario.predictor();
    let scope = scope::check(&scenario.cluster, &scenario.state, &scenario.request).ok()?;
    let contention = VirtualMerge;
    let scene = Scene::new(&predictor, &contention, &scenario.state);
    search(&scene, &scope, &scenario.request, &SearchOptions::default()).ok()
}

/// The same scenario with its hosts in reverse order under new names.
fn renamed(mut scenario: Scenario) -> Scenario {
    let last = scenario.cluster.hosts.len() - 1;
    let moved = |set: &Placement| {
        Placement::new(set.shares().iter().map(|(h, m)| (HostId(last as u32 - h.0), *m)))
    };
    scenario.cluster.hosts.reverse();
    scenario.state.free.reverse();
    for job in &mut scenario.state.jobs {
        job.placement = moved(&job.placement);
    }
    let names: Vec<String> = scenario.cluster.hosts.iter().map(|h| h.name.clone()).collect();
    for (index, host) in scenario.cluster.hosts.iter_mut().enumerate() {
        host.name = format!("renamed-{index}");
    }
    for entry in &mut scenario.model.local {
        if let Some(index) = names.iter().position(|name| *name == entry.host) {
            entry.host = format!("renamed-{index}");
        }
    }
    scenario
}

fn about(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * f64::max(a.abs(), 1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn renaming_hosts_changes_no_bandwidth(seed in any::<u64>()) {
        let before = optimum(&Scenario::new(seed));
        let after = optimum(&renamed(Scenario::new(seed)));
        prop_assert_eq!(before.is_some(), after.is_some());
        if let (Some(before), Some(after)) = (before, after) {
            prop_assert!(about(before.best.effective, after.best.effective));
            prop_assert!(about(before.best.harm, after.best.harm));
        }
    }

    #[test]
    fn one_more_free_gpu_never_lowers_the_optimum(seed in any::<u64>(), which in any::<usize>()) {
        let mut less = Scenario::new(seed);
        let free: Vec<(usize, usize)> = less
            .state
            .free
            .iter()
            .enumerate()
            .flat_map(|(host, mask)| mask.iter().map(move |gpu| (host, gpu)))
            .collect();
        prop_assume!(!free.is_empty());
        let more = optimum(&less);
        let (host, gpu) = free[which % free.len()];
        less.state.free[host] = less.state.free[host].without(GpuMask::single(gpu));
        if let Some(fewer) = optimum(&less) {
            let least = fewer.best.effective * (1.0 - 1e-9);
            prop_assert!(more.is_some_and(|more| more.best.effective >= least));

        }
    }

    #[test]
    fn releasing_a_job_lowers_no_prediction(seed in any::<u64>(), which in any::<usize>()) {
        let scenario = Scenario::new(seed);
        prop_assume!(!scenario.state.jobs.is_empty());
        let predictor = scenario.predictor();
        let contention = VirtualMerge;
        let gone = which % scenario.state.jobs.len();
        let jobs: Vec<RunningJob> = scenario
            .state
            .jobs
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != gone)
            .map(|(_, job)| job.clone())
            .collect();
        let released = ClusterState { free: scenario.state.free.clone(), jobs };
        let before = Scene::new(&predictor, &contention, &scenario.state);
        let after = Scene::new(&predictor, &contention, &released);
        for (at, job) in after.jobs().iter().enumerate() {
            let name = &released.jobs[job.index].name;
            let named = |j: &CrossHostJob| scenario.state.jobs[j.index].name == *name;
            let same = before.jobs().iter().position(named);
            prop_assert!(same.is_some_and(|same| after.before(at) >= before.before(same) - 1e-9));
        }
        let everything = Placement::new(
            scenario.cluster.host_ids().map(|h| (h, scenario.state.free[h.index()])),
        );
        let with = before.effective(&everything).effective;
        prop_assert!(after.effective(&everything).effective >= with - 1e-9);
    }

    #[test]
    fn the_same_question_gets_the_same_answer_bit_for_bit(seed in any::<u64>()) {
        prop_assert_eq!(optimum(&Scenario::new(seed)), optimum(&Scenario::new(seed)));
    }

    #[test]
    fn stopped_early_the_bound_still_holds(seed in any::<u64>(), steps in 0..40_u64) {
        let scenario = Scenario::new(seed);
        let predictor = scenario.predictor();
        let scope = scope::check(&scenario.cluster, &scenario.state, &scenario.request);
        prop_assume!(scope.is_ok());
        let contention = VirtualMerge;
        let scene = Scene::new(&predictor, &contention, &scenario.state);
        let hurried = SearchOptions { most_steps: steps, ..SearchOptions::default() };
        let scope = scope.unwrap();
        if let Ok(early) = search(&scene, &scope, &scenario.request, &hurried) {
            let best = optimum(&scenario).unwrap().best.effective;
            prop_assert!(early.best.effective <= best + 1e-9);
            prop_assert!(early.upper_bound.is_some_and(|bound| bound >= best * (1.0 - 1e-12)));
        }
    }
}
