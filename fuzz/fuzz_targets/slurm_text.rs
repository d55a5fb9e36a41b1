#![no_main]
use bandpilot_slurm::site::Site;
use bandpilot_slurm::{Snapshot, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let site =
        Site { config: text::config(input).value, partitions: text::partitions(input).value };
    assert!(site.partitions.iter().all(|partition| !partition.name.is_empty()));
    let (hosts, jobs) = (text::hosts(input).value, text::jobs(input).value);
    assert!(text::details(input).value.len() == jobs.len());
    assert!(hosts.iter().all(|host| host.gpus.len() <= 64));
    let reservations = text::reservations(input).value;
    let (snapshot, _) = Snapshot::assemble(0, hosts, jobs, reservations);
    // Whoever holds a GPU, it is taken.
    let gpus = snapshot.hosts.iter().flat_map(|host| &host.gpus);
    assert!(gpus.filter(|gpu| gpu.job.is_some()).all(|gpu| gpu.in_use));
});
