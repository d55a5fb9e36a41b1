//! A planned job in the words of sbatch or srun.
//!
//! Every component gets all options that are passed on, then those of the plan: hosts, tasks, CPUs, memory and GPUs by
//! the gres types of their indexes. Slurm 22.05.8 hands some options of the first component on to the others (name, time,
//! comment, memory), and others not (CPUs, `--exclusive`), so none is left to it. Licenses and burst buffers stand on the
//! first one only, or they would be asked for more than once. `--wrap` stands on the first component; the script, its
//! arguments and the command of srun stand behind the last and count for all.
//!
//! The script goes through standard input. One with arguments is named `/dev/stdin` for them to stand behind, since sbatch
//! does not take `-` for a name.
//!
//! An array cannot be a heterogeneous job, and all its tasks are submitted at once with one set of options. It is
//! submitted without hosts and GPUs, to begin in a far year. Then each task is given its own set with its real begin, by
//! one `scontrol update`, since a second one would add GPUs to the first. Hosts, tasks, CPUs and memory must be right at
//! the submit: 22.05.8 keeps the number of hosts of the submit whatever the update says.

use bandpilot_manager::audit;
use bandpilot_manager::exchange::Call;
use bandpilot_readers::placement;

use super::layout::{Component, Layout};
use super::options::Program;
use super::script::neutralised;
use super::{Export, Submission, Work};

/// When an array begins whose tasks have no GPUs yet.
const FAR: &str = "2099-01-01";
/// A little before that, whatever the time zone, seconds since 1970.
pub(crate) const FAR_S: i64 = 4_070_000_000;
/// Longest list of ranks, in bytes: the system starts no program with a longer variable than 128 KiB.
const LONGEST_RANKS: usize = 120_000;

/// The call that submits a planned job.
///
/// `hints` are environment variables for the job (`NCCL_IB_HCA`), each set only where the user has not set it himself.
/// sbatch prints the plain id, whether the user asked for it or not ([`Submission::parsable`]).
///
/// ```
/// # use bandpilot_core::GpuMask;
/// use bandpilot_manager::Plan;
/// use bandpilot_slurm::submit::layout::{Component, Layout};
/// use bandpilot_slurm::submit::options::{Environment, Program, read};
/// use bandpilot_slurm::submit::{Reading, render::render};
///
/// let words: Vec<String> = ["--gpus=2", "--qos=high", "train"].map(String::from).to_vec();
/// let reading = read(Program::Srun, &words, &Environment::new(), &mut |_| Err(String::new())).unwrap();
/// let Reading::Planned(submission) = reading else { panic!() };
/// let gpus = GpuMask::parse("3,6").unwrap();
/// let layout = Layout {
///     plan: Plan { id: "7f".into(), gpus: vec![("h2".into(), gpus)], whole_hosts: false },
///     components: vec![Component {
///         hosts: vec!["h2".into()],
///         gpus,
///         kinds: vec!["g3".into(), "g6".into()],
///         tasks_per_host: 2,
///         cpus_per_task: Some(4),
///         memory_mib_per_host: None,
///     }],
///     partition: String::new(),
/// };
/// let call = render(&submission, &layout, &[]);
/// assert_eq!(
///     call.argv.join(" "),
///     "srun --qos=high --comment=bandpilot:7f -N 1 -n 2 --ntasks-per-node=2 -w h2 -c 4 \
///      --gres=gpu:g3:1,gpu:g6:1 train"
/// );
/// assert!(call.env.contains(&("BANDPILOT_RANKS".into(), "h2:3,h2:6".into())));
/// ```
pub fn render(submission: &Submission, layout: &Layout, hints: &[(String, String)]) -> Call {
    let mut env = environment(submission, layout, hints);
    env.extend(ranks(layout));
    if submission.program == Program::Sbatch {
        let groups = layout.components.len();
        let option =
            if groups > 1 { format!("--het-group=0-{}", groups - 1) } else { String::new() };
        env.push(("BANDPILOT_SRUN".to_owned(), option));
    }
    let mut argv = Vec::new();
    for (at, component) in layout.components.iter().enumerate() {
        argv.push(if at == 0 { submission.program.name() } else { ":" }.to_owned());
        argv.extend(passed(submission, at == 0));
        argv.extend(common(submission, layout, &env));
        if !submission.ask.begin.is_empty() {
            argv.push(format!("--begin={}", submission.ask.begin));
        }
        argv.extend(shape(submission, layout, component));
        argv.extend(["-w".to_owned(), component.hosts.join(",")]);
        argv.extend(resources(component));
        argv.push(format!("--gres={}", gres(submission, component)));
        argv.extend(bind(submission));
    }
    finish(submission, argv, env)
}

