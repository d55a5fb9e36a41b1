//! The options of sbatch and srun.
//!
//! Names, letters and whether a value is taken are those that 22.05.8 accepts (tried one by one), with what later
//! versions up to 24.11 added, and the options of NVIDIA's container plugin pyxis, which most GPU sites have.

use super::Program;

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::submit) enum Takes {
    /// None.
    Nothing,
    /// Always: in the same word or the next one.
    Value,
    /// Perhaps, and then in the same word.
    Perhaps,
}

/// Options that mean something to bandpilot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::submit) enum Key {
    Account,
    Array,
    Begin,
    Comment,
    Constraint,
    CpusPerGpu,
    CpusPerTask,
    Dependency,
    Exclude,
    Exclusive,
    Export,
    ExportFile,
    Gpus,
    GpusPerNode,
    GpusPerSocket,
    GpusPerTask,
    Gres,
    IgnorePbs,
    JobName,
    Mem,
    MemPerCpu,
    MemPerGpu,
    Nodelist,
    Nodes,
    Ntasks,
    NtasksPerGpu,
    NtasksPerNode,
    Parsable,
    Partition,
    Quiet,
    Reservation,
    Time,
    TresPerTask,
    Wait,
    Wrap,
}

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::submit) enum Use {
    /// It is read, and written anew.
    Heeded(Key),
    /// Passed on to every component.
    Passed,
    /// Passed on to the first component: what it asks for is for the whole job.
    Once,
    /// Passed on, with this to say.
    Remarked(&'static str),
    /// A planned job cannot have it: why, and what to do.
    Refused(&'static str, &'static str),
    /// With it there is no new job, so nothing to plan.
    NoJob,
}

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::submit) struct Spec {
    /// Long names that mean the same; the first is that of the documentation.
    pub names: &'static [&'static str],
    pub letter: Option<char>,
    pub takes: Takes,
    /// `None` for both programs.
    only: Option<Program>,
    pub becomes: Use,
    sbatch_variables: &'static [&'static str],
    srun_variables: &'static [&'static str],
}

impl Spec {
    /// Its long name with the dashes.
    pub fn name(&self) -> String {
        format!("--{}", self.names[0])
    }

    /// Environment variables that a program takes it from, the one that counts first.
    pub fn variables(&self, program: Program) -> &'static [&'static str] {
        match program {
            Program::Sbatch => self.sbatch_variables,
            Program::Srun => self.srun_variables,
        }
    }

    pub fn key(&self) -> Option<Key> {
        if let Use::Heeded(key) = self.becomes { Some(key) } else { None }
    }

    const fn of(self, program: Program) -> Self {
        Self { only: Some(program), ..self }
    }

    const fn letter(self, letter: char) -> Self {
        Self { letter: Some(letter), ..self }
    }

    const fn env(
        self,
        sbatch_variables: &'static [&'static str],
        srun_variables: &'static [&'static str],
    ) -> Self {
        Self { sbatch_variables, srun_variables, ..self }
    }
}

/// Options of a program.
pub(in crate::submit) fn options(program: Program) -> impl Iterator<Item = &'static Spec> {
    OPTIONS.iter().filter(move |spec| spec.only.is_none_or(|only| only == program))
}

const fn option(names: &'static [&'static str], takes: Takes, becomes: Use) -> Spec {
    Spec {
        names,
        letter: None,
        takes,
        only: None,
        becomes,
        sbatch_variables: &[],
        srun_variables: &[],
    }
}

const fn heeded(names: &'static [&'static str], key: Key) -> Spec {
    option(names, Takes::Value, Use::Heeded(key))
}

const fn valued(names: &'static [&'static str]) -> Spec {
    option(names, Takes::Value, Use::Passed)
}

const fn maybe(names: &'static [&'static str]) -> Spec {
    option(names, Takes::Perhaps, Use::Passed)
}

const fn flag(names: &'static [&'static str]) -> Spec {
    option(names, Takes::Nothing, Use::Passed)
}

const fn once(names: &'static [&'static str]) -> Spec {
    option(names, Takes::Value, Use::Once)
}

