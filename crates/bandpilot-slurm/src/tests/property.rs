//! What holds of every plan, on random sites, by counting once more.

use bandpilot_core::{ClusterBuilder, GpuMask};
use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::fixture::{World, ask, mask, total};
use crate::submit::ask::{ArrayIndexes, Ask, GpuCount, Hosts, Memory};
use crate::submit::{Planned, RefusedKind, Start, admissions};
use crate::{JobState, Limit};

fn world(rng: &mut Pcg64) -> World {
    let cluster = ClusterBuilder::new("c");
    let cluster = match rng.random_range(0..3) {
        0 => cluster.host_type("dgx", "H100", 8).nvswitch().rails(400.0),
        1 => cluster.host_type("pcie", "A6000", 4).rails(100.0),
        _ => cluster
            .host_type("dgx", "H100", 8)
            .nvswitch()
            .rails(400.0)
            .hosts("k", 1, 1)
            .host_type("pcie", "V100", 8),
    };
    let mut world = World::of(cluster.hosts("h", 1, rng.random_range(1..=4)).build());
    let names: Vec<(String, usize)> =
        world.snapshot.hosts.iter().map(|host| (host.name.clone(), host.gpus.len())).collect();
    let mut id = 0;
    for (name, gpus) in &names {
        let mut free = GpuMask::first(*gpus);
        for _ in 0..rng.random_range(0..3) {
            id += 1;
            let ends = rng.random_bool(0.8).then(|| rng.random_range(1..5_000));
            let mine = GpuMask(rng.random::<u64>()).intersection(free);
            if mine.is_empty() {
                world.computes(
                    id,
                    name,
                    rng.random_range(1..8),
                    rng.random_range(0..9_000),
                    ends.unwrap_or(9),
                );
            } else {
                free = free.without(mine);
                world.runs(id, &format!("{name}:{mine}"), ends);
            }
        }
        if rng.random_bool(0.3) {
            id += 1;
            let limit = if rng.random_bool(0.7) { Limit::Seconds(600) } else { Limit::Unset };
            let gpus = GpuMask(rng.random_range(1..1 << gpus)).to_string();
            world.waits(id, name, &gpus, limit);
        }
        if rng.random_bool(0.1) {
            world.host(name).flags.push("DRAIN".into());
        }
        if rng.random_bool(0.15) {
            let from = rng.random_range(-10..5_000);
            world.reserve(&format!("r-{name}"), &[name], from, from + rng.random_range(20..9_000));
        }
    }
    world
}

fn job(rng: &mut Pcg64) -> Ask {
    let some = |rng: &mut Pcg64, most| rng.random_bool(0.4).then(|| rng.random_range(1..=most));
    let gpus = match rng.random_range(0..3) {
        0 => GpuCount::Total(rng.random_range(1..=12)),
        1 => GpuCount::PerHost(rng.random_range(1..=6)),
        _ => GpuCount::PerTask(rng.random_range(1..=3)),
    };
    let least = rng.random_range(1..=2);
    let most = least + rng.random_range(0..=1);
    let hosts = rng.random_bool(0.4).then_some(Hosts { least, most });
    let memory = match rng.random_range(0..4) {
        0 => Memory::PerGpu(rng.random_range(1..9_000)),
        1 => Memory::PerHost(rng.random_range(0..50_000)),
        2 => Memory::PerCpu(rng.random_range(1..3_000)),
        _ => Memory::Unset,
    };
    let cpus_per_task = some(rng, 6);
    Ask {
        hosts,
        tasks: some(rng, 6),
        tasks_per_host: some(rng, 4),
        cpus_per_gpu: if cpus_per_task.is_none() { some(rng, 6) } else { None },
        cpus_per_task,
        memory,
        exclusive: rng.random_bool(0.1),
        time_limit: if rng.random_bool(0.6) {
            Limit::Seconds(rng.random_range(10..4_000))
        } else {
            Limit::Unset
        },
        ..ask(gpus)
    }
}

/// The components are the plan, no host stands twice, counts and kinds are right.
fn is_sound(world: &World, ask: &Ask, planned: &Planned) {
    let layout = &planned.layout;
    let of_parts: Vec<(String, GpuMask)> = layout
        .components
        .iter()
        .flat_map(|part| part.hosts.iter().map(|host| (host.clone(), part.gpus)))
        .collect();
    assert_eq!(of_parts, layout.plan.gpus);
    let mut names: Vec<&String> = of_parts.iter().map(|(host, _)| host).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), of_parts.len(), "a host twice");
    let (mut gpus, mut tasks) = (0, 0);
    for part in &layout.components {
        for name in &part.hosts {
            let host = world.snapshot.host(name).unwrap();
            let kinds: Vec<_> = part.gpus.iter().map(|gpu| host.gpus[gpu].kind.clone()).collect();
            assert_eq!(kinds, part.kinds.iter().cloned().map(Some).collect::<Vec<_>>());
            let closed = host.flags.contains(&"DRAIN".to_owned());
            assert!(!closed || planned.remarks.iter().any(|said| said.contains(name.as_str())));
            assert!(!closed || matches!(planned.start, Start::After { at_s: None, .. }));
            let cpus = part.tasks_per_host * part.cpus_per_task.unwrap_or(1);
            assert!(cpus <= host.cpus as usize);
            assert!(part.memory_mib_per_host.unwrap_or(0) <= host.memory_mib);
            if planned.start == Start::Now {
                assert!(part.gpus.intersection(host.gpus_in_use()).is_empty(), "{name} is taken");
                if !layout.plan.whole_hosts {
                    assert!(cpus + host.cpus_in_use as usize <= host.cpus as usize);
                    let mib = part.memory_mib_per_host.unwrap_or(0);
                    let all = if mib == 0 { host.memory_mib } else { mib };
                    assert!(
                        all + host.memory_in_use_mib <= host.memory_mib
                            || part.memory_mib_per_host.is_none()
                    );
                }
            }
            if let Some(each) = ask.cpus_per_gpu {
                assert!(cpus >= each * part.gpus.count());
            }
        }
        match ask.gpus {
            GpuCount::PerHost(each) => assert_eq!(part.gpus.count(), each),
            GpuCount::PerTask(each) => assert_eq!(part.gpus.count(), each * part.tasks_per_host),
            GpuCount::Total(_) => {}
        }
        gpus += part.gpus.count() * part.hosts.len();
        tasks += part.tasks_per_host * part.hosts.len();
    }
    if let GpuCount::Total(all) = ask.gpus {
        assert_eq!(gpus, all);
    }
    if let Some(all) = ask.tasks {
        assert_eq!(tasks, all);
    }
    if let Some(hosts) = ask.hosts {
        assert!((hosts.least..=hosts.most).contains(&of_parts.len()));
    }
    waits_for_its_gpus(world, planned);
}

