//! The evaluation's optimum against the enumeration of every GPU set.

use bandpilot_core::{GpuMask, HostId, Placement};
use bandpilot_eval::oracle::{Case, effective, optimum};
use bandpilot_eval::protocol::cases;
use bandpilot_eval::{ClusterName, Mode};

use crate::truth;

fn enumerated(truth: &bandpilot_eval::Truth, case: &Case) -> f64 {
    let gpus: Vec<(HostId, usize)> = case
        .free
        .iter()
        .enumerate()
        .flat_map(|(host, mask)| mask.iter().map(move |gpu| (HostId(host as u32), gpu)))
        .collect();
    GpuMask::first(gpus.len())
        .subsets(case.gpus)
        .map(|subset| {
            let set =
                Placement::new(subset.iter().map(|i| (gpus[i].0, GpuMask::single(gpus[i].1))));
            effective(truth, case, &set)
        })
        .fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn optimum_equals_full_enumeration() {
    for cluster in [ClusterName::H100, ClusterName::Het] {
        let Some(truth) = truth("optimum_equals_full_enumeration", cluster) else { return };
        let mut seen = 0;
        for mode in Mode::ALL {
            for case in cases(mode, 12, 5) {
                let free: usize = case.free.iter().map(|mask| mask.count()).sum();
                if free > 15 {
                    continue;
                }
                seen += 1;
                let (best, set) = optimum(&truth, &case);
                assert!((best - enumerated(&truth, &case)).abs() < 1e-9, "{case:?}");
                assert!((effective(&truth, &case, &set) - best).abs() < 1e-9);
            }
        }
        assert!(seen > 30, "{seen}");
    }
}

#[test]
fn cases_are_what_the_protocol_says() {
    let all = cases(Mode::Common, 50, 1);
    assert_eq!(all.len(), 30 * 50);
    for case in &all {
        let free: usize = case.free.iter().map(|mask| mask.count()).sum();
        assert!((case.gpus..=32).contains(&free));
        assert_eq!(free + case.background.gpus(), 32);
        assert!((0.25..0.75).contains(&case.ratio));
    }
}