const fn no_job(names: &'static [&'static str], takes: Takes) -> Spec {
    option(names, takes, Use::NoJob)
}

const HOSTS_ARE_CHOSEN: &str = "bandpilot chooses the hosts itself and names them";
const LEAVE_OUT: &str = "leave it out; -w, -x and -C say which hosts may be chosen";
const ORDER: &str = "BANDPILOT_RANKS is in the order of a block distribution; with another one the tasks are numbered otherwise";
const SWITCHES: &str =
    "the hosts are chosen by bandpilot, whose plan does not heed it: it can only delay the job";

static OPTIONS: &[Spec] = &[
    // Heeded.
    heeded(&["account"], Key::Account).letter('A').env(&["SBATCH_ACCOUNT"], &["SLURM_ACCOUNT"]),
    heeded(&["array"], Key::Array).letter('a').of(Program::Sbatch).env(&["SBATCH_ARRAY_INX"], &[]),
    heeded(&["begin"], Key::Begin).letter('b'),
    heeded(&["comment"], Key::Comment),
    heeded(&["constraint"], Key::Constraint)
        .letter('C')
        .env(&["SBATCH_CONSTRAINT"], &["SLURM_CONSTRAINT"]),
    heeded(&["cpus-per-gpu"], Key::CpusPerGpu)
        .env(&["SBATCH_CPUS_PER_GPU"], &["SLURM_CPUS_PER_GPU"]),
    heeded(&["cpus-per-task"], Key::CpusPerTask).letter('c').env(&[], &["SRUN_CPUS_PER_TASK"]),
    heeded(&["dependency"], Key::Dependency).letter('d').env(&[], &["SLURM_DEPENDENCY"]),
    heeded(&["exclude"], Key::Exclude).letter('x'),
    option(&["exclusive"], Takes::Perhaps, Use::Heeded(Key::Exclusive))
        .env(&["SBATCH_EXCLUSIVE"], &["SLURM_EXCLUSIVE"]),
    heeded(&["export"], Key::Export)
        .env(&["SBATCH_EXPORT"], &["SRUN_EXPORT_ENV", "SLURM_EXPORT_ENV"]),
    heeded(&["export-file"], Key::ExportFile).of(Program::Sbatch),
    heeded(&["gpus"], Key::Gpus).letter('G').env(&["SBATCH_GPUS"], &["SLURM_GPUS"]),
    heeded(&["gpus-per-node"], Key::GpusPerNode)
        .env(&["SBATCH_GPUS_PER_NODE"], &["SLURM_GPUS_PER_NODE"]),
    heeded(&["gpus-per-socket"], Key::GpusPerSocket)
        .env(&["SBATCH_GPUS_PER_SOCKET"], &["SLURM_GPUS_PER_SOCKET"]),
    heeded(&["gpus-per-task"], Key::GpusPerTask)
        .env(&["SBATCH_GPUS_PER_TASK"], &["SLURM_GPUS_PER_TASK"]),
    heeded(&["gres"], Key::Gres).env(&["SBATCH_GRES"], &["SLURM_GRES"]),
    option(&["ignore-pbs"], Takes::Nothing, Use::Heeded(Key::IgnorePbs))
        .of(Program::Sbatch)
        .env(&["SBATCH_IGNORE_PBS"], &[]),
    heeded(&["job-name"], Key::JobName).letter('J').env(&["SBATCH_JOB_NAME"], &["SLURM_JOB_NAME"]),
    heeded(&["mem"], Key::Mem).env(&["SBATCH_MEM_PER_NODE"], &["SLURM_MEM_PER_NODE"]),
    heeded(&["mem-per-cpu"], Key::MemPerCpu).env(&["SBATCH_MEM_PER_CPU"], &["SLURM_MEM_PER_CPU"]),
    heeded(&["mem-per-gpu"], Key::MemPerGpu).env(&["SBATCH_MEM_PER_GPU"], &["SLURM_MEM_PER_GPU"]),
    heeded(&["nodelist"], Key::Nodelist).letter('w'),
    heeded(&["nodes"], Key::Nodes).letter('N').env(&[], &["SLURM_JOB_NUM_NODES", "SLURM_NNODES"]),
    heeded(&["ntasks"], Key::Ntasks).letter('n').env(&[], &["SLURM_NTASKS", "SLURM_NPROCS"]),
    heeded(&["ntasks-per-gpu", "ntasks-per-tres"], Key::NtasksPerGpu)
        .env(&[], &["SLURM_NTASKS_PER_GPU"]),
    heeded(&["ntasks-per-node", "tasks-per-node"], Key::NtasksPerNode)
        .env(&[], &["SLURM_NTASKS_PER_NODE"]),
    option(&["parsable"], Takes::Nothing, Use::Heeded(Key::Parsable)).of(Program::Sbatch),
    heeded(&["partition"], Key::Partition)
        .letter('p')
        .env(&["SBATCH_PARTITION"], &["SLURM_PARTITION"]),
    // sbatch would not even print the id of the job, which bandpilot has to know.
    option(&["quiet"], Takes::Nothing, Use::Heeded(Key::Quiet)).letter('Q').of(Program::Sbatch),
    heeded(&["reservation"], Key::Reservation).env(&["SBATCH_RESERVATION"], &["SLURM_RESERVATION"]),
    heeded(&["time"], Key::Time).letter('t').env(&["SBATCH_TIMELIMIT"], &["SLURM_TIMELIMIT"]),
    heeded(&["tres-per-task"], Key::TresPerTask)
        .env(&["SBATCH_TRES_PER_TASK"], &["SLURM_TRES_PER_TASK"]),
    // sbatch would tell the id only when the job is over, and hold up its call for as long.
    option(&["wait"], Takes::Nothing, Use::Heeded(Key::Wait))
        .letter('W')
        .of(Program::Sbatch)
        .env(&["SBATCH_WAIT"], &[]),
    heeded(&["wrap"], Key::Wrap).of(Program::Sbatch),
    // Refused.
    option(
        &["clusters", "cluster"],
        Takes::Value,
        Use::Refused(
            "a plan is for one cluster",
            "run bandpilot where that cluster is the default one",
        ),
    )
    .letter('M')
    .env(&["SBATCH_CLUSTERS", "SLURM_CLUSTERS"], &["SLURM_CLUSTERS"]),
    option(&["contiguous"], Takes::Nothing, Use::Refused(HOSTS_ARE_CHOSEN, LEAVE_OUT)),
    option(
        &["nodefile"],
        Takes::Value,
        Use::Refused(
            "a file of hosts is not read here",
            "name the hosts with -w, which also takes a file",
        ),
    )
    .letter('F'),
    option(&["segment"], Takes::Value, Use::Refused(HOSTS_ARE_CHOSEN, LEAVE_OUT)),
    option(&["spread-segments"], Takes::Nothing, Use::Refused(HOSTS_ARE_CHOSEN, LEAVE_OUT)),
    option(&["consolidate-segments"], Takes::Nothing, Use::Refused(HOSTS_ARE_CHOSEN, LEAVE_OUT)),
    // No new job.
    no_job(&["help"], Takes::Nothing).letter('h'),
    no_job(&["usage"], Takes::Nothing),
    no_job(&["version"], Takes::Nothing).letter('V'),
    no_job(&["test-only"], Takes::Nothing),
    no_job(&["autocomplete"], Takes::Value),
    no_job(&["jobid"], Takes::Value).of(Program::Srun),
    no_job(&["het-group", "pack-group"], Takes::Value).of(Program::Srun),
    no_job(&["no-allocate"], Takes::Nothing).letter('Z').of(Program::Srun),
    // For the whole job.
    once(&["bb"]).env(&["SBATCH_BURST_BUFFER"], &[]),
    once(&["bbf"]),
    once(&["licenses"]).letter('L'),
    // With a remark.
    option(&["distribution"], Takes::Value, Use::Remarked(ORDER))
        .letter('m')
        .env(&["SBATCH_DISTRIBUTION"], &["SLURM_DISTRIBUTION"]),
    option(&["switches"], Takes::Value, Use::Remarked(SWITCHES))
        .env(&["SBATCH_REQ_SWITCH"], &["SLURM_REQ_SWITCH"]),
    // Passed on, both programs.
    valued(&["acctg-freq"]).env(&["SBATCH_ACCTG_FREQ"], &[]),
    valued(&["chdir"]).letter('D'),
    valued(&["cluster-constraint"]).env(&["SBATCH_CLUSTER_CONSTRAINT"], &[]),
    valued(&["container"]).env(&["SBATCH_CONTAINER"], &[]),
    valued(&["container-id"]).env(&["SBATCH_CONTAINER_ID"], &[]),
    valued(&["core-spec"]).letter('S').env(&["SBATCH_CORE_SPEC"], &[]),
    valued(&["cores-per-socket"]),
    valued(&["cpu-freq"]).env(&["SBATCH_CPU_FREQ_REQ"], &[]),
    valued(&["deadline"]),
    valued(&["delay-boot"]).env(&["SBATCH_DELAY_BOOT"], &[]),
    valued(&["error"]).letter('e').env(&["SBATCH_ERROR"], &[]),
    valued(&["extra"]),
    valued(&["extra-node-info"]).letter('B'),
    valued(&["gid"]),
    valued(&["gpu-bind"]).env(&["SBATCH_GPU_BIND"], &["SLURM_GPU_BIND"]),
    valued(&["gpu-freq"]).env(&["SBATCH_GPU_FREQ"], &[]),
    valued(&["gres-flags"]).env(&["SBATCH_GRES_FLAGS"], &[]),
    valued(&["hint"]).env(&["SBATCH_HINT", "SLURM_HINT"], &[]),
    flag(&["hold"]).letter('H'),
    valued(&["input"]).letter('i').env(&["SBATCH_INPUT"], &[]),
    valued(&["mail-type"]),
    valued(&["mail-user"]),
    valued(&["mcs-label"]),
    valued(&["mem-bind"]).env(&["SBATCH_MEM_BIND"], &[]),
    valued(&["mincpus"]),
    valued(&["network"]).env(&["SBATCH_NETWORK"], &[]),
    maybe(&["nice"]),
    maybe(&["no-kill"]).letter('k').env(&["SBATCH_NO_KILL"], &[]),
    valued(&["ntasks-per-core"]),
    valued(&["ntasks-per-socket"]),
    maybe(&["oom-kill-step"]),
    valued(&["open-mode"]).env(&["SBATCH_OPEN_MODE"], &[]),
    valued(&["output"]).letter('o').env(&["SBATCH_OUTPUT"], &[]),
    flag(&["overcommit"]).letter('O').env(&["SBATCH_OVERCOMMIT"], &[]),
    flag(&["oversubscribe"]).letter('s'),
    valued(&["power"]).env(&["SBATCH_POWER"], &[]),
    valued(&["prefer"]),
    valued(&["priority"]),
    valued(&["profile"]).env(&["SBATCH_PROFILE"], &[]),
    maybe(&["propagate"]),
    valued(&["qos"]).letter('q').env(&["SBATCH_QOS"], &[]),
    flag(&["quiet"]).letter('Q').of(Program::Srun),
    flag(&["reboot"]),
    maybe(&["resv-ports"]),
    valued(&["signal"]).env(&["SBATCH_SIGNAL"], &[]),
    valued(&["sockets-per-node"]),
    flag(&["spread-job"]).env(&["SBATCH_SPREAD_JOB"], &[]),
    flag(&["stepmgr"]),
    valued(&["thread-spec"]).env(&["SBATCH_THREAD_SPEC"], &[]),
    valued(&["threads-per-core"]).env(&["SBATCH_THREADS_PER_CORE"], &[]),
    valued(&["time-min"]),
    valued(&["tmp"]),
    valued(&["tres-bind"]),
    valued(&["uid"]),
    flag(&["use-min-nodes"]).env(&["SBATCH_USE_MIN_NODES"], &[]),
    flag(&["verbose"]).letter('v'),
    valued(&["wckey"]).env(&["SBATCH_WCKEY"], &[]),
    // Passed on, sbatch.
    valued(&["batch"]).of(Program::Sbatch).env(&["SBATCH_BATCH"], &[]),
    maybe(&["get-user-env"]).of(Program::Sbatch).env(&["SBATCH_GET_USER_ENV"], &[]),
    valued(&["kill-on-invalid-dep"]).of(Program::Sbatch),
    flag(&["no-requeue"]).of(Program::Sbatch).env(&["SBATCH_NO_REQUEUE"], &[]),
    flag(&["requeue"]).of(Program::Sbatch).env(&["SBATCH_REQUEUE"], &[]),
    valued(&["wait-all-nodes"]).of(Program::Sbatch).env(&["SBATCH_WAIT_ALL_NODES"], &[]),
    // Passed on, srun.
    valued(&["accel-bind"]).of(Program::Srun),
    maybe(&["bcast"]).of(Program::Srun),
    valued(&["bcast-exclude"]).of(Program::Srun),
    maybe(&["compress"]).of(Program::Srun),
    valued(&["cpu-bind", "cpu_bind"]).of(Program::Srun),
    flag(&["debugger-test"]).of(Program::Srun),
    flag(&["disable-status"]).letter('X').of(Program::Srun),
    valued(&["epilog"]).of(Program::Srun),
    flag(&["exact"]).of(Program::Srun),
    flag(&["external"]).of(Program::Srun),
    flag(&["external-launcher"]).of(Program::Srun),
    maybe(&["immediate"]).letter('I').of(Program::Srun),
    flag(&["interactive"]).of(Program::Srun),
    maybe(&["kill-on-bad-exit"]).letter('K').of(Program::Srun),
    flag(&["label"]).letter('l').of(Program::Srun),
    valued(&["mpi"]).of(Program::Srun),
    valued(&["msg-timeout"]).of(Program::Srun),
    flag(&["multi-prog"]).of(Program::Srun),
    maybe(&["overlap"]).of(Program::Srun),
    flag(&["preserve-env"]).letter('E').of(Program::Srun),
    valued(&["prolog"]).of(Program::Srun),
    maybe(&["pty"]).of(Program::Srun),
    flag(&["quit-on-interrupt"]).of(Program::Srun),
    valued(&["relative"]).letter('r').of(Program::Srun),
    maybe(&["send-libs"]).of(Program::Srun),
    valued(&["slurmd-debug"]).of(Program::Srun),
    valued(&["task-epilog"]).of(Program::Srun),
    valued(&["task-prolog"]).of(Program::Srun),
    valued(&["threads"]).letter('T').of(Program::Srun),
    valued(&["treewidth"]).of(Program::Srun),
    flag(&["unbuffered"]).letter('u').of(Program::Srun),
    valued(&["wait"]).letter('W').of(Program::Srun),
    flag(&["wait-for-children"]).of(Program::Srun),
    flag(&["whole"]).of(Program::Srun),
    maybe(&["x11"]).of(Program::Srun),
    // Pyxis.
    valued(&["container-image"]),
    valued(&["container-mounts"]),
    valued(&["container-workdir"]),
    valued(&["container-name"]),
    valued(&["container-save"]),
    valued(&["container-env"]),
    flag(&["container-mount-home"]),
    flag(&["no-container-mount-home"]),
    flag(&["container-remap-root"]),
    flag(&["no-container-remap-root"]),
    flag(&["container-entrypoint"]),
    flag(&["no-container-entrypoint"]),
    flag(&["container-writable"]),
    flag(&["container-readonly"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_or_letter_stands_twice() {
        for program in [Program::Sbatch, Program::Srun] {
            let mut names: Vec<&str> =
                options(program).flat_map(|spec| spec.names).copied().collect();
            let mut letters: Vec<char> = options(program).filter_map(|spec| spec.letter).collect();
            let all = (names.len(), letters.len());
            names.sort_unstable();
            names.dedup();
            letters.sort_unstable();
            letters.dedup();
            assert_eq!((names.len(), letters.len()), all, "{program:?}");
        }
    }
}
