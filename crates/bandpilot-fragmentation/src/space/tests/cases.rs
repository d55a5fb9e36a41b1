//! Cases made by hand.

use super::*;

fn gap_1(rules: Rules) -> (Space, Vec<Shift>) {
    let mut space = space(8, &[8; 4], rules);
    for job in 0..6 {
        space.arrive(&gang(job, 1, 1)).unwrap();
    }
    let two = space.arrive(&gang(6, 1, 2)).unwrap();
    let four = space.arrive(&gang(7, 1, 4)).unwrap();
    let last = space.arrive(&gang(8, 1, 4)).unwrap();
    assert!(two.shifts.is_empty() && four.shifts.is_empty());
    (space, last.shifts)
}

#[test]
fn gap_1_as_printed_leaves_three_partial_hosts_where_none_need_be() {
    let (space, shifts) = gap_1(Rules::Printed);
    assert_eq!(picture(&space), [vec![1; 6], vec![4, 2], vec![4], vec![]]);
    assert_eq!((space.partial(), space.used(), shifts), (3, 16, vec![]));
}

#[test]
fn gap_1_repaired_ends_with_two_by_one_move() {
    let (space, shifts) = gap_1(Rules::Repaired);
    let mut hosts = picture(&space);
    hosts.sort();
    assert_eq!(hosts, [vec![], vec![1; 6], vec![2], vec![4, 4]]);
    assert_eq!((space.partial(), space.used()), (2, 16));
    // The arrival itself may be put where it ends, so that the move is the other one's.
    assert!(shifts.len() <= 1, "{shifts:?}");
}

#[test]
fn gap_1_compacted_later_takes_one_move() {
    let held = [vec![1; 6], vec![4, 2], vec![4], vec![]];
    let mut space = filled(8, &[8; 4], &held, Rules::Repaired);
    let shifts = space.compact();
    assert_eq!(shifts.len(), 1, "{shifts:?}");
    assert_eq!(space.partial(), 2);
}

fn gap_2(rules: Rules) -> Space {
    let mut space = filled(8, &[8], &[vec![3, 4, 1]], rules);
    assert_eq!(space.depart(0), []);
    space
}

#[test]
fn gap_2_as_printed_leaves_a_filler_without_a_legal_place() {
    let space = gap_2(Rules::Printed);
    assert_eq!(space.place_of(1, |node| node != 0), None);
    assert_eq!((space.used(), space.state[0].orphans), (5, 1));
}

#[test]
fn gap_2_repaired_keeps_the_filler_as_an_orphan_until_it_has_a_place() {
    let mut space = gap_2(Rules::Repaired);
    assert_eq!((space.used(), space.state[0].orphans, space.state[0].residual), (5, 1, 3));
    // A slot that leaves a place for a filler takes it in.
    let arrival = space.arrive(&gang(9, 1, 2)).unwrap();
    assert_eq!((arrival.shifts.len(), space.state[0].residual), (0, 1));
    space.depart(9);
    space.depart(1);
    assert_eq!(space.state[0].kind, Kind::Pool);
}

#[test]
fn an_orphan_holds_back_no_more_than_its_gpu_as_printed_either() {
    let mut space = gap_2(Rules::Printed);
    assert!(space.arrive(&gang(9, 1, 4)).is_none());
    assert!(space.arrive(&gang(9, 1, 2)).is_some());
}

#[test]
fn eight_hosts_of_four_and_two_become_six_full_ones_by_six_moves() {
    let mut space = filled(8, &[8; 8], &vec![vec![4, 2]; 8], Rules::Repaired);
    let shifts = space.compact();
    assert_eq!(shifts.len(), 6, "{shifts:?}");
    let mut hosts = picture(&space);
    hosts.sort();
    let (empty, twos, fours) = (vec![], vec![4, 2, 2], vec![4, 4]);
    assert_eq!(hosts[..2], [empty.clone(), empty]);
    assert_eq!(hosts[2..6], vec![twos; 4]);
    assert_eq!(hosts[6..], vec![fours; 2]);
    assert_eq!(space.partial(), 0);
}

#[test]
fn orphans_of_two_hosts_are_exchanged_for_a_slot() {
    let mut space = filled(8, &[8; 2], &[vec![4, 2], vec![4, 1]], Rules::Repaired);
    let mut shifts = space.compact();
    shifts.sort_by_key(|shift| shift.gpus);
    assert_eq!(shifts.len(), 2);
    let mut hosts = picture(&space);
    hosts.sort();
    assert_eq!(hosts, [vec![2, 1], vec![4, 4]]);
}