/// The call that submits an array, of which no task has GPUs yet. The first component of the layout says for all tasks
/// how many hosts, tasks and CPUs and how much memory they have.
pub fn render_array(submission: &Submission, layout: &Layout, hints: &[(String, String)]) -> Call {
    let env = environment(submission, layout, hints);
    let mut argv = vec![submission.program.name().to_owned()];
    argv.extend(passed(submission, true));
    argv.extend(common(submission, layout, &env));
    argv.push(format!("--begin={FAR}"));
    if let Some(array) = &submission.ask.array {
        argv.push(format!("--array={}", array.written));
    }
    if let Some(component) = layout.components.first() {
        argv.extend(shape(submission, layout, component));
        argv.extend(resources(component));
        argv.extend(bind(submission));
    }
    finish(submission, argv, env)
}

/// The words for scontrol that give one task of an array its hosts and GPUs, and let it begin when the user wants it to.
/// They must be given once for a task. The layout has one component, of the shape that the array was submitted with.
pub fn array_update(submission: &Submission, job: &str, index: u32, layout: &Layout) -> String {
    let mut words = vec![format!("update JobId={job}_{index}")];
    if let Some(component) = layout.components.first() {
        words.push(format!("ReqNodeList={}", component.hosts.join(",")));
        words.push(format!("Gres={}", gres(submission, component)));
    }
    let begin = submission.ask.begin.as_str();
    words.push(format!("StartTime={}", if begin.is_empty() { "now" } else { begin }));
    words.join(" ")
}

/// Options of the user.
fn passed(submission: &Submission, first: bool) -> impl Iterator<Item = String> + use<'_> {
    let passed = submission.passed.iter().filter(move |passed| first || !passed.once);
    passed.flat_map(|passed| passed.words.iter().cloned()).chain(first_only(submission, first))
}

fn first_only(submission: &Submission, first: bool) -> Vec<String> {
    let mut words = Vec::new();
    if first && submission.program == Program::Sbatch {
        words.push("--parsable".to_owned());
    }
    if let (true, Work::Wrap(command)) = (first, &submission.work) {
        words.push(format!("--wrap={command}"));
    }
    words
}

/// Options that are the same for all components.
fn common(
    submission: &Submission,
    layout: &Layout,
    env: &[(String, String)],
) -> impl Iterator<Item = String> + use<> {
    let ask = &submission.ask;
    let export = match &submission.export {
        Export::All(text) | Export::None(text) => text.clone(),
        Export::List(text) => {
            let names = env.iter().map(|(name, _)| name.as_str());
            std::iter::once(text.as_str()).chain(names).collect::<Vec<&str>>().join(",")
        }
        Export::File(_) => String::new(),
    };
    let values = [
        ("--job-name", submission.job_name.clone()),
        ("--comment", comment(submission, layout)),
        ("--export", export),
        ("--account", ask.account.clone()),
        ("--partition", layout.partition.clone()),
        ("--reservation", ask.reservation.clone()),
        ("--time", submission.written.time.clone()),
        ("--dependency", ask.dependency.clone()),
        ("--constraint", submission.written.constraint.clone()),
    ];
    let said = values.into_iter().filter(|(_, value)| !value.is_empty());
    let exclusive = ask.exclusive.then(|| "--exclusive".to_owned());
    said.map(|(name, value)| format!("{name}={value}")).chain(exclusive)
}

fn comment(submission: &Submission, layout: &Layout) -> String {
    let mark = audit::comment(&layout.plan.id);
    if submission.comment.is_empty() { mark } else { format!("{} {mark}", submission.comment) }
}

