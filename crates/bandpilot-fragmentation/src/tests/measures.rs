//! The figures of hosts, by hand and kept up to date.

use bandpilot_core::HostId;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{Instance, Node, Occupancy, Pool, Proof, Tracker, measures};

/// Hosts of one pool, each with its usable GPUs and what is on it; below 0 stays where it is.
fn pool(host_gpus: usize, hosts: &[(usize, &[i32])]) -> Occupancy {
    let node = |(at, (cells, held)): (usize, &(usize, &[i32]))| Node {
        host: HostId(at as u32),
        pool: 0,
        cells: *cells,
        held: held
            .iter()
            .map(|gpus| Instance { job: 0, gpus: gpus.unsigned_abs() as usize, pinned: *gpus < 0 })
            .collect(),
    };
    Occupancy {
        pools: vec![Pool { gpu_model: "H100".into(), host_gpus }],
        nodes: hosts.iter().enumerate().map(node).collect(),
    }
}

/// Partial hosts, the least, those that are avoidable, hosts in use and the loss of empty hosts.
fn of_eight(hosts: &[&[i32]]) -> (usize, usize, usize, usize, usize) {
    let hosts: Vec<(usize, &[i32])> = hosts.iter().map(|held| (8, *held)).collect();
    let total = measures(&pool(8, &hosts)).total.figures;
    assert_eq!((total.least.proof, total.least_hosts.proof), (Proof::Exact, Proof::Exact));
    let loss = total.empty_host_loss();
    (total.partial, total.least.partial, total.avoidable(), total.in_use, loss)
}

#[test]
fn the_examples_of_the_method() {
    // Nothing else is possible.
    assert_eq!(of_eight(&[&[4], &[5], &[5]]), (3, 3, 0, 3, 0));
    // One move mends it.
    assert_eq!(of_eight(&[&[4], &[4], &[], &[]]), (2, 0, 2, 2, 1));
    // A repack makes one host full, but frees none.
    assert_eq!(of_eight(&[&[4], &[4, 2]]), (2, 1, 1, 2, 0));
    // The case that the printed algorithm leaves.
    assert_eq!(of_eight(&[&[1; 6], &[2, 4], &[4]]), (3, 0, 3, 3, 1));
    assert_eq!(of_eight(&[&[8], &[], &[8]]), (0, 0, 0, 2, 0));
    assert_eq!(of_eight(&[]), (0, 0, 0, 0, 0));
}

#[test]
fn shares_and_conditions() {
    let four = pool(8, &[(8, &[4]), (8, &[4]), (8, &[]), (8, &[])]);
    let total = measures(&four).total;
    assert_eq!((total.figures.sif(), total.figures.idle(), total.figures.gpus), (0.5, 24, 32));
    assert_eq!((total.figures.slack, total.figures.is_wide), (0, true));
    assert_eq!(total.movable(), 2);
    let forced = measures(&pool(8, &[(8, &[5])])).total.figures;
    assert_eq!((forced.slack, forced.is_wide, forced.avoidable()), (-3, false, 0));
    // Six is no power of two: slots of 4 leave gaps that nothing of one GPU is needed for.
    assert!(!measures(&pool(6, &[(6, &[4]), (6, &[4])])).total.figures.is_wide);
}

#[test]
fn pinned_instances_hold_their_hosts() {
    let movable = |hosts: &[(usize, &[i32])]| {
        let total = measures(&pool(8, hosts)).total;
        (total.figures.avoidable(), total.movable(), total.least_movable.proof)
    };
    assert_eq!(movable(&[(8, &[4]), (8, &[4])]), (2, 2, Proof::Exact));
    // The other one can still come.
    assert_eq!(movable(&[(8, &[-4]), (8, &[4])]), (2, 2, Proof::Exact));
    assert_eq!(movable(&[(8, &[-4]), (8, &[-4])]), (2, 0, Proof::Exact));
    // 2 and 6 would make one host full, if the 1 had another place than beside one of them.
    assert_eq!(movable(&[(8, &[-6]), (8, &[2, -1])]), (1, 1, Proof::Exact));
    assert_eq!(movable(&[(8, &[-6, -1]), (8, &[2])]), (1, 0, Proof::Exact));
}

#[test]
fn hosts_that_lack_gpus_are_full_with_what_they_have() {
    let total = measures(&pool(8, &[(7, &[4, 3]), (8, &[4]), (8, &[]), (0, &[])])).total.figures;
    assert_eq!((total.hosts, total.partial, total.least.partial), (3, 1, 1));
    assert_eq!((total.gpus, total.idle(), total.empty_host_loss()), (23, 12, 0));
    // A whole host that is not there does not count as a way out.
    let small = measures(&pool(8, &[(7, &[4]), (7, &[4])])).total.figures;
    assert_eq!((small.least.partial, small.least_hosts.hosts), (2, 2));
    let one = measures(&pool(8, &[(7, &[4]), (7, &[4]), (8, &[])])).total.figures;
    assert_eq!((one.least.partial, one.least_hosts.hosts), (0, 1));
}

#[test]
fn pools_do_not_help_each_other() {
    let mut both = pool(8, &[(8, &[4]), (8, &[4]), (4, &[3]), (4, &[1])]);
    both.pools.push(Pool { gpu_model: "V100".into(), host_gpus: 4 });
    both.nodes[1].pool = 1;
    both.nodes[1].cells = 4;
    both.nodes[2].pool = 1;
    both.nodes[3].pool = 1;
    let measures = measures(&both);
    let of = |pool: usize| {
        let figures = measures.pools[pool].figures;
        (figures.partial, figures.least.partial, figures.empty_host_loss())
    };
    assert_eq!((of(0), of(1)), ((1, 1, 0), (2, 0, 1)));
    let total = measures.total.figures;
    assert_eq!((total.hosts, total.avoidable(), total.empty_host_loss()), (4, 2, 1));
}

#[test]
fn a_tracker_says_at_every_event_what_measuring_anew_says() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for (sizes, narrow) in [(vec![1, 1, 1, 2, 4, 8], false), (vec![1, 2, 3, 5, 6, 7], true)] {
        let nothing: &[i32] = &[];
        let mut now = pool(8, &[(8, nothing); 12]);
        now.nodes[3].cells = 7;
        let mut tracker = Tracker::of(&now);
        let (mut wide, mut not) = (0, 0);
        for event in 0..400 {
            let at = random.random_range(0..12);
            let gpus = sizes[random.random_range(0..sizes.len())];
            let node = &mut now.nodes[at];
            if node.free() >= gpus {
                node.held.push(Instance { job: 0, gpus, pinned: false });
                tracker.take(at, gpus);
            } else if let Some(leaves) = node.held.pop() {
                tracker.give(at, leaves.gpus);
            }
            if event == 200 {
                let used = now.nodes[5].used();
                now.nodes[5].cells = used.max(1);
                tracker.set_cells(5, used.max(1));
                now.nodes[3].cells = 8;
                tracker.set_cells(3, 8);
            }
            let expected = measures(&now).total.figures;
            assert_eq!(tracker.total(), expected);
            assert_eq!(expected.partial, now.partial(0));
            assert_eq!(expected.in_use, now.in_use(0));
            wide += usize::from(expected.is_wide);
            not += usize::from(!expected.is_wide);
        }
        assert!(if narrow { not > 100 } else { wide > 100 }, "{wide} {not}");
    }
}
