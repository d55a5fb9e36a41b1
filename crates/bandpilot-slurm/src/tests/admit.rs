use super::*;
use crate::Limit;
use crate::fixture::{World, ask, mask, total};
use crate::site::{Cores, Defaults};
use crate::submit::admissions;
use crate::submit::ask::{GpuCount, Hosts, Memory};

/// What `h1` could give to a job: its usable GPUs, how many of them, and why not all.
fn h1(world: &World, ask: &Ask) -> (String, usize, Option<String>) {
    let all = world.with(|given| admissions(given, ask)).unwrap();
    let host = all[0].1.iter().find(|host| host.host == "h1").unwrap();
    (host.usable.to_string(), host.gives, host.why.clone())
}

type Change = fn(&mut World);

/// Each reason: what is so, what is asked for, how many of the eight GPUs of `h1` can be had, and what is said.
type Case = (Change, Ask, usize, &'static str);

fn check(cases: Vec<Case>) {
    for (change, ask, gives, why) in cases {
        let mut world = World::new(2);
        change(&mut world);
        let (usable, given, said) = h1(&world, &ask);
        assert_eq!((given, said.as_deref().unwrap_or("")), (gives, why), "{usable}");
    }
}

#[test]
fn cores_are_counted() {
    check(vec![
        (|_| (), total(8), 8, ""),
        (
            |w| {
                w.computes(1, "h1", 16, 0, 60);
            },
            Ask { tasks: Some(8), cpus_per_task: Some(4), ..total(8) },
            4,
            "16 cores free of 32: 5 GPUs need 20",
        ),
        (
            |w| {
                w.computes(1, "h1", 16, 0, 60);
            },
            Ask { cpus_per_gpu: Some(4), ..total(8) },
            4,
            "16 cores free of 32: 5 GPUs need 20",
        ),
        (
            |w| w.host("h1").threads_per_core = 2,
            Ask { cpus_per_gpu: Some(5), ..total(8) },
            6,
            "32 cores in all: 7 GPUs need 36",
        ),
        (
            |w| w.site.config.consumable.cores = Cores::Uncounted,
            Ask { cpus_per_task: Some(33), ..total(8) },
            0,
            "32 cores in all: 1 GPU needs 33",
        ),
        (
            |w| w.partition(0).most_cpus_per_host = Some(8),
            Ask { cpus_per_gpu: Some(2), ..total(8) },
            4,
            "partition gpu gives 8 cores of a host: 5 GPUs need 10",
        ),
    ]);
}

#[test]
fn memory_is_counted() {
    check(vec![
        (
            |w| {
                w.computes(1, "h1", 1, 34_000, 60);
            },
            Ask { memory: Memory::PerGpu(10_000), ..total(8) },
            3,
            "30000 MiB of memory free of 64000: 4 GPUs need 40000 MiB",
        ),
        (
            |w| w.partition(0).defaults.most_memory_mib_per_host = Some(20_000),
            Ask { memory: Memory::PerGpu(10_000), ..total(8) },
            2,
            "partition gpu gives 20000 MiB of a host: 3 GPUs need 30000 MiB",
        ),
        (
            |w| w.partition(0).defaults.most_memory_mib_per_cpu = Some(1_000),
            Ask { memory: Memory::PerGpu(8_000), ..total(8) },
            4,
            "32 cores in all: 5 GPUs need 40",
        ),
        (
            |w| {
                w.site.config.defaults = Defaults::default();
                w.computes(1, "h1", 1, 10, 60);
            },
            total(8),
            0,
            "63990 MiB of memory free of 64000, and a job that names no memory gets all of it",
        ),
        (
            |w| {
                w.computes(1, "h1", 1, 10, 60);
            },
            Ask { memory: Memory::PerHost(0), ..total(8) },
            0,
            "63990 MiB of memory free of 64000, and the job wants all memory",
        ),
    ]);
}

#[test]
fn partitions_features_and_reservations_are_kept() {
    check(vec![
        (
            |w| {
                w.site.partitions[0].hosts.remove(0);
                w.host("h1").partitions.clear();
            },
            total(8),
            0,
            "not in partition gpu",
        ),
        (
            |_| (),
            Ask { features: vec![Features(vec![vec!["nvlink".into(), "x".into()]])], ..total(8) },
            0,
            "lacks feature nvlink or x",
        ),
        (
            |w| {
                w.reserve("maint", &["h1"], -1, 60);
            },
            total(8),
            0,
            "reserved by maint",
        ),
        (
            |w| {
                w.reserve("maint", &["h1"], 7_200, 9_000);
            },
            Ask { time_limit: Limit::Seconds(28_800), ..total(8) },
            0,
            "reservation maint begins in 2 h, before the job's limit of 8 h ends",
        ),
        (
            |w| {
                w.reserve("maint", &["h1"], 7_200, 9_000);
            },
            total(8),
            0,
            "reservation maint begins in 2 h, and the job has no time limit that is known",
        ),
        (
            |w| {
                w.reserve("maint", &["h1"], 7_200, 9_000);
                w.partition(0).default_time = Limit::Seconds(3_600);
            },
            total(8),
            8,
            "",
        ),
        (
            |w| {
                w.reserve("mine", &["h2"], -1, 60);
            },
            Ask { reservation: "mine".into(), ..total(8) },
            0,
            "not in reservation mine",
        ),
        (
            |w| {
                w.reserve("mine", &["h1"], -1, 60);
            },
            Ask { reservation: "mine".into(), time_limit: Limit::Seconds(90), ..total(8) },
            0,
            "reservation mine is over before the job's limit ends",
        ),
    ]);
}

#[test]
fn hosts_and_gpus_are_looked_at() {
    check(vec![
        (
            |w| {
                w.host("h1").flags = vec!["DRAIN".into()];
                w.host("h1").reason = "fan".into();
            },
            total(8),
            0,
            "drained: fan",
        ),
        (|w| w.host("h1").state = "DOWN".into(), total(8), 0, "down"),
        (|w| w.host("h1").flags = vec!["NOT_RESPONDING".into()], total(8), 0, "does not respond"),
        (
            |w| w.host("h1").gpus[1].kind = Some("g0".into()),
            total(8),
            0,
            "its GPUs have no gres type of their own, so a job cannot name them (`bandpilot slurm \
             config` writes what is needed)",
        ),
        (|_| (), Ask { excluded_hosts: vec!["h1".into()], ..total(8) }, 0, "excluded by -x"),
        (|_| (), Ask { named_hosts: vec!["h2".into()], ..total(8) }, 0, "not named by -w"),
        (
            |w| {
                w.runs(3, "h1:0-7", None);
            },
            total(8),
            0,
            "all GPUs are taken",
        ),
        (
            |w| {
                w.runs(3, "h1:0-1", None);
            },
            Ask { exclusive: true, ..total(8) },
            0,
            "not idle, and the job wants whole hosts: jobs 3",
        ),
        (
            |w| {
                w.waits(3, "h1", "0,5", Limit::Unset);
            },
            total(8),
            6,
            "job 3 waits for GPUs 0,5",
        ),
        (|_| (), ask(GpuCount::PerHost(2)), 2, "2 GPUs of a host are asked for"),
        (
            |w| {
                w.runs(3, "h1:0", None);
            },
            Ask { tasks: Some(3), ..total(9) },
            6,
            "hosts give a multiple of 3 GPUs",
        ),
        (|w| drop(w.cluster.hosts.remove(0)), total(8), 0, "not in the cluster file"),
    ]);
}

#[test]
fn what_is_not_healthy_is_not_free() {
    let mut world = World::new(2);
    world.cluster.hosts[0].unhealthy_gpus = mask("3");
    world.runs(1, "h1:0", None);
    assert_eq!(h1(&world, &total(1)), ("1-2,4-7".to_owned(), 6, None));
    let two = Ask { hosts: Some(Hosts { least: 2, most: 2 }), ..total(2) };
    assert_eq!(h1(&world, &two).1, 6);
}

#[test]
fn hosts_are_named_together() {
    let mut world = World::new(4);
    world.runs(1, "h2:0-7 h3:0-7", None).runs(2, "h4:0-3", None);
    let all = world.with(|given| admissions(given, &total(1))).unwrap();
    assert_eq!(by_reason(&all[0].1), [("h[2-3]".to_owned(), "all GPUs are taken".to_owned())]);
}

#[test]
fn times_are_said_as_people_do() {
    let said = [45, 120, 5_400, 7_200, 100_000, 172_800].map(span);
    assert_eq!(said, ["45 s", "2 min", "90 min", "2 h", "27 h", "2 days"]);
}
