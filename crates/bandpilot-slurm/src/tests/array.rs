use super::*;
use crate::Limit;
use crate::fixture::{NOW, World, ask, mask, shown, total};
use crate::submit::RefusedKind;
use crate::submit::ask::{ArrayIndexes, GpuCount, Hosts};
use bandpilot_core::ClusterBuilder;

fn array(ask: Ask, tasks: u32, at_once: Option<usize>) -> Ask {
    let indexes = (0..tasks).collect();
    Ask { array: Some(ArrayIndexes { written: String::new(), indexes, at_once }), ..ask }
}

fn two_hosts(ask: Ask) -> Ask {
    Ask { hosts: Some(Hosts { least: 2, most: 2 }), ..ask }
}

#[test]
fn tasks_have_sets_of_their_own_and_the_rest_waits_in_turn() {
    let mut world = World::new(2);
    world.runs(1, "h1:0-3", None);
    let job = Ask { time_limit: Limit::Seconds(100), ..total(4) };
    let tasks = world.plan_array(&array(job.clone(), 7, None)).unwrap();
    let sets: Vec<String> = tasks.iter().map(|(_, task)| shown(task)).collect();
    let mut first = sets[..3].to_vec();
    first.sort();
    assert_eq!(first, ["h1:4-7", "h2:0-3", "h2:4-7"]);
    assert_eq!((&sets[3..6], &sets[6]), (&sets[..3], &sets[0]));
    let starts: Vec<Option<i64>> = tasks
        .iter()
        .map(|(_, task)| match &task.start {
            Start::Now => Some(0),
            Start::After { at_s, .. } => at_s.map(|at| at - NOW),
        })
        .collect();
    assert_eq!(starts, [0, 0, 0, 100, 100, 100, 200].map(Some));
    assert_eq!(tasks[6].1.remarks, ["waits for task 3 of the array"]);
    assert_eq!(tasks[6].1.layout.plan.id, "p_6");
    // `%2`: at most two at a time.
    let tasks = world.plan_array(&array(job, 3, Some(2))).unwrap();
    assert_ne!(shown(&tasks[0].1), shown(&tasks[1].1));
    assert_eq!(shown(&tasks[0].1), shown(&tasks[2].1));
}

#[test]
fn cores_of_other_tasks_count() {
    let world = World::new(1);
    let job = Ask { cpus_per_task: Some(12), ..total(1) };
    let tasks = world.plan_array(&array(job, 4, None)).unwrap();
    let now = tasks.iter().filter(|(_, task)| task.start == Start::Now).count();
    assert_eq!(now, 2);
}

#[test]
fn all_hosts_of_a_task_give_the_same() {
    let mut world = World::new(4);
    world.runs(1, "h1:0-3", None).runs(2, "h2:4-7", None).runs(3, "h3:0-3", None);
    let tasks = world.plan_array(&array(two_hosts(ask(GpuCount::PerHost(4))), 2, None)).unwrap();
    for (_, task) in &tasks {
        assert_eq!(task.layout.components.len(), 1, "{}", shown(task));
    }
    let uneven = two_hosts(total(7));
    let refusal = world.plan_array(&array(uneven.clone(), 2, None)).unwrap_err();
    assert_eq!((refusal.kind, refusal.constraint.as_str()), (RefusedKind::Impossible, "array"));
    assert!(refusal.message.contains("same GPUs on all its hosts"), "{refusal:?}");
    assert!(world.plan(&uneven).is_ok());
    // Nothing in common now; later there is.
    let mut world = World::new(2);
    world.runs(1, "h1:0-3", Some(50)).runs(2, "h2:4-7", None);
    let tasks = world.plan_array(&array(two_hosts(total(8)), 1, None)).unwrap();
    assert_eq!(shown(&tasks[0].1), "h1:0-3 h2:0-3");
    assert_eq!(tasks[0].1.start, Start::After { jobs: vec![1], at_s: Some(NOW + 50) });
}

#[test]
fn an_array_without_tasks_is_refused() {
    assert_eq!(World::new(1).plan_array(&total(1)).unwrap_err().constraint, "array");
}

/// The best set with the same GPUs on each of two hosts, over all of them.
#[test]
fn on_mesh_hosts_the_same_gpus_are_the_best_of_all() {
    let link = |a: usize, b: usize| match a.abs_diff(b) {
        0 => "X",
        4 => "NV4",
        1 => "NV2",
        _ => "SYS",
    };
    let rows: Vec<String> =
        (0..8).map(|a| (0..8).map(|b| link(a, b)).collect::<Vec<_>>().join(" ")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let cluster = ClusterBuilder::new("t").host_type("mesh", "V100", 8).matrix(&rows).rails(100.0);
    let cluster = cluster.hosts("h", 1, 3).build();
    for (busy, each) in [(["0,5", "3", "6-7"], 2), (["1", "4", "0"], 3), (["0-3", "2,4", "7"], 4)] {
        let mut world = World::of(cluster.clone());
        for (at, gpus) in busy.iter().enumerate() {
            world.runs(at as u32 + 1, &format!("h{}:{gpus}", at + 1), None);
        }
        let task = array(two_hosts(ask(GpuCount::PerHost(each))), 1, None);
        let Ok(tasks) = world.plan_array(&task) else { panic!("{busy:?}") };
        let planned = &tasks[0].1;
        let free: Vec<GpuMask> =
            busy.iter().map(|gpus| GpuMask::first(8).without(mask(gpus))).collect();
        let best = world.with(|given| {
            let mut best = 0.0_f64;
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                for gpus in free[a].intersection(free[b]).subsets(each) {
                    let set = bandpilot_core::Placement::new(
                        [a, b].map(|host| (HostId(host as u32), gpus)),
                    );
                    best = best.max(given.predictor.isolated(&set));
                }
            }
            best
        });
        let own = planned.answer.chosen.effective;
        assert!((own - best).abs() <= 1e-9 * best, "{busy:?}: {} {own} {best}", shown(planned));
    }
}

#[test]
fn a_thousand_tasks_are_planned_quickly() {
    for job in [total(1), total(4), ask(GpuCount::PerHost(8)), two_hosts(ask(GpuCount::PerHost(4)))]
    {
        let start = std::time::Instant::now();
        let tasks = World::new(64).plan_array(&array(job.clone(), 1_000, None)).unwrap();
        println!("{:?} on {:?}: {} ms", job.gpus, job.hosts, start.elapsed().as_millis());
        // The bound is 1 s; a busy machine is given ten times as much.
        assert!(start.elapsed().as_secs() < 10);
        let mut used: Vec<(String, usize)> = Vec::new();
        for (_, task) in tasks.iter().filter(|(_, task)| task.start == Start::Now) {
            let gpus = task.layout.plan.gpus.iter();
            used.extend(gpus.flat_map(|(host, m)| m.iter().map(|gpu| (host.clone(), gpu))));
        }
        assert_eq!(used.len(), 512);
        used.sort();
        used.dedup();
        assert_eq!(used.len(), 512);
    }
}
