use super::*;
use crate::Limit;
use crate::fixture::{NOW, World, ask, shown, total};
use crate::submit::RefusedKind;
use crate::submit::ask::{Features, GpuCount, Hosts, Memory};

#[expect(clippy::unnecessary_wraps, reason = "it stands where an option is wanted")]
fn hosts(least: usize, most: usize) -> Option<Hosts> {
    Some(Hosts { least, most })
}

fn after(jobs: &[u32], seconds: Option<i64>) -> Start {
    Start::After { jobs: jobs.to_vec(), at_s: seconds.map(|seconds| NOW + seconds) }
}

#[test]
fn a_free_host_is_planned_whole() {
    let planned = World::new(2).plan(&total(8)).unwrap();
    assert_eq!(shown(&planned), "h1:0-7");
    assert_eq!(planned.start, Start::Now);
    let part = &planned.layout.components[0];
    assert_eq!(part.gres(), (0..8).map(|g| format!("gpu:g{g}:1")).collect::<Vec<_>>().join(","));
    assert_eq!(
        (part.tasks_per_host, part.cpus_per_task, part.memory_mib_per_host),
        (1, None, Some(100))
    );
    assert_eq!((planned.layout.partition.as_str(), planned.layout.plan.id.as_str()), ("", "p"));
}

#[test]
fn uneven_hosts_are_components_in_the_order_of_hosts() {
    let mut world = World::new(3);
    world.runs(1, "h1:0-3 h3:0-5", None);
    let planned = world.plan(&total(14)).unwrap();
    assert_eq!(shown(&planned), "h1:4-7 h2:0-7 h3:6-7");
    assert_eq!(planned.layout.components.len(), 3);
    // Hosts that give the same are one component.
    let planned = World::new(3).plan(&Ask { hosts: hosts(3, 3), ..total(12) }).unwrap();
    assert_eq!(planned.layout.components.len(), 1);
    assert_eq!(planned.layout.components[0].hosts, ["h1", "h2", "h3"]);
}

#[test]
fn tasks_and_gpus_go_together() {
    let mut world = World::new(2);
    world.runs(1, "h1:0-2 h2:0-2", None);
    // Tasks of two GPUs: four of five on each host.
    let planned = world.plan(&Ask { tasks: Some(4), cpus_per_task: Some(3), ..total(8) }).unwrap();
    assert!(planned.layout.components.iter().all(|part| part.gpus.count() == 4));
    let part = &planned.layout.components[0];
    assert_eq!(
        (part.tasks_per_host, part.cpus_per_task, part.memory_mib_per_host),
        (2, Some(3), Some(600))
    );
    // Two tasks on every GPU.
    let planned = world.plan(&Ask { tasks: Some(10), ..total(5) }).unwrap();
    assert_eq!(planned.layout.components[0].tasks_per_host, 10);
    // CPUs by GPU are shared out over the tasks.
    let by_gpu =
        Ask { cpus_per_gpu: Some(4), tasks_per_host: Some(2), ..ask(GpuCount::PerHost(4)) };
    let planned = world.plan(&by_gpu).unwrap();
    assert_eq!(planned.layout.components[0].cpus_per_task, Some(8));
}

#[test]
fn as_many_hosts_as_the_range_allows() {
    let mut world = World::new(4);
    world.runs(1, "h4:0-4", None);
    let planned = world.plan(&Ask { hosts: hosts(2, 4), ..ask(GpuCount::PerHost(4)) }).unwrap();
    assert_eq!(planned.layout.plan.gpus.len(), 3);
    // At least two, though one host would be faster.
    let planned = world.plan(&Ask { hosts: hosts(2, 3), ..total(8) }).unwrap();
    assert!((2..=3).contains(&planned.layout.plan.gpus.len()), "{}", shown(&planned));
    world.partition(0).least_hosts = 2;
    world.partition(0).most_hosts = Some(3);
    assert_eq!(world.plan(&total(8)).unwrap().layout.plan.gpus.len(), 2);
    assert_eq!(
        world.plan(&Ask { hosts: hosts(4, 4), ..total(8) }).unwrap_err().constraint,
        "nodes"
    );
}

