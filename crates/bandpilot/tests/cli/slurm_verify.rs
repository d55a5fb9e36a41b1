//! `bandpilot slurm verify`: on a real cluster, from what was recorded of it, and inside a job.

use std::path::Path;
use std::process::Command;

use bandpilot_manager::audit::{self, Entry, HostGpus, Planned, State, What};
use bandpilot_testcluster::SlurmCluster;
use serde_json::{Value, json};

use crate::{bandpilot, folder_with, refused, run, run_json};

/// Written by `every_kind_of_job_gets_its_verdict` with `BANDPILOT_UPDATE_RECORDINGS=1`.
pub const RECORDING: &str = include_str!("../recordings/verify-22.05.jsonl");
pub const AUDIT: &str = include_str!("../recordings/verify-22.05.audit.jsonl");

/// Long ago, so that nobody can still be submitting it.
const AT_S: i64 = 1_000;

fn planned(gpus: &str, array_task: Option<u32>) -> What {
    let list = bandpilot_readers::placement::by_name(gpus).into_result().unwrap().0;
    What::Plan(Box::new(Planned {
        user: "ann".to_owned(),
        program: "sbatch".to_owned(),
        gpus: HostGpus::list(&list, None),
        array_task,
        ..Planned::default()
    }))
}

fn entry(plan: &str, what: What) -> Entry {
    Entry { plan: plan.to_owned(), at_s: AT_S, what }
}

/// A plan and, if it has one, the line of its job.
fn lines(plan: &str, gpus: &str, job: Option<&str>) -> Vec<Entry> {
    let task = job.and_then(|job| job.split_once('_')).map(|(_, task)| task.parse().unwrap());
    let mut lines = vec![entry(plan, planned(gpus, task))];
    lines.extend(job.map(|job| entry(plan, What::Submitted { job: job.to_owned() })));
    lines
}

fn submit(slurm: &SlurmCluster, options: &[&str], script: &str) -> String {
    let folder = slurm.path("").display().to_string();
    let mut argv = vec!["sbatch", "--parsable", "-o", "/dev/null", "-D", &folder];
    argv.extend(options);
    argv.extend(["--wrap", script]);
    slurm.must(&argv).trim().to_owned()
}

