//! Cost of an event, a gang that comes or a job that goes with the compaction after it, on a cluster that is nearly full.
//!
//! Each measurement is of 1,000 events, so that milliseconds here are microseconds an event.

use std::hint::black_box;

use bandpilot_core::HostId;
use bandpilot_fragmentation::{Gang, Node, Pool, Rules, Space};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const EVENTS: u32 = 1000;

/// A gang with the shares of sizes of the GFS trace, with more of the rare ones.
fn gang(rng: &mut Pcg64, job: u32) -> Gang {
    let gpus = match rng.random_range(0..100) {
        0..60 => 1,
        60..66 => 2,
        66..70 => 4,
        70..72 => 3,
        72..73 => 5,
        _ => 8,
    };
    Gang { job, instances: rng.random_range(1..=3), gpus, rest: 0 }
}

struct Load {
    space: Space,
    running: Vec<u32>,
    rng: Pcg64,
    next: u32,
}

impl Load {
    fn full(hosts: u32, rules: Rules) -> Self {
        let node = |host| Node { host: HostId(host), pool: 0, cells: 8, held: Vec::new() };
        let nodes: Vec<Node> = (0..hosts).map(node).collect();
        let pool = Pool { gpu_model: "GPU".to_owned(), host_gpus: 8 };
        let space = Space::new(&pool, nodes.iter(), rules);
        let mut load = Self { space, running: Vec::new(), rng: Pcg64::seed_from_u64(1), next: 0 };
        while load.space.used() * 100 < hosts as usize * 8 * 98 {
            load.come();
        }
        (0..10 * EVENTS).for_each(|_| load.event());
        load
    }

    fn come(&mut self) {
        let gang = gang(&mut self.rng, self.next);
        self.next += 1;
        if black_box(self.space.arrive(&gang)).is_some() {
            self.running.push(gang.job);
        }
    }

    /// Keeps the cluster between 97 and 99 per cent.
    fn event(&mut self) {
        let held = self.space.used() as f64 / (self.space.fullness().len() * 8) as f64;
        if self.rng.random_bool(if held > 0.98 { 0.3 } else { 0.7 }) {
            self.come();
        } else {
            let at = self.rng.random_range(0..self.running.len());
            let job = self.running.swap_remove(at);
            black_box(self.space.depart(job));
        }
    }
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000 events");
    group.sample_size(20);
    for hosts in [1250, 12_500] {
        let mut load = Load::full(hosts, Rules::Repaired);
        group.bench_function(format!("{hosts} hosts"), |bencher| {
            bencher.iter_batched(
                || (),
                |()| (0..EVENTS).for_each(|_| load.event()),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
