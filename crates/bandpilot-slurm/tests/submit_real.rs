//! Submits that were read, laid out by hand and rendered, on a real cluster.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bandpilot_core::GpuMask;
use bandpilot_manager::Plan;
use bandpilot_manager::exchange::{Call, Process, Runner as _};
use bandpilot_slurm::submit::layout::{Component, Layout};
use bandpilot_slurm::submit::options::{Environment, Program, read};
use bandpilot_slurm::submit::render::{array_update, render, render_array};
use bandpilot_slurm::submit::{Reading, Submission};
use bandpilot_testcluster::SlurmCluster;

/// Prints what a task sees.
const SEEN: &str = "echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES";

fn submission(program: Program, words: &[&str], env: &[(&str, &str)], script: &str) -> Submission {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let env: Environment =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match read(program, &words, &env, &mut |_| Ok(script.to_owned())).unwrap() {
        Reading::Planned(submission) => *submission,
        untouched @ Reading::Untouched { .. } => panic!("{untouched:?}"),
    }
}

/// Hosts, GPU indexes and tasks of each component.
fn layout(id: &str, parts: &[(&[&str], &str, usize)]) -> Layout {
    let component = |(hosts, gpus, tasks): &(&[&str], &str, usize)| {
        let gpus = GpuMask::parse(gpus).unwrap();
        Component {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            gpus,
            kinds: gpus.iter().map(|index| format!("g{index}")).collect(),
            tasks_per_host: *tasks,
            cpus_per_task: Some(2),
            memory_mib_per_host: Some(1024),
        }
    };
    let components: Vec<Component> = parts.iter().map(component).collect();
    let of = |c: &Component| c.hosts.iter().map(|h| (h.clone(), c.gpus)).collect::<Vec<_>>();
    let gpus = components.iter().flat_map(of).collect();
    let plan = Plan { id: id.to_owned(), gpus, whole_hosts: false };
    Layout { plan, components, partition: "gpu".to_owned() }
}

fn run(slurm: &SlurmCluster, call: &Call) -> String {
    let mut runner = Process { env: slurm.env(), ..Process::default() };
    let reply = runner.call(call).unwrap();
    assert_eq!(reply.code, Some(0), "{:?}: {}", call.argv, reply.stderr);
    reply.stdout
}

fn submit(slurm: &SlurmCluster, call: &Call) -> u32 {
    run(slurm, call).trim().parse().unwrap()
}

fn show(slurm: &SlurmCluster, job: &str) -> String {
    slurm.must(&["scontrol", "show", "job", "-d", job])
}

#[track_caller]
fn assert_holds(text: &str, wanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

fn contents(slurm: &SlurmCluster, file: &str, lines: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(slurm.path(file)).unwrap_or_default();
    slurm.eventually(&format!("{file} has {lines} lines"), || read().lines().count() >= lines);
    let mut all: Vec<String> = read().lines().map(ToOwned::to_owned).collect();
    all.sort();
    all
}

/// Ranks as the tasks were told, without their numbers.
fn seen(lines: &[String]) -> Vec<String> {
    let mut numbered: Vec<(u32, String)> = lines
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].parse().unwrap(), words[1..].join(":"))
        })
        .collect();
    numbered.sort();
    numbered.into_iter().map(|(_, task)| task).collect()
}

