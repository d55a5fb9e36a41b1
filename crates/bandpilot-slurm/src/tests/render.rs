use bandpilot_core::GpuMask;
use bandpilot_manager::Plan;

use super::*;
use crate::submit::Reading;
use crate::submit::options::{Environment, read};

fn submission(program: Program, words: &[&str], env: &[(&str, &str)]) -> Submission {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let env: Environment =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let script = "#!/bin/sh\n#SBATCH -G3 --signal=9\nsrun x\n";
    match read(program, &words, &env, &mut |_| Ok(script.to_owned())).unwrap() {
        Reading::Planned(submission) => *submission,
        untouched @ Reading::Untouched { .. } => panic!("{untouched:?}"),
    }
}

fn component(hosts: &[&str], gpus: &str, tasks_per_host: usize) -> Component {
    let gpus = GpuMask::parse(gpus).unwrap();
    Component {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        gpus,
        kinds: gpus.iter().map(|index| format!("g{index}")).collect(),
        tasks_per_host,
        cpus_per_task: None,
        memory_mib_per_host: None,
    }
}

fn layout(components: Vec<Component>) -> Layout {
    let of = |c: &Component| c.hosts.iter().map(|h| (h.clone(), c.gpus)).collect::<Vec<_>>();
    let gpus = components.iter().flat_map(of).collect();
    let plan = Plan { id: "p1".to_owned(), gpus, whole_hosts: false };
    Layout { plan, components, partition: "ai".to_owned() }
}

fn uneven() -> Layout {
    layout(vec![component(&["h2"], "0,2", 2), component(&["h1"], "5", 1)])
}

fn value<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    call.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[test]
fn every_component_has_all_options() {
    let words = [
        "-L",
        "lic",
        "-t",
        "5",
        "--comment=a b",
        "-d",
        "singleton",
        "-C",
        "ib",
        "job.sh",
        "x",
        "y z",
    ];
    let call = render(&submission(Program::Sbatch, &words, &[]), &uneven(), &[]);
    let common = [
        "--job-name=job.sh",
        "--comment=a b bandpilot:p1",
        "--partition=ai",
        "--time=5",
        "--dependency=singleton",
        "--constraint=ib",
    ];
    let first = ["sbatch", "--signal=9", "-L", "lic", "--parsable"];
    let shape =
        ["-N", "1", "-n", "2", "--ntasks-per-node=2", "-w", "h2", "--gres=gpu:g0:1,gpu:g2:1"];
    let second = ["-N", "1", "-n", "1", "--ntasks-per-node=1", "-w", "h1", "--gres=gpu:g5:1"];
    let behind = ["/dev/stdin", "x", "y z"];
    let expected =
        [&first[..], &common, &shape, &[":", "--signal=9"], &common, &second, &behind].concat();
    assert_eq!(call.argv, expected);
    assert_eq!(call.stdin, "#!/bin/sh\n##SBATCH (bandpilot) -G3 --signal=9\nsrun x\n");
    assert_eq!(value(&call, "BANDPILOT_GPUS"), Some("h2:0,2,h1:5"));
    assert_eq!(value(&call, "BANDPILOT_RANKS"), Some("h2:0,h2:2,h1:5"));
    assert_eq!(value(&call, "BANDPILOT_WORLD_SIZE"), Some("3"));
    assert_eq!(value(&call, "BANDPILOT_SRUN"), Some("--het-group=0-1"));
    assert_eq!(value(&call, "CUDA_VISIBLE_DEVICES"), None);
}

#[test]
fn resources_of_the_layout_are_what_counts() {
    let words =
        ["-G3", "--cpus-per-gpu=8", "--mem-per-gpu=9G", "--gres=shard:2", "--exclusive", "x"];
    let mut whole = component(&["h1", "h2"], "0", 4);
    (whole.cpus_per_task, whole.memory_mib_per_host) = (Some(3), Some(0));
    let call = render(&submission(Program::Srun, &words, &[]), &layout(vec![whole]), &[]);
    assert_eq!(
        call.argv.join(" "),
        "srun --comment=bandpilot:p1 --partition=ai --exclusive -N 2 -n 8 --ntasks-per-node=4 -w h1,h2 -c 3 \
         --mem=0M --gres=gpu:g0:1,shard:2 x"
    );
    assert_eq!((call.stdin.as_str(), value(&call, "BANDPILOT_SRUN")), ("", None));
}

