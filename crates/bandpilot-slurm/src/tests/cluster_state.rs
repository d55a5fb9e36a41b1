use bandpilot_core::{ClusterBuilder, GpuMask};

use super::*;
use crate::{HetPart, Reservation, gres};

fn host(name: &str, taken: &str) -> Host {
    let (gpus, _) = gres::inventory("gpu:8", taken).unwrap();
    Host { name: name.into(), state: "MIXED".into(), gpus, ..Host::default() }
}

fn job(id: u32, host: &str, gpus: u64) -> Job {
    let gpus = vec![(host.to_owned(), GpuMask(gpus))];
    Job { id, state: JobState::Running, hosts: vec![host.to_owned()], gpus, ..Job::default() }
}

fn cluster() -> Cluster {
    ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 5).build()
}

#[test]
fn only_what_slurm_would_give_is_free() {
    let mut hosts =
        vec![host("h1", "gpu:2(IDX:0-1)"), host("h2", ""), host("h3", ""), host("x9", "")];
    hosts[1].flags.push("DRAIN".into());
    let reserved = Reservation {
        name: "r".into(),
        hosts: vec!["h3".into()],
        active: true,
        ..Reservation::default()
    };
    let (snapshot, _) = Snapshot::assemble(0, hosts, vec![job(7, "h1", 0b110)], vec![reserved]);
    let Parsed { value, diagnostics } = cluster_state(&snapshot, &cluster());
    assert_eq!(
        value.free,
        [GpuMask(0b1111_1000), GpuMask::EMPTY, GpuMask::EMPTY, GpuMask::EMPTY, GpuMask::EMPTY]
    );
    assert_eq!(value.jobs[0].placement.display(&cluster()), "h1:1-2");
    let said: Vec<&str> = diagnostics.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "h2 is not free: DRAIN",
            "h3 is not free: reserved by 'r'",
            "Slurm does not know h[4-5]: nothing of them is free",
            "not in the cluster file, not used: x9",
        ]
    );
}

#[test]
fn components_are_one_job_and_what_stands_still_sends_nothing() {
    let hosts = vec![host("h1", ""), host("h2", "")];
    let part = |id, at: &str, gpus, offset| Job {
        het: Some(HetPart { leader: 5, offset }),
        ..job(id, at, gpus)
    };
    let ended = Job { state: JobState::Completing, ..job(9, "h2", 0x80) };
    // Slurm says that job 8 has GPU 0 of h1 too.
    let jobs = vec![part(5, "h1", 3, 0), part(6, "h2", 4, 1), ended, job(8, "h1", 0b1001)];
    let (snapshot, remarks) = Snapshot::assemble(0, hosts, jobs, Vec::new());
    assert_eq!(remarks[0].message, "h1:0 is held by 5 and 8");
    let state = cluster_state(&snapshot, &cluster()).value;
    let shown: Vec<(String, String)> =
        state.jobs.iter().map(|j| (j.name.clone(), j.placement.display(&cluster()))).collect();
    assert_eq!(shown, [("5".into(), "h1:0-1,h2:2".into()), ("8".into(), "h1:3".into())]);
    assert_eq!((state.free[0], state.free[1]), (GpuMask(0b1111_0100), GpuMask(0b0111_1011)));
}

#[test]
fn gpus_taken_without_index_are_not_free() {
    let hosts = vec![host("h1", "gpu:2")];
    let (snapshot, _) = Snapshot::assemble(0, hosts, Vec::new(), Vec::new());
    assert_eq!(cluster_state(&snapshot, &cluster()).value.free_gpus(), 0);
}