#[test]
fn options_of_command_line_variables_and_script_arrive() {
    let test = "options_of_command_line_variables_and_script_arrive";
    let Some(slurm) = SlurmCluster::start(test, 3, 8) else { return };
    let folder = slurm.path("").display().to_string();
    let out = slurm.path("script.out").display().to_string();
    let script = format!(
        "#!/bin/bash\n#SBATCH --gpus=4 -t 90 # limit\n#SBATCH -o '{out}' --nice=7\n#SBATCH -N 9\n\
         echo \"$BANDPILOT_GPUS|$BANDPILOT_RANKS|$BANDPILOT_WORLD_SIZE|$BANDPILOT_PLAN|$BANDPILOT_SRUN|$1|$NCCL_DEBUG\"\n\
         exec sleep 60\n"
    );
    let words = ["-N2", "--comment=my run", "-D", &folder, "/x/train.sh", "a b"];
    let batch = submission(Program::Sbatch, &words, &[("SBATCH_TIMELIMIT", "1-2")], &script);
    let hints = [("NCCL_DEBUG".to_owned(), "INFO".to_owned())];
    let call = render(&batch, &layout("p1", &[(&["h1", "h3"], "3,6", 2)]), &hints);
    let job = submit(&slurm, &call);
    slurm.await_state(job, "RUNNING");
    let shown = show(&slurm, &job.to_string());
    assert_holds(
        &shown,
        &[
            "JobName=train.sh",
            "Comment=my run bandpilot:p1",
            "TimeLimit=1-02:00:00",
            "Nice=7",
            "NodeList=h[1,3]",
            "GRES=gpu:g3:1(IDX:3),gpu:g6:1(IDX:6)",
            "NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=2",
            "MinMemoryNode=1G",
            "Partition=gpu",
        ],
    );
    let line = contents(&slurm, "script.out", 1).remove(0);
    assert_eq!(line, "h1:3,6,h3:3,6|h1:3,h1:6,h3:3,h3:6|4|p1||a b|INFO");
    slurm.must(&["scancel", &job.to_string()]);

    // Variables that would contradict the plan, an explicit list of exports, whole hosts.
    let out = slurm.path("wrap.out").display().to_string();
    let words = ["--export=PATH,HOME,MINE", "--exclusive", "-J", "a name", "-o", &out, "--wrap"];
    let wrap = [&words[..], &["env; sleep 60"]].concat();
    let contradicting = [("SBATCH_GPUS_PER_NODE", "2"), ("SBATCH_EXCLUSIVE", "user")];
    let batch = submission(Program::Sbatch, &wrap, &contradicting, "");
    let mut call = render(&batch, &layout("p2", &[(&["h2"], "0-1", 1)]), &[]);
    assert_eq!(call.without, ["SBATCH_EXCLUSIVE", "SBATCH_GPUS_PER_NODE"]);
    call.env.push(("MINE".to_owned(), "yes".to_owned()));
    let job = submit(&slurm, &call);
    slurm.await_state(job, "RUNNING");
    let shown = show(&slurm, &job.to_string());
    assert_holds(
        &shown,
        &["JobName=a name", "Comment=bandpilot:p2", "OverSubscribe=NO", "NumCPUs=32"],
    );
    let lines = contents(&slurm, "wrap.out", 6);
    for wanted in ["MINE=yes", "BANDPILOT_GPUS=h2:0-1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} {lines:?}");
    }
}

