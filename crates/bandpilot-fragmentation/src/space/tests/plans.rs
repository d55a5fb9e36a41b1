//! Moves for a goal.

use proptest::prelude::*;

use super::properties::host;
use super::*;
use crate::space::{Goal, Plan, Price};

/// The state after a plan.
fn after(space: &Space, plan: &Plan) -> Space {
    let mut after = space.clone();
    for shift in &plan.shifts {
        after.take(shift.from.0, Instance { job: shift.job, gpus: shift.gpus, pinned: false });
    }
    for shift in &plan.shifts {
        after.put(shift.to.0, Instance { job: shift.job, gpus: shift.gpus, pinned: false });
    }
    after
}

#[test]
fn nothing_moves_for_what_fits() {
    let space = filled(8, &[8; 2], &[vec![4], vec![4]], Rules::Repaired);
    let plan = space.plan(&Goal::Fit(gang(90, 2, 4)), &Price::GPUS).unwrap();
    assert_eq!((plan.shifts, plan.cost), (vec![], 0.0));
}

#[test]
fn the_cheapest_instance_makes_room() {
    let held = [vec![4, 2], vec![4, 1], vec![2, 2, 1]];
    let space = filled(8, &[8; 3], &held, Rules::Repaired);
    // Eight GPUs are idle, 2 + 3 + 3; for four of them on one host the single GPU of host 1 or 2 goes to host 0.
    let plan = space.plan(&Goal::Fit(gang(90, 1, 4)), &Price::GPUS).unwrap();
    assert_eq!(plan.shifts, [shift(3, 1, 1, 0)]);
    assert_eq!((plan.cost, plan.gpus, plan.jobs.clone()), (1.0, 1, vec![3]));
    // If that one must stay it is the other one.
    let stays = |job, gpus| if job == 3 { f64::INFINITY } else { gpus as f64 };
    let price = Price { of: &stays, most: 1e9 };
    let plan = space.plan(&Goal::Fit(gang(90, 1, 4)), &price).unwrap();
    assert_eq!(plan.shifts, [shift(6, 1, 2, 0)]);
    let price = Price { of: &stays, most: 0.5 };
    assert_eq!(space.plan(&Goal::Fit(gang(90, 1, 4)), &price), None);
}

#[test]
fn a_whole_host_is_emptied_where_that_is_asked() {
    let held = [vec![4, 2], vec![4, 2], vec![2, 2]];
    let space = filled(8, &[8; 3], &held, Rules::Repaired);
    let plan = space.plan(&Goal::Fit(gang(90, 1, 8)), &Price::GPUS).unwrap();
    assert_eq!((plan.gpus, plan.shifts.len()), (4, 2));
    assert_eq!((plan.partial, plan.in_use), ((3, 0), (3, 2)));
    assert_eq!(space.plan(&Goal::Fit(gang(90, 2, 8)), &Price::GPUS), None);
}

#[test]
fn a_gang_that_moves_is_charged_as_a_whole() {
    let one = |job, gpus| Instance { job, gpus, pinned: false };
    let mut state = space(8, &[8; 4], Rules::Repaired).occupancy();
    // Half of a large gang is in the way on host 0, a job of its own on host 1.
    state.nodes[0].held = vec![one(0, 2), one(1, 4)];
    state.nodes[1].held = vec![one(2, 3), one(3, 3)];
    state.nodes[2].held = vec![one(0, 2), one(4, 4)];
    state.nodes[3].held = vec![one(0, 2), one(5, 1)];
    let space = Space::of(&state, 0, Rules::Repaired);
    let plan = space.plan(&Goal::Fit(gang(90, 1, 6)), &Price::GPUS).unwrap();
    assert_eq!((plan.jobs, plan.gpus), (vec![5], 1));
}

#[test]
fn so_many_partial_hosts_and_no_fewer() {
    let space = filled(8, &[8; 8], &vec![vec![4, 2]; 8], Rules::Repaired);
    for most in 0..8 {
        let plan = space.plan(&Goal::Partial(most), &Price::GPUS).unwrap();
        assert!(plan.partial.1 <= most, "{plan:?}");
        assert!(plan.shifts.len() <= 8 - most, "{plan:?}");
        sound(&after(&space, &plan), 48);
    }
    assert_eq!(space.plan(&Goal::Partial(0), &Price::GPUS).unwrap().shifts.len(), 6);
}

