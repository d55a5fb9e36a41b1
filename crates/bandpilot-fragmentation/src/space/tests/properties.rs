//! Properties of any state.

use proptest::prelude::*;

use super::*;

/// What may be on a host of eight: sizes that fit.
pub(super) fn host() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1_usize..=8, 0..6).prop_map(|sizes| {
        let mut used = 0;
        let fits = |gpus: &usize| {
            used += gpus;
            used <= 8
        };
        sizes.into_iter().take_while(fits).collect()
    })
}

/// Slots without fillers.
fn slots() -> impl Strategy<Value = Vec<usize>> {
    host().prop_map(|sizes| {
        let mut used = 0;
        let even = sizes.into_iter().filter(|gpus| [2, 4].contains(gpus));
        even.take_while(|gpus| {
            used += gpus;
            used <= 8
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn compaction_keeps_every_instance_whole_and_is_over_at_once(
        held in proptest::collection::vec(host(), 1..12),
        printed in any::<bool>(),
    ) {
        let rules = if printed { Rules::Printed } else { Rules::Repaired };
        let cells = vec![8; held.len()];
        let mut space = filled(8, &cells, &held, rules);
        let before: Vec<_> = space.jobs.values().flatten().map(|place| place.1).collect();
        let (gpus, partial) = (space.used(), space.partial());
        let mut replay = space.clone();
        let shifts = space.compact();
        sound(&space, gpus);
        let mut after: Vec<_> = space.jobs.values().flatten().map(|place| place.1).collect();
        let mut before = before;
        before.sort();
        after.sort();
        prop_assert_eq!(before, after);
        if printed {
            prop_assert!(space.partial() <= partial);
        } else {
            let (slotted, pools, _) = loose(&space);
            prop_assert!(slotted <= 1 && pools <= 1);
            prop_assert_eq!(space.compact(), []);
        }
        // The moves that were told lead to the same state.
        for shift in &shifts {
            replay.take(shift.from.0, Instance { job: shift.job, gpus: shift.gpus, pinned: false });
        }
        for shift in &shifts {
            replay.put(shift.to.0, Instance { job: shift.job, gpus: shift.gpus, pinned: false });
        }
        prop_assert_eq!(picture(&replay), picture(&space));
    }

    #[test]
    fn merging_moves_at_most_two_slots_for_each_host_but_one(
        held in proptest::collection::vec(slots(), 1..12),
    ) {
        let mut space = filled(8, &vec![8; held.len()], &held, Rules::Repaired);
        let loose_hosts = loose(&space).0;
        space.merge_pairs();
        prop_assert!(space.log.len() <= 2 * loose_hosts.saturating_sub(1));
        prop_assert!(loose(&space).0 <= 1);
    }

    #[test]
    fn a_gang_is_admitted_exactly_if_it_is_placed(
        held in proptest::collection::vec(host(), 1..6),
        instances in 0_usize..4,
        gpus in 1_usize..=8,
        rest in 0_usize..=8,
    ) {
        let mut space = filled(8, &vec![8; held.len()], &held, Rules::Repaired);
        let rest = if gpus > 1 { rest.min(gpus - 1) } else { 0 };
        let gang = Gang { job: 1000, instances, gpus, rest };
        let before = space.clone();
        let admitted = space.admits(&gang);
        let fits = space.physically_fits(&gang);
        prop_assert!(fits || !admitted);
        let start = space.log.len();
        let one_by_one = gang.sizes().all(|gpus| {
            let place = space.place_of(gpus, |_| true);
            place.inspect(|node| space.enter(super::super::place::new(&gang, gpus), *node)).is_some()
        });
        space.undo(start);
        prop_assert_eq!(admitted, one_by_one);
        prop_assert!(space == before);
        prop_assert_eq!(space.place_off_space(&gang).is_some(), fits);
    }

    #[test]
    fn a_space_is_what_its_state_says(held in proptest::collection::vec(host(), 1..8)) {
        let mut space = filled(8, &vec![8; held.len()], &held, Rules::Repaired);
        prop_assert!(Space::of(&space.occupancy(), 0, Rules::Repaired) == space);
        space.compact();
        prop_assert!(Space::of(&space.occupancy(), 0, Rules::Repaired) == space);
    }
}
