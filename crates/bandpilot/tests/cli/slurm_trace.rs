//! `bandpilot slurm trace`: of a recording, of samples, and of a real cluster with accounts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_testcluster::{Setup, SlurmCluster};

use crate::slurm::{CLUSTER, RECORDING as STATE};
use crate::{bandpilot, folder_with, refused, run, run_json};

/// What sacct said in [`a_real_history_becomes_a_trace`].
pub const RECORDING: &str = include_str!("../../../../docs/examples/sacct.recording");

/// A job that was submitted: options, what it does, and what the trace has to say of it.
struct Shape {
    options: &'static str,
    command: &'static str,
    gpus: u32,
    per_host: Option<u32>,
}

const fn shape(
    options: &'static str,
    command: &'static str,
    gpus: u32,
    per_host: Option<u32>,
) -> Shape {
    Shape { options, command, gpus, per_host }
}

const SHAPES: [Shape; 14] = [
    shape("-n1 --gres=gpu:1", "sleep 1", 1, Some(1)),
    shape("-n1 --gres=gpu:2", "sleep 2", 2, Some(2)),
    shape("-n1 --gres=gpu:4 -t 10", "sleep 1", 4, Some(4)),
    shape("-n1 --gres=gpu:8", "sleep 1", 8, Some(8)),
    shape("-w h2 --gres=gpu:g3:1,gpu:g6:1 -J a|b", "sleep 2", 2, Some(2)),
    shape("-w h1 --gres=gpu:g0:1", "sleep 1", 1, Some(1)),
    shape("-N2 --gres=gpu:4", "sleep 1", 8, Some(4)),
    shape("-N3 --gres=gpu:g1:1,gpu:g2:1", "sleep 2", 6, Some(2)),
    shape("-N2 --gpus=7", "sleep 1", 7, None),
    shape("-N1 --gres=gpu:g5:1,gpu:g6:1 : -N1 --gres=gpu:g7:1", "sleep 1", 3, Some(2)),
    shape("-N1 --gres=gpu:g0:1 : -N1 --gres=gpu:g1:1 : -n1", "sleep 1", 2, Some(1)),
    shape("-n1 --gres=gpu:1", "exit 3", 1, Some(1)),
    shape("-n4 --gres=gpu:2 -t 5", "sleep 3", 2, Some(2)),
    shape("-n1 --gres=gpu:3", "sleep 1", 3, Some(3)),
];

fn submit(slurm: &SlurmCluster, options: &str, command: &str) -> String {
    let mut argv = vec!["sbatch", "--parsable", "-o", "/dev/null", "-D", "/tmp"];
    argv.extend(options.split(' ').filter(|word| !word.is_empty()));
    argv.extend(["--wrap", command]);
    slurm.must(&argv).trim().to_owned()
}

/// End less start of a job or its first component, by slurmctld's own word.
fn seconds_by_slurmctld(slurm: &SlurmCluster, id: &str) -> i64 {
    let shown = slurm.must(&["scontrol", "show", "job", "-o", id]);
    let first = shown.lines().next().unwrap();
    let time = |key: &str| {
        let word = first.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap();
        bandpilot_slurm::stamp(word).unwrap()
    };
    time("EndTime=") - time("StartTime=")
}

fn trace_of(path: &Path) -> Trace {
    let text = std::fs::read_to_string(path).unwrap();
    trace_file::read(&text).into_result().unwrap().0
}

/// GPUs and GPUs of each host, by job.
type Expected = BTreeMap<String, (u32, Option<u32>)>;

/// Has all jobs run, one of them still; what the trace has to say, and the one that runs.
fn submit_all(slurm: &SlurmCluster) -> (Expected, String) {
    let runs_on = submit(slurm, "-w h3 --gres=gpu:g0:1", "sleep 600");
    let mut expected: Expected = BTreeMap::new();
    for shape in &SHAPES {
        let id = submit(slurm, shape.options, shape.command);
        expected.insert(id, (shape.gpus, shape.per_host));
    }
    let array = submit(slurm, "-a 1-4 --gres=gpu:g4:1", "sleep 1");
    for task in 1..=4 {
        expected.insert(format!("{array}_{task}"), (1, Some(1)));
    }
    expected.insert(runs_on.clone(), (1, Some(1)));
    submit(slurm, "-n1", "sleep 1");
    submit(slurm, "-n2", "sleep 1");
    // It waits for the GPU of the job that runs on.
    let cancelled = submit(slurm, "-N3 --gres=gpu:8", "sleep 1");
    slurm.await_state(cancelled.parse().unwrap(), "PENDING");
    slurm.must(&["scancel", &cancelled]);
    let others = || slurm.must(&["squeue", "-h", "-o", "%i"]).lines().count();
    slurm.eventually("all but one are over", || others() == 1);
    let accounts = |state: &str| {
        let said = slurm.must(&["sacct", "-a", "-X", "-n", "-P", "-S", "now-1day", "-o", "State"]);
        said.lines().filter(|line| line.starts_with(state)).count()
    };
    // Eleven jobs, the two and three components, the array, and the jobs without GPUs.
    slurm.eventually("the accounts are complete", || {
        accounts("COMPLETED") == 11 + 5 + 4 + 2 && accounts("FAILED") == 1
    });
    (expected, runs_on)
}