fn verify(slurm: &SlurmCluster, folder: &Path, more: &[&str]) -> (i32, String, String) {
    let mut command = bandpilot(folder);
    let args = ["slurm", "verify", "--audit", "a.jsonl"];
    let output = command.envs(slurm.env()).args(args).args(more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The verdict on each plan.
fn verdicts(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let plans = answer["plans"].as_array().unwrap();
    plans.iter().map(|plan| (text(&plan["plan"]), text(&plan["verdict"]))).collect()
}

const EXPECTED: [(&str, &str); 9] = [
    ("runs", "as_planned"),
    ("waits", "waits"),
    ("over", "as_planned"),
    ("gone", "over_never_had_GPUs"),
    ("uneven", "as_planned"),
    ("array_1", "as_planned"),
    ("other", "differs"),
    ("killed", "planned_not_submitted"),
    ("lost", "as_planned"),
];

fn expected() -> Vec<(String, String)> {
    EXPECTED.map(|(plan, verdict)| (plan.to_owned(), verdict.to_owned())).to_vec()
}

#[test]
fn every_kind_of_job_gets_its_verdict() {
    let test = "every_kind_of_job_gets_its_verdict";
    let Some(slurm) = SlurmCluster::start(test, 2, 8) else { return };
    let sleep = |options: &[&str]| submit(&slurm, options, "sleep 60");
    let runs = sleep(&["-w", "h1", "--gres=gpu:g3:1,gpu:g5:1"]);
    let over = submit(&slurm, &["-N2", "-w", "h1,h2", "--gres=gpu:g0:1"], "true");
    slurm.eventually("it is over", || {
        slurm.must(&["squeue", "-h", "-t", "all", "-o", "%T", "-j", &over]).trim() == "COMPLETED"
    });
    let waits = sleep(&["-w", "h1", "--gres=gpu:g3:1"]);
    let gone = sleep(&["-H", "-w", "h1", "--gres=gpu:g2:1"]);
    slurm.must(&["scancel", &gone]);
    let part = ["-w", "h1", "--gres=gpu:g0:1", ":", "-w", "h2", "--gres=gpu:g1:1,gpu:g2:1"];
    let uneven = sleep(&part);
    let array = sleep(&["-a", "1", "-w", "h2", "--gres=gpu:g4:1"]);
    let other = sleep(&["-w", "h1", "--gres=gpu:g6:1"]);
    let lost = sleep(&["--comment", "of ann bandpilot:lost", "-w", "h2", "--gres=gpu:g6:1"]);
    for job in [&runs, &uneven, &array, &other, &lost] {
        slurm.await_state(job.parse().unwrap(), "RUNNING");
    }
    let task = format!("{array}_1");
    let entries = [
        lines("runs", "h1:3,5", Some(&runs)),
        lines("waits", "h1:3", Some(&waits)),
        lines("over", "h1:0,h2:0", Some(&over)),
        lines("gone", "h1:2", Some(&gone)),
        lines("uneven", "h1:0,h2:1-2", Some(&uneven)),
        lines("array_1", "h2:4", Some(&task)),
        lines("other", "h1:7", Some(&other)),
        lines("killed", "h2:7", None),
        lines("lost", "h2:6", None),
    ];
    let before = audit::append("", &entries.concat()).unwrap();
    let folder = folder_with(&[("a.jsonl", &before)]);
    let path = folder.path();
    let (code, out, err) = verify(&slurm, path, &["--json", "--record", "r.jsonl"]);
    assert_eq!((code, err.as_str()), (6, ""), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(verdicts(&answer), expected(), "{out}");
    assert_eq!((&answer["appended"], &answer["double_bookings"]), (&json!(8), &json!([])));
    assert_eq!(answer["plans"][6]["why"], "h1: planned 7, has 6");
    assert_eq!(answer["plans"][8]["job"], lost.as_str());
    if std::env::var_os("BANDPILOT_UPDATE_RECORDINGS").is_some() {
        let recorded = std::fs::read_to_string(path.join("r.jsonl")).unwrap();
        std::fs::write("tests/recordings/verify-22.05.jsonl", slurm.scrub(&recorded)).unwrap();
        std::fs::write("tests/recordings/verify-22.05.audit.jsonl", &before).unwrap();
    }

    // What was told is not asked again, and says the same; the one that waits is watched until it runs.
    slurm.must(&["scancel", &runs]);
    let (code, out, err) = verify(&slurm, path, &["--watch", "1", "--until-idle", "--json"]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let mut then = expected();
    then[1].1 = "as_planned".to_owned();
    assert_eq!((code, verdicts(&answer)), (6, then), "{out}");
    assert_eq!(err, format!("job {waits}, plan waits: as planned\n"));
    let text = std::fs::read_to_string(path.join("a.jsonl")).unwrap();
    let kept = audit::read(&text);
    assert_eq!(kept.diagnostics, []);
    let states: Vec<State> = kept.value.plans.iter().map(|known| known.state).collect();
    let (v, d) = (State::Verified, State::Differs);
    assert_eq!(states, [v, v, v, State::Unseen, v, v, d, State::Planned, v]);
    assert!(text.starts_with(&before));
    let (code, out, _) = verify(&slurm, path, &["--job", &waits]);
    let shown = "1 plan: 1 as planned\n";
    assert_eq!((code, out.as_str()), (0, shown));
}

#[test]
fn a_watch_outlasts_slurmctld_and_ends_with_ctrl_c() {
    let test = "a_watch_outlasts_slurmctld_and_ends_with_ctrl_c";
    let Some(mut slurm) = SlurmCluster::start(test, 1, 8) else { return };
    let runs = submit(&slurm, &["-w", "h1", "--gres=gpu:g3:1"], "sleep 60");
    let named = ["--comment", "bandpilot:b"];
    let waits =
        submit(&slurm, &[&["-H", "-w", "h1", "--gres=gpu:g5:1"], &named[..]].concat(), "sleep 60");
    slurm.await_state(runs.parse().unwrap(), "RUNNING");
    let entries = [lines("a", "h1:3", Some(&runs)), lines("b", "h1:5", Some(&waits))];
    let folder = folder_with(&[("a.jsonl", &audit::append("", &entries.concat()).unwrap())]);
    let file = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    // It ends with this thread at the latest.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(assert_cmd::cargo::cargo_bin("bandpilot"))
        .args(["slurm", "verify", "--audit", "a.jsonl", "--watch", "1", "--timeout-s", "5"])
        .current_dir(folder.path())
        .envs(slurm.env())
        .stdout(file("out"))
        .stderr(file("err"))
        .spawn()
        .unwrap();
    slurm.eventually("the first is seen", || read("err").contains("plan a: as planned\n"));
    // It saves its jobs a few seconds late.
    slurm.eventually("the second is saved", || {
        let saved = std::fs::read(slurm.path("state/job_state")).unwrap_or_default();
        String::from_utf8_lossy(&saved).contains("bandpilot:b")
    });
    slurm.kill("slurmctld");
    slurm.eventually("it is missed", || read("err").contains("scontrol show job -d: error: "));
    slurm.restart("slurmctld");
    slurm.must(&["scontrol", "release", &waits]);
    slurm.eventually("the second is seen", || read("err").contains("plan b: as planned\n"));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", read("err"));
    let out = read("out");
    assert!(out.ends_with("\n\n2 plans: 2 as planned\n"), "{out}");
    assert_eq!(out.lines().count(), 5, "{out}");
    assert_eq!(read("a.jsonl").lines().count(), 7);
}

#[test]
fn a_recording_gives_the_same_and_changes_nothing() {
    let folder = folder_with(&[("a.jsonl", AUDIT), ("r.jsonl", RECORDING)]);
    let path = folder.path();
    let args = ["slurm", "verify", "--audit", "a.jsonl", "--replay", "r.jsonl"];
    let (code, out, err) = run(path, &args);
    assert_eq!((code, err.as_str()), (6, ""));
    let rows: Vec<String> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "JOB PLAN PLANNED HELD VERDICT",
            "1 runs h1:3,5 h1:3,5 as planned",
            "3 waits h1:3 - waits: Resources",
            "2 over h1:0,h2:0 h1:0,h2:0 as planned",
            "4 gone h1:2 - over, never had GPUs",
            "5 uneven h1:0,h2:1-2 h1:0,h2:1-2 as planned",
            "7_1 array_1 h2:4 h2:4 as planned",
            "8 other h1:7 h1:6 differs: h1: planned 7, has 6",
            "- killed h2:7 - planned, not submitted",
            "9 lost h2:6 h2:6 as planned",
            "",
            "9 plans: 5 as planned; 1 differs; 1 over, never had GPUs; 1 planned, not submitted; 1 waits",
        ],
        "{out}"
    );
    assert_eq!(std::fs::read_to_string(path.join("a.jsonl")).unwrap(), AUDIT);
    let (_, answer) = run_json(path, &args);
    assert_eq!(verdicts(&answer), expected());
}

/// A recording of one answer.
fn recording(argv: &[&str], answer: &str) -> String {
    let line = json!({"argv": argv, "at_s": 5_000, "code": 0, "stdout": answer, "stderr": ""});
    format!("{}\n{line}\n", json!({"format": "bandpilot-exchange", "version": 1}))
}

#[test]
fn a_gpu_in_two_jobs_is_named() {
    let job = |id: u32| {
        format!(
            "JobId={id} JobName=a\n   JobState=RUNNING Reason=None\n   NodeList=h1\n     Nodes=h1 GRES=gpu:g3:1(IDX:3)\n\n"
        )
    };
    let answer = recording(&["scontrol", "show", "job", "-d"], &(job(1) + &job(2)));
    let audit = audit::append("", &lines("a", "h1:3", Some("1"))).unwrap();
    let folder = folder_with(&[("a.jsonl", &audit), ("r.jsonl", &answer)]);
    let args = ["slurm", "verify", "--audit", "a.jsonl", "--replay", "r.jsonl"];
    let (code, out, _) = run(folder.path(), &args);
    assert_eq!(code, 6);
    assert!(out.contains("\nh1:3 is in two jobs at once: 1 and 2\n"), "{out}");
    let (_, answer) = run_json(folder.path(), &args);
    assert_eq!(answer["double_bookings"], json!([{"host": "h1", "gpu": 3, "jobs": ["1", "2"]}]));
}

#[test]
fn what_is_wrong_is_refused() {
    let newer = audit::HEADER.replace(":1}", ":2}") + "\n";
    let damaged = audit::append("", &lines("a", "h1:3", Some("1"))).unwrap() + "{\"what\":1}\n";
    let none = recording(&["scontrol", "show", "job", "-d"], "No jobs in the system\n");
    let files = [("new", newer.as_str()), ("other", "x\n"), ("a", &damaged), ("r", &none)];
    let folder = folder_with(&files);
    let path = folder.path();
    let with = |audit: &'static str| ["slurm", "verify", "--audit", audit, "--replay", "r"];
    let (said, _) = refused(path, &with("new"), 3);
    assert!(said.contains("new:1:1: error: version: the audit is of version 2"), "{said}");
    let (said, _) = refused(path, &with("other"), 3);
    assert!(said.contains("other:1:1: error: the file is not an audit"), "{said}");
    refused(path, &with("none"), 5);
    let (said, _) = refused(path, &["slurm", "verify"], 5);
    assert!(said.contains(".local/state/bandpilot/audit.jsonl: error: "), "{said}");
    let homeless = bandpilot(path).args(["slurm", "verify"]).env_remove("HOME").output().unwrap();
    assert_eq!(homeless.status.code(), Some(2));
    refused(path, &["slurm", "verify", "--audit", "a", "--job", "x"], 2);
    refused(path, &["slurm", "verify", "--audit", "a", "--until-idle"], 2);
    let (said, _) = refused(path, &[&with("a")[..], &["--job", "7"]].concat(), 3);
    assert!(said.contains("a: error: has no plan of job 7"), "{said}");
    let (code, out, said) = run(path, &with("a"));
    assert_eq!(code, 6);
    assert!(said.contains("a:4: error: what: is missing or not a text"), "{said}");
    assert!(out.contains("over, never seen running"), "{out}");
}

/// The XML of a driver in the form of 535, of a host with eight GPUs whose device files follow the bus.
pub fn driver() -> String {
    let gpu = |at: usize| {
        format!(
            "\t<gpu id=\"00000000:{at}7:00.0\">\n\t\t<product_name>NVIDIA H100</product_name>\n\
             \t\t<uuid>GPU-{at}</uuid>\n\t\t<minor_number>{at}</minor_number>\n\t</gpu>\n"
        )
    };
    let gpus: String = (0..8).map(gpu).collect();
    let xml = format!(
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n\
         <nvidia_smi_log>\n{gpus}</nvidia_smi_log>\n"
    );
    recording(&["nvidia-smi", "-q", "-x"], &xml)
}

/// What `slurm verify --here` says with this environment, which replaces that of the test.
pub fn here(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = bandpilot(folder);
    for name in ["BANDPILOT_PLAN", "BANDPILOT_GPUS", "SLURM_JOB_ID", "SLURMD_NODENAME"] {
        command.env_remove(name);
    }
    for name in ["SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID_HET_GROUP_0", "CUDA_VISIBLE_DEVICES"] {
        command.env_remove(name);
    }
    command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID").envs(environment.iter().copied());
    let output = command.args(["slurm", "verify", "--here"]).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn inside_a_job_the_driver_is_asked() {
    let audit = audit::append("", &lines("a", "h1:3,5,h2:0", Some("12"))).unwrap();
    let failed = json!({"argv": ["nvidia-smi", "-q", "-x"], "failed": "failed to start it: none"});
    let no_driver =
        format!("{}\n{failed}\n", json!({"format": "bandpilot-exchange", "version": 1}));
    let folder = folder_with(&[("a", &audit), ("r", &driver()), ("none", &no_driver)]);
    let path = folder.path();
    let job = [("SLURM_JOB_ID", "12"), ("SLURMD_NODENAME", "h1")];
    let with = |visible: &'static str| [&job[..], &[("CUDA_VISIBLE_DEVICES", visible)]].concat();
    let by_audit = ["--audit", "a", "--replay", "r"];
    let (code, out, err) = here(path, &by_audit, &with("3,5"));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.starts_with("job 12, plan a on h1: planned 3,5\nthe driver shows 8 GPUs\n"),
        "{out}"
    );
    assert!(out.ends_with("\nas planned\n"), "{out}");
    let (code, out, _) = here(path, &by_audit, &with("3,6"));
    assert_eq!(code, 6);
    assert!(out.ends_with("\ndiffers: h1: planned 3,5, has 3,6\n"), "{out}");
    let by_name = [&with("GPU-3,GPU-5")[..], &[("BANDPILOT_GPUS", "h1:3,5,h2:0")]].concat();
    let (code, out, _) = here(path, &["--replay", "r"], &by_name);
    assert_eq!(code, 0, "{out}");
    let (code, out, err) = here(path, &["--audit", "a", "--replay", "none"], &with("0,1"));
    assert_eq!(code, 0, "{out}");
    assert!(err.contains("warning: no GPU driver answers here"), "{err}");
    assert!(out.ends_with("\nunknown: no GPU driver, or it could not be read\n"), "{out}");
    let (code, _, err) = here(path, &["--replay", "r"], &with("0"));
    assert_eq!(code, 3);
    assert!(err.contains("job 12 has no plan here"), "{err}");
    let (code, _, err) = here(path, &["--replay", "r"], &[]);
    assert_eq!(code, 2);
    assert!(err.contains("--here: error: SLURM_JOB_ID is not set"), "{err}");
}

#[test]
fn slurm_sets_what_the_check_inside_a_job_reads() {
    let test = "slurm_sets_what_the_check_inside_a_job_reads";
    let Some(slurm) = SlurmCluster::start(test, 1, 8) else { return };
    std::fs::write(slurm.path("driver"), driver()).unwrap();
    let program = assert_cmd::cargo::cargo_bin("bandpilot").display().to_string();
    let script = format!(
        "{program} slurm verify --here --audit a --replay driver --json > said; echo $? > code"
    );
    // Its id is known before it runs.
    let job = submit(&slurm, &["-H", "-w", "h1", "--gres=gpu:g3:1,gpu:g5:1"], &script);
    let audit = audit::append("", &lines("a", "h1:3,5", Some(&job))).unwrap();
    std::fs::write(slurm.path("a"), audit).unwrap();
    slurm.must(&["scontrol", "release", &job]);
    let read = |name: &str| std::fs::read_to_string(slurm.path(name)).unwrap_or_default();
    slurm.eventually("it has looked", || read("code").ends_with('\n'));
    let answer: Value = serde_json::from_str(&read("said")).unwrap();
    assert_eq!((read("code").as_str(), &answer["agrees"]), ("0\n", &json!(true)), "{answer}");
    assert_eq!((&answer["host"], &answer["planned"]), (&json!("h1"), &json!([3, 5])));
    assert_eq!(answer["cuda_visible_devices"], "3,5");
}
