use std::collections::BTreeMap;

use bandpilot_core::{Cluster, ClusterBuilder};
use bandpilot_manager::exchange::{Call, Reply, RunError, Runner};

use super::*;

/// What a cluster of 22.05.8 printed, cut to what is looked at, and made better where it was not good.
const CONFIG: &str = "Configuration data as of 2026-11-30T20:10:28
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu
AccountingStorageType   = accounting_storage/slurmdbd
DefMemPerCPU            = 100
GresTypes               = gpu
JobDefaults             = (null)
JobSubmitPlugins        = (null)
LaunchParameters        = (null)
MaxArraySize            = 1001
MinJobAge               = 300 sec
ProctrackType           = proctrack/cgroup
Prolog                  = (null)
PrologFlags             = (null)
SchedulerParameters     = batch_sched_delay=0,bf_interval=1
SchedulerType           = sched/backfill
SelectType              = select/cons_tres
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 22.05.8
TaskPlugin              = task/cgroup,task/affinity
TopologyPlugin          = topology/tree
";
const NODES: &str = "NodeName=h1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUTot=32 CPULoad=0.96
   Gres=gpu:g0:1(S:0),gpu:g1:1(S:0)
   GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:0(IDX:N/A)
   NodeAddr=127.0.0.1 NodeHostName=h1 Version=22.05.8
   RealMemory=100000 AllocMem=0 Sockets=2 Boards=1
   State=IDLE ThreadsPerCore=1
   Partitions=gpu

NodeName=h2 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUTot=32 CPULoad=0.96
   Gres=gpu:g0:1,gpu:g1:1
   GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:0(IDX:N/A)
   NodeAddr=127.0.0.1 NodeHostName=h2.site Version=22.05.8
   RealMemory=100000 AllocMem=0 Sockets=2 Boards=1
   State=IDLE ThreadsPerCore=1
   Partitions=gpu
";
const PARTITION: &str = "PartitionName=gpu
   Nodes=h[1-2]
   PriorityTier=1 OverSubscribe=NO
   State=UP TotalCPUs=64 TotalNodes=2
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
";
const SMI: &str =
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)\n";
const GRES: &str = "AutoDetect=off\nNodeName=h[1-2] Name=gpu Type=g0 File=/dev/nvidia0\nNodeName=h[1-2] Name=gpu Type=g1 File=/dev/nvidia1\n";
/// 2026-11-30T20:10:28.
const THEN_S: i64 = 1_796_069_428;

