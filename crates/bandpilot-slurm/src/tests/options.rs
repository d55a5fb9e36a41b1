use proptest::prelude::*;

use super::*;
use crate::Limit;
use crate::submit::ask::{GpuCount, Hosts, Memory};
use crate::submit::{Export, Reading, Submission, Untouched, Work};

fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

fn environment(text: &str) -> Environment {
    let pair =
        |pair: &str| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap();
    text.split_whitespace().map(pair).collect()
}

/// Words, variables and option lines of a script called `job.sh`.
fn read_all(
    program: Program,
    words: &[String],
    env: &str,
    lines: &str,
) -> Result<Reading, Vec<crate::Remark>> {
    let mut files = |name: &str| match name {
        "job.sh" | "/home/u/job.sh" | "-" => Ok(format!("#!/bin/sh\n{lines}\nsrun x\n")),
        "./hosts" => Ok("h1\nh[3-4],h1\n".to_owned()),
        "bare" => Ok("srun x\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    read(program, words, &environment(env), &mut files)
}

fn sbatch_with(words: &str, env: &str, lines: &str) -> Submission {
    let words = split(&format!("{words} job.sh"));
    match read_all(Program::Sbatch, &words, env, lines).unwrap() {
        Reading::Planned(submission) => *submission,
        untouched @ Reading::Untouched { .. } => panic!("{untouched:?}"),
    }
}

fn sbatch(words: &str) -> Submission {
    sbatch_with(words, "", "")
}

fn srun(words: &str, env: &str) -> Submission {
    match read_all(Program::Srun, &split(words), env, "").unwrap() {
        Reading::Planned(submission) => *submission,
        untouched @ Reading::Untouched { .. } => panic!("{untouched:?}"),
    }
}

fn error(words: &str, env: &str, lines: &str) -> String {
    let errors =
        read_all(Program::Sbatch, &split(&format!("{words} job.sh")), env, lines).unwrap_err();
    errors
        .iter()
        .map(|(file, error)| error.display(file).to_string())
        .collect::<Vec<_>>()
        .join("\n")
}

fn passed(submission: &Submission) -> String {
    let words: Vec<String> =
        submission.passed.iter().map(|passed| passed.words.join("_")).collect();
    words.join(" ")
}

const fn hosts(least: usize, most: usize) -> Hosts {
    Hosts { least, most }
}

#[test]
fn every_spelling_of_a_value_is_read() {
    for words in
        ["-G4 -N2", "-G 4 -N 2", "--gpus=4 --nodes=2", "--gpus 4 --nodes 2", "-HG4 -vN2 -Q"]
    {
        let submission = sbatch(words);
        assert_eq!(submission.ask.gpus, GpuCount::Total(4), "{words}");
        assert_eq!(submission.ask.hosts, Some(hosts(2, 2)), "{words}");
    }
    let submission =
        sbatch("-G4 --cpus-per-t 2 --const=ib --reser=night --partit=a,b -t5 --acco=x");
    assert_eq!((submission.ask.cpus_per_task, &*submission.ask.reservation), (Some(2), "night"));
    assert_eq!(submission.ask.partitions, ["a", "b"]);
    assert_eq!((&*submission.ask.account, submission.ask.time_limit), ("x", Limit::Seconds(300)));
    assert_eq!(submission.ask.features[0].0, [["ib"]]);
    assert_eq!(sbatch("-HG4 -vvN2 -Q -k -koff --nice=3 --nice").passed.len(), 7);
    assert_eq!(
        passed(&sbatch("-HG4 -vvN2 -Q -k -koff --nice=3 --nice")),
        "-H -v -v -k -koff --nice=3 --nice"
    );
    assert!(sbatch("-vQG4").quiet && !sbatch("-vG4").quiet);
    assert_eq!(passed(&srun("-QG4 x", "")), "-Q");
    assert!(sbatch("-G4 -W").waits && sbatch_with("-G4", "SBATCH_WAIT=1", "").waits);
    assert_eq!(passed(&sbatch("-G4 --wait -H")), "-H");
    assert_eq!(sbatch_with("-G4", "SBATCH_WAIT=1", "").superseded, ["SBATCH_WAIT"]);
    assert!(!srun("-G4 -W 3 x", "").waits && !sbatch("-G4").waits);
    assert_eq!(sbatch("-G4 --tasks-per-node=2").ask.tasks_per_host, Some(2));
}

#[test]
fn options_end_at_the_first_word_that_is_none() {
    let submission = srun("-G 2 -l python -N 9 --gpus=7 -- x", "");
    assert_eq!(submission.work, Work::Command(split("python -N 9 --gpus=7 -- x")));
    assert_eq!((submission.ask.hosts, submission.ask.gpus), (None, GpuCount::Total(2)));
    assert_eq!(srun("-G2 -- -odd", "").work, Work::Command(split("-odd")));
    let Work::Script { args, text } = sbatch("-G 2 job.sh -N3").work else { panic!() };
    assert_eq!(args, ["-N3", "job.sh"]);
    assert!(text.starts_with("#!"));
}

#[test]
fn gpus_are_counted_as_slurm_counts_them() {
    use GpuCount::{PerHost, PerTask, Total};
    let counts = |words: &str| {
        let ask = sbatch(words).ask;
        (ask.gpus, ask.hosts, ask.tasks, ask.tasks_per_host)
    };
    let cases = [
        ("-G4", (Total(4), None, None, None)),
        ("--gpus-per-node=4 -N2", (PerHost(4), Some(hosts(2, 2)), None, None)),
        ("--gres=gpu:4", (PerHost(4), None, None, None)),
        ("--gres=gpu", (PerHost(1), None, None, None)),
        ("-G8 --gpus-per-node=4", (PerHost(4), Some(hosts(2, 2)), None, None)),
        ("-G8 --gres=gpu:4 -N1-4", (PerHost(4), Some(hosts(2, 2)), None, None)),
        ("-G8 --gpus-per-task=2", (PerTask(2), None, Some(4), None)),
        ("--gpus-per-task=2 -n3", (PerTask(2), None, Some(3), None)),
        (
            "--gpus-per-task=2 -N2 --ntasks-per-node=3",
            (PerTask(2), Some(hosts(2, 2)), Some(6), Some(3)),
        ),
        ("--gpus-per-node=4 --gpus-per-task=2", (PerHost(4), None, None, Some(2))),
        ("-G2 --ntasks-per-gpu=3", (Total(2), None, Some(6), None)),
        ("--gres=gpu:2 --ntasks-per-gpu=3", (PerHost(2), None, None, Some(6))),
        ("-n8 --ntasks-per-gpu=2", (Total(4), None, Some(8), None)),
        ("-G0 --gres=gpu:2", (PerHost(2), None, None, None)),
    ];
    for (words, expected) in cases {
        assert_eq!(counts(words), expected, "{words}");
    }
    assert_eq!(sbatch("-n4 --gpus-per-task=2").gpus_per_task, Some(2));
    assert_eq!(sbatch("-G4 --ntasks-per-gpu=2").ask.tasks_per_gpu, Some(2));
}

#[test]
fn contradictions_are_refused() {
    let cases = [
        ("-G5 --gpus-per-node=2", "--gpus: 5 is no multiple"),
        ("-G4 --gpus-per-node=2 -N1", "--nodes: does not hold the 2 hosts"),
        ("-G5 --gpus-per-task=2", "--gpus: 5 is no multiple"),
        ("-G4 --gpus-per-task=2 -n3", "--ntasks: 3 contradicts the 2"),
        ("--gpus-per-task=2", "add --ntasks or --gpus"),
        ("--gpus-per-task=2 -N2", "add --ntasks or --gpus"),
        ("--gpus-per-task=2 -N1-2 --ntasks-per-node=2", "add --ntasks or --gpus"),
        ("--ntasks-per-gpu=2", "add --gpus or --ntasks"),
        ("-n3 --ntasks-per-gpu=2", "3 is no multiple"),
        ("--gpus-per-node=2 --gres=gpu:2", "use one of them"),
        ("-G4 --ntasks-per-gpu=2 --ntasks-per-node=2", "exclude each other"),
        ("-n4 --gpus-per-task=1 --ntasks-per-gpu=1", "exclude each other"),
        ("-G h100:4 --gpus-per-node=a100:2", "different types"),
        ("-G4 --mem=1G --mem-per-cpu=1G", "exclude each other"),
        ("--gpus-per-socket=2", "use --gpus-per-node"),
        ("--tres-per-task=cpu=2,gres/gpu=1", "use --gpus-per-task"),
        ("-G4 -N1,2", "list of sizes"),
        ("-G4 -F hosts", "with -w"),
        ("-G4 -M other", "one cluster"),
        ("-G4 --contiguous", "chooses the hosts itself"),
        ("-G4 -C a*2", "numbers of hosts"),
        ("-G4 --comment=x:bandpilot:y", "holds 'bandpilot:'"),
        ("-G4 -a 0-4000000000", "more than 100000 tasks"),
        ("-G4 -w h[1", "--nodelist"),
        ("-G4 -x ./missing", "no such file"),
        ("-G4 --mem=lots", "--mem: 'lots'"),
        ("-Gfour:x:y", "--gpus"),
        ("-G4 : -G2", "heterogeneous"),
        ("-N1 : -G2", "heterogeneous"),
    ];
    for (words, expected) in cases {
        let said = error(words, "", "");
        assert!(said.contains(expected) && said.starts_with("sbatch options"), "{words}: {said}");
    }
}

#[test]
fn the_place_of_a_mistake_is_named() {
    assert!(error("", "", "\n#SBATCH -G4 --mem=x").starts_with("job.sh:3: error: --mem: 'x'"));
    assert!(error("-G4", "SBATCH_TIMELIMIT=x", "").starts_with("SBATCH_TIMELIMIT: error: --time"));
    assert!(error("-G4", "SBATCH_CLUSTERS=x", "").starts_with("SBATCH_CLUSTERS: error"));
    assert!(error("-G4", "", "#SBATCH -N2 oops").contains("job.sh:2: error: 'oops' is no option"));
    assert!(error("-G4", "", "#SBATCH -J 'x").contains("job.sh:2: error: a quote is not closed"));
    assert!(error("-G4", "", "#SBATCH hetjob").contains("job.sh:2: error: :: separates"));
    assert!(error("-G4 --nod=2", "", "").contains("may be any of --nodelist, --nodes, --nodefile"));
    assert!(error("-G4 --frob", "", "").contains("--frob: is no option of sbatch"));
    assert!(error("-G4 --hold=1", "", "").contains("takes no value"));
    assert!(error("-G4 -y", "", "").contains("-y: is no option"));
    let words = split("--gpus");
    let errors = read_all(Program::Sbatch, &words, "", "").unwrap_err();
    assert_eq!(errors[0].1.message, "needs a value");
    let missing = read_all(Program::Sbatch, &split("-G1 gone.sh"), "", "").unwrap_err();
    assert_eq!(
        missing[0].1.display("gone.sh").to_string(),
        "gone.sh: error: cannot be read: no such file"
    );
}

#[test]
fn command_line_before_environment_before_script() {
    let count = |words, env, lines| sbatch_with(words, env, lines).ask.gpus;
    assert_eq!(count("", "", "#SBATCH -G1"), GpuCount::Total(1));
    assert_eq!(count("", "SBATCH_GPUS=2", "#SBATCH -G1"), GpuCount::Total(2));
    assert_eq!(count("-G3", "SBATCH_GPUS=2", "#SBATCH -G1"), GpuCount::Total(3));
    assert_eq!(count("-G3 -G4", "SBATCH_GPUS=", "#SBATCH -G1"), GpuCount::Total(4));
    assert_eq!(count("", "SBATCH_GPUS_PER_NODE=h100:2", ""), GpuCount::PerHost(2));
    assert_eq!(count("", "SBATCH_GRES=gpu:5", ""), GpuCount::PerHost(5));
    let memory = |words, env, lines| sbatch_with(words, env, lines).ask.memory;
    assert_eq!(memory("-G1", "SBATCH_MEM_PER_NODE=2G", ""), Memory::PerHost(2048));
    assert_eq!(
        memory("-G1", "SBATCH_MEM_PER_NODE=2G", "#SBATCH --mem-per-cpu=1G"),
        Memory::PerCpu(1024)
    );
    let env = "SBATCH_PARTITION=p SBATCH_CONSTRAINT=c SBATCH_EXCLUSIVE= SBATCH_ARRAY_INX=0-1 \
               SBATCH_RESERVATION=r SBATCH_TIMELIMIT=9 SBATCH_ACCOUNT=a SBATCH_JOB_NAME=n HOME=/h";
    let submission = sbatch_with("-G1", env, "#SBATCH -J other -p q");
    let ask = &submission.ask;
    assert_eq!(
        (&ask.partitions[..], ask.exclusive, &*ask.reservation),
        (&["p".to_owned()][..], true, "r")
    );
    assert_eq!((ask.array.as_ref().unwrap().indexes.len(), &*submission.job_name), (2, "n"));
    assert_eq!(submission.superseded.len(), 8);
    let submission = srun("x", "SLURM_GPUS=2 SLURM_NTASKS=4 SRUN_CPUS_PER_TASK=3 SLURM_NNODES=2");
    assert_eq!(
        (submission.ask.tasks, submission.ask.cpus_per_task, submission.ask.hosts),
        (Some(4), Some(3), Some(hosts(2, 2)))
    );
    assert_eq!(sbatch_with("-G1 -n2", "SLURM_NTASKS=4", "").ask.tasks, Some(2));
}

#[test]
fn what_is_not_heeded_comes_out_unchanged_and_in_order() {
    let lines = "#SBATCH --qos=low -G2 # comment\n# text\n#SBATCH -o 'out %j' --mail-user=me\n\n#SBATCH --signal";
    let submission = sbatch_with(
        "-k --site-plugin=3 --container-image=a#b --nice",
        "SBATCH_QOS=high",
        &format!("{lines}=B:9"),
    );
    assert_eq!(
        passed(&submission),
        "-o_out %j --mail-user=me --signal=B:9 -k --site-plugin=3 --container-image=a#b --nice"
    );
    let submission = sbatch("-G1 -L lic:2 --bb=x --mail-type END --gpu-bind=none");
    let once: Vec<bool> = submission.passed.iter().map(|passed| passed.once).collect();
    assert_eq!(once, [true, true, false, false]);
    assert!(submission.written.gpu_bind);
    let submission = sbatch("-G1 --gres=shard:2,tmp:1 --exclusive=user -m cyclic --export-file=e");
    assert_eq!(submission.other_gres, ["shard:2", "tmp:1"]);
    assert_eq!(passed(&submission), "-m_cyclic --export-file=e --exclusive=user");
    let fields: Vec<&str> = submission.remarks.iter().map(|(_, r)| r.field.as_str()).collect();
    assert_eq!(
        (fields, submission.ask.exclusive),
        (vec!["--exclusive", "--distribution", "--export"], false)
    );
}

#[test]
fn a_job_without_gpus_is_not_touched() {
    let why = |words: &str, env: &str, lines: &str| {
        let words = split(words);
        match read_all(Program::Sbatch, &words, env, lines).unwrap() {
            Reading::Untouched { why, call } => {
                assert_eq!(call.argv[1..], words[..]);
                (why, !call.stdin.is_empty())
            }
            planned @ Reading::Planned(_) => panic!("{planned:?}"),
        }
    };
    for words in [
        "-N2 job.sh",
        "-N x job.sh",
        "--gres=shard:2 job.sh",
        "--gres=none job.sh",
        "--gpus=0 job.sh",
        "--gres=gpu:0 job.sh",
        "-N1 job.sh : -N2",
        "--frob=1 job.sh",
        "--frob job.sh",
        "-M all -F x --contiguous job.sh",
        "--cpus-per-task=2 --mem-per-gpu=1G job.sh",
    ] {
        assert_eq!(why(words, "", ""), (Untouched::NoGpus, false), "{words}");
    }
    assert_eq!(why("-N2", "", "#SBATCH -n2"), (Untouched::NoGpus, true));
    assert_eq!(why("-N2 job.sh", "", "#SBATCH -n 2 oops\n#SBATCH hetjob").0, Untouched::NoGpus);
    assert_eq!(why("-G2 --test-only job.sh", "", "").0, Untouched::NoJob("--test-only".into()));
    assert_eq!(why("--hel", "", "").0, Untouched::NoJob("--help".into()));
    assert_eq!(why("-G2 bare", "", ""), (Untouched::NothingToRun, false));
    assert_eq!(why("-G2 --wrap=x job.sh", "", ""), (Untouched::NothingToRun, false));
    let srun =
        |words: &str, env: &str| match read_all(Program::Srun, &split(words), env, "").unwrap() {
            Reading::Untouched { why, .. } => why,
            planned @ Reading::Planned(_) => panic!("{planned:?}"),
        };
    assert_eq!(srun("-G2 x", "SLURM_JOB_ID=7"), Untouched::InsideJob);
    assert_eq!(srun("--jobid=3 -G2 x", ""), Untouched::NoJob("--jobid".into()));
    assert_eq!(srun("-G2", ""), Untouched::NothingToRun);
}

#[test]
fn names_of_jobs_are_those_of_slurm() {
    let name =
        |words: &str, env: &str| match read_all(Program::Sbatch, &split(words), env, "").unwrap() {
            Reading::Planned(submission) => submission.job_name,
            untouched @ Reading::Untouched { .. } => panic!("{untouched:?}"),
        };
    assert_eq!(name("-G1 job.sh", ""), "job.sh");
    assert_eq!(name("-G1 /home/u/job.sh", ""), "job.sh");
    assert_eq!(name("-G1 -J x job.sh", ""), "x");
    assert_eq!(name("-G1", ""), "sbatch");
    assert_eq!(name("-G1 --wrap=hostname", ""), "wrap");
    assert_eq!(srun("-G1 hostname", "").job_name, "");
}

#[test]
fn gpus_that_are_named_one_by_one_are_planned_by_the_user() {
    let is_index = |name: &str| name.len() == 2 && name.starts_with('g');
    let planned = |words: &str| sbatch(words).is_planned_by_user(is_index);
    assert_eq!(planned("--gres=gpu:g3:1,gpu:g6:1"), Ok(true));
    assert_eq!(planned("-G g3"), Ok(true));
    assert_eq!(planned("--gres=gpu:h100:4"), Ok(false));
    assert_eq!(planned("-G4"), Ok(false));
    assert!(planned("--gres=gpu:g3:1,gpu:h100:1").is_err());
    assert!(planned("-G h100:4,a100:4").is_err());
    assert_eq!(sbatch("-G h100:4").ask.gpu_model.as_deref(), Some("h100"));
    assert_eq!(sbatch("-G 8 --gpus-per-node=h100:4").ask.gpu_model.as_deref(), Some("h100"));
}

#[test]
fn hosts_come_from_lists_and_files() {
    let ask = sbatch("-G1 -w h[1-2],h1 -x ./hosts").ask;
    assert_eq!(
        (ask.named_hosts, ask.excluded_hosts),
        (vec!["h1".to_owned(), "h2".to_owned()], split("h1 h3 h4"))
    );
}

#[test]
fn exports_are_told_apart() {
    let export = |words: &str| sbatch(words).export;
    assert_eq!(export("-G1"), Export::All(String::new()));
    assert_eq!(export("-G1 --export=all,X=1"), Export::All("all,X=1".into()));
    assert_eq!(export("-G1 --export=PATH,X=1"), Export::List("PATH,X=1".into()));
    assert_eq!(export("-G1 --export=NIL"), Export::None("NIL".into()));
    assert_eq!(sbatch("-G1 --export=NONE").remarks.len(), 1);
    assert_eq!(sbatch_with("-G1", "SBATCH_EXPORT=A", "").export, Export::List("A".into()));
}

#[test]
fn lines_for_pbs_are_noticed() {
    assert_eq!(sbatch_with("-G1", "", "#PBS -l nodes=2").remarks[0].1.line, 2);
    let ignoring = sbatch_with("-G1 --ignore-pbs", "", "#PBS -l nodes=2");
    assert_eq!((ignoring.remarks.len(), passed(&ignoring)), (0, "--ignore-pbs".to_owned()));
}

#[test]
fn own_options_stand_anywhere_before_the_script() {
    let own = [Own { name: "explain", takes_value: false }, Own { name: "nod", takes_value: true }];
    let cases = [
        ("--explain -G 4 job.sh", "--explain", "-G 4 job.sh"),
        ("-G --explain job.sh --explain", "", "-G --explain job.sh --explain"),
        ("-vN 2 --nod 3 --nodes=4 --nod=5 x", "--nod 3 --nod=5", "-vN 2 --nodes=4 x"),
        ("-- --explain", "", "-- --explain"),
        ("--comment --explain --explain", "--explain", "--comment --explain"),
        ("--expl x", "", "--expl x"),
        ("--nod", "--nod", ""),
    ];
    for (words, mine, rest) in cases {
        assert_eq!(
            split_own(Program::Sbatch, &split(words), &own),
            (split(mine), split(rest)),
            "{words}"
        );
    }
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "-[a-zA-Z][0-9a-z:,-]{0,6}",
        "--[a-z-]{1,12}(=[0-9a-z:,*()|&%\\[\\]-]{0,10})?",
        prop_oneof![
            Just("-G4"),
            Just("--gres=gpu:2"),
            Just("--gpus"),
            Just("-N"),
            Just("-a"),
            Just("--"),
            Just(":"),
            Just("job.sh"),
            Just("-t"),
            Just("-C"),
            Just("-w"),
            Just("--exclusive"),
        ]
        .prop_map(ToOwned::to_owned),
    ]
}

/// Flags and options with values that bandpilot does not heed, as one or two words.
fn unheeded() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        Just(vec!["-H".to_owned()]),
        Just(vec!["--requeue".to_owned()]),
        "[a-z]{1,5}".prop_map(|value| vec![format!("--qos={value}")]),
        "[a-zA-Z0-9 =:-]{1,9}".prop_map(|value| vec!["-o".to_owned(), format!("x{value}")]),
        "[a-z=]{0,9}".prop_map(|value| vec![format!("--plugin-thing={value}")]),
        "[0-9]{1,3}".prop_map(|value| vec![format!("--nice={value}")]),
    ]
}