fn shape(submission: &Submission, layout: &Layout, component: &Component) -> Vec<String> {
    let (hosts, tasks) = (component.hosts.len(), component.tasks_per_host);
    let ask = &submission.ask;
    let said = ask.tasks.is_some() || ask.tasks_per_host.is_some() || ask.tasks_per_gpu.is_some();
    if !said && tasks == 1 && layout.components.len() == 1 {
        // Slurm's own default: tools take the variables of a job that was told its tasks for more.
        return vec!["-N".to_owned(), hosts.to_string()];
    }
    vec![
        "-N".to_owned(),
        hosts.to_string(),
        "-n".to_owned(),
        (hosts * tasks).to_string(),
        format!("--ntasks-per-node={tasks}"),
    ]
}

fn resources(component: &Component) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(cpus) = component.cpus_per_task {
        words.extend(["-c".to_owned(), cpus.to_string()]);
    }
    words.extend(component.memory_mib_per_host.map(|mib| format!("--mem={mib}M")));
    words
}

fn gres(submission: &Submission, component: &Component) -> String {
    let gpus = component.gres();
    let others = submission.other_gres.iter().cloned();
    let all = (!gpus.is_empty()).then_some(gpus).into_iter().chain(others);
    all.collect::<Vec<String>>().join(",")
}

/// What `--gpus-per-task` and `--ntasks-per-gpu` mean to Slurm beside the number.
fn bind(submission: &Submission) -> Option<String> {
    if submission.written.gpu_bind {
        return None;
    }
    let per_task = submission.gpus_per_task.map(|gpus| format!("per_task:{gpus}"));
    let per_gpu = || submission.ask.tasks_per_gpu.map(|tasks| format!("single:{tasks}"));
    per_task.or_else(per_gpu).map(|how| format!("--gpu-bind={how}"))
}

/// Variables that every job gets.
fn environment(
    submission: &Submission,
    layout: &Layout,
    hints: &[(String, String)],
) -> Vec<(String, String)> {
    let gpus: usize = layout
        .components
        .iter()
        .map(|component| component.hosts.len() * component.gpus.count())
        .sum();
    let mut env = vec![
        ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()),
        ("BANDPILOT_PLAN".to_owned(), layout.plan.id.clone()),
        ("BANDPILOT_WORLD_SIZE".to_owned(), gpus.to_string()),
    ];
    let exported = match &submission.export {
        Export::All(text) | Export::List(text) => text.as_str(),
        Export::None(_) | Export::File(_) => "",
    };
    let is_set = |name: &str| {
        submission.variables.contains(name)
            || exported.split(',').any(|item| item.split('=').next() == Some(name))
    };
    env.extend(hints.iter().filter(|(name, _)| !is_set(name)).cloned());
    env
}

/// The GPUs, and one by one in the order in which Slurm numbers tasks.
fn ranks(layout: &Layout) -> Vec<(String, String)> {
    let mut ranks = Vec::new();
    for component in &layout.components {
        for host in &component.hosts {
            ranks.extend(component.gpus.iter().map(|gpu| format!("{host}:{gpu}")));
        }
    }
    let named = [
        ("BANDPILOT_GPUS", placement::format(&layout.plan.gpus)),
        ("BANDPILOT_RANKS", ranks.join(",")),
    ];
    let short = named.into_iter().filter(|(_, value)| value.len() <= LONGEST_RANKS);
    short.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn finish(submission: &Submission, mut argv: Vec<String>, env: Vec<(String, String)>) -> Call {
    let mut stdin = String::new();
    match &submission.work {
        Work::Script { text, args } => {
            stdin = neutralised(text);
            if !args.is_empty() {
                argv.push("/dev/stdin".to_owned());
                argv.extend_from_slice(args);
            }
        }
        Work::Wrap(_) => {}
        Work::Command(words) => argv.extend_from_slice(words),
    }
    Call { argv, stdin, env, without: submission.superseded.clone() }
}

#[cfg(test)]
#[path = "../tests/render.rs"]
mod tests;