#[test]
fn an_uneven_set_is_one_world() {
    let Some(slurm) = SlurmCluster::start("an_uneven_set_is_one_world", 3, 8) else { return };
    let uneven = [(&["h2", "h3"][..], "0,2", 2), (&["h1"][..], "1,4,5", 3)];
    let layout = layout("p3", &uneven);
    let ranks = "h2:0,h2:2,h3:0,h3:2,h1:1,h1:4,h1:5";
    let per_task: Vec<&str> = ranks.split(',').collect();

    // Every task sees its own GPU.
    let words = ["-Q", "-n7", "--gpus-per-task=1", "-A", "acc", "bash", "-c", SEEN];
    let command = submission(Program::Srun, &words, &[], "");
    let call = render(&command, &layout, &[]);
    let said = run(&slurm, &call);
    assert_eq!(seen(&said.lines().map(ToOwned::to_owned).collect::<Vec<_>>()), per_task);

    // Every task sees all GPUs of its host.
    let out = slurm.path("het.out").display().to_string();
    let script = format!(
        "#!/bin/bash\n#SBATCH -G7 --time=5 -o {out}\nsrun $BANDPILOT_SRUN bash -c '{SEEN}'\n\
         echo 9 $BANDPILOT_RANKS $SLURM_JOB_NAME\nsleep 60\n"
    );
    let words = ["--exclusive", "--hold", "-b", "now", "--nice=9", "job"];
    let batch = submission(Program::Sbatch, &words, &[], &script);
    let call = render(&batch, &layout, &[]);
    let job = submit(&slurm, &call);
    slurm.must(&["scontrol", "release", &job.to_string()]);
    slurm.await_state(job, "RUNNING");
    let shown = show(&slurm, &job.to_string());
    assert_eq!(shown.matches("JobName=job").count(), 2, "{shown}");
    assert_eq!(shown.matches("TimeLimit=00:05:00").count(), 2);
    assert_eq!(shown.matches("OverSubscribe=NO").count(), 2);
    assert_eq!(shown.matches("Comment=bandpilot:p3").count(), 2);
    assert_eq!(shown.matches("Nice=9").count(), 2);
    assert_holds(&shown, &["NumNodes=2 NumCPUs=64 NumTasks=4", "NumNodes=1 NumCPUs=32 NumTasks=3"]);
    let lines = contents(&slurm, "het.out", 8);
    let (world, last) = lines.split_at(7);
    let shared = ["h2:0,2", "h2:0,2", "h3:0,2", "h3:0,2", "h1:1,4,5", "h1:1,4,5", "h1:1,4,5"];
    assert_eq!(seen(world), shared);
    assert_eq!(last, [format!("9 {ranks} job")]);
}

/// scontrol reads its commands.
fn update(slurm: &SlurmCluster, words: &str) {
    run(slurm, &Call { stdin: format!("{words}\n"), ..Call::of(&["scontrol"]) });
}

#[test]
fn tasks_of_an_array_get_their_own_gpus() {
    let test = "tasks_of_an_array_get_their_own_gpus";
    let Some(slurm) = SlurmCluster::start(test, 3, 8) else { return };
    let out = slurm.path("array.%a").display().to_string();
    let words =
        ["-a", "0-4%2", "--gpus-per-node=2", "-t", "4", "-o", &out, "--comment=sweep", "job"];
    let body = "#!/bin/bash\necho $SLURM_ARRAY_TASK_ID $CUDA_VISIBLE_DEVICES $BANDPILOT_WORLD_SIZE\nsleep 60\n";
    let batch = submission(Program::Sbatch, &words, &[], body);
    let of = |id: &str, hosts: &[&str], gpus| layout(id, &[(hosts, gpus, 2)]);
    let job = submit(&slurm, &render_array(&batch, &of("p4", &["h1", "h2"], "0-1"), &[]));
    let sets = [("h1", "0,3"), ("h2", "6-7"), ("h1", "1-2"), ("h2", "4-5")];
    for (index, (host, gpus)) in (0..).zip(sets) {
        let task = of(&format!("p4.{index}"), &[host, "h3"], gpus);
        update(&slurm, &array_update(&batch, &job.to_string(), index, &task));
    }
    let state = |index: u32| show(&slurm, &format!("{job}_{index}"));
    // Two at a time.
    slurm.eventually("two tasks run", || state(1).contains("JobState=RUNNING"));
    assert_holds(
        &state(0),
        &[
            "GRES=gpu:g0:1(IDX:0),gpu:g3:1(IDX:3)",
            "NodeList=h[1,3]",
            "NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=2",
            "MinMemoryNode=1G",
            "TimeLimit=00:04:00",
            "Comment=sweep bandpilot:p4",
            "ArrayTaskThrottle=2",
        ],
    );
    assert_holds(&state(1), &["GRES=gpu:g6:1(IDX:6),gpu:g7:1(IDX:7)", "NodeList=h[2-3]"]);
    assert_holds(&state(2), &["JobState=PENDING", "ReqNodeList=h1,h3"]);
    // Nobody has given it its GPUs yet.
    assert_holds(&state(4), &["StartTime=2099-01-01T00:00:00", "Comment=sweep bandpilot:p4 "]);
    assert_eq!(contents(&slurm, "array.0", 1), ["0 0,3 4"]);
    slurm.must(&["scancel", &format!("{job}_0"), &format!("{job}_1")]);
    slurm.eventually("the next ones run", || state(3).contains("JobState=RUNNING"));
    assert_holds(&state(2), &["GRES=gpu:g1:1(IDX:1),gpu:g2:1(IDX:2)", "NodeList=h[1,3]"]);

    // With a begin of the user's, it is the update that sets it.
    let later = ["-a", "7", "-G1", "-b", "2098-02-03T04:05:06", "job"];
    let batch = submission(Program::Sbatch, &later, &[], body);
    let one = layout("p5", &[(&["h2"], "4", 1)]);
    let job = submit(&slurm, &render_array(&batch, &one, &[]));
    update(&slurm, &array_update(&batch, &job.to_string(), 7, &one));
    let shown = show(&slurm, &format!("{job}_7"));
    assert_holds(&shown, &["StartTime=2098-02-03T04:05:06", "TresPerNode=gres:gpu:g4:1"]);
}

