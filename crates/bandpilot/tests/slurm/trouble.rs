//! What goes wrong on a cluster.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use bandpilot_manager::audit::State;
use bandpilot_testcluster::Setup;

use crate::Site;

const LONG: [&str; 2] = ["--wrap", "sleep 1000"];

#[test]
fn a_host_whose_slurmd_is_killed_gets_no_more_jobs() {
    let test = "a_host_whose_slurmd_is_killed_gets_no_more_jobs";
    let setup = Setup { conf: "SlurmdTimeout=2".to_owned(), ..Setup::new(2, 8) };
    let Some(mut site) = Site::start(test, &setup) else { return };
    let on_first = site.sbatch(&[&["-w", "h1", "--gpus=2", "--no-requeue"], &LONG[..]].concat());
    site.runs_as_planned(on_first);
    site.slurm.kill("h1");
    // Slurm does not know it yet. Where the job cannot start there, it is planned anew elsewhere.
    let unlucky = site.sbatch(&[&["--replan", "1", "--gpus=3"], &LONG[..]].concat());
    site.slurm.eventually("h1 is down", || {
        site.slurm.must(&["scontrol", "show", "node", "h1"]).contains("State=DOWN")
    });
    let after = site.sbatch(&[&["--gpus=3"], &LONG[..]].concat());
    assert!(site.runs_as_planned(after).starts_with("h2:"));
    site.slurm.eventually("the other one runs or has failed with its host", || {
        let state = site.state(unlucky);
        state == "RUNNING" && site.held(unlucky).starts_with("h2:")
            || state == "NODE_FAIL"
            || state == "PENDING"
    });
    assert_eq!(site.state(on_first), "NODE_FAIL");
    assert_eq!(site.verify().0, Some(0));
}

#[test]
fn a_submit_outlives_a_restart_of_slurmctld() {
    let test = "a_submit_outlives_a_restart_of_slurmctld";
    let Some(mut site) = Site::start(test, &Setup::new(2, 8)) else { return };
    let before = site.sbatch(&[&["--gpus=4"], &LONG[..]].concat());
    site.runs_as_planned(before);
    site.slurm.kill("slurmctld");
    let words = [&["sbatch", "--parsable", "-o", "/dev/null", "-J", "late", "--gpus=4"], &LONG[..]];
    let mut command = site.bandpilot(&words.concat());
    let submit = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    site.slurm.restart("slurmctld");
    let output = submit.wait_with_output().unwrap();
    assert!(output.status.success());
    let job: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    site.runs_as_planned(job);
    site.runs_as_planned(before);
    assert_eq!(site.slurm.must(&["squeue", "-h", "-n", "late", "-o", "%i"]).lines().count(), 1);
}