#[test]
fn a_real_history_becomes_a_trace() {
    let test = "a_real_history_becomes_a_trace";
    let setup = Setup { accounting: true, ..Setup::new(3, 8) };
    let Some(slurm) = setup.start(test) else { return };
    let user = slurm.must(&["id", "-un"]).trim().to_owned();
    slurm.must(&["sacctmgr", "-i", "add", "account", "ml"]);
    slurm.must(&["sacctmgr", "-i", "add", "user", &user, "account=ml", "defaultaccount=ml"]);
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let path = folder.path();
    let on_slurm = |args: &[&str]| {
        let mut command = bandpilot(path);
        let output = command.envs(slurm.env()).args(["slurm", "trace"]).args(args).output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let sampler = Command::new(assert_cmd::cargo::cargo_bin("bandpilot"))
        .current_dir(path)
        .envs(slurm.env())
        .args(["slurm", "trace", "--sample", "s.jsonl", "--every", "1", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let (expected, runs_on) = submit_all(&slurm);

    let told = on_slurm(&["--out", "t.csv", "--cluster", "c.toml", "--record", "r.jsonl"]);
    for said in [
        "sacct: 19 jobs with GPUs, ",
        "1 job, had not ended",
        "2 jobs, of several components",
        "1 job, whose hosts had different numbers",
        "left out: 2 without GPUs, 1 over before they started\n",
        "written: t.csv",
    ] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    on_slurm(&["--sample", "s.jsonl"]);
    let int = Command::new("kill").args(["-INT", &sampler.id().to_string()]).status().unwrap();
    assert!(int.success());
    let output = sampler.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let told = on_slurm(&["--samples", "s.jsonl", "--out", "u.csv"]);
    assert!(told.contains("s.jsonl: 19 jobs with GPUs, "), "{told}");
    assert!(told.contains("left out: 2 without GPUs, 1 over before they started"), "{told}");

    for file in ["t.csv", "u.csv"] {
        let trace = trace_of(&path.join(file));
        let found: Expected = trace
            .jobs
            .iter()
            .map(|job| (job.name.to_string(), (job.gpus, job.gpus_per_instance)))
            .collect();
        // Samples tell how seven GPUs lie on two hosts, accounts do not.
        let totals = |map: &Expected| -> Vec<(String, u32)> {
            map.iter().map(|(name, (gpus, _))| (name.clone(), *gpus)).collect()
        };
        assert_eq!(totals(&found), totals(&expected), "{file}");
        let differ = found.iter().filter(|(name, of)| expected[*name] != **of && of.0 != 7);
        assert_eq!(differ.count(), 0, "{file}: {found:?}");
        for job in trace.jobs.iter().filter(|job| *job.name != *runs_on) {
            let by_slurmctld = seconds_by_slurmctld(&slurm, &job.name);
            assert_eq!(job.duration_s as i64, by_slurmctld, "{file}: {}", job.name);
        }
        assert!(trace.jobs.iter().all(|job| trace.word(job.tenant) == "ml"), "{file}");
    }
    let trace = trace_of(&path.join("t.csv"));
    assert!(trace.jobs.iter().all(|job| trace.word(job.gpu_type) == "H100"));
    if std::env::var_os("BANDPILOT_UPDATE_RECORDINGS").is_some() {
        let text = std::fs::read_to_string(path.join("r.jsonl")).unwrap();
        let text = slurm.scrub(&text).replace(&format!("|{user}|"), "|ann|");
        std::fs::write("../../docs/examples/sacct.recording", text).unwrap();
    }
    drop(slurm);
    for file in ["t.csv", "u.csv"] {
        let args = ["simulate", "--trace", file, "--cluster", "c.toml"];
        let policies = ["--policy", "fifo/best-fit,easy/bandpilot", "--comm-share", "30%"];
        let (code, out, err) = run(path, &[&args[..], &policies].concat());
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("easy/bandpilot  ") && out.contains(" 19 "), "{out}");
    }
    let replay = ["slurm", "trace", "--replay", "r.jsonl", "--cluster", "c.toml", "--out", "v.csv"];
    assert_eq!(run(path, &replay).0, 0);
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(read("v.csv"), read("t.csv"));
}

#[test]
fn a_recording_becomes_a_trace() {
    let folder = folder_with(&[("r.jsonl", RECORDING), ("c.toml", CLUSTER)]);
    let path = folder.path();
    let replay = |more: &[&'static str]| {
        run_json(path, &[&["slurm", "trace", "--replay", "r.jsonl"], more].concat())
    };
    let (code, all) = replay(&[]);
    assert_eq!((code, &all["jobs"], &all["not_ended"]), (0, &19.into(), &1.into()), "{all}");
    assert_eq!(all["left_out"]["without_gpus"], 2);
    assert_eq!(all["states"]["FAILED"], 1);
    assert_eq!(replay(&[]), (code, all));
    let named = ["--anonymous", "--tenant", "user", "--out", "t.csv"];
    let (code, _) = replay(&named);
    assert_eq!(code, 0);
    let text = std::fs::read_to_string(path.join("t.csv")).unwrap();
    assert!(text.contains(",q1,t1,") && !text.contains("ann") && !text.contains("normal"));
    assert!(!text.contains("ml"), "{text}");
    let (code, none) = replay(&["--partition", "other"]);
    assert_eq!((code, &none["error"]["kind"]), (4, &"impossible".into()), "{none}");
    assert!(none.to_string().contains("of other partitions"), "{none}");
}

#[test]
fn samples_are_appended_and_joined() {
    let folder = folder_with(&[("r.jsonl", STATE), ("notes", "my notes\n"), ("torn", "")]);
    let path = folder.path();
    let sample = |file: &'static str| {
        ["slurm", "trace", "--sample", file, "--replay", "r.jsonl"].map(ToOwned::to_owned)
    };
    let words = |words: &[String]| run(path, &words.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..2 {
        let (code, out, err) = words(&sample("s.jsonl"));
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("4 jobs running, 2 waiting\nappended: 1 sample to s.jsonl"), "{out}");
    }
    let file = path.join("s.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 3);
    // Torn by a crash: closed by the next sample, left out and said.
    std::fs::write(&file, format!("{text}{{\"at_s\":17")).unwrap();
    assert_eq!(words(&sample("s.jsonl")).0, 0);
    let join = ["slurm", "trace", "--samples", "s.jsonl", "--out", "t.csv"];
    let (code, out, err) = run(path, &join);
    assert_eq!(code, 6);
    assert!(err.contains("s.jsonl:4: error: is not a line of JSON"), "{err}");
    assert!(
        out.contains("3 jobs with GPUs") && out.contains("3 samples, at most 0 s apart"),
        "{out}"
    );
    let written = std::fs::read_to_string(path.join("t.csv")).unwrap();
    assert!(written.contains("\n3,") && written.contains(",2,2,1,,"), "{written}");
    let (said, _) =
        refused(path, &["slurm", "trace", "--sample", "notes", "--replay", "r.jsonl"], 3);
    assert!(said.contains("notes:1: error: is there, and is no file of samples"), "{said}");
    assert_eq!(std::fs::read_to_string(path.join("notes")).unwrap(), "my notes\n");
}

#[test]
fn what_is_wrong_with_a_history_is_said() {
    let header = "JobID|Submit|Start|ElapsedRaw|State|AllocTRES|NNodes\n";
    let row = "1|2026-11-30T10:00:00|2026-11-30T10:01:00|60|COMPLETED|cpu=1,gres/gpu=2|1\n";
    let bad = format!("{header}{row}2|2026-11-30T10:00:00|soon|60|FAILED|gres/gpu=2|1\n");
    let cpus = format!("{header}{}", row.replace(",gres/gpu=2", ""));
    let files = [("bad", bad.as_str()), ("cpus", &cpus), ("x", "x\n"), ("r.jsonl", STATE)];
    let folder = folder_with(&files);
    let path = folder.path();
    let trace = |more: &[&'static str]| [&["slurm", "trace"], more].concat();
    let (code, out, err) = run(path, &trace(&["--sacct", "bad", "--out", "t.csv"]));
    assert_eq!(code, 6);
    assert!(err.contains("bad:3: error: Start: 'soon' is not a time"), "{err}");
    assert!(out.contains("bad: 1 job with GPUs, 0.0 GPU hours"), "{out}");
    let (said, _) = refused(path, &trace(&["--sacct", "cpus"]), 4);
    assert!(said.contains("left out: 1 without GPUs") && said.contains("AccountingStorageTRES"));
    let (said, _) = refused(path, &trace(&["--sacct", "x"]), 3);
    assert!(said.contains("x:1: error: JobID: there is no such column"), "{said}");
    refused(path, &trace(&["--sacct", "none"]), 5);
    let (said, _) = refused(path, &trace(&["--samples", "x"]), 3);
    assert!(said.contains("is no file of samples"), "{said}");
    let (said, _) = refused(path, &trace(&["--replay", "r.jsonl"]), 3);
    assert!(said.contains("sacct: error: the recording has no further answer"), "{said}");
    refused(path, &trace(&["--since", "yesterday"]), 2);
    refused(path, &trace(&["--sacct", "bad", "--since", "now-2days"]), 2);
    refused(path, &trace(&["--sacct", "bad", "--samples", "x"]), 2);
    refused(path, &trace(&["--every", "3"]), 2);
    refused(path, &trace(&["--sacct", "bad", "--anonymous"]), 2);
}