/// GPUs that are taken now belong to jobs that the plan waits for, and these are over by then.
fn waits_for_its_gpus(world: &World, planned: &Planned) {
    let Start::After { jobs, at_s } = &planned.start else { return };
    for (name, gpus) in &planned.layout.plan.gpus {
        let host = world.snapshot.host(name).unwrap();
        for gpu in gpus.iter().filter(|gpu| host.gpus[*gpu].in_use) {
            assert!(jobs.contains(&host.gpus[gpu].job.unwrap()), "{name}:{gpu} of {planned:?}");
        }
    }
    for job in jobs.iter().map(|id| world.snapshot.job(*id).unwrap()) {
        if let (Some(at), JobState::Running, Some(end)) = (at_s, job.state, job.end_s) {
            assert!(end <= *at);
        }
    }
}

/// True if there is a plan, and if it is one ahead; and if the array has plans.
fn check(seed: u64) -> [bool; 3] {
    let rng = &mut Pcg64::seed_from_u64(seed);
    let world = world(rng);
    let ask = job(rng);
    let found = world.plan(&ask);
    let ahead = found.as_ref().is_ok_and(|planned| planned.start != Start::Now);
    let some = found.is_ok();
    match found {
        Ok(planned) => {
            is_sound(&world, &ask, &planned);
            if planned.start == Start::Now && planned.remarks.is_empty() {
                let all = world.with(|given| admissions(given, &ask)).unwrap();
                for (name, gpus) in &planned.layout.plan.gpus {
                    let host = all[0].1.iter().find(|host| host.host == *name).unwrap();
                    assert!(gpus.is_subset_of(host.usable), "seed {seed}: {host:?}");
                }
            }
        }
        Err(refusal) => assert!(!refusal.message.is_empty() && !refusal.possible.is_empty()),
    }
    // A plain job is refused only if nobody could ever have it.
    let plain = total(rng.random_range(1..=40));
    let open = world.snapshot.hosts.iter().filter(|host| !host.flags.contains(&"DRAIN".into()));
    let most: usize = open.map(|host| host.gpus.len()).sum();
    match (world.plan(&plain), plain.gpus) {
        (Ok(planned), _) => is_sound(&world, &plain, &planned),
        (Err(refusal), GpuCount::Total(gpus)) => {
            assert_eq!(refusal.kind, RefusedKind::Impossible);
            assert!(gpus > most, "seed {seed}: {refusal:?}");
        }
        _ => unreachable!(),
    }
    [some, ahead, tasks_do_not_meet(&world, ask, rng.random_range(1..6))]
}

/// False if the array has no plan.
fn tasks_do_not_meet(world: &World, ask: Ask, tasks: u32) -> bool {
    let array =
        ArrayIndexes { written: String::new(), indexes: (0..tasks).collect(), at_once: None };
    let ask = Ask { array: Some(array), ..ask };
    let Ok(tasks) = world.plan_array(&ask) else { return false };
    let mut used = std::collections::BTreeMap::<String, GpuMask>::new();
    for (_, task) in &tasks {
        assert_eq!(task.layout.components.len(), 1);
        if task.remarks.iter().any(|remark| remark.starts_with("waits for task")) {
            continue;
        }
        is_sound(world, &ask, task);
        for (host, gpus) in &task.layout.plan.gpus {
            let of_host = used.entry(host.clone()).or_insert(mask(""));
            assert!(of_host.intersection(*gpus).is_empty(), "{host}:{gpus} twice");
            *of_host = of_host.union(*gpus);
        }
    }
    true
}

#[test]
fn plans_are_sound_on_fixed_seeds() {
    let mut counts = [0; 3];
    for seed in 0..1_500 {
        let counted = check(seed).into_iter().zip(&mut counts);
        counted.for_each(|(is, count)| *count += usize::from(is));
    }
    println!("planned, ahead, arrays: {counts:?}");
    assert!(counts[0] > 400 && counts[1] > 100 && counts[2] > 300, "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_sound(seed in any::<u64>()) {
        check(seed);
    }
}