/// The fewest GPUs of whole jobs whose move makes room, each instance a job of its own, by trying all.
fn fewest(held: &[Vec<usize>], gpus: usize) -> Option<usize> {
    let jobs: Vec<(usize, usize)> = held
        .iter()
        .enumerate()
        .flat_map(|(host, held)| held.iter().map(move |gpus| (host, *gpus)))
        .collect();
    let mut best = None;
    for set in 0_u32..1 << jobs.len() {
        let moves = |at: &usize| set >> at & 1 == 1;
        let mut free = vec![8; held.len()];
        let (mut moving, mut cost) = (Vec::new(), 0);
        for (at, (host, gpus)) in jobs.iter().enumerate() {
            if moves(&at) {
                moving.push(*gpus);
                cost += gpus;
            } else {
                free[*host] -= gpus;
            }
        }
        moving.push(gpus);
        moving.sort_unstable();
        if best.is_none_or(|best| cost < best) && packs(&mut free, &moving) {
            best = Some(cost);
        }
    }
    best
}

fn packs(free: &mut Vec<usize>, sizes: &[usize]) -> bool {
    let Some((gpus, rest)) = sizes.split_last() else { return true };
    (0..free.len()).any(|host| {
        let alike = free[..host].contains(&free[host]);
        if free[host] < *gpus || alike {
            return false;
        }
        free[host] -= gpus;
        let packs = packs(free, rest);
        free[host] += gpus;
        packs
    })
}

proptest! {
    #[test]
    fn a_plan_reaches_its_goal_and_moves_nothing_in_vain(
        held in proptest::collection::vec(host(), 2..5),
        instances in 1_usize..3,
        gpus in 1_usize..=8,
        rest in 0_usize..4,
        partial in 0_usize..3,
    ) {
        let space = filled(8, &vec![8; held.len()], &held, Rules::Repaired);
        let gang = Gang { job: 1000, instances, gpus, rest: rest.min(gpus - 1) };
        for goal in [Goal::Fit(gang), Goal::Partial(partial)] {
            let Some(plan) = space.plan(&goal, &Price::GPUS) else { continue };
            let after = after(&space, &plan);
            sound(&after, space.used());
            prop_assert!(after.reached(&goal));
            prop_assert_eq!((after.partial(), after.in_use()), (plan.partial.1, plan.in_use.1));
            prop_assert_eq!(plan.shifts.is_empty(), space.reached(&goal));
        }
    }

    #[test]
    fn room_for_one_instance_costs_at_least_the_least_and_mostly_no_more(
        held in proptest::collection::vec(host(), 2..4),
        gpus in 2_usize..=8,
    ) {
        prop_assume!(held.iter().map(Vec::len).sum::<usize>() <= 10);
        let space = filled(8, &vec![8; held.len()], &held, Rules::Repaired);
        let plan = space.plan(&Goal::Fit(gang(1000, 1, gpus)), &Price::GPUS);
        let fewest = fewest(&held, gpus);
        if let Some(plan) = plan {
            prop_assert!(plan.gpus >= fewest.unwrap());
        }
    }
}

/// How often the planner finds a plan where there is one, and how often the cheapest.
#[test]
fn on_small_clusters_nine_plans_in_ten_are_found_and_nearly_all_are_cheapest() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_pcg::Pcg64::seed_from_u64(4);
    let (mut possible, mut found, mut cheapest) = (0, 0, 0);
    while possible < 200 {
        let mut host = || {
            let (mut used, mut held) = (0, Vec::new());
            while held.len() < 3 {
                let gpus = rng.random_range(1..=4);
                if used + gpus <= 8 {
                    used += gpus;
                    held.push(gpus);
                } else {
                    break;
                }
            }
            held
        };
        let held = [host(), host(), host(), host()];
        let gpus = rng.random_range(3..=8);
        let space = filled(8, &[8; 4], &held, Rules::Repaired);
        let wanted = gang(1000, 1, gpus);
        if space.physically_fits(&wanted) {
            continue;
        }
        let Some(fewest) = fewest(&held, gpus) else { continue };
        possible += 1;
        if let Some(plan) = space.plan(&Goal::Fit(wanted), &Price::GPUS) {
            found += 1;
            cheapest += usize::from(plan.gpus == fewest);
        }
    }
    assert!(
        found >= 180 && cheapest >= 170,
        "{found} found, {cheapest} of them cheapest, of {possible}"
    );
}