#[test]
fn named_hosts_are_all_used_and_no_others() {
    let mut world = World::new(4);
    let named = Ask { named_hosts: vec!["h4".into(), "h2".into()], ..total(6) };
    assert_eq!(world.plan(&named).unwrap().layout.plan.gpus.len(), 2);
    let more = Ask { hosts: hosts(3, 3), ..named.clone() };
    let refusal = world.plan(&more).unwrap_err();
    assert_eq!(refusal.kind, RefusedKind::Options);
    assert_eq!(refusal.message, "-w names 2 hosts and -N wants 3");
    world.runs(1, "h2:0-7", Some(60));
    assert_eq!(world.plan(&named).unwrap().start, after(&[1], Some(60)));
    let unknown = Ask { named_hosts: vec!["h9".into()], ..total(1) };
    assert_eq!(world.plan(&unknown).unwrap_err().message, "h9 is no host of the cluster");
}

#[test]
fn the_best_partition_and_one_set_of_features_are_taken() {
    let mut world = World::new(3);
    let mut small = world.site.partitions[0].clone();
    small.name = "small".into();
    small.default = false;
    small.hosts = vec!["h3".into()];
    world.site.partitions.push(small);
    world.runs(1, "h1:0-3 h2:0-3", None);
    let both = Ask { partitions: vec!["gpu".into(), "small".into()], ..total(8) };
    world.partition(0).hosts = vec!["h1".into(), "h2".into()];
    for host in ["h1", "h2", "h3"] {
        world.host(host).partitions.clear();
    }
    let planned = world.plan(&both).unwrap();
    assert_eq!((shown(&planned).as_str(), planned.layout.partition.as_str()), ("h3:0-7", "small"));
    // All hosts have to meet the same alternative.
    world.host("h1").features = vec!["a".into()];
    world.host("h2").features = vec!["b".into()];
    let either = |names: &[&str]| {
        names.iter().map(|name| Features(vec![vec![(*name).to_owned()]])).collect::<Vec<_>>()
    };
    let split = Ask { features: either(&["a", "b"]), ..total(4) };
    assert_eq!(world.plan(&split).unwrap().layout.plan.gpus.len(), 1);
    let refusal = world.plan(&Ask { features: either(&["a", "b"]), ..total(12) }).unwrap_err();
    assert_eq!(refusal.kind, RefusedKind::Impossible);
    assert!(refusal.hosts.contains(&("h2".into(), "lacks feature a".into())), "{refusal:?}");
}

#[test]
fn whole_hosts_must_be_idle() {
    let mut world = World::new(3);
    world.runs(1, "h1:7", Some(100)).computes(2, "h2", 4, 10, 50);
    let exclusive = Ask { exclusive: true, ..ask(GpuCount::PerHost(1)) };
    let planned = world.plan(&exclusive).unwrap();
    assert_eq!(shown(&planned), "h3:0");
    assert!(planned.layout.plan.whole_hosts);
    assert_eq!(planned.layout.components[0].memory_mib_per_host, None);
    let two = Ask { hosts: hosts(2, 2), ..exclusive.clone() };
    let planned = world.plan(&two).unwrap();
    assert_eq!((shown(&planned).as_str(), planned.start), ("h2:0 h3:0", after(&[2], Some(50))));
    world.partition(0).sharing = crate::site::Sharing::Exclusive;
    assert!(world.plan(&total(1)).unwrap().layout.plan.whole_hosts);
}

#[test]
fn a_full_cluster_is_planned_ahead() {
    let mut world = World::new(2);
    world.runs(1, "h1:0-7", Some(500)).runs(2, "h2:0-3", Some(100)).runs(3, "h2:4-7", Some(300));
    let planned = world.plan(&total(4)).unwrap();
    assert_eq!((shown(&planned).as_str(), planned.start), ("h2:0-3", after(&[2], Some(100))));
    let planned = world.plan(&total(8)).unwrap();
    assert_eq!((shown(&planned).as_str(), planned.start), ("h2:0-7", after(&[2, 3], Some(300))));
    let planned = world.plan(&total(16)).unwrap();
    assert_eq!(planned.start, after(&[1, 2, 3], Some(500)));
    let refusal = world.plan(&total(17)).unwrap_err();
    assert_eq!((refusal.kind, refusal.constraint.as_str()), (RefusedKind::Impossible, "gpus"));
    assert_eq!(refusal.possible, "at most 16 GPUs");
}