#[test]
fn the_users_own_words_reach_slurm_untouched() {
    let test = "the_users_own_words_reach_slurm_untouched";
    let Some(slurm) = SlurmCluster::start(test, 1, 2) else { return };
    let untouched = |words: &[&str], script: &str| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let text = |_: &str| Ok(script.to_owned());
        match read(Program::Sbatch, &words, &Environment::new(), &mut { text }).unwrap() {
            Reading::Untouched { call, .. } => call,
            planned @ Reading::Planned(_) => panic!("{planned:?}"),
        }
    };
    let script = "#!/bin/sh\n#SBATCH -J quiet -o /dev/null\nsleep 60\n";
    let job = submit(&slurm, &untouched(&["--parsable", "-n2"], script));
    assert_holds(&show(&slurm, &job.to_string()), &["JobName=quiet", "NumTasks=2"]);

    // GPUs that are named one by one.
    let words = ["--parsable", "-o", "/dev/null", "--gres=gpu:g1:1", "--wrap", "sleep 60"];
    let named = submission(Program::Sbatch, &words, &[], "");
    assert_eq!(named.is_planned_by_user(|kind| kind == "g1"), Ok(true));
    let job = submit(&slurm, &named.untouched);
    slurm.await_state(job, "RUNNING");
    assert_holds(&show(&slurm, &job.to_string()), &["GRES=gpu:g1:1(IDX:1)", "JobName=wrap"]);

    // A command that runs on planned GPUs, with what its user exports.
    let words = [
        "-Q",
        "--gpus=1",
        "--mem=1G",
        "-J",
        "x",
        "bash",
        "-c",
        "echo $CUDA_VISIBLE_DEVICES $BANDPILOT_GPUS $SLURM_JOB_NAME",
    ];
    let command = submission(Program::Srun, &words, &[("SLURM_MEM_PER_CPU", "5M")], "");
    let said = run(&slurm, &render(&command, &layout("p6", &[(&["h1"], "0", 1)]), &[]));
    assert_eq!(said, "0 h1:0 x\n");
}

/// Options, where the job goes, what Slurm shows of it.
type Case = (&'static [&'static str], Layout, &'static [&'static str]);