proptest! {
    #[test]
    fn no_words_make_it_panic(
        words in prop::collection::vec(word(), 0..8),
        lines in prop::collection::vec(word(), 0..6),
        value in word(),
        srun in any::<bool>(),
    ) {
        let program = if srun { Program::Srun } else { Program::Sbatch };
        let names = ["SBATCH_GPUS", "SBATCH_EXCLUSIVE", "SBATCH_ARRAY_INX", "SLURM_NTASKS"];
        let env: Environment = names.iter().map(|name| ((*name).to_owned(), value.clone())).collect();
        let script = format!("#!/bin/sh\n#SBATCH {}\n", lines.join(" "));
        let read = read(program, &words, &env, &mut |_| Ok(script.clone()));
        if let Err(errors) = read {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn unheeded_options_keep_their_words_and_order(
        options in prop::collection::vec(unheeded(), 0..8),
        at in 0_usize..8,
    ) {
        let mut words = options.clone();
        words.insert(at.min(options.len()), split("-G 4"));
        let mut words = words.concat();
        words.push("job.sh".to_owned());
        let Ok(Reading::Planned(submission)) = read_all(Program::Sbatch, &words, "", "") else {
            return Err(TestCaseError::fail("not planned"));
        };
        let passed: Vec<Vec<String>> = submission.passed.into_iter().map(|p| p.words).collect();
        prop_assert_eq!(passed, options);
    }

    #[test]
    fn own_and_other_words_are_all_words(words in prop::collection::vec(word(), 0..8)) {
        let own = [Own { name: "gpus", takes_value: true }];
        let (mine, rest) = split_own(Program::Srun, &words, &own);
        prop_assert_eq!(mine.len() + rest.len(), words.len());
    }
}