#[test]
fn a_command_and_a_wrapped_one_stand_once() {
    let words = ["-G3", "bash", "-c", "a"];
    let call = render(&submission(Program::Srun, &words, &[]), &uneven(), &[]);
    assert!(call.argv.ends_with(&["bash".into(), "-c".into(), "a".into()]));
    assert_eq!(call.argv.iter().filter(|word| *word == "bash").count(), 1);
    let call = render(&submission(Program::Sbatch, &["-G3", "--wrap=a b"], &[]), &uneven(), &[]);
    assert_eq!(call.argv.iter().filter(|word| *word == "--wrap=a b").count(), 1);
    assert!(call.argv.contains(&"--job-name=wrap".to_owned()) && call.stdin.is_empty());
}

#[test]
fn hints_do_not_go_before_what_the_user_set() {
    let hints = [
        ("NCCL_IB_HCA".to_owned(), "mlx5".to_owned()),
        ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
    ];
    let hca = |words: &[&str], env: &[(&str, &str)]| {
        let call = render(&submission(Program::Sbatch, words, env), &uneven(), &hints);
        (value(&call, "NCCL_IB_HCA").map(ToOwned::to_owned), call)
    };
    assert_eq!(hca(&["job"], &[]).0.as_deref(), Some("mlx5"));
    assert_eq!(hca(&["job"], &[("NCCL_IB_HCA", "")]).0, None);
    assert_eq!(hca(&["--export=ALL,NCCL_IB_HCA=x", "job"], &[]).0, None);
    let (hint, call) = hca(&["--export=PATH", "job"], &[]);
    assert_eq!(hint.as_deref(), Some("mlx5"));
    let export = "--export=PATH,CUDA_DEVICE_ORDER,BANDPILOT_PLAN,BANDPILOT_WORLD_SIZE,NCCL_IB_HCA,NCCL_DEBUG,\
                  BANDPILOT_GPUS,BANDPILOT_RANKS,BANDPILOT_SRUN";
    assert!(call.argv.contains(&export.to_owned()), "{:?}", call.argv);
    assert!(hca(&["--export=NONE", "job"], &[]).1.argv.contains(&"--export=NONE".to_owned()));
}

#[test]
fn tasks_that_are_given_gpus_see_only_these() {
    let bind = |words: &[&str], env: &[(&str, &str)]| {
        let call = render(&submission(Program::Srun, words, env), &uneven(), &[]);
        call.argv.iter().filter(|word| word.starts_with("--gpu-bind")).cloned().collect::<Vec<_>>()
    };
    let words = ["-n3", "--gpus-per-task=1", "x"];
    assert_eq!(bind(&words, &[]), ["--gpu-bind=per_task:1", "--gpu-bind=per_task:1"]);
    assert!(bind(&words, &[("SLURM_GPU_BIND", "none")]).is_empty());
    assert!(bind(&["-G3", "x"], &[]).is_empty());
}

#[test]
fn an_array_is_submitted_without_gpus_and_its_tasks_get_them_once() {
    let words = ["-a", "0-9:3%2", "-b", "now+1hour", "--comment=c", "--gres=shard:1", "-G3", "job"];
    let batch = submission(Program::Sbatch, &words, &[]);
    let mut shape = component(&["h1", "h2"], "0", 2);
    shape.cpus_per_task = Some(4);
    let call = render_array(&batch, &layout(vec![shape]), &[]);
    assert_eq!(
        call.argv.join(" "),
        "sbatch --signal=9 --parsable --job-name=job --comment=c bandpilot:p1 --partition=ai \
         --begin=2099-01-01 --array=0-9:3%2 -N 2 -n 4 --ntasks-per-node=2 -c 4"
    );
    assert_eq!(value(&call, "BANDPILOT_RANKS"), None);
    let task = layout(vec![component(&["h3", "h4"], "1-2", 2)]);
    assert_eq!(
        array_update(&batch, "7", 3, &task),
        "update JobId=7_3 ReqNodeList=h3,h4 Gres=gpu:g1:1,gpu:g2:1,shard:1 StartTime=now+1hour"
    );
}