fn cases() -> Vec<Case> {
    let one = |hosts: &[&str], gpus: &str, tasks| layout("q", &[(hosts, gpus, tasks)]);
    let mut all_memory = one(&["h1"], "0", 1);
    all_memory.components[0].memory_mib_per_host = Some(0);
    let three = [(&["h3"][..], "0", 1), (&["h1"][..], "7", 2), (&["h2"][..], "1-3", 1)];
    vec![
        (
            &["--gpus", "2", "-w", "h2", "--mem", "2G"],
            one(&["h2"], "5,7", 1),
            &["GRES=gpu:g5:1(IDX:5),gpu:g7:1(IDX:7)", "MinMemoryNode=1G"],
        ),
        (
            &["--gpus-per-node=h100:8", "-N2", "-t1:30", "-Aacc"],
            one(&["h1", "h2"], "0-7", 8),
            &["NumTasks=16", "TimeLimit=00:02:00", "Account=acc", "NodeList=h[1-2]"],
        ),
        (
            &["--gres=gpu:1", "--exclusive=user"],
            one(&["h3"], "4", 1),
            &["OverSubscribe=USER", "GRES=gpu:g4:1(IDX:4)"],
        ),
        (
            &["-n3", "--gpus-per-task=1"],
            one(&["h3"], "1,4,6", 3),
            &["NumTasks=3", "GRES=gpu:g1:1(IDX:1),gpu:g4:1(IDX:4),gpu:g6:1(IDX:6)"],
        ),
        (&["-G1", "--ntasks-per-gpu=4"], one(&["h1"], "3", 4), &["NumTasks=4", "NumCPUs=8"]),
        (&["-G1", "-C", "[h100|ib]"], one(&["h1"], "3", 1), &["Features=[h100|ib]", "IDX:3"]),
        (
            &["-G1", "--dependency=singleton", "-J", "alone"],
            one(&["h1"], "3", 1),
            &["JobName=alone", "IDX:3"],
        ),
        (&["-G1", "--reservation=ours"], one(&["h3"], "2", 1), &["Reservation=ours", "IDX:2"]),
        (&["-G1", "-b", "now", "--mem=0"], all_memory, &["MinMemoryNode=0", "IDX:0"]),
        (
            &["-G1", "-Qk", "--no-requeue", "--open-mode=append", "--mail-type=NONE", "--nice"],
            one(&["h2"], "6", 1),
            &["Requeue=0", "Nice=100", "IDX:6"],
        ),
        (
            &["-G5", "-t", "unlimited", "--no-requeue"],
            layout("q", &three),
            &[
                "NodeList=h3\n",
                "NodeList=h1\n",
                "IDX:0",
                "IDX:7",
                "gpu:g1:1(IDX:1),gpu:g2:1(IDX:2),gpu:g3:1(IDX:3)",
            ],
        ),
    ]
}

#[test]
fn every_kind_of_option_is_kept() {
    let Some(slurm) = SlurmCluster::start("every_kind_of_option_is_kept", 3, 8) else { return };
    let user = format!("users={}", slurm.must(&["id", "-un"]).trim());
    let reserve =
        ["reservationname=ours", "starttime=now", "duration=60", "nodes=h3", "flags=ignore_jobs"];
    let out = slurm.path("from.variable").display().to_string();
    for (words, layout, expected) in cases() {
        if words.contains(&"--reservation=ours") {
            slurm.must(&[&["scontrol", "create", "reservation", &user][..], &reserve].concat());
        }
        let script =
            "#!/bin/sh\n#SBATCH --output=/from/script --kill-on-invalid-dep=yes\nsleep 60\n";
        let words = [words, &["job.sh"]].concat();
        let batch = submission(Program::Sbatch, &words, &[("SBATCH_OUTPUT", &out)], script);
        let mut call = render(&batch, &layout, &[]);
        call.env.push(("SBATCH_OUTPUT".to_owned(), out.clone()));
        let job = submit(&slurm, &call);
        slurm.await_state(job, "RUNNING");
        let shown = show(&slurm, &job.to_string());
        assert_holds(&shown, expected);
        for everywhere in ["Comment=bandpilot:q".to_owned(), format!("StdOut={out}")] {
            assert_eq!(shown.matches(&everywhere).count(), layout.components.len(), "{shown}");
        }
        slurm.must(&["scancel", &job.to_string()]);
        if words.contains(&"--reservation=ours") {
            let gone =
                || slurm.run(&["scontrol", "delete", "reservationname=ours"]).status.success();
            slurm.eventually("the reservation can be deleted", gone);
        }
    }
}