/// Answers by the first words of the command.
struct Texts(BTreeMap<&'static str, String>);

impl Runner for Texts {
    fn call(&mut self, call: &Call) -> Result<Reply, RunError> {
        let words = call.argv.join(" ");
        let stdout = match self.0.get(words.as_str()) {
            Some(text) => text.clone(),
            None if words.ends_with("--version") => "slurm-wlm 22.05.8\n".to_owned(),
            None => return Err(RunError::Start("no such file".to_owned())),
        };
        if let Some(stderr) = stdout.strip_prefix("FAILED ") {
            return Ok(Reply { stderr: stderr.to_owned(), code: Some(1), ..Reply::default() });
        }
        if stdout == "MISSING" {
            return Err(RunError::Start("no such file".to_owned()));
        }
        Ok(Reply { stdout, code: Some(0), at_s: THEN_S, ..Reply::default() })
    }
}

/// All that is judged of an installation that is right.
struct Site {
    texts: Texts,
    files: Files,
    devices: BTreeMap<String, Device>,
    cluster: Option<Cluster>,
}

impl Site {
    fn good() -> Self {
        let texts = [
            ("scontrol -V", "slurm-wlm 22.05.8\n"),
            ("scontrol ping", "Slurmctld(primary) at h0 is UP\n"),
            ("scontrol show config", CONFIG),
            ("scontrol show node -d", NODES),
            ("scontrol show partition", PARTITION),
            ("hostname -s", "h2\n"),
            ("nvidia-smi -L", SMI),
        ];
        let devices = [("/dev/nvidia0", 0), ("/dev/nvidia1", 1)];
        let cluster = ClusterBuilder::new("c").host_type("h", "H100", 2).nvswitch();
        let mut cluster = cluster.hosts("h", 1, 2).build();
        cluster.hosts[0].leaf = Some("l1".to_owned());
        Self {
            texts: Texts(texts.map(|(command, text)| (command, text.to_owned())).into()),
            files: Files {
                seen: true,
                gres: Some(GRES.to_owned()),
                cgroup: Some("ConstrainDevices=yes\n".to_owned()),
                job_submit: None,
            },
            devices: devices
                .map(|(path, minor)| (path.to_owned(), Device::Character(minor)))
                .into(),
            cluster: Some(cluster),
        }
    }

    fn edit(mut self, command: &'static str, from: &str, to: &str) -> Self {
        let text = self.texts.0.get_mut(command).unwrap();
        assert!(text.contains(from), "{from}\n{text}");
        *text = text.replace(from, to);
        self
    }

    fn config(self, from: &str, to: &str) -> Self {
        self.edit("scontrol show config", from, to)
    }

    fn say(mut self, command: &'static str, text: &str) -> Self {
        self.texts.0.insert(command, text.to_owned());
        self
    }

    fn findings(mut self) -> Vec<Finding> {
        let facts = ask(&mut self.texts);
        let (files, devices, cluster) = (&self.files, &self.devices, self.cluster.as_ref());
        examine(&Exam { facts: &facts, files, devices, cluster })
    }

    /// The one check that is to be as said, with words of what was found; all others are to be good, or not known.
    fn only(self, id: &str, state: State, words: &str) {
        let findings = self.findings();
        let one = findings.iter().find(|finding| finding.id == id).unwrap();
        assert!(one.state == state && one.found.contains(words), "{one:?}");
        assert!(state == State::Ok || !one.mend.is_empty(), "{one:?}");
        let other = findings.iter().find(|f| f.id != id && f.state >= State::Warning);
        assert_eq!(other, None);
    }
}

#[test]
fn nothing_is_wrong_with_a_good_installation() {
    let findings = Site::good().findings();
    let bad: Vec<&Finding> = findings.iter().filter(|finding| finding.state != State::Ok).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let ids: std::collections::BTreeSet<&str> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!((findings.len(), ids.len()), (29, 29));
}

#[test]
fn each_setting_that_is_wrong_is_found_alone() {
    use State::{Error, Ok, Warning};
    let cases: [(&str, &str, &str, State, &str); 23] = [
        ("select/cons_tres", "select/cons_res", "select-type", Error, "select/cons_res"),
        ("select/cons_tres", "select/linear", "select-type", Error, "refused"),
        (
            "DefMemPerCPU            = 100",
            "DefMemPerNode = UNLIMITED",
            "memory-default",
            Warning,
            "in gpu a job without --mem",
        ),
        (
            "CR_CORE_MEMORY",
            "CR_CORE",
            "memory-default",
            Warning,
            "not kept from each other's memory",
        ),
        (
            "JobDefaults             = (null)",
            "JobDefaults = DefMemPerGPU=100",
            "memory-default",
            Ok,
            "a share",
        ),
        ("GresTypes               = gpu", "GresTypes = (null)", "gres-types", Error, "no gpu"),
        ("proctrack/cgroup", "proctrack/linuxproc", "proctrack", Warning, "linuxproc"),
        (
            "accounting_storage/slurmdbd",
            "accounting_storage/none",
            "accounting",
            Warning,
            "no past jobs",
        ),
        (",gres/gpu", "", "accounting-tres", Warning, "neither counted nor billed"),
        ("300 sec", "59 sec", "min-job-age", Warning, "MinJobAge=59"),
        ("300 sec", "60 sec", "min-job-age", Ok, "60 s"),
        ("300 sec", "0 sec", "min-job-age", Ok, "are kept"),
        ("sched/backfill", "sched/builtin", "scheduler", Error, "refuses heterogeneous jobs"),
        ("bf_interval=1", "x=1", "het-jobs", Warning, "every 30 s"),
        ("bf_interval=1", "bf_interval=60", "het-jobs", Warning, "every 60 s"),
        ("bf_interval=1", "bf_interval=-1", "het-jobs", Error, "is off"),
        (
            "JobSubmitPlugins        = (null)",
            "JobSubmitPlugins = throttle",
            "job-submit",
            Warning,
            "throttle",
        ),
        ("1001", "0", "array-size", Warning, "arrays are off"),
        (
            "LaunchParameters        = (null)",
            "LaunchParameters = use_interactive_step",
            "interactive-step",
            Ok,
            "on a host of the job",
        ),
        (
            "Prolog                  = (null)",
            "Prolog = /etc/p",
            "prolog-flags",
            Warning,
            "first step",
        ),
        ("topology/tree", "topology/none", "topology", Warning, "has leaves"),
        ("20:10:28", "20:10:38", "clock", Warning, "by 10 s"),
        ("20:10:28", "20:10:26", "clock", Ok, "is that of this host"),
    ];
    for (from, to, id, state, words) in cases {
        Site::good().config(from, to).only(id, state, words);
    }
    let site = Site::good().config("Prolog                  = (null)", "Prolog = /etc/p");
    site.config("PrologFlags             = (null)", "PrologFlags = Alloc").only(
        "prolog-flags",
        Ok,
        "Alloc",
    );
    let findings = Site::good().config("task/cgroup,task/affinity", "task/none").findings();
    let bad: Vec<&str> =
        findings.iter().filter(|f| f.state == Warning).map(|finding| finding.id).collect();
    assert_eq!(bad, ["constrain-devices", "task-plugin"]);
}

#[test]
fn hosts_and_partitions_are_looked_at() {
    use State::{Error, Ok, Unknown, Warning};
    let nodes = "scontrol show node -d";
    let counted = |site: Site| site.edit(nodes, "gpu:g0:1,gpu:g1:1", "gpu:2");
    counted(Site::good()).findings().iter().for_each(|finding| {
        let expected = match finding.id {
            "gpu-types" => Error,
            "gpu-types-alike" => Warning,
            _ => Ok,
        };
        assert_eq!(finding.state, expected, "{finding:?}");
    });
    let three = Site::good().edit(nodes, "gpu:g0:1(S:0),gpu:g1:1(S:0)", "gpu:g0:1,gpu:g1:2").edit(
        nodes,
        "gpu:g0:1,gpu:g1:1\n",
        "gpu:g0:1,gpu:g1:2\n",
    );
    let findings = three.findings();
    let state = |id: &str| findings.iter().find(|finding| finding.id == id).unwrap();
    assert!(state("gpu-types").found.contains("h[1-2]: one type stands for several GPUs"));
    assert!(state("cluster-gpus").found.contains("h1 has 3 in Slurm and 2 in the cluster file"));
    assert_eq!(state("cluster-gpus").state, Error);
    assert_eq!(state("driver").state, Error);
    let mut one = Site::good().edit(nodes, "gpu:g0:1,gpu:g1:1", "gpu:g1:1,gpu:g0:1");
    let own = "NodeName=h2 Name=gpu Type=g1 File=/dev/nvidia0\nNodeName=h2 Name=gpu Type=g0 File=/dev/nvidia1\n";
    one.files.gres = Some(GRES.replace("h[1-2]", "h1") + own);
    one.only("gpu-types-alike", Warning, "GPU 0 has type g0 on h1 and g1 on h2");
    let partition = "scontrol show partition";
    Site::good().edit(partition, "Subscribe=NO", "Subscribe=EXCLUSIVE").only(
        "partitions",
        Warning,
        "whole hosts only",
    );
    Site::good().edit(partition, "Subscribe=NO", "Subscribe=FORCE:4").only(
        "partitions",
        Warning,
        "several jobs on one core",
    );
    Site::good().say(partition, "No partitions in the system\n").only(
        "partitions",
        Error,
        "no partition",
    );
    let mut site = Site::good();
    site.cluster.as_mut().unwrap().hosts[1].name = "x".to_owned();
    site.only("cluster-hosts", Warning, "x have no GPUs in Slurm; h2 are not in the cluster file");
    let site = Site { cluster: None, ..Site::good() };
    site.only("cluster-hosts", Unknown, "no cluster file");
    Site::good().say("nvidia-smi -L", "GPU 0: x\n").only(
        "driver",
        Error,
        "has 1 GPU, Slurm has 2 on h2",
    );
    Site::good().say("nvidia-smi -L", "MISSING").only("driver", Warning, "no such file");
    Site::good().say("hostname -s", "login\n").only("driver", Unknown, "none of Slurm's");
}

#[test]
fn files_and_devices_are_looked_at() {
    use State::{Error, Ok, Unknown, Warning};
    let mut site = Site::good();
    let facts = ask(&mut site.texts);
    assert_eq!(facts.folder(), Some("/etc/slurm"));
    assert_eq!(device_paths(&facts, &site.files), ["/dev/nvidia0", "/dev/nvidia1"]);
    let with = |path: &str, device: Device| {
        let mut site = Site::good();
        site.devices.insert(path.to_owned(), device);
        site
    };
    let regular = Device::Other("is a regular file".to_owned());
    with("/dev/nvidia1", regular).only("devices", Error, "/dev/nvidia1: is a regular file");
    with("/dev/nvidia1", Device::Character(3)).only("devices", Warning, "minor number 3");
    let files = |gres: Option<&str>, cgroup: Option<&str>| {
        let (gres, cgroup) = (gres.map(ToOwned::to_owned), cgroup.map(ToOwned::to_owned));
        Site { files: Files { seen: true, gres, cgroup, job_submit: None }, ..Site::good() }
    };
    let yes = Some("CONSTRAINDEVICES = Yes # all\n");
    files(Some("AutoDetect=nvml\n"), yes).only(
        "auto-detect",
        Error,
        "gres.conf:1: AutoDetect=nvml",
    );
    let swapped = GRES.replace("nvidia0", "nvidia8");
    files(Some(&swapped), yes).only("device-order", Error, "/dev/nvidia8 is GPU 0 of h1 for Slurm");
    files(None, yes).only("auto-detect", Warning, "no gres.conf");
    files(Some(GRES), yes).only("constrain-devices", Ok, "never overwritten");
    for text in [None, Some("ConstrainDevices=no\n"), Some("ConstrainCores=yes\n")] {
        files(Some(GRES), text).only("constrain-devices", Warning, "GPUs that they were not given");
    }
    let site = Site { files: Files::default(), devices: BTreeMap::new(), ..Site::good() };
    site.only("devices", Unknown, "not readable here");
    // Where a cgroup plugin is in use, Slurm shows the setting itself.
    let site = Site { files: Files::default(), devices: BTreeMap::new(), ..Site::good() };
    let site = site.config("TaskPlugin", "ConstrainDevices = yes\nTaskPlugin");
    site.only("constrain-devices", Ok, "ConstrainDevices=yes");
    let lua = |script: Option<&str>| {
        let mut site = Site::good().config("Plugins        = (null)", "Plugins = lua");
        site.files.job_submit = script.map(ToOwned::to_owned);
        site
    };
    lua(None).only("job-submit", Unknown, "could not be read");
    lua(Some("if job_desc.tres_per_node == nil then\n")).only("job-submit", Ok, "sets neither");
    lua(Some("-- gres\njob_desc.priority = 0\n")).only(
        "job-submit",
        Warning,
        "line 2: job_desc.priority = 0",
    );
}

#[test]
fn the_service_is_looked_at() {
    use State::{Error, Unknown, Warning};
    let backup = "Slurmctld(primary) at a is UP\nSlurmctld(backup) at b is DOWN\n";
    Site::good().say("scontrol ping", backup).only("answers", Warning, "(backup) at b is DOWN");
    for (version, state, words) in [
        ("slurm 25.05.1\n", Warning, "as documented"),
        ("slurm-wlm 20.11.4\n", Warning, "older than 22.05"),
        ("?\n", Unknown, "is not a version"),
    ] {
        Site::good().say("scontrol -V", version).only("version", state, words);
    }
    Site::good().say("srun --version", "MISSING").only(
        "commands",
        Error,
        "srun: failed to start it",
    );
    Site::good().say("sacct --version", "MISSING").only("commands", Warning, "sacct:");
    let config = "scontrol show config";
    Site::good().say(config, "FAILED Unable to contact slurm controller\n").only(
        "answers",
        Error,
        "Unable to contact",
    );
    // No text makes it panic, and nothing that is not understood passes for good.
    let site = Site::good()
        .say(config, "x\0=\n=\n")
        .say("scontrol show node -d", "?")
        .say("scontrol show partition", "=");
    assert!(site.findings().iter().filter(|finding| finding.state == State::Error).count() > 3);
}
