//! Checks of settings.

use super::{Exam, Verdict, error, no_config, ok, unknown, warning};

/// Finished jobs have to be known to `slurm verify` for so long, seconds.
const MIN_JOB_AGE_S: i64 = 60;
/// Longest first wait of a heterogeneous job that is not worth a word, seconds.
const SHORT_WAIT_S: i64 = 10;
/// Seconds between two rounds of the backfill scheduler if nothing is set (slurm.conf(5) of 22.05).
const BF_INTERVAL_S: i64 = 30;

/// The first number of a setting: `300 sec`.
fn number(text: &str) -> Option<i64> {
    text.split_whitespace().next()?.parse().ok()
}

/// A word of a list with the value behind it: `bf_interval=5`.
fn parameter<'t>(list: &'t str, name: &str) -> Option<&'t str> {
    list.split(',').find_map(|word| {
        let (key, value) = word.trim().split_once('=').unwrap_or((word.trim(), ""));
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

pub(super) fn select_type(exam: &Exam) -> Verdict {
    let Some(kind) = exam.facts.setting("selecttype") else { return no_config() };
    if kind == "select/cons_tres" {
        return ok(kind);
    }
    let found = format!(
        "SelectType={kind}: jobs that name GPUs, and --gpus, are refused (seen with 22.05)"
    );
    error(found, "SelectType=select/cons_tres with SelectTypeParameters=CR_Core_Memory")
}

pub(super) fn memory_default(exam: &Exam) -> Verdict {
    let Some(parameters) = exam.facts.setting("selecttypeparameters") else { return no_config() };
    if !parameters.to_ascii_uppercase().contains("MEMORY") {
        return warning(
            format!(
                "SelectTypeParameters={parameters}: jobs on one host are not kept from each other's memory"
            ),
            "SelectTypeParameters=CR_Core_Memory, and a DefMemPerGPU or DefMemPerCPU",
        );
    }
    let set = |value: &str| !matches!(value, "" | "UNLIMITED" | "0");
    let keys = ["DefMemPerNode", "DefMemPerCPU", "DefMemPerGPU"];
    let of_all = keys.iter().any(|key| {
        let value = exam.facts.setting(&key.to_ascii_lowercase());
        set(value.unwrap_or(""))
    });
    let job_defaults = exam.facts.setting("jobdefaults").unwrap_or("");
    if of_all || job_defaults.contains("DefMemPerGPU") {
        return ok("a job that asks for no memory gets a share of it");
    }
    let Ok(partitions) = &exam.facts.partitions else { return no_config() };
    let bare: Vec<&str> = partitions
        .iter()
        .filter(|partition| {
            let shared = keys.iter().any(|key| set(partition.get(key)));
            !shared && !partition.get("JobDefaults").contains("DefMemPerGPU")
        })
        .map(|partition| partition.get("PartitionName"))
        .collect();
    if bare.is_empty() {
        return ok("a job that asks for no memory gets a share of it");
    }
    warning(
        format!(
            "in {} a job without --mem takes all memory of its hosts: nobody else gets their free GPUs",
            bare.join(", ")
        ),
        "DefMemPerCPU=MIB in slurm.conf (memory of a host by its CPUs), or JobDefaults=DefMemPerGPU=MIB",
    )
}

pub(super) fn proctrack(exam: &Exam) -> Verdict {
    let Some(kind) = exam.facts.setting("proctracktype") else { return no_config() };
    match kind {
        "proctrack/cgroup" => ok(kind),
        kind => warning(
            format!(
                "ProctrackType={kind}: processes that leave their job may keep GPUs that Slurm gives to others"
            ),
            "ProctrackType=proctrack/cgroup",
        ),
    }
}

pub(super) fn task_plugin(exam: &Exam) -> Verdict {
    let Some(plugins) = exam.facts.setting("taskplugin") else { return no_config() };
    if plugins.contains("cgroup") {
        return ok(plugins);
    }
    warning(
        format!("TaskPlugin={plugins}: jobs are not confined to their GPUs and cores"),
        "TaskPlugin=task/cgroup,task/affinity with ConstrainDevices=yes in cgroup.conf",
    )
}

pub(super) fn accounting(exam: &Exam) -> Verdict {
    let Some(kind) = exam.facts.setting("accountingstoragetype") else { return no_config() };
    if kind.ends_with("slurmdbd") {
        return ok(kind);
    }
    warning(
        format!(
            "AccountingStorageType={kind}: sacct knows no past jobs, so there is no trace of them"
        ),
        "run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd",
    )
}

pub(super) fn accounting_tres(exam: &Exam) -> Verdict {
    let facts = exam.facts;
    let (Some(kind), Some(tres)) =
        (facts.setting("accountingstoragetype"), facts.setting("accountingstoragetres"))
    else {
        return no_config();
    };
    if tres.split(',').any(|part| part == "gres/gpu") {
        return ok("gres/gpu is counted");
    }
    let found = format!("AccountingStorageTRES={tres}: GPUs are neither counted nor billed");
    let mend = if kind.ends_with("slurmdbd") {
        "AccountingStorageTRES=gres/gpu and one for each type, as bandpilot slurm config writes it"
    } else {
        "first slurmdbd: without it slurmctld ends if it is to count gres/gpu"
    };
    warning(found, mend)
}

pub(super) fn min_job_age(exam: &Exam) -> Verdict {
    let Some(age) = exam.facts.setting("minjobage") else { return no_config() };
    match number(age) {
        // No job is ever forgotten then.
        Some(0) => ok("finished jobs are kept"),
        Some(age) if age >= MIN_JOB_AGE_S => ok(format!("finished jobs are known for {age} s")),
        Some(age) => warning(
            format!(
                "MinJobAge={age}: a finished job is forgotten after {age} s, before slurm verify may have looked at it"
            ),
            "MinJobAge=300",
        ),
        None => unknown(format!("MinJobAge={age} is not a number of seconds"), ""),
    }
}

pub(super) fn scheduler(exam: &Exam) -> Verdict {
    let Some(kind) = exam.facts.setting("schedulertype") else { return no_config() };
    match kind {
        "sched/backfill" => ok(kind),
        kind => error(
            format!(
                "SchedulerType={kind} refuses heterogeneous jobs, which sets with different GPUs on each host need (seen with 22.05)"
            ),
            "SchedulerType=sched/backfill",
        ),
    }
}

pub(super) fn het_jobs(exam: &Exam) -> Verdict {
    let Some(parameters) = exam.facts.setting("schedulerparameters") else { return no_config() };
    let interval = parameter(parameters, "bf_interval").map_or(Some(BF_INTERVAL_S), number);
    match interval {
        None => unknown(format!("bf_interval in '{parameters}' is not a number"), ""),
        Some(-1) => error(
            "bf_interval=-1: the backfill scheduler, the only one that starts heterogeneous jobs, is off",
            "SchedulerParameters=bf_interval=5",
        ),
        Some(interval) if interval <= SHORT_WAIT_S => {
            ok(format!("heterogeneous jobs are looked at every {interval} s"))
        }
        Some(interval) => warning(
            format!(
                "only the backfill scheduler starts heterogeneous jobs, every {interval} s: they wait that long on an idle cluster, up to twice that where a round finds no place"
            ),
            "SchedulerParameters=bf_interval=5 (add to those that are there)",
        ),
    }
}

pub(super) fn job_submit(exam: &Exam) -> Verdict {
    let Some(plugins) = exam.facts.setting("jobsubmitplugins") else { return no_config() };
    if plugins.is_empty() {
        return ok("no plugin changes jobs");
    }
    if !plugins.contains("lua") {
        return warning(
            format!("JobSubmitPlugins={plugins} may change what jobs ask for"),
            "see with bandpilot slurm verify that jobs get what was planned",
        );
    }
    let Some(script) = &exam.files.job_submit else {
        return unknown(
            format!("JobSubmitPlugins={plugins}: job_submit.lua could not be read here"),
            "look whether it changes tres_per_node, tres_per_job, priority or req_nodes of jobs with GPUs",
        );
    };
    // The script may rewrite a request, or hold the job.
    let words = ["tres_per_", "gres", "priority", "req_nodes", "features"];
    let lines = script.lines().zip(1..).filter(|(line, _)| {
        let line = line.split("--").next().unwrap_or("");
        let sets = line.split_once('=').filter(|(_, after)| !after.starts_with('='));
        sets.is_some_and(|(to, _)| words.iter().any(|word| to.contains(word)))
    });
    let lines: Vec<String> =
        lines.map(|(line, number)| format!("line {number}: {}", line.trim())).take(5).collect();
    if lines.is_empty() {
        return ok("job_submit.lua sets neither GPUs, hosts, features nor priority");
    }
    warning(
        format!("job_submit.lua may rewrite or hold jobs with GPUs: {}", lines.join("; ")),
        "let it leave jobs alone whose comment begins with bandpilot",
    )
}

pub(super) fn array_size(exam: &Exam) -> Verdict {
    let Some(size) = exam.facts.setting("maxarraysize") else { return no_config() };
    match number(size) {
        Some(0) => warning("MaxArraySize=0: job arrays are off", "MaxArraySize=1001"),
        Some(size) => ok(format!("array tasks up to number {}", size - 1)),
        None => unknown(format!("MaxArraySize={size} is not a number"), ""),
    }
}

pub(super) fn interactive_step(exam: &Exam) -> Verdict {
    let Some(parameters) = exam.facts.setting("launchparameters") else { return no_config() };
    if parameter(parameters, "use_interactive_step").is_some() {
        return ok("salloc opens its shell on a host of the job");
    }
    ok(
        "salloc opens its shell where it is called: CUDA_VISIBLE_DEVICES is not set there, only in srun",
    )
}

pub(super) fn prolog_flags(exam: &Exam) -> Verdict {
    let Some(flags) = exam.facts.setting("prologflags") else { return no_config() };
    let prolog = exam.facts.setting("prolog").unwrap_or("");
    let alloc = flags.split(',').any(|f| matches!(f.trim(), "Alloc" | "Contain" | "X11"));
    if alloc || prolog.is_empty() {
        return ok(if prolog.is_empty() { "no prolog" } else { flags });
    }
    warning(
        "the Prolog runs only when a first step starts on a host: GPUs of hosts without a step are not prepared",
        "PrologFlags=Alloc",
    )
}

pub(super) fn partitions(exam: &Exam) -> Verdict {
    let Ok(partitions) = &exam.facts.partitions else { return no_config() };
    let mut notes = Vec::new();
    for partition in partitions {
        let name = partition.get("PartitionName");
        let shared = partition.get("OverSubscribe");
        if shared == "EXCLUSIVE" {
            notes.push(format!("{name} gives whole hosts only (OverSubscribe=EXCLUSIVE)"));
        } else if shared.starts_with("FORCE") {
            notes.push(format!("{name} puts several jobs on one core (OverSubscribe={shared})"));
        }
        if !matches!(partition.get("State"), "UP" | "") {
            notes.push(format!("{name} is {}", partition.get("State")));
        }
    }
    if partitions.is_empty() {
        return error("there is no partition", "PartitionName=gpu Nodes=ALL Default=YES");
    }
    if notes.is_empty() {
        return ok(format!(
            "{} without peculiarities",
            bandpilot_core::counted(partitions.len(), "partition")
        ));
    }
    warning(
        notes.join("; "),
        "plan for these partitions with whole hosts, or give OverSubscribe=NO",
    )
}

pub(super) fn topology(exam: &Exam) -> Verdict {
    let Some(plugin) = exam.facts.setting("topologyplugin") else { return no_config() };
    let leaves = exam.cluster.is_some_and(|cluster| cluster.hosts.iter().any(|h| h.leaf.is_some()));
    let flat = matches!(plugin, "" | "topology/none" | "topology/flat" | "topology/default");
    if flat && leaves {
        return warning(
            "Slurm knows no switches, and the cluster file has leaves: jobs without named hosts are spread over them",
            "topology.conf and TopologyPlugin=topology/tree, as bandpilot slurm config writes them",
        );
    }
    ok(if plugin.is_empty() { "no topology plugin" } else { plugin })
}
