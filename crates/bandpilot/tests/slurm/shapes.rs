//! Uneven sets, arrays, srun, scripts, and what a job is told.

use bandpilot_testcluster::Setup;

use crate::{Site, sorted};

/// Lines of a file, once there are as many.
fn lines(site: &Site, name: &str, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(site.slurm.path(name)).unwrap_or_default();
    site.slurm.eventually(name, || read().lines().count() >= count);
    read().lines().map(ToOwned::to_owned).collect()
}

/// h1 has 5 GPUs free, h2 has 4.
fn uneven(test: &str) -> Option<Site> {
    let site = Site::start(test, &Setup::new(2, 8))?;
    for (host, gpus) in [("h1", "--gpus=3"), ("h2", "--gpus=4")] {
        let job = site.sbatch(&["-w", host, gpus, "-t", "9:00", "--wrap", "sleep 1000"]);
        site.runs_as_planned(job);
    }
    Some(site)
}

#[test]
fn an_uneven_set_is_one_mpi_world_in_the_order_that_was_told() {
    let test = "an_uneven_set_is_one_mpi_world_in_the_order_that_was_told";
    let Some(site) = uneven(test) else { return };
    let script = "#!/bin/bash
#SBATCH --ntasks=9 --gpus-per-task=1   # one task for each GPU
#SBATCH -o out.txt
echo $BANDPILOT_RANKS
srun $BANDPILOT_SRUN -l bash -c 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER'
sleep 1000
";
    std::fs::write(site.slurm.path("job.sh"), script).unwrap();
    let output = site.must(&["sbatch", "job.sh"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let job: u32 = said.trim().strip_prefix("Submitted batch job ").unwrap().parse().unwrap();
    site.runs_as_planned(job);
    let name = site.slurm.must(&["squeue", "-h", "-o", "%j", "-j", &job.to_string()]);
    assert_eq!(name.lines().next(), Some("job.sh"));
    let out = lines(&site, "out.txt", 10);
    let ranks: Vec<&str> = out[0].split(',').collect();
    assert_eq!(ranks.len(), 9);
    let mut tasks: Vec<Vec<&str>> = out[1..].iter().map(|l| l.split(' ').collect()).collect();
    tasks.sort_by_key(|words| words[1].split('/').next().unwrap().parse::<usize>().unwrap());
    for (rank, words) in tasks.iter().enumerate() {
        assert_eq!(words[1], format!("{rank}/9"));
        let (host, _) = ranks[rank].split_once(':').unwrap();
        assert_eq!((words[2], words[4]), (host, "PCI_BUS_ID"), "{words:?}");
    }
}

#[test]
fn srun_gets_its_gpus_and_passes_on_input_output_and_exit_code() {
    let test = "srun_gets_its_gpus_and_passes_on_input_output_and_exit_code";
    let Some(site) = uneven(test) else { return };
    let tell = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_NTASKS; cat; exit 7";
    let mut command = site.bandpilot(&["srun", "--gpus=4", "-N1", "bash", "-c", tell]);
    let input = std::fs::File::open(site.slurm.path("cluster.toml")).unwrap();
    let output = command.stdin(input).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let plan = site.audit().plans.into_iter().last().unwrap();
    let gpus = &plan.planned.unwrap().gpus[0];
    let list: Vec<String> = gpus.gpus.iter().map(|gpu| gpu.to_string()).collect();
    assert!(text.starts_with(&format!("{} {} 1\n", gpus.host, list.join(","))), "{text}");
    assert!(text.contains("gpu_model"), "{text}");

    let tell = "echo $SLURM_PROCID/$SLURM_NTASKS $SLURMD_NODENAME";
    let output = site.must(&["srun", "-n9", "--gpus-per-task=1", "bash", "-c", tell]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut ranks: Vec<&str> = text.lines().collect();
    ranks.sort_unstable();
    assert_eq!(ranks.len(), 9, "{text}");
    assert_eq!(ranks.iter().filter(|line| line.ends_with("h1")).count(), 5, "{text}");
    // Both are over: what Slurm still knows of them agrees.
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
}

#[test]
fn tasks_of_an_array_have_sets_of_their_own() {
    let test = "tasks_of_an_array_have_sets_of_their_own";
    let Some(site) = Site::start(test, &Setup::new(2, 8)) else { return };
    let words = ["-a", "0-7", "--gpus=4", "-N1", "-t1", "--wrap", "sleep 2"];
    let job = site.sbatch(&words);
    let running = || site.slurm.must(&["squeue", "-h", "-r", "-t", "R", "-o", "%i"]);
    site.slurm.eventually("four run", || running().lines().count() == 4);
    site.verify();
    site.slurm.eventually("all are over", || {
        site.verify();
        site.slurm.must(&["squeue", "-h"]).is_empty()
    });
    let mut sets = Vec::new();
    for index in 0..8 {
        let task = site.known(&format!("{job}_{index}"));
        assert_eq!(task.state, bandpilot_manager::audit::State::Verified, "{task:?}");
        let gpus = task.planned.unwrap().gpus;
        sets.push(format!("{}:{}", gpus[0].host, gpus[0].gpus));
    }
    sets.sort();
    sets.dedup();
    assert_eq!(sets.len(), 4);

    // An array task is one component: it cannot be uneven.
    let held = site.sbatch(&["-w", "h1", "--gpus=3", "-t9", "--wrap", "sleep 1000"]);
    site.runs_as_planned(held);
    let words = ["sbatch", "-a", "0-1", "--gpus=13", "--wrap", "sleep 2"];
    let refused = site.bandpilot(&words).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("array"), "{said}");
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_would_be_done() {
    let test = "a_dry_run_changes_nothing_and_tells_what_would_be_done";
    let Some(site) = uneven(test) else { return };
    let before = site.audit().plans.len();
    let words = ["sbatch", "--dry-run", "--explain", "--compare", "stock", "--gpus=9"];
    let output = site.must(&[&words[..], &["--wrap", "./train"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["sbatch", "--gres=gpu:", " : ", "GB/s", "bottleneck", "stock"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = site.must(&[&["--json"], &words[..], &["--wrap", "./train"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["gpus"].as_array().unwrap().len(), 2, "{value}");
    assert_eq!(site.audit().plans.len(), before);
    assert_eq!(site.slurm.must(&["squeue", "-h"]).lines().count(), 2);
}

#[test]
fn what_is_not_planned_goes_to_slurm_as_it_is() {
    let test = "what_is_not_planned_goes_to_slurm_as_it_is";
    let Some(site) = Site::start(test, &Setup::new(1, 8)) else { return };
    let cores = site.sbatch(&["-n1", "-c2", "--wrap", "sleep 1000"]);
    let named = site.sbatch(&["-w", "h1", "--gres=gpu:g3:1,gpu:g6:1", "--wrap", "sleep 1000"]);
    for job in [cores, named] {
        site.slurm.await_state(job, "RUNNING");
    }
    assert_eq!(site.held(named), "h1:3,6");
    assert!(site.audit().plans.is_empty());
    // What runs already is met by the next plan.
    let planned = site.sbatch(&["--gpus=6", "--wrap", "sleep 1000"]);
    assert_eq!(sorted(&site.runs_as_planned(planned)), ["h1:0-2,4-5,7"]);
    let words = ["sbatch", "--no-such-option", "--gpus=1", "--wrap", "x"];
    let refused = site.bandpilot(&words).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("no-such-option"), "{said}");
    let refused = site.bandpilot(&["sbatch", "--gpus=4", "nothing.sh"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn a_submit_that_waits_ends_as_its_job_does() {
    let test = "a_submit_that_waits_ends_as_its_job_does";
    let Some(site) = uneven(test) else { return };
    let words = ["sbatch", "-W", "-o", "/dev/null", "--gpus=2", "--timeout-s", "1"];
    let job = ["--wrap", "sleep 2; exit 5"];
    let output = site.bandpilot(&[&words[..], &job[..]].concat()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!((said.as_str(), output.status.code()), ("Submitted batch job 3\n", Some(5)));
    let parsable = site.bandpilot(&[&words[..], &["--parsable"], &job[..]].concat()).output();
    assert_eq!(parsable.unwrap().stdout, b"4\n");
    for job in ["3", "4"] {
        let plan = site.known(job);
        assert_eq!(plan.state, bandpilot_manager::audit::State::Verified, "{plan:?}");
    }
}

#[test]
fn a_script_that_would_start_on_a_part_of_an_uneven_set_is_told() {
    let test = "a_script_that_would_start_on_a_part_of_an_uneven_set_is_told";
    let Some(site) = uneven(test) else { return };
    let said = |more: &[&str], wrap: &str| {
        let words = [&["sbatch", "--dry-run", "--gpus=9"], more, &["--wrap", wrap]].concat();
        let output = site.bandpilot(&words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, plain) = said(&[], "srun ./train");
    assert_eq!(code, Some(0));
    assert!(plain.contains("2 components") && plain.contains("--uniform"), "{plain}");
    assert!(!said(&[], "srun $BANDPILOT_SRUN ./train").1.contains("components"));
    let (code, uniform) = said(&["--uniform", "--gpus=8"], "srun ./train");
    assert_eq!(code, Some(0), "{uniform}");
    assert!(!uniform.contains("components"), "{uniform}");
}
