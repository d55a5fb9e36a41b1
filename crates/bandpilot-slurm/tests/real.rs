//! Slurm's own word for it: every test runs a real cluster.
#![allow(missing_docs, clippy::unwrap_used)]

use bandpilot_core::ClusterBuilder;
use bandpilot_manager::exchange::{Process, Recorder};
use bandpilot_slurm::cluster_state::cluster_state;
use bandpilot_slurm::{Form, JobState, Limit, Observed, Snapshot, observe};
use bandpilot_testcluster::SlurmCluster;

fn runner(slurm: &SlurmCluster) -> Process {
    Process { env: slurm.env(), ..Process::default() }
}

fn gpus(snapshot: &Snapshot, job: u32) -> Vec<String> {
    let job = snapshot.job(job).unwrap();
    job.gpus.iter().map(|(host, mask)| format!("{host}:{mask}")).collect()
}

/// What both forms can tell: 22.05's JSON has no word for a job without limit.
fn comparable(observed: Observed) -> Snapshot {
    let mut snapshot = observed.snapshot;
    snapshot.taken_at_s = 0;
    for job in &mut snapshot.jobs {
        if job.request.time_limit == Limit::Unlimited {
            job.request.time_limit = Limit::Unset;
        }
        // A guess of the scheduler, which may have changed between the two questions.
        if job.state == JobState::Pending {
            (job.start_s, job.end_s) = (None, None);
            job.reason.clear();
        }
        if job.request.time_limit == Limit::Unset {
            job.end_s = None;
        }
    }
    for host in &mut snapshot.hosts {
        host.flags.retain(|flag| flag != "PLANNED");
    }
    snapshot
}

#[test]
fn json_and_text_tell_the_same_gpus() {
    let Some(slurm) = SlurmCluster::start("json_and_text_tell_the_same_gpus", 3, 8) else { return };
    let named = slurm.submit(&["-w", "h2", "--gres=gpu:g3:1,gpu:g6:1", "-t", "30", "-c", "2"]);
    let wide = slurm.submit(&["-N2", "-w", "h1,h2", "--gres=gpu:g0:1,gpu:g1:1", "-J", "a name"]);
    let part = ["-N1", "-w", "h1", "--gres=gpu:g5:1", ":", "-N1", "-w", "h2", "--gres=gpu:g7:1"];
    let het = slurm.submit(&part);
    for job in [named, wide, het, het + 1] {
        slurm.await_state(job, "RUNNING");
    }
    let waits = slurm.submit(&["-w", "h2", "--gres=gpu:g3:1", "--mem=2G"]);
    let array = slurm.submit(&["-a", "1-3", "-H", "--gres=gpu:2", "-C", "h100"]);
    slurm.must(&["scontrol", "update", "nodename=h3", "state=drain", "reason=fan is loud"]);
    slurm.await_state(waits, "PENDING");

    let mut recording = Vec::new();
    let mut recorder = Recorder::new(runner(&slurm), &mut recording).unwrap();
    let json = observe(&mut recorder, Form::Any).unwrap();
    let text = observe(&mut recorder, Form::Text).unwrap();
    assert_eq!((&json.remarks, &text.remarks), (&Vec::new(), &Vec::new()));
    for snapshot in [&json.snapshot, &text.snapshot] {
        assert_eq!(gpus(snapshot, named), ["h2:3,6"]);
        assert_eq!(gpus(snapshot, wide), ["h1:0-1", "h2:0-1"]);
        assert_eq!(
            (gpus(snapshot, het), gpus(snapshot, het + 1)),
            (vec!["h1:5".into()], vec!["h2:7".into()])
        );
        assert_eq!(snapshot.job(waits).unwrap().state, JobState::Pending);
        assert_eq!(snapshot.job(waits).unwrap().request.memory_mib_per_host, Some(2048));
        assert_eq!(snapshot.job(wide).unwrap().name, "a name");
        assert_eq!(snapshot.job(array).unwrap().label(), format!("{array}_[1-3]"));
        assert_eq!(snapshot.host("h3").unwrap().closed_by(), Some("DRAIN"));
        let holders: Vec<Option<u32>> =
            snapshot.host("h2").unwrap().gpus.iter().map(|gpu| gpu.job).collect();
        let (n, w) = (Some(named), Some(wide));
        assert_eq!(holders, [w, w, None, n, None, None, n, Some(het + 1)]);
    }
    let quick = observe(&mut runner(&slurm), Form::Quick).unwrap();
    assert_eq!(comparable(quick), comparable(text.clone()));
    assert_eq!(comparable(json.clone()), comparable(text));

    let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
    let state = cluster_state(&json.snapshot, &cluster).value;
    let free: Vec<String> = state.free.iter().map(ToString::to_string).collect();
    assert_eq!(free, ["2-4,6-7", "2,4-5", ""]);
    let shown: Vec<String> = state.jobs.iter().map(|job| job.placement.display(&cluster)).collect();
    assert_eq!(shown, ["h2:3,6", "h1:0-1,h2:0-1", "h1:5,h2:7"]);

    if std::env::var_os("BANDPILOT_UPDATE_RECORDINGS").is_some() {
        let text = slurm.scrub(&String::from_utf8(recording).unwrap());
        std::fs::write("tests/recordings/slurm-22.05.jsonl", text).unwrap();
    }
}

#[test]
fn reservations_and_ends_of_jobs_are_seen() {
    let test = "reservations_and_ends_of_jobs_are_seen";
    let Some(slurm) = SlurmCluster::start(test, 2, 8) else { return };
    let job = slurm.submit(&["-w", "h1", "--gres=gpu:g2:1"]);
    slurm.await_state(job, "RUNNING");
    let user = slurm.must(&["id", "-un"]);
    let users = format!("users={}", user.trim());
    let mut reserve = vec!["scontrol", "create", "reservation", "reservationname=maint"];
    reserve.extend(["starttime=now", "duration=60", "nodes=h2", &users]);
    slurm.must(&reserve);
    let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 2).build();
    for form in [Form::Any, Form::Text] {
        let seen = observe(&mut runner(&slurm), form).unwrap().snapshot;
        assert_eq!(
            (seen.reservations[0].hosts.as_slice(), seen.reservations[0].active),
            (&["h2".to_owned()][..], true)
        );
        let state = cluster_state(&seen, &cluster).value;
        assert_eq!(
            (state.free[0].to_string(), state.free[1].to_string()),
            ("0-1,3-7".into(), String::new())
        );
    }
    slurm.must(&["scancel", &job.to_string()]);
    slurm.eventually("the GPU is free", || {
        let seen = observe(&mut runner(&slurm), Form::Any).unwrap().snapshot;
        seen.jobs.is_empty() && cluster_state(&seen, &cluster).value.free[0].count() == 8
    });
}

#[test]
fn nothing_is_left_of_a_cluster() {
    let Some(first) = SlurmCluster::start("nothing_is_left_of_a_cluster", 1, 1) else { return };
    let Some(second) = SlurmCluster::start("nothing_is_left_of_a_cluster", 1, 1) else { return };
    let job = second.submit(&["--gres=gpu:g0:1"]);
    second.await_state(job, "RUNNING");
    assert!(observe(&mut runner(&first), Form::Any).unwrap().snapshot.jobs.is_empty());
    let mut runner = runner(&second);
    runner.timeout = std::time::Duration::from_secs(2);
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _owned = second;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(failed.is_err());
    let error = observe(&mut runner, Form::Any).unwrap_err();
    assert!(!error.reasons.is_empty());
}