#[test]
fn jobs_without_a_limit_end_last_and_the_oldest_first() {
    let mut world = World::new(2);
    // The job of the higher id is older.
    world.runs(1, "h1:0-7", None).runs(5, "h2:0-7", None);
    let planned = world.plan(&total(8)).unwrap();
    assert_eq!((shown(&planned).as_str(), planned.start), ("h2:0-7", after(&[5], None)));
    let mut world = World::new(2);
    world.runs(1, "h1:0-7", Some(1_000_000)).runs(5, "h2:0-7", None);
    assert_eq!(world.plan(&total(8)).unwrap().start, after(&[1], Some(1_000_000)));
}

#[test]
fn cores_and_memory_are_waited_for_too() {
    let mut world = World::new(1);
    world.computes(1, "h1", 30, 1_000, 200);
    let wide = Ask { cpus_per_task: Some(4), ..total(2) };
    assert_eq!(world.plan(&wide).unwrap().start, after(&[1], Some(200)));
    let mut world = World::new(1);
    world.computes(1, "h1", 1, 60_000, 200);
    let large = Ask { memory: Memory::PerGpu(10_000), ..total(2) };
    assert_eq!(world.plan(&large).unwrap().start, after(&[1], Some(200)));
    let refusal = world.plan(&Ask { memory: Memory::PerHost(70_000), ..total(2) }).unwrap_err();
    assert_eq!(
        refusal.hosts,
        [("h1".to_owned(), "64000 MiB of memory in all: 1 GPU needs 70000 MiB".to_owned())]
    );
}

#[test]
fn claimed_gpus_are_left_to_those_who_wait_for_them() {
    let mut world = World::new(2);
    world.runs(1, "h1:0-3", Some(100)).waits(7, "h1", "0-7", Limit::Seconds(1_000));
    assert_eq!(shown(&world.plan(&total(4)).unwrap()), "h2:0-3");
    world.runs(2, "h2:0-7", Some(5_000));
    // Over before the other one starts.
    let short = Ask { time_limit: Limit::Seconds(60), ..total(4) };
    let planned = world.plan(&short).unwrap();
    assert_eq!((shown(&planned).as_str(), &planned.start), ("h1:4-7", &Start::Now));
    assert_eq!(planned.remarks.len(), 1, "{:?}", planned.remarks);
    // Too long for that: after it.
    let long = Ask { time_limit: Limit::Seconds(600), ..total(4) };
    assert_eq!(world.plan(&long).unwrap().start, after(&[1, 7], Some(1_100)));
    // One claim after another, the highest priority first.
    world.waits(8, "h1", "0-7", Limit::Seconds(2_000));
    assert_eq!(world.plan(&long).unwrap().start, after(&[1, 7, 8], Some(3_100)));
    // What is held waits for its owner.
    world.snapshot.jobs.iter_mut().filter(|job| job.id > 6).for_each(|job| job.priority = 0);
    assert_eq!(shown(&world.plan(&long).unwrap()), "h1:4-7");
}

#[test]
fn reservations_are_kept() {
    let mut world = World::new(3);
    world.reserve("maint", &["h1"], -10, 3_600).reserve("course", &["h2"], 7_200, 10_000);
    assert_eq!(shown(&world.plan(&total(8)).unwrap()), "h3:0-7");
    let short = Ask { time_limit: Limit::Seconds(7_200), ..total(16) };
    assert_eq!(shown(&world.plan(&short).unwrap()), "h2:0-7 h3:0-7");
    let long = Ask { time_limit: Limit::Seconds(8 * 3_600), ..total(16) };
    let planned = world.plan(&long).unwrap();
    assert_eq!(
        (shown(&planned).as_str(), planned.start),
        ("h1:0-7 h3:0-7", after(&[], Some(3_600)))
    );
    let inside = Ask { reservation: "maint".into(), time_limit: Limit::Seconds(60), ..total(2) };
    assert_eq!(shown(&world.plan(&inside).unwrap()), "h1:0-1");
    let inside = Ask { reservation: "course".into(), time_limit: Limit::Seconds(60), ..total(2) };
    assert_eq!(world.plan(&inside).unwrap().start, after(&[], Some(7_200)));
    let nowhere = Ask { reservation: "none".into(), ..total(2) };
    assert_eq!(world.plan(&nowhere).unwrap_err().possible, "maint, course");
}

