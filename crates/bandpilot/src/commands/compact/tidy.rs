//! Fewer partial hosts.

use std::collections::BTreeMap;

use bandpilot_core::HostId;
use bandpilot_fragmentation::{Goal, Instance, Occupancy, Plan, Price, Rules, Shift, Space};

/// At most so many partial hosts in a pool, or else as few as it goes: what is found is carried out and looked at again until nothing
/// more is found, so that there is nothing left to do afterwards.
pub fn tidy_pool(occupancy: &Occupancy, pool: usize, most: usize, price: &Price<'_>) -> Vec<Shift> {
    let mut occupancy = occupancy.clone();
    let mut shifts = Vec::new();
    loop {
        let space = Space::of(&occupancy, pool, Rules::Repaired);
        let now = space.partial();
        let plan = if now > most { fewer(&space, most, price) } else { None };
        let Some(plan) = plan.filter(|plan| plan.partial.1 < now) else { return net(&shifts) };
        for shift in &plan.shifts {
            carry_out(&mut occupancy, shift);
        }
        shifts.extend(plan.shifts);
    }
}

/// At most so many partial hosts, or else as few as putting the whole space in order leaves.
fn fewer(space: &Space, most: usize, price: &Price<'_>) -> Option<Plan> {
    space.plan(&Goal::Partial(most), price).or_else(|| {
        let mut ordered = space.clone();
        ordered.compact();
        space.plan(&Goal::Partial(ordered.partial().max(most)), price)
    })
}

fn carry_out(occupancy: &mut Occupancy, shift: &Shift) {
    let held = &mut occupancy.nodes[shift.from.index()].held;
    let leaves = |instance: &Instance| instance.job == shift.job && instance.gpus == shift.gpus;
    if let Some(at) = held.iter().position(leaves) {
        let instance = held.remove(at);
        occupancy.nodes[shift.to.index()].held.push(instance);
    }
}

/// What shifts that follow each other come to. Instances of a job that are alike stand in for each other.
fn net(shifts: &[Shift]) -> Vec<Shift> {
    // By job and size: how many more are on each host than before.
    let mut more: BTreeMap<(u32, usize), BTreeMap<HostId, i64>> = BTreeMap::new();
    for shift in shifts {
        let hosts = more.entry((shift.job, shift.gpus)).or_default();
        *hosts.entry(shift.from).or_default() -= 1;
        *hosts.entry(shift.to).or_default() += 1;
    }
    let mut net = Vec::new();
    for ((job, gpus), hosts) in more {
        let times = |sign: i64| {
            let of = hosts.iter().filter(move |(_, count)| **count * sign > 0);
            of.flat_map(|(host, count)| std::iter::repeat_n(*host, count.unsigned_abs() as usize))
        };
        net.extend(times(-1).zip(times(1)).map(|(from, to)| Shift { job, gpus, from, to }));
    }
    net
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_that_follow_each_other_become_one() {
        let shift = |gpus, from, to| Shift { job: 0, gpus, from: HostId(from), to: HostId(to) };
        assert_eq!(net(&[shift(4, 1, 2), shift(4, 2, 3)]), [shift(4, 1, 3)]);
        assert_eq!(net(&[shift(4, 1, 2), shift(4, 2, 1)]), []);
        assert_eq!(net(&[shift(4, 1, 2), shift(2, 2, 3)]), [shift(2, 2, 3), shift(4, 1, 2)]);
        assert_eq!(
            net(&[shift(1, 1, 2), shift(1, 3, 2), shift(1, 2, 4)]),
            [shift(1, 1, 2), shift(1, 3, 4)]
        );
    }
}
