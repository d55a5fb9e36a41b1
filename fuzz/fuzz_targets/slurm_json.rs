#![no_main]
use bandpilot_manager::exchange::Replay;
use bandpilot_slurm::{Snapshot, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (hosts, jobs) = (json::hosts(input).value, json::jobs(input).value);
    assert!(hosts.iter().all(|host| host.gpus.len() <= 64));
    let (snapshot, _) = Snapshot::assemble(0, hosts, jobs, Vec::new());
    let gpus = snapshot.hosts.iter().flat_map(|host| &host.gpus);
    assert!(gpus.filter(|gpu| gpu.job.is_some()).all(|gpu| gpu.in_use));
    Replay::read(input);
});
