use super::*;
use crate::fixture::{NOW, World, mask};

fn clock(world: &World) -> Clock {
    Clock::new(&world.snapshot, &world.site)
}

fn left(world: &World, from: i64, to: i64) -> (String, usize, u64, bool) {
    let left = clock(world).left(0, &world.snapshot.hosts[0], NOW + from, NOW + to, false);
    (left.gpus.to_string(), left.cpus, left.memory_mib, left.idle)
}

#[test]
fn what_jobs_hold_is_released_at_their_limits() {
    let mut world = World::new(1);
    world.runs(1, "h1:0-3", Some(100)).computes(2, "h1", 8, 5_000, 200);
    assert_eq!(left(&world, 0, 10), ("4-7".into(), 20, 58_600, false));
    assert_eq!(left(&world, 100, 110), ("0-7".into(), 24, 59_000, false));
    assert_eq!(left(&world, 200, 210), ("0-7".into(), 32, 64_000, true));
    assert_eq!(clock(&world).moments(&[]), [NOW + 100, NOW + 200]);
}

#[test]
fn what_nobody_is_known_to_hold_is_being_released() {
    let mut world = World::new(1);
    let host = world.host("h1");
    host.gpus[2].in_use = true;
    (host.cpus_in_use, host.memory_in_use_mib) = (32, 64_000);
    assert_eq!(left(&world, 0, 10), ("0-1,3-7".into(), 0, 0, false));
    assert_eq!(left(&world, 1, 10), ("0-7".into(), 32, 64_000, true));
    assert_eq!(clock(&world).moments(&[]), [NOW + 1]);
    // A job whose GPUs are not told may hold it.
    world.runs(1, "h1:0", Some(100));
    world.snapshot.jobs[0].unnamed_gpus = 1;
    assert_eq!(left(&world, 1, 10).0, "1,3-7");
    assert_eq!(left(&world, 100, 110).0, "0-7");
}

#[test]
fn overdue_and_completing_jobs_still_hold_what_they_have() {
    let mut world = World::new(1);
    world.runs(1, "h1:0", Some(-50)).runs(2, "h1:1", Some(500)).runs(3, "h1:2", Some(500));
    world.snapshot.jobs[1].state = JobState::Completing;
    world.snapshot.jobs[2].state = JobState::Suspended;
    assert_eq!(left(&world, 0, 10).0, "3-7");
    assert_eq!(left(&world, 1, 10).0, "0-1,3-7");
    assert_eq!(known(clock(&world).stays(0)[2].to), None);
}

#[test]
fn claims_follow_one_another() {
    let mut world = World::new(2);
    world.runs(1, "h1:0", Some(100));
    world.waits(5, "h[1-2]", "0-1", Limit::Seconds(50)).waits(6, "h1", "1-2", Limit::Seconds(30));
    world.waits(7, "h1", "7", Limit::Unset);
    let claims: Vec<(u32, i64, Option<i64>)> = clock(&world).stays(0)[1..]
        .iter()
        .map(|stay| (stay.job, stay.from - NOW, known(stay.to).map(|to| to - NOW)))
        .collect();
    assert_eq!(claims, [(5, 100, Some(150)), (6, 150, Some(180)), (7, 0, None)]);
    assert_eq!(left(&world, 0, 10).0, "1-6");
    assert_eq!(left(&world, 0, 101).0, "2-6");
    let yields = clock(&world).left(0, &world.snapshot.hosts[0], NOW, NOW + 10, true);
    assert_eq!(yields.gpus, mask("3-6"));
    // The limit of the partition counts where the job has none; one that comes later claims later.
    world.partition(0).default_time = Limit::Seconds(40);
    world.snapshot.jobs[3].eligible_s = Some(NOW + 1_000);
    let stay = clock(&world).stays(0)[3].clone();
    assert_eq!((stay.from, stay.to), (NOW + 1_000, NOW + 1_040));
}

#[test]
fn who_leaves_a_choice_to_slurm_claims_nothing() {
    let mut world = World::new(1);
    for (hosts, kinds) in [("h1", "gres:gpu:2"), ("h1", "gres:gpu:g0:2"), ("h9", "gres:gpu:g0:1")] {
        world.waits(5, "h1", "0", Limit::Unset);
        let request = &mut world.snapshot.jobs[0].request;
        hosts.clone_into(&mut request.named_hosts);
        kinds.clone_into(&mut request.tres_per_host);
        assert!(clock(&world).stays(0).is_empty(), "{hosts} {kinds}");
        world.snapshot.jobs.clear();
    }
}