/// A folder with an `sbatch` that goes before the real one.
fn in_the_way(site: &Site, script: &str) -> String {
    let folder = site.slurm.path("in-the-way");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sbatch");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// The file of the real one.
fn real_sbatch() -> String {
    bandpilot_testdata::find_program("sbatch").unwrap().display().to_string()
}

/// Starts a submit whose sbatch hangs, and kills the submitter when the file `there` is.
fn killed(site: &Site, path: &str) {
    let words = [&["sbatch", "-o", "/dev/null", "--gpus=4"], &LONG[..]].concat();
    let mut submit = site.bandpilot(&words).env("PATH", path).spawn().unwrap();
    let there = site.slurm.path("there");
    site.slurm.eventually("sbatch was called", || there.exists());
    submit.kill().unwrap();
    submit.wait().unwrap();
    let hangs = std::fs::read_to_string(&there).unwrap();
    let _ = Command::new("kill").arg(hangs.trim()).status();
    std::fs::remove_file(there).unwrap();
}

#[test]
fn a_submitter_killed_between_plan_and_submit_leaves_a_trace_and_no_job() {
    let test = "a_submitter_killed_between_plan_and_submit_leaves_a_trace_and_no_job";
    let Some(site) = Site::start(test, &Setup::new(1, 8)) else { return };
    let hangs = "echo $$ > there.new; mv there.new there; exec sleep 1000";
    killed(&site, &in_the_way(&site, hangs));
    assert_eq!(site.audit().plans[0].state, State::Planned);
    site.verify();
    let plan = &site.audit().plans[0];
    assert_eq!((plan.state, plan.job.as_deref()), (State::Planned, None));
    // Its GPUs are nobody's.
    site.runs_as_planned(site.sbatch(&[&["--gpus=8"], &LONG[..]].concat()));
}

#[test]
fn a_job_whose_submitter_was_killed_after_the_submit_is_found() {
    let test = "a_job_whose_submitter_was_killed_after_the_submit_is_found";
    let Some(site) = Site::start(test, &Setup::new(1, 8)) else { return };
    let real = real_sbatch();
    let hangs =
        format!("{real} \"$@\" >id; echo $$ > there.new; mv there.new there; exec sleep 1000");
    killed(&site, &in_the_way(&site, &hangs));
    let id: u32 = std::fs::read_to_string(site.slurm.path("id")).unwrap().trim().parse().unwrap();
    site.slurm.await_state(id, "RUNNING");
    site.verify();
    let plan = site.known(&id.to_string());
    assert_eq!(plan.state, State::Verified, "{plan:?}");
}

#[test]
fn an_answer_that_was_lost_is_not_submitted_again() {
    let test = "an_answer_that_was_lost_is_not_submitted_again";
    let Some(site) = Site::start(test, &Setup::new(1, 8)) else { return };
    let real = real_sbatch();
    let error =
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
    let loses = format!("{real} \"$@\" >id; echo '{error}' >&2; exit 1");
    let words = [&["sbatch", "--parsable", "-o", "/dev/null", "--gpus=4"], &LONG[..]].concat();
    let output = site.bandpilot(&words).env("PATH", in_the_way(&site, &loses)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    site.runs_as_planned(job);
    assert_eq!(site.slurm.must(&["squeue", "-h", "-o", "%i"]).lines().count(), 1);
}

#[test]
fn cancelled_jobs_are_told_apart() {
    let Some(site) = Site::start("cancelled_jobs_are_told_apart", &Setup::new(1, 8)) else {
        return;
    };
    let runs = site.sbatch(&[&["--gpus=8"], &LONG[..]].concat());
    let waits = site.sbatch(&[&["--gpus=2"], &LONG[..]].concat());
    site.runs_as_planned(runs);
    assert_eq!(site.state(waits), "PENDING");
    site.slurm.must(&["scancel", &waits.to_string()]);
    site.verify();
    site.slurm.must(&["scancel", &runs.to_string()]);
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
    assert_eq!(site.known(&runs.to_string()).state, State::Verified);
    assert_eq!(site.known(&waits.to_string()).state, State::Unseen);
}

#[test]
fn on_a_full_cluster_a_job_waits_for_what_is_free_first() {
    let test = "on_a_full_cluster_a_job_waits_for_what_is_free_first";
    let Some(site) = Site::start(test, &Setup::new(2, 8)) else { return };
    let long = site.sbatch(&["-w", "h1", "--gpus=8", "-t", "60", "--wrap", "sleep 1000"]);
    let short = site.sbatch(&["-w", "h2", "--gpus=8", "-t", "10", "--wrap", "sleep 1000"]);
    let waits = site.sbatch(&["--gpus=4", "-t", "5", "--wrap", "sleep 1000"]);
    let behind = site.sbatch(&["--gpus=8", "-t", "5", "--wrap", "sleep 1000"]);
    assert!(site.planned(waits).starts_with("h2:"), "{}", site.planned(waits));
    assert_eq!(site.planned(behind), "h2:0-7");
    site.runs_as_planned(long);
    site.slurm.must(&["scancel", &short.to_string()]);
    site.runs_as_planned(waits);
    assert_eq!(site.state(behind), "PENDING");
    site.slurm.must(&["scancel", &waits.to_string()]);
    site.runs_as_planned(behind);
}

#[test]
fn a_plan_heeds_cores_drained_hosts_reservations_and_whole_hosts() {
    let test = "a_plan_heeds_cores_drained_hosts_reservations_and_whole_hosts";
    let Some(site) = Site::start(test, &Setup::new(5, 8)) else { return };
    let user = site.slurm.must(&["id", "-un"]).trim().to_owned();
    // h1: a job of cores alone; h2: drained; h3: reserved; h4: a job on one GPU; h5: free.
    let cores = site.sbatch(&[&["-w", "h1", "-n1", "-c30"], &LONG[..]].concat());
    site.slurm.await_state(cores, "RUNNING");
    site.slurm.must(&["scontrol", "update", "nodename=h2", "state=drain", "reason=loud"]);
    let users = format!("users={user}");
    let mut reserve = vec!["scontrol", "create", "reservation", "reservationname=maint"];
    reserve.extend(["starttime=now", "duration=60", "nodes=h3", &users]);
    site.slurm.must(&reserve);
    let one = site.sbatch(&[&["-w", "h4", "--gpus=1"], &LONG[..]].concat());
    site.runs_as_planned(one);

    let whole = site.sbatch(&[&["--exclusive", "--gpus-per-node=4", "-t5"], &LONG[..]].concat());
    site.slurm.await_state(whole, "RUNNING");
    assert_eq!(site.held(whole), "h5:0-7");
    // 7 GPUs of h4; of h1, where two cores are left, one with two.
    let eight = ["-n8", "--gpus-per-task=1", "-c2", "-t5"];
    let eight = site.sbatch(&[&eight[..], &LONG[..]].concat());
    let held = site.runs_as_planned(eight);
    assert!(held.starts_with("h1:") && held.contains(" h4:1-7"), "{held}");
    let reserved = ["--reservation=maint", "--gpus=5", "-t5"];
    let reserved = site.sbatch(&[&reserved[..], &LONG[..]].concat());
    assert!(site.runs_as_planned(reserved).starts_with("h3:"));
    // Nothing is left but what is reserved or drained: the rest waits for what ends.
    let waits = site.sbatch(&[&["--gpus=2", "-t5"], &LONG[..]].concat());
    assert_eq!(site.state(waits), "PENDING");
    let planned = site.planned(waits);
    assert!(!planned.contains("h2:") && !planned.contains("h3:"), "{planned}");
    assert_eq!(site.verify().0, Some(0));

    // A host that is drained is waited for where nothing else will do, as Slurm does.
    let words = [&["sbatch", "--parsable", "-o", "/dev/null", "-w", "h2", "--gpus=2"], &LONG[..]];
    let output = site.must(&words.concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("h2") && said.contains("loud"), "{said}");
    let drained: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(site.state(drained), "PENDING");
    site.slurm.must(&["scontrol", "update", "nodename=h2", "state=resume"]);
    site.runs_as_planned(drained);

    let refused = site.bandpilot(&[&["sbatch", "-w", "h2", "--gpus=9"], &LONG[..]].concat());
    let refused = { refused }.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
}

#[test]
fn a_dependent_job_waits_and_then_has_what_was_planned() {
    let test = "a_dependent_job_waits_and_then_has_what_was_planned";
    let Some(site) = Site::start(test, &Setup::new(2, 8)) else { return };
    let first = site.sbatch(&[&["--gpus=8"], &LONG[..]].concat());
    site.runs_as_planned(first);
    let after = format!("--dependency=afterany:{first}");
    let second = site.sbatch(&[&[after.as_str(), "--gpus=12", "-t5"], &LONG[..]].concat());
    assert_eq!(site.state(second), "PENDING");
    site.slurm.must(&["scancel", &first.to_string()]);
    site.runs_as_planned(second);
}
