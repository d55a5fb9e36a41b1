//! Two submitters for the same GPUs.

use bandpilot_testcluster::Setup;

use crate::{Site, sorted};

const ROUNDS: usize = 100;

/// Two at the same time; their job ids.
fn both(site: &Site, first: &[&str], second: &[&str]) -> [u32; 2] {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.sbatch(first));
        [site.sbatch(second), first.join().unwrap()]
    })
}

#[test]
fn of_two_submitters_exactly_one_gets_the_last_gpus() {
    let test = "of_two_submitters_exactly_one_gets_the_last_gpus";
    let Some(site) = Site::start(test, &Setup::new(1, 8)) else { return };
    let holder = site.sbatch(&["--gpus=6", "-t", "1:00:00", "--wrap", "sleep 1000"]);
    site.runs_as_planned(holder);
    let want = ["--gpus=2", "-t", "1", "--wrap", "sleep 60"];
    for round in 0..ROUNDS {
        let jobs = both(&site, &want, &want);
        let states = || {
            let mut states = jobs.map(|job| site.state(job));
            states.sort();
            states
        };
        site.slurm.eventually("one starts", || states() == ["PENDING", "RUNNING"]);
        let [waits, runs] =
            if site.state(jobs[0]) == "PENDING" { jobs } else { [jobs[1], jobs[0]] };
        let held = site.runs_as_planned(runs);
        assert_ne!(sorted(&held), sorted(&site.held(holder)), "round {round}");
        assert_eq!(site.held(waits), "", "round {round}");
        // The loser takes over what it was planned on as soon as that is free.
        site.slurm.must(&["scancel", &runs.to_string()]);
        site.runs_as_planned(waits);
        site.slurm.must(&["scancel", &waits.to_string()]);
        site.slurm.eventually("both are gone", || {
            site.slurm.must(&["squeue", "-h", "-o", "%i"]).trim() == holder.to_string()
        });
    }
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
}

#[test]
fn the_loser_of_a_race_is_planned_anew_and_is_never_twice_in_the_queue() {
    let test = "the_loser_of_a_race_is_planned_anew_and_is_never_twice_in_the_queue";
    let Some(site) = Site::start(test, &Setup::new(2, 8)) else { return };
    let want = ["--replan", "1", "--gpus=2", "-t", "1", "-J", "racer", "--wrap", "sleep 60"];
    for _ in 0..5 {
        // Two GPUs are left, and more become free while the loser waits.
        let first = site.sbatch(&["-w", "h1", "--gpus=6", "-t", "9", "--wrap", "sleep 1000"]);
        let second = site.sbatch(&["-w", "h2", "--gpus=8", "-t", "9", "--wrap", "sleep 1000"]);
        site.runs_as_planned(first);
        site.runs_as_planned(second);
        let racers = std::thread::scope(|scope| {
            let racers = scope.spawn(|| both(&site, &want, &want));
            let names = || site.slurm.must(&["squeue", "-h", "-n", "racer", "-o", "%i"]);
            site.slurm.eventually("both are in the queue", || names().lines().count() == 2);
            site.slurm.must(&["scancel", &second.to_string()]);
            while !racers.is_finished() {
                assert!(names().lines().count() <= 2, "twice in the queue: {}", names());
            }
            racers.join().unwrap()
        });
        let held = racers.map(|job| site.runs_as_planned(job));
        assert_ne!(held[0], held[1]);
        site.clear();
    }
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
}