#[test]
fn what_never_fits_is_refused_with_the_hosts() {
    let mut world = World::new(3);
    world.host("h1").flags.push("DRAIN".into());
    world.host("h1").reason = "fan".into();
    world.host("h2").gpus.iter_mut().for_each(|gpu| gpu.kind = None);
    let refusal = world.plan(&total(17)).unwrap_err();
    assert_eq!(refusal.hosts[0], ("h1".into(), "drained: fan".into()));
    assert!(refusal.hosts[1].1.contains("bandpilot slurm config"), "{refusal:?}");
    assert_eq!(
        refusal.message,
        "17 GPUs were asked for, but only 8 are on hosts that the job can use"
    );
    let named = Ask { gpu_model: Some("g3".into()), ..total(1) };
    assert_eq!(world.plan(&named).unwrap_err().kind, RefusedKind::NamesGpus);
    let model = Ask { gpu_model: Some("a100".into()), ..total(1) };
    assert_eq!(world.plan(&model).unwrap_err().constraint, "gpu-model");
    assert!(world.plan(&Ask { gpu_model: Some("h100".into()), ..total(1) }).is_ok());
}

#[test]
fn hosts_that_take_no_jobs_are_waited_for_where_nothing_else_will_do() {
    let mut world = World::new(2);
    let host = world.host("h1");
    host.flags.push("DRAIN".into());
    host.reason = "fan".into();
    let open = world.plan(&total(8)).unwrap();
    assert_eq!((shown(&open).as_str(), open.start), ("h2:0-7", Start::Now));
    let both = world.plan(&total(12)).unwrap();
    assert_eq!((both.layout.plan.gpus.len(), both.start), (2, after(&[], None)));
    assert_eq!(both.remarks, ["waits for h1, which takes no jobs now (drain: fan)"]);
    // No reason to wait is that what is free is too slow.
    world.wishes.min_busbw_gbytes_per_s = Some(1e6);
    assert_eq!(world.plan(&total(8)).unwrap_err().constraint, "min-busbw");
    world.wishes.min_busbw_gbytes_per_s = None;
    world.runs(7, "h2:0-7", Some(50));
    assert_eq!(world.plan(&total(12)).unwrap().start, after(&[7], None));
}

#[test]
fn a_partition_says_no() {
    type Change = fn(&mut crate::site::Partition);
    let cases: [(&str, Change, Ask); 5] = [
        ("partition", |p| p.state = "DOWN".into(), total(1)),
        ("partition", |p| p.wants_reservation = true, total(1)),
        (
            "account",
            |p| p.denied_accounts = vec!["a".into()],
            Ask { account: "a".into(), ..total(1) },
        ),
        (
            "account",
            |p| p.allowed_accounts = Some(vec!["b".into()]),
            Ask { account: "a".into(), ..total(1) },
        ),
        (
            "time",
            |p| p.max_time = Limit::Seconds(60),
            Ask { time_limit: Limit::Unlimited, ..total(1) },
        ),
    ];
    let mut world = World::new(1);
    let plain = world.site.clone();
    for (option, change, ask) in cases {
        world.site = plain.clone();
        change(world.partition(0));
        let refusal = world.plan(&ask).unwrap_err();
        assert_eq!((refusal.kind, refusal.constraint.as_str()), (RefusedKind::Options, option));
    }
    let other = Ask { partitions: vec!["cpu".into()], ..total(1) };
    assert_eq!(world.plan(&other).unwrap_err().possible, "gpu");
}

#[test]
fn a_limit_of_bandwidth_is_kept_or_refused() {
    let mut world = World::new(2);
    world.wishes.min_busbw_gbytes_per_s = Some(1e6);
    let refusal = world.plan(&total(16)).unwrap_err();
    assert_eq!((refusal.kind, refusal.constraint.as_str()), (RefusedKind::Impossible, "min-busbw"));
    world.wishes.min_busbw_gbytes_per_s = Some(1.0);
    assert!(world.plan(&total(16)).is_ok());
}

#[test]
fn many_hosts_and_jobs_are_planned_quickly() {
    let mut world = World::new(64);
    for id in 0..300_u32 {
        let host = 1 + id % 63;
        let gpu = id / 63;
        world.runs(
            id + 1,
            &format!("h{host}:{gpu} h{}:{}", host + 1, gpu),
            Some(i64::from(id) * 10 + 60),
        );
    }
    for gpus in [1, 8, 40, 100, 512] {
        let start = std::time::Instant::now();
        let planned = world.plan(&total(gpus)).unwrap();
        println!("{gpus} GPUs: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let given = planned.layout.plan.gpus.iter().map(|(_, mask)| mask.count());
        assert_eq!(given.sum::<usize>(), gpus);
        // The bound is 50 ms; a busy machine is given ten times as much.
        assert!(start.elapsed().as_millis() < 500);
    }
}
