//! What was recorded of a real cluster (`real.rs`), read without one.
#![allow(missing_docs, clippy::unwrap_used)]

use bandpilot_manager::exchange::{Replay, RunError, Runner as _};
use bandpilot_slurm::{Form, Snapshot, json, observe, text};

const RECORDING: &str = include_str!("recordings/slurm-22.05.jsonl");

fn replay() -> Replay {
    Replay::read(RECORDING).into_result().unwrap().0
}

/// `JOB HOST:GPUS ..`, a line for each job that holds any.
fn held(snapshot: &Snapshot) -> Vec<String> {
    let jobs = snapshot.jobs.iter().filter(|job| !job.gpus.is_empty());
    jobs.map(|job| {
        let gpus: Vec<String> = job.gpus.iter().map(|(h, mask)| format!("{h}:{mask}")).collect();
        format!("{} {}", job.label(), gpus.join(" "))
    })
    .collect()
}

#[test]
fn both_forms_of_22_05_give_what_the_cluster_gave() {
    let mut replay = replay();
    for form in [Form::Any, Form::Text] {
        let seen = observe(&mut replay, form).unwrap();
        assert_eq!((seen.remarks.len(), seen.version.as_str()), (0, "22.05.8"));
        assert_eq!(held(&seen.snapshot), ["1 h2:3,6", "2 h1:0-1 h2:0-1", "3+0 h1:5", "3+1 h2:7"]);
        let waiting: Vec<String> =
            seen.snapshot.jobs[4..].iter().map(bandpilot_slurm::Job::label).collect();
        assert_eq!(waiting, ["5", "6_[1-3]"]);
        let closed: Vec<_> = seen.snapshot.hosts.iter().map(|host| host.closed_by()).collect();
        assert_eq!(closed, [None, None, Some("DRAIN")]);
        let host = &seen.snapshot.hosts[1];
        assert_eq!(
            (host.cpus, host.memory_mib, host.features.join(",").as_str()),
            (32, 64_000, "h100,ib")
        );
        assert!(seen.snapshot.taken_at_s > 1_700_000_000);
    }
    assert!(observe(&mut replay, Form::Any).is_err());
}

#[test]
fn without_json_the_text_is_asked_for_and_that_is_said() {
    let broken = RECORDING.replace("\\\"nodes\\\": [", "\\\"knots\\\": [");
    let mut replay = Replay::read(&broken).into_result().unwrap().0;
    let seen = observe(&mut replay, Form::Any).unwrap();
    assert_eq!(held(&seen.snapshot).len(), 4);
    let said: Vec<String> = seen.remarks.iter().map(|(c, r)| r.display(c).to_string()).collect();
    assert_eq!(
        said[0],
        "sinfo --json: note: has no list 'nodes'\n  help: asked in another form instead"
    );
}

#[test]
fn damaged_outputs_never_panic() {
    let mut replay = replay();
    let mut out = |argv: &[&str]| -> Result<String, RunError> { Ok(replay.run(argv)?.stdout) };
    let nodes = out(&["sinfo", "--json"]).unwrap();
    let jobs = out(&["squeue", "--json"]).unwrap();
    let in_text = out(&["scontrol", "show", "node", "-d"]).unwrap()
        + &out(&["scontrol", "show", "job", "-d"]).unwrap();
    for output in [nodes, jobs, in_text] {
        for at in (0..output.len()).step_by(97).filter(|at| output.is_char_boundary(*at)) {
            let (head, tail) = output.split_at(at);
            for damaged in [head.to_owned(), format!("{head}-{}", tail.get(7..).unwrap_or(""))] {
                json::hosts(&damaged);
                json::jobs(&damaged);
                text::hosts(&damaged);
                text::jobs(&damaged);
            }
        }
    }
}