#[test]
fn what_is_pinned_stays() {
    let mut space = filled(8, &[8; 2], &[vec![4], vec![4]], Rules::Repaired);
    let mut pinned = space.occupancy();
    pinned.nodes[0].held[0].pinned = true;
    space = Space::of(&pinned, 0, Rules::Repaired);
    assert_eq!(space.compact(), [shift(1, 4, 1, 0)]);
    pinned.nodes[1].held[0].pinned = true;
    space = Space::of(&pinned, 0, Rules::Repaired);
    assert_eq!(space.compact(), []);
}

#[test]
fn a_slot_takes_its_fillers_along_and_pinned_fillers_hold_their_slot() {
    let mut space = filled(8, &[8; 3], &[vec![3, 1], vec![3, 1], vec![8]], Rules::Repaired);
    assert_eq!(space.compact(), [shift(0, 3, 0, 1), shift(1, 1, 0, 1)]);
    let mut pinned = space.occupancy();
    pinned.nodes[1].held.clear();
    let one = |job, gpus, pinned| Instance { job, gpus, pinned };
    pinned.nodes[0].held = vec![one(0, 3, false), one(1, 1, true)];
    pinned.nodes[1].held = vec![one(2, 3, false), one(3, 1, true)];
    assert_eq!(Space::of(&pinned, 0, Rules::Repaired).compact(), []);
}

#[test]
fn a_refused_gang_leaves_no_trace() {
    for rules in [Rules::Printed, Rules::Repaired] {
        let mut space = filled(8, &[8; 3], &[vec![5, 1], vec![4, 2], vec![1, 1]], rules);
        let before = space.clone();
        assert!(space.arrive(&gang(90, 2, 5)).is_none());
        assert!(space.place(&gang(90, 3, 4)).is_none());
        assert!(space.place_off_space(&gang(90, 3, 6)).is_none());
        assert!(space == before);
    }
}

#[test]
fn fillers_that_are_pulled_make_a_host_for_the_next_instance() {
    let mut space = filled(8, &[8; 2], &[vec![1], vec![]], Rules::Repaired);
    let both = gang(90, 2, 7);
    assert!(!space.admits(&both));
    let arrival = space.arrive(&both).unwrap();
    assert_eq!(arrival.shifts.len(), 1);
    assert_eq!(picture(&space), [vec![7], vec![7, 1]]);
}

#[test]
fn off_the_space_hosts_become_mixed_and_are_parted_when_there_is_a_slot() {
    let mut space = filled(8, &[8; 2], &[vec![5], vec![4, 4]], Rules::Repaired);
    let two = gang(90, 1, 2);
    assert!(!space.admits(&two) && space.physically_fits(&two));
    space.place_off_space(&two).unwrap();
    assert_eq!(space.state[0].kind, Kind::Mixed);
    assert_eq!(space.compact(), []);
    assert_eq!(space.depart(1), [shift(90, 2, 0, 1)]);
    assert_eq!(loose(&space), (1, 0, 0));
}

#[test]
fn a_full_mixed_host_is_left_alone() {
    let mut space = filled(8, &[8; 2], &[vec![5, 3], vec![4]], Rules::Repaired);
    assert_eq!(space.compact(), []);
}

#[test]
fn a_host_with_broken_gpus_has_no_slot_of_full_width() {
    let mut space = space(8, &[7, 8], Rules::Repaired);
    assert_eq!(space.place(&gang(0, 1, 4)).unwrap(), [(HostId(0), 4)]);
    assert_eq!(space.place(&gang(1, 1, 2)).unwrap(), [(HostId(0), 2)]);
    assert_eq!(space.place(&gang(2, 1, 1)).unwrap(), [(HostId(0), 1)]);
    assert_eq!(space.place(&gang(3, 1, 7)).unwrap(), [(HostId(1), 7)]);
    let mut broken = self::space(8, &[7, 7], Rules::Repaired);
    assert!(!broken.admits(&gang(0, 1, 5)));
    assert!(broken.place_off_space(&gang(0, 1, 5)).is_some());
}

#[test]
fn the_smaller_instance_of_a_gang_counts_too() {
    let with_rest = |job, instances, gpus, rest| Gang { job, instances, gpus, rest };
    let mut space = space(8, &[8; 2], Rules::Repaired);
    assert!(space.admits(&with_rest(0, 1, 8, 8)));
    assert!(!space.admits(&with_rest(0, 2, 8, 2)));
    let placed = space.place(&with_rest(0, 1, 8, 3)).unwrap();
    assert_eq!(placed, [(HostId(0), 8), (HostId(1), 3)]);
    assert!(!space.admits(&with_rest(1, 1, 4, 2)));
    assert!(space.admits(&with_rest(1, 1, 4, 1)));
    assert!(!space.admits(&with_rest(1, 0, 4, 5)));
    assert!(space.place(&with_rest(1, 0, 0, 0)).is_some_and(|placed| placed.is_empty()));
}
